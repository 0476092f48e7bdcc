"""Declared columns beside numbers and categories, declared columns as they stand in files, and what people call them.

A date is a number with a calendar: whole steps since 1970, between declared bounds, so that grids, cells, bounds and
noise are those of any whole number. Nothing here is trusted beyond `core.domain`, whose clipping a date inherits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, Column, Domain, Numeric
from dpexplain.errors import DomainError, InputError

STEPS = {"day": "D", "month": "M", "year": "Y"}
EXAMPLE = 'dpx.Date("2015-01-01", "2026-12-31", step="month")'
_ENTRIES = {
    "numeric": {"low", "high", "integer", "missing"},
    "categorical": {"values", "missing"},
    "date": {"low", "high", "step", "missing"},
}
FOR_PEOPLE = ("title", "unit", "description", "titles")  # entries of a column that are words alone
LONGEST = 300  # letters of such an entry


@dataclass(frozen=True, init=False)
class Date(Numeric):
    """A day, a month or a year between declared bounds. A model sees the first day of the step, as a timestamp.

    low, high  "2015-01-01" or a `datetime.date`; for months and years "2015-03" will do
    step       "day", "month" or "year": what is between two of them is not told apart
    missing    the date that stands for a missing one (the middle if not given), or "nan": then NaT is one more value
    """

    step: str = "day"
    unit: str = field(default="D", repr=False)  # numpy's name of the step

    def __init__(self, low: Any, high: Any, step: str = "day", missing: Any = None) -> None:
        if not isinstance(step, str) or step not in STEPS:
            raise DomainError(f"the step of a date is {', '.join(STEPS)}; got {step!r}."[:200], hint=EXAMPLE)
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "unit", STEPS[step])
        first, last = (self._declared(end, f"the {name} bound") for name, end in (("lower", low), ("upper", high)))
        if not first < last:
            raise DomainError(f"the bounds of a date are reversed or one {step}: {low} and {high}.", hint=EXAMPLE)
        stands = missing if missing is None or missing == "nan" else self._declared(missing, "missing")
        if isinstance(stands, float) and not first <= stands <= last:
            raise DomainError(f"missing={missing} lies outside the bounds {low} to {high}.")
        super().__init__(first, last, True, stands)

    def _declared(self, value: Any, what: str) -> float:
        try:
            return self.code(value)
        except InputError as error:
            raise DomainError(f"{what} of a date: {error.message}", hint=EXAMPLE) from None

    def code(self, value: Any) -> float:
        """The number of a date that a person wrote: whole steps since 1970."""
        text = value.isoformat() if isinstance(value, date) else value
        try:
            if not isinstance(text, str) or not 4 <= len(text.strip()) <= 32 or not text.strip()[:4].isdigit():
                raise ValueError
            day = np.datetime64(text.strip())
        except ValueError:
            raise InputError(f"{value!r} is not a date such as 2026-03-31."[:200], spent="") from None
        if np.isnat(day) or np.datetime_data(day.dtype)[0] not in {"Y", "M", "D"}:  # a time of day belongs to a value
            day = day.astype("datetime64[D]")
        if STEPS["day"] == self.unit and np.datetime_data(day.dtype)[0] != "D":
            raise InputError(f"{value!r} names no day, and the step is a day."[:200], spent="")
        return float(day.astype(f"datetime64[{self.unit}]").astype(np.int64))

    def shown(self, code: float | None) -> str:
        """The date of a number, as people write it: 2026, 2026-03 or 2026-03-31."""
        return "missing" if code is None or code != code else date_text(code, self.unit)

    def timestamps(self, codes: NDArray[np.float64]) -> NDArray[np.datetime64]:
        """The first day of each step, NaT for a missing one: what a model sees."""
        whole = np.floor(np.nan_to_num(codes, nan=0.0)).astype(np.int64).astype(f"datetime64[{self.unit}]")
        days = whole.astype("datetime64[D]").astype(f"datetime64[{self._resolution}]")
        return np.where(np.isnan(codes), np.datetime64("NaT"), days)

    @property
    def _resolution(self) -> str:
        """Nanoseconds, as pandas has had them from the beginning, where they reach; else seconds."""
        first, last = (int(self.shown(end)[:4]) for end in (self.low, self.high))
        return "ns" if first >= 1678 and last < 2262 else "s"

    def to_json(self) -> JsonObject:
        missing = self.missing if self.keeps_missing else self.shown(float(self.missing or 0.0))
        ends = {"low": self.shown(self.low), "high": self.shown(self.high)}
        return {"type": "date", **ends, "step": self.step, "missing": missing}


def date_text(code: float, unit: str) -> str:
    """The date of a number of steps since 1970."""
    return str(np.array(math.floor(code)).astype(f"datetime64[{unit}]"))


def unit_of(domain: JsonObject | None, name: str) -> str:
    """numpy's name of the step of a column of dates; empty for all other columns."""
    entry = (domain or {}).get(name)
    return STEPS[entry["step"]] if isinstance(entry, dict) and entry.get("type") == "date" else ""


