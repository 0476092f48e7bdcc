"""Released histograms of several features: paid once, reused free by whatever needs to know where the rows are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpexplain.columns import labels as labels_of
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain
from dpexplain.errors import InputError
from dpexplain.maths.grids import Partition
from dpexplain.maths.reference import Reference
from dpexplain.methods.histogram import Histogram, Integers, read, size_of, total_of
from dpexplain.methods.marginals.spec import Spec
from dpexplain.methods.result import Floats, Result
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Marginals(Result):
    """One noisy histogram for each feature. `values` are counts, never negative and with a consistent total."""

    kind: ClassVar[str] = "marginals"
    spec_type: ClassVar[type[Spec]] = Spec
    picture: ClassVar[str] = "dpexplain.render.plots:plot_marginals"
    has_missing: ClassVar[bool] = True

    @property
    def marginals(self) -> Marginals:
        return self

    @property
    def picture_size(self) -> tuple[float, float]:
        return 7.36, 1.4 + 0.62 * len(self.partitions)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        partitions: tuple[Partition, ...] = self.spec.partitions
        return partitions

    @property
    def features(self) -> list[str]:
        return [partition.feature for partition in self.partitions]

    @cached_property
    def total(self) -> float:
        """The number of rows: public, or the mean of the histograms' noisy totals."""
        return total_of(self.part("counts")[0], self.partitions, self.receipt.rows)

    @cached_property
    def histograms(self) -> dict[str, Histogram]:
        """The histogram of each feature."""
        counts, noise = self.part("counts")
        return read(counts, noise.std, self.partitions, self.total)

    @cached_property
    def values(self) -> Floats:
        return np.concatenate([histogram.counts for histogram in self.histograms.values()])

    def noisy_counts(self, feature: str) -> Integers:
        """The counts of one feature as they were released, with cells as in `histogram`."""
        ends = np.cumsum([partition.size for partition in self.partitions])[:-1]
        return np.split(self.part("counts")[0], ends)[self.features.index(feature)]

    def histogram(self, feature: str) -> Histogram:
        """The histogram of one feature."""
        if feature not in self.features:
            raise InputError(f"these marginals do not have {feature!r}.", hint="they have: " + ", ".join(self.features))
        return self.histograms[feature]

    def shares(self, feature: str) -> Floats:
        """The estimated distribution of one feature over its cells; it adds up to one."""
        return self.histogram(feature).shares

    def reference(self, feature: str, domain: Domain) -> Reference:
        """The distribution of one feature as something to take values from."""
        return self.histogram(feature).reference(domain)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) around each exact count."""
        counts, noise = self.part("counts")
        half = noise.halfwidth(level)
        return np.maximum(counts - half, 0).astype(np.float64), np.maximum(counts + half, 0).astype(np.float64)

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        cells = [
            (p.feature, label) for p in self.partitions for label in labels_of(self.receipt.domain, p.feature, p.labels)
        ]
        features, labels = zip(*cells, strict=True)
        return pd.DataFrame({"feature": features, "cell": labels, "count": self.values, "low": low, "high": high})

    def view(self) -> JsonObject:
        return {}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Marginals:  # noqa: ARG003 - no settings
        marginals = cls(receipt, released)
        if not len(marginals.interval()[0]) == len(marginals.values) == size_of(marginals.partitions):
            raise ValueError("the cells do not fit the released values")
        return marginals
