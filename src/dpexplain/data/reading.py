"""`Reading`: one pass over the rows, described. An engine gets it and reads wherever it runs; it holds no table, no
door and no account, and it can be pickled if its source can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpexplain.core.domain import Domain, Numeric
from dpexplain.core.sensitivity import Unit
from dpexplain.data.assignment import Ids, Secrets
from dpexplain.data.encode import NO_ID, encode, identifiers
from dpexplain.data.rows import Rows, rebatched
from dpexplain.data.sources import Source

BATCH_ROWS = 2**14


@dataclass(frozen=True)
class Reading:
    """Clean rows of a source: the named columns, under a unit its first `max_rows` rows.

    id_column   whose values rows are dealt by, if any
    batch_rows  in a batch
    size        the number of rows where it is public
    one_in      each row is used with probability one in so many, by a secret number of its own
    """

    source: Source
    domain: Domain
    columns: tuple[str, ...]
    unit: Unit | None
    id_column: str | None
    batch_rows: int
    size: int | None
    one_in: int = 1

    @property
    def kinds(self) -> list[type[np.generic]]:
        """The types of the columns."""
        return [np.float64 if isinstance(self.domain[name], Numeric) else np.int32 for name in self.columns]

    @property
    def expected(self) -> int | None:
        """How many rows will be used, where that is public."""
        return None if self.size is None else -(-self.size // self.one_in)

    def batches(self, secrets: Secrets) -> Iterator[Rows]:
        """The rows, batch after batch."""
        batches = (rows for rows, _ in self.identified())
        if self.one_in > 1:
            batches = (rows.take(self.one_in * secrets.uniform(rows.size) < 1) for rows in batches)
        return rebatched(batches, self.batch_rows)

    def identified(self) -> Iterator[tuple[Rows, Ids | None]]:
        """Batches as the source gives them, with the ids of their rows if a column of ids is named."""
        extra = [self.unit.column] if self.unit else []
        extra += [self.id_column] if self.id_column else []
        seen: dict[str, int] = {}  # rows used so far of each unit; grows with the number of units
        for size, raw in self.source.batches(list(dict.fromkeys([*self.columns, *extra])), self.batch_rows):
            rows = Rows(self.domain, {name: encode(self.domain[name], raw[name]) for name in self.columns}, size)
            ids = None if self.id_column is None else identifiers(raw[self.id_column])
            if self.unit is not None:
                keep = _first_of_each(identifiers(raw[self.unit.column]), seen, self.unit.max_rows)
                rows = rows.take(keep)
                ids = None if ids is None else (ids[0][keep], ids[1])
            yield rows, ids


def _first_of_each(ids: Ids, seen: dict[str, int], max_rows: int) -> NDArray[np.bool_]:
    """Which rows are among the first `max_rows` of their unit, counting earlier batches; rows without an id are not.

    The choice for one unit depends on its own rows alone, so replacing a unit changes no other unit's rows. Were rows
    without an id one unit, a person without an id would push other people's rows out of it.
    """
    codes, distinct = ids
    earlier = np.array([seen.get(value, 0) for value in distinct], dtype=np.int64)
    rank = pd.Series(codes).groupby(codes).cumcount().to_numpy() + earlier[codes]
    for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
        value = distinct[code]
        seen[value] = seen.get(value, 0) + int(count)
    known = np.array([value != NO_ID for value in distinct])
    keep: NDArray[np.bool_] = (rank < max_rows) & known[codes]
    return keep
