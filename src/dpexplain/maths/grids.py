"""Public grids and partitions, made from the declared domain and nothing else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import ends, number
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, Column, Domain, Numeric
from dpexplain.errors import InputError
from dpexplain.maths.coded import Coded
from dpexplain.maths.lookup import places

WHOLE_NUMBERS = 101  # an integer column with at most this many values can have a point (or a cell) for each of them
CELLS = 24  # of a column with many values, where nothing else is said
FEW_NUMBERS = 32  # and with at most this many it always has: a grid that misses hours or school years misleads


@dataclass(frozen=True)
class Axis(Coded):
    """The public points of one feature at which something is evaluated."""

    feature: str
    points: tuple[Any, ...]  # numbers (and None, the last one, where missing values are kept), or declared categories
    ordered: bool

    @property
    def numbers(self) -> NDArray[np.float64]:
        """The points of an ordered feature that have an order: all but the missing one."""
        return np.array([point for point in self.points if point is not None], dtype=np.float64)

    @property
    def settings(self) -> list[Any]:
        """What a model's column is set to: numbers (NaN for the missing one), or codes of categories."""
        if not self.ordered:
            return list(range(len(self.points)))
        return [math.nan if point is None else point for point in self.points]


def axis_of(domain: Domain, feature: str, grid: int | Sequence[float | str] | None, resolution: int) -> Axis:
    """The grid of one feature: every category; every whole number of a small integer column; else `resolution`
    equally spaced points (whole ones for an integer column). `grid` overrides it with a number of points or with the
    points themselves. No point for missing values: see `with_missing`.
    """
    column = domain.column(feature)
    if isinstance(column, Categorical):
        if grid is not None and not isinstance(grid, int):
            raise InputError(f"{feature!r} is categorical: its grid is its declared categories.")
        return Axis(feature, column.categories, ordered=False)
    if grid is None or isinstance(grid, int):
        return Axis(feature, _points(column, grid, resolution), ordered=True)
    try:
        points = tuple(float(number(column, x)) for x in grid)
    except (TypeError, ValueError, InputError):
        raise InputError(
            f"the grid of {feature!r} must be a number of points, or the points themselves; got {grid!r}."[:200]
        ) from None
    if len(points) < 2 or any(b <= a for a, b in itertools.pairwise(points)):
        raise InputError(f"the grid of {feature!r} must have at least two points in increasing order.")
    if not column.low <= points[0] <= points[-1] <= column.high:
        raise InputError(f"the grid of {feature!r} leaves its declared bounds {ends(column)}.")
    return Axis(feature, points, ordered=True)


def with_missing(axis: Axis, column: Column) -> Axis:
    """The axis, and after its numbers one more point where the column keeps missing values."""
    return replace(axis, points=(*axis.points, None)) if column.keeps_missing else axis


def _points(column: Numeric, asked: int | None, resolution: int) -> tuple[float, ...]:
    if asked is not None and (isinstance(asked, bool) or asked < 2):
        raise InputError(f"a grid needs at least 2 points; got {asked!r}.")
    if column.integer and asked is None and column.values <= FEW_NUMBERS:
        resolution = column.values
    points = np.linspace(column.low, column.high, resolution if asked is None else asked)
    if column.integer:
        points = np.unique(np.rint(points))
    return tuple(float(x) for x in points)


def is_complete(axis: Axis, column: Column) -> bool:
    """Whether the grid has every value that the feature can take, so that nothing is interpolated."""
    if isinstance(column, Categorical):
        return True
    return column.integer and len(axis.numbers) == column.values


