"""Differentially private ranking of items by any ranker, a black box that is run on parts of the rows.

Guarantee    the account's definition and cost, for one unit replaced or added or removed. Public: the ranker, the
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
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.noise import Law
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours
from dpexplain.data.dealing import Dealt
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import BudgetWarning, InputError, warn
from dpexplain.methods import parts as shared
from dpexplain.methods.black_box import MOST_PARTS, PAPER_PARTS
from dpexplain.methods.plain import Levels, importance
from dpexplain.methods.plain.grouped import Floats, Integers
from dpexplain.methods.rank_aggregation.request import RankAggregation, Vote, checked_items
from dpexplain.methods.rank_aggregation.result import Votes
from dpexplain.methods.rank_aggregation.spec import UNIT, Spec, forecast, score_range, sensitivity, statistic
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.methods.targets import target_of
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped

Scores = Callable[[Dealt], Floats]  # [part, item]

SMALL_BALLOTS = 0.5  # what small parts are taken to distort: this times parts / rows, of all the points there are
USUAL_AGREEMENT = 0.5  # of ballots: the spread of mean points, as a share of the one if all of them agreed
MOSTLY_CHANCE, GOOD_ORDER = 0.7, 0.8  # probability that two items stand in their true order


def resolve(request: RankAggregation, setting: Setting, cost: Cost) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    domain, target, built_in = setting.domain, request.target, request.built_in is not None
    items = checked_items(request.items or setting.features or ())
    for name in (*(request.columns or ()), *([target] if target else ()), *(items if built_in else ())):
        domain.column(name)
    if built_in and target in {*items, *(setting.features or ())}:
        raise InputError(
            f"{target!r} is the target: the model must not use it, and it cannot be ranked.",
            hint="say which columns the model uses with Model(features=[...])",
        )
    name, version = request.identity
    ranker = {
        "name": name,
        "version": version,
        "title": "Permutation importance" if built_in else name,
        "built_in": built_in,
        "target": target,
        "columns": None if request.columns is None else list(request.columns),
    }
    return with_parts(request, items, ranker, setting, cost, MOST_PARTS if built_in else shared.MOST_CALLS)


def with_parts(
    request: Vote,
    items: tuple[str, ...],
    ranker: JsonObject,
    setting: Setting,
    cost: Cost,
    most: int,
) -> Spec:
    """A spec whose number of parts is the one asked for, or else the one, up to `most`, with the smallest forecast
    error; in the published form the published number.
    """
    k, rows, neighbours, rule = request.k, setting.hint, setting.neighbours, setting.assignment
    published = request.method == "paper"
    if k is not None and k > len(items):
        raise InputError(f"the best {k} of {len(items)} items were asked for.", hint=f"use k={len(items)} at most")
    shared.checked_parts(request.parts, rows if neighbours.rows_public else None)

    def spec(number: int) -> Spec:
        dealing = shared.Dealing(number, rule, rule.changed_parts(neighbours))
        law = Law.LAPLACE.value if published else request.mechanism
        return Spec(items, dealing, None if k == len(items) else k, law, ranker, published=published)

    noise = forecast(spec(2), neighbours, cost)["votes"]  # the noise of a sum: the number of parts is not in it
    if request.parts is not None or rows is None or published:
        return spec(request.parts or min(most, PAPER_PARTS, rows or most))
    span = UNIT * (len(items) - 1)

    def expected_loss(number: int) -> float:
        """Squared error of a mean, in units of all the points there are: noise, small parts, empty parts."""
        empty = shared.empty_share(number, rows, neighbours, rule)
        return (noise.std / (span * number)) ** 2 + (SMALL_BALLOTS * number / rows + empty / 2) ** 2

    return spec(min(shared.ladder(min(rows, most)), key=expected_loss))


def outlook(request: RankAggregation, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the mean points."""
    return outlook_of(resolve(request, setting, cost), setting.neighbours, cost)


def outlook_of(spec: Spec, neighbours: Neighbours, cost: Cost) -> Outlook:
    """How far noise will move the mean points; no mean can be further off than all the points there are."""
    noise, unit = forecast(spec, neighbours, cost)["votes"], 1 / (UNIT * spec.parts.number)
    std, error, band = (min(x * unit, spec.most) for x in (noise.std, noise.halfwidth(LEVEL), noise.band(LEVEL)))
    words = chance_words(spec, neighbours, cost)
    return Outlook(noise.law.value, noise.size, std, error, band, note=words[:1].upper() + words[1:])


def chance_words(spec: Spec, neighbours: Neighbours, cost: Cost) -> str:
    """What the forecast says where the order would be little better than chance; nothing elsewhere.

    If all ballots agreed, true means would be 0, 1, ..., M - 1; they are taken as spread half as far, normally. Two of
    them then keep their order under independent errors with probability 1/2 + arctan(spread / error) / pi.
    """
    spread = USUAL_AGREEMENT * math.sqrt((len(spec.items) ** 2 - 1) / 12)
    error = forecast(spec, neighbours, cost)["votes"].std / (UNIT * spec.parts.number)
    right = 0.5 + math.atan2(spread, error) / math.pi
    if right >= MOSTLY_CHANCE:
        return ""
    times = math.tan((GOOD_ORDER - 0.5) * math.pi) / math.tan((right - 0.5) * math.pi)
    return (
        f"with this epsilon the order would be near chance: two items stand in their true order with probability "
        f"{right:.2f}, where tossing a coin has 0.5. About {times:.2g} times the cost would make it {GOOD_ORDER:g}; "
        "fewer items or more rows help too."
    )


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
    if request.built_in is not None:
        shared.required_model(model, f"the ranker {request.built_in!r}")
    spec = resolve(request, Setting.of(table, model if request.built_in else None), cost)
    columns, scores, how = _black_box(table, model, request, spec)
    identity = shared.identified(table, model) if request.built_in is None else model.identity
    public = ["the ranker", "the items", "the number of parts", "the model"]
    return release_votes("rank-aggregation", table, request, spec, cost, columns, scores, public, identity, how)


