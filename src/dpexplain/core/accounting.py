"""From rho-zCDP to (epsilon, delta) and back, by the tight conversion of Canonne, Kamath and Steinke (2020).

For every order alpha > 1, rho-zCDP implies (epsilon, delta)-DP with (Proposition 12 there; also Asoodeh et al. 2020)

    epsilon(alpha) = alpha rho + log(1 - 1/alpha) - log(alpha delta) / (alpha - 1).

Any alpha gives a true statement, so the float search for the best alpha cannot break the guarantee; it can
only lose accuracy. Rounding is always against the user: `epsilon_of_rho` is pushed up, `rho_of_epsilon` down.
"""

from __future__ import annotations

import math
from fractions import Fraction

_SLACK = 1e-11  # relative; far above the rounding of the dozen float operations below
_ABSOLUTE = 1e-14  # the terms of the sum are of order one, whatever it adds up to
_DIGITS = 10**12


def epsilon_of_rho(rho: Fraction, delta: Fraction) -> float:
    """The smallest epsilon we can prove for rho-zCDP at this delta, rounded up. Zero for rho = 0."""
    from scipy.optimize import minimize_scalar

    if rho == 0:
        return 0.0
    r, log_delta = float(rho), math.log(delta.numerator) - math.log(delta.denominator)

    def epsilon(log_order: float) -> float:
        excess = math.exp(log_order)  # alpha - 1
        alpha = 1.0 + excess
        return alpha * r - math.log1p(1 / excess) - (math.log1p(excess) + log_delta) / excess

    best = minimize_scalar(epsilon, bounds=(-15.0, 40.0), method="bounded", options={"xatol": 1e-9})
    return max(0.0, float(best.fun)) * (1 + _SLACK) + _SLACK * r + _ABSOLUTE


def rho_of_epsilon(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho (to twelve digits, rounded down) whose conversion at delta is at most epsilon."""
    target = float(epsilon) * (1 - _SLACK)
    low, high = 0.0, float(epsilon) + 1.0
    while epsilon_of_rho(Fraction(high), delta) < target:  # only for large deltas
        high *= 2
    while high - low > 1e-13 * high and high > 1e-300:
        middle = (low + high) / 2
        if epsilon_of_rho(Fraction(middle), delta) <= target:
            low = middle
        else:
            high = middle
    if low == 0.0:
        return Fraction(0)
    exponent = math.floor(math.log10(low))
    step = Fraction(10) ** exponent / _DIGITS
    return (Fraction(low) // step) * step


def epsilon_of_zcdp_pure(rho: Fraction) -> Fraction:
    """The largest epsilon (rounded down) such that an epsilon-DP mechanism is rho-zCDP: epsilon^2 / 2 <= rho.

    Bun and Steinke 2016, Proposition 1.4.
    """
    scale = 10**30
    scaled = 2 * rho * scale * scale
    return Fraction(math.isqrt(scaled.numerator // scaled.denominator), scale)
