"""What the events of one account add up to, applied in the order in which they were written.

Statements and verification share this one replay. It raises LedgerCorrupt when events contradict each other: a commit
without its reservation, more charged than was reserved, more reserved than was left, other totals than the events
before it add up to. Spending goes on from the totals in the account's last event (`current`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import sqlalchemy as sa

from dpexplain.accidents import check_form
from dpexplain.core.account import NOTHING
from dpexplain.core.budget import Budget, Cost
from dpexplain.core.canonical import digest, fraction_text, parse_fraction
from dpexplain.core.sensitivity import Neighbours
from dpexplain.errors import BudgetError, InputError, InternalError, LedgerTooNew
from dpexplain.ledger.chain import Record, records
from dpexplain.ledger.database import events
from dpexplain.ledger.events import (
    SPENDING,
    AccountClosed,
    AccountOpened,
    AnalystLimited,
    Committed,
    Known,
    ModelDeclared,
    Reserved,
    SourceDeclared,
    Spent,
    TableDeclared,
    Unknown,
    damaged,
)

LONGEST = 2_000  # characters of an amount in an event; longer sums are found by replay
RELEASED, LOST, FAILED = "released", "spent, nothing released", "failed, nothing released"
NO_VALUES = digest(NOTHING)


@dataclass(frozen=True)
class Row:
    """One reservation, and what came of it."""

    sequence: int  # of the commit; of the reservation while nothing is released
    at: str
    status: str  # RELEASED, LOST or FAILED
    cost: Cost  # the price: what was reserved
    charged: Cost  # what counts: less than the price where a query loop gave some of it back
    label: str
    analyst: str | None
    table_version: str
    reservation: str
    request_id: str


@dataclass(frozen=True)
class AnalystLine:
    analyst: str
    spent: Cost
    limit: Cost | None


@dataclass(frozen=True)
class Statement:
    """An account as its owner reads it.

    Nothing is left, and `notes` say why, when the total is unknown (`spent` and `spent_epsilon` are None) or
    infinite (`spent` is None, `spent_epsilon` is inf).
    """

    name: str
    budget: Budget
    neighbours: Neighbours
    total: Cost
    spent: Cost | None
    left: Cost
    spent_epsilon: float | None  # at the account's delta, if it has one
    analysts: tuple[AnalystLine, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    opening: AccountOpened  # its predecessors, if it has any, and whom it was opened for
    closing: AccountClosed | None  # by whom, why, and its successor; None while it is open
    dates: tuple[str, ...]  # of its opening and, if it is closed, of its closing


class AccountState:
    def __init__(self, name: str) -> None:
        self.name = name
        self.opened: AccountOpened | None = None
        self.closed: AccountClosed | None = None
        self.dates: list[str] = []  # of opening and closing
        self.tables: dict[str, str] = {}  # version -> digest of the domain
        self.sources: set[tuple[str, tuple[str, ...], str]] = set()  # version, origin, columns
        self.models: dict[str, list[float]] = {}  # identity -> answers
        self.limits: dict[str | None, Cost] = {}
        self.rows: dict[str, Row] = {}  # by reservation
        self.amounts: dict[str | None, Fraction] = {}  # spent, by analyst
        self.unknown: list[str] = []
        self.non_private: list[str] = []

    def apply(self, record: Record) -> None:
        event = record.event()
        if isinstance(event, Unknown):
            self.unknown.append(f'event {record.seq} is an unknown "{event.kind}" of version {event.version}')
            return
        try:
            wrong = self._apply(event, record)
        except InternalError:
            wrong = "counts in another definition than its account"
        # what follows an unknown event cannot be judged; spending has stopped there anyway
        if wrong and not self.unknown:
            raise damaged(f'event {record.seq} of account "{self.name}" {wrong}')

    def _apply(self, event: Known, record: Record) -> str:
        """Add one event to the sums; say what is wrong with it, if anything."""
        if isinstance(event, AccountOpened):
            first, self.opened = self.opened is None, self.opened or event
            self.dates.append(record.at[:10])
            fits = event.budget.epsilon_of(event.total) <= float(event.budget.epsilon) * (1 + 1e-9)
            return "" if first and fits else "opens the account wrongly"
        if self.opened is None:
            return "comes before the opening of its account"
        match event:
            case TableDeclared():
                known = self.tables.setdefault(event.table_version, event.domain_digest)
                return "" if known == event.domain_digest else "gives a table a second domain"
            case AccountClosed():
                again, self.closed = self.closed is not None, event
                self.dates.append(record.at[:10])
                return "closes the account a second time" if again else ""
            case SourceDeclared():
                self.sources.add((event.table_version, event.origin, event.columns))
                return ""
            case ModelDeclared():
                known_answers = self.models.setdefault(event.identity, event.answers)
                return "" if known_answers is event.answers else "declares a model a second time"
            case AnalystLimited():
                self.limits[event.analyst] = event.limit + Cost(self.opened.total.definition, Fraction(0))
                return ""
            case Reserved():
                new = event.reservation not in self.rows and self.closed is None
                fits = new and event.cost <= self.left(event.analyst)
                asked = event.label, event.analyst, event.table_version, event.reservation, event.request_id
                self.rows[event.reservation] = Row(record.seq, record.at, LOST, event.cost, event.cost, *asked)
                self.amounts = self.spend(event.analyst, event.cost.amount)
                return self._totals(event) if fits else "reserves more than is left"
            case Committed():
                row = self.rows.get(event.reservation)
                if row is None or (row.status, row.request_id) != (LOST, event.request_id):
                    return "releases what was not reserved"
                self.rows[event.reservation] = replace(
                    row, sequence=record.seq, at=record.at, charged=event.charged,
                    status=FAILED if event.payload_hash == NO_VALUES else RELEASED,
                )  # fmt: skip
                self.amounts = self.spend(row.analyst, event.charged.amount - row.cost.amount)
                return self._totals(event) if event.charged <= row.cost else "charges more than was reserved"
            case _:
                self.non_private.append(f"event {record.seq} was published without privacy: {event.note}")
                return ""

    def spend(self, analyst: str | None, amount: Fraction) -> dict[str | None, Fraction]:
        """What is spent after this amount more."""
        return {**self.amounts, analyst: self.amounts.get(analyst, Fraction(0)) + amount}

    def _totals(self, event: Reserved | Committed) -> str:
        wrong = event.spent is not None and amounts_of(event.spent) != self.amounts
        return "has other totals than the events before it" if wrong else ""

    def opening(self) -> AccountOpened:
        if self.opened is None:
            self.check_open()
            raise InputError(f'the ledger has no account "{self.name}".', hint="`dpexplain budget` lists the accounts")
        return self.opened

    def check_open(self) -> None:
        """Raise unless the total is known and finite, and the account not closed."""
        if self.unknown:
            raise LedgerTooNew(
                f'account "{self.name}": {self.unknown[0]}, so its total is unknown.', hint="update dpexplain"
            )
        if self.non_private:
            raise BudgetError(
                f'account "{self.name}" is closed: {self.non_private[0]}.',
                hint="no budget makes up for it; other people's data belong in another account",
            )

        if self.closed is not None:
            raise BudgetError(
                f'account "{self.name}" is closed, signed by {self.closed.signed_by}: {self.closed.reason}.',
                hint=f'what it released is answered again, free; its successor is account "{self.closed.successor}"',
            )

    def check_analyst(self, analyst: str | None) -> None:
        """Raise for a name that differs only in form from one that has a limit or has spent something."""
        check_form("analyst", analyst, (*self.limits, *self.amounts))

    def left(self, analyst: str | None = None) -> Cost:
        """What is left in the account, and, with an analyst, within the analyst's own limit."""
        total = self.opening().total
        left = total.amount - sum(self.amounts.values()) if self.closed is None else Fraction(0)
        if analyst in self.limits:
            left = min(left, self.limits[analyst].amount - self.amounts.get(analyst, 0))
        return Cost(total.definition, max(left, Fraction(0)))

    def statement(self) -> Statement:
        opening = self.opening()
        definition = opening.total.definition
        spent = Cost(definition, sum(self.amounts.values(), Fraction(0)))
        stopped = bool(self.unknown or self.non_private)
        people = {who: self.amounts.get(who, Fraction(0)) for who in (*self.amounts, *self.limits) if who is not None}
        lines = (AnalystLine(who, Cost(definition, people[who]), self.limits.get(who)) for who in sorted(people))
        return Statement(
            name=self.name, budget=opening.budget, neighbours=opening.neighbours, total=opening.total,
            spent=None if stopped else spent, left=Cost(definition, Fraction(0)) if stopped else self.left(),
            spent_epsilon=None if self.unknown else math.inf if stopped else opening.budget.epsilon_of(spent),
            analysts=tuple(lines), rows=tuple(self.rows.values()), notes=self.notes(),
            opening=opening, closing=self.closed, dates=tuple(self.dates),
        )  # fmt: skip

    def notes(self) -> tuple[str, ...]:
        return (*self.unknown, *self.non_private)


