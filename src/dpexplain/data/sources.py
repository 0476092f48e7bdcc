"""Where rows come from: pandas, polars, Arrow, factories of record batch readers, Parquet and CSV files; and, in
`queries.py`, lazy frames, relations and queries.

A source tells its column names and types (public) and yields raw batches of the columns asked for. It can be read any
number of times, the same rows each time in whatever order, and never holds more than a batch in memory beyond what it
was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dpexplain.data.csv_lines import CsvSource, unique
from dpexplain.data.encode import RawColumn
from dpexplain.data.queries import EngineSource, LazySource, Query, RelationSource, SparkSource, asked
from dpexplain.engines.spark import session_frame
from dpexplain.errors import TableError

Batch = tuple[int, Mapping[str, RawColumn]]
S = TypeVar("S", bound="Source")


class Source(Protocol):
    @property
    def types(self) -> Mapping[str, pa.DataType | None]:
        """Column names and Arrow types; None for a pandas column of Python objects. Of several files, the first's."""

    def count(self) -> int:
        """The number of rows. Asked for only where it is public."""

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        """(number of rows, raw columns), at most `rows` rows at a time."""


def open_source(source: Any) -> Source:
    """The source behind what a user hands over."""
    if isinstance(source, pd.DataFrame):
        return PandasSource(source)
    if isinstance(source, str) and not Path(source).exists() and (frame := session_frame(source)) is not None:
        return _named_once(SparkSource(frame))
    if isinstance(source, str | Path):
        return _file_source([Path(source)])
    if isinstance(source, list | tuple) and source and all(isinstance(p, str | Path) for p in source):
        return _file_source([Path(p) for p in source])
    if isinstance(source, Query):
        return _named_once(source.source())
    if (maker := type(source).__module__.split(".")[0]) == "polars" and type(source).__name__ == "LazyFrame":
        return _named_once(LazySource(source))
    if maker == "pyspark" and type(source).__name__ == "DataFrame":
        return _named_once(SparkSource(source))
    if maker in ("duckdb", "_duckdb") and type(source).__name__ == "DuckDBPyRelation":
        return _named_once(RelationSource(source))
    if isinstance(source, pa.RecordBatchReader):
        raise TableError(
            "a RecordBatchReader can be read only once, and an account answers many requests.",
            hint="pass a function that opens a new reader each time: PrivateTable(lambda: open_reader(), ...)",
        )
    if isinstance(source, pa.RecordBatch):
        return ArrowSource(pa.Table.from_batches([source]))
    if isinstance(source, pa.Table):
        return ArrowSource(source)
    if hasattr(source, "__arrow_c_stream__"):  # polars DataFrame, and others that speak the Arrow C stream protocol
        return ArrowSource(asked("the table", lambda: _table_of(source)))
    if callable(source):
        return ReaderSource(source)
    raise TableError(
        f"rows cannot be read from a {type(source).__name__}.",
        hint="pass a pandas or polars DataFrame, a LazyFrame, an Arrow table, a function that opens a "
        "RecordBatchReader, a DuckDB relation, dpx.Query(sql, connection), a Spark DataFrame, or the path of Parquet "
        "or CSV files",
    )


def _table_of(stream: Any) -> Any:
    """The table behind the Arrow C stream protocol."""
    with suppress(pa.ArrowException):
        return pa.table(stream)
    raise TableError(
        "the table cannot be read to its end, or has a column of a type that Arrow does not have.",
        hint="convert such a column to a number or a text, for example whole numbers of 128 bits to Decimal",
    )


def _named_once(source: S) -> S:
    unique(list(source.types))
    return source


def schemas_of(source: Source) -> Sequence[Mapping[str, pa.DataType | None]]:
    """The types of every file: a reader that wrote one of them may have inferred others than for the next."""
    return source.schemas if isinstance(source, ParquetSource) else [source.types]


def origin_of(source: Source) -> list[str]:
    """The absolute paths of all files of a source, or where a query goes; none for others, which nothing public tells
    apart.
    """
    if isinstance(source, EngineSource):
        return source.origin
    files = source.files if isinstance(source, ParquetSource | CsvSource) else []
    return list(dict.fromkeys(str(_above_partitions(path.resolve())) for path in files))


