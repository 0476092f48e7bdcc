"""A batch of clean rows: every value inside its declared domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import Domain

STEP = 256  # models answer a row alike in blocks of multiples of this


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

    def __repr__(self) -> str:
        return f"Rows({', '.join(self.columns)})"  # no values, no size: a repr ends up in logs


def even_size(rows: int, most: int) -> int:
    """The size of equal parts, as few and then as small as possible, that hold this many rows: a multiple of 256.

    `most` is a multiple of 256 too, and no part is larger. What is left empty is less than 256 rows for each part.
    """
    parts = max(1, -(-rows // most))
    return STEP * max(1, -(-rows // (parts * STEP)))
