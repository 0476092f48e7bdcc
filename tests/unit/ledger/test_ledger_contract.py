"""What every ledger promises, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpexplain.core.account import NOTHING, Account, Ask
from dpexplain.core.budget import Budget, Cost, Definition, pure, zcdp
from dpexplain.core.canonical import digest
from dpexplain.core.sensitivity import Neighbours, Relation, Unit
from dpexplain.errors import (
    BudgetError,
    InputError,
    InternalError,
    LedgerCorrupt,
    LedgerError,
    LedgerTooNew,
    ReleaseLost,
    VerificationError,
)
from dpexplain.ledger import (
    FAILED,
    LOST,
    RELEASED,
    AnalystLine,
    Ledger,
    LedgerAccount,
    Verification,
    chain,
    open_ledger,
)
from dpexplain.ledger.database import events
from dpexplain.ledger.events import AccountOpened, AnalystLimited, Committed, Reserved, TableDeclared
from ledger_servers import append, append_later_kind, drop_triggers, execute, make_ask, new_url, open_adult

ONE_ROW = Neighbours(Relation.REPLACE_ONE)
PAYLOAD = {"sums": [3, 1, 2], "text": "é \u0000", "half": 0.5}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """On both databases, also in the short ring."""
    return new_url(request, tmp_path)


class TestSpending:
    def test_the_protocol_of_the_door(self, adult: LedgerAccount) -> None:
        account: Account = adult
        assert (account.name, account.budget, account.neighbours) == ("adult", Budget(2), ONE_ROW)
        assert "Database" not in repr(account)

    def test_reserve_commit_find(self, ledger: Ledger, adult: LedgerAccount) -> None:
        ask = make_ask(0.5)
        assert adult.find(ask.request_id) is None
        reservation = adult.reserve(ask)
        assert adult.find(ask.request_id) is None
        entry = adult.commit(reservation, PAYLOAD, pure(0.3))
        assert (entry.account, entry.reservation, entry.sequence) == ("adult", reservation, 4)
        assert (entry.payload_hash, entry.charged) == (digest(PAYLOAD), pure(0.3))
        stored = adult.find(ask.request_id)
        assert stored is not None
        assert stored.payload == PAYLOAD
        assert stored.entry == entry
        assert ledger.anchor() == f"4:{entry.event_hash}"
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", entry.committed_at)

    def test_find_gives_the_latest_of_the_same_request_in_the_same_account(self, ledger: Ledger) -> None:
        adult = open_adult(ledger)
        wanted = [adult.reserve(make_ask(0.1)) for _ in range(2)]
        other = adult.reserve(make_ask(0.1, "partial dependence of sex"))
        for number, reservation in enumerate((*wanted, other)):
            adult.commit(reservation, {"number": number}, pure(0.1))
        stored = adult.find(make_ask(0.1).request_id)
        assert stored is not None
        assert stored.payload == {"number": 1}
        elsewhere = ledger.account("other", budget=Budget(1), neighbours=ONE_ROW, table_version="1", domain_digest="d")
        assert elsewhere.find(make_ask(0.1).request_id) is None

    def test_find_is_not_misled_by_an_id_quoted_elsewhere(self, ledger: Ledger, adult: LedgerAccount) -> None:
        inner = make_ask(0.1, "inner")
        outer = dataclasses.replace(make_ask(0.1, "outer"), request={"about": inner.request_id})
        reservation = adult.reserve(outer)
        adult.commit(reservation, {"outer": True}, pure(0.1))
        assert adult.find(inner.request_id) is None
        assert adult.find(reservation) is None
        assert adult.find(outer.request_id) is not None
        append(ledger, "adult", Committed(adult.reserve(outer), inner.request_id, "0" * 64, pure(0.1)))
        assert adult.find(inner.request_id) is None  # a release for another request does not answer this one

    def test_ten_tenths_fit_in_one(self, ledger: Ledger) -> None:
        account = ledger.account("exact", budget=Budget(1.0), neighbours=ONE_ROW, table_version="1", domain_digest="d")
        for _ in range(10):
            account.reserve(make_ask(0.1))
        assert ledger.statement("exact").spent == pure(1)
        with pytest.raises(BudgetError, match="only 0 of 1 is left") as caught:
            account.reserve(make_ask(Cost(Definition.PURE, Fraction(1, 10**40))))
        assert caught.value.hint == "nothing is left to spend"

    def test_an_open_reservation_stays_spent_and_a_cheaper_commit_gives_back(
        self, ledger: Ledger, adult: LedgerAccount
    ) -> None:
        adult.reserve(make_ask(1))
        assert ledger.statement("adult").left == pure(1)
        adult.commit(adult.reserve(make_ask(1)), {}, pure(0.25))
        statement = ledger.statement("adult")
        assert (statement.spent, statement.left) == (pure(1.25), pure(0.75))
        assert [(row.status, row.cost, row.charged) for row in statement.rows] == [
            (LOST, pure(1), pure(1)),
            (RELEASED, pure(1), pure(0.25)),
        ]

    def test_too_dear(self, ledger: Ledger, adult: LedgerAccount) -> None:
        adult.reserve(make_ask(1.8))
        before = ledger.anchor()
        with pytest.raises(BudgetError) as caught:
            adult.reserve(make_ask(0.5))
        assert str(caught.value) == (
            '"partial dependence of age" costs epsilon=0.5 but only 0.2 of 2 is left in account "adult".\n'
            "Hint: use at most epsilon=0.2, or ask for fewer things\n"
            "Nothing was spent."
        )
        assert ledger.anchor() == before
        adult.reserve(make_ask(0.2))

    def test_amounts_in_the_error_are_rounded_to_the_safe_side(self, adult: LedgerAccount) -> None:
        adult.reserve(make_ask(1.4000001))  # leaves 0.5999999
        with pytest.raises(BudgetError, match=r"costs epsilon=0\.6 but only 0\.5999 of 2"):
            adult.reserve(make_ask(0.6))
        with pytest.raises(BudgetError, match=r"costs epsilon=0\.6001 but only 0\.5999 of 2"):
            adult.reserve(make_ask(0.60000001))

    def test_a_zcdp_account_speaks_of_rho_and_epsilon(self, ledger: Ledger) -> None:
        budget = Budget(1, 1e-6)
        account = ledger.account("zcdp", budget=budget, neighbours=ONE_ROW, table_version="1", domain_digest="d")
        account.commit(account.reserve(make_ask(zcdp(0.01))), {}, zcdp(0.01))
        with pytest.raises(BudgetError) as caught:
            account.reserve(make_ask(zcdp(0.02)))
        said = re.search(r"costs rho=0.02 \(epsilon=([\d.]+) on its own\) but only ([\d.]+) of", str(caught.value))
        hint = re.match(r"use at most epsilon=([\d.]+) \(rho=([\d.]+)\)", caught.value.hint)
        assert said
        assert hint
        assert float(said[1]) == pytest.approx(budget.epsilon_of(zcdp(0.02)), rel=1e-3)
        assert said[2] == hint[2]
        account.reserve(make_ask(budget.cost(epsilon=float(hint[1]))))  # the hint is true
        statement = ledger.statement("zcdp")
        assert statement.total == budget.total
        assert statement.spent is not None
        assert statement.spent_epsilon == budget.epsilon_of(statement.spent)
        assert statement.spent_epsilon <= 1

    def test_a_cost_of_another_definition_is_a_bug(self, adult: LedgerAccount) -> None:
        with pytest.raises(InternalError):
            adult.reserve(make_ask(zcdp(0.1)))

    def test_a_second_commit_is_harmless_only_if_it_is_the_same(self, ledger: Ledger, adult: LedgerAccount) -> None:
        reservation = adult.reserve(make_ask(0.5))
        entry = adult.commit(reservation, PAYLOAD, pure(0.5))
        assert adult.commit(reservation, PAYLOAD, pure(0.5)) == entry
        for payload, charged in (({"sums": [0]}, 0.5), (PAYLOAD, 0.4)):
            with pytest.raises(InternalError, match="second release"):
                adult.commit(reservation, payload, pure(charged))
        assert ledger.verify().releases == 1

    def test_an_unused_reservation_of_a_resumable_request_is_used_again(
        self, ledger: Ledger, adult: LedgerAccount
    ) -> None:
        """At no new price, and never twice; that nothing came of it is a commit like any other."""
        request = {"resumable": True}
        ask, other = (Ask("batch", {**request, "n": n}, f"batch-{n}", pure(0.4)) for n in (1, 2))
        first = adult.reserve(ask)
        assert adult.reserve(other) != adult.reserve(ask) == first
        assert ledger.statement("adult").spent == pure(0.8)
        entry = adult.commit(first, PAYLOAD, pure(0.3))
        assert adult.commit(first, NOTHING, pure(0.4)) == entry  # the first one counts
        assert adult.commit(first, {"sums": [0]}, pure(0.4)) == entry
        assert adult.reserve(ask) == first  # also where somebody looked before and reserves after: nobody pays twice
        assert ledger.statement("adult").spent == pure(0.7)
        stored = adult.find("batch-1")
        assert stored is not None
        assert stored.payload == PAYLOAD
        failed = adult.reserve(other)
        assert adult.commit(failed, NOTHING, pure(0.4)).sequence > entry.sequence
        assert [row.status for row in ledger.statement("adult").rows] == [RELEASED, FAILED]
        assert adult.reserve(other) != failed  # used, so another one is paid for
        assert ledger.statement("adult").spent == pure(1.1)
        ledger.verify()

    def test_a_closed_account_is_not_gone_on_with(self, ledger: Ledger, adult: LedgerAccount) -> None:
        ask = Ask("batch", {"resumable": True}, "batch", pure(0.4))
        adult.reserve(ask)
        ledger.record_non_private("adult", "a mistake")
        with pytest.raises(BudgetError, match="closed"):
            adult.reserve(ask)

    def test_a_commit_needs_its_reservation(self, ledger: Ledger, adult: LedgerAccount) -> None:
        reservation = adult.reserve(make_ask(0.5))
        other = ledger.account("other", budget=Budget(1), neighbours=ONE_ROW, table_version="1", domain_digest="d")
        for account, wrong in ((adult, "nonsense"), (other, reservation)):
            with pytest.raises(InternalError, match="without a reservation"):
                account.commit(wrong, {}, pure(0.5))
        with pytest.raises(InternalError, match="charged more than was reserved"):
            adult.commit(reservation, {}, pure(0.6))
        assert ledger.statement("adult").rows[0].status == LOST

    def test_what_could_not_be_read_again_is_not_written(self, ledger: Ledger, adult: LedgerAccount) -> None:
        """An exact price of thousands of digits, as code of ours could make one."""
        before = ledger.anchor()
        for digits in (4300, 5000):
            amount = Fraction(1, 10**digits) + Fraction(1, 3)
            for ask in (make_ask(Cost(Definition.PURE, amount)), replace(make_ask(0.1), request={"a": (1,)})):
                with pytest.raises(InternalError, match='"reserved" would not be read as it was written'):
                    adult.reserve(ask)
        assert ledger.anchor() == before
        adult.reserve(make_ask(0.1))

    def test_an_account_with_a_long_price_opens(self, ledger: Ledger, adult: LedgerAccount) -> None:
        """Earlier versions wrote prices that they could not read again."""
        long = Cost(Definition.PURE, Fraction(10**4100 + 1, 10**4101))
        append(ledger, "adult", Reserved("r", "q", "long", {}, long, None, "2026-11"))
        opened = open_adult(ledger)
        with pytest.raises(BudgetError, match="is left"):
            opened.reserve(make_ask(1.9))
        opened.commit(opened.reserve(make_ask(1.8)), {}, pure(1.8))
        assert ledger.statement("adult").spent == long + pure(1.8)
        assert ledger.verify().releases == 1

    def test_an_account_with_a_long_budget_goes_on(self, ledger: Ledger) -> None:
        long = Budget.from_json({"epsilon": f"{10**4100 + 1}/{10**4100}", "delta": None})
        append(ledger, "adult", AccountOpened(long, ONE_ROW, Cost(Definition.PURE, long.epsilon)))
        opened = open_adult(ledger, budget=ledger.statement("adult").budget)
        opened.reserve(make_ask(1))
        assert ledger.statement("adult").left.amount == Fraction(1, 10**4100)


class TestStamps:
    """Durations may depend on rows (a model that fails on one of them, say), so no stamp tells one."""

    def test_stamps_are_dates_and_a_commit_has_that_of_its_reservation(
        self, ledger: Ledger, adult: LedgerAccount, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Clock(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Clock:
                return cls(2031, 1, moment, 23, 59, 59, 999_999, tzinfo=tz)

        monkeypatch.setattr(chain, "datetime", Clock)
        moment = 30
        early = adult.reserve(make_ask(0.1))
        moment = 31
        late = adult.reserve(make_ask(0.1))
        assert adult.commit(late, {}, pure(0.1)).committed_at == "2031-01-31"
        assert adult.commit(early, {}, pure(0.1)).committed_at == "2031-01-30"
        stamps = [at for (at,) in execute(url, "SELECT at FROM events ORDER BY seq")]
        assert stamps[2:] == ["2031-01-30", "2031-01-31", "2031-01-31", "2031-01-30"]
        assert [row.at for row in ledger.statement("adult").rows] == ["2031-01-30", "2031-01-31"]
        ledger.verify()


class TestAnalysts:
    def test_a_limit_of_ones_own(self, ledger: Ledger) -> None:
        ann, bob = open_adult(ledger, analyst="ann"), open_adult(ledger, analyst="bob")
        ann.reserve(make_ask(0.4))
        ledger.set_limit("adult", "ann", pure(0.5))
        with pytest.raises(BudgetError, match=r'only 0\.1 of 0\.5 is left for analyst "ann" in account "adult"'):
            ann.reserve(make_ask(0.2))
        ann.reserve(make_ask(0.1))
        bob.reserve(make_ask(1))
        ledger.set_limit("adult", "bob", pure(9))
        with pytest.raises(BudgetError, match=r'only 0\.5 of 2 is left in account "adult"'):
            bob.reserve(make_ask(0.6))
        ledger.set_limit("adult", "ann", pure(0.25))  # less than she spent
        with pytest.raises(BudgetError, match=r"only 0 of 0\.25"):
            ann.reserve(make_ask(0.1))
        open_adult(ledger).reserve(make_ask(0.5))
        ledger.set_limit("adult", "eve", pure(1))
        statement = ledger.statement("adult")
        assert statement.analysts == (
            AnalystLine("ann", pure(0.5), pure(0.25)),
            AnalystLine("bob", pure(1), pure(9)),
            AnalystLine("eve", Cost(Definition.PURE, Fraction(0)), pure(1)),
        )
        assert [row.analyst for row in statement.rows] == ["ann", "ann", "bob", None]
        assert ledger.verify().events == len(execute_all(ledger))

    @pytest.mark.usefixtures("adult")
    def test_wrong_limits(self, ledger: Ledger) -> None:
        before = ledger.anchor()
        with pytest.raises(InputError, match="counts epsilon, not rho"):
            ledger.set_limit("adult", "ann", zcdp(1))
        with pytest.raises(InputError, match='no account "adults"'):
            ledger.set_limit("adults", "ann", pure(1))
        with pytest.raises(InputError, match="name of the analyst"):
            ledger.set_limit("adult", "", pure(1))
        assert ledger.anchor() == before


def execute_all(ledger: Ledger) -> list[Any]:
    with ledger.database.read() as connection:
        return list(connection.execute(events.select()))


class TestAccounts:
    def test_opening_again_adds_nothing(self, ledger: Ledger, adult: LedgerAccount) -> None:
        before = ledger.anchor()
        assert open_adult(ledger) == adult
        assert ledger.anchor() == before
        assert before.startswith("2:")
        assert ledger.accounts() == ["adult"]

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"budget": Budget(3)}, ("epsilon=2 and", "epsilon=3 and")),
            ({"budget": Budget(2, 1e-6)}, ("epsilon=2 and", "epsilon=2, delta=1e-06 and")),
            ({"budget": Budget(2.000000001)}, ("epsilon=2 and", "epsilon=2.000000001 and")),
            (
                {"neighbours": Neighbours(Relation.ADD_REMOVE, Unit("id", 2))},
                ("one row replaced by other values;", "all rows of one id (at most 2) added or removed."),
            ),
        ],
    )
    def test_later_calls_must_agree(
        self, ledger: Ledger, adult: LedgerAccount, change: dict[str, Any], words: tuple[str, str]
    ) -> None:
        before = ledger.anchor()
        with pytest.raises(InputError) as caught:
            open_adult(ledger, **change)
        assert all(word in caught.value.message for word in words)
        assert caught.value.spent == "Nothing was spent."
        assert ledger.anchor() == before
        assert adult.budget == Budget(2)

    def test_one_version_has_one_domain(self, ledger: Ledger, adult: LedgerAccount) -> None:
        before = ledger.anchor()
        with pytest.raises(InputError, match="two tables under one name and version with different domains"):
            open_adult(ledger, domain_digest="d1")
        assert ledger.anchor() == before
        adult.reserve(make_ask(1.5))
        newer = open_adult(ledger, domain_digest="d1", table_version="2026-12")
        with pytest.raises(BudgetError, match=r"only 0\.5 of 2"):  # the same people, the same account
            newer.reserve(make_ask(1))
        newer.reserve(make_ask(0.5))
        assert [row.table_version for row in ledger.statement("adult").rows] == ["2026-11", "2026-12"]

    def test_another_process_was_quicker(self, ledger: Ledger, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        quicker = open_ledger(url)
        compute = Budget.total.fget  # type: ignore[attr-defined]  # computed between the look and the write

        def meanwhile(budget: Budget) -> Cost:
            monkeypatch.undo()
            open_adult(quicker)
            total: Cost = compute(budget)
            return total

        monkeypatch.setattr(Budget, "total", property(meanwhile))
        open_adult(ledger)
        assert ledger.anchor().startswith("2:")

    @pytest.mark.parametrize("name", ["", "  ", "a\x00b", "two\nlines", "\ud800", "x" * 201, None, 7])
    def test_names_are_printable(self, ledger: Ledger, name: Any) -> None:
        with pytest.raises(InputError, match="the name of the account"):
            ledger.account(name, budget=Budget(1), neighbours=ONE_ROW, table_version="1", domain_digest="d")
        with pytest.raises(InputError, match="the name of the version"):
            open_adult(ledger, table_version=name)

    def test_any_language_and_quotes(self, ledger: Ledger) -> None:
        name = "Köln 病院 'x' \"y\" %s 100%_"
        account = ledger.account(
            name, budget=Budget(1), neighbours=ONE_ROW, table_version=name, domain_digest="d", analyst=name
        )
        account.commit(account.reserve(make_ask(0.5, name)), {name: name}, pure(0.5))
        stored = account.find(make_ask(0.5, name).request_id)
        assert stored is not None
        assert stored.payload == {name: name}
        assert ledger.accounts() == [name]
        assert ledger.statement(name).rows[0].label == name
        ledger.verify()

    def test_a_statement_needs_an_account(self, ledger: Ledger) -> None:
        with pytest.raises(InputError, match='no account "nobody"'):
            ledger.statement("nobody")

    def test_everything_is_there_after_opening_again(self, ledger: Ledger, adult: LedgerAccount, url: str) -> None:
        adult.commit(adult.reserve(make_ask(0.5)), PAYLOAD, pure(0.5))
        again = open_ledger(url, create=False)
        assert again.statement("adult") == ledger.statement("adult")
        assert again.anchor() == ledger.anchor()
        again.close()  # holds nothing
        assert again.verify() == Verification(4, 1, 1, ledger.anchor(), ())
        assert again.name == ledger.name


class TestUnknownAndNonPrivate:
    @pytest.mark.parametrize("event", [("from-the-future", 1), ("committed", 3)])
    def test_an_unknown_event_stops_spending_but_not_reading(
        self, ledger: Ledger, adult: LedgerAccount, event: tuple[str, int]
    ) -> None:
        kind, version = event
        reservation = adult.reserve(make_ask(0.5))
        append_later_kind(ledger, "adult", version, kind)
        with pytest.raises(LedgerTooNew, match=f'unknown "{kind}" of version {version}') as caught:
            adult.reserve(make_ask(0.1))
        assert caught.value.hint == "update dpexplain"
        adult.commit(reservation, PAYLOAD, pure(0.5))  # was paid before
        assert adult.find(make_ask(0.5).request_id) is not None
        statement = ledger.statement("adult")
        assert (statement.spent, statement.spent_epsilon) == (None, None)
        assert statement.left.amount == 0
        assert len(statement.rows) == 1
        assert "unknown" in statement.notes[0]
        assert "unknown" in ledger.verify().notes[0]

    def test_other_accounts_go_on(self, ledger: Ledger, adult: LedgerAccount) -> None:
        append_later_kind(ledger, "other")
        adult.reserve(make_ask(0.1))
        assert ledger.accounts() == ["adult", "other"]
        with pytest.raises(LedgerTooNew):
            ledger.statement("other")
        with pytest.raises(LedgerTooNew):
            ledger.account("other", budget=Budget(1), neighbours=ONE_ROW, table_version="1", domain_digest="d")

    @pytest.mark.usefixtures("adult")
    def test_what_follows_an_unknown_event_is_not_judged(self, ledger: Ledger) -> None:
        append_later_kind(ledger, "other")
        append(ledger, "other", TableDeclared("1", "d"))  # opened by an event we cannot read
        append_later_kind(ledger, "adult")
        append(ledger, "adult", Reserved("r", "q", "dear", {}, pure(50), None, "1"))
        append(ledger, "adult", Committed("of-another-kind", "q", "0" * 64, pure(50)))
        with pytest.raises(LedgerCorrupt, match="values of reservation of-another-kind are missing"):
            ledger.verify()
        with ledger.database.write() as connection:
            connection.exec_driver_sql("INSERT INTO releases VALUES ('unexplained', '{}')")
        with pytest.raises(LedgerCorrupt, match="values of reservation of-another-kind are missing"):
            ledger.verify()
        assert ledger.statement("adult").rows[0].cost == pure(50)

    def test_released_without_privacy(self, ledger: Ledger, adult: LedgerAccount) -> None:
        adult.reserve(make_ask(0.5))
        ledger.record_non_private("adult", "the raw means were mailed")
        with pytest.raises(BudgetError, match=r"closed: .* without privacy: the raw means were mailed"):
            adult.reserve(make_ask(0.1))
        statement = ledger.statement("adult")
        assert (statement.spent, statement.spent_epsilon) == (None, math.inf)
        assert statement.left.amount == 0
        assert "without privacy" in statement.notes[0]
        assert ledger.verify().notes == (f'account "adult": {statement.notes[0]}',)
        with pytest.raises(InputError, match="no account"):
            ledger.record_non_private("adults", "?")


class TestVerification:
    def test_an_empty_ledger(self, ledger: Ledger) -> None:
        assert ledger.anchor() == "0:" + "0" * 64
        assert ledger.verify(ledger.anchor()) == Verification(0, 0, 0, "0:" + "0" * 64, ())

    def test_an_old_anchor_stays_true(self, ledger: Ledger, adult: LedgerAccount) -> None:
        anchors = [ledger.anchor()]
        for _ in range(3):
            adult.commit(adult.reserve(make_ask(0.1)), PAYLOAD, pure(0.1))
            anchors.append(ledger.anchor())
        for anchor in anchors:
            assert ledger.verify(anchor).events == 8
        assert ledger.verify().anchor == anchors[-1]

    @pytest.mark.parametrize("anchor", ["", "4", "x:" + "0" * 64, "1:" + "g" * 64, "1:00", "-1:" + "0" * 64])
    def test_what_is_not_an_anchor(self, ledger: Ledger, anchor: str) -> None:
        with pytest.raises(InputError, match="not an anchor"):
            ledger.verify(anchor)

    @pytest.mark.parametrize("table", ["events", "releases"])
    @pytest.mark.parametrize("verb", ["UPDATE {} SET {} = 'x'", "DELETE FROM {}", "TRUNCATE {}"])
    def test_the_database_refuses_to_change_the_past(
        self, ledger: Ledger, adult: LedgerAccount, url: str, table: str, verb: str
    ) -> None:
        adult.commit(adult.reserve(make_ask(0.5)), PAYLOAD, pure(0.5))
        if verb.startswith("TRUNCATE") and url.startswith("sqlite"):
            verb = "DELETE FROM {} WHERE 1"  # SQLite knows no TRUNCATE
        column = "body" if table == "events" else "payload"
        with pytest.raises(Exception, match="the ledger is append-only"):
            execute(url, verb.format(table, column))
        ledger.verify()

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ("UPDATE events SET body = replace(body, '1/2', '1/9') WHERE seq = 3", "chain breaks at event 3"),
            ("UPDATE events SET account = 'other' WHERE seq = 3", "chain breaks at event 3"),
            ("UPDATE events SET at = '2001' WHERE seq = 3", "chain breaks at event 3"),
            ("UPDATE events SET hash = prev_hash WHERE seq = 3", "chain breaks at event 3"),
            ("UPDATE events SET prev_hash = hash WHERE seq = 3", "chain breaks at event 3"),
            ("DELETE FROM events WHERE seq = 3", "chain breaks at event 4"),
            ("DELETE FROM events WHERE seq = 6", "head is not its last event, number 5"),
            ("DELETE FROM events", "head is not its last event, number 0"),
            ("DELETE FROM head", "head is not its last event"),
            ("UPDATE head SET seq = 5", "head is not its last event"),
            ("INSERT INTO head SELECT * FROM head", "head is not its last event"),
            ("UPDATE releases SET payload = '{}'", "not those that were committed"),
            ("DELETE FROM releases", "values of reservation [0-9a-f]+ are missing"),
            ("INSERT INTO releases VALUES ('x', '{}')", "never committed"),
        ],
    )
    def test_tampering_is_found(
        self, ledger: Ledger, adult: LedgerAccount, url: str, change: str, complaint: str
    ) -> None:
        for _ in range(2):
            adult.commit(adult.reserve(make_ask(0.5)), PAYLOAD, pure(0.5))
        ledger.verify()
        drop_triggers(url)
        execute(url, change)
        with pytest.raises(LedgerCorrupt, match=complaint) as caught:
            ledger.verify()
        assert "anchor" in caught.value.hint

    @pytest.mark.parametrize("change", ["DELETE FROM events WHERE seq = 4", "UPDATE head SET seq = 1"])
    def test_no_spending_on_a_broken_head(self, ledger: Ledger, adult: LedgerAccount, url: str, change: str) -> None:
        reservation = adult.reserve(make_ask(0.5))
        adult.reserve(make_ask(0.5))
        drop_triggers(url)
        execute(url, change)
        with pytest.raises(LedgerCorrupt):
            adult.reserve(make_ask(0.1))
        with pytest.raises(LedgerCorrupt):
            ledger.anchor()
        with pytest.raises(ReleaseLost, match="could not be recorded: the ledger was changed") as caught:
            adult.commit(reservation, PAYLOAD, pure(0.5))
        assert caught.value.spent == "What was reserved stays spent, and no value was released."

    def test_a_swapped_payload_is_not_given_out(self, adult: LedgerAccount, url: str) -> None:
        adult.commit(adult.reserve(make_ask(0.5)), PAYLOAD, pure(0.5))
        drop_triggers(url)
        execute(url, "UPDATE releases SET payload = '{}'")
        with pytest.raises(LedgerCorrupt, match="not those that were committed"):
            adult.find(make_ask(0.5).request_id)

    def test_a_cut_tail_needs_the_anchor(self, ledger: Ledger, adult: LedgerAccount, url: str) -> None:
        adult.reserve(make_ask(0.5))
        early = ledger.anchor()
        adult.reserve(make_ask(0.5))
        late = ledger.anchor()
        drop_triggers(url)
        seq, value = early.split(":")
        execute(url, "DELETE FROM events WHERE seq = 4", f"UPDATE head SET seq = {seq}, hash = '{value}'")
        assert ledger.verify(early).events == 3  # a careful cut leaves no trace inside
        with pytest.raises(LedgerCorrupt, match="ends at event 3, before event 4 of the anchor"):
            ledger.verify(late)
        adult.reserve(make_ask(0.25))  # life goes on over the cut
        with pytest.raises(LedgerCorrupt, match="event 4 is not that of the anchor"):
            ledger.verify(late)

    @pytest.mark.parametrize(
        ("event", "complaint"),
        [
            (AccountOpened(Budget(2), ONE_ROW, pure(2)), "event 5 .* opens the account wrongly"),
            (TableDeclared("2026-11", "d1"), "event 5 .* gives a table a second domain"),
            (AnalystLimited("ann", zcdp(1)), "event 5 .* counts in another definition"),
            (Reserved("x", "q", "dear", {}, pure(1.6), None, "1"), "event 5 .* reserves more than is left"),
            (Reserved("x", "q", "mixed", {}, zcdp(0.1), None, "1"), "event 5 .* counts in another definition"),
            (Reserved("r", "q", "twice", {}, pure(0.1), None, "1"), "event 5 .* reserves more than is left"),
            (Reserved("x", "q", "ann's", {}, pure(0.2), "ann", "1"), "event 5 .* reserves more than is left"),
            (Committed("x", "q", "0" * 64, pure(0.1)), "event 5 .* releases what was not reserved"),
            (Committed("r", "p", "0" * 64, pure(0.1)), "event 5 .* releases what was not reserved"),
            (Committed("r", "q", "0" * 64, pure(0.6)), "event 5 .* charges more than was reserved"),
            (Reserved("x", "q", "less", {}, pure(0.1), None, "1", ((None, "1/2"),)), "event 5 .* has other totals"),
            (Committed("r", "q", "0" * 64, pure(0.1), (("ann", "1/10"),)), "event 5 .* has other totals"),
        ],
    )
    def test_contradictions_in_a_sound_chain(self, url: str, event: Any, complaint: str) -> None:
        ledger = open_ledger(url)
        open_adult(ledger)
        append(ledger, "adult", AnalystLimited("ann", pure(0.1)))
        append(ledger, "adult", Reserved("r", "q", "fine", {}, pure(0.5), None, "1"))
        ledger.verify()
        append(ledger, "adult", event)
        for use in (ledger.verify, lambda: ledger.statement("adult")):
            with pytest.raises(LedgerCorrupt, match=complaint):
                use()

    def test_accounts_begin_with_their_opening(self, ledger: Ledger) -> None:
        append(ledger, "adult", TableDeclared("1", "d"))
        with pytest.raises(LedgerCorrupt, match="comes before the opening"):
            ledger.verify()

    def test_a_total_beyond_the_budget(self, ledger: Ledger) -> None:
        append(ledger, "adult", AccountOpened(Budget(2), ONE_ROW, pure(3)))
        with pytest.raises(LedgerCorrupt, match="opens the account wrongly"):
            ledger.verify()

    def test_an_event_that_cannot_be_read(self, ledger: Ledger, adult: LedgerAccount, url: str) -> None:
        drop_triggers(url)
        execute(url, "UPDATE events SET body = '{}' WHERE seq = 1")
        for use in (lambda: adult.reserve(make_ask(0.1)), lambda: ledger.statement("adult")):
            with pytest.raises(LedgerCorrupt, match='"account-opened" cannot be read'):
                use()


class TestPublished:
    def test_a_true_entry(self, ledger: Ledger, adult: LedgerAccount) -> None:
        entry = adult.commit(adult.reserve(make_ask(0.5)), PAYLOAD, pure(0.5))
        ledger.check_entry(entry, PAYLOAD)
        ledger.check_entry(entry, dict(reversed(PAYLOAD.items())), request_id=make_ask(0.5).request_id)

    def test_false_ones(self, ledger: Ledger, adult: LedgerAccount) -> None:
        reservation = adult.reserve(make_ask(0.5))
        entry = adult.commit(reservation, PAYLOAD, pure(0.5))
        with pytest.raises(VerificationError, match="values are not those"):
            ledger.check_entry(entry, {"sums": [3, 1, 1]})
        with pytest.raises(VerificationError, match="another request"):
            ledger.check_entry(entry, PAYLOAD, request_id="another")
        for change in (
            {"account": "other"},
            {"reservation": "0"},
            {"sequence": 3},
            {"sequence": 5},
            {"event_hash": "0" * 64},
            {"payload_hash": "0" * 64},
            {"committed_at": "2001-01-01T00:00:00.000000+00:00"},
            {"charged": pure(0.1)},
        ):
            with pytest.raises(VerificationError, match="is not in this ledger like this"):
                ledger.check_entry(dataclasses.replace(entry, **change), PAYLOAD)

    def test_a_damaged_ledger_proves_nothing(self, ledger: Ledger, adult: LedgerAccount, url: str) -> None:
        entry = adult.commit(adult.reserve(make_ask(0.5)), PAYLOAD, pure(0.5))
        drop_triggers(url)
        execute(url, "UPDATE releases SET payload = '{}'")
        with pytest.raises(LedgerCorrupt):
            ledger.check_entry(entry, PAYLOAD)
        execute(url, "UPDATE events SET prev_hash = hash WHERE seq = 4")
        with pytest.raises(LedgerCorrupt, match="does not have the hash"):
            ledger.check_entry(entry, PAYLOAD)


class TestOpening:
    def test_a_ledger_that_should_exist(self, url: str) -> None:
        with pytest.raises(LedgerError, match="does not exist") as caught:
            open_ledger(url, create=False)
        assert caught.value.spent == "Nothing was spent."

    @pytest.mark.usefixtures("ledger")
    def test_a_later_format(self, url: str) -> None:
        execute(url, "UPDATE meta SET value = '2'")
        with pytest.raises(LedgerTooNew, match="has format 2, and this dpexplain reads formats up to 1"):
            open_ledger(url)
        execute(url, "UPDATE meta SET value = 'two'")
        with pytest.raises(LedgerCorrupt, match="is not a dpexplain ledger"):
            open_ledger(url)

    def test_missing_tables(self, ledger: Ledger, adult: LedgerAccount, url: str) -> None:
        drop_triggers(url)
        execute(url, "DROP TABLE events")
        with pytest.raises(LedgerCorrupt, match="not readable as a dpexplain ledger"):
            adult.reserve(make_ask(0.1))
        with pytest.raises(LedgerCorrupt):
            ledger.verify()
