"""What only SQLite has: files that are damaged, locked, read-only, missing or not ours; ledgers in memory; forks."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from dpexplain.core.budget import pure
from dpexplain.errors import (
    BudgetError,
    BudgetWarning,
    InputError,
    InternalError,
    LedgerCorrupt,
    LedgerUnavailable,
    ReleaseLost,
)
from dpexplain.ledger import RELEASED, account, open_ledger
from dpexplain.ledger.database import releases
from ledger_servers import drop_triggers, execute, make_ask, open_adult


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed ledger file with two releases in it."""
    file = tmp_path / "budget.db"
    adult = open_adult(open_ledger(file))
    for label in ("one", "two"):
        adult.commit(adult.reserve(make_ask(0.5, label)), {"label": label, "fill": "x" * 9000}, pure(0.5))
    assert [entry.name for entry in tmp_path.iterdir()] == ["budget.db"]  # the log is folded in when nobody looks
    return file


class TestUrls:
    @pytest.mark.parametrize("end", [".db", ".sqlite", ".sqlite3"])
    def test_a_path_is_enough(self, tmp_path: Path, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.warns(BudgetWarning, match="a new ledger was made at"):
            open_ledger(f"some #? %20 name{end}")
        assert (tmp_path / f"some #? %20 name{end}").exists()
        open_ledger(tmp_path / "ledger-without-ending")
        assert (tmp_path / "ledger-without-ending").exists()

    @pytest.mark.parametrize(
        ("url", "complaint"),
        [
            ("budget", "cannot be read"),
            ("", "cannot be read"),
            ("postgresql://ann:secret@host:port/db", "cannot be read"),
            ("mysql://ann:secret@host/db", "in SQLite or in PostgreSQL"),
            ("sqlite://", "names no file"),
            ("sqlite:///", "names no file"),
            ("sqlite://budget.db", "names no file"),
            ("sqlite:///budget.db?cache=shared", "only option"),
            ("sqlite:///budget.db?mode=rw", "only option"),
        ],
    )
    def test_other_things_are_refused(
        self, url: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InputError, match=complaint) as caught:
            open_ledger(url)
        assert caught.value.hint
        assert "secret" not in str(caught.value)
        assert list(tmp_path.iterdir()) == []


class TestDurability:
    def test_settings(self, path: Path) -> None:
        ledger = open_ledger(path)
        with ledger.database.write() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL

    def test_readers_cannot_write(self, path: Path) -> None:
        ledger = open_ledger(path)
        with (
            pytest.raises(LedgerUnavailable, match="read-only"),
            ledger.database.read() as connection,
        ):
            connection.execute(releases.insert().values(reservation="x", payload="{}"))

    def test_an_old_backup_is_noticed(self, path: Path, tmp_path: Path) -> None:
        ledger = open_ledger(path)
        backup = shutil.copy(path, tmp_path / "backup.db")
        open_adult(ledger).reserve(make_ask(0.5))
        anchor = ledger.anchor()
        shutil.copy(backup, path)
        assert ledger.verify().events == 6
        with pytest.raises(LedgerCorrupt, match="ends at event 6, before event 7 of the anchor"):
            ledger.verify(anchor)

    @pytest.mark.posix
    def test_a_forked_child_spends_from_the_same_account(self, path: Path) -> None:
        ledger = open_ledger(path)
        adult = open_adult(ledger)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn when a thread is running
            child = os.fork()
        if child == 0:
            try:
                adult.reserve(make_ask(0.25))
            finally:
                os._exit(0)
        adult.reserve(make_ask(0.5))
        os.waitpid(child, 0)
        assert ledger.statement("adult").left == pure(0.25)
        ledger.verify()


class TestDamage:
    @pytest.mark.parametrize("size", [1, 50, 5000, 20000])
    def test_a_truncated_file(self, path: Path, size: int) -> None:
        os.truncate(path, size)
        with pytest.raises(LedgerCorrupt, match="not readable as a dpexplain ledger") as caught:
            open_adult(open_ledger(path)).reserve(make_ask(0.1))
        assert caught.value.spent == "Nothing was spent."

    def test_an_empty_file_is_not_a_new_ledger(self, path: Path) -> None:
        os.truncate(path, 0)
        with pytest.raises(LedgerCorrupt, match="is an empty file"):
            open_ledger(path)

    def test_garbage(self, path: Path) -> None:
        path.write_bytes(b"\xde\xad" * 10000)
        with pytest.raises(LedgerCorrupt):
            open_ledger(path)

    def test_every_single_damaged_page_is_found(self, path: Path) -> None:
        good = path.read_bytes()
        pages = len(good) // 4096
        assert pages > 8
        for page in range(pages):
            path.write_bytes(good[: page * 4096] + b"\xff" * 4096 + good[(page + 1) * 4096 :])
            with pytest.raises(LedgerCorrupt):
                open_ledger(path).verify()
        path.write_bytes(good)
        open_ledger(path).verify()

    def test_an_index_that_hides_events(self, path: Path) -> None:
        execute(
            f"sqlite:///{path}",
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_master SET sql = 'CREATE INDEX events_by_account ON events (kind, seq)' "
            "WHERE name = 'events_by_account'",
        )
        with pytest.raises(LedgerCorrupt, match="fails SQLite's own check"):
            open_ledger(path).verify()

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ("UPDATE events SET body = x'7b7d' WHERE seq = 3", "event 3 has values of a wrong type"),
            ("UPDATE events SET version = 'one' WHERE seq = 6", "event 6 has values of a wrong type"),
            ("UPDATE events SET body = CAST(x'ff' AS TEXT) WHERE seq = 3", "not readable"),
            ("UPDATE releases SET payload = x'7b7d'", "not those that were committed"),
        ],
    )
    def test_values_of_a_wrong_type(self, path: Path, change: str, complaint: str) -> None:
        drop_triggers(f"sqlite:///{path}")
        for name in ("request_id", "reservation", "identity"):  # they refuse what is no JSON
            execute(f"sqlite:///{path}", f"DROP INDEX events_of_{name}")
        execute(f"sqlite:///{path}", change)
        with pytest.raises(LedgerCorrupt, match=complaint):
            open_ledger(path).verify()

    def test_a_database_of_something_else(self, tmp_path: Path) -> None:
        for number, statement in enumerate(
            ("CREATE TABLE photos (name)", "CREATE TABLE meta (name)", "CREATE TABLE meta (key, value)")
        ):
            url = f"sqlite:///{tmp_path}/{number}.db"
            execute(url, statement)
            with pytest.raises(LedgerCorrupt, match="dpexplain ledger"):
                open_ledger(url)
            assert len(execute(url, "SELECT * FROM sqlite_master")) == 1


