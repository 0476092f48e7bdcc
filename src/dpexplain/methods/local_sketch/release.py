"""A differentially private sketch from which any number of predictions can be explained, for one payment.

Guarantee    rho-zCDP at the price paid, for one unit replaced or added or removed; only accounts with a delta can pay.
             Public: the features, the output range, the model, the weights of the blocks, the declared domain, the
             cells where they are given, and the number of rows under replace-one without units. Nothing is promised
             about the data the model was trained on, nor about the records that are explained with the sketch later.
Statistic    each row belongs to the nearest of K centres. For each cell: the number of rows, sum v, sum v v', sum f and
             sum f v, where v is the way from the centre in the coordinates of `Space` and f the prediction on the scale
             of -1 to 1; rows more than B away count less. The centres are drawn from noisy histograms of the features,
             which a part of the price is for, unless they are given, or drawn from the domain or from known marginals.
             Besides, the sums behind the average person that contributions are counted from.
Sensitivity  the five blocks with public weights w: sqrt(sum w^2) (add-remove), at most sqrt(2 sum w^2 - 2 min ...)
             (replace-one), times the rows of a unit. `maths/surrogate/sketch.py` has the proof, and `maths/surrogate/average.py`.
Release      a twentieth of the price for the average person; histograms and moments share the rest. Gaussian noise.
             Local models, attributions and their intervals are post-processing (`LocalSketch.explain`).
References   The loss is that of "Model Explanations with Differential Privacy" (Patel, Shokri, Zick 2022), whose
             Algorithm 1 pays for every explanation anew; the sketch is ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.canonical import JsonObject, fraction_text
from dpexplain.core.domain import Domain, PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Gate, split
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.grids import Partition, partition_of
from dpexplain.maths.surrogate import Fit, Space, StepWeight
from dpexplain.maths.surrogate.average import REST, Average
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
from dpexplain.methods.local_explanation.outlook import WIDER, LikelyTable, told, with_noise
from dpexplain.methods.local_sketch.result import LocalSketch, layout_from
from dpexplain.methods.marginals.release import builds_on, known_marginals
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.setting import OPEN_WITH_DELTA, Outlook, Setting
from dpexplain.models import Model, Predictor
from dpexplain.models.arguments import of_wrapped
from dpexplain.receipts import receipt_for

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GAUSSIAN = Law.GAUSSIAN.value
SHARE = Fraction(1, 10)  # of the price for the histograms that cells are drawn from
HISTOGRAM = 16  # cells of a numeric feature in them
WEIGHTS = (0.5, 0.7, 1.0, 0.7, 1.4)  # of the count, v, v v', f and f v: measured, see docs/methods/local-sketch.md
REACH = Fraction(3, 4)  # of the points that cells are drawn from: so many lie within the radius
NUMBERS_OF_CELLS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
UNKNOWN_ROWS_CELLS = 4
NOISE = 1_200  # what noise^2 in one more cell costs, in units of what one cell alone loses by being too large
MOST_CELLS, MOST_NUMBERS = 1_024, 2_000_000
USUAL_NUMBERS = 2**16  # no more without being asked: in many coordinates cells do not help, and noise takes its time


@dataclass(frozen=True, kw_only=True)
class LocalSketchRequest:
    """The request: everything about the release that a caller decides.

    features  in whose terms predictions are explained (default: all that the model uses)
    cells     their number (default: by forecast)
    centres   "marginals": where the rows are, by histograms that a tenth of the price is for. "domain": spread evenly
              over the declared domain. Or a list of records, public ones, one for each cell.
    radius    the distance from its centre, in coordinates, beyond which a row counts less (default: by the centres)
    seed      another one gives other centres
    """

    features: Sequence[str] | None = None
    cells: int | None = None
    centres: str | Sequence[Any] = "marginals"
    radius: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.features, str) or (self.features is not None and not list(self.features)):
            raise InputError(
                "features must be a list of names.", hint='features=["age", "sex"], or leave it out for all'
            )
        whole = isinstance(self.cells, int) and not isinstance(self.cells, bool)
        if self.cells is not None and not (whole and 1 <= self.cells <= MOST_CELLS):
            raise InputError(f"cells must be a whole number from 1 to {MOST_CELLS}; got {self.cells!r}.")
        listed = isinstance(self.centres, Sequence | np.ndarray) and not isinstance(self.centres, str | bytes)
        if not listed and self.centres not in ("marginals", "domain"):
            raise InputError(
                f"centres must be a list of records; got {self.centres!r}."[:200], hint='or "marginals" or "domain"'
            )
        if listed and (not 1 <= len(self.centres) <= MOST_CELLS or self.cells not in (None, len(self.centres))):
            raise InputError(f"there must be 1 to {MOST_CELLS} centres, and as many as cells.", hint="leave out cells")
        number = isinstance(self.radius, int | float) and not isinstance(self.radius, bool)
        if self.radius is not None and not (number and 1 / GRID <= self.radius <= 1e4):
            raise InputError(
                f"radius must be a positive length in coordinates; got {self.radius!r}.", hint="radius=1.0"
            )
        PublicRandom(self.seed)

    @property
    def label(self) -> str:
        return "local sketch" + ("" if self.features is None else " of " + ", ".join(self.features))


@dataclass(frozen=True)
class Spec:
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    space: Space
    output: PublicRange
    blocks: Blocks
    cells: int
    layout: Layout | None  # None: drawn from histograms that are released first
    partitions: tuple[Partition, ...]  # of these histograms
    share: Fraction  # of the price for them
    reach: Fraction
    radius: int | None
    seed: int

    @property
    def size(self) -> int:
        """How many numbers the moments have."""
        return self.cells * cell_size(self.space.size)

    @property
    def histogram_size(self) -> int:
        return sum(p.size for p in self.partitions)

    def to_json(self) -> JsonObject:
        return {
            "space": self.space.to_json(),
            "output": self.output.to_json(),
            "weights": list(self.blocks.weights),
            "cells": self.cells,
            "layout": None if self.layout is None else self.layout.to_json(),
            "partitions": [p.to_json() for p in self.partitions],
            "share": fraction_text(self.share),
            "reach": fraction_text(self.reach),
            "radius": self.radius,
            "seed": self.seed,
            "average": fraction_text(AVERAGE),
        }


def histogram_statistic(rows: Rows, spec: Spec) -> Integers:
    """The number of rows in each public cell of each feature."""
    return np.concatenate([p.counts(rows[p.feature]) for p in spec.partitions])


def statistic(rows: Rows, predictor: Predictor, spec: Spec, layout: Layout, average: Average) -> Integers:
    """Exact integer sums of one batch, before weights, after those of the average person: no noise, no randomness."""
    predictions = predictor.predict_at(predictor.inputs(rows), {})
    coordinates = spec.space.coordinates(rows.columns, rows.size)
    moments = raw_sums(layout, coordinates, predictions, spec.output)
    return np.concatenate([average.sums(coordinates, predictions), moments])


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """Of the weighted moments, for any layout: from the public request alone."""
    return spec.blocks.bound(neighbours, spec.space.size, spec.cells)


def resolve(
    request: LocalSketchRequest,
    domain: Domain,
    output: PublicRange,
    neighbours: Neighbours,
    rows: int | None,
    cost: Cost,
    *,
    features: Sequence[str],
    marginals: Marginals | None = None,
) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    require_delta(cost)
    space = Space(domain, tuple(features if request.features is None else request.features))
    blocks = Blocks.of([round(w * WEIGHT_ONE) for w in WEIGHTS])
    given = None if isinstance(request.centres, str) else _given(space, request.centres)
    noise = _relative_noise(blocks, space, neighbours, rows, cost)
    cells = request.cells or (_number_of_cells(noise, space) if given is None else len(given))
    radius = None if request.radius is None else round(request.radius * GRID)
    layout, partitions = None, [partition_of(f, domain[f], HISTOGRAM) for f in space.features]
    if given is not None or marginals is not None or request.centres == "domain":
        known = [_histogram(space, p, marginals) for p in partitions]
        layout = (
            drawn(known, cells, REACH, radius, request.seed)
            if given is None
            else Layout(given, radius or reach(spread_points(known, POINTS, request.seed), given, REACH))
        )
        partitions = []
    spec = Spec(
        *(space, output, blocks, cells, layout, tuple(partitions)),
        *(SHARE if partitions else Fraction(0), REACH, radius, request.seed),
    )
    if spec.size > MOST_NUMBERS:
        raise InputError(
            f"{cells} cells of {space.size} coordinates have {spec.size} numbers; {MOST_NUMBERS} is the most.",
            hint="use fewer cells or fewer features",
        )
    return spec


def require_delta(cost: Cost) -> None:
    if cost.definition is Definition.PURE:
        raise InputError(
            "a local sketch needs Gaussian noise, which a pure account cannot pay for.",
            hint=OPEN_WITH_DELTA,
        )


def _given(space: Space, records: Sequence[Any]) -> Integers:
    places: Integers = np.rint(np.array([space.locate(space.read(r)) for r in records]) * GRID).astype(np.int64)
    return places


def _histogram(space: Space, partition: Partition, marginals: Marginals | None) -> Histogram:
    """Where the rows of one feature are: by released marginals, or anywhere in the domain."""
    name = partition.feature
    if marginals is None:
        return Histogram(name, middles(space, name, partition.labels), np.ones(partition.size, dtype=np.int64))
    rug = marginals.rug(name)
    return Histogram(name, middles(space, name, rug.partition.labels), np.rint(rug.counts).astype(np.int64))


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


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this price. Costs nothing, touches no data."""
    require_delta(cost)
    first, second = split(cost * REST, spec.share)
    parts = {"moments": best(sensitivity(spec, neighbours), spec.size, second, GAUSSIAN)}
    parts |= averages.forecast(averages.average_for(spec.space, spec.output, neighbours), neighbours, cost)
    if spec.partitions:
        bound = Sensitivity.of_counts(neighbours, len(spec.partitions))
        parts["marginals"] = best(bound, spec.histogram_size, first, GAUSSIAN)
    return parts


