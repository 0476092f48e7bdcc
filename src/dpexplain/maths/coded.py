"""Specs to plain JSON and back, by their declared types: what is hashed into the ledger is what a result reads.

    tuple <-> list       Fraction <-> "1/50"       Enum <-> its value       anything with to_json and from_json

A field with a default may be missing in a file of an earlier version. Values of a wrong type are refused (ValueError,
TypeError or LookupError, which `dpx.from_json` takes for a damaged file).
"""

from __future__ import annotations

import types
from dataclasses import MISSING, fields
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

from dpexplain.core.canonical import JsonObject, parse_fraction


class Coded:
    """Base of frozen dataclasses that are written as JSON, field by field."""

    def to_json(self) -> JsonObject:
        return {field.name: encoded(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, value: JsonObject) -> Self:
        hints, given = _hints(cls), dict[str, Any]()  # type: ignore[arg-type]
        for field in fields(cls):  # type: ignore[arg-type]
            if field.name in value or (field.default is MISSING and field.default_factory is MISSING):
                given[field.name] = decoded(hints[field.name], value[field.name])
        return cls(**given)


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def encoded(value: Any) -> Any:
    """A value as plain JSON."""
    if isinstance(value, tuple | list):
        return [encoded(item) for item in value]
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    return value.to_json() if hasattr(value, "to_json") else value


def decoded(hint: Any, value: Any) -> Any:
    """The value of this type that was written as `value`."""
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not types.NoneType]
        return None if value is None and len(kinds) < len(get_args(hint)) else decoded(kinds[0], value)
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise TypeError("not a list")
        kinds = list(get_args(hint))
        each = kinds[:1] * len(value) if kinds[-1] is Ellipsis else kinds
        return tuple(decoded(kind, item) for kind, item in zip(each, value, strict=True))
    if hint in (int, float, bool, str):
        kinds = [int, float] if hint is float else [hint]
        if type(value) not in kinds:
            raise TypeError(f"not of type {hint.__name__}")
        return value
    if hint is Fraction:
        return fraction_of(value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    return hint.from_json(value) if hasattr(hint, "from_json") else value


def fraction_of(text: Any) -> Fraction:
    """The fraction that `str` wrote, "1/50" or "3". Exponents are refused: "1e999999999" would never end."""
    return parse_fraction(text if not isinstance(text, str) or "/" in text else text + "/1")
