"""The service's own tables: who may ask, what was asked, what came of it. Nothing here decides what is spent.

Kept apart from the ledger, which has what was spent and released; names begin with `service_`, so that both may live in
one PostgreSQL database. A lost store loses tokens, jobs and copies of results, never a cost.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from dpexplain.core.rng import secret_bytes
from dpexplain.errors import InputError, LedgerUnavailable

FORMAT = 1
metadata = sa.MetaData()


def _table(name: str, *columns: sa.Column[Any], **more: Any) -> sa.Table:
    return sa.Table(f"service_{name}", metadata, *columns, *more.pop("also", ()), **more)


def _text(name: str, *, key: bool = False, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, primary_key=key, nullable=null)


def _number(name: str, *, key: bool = False, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, primary_key=key, nullable=null, autoincrement=False)


def _moment(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Double, nullable=null)


meta = _table("meta", _text("key", key=True), _text("value"))
tokens = _table(
    "tokens", _text("id", key=True), _text("hash"), _text("name"), _text("role"), _text("tables", null=True),
    _text("release", null=True), _number("agent"), _moment("expires"), _number("revoked"), _text("made"),
)  # fmt: skip
jobs = _table(
    "jobs", _text("id", key=True), _text("table_name"), _text("owner"), _text("key"), _text("body_digest"),
    _text("body"), _text("label"), _text("price"), _text("state"), _text("worker", null=True), _moment("lease"),
    _moment("asked"), _moment("announced", null=True), _text("outcome", null=True),
    also=[
        sa.UniqueConstraint("owner", "key"),
        sa.Index("service_jobs_by_state", "state", "asked"),
        sa.Index("service_jobs_by_owner", "owner", "asked"),
    ],
)  # fmt: skip
results = _table(
    "results", _text("id", key=True), _text("job"), _number("number"), _text("table_name"), _text("owner"),
    _text("kind"), _text("title"), _text("feature", null=True), _text("reservation"), _number("entry"),
    _moment("announced"), _text("document"),
    also=[sa.Index("service_results_by_table", "table_name", "announced"), sa.Index("service_results_by_job", "job")],
)  # fmt: skip
sessions = _table(
    "sessions", _text("id", key=True), _text("token"), _text("csrf"), _moment("begun"), _moment("used"),
    _text("memory"),
)  # fmt: skip
plans = _table("plans", _text("id", key=True), _text("owner"), _text("asked_digest"), _moment("expires"))
models = _table(
    "models", _text("table_name", key=True), _text("version", key=True), _text("file"), _text("file_digest"),
)  # fmt: skip
decisions = _table(
    "decisions", _number("seq", key=True), _text("at"), _text("actor"), _text("what"), _text("body"),
    _text("prev_hash"), _text("hash"), _text("account"),
)  # fmt: skip


class Store:
    """Transactions on the service's tables. `write()` holds a lock that all processes share."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        self.sqlite = self._engine.dialect.name == "sqlite"
        with self.write() as connection:
            metadata.create_all(connection)
            found = connection.scalar(sa.select(meta.c.value).where(meta.c.key == "format"))
            if found is None:
                for key, value in (("format", str(FORMAT)), ("id", secret_bytes(16).hex()), ("lock", "")):
                    connection.execute(meta.insert().values(key=key, value=value))
            elif found != str(FORMAT):
                raise InputError(f"the service's store has format {found}; this dpexplain reads {FORMAT}.")
            self.id = str(connection.scalar(sa.select(meta.c.value).where(meta.c.key == "id")))

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection to read with."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError:
            raise _unavailable() from None

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that no other one of ours runs beside, in any process."""
        try:
            with self._engine.connect() as connection:
                if self.sqlite:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                else:
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(0x6470787376)))  # "dpxsv"
                try:
                    yield connection
                except BaseException:
                    connection.rollback()
                    raise
                connection.commit()
        except SQLAlchemyError:
            raise _unavailable() from None

    def ping(self) -> None:
        """Raise unless the store can be read."""
        with self.read() as connection:
            connection.scalar(sa.select(meta.c.value).where(meta.c.key == "id"))

    def close(self) -> None:
        self._engine.dispose()


def _unavailable() -> LedgerUnavailable:
    """A driver's message may quote values, so it is not shown."""
    return LedgerUnavailable(
        "the service's store cannot be read or written.",
        hint="ask again in a moment, with the same key: one key is charged once",
        spent="",
    )


def _engine(url: str) -> sa.Engine:
    try:
        where = sa.make_url(url)
    except (ArgumentError, ValueError):
        raise InputError(
            "the URL of the service's store cannot be read.", hint='store = "sqlite:///service.db"'
        ) from None
    if where.drivername == "sqlite" and where.database:
        return _sqlite(Path(where.database).absolute())
    if where.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        about = {"connect_timeout": 10, "client_encoding": "utf8", "prepare_threshold": None}
        wanted = {key: value for key, value in about.items() if key not in where.query}
        named = where.set(drivername="postgresql+psycopg")
        return sa.create_engine(
            named, hide_parameters=True, connect_args=wanted, pool_pre_ping=True, pool_size=10, max_overflow=40
        )
    raise InputError("a service's store is kept in SQLite or in PostgreSQL.", hint='store = "sqlite:///service.db"')


def _sqlite(path: Path) -> sa.Engine:
    def connect() -> sqlite3.Connection:
        found = sqlite3.connect(path, 30.0, isolation_level=None, check_same_thread=False)
        found.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;")
        return found

    if not path.exists():
        path.touch(mode=0o600)  # it holds hashes of tokens, and results that not everybody may read
    return sa.create_engine(
        "sqlite://", creator=connect, hide_parameters=True, poolclass=sa.pool.QueuePool, pool_size=10, max_overflow=40
    )


def now() -> float:
    return time.time()


def new_id() -> str:
    """An identifier that nobody guesses."""
    return secret_bytes(12).hex()
