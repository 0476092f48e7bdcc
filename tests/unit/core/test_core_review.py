"""Holes that a hostile reading of `core/` found, each with a test that keeps it closed."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpexplain.columns import column_from_json
from dpexplain.core.accounting import epsilon_of_rho
from dpexplain.core.budget import Budget, exact, pure, zcdp
from dpexplain.core.domain import Categorical, Domain, Numeric, PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Gate
from dpexplain.core.samplers import ExactSampler
from dpexplain.core.sensitivity import ScoreRange, Sensitivity
from dpexplain.errors import BudgetError, DomainError, DpexplainError, InputError, InternalError, ReleaseLost
from stubs import ADD_REMOVE, REPLACE_ONE, ZCDP, exact_door, free_door, release

ONE = pure(1)
BOUND = Sensitivity.of_boxes([(0, 10)] * 2, REPLACE_ONE)


# --- noise that silently vanished ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
def test_numpy_integers_do_not_wrap_around_in_a_sensitivity(kind: Any) -> None:
    """int32 boxes of 2^20 had a squared L2 bound of 0, and the Gaussian released the exact values."""
    top = min(2**20, int(np.iinfo(kind).max))
    boxes = [(kind(0), kind(top))] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # outside tests the overflow is only a warning
        bound = Sensitivity.of_boxes(boxes, ADD_REMOVE)
        direct = Sensitivity(ADD_REMOVE, kind(top), kind(top), kind(1)) if top < 2**15 else None
    assert (bound.l1, bound.l2_squared, bound.linf) == (3 * top, 3 * top * top, top)
    assert all(type(x) is int for x in (bound.l1, bound.l2_squared, bound.linf))
    if direct is not None:
        assert type(direct.l1) is int
    assert type(ScoreRange(ADD_REMOVE, kind(-100), kind(100)).length) is int
    assert ScoreRange(ADD_REMOVE, kind(-100), kind(100)).length == 200


@pytest.mark.parametrize("bad", [1.5, 2.0, "3", None, math.nan])
def test_a_sensitivity_is_made_of_whole_numbers(bad: Any) -> None:
    with pytest.raises((InternalError, TypeError)):
        Sensitivity(ADD_REMOVE, bad, bad, bad)


def test_a_reversed_box_is_refused() -> None:
    """It would take away from the L1 bound."""
    with pytest.raises(InternalError):
        Sensitivity.of_boxes([(0, 10), (0, 10), (5, 0)], REPLACE_ONE)


def test_no_boxes_are_refused() -> None:
    with pytest.raises((InternalError, ValueError)):
        Sensitivity.of_boxes([], REPLACE_ONE)


@pytest.mark.parametrize("levels", [0, -2, 3, 2**63, 1.5, True, "8", None])
def test_levels_of_an_output_range_are_checked(levels: Any) -> None:
    """Zero, negative, odd (no whole middle) or so many that a sum of rows leaves 64 bits."""
    with pytest.raises(InputError, match="levels"):
        PublicRange(0.0, 1.0, levels=levels)


@pytest.mark.parametrize("values", [[0.9, 1.1], [math.nan, 1.0], np.array([1.5, 2.0])])
def test_a_statistic_of_floats_is_refused(values: Any) -> None:
    """Cutting off fractions after summing breaks the L1 and L2 bounds; statistics are integers before the sum."""
    heard: list[BaseException] = []

    def body(gate: Gate) -> None:
        try:
            gate.noisy_sum("sum", values, BOUND, ONE)
        except (InternalError, TypeError) as error:
            heard.append(error)
            raise

    with pytest.raises(ReleaseLost):
        release(exact_door(), ONE, body)
    assert heard


def test_gaussian_noise_has_no_pure_price() -> None:
    """The sampler compared rho with epsilon; only the choice of laws kept this from happening."""
    noise = Noise(Law.GAUSSIAN, 2, Fraction(100))
    with pytest.raises(InternalError):
        ExactSampler().perturb([0, 0], noise, BOUND, pure(1))


# --- what leaves --------------------------------------------------------------------------------------------------


def test_the_body_cannot_change_what_was_released() -> None:
    """The list that the gate returns was the very list in the ledger's payload."""

    def body(gate: Gate) -> None:
        values = gate.noisy_sum("sum", [3, 4], BOUND, pure(0.5))
        values[0] = 12345
        chosen = gate.select("best", [1, 2], ScoreRange(REPLACE_ONE, 0, 1), pure(0.5))
        chosen.append(7)

    parts = release(exact_door(), ONE, body).payload["parts"]
    assert parts["sum"]["values"] == [3, 4]
    assert parts["best"]["values"] == [1]


