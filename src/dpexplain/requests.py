"""The public requests: frozen descriptions of a release, for `plan`, project files and the command line."""

from dpexplain.methods.accumulated_effects.release import AccumulatedEffects
from dpexplain.methods.clusters.request import Clusters
from dpexplain.methods.generic_plot.release import GenericPlot
from dpexplain.methods.influence.release import InfluenceRequest as Influence
from dpexplain.methods.interaction_ranking.release import InteractionRanking
from dpexplain.methods.kmeans.request import KMeans
from dpexplain.methods.local_explanation.release import LocalExplanation
from dpexplain.methods.local_sketch.release import LocalSketchRequest as LocalSketch
from dpexplain.methods.marginals.release import MarginalsRequest as Marginals
from dpexplain.methods.partial_dependence.request import PartialDependence
from dpexplain.methods.permutation_importance.release import PermutationImportance
from dpexplain.methods.quantiles.release import QuantilesRequest as Quantiles
from dpexplain.methods.rank_aggregation.release import RankAggregation
from dpexplain.methods.transparency.release import TransparencyRequest as TransparencyReport

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
