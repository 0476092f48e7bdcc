"""Differentially private histograms of several features in one release.

Guarantee    the account's definition and price, for one unit replaced or added or removed. Public: the cells, the
             declared domain, and the number of rows under replace-one without units.
Statistic    for each feature, the number of rows in each public cell.
Sensitivity  a row is in one cell of each feature: `Sensitivity.of_counts(neighbours, number of features)`.
Release      one vector of counts with the noise law of the smallest forecast error. Non-negative counts with a common
             total are post-processing.
References   Dwork, McSherry, Nissim, Smith 2006.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.domain import Domain
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.maths.grids import WHOLE_NUMBERS, Partition, cells_of, partition_of
from dpexplain.maths.reference import Reference
from dpexplain.methods.marginals.result import Marginals, counts_of, shares_of, total_of
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.models.arguments import of_wrapped
from dpexplain.receipts import receipt_for

CELLS = 64
CELLS_FACTOR, FEWEST_CELLS = 2.4, 6
FINE, GRADED = (24, 256), 16  # fewest and most cells of a fine histogram; so many are graded to the low end


@dataclass(frozen=True, kw_only=True)
class MarginalsRequest:
    """The request: which features (all declared ones by default), and how many cells for a continuous one."""

    features: Sequence[str] | None = None
    cells: int = CELLS
    mechanism: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.cells, bool) or not isinstance(self.cells, int) or self.cells < 1:
            raise InputError(f"cells must be a whole number of at least 1; got {self.cells!r}.")
        if isinstance(self.features, str) or (self.features is not None and not list(self.features)):
            raise InputError(
                "features must be a list of names.", hint='features=["age", "sex"], or leave it out for all'
            )

    @property
    def label(self) -> str:
        return "marginals of " + ("all features" if self.features is None else ", ".join(self.features))


@dataclass(frozen=True)
class Spec:
    """The concrete cells, public and hashed into the ledger."""

    partitions: tuple[Partition, ...]
    mechanism: str | None

    @property
    def size(self) -> int:
        return sum(p.size for p in self.partitions)

    def to_json(self) -> JsonObject:
        return {"partitions": [p.to_json() for p in self.partitions], "mechanism": self.mechanism}


def statistic(rows: Rows, spec: Spec) -> NDArray[np.int64]:
    """The exact counts of one batch."""
    return np.concatenate([p.counts(rows[p.feature]) for p in spec.partitions])


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    return Sensitivity.of_counts(neighbours, len(spec.partitions))


def resolve(request: MarginalsRequest, domain: Domain) -> Spec:
    features = list(domain) if request.features is None else list(dict.fromkeys(request.features))
    partitions = []
    for feature in features:
        column = domain.column(feature)
        whole = getattr(column, "integer", False) and column.values <= WHOLE_NUMBERS  # type: ignore[union-attr]
        partitions.append(partition_of(feature, column, WHOLE_NUMBERS if whole else request.cells))
    return Spec(tuple(partitions), request.mechanism)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of the counts at this price. Costs nothing, touches no data."""
    return {"counts": best(sensitivity(spec, neighbours), spec.size, cost, spec.mechanism)}


