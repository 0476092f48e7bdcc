"""What is known about a law of noise beyond `core/noise.py`: how its sums are spread, and what one outcome tells.

One class for each law, and no guarantee rests on it: forecasts, intervals of sums and the audit ask here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammainccinv, gammaincinv, ndtr

from dpexplain.core.noise import Law, Noise

Floats = NDArray[np.float64]

SMALL = 0.03  # share of the standard deviation below which a uniform part counts as normal, given the radius
PROBITS = np.linspace(-7, 7.5, 88)  # of the radius: a sum over them integrates smooth functions nearly exactly
NARROW = 30  # standard deviation of a cube's radius up to which each whole radius is taken


@dataclass(frozen=True)
class Shape(ABC):
    """One law with a number of coordinates and a scale; what is said here holds for independent coordinates."""

    size: int
    scale: float
    norm: ClassVar[float]  # the order of the norm by which neighbours differ for it
    pure: ClassVar[bool] = True  # whether no outcome tells more than |change| / scale, in that norm
    independent: ClassVar[bool] = True  # whether the coordinates are
    on_lattice: ClassVar[bool] = True  # whether `of_sum` is exact

    @abstractmethod
    def length(self, z: Floats) -> Floats:
        """How far each line is from zero: P(z) ~ exp(-length / scale)."""

    @abstractmethod
    def one(self, angle: Floats) -> Floats:
        """E exp(i angle z) for one coordinate z."""

    @abstractmethod
    def apart(self, x: float) -> float:
        """P(z_i - z_j > x scale) for x >= 0, up to the rounding to whole numbers."""

    @abstractmethod
    def l1_halfwidth(self, count: int, tail: float) -> float:
        """h with P(|z_1| + ... + |z_count| > h) <= tail, rounded outwards."""

    @property
    def log_moved(self) -> float:
        """The logarithm of about the probability that a coordinate is not zero, where that is small."""
        return math.log(2) - float(self.length(np.ones((1, 1)))[0]) / self.scale

    def of_sum(self, angle: Floats, count: int) -> Floats:
        """E exp(i angle (z_1 + ... + z_count))."""
        return np.asarray(self.one(angle) ** count)

    def of_spread(self, factors: Floats, u: Floats) -> Floats:
        """E exp(i u S) for the sum S of these multiples of coordinates, each spread evenly over its step."""
        angle = np.outer(u, factors)
        return np.asarray((self.one(angle) * np.sinc(angle / (2 * np.pi))).prod(axis=1))


class Laplace(Shape):
    norm = 1

    def length(self, z: Floats) -> Floats:
        return np.asarray(np.abs(z).sum(axis=1))

    def one(self, angle: Floats) -> Floats:
        return np.asarray(1 / (1 + (np.sin(angle / 2) / math.sinh(0.5 / self.scale)) ** 2))

    def apart(self, x: float) -> float:
        return math.exp(-x) * (2 + x) / 4

    def l1_halfwidth(self, count: int, tail: float) -> float:
        """A sum of exponential numbers."""
        return self.scale * float(gammainccinv(count, tail)) + count


class Gaussian(Shape):
    norm = 2
    pure = False

    def length(self, z: Floats) -> Floats:
        return np.asarray((z**2).sum(axis=1) / (2 * self.scale))

    def one(self, angle: Floats) -> Floats:
        if self.scale >= 2:  # by Poisson's sum, of which the next term is below 3e-9
            return np.asarray(np.exp(-((angle - 2 * np.pi * np.round(angle / (2 * np.pi))) ** 2) * self.scale**2 / 2))
        weights = np.exp(-(np.arange(1, 20) ** 2) / (2 * self.scale**2))
        total = np.ones_like(angle)
        for z, weight in enumerate(weights, start=1):
            total += 2 * weight * np.cos(z * angle)
        return total / (1 + 2 * float(weights.sum()))

    def apart(self, x: float) -> float:
        return float(ndtr(-x / math.sqrt(2)))

    def l1_halfwidth(self, count: int, tail: float) -> float:
        """At most sqrt(count) times the Euclidean norm."""
        return self.scale * float(np.sqrt(count * 2 * gammainccinv(count / 2, tail))) + count


class Cube(Shape):
    """Given the radius t, the coordinates are independent and uniform in {-t..t}."""

    norm = math.inf
    independent = False

    def length(self, z: Floats) -> Floats:
        return np.asarray(np.abs(z).max(axis=1))

    def one(self, angle: Floats) -> Floats:
        return self.of_sum(angle, 1)

    def apart(self, x: float) -> float:
        """Given the radius t, z_i - z_j has a triangular law on [-2t, 2t]. One coordinate has no other: 1/2."""
        if self.size == 1:
            return 0.5
        a, m = x / 2, self.size
        near, far = 2 * a / m * gammaincc(m, a), a * a / (m * (m - 1)) * gammaincc(m - 1, a)
        return float(gammaincc(m + 1, a) - near + far) / 2

    def l1_halfwidth(self, count: int, tail: float) -> float:
        """Each is at most the radius."""
        return count * math.ceil(self.scale * float(gammainccinv(self.size, tail)))

    @property
    def log_moved(self) -> float:
        """As above, for any coordinate."""
        return self.size * math.log(3) - 1 / self.scale

    @property
    def on_lattice(self) -> bool:  # type: ignore[override]
        return self.scale * math.sqrt(self.size + 1) <= NARROW

    def of_sum(self, angle: Floats, count: int) -> Floats:
        radius, weights = _radii(self.size, self.scale)
        half = np.maximum(angle, 1e-9) / 2
        given = np.sin(np.outer(2 * radius, half)) / np.outer(2 * radius, np.sin(half))
        return np.asarray(weights @ given**count)

    def of_spread(self, factors: Floats, u: Floats) -> Floats:
        radius, weights = _radii(self.size, self.scale)
        small = factors * float(weights @ radius) < SMALL * math.sqrt(3)
        along = np.outer(radius, u)  # given the radius r, a part is uniform within r times its factor
        given = np.exp(-float((factors[small] ** 2).sum()) * along**2 / 6)
        for factor, times in zip(*np.unique(factors[~small], return_counts=True), strict=True):
            given = given * np.sinc(factor / np.pi * along) ** times
        return np.asarray(weights @ given)


SHAPES: dict[Law, type[Shape]] = {Law.LAPLACE: Laplace, Law.CUBE: Cube, Law.GAUSSIAN: Gaussian}


def shape_of(noise: Noise) -> Shape:
    return SHAPES[noise.law](noise.size, float(noise.scale))


def radii_of(noise: Noise) -> tuple[Floats, Floats]:
    """Radii of a cube and their weights, which add up to one."""
    return _radii(noise.size, float(noise.scale))


def below(noise: Noise, gap: float) -> float:
    """P(z_i - z_j <= gap) for two different coordinates, up to the rounding to whole numbers.

    The probability that two true values stand in the order of their released ones, `gap` apart, if nothing else is
    known about them.
    """
    tail = shape_of(noise).apart(abs(gap) / float(noise.scale))
    return tail if gap < 0 else 1 - tail


def log_ratio(noise: Noise, away: NDArray[Any], change: NDArray[Any]) -> Floats:
    """log P(z) - log P(z - change) for each line z of `away`: what it tells for one vector against the other."""
    shape = shape_of(noise)
    near, far = shape.length(away.astype(np.float64)), shape.length((away - change).astype(np.float64))
    return np.asarray((far - near) / shape.scale)


@lru_cache(maxsize=256)
def _radii(size: int, scale: float) -> tuple[Floats, Floats]:
    """Radii t + 1/2 of a cube and their weights: each whole t where there are few, else as Gamma(size + 1) has them."""
    if scale * math.sqrt(size + 1) <= NARROW:
        middle, wide = scale * size, 12 * scale * math.sqrt(size + 1)
        start, end = max(0, math.floor(middle - wide)), math.ceil(middle + wide + 45 * scale) + 10
        radius: Floats = np.arange(start, end, dtype=np.float64) + 0.5
        logs = size * np.log(radius) - radius / scale
        weights = np.exp(logs - logs.max())
        return radius, weights / weights.sum()
    low, high = PROBITS[PROBITS < 0], PROBITS[PROBITS >= 0]
    radius = scale * np.concatenate([gammaincinv(size + 1, ndtr(low)), gammainccinv(size + 1, ndtr(-high))])
    weights = np.exp(-(PROBITS**2) / 2)
    return radius, weights / weights.sum()
