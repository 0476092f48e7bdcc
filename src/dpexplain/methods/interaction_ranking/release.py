"""Differentially private ranking of features, or of pairs of them, by how strongly they interact in a model.

Guarantee    as in `rank_aggregation`: one price, for one unit replaced or added or removed. Public: the model, the
             pairs or features and their order, the number of parts and of points, the declared domain, and the number
             of rows under replace-one without units.
Statistic    Friedman's H^2 of each part (`plain.interaction`), as a ballot of Borda points; s_i = their sum.
Sensitivity  that of ballots: `rank_aggregation.ballot_bounds`.
Release      all sums with noise; or, for the best k, a noisy selection of k items and then their sums.
References   Friedman, Popescu 2008; "Differentially Private Global Explanations", Algorithm 4.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpexplain.core.budget import Cost
from dpexplain.core.domain import Domain
from dpexplain.core.noise import Noise
from dpexplain.core.sensitivity import Assignment, Neighbours, Sensitivity
from dpexplain.data.assignment import assignment_for
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.methods import parts as shared
from dpexplain.methods.plain import Dealt, Levels, pairwise_interaction, total_interaction
from dpexplain.methods.plain.grouped import Floats
from dpexplain.methods.rank_aggregation import release as voting
from dpexplain.methods.rank_aggregation.release import Spec
from dpexplain.methods.rank_aggregation.result import Votes
from dpexplain.methods.setting import Outlook, Setting
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped

KINDS = {"pairwise": "Interaction of pairs (H)", "total": "Interaction with all other features (H)"}
POINTS = 24
MOST_POINTS = 500
MOST_PREDICTIONS = 6_000_000  # by default: about a minute for a forest on two cores


@dataclass(frozen=True, kw_only=True)
class InteractionRanking:
    """The request: everything about the release that a caller decides.

    kind       "pairwise": pairs of features; "total": each feature against all others
    features   which features (default: all of the model)
    pairs      which pairs, instead of all pairs of `features`
    points     how many rows of a part its partial dependences are taken over and evaluated at
    parts      how many ballots; by default the forecast and the number of predictions decide
    k          release the best k only
    mechanism  of the noise on the points
    """

    kind: str = "pairwise"
    features: Sequence[str] | None = None
    pairs: Sequence[tuple[str, str]] | None = None
    points: int = POINTS
    parts: int | None = None
    k: int | None = None
    mechanism: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"unknown kind {self.kind!r}.", hint='use "pairwise" or "total"')
        whole = isinstance(self.points, int) and not isinstance(self.points, bool)
        if not whole or not 2 <= self.points <= MOST_POINTS:
            raise InputError(f"points must be a whole number from 2 to {MOST_POINTS}; got {self.points!r}.")
        if self.kind == "total" and self.points == 2:
            raise InputError(
                'with two points, H of kind "total" is zero whatever the model does.', hint="use at least 3 points"
            )
        if self.pairs is not None and (self.features is not None or self.kind == "total"):
            raise InputError('pairs stand for themselves: they go without features, and with kind "pairwise" only.')
        if any(isinstance(x, str) or not isinstance(x, Sequence | None) for x in (self.features, self.pairs)):
            raise InputError("features must be a list of names, pairs a list of pairs of names.")
        for pair in self.pairs or ():
            named = isinstance(pair, tuple | list) and all(isinstance(name, str) for name in pair)
            if not named or len(pair) != 2 or pair[0] == pair[1]:
                raise InputError("a pair has two different names.", hint='pairs=[("age", "sex"), ("age", "income")]')
        voting.checked_k(self.k)

    @property
    def label(self) -> str:
        return "ranking of pairs by interaction" if self.kind == "pairwise" else "ranking by total interaction"


def views_of(request: InteractionRanking, features: Sequence[str], domain: Domain) -> list[tuple[str, ...]]:
    """The pairs, or single features, that are ranked; `features` are those of the model."""
    asked = list(features) if request.features is None else list(request.features)
    views: list[tuple[str, ...]]
    if request.pairs is not None:
        views = [(pair[0], pair[1]) for pair in request.pairs]
    else:
        views = [(name,) for name in asked] if request.kind == "total" else list(itertools.combinations(asked, 2))
    for name in dict.fromkeys(itertools.chain(asked, *views)):
        domain.column(name)
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


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """That of ballots."""
    return voting.sensitivity(spec, neighbours)


def resolve(
    request: InteractionRanking,
    domain: Domain,
    neighbours: Neighbours,
    assignment: Assignment,
    rows: int | None,
    cost: Cost,
    features: Sequence[str],
) -> Spec:
    """The concrete spec of a request for a model with these features. Reads nothing but public things."""
    views = views_of(request, features, domain)
    items = voting.checked_items([" x ".join(view) for view in views])
    ranker = {
        "name": f"h-{request.kind}",
        "version": shared.BUILT_IN,
        "built_in": True,
        "title": KINDS[request.kind],
        "views": [list(view) for view in views],
        "points": request.points,
    }
    most = max(2, MOST_PREDICTIONS // predictions(views, request.kind, request.points))
    if rows is not None:
        most = max(2, min(most, rows // request.points))  # a part has rows for all its points
    return voting.with_parts(
        items, ranker, request.k, request.mechanism, request.parts, neighbours, assignment, rows, cost, most
    )


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of the points at this price. Costs nothing, touches no data."""
    return voting.forecast(spec, neighbours, cost)


