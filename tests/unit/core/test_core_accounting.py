"""zCDP to (epsilon, delta) and back, against OpenDP, dp-accounting and sixty-digit arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import dp_accounting
import mpmath
import numpy as np
import opendp.prelude as dp
import pytest

from dpexplain.core.accounting import epsilon_of_rho, epsilon_of_zcdp_pure, rho_of_epsilon
from dpexplain.core.budget import Budget, zcdp

dp.enable_features("contrib")

RHOS = [Fraction(x) for x in ("1e-8", "1e-4", "0.01", "0.5", "3", "50", "2000")]
DELTAS = [Fraction(1, 10**12), Fraction(1, 10**6), Fraction(1, 1000), Fraction(1, 10), Fraction(9, 10)]


def reference(rho: Fraction, delta: Fraction) -> float:
    """The conversion of Canonne, Kamath and Steinke minimised over alpha in sixty digits by golden section."""
    with mpmath.workdps(60):
        r, d = mpmath.mpf(rho.numerator) / rho.denominator, mpmath.mpf(delta.numerator) / delta.denominator

        def epsilon(log_order: mpmath.mpf) -> mpmath.mpf:
            excess = mpmath.exp(log_order)
            alpha = 1 + excess
            return alpha * r + mpmath.log1p(-1 / alpha) - mpmath.log(alpha * d) / excess

        low, high, golden = mpmath.mpf(-40), mpmath.mpf(80), (mpmath.sqrt(5) - 1) / 2
        for _ in range(160):
            a, b = high - golden * (high - low), low + golden * (high - low)
            low, high = (low, b) if epsilon(a) < epsilon(b) else (a, high)
        return float(max(mpmath.mpf(0), epsilon((low + high) / 2)))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_conversion_is_tight_and_never_below(rho: Fraction, delta: Fraction) -> None:
    ours, truth = epsilon_of_rho(rho, delta), reference(rho, delta)
    assert ours >= truth * (1 - 1e-9)
    assert ours <= truth * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("delta", [1e-10, 1e-6, 1e-3])
@pytest.mark.parametrize("sigma", [0.1, 0.7, 1.0, 5.0, 80.0])
def test_agrees_with_opendp(sigma: float, delta: float) -> None:
    gaussian = dp.m.make_gaussian(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=sigma)
    rho = Fraction(gaussian.map(1.0))
    theirs = dp.c.make_zCDP_to_approxDP(gaussian).map(1.0).epsilon(delta)
    assert epsilon_of_rho(rho, Fraction(repr(delta))) == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize("delta", [1e-10, 1e-6, 1e-3])
@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 4.0])
def test_agrees_with_dp_accounting(rho: float, delta: float) -> None:
    """Its accountant takes the best of a grid of orders, so it can only be above the optimum."""
    orders = 1 + np.geomspace(1e-3, 1e5, 20_000)
    accountant = dp_accounting.rdp.RdpAccountant(orders)
    accountant.compose(dp_accounting.ZCDpEvent(rho))
    theirs = accountant.get_epsilon(delta)
    ours = epsilon_of_rho(Fraction(repr(rho)), Fraction(repr(delta)))
    assert ours == pytest.approx(theirs, rel=1e-6)
    assert ours <= theirs * (1 + 1e-9)


def test_known_value() -> None:
    """A Gaussian with sigma 1 at delta 1e-6."""
    assert epsilon_of_rho(Fraction(1, 2), Fraction(1, 10**6)) == pytest.approx(5.222, abs=1e-3)


def test_nothing_spent_is_nothing() -> None:
    assert epsilon_of_rho(Fraction(0), Fraction(1, 10**6)) == 0.0


def test_epsilon_grows_with_rho_and_falls_with_delta() -> None:
    for delta in DELTAS:
        row = [epsilon_of_rho(rho, delta) for rho in RHOS]
        assert row == sorted(row)
    for rho in RHOS:
        column = [epsilon_of_rho(rho, delta) for delta in DELTAS]
        assert column == sorted(column, reverse=True)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", ["1e-6", "0.001", "0.1", "1", "7.3", "100", "5000"])
def test_round_trip(epsilon: str, delta: Fraction) -> None:
    """rho is rounded down: never more than asked for, and less by at most 1e-9 of it."""
    wanted = Fraction(epsilon)
    rho = rho_of_epsilon(wanted, delta)
    assert epsilon_of_rho(rho, delta) <= float(wanted)
    assert epsilon_of_rho(rho * (1 + Fraction(1, 10**9)), delta) > float(wanted) * (1 - 1e-9)


def test_round_trip_from_rho() -> None:
    for rho in RHOS:
        back = rho_of_epsilon(Fraction(epsilon_of_rho(rho, Fraction(1, 10**6))), Fraction(1, 10**6))
        assert float(back) == pytest.approx(float(rho), rel=1e-8)
        assert back <= rho


def test_large_delta_needs_a_wider_search() -> None:
    """With delta near one the answer can lie above epsilon + 1, where the search starts."""
    rho = rho_of_epsilon(Fraction(1, 100), Fraction(99, 100))
    assert rho > 2
    assert epsilon_of_rho(rho, Fraction(99, 100)) <= 0.01


def test_extremes_stay_safe() -> None:
    assert math.isfinite(epsilon_of_rho(Fraction(10**12), Fraction(1, 10**300)))
    assert epsilon_of_rho(Fraction(1, 10**300), Fraction(1, 10**6)) >= 0
    tiny = rho_of_epsilon(Fraction(1, 10**200), Fraction(1, 10**6))
    assert tiny <= 2 * Fraction(1, 10**12)  # total variation sqrt(rho / 2) <= delta is (0, delta)-DP


def test_an_epsilon_too_small_for_a_float_is_zero_rho() -> None:
    """The bisection gives up below 1e-300 and answers nothing rather than too much."""
    assert rho_of_epsilon(Fraction(1, 10**320), Fraction(1, 10**6)) >= 0


@pytest.mark.parametrize("rho", [Fraction(1, 10**12), Fraction(1, 3), Fraction(1, 2), Fraction(2), Fraction(10**9)])
def test_pure_inside_zcdp_is_rounded_down(rho: Fraction) -> None:
    epsilon = epsilon_of_zcdp_pure(rho)
    assert epsilon**2 / 2 <= rho
    assert (epsilon * (1 + Fraction(1, 10**20))) ** 2 / 2 > rho


def test_budget_total_converts_back_to_what_was_bought() -> None:
    budget = Budget(epsilon=2, delta=1e-6)
    assert budget.epsilon_of(budget.total) == pytest.approx(2, rel=1e-8)
    assert budget.epsilon_of(budget.total) <= 2
    assert budget.epsilon_of(zcdp(0.5)) == pytest.approx(5.222, abs=1e-3)
