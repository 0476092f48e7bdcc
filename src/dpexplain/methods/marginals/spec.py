"""The spec of marginals. Its statistic and its sensitivity are those of `methods/histogram.py`."""

from __future__ import annotations

from dataclasses import dataclass

from dpexplain.core.budget import Cost
from dpexplain.core.noise import Noise
from dpexplain.core.sensitivity import Neighbours
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


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of the counts at this cost. Costs nothing, touches no data."""
    return {"counts": histogram.forecast(spec.partitions, neighbours, cost, spec.mechanism)}
