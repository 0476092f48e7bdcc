"""The specs of one adaptive query and of answers from earlier ones; sensitivity, and what a short gradient saves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.domain import PublicRange
from dpexplain.core.sensitivity import Neighbours, ScoreRange, Sensitivity
from dpexplain.maths.coded import Coded
from dpexplain.maths.surrogate import Fit, Local, Quadratic, Space, StepWeight
from dpexplain.maths.surrogate.descent import Descent
from dpexplain.maths.surrogate.fit import UNSETTLED, Asked, AveragePerson, Released, counted_from

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST_SCALE = 2.0**45  # of the noise of a step
LABELS = ("model", "paper")


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
    """How far one unit moves the scores of the candidates, and beta."""
    bound = spec.path.bound(neighbours)
    return ScoreRange(neighbours, -bound, bound), Sensitivity.of_distance(neighbours, 1, bound)


def economy(spec: Adaptive, beta: int, scale: float, rows: int) -> tuple[int, Fraction]:
    """Algorithm 2, lines 8 to 14: how many steps, and the part of a full step's cost that each of them costs.

    With sigma = max(beta / sqrt(n), sigma_min) and s = sqrt(n) sigma / c (enhanced: s = beta / c), the paper's a solves
    s = (log T)^-a, and for a > 1/2 it takes T' = s^(1 - 1/(2a)) T steps. Because s^(-1/(2a)) = sqrt(log T), that is
    T' = s sqrt(log T) T where it is below T. Noise of sigma instead of sigma_min costs (sigma_min / sigma)^2.
    """
    T, root = spec.path.iterations, math.sqrt(spec.path.size)
    steepest = spec.path.steepest * spec.path.unit * rows
    length = min(max(float(beta), 0.0), steepest, root * LARGEST_SCALE)
    noise = max(length, root * scale)
    fraction = (length if spec.enhanced else noise) / steepest * math.sqrt(math.log(T))
    steps = T if fraction >= 1 else max(2, math.ceil(fraction * T))
    return steps, Fraction(math.ceil((root * scale / noise) ** 2 * 2**30), 2**30)


@dataclass(frozen=True)
class History(Coded):
    """What is the same for all answers from earlier explanations alone (Algorithm 4). Public.

    A linear model is fitted to the records that were asked about, as if they were the table: sum over j of
    a_j (phi.d_j - g_j)^2 with d_j = z_j - z, a_j = weight(|d_j|), |phi| <= r. "paper": g_j = phi_j.z_j. "model", ours:
    g_j = f(z_j) - anchor, and |phi - mean|^2 is added, with the mean of the earlier explanations weighted by a_j.
    docs/methods/adaptive-explanations.md says why.
    """

    space: Space
    weight: StepWeight
    output: PublicRange
    radius: float
    labels: str

    def read(self, _released: Released, asked: Asked) -> Fit:
        """The local model that earlier explanations suggest: their points, slopes, values and deviations."""
        if asked.anchor is None or not len(asked.points) == len(asked.slopes) > 0:
            raise ValueError("no history of ours")
        local = Local(self.space, self.weight, self.output, self.space.read(asked.record), asked.anchor)
        shape = len(asked.points), self.space.size
        points, slopes = (_finite(lines, shape) for lines in (asked.points, asked.slopes))
        values, deviations = (_finite(line, (len(points),)) for line in (asked.values, asked.deviations))
        d = points - local.centre
        a = self.weight(np.sqrt(np.einsum("ij,ij->i", d, d)))
        A = (d * a[:, None]).T @ d
        if self.labels == "paper":
            targets = np.einsum("ij,ij->i", slopes, points) / local.unit
            b, ridge = d.T @ (a * targets), 0.0
            lead, noise = d.T * a, deviations * np.sqrt(np.einsum("ij,ij->i", points, points))
        else:
            share = a / max(math.fsum(a), 1e-300)
            b, ridge = d.T @ (a * (values - local.passes) / local.unit) + share @ slopes / local.unit, 1.0
            lead, noise = np.eye(self.space.size), np.full(self.space.size, float(share @ deviations))
        problem = Quadratic(A, b, ridge=ridge, radius=self.radius)

        def spread(lines: Floats) -> Floats:
            """How far the noise of the earlier explanations moves the answer."""
            return np.asarray(np.linalg.norm((problem.solve(lines.T).T @ lead) * noise, axis=-1))

        fit = Fit(
            coefficients=problem.solution * local.unit,
            value=local.passes,
            spread=spread,
            reference=self.space.middle,
            notes=(*asked.notes, UNSETTLED),
            settled=False,
        )
        average = asked.average
        return counted_from(fit, None if average is None else AveragePerson.from_json(average, self.space, self.output))


def _finite(numbers: Sequence[object], shape: tuple[int, ...]) -> Floats:
    values = np.array(numbers, dtype=np.float64)
    if values.shape != shape or not np.isfinite(values).all():
        raise ValueError("no history of ours")
    return values
