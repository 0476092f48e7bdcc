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
    """The clean values of one column of a batch."""
    if isinstance(column, Numeric):
        return column.clean(_floats(raw))
    return column.clean(_codes(raw, column))


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


def _floats(raw: RawColumn) -> NDArray[np.float64]:
    if isinstance(raw, pd.Series):
        return np.array([_float(value) for value in raw], dtype=np.float64)
    kind = raw.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        if pa.types.is_boolean(kind):
            raw = raw.cast(pa.int8())
        values: NDArray[np.float64] = raw.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return values  # nulls are NaN
    distinct, index = _distinct(raw)
    table = np.array([*(_float(value) for value in distinct), np.nan], dtype=np.float64)
    return table[index]  # -1, a null, takes the NaN at the end


def _float(value: Any) -> float:
    try:
        return float(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # not a number: missing
        return np.nan


def _codes(raw: RawColumn, column: Categorical) -> NDArray[np.int32]:
    code = lookup(column)
    if isinstance(raw, pd.Series):
        return np.array([code(value) for value in raw], dtype=np.int32)
    distinct, index = _distinct(raw)
    table = np.array([*(code(value) for value in distinct), -1], dtype=np.int32)
    return table[index]


def _distinct(raw: Any) -> tuple[Sequence[Any], NDArray[np.int64]]:
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
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        values = values.cast(pa.large_binary())  # text that is not valid UTF-8 must not raise
    index = pc.fill_null(raw.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    plain = values.to_pylist()
    return plain, np.where(index < 0, -1, index)
