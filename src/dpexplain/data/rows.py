"""A batch of clean rows: every value inside its declared domain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import Domain

STEP = 256  # models answer a row alike in blocks of multiples of this
LARGEST_BLOCK = 2**14  # rows in one call of a model; batches are whole numbers of blocks


@dataclass(frozen=True)
class Rows:
    """Column name to array: floats for numeric columns, codes into the declared categories for the others."""

    domain: Domain
    columns: Mapping[str, NDArray[Any]]
    size: int

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def take(self, index: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Rows:
        columns = {name: values[index] for name, values in self.columns.items()}
        size = len(next(iter(columns.values())))
        return Rows(self.domain, columns, size)

    def before(self, others: Sequence[Rows]) -> Rows:
        """These rows, and after them all others."""
        if not others:
            return self
        columns = {name: np.concatenate([values, *(o[name] for o in others)]) for name, values in self.columns.items()}
        return Rows(self.domain, columns, self.size + sum(other.size for other in others))

    def __repr__(self) -> str:
        return f"Rows({', '.join(self.columns)})"  # no values, no size: a repr ends up in logs


def even_size(rows: int, most: int) -> int:
    """The size of equal parts, as few and then as small as possible, that hold this many rows: a multiple of 256.

    `most` is a multiple of 256 too, and no part is larger. What is left empty is less than 256 rows for each part.
    """
    parts = max(1, -(-rows // most))
    return STEP * max(1, -(-rows // (parts * STEP)))


def rebatched(batches: Iterable[Rows], size: int) -> Iterator[Rows]:
    """The same rows in the same order, `size` at a time, whatever chunks a source came in: where a model is asked about
    them, short batches would be filled up with filler.
    """
    held, many = list[Rows](), 0
    for rows in batches:
        held.append(rows)
        many += rows.size
        if many >= size:
            joined = held[0].before(held[1:])
            for start in range(0, many - size + 1, size):
                yield joined if many == size else joined.take(slice(start, start + size))
            held, many = [joined.take(slice(many // size * size, None))], many % size
    if many:
        yield held[0].before(held[1:])
