"""What number a value stands for, whatever type a reader has stored it in.

Readers choose the type of a column by looking at all of its values: one missing value makes whole numbers floats, one
"?" makes truth values texts, one word makes numbers texts. So 1, 1.0, True, "1", "1.0", "01" and "true" may all be what
a reader made of the same entry, and nothing but the entry itself may decide how it is read. Here they are one number.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

_DECIMAL = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|inf|infinity)", re.ASCII | re.IGNORECASE)
_HEXADECIMAL = re.compile(r"0x[0-9a-f]{1,16}", re.ASCII | re.IGNORECASE)
_TRUTHS = {"true": 1.0, "false": 0.0}
_NAN = re.compile(r"[+-]?nan(\(.*\))?", re.ASCII)
_MISSING = {
    "", "n/a", "na", "nan", "-nan", "nat", "none", "null", "<na>", "#na", "#n/a", "#n/a n/a", "1.#ind", "-1.#ind",
    "1.#qnan", "-1.#qnan",
}  # fmt: skip


def number_of(value: Any) -> float | None:
    """The number that `value` stands for, as a float; None for a missing value and for all that is no number."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        text = value.strip()
        if _DECIMAL.fullmatch(text):
            return float(text)
        return float(hexadecimal(text)) if _HEXADECIMAL.fullmatch(text) else _TRUTHS.get(text.lower())
    if not isinstance(value, Real | Decimal | np.bool_):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number or a fraction beyond all floats
        return math.inf if value == abs(value) else -math.inf
    return None if math.isnan(number) else number


def hexadecimal(text: str) -> int:
    """What Arrow makes of a hexadecimal text: a signed whole number of 64 bits."""
    number = int(text, 16)
    return number - 2**64 if number >= 2**63 else number


def says_missing(text: str) -> bool:
    """Whether readers take a text for a missing value; some of them only where the other entries are numbers."""
    word = text.strip().lower()
    return word in _MISSING or _NAN.fullmatch(word) is not None
