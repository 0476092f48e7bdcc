"""The hash chain: every event carries the hash of the one before, and `head` repeats the last one.

    hash = SHA-256 of the canonical JSON of {seq, account, kind, version, body, at, prev}

There is one chain per ledger, so its head fixes the history of all accounts. Kept elsewhere as an anchor, it
shows later whether the tail was cut off or an old backup was restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from dpexplain.core.canonical import digest
from dpexplain.errors import InternalError, LedgerCorrupt
from dpexplain.ledger.database import events, head
from dpexplain.ledger.events import Known, Unknown, damaged, from_body, to_body


class Record(NamedTuple):
    """One row of `events`."""

    seq: int
    account: str
    kind: str
    version: int
    body: str
    at: str  # UTC date, ISO 8601; earlier versions wrote the time of day too
    prev_hash: str
    hash: str

    def true_hash(self) -> str:
        names = "seq", "account", "kind", "version", "body", "at", "prev"
        return digest(dict(zip(names, self, strict=False)))  # all but the hash itself

    def event(self) -> Known | Unknown:
        return from_body(self.kind, self.version, self.body)


class Head(NamedTuple):
    seq: int
    hash: str


GENESIS = Head(0, "0" * 64)


def records(connection: sa.Connection, *where: sa.ColumnElement[bool], last: bool = False) -> Iterator[Record]:
    """The matching events in order, or the last of them, as they are written; their hashes are not checked here."""
    query = sa.select(events).where(*where)
    query = query.order_by(events.c.seq.desc()).limit(1) if last else query.order_by(events.c.seq)
    for row in connection.execute(query):
        yield _record(row)


def _record(row: sa.Row[Any]) -> Record:
    record = Record._make(row)
    # SQLite stores anything anywhere
    if [type(value) for value in record] != [int, str, str, int, str, str, str, str]:
        raise damaged(f"event {record.seq} has values of a wrong type")
    return record


def read_head(connection: sa.Connection, *, lock: bool = False) -> Head:
    """The head, checked against the last event. With `lock`, other writers wait until we end."""
    query = sa.select(head.c.seq, head.c.hash)
    heads = connection.execute(query.with_for_update() if lock else query).all()
    end = next((Head(record.seq, record.true_hash()) for record in records(connection, last=True)), GENESIS)
    if [tuple(row) for row in heads] != [end]:
        raise damaged(f"its head is not its last event, number {end.seq}")
    return end


class Chain:
    """The open end of the chain, inside one write transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self.head = read_head(connection, lock=True)

    def append(self, account: str, event: Known, at: str | None = None) -> Record:
        """Write the event, stamped with today's date or with `at`; never one that could not be read again.

        Stamps are dates because durations may depend on rows (docs/decisions/0016-coarse-time-stamps.md).
        """
        seq, at = self.head.seq + 1, at or datetime.now(UTC).date().isoformat()
        try:
            draft = Record(seq, account, event.kind, event.version, to_body(event), at, self.head.hash, "")
            same = draft.event() == event
        except (ValueError, LedgerCorrupt):
            same = False
        if not same:
            raise InternalError(f'an event "{event.kind}" would not be read as it was written, so it was not written')
        record = draft._replace(hash=draft.true_hash())
        self.head = Head(record.seq, record.hash)
        self._connection.execute(events.insert().values(record._asdict()))
        self._connection.execute(head.update().values(self.head._asdict()))
        return record
