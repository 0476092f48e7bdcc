"""What is read off weighted synthetic rows: estimates with intervals, and no release.

A `Reading` looks like a result, and is none: it has no receipt, nothing was paid for it, and its interval rests on
assumptions (`basis`), where the proven interval of a result rests on the law of noise alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, overload

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import Names
from dpexplain.core.noise import checked_level
from dpexplain.maths.grids import Axis
from dpexplain.maths.weights import Mixture

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
TAKEN = ("value", "low", "high", "determined")


@dataclass(frozen=True, eq=False)
class Reading:
    """Some numbers that were read off weighted synthetic rows.

    name      what it is, in words
    axes      the feature or features, with the points of each; none for a mean of a function
    values    the estimates, in the order of the lines of `to_frame()`
    spread    what is likely for the exact numbers
    possible  the range that they lie in
    cut       whether intervals end at that range: not where it was itself read off synthetic rows
    basis     what all of this rests on, in a sentence
    names     what people call the columns
    """

    name: str
    axes: tuple[Axis, ...]
    values: Floats
    spread: Mixture
    possible: tuple[float, float]
    basis: str
    quantity: str = "mean prediction"
    cut: bool = True
    names: Names = field(default_factory=Names)

    @property
    def feature(self) -> str:
        return " x ".join(axis.feature for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.points) for axis in self.axes)

    @property
    def title(self) -> str:
        named = " x ".join(self.names.title(axis.feature) for axis in self.axes)
        return f"{self.name} of {named}, read off" if self.axes else self.name

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) around each exact number of the table, likely by what `basis` says. Not proven."""
        low, high = self.spread.interval(checked_level(level))
        return (np.clip(low, *self.possible), np.clip(high, *self.possible)) if self.cut else (low, high)

    def determined(self, level: float = 0.95) -> NDArray[np.bool_]:
        """For each value, whether its interval leaves out anything that is possible; if not, nothing is known."""
        (low, high), (lowest, highest) = self.interval(level), self.possible
        return np.asarray((low > lowest) | (high < highest) | (lowest == highest))

    @property
    def doubt(self) -> str:
        """How much is not determined, in words; empty where everything is."""
        known, (lowest, highest) = self.determined(), self.possible
        if known.all():
            return ""
        which = "Nothing of this is" if not known.any() else f"{(~known).sum()} of {len(known)} values are not"
        where = "everywhere" if not known.any() else "there"
        return f"{which} determined: {where} any value from {lowest:.4g} to {highest:.4g} is possible."

    def to_frame(self) -> pd.DataFrame:
        """A table for people: where, estimate, interval."""
        import pandas as pd

        low, high = self.interval()
        where = {}
        mesh = np.meshgrid(*[np.arange(size) for size in self.shape], indexing="ij")
        for axis, index in zip(self.axes, mesh, strict=True):
            name = f"{axis.feature} (feature)" if axis.feature in TAKEN else axis.feature
            where[name] = [axis.points[i] for i in index.ravel()]
        columns = {"value": self.values, "low": low, "high": high, "determined": self.determined()}
        frame = pd.DataFrame({**where, **columns})
        frame.attrs["basis"] = self.basis
        return frame

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw it, with its interval and what it rests on in words."""
        from dpexplain.render.readings import plot_reading

        return plot_reading(self, ax)

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.title, self.to_frame().to_string(index=False), self.doubt, self.basis]))


class Readings(Sequence[Reading]):
    """Several readings, one for each feature or pair."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._all = tuple(readings)

    @overload
    def __getitem__(self, key: int | str) -> Reading: ...
    @overload
    def __getitem__(self, key: slice) -> Self: ...
    def __getitem__(self, key: int | str | slice) -> Reading | Self:
        """By position or by feature name."""
        if isinstance(key, slice):
            return type(self)(self._all[key])
        return {one.feature: one for one in self._all}[key] if isinstance(key, str) else self._all[key]

    def __len__(self) -> int:
        return len(self._all)

    @property
    def values(self) -> Floats:
        """All estimates, one reading after the other, in the order of `to_frame()`."""
        return np.concatenate([one.values for one in self])

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        ends = [one.interval(level) for one in self]
        return np.concatenate([low for low, _ in ends]), np.concatenate([high for _, high in ends])

    def to_frame(self) -> pd.DataFrame:
        """One table: the feature (or pair), the point, the estimate and its interval."""
        import pandas as pd

        low, high = self.interval()
        points = [point for one in self for point in itertools.product(*(axis.points for axis in one.axes))]
        names = [one.feature for one in self for _ in one.values]
        where = [point[0] if len(point) == 1 else point for point in points]
        known = np.concatenate([one.determined() for one in self])
        columns = {"feature": names, "point": where, "value": self.values, "low": low, "high": high}
        frame = pd.DataFrame({**columns, "determined": known})
        frame.attrs["basis"] = self[0].basis
        return frame

    def plot(self) -> Figure:
        """All of them in one new figure."""
        from dpexplain.render.readings import figure_of_readings

        return figure_of_readings(self._all)

    def __repr__(self) -> str:
        return f"Readings({', '.join(one.feature for one in self)})"
