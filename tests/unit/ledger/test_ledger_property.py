"""Random histories: a ledger equals ten lines of arithmetic, and is never overdrawn."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dpexplain.core.budget import Budget, Cost, Definition
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.errors import BudgetError
from dpexplain.ledger import open_ledger
from ledger_servers import make_ask
from rings import examples

AMOUNTS = st.fractions(min_value=Fraction(1, 100), max_value=Fraction(3, 2), max_denominator=100)
ANALYSTS = st.sampled_from([None, "ann", "bob"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), ANALYSTS, AMOUNTS),
        st.tuples(st.just("commit"), st.integers(0, 30), st.fractions(0, 1, max_denominator=7)),
        st.tuples(st.just("limit"), st.sampled_from(["ann", "bob"]), AMOUNTS),
    ),
    max_size=25,
)


def cost(amount: Fraction) -> Cost:
    return Cost(Definition.PURE, amount)


@settings(max_examples=examples(60), deadline=None)
@given(steps=STEPS, total=AMOUNTS)
def test_a_ledger_is_exact_arithmetic(steps: list[tuple[Any, ...]], total: Fraction) -> None:
    ledger = open_ledger("sqlite:///:memory:")
    accounts = {
        who: ledger.account(
            "people",
            budget=Budget(total),
            neighbours=Neighbours(Relation.REPLACE_ONE),
            table_version="1",
            domain_digest="d",
            analyst=who,
        )
        for who in (None, "ann", "bob")
    }
    spent: dict[str, tuple[str | None, Fraction]] = {}  # reservation -> analyst, amount
    open_ones: list[str] = []
    limits: dict[str | None, Fraction] = {}

    def sum_of(*people: str | None) -> Fraction:
        return sum((amount for who, amount in spent.values() if who in people), Fraction(0))

    for action, first, second in steps:
        if action == "limit":
            ledger.set_limit("people", first, cost(second))
            limits[first] = second
        elif action == "reserve":
            fits = sum_of(None, "ann", "bob") + second <= total
            fits = fits and (first not in limits or sum_of(first) + second <= limits[first])
            try:
                reservation = accounts[first].reserve(make_ask(cost(second)))
            except BudgetError:
                assert not fits
            else:
                assert fits
                spent[reservation] = first, second
                open_ones.append(reservation)
        elif open_ones:
            reservation = open_ones.pop(first % len(open_ones))
            who, reserved = spent[reservation]
            spent[reservation] = who, reserved * second
            accounts[who].commit(reservation, {"first": first}, cost(reserved * second))
        statement = ledger.statement("people")
        assert statement.spent == cost(sum_of(None, "ann", "bob"))
        assert statement.left == cost(total - statement.spent.amount)
        assert {line.analyst: line.spent.amount for line in statement.analysts} == {
            who: sum_of(who) for who in {w for w, _ in spent.values() if w} | set(limits)
        }
        assert {row.reservation: row.charged.amount for row in statement.rows} == {
            reservation: amount for reservation, (_, amount) in spent.items()
        }
    assert ledger.verify(ledger.anchor()).releases == len(spent) - len(open_ones)
    ledger.close()
