"""Differentially private local explanation of one record: the linear model that fits best nearby.

Guarantee    rho-zCDP for one unit replaced (its number of rows public) or added or removed. Public: the explained
             record, the model, the weight of a row by its distance, the declared domain, and the number of rows under
             replace-one without units. The guarantee protects the rows of the table, not the record that is explained,
             and nothing is promised about the data the model was trained on.
Statistic    method="moments": A = sum y y' and b = sum t y, whole numbers for sqrt(weight) (x - z) and
             sqrt(weight) (f(x) - anchor) of every row x; all that the quadratic loss around z depends on.
             method="gradient": gradients of that loss along a path, see `descent.py`.
             With either: the sums behind the average person that contributions are counted from.
Sensitivity  `maths/surrogate/moments.py` has the proof, from what one row can be at every distance: for the stable
             weight, 13 columns and a given anchor 0.41 (add-remove) or 0.73 (replace-one) of one squared level. Of the
             average: `maths/surrogate/fit.py`.
Release      both with discrete Gaussian noise, a twentieth of the cost for the average person. The exact minimiser on
             a ball, its attributions and intervals are post-processing. "auto" takes the method with the smaller
             forecast loss, from public numbers only.
References   "Model Explanations with Differential Privacy" (loss, weights, Algorithm 1); Ribeiro et al. 2016.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpexplain.core.budget import Budget, Cost
from dpexplain.core.domain import Domain, PublicRange
from dpexplain.core.noise import Noise
from dpexplain.core.release import Gate
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError, ModelError
from dpexplain.maths.surrogate import Fit, Local, Space, StepWeight
from dpexplain.maths.surrogate.descent import Descent
from dpexplain.maths.surrogate.fit import REST, Asked
from dpexplain.maths.surrogate.moments import Moments
from dpexplain.methods.attributions import Attribution
from dpexplain.methods.averages import GAUSSIAN, require_delta
from dpexplain.methods.local_explanation import descent
from dpexplain.methods.local_explanation.outlook import LikelyTable, rehearsed, with_noise
from dpexplain.methods.local_explanation.request import Anchor, AroundRecord, LocalExplanation, NamedWeight
from dpexplain.methods.local_explanation.spec import Spec, forecast, path_loss, sensitivity
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.models import Model, Predictor
from dpexplain.models.arguments import of_wrapped

Floats = NDArray[np.float64]

MOST_COORDINATES = 4_096  # the moments have half as many numbers as their square
EVEN_ROWS = 1024  # drawn from the domain, where a forecast needs to know how rows lie


def placed(anchor: Anchor | None, output: PublicRange) -> float:
    """What the local model says at the record; the middle of the output range, where that is yet to be asked."""
    value = output.middle if anchor is None or isinstance(anchor, str) else float(anchor)
    if not output.low <= value <= output.high:
        raise InputError(f"anchor={value:g} lies outside the output range {output.low:g} to {output.high:g}.")
    return value


def locate(
    request: AroundRecord, anchor: Anchor | None, setting: Setting, features: Sequence[str] | None = None
) -> Local:
    """The record and how rows count for it. Reads nothing but public things."""
    space = Space(setting.domain, tuple(features or setting.features or setting.domain))
    weight = StepWeight.of(request.weight, space.diameter, width=request.width)
    return Local(space, weight, setting.output, space.read(request.record), placed(anchor, setting.output))


def resolve(request: LocalExplanation, setting: Setting, cost: Cost) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    require_delta(cost)
    request = request.published
    local = locate(request, request.anchor, setting, request.features)
    neighbours, rows, radius = setting.neighbours, setting.hint, request.radius
    seen = replace(local, anchor=None) if request.anchor is None else local
    wrong = ""
    if local.size > MOST_COORDINATES:
        wrong = f"{local.size} coordinates are too many: {MOST_COORDINATES} is the most."
    if neighbours.rows_public and rows is not None and rows < local.size:
        wrong = f"{rows} rows cannot tell the effects of {local.size} coordinates apart."
    if wrong:
        raise InputError(wrong, hint="name fewer features (a category counts as a coordinate)")
    closed = Moments.of(seen, neighbours.relation, radius)
    if request.method == "moments" or (request.method == "auto" and rows is None):
        return closed
    budget = setting.budget or Budget(1, 1e-6)
    steps, accounting = request.iterations, request.accounting
    path = descent.path_of(
        local, neighbours, budget, cost, rows, iterations=steps, radius=radius, accounting=accounting
    )
    if request.method == "gradient" or rows is None:
        return path
    noise = forecast(closed, neighbours, cost)["moments"]
    ours = closed.forecast_loss(_even_moments(closed.local), noise.std, rows)
    return closed if ours <= path_loss(path, neighbours, cost, rows) else path


def _even_moments(local: Local) -> Floats:
    """The mean moments of rows drawn evenly from the domain: what a forecast takes for those of the table."""
    space = local.space
    rows = PublicRandom(0).rows(Domain({name: space.domain[name] for name in space.features}), EVEN_ROWS)
    d, weights = local.seen(space.coordinates(rows.columns, rows.size))
    return np.asarray((d * weights[:, None]).T @ d / rows.size)


def outlook(request: LocalExplanation, setting: Setting, cost: Cost) -> Outlook:
    """The error of contributions to expect, and their intervals: `rehearsed` plays a release through."""
    spec = resolve(request, setting, cost)
    noise, space = next(iter(forecast(spec, setting.neighbours, cost).values())), spec.space
    if isinstance(spec, Descent):
        return path_outlook(spec, noise, setting.rows)

    def solve(table: LikelyTable, draw: PublicRandom | None) -> Callable[[Floats], Fit]:
        gram = table.scaled(spec.local.gram(table.coordinates, table.predictions))
        std = 1.0 if draw is None else noise.std
        fit = spec.fit(with_noise(np.array(spec.pack(gram), dtype=np.int64), std, draw).tolist(), std)
        return lambda _: fit

    return rehearsed(setting, space, cost, solve, noise.law.value, len(space.features), spec.local.record)


def path_outlook(spec: Descent, noise: Noise, rows: int) -> Outlook:
    """What the noise of all steps adds up to at most (`Descent.replay`), for the feature that it moves most. The delta
    that the paper's accounting depends on is taken to be 1e-6 where there is no account yet.
    """
    local, sigma = spec.local, noise.std / (spec.unit * rows)
    moved = spec.rate(sigma) * sigma * math.sqrt(sum(1 / t for t in range(1, spec.iterations + 1)))
    sizes = np.linalg.norm(local.space.lines(local.centre - local.space.middle), axis=1)
    std = moved * local.unit * float(sizes.max())
    half, band = (-float(ndtri((1 - level) / 2)) * std for level in (LEVEL, 1 - (1 - LEVEL) / len(sizes)))
    most, worst = spec.loss_bound(sigma), spec.largest_loss
    said = f"By Theorem 3.2 of the paper the mean loss ends at most {most:.3g} above its smallest"
    vacuous = f"; no loss within the ball is above {worst:.3g}, so that says nothing" if most >= worst else ""
    return Outlook(noise.law.value, len(sizes), std, half, band, note=f"{said}{vacuous}.")


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added (by method="moments"; `descent.diagram` shows the other one)."""
    stages = {
        "table": "private rows",
        "moments": "weighted sums of products of coordinates and predictions, around a public record",
        "average": "sums of coordinates and predictions",
        "solve": "the exact minimiser of the loss on a ball",
        "attributions": "contributions of features, intervals",
    }
    edges = [("table", "moments"), ("moments", "solve"), ("solve", "attributions")]
    edges += [("table", "average"), ("average", "attributions")]
    return DataFlow(stages, edges, name="Local explanation", noised=["moments", "average"])


