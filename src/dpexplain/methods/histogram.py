"""Released histograms: the number of rows in each public cell of some features, with noise.

Marginals release histograms alone. A curve releases one to show where the rows are, other methods release some to draw
values from, and each of them can take those of an earlier release: `known_marginals` says which.

Statistic    for each feature, the number of rows in each public cell.
Sensitivity  a row is in one cell of each feature: `Sensitivity.of_counts(neighbours, number of features)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.errors import InputError
from dpexplain.maths.grids import WHOLE_NUMBERS, Partition, cells_of, partition_of
from dpexplain.maths.reference import Reference
from dpexplain.maths.simplex import nearest_with_total as nearest_with_total

if TYPE_CHECKING:
    from dpexplain.data.rows import Rows
    from dpexplain.data.table import PrivateTable
    from dpexplain.methods.marginals.result import Marginals
    from dpexplain.methods.result import Result

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SHOWN_CELLS = 30  # of a histogram below a curve
SHOWN_SHARES = (Fraction(1, 50), Fraction(1, 20), Fraction(1, 10))  # of the price: the first that is enough,
SHOWN_ERROR = 0.01  # so that counts are right to 1 % of the rows
CELLS_FACTOR, FEWEST_CELLS = 2.4, 6
FINE, GRADED = (24, 256), 16  # fewest and most cells of a fine histogram; so many are graded to the low end


@dataclass(frozen=True)
class Histogram:
    """The released histogram of one feature."""

    partition: Partition
    counts: Floats  # never negative
    std: float  # of the noise of a count

    @property
    def shares(self) -> Floats:
        """The distribution over the cells; an even one where no rows are left."""
        total = self.counts.sum()
        return self.counts / total if total > 0 else np.full(len(self.counts), 1 / len(self.counts))

    def reference(self, domain: Domain) -> Reference:
        """The distribution as something to take values from."""
        return Reference(domain[self.partition.feature], self.partition, self.shares)


# The release --------------------------------------------------------------------------------------------------------


def size_of(partitions: Sequence[Partition]) -> int:
    """How many cells there are in all."""
    return sum(partition.size for partition in partitions)


def statistic(rows: Rows, partitions: Sequence[Partition]) -> Integers:
    """The exact counts of one batch, feature after feature."""
    return np.concatenate([np.empty(0, dtype=np.int64), *(p.counts(rows[p.feature]) for p in partitions)])


def sensitivity(partitions: Sequence[Partition], neighbours: Neighbours) -> Sensitivity:
    """How far one unit moves the counts: a row is in one cell of each feature."""
    return Sensitivity.of_counts(neighbours, len(partitions))


def forecast(
    partitions: Sequence[Partition], neighbours: Neighbours, cost: Cost, mechanism: str | None = None
) -> Noise:
    """The noise of the counts at this cost. Costs nothing, touches no data."""
    return best(sensitivity(partitions, neighbours), size_of(partitions), cost, mechanism)


def send(
    table: PrivateTable,
    gate: Gate,
    part: str,
    partitions: Sequence[Partition],
    cost: Cost,
    label: str,
    mechanism: str | None = None,
) -> list[int]:
    """Release the counts of these cells as one part."""
    columns, kernel = [p.feature for p in partitions], partial(statistic, partitions=partitions)
    exact = table.sum_rows(gate, kernel, columns, size=size_of(partitions), label=label)
    return gate.noisy_counts(part, exact, cost, partitions=len(partitions), mechanism=mechanism)


def send_counts(
    table: PrivateTable,
    gate: Gate,
    partitions: Sequence[Partition],
    cost: Cost,
    label: str,
    mechanism: str | None = None,
) -> dict[str, Reference]:
    """Release the histograms of these cells as the part "counts"; what they are as distributions."""
    released = np.array(send(table, gate, "counts", partitions, cost, label, mechanism), dtype=np.int64)
    found = read(released, 0.0, partitions, total_of(released, partitions, table.size))
    return {name: histogram.reference(table.domain) for name, histogram in found.items()}


def read(
    released: Integers, std: float, partitions: Sequence[Partition], total: float | None = None
) -> dict[str, Histogram]:
    """Released counts by feature, never negative; with a `total`, the nearest ones that add up to it."""
    ends = np.cumsum([partition.size for partition in partitions])[:-1]
    parts = np.split(released.astype(np.float64), ends)
    counts = [np.maximum(part, 0.0) if total is None else nearest_with_total(part, total) for part in parts]
    return {p.feature: Histogram(p, mine, std) for p, mine in zip(partitions, counts, strict=True)}


def total_of(released: Integers, partitions: Sequence[Partition], rows: int | None) -> float:
    """The number of rows: public, or the mean of the histograms' noisy totals."""
    return float(rows) if rows is not None else max(0.0, float(released.sum()) / len(partitions))


