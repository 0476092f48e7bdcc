"""Differentially private explanations of clusters: which attributes tell each cluster from the rest, and how.

Guarantee    the account's definition and cost, for one unit replaced or added or removed. Public: the clustering, the
             names of the clusters, the attributes and their cells, the declared domain, and the number of rows under
             replace-one without units. A clustering that was itself released from the table has its own cost.
Statistic    h[c, a, v]: rows of cluster c (or of none) with value v of attribute a. Scores of attributes and of whole
             combinations are whole numbers made of these counts (methods/clusters/scores.py).
Sensitivity  ranges of score changes: `Scoring.combination_range`, `joint_range`, `cluster_range`. Of the histograms:
             a row is in l cells of weight `own` and in d - l cells of weight 1. docs/methods/clusters.md has proofs.
Release      one stage: the exponential mechanism over all combinations of attributes. Two stages (the paper): a noisy
             top k for each cluster, then the exponential mechanism over the combinations of these. Then, for the
             chosen attributes only, their counts inside and outside their clusters with noise. Consistent, non-negative
             histograms, intervals and sentences are post-processing.
             Or all counts of all attributes with noise, and everything else is post-processing: `tables.py`.
References   Gilad, Milo, Razmadze, Zadacario, "Differentially Private Explanations for Clusters".
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.combinations import steps
from dpexplain.core.domain import Categorical, Domain
from dpexplain.core.noise import Law
from dpexplain.core.release import Gate, split
from dpexplain.core.sensitivity import Neighbours
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.grids import Partition, partition_of
from dpexplain.methods.clusters import posterior
from dpexplain.methods.clusters.request import Clusters, Weights
from dpexplain.methods.clusters.result import ClusterExplanation
from dpexplain.methods.clusters.scores import (
    CUT,
    Integers,
    Measures,
    Scoring,
    among,
    apart,
    combination_scores,
    listed_scores,
    measure,
    most_rows,
    single_scores,
)
from dpexplain.methods.clusters.spec import (
    EVERYONE_SHARE,
    MOST_LISTED,
    Cells,
    Chosen,
    Spec,
    histogram_noise,
    mechanism_for,
    nth_combination,
    own_weight,
    selection_laws,
    shortfalls,
    size_of,
    statistic,
    tables_of,
    together,
)
from dpexplain.methods.clusters.tables import TablesSpec, forecast
from dpexplain.methods.histogram import released_by
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.methods.sharpening import known_stand_in
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.models.arguments import of_wrapped
from dpexplain.models.clustering import Clustering

SHARES = [Fraction(share, 20) for share in (2, 3, 4, 6, 8, 10)]  # of the price for the choice: the first that serves
SERVES = 0.01  # which is one whose score is right to 1 % of the largest possible one
GOOD = 0.1  # of the largest possible score: what one stage may lose, by forecast
UNKNOWN_ROWS_SHARE = Fraction(3, 10)
SYNTHETIC = 128  # public rows, whose labels are kept with the version of a rule
OUTSIDE = "what the clustering reveals about the data it was made from"


def resolve(request: Clusters, setting: Setting, cost: Cost) -> Spec | TablesSpec:
    """The concrete spec of a request. Reads nothing but public things."""
    if request.labels is None:
        raise InputError("say which clusters there are.", hint='labels=["0", "1", "2"]', spent="")
    if len(request.labels) < 2:
        raise InputError("one cluster has nothing to be told from: at least two are needed.")
    partitions, uses = _partitions(request, setting.domain), request.per_cluster
    if uses > len(partitions):
        raise InputError(f"{uses} attributes for each cluster were asked for, of {len(partitions)} in all.")
    if request.method == "auto":
        request = request.but(method=best_method(request, partitions, setting, cost))
    if request.method == "posterior":
        return posterior.resolve(request, partitions, setting.domain)
    return _with_choice(request, partitions, setting, cost)


def best_method(request: Clusters, partitions: tuple[Partition, ...], setting: Setting, cost: Cost) -> str:
    """One stage where its forecast is good for half of the cost: its histograms have less noise then. Else the
    posterior, which needs less for a good choice where noise is large (`python -m bench clusters --part posterior`).
    One stage, too, where nobody knows how many rows there are, or options of such a choice were given.
    """
    if setting.stand_in is not None:
        return "posterior"
    if setting.hint is None or request.of_choice:
        return "one-stage"
    try:
        spec = _with_choice(request.but(method="one-stage"), partitions, setting, cost)
        half = replace(spec, selection_share=SHARES[-1])
        lost = max(shortfalls(half, setting.neighbours, cost, LEVEL).values())
    except InputError:  # at so small a price the choice would be a draw by lot
        return "posterior"
    return "one-stage" if lost <= GOOD * setting.hint / spec.clusters else "posterior"


def _with_choice(request: Clusters, partitions: tuple[Partition, ...], setting: Setting, cost: Cost) -> Spec:
    """The spec of a choice with a cost of its own."""
    assert request.labels is not None
    uses = request.per_cluster
    scoring = Scoring(len(request.labels), uses, Weights.of(request.weights))
    method, bounds, histograms = request.form
    spec = Spec(
        labels=tuple(map(str, request.labels)),
        partitions=partitions,
        whole=tuple(getattr(setting.domain[p.feature], "integer", False) for p in partitions),
        weights=scoring.weights,
        unit=scoring.unit,
        cluster_unit=scoring.cluster_unit,
        method=method,
        bounds=bounds,
        candidates=request.candidates if method == "two-stage" else None,
        per_cluster=uses,
        selection_share=request.share or UNKNOWN_ROWS_SHARE,
        histograms=histograms,
    )
    if spec.candidates is not None and not uses <= spec.candidates <= spec.attributes:
        raise InputError(
            f"candidates={spec.candidates} must lie between per_cluster={uses} and the number of attributes, "
            f"{spec.attributes}."
        )
    if not spec.listed:
        _check_work(spec)
    if request.share is not None or setting.hint is None:
        return spec
    return _with_share(spec, setting.neighbours, setting.hint, cost)


def _check_work(spec: Spec) -> None:
    """Refuse what is too much to weigh: nothing is ever approximated."""
    try:
        steps(spec.attributes, spec.clusters, spec.per_cluster)
    except InputError as error:
        if spec.candidates is None:
            raise
        raise InputError(
            f"{spec.candidates} candidates for each of {spec.clusters} clusters make {spec.combinations:,.3g} "
            f"combinations: too many to list (at most {MOST_LISTED:,}), and {spec.clusters} clusters are too many to "
            "weigh them without a list.",
            hint="use fewer candidates",
        ) from error


def _partitions(request: Clusters, domain: Domain) -> tuple[Partition, ...]:
    """The public cells of every attribute."""
    partitions = []
    for name in domain if request.attributes is None else request.attributes:
        column = domain.column(name)
        if not isinstance(column, Categorical) or len(column.categories) > 1:
            partitions.append(partition_of(name, column, request.cells))
        elif request.attributes is not None:
            raise InputError(f"{name!r} has one declared value: it tells nothing from nothing.", hint="leave it out")
    if not partitions:
        raise InputError("no declared column has more than one value.")
    return tuple(partitions)


def _with_share(spec: Spec, neighbours: Neighbours, rows: int, cost: Cost) -> Spec:
    """The spec with the smallest part of the cost for the choice that makes it good enough."""
    several = [replace(spec, selection_share=share) for share in SHARES]
    for candidate in several[:-1]:
        try:
            lost = max(shortfalls(candidate, neighbours, cost, LEVEL).values())
        except InputError:  # at so small a price the choice would be a draw by lot
            continue
        if lost <= SERVES * rows / spec.clusters:
            return candidate
    return several[-1]


def check_noise(spec: Spec, neighbours: Neighbours, cost: Cost) -> None:
    """Refuse an impossible cost before anything is reserved, however many attributes will be chosen."""
    laws = selection_laws(spec, neighbours, cost)
    if spec.restricted:
        apart(Fraction(laws["combination"]["rate"]))
    for distinct in range(spec.per_cluster, spec.most_distinct + 1):
        histogram_noise(spec, neighbours, cost, distinct)
    if not spec.listed and find_spec("numba") is None:
        raise InputError(
            f"{spec.combinations:,.3g} combinations can only be weighed with the package numba.",
            hint='pip install "dpexplain[clusters]", or method="two-stage" with few candidates',
        )


def outlook(request: Clusters, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the number of rows with one value in a cluster, if all chosen attributes differ."""
    spec = resolve(request, setting, cost)
    if isinstance(spec, TablesSpec):
        return posterior.outlook(spec, setting, cost)
    check_noise(spec, setting.neighbours, cost)
    noise = histogram_noise(spec, setting.neighbours, cost, spec.most_distinct)
    clusters, uses, distinct = spec.clusters, spec.per_cluster, spec.most_distinct
    own = 1 if spec.subtracts else own_weight(clusters, uses, distinct, noise.law is Law.GAUSSIAN)
    return Outlook(noise.law.value, noise.size, noise.std / own, noise.halfwidth(LEVEL) / own, noise.band(LEVEL) / own)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "counts": "rows by cluster and by value of each attribute",
        "candidates": "choice of the best attributes of each cluster (two stages)",
        "combination": "choice of the attributes of all clusters together",
        "histograms": "counts of the chosen attributes, inside and outside their clusters",
        "explanation": "non-negative, consistent histograms and sentences",
    }
    edges = [
        ("table", "counts"), ("counts", "candidates"), ("counts", "combination"), ("counts", "histograms"),
        ("candidates", "explanation"), ("combination", "explanation"), ("histograms", "explanation"),
    ]  # fmt: skip
    return DataFlow(stages, edges, name="Clusters", noised=["candidates", "combination", "histograms"])


