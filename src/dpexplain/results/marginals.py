"""Released histograms of several features: paid once, reused free by whatever needs to know where the rows are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpexplain.core.canonical import JsonObject
from dpexplain.errors import InputError
from dpexplain.grids import Partition
from dpexplain.results.base import Floats, Receipt, Result

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
        total = self.counts.sum()
        return self.counts / total if total > 0 else np.full(len(self.counts), 1 / len(self.counts))


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
        rows = self.receipt.request["table"]["rows"]
        return float(rows) if rows is not None else max(0.0, float(self.part("counts")[0].sum()) / len(self.partitions))

    @cached_property
    def _slices(self) -> dict[str, slice]:
        ends = np.cumsum([partition.size for partition in self.partitions])
        return {p.feature: slice(int(end) - p.size, int(end)) for p, end in zip(self.partitions, ends, strict=True)}

    @cached_property
    def values(self) -> Floats:
        noisy = self.part("counts")[0].astype(np.float64)
        return np.concatenate([nearest_with_total(noisy[place], self.total) for place in self._slices.values()])

    def shares(self, feature: str) -> Floats:
        """The estimated distribution of one feature over its cells; it adds up to one."""
        counts = self.values[self._slices[feature]]
        return counts / counts.sum() if counts.sum() > 0 else np.full(len(counts), 1 / len(counts))

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


def nearest_with_total(values: Floats, total: float) -> Floats:
    """The non-negative vector with this total that is nearest to `values` (Euclidean projection on a simplex)."""
    if total <= 0:
        return np.zeros(len(values))
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(ordered - excess > 0)[-1]  # the largest value is always among them
    projected: Floats = np.maximum(values - excess[last], 0.0)
    return projected
