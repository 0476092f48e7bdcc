"""Curves (and surfaces) over public points, with their noise bands and the rug of their feature.

`Curve` is what all of them have in common; `MeanCurve` is the mean of bounded quantities over rows (partial dependence)
or over parts of the rows (generic plots).
"""

from __future__ import annotations

import itertools
import json
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self, overload

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import labels
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import checked_level
from dpexplain.maths.grids import Axis
from dpexplain.maths.means import Means, SharpMeans
from dpexplain.maths.smoothing import smooth
from dpexplain.methods.histogram import Histogram, read
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.result import Floats, Result, Results, from_json
from dpexplain.methods.sharpened import SharpenedResult
from dpexplain.methods.sharpening import HISTOGRAMS, Sharpening, entries_of
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


MOST_POINTS = 2_000  # of one curve or surface: smoothing takes the third power of it
MOST_TOGETHER = 1_000  # points of several curves that are sharpened together; beyond that, each curve by itself


@dataclass(frozen=True)
class Curve(SharpenedResult):
    """The effect of one feature, or of a pair of them.

    `raw` are the released values, `proven_interval` is theirs: their noise law is exactly known, and nothing else is
    needed. `values` are better guesses: where the release has a prior (`sharpening`), what is likely given all that was
    released and what the public model says about synthetic rows, with `interval` to it; else smoothed values, with the
    proven interval. `smooth=False` shows what was released. All of it is about the exact statistic of the (cleaned)
    table, not about a population.
    """

    index: int = 0  # which curve of the release
    smoothed: bool = True
    marginals: Marginals | None = None  # an earlier release that serves as the rug
    sharpening: Sharpening | None = None

    quantity: ClassVar[str] = "mean prediction"  # what the values are, for axes and tables
    picture: ClassVar[str] = "dpexplain.render.plots:plot_curve"
    text_view: ClassVar[str] = "dpexplain.render.text:curve_view"
    has_missing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """What the values rest on besides the release is part of the promise: its cost adds to that of the release."""
        known, also = self.sharpening if self.smoothed else None, list[JsonObject]()
        if known is not None:
            also = known.paid_before
            if self.marginals is not None and known.origin["from"] == HISTOGRAMS:
                also = entries_of(self.marginals.receipt)
        self.promise_with(also)

    @property
    def title(self) -> str:
        return f"{self.name} of {self.receipt.called(self.feature)}"

    @property
    @abstractmethod
    def name(self) -> str:
        """The kind of explanation, in words."""

    @property
    def footnote(self) -> str:
        said = [self.caveat.strip(), *self.receipt.cleaning([axis.feature for axis in self.axes])]
        if self.marginals is not None:
            paid = self.marginals.receipt
            said.append(f"Counts of rows: an earlier release with {paid.budget.describe(paid.cost)}.")
        if rows := self.synthetic_rows:
            basis = f"Likely values: from the release and {rows}. The proven interval assumes nothing about the rows."
            said.insert(0, basis + self.disagreement)
        return " ".join(filter(None, said))

    @property
    def file_name(self) -> str:
        name = self.key.replace(" x ", "-x-").replace(": ", "-")
        return name if self.kind == "curve" else f"{self.kind}-{name}"  # partial dependence has the plain names

    @property
    def picture_size(self) -> tuple[float, float]:
        tall = len(self.axes) == 1 and not self.axes[0].ordered and self.shape[0] > 12
        return 6.4, 1.6 + 0.26 * self.shape[0] if tall else 4.6

    @property
    def relies_on(self) -> list[Result]:
        return [] if self.marginals is None else [self.marginals]

    @property
    @abstractmethod
    def axes(self) -> tuple[Axis, ...]:
        """The feature or features, with the points of each."""

    @property
    @abstractmethod
    def raw(self) -> Floats:
        """The released values."""

    @property
    @abstractmethod
    def span(self) -> float:
        """The public width of the values' range."""

    @abstractmethod
    def proven_interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """(low, high) around the exact curve by the noise of the release alone: for each point by itself, or for all
        points of the release at once.
        """

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """(low, high) around the exact curve, by all that `values` rest on (`basis`); else the proven interval."""
        return self.proven_interval(level, simultaneous=simultaneous)

    def determined(self, level: float = 0.95) -> NDArray[np.bool_]:
        """For each value, whether the release itself says anything about it: by the proven interval."""
        return self.leaves_out(*self.proven_interval(level))

    @property
    def feature(self) -> str:
        return " x ".join(axis.feature for axis in self.axes)

    @property
    def key(self) -> str:
        """What tells it from the other curves of its release."""
        return self.feature

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.points) for axis in self.axes)

    @cached_property
    def rug(self) -> tuple[Histogram, ...]:
        """The noisy histogram of each axis, of this release or of earlier marginals; empty if there is none."""
        if self.marginals is not None:
            return tuple(self.marginals.histogram(axis.feature) for axis in self.axes)
        histograms = self._histograms
        return tuple(histograms[axis.feature] for axis in self.axes if histograms)

    @property
    def _histograms(self) -> dict[str, Histogram]:
        """The histograms that were released with the curves, by feature."""
        if not self.spec.rug:
            return {}
        counts, noise = self.part("rug")
        return read(counts, noise.std, self.spec.rug)

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        mesh = np.meshgrid(*[np.arange(n) for n in self.shape], indexing="ij")
        taken = {"value", "released", "low", "high", "determined", "proven low", "proven high"}
        where = {}
        for axis, index in zip(self.axes, mesh, strict=True):
            name = f"{axis.feature} (feature)" if axis.feature in taken else axis.feature
            points = labels(self.receipt.domain, axis.feature, axis.points)
            where[name] = [points[i] for i in index.ravel()]
        columns = {"value": self.values, "low": low, "high": high, "released": self.raw}
        if self.sharpened:
            columns |= dict(zip(("proven low", "proven high"), self.proven_interval(), strict=True))
        return pd.DataFrame({**where, **columns, "determined": self.determined()})

    def as_released(self) -> Self:
        return replace(self, smoothed=False, sharpening=None)

    def view(self) -> JsonObject:
        rug = None if self.marginals is None else json.loads(self.marginals.to_json())
        return {"index": self.index, "smoothed": self.smoothed, "marginals": rug, **self.prior_view}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Self:
        rug = None if view["marginals"] is None else from_json(json.dumps(view["marginals"]))
        if rug is not None and not isinstance(rug, Marginals):
            raise TypeError("the rug is not a histogram")
        sharpening = Sharpening.from_json(view.get("sharpening"))
        if type(view["index"]) is not int or view["index"] < 0:
            raise ValueError("no number of a curve")
        curve = cls(receipt, released, view["index"], bool(view["smoothed"]), rug, sharpening)
        if not 0 < math.prod(curve.shape) == len(curve.raw) <= MOST_POINTS:
            raise ValueError("the grid does not fit the released values")
        curve.interval(), curve.proven_interval()  # what can be read can be shown
        named = isinstance(curve.title, str) and all(isinstance(axis.feature, str) for axis in curve.axes)
        if (
            not named
            or not np.isfinite(curve.values).all()
            or any(len(r.counts) != r.partition.size for r in curve.rug)
        ):
            raise ValueError("no curve of ours")
        return curve


