"""The receipt of a release: what was paid for, what it protects, where it stands in the ledger, what cleaning did.

A model was built for a table as it is; explanations are about the cleaned one. So every receipt says what cleaning does
to the values: it follows from the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dpexplain.columns import Date, Names, domain_from_json, names_of, shown_date
from dpexplain.core.account import Entry, Stored
from dpexplain.core.budget import Budget, Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.domain import Categorical, Column, Domain
from dpexplain.core.release import Released
from dpexplain.core.sensitivity import Neighbours
from dpexplain.errors import VerificationError

MOST_NAMES, MOST_SENTENCES = 6, 6


@dataclass(frozen=True)
class Whole:
    """The batch that a release is a part of: several requests under one reservation, one entry for all of them.

    The ledger has the request of the batch, with those of its parts in order, and the released values of all parts
    under the names "0/...", "1/..." and so on. A part that is computed from another one of the same batch cannot know
    that entry when it is asked for: the batch names it by `placeholder`, and `filled` says what it was in the end.
    """

    number: int  # of the part
    request: JsonObject  # of the whole batch, as the ledger has it
    payload_hash: str  # of the released values of all parts
    charged: Cost  # for all parts

    @property
    def label(self) -> str:
        """What the ledger calls the part."""
        label: str = self.request["requests"][self.number]["label"]
        return label

    def part(self, payload: JsonObject) -> JsonObject:
        """What was released for this part."""
        return part_of(payload, self.number)

    def bound(self, entry: Entry, payload: JsonObject) -> JsonObject:
        """The request of this part: from what the ledger has of the batch, its entry and all that was released."""
        requests = self.request["requests"]
        hashes = [digest(part_of(payload, number)) for number in range(len(requests))]
        return filled(requests[self.number]["request"], entry.sequence, hashes)

    def to_json(self) -> JsonObject:
        return {**self.__dict__, "charged": self.charged.to_json()}

    @classmethod
    def from_json(cls, value: JsonObject) -> Whole:
        found = cls(**{**value, "charged": Cost.from_json(value["charged"])})
        if type(found.number) is not int or not 0 <= found.number < len(found.request["requests"]):
            raise ValueError("no part of a batch")
        found.label.encode("utf-8")
        found.payload_hash.encode("ascii")
        return found


def placeholder(number: int) -> tuple[int, str]:
    """What stands for the entry and the digest of a part's values in requests of the same batch."""
    return -1 - number, digest({"values of part": number})


def part_name(number: int, part: str) -> str:
    """What the ledger calls a released part of a part of a batch."""
    return f"{number}/{part}"


def part_of(payload: JsonObject, number: int) -> JsonObject:
    """The released values of one part of a batch, under their own names."""
    start = part_name(number, "")
    return {"parts": {name.removeprefix(start): v for name, v in payload["parts"].items() if name.startswith(start)}}


def filled(request: JsonObject, sequence: int, hashes: Sequence[str]) -> JsonObject:
    """A part's request with the entry and the digests of values in the place of their placeholders."""
    places = [placeholder(number) for number in range(len(hashes))]
    known = {placeholder(number)[1]: value for number, value in enumerate(hashes)}

    def fill(value: Any) -> Any:
        if isinstance(value, dict):
            named = {"entry": sequence} if (value.get("entry"), value.get("payload")) in places else {}
            return {name: fill(one) for name, one in value.items()} | named
        if isinstance(value, list):
            return [fill(one) for one in value]
        return known.get(value, value) if isinstance(value, str) else value

    result: JsonObject = fill(request)
    return result


@cache
def package_version() -> str:
    try:
        return version("dpexplain")
    except PackageNotFoundError:  # running from a source tree that was not installed
        return "unknown"