def ends(column: Numeric) -> str:
    """The declared bounds in words."""
    return f"{shown(column, column.low)} to {shown(column, column.high)}"


def shown(column: Numeric, value: float) -> str:
    """A number of a column in words."""
    return column.shown(value) if isinstance(column, Date) else f"{value:g}"


def shown_date(column: Column, value: Any) -> Any:
    """A value of a column as a table for people has it: dates as dates, all others as they are."""
    number = isinstance(column, Date) and isinstance(value, int | float)
    return column.shown(float(value)) if number else value  # type: ignore[union-attr]


def labels(domain: JsonObject | None, name: str, points: Iterable[Any]) -> list[Any]:
    """Public points of a column as a table for people has them: dates as dates, all others as they are."""
    unit = unit_of(domain, name)
    return [date_text(x, unit) if unit and isinstance(x, int | float) else x for x in points]


def number(column: Numeric, value: Any) -> Any:
    """A value that a person gave for a column of numbers: dates become their number, all others stay what they are. A
    float stands for a date in our own specs alone.
    """
    if not isinstance(column, Date) or value is None or isinstance(value, float):
        return value
    return column.code(value)


def domain_from_json(value: JsonObject) -> Domain:
    """The declared columns that `Domain.to_json` wrote."""
    return Domain({name: column_from_json(name, entry) for name, entry in value.items()})


def column_from_json(name: str, entry: JsonObject) -> Column:
    """One declared column from its plain form, as in a domain file."""
    kind = entry.get("type") if isinstance(entry, dict) else None
    if not isinstance(kind, str) or kind not in _ENTRIES:
        raise DomainError(
            f"column {name!r} has type {kind!r}.", hint="write `type: numeric`, `type: categorical` or `type: date`"
        )
    unknown = set(entry) - _ENTRIES[kind] - {"type"}
    if unknown:
        raise DomainError(f"column {name!r} has an unknown setting: {', '.join(sorted(map(str, unknown)))}.")
    try:
        if kind == "date":
            return Date(entry.get("low"), entry.get("high"), entry.get("step", "day"), entry.get("missing"))
        if kind == "numeric":
            return Numeric(entry.get("low"), entry.get("high"), entry.get("integer", False), entry.get("missing"))  # type: ignore[arg-type]
        return Categorical(entry.get("values") or [], entry.get("missing"))
    except DomainError as error:
        raise DomainError(f"column {name!r}: {error.message}", hint=error.hint) from None


