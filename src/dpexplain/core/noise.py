"""The laws of the noise we add, as public facts: spread, intervals, simultaneous bands. Nothing is drawn here.

    cube               P(z) ~ exp(-|z|_inf / scale) on Z^m     for one bound in L-inf
    discrete-laplace   P(z) ~ exp(-|z|_1 / scale)              for one bound in L1
    discrete-gaussian  P(z) ~ exp(-|z|_2^2 / (2 scale^2))      for one bound in L2

The cube's radius t has P(t) ~ (2t+1)^m exp(-t / scale) and every coordinate is uniform in {-t..t} given t. With the
scale well above 1 the radius is Gamma(m + 1), |z|_inf is Gamma(m); the intervals below use these and round outwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from scipy.special import gammaincc, gammainccinv, ndtr, ndtri

from dpexplain.core.canonical import JsonObject, fraction_text, parse_fraction
from dpexplain.errors import InputError


class Law(StrEnum):
    CUBE = "cube"
    LAPLACE = "discrete-laplace"
    GAUSSIAN = "discrete-gaussian"


@dataclass(frozen=True)
class Noise:
    """Independent of the data: the law, the number of coordinates and the exact scale."""

    law: Law
    size: int
    scale: Fraction

    @property
    def std(self) -> float:
        """Standard deviation of one coordinate."""
        b = float(self.scale)
        if self.law is Law.CUBE:
            return b * math.sqrt((self.size + 1) * (self.size + 2) / 3)
        if self.law is Law.LAPLACE:
            return 1 / (math.sqrt(2) * math.sinh(0.5 / b)) if b > 1e-3 else 0.0
        return b

    def halfwidth(self, level: float) -> float:
        """h with P(|z_i| <= h) >= level for each single coordinate."""
        tail, b = 1 - checked_level(level), float(self.scale)
        if self.law is Law.CUBE:
            return math.ceil(b * _cube_quantile(self.size, tail))
        if self.law is Law.LAPLACE:
            return max(0, math.ceil(b * math.log(2 / (tail * (1 + math.exp(-1 / b)))) - 1))
        return math.ceil(b * -float(ndtri(tail / 2)))

    def band(self, level: float) -> float:
        """h with P(max_i |z_i| <= h) >= level: a simultaneous band over all coordinates."""
        tail, b = 1 - checked_level(level), float(self.scale)
        if self.law is Law.CUBE:
            return math.ceil(b * float(gammainccinv(self.size, tail)))
        return self.halfwidth((1 - tail) ** (1 / self.size))  # the coordinates are independent

    def below(self, gap: float) -> float:
        """P(z_i - z_j <= gap) for two different coordinates, up to the rounding to whole numbers.

        The probability that two true values stand in the order of their released ones, `gap` apart, if nothing else
        is known about them. For the cube, given the radius t, z_i - z_j has a triangular law on [-2t, 2t].
        """
        b, tail = float(self.scale), 0.5
        x = abs(gap) / b
        if self.law is Law.LAPLACE:
            tail = math.exp(-x) * (2 + x) / 4
        elif self.law is Law.GAUSSIAN:
            tail = float(ndtr(-x / math.sqrt(2)))
        elif self.size > 1:
            a, m = x / 2, self.size
            tail = (
                float(gammaincc(m + 1, a) - 2 * a / m * gammaincc(m, a) + a * a / (m * (m - 1)) * gammaincc(m - 1, a))
                / 2
            )
        return tail if gap < 0 else 1 - tail

    def to_json(self) -> JsonObject:
        return {"law": self.law.value, "size": self.size, "scale": fraction_text(self.scale)}

    @classmethod
    def from_json(cls, value: JsonObject) -> Noise:
        noise = cls(Law(value["law"]), int(value["size"]), parse_fraction(value["scale"]))
        if not 1 <= noise.size < 2**32 or not Fraction(1, 2**64) <= noise.scale <= 2**64:
            raise ValueError("no noise of ours")
        return noise


def checked_level(level: float) -> float:
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise InputError(
            f"a confidence level lies between 0 and 1; got {level!r}.", hint="for example interval(0.95)", spent=""
        )
    return float(level)


def _cube_quantile(m: int, tail: float) -> float:
    """a with P(T V > a) = tail for T ~ Gamma(m + 1) and V uniform in [0, 1]: E[(1 - a/T)+] in closed form."""
    from scipy.optimize import brentq

    def excess(a: float) -> float:
        return float(gammaincc(m + 1, a) - a / m * gammaincc(m, a)) - tail

    return float(brentq(excess, 0.0, float(gammainccinv(m + 1, tail)) + 1.0, xtol=1e-9))