@dataclass(frozen=True)
class Receipt:
    """What was paid for, what it protects, and where it stands in the ledger."""

    label: str
    request: JsonObject
    budget: Budget
    neighbours: Neighbours
    entry: Entry
    software: str
    replayed: bool = False  # answered from the ledger: nothing was spent this time
    domain: JsonObject | None = None  # what was declared; None in files of earlier versions
    batch: Whole | None = None  # which this is a part of: `entry` has its own values and its own price then
    also: tuple[JsonObject, ...] = field(default=(), compare=False)  # other releases that a result was computed from
    names: Names = field(default_factory=Names, compare=False)  # for people; words that no ledger vouches for

    def __post_init__(self) -> None:
        if self.domain is not None and digest(self.domain) != self.request["table"]["domain"]:
            raise VerificationError("the domain of this receipt is not the one that its request names.")
        if {self.cost.definition, self.charged.definition} != {self.budget.definition}:
            raise VerificationError("the cost of this receipt is not in the definition of its account.")
        if not self.charged <= self.cost:
            raise VerificationError("this receipt says that more was counted than was reserved.")

    @property
    def place(self) -> tuple[str, int, int]:
        """Where it stands: the account, the entry, and the part of a batch; each release has another one."""
        return self.entry.account, self.entry.sequence, 0 if self.batch is None else self.batch.number

    def hash_of(self, released: JsonObject) -> str:
        """The digest of its released values, by which later releases name them; while a batch is computed, and its
        values are in no ledger yet, what stands for it.
        """
        return self.entry.payload_hash if self.entry.sequence < 0 else digest(released)

    @property
    def ledger_entry(self) -> Entry:
        """The entry as the ledger has it: of a part, that of the whole batch."""
        whole = self.batch
        return (
            self.entry if whole is None else replace(self.entry, payload_hash=whole.payload_hash, charged=whole.charged)
        )

    @property
    def ledger_request_id(self) -> str:
        """The digest of what the ledger was asked for: of a part, the whole batch."""
        return digest(self.request if self.batch is None else self.batch.request)

    def part_of(self, stored: Stored | None) -> Stored | None:
        """This release, from what the ledger stored under `ledger_request_id`; None if it is not in there."""
        whole = self.batch
        if whole is None or stored is None:
            return stored
        if whole.bound(stored.entry, stored.payload) != self.request:
            return None
        mine = whole.part(stored.payload)
        entry = replace(stored.entry, payload_hash=digest(mine), charged=self.cost)
        return Stored(whole.label, entry, mine)

    @property
    def cost(self) -> Cost:
        """The cost: what was reserved before the rows were read, so it depends on no answer. The guarantee states it.

        Answers from a history that earlier versions wrote have no cost in their request.
        """
        return Cost.from_json(self.request["cost"]) if "cost" in self.request else self.charged

    @property
    def charged(self) -> Cost:
        """What was counted against the account in the end: less than the cost where a query loop stopped early.

        It depends on answers: the account may count it, no release may state it (docs/methods/adaptive-explanations).
        """
        return self.entry.charged

    @property
    def price(self) -> str:
        """The cost in words, and what was counted where that differs."""
        words = self.budget.describe(self.cost)
        if self.charged == self.cost:
            return words
        return f"{words}; counted against the account: {self.budget.describe(self.charged)}"

    def called(self, name: str) -> str:
        """What people call a column, or several: "age x sex" and "age + sex" too; the name itself without a title."""
        for between in (" x ", " + "):
            parts = name.split(between)
            if len(parts) > 1 and all(part in (self.domain or {}) for part in parts):
                return between.join(map(self.names.title, parts))
        return self.names.title(name)

    def called_value(self, name: str, value: Any) -> Any:
        """What people call a category of a column; every other value as it is."""
        return self.names.value(self.domain, name, value)

    @property
    def rows(self) -> int | None:
        """The number of rows, where it is public."""
        rows: int | None = self.request["table"]["rows"]
        return rows

    @property
    def public(self) -> list[str]:
        """What the guarantee takes as known to everybody; part of the request, so the ledger vouches for it."""
        return [str(fact) for fact in self.request["public"]]

    def cleaning(self, names: Sequence[str] | None = None) -> list[str]:
        """What was done to the values of each column (of `names`) before anything was computed, in words."""
        return [] if self.domain is None else sentences(domain_from_json(self.domain), names)

    @property
    def line(self) -> JsonObject:
        """The accounts that were closed before the one that paid, and whom it was opened for; empty for most."""
        found: JsonObject = self.request["table"].get("line", {})
        return found

    @property
    def _repeated(self) -> str:
        """What a person pays who is in several accounts of the line."""
        if not self.line:
            return ""
        before = [f'"{name}"' for name in self.line["after"]]
        people = f"The people of this account ({self.line['people']})"
        counted = f"a person in N of these {len(before) + 1} accounts is counted N times, once in each"
        if self.line["overlapping"]:
            return f" {people} may also be in {', '.join(before)}: {counted}."
        return f" {people} are declared to be in none of {', '.join(before)}; otherwise, {counted}."

    @property
    def _together(self) -> str:
        """What is promised about all parts of its batch."""
        if self.batch is None:
            return ""
        total, parts = Cost.from_json(self.batch.request["cost"]), len(self.batch.request["requests"])
        return f"All {parts} parts of this batch together: {self.budget.describe(total)}. "

    @property
    def earlier(self) -> list[JsonObject]:
        """Releases that were paid for before, and that this one, or what is shown of it, was computed from."""
        every = [*self.request.get("builds_on", []), *self.also]
        return list({(one["entry"], one["payload"]): one for one in every}.values())

    @cached_property
    def guarantee(self) -> str:
        """The promise in words: definition, cost, relation, unit, what is public, what is outside."""
        return self._promise(self.cost)

    @property
    def accepted_guarantees(self) -> list[str]:
        """What a file may say: the promise, or, in a file of an earlier version, one that stated what was counted.
        Those versions wrote the time of day into the ledger, so that a later file cannot pass for one of theirs.
        """
        earlier = "T" in self.entry.committed_at
        return [self.guarantee, *([self._promise(self.charged)] if earlier else [])]

    def _promise(self, cost: Cost) -> str:
        prices = [f"{self.budget.describe(Cost.from_json(e['cost']))} for entry {e['entry']}" for e in self.earlier]
        earlier = f", beside {' and '.join(prices)}, which it was computed from" if prices else ""
        outside = ["what the model itself reveals about the data it was trained on", *self.request.get("outside", [])]
        return (
            f"Differentially private with {self.budget.describe(cost)}{earlier}, "
            f"for {self.neighbours.describe()}. "
            f"{self._together}"
            f"Public: {', '.join(self.public)}. Outside the guarantee: {'; '.join(map(str, outside))}."
            f"{self._repeated}"
        )

    @property
    def short_guarantee(self) -> str:
        """One line for the margin of a plot."""
        times = "; a person in N accounts of the line: N times" if self.line.get("overlapping") else ""
        entries = ", ".join(str(one["entry"]) for one in self.earlier)
        earlier = f" beside ledger {'entries' if ', ' in entries else 'entry'} {entries}" if entries else ""
        return f"DP: {self.budget.describe(self.cost)}{earlier}; {self.neighbours.describe()}{times}"

    def to_json(self) -> JsonObject:
        entry = {**self.entry.__dict__, "charged": self.entry.charged.to_json()}
        return {
            "label": self.label,
            "request": self.request,
            "budget": self.budget.to_json(),
            "neighbours": self.neighbours.to_json(),
            "entry": entry,
            "software": self.software,
            **({} if self.domain is None else {"domain": self.domain}),
            **({"names": self.names.to_json()} if self.names else {}),
            **({} if self.batch is None else {"batch": self.batch.to_json()}),
        }

    @classmethod
    def from_json(cls, value: JsonObject) -> Receipt:
        needed = {"label", "request", "budget", "neighbours", "entry", "software"}
        if set(value) - {"domain", "batch", "names"} != needed:
            raise KeyError("a receipt has other fields")
        entry = Entry(**{**value["entry"], "charged": Cost.from_json(value["entry"]["charged"])})
        texts = (entry.account, entry.reservation, entry.event_hash, entry.payload_hash, entry.committed_at)
        for text in (*texts, value["label"], value["software"]):
            text.encode("utf-8")  # a text, and one that can be written
        if type(entry.sequence) is not int or not 0 < entry.sequence < 2**62:
            raise ValueError("no number of an entry")
        domain = None if value.get("domain") is None else domain_from_json(value["domain"])
        named = domain is not None and "names" in value
        return cls(
            value["label"],
            value["request"],
            Budget.from_json(value["budget"]),
            Neighbours.from_json(value["neighbours"]),
            entry,
            value["software"],
            domain=None if domain is None else domain.to_json(),
            batch=None if value.get("batch") is None else Whole.from_json(value["batch"]),
            names=Names.from_json(value["names"], domain) if named and domain is not None else Names(),
        )


