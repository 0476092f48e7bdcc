"""What runs on executors: functions from batches of Arrow to batches of Arrow, for an engine that moves rows itself.

A step gets an iterator of record batches and gives one. It holds a `Reading` without its source, a kernel, and the key
of this pass; it draws nothing. A task may run twice, so all that is secret is a function of that key and of what a task
is given again when it runs again: the id of a row, or its content and which of its copies it is, or its place in a
partition that is read in one order (docs/decisions/0037-spark.md has the argument).

What goes wrong in a kernel is caught here: a batch that says "failed", and no word of why. Executors get every step
through `unheard` (`engines/silence.py`), so nothing that happens in one is printed or logged there.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpexplain.data.assignment import TAGS, Secrets, id_bytes, tag_of
from dpexplain.data.dealing import Deal, pieces_of, ranges_of
from dpexplain.data.encode import NO_ID, identifiers
from dpexplain.data.reading import Reading
from dpexplain.data.rows import Rows, rebatched
from dpexplain.data.units import hashes_of

Batches = Iterator[Any]
Integers = NDArray[np.int64]
SUMS = "ok boolean, part bigint, rows bigint, sums binary"
SIGN = np.uint64(2**63)  # between the order of unsigned numbers, in which rows of a unit are chosen, and that of signed


class Drawn(Secrets):
    """The secret numbers of one task, or of one part of it: the same ones when it runs again."""

    def __init__(self, key: bytes, name: bytes) -> None:
        self._key, self._name, self._call = key, name, 0

    def _bits(self, size: int) -> NDArray[np.uint64]:
        self._call += 1
        text = self._key + struct.pack("<QQ", len(self._name), self._call) + self._name
        return np.frombuffer(hashlib.shake_256(text).digest(8 * size), dtype=np.uint64)

    def order(self, size: int) -> Integers:
        return np.argsort(self._bits(size), kind="stable")

    def uniform(self, size: int) -> NDArray[np.float64]:
        return (self._bits(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(frozen=True)
class Step:
    """Base of all steps. `reading` has no source: rows come from the engine."""

    reading: Reading
    key: bytes

    @property
    def names(self) -> tuple[str, ...]:
        """The declared columns that travel: all of them under a unit, whose rows are chosen by all of them."""
        return self.reading.traveling

    @property
    def schema(self) -> str:
        """Clean rows as they travel: columns, a hash of them, the unit, the tag."""
        columns = [f"c{i} {'double' if kind == np.float64 else 'int'}" for i, kind in enumerate(self._kinds)]
        return ", ".join([*columns, "hash bigint", "unit binary", "tag bigint"])

    @property
    def columns(self) -> list[str]:
        return [f"c{i}" for i in range(len(self.names))]

    @property
    def _kinds(self) -> Sequence[type[np.generic]]:
        return self.reading.kinds_of(self.names)

    def packed(self, rows: Rows, units: Sequence[bytes | None], tags: Sequence[int | None], hashes: Any) -> Any:
        arrays = [pa.array(rows[name]) for name in self.names]
        arrays += [pa.array(hashes), pa.array(units, pa.binary()), pa.array(tags, pa.int64())]
        return pa.RecordBatch.from_arrays(arrays, [*self.columns, "hash", "unit", "tag"])

    def unpacked(self, batch: Any) -> Rows:
        values = {name: batch.column(i).to_numpy(zero_copy_only=False) for i, name in enumerate(self.names)}
        return Rows(self.reading.domain, values, batch.num_rows)


class Cleaned(Step):
    """Raw rows become clean ones, with the hash of each, its unit, and its tag where an id gives it one."""

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            raw = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
            rows = self.reading.cleaned(raw, self.names, batch.num_rows)
            units: list[bytes | None] = [None] * rows.size
            tags: list[int | None] = [None] * rows.size
            ids = None if self.reading.unit is None else identifiers(raw[self.reading.unit.column])
            if ids is not None:
                units = self._spelled(*ids)
            elif self.reading.id_column is not None:
                spelled = self._spelled(*identifiers(raw[self.reading.id_column]))
                tags = [None if x is None else tag_of(self.key, b"id", x) for x in spelled]
            hashes = (hashes_of(rows, self.names, ids) ^ SIGN).view(np.int64)
            packed = self.packed(rows, units, tags, hashes)
            yield packed if self.reading.unit is None else packed.filter(packed.column("unit").is_valid())

    @staticmethod
    def _spelled(codes: Integers, distinct: Sequence[str]) -> list[Any]:
        spelled = [None if text == NO_ID else id_bytes(text) for text in distinct]
        return [spelled[code] for code in codes]


class Bounded(Step):
    """Of rows sorted by unit and hash the first `max_rows` of each unit, with the tag of the unit."""

    def __call__(self, batches: Batches) -> Batches:
        unit = self.reading.unit
        assert unit is not None
        last, count, tag = None, 0, 0
        for batch in batches:
            units, keep, tags = batch.column("unit").to_pylist(), np.zeros(batch.num_rows, dtype=bool), []
            for place, one in enumerate(units):
                if one != last:
                    last, count, tag = one, 0, tag_of(self.key, b"id", one)
                keep[place] = count < unit.max_rows
                count += 1
                tags.append(tag)
            table = batch.set_column(batch.num_columns - 1, "tag", pa.array(tags, pa.int64()))
            yield table.filter(pa.array(keep))


class Numbered(Step):
    """Of rows sorted by hash and content: a row without a tag gets that of its content and of which copy it is."""

    def __call__(self, batches: Batches) -> Batches:
        last, copies = None, 0
        for batch in batches:
            hashes, tags = batch.column("hash").to_pylist(), batch.column("tag").to_pylist()
            for place, one in enumerate(hashes):
                if tags[place] is None:
                    last, copies = one, copies + 1 if one == last else 1
                    tags[place] = tag_of(self.key, b"row", struct.pack("<qq", one, copies))
            yield batch.set_column(batch.num_columns - 1, "tag", pa.array(tags, pa.int64()))


@dataclass(frozen=True)
class Ranked(Step):
    """Rows of one range of tags, sorted by tag: their tags become their places among all rows."""

    starts: tuple[int, ...]  # the first place of each range

    def __call__(self, batches: Batches) -> Batches:
        seen: dict[int, int] = {}
        for batch in batches:
            tags = batch.column("tag").to_numpy(zero_copy_only=False)
            places = []
            for number in (tags // (TAGS // len(self.starts))).tolist():
                places.append(self.starts[number] + seen.get(number, 0))
                seen[number] = seen.get(number, 0) + 1
            yield batch.set_column(batch.num_columns - 1, "tag", pa.array(places, pa.int64()))


@dataclass(frozen=True)
class Summed(Step):
    """The sum of a kernel over the rows of a partition."""

    kernel: Callable[..., Integers]
    size: int
    secret: bool

    def __call__(self, batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        draws = Drawn(self.key, b"partition %d" % (0 if context is None else context.partitionId()))
        many = 0

        def rows() -> Iterator[Rows]:
            nonlocal many
            for batch in batches:
                raw = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
                many += batch.num_rows
                if self.reading.unit is not None:
                    yield self.reading.narrowed(self.unpacked(batch))
                else:
                    yield self.reading.cleaned(raw, self.reading.columns, batch.num_rows)

        def total() -> Integers:
            found = np.zeros(self.size, dtype=np.int64)
            for part in rebatched(self.reading.sampled(rows(), draws), self.reading.batch_rows):
                found += self.kernel(part, draws.uniform) if self.secret else self.kernel(part)
            return found

        yield answered(total, lambda: (0, many))


@dataclass(frozen=True)
class Grouped(Step):
    """The sum of a kernel over the groups of each range of groups: rows of a range come together, one after another."""

    kernel: Callable[..., Integers]
    size: int
    deal: Deal

    def __call__(self, batches: Batches) -> Batches:
        held, number = list[Any](), -1
        for batch in batches:
            parts = batch.column("part").to_numpy(zero_copy_only=False)
            ends = [*np.flatnonzero(np.diff(parts)) + 1, len(parts)]
            start = 0
            for end in ends:
                if held and parts[start] != number:
                    yield self.answer(number, held)
                    held = []
                number = int(parts[start])
                held.append(batch.slice(start, end - start))
                start = end
        if held:
            yield self.answer(number, held)

    def answer(self, number: int, held: Sequence[Any]) -> Any:
        """The sums over one range of groups; without any rows, those of its empty groups."""

        def total() -> Integers:
            empty = [np.empty(0, dtype=kind) for kind in self.reading.kinds]
            columns, tags = [[one] for one in empty], [np.empty(0, dtype=np.int64)]
            for batch in held:
                rows = self.reading.narrowed(self.unpacked(batch))
                for chunks, name in zip(columns, self.reading.columns, strict=True):
                    chunks.append(rows[name])
                tags.append(batch.column("tag").to_numpy(zero_copy_only=False))
            together = [np.concatenate(chunks) for chunks in (*columns, tags)]
            draws, groups = Drawn(self.key, b"range %d" % number), ranges_of(self.deal.groups)[number]
            found = np.zeros(self.size, dtype=np.int64)
            for piece in pieces_of(self.reading, together, self.deal, draws, groups):
                found += self.kernel(piece)
            return found

        return answered(total, lambda: (number, sum(batch.num_rows for batch in held)))


def distinct_ids(batches: Batches) -> Batches:
    """A hash of each id in a batch."""
    for batch in batches:
        codes, distinct = identifiers(batch.column(0))
        known = {distinct[code] for code in np.unique(codes)} - {NO_ID}
        yield pa.RecordBatch.from_arrays(
            [pa.array([tag_of(b"", b"id", id_bytes(one)) for one in known], pa.int64())], ["id"]
        )


def answered(total: Callable[[], Integers], what: Callable[[], tuple[int, int]]) -> Any:
    """A batch of one line with the sums; or with "failed". A model runs in another thread than the main one, where it
    may raise anything that it likes.
    """
    try:
        with ThreadPoolExecutor(1) as pool:
            sums = pool.submit(total).result()
        line = [True, *what(), np.asarray(sums, dtype="<i8").tobytes()]
    except BaseException:  # what it says may quote a row
        line = [False, 0, 0, b""]
    kinds = [pa.bool_(), pa.int64(), pa.int64(), pa.binary()]
    names = ["ok", "part", "rows", "sums"]
    return pa.RecordBatch.from_arrays([pa.array([x], k) for x, k in zip(line, kinds, strict=True)], names)
