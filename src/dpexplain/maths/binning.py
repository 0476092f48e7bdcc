"""From a released histogram to the bins of an accumulated effect: post-processing, which costs no budget.

Effects are taken between neighbouring bin edges, so bins trade bias against noise. Merging the public cells of an
ordered feature into bins b with N_b rows and a share w_b of the feature's range minimises

    sum_b  g_b s^2 / N_b^2  +  t w_b^2 / 6

where s is the noise of a bin's sum of differences, g_b the part of the curve that an error in bin b moves (after
centring by the density), and t w_b^2 / 6 what a straight line inside the bin loses if the curve wanders like Brownian
motion with variance t over the whole range. The cells are public and the counts released, so any rule may be used here.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Column, Numeric
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import WHOLE_NUMBERS, Partition, partition_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CELLS = 100
WANDER = 0.05  # t, in squared units of the output range; chosen on the tables of `python -m bench effects`
LEAST_SHARE = 0.01  # of the rows in a bin: fewer say little about their neighbours
SURE_COUNT = 3.0  # a bin's count stands this many standard deviations above zero


@dataclass(frozen=True)
class Steps(Coded):
    """The public points of a feature, lowest first, between which effects can be taken, and its cells for counting.

    Ordered: `points[0]` is the lower bound, the others are the upper ends of cells; a first cell that holds nothing
    but the lower bound belongs to the first step. Unordered: the categories in their declared order.
    """

    cells: Partition
    points: tuple[Any, ...]
    ordered: bool
    missing: bool = False  # whether there are rows without a value: they have no neighbours, so they are left out
    one_sided: bool = False  # categories: a row adds to the step below it alone (the first one to that above it)

    def __post_init__(self) -> None:
        fits = not self.missing
        if self.ordered:
            fits = 2 <= len(self.points) <= WHOLE_NUMBERS + 1 and self.cells.size in (self.size, self.size + 1)
            fits = fits and all(a < b for a, b in itertools.pairwise(self.points))
        if self.cells.missing or not fits:
            raise ValueError("no steps of ours")

    @property
    def feature(self) -> str:
        return self.cells.feature

    @property
    def size(self) -> int:
        """The number of steps; a feature with one value has one, of no effect."""
        return max(1, len(self.points) - 1)

    @property
    def step_of_cell(self) -> Integers:
        """For an ordered feature, the step that the rows of each cell belong to."""
        return np.maximum(np.arange(self.cells.size) - (self.cells.size - self.size), 0)

    @property
    def touched(self) -> int:
        """To how many steps one row can add: its own; for categories, those to both neighbours, unless one-sided."""
        return 1 if self.ordered or self.one_sided else min(2, self.size)

    def present(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of some clean values are there."""
        return ~np.isnan(values) if self.missing else np.ones(len(values), dtype=bool)

    def to_json(self) -> JsonObject:
        later = ("missing", "one_sided")  # files of earlier versions do not have them
        return {name: value for name, value in super().to_json().items() if name not in later or value}


def steps_of(feature: str, column: Column, known: Partition | None = None) -> Steps:
    """The steps of a declared column: between its categories, its whole numbers, or the ends of cells: equal ones, or
    those of a histogram that is known.
    """
    if not isinstance(column, Numeric):
        return Steps(partition_of(feature, column, CELLS), column.categories, ordered=False)
    few = column.integer and column.values <= WHOLE_NUMBERS
    numbers = Numeric(column.low, column.high, column.integer)  # no cell for missing values
    cells = partition_of(feature, numbers, WHOLE_NUMBERS if few else CELLS)
    if known is not None:
        cells = replace(known, labels=known.labels[:-1]) if known.missing else known
    uppers = np.asarray(cells.edges)[1:]
    if column.integer:
        uppers = np.floor(uppers)  # the largest whole number of each cell
    points = [column.low, *(float(x) for x in np.unique(uppers) if x > column.low)]
    return Steps(cells, tuple(points), ordered=True, missing=column.keeps_missing)


def equal_mass(counts: Floats, bins: int) -> Integers:
    """Edges of at most `bins` bins of near-equal mass: positions in the points of the steps."""
    mass = np.cumsum(np.maximum(counts, 0.0))
    targets = mass[-1] * np.arange(1, bins) / bins
    inner = np.searchsorted(mass, targets) + 1
    return np.unique(np.concatenate([[0], np.clip(inner, 1, len(counts)), [len(counts)]])).astype(np.int64)


def merge(steps: Steps, counts: Floats, *, count_std: float, sum_std: float) -> Integers:
    """The edges with the smallest objective, by dynamic programming over the steps: positions in `steps.points`.

    `counts` are the released counts of cells (any sign), `count_std` the noise of one of them, `sum_std` that of a
    bin's sum of differences in units of the output range; both are written in the spec. Only correctly rounded
    operations in a fixed order are used, so that a published curve has the same edges on every machine.
    """
    m, step = steps.size, steps.step_of_cell
    rows = np.bincount(step, weights=counts, minlength=m)
    merged = np.cumsum(np.concatenate([[0.0], np.bincount(step, minlength=m).astype(np.float64)]))
    mass = np.cumsum(np.concatenate([[0.0], rows]))
    total = max(float(mass[-1]), 1.0)
    points = np.asarray(steps.points, dtype=np.float64)
    place = (points - points[0]) / (points[-1] - points[0])
    share = mass / total
    cost, before = np.full(m + 1, np.inf), np.zeros(m + 1, dtype=np.int64)
    cost[0] = 0.0
    for end in range(1, m + 1):
        start = np.arange(end)
        width, inside = place[end] - place[start], mass[end] - mass[start]
        needed = np.maximum(LEAST_SHARE * total, SURE_COUNT * count_std * np.sqrt(merged[end] - merged[start]))
        right, above = 1 - (place[end] + place[start]) / 2, 1 - (share[end] + share[start]) / 2
        moved = right * (1 - above) ** 2 + (1 - right) * above**2
        noise = moved * (sum_std / np.maximum(inside, 1.0)) ** 2
        shortage = np.maximum(needed - inside, 0.0) / total
        trial = cost[start] + noise + WANDER * width**2 / 6 + 1000 * shortage
        before[end] = int(np.argmin(trial))
        cost[end] = trial[before[end]]
    edges = [m]
    while edges[-1] > 0:
        edges.append(int(before[edges[-1]]))
    return np.array(edges[::-1], dtype=np.int64)


