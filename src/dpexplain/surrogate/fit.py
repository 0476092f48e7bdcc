"""What a local linear model says: coefficients in coordinates, the value at the record, and how sure they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """A linear model value + coefficients . (x - z) around a record z, in units of the model's output.

    spread     lines of directions in coordinates -> the standard deviation that the noise gives coefficients . line
    pull       the same lines -> how far coefficients . line may be off for other reasons than noise, at any level
    reference  the coordinates that contributions are counted from
    notes      what a reader must know about this fit: reused from a neighbour, few rows nearby, ...
    """

    coefficients: Floats
    value: float
    spread: Callable[[Floats], Floats]
    reference: Floats
    notes: tuple[str, ...] = ()
    pull: Callable[[Floats], Floats] | None = None
