"""What a claim allows an attacker: closed forms, mechanisms that attain the bounds, and consistency of the curves."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpexplain.audit import bounds, most_advantage, most_success, most_true_positives
from dpexplain.audit.claims import claim_of_replacing
from dpexplain.core.accounting import epsilon_of_rho
from dpexplain.core.budget import pure, zcdp
from dpexplain.errors import InputError

RATES = np.unique(np.concatenate([np.geomspace(1e-6, 0.5, 40), 1 - np.geomspace(1e-6, 0.4, 40)]))
KINDS = [(pure(0.1), {}), (pure(2), {}), (pure(1), {"delta": 0.01}), (zcdp(0.5), {}), (zcdp(0.5), {"gaussian": True})]


def test_pure_curve():
    rates = np.array([0.0, 0.01, 0.2, 0.9, 1.0])
    expected = [0, 0.01 * math.e, 0.2 * math.e, 1 - 0.1 / math.e, 1]
    assert most_true_positives(1, rates) == pytest.approx(expected)
    assert most_true_positives(pure(1), 0.01) == pytest.approx(0.01 * math.e)
    assert most_true_positives(1, 0.0, delta=0.01) == pytest.approx(0.01)


def test_gaussian_curve():
    cuts = np.linspace(-4, 4, 9)
    assert most_true_positives(zcdp(0.5), ndtr(-cuts), gaussian=True) == pytest.approx(ndtr(1 - cuts))


@pytest.mark.parametrize(("claim", "kind"), KINDS)
def test_curves_increase_are_concave_and_the_same_both_ways(claim, kind):
    curve = most_true_positives(claim, RATES, **kind)
    assert (np.diff(curve) >= 0).all()
    slopes = np.diff(curve) / np.diff(RATES)
    assert (slopes[1:] <= slopes[:-1] * (1 + 1e-6) + 1e-6).all()
    assert (curve >= RATES).all()
    inside = curve < 1 - 1e-9
    mirrored = most_true_positives(claim, 1 - curve[inside], **kind)  # (a, p) and (1 - p, 1 - a)
    assert mirrored == pytest.approx(1 - RATES[inside], abs=1e-6)


@pytest.mark.parametrize("rho", [0.02, 0.5, 4.0])
def test_zcdp_allows_gaussian_noise_and_hardly_more_than_any_conversion_does(rho):
    curve = most_true_positives(zcdp(rho), RATES)
    gaussian = most_true_positives(zcdp(rho), RATES, gaussian=True)
    assert (curve >= gaussian - 1e-9).all()
    for delta in (1e-8, 1e-4, 1e-2):
        epsilon = epsilon_of_rho(zcdp(rho).amount, zcdp(delta).amount)
        assert (curve <= most_true_positives(epsilon, RATES, delta=delta) * 1.03).all()


def test_zcdp_allows_a_pure_mechanism_of_its_price():
    """Randomised response of epsilon is epsilon^2 / 2 zCDP: its point must be allowed."""
    for epsilon in (0.3, 1.0, 3.0):
        p = math.exp(epsilon) / (1 + math.exp(epsilon))
        assert most_true_positives(zcdp(epsilon**2 / 2), 1 - p) >= p


def test_zcdp_curve_is_nearly_attained():
    """A coin whose largest Renyi divergence is exactly rho lies on the curve, or above it by the grid of orders."""
    p, a = 0.6, 0.2
    rho = max(bounds.rho(np.array([p]), np.array([a]))[0], bounds.rho(np.array([1 - a]), np.array([1 - p]))[0])
    assert most_true_positives(zcdp(float(rho)), a) == pytest.approx(p, abs=1e-6)
    assert most_true_positives(zcdp(0.8 * float(rho)), a) < p - 0.01


@pytest.mark.parametrize(("claim", "kind"), KINDS)
def test_advantage_is_the_largest_gap_of_the_curve(claim, kind):
    fine = np.linspace(0, 1, 2_001)
    gap = (most_true_positives(claim, fine, **kind) - fine).max()
    assert most_advantage(claim, **kind) == pytest.approx(gap, abs=1e-3)


def test_advantages_in_closed_form():
    assert most_advantage(1) == pytest.approx((math.e - 1) / (math.e + 1))
    assert most_advantage(1, delta=0.1) == pytest.approx((math.e - 1 + 0.2) / (math.e + 1))
    assert most_advantage(zcdp(0.5), gaussian=True) == pytest.approx(2 * ndtr(0.5) - 1)


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_randomised_response_attains_the_success(epsilon, k):
    assert most_success(epsilon, k) == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + k - 1))


@pytest.mark.parametrize("k", [2, 4])
def test_no_mechanism_beats_the_success_that_its_curves_allow(k):
    """Random mechanisms with 6 outputs: their exact pure loss, and the exact success of the best guess."""
    draw, closest = np.random.default_rng(3), 1.0
    for _ in range(300):
        laws = draw.dirichlet(np.full(6, draw.uniform(0.5, 20)), size=k)
        epsilon = max(np.log(laws[u] / laws[v]).max() for u, v in itertools.permutations(range(k), 2))
        success = laws.max(axis=0).sum() / k
        assert success <= most_success(float(epsilon), k) + 1e-12
        closest = min(closest, most_success(float(epsilon), k) - success)
    assert closest < 0.1


def test_gaussian_success():
    assert most_success(zcdp(2), 2, gaussian=True) == pytest.approx(ndtr(1))
    s = most_success(zcdp(2), 5, gaussian=True)
    assert s == pytest.approx(ndtr(ndtri((1 - s) / 4) + 2))
    points = 2 / math.sqrt(2) * np.eye(5)  # five centres, each two from each other: the best Gaussian there is
    noise = np.random.default_rng(0).normal(size=(20_000, 5))
    assert 0.6 < np.mean((noise + points[0]).argmax(axis=1) == 0) < s


def test_two_values_of_a_row_are_two_steps_apart_under_add_remove():
    assert claim_of_replacing(1, "replace-one") == (pure(1), 0.0)
    assert claim_of_replacing(1, "add-remove") == (pure(2), 0.0)
    assert claim_of_replacing(zcdp(0.5), "add-remove") == (zcdp(2), 0.0)
    assert claim_of_replacing(1, "add-remove", 0.01)[1] == pytest.approx(0.01 * (1 + math.e))
    assert claim_of_replacing(5, "add-remove", 0.5)[1] < 1
    with pytest.raises(InputError, match="relation"):
        claim_of_replacing(1, "change-all")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: most_true_positives(None, 0.1), "none was given"),
        (lambda: most_true_positives(-1, 0.1), "epsilon"),
        (lambda: most_true_positives(1, 1.1), "between 0 and 1"),
        (lambda: most_true_positives(1, math.nan), "between 0 and 1"),
        (lambda: most_true_positives(1, 0.1, gaussian=True), "zCDP"),
        (lambda: most_true_positives(1, 0.1, delta=2), "delta"),
        (lambda: most_true_positives(zcdp(1), 0.1, delta=0.1), "without delta"),
        (lambda: most_success(1, 1), "at least 2"),
        (lambda: most_success(1, 2.0), "at least 2"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(InputError, match=words):
        call()
