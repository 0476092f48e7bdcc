"""What a report will be worth, before anything is paid: its sections, their shares and errors, and what cannot be told.

An error is compared with what the public model does on public rows: an effect cannot be seen when the error to expect
is larger than the whole spread of predictions. Errors fall at least as fast as one over epsilon and one over the
number of rows, so both say about how much would be needed. Intervals of importances do not, because they hold chance
and what the limit may have cut off: what they would need is found by forecasts at other numbers of rows and epsilons.
They have to be narrower than the largest importance to expect; else no column can be said to matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from dpexplain.columns import names_of
from dpexplain.core.canonical import JsonObject
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError
from dpexplain.methods.batches.division import Question, TooSmall
from dpexplain.methods.batches.forecast import BatchForecast, Line
from dpexplain.methods.batches.release import plan_batch
from dpexplain.methods.registry import method_of
from dpexplain.methods.reports.request import ReportRequest
from dpexplain.methods.reports.wanted import SYNTHETIC, Wanted, wanted
from dpexplain.methods.request import Request
from dpexplain.models import Model

SHARPENED = ("effects", "importance", "groups")
TELLING = 0.5  # of the signal: an error of at most this lets large answers be seen
SHED = ("interactions", "groups", "clusters", "importance", "effects", "performance")  # tried without, in this order
DOUBLINGS, HALVINGS = 12, 6  # of the rows, or of epsilon, until intervals are narrow enough


@dataclass(frozen=True)
class Outlook:
    """What one section is expected to be worth.

    told     whether its error leaves anything to be seen; None where nothing public says how large answers are
    signal   how large answers may be, by the public model on public rows
    rows     by how much the number of rows would have to grow; None where nobody can say, or no growth is enough
    epsilon  by how much epsilon would have to grow instead
    """

    section: str
    line: Line
    told: bool | None
    signal: float | None = None
    rows: float | None = None
    epsilon: float | None = None


@dataclass(frozen=True)
class ReportForecast:
    """The forecast of a report: that of its batch, by section."""

    wanted: Wanted
    batch: BatchForecast
    outlooks: tuple[Outlook, ...]
    question: Question = field(repr=False, compare=False)
    rows_known: bool = True  # or guessed, where the number of rows is private and nobody has said about how many

    @property
    def price(self) -> str:
        return self.batch.price

    @property
    def left_out(self) -> tuple[str, ...]:
        return self.wanted.left_out

    @property
    def doubts(self) -> list[str]:
        """A sentence for each section that will tell little, with what would be needed."""
        return [self._needs(one) for one in self.outlooks if one.told is False]

    def needed(self, section: str) -> str:
        """How many rows, or which epsilon, a section would need, in a sentence; empty where it is not known."""
        one = next((one for one in self.outlooks if one.section == section and one.told is False), None)
        if one is None or (one.rows is None and one.epsilon is None):
            return ""
        rows = "" if one.rows is None else f"{_round_up(self.batch.rows * one.rows):,.0f} rows"
        epsilon = "" if one.epsilon is None else f"epsilon = {_round_up(self.batch.epsilon * one.epsilon):g}"
        if not epsilon:
            return f"About {rows} would be needed; with these, no epsilon would do."
        return f"About {rows} would be needed, or {epsilon} with these." if rows else f"It needs about {epsilon}."

    def _needs(self, one: Outlook) -> str:
        error = _by_the_rows(one.section, one.line)
        if one.section != "importance":
            why = f"the error to expect (±{error:.2g}) is more than there is to see."
        else:
            why = (
                f"expected intervals of ±{error:.2g} are wider than the largest importance to expect (about "
                f"{one.signal:.2g}), so it may not show which column matters most."
            )
        return f"{one.section}: {why} {self.needed(one.section)}".strip()

    @property
    def hopeless(self) -> bool:
        """Whether no section that can be judged would tell anything."""
        judged = [one.told for one in self.outlooks if one.told is not None]
        return bool(judged) and not any(judged)

    def require_hope(self) -> None:
        """Refuse a report that would show noise alone."""
        if self.hopeless and self.rows_known:
            raise InputError(
                f"with {self.batch.rows:,} rows and {self.price} this report would show noise. {self.doubts[0]}",
                hint="more rows, a larger epsilon, or fewer sections=[...] and features=[...]",
            )

    def to_frame(self) -> Any:
        """A line for each section."""
        import pandas as pd

        lines = [
            (one.section, one.line.label, one.line.share, one.line.epsilon, one.line.error, one.line.interval, one.told)
            for one in self.outlooks
        ]
        return pd.DataFrame(lines, columns=["section", "asks", "share", "epsilon", "error", "interval", "told"])

    def to_json(self) -> JsonObject:
        return {
            **self.batch.to_json(),
            "sections": list(self.wanted.sections),
            "told": {one.section: one.told for one in self.outlooks},
            "doubts": self.doubts,
            "left_out": list(self.left_out),
        }

    def __str__(self) -> str:
        from dpexplain.render.reports import report_forecast_view
        from dpexplain.render.text import plain

        return plain(report_forecast_view(self))


def plan_report(
    request: ReportRequest,
    table: PrivateTable,
    model: Model,
    *,
    epsilon: Any = None,
    rho: Any = None,
    clustering: Any = None,
    weights: Any = None,
    rows: int | None = None,
) -> ReportForecast:
    """Which sections there are and what each is worth. Reads no row and spends nothing."""
    if not isinstance(table, PrivateTable):
        raise InputError("table must be a dpx.PrivateTable.", spent="")
    asked = wanted(request, table.domain, model, names_of(table.domain), clustering=clustering)
    price: dict[str, Any] = {"epsilon": epsilon, "rho": rho}
    about: dict[str, Any] = {"clustering": clustering, "rows": rows}
    said = _weights(asked, weights)
    try:
        question, batch = plan_batch(asked.requests, table, model, **price, **about, weights=said)
    except TooSmall as error:
        raise _fitting(asked, table, model, price, about, error) from None
    by_label = {line.label: line for line in batch.lines}
    outlooks = tuple(
        _outlook(name, by_label[one.label], asked, question)
        for name, one in asked.by_section.items()
        if one.label in by_label
    )
    known = rows is not None or table.rows_hint is not None
    return ReportForecast(asked, batch, outlooks, question, known)


def _weights(asked: Wanted, weights: Any) -> list[float | None] | None:
    """Weights by section as weights of the requests."""
    if weights is None:
        return None
    unknown = [name for name in weights if name not in asked.sections]
    if unknown:
        raise InputError(
            f"weights names the section {str(unknown[0])[:60]!r}, which this report does not have.",
            hint="it has: " + ", ".join(asked.sections),
        )
    return [weights.get(name) for name in asked.by_section]


def _fitting(
    asked: Wanted, table: PrivateTable, model: Model, price: dict[str, Any], about: dict[str, Any], error: InputError
) -> InputError:
    """Why a report is not possible, and which of its sections a smaller one could have."""
    shed = list[str]()
    for name in SHED:
        if name not in asked.by_section:
            continue
        shed.append(name)
        smaller = asked.without(shed)
        if not set(smaller.by_section) - {SYNTHETIC}:
            break
        try:
            plan_batch(smaller.requests, table, model, **price, **about)
        except InputError:
            continue
        fits = ", ".join(one for one in smaller.by_section if one != SYNTHETIC)
        return InputError(
            f"epsilon is too small for all sections of this report. {error.message}",
            hint=f"these fit: {fits}. Name them with sections=[...], or use a larger epsilon",
        )
    return InputError(error.message, hint=error.hint)


def _outlook(section: str, line: Line, asked: Wanted, question: Question) -> Outlook:
    signal = asked.signals.get(section)
    if signal is None or not math.isfinite(line.error):
        return Outlook(section, line, None)
    error = float(_by_the_rows(section, line))
    told = error <= signal
    if section != "importance":
        factor = max(1.0, error / (TELLING * signal))
        return Outlook(section, line, told, signal, factor, factor)
    growth = (None, None) if told else _growth(asked.by_section[section], line, question, signal)
    return Outlook(section, line, told, signal, *growth)


def _growth(request: Request, line: Line, question: Question, wanted: float) -> tuple[float | None, float | None]:
    """By how much the rows, or else epsilon, would have to grow for intervals that are no wider than wanted."""
    method = method_of(request)
    outlook, setting = method.load(method.outlook), replace(question.setting, model=None)  # intervals need no model
    budget = question.table.budget

    def interval(rows: float, epsilon: float) -> float:
        hint = None if setting.hint is None else math.ceil(setting.hint * rows)
        larger = replace(setting, rows=math.ceil(setting.rows * rows), hint=hint)
        try:
            found = outlook(request, larger, budget.cost(epsilon=line.epsilon * epsilon))
        except InputError:
            return math.inf
        return float(found.error if found.interval is None else found.interval)

    ways: list[Callable[[float], float]] = [lambda factor: interval(factor, 1.0), lambda factor: interval(1.0, factor)]
    rows, epsilon = (_least_factor(way, wanted) for way in ways)
    return rows, epsilon


def _least_factor(error: Callable[[float], float], wanted: float) -> float | None:
    """About the smallest factor from which on an error is small enough; None if it never is, or already is."""
    if error(1.0) <= wanted:  # what makes it wider is not the price: nobody can say
        return None
    high = next((2.0**k for k in range(1, DOUBLINGS + 1) if error(2.0**k) <= wanted), None)
    if high is None:
        return None
    low = high / 2
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if error(middle) <= wanted else (middle, high)
    return high


def _by_the_rows(section: str, line: Line) -> float:
    """The error by the release alone: sharpened values have a small one too where they say what was known before."""
    return max(line.error, line.interval) if section in SHARPENED else line.error


def _round_up(value: float) -> float:
    """A little more than a value, in two digits."""
    step = 10.0 ** (math.floor(math.log10(max(value, 1e-300))) - 1)
    return math.ceil(value / step - 1e-9) * step
