"""Points of a picture that say what they are: a page shows the words of the one that is pointed at.

A mark draws nothing. It knows where its value and the ends of its interval stand in the plot, and takes down where that
is on the page when the picture is drawn, after all texts have their places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.artist import Artist

from dpexplain.columns import date_text, unit_of
from dpexplain.render.picture import LEVEL, short_label
from dpexplain.render.text import cell

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase

    from dpexplain.methods.curves import Curve
    from dpexplain.methods.result import Result

NOISE = f"privacy noise, {LEVEL:.0%} interval"
NOTHING = "not determined with this epsilon"


class Marks(Artist):
    """Points of one plot, each with the ends of its interval and its words, line by line."""

    def __init__(self, points: Any, words: Sequence[Sequence[str]]) -> None:
        super().__init__()
        self.set_in_layout(False)
        self.points = np.asarray(points, dtype=float).reshape(-1, 3, 2)  # the value, the low end, the high end
        self.words = words
        self.places = self.points  # on the page, in points from its lower left corner, once it was drawn

    def draw(self, renderer: RendererBase) -> None:  # noqa: ARG002 (there is nothing to draw)
        assert self.axes is not None
        flat = self.axes.transData.transform(self.points.reshape(-1, 2))
        self.places = 72 / self.axes.figure.dpi * flat.reshape(-1, 3, 2)  # a drawing is saved with a dpi of its own


def mark(ax: Axes, x: Any, y: Any, words: Iterable[Sequence[str]], ends: Any = None, *, lying: bool = False) -> None:
    """Words for points: `ends` are the low and the high ends of their intervals, upright or lying."""
    x, y = (np.atleast_1d(np.asarray(v, dtype=float)) for v in (x, y))
    low, high = ends if ends is not None else ((x, x) if lying else (y, y))
    points = [np.stack([x, y], axis=1)]
    points += [np.stack([end, y] if lying else [x, end], axis=1) for end in (np.asarray(low), np.asarray(high))]
    triples, said = np.stack(points, axis=1), list(words)
    if len(said) != len(triples):
        raise ValueError(f"{len(said)} texts for {len(triples)} points")
    seen = np.isfinite(triples).all(axis=(1, 2))
    ax.add_artist(Marks(triples[seen], [lines for lines, there in zip(said, seen, strict=True) if there]))


def interval(low: float, high: float, name: str = NOISE) -> str:
    """An interval in words."""
    return f"{name}: {low:.4g} to {high:.4g}"


def in_words(
    names: Iterable[str], values: Any, ends: Any, *, known: Any = None, kind: str = "value", name: str = NOISE
) -> list[list[str]]:
    """Three lines for each value: where it is, the value, its interval."""
    sure = np.ones(len(values), dtype=bool) if known is None else known
    return [
        [where, f"{kind} {value:.4g}", interval(low, high, name)] if there else [where, NOTHING]
        for where, value, low, high, there in zip(names, values, *ends, sure, strict=True)
    ]


def kind_of(curve: Curve) -> str:
    """What its values are, for a legend."""
    return "likely value" if curve.sharpened else "smoothed" if curve.smoothed else "released"


def curve_words(curve: Curve) -> list[list[str]]:
    """Each point in words: where it is, its value and the proven interval of what was released."""
    axes, quantity = curve.axes, short_label(curve.quantity, 40)
    called = curve.receipt.called
    names = [", ".join(f"{called(axis.feature)} {_point_name(curve, axis, point)}" for axis, point in places)
             for places in _places(curve)]  # fmt: skip
    kind = f"{quantity}, {kind_of(curve)}" if axes else quantity
    if not curve.sharpened:
        return in_words(names, curve.values, curve.interval(LEVEL), known=curve.determined(), kind=kind)
    said = in_words(names, curve.values, curve.interval(LEVEL), kind=kind, name=f"likely, {LEVEL:.0%} interval")
    proven = zip(*curve.proven_interval(LEVEL), strict=True)
    return [[*lines, interval(low, high, f"{NOISE}, proven")] for lines, (low, high) in zip(said, proven, strict=True)]


def _places(curve: Curve) -> list[list[tuple[Any, Any]]]:
    """The coordinates of each value, as (axis, point)."""
    if len(curve.axes) == 1:
        return [[(curve.axes[0], point)] for point in curve.axes[0].points]
    first, second = curve.axes
    return [[(first, a), (second, b)] for a in first.points for b in second.points]


def _point_name(curve: Curve, axis: Any, point: Any) -> str:
    unit = unit_of(curve.receipt.domain, axis.feature) if axis.ordered else ""
    if point is None or unit:
        return "missing" if point is None else date_text(point, unit)
    return f"{point:g}" if axis.ordered else str(curve.receipt.called_value(axis.feature, point))


def from_table(frame: pd.DataFrame, result: Result, *where: str) -> list[list[str]]:
    """Words for lines of a table that ends with an estimate and the ends of its interval."""
    names, (what, low, high) = where or tuple(frame.columns[:2]), frame.columns[-3:]
    return [
        [": ".join(cell(line[name], result) for name in names), f"{what} {cell(line[what], result)}",
         f"{NOISE}: {cell(line[low], result)} to {cell(line[high], result)}"]
        for line in frame.to_dict("records")
    ]  # fmt: skip


def marks_of(figure: Any) -> list[Marks]:
    """All marks of a figure, plot after plot."""
    return [artist for ax in figure.axes for artist in ax.findobj(Marks, include_self=False)]
