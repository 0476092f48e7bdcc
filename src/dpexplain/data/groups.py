"""Groups of people, by public conditions on declared columns: which rows belong is private, the conditions are not.

A group is never defined by what the model answers: an intervention changes the answer, and with it the group, so that
before and after would speak of other people.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import Date, date_text, ends, number
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, Column, Domain, Numeric
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError

EXAMPLE = 'group={"sex": "Female"}, {"race": ["Black", "Other"]} or {"age": (17, 30)}'


@dataclass(frozen=True)
class Condition:
    """One column: its value is one of `values`; or, for a numeric column, between `low` and `high`, both included."""

    column: str
    values: tuple[Any, ...] | None
    low: float = -math.inf
    high: float = math.inf
    unit: str = ""  # of a column of dates, numpy's name of its step

    def holds(self, rows: Rows) -> NDArray[np.bool_]:
        column, found = rows.domain[self.column], rows[self.column]
        if self.values is None:
            inside: NDArray[np.bool_] = (found >= self.low) & (found <= self.high)
            return inside
        wanted = [column.categories.index(v) for v in self.values] if isinstance(column, Categorical) else self.values
        return np.isin(found, np.array(wanted))

    def describe(self) -> str:
        if self.values is not None:
            shown = " or ".join(self._words(v) if isinstance(v, float) else str(v) for v in self.values)
            return f"{self.column} is {shown}"
        if math.isinf(self.low):
            return f"{self.column} is at most {self._words(self.high)}"
        if math.isinf(self.high):
            return f"{self.column} is at least {self._words(self.low)}"
        return f"{self.column} is {self._words(self.low)} to {self._words(self.high)}"

    def named(self, receipt: Any) -> Condition:
        """The same condition in the words of a receipt's names."""
        values = self.values
        shown = None if values is None else tuple(receipt.called_value(self.column, value) for value in values)
        return replace(self, column=receipt.called(self.column), values=shown)

    def _words(self, value: float) -> str:
        return date_text(value, self.unit) if self.unit else f"{value:g}"

    def to_json(self) -> JsonObject:
        dates = {"unit": self.unit} if self.unit else {}
        if self.values is not None:
            return {"column": self.column, "values": list(self.values), **dates}
        low, high = (None if math.isinf(end) else end for end in (self.low, self.high))
        return {"column": self.column, "low": low, "high": high, **dates}

    @classmethod
    def from_json(cls, value: JsonObject) -> Condition:
        if "values" in value:
            return cls(value["column"], tuple(value["values"]), unit=value.get("unit", ""))
        low = -math.inf if value["low"] is None else float(value["low"])
        high = math.inf if value["high"] is None else float(value["high"])
        return cls(value["column"], None, low, high, value.get("unit", ""))


