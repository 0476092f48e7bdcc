"""What intervals of importances are made of: allowances for noise, chance, company, histograms."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Law, Noise
from dpexplain.core.sensitivity import Assignment
from dpexplain.maths.losses import Loss
from dpexplain.maths.tails import combined_halfwidth
from dpexplain.methods.histogram import nearest_with_total
from dpexplain.methods.permutation_importance.result import (
    allowance,
    halfwidths,
)
from dpexplain.methods.permutation_importance.spec import Histograms, Spec, sum_halfwidth
from dpexplain.methods.targets import Target

EVEN = np.sort(np.concatenate([10.0 ** np.arange(-8, -2, 0.05), np.linspace(0.011, 0.989, 2_000)]))
EVEN = np.concatenate([EVEN, 1 - EVEN[EVEN < 0.5][::-1]])
EVEN = np.unique(EVEN)
SUMS = (0.01, 0.1, 0.3, 0.6, 1, 1.5, 2, 3, 5, 8, 15, 30)  # true sums of squares, in standard deviations of their noise
OTHER = (0, 0.1, 1, 10, 30)  # variance of the noise of the sum itself


def worst_miss(law: str, tail: float, added: float) -> float:
    """The largest probability that normal chance lies outside an interval made from a noisy sum of squares."""
    quantile = {
        "laplace": np.where(EVEN < 0.5, np.log(2 * EVEN), -np.log(2 * (1 - EVEN))) / math.sqrt(2),
        "gaussian": ndtri(EVEN),
    }[law]
    weights = np.gradient(EVEN) / np.gradient(EVEN).sum()
    reach = -ndtri(tail / 2)
    misses = [
        float(2 * ndtr(-reach * np.sqrt((other + np.maximum(true + quantile, 0) + added) / (other + true))) @ weights)
        for true in SUMS
        for other in OTHER
    ]
    return max(misses)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("tail", [0.5, 0.1, 0.05, 0.025, 0.01, 1e-3, 1e-4])
def test_noise_in_the_squares_costs_no_coverage(law, tail):
    assert worst_miss(law, tail, allowance(1 - tail)) <= tail
    if tail <= 0.05:
        assert worst_miss(law, tail, 0.0) > 1.3 * tail  # without the allowance it would


def test_halfwidths_on_chords_are_never_too_small():
    terms = [(Noise(Law.LAPLACE, 3, 1000), [1.0]), (Noise(Law.LAPLACE, 1, 5000), [1.0])]
    chance = np.geomspace(10, 1e5, 40)
    exact = np.array([combined_halfwidth(terms, float(c), 0.95) for c in chance])
    found = halfwidths(terms, chance, 0.95)
    assert (found >= exact * (1 - 1e-4)).all()
    np.testing.assert_allclose(halfwidths(terms, chance[:5][::-1], 0.95), exact[:5][::-1])


def spec_of(**options) -> Spec:
    """A spec in which nothing else matters."""
    settings = {"features": ("a",), "target": "y", "target_values": Target(None, None), "method": "default"}
    settings |= {"loss": Loss.of("squared", PublicRange(0, 1)), "assignment": Assignment.RANDOM, "seed": 0}
    return Spec(mechanism="discrete-laplace", **{**settings, **options})


def unit(norm: str, features: int, limit: int, cap: int) -> int:
    return Spec.square_unit(SimpleNamespace(norm=norm, features="a" * features, cap=cap), limit)


@pytest.mark.parametrize("norm", ["sum", "euclidean", "largest"])
def test_squares_stay_below_their_unit(norm):
    draw = np.random.default_rng(0)
    for _ in range(200):
        M, cap, limit = int(draw.integers(1, 5)), int(draw.integers(1, 50)), int(draw.integers(1, 200))
        vectors = draw.integers(-cap, cap + 1, (400, M))
        size = {
            "sum": abs(vectors).sum(axis=1),
            "euclidean": np.sqrt((vectors**2).sum(axis=1)),
            "largest": abs(vectors).max(axis=1),
        }[norm]
        inside = vectors[size <= limit] ** 2
        squares = inside.max(axis=1, initial=0) if norm == "largest" else inside.sum(axis=1)
        assert squares.max(initial=0) <= unit(norm, M, limit, cap)
    assert unit("sum", 3, 50, 20) == 20 * 50
    assert unit("sum", 3, 500, 20) == 3 * 20**2
    assert unit("euclidean", 3, 25, 20) == 25**2


@pytest.mark.parametrize("draws", [1, 3])
def test_the_share_of_rows_that_count_is_the_expected_one(draws):
    """2,000 rows dealt 300 times: the standard error is below 0.0003."""
    draw, n, group = np.random.default_rng(0), 2_000, draws + 2
    spec = spec_of(loners=True, group=group, most=2 * group)
    groups, counted = n // group, 0
    for _ in range(300):
        sizes = np.bincount(draw.integers(groups, size=n), minlength=groups)
        counted += np.minimum(sizes, 2 * group)[sizes > 1].sum()
    assert spec.company(n) == pytest.approx(counted / (300 * n), abs=0.002)


def test_rows_of_units_hardly_ever_fail_to_count():
    spec = spec_of(group=3 * 4, most=2 * 3 * 4)
    assert 0.95 < spec.fewest_counted(3) < 1
    assert spec.fewest_counted(1) == 1


@pytest.mark.parametrize("law", list(Law))
def test_the_distance_of_noisy_histograms(law):
    """400 histograms each: at level 0.9 fewer than 320 within the bound has a probability below 1e-6."""
    draw, cells, n = np.random.default_rng(0), 12, 5_000
    noise = Noise(law, 2 * cells, 3 if law is Law.CUBE else 30)
    known = Histograms(noise, (cells, cells), 2, n)
    true = draw.multinomial(n, draw.dirichlet(np.full(cells, 0.3)))
    inside = 0
    for _ in range(400):
        if law is Law.LAPLACE:
            z = draw.laplace(scale=30, size=cells)
        elif law is Law.GAUSSIAN:
            z = draw.normal(scale=30, size=cells)
        else:
            z = draw.gamma(2 * cells + 1) * 3 * draw.uniform(-1, 1, size=cells)
        far = np.abs(nearest_with_total(true + z, n) - true).sum() / (2 * n)
        inside += far <= known.errors(0.9, unsure=False)[0]
    assert inside >= 320
    assert known.errors(0.9, unsure=True)[0] > known.errors(0.9, unsure=False)[0]
    assert sum_halfwidth(noise, 1, 0.95) >= noise.halfwidth(0.95) - 1


def test_the_variance_by_chance_is_below_the_sum_of_squares():
    """Any function of a group, five rows dealt to three groups by numbers, six in pairs by a shuffle: all ways there
    are. What belongs to single rows cancels out; where there is nothing else, nothing is left to chance.
    """
    draw = np.random.default_rng(0)
    subsets = [s for k in range(7) for s in itertools.combinations(range(6), k)]
    single = draw.normal(size=6)
    for number in range(6):
        value = {s: float(draw.normal()) if number else float(single[list(s)].sum()) for s in subsets}
        dealt = [
            [value[tuple(i for i in range(5) if label[i] == g)] for g in range(3)]
            for label in itertools.product(range(3), repeat=5)
        ]
        pairs = [
            [value[tuple(sorted(order[g : g + 2]))] for g in (0, 2, 4)] for order in itertools.permutations(range(6))
        ]
        for sums in (np.array(dealt), np.array(pairs)):
            chance, bound = sums.sum(axis=1).var(), 3 / 2 * sums.var(axis=0).sum()
            assert chance <= bound + 1e-12
            assert bound <= 3 / 2 * (sums**2).mean(axis=0).sum()
            assert number or chance < 1e-12
