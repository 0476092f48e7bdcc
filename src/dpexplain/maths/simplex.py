"""Counts that are not negative and have a given total."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def nearest_with_total(values: Floats, total: float) -> Floats:
    """The non-negative vector with this total that is nearest to `values` (Euclidean projection on a simplex)."""
    if total <= 0:
        return np.zeros(len(values))
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(ordered - excess > 0)[-1]  # the largest value is always among them
    projected: Floats = np.maximum(values - excess[last], 0.0)
    return projected
