"""The two specs of a local explanation, moments or a path of gradients: sensitivity, and the noise at a cost."""

from __future__ import annotations

import math

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.maths.surrogate.descent import Descent
from dpexplain.maths.surrogate.fit import REST
from dpexplain.maths.surrogate.moments import Moments
from dpexplain.methods import averages
from dpexplain.methods.averages import GAUSSIAN

Spec = Moments | Descent


def from_json(value: JsonObject) -> Spec:
    """The spec that a request was written with."""
    kinds: dict[str, type[Spec]] = {kind.method: kind for kind in (Moments, Descent)}
    return kinds[value["method"]].from_json(value)


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """How far one unit moves the moments, or one rounded gradient: from the public request alone."""
    return Sensitivity.of_distance(neighbours, spec.size, spec.bound(neighbours))


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this cost, of a path that of one step. Costs nothing, touches no data."""
    share = REST if isinstance(spec, Moments) else spec.step
    laws = {spec.method: best(sensitivity(spec, neighbours), spec.size, cost * share, GAUSSIAN)}
    if isinstance(spec, Descent) and spec.rows is None:
        laws["count"] = best(Sensitivity.of_counts(neighbours), 1, cost * spec.count, GAUSSIAN)
    average = averages.average_for(spec.space, spec.output, neighbours)
    return laws | averages.forecast(average, neighbours, cost)


def path_loss(spec: Descent, neighbours: Neighbours, cost: Cost, rows: int) -> float:
    """About how far the mean loss will end above its minimum, in squared units of the target.

    T steps of eta / sqrt(t) leave about 0.04 G / sqrt(T) of what there was to gain (a rule of thumb, chosen on Adult);
    noise leaves n sigma^2 eta(T) / 4 in the directions that have converged.
    """
    noise, n = forecast(spec, neighbours, cost)["gradient"], spec.size
    sigma = noise.std / (spec.unit * max(rows, 1))
    steep = math.sqrt(spec.steepest**2 + n * sigma**2)
    return (0.04 * steep + n * sigma**2 / (4 * steep)) / math.sqrt(spec.iterations)
