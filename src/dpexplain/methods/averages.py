"""What all local explanations share: one pass over the rows, from which the average person is released first.

Guarantee, statistic and sensitivity of the average person: `maths/surrogate/fit.py`. A twentieth of the cost
(`SHARE`), Gaussian noise, which only accounts with a delta can pay for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.domain import PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError
from dpexplain.maths.surrogate import Space
from dpexplain.maths.surrogate.fit import PART, SHARE, Average
from dpexplain.methods.setting import OPEN_WITH_DELTA
from dpexplain.models import Predictor

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Sums = Callable[[Floats, Floats], Integers]  # of the coordinates and predictions of a batch

GAUSSIAN = Law.GAUSSIAN.value


def require_delta(cost: Cost, what: str = "a local explanation") -> None:
    """Refuse an account in which Gaussian noise has no cost."""
    if cost.definition is Definition.PURE:
        raise InputError(
            f"{what} needs an account with a delta: a pure account cannot pay for Gaussian noise.",
            hint=OPEN_WITH_DELTA,
        )


def average_for(space: Space, output: PublicRange, neighbours: Neighbours) -> Average:
    return Average(space, output, counted=not neighbours.rows_public)


def statistic(rows: Rows, predictor: Predictor, average: Average, more: Sums) -> Integers:
    """Exact sums of one batch: those of the average person, the number of rows, and what a method adds up besides."""
    predictions = predictor.predict_at(predictor.inputs(rows), {})
    coordinates = average.space.coordinates(rows.columns, rows.size)
    first, rest = (sums(coordinates, predictions) for sums in (average.sums, more))
    return np.concatenate([first, [rows.size], rest], dtype=np.int64)


def forecast(average: Average, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of the average person at the cost of the whole explanation."""
    return {PART: best(average.sensitivity(neighbours), average.size, cost * SHARE, GAUSSIAN)}


def collect(
    table: PrivateTable,
    gate: Gate,
    predictor: Predictor,
    average: Average,
    more: Sums,
    size: int,
    cost: Cost,
    *,
    label: str,
) -> tuple[Integers, int]:
    """Inside a release for `cost`: the `size` exact sums of `more` and the number of rows, in one pass. The average
    person of the same pass is released.
    """
    columns = list(dict.fromkeys([*predictor.features, *average.space.features]))
    kernel = partial(statistic, predictor=predictor, average=average, more=more)
    numbers, parallel = average.size + 1 + size, predictor.thread_safe
    total = table.sum_rows(gate, kernel, columns, size=numbers, label=label, parallel=parallel)
    bound = average.sensitivity(gate.neighbours)
    gate.noisy_sum(PART, total[: average.size], bound, cost * SHARE, mechanism=GAUSSIAN)
    return total[average.size + 1 :], int(total[average.size])
