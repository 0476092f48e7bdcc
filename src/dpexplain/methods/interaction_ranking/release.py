"""Differentially private ranking of features, or of pairs of them, by how strongly they interact in a model.

Guarantee    as in `rank_aggregation`: one cost, for one unit replaced or added or removed. Public: the model, the
             pairs or features and their order, the number of parts and of points, the declared domain, and the number
             of rows under replace-one without units.
Statistic    Friedman's H^2 of each part (`plain.interaction`), as a ballot of Borda points; s_i = their sum.
Sensitivity  that of ballots: `rank_aggregation.spec.ballot_bounds`.
Release      all sums with noise; or, for the best k, a noisy selection of k items and then their sums.
References   Friedman, Popescu 2008; "Differentially Private Global Explanations", Algorithm 4 (method="paper").
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Literal

from dpexplain.core.budget import Cost
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.methods import parts as shared
from dpexplain.methods.black_box import BUILT_IN
from dpexplain.methods.interaction_ranking.request import InteractionRanking as InteractionRanking
from dpexplain.methods.plain import Levels, pairwise_interaction, total_interaction
from dpexplain.methods.rank_aggregation import release as voting
from dpexplain.methods.rank_aggregation.request import checked_items
from dpexplain.methods.rank_aggregation.result import Votes
from dpexplain.methods.rank_aggregation.spec import Spec
from dpexplain.methods.setting import Outlook, Setting
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped

KINDS = {"pairwise": "Interaction of pairs (H)", "total": "Interaction with all other features (H)"}
ROWS_AT_ONCE = 2**10  # each of them predicted with the values of all other points of its part
MAX_PREDICTIONS = 6_000_000  # by default: about a minute for a forest on two cores


def views_of(request: InteractionRanking, setting: Setting) -> list[tuple[str, ...]]:
    """The pairs, or single features, that are ranked."""
    uses = list(setting.domain) if setting.features is None else setting.features
    asked = uses if request.features is None else request.features
    views: list[tuple[str, ...]] = [(name,) for name in asked]
    if request.against is not None:
        views = [(request.against, name) for name in asked if name != request.against]
    elif request.kind == "pairwise":
        views = list(itertools.combinations(asked, 2) if request.pairs is None else request.pairs)
    for name in dict.fromkeys(itertools.chain(asked, *views)):
        setting.domain.column(name)
    if len({frozenset(view) for view in views}) < len(views):
        raise InputError("a feature or a pair is named twice.")
    if len(views) < 2:
        raise InputError("a ranking needs at least two features, or two pairs.")
    return views


def predictions(views: Sequence[tuple[str, ...]], kind: str, points: int) -> int:
    """How many predictions one part costs at most."""
    if kind == "total":
        return (2 * len(views) * points + 1) * points
    return (len({name for view in views for name in view}) + len(views)) * points**2


def resolve(request: InteractionRanking, setting: Setting, cost: Cost) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    views, points = views_of(request, setting), request.points
    ranker = {
        "name": f"h-{request.kind}",
        "version": BUILT_IN,
        "built_in": True,
        "title": KINDS[request.kind],
        "views": [list(view) for view in views],
        "points": points,
    }
    most = MAX_PREDICTIONS // predictions(views, request.kind, points)
    if setting.hint is not None:
        most = min(most, setting.hint // points)  # a part has rows for all its points
    items = checked_items([" x ".join(view) for view in views])
    return voting.with_parts(request, items, ranker, setting, cost, max(2, most))


def outlook(request: InteractionRanking, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the mean points."""
    return voting.outlook_of(resolve(request, setting, cost), setting.neighbours, cost)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    flow = voting.diagram()
    stages = {**flow.stages, "ballots": "Friedman's H of each part, ranked"}
    return DataFlow(stages, flow.edges, name="Interaction ranking", noised=flow.noised)


def explain(table: PrivateTable, model: Model, request: InteractionRanking, *, cost: Cost) -> Votes:
    """Release the ranking of `request` for `cost`."""
    model = shared.required_model(model, "an interaction ranking")
    setting = Setting.of(table, model)
    spec, views = resolve(request, setting, cost), views_of(request, setting)
    levels = Levels(table.predictor(model), model.output)
    columns = list(dict.fromkeys([*levels.predictor.features, *itertools.chain(*views)]))
    scores = (
        partial(total_interaction, features=[view[0] for view in views])
        if request.kind == "total"
        else partial(pairwise_interaction, pairs=[(view[0], view[1]) for view in views])
    )
    scores = partial(scores, levels=levels, points=request.points)
    public = ["the model", "the items", "the number of parts and of points"]
    how = {"parallel": model.thread_safe, "at_once": ROWS_AT_ONCE}
    return voting.release_votes(
        "interaction-ranking", table, request, spec, cost, columns, scores, public, model.identity, how
    )


@of_wrapped
def interaction_ranking(
    table: PrivateTable,
    model: Model,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    kind: Literal["pairwise", "total"] = "pairwise",
    features: Sequence[str] | None = None,
    pairs: Sequence[tuple[str, str]] | None = None,
    against: str | None = None,
    points: int = 24,
    parts: int | None = None,
    k: int | None = None,
    mechanism: Literal["cube", "discrete-laplace", "discrete-gaussian"] | None = None,
    method: Literal["default", "paper"] = "default",
) -> Votes:
    """Differentially private ranking of pairs of features (or of features) by Friedman's H.

    `epsilon` (or `rho`) is the whole cost. `requests.InteractionRanking` describes the options.
    """
    request = InteractionRanking(
        kind=kind, features=features, pairs=pairs, against=against, points=points, parts=parts, k=k,
        mechanism=mechanism, method=method,
    )  # fmt: skip
    return explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho))
