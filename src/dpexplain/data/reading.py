"""`Reading`: one pass over the rows, described. An engine gets it and reads wherever it runs; it holds no table, no
door and no account, and it can be pickled if its source can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpexplain.core.domain import Domain, Numeric
from dpexplain.core.sensitivity import Unit
from dpexplain.data.assignment import Ids, Secrets
from dpexplain.data.encode import RawColumn, encode, identifiers
from dpexplain.data.rows import Rows, rebatched
from dpexplain.data.sources import Batch, Source
from dpexplain.data.split import Homes, Part, some_of
from dpexplain.data.units import Choice, hashes_of
from dpexplain.errors import TableError

BATCH_ROWS = 2**14
Mapped = Callable[[Callable[[Any], Any], Iterator[Any]], Iterator[Any]]  # as `map`: the results in the order of batches


@dataclass(frozen=True)
class Reading:
    """Clean rows of a source: the named columns, under a unit at most `max_rows` of its rows.

    id_column   whose values rows are dealt by, if any
    batch_rows  in a batch
    size        the number of rows where it is public
    one_in      each row is used with probability one in so many, by a secret number of its own
    part        of the table that is read; None: all of it
    """

    source: Source
    domain: Domain
    columns: tuple[str, ...]
    unit: Unit | None
    id_column: str | None
    batch_rows: int
    size: int | None
    one_in: int = 1
    part: Part | None = None

    @property
    def kinds(self) -> list[type[np.generic]]:
        """The types of the columns."""
        return self.kinds_of(self.columns)

    def kinds_of(self, names: Sequence[str]) -> list[type[np.generic]]:
        return [np.float64 if isinstance(self.domain[name], Numeric) else np.int32 for name in names]

    @property
    def expected(self) -> int | None:
        """How many rows will be used, where that is public."""
        return None if self.size is None else -(-self.size // self.one_in)

    def batches(self, secrets: Secrets, ahead: Mapped = map) -> Iterator[Rows]:
        """The rows, batch after batch."""
        return rebatched(self.sampled((rows for rows, _ in self.identified(ahead)), secrets), self.batch_rows)

    def sampled(self, batches: Iterator[Rows], secrets: Secrets) -> Iterator[Rows]:
        """Each row with probability one in `one_in`."""
        if self.one_in == 1:
            return batches
        return (rows.take(self.one_in * secrets.uniform(rows.size) < 1) for rows in batches)

    def identified(self, ahead: Mapped = map) -> Iterator[tuple[Rows, Ids | None]]:
        """Batches as the source gives them, with the ids of their rows if a column of ids is named. `ahead` may clean
        several of them at once.
        """
        homes = self._homes()
        choice, total = self._choice(homes, ahead), 0
        for size, rows, units, ids, hashes in self._inside(homes, ahead):
            total += size
            if choice is not None:
                keep = choice.keep(units, hashes)
                rows, ids = rows.take(keep), some_of(ids, keep)
            yield self.narrowed(rows), ids
        if self.size is not None and total != self.size:
            raise TableError("the source no longer has the number of rows that it had when the table was opened.")

    def _inside(self, homes: Homes | None, ahead: Mapped) -> Iterator[Any]:
        """Batches of the source, each prepared."""
        return ahead(partial(self._prepared, homes=homes), self.source.batches(self.raw_columns, self.batch_rows))

    def _prepared(self, batch: Batch, homes: Homes | None) -> tuple[int, Rows, Ids | None, Ids | None, Any]:
        """A batch by itself: the number of its rows, and those that lie in the part that is read, clean, with the ids
        of their units, those that they are dealt by, and under a unit a hash of each.
        """
        size, raw = batch
        rows = self.cleaned(raw, self.traveling, size)
        ids: Ids | None = None if self.id_column is None else identifiers(raw[self.id_column])
        units: Ids | None = None
        if self.unit is not None:
            units = ids if self.unit.column == self.id_column else identifiers(raw[self.unit.column])
        if self.part is not None:
            keep = self.part.holds(rows, units, homes)
            rows, units, ids = rows.take(keep), some_of(units, keep), some_of(ids, keep)
        return size, rows, units, ids, None if units is None else hashes_of(rows, self.traveling, units)

    def _homes(self) -> Homes | None:
        """Under a unit, in which part each lies: a pass over the columns that decide it."""
        if self.unit is None or self.part is None:
            return None
        homes, columns = Homes(), self.part.division.columns
        for size, raw in self.source.batches(list(dict.fromkeys([*columns, self.unit.column])), self.batch_rows):
            units = identifiers(raw[self.unit.column])
            homes.add(units, self.part.division.numbers(self.cleaned(raw, columns, size)))
        return homes

    def _choice(self, homes: Homes | None, ahead: Mapped) -> Choice | None:
        """Under a unit, which of its rows are used: a pass over all declared columns."""
        if self.unit is None:
            return None
        choice = Choice(self.unit.max_rows)
        for _, _, units, _, hashes in self._inside(homes, ahead):
            choice.add(units, hashes)
        choice.close()
        return choice

    @property
    def traveling(self) -> tuple[str, ...]:
        """The declared columns that are read: under a unit all of them, because its rows are chosen by them; and those
        that decide the part of a row.
        """
        if self.unit is not None:
            return tuple(self.domain)
        return self.columns if self.part is None else tuple(dict.fromkeys([*self.columns, *self.part.division.columns]))

    @property
    def raw_columns(self) -> list[str]:
        """The columns of the source that are read."""
        extra = [self.unit.column] if self.unit else []
        return list(dict.fromkeys([*self.traveling, *extra, *([self.id_column] if self.id_column else [])]))

    def narrowed(self, rows: Rows) -> Rows:
        """Rows with the columns of this reading alone."""
        return Rows(self.domain, {name: rows[name] for name in self.columns}, rows.size)

    def cleaned(self, raw: Mapping[str, RawColumn], columns: Sequence[str], size: int) -> Rows:
        """Raw columns of some rows as clean ones."""
        return Rows(self.domain, {name: encode(self.domain[name], raw[name]) for name in columns}, size)
