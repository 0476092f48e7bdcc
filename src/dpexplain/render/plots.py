"""Pictures of results with matplotlib, each with its guarantee in words and its noise band."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from dpexplain.columns import date_text, unit_of
from dpexplain.render import picture as draw
from dpexplain.render.charts import described
from dpexplain.render.marks import curve_words, from_table, in_words, kind_of, mark
from dpexplain.render.picture import BAND, INK, LEVEL, NOTE, RUG, Picture, name_lines, plain, short_label
from dpexplain.render.text import cell, percent

if TYPE_CHECKING:
    from dpexplain.maths.grids import Partition
    from dpexplain.methods.curves import Curve
    from dpexplain.methods.histogram import Histogram
    from dpexplain.methods.kmeans.result import ClusterCentres
    from dpexplain.methods.local_sketch.result import LocalSketch
    from dpexplain.methods.marginals.result import Marginals
    from dpexplain.methods.quantiles.result import Quantiles
    from dpexplain.methods.rankings import Ranking
    from dpexplain.methods.result import Result

RUG_CELLS = 40  # along an axis, where some of the released cells are too narrow to be seen
STRIP = 0.62  # height of the highest bar of a histogram, of one line
LETTERS = 72  # under a histogram
SIDES = ("left", "center", "right")
MARKS = "os^Dv*PX<>"  # of clusters
MAX_VALUES = 40  # in the general picture; the files have all of them
NOISE_INTERVAL = f"{LEVEL:.0%} noise interval of each point"
LIKELY, PROVEN = f"likely values, {LEVEL:.0%}", f"released, proven {LEVEL:.0%}"  # of sharpened curves
PROOF = "#8c8c8c"
THIN: dict[str, Any] = {"color": PROOF, "linewidth": 0.9, "alpha": 0.6, "zorder": 1.5}
BELOW = 0.24  # of a line, by which released values stand below likely ones


def plot_curve(curve: Curve, ax: Axes | None = None) -> Axes:
    """One feature: a line or dots with their band. Two features: a map.

    Where values are sharpened, the released ones and their proven interval are drawn too, thinner and fainter.
    """
    ax = draw.new_axes(ax)
    if len(curve.axes) == 2:
        return _plot_surface(curve, ax)
    axis = curve.axes[0]
    (low, high), proven, key, kind = curve.interval(LEVEL), curve.proven_interval(LEVEL), list[Any](), kind_of(curve)
    if axis.ordered:
        x = axis.numbers
        band, line, dots = ((low[: len(x)], high[: len(x)]), curve.values[: len(x)], curve.raw[: len(x)])
        shade = ax.fill_between(x, *band, color=BAND, alpha=0.45, linewidth=0, label=NOISE_INTERVAL, gid="is-noise")
        (stroke,) = ax.plot(x, line, color=INK, linewidth=1.8, label=kind)
        if curve.sharpened:
            key = [((shade, stroke), LIKELY), (_released(ax, x, dots, proven, upright=True), PROVEN)]
        elif curve.smoothed:
            ax.plot(x, dots, ".", color=INK, markersize=3, alpha=0.5, label="released values")
        room = 0.015 * (x[-1] - x[0]) if curve.sharpened else 0.0  # for what is released at the ends
        ax.set_xlim(x[0] - room, x[-1] + room)
        mark(ax, x, line, curve_words(curve)[: len(x)], band)
        if len(x) < len(axis.points):
            _missing_point(ax, curve, x, low[-1], high[-1])
        bottom, top = float(np.min([low, *proven])), float(np.max([high, *proven]))
        span = max(top - bottom, 0.02 * curve.span)
        ax.set_ylim(bottom - 0.22 * span, top + 0.08 * span)  # room for the band, and below it for the rug
        if len(x) == len(axis.points):
            _dates_below(ax, unit_of(curve.receipt.domain, axis.feature))
        draw.finish(ax, curve.title, x=_axis(curve, axis.feature), y=curve.quantity, key=key)
        if curve.rug:
            _draw_rug(ax, curve.rug[0])
    else:
        names = [plain(str(curve.receipt.called_value(axis.feature, point))) for point in axis.points]
        if curve.rug:
            names = [f"{name}  ({share})" for name, share in zip(names, _shares(curve.rug[0]), strict=True)]
        places, *drawn = _dots(ax, curve, list(map(name_lines, names)), NOISE_INTERVAL, kind, curve_words(curve))
        if curve.sharpened:
            key = [(tuple(drawn), LIKELY), (_released(ax, places - BELOW, curve.raw, proven, upright=False), PROVEN)]
        elif curve.smoothed:
            ax.plot(curve.raw, places, ".", color=INK, markersize=3, alpha=0.5, label="released values")
        below = "  (share of rows ± noise of its count)" if curve.rug else ""
        draw.finish(ax, curve.title, x=curve.quantity, y=_axis(curve, axis.feature) + below, grid="x", key=key)
    draw.guarantee_note(ax, curve)
    return ax


def _axis(result: Result, feature: str) -> str:
    """The name of an axis: what people call the column, with its unit."""
    return short_label(result.receipt.names.axis(feature))


def _released(ax: Axes, places: Any, values: Any, ends: Any, *, upright: bool) -> Any:
    """Released values as faint points, each on a thin line, its proven interval; what stands for them in a legend."""
    low, high = (end[: len(places)] for end in ends)
    (ax.vlines if upright else ax.hlines)(places, low, high, **THIN)
    at = (places, values) if upright else (values, places)
    (points,) = ax.plot(*at, ".", color=PROOF, markersize=3, zorder=1.6, label=PROVEN)
    return Line2D([], [], **THIN), points


def _dots(
    ax: Axes, result: Result, names: Sequence[str], interval: str, kind: str = "released", words: Any = None
) -> Any:
    """Names from top to bottom, a dot and its interval each; the places of the lines, and what was drawn."""
    places, (low, high) = draw.names_down(ax, names), (end[: len(names)] for end in result.interval(LEVEL))
    values = result.values[: len(names)]
    bars = ax.hlines(places, low, high, color=BAND, linewidth=6, alpha=0.6, label=interval, gid="is-noise")
    (dots,) = ax.plot(values, places, "o", color=INK, markersize=5, label=kind, gid="is-value")
    if words is None:
        said, sure = [" ".join(name.split()) for name in names], result.determined()[: len(names)]
        words = in_words(said, values, (low, high), known=sure, name=f"{LEVEL:.0%} interval")
    mark(ax, values, places, words, (low, high), lying=True)
    return places, bars, dots


def plot_values(result: Result, ax: Axes | None = None) -> Axes:
    """The picture of a result that brings none of its own: a dot and an interval for each line of its table."""
    ax, frame = draw.new_axes(ax), result.to_frame()
    words = [[cell(value, result) for value in line] for line in frame.iloc[:MAX_VALUES, :1].to_numpy().tolist()]
    _dots(ax, result, [name_lines(plain(name)) for (name,) in words], f"{LEVEL:.0%} interval of each")
    draw.finish(ax, result.title, grid="x")
    left_out = len(frame) - len(words)
    draw.guarantee_note(ax, result, f"{left_out} more values are not shown." if left_out else "")
    return ax


def _missing_point(ax: Axes, curve: Curve, x: Any, low: float, high: float) -> None:
    """The point of missing values, apart from the line: to the right of the upper bound, with their share of rows."""
    span = float(x[-1] - x[0])
    place = float(x[-1]) + 0.12 * span
    ax.vlines(place, low, high, color=BAND, linewidth=6, alpha=0.6)
    ax.plot([place], curve.values[-1:], "o", color=INK, markersize=5)
    mark(ax, place, curve.values[-1], curve_words(curve)[-1:], ([low], [high]))
    if curve.sharpened:
        proven = [end[-1:] for end in curve.proven_interval(LEVEL)]
        _released(ax, [place + 0.02 * span], curve.raw[-1:], proven, upright=True)
    ax.axvline(float(x[-1]) + 0.05 * span, color=NOTE, linewidth=0.6, linestyle=":")
    unit = unit_of(curve.receipt.domain, curve.axes[0].feature)
    _dates_below(ax, unit)
    ticks = [tick for tick in ax.get_xticks() if x[0] <= tick <= x[-1]]
    ax.set_xticks([*ticks, place], [*(_tick(tick, True, unit) if unit else f"{tick:g}" for tick in ticks), "missing"])
    ax.set_xlim(x[0], place + 0.07 * span)
    if curve.rug and curve.rug[0].partition.missing:
        share = f"{curve.rug[0].shares[-1]:.0%}\nof rows"
        ax.text(place, 0.02, share, transform=ax.get_xaxis_transform(), ha="center", fontsize=7, color=NOTE)


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
        unit = unit_of(curve.receipt.domain, axis.feature)
        shown = [curve.receipt.called_value(axis.feature, axis.points[i]) for i in places]
        names = [_tick(point, axis.ordered, unit) for point in shown]
        set_ticks(places, names, fontsize=8)
    ax.figure.colorbar(image, ax=ax, label=f"{curve.quantity} ({kind_of(curve)})")
    columns, lines = np.indices(curve.shape)
    mark(ax, columns.ravel(), lines.ravel(), curve_words(curve))
    half, proven = (
        float((high - low).max() / 2) for low, high in (curve.interval(LEVEL), curve.proven_interval(LEVEL))
    )
    said = f"{LEVEL:.0%} noise interval of each cell: at most ±{half:.3g}."
    if curve.sharpened:
        said = f"{LEVEL:.0%} interval of each cell, likely: at most ±{half:.3g}; proven: at most ±{proven:.3g}."
    draw.finish(ax, curve.title, x=_axis(curve, first.feature), y=_axis(curve, second.feature), grid="", legend="")
    draw.guarantee_note(ax, curve, said, width=84)
    return ax


def _dates_below(ax: Axes, unit: str) -> None:
    """Dates where numbers of steps would stand, few enough to be read side by side."""
    if unit:
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda place, _: date_text(place, unit)))


def _tick(point: Any, ordered: bool, unit: str = "") -> str:
    if unit and point is not None:
        return date_text(point, unit)
    return "missing" if point is None else f"{float(f'{point:.3g}'):,g}" if ordered else name_lines(plain(str(point)))


def plot_marginals(marginals: Marginals, ax: Axes | None = None) -> Axes:
    """The share of rows in each cell, a strip of bars for each feature, with its values below it."""
    ax, frame = draw.new_axes(ax), marginals.to_frame()
    for line, feature in enumerate(reversed(marginals.features)):
        rug = marginals.histogram(feature)
        x = (np.arange(rug.partition.size) + 0.5) / rug.partition.size
        ax.bar(x, STRIP * rug.shares / rug.shares.max(), 0.9 / len(x), line, color=INK, linewidth=0)
        words = from_table(frame[frame["feature"] == feature], marginals)
        mark(ax, x, line + STRIP * rug.shares / rug.shares.max(), words)
        ax.plot([0, 1], [line, line], color=NOTE, linewidth=0.6)
        below = values_below(rug.partition, unit_of(marginals.receipt.domain, feature))
        for place, value, side in below:
            ax.text(place, line - 0.04, plain(value), fontsize=6.5, color=NOTE, va="top", ha=side)
        most = int(np.argmax(rug.shares))
        ax.text(1.01, line + 0.3, f"highest bar:\n{_shares(rug)[most]}", fontsize=6.5, color=NOTE, va="center")
    names = [name_lines(plain(marginals.receipt.called(feature))) for feature in reversed(marginals.features)]
    ax.set_yticks(np.arange(len(names)) + 0.3, names, fontsize=8)
    ax.set_xticks([])
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.set_xlim(-0.01, 1.2)
    ax.set_ylim(-0.35, len(names) - 0.2)
    title = "Released histograms: share of rows, each scaled to its highest bar"
    draw.finish(ax, title, grid="", legend="")
    half = marginals.part("counts")[1].halfwidth(LEVEL)
    draw.guarantee_note(ax, marginals, f"{LEVEL:.0%} noise interval of each count: ±{half:.3g} rows.")
    return ax


def values_below(partition: Partition, unit: str = "") -> list[tuple[float, str, str]]:
    """Where which value is written under a strip: its ends and its middle, or the categories that there is room for."""
    if partition.edges is not None:
        low, high = partition.edges[0], partition.edges[-1]
        if all(edge % 1 == 0.5 for edge in partition.edges):  # cells of whole numbers
            low, high = low + 0.5, high - 0.5
        if unit:
            return [(p, date_text(x, unit), s) for p, x, s in zip((0.0, 1.0), (low, high), SIDES[::2], strict=True)]
        numbers = zip((0.0, 0.5, 1.0), (low, (low + high) / 2, high), SIDES, strict=True)
        return [(place, f"{x:,.0f}" if float(x).is_integer() else f"{x:,.4g}", side) for place, x, side in numbers]
    letters = LETTERS // 2 if draw.NARROW.get() else LETTERS
    room = max(4, letters // partition.size)
    names = [draw.cut(str(label), room) for label in partition.labels]
    step = max(1, -(-partition.size // (letters // 4)))
    return [((i + 0.5) / len(names), name, "center") for i, name in enumerate(names) if i % step == 0]


def plot_quantiles(quantiles: Quantiles, ax: Axes | None = None) -> Axes:
    """Released quantiles against their probabilities, like an empirical distribution, with the interval of each."""
    ax = draw.new_axes(ax)
    low, high = quantiles.interval(LEVEL)
    label = f"{LEVEL:.0%} noise interval, all at once"
    ax.fill_betweenx(quantiles.probs, low, high, color=BAND, alpha=0.45, linewidth=0, label=label)
    if len(quantiles.probs) == 1:  # a band needs two lines to stand between
        ax.hlines(quantiles.probs, low, high, color=BAND, linewidth=6, alpha=0.45)
    ax.plot(quantiles.values, quantiles.probs, "o-", color=INK, linewidth=1.2, markersize=3.5, label="released")
    names = [f"{p:.0%} of rows have at most this" for p in quantiles.probs]
    words = [[name, *said[1:]] for name, said in zip(names, from_table(quantiles.to_frame(), quantiles), strict=True)]
    mark(ax, quantiles.values, quantiles.probs, words, (low, high), lying=True)
    ax.set_ylim(0, 1)
    _dates_below(ax, unit_of(quantiles.receipt.domain, quantiles.feature))
    x, y = _axis(quantiles, quantiles.feature), "share of rows up to this value"
    draw.finish(ax, f"Quantiles of {quantiles.receipt.called(quantiles.feature)}", x=x, y=y)
    error = quantiles.rank_error(LEVEL).max()
    draw.guarantee_note(
        ax, quantiles, f"{LEVEL:.0%} of such releases have all ranks right to ±{error:.2g} of the rows."
    )
    return ax


def plot_ranking(ranking: Ranking, ax: Axes | None = None) -> Axes:
    """Items top to bottom, the best first, a dot and its interval each; behind a name, how sure its place is."""
    ax = draw.new_axes(ax)
    sure = [f"  (among the best {ranking.top}: {percent(p)})" for p in ranking.top_probability()]
    named = map(ranking.receipt.called, ranking.items)
    names = [name_lines(plain(item)) + words for item, words in zip(named, sure, strict=True)]
    _dots(ax, ranking, names, f"{LEVEL:.0%} interval of each")
    draw.finish(ax, ranking.title, x=ranking.quantity, grid="x", legend="lower right")
    draw.guarantee_note(ax, ranking, width=84)
    return ax


def plot_centres(result: ClusterCentres, ax: Axes | None = None) -> Axes:
    """A line for each coordinate, a mark for each cluster: where its centre is between the declared bounds.

    Of many coordinates those in which the centres differ most.
    """
    ax, frame = draw.new_axes(ax), result.to_frame()
    apart = np.ptp(result.scaled[0], axis=0)
    shown = np.sort(np.argsort(-apart, kind="stable")[: result.coordinates_shown])
    places = draw.names_down(ax, [name_lines(plain(_coordinate(result, result.space.names[i]))) for i in shown])
    for cluster, (label, rows) in enumerate(zip(result.labels, result.rows, strict=True)):
        centre, low, high = (line[cluster, shown] for line in result.scaled)
        at, colour = places + 0.6 * (0.5 - (cluster + 0.5) / len(result.labels)), f"C{cluster % 10}"
        ax.hlines(at, low, high, color=colour, linewidth=4, alpha=0.3)
        shape, name = MARKS[cluster % len(MARKS)], short_label(f"{label}: about {rows:,.0f} rows", 30)
        ax.plot(centre, at, shape, color=colour, markersize=5, label=name)
        own = frame.iloc[cluster * len(apart) + shown]
        mark(ax, centre, at, from_table(own, result, "cluster", "coordinate"), (low, high), lying=True)
    ax.set_xlim(-0.02, 1.02)
    ax.set_xticks([0, 1], ["lowest value\n(or no row)", "highest value\n(or all rows)"], fontsize=8)
    draw.finish(ax, result.title, grid="y", legend="")
    draw.add_key(ax, *ax.get_legend_handles_labels(), frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    draw.guarantee_note(ax, result, f"Bars: {LEVEL:.0%} noise interval of each.", width=84)
    return ax


def _coordinate(result: Result, name: str) -> str:
    """What people call a coordinate: a column, or a category of one."""
    column, separator, category = name.partition("=")
    return f"{result.receipt.called(column)}{separator}{result.receipt.called_value(column, category)}"


def plot_sketch(sketch: LocalSketch, ax: Axes | None = None) -> Axes:
    """The cells by their mean prediction, each as wide as the rows it has, with its noise interval."""
    ax = draw.new_axes(ax)
    order = np.argsort(sketch.values)
    order = order[sketch.cells.kept[order]]
    (low, high), rows = (end[order] for end in sketch.interval(LEVEL)), sketch.counts[order]
    ends = np.cumsum(rows)
    label = f"{LEVEL:.0%} noise interval of each"
    ax.bar(ends, high - low, -rows, low, align="edge", color=BAND, alpha=0.6, label=label)
    ax.hlines(sketch.values[order], ends - rows, ends, color=INK, linewidth=2, label="released")
    names = [f"cell {i + 1}, about {count:,.0f} rows" for i, count in zip(order, rows, strict=True)]
    mark(ax, ends - rows / 2, sketch.values[order], in_words(names, sketch.values[order], (low, high)), (low, high))
    less = "" if sketch.cells.before else "; rows far from the middle of their cell count less"
    x = f"rows, cell after cell ({len(order)} of {len(sketch.values)} cells stand out of the noise{less})"
    draw.finish(ax, "Local sketch: what the model says in each cell", x=x, y="mean prediction of these rows")
    draw.guarantee_note(ax, sketch)
    return ax


def figure_of(result: Result) -> Picture:
    """A figure of its own, free of pyplot's global state."""
    figure = draw.new_picture(result.picture_size)
    result.plot(figure.add_subplot())
    figure.fit()
    return figure


