"""The public requests: frozen descriptions of a release, for `plan`, project files and the command line.

Which ones there are is asked of the registry when somebody wants one: importing this module loads nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; a test compares with the registry
    from dpexplain.methods.accumulated_effects.release import AccumulatedEffects
    from dpexplain.methods.clusters.release import ClustersRequest as Clusters
    from dpexplain.methods.generic_plot.release import GenericPlot
    from dpexplain.methods.influence.release import InfluenceRequest as Influence
    from dpexplain.methods.interaction_ranking.release import InteractionRanking
    from dpexplain.methods.kmeans.release import KMeansRequest as KMeans
    from dpexplain.methods.local_explanation.release import LocalExplanation
    from dpexplain.methods.local_sketch.release import LocalSketchRequest as LocalSketch
    from dpexplain.methods.marginals.release import MarginalsRequest as Marginals
    from dpexplain.methods.partial_dependence.request import PartialDependence
    from dpexplain.methods.permutation_importance.release import PermutationImportance
    from dpexplain.methods.quantiles.release import QuantilesRequest as Quantiles
    from dpexplain.methods.rank_aggregation.release import RankAggregation
    from dpexplain.methods.transparency.release import TransparencyRequest as TransparencyReport

    __all__ = [
        "AccumulatedEffects", "Clusters", "GenericPlot", "Influence", "InteractionRanking", "KMeans",
        "LocalExplanation", "LocalSketch", "Marginals", "PartialDependence", "PermutationImportance", "Quantiles",
        "RankAggregation", "TransparencyReport",
    ]  # fmt: skip
else:

    def __getattr__(name: str) -> Any:
        if name.startswith("_") and name != "__all__":
            raise AttributeError(name)
        from dpexplain.methods.registry import requests_by_name

        known = requests_by_name()
        if name == "__all__":
            return sorted(known)
        if name not in known:
            raise AttributeError(f"there is no request {name!r}; there is: {', '.join(sorted(known))}")
        return known[name]


def __dir__() -> list[str]:
    from dpexplain.methods.registry import requests_by_name

    return sorted(requests_by_name())
