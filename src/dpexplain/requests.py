"""The public requests: frozen descriptions of a release, for `plan`, project files and the command line.

Which ones there are is asked of the registry when somebody wants one: importing this module loads nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; a test compares with the registry
    from dpexplain.methods.accumulated_effects.request import AccumulatedEffects
    from dpexplain.methods.adaptive.request import AdaptiveExplanation
    from dpexplain.methods.clusters.request import Clusters
    from dpexplain.methods.compare.request import Compare
    from dpexplain.methods.generic_plot.request import GenericPlot
    from dpexplain.methods.influence.request import InfluenceRequest as Influence
    from dpexplain.methods.interaction_ranking.request import InteractionRanking
    from dpexplain.methods.kmeans.request import KMeans
    from dpexplain.methods.local_explanation.request import LocalExplanation
    from dpexplain.methods.local_sketch.request import LocalSketchRequest as LocalSketch
    from dpexplain.methods.marginals.request import MarginalsRequest as Marginals
    from dpexplain.methods.partial_dependence.request import PartialDependence
    from dpexplain.methods.performance.request import PerformanceRequest as Performance
    from dpexplain.methods.permutation_importance.request import PermutationImportance
    from dpexplain.methods.quantiles.request import QuantilesRequest as Quantiles
    from dpexplain.methods.rank_aggregation.request import RankAggregation
    from dpexplain.methods.reports.request import ReportRequest as Report
    from dpexplain.methods.stand_in.request import StandInRequest as StandIn
    from dpexplain.methods.transparency.request import TransparencyRequest as TransparencyReport

    __all__ = [
        "AccumulatedEffects", "AdaptiveExplanation", "Clusters", "Compare", "GenericPlot", "Influence",
        "InteractionRanking", "KMeans", "LocalExplanation", "LocalSketch", "Marginals", "PartialDependence",
        "Performance", "PermutationImportance", "Quantiles", "RankAggregation", "Report", "StandIn",
        "TransparencyReport",
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
