"""Accumulated effects: the bins that a release leads to, and the curve that its sums make with them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.binning import MOST_BINS, Steps, equal_mass, merge
from dpexplain.core.canonical import JsonObject
from dpexplain.core.noise import Noise, checked_level
from dpexplain.grids import Axis, Partition
from dpexplain.results.base import Floats
from dpexplain.results.curve import Curve
from dpexplain.results.marginals import Rug
from dpexplain.results.quantiles import Ladder
from dpexplain.results.tails import combined_halfwidth
from dpexplain.smoothing import shrink

Integers = NDArray[np.int64]
LEVEL_PARTS = "quantiles-{}"  # the prefix of the parts that hold the quantiles of one feature


@dataclass(frozen=True)
class Bins:
    """Between which points the effects of one feature are taken, and how many rows each of them is the mean of.

    `weights` centre the curve: its mean over the rows, each taken at the middle of its cell, is the weighted sum of its
    values at the points. Everything here follows from released values and the public spec, so it may decide which sums
    are released next.
    """

    points: tuple[Any, ...]
    ordered: bool
    rows: Floats
    rows_std: Floats
    weights: Floats
    share_std: float  # noise of the share of rows in a cell
    cells: Partition | None = None  # what the rows were counted by
    bin_of_cell: Integers | None = None

    @property
    def size(self) -> int:
        return len(self.rows)

    @property
    def widths(self) -> Floats:
        """The share of the feature's range in each bin; equal ones for categories."""
        if not self.ordered:
            return np.full(self.size, 1 / self.size)
        x = np.asarray(self.points, dtype=np.float64)
        widths: Floats = np.diff(x) / (x[-1] - x[0])
        return widths

    @property
    def cells_of_bin(self) -> Integers:
        """How many cells the number of rows of each bin is the sum of: two neighbouring ones between categories."""
        if self.bin_of_cell is None:
            return np.full(self.size, 2)
        return np.maximum(np.bincount(self.bin_of_cell, minlength=self.size), 1)

    def at_cells(self, curve: Floats) -> Floats:
        """The curve at the middle of each cell that rows were counted by."""
        if not self.ordered or self.cells is None:
            return curve
        found: Floats = np.interp(np.asarray(self.cells.labels), np.asarray(self.points), curve)
        return found

    def place(self, values: Floats) -> Integers:
        """The bin of each clean value of an ordered feature: that of its cell; or, between quantiles, by value."""
        if self.cells is not None and self.bin_of_cell is not None:
            return self.bin_of_cell[self.cells.place(values)]
        return np.searchsorted(np.asarray(self.points[1:-1], dtype=np.float64), values, side="left").astype(np.int64)


def bins_of(spec: JsonObject, counts: Sequence[int], rows: int | None) -> list[Bins | None]:
    """The bins of each feature from the released counts; None where they come from quantiles."""
    steps = [Steps.from_json(value) for value in spec["steps"]]
    if spec["bins"] is not None and not 1 <= spec["bins"] <= MOST_BINS:
        raise ValueError("no number of bins of ours")
    ends = np.cumsum([0, *(s.cells.size for s in steps)])
    found = [np.asarray(counts[a:b], dtype=np.float64) for a, b in itertools.pairwise(ends)]
    whole = [float(c.sum()) for s, c in zip(steps, found, strict=True) if not s.missing]
    total = float(rows) if rows is not None else max(1.0, sum(whole) / max(len(whole), 1))
    return [
        None
        if ladder is not None
        else _from_counts(s, noisy, max(1.0, float(noisy.sum())) if s.missing else total, spec)
        for s, noisy, ladder in zip(steps, found, spec["ladders"], strict=True)
    ]


def _from_counts(steps: Steps, noisy: Floats, total: float, spec: JsonObject) -> Bins:
    count_std = float(spec["count_noise"])
    even = noisy - (noisy.sum() - total) / len(noisy)  # adds up to the total; unbiased, where a projection is not
    shares, share_std = even / total, count_std / total
    if not steps.ordered:
        pairs = even[:-1] + even[1:] if len(even) > 1 else even
        pair_std = np.full(len(pairs), count_std * np.sqrt(min(2, len(even))))
        return Bins(steps.points, False, np.maximum(pairs, 1.0), pair_std, shares, share_std)
    if spec["bins"] is not None:
        edges = equal_mass(_summed(steps.step_of_cell, even, steps.size), spec["bins"])
    else:
        edges = merge(steps, even, count_std=count_std, sum_std=spec["sum_noise"])
    points = np.asarray(steps.points)[edges]
    bin_of_cell = np.searchsorted(edges[1:-1], steps.step_of_cell, side="right").astype(np.int64)
    rows = np.maximum(_summed(bin_of_cell, even, len(edges) - 1), 1.0)
    off = count_std * np.sqrt(np.bincount(bin_of_cell, minlength=len(edges) - 1))
    weights = _interpolation(np.asarray(steps.cells.labels), points, shares)
    return Bins(tuple(map(float, points)), True, rows, off, weights, share_std, steps.cells, bin_of_cell)


