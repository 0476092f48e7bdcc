"""A differentially private sketch from which any number of predictions can be explained, for one payment.

Guarantee    rho-zCDP at the cost paid, for one unit replaced or added or removed; only accounts with a delta can pay.
             Public: the features, the output range, the model, the weights of the blocks, the declared domain, the
             cells where they are given, and the number of rows under replace-one without units. Nothing is promised
             about the data the model was trained on, nor about the records that are explained with the sketch later.
Statistic    each row belongs to the nearest of K centres. For each cell: the number of rows, sum v, sum v v', sum f and
             sum f v, where v is the way from the centre in the coordinates of `Space` and f the prediction on the scale
             of -1 to 1; rows more than B away count less. The centres are drawn from noisy histograms of the features,
             which a part of the cost is for, unless they are given, or drawn from the domain or from known marginals.
             Also the sums behind the average person that contributions are counted from.
Sensitivity  the five blocks with public weights w: sqrt(sum w^2) (add-remove), at most sqrt(2 sum w^2 - 2 min ...)
             (replace-one), times the rows of a unit. Proofs: `maths/surrogate/sketch.py`, `maths/surrogate/fit.py`.
Release      a twentieth of the cost for the average person; histograms and moments share the rest. Gaussian noise.
             Local models, attributions and their intervals are post-processing (`LocalSketch.explain`).
References   The loss is that of "Model Explanations with Differential Privacy" (Patel, Shokri, Zick 2022), whose
             Algorithm 1 pays for every explanation anew; the sketch is ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.mechanisms import best
from dpexplain.core.release import Gate, split
from dpexplain.core.sensitivity import Neighbours
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError, InternalError
from dpexplain.maths.grids import Partition, partition_of
from dpexplain.maths.surrogate import Fit, Space, StepWeight, sketch
from dpexplain.maths.surrogate.fit import REST
from dpexplain.maths.surrogate.fit import SHARE as AVERAGE
from dpexplain.methods import averages, histogram
from dpexplain.methods.averages import GAUSSIAN
from dpexplain.methods.histogram import builds_on, known_marginals
from dpexplain.methods.local_explanation.outlook import LikelyTable, rehearsed, with_noise
from dpexplain.methods.local_sketch.request import LocalSketchRequest
from dpexplain.methods.local_sketch.result import LocalSketch
from dpexplain.methods.local_sketch.rows import RowSketch
from dpexplain.methods.local_sketch.spec import Spec, forecast, sensitivity
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.posterior import local_rows
from dpexplain.methods.setting import OPEN_WITH_DELTA, Outlook, Setting
from dpexplain.methods.sharpening import known_stand_in
from dpexplain.methods.stand_in import release as stand_ins
from dpexplain.methods.stand_in.request import StandInRequest
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.methods.stand_in.spec import forecast as stand_in_forecast
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SHARE = Fraction(1, 10)  # of the price for the histograms that cells are drawn from
HISTOGRAM = 16  # cells of a numeric feature in them
# of the count, v, v v', f and f v: measured, see docs/methods/local-sketch.md
WEIGHTS = tuple(round(w * sketch.WEIGHT_ONE) for w in (0.5, 0.7, 1.0, 0.7, 1.4))
REACH = Fraction(3, 4)  # of the points that cells are drawn from: so many lie within the radius
NUMBERS_OF_CELLS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
UNKNOWN_ROWS_CELLS = 4
SCORED = 300  # standard deviations of a count by scores that the number of rows must have for them to be worth it
NOISE = 1_200  # what noise^2 in one more cell costs, in units of what one cell alone loses by being too large
MOST_NUMBERS = 2_000_000
LOST = "How far contributions are off depends on the model: `python -m bench local_posterior` has measured some."
USUAL_NUMBERS = 2**16  # no more without being asked: in many coordinates cells do not help, and noise takes its time


def resolve(request: LocalSketchRequest, setting: Setting, cost: Cost) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    if cost.definition is Definition.PURE:
        raise InputError(
            "moments need an account with a delta: a pure account cannot pay for Gaussian noise.",
            hint=f'method="stand-in" works in every account; or {OPEN_WITH_DELTA}',
        )
    domain, marginals = setting.domain, setting.marginals
    space, blocks = Space(domain, tuple(request.features or setting.features or domain)), sketch.Blocks.of(WEIGHTS)
    given = None if isinstance(request.centres, str) else _given(space, request.centres)
    cells = request.cells or (len(given) if given is not None else 0)
    cells = cells or _number_of_cells(blocks, space, setting.neighbours, setting.hint, cost)
    radius = None if request.radius is None else round(request.radius * sketch.GRID)
    layout, partitions = None, tuple(partition_of(f, domain[f], HISTOGRAM) for f in space.features)
    if given is not None or marginals is not None or request.centres == "domain":
        known = [_histogram(space, p, marginals) for p in partitions]
        layout = sketch.drawn(known, cells, REACH, radius, request.seed, given)
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


def composition(request: LocalSketchRequest, setting: Setting, cost: Cost) -> str:
    """What is released, by public things: "moments", "stand-in" or "scored stand-in", one with counts by the model's
    scores.

    A stand-in, because its loss was the smaller one wherever the value at the record is fitted (`python -m bench
    local_posterior`); moments where pairs of so many columns cannot be counted, or where an option of theirs is given.
    Counts by scores, which make intervals narrow, where noise is small beside the rows of a cell: elsewhere they cost
    more than they bring.
    """
    pure = cost.definition is Definition.PURE
    if request.method == "moments" or (request.method == "auto" and request.of_cells):
        return "moments"
    plain = stand_ins.resolve(_stand_in_request(request, setting), replace(setting, features=None), cost)
    if request.method == "auto" and plain.why == "wide" and not pure:
        return "moments"
    if setting.features is None:  # nobody knows the model's columns
        return "stand-in"
    scored = stand_ins.resolve(_stand_in_request(request, setting), setting, cost)
    noise = stand_in_forecast(scored, setting.neighbours, cost)["scores"].std
    rows = setting.hint or stand_ins.UNKNOWN_ROWS
    return "scored stand-in" if scored.grade == "tree" and rows >= SCORED * noise else "stand-in"


def _stand_in_request(request: LocalSketchRequest, setting: Setting) -> StandInRequest:
    """A stand-in for the columns of the model, and those in whose terms predictions are explained."""
    columns = list(setting.features or setting.domain)
    return StandInRequest(features=list(dict.fromkeys([*columns, *(request.features or ())])))


def _given(space: Space, records: Sequence[Any]) -> Integers:
    return np.asarray(np.rint(np.array([space.locate(space.read(r)) for r in records]) * sketch.GRID).astype(np.int64))


def _histogram(space: Space, partition: Partition, marginals: Marginals | None) -> sketch.Histogram:
    """Where the rows of one feature are: by released marginals, or anywhere in the domain."""
    name, counts = partition.feature, np.ones(partition.size)
    if marginals is not None:
        rug = marginals.histogram(name)
        partition, counts = rug.partition, rug.counts
    return sketch.Histogram(name, sketch.middles(space, name, partition.labels), np.rint(counts).astype(np.int64))


def _number_of_cells(blocks: sketch.Blocks, space: Space, neighbours: Neighbours, rows: int | None, cost: Cost) -> int:
    """More cells follow the model more closely, and each of them brings its own noise.

    Rules of thumb for the squared error, chosen on the tables of `python -m bench local`.
    """
    fitting = [k for k in NUMBERS_OF_CELLS if k * sketch.cell_size(space.size) <= USUAL_NUMBERS] or [1]
    if rows is None:
        return min(UNKNOWN_ROWS_CELLS, fitting[-1])
    one = best(blocks.bound(neighbours, space.size, 1), 1, cost, GAUSSIAN)
    noise = one.std / sketch.ROW * math.sqrt(space.size) / rows  # of a cell's moments, as a share of all rows
    return min(fitting, key=lambda k: 1 / math.sqrt(k) + NOISE * k * noise**2)


def outlook(request: LocalSketchRequest, setting: Setting, cost: Cost) -> Outlook:
    """The error of contributions to expect, and their intervals: `rehearsed` plays a release through, and explains
    some of its likely rows with the usual weight.
    """
    form = composition(request, setting, cost)
    if form != "moments":
        return _outlook_of_rows(request, setting, cost, form)
    spec = resolve(request, setting, cost)
    laws, space = forecast(spec, setting.neighbours, cost), spec.space
    weight = StepWeight.of("stable", space.diameter, width=1.0)

    def solve(table: LikelyTable, draw: PublicRandom | None) -> Callable[[Floats], Fit]:
        counts, around = list[int](), 0.0
        if spec.partitions:
            around = laws["marginals"].std
            exact = table.scaled(histogram.statistic(table.rows, spec.partitions))
            counts = with_noise(exact, around, table.cells).tolist()
        layout = spec.layout_from(counts, around)
        sums = table.scaled(sketch.raw_sums(layout, spec.output, table.coordinates, table.predictions))
        std = 1.0 if draw is None else laws["moments"].std
        released = with_noise(np.array(spec.blocks.cut(sums, space.size), dtype=np.int64), std, draw)
        cells = sketch.Cells(space, layout, spec.blocks, spec.output, released, std)
        return lambda record: cells.answer(record, weight, None)

    return rehearsed(setting, space, cost, solve, laws["moments"].law.value, spec.cells)


def _outlook_of_rows(request: LocalSketchRequest, setting: Setting, cost: Cost, form: str) -> Outlook:
    """How far noise will move the counts of the stand-in: nobody knows beforehand what follows for contributions."""
    known = setting if form == "scored stand-in" else replace(setting, features=None)
    expected = stand_ins.outlook(_stand_in_request(request, setting), known, cost)
    return replace(expected, note=f"A local sketch from synthetic rows of a stand-in. {expected.note} {LOST}")


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
) -> LocalSketch | RowSketch:
    """Release the sketch of `request` for `cost`, histograms included."""
    setting = Setting.of(table, model)
    _ = Space(setting.domain, tuple(request.features or setting.features or setting.domain)).slices  # refuses
    form = "moments" if marginals is not None and request.method == "auto" else composition(request, setting, cost)
    if form != "moments":
        if marginals is not None:
            raise InputError("a sketch from a stand-in takes no marginals.", hint="stand_in=, or leave them out")
        table.predictor(model)  # refuses a model that is another one than its version says, before anything is paid
        scorer = model if form == "scored stand-in" else None
        released = stand_ins.explain(table, scorer, _stand_in_request(request, setting), cost=cost)
        return _kept_sketch(table, model, released, request.features)
    if marginals is not None and marginals.receipt.request["table"]["domain"] != table.domain.digest:
        raise InputError("these marginals were released for another domain.", hint="release them again from this table")
    ours = marginals is not None and marginals.receipt.request["table"] == table.identity
    own = known_marginals(table, marginals) if ours else None
    spec = resolve(request, Setting.of(table, model, marginals=marginals), cost)
    noise = forecast(spec, table.neighbours, cost)  # a price too small is refused here, before anything is reserved
    predictor = table.predictor(model)

    def body(gate: Gate) -> None:
        first, second = split(cost * REST, spec.share)
        counts, std = list[int](), 0.0
        if spec.partitions:
            counts = histogram.send(table, gate, "marginals", spec.partitions, first, request.label, GAUSSIAN)
            std = noise["marginals"].std
        average = averages.average_for(spec.space, spec.output, gate.neighbours)
        more = partial(sketch.raw_sums, spec.layout_from(counts, std), spec.output)
        sums, _ = averages.collect(table, gate, predictor, average, more, spec.size, cost, label=request.label)
        moments = spec.blocks.cut(sums, spec.space.size)
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


def from_stand_in(
    table: PrivateTable, model: Model, known: StandIn, features: Sequence[str] | None = None
) -> RowSketch:
    """A sketch from a stand-in that this table's account has released: free."""
    found = known_stand_in(table, known, [*model.features(table.domain), *(features or ())])
    table.predictor(model)
    return _kept_sketch(table, model, found, features)