@dataclass(frozen=True)
class MeanCurve(Curve):
    """A mean over rows, or over parts of them, at every point of a public grid."""

    @property
    def axes(self) -> tuple[Axis, ...]:
        axes: tuple[Axis, ...] = self.spec.views[self.index]
        return axes

    @property
    def output(self) -> PublicRange:
        output: PublicRange = self.spec.output
        return output

    @property
    def span(self) -> float:
        return self.output.width

    @property
    def possible(self) -> tuple[float, float]:
        return self.output.low, self.output.high

    @cached_property
    def _means(self) -> Means:
        sums, noise = self.part("curve")
        sizes = self.spec.sizes
        start = sum(sizes[: self.index])
        place = slice(start, start + sizes[self.index])
        return Means(
            sums, noise, self.output, self.spec.count_weight, self._number, place, counted_from=self._counted_from
        )

    @property
    def _counted_from(self) -> float | None:
        """The value that counts as nothing in a released sum, where it is not the usual one."""
        return None

    @property
    def _number(self) -> int | None:
        """Of what the mean is taken over, where that is public."""
        return self.receipt.rows

    @property
    def rows_counted(self) -> float:
        return self._means.count

    @cached_property
    def raw(self) -> Floats:
        """The released values, in output units, clipped to the output range."""
        return np.clip(self._means.unclipped, self.output.low, self.output.high)

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one raw value (of the sums alone where the row count is noisy too)."""
        return self._means.std

    @cached_property
    def _sharp(self) -> SharpMeans | None:
        """The posterior of all points that share a prior with this curve, and the place of this curve among them."""
        known = self.sharpening
        if known is None or not self.smoothed:
            return None
        place = self._means.place
        among = slice(0, sum(self.spec.sizes)) if known.part is None else place
        means = replace(self._means, place=among)
        if known.part not in (None, self.index) or known.prior.size != len(means.sums):
            raise ValueError("the prior is that of other numbers")
        if not means.counted_surely:
            return None
        return SharpMeans(means, known.prior, slice(place.start - among.start, place.stop - among.start))

    @cached_property
    def values(self) -> Floats:
        if not self.smoothed:
            return self.raw
        if self._sharp is not None:
            return self._sharp.values
        axes = [axis.points if axis.ordered else len(axis.points) for axis in self.axes]
        return np.clip(smooth(self._means.unclipped, self.std**2, axes), self.output.low, self.output.high)

    def proven_interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        return self._means.interval(level, simultaneous=simultaneous)

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        if self._sharp is None:
            return self.proven_interval(level, simultaneous=simultaneous)
        proven = self.proven_interval(level, simultaneous=simultaneous)
        tail = (1 - checked_level(level)) / (sum(self.spec.sizes) if simultaneous else 1)
        return self.wide_enough(self._sharp.interval(1 - tail), proven)


class Curves(Results[Curve]):
    """Several curves of one release: one cost, one receipt."""

    @overload
    def __getitem__(self, key: int | str) -> Curve: ...
    @overload
    def __getitem__(self, key: slice) -> Self: ...
    def __getitem__(self, key: int | str | slice) -> Curve | Self:
        """By position, or by feature name (where there are several classes, "feature: class")."""
        return {curve.key: curve for curve in self}[key] if isinstance(key, str) else super().__getitem__(key)

    @property
    def values(self) -> Floats:
        """The estimates of all curves, one after the other, in the order of `to_frame()`."""
        return np.concatenate([curve.values for curve in self])

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """(low, high) of all curves; `simultaneous` covers all points of the release at once."""
        return _joined([curve.interval(level, simultaneous=simultaneous) for curve in self])

    def proven_interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """(low, high) of all curves by the noise of the release alone."""
        return _joined([curve.proven_interval(level, simultaneous=simultaneous) for curve in self])

    def to_frame(self) -> pd.DataFrame:
        """One table: the feature (or pair), the point, the estimate and its interval."""
        import pandas as pd

        low, high = self.interval()
        points = [p for curve in self for p in itertools.product(*(axis.points for axis in curve.axes))]
        names = [curve.key for curve in self for _ in curve.values]
        where = [point[0] if len(point) == 1 else point for point in points]
        released = np.concatenate([curve.raw for curve in self])
        columns = {"feature": names, "point": where, "value": self.values, "low": low, "high": high}
        columns["released"] = released
        if any(curve.sharpened for curve in self):
            columns |= dict(zip(("proven low", "proven high"), self.proven_interval(), strict=True))
        known = np.concatenate([curve.determined() for curve in self])
        return pd.DataFrame({**columns, "determined": known})

    @property
    def basis(self) -> str:
        """What the values and their intervals rest on besides the release; all curves of a release say the same."""
        return self[0].basis

    @property
    def contradicts(self) -> bool:
        """Whether what was released and the synthetic rows do not agree."""
        return any(curve.contradicts for curve in self)

    def plot(self) -> Figure:
        """All curves in one new figure."""
        from dpexplain.render.plots import figure_of_all

        return figure_of_all(self._all)

    def __repr__(self) -> str:
        return f"Curves({', '.join(curve.key for curve in self)})"


def _joined(ends: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    return np.concatenate([low for low, _ in ends]), np.concatenate([high for _, high in ends])
