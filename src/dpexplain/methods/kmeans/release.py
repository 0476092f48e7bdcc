"""Differentially private k-means: a clustering that may be explained, because its centres were released.

Guarantee    the account's definition and cost, for one unit replaced or added or removed. Public: the features, the
             number of clusters and of rounds, the start, the declared domain, and the number of rows under replace-one
             without units.
Statistic    given centres, for each of them: the number of rows that are nearest to it, and the sum of their
             coordinates (`Space`), numeric ones from the middle of their range; all whole numbers.
Sensitivity  a row adds W to one count and at most H = 1/2 for each numeric feature and V = 1/sqrt(2) for each
             categorical one to the sums beside it: see `sensitivity`. Of the histograms: `Sensitivity.of_counts`.
Release      noisy histograms of the features show where cells should be; one survey of the cells, and k centres that
             group them; then Lloyd's rounds, each around the centres that the noisy answer before led to. A tenth of
             the cost is for the histograms, the rest in equal parts for the survey and the rounds. Everything between
             two questions is post-processing (`maths/lloyd.py`).
References   Su, Cao, Li, Bertino, Jin 2016, "Differentially private k-means clustering" (DPLloyd: the rounds, and the
             split between counts and sums); Blum, Dwork, McSherry, Nissim 2005. The survey is ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from dpexplain.core.budget import Cost
from dpexplain.core.domain import Categorical, Numeric
from dpexplain.core.noise import Noise
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.grids import Partition, partition_of
from dpexplain.maths.lloyd import HALF, Integers, Lloyd, places_of, start_of
from dpexplain.maths.surrogate import Space
from dpexplain.maths.surrogate.sketch import GRID
from dpexplain.methods import histogram
from dpexplain.methods.kmeans.request import KMeans
from dpexplain.methods.kmeans.result import ClusterCentres
from dpexplain.methods.kmeans.spec import Spec, answer_noise, forecast, sensitivity, statistic
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.methods.sharpening import known_stand_in
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.models.arguments import of_wrapped
from dpexplain.models.clustering import Clustering, declared

SHARE = Fraction(1, 10)  # of the price for the histograms that cells are drawn from
HISTOGRAM = 32  # cells of a numeric feature in them
CELLS = 4  # surveyed for each cluster
WEIGHTS = tuple(w * HALF // 4 for w in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40))  # of a row in a count
OFFSET = 0.2  # how far a centre is from the middle of a feature's range, as a rule
ROUNDS = range(1, 9)
USUAL_GAP, STAND_IN_GAP = 4e-4, 2e-4  # of a feature's squared range, from the first centres to the best ones
START_ROWS = 4_096  # synthetic rows of a stand-in, whose centres are a start
UNKNOWN_ROWS = 10_000  # taken for the forecast where nothing is known


def resolve(request: KMeans, setting: Setting, cost: Cost) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    domain, neighbours = setting.domain, setting.neighbours
    numeric = [name for name in domain if isinstance(domain[name], Numeric)]
    space = Space(domain, tuple(request.features or numeric or domain))
    if request.k > (points := _points(space)):
        raise InputError(f"{request.k} clusters were asked for, but the domain has {points} different points.")
    start, cells, marginals = None, CELLS * request.k, request.start == "marginals"
    partitions: tuple[Partition, ...] = tuple(partition_of(f, domain[f], HISTOGRAM) for f in space.features)
    if setting.stand_in is not None and request.start == "marginals":
        drawn = setting.stand_in.draw(START_ROWS, request.seed)
        found = start_of(places_of(space, drawn, START_ROWS).astype(np.int64), request.k)
        start, cells, partitions, marginals = tuple(tuple(map(int, centre)) for centre in found), 0, (), False
    elif not isinstance(request.start, str):
        located = [space.locate(space.read(record)) for record in request.start]
        start, cells, partitions = tuple(tuple(map(int, np.rint(place * GRID))) for place in located), 0, ()
    lloyd = Lloyd(space, request.k, start, cells, partitions, marginals, HALF, request.rounds or 1, request.seed)
    share = SHARE if marginals else Fraction(0)
    # a larger weight makes counts better and sums worse
    weighted = [Spec(replace(lloyd, weight=weight), share) for weight in WEIGHTS]
    spec = min(weighted, key=lambda spec: _error(spec, neighbours, cost))
    if request.rounds is not None:
        return spec
    several = [replace(spec, lloyd=replace(spec.lloyd, rounds=rounds)) for rounds in ROUNDS]
    gap = USUAL_GAP if setting.stand_in is None else STAND_IN_GAP
    return min(several, key=lambda spec: _expected_loss(spec, neighbours, cost, setting.hint or UNKNOWN_ROWS, gap))


def _points(space: Space) -> float:
    """How many different points the space has."""
    columns = [space.domain[name] for name in space.features]
    values = [len(c.categories) if isinstance(c, Categorical) else c.values if c.integer else math.inf for c in columns]
    return math.prod(values)


def _error(spec: Spec, neighbours: Neighbours, cost: Cost) -> float:
    """The squared error of a centre, in coordinates, times the squared number of rows of its cluster.

    A centre is the middle + sum / count: noise d in the sums and e in the count moves it by (d - offset e) / count.
    """
    lloyd = spec.lloyd
    variance = answer_noise(spec, neighbours, cost, lloyd.k).std ** 2
    return variance * (lloyd.space.size / GRID**2 + len(lloyd.space.features) * (OFFSET / lloyd.weight) ** 2)


def _expected_loss(spec: Spec, neighbours: Neighbours, cost: Cost, rows: int, gap: float = USUAL_GAP) -> float:
    """About how far the mean squared distance of rows from their centres will end above that of the best centres.

    Rules of thumb, chosen on the tables of docs/methods/dp-kmeans.md: every round halves what is left to gain, a
    `gap` of a feature's squared range at first; clusters are uneven, so noise counts three times.
    """
    noise = _error(spec, neighbours, cost) * (spec.lloyd.k / rows) ** 2
    return 3 * noise + gap * len(spec.lloyd.space.features) * 0.5**spec.lloyd.rounds


def outlook(request: KMeans, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move a centre in each coordinate, as a share of a range, were all clusters of one size."""
    spec = resolve(request, setting, cost)
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
    table: PrivateTable, _model: object, request: KMeans, *, cost: Cost, stand_in: StandIn | None = None
) -> ClusterCentres:
    """Release the centres of `request` for `cost`. Names of clusters are not part of it. A stand-in that was released
    before has the first centres: those of its synthetic rows.
    """
    _, names = declared(request.labels, tuple(range(request.k)))
    setting = replace(Setting.of(table), stand_in=_start_from(table, request, stand_in))
    spec = resolve(request, setting, cost)
    lloyd, noise = spec.lloyd, forecast(spec, table.neighbours, cost)  # a price too small is refused here
    bound = sensitivity(lloyd.space, lloyd.weight, table.neighbours)
    sum_rows = partial(table.sum_rows, columns=lloyd.space.features, label=request.label)

    def body(gate: Gate) -> None:
        first, each = spec.costs(cost)

        def ask(part: str, centres: Integers) -> tuple[Integers, Noise]:
            if part == "marginals":
                kernel = partial(histogram.statistic, partitions=lloyd.partitions)
                counts = sum_rows(gate, kernel, size=lloyd.histogram_size)
                answer = gate.noisy_counts(part, counts, first, partitions=len(lloyd.partitions))
            else:
                kernel = partial(statistic, lloyd=lloyd, centres=centres)
                sums = sum_rows(gate, kernel, size=lloyd.size(len(centres)))
                answer = gate.noisy_sum(part, sums, bound, each)
            return np.array(answer, dtype=np.int64), noise[part]

        lloyd.walk(ask)

    public = ["the features", "the number of clusters", "the number of rounds", "how the centres start"]
    before = histogram.builds_on(stand_in)
    receipt, payload = table.release(
        ClusterCentres.kind, request.label, spec.to_json(), cost, body, public=public, **before
    )
    return ClusterCentres(receipt, payload, names)