def _above_partitions(path: Path) -> Path:
    """A file, or the folder whose parts are named by values of rows: which parts there are must not show."""
    place = next((i for i, name in enumerate(path.parts[:-1]) if "=" in name), len(path.parts))
    return Path(*path.parts[:place])


class PandasSource:
    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        unique(list(self._frame.columns))

    @property
    def types(self) -> Mapping[str, pa.DataType | None]:
        return {name: self._type(self._frame[name]) for name in self._frame.columns}

    @staticmethod
    def _type(column: pd.Series[Any]) -> pa.DataType | None:
        values = column.dtype.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
        if _python_objects(values.dtype):
            return None
        try:
            return pa.Array.from_pandas(values[:0]).type
        except Exception:  # complex, sparse, ...: refused by `check_type` if it is declared
            return pa.struct([])

    def count(self) -> int:
        return len(self._frame)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        for start in range(0, len(self._frame), rows):
            part = self._frame.iloc[start : start + rows]
            yield len(part), {name: self._raw(part[name]) for name in columns}

    @staticmethod
    def _raw(column: pd.Series[Any]) -> RawColumn:
        if isinstance(column.dtype, pd.CategoricalDtype):
            categories = column.cat.categories
            if _python_objects(categories.dtype):
                return column.astype(object)
            return pa.DictionaryArray.from_arrays(
                pa.array(column.cat.codes.to_numpy(), mask=column.cat.codes.to_numpy() < 0), pa.array(categories)
            )
        if _python_objects(column.dtype):
            return column.astype(object)
        raw = pa.Array.from_pandas(column)
        return raw.combine_chunks() if isinstance(raw, pa.ChunkedArray) else raw


def _python_objects(dtype: Any) -> bool:
    """Whether a column holds Python objects, of which anything can be wrong, and which Arrow may refuse."""
    return str(dtype) == "object" or (isinstance(dtype, pd.StringDtype) and dtype.storage != "pyarrow")


class ArrowSource:
    def __init__(self, table: pa.Table) -> None:
        unique(table.schema.names)
        self._table = table

    @property
    def types(self) -> Mapping[str, pa.DataType | None]:
        return _schema_types(self._table.schema)

    def count(self) -> int:
        return int(self._table.num_rows)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        for batch in self._table.select(list(columns)).to_batches(max_chunksize=rows):
            yield _arrow_batch(batch)


class ReaderSource:
    """A function that opens a new RecordBatchReader, with the same rows, each time."""

    def __init__(self, factory: Callable[[], Any]) -> None:
        self._factory = factory
        schema = asked("the RecordBatchReader", self._schema)  # what a reader says may quote a row
        unique(schema.names)
        self._types = _schema_types(schema)

    def _schema(self) -> Any:
        with self._open() as reader:
            return reader.schema

    def _open(self) -> Any:
        reader = self._factory()
        if not isinstance(reader, pa.RecordBatchReader):
            raise TableError("the function given as a source must return a pyarrow.RecordBatchReader.")
        return reader

    @property
    def types(self) -> Mapping[str, pa.DataType | None]:
        return self._types

    def count(self) -> int:
        with self._open() as reader:
            return sum(batch.num_rows for batch in reader)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        with self._open() as reader:
            for batch in reader:
                yield from _sliced(batch.select(list(columns)), rows)


