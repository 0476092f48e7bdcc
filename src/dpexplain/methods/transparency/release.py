"""Differentially private transparency reports: what made the model decide as it did about a person, and what did not.

Guarantee    the account's definition and cost, for one unit replaced or added or removed; any number of persons can be
             reported on for one cost. Public: the model, its output range, the cells, the declared domain, and the
             number of rows under replace-one without units. The persons' own records are the caller's: not protected.
Statistic    for each cell of each feature the number of rows ("counts"), and the sum of their quantised outcomes in
             {0..K} less K/2 ("outcomes"). A class has the outcomes 0 and K.
Sensitivity  counts: `Sensitivity.of_counts`. Outcomes: a row adds a number in {-K/2..K/2} to one cell of each of p
             features: norms p K/2, sqrt(p) K/2 and K/2, which `Sensitivity.of_norms` turns into bounds for each
             relation. All of them are attained (docs/methods/transparency.md).
Release      both parts with the laws of the smallest forecast error, the cost split so that the number of rows with a
             positive outcome in a cell is forecast best. Influences, association measures, intervals and words are
             post-processing. With marginals that were released before, only the outcomes are paid for; without a
             cost, the report has no associations, and is free.
References   Datta, Sen, Zick, "Algorithmic Transparency via Quantitative Input Influence" 2016, Table II and Fig. 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.release import Gate, split
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.grids import CELLS, cells_of
from dpexplain.methods import histogram as histograms
from dpexplain.methods.influence.forecast import known_rows
from dpexplain.methods.influence.persons import Inquiry, question_of
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.methods.transparency.request import TransparencyRequest as TransparencyRequest
from dpexplain.methods.transparency.result import TransparencyReport, TransparencyReports
from dpexplain.methods.transparency.spec import Spec, forecast, sensitivity, statistic
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped
from dpexplain.models.outcomes import Asker
from dpexplain.receipts import Receipt

SHARES = tuple(Fraction(tenths, 10) for tenths in range(2, 9))  # of the price that may go to the outcomes


def resolve(request: TransparencyRequest, setting: Setting, cost: Cost) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    domain, neighbours, known = setting.domain, setting.neighbours, setting.marginals
    question = question_of(request, setting)
    features, outcome = question.names, question.outcome
    if known is not None:
        partitions = tuple(known.histogram(feature).partition for feature in features)
        return Spec(partitions, outcome, Fraction(1), known.receipt.entry.payload_hash, request.mechanism)
    cells = cells_of(features, domain, request.cells or CELLS)

    def positives(share: Fraction) -> float:
        """The variance of a cell's number of positive outcomes: centred outcomes and half of the count."""
        noise = forecast(Spec(cells, outcome, share, None, request.mechanism), neighbours, cost)
        return (noise["outcomes"].std / outcome.range.levels) ** 2 + noise["counts"].std ** 2 / 4

    spec = Spec(cells, outcome, min(SHARES, key=positives), None, request.mechanism)
    if request.cells is not None:
        return spec
    noise = forecast(spec, neighbours, cost)["counts"]
    return replace(spec, partitions=histograms.fine_cells(features, domain, noise, known_rows(setting.hint)))


