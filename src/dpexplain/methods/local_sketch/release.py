"""A differentially private sketch from which any number of predictions can be explained, for one payment.

Guarantee    rho-zCDP at the price paid, for one unit replaced or added or removed; only accounts with a delta can pay.
             Public: the features, the output range, the model, the weights of the blocks, the declared domain, the
             cells where they are given, and the number of rows under replace-one without units. Nothing is promised
             about the data the model was trained on, nor about the records that are explained with the sketch later.
Statistic    each row belongs to the nearest of K centres. For each cell: the number of rows, sum v, sum v v', sum f and
             sum f v, where v is the way from the centre in the coordinates of `Space` and f the prediction on the scale
             of -1 to 1; rows more than B away count less. The centres are drawn from noisy histograms of the features,
             which a part of the price is for, unless they are given, or drawn from the domain or from known marginals.
             Also the sums behind the average person that contributions are counted from.
Sensitivity  the five blocks with public weights w: sqrt(sum w^2) (add-remove), at most sqrt(2 sum w^2 - 2 min ...)
             (replace-one), times the rows of a unit. Proofs: `maths/surrogate/sketch.py`, `maths/surrogate/average.py`.
Release      a twentieth of the price for the average person; histograms and moments share the rest. Gaussian noise.
             Local models, attributions and their intervals are post-processing (`LocalSketch.explain`).
References   The loss is that of "Model Explanations with Differential Privacy" (Patel, Shokri, Zick 2022), whose
             Algorithm 1 pays for every explanation anew; the sketch is ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.mechanisms import best
from dpexplain.core.release import Gate, split
from dpexplain.core.sensitivity import Neighbours
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.grids import Partition, partition_of
from dpexplain.maths.surrogate import Fit, Space, StepWeight
from dpexplain.maths.surrogate.average import REST
from dpexplain.maths.surrogate.average import SHARE as AVERAGE
from dpexplain.maths.surrogate.sketch import (
    GRID,
    POINTS,
    ROW,
    WEIGHT_ONE,
    Blocks,
    Cells,
    Histogram,
    Layout,
    cell_size,
    drawn,
    middles,
    raw_sums,
    reach,
    spread_points,
)
from dpexplain.methods import averages
from dpexplain.methods.histogram import builds_on, known_marginals
from dpexplain.methods.local_explanation.outlook import LikelyTable, told, with_noise
from dpexplain.methods.local_sketch.request import LocalSketchRequest
from dpexplain.methods.local_sketch.result import LocalSketch
from dpexplain.methods.local_sketch.spec import GAUSSIAN, Spec, forecast, histogram_statistic, sensitivity, statistic
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.setting import Outlook, Setting
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SHARE = Fraction(1, 10)  # of the price for the histograms that cells are drawn from
HISTOGRAM = 16  # cells of a numeric feature in them
# of the count, v, v v', f and f v: measured, see docs/methods/local-sketch.md
WEIGHTS = tuple(round(w * WEIGHT_ONE) for w in (0.5, 0.7, 1.0, 0.7, 1.4))
REACH = Fraction(3, 4)  # of the points that cells are drawn from: so many lie within the radius
NUMBERS_OF_CELLS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
UNKNOWN_ROWS_CELLS = 4
NOISE = 1_200  # what noise^2 in one more cell costs, in units of what one cell alone loses by being too large
MOST_NUMBERS = 2_000_000
USUAL_NUMBERS = 2**16  # no more without being asked: in many coordinates cells do not help, and noise takes its time


def resolve(request: LocalSketchRequest, setting: Setting, cost: Cost) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    averages.require_delta(cost, "a local sketch")
    domain, marginals = setting.domain, setting.marginals
    space, blocks = Space(domain, tuple(request.features or setting.features or domain)), Blocks.of(WEIGHTS)
    given = None if isinstance(request.centres, str) else _given(space, request.centres)
    noise = _relative_noise(blocks, space, setting.neighbours, setting.hint, cost)
    cells = request.cells or (_number_of_cells(noise, space) if given is None else len(given))
    radius = None if request.radius is None else round(request.radius * GRID)
    layout, partitions = None, tuple(partition_of(f, domain[f], HISTOGRAM) for f in space.features)
    if given is not None or marginals is not None or request.centres == "domain":
        known = [_histogram(space, p, marginals) for p in partitions]
        layout = (
            drawn(known, cells, REACH, radius, request.seed)
            if given is None
            else Layout(given, radius or reach(spread_points(known, POINTS, request.seed), given, REACH))
        )
        partitions = ()
    share = SHARE if partitions else Fraction(0)
    spec = Spec(
        *(space, setting.output, blocks.weights, cells, layout, partitions),
        *(share, REACH, radius, request.seed, AVERAGE),
    )
    if spec.size > MOST_NUMBERS:
        raise InputError(
            f"{cells} cells of {space.size} coordinates have {spec.size} numbers; {MOST_NUMBERS} is the most.",
            hint="use fewer cells or fewer features",
        )
    return spec


def _given(space: Space, records: Sequence[Any]) -> Integers:
    return np.asarray(np.rint(np.array([space.locate(space.read(r)) for r in records]) * GRID).astype(np.int64))


def _histogram(space: Space, partition: Partition, marginals: Marginals | None) -> Histogram:
    """Where the rows of one feature are: by released marginals, or anywhere in the domain."""
    name, counts = partition.feature, np.ones(partition.size)
    if marginals is not None:
        rug = marginals.histogram(name)
        partition, counts = rug.partition, rug.counts
    return Histogram(name, middles(space, name, partition.labels), np.rint(counts).astype(np.int64))


def _relative_noise(blocks: Blocks, space: Space, neighbours: Neighbours, rows: int | None, cost: Cost) -> float | None:
    """The noise of a cell's moments as a share of all rows; None where nobody knows how many there are."""
    if rows is None:
        return None
    bound = blocks.bound(neighbours, space.size, 1)
    return best(bound, 1, cost, GAUSSIAN).std / ROW * math.sqrt(space.size) / rows


