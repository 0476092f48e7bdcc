"""A ledger: append-only, hash-chained accounts in SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from dpexplain.accidents import check_form, check_people, check_source, warn_of_memory
from dpexplain.core.account import Entry
from dpexplain.core.budget import Budget, Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.sensitivity import Neighbours
from dpexplain.errors import InputError, LedgerUnavailable, VerificationError
from dpexplain.ledger.account import LedgerAccount, check_payload, entry_of, load_payload
from dpexplain.ledger.chain import GENESIS, Chain, Head, read_head, records
from dpexplain.ledger.database import Database, events, open_database, releases
from dpexplain.ledger.events import (
    AccountClosed,
    AccountOpened,
    AnalystLimited,
    Committed,
    NonPrivate,
    SourceDeclared,
    TableDeclared,
    damaged,
)
from dpexplain.ledger.state import AccountState, Statement, current, replay

_NAMES = sa.select(events.c.account).distinct()


def open_ledger(url: str | Path, *, timeout: float = 30.0, create: bool = True) -> Ledger:
    """The ledger at `url`; made if it does not exist, unless `create` is false.

    sqlite:///budget.db, or just budget.db    a file (sqlite:////absolute/path/budget.db; ?mode=ro: only look)
    sqlite:///:memory:                        gone when the program ends: for trying things out
    postgresql://user@host/database           when several hosts share one account

    `timeout` is how many seconds to wait for another process that writes.
    """
    return Ledger(open_database(url, timeout=timeout, create=create))


@dataclass(frozen=True)
class Verification:
    """What a successful verification covered."""

    events: int
    accounts: int
    releases: int
    anchor: str
    notes: tuple[str, ...]  # what could not be judged, or closed an account


class Ledger:
    """Made by `open_ledger`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def name(self) -> str:
        """For people; holds no password."""
        return self.database.name

    def close(self) -> None:
        """Only an in-memory ledger has something to close, and is lost then."""
        self.database.close()

    def account(
        self, name: str, *, budget: Budget, neighbours: Neighbours, table_version: str, domain_digest: str,
        analyst: str | None = None, columns: Iterable[str] | None = None, origin: Sequence[str] = (),
        separate_from: Sequence[str] = (),
    ) -> LedgerAccount:  # fmt: skip
        """The account `name`, opened by the first call. Later calls must agree with it.

        `columns` of the table and `origin`, the paths of its files, are kept as digests: a new account over data that
        another one has declared is an accident (see `accidents.py`), unless that one is named in `separate_from`.
        """
        for what, text in (("account", name), ("version", table_version), ("analyst", analyst)):
            _check_name(what, text)
        wanted = budget, neighbours, table_version, domain_digest
        source = None
        if columns is not None:
            files = tuple(digest(path) for path in sorted(origin))
            source = SourceDeclared(table_version, files, digest(sorted(columns)), tuple(separate_from))
        with self.database.read() as connection:
            state = current(connection, name)
            agreed = _agrees(state, *wanted)
            state.check_analyst(analyst)
        if not (agreed and _knows(state, source)):
            try:
                state = self._declare(state, name, source, *wanted)
            except LedgerUnavailable as error:
                if not (agreed and error.read_only):  # else whoever may only read is answered what is stored
                    raise
        return LedgerAccount(name, budget, neighbours, table_version, analyst, state.opening().line, self.database)

    def _declare(
        self, state: AccountState, name: str, source: SourceDeclared | None, budget: Budget, neighbours: Neighbours,
        table_version: str, domain_digest: str,
    ) -> AccountState:  # fmt: skip
        """Write down what the ledger does not know yet: the account, the table, where it came from."""
        # takes a moment; nobody should wait for it
        total = budget.total if state.opened is None else state.opened.total
        with self.database.write() as connection:
            chain = Chain(connection)
            state = current(connection, name)
            complete = _agrees(state, budget, neighbours, table_version, domain_digest)  # another may have been quicker
            new, unknown = state.opened is None, not _knows(state, source)
            if new:
                check_form("account", name, connection.scalars(_NAMES))
                if self.database.in_memory:
                    warn_of_memory(name, source, self.database)
            if source is not None and unknown:
                known = [(r.account, r.event()) for r in records(connection, events.c.kind == SourceDeclared.kind)]
                others = [(other, event) for other, event in known if isinstance(event, SourceDeclared)]
                check_source(name, source, others, state.opened)
            if new:
                state.apply(chain.append(name, AccountOpened(budget, neighbours, total)))
            if not complete:
                chain.append(name, TableDeclared(table_version, domain_digest))
            if source is not None and unknown:
                chain.append(name, source)
        return state

    def renew(
        self, account: str, successor: str, *, people: str, overlapping: bool, signed_by: str, reason: str,
        budget: Budget | None = None,
    ) -> None:  # fmt: skip
        """Close `account` for ever, and open `successor` for `people` with a budget of its own; both, or neither.

        That nobody is in both is what whoever signs says; with `overlapping` they say that somebody may be, who is
        then counted in each, and every result says so. Relation, unit and delta stay as they are, so that what a
        person has spent in several accounts adds up; analysts' limits end with the account.
        """
        for what, text in (("account", successor), ("people", people), ("signer", signed_by), ("reason", reason)):
            _check_name(what, text)
        before = self.statement(account)
        budget = budget or before.budget
        if budget.delta != before.budget.delta:
            raise InputError(f'account "{account}" and its successor need the same delta, or both none.')
        total = budget.total  # takes a moment; nobody should wait for it
        with self.database.write() as connection:
            chain, state = Chain(connection), current(connection, account)
            state.check_open()
            line, names = (*state.opening().predecessors, account), set(connection.scalars(_NAMES))
            check_form("account", successor, names)
            if successor in names:
                raise InputError(f'account "{successor}" is there already.', hint="a successor is a new account")
            known = {current(connection, one).opening().people for one in line}
            check_people(people, overlapping, {*line, *known})
            chain.append(account, AccountClosed(signed_by, reason, successor))
            opening = AccountOpened(budget, before.neighbours, total, line, people, overlapping)
            chain.append(successor, opening)

    def line(self, account: str) -> list[Statement]:
        """The statements of an account, of those before it and of those after it, oldest first."""
        with self.database.read() as connection:
            oldest = replay(connection, account).opening().predecessors[:1] or (account,)
            found = [replay(connection, *oldest).statement()]
            while (last := found[-1].closing) and last.successor not in {one.name for one in found}:
                found.append(replay(connection, last.successor).statement())
        return found

    def accounts(self) -> list[str]:
        """The names of all accounts."""
        with self.database.read() as connection:
            return sorted(connection.scalars(_NAMES))

    def statement(self, account: str) -> Statement:
        """What was spent, on what, and what is left."""
        with self.database.read() as connection:
            return replay(connection, account).statement()

    def set_limit(self, account: str, analyst: str, limit: Cost) -> None:
        """From now on `analyst` may spend at most `limit` of the account, earlier spending included."""
        _check_name("analyst", analyst)
        with self.database.write() as connection:
            chain, state = Chain(connection), current(connection, account)
            total = state.opening().total
            state.check_analyst(analyst)
            if limit.definition is not total.definition:
                raise InputError(f'account "{account}" counts {total.symbol}, not {limit.symbol}.')
            chain.append(account, AnalystLimited(analyst, limit))

    def record_non_private(self, account: str, note: str) -> None:
        """Own up that something was published without privacy. The total is infinite then: spending stops."""
        with self.database.write() as connection:
            chain = Chain(connection)
            current(connection, account).opening()
            chain.append(account, NonPrivate(note))

    def anchor(self) -> str:
        """`seq:hash` of the last event. Keep it elsewhere, and give it to `verify` later."""
        with self.database.read() as connection:
            last = read_head(connection)
        return f"{last.seq}:{last.hash}"

    def verify(self, anchor: str | None = None) -> Verification:
        """Recompute the chain, every account and all digests of released values; or raise LedgerCorrupt.

        With an `anchor` that was kept elsewhere, a cut tail and a restored old backup are noticed too.
        """
        kept = GENESIS if anchor is None else _parse_anchor(anchor)
        states: dict[str, AccountState] = {}
        commits: dict[str, Committed] = {}
        with self.database.read() as connection:
            checked = "ok"
            if self.database.dialect == "sqlite":
                checked = connection.scalar(sa.text("PRAGMA integrity_check"))
            if checked != "ok":
                raise damaged(f"{self.name} fails SQLite's own check")
            last = GENESIS
            for record in records(connection):
                here = Head(record.seq, record.true_hash())
                if (record.prev_hash, record.hash, record.seq) != (last.hash, here.hash, last.seq + 1):
                    raise damaged(f"the chain breaks at event {record.seq}")
                if here.seq == kept.seq and here != kept:
                    raise damaged(f"event {here.seq} is not that of the anchor, so history was rewritten")
                last = here
                states.setdefault(record.account, AccountState(record.account)).apply(record)
                event = record.event()
                if isinstance(event, Committed):
                    commits[event.reservation] = event
            if last.seq < kept.seq:
                raise damaged(f"it ends at event {last.seq}, before event {kept.seq} of the anchor")
            read_head(connection)
            judged = not any(state.unknown for state in states.values())
            _verify_payloads(connection, commits, strict=judged)
        if judged:
            _verify_lines(states)
        notes = tuple(f'account "{s.name}": {note}' for s in states.values() for note in s.notes())
        return Verification(last.seq, len(states), len(commits), f"{last.seq}:{last.hash}", notes)

    def check_entry(self, entry: Entry, payload: JsonObject, *, request_id: str | None = None) -> None:
        """Raise VerificationError unless this ledger released `payload` (for this request) as `entry`."""
        with self.database.read() as connection:
            record = next(records(connection, events.c.seq == entry.sequence), None)
            event = None if record is None else record.event()
            if record is None or not isinstance(event, Committed) or entry_of(record, event) != entry:
                raise VerificationError(
                    f'entry {entry.sequence} of account "{entry.account}" is not in this ledger like this.',
                    hint="check that this is the ledger that the explanation was made with",
                )
            if record.true_hash() != record.hash:
                raise damaged(f"event {record.seq} does not have the hash it carries")
            load_payload(connection, event)
        if digest(payload) != event.payload_hash:
            raise VerificationError("the published values are not those that the ledger recorded.")
        if request_id not in (None, event.request_id):
            raise VerificationError("the published values were released for another request.")


