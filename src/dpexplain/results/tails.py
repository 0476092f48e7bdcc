"""How far a weighted sum of released noise and of chance may be off: half-widths of its intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv, ndtri

from dpexplain.core.noise import Law, Noise, checked_level

TERMS, RADII, PERIOD = 1_024, 64, 60  # of the sums that a tail is computed by; in standard deviations


def combined_halfwidth(noise: Noise, coefficients: Sequence[float], drawn: float, level: float) -> float:
    """h with P(|sum_i c_i z_i + g| <= h) = level, for coordinates z_i of one noise vector and g ~ N(0, drawn^2)."""
    parts = np.append(np.abs(coefficients) * noise.std, drawn)
    size = float(np.sqrt((parts**2).sum()))
    if size == 0:
        return 0.0
    *shares, normal = (round(float(part), 3) for part in parts / size)
    return size * _standard_halfwidth(noise.law, noise.size, tuple(sorted(shares)), normal, checked_level(level))


@lru_cache(maxsize=4_096)
def _standard_halfwidth(law: Law, size: int, shares: tuple[float, ...], normal: float, level: float) -> float:
    """Of a sum of independent parts with these standard deviations; its own is one. By its characteristic function f,

    P(|Z| <= t) = 2 / pi times the integral over u > 0 of sin(u t) / u f(u).
    """
    step = 2 * np.pi / PERIOD
    u = (np.arange(TERMS) + 0.5) * step
    f = np.exp(-((normal * u) ** 2) / 2)
    if law is Law.CUBE:  # given the radius, the coordinates are independent and uniform
        radius = gammaincinv(size + 1, (np.arange(RADII) + 0.5) / RADII) / math.sqrt((size + 1) * (size + 2) / 3)
        f = f * np.mean([np.prod([np.sinc(s * r * u / np.pi) for s in shares], axis=0) for r in radius], axis=0)
    else:
        for s in shares:
            f = f * (1 / (1 + (s * u) ** 2 / 2) if law is Law.LAPLACE else np.exp(-((s * u) ** 2) / 2))

    def missing(t: float) -> float:
        return float((np.sin(u * t) / u * f).sum()) * 2 / np.pi * step - level

    gauss = -float(ndtri((1 - level) / 2))
    return float(brentq(missing, gauss / 4, 4 * gauss + 4, xtol=1e-6))
