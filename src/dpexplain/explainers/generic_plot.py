"""Differentially private plots of one feature by any plot explainer, a black box that is run on parts of the rows.

Guarantee    the account's definition and price, for one unit replaced or added or removed. Public: the explainer, the
             model, the number of parts, the grid, the output box, the declared domain, and the number of rows under
             replace-one without units. The explainer must look at nothing but the part it is given.
Statistic    rows are dealt to l parts; the explainer's curve (x, y) of each part is interpolated at the public grid
             points, *then* clipped to the box and rounded to {0..K}; s_g = sum over parts. A
             part that fails counts as the middle of the box. Where rows are not dealt evenly, one more coordinate
             counts the parts that answered. The rug: counts of public cells of the feature.
Sensitivity  one unit changes at most c parts, and each of them moves every s_g by at most K: c K in L-inf
             (`Sensitivity.of_parts`; the count costs nothing, see `sensitivity`); c is 1, or 2 where a keyed hash
             deals rows under replace-one.
Release      cube noise as a rule. The mean over parts that answered, smoothing and intervals are post-processing.
References   "Differentially Private Global Explanations", Algorithm 3; Nissim, Raskhodnikova, Smith 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, Domain, PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.release import Gate, split
from dpexplain.core.sensitivity import Assignment, Neighbours, Sensitivity
from dpexplain.data.assignment import assignment_for
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.explainers import parts as shared
from dpexplain.explainers.outlook import LEVEL, Outlook, Setting
from dpexplain.explainers.partial_dependence import (
    RESOLUTIONS,
    RUG_CELLS,
    UNKNOWN_ROWS_RESOLUTION,
    USUAL_PLACE,
    _rug_share,
)
from dpexplain.grids import Axis, Partition, axis_of, is_complete, partition_of
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped
from dpexplain.plain import Dealt, Levels, accumulated_effects, partial_dependence
from dpexplain.plain.grouped import Floats
from dpexplain.results import Curve, Marginals
from dpexplain.results.base import receipt_for
from dpexplain.results.curve import MOST_POINTS
from dpexplain.results.generic_curve import GenericCurve, fewest_answers, unevenness
from dpexplain.results.means import Means

BUILT_IN = {"pdp": partial_dependence, "ale": accumulated_effects}
TITLES = {"pdp": "Partial dependence", "ale": "Accumulated effects"}
# What a small part is taken to distort, in units of the box: this times parts / rows. Rules of thumb; the mean of the
# partial dependences of equal parts is the partial dependence of the table, however small the parts are.
DISTORTION = {"pdp": 0.0, "ale": 0.02}
UNKNOWN_DISTORTION = 0.3


@dataclass(frozen=True, kw_only=True)
class GenericPlot:
    """The request: everything about the release that a caller decides.

    explainer  a function (rows, model) -> (x, y), or "pdp" or "ale" for our own plain ones
    feature    the feature that x belongs to
    output     the public box (low, high) that y is clipped to
    columns    the columns that the function sees (default: all declared ones)
    parts      how many parts; by default the forecast decides
    grid       a number of points, or the points themselves; by default the declared domain and the forecast decide
    rug        also release where the rows are
    smooth     smooth the released values (free; intervals stay those of the unsmoothed ones)
    name, version   identify the function in the ledger: the same request is answered again for free. Without a version
               every call counts as a new one; so does every call of a function with a model without a version
    mechanism  "cube", "discrete-laplace" or "discrete-gaussian" instead of the one with the smallest forecast error
    """

    explainer: Callable[..., Any] | str
    feature: str
    output: tuple[float, float]
    columns: Sequence[str] | None = None
    parts: int | None = None
    grid: int | Sequence[float] | None = None
    rug: bool = True
    smooth: bool = True
    name: str | None = None
    version: str | None = None
    mechanism: str | None = None

    def __post_init__(self) -> None:
        shared.checked_function(self.explainer, "explainer", list(BUILT_IN))
        name, version = shared.identity_of(self.explainer, self.name, self.version)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "version", version)
        if not isinstance(self.output, tuple | list) or len(self.output) != 2:
            raise InputError("output must be a pair (low, high): the box that the plot is clipped to.")
        if not isinstance(self.rug, bool):
            raise InputError(
                f"rug must be true or false; got {self.rug!r}.", hint="or Marginals that were released before"
            )
        if isinstance(self.columns, str) or (self.columns is not None and not list(self.columns)):
            raise InputError("columns must be a list of names.", hint='columns=["age", "sex"], or leave it out for all')

    @property
    def built_in(self) -> str | None:
        return self.explainer if isinstance(self.explainer, str) else None

    @property
    def label(self) -> str:
        return f"{self.name} of {self.feature} in parts"


@dataclass(frozen=True)
class Spec:
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    axis: Axis
    output: PublicRange
    parts: int
    assignment: Assignment
    rug: Partition | None
    rug_share: Fraction
    mechanism: str | None
    neighbours: Neighbours
    explainer: JsonObject  # its name, version and title, and whether it is one of ours
    columns: tuple[str, ...] | None
    clipped: bool = False  # whether the model's predictions may lie outside the box

    @property
    def count_weight(self) -> int:
        """What each part that answers adds to the count coordinate; 0 where rows are dealt evenly: then all have rows.

        As much as fits under the bounds of the curve in all three norms.
        """
        if self.assignment is Assignment.POSITION:
            return 0
        return self.output.levels // (2 if len(self.axis.points) == 1 else 1)

    @property
    def curve_size(self) -> int:
        return len(self.axis.points) + bool(self.count_weight)

    @property
    def whole(self) -> bool:
        """Whether the mean over parts is that over all rows, but for the numbers of rows that parts have.

        Not where a part's mean may be clipped to the box: the mean of clipped means is another one.
        """
        return bool(self.explainer["built_in"]) and self.explainer["name"] == "pdp" and not self.clipped

    def means(self, noise: Noise, rows: int) -> Means:
        """The released mean of a table of so many rows, as far as its error goes."""
        parts, weight = self.parts, self.count_weight
        empty = shared.empty_share(parts, rows, self.neighbours, self.assignment)
        answered = max(1.0, parts * (1 - empty))
        released = np.array([0, round(weight * answered)], dtype=np.int64)
        means = Means(released, noise, self.output, weight, parts, slice(0, 1))
        if not self.whole:
            return means
        known = (rows, 0.0) if not weight else (None, fewest_answers(means, parts))
        return replace(means, unevenness=unevenness(parts, *known))

    def to_json(self, neighbours: Neighbours) -> JsonObject:
        return {
            "views": [[self.axis.to_json()]],
            "output": self.output.to_json(),
            "count_weight": self.count_weight,
            "whole": self.whole,
            "parts": shared.part_facts(self.assignment, neighbours, self.parts),
            "rug": [] if self.rug is None else [self.rug.to_json()],
            "rug_share": str(self.rug_share),
            "mechanism": self.mechanism,
            "explainer": self.explainer,
            "columns": None if self.columns is None else list(self.columns),
        }


def statistic(curves: Floats, spec: Spec) -> NDArray[np.int64]:
    """The exact integers of the curves [part, point], NaN where a part has none: no noise, no randomness.

    Sums over parts; where parts are counted, from the middle of the box, and with the parts that answered behind.
    """
    quantised = spec.output.quantize(curves)  # NaN is the middle
    if not spec.count_weight:
        return np.asarray(quantised.sum(axis=0), dtype=np.int64)
    answered = int((~np.isnan(curves).all(axis=1)).sum())
    return np.append((quantised - spec.output.levels // 2).sum(axis=0), spec.count_weight * answered).astype(np.int64)


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """Of the curve: from the public request alone.

    Proof that the count adds nothing. Let a changed part move from one vector to another, m points and the count of
    weight w. Where it answers before and after, every point moves by at most K and the count not at all: (m K, m K^2,
    K) in L1, squared L2 and L-inf. Where it answers in one table only, it is the middle of the box in the other: every
    point moves by at most K / 2 and the count by w: (m K / 2 + w, m K^2 / 4 + w^2, max(K / 2, w)), which is no more
    for w = K and m >= 2, and for w = K / 2 and m = 1. Several changed parts add up by the triangle inequality.
    """
    changed = spec.assignment.changed_parts(neighbours)
    return Sensitivity.of_parts(neighbours, len(spec.axis.points), spec.output.levels, changed)


def resolve(
    request: GenericPlot,
    domain: Domain,
    neighbours: Neighbours,
    assignment: Assignment,
    rows: int | None,
    cost: Cost,
    predictions: PublicRange | None = None,
) -> Spec:
    """The concrete spec of a request, from public things alone; `predictions` is the output range of the model."""
    domain.column(request.feature)
    for name in request.columns or ():
        domain.column(name)
    output = PublicRange(*request.output)
    clipped = predictions is not None and not output.low <= predictions.low <= predictions.high <= output.high
    rug = partition_of(request.feature, domain[request.feature], RUG_CELLS) if request.rug else None
    share = Fraction(0) if rug is None else _rug_share((rug,), neighbours, rows, cost)
    columns = None if request.columns is None else tuple(dict.fromkeys([*request.columns, request.feature]))
    shared.checked_parts(request.parts, rows if neighbours.rows_public else None)

    title = request.name if request.built_in is None else TITLES[request.built_in]
    identity: JsonObject = {"name": request.name, "version": request.version, "title": title}
    identity |= {"built_in": request.built_in is not None}

    def spec(resolution: int, parts: int) -> Spec:
        axis = axis_of(domain, request.feature, request.grid, resolution)
        return Spec(
            axis, output, parts, assignment, rug, share, request.mechanism, neighbours, identity, columns, clipped
        )

    points = len(spec(2, 2).axis.points)
    if points > MOST_POINTS:
        raise InputError(
            f"a grid of {points} points is too long; {MOST_POINTS} is the most.", hint="use a coarser grid"
        )
    if rows is None:
        return spec(UNKNOWN_ROWS_RESOLUTION, request.parts or shared.UNKNOWN_ROWS_PARTS)
    most = min(rows, shared.MOST_PARTS if request.built_in else shared.MOST_CALLS)
    if spec(2, 2).whole and assignment is not Assignment.POSITION:
        most = shared.MOST_PARTS  # the more parts, the fewer rows share one
    numbers = shared.ladder(most) if request.parts is None else [request.parts]
    distortion = UNKNOWN_DISTORTION if request.built_in is None else DISTORTION[request.built_in]

    def expected_loss(candidate: Spec, noise: Noise) -> float:
        """Squared error in units of the box: noise, interpolation as for partial dependence, small or uneven parts."""
        size, means = len(candidate.axis.points), candidate.means(noise, rows)
        kept = min(1.0, (20 / size) ** 0.5) if request.smooth else 1.0
        gap = 0 if is_complete(candidate.axis, domain[request.feature]) else 1 / size
        bias, chance = distortion * candidate.parts / rows, means.unevenness / 4
        return kept * (means.std / output.width) ** 2 + chance + 3e-4 * gap + bias**2

    losses = []
    for by_axis in {s.axis: s for s in (spec(resolution, 2) for resolution in RESOLUTIONS)}.values():
        noise = forecast(by_axis, neighbours, cost)["curve"]  # the noise of a sum: the number of parts is not in it
        candidates = [replace(by_axis, parts=number) for number in numbers]
        losses += [(expected_loss(candidate, noise), candidate) for candidate in candidates]
    return min(losses, key=lambda pair: pair[0])[1]


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part of the release at this price. Costs nothing, touches no data."""
    rug_cost, curve_cost = split(cost, spec.rug_share)
    found = {"curve": best(sensitivity(spec, neighbours), spec.curve_size, curve_cost, spec.mechanism)}
    if spec.rug is not None:
        found["rug"] = best(Sensitivity.of_counts(neighbours), spec.rug.size, rug_cost)
    return found