def outlook(request: MarginalsRequest, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the counts."""
    noise = forecast(resolve(request, setting.domain), setting.neighbours, cost)["counts"]
    return Outlook(noise.law.value, noise.size, noise.std, noise.halfwidth(LEVEL), noise.band(LEVEL))


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "counts": "rows in each public cell of each feature",
        "histograms": "non-negative, with one total",
    }
    edges = [("table", "counts"), ("counts", "histograms")]
    return DataFlow(stages, edges, name="Marginals", noised=["counts"])


def explain(table: PrivateTable, request: MarginalsRequest, *, cost: Cost) -> Marginals:
    """Release the histograms of `request` for `cost`."""
    return release_cells(table, resolve(request, table.domain), request.label, cost)


def release_cells(table: PrivateTable, spec: Spec, label: str, cost: Cost) -> Marginals:
    """Release the histograms of these cells for `cost`."""
    forecast(spec, table.neighbours, cost)  # an unavailable mechanism is refused here, before anything is reserved

    def body(gate: Gate) -> None:
        columns = [p.feature for p in spec.partitions]
        counts = table.map_sum(gate, partial(statistic, spec=spec), columns, size=spec.size, label=label)
        gate.noisy_sum("counts", counts, sensitivity(spec, gate.neighbours), cost, mechanism=spec.mechanism)

    public = ["the cells", table.domain.describe(), *table.neighbours.public]
    identity = {"explainer": "marginals", "table": table.identity, "spec": spec.to_json(), "public": public}
    released = table.door.release(label, identity, cost, body)
    return Marginals(receipt_for(table.budget, table.neighbours, released, table.domain), released.payload)


# Marginals that another release pays for, and draws other values from -------------------------------------------------


def share_of(value: Any) -> Fraction:
    """The part of a price that is paid for marginals."""
    try:
        share = Fraction(value).limit_denominator(10**6)
    except (TypeError, ValueError, ArithmeticError):
        share = Fraction(0)
    if isinstance(value, bool) or not 0 < share < 1:
        raise InputError(f"marginals_share lies between 0 and 1; got {value!r}."[:200])
    return share


def cells_for(
    names: Sequence[str], domain: Domain, neighbours: Neighbours, rows: int, cost: Cost
) -> tuple[Partition, ...]:
    """The cells of histograms for `cost`: the fewer, the more noise a count has beside the rows.

    With m cells the error of a distribution has two parts, noise that grows like sqrt(m) s/n, s the noise of a count,
    and what cells blur, which falls like 1/m or faster. Here s is that of one count for each feature. Adult, where the
    factor was found, is flat around it.
    """
    noise = best(Sensitivity.of_counts(neighbours, len(names)), len(names), cost)
    wanted = CELLS_FACTOR * math.sqrt(rows / max(noise.std, 1.0))
    cells = round(min(max(wanted, FEWEST_CELLS), WHOLE_NUMBERS))
    return cells_of(names, domain, cells, most_whole=min(2 * cells, WHOLE_NUMBERS))


def fine_cells(names: Sequence[str], domain: Domain, noise: Noise, rows: int) -> tuple[Partition, ...]:
    """The cells of histograms by which a public function is averaged, bounded inside each cell by its two ends.

    A function that rises evenly by R over a column has, with m even cells, counts of standard deviation s and n rows,
    an error by noise of R s sqrt(m / 12) / n, 1.96 times that as a half-width; and rows may lie anywhere in their
    cells: R / 2m. The sum is smallest at m = (sqrt(12) n / 1.96 s)^(2/3), whatever R is.
    """
    even = (math.sqrt(12) * rows / (1.96 * max(noise.std, 0.5))) ** (2 / 3)
    cells = round(min(max(even + GRADED, FINE[0]), FINE[1]))
    return cells_of(names, domain, cells, most_graded=GRADED)


def send_counts(
    table: PrivateTable, gate: Gate, partitions: tuple[Partition, ...], cost: Cost, label: str
) -> dict[str, Reference]:
    """Release the histograms of these cells inside another release, as "counts": what other values are drawn from."""
    spec = Spec(partitions, None)
    columns = [p.feature for p in partitions]
    exact = table.map_sum(gate, partial(statistic, spec=spec), columns, size=spec.size, label=label)
    noisy = np.array(gate.noisy_sum("counts", exact, sensitivity(spec, gate.neighbours), cost))
    counts = counts_of(noisy, partitions, total_of(noisy, partitions, table.size))
    return {
        p.feature: Reference(table.domain[p.feature], p, shares_of(part))
        for p, part in zip(partitions, counts, strict=True)
    }


def references(names: Sequence[str], found: Marginals, domain: Domain) -> dict[str, Reference]:
    """The same from marginals that were released before."""
    return {name: found.reference(name, domain) for name in names}


def known_marginals(table: PrivateTable, found: Any, names: Sequence[str] = ()) -> Marginals:
    """Marginals that were released before, if this table's account has released exactly these, with cells for `names`.

    What a file says is not enough: its cells meet private rows, and its price becomes part of a guarantee.
    """
    if not isinstance(found, Marginals):
        raise InputError("marginals must be a result of dpx.marginals, or the .marginals of another result.")
    receipt = found.receipt
    if "partitions" not in receipt.request["spec"] or "counts" not in found.released["parts"]:
        raise InputError("this release has no marginals.", hint="dpx.marginals(table, epsilon=...) releases some")
    if receipt.request["table"] != table.identity:
        raise InputError("these marginals were released from another table, or from another version of it.")
    stored = table.door.account.find(digest(receipt.request))
    said = (found.released, receipt.entry, receipt.cost)
    true = stored is not None and (stored.payload, stored.entry, stored.entry.charged) == said
    if not true or (receipt.budget, receipt.neighbours) != (table.budget, table.neighbours):
        raise InputError(
            "the account of this table has not released these marginals.",
            hint="release them from it: dpx.marginals(table, epsilon=...)",
        )
    for name in names:
        found.rug(name)
    return found


def builds_on(found: Marginals | None) -> JsonObject:
    """What a later release says of the marginals that it is computed from, in its identity."""
    if found is None:
        return {}
    entry = found.receipt.entry
    return {"builds_on": [{"entry": entry.sequence, "payload": entry.payload_hash, "cost": entry.charged.to_json()}]}


@of_wrapped
def marginals(
    table: PrivateTable, features: Sequence[str] | None = None, *, epsilon: Any = None, rho: Any = None, **options: Any
) -> Marginals:
    """Differentially private histograms of `features` (all declared ones by default) for one price.

    Paid once: hand the result to whatever needs to know where the rows are. Options: see `requests.Marginals`.
    """
    request = MarginalsRequest(features=features, **options)
    return explain(table, request, cost=table.cost(epsilon=epsilon, rho=rho))
