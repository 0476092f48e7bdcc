"""CSV files, of which one physical line is one row, at the speed of Arrow's parser.

Arrow's parser follows a quote over line ends, so that one line could change how the next ones are read. It is therefore
given *plain* lines only: as many fields as the header has, quotes around whole fields alone, no carriage return or NUL
inside. Of a plain line it says what Python's `csv` says of that line by itself. Whether a line is plain is found out
from its own bytes, for all lines of a block at once; of every other line Python's `csv` decides, line by line.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from dpexplain.engines.local import ahead
from dpexplain.errors import TableError

if TYPE_CHECKING:
    from dpexplain.data.sources import Batch

BLOCK = 2**23  # bytes that are read and parsed together
LONGEST = 2**20  # a longer line is a row of missing values
LONGEST_PLAIN = 2**16  # and Python's csv has a limit for a field
NEWLINE, RETURN, COMMA, QUOTE, NUL, MARK = 10, 13, 44, 34, 0, 0xEF  # the last one begins a byte order mark
Places = NDArray[np.int64]


class CsvSource:
    """One physical line is one row, whatever it holds: no line can change how another one is read.

    So a quoted field cannot contain a line break. A line that is too long, or has too many or too few fields, is a row
    of missing values. Every value is text until it is parsed against the domain; an empty field is missing.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.files = list(paths)
        headers = [self._header(path) for path in self.files]
        unique(headers[0])
        if any(header != headers[0] for header in headers):
            raise TableError("the CSV files have different header lines.")
        self._names = headers[0]

    @staticmethod
    def _header(path: Path) -> list[str]:
        """The column names. The first line is public; one that looks like a row is not taken for it."""
        try:
            with path.open("rb") as file:
                line = file.readline(LONGEST).decode("utf-8-sig", "replace").rstrip("\r\n")
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
        return sum(block.count(b"\n") for path in self.files for block in blocks(path))

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Batch]:
        with ahead() as mapped:  # several blocks are parsed at once
            for path in self.files:
                for size, raw in mapped(lambda block: self._parsed(block, columns), blocks(path)):
                    for start in range(0, size, rows):
                        part = {name: values.slice(start, rows) for name, values in raw.items()}
                        yield min(rows, size - start), part

    def _parsed(self, block: bytes, columns: Sequence[str]) -> Batch:
        """The wanted columns of whole lines: empty fields are null, and so are all of a malformed line."""
        starts, ends, odd = plain_or_odd(block, len(self._names))
        if not len(odd) or not columns:
            return len(ends), self._plain(block, columns) if columns else {}
        empty, pieces, done = b"," * (len(self._names) - 1) + b"\n", list[bytes](), 0
        for line in odd:
            pieces += [block[done : starts[line]], empty]
            done = int(ends[line]) + 1
        raw = self._plain(b"".join([*pieces, block[done:]]), columns)
        fields = [self._fields(block[starts[line] : ends[line]]) for line in odd]
        places = {name: self._names.index(name) for name in columns}
        return len(ends), {
            name: _placed(values, odd, [line[places[name]] for line in fields]) for name, values in raw.items()
        }

    def _plain(self, block: bytes, columns: Sequence[str]) -> dict[str, Any]:
        """The columns of plain lines, by Arrow."""
        table = pa_csv.read_csv(
            pa.BufferReader(block),
            read_options=pa_csv.ReadOptions(column_names=self._names, block_size=len(block) + 1, use_threads=False),
            parse_options=pa_csv.ParseOptions(ignore_empty_lines=False, newlines_in_values=False),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.binary()), include_columns=list(columns), null_values=[""],
                strings_can_be_null=True, check_utf8=False,
            ),
        )  # fmt: skip
        return {name: _one(table.column(name)) for name in columns}

    def _fields(self, line: bytes) -> list[bytes | None]:
        """A line by itself, without its end."""
        text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
        try:
            fields = next(csv.reader([text]), []) if len(line) < LONGEST else []
        except csv.Error:
            fields = []
        if len(fields) != len(self._names):
            return [None] * len(self._names)
        return [field.encode("utf-8", "surrogateescape") or None for field in fields]


def blocks(path: Path) -> Iterator[bytes]:
    """The lines after the header, some whole lines at a time, each with its end; of one that is too long, its end."""
    with path.open("rb") as file:
        file.readline()
        rest, skipping = b"", False
        while chunk := file.read(BLOCK):
            if skipping:
                end = chunk.find(b"\n") + 1
                if not end:
                    continue
                chunk, skipping = chunk[end:], False
            lines = rest + chunk
            end = lines.rfind(b"\n") + 1
            lines, rest = lines[:end], lines[end:]
            if len(rest) >= LONGEST:
                lines, rest, skipping = lines + b"\n", b"", True
            if lines:
                yield lines
        if rest:
            yield rest + b"\n"


def plain_or_odd(block: bytes, columns: int) -> tuple[Places, Places, Places]:
    """Where lines start and end, and which of them are not plain."""
    letters = np.frombuffer(block, dtype=np.uint8)
    marks = np.flatnonzero((letters == NEWLINE) | (letters == COMMA))
    last = np.flatnonzero(letters[marks] == NEWLINE)  # of the marks of each line, its end
    ends, fields = marks[last], np.diff(last, prepend=-1)
    starts = np.concatenate([[0], ends[:-1] + 1])
    odd = (letters[starts] == MARK) | (ends - starts >= LONGEST_PLAIN)
    if b"\r" in block:
        returns = np.flatnonzero(letters == RETURN)
        odd[np.searchsorted(ends, returns[letters[returns + 1] != NEWLINE])] = True
    if b"\0" in block:
        odd[np.searchsorted(ends, np.flatnonzero(letters == NUL))] = True
    if b'"' in block:
        quotes = np.flatnonzero(letters == QUOTE)
        line = np.searchsorted(ends, quotes)
        opening = (np.arange(len(quotes)) - np.searchsorted(line, line)) % 2 == 0  # the first, third, ... of its line
        before, after = letters[quotes - 1], letters[quotes + 1]  # before the first letter: the last end of a line
        starting = (before == COMMA) | (before == NEWLINE)
        ending = (after == COMMA) | (after == NEWLINE) | (after == RETURN)
        odd[line[~np.where(opening, starting, ending)]] = True
        odd[np.bincount(line, minlength=len(ends)) % 2 == 1] = True
        paired = quotes[~odd[line]]
        inside = np.searchsorted(marks, paired[1::2]) - np.searchsorted(marks, paired[::2])  # commas between two quotes
        np.subtract.at(fields, np.searchsorted(ends, paired[::2]), inside)
    return starts, ends, np.flatnonzero(odd | (fields != columns))


def _placed(values: Any, places: Places, others: Sequence[bytes | None]) -> Any:
    """The values with others in some places."""
    together = pa.concat_arrays([values, pa.array(others, pa.binary())])
    order = np.arange(len(values))
    order[places] = len(values) + np.arange(len(others))
    return together.take(pa.array(order))


def _one(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def unique(names: Sequence[str]) -> None:
    """Refuse names that stand for several columns. Names are public."""
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise TableError(
            f"the table has two columns of the same name: {', '.join(map(repr, twice))}.",
            hint="rename one of them, or leave one out; which of the two is meant cannot be guessed",
        )


def _looks_like_a_value(name: str) -> bool:
    """A number or a date, which a row has and a header has not."""
    try:
        float(name)
    except ValueError:
        return re.fullmatch(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*", name.strip()) is not None
    return True
