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
from scipy.special import ndtr, ndtri

from dpexplain.core.noise import Law, Noise, checked_level
from dpexplain.maths.laws import Shape, radii_of, shape_of

Floats = NDArray[np.float64]
Term = tuple[Noise, Sequence[float] | Floats]  # a noise vector, and the factors of some of its coordinates

PERIOD, BLOCK, BLOCKS = 60, 64, 16  # of the sum over u: in standard deviations; so many terms at once, so often
NEGLIGIBLE = 1e-11  # of the characteristic function
CONVERGENCE = 0.04  # standard deviation of the normal part that is added, of one: h grows by less than 0.1 %
DEEPEST, DEEPEST_ON_LATTICE = 1e-7, 1e-11  # the smallest tails that are computed
HALVINGS = 48  # of an interval, until its ends are the same float
GRADE = 1.25  # between neighbouring sizes of factors that are taken as alike
LONGEST = 100  # standard deviation, in steps, up to which a sum on a lattice has its law computed
STILL = -28  # logarithm of the probability that a coordinate moves at all, below which it counts as fixed


def combined_halfwidth(terms: Sequence[Term], drawn: float, level: float) -> float:
    """h with P(|sum of c_i z_i over all terms + g| <= h) >= level, for independent noise vectors, g ~ N(0, drawn^2)."""
    tail = 1 - checked_level(level)
    parts = [(noise, np.abs(np.asarray(coefficients, dtype=np.float64))) for noise, coefficients in terms]
    parts = [(noise, factors[factors > 0]) for noise, factors in parts if (factors > 0).any()]
    parts = [(noise, factors) for noise, factors in parts if shape_of(noise).log_moved >= STILL]  # or it is all zero
    if not drawn and len(parts) == 1:
        [(noise, factors)] = parts
        step, k = float(factors.max()), len(factors)
        if k == 1:
            return step * noise.halfwidth(level)
        equal = float(factors.min()) >= step * (1 - 1e-9)
        if equal and shape_of(noise).on_lattice and noise.std * math.sqrt(k) <= LONGEST:
            return step * _lattice_halfwidth(noise, k, tail)
    spread = math.sqrt(sum(float(factors @ factors) for _, factors in parts) / 12)  # standard deviation of W
    size = math.sqrt(sum(float(factors @ factors) * noise.std**2 for noise, factors in parts) + spread**2 + drawn**2)
    if size == 0:
        return 0.0
    back, kept = sum(float(factors.sum()) for _, factors in parts) / 2, 1.0  # x, and P(W > -x) at least
    if spread and (x := spread * math.sqrt(2 * math.log(2 * size / spread))) < back:
        back, kept = x, 1 - spread / (2 * size)
    deep = max(1.0, math.log(tail * kept) / math.log(DEEPEST))
    shares = tuple((shape_of(noise), tuple(np.sort(factors / size))) for noise, factors in parts)
    return size * deep * _standard_halfwidth(shares, drawn / size, max(tail * kept, DEEPEST)) + back


def pooled_halfwidth(stds: Floats, level: float) -> float:
    """h with this share of normal numbers within h of zero, over all of these standard deviations."""
    low, high = 0.0, float(stds.max()) * -float(ndtri((1 - checked_level(level)) / 2))
    if not high > 0:
        return 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        inside = float((1 - 2 * ndtr(-middle / np.maximum(stds, 1e-300))).mean())
        low, high = (middle, high) if inside < level else (low, middle)
    return high


