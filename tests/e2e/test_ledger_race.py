"""Eight processes race for the last budget: all of it is spent, and not a bit more."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from dpexplain.core.account import Ask
from dpexplain.core.budget import Budget, pure
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.errors import BudgetError
from dpexplain.ledger import RELEASED, open_ledger

PROCESSES, TOTAL, COST = 8, 2.0, 0.07  # 28 fit, and 0.04 is left


def race(url: str, start: Any, results: Any) -> None:
    """One racer: also the ledger and the account are made in the race."""
    start.wait(timeout=900)  # a busy machine takes its time to start eight of them
    account = open_ledger(url).account(
        "people",
        budget=Budget(TOTAL),
        neighbours=Neighbours(Relation.REPLACE_ONE),
        table_version="1",
        domain_digest="d",
    )
    won = 0
    while True:
        try:
            reservation = account.reserve(Ask("race", {}, "q", pure(COST)))
        except BudgetError:
            break
        account.commit(reservation, {"won": won}, pure(COST))
        won += 1
    results.put(won)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_nobody_overdraws(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path}/budget.db"
    else:
        url = request.getfixturevalue("server").new_database()
    spawn = multiprocessing.get_context("spawn")
    start, results = spawn.Barrier(PROCESSES), spawn.Queue()
    racers = [spawn.Process(target=race, args=(url, start, results)) for _ in range(PROCESSES)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0] * PROCESSES
    assert sum(results.get() for _ in racers) == 28
    ledger = open_ledger(url, create=False)
    verified = ledger.verify()
    assert (verified.events, verified.accounts, verified.releases) == (2 + 2 * 28, 1, 28)
    statement = ledger.statement("people")
    assert statement.left == pure(0.04)
    assert [row.status for row in statement.rows] == [RELEASED] * 28
    results.close()
