"""Items in the order of the points they got from the parts of the rows, each part one vote (Borda)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpexplain.core.noise import Noise, checked_level
from dpexplain.methods.rank_aggregation.spec import Spec
from dpexplain.methods.rankings import IN_THE_TAILS, Ranking
from dpexplain.methods.result import Floats, cut_to


@dataclass(frozen=True)
class Votes(Ranking):
    """The items that were voted on, or the chosen ones of them. A value is the mean number of points in a vote: the
    best of M items gets M - 1, the last one 0. Intervals cover that mean for the parts as they were dealt; the
    probabilities of places also count by how much another dealing could move it. How parts of this size rank items is
    not how the whole table would: `caveat` says so.
    """

    kind: ClassVar[str] = "rank-aggregation"
    quantity: ClassVar[str] = "mean points"
    spec_type: ClassVar[type[Spec]] = Spec

    @property
    def title(self) -> str:
        best = "" if self.spec.k is None else f"the best {self.spec.k} of {len(self.spec.items)} "
        return f"{self.spec.ranker['title']}: {best}by {self.parts:,} parts of the table"

    @property
    def parts(self) -> int:
        """How many votes there are."""
        return int(self.spec.parts.number)

    @cached_property
    def chosen(self) -> tuple[int, ...]:
        """Positions, in public order, of the items that points were released of."""
        count = len(self.spec.items)
        if self.spec.k is None:
            return tuple(range(count))
        chosen = tuple(sorted(int(i) for i in self.released["parts"]["top"]["values"]))
        if len(set(chosen)) != len(chosen) or not chosen or not 0 <= chosen[0] <= chosen[-1] < count:
            raise ValueError("no choice among the items")
        return chosen

    @property
    def candidates(self) -> tuple[str, ...]:
        return tuple(self.spec.items[i] for i in self.chosen)

    @cached_property
    def _sums(self) -> Floats:
        return self.part("votes")[0].astype(np.float64)

    @cached_property
    def gap_noise(self) -> tuple[Noise, float]:
        return self.part("votes")[1], 1 / (self.spec.unit * self.parts)

    @property
    def scores(self) -> Floats:
        return self._sums * self.gap_noise[1]

    @property
    def caveat(self) -> str:
        return (
            f"Each of {self.parts:,} parts of the table ranked the items by itself, and points are the mean of that. "
            "Intervals are about these parts; probabilities of places also count that rows could have met in other "
            "parts. Neither allows for small parts ranking items differently from all rows."
        )

    @property
    def possible(self) -> tuple[float, float]:
        return 0.0, float(self.spec.most)

    @property
    def _centre(self) -> float:
        """Every ballot gives the same number of points in all."""
        return self.possible[1] / 2

    @property
    def widest(self) -> float:
        """The standard deviation of 0, 1, ..., M - 1: all ballots agree."""
        return float(np.sqrt((len(self.spec.items) ** 2 - 1) / 12))

    @property
    def unreleased(self) -> int:
        return len(self.spec.items) - len(self.chosen)

    @property
    def score_std(self) -> Floats:
        """Noise, and how ballots vary: points from 0 to M - 1 with mean s have at most the variance s (M - 1 - s)."""
        noise, unit = self.gap_noise
        highest = self.possible[1]
        width = 2 * noise.std * unit  # so far the mean is known; the variance is largest in the middle
        nearest = np.clip(highest / 2, self.scores - width, self.scores + width)
        mean = np.clip(nearest, 0.0, highest)
        share, deviations = IN_THE_TAILS
        noisy = max(noise.std, noise.halfwidth(share) / deviations) * unit
        std: Floats = np.sqrt(noisy**2 + mean * (highest - mean) / self.parts)
        return std

    def score_interval(self, level: float) -> tuple[Floats, Floats]:
        noise, unit = self.gap_noise
        half = noise.halfwidth(checked_level(level))
        return cut_to((self._sums - half) * unit, (self._sums + half) * unit, self.possible)

    def check(self) -> None:
        if len(self.chosen) != len(self.scores):
            raise ValueError("the items do not fit the released values")
        super().check()
