"""What is released for transparency reports: counts and outcomes in public cells, and how far a unit moves them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.release import split
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import Partition
from dpexplain.methods import histogram as histograms
from dpexplain.models.outcomes import Asker, Outcome


@dataclass(frozen=True)
class Spec(Coded):
    """The request made concrete: public and hashed into the ledger. It knows nothing of the persons."""

    partitions: tuple[Partition, ...]
    outcome: Outcome
    share: Fraction  # of the price that goes to the outcomes
    marginals: str | None  # the payload hash of the marginals that were released before
    mechanism: str | None


def statistic(rows: Rows, asker: Asker, spec: Spec) -> NDArray[np.int64]:
    """Exact integers of one batch: the counts of all cells, then the centred outcomes of all cells."""
    centred = asker.ask(asker.predictor.inputs(rows), {}) - spec.outcome.range.levels // 2
    counts, sums = [], []
    for p in spec.partitions:
        place, total = p.place(rows[p.feature]), np.zeros(p.size, dtype=np.int64)
        np.add.at(total, place, centred)
        counts.append(np.bincount(place, minlength=p.size))
        sums.append(total)
    return np.concatenate([*counts, *sums]).astype(np.int64)


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """How far a unit moves the centred outcomes: a row adds one number of at most K/2 to one cell of each feature."""
    p, half = len(spec.partitions), spec.outcome.range.levels // 2
    return Sensitivity.of_norms(neighbours, l1=p * half, l2_squared=p * half * half, linf=half)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this cost. Costs nothing, touches no data."""
    outcomes, counts = split(cost, spec.share)
    size = histograms.size_of(spec.partitions)
    parts = {"outcomes": best(sensitivity(spec, neighbours), size, outcomes, spec.mechanism)}
    if spec.marginals is None:
        parts["counts"] = histograms.forecast(spec.partitions, neighbours, counts, spec.mechanism)
    return parts
