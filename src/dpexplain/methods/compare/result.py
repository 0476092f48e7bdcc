"""The released differences of two models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dpexplain.core.canonical import JsonObject
from dpexplain.core.noise import Noise, checked_level
from dpexplain.maths.tails import combined_halfwidth
from dpexplain.methods.compare.spec import CELLS, LossDifference, Rates
from dpexplain.methods.partial_dependence.result import DependenceCurve
from dpexplain.methods.permutation_importance.result import QUANTITIES, Importance
from dpexplain.methods.permutation_importance.spec import Spec as ImportanceSpec
from dpexplain.methods.result import Floats, Result
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd

# what a rate is the share of, and whose decisions count: [what happened, first model, second model]
HAPPENED, FIRST, SECOND = np.indices((2, 2, 2)).reshape(3, -1)
MEASURES = {  # (the rows it is about, what a decision adds to it)
    "positive rate": (np.ones(CELLS), 1 + 0 * HAPPENED),
    "true positive rate": (HAPPENED, 1 + 0 * HAPPENED),
    "false positive rate": (1 - HAPPENED, 1 + 0 * HAPPENED),
    "accuracy": (np.ones(CELLS), 2 * HAPPENED - 1),
}
EVERYBODY = "everybody"
PLACES = np.linspace(0, 1, 9)  # of a difference between 0 and 1 (or -1), where half-widths are computed
FINE = 2_000  # differences that are tried, on either side of none


def names_of(receipt: Receipt) -> tuple[str, str]:
    """What the two models are called."""
    each = [receipt.request["model"][one] for one in ("first", "second")]
    first, second = (f"{model['name']} {model['version']}" for model in each)
    return first, second


def in_words(receipt: Receipt) -> str:
    """Which is taken from which."""
    first, second = names_of(receipt)
    return f"{second} less {first}"


@dataclass(frozen=True)
class DifferenceCurve(DependenceCurve):
    """The mean difference of two predictions at every point of a public grid: the second model less the first."""

    kind: ClassVar[str] = "difference-curve"
    quantity: ClassVar[str] = "mean difference of predictions"

    @property
    def name(self) -> str:
        return "Difference of partial dependence"

    @property
    def caveat(self) -> str:
        narrow = (
            ""
            if not self._limited
            else (
                f" Differences of more than {self.output.high:.4g} for one row count as this much, also in the exact "
                "values that intervals are about."
            )
        )
        return f"Shown is {in_words(self.receipt)}.{narrow} {super().caveat}".strip()

    @property
    def _limited(self) -> bool:
        each = [self.receipt.request["model"][one]["output"] for one in ("first", "second")]
        widest = max(one["high"] for one in each) - min(one["low"] for one in each)
        return bool(self.output.high < widest)


@dataclass(frozen=True)
class DifferenceSpec(ImportanceSpec):
    """The spec of importances, of differences of losses."""

    loss: LossDifference


@dataclass(frozen=True)
class ImportanceDifference(Importance):
    """By how much more the second model needs each feature than the first, the largest growth first."""

    kind: ClassVar[str] = "importance-difference"
    spec_type: ClassVar[type[ImportanceSpec]] = DifferenceSpec

    @property
    def quantity(self) -> str:  # type: ignore[override]
        return f"difference of the {QUANTITIES[self.spec.loss.name]}"

    @property
    def title(self) -> str:
        return f"Difference of permutation importance for {self.spec.target}"

    @property
    def caveat(self) -> str:
        return f"Shown is {in_words(self.receipt)}. {super().caveat}"


@dataclass(frozen=True)
class RateDifferences(Result):
    """Differences of rates, for everybody and for each group: the second model less the first.

    Each interval inverts a test: a difference r of D rows among N belongs to it where the released D - r N is not
    farther from zero than its noise goes. So it holds whatever N is, small groups included.
    """

    kind: ClassVar[str] = "rate-differences"
    spec_type: ClassVar[type[Rates]] = Rates
    lines_shown: ClassVar[int] = 40

    @property
    def title(self) -> str:
        return f"Differences of rates for {self.spec.target}"

    @property
    def caveat(self) -> str:
        return (
            f"Shown is {in_words(self.receipt)}, for decisions from {self.spec.threshold:.4g} on. Intervals are "
            "of each difference by itself, and about these rows: they leave out sampling."
        )

    @property
    def possible(self) -> tuple[float, float]:
        return -1.0, 1.0

    @cached_property
    def _released(self) -> tuple[Floats, Noise]:
        counts, noise = self.part("counts")
        return counts.astype(np.float64), noise

    @cached_property
    def groups(self) -> list[tuple[str, slice]]:
        """The groups by name, with the place of their counts; everybody is the first entry's groups together."""
        found, start = list[tuple[str, slice]](), 0
        for crossing in self.spec.groups:
            end = start + CELLS * crossing.size
            if not found:
                found.append((EVERYBODY, slice(start, end)))
            if crossing.partitions:
                for i, cells in enumerate(crossing.cells):
                    found.append((group_words(cells), slice(start + CELLS * i, start + CELLS * (i + 1))))
            start = end
        return found

    @cached_property
    def _sums(self) -> list[tuple[str, str, Floats, Floats, Floats]]:
        """For each line: group, measure, the counts, and what each of them adds to the difference and to the rows."""
        counts, _ = self._released
        lines = []
        for name, place in self.groups:
            mine = counts[place]
            repeats = len(mine) // CELLS
            for measure, (rows, sign) in MEASURES.items():
                among = np.tile(np.asarray(rows, dtype=np.float64), repeats)
                moved = among * np.tile(sign * (SECOND - FIRST), repeats)
                lines.append((name, measure, mine, moved, among))
        return lines

    def _number(self, name: str, measure: str) -> int | None:
        """How many rows a rate is about, where that is public."""
        return self.receipt.rows if name == EVERYBODY and measure in ("positive rate", "accuracy") else None

    @cached_property
    def values(self) -> Floats:
        found = []
        for name, measure, counts, moved, among in self._sums:
            rows = max(float(self._number(name, measure) or among @ counts), 1.0)
            found.append(float(np.clip(moved @ counts / rows, -1, 1)))
        return np.array(found)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        checked_level(level)
        ends = np.array([self._ends(*line, level) for line in self._sums])
        return ends[:, 0], ends[:, 1]

    def _ends(
        self, name: str, measure: str, counts: Floats, moved: Floats, among: Floats, level: float
    ) -> tuple[float, float]:
        """(low, high): all differences that the released counts do not speak against."""
        _, noise = self._released
        difference, public = float(moved @ counts), self._number(name, measure)
        if public is not None:
            half = combined_halfwidth([(noise, moved)], 0.0, level)
            return _cut((difference - half) / public, (difference + half) / public)
        tried, rows = np.arange(-FINE, FINE + 1) / FINE, float(among @ counts)
        # noise of D - r N, at a few r: a half-width is a convex function of r, so chords are never below it
        at = np.concatenate([-PLACES[:0:-1], PLACES])
        halves = np.array([combined_halfwidth([(noise, moved - r * among)], 0.0, level) for r in at])
        held = tried[np.abs(difference - tried * rows) <= np.interp(tried, at, halves)]
        step = 1 / FINE
        if held.size:
            return _cut(float(held[0]) - step, float(held[-1]) + step)
        if rows <= 0 or abs(difference) > rows:  # no rows, or more of them than all
            return -1.0, 1.0
        return _cut(difference / rows - step, difference / rows + step)  # it lies between two that were tried

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        where = [f"{measure}, {name}" for name, measure, *_ in self._sums]
        known = self.determined()
        return pd.DataFrame({"rate": where, "difference": self.values, "low": low, "high": high, "determined": known})

    def view(self) -> JsonObject:
        return {}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Self:
        found = cls(receipt, released)
        if view or len(found._released[0]) != found.spec.size or not found.spec.groups:
            raise ValueError("no differences of rates of ours")
        names_of(receipt)
        found.interval()
        return found


def group_words(group: Mapping[str, Any] | None) -> str:
    """A group by its columns and their values."""
    return ", ".join(f"{column} = {_shown(value)}" for column, value in group.items()) if group else EVERYBODY


def _cut(low: float, high: float) -> tuple[float, float]:
    return max(-1.0, low), min(1.0, high)


def _shown(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"{value[0]:g} to {value[1]:g}"
    return "missing" if value is None else str(value)
