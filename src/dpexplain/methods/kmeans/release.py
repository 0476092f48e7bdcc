"""Differentially private k-means: a clustering that may be explained, because its centres were released.

Guarantee    the account's definition and price, for one unit replaced or added or removed. Public: the features, the
             number of clusters and of rounds, the start, the declared domain, and the number of rows under replace-one
             without units.
Statistic    given centres, for each of them: the number of rows that are nearest to it, and the sum of their
             coordinates (`Space`), numeric ones from the middle of their range; all whole numbers.
Sensitivity  a row adds W to one count and at most H = 1/2 for each numeric feature and V = 1/sqrt(2) for each
             categorical one to the sums beside it: see `sensitivity`. Of the histograms: `Sensitivity.of_counts`.
Release      noisy histograms of the features show where cells should be; one survey of the cells, and k centres that
             group them; then Lloyd's rounds, each around the centres that the noisy answer before led to. A tenth of
             the price is for the histograms, the rest in equal parts for the survey and the rounds. Everything between
             two questions is post-processing (`methods/kmeans/result.py`).
References   Su, Cao, Li, Bertino, Jin 2016, "Differentially private k-means clustering" (DPLloyd: the rounds, and the
             split between counts and sums); Blum, Dwork, McSherry, Nissim 2005. The survey is ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject, fraction_text
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.release import Gate, split
from dpexplain.core.sensitivity import Neighbours, Relation, Sensitivity
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.grids import Partition, partition_of
from dpexplain.maths.surrogate import Space
from dpexplain.maths.surrogate.sketch import GRID
from dpexplain.methods.kmeans.result import (
    HALF,
    MOST_CLUSTERS,
    MOST_ROUNDS,
    OWN,
    ClusterCentres,
    Lloyd,
    nearest,
    places_of,
)
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.models.arguments import of_wrapped
from dpexplain.models.clustering import Clustering, declared
from dpexplain.receipts import receipt_for

Integers = NDArray[np.int64]

SHARE = Fraction(1, 10)  # of the price for the histograms that cells are drawn from
HISTOGRAM = 32  # cells of a numeric feature in them
CELLS = 4  # surveyed for each cluster
WEIGHTS = tuple(Fraction(w, 4) for w in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40))  # of a row's count, in H
OFFSET = 0.2  # how far a centre is from the middle of a feature's range, as a rule
ROUNDS = range(1, 9)
UNKNOWN_ROWS = 10_000  # taken for the forecast where nothing is known


@dataclass(frozen=True, kw_only=True)
class KMeansRequest:
    """The request: everything about the release that a caller decides.

    k         how many clusters
    features  in which distances are measured (default: the numeric ones; if there are none, all)
    rounds    of Lloyd's algorithm, after the survey (default: by a forecast)
    start     "marginals": where the rows are, by histograms that a tenth of the price is for. "domain": cells spread
              evenly over the declared domain. Or k records, public ones: then rounds alone, without a survey.
    seed      another one gives other cells
    """

    k: int
    features: Sequence[str] | None = None
    rounds: int | None = None
    start: str | Sequence[Any] = "marginals"
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 2 <= self.k <= MOST_CLUSTERS:
            raise InputError(f"k must be a whole number from 2 to {MOST_CLUSTERS}; got {self.k!r}.")
        if isinstance(self.features, str) or (self.features is not None and not list(self.features)):
            raise InputError("features must be a list of names.", hint='features=["age", "income"], or leave it out')
        if self.features is not None and not all(isinstance(name, str) for name in self.features):
            raise InputError("features are named by texts.")
        if self.features is not None and len(set(self.features)) < len(self.features):
            raise InputError("a feature is named twice.")
        whole = isinstance(self.rounds, int) and not isinstance(self.rounds, bool)
        if self.rounds is not None and not (whole and 1 <= self.rounds <= MOST_ROUNDS):
            raise InputError(f"rounds must be a whole number from 1 to {MOST_ROUNDS}; got {self.rounds!r}.")
        listed = isinstance(self.start, Sequence | np.ndarray) and not isinstance(self.start, str | bytes)
        if not listed and not (isinstance(self.start, str) and self.start in ("marginals", "domain")):
            raise InputError("start must be a list of k records.", hint='or "marginals" or "domain"')
        if listed and len(self.start) != self.k:
            raise InputError(f"{len(self.start)} records to start from were given for {self.k} clusters.")
        PublicRandom(self.seed)

    @property
    def label(self) -> str:
        return f"k-means, {self.k} clusters" + ("" if self.features is None else " of " + ", ".join(self.features))


@dataclass(frozen=True)
class Spec:
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    lloyd: Lloyd
    share: Fraction  # of the price, for the histograms

    @property
    def histogram_size(self) -> int:
        return sum(p.size for p in self.lloyd.partitions)

    def costs(self, cost: Cost) -> tuple[Cost, Cost]:
        """The price of the histograms, and of each answer after them."""
        first, rest = split(cost, self.share)
        return first, rest * Fraction(1, self.lloyd.answers)

    def to_json(self) -> JsonObject:
        return {"lloyd": self.lloyd.to_json(), "share": fraction_text(self.share)}


def histogram_statistic(rows: Rows, spec: Spec) -> Integers:
    """The number of rows in each public cell of each feature."""
    return np.concatenate([p.counts(rows[p.feature]) for p in spec.lloyd.partitions])


def statistic(rows: Rows, lloyd: Lloyd, centres: Integers) -> Integers:
    """Exact integers of one batch, centre after centre: weighted count, sums of coordinates.

    Products of whole numbers in floats, below 2^53: exact.
    """
    places = places_of(lloyd.space, rows.columns, rows.size)
    member = (nearest(centres, places) == np.arange(len(centres))[:, None]).astype(np.float64)
    count, sums = lloyd.weight * member.sum(axis=1), member @ (places - lloyd.middle)
    return np.column_stack([count, sums]).astype(np.int64).ravel()


def sensitivity(space: Space, weight: int, neighbours: Neighbours) -> Sensitivity:
    """Of the counts and sums around any fixed centres.

    Proof. With a numeric and b categorical features, a row adds to the block of its centre, and to no other, the
    vector u = (W, a numbers in [-H, H], b times V in one of a feature's coordinates): |u|_1 <= l1 = W + a H + b V,
    |u|_2^2 <= l2 = W^2 + a H^2 + b V^2, |u|_inf <= max(W, H, V).
    add-remove: k rows of a unit come or go, at most k u in every norm.
    replace-one, a row becomes another: in another block, u and u' share no coordinate: 2 l1, 2 l2, max(W, H, V). In the
    same block the count stays, a numeric sum moves by at most 2 H, of a category's coordinates one loses V and one
    gains it: 2 (a H + b V), 4 a H^2 + 2 b V^2, max(2 H, V). The bound is the larger of both in each norm. In a unit
    each of k places holds a row or nothing, before and after; nothing to a row moves no further than a row to a row.
    So the change is the sum of k such moves.
    """
    numbers = sum(isinstance(space.domain[name], Numeric) for name in space.features)
    kinds, k = len(space.features) - numbers, neighbours.rows
    l1 = weight + numbers * HALF + kinds * OWN
    l2 = weight**2 + numbers * HALF**2 + kinds * OWN**2
    most = max(weight, HALF if numbers else 0, OWN if kinds else 0)
    if neighbours.relation is Relation.ADD_REMOVE:
        return Sensitivity(neighbours, k * l1, k * k * l2, k * most)
    beside = 4 * numbers * HALF**2 + 2 * kinds * OWN**2
    return Sensitivity(neighbours, 2 * k * l1, k * k * max(2 * l2, beside), k * max(most, 2 * HALF if numbers else 0))


def resolve(request: KMeansRequest, domain: Domain, neighbours: Neighbours, rows: int | None, cost: Cost) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    space = Space(domain, tuple(_features(request, domain)))
    if request.k > (points := _points(space)):
        raise InputError(f"{request.k} clusters were asked for, but the domain has {points} different points.")
    start = None
    if not isinstance(request.start, str):
        located = [space.locate(space.read(record)) for record in request.start]
        start = tuple(tuple(map(int, np.rint(place * GRID))) for place in located)
    partitions: tuple[Partition, ...] = ()
    if start is None:
        partitions = tuple(partition_of(f, domain[f], HISTOGRAM) for f in space.features)
    marginals = request.start == "marginals" if isinstance(request.start, str) else False
    cells = CELLS * request.k if start is None else 0
    first = Lloyd(space, request.k, start, cells, partitions, marginals, HALF, request.rounds or 1, request.seed)
    spec = Spec(first, SHARE if marginals else Fraction(0))
    spec = replace(spec, lloyd=replace(first, weight=_weight(spec, neighbours, cost)))
    if request.rounds is not None:
        return spec
    several = [replace(spec, lloyd=replace(spec.lloyd, rounds=rounds)) for rounds in ROUNDS]
    return min(several, key=lambda spec: _expected_loss(spec, neighbours, cost, rows or UNKNOWN_ROWS))


def _features(request: KMeansRequest, domain: Domain) -> list[str]:
    if request.features is not None:
        return list(request.features)
    return [name for name in domain if isinstance(domain[name], Numeric)] or list(domain)


def _points(space: Space) -> float:
    """How many different points the space has."""
    columns = [space.domain[name] for name in space.features]
    values = [len(c.categories) if isinstance(c, Categorical) else c.values if c.integer else math.inf for c in columns]
    return math.prod(values)


def _noise(spec: Spec, neighbours: Neighbours, cost: Cost, centres: int) -> Noise:
    """Of one answer."""
    lloyd = spec.lloyd
    bound = sensitivity(lloyd.space, lloyd.weight, neighbours)
    return best(bound, lloyd.size(centres), spec.costs(cost)[1])


def _error(spec: Spec, neighbours: Neighbours, cost: Cost) -> float:
    """The squared error of a centre, in coordinates, times the squared number of rows of its cluster.

    A centre is the middle + sum / count: noise d in the sums and e in the count moves it by (d - offset e) / count.
    """
    lloyd = spec.lloyd
    variance = _noise(spec, neighbours, cost, lloyd.k).std ** 2
    return variance * (lloyd.space.size / GRID**2 + len(lloyd.space.features) * (OFFSET / lloyd.weight) ** 2)


def _weight(spec: Spec, neighbours: Neighbours, cost: Cost) -> int:
    """What a row adds to its count: a larger weight makes counts better and sums worse."""
    weights = [int(weight * HALF) for weight in WEIGHTS]
    return min(weights, key=lambda w: _error(replace(spec, lloyd=replace(spec.lloyd, weight=w)), neighbours, cost))


def _expected_loss(spec: Spec, neighbours: Neighbours, cost: Cost, rows: int) -> float:
    """About how far the mean squared distance of rows from their centres will end above that of the best centres.

    Rules of thumb, chosen on the tables of docs/methods/dp-kmeans.md: every round halves what is left to gain, 0.0004
    of a feature's squared range at first; clusters are uneven, so noise counts three times.
    """
    noise = _error(spec, neighbours, cost) * (spec.lloyd.k / rows) ** 2
    return 3 * noise + 4e-4 * len(spec.lloyd.space.features) * 0.5**spec.lloyd.rounds


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this price. Costs nothing, touches no data."""
    lloyd = spec.lloyd
    parts = {f"round-{number}": _noise(spec, neighbours, cost, lloyd.k) for number in range(1, lloyd.rounds + 1)}
    if lloyd.start is None:
        parts["survey"] = _noise(spec, neighbours, cost, lloyd.cells)
    if lloyd.marginals:
        bound = Sensitivity.of_counts(neighbours, len(lloyd.partitions))
        parts["marginals"] = best(bound, spec.histogram_size, spec.costs(cost)[0])
    return parts


def outlook(request: KMeansRequest, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move a centre in each coordinate, as a share of a range, were all clusters of one size."""
    spec = resolve(request, setting.domain, setting.neighbours, setting.hint, cost)
    noise, lloyd = forecast(spec, setting.neighbours, cost)["round-1"], spec.lloyd
    unit = (1 / GRID + OFFSET / lloyd.weight) * lloyd.k / setting.rows
    return Outlook(
        law=noise.law.value,
        points=lloyd.k * lloyd.space.size,
        std=noise.std * lloyd.k / (GRID * setting.rows),
        error=noise.halfwidth((1 + LEVEL) / 2) * unit,
        band=noise.band(LEVEL) * unit,
    )


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "marginals": "rows in each public cell of each feature",
        "cells": "places drawn from the histograms",
        "survey": "rows nearest to each cell: their number and the sums of their coordinates",
        "groups": "k centres of the surveyed cells",
        "rounds": "rows nearest to each centre: their number and the sums of their coordinates, round after round",
        "centres": "means inside the domain; where too few rows are, the centre of the group",
    }
    edges = [
        *(("table", "marginals"), ("marginals", "cells"), ("cells", "survey"), ("table", "survey")),
        *(("cells", "groups"), ("survey", "groups"), ("groups", "rounds"), ("table", "rounds")),
        *(("groups", "centres"), ("rounds", "centres")),
    ]
    return DataFlow(stages, edges, name="k-means", noised=["marginals", "survey", "rounds"])


def explain(
    table: PrivateTable, request: KMeansRequest, *, cost: Cost, labels: Sequence[str] | None = None
) -> ClusterCentres:
    """Release the centres of `request` for `cost`. Names of clusters are not part of what is released."""
    if labels is not None and not (isinstance(labels, Sequence) and all(isinstance(name, str) for name in labels)):
        raise InputError("labels are names of the clusters, in the order in which they are found.", hint='["A", "B"]')
    _, names = declared(labels, tuple(range(request.k)))
    if len(names) != request.k:
        raise InputError(f"{len(names)} labels were given for {request.k} clusters.")
    spec = resolve(request, table.domain, table.neighbours, table.rows_hint, cost)
    lloyd, noise = spec.lloyd, forecast(spec, table.neighbours, cost)  # a price too small is refused here
    bound = sensitivity(lloyd.space, lloyd.weight, table.neighbours)
    map_sum = partial(table.map_sum, columns=lloyd.space.features, label=request.label)

    def body(gate: Gate) -> None:
        first, each = spec.costs(cost)

        def ask(part: str, centres: Integers) -> tuple[Integers, Noise]:
            if part == "marginals":
                counts = map_sum(gate, partial(histogram_statistic, spec=spec), size=spec.histogram_size)
                answer = gate.noisy_counts(part, counts, first, partitions=len(lloyd.partitions))
            else:
                kernel = partial(statistic, lloyd=lloyd, centres=centres)
                sums = map_sum(gate, kernel, size=lloyd.size(len(centres)))
                answer = gate.noisy_sum(part, sums, bound, each)
            return np.array(answer, dtype=np.int64), noise[part]

        lloyd.walk(ask)

    public = ["the features", "the number of clusters", "the number of rounds", "how the centres start"]
    identity = {
        "explainer": ClusterCentres.kind,
        "table": table.identity,
        "spec": spec.to_json(),
        "public": [*public, table.domain.describe(), *table.neighbours.public],
    }
    released = table.door.release(request.label, identity, cost, body)
    receipt = receipt_for(table.budget, table.neighbours, released, table.domain)
    return ClusterCentres(receipt, released.payload, names)


@of_wrapped
def dp_kmeans(
    table: PrivateTable,
    k: int,
    features: Sequence[str] | None = None,
    *,
    epsilon: Any = None,
    rho: Any = None,
    labels: Sequence[str] | None = None,
    **options: Any,
) -> Clustering:
    """k clusters of the rows, found with differential privacy: each row belongs to the nearest of k released centres.

    `epsilon` (or `rho`) is the whole price. The clustering carries its receipt, and `clustering.result` its centres
    (`to_frame`, `plot`, `to_json`). `labels` are the names of the clusters, in the order in which they are found.
    Options: see `requests.KMeans`.
    """
    request = KMeansRequest(k=k, features=features, **options)
    centres = explain(table, request, cost=table.cost(epsilon=epsilon, rho=rho), labels=labels)
    return Clustering.of(centres, domain=table.domain)