# Cells, and their part of a price -------------------------------------------------------------------------------------


def cells_to_show(features: Sequence[str], domain: Domain) -> tuple[Partition, ...]:
    """The cells of histograms that are drawn below curves."""
    return tuple(partition_of(feature, domain[feature], SHOWN_CELLS) for feature in features)


def share_to_show(partitions: Sequence[Partition], neighbours: Neighbours, rows: int | None, cost: Cost) -> Fraction:
    """The part of a cost for histograms below curves: the smallest one that makes them good enough to read."""
    if not partitions:
        return Fraction(0)
    for share in SHOWN_SHARES:
        if rows is not None and forecast(partitions, neighbours, cost * share).halfwidth(0.95) <= SHOWN_ERROR * rows:
            return share
    return SHOWN_SHARES[-1]


def cells_for(
    names: Sequence[str], domain: Domain, neighbours: Neighbours, rows: int, cost: Cost
) -> tuple[Partition, ...]:
    """The cells of histograms to draw from: fewer, where noise is large for this number of rows.

    With m cells the error of a distribution has two parts: noise, which grows like sqrt(m) s/n for counts of standard
    deviation s, and what cells blur, which falls like 1/m or faster. Here s is that of one count for each feature. The
    factor was found on Adult, whose error is flat around it.
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


# Those of an earlier release ------------------------------------------------------------------------------------------


def released_by(table: PrivateTable, result: Result) -> bool:
    """Whether the account of this table has released exactly these values, for this request, relation and cost."""
    receipt = result.receipt
    stored = receipt.part_of(table.door.account.find(receipt.ledger_request_id))
    said = (result.released, receipt.entry, receipt.cost)
    true = stored is not None and (stored.payload, stored.entry, stored.entry.charged) == said
    return true and (receipt.budget, receipt.neighbours) == (table.budget, table.neighbours)


def known_marginals(table: PrivateTable, found: Any, names: Sequence[str] = ()) -> Marginals:
    """Marginals that were released before, if this table's account has released exactly these, with cells for `names`.

    What a file says is not enough: its cells meet private rows, and its cost becomes part of a guarantee.
    """
    from dpexplain.methods.marginals.result import Marginals

    if not isinstance(found, Marginals):
        raise InputError("marginals must be a result of dpx.marginals, or the .marginals of another result.")
    receipt = found.receipt
    if "partitions" not in receipt.request["spec"] or "counts" not in found.released["parts"]:
        raise InputError("this release has no marginals.", hint="dpx.marginals(table, epsilon=...) releases some")
    if receipt.request["table"] != table.identity:
        raise InputError("these marginals were released from another table, or from another version of it.")
    if not released_by(table, found):
        raise InputError(
            "the account of this table has not released these marginals.",
            hint="release them from it: dpx.marginals(table, epsilon=...)",
        )
    for name in names:
        found.histogram(name)
    return found


def references(names: Sequence[str], found: Marginals, domain: Domain) -> dict[str, Reference]:
    """The distributions of these features."""
    return {name: found.histogram(name).reference(domain) for name in names}


def builds_on(*found: Result | None) -> JsonObject:
    """What the request of a later release says about the releases that it is computed from."""
    entries = [result.receipt.entry for result in found if result is not None]
    said = [{"entry": e.sequence, "payload": e.payload_hash, "cost": e.charged.to_json()} for e in entries]
    return {"builds_on": said} if said else {}
