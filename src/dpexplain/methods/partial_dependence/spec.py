"""The spec of partial dependence, its statistic, its sensitivity, and the noise at a price."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.domain import PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.release import split
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import Axis, Partition
from dpexplain.models import Predictor


@dataclass(frozen=True)
class Spec(Coded):
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    views: tuple[tuple[Axis, ...], ...]
    output: PublicRange
    count_weight: int  # what each row adds to the count coordinate; 0 where the number of rows is public
    rug: tuple[Partition, ...]
    rug_share: Fraction
    mechanism: str | None

    @property
    def sizes(self) -> list[int]:
        """How many points each view has."""
        return [math.prod(len(axis.points) for axis in view) for view in self.views]

    @property
    def curve_size(self) -> int:
        return sum(self.sizes) + (1 if self.count_weight else 0)

    @property
    def size(self) -> int:
        return self.curve_size + sum(p.size for p in self.rug)


def statistic(rows: Rows, predictor: Predictor, spec: Spec) -> NDArray[np.int64]:
    """Exact integer sums of one batch: no noise, no budget, no randomness."""
    inputs = predictor.inputs(rows)
    shift = spec.output.levels // 2 if spec.count_weight else 0
    sums = []
    for view in spec.views:
        for point in itertools.product(*(axis.settings for axis in view)):
            fixed = dict(zip((axis.feature for axis in view), point, strict=True))
            sums.append(int((spec.output.quantize(predictor.predict_at(inputs, fixed)) - shift).sum()))
    if spec.count_weight:
        sums.append(spec.count_weight * rows.size)
    counts = [p.counts(rows[p.feature]) for p in spec.rug]
    return np.concatenate([np.array(sums, dtype=np.int64), *counts])


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """Of the curve part: from the public request alone, so it cannot depend on the data."""
    K, points = spec.output.levels, spec.curve_size - (1 if spec.count_weight else 0)
    if not spec.count_weight:
        return Sensitivity.of_boxes([(0, K)] * points, neighbours)
    return Sensitivity.of_boxes([(-K // 2, K // 2)] * points + [(spec.count_weight,) * 2], neighbours)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this price. Costs nothing, touches no data."""
    rug_cost, curve_cost = split(cost, spec.rug_share)
    parts = {"curve": best(sensitivity(spec, neighbours), spec.curve_size, curve_cost, spec.mechanism)}
    if spec.rug:
        cells = spec.size - spec.curve_size
        parts["rug"] = best(Sensitivity.of_counts(neighbours, len(spec.rug)), cells, rug_cost)
    return parts
