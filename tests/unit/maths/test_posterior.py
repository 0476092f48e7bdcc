"""The posterior of released means: against plain algebra, and at the ends where it must be one thing or the other."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpexplain.core.noise import Law, Noise
from dpexplain.maths import posterior as module
from dpexplain.maths.posterior import (
    LOW_WORTH,
    OFF,
    OFF_WEIGHTS,
    USUAL_OFF,
    WORTHS,
    WRONG,
    Prior,
    expected,
    rows_for,
    sharpen,
    wrong_weights,
)
from dpexplain.maths.tails import combined_halfwidth, halfwidths, pooled_halfwidth

RNG = np.random.default_rng(5)


def some_prior(size: int = 6, rows: int = 400, most: float = 50.0) -> Prior:
    mix = RNG.normal(size=(size, size))
    return Prior.of_answers(0.3 + 0.1 * mix @ RNG.normal(size=(size, rows)), most)


def by_plain_algebra(prior, released, noise, variance):
    """Mean and covariance of the mixture, component by component, with inverses written out.

    Given the worth, directions that are independent under prior and noise have shares of noise of their own: for two
    of them all pairs are gone through.
    """
    C, size = prior.covariance(), prior.size
    off = np.minimum(OFF * min(1.0, USUAL_OFF**2 / variance), 1 / variance)
    root = np.linalg.cholesky(noise)
    whitened = np.linalg.solve(root, np.linalg.solve(root, C).T)
    axes = root @ np.linalg.eigh(whitened)[1]  # noise is axes axes^T, and C is diagonal in them
    weights, means, covariances = [], [], []
    for worth in np.geomspace(module.LEAST_WORTH, prior.most, WORTHS):
        for (wrong, chance), *shares in itertools.product(
            zip(WRONG, wrong_weights(size), strict=True), *[range(len(OFF))] * size
        ):
            each = np.append(1 - wrong, wrong * OFF_WEIGHTS[1:] / OFF_WEIGHTS[1:].sum())
            K = C / worth + axes @ np.diag(off[shares]) @ axes.T
            away, total = released - prior.means, K + noise
            log = -0.5 * (away @ np.linalg.solve(total, away) + np.linalg.slogdet(total)[1])
            weights.append(log + LOW_WORTH * np.log(min(worth, 1.0)) + np.log(chance * np.prod(each[shares])))
            means.append(prior.means + K @ np.linalg.solve(total, away))
            covariances.append(K - K @ np.linalg.solve(total, K))
    p = np.exp(np.array(weights) - max(weights))
    p /= p.sum()
    mean = p @ np.array(means)
    spread = sum(q * (c + np.outer(m - mean, m - mean)) for q, m, c in zip(p, means, covariances, strict=True))
    return mean, spread


@pytest.mark.parametrize("shared", [False, True])
def test_the_posterior_is_the_mixture_of_plain_formulas(shared):
    prior = some_prior(size=2)
    variances = RNG.uniform(0.001, 0.01, prior.size)
    together = RNG.normal(0, 0.05, prior.size) if shared else None
    noise = np.diag(variances) + (np.outer(together, together) if shared else 0.0)
    released = prior.means + RNG.normal(0, 0.1, prior.size)
    mine = sharpen(prior, released, variances, together, width=1.0)
    mean, covariance = by_plain_algebra(prior, released, noise, float(variances.mean()))
    np.testing.assert_allclose(mine.values, mean, atol=1e-9)
    np.testing.assert_allclose(mine.root @ mine.root.T, covariance, atol=1e-9)
    np.testing.assert_allclose(mine.values, prior.means + mine.gain @ (released - prior.means), atol=1e-12)


def test_without_noise_what_was_released_stays():
    prior = some_prior()
    released = prior.means + RNG.normal(0, 0.2, prior.size)
    mine = sharpen(prior, released, np.full(prior.size, 1e-14), width=1.0)
    np.testing.assert_allclose(mine.values, released, atol=1e-6)


def test_with_noise_beyond_everything_the_prior_stays():
    prior = some_prior()
    mine = sharpen(prior, prior.means + RNG.normal(0, 1e4, prior.size), np.full(prior.size, 1e8), width=1.0)
    assert np.abs(mine.values - prior.means).max() < 0.01


def test_the_variance_is_never_above_that_of_the_noise_by_much():
    """Knowing more does not make a released number worse: only the spread between components can add."""
    prior = some_prior()
    for scale in (1e-6, 1e-3, 1e-1):
        released = prior.means + RNG.normal(0, np.sqrt(scale), prior.size)
        mine = sharpen(prior, released, np.full(prior.size, scale), width=1.0)
        assert (mine.variances <= 1.3 * scale).all()


def test_a_stand_in_that_is_wrong_is_worth_little_and_contradicted():
    good, noise = some_prior(), np.full(6, 1e-6)
    near = good.means + good.factor @ RNG.normal(size=good.factor.shape[1]) / np.sqrt(20)
    far = good.means + 30 * good.factor @ RNG.normal(size=good.factor.shape[1])
    agreed, contradicted = (sharpen(good, truth, noise, width=1.0) for truth in (near, far))
    assert agreed.worth > 3 > 0.3 > contradicted.worth
    assert contradicted.contradicts
    assert not agreed.contradicts


def test_a_model_that_is_flat_on_synthetic_rows_does_not_hide_what_was_released():
    """The covariance has no rank: the share of the noise that a prior may be off by is all there is."""
    flat = Prior.of_answers(np.full((8, 500), 0.25), 100.0)
    truth, noise = np.linspace(0.1, 0.9, 8), np.full(8, 0.01**2)
    mine = sharpen(flat, truth, noise, width=1.0)
    assert mine.contradicts
    assert np.abs(mine.values - truth).max() < 0.01  # the noise, where the prior is 80 times that away


def test_one_direction_that_is_off_does_not_hide_behind_many_that_are_right():
    """Nine numbers are as the stand-in says, one is not: it stays what was released."""
    prior = Prior.of_answers(0.5 + 0.1 * RNG.normal(size=(10, 2_000)), 1_000.0)
    noise, truth = 0.003, prior.means + 0.002 * RNG.normal(size=10)
    truth[4] += 0.1
    mine = sharpen(prior, truth, np.full(10, noise**2), width=1.0)
    assert abs(mine.values[4] - truth[4]) < noise


def test_the_error_that_is_expected_is_the_one_that_comes():
    """Truths are drawn from the prior, with a worth in the middle of what is possible."""
    draw, worth, std = np.random.default_rng(8), 5.0, 0.02
    prior = some_prior(20, most=100.0)
    told = expected(prior, np.full(20, std**2), worth, width=1.0)
    root, away, moved = np.linalg.cholesky(prior.covariance() / worth), [], []
    for _ in range(200):
        truth = prior.means + root @ draw.normal(size=20)
        values = sharpen(prior, truth + std * draw.normal(size=20), np.full(20, std**2), width=1.0).values
        away.append(values - truth)
        moved.append(values - prior.means)
    for one, came in ((told.stds, away), (told.moved, moved)):
        assert 0.8 < np.sqrt(np.mean(one**2) / np.mean(np.square(came))) < 1.25


def test_where_the_model_hardly_varies_some_error_is_expected():
    flat = Prior.of_answers(np.full((6, 400), 0.3) + 1e-9 * RNG.normal(size=(6, 400)), 50.0)
    stds = expected(flat, np.full(6, 0.01**2), 5.0, width=1.0).stds
    assert 0.05 * 0.01 < np.sqrt(np.mean(stds**2)) < 0.5 * 0.01


def test_never_is_more_than_the_noise_expected():
    assert (expected(some_prior(), np.full(6, 1e-8), 0.1, width=1.0).stds <= 1e-4 * (1 + 1e-9)).all()


def test_a_prior_is_written_with_few_digits_and_read_as_it_was():
    prior = some_prior()
    again = Prior.of_numbers(prior.numbers())
    for name in ("means", "factor", "rest"):
        np.testing.assert_array_equal(getattr(again, name), getattr(prior, name))
    assert (again.most, again.rows) == (prior.most, prior.rows)
    digits = [len(f"{x:.15g}".replace("-", "").replace(".", "").lstrip("0").split("e")[0]) for x in prior.means]
    assert max(digits) <= module.DIGITS


def test_the_covariance_of_a_prior_is_that_of_its_answers():
    answers = RNG.normal(size=(5, 3)) @ RNG.normal(size=(3, 2_000)) + 0.01 * RNG.normal(size=(5, 2_000))
    prior = Prior.of_answers(answers, 10.0)
    np.testing.assert_allclose(np.diag(prior.covariance()), answers.var(axis=1, ddof=1), rtol=1e-4)
    np.testing.assert_allclose(prior.covariance(), np.cov(answers), rtol=0, atol=0.01 * np.cov(answers).max())


@pytest.mark.parametrize(
    "numbers",
    [
        [],
        [1.0, 2.0],
        [0.0, 500.0, 10.0],
        [2.0, 500.0, 10.0, 0.1, 0.2, 0.1],  # the rest is missing
        [1.0, 500.0, 10.0, 0.1, -0.1, 0.2],  # a negative variance
        [1.0, 500.0, 1000.0, 0.1, 0.1, 0.2],  # worth more rows than there are
        [1.0, 500.0, 0.01, 0.1, 0.1, 0.2],  # worth nothing
        [1.0, 500.0, 10.0, float("nan"), 0.1, 0.2],
        [1.0, 500.0, 10.0, 0.1, 0.1, *[0.1] * 100],  # more columns than are ever written
    ],
)
def test_what_is_no_prior_is_refused(numbers):
    with pytest.raises(ValueError, match="no prior of ours"):
        Prior.of_numbers(numbers)


def test_a_tenth_of_the_rows_is_asked_about_within_limits():
    assert [rows_for(n) for n in (None, 50, 9_000, 10**7)] == [1_000, 500, 900, 3_000]


@pytest.mark.parametrize("size", [3, 40])
def test_halfwidths_of_many_sums_are_those_of_each(size):
    """A cube's coordinates share a radius: all at once and approximately, against one by one and exactly."""
    noise = Noise(Law.CUBE, size, Fraction(500))
    factors = RNG.normal(size=(6, size))
    factors[0, 1:] = 0.0  # one coordinate alone
    factors[1] *= np.geomspace(1, 1e-3, size)
    drawn = np.array([0.0, 0.0, 1.0, 0.3, 0.0, 5.0]) * noise.std
    for level in (0.5, 0.95, 0.999):
        each = [combined_halfwidth([(noise, f)], d, level) for f, d in zip(factors, drawn, strict=True)]
        ratio = halfwidths(noise, factors, drawn, level) / each
        assert (ratio > 0.97).all()
        assert (ratio < 1.08).all()  # tails of a few uniform numbers are lighter than those of a normal one


def test_a_share_of_numbers_of_different_sizes_is_within_the_pooled_half_width():
    stds = np.array([0.0, 0.1, 1.0, 3.0])
    half = pooled_halfwidth(stds, 0.9)
    draws = np.abs(np.random.default_rng(1).normal(size=(4, 200_000)) * stds[:, None])
    assert np.mean(draws <= half) == pytest.approx(0.9, abs=3e-3)
    assert pooled_halfwidth(np.ones(5), 0.95) == pytest.approx(1.959964, abs=1e-5)
    assert pooled_halfwidth(np.zeros(3), 0.95) == 0
