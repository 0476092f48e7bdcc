"""The spec of private k-means, its statistics and their sensitivity, and the noise at a cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject, fraction_text
from dpexplain.core.domain import Numeric
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.release import split
from dpexplain.core.sensitivity import Neighbours, Relation, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.maths.coded import Coded
from dpexplain.maths.lloyd import HALF, OWN, Integers, Lloyd, nearest, places_of
from dpexplain.maths.surrogate import Space
from dpexplain.methods import histogram


@dataclass(frozen=True)
class Spec(Coded):
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    lloyd: Lloyd
    share: Fraction  # of the price, for the histograms

    def costs(self, cost: Cost) -> tuple[Cost, Cost]:
        """The cost of the histograms, and of each answer after them."""
        first, rest = split(cost, self.share)
        return first, rest * Fraction(1, self.lloyd.answers)

    def to_json(self) -> JsonObject:
        return {**super().to_json(), "share": fraction_text(self.share)}


def statistic(rows: Rows, lloyd: Lloyd, centres: Integers) -> Integers:
    """Exact integers of one batch, centre after centre: weighted count, sums of coordinates.

    Products of whole numbers in floats, below 2^53: exact.
    """
    places = places_of(lloyd.space, rows.columns, rows.size)
    member = (nearest(centres, places) == np.arange(len(centres))[:, None]).astype(np.float64)
    count, sums = lloyd.weight * member.sum(axis=1), member @ (places - lloyd.middle)
    return np.column_stack([count, sums]).astype(np.int64).ravel()


def sensitivity(space: Space, weight: int, neighbours: Neighbours) -> Sensitivity:
    """How far counts and sums around any fixed centres can move. Proof: docs/methods/dp-kmeans.md, "Sensitivity"."""
    numbers = sum(isinstance(space.domain[name], Numeric) for name in space.features)
    kinds, k = len(space.features) - numbers, neighbours.rows
    l1 = weight + numbers * HALF + kinds * OWN
    l2 = weight**2 + numbers * HALF**2 + kinds * OWN**2
    most = max(weight, HALF if numbers else 0, OWN if kinds else 0)
    if neighbours.relation is Relation.ADD_REMOVE:
        return Sensitivity(neighbours, k * l1, k * k * l2, k * most)
    beside = 4 * numbers * HALF**2 + 2 * kinds * OWN**2
    return Sensitivity(neighbours, 2 * k * l1, k * k * max(2 * l2, beside), k * max(most, 2 * HALF if numbers else 0))


def answer_noise(spec: Spec, neighbours: Neighbours, cost: Cost, centres: int) -> Noise:
    """The noise of one answer about so many centres."""
    lloyd = spec.lloyd
    return best(sensitivity(lloyd.space, lloyd.weight, neighbours), lloyd.size(centres), spec.costs(cost)[1])


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this cost. Costs nothing, touches no data."""
    lloyd = spec.lloyd
    parts = dict.fromkeys(
        [f"round-{number}" for number in range(1, lloyd.rounds + 1)], answer_noise(spec, neighbours, cost, lloyd.k)
    )
    if lloyd.start is None:
        parts["survey"] = answer_noise(spec, neighbours, cost, lloyd.cells)
    if lloyd.marginals:
        parts["marginals"] = histogram.forecast(lloyd.partitions, neighbours, spec.costs(cost)[0])
    return parts