class Panic(BaseException):
    """As Rust extensions raise, and `sys.exit`: not an `Exception`."""


@pytest.mark.parametrize("kind", [Panic, SystemExit, GeneratorExit])
def test_no_error_of_the_body_leaves(kind: type[BaseException]) -> None:
    kept: list[Gate] = []

    def body(gate: Gate) -> None:
        kept.append(gate)
        raise kind("patient Smith has income 12")

    with pytest.raises(ReleaseLost) as caught:
        release(free_door(), ONE, body)
    assert caught.value.__context__ is None
    assert not kept[0].is_open


def test_an_interrupt_leaves_without_what_it_interrupted() -> None:
    kept: list[Gate] = []

    def body(gate: Gate) -> None:
        kept.append(gate)
        try:
            raise ValueError("patient Smith")
        except ValueError:
            raise KeyboardInterrupt from None

    with pytest.raises((KeyboardInterrupt, ReleaseLost)) as caught:
        release(free_door(), ONE, body)
    assert caught.value.__context__ is None
    assert not kept[0].is_open


def test_warnings_of_the_body_do_not_leave() -> None:
    """A warning that one row causes is a bit about that row, on the screen or in a log."""

    def body(gate: Gate) -> None:
        warnings.warn("row 17 has no income", RuntimeWarning, stacklevel=1)
        np.array([1.0]) / np.array([0.0])
        gate.noisy_sum("sum", [3, 4], BOUND, ONE)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        release(exact_door(), ONE, body)
    assert seen == []


def test_a_price_of_another_definition_is_refused_before_anything_is_reserved() -> None:
    door = free_door(ZCDP)
    with pytest.raises((InternalError, InputError)):
        release(door, ONE, lambda _: pytest.fail("the body was run"))
    assert "reserve" not in door.account.calls


def test_a_request_cannot_hide_behind_its_price() -> None:
    """`cost` in the request was overwritten, so two different requests had one id."""
    door = exact_door()
    try:
        first = release(door, ONE, lambda gate: gate.noisy_sum("s", [1], BOUND, ONE), {"cost": "a"})
        second = release(door, ONE, lambda gate: gate.noisy_sum("s", [2], BOUND, ONE), {"cost": "b"})
    except DpexplainError:
        return
    assert not second.replayed
    assert first.request != second.request


# --- exact numbers ------------------------------------------------------------------------------------------------


def test_numpy_integers_become_exact_fractions() -> None:
    """Fraction(np.int64(3)) * Fraction(2**62 + 1, 7) is negative."""
    for value in (np.int64(3), np.int8(3)):
        fraction = exact(value, "epsilon")
        assert type(fraction.numerator) is int
        assert fraction * Fraction(2**62 + 1, 7) == Fraction(3 * (2**62 + 1), 7)


def test_a_price_is_multiplied_by_fractions_only() -> None:
    with pytest.raises((TypeError, InternalError)):
        ONE * 0.3  # type: ignore[operator]


