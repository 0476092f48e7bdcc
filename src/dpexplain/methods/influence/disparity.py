"""How often outcomes are positive in a group and among all others: the rates, their difference and their ratio.

A rate p of a group of n rows is released as two noisy numbers: B, the sum of outcomes less a half each, so (p - 1/2) n,
and the size n itself. Whatever the noise of both, B' - (p - 1/2) n' is the noise of the sum less a part of that of the
size, whose law is known: the interval holds each p that it leaves possible (Fieller). "Rates" in
docs/methods/influence.md has it for the difference and the ratio too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Noise, checked_level
from dpexplain.maths.estimates import Estimate, Figure, difference, ratio
from dpexplain.maths.scores import ScoreTable
from dpexplain.maths.tails import Term, combined_halfwidth
from dpexplain.methods.influence.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

LEVEL = 0.95
ROUNDS = 2  # of the search for the largest h(p); each of them gives a valid interval


def by_counts(spec: Spec, counts: Floats, means: Floats) -> list[float]:
    """How the noise of released counts moves a sum of blocks' means, which are these in whole steps."""
    if not spec.count_weight:
        return []
    moved = means / counts / spec.count_weight
    return [float(moved.sum())] if spec.one_count else moved.tolist()


def halfwidth(spec: Spec, terms: Sequence[Term], drawn: float, unsure: float, level: float) -> float:
    """Half the interval of a number that noise moves by these terms, and chance by a standard deviation of `drawn`
    whole steps: to first order in the noise of counts, which are right to the part `unsure` of themselves, and widened
    by what the second order can add.
    """
    half = combined_halfwidth(terms, drawn, level)
    return float((half / (1 - min(unsure, 0.5) ** 2) + 1) * spec.step)


def unsure_counts(spec: Spec, counts: Floats, noise: Noise, level: float) -> float:
    """How far the smallest of the counts that were released with the sums may be off, as a part of itself."""
    return float(noise.halfwidth(level) / (spec.count_weight * counts.min())) if spec.count_weight else 0.0


