"""The public requests: frozen descriptions of a release, for `plan`, project files and the command line."""

from dpexplain.clusters.explain import ClustersRequest as Clusters
from dpexplain.clusters.kmeans import KMeansRequest as KMeans
from dpexplain.explainers.accumulated_effects import AccumulatedEffects
from dpexplain.explainers.generic_plot import GenericPlot
from dpexplain.explainers.influence import InfluenceRequest as Influence
from dpexplain.explainers.interaction_ranking import InteractionRanking
from dpexplain.explainers.local_explanation import LocalExplanation
from dpexplain.explainers.local_sketch import LocalSketchRequest as LocalSketch
from dpexplain.explainers.marginals import MarginalsRequest as Marginals
from dpexplain.explainers.partial_dependence import PartialDependence
from dpexplain.explainers.permutation_importance import PermutationImportance
from dpexplain.explainers.quantiles import QuantilesRequest as Quantiles
from dpexplain.explainers.rank_aggregation import RankAggregation
from dpexplain.explainers.transparency import TransparencyRequest as TransparencyReport

__all__ = [
    "AccumulatedEffects",
    "Clusters",
    "GenericPlot",
    "Influence",
    "InteractionRanking",
    "KMeans",
    "LocalExplanation",
    "LocalSketch",
    "Marginals",
    "PartialDependence",
    "PermutationImportance",
    "Quantiles",
    "RankAggregation",
    "TransparencyReport",
]
