"""Differentially private plots of one feature by any plot explainer, a black box that is run on parts of the rows.

Guarantee    the account's definition and cost, for one unit replaced or added or removed. Public: the explainer, the
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
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from dpexplain.core.budget import Cost
from dpexplain.core.domain import Categorical, Domain, PublicRange
from dpexplain.core.noise import Noise
from dpexplain.core.release import Gate, split
from dpexplain.core.sensitivity import Assignment
from dpexplain.data.dealing import Dealt
from dpexplain.data.reading import BATCH_ROWS
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.grids import Axis, axis_of, is_complete, partition_of
from dpexplain.methods import parts as shared
from dpexplain.methods.black_box import MOST_PARTS
from dpexplain.methods.curves import MOST_POINTS, Curve
from dpexplain.methods.generic_plot.request import GenericPlot
from dpexplain.methods.generic_plot.result import GenericCurve
from dpexplain.methods.generic_plot.spec import Explainer, Spec, count_weight, forecast, sensitivity, statistic
from dpexplain.methods.histogram import SHOWN_CELLS, known_marginals, share_to_show
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.partial_dependence.release import RESOLUTIONS, UNKNOWN_ROWS_RESOLUTION, USUAL_PLACE
from dpexplain.methods.plain import Levels, accumulated_effects, partial_dependence
from dpexplain.methods.plain.grouped import Floats, Integers
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.models.arguments import of_wrapped

Curves = Callable[[Dealt], Floats]  # [part, point]

BUILT_IN = {"pdp": partial_dependence, "ale": accumulated_effects}
AT_ONCE = {"pdp": BATCH_ROWS, "ale": 2**11}  # rows; accumulated effects predict each of them at several points
TITLES = {"pdp": "Partial dependence", "ale": "Accumulated effects"}
# What a small part is taken to distort, in units of the box: this times parts / rows. Rules of thumb; the mean of the
# partial dependences of equal parts is the partial dependence of the table, however small the parts are.
DISTORTION = {"pdp": 0.0, "ale": 0.02}
UNKNOWN_DISTORTION = 0.3


def resolve(request: GenericPlot, setting: Setting, cost: Cost) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    identity, request = request.identity, request.form
    domain, neighbours, rows, assignment = setting.domain, setting.neighbours, setting.hint, setting.assignment
    for name in (request.feature, *(request.columns or ())):
        domain.column(name)
    column, output = domain[request.feature], PublicRange(*request.output)
    # the mean of parts' means that were clipped to the box is not the mean over all rows
    whole = request.built_in == "pdp" and output.low <= setting.output.low <= setting.output.high <= output.high
    rug = (partition_of(request.feature, column, SHOWN_CELLS),) if request.rug else ()
    share = share_to_show(rug, neighbours, rows, cost) if rug else Fraction(0)
    columns = None if request.columns is None else tuple(dict.fromkeys([*request.columns, request.feature]))
    shared.checked_parts(request.parts, rows if neighbours.rows_public else None)
    title = TITLES.get(request.built_in or "", identity[0])
    explainer = Explainer(*identity, title, request.built_in is not None)
    dealing = shared.Dealing(
        request.parts or shared.UNKNOWN_ROWS_PARTS, assignment, assignment.changed_parts(neighbours)
    )

    def spec(resolution: int) -> Spec:
        axis = axis_of(domain, request.feature, request.grid, resolution)
        return Spec(
            ((axis,),), output, count_weight(axis, output, assignment), dealing, rug, share, request.mechanism,
            explainer, columns, whole=whole,
        )  # fmt: skip

    points = len(spec(2).axis.points)
    if points > MOST_POINTS:
        raise InputError(
            f"a grid of {points} points is too long; {MOST_POINTS} is the most.", hint="use a coarser grid"
        )
    if rows is None:
        return spec(UNKNOWN_ROWS_RESOLUTION)
    most = min(rows, MOST_PARTS if request.built_in else shared.MOST_CALLS)
    if whole and assignment is not Assignment.POSITION:
        most = MOST_PARTS  # the more parts, the fewer rows share one
    numbers = shared.ladder(most) if request.parts is None else [request.parts]
    distortion = UNKNOWN_DISTORTION if request.built_in is None else DISTORTION[request.built_in]

    def expected_loss(candidate: Spec, noise: Noise) -> float:
        """Squared error in units of the box: noise, interpolation as for partial dependence, small or uneven parts."""
        size, means = len(candidate.axis.points), candidate.means(noise, rows, neighbours)
        kept = min(1.0, (20 / size) ** 0.5) if request.smooth else 1.0
        gap = 0 if is_complete(candidate.axis, column) else 1 / size
        bias, chance = distortion * candidate.parts.number / rows, means.unevenness / 4
        return kept * (means.std / output.width) ** 2 + chance + 3e-4 * gap + bias**2

    losses = []
    for by_axis in {candidate.axis: candidate for candidate in map(spec, RESOLUTIONS)}.values():
        noise = forecast(by_axis, neighbours, cost)["curve"]  # the noise of a sum: the number of parts is not in it
        candidates = [replace(by_axis, parts=replace(dealing, number=number)) for number in numbers]
        losses += [(expected_loss(candidate, noise), candidate) for candidate in candidates]
    return min(losses, key=lambda pair: pair[0])[1]


def outlook(request: GenericPlot, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the mean curve of the parts."""
    spec = resolve(request, setting, cost)
    laws, points = forecast(spec, setting.neighbours, cost), len(spec.axis.points)
    means = spec.means(laws["curve"], setting.rows, setting.neighbours)
    error, band = (means.half_width(USUAL_PLACE, level) for level in (LEVEL, 1 - (1 - LEVEL) / points))
    rug = laws["rug"].halfwidth(LEVEL) if "rug" in laws else None
    return Outlook(laws["curve"].law.value, points, means.std, error, band, rug)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "parts": "rows dealt to a public number of parts",
        "curves": "the explainer on each part, interpolated at public points",
        "curve": "clipped to the box and added up over parts",
        "rug": "counts of public cells",
        "means": "division, smoothing, intervals",
        "plot": "curve with its row counts",
    }
    edges = [
        ("table", "parts"), ("parts", "curves"), ("curves", "curve"), ("curve", "means"), ("means", "plot"),
        ("table", "rug"), ("rug", "plot"),
    ]  # fmt: skip
    return DataFlow(stages, edges, name="Generic plot", noised=["curve", "rug"])


