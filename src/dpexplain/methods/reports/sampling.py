"""Two kinds of doubt about one number: noise that was added for privacy, and the chance by which rows are a sample.

An interval of ours is about the table: it covers what the rows say exactly. Whoever wants to conclude from the rows to
a population has a second doubt, which no privacy cost takes away. Here it is estimated from released numbers alone, by
textbook formulas for independent draws: Wilson's interval for a share of m rows, the mean and mean square of errors,
Hanley and McNeil's variance for an AUC. Rows that belong to one person are not independent: then it is too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpexplain.maths.estimates import Estimate

if TYPE_CHECKING:
    from dpexplain.methods.performance.result import Performance

Z = 1.959964
SHOWN_RATES = ("accuracy", "selection_rate", "true_positive_rate", "false_positive_rate")
IN_WORDS = {
    "accuracy": "right decisions",
    "selection_rate": "positive decisions",
    "true_positive_rate": "found among true cases",
    "false_positive_rate": "false alarms among others",
    "auc": "ranked rightly (AUC)",
    "mean_absolute_error": "off by, on average",
    "mean_residual": "too low by, on average (below 0: too high)",
}
MOST_GROUPS = 12


@dataclass(frozen=True)
class Doubt:
    """One number with both intervals; `sample` is None where too little was released to say."""

    who: str
    what: str
    value: float
    noise: tuple[float, float]
    sample: tuple[float, float] | None
    scale: tuple[float, float]  # of the picture
    percent: bool

    @property
    def larger(self) -> str:
        """Which of the two doubts is larger, in words."""
        if self.sample is None:
            return "privacy noise"
        widths = [high - low for low, high in (self.noise, self.sample)]
        return "privacy noise" if widths[0] > widths[1] else "sampling"


def doubts(perf: Performance) -> list[Doubt]:
    """The figures of everybody and of groups that a reader meets first."""
    groups: list[Any] = [None, *(group for by in perf.by for group in perf.cells_of(by)[:MOST_GROUPS])]
    return [one for group in groups for one in _of_group(perf, group)]


def _of_group(perf: Performance, group: Any) -> list[Doubt]:
    who = "everybody" if group is None else ", ".join(_named(perf, name, value) for name, value in group.items())
    size = perf.size_of(group)
    if math.isnan(size) or size < 1:
        return []
    if perf.task == "regression":
        return _numbers(perf, group, who, size)
    names = ("accuracy",) if perf.task == "classes" else (*SHOWN_RATES, "auc") if group is None else SHOWN_RATES
    found = []
    for name in names:
        told = perf.figure(name, group=group)
        if told.determined:
            found.append(
                _doubt(who, name, told, _sample(perf, name, told, group, size), (0.0, 1.0), percent=name != "auc")
            )
    return found


def _named(perf: Performance, name: str, value: Any) -> str:
    """A group with its column: sex: Female."""
    shown = perf.receipt.called_value(name, value)
    return f"{perf.receipt.called(name)}: {shown}" if isinstance(shown, str) else perf.group_title({name: value})


def _sample(perf: Performance, name: str, told: Estimate, group: Any, size: float) -> tuple[float, float] | None:
    if perf.task == "classes" or name in ("accuracy", "selection_rate"):
        return wilson(told.value, size)
    base = perf.figure("base_rate", group=group)
    if not base.determined:
        return None
    positive = base.value * size
    if name == "auc":
        return of_area(told.value, positive, size - positive)
    return wilson(told.value, positive if name == "true_positive_rate" else size - positive)


def _numbers(perf: Performance, group: Any, who: str, size: float) -> list[Doubt]:
    off, squared, bias = (
        perf.figure(name, group=group) for name in ("mean_absolute_error", "root_mean_squared_error", "mean_residual")
    )
    found = []
    for name, told in (("mean_absolute_error", off), ("mean_residual", bias)):
        if not told.determined:
            continue
        sample = None
        if squared.determined and size >= 2:
            half = Z * math.sqrt(max(squared.value**2 - told.value**2, 0.0) / size)
            sample = told.value - half, told.value + half
        ends = [told.low, told.high, *(sample or ()), 0.0]
        found.append(_doubt(who, name, told, sample, (min(ends), max(ends)), percent=False))
    return found


def _doubt(
    who: str,
    name: str,
    told: Estimate,
    sample: tuple[float, float] | None,
    scale: tuple[float, float],
    *,
    percent: bool,
) -> Doubt:
    return Doubt(who, IN_WORDS[name], told.value, (told.low, told.high), sample, scale, percent)


def wilson(share: float, rows: float) -> tuple[float, float] | None:
    """Where the share of a population may be, of which so many rows show this one."""
    if rows < 1:
        return None
    centre, shrunk = share + Z * Z / (2 * rows), 1 + Z * Z / rows
    half = Z * math.sqrt(max(share * (1 - share), 0.0) / rows + Z * Z / (4 * rows * rows))
    return max(0.0, (centre - half) / shrunk), min(1.0, (centre + half) / shrunk)


def of_area(area: float, positive: float, negative: float) -> tuple[float, float] | None:
    """Where the AUC of a population may be (Hanley and McNeil 1982)."""
    if positive < 1 or negative < 1:
        return None
    one, two = area / (2 - area), 2 * area * area / (1 + area)
    spread = area * (1 - area) + (positive - 1) * (one - area**2) + (negative - 1) * (two - area**2)
    half = Z * math.sqrt(max(spread, 0.0) / (positive * negative))
    return max(0.0, area - half), min(1.0, area + half)
