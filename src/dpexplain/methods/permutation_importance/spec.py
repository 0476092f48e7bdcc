"""What one has to believe about permutation importance: what a row adds to which sums, and how far a unit moves them.

The docstring of `release.py` says it in words; `resolve` there chooses the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.mechanisms import Selection, best, selection
from dpexplain.core.noise import Noise
from dpexplain.core.sensitivity import Assignment, Neighbours, Relation, ScoreRange, Sensitivity
from dpexplain.data.dealing import Dealt
from dpexplain.data.donors import Replaced, Uniform, by_feature, by_group
from dpexplain.data.rows import Rows
from dpexplain.maths.coded import Coded
from dpexplain.maths.laws import shape_of
from dpexplain.maths.losses import Loss
from dpexplain.maths.reference import Reference
from dpexplain.maths.tails import combined_halfwidth
from dpexplain.methods.targets import Target
from dpexplain.models import Predictor

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Norms = Integers | Floats

# of the price, for each aim that a limit can have; what is left pays for the changes
SHARES = {
    aim: {part: Fraction(hundredths, 100) for part, hundredths in shares.items()}
    for aim, shares in {
        "order": {"base": 5, "limit": 5, "lost": 8, "squares": 2},
        "interval": {"base": 5, "limit": 10, "lost": 27, "squares": 3},
    }.items()
}
MAX_FEATURES = 2_000
INEXACT = 2.0**-40  # more than the rounding of floats can add to a norm of MAX_FEATURES numbers
SQUARE_LEVELS = 2**20  # steps of the largest possible square


@dataclass(frozen=True)
class Histograms(Coded):
    """What intervals have to know about histograms that were released before."""

    noise: Noise
    cells: tuple[int, ...]  # of the histogram of each feature
    features: int  # how many histograms that release has
    total: float

    def errors(self, level: float, *, unsure: bool) -> Floats:
        """For each feature, how far its importance can move because of this noise, as a share of the largest loss: the
        total variation distance between the drawn and the true distribution. `unsure`: the total is noisy too.
        """
        each, off = (1 + level) / 2, 0.0
        if unsure:  # the total is the mean of those of all histograms
            off = combined_halfwidth([(self.noise, np.full(self.noise.size, 1 / self.features))], 0.0, each)
        moved = np.array([sum_halfwidth(self.noise, cells, each) for cells in self.cells])
        return np.minimum((moved + off) / max(self.total, 1.0), 1.0)


def sum_halfwidth(noise: Noise, size: int, level: float) -> float:
    """h with P(|z_1| + ... + |z_size| <= h) >= level for so many coordinates of one noise vector, rounded outwards."""
    return shape_of(noise).l1_halfwidth(size, 1 - level)


@dataclass(frozen=True, kw_only=True)
class Spec(Coded):
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger.

    Fields with a default may be missing in files of earlier versions.
    """

    features: tuple[str, ...]
    target: str
    target_values: Target
    loss: Loss
    method: str  # "default" or "paper"; where other values come from is said by `marginals`
    assignment: Assignment  # how rows are dealt to groups
    seed: int
    mechanism: str
    marginals: str | None = None  # the payload hash of marginals that were released before
    histograms: Histograms | None = None  # what these are
    group: int = 1  # rows in a group, or about so many where their number is private
    most: int = 0  # rows of a group whose changes count; the others only give values. 0: all, in earlier versions
    loners: bool = False  # whether a row may have no other one in its group, often enough to be allowed for
    draws: int = 1
    norm: str | None = None  # what groups are limited in; the published form limits nothing
    limits: tuple[int, ...] = ()  # what C is chosen from, in steps of a quantised loss; a single one is C
    top: int = 0  # a limit that shrinks nothing
    aim: str = "order"  # what the limit and the shares of the price are chosen for: "order" or "interval"
    shrunk: int = 0  # how many groups the chosen C shall shrink
    pull: int = 0  # what a limit that is one step larger must do better, in groups: decides where no group lies between
    count_weight: int = 0  # what each row adds to the count beside the base; 0 where the number of rows is public

    @property
    def paper(self) -> bool:
        return self.method == "paper"

    @property
    def drawn(self) -> bool:
        """Whether other values are drawn from released histograms, so that each row is by itself."""
        return self.marginals is not None

    @property
    def size(self) -> int:
        """How many integers a batch gives: for each limit a line of `Sums`; or the errors and the base."""
        M = len(self.features)
        return M + 1 if self.paper else len(self.limits) * (2 * M + 2)

    @property
    def limited(self) -> bool:
        """Whether a group can be above a limit."""
        return bool(self.limits) and min(self.limits) < self.top

    @property
    def cap(self) -> int:
        """How far the changes of one group can lie apart, zero included: K for each row. Its losses are in {0..K}, so
        all changes of a row lie in an interval of length K that has zero in it.
        """
        return self.most * self.loss.range.levels

    def square_unit(self, limit: int) -> int:
        """The most that the squares of a shrunk group's changes add up to; for the cube, each of them.

        No change is above `cap`, whatever the limit. With b = min(limit, cap) and M features: sum norm, sum v^2 <=
        b sum |v| <= b min(limit, M b). Euclidean, min(limit^2, M b^2). Largest, b^2.
        """
        M, b = len(self.features), min(limit, self.cap)
        if self.norm == "sum":
            return b * min(limit, M * b)
        return b * b if self.norm == "largest" else min(limit * limit, M * b * b)

    def groups(self, rows: float) -> int:
        """How many groups about so many rows are dealt to."""
        return max(1, int(rows / self.group))

    def company(self, rows: float, groups: int | None = None) -> float:
        """The expected share of the rows whose changes count: those with another row in their group, to be replaced by,
        and among the first `most` of it.

        Rows dealt by secret numbers can be alone or too many; by position they never are. Where a unit has several
        rows, groups are so large that it hardly happens: intervals allow for it (`fewest_counted`).
        """
        from scipy.stats import binom

        if not self.loners or rows < 2:
            return 1.0
        groups = self.groups(rows) if groups is None else groups
        if not self.most:
            return float(1 - (1 - 1 / groups) ** (rows - 1)) or 1.0
        return _counted(lambda others: binom.pmf(others, round(rows) - 1, 1 / groups), rows / groups, self.most)

    def fewest_counted(self, unit_rows: int) -> float:
        """The smallest expected share of rows that count where units have up to so many rows: all of them that many."""
        from scipy.stats import poisson

        if unit_rows == 1 or self.drawn:
            return 1.0
        units = self.group / unit_rows
        return _counted(lambda others: poisson.pmf(others, units), units, self.most / unit_rows)

    def scores(self, above: NDArray[Any], groups: int) -> NDArray[Any]:
        """How well each limit, with so many of the groups above it, shrinks the wanted number of them."""
        wanted, larger = min(self.shrunk, groups // 2), np.arange(len(self.limits), 0, -1)
        scores: NDArray[Any] = -np.abs(above - wanted) - self.pull * larger
        return scores

    def shares(self, cost: Cost) -> dict[str, Cost]:
        """The cost of each part; together they cost `cost`."""
        if self.paper:
            return {"errors": cost}
        unused = {"limit": len(self.limits) == 1, "lost": not self.limited}
        shares = {part: share for part, share in SHARES[self.aim].items() if not unused.get(part)}
        return {**{part: cost * share for part, share in shares.items()}, "changes": cost * (1 - sum(shares.values()))}


def _counted(law: Callable[[Floats], Floats], mean: float, most: float) -> float:
    others = np.arange(1, 50 + int(4 * mean), dtype=np.float64)
    return float((law(others) * np.minimum(1, most / (others + 1))).sum()) or 1.0


def base_statistic(rows: Rows, predictor: Predictor, spec: Spec) -> Integers:
    """The sum of the quantised losses of one batch as it is, and its weighted number of rows where that is private."""
    return _base(_losses(rows, predictor, spec, predictor.inputs(rows), {}), spec)


def _base(losses: Integers, spec: Spec) -> Integers:
    if not spec.count_weight:
        return np.array([losses.sum()])
    return np.array([(losses - spec.loss.range.levels // 2).sum(), spec.count_weight * len(losses)])


@dataclass(frozen=True)
class Sums:
    """What all groups add up to under one limit."""

    changes: Integers  # the shrunk changes, for each feature
    squares: Integers  # their squares, in steps of `square_unit`
    lost: int  # how far what was cut off lies apart at most, feature against feature, or against nothing
    above: int  # the number of groups that were shrunk

    @classmethod
    def read(cls, line: Integers) -> Sums:
        M = (len(line) - 2) // 2
        return cls(line[:M], line[M : 2 * M], int(line[-2]), int(line[-1]))


def statistic(batch: Replaced, predictor: Predictor, spec: Spec, with_base: bool = False) -> Integers:
    """Exact integer sums of one batch: no noise, no budget, and no randomness but the values it is given.

    A line of `Sums` for each limit, one after the other; before them `base_statistic`, where both share a pass.
    """
    groups, losses = changes(batch, predictor, spec)
    norms = norms_of(groups, spec.norm)
    base = [_base(losses, spec)] if with_base else []
    return np.concatenate(base + [_sums(groups, norms, limit, spec) for limit in spec.limits])


def group_statistic(dealt: Dealt, predictor: Predictor, spec: Spec, with_base: bool = False) -> Integers:
    """`statistic` of rows that take values from their group."""
    return statistic(by_group(dealt, spec.features, spec.draws, spec.most), predictor, spec, with_base)


def drawn_statistic(
    rows: Rows, uniform: Uniform, others: Mapping[str, Reference], predictor: Predictor, spec: Spec
) -> Integers:
    """`statistic`, with its base, of rows that take values from released histograms, by secret numbers of their own."""
    return statistic(by_feature(rows, others, spec.draws, uniform), predictor, spec, with_base=True)


def _sums(groups: Integers, norms: Norms, limit: int, spec: Spec) -> Integers:
    small = shrunk(groups, norms, limit, spec.norm)
    squares = np.floor(small.astype(np.float64) ** 2 * (SQUARE_LEVELS / spec.square_unit(limit) * (1 - INEXACT)))
    cut = groups - small
    lost = np.minimum(cut.max(axis=1, initial=0) - cut.min(axis=1, initial=0), spec.cap)
    totals: Integers = np.array([lost.sum(), (norms > limit).sum()], dtype=np.int64)
    return np.concatenate([small.sum(axis=0), squares.astype(np.int64).sum(axis=0), totals])


def changes(batch: Replaced, predictor: Predictor, spec: Spec) -> tuple[Integers, Integers]:
    """One line for each group: the sum over its rows of the mean change of the loss, for each feature. And the loss of
    each row as it is.
    """
    rows, inputs = batch.rows, predictor.inputs(batch.rows)
    before = _losses(rows, predictor, spec, inputs, {})
    moved = np.zeros((rows.size, len(spec.features)), dtype=np.int64)
    number = np.maximum(sum(valid.astype(np.int64) for valid in batch.valid), 1)
    for j, feature in enumerate(spec.features):
        if feature in predictor.features:
            for values, valid in zip(batch.values[feature], batch.valid, strict=True):
                moved[:, j] += np.where(valid, _losses(rows, predictor, spec, inputs, {feature: values}) - before, 0)
    moved = np.sign(moved) * (np.abs(moved) // number[:, None])
    return np.add.reduceat(moved, batch.starts, axis=0) if rows.size else moved, before


def shrunk(groups: Integers, norms: Norms, limit: int, norm: str | None) -> Integers:
    """Each group's vector scaled down to a norm of at most `limit`, its numbers rounded toward zero.

    Sums and maxima are exact integers; a Euclidean norm may be off in its last bits. Where a vector is scaled, a factor
    a little below one covers that and the rounding of the product.
    """
    above = norms * (1 + INEXACT) > limit if norm == "euclidean" else norms > limit
    factor = np.where(above, limit / np.maximum(norms, 1) * (1 - INEXACT), 1.0)
    size = np.floor(np.abs(groups) * factor[:, None]).astype(np.int64)
    signed: Integers = np.where(groups < 0, -size, size)
    return signed


def norms_of(groups: Integers, norm: str | None) -> Norms:
    """The norm of each group's vector."""
    if norm == "euclidean":
        return np.asarray(np.sqrt((groups.astype(np.float64) ** 2).sum(axis=1)))
    size = np.abs(groups)
    return np.asarray(size.sum(axis=1) if norm == "sum" else size.max(axis=1, initial=0))


def paper_statistic(batch: Replaced, predictor: Predictor, spec: Spec) -> Integers:
    """The sums of the quantised losses with each feature replaced, and as the rows are."""
    rows, inputs = batch.rows, predictor.inputs(batch.rows)
    moved = {feature: values for feature in spec.features for values in batch.values[feature]}  # one draw of each
    sums = [_losses(rows, predictor, spec, inputs, {feature: values}).sum() for feature, values in moved.items()]
    return np.array([*sums, _losses(rows, predictor, spec, inputs, {}).sum()])


def _losses(rows: Rows, predictor: Predictor, spec: Spec, inputs: Any, fixed: dict[str, Any]) -> Integers:
    """The quantised loss of each row; the middle of its range where the model fails."""
    truth = spec.target_values(rows[spec.target])
    return spec.loss.range.quantize(spec.loss(truth, predictor.predict_at(inputs, fixed)))


def base_sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    K = spec.loss.range.levels
    if not spec.count_weight:
        return Sensitivity.of_boxes([(0, K)], neighbours)
    return Sensitivity.of_boxes([(-K // 2, K // 2), (spec.count_weight, spec.count_weight)], neighbours)


def groups_changed(spec: Spec, neighbours: Neighbours) -> int:
    """How many groups can differ between neighbouring tables, the secret numbers being the same in both."""
    return neighbours.rows if spec.drawn else spec.assignment.changed_parts(neighbours)


def _single(spec: Spec, neighbours: Neighbours) -> bool:
    """Whether what changes is rows by themselves that come or go."""
    return spec.drawn and neighbours.relation is Relation.ADD_REMOVE


def sensitivity(spec: Spec, neighbours: Neighbours, limit: int) -> Sensitivity:
    """The sensitivity of the sum of groups shrunk to `limit`: from public things alone.

    A changed group moves from one point of the ball to another: 2 limit in the norm of the ball. Rows by themselves
    come or go under add-remove: limit each. The other norms follow: |v|_inf <= |v|_2 <= |v|_1 <= M |v|_inf and
    |v|_1 <= sqrt(M) |v|_2.
    """
    moved = groups_changed(spec, neighbours) * (1 if _single(spec, neighbours) else 2) * limit
    M = len(spec.features)
    if spec.norm == "sum":
        return Sensitivity(neighbours, moved, moved**2, moved)
    if spec.norm == "largest":
        return Sensitivity(neighbours, M * moved, M * moved**2, moved)
    return Sensitivity(neighbours, math.isqrt(M * moved**2 - 1) + 1, moved**2, moved)


def squares_sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """The sensitivity of the sum of squares, whatever the limit is, because it is their unit.

    A group adds a >= 0 with |a|_1 <= L = SQUARE_LEVELS. It changes to b of the same kind: |a - b|_1 <= 2 L,
    |a - b|_2^2 <= |a|_2^2 + |b|_2^2 <= 2 L^2, |a - b|_inf <= L. Rows that come or go: L in each norm. c groups, or
    rows, move c times as far. For the cube every coordinate lies in [0, L], and so moves by at most L.
    """
    c, M, L = groups_changed(spec, neighbours), len(spec.features), SQUARE_LEVELS
    if spec.norm == "largest":
        return Sensitivity(neighbours, c * M * L, M * (c * L) ** 2, c * L)
    factor = 1 if _single(spec, neighbours) or M == 1 else 2
    return Sensitivity(neighbours, factor * c * L, factor * (c * L) ** 2, c * L)


def lost_sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """What was cut off is one number in {0..cap} for each group, which stays there, comes or goes."""
    return Sensitivity.of_parts(neighbours, 1, spec.cap, groups_changed(spec, neighbours))


def paper_sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """The sensitivity of the errors and the base, under replace-one: a row is predicted once with another row's value,
    and gives its own value to one other row, so two losses of each error change by at most K each; of the base, one.
    """
    K, M = spec.loss.range.levels, len(spec.features)
    return Sensitivity(neighbours, (2 * M + 1) * K, (4 * M + 1) * K * K, 2 * K)


def score_range(spec: Spec, neighbours: Neighbours) -> ScoreRange:
    """The number of groups above a limit changes by at most as many groups as change; so does its distance from the
    wanted number.
    """
    changed = groups_changed(spec, neighbours)
    return ScoreRange(neighbours, -changed, changed)


def limit_selection(spec: Spec, neighbours: Neighbours, cost: Cost) -> Selection:
    """How the limit is chosen; a cost that is too small for it is refused here."""
    return selection(score_range(spec, neighbours), len(spec.limits), spec.shares(cost)["limit"], 1)


def noise_at(spec: Spec, neighbours: Neighbours, cost: Cost, limit: int) -> Noise:
    """The noise of the changes under this limit."""
    bound = sensitivity(spec, neighbours, limit)
    return best(bound, len(spec.features), spec.shares(cost)["changes"], spec.mechanism)


def likely_limit(spec: Spec) -> int:
    """The limit that noise is forecast for: nearest to one whole loss; for intervals, to one of each row of a group."""
    aim = spec.loss.range.levels if spec.aim == "order" else spec.cap
    return min(spec.limits, key=lambda limit: abs(math.log(limit / aim)))


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this cost; that of the changes for `likely_limit`. Costs nothing, touches no data."""
    prices, M = spec.shares(cost), len(spec.features)
    if spec.paper:
        return {"errors": best(paper_sensitivity(spec, neighbours), M + 1, prices["errors"], spec.mechanism)}
    if "limit" in prices:
        limit_selection(spec, neighbours, cost)
    laws = {limit: noise_at(spec, neighbours, cost, limit) for limit in spec.limits}  # each of them must be available
    lost = {"lost": best(lost_sensitivity(spec, neighbours), 1, prices["lost"])} if spec.limited else {}
    return {
        "base": best(base_sensitivity(spec, neighbours), 2 if spec.count_weight else 1, prices["base"]),
        "changes": laws[likely_limit(spec)],
        **lost,
        "squares": best(squares_sensitivity(spec, neighbours), M, prices["squares"]),
    }
