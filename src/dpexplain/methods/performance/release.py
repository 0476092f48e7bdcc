"""Differentially private performance of a model or a score, for everybody and by group, from one release.

Guarantee    the account's definition and cost, for one unit replaced, or added or removed. Public: the model, its
             output range, the cells of scores and groups, the declared domain, and the number of rows under replace-one
             without units. Nothing is promised about the data the model was trained on.
Statistic    for each entry of groups, the number of rows in each (group, score cell, target 0 or 1); of several classes
             that for each class against the rest, and (group, predicted class, target). Of a regression, for each group
             the sums of errors, squared errors and the target, and counts and errors by cells of predictions. Of two
             classes also, where a forecast says that it is worth its cost, the rows in each (group, side of the
             threshold, target): a rate at the threshold then is no sum over many noisy cells.
Sensitivity  a row is in one cell of each histogram: `Sensitivity.of_counts`, for each of the two parts. Sums: a row
             adds a vector with at most 5 H + 2 numbers in {0..L}. `spec.sensitivity` has the proofs.
Release      one vector, or two with a share of the cost each, in one pass with one prediction for each row, with the
             noise law of the smallest forecast error. Every rate, curve, area, difference, ratio and interval is
             post-processing.
References   Hardt, Price, Srebro 2016; Fieller 1954 (rates); figures are named as in fairlearn and scikit-learn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from dpexplain.columns import Date
from dpexplain.core.budget import Cost
from dpexplain.core.domain import Categorical, Column, Numeric, PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.grids import partition_of
from dpexplain.methods.performance.request import PerformanceRequest as PerformanceRequest
from dpexplain.methods.performance.result import Performance
from dpexplain.methods.performance.spec import (
    BASE_RATE,
    LEVELS,
    WHOLE_SCORES,
    Crossing,
    auc_noise,
    cells_for,
    decisions,
    edges_of,
    side_noise,
    statistic,
    together,
    whole_edges,
)
from dpexplain.methods.performance.spec import Spec as Spec
from dpexplain.methods.performance.spec import forecast as forecast
from dpexplain.methods.performance.spec import sensitivity as sensitivity
from dpexplain.methods.setting import Outlook, Setting
from dpexplain.methods.targets import Target, target_of
from dpexplain.models import Model, Predictor
from dpexplain.models.arguments import of_wrapped
from dpexplain.models.classes import classes_of, identity_of
from dpexplain.models.pair import class_predictor

GROUP_CELLS = 4  # of a numeric column that rows are grouped by
MOST_GROUPS, FEW_GROUPS = 100, 8  # of one entry: at most; and so few are never refused, only not determined
UNDETERMINED = 0.5  # half-width of a rate that tells nothing
DECILES = 10  # cells of predictions of a regression
SHARES = tuple(Fraction(part, 8) for part in (0, 1, 2, 3, 4, 5))  # of the price, for decisions: the forecast picks one
RATES_BESIDE_AUC = 2  # a rate of a group may be off by so many times what AUC may; chosen on Adult and German credit


# From the request to the spec -----------------------------------------------------------------------------------------


def resolve(request: PerformanceRequest, setting: Setting, cost: Cost) -> Spec:
    """The public cells, from the request, the setting and the cost."""
    output, whole = _scores(request, setting)
    task, truth, positive = _task(request, setting)
    groups = crossings(request, setting)
    values = _categories(request, setting) if task == "classes" else ()
    classes = _classes(request, setting, values) if task == "classes" else ()
    threshold = None if task == "regression" else threshold_of(request, output, whole=whole)
    residual, bounds = _residual(request, setting, output) if task == "regression" else (0.0, None)
    spec = Spec(
        task=task,
        target=request.target,
        truth=truth,
        positive=positive,
        score=request.score,
        range=output,
        threshold=threshold,
        edges=(output.low, output.middle, output.high),
        exact=False,
        classes=classes,
        values=values,
        groups=groups,
        residual=residual,
        bounds=bounds,
        counted=bool(request.groups) or not setting.neighbours.rows_public,
        mechanism=request.mechanism,
    )

    def cut(cells: int) -> Spec:
        if whole:
            edges = whole_edges(int(output.low), int(output.high), cells, threshold)
            return replace(spec, edges=edges, exact=len(edges) - 2 == output.high - output.low)
        return replace(spec, edges=edges_of(output, cells, threshold))

    if task == "regression":
        return cut(request.cells or DECILES)
    shared = [replace(spec, decisions_share=share) for share in (SHARES if task == "binary" else SHARES[:1])]
    each = [(cut(request.cells or _cells(one, setting, cost)), one.decisions_share) for one in shared]
    return min((replace(one, decisions_share=share) for one, share in each), key=partial(_expected, setting, cost))


def _scores(request: PerformanceRequest, setting: Setting) -> tuple[PublicRange, bool]:
    """The range of scores, and whether they are whole numbers. That of a model is about one label; of all classes the
    scores are probabilities.
    """
    if request.score is None:
        return PublicRange(0.0, 1.0) if request.all_classes else setting.output, False
    column = setting.domain.column(request.score)
    if not isinstance(column, Numeric):
        raise InputError(
            f"the score {request.score!r} is categorical, and scores are numbers.",
            hint="declare it as dpx.Numeric(low, high, integer=True)",
        )
    if column.keeps_missing:
        raise InputError(
            f"the score {request.score!r} keeps missing values, and a missing score is neither high nor low.",
            hint="declare the number that a missing one becomes: missing=0",
        )
    return PublicRange(column.low, column.high), column.integer


def _task(request: PerformanceRequest, setting: Setting) -> tuple[str, Target | None, Any]:
    """What is measured: something that happened or did not, one of several classes, or a number."""
    column = setting.domain.column(request.target)
    positive = request.positive
    if positive is None and request.score is None:
        positive = setting.label
    if isinstance(column, Categorical) and len(column.categories) < 2:
        raise InputError(
            f"the target {request.target!r} has one declared class, so nothing can be told apart.",
            hint="declare all classes that it can have",
        )
    if request.all_classes:
        if not isinstance(column, Categorical):
            raise InputError(
                f"the target {request.target!r} is numeric, and all_classes is about classes.",
                hint="declare it as dpx.Categorical with the classes of the model",
            )
        task, truth, positive = "classes", None, None
    else:
        if positive is None and isinstance(column, Categorical):
            if set(column.categories) != {0, 1}:
                raise InputError(
                    f"the target {request.target!r} is categorical: say which of its values counts as positive.",
                    hint=f"positive={column.categories[-1]!r}, or all_classes for each class of a classifier",
                )
            positive = 1
        elif (
            positive is None and isinstance(column, Numeric) and column.integer and (column.low, column.high) == (0, 1)
        ):
            positive = 1
        truth = target_of(request.target, setting.domain, positive)
        task, positive = "regression" if positive is None else "binary", _declared(request.target, column, positive)
    if task == "regression" and request.threshold is not None:
        raise InputError(
            f"the target {request.target!r} is a number, and a regression has no threshold.",
            hint="leave it out, or say positive=... for the value that counts as positive",
        )
    if task != "regression" and request.largest_residual is not None:
        raise InputError("largest_residual is about regressions.", hint="leave it out")
    return task, truth, positive


def _declared(target: str, column: Column, positive: Any) -> Any:
    """A value of the target as it is declared: 1, 1.0 and True are one question, with one cost."""
    if positive is None:
        return None
    if isinstance(column, Categorical):
        return column.categories[column.categories.index(positive)]
    if not column.integer or positive != int(positive):
        raise InputError(
            f"the target {target!r} is no whole number, so hardly any row is exactly {positive!r}."
            if not column.integer
            else f"the target {target!r} is a whole number, and never {positive!r}.",
            hint="leave positive (and the model's label) out to judge a regression, or declare the target as a whole "
            "number or as dpx.Categorical",
        )
    return int(positive)


def threshold_of(request: PerformanceRequest, output: PublicRange, *, whole: bool) -> float:
    """From which score on a row counts as positive."""
    threshold = output.middle if request.threshold is None else request.threshold
    if not output.low < threshold <= output.high:
        raise InputError(
            f"the threshold must lie inside the range of scores, {output.low:g} to {output.high:g}; got {threshold!r}.",
            hint=f"threshold={output.middle:g} is its middle; a score of at least the threshold is positive",
        )
    return float(np.ceil(threshold)) if whole else float(threshold)


def _residual(request: PerformanceRequest, setting: Setting, output: PublicRange) -> tuple[float, tuple[float, float]]:
    column = setting.domain.column(request.target)
    assert isinstance(column, Numeric)
    most = max(column.high - output.low, output.high - column.low)
    return min(request.largest_residual or most, most), (column.low, column.high)


def crossings(request: PerformanceRequest, setting: Setting) -> tuple[Crossing, ...]:
    """The public groups of each entry; everybody where none are asked for."""
    return tuple(_crossing(entry, setting) for entry in request.by) or (Crossing(),)


def _crossing(names: Sequence[str], setting: Setting) -> Crossing:
    columns = [setting.domain.column(name) for name in names]
    if dates := [name for name, column in zip(names, columns, strict=True) if isinstance(column, Date)]:
        raise InputError(
            f"{dates[0]!r} is a date, and groups are made of numbers and categories.",
            hint="declare a column with the periods as categories, and group by it",
        )
    partitions = tuple(partition_of(name, column, GROUP_CELLS) for name, column in zip(names, columns, strict=True))
    crossing = Crossing(partitions, tuple(isinstance(column, Numeric) and column.integer for column in columns))
    if crossing.size > MOST_GROUPS:
        raise InputError(
            f"{' x '.join(names)} has {crossing.size} groups; at most {MOST_GROUPS} can be compared.",
            hint="name fewer columns, or declare fewer categories, with one for all others",
        )
    return crossing


def _categories(request: PerformanceRequest, setting: Setting) -> tuple[Any, ...]:
    column = setting.domain.column(request.target)
    assert isinstance(column, Categorical)
    return tuple(column.categories)


def _classes(request: PerformanceRequest, setting: Setting, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The model's classes, as the target spells them; without a model at hand, all declared ones."""
    if setting.model is None:
        return values
    classes = classes_of(setting.model)
    unknown = [name for name in classes if name not in values]
    if unknown:
        raise InputError(
            f"the model has a class {unknown[0]!r} that the target {request.target!r} does not declare."[:200],
            hint="declared are: " + ", ".join(map(repr, values[:20])),
        )
    return tuple(values[values.index(name)] for name in classes)


