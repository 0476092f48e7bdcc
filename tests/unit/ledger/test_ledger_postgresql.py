"""What only PostgreSQL has: servers that go away before, during and after a release, roles, other tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

from dpexplain.core.budget import pure
from dpexplain.errors import InputError, InternalError, LedgerCorrupt, LedgerUnavailable, ReleaseLost
from dpexplain.ledger import LOST, RELEASED, Ledger, LedgerAccount, account, open_ledger
from dpexplain.ledger.database import Database, releases
from ledger_servers import Server, execute, make_ask, open_adult, postgresql_server, terminate_others

NOTHING = "Nothing was spent."


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    new = server.new_database()
    yield new
    server.give_back(new)


@pytest.fixture(scope="module")
def private() -> Iterator[Server]:
    """A server that may be stopped."""
    with postgresql_server() as running:
        yield running


@pytest.fixture
def private_url(private: Server) -> str:
    private.start()
    return private.new_database()


class TestOpening:
    def test_without_psycopg(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(InputError, match="needs the package psycopg") as caught:
            open_ledger("postgresql://host/db")
        assert caught.value.hint == "pip install dpexplain[postgresql]"

    @pytest.mark.parametrize("address", ["127.0.0.1:1/db", "127.0.0.1:1/db?connect_timeout=2", "/db?host=/no/socket"])
    @pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
    def test_nobody_there(self, scheme: str, address: str) -> None:
        with pytest.raises(LedgerUnavailable, match='PostgreSQL ledger "db" cannot be opened or reached') as caught:
            open_ledger(f"{scheme}://ann:secret@{address}")
        assert caught.value.spent == NOTHING
        assert "secret" not in str(caught.value)

    def test_wrong_names(self, url: str) -> None:
        for wrong in (url.replace("/ledger_", "/no_ledger_"), url + "&nonsense=1"):
            with pytest.raises(LedgerUnavailable, match="cannot be opened or reached"):
                open_ledger(wrong)

    def test_a_table_of_something_else(self, url: str) -> None:
        execute(url, "CREATE TABLE events (name text)")
        with pytest.raises(InputError, match="already has a table events of something else"):
            open_ledger(url)
        assert execute(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(1,)]

    def test_another_process_made_it_first(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        open_adult(open_ledger(url)).reserve(make_ask(0.5))
        monkeypatch.setattr(Database, "has_tables", lambda _: False)  # as it was when we looked
        assert open_ledger(url).statement("adult").spent == pure(0.5)

    def test_wrong_columns(self, url: str) -> None:
        execute(url, "CREATE TABLE meta (name text)")
        with pytest.raises(LedgerCorrupt, match="not readable as a dpexplain ledger"):
            open_ledger(url)


class TestRights:
    def test_an_auditor_reads(self, url: str) -> None:
        adult = open_adult(open_ledger(url))
        entry = adult.commit(adult.reserve(make_ask(0.5)), {"v": 1}, pure(0.5))
        role = f"auditor_{url.split('?')[0].rsplit('_', 1)[1]}"
        execute(url, f"CREATE ROLE {role} LOGIN", f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
        ledger = open_ledger(url.replace("//postgres:", f"//{role}:"))
        ledger.check_entry(entry, {"v": 1})
        assert ledger.verify().releases == 1
        with pytest.raises(LedgerUnavailable, match="is read-only"):
            open_adult(ledger).reserve(make_ask(0.5))

    def test_a_read_only_server(self, url: str) -> None:
        open_adult(open_ledger(url))
        ledger = open_ledger(url + "&options=-c%20default_transaction_read_only%3Don")
        with pytest.raises(LedgerUnavailable, match="is read-only"):
            open_adult(ledger).reserve(make_ask(0.5))
        assert ledger.statement("adult").spent == pure(0.5) * 0

    def test_readers_cannot_write(self, url: str) -> None:
        ledger = open_ledger(url)
        with (
            pytest.raises(LedgerUnavailable, match="read-only"),
            ledger.database.read() as connection,
        ):
            connection.execute(releases.insert().values(reservation="x", payload="{}"))

    def test_locked(self, url: str) -> None:
        ledger = open_ledger(url, timeout=0.05)
        adult = open_adult(ledger)
        reservation = adult.reserve(make_ask(0.5))
        with psycopg.connect(url) as other:
            other.execute("SELECT * FROM head FOR UPDATE")
            assert ledger.statement("adult").spent == pure(0.5)  # readers do not wait
            with pytest.raises(LedgerUnavailable, match="is locked by another process"):
                adult.reserve(make_ask(0.1))
            with pytest.raises(ReleaseLost, match="is locked"):
                adult.commit(reservation, {}, pure(0.5))
        assert ledger.statement("adult").rows[0].status == LOST

    def test_a_commit_is_on_disk_whatever_the_server_prefers(self, url: str) -> None:
        ledger = open_ledger(url + "&options=-c%20synchronous_commit%3Doff", timeout=7)
        with ledger.database.write() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
            assert connection.exec_driver_sql("SHOW lock_timeout").scalar() == "7s"


class TestLostConnections:
    """The connection breaks inside one call."""

    @pytest.fixture
    def ledger(self, url: str) -> Ledger:
        return open_ledger(url)

    def on_commit(self, adult: LedgerAccount, monkeypatch: pytest.MonkeyPatch, act: Callable[[Any], None]) -> None:
        """Let the next COMMIT go through `act` instead."""
        dialect = adult.database._writer.dialect
        original = dialect.do_commit

        def once(connection: Any) -> None:
            monkeypatch.setattr(dialect, "do_commit", original)
            act(connection)

        monkeypatch.setattr(dialect, "do_commit", once)

    def test_before_the_end_of_reserve(
        self, ledger: Ledger, adult: LedgerAccount, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        current = account.current

        def cut(*args: Any) -> Any:
            terminate_others(url)
            return current(*args)

        monkeypatch.setattr(account, "current", cut)
        with pytest.raises(LedgerUnavailable, match="cannot be opened or reached") as caught:
            adult.reserve(make_ask(0.5))
        assert caught.value.spent == NOTHING
        assert ledger.statement("adult").rows == ()

    def test_at_the_end_of_reserve_before_it_was_written(
        self, ledger: Ledger, adult: LedgerAccount, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def cut(connection: Any) -> None:
            terminate_others(url)
            connection.commit()

        self.on_commit(adult, monkeypatch, cut)
        with pytest.raises(LedgerUnavailable) as caught:
            adult.reserve(make_ask(0.5))
        assert "it is unknown whether the amount was recorded as spent" in caught.value.spent
        assert "dpexplain budget" in caught.value.spent
        assert ledger.statement("adult").rows == ()

    def test_at_the_end_of_reserve_after_it_was_written(
        self, ledger: Ledger, adult: LedgerAccount, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.on_commit(adult, monkeypatch, self.commit_and_break)
        with pytest.raises(LedgerUnavailable) as caught:
            adult.reserve(make_ask(0.5))
        assert "it is unknown" in caught.value.spent
        assert [row.status for row in ledger.statement("adult").rows] == [LOST]

    @staticmethod
    def commit_and_break(connection: Any) -> None:
        connection.commit()
        raise psycopg.OperationalError("server closed the connection; values: 42")

    @pytest.mark.parametrize("written", [True, False])
    def test_a_commit_is_repeated(
        self,
        ledger: Ledger,
        adult: LedgerAccount,
        url: str,
        monkeypatch: pytest.MonkeyPatch,
        written: bool,
    ) -> None:
        def cut(connection: Any) -> None:
            terminate_others(url)
            connection.commit()

        reservation = adult.reserve(make_ask(0.5))
        self.on_commit(adult, monkeypatch, self.commit_and_break if written else cut)
        entry = adult.commit(reservation, {"v": 1}, pure(0.4))
        assert entry.sequence == 4
        assert [row.status for row in ledger.statement("adult").rows] == [RELEASED]
        assert ledger.verify().events == 4
        ledger.check_entry(entry, {"v": 1})


@pytest.mark.long
class TestServerGone:
    """The server stops between two calls, and comes back."""

    def test_before(self, private: Server, private_url: str) -> None:
        adult = open_adult(open_ledger(private_url))
        private.stop()
        with pytest.raises(LedgerUnavailable, match="cannot be opened or reached") as caught:
            open_ledger(private_url)
        assert caught.value.spent == NOTHING
        with pytest.raises(LedgerUnavailable) as caught:
            adult.reserve(make_ask(0.5))
        assert caught.value.spent == NOTHING
        private.start()
        assert open_ledger(private_url).statement("adult").rows == ()

    def test_between_reserve_and_commit(self, private: Server, private_url: str) -> None:
        ledger = open_ledger(private_url)
        adult = open_adult(ledger)
        reservation = adult.reserve(make_ask(0.5))
        private.stop()
        with pytest.raises(ReleaseLost, match="could not be recorded") as caught:
            adult.commit(reservation, {"v": 1}, pure(0.5))
        assert caught.value.spent == "What was reserved stays spent, and no value was released."
        private.start()
        statement = ledger.statement("adult")
        assert [(row.status, row.cost) for row in statement.rows] == [(LOST, pure(0.5))]
        assert statement.left == pure(1.5)
        assert adult.find(make_ask(0.5).request_id) is None
        ledger.verify()

    def test_back_in_time(self, private: Server, private_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        ledger = open_ledger(private_url)
        adult = open_adult(ledger)
        reservation = adult.reserve(make_ask(0.5))
        private.stop()
        monkeypatch.setattr(account, "sleep", lambda _: private.start())
        entry = adult.commit(reservation, {"v": 1}, pure(0.5))
        ledger.check_entry(entry, {"v": 1})

    def test_after(self, private: Server, private_url: str) -> None:
        ledger = open_ledger(private_url)
        adult = open_adult(ledger)
        entry = adult.commit(adult.reserve(make_ask(0.5)), {"v": 1}, pure(0.5))
        private.stop()
        for use in (ledger.verify, ledger.accounts, lambda: adult.find(make_ask(0.5).request_id)):
            with pytest.raises(LedgerUnavailable):
                use()
        private.start()
        stored = adult.find(make_ask(0.5).request_id)
        assert stored is not None
        assert stored.entry == entry
        ledger.verify()


@pytest.mark.parametrize(
    ("state", "error", "words"),
    [
        ("57P01", LedgerUnavailable, "cannot be opened or reached"),
        ("08006", LedgerUnavailable, "cannot be opened or reached"),
        ("40001", LedgerUnavailable, "is locked"),
        ("53100", LedgerUnavailable, "disk is full"),
        ("XX001", LedgerCorrupt, "not readable"),
        ("23505", InternalError, "refused a statement"),
    ],
)
def test_states_become_our_words(url: str, state: str, error: type[Exception], words: str) -> None:
    database = open_ledger(url).database
    with pytest.raises(error, match=words) as caught, database.read():
        raise DBAPIError("SELECT 42875019", {"age": 42875019}, psycopg.errors.lookup(state)("age of ann is 42875019"))
    assert "42875019" not in str(caught.value)
