"""The spec of a generic plot, its statistic, its sensitivity, and the noise at a cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.domain import PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.release import split
from dpexplain.core.sensitivity import Assignment, Neighbours, Sensitivity
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import Axis, Partition
from dpexplain.maths.means import Means, fewest_answers, unevenness
from dpexplain.methods.black_box import BUILT_IN, CHANGED
from dpexplain.methods.parts import Dealing, empty_share


@dataclass(frozen=True)
class Explainer(Coded):
    """What the ledger knows about the black box."""

    name: str
    version: str
    title: str
    built_in: bool

    @property
    def published(self) -> bool:
        """Whether a definition of ours is another one than the paper's, and the paper's is meant."""
        return self.built_in and self.name in CHANGED and self.version == BUILT_IN


@dataclass(frozen=True)
class Spec(Coded):
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    views: tuple[tuple[Axis, ...], ...]  # one, of one feature
    output: PublicRange
    count_weight: int
    parts: Dealing
    rug: tuple[Partition, ...]
    rug_share: Fraction
    mechanism: str | None
    explainer: Explainer
    columns: tuple[str, ...] | None = None
    # whether the mean over parts is that over all rows, but for the numbers of rows that parts have: then intervals
    # cover the mean over all rows, which those of earlier versions did not
    whole: bool = False

    @property
    def axis(self) -> Axis:
        return self.views[0][0]

    @property
    def sizes(self) -> list[int]:
        """How many points each view has."""
        return [len(self.axis.points)]

    @property
    def curve_size(self) -> int:
        return len(self.axis.points) + bool(self.count_weight)

    def means(self, noise: Noise, rows: int, neighbours: Neighbours) -> Means:
        """The released mean of a table of so many rows, as far as its error goes."""
        parts, weight = self.parts.number, self.count_weight
        answered = max(1.0, parts * (1 - empty_share(parts, rows, neighbours, self.parts.assignment)))
        released = np.array([0, round(weight * answered)], dtype=np.int64)
        means = Means(released, noise, self.output, weight, parts, slice(0, 1))
        if not self.whole:
            return means
        known = (rows, 0.0) if not weight else (None, fewest_answers(means, parts))
        return replace(means, unevenness=unevenness(parts, *known))


def count_weight(axis: Axis, output: PublicRange, assignment: Assignment) -> int:
    """What each part that answers adds to the count coordinate; 0 where rows are dealt evenly: then all have rows.

    As much as fits under the bounds of the curve in all three norms.
    """
    return 0 if assignment is Assignment.POSITION else output.levels // (2 if len(axis.points) == 1 else 1)


def statistic(curves: NDArray[np.float64], spec: Spec) -> NDArray[np.int64]:
    """The exact integers of the curves [part, point], NaN where a part has none: no noise, no randomness.

    Sums over parts; where parts are counted, from the middle of the box, and with the parts that answered behind.
    """
    quantised = spec.output.quantize(curves)  # NaN is the middle
    if not spec.count_weight:
        return np.asarray(quantised.sum(axis=0), dtype=np.int64)
    answered = int((~np.isnan(curves).all(axis=1)).sum())
    return np.append((quantised - spec.output.levels // 2).sum(axis=0), spec.count_weight * answered).astype(np.int64)


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """How far the curve can move, from the public request alone.

    Proof that the count adds nothing. Let a changed part move from one vector to another, m points and the count of
    weight w. Where it answers before and after, every point moves by at most K and the count not at all: (m K, m K^2,
    K) in L1, squared L2 and L-inf. Where it answers in one table only, it is the middle of the box in the other: every
    point moves by at most K / 2 and the count by w: (m K / 2 + w, m K^2 / 4 + w^2, max(K / 2, w)), which is no more
    for w = K and m >= 2, and for w = K / 2 and m = 1. Several changed parts add up by the triangle inequality.
    """
    changed = spec.parts.assignment.changed_parts(neighbours)
    return Sensitivity.of_parts(neighbours, len(spec.axis.points), spec.output.levels, changed)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part of the release at this cost. Costs nothing, touches no data."""
    rug_cost, curve_cost = split(cost, spec.rug_share)
    laws = {"curve": best(sensitivity(spec, neighbours), spec.curve_size, curve_cost, spec.mechanism)}
    for partition in spec.rug:
        laws["rug"] = best(Sensitivity.of_counts(neighbours), partition.size, rug_cost)
    return laws
