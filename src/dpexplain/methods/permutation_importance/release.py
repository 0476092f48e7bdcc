"""Differentially private permutation feature importance: how much worse predictions become without a feature.

Guarantee    the account's definition and price, for one unit replaced, or added or removed. Marginals that are handed
             over were paid for before; their price comes on top, and the guarantee names it. Public: the model, its
             output range, the loss and its bound, the declared domain, and the number of rows under replace-one without
             units. Nothing is promised about the data the model was trained on.
Statistic    rows are dealt to small groups; every row is predicted again with feature j taken from other rows of its
             group, and d_j is the sum over the group of the mean change of the quantised loss. (With marginals, from a
             released histogram of that feature, and each row is a group of its own.) The vector d of a group is shrunk
             to a norm of at most C, and groups are added up. Beside that sum: that of its squares, from which chance is
             estimated; how far apart the cut-off changes of each group lie, which bounds what the limit took from any
             feature; the mean loss as the rows are (`base`), and the number of rows where it is private. C is chosen
             among public limits by a noisy selection: so that a wanted number of groups is shrunk.
Sensitivity  groups: a unit changes c of them, and each moves inside a ball of radius C: 2 c C, in the norm of the ball,
             which is the norm the noise is calibrated to (sum: Laplace, Euclidean: Gaussian, largest: cube). Rows by
             themselves: k C (add-remove) or 2 k C. Squares and what was cut off have bounds of the same kind.
             docs/methods/permutation-importance.md has the proofs.
Release      base, limit, changes, squares and what was cut off share one price. Means, intervals and the order are
             post-processing. `methods/permutation_importance/spec.py` has `statistic` and `sensitivity`, and the spec that
             they take; `methods/permutation_importance/forecast.py` has all that is chosen by forecast before any row is
             touched; `methods/permutation_importance/result.py` what intervals contain.
References   Breiman 2001; Fisher, Rudin, Dominici 2019; "Differentially Private Global Explanations", Lemma V.3
             (method="paper": one fixed permutation for each feature, sensitivity 2 K of each error, Laplace noise).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dpexplain.core.budget import Cost
from dpexplain.core.release import Gate
from dpexplain.data.assignment import assignment_for
from dpexplain.data.donors import Replaced, by_feature, by_group, by_permutation, gather
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.engines import map_sum
from dpexplain.methods.marginals import release as histograms
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.permutation_importance.forecast import forecast, resolve
from dpexplain.methods.permutation_importance.outlook import outlook as outlook
from dpexplain.methods.permutation_importance.request import PermutationImportance as PermutationImportance
from dpexplain.methods.permutation_importance.result import Importance, groups_for
from dpexplain.methods.permutation_importance.spec import (
    Integers,
    Spec,
    Sums,
    base_sensitivity,
    base_statistic,
    lost_sensitivity,
    paper_sensitivity,
    paper_statistic,
    score_range,
    sensitivity,
    squares_sensitivity,
    statistic,
)
from dpexplain.models import Model, Predictor
from dpexplain.models.arguments import of_wrapped
from dpexplain.receipts import receipt_for


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "rows": "changes of losses with values of other rows",
        "base": "sum of the losses as the rows are, and their number where it is private",
        "limit": "a limit that shrinks a wanted number of groups",
        "changes": "sum of the changes, each row's or group's limited",
        "lost": "sum of the largest changes that the limit cut off",
        "squares": "sum of the squares of limited changes",
        "importances": "division, order, intervals",
    }
    edges = [
        ("table", "rows"),
        ("table", "base"),
        ("rows", "limit"),
        ("rows", "changes"),
        *((part, other) for part in ("rows", "limit") for other in ("lost", "squares")),
        ("limit", "changes"),
        *((part, "importances") for part in ("limit", "changes", "base", "lost", "squares")),
    ]
    noised = ["base", "limit", "changes", "lost", "squares"]
    return DataFlow(stages, edges, name="Permutation importance", noised=noised)


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
        assignment=assignment_for(table.neighbours, None),  # rows with one id may give each other their values
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

    said = ["the loss", "the output range", "the model"]
    identity = {
        "explainer": "permutation-importance",
        "table": table.identity,
        "model": model.identity,
        "spec": spec.to_json(),
        "public": [*said, table.domain.describe(), *table.neighbours.public],
        **histograms.builds_on(marginals),
    }
    released = table.door.release(request.label, identity, cost, body)
    return Importance(receipt_for(table.budget, table.neighbours, released, table.domain), released.payload)


def send_changes(gate: Gate, spec: Spec, cost: Cost, exact: Integers, groups: int) -> None:
    """Choose the limit, then release what groups shrunk to it add up to. `exact` is the `statistic` of all rows."""
    prices, neighbours = spec.shares(cost), gate.neighbours
    lines, chosen = [Sums.read(line) for line in exact.reshape(len(spec.limits), -1)], 0
    if "limit" in prices:
        wanted, many = min(spec.shrunk, groups // 2), len(lines)
        scores = [-abs(sums.above - wanted) - spec.pull * (many - i) for i, sums in enumerate(lines)]
        chosen = gate.select("limit", scores, score_range(spec, neighbours), prices["limit"])[0]
    sums, bound = lines[chosen], sensitivity(spec, neighbours, spec.limits[chosen])
    gate.noisy_sum("changes", sums.changes, bound, prices["changes"], mechanism=spec.mechanism)
    if "lost" in prices:
        gate.noisy_sum("lost", [sums.lost], lost_sensitivity(spec, neighbours), prices["lost"])
    gate.noisy_sum("squares", sums.squares, squares_sensitivity(spec, neighbours), prices["squares"])


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
        gate.noisy_sum("errors", sums, bound, spec.shares(cost)["errors"], mechanism=spec.mechanism)

    def release_changes(self, gate: Gate, cost: Cost, marginals: Marginals | None) -> None:
        """Base, limit, changes. Groups are made and limits wanted by the *released* number of rows."""
        spec, table = self.spec, self.table
        kernel = partial(base_statistic, predictor=self.predictor, spec=spec)
        size = 2 if spec.count_weight else 1
        losses = table.map_sum(gate, kernel, self.columns, size=size, label=self.label, parallel=self.parallel)
        noisy = gate.noisy_sum("base", losses, base_sensitivity(spec, gate.neighbours), spec.shares(cost)["base"])
        count = max(1.0, noisy[-1] / spec.count_weight) if spec.count_weight else float(table.size or 1)
        groups = groups_for(count, spec.group)
        exact = self._group_sums(gate, groups) if marginals is None else self._row_sums(gate, marginals)
        send_changes(gate, spec, cost, exact, groups)

    def _group_sums(self, gate: Gate, groups: int) -> Integers:
        """Rows take their values from other rows of their group."""
        spec, gathered = self.spec, gather(self.table, gate, self.columns, self.spec.assignment)
        batches = by_group(gathered, groups, spec.features, spec.draws, spec.most, self.table.uniform)
        return self._sum(partial(statistic, predictor=self.predictor, spec=spec), batches)

    def _row_sums(self, gate: Gate, marginals: Marginals) -> Integers:
        """Rows take their values from released histograms."""
        spec = self.spec
        others = histograms.references(spec.features, marginals, self.table.domain)

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

    `epsilon` (or `rho`) is the whole price. Other values come from other rows, or from `marginals` that were released
    before. Options: see `requests.PermutationImportance`.
    """
    request = PermutationImportance(target=target, features=features, **options)
    return explain(table, model, request, cost=table.cost(epsilon=epsilon, rho=rho), marginals=marginals)
