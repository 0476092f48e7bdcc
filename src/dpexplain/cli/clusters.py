"""`dpexplain clusters`: what tells the clusters of a table apart. The clustering is the project's, or paid for here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dpexplain.cli.options import Call, Price, once, option
from dpexplain.cli.release import left, listed, show_results, where
from dpexplain.cli.report import text
from dpexplain.errors import BudgetError, DpexplainError, InputError
from dpexplain.project.file import Project
from dpexplain.project.run import left_for, prepare_folder, publish

if TYPE_CHECKING:
    from dpexplain.core.budget import Cost
    from dpexplain.data.table import PrivateTable
    from dpexplain.methods.clusters.request import Clusters
    from dpexplain.methods.result import Result

LEAD = "for each cluster the columns that tell it from the rest, and how their values are spread inside and outside"


def clusters(
    *,
    kmeans: Annotated[int | None, option("--kmeans", "K", "Find K clusters first, by private k-means.")] = None,
    kmeans_epsilon: Annotated[float | None, option("--kmeans-epsilon", "E", "The price of finding them.")] = None,
    attribute: Annotated[
        list[str] | None, option("--attribute", "NAME", "A column that may explain. May be repeated. Default: all.")
    ] = None,
    price: Price,
    per_cluster: Annotated[int, option("--per-cluster", "L", "How many columns explain each cluster.")] = 1,
    method: Annotated[str, option("--method", "NAME", "one-stage, or two-stage.")] = "one-stage",
    bounds: Annotated[str, option("--bounds", "NAME", "tight, or paper.")] = "tight",
    call: Call,
) -> None:
    """Explain clusters: the columns that tell each of them from the rest, with histograms.

    The clustering is a function named in the project's [clustering], which must come from public knowledge or from a
    private release; or --kmeans finds one, paid from the same account.

        dpexplain clusters --kmeans 5 --kmeans-epsilon 1 --epsilon 0.5
    """
    from dpexplain.methods.clusters.release import explain
    from dpexplain.methods.clusters.request import Clusters
    from dpexplain.methods.kmeans.release import dp_kmeans

    found = Project.load(call.project)
    _check_source(found, kmeans, kmeans_epsilon)
    domain, budget = found.domain(), found.budget()
    cost = price.cost(budget)
    attributes = once(attribute)
    options = {"attributes": attributes or None, "per_cluster": per_cluster, "method": method, "bounds": bounds}
    request = Clusters.of_json(options)
    for name in attributes:
        domain.column(name)
    ready = None if kmeans is not None else found.clustering(domain)
    prepare_folder(call.out)
    table = found.table(domain, analyst=call.analyst)
    results: list[Result] = []
    if ready is None:
        assert kmeans is not None
        _require_both(table, request, kmeans, cost, budget.cost(epsilon=kmeans_epsilon), call.analyst)
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
    files = publish(results, call.out, "Clusters", LEAD, table.name, budget.describe(cost))
    after = table.ledger.statement(table.name)
    show_results(call, results)
    paid = (f"{text(result.receipt.label)}: {_paid(result)}." for result in results)
    call.reporter.show(*paid, left("Left", after, call.analyst), where(files, "result"))
    call.reporter.finish(
        {
            "account": table.name,
            "labels": list(ready.labels),
            "left": after.left.to_json(),
            "guarantee": results[0].receipt.guarantee,
            "spent_now": not all(result.receipt.replayed for result in results),
            "results": listed(results, files.results),
            "page": str(files.page),
        }
    )


def _check_source(project: Project, kmeans: int | None, kmeans_epsilon: float | None) -> None:
    """The clusters come from one place: from k-means with a price, or from the project."""
    if (kmeans is None) != (kmeans_epsilon is None):
        raise InputError("--kmeans and --kmeans-epsilon belong together.", hint="--kmeans 5 --kmeans-epsilon 1")
    if (kmeans is None) == (not project.has_clustering):
        raise InputError(
            "give either --kmeans K, or a [clustering] in the project file, not both."
            if project.has_clustering
            else "there is no clustering to explain.",
            hint='--kmeans 5 --kmeans-epsilon 1, or [clustering] import = "module:function" in the project file',
        )


def _require_both(table: PrivateTable, request: Clusters, k: int, cost: Cost, first: Cost, analyst: str | None) -> None:
    """Refuse what cannot be explained, or not be paid for, before clusters are paid for."""
    from dpexplain.methods.clusters.release import check_noise, resolve
    from dpexplain.methods.setting import Setting
    from dpexplain.render import text as words

    labels = [str(number) for number in range(k)]
    spec = resolve(request.but(labels=labels), Setting.of(table), cost)
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