class ParquetSource:
    """Parquet files with the same columns, whose types may differ from file to file.

    parts  of each file what the folders that it lies in say, as Hive writes them (`year=2026/sex=f/`): columns of texts
    """

    def __init__(self, paths: Sequence[Path], parts: Sequence[Mapping[str, str | None]] = ()) -> None:
        self.files = list(paths)
        self._parts = list(parts) or [{}] * len(self.files)
        schemas = [self._schema(path) for path in self.files]
        own = [{**_schema_types(s), **dict.fromkeys(p, pa.string())} for s, p in zip(schemas, self._parts, strict=True)]
        unique([*schemas[0].names, *self._parts[0]])
        for path, schema, types in zip(self.files, schemas, own, strict=True):
            if set(types) != set(own[0]) or len(types) != len(schema.names) + len(self._parts[0]):
                raise TableError(
                    f"{path.name} has other columns than {self.files[0].name}.",
                    hint="write the same columns into all files; their types may differ",
                )
        self.schemas: list[dict[str, pa.DataType | None]] = own

    @staticmethod
    def _schema(path: Path) -> Any:
        try:
            return pq.read_schema(path)
        except (pa.ArrowInvalid, OSError):
            raise TableError(f"{path.name} is not a readable Parquet file.") from None

    @property
    def types(self) -> Mapping[str, pa.DataType | None]:
        return self.schemas[0]

    def count(self) -> int:
        return sum(int(pq.read_metadata(path).num_rows) for path in self.files)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        for path, parts in zip(self.files, self._parts, strict=True):
            own = [name for name in columns if name not in parts]
            # buffered reading: a row group of any size passes through page by page
            with pq.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as file:
                for batch in file.iter_batches(batch_size=rows, columns=own):
                    size, raw = _arrow_batch(batch)
                    yield size, {**raw, **{name: _repeated(parts[name], size) for name in columns if name in parts}}


def _repeated(text: str | None, size: int) -> Any:
    return pa.DictionaryArray.from_arrays(np.zeros(size, dtype=np.int8), pa.array([text], pa.string()))


def _hive_parts(path: Path) -> dict[str, str | None]:
    """What the folders of a file say, as Hive writes them: `year=2026/sex=f/part-0.parquet`."""
    named = [folder.split("=", 1) for folder in path.parts[:-1] if "=" in folder]
    return {unquote(name): None if text == "__HIVE_DEFAULT_PARTITION__" else unquote(text) for name, text in named}


def _passed_over(path: Path) -> str:
    """Why Spark, Hive and Arrow leave out a file of a folder: for `_temporary` in `_temporary/0/part.parquet`, or for
    its own name in `.part.parquet`; empty for files that they read.
    """
    return next((name for name in path.parts if name.startswith((".", "_")) and "=" not in name), "")


def _file_source(paths: Sequence[Path]) -> Source:
    files, parts = list[Path](), list[dict[str, str | None]]()
    for path in paths:
        if not path.exists():
            raise TableError(f"there is no file {path}.")
        found = sorted(p for p in path.rglob("*.parquet")) if path.is_dir() else [path]
        if not found:
            raise TableError(f"the folder {path} holds no Parquet files.", hint="CSV files are named one by one")
        left = [name for file in found if (name := _passed_over(file.relative_to(path)))] if path.is_dir() else []
        if left:
            raise TableError(
                f"the folder {path} holds files that tools do not count to a table, such as {left[0]}: an unfinished "
                "write leaves them, and its rows would count twice.",
                hint="delete them if they are left over, or name the files of the table one by one",
            )
        files += found
        parts += [_hive_parts(file.relative_to(path)) if path.is_dir() else {} for file in found]
    places = set[tuple[int, int]]()
    for path in files:
        facts = path.stat()
        if (place := (facts.st_dev, facts.st_ino)) in places:
            raise TableError(
                f"the file {path.name} is named twice, so each of its rows would count twice.",
                hint="name each file once: a folder stands for all files in it, and a link for the file it leads to",
            )
        places.add(place)
    kinds = {path.suffix.lower() for path in files}
    if kinds <= {".parquet", ".pq"}:
        return ParquetSource(files, parts)
    if kinds == {".csv"}:
        return CsvSource(files)
    raise TableError(
        "only Parquet and CSV files can be read, and not both together.", hint="name them *.parquet or *.csv"
    )


def _schema_types(schema: Any) -> dict[str, pa.DataType | None]:
    return {field.name: field.type for field in schema}


def _arrow_batch(batch: Any) -> Batch:
    return batch.num_rows, {name: batch.column(i) for i, name in enumerate(batch.schema.names)}


def _sliced(batch: Any, rows: int) -> Iterator[Batch]:
    for start in range(0, batch.num_rows, rows):
        yield _arrow_batch(batch.slice(start, rows))
