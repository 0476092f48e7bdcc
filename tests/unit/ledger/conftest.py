"""Fixtures: an empty database of each kind, and a ledger in it with one account of epsilon 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpexplain.ledger import Ledger, LedgerAccount, account, open_ledger
from ledger_servers import Server, open_adult, postgresql_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with postgresql_server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a ledger that does not exist yet, on each database in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/budget.db"
    running: Server = request.getfixturevalue("server")
    return running.new_database()


@pytest.fixture
def ledger(url: str) -> Ledger:
    return open_ledger(url)


@pytest.fixture
def adult(ledger: Ledger) -> LedgerAccount:
    return open_adult(ledger)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "BACKOFF", (0.0, 0.0, 0.0))
