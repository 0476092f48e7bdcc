"""Differentially private permutation feature importance: how much worse predictions become without a feature.

Guarantee    the account's definition and price, for one unit replaced, or added or removed, the histograms that it buys
             included. Marginals that are handed over were paid for before; their price comes on top, and the guarantee
             names it. Public: the model, its output range, the loss and its bound, the cells, the declared domain, and
             the number of rows under replace-one without units. Nothing is promised about the data the model was
             trained on.
Statistic    every row is predicted again with feature j drawn from a released histogram of that feature; d_j is the
             mean change of the quantised loss. The vector d of a row is shrunk to a norm of at most C, and rows are
             added up. The mean loss as the rows are (`base`) is released too, and the number of rows where it is
             private. C is chosen among public limits by a noisy selection: so that a wanted number of rows is shrunk.
             Where the price is too small for histograms, rows are dealt to small groups instead; feature j is taken
             from other rows of the group, and d is the sum over its rows.
Sensitivity  rows by themselves: k C (add-remove) or 2 k C, in the norm of the ball, which is the norm the noise is
             calibrated to (sum: Laplace, Euclidean: Gaussian, largest: cube). Groups: a unit changes c of them, and
             each moves inside a ball of radius C: 2 c C. docs/methods/permutation-importance.md has the proofs.
Release      histograms ("counts"), base, limit and changes share one price; with marginals that were released before,
             only the others do. Means, intervals and the order are post-processing.
             `explainers/importance_statistic.py` has `statistic` and `sensitivity`, and the spec that they take;
             `explainers/importance_forecast.py` has all that is chosen by forecast before any row is touched.
References   Breiman 2001; Fisher, Rudin, Dominici 2019; "Differentially Private Global Explanations", Lemma V.3
             (method="paper": one fixed permutation for each feature, sensitivity 2 K of each error, Laplace noise).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dpexplain.core.budget import Cost
from dpexplain.core.release import Gate, split
from dpexplain.data.donors import Replaced, by_feature, by_group, by_permutation, gather
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.engine import map_sum
from dpexplain.explainers import marginals as histograms
from dpexplain.explainers.importance_forecast import forecast, resolve
from dpexplain.explainers.importance_request import PermutationImportance as PermutationImportance
from dpexplain.explainers.importance_statistic import (
    Integers,
    Spec,
    base_sensitivity,
    base_statistic,
    paper_sensitivity,
    paper_statistic,
    score_range,
    sensitivity,
    statistic,
)
from dpexplain.explainers.outlook import LEVEL, Outlook, Setting
from dpexplain.models import Model, Predictor
from dpexplain.models.arguments import of_wrapped
from dpexplain.reference import Reference
from dpexplain.results import Marginals
from dpexplain.results.base import receipt_for
from dpexplain.results.importance import Importance, gap_halfwidth, groups_for


def outlook(request: PermutationImportance, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the importances in a table of about this many rows.

    Told for a limit of one whole loss, or for `clip`; the limit that will be chosen is often smaller, and the noise
    with it. What a noisy number of rows adds is a share of the importance itself, and left out; so is how far noisy
    histograms move it.
    """
    neighbours = setting.neighbours
    spec = resolve(
        request, setting.domain, setting.output, neighbours, setting.hint, cost,
        label=setting.label, uses=setting.features, marginals=setting.marginals,
    )  # fmt: skip
    parts = forecast(spec, neighbours, cost)
    noise = parts["errors" if spec.paper else "changes"]
    unit, law, points = spec.loss.range.width / (spec.loss.range.levels * setting.rows), noise.law.value, noise.size
    if spec.paper:  # differences from the base, which is as noisy as an error
        error, band = gap_halfwidth(noise, LEVEL), 2 * noise.band(LEVEL)
        return Outlook(law, points - 1, math.sqrt(2) * noise.std * unit, error * unit, band * unit)
    error = noise.halfwidth((1 + LEVEL) / 2 if spec.count_weight else LEVEL)
    rug = parts["counts"].halfwidth(LEVEL) if "counts" in parts else None
    return Outlook(law, points, noise.std * unit, error * unit, noise.band(LEVEL) * unit, rug_error=rug)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "counts": "rows in each public cell of each feature",
        "rows": "changes of losses with other values, of the histograms or of other rows in a small group",
        "base": "sum of the losses as the rows are, and their number where it is private",
        "limit": "a limit that shrinks a wanted number of rows or groups",
        "changes": "sum of the changes, each row's or group's limited",
        "importances": "division, order, intervals; the histograms, to be used again",
    }
    edges = [
        ("table", "counts"),
        ("counts", "rows"),
        ("table", "rows"),
        ("table", "base"),
        ("rows", "limit"),
        ("rows", "changes"),
        ("limit", "changes"),
        ("limit", "importances"),
        ("changes", "importances"),
        ("base", "importances"),
        ("counts", "importances"),
    ]
    return DataFlow(stages, edges, name="Permutation importance", noised=["counts", "base", "limit", "changes"])


