"""What a local model is read from: the parts that were released, and what is public about one answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from dpexplain.core.canonical import JsonObject
from dpexplain.core.noise import Noise
from dpexplain.errors import VerificationError
from dpexplain.maths.coded import Coded
from dpexplain.maths.surrogate.weights import StepWeight

Numbers = tuple[float, ...]


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
