"""Tables as people get them: entries in a file or a list, types inferred from all entries together by some reader."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

Columns = dict[str, Sequence[str]]  # column name -> its entries, as somebody typed them
Reader = Callable[[Columns, Path], Any]


def text_of(columns: Columns) -> str:
    """The entries as a CSV file, with a last column that is never empty, so that no line is blank."""
    lines = [",".join([*entries, "1"]) for entries in zip(*columns.values(), strict=True)]
    return "\n".join([",".join([*columns, "end"]), *lines]) + "\n"


def by_pandas(columns: Columns, folder: Path) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text_of(columns)))


def by_pandas_in_chunks(columns: Columns, folder: Path) -> pd.DataFrame:
    """What `read_csv` does with a long file: each chunk has a type of its own, so one column mixes 7 and "7"."""
    chunks = list(pd.read_csv(io.StringIO(text_of(columns)), chunksize=3))
    if not chunks:
        return by_pandas(columns, folder)
    return pd.concat([chunk.astype(object) for chunk in chunks], ignore_index=True)


def by_objects(columns: Columns, folder: Path) -> pd.DataFrame:
    """Python values that somebody parsed one by one, whose common type pandas infers."""
    return pd.DataFrame({name: pd.Series([parsed(entry) for entry in entries]) for name, entries in columns.items()})


def by_categories(columns: Columns, folder: Path) -> pd.DataFrame:
    return by_pandas(columns, folder).astype("category")


def by_pandas_parquet(columns: Columns, folder: Path) -> str:
    path = folder / "pandas.parquet"
    by_pandas(columns, folder).to_parquet(path, row_group_size=4)
    return str(path)


def by_polars(columns: Columns, folder: Path) -> pl.DataFrame:
    return pl.read_csv(io.StringIO(text_of(columns)), infer_schema_length=None)


def by_arrow(columns: Columns, folder: Path) -> pa.Table:
    return pa_csv.read_csv(io.BytesIO(text_of(columns).encode()))


def by_arrow_to_pandas(columns: Columns, folder: Path) -> pd.DataFrame:
    """Arrow knows dates and times of day, of which pandas makes Python objects."""
    return by_arrow(columns, folder).to_pandas()


def by_pandas_with_arrow(columns: Columns, folder: Path) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text_of(columns)), engine="pyarrow")


def by_arrow_parquet(columns: Columns, folder: Path) -> str:
    path = folder / "arrow.parquet"
    pq.write_table(by_arrow(columns, folder), path, row_group_size=5)
    return str(path)


def by_batches(columns: Columns, folder: Path) -> Callable[[], pa.RecordBatchReader]:
    table = by_arrow(columns, folder)
    return lambda: table.to_reader(max_chunksize=4)


def by_csv(columns: Columns, folder: Path) -> str:
    path = folder / "table.csv"
    path.write_text(text_of(columns), encoding="utf-8")
    return str(path)


READERS: dict[str, Reader] = {
    "pandas": by_pandas,
    "pandas in chunks": by_pandas_in_chunks,
    "pandas objects": by_objects,
    "pandas categories": by_categories,
    "Parquet of pandas": by_pandas_parquet,
    "polars": by_polars,
    "Arrow": by_arrow,
    "Arrow to pandas": by_arrow_to_pandas,
    "pandas with Arrow": by_pandas_with_arrow,
    "Parquet of Arrow": by_arrow_parquet,
    "record batches": by_batches,
    "CSV": by_csv,
}


def parsed(entry: str) -> Any:
    """An entry as a Python value, the way people's own code does it."""
    if entry in ("", "NA"):
        return None
    if entry in ("True", "False"):
        return entry == "True"
    for kind in (int, float):
        try:
            return kind(entry)
        except ValueError:
            pass
    return entry
