"""Noisy gradient descent for one local explanation: what happens inside a release (the fronts are in other files).

Guarantee    rho-zCDP, for one unit replaced or added or removed. Public: the explained record, the model, the weights,
             the declared domain, the number of steps, and the number of rows under replace-one without units. The
             record that is explained is not protected: its explanation tells about it.
Statistic    in each of T steps the gradient of the local loss at a public point, exact whole numbers rounded once
             (`maths/surrogate/descent.py`), from sums that one pass over the rows gives. Where the number of rows is private
             and no guess of it was declared, their number, for the learning rate. First, the average person's sums.
Sensitivity  `Slope.bound`: c for a row that comes or goes, c + max q for one that is replaced.
Release      a twentieth of the price for the average person; the rest for discrete Gaussian noise on every gradient.
             All steps cost the same, and the count costs one step. The path is post-processing of the gradients.
             accounting="paper" draws noise of the size that Algorithm 1 prescribes, sigma = D sqrt(16 T log(e + sqrt(T)
             epsilon / delta) log(T / delta)) / epsilon with D the bound (1/m in the paper) and epsilon that of the
             price. That is more noise than the price needs. The account is charged for the noise that is really drawn:
             D^2 / (2 sigma^2) for each step; the rest of the price, reserved at first, is given back.
References   "Model Explanations with Differential Privacy", Algorithm 1; Shamir, Zhang 2013; Bun, Steinke 2016.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Budget, Cost, Definition
from dpexplain.core.canonical import JsonObject
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Gate, QueryLoop
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.surrogate import Local
from dpexplain.maths.surrogate.average import REST, Average
from dpexplain.maths.surrogate.descent import LARGEST_RADIUS, Slope, Sums
from dpexplain.methods import averages
from dpexplain.methods.setting import OPEN_WITH_DELTA
from dpexplain.models import Predictor

MOST_ITERATIONS = 10_000
ITERATIONS = (5, 10, 20, 50, 100, 200, 500)  # to choose from, by forecast
UNKNOWN_ROWS = 10_000  # taken for the forecast where nothing is known
GAUSSIAN = Law.GAUSSIAN.value


@dataclass(frozen=True)
class Descent:
    """One path: all that fixes its steps and their noise, public and hashed into the ledger."""

    local: Local
    iterations: int
    radius: float
    accounting: str
    rows: int | None  # public, or a declared guess; None: a count is released
    step: Fraction  # the part of the price that one step costs
    count: Fraction  # the part that the count costs; 0 without one

    @cached_property
    def slope(self) -> Slope:
        return Slope(self.local, self.radius)

    def to_json(self) -> JsonObject:
        return {
            **self.local.to_json(),
            "iterations": self.iterations,
            "radius": self.radius,
            "accounting": self.accounting,
            "rows": self.rows,
            "step": str(self.step),
            "count": str(self.count),
        }


def statistic(rows: Rows, predictor: Predictor, local: Local, average: Average) -> NDArray[np.int64]:
    """The exact sums of one batch: of the average person, its number of rows, and those of gradients."""
    predictions = predictor.predict_at(predictor.inputs(rows), {})
    coordinates = local.space.coordinates(rows.columns, rows.size)
    size = np.array([rows.size], dtype=np.int64)
    return np.concatenate([average.sums(coordinates, predictions), size, local.gram(coordinates, predictions)])


def sensitivity(spec: Descent, neighbours: Neighbours) -> Sensitivity:
    """Of one rounded gradient."""
    return Sensitivity.of_distance(neighbours, spec.local.space.size, spec.slope.bound(neighbours))


def require_zcdp(budget: Budget) -> None:
    """Refuse an account in which Gaussian noise has no price."""
    if budget.definition is not Definition.ZCDP:
        raise InputError(
            "a local explanation needs an account with a delta: this one counts pure epsilon.",
            hint=OPEN_WITH_DELTA,
        )


def check_iterations(iterations: object) -> int:
    if isinstance(iterations, bool) or not isinstance(iterations, int) or not 3 <= iterations <= MOST_ITERATIONS:
        raise InputError(f"iterations must be a whole number from 3 to {MOST_ITERATIONS:,}; got {iterations!r}.")
    return iterations


def check_radius(radius: object) -> float:
    if isinstance(radius, bool) or not isinstance(radius, int | float) or not 0.01 <= radius <= LARGEST_RADIUS:
        raise InputError(f"radius must be a number from 0.01 to {LARGEST_RADIUS:g}; got {radius!r}.")
    return float(radius)


def resolve(
    local: Local,
    neighbours: Neighbours,
    budget: Budget,
    cost: Cost,
    rows: int | None,
    *,
    iterations: int | None = None,
    radius: float = 1.0,
    accounting: str = "zcdp",
) -> Descent:
    """The concrete path, its number of steps by forecast unless it is given. `rows`: a table's `rows_hint`."""
    require_zcdp(budget)
    if accounting not in ("zcdp", "paper"):
        raise InputError(f"unknown accounting {accounting!r}.", hint='use "zcdp" or "paper"')
    radius = check_radius(radius)

    def spec(steps: int) -> Descent:
        share = REST / (steps + (1 if rows is None else 0))
        step = _paper_step(steps, budget, cost, share) if accounting == "paper" else share
        return Descent(local, steps, radius, accounting, rows, step, share if rows is None else Fraction(0))

    if iterations is not None:
        return spec(check_iterations(iterations))
    return min(map(spec, ITERATIONS), key=lambda s: forecast_loss(s, neighbours, cost, rows or UNKNOWN_ROWS))


