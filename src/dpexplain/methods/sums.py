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

    With several classes a row adds to C sums at once, one for each class: whole numbers of at least 0 that add up to at
    most K (`models.classes.levels_of`); where the number of rows is private, K/C (rounded down) less each.
    """

    output: PublicRange
    weight: int  # 0 where the number of rows is public
    classes: int = 1

    @classmethod
    def of(cls, output: PublicRange, neighbours: Neighbours, classes: int = 1) -> RowSums:
        """What these neighbours need. A row counts as much as its largest move of a sum, so that the count fits under
        the same bound in L-inf.
        """
        if neighbours.rows_public:
            return cls(output, 0, classes)
        return cls(output, output.levels // 2 if neighbours.relation is Relation.ADD_REMOVE else output.levels, classes)

    @property
    def shift(self) -> int:
        """What each number is less by in a sum."""
        return self.output.levels // max(2, self.classes) if self.weight else 0

    @property
    def origin(self) -> float:
        """The number, in output units, that counts as nothing in a sum."""
        return self.output.low + self.output.width * self.shift / self.output.levels

    def size(self, points: int) -> int:
        """The length of the released vector for so many sums."""
        return points + bool(self.weight)

    def add(self, quantised: Integers) -> int:
        """What these rows add to one sum."""
        return int((quantised - self.shift).sum())

    def counted(self, sums: Sequence[int], rows: int) -> Integers:
        """The sums of a batch, and after them its count where there is one."""
        return np.array([*sums, *([self.weight * rows] if self.weight else [])], dtype=np.int64)

    def sensitivity(self, points: int, neighbours: Neighbours) -> Sensitivity:
        """How far one unit moves so many sums and their count: from public things alone.

        Several classes. At each of the points / C places a row adds u >= 0 with |u|_1 <= K, less s = K // C each.

        Rows in public number (s = 0): u becomes v, |u - v|_1 <= |u|_1 + |v|_1 <= 2 K; |u - v|_2^2 = |u|^2 + |v|^2 -
        2 uv <= 2 K^2, because uv >= 0 and |u|_2 <= |u|_1; each number stays in {0..K}, so |u - v|_inf <= K. Each class
        by itself moves by K, which for C of them makes C K and C K^2: joint bounds are smaller from three classes on.

        Else rows come and go, each with x = (u_c - s)_c. Norms are convex, and {u >= 0, |u|_1 <= K} has the corners 0
        and K e_c: |x|_1 <= max(C s, K - s + (C - 1) s), |x|_2^2 <= max(C s^2, (K - s)^2 + (C - 1) s^2) and
        |x|_inf <= K - s.
        With the count's weight w behind, and g places: g |x|_1 + w and so on; so many rows at most as `of_norms` says.
        """
        K = self.output.levels
        if self.classes > 1:
            C, s, w = self.classes, self.shift, self.weight
            places = points // C
            if not w:
                return Sensitivity(neighbours, 2 * K * places, 2 * K * K * places, K)
            l1, l2_squared = max(C * s, K + (C - 2) * s), max(C * s * s, (K - s) ** 2 + (C - 1) * s * s)
            bounds = {"l1": places * l1 + w, "l2_squared": places * l2_squared + w * w, "linf": max(K - s, w)}
            return Sensitivity.of_norms(neighbours, **bounds)
        if not self.weight:
            return Sensitivity.of_boxes([(0, K)] * points, neighbours)
        return Sensitivity.of_boxes([(-K // 2, K // 2)] * points + [(self.weight,) * 2], neighbours)
