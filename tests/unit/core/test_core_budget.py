"""Costs are exact, definitions never mix, and every bad number is refused by name."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpexplain.core.budget import Budget, Cost, Definition, exact, pure, zcdp
from dpexplain.errors import InputError, InternalError

BAD_NUMBERS = [0, 0.0, -1, -0.5, math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal(0)]
BAD = [*BAD_NUMBERS, "0.5", "", True, False, None, [], 1j]


def test_ten_tenths_are_one() -> None:
    total, spent = Budget(epsilon=1.0).total, pure(0.1) * 0
    for _ in range(10):
        spent = spent + pure(0.1)
        assert spent <= total
    assert spent == total
    assert not spent + pure(1e-300) <= total


@pytest.mark.parametrize(
    ("value", "fraction"),
    [
        (0.1, Fraction(1, 10)),
        (1, Fraction(1)),
        (1e-6, Fraction(1, 10**6)),
        (Decimal("0.30"), Fraction(3, 10)),
        (Fraction(1, 3), Fraction(1, 3)),
        (np.float64(0.7), Fraction(7, 10)),
        (np.int64(2), Fraction(2)),
    ],
)
def test_a_number_is_read_as_it_was_written(value: Any, fraction: Fraction) -> None:
    assert exact(value, "epsilon") == fraction


@pytest.mark.parametrize("bad", BAD)
def test_bad_numbers_are_refused_by_name(bad: Any) -> None:
    for name, ask in {
        "epsilon": lambda: pure(bad),
        "rho": lambda: zcdp(bad),
        "delta": lambda: exact(bad, "delta"),
    }.items():
        with pytest.raises(InputError, match=f"{name} must be a positive, finite number") as caught:
            ask()
        assert "Nothing was spent." in str(caught.value)


LONG = Fraction(10**4100 + 1, 10**4101)


@pytest.mark.parametrize(
    "long",
    [LONG, -LONG, 10**5000, Fraction(1, 10**401), Decimal("0.1" + "0" * 4050 + "1"), Decimal("1e-400")],
    ids=["fraction", "negative", "whole", "small", "decimal", "small-decimal"],  # pytest would spell them out
)
def test_numbers_that_no_ledger_should_hold_are_refused(long: Any) -> None:
    for ask in (lambda: pure(long), lambda: zcdp(long), lambda: Budget(long), lambda: Budget(1, long)):
        with pytest.raises(InputError, match="at most 400 digits|of a sensible size") as caught:
            ask()
        assert len(str(caught.value)) < 300
    with pytest.raises(InputError, match="of a sensible size"):
        pure(Decimal("1e-999999999999"))  # as a fraction it would fill the memory


@pytest.mark.parametrize("written", [1e-12, 5e-324, 1e-300, Decimal("1e-12"), Fraction(10**399 + 1, 10**400)])
def test_small_and_exact_numbers_are_taken(written: Any) -> None:
    assert pure(written).amount > 0


def test_what_an_earlier_version_wrote_is_read() -> None:
    budget = Budget.from_json({"epsilon": f"{LONG.numerator}/{LONG.denominator}", "delta": None})
    assert (budget.epsilon, Budget.from_json(budget.to_json())) == (LONG, budget)
    assert budget.epsilon_of(Cost(Definition.PURE, LONG)) == pytest.approx(0.1)
    for wrong in ({"epsilon": "0/1", "delta": None}, {"epsilon": "1/1", "delta": "1/1"}):
        with pytest.raises(InputError):
            Budget.from_json(wrong)


@pytest.mark.parametrize("bad", BAD)
def test_bad_budgets_are_refused(bad: Any) -> None:
    with pytest.raises(InputError, match="epsilon"):
        Budget(epsilon=bad)
    if bad is not None:
        with pytest.raises(InputError, match="delta"):
            Budget(epsilon=1, delta=bad)


@pytest.mark.parametrize("delta", [1, 1.0, 2])
def test_delta_of_one_promises_nothing(delta: float) -> None:
    with pytest.raises(InputError, match="below 1"):
        Budget(epsilon=1, delta=delta)


@pytest.mark.parametrize("budget", [Budget(epsilon=1), Budget(epsilon=1, delta=1e-6)])
def test_exactly_one_price_is_given(budget: Budget) -> None:
    for both in ({}, {"epsilon": 1, "rho": 1}):
        with pytest.raises(InputError, match="exactly one"):
            budget.cost(**both)


@pytest.mark.parametrize("bad", [b for b in BAD if b is not None])
@pytest.mark.parametrize("budget", [Budget(epsilon=1), Budget(epsilon=1, delta=1e-6)])
def test_bad_prices(budget: Budget, bad: Any) -> None:
    with pytest.raises(InputError):
        budget.cost(epsilon=bad)
    with pytest.raises(InputError):
        budget.cost(rho=bad)


def test_rho_in_a_pure_account_is_refused() -> None:
    with pytest.raises(InputError, match="pure epsilon"):
        Budget(epsilon=1).cost(rho=0.1)


def test_prices_of_a_pure_account() -> None:
    budget = Budget(epsilon=2)
    assert budget.definition is Definition.PURE
    assert budget.cost(epsilon=0.5) == pure(0.5)
    assert budget.epsilon_of(pure(0.5)) == 0.5
    assert budget.describe(pure(0.5)) == "epsilon = 0.5 (pure)"


def test_prices_of_a_zcdp_account() -> None:
    budget = Budget(epsilon=2, delta=1e-6)
    assert budget.definition is Definition.ZCDP
    assert budget.cost(rho=0.25) == zcdp(0.25)
    assert budget.epsilon_of(budget.cost(epsilon=0.5)) <= 0.5
    words = budget.describe(zcdp(0.5))
    assert "rho = 0.5 (zCDP)" in words
    assert "epsilon = 5.22" in words
    assert "delta = 1e-06" in words


def test_a_price_that_rounds_to_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpexplain.core.budget.rho_of_epsilon", lambda *_: Fraction(0))
    with pytest.raises(InputError, match="too small"):
        Budget(epsilon=2, delta=1e-6).cost(epsilon=1e-9)


def test_definitions_never_mix() -> None:
    for mix in (
        lambda: pure(1) + zcdp(1),
        lambda: pure(1) - zcdp(1),
        lambda: pure(1) <= zcdp(1),
        lambda: Budget(epsilon=1).epsilon_of(zcdp(1)),
        lambda: Budget(epsilon=1, delta=1e-6).epsilon_of(pure(1)),
    ):
        with pytest.raises(InternalError):
            mix()


def test_a_cost_is_never_negative() -> None:
    for negative in (lambda: pure(1) - pure(2), lambda: pure(1) * -1, lambda: Cost(Definition.PURE, Fraction(-1))):
        with pytest.raises(InternalError, match="negative"):
            negative()


def test_arithmetic_is_exact() -> None:
    third = pure(Fraction(1, 3))
    assert third + third + third == pure(1)
    assert pure(1) - third == third * 2
    assert third <= third


def test_words() -> None:
    assert str(pure(0.5)) == "epsilon=0.5"
    assert str(zcdp(0.005)) == "rho=0.005"
    assert str(pure(1) * 0) == "epsilon=0"


@pytest.mark.parametrize("amount", ["1.00004", "0.1", "1e-7", "123456", "1/3", "2/3", "0.99999"])
def test_words_are_rounded_up(amount: str) -> None:
    said = Fraction(str(pure(Fraction(amount))).split("=")[1])
    assert Fraction(amount) * (1 - Fraction(1, 10**11)) <= said <= Fraction(amount) * (1 + Fraction(1, 999))


def test_a_pure_price_as_a_float_is_rounded_up() -> None:
    budget = Budget(epsilon=1)
    for fraction in (Fraction(1, 3), Fraction(2, 3), Fraction(1, 10), Fraction(1)):
        assert Fraction(budget.epsilon_of(pure(fraction))) >= fraction


@pytest.mark.parametrize("cost", [pure(0.1), zcdp(Fraction(1, 3)), pure(1) * 0])
def test_costs_survive_json(cost: Cost) -> None:
    assert Cost.from_json(cost.to_json()) == cost


@pytest.mark.parametrize("budget", [Budget(epsilon=0.1), Budget(epsilon=3, delta=1e-7)])
def test_budgets_survive_json(budget: Budget) -> None:
    assert Budget.from_json(budget.to_json()) == budget
    assert budget.to_json()["epsilon"].count("/") == 1