def _verify_lines(states: dict[str, AccountState]) -> None:
    """Check that each closed account and its successor name each other, and no other account has predecessors."""
    every = list(states.values())
    closed = [(s.closed.successor, (*s.opening().predecessors, s.name)) for s in every if s.closed is not None]
    if sorted(closed) != sorted((s.name, s.opening().predecessors) for s in every if s.opening().predecessors):
        raise damaged("a closed account and its successor contradict each other")


def _verify_payloads(connection: sa.Connection, commits: dict[str, Committed], *, strict: bool) -> None:
    """Check all released values, a few at a time, because they may be large."""
    missing = dict(commits)
    with connection.execute(sa.select(releases), execution_options={"yield_per": 16}) as rows:
        for reservation, text in rows:
            event = missing.pop(reservation, None)
            if event is not None:
                check_payload(text, event)
            elif strict:  # else an event of a later dpexplain may explain them
                raise damaged("it holds released values that were never committed")
    if missing:
        raise damaged(f"the values of reservation {min(missing)} are missing")


def _agrees(state: AccountState, budget: Budget, neighbours: Neighbours, version: str, domain_digest: str) -> bool:
    """Whether everything is in the ledger already; an error when the ledger says something else."""
    if state.opened is None and not state.unknown:
        return False
    opened = state.opening()
    if (opened.budget, opened.neighbours) != (budget, neighbours):
        raise InputError(
            f'account "{state.name}" was opened with {_words(opened.budget, opened.neighbours)}; '
            f"it was now asked for with {_words(budget, neighbours)}.",
            hint="use the same budget, relation and unit, or another name if these are other people's data",
        )
    known = state.tables.get(version)
    if known not in (None, domain_digest):
        raise InputError(
            f'two tables under one name and version with different domains: "{state.name}" "{version}".',
            hint="give the changed table a new version",
        )
    return known is not None


def _knows(state: AccountState, source: SourceDeclared | None) -> bool:
    return source is None or (source.table_version, source.origin, source.columns) in state.sources


def _words(budget: Budget, neighbours: Neighbours) -> str:
    delta = "" if budget.delta is None else f", delta={float(budget.delta):g}"
    return f"epsilon={float(budget.epsilon):.12g}{delta} and {neighbours.describe()}"


def _check_name(what: str, text: str | None) -> None:
    if text is None and what == "analyst":
        return
    if not isinstance(text, str) or not text.strip() or not text.isprintable() or len(text) > 200:
        raise InputError(f"the name of the {what} must be 1 to 200 printable characters.")


def _parse_anchor(text: str) -> Head:
    seq, _, value = text.strip().partition(":")
    if not seq.isdecimal() or len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise InputError("this is not an anchor.", hint="copy what `dpexplain budget --anchor` printed")
    return Head(int(seq), value)
