"""Fixtures: an empty database of each kind, and a ledger in it with one account of epsilon 2."""

from __future__ import annotations

import pytest

from dpexplain.ledger import Ledger, LedgerAccount, account, open_ledger
from ledger_servers import open_adult


@pytest.fixture
def ledger(url: str) -> Ledger:
    return open_ledger(url)


@pytest.fixture
def adult(ledger: Ledger) -> LedgerAccount:
    return open_adult(ledger)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "BACKOFF", (0.0, 0.0, 0.0))
