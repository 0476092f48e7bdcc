"""For the time of the move only: requests of methods that have not registered yet. Empty and gone when all have.

Public name of the request -> its class. A method that has registered is no longer looked for here, but for its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any

REQUESTS = {
    "AccumulatedEffects": "dpexplain.methods.accumulated_effects.release:AccumulatedEffects",
    "Clusters": "dpexplain.methods.clusters.release:ClustersRequest",
    "GenericPlot": "dpexplain.methods.generic_plot.release:GenericPlot",
    "Influence": "dpexplain.methods.influence.release:InfluenceRequest",
    "InteractionRanking": "dpexplain.methods.interaction_ranking.release:InteractionRanking",
    "KMeans": "dpexplain.methods.kmeans.release:KMeansRequest",
    "LocalExplanation": "dpexplain.methods.local_explanation.release:LocalExplanation",
    "LocalSketch": "dpexplain.methods.local_sketch.release:LocalSketchRequest",
    "Marginals": "dpexplain.methods.marginals.release:MarginalsRequest",
    "PermutationImportance": "dpexplain.methods.permutation_importance.release:PermutationImportance",
    "Quantiles": "dpexplain.methods.quantiles.release:QuantilesRequest",
    "RankAggregation": "dpexplain.methods.rank_aggregation.release:RankAggregation",
    "TransparencyReport": "dpexplain.methods.transparency.release:TransparencyRequest",
}
NEED_DELTA = ("LocalExplanation", "LocalSketch")


def _home(place: str) -> str:
    return place.partition(":")[0].removesuffix(".release")


def public_name(home: str) -> str:
    """The name that the request of this folder has had, or nothing."""
    return next((name for name, place in REQUESTS.items() if _home(place) == home), "")


def unported_requests(ported: Collection[str]) -> dict[str, type]:
    """The requests of those whose folders are not in `ported`."""
    left = {name: place.partition(":") for name, place in REQUESTS.items() if _home(place) not in ported}
    return {name: getattr(import_module(module), kind) for name, (module, _, kind) in left.items()}


def unported(kind: type, method: Callable[..., Any]) -> Any:
    """What a registration would say of this class of requests, as far as a plan needs it; None for other classes."""
    home = ".".join(kind.__module__.split(".")[:3])
    name = next((name for name, place in REQUESTS.items() if place.partition(":")[2] == kind.__name__), None)
    if name is None or _home(REQUESTS[name]) != home:
        return None
    about = dict.fromkeys(("title", "lead", "diagram"), "") | {"results": (), "needs_delta": name in NEED_DELTA}
    return method(name=name, request=kind, explain=".release:explain", outlook=".release:outlook", home=home, **about)
