"""Processes that die at random points lose nothing that was committed, and get nothing back that was reserved."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from tests.e2e import fault_driver

from dpexplain.core.account import Ask
from dpexplain.core.budget import pure
from dpexplain.ledger import Ledger, open_ledger
from ledger_servers import drop_triggers, execute


@pytest.mark.posix
@pytest.mark.long
def test_ten_kills(url: str) -> None:
    result = fault_driver.run_kills(url, kills=10, seed=2)
    assert result["kills"] == 10
    assert result["reservations"] >= result["reported reservations"] > 10
    assert result["commits"] >= result["reported commits"] > 5


class TestTheDriverNotices:
    """The checks of the driver, seen failing."""

    @pytest.fixture
    def ledger(self, tmp_path: Path) -> Ledger:
        return open_ledger(f"sqlite:///{tmp_path}/budget.db")

    def test_a_lost_reservation(self, ledger: Ledger) -> None:
        fault_driver.check(ledger, {}, {})
        with pytest.raises(AssertionError):
            fault_driver.check(ledger, {"r": Fraction(1)}, {})
        account = fault_driver.open_account(ledger)
        kept = account.reserve(Ask("kept", {}, "q", pure(1)))
        fault_driver.check(ledger, {kept: Fraction(1)}, {})
        with pytest.raises(KeyError):
            fault_driver.check(ledger, {kept: Fraction(1), "r": Fraction(1)}, {})
        with pytest.raises(AssertionError):
            fault_driver.check(ledger, {kept: Fraction(2)}, {})

    def test_a_lost_or_changed_commit(self, ledger: Ledger, tmp_path: Path) -> None:
        account = fault_driver.open_account(ledger)
        reservation = account.reserve(Ask("kept", {}, "q", pure(1)))
        with pytest.raises(AssertionError):
            fault_driver.check(ledger, {}, {reservation: (4, "0" * 64)})
        entry = account.commit(reservation, {"v": 1}, pure(1))
        fault_driver.check(ledger, {}, {reservation: (4, entry.event_hash)})
        with pytest.raises(Exception, match="not that of the anchor"):
            fault_driver.check(ledger, {}, {reservation: (4, "0" * 64)})
        drop_triggers(f"sqlite:///{tmp_path}/budget.db")
        execute(f"sqlite:///{tmp_path}/budget.db", "DELETE FROM releases")
        with pytest.raises(Exception, match="not those that were committed"):
            fault_driver.check(ledger, {}, {reservation: (4, entry.event_hash)})

    def test_a_worker_that_ends_by_itself(self) -> None:
        with pytest.raises(AssertionError, match="ended by itself"):
            fault_driver.run_kills("postgresql://127.0.0.1:1/nobody", kills=1, seed=1)
