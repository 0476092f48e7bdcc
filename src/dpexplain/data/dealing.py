"""Rows that were dealt to a public number of groups, handed out in pieces of whole groups.

Every row gets a secret tag (`assignment.Dealer`): its place in a secret shuffle, a keyed hash of its unit's id, or a
number of its own; its group is the tag modulo the number of groups. Rows are kept in memory up to MEMORY bytes. Beyond
that they are written to Arrow files in a private temporary folder, each file sorted by ranges of groups, and one range
after the other is read back. All files are open at once, so after some dozens of them larger ones are written. The
folder is deleted when the pass ends, however it ends.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpexplain.core.sensitivity import Assignment
from dpexplain.data.assignment import Floats, Integers, Secrets
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.reading import Mapped, Reading
from dpexplain.data.rows import Rows

MEMORY = 2**26  # bytes of dealt rows, before they are written to a file
FILES = 64  # of that size; then as many of twice that size, and all others of four times: some systems open 256 at most
RANGES = 128  # of groups, each read back by itself

Columns = list[NDArray[Any]]  # those of a reading, and the tags behind them


@dataclass(frozen=True)
class Deal:
    """How rows are dealt, all of it public.

    together   the rows of a unit stand together in their group, and every row has a secret number of its own;
               otherwise the rows of a group stand in a secret order
    at_once    a kernel gets whole groups with at most so many rows, or a single one; 0: one group at a time
    """

    groups: int
    rule: Assignment
    together: bool
    at_once: int

    @contextmanager
    def pieces(self, reading: Reading, secrets: Secrets, ahead: Mapped = map) -> Iterator[Iterator[Dealt]]:
        """All rows of a reading in pieces of whole groups. Files that hold them are gone at the end."""
        with ExitStack() as stack:
            tags = secrets.tags(self.rule, reading.size)
            held, runs, folder = _Held(reading), list[_Run](), ""
            for rows, ids in reading.identified(ahead):
                held.add(rows, tags(rows.size, ids))
                if held.bytes >= MEMORY << min(len(runs) // FILES, 2):
                    folder = folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="dpexplain-"))
                    runs.append(stack.enter_context(_Run(Path(folder) / str(len(runs)), held.emptied(), self.groups)))
            del tags  # it may hold the places of all rows
            if not runs:
                yield pieces_of(reading, held.emptied(), self, secrets, range(self.groups))
                return
            runs.append(stack.enter_context(_Run(Path(folder) / str(len(runs)), held.emptied(), self.groups)))
            yield _stored(reading, runs, self, secrets)


@dataclass(frozen=True)
class Dealt:
    """Rows of some whole groups, one group after the other; groups without rows included."""

    rows: Rows
    starts: Integers  # the first row of each group
    tags: Integers  # rows of one unit have the same
    numbers: Floats | None = None  # a secret number of each row, where a kernel needs one

    @classmethod
    def of(cls, rows: Rows, tags: Integers, groups: int, numbers: Floats | None = None) -> Dealt:
        """All groups at once; with numbers, rows of a unit together, and otherwise in the order in which they come."""
        group = tags % groups
        order = np.argsort(group, kind="stable") if numbers is None else np.lexsort((tags, group))
        starts = np.searchsorted(group, np.arange(groups), sorter=order)
        return cls(rows.take(order), starts, tags[order], None if numbers is None else numbers[order])

    @property
    def size(self) -> int:
        """The number of groups: what the progress of a pass counts."""
        return len(self.starts)

    @cached_property
    def sizes(self) -> Integers:
        """The number of rows of each group."""
        return np.diff(np.append(self.starts, self.rows.size))

    @cached_property
    def group(self) -> Integers:
        """The group of each row, counted from the first one here."""
        return np.repeat(np.arange(self.size), self.sizes)

    def __iter__(self) -> Iterator[Rows]:
        for start, size in zip(self.starts, self.sizes, strict=True):
            yield self.rows.take(slice(int(start), int(start + size)))

    def sums(self, values: Integers) -> Integers:
        """The sum of one whole number for each row, over each group."""
        total = np.concatenate([[0], np.cumsum(values)])
        sums: Integers = total[self.starts + self.sizes] - total[self.starts]
        return sums

    def shuffled(self) -> Integers:
        """The rows of each group in an order that is drawn once for all tables, by their places in the group."""
        place = np.arange(self.rows.size) - self.starts[self.group]
        draws = PublicRandom(0).generator.random(int(place.max(initial=-1)) + 1)  # longer groups go on drawing
        return np.lexsort((draws[place], self.group)).astype(np.int64)


def _stored(reading: Reading, runs: list[_Run], deal: Deal, secrets: Secrets) -> Iterator[Dealt]:
    """Rows that were written to files, one range of groups after the other."""
    for number, groups in enumerate(ranges_of(deal.groups)):
        columns = [np.concatenate(chunks) for chunks in zip(*(run.read(number) for run in runs), strict=True)]
        yield from pieces_of(reading, columns, deal, secrets, groups)


def pieces_of(reading: Reading, columns: Columns, deal: Deal, secrets: Secrets, groups: range) -> Iterator[Dealt]:
    """The rows of some groups, all of them in memory, in pieces."""
    *values, tags = columns
    rows = Rows(reading.domain, dict(zip(reading.columns, values, strict=True)), len(tags))
    numbers = secrets.uniform(len(tags)) if deal.together else None
    # places of a shuffle are an order themselves
    order = np.arange(len(tags)) if deal.rule is Assignment.POSITION else secrets.order(len(tags))
    group = tags[order] % deal.groups - groups.start
    by_tag = deal.together or deal.rule is Assignment.POSITION
    order = order[np.lexsort((tags[order], group)) if by_tag else np.argsort(group, kind="stable")]
    ends = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=len(groups)))])
    first = 0
    while first < len(groups):
        last = int(np.searchsorted(ends, ends[first] + deal.at_once, side="right")) - 1 if deal.at_once else 0
        last = max(last, first + 1)
        place = order[ends[first] : ends[last]]
        mine = None if numbers is None else numbers[place]
        yield Dealt(rows.take(place), ends[first:last] - ends[first], tags[place], mine)
        first = last


class _Held:
    """Rows kept in memory, column by column."""

    def __init__(self, reading: Reading) -> None:
        self._names = reading.columns
        self._empty: Columns = [np.empty(0, dtype=kind) for kind in (*reading.kinds, np.int64)]
        self._chunks, self.bytes = [[empty] for empty in self._empty], 0

    def add(self, rows: Rows, tags: Integers) -> None:
        for chunks, values in zip(self._chunks, [*(rows[name] for name in self._names), tags], strict=True):
            chunks.append(values)
            self.bytes += values.nbytes

    def emptied(self) -> Columns:
        """What was held, in one array for each column. Chunks go column by column, so that memory is not doubled."""
        columns = []
        for chunks, empty in zip(self._chunks, self._empty, strict=True):
            columns.append(np.concatenate(chunks))
            chunks[:] = [empty]
        self.bytes = 0
        return columns


class _Run:
    """A file of dealt rows: one record batch for each range of groups."""

    def __init__(self, path: Path, columns: Columns, groups: int) -> None:
        ranges = len(ranges_of(groups))
        number = columns[-1] % groups * ranges // groups
        order = np.argsort(number, kind="stable")
        ends = np.searchsorted(number, np.arange(ranges + 1), sorter=order)
        schema = pa.schema([(str(i), pa.from_numpy_dtype(column.dtype)) for i, column in enumerate(columns)])
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for start, end in itertools.pairwise(ends):
                arrays = [pa.array(column[order[start:end]]) for column in columns]
                writer.write_batch(pa.record_batch(arrays, schema=schema))
        self._file = pa.OSFile(str(path), "rb")
        self._batches = pa.ipc.open_file(self._file)
        with suppress(
            OSError
        ):  # an open file needs no name, and a killed process leaves none, where the system allows it
            path.unlink()

    def read(self, number: int) -> Columns:
        return [column.to_numpy(zero_copy_only=False) for column in self._batches.get_batch(number).columns]

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def ranges_of(groups: int) -> list[range]:
    """Whole groups in as many ranges of about the same size."""
    many = min(RANGES, groups)
    return [range(first, last) for first, last in itertools.pairwise(-(-i * groups // many) for i in range(many + 1))]