# Names for people -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Names:
    """What columns, their values and the protected units are called in pictures and pages.

    Words alone: no digest, no ledger entry and no guarantee depends on them, so that a title may change at any time.

    columns  for each column that has any: title, unit, description, and titles, one for each declared category
    units    what the protected units are called, in the plural: patients, person-years
    """

    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    units: str = ""

    @classmethod
    def checked(cls, columns: Any, units: Any, domain: Mapping[str, Column]) -> Names:
        """Names that fit these columns; what does not is refused."""
        if not isinstance(columns, Mapping):
            raise DomainError("names are {column: {title, unit, description, titles}}.", hint=NAMED)
        for name in columns:
            if name not in domain:
                raise DomainError(f"names has a column {name!r} that is not declared."[:200], hint=NAMED)
        named = {name: own for name in domain if (own := _words_of(name, columns.get(name), domain[name]))}
        _require_different(named, domain)
        return cls(named, "" if units is None else _text(units, "units"))

    def __bool__(self) -> bool:
        return bool(self.columns or self.units)

    def title(self, name: str) -> str:
        """What a column is called; of one without a title, and of anything else, the name itself."""
        title: str = self.columns.get(name, {}).get("title", name)
        return title

    def axis(self, name: str) -> str:
        """What a column is called, with its unit."""
        unit = self.columns.get(name, {}).get("unit")
        return f"{self.title(name)} ({unit})" if unit else self.title(name)

    def description(self, name: str) -> str:
        """What a column means; empty where nothing was said."""
        text: str = self.columns.get(name, {}).get("description", "")
        return text

    def value(self, domain: JsonObject | None, name: str, value: Any) -> Any:
        """What a category of a column is called; every other value as it is."""
        titles, categories = self.columns.get(name, {}).get("titles"), (domain or {}).get(name, {}).get("values")
        if not titles or not categories or value not in categories:
            return value
        return titles[categories.index(value)] or value

    def to_json(self) -> JsonObject:
        return {"columns": {name: dict(own) for name, own in self.columns.items()}, "units": self.units}

    @classmethod
    def from_json(cls, value: JsonObject, domain: Mapping[str, Column]) -> Names:
        return cls.checked(value["columns"], value["units"], domain)


NAMED = 'names={"age": {"title": "Age", "unit": "years"}}'


def names_of(domain: Any) -> Names:
    """The names for people of a domain; a trusted `core.domain.Domain` has none."""
    found = getattr(domain, "names", None)
    return found if isinstance(found, Names) else Names()


def _words_of(name: str, own: Any, column: Column) -> dict[str, Any]:
    if own is None:
        return {}
    if not isinstance(own, Mapping) or set(own) - set(FOR_PEOPLE):
        raise DomainError(f"the names of column {name!r} may be {', '.join(FOR_PEOPLE)}."[:300], hint=NAMED)
    words = {key: _text(own[key], f"{key} of column {name!r}") for key in FOR_PEOPLE[:3] if own.get(key) is not None}
    titles = own.get("titles")
    if titles is None:
        return words
    size = len(column.categories) if isinstance(column, Categorical) else 0
    if not isinstance(titles, list | tuple) or len(titles) != size:
        raise DomainError(
            f"titles of column {name!r}: one for each declared value, in their order; null for one without."[:300],
            hint="values: [0, 1], titles: [no, yes]",
        )
    known = [None if title is None else _text(title, f"a title of column {name!r}") for title in titles]
    shown = [title or str(value) for title, value in zip(known, getattr(column, "categories", ()), strict=True)]
    if len(set(shown)) < len(shown):
        raise DomainError(f"two values of column {name!r} have one title."[:200])
    return {**words, "titles": known}


def _require_different(named: Mapping[str, Mapping[str, Any]], domain: Mapping[str, Column]) -> None:
    """Refuse titles by which one column would pass for another."""
    shown: dict[str, str] = {}
    for name in domain:
        title = named.get(name, {}).get("title", name)
        other = shown.setdefault(title.casefold(), name)
        if other != name or (title != name and title in domain):
            raise DomainError(f"the title {title!r} of column {name!r} is taken by another column."[:300])


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST or not value.isprintable():
        raise DomainError(f"{what} must be a text in one line of at most {LONGEST} letters; got {value!r}."[:300])
    return value.strip()
