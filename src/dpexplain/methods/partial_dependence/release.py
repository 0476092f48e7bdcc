"""Differentially private partial dependence of one feature, several features, or pairs of features.

Guarantee    the account's definition and cost, for one unit replaced (its number of rows public) or added or removed.
             Public: the grid, the output range, the model, the declared domain, and the number of rows under
             replace-one without units. Nothing is promised about the data the model was trained on.
Statistic    s_g = sum_i q(f(x_i with x_j := g)) for every grid point g; q clips to [low, high] and rounds to {0..K}.
             Where the number of rows is private, q is centred to {-K/2..K/2} and one more coordinate counts rows.
             The rug: counts of public cells of each feature.
Sensitivity  one row moves every s_g by at most K (replace-one) or K/2 (add-remove): a bound in L-inf, so the cube
             mechanism fits; k rows of a unit move it k times as far. docs/methods/partial-dependence.md has the proof.
Release      curve and rug share one cost. Means, the posterior, intervals are post-processing.
References   Friedman 2001; "Differentially Private Global Explanations", supplement, Algorithm 8 (method="paper").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from dpexplain.core.budget import Cost
from dpexplain.core.domain import Domain, Numeric
from dpexplain.core.noise import Law
from dpexplain.core.release import Gate, split
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.grids import Axis, axis_of, is_complete, with_missing
from dpexplain.maths.means import Means
from dpexplain.maths.posterior import DOMAIN_WORTH, FEWEST_ROWS
from dpexplain.maths.trees import Joint
from dpexplain.methods import histogram
from dpexplain.methods.curves import MOST_POINTS, MOST_TOGETHER, Curve, Curves
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.partial_dependence.request import Feature, PartialDependence
from dpexplain.methods.partial_dependence.result import DependenceCurve
from dpexplain.methods.partial_dependence.spec import Spec, forecast, prior, sensitivity, statistic
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.methods.sharpening import DOMAIN, Source, advice, expected_gain, known_stand_in, learn
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.methods.sums import RowSums
from dpexplain.models import Model, ModelPair, predictor_of
from dpexplain.models.arguments import of_wrapped
from dpexplain.models.classes import checked_classes

USUAL_PLACE = 0.5  # of a curve between the middle of the output range (0) and its edge (1): for forecasts
RESOLUTIONS = (20, 25, 32, 40, 50, 64, 80, 101)
UNKNOWN_ROWS_RESOLUTION, PAIR_RESOLUTION = 50, 12
PAPER_RUG_SHARE, PAPER_RESOLUTION = Fraction(1, 9), 20


def resolve(request: PartialDependence, setting: Setting, cost: Cost) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    domain, output, neighbours, rows = setting.domain, setting.output, setting.neighbours, setting.hint
    for feature in request.features:
        domain.column(feature)
    K, paper = output.levels, request.method == "paper"
    classes = () if setting.model is None else setting.model.every_class
    weight = RowSums.of(output, neighbours).weight
    own = request.rug and setting.marginals is None  # marginals are the rug
    rug = histogram.cells_to_show(request.features, domain) if own else ()
    share = PAPER_RUG_SHARE if paper and rug else histogram.share_to_show(rug, neighbours, rows, cost)
    mechanism = Law.LAPLACE.value if paper and request.mechanism is None else request.mechanism

    def spec(resolution: int) -> Spec:
        views = [tuple(_axis(request, domain, f, view, resolution) for f in view) for view in request.views]
        each = tuple(view for view in views for _ in range(max(1, len(classes))))
        return Spec(each, output, weight, rug, share, mechanism, classes)

    for points in spec(PAPER_RESOLUTION).sizes:
        if points > MOST_POINTS:
            raise InputError(
                f"a grid of {points} points is too long; {MOST_POINTS} is the most.", hint="use a coarser grid"
            )
    if paper or rows is None:
        return spec(PAPER_RESOLUTION if paper else UNKNOWN_ROWS_RESOLUTION)

    def expected_loss(candidate: Spec) -> float:
        """Squared error in units of the output range: noise plus interpolation between grid points.

        Rules of thumb, chosen on the tables of `python -m bench effects`: m points lose 0.0003 / m to interpolation,
        and beyond 20 points smoothing leaves a factor sqrt(20 / m) of the noise variance.
        """
        noise = forecast(candidate, neighbours, cost)["curve"]
        axes = [axis for view in candidate.views for axis in view]
        gaps = [0 if is_complete(axis, domain[axis.feature]) else 1 / len(axis.points) for axis in axes]
        longest = max(len(axis.points) for axis in axes)
        kept = min(1.0, (20 / longest) ** 0.5) if request.smooth else 1.0
        return kept * (noise.std / (K * rows)) ** 2 + 3e-4 * sum(gaps) / len(gaps)

    candidates = {candidate.views: candidate for candidate in map(spec, RESOLUTIONS)}  # often all the same
    return min(candidates.values(), key=expected_loss)


def _axis(request: PartialDependence, domain: Domain, feature: str, view: tuple[str, ...], resolution: int) -> Axis:
    grid = request.grid.get(feature) if isinstance(request.grid, Mapping) else request.grid
    column = domain[feature]
    if isinstance(column, Numeric):
        if request.method == "paper" and (grid is None or isinstance(grid, int)):
            # the published grid does not know about whole numbers
            smooth_column = Numeric(column.low, column.high)
            return axis_of(Domain({feature: smooth_column}), feature, grid, PAPER_RESOLUTION)
        if len(view) == 2:
            resolution = PAIR_RESOLUTION
    return with_missing(axis_of(domain, feature, grid, resolution), column)


def outlook(request: PartialDependence, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the curves of a table of about this many rows."""
    output, neighbours = setting.output, setting.neighbours
    spec = resolve(request, setting, cost)
    parts = forecast(spec, neighbours, cost)
    noise, weight, points = parts["curve"], spec.count_weight, spec.points
    released = np.array([0, weight * setting.rows], dtype=np.int64)
    means = Means(released, noise, output, weight, setting.rows, slice(0, 1), counted_from=spec.sums.origin)
    unit = output.width / (output.levels * setting.rows)
    gain = (
        1.0
        if setting.worth is None or not request.smooth or request.method == "paper"
        else _gain(spec, setting, means.std)
    )
    # A noisy number of rows adds to the error, most for a curve at the edge of the output range.
    return Outlook(
        law=noise.law.value,
        points=points,
        std=means.std,
        error=gain * means.half_width(USUAL_PLACE, LEVEL),
        interval=None if setting.worth is None else means.half_width(USUAL_PLACE, LEVEL),  # the proven one
        band=means.half_width(USUAL_PLACE, 1 - (1 - LEVEL) / points) if weight else noise.band(LEVEL) * unit,
        rug_error=parts["rug"].halfwidth(LEVEL) if "rug" in parts else None,
        note=advice("partial-dependence", len(request.views)).strip() if request.smooth else "",
    )


