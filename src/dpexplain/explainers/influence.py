"""Differentially private influence of inputs on the outcomes of a table: quantitative input influence (QII).

Guarantee    the account's definition and price, for one unit replaced (its number of rows public) or added or removed,
             marginals included. Public: the model, the outcome, the group, the cells, the declared domain, and the
             number of rows under replace-one without units. Nothing is promised about the model's training data.
Statistic    o(S) is a row's outcome with the inputs S replaced by values of released histograms: all of them by their
             weights, or secret draws of the row's own. A row adds its influences: o() - o(S) for each set S, or Shapley
             or Banzhaf values. "average" takes |o() - o(S)| over everybody; "group" adds up the rows of a group,
             "disparity" also those of all others, in a block of its own. Counts stand beside the sums where they are
             private.
             For sets, o() and each o(S) are summed apart and subtracted after the noise: half the range.
Sensitivity  a row adds one vector to one block. With N its norm (`row_norms`), w the weight of a count and k rows of a
             unit: k (N + w) under add-remove; under replace-one the largest of staying 2 k N, leaving k (N + w), and
             crossing over 2 k (N + w). `sensitivity` has the proof.
Release      a share of the price for the histograms ("counts"), the rest for the sums ("influences"). Division,
             intervals and words are post-processing. With marginals that were released before, all is for the sums.
             Draws are as many as keep the Monte Carlo error below half of the noise; a feature with no more points than
             that is gone through point by point. Both end at some millions of predictions; what is left of the Monte
             Carlo error is in the intervals, and where it outweighs the noise, the result says so.
References   Datta, Sen, Zick 2016 (method="paper": values from other rows by public pairings, each row being
             explained once and a donor once, so that the bound doubles; Laplace noise).
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain, PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Gate, split
from dpexplain.core.sensitivity import Neighbours, Relation, Sensitivity
from dpexplain.data.donors import Replaced, by_histogram, by_pairing, drawn, gather
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.engine import map_sum
from dpexplain.errors import InputError, InternalError
from dpexplain.explainers import marginals as histograms
from dpexplain.explainers.influence_request import MOST_SAMPLES, Item, set_of
from dpexplain.explainers.influence_request import PERSON as PERSON
from dpexplain.explainers.influence_request import InfluenceRequest as InfluenceRequest
from dpexplain.explainers.outlook import LEVEL, Outlook, Setting
from dpexplain.games import (
    BLOCK,
    Asker,
    Group,
    Norms,
    Outcome,
    Plan,
    coalitions_plan,
    exact_plan,
    norms,
    orders_plan,
    outcomes_plan,
)
from dpexplain.games.plans import EXACT
from dpexplain.grids import WHOLE_NUMBERS, Partition, cells_of
from dpexplain.models import Model
from dpexplain.reference import Reference, points_in
from dpexplain.results import Marginals
from dpexplain.results.base import receipt_for
from dpexplain.results.influence import Influence, TableInfluence, combined_halfwidth
from dpexplain.results.marginals import counts_of, shares_of, total_of

Integers = NDArray[np.int64]
Values = Mapping[str, Iterable[NDArray[np.generic]]]
Weights = Mapping[str, Integers]

CELLS_FACTOR, FEWEST_CELLS = 2.4, 6
FEW = 8  # inputs whose sets are all asked unless the caller says otherwise
MOST_FEATURES = 62  # that are replaced somewhere: the bits of a mask
MOST_OUTCOMES = 2**18  # of one row
MOST_ASKED, MOST_SINGLE = 2**22, 2**25  # predictions of sets and of single features, unless the caller asks for more
LEAST_ORDERS, ORDERS, TRIED = 8, 32, 8  # drawn orders (or sets): at least, without a forecast, pairs that it is made of
UNKNOWN_ROWS = 100_000  # what draws are chosen by where the number of rows is private and no hint was given
BASE_WEIGHTS = (1, 2, 3)
COUNT_WEIGHTS = tuple(Fraction(2) ** power for power in range(-3, 5))  # in units of K
TYPICAL = 0.25  # the size of an influence by which the weight of a count is chosen


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    quantity: str
    aggregate: str
    items: tuple[tuple[str, ...], ...]
    given: tuple[str, ...]
    outcome: Outcome
    group: Group | None
    method: str
    draws: int  # other values that a row takes, at most
    listed: tuple[str, ...]  # features whose released distribution is gone through point by point
    samples: int | None  # drawn orders or sets; None: all sets, or none are needed
    seed: int
    partitions: tuple[Partition, ...]  # of the marginals that are paid for here
    marginals: str | None  # the payload hash of marginals that were released before
    marginals_share: Fraction
    centred: bool  # whether K/2 is taken off each outcome
    base_weight: int  # of the outcomes before an intervention, summed beside those after it; 0: differences are summed
    count_weight: int  # what each row adds to the count of its group; 0 where the number of rows is public
    counts: int  # how many counts are released
    mechanism: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """Every input that is replaced somewhere, once: the bits of the plan's masks."""
        return tuple(dict.fromkeys([*itertools.chain.from_iterable(self.items), *self.given]))

    @property
    def K(self) -> int:  # noqa: N802 - as in the docstrings
        return self.outcome.range.levels

    @property
    def absolute(self) -> bool:
        return self.quantity == "average"

    @property
    def single(self) -> bool:
        """Whether each item is one feature, replaced by itself."""
        return self.aggregate == "unary" and not self.given and all(len(item) == 1 for item in self.items)

    @property
    def blocks(self) -> int:
        return 2 if self.quantity == "disparity" else 1

    @property
    def lines(self) -> int:
        """How many sums a group has."""
        return len(self.items) + (1 if self.base_weight else 0)

    @property
    def size(self) -> int:
        return self.blocks * self.lines + self.counts

    @cached_property
    def plan(self) -> Plan:
        """Which outcomes of a row are asked for, and how they become what the row adds."""
        M = len(self.names)
        if self.aggregate == "unary":
            bits = {name: 1 << j for j, name in enumerate(self.names)}
            masks = [sum(bits[name] for name in item) for item in self.items]
            return outcomes_plan(M, masks, self.draws, sum(bits[name] for name in self.given), self.base_weight)
        return _shared_plan(self.aggregate, M, self.samples, self.draws, self.seed)

    @cached_property
    def row_norms(self) -> Norms:
        """How large what one row adds to its block can be.

        Sets: M outcomes, and x times the outcome before, each within K/2 of the middle: sum (M + x) K/2, Euclidean
        K/2 sqrt(M + x^2), largest K/2 max(1, x). Not centred, K in the place of K/2.
        Shapley and Banzhaf values: `games.norms`, for the orders or sets that were drawn. |o() - o(S)| in the place of
        an outcome lies in the same {0..K}.
        """
        if self.aggregate != "unary":
            return _shared_norms(self.aggregate, len(self.names), self.samples, self.draws, self.seed, self.K)
        M, x, reach = len(self.items), self.base_weight, self.K // 2 if self.centred else self.K
        return Norms((M + x) * reach, (M + x * x) * reach * reach, max(1, x) * reach)

    def to_json(self) -> JsonObject:
        return {
            "quantity": self.quantity,
            "aggregate": self.aggregate,
            "items": [list(item) for item in self.items],
            "given": list(self.given),
            "outcome": self.outcome.to_json(),
            "group": None
            if self.group is None
            else {"conditions": self.group.to_json(), "words": self.group.describe()},
            "method": self.method,
            "draws": self.draws,
            "listed": list(self.listed),
            "samples": self.samples,
            "seed": self.seed,
            "partitions": [p.to_json() for p in self.partitions],
            "marginals": self.marginals,
            "marginals_share": str(self.marginals_share),
            "centred": self.centred,
            "base_weight": self.base_weight,
            "count_weight": self.count_weight,
            "counts": self.counts,
            "mechanism": self.mechanism,
        }


