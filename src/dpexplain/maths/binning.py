"""From a released histogram to the bins of an accumulated effect: post-processing, free of charge.

Effects are taken between neighbouring bin edges, so bins trade bias against noise. Merging the public cells of an
ordered feature into bins b with N_b rows and a share w_b of the feature's range minimises

    sum_b  g_b s^2 / N_b^2  +  t w_b^2 / 6

where s is the noise of a bin's sum of differences, g_b the part of the curve that an error in bin b moves (after
centring by the density), and t w_b^2 / 6 what a straight line inside the bin loses if the curve wanders like Brownian
motion with variance t over the whole range. The cells are public, the counts released, so any rule may be used here.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Column, Numeric
from dpexplain.maths.grids import WHOLE_NUMBERS, Partition, partition_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CELLS = 100
WANDER = 0.05  # t, in squared units of the output range; chosen on the tables of `python -m bench effects`
LEAST_SHARE = 0.01  # of the rows in a bin: fewer say little about their neighbours
MOST_BINS = 100
SURE_COUNT = 3.0  # a bin's count stands this many standard deviations above zero


@dataclass(frozen=True)
class Steps:
    """The public points of a feature, lowest first, between which effects can be taken, and its cells for counting.

    Ordered: `points[0]` is the lower bound, the others are the upper ends of cells; a first cell that holds nothing
    but the lower bound belongs to the first step. Unordered: the categories in their declared order.
    """

    cells: Partition
    points: tuple[Any, ...]
    ordered: bool
    missing: bool = False  # whether there are rows without a value: they have no neighbours, so they are left out

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
        """To how many steps one row can add: its own; for categories, those to both neighbours."""
        return 1 if self.ordered else min(2, self.size)

    def present(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of some clean values are there."""
        return ~np.isnan(values) if self.missing else np.ones(len(values), dtype=bool)

    def counts(self, values: NDArray[Any]) -> Integers:
        """How many clean values lie in each cell; missing ones lie in none."""
        return self.cells.counts(values[self.present(values)])

    def to_json(self) -> JsonObject:
        left_out = {"missing": True} if self.missing else {}
        return {"cells": self.cells.to_json(), "points": list(self.points), "ordered": self.ordered, **left_out}

    @classmethod
    def from_json(cls, value: JsonObject) -> Steps:
        steps = cls(
            Partition.from_json(value["cells"]), tuple(value["points"]), value["ordered"], value.get("missing", False)
        )
        if steps.ordered is not True and steps.ordered is not False:
            raise ValueError("no steps of ours")
        if steps.cells.missing or not isinstance(steps.missing, bool) or (steps.missing and not steps.ordered):
            raise ValueError("no steps of ours")
        if steps.ordered and not (
            2 <= len(steps.points) <= WHOLE_NUMBERS + 1
            and steps.cells.size in (steps.size, steps.size + 1)
            and all(a < b for a, b in itertools.pairwise(steps.points))
        ):
            raise ValueError("no steps of ours")
        return steps


def steps_of(feature: str, column: Column) -> Steps:
    """The steps of a declared column: between its categories, its whole numbers, or the ends of equal cells."""
    if not isinstance(column, Numeric):
        return Steps(partition_of(feature, column, CELLS), column.categories, ordered=False)
    few = column.integer and column.values <= WHOLE_NUMBERS
    numbers = Numeric(column.low, column.high, column.integer)  # no cell for missing values
    cells = partition_of(feature, numbers, WHOLE_NUMBERS if few else CELLS)
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
    if not steps.ordered:
        return np.arange(steps.size + 1)
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
        width, found = place[end] - place[start], mass[end] - mass[start]
        needed = np.maximum(LEAST_SHARE * total, SURE_COUNT * count_std * np.sqrt(merged[end] - merged[start]))
        right, above = 1 - (place[end] + place[start]) / 2, 1 - (share[end] + share[start]) / 2
        moved = right * (1 - above) ** 2 + (1 - right) * above**2
        noise = moved * (sum_std / np.maximum(found, 1.0)) ** 2
        shortage = np.maximum(needed - found, 0.0) / total
        trial = cost[start] + noise + WANDER * width**2 / 6 + 1000 * shortage
        before[end] = int(np.argmin(trial))
        cost[end] = trial[before[end]]
    edges = [m]
    while edges[-1] > 0:
        edges.append(int(before[edges[-1]]))
    return np.array(edges[::-1], dtype=np.int64)