def explain(table: PrivateTable, model: Any, request: GenericPlot, *, cost: Cost) -> Curve:
    """Release the curve of `request` for `cost`, rug included."""
    spec, request = resolve(request, Setting.of(table), cost), request.form
    forecast(spec, table.neighbours, cost)  # an unavailable mechanism is refused here, before anything is reserved
    columns, curves, how = _black_box(table, model, request, spec)
    kernel = partial(_of_dealt, curves=curves, spec=spec)
    table.require_shipping("the explainer", kernel)
    size = spec.curve_size + sum(partition.size for partition in spec.rug)

    def body(gate: Gate) -> None:
        found = table.sum_groups(gate, kernel, columns, spec.parts.number, size=size, label=request.label, **how)
        sums, counts = np.split(found, [spec.curve_size])
        rug_cost, curve_cost = split(cost, spec.rug_share)
        gate.noisy_sum("curve", sums, sensitivity(spec, gate.neighbours), curve_cost, mechanism=spec.mechanism)
        if spec.rug:
            gate.noisy_counts("rug", counts, rug_cost)

    identity = shared.identified(table, model) if request.built_in is None else model.identity
    public = ["the explainer", "the number of parts", "the grid", "the output box", "the model"]
    receipt, payload = table.release(
        "generic-plot", request.label, spec.to_json(), cost, body, public=public, model=identity
    )
    return GenericCurve(receipt, payload, 0, request.smooth)


def _of_dealt(dealt: Dealt, curves: Curves, spec: Spec) -> Integers:
    """The sums of some parts, and the counts of the rug behind them."""
    counts = [partition.counts(dealt.rows[partition.feature]) for partition in spec.rug]
    return np.concatenate([statistic(curves(dealt), spec), *counts])


def _black_box(
    table: PrivateTable, model: Any, request: GenericPlot, spec: Spec
) -> tuple[list[str], Curves, dict[str, Any]]:
    """The columns that are read, the function from dealt rows to [part, point], tried out on synthetic rows, and how
    many parts it may get at once.
    """
    axis = spec.axis
    if request.built_in is not None:
        known = shared.required_model(model, f"the explainer {request.built_in!r}")
        levels = Levels(table.predictor(known), known.output)
        columns = list(dict.fromkeys([*levels.predictor.features, axis.feature]))
        how = {"parallel": known.thread_safe, "at_once": AT_ONCE[request.built_in]}
        plain = partial(BUILT_IN[request.built_in], levels=levels, axis=axis)
        return columns, partial(plain, one_interval=True) if spec.explainer.published else plain, how
    assert callable(request.explainer)
    columns = list(table.domain if spec.columns is None else spec.columns)
    asked = {"function": request.explainer, "model": shared.original(model), "columns": columns}
    wrong = partial(problem, axis=axis, domain=table.domain)
    shared.try_out(**asked, problem=wrong, table=table, parts=spec.parts.number, feature=axis.feature)
    curves = partial(shared.answers, **asked, understood=partial(on_grid, axis=axis))
    return columns, curves, shared.ONE_AT_A_TIME


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
    explainer: Callable[..., Any] | Literal["pdp", "ale"],
    feature: str,
    *,
    output: tuple[float, float],
    model: Any = None,
    epsilon: float | None = None,
    rho: float | None = None,
    columns: Sequence[str] | None = None,
    parts: int | None = None,
    grid: int | Sequence[float | str] | None = None,
    rug: bool | Marginals = True,
    smooth: bool = True,
    method: Literal["default", "paper"] = "default",
    name: str | None = None,
    version: str | int | None = None,
    mechanism: Literal["cube", "discrete-laplace", "discrete-gaussian"] | None = None,
) -> Curve:
    """Differentially private plot of `feature` by any explainer: a function (rows, model) -> (x, y), "pdp" or "ale".

    The function gets the clean rows of one part as a DataFrame, and what was given as `model` (of a `dpx.Model`, the
    estimator or function that it was made of). Any other object is handed over as it is. Only a `dpx.Model` with a
    version is known to be the same in a later call; with any other model every call is a new one.
    `requests.GenericPlot` describes the options; `rug` may also be `Marginals` that were released before.
    """
    marginals = rug if isinstance(rug, Marginals) else None
    request = GenericPlot(
        explainer=explainer,
        feature=feature,
        output=output,
        columns=columns,
        parts=parts,
        grid=grid,
        rug=False if isinstance(rug, Marginals) else rug,
        smooth=smooth,
        method=method,
        name=name,
        version=version,
        mechanism=mechanism,
    )
    if marginals is not None:
        known_marginals(table, marginals, [feature])
    curve = explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho))
    return curve if marginals is None else replace(curve, marginals=marginals)
