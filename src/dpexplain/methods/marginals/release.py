"""Differentially private histograms of several features in one release.

Guarantee    the account's definition and cost, for one unit replaced or added or removed. Public: the cells, the
             declared domain, and the number of rows under replace-one without units.
Statistic    for each feature, the number of rows in each public cell.
Sensitivity  a row is in one cell of each feature: `Sensitivity.of_counts(neighbours, number of features)`.
Release      one vector of counts with the noise law of the smallest forecast error. Non-negative counts with a common
             total are post-processing.
References   Dwork, McSherry, Nissim, Smith 2006.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dpexplain.core.budget import Cost
from dpexplain.core.domain import Numeric
from dpexplain.core.release import Gate
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.maths.grids import WHOLE_NUMBERS, partition_of
from dpexplain.methods import histogram
from dpexplain.methods.marginals.request import CELLS
from dpexplain.methods.marginals.request import MarginalsRequest as MarginalsRequest
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.marginals.spec import Spec as Spec
from dpexplain.methods.marginals.spec import forecast as forecast
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped


def resolve(request: MarginalsRequest, setting: Setting, cost: Cost) -> Spec:  # noqa: ARG001 - cells do not depend on it
    """The cells: one for each whole number where there are few, else as many as the request says."""
    partitions = []
    for feature in request.features or setting.domain:
        column = setting.domain.column(feature)
        few = isinstance(column, Numeric) and column.integer and column.values <= WHOLE_NUMBERS
        partitions.append(partition_of(feature, column, WHOLE_NUMBERS if few else request.cells))
    return Spec(tuple(partitions), request.mechanism)


def outlook(request: MarginalsRequest, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the counts."""
    noise = forecast(resolve(request, setting, cost), setting.neighbours, cost)["counts"]
    return Outlook(noise.law.value, noise.size, noise.std, noise.halfwidth(LEVEL), noise.band(LEVEL))


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "counts": "rows in each public cell of each feature",
        "histograms": "non-negative, with one total",
    }
    edges = [("table", "counts"), ("counts", "histograms")]
    return DataFlow(stages, edges, name="Marginals", noised=["counts"])


def explain(table: PrivateTable, model: Model | None, request: MarginalsRequest, *, cost: Cost) -> Marginals:  # noqa: ARG001 - of no model
    """Release the histograms of `request` for `cost`."""
    return release_cells(table, resolve(request, Setting.of(table), cost), request.label, cost)


def release_cells(table: PrivateTable, spec: Spec, label: str, cost: Cost) -> Marginals:
    """Release the histograms of these cells for `cost`."""
    forecast(spec, table.neighbours, cost)  # an unavailable mechanism is refused here, before anything is reserved

    def body(gate: Gate) -> None:
        histogram.send_counts(table, gate, spec.partitions, cost, label, spec.mechanism)

    return Marginals(*table.release("marginals", label, spec.to_json(), cost, body, public=["the cells"]))


@of_wrapped
def marginals(
    table: PrivateTable,
    features: Sequence[str] | None = None,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    cells: int = CELLS,
    mechanism: Literal["cube", "discrete-laplace", "discrete-gaussian"] | None = None,
) -> Marginals:
    """Differentially private histograms of `features` (all declared ones by default) for one cost.

    Paid once: hand the result to whatever needs to know where the rows are. `requests.Marginals` describes the options.
    """
    request = MarginalsRequest(features=features, cells=cells, mechanism=mechanism)
    return explain(table, None, request, cost=table.cost(epsilon=epsilon, rho=rho))
