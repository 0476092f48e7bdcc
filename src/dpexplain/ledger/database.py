"""The database under a ledger: one schema, two kinds of transaction, one set of errors.

`read()` is a read-only snapshot. `write()` is the only way to change anything, and durable when it returns.
Each call uses a connection of its own, so nothing is shared between threads or across a fork.

A driver's message may quote values or a password, so only its code is looked at, and never the message shown.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import RLock
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool, StaticPool

from dpexplain.accidents import check_relative, note_relative
from dpexplain.errors import NOTHING_SPENT, DpexplainError, InputError, InternalError, LedgerTooNew, LedgerUnavailable
from dpexplain.ledger.events import damaged

FORMAT = 1  # of the tables below; a ledger of a later format is refused
_FORMAT_KEY, _INDEX_KEY = "dpexplain-ledger-format", "dpexplain-ledger-indexes"
UNKNOWN_SPENT = (
    "The ledger broke off while it was writing: it is unknown whether the amount was recorded as spent. "
    "Look at `dpexplain budget` before you ask again."
)


def _column(name: str, kind: type[sa.String | sa.Integer] = sa.String, key: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=key, nullable=False, autoincrement=False)


metadata = sa.MetaData()
meta = sa.Table("meta", metadata, _column("key", key=True), _column("value"))
events = sa.Table(
    "events", metadata,
    _column("seq", sa.Integer, key=True), _column("account"), _column("kind"), _column("version", sa.Integer),
    _column("body", sa.Text), _column("at"), _column("prev_hash"), _column("hash"),
    sa.Index("events_by_account", "account", "seq"),
)  # fmt: skip
# Released values may be large, so they are kept apart: adding up costs does not read them.
releases = sa.Table("releases", metadata, _column("reservation", key=True), _column("payload", sa.Text))
head = sa.Table("head", metadata, _column("seq", sa.Integer), _column("hash"))  # one row

# Events are looked up by fields of their body: by expressions, so that a ledger of an earlier version has them too.
# PostgreSQL reads no null characters and no halves of pairs, in whatever field they stand: another one is put there.
_READABLE = r"regexp_replace(body, '\\u(0000|d[89a-f][0-9a-f][0-9a-f])', '\\ufffd', 'gi')"
_FIELD = {"sqlite": "json_extract(body, '$.?')", "postgresql": f"({_READABLE}::json ->> '?')"}
_FIELDS = "request_id", "reservation", "identity"

_REFUSE = "'the ledger is append-only'"
_TRIGGERS = {
    "sqlite": [
        f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, {_REFUSE}); END"
        for table in ("events", "releases")
        for verb in ("update", "delete")
    ],
    "postgresql": [
        "CREATE OR REPLACE FUNCTION dpexplain_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION {_REFUSE}; END $$",
        *(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION dpexplain_append_only()"
            for table in ("events", "releases")
        ),
    ],
}

# What a driver's code means: of SQLite its primary code, of PostgreSQL the state or its class.
_DAMAGED = "is damaged", ""
_TROUBLE: dict[tuple[str, str], set[int | str]] = {
    ("cannot be opened or reached", "check the URL, that its folder or server is there, and your rights"): {
        sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, "08", "57",
    },
    ("is locked by another process", "wait until the other process ends, and ask again"): {
        sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, "40", "55P03",
    },
    ("is read-only", "ask for the right to write to it; for SQLite, to its folder too"): {
        sqlite3.SQLITE_READONLY, "25006", "42501",
    },
    ("cannot be written: the disk is full or fails", "make room on the disk, and ask again"): {
        sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, "53", "58",
    },
    _DAMAGED: {  # SQLITE_ERROR: our statements are fixed, so it is a table or a column that is missing
        sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR,
        "42P01", "42703", "XX001", "XX002",
    },
}  # fmt: skip


class Database:
    """Transactions on one ledger's database."""

    def __init__(self, name: str, writer: sa.Engine, reader: sa.Engine, timeout: float) -> None:
        self.name, self.dialect = name, writer.dialect.name  # the name is for people and holds no password
        self._writer, self._reader, self._timeout = writer, reader, timeout
        # an in-memory database is one connection, which threads take in turns
        self.in_memory = isinstance(writer.pool, StaticPool)
        self._turn: AbstractContextManager[Any] = RLock() if self.in_memory else nullcontext()
        self._process = os.getpid()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A read-only snapshot."""
        try:
            with self._turn, self._reader.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise self._explain(error, NOTHING_SPENT) from None

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A durable transaction, which an exception undoes."""
        spent = NOTHING_SPENT
        if self.in_memory and os.getpid() != self._process:  # each process would spend from a copy
            raise LedgerUnavailable(
                f"{self.name} belongs to the process that opened it.", hint="use a file when several processes spend"
            )
        try:
            with self._turn, self._writer.connect() as connection:
                connection.begin()
                if self.dialect == "postgresql":
                    wait = sa.func.set_config("lock_timeout", f"{self._timeout * 1000:.0f}ms", True)
                    connection.execute(sa.select(wait, sa.func.set_config("synchronous_commit", "on", True)))
                yield connection
                # whatever broke before this line has undone the transaction; from here on nobody knows
                spent = UNKNOWN_SPENT
                connection.commit()
        except DBAPIError as error:
            raise self._explain(error, spent) from None

    def body_has(self, name: str, value: str) -> sa.ColumnElement[bool]:
        """Whether a field of the body of an event has this value."""
        field: sa.ColumnElement[str] = sa.literal_column(_FIELD[self.dialect].replace("?", name))
        return field == value

    def make_indexes(self) -> None:
        """Make the indexes that an earlier version did not have; whoever may only read is slower, and no worse off."""
        made = sa.select(meta.c.value).where(meta.c.key == _INDEX_KEY)
        with self.read() as connection:
            if connection.scalar(made) is not None:
                return
        wanted = {"kind": "kind, version"} | {name: _FIELD[self.dialect].replace("?", name) for name in _FIELDS}
        with suppress(LedgerUnavailable), self._alone() as connection:
            if connection.scalar(made) is None:
                for name, columns in wanted.items():
                    connection.exec_driver_sql(f"CREATE INDEX events_of_{name} ON events (account, {columns})")
                connection.execute(meta.insert().values(key=_INDEX_KEY, value="1"))

    def close(self) -> None:
        self._writer.dispose()

    @contextmanager
    def _alone(self) -> Iterator[sa.Connection]:
        """A write transaction that changes tables: one process at a time."""
        with self.write() as connection:
            if self.dialect == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(0x6470657870)))  # "dpexp"
            yield connection

    def create_tables(self) -> None:
        """Make the tables, unless another process did it first."""
        with self._alone() as connection:
            present = set(sa.inspect(connection).get_table_names())
            if "meta" in present:
                return
            if foreign := sorted(present & set(metadata.tables)):
                raise InputError(
                    f"{self.name} already has a table {foreign[0]} of something else.",
                    hint="give the ledger a database of its own",
                )
            metadata.create_all(connection, checkfirst=False)
            for statement in _TRIGGERS[self.dialect]:
                connection.exec_driver_sql(statement)
            connection.execute(meta.insert().values(key=_FORMAT_KEY, value=str(FORMAT)))
            connection.execute(head.insert().values(seq=0, hash="0" * 64))

    def has_tables(self) -> bool:
        with self.read() as connection:
            return sa.inspect(connection).has_table("meta")

    def check_format(self) -> None:
        """Refuse what is not a ledger, and one that a later dpexplain wrote."""
        with self.read() as connection:
            found = str(connection.scalar(sa.select(meta.c.value).where(meta.c.key == _FORMAT_KEY)))
        if not found.isdecimal():
            raise damaged(f"{self.name} is not a dpexplain ledger")
        if int(found) > FORMAT:
            raise LedgerTooNew(
                f"{self.name} has format {found}, and this dpexplain reads formats up to {FORMAT}.",
                hint="update dpexplain",
            )

    def _explain(self, error: DBAPIError, spent: str) -> DpexplainError:
        """The driver's error in our words, from its code alone."""
        if self.dialect == "postgresql":  # without a state, no server answered
            state = str(getattr(error.orig, "sqlstate", None) or "08000")
            codes: set[int | str] = {state, state[:2]}
        else:  # the only error without a code that data can cause is text that is not UTF-8
            codes = {int(getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)) & 0xFF}
        for trouble, meant in _TROUBLE.items():
            if codes & meant:
                if trouble is _DAMAGED:
                    return damaged(f"{self.name} is not readable as a dpexplain ledger")
                unavailable = LedgerUnavailable(f"{self.name} {trouble[0]}.", hint=trouble[1], spent=spent)
                unavailable.read_only = trouble[0] == "is read-only"
                return unavailable
        return InternalError(f"the database of the ledger refused a statement ({sorted(codes, key=str)}).")