def bins_of_quantiles(ladder: Ladder, positions: Sequence[int], total: float) -> Bins:
    """Bins between the different ones of released quantiles, all of them taken as right: the published form."""
    low, high = ladder.column.low, ladder.column.high
    inside = np.clip(ladder.values(positions[1:-1]), low, high)
    values = np.concatenate([[low], inside, [high]])
    probs = np.array([float(p) for p in ladder.ends])
    points = np.unique(values)
    reached = np.array([probs[values == x].max() for x in points])
    reached[0] = 0.0  # what lies at the lower end belongs to the first bin
    mass = np.diff(reached)
    weights = np.concatenate([mass, [0.0]]) / 2 + np.concatenate([[0.0], mass]) / 2
    rows = np.maximum(mass * total, 1.0)
    return Bins(tuple(map(float, points)), True, rows, np.zeros(len(mass)), weights, 0.0)


def _summed(place: Integers, values: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(place, values, size), dtype=np.float64)


def _interpolation(x: Floats, points: Floats, shares: Floats) -> Floats:
    """The weight of each point in the mean over x of a curve that is straight between points."""
    inside = np.clip(x, points[0], points[-1])
    right = np.clip(np.searchsorted(points, inside, side="left"), 1, len(points) - 1)
    part = (inside - points[right - 1]) / (points[right] - points[right - 1])
    return _summed(right, shares * part, len(points)) + _summed(right - 1, shares * (1 - part), len(points))


@dataclass(frozen=True)
class Accumulation:
    """The curve of one feature: noisy sums of differences over noisy numbers of rows, added up and centred."""

    bins: Bins
    sums: Floats  # in units of the output
    sum_std: float
    clip: float
    span: float

    @cached_property
    def _lifted(self) -> Floats:
        """From effects to the curve: A with curve = A effects."""
        m = self.bins.size
        if len(self.bins.points) == 1:
            return np.zeros((1, m))
        add = np.tril(np.ones((m + 1, m)), -1)
        lifted: Floats = add - self.bins.weights @ add
        return lifted

    @cached_property
    def _ratios(self) -> Floats:
        return self.sums / self.bins.rows

    @cached_property
    def variances(self) -> Floats:
        """Of each effect, allowing for the noise of its number of rows: on the wide side, for intervals."""
        rows, off = self.bins.rows, self.bins.rows_std
        bounded = np.clip(self._ratios, -self.clip, self.clip)
        found: Floats = (self.sum_std**2 + (bounded * off) ** 2) / np.maximum(rows - off, 1.0) ** 2
        return found

    @cached_property
    def raw(self) -> Floats:
        curve: Floats = self._lifted @ np.clip(self._ratios, -self.clip, self.clip)
        return curve

    @cached_property
    def smoothed(self) -> Floats:
        bins, trend = self.bins, self.bins.ordered and self.bins.size > 2
        pulled = shrink(self._ratios, (self.sum_std / bins.rows) ** 2, bins.widths, self.span, trend=trend)
        curve: Floats = self._lifted @ np.clip(pulled, -self.clip, self.clip)
        return curve

    @cached_property
    def std(self) -> Floats:
        """Of each point: the noise accumulates along the curve, and centring shares it out."""
        centring = self.bins.share_std**2 * float((self.bins.at_cells(self.raw) ** 2).sum())
        found: Floats = np.sqrt(self._lifted**2 @ self.variances + centring)
        return found

    def half_width(self, point: int, effects: Noise, counts: Noise, level: float) -> float:
        """Half of an interval around one point: by the law of the very sum whose standard deviation is `std`.

        The noise of the sums reaches a point through all bins, that of the counts through the cells of each bin and
        through centring; what comes through both counts twice.
        """
        bins, one = self.bins, counts.std or 1.0  # no noise at all at a huge epsilon
        by_sum = self._lifted[point] / np.maximum(bins.rows - bins.rows_std, 1.0)
        bounded = np.clip(self._ratios, -self.clip, self.clip)
        by_cell = np.repeat(by_sum * bounded * bins.rows_std / np.sqrt(bins.cells_of_bin), bins.cells_of_bin)
        counted = np.concatenate([by_cell, bins.share_std * bins.at_cells(self.raw)]) / one
        summed = by_sum * self.sum_std / (effects.std or 1.0)
        return combined_halfwidth([(effects, summed), (counts, counted)], 0.0, level)


