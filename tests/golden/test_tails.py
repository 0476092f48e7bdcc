"""Half-widths of sums of noise, against the exact law of whole numbers.

Independent coordinates: their probabilities are convolved. Coordinates of a cube share their radius: given the radius t
the sum of k coordinates has the characteristic function of k independent numbers in {-t..t}; mixed over
P(t) ~ (2t+1)^m q^t it gives every probability by a finite sum.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtri

from dpexplain.core.noise import Law, Noise
from dpexplain.core.samplers import cube
from dpexplain.maths.accumulation import Accumulation
from dpexplain.maths.binning import Bins
from dpexplain.maths.grids import Partition
from dpexplain.maths.tails import DEEPEST, LONGEST, combined_halfwidth

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999)


class CubeSum:
    """The exact law of the sum of `steps`-fold coordinates of a cube of `size` coordinates with this scale."""

    def __init__(self, size, steps, scale):
        t = np.arange(int(scale * (size + 40 + 12 * math.sqrt(size))) + 10)
        logs = size * np.log(2 * t + 1) - t / scale
        weights = np.exp(logs - logs.max())
        keep = weights > 1e-13 * weights.max()
        t, weights = t[keep], weights[keep] / weights[keep].sum()
        self.length = 2 * int(t[-1]) * sum(steps) + 3
        self.angle = 2 * np.pi * np.arange(1, self.length // 2 + 1) / self.length
        found = np.ones((len(t), len(self.angle)))
        for step in steps:  # one row for each radius: the mean of cos(step * angle * z) over z in {-t..t}
            half, n = step * self.angle / 2, (2 * t + 1)[:, None]
            found *= np.sin(n * half) / (n * np.sin(half))
        self.law = weights @ found

    def outside(self, h):
        """P(|sum| > h)."""
        return 1 - self.inside(h)

    def inside(self, h):
        """P(|sum| <= h)."""
        n = 2 * math.floor(h) + 1
        return (n + 2 * float((np.sin(n * self.angle / 2) / np.sin(self.angle / 2)) @ self.law)) / self.length


class IndependentSum:
    """The exact law of a sum of whole multiples of independent coordinates: (law, scale, multiples), convolved."""

    def __init__(self, *terms):
        reaches = [int(40 * scale) + 12 for _, scale, _ in terms]
        length = 2 * sum(reach * sum(steps) for reach, (_, _, steps) in zip(reaches, terms, strict=True)) + 1
        length += 1 - length % 2
        found = np.ones(length // 2 + 1, dtype=complex)
        for reach, (law, scale, steps) in zip(reaches, terms, strict=True):
            z = np.arange(-reach, reach + 1)
            weights = np.exp(-np.abs(z) / scale if law is Law.LAPLACE else -(z**2) / (2 * scale**2))
            for step in sorted(set(steps)):
                one = np.zeros(length)
                one[z * step % length] = weights / weights.sum()
                found *= np.fft.rfft(one) ** list(steps).count(step)
        self.tails = 2 * np.cumsum(np.fft.irfft(found, length)[length // 2 : 0 : -1])[::-1]  # of > 0, > 1, ...

    def outside(self, h):
        """P(|sum| > h)."""
        return float(self.tails[math.floor(h)])

    def quantile(self, level):
        return int(np.argmax(self.tails <= 1 - level))


def continuous(noise, steps, level):
    """What stood here before: Laplace noise as if it were continuous, without a word about whole numbers."""
    shares = np.array(steps) / math.sqrt(sum(s * s for s in steps))
    u = (np.arange(4_000) + 0.5) * 0.05
    law = np.exp(-np.log1p(np.outer(u * u / 2, shares**2)).sum(axis=1))
    inside = brentq(lambda h: (np.sin(u * h) / u * law).sum() * 0.1 / np.pi - level, 0.1, 20)
    return inside * noise.std * math.sqrt(sum(s * s for s in steps))


def earlier(noise, steps, level):
    """As if coordinates were independent: the wider of one coordinate's law and the normal one."""
    multiple = max(noise.halfwidth(level) / noise.std, float(ndtri((1 + level) / 2)))
    return multiple * noise.std * math.sqrt(sum(s * s for s in steps))