def explain(
    table: PrivateTable,
    model: Model,
    request: PermutationImportance,
    *,
    cost: Cost,
    marginals: Marginals | None = None,
) -> Importance:
    """Release the importances of `request` for `cost`."""
    if marginals is not None:
        histograms.known_marginals(table, marginals)
    spec = resolve(
        request,
        table.domain,
        model.output,
        table.neighbours,
        table.rows_hint,
        cost,
        label=model.label,
        uses=model.features(table.domain),
        assignment=table.assignment,
        marginals=marginals,
    )
    forecast(spec, table.neighbours, cost)  # an unavailable mechanism is refused here, before anything is reserved
    predictor = table.predictor(model)
    job = _Job(table, predictor, spec, request.label, model.thread_safe)

    def body(gate: Gate) -> None:
        if spec.paper:
            job.release_errors(gate, cost)
        else:
            job.release_changes(gate, cost, marginals)

    said = ["the loss", "the output range", "the model", *(["the cells"] if spec.partitions else [])]
    identity = {
        "explainer": "permutation-importance",
        "table": table.identity,
        "model": model.identity,
        "spec": spec.to_json(),
        "public": [*said, table.domain.describe(), *table.neighbours.public],
        **histograms.builds_on(marginals),
    }
    released = table.door.release(request.label, identity, cost, body)
    return Importance(receipt_for(table.budget, table.neighbours, released), released.payload)


def send_changes(gate: Gate, spec: Spec, cost: Cost, found: Integers, groups: int) -> None:
    """Choose the limit, then release the sums of groups shrunk to it. `found` is the `statistic` of all rows."""
    _, limit_cost, changes_cost = spec.shares(cost)
    many, M = len(spec.limits), len(spec.features)
    sums, above, chosen = found[: many * M].reshape(many, M), found[many * M :], 0
    if many > 1:
        wanted = min(spec.shrunk, groups // 2)
        scores = [-abs(int(number) - wanted) - spec.pull * (many - i) for i, number in enumerate(above)]
        chosen = gate.select("limit", scores, score_range(spec, gate.neighbours), limit_cost)[0]
    bound = sensitivity(spec, gate.neighbours, spec.limits[chosen])
    gate.noisy_sum("changes", sums[chosen], bound, changes_cost, mechanism=spec.mechanism)


@dataclass(frozen=True)
class _Job:
    """One release under way: what its passes over the rows share."""

    table: PrivateTable
    predictor: Predictor
    spec: Spec
    label: str
    parallel: bool

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys([*self.predictor.features, *self.spec.features, self.spec.target.column]))

    def release_errors(self, gate: Gate, cost: Cost) -> None:
        """The published design: errors under fixed permutations, and the base, with Laplace noise."""
        spec = self.spec
        batches = by_permutation(gather(self.table, gate, self.columns), spec.features, spec.seed)
        sums = self._sum(partial(paper_statistic, predictor=self.predictor, spec=spec), batches)
        bound = paper_sensitivity(spec, gate.neighbours)
        gate.noisy_sum("errors", sums, bound, spec.shares(cost)[2], mechanism=spec.mechanism)

    def release_changes(self, gate: Gate, cost: Cost, marginals: Marginals | None) -> None:
        """Histograms, base, limit, changes. Groups are made and limits wanted by the *released* number of rows."""
        spec, table = self.spec, self.table
        others = self._others(gate, cost, marginals)
        kernel = partial(base_statistic, predictor=self.predictor, spec=spec)
        size = 2 if spec.count_weight else 1
        losses = table.map_sum(gate, kernel, self.columns, size=size, label=self.label, parallel=self.parallel)
        noisy = gate.noisy_sum("base", losses, base_sensitivity(spec, gate.neighbours), spec.shares(cost)[0])
        count = max(1.0, noisy[-1] / spec.count_weight) if spec.count_weight else float(table.size or 1)
        groups = groups_for(count, spec.group)
        found = self._row_sums(gate, others) if spec.drawn else self._group_sums(gate, groups)
        send_changes(gate, spec, cost, found, groups)

    def _others(self, gate: Gate, cost: Cost, marginals: Marginals | None) -> dict[str, Reference]:
        """The histograms that other values are drawn from: of earlier marginals, or released here; none for groups."""
        spec, table = self.spec, self.table
        if marginals is not None:
            return histograms.references(spec.features, marginals, table.domain)
        if not spec.partitions:
            return {}
        counts_cost, _ = split(cost, spec.marginals_share)
        return histograms.send_counts(table, gate, spec.partitions, counts_cost, self.label)

    def _group_sums(self, gate: Gate, groups: int) -> Integers:
        """Rows take their values from other rows of their group."""
        spec, gathered = self.spec, gather(self.table, gate, self.columns)
        batches = by_group(gathered, groups, spec.features, spec.draws)
        return self._sum(partial(statistic, predictor=self.predictor, spec=spec), batches)

    def _row_sums(self, gate: Gate, others: Mapping[str, Reference]) -> Integers:
        """Rows take their values from released histograms."""
        spec = self.spec

        def kernel(rows: Rows) -> Integers:
            return statistic(by_feature(rows, others, spec.draws, self.table.uniform), self.predictor, spec)

        return self.table.map_sum(gate, kernel, self.columns, size=spec.size, label=self.label, parallel=self.parallel)

    def _sum(self, kernel: Callable[[Replaced], Integers], batches: Iterator[Replaced]) -> Integers:
        return map_sum(
            kernel, batches, size=self.spec.size, label=self.label, total=self.table.size, parallel=self.parallel
        )


@of_wrapped
def permutation_importance(
    table: PrivateTable,
    model: Model,
    target: str,
    *,
    features: Sequence[str] | None = None,
    epsilon: Any = None,
    rho: Any = None,
    marginals: Marginals | None = None,
    **options: Any,
) -> Importance:
    """Differentially private permutation importance of `features` (all that the model uses by default).

    `epsilon` (or `rho`) is the whole price. Other values come from `marginals` that were released before; or from those
    that a part of the price buys, which the result has for later use; or, where the price is too small for that beside
    so many rows, from other rows. Options: see `requests.PermutationImportance`.
    """
    request = PermutationImportance(target=target, features=features, **options)
    return explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho), marginals=marginals)
