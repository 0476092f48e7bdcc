"""The spec of marginals, its statistic, its sensitivity, and the noise at a price."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.noise import Noise
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import Partition
from dpexplain.methods import histogram


@dataclass(frozen=True)
class Spec(Coded):
    """The concrete cells, public and hashed into the ledger.

    Results of other methods that release histograms have cells in their own specs: those are read as this one.
    """

    partitions: tuple[Partition, ...]
    mechanism: str | None = None

    @property
    def size(self) -> int:
        return histogram.size_of(self.partitions)


def statistic(rows: Rows, spec: Spec) -> NDArray[np.int64]:
    """The exact counts of one batch."""
    return histogram.statistic(rows, spec.partitions)


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    return Sensitivity.of_counts(neighbours, len(spec.partitions))


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of the counts at this price. Costs nothing, touches no data."""
    return {"counts": histogram.forecast(spec.partitions, neighbours, cost, spec.mechanism)}
