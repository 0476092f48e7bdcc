"""Which rows of a unit are used: at most `max_rows`, chosen by the rows of that unit alone.

    Of a unit's rows those with the smallest hashes are used. The hash of a row is one of its declared columns, all of
    them and cleaned, and of the unit's id, under a public key. Without the id, all units that have a row of one kind
    and one of another would use the same kind, and a table of few values would look like something else.

The choice for one unit depends on its own rows and on the declaration, so replacing a unit changes no other unit's
rows, and at most `max_rows` rows of a unit are ever used. It does not depend on the order of the source, nor on the
columns that a pass happens to need: every pass over the table, on every engine, uses the same rows. Rows with equal
hashes have equal columns (but for one chance in 2^64 for each pair), so it does not matter which of them are used.

The guarantee needs no randomness here: any function of a unit's own rows will do. What the choice costs is one pass
over the declared columns before the pass itself, and memory for `max_rows` numbers for each unit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpexplain.data.assignment import Ids
from dpexplain.data.encode import NO_ID
from dpexplain.data.rows import Rows

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int64]
_KEY = np.uint64(0x9E3779B97F4A7C15)
_ROUNDS = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST = np.uint64(31)
HELD = 2**20  # rows that wait, before only the first of each unit are kept


def hashes_of(rows: Rows, columns: Sequence[str], ids: Ids | None = None) -> Hashes:
    """A hash of the clean values of each row, and of its id (the finaliser of SplitMix64, one after the other)."""
    found = np.full(rows.size, _KEY)
    for name in columns:
        values = rows[name]
        wide = values.astype(np.int64) if values.dtype.kind == "i" else values.astype(np.float64)
        found = _with(found, wide.view(np.uint64))
    if ids is None:
        return found
    codes, distinct = ids
    used, places = np.unique(codes, return_inverse=True)  # a dictionary may hold many that no row has
    texts = [distinct[code].encode("utf-8", "surrogatepass") for code in used]
    each = [int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") for text in texts]
    return _with(found, np.array(each, dtype=np.uint64)[places])


def _with(found: Hashes, values: Hashes) -> Hashes:
    with np.errstate(over="ignore"):
        found = (found ^ values) + _KEY
        for shift, factor in _ROUNDS:
            found = (found ^ (found >> shift)) * factor
    return found ^ (found >> _LAST)


class Choice:
    """The rows of each unit that are used: shown all rows once (`add`), it tells which of them, shown them again
    (`keep`), even if they come in another order.
    """

    def __init__(self, max_rows: int) -> None:
        self._most = max_rows
        self._numbers: dict[str, int] = {}  # of the units; grows with them
        self._units, self._hashes = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.uint64)]
        self._waiting = 0

    def add(self, ids: Ids, hashes: Hashes) -> None:
        """Some rows of the first pass. Rows without an id are not used: were they one unit, a person without an id
        would push other people's rows out of it.
        """
        codes, distinct = ids
        numbers, known = self._numbers, np.full(len(distinct), -1)
        for code in np.unique(codes):
            if (value := distinct[code]) != NO_ID:
                known[code] = numbers.setdefault(value, len(numbers))
        units = known[codes]
        self._units.append(units[units >= 0])
        self._hashes.append(hashes[units >= 0])
        self._waiting += len(units)
        if self._waiting > max(HELD, self._most * len(numbers)):
            self._prune()

    def close(self) -> None:
        """The first pass has ended."""
        units, hashes = self._prune()
        size = len(self._numbers)
        ends = np.cumsum(np.bincount(units, minlength=size))
        self._limit = hashes[ends - 1]  # of each unit, which has one row at least
        self._alike = np.bincount(units[hashes == self._limit[units]], minlength=size)  # how many may equal it
        self._used, self._equal = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)

    def keep(self, ids: Ids, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of some rows of the second pass are used: never more than `max_rows` of a unit, even if the source
        changed in between.
        """
        codes, distinct = ids
        units = np.array([self._numbers.get(value, -1) for value in distinct], dtype=np.int64)[codes]
        known = units >= 0
        limit = np.zeros(len(units), dtype=np.uint64)
        limit[known] = self._limit[units[known]]
        equal = known & (hashes == limit)
        equal[equal] = _counted(units[equal], self._equal) < self._alike[units[equal]]
        wanted: NDArray[np.bool_] = (known & (hashes < limit)) | equal
        wanted[wanted] = _counted(units[wanted], self._used) < self._most
        return wanted

    def _prune(self) -> tuple[Integers, Hashes]:
        """Only the rows that may still be used, ordered by unit and hash."""
        units, hashes = np.concatenate(self._units), np.concatenate(self._hashes)
        order = np.lexsort((hashes, units))
        units, hashes = units[order], hashes[order]
        start = np.searchsorted(units, units)
        first = np.arange(len(units)) - start < self._most
        units, hashes = units[first], hashes[first]
        self._units, self._hashes, self._waiting = [units], [hashes], 0
        return units, hashes


def _counted(units: Integers, before: Integers) -> Integers:
    """For each row how many rows of its unit came earlier; `before` counts on from batch to batch."""
    rank = pd.Series(units).groupby(units).cumcount().to_numpy() + before[units]
    np.add.at(before, units, 1)
    return np.asarray(rank, dtype=np.int64)
