"""The made-up tables of `python -m bench scale`, written piece by piece: numbers and categories, no rows of anybody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

import dpexplain as dpx

PIECE = 1_000_000  # rows of a row group
NUMBERS = [f"x{i}" for i in range(6)]
KINDS = ["a", "b", "c", "d", "e"]
WIDE_CATEGORIES, WIDE_WHOLE, WIDE_NUMBERS = 12, 4, 4  # columns of the wide table
FILES = 20


def narrow_domain() -> dpx.Domain:
    """Six numbers, a category, and a target that depends on two of the numbers."""
    numbers = {name: dpx.Numeric(0, 1) for name in NUMBERS}
    return dpx.Domain({**numbers, "kind": dpx.Categorical(KINDS), "y": dpx.Numeric(0, 1)})


def _narrow(draw: np.random.Generator, rows: int) -> pa.Table:
    columns = {name: draw.random(rows) for name in NUMBERS}
    kinds = pa.DictionaryArray.from_arrays(draw.integers(0, len(KINDS), rows).astype(np.int8), KINDS)
    target = 0.6 * columns["x0"] + 0.3 * columns["x1"] + 0.1 * draw.random(rows)
    return pa.table({**columns, "kind": kinds.cast(pa.string()), "y": target})


def wide_domain() -> dpx.Domain:
    """Twelve categories, four columns of whole numbers and four of others: twenty in all."""
    categories = {f"c{i}": dpx.Categorical([f"{i}-{j}" for j in range(2 + i)]) for i in range(WIDE_CATEGORIES)}
    whole = {f"n{i}": dpx.Numeric(0, 99, integer=True) for i in range(WIDE_WHOLE)}
    return dpx.Domain({**categories, **whole, **{f"x{i}": dpx.Numeric(0, 1) for i in range(WIDE_NUMBERS)}})


def _wide(draw: np.random.Generator, rows: int) -> pa.Table:
    columns = dict[str, pa.Array]()
    for name, column in wide_domain().items():
        if isinstance(column, dpx.Categorical):
            codes = draw.integers(0, len(column.categories), rows, dtype=np.int8)
            columns[name] = pa.DictionaryArray.from_arrays(codes, list(column.categories))
        elif column.integer:
            columns[name] = pa.array(draw.integers(0, 100, rows, dtype=np.int16))
        else:
            columns[name] = pa.array(draw.random(rows, dtype=np.float32))
    return pa.table(columns)


def narrow(folder: Path, rows: int) -> Path:
    """A file of the narrow table; one that is there already stays."""
    return _written(folder / f"narrow-{rows}.parquet", rows, _narrow, 7)


def narrow_csv(folder: Path, rows: int) -> Path:
    """The rows of the narrow table as a CSV file, without quotes where none are needed, as pandas writes it."""
    path = folder / f"narrow-{rows}.csv"
    if not path.exists():
        unfinished = path.with_suffix(".part")
        options = pa_csv.WriteOptions(quoting_style="none", include_header=False)
        with unfinished.open("wb") as file:
            file.write((",".join(narrow_domain()) + "\n").encode())
            pa_csv.write_csv(pq.read_table(narrow(folder, rows)), file, options)
        unfinished.rename(path)
    return path


def wide(folder: Path, rows: int) -> Path:
    """A folder of files of the wide table."""
    place = folder / f"wide-{rows}"
    place.mkdir(exist_ok=True)
    for number in range(FILES):
        _written(place / f"{number:02}.parquet", rows // FILES, _wide, 100 + number)
    return place


def _written(path: Path, rows: int, make: Callable[[np.random.Generator, int], pa.Table], seed: int) -> Path:
    """A file that is whole when it has its name."""
    if path.exists():
        return path
    draw, unfinished = np.random.default_rng(seed), path.with_suffix(".unfinished")
    with pq.ParquetWriter(unfinished, make(draw, 1).schema) as writer:
        for start in range(0, rows, PIECE):
            size = min(PIECE, rows - start)
            writer.write_table(make(draw, size), row_group_size=size)
    unfinished.rename(path)
    return path
