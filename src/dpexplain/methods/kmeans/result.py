"""Centres of clusters that were found with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpexplain.columns import Date, shown_date
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Numeric
from dpexplain.core.noise import Noise, checked_level
from dpexplain.maths.lloyd import OWN, Integers, Lloyd, Walk
from dpexplain.maths.surrogate.sketch import GRID
from dpexplain.maths.surrogate.space import Space
from dpexplain.methods.kmeans.spec import Spec
from dpexplain.methods.result import Floats, Result
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd

    from dpexplain.models.clustering import Clustering


@dataclass(frozen=True)
class ClusterCentres(Result):
    """The centres of a differentially private k-means. `values` are in the units of the table; shares for categories.

    An interval is about the mean of the rows of a cluster as they were in the last round, when they were nearest to the
    centre of the round before; so are the numbers of rows.
    """

    labels: tuple[str, ...]

    kind: ClassVar[str] = "dp-kmeans"
    spec_type: ClassVar[type[Spec]] = Spec
    picture: ClassVar[str] = "dpexplain.render.plots:plot_centres"
    coordinates_shown: ClassVar[int] = 30  # in its picture

    @property
    def lloyd(self) -> Lloyd:
        lloyd: Lloyd = self.spec.lloyd
        return lloyd

    @property
    def space(self) -> Space:
        return self.lloyd.space

    @cached_property
    def walk(self) -> Walk:
        return self.lloyd.walk(self._stored)

    def _stored(self, part: str, centres: Integers) -> tuple[Integers, Noise]:
        values, noise = self.part(part)
        if len(values) != (self.lloyd.histogram_size if part == "marginals" else self.lloyd.size(len(centres))):
            raise ValueError("the numbers are not those of the rounds")
        return values, noise

    @property
    def centres(self) -> Integers:
        """A line of coordinates for each cluster, in whole numbers of 1 / GRID."""
        return self.walk.centres

    def as_clustering(self, labels: Sequence[str] | None = None) -> Clustering:
        """The rule by which each row belongs to the nearest centre, under other names if some are given."""
        from dpexplain.models.clustering import Clustering

        names = self.labels if labels is None else labels
        return Clustering.from_centres(self.space, self.centres, names, result=self)

    @cached_property
    def rows(self) -> Floats:
        """About how many rows each cluster had in the last round."""
        counts = self.walk.answer.reshape(self.lloyd.k, -1)[:, 0]
        return np.maximum(counts / self.lloyd.weight, 0.0)

    @cached_property
    def _units(self) -> tuple[Floats, Floats]:
        """Lowest value and width of each coordinate, as people see it: in units of the column, or a share."""
        low, width = np.zeros(self.space.size), np.full(self.space.size, GRID / OWN)
        for name, where in self.space.slices.items():
            column = self.space.domain[name]
            if isinstance(column, Numeric):
                low[where], width[where] = column.low, column.high - column.low
        return low, width

    @cached_property
    def _top(self) -> Integers:
        """The largest place of each coordinate."""
        return np.where(self.lloyd.middle > 0, GRID, OWN)

    def _shown(self, places: Floats) -> Floats:
        low, width = self._units
        shown: Floats = (low + width * (places / GRID)).reshape(-1)
        return shown

    @cached_property
    def values(self) -> Floats:
        return self._shown(self.centres.astype(np.float64))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) around each exact mean; sum and count are both noisy, so each may miss half as often."""
        walk, lloyd = self.walk, self.lloyd
        half = walk.noise.halfwidth((1 + checked_level(level)) / 2)
        lines = walk.answer.reshape(lloyd.k, -1).astype(np.float64)
        count, sums, middle = lines[:, :1], lines[:, 1:], lloyd.middle
        ends = [
            (sums + up) * lloyd.weight / np.maximum(count + more, lloyd.weight)
            for up in (-half, half)
            for more in (-half, half)
        ]
        top, known = self._top, count >= lloyd.least(walk.noise)
        low = np.where(known, np.minimum(np.clip(middle + np.min(ends, axis=0), 0, top), self.centres), 0)
        high = np.where(known, np.maximum(np.clip(middle + np.max(ends, axis=0), 0, top), self.centres), top)
        return self._shown(low), self._shown(high)

    def to_frame(self) -> pd.DataFrame:
        """A line for each cluster and coordinate; `rows` is the noisy number of rows of the cluster."""
        import pandas as pd

        low, high = self.interval()
        names, k = self.space.names, self.lloyd.k
        ends: dict[str, Any] = {"centre": self.values, "low": low, "high": high}
        if any(isinstance(self.space.domain[name], Date) for name in self.space.features):
            ends = {what: list(map(self._as_date, names * k, values.tolist())) for what, values in ends.items()}
        return pd.DataFrame(
            {
                "cluster": np.repeat(np.array(self.labels, dtype=object), len(names)),
                "rows": np.repeat(np.rint(self.rows), len(names)),
                "coordinate": names * k,
                **ends,
            }
        )

    def _as_date(self, coordinate: str, value: float) -> Any:
        """A mean as a table for people has it: of dates, the step in which it lies."""
        return shown_date(self.space.domain[coordinate], value) if coordinate in self.space.domain else value

    @property
    def title(self) -> str:
        return f"Centres of {self.lloyd.k} clusters"

    @cached_property
    def scaled(self) -> tuple[Floats, Floats, Floats]:
        """Centres and both ends of their intervals, [cluster, coordinate]: 0 at the lowest value that is possible, 1 at
        the highest.
        """
        (base, width), k = self._units, self.lloyd.k
        whole = width * self._top / GRID
        centre, low, high = ((shown.reshape(k, -1) - base) / whole for shown in (self.values, *self.interval()))
        return centre, low, high

    @property
    def picture_size(self) -> tuple[float, float]:
        return 8.0, 1.8 + 0.3 * min(self.coordinates_shown, self.space.size)

    def view(self) -> JsonObject:
        return {"labels": list(self.labels)}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> ClusterCentres:
        labels = view["labels"]
        found = cls(receipt, released, tuple(labels))
        texts = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
        if not texts or len(set(labels)) != found.lloyd.k or len(labels) != found.lloyd.k:
            raise ValueError("the labels are not those of the clusters")
        if not np.isfinite(found.values).all():
            raise ValueError("no centres of ours")
        return found
