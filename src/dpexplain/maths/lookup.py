"""Which interval between public edges a number lies in: what `numpy.searchsorted` says, from a table, several times as
fast.

    bin(v) = floor((v - low) * scale), from 0 to the last bin

Every step of it keeps order, in floating point too: a difference to one number, a product with one positive number,
floor, and bounds. So an edge in an earlier bin than v is below v, one in a later bin is above it, and only edges in the
bin of v have to be compared with it. Bins are made so small that there is one at most; where that would take too many,
and where a value is NaN, `searchsorted` is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
MOST_BINS = 2**14


@dataclass(frozen=True)
class Lookup:
    """The table for some edges."""

    low: float
    scale: float
    before: Integers  # for each bin how many edges are in earlier ones
    edge: NDArray[np.float64]  # the edge inside it, or infinity

    def __call__(self, values: NDArray[Any]) -> Integers:
        """For each finite value how many edges are not above it."""
        bins = values - self.low
        bins *= self.scale
        np.clip(bins, 0, len(self.before) - 1, out=bins)
        index = bins.astype(np.intp)
        found: Integers = self.before.take(index)
        found += values >= self.edge.take(index)
        return found


def places(edges: tuple[float, ...], values: NDArray[Any]) -> Integers:
    """For each value how many edges are not above it: `searchsorted(edges, values, side="right")`."""
    values = np.asarray(values, dtype=np.float64)
    table = lookup(edges)
    if table is None or not np.isfinite(values.sum()):
        return np.searchsorted(np.asarray(edges), values, side="right").astype(np.int64)
    return table(values)


@lru_cache(maxsize=256)
def lookup(edges: tuple[float, ...]) -> Lookup | None:
    """The smallest table with at most one edge in a bin; None where it would be too large."""
    inner = np.asarray(edges, dtype=np.float64)
    if len(inner) < 2:
        return None
    low, bins = float(inner[0]), 4 * len(inner)
    while bins <= MOST_BINS:
        with np.errstate(all="ignore"):
            scale = float(bins / (inner[-1] - low))
        if not 0 < scale < np.inf:
            return None
        place = np.clip((inner - low) * scale, 0, bins - 1).astype(np.intp)
        many = np.bincount(place, minlength=bins)
        if many.max() == 1:
            edge = np.full(bins, np.inf)
            edge[place] = inner
            return Lookup(low, scale, (np.cumsum(many) - many).astype(np.int64), edge)
        bins *= 2
    return None
