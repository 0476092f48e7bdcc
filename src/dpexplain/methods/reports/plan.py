"""What a report will be worth, before anything is paid: its sections, their shares and errors, and what cannot be told.

An error is compared with what the public model does on public rows: an effect cannot be seen when the error to expect
is larger than the whole spread of predictions. Errors fall at least as fast as one over the price and one over the
number of rows, so both say about how much would be needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from dpexplain.columns import names_of
from dpexplain.core.canonical import JsonObject
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError
from dpexplain.methods.batches.division import Question, TooSmall
from dpexplain.methods.batches.forecast import BatchForecast, Line
from dpexplain.methods.batches.release import plan_batch
from dpexplain.methods.reports.request import ReportRequest
from dpexplain.methods.reports.wanted import SYNTHETIC, Wanted, wanted
from dpexplain.models import Model

SHARPENED = ("effects", "importance")
TELLING = 0.5  # of the signal: an error of at most this lets large answers be seen
SHED = ("interactions", "groups", "clusters", "importance", "effects", "performance")  # tried without, in this order


@dataclass(frozen=True)
class Outlook:
    """What one section is expected to be worth.

    told    whether its error leaves anything to be seen; None where nothing public says how large answers are
    factor  by how much rows, or the price, would have to grow for it to be told well
    """

    section: str
    line: Line
    told: bool | None
    factor: float | None


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

    def _needs(self, one: Outlook) -> str:
        assert one.factor is not None
        rows, epsilon = self.batch.rows * one.factor, self.batch.epsilon * one.factor
        error = _by_the_rows(one.section, one.line)
        return (
            f"{one.section}: the error to expect (±{error:.2g}) is more than there is to see. About "
            f"{_round_up(rows):,.0f} rows would be needed, or epsilon = {_round_up(epsilon):g} with these."
        )

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
        _outlook(name, by_label[one.label], asked) for name, one in asked.by_section.items() if one.label in by_label
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
            f"the price is too small for all sections of this report. {error.message}",
            hint=f"these fit: {fits}. Name them with sections=[...], or use a larger epsilon",
        )
    return InputError(error.message, hint=error.hint)


def _outlook(section: str, line: Line, asked: Wanted) -> Outlook:
    signal = asked.signals.get(section)
    if signal is None or not math.isfinite(line.error):
        return Outlook(section, line, None, None)
    error = _by_the_rows(section, line)
    return Outlook(section, line, error <= signal, max(1.0, error / (TELLING * signal)))


def _by_the_rows(section: str, line: Line) -> float:
    """The error by the release alone: sharpened values have a small one too where they say what was known before."""
    return max(line.error, line.interval) if section in SHARPENED else line.error


def _round_up(value: float) -> float:
    """A little more than a value, in two digits."""
    step = 10.0 ** (math.floor(math.log10(max(value, 1e-300))) - 1)
    return math.ceil(value / step - 1e-9) * step
