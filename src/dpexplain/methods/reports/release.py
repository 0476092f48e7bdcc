"""One page for people about a model and a table, for one cost.

Guarantee    that of a batch (docs/decisions/0035-batches.md): the total cost, for one unit replaced or added or
             removed. Everything on the page that no release says is read off released values, the public model and
             synthetic rows: free. Which columns it is about was chosen by public rows alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpexplain.core.domain import Categorical
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError
from dpexplain.methods.batches.release import release_batch
from dpexplain.methods.influence.person import PersonInfluence
from dpexplain.methods.influence.persons import person_influence
from dpexplain.methods.influence.request import InfluenceRequest
from dpexplain.methods.reports.plan import ReportForecast, plan_report
from dpexplain.methods.reports.request import ReportRequest
from dpexplain.methods.reports.result import Report
from dpexplain.methods.reports.wanted import FREE
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped
from dpexplain.models.predictor import frame_of

if TYPE_CHECKING:
    from dpexplain.methods.batches.result import Batch
    from dpexplain.methods.posterior import Posterior
    from dpexplain.methods.stand_in.result import StandIn

CANDIDATES, SEED = 500, 3  # synthetic rows that persons are chosen from
DIGITS = 3  # of a synthetic person's number
NO_PERSONS = "Synthetic persons: there is no stand-in, or the columns cannot be replaced one by one."


@of_wrapped
def report(
    table: PrivateTable,
    model: Model,
    target: str | None = None,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    positive: str | int | float | bool | None = None,
    groups: Sequence[str | Sequence[str]] = (),
    compared: Mapping[str, Any] | None = None,
    features: Sequence[str] | None = None,
    most_features: int = 8,
    sections: Sequence[str] | None = None,
    persons: int = 3,
    clustering: Any = None,
    weights: Mapping[str, float] | None = None,
    title: str | None = None,
) -> Report:
    """A page about a model and a table, for one cost that forecasts divide between its sections.

    target    the declared column that the model predicts; without one nobody asks how good it is
    positive  its value that counts as positive, where it is no number; by default the model's label
    groups    columns whose values are compared: how good the model is for each, how predictions differ, and why
    compared  the group whose difference to all others is explained; by default the last value of the first column of
              groups that has two
    features  columns whose effects are shown; by default `most_features` that move the public model most over their
              declared ranges. What is left out stands on the page
    sections  some of performance, importance, effects, interactions, groups, clusters, persons
    weights   how much the error of a section matters, beside 1 for the others: {"effects": 2}
    persons   how many synthetic persons are explained, free

    `dpx.plan(dpx.requests.Report(...), table=table, model=model, epsilon=...)` shows the division and the errors before
    anything is spent. The same report again is answered from the ledger, free.
    """
    request = ReportRequest(
        target=target, positive=positive, groups=groups, compared=compared, features=features,
        most_features=most_features,
        sections=sections, persons=persons, title=title,
    )  # fmt: skip
    forecast = plan_report(request, table, model, epsilon=epsilon, rho=rho, clustering=clustering, weights=weights)
    return release_report(forecast)


def release_report(forecast: ReportForecast) -> Report:
    """Release what was planned; refused where it would show noise alone."""
    forecast.require_hope()
    asked = forecast.wanted
    batch = release_batch(forecast.question, forecast.batch, asked.requests)
    request, table, model = asked.request, forecast.question.table, forecast.question.model
    count = request.persons if FREE in asked.sections else 0
    persons = synthetic_persons(table, model, batch.stand_in, count)
    missing = (NO_PERSONS,) if count and not persons else ()
    return Report(
        title=request.title or f"What {model.name} does, and for whom: {table.name}",
        results=(*batch.results, *persons),
        left_out=(*asked.left_out, *missing, *forecast.doubts),
        persons_asked=count,
        forecast=forecast,
        how_read=partial(_posterior, batch),
        replayed=batch.receipt.replayed,
    )


def synthetic_persons(table: PrivateTable, model: Model, stand_in: StandIn | None, count: int) -> list[PersonInfluence]:
    """What moves the model for synthetic rows that are far apart in what it says. Free: from released histograms."""
    if stand_in is None or stand_in.marginals is None or not count:
        return []
    names = model.features(table.domain)
    drawn = stand_in.draw(CANDIDATES, SEED)
    clean = {name: _rounded(table.domain[name], drawn[name]) for name in names}
    rows = Rows(table.domain, clean, CANDIDATES)
    predictor = model.checked(table.domain)
    order = np.argsort(np.nan_to_num(predictor.predict_at(predictor.inputs(rows), {})), kind="stable")
    chosen = [int(order[int((place + 0.5) / count * CANDIDATES)]) for place in reversed(range(count))]
    records = frame_of(table.domain, names, rows).iloc[chosen].to_dict("records")
    try:
        return [_person(table, model, stand_in, record) for record in records]
    except InputError:  # columns that cannot be replaced one by one
        return []


def _person(table: PrivateTable, model: Model, stand_in: StandIn, record: dict[Any, Any]) -> PersonInfluence:
    row = {name: None if value != value else value for name, value in record.items()}
    request = InfluenceRequest(quantity="individual", row=row, outcome="score")
    return person_influence(table, model, request, cost=None, marginals=stand_in.marginals)


def _rounded(column: Any, values: Any) -> Any:
    """Numbers as people would write them: a few digits of the range."""
    if isinstance(column, Categorical) or column.integer:
        return values
    digits = DIGITS - 1 - math.floor(math.log10(column.high - column.low))
    return np.clip(np.round(values, digits), column.low, column.high)


def _posterior(batch: Batch) -> Posterior:
    return batch.posterior
