"""Differentially private ranking of items by any ranker, a black box that is run on parts of the rows.

Guarantee    the account's definition and price, for one unit replaced or added or removed. Public: the ranker, the
             model, the items and their order, the number of parts, the declared domain, and the number of rows under
             replace-one without units. The ranker must look at nothing but the part it is given.
Statistic    rows are dealt to l parts, each part is a ballot: the item at place r = 0..M-1 gets M-1-r points (Borda).
             A part that fails gives all items the mean, (M-1)/2. Points times UNIT are whole numbers; s_i = their sum.
Sensitivity  changing one ballot moves k of the M sums by at most, in points, the k first of
             (M-1, M-1, M-3, M-3, ...), in each of the three norms; c ballots c times as far. The norms for k = M are
             floor(M^2 / 2) in L1, M (M^2 - 1) / 3 in squared L2, M - 1 in L-inf. docs/methods/rank-aggregation.md.
Release      all sums with noise; or, for the best k, a noisy selection of k items and then their sums.
References   "Differentially Private Global Explanations", Algorithm 4; de Borda 1781; Diaconis, Graham 1977.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain
from dpexplain.core.mechanisms import Selection, best, selection
from dpexplain.core.noise import Noise
from dpexplain.core.release import Gate, split
from dpexplain.core.sensitivity import Assignment, Neighbours, ScoreRange, Sensitivity
from dpexplain.data.assignment import assignment_for
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import BudgetWarning, InputError, warn
from dpexplain.methods import parts as shared
from dpexplain.methods.plain import Dealt, Levels, importance
from dpexplain.methods.plain.grouped import Floats
from dpexplain.methods.rank_aggregation.result import Votes
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.methods.targets import target_of
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped
from dpexplain.receipts import receipt_for

Integers = NDArray[np.int64]

UNIT = 2**11  # of one point: even, so that half points are whole; large, so that the cube mechanism is at hand
SELECTION_SHARE = Fraction(1, 2)  # of the price of the best k: to choose them; the rest tells their points
SMALL_BALLOTS = 0.5  # what small parts are taken to distort: this times parts / rows, of all the points there are
USUAL_AGREEMENT = 0.5  # of ballots: the spread of mean points, as a share of the one if all of them agreed
MOSTLY_CHANCE, GOOD_ORDER = 0.7, 0.8  # probability that two items stand in their true order
TITLES = {"importance": "Permutation importance"}


@dataclass(frozen=True, kw_only=True)
class RankAggregation:
    """The request: everything about the release that a caller decides.

    ranker     a function (rows, model) that returns all items, the best first, or a number for each of them, or
               {item: number} (higher is better, equal ones share their points); or "importance" for our own plain
               permutation importance, which needs `target`
    items      the names that are ranked, in a public order (for "importance": features, by default the model's)
    target     the column that the model predicts, for "importance"
    columns    the columns that the function sees (default: all declared ones)
    parts      how many ballots; by default the forecast decides
    k          release the best k only
    name, version   identify the function in the ledger, as in `requests.GenericPlot`: every call without a version, or
               with a model without one, counts as a new one
    mechanism  of the noise on the points
    """

    ranker: Callable[..., Any] | str
    items: Sequence[str] | None = None
    target: str | None = None
    columns: Sequence[str] | None = None
    parts: int | None = None
    k: int | None = None
    name: str | None = None
    version: str | None = None
    mechanism: str | None = None

    def __post_init__(self) -> None:
        shared.checked_function(self.ranker, "ranker", ["importance"])
        name, version = shared.identity_of(self.ranker, self.name, self.version)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "version", version)
        if self.items is None and self.built_in is None:
            raise InputError("name the items that the function ranks.", hint='items=["age", "sex"]')
        if self.items is not None:
            object.__setattr__(self, "items", checked_items(self.items))
        checked_k(self.k)
        if isinstance(self.columns, str) or (self.columns is not None and not list(self.columns)):
            raise InputError("columns must be a list of names.", hint='columns=["age", "sex"], or leave it out for all')
        if (self.target is None) is (self.built_in is not None):
            raise InputError(
                'the target belongs to the ranker "importance", which cannot do without it.',
                hint='target="income": the declared column that the model predicts',
            )

    @property
    def built_in(self) -> str | None:
        return self.ranker if isinstance(self.ranker, str) else None

    @property
    def label(self) -> str:
        return f"ranking by {self.name}"


@dataclass(frozen=True)
class Spec:
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    items: tuple[str, ...]
    parts: int
    assignment: Assignment
    k: int | None  # None: all items
    mechanism: str | None
    ranker: JsonObject  # its name, version and title, and what else identifies it

    def to_json(self, neighbours: Neighbours) -> JsonObject:
        return {
            "items": list(self.items),
            "unit": UNIT,
            "parts": shared.part_facts(self.assignment, neighbours, self.parts),
            "k": self.k,
            "mechanism": self.mechanism,
            "ranker": self.ranker,
        }


def statistic(ballots: Integers) -> Integers:
    """The sums that are released, from one ballot for each part."""
    sums: Integers = ballots.sum(axis=0)
    return sums


def ballots_of(scores: Floats) -> Integers:
    """[part, item] in units of points, from scores [part, item]: higher is better, equal ones share their points.

    A part with a score that is no finite number fails: all its items get the mean.
    """
    from scipy.stats import rankdata

    failed = np.logical_not(np.isfinite(scores).all(axis=1, keepdims=True))
    places = rankdata(np.where(failed, 0.0, scores), axis=1)  # from 1; of equal ones the mean, a multiple of one half
    points: Integers = np.rint((places - 1) * UNIT).astype(np.int64)
    return points


def ballot_bounds(items: int, released: int) -> tuple[int, int, int]:
    """How far one ballot can move `released` of its `items` points: L1, squared L2 and L-inf, in points.

    Proof. Let d be the difference of two ballots, and of its entries take any k: p where the new points are higher,
    k - p where they are lower. The new ballot gives the p at most the highest points and the others at least the lowest
    ones, the old ballot the other way round, so with g(p) = sum_{j<p} (M-1-2j) = p (M-p) the sum of these |d_i| is at
    most g(p) + g(k-p), and g is concave: at most g(floor(k/2)) + g(ceil(k/2)). That is the sum of the k first entries
    of r = (M-1, M-1, M-3, M-3, ...), for every k: the sorted |d| is weakly majorised by r. Hence the L1 norm and, the
    square being convex and increasing, the squared L2 norm of the released entries of d are at most those of the k
    first entries of r; a reversed ballot attains them. A ballot on which items share points (all of them, on a failed
    one) is a mean of ballots that do not, and norms are convex: it is never further away.
    """
    farthest = sorted((abs(items - 1 - 2 * j) for j in range(items)), reverse=True)[:released]
    return sum(farthest), sum(move * move for move in farthest), items - 1


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """Of the released sums. The norms obey the triangle inequality: c ballots move them c times as far."""
    changed = spec.assignment.changed_parts(neighbours)
    l1, l2_squared, linf = ballot_bounds(len(spec.items), spec.k or len(spec.items))
    c = UNIT * changed
    return Sensitivity(neighbours, c * l1, c * c * l2_squared, c * linf)


def score_range(spec: Spec, neighbours: Neighbours) -> ScoreRange:
    """One ballot moves a sum by M - 1 points at most, either way."""
    most = UNIT * spec.assignment.changed_parts(neighbours) * (len(spec.items) - 1)
    return ScoreRange(neighbours, -most, most)


def resolve(
    request: RankAggregation,
    domain: Domain,
    neighbours: Neighbours,
    assignment: Assignment,
    rows: int | None,
    cost: Cost,
    features: Sequence[str] | None = None,
) -> Spec:
    """The concrete spec of a request; `features` are those of the model, where the items are left to it."""
    for name in (*(request.columns or ()), *([] if request.target is None else [request.target])):
        domain.column(name)
    items = tuple(request.items) if request.items is not None else checked_items(features or ())
    if request.built_in is not None:
        for name in items:
            domain.column(name)
    columns = None if request.columns is None else list(request.columns)
    title = request.name if request.built_in is None else TITLES[request.built_in]
    ranker: JsonObject = {"name": request.name, "version": request.version, "title": title}
    ranker |= {"built_in": request.built_in is not None, "target": request.target, "columns": columns}
    calls = shared.MOST_PARTS if request.built_in else shared.MOST_CALLS
    return with_parts(
        items, ranker, request.k, request.mechanism, request.parts, neighbours, assignment, rows, cost, calls
    )


def with_parts(
    items: tuple[str, ...],
    ranker: JsonObject,
    k: int | None,
    mechanism: str | None,
    parts: int | None,
    neighbours: Neighbours,
    assignment: Assignment,
    rows: int | None,
    cost: Cost,
    most: int,
) -> Spec:
    """A spec whose number of parts is the one asked for, or else the one with the smallest forecast error."""
    if k is not None and k > len(items):
        raise InputError(f"the best {k} of {len(items)} items were asked for.", hint=f"use k={len(items)} at most")
    shared.checked_parts(parts, rows if neighbours.rows_public else None)

    def spec(number: int) -> Spec:
        return Spec(items, number, assignment, None if k == len(items) else k, mechanism, ranker)

    if parts is not None or rows is None:
        return spec(parts or min(most, shared.UNKNOWN_ROWS_PARTS))
    noise = forecast(spec(2), neighbours, cost)["votes"]  # the noise of a sum: the number of parts is not in it
    span = UNIT * (len(items) - 1)

    def expected_loss(number: int) -> float:
        """Squared error of a mean, in units of all the points there are: noise, small parts, empty parts."""
        empty = shared.empty_share(number, rows, neighbours, assignment)
        return (noise.std / (span * number)) ** 2 + (SMALL_BALLOTS * number / rows + empty / 2) ** 2

    return spec(min(shared.ladder(min(rows, most)), key=expected_loss))


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of the points at this price. Costs nothing, touches no data."""
    _, votes_cost = split(cost, _selection_share(spec))
    return {"votes": best(sensitivity(spec, neighbours), spec.k or len(spec.items), votes_cost, spec.mechanism)}


def forecast_selection(spec: Spec, neighbours: Neighbours, cost: Cost) -> Selection | None:
    """How noisy the choice of the best k is; None where all items are released."""
    if spec.k is None:
        return None
    top_cost, _ = split(cost, SELECTION_SHARE)
    return selection(score_range(spec, neighbours), len(spec.items), top_cost, spec.k)


def _selection_share(spec: Spec) -> Fraction:
    return Fraction(0) if spec.k is None else SELECTION_SHARE


def outlook(request: RankAggregation, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the mean points."""
    dealt = assignment_for(setting.neighbours, None)
    spec = resolve(request, setting.domain, setting.neighbours, dealt, setting.hint, cost, setting.features)
    return outlook_of(spec, setting.neighbours, cost)


def outlook_of(spec: Spec, neighbours: Neighbours, cost: Cost) -> Outlook:
    check_noise(spec, neighbours, cost)
    noise, unit = forecast(spec, neighbours, cost)["votes"], 1 / (UNIT * spec.parts)
    most = float(len(spec.items) - 1)  # no mean can be further off
    std, error, band = (min(x * unit, most) for x in (noise.std, noise.halfwidth(LEVEL), noise.band(LEVEL)))
    words = chance_words(spec, neighbours, cost)
    return Outlook(noise.law.value, noise.size, std, error, band, note=words[:1].upper() + words[1:])


def agreement(spec: Spec, neighbours: Neighbours, cost: Cost) -> float:
    """How probable it is that two items come out in their true order, forecast from public things.

    If all ballots agreed, true means would be 0, 1, ..., M - 1; they are taken as spread half as far, normally. Two of
    them then keep their order under independent errors with probability 1/2 + arctan(spread / error) / pi.
    """
    spread = USUAL_AGREEMENT * math.sqrt((len(spec.items) ** 2 - 1) / 12)
    error = forecast(spec, neighbours, cost)["votes"].std / (UNIT * spec.parts)
    return 0.5 + math.atan2(spread, error) / math.pi


def chance_words(spec: Spec, neighbours: Neighbours, cost: Cost) -> str:
    """What the forecast says where the order would be little better than chance; nothing elsewhere."""
    right = agreement(spec, neighbours, cost)
    if right >= MOSTLY_CHANCE:
        return ""
    times = math.tan((GOOD_ORDER - 0.5) * math.pi) / math.tan((right - 0.5) * math.pi)
    return (
        f"at this price the order would be near chance: two items stand in their true order with probability "
        f"{right:.2f}, where tossing a coin has 0.5. About {times:.2g} times the price would make it {GOOD_ORDER:g}; "
        "fewer items or more rows help too."
    )


def warn_of_chance(label: str, spec: Spec, neighbours: Neighbours, cost: Cost) -> None:
    """Say so before anything is spent. No refusal: whoever studies small prices may want this very answer."""
    if words := chance_words(spec, neighbours, cost):
        warn(BudgetWarning, f"{label}: {words}")


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "parts": "rows dealt to a public number of parts",
        "ballots": "the ranker on each part",
        "top": "choice of the best k, where only these are asked for",
        "votes": "points added up over parts",
        "ranking": "items by their mean points",
    }
    edges = [
        ("table", "parts"), ("parts", "ballots"), ("ballots", "top"), ("ballots", "votes"), ("top", "ranking"),
        ("votes", "ranking"),
    ]  # fmt: skip
    return DataFlow(stages, edges, name="Rank aggregation", noised=["top", "votes"])


def explain(table: PrivateTable, model: Any, request: RankAggregation, *, cost: Cost) -> Votes:
    """Release the ranking of `request` for `cost`."""
    domain, built_in = table.domain, request.built_in
    features = None if built_in is None else shared.required_model(model, f"the ranker {built_in!r}").features(domain)
    spec = resolve(request, domain, table.neighbours, table.assignment, table.rows_hint, cost, features)
    check_noise(spec, table.neighbours, cost)
    warn_of_chance(request.label, spec, table.neighbours, cost)
    columns, scores = _black_box(table, model, request, spec)
    identity = {
        "explainer": "rank-aggregation",
        "table": table.identity,
        "model": shared.identified(table, model) if request.built_in is None else model.identity,
        "spec": spec.to_json(table.neighbours),
        "public": ["the ranker", "the items", "the number of parts", "the model"],
    }
    return release_votes(table, request.label, spec, columns, scores, identity, cost)


def check_noise(spec: Spec, neighbours: Neighbours, cost: Cost) -> None:
    """Refuse an unavailable mechanism or an impossible price before anything is reserved."""
    forecast(spec, neighbours, cost)
    forecast_selection(spec, neighbours, cost)


def release_votes(
    table: PrivateTable,
    label: str,
    spec: Spec,
    columns: Sequence[str],
    scores: Callable[[Dealt], Floats],
    identity: JsonObject,
    cost: Cost,
) -> Votes:
    """Send the ballots of all parts through the door; `scores` gives a number for each part and item."""

    def body(gate: Gate) -> None:
        sums = statistic(ballots_of(scores(shared.collect(table, gate, columns, spec.parts))))
        top_cost, votes_cost = split(cost, _selection_share(spec))
        if spec.k is not None:
            chosen = gate.select("top", sums, score_range(spec, gate.neighbours), top_cost, k=spec.k)
            sums = sums[sorted(chosen)]
        gate.noisy_sum("votes", sums, sensitivity(spec, gate.neighbours), votes_cost, mechanism=spec.mechanism)

    public = [*identity["public"], table.domain.describe(), *table.neighbours.public]
    released = table.door.release(label, {**identity, "public": public}, cost, body)
    return Votes(receipt_for(table.budget, table.neighbours, released, table.domain), released.payload)


def _black_box(
    table: PrivateTable, model: Any, request: RankAggregation, spec: Spec
) -> tuple[list[str], Callable[[Dealt], Floats]]:
    """The columns that are read, and the function from dealt rows to scores [part, item], tried on synthetic rows."""
    items, domain = spec.items, table.domain
    if request.built_in is not None:
        assert isinstance(model, Model)
        assert request.target is not None
        target = request.target
        if target in model.features(domain) or target in items:
            raise InputError(
                f"{target!r} is the target: the model must not use it, and it cannot be ranked.",
                hint="say which columns the model uses with Model(features=[...])",
            )
        truth = target_of(target, domain, model.label)
        levels = Levels(table.predictor(model), model.output, model.thread_safe)
        columns = list(dict.fromkeys([*levels.predictor.features, *items, target]))
        return columns, shared.pulsing(request.label, lambda dealt: importance(dealt, levels, items, truth(dealt.rows[target])))
    function, given = request.ranker, shared.original(model)
    assert callable(function)
    columns = list(domain) if request.columns is None else list(request.columns)
    reader = shared.Reader(domain, columns)
    synthetic = shared.synthetic_parts(domain, shared.synthetic_sizes(table.rows_hint, spec.parts), None)
    shared.try_out(reader, function, given, synthetic, lambda answer: _problem(answer, items))

    def understood(answer: Any) -> Floats:
        return np.full(len(items), np.nan) if answer is None else _scores(answer, items)

    def scores(dealt: Dealt) -> Floats:
        found = shared.answers(dealt, reader, function, given, understood)
        return np.array(list(shared.tracked(request.label, dealt.parts, iter(found))))

    return columns, scores


def _scores(answer: Any, items: tuple[str, ...]) -> Floats:
    """A number for each item from any of the three forms of a ballot; NaN if it is none of them."""
    if isinstance(answer, pd.Series) and not isinstance(answer.index, pd.RangeIndex):
        if not answer.index.is_unique:
            return np.full(len(items), np.nan)
        answer = answer.to_dict()  # by its labels, in whatever order they stand
    if isinstance(answer, Mapping):
        if set(answer) != set(items):
            return np.full(len(items), np.nan)
        return np.array([float(answer[item]) for item in items])
    listed = list(answer)
    if len(listed) != len(items):
        return np.full(len(items), np.nan)
    if all(isinstance(entry, str) for entry in listed):
        if set(listed) != set(items):
            return np.full(len(items), np.nan)
        return np.array([-float(listed.index(item)) for item in items])
    return np.array([float(entry) for entry in listed])


def _problem(answer: Any, items: tuple[str, ...]) -> str:
    """What is wrong with a ballot of synthetic rows, in words; nothing if it can be used."""
    try:
        if answer is not None and np.isfinite(_scores(answer, items)).all():
            return ""
    except (TypeError, ValueError):
        pass
    if answer is None:
        return "it returns nothing"
    return f"it returns neither all {len(items)} items in order nor a finite number for each of them"


def checked_items(items: Any) -> tuple[str, ...]:
    listed = isinstance(items, Sequence | np.ndarray) and not isinstance(items, str)
    names = tuple(items) if listed else ()
    if not all(isinstance(name, str) for name in names) or len(names) < 2:
        raise InputError("items must be a list of at least two names.", hint="one item has nothing to be ranked with")
    if len(set(names)) < len(names):
        raise InputError("an item is named twice.")
    return names


def checked_k(k: Any) -> None:
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise InputError(f"k must be a whole number of at least 1; got {k!r}.")


@of_wrapped
def rank_aggregation(
    table: PrivateTable,
    ranker: Callable[..., Any] | str,
    items: Sequence[str] | None = None,
    *,
    model: Any = None,
    epsilon: Any = None,
    rho: Any = None,
    **options: Any,
) -> Votes:
    """Differentially private ranking of `items` by any ranker: a function (rows, model), or "importance".

    The function gets the clean rows of one part as a DataFrame, and what was given as `model`, as in `generic_plot`.
    `epsilon` (or `rho`) is the whole price. Options: see `requests.RankAggregation`.
    """
    request = RankAggregation(ranker=ranker, items=items, **options)
    return explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho))
