"""The spec of one adaptive query, its sensitivity, and what a released length of the gradient saves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.domain import PublicRange
from dpexplain.core.sensitivity import Neighbours, ScoreRange, Sensitivity
from dpexplain.maths.coded import Coded
from dpexplain.maths.surrogate import Fit, Space
from dpexplain.maths.surrogate.answer import Asked, Released
from dpexplain.maths.surrogate.descent import Descent

Integers = NDArray[np.int64]

LARGEST_SCALE = 2.0**45  # of the noise of a step


@dataclass(frozen=True)
class Adaptive(Coded):
    """One query made concrete, public and hashed into the ledger. In JSON, the path's fields stand beside its own."""

    path: Descent
    enhanced: bool
    candidates: tuple[str, ...]  # digests of the points at which the path may begin

    @property
    def space(self) -> Space:
        return self.path.space

    @property
    def output(self) -> PublicRange:
        return self.path.output

    def to_json(self) -> JsonObject:
        own = super().to_json()
        path: JsonObject = own.pop("path")
        del path["method"]
        return path | own

    @classmethod
    def from_json(cls, value: JsonObject) -> Adaptive:
        return super().from_json({**value, "path": value})

    def chosen(self, released: Released) -> int:
        """Which of the candidates the path began at."""
        return int(released.parts["choice"]["values"][0]) if len(self.candidates) > 1 else 0

    def replay(self, released: Released, start: tuple[int, ...] | None) -> tuple[Integers, float]:
        return self.path.replay(released, self._checked(released, start))

    def read(self, released: Released, asked: Asked) -> Fit:
        """The local model at the end of the path, for the record that it was released for or for one nearby."""
        return self.path.fit(released, asked, self._checked(released, asked.start))

    def _checked(self, released: Released, start: tuple[int, ...] | None) -> Integers | None:
        """Where the path began: None for the middle of the ball, or the released choice among the candidates."""
        if not self.candidates:
            return None
        if start is None or digest(list(start)) != self.candidates[self.chosen(released)]:
            raise ValueError("this path began somewhere else")
        return np.array(start, dtype=np.int64)


def sensitivity(spec: Adaptive, neighbours: Neighbours) -> tuple[ScoreRange, Sensitivity]:
    """Of the scores of the candidates, and of beta."""
    bound = spec.path.slope.bound(neighbours)
    return ScoreRange(neighbours, -bound, bound), Sensitivity.of_distance(neighbours, 1, bound)


def economy(spec: Adaptive, beta: int, scale: float, rows: int) -> tuple[int, Fraction]:
    """Algorithm 2, lines 8 to 14: how many steps, and the part of a full step's price that each of them costs.

    With sigma = max(beta / sqrt(n), sigma_min) and s = sqrt(n) sigma / c (enhanced: s = beta / c), the paper's a solves
    s = (log T)^-a, and for a > 1/2 it takes T' = s^(1 - 1/(2a)) T steps. Because s^(-1/(2a)) = sqrt(log T), that is
    T' = s sqrt(log T) T where it is below T. Noise of sigma instead of sigma_min costs (sigma_min / sigma)^2.
    """
    T, root, slope = spec.path.iterations, math.sqrt(spec.path.slope.size), spec.path.slope
    steepest = slope.steepest * slope.unit * rows
    length = min(max(float(beta), 0.0), steepest, root * LARGEST_SCALE)
    noise = max(length, root * scale)
    fraction = (length if spec.enhanced else noise) / steepest * math.sqrt(math.log(T))
    steps = T if fraction >= 1 else max(2, math.ceil(fraction * T))
    return steps, Fraction(math.ceil((root * scale / noise) ** 2 * 2**30), 2**30)
