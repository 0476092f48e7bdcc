"""From a release to a local linear model: what was released and asked, the average person, coefficients and intervals.

The average person of a table has its mean coordinates and its mean prediction; contributions are counted from there.

Statistic   of a row x with the prediction f: levels (x - middle) in the coordinates of a `Space`, levels (f - middle) /
            width, and levels / 2 for the count where the number of rows is private. All cut to whole numbers toward
            zero; a row on which the model fails has f in the middle.
Bound       squared, in units of levels^2. add-remove: 1/4 for a number, 1/2 (1 - 1/c) for a category with c values, 1/4
            for the prediction and 1/4 for the count. replace-one: the number of features and one more. k rows of a
            unit: k times as far. docs/methods/local-explanations.md has the proof.
Noise       of the mean r of (x - middle) = sum / (levels n): a released number has the standard deviation s, so a line
            l.r has that of s / (levels n) sqrt(|l|^2 + 4 (l.r)^2), without the last term where n is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Noise, checked_level
from dpexplain.core.sensitivity import Neighbours, Relation, Sensitivity
from dpexplain.errors import VerificationError
from dpexplain.maths.coded import Coded
from dpexplain.maths.surrogate.local import StepWeight
from dpexplain.maths.surrogate.space import ONE, Space

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Numbers = tuple[float, ...]

PART, SHARE = "average", Fraction(1, 20)  # of the price of a local explanation or a sketch
REST = 1 - SHARE
LEVELS = 2**16
SURE = 5.0  # standard deviations that a released number of rows must have for means to be formed
UNSETTLED = "intervals hold the noise of the steps, not how far they end from the best line, so no sign is sure"


@dataclass(frozen=True)
class Released:
    """The parts of one release, and the number of rows where it is public."""

    parts: JsonObject
    rows: int | None = None

    def part(self, name: str, size: int) -> tuple[list[int], Noise]:
        """The released integers of one part, which must be so many, and the law of their noise."""
        values, noise = self.parts[name]["values"], Noise.from_json(self.parts[name]["noise"])
        if not len(values) == noise.size == size:
            raise ValueError(f"a {name} of another size")
        return values, noise


@dataclass(frozen=True)
class Asked(Coded):
    """One question and what else is public about its answer. In a file, only what is set."""

    record: Mapping[str, Any]
    prediction: float | None = None  # the model's own, where it is known
    notes: tuple[str, ...] = ()
    start: tuple[int, ...] | None = None  # where an adaptive path began, in whole numbers of 1 / FINE
    value: float | None = None  # of the local model at the record, where it is not the anchor of the request
    # Answers from a sketch or a history
    anchor: float | None = None  # the value at the record; fitted where a sketch is asked without one
    weight: StepWeight | None = None
    # Answers from a history: the average person of the last query, and about each of the others its coordinates,
    # coefficients in units of the output, the model's prediction and the deviation of the coefficients
    average: JsonObject | None = None
    points: tuple[Numbers, ...] = ()
    slopes: tuple[Numbers, ...] = ()
    values: Numbers = ()
    deviations: Numbers = ()

    def to_json(self) -> JsonObject:
        return {name: value for name, value in super().to_json().items() if value is not None and value != []}

    @classmethod
    def from_json(cls, value: JsonObject) -> Asked:
        if unknown := set(value) - {field.name for field in fields(cls)}:
            raise ValueError(f"no settings of ours: {unknown}")
        return super().from_json(value)

    def require(self, record: Mapping[str, Any]) -> None:
        """Refuse an answer about any other record than the one that was paid for."""
        if self != Asked(record, self.prediction):
            raise VerificationError("this attribution was released for another record.")


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
        """From the public request alone. Proof: docs/methods/local-explanations.md."""
        square = len(self.space.features) + 1.0
        if neighbours.relation is Relation.ADD_REMOVE:
            own = [(1 - 1 / count) / 2 if count else 0.25 for count in self.space.counts.values()]
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
            return AveragePerson(middle, self.output.middle, math.inf, self)
        *means, mean = numbers[: self.space.size + 1] / (LEVELS * count)
        point = np.clip(middle + means, 0, 1)
        for name, where in self.space.slices.items():
            if self.space.counts[name]:  # shares of the categories
                shares = np.maximum(point[where], 0)
                point[where] = shares * (ONE / shares.sum()) if shares.sum() > 0 else middle[where]
        value = self.output.middle + self.output.width * float(np.clip(mean, -0.5, 0.5))
        return AveragePerson(point, value, std / (LEVELS * count), self)


@dataclass(frozen=True)
class AveragePerson:
    """Released means: coordinates, the prediction, and how exactly they are known."""

    point: Floats
    prediction: float
    noise: float  # the standard deviation of each; infinite where the rows do not stand above the noise
    of: Average

    @property
    def known(self) -> bool:
        return math.isfinite(self.noise)

    def spread(self, lines: Floats) -> Floats:
        """The standard deviation of line . point for each line, at most half of its length where nothing is known."""
        sizes: Floats = np.linalg.norm(lines, axis=-1)
        if not self.known:
            return sizes / 2
        along = 2 * (lines @ (self.point - self.of.space.middle)) * self.of.counted
        return np.asarray(np.minimum(self.noise * np.hypot(sizes, along), sizes / 2))

    @property
    def prediction_spread(self) -> float:
        """The standard deviation of the mean prediction: its way from the middle is at most half of the width."""
        return self.of.output.width * min(self.noise * (math.sqrt(2) if self.of.counted else 1), 0.5)

    def to_json(self) -> JsonObject:
        return {
            "point": self.point.tolist(),
            "prediction": self.prediction,
            "noise": self.noise if self.known else None,
            "counted": self.of.counted,
        }

    @classmethod
    def from_json(cls, value: JsonObject, space: Space, output: PublicRange) -> AveragePerson:
        point, noise = np.array(value["point"], dtype=np.float64), value["noise"]
        prediction, noise = float(value["prediction"]), math.inf if noise is None else float(noise)
        inside = ((point >= 0) & (point <= 1)).all() and output.low <= prediction <= output.high
        if point.shape != (space.size,) or not inside or not noise > 0:
            raise ValueError("no average person of ours")
        return cls(point, prediction, noise, Average(space, output, bool(value["counted"])))


def average_of(released: Released, space: Space, output: PublicRange) -> AveragePerson | None:
    """The average person of a release; None in files from before it was released."""
    if PART not in released.parts:
        return None
    average = Average(space, output, released.rows is None)
    values, noise = released.part(PART, average.size)
    return average.read(values, noise.std, released.rows)


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

    @cached_property
    def off(self) -> Floats:
        """For each coordinate, what its noisy reference may come to; zero without one. See `halfwidths`."""
        units = np.eye(len(self.coefficients))
        if self.average is None:
            return np.zeros(len(units))
        return np.asarray(self.average.spread(units) * (self.spread(units) + self.unsettled(units)))

    def unsettled(self, lines: Floats) -> Floats:
        """How far coefficients . line may be off for other reasons than noise."""
        return np.asarray(sum((term(lines) for term in (self.pull, self.unknown) if term), np.zeros(len(lines))))


def counted_from(fit: Fit, average: AveragePerson | None) -> Fit:
    """This model, with contributions counted from the average person where one was released."""
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
    deviation, moved = np.square(fit.spread(lines)), np.zeros(len(lines))
    if fit.average is not None:
        own = np.repeat(moves, [where.stop - where.start for where in space.slices.values()], axis=1)
        deviation += np.square(fit.average.spread(own * fit.coefficients))
        moved = sure * (own * fit.off).max(axis=1)
    return np.asarray(sure * np.sqrt(deviation) + fit.unsettled(lines) + moved)
