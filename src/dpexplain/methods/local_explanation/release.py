"""Differentially private local explanation of one record: the linear model that fits best nearby.

Guarantee    rho-zCDP for one unit replaced (its number of rows public) or added or removed. Public: the explained
             record, the model, the weight of a row by its distance, the declared domain, and the number of rows under
             replace-one without units. The guarantee protects the rows of the table, not the record that is explained,
             and nothing is promised about the data the model was trained on.
Statistic    method="moments": A = sum y y' and b = sum t y, whole numbers for sqrt(weight) (x - z) and
             sqrt(weight) (f(x) - anchor) of every row x; all that the quadratic loss around z depends on.
             method="gradient": gradients of that loss along a path, see `descent`.
             Besides, with either: the sums behind the average person that contributions are counted from.
Sensitivity  `surrogate.moments` has the proof, from what one row can be at every distance: for the stable weight, 13
             columns and a given anchor 0.41 (add-remove) or 0.73 (replace-one) of one squared level. Of the average:
             `surrogate.average`.
Release      both with discrete Gaussian noise, a twentieth of the price for the average person. The exact minimiser on
             a ball, its attributions and intervals are post-processing. "auto" takes the method with the smaller
             forecast loss, from public numbers only.
References   "Model Explanations with Differential Privacy" (loss, weights, Algorithm 1); Ribeiro et al. 2016.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpexplain.core.budget import Budget, Cost, Definition
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, Domain, PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError, ModelError, VerificationError
from dpexplain.maths.surrogate import Fit, Local, Space, StepWeight, Weight, moments
from dpexplain.maths.surrogate import descent as paths
from dpexplain.maths.surrogate.average import REST, SHARE, Average
from dpexplain.maths.surrogate.moments import Moments
from dpexplain.methods import averages
from dpexplain.methods.attributions import READERS, Attribution
from dpexplain.methods.local_explanation import descent
from dpexplain.methods.local_explanation.descent import Descent, check_radius, require_zcdp
from dpexplain.methods.local_explanation.outlook import WIDER, LikelyTable, told, with_noise
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.models import Model, Predictor
from dpexplain.models.arguments import of_wrapped
from dpexplain.receipts import receipt_for

Floats = NDArray[np.float64]
Spec = Moments | Descent

NAME = "local-explanation"
METHODS = ("auto", "moments", "gradient")
LABEL = "local explanation of one record"
MOST_COORDINATES = 4_096  # the moments have half as many numbers as their square
EVEN_ROWS = 1024  # drawn from the domain, where a forecast needs to know how rows lie


@dataclass(frozen=True, kw_only=True)
class LocalExplanation:
    """The request: everything about the release that a caller decides.

    record      whose prediction is explained: a mapping, a pandas Series, or values in the order of the features
    method      "moments", "gradient" (Algorithm 1 of the paper), or "auto": the one with the smaller forecast loss
    weight      how much a row counts by its distance: "stable", "exponential", "gaussian", or a function
    width       of a named weight, in units of the coordinates (every feature is 1 wide)
    anchor      what the local model says at the record: a number, the model's own "prediction", or the "middle" of the
                output range (the loss of the paper). Left out, it is fitted with the rest; the gradient method cannot,
                and takes the prediction
    features    that take part (default: the model's inputs)
    radius      of the ball of coefficients; 1 is the paper's. With a fitted value the ball holds that value too, and is
                as much wider: hypot(radius, 2.5)
    iterations, accounting   of method="gradient": steps (default: by forecast), and "zcdp" or the "paper"'s noise
    """

    record: Any
    method: str = "auto"
    weight: Weight = "stable"
    width: float = 1.0
    anchor: float | str | None = None
    features: Sequence[str] | None = None
    radius: float = 1.0
    iterations: int | None = None
    accounting: str = "zcdp"

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(f"unknown method {self.method!r}.", hint=f"one of {', '.join(METHODS)}")
        if isinstance(self.features, str) or (self.features is not None and not list(self.features)):
            raise InputError("features must be a list of names.", hint='features=["age", "sex"], or leave it out')
        number = isinstance(self.anchor, int | float) and not isinstance(self.anchor, bool)
        if not (self.anchor in (None, "prediction", "middle") or number):
            raise InputError(f'anchor must be a number, "prediction" or "middle"; got {self.anchor!r}.')
        if self.method != "gradient" and (self.iterations is not None or self.accounting != "zcdp"):
            raise InputError('iterations and accounting belong to method="gradient".')
        check_radius(self.radius)

    @property
    def label(self) -> str:
        return LABEL


def statistic(rows: Rows, predictor: Predictor, local: Local, average: Average) -> NDArray[np.int64]:
    """The exact sums of one batch, those of the average person first: no noise, no budget, no randomness."""
    predictions = predictor.predict_at(predictor.inputs(rows), {})
    coordinates = local.space.coordinates(rows.columns, rows.size)
    return np.concatenate([average.sums(coordinates, predictions), local.gram(coordinates, predictions)])


def sensitivity(spec: Moments, neighbours: Neighbours) -> Sensitivity:
    """From the public request alone, so it cannot depend on the data."""
    return Sensitivity.of_distance(neighbours, spec.size, spec.bound(neighbours))


def locate(
    request: LocalExplanation, domain: Domain, output: PublicRange, inputs: Sequence[str], anchor: float
) -> Local:
    """The record and how rows count for it. Reads nothing but public things."""
    space = _space(request, domain, inputs)
    weight = StepWeight.of(request.weight, space.diameter, width=request.width)
    return Local(space, weight, output, space.read(request.record), anchor)


def resolve(
    request: LocalExplanation, local: Local, neighbours: Neighbours, budget: Budget, cost: Cost, rows: int | None
) -> Spec:
    """The concrete spec of a request; `rows` is a public number of rows, or a guess."""
    require_zcdp(budget)
    if local.size > MOST_COORDINATES:
        raise InputError(
            f"{local.size} coordinates are too many: {MOST_COORDINATES} is the most.",
            hint="name fewer features (a category counts as a coordinate)",
        )
    if neighbours.rows_public and rows is not None and rows < local.space.size:
        raise InputError(
            f"{rows} rows cannot tell the effects of {local.space.size} coordinates apart.",
            hint="name fewer features (a category counts as a coordinate)",
        )
    seen = replace(local, anchor=None) if request.anchor is None else local
    closed = Moments.of(seen, neighbours.relation, check_radius(request.radius))
    if request.method == "moments" or (request.method == "auto" and rows is None):
        return closed
    path = descent.resolve(
        local,
        neighbours,
        budget,
        cost,
        rows,
        iterations=request.iterations,
        radius=request.radius,
        accounting=request.accounting,
    )
    if request.method == "gradient" or rows is None:
        return path
    noise = forecast(closed, neighbours, cost)["moments"]
    ours = closed.forecast_loss(_even_moments(closed.local), noise.std, rows)
    return closed if ours <= descent.forecast_loss(path, neighbours, cost, rows) else path


def method_of(spec: Spec) -> str:
    return "gradient" if isinstance(spec, Descent) else "moments"


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this price. Costs nothing, touches no data."""
    if isinstance(spec, Descent):
        return descent.forecast(spec, neighbours, cost)
    return {
        "moments": best(sensitivity(spec, neighbours), spec.size, cost * REST, Law.GAUSSIAN.value),
        **averages.forecast(descent.average_of(spec.local, neighbours), neighbours, cost),
    }


def _even_moments(local: Local) -> Floats:
    """The mean moments of rows drawn evenly from the domain: what a forecast takes for those of the table."""
    space = local.space
    rows = PublicRandom(0).rows(Domain({name: space.domain[name] for name in space.features}), EVEN_ROWS)
    d, weights = local.seen(space.coordinates(rows.columns, rows.size))
    mean: Floats = (d * weights[:, None]).T @ d / rows.size
    return mean


def outlook(request: LocalExplanation, setting: Setting, cost: Cost) -> Outlook:
    """The error of contributions to expect, and their intervals: `local_outlook` plays a release through.

    Of a path of descent only what the noise of all steps adds up to is told, for the feature that it moves most. The
    delta that the paper's accounting depends on is taken to be 1e-6.
    """
    output, neighbours = setting.output, setting.neighbours
    budget = Budget(1, 1e-6) if cost.definition is Definition.ZCDP else Budget(1)
    inputs = list(setting.domain) if setting.features is None else setting.features
    anchor = request.anchor if isinstance(request.anchor, int | float) else output.middle
    local = locate(request, setting.domain, output, inputs, anchor)
    spec = resolve(request, local, neighbours, budget, cost, setting.hint)
    noise, space = next(iter(forecast(spec, neighbours, cost).values())), local.space
    if isinstance(spec, Descent):
        sizes = np.linalg.norm(space.lines(local.centre - space.middle), axis=1)
        std = _path_deviation(spec, noise, setting.rows) * local.unit * float(sizes.max())
        half, band = (-float(ndtri((1 - level) / 2)) * std for level in (LEVEL, 1 - (1 - LEVEL) / len(sizes)))
        return Outlook(noise.law.value, len(sizes), std, half, band)
    closed = spec

    def solve(table: LikelyTable, draw: PublicRandom | None) -> Callable[[Floats], Fit]:
        gram = table.scaled(closed.local.gram(table.coordinates, table.predictions))
        std = 1.0 if draw is None else noise.std
        values = with_noise(np.array(closed.pack(gram), dtype=np.int64), std, draw)
        fit = closed.fit(values.tolist(), std)
        return lambda _: fit

    error, interval, band = told(setting, space, cost, solve, local.record)
    return Outlook(
        law=noise.law.value,
        points=len(space.features),
        std=error / 2,
        error=error,
        band=band,
        interval=interval,
        wider=WIDER,
    )


def _path_deviation(spec: Descent, noise: Noise, rows: int) -> float:
    """What the noise of all steps adds up to at most, see `surrogate.descent.replay`."""
    sigma = noise.std / (spec.slope.unit * rows)
    return spec.slope.rate(sigma) * sigma * math.sqrt(sum(1 / t for t in range(1, spec.iterations + 1)))


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
    require_zcdp(table.budget)
    domain, output = table.domain, model.output
    _space(request, domain, model.features(domain)).read(request.record)
    predictor = table.predictor(model)
    setting = (table.neighbours, table.budget, cost, table.rows_hint)
    local = locate(request, domain, output, predictor.features, output.middle)
    spec = resolve(request, local, *setting)
    if request.anchor is not None or isinstance(spec, Descent):  # only then the value at the record is not fitted
        local = replace(local, anchor=anchor_of(request, predictor, domain, output))
        spec = resolve(replace(request, method=method_of(spec)), local, *setting)
    forecast(spec, table.neighbours, cost)  # a price too small is refused here, before anything is reserved

    def body(gate: Gate) -> None:
        if isinstance(spec, Descent):
            descent.send(table, gate, predictor, spec, cost, label=request.label, parallel=model.thread_safe)
            return
        columns = list(dict.fromkeys([*predictor.features, *local.space.features]))
        n, average = spec.local.size, descent.average_of(spec.local, gate.neighbours)
        kernel = partial(statistic, predictor=predictor, local=spec.local, average=average)
        size = average.size + n * (n + 1)
        sums = table.map_sum(gate, kernel, columns, size=size, label=request.label, parallel=model.thread_safe)
        averages.send(gate, average, sums[: average.size], cost)
        bound = sensitivity(spec, gate.neighbours)
        gate.noisy_sum("moments", spec.pack(sums[average.size :]), bound, cost * REST, mechanism=Law.GAUSSIAN.value)

    public = ["the explained record", "the model", "the weights", domain.describe(), *table.neighbours.public]
    identity = {
        "explainer": NAME,
        "table": table.identity,
        "model": model.identity,
        "spec": {"method": method_of(spec), **spec.to_json(), "average": str(SHARE)},
        "public": public,
        "outside": ["the record that is explained"],
    }
    released = table.door.release(request.label, identity, cost, body)
    receipt = receipt_for(table.budget, table.neighbours, released, table.domain)
    own = own_prediction(request, predictor, domain, output)
    settings = {"record": dict(local.record)} | ({} if own is None else {"prediction": own})
    return Attribution(receipt, released.payload, settings)


def own_prediction(
    request: LocalExplanation, predictor: Predictor, domain: Domain, output: PublicRange
) -> float | None:
    """What the model itself says about the record; None where it fails on it, or where the record lacks an input."""
    try:
        return anchor_of(replace(request, anchor="prediction"), predictor, domain, output)
    except (InputError, ModelError):
        return None


def _space(request: LocalExplanation, domain: Domain, inputs: Sequence[str]) -> Space:
    return Space(domain, tuple(inputs if request.features is None else request.features))


def anchor_of(request: LocalExplanation, predictor: Predictor, domain: Domain, output: PublicRange) -> float:
    """What the local model says at the record, in units of the output: public, because record and model are."""
    if request.anchor == "middle":
        return output.middle
    if isinstance(request.anchor, int | float):
        value = float(request.anchor)
        if not output.low <= value <= output.high:
            raise InputError(f"anchor={value:g} lies outside the output range {output.low:g} to {output.high:g}.")
        return value
    value = float(predictor.predict_at(predictor.inputs(_one_row(request, predictor.features, domain)), {})[0])
    if math.isnan(value):
        raise ModelError(
            "the model gives no number for the record.", hint='say what the local model passes through: anchor="middle"'
        )
    return min(max(value, output.low), output.high)


def _one_row(request: LocalExplanation, inputs: Sequence[str], domain: Domain) -> Rows:
    """The record as the model sees it."""
    explained = _space(request, domain, inputs)
    point = explained.read(request.record)
    if not set(inputs) <= set(point):
        if not isinstance(request.record, Mapping) and not hasattr(request.record, "to_dict"):
            raise InputError(
                "the model needs more columns of the record than those that are explained.",
                hint='give the record as a mapping with all of the model\'s inputs, or anchor="middle"',
            )
        point = Space(domain, tuple(inputs)).read(request.record)
    columns: dict[str, NDArray[Any]] = {}
    for name in inputs:
        column = domain[name]
        if isinstance(column, Categorical):
            columns[name] = np.array([column.categories.index(point[name])], dtype=np.int32)
        else:
            columns[name] = np.array([point[name]])
    return Rows(domain, columns, 1)


def read(request: JsonObject, released: JsonObject, settings: JsonObject) -> Fit:
    """The local model of a release by either method; of the record that it was released for, and no other."""
    if settings.get("record") != request["spec"]["record"] or set(settings) - {"record", "prediction"}:
        raise VerificationError("this attribution was released for another record.")
    reader: dict[str, Callable[..., Fit]] = {"moments": moments.read, "gradient": paths.read}
    return reader[request["spec"]["method"]](request, released, settings)


READERS[NAME] = read


@of_wrapped
def local_explanation(
    table: PrivateTable, model: Model, record: Any, *, epsilon: Any = None, rho: Any = None, **options: Any
) -> Attribution:
    """What moved the model's prediction for one record, differentially private for the rows of `table`.

    The guarantee does not protect `record` itself. Options: see `requests.LocalExplanation`.
    """
    request = LocalExplanation(record=record, **options)
    return explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho))