def _cells(spec: Spec, setting: Setting, cost: Cost) -> int:
    bound = Sensitivity.of_counts(setting.neighbours, spec.partitions)
    size = 2 * WHOLE_SCORES * spec.partitions  # about as many; no law that is taken depends on it
    std = best(bound, size, spec.prices(cost)["counts"], spec.mechanism).std
    return cells_for(std, together(spec.groups), setting.hint, _base(spec))


def _expected(setting: Setting, cost: Cost, spec: Spec) -> float:
    """What a share of the cost for decisions is judged by: the squared errors of AUC and of a group's rates. Both fall
    alike with the number of rows, so it does not matter.
    """
    stds, rows = _stds(forecast(spec, setting.neighbours, cost)), 1e9
    area = 1.96 * auc_noise(stds[0], spec.cells, together(spec.groups), rows, _base(spec), stds[1])
    return area**2 + (rate_halfwidth(spec, *stds, rows) / RATES_BESIDE_AUC) ** 2


def _stds(noise: Mapping[str, Noise]) -> tuple[float, float]:
    """Of the counts of cells, and of decisions where there are any."""
    return noise["counts"].std, noise["decisions"].std if "decisions" in noise else np.inf


def _base(spec: Spec) -> float:
    return 1 / max(len(spec.classes), 1 / BASE_RATE)