def spent_of(amounts: Mapping[str | None, Fraction]) -> Spent | None:
    """Amounts as an event keeps them; None where one is too long."""
    spent = tuple((who, fraction_text(amounts[who])) for who in sorted(amounts, key=str))
    return None if any(len(amount) > LONGEST for _, amount in spent) else spent


def amounts_of(spent: Spent) -> dict[str | None, Fraction]:
    return {who: parse_fraction(amount) for who, amount in spent}


def current(connection: sa.Connection, name: str) -> AccountState:
    """The state of an account without its `rows` and `models`, by the totals in its last reservation or release."""
    about, spending = events.c.account == name, sa.tuple_(events.c.kind, events.c.version)
    last = records(connection, about, events.c.kind.in_(dict(SPENDING)), last=True)
    event = next((record.event() for record in last), None)
    if not isinstance(event, Reserved | Committed) or event.spent is None:
        return replay(connection, name)
    state = AccountState(name)
    for record in records(connection, about, spending.not_in([*SPENDING, (ModelDeclared.kind, 1)])):
        state.apply(record)
    state.amounts = amounts_of(event.spent)
    return state


def replay(connection: sa.Connection, name: str) -> AccountState:
    """The state of an account; an empty one when there is no such account."""
    state = AccountState(name)
    for record in records(connection, events.c.account == name):
        state.apply(record)
    return state