@dataclass(frozen=True)
class Partition(Coded):
    """Public cells of one feature: its categories, its whole numbers, or equal intervals between `edges`; and a last
    cell for missing values where the column keeps them.
    """

    feature: str
    labels: tuple[Any, ...]  # categories; or the middles of the cells, and None for missing values
    edges: tuple[float, ...] | None  # one more than cells of numbers; None for a categorical feature

    @property
    def size(self) -> int:
        return len(self.labels)

    @property
    def missing(self) -> bool:
        """Whether the last cell is that of missing values."""
        return self.edges is not None and self.labels[-1] is None

    def place(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """The cell of each clean value."""
        if self.edges is None:
            return values.astype(np.int64)
        cells = places(self.edges[1:-1], values)
        return np.where(np.isnan(values), self.size - 1, cells) if self.missing else cells

    def counts(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """How many clean values lie in each cell; missing ones lie in none where there is no cell for them."""
        if self.edges is not None and not self.missing:
            absent = np.isnan(values)
            values = values[~absent] if absent.any() else values
        return np.bincount(self.place(values), minlength=self.size).astype(np.int64)

    @classmethod
    def from_json(cls, value: JsonObject) -> Partition:
        feature, labels, edges = value["feature"], value["labels"], value["edges"]
        if not isinstance(feature, str) or not isinstance(labels, list) or not labels:
            raise ValueError("no partition of ours")
        if edges is None:
            return cls(feature, tuple(labels), None)
        if not isinstance(edges, list) or any(isinstance(number, str) for number in [*labels, *edges]):
            raise ValueError("no partition of ours")
        numbers = labels[:-1] if labels[-1] is None else labels
        found = cls(feature, (*map(float, numbers), *labels[len(numbers) :]), tuple(map(float, edges)))
        rising = all(a < b for a, b in itertools.pairwise(found.edges or ()))
        if not numbers or len(edges) != len(numbers) + 1 or not rising:
            raise ValueError("no partition of ours")
        return found


def partition_of(feature: str, column: Column, cells: int) -> Partition:
    """At most `cells` equal cells; one for each value of an integer column that has no more values than that."""
    if isinstance(column, Categorical):
        return Partition(feature, column.categories, None)
    if column.integer:
        width = -(-column.values // cells)  # whole numbers to a cell; the last cell may have fewer
        edges = np.append(np.arange(column.low, column.high + 1, width), column.high + 1) - 0.5
    else:
        edges = np.linspace(column.low, column.high, cells + 1)
    return _between(feature, edges, column)


def cells_of(
    names: Sequence[str], domain: Domain, cells: int, most_whole: int = WHOLE_NUMBERS, most_graded: int = WHOLE_NUMBERS
) -> tuple[Partition, ...]:
    """The public cells of marginals that values are drawn from."""
    return tuple(_graded(name, domain[name], cells, most_whole, most_graded) for name in names)


def _graded(name: str, column: Column, cells: int, most_whole: int, most_graded: int) -> Partition:
    """Every category; every whole number of a small integer column, or equal cells if it has more than `most_whole`;
    else a third of the cells of equal width, and the others graded, or all but `most_graded`: the first one holds the
    low end alone, and each next one is wider by the same factor.
    """
    if isinstance(column, Categorical) or (column.integer and column.values <= WHOLE_NUMBERS):
        few = isinstance(column, Categorical) or column.values <= most_whole
        return partition_of(name, column, WHOLE_NUMBERS if few else cells)
    even = max(1, cells // 3, cells - most_graded)
    width = float(column.values) if column.integer else column.high - column.low
    least = 1.0 if column.integer else max(width / 10_000, math.ulp(0.0))
    parts = np.concatenate([np.linspace(0, width, even + 1), np.geomspace(least, width, max(1, cells - even))])
    edges = column.low + np.unique(np.rint(parts) if column.integer else parts)
    edges[-1] = column.high + 1 if column.integer else column.high
    edges = np.unique(edges - 0.5 if column.integer else edges)
    return _between(name, edges, column)


def _between(feature: str, edges: NDArray[Any], column: Numeric) -> Partition:
    """Cells between these edges, and one for missing values where they are kept."""
    middles = edges[:-1] / 2 + edges[1:] / 2  # the sum of two may be too large
    last = (None,) if column.keeps_missing else ()
    return Partition(feature, (*map(float, middles), *last), tuple(map(float, edges)))
