"""The door: reserve, compute, commit, in this order; errors that say nothing; a gate that refuses what was not paid."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpexplain.core.account import NOTHING, Ask, Entry
from dpexplain.core.budget import Cost, pure, zcdp
from dpexplain.core.canonical import JsonObject
from dpexplain.core.noise import Law
from dpexplain.core.release import Door, Gate, split
from dpexplain.core.samplers import ExactSampler
from dpexplain.core.sensitivity import Relation, ScoreRange, Sensitivity, Unit
from dpexplain.errors import BudgetError, InternalError, LedgerUnavailable, ReleaseLost
from stubs import ADD_REMOVE, PURE, REPLACE_ONE, ZCDP, FreeAccount, ZeroNoise, exact_door, free_door, release, released

ONE = pure(1)
TENTH = pure(Fraction(1, 10))
BOUND = Sensitivity.of_boxes([(0, 10)] * 2, REPLACE_ONE)


def one_sum(gate: Gate) -> None:
    gate.noisy_sum("sum", [3, 4], BOUND, ONE)


def lost(body: Callable[[Gate], Any], door: Door | None = None) -> ReleaseLost:
    """What the caller hears when the body fails."""
    with pytest.raises(ReleaseLost) as caught:
        release(exact_door() if door is None else door, ONE, body)
    return caught.value


def refusal(body: Callable[[Gate], Any], door: Door | None = None) -> InternalError:
    """What the body hears inside; outside the release is lost."""
    heard: list[InternalError] = []

    def listening(gate: Gate) -> None:
        try:
            body(gate)
        except InternalError as error:
            heard.append(error)
            raise

    lost(listening, door)
    return heard[0]


def test_reserve_then_compute_then_commit() -> None:
    account = FreeAccount()

    def body(gate: Gate) -> None:
        account.calls.append("compute")
        one_sum(gate)

    result = release(Door(account, sampler=ZeroNoise()), ONE, body)
    assert account.calls == ["find", "reserve", "compute", "commit"]
    assert not result.replayed
    assert result.payload["parts"]["sum"]["values"] == [3, 4]
    assert result.entry.charged == ONE


def test_the_real_sampler_is_the_default() -> None:
    assert isinstance(Door(FreeAccount()).sampler, ExactSampler)


def test_what_the_body_returns_is_thrown_away() -> None:
    result = release(exact_door(), ONE, lambda gate: [one_sum(gate), "a secret"])
    assert "secret" not in repr(result)


def test_the_payload_tells_the_law_and_the_price() -> None:
    part = release(free_door(), ONE, one_sum).payload["parts"]["sum"]
    assert part["noise"]["law"] == Law.CUBE.value
    assert part["cost"] == ONE.to_json()


def test_a_repeated_request_is_free_and_identical() -> None:
    door, request = free_door(), {"what": "sum", "version": 1}
    first = release(door, ONE, one_sum, request)
    again = release(door, ONE, lambda _: pytest.fail("the body was run again"), request)
    assert again.replayed
    assert (again.payload, again.entry, again.request) == (first.payload, first.entry, first.request)
    assert door.account.calls.count("reserve") == 1


@pytest.mark.parametrize(
    ("cost", "request_"), [(TENTH, {"what": "sum"}), (ONE, {"what": "other"}), (ONE, {"what": "sum", "more": None})]
)
def test_another_price_or_request_is_another_release(cost: Any, request_: Any) -> None:
    door = exact_door()
    release(door, ONE, one_sum, {"what": "sum"})
    body = lambda gate: gate.noisy_sum("sum", [1], BOUND, cost)  # noqa: E731
    assert not release(door, cost, body, request_).replayed


def test_an_unspeakable_request_is_refused_before_anything_is_reserved() -> None:
    door = free_door()
    for request in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises((TypeError, ValueError)):
            release(door, ONE, one_sum, request)
    assert door.account.calls == []


def test_a_refused_reservation_reads_nothing() -> None:
    class Empty(FreeAccount):
        def reserve(self, ask: Ask) -> str:
            raise BudgetError(f"{ask.label} is too dear")

    with pytest.raises(BudgetError):
        release(Door(Empty()), ONE, lambda _: pytest.fail("the body was run"))


def test_a_body_that_fails_loses_the_price_and_says_nothing() -> None:
    account = FreeAccount()

    def body(_gate: Gate) -> None:
        try:
            raise KeyError("row 98765")
        except KeyError as error:
            raise ValueError("patient Smith has income 12") from error

    error = lost(body, Door(account))
    assert account.calls == ["find", "reserve"]  # paid, and not given back
    assert error.__context__ is None
    assert error.__cause__ is None
    text = "".join(traceback.format_exception(error)) + repr(error) + str(error.to_dict())
    for secret in ("Smith", "98765", "ValueError", "KeyError"):
        assert secret not in text
    assert "stays spent" in str(error)
    assert "epsilon = 1 (pure)" in str(error)
    assert '"test"' in str(error)


def test_a_lost_release_in_a_zcdp_account_names_both_prices() -> None:
    with pytest.raises(ReleaseLost, match="failed") as caught:
        release(free_door(ZCDP), zcdp(0.5), lambda _: 1 / 0)
    assert "rho = 0.5" in caught.value.spent


def test_a_lost_release_is_not_replayed() -> None:
    door = exact_door()
    with pytest.raises(ReleaseLost):
        release(door, ONE, lambda _: 1 / 0, {"same": 1})
    assert not release(door, ONE, one_sum, {"same": 1}).replayed
    assert door.account.calls.count("reserve") == 2


def test_releasing_nothing_is_an_error() -> None:
    lost(lambda _: None)


def test_nothing_leaves_for_a_price_of_nothing() -> None:
    """A gate without a price is shut, to rows too (`PrivateTable._reading`); what is left is a receipt, which is
    answered again.
    """
    door, nothing = exact_door(), pure(1) * 0
    for body in (
        lambda gate: gate.noisy_counts("count", [5], nothing),
        lambda gate: gate.select("best", [5, 0], ScoreRange(REPLACE_ONE, -1, 1), nothing),
        lambda gate: gate.query_loop("loop", nothing).ask([5], BOUND, nothing),
    ):
        with pytest.raises(ReleaseLost):
            release(door, nothing, body)
    opened = list[bool]()
    receipt = release(door, nothing, lambda gate: opened.append(gate.is_open), {"free": 1})
    assert (receipt.payload, receipt.entry.charged, opened) == ({"parts": {}}, nothing, [False])
    assert release(door, nothing, lambda _: pytest.fail("computed again"), {"free": 1}).replayed


def test_a_ledger_that_is_gone_at_the_end_is_reported_as_such() -> None:
    class Gone(FreeAccount):
        def commit(self, *_: Any) -> Any:
            raise LedgerUnavailable("the ledger is gone", spent="It stays spent.")

    with pytest.raises(LedgerUnavailable):
        release(Door(Gone()), ONE, one_sum)


# --- the gate -----------------------------------------------------------------------------------------------------


def test_overspending_is_refused() -> None:
    def body(gate: Gate) -> None:
        for i in range(11):
            gate.noisy_sum(f"sum {i}", [1], BOUND, TENTH)

    assert "more than was reserved" in str(refusal(body))


def test_ten_tenths_fit() -> None:
    def body(gate: Gate) -> None:
        for i in range(10):
            gate.noisy_sum(f"sum {i}", [i], BOUND, TENTH)
        assert gate.left == ONE * 0

    assert len(release(exact_door(), ONE, body).payload["parts"]) == 10


def test_a_refused_release_lets_nothing_out_even_if_the_body_goes_on() -> None:
    def body(gate: Gate) -> None:
        gate.noisy_sum("first", [1], BOUND, ONE)
        with pytest.raises(InternalError):
            gate.noisy_sum("second", [2], BOUND, TENTH)

    assert set(release(exact_door(), ONE, body).payload["parts"]) == {"first"}


def test_two_parts_of_one_name_are_refused() -> None:
    def body(gate: Gate) -> None:
        gate.noisy_sum("sum", [1], BOUND, TENTH)
        gate.noisy_sum("sum", [2], BOUND, TENTH)

    assert "released twice" in str(refusal(body))


@pytest.mark.parametrize("fails", [False, True])
def test_a_closed_gate_stays_closed(fails: bool) -> None:
    kept: list[Gate] = []

    def body(gate: Gate) -> None:
        kept.append(gate)
        one_sum(gate)
        if fails:
            raise RuntimeError

    if fails:
        lost(body)
    else:
        release(exact_door(), ONE * 2, body)
    assert not kept[0].is_open
    with pytest.raises(InternalError, match="closed"):
        kept[0].noisy_sum("late", [1], BOUND, TENTH)


@pytest.mark.parametrize("relation", list(Relation))
def test_a_bound_for_other_neighbours_is_refused(relation: Relation) -> None:
    other = ADD_REMOVE if relation is Relation.REPLACE_ONE else REPLACE_ONE
    foreign = Sensitivity.of_counts(other)
    door = exact_door(relation=relation)
    assert "was used for" in str(refusal(lambda gate: gate.noisy_sum("sum", [1], foreign, ONE), door))
    assert "was used for" in str(refusal(lambda gate: gate.select("best", [1], ScoreRange(other, 0, 1), ONE), door))
    with_unit = exact_door(relation=relation, unit=Unit("person", 2))
    same_relation = Sensitivity.of_counts(door.account.neighbours)
    assert "was used for" in str(refusal(lambda gate: gate.noisy_sum("sum", [1], same_relation, ONE), with_unit))


def test_a_price_of_another_definition_is_refused() -> None:
    assert "mixed" in str(refusal(lambda gate: gate.noisy_sum("sum", [1], BOUND, zcdp(1))))


@pytest.mark.parametrize("k", [0, 3, -1])
def test_as_many_choices_as_candidates(k: int) -> None:
    change = ScoreRange(REPLACE_ONE, 0, 1)
    assert "candidates were asked for" in str(refusal(lambda gate: gate.select("best", [1, 2], change, ONE, k=k)))


def test_an_unknown_mechanism_loses_the_release() -> None:
    """So callers forecast first: `best` raises the same InputError without a ledger."""
    lost(lambda gate: gate.noisy_sum("sum", [1], BOUND, ONE, mechanism="magic"))


def test_counts_take_the_bound_of_the_relation() -> None:
    scales = {}
    for relation in Relation:
        part = release(
            free_door(relation=relation), ONE, lambda gate: gate.noisy_counts("n", np.array([5, 7]), ONE)
        ).payload["parts"]["n"]
        scales[relation] = Fraction(part["noise"]["scale"])
    assert scales[Relation.REPLACE_ONE] == 2 * scales[Relation.ADD_REMOVE]
    assert released(exact_door(), ONE, lambda gate: gate.noisy_counts("n", [5, 7], ONE, partitions=2)) == [5, 7]


def test_select_gives_the_best_first() -> None:
    change = ScoreRange(REPLACE_ONE, -1, 1)
    assert released(exact_door(), ONE, lambda gate: gate.select("best", [1, 9, 4], change, ONE, k=2)) == [1, 2]
    for budget, cost in ((PURE, ONE), (ZCDP, zcdp(0.5))):
        part = release(free_door(budget), cost, lambda gate: gate.select("best", [1, 9], change, gate.cost))
        assert Fraction(part.payload["parts"]["best"]["scale"]) > 0
        assert part.payload["parts"]["best"]["values"][0] in (0, 1)


def test_selections_over_disjoint_rows_are_one_price() -> None:
    change = ScoreRange(REPLACE_ONE, -2, 2)
    scores = [[1, 9, 4], [5, 0]]
    body = lambda gate: gate.select_each("each", scores, change, ONE)  # noqa: E731
    assert released(exact_door(), ONE, body) == [[1], [0]]
    for budget, cost in ((PURE, ONE), (ZCDP, zcdp(0.5))):
        whole = release(free_door(budget), cost, lambda gate: gate.select_each("each", scores, change, gate.cost))
        single = release(free_door(budget), cost, lambda gate: gate.select("one", scores[0], change, gate.cost))
        parts = whole.payload["parts"]["each"], single.payload["parts"]["one"]
        assert parts[0]["scale"] == parts[1]["scale"]  # the scale of one selection with the whole range
        assert parts[0]["cost"] == cost.to_json()
    assert "candidates were asked for" in str(refusal(lambda gate: gate.select_each("each", [[1], []], change, ONE)))


# --- what is charged ----------------------------------------------------------------------------------------------


def test_what_was_reserved_is_charged_even_if_less_was_used() -> None:
    """A smaller charge would tell that the body skipped a release because of rows."""
    result = release(exact_door(), ONE, lambda gate: gate.noisy_sum("sum", [1], BOUND, TENTH))
    assert result.entry.charged == ONE


def test_a_query_loop_is_charged_for_what_it_asked() -> None:
    def body(gate: Gate) -> None:
        loop = gate.query_loop("question", ONE)
        assert loop.affords(ONE)
        assert loop.ask([1], BOUND, TENTH) == [1]
        assert loop.ask([2], BOUND, TENTH, mechanism="cube") == [2]
        assert loop.affords(TENTH * 8)
        assert not loop.affords(TENTH * 9)
        assert loop.asked == 2

    result = release(exact_door(), ONE, body)
    assert set(result.payload["parts"]) == {"question-1", "question-2"}
    assert result.entry.charged == TENTH * 2


def test_a_query_loop_cannot_overspend() -> None:
    def body(gate: Gate) -> None:
        loop = gate.query_loop("question", ONE)
        while True:
            loop.ask([1], BOUND, pure(0.4))

    assert "more than the loop has left" in str(refusal(body))


def test_a_query_loop_gives_back_only_its_own_price() -> None:
    def body(gate: Gate) -> None:
        gate.query_loop("question", TENTH * 4).ask([1], BOUND, TENTH)  # the other six tenths stay charged

    result = release(exact_door(), ONE, body)
    assert result.entry.charged == TENTH * 7


def test_query_loops_cannot_take_more_than_was_reserved() -> None:
    def body(gate: Gate) -> None:
        gate.query_loop("one", TENTH * 6)
        gate.query_loop("two", TENTH * 6)

    assert "more than was reserved" in str(refusal(body))


def test_a_price_splits_exactly() -> None:
    for share in (Fraction(1, 3), Fraction(0), Fraction(1)):
        a, b = split(ONE, share)
        assert a + b == ONE
    with pytest.raises(InternalError):
        split(ONE, Fraction(4, 3))


class Refusing(FreeAccount):
    """An account where another process commits something else while we compute."""

    def __init__(self, payload: JsonObject) -> None:
        super().__init__()
        self.payload = payload

    def commit(self, reservation: str, payload: JsonObject, charged: Cost) -> Entry:
        return super().commit(reservation, self.payload, charged)


RESUMABLE = {"resumable": True, "number": 1}


def fails(gate: Gate) -> None:
    one_sum(gate)
    raise ValueError("a secret row")


def test_a_resumable_body_that_failed_is_an_outcome_of_its_own() -> None:
    account = FreeAccount()
    door = Door(account, sampler=ZeroNoise())
    with pytest.raises(ReleaseLost, match="failed while") as heard:
        release(door, ONE, fails, RESUMABLE)
    assert "secret" not in "".join(traceback.format_exception(heard.value))
    assert account.calls == ["find", "reserve", "commit", "find"]
    (stored,) = account.stored.values()
    assert stored.payload == NOTHING
    assert stored.entry.charged == ONE
    assert not release(door, ONE, one_sum, RESUMABLE).replayed  # and nothing that could be answered again
    assert release(door, ONE, one_sum, RESUMABLE).replayed


def test_whoever_commits_first_decides_what_a_resumable_request_answers() -> None:
    theirs: JsonObject = {"parts": {"sum": {"values": [9, 9]}}}
    for body in (one_sum, fails):  # also where ours failed: one outcome
        found = release(Door(Refusing(theirs), sampler=ZeroNoise()), ONE, body, RESUMABLE)
        assert found.payload == theirs
    with pytest.raises(ReleaseLost):
        release(Door(Refusing(NOTHING), sampler=ZeroNoise()), ONE, one_sum, RESUMABLE)


def test_only_a_request_that_says_so_is_resumable() -> None:
    for request in ({}, {"resumable": False}, {"resumable": "true"}, {"resumable": 1}):
        assert not Ask("", request, "", ONE).resumable
    account = FreeAccount()
    with pytest.raises(ReleaseLost):
        release(Door(account, sampler=ZeroNoise()), ONE, fails, {"number": 1})
    assert account.calls == ["find", "reserve"]
