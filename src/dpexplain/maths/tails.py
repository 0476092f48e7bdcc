"""How far a weighted sum of released noise and of chance may be off: half-widths of its intervals.

Coordinates of cube noise are uncorrelated, so the variance of a sum is the sum of the variances. They share one radius,
so they are not independent: a sum of k of m coordinates has heavier tails than one coordinate and than a normal number
of its variance, and no quantile of independent parts is right for it. Given the radius the coordinates are independent
and uniform.

Noise is whole numbers. Two ways to do justice to that:

  lattice  Equal factors and a short range: the law of the sum itself, from its characteristic function.
  spread   Otherwise: V_i uniform in [-1/2, 1/2] is added to each z_i. Each z_i + V_i is symmetric and unimodal (for the
           cube given the radius t, where it is uniform within t + 1/2), and so is S + W, the sum of c_i (z_i + V_i):
           an independent normal part never makes P(|S + W| <= h) larger (Anderson), and gives a density that can be
           inverted. Back to S: where |S| > h + x, |S + W| > h unless W goes x or more the other way, so
           P(|S| > h + x) <= P(|S + W| > h) / P(W > -x). P(W <= -x) is 0 for x > sum |c_i| / 2 and at most
           exp(-6 x^2 / sum c_i^2), because uniform numbers are strictly sub-Gaussian.

So the second way is wide by about x: at 95 % by up to 9 % where coordinates deviate by 5, about 1 % at 50, by
40 % and more at 1 and below. Tails below 1e-7 (on a lattice 1e-11) are not computed: half-widths grow in proportion to
the logarithm of the tail, which is right for exponential tails and wide for lighter ones. This is proven for continuous
noise, whose sums are log-concave (Prekopa), and compared with the exact law for whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv, gammaincinv, ndtr, ndtri

from dpexplain.core.noise import Law, Noise, checked_level

Floats = NDArray[np.float64]
Term = tuple[Noise, Sequence[float] | Floats]  # a noise vector, and the factors of some of its coordinates

PERIOD, BLOCK, BLOCKS = 60, 64, 16  # of the sum over u: in standard deviations; so many terms at once, so often
NEGLIGIBLE = 1e-11  # of the characteristic function
CONVERGENCE = 0.04  # standard deviation of the normal part that is added, of one: h grows by less than 0.1 %
SMALL = 0.03  # share of the standard deviation below which a uniform part counts as normal, given the radius
DEEPEST, DEEPEST_ON_LATTICE = 1e-7, 1e-11  # the smallest tails that are computed
PROBITS = np.linspace(-7, 7.5, 88)  # of the radius: a sum over them integrates smooth functions nearly exactly
LONGEST = 100  # standard deviation, in steps, up to which a sum on a lattice has its law computed
NARROW = 30  # standard deviation of a cube's radius up to which each whole radius is taken
STILL = -28  # logarithm of the probability that a coordinate moves at all, below which it counts as fixed


def combined_halfwidth(terms: Sequence[Term], drawn: float, level: float) -> float:
    """h with P(|sum of c_i z_i over all terms + g| <= h) >= level, for independent noise vectors, g ~ N(0, drawn^2)."""
    tail = 1 - checked_level(level)
    parts = [(noise, np.abs(np.asarray(coefficients, dtype=np.float64))) for noise, coefficients in terms]
    parts = [(noise, factors[factors > 0]) for noise, factors in parts if not _still(noise) and (factors > 0).any()]
    if not drawn and len(parts) == 1:
        [(noise, factors)] = parts
        step, k = float(factors.max()), len(factors)
        if k == 1:
            return step * noise.halfwidth(level)
        narrow = noise.law is not Law.CUBE or float(noise.scale) * math.sqrt(noise.size + 1) <= NARROW
        if narrow and noise.std * math.sqrt(k) <= LONGEST and float(factors.min()) >= step * (1 - 1e-9):
            return step * _lattice_halfwidth(noise, k, tail)
    spread = math.sqrt(sum(float(factors @ factors) for _, factors in parts) / 12)  # standard deviation of W
    size = math.sqrt(sum(float(factors @ factors) * noise.std**2 for noise, factors in parts) + spread**2 + drawn**2)
    if size == 0:
        return 0.0
    back, kept = sum(float(factors.sum()) for _, factors in parts) / 2, 1.0  # x, and P(W > -x) at least
    if spread and (x := spread * math.sqrt(2 * math.log(2 * size / spread))) < back:
        back, kept = x, 1 - spread / (2 * size)
    deep = max(1.0, math.log(tail * kept) / math.log(DEEPEST))
    shares = tuple((n.law, n.size, float(n.scale), tuple(np.sort(factors / size))) for n, factors in parts)
    return size * deep * _standard_halfwidth(shares, drawn / size, max(tail * kept, DEEPEST)) + back


def _still(noise: Noise) -> bool:
    """Whether all coordinates are zero, but for a chance far below every tail that is computed."""
    b = float(noise.scale)
    ways = noise.size * math.log(3) if noise.law is Law.CUBE else math.log(2)
    return ways - (0.5 / b**2 if noise.law is Law.GAUSSIAN else 1 / b) < STILL


@lru_cache(maxsize=4_096)
def _lattice_halfwidth(noise: Noise, k: int, tail: float) -> float:
    """The smallest whole h with P(|z_1 + ... + z_k| > h) <= tail."""
    reach = math.ceil(PERIOD / 2 * noise.std * math.sqrt(k)) + PERIOD // 2
    angle = np.pi / reach * np.arange(reach + 1, dtype=np.float64)
    if noise.law is Law.CUBE:
        radius, weights = _radii(noise.size, float(noise.scale))
        half = np.maximum(angle, 1e-9) / 2
        found = weights @ (np.sin(np.outer(2 * radius, half)) / np.outer(2 * radius, np.sin(half))) ** k
    else:
        found = _coordinate(noise.law, float(noise.scale), angle) ** k
    law = np.fft.irfft(found)[1 : reach + 1]  # of 1, 2, ...
    outside = 2 * np.cumsum(law[::-1])[::-1]  # P(|sum| > 0), P(|sum| > 1), ...
    h = int(np.argmax(outside <= max(tail, DEEPEST_ON_LATTICE)))
    return float(math.ceil((h + 1) * max(1.0, math.log(tail) / math.log(DEEPEST_ON_LATTICE))) - 1)


@lru_cache(maxsize=4_096)
def _standard_halfwidth(
    terms: tuple[tuple[Law, int, float, tuple[float, ...]], ...], normal: float, tail: float
) -> float:
    """h with P(|Z| > h) = tail for the sum Z of terms that are spread, of standard deviation about one.

    By its characteristic function f, P(|Z| <= h) = 2 / pi times the integral over u > 0 of sin(u h) / u f(u).
    """
    from scipy.optimize import brentq

    step = 2 * np.pi / PERIOD
    u, f = np.empty(0), np.empty(0)
    for block in range(BLOCKS):
        more: Floats = (np.arange(BLOCK, dtype=np.float64) + block * BLOCK + 0.5) * step
        found = np.exp(-(normal**2 + CONVERGENCE**2) * more**2 / 2)
        for law, size, scale, factors in terms:
            found = found * _characteristic(law, size, scale, np.array(factors), more)
        u, f = np.concatenate([u, more]), np.concatenate([f, found])
        if np.abs(found).max() < NEGLIGIBLE:
            break

    def missing(h: float) -> float:
        return float((np.sin(u * h) / u * f).sum()) * 2 / np.pi * step - 1 + tail

    gauss = -float(ndtri(tail / 2))
    return float(brentq(missing, gauss / 4, 4 * gauss + 4, xtol=1e-6))


def _characteristic(law: Law, size: int, scale: float, factors: Floats, u: Floats) -> Floats:
    """E exp(i u S) for the sum S of these multiples of coordinates of one noise vector, each spread over its step."""
    if law is not Law.CUBE:
        angle = np.outer(u, factors)
        return np.asarray((_coordinate(law, scale, angle) * np.sinc(angle / (2 * np.pi))).prod(axis=1))
    radius, weights = _radii(size, scale)
    small = factors * float(weights @ radius) < SMALL * math.sqrt(3)
    along = np.outer(radius, u)  # given the radius r, a part is uniform within r times its factor
    found = np.exp(-float((factors[small] ** 2).sum()) * along**2 / 6)
    for factor, times in zip(*np.unique(factors[~small], return_counts=True), strict=True):
        found = found * np.sinc(factor / np.pi * along) ** times
    mixed: Floats = weights @ found
    return mixed


def _coordinate(law: Law, scale: float, angle: Floats) -> Floats:
    """E exp(i angle z) for one whole number z of Laplace or Gaussian noise."""
    if law is Law.LAPLACE:
        return np.asarray(1 / (1 + (np.sin(angle / 2) / math.sinh(0.5 / scale)) ** 2))
    if scale >= 2:  # by Poisson's sum, of which the next term is below 3e-9
        return np.asarray(np.exp(-((angle - 2 * np.pi * np.round(angle / (2 * np.pi))) ** 2) * scale**2 / 2))
    weights = np.exp(-(np.arange(1, 20) ** 2) / (2 * scale**2))
    found = np.ones_like(angle)
    for z, weight in enumerate(weights, start=1):
        found += 2 * weight * np.cos(z * angle)
    return found / (1 + 2 * float(weights.sum()))


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
