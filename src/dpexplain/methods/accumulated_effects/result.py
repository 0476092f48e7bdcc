"""Accumulated effects: the bins that a release leads to, and the curve that its sums make with them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.noise import Noise, checked_level
from dpexplain.maths.binning import MOST_BINS, SURE_COUNT, Steps, equal_mass, merge
from dpexplain.maths.grids import Axis, Partition
from dpexplain.maths.smoothing import shrink
from dpexplain.maths.tails import combined_halfwidth
from dpexplain.methods.curves import Curve
from dpexplain.methods.marginals.result import Rug
from dpexplain.methods.quantiles.result import Ladder
from dpexplain.methods.result import Floats, cut_to

Integers = NDArray[np.int64]
LEVEL_PARTS = "quantiles-{}"  # the prefix of the parts that hold the quantiles of one feature
TWO_SIDED = 1.96  # standard deviations within which 19 of 20 normal numbers lie


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
    weights: Floats
    total: float  # number of rows in all
    cells: Partition | None = None  # what the rows were counted by; None: the numbers of rows are taken as right
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

    @cached_property
    def members(self) -> Floats:
        """[bin, cell]: 1 where the rows of a cell count in a bin. Each category counts in the steps to both sides."""
        if self.cells is None:
            return np.zeros((self.size, 0))
        if self.bin_of_cell is not None:
            return np.asarray(self.bin_of_cell == np.arange(self.size)[:, None], dtype=np.float64)
        cells = len(self.points)
        return np.eye(self.size, cells) + np.eye(self.size, cells, 1)

    def at_cells(self, curve: Floats) -> Floats:
        """The curve at the middle of each cell that rows were counted by."""
        if self.cells is None:
            return np.zeros(0)
        if not self.ordered:
            return curve
        found: Floats = np.interp(np.asarray(self.cells.labels), np.asarray(self.points), curve)
        return found

    def place(self, values: Floats) -> Integers:
        """The bin of each clean value of an ordered feature: that of its cell; or, between quantiles, by value."""
        if self.cells is not None and self.bin_of_cell is not None:
            return self.bin_of_cell[self.cells.place(values)]
        return np.searchsorted(np.asarray(self.points[1:-1], dtype=np.float64), values, side="left").astype(np.int64)


def sharing(steps: Sequence[Steps], index: int, public: bool) -> tuple[int, int, bool]:
    """Who shares the total with one feature: `sharing`, `shared` and `own_total` of its `Accumulation`."""
    whole = [one.cells.size for one in steps if not one.missing]
    return 0 if public else len(whole), sum(whole), bool(steps[index].missing)


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
    shares = even / total
    if not steps.ordered:
        pairs = even[:-1] + even[1:] if len(even) > 1 else even
        return Bins(steps.points, False, np.maximum(pairs, 1.0), shares, total, steps.cells)
    if spec["bins"] is not None:
        edges = equal_mass(_summed(steps.step_of_cell, even, steps.size), spec["bins"])
    else:
        edges = merge(steps, even, count_std=count_std, sum_std=spec["sum_noise"])
    points = np.asarray(steps.points)[edges]
    bin_of_cell = np.searchsorted(edges[1:-1], steps.step_of_cell, side="right").astype(np.int64)
    rows = np.maximum(_summed(bin_of_cell, even, len(edges) - 1), 1.0)
    weights = _interpolation(np.asarray(steps.cells.labels), points, shares)
    return Bins(tuple(map(float, points)), True, rows, weights, total, steps.cells, bin_of_cell)


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
    return Bins(tuple(map(float, points)), True, rows, weights, total)


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
    """The curve of one feature: noisy sums of differences over noisy numbers of rows, added up and centred.

    What noise does to it. A bin's released sum is S + z, its released number of rows N' = N + y, and S = e N for the
    exact effect e, so (S + z) / N' - e = (z - e y) / N': no approximation. Likewise the released share of a cell is off
    by (y_j - s_j y_total) / T' for the exact share s_j and the released total T'. With the curve A e, A from released
    shares, and the exact centred curve g at the cells,

        error at a point  =  sum_b A_b z_b / N'_b  -  sum_j y_j (g_j / T' + sum over bins b of cell j of A_b e_b / N'_b)

    so a count that several bins and the centre share has one factor: that is what shared counts do. Given the counts,
    the first sum has known factors. The second has e and g in it, of which estimates are known: e is taken as
    S' / (N' - 1.96 standard deviations of y), larger than it would be if N' came out too large. A bin whose count does
    not stand SURE_COUNT standard deviations above zero says nothing: any effect within the clip is possible there, and
    what that does to a point adds to its interval whatever the level is.
    """

    bins: Bins
    sums: Floats  # in units of the output
    unit: float  # of one whole step of `sums`, in units of the output
    effects: Noise
    counts: Noise
    clip: float
    span: float
    sharing: int  # how many features have counts that the total is the mean of; 0 where the number of rows is public
    shared: int | None = None  # how many counts these features have; None: all counts are theirs
    own_total: bool = False  # whether the counts of this feature are its total: those of a feature with missing values
    cut: bool = True  # at the span; curves of earlier versions were not

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
    def _effects(self) -> Floats:
        clipped: Floats = np.clip(self.sums / self.bins.rows, -self.clip, self.clip)
        return clipped

    def _inside(self, curve: Floats) -> Floats:
        return np.clip(curve, -self.span, self.span) if self.cut else curve

    @cached_property
    def raw(self) -> Floats:
        return self._inside(self._lifted @ self._effects)

    @cached_property
    def smoothed(self) -> Floats:
        bins, trend = self.bins, self.bins.ordered and self.bins.size > 2
        noise = (self.effects.std * self.unit / bins.rows) ** 2
        pulled = shrink(self.sums / bins.rows, noise, bins.widths, self.span, trend=trend)
        return self._inside(self._lifted @ np.clip(pulled, -self.clip, self.clip))

    @cached_property
    def _count_std(self) -> Floats:
        """Of the number of rows of each bin; none where all rows are in it and their number is public."""
        found: Floats = self.counts.std * np.sqrt((self._counted(self.bins.members) ** 2).sum(axis=1))
        return found

    def _counted(self, factors: Floats) -> Floats:
        """Factors of all released counts from those of the feature's cells, which were moved evenly so that they add up
        to the total: a public number, or the mean over the features of the sums of their counts. Those of a feature
        with missing values are as they were released.
        """
        if self.own_total:
            return factors
        mean = factors.sum(axis=1, keepdims=True) / max(factors.shape[1], 1)
        if not self.sharing or not factors.shape[1]:
            return np.asarray(factors - mean)
        part = mean / self.sharing
        others = np.repeat(part, self._sharers - factors.shape[1], axis=1)
        return np.asarray(np.hstack([factors - mean + part, others]))

    @property
    def _sharers(self) -> int:
        return self.counts.size if self.shared is None else self.shared

    @cached_property
    def _known(self) -> NDArray[np.bool_]:
        """The bins that have rows beyond doubt; none of them where not even the total does."""
        off = np.sqrt(self._sharers) / self.sharing if self.sharing else 0.0
        off = np.sqrt(self.bins.members.shape[1]) if self.own_total else off
        sure = self.bins.total > SURE_COUNT * self.counts.std * off
        return np.asarray((self.bins.rows >= SURE_COUNT * self._count_std) & sure)

    @cached_property
    def _factors(self) -> tuple[Floats, Floats]:
        """What one unit of noise does to each point: [point, bin] for the sums, [point, count] for the counts."""
        bins, known = self.bins, self._known
        summed = self._lifted * np.where(known, self.unit / bins.rows, 0.0)
        few = np.maximum(bins.rows - TWO_SIDED * self._count_std, 1.0)
        slopes = self._lifted * np.where(known, self._effects / few, 0.0)
        return summed, self._counted(slopes @ bins.members + bins.at_cells(self._lifted @ self._effects) / bins.total)

    @cached_property
    def _open(self) -> Floats:
        """[2, point]: how far bins that say nothing may lower and raise each point."""
        unknown = self._lifted[:, ~self._known]
        middle, reach = unknown @ self._effects[~self._known], self.clip * np.abs(unknown).sum(axis=1)
        return np.array([reach + middle, reach - middle])

    @cached_property
    def std(self) -> Floats:
        """Of each point: the noise accumulates along the curve, and centring shares it out.

        What the noise of counts does to bins is taken as independent, and no effect as off by more than a number
        somewhere within the clip is: good enough to be told before, intervals are more careful.
        """
        bins, effects = self.bins, self._effects
        off = np.hypot(self.effects.std * self.unit, effects * self._count_std) / bins.rows
        off = np.minimum(off, self.clip / np.sqrt(3))
        centring = (self.counts.std / bins.total) ** 2 * float((bins.at_cells(self._lifted @ effects) ** 2).sum())
        found: Floats = np.minimum(np.sqrt(self._lifted**2 @ off**2 + centring), self.span)
        return found

    def half_width(self, point: int, level: float) -> float:
        """Half of the interval around one point, by the law of the sum whose factors are above; without open bins."""
        summed, counted = self._factors
        return combined_halfwidth([(self.effects, summed[point]), (self.counts, counted[point])], 0.0, level)

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """(low, high) around each point of the exact curve, cut at the range that is possible."""
        middle = self._lifted @ self._effects
        half = np.array([self.half_width(i, level) for i in range(len(middle))])
        down, up = self._open
        return cut_to(middle - half - down, middle + half + up, (-self.span, self.span))


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

    @property
    def possible(self) -> tuple[float, float]:
        return -self.span, self.span

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
        said = ""
        if self.spec["clip"] < self.span:
            limit = f"A row's differences beyond ±{self.spec['clip']:.3g} count as that much; "
            said = limit + "the interval leaves out what is cut off. "
        if self.spec["ladders"][self.index] is not None:
            said += "Bins are taken as equally full; the interval does not cover what that is off. "
        if self.spec["steps"][self.index].get("missing"):
            said += f"Rows whose {self.feature} is missing are left out: they have no neighbours. "
        return said

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
        spec, total = self.spec, self.receipt.request["table"]["rows"]
        steps = [Steps.from_json(value) for value in spec["steps"]]
        shares = sharing(steps, self.index, total is not None)
        cut, counts = bool(spec.get("cut", False)), self.part("counts")[1]
        return Accumulation(self.bins, mine, unit, noise, counts, spec["clip"], self.span, *shares, cut)

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
        return self._curve.interval(1 - tail)

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
