"""Differentially private quantiles of one numeric feature, all of them in one release.

Guarantee    the account's definition and cost, for one unit replaced or added or removed. Public: the cells, the
             probabilities, the declared domain, and the number of rows under replace-one without units.
Statistic    the number of rows in each public cell. Every row is then spread evenly over S equal parts of its cell, so
             that many equal values are no obstacle. A position c (parts below it) of a range with probability p
             relative to the range's ends has the score -|D below(c) - D p total|, counted in S-ths of a row.
Sensitivity  one row moves a score by at most S max(D p, D - D p) up or down, and its shares in the disjoint ranges of a
             level add up to one: see `sensitivity`. docs/methods/quantiles.md has the proof.
Release      level by level: the middle probability over the whole range, then the middle ones of both halves within the
             ranges just released. Each level is one `select_each`, for an equal part of the cost. Where the number of
             rows is private, a twentieth of the cost releases it. Values and intervals are post-processing.
References   Kaplan, Schnapp, Stemmer 2022 ("Differentially private approximate quantiles").
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from dpexplain.core.budget import Cost
from dpexplain.core.release import Gate, split
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.methods.histogram import statistic
from dpexplain.methods.quantiles.request import CELLS
from dpexplain.methods.quantiles.request import QuantilesRequest as QuantilesRequest
from dpexplain.methods.quantiles.result import Quantiles
from dpexplain.methods.quantiles.spec import Spec, expected_error, forecast, ladder_of, select_quantiles
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.models import Model
from dpexplain.models.arguments import of_wrapped

COUNT_SHARE = Fraction(1, 20)


def resolve(request: QuantilesRequest, setting: Setting, cost: Cost) -> Spec:  # noqa: ARG001 - cells do not depend on it
    """The concrete spec of a request. Reads nothing but public things."""
    ladder = ladder_of(request.feature, setting.domain, request.probs, request.cells)
    return Spec(ladder, Fraction(0) if setting.neighbours.rows_public else COUNT_SHARE)


def outlook(request: QuantilesRequest, setting: Setting, cost: Cost) -> Outlook:
    """How far ranks will be off, all at once, as a share of the rows; for evenly spread rows."""
    spec = resolve(request, setting, cost)
    error = expected_error(spec, setting.neighbours, cost, setting.rows, LEVEL)
    return Outlook("selection", len(spec.ladder.probs), error / 2, error, error)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "cells": "rows in each public cell",
        "levels": "the position nearest to each wanted rank, level by level",
        "count": "the number of rows, where it is private",
        "quantiles": "values and intervals",
    }
    edges = [
        ("table", "cells"),
        ("cells", "levels"),
        ("cells", "count"),
        ("levels", "quantiles"),
        ("count", "quantiles"),
    ]
    return DataFlow(stages, edges, name="Quantiles", noised=["levels", "count"])


def explain(table: PrivateTable, model: Model | None, request: QuantilesRequest, *, cost: Cost) -> Quantiles:  # noqa: ARG001 - of no model
    """Release the quantiles of `request` for `cost`."""
    spec = resolve(request, Setting.of(table), cost)
    forecast(spec, table.neighbours, cost)  # a price that is too small is refused here, before anything is reserved
    ladder, cells = spec.ladder, [spec.ladder.partition]

    def body(gate: Gate) -> None:
        kernel = partial(statistic, partitions=cells)
        counts = table.sum_rows(gate, kernel, [ladder.feature], size=ladder.partition.size, label=request.label)
        count_cost, levels_cost = split(cost, spec.count_share)
        select_quantiles(gate, counts, ladder, levels_cost)
        if spec.count_share:
            gate.noisy_counts("count", [int(counts.sum())], count_cost)

    public = ["the cells", "the probabilities"]
    return Quantiles(*table.release("quantiles", request.label, spec.to_json(), cost, body, public=public))


@of_wrapped
def quantiles(
    table: PrivateTable,
    feature: str,
    probs: Sequence[float],
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    cells: int = CELLS,
) -> Quantiles:
    """Differentially private quantiles of a numeric feature at increasing probabilities, for one cost.

    `requests.Quantiles` describes the options.
    """
    request = QuantilesRequest(feature=feature, probs=probs, cells=cells)
    return explain(table, None, request, cost=table.cost(epsilon=epsilon, rho=rho))