def open_database(url: str | Path, *, timeout: float, create: bool) -> Database:
    """The database at `url`, with its tables; see `open_ledger`."""
    examples = "write sqlite:///budget.db, or postgresql://user@host/database"
    try:
        if isinstance(url, Path) or ("://" not in url and url.endswith((".db", ".sqlite", ".sqlite3"))):
            where = sa.URL.create("sqlite", database=str(url))
        else:
            where = sa.make_url(url)
    except (ArgumentError, ValueError):
        raise InputError("the URL of the ledger cannot be read.", hint=examples) from None
    if where.drivername == "sqlite":
        database = _open_sqlite(where, timeout, create)
    elif where.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        database = _open_postgresql(where, timeout, create)
    else:
        raise InputError("a ledger is kept in SQLite or in PostgreSQL.", hint=examples)
    database.check_format()
    database.make_indexes()
    return database


def _open_postgresql(where: sa.URL, timeout: float, create: bool) -> Database:
    options = {
        "connect_timeout": 10,
        "tcp_user_timeout": int(timeout * 1000),  # a network that swallows packets is noticed
        "client_encoding": "utf8",
        "prepare_threshold": None,  # connections are short, and poolers do not like prepared statements
    }
    try:
        engine = sa.create_engine(
            where.set(drivername="postgresql+psycopg"), poolclass=NullPool, hide_parameters=True,
            connect_args={key: value for key, value in options.items() if key not in where.query},
        )  # fmt: skip
    except ImportError:
        raise InputError(
            "a PostgreSQL ledger needs the package psycopg.", hint="pip install dpexplain[postgresql]"
        ) from None
    writer = engine.execution_options(isolation_level="READ COMMITTED")
    reader = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    database = Database(f'the PostgreSQL ledger "{where.database}"', writer, reader, timeout)
    if not database.has_tables():
        if not create:
            raise _missing(database.name)
        database.create_tables()
    return database


