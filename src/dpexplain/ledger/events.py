"""The facts a ledger remembers, for ever.

Each event is a frozen dataclass with a kind and a version, whose meaning never changes: a new meaning is a
new version or a new kind. Reading goes through the table `KINDS`, never by importing what the file says. What
this dpexplain does not know becomes `Unknown`: it makes the account's total unknown and stops spending.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, get_args

from dpexplain.core.budget import Budget, Cost
from dpexplain.core.canonical import JsonObject, canonical_json, fraction_text, parse_fraction
from dpexplain.core.sensitivity import Neighbours
from dpexplain.errors import InternalError, LedgerCorrupt

Spent = tuple[tuple[str | None, str], ...]  # for each analyst an amount as text; None: nobody was named


class Event:
    kind: ClassVar[str]
    version: ClassVar[int] = 1


@dataclass(frozen=True)
class AccountOpened(Event):
    """A budget for one protected population; the first event of an account. Version 1 knew no renewals."""

    kind: ClassVar[str] = "account-opened"
    version: ClassVar[int] = 2
    budget: Budget
    neighbours: Neighbours
    total: Cost  # written down, because the float search for rho may end a hair apart on another machine
    predecessors: tuple[str, ...] = ()  # the accounts of its line that were closed before it, oldest first
    people: str = ""  # of an account with predecessors: whom it was opened for, in words
    overlapping: bool = False  # whether these people may be in the predecessors too

    @property
    def line(self) -> JsonObject:
        """What a request says of the accounts before this one: nothing, if there are none."""
        said = {"after": list(self.predecessors), "people": self.people, "overlapping": self.overlapping}
        return said if self.predecessors else {}


@dataclass(frozen=True)
class AccountClosed(Event):
    """From now on nothing is reserved; the next event opens the successor, in the same transaction."""

    kind: ClassVar[str] = "account-closed"
    signed_by: str
    reason: str
    successor: str


@dataclass(frozen=True)
class TableDeclared(Event):
    """A version of the table, and the digest of its declared domain."""

    kind: ClassVar[str] = "table-declared"
    table_version: str
    domain_digest: str


@dataclass(frozen=True)
class SourceDeclared(Event):
    """Where the rows of a table version came from, as digests, to notice a second account over the same data."""

    kind: ClassVar[str] = "source-declared"
    table_version: str
    origin: tuple[str, ...]  # of the absolute path of each file, if it came from files
    columns: str  # of the names of its columns; not their types, which some readers infer from rows
    separate_from: tuple[str, ...]  # accounts that were said to hold other people's data


@dataclass(frozen=True)
class ModelDeclared(Event):
    """What a model says about public synthetic rows; `identity` is the digest of its name, version and domain. Free."""

    kind: ClassVar[str] = "model-declared"
    identity: str
    answers: list[float]


@dataclass(frozen=True)
class AnalystLimited(Event):
    """How much one analyst may spend of the account; the latest one counts."""

    kind: ClassVar[str] = "analyst-limited"
    analyst: str
    limit: Cost


@dataclass(frozen=True)
class Reserved(Event):
    """A cost, taken before the data is read. Without a Committed it stays spent in full.

    `spent` is what the events of the account up to this one add up to. Version 1 did not say it, and sums of very long
    fractions are not written down.
    """

    kind: ClassVar[str] = "reserved"
    version: ClassVar[int] = 2
    reservation: str
    request_id: str
    label: str
    request: JsonObject
    cost: Cost
    analyst: str | None
    table_version: str
    spent: Spent | None = None


@dataclass(frozen=True)
class Committed(Event):
    """The digest of the released values, what they cost in the end, and `spent` as in Reserved."""

    kind: ClassVar[str] = "committed"
    version: ClassVar[int] = 2
    reservation: str
    request_id: str
    payload_hash: str
    charged: Cost
    spent: Spent | None = None


@dataclass(frozen=True)
class NonPrivate(Event):
    """Something was published without privacy: the total is infinite."""

    kind: ClassVar[str] = "non-private"
    note: str


@dataclass(frozen=True)
class Unknown:
    """An event of a later dpexplain. It is read, never written."""

    kind: str
    version: int


_Account = AccountOpened | AccountClosed | AnalystLimited | NonPrivate
Known = _Account | TableDeclared | SourceDeclared | ModelDeclared | Reserved | Committed
KINDS: dict[tuple[str, int], type[Known]] = {(c.kind, v): c for c in get_args(Known) for v in range(1, c.version + 1)}
SPENDING = [(cls.kind, version) for (_, version), cls in KINDS.items() if cls in (Reserved, Committed)]


def _only(*kinds: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, kinds):
            raise TypeError
        return value

    return check


def _numbers(value: Any) -> list[float]:
    return [float(_only(float, int)(one)) for one in _only(list)(value)]


def _spent(value: Any) -> Spent | None:
    if value is None:
        return None
    return tuple((_only(str, type(None))(who), fraction_text(parse_fraction(n))) for who, n in _only(list)(value))


# how to read a field, by its name; the others are text
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "budget": Budget.from_json,
    "neighbours": Neighbours.from_json,
    **dict.fromkeys(("total", "limit", "cost", "charged"), Cost.from_json),
    "request": _only(dict),
    "analyst": _only(str, type(None)),
    **dict.fromkeys(
        ("origin", "separate_from", "predecessors"), lambda texts: tuple(map(_only(str), _only(list)(texts)))
    ),
    "overlapping": _only(bool),
    "answers": _numbers,
    "spent": _spent,
}


def to_body(event: Known) -> str:
    """The event as canonical JSON; amounts are fractions in text, so nothing is rounded."""
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    return canonical_json({k: v.to_json() if hasattr(v, "to_json") else v for k, v in values.items()})


def from_body(kind: str, version: int, body: str) -> Known | Unknown:
    """The event that `to_body` wrote. A known kind that cannot be read means that the ledger is damaged."""
    cls = KINDS.get((kind, version))
    if cls is None:
        return Unknown(kind, version)
    try:
        values = json.loads(body)
        said = [f.name for f in fields(cls) if version == cls.version or f.default is MISSING]
        if set(values) != set(said):
            raise KeyError
        return cls(**{name: _READERS.get(name, _only(str))(value) for name, value in values.items()})
    except (KeyError, TypeError, ValueError, ArithmeticError, InternalError):
        # whatever the wrong text makes of our constructors, it is the text that is wrong
        raise damaged(f'an event "{kind}" cannot be read') from None


def damaged(what: str) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"the ledger was changed or is damaged: {what}.",
        hint="stop spending and keep the file as it is. A backup does not know what was spent after it was made: "
        "compare it with an anchor you kept (dpexplain budget --check-anchor) before you use it",
    )
