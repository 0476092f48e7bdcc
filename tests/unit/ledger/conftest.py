"""Fixtures: an empty database of each kind, and a ledger in it with one account of epsilon 2."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2]))

from ledger_servers import Server, postgresql_server  # noqa: E402  # after the path to it

from dpexplain.core.account import Ask  # noqa: E402
from dpexplain.core.budget import Budget, Cost, pure  # noqa: E402
from dpexplain.core.canonical import digest  # noqa: E402
from dpexplain.core.sensitivity import Neighbours, Relation  # noqa: E402
from dpexplain.ledger import Ledger, LedgerAccount, account, open_ledger  # noqa: E402


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with postgresql_server() as running:
        yield running


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/budget.db"


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


def open_adult(ledger: Ledger, **changes: Any) -> LedgerAccount:
    wanted: dict[str, Any] = {
        "budget": Budget(2),
        "neighbours": Neighbours(Relation.REPLACE_ONE),
        "table_version": "2026-11",
        "domain_digest": "d0",
    }
    return ledger.account("adult", **wanted | changes)


@pytest.fixture
def ask() -> Callable[..., Ask]:
    return make_ask


def make_ask(cost: Cost | float, label: str = "partial dependence of age") -> Ask:
    request = {"label": label}
    return Ask(label, request, digest(request), cost if isinstance(cost, Cost) else pure(cost))
