"""The coordinates in which a model is approximated: every feature takes part with at most 1 in squared distance.

    numeric       (x - low) / (high - low), one coordinate in [0, 1]
    categorical   one coordinate for each declared category: 1 / sqrt(2) for the row's own category, 0 elsewhere

so two rows that differ in a category are 1 apart in that feature, and the diameter of the space is the square root of
the number of features. All of this is public: it follows from the declared domain.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import domain_from_json, ends, number
from dpexplain.columns import shown as in_words
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.errors import InputError

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]  # clean columns: floats, or codes of declared categories
Point = Mapping[str, Any]  # one record: feature to value, in the units of the table

ONE = math.sqrt(0.5)  # the coordinate of a row's own category


@dataclass(frozen=True)
class Space:
    """The coordinates of `features`, in their order."""

    domain: Domain
    features: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.features or len(set(self.features)) < len(self.features):
            raise InputError("a local explanation needs at least one feature, and each of them once.")
        for name in self.features:
            self.domain.column(name)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each feature's coordinates are. Without a number there are none: such columns are refused."""
        slices, start = {}, 0
        for name in self.features:
            column = self.domain[name]
            if column.keeps_missing:
                raise InputError(
                    f"{name!r} keeps missing values, which have no distance from a number.",
                    hint=f"declare the number that a missing {name} becomes (missing=...), or leave the column out "
                    "(features=[...]); partial dependence, importance and influence take missing values as they are",
                )
            slices[name] = slice(start, start + (self.counts[name] or 1))
            start = slices[name].stop
        return slices

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many categories each feature has; 0 for a number."""
        columns = {name: self.domain[name] for name in self.features}
        return {name: len(c.categories) if isinstance(c, Categorical) else 0 for name, c in columns.items()}

    @cached_property
    def size(self) -> int:
        """The number of coordinates."""
        return int(self.slices[self.features[-1]].stop)

    @property
    def diameter(self) -> float:
        """No two records are further apart."""
        return math.sqrt(len(self.features))

    @cached_property
    def names(self) -> list[str]:
        """A name for each coordinate: `age`, `sex=female`."""
        names: list[str] = []
        for name in self.features:
            column = self.domain[name]
            names += [f"{name}={c}" for c in column.categories] if isinstance(column, Categorical) else [name]
        return names

    @cached_property
    def middle(self) -> Floats:
        """The public reference point: the middle of every range, all categories alike."""
        point = np.full(self.size, 0.5)
        for name, where in self.slices.items():
            if self.counts[name]:
                point[where] = ONE / self.counts[name]
        return point

    @cached_property
    def basis(self) -> Floats:
        """Directions, one in each column, that the way from one record to another can have: the coordinates of a
        category add up to the same for all records, so its ways have one direction less than coordinates.
        """
        from scipy.linalg import block_diag

        blocks: list[Floats] = []
        for count in self.counts.values():
            even = np.full((count, 1), 1.0)
            blocks.append(np.linalg.qr(np.hstack([even, np.eye(count)[:, 1:]]))[0][:, 1:] if count else np.eye(1))
        basis: Floats = block_diag(*blocks)
        return basis if basis.shape[1] else np.eye(self.size)  # of single categories: there is no way at all

    def coordinates(self, columns: Columns, size: int) -> Floats:
        """Clean columns of `size` rows as a matrix, one line for each row."""
        matrix = np.zeros((size, self.size))
        for name, where in self.slices.items():
            column, values = self.domain[name], columns[name]
            if isinstance(column, Numeric):
                matrix[:, where.start] = (values - column.low) / (column.high - column.low)
            else:
                matrix[np.arange(size), where.start + values.astype(np.int64)] = ONE
        return matrix

    def read(self, record: Any) -> dict[str, Any]:
        """One record of the caller's, checked: a mapping or pandas Series by name, or a sequence in order.

        A missing value takes the declared default, as in the table. The record is the caller's own, so unlike
        everywhere else errors may speak of its values.
        """
        if hasattr(record, "to_dict") and getattr(record, "ndim", 1) == 1:
            record = record.to_dict()
        wrong = ""
        if isinstance(record, Mapping):
            if missing := [name for name in self.features if name not in record]:
                wrong = f"the record has no value for {', '.join(map(repr, missing))}."
        elif not isinstance(record, Sequence | np.ndarray) or isinstance(record, str | bytes):
            wrong = "a record is a mapping, a pandas Series or a sequence of values."
        elif len(record) != len(self.features) or np.ndim(record) != 1:
            wrong = f"the record has {len(record)} values; {len(self.features)} are needed."
        if wrong:
            shown = ", ".join(self.features[:12]) + (", ..." if len(self.features) > 12 else "")
            raise InputError(wrong, hint=f"features in order: {shown}", spent="")
        values = record if isinstance(record, Mapping) else dict(zip(self.features, record, strict=True))
        return {name: self._value(name, values[name]) for name in self.features}

    def columns(self, point: Point) -> Columns:
        """A record that `read` has checked as clean columns of one row."""
        return {
            name: np.array([column.categories.index(point[name]) if isinstance(column, Categorical) else point[name]])
            for name, column in ((name, self.domain[name]) for name in self.features)
        }

    def locate(self, point: Point) -> Floats:
        """The coordinates of a record that `read` has checked."""
        return np.asarray(self.coordinates(self.columns(point), 1)[0])

    def by_feature(self, coordinates: Floats) -> Floats:
        """The sum over each feature's coordinates, along the last axis."""
        starts = [where.start for where in self.slices.values()]
        return np.asarray(np.add.reduceat(coordinates, starts, axis=-1))

    def lines(self, way: Floats) -> Floats:
        """The way along each feature by itself, one line for each."""
        lines = np.zeros((len(self.features), self.size))
        for line, where in zip(lines, self.slices.values(), strict=True):
            line[where] = way[where]
        return lines

    def _value(self, name: str, value: Any) -> Any:
        column = self.domain[name]
        if is_missing(value):
            return None if column.keeps_missing else column.missing
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(column, Categorical):
            for category in column.categories:
                if value == category and isinstance(value, str) == isinstance(category, str):
                    return category
            shown = ", ".join(map(repr, column.categories[:8])) + (", ..." if len(column.categories) > 8 else "")
            raise InputError(f"{name}={value!r} is not a declared category.", hint=f"declared: {shown}", spent="")
        value = number(column, value)
        if isinstance(value, int) and abs(value) > sys.float_info.max:  # too long to be shown as well
            raise InputError(f"{name} is a number beyond all that can be computed with.", spent="")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(f"{name}={value!r} is not a finite number.", spent="")
        if not column.low <= value <= column.high:
            raise InputError(
                f"{name}={in_words(column, value)} lies outside the declared range {ends(column)}.", spent=""
            )
        return float(value)

    def to_json(self) -> JsonObject:
        return {"features": list(self.features), "columns": {n: self.domain[n].to_json() for n in self.features}}

    @classmethod
    def from_json(cls, value: JsonObject) -> Space:
        return cls(domain_from_json(value["columns"]), tuple(value["features"]))


def is_missing(value: Any) -> bool:
    """None, NaN, and what pandas puts in their place."""
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")
