"""Results in general: the receipt, and the way to a file and back.

A result stores the integers that left through the door and the public request they answer. Everything else, curves,
intervals, pictures, is computed from these, so a file can be checked against the ledger to the last bit.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.noise import Noise
from dpexplain.errors import InputError, InternalError, VerificationError
from dpexplain.methods.registry import methods
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from dpexplain.methods.marginals.result import Marginals

Floats = NDArray[np.float64]

FORMAT = 1
# what a file can raise that no `to_json` wrote
DAMAGED = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
    InternalError,
)


def cut_to(low: Floats, high: Floats, possible: tuple[float, float]) -> tuple[Floats, Floats]:
    """An interval without what is impossible anyway: `possible` is the public range of the exact values."""
    return np.clip(low, *possible), np.clip(high, *possible)


@dataclass(frozen=True)
class Result(ABC):
    """Base of all results. `released` is exactly what the ledger holds for `receipt`.

    Files, pages, pictures, the command line and `verify` ask a result about itself: what stands below with a default is
    overridden where a kind of result differs.
    """

    receipt: Receipt
    released: JsonObject = field(repr=False)

    kind: ClassVar[str]
    spec_type: ClassVar[Any] = None  # what the request's "spec" is read as; without one, it stays JSON
    kinds: ClassVar[dict[str, type[Result]]] = {}
    # "module:function", imported when it is needed: (result, ax) -> ax, and (result) -> what a terminal shows
    picture: ClassVar[str] = "dpexplain.render.plots:plot_values"
    text_view: ClassVar[str] = "dpexplain.render.text:general_view"
    lines_shown: ClassVar[int] = 16  # lines of `to_frame()` in a terminal
    has_missing: ClassVar[bool] = False  # whether a missing value is a point or a cell of its own

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            Result.kinds[cls.kind] = cls

    @cached_property
    def spec(self) -> Any:
        """The public spec that was released, as the ledger has it."""
        written = self.receipt.request["spec"]
        return written if self.spec_type is None else self.spec_type.from_json(written)

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
    def view(self) -> JsonObject:
        """The public settings of the post-processing, which `rebuild` takes back."""

    @classmethod
    @abstractmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Result:
        """The same result again from its stored parts."""

    @property
    def title(self) -> str:
        """What it is, in words."""
        return self.receipt.label

    @property
    def caveat(self) -> str:
        """What a reader of the intervals has to know besides."""
        return ""

    @property
    def basis(self) -> str:
        """What values and intervals rest on besides the release, in words; empty where it is nothing."""
        return ""

    @property
    def footnote(self) -> str:
        """What stands under its picture, before the guarantee."""
        return self.caveat

    @property
    def interval_about(self) -> str:
        """What its intervals know of, in a few words; empty where its picture has none."""
        return "privacy noise"

    @property
    def lead(self) -> list[str]:
        """Sentences that a page shows before the numbers."""
        return []

    @property
    def findings(self) -> list[str]:
        """What was found, in sentences, for a terminal."""
        return self.lead

    @property
    def feature(self) -> str | None:
        """The feature that it is about, where there is one."""
        return None

    @property
    def file_name(self) -> str:
        """What its files are called, as far as a file system allows."""
        return self.kind

    @property
    def picture_size(self) -> tuple[float, float]:
        """Width and height of its picture in inches."""
        return 6.4, 4.6

    @property
    def marginals(self) -> Marginals | None:
        """Released histograms that it holds, for reuse."""
        return None

    @property
    def relies_on(self) -> list[Result]:
        """Other releases that stand in the same file; `verify` checks them too."""
        return []

    def may_rely_on(self, other: Result) -> bool:
        """Whether the other release is about the table that this one is about."""
        return bool(other.receipt.request["table"] == self.receipt.request["table"])

    def more_tables(self) -> dict[str, pd.DataFrame]:
        """Tables besides `to_frame()`, by their names."""
        return {}

    def more_facts(self) -> JsonObject:
        """What a program should know besides its tables."""
        return {}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw it, with its guarantee in words and its noise band."""
        drawn: Axes = resolve_name(self.picture)(self, ax)
        return drawn

    @property
    def possible(self) -> tuple[float, float] | None:
        """The public range of the exact values, at which intervals are cut; None where there is none."""
        return None

    def determined(self, level: float = 0.95) -> NDArray[np.bool_]:
        """For each value, whether its interval leaves out anything that is possible; if not, nothing was learned."""
        return self.leaves_out(*self.interval(level))

    def promise_with(self, also: Sequence[JsonObject]) -> None:
        """Make the releases that values rest on besides part of the promise: their cost adds to that of this one."""
        if self.receipt.also != tuple(also):
            object.__setattr__(self, "receipt", replace(self.receipt, also=tuple(also)))

    def leaves_out(self, low: Floats, high: Floats) -> NDArray[np.bool_]:
        """Whether these intervals leave out anything that is possible."""
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
        possible = f"{where} any value from {lowest:.4g} to {highest:.4g} is possible"
        return f"{which} determined with this epsilon: {possible}."

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

    def __str__(self) -> str:
        """In a few lines: what was found, what was paid for it, and what is promised."""
        from dpexplain.render.text import plain, receipt_view, result_view

        return plain(result_view(self), receipt_view(self.receipt))

    def _repr_html_(self) -> str:
        from dpexplain.render.html import result_html

        return result_html(self)