def _number_of_cells(noise: float | None, space: Space) -> int:
    """More cells follow the model more closely, and each of them brings its own noise.

    Rules of thumb for the squared error, chosen on the tables of `python -m bench local`.
    """
    fitting = [k for k in NUMBERS_OF_CELLS if k * cell_size(space.size) <= USUAL_NUMBERS] or [1]
    if noise is None:
        return min(UNKNOWN_ROWS_CELLS, fitting[-1])
    return min(fitting, key=lambda k: 1 / math.sqrt(k) + NOISE * k * noise**2)


def outlook(request: LocalSketchRequest, setting: Setting, cost: Cost) -> Outlook:
    """The error of contributions to expect, and their intervals: `told` plays a release through, and explains some of
    its likely rows with the usual weight.
    """
    spec = resolve(request, setting, cost)
    laws, space = forecast(spec, setting.neighbours, cost), spec.space
    weight = StepWeight.of("stable", space.diameter, width=1.0)

    def solve(table: LikelyTable, draw: PublicRandom | None) -> Callable[[Floats], Fit]:
        counts, around = list[int](), 0.0
        if spec.partitions:
            around = laws["marginals"].std
            counts = with_noise(table.scaled(histogram_statistic(table.rows, spec)), around, table.cells).tolist()
        layout = spec.layout_from(counts, around)
        sums = table.scaled(raw_sums(layout, table.coordinates, table.predictions, spec.output))
        std = 1.0 if draw is None else laws["moments"].std
        released = with_noise(np.array(spec.blocks.cut(sums, space.size), dtype=np.int64), std, draw)
        cells = Cells(space, layout, spec.blocks, spec.output, released, std)
        return lambda record: cells.answer(record, weight, None)

    return told(setting, space, cost, solve, laws["moments"].law.value, spec.cells)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "marginals": "rows in each public cell of each feature",
        "cells": "centres drawn from the histograms",
        "moments": "counts and moments of rows and predictions in each cell",
        "average": "sums of coordinates and predictions",
        "sketch": "local linear models around any record",
    }
    edges = [("table", "marginals"), ("marginals", "cells"), ("cells", "moments"), ("table", "moments")]
    return DataFlow(
        stages,
        [*edges, ("cells", "sketch"), ("moments", "sketch"), ("table", "average"), ("average", "sketch")],
        name="Local sketch",
        noised=["marginals", "moments", "average"],
    )


