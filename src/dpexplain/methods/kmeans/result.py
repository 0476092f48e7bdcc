"""Centres of clusters that were found with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

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
    from matplotlib.axes import Axes

    from dpexplain.models.clustering import Clustering

MOST_LINES, MARKS = 30, "os^Dv*PX<>"  # of a plot


@dataclass(frozen=True)
class ClusterCentres(Result):
    """The centres of a differentially private k-means. `values` are in the units of the table; shares for categories.

    An interval is about the mean of the rows of a cluster as they were in the last round, when they were nearest to the
    centre of the round before; so are the numbers of rows.
    """

    labels: tuple[str, ...]

    kind: ClassVar[str] = "dp-kmeans"
    spec_type: ClassVar[type[Spec]] = Spec

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
        return pd.DataFrame(
            {
                "cluster": np.repeat(np.array(self.labels, dtype=object), len(names)),
                "rows": np.repeat(np.rint(self.rows), len(names)),
                "coordinate": names * k,
                "centre": self.values,
                "low": low,
                "high": high,
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """A line for each coordinate, a mark for each cluster: where its centre is between the declared bounds.

        Of many coordinates those in which the centres differ most.
        """
        from dpexplain.render.picture import name_lines
        from dpexplain.render.plots import LEVEL, _label, _note, new_axes, plain

        ax, (base, width), k = new_axes(ax), self._units, self.lloyd.k
        whole = width * self._top / GRID
        scaled = [(shown.reshape(k, -1) - base) / whole for shown in (self.values, *self.interval(LEVEL))]
        apart = np.ptp(scaled[0], axis=0)
        shown = np.sort(np.argsort(-apart, kind="stable")[:MOST_LINES])
        for cluster, (label, rows) in enumerate(zip(self.labels, self.rows, strict=True)):
            centre, low, high = (line[cluster, shown] for line in scaled)
            at = np.arange(len(shown))[::-1] + 0.6 * (0.5 - (cluster + 0.5) / k)
            name, mark = _label(f"{label}: about {rows:,.0f} rows", 30), MARKS[cluster % len(MARKS)]
            ax.hlines(at, low, high, color=f"C{cluster % 10}", linewidth=4, alpha=0.3)
            ax.plot(centre, at, mark, color=f"C{cluster % 10}", markersize=5, label=name)
        names = [name_lines(plain(self.space.names[i])) for i in shown]
        ax.set_yticks(np.arange(len(shown))[::-1], names, fontsize=8)
        ax.set_ylim(-0.7, len(shown) - 0.3)
        ax.set_xlim(-0.02, 1.02)
        ax.set_xticks([0, 1], ["lowest value\n(or no row)", "highest value\n(or all rows)"], fontsize=8)
        ax.grid(axis="y", alpha=0.2)
        ax.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        ax.set_title(f"Centres of {k} clusters", fontsize=11, loc="left")
        _note(ax, self, f"Bars: {LEVEL:.0%} noise interval of each. ", width=84)
        return ax

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
