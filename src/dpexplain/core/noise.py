"""The laws of the noise we add, as public facts: the scale for a cost, spread, intervals. Nothing is drawn here.

    discrete-laplace   P(z) ~ exp(-|z|_1 / scale)              for one bound in L1
    cube               P(z) ~ exp(-|z|_inf / scale) on Z^m     for one bound in L-inf
    discrete-gaussian  P(z) ~ exp(-|z|_2^2 / (2 scale^2))      for one bound in L2

A law is one class below. What else is known about it, which no guarantee needs, is one class in `maths/laws.py`;
`core.samplers` draws it. Intervals round outwards. In a zCDP account an epsilon-DP law costs epsilon^2 / 2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

from scipy.special import gammaincc, gammainccinv, ndtri

from dpexplain.core.accounting import epsilon_of_zcdp_pure
from dpexplain.core.budget import Cost, Definition
from dpexplain.core.canonical import JsonObject, fraction_text, parse_fraction
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.errors import InputError

LARGEST_SCALE = 2**46  # noisy values must fit into 64 bits


class Law(StrEnum):
    LAPLACE = "discrete-laplace"
    CUBE = "cube"
    GAUSSIAN = "discrete-gaussian"


@dataclass(frozen=True)
class Noise:
    """Independent of the data: the law, the number of coordinates and the exact scale."""

    law: Law
    size: int
    scale: Fraction

    @cached_property
    def _shape(self) -> Shape:
        return SHAPES[self.law](self.size, float(self.scale))

    @property
    def std(self) -> float:
        """Standard deviation of one coordinate."""
        return self._shape.std()

    def halfwidth(self, level: float) -> float:
        """h with P(|z_i| <= h) >= level for each single coordinate."""
        return self._shape.halfwidth(1 - checked_level(level))

    def band(self, level: float) -> float:
        """h with P(max_i |z_i| <= h) >= level: a simultaneous band over all coordinates."""
        return self._shape.band(1 - checked_level(level))

    def to_json(self) -> JsonObject:
        return {"law": self.law.value, "size": self.size, "scale": fraction_text(self.scale)}

    @classmethod
    def from_json(cls, value: JsonObject) -> Noise:
        noise = cls(Law(value["law"]), int(value["size"]), parse_fraction(value["scale"]))
        if not 1 <= noise.size < 2**32 or not Fraction(1, 2**64) <= noise.scale <= 2**64:
            raise ValueError("no noise of ours")
        return noise


@dataclass(frozen=True)
class Shape(ABC):
    """One law with a number of coordinates and a scale; what is said here holds for independent coordinates."""

    size: int
    scale: float

    @staticmethod
    @abstractmethod
    def least_scale(sensitivity: Sensitivity, size: int, cost: Cost) -> Fraction | None:
        """The scale that is worth exactly this cost, or a little less; None where the law is not available."""

    def std(self) -> float:
        """The standard deviation of one coordinate: the scale, where a law does not say otherwise."""
        return self.scale

    @abstractmethod
    def halfwidth(self, tail: float) -> float:
        """h with P(|z_i| > h) <= tail."""

    def band(self, tail: float) -> float:
        """h with P(max_i |z_i| > h) <= tail."""
        return self.halfwidth(-math.expm1(math.log1p(-tail) / self.size))


class Laplace(Shape):
    """scale >= l1 / epsilon is epsilon-DP: |s+z|_1 and |s'+z|_1 differ by at most l1."""

    @staticmethod
    def least_scale(sensitivity: Sensitivity, size: int, cost: Cost) -> Fraction | None:  # noqa: ARG004 - of any size
        epsilon = pure_epsilon(cost)
        return float_at_least(sensitivity.l1 / epsilon) if epsilon > 0 else None

    def std(self) -> float:
        return 1 / (math.sqrt(2) * math.sinh(0.5 / self.scale)) if self.scale > 1e-3 else 0.0

    def halfwidth(self, tail: float) -> float:
        return max(0, math.ceil(self.scale * math.log(2 / (tail * (1 + math.exp(-1 / self.scale)))) - 1))


class Cube(Shape):
    """scale = linf / epsilon is epsilon-DP: |s+z|_inf and |s'+z|_inf differ by at most linf.

    The radius t has P(t) ~ (2t+1)^m exp(-t / scale), and every coordinate is uniform in {-t..t} given t. With the scale
    well above 1 the radius is Gamma(m + 1) and |z|_inf is Gamma(m), which the intervals use.
    """

    @staticmethod
    def least_scale(sensitivity: Sensitivity, size: int, cost: Cost) -> Fraction | None:
        epsilon = pure_epsilon(cost)  # above linf / size the exact sampler would reject nearly everything
        return sensitivity.linf / epsilon if sensitivity.linf >= size * epsilon > 0 else None

    def std(self) -> float:
        return self.scale * math.sqrt((self.size + 1) * (self.size + 2) / 3)

    def halfwidth(self, tail: float) -> float:
        """P(T V > a) = tail for T ~ Gamma(m + 1) and V uniform in [0, 1]: E[(1 - a/T)+] has a closed form."""
        from scipy.optimize import brentq

        def excess(a: float) -> float:
            return float(gammaincc(self.size + 1, a) - a / self.size * gammaincc(self.size, a)) - tail

        return math.ceil(self.scale * float(brentq(excess, 0.0, gammainccinv(self.size + 1, tail) + 1.0, xtol=1e-9)))

    def band(self, tail: float) -> float:
        return math.ceil(self.scale * float(gammainccinv(self.size, tail)))


class Gaussian(Shape):
    """scale^2 >= l2^2 / (2 rho) is rho-zCDP (Canonne, Kamath, Steinke 2020, Theorem 14). No use in a pure account."""

    @staticmethod
    def least_scale(sensitivity: Sensitivity, size: int, cost: Cost) -> Fraction | None:  # noqa: ARG004 - of any size
        zcdp = cost.definition is Definition.ZCDP
        return root_at_least(sensitivity.l2_squared / (2 * cost.amount)) if zcdp else None

    def halfwidth(self, tail: float) -> float:
        return math.ceil(self.scale * -float(ndtri(tail / 2)))


SHAPES: dict[Law, type[Shape]] = {Law.LAPLACE: Laplace, Law.CUBE: Cube, Law.GAUSSIAN: Gaussian}


def pure_epsilon(cost: Cost) -> Fraction:
    """The epsilon that an epsilon-DP mechanism may have at this cost."""
    return cost.amount if cost.definition is Definition.PURE else epsilon_of_zcdp_pure(cost.amount)


def float_at_least(value: Fraction) -> Fraction:
    """`value` rounded up to a float with a few bits to spare, because OpenDP takes scales as floats."""
    if value > LARGEST_SCALE:
        return value  # `mechanisms.best` refuses it
    return Fraction(float(value) * (1 + 2**-48))


def root_at_least(value: Fraction) -> Fraction:
    """The square root of `value`, rounded up like `float_at_least`."""
    if value > LARGEST_SCALE**2:
        return value
    return float_at_least(Fraction(math.sqrt(value)))


def checked_level(level: float) -> float:
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise InputError(
            f"a confidence level lies between 0 and 1; got {level!r}.", hint="for example interval(0.95)", spent=""
        )
    return float(level)