@pytest.mark.parametrize("rho", [Fraction(1, 10**k) for k in (9, 13, 17, 21, 25)])
def test_small_conversions_are_rounded_up_too(rho: Fraction) -> None:
    """log((alpha-1)/alpha) lost all digits for large alpha; sixty-digit arithmetic shows it."""
    import mpmath

    delta, steps = Fraction(1, 10**14), 400
    with mpmath.workdps(60):
        r, d = mpmath.mpf(rho.numerator) / rho.denominator, mpmath.mpf(1) / 10**14

        def epsilon(x: Any) -> Any:
            excess = mpmath.exp(x)
            return (1 + excess) * r + mpmath.log1p(-1 / (1 + excess)) - mpmath.log((1 + excess) * d) / excess

        low, high, golden = mpmath.mpf(-5), mpmath.mpf(40), (mpmath.sqrt(5) - 1) / 2
        for _ in range(steps):
            a, b = high - golden * (high - low), low + golden * (high - low)
            low, high = (low, b) if epsilon(a) < epsilon(b) else (a, high)
        truth = max(mpmath.mpf(0), epsilon(low))
        assert mpmath.mpf(epsilon_of_rho(rho, delta)) >= truth


@pytest.mark.parametrize(
    "ask",
    [
        lambda: Budget(epsilon=10**400),
        lambda: Budget(epsilon=10**400, delta=1e-6).total,
        lambda: str(pure(10**400)),
        lambda: pure(Decimal("sNaN")),
        lambda: pure(Decimal("1e400")),
        lambda: best(BOUND, 2, pure(Fraction(1, 10**400))),
        lambda: best(BOUND, 2, zcdp(Fraction(1, 10**70))),
        lambda: best(BOUND, 2, zcdp(Fraction(1, 10**700))),
    ],
)
def test_absurd_prices_are_answered_or_refused_in_words(ask: Callable[[], Any]) -> None:
    with contextlib.suppress(InputError):
        ask()


def test_nearly_certain_intervals_are_finite() -> None:
    for law in Law:
        assert math.isfinite(Noise(law, 3, Fraction(10)).halfwidth(1 - 2**-53))


def test_words_never_understate_a_price() -> None:
    """Four digits, rounded up: 1.00004 is not 1."""
    words = Budget(epsilon=2).describe(pure(Fraction(100004, 100000)))
    assert float(words.split("=")[1].split()[0]) >= 1.00004


# --- declarations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Categorical(None),  # type: ignore[arg-type]
        lambda: Categorical(5),  # type: ignore[arg-type]
        lambda: Categorical({"b", "a"}),  # type: ignore[arg-type]  # the order of a set changes from run to run
        lambda: Numeric(0, 10**400),
        lambda: Numeric(0, np.complex128(3)),  # type: ignore[arg-type]
        lambda: Numeric(0, 9, integer="no"),  # type: ignore[arg-type]
        lambda: Domain(["a"]),  # type: ignore[arg-type]
        lambda: column_from_json("age", "numeric"),  # type: ignore[arg-type]
        lambda: column_from_json("age", None),  # type: ignore[arg-type]
        lambda: column_from_json("age", {"type": ["numeric"]}),
        lambda: column_from_json("age", {"type": "categorical", "values": 3}),
        lambda: column_from_json("age", {"type": "numeric", "low": 0, "high": 1, "integer": "false"}),
    ],
)
def test_bad_declarations_are_refused_in_words(declare: Callable[[], Any]) -> None:
    with pytest.raises(DomainError):
        declare()


def test_the_middle_of_large_bounds_is_finite() -> None:
    assert Numeric(1e308, 1.7e308).missing == pytest.approx(1.35e308)


def test_a_numpy_default_is_plain() -> None:
    column = Categorical([1, 2], missing=np.int64(2))
    assert Domain({"a": column}).digest == Domain({"a": Categorical([1, 2], missing=2)}).digest
    truth, one = (Domain({"a": Categorical([0, 1], missing=missing)}) for missing in (True, 1))
    assert truth.digest == one.digest


def test_an_odd_name_is_an_unknown_feature() -> None:
    with pytest.raises((InputError, BudgetError)):
        Domain({"a": Numeric(0, 1)}).column(["a"])  # type: ignore[arg-type]