def choose(gate: Gate, tables: Sequence[Integers], spec: Spec, cost: Cost) -> Chosen:
    """Send the choice of attributes through the gate; for each cluster their numbers."""
    choice, scoring, neighbours = spec.costs(cost)[0], spec.scoring, gate.neighbours
    change = scoring.combination_range(neighbours, spec.bounds)
    rate = Fraction(selection_laws(spec, neighbours, cost)["combination"].get("rate", 0))
    measures = measure(tables, scoring.steps, most_rows(scoring, float(rate), CUT if spec.restricted else 1))
    candidates = [] if spec.candidates is None else _candidates(gate, measures, spec, choice[0])
    if spec.listed:
        options = [list(itertools.combinations(mine, scoring.uses)) for mine in candidates]
        (number,) = gate.select("combination", listed_scores(measures, scoring, options), change, choice[1])
        return nth_combination(candidates, scoring.uses, number)
    scores = combination_scores(measures, scoring)
    if spec.restricted:
        scores = among(scores, candidates, rate)
    chosen = gate.select_combination("combination", scores, change, choice[-1], uses=scoring.uses)
    return tuple(tuple(mine) for mine in chosen)


def _candidates(gate: Gate, measures: Measures, spec: Spec, cost: Cost) -> list[list[int]]:
    """The first stage: the noisily best attributes of each cluster, best first."""
    scoring, k, scores = spec.scoring, spec.candidates or 0, single_scores(measures, spec.scoring)
    if together(spec, gate.neighbours, cost):
        return gate.select_each("candidates", list(scores), scoring.joint_range(gate.neighbours), cost, k=k)
    change, each = scoring.cluster_range(gate.neighbours, spec.bounds), cost * Fraction(1, scoring.clusters)
    return [gate.select(f"candidates-{c + 1}", mine, change, each, k=k) for c, mine in enumerate(scores)]


