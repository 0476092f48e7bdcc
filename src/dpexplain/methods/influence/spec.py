"""What one has to believe about influences over a table: what a row adds to which sums, and how far a unit moves them.

The docstring of `methods/influence/release.py` says it in words; `methods/influence/forecast.py` chooses the numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.sensitivity import Neighbours, Relation, Sensitivity
from dpexplain.data.donors import Replaced, Uniform, by_histogram, drawn
from dpexplain.data.groups import Group
from dpexplain.data.rows import Rows
from dpexplain.errors import InternalError
from dpexplain.maths.coded import Coded
from dpexplain.maths.games import DRAWN, Norms, Plan, exact_plan, norms, outcomes_plan
from dpexplain.maths.grids import Partition
from dpexplain.maths.reference import Reference
from dpexplain.models.outcomes import Asker, Outcome

Integers = NDArray[np.int64]
Values = Mapping[str, Iterable[NDArray[np.generic]]]
Weights = Mapping[str, Integers]

MOST_OUTCOMES, MOST_ROWS = 2**18, 2**40  # questions about one row, and rows that they are counted for


@dataclass(frozen=True, kw_only=True)
class Ended(Coded):
    """What ended the draws before the forecast Monte Carlo error was half of the noise: for the words of the result."""

    asked: int  # questions about each row
    most: int  # those that would be asked if predictions had no end
    each: int  # predictions that a question takes
    whole: bool  # whether every point of every feature would then be gone through, which leaves nothing to chance

    @classmethod
    def from_json(cls, value: JsonObject) -> Ended:
        if len(value) != len(fields(cls)):
            raise ValueError("no end of ours")
        return super().from_json(value)


@dataclass(frozen=True, kw_only=True)
class Asked(Coded):
    """What is asked about a table or a person."""

    quantity: str
    items: tuple[tuple[str, ...], ...]
    outcome: Outcome
    aggregate: str
    given: tuple[str, ...] = ()
    seed: int = 0

    @property
    def plain(self) -> bool:
        """Whether each item is replaced by itself, beside nothing."""
        return self.aggregate == "unary" and not self.given

    @property
    def absolute(self) -> bool:
        """Whether the size of a change counts, in either direction."""
        return self.quantity in ("average", "actual")


@dataclass(frozen=True, kw_only=True)
class Question(Asked):
    """What is asked about a person: the part of a request that needs no table."""

    samples: int | None = None
    exact: bool | None = None

    @property
    def names(self) -> list[str]:
        """Every feature that is replaced somewhere, once."""
        return list(dict.fromkeys([*self.given, *itertools.chain.from_iterable(self.items)]))

    def to_json(self) -> JsonObject:
        return {name: value for name, value in super().to_json().items() if name not in ("samples", "exact")}


@dataclass(frozen=True, kw_only=True)
class Spec(Asked):
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    group: Group | None
    method: str
    draws: int  # other values that a row takes, at most
    listed: tuple[str, ...]  # features whose released distribution is gone through point by point
    samples: int | None  # drawn orders or sets; None: all sets, or none are needed
    partitions: tuple[Partition, ...]  # of the marginals that are paid for here
    marginals: str | None  # the payload hash of marginals that were released before
    marginals_share: Fraction
    centred: bool  # whether K/2 is taken off each outcome
    base_weight: int  # of the outcomes before an intervention, summed beside those after it; 0: differences are summed
    count_weight: int  # what each row adds to the count of its group; 0 where the number of rows is public
    counts: int  # how many counts are released
    mechanism: str | None
    own: bool = False  # whether each row draws orders (or sets) of its own, as many pairs of them as other values
    outcome_weight: int = 0  # of the outcomes as they are, summed beside influences that do not begin with them
    one_in: int = 1  # rows: each is used with probability one in so many, by a secret number of its own
    ended: Ended | None = None
    rates: str | None = None  # the payload hash of a performance that has released outcomes and counts of both groups

    def to_json(self) -> JsonObject:
        """Fields that came later are written only where they differ from their defaults."""
        later = ("own", "outcome_weight", "one_in", "ended", "rates")
        same = {field.name for field in fields(self) if getattr(self, field.name) == field.default}
        return {name: value for name, value in super().to_json().items() if name not in later or name not in same}

    def check(self) -> None:
        """ValueError for what no request leads to: a file may say anything."""
        numbers = (self.base_weight, self.count_weight, self.outcome_weight, self.draws - 1, self.one_in - 1)
        fits = self.quantity in ("average", "group", "disparity") and self.counts in (0, 1, 2)
        fits = fits and bool(self.items) and all(self.items) and all(0 <= number < 2**40 for number in numbers)
        fits = fits and (self.group is None) == (self.quantity == "average")
        if not fits or (self.outcome_weight and self.blocks == 1):
            raise ValueError("no influence of ours")
        if self.own and (self.aggregate == "unary" or self.samples):
            raise ValueError("no influence of ours")
        beside = self.base_weight or self.outcome_weight or self.count_weight or self.counts or self.one_in > 1
        shares = self.quantity == "disparity" and self.plain and self.centred and self.outcome.is_class
        if self.rates is not None and (beside or not shares or self.method == "paper"):
            raise ValueError("no influence of ours")
        if (ended := self.ended) is not None:
            asked = 1 <= ended.asked <= self.asked if self.single else ended.asked == self.asked
            fits = asked and ended.asked <= ended.most <= MOST_OUTCOMES and 1 <= ended.each <= MOST_ROWS
            if not fits or self.method == "paper" or (ended.whole and not self.single):
                raise ValueError("the end of the draws does not fit them")

    @property
    def names(self) -> tuple[str, ...]:
        """Every input that is replaced somewhere, once: the bits of the plan's masks."""
        return tuple(dict.fromkeys([*itertools.chain.from_iterable(self.items), *self.given]))

    @property
    def K(self) -> int:  # noqa: N802 - as in the docstrings
        return self.outcome.range.levels

    @property
    def step(self) -> float:
        """One whole step, in units of the outcome."""
        return self.outcome.range.width / self.K

    @property
    def single(self) -> bool:
        """Whether each item is one feature, replaced by itself."""
        return self.plain and all(len(item) == 1 for item in self.items)

    @property
    def blocks(self) -> int:
        return 2 if self.quantity == "disparity" else 1

    @property
    def lines(self) -> int:
        """How many sums a group has."""
        return len(self.items) + bool(self.base_weight) + bool(self.outcome_weight)

    @property
    def size(self) -> int:
        return self.blocks * self.lines + self.counts

    @property
    def one_count(self) -> bool:
        """Whether the sizes of both groups have one noise, because together they are all rows."""
        return self.blocks == 2 and self.counts == 1

    @property
    def lift(self) -> float:
        """What centring took off every row's influence, in whole steps."""
        return self.K / 2 if self.centred and not self.base_weight and self.rates is None else 0.0

    @property
    def asked(self) -> int:
        """How many questions about each row, at most: fewer where features are listed, or drawn orders meet."""
        M = len(self.names)
        if self.samples is not None:
            return self.samples * (M if self.aggregate == "shapley" else 1)
        if self.aggregate == "unary":
            return self.draws * (len(self.items) + bool(self.given))
        if self.own:
            return self.draws * (2 * M - 1 if self.aggregate == "shapley" else 2)
        return self.draws * ((1 << M) - 1)

    @property
    def spread(self) -> float:
        """At most the standard deviation of one row's influence over one draw, in units of the range: half the length
        of [0, 1] if chance decides about the outcome after an intervention alone, or changes have no sign; or [-1, 1].
        """
        return 0.5 if self.plain and (self.one_in == 1 or self.absolute) else 1.0

    @property
    def heaviest_draw(self) -> float:
        """The part of an influence that its heaviest draw has; pairs of drawn orders (sets) take turns with draws."""
        if self.samples is None:
            return 1 / self.draws
        return min(1.0, 2 * math.ceil(math.ceil(self.samples / 2) / self.draws) / self.samples)

    @property
    def heaviest(self) -> float:
        """The same where a row is drawn too, which all its draws share."""
        return max(self.heaviest_draw, 1 - 1 / self.one_in)

    def certain(self, names: Iterable[str]) -> bool:
        """Whether nothing is drawn for these features: all rows are used, and every point is asked about."""
        return self.one_in == 1 and set(names) <= set(self.listed)

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
        """How large what one row adds to its block can be: for sets, what M outcomes and x times that before can be,
        each within K/2 of the middle (K, not centred); for Shapley and Banzhaf values `games.norms`, of one pair where
        each row draws its own; and beside them v times the outcome as it is. Proofs: docs/methods/influence.md.
        """
        beside = self.outcome_weight * (self.K // 2)
        if self.aggregate != "unary":
            drawn = (2, 1, 0) if self.own else (self.samples, self.draws, self.seed)
            N = _shared_norms(self.aggregate, len(self.names), *drawn, self.K)
        else:
            M, x, reach = len(self.items), self.base_weight, self.K // 2 if self.centred else self.K
            N = Norms((M + x) * reach, (M + x * x) * reach * reach, max(1, x) * reach)
        return Norms(N.l1 + beside, N.l2_squared + beside * beside, max(N.linf, beside))


@lru_cache(maxsize=2)  # a plan of many orders has a hundred megabytes
def _shared_plan(aggregate: str, inputs: int, samples: int | None, draws: int, seed: int) -> Plan:
    if samples is None:
        return exact_plan(inputs, aggregate, draws)
    plan = DRAWN[aggregate](inputs, samples, draws, seed)
    order = np.argsort(plan.draws, kind="stable")  # one draw after the other, so that no two have to be in memory
    return replace(plan, masks=plan.masks[order], draws=plan.draws[order], weights=plan.weights[:, order])


@lru_cache(maxsize=64)
def _shared_norms(aggregate: str, inputs: int, samples: int | None, draws: int, seed: int, levels: int) -> Norms:
    return norms(_shared_plan(aggregate, inputs, samples, draws, seed), levels)


def statistic(
    rows: Rows,
    asker: Asker,
    spec: Spec,
    values: Values,
    weights: Weights | None = None,
    orders: Iterable[NDArray[np.float64]] = (),
) -> Integers:
    """Exact integer sums of one batch: no noise, no budget, and no randomness but the values it is given.

    For each block the sums over its rows, the base first if there is one and the outcomes as they are last; then the
    weighted counts.

    `values`, `weights` and `orders` are those of `added`.
    """
    found = added(rows, asker, spec, values, weights, orders)
    inside = blocks_of(rows, spec)
    sums = [found[held].sum(axis=0) for held in inside[: spec.blocks]]
    counts = [spec.count_weight * int(held.sum()) for held in inside[: spec.counts]]
    return np.concatenate([*sums, np.array(counts, dtype=np.int64)])


def blocks_of(rows: Rows, spec: Spec) -> NDArray[np.bool_]:
    """[block, row]: everybody; or whether a row is in the group, and whether it is not."""
    if spec.group is None:
        return np.ones((1, rows.size), dtype=bool)
    member = spec.group.member(rows)
    return np.stack([member, ~member])


def added(
    rows: Rows,
    asker: Asker,
    spec: Spec,
    values: Values,
    weights: Weights | None = None,
    orders: Iterable[NDArray[np.float64]] = (),
) -> Integers:
    """[row, line]: what each row adds to the sums of its block.

    values   other values of each feature for every row, one array for each draw, or for each point of a listed feature
    weights  those of the points of listed features; draws count alike
    orders   uniform numbers, one line for each row, for each draw: the orders (or sets) that are a row's own
    """
    if spec.single:
        before, after = asker.means(rows, spec.names, values, weights or {}, absolute=spec.absolute)
        base = [spec.base_weight * before[:, None]] if spec.base_weight else []
        found = np.concatenate([*base, after if spec.absolute else -after], axis=1)
    else:
        together = {name: each if isinstance(each, Sequence) else list(each) for name, each in values.items()}
        if spec.own:
            found = asker.own_orders(rows, spec.names, together, orders, spec.aggregate, absolute=spec.absolute)
        else:
            found = asker.influences(rows, spec.plan, spec.names, together, absolute=spec.absolute)
    if spec.aggregate == "banzhaf":  # drawn sets with and without an input differ in more than that input
        found = found * [name in asker.predictor.features for (name,) in spec.items]
    if spec.aggregate == "unary" and spec.centred:
        # outcomes lie in {0..K} and stand with a minus, the base without; a change stands the other way round
        middle = np.full(found.shape[1], spec.K // 2)
        middle[: 1 if spec.base_weight else 0] *= -spec.base_weight
        found = found - middle if spec.absolute else found + middle
    if spec.outcome_weight:
        before = asker.ask(asker.predictor.inputs(rows), {}) - spec.K // 2
        found = np.concatenate([found, spec.outcome_weight * before[:, None]], axis=1)
    return np.asarray(found)


def drawn_statistic(rows: Rows, uniform: Uniform, asker: Asker, spec: Spec, known: Mapping[str, Reference]) -> Integers:
    """`statistic` with values of released histograms."""
    return statistic(rows, asker, spec, *other_values(rows, uniform, spec, known))


def other_values(
    rows: Rows, uniform: Uniform, spec: Spec, known: Mapping[str, Reference]
) -> tuple[Values, Weights, Iterable[NDArray[np.float64]]]:
    """Values of released histograms, with the weights of points and orders: point by point, or by numbers of the row's
    own, one draw after the other; for sets those of one draw together.
    """
    weights = {name: known[name].weights for name in spec.listed}
    values: Values = (
        {
            name: (np.broadcast_to(point, rows.size) for point in reference.points)
            if name in weights
            else drawn(rows.size, reference, spec.draws, uniform)
            for name, reference in known.items()
        }
        if spec.single
        else by_histogram(rows, known, spec.draws, uniform).values
    )
    shape = (rows.size, len(spec.names))
    orders = (uniform(math.prod(shape)).reshape(shape) for _ in range(spec.draws if spec.own else 0))
    return values, weights, orders


def paired_statistic(batch: Replaced, asker: Asker, spec: Spec) -> Integers:
    """`statistic` with values of other rows."""
    return statistic(batch.rows, asker, spec, batch.values)


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """How far one unit moves sums and counts together: from the public request alone.

    A row adds a vector of norm at most N to one block (or, outside of a group, nothing), and w to the count of that
    block. A unit's k rows are worst all in one block, or nowhere, before and after:
        added or removed, or leaving the group      N + w                        (squared: N^2 + w^2)
        staying in a block                          2 N, or N for {0..K}         (4 N^2)
        from one block to the other                 2 N + c w for c counts       (2 N^2 + c w^2)
    each k times (k^2 times). With the rates of a performance neither outcomes as they are nor counts are released: N is
    that of M outcomes after an intervention, and w = c = 0.
    With method="paper" a row is also a donor, and the bound doubles, up to rounding.
    docs/methods/influence.md, "Sums and counts", has the proofs, also for rows that are chosen at random.
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
