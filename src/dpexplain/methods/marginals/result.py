"""Released histograms of several features: paid once, reused free by whatever needs to know where the rows are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain
from dpexplain.errors import InputError
from dpexplain.maths.grids import Partition
from dpexplain.maths.reference import Reference
from dpexplain.methods.result import Floats, Result
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Rug:
    """The noisy histogram of a feature: where the rows are, so that a reader knows where a curve means something."""

    partition: Partition
    counts: Floats  # never negative
    std: float

    @property
    def shares(self) -> Floats:
        return shares_of(self.counts)


@dataclass(frozen=True)
class Marginals(Result):
    """One noisy histogram for each feature. `values` are counts, never negative and with a consistent total."""

    kind: ClassVar[str] = "marginals"

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(Partition.from_json(p) for p in self.receipt.request["spec"]["partitions"])

    @property
    def features(self) -> list[str]:
        return [partition.feature for partition in self.partitions]

    @cached_property
    def total(self) -> float:
        """The number of rows: public, or the mean of the histograms' noisy totals."""
        return total_of(self.part("counts")[0], self.partitions, self.receipt.request["table"]["rows"])

    @cached_property
    def _slices(self) -> dict[str, slice]:
        ends = np.cumsum([partition.size for partition in self.partitions])
        return {p.feature: slice(int(end) - p.size, int(end)) for p, end in zip(self.partitions, ends, strict=True)}

    @cached_property
    def values(self) -> Floats:
        return np.concatenate(counts_of(self.part("counts")[0], self.partitions, self.total))

    def shares(self, feature: str) -> Floats:
        """The estimated distribution of one feature over its cells; it adds up to one."""
        return shares_of(self.values[self._slices[feature]])

    def reference(self, feature: str, domain: Domain) -> Reference:
        """The same as something to take other values from."""
        return Reference(domain[feature], self.rug(feature).partition, self.shares(feature))

    def rug(self, feature: str) -> Rug:
        """The histogram of one feature in the form that curves show."""
        if feature not in self.features:
            raise InputError(f"these marginals do not have {feature!r}.", hint="they have: " + ", ".join(self.features))
        partition = self.partitions[self.features.index(feature)]
        return Rug(partition, self.values[self._slices[feature]], self.part("counts")[1].std)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) around each exact count."""
        counts, noise = self.part("counts")
        half = noise.halfwidth(level)
        return np.maximum(counts - half, 0).astype(np.float64), np.maximum(counts + half, 0).astype(np.float64)

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        cells = [(p.feature, label) for p in self.partitions for label in p.labels]
        features, labels = zip(*cells, strict=True)
        return pd.DataFrame({"feature": features, "cell": labels, "count": self.values, "low": low, "high": high})

    def plot(self, ax: Axes | None = None) -> Axes:
        from dpexplain.render.plots import plot_marginals

        return plot_marginals(self, ax)

    def view(self) -> JsonObject:
        return {}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Marginals:  # noqa: ARG003 - no settings
        marginals = cls(receipt, released)
        cells = sum(partition.size for partition in marginals.partitions)
        if not len(marginals.interval()[0]) == len(marginals.values) == cells:
            raise ValueError("the cells do not fit the released values")
        return marginals


def total_of(noisy: NDArray[np.int64], partitions: Sequence[Partition], rows: int | None) -> float:
    """The number of rows: public, or the mean of the noisy totals of several partitions."""
    return float(rows) if rows is not None else max(0.0, float(noisy.sum()) / len(partitions))


def counts_of(noisy: NDArray[np.int64], partitions: Sequence[Partition], total: float) -> list[Floats]:
    """The counts of each partition, never negative, and all with one total."""
    ends = np.cumsum([partition.size for partition in partitions])[:-1]
    return [nearest_with_total(part, total) for part in np.split(noisy.astype(np.float64), ends)]


def shares_of(counts: Floats) -> Floats:
    """Counts as a distribution; an even one where there is nothing."""
    return counts / counts.sum() if counts.sum() > 0 else np.full(len(counts), 1 / len(counts))


def nearest_with_total(values: Floats, total: float) -> Floats:
    """The non-negative vector with this total that is nearest to `values` (Euclidean projection on a simplex)."""
    if total <= 0:
        return np.zeros(len(values))
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(ordered - excess > 0)[-1]  # the largest value is always among them
    projected: Floats = np.maximum(values - excess[last], 0.0)
    return projected