@dataclass(frozen=True)
class Bins:
    """Between which points the effects of one feature are taken, and how many rows each of them is the mean of.

    `weights` centre the curve: its mean over the rows, each taken at the middle of its cell, is the weighted sum of its
    values at the points. All of it follows from released values and the public spec, so it may decide which sums are
    released next.
    """

    points: tuple[Any, ...]
    ordered: bool
    rows: Floats
    weights: Floats
    total: float  # number of rows in all
    cells: Partition | None = None  # what the rows were counted by; None: the numbers of rows are taken as right
    bin_of_cell: Integers | None = None

    @classmethod
    def of_counts(
        cls, steps: Steps, noisy: Floats, total: float, *, number: int | None, count_std: float, sum_std: float
    ) -> Bins:
        """The bins of released counts: at most `number` of near-equal mass, or those that `merge` finds."""
        even = noisy - (noisy.sum() - total) / len(noisy)  # adds up to the total; unbiased, where a projection is not
        shares = even / total
        if steps.one_sided:
            own = np.maximum(np.arange(len(even)) - 1, 0)
            rows = np.maximum(_summed(own, even, steps.size), 1.0)
            return cls(steps.points, False, rows, shares, total, steps.cells, own.astype(np.int64))
        if not steps.ordered:
            pairs = even[:-1] + even[1:] if len(even) > 1 else even
            return cls(steps.points, False, np.maximum(pairs, 1.0), shares, total, steps.cells)
        if number is None:
            edges = merge(steps, even, count_std=count_std, sum_std=sum_std)
        else:
            edges = equal_mass(_summed(steps.step_of_cell, even, steps.size), number)
        points = np.asarray(steps.points)[edges]
        bin_of_cell = np.searchsorted(edges[1:-1], steps.step_of_cell, side="right").astype(np.int64)
        rows = np.maximum(_summed(bin_of_cell, even, len(edges) - 1), 1.0)
        found = cls(tuple(map(float, points)), True, rows, np.empty(0), total, steps.cells, bin_of_cell)
        return replace(found, weights=found.centring(shares))

    @classmethod
    def of_quantiles(cls, values: Floats, probs: Floats, total: float) -> Bins:
        """Bins between the different ones of released quantiles, all of them taken as right: the published form.

        Both ends of the range are among the values, with the probabilities 0 and 1.
        """
        points = np.unique(values)
        reached = np.array([probs[values == x].max() for x in points])
        reached[0] = 0.0  # what lies at the lower end belongs to the first bin
        mass = np.diff(reached)
        weights = np.concatenate([mass, [0.0]]) / 2 + np.concatenate([[0.0], mass]) / 2
        return cls(tuple(map(float, points)), True, np.maximum(mass * total, 1.0), weights, total)

    @property
    def size(self) -> int:
        return len(self.rows)

    @property
    def widths(self) -> Floats:
        """The share of the feature's range in each bin; equal ones for categories."""
        if not self.ordered:
            return np.full(self.size, 1 / self.size)
        x = np.asarray(self.points, dtype=np.float64)
        return np.asarray(np.diff(x) / (x[-1] - x[0]))

    @cached_property
    def members(self) -> Floats:
        """[bin, cell]: 1 where the rows of a cell count in a bin. A category counts in the steps to both sides, unless
        steps are one-sided.
        """
        if self.cells is None:
            return np.zeros((self.size, 0))
        if self.bin_of_cell is not None:
            return np.asarray(self.bin_of_cell == np.arange(self.size)[:, None], dtype=np.float64)
        cells = len(self.points)
        return np.eye(self.size, cells) + np.eye(self.size, cells, 1)

    def centring(self, shares: Floats) -> Floats:
        """The weights of the points, for these shares of the rows in each cell."""
        if self.cells is None or not self.ordered:
            return shares
        return np.array([shares @ np.interp(self.cells.labels, self.points, one) for one in np.eye(len(self.points))])

    def at_cells(self, curve: Floats) -> Floats:
        """The curve at the middle of each cell that rows were counted by."""
        if self.cells is None:
            return np.zeros(0)
        return np.interp(self.cells.labels, self.points, curve) if self.ordered else curve

    def place(self, values: Floats) -> Integers:
        """The bin of each clean value of an ordered feature: that of its cell; or, between quantiles, by value."""
        if self.cells is not None and self.bin_of_cell is not None:
            return self.bin_of_cell[self.cells.place(values)]
        return np.searchsorted(np.asarray(self.points[1:-1], dtype=np.float64), values, side="left").astype(np.int64)


def _summed(place: Integers, values: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(place, values, size), dtype=np.float64)
