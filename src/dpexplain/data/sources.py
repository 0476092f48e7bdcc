"""Where rows come from: pandas, polars, Arrow, factories of record batch readers, Parquet and CSV files.

A source tells its column names and types (public) and yields raw batches of the columns asked for. It can be read any
number of times, always in the same order, and never holds more than a batch in memory beyond what it was given.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dpexplain.data.encode import RawColumn
from dpexplain.errors import TableError

Batch = tuple[int, Mapping[str, RawColumn]]


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
    if isinstance(source, str | Path):
        return _file_source([Path(source)])
    if isinstance(source, list | tuple) and source and all(isinstance(p, str | Path) for p in source):
        return _file_source([Path(p) for p in source])
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
        try:
            return ArrowSource(pa.table(source))
        except pa.ArrowException:
            raise TableError(
                "the table has a column of a type that Arrow does not have.",
                hint="convert it to a number or a text, for example whole numbers of 128 bits to Decimal",
            ) from None
    if callable(source):
        return ReaderSource(source)
    raise TableError(
        f"rows cannot be read from a {type(source).__name__}.",
        hint="pass a pandas or polars DataFrame, an Arrow table, a function that opens a RecordBatchReader, "
        "or the path of Parquet or CSV files; collect a LazyFrame first",
    )


def schemas_of(source: Source) -> Sequence[Mapping[str, pa.DataType | None]]:
    """The types of every file: a reader that wrote one of them may have inferred others than for the next."""
    return source.schemas if isinstance(source, ParquetSource) else [source.types]


def origin_of(source: Source) -> list[str]:
    """The absolute paths of all files of a source; none for others, which nothing public tells apart."""
    return [str(path.resolve()) for path in source.files] if isinstance(source, ParquetSource | CsvSource) else []


class PandasSource:
    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        _unique(list(self._frame.columns))

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
        _unique(table.schema.names)
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
    """A function that opens a new RecordBatchReader, with the same rows in the same order, each time."""

    def __init__(self, factory: Callable[[], Any]) -> None:
        self._factory = factory
        with self._open() as reader:
            _unique(reader.schema.names)
            self._types = _schema_types(reader.schema)

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
    def __init__(self, paths: Sequence[Path]) -> None:
        self.files = list(paths)
        schemas = [self._schema(path) for path in self.files]
        _unique(schemas[0].names)
        for path, schema in zip(self.files, schemas, strict=True):
            if set(schema.names) != set(schemas[0].names) or len(schema.names) != len(schemas[0].names):
                raise TableError(
                    f"{path.name} has other columns than {self.files[0].name}.",
                    hint="write the same columns into all files; their types may differ",
                )
        self.schemas = [_schema_types(schema) for schema in schemas]

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
        for path in self.files:
            # buffered reading: a row group of any size passes through page by page
            with pq.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as file:
                for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
                    yield _arrow_batch(batch)


class CsvSource:
    """One physical line is one row, whatever it holds: no line can change how another one is read.

    So a quoted field cannot contain a line break. A line that is too long, or has too many or too few fields, is a row
    of missing values. Every value is text until it is parsed against the domain; an empty field is missing.
    """

    LONGEST = 2**20

    def __init__(self, paths: Sequence[Path]) -> None:
        self.files = list(paths)
        headers = [self._header(path) for path in self.files]
        _unique(headers[0])
        if any(header != headers[0] for header in headers):
            raise TableError("the CSV files have different header lines.")
        self._names = headers[0]

    @staticmethod
    def _header(path: Path) -> list[str]:
        """The column names. The first line is public; one that looks like a row is not taken for it."""
        try:
            with path.open("rb") as file:
                line = file.readline(CsvSource.LONGEST).decode("utf-8-sig", "replace").rstrip("\r\n")
            names = next(csv.reader([line]), [])
        except OSError:
            raise TableError(f"{path.name} cannot be read.") from None
        except csv.Error:
            names = []
        if not names or "\r" in line or "\0" in line:
            raise TableError(
                f"{path.name} has no readable header line.",
                hint="write column names, commas between them, UTF-8, lines ending in \\n",
            )
        if any(_looks_like_a_value(name) for name in names) or (len(names) == 1 and ";" in line):
            raise TableError(
                f"the first line of {path.name} does not look like column names separated by commas.",
                hint="the first line of a CSV file is public: give it a header line",
            )
        return [name if name.strip() else f"unnamed_{i}" for i, name in enumerate(names, 1)]

    @property
    def types(self) -> Mapping[str, pa.DataType | None]:
        return dict.fromkeys(self._names, pa.binary())

    def count(self) -> int:
        return sum(1 for path in self.files for _ in self._lines(path))

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        places = [self._names.index(name) for name in columns]
        for path in self.files:
            lines = self._lines(path)
            while part := [self._fields(line) for line in itertools.islice(lines, rows)]:
                arrays = [pa.array([fields[i] for fields in part], pa.large_binary()) for i in places]
                yield len(part), dict(zip(columns, arrays, strict=True))

    def _lines(self, path: Path) -> Iterator[bytes]:
        """The lines after the header; of one that is too long, nothing."""
        with path.open("rb") as file:
            file.readline()
            while line := file.readline(self.LONGEST):
                whole = line.endswith(b"\n") or len(line) < self.LONGEST
                while not whole:  # throw the rest of the line away
                    rest = file.readline(self.LONGEST)
                    whole = rest.endswith(b"\n") or len(rest) < self.LONGEST
                    line = b""
                yield line

    def _fields(self, line: bytes) -> list[bytes | None]:
        text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
        try:
            fields = next(csv.reader([text]), [])
        except csv.Error:
            fields = []
        if len(fields) != len(self._names):
            return [None] * len(self._names)
        return [field.encode("utf-8", "surrogateescape") or None for field in fields]


def _looks_like_a_value(name: str) -> bool:
    """A number or a date, which a row has and a header has not."""
    try:
        float(name)
    except ValueError:
        return re.fullmatch(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*", name.strip()) is not None
    return True


def _file_source(paths: Sequence[Path]) -> Source:
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise TableError(f"there is no file {path}.")
        found = sorted(p for p in path.rglob("*.parquet")) if path.is_dir() else [path]
        if not found:
            raise TableError(f"the folder {path} holds no Parquet files.", hint="CSV files are named one by one")
        files += found
    places = set[tuple[int, int]]()
    for path in files:
        facts = path.stat()
        if (place := (facts.st_dev, facts.st_ino)) in places:
            raise TableError(
                f"the file {path} is named twice, so each of its rows would count twice.",
                hint="name each file once: a folder stands for all files in it, and a link for the file it leads to",
            )
        places.add(place)
    kinds = {path.suffix.lower() for path in files}
    if kinds <= {".parquet", ".pq"}:
        return ParquetSource(files)
    if kinds == {".csv"}:
        return CsvSource(files)
    raise TableError(
        "only Parquet and CSV files can be read, and not both together.", hint="name them *.parquet or *.csv"
    )


def _unique(names: Sequence[str]) -> None:
    """Refuse names that stand for several columns. Names are public."""
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise TableError(
            f"the table has two columns of the same name: {', '.join(map(repr, twice))}.",
            hint="rename one of them, or leave one out; which of the two is meant cannot be guessed",
        )


def _schema_types(schema: Any) -> dict[str, pa.DataType | None]:
    return {field.name: field.type for field in schema}


def _arrow_batch(batch: Any) -> Batch:
    return batch.num_rows, {name: batch.column(i) for i, name in enumerate(batch.schema.names)}


def _sliced(batch: Any, rows: int) -> Iterator[Batch]:
    for start in range(0, batch.num_rows, rows):
        yield _arrow_batch(batch.slice(start, rows))