def outlook(request: InteractionRanking, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the mean points."""
    features = list(setting.domain) if setting.features is None else setting.features
    dealt = assignment_for(setting.neighbours, None)
    spec = resolve(request, setting.domain, setting.neighbours, dealt, setting.hint, cost, features)
    return voting.outlook_of(spec, setting.neighbours, cost)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    flow = voting.diagram()
    stages = {**flow.stages, "ballots": "Friedman's H of each part, ranked"}
    return DataFlow(stages, flow.edges, name="Interaction ranking", noised=flow.noised)


def explain(table: PrivateTable, model: Model, request: InteractionRanking, *, cost: Cost) -> Votes:
    """Release the ranking of `request` for `cost`."""
    domain, neighbours = table.domain, table.neighbours
    model = shared.required_model(model, "an interaction ranking")
    spec = resolve(request, domain, neighbours, table.assignment, table.rows_hint, cost, model.features(domain))
    voting.check_noise(spec, neighbours, cost)
    voting.warn_of_chance(request.label, spec, neighbours, cost)
    levels = Levels(table.predictor(model), model.output, model.thread_safe)
    views = views_of(request, levels.predictor.features, domain)
    columns = list(dict.fromkeys([*levels.predictor.features, *itertools.chain(*views)]))
    identity = {
        "explainer": "interaction-ranking",
        "table": table.identity,
        "model": model.identity,
        "spec": spec.to_json(neighbours),
        "public": ["the model", "the items", "the number of parts and of points"],
    }
    scores = shared.pulsing(request.label, _scores(request, levels, views))
    return voting.release_votes(table, request.label, spec, columns, scores, identity, cost)


def _scores(request: InteractionRanking, levels: Levels, views: Sequence[tuple[str, ...]]) -> Callable[[Dealt], Floats]:
    """The function from dealt rows to H^2 [part, item]."""
    if request.kind == "total":
        return lambda dealt: total_interaction(dealt, levels, [view[0] for view in views], request.points)
    return lambda dealt: pairwise_interaction(dealt, levels, [(view[0], view[1]) for view in views], request.points)


@of_wrapped
def interaction_ranking(
    table: PrivateTable, model: Model, *, epsilon: Any = None, rho: Any = None, **options: Any
) -> Votes:
    """Differentially private ranking of pairs of features (or of features) by Friedman's H.

    `epsilon` (or `rho`) is the whole price. Options: see `requests.InteractionRanking`.
    """
    request = InteractionRanking(**options)
    return explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho))