def outlook(request: LocalSketchRequest, setting: Setting, cost: Cost) -> Outlook:
    """The error of contributions to expect, and their intervals: `local_outlook` plays a release through, and explains
    some of its likely rows with the usual weight.
    """
    output, neighbours = setting.output, setting.neighbours
    features = list(setting.domain) if setting.features is None else setting.features
    spec = resolve(
        *(request, setting.domain, output, neighbours, setting.hint, cost),
        features=features,
        marginals=setting.marginals,
    )
    laws, space = forecast(spec, neighbours, cost), spec.space
    weight = StepWeight.of("stable", space.diameter, width=1.0)

    def solve(table: LikelyTable, draw: PublicRandom | None) -> Callable[[Floats], Fit]:
        counts: Integers = np.empty(0, dtype=np.int64)
        if spec.partitions:
            counts = with_noise(table.scaled(histogram_statistic(table.rows, spec)), laws["marginals"].std, table.cells)
        layout = layout_from(spec.to_json(), counts.tolist(), laws["marginals"].std if spec.partitions else 0.0)
        sums = table.scaled(raw_sums(layout, table.coordinates, table.predictions, output))
        std = 1.0 if draw is None else laws["moments"].std
        released = with_noise(np.array(spec.blocks.cut(sums, space.size), dtype=np.int64), std, draw)
        cells = Cells(space, layout, spec.blocks, output, released, std)
        return lambda record: cells.answer(record, weight, None)

    error, interval, band = told(setting, space, cost, solve)
    return Outlook(
        law=laws["moments"].law.value,
        points=spec.cells,
        std=error / 2,
        error=error,
        band=band,
        interval=interval,
        wider=WIDER,
    )


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
    table: PrivateTable,
    model: Model,
    request: LocalSketchRequest,
    *,
    cost: Cost,
    marginals: Marginals | None = None,
) -> LocalSketch:
    """Release the sketch of `request` for `cost`, histograms included."""
    require_delta(cost)
    if marginals is not None and marginals.receipt.request["table"]["domain"] != table.domain.digest:
        raise InputError("these marginals were released for another domain.", hint="release them again from this table")
    ours = marginals is not None and marginals.receipt.request["table"] == table.identity
    own = known_marginals(table, marginals) if ours else None
    used = model.features(table.domain)
    spec = resolve(
        *(request, table.domain, model.output, table.neighbours, table.rows_hint, cost),
        features=used,
        marginals=marginals,
    )
    noise = forecast(spec, table.neighbours, cost)  # a price too small is refused here, before anything is reserved
    predictor = table.predictor(model)
    columns, coordinates = list(dict.fromkeys([*predictor.features, *spec.space.features])), spec.space.size

    def body(gate: Gate) -> None:
        first, second = split(cost * REST, spec.share)
        counts: list[int] = []
        if spec.partitions:
            kernel = partial(histogram_statistic, spec=spec)
            exact = table.map_sum(gate, kernel, spec.space.features, size=spec.histogram_size, label=request.label)
            counts = gate.noisy_counts("marginals", exact, first, partitions=len(spec.partitions), mechanism=GAUSSIAN)
        layout = layout_from(spec.to_json(), counts, noise["marginals"].std if spec.partitions else 0.0)
        average = averages.average_for(spec.space, spec.output, gate.neighbours)
        kernel = partial(statistic, predictor=predictor, spec=spec, layout=layout, average=average)
        size = average.size + spec.size
        sums = table.map_sum(gate, kernel, columns, size=size, label=request.label, parallel=model.thread_safe)
        averages.send(gate, average, sums[: average.size], cost)
        moments = spec.blocks.cut(sums[average.size :], coordinates)
        gate.noisy_sum("moments", moments, sensitivity(spec, gate.neighbours), second, mechanism=GAUSSIAN)

    elsewhere = [] if marginals is None or ours else ["marginals of another table"]
    public = [
        *elsewhere,
        "the features",
        "the cells" if spec.layout else "how cells are drawn",
        "the output range",
        "the model",
    ]
    identity = {
        "explainer": LocalSketch.kind,
        "table": table.identity,
        "model": model.identity,
        "spec": spec.to_json(),
        "public": [*public, "the weights of the blocks", table.domain.describe(), *table.neighbours.public],
        "outside": ["the records that are explained from it"],
        **builds_on(own),
    }
    released = table.door.release(request.label, identity, cost, body)
    return LocalSketch(receipt_for(table.budget, table.neighbours, released, table.domain), released.payload)


@of_wrapped
def local_sketch(
    table: PrivateTable, model: Model, *, epsilon: Any = None, rho: Any = None, **options: Any
) -> LocalSketch:
    """Pay once for local explanations of any number of records: `sketch.explain(record)` is free, for ever.

    `epsilon` (or `rho`) is the whole price. Options: see `requests.LocalSketch`; `marginals=` takes `Marginals` that
    were released before: then cells are drawn from them, and the moments get the whole price.
    """
    marginals = options.pop("marginals", None)
    if marginals is not None and not isinstance(marginals, Marginals):
        raise InputError("marginals must be what dpx.marginals returned.")
    request = LocalSketchRequest(**options)
    return explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho), marginals=marginals)