def explain(
    table: PrivateTable,
    clustering: Clustering,
    request: Clusters,
    *,
    cost: Cost,
    stand_in: StandIn | None = None,
) -> ClusterExplanation:
    """Release the explanation of `clustering` for `cost`."""
    clustering.require(table.domain).as_clustering(request.labels)
    request = request.but(labels=clustering.labels)
    spec = resolve(request, replace(Setting.of(table), stand_in=stand_in), cost)
    if isinstance(spec, TablesSpec):
        forecast(spec, table.neighbours, cost)
        if stand_in is not None:
            known_stand_in(table, stand_in, [*clustering.features, *(p.feature for p in spec.partitions)])
    else:
        check_noise(spec, table.neighbours, cost)
        if stand_in is not None:
            raise InputError(
                f'a stand-in has no use with method="{request.method}".', hint='method="posterior" takes one'
            )
    clustering.ask_again()
    if clustering.versioned:
        title = f'the clustering "{clustering.identity["name"]}", version "{clustering.identity["version"]}",'
        answers = clustering.assign(PublicRandom(0).rows(table.domain, SYNTHETIC))
        table.declare(title, clustering.identity, answers, 0.0)
    table.require_shipping("the clustering", clustering)
    public = [clustering_fact(clustering, table, cost), "the names of the clusters", "the cells of the attributes"]
    outside = [] if released_here(clustering, table) else [OUTSIDE]
    if isinstance(spec, TablesSpec):
        return posterior.explain(
            table, clustering, request.label, spec, cost=cost, public=public, outside=outside, stand_in=stand_in
        )
    columns = list(dict.fromkeys([*clustering.features, *(p.feature for p in spec.partitions)]))
    size, safe = size_of(spec.partitions, spec.clusters), clustering.thread_safe

    def body(gate: Gate) -> None:
        kernel = partial(statistic, assign=clustering.assign, partitions=spec.partitions, clusters=spec.clusters)
        counts = table.sum_rows(gate, kernel, columns, size=size, label=request.label, parallel=safe)
        tables = tables_of(counts, spec.partitions, spec.clusters)
        chosen = choose(gate, tables, spec, cost)
        sizes, law = tuple(p.size for p in spec.partitions), mechanism_for(cost)
        cells = Cells(sizes, chosen, cost.definition is Definition.ZCDP, spec.subtracts)
        price = everyone = spec.costs(cost)[1]
        if spec.subtracts:
            everyone, price = split(price, EVERYONE_SHARE)
        gate.noisy_sum("histograms", cells.histograms(tables), cells.sensitivity(gate.neighbours), price, mechanism=law)
        if spec.subtracts:
            counts, attributes = cells.everyone(tables), len(cells.attributes)
            gate.noisy_counts("everyone", counts, everyone, partitions=attributes, mechanism=law)

    receipt, payload = table.release(
        "clusters",
        request.label,
        spec.to_json(),
        cost,
        body,
        public=public,
        outside=outside,
        clustering=clustering.identity,
    )
    return ClusterExplanation(receipt, payload)


