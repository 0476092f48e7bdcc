"""The moments of the local loss as whole numbers to be released, and the way back to a local model.

Statistic   A = sum y y' and b = sum t y over the rows (see `Local`). Released: the upper triangle of A, entries off the
            diagonal times sqrt(2), and b times a public scale s; all multiplied by a public numerator and divided by
            2^SHIFT, rounded down, once and after the sum.
Bound       with the Y and T of a row's step of distance and N^2 = Y^2 (Y^2 + s^2 T^2): add-remove, max N over the
            steps; replace-one, the largest N^2 + N'^2 + 2 max of (s^2 T T' v - v^2) over 0 <= v <= Y Y', squared, over
            all pairs of steps. k rows of a unit: k times as far. Rounding: sqrt(size) more, once.
Solve       minimise phi.A phi - 2 b.phi on the ball: A without its negative eigenvalues, plus a ridge as large as
            its noise. The number of rows is not needed. Where the value at the record is fitted, the ball is for the
            directions that the rows do not determine, and the others are free. All of it in the directions that ways
            between records have (`Space.basis`): A and b are zero in the others, so is phi, and the noise is the same
            in every orthonormal basis.

docs/methods/local-explanations.md has the proof of the bound, and says what intervals follow and what they assume.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject, fraction_text
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.maths.surrogate.ball import Quadratic
from dpexplain.maths.surrogate.fit import SHARE, Asked, Fit, Released
from dpexplain.maths.surrogate.local import CONSTANT, Local, LocalSpec

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SHIFT = 20
BLOCKS, MOST_STEPS = 256, 1024
SCALES = tuple(Fraction(i, 16) for i in (8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48))  # whole numbers by 2^SHIFT
BALL = 0.6  # of the forecast loss is left by the ball, on Adult
RIDGE = 0.8  # in units of std sqrt(n), about the size of the noise in A; chosen on Adult, IMDB and synthetic tables


@dataclass(frozen=True)
class Moments(LocalSpec):
    """What is released about the rows around one record. Public."""

    scale: Fraction  # of b
    radius: float
    # the share of the price for the average person; None in older files: read as they were, all coordinates in the ball
    average: Fraction | None = None

    method: ClassVar[str] = "moments"

    @classmethod
    def of(cls, local: Local, relation: Relation, radius: float) -> Moments:
        """With the scale of the smallest forecast loss.

        Noise of standard deviation d in every released number makes noise d^2 (|phi|^2 / 2 + 1 / s^2) in A phi - b, and
        the excess loss is proportional to that; d is proportional to the bound.
        """

        candidates = (cls(local, scale, radius, SHARE) for scale in SCALES)
        return min(candidates, key=lambda moments: moments.distance(relation) ** 2 * moments.noise_share)

    @property
    def noise_share(self) -> float:
        """The variance of one coordinate of A phi - b, in units of the variance of one released number."""
        return self.radius**2 / 2 + 1 / float(self.scale) ** 2

    @property
    def size(self) -> int:
        """How many numbers are released."""
        n = self.local.size
        return n * (n + 1) // 2 + n

    @cached_property
    def _numerators(self) -> list[int]:
        """What each exact sum is multiplied with, in units of 2^-SHIFT."""
        rows, columns = np.triu_indices(self.local.size)
        triangle = np.where(rows == columns, 1 << SHIFT, math.isqrt(2 << (2 * SHIFT)))
        return [*triangle.tolist(), *[int(self.scale * 2**SHIFT)] * self.local.size]

    def pack(self, gram: Integers) -> list[int]:
        """The whole numbers to be released, from the exact sums of `Local.gram`."""
        n = self.local.size
        A, b = gram[: n * n].reshape(n, n), gram[n * n :]
        sums = [*A[np.triu_indices(n)].tolist(), *b.tolist()]  # Python's integers do not wrap around
        return [(numerator * value) >> SHIFT for numerator, value in zip(self._numerators, sums, strict=True)]

    def unpack(self, values: Integers) -> tuple[Floats, Floats]:
        """(A, b) again."""
        n = self.local.size
        sums = values / (np.array(self._numerators) / 2**SHIFT)
        A = np.zeros((n, n))
        A[np.triu_indices(n)] = sums[: self.size - n]
        return A + np.triu(A, 1).T, sums[self.size - n :]

    def distance(self, relation: Relation) -> float:
        """How far one row can move the exact sums, before rounding."""
        Y, T = self.local.longest
        if relation is Relation.ADD_REMOVE:
            return math.sqrt((Y**2 * (Y**2 + float(self.scale) ** 2 * T**2)).max())
        # Pairs grow with Y and T, so a block of steps with the largest of each bounds its pairs; only blocks that could
        # hold more than the farthest pair inside one step are looked at step by step.
        least = self._pairs(Y[:, None], T[:, None]).max()
        blocks = self._pairs(*(largest.reshape(BLOCKS, -1).max(axis=1) for largest in (Y, T)))
        kept = np.repeat(blocks.max(axis=1) >= least, len(Y) // BLOCKS)
        if kept.sum() > MOST_STEPS:
            return math.sqrt(blocks.max())
        return math.sqrt(max(least, self._pairs(Y[kept], T[kept]).max()))

    def _pairs(self, Y: Floats, T: Floats) -> Floats:
        """How far a row of one step that takes the place of one of another can move the sums, squared."""
        s2 = float(self.scale) ** 2
        N2 = Y**2 * (Y**2 + s2 * T**2)
        against = s2 * T[..., :, None] * T[..., None, :]
        v = np.minimum(against / 2, Y[..., :, None] * Y[..., None, :])
        return np.asarray(N2[..., :, None] + N2[..., None, :] + 2 * v * (against - v))

    def bound(self, neighbours: Neighbours) -> int:
        """How far one unit can move the released numbers."""
        return math.floor(neighbours.rows * self.distance(neighbours.relation) + math.sqrt(self.size)) + 1

    def fit(self, values: Sequence[int], std: float) -> Fit:
        """The local model that follows from released values whose noise has this standard deviation."""
        A, b = self.unpack(np.array(values, dtype=np.int64))
        Q, unit, size = self._basis, self.local.unit, self.local.space.size
        ridge = RIDGE * std * math.sqrt(Q.shape[1])
        free = self.local.fitted and self.average is not None  # with an anchor, the paper's loss: all in the ball
        problem = Quadratic(Q.T @ A @ Q, Q.T @ b, ridge, self._reach, std, free)
        phi = problem.solution
        most = math.hypot(1 / float(self.scale), max(self._reach, float(np.linalg.norm(phi))))

        def ways(lines: Floats) -> Floats:
            """Directions of coefficients, which leave the fitted value alone, in the basis."""
            lines = np.atleast_2d(lines)
            return np.pad(lines, ((0, 0), (0, self.local.size - lines.shape[1]))) @ Q

        drowned = np.linalg.eigvalsh(problem.A)[-1] < problem.least
        note = "the noise is as large as what the rows say: use a larger epsilon or a wider weight"
        solution, value = Q @ phi, self.local.anchor
        if value is None:
            output, value = self.local.output, self.local.output.middle + unit * CONSTANT * float(solution[-1])
            value = min(max(value, output.low), output.high)
        return Fit(
            coefficients=unit * solution[:size],
            value=value,
            spread=lambda lines: unit * std * most * np.linalg.norm(problem.determined(ways(lines))[0], axis=1),
            reference=self.local.space.middle,
            notes=(note,) if drowned else (),
            pull=lambda lines: unit * problem.pull(ways(lines)),
            unknown=lambda lines: unit * problem.unknown(ways(lines)),
        )

    @cached_property
    def _basis(self) -> Floats:
        """The directions of coefficients that count, and the fitted value's own."""
        from scipy.linalg import block_diag

        if self.average is None:
            return np.eye(self.local.size)
        return np.asarray(block_diag(self.local.space.basis, np.eye(int(self.local.fitted))))

    @property
    def _reach(self) -> float:
        """The ball of coefficients; with a fitted value large enough for every value of the output."""
        return math.hypot(self.radius, 1 / CONSTANT) if self.local.fitted else self.radius

    def forecast_loss(self, A: Floats, std: float, rows: int) -> float:
        """The excess of the mean loss to be expected for rows with the mean moments A, on the scale of the target.

        Noise of variance t^2 in every coordinate of A phi - b moves phi by t^2 / w^2 in a direction where A is w, and
        by no more than two points of the ball are apart, 2 radius^2 / n; it costs w times that. The ball helps besides,
        on Adult by a factor `BALL`.
        """
        t2 = self.noise_share * (std / (rows * self.local.levels**2)) ** 2
        w = np.maximum(np.linalg.eigvalsh(A), 0.0)
        apart = 2 * self.radius**2 / len(w)
        return BALL * float((w * t2 * apart / (w**2 * apart + t2)).sum())

    def to_json(self) -> JsonObject:
        return super().to_json() | {"scale": fraction_text(self.scale)}

    @classmethod
    def from_json(cls, value: JsonObject) -> Moments:
        moments = super().from_json(value)
        if moments.scale not in SCALES or not 0 < moments.radius < math.inf:
            raise ValueError("no moments of ours")
        return moments

    def read(self, released: Released, asked: Asked) -> Fit:
        """The local model of a release; of the record that it was released for, and no other."""
        asked.require(self.local.record)
        values, noise = released.part("moments", self.size)
        return self.fit(values, noise.std)
