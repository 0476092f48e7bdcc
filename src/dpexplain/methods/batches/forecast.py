"""What a batch will be worth, before anything is paid."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from dpexplain.core.canonical import JsonObject
from dpexplain.core.sensitivity import Neighbours

if TYPE_CHECKING:
    import pandas as pd

    from dpexplain.methods.batches.division import Division


@dataclass(frozen=True)
class Line:
    """One part of a batch: what it gets of the total, and the error to expect of each of its numbers.

    error, interval  as in an `Outlook`; where a curve is sharpened, the error is that of the sharpened values
    alone     the error if the whole total were spent on it; None for what the others share
    uses      which of the shared results it is handed
    """

    label: str
    share: float
    epsilon: float
    error: float
    interval: float
    alone: float | None
    uses: tuple[str, ...] = ()
    law: str = ""
    note: str = ""


@dataclass(frozen=True)
class BatchForecast:
    """The forecast of a set of requests for one total, and how it would be divided.

    worth  how many rows synthetic rows are taken to be worth; nobody knows it before they are there
    """

    rows: int
    neighbours: Neighbours
    price: str
    epsilon: float
    delta: float | None
    rho: float | None
    worth: float
    lines: tuple[Line, ...]
    division: Division = field(repr=False, compare=False)

    @property
    def assumption(self) -> str:
        """What the errors rest on, in words."""
        source = "the stand-in" if any("stand_in" in line.uses for line in self.lines) else "the declared domain"
        return (
            f"Errors of curves are those of sharpened values, if synthetic rows of {source} are worth "
            f"{self.worth:.3g} rows of the table: the middle, by orders of magnitude, of what they can be worth. "
            "Proven intervals do not depend on it."
        )

    def to_frame(self) -> pd.DataFrame:
        """A line for each part."""
        import pandas as pd

        columns = ("label", "share", "epsilon", "error", "alone", "interval", "uses")
        return pd.DataFrame([{name: getattr(line, name) for name in columns} for line in self.lines])

    def to_json(self) -> JsonObject:
        return {
            "rows": self.rows,
            "neighbours": self.neighbours.to_json(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            "worth": self.worth,
            "assumption": self.assumption,
            "parts": [{**asdict(line), "uses": list(line.uses)} for line in self.lines],
        }

    def __str__(self) -> str:
        from dpexplain.render.batches import batch_forecast_view
        from dpexplain.render.text import plain

        return plain(batch_forecast_view(self))