@dataclass(frozen=True, eq=False)
class Disparity(ABC):
    """The rates of positive outcomes (of scores: their means) of a group and of all others, in this order."""

    spec: Spec
    model: tuple[str, Any, PublicRange]  # its name, the label whose probability it predicts, its range
    group: str  # in words

    @property
    @abstractmethod
    def conclusive(self) -> bool:
        """Whether both groups are large enough to be spoken of."""

    @property
    @abstractmethod
    def rates(self) -> Floats:
        """Of the group, and of all others."""

    @abstractmethod
    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) of each rate by itself."""

    @property
    @abstractmethod
    def difference(self) -> float:
        """The rate of the group less that of all others."""

    @abstractmethod
    def difference_interval(self, level: float = 0.95) -> tuple[float, float]: ...

    @property
    @abstractmethod
    def ratio(self) -> float | None:
        """The rate of the group in parts of that of all others; None where it is not determined."""

    @abstractmethod
    def ratio_interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """None where the rate of all others may be zero, or where scores may be negative."""

    @property
    def output(self) -> PublicRange:
        """The range of outcomes."""
        return self.spec.outcome.range

    @property
    def is_class(self) -> bool:
        return self.spec.outcome.is_class

    def to_frame(self) -> pd.DataFrame:
        """Both rates, their difference and their ratio, with 95 % intervals; what is not determined is missing."""
        import pandas as pd

        (low, high), ratio = self.interval(), self.ratio_interval() or (math.nan, math.nan)
        lines = [
            (f"where {self.group}", self.rates[0], low[0], high[0]),
            ("all others", self.rates[1], low[1], high[1]),
            ("difference", self.difference, *self.difference_interval()),
            ("ratio", math.nan if self.ratio is None else self.ratio, *ratio),
        ]
        return pd.DataFrame(lines, columns=["what", "value", "low", "high"])

    # Words ------------------------------------------------------------------------------------------------------------

    @property
    def meaning(self) -> str:
        """What counts as positive."""
        name, label, output = self.model
        what = "output" if label is None else f"probability of {label!s}"
        what = f"the {what} of model {name}, between {output.low:g} and {output.high:g}"
        threshold = self.spec.outcome.threshold
        return f"The score is {what}." if threshold is None else f"Positive: {what}, is at least {threshold:g}."

    @cached_property
    def sentences(self) -> list[str]:
        """The rates, how they differ, and what they are rates of."""
        outcome = self.spec.outcome
        if not self.conclusive:
            return [f"How the {outcome.rate} differs is not determined with this epsilon.", self.meaning]
        (low, high), ratio = self.interval(), self.ratio_interval()
        rates = [
            f"{outcome.written(rate)} ({outcome.interval(a, b)})"
            for rate, a, b in zip(self.rates, low, high, strict=True)
        ]
        said = [f"The {outcome.rate} is {rates[0]} where {self.group}, and {rates[1]} for all others."]
        points, scale = (" percentage points", 100) if self.is_class else ("", 1)
        d, a, b = (f"{scale * x:+.3g}" for x in (self.difference, *self.difference_interval()))
        times = "not determined" if ratio is None else f"{self.ratio:.3g} ({ratio[0]:.3g} to {ratio[1]:.3g})"
        said.append(f"Difference: {d}{points} (95 % interval: {a} to {b}). Ratio: {times}.")
        return [*said, self.meaning]


@dataclass(frozen=True, eq=False)
class SummedDisparity(Disparity):
    """From sums of outcomes that were released with the influences."""

    sums: Floats  # of outcomes less the middle, in whole steps
    counts: Floats
    noise: Noise
    weight: int  # that the sums had when they got their noise
    enough: bool

    @property
    def conclusive(self) -> bool:
        return self.enough

    @cached_property
    def rates(self) -> Floats:
        if not self.conclusive:
            return np.full(2, self.output.middle)
        return np.clip(self._plain, self.output.low, self.output.high)

    @property
    def _plain(self) -> Floats:
        return np.asarray(self.output.middle + self.spec.step * self.sums / self.counts)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        checked_level(level)
        low, high = np.full(2, self.output.low), np.full(2, self.output.high)
        if not self.conclusive:
            return low, high
        for block, rate in enumerate(self._plain):
            for _ in range(ROUNDS):
                half = self._halfwidth(
                    block, level, max(self.output.middle - low[block], high[block] - self.output.middle)
                )
                low[block] = max(low[block], rate - half)
                high[block] = min(high[block], rate + half)
        return np.minimum(low, self.rates), np.maximum(high, self.rates)

    def _halfwidth(self, block: int, level: float, away: float) -> float:
        """Of a rate that is so far from the middle of the outcomes."""
        n, step, w = self.counts[block], self.spec.step, self.spec.count_weight
        terms = [1 / self.weight, *([away / step / w] if w else [])]
        half = combined_halfwidth([(self.noise, terms)], self._chance / step * math.sqrt(n), level)
        return float((half / n + 1) * step)

    @property
    def _chance(self) -> float:
        """At most the standard deviation of one outcome over the choice of rows."""
        return self.output.width / 2 * math.sqrt(1 - 1 / self.spec.one_in)

    @property
    def difference(self) -> float:
        return float(self.rates[0] - self.rates[1])

    def difference_interval(self, level: float = 0.95) -> tuple[float, float]:
        checked_level(level)
        width = self.output.width
        if not self.conclusive:
            return -width, width
        (low, high), n = self.interval(level), self.counts
        away = np.maximum(self.output.middle - low, high - self.output.middle) / self.spec.step
        moved = [*(1 / self.weight / n).tolist(), *by_counts(self.spec, n, away)]
        chance = self._chance / self.spec.step * math.sqrt((1 / n).sum())
        unsure = unsure_counts(self.spec, n, self.noise, level)
        half = halfwidth(self.spec, [(self.noise, moved)], chance, unsure, level)
        ends = np.clip(self._plain[0] - self._plain[1] + np.array([-half, half]), -width, width)
        return float(min(ends[0], self.difference)), float(max(ends[1], self.difference))

    @property
    def ratio(self) -> float | None:
        return None if self.ratio_interval() is None else float(self.rates[0] / self.rates[1])

    def ratio_interval(self, level: float = 0.95) -> tuple[float, float] | None:
        low, high = self.interval((1 + checked_level(level)) / 2)
        if self.output.low < 0 or not self.conclusive or low[1] <= 0:
            return None
        return float(low[0] / high[1]), float(high[0] / low[1])


@dataclass(frozen=True, eq=False)
class SharedDisparity(Disparity):
    """From a performance by the same group, which has released these rates before: the same numbers as there."""

    tables: tuple[ScoreTable, ScoreTable]  # of the group, and of all others

    def _rate(self, block: int, level: float) -> Estimate:
        return self.tables[block].figure("selection_rate", self.spec.outcome.threshold, level)

    @cached_property
    def _figures(self) -> tuple[Figure, Figure]:
        return partial(self._rate, 0), partial(self._rate, 1)

    @cached_property
    def conclusive(self) -> bool:
        return all(figure(LEVEL).determined for figure in self._figures)

    @cached_property
    def rates(self) -> Floats:
        if not self.conclusive:
            return np.full(2, self.output.middle)
        return np.array([figure(LEVEL).value for figure in self._figures])

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        estimates = [figure(checked_level(level)) for figure in self._figures]
        return np.array([e.low for e in estimates]), np.array([e.high for e in estimates])

    @property
    def difference(self) -> float:
        return float(self.rates[0] - self.rates[1])

    def difference_interval(self, level: float = 0.95) -> tuple[float, float]:
        apart = difference(*self._figures, level=checked_level(level))
        return min(apart.low, self.difference), max(apart.high, self.difference)

    @property
    def ratio(self) -> float | None:
        return None if self.ratio_interval() is None else float(self.rates[0] / self.rates[1])

    def ratio_interval(self, level: float = 0.95) -> tuple[float, float] | None:
        times = ratio(*self._figures, level=checked_level(level))
        if not self.conclusive or not times.determined or not math.isfinite(times.high):
            return None
        return times.low, times.high
