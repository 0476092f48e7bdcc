"""The one pass over the rows: how many there are in each cluster with each value of each attribute.

A row that no declared cluster takes is in the cluster "other", the last one. Values have been cleaned by then: a number
out of bounds is clipped, a category that was not declared counts as the declared default (`missing`); nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.data.rows import Rows
from dpexplain.maths.grids import Partition

Integers = NDArray[np.int64]
Assign = Callable[[Rows], Integers]


def statistic(rows: Rows, assign: Assign, partitions: Sequence[Partition], clusters: int) -> Integers:
    """The exact counts of one batch: a line of cells for each cluster and "other", attribute after attribute."""
    small = (clusters + 1) * max(partition.size for partition in partitions) < 2**31
    labels: NDArray[Any] = assign(rows).astype(np.int32 if small else np.int64)
    found = []
    for partition in partitions:
        values = rows[partition.feature]
        cells = labels * partition.size + (values if partition.edges is None else partition.place(values))
        found.append(np.bincount(cells, minlength=(clusters + 1) * partition.size))
    return np.concatenate(found).astype(np.int64)


def size_of(partitions: Sequence[Partition], clusters: int) -> int:
    """How many counts there are."""
    return (clusters + 1) * sum(partition.size for partition in partitions)


def tables_of(counts: Integers, partitions: Sequence[Partition], clusters: int) -> list[Integers]:
    """The counts of each attribute as [cluster or other, cell]."""
    ends = np.cumsum([(clusters + 1) * partition.size for partition in partitions])
    return [part.reshape(clusters + 1, -1) for part in np.split(counts, ends[:-1])]
