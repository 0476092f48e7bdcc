"""What number a value stands for, whatever type a reader has stored it in.

Readers choose the type of a column by looking at all of its values: one missing value makes whole numbers floats, one
"?" makes truth values texts, one word makes numbers texts. So 1, 1.0, True, "1", "1.0", "01" and "true" may all be what
a reader made of the same entry, and nothing but the entry itself may decide how it is read. Here they are one number.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

_DECIMAL = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|inf|infinity)", re.ASCII | re.IGNORECASE)
_HEXADECIMAL = re.compile(r"0x[0-9a-f]{1,16}", re.ASCII | re.IGNORECASE)
_DATE = re.compile(
    r"\d{4}-\d\d|(?P<day>\d{4}-\d\d-\d\d)([T ](?P<hour>\d\d)(:?(?P<minute>\d\d)(:?(?P<second>\d\d)(\.\d{1,9})?)?)?"
    r" ?(Z|(?P<sign>[+-])(?P<ahead>\d\d)(:?(?P<shift>\d\d))?)?)?",
    re.ASCII,
)
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


def day_of(value: Any, unit: str) -> float:
    """The number of the date that `value` stands for, in steps since 1970; NaN for all that is no date.

    Of texts, ISO 8601 alone: 2026-03-31, also with a time of day behind it, and 2026-03 where no day is asked for. A
    moment with a time zone is its day in UTC, which is what readers keep of it. Numbers are no dates: a reader makes
    one number of the entries 20260331 and 20260331.0, and of a year what it makes of any number.
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        day, minutes = _read_date(value.strip(), unit)
        value = day + np.timedelta64(minutes // (24 * 60), "D")
    elif isinstance(value, datetime) and value == value:
        value = np.datetime64((value if value.tzinfo is None else value.astimezone(UTC)).date())
    elif not isinstance(value, date | np.datetime64) or value != value:
        return math.nan
    day = np.datetime64(value, "D")
    return math.nan if np.isnat(day) else float(day.astype(f"datetime64[{unit}]").astype(np.int64))


def _read_date(text: str, unit: str) -> tuple[np.datetime64, int]:
    """A day, and the minutes of a moment on it in UTC; no day at all if it is not written as one."""
    nothing = np.datetime64("NaT", "D"), 0
    if found := _DATE.fullmatch(text):
        hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
        ahead, shift = int(found["ahead"] or 0), int(found["shift"] or 0)
        if hour > 23 or max(minute, second, shift) > 59 or ahead > 23 or (found["day"] is None and unit == "D"):
            return nothing
        try:
            day = np.datetime64(found["day"] or f"{text}-01", "D")
        except ValueError:  # 30 February
            return nothing
        return day, 60 * hour + minute - (-1 if found["sign"] == "-" else 1) * (60 * ahead + shift)
    return nothing


def hexadecimal(text: str) -> int:
    """What Arrow makes of a hexadecimal text: a signed whole number of 64 bits."""
    number = int(text, 16)
    return number - 2**64 if number >= 2**63 else number


def says_missing(text: str) -> bool:
    """Whether readers take a text for a missing value; some of them only where the other entries are numbers."""
    word = text.strip().lower()
    return word in _MISSING or _NAN.fullmatch(word) is not None
