"""Half-widths of sums of noise, against the exact law of whole numbers: coordinates of a cube share their radius.

Given the radius t the sum of k coordinates has the characteristic function of k independent numbers in {-t..t}; mixed
over P(t) ~ (2t+1)^m q^t it gives every probability by a finite sum.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri

from dpexplain.core.noise import Law, Noise
from dpexplain.core.samplers import cube
from dpexplain.results.accumulated import Accumulation, Bins
from dpexplain.results.tails import DEEPEST, combined_halfwidth

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999)


class CubeSum:
    """The exact law of the sum of `steps`-fold coordinates of a cube of `size` coordinates with this scale."""

    def __init__(self, size, steps, scale):
        t = np.arange(int(scale * (size + 20 + 8 * math.sqrt(size))))
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

    def inside(self, h):
        """P(|sum| <= h)."""
        n = 2 * math.floor(h) + 1
        return (n + 2 * float((np.sin(n * self.angle / 2) / np.sin(self.angle / 2)) @ self.law)) / self.length


def earlier(noise, steps, level):
    """As if coordinates were independent: the wider of one coordinate's law and the normal one."""
    multiple = max(noise.halfwidth(level) / noise.std, float(ndtri((1 + level) / 2)))
    return multiple * noise.std * math.sqrt(sum(s * s for s in steps))


@pytest.mark.parametrize(
    ("size", "steps"), [(2, (1, 1)), (3, (1, 1, 1)), (5, (1,) * 5), (5, (1, 3)), (6, (1, 1, 2, 3)), (12, (1,) * 12)]
)
def test_halfwidths_of_sums_of_cube_coordinates_cover(size, steps):
    """At least the level, up to half a step for each coordinate; and missing at most 3 % less often than allowed."""
    scale = 12
    law, noise = CubeSum(size, steps, scale), Noise(Law.CUBE, size, Fraction(scale))
    for level in LEVELS:
        half = combined_halfwidth([(noise, steps)], 0.0, level)
        assert law.inside(half + sum(steps) / 2) >= level
        assert 1 - law.inside(half - sum(steps) / 2 - 1) >= (1 - level) * 0.97


def test_tails_of_independent_coordinates_would_not_cover_sums_of_cube_coordinates():
    """Five of five coordinates: twice as many misses as allowed at 99 %, more than ten times as many at 99.99 %."""
    law, noise = CubeSum(5, (1,) * 5, 12), Noise(Law.CUBE, 5, Fraction(12))
    for level, times in ((0.99, 1.8), (0.9999, 10)):
        assert 1 - law.inside(earlier(noise, (1,) * 5, level)) > times * (1 - level)


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
    known = Bins(points, True, np.full(bins, rows), np.zeros(bins), weights, 0.0)
    return Accumulation(known, np.zeros(bins), noise.std, 1.0, 1.0)


def test_accumulated_effects_cover_with_cube_noise():
    """200,000 curves of eight bins from a fixed seed; at 5 sigma 99 % may be 98.89 %. The earlier width misses."""
    noise, draw, trials = Noise(Law.CUBE, 8, Fraction(1_000)), np.random.default_rng(3), 200_000
    curve = accumulation(noise)
    drawn = draw.uniform(-1, 1, (trials, 8)) * draw.gamma(9, 1_000, trials)[:, None]
    moved = np.abs(drawn @ curve._lifted.T / 10_000)
    half = np.array([curve.half_width(i, noise, noise, 0.99) for i in range(9)])
    inside = (moved <= half).mean(axis=0)
    assert (inside > 0.9889).all()
    assert (inside < 0.9915).all()
    multiple = max(noise.halfwidth(0.99) / noise.std, float(ndtri(0.995)))
    assert (moved <= multiple * curve.std).mean(axis=0).min() < 0.985


def test_accumulated_effects_have_the_width_of_their_standard_deviation_under_gaussian_noise():
    """Noise of sums, of numbers of rows and of centring: all of it normal, so 95 % is 1.96 standard deviations."""
    noise, counts = Noise(Law.GAUSSIAN, 3, Fraction(50)), Noise(Law.GAUSSIAN, 6, Fraction(20))
    bins = Bins(
        (0.0, 1.0, 2.0, 3.0), True, np.array([900.0, 500.0, 600.0]), 20 * np.sqrt([2.0, 1.0, 3.0]),
        np.full(4, 0.25), 0.01, None, np.array([0, 0, 1, 2, 2, 2]),
    )  # fmt: skip
    curve = Accumulation(bins, np.array([300.0, -200.0, 100.0]), 50.0, 1.0, 1.0)
    half = [curve.half_width(i, noise, counts, 0.95) for i in range(4)]
    assert np.allclose(half, 1.96 * curve.std, rtol=2e-3)
