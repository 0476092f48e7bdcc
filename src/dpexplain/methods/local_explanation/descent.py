"""Noisy gradient descent for one local explanation: the path by forecast, and its steps inside a release.

Guarantee    that of the release: see `release.py` and `adaptive/release.py`. The number of steps is public.
Statistic    in each of T steps the gradient of the local loss at a public point, exact whole numbers rounded once
             (`maths/surrogate/descent.py`), from sums that one pass over the rows gives. Where the number of rows is
             private and no guess of it was declared, their number, for the learning rate.
Sensitivity  `Descent.bound`: c for a row that comes or goes, c + max q for one that is replaced.
Release      discrete Gaussian noise on every gradient. All steps cost the same, and the count costs one step. The path
             is post-processing of the gradients.
             accounting="paper" draws noise of the size that Algorithm 1 prescribes, sigma = D sqrt(16 T log(e + sqrt(T)
             epsilon / delta) log(T / delta)) / epsilon with D the bound (1/m in the paper) and epsilon that of the
             cost. That is more noise than the cost needs. The account is charged for the noise that is really drawn:
             D^2 / (2 sigma^2) for each step; the rest of the cost, reserved at first, is given back.
References   "Model Explanations with Differential Privacy", Algorithm 1; Shamir, Zhang 2013; Bun, Steinke 2016.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Budget, Cost
from dpexplain.core.mechanisms import best
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.surrogate import Local
from dpexplain.maths.surrogate.descent import Descent, Sums
from dpexplain.maths.surrogate.fit import REST, SHARE
from dpexplain.methods import averages
from dpexplain.methods.averages import GAUSSIAN
from dpexplain.methods.local_explanation.spec import path_loss, sensitivity
from dpexplain.models import Predictor

Integers = NDArray[np.int64]

ITERATIONS = (5, 10, 20, 50, 100, 200, 500)  # to choose from, by forecast
UNKNOWN_ROWS = 10_000  # taken for the forecast where nothing is known


def path_of(
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

    def path(steps: int) -> Descent:
        share = REST / (steps + (1 if rows is None else 0))
        step = paper_step(steps, budget, cost, share) if accounting == "paper" else share
        return Descent(local, steps, radius, accounting, rows, step, share if rows is None else Fraction(0), SHARE)

    if iterations is not None:
        return path(iterations)
    return min(map(path, ITERATIONS), key=lambda spec: path_loss(spec, neighbours, cost, rows or UNKNOWN_ROWS))


def paper_step(steps: int, budget: Budget, cost: Cost, fair: Fraction) -> Fraction:
    """D^2 / (2 sigma^2) with the paper's sigma, as a part of the cost."""
    epsilon, delta = budget.epsilon_of(cost), float(budget.delta)
    logs = math.log(math.e + math.sqrt(steps) * epsilon / delta) * math.log(steps / delta)
    share = Fraction(epsilon**2 / (32 * steps * logs)) / cost.amount
    if share > fair:
        raise InputError(
            f"at epsilon={epsilon:.4g} the noise of the paper costs more than that.",
            hint='use accounting="zcdp"',
        )
    return Fraction(int(share * 2**64), 2**64)


def send(
    table: PrivateTable,
    gate: Gate,
    predictor: Predictor,
    spec: Descent,
    cost: Cost,
    *,
    start: Integers | None = None,
    label: str = "local explanation",
) -> None:
    """Everything inside the body of a release: one pass over the rows, then T noisy gradients from a public start."""
    gram, count = collect(table, gate, predictor, spec.local, cost, label=label)
    begin, rows = spec.start() if start is None else start, size(gate, spec, count, cost)
    walk(gate, Sums(gram, spec.size), spec, cost * spec.step, spec.iterations, begin, rows)


def collect(
    table: PrivateTable, gate: Gate, predictor: Predictor, local: Local, cost: Cost, *, label: str
) -> tuple[Integers, int]:
    """The sums of `Local.gram`, exact, and the number of rows; the average person is released."""
    average, size = averages.average_for(local.space, local.output, gate.neighbours), local.size * (local.size + 1)
    return averages.collect(table, gate, predictor, average, local.gram, size, cost, label=label)


def size(gate: Gate, spec: Descent, count: int, cost: Cost) -> int:
    """About how many rows there are: as declared, or released now."""
    if spec.rows is not None:
        return spec.rows
    return max(1, gate.noisy_counts("count", [count], cost * spec.count, mechanism=GAUSSIAN)[0])


def walk(gate: Gate, sums: Sums, spec: Descent, each: Cost, steps: int, point: Integers, rows: int) -> Integers:
    """So many noisy gradients, each asked at the point to which the released ones have led."""
    loop, bound = gate.query_loop("gradient", gate.left), sensitivity(spec, gate.neighbours)
    scale = float(best(bound, spec.size, each, GAUSSIAN).scale)
    for number in range(1, steps + 1):
        answer = loop.ask(sums.gradient(point, spec.divisor), bound, each, mechanism=GAUSSIAN)
        point = spec.follow(point, answer, number, scale, rows)
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
    edges = [("table", "sums"), ("table", "count"), ("sums", "gradient"), ("gradient", "path"), ("count", "path")]
    edges += [("table", "average"), ("average", "path")]
    return DataFlow(stages, edges, name="Noisy gradient descent", noised=["gradient", "count", "average"])