def read_off(
    request: LocalSketchRequest, setting: Setting, cost: Cost
) -> Callable[[PrivateTable, Model, StandIn], RowSketch] | None:
    """How a batch reads the sketch off its stand-in, unless moments are the better sketch, or asked for."""
    if composition(request, setting, cost) == "moments":
        return None
    return partial(from_stand_in, features=request.features)


def _kept_sketch(table: PrivateTable, model: Model, found: StandIn, features: Sequence[str] | None) -> RowSketch:
    """What the model says about the rows of a stand-in is kept in the ledger, so that it is the same everywhere."""
    kept = local_rows(found, model, features).kept
    if kept is None:
        raise InternalError("a stand-in's own rows have nothing but themselves as evidence")
    numbers = table.door.account.declare(kept.known_as(found), kept.numbers)
    return RowSketch.of(found, kept.with_numbers(numbers))


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
    method: Literal["auto", "moments", "stand-in"] = "auto",
    stand_in: StandIn | None = None,
) -> LocalSketch | RowSketch:
    """Pay once for local explanations of any number of records: `sketch.explain(record)` is free, for ever.

    `epsilon` (or `rho`) is the whole cost. `requests.LocalSketch` describes the options; `marginals` are `Marginals`
    that were released before: then cells are drawn from them, and the moments get the whole cost. A `stand_in` that
    was released before makes the sketch free: give no epsilon. It is then the same as
    `dpx.posterior(stand_in, model).explain`, with a file of its own.
    """
    if marginals is not None and not isinstance(marginals, Marginals):
        raise InputError("marginals must be what dpx.marginals returned.")
    options: dict[str, Any] = {"cells": cells, "centres": centres, "radius": radius, "seed": seed}
    request = LocalSketchRequest(features=features, method=method, **options)
    if stand_in is not None:
        if epsilon is not None or rho is not None or marginals is not None:
            raise InputError(
                "a stand-in that was released before makes a sketch free.", hint="leave epsilon= and rho= out"
            )
        return from_stand_in(table, model, stand_in, request.but(method="stand-in").features)
    return explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho), marginals=marginals)
