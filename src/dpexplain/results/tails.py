"""How far a weighted sum of released noise and of chance may be off: half-widths of its intervals.

Coordinates of cube noise are uncorrelated, so the variance of a sum is the sum of the variances. They share one radius,
so they are not independent: a sum of k of m coordinates has heavier tails than one coordinate and than a normal number
of its variance, and no quantile of independent parts is right for it. Given the radius the coordinates are independent
and uniform, so the sum has the characteristic function E prod_i sinc(c_i T u), T ~ Gamma(m + 1) in units of the scale.

Two facts keep the numbers on the wide side. All three laws are log-concave in all coordinates together (the cube's is
exp(-|z|_inf / scale)), and so is the law of every sum S of them (Prekopa). So S is unimodal and symmetric: an
independent normal part never makes P(|S| <= h) larger (Anderson). And the logarithm of P(|S| > h) is concave and zero
at h = 0: P(|S| > a h) <= P(|S| > h)^a for a >= 1. Whole numbers are taken as continuous ones; for the cube that moves a
sum by at most sum |c_i| / 2, because z_i + V_i with V_i uniform in [-1/2, 1/2] is uniform within t + 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammainccinv, gammaincinv, ndtr, ndtri

from dpexplain.core.noise import Law, Noise, checked_level

Floats = NDArray[np.float64]
Term = tuple[Noise, Sequence[float] | Floats]  # a noise vector, and the factors of some of its coordinates

PERIOD, BLOCK, BLOCKS = 60, 64, 16  # of the sum over u: in standard deviations; so many terms at once, so often
NEGLIGIBLE = 1e-11  # of the characteristic function
CONVERGENCE = 0.04  # standard deviation of the normal part that is added, of one: h grows by less than 0.1 %
SMALL = 0.03  # share of the standard deviation below which a uniform part counts as normal, given the radius
DEEPEST = 1e-7  # the smallest tail that is computed; beyond it the logarithm of the tail is concave
PROBITS = np.linspace(-7, 7.5, 88)  # of the radius: a sum over them integrates smooth functions nearly exactly


def combined_halfwidth(terms: Sequence[Term], drawn: float, level: float) -> float:
    """h with P(|sum of c_i z_i over all terms + g| <= h) = level, for independent noise vectors, g ~ N(0, drawn^2)."""
    parts = [(noise, np.abs(np.asarray(coefficients, dtype=np.float64))) for noise, coefficients in terms]
    parts = [(noise, factors[factors > 0]) for noise, factors in parts if noise.std > 0 and (factors > 0).any()]
    if not drawn and len(parts) == 1 and len(parts[0][1]) == 1:
        return float(parts[0][1][0]) * parts[0][0].halfwidth(level)
    sizes = [factors * noise.std for noise, factors in parts]
    size = math.sqrt(sum(float(s @ s) for s in sizes) + drawn * drawn)
    if size == 0:
        return 0.0
    laws = [(noise.law, noise.size) for noise, _ in parts]
    shares = tuple((*law, tuple(np.sort(s / size))) for law, s in zip(laws, sizes, strict=True))
    tail = 1 - checked_level(level)
    deep = max(1.0, math.log(tail) / math.log(DEEPEST))
    return size * deep * _standard_halfwidth(shares, drawn / size, max(tail, DEEPEST))


@lru_cache(maxsize=4_096)
def _standard_halfwidth(terms: tuple[tuple[Law, int, tuple[float, ...]], ...], normal: float, tail: float) -> float:
    """The same for a sum of standard deviation one, made of parts with these. By its characteristic function f,

    P(|Z| <= h) = 2 / pi times the integral over u > 0 of sin(u h) / u f(u).
    """
    step = 2 * np.pi / PERIOD
    u, f = np.empty(0), np.empty(0)
    for block in range(BLOCKS):
        more: Floats = (np.arange(BLOCK, dtype=np.float64) + block * BLOCK + 0.5) * step
        found = np.exp(-(normal**2 + CONVERGENCE**2) * more**2 / 2)
        for law, size, shares in terms:
            found = found * _characteristic(law, size, np.array(shares), more)
        u, f = np.concatenate([u, more]), np.concatenate([f, found])
        if np.abs(found).max() < NEGLIGIBLE:
            break

    def missing(h: float) -> float:
        return float((np.sin(u * h) / u * f).sum()) * 2 / np.pi * step - 1 + tail

    gauss = -float(ndtri(tail / 2))
    return float(brentq(missing, gauss / 4, 4 * gauss + 4, xtol=1e-6))


def _characteristic(law: Law, size: int, shares: Floats, u: Floats) -> Floats:
    """E exp(i u S) for the sum S of coordinates of one noise vector with these standard deviations."""
    square = u * u
    if law is Law.GAUSSIAN:
        return np.asarray(np.exp(-float(shares @ shares) * square / 2))
    if law is Law.LAPLACE:
        return np.asarray(np.exp(-np.log1p(np.outer(square / 2, shares * shares)).sum(axis=1)))
    radius, weights = _radii(size)
    small = float((shares[shares < SMALL] ** 2).sum())
    along = np.outer(radius, u)  # given the radius r, a part of standard deviation s is uniform within s r
    found = np.exp(-small * along**2 / 6)
    for share in shares[shares >= SMALL]:
        found = found * np.sinc(share / np.pi * along)
    mixed: Floats = weights @ found
    return mixed


@lru_cache(maxsize=256)
def _radii(size: int) -> tuple[Floats, Floats]:
    """Radii of a cube, in standard deviations of a coordinate, and their weights; far tails of the radius included."""
    low, high = PROBITS[PROBITS < 0], PROBITS[PROBITS >= 0]
    radius = np.concatenate([gammaincinv(size + 1, ndtr(low)), gammainccinv(size + 1, ndtr(-high))])
    weights = np.exp(-(PROBITS**2) / 2)
    return radius / math.sqrt((size + 1) * (size + 2) / 3), weights / weights.sum()
