"""Pictures of many synthetic rows at once: bands of single predictions, and swarms of contributions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import NDArray

from dpexplain.columns import labels
from dpexplain.render import picture as draw
from dpexplain.render.picture import NOTE, Picture, name_lines, plain, short_label

if TYPE_CHECKING:
    from dpexplain.methods.individuals import IndividualCurves
    from dpexplain.methods.swarms import Summary

LOW_TO_HIGH = LinearSegmentedColormap.from_list("low-to-high", ["#2a7ab9", "#b9b9b9", "#c55a11"])
ROWS = "#2e8b74"  # another look than that of noise
SWARM_FEATURES = 15
LAYERS = 41  # of a swarm, in which dots stand beside each other
MARKED = "Synthetic rows: nobody's data."


def plot_individual(curves: IndividualCurves, ax: Axes | None = None) -> Axes:
    """Nested bands around the middle of single predictions."""
    ax, size = draw.new_axes(ax), len(curves.probs)
    axis, pairs = curves.axis, len(curves.probs) // 2
    ordered = axis.ordered and axis.points[-1] is not None
    x = axis.numbers if ordered else np.arange(len(axis.points))[::-1]
    for i in range(pairs):
        low, high = curves.bands[i], curves.bands[size - 1 - i]
        share = f"{100 * (curves.probs[size - 1 - i] - curves.probs[i]):.0f} % of synthetic rows"
        alpha = 0.25 + 0.25 * i
        if ordered:
            ax.fill_between(x, low, high, color=ROWS, alpha=alpha, linewidth=0, label=share)
        else:
            ax.hlines(x, low, high, color=ROWS, linewidth=10 - 3 * i, alpha=alpha + 0.15, label=share)
    if size % 2:
        name = "the middle one" if curves.probs[pairs] == 0.5 else f"share {curves.probs[pairs]:g}"
        if ordered:
            ax.plot(x, curves.bands[pairs], color=ROWS, linewidth=1.6, label=name)
        else:
            ax.plot(curves.bands[pairs], x, "o", color=ROWS, markersize=4, label=name)
    if ordered:
        ax.set_xlim(float(x[0]), float(x[-1]))
        draw.finish(ax, curves.title, x=short_label(curves.names.axis(curves.feature)), y="prediction")
    else:
        named = [curves.names.value(curves.domain, curves.feature, p) for p in axis.points]
        points = ["missing" if p is None else str(p) for p in labels(curves.domain, curves.feature, named)]
        ax.set_yticks(x, [name_lines(plain(name)) for name in points], fontsize=8)
        draw.finish(ax, curves.title, x="prediction", y=short_label(curves.names.axis(curves.feature)), grid="x")
    draw.note(ax, f"{MARKED} The bands are how rows differ, and say nothing about noise. {curves.basis}")
    return ax


def figure_of_summary(summary: Summary, *, titled: bool = True) -> Picture:
    """A panel for each class, a line for each feature: each dot is one synthetic row."""
    shown, count = summary.order[:SWARM_FEATURES], len(summary.classes)
    lines, columns = -(-count // 3), min(count, 3)
    width = 7.6 if count == 1 else 1.6 + 4.2 * columns
    figure = draw.new_picture((width, 1.9 + 0.42 * len(shown) * lines))
    for number, label in enumerate(summary.classes):
        ax = figure.add_subplot(lines, columns, number + 1)
        names = [name_lines(plain(summary.names.title(summary.features[j]))) for j in shown]
        places = draw.names_down(ax, names)
        for line, j in zip(places, shown, strict=True):
            added = summary.contributions[number, :, j]
            look: dict[str, Any] = {"cmap": LOW_TO_HIGH, "vmin": 0, "vmax": 1, "s": 7, "linewidths": 0}
            dots = ax.scatter(added, line + swarmed(added), c=summary.places[:, j], **look)
        ax.axvline(0, color="#9a9a9a", linewidth=0.8)
        title = label if count > 1 else summary.title if titled else ""
        draw.finish(ax, title, x="lowers <- prediction -> raises", grid="x", legend="")
    if shown:
        bar = figure.colorbar(dots, ax=figure.axes, ticks=[0, 1], shrink=0.5, pad=0.02)
        bar.ax.set_yticklabels(["low", "high"], fontsize=8)
        bar.set_label("value in the row (of categories: by their order)", fontsize=7, color=NOTE)
    left = len(summary.order) - len(shown)
    more = f" {left} columns with smaller contributions are not shown." if left else ""
    if titled:
        draw.note(figure.axes[0], f"{MARKED} Beside an average row.{more} {summary.basis}", 100)
    figure.fit()
    return figure


def swarmed(values: NDArray[np.float64], height: float = 0.36) -> NDArray[np.float64]:
    """How far each dot stands above or below its line, so that dots do not hide each other: the same every time."""
    span = float(np.ptp(values)) or 1.0
    layer = np.floor((values - values.min()) / span * (LAYERS - 1)).astype(int)
    seen, above = np.bincount(layer, minlength=LAYERS), np.zeros(len(values))
    most = max(int(seen.max()), 1)
    for place in range(LAYERS):
        mine = np.flatnonzero(layer == place)
        sides = np.where(np.arange(len(mine)) % 2, 1, -1) * ((np.arange(len(mine)) + 1) // 2)
        above[mine] = height * 2 * sides / max(most, 12)
    return above
