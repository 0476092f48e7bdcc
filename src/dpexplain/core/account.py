"""What the door needs of a ledger, as a protocol: `core` does not know how or where the ledger is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dpexplain.core.budget import Budget, Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.sensitivity import Neighbours

NOTHING: JsonObject = {"failed": True}  # what is committed for a resumable request whose body failed


@dataclass(frozen=True)
class Ask:
    """One release that is about to be paid for: public facts only."""

    label: str  # for people: "partial dependence of age"
    request: JsonObject  # everything that identifies the release, in plain JSON
    request_id: str  # its digest: the same request on the same table and model version is the same release
    cost: Cost

    @property
    def resumable(self) -> bool:
        """Whether a reservation of this request that was never used is used, instead of another one."""
        return self.request.get("resumable") is True


@dataclass(frozen=True)
class Entry:
    """Where a committed release stands in the ledger."""

    account: str
    reservation: str  # id of the reservation
    sequence: int  # number of the commit event in the ledger's chain
    event_hash: str  # hash of that event, which fixes the whole chain before it
    payload_hash: str  # digest of the released values
    committed_at: str  # UTC date of the reservation; earlier versions wrote the moment of the commit
    charged: Cost


@dataclass(frozen=True)
class Stored:
    """A committed release, as the ledger keeps it."""

    label: str
    entry: Entry
    payload: JsonObject


class Account(Protocol):
    """One budget for one protected population, spent through `reserve` and `commit` only."""

    @property
    def name(self) -> str: ...

    @property
    def budget(self) -> Budget: ...

    @property
    def neighbours(self) -> Neighbours: ...

    def declare(self, identity: str, answers: list[float]) -> list[float]:
        """Keep what a model says about public rows, unless it has been kept before; return what is kept. Free."""

    def find(self, request_id: str) -> Stored | None:
        """The committed release of an identical request, if there is one."""

    def reserve(self, ask: Ask) -> str:
        """Take `ask.cost` from the budget, durably, and return the reservation's id; or raise BudgetError.

        For a resumable request that was reserved before and did not fail, nothing is taken, and the id is that one.
        """

    def commit(self, reservation: str, payload: JsonObject, charged: Cost) -> Entry:
        """Record the released values. `charged` is at most what was reserved; the rest is given back.

        A reservation has one commit. Of a resumable request the first one counts, and is what is returned.
        """
