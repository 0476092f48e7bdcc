"""What all local explanations share: the average person, released beside them, and an account that can pay for noise.

Guarantee, statistic and sensitivity: `maths/surrogate/average.py`. A twentieth of the price (`SHARE`), Gaussian noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.domain import PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours
from dpexplain.errors import InputError
from dpexplain.maths.surrogate import Space
from dpexplain.maths.surrogate.average import PART, SHARE, Average
from dpexplain.methods.setting import OPEN_WITH_DELTA


def require_delta(cost: Cost, what: str = "a local explanation") -> None:
    """Refuse an account in which Gaussian noise has no price."""
    if cost.definition is Definition.PURE:
        raise InputError(
            f"{what} needs an account with a delta: a pure account cannot pay for Gaussian noise.",
            hint=OPEN_WITH_DELTA,
        )


def average_for(space: Space, output: PublicRange, neighbours: Neighbours) -> Average:
    return Average(space, output, counted=not neighbours.rows_public)


def forecast(average: Average, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of the average person at the price of the whole explanation."""
    return {PART: best(average.sensitivity(neighbours), average.size, cost * SHARE, Law.GAUSSIAN.value)}


def send(gate: Gate, average: Average, sums: NDArray[np.int64], cost: Cost) -> None:
    """Release it inside a release for `cost`."""
    bound = average.sensitivity(gate.neighbours)
    gate.noisy_sum(PART, sums, bound, cost * SHARE, mechanism=Law.GAUSSIAN.value)