class TestAway:
    def test_only_look(self, path: Path) -> None:
        before = open_ledger(path).anchor()
        ledger = open_ledger(f"sqlite:///{path}?mode=ro")
        adult = open_adult(ledger)  # agrees with what is there, so nothing is written
        assert adult.find(make_ask(0.5, "one").request_id) is not None
        assert ledger.verify().events == 6
        with pytest.raises(LedgerUnavailable, match="is read-only") as caught:
            adult.reserve(make_ask(0.5))
        assert "right to write" in caught.value.hint
        assert caught.value.spent == "Nothing was spent."
        with pytest.raises(LedgerUnavailable, match="is read-only"):
            open_adult(ledger, table_version="2026-12")
        assert ledger.anchor() == before

    def test_a_missing_file_is_made_only_when_wanted(self, tmp_path: Path) -> None:
        for url, create in ((f"sqlite:///{tmp_path}/no.db?mode=ro", True), (f"{tmp_path}/no.db", False)):
            with pytest.raises(LedgerUnavailable, match="does not exist"):
                open_ledger(url, create=create)
        assert list(tmp_path.iterdir()) == []

    def test_no_such_folder(self, tmp_path: Path) -> None:
        with pytest.raises(LedgerUnavailable, match="cannot be made or opened: No such file") as caught:
            open_ledger(tmp_path / "no" / "budget.db")
        assert "folder" in caught.value.hint

    def test_a_folder_is_not_a_file(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="names no file"):
            open_ledger(tmp_path)

    def test_a_disk_that_cannot_make_a_ledger(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted", "a private path")

        monkeypatch.setattr(os, "link", refuse)
        with pytest.raises(LedgerUnavailable, match="Operation not permitted") as caught:
            open_ledger(tmp_path / "budget.db")
        assert "local disk" in caught.value.hint
        assert "a private path" not in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    def test_another_process_made_it_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file, link = tmp_path / "budget.db", os.link

        def too_late(source: Path, target: Path) -> None:
            monkeypatch.undo()
            open_adult(open_ledger(file)).reserve(make_ask(0.5))
            link(source, target)

        monkeypatch.setattr(os, "link", too_late)
        assert open_ledger(file).statement("adult").spent == pure(0.5)

    def test_locked(self, path: Path) -> None:
        ledger = open_ledger(path, timeout=0.05)
        adult = open_adult(ledger)
        reservation = adult.reserve(make_ask(0.5))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert ledger.statement("adult").left == pure(0.5)  # readers do not wait
            with pytest.raises(LedgerUnavailable, match="is locked by another process") as caught:
                adult.reserve(make_ask(0.1))
            assert caught.value.spent == "Nothing was spent."
            with pytest.raises(ReleaseLost, match=r"could not be recorded: .* is locked") as lost:
                adult.commit(reservation, {}, pure(0.5))
            assert lost.value.spent == "What was reserved stays spent, and no value was released."
        assert ledger.statement("adult").left == pure(0.5)

    def test_a_commit_waits_for_a_short_lock(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        ledger = open_ledger(path, timeout=0.01)
        adult = open_adult(ledger)
        reservation = adult.reserve(make_ask(0.5))
        pauses: list[float] = []
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")

            def sleep(seconds: float) -> None:
                pauses.append(seconds)
                if len(pauses) == 2:
                    other.execute("ROLLBACK")

            monkeypatch.setattr(account, "sleep", sleep)
            monkeypatch.setattr(account, "BACKOFF", (0.1, 0.2, 0.3))
            adult.commit(reservation, {}, pure(0.5))
        assert pauses == [0.1, 0.2]
        assert ledger.statement("adult").rows[-1].status == RELEASED

    def test_a_reservation_named_in_another_request(self, path: Path) -> None:
        """A commit that only mentions a reservation is not its commit."""
        adult = open_adult(open_ledger(path))
        mine = adult.reserve(make_ask(0.1))
        other = make_ask(0.1)
        object.__setattr__(other, "request_id", mine)
        adult.commit(adult.reserve(other), {"of": "other"}, pure(0.1))
        assert adult.commit(mine, {"of": "mine"}, pure(0.1)).reservation == mine


class TestInMemory:
    def test_threads_take_turns(self) -> None:
        ledger = open_ledger("sqlite:///:memory:")
        adult = open_adult(ledger)

        def spend(_: int) -> bool:
            try:
                adult.commit(adult.reserve(make_ask(0.1)), {}, pure(0.1))
            except BudgetError:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(spend, range(30))) == 20
        assert ledger.statement("adult").left.amount == 0
        ledger.verify()
        assert open_ledger("sqlite:///:memory:").accounts() == []  # each is its own
        ledger.close()


class TestWords:
    """The driver's code becomes our words; its message never does."""

    @pytest.mark.parametrize(
        ("code", "error", "words"),
        [
            (sqlite3.SQLITE_FULL, LedgerUnavailable, "disk is full"),
            (sqlite3.SQLITE_IOERR_WRITE, LedgerUnavailable, "disk is full or fails"),
            (sqlite3.SQLITE_BUSY_SNAPSHOT, LedgerUnavailable, "is locked"),
            (sqlite3.SQLITE_READONLY_DBMOVED, LedgerUnavailable, "is read-only"),
            (sqlite3.SQLITE_CORRUPT_INDEX, LedgerCorrupt, "not readable"),
            (sqlite3.SQLITE_MISUSE, InternalError, "refused a statement"),
        ],
    )
    def test_sqlite(self, path: Path, code: int, error: type[Exception], words: str) -> None:
        driver = sqlite3.OperationalError("age of ann is 4287501936")
        driver.sqlite_errorcode = code
        self.check(open_ledger(path).database, driver, error, words)

    def check(self, database: Any, driver: Exception, error: type[Exception], words: str) -> None:
        for use in (database.read, database.write):
            with pytest.raises(error, match=words) as caught, use():
                raise DBAPIError("SELECT 4287501936", {"age": 4287501936}, driver)
            assert "4287501936" not in str(caught.value)
            assert caught.value.__suppress_context__

    def test_a_contradiction_of_ours_is_a_bug(self, path: Path) -> None:
        database = open_ledger(path).database
        twice = releases.insert().values([{"reservation": "r", "payload": "secret"}] * 2)
        with pytest.raises(InternalError, match="refused a statement") as caught, database.write() as connection:
            connection.execute(twice)
        assert "secret" not in str(caught.value)
