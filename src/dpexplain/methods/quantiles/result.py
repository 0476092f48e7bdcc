"""Released quantiles of one feature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpexplain.columns import labels, unit_of
from dpexplain.core.canonical import JsonObject
from dpexplain.core.noise import checked_level
from dpexplain.maths.coded import fraction_of
from dpexplain.maths.ladder import Ladder, rank_errors
from dpexplain.methods.quantiles.spec import Spec
from dpexplain.methods.result import Floats, Result
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Quantiles(Result):
    """One value for each probability, never decreasing.

    `interval` covers the exact quantiles of the (cleaned) column, all of them at once: the exact quantile of p is the
    smallest value that at least a share p of the rows does not exceed.
    """

    kind: ClassVar[str] = "quantiles"
    spec_type: ClassVar[type[Spec]] = Spec
    picture: ClassVar[str] = "dpexplain.render.plots:plot_quantiles"

    @property
    def ladder(self) -> Ladder:
        ladder: Ladder = self.spec.ladder
        return ladder

    @property
    def feature(self) -> str:
        return self.ladder.feature

    @property
    def probs(self) -> Floats:
        return np.array([float(prob) for prob in self.ladder.probs])

    @cached_property
    def positions(self) -> list[int]:
        """The released positions in parts of cells, with both ends of the range."""
        return self.ladder.stored(self.released["parts"], "level")

    @cached_property
    def values(self) -> Floats:
        return self.ladder.values(self.positions[1:-1])

    def rows(self, level: float = 0.95) -> tuple[float, float]:
        """(fewest, most) rows: equal where their number is public; else around the released one, with this level."""
        public = self.receipt.rows
        if public is not None:
            return float(public), float(public)
        (count,), noise = self.part("count")
        half = noise.halfwidth(level)
        return max(0.0, count - half), max(0.0, count + half)

    def rank_error(self, level: float = 0.95) -> Floats:
        """For each probability, how far the share of rows below the released position may be from it; all at once."""
        (fewest, _), errors = self._rows_and_errors(level)
        return np.minimum(errors[1:-1] / fewest, 1.0) if fewest > 0 else np.ones(len(self.probs))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) around the exact quantiles, all at once: the nearest released quantiles whose ranks are surely
        lower and surely higher; the declared bounds where there is none.
        """
        (fewest, _), errors = self._rows_and_errors(level)
        column = self.ladder.column
        if fewest <= 0:
            return np.full(len(self.probs), column.low), np.full(len(self.probs), column.high)
        ends = np.array([float(p) for p in self.ladder.ends])
        gap = fewest * (self.probs[:, None] - ends)  # rows between each quantile and each place
        below, above = self.ladder.reach(self.positions)
        low = np.where(gap > errors, below, column.low).max(axis=1)
        high = np.where(-gap >= errors, above, column.high).min(axis=1)
        return low, high

    def _rows_and_errors(self, level: float) -> tuple[tuple[float, float], Floats]:
        """The number of rows, and how many rows each place may be off, all of it right with probability `level`."""
        checked_level(level)
        if self.receipt.rows is None:
            level = (1 + level) / 2  # both the count and the positions must be right: each misses half as often
        rows = self.rows(level)
        numbers = range(1, len(self.ladder.levels) + 1)
        scales = [fraction_of(self.released["parts"][f"level-{number}"]["scale"]) for number in numbers]
        return rows, rank_errors(self.ladder, self.positions, scales, rows[1], level)

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        ends: dict[str, Any] = {"value": self.values, "low": low, "high": high}
        if unit_of(self.receipt.domain, self.feature):
            ends = {name: labels(self.receipt.domain, self.feature, values.tolist()) for name, values in ends.items()}
        return pd.DataFrame({"prob": self.probs, **ends})

    def view(self) -> JsonObject:
        return {}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Quantiles:  # noqa: ARG003 - no settings
        result = cls(receipt, released)
        result.interval()  # reads every part, so that a damaged one is noticed here
        return result