@dataclass(frozen=True)
class AccumulatedCurve(Curve):
    """Accumulated local effects of one feature: how the prediction changes along it, for the rows that are there.

    Centred: its mean over the rows, each taken at the middle of its cell, is zero. Intervals cover the exact curve of
    the table for the bins of this release and differences clipped as the request says; the noise of sums and of counts
    adds up along the curve. In the published form bins are taken as equally full, and intervals do not cover what that
    is off.
    """

    kind: ClassVar[str] = "accumulated-effects"
    quantity: ClassVar[str] = "effect on the prediction"

    @property
    def name(self) -> str:
        return "Accumulated effect"

    @property
    def span(self) -> float:
        return float(self.spec["span"])

    @cached_property
    def _all_bins(self) -> list[Bins]:
        rows = self.receipt.request["table"]["rows"]
        found = bins_of(self.spec, self.part("counts")[0].tolist(), rows)
        return fill_quantile_bins(self.spec, found, self.released["parts"], self._total)

    @property
    def _total(self) -> float:
        rows = self.receipt.request["table"]["rows"]
        return float(rows) if rows is not None else max(1.0, self.part("counts")[0].sum() / len(self.spec["steps"]))

    @property
    def caveat(self) -> str:
        equal = self.spec["ladders"][self.index] is not None
        if self.spec["steps"][self.index].get("missing"):
            return f"Rows whose {self.feature} is missing are left out: they have no neighbours. "
        return "Bins are taken as equally full; the interval does not cover what that is off. " if equal else ""

    @property
    def bins(self) -> Bins:
        return self._all_bins[self.index]

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        steps = self.spec["steps"][self.index]
        return (Axis(steps["cells"]["feature"], self.bins.points, steps["ordered"]),)

    @cached_property
    def _curve(self) -> Accumulation:
        sums, noise = self.part("effects")
        start = sum(bins.size for bins in self._all_bins[: self.index])
        unit = 2 * self.spec["clip"] / self.spec["levels"]
        mine = sums[start : start + self.bins.size] * unit
        if len(sums) != sum(bins.size for bins in self._all_bins):
            raise ValueError("the bins do not fit the released values")
        return Accumulation(self.bins, mine, noise.std * unit, self.spec["clip"], self.span)

    @property
    def raw(self) -> Floats:
        return self._curve.raw

    @property
    def std(self) -> Floats:
        """Standard deviation of the noise of each point."""
        return self._curve.std

    @property
    def values(self) -> Floats:
        return self._curve.smoothed if self.smoothed else self._curve.raw

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """(low, high) around the exact curve: for each point by itself, or for all points of the release at once."""
        tail = 1 - checked_level(level)
        if simultaneous:
            tail /= sum(len(bins.points) for bins in self._all_bins)
        effects, counts = self.part("effects")[1], self.part("counts")[1]
        half = np.array([self._curve.half_width(i, effects, counts, 1 - tail) for i in range(len(self.raw))])
        return self.raw - half, self.raw + half

    @cached_property
    def rug(self) -> tuple[Rug, ...]:
        counts, noise = self.part("counts")
        steps = [Steps.from_json(value) for value in self.spec["steps"]]
        start = sum(s.cells.size for s in steps[: self.index])
        cells = steps[self.index].cells
        mine = counts[start : start + cells.size]
        return (Rug(cells, np.maximum(mine, 0).astype(np.float64), noise.std),)


def fill_quantile_bins(
    spec: JsonObject, found: Sequence[Bins | None], parts: Mapping[str, JsonObject], total: float
) -> list[Bins]:
    """The bins of each feature, those of quantiles included."""
    filled = []
    for number, (bins, ladder) in enumerate(zip(found, spec["ladders"], strict=True)):
        if bins is None:
            public = Ladder.from_json(ladder)
            choices = {name: part["values"] for name, part in parts.items()}
            bins = bins_of_quantiles(public, public.walk(choices, LEVEL_PARTS.format(number)), total)
        filled.append(bins)
    return filled
