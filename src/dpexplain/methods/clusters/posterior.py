"""Explained clusters by released counts of all clusters and attributes (`method="posterior"`): see `tables.py`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.combinations import steps
from dpexplain.core.domain import Domain
from dpexplain.core.release import Gate
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError
from dpexplain.maths.grids import Partition
from dpexplain.methods.clusters.request import Clusters, Weights
from dpexplain.methods.clusters.sharp import SharpClusters
from dpexplain.methods.clusters.spec import statistic
from dpexplain.methods.clusters.tables import TablesSpec, forecast
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.models.clustering import Clustering

NOTE = (
    "The error is that of a released count of rows by cluster and value; the choice of attributes is free and rests on "
    "all of them, and likely values are closer."
)


def resolve(request: Clusters, partitions: tuple[Partition, ...], domain: Domain) -> TablesSpec:
    """The concrete spec of a request. Reads nothing but public things."""
    assert request.labels is not None
    spec = TablesSpec(
        labels=tuple(map(str, request.labels)),
        partitions=partitions,
        whole=tuple(getattr(domain[p.feature], "integer", False) for p in partitions),
        weights=Weights.of(request.weights),
        per_cluster=request.per_cluster,
    )
    try:
        steps(len(partitions), spec.clusters, spec.per_cluster)
    except InputError as error:
        raise InputError(
            f"{spec.clusters} clusters with {spec.per_cluster} of {len(partitions)} attributes each are too many to "
            "weigh all combinations.",
            hint='use fewer attributes, or method="two-stage"',
        ) from error
    return spec


def outlook(spec: TablesSpec, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move a count."""
    noise = forecast(spec, setting.neighbours, cost)
    return Outlook(noise.law.value, noise.size, noise.std, noise.halfwidth(LEVEL), noise.band(LEVEL), note=NOTE)


def explain(
    table: PrivateTable,
    clustering: Clustering,
    label: str,
    spec: TablesSpec,
    *,
    cost: Cost,
    public: list[str],
    outside: list[str],
    stand_in: StandIn | None,
) -> SharpClusters:
    """Release the counts for `cost`; what follows from them is free."""
    noise = forecast(spec, table.neighbours, cost)  # a price too small is refused here, before anything is reserved
    columns = list(dict.fromkeys([*clustering.features, *(p.feature for p in spec.partitions)]))
    kernel = partial(statistic, assign=clustering.assign, partitions=spec.partitions, clusters=spec.clusters)

    def body(gate: Gate) -> None:
        safe = clustering.thread_safe
        counts = table.sum_rows(gate, kernel, columns, size=spec.size, label=label, parallel=safe)
        tables = len(spec.partitions)
        gate.noisy_counts("tables", counts, cost, partitions=tables, mechanism=noise.law.value)

    asked: JsonObject = spec.to_json()
    receipt, payload = table.release(
        "clusters", label, asked, cost, body, public=public, outside=outside, clustering=clustering.identity
    )
    result = SharpClusters(receipt, payload, (), stand_in)
    return replace(result, given=labels(table, clustering, result))


def labels(table: PrivateTable, clustering: Clustering, result: SharpClusters) -> tuple[int, ...]:
    """What the clustering says about the synthetic rows; what was kept in the ledger before, if there is something."""
    mine = clustering.assign(result.synthetic).astype(np.float64).tolist()
    kept = table.door.account.declare(result.known_as, mine)
    return tuple(int(label) for label in kept)
