"""Losses of one prediction, each with a public bound, so that a row's part in a sum of losses is bounded too.

squared    (y - f)^2; the Brier score for a class probability
absolute   |y - f|
log        -log of the probability given to what happened, which is taken to be at least a public floor
accuracy   1 where the likelier of two classes is the wrong one, 0 elsewhere
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.errors import InputError

Floats = NDArray[np.float64]

NAMES = ("squared", "absolute", "log", "accuracy")
LEVELS = 2**18  # fine enough that rounding never shows, small enough that sums over groups stay exact in a float


@dataclass(frozen=True)
class Loss:
    """A loss by name. Predictions are clipped to the model's output range first, and so are targets; but what happened
    or did not (`binary`, and always for the losses of a probability) is 1 or 0, whatever the model can say.
    """

    name: str
    output: PublicRange
    floor: float = 0.01  # the least probability that the log loss takes any class to have
    binary: bool = False

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise InputError(f"unknown loss {self.name!r}.", hint="use " + ", ".join(f'"{name}"' for name in NAMES))
        if self.name in ("log", "accuracy") and not 0 <= self.output.low < self.output.high <= 1:
            raise InputError(
                f'the loss "{self.name}" needs a model of a probability, with an output range inside [0, 1].',
                hint='use loss="squared" or loss="absolute" for other outputs',
            )
        number = isinstance(self.floor, int | float) and not isinstance(self.floor, bool)
        if not number or not 1e-9 <= self.floor < 0.5:
            raise InputError(f"floor is a probability of at least 1e-09 and below one half; got {self.floor!r}.")

    @cached_property
    def range(self) -> PublicRange:
        """From no loss to the largest possible one."""
        (low, high), output = self._targets, self.output
        width = max(high - output.low, output.high - low)
        bounds = {"squared": width**2, "absolute": width, "log": -math.log(self.floor), "accuracy": 1.0}
        return PublicRange(0.0, bounds[self.name], LEVELS)

    @property
    def _targets(self) -> tuple[float, float]:
        """What targets are clipped to."""
        if self.binary or self.name in ("log", "accuracy"):
            return 0.0, 1.0
        return self.output.low, self.output.high

    def __call__(self, target: Floats, prediction: Floats) -> Floats:
        """The loss of each row; NaN where the model failed on it."""
        y, f = np.clip(target, *self._targets), np.clip(prediction, self.output.low, self.output.high)
        if self.name == "squared":
            return (y - f) ** 2
        if self.name == "absolute":
            return np.abs(y - f)
        if self.name == "log":
            p = np.clip(f, self.floor, 1 - self.floor)
            return -(y * np.log(p) + (1 - y) * np.log1p(-p))
        wrong = ((f >= 0.5) != (y >= 0.5)).astype(np.float64)
        return np.where(np.isnan(f), np.nan, wrong)

    def to_json(self) -> JsonObject:
        floor = self.floor if self.name == "log" else None
        return {"name": self.name, "floor": floor, "binary": self.binary, "range": self.range.to_json()}
