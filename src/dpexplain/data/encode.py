"""From raw columns to clean arrays. Nothing here fails or speaks because of a value.

A value that is missing, unseen, of the wrong type or not a number takes the declared default; a number out of bounds is
clipped. What can be refused is the *type* of a column, which is part of the table's schema and public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpexplain.core.domain import Categorical, Column, Numeric
from dpexplain.errors import TableError

RawColumn = Any  # a pyarrow Array or ChunkedArray, or a pandas Series of dtype object


def check_type(name: str, declared: str, kind: pa.DataType | None) -> None:
    """Refuse a schema that can hold no declared value. `None` is a column of Python objects: anything goes."""
    if kind is None or pa.types.is_null(kind):
        return
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    text = text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    number = number or pa.types.is_decimal128(kind) or pa.types.is_decimal256(kind)
    if not (text or number or pa.types.is_boolean(kind)):
        raise TableError(
            f"column {name!r} is declared {declared}, but the table stores it as {kind}.",
            hint="convert it to a number or a text before opening the table",
        )


def encode(column: Column, raw: RawColumn) -> NDArray[Any]:
    """The clean values of one column of a batch. Where values are spelled, each spelling is cleaned once."""
    value: Callable[[Any], Any]
    kind: type[np.generic]
    if isinstance(column, Numeric):
        numbers = _numbers(raw)
        if numbers is not None:
            return column.clean(numbers)
        value, kind, nothing = _float, np.float64, np.nan
    else:
        value, kind, nothing = lookup(column), np.int32, -1
    if isinstance(raw, pd.Series):
        return column.clean(np.array([value(one) for one in raw], dtype=kind))
    distinct, index = _distinct(raw)
    few = column.clean(np.array([*(value(one) for one in distinct), nothing], dtype=kind))
    return few.take(index, mode="wrap")  # -1, a null, takes the last one


def lookup(column: Categorical) -> Callable[[Any], int]:
    """The code of a raw value; -1 for anything that was not declared. Text from a CSV file matches declared numbers."""
    codes: dict[Any, int] = {str(value): code for code, value in enumerate(column.categories)}
    codes |= {value: code for code, value in enumerate(column.categories)}
    numbers = not any(isinstance(value, str) for value in column.categories)
    truths = all(isinstance(value, bool) for value in column.categories)

    def code(value: Any) -> int:
        try:
            if isinstance(value, bytes):
                value = value.decode("utf-8", "replace")
            found = codes.get(value, codes.get(str(value), -1))
            if found < 0 and truths and isinstance(value, str) and value.title() in codes:
                return codes[value.title()]  # true and TRUE, as other tools write it
            if found < 0 and numbers and isinstance(value, str):
                return codes.get(float(value), -1)  # the text "1.0" is the declared number 1
            return found
        except KeyboardInterrupt:
            raise
        except BaseException:  # unhashable, or an object whose str() fails: not a declared value
            return -1

    return code


NO_ID = "none"


def identifiers(raw: RawColumn) -> tuple[NDArray[np.int64], list[str]]:
    """Ids of units or rows, as codes into a list of distinct spellings. Equal ids have one spelling, different ids
    different ones, in every batch; whatever is missing or cannot be spelled is `NO_ID`.
    """
    values, index = (list(raw), np.arange(len(raw))) if isinstance(raw, pd.Series) else _distinct(raw)
    spelled = [_spell(value) for value in [*values, None]]  # a null has index -1 and takes the last one
    distinct: dict[str, int] = {}
    codes = np.array([distinct.setdefault(text, len(distinct)) for text in spelled], dtype=np.int64)
    return codes[index], list(distinct)


def _spell(value: Any) -> str:
    """An id with its type: the number 1 and the text "1" are different ids. Numbers are spelled by their exact value,
    whatever their type, because a table with a missing id somewhere turns integers into floats.
    """
    try:
        if isinstance(value, bytes):
            value = value.decode("utf-8", "surrogateescape")  # different bytes stay different
        if isinstance(value, str):
            return f"text:{value}"
        if value is None or value is pd.NA or value != value:
            return NO_ID
        if isinstance(value, bool | np.bool_ | np.integer):
            value = int(value)
        if isinstance(value, Decimal) and abs(value.adjusted()) > 400:
            return NO_ID  # written out it would fill the memory
        return f"number:{Fraction(float(value) if isinstance(value, np.floating) else value)}"
    except KeyboardInterrupt:
        raise
    except BaseException:  # an object that cannot be compared or printed
        return NO_ID


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


def _float(value: Any) -> float:
    try:
        return float(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # not a number: missing
        return np.nan


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
