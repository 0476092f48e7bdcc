"""Plots of results with matplotlib. Each carries its guarantee in words and its noise band."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpexplain.maths.grids import Partition
from dpexplain.methods.attributions import Attribution
from dpexplain.methods.clusters.result import ClusterExplanation
from dpexplain.methods.curves import Curve
from dpexplain.methods.histogram import Histogram
from dpexplain.methods.influence.result import Influence, TableInfluence
from dpexplain.methods.kmeans.result import ClusterCentres
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.quantiles.result import Quantiles
from dpexplain.methods.rankings import Ranking
from dpexplain.methods.result import Result
from dpexplain.methods.transparency.result import TransparencyReport
from dpexplain.render.picture import LONGEST, Picture, name_lines, new_picture
from dpexplain.render.text import percent

INK, BAND, RUG, NOTE = "#1f4e79", "#9dc3e6", "#b7b7b7", "#5f5f5f"
LEVEL = 0.95
STRIP = 0.62  # height of the highest bar of a histogram, of one line
LETTERS = 72  # under a histogram
SIDES = ("left", "center", "right")


def plot_curve(curve: Curve, ax: Axes | None = None) -> Axes:
    """One feature: a line or bars with the noise band. Two features: a map."""
    ax = new_axes(ax)
    if len(curve.axes) == 2:
        return _plot_surface(curve, ax)
    axis = curve.axes[0]
    low, high = curve.interval(LEVEL)
    if axis.ordered:
        x = axis.numbers
        band, line, dots = ((low[: len(x)], high[: len(x)]), curve.values[: len(x)], curve.raw[: len(x)])
        ax.fill_between(
            x, *band, color=BAND, alpha=0.45, linewidth=0, label=f"{LEVEL:.0%} noise interval of each point"
        )
        ax.plot(x, line, color=INK, linewidth=1.8, label="smoothed" if curve.smoothed else "released")
        if curve.smoothed:
            ax.plot(x, dots, ".", color=INK, markersize=3, alpha=0.5, label="released values")
        ax.set_xlim(x[0], x[-1])
        ax.set_xlabel(_label(axis.feature))
        if len(x) < len(axis.points):
            _missing_point(ax, curve, x, low[-1], high[-1])
        _frame_y(ax, low, high, curve)
        if curve.rug:
            _draw_rug(ax, curve.rug[0])
    else:
        _dots(ax, curve, low, high)
    ax.set_title(plain(curve.title), fontsize=11, loc="left")
    _note(ax, curve)
    return ax


def _missing_point(ax: Axes, curve: Curve, x: Any, low: float, high: float) -> None:
    """The point of missing values, apart from the line: to the right of the upper bound, with their share of rows."""
    span = float(x[-1] - x[0])
    place = float(x[-1]) + 0.12 * span
    ax.vlines(place, low, high, color=BAND, linewidth=6, alpha=0.6)
    ax.plot([place], curve.values[-1:], "o", color=INK, markersize=5)
    ax.axvline(float(x[-1]) + 0.05 * span, color=NOTE, linewidth=0.6, linestyle=":")
    ticks = [tick for tick in ax.get_xticks() if x[0] <= tick <= x[-1]]
    ax.set_xticks([*ticks, place], [*(f"{tick:g}" for tick in ticks), "missing"])
    ax.set_xlim(x[0], place + 0.07 * span)
    if curve.rug and curve.rug[0].partition.missing:
        share = f"{curve.rug[0].shares[-1]:.0%}\nof rows"
        ax.text(place, 0.02, share, transform=ax.get_xaxis_transform(), ha="center", fontsize=7, color=NOTE)


def _dots(ax: Axes, curve: Curve, low: Any, high: Any) -> None:
    """Categories top to bottom, a dot and its interval each; the share of rows behind the name."""
    names = [plain(str(point)) for point in curve.axes[0].points]
    if curve.rug:
        names = [f"{name}  ({share})" for name, share in zip(names, _shares(curve.rug[0]), strict=True)]
    places = np.arange(len(names))[::-1]
    ax.hlines(places, low, high, color=BAND, linewidth=6, alpha=0.6, label=f"{LEVEL:.0%} noise interval of each point")
    ax.plot(curve.values, places, "o", color=INK, markersize=5, label="smoothed" if curve.smoothed else "released")
    if curve.smoothed:
        ax.plot(curve.raw, places, ".", color=INK, markersize=3, alpha=0.5, label="released values")
    ax.set_yticks(places, list(map(name_lines, names)), fontsize=8)
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.set_ylabel(_label(curve.axes[0].feature) + ("  (share of rows ± noise of its count)" if curve.rug else ""))
    ax.set_xlabel(curve.quantity)
    ax.grid(axis="x", alpha=0.25)
    ax.legend(fontsize=7, framealpha=0.85, edgecolor="none", loc="best")


def _shares(rug: Histogram) -> list[str]:
    """The share of rows in each cell with the 95 % noise of its count: of all laws, Laplace's is the widest for its
    standard deviation. Leaves out that counts were made to add up, and the noise of the total where it is private.
    """
    half = math.ceil(2.12 * rug.std) / max(float(rug.counts.sum()), 1.0)
    digits = 1 if half < 0.005 else 0
    return [f"{share:.{digits}%}\xa0±\xa0{half:.{digits}%}" for share in rug.shares]


def _plot_surface(curve: Curve, ax: Axes) -> Axes:
    """The mean prediction over two features; the width of the interval is in the note."""
    first, second = curve.axes
    grid = curve.values.reshape(curve.shape).T
    image = ax.imshow(grid, origin="lower", aspect="auto", cmap="viridis", interpolation="nearest")
    for axis, set_ticks in ((first, ax.set_xticks), (second, ax.set_yticks)):
        step = max(1, round(len(axis.points) / 6)) if axis.ordered else 1
        places = np.arange(0, len(axis.numbers) if axis.ordered else len(axis.points), step)
        if axis.points[-1] is None:
            places = np.append(places[places < len(axis.points) - 2], len(axis.points) - 1)
        names = [_tick(axis.points[i], axis.ordered) for i in places]
        set_ticks(places, names, fontsize=8)
    ax.set_xlabel(_label(first.feature))
    ax.set_ylabel(_label(second.feature))
    ax.figure.colorbar(image, ax=ax, label=f"{curve.quantity} ({'smoothed' if curve.smoothed else 'released'})")
    low, high = curve.interval(LEVEL)
    ax.set_title(plain(curve.title), fontsize=11, loc="left")
    _note(ax, curve, f"{LEVEL:.0%} noise interval of each cell: at most ±{(high - low).max() / 2:.3g}. ", width=84)
    return ax


def _tick(point: Any, ordered: bool) -> str:
    return "missing" if point is None else f"{point:.3g}" if ordered else name_lines(plain(str(point)))


def plot_marginals(marginals: Marginals, ax: Axes | None = None) -> Axes:
    """The share of rows in each cell, a strip of bars for each feature, with its values below it."""
    ax = new_axes(ax)
    for line, feature in enumerate(reversed(marginals.features)):
        rug = marginals.histogram(feature)
        x = (np.arange(rug.partition.size) + 0.5) / rug.partition.size
        ax.bar(x, STRIP * rug.shares / rug.shares.max(), 0.9 / len(x), line, color=INK, linewidth=0)
        ax.plot([0, 1], [line, line], color=NOTE, linewidth=0.6)
        for place, value, side in _values_below(rug.partition):
            ax.text(place, line - 0.04, plain(value), fontsize=6.5, color=NOTE, va="top", ha=side)
        most = int(np.argmax(rug.shares))
        ax.text(1.01, line + 0.3, f"highest bar:\n{_shares(rug)[most]}", fontsize=6.5, color=NOTE, va="center")
    names = [name_lines(plain(feature)) for feature in reversed(marginals.features)]
    ax.set_yticks(np.arange(len(names)) + 0.3, names, fontsize=8)
    ax.set_xticks([])
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.set_xlim(-0.01, 1.2)
    ax.set_ylim(-0.35, len(names) - 0.2)
    ax.set_title("Released histograms: share of rows, each scaled to its highest bar", fontsize=11, loc="left")
    half = marginals.part("counts")[1].halfwidth(LEVEL)
    _note(ax, marginals, f"{LEVEL:.0%} noise interval of each count: ±{half:.3g} rows. ")
    return ax


def _values_below(partition: Partition) -> list[tuple[float, str, str]]:
    """Where which value is written under a strip: its ends and its middle, or the categories that there is room for."""
    if partition.edges is not None:
        low, high = partition.edges[0], partition.edges[-1]
        if all(edge % 1 == 0.5 for edge in partition.edges):  # cells of whole numbers
            low, high = low + 0.5, high - 0.5
        numbers = zip((0.0, 0.5, 1.0), (low, (low + high) / 2, high), SIDES, strict=True)
        return [(place, f"{x:,.0f}" if float(x).is_integer() else f"{x:,.4g}", side) for place, x, side in numbers]
    room = max(4, LETTERS // partition.size)
    names = [name if len(name) <= room else name[: room - 1] + "…" for name in map(str, partition.labels)]
    step = max(1, -(-partition.size // (LETTERS // 4)))
    return [((i + 0.5) / len(names), name, "center") for i, name in enumerate(names) if i % step == 0]


def plot_quantiles(quantiles: Quantiles, ax: Axes | None = None) -> Axes:
    """Released quantiles against their probabilities, like an empirical distribution, with the interval of each."""
    ax = new_axes(ax)
    low, high = quantiles.interval(LEVEL)
    label = f"{LEVEL:.0%} noise interval, all at once"
    ax.fill_betweenx(quantiles.probs, low, high, color=BAND, alpha=0.45, linewidth=0, label=label)
    if len(quantiles.probs) == 1:  # a band needs two lines to stand between
        ax.hlines(quantiles.probs, low, high, color=BAND, linewidth=6, alpha=0.45)
    ax.plot(quantiles.values, quantiles.probs, "o-", color=INK, linewidth=1.2, markersize=3.5, label="released")
    ax.set_ylim(0, 1)
    ax.set_xlabel(_label(quantiles.feature))
    ax.set_ylabel("share of rows up to this value")
    ax.grid(alpha=0.2)
    ax.legend(fontsize=7, frameon=False, loc="best")
    ax.set_title(plain(f"Quantiles of {quantiles.feature}"), fontsize=11, loc="left")
    error = quantiles.rank_error(LEVEL).max()
    _note(ax, quantiles, f"{LEVEL:.0%} of such releases have all ranks right to ±{error:.2g} of the rows. ")
    return ax


def plot_ranking(ranking: Ranking, ax: Axes | None = None) -> Axes:
    """Items top to bottom, the best first, a dot and its interval each; behind a name, how sure its place is."""
    ax = new_axes(ax)
    low, high = ranking.interval(LEVEL)
    sure = [f"  (among the best {ranking.top}: {percent(p)})" for p in ranking.top_probability()]
    names = [name_lines(plain(item)) + note for item, note in zip(ranking.items, sure, strict=True)]
    places = np.arange(len(names))[::-1]
    ax.hlines(places, low, high, color=BAND, linewidth=6, alpha=0.6, label=f"{LEVEL:.0%} interval of each")
    ax.plot(ranking.values, places, "o", color=INK, markersize=5, label="released")
    ax.set_yticks(places, names, fontsize=8)
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.set_xlabel(ranking.quantity)
    ax.grid(axis="x", alpha=0.25)
    ax.legend(fontsize=7, framealpha=0.85, edgecolor="none", loc="lower right")
    ax.set_title(plain(ranking.title), fontsize=11, loc="left")
    _note(ax, ranking, f"{ranking.caveat} " if ranking.caveat else "", width=84)
    return ax


def figure_of(result: Result, size: tuple[float, float] = (6.4, 4.6)) -> Picture:
    """A figure of its own, free of pyplot's global state."""
    lines = len(result.axes[0].points) if isinstance(result, Curve) and len(result.axes) == 1 else 0
    if isinstance(result, Curve) and not result.axes[0].ordered and lines > 12:
        size = (size[0], 1.6 + 0.26 * lines)
    if isinstance(result, Ranking):
        size = (1.15 * size[0], 1.8 + 0.26 * len(result.items))
    if isinstance(result, Marginals):
        size = (1.15 * size[0], 1.4 + 0.62 * len(result.features))
    if isinstance(result, Attribution):
        size = (1.15 * size[0], 2.6 + 0.24 * (len(result.pushes()) + (result.left_out is not None)))
    if isinstance(result, Influence | TransparencyReport):
        bars = result.items if isinstance(result, Influence) else result.features
        size = (1.15 * size[0], 2.0 + 0.26 * min(25, len(bars)))
    if isinstance(result, TableInfluence) and result.disparity is not None:
        size = (size[0], size[1] + 1.5)
    if isinstance(result, ClusterCentres):
        size = (1.25 * size[0], 1.8 + 0.3 * min(30, result.space.size))
    if isinstance(result, ClusterExplanation):
        from dpexplain.render.clusters import page_size

        size = page_size(result)
    figure = new_picture(size)
    result.plot(figure.add_subplot())
    figure.fit()
    return figure


