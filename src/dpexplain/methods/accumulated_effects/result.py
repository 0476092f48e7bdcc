"""The released curves of accumulated effects."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from dpexplain.core.noise import Noise, checked_level
from dpexplain.maths.accumulation import Accumulation, SharpEffects
from dpexplain.maths.binning import Bins
from dpexplain.maths.grids import Axis
from dpexplain.maths.trees import likely_shares
from dpexplain.methods.accumulated_effects.spec import LEVEL_PARTS, Spec, prior
from dpexplain.methods.curves import Curve
from dpexplain.methods.histogram import Histogram, Integers, read
from dpexplain.methods.result import Floats
from dpexplain.methods.sharpening import Ask


@dataclass(frozen=True)
class AccumulatedCurve(Curve):
    """Accumulated local effects of one feature: how the prediction changes along it, for the rows that are there.

    Centred: its mean over the rows, each taken at the middle of its cell, is zero. Intervals cover the exact curve of
    the table for the bins of this release and differences clipped as the request says; the noise of sums and of counts
    adds up along the curve. In the published form bins are taken as equally full, and intervals do not cover what that
    is off.
    """

    kind: ClassVar[str] = "accumulated-effects"
    spec_type: ClassVar[type[Spec]] = Spec
    quantity: ClassVar[str] = "effect on the prediction"

    @property
    def name(self) -> str:
        return "Accumulated effect"

    @property
    def span(self) -> float:
        return float(self.spec.span)

    @property
    def possible(self) -> tuple[float, float]:
        return -self.span, self.span

    @property
    def caveat(self) -> str:
        said = ""
        if self.spec.clip < self.span:
            limit = f"A row's differences beyond ±{self.spec.clip:.3g} count as that much; "
            said = limit + "the interval leaves out what is cut off. "
        if self.spec.ladders[self.index] is not None:
            said += "Bins are taken as equally full; the interval does not cover what that is off. "
        if self.spec.steps[self.index].missing:
            said += f"Rows whose {self.feature} is missing are left out: they have no neighbours. "
        return said

    @property
    def _rows(self) -> int | None:
        rows: int | None = self.receipt.request["table"]["rows"]
        return rows

    @cached_property
    def all_bins(self) -> list[Bins]:
        ladders, parts = self.spec.by_quantile.items(), self.released["parts"]
        positions = {place: ladder.stored(parts, LEVEL_PARTS.format(place)) for place, ladder in ladders}
        bins: list[Bins] = self.spec.bins_of(self._counts[0].tolist(), self._rows, positions)
        return bins

    @cached_property
    def _counts(self) -> tuple[Integers, Noise]:
        """The released counts of all cells and their noise: of this release, or of the marginals it builds on."""
        if self.spec.marginals is None:
            return self.part("counts")
        if self.marginals is None:
            raise ValueError("the marginals of this curve are missing")
        return self.spec.known_counts(self.marginals), self.marginals.part("counts")[1]

    @property
    def bins(self) -> Bins:
        return self.all_bins[self.index]

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        steps = self.spec.steps[self.index]
        return (Axis(steps.feature, self.bins.points, steps.ordered),)

    @cached_property
    def _curves(self) -> list[Accumulation]:
        """The curves of all features of the release."""
        sums, noise = self.part("effects")
        ends = np.cumsum([bins.size for bins in self.all_bins])
        if len(sums) != ends[-1]:
            raise ValueError("the bins do not fit the released values")
        each, public = np.split(sums * self.spec.unit, ends[:-1]), self._rows is not None
        return [
            self.spec.curve(i, bins, mine, noise, self._counts[1], rows_public=public)
            for i, (bins, mine) in enumerate(zip(self.all_bins, each, strict=True))
        ]

    @property
    def _curve(self) -> Accumulation:
        return self._curves[self.index]

    @cached_property
    def _sharp(self) -> SharpEffects | None:
        """The posterior of all effects of the release."""
        known = self.sharpening
        if known is None or not self.smoothed:
            return None
        if known.part is not None or known.prior.size != sum(bins.size for bins in self.all_bins):
            raise ValueError("the prior is that of other numbers")
        counts, noise = self._counts
        each = np.split(counts, np.cumsum([steps.cells.size for steps in self.spec.steps])[:-1])
        cells = zip(self.all_bins, each, self.spec.partitions, strict=True)
        weights = [bins.centring(likely_shares(mine, noise.std, partition)) for bins, mine, partition in cells]
        sharp = SharpEffects(self._curves, known.prior, weights)
        return sharp if sharp.sure else None

    @property
    def _needed(self) -> list[str]:
        return [steps.feature for steps in self.spec.steps]

    @property
    def _ask(self) -> Ask:
        return partial(prior, spec=self.spec, bins=self.all_bins)

    @property
    def raw(self) -> Floats:
        return self._curve.raw

    @property
    def std(self) -> Floats:
        """Standard deviation of the noise of each point."""
        return self._curve.std

    @property
    def values(self) -> Floats:
        if self._sharp is not None:
            return self._sharp.values(self.index)
        return self._curve.smoothed if self.smoothed else self._curve.raw

    def proven_interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        return self._curve.interval(self._each(level, simultaneous))

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        if self._sharp is None:
            return self.proven_interval(level, simultaneous=simultaneous)
        likely = self._sharp.interval(self.index, self._each(level, simultaneous))
        return self.wide_enough(likely, self.proven_interval(level, simultaneous=simultaneous))

    def _each(self, level: float, simultaneous: bool) -> float:
        """The level for each point by itself, where all of the release are to hold at once."""
        tail = 1 - checked_level(level)
        return 1 - tail / (sum(len(bins.points) for bins in self.all_bins) if simultaneous else 1)

    @property
    def rows_counted(self) -> float:
        return self.bins.total

    @property
    def _histograms(self) -> dict[str, Histogram]:
        counts, noise = self._counts
        return read(counts, noise.std, self.spec.partitions)

    @cached_property
    def rug(self) -> tuple[Histogram, ...]:
        return (self._histograms[self.feature],)