def clustering_fact(clustering: Clustering, table: PrivateTable, cost: Cost) -> str:
    """The clustering as a public fact; one that was released from rows has a cost, and costs add up.

    The sum is told only where this table's own ledger has that release, so a file cannot make it smaller.
    """
    receipt = clustering.receipt
    if receipt is None:
        return "the clustering"
    before = [Cost.from_json(one["cost"]) for one in receipt.request.get("builds_on", [])]
    price = sum(before, receipt.cost)
    paid = f"the clustering, which was itself released with {receipt.budget.describe(price)}"
    if before:
        paid += ", what it was computed from included,"
    if not released_here(clustering, table):
        return f"{paid} for {receipt.neighbours.describe()} (according to its receipt, which was not checked here)"
    return f"{paid} (clustering and explanation together: {table.budget.describe(price + cost)})"


def released_here(clustering: Clustering, table: PrivateTable) -> bool:
    """Whether the account of this table has released exactly these centres."""
    return clustering.result is not None and released_by(table, clustering.result)


@of_wrapped
def explain_clusters(
    table: PrivateTable,
    clustering: Any,
    labels: Sequence[Any] | Mapping[Any, str] | None = None,
    attributes: Sequence[str] | None = None,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    stand_in: StandIn | None = None,
    method: Literal["auto", "posterior", "one-stage", "two-stage", "paper"] = "auto",
    bounds: Literal["tight", "paper"] = "tight",
    histograms: Literal["disjoint", "paper"] = "disjoint",
    candidates: int = 3,
    per_cluster: int = 1,
    weights: Sequence[float] = (1 / 3, 1 / 3, 1 / 3),
    cells: int = 10,
    selection_share: float | Fraction | None = None,
) -> ClusterExplanation:
    """For each cluster the attributes that tell it from the rest, and their histograms inside and outside.

    `clustering` is a `Clustering` (for example of `dpx.dp_kmeans`), a fitted predictor or a function of a DataFrame;
    the labels of its clusters and the attributes are public. `epsilon` (or `rho`) is the whole cost of the
    explanation, choice and histograms together. `requests.Clusters` describes the options. A `stand_in` that was
    released before makes choice and histograms of method="posterior" better, for free, and is a reason to use it.
    """
    request = Clusters(
        attributes=attributes, method=method, bounds=bounds, histograms=histograms, candidates=candidates,
        per_cluster=per_cluster, weights=weights, cells=cells, selection_share=selection_share,
    )  # fmt: skip
    ready = Clustering.of(clustering, labels=labels, domain=table.domain)
    return explain(table, ready, request, cost=table.cost(epsilon=epsilon, rho=rho), stand_in=stand_in)
