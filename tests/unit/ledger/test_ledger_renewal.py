"""Renewal: an account is closed for ever and its successor opened, in one step, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpexplain.core.budget import Budget, Cost, pure
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.errors import BudgetError, DpexplainError, InputError, InternalError, LedgerCorrupt, LedgerTooNew
from dpexplain.ledger import RELEASED, Ledger, LedgerAccount
from dpexplain.ledger.chain import Chain
from dpexplain.ledger.events import AccountClosed, AccountOpened, Reserved
from ledger_servers import append, append_later_kind, execute, make_ask, open_adult

ONE_ROW = Neighbours(Relation.REPLACE_ONE)
SIGNED: dict[str, Any] = {"people": "adults of 2027", "overlapping": False, "signed_by": "Ada", "reason": "a new year"}


def renew(ledger: Ledger, successor: str = "adult-2027", account: str = "adult", **changes: Any) -> None:
    ledger.renew(account, successor, **SIGNED | changes)


def successor_of(ledger: Ledger, name: str = "adult-2027") -> LedgerAccount:
    wanted = {"budget": Budget(2), "neighbours": ONE_ROW, "table_version": "2027-11", "domain_digest": "d0"}
    return ledger.account(name, **wanted)


class TestClosing:
    def test_nothing_is_reserved_any_more_by_anybody(self, ledger: Ledger, adult: LedgerAccount) -> None:
        adult.commit(adult.reserve(make_ask(0.5)), {"v": 1}, pure(0.5))
        renew(ledger)
        closed = r'account "adult" is closed, signed by Ada: a new year\.'
        for account in (adult, open_adult(ledger), open_adult(ledger, analyst="ann", table_version="2027-11")):
            with pytest.raises(BudgetError, match=closed) as caught:
                account.reserve(make_ask(0.1))
            assert 'successor is account "adult-2027"' in caught.value.hint
        statement = ledger.statement("adult")
        assert (statement.spent, statement.left) == (pure(0.5), Cost(pure(1).definition, pure(1).amount * 0))
        assert statement.closing == AccountClosed("Ada", "a new year", "adult-2027")
        assert len(statement.dates) == 2
        ledger.verify()

    def test_what_was_reserved_before_is_still_committed(self, ledger: Ledger, adult: LedgerAccount) -> None:
        under_way = adult.reserve(make_ask(0.5))
        renew(ledger)
        entry = adult.commit(under_way, {"v": 1}, pure(0.25))
        assert ledger.statement("adult").spent == pure(0.25)
        assert [row.status for row in ledger.statement("adult").rows] == [RELEASED]
        ledger.check_entry(entry, {"v": 1})
        ledger.verify()

    def test_its_releases_are_answered_again_but_not_by_the_successor(
        self, ledger: Ledger, adult: LedgerAccount
    ) -> None:
        ask = make_ask(0.5)
        adult.commit(adult.reserve(ask), {"v": 1}, pure(0.5))
        renew(ledger)
        stored = open_adult(ledger).find(ask.request_id)
        assert stored is not None
        assert stored.payload == {"v": 1}
        assert successor_of(ledger).find(ask.request_id) is None

    def test_owning_up_is_still_possible(self, ledger: Ledger, adult: LedgerAccount) -> None:
        renew(ledger)
        ledger.record_non_private("adult", "mailed")
        assert ledger.statement("adult").spent is None
        assert successor_of(ledger).reserve(make_ask(0.1))

    def test_an_earlier_dpexplain_stops_at_it(self, ledger: Ledger, adult: LedgerAccount) -> None:
        """It knows no such event: the total is unknown then, and nothing is reserved."""
        append_later_kind(ledger, "adult", kind="account-closed", version=2)
        with pytest.raises(LedgerTooNew):
            adult.reserve(make_ask(0.1))
        with pytest.raises(LedgerTooNew):
            renew(ledger)


class TestOpening:
    def test_the_successor_has_a_budget_of_its_own(self, ledger: Ledger, adult: LedgerAccount, url: str) -> None:
        adult.reserve(make_ask(2))
        renew(ledger, budget=Budget(3))
        events = execute(url, "SELECT account, kind, version FROM events ORDER BY seq")
        assert [tuple(event) for event in events[-2:]] == [
            ("adult", "account-closed", 1),
            ("adult-2027", "account-opened", 2),
        ]
        with pytest.raises(InputError, match="was opened with epsilon=3"):
            successor_of(ledger)
        account = ledger.account(
            "adult-2027", budget=Budget(3), neighbours=ONE_ROW, table_version="1", domain_digest="other"
        )
        assert account.line == {"after": ["adult"], "people": "adults of 2027", "overlapping": False}
        assert adult.line == {}
        account.reserve(make_ask(3))
        with pytest.raises(BudgetError, match="only 0 of 3 is left"):
            account.reserve(make_ask(0.1))
        ledger.verify()

    def test_relation_unit_and_delta_stay(self, ledger: Ledger) -> None:
        ledger.account(
            "z",
            budget=Budget(1, 1e-6),
            neighbours=Neighbours(Relation.ADD_REMOVE),
            table_version="1",
            domain_digest="d",
        )
        for budget in (Budget(1), Budget(1, 1e-5)):
            with pytest.raises(InputError, match="need the same delta, or both none"):
                renew(ledger, "z2", "z", budget=budget)
        renew(ledger, "z2", "z")
        before, after = ledger.line("z2")
        assert (after.neighbours, after.budget, after.total) == (before.neighbours, before.budget, before.total)

    def test_a_line_is_the_same_from_each_of_its_accounts(self, ledger: Ledger, adult: LedgerAccount) -> None:
        successor_of(ledger, "others")
        renew(ledger)
        renew(ledger, "adult-2028", "adult-2027", people="adults of 2028", overlapping=True)
        names = ["adult", "adult-2027", "adult-2028"]
        for name in names:
            assert [one.name for one in ledger.line(name)] == names
        assert [one.name for one in ledger.line("others")] == ["others"]
        assert ledger.line("adult")[-1].opening.predecessors == ("adult", "adult-2027")
        assert [one.opening.overlapping for one in ledger.line("adult")] == [False, False, True]
        with pytest.raises(InputError, match="has no account"):
            ledger.line("nobody")

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"account": "nobody"}, "has no account"),
            ({"successor": "adult"}, "is there already"),
            ({"successor": " Adult"}, "differs from .* only in blanks"),
            ({"successor": ""}, "the name of the account"),
            ({"people": "  "}, "the name of the people"),
            ({"signed_by": ""}, "the name of the signer"),
            ({"reason": "a\nb"}, "the name of the reason"),
            ({"people": "ADULT"}, "the same people get no fresh one"),
        ],
    )
    def test_what_is_refused_changes_nothing(
        self, ledger: Ledger, adult: LedgerAccount, changes: dict[str, Any], said: str
    ) -> None:
        before = ledger.anchor()
        with pytest.raises(InputError, match=said):
            renew(ledger, **changes)
        assert ledger.anchor() == before
        assert adult.reserve(make_ask(0.1))

    def test_no_account_is_renewed_twice_nor_after_something_was_not_private(
        self, ledger: Ledger, adult: LedgerAccount
    ) -> None:
        renew(ledger)
        with pytest.raises(BudgetError, match="is closed, signed by Ada"):
            renew(ledger, "adult-2028", people="adults of 2028")
        ledger.record_non_private("adult-2027", "mailed")
        with pytest.raises(BudgetError, match="was published without privacy"):
            renew(ledger, "adult-2028", "adult-2027", people="adults of 2028")
        assert ledger.accounts() == ["adult", "adult-2027"]

    def test_people_of_any_account_of_the_line_have_had_their_budget(
        self, ledger: Ledger, adult: LedgerAccount
    ) -> None:
        renew(ledger)
        renew(ledger, "adult-2028", "adult-2027", people="adults of 2028")
        with pytest.raises(InputError, match="the same people get no fresh one"):
            renew(ledger, "adult-2029", "adult-2028", people="Adults  of 2027")
        renew(ledger, "adult-2029", "adult-2028", people="adults of 2027", overlapping=True)

    def test_both_events_or_none(self, ledger: Ledger, adult: LedgerAccount, monkeypatch: pytest.MonkeyPatch) -> None:
        whole, before = Chain.append, ledger.anchor()

        def broken(chain: Chain, account: str, event: Any, at: str | None = None) -> Any:
            if isinstance(event, AccountOpened):
                raise InternalError("between closing and opening")
            return whole(chain, account, event, at)

        with monkeypatch.context() as patch, pytest.raises(InternalError):
            patch.setattr(Chain, "append", broken)
            renew(ledger)
        assert ledger.anchor() == before
        assert adult.reserve(make_ask(0.1))
        renew(ledger)


class TestVerification:
    """Well-sealed events that no renewal writes."""

    OPENED = AccountOpened(Budget(2), ONE_ROW, pure(2), ("adult",), "adults of 2027")

    def check(self, ledger: Ledger, said: str) -> None:
        with pytest.raises(LedgerCorrupt, match=said):
            ledger.verify()

    def test_a_reservation_after_the_closing(self, ledger: Ledger, adult: LedgerAccount) -> None:
        renew(ledger)
        append(ledger, "adult", Reserved("r", "q", "late", {}, pure(0.1) * 0, None, "1"))
        self.check(ledger, "reserves more than is left")

    def test_a_second_closing(self, ledger: Ledger, adult: LedgerAccount) -> None:
        renew(ledger)
        append(ledger, "adult", AccountClosed("Eve", "again", "adult-2028"))
        self.check(ledger, "closes the account a second time")

    @pytest.mark.parametrize(
        "opened",
        [
            None,
            replace(OPENED, predecessors=()),
            replace(OPENED, predecessors=("other",)),
            replace(OPENED, predecessors=("other", "adult")),
        ],
    )
    def test_a_closing_whose_successor_does_not_name_it(
        self, ledger: Ledger, adult: LedgerAccount, opened: AccountOpened | None
    ) -> None:
        append(ledger, "adult", AccountClosed("Eve", "a new year", "adult-2027"))
        if opened is not None:
            append(ledger, "adult-2027", opened)
        self.check(ledger, "contradict each other")

    @pytest.mark.parametrize("renewed", [False, True])
    def test_a_successor_of_an_account_that_does_not_name_it(
        self, ledger: Ledger, adult: LedgerAccount, renewed: bool
    ) -> None:
        if renewed:
            renew(ledger)
            ledger.verify()
        append(ledger, "a second one", self.OPENED)
        self.check(ledger, "contradict each other")

    def test_a_circle_ends(self, ledger: Ledger, adult: LedgerAccount) -> None:
        append(ledger, "adult", AccountClosed("Eve", "for ever", "adult"))
        assert [one.name for one in ledger.line("adult")] == ["adult"]
        self.check(ledger, "contradict each other")

    def test_an_unknown_event_leaves_lines_unjudged(self, ledger: Ledger, adult: LedgerAccount) -> None:
        append(ledger, "a second one", self.OPENED)
        append_later_kind(ledger, "adult")
        assert ledger.verify().notes
        with pytest.raises(DpexplainError):
            renew(ledger)
