"""What a local linear model says: coefficients in coordinates, the value at the record, and how sure they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpexplain.surrogate.average import AveragePerson

Floats = NDArray[np.float64]

UNSETTLED = "intervals hold the noise of the steps, not how far they end from the best line, so no sign is sure"


@dataclass(frozen=True)
class Fit:
    """A linear model value + coefficients . (x - z) around a record z, in units of the model's output.

    spread     lines of directions in coordinates -> the standard deviation that the noise gives coefficients . line
    reference  the coordinates that contributions are counted from
    notes      what a reader must know about this fit: reused from a neighbour, few rows nearby, ...
    pull       the same lines -> how far coefficients . line may be off for other reasons than noise, at any level
    unknown    the same lines -> how far besides, in directions that the rows do not determine
    settled    whether the coefficients are known to be those of the best line, but for all of that; a path of descent
               may end anywhere on its way
    average    the released average person, who is the reference; None in files of before it was released
    """

    coefficients: Floats
    value: float
    spread: Callable[[Floats], Floats]
    reference: Floats
    notes: tuple[str, ...] = ()
    pull: Callable[[Floats], Floats] | None = None
    unknown: Callable[[Floats], Floats] | None = None
    settled: bool = True
    average: AveragePerson | None = None


def counted_from(fit: Fit, average: AveragePerson | None) -> Fit:
    """The same model, with contributions counted from the average person where one was released."""
    if average is None:
        return fit
    notes = () if average.known else ("the rows do not stand above the noise: counted from the middle of the domain",)
    return replace(fit, average=average, reference=average.point, notes=(*fit.notes, *notes))
