"""From raw columns to clean arrays. Nothing here fails or speaks because of a value.

    The code of a value depends on that value and the declared column alone.

Not on the type of its column, which readers infer from all values together: what a value stands for is looked at value
by value (`spelling.py`), so a missing value, a word or a fraction in one row cannot change how another row is read.
What is lost before we see it is lost: leading zeros, and digits beyond the sixteenth, of texts that a reader took for
numbers.

A value that is missing, unseen, of the wrong type or not a number takes the declared default; a number out of bounds is
clipped. What can be refused is the *type* of a column, which is part of the table's schema and public.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpexplain.columns import Date
from dpexplain.core.domain import Categorical, Column, Numeric
from dpexplain.data.spelling import day_of, hexadecimal, number_of, says_missing
from dpexplain.errors import DomainError, TableError

_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64, pd.Period, pd.Interval)
_USUAL = r"^-?[0-9]{1,18}(\.[0-9]{0,18})?$"  # numbers as they are usually written
LONGEST = 400  # digits of a Decimal that is an id
RawColumn = Any  # a pyarrow Array or ChunkedArray, or a pandas Series of dtype object


def check_type(name: str, column: Column, kind: pa.DataType | None) -> None:
    """Refuse a schema that can hold no declared value. `None` is a column of Python objects: anything goes.

    Some categories are safe in a column of texts only, where no reader has made something else of them: two spellings
    of one number, such as "1" and "01", and words for a missing value that are no default. A number beside another
    category that stands for it is safe nowhere.
    """
    if isinstance(column, Date):
        _check_date_type(name, kind)
        return
    stored = _stored_as(name, column, kind)
    if not isinstance(column, Categorical):
        return
    times = Counter(map(number_of, column.categories))
    alike = [value for value in column.categories if (one := number_of(value)) is not None and times[one] > 1]
    if any(not isinstance(value, str) for value in alike):
        raise DomainError(
            f"column {name!r} declares categories that a table can spell alike: {', '.join(map(repr, alike))}.",
            hint="declare all categories of this column as texts, or leave one of them out",
        )
    words = [v for v in column.categories if isinstance(v, str) and says_missing(v) and v != column.missing]
    if stored != "text" and (alike or words):
        why = "one number" if alike else "a missing value"
        raise TableError(
            f"column {name!r} declares {', '.join(map(repr, alike or words))}, which readers take for {why} unless the "
            "column is stored as text.",
            hint=f"read it as text, for example pandas.read_csv(..., dtype={{{name!r}: 'string'}})"
            + ("" if alike else ", or declare the word as the category of missing values: missing=..."),
        )


def _check_date_type(name: str, kind: pa.DataType | None) -> None:
    """Dates, moments, texts and Python objects may hold dates; numbers may not."""
    inner = None if kind is None else _inner(kind)
    if inner is not None and (pa.types.is_date(inner) or pa.types.is_timestamp(inner)):
        return
    if _stored_as(name, None, kind) == "number":
        raise TableError(
            f"column {name!r} is declared date, but the table stores it as {kind}.",
            hint="write dates as texts such as 2026-03-31; years alone are numbers: dpx.Numeric(1990, 2026)",
        )


def check_id_type(name: str, kind: pa.DataType | None) -> None:
    """Refuse types of ids that cannot tell people apart: a float is the nearest of many long whole numbers, and a truth
    value is one of several texts.
    """
    if _stored_as(name, None, kind) != "number":
        return
    if pa.types.is_floating(_inner(kind)):
        raise _merged(name)
    if pa.types.is_boolean(_inner(kind)):
        raise _no_ids(name, "truth values")


def check_objects(name: str, values: Iterable[Any], column: Column | None = None) -> None:
    """Refuse a column of Python objects by the types in it, as Arrow's and pandas' own columns are refused by theirs:
    dates and times, whose spelling is that of the reader which recognised them, and not of the entry. In a column of
    dates, they are what is looked for.
    """
    kinds = set(map(type, values)) - {type(pd.NaT)}
    if isinstance(column, Date):
        kinds = {kind for kind in kinds if not issubclass(kind, date | np.datetime64)}
    times = sorted(kind.__name__ for kind in kinds if issubclass(kind, _TIMES))
    if times:
        raise TableError(
            f"column {name!r} holds Python objects of type {times[0]}, which a reader made of texts.",
            hint=f"read the column as text, for example pandas.read_csv(..., dtype={{{name!r}: 'string'}}), or write "
            "each of them as text in one form before opening the table",
        )


def check_id_objects(name: str, values: Iterable[Any]) -> None:
    """Refuse ids in a column of Python objects by the types in it: dates and times; floats, which may have been long
    ids; and objects that we cannot spell. None of them may be dropped in silence.
    """
    known = (str, bytes, int, np.integer, Decimal, UUID, type(None), type(pd.NA), type(pd.NaT))
    values = list(values)
    check_objects(name, [part for value in values for part in (value if isinstance(value, tuple) else (value,))])
    for value in values:
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, float | np.floating):
                if not np.isnan(part):
                    raise _merged(name)
            elif isinstance(part, bool | np.bool_):
                raise _no_ids(name, "truth values")
            elif not isinstance(part, known):
                raise _no_ids(name, "Python objects of a kind that has no spelling")


def _no_ids(name: str, what: str) -> TableError:
    return TableError(
        f"the ids in column {name!r} are {what}.",
        hint=f"read or convert the column to text: frame[{name!r}] = frame[{name!r}].map(str).astype('string')",
    )


def _merged(name: str) -> TableError:
    return TableError(
        f"the ids in column {name!r} are stored as floating-point numbers, which merge ids of many digits.",
        hint="one missing id is enough for pandas to do this: read the column as text, for example "
        f"pandas.read_csv(..., dtype={{{name!r}: 'string'}}); what was merged cannot be told apart any more",
    )


def _stored_as(name: str, column: Column | None, kind: pa.DataType | None) -> str:
    """How values are stored: "number" (truth values too), "text" or "object"; all other types are refused."""
    if kind is None:
        return "object"
    kind = _inner(kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return "number"
    if pa.types.is_decimal128(kind) or pa.types.is_decimal256(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "text"
    if pa.types.is_null(kind):
        return "object"  # nothing is known: of texts that all say "NA", Arrow makes this
    declared = "an id" if column is None else column.to_json()["type"]
    raise TableError(
        f"column {name!r} is declared {declared}, but the table stores it as {kind}.",
        hint="convert it to a number or a text before opening the table",
    )


def _inner(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def encode(column: Column, raw: RawColumn) -> NDArray[Any]:
    """The clean values of one column of a batch. Where values are spelled, each spelling is cleaned once."""
    value: Callable[[Any], Any]
    kind: type[np.generic]
    if isinstance(column, Date):
        days = _days(column, raw)
        if days is not None:
            return column.clean(days)
        value, kind, nothing = partial(_day, unit=column.unit), np.float64, np.nan
    elif isinstance(column, Numeric):
        numbers = _numbers(raw)
        if numbers is not None:
            return column.clean(numbers)
        value, kind, nothing = _float, np.float64, np.nan
    else:
        value, kind, nothing = lookup(column), np.int32, -1
    if isinstance(raw, pd.Series):
        return column.clean(np.array([value(one) for one in raw], dtype=kind))
    if isinstance(column, Numeric) and not isinstance(column, Date) and _is_text(raw.type):
        return column.clean(_spelled_numbers(raw))
    distinct, index = _distinct(raw)
    few = column.clean(np.array([*(value(one) for one in distinct), nothing], dtype=kind))
    return few.take(index, mode="wrap")  # -1, a null, takes the last one


def _is_text(kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _spelled_numbers(raw: Any) -> NDArray[np.float64]:
    """The numbers that texts stand for, NaN for all that is none. `number_of` says which; Arrow says the same of every
    text that it takes for a number, and takes all of them at once.
    """
    raw = pa.concat_arrays(raw.chunks) if isinstance(raw, pa.ChunkedArray) else raw
    if (numbers := _by_arrow(raw)) is not None:
        return numbers
    usual = pc.fill_null(pc.match_substring_regex(raw, _USUAL), True)
    numbers = _by_arrow(pc.if_else(usual, raw, pa.scalar(None, raw.type)))
    others = np.flatnonzero(~usual.to_numpy(zero_copy_only=False))
    distinct, index = _distinct(raw.take(pa.array(others)))
    assert numbers is not None
    numbers = numbers.copy()
    numbers[others] = np.array([*map(_float, distinct), np.nan])[index]
    return numbers


def _by_arrow(raw: Any) -> NDArray[np.float64] | None:
    try:
        numbers: NDArray[np.float64] = raw.cast(pa.large_string()).cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    return numbers


def lookup(column: Categorical) -> Callable[[Any], int]:
    """The code of a raw value; -1 for anything that was not declared.

    A text is looked up as it is written. Anything that stands for a number, texts included, is looked up by that
    number, or by it in single precision, unless two categories stand for it: these match as texts only.
    """
    return _lookup(column, tuple(map(repr, column.categories)))  # 1 and True are equal, and have other texts


@lru_cache(maxsize=512)
def _lookup(column: Categorical, _spelled: tuple[str, ...]) -> Callable[[Any], int]:
    texts = {str(value): code for code, value in enumerate(column.categories)}
    numbers: dict[float, int] = {}
    for code, value in enumerate(column.categories):
        if (number := number_of(value)) is not None:
            numbers[number] = -1 if number in numbers else code
    with np.errstate(over="ignore"):
        numbers = {float(np.float32(number)): code for number, code in numbers.items()} | numbers

    def code_of(value: Any) -> int:
        try:
            if isinstance(value, bytes):
                value = value.decode("utf-8", "replace")
            if isinstance(value, str) and value in texts:
                return texts[value]
            if (number := number_of(value)) is not None:
                return numbers.get(number, -1)
            return -1 if _missing(value) else texts.get(str(value), -1)
        except KeyboardInterrupt:
            raise
        except BaseException:  # an object whose str() or comparison fails: not a declared value
            return -1

    return code_of


def _missing(value: Any) -> bool:
    return value is None or value is pd.NA or bool(value != value)


def _float(value: Any) -> float:
    try:
        number = number_of(value)
        return np.nan if number is None else number
    except KeyboardInterrupt:
        raise
    except BaseException:  # an object whose float() fails: missing
        return np.nan


def _day(value: Any, unit: str) -> float:
    try:
        return day_of(value, unit)
    except KeyboardInterrupt:
        raise
    except BaseException:  # a moment next to the end of the calendar, or an object that cannot be compared
        return np.nan


# Ids ------------------------------------------------------------------------------------------------------------------

NO_ID = "none"
_WHOLE = re.compile(r"\s*(?:\+?((?:0|[1-9]\d*))|(-(?:0|[1-9]\d*)))(?:\.0+)?\s*", re.ASCII)
_HEXADECIMAL = re.compile(r"\s*(0x[0-9a-f]{1,16})\s*", re.ASCII | re.IGNORECASE)


def identifiers(raw: RawColumn) -> tuple[NDArray[np.int64], list[str]]:
    """Ids of units or rows, as codes into a list of distinct spellings. Equal ids have one spelling, different ids
    different ones, in every batch; whatever is missing or cannot be spelled is `NO_ID`.
    """
    values, index = (list(raw), np.arange(len(raw))) if isinstance(raw, pd.Series) else _distinct(raw)
    spelled = [_identifier(value) for value in [*values, None]]  # a null has index -1 and takes the last one
    distinct: dict[str, int] = {}
    codes = np.array([distinct.setdefault(text, len(distinct)) for text in spelled], dtype=np.int64)
    return codes[index], list(distinct)


def _identifier(value: Any) -> str:
    try:
        return _spell(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # an object that cannot be compared or printed
        return NO_ID


def _spell(value: Any) -> str:
    """One spelling for all forms in which readers store one id.

    7, "7", "7.0", "+7", " 7" and "0x7" are one id: which of them a reader makes of an entry depends on the other
    entries. All other texts are themselves, "07" too; words for a missing value are no id. Floats are refused before
    (`check_id_type`, `check_id_objects`), so that one here is a missing value.
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")  # different bytes stay different
    if isinstance(value, str):
        if whole := _WHOLE.fullmatch(value):
            return f"id:{whole[1] or whole[2]}".replace("id:-0", "id:0")
        if coded := _HEXADECIMAL.fullmatch(value):
            return f"id:{hexadecimal(coded[1])}"
        return NO_ID if says_missing(value) else f"id:{value}"
    if isinstance(value, tuple):
        parts = [_spell(part) for part in value]
        return NO_ID if NO_ID in parts else f"tuple:{parts!r}"
    if isinstance(value, float | np.floating) or _missing(value):
        return NO_ID
    if isinstance(value, Decimal):
        if abs(value.adjusted()) > LONGEST:
            return NO_ID  # written out it would fill the memory
        text = f"{value:f}"
        return _spell(text.rstrip("0").rstrip(".") if "." in text else text)
    return f"id:{value}"  # whole numbers and UUID: as they are written


