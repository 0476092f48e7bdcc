"""Sums over rows of numbers in a public range, and what the relation decides about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import PublicRange
from dpexplain.core.sensitivity import Neighbours, Relation, Sensitivity

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class RowSums:
    """How rows are added up so that means can be read from the sums (`maths.means.Means`).

    Where the number of rows is public, a row adds a quantised number in {0..K} to each sum. Where it is private, that
    number is centred to {-K/2..K/2}, and one more sum, the last, counts rows: each adds `weight` to it.
    """

    output: PublicRange
    weight: int  # 0 where the number of rows is public

    @classmethod
    def of(cls, output: PublicRange, neighbours: Neighbours) -> RowSums:
        """What these neighbours need. A row counts as much as its largest move of a sum, so that the count fits under
        the same bound in L-inf.
        """
        if neighbours.rows_public:
            return cls(output, 0)
        return cls(output, output.levels // 2 if neighbours.relation is Relation.ADD_REMOVE else output.levels)

    def size(self, points: int) -> int:
        """The length of the released vector for so many sums."""
        return points + bool(self.weight)

    def add(self, quantised: Integers) -> int:
        """What these rows add to one sum."""
        shift = self.output.levels // 2 if self.weight else 0
        return int((quantised - shift).sum())

    def counted(self, sums: Sequence[int], rows: int) -> Integers:
        """The sums of a batch, and after them its count where there is one."""
        return np.array([*sums, *([self.weight * rows] if self.weight else [])], dtype=np.int64)

    def sensitivity(self, points: int, neighbours: Neighbours) -> Sensitivity:
        """How far one unit moves so many sums and their count: from public things alone."""
        K = self.output.levels
        if not self.weight:
            return Sensitivity.of_boxes([(0, K)] * points, neighbours)
        return Sensitivity.of_boxes([(-K // 2, K // 2)] * points + [(self.weight,) * 2], neighbours)