def _gain(spec: Spec, setting: Setting, std: float) -> float:
    """What sharpening makes of the noise, by what the model says about rows drawn evenly from the domain."""
    model, worth = setting.model, setting.worth
    if model is None or worth is None or spec.points > MOST_TOGETHER:
        return 1.0
    if (key := ("gain", spec.views)) not in setting.tried:
        source = Source(Joint.even(setting.domain, model.features(setting.domain)), DOMAIN_WORTH, {"from": DOMAIN})
        asked = checked_classes(model, setting.domain) if spec.classes else model.checked(setting.domain)
        predictor, curves = asked.resized(FEWEST_ROWS), range(len(spec.views))
        setting.tried[key] = prior(predictor, source, FEWEST_ROWS, spec, curves)
    return expected_gain(setting.tried[key], std, worth, setting.output.width)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "curve": "sums of clipped predictions at public grid points, and the count where it is private",
        "rug": "counts of public cells",
        "means": "division, the posterior by public synthetic rows, intervals",
        "plot": "curve with its row counts",
    }
    edges = [("table", "curve"), ("table", "rug"), ("curve", "means"), ("means", "plot"), ("rug", "plot")]
    return DataFlow(stages, edges, name="Partial dependence", noised=["curve", "rug"])


def explain(
    table: PrivateTable,
    model: Model,
    request: PartialDependence,
    *,
    cost: Cost,
    marginals: Marginals | None = None,
    stand_in: StandIn | None = None,
) -> Curves:
    """Release the curves of `request` for `cost`, rug included.

    Marginals that were released before are the rug, so that none is released. By them, or by a stand-in, values are
    sharpened.
    """
    if marginals is not None:
        histogram.known_marginals(table, marginals, request.features)
    if stand_in is not None:
        known_stand_in(table, stand_in, [*model.features(table.domain), *request.features])
    spec = resolve(request, Setting.of(table, model, marginals=marginals), cost)
    method, label = "partial-dependence", request.label
    return released(table, model, request, spec, cost, method, label, DependenceCurve, marginals, stand_in)


