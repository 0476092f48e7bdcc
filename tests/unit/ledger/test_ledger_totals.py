"""Spending goes on from the totals in the account's last event: nothing else of a long history is read."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dpexplain.core.account import Ask
from dpexplain.core.budget import Budget, pure
from dpexplain.core.canonical import digest
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.errors import BudgetError, LedgerCorrupt, LedgerTooNew
from dpexplain.ledger import Ledger, LedgerAccount, open_ledger, state
from dpexplain.ledger.chain import Record
from dpexplain.ledger.events import AnalystLimited, ModelDeclared, Reserved
from ledger_servers import append, append_later_kind, execute, make_ask

ONE_ROW = Neighbours(Relation.REPLACE_ONE)


def opened(ledger: Ledger, analyst: str | None = None, total: float = 100) -> LedgerAccount:
    return ledger.account(
        "adult", budget=Budget(total), neighbours=ONE_ROW, table_version="1", domain_digest="d", analyst=analyst
    )


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of events that were decoded."""
    kinds: list[str] = []
    original = Record.event

    def event(record: Record) -> object:
        kinds.append(record.kind)
        return original(record)

    monkeypatch.setattr(Record, "event", event)
    return kinds


def test_a_long_history_is_not_read_again(url: str, decoded: list[str]) -> None:
    account = opened(open_ledger(url))
    for number in range(30):
        account.commit(account.reserve(make_ask(0.5)), {"number": number}, pure(0.25))
        account.declare(f"model {number}", [1.0])
    decoded.clear()
    account.commit(account.reserve(make_ask(0.5)), {}, pure(0.5))
    # reserve: its own read-back, the last commit, the declarations; commit: the same, and what it is about
    assert len(decoded) <= 12
    decoded.clear()
    opened(open_ledger(url))
    assert len(decoded) <= 4
    assert "model-declared" not in decoded


def test_totals_count_analysts_and_limits(url: str) -> None:
    ledger = open_ledger(url)
    ann, nobody = opened(ledger, "ann"), opened(ledger)
    nobody.reserve(make_ask(1))
    ann.commit(ann.reserve(make_ask(3)), {}, pure(2))
    ledger.set_limit("adult", "ann", pure(2.5))
    append(ledger, "adult", ModelDeclared("m", [0.0]))  # the last event need not have totals
    with pytest.raises(BudgetError, match='0.5 of 2.5 is left for analyst "ann"'):
        ann.reserve(make_ask(0.75))
    ann.reserve(make_ask(0.5))
    assert ledger.statement("adult").spent == pure(Fraction(7, 2))
    ledger.verify()


def test_an_account_of_version_1_goes_on(url: str) -> None:
    """Its events say no totals: they are added up once more, and written down with the next price."""
    ledger = open_ledger(url)
    account = opened(ledger, total=1)
    append(ledger, "adult", Reserved("r", "q", "old", {}, pure(0.75), None, "1"))
    with pytest.raises(BudgetError, match="only 0.25 of 1 is left"):
        account.reserve(make_ask(0.5))
    account.reserve(make_ask(0.125))
    with pytest.raises(BudgetError, match="only 0.125 of 1 is left"):
        account.reserve(make_ask(0.5))
    ledger.verify()


def test_sums_too_long_to_be_written_are_replayed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "LONGEST", 5)
    ledger = open_ledger(url)
    account = opened(ledger, total=1)
    account.reserve(make_ask(Fraction(1, 3)))
    account.reserve(make_ask(Fraction(1, 1001)))
    with pytest.raises(BudgetError):
        account.reserve(make_ask(Fraction(2, 3)))
    assert ledger.statement("adult").spent == pure(Fraction(1, 3) + Fraction(1, 1001))
    ledger.verify()


def test_lower_totals_give_nothing_back_unseen(url: str) -> None:
    ledger = open_ledger(url)
    account = opened(ledger, total=1)
    account.reserve(make_ask(0.75))
    append(ledger, "adult", Reserved("x", "q", "forged", {}, pure(0.1), None, "1", ((None, "1/10"),)))
    with pytest.raises(LedgerCorrupt, match="has other totals than the events before it"):
        ledger.verify()


@pytest.mark.parametrize("kind", ["reserved", "from-the-future"])
def test_an_unknown_event_anywhere_stops_spending(url: str, kind: str) -> None:
    ledger = open_ledger(url)
    account = opened(ledger)
    account.reserve(make_ask(0.5))
    append_later_kind(ledger, "adult", 9, kind)
    append(ledger, "adult", Reserved("x", "q", "later", {}, pure(0.1), None, "1", ((None, "3/5"),)))
    append(ledger, "adult", AnalystLimited("ann", pure(1)))
    with pytest.raises(LedgerTooNew):
        account.reserve(make_ask(0.5))


def test_events_are_found_by_indexes(tmp_path: Path) -> None:
    """Without indexes all is the same, only slower; with them no look-up reads all events. PostgreSQL decides by its
    statistics; `bench ledger` measures both.
    """
    account = opened(open_ledger(tmp_path / "budget.db"))
    for field in ("request_id", "reservation", "identity"):
        with account.database.read() as connection:
            wanted = account.database.body_has(field, "x").compile(compile_kwargs={"literal_binds": True})
            query = f"SELECT * FROM events WHERE account = 'adult' AND {wanted}"
            plan = str(connection.exec_driver_sql("EXPLAIN QUERY PLAN " + query).all())
        assert f"USING INDEX events_of_{field}" in plan


def test_any_text_may_stand_in_a_request(url: str) -> None:
    """A null character, and half of a pair of surrogates: PostgreSQL cannot read them, and need not."""
    account = opened(open_ledger(url))
    for number, odd in enumerate(("a\x00b", "\ud800", '"request_id":"x"', "\\")):
        request = {"category": odd, "request_id": odd, "number": number}
        ask = Ask("odd", request, digest(request), pure(0.5))
        account.commit(account.reserve(ask), {"value": odd}, pure(0.5))
        assert account.find(ask.request_id).payload == {"value": odd}  # type: ignore[union-attr]
    opened(open_ledger(url))


def test_indexes_of_an_earlier_ledger_are_made_once(url: str) -> None:
    ledger = open_ledger(url)
    opened(ledger).commit(opened(ledger).reserve(make_ask(0.5)), {}, pure(0.5))
    ledger.close()
    names = ["kind", "request_id", "reservation", "identity"]
    execute(url, *(f"DROP INDEX events_of_{name}" for name in names))
    execute(url, "DELETE FROM meta WHERE key = 'dpexplain-ledger-indexes'")
    again = open_ledger(url)
    assert opened(again).find(make_ask(0.5).request_id) is not None
    for name in names:  # each is there again
        execute(url, f"DROP INDEX events_of_{name}")
    assert opened(open_ledger(url)).find(make_ask(0.5).request_id) is not None
