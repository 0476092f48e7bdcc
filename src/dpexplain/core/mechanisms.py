"""From a sensitivity and a price to the noise law with the smallest forecast error. No data, no randomness.

Privacy, for an integer statistic s with bounds l1, l2, linf between neighbours:

    cube               scale = linf / epsilon   is epsilon-DP: ||s+z|_inf - |s'+z|_inf| <= linf
    discrete-laplace   scale >= l1 / epsilon    is epsilon-DP
    discrete-gaussian  scale^2 >= l2^2 / (2 rho) is rho-zCDP (Canonne, Kamath, Steinke 2020, Theorem 14)

In a zCDP account an epsilon-DP law costs epsilon^2 / 2. A pure account has no use for a Gaussian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpexplain.core.accounting import epsilon_of_zcdp_pure
from dpexplain.core.budget import Cost, Definition
from dpexplain.core.noise import Law, Noise
from dpexplain.core.sensitivity import ScoreRange, Sensitivity
from dpexplain.errors import InputError

LARGEST_SCALE = 2**46  # noisy values must fit into 64 bits


def pure_epsilon(cost: Cost) -> Fraction:
    """The epsilon that an epsilon-DP mechanism may have at this price."""
    return cost.amount if cost.definition is Definition.PURE else epsilon_of_zcdp_pure(cost.amount)


def selection_epsilon(cost: Cost) -> Fraction:
    """The loss that one exponential mechanism may have at this price: epsilon, or sqrt(8 rho), rounded down."""
    return cost.amount if cost.definition is Definition.PURE else 2 * epsilon_of_zcdp_pure(cost.amount)


def candidates(sensitivity: Sensitivity, size: int, cost: Cost) -> list[Noise]:
    """Every law that the account's definition allows, at exactly this price."""
    laws, epsilon = [], pure_epsilon(cost)
    if epsilon > 0:
        laws.append(Noise(Law.LAPLACE, size, float_at_least(Fraction(sensitivity.l1) / epsilon)))
    if sensitivity.linf >= size * epsilon > 0:  # below that the exact sampler would reject nearly everything
        laws.append(Noise(Law.CUBE, size, Fraction(sensitivity.linf) / epsilon))
    if cost.definition is Definition.ZCDP:
        laws.append(Noise(Law.GAUSSIAN, size, root_at_least(Fraction(sensitivity.l2_squared) / (2 * cost.amount))))
    return laws


def best(sensitivity: Sensitivity, size: int, cost: Cost, mechanism: str | None = None) -> Noise:
    """The law with the smallest standard deviation, or the one asked for by name."""
    allowed = [noise for noise in candidates(sensitivity, size, cost) if noise.scale <= LARGEST_SCALE]
    if not allowed:
        raise InputError(
            f"at {cost} the noise would drown every number a computer can hold.", hint="use a larger epsilon"
        )
    if mechanism is not None:
        named = [noise for noise in allowed if noise.law == mechanism]
        if not named:
            names = ", ".join(sorted(noise.law.value for noise in allowed))
            raise InputError(
                f"mechanism {mechanism!r} is not available for this release in a {cost.definition.value} account.",
                hint=f"available here: {names}",
            )
        return named[0]
    return min(allowed, key=lambda noise: noise.std)


@dataclass(frozen=True)
class Selection:
    """Noisy top-k over public candidates: the scale in units of the score, and the bound it implies."""

    scale: Fraction
    k: int
    candidates: int

    def shortfall(self, level: float) -> float:
        """With probability `level`, each chosen score is at most this far below the one it should have beaten."""
        return float(self.scale) * math.log(self.candidates * self.k / (1 - level))


def selection(change: ScoreRange, size: int, cost: Cost, k: int) -> Selection:
    """The smallest scale at this price: one choice costs length / scale (pure) or (length / scale)^2 / 8 (zCDP)."""
    length = Fraction(change.length)
    if cost.definition is Definition.PURE:
        scale = float_at_least(k * length / cost.amount)
    else:
        scale = root_at_least(k * length * length / (8 * cost.amount))
    if scale > LARGEST_SCALE:
        raise InputError(f"at {cost} the selection would be a draw by lot.", hint="use a larger epsilon")
    return Selection(scale, k, size)


def float_at_least(value: Fraction) -> Fraction:
    """`value` rounded up to a float with a few bits to spare, because OpenDP takes scales as floats."""
    if value > LARGEST_SCALE:
        return value  # `best` refuses it
    return Fraction(float(value) * (1 + 2**-48))


def root_at_least(value: Fraction) -> Fraction:
    """The square root of `value`, rounded up like `float_at_least`."""
    if value > LARGEST_SCALE**2:
        return value
    return float_at_least(Fraction(math.sqrt(value)))