def released(
    table: PrivateTable,
    model: Model | ModelPair,
    request: PartialDependence,
    spec: Spec,
    cost: Cost,
    method: str,
    label: str,
    kind: type[DependenceCurve],
    marginals: Marginals | None = None,
    stand_in: StandIn | None = None,
) -> Curves:
    """Release the sums of a spec, of a model or of the difference of two, as curves of this kind."""
    forecast(spec, table.neighbours, cost)  # an unavailable mechanism is refused here, before anything is reserved
    predictor = predictor_of(table, model)
    columns = list(dict.fromkeys([*predictor.features, *request.features]))

    def body(gate: Gate) -> None:
        kernel = partial(statistic, predictor=predictor, spec=spec)
        sums = table.sum_rows(gate, kernel, columns, size=spec.size, label=label, parallel=model.thread_safe)
        rug_cost, curve_cost = split(cost, spec.rug_share)
        curve, rug = sums[: spec.curve_size], sums[spec.curve_size :]
        gate.noisy_sum("curve", curve, sensitivity(spec, gate.neighbours), curve_cost, mechanism=spec.mechanism)
        if spec.rug:
            gate.noisy_counts("rug", rug, rug_cost, partitions=len(spec.rug))

    public = ["the grid", "the output range", "the model" if isinstance(model, Model) else "both models"]
    receipt, payload = table.release(method, label, spec.to_json(), cost, body, public=public, model=model.identity)
    smooth = request.smooth and request.method != "paper"
    curves = [kind(receipt, payload, i, smooth, marginals) for i in range(len(spec.views))]
    if smooth:
        source = curves[0].synthetic_source(predictor.features, stand_in)
        every: list[tuple[int | None, Sequence[int]]] = [(i, (i,)) for i in range(len(spec.views))]
        groups = [(None, range(len(spec.views)))] if spec.points <= MOST_TOGETHER else every
        priors = [learn(table, model, receipt, source, partial(prior, spec=spec, curves=c), i) for i, c in groups]
        curves = [replace(curve, sharpening=priors[min(i, len(priors) - 1)]) for i, curve in enumerate(curves)]
    return Curves(curves)


@of_wrapped
def partial_dependence(
    table: PrivateTable,
    model: Model,
    feature: Feature | list[Feature],
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    grid: int | Mapping[str, int | Sequence[float | str]] | None = None,
    rug: bool | Marginals = True,
    stand_in: StandIn | None = None,
    method: Literal["default", "paper"] = "default",
    smooth: bool = True,
    mechanism: Literal["cube", "discrete-laplace", "discrete-gaussian"] | None = None,
) -> Curve | Curves:
    """Differentially private partial dependence: a `Curve` for a name or a pair, `Curves` for a list.

    With a model of three or more classes and no label: `Curves`, one for each class, for one cost.

    `epsilon` (or `rho`) is the whole cost, rug and all features included. `requests.PartialDependence` describes the
    options; `rug` may also be `Marginals` that were released before: then the rug is free, and the curve gets the
    whole cost. A `stand_in` that was released before makes the values better, for free.
    """
    marginals = rug if isinstance(rug, Marginals) else None
    own = False if isinstance(rug, Marginals) else rug
    request = PartialDependence(feature=feature, grid=grid, rug=own, method=method, smooth=smooth, mechanism=mechanism)
    cost = table.cost(epsilon=epsilon, rho=rho)
    curves = explain(table, model, request, cost=cost, marginals=marginals, stand_in=stand_in)
    return curves[0] if request.single and not model.every_class else curves
