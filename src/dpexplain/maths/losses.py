"""Losses of one prediction, each with a public bound, so that a row's part in a sum of losses is bounded too.

squared    (y - f)^2; the Brier score for a class probability
absolute   |y - f|
log        -log of the probability given to what happened, which is taken to be at least a public floor
accuracy   1 where the likelier of two classes is the wrong one, 0 elsewhere
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.errors import InputError
from dpexplain.maths.coded import Coded

Floats = NDArray[np.float64]

OF_PROBABILITIES = ("log", "accuracy")
LEVELS = 2**18  # fine enough that rounding never shows, small enough that sums over groups stay exact in a float


@dataclass(frozen=True)
class Loss(Coded):
    """A loss by name. Predictions are clipped to the model's output range first, and so are targets; but what happened
    or did not (`binary`, and always for the losses of a probability) is 1 or 0, whatever the model can say.
    """

    name: str
    floor: float | None  # the least probability that the log loss takes any class to have
    binary: bool
    range: PublicRange  # from no loss to the largest possible one
    output: PublicRange | None = None  # of the model; not written down, because a result needs the range alone

    @classmethod
    def of(cls, name: str, output: PublicRange, *, floor: float = 0.01, binary: bool = False) -> Loss:
        """The loss of this name for a model with this output range."""
        if name in OF_PROBABILITIES and not 0 <= output.low < output.high <= 1:
            raise InputError(
                f'the loss "{name}" needs a model of a probability, with an output range inside [0, 1].',
                hint='use loss="squared" or loss="absolute" for other outputs',
            )
        low, high = (0.0, 1.0) if binary else (output.low, output.high)
        width = max(high - output.low, output.high - low)
        bounds = {"squared": width**2, "absolute": width, "log": -math.log(floor), "accuracy": 1.0}
        return cls(name, floor if name == "log" else None, binary, PublicRange(0.0, bounds[name], LEVELS), output)

    def __call__(self, target: Floats, prediction: Floats) -> Floats:
        """The loss of each row; NaN where the model failed on it."""
        assert self.output is not None
        low, high = self.output.low, self.output.high
        happened = self.binary or self.name in OF_PROBABILITIES
        y, f = np.clip(target, *((0.0, 1.0) if happened else (low, high))), np.clip(prediction, low, high)
        if self.name == "squared":
            return (y - f) ** 2
        if self.name == "absolute":
            return np.abs(y - f)
        if self.floor is not None:
            p = np.clip(f, self.floor, 1 - self.floor)
            return -(y * np.log(p) + (1 - y) * np.log1p(-p))
        wrong = ((f >= 0.5) != (y >= 0.5)).astype(np.float64)
        return np.where(np.isnan(f), np.nan, wrong)

    def to_json(self) -> JsonObject:
        return {name: value for name, value in super().to_json().items() if name != "output"}
