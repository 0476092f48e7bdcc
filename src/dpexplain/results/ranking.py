"""Items in the order of a released score: features by importance, pairs by interaction, whatever was voted on."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpexplain.core.canonical import JsonObject
from dpexplain.core.noise import Noise
from dpexplain.results.base import Floats, Result

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Ranking(Result):
    """Items, the best first. `values`, `interval` and `to_frame` all stand in that order.

    Intervals cover the exact score of the (cleaned) table; `caveat` says what they leave out. `order_probability` says
    how sure the order is: for each item, the probability that it truly stands above the next one, if nothing else is
    known about the two.
    """

    quantity: ClassVar[str] = "score"  # what the values are, for axes and tables

    @property
    def spec(self) -> JsonObject:
        spec: JsonObject = self.receipt.request["spec"]
        return spec

    @property
    @abstractmethod
    def title(self) -> str:
        """What is drawn, in words."""

    @property
    def caveat(self) -> str:
        """What a reader should know about the intervals."""
        return ""

    @property
    @abstractmethod
    def candidates(self) -> tuple[str, ...]:
        """The items that scores were released of, in their public order."""

    @property
    @abstractmethod
    def scores(self) -> Floats:
        """The released score of each candidate, in their public order."""

    @property
    @abstractmethod
    def gap_noise(self) -> tuple[Noise, float]:
        """The law of the noise in the scores, and how much of a score one unit of it is."""

    @abstractmethod
    def score_interval(self, level: float) -> tuple[Floats, Floats]:
        """(low, high) around the exact score of each candidate, in their public order."""

    @cached_property
    def order(self) -> list[int]:
        """Positions of the candidates, the best first; of equal ones, the earlier one in public order."""
        return [int(i) for i in np.argsort(-self.scores, kind="stable")]

    @property
    def items(self) -> list[str]:
        """The items, the best first."""
        return [self.candidates[i] for i in self.order]

    @property
    def values(self) -> Floats:
        return self.scores[self.order]

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        low, high = self.score_interval(level)
        return low[self.order], high[self.order]

    @cached_property
    def order_probability(self) -> Floats:
        """For each item but the last, the probability that it truly stands above the next one; at least one half."""
        noise, unit = self.gap_noise
        return np.array([noise.below(gap / unit) for gap in -np.diff(self.values)])

    def check(self) -> None:
        """What can be read can be shown: an error here, and not later, for a file that was tampered with."""
        ends, sure = np.concatenate(self.interval()), self.order_probability
        if not np.isfinite(ends).all() or not np.isfinite(sure).all() or not self.title or not self.quantity:
            raise ValueError("no ranking of ours")

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        sure = [*self.order_probability, None]
        columns = {"item": self.items, self.quantity: self.values, "low": low, "high": high}
        return pd.DataFrame({**columns, "above_next": pd.array(sure, dtype="Float64")})

    def plot(self, ax: Axes | None = None) -> Axes:
        from dpexplain.render.plots import plot_ranking

        return plot_ranking(self, ax)
