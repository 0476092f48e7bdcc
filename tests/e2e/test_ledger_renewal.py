"""Closing an account against processes that die in the middle of it, and against processes that reserve meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpexplain.core.account import Ask
from dpexplain.core.budget import Budget, pure
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.errors import BudgetError, LedgerCorrupt
from dpexplain.ledger import Ledger, LedgerAccount, open_ledger
from dpexplain.ledger.chain import Chain
from dpexplain.ledger.events import AccountClosed, AccountOpened

SPENDERS, BEFORE = 3, 5


def open_account(ledger: Ledger, name: str = "people") -> LedgerAccount:
    neighbours = Neighbours(Relation.REPLACE_ONE)
    return ledger.account(name, budget=Budget(10**9), neighbours=neighbours, table_version="1", domain_digest="d")


def renew(ledger: Ledger, number: int = 1) -> None:
    before = f"people-{number - 1}" if number > 1 else "people"
    said = {"people": f"people of year {number}", "overlapping": False, "signed_by": "Ada", "reason": "a new year"}
    ledger.renew(before, f"people-{number}", **said)


def check_line(ledger: Ledger) -> None:
    """Exactly the last account of the line is open, and it has its budget."""
    ledger.verify()
    line = ledger.line("people")
    assert [one.name for one in line] == ledger.accounts()
    assert [one.closing is None for one in line] == [False] * (len(line) - 1) + [True]
    assert line[-1].left.amount > 0


def work(url: str, kind: str) -> None:
    """Renew twice; the second time die by SIGKILL as soon as the event of this kind is written."""
    whole, seen = Chain.append, []

    def append(chain: Chain, account: str, event: Any, at: str | None = None) -> Any:
        record = whole(chain, account, event, at)
        seen.append(event.kind)
        if seen.count(kind) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return record

    Chain.append = append  # type: ignore[method-assign]
    ledger = open_ledger(url)
    renew(ledger, 1)
    print("renewed", flush=True)
    renew(ledger, 2)


@pytest.mark.posix
@pytest.mark.parametrize("kind", [AccountClosed.kind, AccountOpened.kind])
def test_a_process_that_dies_between_closing_and_opening_has_done_neither(url: str, kind: str) -> None:
    ledger = open_ledger(url)
    open_account(ledger)
    died = subprocess.run([sys.executable, __file__, url, kind], capture_output=True, text=True, check=False)
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, "renewed\n"), died.stderr
    assert ledger.accounts() == ["people", "people-1"]
    check_line(ledger)
    open_account(ledger, "people-1").reserve(Ask("goes on", {}, "q", pure(1)))
    renew(ledger, 2)
    check_line(ledger)


def test_the_check_notices_a_renewal_in_two_transactions(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "budget.db")
    open_account(ledger)
    check_line(ledger)
    with ledger.database.write() as connection:
        Chain(connection).append("people", AccountClosed("Eve", "then she died", "people-1"))
    with pytest.raises(LedgerCorrupt, match="contradict each other"):
        check_line(ledger)


def spend(url: str, number: int, start: Any, results: Any) -> None:
    """Reserve until the account is closed; the budget is too large to be spent."""
    account = open_account(open_ledger(url))
    start.wait(timeout=300)
    reserved = []
    while True:
        try:
            reserved.append(account.reserve(Ask("race", {}, f"{number}", pure(1))))
        except BudgetError as error:
            results.put((reserved, error.message))
            return
        if len(reserved) == BEFORE:
            start.wait(timeout=300)  # the account is closed while everybody is reserving


def test_nothing_is_reserved_after_the_closing(url: str) -> None:
    """Every spender ends because the account is closed, and what they were promised is what the ledger counts."""
    ledger = open_ledger(url)
    open_account(ledger)
    spawn = multiprocessing.get_context("spawn")
    start, results = spawn.Barrier(SPENDERS + 1), spawn.Queue()
    spenders = [spawn.Process(target=spend, args=(url, n, start, results), daemon=True) for n in range(SPENDERS)]
    for spender in spenders:
        spender.start()
    start.wait(timeout=300)
    start.wait(timeout=300)
    renew(ledger)
    ends = [results.get(timeout=300) for _ in spenders]
    for spender in spenders:
        spender.join()
    assert [message.split(",")[0] for _, message in ends] == ['account "people" is closed'] * SPENDERS
    reported = sorted(reservation for reserved, _ in ends for reservation in reserved)
    closed = ledger.statement("people")
    assert sorted(row.reservation for row in closed.rows) == reported
    assert len(reported) >= SPENDERS * BEFORE
    assert closed.spent == pure(len(reported))
    check_line(ledger)
    assert ledger.statement("people-1").left == pure(10**9)
    results.close()


if __name__ == "__main__":
    work(*sys.argv[1:])