def _paper_step(steps: int, budget: Budget, cost: Cost, fair: Fraction) -> Fraction:
    """D^2 / (2 sigma^2) with the paper's sigma, as a part of the price."""
    epsilon, delta = budget.epsilon_of(cost), float(budget.delta)
    logs = math.log(math.e + math.sqrt(steps) * epsilon / delta) * math.log(steps / delta)
    share = Fraction(epsilon**2 / (32 * steps * logs)) / cost.amount
    if share > fair:
        raise InputError(
            f"at epsilon={epsilon:.4g} the noise of the paper costs more than its price.",
            hint='use accounting="zcdp"',
        )
    return Fraction(int(share * 2**64), 2**64)


def forecast(spec: Descent, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of one step, and of the count, at this price. Costs nothing, touches no data."""
    laws = {"gradient": best(sensitivity(spec, neighbours), spec.local.space.size, cost * spec.step, GAUSSIAN)}
    if spec.rows is None:
        laws["count"] = best(Sensitivity.of_counts(neighbours), 1, cost * spec.count, GAUSSIAN)
    return laws | averages.forecast(average_of(spec.local, neighbours), neighbours, cost)


def forecast_loss(spec: Descent, neighbours: Neighbours, cost: Cost, rows: int) -> float:
    """About how far the mean loss will end above its minimum, in squared units of the target.

    T steps of eta / sqrt(t) leave about 0.04 G / sqrt(T) of what there was to gain (a rule of thumb, chosen on Adult);
    noise leaves n sigma^2 eta(T) / 4 in the directions that have converged.
    """
    noise, n = forecast(spec, neighbours, cost)["gradient"], spec.local.space.size
    sigma = noise.std / (spec.slope.unit * max(rows, 1))
    steep = math.sqrt(spec.slope.steepest**2 + n * sigma**2)
    return (0.04 * steep + n * sigma**2 / (4 * steep)) / math.sqrt(spec.iterations)


def send(
    table: PrivateTable,
    gate: Gate,
    predictor: Predictor,
    spec: Descent,
    cost: Cost,
    *,
    start: NDArray[np.int64] | None = None,
    label: str = "local explanation",
    parallel: bool = True,
) -> None:
    """Everything inside the body of a release: one pass over the rows, then T noisy gradients from a public start."""
    sums, count = collect(table, gate, predictor, spec.local, cost, label=label, parallel=parallel)
    rows = size(gate, spec, count, cost)
    loop, each = gate.query_loop("gradient", gate.left), cost * spec.step
    begin = spec.slope.start() if start is None else start
    walk(loop, sums, spec, sensitivity(spec, gate.neighbours), each, spec.iterations, begin, rows)


def collect(
    table: PrivateTable, gate: Gate, predictor: Predictor, local: Local, cost: Cost, *, label: str, parallel: bool
) -> tuple[Sums, int]:
    """The exact sums of all rows, and their number. The average person of the same pass is released."""
    person, sums, count = sums_of(table, gate, predictor, local, label=label, parallel=parallel)
    averages.send(gate, average_of(local, gate.neighbours), person, cost)
    return sums, count


def sums_of(
    table: PrivateTable, gate: Gate, predictor: Predictor, local: Local, *, label: str, parallel: bool
) -> tuple[NDArray[np.int64], Sums, int]:
    """What one pass over the rows gives: of the average person, of gradients, and the number of rows."""
    n, average = local.space.size, average_of(local, gate.neighbours)
    columns = list(dict.fromkeys([*predictor.features, *local.space.features]))
    kernel = partial(statistic, predictor=predictor, local=local, average=average)
    size = average.size + 1 + n * (n + 1)
    total = table.map_sum(gate, kernel, columns, size=size, label=label, parallel=parallel)
    return total[: average.size], Sums(total[average.size + 1 :], n), int(total[average.size])


def average_of(local: Local, neighbours: Neighbours) -> Average:
    return averages.average_for(local.space, local.output, neighbours)


def size(gate: Gate, spec: Descent, count: int, cost: Cost) -> int:
    """About how many rows there are: as declared, or released now."""
    if spec.rows is not None:
        return spec.rows
    return max(1, gate.noisy_counts("count", [count], cost * spec.count, mechanism=GAUSSIAN)[0])


def walk(
    loop: QueryLoop,
    sums: Sums,
    spec: Descent,
    bound: Sensitivity,
    each: Cost,
    steps: int,
    point: NDArray[np.int64],
    rows: int,
) -> NDArray[np.int64]:
    """So many noisy gradients, each asked at the point to which the released ones have led."""
    slope = spec.slope
    scale = float(best(bound, slope.size, each, GAUSSIAN).scale)
    for number in range(1, steps + 1):
        answer = loop.ask(sums.gradient(point, slope.divisor), bound, each, mechanism=GAUSSIAN)
        point = slope.follow(point, answer, number, scale, rows)
    return point


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "sums": "weighted products of coordinates and predictions",
        "gradient": "the gradient at each point of the path",
        "count": "the number of rows, where it is private and not guessed",
        "average": "sums of coordinates and predictions",
        "path": "steps in the ball; attributions",
    }
    edges = [
        ("table", "sums"),
        ("table", "count"),
        ("sums", "gradient"),
        ("gradient", "path"),
        ("count", "path"),
        ("table", "average"),
        ("average", "path"),
    ]
    return DataFlow(stages, edges, name="Noisy gradient descent", noised=["gradient", "count", "average"])
