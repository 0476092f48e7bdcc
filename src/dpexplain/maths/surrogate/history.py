"""Explanations of new records from earlier ones alone: the non-interactive phase, free post-processing.

Loss        Algorithm 4 fits a linear model to the records that were asked about, as if they were the table:
            sum over j of a_j (phi.d_j - g_j)^2 with d_j = z_j - z, a_j = weight(|d_j|), |phi| <= r.
Labels      "paper": g_j = phi_j.z_j, the explanation of z_j applied to z_j. The loss under which phi_j was found
            approximates f(x) by phi_j.(x - z_j), which is 0 at z_j; phi_j.z_j is no value of that model, and moves when
            the origin of the coordinates does. On Adult these labels do worse than no explanation at all.
            "model" (ours): g_j = f(z_j) - anchor. The records are the callers' and the model is fixed, so this is as
            public as an anchor; it does not even need the explanations.
Prior       they come in here: ours adds |phi - mean|^2, with the mean of the earlier explanations weighted by a_j. It
            counts as much as one query, so it leads where few queries are near and fades where many are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import PublicRange
from dpexplain.maths.coded import Coded
from dpexplain.maths.surrogate.answer import Asked, Released
from dpexplain.maths.surrogate.average import AveragePerson
from dpexplain.maths.surrogate.ball import Quadratic
from dpexplain.maths.surrogate.fit import UNSETTLED, Fit, counted_from
from dpexplain.maths.surrogate.local import Local
from dpexplain.maths.surrogate.space import Space
from dpexplain.maths.surrogate.weights import StepWeight

Floats = NDArray[np.float64]

LABELS = ("model", "paper")


@dataclass(frozen=True)
class History(Coded):
    """What is the same for all answers from a history. Public."""

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

        found = Fit(
            coefficients=problem.solution * local.unit,
            value=local.passes,
            spread=spread,
            reference=self.space.middle,
            notes=(*asked.notes, UNSETTLED),
            settled=False,
        )
        average = asked.average
        return counted_from(
            found, None if average is None else AveragePerson.from_json(average, self.space, self.output)
        )


def _finite(numbers: Sequence[object], shape: tuple[int, ...]) -> Floats:
    found = np.array(numbers, dtype=np.float64)
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError("no history of ours")
    return found
