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

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.maths.surrogate.average import AveragePerson
from dpexplain.maths.surrogate.ball import Quadratic
from dpexplain.maths.surrogate.fit import UNSETTLED, Fit, counted_from
from dpexplain.maths.surrogate.local import Local
from dpexplain.maths.surrogate.space import Space
from dpexplain.maths.surrogate.weights import StepWeight

Floats = NDArray[np.float64]

LABELS = ("model", "paper")


def read(request: JsonObject, _released: JsonObject, settings: JsonObject) -> Fit:
    """The local model that earlier explanations suggest.

    settings   record, anchor, notes, average (the average person of the last query), prediction; and of each earlier
               query: its point (coordinates), slope (coefficients in units of the output), value (the model's
               prediction) and deviation (of its slope, in any direction)
    """
    spec = request["spec"]
    space = Space.from_json(spec["space"])
    weight, output = StepWeight.from_json(spec["weight"]), PublicRange.from_json(spec["output"])
    local = Local(space, weight, output, space.read(settings["record"]), float(settings["anchor"]))
    points, slopes = _matrix(settings["points"], space.size), _matrix(settings["slopes"], space.size)
    values, deviations = _vector(settings["values"], len(points)), _vector(settings["deviations"], len(points))
    d = points - local.centre
    a = weight(np.sqrt(np.einsum("ij,ij->i", d, d)))
    A = (d * a[:, None]).T @ d
    if spec["labels"] == "paper":
        targets = np.einsum("ij,ij->i", slopes, points) / local.unit
        b, ridge = d.T @ (a * targets), 0.0
        lead, noise = d.T * a, deviations * np.sqrt(np.einsum("ij,ij->i", points, points))
    else:
        share = a / max(math.fsum(a), 1e-300)
        b, ridge = d.T @ (a * (values - local.passes) / local.unit) + share @ slopes / local.unit, 1.0
        lead, noise = np.eye(space.size), np.full(space.size, float(share @ deviations))
    problem = Quadratic(A, b, ridge=ridge, radius=float(spec["radius"]))

    def spread(lines: Floats) -> Floats:
        """How far the noise of the earlier explanations moves the answer."""
        moved = (problem.solve(lines.T).T @ lead) * noise
        lengths: Floats = np.sqrt(np.einsum("...i,...i->...", moved, moved))
        return lengths

    found = Fit(
        coefficients=problem.solution * local.unit,
        value=local.passes,
        spread=spread,
        reference=space.middle,
        notes=(*(str(note) for note in settings.get("notes", ())), UNSETTLED),
        settled=False,
    )
    average = settings.get("average")
    return counted_from(found, None if average is None else AveragePerson.from_json(average, space, output))


def _matrix(lines: Sequence[Sequence[float]], size: int) -> Floats:
    matrix = np.array(lines, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != size or not np.isfinite(matrix).all():
        raise ValueError("no history of ours")
    return matrix


def _vector(values: Sequence[float], size: int) -> Floats:
    vector = np.array(values, dtype=np.float64)
    if vector.shape != (size,) or not np.isfinite(vector).all():
        raise ValueError("no history of ours")
    return vector