def cube_halfwidths(noise: Noise, factors: Floats, drawn: Floats, level: float) -> Floats:
    """`combined_halfwidth` for many sums of coordinates of one cube at once: [sum, coordinate] their factors.

    Given the radius, coordinates are uniform and independent: the largest part of a sum is taken as that, all others
    together as normal, which with the rest (`drawn`) they nearly are.
    """
    tail = 1 - checked_level(level)
    radius, weights = radii_of(noise)
    factors = np.abs(factors)
    largest = factors.max(axis=1, initial=0.0)[:, None]
    others = np.maximum((factors**2).sum(axis=1)[:, None] - largest**2, 0.0)
    wide = np.maximum(largest * radius, 1e-300)  # [sum, radius]
    normal = np.sqrt(others * radius**2 / 3 + drawn[:, None] ** 2 + (1e-3 * wide) ** 2)

    def inside(h: Floats) -> Floats:
        """P(|U + N| <= h), U uniform within `wide`, N normal: the integral of a normal distribution function."""
        up, down = (h[:, None] + wide) / normal, (h[:, None] - wide) / normal
        area = up * ndtr(up) + _density(up) - down * ndtr(down) - _density(down)
        return np.asarray((normal / wide * area - 1) @ weights)

    low, high = np.zeros(len(factors)), 12 * np.sqrt((normal**2 + wide**2) @ weights)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        enough = inside(middle) >= 1 - tail
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high)


def _density(x: Floats) -> Floats:
    return np.asarray(np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))


def halfwidths(noise: Noise, factors: Floats, drawn: Floats, level: float) -> Floats:
    """Half-widths of many sums of the coordinates of one noise vector, each with a normal part of its own."""
    if noise.law is Law.CUBE:
        return cube_halfwidths(noise, factors, drawn, level)
    pairs = zip(factors, drawn, strict=True)
    return np.array([combined_halfwidth([(noise, graded(mine))], float(sd), level) for mine, sd in pairs])


def graded(factors: Floats) -> Floats:
    """Factors in few different sizes, with the same sum of squares: the law of the sum hardly depends on the sizes."""
    largest = float(np.abs(factors).max(initial=0.0))
    if not largest:
        return factors
    steps = np.round(np.log(np.maximum(np.abs(factors), 1e-12 * largest) / largest) / math.log(GRADE))
    alike = GRADE**steps
    return np.asarray(alike * math.sqrt(float(factors @ factors) / float(alike @ alike)))


@lru_cache(maxsize=4_096)
def _lattice_halfwidth(noise: Noise, k: int, tail: float) -> float:
    """The smallest whole h with P(|z_1 + ... + z_k| > h) <= tail."""
    reach = math.ceil(PERIOD / 2 * noise.std * math.sqrt(k)) + PERIOD // 2
    angle = np.pi / reach * np.arange(reach + 1, dtype=np.float64)
    law = np.fft.irfft(shape_of(noise).of_sum(angle, k))[1 : reach + 1]  # of 1, 2, ...
    outside = 2 * np.cumsum(law[::-1])[::-1]  # P(|sum| > 0), P(|sum| > 1), ...
    h = int(np.argmax(outside <= max(tail, DEEPEST_ON_LATTICE)))
    return float(math.ceil((h + 1) * max(1.0, math.log(tail) / math.log(DEEPEST_ON_LATTICE))) - 1)


@lru_cache(maxsize=4_096)
def _standard_halfwidth(terms: tuple[tuple[Shape, tuple[float, ...]], ...], normal: float, tail: float) -> float:
    """h with P(|Z| > h) = tail for the sum Z of terms that are spread, of standard deviation about one.

    By its characteristic function f, P(|Z| <= h) = 2 / pi times the integral over u > 0 of sin(u h) / u f(u).
    """
    from scipy.optimize import brentq

    step = 2 * np.pi / PERIOD
    u, f = np.empty(0), np.empty(0)
    for block in range(BLOCKS):
        more: Floats = (np.arange(BLOCK, dtype=np.float64) + block * BLOCK + 0.5) * step
        found = np.exp(-(normal**2 + CONVERGENCE**2) * more**2 / 2)
        for shape, factors in terms:
            found = found * shape.of_spread(np.array(factors), more)
        u, f = np.concatenate([u, more]), np.concatenate([f, found])
        if np.abs(found).max() < NEGLIGIBLE:
            break

    def missing(h: float) -> float:
        return float((np.sin(u * h) / u * f).sum()) * 2 / np.pi * step - 1 + tail

    gauss = -float(ndtri(tail / 2))
    return float(brentq(missing, gauss / 4, 4 * gauss + 4, xtol=1e-6))
