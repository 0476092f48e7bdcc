"""One account of a ledger: what the door spends from (the protocol `core.account.Account`).

    reserve   in one transaction: add up exactly, refuse what does not fit, write the cost down
    commit    in one transaction: the released values, and their digest in the chain

What is reserved counts in full until it is committed. A process that dies in between leaves it spent; an identical
request that is `resumable` goes on with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from time import sleep

import sqlalchemy as sa

from dpexplain.core.account import Ask, Entry, Stored
from dpexplain.core.budget import Budget, Cost, Definition, digits
from dpexplain.core.canonical import JsonObject, canonical_json, digest
from dpexplain.core.sensitivity import Neighbours
from dpexplain.errors import BudgetError, InternalError, LedgerError, LedgerUnavailable, ReleaseLost
from dpexplain.ledger.chain import Chain, Record, records
from dpexplain.ledger.database import Database, events, releases
from dpexplain.ledger.events import Committed, ModelDeclared, Reserved, damaged
from dpexplain.ledger.state import NO_VALUES, AccountState, current, spent_of

BACKOFF = (0.1, 0.3, 1.0, 3.0)  # seconds between the tries to record a release that is already paid for


@dataclass(frozen=True)
class LedgerAccount:
    """One budget for one protected population. Made by `Ledger.account`."""

    name: str
    budget: Budget
    neighbours: Neighbours
    table_version: str
    analyst: str | None
    line: JsonObject = field(repr=False)  # of a successor: the accounts before it, and its people
    database: Database = field(repr=False)

    def declare(self, identity: str, answers: list[float]) -> list[float]:
        """Keep what a model says about public rows, unless it has been kept before; return what is kept. Free."""
        with self.database.read() as connection:
            kept = self._declared(connection, identity)
        if kept is None:
            try:
                with self.database.write() as connection:
                    chain, kept = Chain(connection), self._declared(connection, identity)  # another may be quicker
                    if kept is None:
                        chain.append(self.name, ModelDeclared(identity, answers))
            except LedgerUnavailable as error:
                if not error.read_only:  # else: answered what is stored, and refused all else
                    raise
        return answers if kept is None else kept

    def _declared(self, connection: sa.Connection, identity: str) -> list[float] | None:
        declared = (record.event() for record in self._records(connection, identity=identity))
        return next((event.answers for event in declared if isinstance(event, ModelDeclared)), None)

    def find(self, request_id: str) -> Stored | None:
        """The latest committed release of an identical request, if there is one. Costs nothing."""
        with self.database.read() as connection:
            reserved, committed = self._about(connection, request_id=request_id)
            same = [(record, event) for record, event in committed if event.reservation in reserved]
            if not same:
                return None
            record, event = same[-1]
            label = reserved[event.reservation][1].label
            return Stored(label, entry_of(record, event), load_payload(connection, event))

    def reserve(self, ask: Ask) -> str:
        """Take `ask.cost` from the budget, durably, and return the reservation's id; or raise BudgetError."""
        with self.database.write() as connection:
            chain = Chain(connection)
            state = current(connection, self.name)
            state.check_open()
            state.check_analyst(self.analyst)
            if ask.resumable:
                reserved, committed = self._about(connection, request_id=ask.request_id)
                if kept := reserved.keys() - {e.reservation for _, e in committed if e.payload_hash == NO_VALUES}:
                    return min(kept)  # unused, or another process was quicker: its values are the answer
            if not ask.cost <= state.left(self.analyst):
                raise too_dear(ask, state, self.analyst)
            # the head never repeats, so neither does this id
            reservation = digest({"after": chain.head.hash, "request_id": ask.request_id})[:32]
            spent = spent_of(state.spend(self.analyst, ask.cost.amount))
            asked = ask.request_id, ask.label, ask.request, ask.cost, self.analyst, self.table_version
            chain.append(self.name, Reserved(reservation, *asked, spent))
        return reservation

    def commit(self, reservation: str, payload: JsonObject, charged: Cost) -> Entry:
        """Record the released values. `charged` is at most what was reserved; the rest is given back.

        It is tried again while the database is away: the cost is paid, and asking twice is harmless, because
        the same values for the same reservation are the same commit.
        """
        text = canonical_json(payload)
        pauses = list(BACKOFF)
        while True:
            try:
                return self._commit(reservation, text, charged)
            except LedgerError as error:
                if not pauses or not isinstance(error, LedgerUnavailable):
                    raise ReleaseLost(
                        f"the release could not be recorded: {error.message}",
                        hint=error.hint,
                        spent="What was reserved stays spent, and no value was released.",
                    ) from None
            sleep(pauses.pop(0))

    def _commit(self, reservation: str, text: str, charged: Cost) -> Entry:
        payload_hash = hashlib.sha256(text.encode("ascii")).hexdigest()
        with self.database.write() as connection:
            chain = Chain(connection)
            reserved, committed = self._about(connection, reservation=reservation)
            for record, event in committed:
                same = (event.payload_hash, event.charged) == (payload_hash, charged)
                if not same and not reserved[reservation][1].request.get("resumable"):
                    raise InternalError("a reservation was used for a second release")
                return entry_of(record, event)
            if reservation not in reserved:
                raise InternalError("a release was made without a reservation")
            asked, paid = reserved[reservation]
            if not charged <= paid.cost:
                raise InternalError("a release was charged more than was reserved for it")
            state = current(connection, self.name)
            spent = spent_of(state.spend(paid.analyst, charged.amount - paid.cost.amount))
            event = Committed(reservation, paid.request_id, payload_hash, charged, spent)
            connection.execute(releases.insert().values(reservation=reservation, payload=text))
            return entry_of(chain.append(self.name, event, at=asked.at), event)

    def _about(
        self, connection: sa.Connection, **wanted: str
    ) -> tuple[dict[str, tuple[Record, Reserved]], list[tuple[Record, Committed]]]:
        """The reservations and releases of this account with this reservation or request."""
        found = [(record, record.event()) for record in self._records(connection, **wanted)]
        reserved = {event.reservation: (record, event) for record, event in found if isinstance(event, Reserved)}
        return reserved, [(record, event) for record, event in found if isinstance(event, Committed)]

    def _records(self, connection: sa.Connection, **wanted: str) -> Iterator[Record]:
        """The events of this account whose body has this value in this field, by the index of the field."""
        ((name, value),) = wanted.items()
        return records(connection, events.c.account == self.name, self.database.body_has(name, value))


