"""From a sensitivity and a cost to the noise law with the smallest forecast error. No data, no randomness."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.noise import LARGEST_SCALE, SHAPES, Noise, float_at_least, pure_epsilon, root_at_least
from dpexplain.core.sensitivity import ScoreRange, Sensitivity
from dpexplain.errors import InputError


def selection_epsilon(cost: Cost) -> Fraction:
    """The loss that one exponential mechanism may have at this cost: epsilon, or sqrt(8 rho), rounded down."""
    return pure_epsilon(cost) * (1 if cost.definition is Definition.PURE else 2)


def candidates(sensitivity: Sensitivity, size: int, cost: Cost) -> list[Noise]:
    """Every law that the account's definition allows, at exactly this cost."""
    scales = {law: shape.least_scale(sensitivity, size, cost) for law, shape in SHAPES.items()}
    return [Noise(law, size, scale) for law, scale in scales.items() if scale is not None]


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
    """The smallest scale at this cost: one choice costs length / scale (pure) or (length / scale)^2 / 8 (zCDP)."""
    length = Fraction(change.length)
    if cost.definition is Definition.PURE:
        scale = float_at_least(k * length / cost.amount)
    else:
        scale = root_at_least(k * length * length / (8 * cost.amount))
    if scale > LARGEST_SCALE:
        raise InputError(f"at {cost} the selection would be a draw by lot.", hint="use a larger epsilon")
    return Selection(scale, k, size)