# Arrow columns --------------------------------------------------------------------------------------------------------


def _numbers(raw: RawColumn) -> NDArray[np.float64] | None:
    """The values of a column that is stored as numbers, nulls as NaN; None for any other column."""
    if isinstance(raw, pd.Series):
        return None
    kind = raw.type
    if pa.types.is_boolean(kind):
        raw = raw.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    values: NDArray[np.float64] = raw.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def _days(column: Date, raw: RawColumn) -> NDArray[np.float64] | None:
    """The values of a column that is stored as dates or moments, in steps since 1970, NaN for nulls; None for others.
    What has a time zone is stored in UTC.
    """
    if isinstance(raw, pd.Series):
        return None
    if pa.types.is_dictionary(raw.type):
        raw = raw.cast(raw.type.value_type)
    kind = raw.type
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return None
    unit = "D" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
    whole = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    if isinstance(raw, pa.ChunkedArray):
        raw = pa.concat_arrays(raw.chunks) if raw.num_chunks != 1 else raw.chunk(0)
    numbers = pc.fill_null(raw.view(whole), 0).to_numpy(zero_copy_only=False)
    steps = numbers.astype(f"datetime64[{unit}]").astype("datetime64[D]").astype(f"datetime64[{column.unit}]")
    return np.where(pc.is_null(raw).to_numpy(zero_copy_only=False), np.nan, steps.astype(np.int64).astype(np.float64))


