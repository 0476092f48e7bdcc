"""Differentially private differences: of two models on one table, or of one model on two versions of a table.

Guarantee    the account's definition and cost, for one unit replaced (its number of rows public) or added or removed.
             Public: both models, the grid, the groups, the loss, the output ranges, the declared domain, and the number
             of rows under replace-one without units. Nothing is promised about the data the models were trained on.
Statistic    two models: sums over rows of public functions of a row: differences of predictions at grid points, changes
             of differences of losses, or counts of rows by both decisions. `spec.py` has them.
             Two versions of a table: the statistic of the request (of rates, that of a performance), of each version,
             for half of the cost each.
Sensitivity  two models: that of one model with the range of the difference (`spec.py`, docs/methods/compare.md).
             Two versions: the same person may be in both, so both releases are charged to the one account of all
             versions, and add up to the cost.
Release      means, order and intervals are post-processing, as for single models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dpexplain.core.budget import Cost
from dpexplain.core.release import Gate
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.tails import combined_halfwidth
from dpexplain.methods.compare.request import Compare as Compare
from dpexplain.methods.compare.result import DifferenceCurve, ImportanceDifference, RateDifferences
from dpexplain.methods.compare.spec import (
    CELLS,
    LossDifference,
    Rates,
    difference_range,
    rates_forecast,
    rates_statistic,
)
from dpexplain.methods.compare.versions import VersionDifference, between_versions
from dpexplain.methods.curves import Curve, Curves
from dpexplain.methods.partial_dependence import release as dependence
from dpexplain.methods.partial_dependence.request import PartialDependence
from dpexplain.methods.performance.release import crossings, threshold_of
from dpexplain.methods.performance.request import PerformanceRequest
from dpexplain.methods.permutation_importance import release as importance
from dpexplain.methods.permutation_importance.outlook import outlook as importance_outlook
from dpexplain.methods.permutation_importance.request import PermutationImportance
from dpexplain.methods.result import Result
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.methods.targets import target_of
from dpexplain.models import Model, ModelPair, predictor_of
from dpexplain.models.arguments import of_wrapped

USUAL_GROUP = 0.5  # of the rows that a rate is about, for forecasts: those where it happened


def of_difference(request: Compare, setting: Setting) -> Setting:
    """The setting of a model whose answers are differences."""
    return replace(setting, output=difference_range(setting.output, request.limit), model=None)


def resolve_rates(request: PerformanceRequest, setting: Setting) -> Rates:
    """The concrete cells. Reads nothing but public things."""
    label = setting.label if request.positive is None else request.positive
    truth = target_of(request.target, setting.domain, label)
    if not truth.binary:
        raise InputError(
            f"rates are about something that happens or does not, and {request.target!r} is a number.",
            hint="positive= names the value of the target that counts as one",
        )
    if setting.features is not None and request.target in setting.features:
        raise InputError(
            f"a model uses {request.target!r}, which is the target it is measured by.",
            hint="say which columns the models use with Model(features=[...])",
        )
    return Rates(
        target=request.target,
        truth=truth,
        threshold=threshold_of(request, setting.output, whole=False),
        output=setting.output,
        groups=crossings(request, setting),
    )


def outlook(request: Compare, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move differences of two models in a table of about this many rows."""
    asked = request.request
    if isinstance(asked, PartialDependence):
        return dependence.outlook(asked, of_difference(request, setting), cost)
    if isinstance(asked, PermutationImportance):
        one = importance_outlook(asked, replace(setting, model=None), cost)
        wide = {name: 2 * value for name in FIGURES if (value := getattr(one, name)) is not None}
        return replace(one, **wide, note=f"Told is what twice the range of one loss costs. {one.note}".strip())
    spec = resolve_rates(asked, setting)
    noise = rates_forecast(spec, setting.neighbours, cost)
    # a difference of rates near zero, among half of the rows of one of the groups: two counts, over their number
    rows = max(1.0, USUAL_GROUP * setting.rows / max(crossing.size for crossing in spec.groups))
    half = combined_halfwidth([(noise, np.ones(2))], 0.0, LEVEL) / rows
    each = combined_halfwidth([(noise, np.ones(2))], 0.0, 1 - (1 - LEVEL) / (spec.size / 2)) / rows
    return Outlook(noise.law.value, spec.size // CELLS * 4, 2**0.5 * noise.std / rows, half, each)


FIGURES = ("std", "error", "band", "interval")


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "difference": "what both models say about each row, one less the other",
        "sums": "sums of differences, or counts by both decisions",
        "result": "division, intervals of the difference",
    }
    edges = [("table", "difference"), ("difference", "sums"), ("sums", "result")]
    return DataFlow(stages, edges, name="Comparison", noised=["sums"])


