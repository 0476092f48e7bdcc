"""Differentially private explanations of clusters: which attributes tell each cluster from the rest, and how.

Guarantee    the account's definition and price, for one unit replaced or added or removed. Public: the clustering, the
             names of the clusters, the attributes and their cells, the declared domain, and the number of rows under
             replace-one without units. A clustering that was itself released from the table has its own price.
Statistic    h[c, a, v]: rows of cluster c (or of none) with value v of attribute a. Scores of attributes and of whole
             combinations are whole numbers made of these counts (methods/clusters/scores.py).
Sensitivity  ranges of score changes: `Scoring.combination_range`, `joint_range`, `cluster_range`. Of the histograms:
             a row is in l cells of weight `own` and in d - l cells of weight 1. docs/methods/clusters.md has proofs.
Release      one stage: the exponential mechanism over all combinations of attributes. Two stages (the paper): a noisy
             top k for each cluster, then the exponential mechanism over the combinations of these. Then, for the
             chosen attributes only, their counts inside and outside their clusters with noise. Consistent, non-negative
             histograms, intervals and sentences are post-processing.
References   Gilad, Milo, Razmadze, Zadacario, "Differentially Private Explanations for Clusters".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.combinations import rate_for, steps
from dpexplain.core.domain import Categorical, Domain
from dpexplain.core.mechanisms import best, selection, selection_epsilon
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Gate, split
from dpexplain.core.sensitivity import Neighbours, Relation, Sensitivity
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.grids import Partition, partition_of
from dpexplain.methods.clusters.counts import Integers, size_of, statistic, tables_of
from dpexplain.methods.clusters.result import (
    MOST_LISTED,
    Cells,
    ClusterExplanation,
    candidate_shortfall,
    combination_shortfall,
    nth_combination,
    own_weight,
)
from dpexplain.methods.clusters.scores import (
    Measures,
    Scoring,
    Weights,
    combination_scores,
    listed_scores,
    measure,
    most_rows,
    single_scores,
)
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.models.arguments import of_wrapped
from dpexplain.models.clustering import Clustering
from dpexplain.receipts import receipt_for

CELLS = 10
METHODS, BOUNDS = ("one-stage", "two-stage"), ("tight", "paper")
SHARES = tuple(
    Fraction(share, 20) for share in (2, 3, 4, 6, 8, 10)
)  # of the price for the choice: the first that serves
SERVES = 0.01  # which is one whose score is right to 1 % of the largest possible one
UNKNOWN_ROWS_SHARE = Fraction(3, 10)
STAGE_SHARE = Fraction(1, 2)  # of the price of a two-stage choice, for the candidates
SYNTHETIC = 128  # public rows, whose labels are kept with the version of a rule
OUTSIDE = "what the clustering reveals about the data it was made from"


@dataclass(frozen=True, kw_only=True)
class ClustersRequest:
    """The request: everything about the release that a caller decides, but the clustering.

    labels      the names of the clusters (default: those of the clustering)
    attributes  the columns that may explain a cluster (default: all declared ones with more than one value)
    method      "one-stage" weighs all combinations of attributes; "two-stage", as in the paper, those of the best
                `candidates` of each cluster
    bounds      "tight" for our ranges of score changes, "paper" for the published ones
    per_cluster how many attributes explain each cluster
    weights     of interestingness, sufficiency and diversity; they add up to one
    cells       how many cells a continuous attribute is cut into
    selection_share   the part of the price for the choice (default: by a forecast); the rest is for the histograms
    """

    labels: Sequence[str] | None = None
    attributes: Sequence[str] | None = None
    method: str = "one-stage"
    bounds: str = "tight"
    candidates: int = 3
    per_cluster: int = 1
    weights: Sequence[float] = (1 / 3, 1 / 3, 1 / 3)
    cells: int = CELLS
    selection_share: Any = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(f"unknown method {self.method!r}.", hint='use "one-stage" or "two-stage"')
        if self.bounds not in BOUNDS:
            raise InputError(f"unknown bounds {self.bounds!r}.", hint='use "tight" or "paper"')
        for name, least in (("candidates", 1), ("per_cluster", 1), ("cells", 2)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}.")
        if isinstance(self.attributes, str) or (self.attributes is not None and not list(self.attributes)):
            raise InputError("attributes must be a list of names.", hint='["age", "sex"], or leave it out for all')
        weights = Weights.of(self.weights)
        if self.method == "two-stage" and weights.interest + weights.sufficiency == 0:
            raise InputError(
                "two stages choose the candidates by interestingness and sufficiency: one of them needs a weight.",
                hint='method="one-stage" can do with diversity alone',
            )
        _checked_share(self.selection_share)

    @property
    def label(self) -> str:
        return "explanation of clusters" if self.labels is None else f"explanation of {len(self.labels)} clusters"


@dataclass(frozen=True)
class Spec:
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    labels: tuple[str, ...]
    partitions: tuple[Partition, ...]
    whole: tuple[bool, ...]  # whether the values of an attribute are whole numbers
    scoring: Scoring
    method: str
    bounds: str
    candidates: int | None  # of each cluster; None for one stage
    share: Fraction  # of the price, for the choice

    @property
    def stages(self) -> int:
        return 1 if self.candidates is None else 2

    @property
    def attributes(self) -> int:
        return len(self.partitions)

    @property
    def most_distinct(self) -> int:
        """How many different attributes a combination can have."""
        return min(self.attributes, self.scoring.clusters * self.scoring.uses)

    def to_json(self) -> JsonObject:
        weights = self.scoring.weights
        return {
            "labels": list(self.labels),
            "partitions": [p.to_json() for p in self.partitions],
            "whole": list(self.whole),
            "weights": [weights.interest, weights.sufficiency, weights.diversity],
            "unit": self.scoring.unit,
            "cluster_unit": self.scoring.cluster_unit,
            "method": self.method,
            "bounds": self.bounds,
            "candidates": self.candidates,
            "per_cluster": self.scoring.uses,
            "selection_share": str(self.share),
        }


def sensitivity(neighbours: Neighbours, own: int, uses: int, distinct: int) -> Sensitivity:
    """Of the histograms: a row adds `own` to `uses` own cells and 1 to distinct - uses rest cells, or, if it is in no
    cluster, 1 to `distinct` rest cells.

    Proof. The vector v that a row adds is non-negative with |v|_1 <= l own + d - l, |v|_2^2 <= l own^2 + d - l and
    |v|_inf <= own, because own >= 1. Up to k rows appear or vanish: k, k^2, k times as much. Replaced: a leaves and b
    comes, both non-negative: |b - a|_1 <= |a|_1 + |b|_1, |b - a|_2^2 <= |a|^2 + |b|^2 as ab >= 0, |b - a|_inf <= max.
    """
    k, factor = neighbours.rows, 1 if neighbours.relation is Relation.ADD_REMOVE else 2
    rest = distinct - uses
    return Sensitivity(neighbours, factor * k * (uses * own + rest), factor * k * k * (uses * own**2 + rest), k * own)


def resolve(
    request: ClustersRequest,
    domain: Domain,
    labels: Sequence[str],
    neighbours: Neighbours,
    rows: int | None,
    cost: Cost,
) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    if len(labels) < 2:
        raise InputError("one cluster has nothing to be told from: at least two are needed.")
    partitions = _partitions(request, domain)
    uses, attributes = request.per_cluster, len(partitions)
    if uses > attributes:
        raise InputError(f"{uses} attributes for each cluster were asked for, of {attributes} in all.")
    scoring = Scoring(len(labels), uses, Weights.of(request.weights))
    whole = tuple(getattr(domain[p.feature], "integer", False) for p in partitions)
    two = request.method == "two-stage"
    share = Fraction(0) if request.selection_share is None else _checked_share(request.selection_share)
    spec = Spec(
        tuple(labels), partitions, whole, scoring, request.method, request.bounds,
        request.candidates if two else None, share,
    )  # fmt: skip
    if two:
        _check_candidates(spec)
    else:
        steps(attributes, scoring.clusters, uses)  # too many to weigh them all: refused, never approximated
    return spec if share else replace(spec, share=_share(spec, neighbours, rows, cost))


def _partitions(request: ClustersRequest, domain: Domain) -> tuple[Partition, ...]:
    """The public cells of every attribute."""
    names = list(domain) if request.attributes is None else list(request.attributes)
    if len(set(names)) < len(names):
        raise InputError("an attribute is named twice.")
    found = []
    for name in names:
        column = domain.column(name)
        if isinstance(column, Categorical) and len(column.categories) < 2:
            if request.attributes is None:
                continue
            raise InputError(f"{name!r} has one declared value: it tells nothing from nothing.", hint="leave it out")
        found.append(partition_of(name, column, request.cells))
    if not found:
        raise InputError("no declared column has more than one value.")
    return tuple(found)


def _check_candidates(spec: Spec) -> None:
    k, uses = spec.candidates or 0, spec.scoring.uses
    if not uses <= k <= spec.attributes:
        raise InputError(
            f"candidates={k} must lie between per_cluster={uses} and the number of attributes, {spec.attributes}."
        )
    if math.comb(k, uses) ** spec.scoring.clusters > MOST_LISTED:
        raise InputError(
            f"{k} candidates for each of {spec.scoring.clusters} clusters make more than {MOST_LISTED:,} combinations.",
            hint='use fewer candidates, or method="one-stage"',
        )


def _checked_share(share: Any) -> Fraction:
    if share is None:
        return Fraction(0)
    wrong = isinstance(share, bool) or not isinstance(share, int | float | Fraction) or not 0 < share < 1
    if wrong:
        raise InputError(f"selection_share must lie between 0 and 1; got {share!r}.", hint="for example 0.3")
    return Fraction(repr(share)) if isinstance(share, float) else Fraction(share)


def _share(spec: Spec, neighbours: Neighbours, rows: int | None, cost: Cost) -> Fraction:
    """The part of the price for the choice: the smallest that makes it good enough, if the number of rows is known."""
    if rows is None:
        return UNKNOWN_ROWS_SHARE
    for share in SHARES[:-1]:
        try:
            lost = max(shortfalls(replace(spec, share=share), neighbours, cost).values())
        except InputError:  # at so small a price the choice would be a draw by lot
            continue
        if lost <= SERVES * rows / spec.scoring.clusters:
            return share
    return SHARES[-1]


def costs_of(spec: Spec, cost: Cost) -> tuple[list[Cost], Cost]:
    """The price of each stage of the choice, and that of the histograms."""
    choice, histograms = split(cost, spec.share)
    return [choice] if spec.stages == 1 else list(split(choice, STAGE_SHARE)), histograms


def selection_laws(spec: Spec, neighbours: Neighbours, cost: Cost) -> JsonObject:
    """The law of each part of the choice at this price, in the form in which it is released with its values."""
    choice, scoring = costs_of(spec, cost)[0], spec.scoring
    change = scoring.combination_range(neighbours, spec.bounds)
    if spec.candidates is None:
        epsilon = selection_epsilon(choice[0])
        rate = rate_for(change.length, epsilon, spec.attributes, scoring.clusters, scoring.uses)
        return {"combination": {"rate": str(rate)}}
    if together(spec, neighbours, choice[0]):
        first = selection(scoring.joint_range(neighbours), 1, choice[0], spec.candidates)
        parts = {"candidates": {"scale": str(first.scale)}}
    else:
        each = choice[0] * Fraction(1, scoring.clusters)
        first = selection(scoring.cluster_range(neighbours, spec.bounds), 1, each, spec.candidates)
        parts = {f"candidates-{c + 1}": {"scale": str(first.scale)} for c in range(scoring.clusters)}
    return {**parts, "combination": {"scale": str(selection(change, 1, choice[1], 1).scale)}}


def together(spec: Spec, neighbours: Neighbours, cost: Cost) -> bool:
    """Whether the candidates of all clusters are chosen for one price: where that takes less noise than each for its
    part of the price. In pure accounts it does; rho is better split.
    """
    if spec.bounds == "paper":
        return False
    clusters = spec.scoring.clusters
    one = selection(spec.scoring.joint_range(neighbours), 1, cost, 1)
    each = selection(spec.scoring.cluster_range(neighbours, "tight"), 1, cost * Fraction(1, clusters), 1)
    return one.scale <= each.scale


def shortfalls(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, float]:
    """How many rows of its score each stage of the choice may lose, with probability 95 % no more."""
    laws, settings = selection_laws(spec, neighbours, cost), spec.to_json()
    found = {"combination": combination_shortfall(settings, laws["combination"], LEVEL)}
    return found if spec.stages == 1 else {"candidates": candidate_shortfall(settings, laws, LEVEL), **found}


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of the histograms at this price, if all chosen attributes differ. Costs nothing, touches no data."""
    return {"histograms": _histogram_noise(spec, neighbours, cost, spec.most_distinct)}


