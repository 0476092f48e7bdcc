"""Pictures of explained clusters: paired histograms, inside and outside of each cluster, all on one page."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Text

from dpexplain.render.marks import in_words, mark
from dpexplain.render.picture import INK, LEVEL, NOTE, SAID, add_key, plain, short_label

if TYPE_CHECKING:
    from dpexplain.methods.clusters.result import ClusterExplanation, Explanation
    from dpexplain.methods.result import Floats

INSIDE, OUTSIDE = INK, "#e3a35c"
MOST_NAMES = 16  # along an axis


def plot_clusters(result: ClusterExplanation, ax: Axes | None = None) -> Axes:
    """Paired histograms, a panel for each cluster and attribute. The place of `ax` is divided among them."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=result.picture_size, layout="constrained")
    columns, lines = result.panels
    ax.set_axis_off()
    place = ax.get_subplotspec()
    assert place is not None, "a plot of clusters needs a subplot"
    grid = place.subgridspec(lines + 2, columns, height_ratios=[0.07, *[1.0] * lines, 0.16])
    for i, explanation in enumerate(result.explanations):
        panel = ax.figure.add_subplot(grid[1 + i // columns, i % columns])
        _draw(panel, result, i, explanation)
        if i == 0:
            panel.set_ylim(top=1.25 * panel.get_ylim()[1])  # the legend covers no bar
            add_key(panel, *panel.get_legend_handles_labels(), frameon=False, loc="upper right", ncols=2)
    top, bottom = ax.figure.add_subplot(grid[0, :]), ax.figure.add_subplot(grid[lines + 1, :])
    _write(top, plain(result.title), size=11)
    words = textwrap.fill(plain(f"{result.utility} {result.receipt.guarantee}"), 78 * columns)
    SAID[_write(bottom, words, size=6.5, colour=NOTE)] = result.utility
    return ax


def _draw(ax: Axes, result: ClusterExplanation, number: int, e: Explanation) -> None:
    """The shares of each value inside the cluster and outside, side by side, with the interval of each."""
    places = np.arange(len(e.names))
    for shares, rest, shift, colour in ((e.shares, False, -0.2, INSIDE), (e.rest_shares, True, 0.2, OUTSIDE)):
        name = f"outside (hatched), {LEVEL:.0%} intervals" if rest else "in the cluster"
        ax.bar(
            places + shift, 100 * shares, width=0.4, color=colour, label=name, linewidth=0.4, edgecolor="white",
            hatch="////" if rest else None,
        )  # fmt: skip
        cells = range(len(e.names))
        ends = np.array([result.share_interval(number, [i], rest=rest, level=LEVEL) for i in cells])
        _whiskers(ax, places + shift, 100 * shares, 100 * ends)
        where = [f"{e.attribute} {value}, {'outside' if rest else 'in the cluster'}" for value in e.names]
        words = in_words(where, 100 * shares, 100 * ends.T, kind="% of rows")
        mark(ax, places + shift, 100 * shares, words, 100 * ends.T)
    step = -(-len(e.names) // MOST_NAMES)
    long = max(len(name) for name in e.names) * len(places[::step]) > 50
    ax.set_xticks(
        places[::step],
        [short_label(str(result.receipt.called_value(e.attribute, name)), 18) for name in e.names[::step]],
        fontsize=7,
        rotation=30 if long else 0,
        ha="right" if long else "center",
        rotation_mode="anchor",
    )
    ax.tick_params(axis="y", labelsize=7)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("% of rows", fontsize=7)
    ax.set_xlabel(short_label(result.receipt.names.axis(e.attribute)), fontsize=8)
    ax.grid(axis="y", alpha=0.2)
    ax.set_axisbelow(True)
    ax.set_title(textwrap.fill(plain(result.sentences[number]), 72), fontsize=8, loc="left")


def _whiskers(ax: Axes, x: Any, shares: Floats, ends: Floats) -> None:
    """From the low to the high end; the estimate, which uses more than the cell itself, may lie a little outside."""
    low, high = np.minimum(ends[:, 0], shares), np.maximum(ends[:, 1], shares)
    for width, colour in ((2.0, "white"), (0.8, "black")):
        ax.vlines(x, low, high, color=colour, linewidth=width)


def _write(ax: Axes, text: str, *, size: float, colour: str = "black") -> Text:
    """Words in a place of their own."""
    ax.set_axis_off()
    return ax.text(0, 1, text, va="top", fontsize=size, color=colour, transform=ax.transAxes)