def receipt_for(budget: Budget, neighbours: Neighbours, released: Released, domain: Domain | None) -> Receipt:
    """The receipt of a release that just came through the door."""
    return Receipt(
        released.label,
        released.request,
        budget,
        neighbours,
        released.entry,
        package_version(),
        released.replayed,
        None if domain is None else domain.to_json(),
        names=names_of(domain),
    )


def sentences(domain: Domain, names: Sequence[str] | None = None) -> list[str]:
    """One for all columns that are cleaned alike, in the order of the domain."""
    alike: dict[str, list[str]] = {}
    for name in domain if names is None else names:
        alike.setdefault(_words(domain[name]), []).append(name)
    return [f"{_listed(columns)}: {words}." for words, columns in alike.items()]


def in_brief(found: Sequence[str]) -> str:
    """The first of them, and how many there are besides."""
    more = len(found) - MOST_SENTENCES
    return " ".join(found[:MOST_SENTENCES]) + (f" And so on: {more} more in the result's file." if more > 0 else "")


def _words(column: Column) -> str:
    if isinstance(column, Categorical):
        return f"a missing or undeclared value becomes {column.missing}"
    whole = " and rounded to whole numbers" if column.integer else ""
    if isinstance(column, Date):
        whole = f" and cut to the {column.step}"
    low, high, missing = (_number(shown_date(column, value)) for value in (column.low, column.high, column.missing))
    stays = "stays missing, as the model sees it" if column.keeps_missing else f"becomes {missing}"
    return f"values are clipped to {low}..{high}{whole}; a missing one {stays}"


def _number(value: float | str | None) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