def outlook(request: GenericPlot, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the mean curve of the parts."""
    dealt = assignment_for(setting.neighbours, None)
    spec = resolve(request, setting.domain, setting.neighbours, dealt, setting.hint, cost, setting.output)
    parts = forecast(spec, setting.neighbours, cost)
    noise, means = parts["curve"], spec.means(parts["curve"], setting.rows)
    points = len(spec.axis.points)
    error, band = (means.half_width(USUAL_PLACE, level) for level in (LEVEL, 1 - (1 - LEVEL) / points))
    rug = parts["rug"].halfwidth(LEVEL) if "rug" in parts else None
    return Outlook(noise.law.value, points, means.std, error, band, rug)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "parts": "rows dealt to a public number of parts",
        "curves": "the explainer on each part, interpolated at public points",
        "curve": "clipped to the box and added up over parts",
        "rug": "counts of public cells",
        "means": "division, smoothing, intervals",
        "plot": "curve with its rug",
    }
    edges = [
        ("table", "parts"), ("parts", "curves"), ("curves", "curve"), ("curve", "means"), ("means", "plot"),
        ("table", "rug"), ("rug", "plot"),
    ]  # fmt: skip
    return DataFlow(stages, edges, name="Generic plot", noised=["curve", "rug"])


def explain(table: PrivateTable, model: Any, request: GenericPlot, *, cost: Cost) -> Curve:
    """Release the curve of `request` for `cost`, rug included."""
    neighbours, domain = table.neighbours, table.domain
    predictions = model.output if isinstance(model, Model) else None
    spec = resolve(request, domain, neighbours, table.assignment, table.rows_hint, cost, predictions)
    forecast(spec, neighbours, cost)  # an unavailable mechanism is refused here, before anything is reserved
    columns, curves = _black_box(table, model, request, spec)

    def body(gate: Gate) -> None:
        dealt = shared.collect(table, gate, columns, spec.parts)
        rug_cost, curve_cost = split(cost, spec.rug_share)
        sums = statistic(curves(dealt), spec)
        gate.noisy_sum("curve", sums, sensitivity(spec, gate.neighbours), curve_cost, mechanism=spec.mechanism)
        if spec.rug is not None:
            gate.noisy_counts("rug", spec.rug.counts(dealt.rows[request.feature]), rug_cost)

    public = ["the explainer", "the number of parts", "the grid", "the output box", "the model"]
    identity = {
        "explainer": "generic-plot",
        "table": table.identity,
        "model": shared.identified(table, model) if request.built_in is None else model.identity,
        "spec": spec.to_json(neighbours),
        "public": [*public, domain.describe(), *neighbours.public],
    }
    released = table.door.release(request.label, identity, cost, body)
    receipt = receipt_for(table.budget, neighbours, released, table.domain)
    return GenericCurve(receipt, released.payload, 0, request.smooth)


def _black_box(
    table: PrivateTable, model: Any, request: GenericPlot, spec: Spec
) -> tuple[list[str], Callable[[Dealt], Floats]]:
    """The columns that are read, and the function from dealt rows to [part, point], tried out on synthetic rows."""
    axis, domain = spec.axis, table.domain
    if request.built_in is not None:
        known = shared.required_model(model, f"the explainer {request.built_in!r}")
        levels = Levels(table.predictor(known), known.output, known.thread_safe)
        explainer = BUILT_IN[request.built_in]
        columns = list(dict.fromkeys([*levels.predictor.features, axis.feature]))
        return columns, shared.pulsing(request.label, lambda dealt: explainer(dealt, levels, axis))
    function, given = request.explainer, shared.original(model)
    assert callable(function)
    columns = list(domain) if spec.columns is None else list(spec.columns)
    reader = shared.Reader(domain, columns)
    synthetic = shared.synthetic_parts(domain, shared.synthetic_sizes(table.rows_hint, spec.parts), axis.feature)
    shared.try_out(reader, function, given, synthetic, lambda answer: problem(answer, axis, domain))

    def understood(answer: Any) -> Floats:
        return on_grid(answer, axis)

    def curves(dealt: Dealt) -> Floats:
        found = shared.answers(dealt, reader, function, given, understood)
        return np.array(list(shared.tracked(request.label, dealt.parts, iter(found))))

    return columns, curves


def on_grid(answer: Any, axis: Axis) -> Floats:
    """A plot (x, y) at the public points; all NaN for an answer that is no plot.

    Numbers are interpolated, several y of one x count as their mean, and beyond its ends a curve goes on level. A
    category that the plot does not have is NaN.
    """
    nothing = np.full(len(axis.points), np.nan)
    if answer is None or _shape_problem(answer):
        return nothing
    y = np.asarray(answer[1], dtype=np.float64)
    if not np.isfinite(y).all():
        return nothing
    if not axis.ordered:
        heights: dict[Any, list[float]] = {}
        for x, height in zip(answer[0], y, strict=True):
            heights.setdefault(_plain(x), []).append(float(height))
        return np.array([float(np.mean(heights[point])) if point in heights else np.nan for point in axis.points])
    x = np.asarray(answer[0], dtype=np.float64)
    if not np.isfinite(x).all():
        return nothing
    distinct, place = np.unique(x, return_inverse=True)
    means = np.bincount(place, weights=y) / np.bincount(place)
    return np.interp(np.asarray(axis.points, dtype=np.float64), distinct, means)


def problem(answer: Any, axis: Axis, domain: Domain) -> str:
    """What is wrong with a plot of synthetic rows, in words; nothing if it can be used."""
    if wrong := _shape_problem(answer):
        return wrong
    try:
        numbers = [np.asarray(values, dtype=np.float64) for values in (answer if axis.ordered else answer[1:])]
    except (TypeError, ValueError):
        return "it returns values that are not numbers"
    if not all(np.isfinite(values).all() for values in numbers):
        return "it returns NaN or infinite values"
    column = domain[axis.feature]
    if isinstance(column, Categorical) and (unknown := [x for x in answer[0] if _plain(x) not in column.categories]):
        return f"its x has {unknown[0]!r}, which is not a declared category of {axis.feature!r}"
    return ""


def _shape_problem(answer: Any) -> str:
    if answer is None:
        return "it returns nothing"
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        return "it does not return a pair (x, y)"
    if any(np.ndim(values) != 1 for values in answer):
        return "x and y are not two lists"
    lengths = [len(values) for values in answer]
    if lengths[0] != lengths[1]:
        return f"x and y have different lengths, {lengths[0]} and {lengths[1]}"
    return "" if lengths[0] else "it returns an empty plot"


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


@of_wrapped
def generic_plot(
    table: PrivateTable,
    explainer: Callable[..., Any] | str,
    feature: str,
    *,
    output: tuple[float, float],
    model: Any = None,
    epsilon: Any = None,
    rho: Any = None,
    **options: Any,
) -> Curve:
    """Differentially private plot of `feature` by any explainer: a function (rows, model) -> (x, y), "pdp" or "ale".

    The function gets the clean rows of one part as a DataFrame, and what was given as `model` (of a `dpx.Model`, the
    estimator or function that it was made of). Any other object is handed over as it is. Only a `dpx.Model` with a
    version is known to be the same in a later call; with any other model every call is a new one. `output` is the
    public box of y. Options: see `requests.GenericPlot`; `rug` may also be `Marginals` that were released before.
    """
    known = options.pop("rug", True)
    marginals = known if isinstance(known, Marginals) else None
    rug = marginals is None and known
    request = GenericPlot(explainer=explainer, feature=feature, output=output, rug=rug, **options)
    if marginals is not None:
        if marginals.receipt.request["table"] != table.identity:
            raise InputError("these marginals were released from another table, or from another version of it.")
        marginals.rug(request.feature)  # one that the marginals do not have is refused before anything is paid
    curve = explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho))
    return curve if marginals is None else replace(curve, marginals=marginals)