def figure_of_all(curves: Sequence[Curve]) -> Picture:
    """Several curves side by side, two in a line."""
    lines = -(-len(curves) // 2)
    figure = new_picture((12, 4.4 * lines))
    for place, curve in enumerate(curves, 1):
        curve.plot(figure.add_subplot(lines, 2, place))
    figure.fit()
    return figure


def save_png(result: Result, path: str | Path, dpi: int = 150) -> None:
    figure_of(result).savefig(path, dpi=dpi, metadata={"Description": described(result)})


def svg_of(result: Result) -> str:
    """The picture of a result as SVG for a page."""
    return svg_text(figure_of(result), described(result))


def described(result: Result) -> str:
    """The picture in words, for those who cannot see it."""
    title = getattr(result, "title", None) or result.receipt.label
    values = result.values[np.isfinite(result.values)]
    ends = f", from {values.min():.3g} to {values.max():.3g}" if len(values) else ""
    return f"{title}: a picture of {len(result.values)} released values{ends}, with their {LEVEL:.0%} intervals."


def svg_text(figure: Figure, words: str = "") -> str:
    """A figure as SVG for a page: text stays text, no outside reference. `words` say what it shows; else its titles."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dpexplain"}):
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = buffer.getvalue()
    said = words or ". ".join(title for ax in figure.axes if (title := ax.get_title(loc="left"))) or "a picture"
    label = f'role="img" aria-label="{escape(" ".join(said.replace(chr(92) + "$", "$").split()))}"'
    return text[text.index("<svg") :].replace("<svg", f"<svg {label}", 1)


def plain(text: str) -> str:
    """Text as it is: matplotlib would take what stands between two dollar signs for a formula."""
    return text.replace("$", r"\$")


def _label(text: str, most: int = LONGEST) -> str:
    """A name of a feature or a category, cut where it would leave no room for the plot; `Picture` gives it lines."""
    return plain(text if len(text) <= most else text[: most - 3] + "...")


def new_axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained", FigureClass=Picture)
    return ax


def _frame_y(ax: Axes, low: Any, high: Any, curve: Curve) -> None:
    """Room for the band, and a seventh of the height below it for the rug."""
    bottom, top = float(np.min(low)), float(np.max(high))
    span = max(top - bottom, 0.02 * curve.span)
    ax.set_ylim(bottom - 0.22 * span, top + 0.08 * span)
    ax.set_ylabel(curve.quantity)
    ax.grid(alpha=0.2)
    ax.legend(fontsize=7, frameon=False, loc="best")


def _draw_rug(ax: Axes, rug: Histogram) -> None:
    """The histogram of the rows along the bottom of the plot."""
    if rug.partition.edges is None or rug.counts[: len(rug.partition.edges) - 1].max() <= 0:
        return
    edges = np.asarray(rug.partition.edges)
    density = rug.counts[: len(edges) - 1] / np.diff(edges)  # missing values have no place on the axis
    heights = 0.14 * density / density.max()
    ax.bar(
        edges[:-1], heights, width=np.diff(edges), align="edge", color=RUG, linewidth=0.3, edgecolor="white",
        transform=ax.get_xaxis_transform(), zorder=0,
    )  # fmt: skip


def _note(ax: Axes, result: Result, before: str = "", width: int = 104) -> None:
    """The guarantee under the plot, in words."""
    if result.doubt:
        before = f"{result.doubt} {before}"
    if isinstance(result, Curve):
        parts = [before, result.caveat, *result.receipt.cleaning([axis.feature for axis in result.axes])]
        before = "".join(f"{part.strip()} " for part in parts if part.strip())
    if isinstance(result, Curve) and result.marginals is not None:
        paid = result.marginals.receipt
        before += f"Rug: an earlier release with {paid.budget.describe(paid.cost)}. "
    text = textwrap.fill(plain(before + result.receipt.guarantee), width)
    ax.annotate(
        text, (0, 0), xycoords="axes fraction", xytext=(0, -40), textcoords="offset points", va="top", fontsize=6.5,
        color=NOTE, annotation_clip=False,
    )  # fmt: skip
