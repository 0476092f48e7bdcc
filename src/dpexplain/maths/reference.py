"""A released distribution over public cells, as something to take other values from: point by point, or at random.

A cell of one value is that value. For a cell of many, a few of them stand, spread evenly over it, whether points are
gone through or drawn: both have the same expectation.

Numbers that say where in the distribution a value lies are handed over: secret ones for a private row, public ones for
a person or a synthetic row. Nothing here draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import Categorical, Column, Numeric
from dpexplain.maths.grids import Partition

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

INSIDE, POINTS = 4, 101  # points in a cell of many values, and of a whole column of cells, at most
WHOLE = 2**30  # what the weights of all points add up to


@dataclass(frozen=True, eq=False)
class Reference:
    """The cells of one column and their shares, which add up to one. All points of a cell count alike."""

    column: Column
    partition: Partition
    shares: Floats

    def at(self, cell: Integers, part: Floats) -> NDArray[Any]:
        """The points that lie `part`, from 0 and below 1, of the way through those of a cell."""
        return self.points[self._first[cell] + np.floor(part * self._inside[cell]).astype(np.int64)]

    def cell_at(self, even: Floats) -> Integers:
        """The cells that lie `even` of the way through the distribution."""
        ends = np.cumsum(self.shares)
        found: Integers = np.searchsorted(ends[:-1], even * ends[-1], side="right")
        return found

    # Point by point ---------------------------------------------------------------------------------------------------

    @cached_property
    def _inside(self) -> Integers:
        return points_in(self.column, self.partition)

    @cached_property
    def _first(self) -> Integers:
        return np.cumsum(self._inside) - self._inside

    @cached_property
    def cells(self) -> Integers:
        """The cell of each point."""
        return np.repeat(np.arange(self.partition.size), self._inside)

    @cached_property
    def points(self) -> NDArray[Any]:
        """Values that stand for the cells: numbers (NaN for missing ones), or codes of categories."""
        cell = self.cells
        if self.partition.edges is None:
            assert isinstance(self.column, Categorical)
            return self.column.clean(cell.astype(np.int32))
        assert isinstance(self.column, Numeric)
        edges, number = np.asarray(self.partition.edges), np.arange(len(cell)) - self._first[cell]
        if self.partition.missing:
            edges = np.append(edges, np.nan)  # the points of the last cell are missing values
        return self.column.clean(edges[cell] + (edges[cell + 1] - edges[cell]) * (number + 0.5) / self._inside[cell])

    @cached_property
    def ends(self) -> NDArray[Any]:
        """The smallest and the largest value that each cell can hold, in two lines: points lie between them."""
        if self.partition.edges is None:
            return np.stack([self.points, self.points])
        assert isinstance(self.column, Numeric)
        edges = np.asarray(self.partition.edges)
        last = np.nextafter(edges[1:], -np.inf)  # a cell does not hold its right edge, but for the last one
        last[-1] = edges[-1]
        both = np.stack([edges[:-1], last])
        if self.column.integer:
            both = np.stack([np.ceil(both[0]), np.floor(both[1])])
        if self.partition.missing:
            both = np.append(both, np.full((2, 1), np.nan), axis=1)
        return self.column.clean(both)

    @property
    def wide(self) -> NDArray[np.bool_]:
        """The cells that hold other values than their points, or several of them: what lies where is not released."""
        first, last = self.ends.astype(np.float64)
        return np.asarray(first < last)

    @cached_property
    def weights(self) -> Integers:
        """The share of each point in whole parts, WHOLE in all: rounded down, and what is left to the largest rests."""
        exact = self.shares[self.cells] / self._inside[self.cells] * WHOLE
        found = np.floor(exact).astype(np.int64)
        rests = np.argsort(found - exact, kind="stable")
        found[rests[: max(0, WHOLE - int(found.sum()))]] += 1
        found[np.argmax(found)] += WHOLE - int(found.sum())  # what shares of not quite one leave
        return found

    @cached_property
    def by_cell(self) -> Floats:
        """From the outcomes at all points to the mean outcome in each cell: one line for each cell."""
        lines = np.zeros((self.partition.size, len(self.cells)))
        lines[self.cells, np.arange(len(self.cells))] = 1 / self._inside[self.cells]
        return lines

    @cached_property
    def kept_or_replaced(self) -> Floats:
        """From the outcomes at (own value, points) to two numbers: with the own value, and over the distribution."""
        lines = np.zeros((2, 1 + len(self.cells)))
        lines[0, 0] = 1.0
        lines[1, 1:] = self.shares @ self.by_cell
        return lines


def points_in(column: Column, partition: Partition) -> Integers:
    """How many points stand for each cell: each whole number of a narrow one, a few spread evenly over others; one,
    where there are many cells, and one for missing values.
    """
    if partition.edges is None:
        return np.ones(partition.size, dtype=np.int64)
    width, most = np.diff(partition.edges), min(INSIDE, max(1, POINTS // partition.size))
    whole = isinstance(column, Numeric) and column.integer
    found = np.minimum(most, np.rint(width)).astype(np.int64) if whole else np.full(len(width), most)
    return np.append(found, 1) if partition.missing else found
