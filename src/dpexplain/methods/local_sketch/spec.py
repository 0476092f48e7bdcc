"""The spec of a local sketch: statistic, sensitivity, the noise at a cost, and the way back to local models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject, fraction_text
from dpexplain.core.domain import PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.release import split
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import Partition
from dpexplain.maths.surrogate import Fit, Space
from dpexplain.maths.surrogate.fit import REST, Asked, Released
from dpexplain.maths.surrogate.sketch import Blocks, Cells, Histogram, Layout, cell_size, drawn, middles
from dpexplain.methods import averages, histogram
from dpexplain.methods.averages import GAUSSIAN

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Spec(Coded):
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    space: Space
    output: PublicRange
    weights: tuple[int, int, int, int, int]  # of the blocks
    cells: int
    layout: Layout | None  # None: drawn from histograms that are released first
    partitions: tuple[Partition, ...]  # of these histograms
    share: Fraction  # of the price for them
    reach: Fraction
    radius: int | None
    seed: int
    # the share of the price for the average person; None in older files: read as they were, all coordinates in the ball
    average: Fraction | None = None

    @cached_property
    def blocks(self) -> Blocks:
        return Blocks.of(self.weights)

    @property
    def size(self) -> int:
        """How many numbers the moments have."""
        return self.cells * cell_size(self.space.size)

    def to_json(self) -> JsonObject:
        return super().to_json() | {"share": fraction_text(self.share)}

    def layout_from(self, counts: Sequence[int], std: float) -> Layout:
        """The cells: given, or drawn from released counts. These are pulled toward zero by the standard deviation of
        their noise, so that empty cells stay empty.
        """
        if self.layout is not None:
            return self.layout
        features = tuple(p.feature for p in self.partitions)
        if len(counts) != histogram.size_of(self.partitions) or features != self.space.features:
            raise ValueError("the counts are not those of the features")
        left = np.maximum(np.array(counts, dtype=np.int64) - int(std), 0)
        parts = np.split(left, np.cumsum([p.size for p in self.partitions])[:-1])
        histograms = [
            Histogram(p.feature, middles(self.space, p.feature, p.labels), part)
            for p, part in zip(self.partitions, parts, strict=True)
        ]
        return drawn(histograms, self.cells, self.reach, self.radius, self.seed)

    def read_cells(self, released: Released) -> Cells:
        """What was released, read back."""
        values, noise = released.part("moments", self.size)
        counts, std = list[int](), 0.0
        if self.layout is None:
            counts, law = released.part("marginals", histogram.size_of(self.partitions))
            std = law.std
        layout, sums = self.layout_from(counts, std), np.array(values, dtype=np.int64)
        if layout.centres.shape != (self.cells, self.space.size):
            raise ValueError("the numbers do not fit the cells")
        before = self.average is None
        return Cells(self.space, layout, self.blocks, self.output, sums, noise.std, before=before)

    def read(self, released: Released, asked: Asked) -> Fit:
        """The local model of an attribution that was read from a file."""
        if asked.weight is None:
            raise ValueError("no attribution of ours")
        place = self.space.locate(self.space.read(asked.record))
        return self.read_cells(released).answer(place, asked.weight, asked.anchor)


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """How far one unit moves the weighted moments, for any layout: from the public request alone."""
    return spec.blocks.bound(neighbours, spec.space.size, spec.cells)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this cost. Costs nothing, touches no data."""
    first, second = split(cost * REST, spec.share)
    parts = {"moments": best(sensitivity(spec, neighbours), spec.size, second, GAUSSIAN)}
    parts |= averages.forecast(averages.average_for(spec.space, spec.output, neighbours), neighbours, cost)
    if spec.partitions:
        parts["marginals"] = histogram.forecast(spec.partitions, neighbours, first, GAUSSIAN)
    return parts
