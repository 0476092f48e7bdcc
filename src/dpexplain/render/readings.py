"""Pictures of what was read off synthetic rows, with what they rest on in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from dpexplain.render import picture as draw
from dpexplain.render.marks import in_words, mark
from dpexplain.render.picture import BAND, INK, LEVEL, Picture, name_lines, plain, short_label

if TYPE_CHECKING:
    from dpexplain.methods.readings import Reading
    from dpexplain.methods.result import Floats

LIKELY = f"likely with {LEVEL:.0%}, not proven"


def plot_reading(reading: Reading, ax: Axes | None = None) -> Axes:
    """One feature: a line or dots with the interval. Two features: a map. None: a dot for each number."""
    ax = draw.new_axes(ax)
    low, high = reading.interval(LEVEL)
    more = ""
    if len(reading.axes) == 2:
        first, second = reading.axes
        image = ax.imshow(reading.values.reshape(reading.shape).T, origin="lower", aspect="auto", cmap="viridis")
        for axis, set_ticks in ((first, ax.set_xticks), (second, ax.set_yticks)):
            places = np.arange(0, len(axis.points), max(1, round(len(axis.points) / 6)) if axis.ordered else 1)
            set_ticks(places, [_name(axis.points[i], axis.ordered) for i in places], fontsize=8)
        ax.figure.colorbar(image, ax=ax, label=reading.quantity)
        names = short_label(reading.names.axis(first.feature)), short_label(reading.names.axis(second.feature))
        draw.finish(ax, reading.title, x=names[0], y=names[1], grid="", legend="")
        more = f"Interval of each cell ({LIKELY}): at most ±{(high - low).max() / 2:.3g}. "
    elif reading.axes and reading.axes[0].ordered and reading.axes[0].points[-1] is not None:
        x = reading.axes[0].numbers
        ax.fill_between(x, low, high, color=BAND, alpha=0.45, linewidth=0, label=LIKELY)
        ax.plot(x, reading.values, color=INK, linewidth=1.8, label="read off synthetic rows")
        mark(ax, x, reading.values, _words(reading, low, high), (low, high))
        ax.set_xlim(x[0], x[-1])
        draw.finish(ax, reading.title, x=_axis(reading), y=reading.quantity)
    else:
        points = reading.axes[0].points if reading.axes else range(1, len(reading.values) + 1)
        ordered = bool(reading.axes) and reading.axes[0].ordered
        places = draw.names_down(ax, [_name(point, ordered) for point in points])
        ax.hlines(places, low, high, color=BAND, linewidth=6, alpha=0.6, label=LIKELY)
        ax.plot(reading.values, places, "o", color=INK, markersize=5, label="read off synthetic rows")
        mark(ax, reading.values, places, _words(reading, low, high), (low, high), lying=True)
        draw.finish(ax, reading.title, x=reading.quantity, y=_axis(reading), grid="x")
    draw.note(ax, " ".join(filter(None, [more + reading.basis, reading.doubt])))
    return ax


def _words(reading: Reading, low: Floats, high: Floats) -> list[list[str]]:
    """Each number in words."""
    points = reading.axes[0].points if reading.axes else range(1, len(reading.values) + 1)
    names = [f"{reading.feature} {_name(point, isinstance(point, float))}" for point in points]
    return in_words(names, reading.values, (low, high), name=LIKELY)


def _axis(reading: Reading) -> str:
    """What people call the column, with its unit."""
    return short_label(reading.names.axis(reading.feature))


def _name(point: object, ordered: bool) -> str:
    return "missing" if point is None else f"{float(f'{point:.3g}'):,g}" if ordered else name_lines(plain(str(point)))


def figure_of_readings(readings: Sequence[Reading]) -> Picture:
    """Several side by side, two in a line."""
    lines = -(-len(readings) // 2)
    figure = draw.new_picture((12, 4.4 * lines))
    for place, reading in enumerate(readings, 1):
        reading.plot(figure.add_subplot(lines, 2, place))
    figure.fit()
    return figure
