"""`dpexplain clusters`: what tells the clusters of a table apart. The clustering is the project's, or paid for here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpexplain.cli.explain import Price, Task, left_for, prepare_folder, publish, records
from dpexplain.cli.project import Project
from dpexplain.cli.report import Reporter, text
from dpexplain.clusters import dp_kmeans
from dpexplain.clusters.explain import ClustersRequest, check_noise, explain, resolve
from dpexplain.core.budget import Cost
from dpexplain.data.table import PrivateTable
from dpexplain.errors import BudgetError, DpexplainError, InputError
from dpexplain.render import text as words
from dpexplain.results import Result

LEAD = "for each cluster the columns that tell it from the rest, and how their values are spread inside and outside"


def clusters(
    reporter: Reporter,
    project: Path,
    *,
    kmeans: int | None,
    kmeans_epsilon: float | None,
    attributes: Sequence[str],
    price: Price,
    out: Path,
    options: dict[str, Any],
) -> None:
    found = Project.load(project)
    if (kmeans is None) != (kmeans_epsilon is None):
        raise InputError("--kmeans and --kmeans-epsilon belong together.", hint="--kmeans 5 --kmeans-epsilon 1")
    if (kmeans is None) == (not found.has_clustering):
        raise InputError(
            "give either --kmeans K, or a [clustering] in the project file, not both."
            if found.has_clustering
            else "there is no clustering to explain.",
            hint='--kmeans 5 --kmeans-epsilon 1, or [clustering] import = "module:function" in the project file',
        )
    domain, budget = found.domain(), found.budget()
    cost = price.cost(budget)
    request = ClustersRequest(attributes=list(dict.fromkeys(attributes)) or None, **options)
    for name in attributes:
        domain.column(name)
    ready = None if kmeans is not None else found.clustering(domain)
    prepare_folder(out)
    table = found.table(domain, analyst=price.analyst)
    results: list[Result] = []
    if ready is None:
        assert kmeans is not None
        _require_both(table, request, kmeans, cost, budget.cost(epsilon=kmeans_epsilon), price.analyst)
        ready = dp_kmeans(table, kmeans, epsilon=kmeans_epsilon)
        assert ready.result is not None
        results.append(ready.result)
    try:
        results.insert(0, explain(table, ready, request, cost=cost))
    except DpexplainError as error:
        if results and not results[0].receipt.replayed:  # the clusters were found and paid for
            error.spent = (
                f"{budget.describe(results[0].receipt.cost)} was spent on k-means, whose clusters are in the ledger."
            )
        raise
    task = Task(request, explain, "Clusters", LEAD)
    files = publish(results, out, task, table.name, budget.describe(cost))
    after = table.ledger.statement(table.name)
    for result in results:
        reporter.show(words.result_view(result), "")
    reporter.show(
        *(f"{text(r.receipt.label)}: {_paid(r)}." for r in results),
        f"Left: {text(words.left_text(budget, left_for(after, price.analyst)))}.",
        f"Files: {text(out)}/index.html, and for each result a .png and a .json with its receipt (`dpexplain verify`).",
    )
    reporter.finish(
        {
            "account": table.name,
            "labels": list(ready.labels),
            "left": after.left.to_json(),
            "guarantee": results[0].receipt.guarantee,
            "spent_now": not all(result.receipt.replayed for result in results),
            "results": [
                {"kind": r.kind, "json": str(path), "png": str(path.with_suffix(".png")), "table": records(r)}
                for r, path in zip(results, files, strict=True)
            ],
            "page": str(out / "index.html"),
        }
    )


def _require_both(
    table: PrivateTable, request: ClustersRequest, k: int, cost: Cost, first: Cost, analyst: str | None
) -> None:
    """Refuse what cannot be explained, or not be paid for, before clusters are paid for."""
    labels = [str(number) for number in range(k)]
    spec = resolve(request, table.domain, labels, table.neighbours, table.rows_hint, cost)
    check_noise(spec, table.neighbours, cost)
    left = left_for(table.ledger.statement(table.name), analyst)
    if not first + cost <= left:
        raise BudgetError(
            f"k-means and explanation together cost {table.budget.describe(first + cost)}; "
            f"left is {words.left_text(table.budget, left)}.",
            hint="use smaller prices",
        )


def _paid(result: Result) -> str:
    if result.receipt.replayed:
        return "already released, answered from the ledger, free"
    return f"spent {result.receipt.budget.describe(result.receipt.cost)}"