# Forecast -------------------------------------------------------------------------------------------------------------


def outlook(request: PerformanceRequest, setting: Setting, cost: Cost) -> Outlook:
    """The error to expect of the area under the curve (of the mean absolute error), with that of a group's rates."""
    spec = resolve(request, setting, cost)
    parts, groups, rows = forecast(spec, setting.neighbours, cost), together(spec.groups), max(setting.rows, 1)
    noise = next(iter(parts.values()))
    law, size, std = noise.law.value, sum(part.size for part in parts.values()), noise.std
    if spec.task == "regression":
        of_mean = std * np.sqrt(2 * min(c.size for c in spec.groups)) * spec.residual / (LEVELS * rows)
        note = (
            "The error is that of the mean absolute error and of the mean residual of all rows, in units of the target."
        )
        return Outlook(law, size, float(of_mean), 1.96 * float(of_mean), 1.96 * float(of_mean), note=note)
    _, decided = _stds(parts)
    area = auc_noise(std, spec.cells, groups, rows, _base(spec), decided)
    blur = 0.0 if spec.exact else 0.5 / spec.cells
    note = f"The error is that of the area under the ROC curve (AUC), for {_base(spec):.0%} positive rows."
    if request.groups:
        half = rate_halfwidth(spec, std, decided, rows)
        note += f" Rates of a group with an even share of the rows: ± {100 * min(half, 1):.2g} points."
        if half > UNDETERMINED:
            note += " That tells nothing; more than 8 groups are refused then."
    why = "they include that scores may lie anywhere in their cells" if blur else ""
    error = 1.96 * area
    return Outlook(law, size, area, error, error, note=note, interval=error + blur if blur else None, wider=why)


def rate_halfwidth(spec: Spec, std: float, decided: float, rows: float) -> float:
    """Half of the width of a rate's interval, such as the true positive rate, in the largest number of groups that one
    entry has, for a group with an even share of the rows: both sides of the threshold add noise.
    """
    positive = max(_base(spec) * rows / max(crossing.size for crossing in spec.groups), 1.0)
    return 1.96 * side_noise(std, spec.cells, decided) * float(np.sqrt(2)) / (2 * positive)


