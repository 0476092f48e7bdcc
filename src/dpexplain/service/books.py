"""Accounts and their events as they stood when the clock last struck: so that the moment of a commit is not told."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpexplain.core.canonical import JsonObject
from dpexplain.errors import DpexplainError
from dpexplain.ledger import AnalystLine, Ledger, Statement
from dpexplain.ledger.chain import Record, read_head, records
from dpexplain.ledger.database import events
from dpexplain.ledger.events import AnalystLimited
from dpexplain.project.run import left_for
from dpexplain.render.text import statement_json
from dpexplain.service.announced import announced
from dpexplain.service.tables import Served
from dpexplain.service.tokens import Principal, Role

MAX_EVENTS = 500  # of one answer


@dataclass(frozen=True)
class Page:
    """An account at a stroke of the clock."""

    statement: Statement
    seq: int
    hash: str


class Books:
    """The pages of all tables."""

    def __init__(self, tables: Mapping[str, Served]) -> None:
        self._tables, self._pages, self._lock = tables, dict[str, Page](), threading.Lock()

    def turn(self) -> None:
        """Read what has changed. Called when the clock strikes."""
        for name, served in self._tables.items():
            if served.table is None:
                continue
            try:
                self._turn(name, served)
            except DpexplainError:  # the ledger is away: the last page stands
                continue

    def _turn(self, name: str, served: Served) -> None:
        ledger = served.opened.ledger
        with ledger.database.read() as connection:
            head = read_head(connection)
        with self._lock:
            known = self._pages.get(name)
        if known is None or known.seq != head.seq:
            page = Page(announced(ledger, head.seq, [name]).statement(name), head.seq, head.hash)
            with self._lock:
                self._pages[name] = page

    def page(self, name: str) -> Page:
        """The account as it stood when the clock last struck."""
        with self._lock:
            known = self._pages.get(name)
        if known is None:
            self._turn(name, self._tables[name])
            with self._lock:
                known = self._pages[name]
        return known

    def ledger(self, name: str) -> Ledger:
        """The ledger of a table as far as it is announced: its account and those before it, up to the last stroke."""
        page = self.page(name)
        return announced(self._tables[name].opened.ledger, page.seq, [name, *page.statement.opening.predecessors])

    def statement(self, name: str) -> Statement:
        """The account as it stood when the clock last struck, with the limits of this moment.

        Limits are set by a curator and depend on no row, so they count at once; what was spent since stays untold.
        """
        page = self.page(name)
        ledger = self._tables[name].opened.ledger
        later = events.c.account == name, events.c.seq > page.seq, events.c.kind == AnalystLimited.kind
        with ledger.database.read() as connection:
            set_since = [
                event for one in records(connection, *later) if isinstance(event := one.event(), AnalystLimited)
            ]
        if not set_since:
            return page.statement
        lines = {line.analyst: line for line in page.statement.analysts}
        for event in set_since:
            none = AnalystLine(event.analyst, page.statement.total * 0, None)
            lines[event.analyst] = replace(lines.get(event.analyst, none), limit=event.limit)
        return replace(page.statement, analysts=tuple(lines[who] for who in sorted(lines)))

    def has_limit(self, name: str, analyst: str) -> bool:
        """Whether somebody may spend at all."""
        return any(line.analyst == analyst and line.limit is not None for line in self.statement(name).analysts)

    def budget(self, name: str, who: Principal) -> JsonObject:
        """The account for whoever may see all of it; for an analyst their own part, and what is left in all."""
        statement = self.statement(name)
        found = statement_json(statement)
        if who.role is Role.ANALYST:
            mine = [line for line in found["analysts"] if line["analyst"] == who.name]
            left = left_for(statement, who.name)
            found |= {"analysts": mine, "entries": [one for one in found["entries"] if one["analyst"] == who.name]}
            found["left_for_you"] = left.to_json()
            found["left_for_you_epsilon"] = statement.budget.epsilon_of(left)
        found["left_epsilon"] = statement.budget.epsilon_of(statement.left)
        return found

    def log(self, name: str, after: int) -> JsonObject:
        """The events of an account, up to the last stroke."""
        page, ledger = self.page(name), self._tables[name].opened.ledger
        where = events.c.account == name, events.c.seq > after, events.c.seq <= page.seq
        with ledger.database.read() as connection:
            found = [_event(record) for record, _ in zip(records(connection, *where), range(MAX_EVENTS), strict=False)]
        return {"events": found, "head": f"{page.seq}:{page.hash}"}


def _event(record: Record) -> JsonObject:
    return {
        "seq": record.seq,
        "account": record.account,
        "kind": record.kind,
        "version": record.version,
        "body": json.loads(record.body),
        "at": record.at,
        "prev_hash": record.prev_hash,
        "hash": record.hash,
    }
