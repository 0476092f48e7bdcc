"""The average person of a table: mean coordinates and the mean prediction, which local explanations count from.

Statistic   of a row x with the prediction f: levels (x - middle) in the coordinates of a `Space`, levels (f - middle) /
            width, and levels / 2 for the count where the number of rows is private. All cut to whole numbers toward
            zero; a row on which the model fails has f in the middle.
Bound       add-remove: a number adds at most 1/4 to the squared length (in units of levels^2), a category with c values
            1/2 (1 - 1/c), the prediction 1/4 and the count 1/4. Cutting toward zero makes nothing longer.
            replace-one: a number, a category and the prediction each move by at most 1 (two coordinates of a category
            by at most sqrt(1/2) each, also when they are cut: one end of each is above zero and the other below), and
            the count not at all: the number of features and one more.
            k rows of a unit: k times as much. Rows that leave and come in pairs move as far as a replaced one, one
            without a partner no further: 1/2 <= 1 for each feature, 1/4 + 1/4 <= 1 for prediction and count.
Noise       of the mean r of (x - middle) = sum / (levels n): a released number has the standard deviation s, so a line
            l.r has that of s / (levels n) sqrt(|l|^2 + 4 (l.r)^2), without the last term where n is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, PublicRange
from dpexplain.core.sensitivity import Neighbours, Relation, Sensitivity
from dpexplain.maths.surrogate.answer import Released
from dpexplain.maths.surrogate.space import ONE, Space

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PART, SHARE = "average", Fraction(1, 20)  # of the price of a local explanation or a sketch
REST = 1 - SHARE
LEVELS = 2**16
SURE = 5.0  # standard deviations that a released number of rows must have for means to be formed


@dataclass(frozen=True)
class Average:
    """What is summed up about the average person. Public."""

    space: Space
    output: PublicRange
    counted: bool  # whether the number of rows is private, and so released too

    @property
    def size(self) -> int:
        return self.space.size + 1 + self.counted

    def sums(self, coordinates: Floats, predictions: Floats) -> Integers:
        """Exact integer sums of one batch."""
        scaled = np.clip((predictions - self.output.middle) / self.output.width, -0.5, 0.5)
        cut = np.trunc(LEVELS * (coordinates - self.space.middle)).astype(np.int64).sum(axis=0)
        value = np.trunc(LEVELS * np.nan_to_num(scaled, nan=0.0)).astype(np.int64).sum()
        return np.array([*cut, value, *[len(predictions) * (LEVELS // 2)] * self.counted], dtype=np.int64)

    def sensitivity(self, neighbours: Neighbours) -> Sensitivity:
        """From the public request alone. Proof: docstring of this file."""
        features = [self.space.domain[name] for name in self.space.features]
        square = len(features) + 1.0
        if neighbours.relation is Relation.ADD_REMOVE:
            own = [(1 - 1 / len(c.categories)) / 2 if isinstance(c, Categorical) else 0.25 for c in features]
            square = sum(own) + 0.25 + 0.25 * self.counted
        one = math.ceil(LEVELS * math.sqrt(square) * (1 + 1e-12))
        return Sensitivity.of_distance(neighbours, self.size, neighbours.rows * one)

    def read(self, values: Sequence[int], std: float, rows: int | None) -> AveragePerson:
        """The means that follow from released sums whose noise has this standard deviation."""
        if len(values) != self.size or self.counted != (rows is None):
            raise ValueError("no average of these features")
        numbers, middle = np.array(values, dtype=np.float64), self.space.middle
        count = float(numbers[-1]) / (LEVELS / 2) if rows is None else float(rows)
        if count < (SURE * std / (LEVELS / 2) if self.counted else 1):
            return AveragePerson(middle, self.output.middle, float("inf"), middle, self.output.width, self.counted)
        mean = numbers[: self.space.size] / (LEVELS * count)
        point = np.clip(middle + mean, 0, 1)
        for name, where in self.space.slices.items():
            if isinstance(self.space.domain[name], Categorical):  # shares of the categories
                shares = np.maximum(point[where], 0)
                point[where] = shares * (ONE / shares.sum()) if shares.sum() > 0 else middle[where]
        value = self.output.middle + self.output.width * float(
            np.clip(numbers[self.space.size] / (LEVELS * count), -0.5, 0.5)
        )
        return AveragePerson(point, value, std / (LEVELS * count), middle, self.output.width, self.counted)


@dataclass(frozen=True)
class AveragePerson:
    """Released means: coordinates, the prediction, and how exactly they are known."""

    point: Floats
    prediction: float
    noise: float  # the standard deviation of each; infinite where the rows do not stand above the noise
    middle: Floats
    width: float  # of the output
    counted: bool

    @property
    def known(self) -> bool:
        return math.isfinite(self.noise)

    def spread(self, lines: Floats) -> Floats:
        """The standard deviation of line . point for each line, at most half of its length where nothing is known."""
        sizes: Floats = np.linalg.norm(lines, axis=-1)
        if not self.known:
            return sizes / 2
        along = 2 * (lines @ (self.point - self.middle)) if self.counted else np.zeros(len(lines))
        return np.asarray(np.minimum(self.noise * np.hypot(sizes, along), sizes / 2))

    @property
    def prediction_spread(self) -> float:
        """The standard deviation of the mean prediction: its way from the middle is at most half of the width."""
        return self.width * min(self.noise * (math.sqrt(2) if self.counted else 1), 0.5)

    def to_json(self) -> JsonObject:
        return {
            "point": self.point.tolist(),
            "prediction": self.prediction,
            "noise": self.noise if self.known else None,
            "counted": self.counted,
        }

    @classmethod
    def from_json(cls, value: JsonObject, space: Space, output: PublicRange) -> AveragePerson:
        point, noise = np.array(value["point"], dtype=np.float64), value["noise"]
        prediction, noise = float(value["prediction"]), math.inf if noise is None else float(noise)
        if point.shape != (space.size,) or not ((point >= 0) & (point <= 1)).all() or not noise > 0:
            raise ValueError("no average person of ours")
        if not output.low <= prediction <= output.high:
            raise ValueError("no average person of ours")
        return cls(point, prediction, noise, space.middle, output.width, bool(value["counted"]))


def average_of(released: Released, space: Space, output: PublicRange) -> AveragePerson | None:
    """The average person of a release; None in files from before it was released."""
    if PART not in released.parts:
        return None
    average = Average(space, output, released.rows is None)
    values, noise = released.part(PART, average.size)
    return average.read(values, noise.std, released.rows)
