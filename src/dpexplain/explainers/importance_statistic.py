"""What one has to believe about permutation importance: what a row adds to which sums, and how far a unit moves them.

The docstring of `explainers/permutation_importance.py` says it in words; `explainers/importance_forecast.py` chooses
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
from dpexplain.core.release import split
from dpexplain.core.sensitivity import Assignment, Neighbours, Relation, ScoreRange, Sensitivity
from dpexplain.data.donors import Replaced
from dpexplain.data.rows import Rows
from dpexplain.explainers.targets import Target
from dpexplain.grids import Partition
from dpexplain.losses import Loss
from dpexplain.models import Predictor

Integers = NDArray[np.int64]
Norms = NDArray[np.int64] | NDArray[np.float64]

BASE_SHARE, LIMIT_SHARE = Fraction(1, 20), Fraction(1, 10)
MOST_FEATURES = 2_000
INEXACT = 2.0**-40  # more than the rounding of floats can add to a norm of MOST_FEATURES numbers


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    features: tuple[str, ...]
    target: Target
    loss: Loss
    method: str  # "default" or "paper"; where other values come from is said by `partitions` and `marginals`
    assignment: Assignment  # how rows are dealt to groups
    seed: int
    mechanism: str
    partitions: tuple[Partition, ...] = ()  # of the marginals that are paid for here
    marginals_share: Fraction = Fraction(0)
    marginals: str | None = None  # the payload hash of marginals that were released before
    group: int = 1  # rows in a group, or about so many where their number is private
    loners: bool = False  # whether a row may have no other one in its group, often enough to be allowed for
    draws: int = 1
    norm: str | None = None  # what groups are limited in; the published form limits nothing
    limits: tuple[int, ...] = ()  # what C is chosen from, in steps of a quantised loss; a single one is C
    shrunk: int = 0  # how many groups the chosen C shall shrink
    pull: int = 0  # what a limit that is one step larger must do better, in groups: decides where no group lies between
    count_weight: int = 0  # what each row adds to the count beside the base; 0 where the number of rows is public

    @property
    def paper(self) -> bool:
        return self.method == "paper"

    @property
    def drawn(self) -> bool:
        """Whether other values are drawn from released histograms, so that each row is by itself."""
        return self.marginals is not None or bool(self.partitions)

    @property
    def size(self) -> int:
        """How many integers a batch gives: for each limit the sums and the number of groups above it; or the errors
        and the base.
        """
        M = len(self.features)
        return M + 1 if self.paper else len(self.limits) * (M + 1)

    def shares(self, cost: Cost) -> tuple[Cost, Cost, Cost]:
        """The price of the base, of the limit and of the changes, of what histograms leave."""
        _, rest = split(cost, self.marginals_share)
        base = Fraction(0) if self.paper else BASE_SHARE
        limit = LIMIT_SHARE if len(self.limits) > 1 else Fraction(0)
        return rest * base, rest * limit, rest * (1 - base - limit)

    def to_json(self) -> JsonObject:
        return {
            "features": list(self.features),
            "target": self.target.column,
            "target_values": self.target.to_json(),
            "loss": self.loss.to_json(),
            "method": self.method,
            "marginals": self.marginals,
            **(self._paid() if self.partitions else {}),
            "assignment": self.assignment.value,
            "group": self.group,
            "loners": self.loners,
            "draws": self.draws,
            "seed": self.seed,
            "norm": self.norm,
            "limits": list(self.limits),
            "shrunk": self.shrunk,
            "pull": self.pull,
            "count_weight": self.count_weight,
            "mechanism": self.mechanism,
        }

    def _paid(self) -> JsonObject:
        return {
            "partitions": [partition.to_json() for partition in self.partitions],
            "marginals_share": str(self.marginals_share),
        }


def base_statistic(rows: Rows, predictor: Predictor, spec: Spec) -> Integers:
    """The sum of the quantised losses of one batch as it is, and its weighted number of rows where that is private."""
    losses = _losses(rows, predictor, spec, predictor.inputs(rows), {})
    if not spec.count_weight:
        return np.array([losses.sum()])
    return np.array([(losses - spec.loss.range.levels // 2).sum(), spec.count_weight * rows.size])


def statistic(batch: Replaced, predictor: Predictor, spec: Spec) -> Integers:
    """Exact integer sums of one batch: no noise, no budget, and no randomness but the values it is given.

    For each limit the shrunk sums of all groups; then, for each limit, the number of groups above it.
    """
    groups = changes(batch, predictor, spec)
    norms = _norms(groups, spec.norm)
    sums = [shrunk(groups, norms, limit, spec.norm).sum(axis=0) for limit in spec.limits]
    above = [int((norms > limit).sum()) for limit in spec.limits]
    return np.concatenate([*sums, np.array(above, dtype=np.int64)])


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


def _norms(groups: Integers, norm: str | None) -> Norms:
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


def sensitivity(spec: Spec, neighbours: Neighbours, limit: int) -> Sensitivity:
    """Of the sum of groups shrunk to `limit`: from public things alone.

    A changed group moves from one point of the ball to another: 2 limit in the norm of the ball. Rows by themselves
    come or go under add-remove: limit each. The other norms follow: |v|_inf <= |v|_2 <= |v|_1 <= M |v|_inf and
    |v|_1 <= sqrt(M) |v|_2.
    """
    single = spec.drawn and neighbours.relation is Relation.ADD_REMOVE
    moved, M = groups_changed(spec, neighbours) * (1 if single else 2) * limit, len(spec.features)
    if spec.norm == "sum":
        return Sensitivity(neighbours, moved, moved**2, moved)
    if spec.norm == "largest":
        return Sensitivity(neighbours, M * moved, M * moved**2, moved)
    return Sensitivity(neighbours, math.isqrt(M * moved**2 - 1) + 1, moved**2, moved)


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