def outlook(request: TransparencyRequest, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the share of positive outcomes among a tenth of the rows, all of one cell."""
    spec = resolve(request, setting, cost)
    parts, rows = forecast(spec, setting.neighbours, cost), setting.rows / 10
    outcomes, output, known = parts["outcomes"], spec.outcome.range, setting.marginals
    counts = parts["counts"] if known is None else known.part("counts")[1]

    def reach(moved: float, counted: float) -> float:
        """A rate is one half and the centred outcome by rows; at the edge of its range the count moves it as much."""
        return output.width * float(np.hypot(moved / output.levels, counted / 2)) / rows

    return Outlook(
        law=outcomes.law.value,
        points=len(spec.partitions),
        std=reach(outcomes.std, counts.std),
        error=reach(outcomes.halfwidth(LEVEL), counts.halfwidth(LEVEL)),
        band=reach(outcomes.band(LEVEL), counts.band(LEVEL)),
        rug_error=counts.halfwidth(LEVEL),
    )


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "counts": "rows in each public cell of each feature",
        "outcomes": "sum of the centred outcomes in each cell",
        "influences": "the model's answers for the person with other values, by the released shares",
        "associations": "who has the person's value, and how often their outcome is positive",
        "report": "sentences, bars, intervals",
    }
    edges = [("table", "counts"), ("table", "outcomes"), ("counts", "influences"), ("counts", "associations")]
    edges += [("outcomes", "associations"), ("influences", "report"), ("associations", "report")]
    return DataFlow(stages, edges, name="Transparency report", noised=["counts", "outcomes"])


def explain(
    table: PrivateTable,
    model: Model,
    request: TransparencyRequest,
    *,
    cost: Cost | None,
    marginals: Marginals | None = None,
) -> TransparencyReports:
    """The reports on all persons of the request, for `cost`; without a cost, from `marginals` alone."""
    inquiry = Inquiry.of(request, table, model)
    if marginals is not None:
        histograms.known_marginals(table, marginals, inquiry.question.names)
    if cost is not None:
        receipt, payload = _released(table, request, inquiry, cost, marginals)
    elif marginals is not None:
        receipt, payload = marginals.receipt, marginals.released
    else:
        raise InputError(
            "a report needs epsilon or rho, or marginals that were released before.",
            hint="epsilon=0.5; or marginals=, which makes a report without associations free",
        )
    known = Marginals(receipt, payload) if marginals is None else marginals
    earlier = None if known.receipt is receipt else known
    return TransparencyReports([TransparencyReport(receipt, payload, one, earlier) for one in inquiry.answers(known)])


def _released(
    table: PrivateTable, request: TransparencyRequest, inquiry: Inquiry, cost: Cost, marginals: Marginals | None
) -> tuple[Receipt, JsonObject]:
    """Pay for the counts and the outcomes (or only for these); the same request again is answered from the ledger."""
    model, asker = inquiry.model, Asker(inquiry.predictor, inquiry.question.outcome)
    spec = resolve(request, Setting.of(table, model, marginals=marginals), cost)
    forecast(spec, table.neighbours, cost)  # an unavailable mechanism is refused here, before anything is reserved
    columns = list(dict.fromkeys([*asker.predictor.features, *(p.feature for p in spec.partitions)]))

    def body(gate: Gate) -> None:
        kernel, size = partial(statistic, asker=asker, spec=spec), histograms.size_of(spec.partitions)
        sums = table.sum_rows(gate, kernel, columns, size=2 * size, label=request.label, parallel=model.thread_safe)
        outcomes, counts = split(cost, spec.share)
        if spec.marginals is None:
            gate.noisy_counts("counts", sums[:size], counts, partitions=len(spec.partitions), mechanism=spec.mechanism)
        gate.noisy_sum("outcomes", sums[size:], sensitivity(spec, gate.neighbours), outcomes, mechanism=spec.mechanism)

    return table.release(
        "transparency-report",
        request.label,
        spec.to_json(),
        cost,
        body,
        public=["the cells", "the output range", "the model"],
        outside=["the record of the person who is explained"],
        model=model.identity,
        **histograms.builds_on(marginals),
    )


@of_wrapped
def transparency_report(
    table: PrivateTable,
    model: Model,
    row: Any,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    marginals: Marginals | None = None,
    features: Sequence[str] | None = None,
    quantity: Literal["individual", "actual"] = "individual",
    aggregate: Literal["shapley", "banzhaf", "unary"] = "shapley",
    outcome: Literal["class", "score"] | None = None,
    threshold: float | None = None,
    cells: int | None = None,
    samples: int | None = None,
    exact: bool | None = None,
    seed: int = 0,
    mechanism: Literal["cube", "discrete-laplace", "discrete-gaussian"] | None = None,
) -> TransparencyReport | TransparencyReports:
    """What made the model decide as it did about a person, differentially private for the rows of `table`.

    row        the person: a mapping, a pandas Series or a DataFrame of one line; or a DataFrame of several persons, for
               `TransparencyReports` of one cost. Later persons are free: the same request is answered from the ledger
    marginals  released before: then only the associations are paid for; without epsilon there are none, and it is free

    The guarantee does not protect the persons' own records. `requests.TransparencyReport` describes the options.
    """
    request = TransparencyRequest(
        features=features, quantity=quantity, aggregate=aggregate, outcome=outcome, threshold=threshold, cells=cells,
        samples=samples, exact=exact, seed=seed, mechanism=mechanism, row=row,
    )  # fmt: skip
    free = epsilon is None and rho is None and marginals is not None
    cost = None if free else table.cost(epsilon=epsilon, rho=rho)
    reports = explain(table, model, request, cost=cost, marginals=marginals)
    return reports if len(reports) > 1 else reports[0]