def _start_from(table: PrivateTable, request: KMeans, stand_in: StandIn | None) -> StandIn | None:
    """The stand-in, if this table's account has released exactly this one, and nothing else was said about a start."""
    if stand_in is None:
        return None
    if request.start != "marginals":
        raise InputError("a stand-in and a start were given: it is one or the other.", hint="leave start out")
    features = request.features or [f for f in table.domain if isinstance(table.domain[f], Numeric)] or table.domain
    return known_stand_in(table, stand_in, list(features))


@of_wrapped
def dp_kmeans(
    table: PrivateTable,
    k: int,
    features: Sequence[str] | None = None,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    rounds: int | None = None,
    start: Literal["marginals", "domain"] | list[Any] | tuple[Any, ...] = "marginals",
    stand_in: StandIn | None = None,
    labels: Sequence[str] | None = None,
    seed: int = 0,
) -> Clustering:
    """k clusters of the rows, found with differential privacy: each row belongs to the nearest of k released centres.

    `epsilon` (or `rho`) is the whole cost; `requests.KMeans` describes the options. The clustering carries its
    receipt, and `clustering.result` its centres (`to_frame`, `plot`, `to_json`). With a `stand_in` that was released
    before, the rounds start from the centres of its synthetic rows: no survey and no histograms are paid for.
    """
    request = KMeans(k=k, features=features, rounds=rounds, start=start, labels=labels, seed=seed)
    cost = table.cost(epsilon=epsilon, rho=rho)
    return explain(table, None, request, cost=cost, stand_in=stand_in).as_clustering()