R = TypeVar("R", bound=Result)


class Results(Sequence[R]):
    """Several results of one release: one cost, one receipt."""

    def __init__(self, results: Sequence[R]) -> None:
        self._all = tuple(results)

    @overload
    def __getitem__(self, key: int) -> R: ...
    @overload
    def __getitem__(self, key: slice) -> Self: ...
    def __getitem__(self, key: int | slice) -> R | Self:
        return type(self)(self._all[key]) if isinstance(key, slice) else self._all[key]

    def __len__(self) -> int:
        return len(self._all)

    @property
    def receipt(self) -> Receipt:
        return self._all[0].receipt

    def to_json(self, folder: str | Path) -> list[Path]:
        """One file for each, which can be published and verified by itself."""
        from dpexplain.render.files import write_results

        return write_results(self._all, Path(folder), pictures=False)

    def _repr_html_(self) -> str:
        return "".join(result._repr_html_() for result in self._all)


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
        result = kind_of(document["kind"]).rebuild(
            Receipt.from_json(document["receipt"]), document["released"], document["view"]
        )
        written, derived = np.array(document["values"], dtype=np.float64), result.values
        guarantees, cleaning = result.receipt.accepted_guarantees, result.receipt.cleaning()
    except (InputError, VerificationError):
        raise
    except (*DAMAGED, InternalError):
        raise InputError("this is not a result written by dpexplain, or it is damaged.", spent="") from None
    wrong = ""
    if document.get("guarantee") not in guarantees:
        wrong = "the guarantee written in this file is not the one that follows from its receipt."
    elif document.get("cleaning", []) != cleaning:
        wrong = "what this file says about cleaning does not follow from the domain in its receipt."
    elif written.shape != derived.shape or not np.allclose(written, derived, rtol=1e-9, atol=1e-12):
        wrong = "the values in this file are not those that follow from its released integers."
    if wrong:
        raise VerificationError(wrong, hint="it was altered, or written by another version of dpexplain")
    return result


def kind_of(name: str) -> type[Result]:
    """The class of results that files call by this name."""
    if name not in Result.kinds:  # of a method that nobody has used yet
        for method in methods().values():
            for kind in method.results:
                method.load(kind)
    return Result.kinds[name]


def _finite(text: str) -> float:
    number = float(text)
    if not np.isfinite(number):
        raise ValueError(f"{text} is no number of ours")
    return number


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of ours")