def _distinct(raw: Any) -> tuple[Sequence[Any], NDArray[np.signedinteger[Any]]]:
    """The distinct values of an Arrow column and, for each row, the position of its value (-1 for a null)."""
    if isinstance(raw, pa.ChunkedArray):
        raw = raw.combine_chunks()
        if isinstance(raw, pa.ChunkedArray):  # several chunks that could not be combined into one
            raw = pa.concat_arrays(raw.chunks)
    if pa.types.is_null(raw.type):
        return [], np.full(len(raw), -1, dtype=np.int64)
    if not pa.types.is_dictionary(raw.type):
        raw = pc.dictionary_encode(raw)
    values = raw.dictionary
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):  # text that is not valid UTF-8 must not raise
        values = values.view(pa.binary() if pa.types.is_string(kind) else pa.large_binary())
    elif pa.types.is_string_view(kind):
        values = values.cast(pa.large_binary())
    return values.to_pylist(), _positions(raw.indices)


def _positions(indices: Any) -> NDArray[np.signedinteger[Any]]:
    """As they are stored if nothing is missing and their type has room for -1: most tables are read this way."""
    if indices.null_count or not pa.types.is_signed_integer(indices.type):
        indices = pc.fill_null(indices.cast(pa.int64()), -1)
    index: NDArray[np.signedinteger[Any]] = indices.to_numpy(zero_copy_only=False)
    return np.where(index < 0, index.dtype.type(-1), index) if index.min(initial=0) < 0 else index
