"""The calculator of Theorem 5.1: its numbers against brute force, its words when it says nothing."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import norm

import dpexplain as dpx
from dpexplain.calculators.training import paper_sigma, training_guarantee
from dpexplain.core.sensitivity import Relation
from dpexplain.maths.surrogate.local import StepWeight
from gradients import gradient_bound

ADULT = {"rows": 32_561, "iterations": 200, "columns": 13, "epsilon": 0.1, "delta": 1e-6}
TINY = {"rows": 5, "iterations": 20, "columns": 3, "epsilon": 0.05, "delta": 1e-3}  # where both parts say something


def gradient(x, weight, phi, f):
    """Of the mean local loss of rows `x` around 0, at coefficients `phi`, for predictions `f`."""
    a = weight(np.minimum(np.linalg.norm(x, axis=1), weight.diameter))
    return (2 * a * (x @ phi - f)) @ x / len(x)


def test_another_model_moves_a_gradient_by_at_most_2c():
    """Equation 13. Random rows stay below 2 c; rows in one place, with opposite predictions and points, attain it."""
    draw, weight = np.random.default_rng(3), StepWeight.of("stable", 2.0)
    c = gradient_bound(weight, Relation.ADD_REMOVE)
    q = float((2 * weight.values * weight.edges).max())
    for _ in range(300):
        n, m = draw.integers(1, 4), draw.integers(1, 30)
        x = draw.uniform(-1, 1, (m, n)) * draw.choice([0.2, 0.5, 1.0])
        f, other = draw.choice([-1.0, 1.0], (2, m))
        phi, point = draw.normal(size=(2, n))
        phi, point = phi / np.linalg.norm(phi), point / np.linalg.norm(point)
        moved = gradient(x, weight, phi, f) - gradient(x, weight, point, other)
        assert np.linalg.norm(moved) <= 2 * c * (1 + 1e-9)
        moved = gradient(x, weight, phi, f) - gradient(x, weight, phi, other)
        assert np.linalg.norm(moved) <= 2 * q * (1 + 1e-9)
    x, one, ones = np.full((7, 1), (math.sqrt(3) - 1) / 2 * 0.9999), np.ones(1), np.ones(7)
    moved = gradient(x, weight, one, -ones) - gradient(x, weight, -one, ones)
    assert 0.99 * 2 * c <= abs(moved[0]) <= 2 * c
    moved = gradient(x, weight, one, -ones) - gradient(x, weight, one, ones)  # the models alone, at one point
    assert 0.99 * 2 * q <= abs(moved[0]) <= 2 * q


def test_gamma_is_the_total_variation_of_the_worst_two_last_steps():
    """Opposite points of the ball and gradients 2 c apart: integrated on a grid, 1 - gamma is what they share."""
    found = training_guarantee(**TINY, accounting="paper", path_published=False, learning_rate=0.5)
    eta, width = 0.5, 0.5 * found.sigma
    far = 2 + eta * 2
    grid = np.linspace(-10 * width - far, 10 * width + far, 200_001)
    shared = np.minimum(norm.pdf(grid, -far / 2, width), norm.pdf(grid, far / 2, width))
    assert 10**found.log10_gap_last == pytest.approx(float(shared.sum() * (grid[1] - grid[0])), rel=1e-6)
    near = np.minimum(norm.pdf(grid, -far / 3, width), norm.pdf(grid, far / 3, width))  # any other two share more
    assert near.sum() > shared.sum()


def test_the_path_is_a_gaussian_release_of_its_own():
    """T shifts of 2 c in noise of sigma are one shift of 2 c sqrt(T): what two such laws share."""
    found = training_guarantee(**TINY)
    shift = 2 * math.sqrt(20) / found.sigma
    assert 10**found.log10_gap == pytest.approx(2 * norm.cdf(-shift / 2), rel=1e-9)
    assert found.gamma == pytest.approx(2 * norm.cdf(shift / 2) - 1, rel=1e-9)
    two = training_guarantee(**TINY, queries=2)
    assert 10**two.log10_gap == pytest.approx(2 * norm.cdf(-shift * math.sqrt(2) / 2), rel=1e-9)
    assert two.log10_gap_last == pytest.approx(2 * found.log10_gap_last)


def test_nothing_underflows():
    found = training_guarantee(**ADULT, accounting="paper", path_published=False)
    assert found.sigma == pytest.approx(paper_sigma(32_561, 200, 0.1, 1e-6))
    u = (1 / found.learning_rate + 1) / found.sigma
    assert found.log10_gap_last == pytest.approx((math.log(2) + log_ndtr(-u)) / math.log(10))
    assert -2_000 < found.log10_gap_last < found.log10_gap < -300
    assert found.gamma == 1.0
    large = training_guarantee(10**9, 500, columns=500, epsilon=10, delta=1e-9, queries=10_000)
    assert math.isfinite(large.log10_gap)
    assert math.isfinite(large.epsilon)


def test_the_noise_alone_costs_2m_squared():
    budget = dpx.Budget(0.1, 1e-6)
    found = training_guarantee(**ADULT, queries=3)
    rho = budget.total.amount
    assert found.rho == pytest.approx(3 * float(rho))
    charged = dpx.Budget(1, 1e-6).epsilon_of(dpx.Budget(1, 1e-6).cost(rho=(2 * 32_561) ** 2 * 3 * rho))
    assert found.epsilon == pytest.approx(charged, rel=1e-9)


def test_the_noise_alone_is_not_linear_in_the_rows():
    """The paper says O(m epsilon). At ten times that epsilon the exact Gaussian law still fails by almost everything:
    delta = Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu) for a shift of mu standard deviations.
    """
    found = training_guarantee(**ADULT)
    mu = 2 * math.sqrt(200) / found.sigma

    def delta(epsilon):
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))

    linear = 2 * 32_561 * 0.1
    assert delta(10 * linear) > 0.999
    assert delta(found.epsilon) <= found.delta
    assert delta(0.98 * found.epsilon) > 100 * found.delta  # and it is not needlessly large
    twice = training_guarantee(**{**ADULT, "rows": 2 * 32_561})
    assert twice.epsilon / found.epsilon == pytest.approx(4, rel=0.02)


def test_words_say_when_it_is_vacuous():
    found = training_guarantee(**ADULT, training=(2.0, 1e-5))
    assert found.vacuous
    assert found.amplified == (2.0, 1e-5)
    text = str(found)
    assert text.count("vacuous") == 2
    for words in ("must come from DP training", "no training row is in the explained table", "10^-", 'anchor="middle"'):
        assert words in text
    none = training_guarantee(**ADULT)
    assert none.vacuous
    assert none.amplified is None
    assert "nothing to amplify" in str(none)


def test_words_say_when_it_is_not():
    found = training_guarantee(**TINY, training=(2.0, 1e-5))
    assert not found.vacuous
    assert found.protects
    assert found.amplifies
    assert found.amplified[0] == 2.0  # total variation shrinks delta only
    assert found.amplified[1] == pytest.approx(1e-5 * found.gamma)
    assert found.amplified[1] < 0.9e-5
    assert "vacuous" not in str(found)
    pure = training_guarantee(**TINY, training=(2, 0))
    assert not pure.amplifies
    assert pure.amplified == (2.0, 0.0)
    assert "0 already (vacuous)" in str(pure)


def test_published_less_means_promised_more():
    few = {**TINY, "learning_rate": 1e6}  # the last step forgets where it came from
    path = training_guarantee(**few)
    last = training_guarantee(**few, path_published=False)
    assert last.log10_gap == last.log10_gap_last > path.log10_gap
    slow = training_guarantee(**{**TINY, "learning_rate": 1e-6}, path_published=False)
    assert slow.log10_gap == path.log10_gap > slow.log10_gap_last


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": 0}, "rows is a whole number"),
        ({"rows": True}, "rows is a whole number"),
        ({"iterations": 1}, "iterations is a whole number"),
        ({"columns": 2.5}, "columns is a whole number"),
        ({"queries": -1}, "queries is a whole number"),
        ({"epsilon": -1}, "epsilon must be"),
        ({"delta": None}, "delta is needed"),
        ({"delta": 1.5}, "below 1"),
        ({"training": 3}, "a pair"),
        ({"training": (1, 2)}, "a pair"),
        ({"training": (-1, 0)}, "a pair"),
        ({"training": (1, float("nan"))}, "a pair"),
        ({"accounting": "own"}, "unknown accounting"),
        ({"learning_rate": 0}, "learning_rate must be"),
        ({"constant": "x"}, "constant must be"),
    ],
)
def test_bad_input(change, words):
    with pytest.raises(dpx.InputError, match=words):
        training_guarantee(**{**ADULT, **change})


def test_exact_numbers_are_taken():
    assert training_guarantee(**{**ADULT, "epsilon": Fraction(1, 10)}) == training_guarantee(**ADULT)
