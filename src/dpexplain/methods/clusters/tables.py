"""The spec of explained clusters whose counts are all released: one table for each attribute, and nothing else.

Statistic    h[c, a, v]: rows of cluster c (or of none) with value v of attribute a (`spec.statistic`).
Sensitivity  for each attribute a row is in exactly one cell (c, v): as many public partitions of the rows as there are
             attributes. `Sensitivity.of_counts`: with A attributes, a row that comes or goes moves A cells by one, so A
             in L1, A in squared L2, 1 in L-inf; one that is replaced leaves A cells and joins A others, at most 2 A,
             2 A, 1. A unit of k rows: k, k^2, k times as much. Attained by rows that differ in every attribute, or in
             their cluster.
Release      these counts with noise. Which attributes explain the clusters, histograms, intervals and words follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dpexplain.core.budget import Cost
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import Partition
from dpexplain.methods.clusters.request import Weights
from dpexplain.methods.clusters.scores import Scoring
from dpexplain.methods.clusters.spec import size_of


@dataclass(frozen=True)
class TablesSpec(Coded):
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    labels: tuple[str, ...]
    partitions: tuple[Partition, ...]
    whole: tuple[bool, ...]  # whether the values of an attribute are whole numbers
    weights: tuple[int, int, int]
    per_cluster: int
    method: str = "posterior"

    def __post_init__(self) -> None:
        """Refuse what only a damaged file can say."""
        if self.method != "posterior" or not 1 <= self.per_cluster <= len(self.partitions) or len(self.labels) < 2:
            raise ValueError("no choice of ours")
        if len(self.whole) != len(self.partitions):
            raise ValueError("no attributes of ours")

    @property
    def clusters(self) -> int:
        return len(self.labels)

    @cached_property
    def scoring(self) -> Scoring:
        return Scoring(self.clusters, self.per_cluster, Weights(*self.weights))

    @property
    def size(self) -> int:
        """How many counts there are."""
        return size_of(self.partitions, self.clusters)


def sensitivity(partitions: Sequence[Partition], neighbours: Neighbours) -> Sensitivity:
    """How far one unit moves the counts: a row is in one cell of each attribute's table. Proof: see above."""
    return Sensitivity.of_counts(neighbours, len(partitions))


def forecast(spec: TablesSpec, neighbours: Neighbours, cost: Cost) -> Noise:
    """The noise of the counts at this cost. Costs nothing, touches no data."""
    return best(sensitivity(spec.partitions, neighbours), spec.size, cost)