def load_payload(connection: sa.Connection, event: Committed) -> JsonObject:
    """The released values of a commit, checked against its digest."""
    text = connection.scalar(sa.select(releases.c.payload).where(releases.c.reservation == event.reservation))
    payload: JsonObject = json.loads(check_payload(text, event))
    return payload


def check_payload(text: object, event: Committed) -> str:
    if not isinstance(text, str) or hashlib.sha256(text.encode()).hexdigest() != event.payload_hash:
        raise damaged(f"the values of reservation {event.reservation} are not those that were committed")
    return text


def entry_of(record: Record, event: Committed) -> Entry:
    place = record.account, event.reservation, record.seq, record.hash
    return Entry(*place, event.payload_hash, record.at, event.charged)


def too_dear(ask: Ask, state: AccountState, analyst: str | None) -> BudgetError:
    """The cost, what is left, and the most that would go through; rounded so that it stays true."""
    opening, left = state.opening(), state.left(analyst)
    budget, amount, place = opening.budget, opening.total.amount, f'in account "{state.name}"'
    if left != state.left():
        amount, place = state.limits[analyst].amount, f'for analyst "{analyst}" {place}'
    rest, whole, alone = digits(left.amount, up=False), digits(amount, up=False), ""
    most = f"epsilon={rest}"
    if budget.definition is Definition.ZCDP:
        alone = f" (epsilon={digits(Fraction(budget.epsilon_of(ask.cost)))} on its own)"
        most = f"epsilon={digits(Fraction(budget.epsilon_of(left)), up=False)} (rho={rest})"
    price = f"{ask.cost.symbol}={digits(ask.cost.amount)}{alone}"
    return BudgetError(
        f'"{ask.label}" costs {price} but only {rest} of {whole} is left {place}.',
        hint=f"use at most {most}, or ask for fewer things" if left.amount else "nothing is left to spend",
    )