def figure_of_all(curves: Sequence[Curve]) -> Picture:
    """Several curves side by side, two in a line."""
    lines = -(-len(curves) // 2)
    figure = draw.new_picture((12, 4.4 * lines))
    for place, curve in enumerate(curves, 1):
        curve.plot(figure.add_subplot(lines, 2, place))
    figure.fit()
    return figure


def save_png(result: Result, path: str | Path, dpi: int = 150) -> None:
    figure_of(result).savefig(path, dpi=dpi, metadata={"Description": described(result)})


def _draw_rug(ax: Axes, rug: Histogram) -> None:
    """The histogram of the rows along the bottom of the plot."""
    if rug.partition.edges is None or rug.counts[: len(rug.partition.edges) - 1].max() <= 0:
        return
    edges, counts = _at_sight(np.asarray(rug.partition.edges), rug.counts[: len(rug.partition.edges) - 1])
    density = counts / np.diff(edges)  # missing values have no place on the axis
    heights = 0.14 * density / density.max()
    ax.bar(
        edges[:-1], heights, width=np.diff(edges), align="edge", color=RUG, linewidth=0.3, edgecolor="white",
        transform=ax.get_xaxis_transform(), zorder=0,
    )  # fmt: skip


def _at_sight(edges: NDArray[Any], counts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Equal cells where some are too narrow to be seen: the density of one with a single value hides all others."""
    if np.diff(edges).min() >= (edges[-1] - edges[0]) / RUG_CELLS:
        return edges, counts
    even = np.linspace(edges[0], edges[-1], RUG_CELLS + 1)
    below = np.concatenate([[0.0], np.cumsum(np.maximum(counts, 0.0))])
    return even, np.diff(np.interp(even, edges, below))
