"""What a local linear model says: coefficients in coordinates, the value at the record, and how sure they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpexplain.core.noise import checked_level
from dpexplain.maths.surrogate.average import AveragePerson
from dpexplain.maths.surrogate.space import Space

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


def contributions(fit: Fit, space: Space, record: Floats) -> Floats:
    """What each feature's way from the reference to the record moves, in units of the model's output."""
    return space.by_feature((record - fit.reference) * fit.coefficients)


def halfwidths(fit: Fit, space: Space, lines: Floats, moves: NDArray[np.bool_], level: float) -> Floats:
    """How far coefficients . line may be off, for each line.

    A line begins at the reference in the features that `moves` marks for it, and the reference is noisy. Let the exact
    line be the line and a way r of noise. Released is phi'.line, and meant phi.(line + r): off by (phi' - phi).line,
    which spread, pull and unknown are for, by phi'.r, and by (phi - phi').r. The last counts most where a line is short
    and its effect unknown, as that of a rare category is: for a phi that is off by no more than R it deviates by at
    most R times one coordinate of r, and R is taken to be how far phi may be off along the worst of its coordinates.
    It is added to the unknown: |(phi' - phi).(line + r)| is at most what both come to.
    """
    sure = -float(ndtri((1 - checked_level(level)) / 2))
    known = [term for term in (fit.pull, fit.unknown) if term is not None]
    deviation, moved = np.square(fit.spread(lines)), np.zeros(len(lines))
    if fit.average is not None:
        own = np.repeat(moves, [where.stop - where.start for where in space.slices.values()], axis=1)
        units = np.eye(space.size)
        off = fit.average.spread(units) * (fit.spread(units) + sum(term(units) for term in known))
        deviation += np.square(fit.average.spread(own * fit.coefficients))
        moved = sure * (own * off).max(axis=1)
    return np.asarray(sure * np.sqrt(deviation) + sum(term(lines) for term in known) + moved)