def explain(table: PrivateTable, model: Model, request: LocalExplanation, *, cost: Cost) -> Attribution:
    """Release the local model around `request.record` for `cost`."""
    setting, request = Setting.of(table, model), request.published
    spec = resolve(request, setting, cost)
    predictor = table.predictor(model)
    if request.anchor == "prediction" or (request.anchor is None and isinstance(spec, Descent)):  # which cannot fit it
        anchor = prediction_of(request.record, spec.space.features, predictor, model.output)
        spec = resolve(request.but(anchor=anchor, method=spec.method), setting, cost)
    forecast(spec, table.neighbours, cost)  # a price too small is refused here, before anything is reserved

    def body(gate: Gate) -> None:
        if isinstance(spec, Descent):
            descent.send(table, gate, predictor, spec, cost, label=request.label)
            return
        gram, _ = descent.collect(table, gate, predictor, spec.local, cost, label=request.label)
        bound = sensitivity(spec, gate.neighbours)
        gate.noisy_sum("moments", spec.pack(gram), bound, cost * REST, mechanism=GAUSSIAN)

    receipt, payload = table.release(
        *("local-explanation", request.label, spec.to_json(), cost, body),
        public=["the explained record", "the model", "the weights"],
        outside=["the record that is explained"],
        model=model.identity,
    )
    own: float | None = None
    with suppress(InputError, ModelError):  # the model fails on the record, or the record lacks an input
        own = prediction_of(request.record, spec.space.features, predictor, model.output)
    return Attribution(receipt, payload, Asked(dict(spec.local.record), own))


def prediction_of(record: Any, features: Sequence[str], predictor: Predictor, output: PublicRange) -> float:
    """What the model itself says about a record, in its output range: public, because record and model are."""
    domain, named = predictor.domain, isinstance(record, Mapping) or hasattr(record, "to_dict")
    if not named and not set(predictor.features) <= set(features):
        raise InputError(
            "the model needs more columns of the record than those that are explained.",
            hint='give the record as a mapping with all of the model\'s inputs, or anchor="middle"',
        )
    space = Space(domain, tuple(predictor.features if named else features))
    row = Rows(domain, space.columns(space.read(record)), 1)
    value = float(predictor.predict_at(predictor.inputs(row), {})[0])
    if math.isnan(value):
        raise ModelError(
            "the model gives no number for the record.", hint='say what the local model passes through: anchor="middle"'
        )
    return min(max(value, output.low), output.high)


@of_wrapped
def local_explanation(
    table: PrivateTable,
    model: Model,
    record: Any,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    method: Literal["auto", "moments", "gradient", "paper"] = "auto",
    weight: NamedWeight | Callable[[float], float] = "stable",
    width: float = 1.0,
    anchor: Anchor | None = None,
    features: Sequence[str] | None = None,
    radius: float = 1.0,
    iterations: int | None = None,
    accounting: Literal["zcdp", "paper"] = "zcdp",
) -> Attribution:
    """What moved the model's prediction for one record, differentially private for the rows of `table`.

    The guarantee does not protect `record` itself. `requests.LocalExplanation` describes the options.
    """
    request = LocalExplanation(
        record=record,
        method=method,
        weight=weight,
        width=width,
        anchor=anchor,
        features=features,
        radius=radius,
        iterations=iterations,
        accounting=accounting,
    )
    return explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho))
