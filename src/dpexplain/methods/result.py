"""Results in general: the receipt, and the way to a file and back.

A result stores the integers that left through the door and the public request they answer. Everything else, curves,
intervals, pictures, is computed from these, so a file can be checked against the ledger to the last bit.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.account import Entry
from dpexplain.core.budget import Budget, Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.domain import Domain
from dpexplain.core.noise import Noise
from dpexplain.core.release import Released
from dpexplain.core.sensitivity import Neighbours
from dpexplain.errors import InputError, InternalError, VerificationError
from dpexplain.methods.cleaning import sentences

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

FORMAT = 1
UNDETERMINED = "not determined at this price"


def cut_to(low: Floats, high: Floats, possible: tuple[float, float]) -> tuple[Floats, Floats]:
    """An interval without what is impossible anyway: `possible` is the public range of the exact values."""
    return np.clip(low, *possible), np.clip(high, *possible)


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
        """Releases that were paid for before, and that this one was computed from."""
        return list(self.request.get("builds_on", []))

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
        return f"DP: {self.budget.describe(self.cost)}; {self.neighbours.describe()}{times}"

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


@dataclass(frozen=True)
class Result(ABC):
    """Base of all results. `released` is exactly what the ledger holds for `receipt`."""

    receipt: Receipt
    released: JsonObject = field(repr=False)

    kind: ClassVar[str]
    kinds: ClassVar[dict[str, type[Result]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            Result.kinds[cls.kind] = cls

    @property
    @abstractmethod
    def values(self) -> Floats:
        """The estimates, in the order of the lines of `to_frame()`."""

    @abstractmethod
    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) around the exact statistic of the table, each covering it with probability `level`."""

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """A table for people: where, estimate, interval."""

    @abstractmethod
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw it, with its guarantee in words and its noise band."""

    @abstractmethod
    def view(self) -> JsonObject:
        """The public settings of the post-processing, which `rebuild` takes back."""

    @classmethod
    @abstractmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Result:
        """The same result again from its stored parts."""

    @property
    def possible(self) -> tuple[float, float] | None:
        """The public range of the exact values, at which intervals are cut; None where there is none."""
        return None

    def determined(self, level: float = 0.95) -> NDArray[np.bool_]:
        """For each value, whether its interval leaves out anything that is possible; if not, nothing was learned."""
        low, high = self.interval(level)
        lowest, highest = self.possible or (-np.inf, np.inf)
        return np.asarray((low > lowest) | (high < highest) | (lowest == highest))

    @property
    def doubt(self) -> str:
        """How much of the result is not determined, in words; empty where everything is."""
        known = self.determined()
        if known.all():
            return ""
        lowest, highest = self.possible or (-np.inf, np.inf)
        which = "Nothing of this is" if not known.any() else f"{(~known).sum()} of {len(known)} values are not"
        where = "everywhere" if not known.any() else "there"
        return f"{which} determined at this price: {where} any value from {lowest:.4g} to {highest:.4g} is possible."

    def part(self, name: str) -> tuple[NDArray[np.int64], Noise]:
        """The released integers of one part and the law of their noise."""
        stored = self.released["parts"][name]
        values, noise = np.array(stored["values"], dtype=np.int64), Noise.from_json(stored["noise"])
        if values.shape != (noise.size,):
            raise ValueError("the noise has another size than the values")
        return values, noise

    def to_json(self, path: str | Path | None = None) -> str:
        """The result as JSON text, also written to `path` if one is given."""
        document = {
            "dpexplain": FORMAT,
            "kind": self.kind,
            "guarantee": self.receipt.guarantee,
            "cleaning": self.receipt.cleaning(),
            "receipt": self.receipt.to_json(),
            "released": self.released,
            "view": self.view(),
            "values": [float(v) for v in self.values],
        }
        text = json.dumps(document, indent=1)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @staticmethod
    def from_json(source: str | Path) -> Result:
        """A result from JSON text or from the path of a file. It must say what follows from its released values."""
        return from_json(source)

    def __str__(self) -> str:
        """In a few lines: what was found, what was paid for it, and what is promised."""
        from dpexplain.render.text import plain, receipt_view, result_view

        return plain(result_view(self), receipt_view(self.receipt))

    def _repr_html_(self) -> str:
        from dpexplain.render.html import result_html

        return result_html(self)


def from_json(source: str | Path) -> Result:
    """A result from JSON text or from the path of a file."""
    text = str(source)
    if isinstance(source, Path) or not text.lstrip().startswith("{"):
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, ValueError):  # ValueError: not UTF-8, or no possible name of a file
            raise InputError(
                f"{str(source)[:200]!r} cannot be read.", hint="give the path of a file written by to_json", spent=""
            ) from None
    try:
        document = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if document["dpexplain"] != FORMAT:
            raise InputError(
                f"this result has format {document['dpexplain']!r}; this dpexplain reads {FORMAT}.", spent=""
            )
        result = Result.kinds[document["kind"]].rebuild(
            Receipt.from_json(document["receipt"]), document["released"], document["view"]
        )
        written, derived = np.array(document["values"], dtype=np.float64), result.values
        guarantees, cleaning = result.receipt.accepted_guarantees, result.receipt.cleaning()
    except (InputError, VerificationError):
        raise
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        MemoryError,
        RecursionError,
        InternalError,
    ):
        raise InputError("this is not a result written by dpexplain, or it is damaged.", spent="") from None
    if document.get("guarantee") not in guarantees:
        raise VerificationError(
            "the guarantee written in this file is not the one that follows from its receipt.",
            hint="it was altered, or written by another version of dpexplain",
        )
    if document.get("cleaning", []) != cleaning:
        raise VerificationError(
            "what this file says about cleaning does not follow from the domain in its receipt.",
            hint="it was altered, or written by another version of dpexplain",
        )
    if written.shape != derived.shape or not np.allclose(written, derived, rtol=1e-9, atol=1e-12):
        raise VerificationError(
            "the values in this file are not those that follow from its released integers.",
            hint="it was altered, or written by another version of dpexplain",
        )
    return result


def _finite(text: str) -> float:
    number = float(text)
    if not np.isfinite(number):
        raise ValueError(f"{text} is no number of ours")
    return number


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of ours")


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