SCALES = (
    Fraction(1, 10),
    Fraction(1, 4),
    Fraction(1, 3),
    Fraction(1, 2),
    Fraction(1),
    Fraction(2),
    Fraction(5),
    Fraction(50),
)
EQUAL = ((1,), (1, 1), (1,) * 5, (1,) * 20, (1,) * 50)
UNEQUAL = ((1, 2), (1, 2, 3), (7, *(1,) * 9), (3, 5) * 10, (1, 40))


@pytest.mark.parametrize("steps", EQUAL + UNEQUAL, ids=lambda steps: f"{max(steps)}x{len(steps)}")
@pytest.mark.parametrize("law", [Law.LAPLACE, Law.GAUSSIAN])
def test_halfwidths_of_independent_coordinates_cover(law, steps):
    """Never below the level; equal factors on a lattice are exact, others at 95 % at most 10 % wide from 5 on."""
    for scale in SCALES:
        exact, noise = IndependentSum((law, float(scale), steps)), Noise(law, len(steps), scale)
        for level in LEVELS:
            half = combined_halfwidth([(noise, steps)], 0.0, level)
            assert exact.outside(half) <= (1 - level) * (1 + 1e-6)
            if 1 < len(steps) == sum(steps) and noise.std * math.sqrt(len(steps)) < LONGEST:
                assert half == exact.quantile(level)
            if scale >= 5 and level >= 0.95:
                assert half <= 1.1 * exact.quantile(level)


@pytest.mark.parametrize(
    ("size", "steps"), [(2, (1, 1)), (3, (1, 1, 1)), (5, (1,) * 5), (5, (1, 3)), (6, (1, 1, 2, 3)), (12, (1,) * 12)]
)
@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(3), Fraction(12)])
def test_halfwidths_of_sums_of_cube_coordinates_cover(size, steps, scale):
    """Never below the level, also at scales too small to be offered; at most 10 % wide from a deviation of 5 on."""
    exact, noise = CubeSum(size, steps, float(scale)), Noise(Law.CUBE, size, scale)
    for level in LEVELS:
        half = combined_halfwidth([(noise, steps)], 0.0, level)
        assert exact.outside(half) <= (1 - level) * (1 + 1e-6)
        if noise.std >= 5 and level >= 0.95:
            assert exact.outside(half / 1.1 - 1) > 1 - level


def test_sums_of_several_kinds_of_noise_cover():
    """Laplace and Gaussian noise, small and large, with factors of their own; tails that are not computed too."""
    for small, large in ((0.2, 1.0), (1.0, 0.3), (0.5, 10.0)):
        exact = IndependentSum((Law.LAPLACE, small, (4, 1, 1)), (Law.GAUSSIAN, large, (3, 3)))
        laws = Noise(Law.LAPLACE, 3, Fraction(str(small))), Noise(Law.GAUSSIAN, 2, Fraction(str(large)))
        for level in (*LEVELS, 1 - 1e-9):
            half = combined_halfwidth([(laws[0], [4.0, 1.0, 1.0]), (laws[1], [3.0, 3.0])], 0.0, level)
            assert exact.outside(half) <= (1 - level) * (1 + 1e-6)


def test_whole_numbers_are_no_continuous_ones():
    """Two coordinates at epsilon 3: taken as continuous, 95 % intervals covered 82 %. A chance that is normal joins."""
    noise, exact = Noise(Law.LAPLACE, 2, Fraction(1, 3)), IndependentSum((Law.LAPLACE, 1 / 3, (1, 1)))
    assert 1 - exact.outside(continuous(noise, (1, 1), 0.95)) < 0.83
    assert combined_halfwidth([(noise, [1.0, 1.0])], 0.0, 0.95) == 1
    joined = combined_halfwidth([(noise, [1.0, 1.0])], 1e-3, 0.95)
    assert 1 < joined < 3


def test_tails_of_independent_coordinates_would_not_cover_sums_of_cube_coordinates():
    """Five of five coordinates: twice as many misses as allowed at 99 %, more than ten times as many at 99.99 %."""
    law, noise = CubeSum(5, (1,) * 5, 12), Noise(Law.CUBE, 5, Fraction(12))
    for level, times in ((0.99, 1.8), (0.9999, 10)):
        assert law.outside(earlier(noise, (1,) * 5, level)) > times * (1 - level)