def _histogram_noise(spec: Spec, neighbours: Neighbours, cost: Cost, distinct: int) -> Noise:
    uses, clusters = spec.scoring.uses, spec.scoring.clusters
    own = own_weight(clusters, uses, distinct, cost.definition is Definition.ZCDP)
    widest = max(p.size for p in spec.partitions)
    _, price = costs_of(spec, cost)
    bound = sensitivity(neighbours, own, uses, distinct)
    return best(bound, (clusters * uses + distinct) * widest, price, mechanism_for(cost))


def mechanism_for(cost: Cost) -> str:
    """Of the histograms: their cells are many and a row is in few of them, so the cube is never at hand."""
    return (Law.GAUSSIAN if cost.definition is Definition.ZCDP else Law.LAPLACE).value


def check_noise(spec: Spec, neighbours: Neighbours, cost: Cost) -> None:
    """Refuse an impossible price before anything is reserved, however many attributes will be chosen."""
    selection_laws(spec, neighbours, cost)
    for distinct in range(spec.scoring.uses, spec.most_distinct + 1):
        _histogram_noise(spec, neighbours, cost, distinct)
    if spec.stages == 1 and find_spec("numba") is None:
        raise InputError(
            'method="one-stage" needs the package numba.', hint='pip install "dpexplain[clusters]", or use two-stage'
        )


