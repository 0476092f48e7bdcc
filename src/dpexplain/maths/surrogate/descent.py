"""Noisy gradient descent on a ball, in whole numbers: what a step asks of the rows, and the path replayed from answers.

Gradient    of L(phi) = sum over rows of (phi.y - t)^2 in the whole numbers y, t of `Local`, at phi = p / F with whole
            numbers p: F times it is 2 (A p - F b) with A = sum y y', b = sum t y, exactly. It is divided by a public
            power of two and rounded once, to about 2^24 for the longest row.
Bound       with P = F r + sqrt(n) / 2 >= |p|, w = 2 P Y^2 and q = 2 F T Y for the Y and T of a step of distance
            (`Local.longest`): add-remove, c = max (w + q) over the steps; replace-one, c + max q. k rows of a unit: k
            times as much. Rounding: sqrt(n) more. The length of the rounded gradient, rounded down, moves by no more.
            docs/methods/adaptive-explanations.md has the proofs.
Path        phi(t) = the nearest point of the ball to phi(t-1) - eta(t) g(t), rounded to whole numbers of 1 / F, with g
            the released gradient of the mean loss, eta(t) = r / (G sqrt(t)), G^2 = c^2 + n sigma^2 (Shamir, Zhang
            2013). Elementary operations on IEEE floats only, so a release is the same path on every machine.
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

from dpexplain.core.canonical import JsonObject
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.maths.surrogate.fit import UNSETTLED, Asked, Fit, Released
from dpexplain.maths.surrogate.local import SLACK, LocalSpec

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FINE = 2**20  # F: coefficients are whole numbers of 1 / F
LONGEST_ROW = 2**24  # of a released gradient, about
PIECE = 21  # bits: three pieces make 63
LARGEST_RADIUS = 16.0


class Sums:
    """The exact sums of `Local.gram`, ready for exact products with points. Private."""

    def __init__(self, gram: Integers, size: int) -> None:
        A, mask = gram[: size * size].reshape(size, size), 2**PIECE - 1
        self._pieces = np.stack([A & mask, (A >> PIECE) & mask, A >> (2 * PIECE)])  # below 2^21 each
        self._b = gram[size * size :].astype(object)

    def gradient(self, point: Integers, divisor: int) -> list[int]:
        """2 (A p - F b) / divisor, rounded to the nearest whole numbers: exact, however large the sums."""
        return self._gradients(point[None], divisor)[0]

    def lengths(self, points: Integers, divisor: int) -> list[int]:
        """|g| at each line of `points`, rounded down."""
        return [length(gradient) for gradient in self._gradients(points, divisor)]

    def _gradients(self, points: Integers, divisor: int) -> list[list[int]]:
        """A piece times a point is below 2^21 * 2^25 in each of n terms, so it fits into 64 bits; the pieces are put
        together as Python integers.
        """
        low, middle, high = (points @ self._pieces).astype(object)
        product = (high << (2 * PIECE)) + (middle << PIECE) + low  # A is symmetric
        doubled = 2 * (product - FINE * self._b)
        lines: list[list[int]] = ((doubled + divisor // 2) // divisor).tolist()
        return lines


def length(gradient: Sequence[int]) -> int:
    """|g|, rounded down, exactly."""
    return math.isqrt(sum(v * v for v in gradient))


@dataclass(frozen=True)
class Descent(LocalSpec):
    """One path: all that fixes its steps and their noise. Public."""

    iterations: int
    radius: float
    accounting: str
    rows: int | None  # public, or a declared guess; None: a count is released
    step: Fraction  # the part of the price that one step costs
    count: Fraction  # the part that the count costs; 0 without one
    average: Fraction | None = None  # the part for the average person; None in files from before it was released

    method: ClassVar[str] = "gradient"

    @classmethod
    def from_json(cls, value: JsonObject) -> Descent:
        path = super().from_json(value)
        if not 0 < path.radius <= LARGEST_RADIUS:
            raise ValueError("no radius of ours")
        return path

    # One step, in whole numbers ------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """How many numbers a gradient has."""
        return self.local.space.size

    @cached_property
    def _lengths(self) -> tuple[float, float]:
        """c and the largest q, before the division."""
        y, t = self.local.longest
        longest = FINE * self.radius + math.sqrt(self.size) / 2
        q = 2 * FINE * t * y
        return float((2 * longest * y * y + q).max()) * SLACK, float(q.max()) * SLACK

    @cached_property
    def divisor(self) -> int:
        return 1 << max(0, round(math.log2(self._lengths[0] / LONGEST_ROW)))

    def bound(self, neighbours: Neighbours) -> int:
        """How far one unit can move a rounded gradient, in Euclidean length; and its length."""
        c, q = self._lengths
        one = c if neighbours.relation is Relation.ADD_REMOVE else c + q
        return math.ceil(neighbours.rows * one / self.divisor + math.sqrt(self.size))

    @property
    def unit(self) -> float:
        """The whole number that stands for a gradient of 1."""
        return FINE * self.local.levels**2 / self.divisor

    @cached_property
    def steepest(self) -> float:
        """c: no mean gradient is longer."""
        return self._lengths[0] / self.divisor / self.unit

    def start(self) -> Integers:
        return np.zeros(self.size, dtype=np.int64)

    def rate(self, sigma: float) -> float:
        """eta(1), with noise of standard deviation sigma on each coordinate of the mean gradient."""
        return self.radius / math.sqrt(self.steepest**2 + self.size * sigma**2)

    def loss_bound(self, sigma: float, steps: int | None = None) -> float:
        """How far the mean loss can be expected to end above its minimum on the ball: Theorem 3.2, with its constants.

        Shamir and Zhang 2013, Theorem 2: with steps C / sqrt(t), a set of diameter D, and E|g|^2 <= G^2, the last point
        is at most (D^2 / C + C G^2) (2 + log T) / sqrt(T) above the minimum. Here D = 2 r and C = r / G: 5 r G (2 + log
        T) / sqrt(T). It holds from any start. Theorem 4.5 is this for the steps and the noise that a query took.
        """
        steps = self.iterations if steps is None else steps
        return 5 * self.radius**2 / self.rate(sigma) * (2 + math.log(steps)) / math.sqrt(steps)

    @property
    def largest_loss(self) -> float:
        """No mean loss at a point of the ball is larger: (r Y + T)^2 at the worst distance."""
        y, t = self.local.longest
        return float(((self.radius * y + t) ** 2).max()) / self.local.levels**2

    def follow(self, point: Integers, gradient: Sequence[int], number: int, scale: float, rows: int) -> Integers:
        """The next point after step `number`: the released gradient, its noise's scale, and about how many rows."""
        one = self.unit * rows
        eta = self.rate(scale / one) / math.sqrt(number)
        moved = point - FINE * eta / one * np.array(gradient, dtype=np.float64)
        length, most = math.sqrt(math.fsum(moved * moved)), FINE * self.radius
        return np.rint(moved if length <= most else moved * (most / length)).astype(np.int64)

    # A released path ------------------------------------------------------------------------------------------------

    def rows_in(self, released: Released) -> int:
        """About how many rows there are: public, or the released count."""
        return max(1, int(released.parts["count"]["values"][0]) if self.rows is None else self.rows)

    def replay(self, released: Released, start: Integers | None = None) -> tuple[Integers, float]:
        """The last point of a released path, and the standard deviation that noise gives it in any direction, at most.

        Let H be the Hessian of the mean loss. An exact step from phi + e instead of phi ends (1 - eta H) e away, and
        eta H <= 1 because no row has a longer Hessian than c / r; bringing both points into the ball brings them no
        further apart. So errors never grow, and those of T steps add up to at most sum eta(t)^2 sigma(t)^2 in variance.
        """
        point, variance, number = self.start() if start is None else start, 0.0, 1
        rows = self.rows_in(released)
        while (name := f"gradient-{number}") in released.parts:
            gradient, noise = released.part(name, self.size)
            point = self.follow(point, gradient, number, float(noise.scale), rows)
            sigma = float(noise.scale) / (self.unit * rows)
            variance += (self.rate(sigma) * sigma) ** 2 / number
            number += 1
        return point, math.sqrt(variance)

    def read(self, released: Released, asked: Asked) -> Fit:
        """The local model of a released path; of the record that it was released for, and no other."""
        asked.require(self.local.record)
        return self.fit(released, asked)

    def fit(self, released: Released, asked: Asked, start: Integers | None = None) -> Fit:
        """The local model at the end of the path, which is also an answer for a record nearby."""
        local, notes = self.local, list(asked.notes)
        point, deviation = self.replay(released, start)
        value = local.passes if asked.value is None else asked.value
        explained = local.space.read(asked.record)
        if explained != dict(local.record):
            away = float(np.linalg.norm(local.space.locate(explained) - local.centre))
            notes.append(f"computed for another record, {away:.3g} away")
        if not local.output.low <= value <= local.output.high:
            raise ValueError("this value is no prediction of the model")
        return Fit(
            coefficients=point.astype(np.float64) * (local.unit / FINE),
            value=value,
            spread=lambda lines: np.linalg.norm(lines, axis=-1) * (deviation * local.unit),
            reference=local.space.middle,
            notes=(*notes, UNSETTLED),
            settled=False,
        )