def test_the_exact_law_is_that_of_the_sampler():
    """4,000 draws; at 5 sigma a share may be 4 points off."""
    law = CubeSum(3, (1, 2), 12)
    drawn = np.array([abs(z[0] + 2 * z[2]) for z in (cube(3, Fraction(12)) for _ in range(4_000))])
    for h in (20, 60, 120):
        assert (drawn <= h).mean() == pytest.approx(law.inside(h), abs=0.04)


@pytest.mark.parametrize("law", list(Law))
def test_a_normal_part_joins_and_small_tails_stay_concave(law):
    noise = Noise(law, 4, Fraction(1_000))
    alone = combined_halfwidth([(noise, [1.0, 1.0])], 0.0, 0.95)
    assert combined_halfwidth([(noise, [1.0, 1.0]), (noise, [0.0])], 0.0, 0.95) == alone
    assert combined_halfwidth([(noise, [1e-6])], 1_000.0, 0.95) == pytest.approx(1_960, rel=2e-3)
    deep = [combined_halfwidth([(noise, [1.0, 1.0])], 0.0, 1 - DEEPEST * x) for x in (2, 1, 0.5, 1e-3)]
    assert deep == sorted(deep)
    assert combined_halfwidth([(noise, [3.0])], 0.0, 0.95) == 3 * noise.halfwidth(0.95)


def accumulation(noise, bins=8, rows=10_000.0):
    """A flat curve over bins of equal size whose numbers of rows are known: the noise of the sums is all there is."""
    points, weights = tuple(range(bins + 1)), np.full(bins + 1, 1 / (bins + 1))
    known = Bins(points, True, np.full(bins, rows), weights, bins * rows)
    return Accumulation(known, np.zeros(bins), 1.0, noise, noise, 100.0, 100.0, 0)


def test_accumulated_effects_cover_with_cube_noise():
    """200,000 curves of eight bins from a fixed seed; at 5 sigma 99 % may be 98.89 %. The earlier width misses."""
    noise, draw, trials = Noise(Law.CUBE, 8, Fraction(1_000)), np.random.default_rng(3), 200_000
    curve = accumulation(noise)
    drawn = draw.uniform(-1, 1, (trials, 8)) * draw.gamma(9, 1_000, trials)[:, None]
    moved = np.abs(drawn @ curve._lifted.T / 10_000)
    half = np.array([curve.half_width(i, 0.99) for i in range(9)])
    inside = (moved <= half).mean(axis=0)
    assert (inside > 0.9889).all()
    assert (inside < 0.9915).all()
    multiple = max(noise.halfwidth(0.99) / noise.std, float(ndtri(0.995)))
    assert (moved <= multiple * curve.std).mean(axis=0).min() < 0.985


def test_accumulated_effects_have_the_width_of_their_standard_deviation_under_gaussian_noise():
    """Noise of sums, of numbers of rows and of centring: all of it normal, so 95 % is 1.96 standard deviations.

    And at most 2 % more, because it is whole numbers. A standard deviation that takes the counts of bins and of the
    centre as independent is near, and too small where they add up.
    """
    noise, counts = Noise(Law.GAUSSIAN, 3, Fraction(50)), Noise(Law.GAUSSIAN, 6, Fraction(20))
    cells = Partition("x", (0.25, 0.75, 1.5, 2.2, 2.5, 2.8), (0.0, 0.5, 1.0, 2.0, 2.3, 2.6, 3.0))
    rows, place = np.array([900.0, 500.0, 600.0]), np.array([0, 0, 1, 2, 2, 2])
    bins = Bins((0.0, 1.0, 2.0, 3.0), True, rows, np.full(4, 0.25), 2000.0, cells, place)
    for sharing in (0, 1):
        curve = Accumulation(bins, np.array([300.0, -200.0, 100.0]), 1.0, noise, counts, 1.0, 1.0, sharing)
        half = np.array([curve.half_width(i, 0.95) for i in range(4)])
        summed, counted = curve._factors
        std = np.sqrt(50**2 * (summed**2).sum(axis=1) + 20**2 * (counted**2).sum(axis=1))
        assert (half > 1.96 * std).all()
        assert (half < 1.02 * 1.96 * std).all()
        assert (np.abs(std / curve.std - 1) < 0.25).all()