def explain(table: PrivateTable, model: ModelPair, request: Compare, *, cost: Cost) -> Result | Curves:
    """Release how the second model differs from the first."""
    pair, asked, label = ModelPair.of(model), request.request, request.label
    setting = Setting.of(table, pair)
    if isinstance(asked, PartialDependence):
        spec = dependence.resolve(asked, of_difference(request, setting), cost)
        return dependence.released(table, pair, asked, spec, cost, "compare", label, DifferenceCurve)
    pair = replace(pair, separately=True)
    if isinstance(asked, PermutationImportance):
        losses = importance.resolve(asked, setting, cost, LossDifference)
        return importance.released(table, pair, losses, cost, "compare", label, ImportanceDifference)
    return _rates(table, pair, resolve_rates(asked, setting), cost, label)


def _rates(table: PrivateTable, pair: ModelPair, spec: Rates, cost: Cost, label: str) -> RateDifferences:
    rates_forecast(spec, table.neighbours, cost)  # refuses what the account does not allow
    predictor = predictor_of(table, pair)

    def body(gate: Gate) -> None:
        kernel, columns = partial(rates_statistic, predictor=predictor, spec=spec), spec.columns(predictor)
        counts = table.sum_rows(gate, kernel, columns, size=spec.size, label=label, parallel=pair.thread_safe)
        gate.noisy_counts("counts", counts, cost, partitions=len(spec.groups))

    public = ["the groups", "the threshold", "the output range", "both models"]
    return RateDifferences(
        *table.release("compare", label, spec.to_json(), cost, body, public=public, model=pair.identity)
    )


def compare(
    table: PrivateTable | Sequence[PrivateTable],
    model: Model | Sequence[Model],
    request: Any,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    limit: float | None = None,
) -> Result | Curve | Curves:
    """How two models, or two versions of a table, differ, with differential privacy: the second less the first.

    Two models on one table, `compare(table, [old, new], request)`: what is released is the difference itself. One
    model on two versions of a table, `compare([before, after], model, request)`: both are released, each for half of
    the cost, and the interval is that of the difference. `epsilon` (or `rho`) is the whole cost. `request` says what
    is compared: `requests.PartialDependence`, `requests.PermutationImportance` or `requests.Performance`.
    `limit` is by how much the predictions of two models for one row may differ.
    """
    asked = Compare(request=request, limit=limit)
    if not isinstance(table, PrivateTable) and isinstance(table, list | tuple):
        return _versions(table, model, asked, epsilon, rho)
    one: Any = table  # anything else is told what to wrap
    found = _explained(one, model, asked, epsilon, rho)
    return found[0] if isinstance(found, Curves) and asked.request.single else found


@of_wrapped
def _explained(table: PrivateTable, models: Any, request: Compare, epsilon: Any, rho: Any) -> Result | Curves:
    return explain(table, ModelPair.of(models), request, cost=table.cost(epsilon=epsilon, rho=rho))


def _versions(tables: Sequence[Any], model: Any, request: Compare, epsilon: Any, rho: Any) -> VersionDifference:
    if request.limit is not None:
        raise InputError("a limit belongs to the curves of two models.", hint="leave limit= out")
    if not all(isinstance(one, PrivateTable) for one in tables) or len(tables) != 2:
        raise InputError(
            "give two versions of a table, the older one first.", hint="[before, after] in the place of the table"
        )
    if not isinstance(model, Model):
        raise InputError(
            "two versions of a table are compared by one model.",
            hint="compare two models on one table, or one model on two tables",
        )
    before, after = tables
    if isinstance(request.request, PerformanceRequest):
        for table in tables:
            resolve_rates(request.request, Setting.of(table, model))  # refuses what has no rates
    cost = after.cost(epsilon=epsilon, rho=rho)
    return between_versions(before, after, model, request, cost * Fraction(1, 2))