def outlook(request: ClustersRequest, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the number of rows with one value in a cluster, if all chosen attributes differ."""
    if request.labels is None:
        raise InputError("say which clusters there are.", hint='labels=["0", "1", "2"]', spent="")
    spec = resolve(request, setting.domain, request.labels, setting.neighbours, setting.hint, cost)
    check_noise(spec, setting.neighbours, cost)
    noise = forecast(spec, setting.neighbours, cost)["histograms"]
    own = own_weight(len(spec.labels), spec.scoring.uses, spec.most_distinct, noise.law is Law.GAUSSIAN)
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


def choose(gate: Gate, tables: Sequence[Integers], spec: Spec, cost: Cost) -> tuple[tuple[int, ...], ...]:
    """Send the choice of attributes through the gate; for each cluster their numbers."""
    choice, scoring, neighbours = costs_of(spec, cost)[0], spec.scoring, gate.neighbours
    change = scoring.combination_range(neighbours, spec.bounds)
    rate = selection_laws(spec, neighbours, cost)["combination"].get("rate", 0)
    measures = measure(tables, scoring.steps, most_rows(scoring, float(Fraction(rate))))
    if spec.candidates is None:
        scores = combination_scores(measures, scoring)
        chosen = gate.select_combination("combination", scores, change, choice[0], uses=scoring.uses)
        return tuple(tuple(mine) for mine in chosen)
    candidates = _candidates(gate, measures, spec, choice[0])
    options = [list(itertools.combinations(mine, scoring.uses)) for mine in candidates]
    (number,) = gate.select("combination", listed_scores(measures, scoring, options), change, choice[1])
    return nth_combination(candidates, scoring.uses, number)


def _candidates(gate: Gate, measures: Measures, spec: Spec, cost: Cost) -> list[list[int]]:
    """The first stage: the noisily best attributes of each cluster, best first."""
    scoring, k, scores = spec.scoring, spec.candidates or 0, single_scores(measures, spec.scoring)
    if together(spec, gate.neighbours, cost):
        return gate.select_each("candidates", list(scores), scoring.joint_range(gate.neighbours), cost, k=k)
    change, each = scoring.cluster_range(gate.neighbours, spec.bounds), cost * Fraction(1, scoring.clusters)
    return [gate.select(f"candidates-{c + 1}", mine, change, each, k=k) for c, mine in enumerate(scores)]


def histograms(tables: Sequence[Integers], cells: Cells) -> Integers:
    """The counts of the chosen attributes, own cells weighted: what gets noise."""
    found = np.empty(cells.size, dtype=np.int64)
    for (a, group), place in cells.slices.items():
        if group is None:
            found[place] = tables[a].sum(axis=0) - tables[a][list(cells.users(a))].sum(axis=0)
        else:
            found[place] = cells.own * tables[a][group]
    return found


def explain(table: PrivateTable, clustering: Clustering, request: ClustersRequest, *, cost: Cost) -> ClusterExplanation:
    """Release the explanation of `clustering` for `cost`."""
    labels = clustering.require(table.domain).labels
    if request.labels is not None and [str(label) for label in request.labels] != list(labels):
        raise InputError("the labels are not those of the clustering.", hint="leave them out")
    spec = resolve(request, table.domain, labels, table.neighbours, table.rows_hint, cost)
    check_noise(spec, table.neighbours, cost)
    clustering.ask_again()
    if clustering.versioned:
        title = f'the clustering "{clustering.identity["name"]}", version "{clustering.identity["version"]}",'
        answers = clustering.assign(PublicRandom(0).rows(table.domain, SYNTHETIC))
        table.declare(title, clustering.identity, answers, 0.0)
    clusters, label = len(labels), f"explanation of {len(labels)} clusters"
    columns = list(dict.fromkeys([*clustering.features, *(p.feature for p in spec.partitions)]))

    def body(gate: Gate) -> None:
        kernel = partial(statistic, assign=clustering.assign, partitions=spec.partitions, clusters=clusters)
        counts = table.map_sum(
            gate, kernel, columns, size=size_of(spec.partitions, clusters), label=label, parallel=clustering.thread_safe
        )
        tables = tables_of(counts, spec.partitions, clusters)
        chosen = choose(gate, tables, spec, cost)
        sizes = tuple(p.size for p in spec.partitions)
        cells = Cells(sizes, chosen, cost.definition is Definition.ZCDP)
        bound = sensitivity(gate.neighbours, cells.own, cells.uses, len(cells.attributes))
        price = costs_of(spec, cost)[1]
        gate.noisy_sum("histograms", histograms(tables, cells), bound, price, mechanism=mechanism_for(cost))

    public = [clustering_fact(clustering, table, cost), "the names of the clusters", "the cells of the attributes"]
    identity = {
        "explainer": "clusters",
        "table": table.identity,
        "clustering": clustering.identity,
        "spec": spec.to_json(),
        "public": [*public, table.domain.describe(), *table.neighbours.public],
        "outside": [] if released_here(clustering, table) else [OUTSIDE],
    }
    released = table.door.release(label, identity, cost, body)
    return ClusterExplanation(receipt_for(table.budget, table.neighbours, released, table.domain), released.payload)


def clustering_fact(clustering: Clustering, table: PrivateTable, cost: Cost) -> str:
    """The clustering as a public fact; one that was released from rows has a price, and prices add up.

    The sum is told only where this table's own ledger has that release, so a file cannot make it smaller.
    """
    receipt = clustering.receipt
    if receipt is None:
        return "the clustering"
    paid = f"the clustering, which was itself released with {receipt.budget.describe(receipt.cost)}"
    if not released_here(clustering, table):
        return f"{paid} for {receipt.neighbours.describe()} (according to its receipt, which was not checked here)"
    return f"{paid} (clustering and explanation together: {table.budget.describe(receipt.cost + cost)})"


def released_here(clustering: Clustering, table: PrivateTable) -> bool:
    """Whether the account of this table has released exactly these centres, under the same relation, at this price."""
    result = clustering.result
    if result is None:
        return False
    stored = table.door.account.find(digest(result.receipt.request))
    return (
        stored is not None
        and stored.payload == result.released
        and stored.entry.charged == result.receipt.charged
        and result.receipt.neighbours == table.neighbours
    )


@of_wrapped
def explain_clusters(
    table: PrivateTable,
    clustering: Any,
    labels: Sequence[str] | None = None,
    attributes: Sequence[str] | None = None,
    *,
    epsilon: Any = None,
    rho: Any = None,
    **options: Any,
) -> ClusterExplanation:
    """For each cluster the attributes that tell it from the rest, and their histograms inside and outside.

    `clustering` is a `Clustering` (for example of `dpx.dp_kmeans`), a fitted predictor or a function of a DataFrame;
    the labels of its clusters and the attributes are public. `epsilon` (or `rho`) is the whole price of the
    explanation, choice and histograms together. Options: see `requests.Clusters`.
    """
    request = ClustersRequest(attributes=attributes, **options)
    ready = Clustering.of(clustering, labels=labels, domain=table.domain)
    return explain(table, ready, request, cost=table.cost(epsilon=epsilon, rho=rho))
