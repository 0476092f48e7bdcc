"""One spelling for every public fact that is hashed: requests, released values, ledger events."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

Json = Any  # what json.loads returns
JsonObject = dict[str, Any]


def canonical_json(value: Json) -> str:
    """The same text for the same value: sorted keys, no blanks, no NaN, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def digest(value: Json) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()


def fraction_text(value: Fraction) -> str:
    """A fraction as `"n/d"`, exact for ever; by Decimal, because Python writes no integer of more than 4300 digits."""
    return f"{Decimal(value.numerator):f}/{Decimal(value.denominator):f}"


def parse_fraction(text: Any) -> Fraction:
    """The fraction that `fraction_text` wrote; ValueError for anything else, however long.

    4300 digits: Python writes no longer whole number. What we accept as a cost is far shorter (`core.budget.exact`).
    """
    if not isinstance(text, str) or not re.fullmatch(r"-?\d{1,4300}/[1-9]\d{0,4299}", text, re.ASCII):
        raise ValueError("not a fraction")
    return Fraction(text)


def freeze(value: Mapping[str, Any]) -> JsonObject:
    """A deep copy of `value` as plain JSON; what cannot be spelled in JSON is refused here, before any release."""
    copy: JsonObject = json.loads(canonical_json(dict(value)))
    return copy
