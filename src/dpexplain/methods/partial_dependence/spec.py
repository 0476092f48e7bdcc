"""The spec of partial dependence, its statistic, its sensitivity, and the noise at a cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.release import split
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import Axis, Partition
from dpexplain.maths.posterior import Prior
from dpexplain.methods import histogram
from dpexplain.methods.sharpening import Source
from dpexplain.methods.sums import RowSums
from dpexplain.models import Predictor
from dpexplain.models.classes import levels_of


@dataclass(frozen=True)
class Spec(Coded):
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    views: tuple[tuple[Axis, ...], ...]  # of each curve; with several classes, each view once for each class
    output: PublicRange
    count_weight: int  # what each row adds to the count coordinate; 0 where the number of rows is public
    rug: tuple[Partition, ...]
    rug_share: Fraction
    mechanism: str | None
    classes: tuple[Any, ...] = ()  # all of the model; empty where one number is explained

    def to_json(self) -> JsonObject:
        """Without classes where there are none, as earlier versions wrote it."""
        return {name: value for name, value in super().to_json().items() if name != "classes" or value}

    @property
    def width(self) -> int:
        """How many curves each view has."""
        return max(1, len(self.classes))

    @property
    def sizes(self) -> list[int]:
        """How many points each view has."""
        return [math.prod(len(axis.points) for axis in view) for view in self.views]

    @property
    def points(self) -> int:
        """How many points there are in all."""
        return sum(self.sizes)

    @property
    def sums(self) -> RowSums:
        """How rows are added up."""
        return RowSums(self.output, self.count_weight, self.width)

    @property
    def curve_size(self) -> int:
        return self.sums.size(self.points)

    @property
    def size(self) -> int:
        return self.curve_size + histogram.size_of(self.rug)


def statistic(rows: Rows, predictor: Predictor, spec: Spec) -> NDArray[np.int64]:
    """Exact integer sums of one batch: no noise, no budget, no randomness."""
    curve = list(_by_curve(rows, predictor, spec, range(len(spec.views)), spec.sums.add))
    return np.concatenate([spec.sums.counted(curve, rows.size), histogram.statistic(rows, spec.rug)])


def prior(predictor: Predictor, source: Source, rows: int, spec: Spec, curves: Sequence[int]) -> Prior:
    """What synthetic rows say about the points of some curves, by the function whose sums are released."""
    output = spec.output
    lines = np.array(list(_by_curve(source.draw(rows), predictor, spec, curves, np.copy)), dtype=np.float64)
    return Prior.of_answers(output.low + output.width / output.levels * lines, source.most)


def _by_curve(
    rows: Rows, predictor: Predictor, spec: Spec, curves: Sequence[int], of_point: Callable[[Any], Any]
) -> Iterator[Any]:
    """What `of_point` makes of the quantised predictions for all rows at one point after the other of one curve after
    the other. All classes of a view are asked for at once.
    """
    inputs, output = predictor.inputs(rows), spec.output
    for view, several in itertools.groupby(curves, key=lambda number: number // spec.width):
        wanted, found = [number % spec.width for number in several], list[list[Any]]()
        axes = spec.views[view * spec.width]
        for point in itertools.product(*(axis.settings for axis in axes)):
            fixed = dict(zip((axis.feature for axis in axes), point, strict=True))
            said = predictor.predict_at(inputs, fixed)
            each = levels_of(said, output.levels).T if spec.classes else output.quantize(said)[None]
            found.append([of_point(each[number]) for number in wanted])
        for place in range(len(wanted)):
            yield from (line[place] for line in found)


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """How far one unit moves the curve: from the public request alone, so it cannot depend on the data."""
    return spec.sums.sensitivity(spec.points, neighbours)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this cost. Costs nothing, touches no data."""
    rug_cost, curve_cost = split(cost, spec.rug_share)
    parts = {"curve": best(sensitivity(spec, neighbours), spec.curve_size, curve_cost, spec.mechanism)}
    if spec.rug:
        parts["rug"] = histogram.forecast(spec.rug, neighbours, rug_cost)
    return parts