def _require_rows(spec: Spec, table: PrivateTable, cost: Cost) -> None:
    """Refuse groups of which nothing would be learned, by public things: how many there are, and about how many rows in
    all. How small a group really is, nobody is told.
    """
    many = [crossing for crossing in spec.groups if crossing.size > FEW_GROUPS]
    if spec.task == "regression" or table.rows_hint is None or not many:
        return
    stds = _stds(forecast(spec, table.neighbours, cost))
    for crossing in many:
        half = rate_halfwidth(replace(spec, groups=(crossing,)), *stds, table.rows_hint)
        if half > UNDETERMINED:
            raise InputError(
                f"{' x '.join(crossing.columns)} has {crossing.size} groups: with this epsilon, even with equal shares "
                "of the rows, no rate of a group could be told from any other.",
                hint="name fewer columns, declare fewer categories, use cells=2 (rates at one threshold only), or pay "
                "a larger epsilon",
            )


# Release --------------------------------------------------------------------------------------------------------------


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "scores": "one score for each row",
        "counts": "rows in each (group, score cell, target); or sums of errors",
        "decisions": "rows in each (group, side of the threshold, target), where they are worth their cost",
        "figures": "rates, curves, areas, differences, intervals",
    }
    edges = [("table", "scores")]
    for counted in ("counts", "decisions"):
        edges += [("table", counted), ("scores", counted), (counted, "figures")]
    return DataFlow(stages, edges, name="Performance", noised=["counts", "decisions"])


def explain(table: PrivateTable, model: Model | None, request: PerformanceRequest, *, cost: Cost) -> Performance:
    """Release the performance of `request` for `cost`."""
    if (model is None) == (request.score is None):
        raise InputError(
            "performance is about a model or about a column that holds the score: name one of them.",
            hint='dpx.performance(table, model, "target", ...) or dpx.performance(table, "score", "target", ...)',
        )
    setting = Setting.of(table, model)
    spec = resolve(request, setting, cost)  # what is wrong is found before the model is asked anything
    predictor = None if model is None else _predictor(table, model, request)
    forecast(spec, table.neighbours, cost)  # an unavailable mechanism is refused here, before anything is reserved
    _require_rows(spec, table, cost)

    def body(gate: Gate) -> None:
        kernel, columns = partial(statistic, spec=spec, predictor=predictor), spec.columns(predictor)
        parallel = model is None or model.thread_safe
        exact = table.sum_rows(gate, kernel, columns, size=spec.size, label=request.label, parallel=parallel)
        prices = spec.prices(cost)
        if spec.task == "regression":
            bound = sensitivity(spec, gate.neighbours)
            gate.noisy_sum("sums", exact, bound, prices["sums"], mechanism=spec.mechanism)
            return
        counted = partial(gate.noisy_counts, partitions=spec.partitions, mechanism=spec.mechanism)
        counted("counts", exact, prices["counts"])
        if "decisions" in prices:
            counted("decisions", decisions(exact, spec), prices["decisions"])

    public = ["the cells of scores and groups"] if model is None else ["the model", "the cells of scores and groups"]
    about: dict[str, Any] = (
        {} if model is None else {"model": identity_of(model) if request.all_classes else model.identity}
    )
    return Performance(*table.release("performance", request.label, spec.to_json(), cost, body, public=public, **about))


def _predictor(table: PrivateTable, model: Model, request: PerformanceRequest) -> Predictor:
    if request.all_classes and model.every_class:
        return class_predictor(table, model)
    predictor = table.predictor(model)
    return class_predictor(table, model) if request.all_classes else predictor


@of_wrapped
def performance(
    table: PrivateTable,
    model: Model | str | None,
    target: str,
    groups: Sequence[str | Sequence[str]] = (),
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    score: str | None = None,
    threshold: float | None = None,
    positive: str | int | float | bool | None = None,
    all_classes: bool = False,
    largest_residual: float | None = None,
    cells: int | None = None,
    mechanism: Literal["cube", "discrete-laplace", "discrete-gaussian"] | None = None,
) -> Performance:
    """How good `model` predicts `target`, for everybody and for each of `groups`, with differential privacy.

    `model` may be the name of a declared column that holds the score. One release answers everything: rates at any
    threshold, ROC and AUC, calibration, fairness figures. `requests.Performance` describes the options.
    """
    if isinstance(model, str):
        if score is not None:
            raise InputError("a score is named twice: as the model, and by score=.", hint="leave one of them out")
        model, score = None, model
    request = PerformanceRequest(
        target=target,
        groups=groups,
        score=score,
        threshold=threshold,
        positive=positive,
        all_classes=all_classes,
        largest_residual=largest_residual,
        cells=cells,
        mechanism=mechanism,
    )
    return explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho))
