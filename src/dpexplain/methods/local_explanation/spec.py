"""The two specs of a local explanation, moments or a path of gradients; statistic, sensitivity, noise at a price."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law, Noise
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.maths.surrogate import Local
from dpexplain.maths.surrogate.average import REST, Average
from dpexplain.maths.surrogate.descent import Descent
from dpexplain.maths.surrogate.moments import Moments
from dpexplain.methods import averages
from dpexplain.models import Predictor

Spec = Moments | Descent
GAUSSIAN = Law.GAUSSIAN.value


def from_json(value: JsonObject) -> Spec:
    """The spec that a request was written with."""
    kinds: dict[str, type[Spec]] = {kind.method: kind for kind in (Moments, Descent)}
    return kinds[value["method"]].from_json(value)


def average_of(local: Local, neighbours: Neighbours) -> Average:
    return averages.average_for(local.space, local.output, neighbours)


def statistic(rows: Rows, predictor: Predictor, local: Local, average: Average) -> NDArray[np.int64]:
    """Exact sums of one batch: those of the average person, the number of rows, products of coordinates and targets."""
    predictions = predictor.predict_at(predictor.inputs(rows), {})
    coordinates = local.space.coordinates(rows.columns, rows.size)
    return np.concatenate(
        [average.sums(coordinates, predictions), [rows.size], local.gram(coordinates, predictions)], dtype=np.int64
    )


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """Of the moments, or of one rounded gradient: from the public request alone, so it cannot depend on the data."""
    if isinstance(spec, Descent):
        return Sensitivity.of_distance(neighbours, spec.slope.size, spec.slope.bound(neighbours))
    return Sensitivity.of_distance(neighbours, spec.size, spec.bound(neighbours))


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this price, of a path that of one step. Costs nothing, touches no data."""
    bound = sensitivity(spec, neighbours)
    if isinstance(spec, Moments):
        laws = {"moments": best(bound, spec.size, cost * REST, GAUSSIAN)}
    else:
        laws = {"gradient": best(bound, spec.slope.size, cost * spec.step, GAUSSIAN)}
        if spec.rows is None:
            laws["count"] = best(Sensitivity.of_counts(neighbours), 1, cost * spec.count, GAUSSIAN)
    return laws | averages.forecast(average_of(spec.local, neighbours), neighbours, cost)


def path_loss(spec: Descent, neighbours: Neighbours, cost: Cost, rows: int) -> float:
    """About how far the mean loss will end above its minimum, in squared units of the target.

    T steps of eta / sqrt(t) leave about 0.04 G / sqrt(T) of what there was to gain (a rule of thumb, chosen on Adult);
    noise leaves n sigma^2 eta(T) / 4 in the directions that have converged.
    """
    noise, n = forecast(spec, neighbours, cost)["gradient"], spec.slope.size
    sigma = noise.std / (spec.slope.unit * max(rows, 1))
    steep = math.sqrt(spec.slope.steepest**2 + n * sigma**2)
    return (0.04 * steep + n * sigma**2 / (4 * steep)) / math.sqrt(spec.iterations)