_DRAWN: dict[str, Callable[[int, int, int, int], Plan]] = {"shapley": orders_plan, "banzhaf": coalitions_plan}


@lru_cache(maxsize=8)
def _shared_plan(aggregate: str, inputs: int, samples: int | None, draws: int, seed: int) -> Plan:
    if samples is None:
        return exact_plan(inputs, aggregate, draws)
    return _DRAWN[aggregate](inputs, samples, draws, seed)


@lru_cache(maxsize=64)
def _shared_norms(aggregate: str, inputs: int, samples: int | None, draws: int, seed: int, levels: int) -> Norms:
    return norms(_shared_plan(aggregate, inputs, samples, draws, seed), levels)


def statistic(rows: Rows, asker: Asker, spec: Spec, values: Values, weights: Weights | None = None) -> Integers:
    """Exact integer sums of one batch: no noise, no budget, and no randomness but the values it is given.

    For each block the sums over its rows, the base first if there is one; then the weighted counts.

    values   other values of each feature for every row, one array for each draw, or for each point of a listed feature
    weights  those of the points of listed features; draws count alike
    """
    if spec.single:
        before, after = asker.means(rows, spec.names, values, weights or {}, absolute=spec.absolute)
        base = [spec.base_weight * before[:, None]] if spec.base_weight else []
        found = np.concatenate([*base, after if spec.absolute else -after], axis=1)
    else:
        together = {name: list(each) for name, each in values.items()}
        found = asker.influences(rows, spec.plan, spec.names, together, absolute=spec.absolute)
    if spec.aggregate == "banzhaf":  # drawn sets with and without an input differ in more than that input
        found = found * [name in asker.predictor.features for (name,) in spec.items]
    if spec.aggregate == "unary" and spec.centred:
        # outcomes lie in {0..K} and stand with a minus, the base without; a change stands the other way round
        middle = np.full(spec.lines, spec.K // 2)
        middle[: 1 if spec.base_weight else 0] *= -spec.base_weight
        found = found - middle if spec.absolute else found + middle
    if spec.group is None:
        inside = np.ones((1, rows.size), dtype=bool)
    else:
        member = spec.group.member(rows)
        inside = np.stack([member, ~member])
    sums = [found[held].sum(axis=0) for held in inside[: spec.blocks]]
    counts = [spec.count_weight * int(held.sum()) for held in inside[: spec.counts]]
    return np.concatenate([*sums, np.array(counts, dtype=np.int64)])


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """Of sums and counts together: from the public request alone.

    A row adds a vector of norm at most N to one block (or, outside of a group, nothing), and w to the count of that
    block. Let a unit have m_b of its at most k rows in block b before, and m'_b after.

    Sums of block b move by at most (m_b + m'_b) N; where every entry lies in {0..K}, by at most max(m_b, m'_b) N. The
    count of block b moves by |m_b - m'_b| w. Blocks add up in L1 and in squared L2. All of it is convex in the m, so
    it is largest at a corner, where the unit's rows all are in one block, or nowhere:
        added or removed, or leaving the group      N + w                        (squared: N^2 + w^2)
        staying in a block                          2 N, or N for {0..K}         (4 N^2)
        from one block to the other                 2 N + c w for c counts       (2 N^2 + c w^2)
    each k times (k^2 times). No coordinate moves by more than that of staying, or than w.

    With method="paper" a row is also a donor: once in each of d draws, to one other row, whose influences change by at
    most a d-th part of staying, because the draws of such a plan are copies of each other. In all that is no more than
    staying, so that the bound at most doubles; and each of the d rows is rounded by itself, one step more in every
    coordinate. Drawn orders and sets have other parts for other draws: there d = 1, and both vectors of the one row lie
    in the same ball, rounded or not.
    """
    N, w, k = spec.row_norms, spec.count_weight, neighbours.rows
    one_sided = spec.aggregate == "unary" and not spec.centred
    stays = (N.l1, N.l2_squared, N.linf) if one_sided else (2 * N.l1, 4 * N.l2_squared, 2 * N.linf)
    leaves = (N.l1 + w, N.l2_squared + w * w, max(N.linf, w))
    crosses = (2 * N.l1 + spec.counts * w, 2 * N.l2_squared + spec.counts * w * w, max(N.linf, w))
    moves = [leaves]
    if neighbours.relation is Relation.REPLACE_ONE:
        everybody = spec.quantity != "group" and neighbours.rows_public  # nobody can leave
        moves = [stays, *([] if everybody else [leaves]), *([crosses] if spec.blocks == 2 else [])]
    l1, l2_squared, linf = (max(norm) for norm in zip(*moves, strict=True))
    if spec.method != "paper":
        return Sensitivity(neighbours, k * l1, k * k * l2_squared, k * linf)
    if spec.samples is not None and spec.draws > 1:
        raise InternalError("drawn orders and sets of paired rows have one draw")
    d = spec.draws if spec.draws > 1 else 0
    steps = math.isqrt(4 * l2_squared - 1) + 1 + d * (math.isqrt(spec.size - 1) + 1)  # the Euclidean bound, rounded up
    return Sensitivity(neighbours, 2 * l1 + d * spec.size, steps * steps if d else 4 * l2_squared, 2 * linf + d)


# From a request to a spec ---------------------------------------------------------------------------------------------


def resolve(
    request: InfluenceRequest,
    domain: Domain,
    output: PublicRange,
    neighbours: Neighbours,
    rows: int | None,
    cost: Cost,
    *,
    label: Any = None,
    uses: Sequence[str] | None = None,
    marginals: Marginals | None = None,
    orders: int = ORDERS,
) -> Spec:
    """The concrete spec of a request. Reads nothing but public things.

    label, uses   the model's label and columns
    orders        how many orders (or sets) are drawn where the request leaves it open
    """
    items = items_of(request, domain, uses)
    names = list(dict.fromkeys([*itertools.chain.from_iterable(items), *request.given]))
    paper = request.method == "paper"
    if paper and not neighbours.rows_public:
        raise InputError(
            'method="paper" pairs the rows of a table whose number of rows is public.',
            hint='use relation="replace-one" without units, or the default method',
        )
    if marginals is None:
        partitions = () if paper else _partitions(names, domain, request, neighbours, rows, cost)
    else:  # a feature that the marginals do not have is refused before anything is paid
        partitions = tuple(marginals.rug(name).partition for name in names)
    paid = () if marginals is not None else partitions
    based = request.aggregate == "unary" and (request.quantity != "average" or bool(request.given))
    grouped = request.quantity in ("group", "disparity")
    spec = Spec(
        quantity=request.quantity,
        aggregate=request.aggregate,
        items=items,
        given=tuple(request.given),
        outcome=Outcome.of(output, request.outcome or ("score" if label is None else "class"), request.threshold),
        group=Group.of(request.group, domain) if grouped else None,
        method=request.method,
        draws=1,
        listed=(),
        samples=_samples(request, len(names), orders),
        seed=request.seed,
        partitions=paid,
        marginals=None if marginals is None else marginals.receipt.entry.payload_hash,
        marginals_share=request.marginals_share if paid else Fraction(0),
        # a base cancels what centring takes off; without one it pays where a row's coming or going counts
        centred=request.aggregate == "unary" and (based or neighbours.relation is Relation.ADD_REMOVE),
        base_weight=1 if based else 0,
        count_weight=0,
        counts=_counts(request.quantity, neighbours),
        mechanism=Law.LAPLACE.value if paper and request.mechanism is None else request.mechanism,
    )
    points = {p.feature: int(points_in(domain[p.feature], p).sum()) for p in partitions}
    return _with_draws(_with_weights(spec, neighbours, cost), request, neighbours, rows, cost, points)


def items_of(request: InfluenceRequest, domain: Domain, uses: Sequence[str] | None) -> tuple[tuple[str, ...], ...]:
    """The sets of features that are asked for: those of the request, or all that the model uses but the given ones."""
    used = [name for name in (domain if uses is None else uses) if name not in request.given]
    items = tuple(set_of(item) for item in (used if request.features is None else request.features))
    for name in itertools.chain(request.given, *items):
        domain.column(name)
    if not items:
        raise InputError("there is no feature to be asked for beside the given ones.")
    if (many := len({*itertools.chain(request.given, *items)})) > MOST_FEATURES:
        raise InputError(f"{many} features are too many; {MOST_FEATURES} is the most.", hint="name some of them")
    return items


def _partitions(
    names: Sequence[str],
    domain: Domain,
    request: InfluenceRequest,
    neighbours: Neighbours,
    rows: int | None,
    cost: Cost,
) -> tuple[Partition, ...]:
    """The cells of marginals that are paid for here: the fewer, the more noise a count has beside the rows.

    With m cells the error of a distribution has two parts, noise that grows like sqrt(m) s/n, s the noise of a count,
    and what cells blur, which falls like 1/m or faster. Here s is that of one count for each feature. Adult, where the
    factor was found, is flat around it.
    """
    if request.cells is not None:
        return cells_of(names, domain, request.cells)
    counts_cost, _ = split(cost, request.marginals_share)
    noise = best(Sensitivity.of_counts(neighbours, len(names)), len(names), counts_cost)
    wanted = CELLS_FACTOR * math.sqrt((UNKNOWN_ROWS if rows is None else rows) / max(noise.std, 1.0))
    cells = round(min(max(wanted, FEWEST_CELLS), WHOLE_NUMBERS))
    return cells_of(names, domain, cells, most_whole=min(2 * cells, WHOLE_NUMBERS))


def _samples(request: InfluenceRequest, inputs: int, orders: int) -> int | None:
    """How many orders or sets are drawn; None where all sets are asked for."""
    if request.aggregate == "unary":
        return None
    exact = request.exact if request.exact is not None else request.samples is None and inputs <= FEW
    if exact:
        if inputs > EXACT:
            exact_plan(inputs, request.aggregate, 1)  # refuses
        return None
    samples = orders if request.samples is None else request.samples
    if samples * inputs > MOST_OUTCOMES:
        raise InputError(
            f"{samples:,} orders of {inputs} inputs are too many.", hint=f"at most {MOST_OUTCOMES // inputs:,}"
        )
    return samples


def _counts(quantity: str, neighbours: Neighbours) -> int:
    """How many counts must be released: under replace-one without units what is left of a group is known with it."""
    if neighbours.rows_public:
        return 0 if quantity == "average" else 1
    return 2 if quantity == "disparity" else 1


def _variance(spec: Spec, neighbours: Neighbours, cost: Cost) -> float:
    """The forecast variance of a sum of influences, in whole steps: of the noise of the sum, of its base, and of the
    count that it will be divided by.

    The noise of a count counts as much as the mean that is divided by it, without what centring took off: half of the
    range for a centred average, and little otherwise.
    """
    noise, x, w = forecast(spec, neighbours, cost)["influences"], spec.base_weight, spec.count_weight
    mean = spec.K / 2 if spec.centred and not x else spec.K * TYPICAL
    return noise.std**2 * (1 + (1 / x**2 if x else 0) + ((mean / w) ** 2 if w else 0))


def _with_weights(spec: Spec, neighbours: Neighbours, cost: Cost) -> Spec:
    """The weights of the base and of the counts with the smallest forecast variance."""
    bases = BASE_WEIGHTS if spec.base_weight else (0,)
    weights = [math.ceil(spec.K * part) for part in COUNT_WEIGHTS] if spec.counts else [0]
    candidates = [replace(spec, base_weight=x, count_weight=w) for x in bases for w in weights]
    return min(candidates, key=lambda candidate: _variance(candidate, neighbours, cost))


def _with_draws(
    spec: Spec,
    request: InfluenceRequest,
    neighbours: Neighbours,
    rows: int | None,
    cost: Cost,
    points: Mapping[str, int],
) -> Spec:
    """As many draws as make the Monte Carlo error half of the noise, if that does not take too many predictions.

    A feature by itself that has no more points than that is gone through point by point instead, and then has no such
    error. Drawn orders and sets take turns with the draws. More of these then cost no prediction, but fewer outcomes
    are shared, and the bound may grow.
    """
    n, single = UNKNOWN_ROWS if rows is None else rows, spec.aggregate == "unary" and not spec.given
    drawn = n * (spec.K / 2 if single else spec.K) ** 2  # at most the variance of the sum for one draw
    wanted = min(MOST_OUTCOMES, math.ceil(4 * drawn / max(_variance(spec, neighbours, cost), 1.0)))
    chosen = request.samples if spec.samples is None else None
    if chosen is not None:
        wanted = chosen
    elif spec.method == "paper":
        return spec
    each = n if spec.outcome.threshold is None else max(n, BLOCK)  # predictions that one question takes

    def asked(draws: int) -> int:
        """How many questions about each row."""
        listing = spec.single and spec.method != "paper"
        return sum(min(points[name], draws) for name in spec.names) if listing else draws * spec.plan.asked

    if chosen is not None and asked(wanted) > MOST_OUTCOMES:
        raise InputError(
            f"every row would be asked about {asked(wanted):,} times; {MOST_OUTCOMES:,} is the most.",
            hint="fewer samples, or fewer features",
        )
    if spec.samples is None and chosen is None:
        most = (MOST_SINGLE if spec.single else MOST_ASKED) // each
        wanted = max(1, bisect.bisect_right(range(1, wanted + 1), most, key=asked))
    if spec.single and spec.method != "paper":
        listed = tuple(name for name in spec.names if points[name] <= wanted)
        return replace(spec, draws=min(wanted, max(points.values())), listed=listed)
    if spec.samples is None:
        return replace(spec, draws=wanted)
    candidates = [spec, replace(spec, draws=min(wanted, -(-spec.samples // 2)))]
    return min(candidates, key=lambda candidate: _variance(candidate, neighbours, cost) + drawn / candidate.draws)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this price. Costs nothing, touches no data."""
    counts_cost, sums_cost = split(cost, spec.marginals_share)
    parts = {"influences": best(sensitivity(spec, neighbours), spec.size, sums_cost, spec.mechanism)}
    if spec.partitions:
        parts["counts"] = best(_counts_bound(spec, neighbours), sum(p.size for p in spec.partitions), counts_cost)
    return parts


def _counts_bound(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    return Sensitivity.of_counts(neighbours, len(spec.partitions))


def outlook(request: InfluenceRequest, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the influences in a table of about this many rows; of a group, if it has half of them.

    What a noisy number of rows adds is a share of the influence itself and left out, but for a centred average, where
    it is as large as the noise of a sum. Monte Carlo error is left out.
    """
    if request.quantity in PERSON:
        from dpexplain.explainers.persons import outlook as of_a_person

        return of_a_person(request, setting, cost)
    spec = resolve(
        request, setting.domain, setting.output, setting.neighbours, setting.hint, cost,
        label=setting.label, uses=setting.features,
    )  # fmt: skip
    parts = forecast(spec, setting.neighbours, cost)
    noise, x = parts["influences"], spec.base_weight
    coefficients = [1.0, *([1 / x] if x else []), *([spec.K / 2 / spec.count_weight] if spec.centred and not x else [])]
    unit = spec.outcome.range.width / (spec.K * setting.rows) * (1 if spec.group is None else 2)
    coefficients = coefficients * spec.blocks
    size = math.sqrt(sum(c * c for c in coefficients))
    return Outlook(
        law=noise.law.value,
        points=len(spec.items),
        std=size * noise.std * unit,
        error=combined_halfwidth(noise, coefficients, 0.0, LEVEL) * unit,
        band=sum(coefficients) * noise.band(LEVEL) * unit,
        rug_error=parts["counts"].halfwidth(LEVEL) if "counts" in parts else None,
    )


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "counts": "rows in each public cell of each replaced feature",
        "draws": "other values for each row, by secret numbers",
        "influences": "sums of outcomes before and after, for each group, and its count where it is private",
        "means": "division, intervals, words; the histograms, to be used again",
    }
    edges = [
        ("table", "counts"),
        ("counts", "draws"),
        ("draws", "influences"),
        ("table", "influences"),
        ("counts", "means"),
        ("influences", "means"),
    ]
    return DataFlow(stages, edges, name="Influence", noised=["counts", "influences"])


# The release ----------------------------------------------------------------------------------------------------------


def explain(
    table: PrivateTable,
    model: Model,
    request: InfluenceRequest,
    *,
    cost: Cost | None,
    marginals: Marginals | None = None,
) -> Influence:
    """Release the influences of `request` for `cost`; for a person they are free with `marginals`."""
    if request.quantity in PERSON:
        from dpexplain.explainers.persons import person_influence

        return person_influence(table, model, request, cost=cost, marginals=marginals)
    if cost is None:
        raise InputError("influences over a table have a price.", hint="epsilon=0.5, for example")
    _check_marginals(table, request, marginals)
    settings = {"label": model.label, "uses": model.features(table.domain), "marginals": marginals}
    public = (request, table.domain, model.output, table.neighbours, table.rows_hint, cost)
    spec = resolve(*public, **settings)
    predictor = model.checked(table.domain)
    asker = Asker.of(predictor, spec.outcome, table.domain)
    if spec.samples is not None and request.samples is None:
        noise = math.sqrt(_variance(spec, table.neighbours, cost))
        spec = resolve(*public, **settings, orders=_orders_for(spec, asker, noise, table.rows_hint))
    job = _Job(table, asker, spec, request.label, model.thread_safe)

    def body(gate: Gate) -> None:
        counts_cost, sums_cost = split(cost, spec.marginals_share)
        found = job.paired(gate) if spec.method == "paper" else job.drawn(gate, counts_cost, marginals)
        gate.noisy_sum("influences", found, sensitivity(spec, gate.neighbours), sums_cost, mechanism=spec.mechanism)

    facts = ["the model", "the output range", *(["the group's conditions"] if spec.group else [])]
    identity = {
        "explainer": "influence",
        "table": table.identity,
        "model": model.identity,
        "spec": spec.to_json(),
        "public": [
            *facts,
            *(["the cells"] if spec.partitions else []),
            table.domain.describe(),
            *table.neighbours.public,
        ],
        **histograms.builds_on(marginals),
    }
    released = table.door.release(request.label, identity, cost, body)
    receipt = receipt_for(table.budget, table.neighbours, released)
    result = TableInfluence(receipt, released.payload, known=marginals)
    if spec.samples is None:
        return result
    known = result.marginals
    given = {} if known is None else _references(spec.names, known, table.domain)
    return replace(result, sampling=_sampling_error(spec, asker, given))


def _check_marginals(table: PrivateTable, request: InfluenceRequest, marginals: Any) -> None:
    if marginals is None:
        return
    histograms.known_marginals(table, marginals)
    if request.method == "paper":
        raise InputError('method="paper" has no use for marginals.', hint="leave them out")


@dataclass(frozen=True)
class _Job:
    """One release under way: what its passes over the rows share."""

    table: PrivateTable
    asker: Asker
    spec: Spec
    label: str
    parallel: bool

    @property
    def columns(self) -> list[str]:
        group = [] if self.spec.group is None else self.spec.group.columns
        return list(dict.fromkeys([*self.asker.predictor.features, *self.spec.names, *group]))

    def drawn(self, gate: Gate, cost: Cost, marginals: Marginals | None) -> Integers:
        """Values from histograms that are released here, or were before."""
        spec, table = self.spec, self.table
        known = (
            self._released_cells(gate, cost) if marginals is None else _references(spec.names, marginals, table.domain)
        )
        weights = {name: known[name].weights for name in spec.listed}

        def others(rows: Rows) -> Values:
            """Point by point, or drawn one after the other; for sets drawn together."""
            if not spec.single:
                return by_histogram(rows, known, spec.plan.most_draws, table.uniform).values
            return {
                name: (np.broadcast_to(point, rows.size) for point in reference.points)
                if name in weights
                else drawn(rows.size, reference, spec.draws, table.uniform)
                for name, reference in known.items()
            }

        def kernel(rows: Rows) -> Integers:
            return statistic(rows, self.asker, spec, others(rows), weights)

        return table.map_sum(gate, kernel, self.columns, size=spec.size, label=self.label, parallel=self.parallel)

    def _released_cells(self, gate: Gate, cost: Cost) -> dict[str, Reference]:
        spec, table = self.spec, self.table
        cells = histograms.Spec(spec.partitions, None)

        def kernel(rows: Rows) -> Integers:
            return histograms.statistic(rows, cells)

        exact = table.map_sum(gate, kernel, list(spec.names), size=cells.size, label=self.label)
        noisy = np.array(gate.noisy_sum("counts", exact, _counts_bound(spec, gate.neighbours), cost))
        counts = counts_of(noisy, spec.partitions, total_of(noisy, spec.partitions, table.size))
        return {
            p.feature: Reference(table.domain[p.feature], p, shares_of(part))
            for p, part in zip(spec.partitions, counts, strict=True)
        }

    def paired(self, gate: Gate) -> Integers:
        """Values from other rows."""
        spec = self.spec
        draws = spec.draws if spec.single else spec.plan.most_draws
        batches = by_pairing(gather(self.table, gate, self.columns), spec.names, draws, spec.seed)

        def kernel(batch: Replaced) -> Integers:
            return statistic(batch.rows, self.asker, spec, batch.values)

        return map_sum(kernel, batches, size=spec.size, label=self.label, total=self.table.size, parallel=self.parallel)


def _references(names: Sequence[str], marginals: Marginals, domain: Domain) -> dict[str, Reference]:
    return {name: marginals.reference(name, domain) for name in names}


# Drawn orders and sets ------------------------------------------------------------------------------------------------


def _orders_for(spec: Spec, asker: Asker, noise: float, rows: int | None) -> int:
    """So many orders (or sets) that their sampling error is half of the noise, on synthetic rows of the domain."""
    n, M = UNKNOWN_ROWS if rows is None else rows, len(spec.names)
    wanted = 2 * math.ceil((2 * n * spec.K * max(_spread(spec, asker, {})) / max(noise, 1.0)) ** 2)
    return max(LEAST_ORDERS, min(wanted, MOST_ASKED // (n * M) // 2 * 2, MOST_SAMPLES))


def _sampling_error(spec: Spec, asker: Asker, known: Mapping[str, Reference]) -> tuple[float, ...]:
    """The standard deviation that drawn orders or sets add to each influence: on rows drawn from released marginals."""
    assert spec.samples is not None
    pairs = -(-spec.samples // 2)
    return tuple(spec.outcome.range.width * spread / math.sqrt(pairs) for spread in _spread(spec, asker, known))


def _spread(spec: Spec, asker: Asker, known: Mapping[str, Reference]) -> list[float]:
    """The standard deviation between pairs of orders (or of sets) of the mean influence of public rows, in units of
    the range. All pairs meet the same rows and the same other values.
    """
    public = PublicRandom(spec.seed)
    rows, others = (_public_rows(public, asker, known) for _ in range(2))
    values = {name: [others[name]] for name in spec.names}
    plans = [_DRAWN[spec.aggregate](len(spec.names), 2, 1, spec.seed + pair) for pair in range(TRIED)]
    found = [asker.influences(rows, plan, spec.names, values, absolute=spec.absolute).mean(axis=0) for plan in plans]
    spread: list[float] = (np.std(found, axis=0, ddof=1) / spec.K).tolist()
    return spread


def _public_rows(public: PublicRandom, asker: Asker, known: Mapping[str, Reference]) -> Rows:
    """As many rows as a block has: evenly from the domain, but columns whose distribution was released from that."""
    rows = public.rows(asker.filler.domain, asker.filler.size)
    draw = public.generator
    columns = {name: r.at(r.cell_at(draw.random(rows.size)), draw.random(rows.size)) for name, r in known.items()}
    return Rows(rows.domain, {**rows.columns, **columns}, rows.size)


def influence(
    table: PrivateTable,
    model: Model,
    quantity: str = "average",
    features: Sequence[Item] | None = None,
    *,
    aggregate: str = "unary",
    group: Any = None,
    row: Any = None,
    epsilon: Any = None,
    rho: Any = None,
    marginals: Marginals | None = None,
    **options: Any,
) -> Influence:
    """Differentially private influence of inputs on outcomes: of everybody, of a group, on the disparity between a
    group and all others; or, from released marginals, on one person.

    `epsilon` (or `rho`) is the whole price, marginals included; with `marginals` that were released before, all of it
    goes to the influences, and those of a person are free. Options: see `requests.Influence`.
    """
    request = InfluenceRequest(
        quantity=quantity, features=features, aggregate=aggregate, group=group, row=row, **options
    )
    free = quantity in PERSON and marginals is not None and epsilon is None and rho is None
    cost = None if free else table.cost(epsilon=epsilon, rho=rho)
    return explain(table, model, request, cost=cost, marginals=marginals)
