"""What one has to believe about permutation importance: what a row adds to which sums, and how far a unit moves them.

The docstring of `methods/permutation_importance/release.py` says it in words; `methods/permutation_importance/forecast.py` chooses
the numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.sensitivity import Assignment, Neighbours, Relation, ScoreRange, Sensitivity
from dpexplain.data.donors import Replaced
from dpexplain.data.rows import Rows
from dpexplain.maths.losses import Loss
from dpexplain.methods.permutation_importance.result import SQUARE_LEVELS, square_unit
from dpexplain.methods.targets import Target
from dpexplain.models import Predictor

Integers = NDArray[np.int64]
Norms = NDArray[np.int64] | NDArray[np.float64]

# of the price, for each aim that a limit can have; what is left pays for the changes
SHARES = {
    aim: {part: Fraction(hundredths, 100) for part, hundredths in shares.items()}
    for aim, shares in {
        "order": {"base": 5, "limit": 5, "lost": 8, "squares": 2},
        "interval": {"base": 5, "limit": 10, "lost": 27, "squares": 3},
    }.items()
}
MOST_FEATURES = 2_000
INEXACT = 2.0**-40  # more than the rounding of floats can add to a norm of MOST_FEATURES numbers


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    features: tuple[str, ...]
    target: Target
    loss: Loss
    method: str  # "default" or "paper"; where other values come from is said by `marginals`
    assignment: Assignment  # how rows are dealt to groups
    seed: int
    mechanism: str
    marginals: str | None = None  # the payload hash of marginals that were released before
    histograms: JsonObject | None = None  # their noise and the number of their cells
    group: int = 1  # rows in a group, or about so many where their number is private
    most: int = 1  # rows of a group whose changes count; where there are more, the others only give values
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

    def shares(self, cost: Cost) -> dict[str, Cost]:
        """The price of each part; together they cost `cost`."""
        if self.paper:
            return {"errors": cost}
        unused = {"limit": len(self.limits) == 1, "lost": not self.limited}
        shares = {part: share for part, share in SHARES[self.aim].items() if not unused.get(part)}
        return {**{part: cost * share for part, share in shares.items()}, "changes": cost * (1 - sum(shares.values()))}

    def to_json(self) -> JsonObject:
        return {
            "features": list(self.features),
            "target": self.target.column,
            "target_values": self.target.to_json(),
            "loss": self.loss.to_json(),
            "method": self.method,
            "marginals": self.marginals,
            "histograms": self.histograms,
            "assignment": self.assignment.value,
            "group": self.group,
            "most": self.most,
            "loners": self.loners,
            "draws": self.draws,
            "seed": self.seed,
            "norm": self.norm,
            "limits": list(self.limits),
            "top": self.top,
            "aim": self.aim,
            "shrunk": self.shrunk,
            "pull": self.pull,
            "count_weight": self.count_weight,
            "mechanism": self.mechanism,
        }


def base_statistic(rows: Rows, predictor: Predictor, spec: Spec) -> Integers:
    """The sum of the quantised losses of one batch as it is, and its weighted number of rows where that is private."""
    losses = _losses(rows, predictor, spec, predictor.inputs(rows), {})
    if not spec.count_weight:
        return np.array([losses.sum()])
    return np.array([(losses - spec.loss.range.levels // 2).sum(), spec.count_weight * rows.size])


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


def statistic(batch: Replaced, predictor: Predictor, spec: Spec) -> Integers:
    """Exact integer sums of one batch: no noise, no budget, and no randomness but the values it is given.

    A line of `Sums` for each limit, one after the other.
    """
    groups = changes(batch, predictor, spec)
    norms = norms_of(groups, spec.norm)
    return np.concatenate([_sums(groups, norms, limit, spec) for limit in spec.limits])


def _sums(groups: Integers, norms: Norms, limit: int, spec: Spec) -> Integers:
    small = shrunk(groups, norms, limit, spec.norm)
    unit = square_unit(spec.norm or "", len(spec.features), limit, spec.cap)
    squares = np.floor(small.astype(np.float64) ** 2 * (SQUARE_LEVELS / unit * (1 - INEXACT)))
    cut = groups - small
    lost = np.minimum(cut.max(axis=1, initial=0) - cut.min(axis=1, initial=0), spec.cap)
    totals: Integers = np.array([lost.sum(), (norms > limit).sum()], dtype=np.int64)
    return np.concatenate([small.sum(axis=0), squares.astype(np.int64).sum(axis=0), totals])


def changes(batch: Replaced, predictor: Predictor, spec: Spec) -> Integers:
    """One line for each group: the sum over its rows of the mean change of the loss, for each feature."""
    rows, inputs = batch.rows, predictor.inputs(batch.rows)
    before = _losses(rows, predictor, spec, inputs, {})
    found = np.zeros((rows.size, len(spec.features)), dtype=np.int64)
    number = np.maximum(sum(valid.astype(np.int64) for valid in batch.valid), 1)
    for j, feature in enumerate(spec.features):
        if feature in predictor.features:
            for values, valid in zip(batch.values[feature], batch.valid, strict=True):
                found[:, j] += np.where(valid, _losses(rows, predictor, spec, inputs, {feature: values}) - before, 0)
    found = np.sign(found) * (np.abs(found) // number[:, None])
    return np.add.reduceat(found, batch.starts, axis=0) if rows.size else found


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
    return spec.loss.range.quantize(spec.loss(spec.target(rows), predictor.predict_at(inputs, fixed)))


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
    """Of the sum of groups shrunk to `limit`: from public things alone.

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
    """Of the sum of squares, whatever the limit is, because it is their unit.

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
    """Of what was cut off: one number in {0..cap} for each group, which stays there, comes or goes."""
    return Sensitivity.of_parts(neighbours, 1, spec.cap, groups_changed(spec, neighbours))


def paper_sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """Of the errors and the base, under replace-one: a row is predicted once with another row's value, and gives its
    own value to one other row, so two losses of each error change by at most K each; of the base, one.
    """
    K, M = spec.loss.range.levels, len(spec.features)
    return Sensitivity(neighbours, (2 * M + 1) * K, (4 * M + 1) * K * K, 2 * K)


def score_range(spec: Spec, neighbours: Neighbours) -> ScoreRange:
    """The number of groups above a limit changes by at most as many groups as change; so does its distance from the
    wanted number.
    """
    changed = groups_changed(spec, neighbours)
    return ScoreRange(neighbours, -changed, changed)