def release_votes(
    method: str,
    table: PrivateTable,
    request: Vote,
    spec: Spec,
    cost: Cost,
    columns: Sequence[str],
    scores: Scores,
    public: Sequence[str],
    model: JsonObject | None,
    how: Mapping[str, Any],
) -> Votes:
    """Send the ballots of all parts through the door; `scores` gives a number for each part and item, `how` is how
    many parts it may get at once.

    An order near chance is warned of before anything is spent. It is not refused: whoever studies small costs may want
    this very answer.
    """
    if words := chance_words(spec, table.neighbours, cost):
        warn(BudgetWarning, f"{request.label}: {words}")

    kernel, parts, size = partial(_of_dealt, scores=scores), spec.parts.number, len(spec.items)
    table.require_shipping("the ranker", kernel)

    def body(gate: Gate) -> None:
        sums = table.sum_groups(gate, kernel, columns, parts, size=size, label=request.label, **how)
        top_cost, votes_cost = spec.shares(cost)
        if spec.k is not None:
            chosen = gate.select("top", sums, score_range(spec, gate.neighbours), top_cost, k=spec.k)
            sums = sums[sorted(chosen)]
        gate.noisy_sum("votes", sums, sensitivity(spec, gate.neighbours), votes_cost, mechanism=spec.mechanism)

    return Votes(*table.release(method, request.label, spec.to_json(), cost, body, public=public, model=model))


def _of_dealt(dealt: Dealt, scores: Scores) -> Integers:
    """The points that some parts give."""
    return statistic(scores(dealt))


def _black_box(
    table: PrivateTable, model: Any, request: RankAggregation, spec: Spec
) -> tuple[list[str], Scores, Mapping[str, Any]]:
    """The columns that are read, the function from dealt rows to scores [part, item], tried out on synthetic rows, and
    how many parts it may get at once.
    """
    items, domain, target = spec.items, table.domain, request.target
    if target is not None:
        assert isinstance(model, Model)
        levels = Levels(table.predictor(model), model.output)
        columns = list(dict.fromkeys([*levels.predictor.features, *items, target]))
        truth_of = target_of(target, domain, model.label)
        scores = partial(importance, levels=levels, features=items, target=target, truth_of=truth_of)
        return columns, scores, {"parallel": model.thread_safe}
    assert callable(request.ranker)
    columns = list(domain) if request.columns is None else list(request.columns)
    asked = {"function": request.ranker, "model": shared.original(model), "columns": columns}
    wrong = partial(_problem, items=items)
    shared.try_out(**asked, problem=wrong, table=table, parts=spec.parts.number)
    return columns, partial(shared.answers, **asked, understood=partial(_scores, items=items)), shared.ONE_AT_A_TIME


def _scores(answer: Any, items: tuple[str, ...]) -> Floats:
    """A number for each item from any of the three forms of a ballot; NaN if it is none of them."""
    nothing = np.full(len(items), np.nan)
    if answer is None:
        return nothing
    if isinstance(answer, pd.Series) and not isinstance(answer.index, pd.RangeIndex):
        answer = answer.to_dict() if answer.index.is_unique else {}  # by its labels, in whatever order they stand
    if isinstance(answer, Mapping):
        return np.array([float(answer[item]) for item in items]) if set(answer) == set(items) else nothing
    listed = list(answer)
    if len(listed) != len(items):
        return nothing
    if all(isinstance(entry, str) for entry in listed):
        return np.array([-float(listed.index(item)) for item in items]) if set(listed) == set(items) else nothing
    return np.array([float(entry) for entry in listed])


def _problem(answer: Any, items: tuple[str, ...]) -> str:
    """What is wrong with a ballot of synthetic rows, in words; nothing if it can be used."""
    if answer is None:
        return "it returns nothing"
    try:
        if np.isfinite(_scores(answer, items)).all():
            return ""
    except (TypeError, ValueError):
        pass
    return f"it returns neither all {len(items)} items in order nor a finite number for each of them"


@of_wrapped
def rank_aggregation(
    table: PrivateTable,
    ranker: Callable[..., Any] | Literal["importance"],
    items: Sequence[str] | None = None,
    *,
    model: Any = None,
    epsilon: float | None = None,
    rho: float | None = None,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    parts: int | None = None,
    k: int | None = None,
    method: Literal["default", "paper"] = "default",
    name: str | None = None,
    version: str | int | None = None,
    mechanism: Literal["cube", "discrete-laplace", "discrete-gaussian"] | None = None,
) -> Votes:
    """Differentially private ranking of `items` by any ranker: a function (rows, model), or "importance".

    The function gets the clean rows of one part as a DataFrame, and what was given as `model`, as in `generic_plot`.
    `epsilon` (or `rho`) is the whole cost. `requests.RankAggregation` describes the options.
    """
    request = RankAggregation(
        ranker=ranker, items=items, target=target, columns=columns, parts=parts, k=k, method=method, name=name,
        version=version, mechanism=mechanism,
    )  # fmt: skip
    return explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho))
