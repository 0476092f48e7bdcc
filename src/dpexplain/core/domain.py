"""What is declared about the data before anybody looks at it, and the clipping that makes every row obey.

A declared value is public: bounds, categories, the value that stands for a missing one. No method here can raise
because of a row: what lies outside is clipped, what is missing, unseen or not a number becomes the declared default.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject, digest
from dpexplain.errors import DomainError, InputError

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class PublicRange:
    """An interval that outputs are clipped to, and the integers {0..levels} that they become before they are summed."""

    low: float
    high: float
    levels: int = 2**20  # even, so that the middle is an integer; fine enough that rounding never shows

    def __post_init__(self) -> None:
        low, high = _bounds(self.low, self.high, "the output range", InputError)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if not 1e-100 <= high - low <= 1e100:
            raise InputError(f"the output range from {low:g} to {high:g} is too narrow or too wide to compute with.")
        if isinstance(self.levels, bool) or not isinstance(self.levels, int) or self.levels not in range(2, 2**32, 2):
            raise InputError(f"levels must be an even number below 2^32; got {self.levels!r}.")

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def middle(self) -> float:
        return self.low + self.width / 2

    def quantize(self, values: Floats) -> NDArray[np.int64]:
        """Each value clipped (NaN becomes the middle) and rounded to the nearest of levels + 1 equal steps."""
        unit = (np.clip(values, self.low, self.high) - self.low) / self.width
        return np.rint(np.nan_to_num(unit, nan=0.5) * self.levels).astype(np.int64)

    def to_json(self) -> JsonObject:
        return {"low": self.low, "high": self.high, "levels": self.levels}

    @classmethod
    def from_json(cls, value: JsonObject) -> PublicRange:
        return cls(value["low"], value["high"], value["levels"])


@dataclass(frozen=True)
class Numeric:
    """A number between declared bounds. Missing values become `missing` (the middle of the bounds if not given), or
    stay missing for models that take NaN themselves (`missing="nan"`): then NaN is one more declared value.
    """

    low: float
    high: float
    integer: bool = False
    missing: float | str | None = None

    def __post_init__(self) -> None:
        if any(isinstance(value, np.generic) for value in (self.low, self.high, self.missing)):
            raise _from_data("a bound of a numeric column", "write the number itself, or float(...) around it")
        low, high = _bounds(self.low, self.high, "a numeric column", DomainError)
        if self.integer and not (low.is_integer() and high.is_integer() and max(-low, high) <= 2**53):
            raise DomainError(
                f"the bounds of an integer column must be whole numbers of at most 2^53; got {low:g} and {high:g}."
            )
        if not isinstance(self.integer, bool):
            raise DomainError(f"integer must be true or false; got {self.integer!r}.")
        middle = self.missing is None or self.keeps_missing
        missing = low / 2 + high / 2 if middle else _number(self.missing, 'missing (unless it is "nan")', DomainError)
        if not low <= missing <= high:
            raise DomainError(f"missing={missing:g} lies outside the bounds {low:g} to {high:g}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        missing = float(math.floor(missing)) if self.integer else missing
        object.__setattr__(self, "missing", "nan" if self.keeps_missing else missing)

    @property
    def keeps_missing(self) -> bool:
        """Whether NaN is a value of this column, which the model sees as it is."""
        return isinstance(self.missing, str) and self.missing == "nan"

    @property
    def values(self) -> int:
        """How many numbers an integer column can take."""
        return int(self.high - self.low) + 1

    def clean(self, values: Floats) -> Floats:
        """Every value inside the bounds; missing ones replaced (or NaN); whole numbers for an integer column."""
        inside = np.clip(np.where(np.isnan(values), np.float64(self.missing or 0.0), values), self.low, self.high)
        return (np.rint(inside) if self.integer else inside) + 0.0  # minus zero is zero: only some types have it

    def to_json(self) -> JsonObject:
        return {"type": "numeric", "low": self.low, "high": self.high, "integer": self.integer, "missing": self.missing}


@dataclass(frozen=True)
class Categorical:
    """One of the declared values. Missing and unseen ones become `missing` (the first value if not given).

    In a table, a declared number is also found in its other spellings: 1 as 1.0, "1", "01" and "true".
    """

    categories: tuple[Any, ...]
    missing: Any = None
    keeps_missing = False  # a category can be declared for what is missing

    def __init__(self, categories: Sequence[Any], missing: Any = None) -> None:
        array = hasattr(categories, "dtype")  # an array, a Series or an Index
        listed = isinstance(categories, Sequence) and not isinstance(categories, str | bytes)
        if not array and not (listed and len(categories)):
            raise DomainError("a categorical column needs a list of at least one declared value, in a public order.")
        if array or any(isinstance(c, np.generic) for c in categories):
            raise _from_data("a category", "write the values themselves, or [...].tolist()")
        plain = tuple(categories)
        for value in plain:
            if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
                raise DomainError(f"a category must be a text or a finite number; got {value!r}.")
        if len(set(plain)) < len(plain):
            raise DomainError(
                "the declared categories contain a value twice.", hint="note that 1, 1.0 and True are equal"
            )
        if missing is not None and missing not in plain:
            raise DomainError(f"missing={missing!r} is not one of the declared categories.")
        object.__setattr__(self, "categories", plain)
        object.__setattr__(self, "missing", plain[0 if missing is None else plain.index(missing)])

    @property
    def missing_code(self) -> int:
        return self.categories.index(self.missing)

    def clean(self, codes: Codes) -> Codes:
        """Every code a declared one; anything else is the declared default."""
        known = (codes >= 0) & (codes < len(self.categories))
        return np.where(known, codes, self.missing_code).astype(np.int32)

    def to_json(self) -> JsonObject:
        return {"type": "categorical", "values": list(self.categories), "missing": self.missing}


Column = Numeric | Categorical


class Domain(Mapping[str, Column]):
    """The declared columns, in order. Written in code it counts as reviewed; in a file, a person must say so."""

    def __init__(
        self,
        columns: Mapping[str, Column],
        *,
        reviewed_by: str | None = "the code that declares it",
        peeked: bool = False,
    ) -> None:
        if not isinstance(columns, Mapping) or not columns:
            raise DomainError("a domain needs at least one column.", hint='{"age": dpx.Numeric(0, 120), ...}')
        for name, column in columns.items():
            if not isinstance(name, str) or not isinstance(column, Numeric | Categorical):
                raise DomainError(
                    f"column {name!r} is not declared as Numeric or Categorical.",
                    hint='for example {"age": dpx.Numeric(0, 120, integer=True)}',
                )
        self._columns = dict(columns)
        self.reviewed_by = reviewed_by
        self.peeked = peeked  # whether some bounds were suggested by looking at the data

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Domain({self._columns!r})"

    def column(self, name: str) -> Column:
        """The declared column, or an error that lists the names there are."""
        if not isinstance(name, str) or name not in self._columns:
            raise InputError(f"unknown feature {name!r}.", hint="declared columns: " + ", ".join(self._columns))
        return self._columns[name]

    def require_review(self) -> None:
        if self.reviewed_by is None:
            raise DomainError(
                "this domain was drafted by a program and no person has reviewed it yet.",
                hint="check every bound and category, then set `reviewed_by: your name` in the file",
            )

    def describe(self) -> str:
        """The domain as a public fact in a guarantee; bounds that were peeked at are named as such."""
        if not self.peeked:
            return "the declared domain"
        return f"the declared domain (drafted by looking at the data, reviewed by {self.reviewed_by})"

    def to_json(self) -> JsonObject:
        return {name: column.to_json() for name, column in self._columns.items()}

    @property
    def digest(self) -> str:
        """Identifies the declared columns; two tables with one name and version must agree on it."""
        return digest(self.to_json())


def _from_data(what: str, instead: str) -> DomainError:
    """Python programs write plain numbers; numpy's and pandas' come from looking at data."""
    return DomainError(
        f"{what} is a value of numpy, pandas or polars, which looks as if it was read from the rows.",
        hint=f"a domain is declared and public, never computed from private rows. If this one is public: {instead}",
    )


def _number(value: Any, name: str, error: type[InputError]) -> float:
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not real or not abs(value) <= sys.float_info.max:
        raise error(f"{name} must be a finite number; got {value!r}."[:200])
    return float(value)


def _bounds(low: Any, high: Any, what: str, error: type[InputError]) -> tuple[float, float]:
    bounds = _number(low, f"the lower bound of {what}", error), _number(high, f"the upper bound of {what}", error)
    if not bounds[0] < bounds[1]:
        raise error(
            f"the bounds of {what} are reversed or equal: {bounds[0]:g} and {bounds[1]:g}.", hint="low first, then high"
        )
    if not math.isfinite(bounds[1] - bounds[0]):
        raise error(f"the bounds of {what} are too far apart for a float.")
    return bounds
