"""The public requests: frozen descriptions of a release, for `plan`, project files and the command line.

Which ones there are is asked of the registry when somebody wants one: importing this module loads nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; a test compares with the registry
    from dpexplain.methods.accumulated_effects.release import AccumulatedEffects as AccumulatedEffects
    from dpexplain.methods.generic_plot.release import GenericPlot as GenericPlot
    from dpexplain.methods.interaction_ranking.release import InteractionRanking as InteractionRanking
    from dpexplain.methods.local_explanation.release import LocalExplanation as LocalExplanation
    from dpexplain.methods.partial_dependence.request import PartialDependence as PartialDependence
    from dpexplain.methods.permutation_importance.release import PermutationImportance as PermutationImportance
    from dpexplain.methods.rank_aggregation.release import RankAggregation as RankAggregation
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