def _open_sqlite(where: sa.URL, timeout: float, create: bool) -> Database:
    if where.host is not None or not where.database or Path(where.database).is_dir():
        raise InputError("the URL of the ledger names no file.", hint="write sqlite:/// and then the path")
    if where.query not in ({}, {"mode": "ro"}):
        raise InputError("the only option of a SQLite ledger is ?mode=ro.", hint="leave the others out")
    if where.database == ":memory:":
        engine = _sqlite_engine(":memory:", timeout)
        memory = Database("the in-memory ledger", engine, engine, timeout)
        memory.create_tables()
        return memory
    path, name = Path(where.database).absolute(), f'the ledger "{where.database}"'
    check_relative(where.database, path)
    try:
        new = not path.exists()
        if new:
            if where.query or not create:
                raise _missing(name)
            _create_sqlite_file(path, name, timeout)
        empty = path.stat().st_size == 0
    except OSError as error:
        raise LedgerUnavailable(
            f"{name} cannot be made or opened: {error.strerror}.",
            hint="name a file on a local disk, in a folder that exists and that you may write to",
        ) from None
    if empty:  # SQLite would take it for a new database, and every budget would be whole again
        raise damaged(f"{name} is an empty file")
    note_relative(where.database, path, new=new)
    reader = _sqlite_engine(f"{path.as_uri()}?mode=ro", timeout, begin="BEGIN")
    writer = reader if where.query else _sqlite_engine(f"{path.as_uri()}?mode=rw", timeout)
    return Database(name, writer, reader, timeout)


def _create_sqlite_file(path: Path, name: str, timeout: float) -> None:
    """Finish the ledger in a corner, then give it its name in one step, which only one process can win."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".dpexplain-") as corner:
        draft = Path(corner, "new.db")
        engine = _sqlite_engine(f"{draft.as_uri()}?mode=rwc", timeout, pragmas="PRAGMA journal_mode=WAL;")
        Database(name, engine, engine, timeout).create_tables()
        with suppress(FileExistsError):
            os.link(draft, path)
    if os.name == "posix":  # pragma: no branch; a power cut must not take the file with what is spent in it
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def _sqlite_engine(file: str, timeout: float, begin: str = "BEGIN IMMEDIATE", pragmas: str = "") -> sa.Engine:
    def connect() -> sqlite3.Connection:
        found = sqlite3.connect(file, timeout, isolation_level=None, check_same_thread=False, uri=True)
        try:
            found.executescript(f"{pragmas} PRAGMA synchronous=FULL; PRAGMA fullfsync=ON;")
        except sqlite3.Error:
            found.close()
            raise
        return found

    pool = StaticPool if file == ":memory:" else NullPool
    engine = sa.create_engine("sqlite://", creator=connect, poolclass=pool, hide_parameters=True)
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _missing(name: str) -> LedgerUnavailable:
    return LedgerUnavailable(f"{name} does not exist.", hint="check the URL; a table makes its ledger")