def explain(
    table: PrivateTable, model: Model, request: LocalSketchRequest, *, cost: Cost, marginals: Marginals | None = None
) -> LocalSketch:
    """Release the sketch of `request` for `cost`, histograms included."""
    averages.require_delta(cost, "a local sketch")
    if marginals is not None and marginals.receipt.request["table"]["domain"] != table.domain.digest:
        raise InputError("these marginals were released for another domain.", hint="release them again from this table")
    ours = marginals is not None and marginals.receipt.request["table"] == table.identity
    own = known_marginals(table, marginals) if ours else None
    spec = resolve(request, Setting.of(table, model, marginals=marginals), cost)
    noise = forecast(spec, table.neighbours, cost)  # a price too small is refused here, before anything is reserved
    predictor = table.predictor(model)
    columns = list(dict.fromkeys([*predictor.features, *spec.space.features]))

    def body(gate: Gate) -> None:
        first, second = split(cost * REST, spec.share)
        counts, std = list[int](), 0.0
        if spec.partitions:
            kernel = partial(histogram_statistic, spec=spec)
            exact = table.sum_rows(gate, kernel, spec.space.features, size=spec.histogram_size, label=request.label)
            counts = gate.noisy_counts("marginals", exact, first, partitions=len(spec.partitions), mechanism=GAUSSIAN)
            std = noise["marginals"].std
        average = averages.average_for(spec.space, spec.output, gate.neighbours)
        layout, size = spec.layout_from(counts, std), average.size + spec.size
        kernel = partial(statistic, predictor=predictor, spec=spec, layout=layout, average=average)
        sums = table.sum_rows(gate, kernel, columns, size=size, label=request.label, parallel=model.thread_safe)
        averages.send(gate, average, sums[: average.size], cost)
        moments = spec.blocks.cut(sums[average.size :], spec.space.size)
        gate.noisy_sum("moments", moments, sensitivity(spec, gate.neighbours), second, mechanism=GAUSSIAN)

    cells = "the cells" if spec.layout else "how cells are drawn"
    public = ["the features", cells, "the output range", "the model", "the weights of the blocks"]
    receipt, payload = table.release(
        *(LocalSketch.kind, request.label, spec.to_json(), cost, body),
        public=public if marginals is None or ours else ["marginals of another table", *public],
        outside=["the records that are explained from it"],
        model=model.identity,
        **builds_on(own),
    )
    return LocalSketch(receipt, payload)


@of_wrapped
def local_sketch(
    table: PrivateTable,
    model: Model,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    features: Sequence[str] | None = None,
    cells: int | None = None,
    centres: Literal["marginals", "domain"] | list[Any] | tuple[Any, ...] = "marginals",
    radius: float | None = None,
    seed: int = 0,
    marginals: Marginals | None = None,
) -> LocalSketch:
    """Pay once for local explanations of any number of records: `sketch.explain(record)` is free, for ever.

    `epsilon` (or `rho`) is the whole price. `requests.LocalSketch` describes the options; `marginals` are `Marginals`
    that were released before: then cells are drawn from them, and the moments get the whole price.
    """
    if marginals is not None and not isinstance(marginals, Marginals):
        raise InputError("marginals must be what dpx.marginals returned.")
    request = LocalSketchRequest(features=features, cells=cells, centres=centres, radius=radius, seed=seed)
    return explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho), marginals=marginals)