@dataclass(frozen=True)
class Group:
    """The rows for which all conditions hold."""

    conditions: tuple[Condition, ...]

    @classmethod
    def of(cls, group: Any, domain: Domain) -> Group:
        """A group from `{column: value, values or (low, high)}`, neither empty nor everybody over the domain."""
        if callable(group):
            raise InputError(
                "a group is made of conditions on declared columns, not of a function or of what the model answers.",
                hint=EXAMPLE,
            )
        if not isinstance(group, Mapping) or not group:
            raise InputError("a group says which values of which columns belong to it.", hint=EXAMPLE)
        conditions = []
        for name, wanted in group.items():
            if not isinstance(name, str) or name not in domain:
                raise InputError(
                    f"a group cannot be defined by {name!r}, which is not a declared column.",
                    hint="declared columns: " + ", ".join(domain) + ". The outcome of the model is none of them",
                )
            conditions.append(_condition(name, domain[name], wanted))
        if all(_everybody(condition, domain[condition.column]) for condition in conditions):
            raise InputError("the group holds everybody in the declared domain.", hint="name some of the values")
        return cls(tuple(conditions))

    def member(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether each row belongs."""
        held = np.ones(rows.size, dtype=bool)
        for condition in self.conditions:
            held &= condition.holds(rows)
        return held

    @property
    def columns(self) -> list[str]:
        return [condition.column for condition in self.conditions]

    def describe(self, called: Any = None) -> str:
        """In words; with a receipt, in those that people use."""
        conditions = self.conditions if called is None else [condition.named(called) for condition in self.conditions]
        return " and ".join(condition.describe() for condition in conditions)

    def to_json(self) -> JsonObject:
        return {"conditions": [condition.to_json() for condition in self.conditions], "words": self.describe()}

    @classmethod
    def from_json(cls, value: JsonObject) -> Group:
        group = cls(tuple(map(Condition.from_json, value["conditions"])))
        if not group.conditions or value["words"] != group.describe():
            raise ValueError("the words are not those of the conditions")
        return group


def _condition(name: str, column: Column, wanted: Any) -> Condition:
    if isinstance(wanted, Mapping) and set(wanted) <= {"low", "high"}:  # an interval in JSON
        wanted = (wanted.get("low"), wanted.get("high"))
    if isinstance(wanted, tuple) and isinstance(column, Numeric):
        return _between(name, column, wanted)
    wanted = wanted.tolist() if isinstance(wanted, np.ndarray) else wanted
    listed = isinstance(wanted, Sequence) and not isinstance(wanted, str | bytes)
    values = tuple(_declared(name, column, value) for value in (wanted if listed else [wanted]))
    if not values:
        raise InputError(f"the group names no value of {name!r}: nobody belongs to it.", hint=EXAMPLE)
    if len(set(values)) < len(values):
        raise InputError(f"the group names a value of {name!r} twice.")
    return Condition(name, values, unit=_unit(column))


def _declared(name: str, column: Column, value: Any) -> Any:
    """The value as it is declared: 1.0 and True are the category 1, numbers are floats."""
    value = _plain(value)
    if isinstance(column, Categorical):
        if isinstance(value, str | int | float) and value in column.categories:
            return column.categories[column.categories.index(value)]
        hint = "its values: " + ", ".join(map(str, column.categories[:20]))
    else:
        value = number(column, value)
        within = isinstance(value, int | float) and not isinstance(value, bool) and column.low <= value <= column.high
        if within and (not column.integer or float(value).is_integer()):
            return float(value)
        hint = f"it goes from {ends(column)}"
    raise InputError(
        f"{name!r} cannot be {value!r} in the declared domain: nobody is in such a group."[:300], hint=hint
    )


def _unit(column: Column) -> str:
    return column.unit if isinstance(column, Date) else ""


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _between(name: str, column: Numeric, wanted: tuple[Any, ...]) -> Condition:
    given = [number(column, _plain(end)) for end in wanted]
    if len(given) != 2 or any(isinstance(e, bool) or not isinstance(e, int | float | None) for e in given):
        raise InputError(f"an interval of {name!r} has two ends (low, high), None for an open one.", hint=EXAMPLE)
    low, high = given
    first = column.low if low is None else max(low, column.low)
    last = column.high if high is None else min(high, column.high)
    found = (math.ceil(first), math.floor(last)) if column.integer and first <= last else (first, last)
    if not found[0] <= found[1] or (low is not None and high is not None and not low <= high):
        raise InputError(
            f"nobody has {name!r} from {low!s:.40} to {high!s:.40} in the declared domain.",
            hint=f"it goes from {ends(column)}",
        )
    # ends beyond the domain say the same as its own, which a float can hold
    lowest, highest = -math.inf if low is None else float(first), math.inf if high is None else float(last)
    return Condition(name, None, lowest, highest, _unit(column))


def _everybody(condition: Condition, column: Column) -> bool:
    if condition.values is None:
        assert isinstance(column, Numeric)
        return not column.keeps_missing and condition.low <= column.low and condition.high >= column.high
    if isinstance(column, Categorical):
        return len(condition.values) == len(column.categories)
    return column.integer and not column.keeps_missing and len(condition.values) == column.values
