"""Kill a process that spends from a ledger, at random points, and look what is left.

`run_kills(url, kills, seed)` starts this file as a worker, which reserves and commits in a loop and prints a line after
each call that returned. It is killed with SIGKILL a random moment after a random line. Afterwards the ledger must open
and verify against the last anchor, hold everything that was reported as committed, and count everything that was
reported as reserved. Any breach raises an AssertionError; the numbers that are returned say how much was tried.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from fractions import Fraction

from dpexplain.core.account import Ask
from dpexplain.core.budget import Budget, Cost, Definition
from dpexplain.core.canonical import digest
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.errors import InputError
from dpexplain.ledger import LOST, RELEASED, Ledger, LedgerAccount, open_ledger

ACCOUNT = "faults"


def open_account(ledger: Ledger) -> LedgerAccount:
    return ledger.account(
        ACCOUNT,
        budget=Budget(10**9),
        neighbours=Neighbours(Relation.REPLACE_ONE),
        table_version="1",
        domain_digest="d",
    )


def work(url: str) -> None:
    """Spend until somebody kills us. Every line is a promise that the ledger has to keep."""
    print("started", flush=True)
    account = open_account(open_ledger(url))
    print("opened", flush=True)
    number = 0
    while True:
        number += 1
        cost = Cost(Definition.PURE, Fraction(1, 3 + number % 7))
        request = {"number": number}
        reservation = account.reserve(Ask(f"number {number}", request, digest(request), cost))
        print("reserved", reservation, cost.amount, flush=True)
        entry = account.commit(reservation, {"number": number, "fill": "x" * (number % 3 * 5000)}, cost)
        print("committed", reservation, entry.sequence, entry.event_hash, flush=True)


def run_kills(url: str, kills: int, seed: int) -> dict[str, int]:
    """Kill `kills` workers one after the other; raise AssertionError when the ledger breaks a promise."""
    chance = random.Random(seed)
    reserved: dict[str, Fraction] = {}
    committed: dict[str, tuple[int, str]] = {}
    anchor = None
    for _ in range(kills):
        for line in _killed_worker(url, lines=chance.randrange(1, 12), pause=chance.uniform(0, 0.02)):
            match line.split():
                case ["reserved", reservation, amount]:
                    reserved[reservation] = Fraction(amount)
                case ["committed", reservation, sequence, event_hash]:
                    committed[reservation] = int(sequence), event_hash
        ledger = open_ledger(url)
        anchor = ledger.verify(anchor).anchor
        check(ledger, reserved, committed)
    rows = ledger.statement(ACCOUNT).rows if reserved else ()
    return {
        "kills": kills,
        "reported reservations": len(reserved),
        "reported commits": len(committed),
        "reservations": len(rows),
        "commits": sum(row.status == RELEASED for row in rows),
        "spent without a release": sum(row.status == LOST for row in rows),
    }


def _killed_worker(url: str, *, lines: int, pause: float) -> list[str]:
    """The lines of a worker that was killed `pause` seconds after its line number `lines`."""
    with subprocess.Popen([sys.executable, __file__, url], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        seen = [worker.stdout.readline() for _ in range(lines)]
        time.sleep(pause)
        alive = "" not in seen and worker.poll() is None  # no line any more: it has ended, or is about to
        worker.kill()
        seen += worker.stdout.readlines()
    assert alive, "the worker ended by itself"
    return [line for line in seen if line.endswith("\n")]


def check(ledger: Ledger, reserved: dict[str, Fraction], committed: dict[str, tuple[int, str]]) -> None:
    """Everything that a worker reported must be in the ledger."""
    try:
        statement = ledger.statement(ACCOUNT)
    except InputError:  # killed before the account was opened
        assert not reserved
        return
    rows = {row.reservation: row for row in statement.rows}
    for reservation, amount in reserved.items():
        assert rows[reservation].charged.amount == amount
    for reservation, (sequence, _) in committed.items():
        assert (rows[reservation].status, rows[reservation].sequence) == (RELEASED, sequence)
    account = open_account(ledger)
    for request_id in {row.request_id for row in statement.rows if row.status == RELEASED}:
        assert account.find(request_id) is not None
    if committed:
        _, (sequence, event_hash) = max(committed.items(), key=lambda item: item[1])
        ledger.verify(f"{sequence}:{event_hash}")  # fixes the whole chain before it
    assert statement.spent is not None
    assert statement.spent.amount >= sum(reserved.values())
    assert statement.spent.amount == sum(row.charged.amount for row in statement.rows)


if __name__ == "__main__":
    work(sys.argv[1])
