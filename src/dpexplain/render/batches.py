"""The plan of a batch, in words and a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape

from dpexplain.render.text import _number, _table, percent

if TYPE_CHECKING:
    from dpexplain.methods.batches.forecast import BatchForecast


def batch_forecast_view(forecast: BatchForecast) -> RenderableType:
    """Each part of a batch: its share, and the error to expect of it, in the batch and alone."""
    head = ["part", "share", "epsilon", "error", "alone", "± interval", "uses"]
    lines = [
        [
            escape(line.label),
            percent(line.share) if line.share else "free",
            _number(line.epsilon) if line.share else "",
            _number(line.error),
            "" if line.alone is None else _number(line.alone),
            _number(line.interval),
            ", ".join(name.replace("_", "-") for name in line.uses),
        ]
        for line in forecast.lines
    ]
    counted = [line.label for line in forecast.lines if line.alone is None or not line.share]
    return Group(
        f"Forecast of a batch of {len(lines)} parts for {escape(forecast.price)}, {forecast.rows:,} rows; protects "
        f"{escape(forecast.neighbours.describe())}.",
        _table(head, lines),
        "error: 95 % of the values lie within this of the exact ones. alone: the same if the whole cost were spent on "
        "this request. ± interval: half the width of the 95 % interval of released values."
        + (f" Errors of {escape(', '.join(counted))} are in rows, of counts." if counted else ""),
        escape(forecast.assumption),
    )
