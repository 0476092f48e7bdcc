"""The receipt of a release: what was paid for, what it protects, where it stands in the ledger, what cleaning did.

A model was built for a table as it is; explanations are about the cleaned one. So every receipt says what cleaning does
to the values: it follows from the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from dpexplain.core.account import Entry
from dpexplain.core.budget import Budget, Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.domain import Categorical, Column, Domain
from dpexplain.core.release import Released
from dpexplain.core.sensitivity import Neighbours
from dpexplain.errors import VerificationError

MOST_NAMES, MOST_SENTENCES = 6, 6


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
    also: tuple[JsonObject, ...] = field(default=(), compare=False)  # other releases that a result was computed from

    def __post_init__(self) -> None:
        if self.domain is not None and digest(self.domain) != self.request["table"]["domain"]:
            raise VerificationError("the domain of this receipt is not the one that its request names.")
        if {self.cost.definition, self.charged.definition} != {self.budget.definition}:
            raise VerificationError("the price of this receipt is not in the definition of its account.")
        if not self.charged <= self.cost:
            raise VerificationError("this receipt says that more was counted than was reserved.")

    @property
    def cost(self) -> Cost:
        """The price: what was reserved before the rows were read, so it depends on no answer. The guarantee states it.

        Answers from a history that earlier versions wrote have no price in their request.
        """
        return Cost.from_json(self.request["cost"]) if "cost" in self.request else self.charged

    @property
    def charged(self) -> Cost:
        """What was counted against the account in the end: less than the price where a query loop stopped early.

        It depends on answers: the account may count it, no release may state it (docs/methods/adaptive-explanations).
        """
        return self.entry.charged

    @property
    def price(self) -> str:
        """The price in words, and what was counted where that differs."""
        words = self.budget.describe(self.cost)
        if self.charged == self.cost:
            return words
        return f"{words}; counted against the account: {self.budget.describe(self.charged)}"

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
        return [] if self.domain is None else sentences(Domain.from_json(self.domain), names)

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
    def _earlier(self) -> list[JsonObject]:
        """Releases that were paid for before, and that this one, or what is shown of it, was computed from."""
        every = [*self.request.get("builds_on", []), *self.also]
        return list({one["entry"]: one for one in every}.values())

    @property
    def guarantee(self) -> str:
        """The promise in words: definition, price, relation, unit, what is public, what is outside."""
        return self._promise(self.cost)

    @property
    def accepted_guarantees(self) -> list[str]:
        """What a file may say: the promise, or, in a file of an earlier version, one that stated what was counted.
        Those versions wrote the time of day into the ledger, so that a later file cannot pass for one of theirs.
        """
        earlier = "T" in self.entry.committed_at
        return [self.guarantee, *([self._promise(self.charged)] if earlier else [])]

    def _promise(self, cost: Cost) -> str:
        prices = [f"{self.budget.describe(Cost.from_json(e['cost']))} for entry {e['entry']}" for e in self._earlier]
        earlier = f", beside {' and '.join(prices)}, which it was computed from" if prices else ""
        outside = ["what the model itself reveals about the data it was trained on", *self.request.get("outside", [])]
        return (
            f"Differentially private with {self.budget.describe(cost)}{earlier}, "
            f"for {self.neighbours.describe()}. "
            f"Public: {', '.join(self.public)}. Outside the guarantee: {'; '.join(map(str, outside))}."
            f"{self._repeated}"
        )

    @property
    def short_guarantee(self) -> str:
        """One line for the margin of a plot."""
        times = "; a person in N accounts of the line: N times" if self.line.get("overlapping") else ""
        entries = ", ".join(str(one["entry"]) for one in self._earlier)
        earlier = f" beside ledger entries {entries}" if entries else ""
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
        }

    @classmethod
    def from_json(cls, value: JsonObject) -> Receipt:
        if set(value) - {"domain"} != {"label", "request", "budget", "neighbours", "entry", "software"}:
            raise KeyError("a receipt has other fields")
        entry = Entry(**{**value["entry"], "charged": Cost.from_json(value["entry"]["charged"])})
        texts = (entry.account, entry.reservation, entry.event_hash, entry.payload_hash, entry.committed_at)
        for text in (*texts, value["label"], value["software"]):
            text.encode("utf-8")  # a text, and one that can be written
        if type(entry.sequence) is not int or not 0 < entry.sequence < 2**62:
            raise ValueError("no number of an entry")
        return cls(
            value["label"],
            value["request"],
            Budget.from_json(value["budget"]),
            Neighbours.from_json(value["neighbours"]),
            entry,
            value["software"],
            domain=None if value.get("domain") is None else Domain.from_json(value["domain"]).to_json(),
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
    stays = "stays missing, as the model sees it" if column.keeps_missing else f"becomes {_number(column.missing)}"
    return f"values are clipped to {_number(column.low)}..{_number(column.high)}{whole}; a missing one {stays}"


def _number(value: float | str | None) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
