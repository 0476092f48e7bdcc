"""Costs and budgets: exact fractions of two definitions that never mix.

A *pure* account counts epsilon (epsilon-differential privacy). A *zCDP* account counts rho (zero-concentrated
differential privacy) and reports (epsilon, delta) at its fixed delta. Costs of one definition add up; adding or
comparing costs of different definitions is an error, not a conversion.

A float is read as the decimal number a person wrote: `0.1` is exactly 1/10, so ten releases of 0.1 fit in 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from enum import StrEnum
from fractions import Fraction
from numbers import Rational
from typing import Any

from dpexplain.core.accounting import epsilon_of_rho, rho_of_epsilon
from dpexplain.core.canonical import JsonObject, fraction_text, parse_fraction
from dpexplain.errors import InputError, InternalError


class Definition(StrEnum):
    """The definition of differential privacy an account is kept in."""

    PURE = "pure"
    ZCDP = "zcdp"


LARGEST = 10**12  # an epsilon of twenty protects nothing; this only keeps numbers inside a float
LONGEST = 10**400  # of numerator and denominator; the smallest float, 5e-324, is a fraction of 325 digits


def exact(value: Any, name: str) -> Fraction:
    """`value` as an exact positive fraction, or an InputError that names it."""
    fraction = None
    if not isinstance(value, Rational) or max(abs(int(value.numerator)), int(value.denominator)) <= LONGEST:
        fraction = _exact(value, name)
    if fraction is None or fraction.denominator > LONGEST:
        raise InputError(f"{name} must be a number of at most 400 digits.", hint="round it")
    return fraction


def _exact(value: Any, name: str) -> Fraction:
    """The same for a number of any length, as a ledger may hold it."""
    wrong = isinstance(value, bool) or not isinstance(value, int | float | Decimal | Rational)
    wrong = wrong or (isinstance(value, float) and not math.isfinite(value))
    wrong = wrong or (isinstance(value, Decimal) and not (value.is_finite() and value.adjusted() > -400))
    if wrong or not 0 < value <= LARGEST:
        raise InputError(
            f"{name} must be a positive, finite number of a sensible size; got {repr(value)[:60]}.",
            hint=f"write for example {name}=0.5",
        )
    if isinstance(value, float):
        return Fraction(repr(float(value)))
    if isinstance(value, Rational):  # numpy integers are rationals too, and would wrap around inside a fraction
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(value)


def float_above(value: Fraction) -> float:
    """The nearest float that is not below `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def digits(value: Fraction, *, up: bool = True) -> str:
    """Four significant digits for people, rounded up or down; up, what is said is never less than what is meant (to
    nine digits, so that 0.30000000000000004 is still 0.3, and a converted 1.99999999998 still 2).
    """
    nudge = 1 - Fraction(1, 10**9) if up else 1 + Fraction(1, 10**9)
    with localcontext(prec=4, rounding=ROUND_CEILING if up else ROUND_FLOOR):
        near = value * nudge
        return f"{float(Decimal(near.numerator) / Decimal(near.denominator)):.4g}"


@dataclass(frozen=True)
class Cost:
    """An amount of privacy loss in one definition. Immutable, exact, never negative."""

    definition: Definition
    amount: Fraction

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise InternalError(f"a cost is negative: {self.amount}")

    def __add__(self, other: Cost) -> Cost:
        return Cost(self._same(other), self.amount + other.amount)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self._same(other), self.amount - other.amount)

    def __mul__(self, share: Fraction | int) -> Cost:
        if not isinstance(share, Fraction | int):
            raise InternalError("a price is multiplied by exact numbers only")
        return Cost(self.definition, self.amount * share)

    def __le__(self, other: Cost) -> bool:
        self._same(other)
        return self.amount <= other.amount

    def _same(self, other: Cost) -> Definition:
        if self.definition is not other.definition:
            raise InternalError(f"costs of {self.definition} and {other.definition} were mixed")
        return self.definition

    @property
    def symbol(self) -> str:
        return "epsilon" if self.definition is Definition.PURE else "rho"

    def __str__(self) -> str:
        return f"{self.symbol}={digits(self.amount)}"

    def to_json(self) -> JsonObject:
        return {"definition": self.definition.value, "amount": fraction_text(self.amount)}

    @classmethod
    def from_json(cls, value: JsonObject) -> Cost:
        return cls(Definition(value["definition"]), parse_fraction(value["amount"]))


def pure(epsilon: Any) -> Cost:
    """The cost of one epsilon-DP release in a pure account."""
    return Cost(Definition.PURE, exact(epsilon, "epsilon"))


def zcdp(rho: Any) -> Cost:
    """The cost of one rho-zCDP release in a zCDP account."""
    return Cost(Definition.ZCDP, exact(rho, "rho"))


@dataclass(frozen=True)
class Budget:
    """The total of an account: `Budget(epsilon=2)` is pure, `Budget(epsilon=2, delta=1e-6)` is zCDP.

    With delta, the total rho is the largest one that converts to at most (epsilon, delta).
    """

    epsilon: Any
    delta: Any = None

    def __post_init__(self) -> None:
        self._make_exact(exact)

    def _make_exact(self, exact: Callable[[Any, str], Fraction]) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon"))
        if self.delta is not None:
            delta = exact(self.delta, "delta")
            if delta >= 1:
                raise InputError(
                    f"delta must be below 1; got {float(delta):g}.",
                    hint="a usual delta is 1e-6, below 1 / number of rows",
                )
            object.__setattr__(self, "delta", delta)

    @property
    def definition(self) -> Definition:
        return Definition.PURE if self.delta is None else Definition.ZCDP

    @property
    def total(self) -> Cost:
        return self.cost(epsilon=self.epsilon)

    def cost(self, *, epsilon: Any = None, rho: Any = None) -> Cost:
        """The cost of one release, from exactly one of `epsilon=` and `rho=`.

        In a zCDP account `epsilon=e` means: this release alone is (e, delta)-DP at the account's delta.
        """
        if (epsilon is None) == (rho is None):
            raise InputError(
                "give exactly one of epsilon and rho.",
                hint="epsilon=0.5 works in every account; rho= only in one with delta",
            )
        if rho is not None:
            if self.definition is Definition.PURE:
                raise InputError(
                    "rho was given, but this account counts pure epsilon.",
                    hint="use epsilon=, or open the account with Budget(epsilon=..., delta=1e-6)",
                )
            return zcdp(rho)
        if self.definition is Definition.PURE:
            return pure(epsilon)
        amount = rho_of_epsilon(exact(epsilon, "epsilon"), self.delta)
        if amount == 0:
            raise InputError(
                f"epsilon={float(epsilon):g} is too small to be expressed at delta={float(self.delta):g}.",
                hint="use a larger epsilon",
            )
        return Cost(Definition.ZCDP, amount)

    def epsilon_of(self, cost: Cost) -> float:
        """The epsilon that `cost` stands for in this account (at its delta if it has one), rounded up."""
        if cost.definition is not self.definition:
            raise InternalError("a cost of another definition was asked for")
        if self.delta is None:
            return float_above(cost.amount)
        return epsilon_of_rho(cost.amount, self.delta)

    def describe(self, cost: Cost) -> str:
        """`cost` in words, for statements, plots and errors. What is said is never less than what is spent."""
        epsilon = digits(Fraction(self.epsilon_of(cost)))
        if self.delta is None:
            return f"epsilon = {epsilon} (pure)"
        rho = digits(cost.amount)
        return f"rho = {rho} (zCDP), i.e. epsilon = {epsilon} at delta = {digits(self.delta)}"

    def to_json(self) -> JsonObject:
        return {
            "epsilon": fraction_text(self.epsilon),
            "delta": None if self.delta is None else fraction_text(self.delta),
        }

    @classmethod
    def from_json(cls, value: JsonObject) -> Budget:
        delta, budget = value["delta"], object.__new__(cls)
        object.__setattr__(budget, "epsilon", parse_fraction(value["epsilon"]))
        object.__setattr__(budget, "delta", None if delta is None else parse_fraction(delta))
        budget._make_exact(_exact)  # earlier versions took numbers of any length
        return budget
