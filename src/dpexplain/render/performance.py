"""Pictures of a performance: ROC and calibration side by side, then a bar with its interval for each group and figure.

A regression shows its residuals along the predictions instead, and several classes their confusion matrix. Groups have
one colour throughout; what is not determined has an interval and no bar.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.ticker import PercentFormatter

from dpexplain.methods.performance.words import BARS, OVERALL, TOP, WORDS, picture_size, row_heights
from dpexplain.render import picture as draw
from dpexplain.render.marks import in_words, mark
from dpexplain.render.picture import BAND, INK, LEVEL, NOTE, SAID, name_lines, plain, short_label

if TYPE_CHECKING:
    import pandas as pd

    from dpexplain.methods.performance.result import Performance

COLOURS = ("#c55a11", "#2e8b74", "#8a5fa8", "#b8860b", "#4f81bd", "#a23b52")
NAME_LETTERS = 28  # of a group in a legend
LINES = 4  # groups or classes that have a line of their own; the files have all of them
PANELS, COLUMNS = 3, 6  # of bars in a row; columns of the grid, of which ROC and calibration have a half each
RATES = {
    "selection_rate": "selection rate",
    "true_positive_rate": "true positive rate (recall)",
    "false_positive_rate": "false positive rate",
}
ERRORS = {
    "mean_absolute_error": "mean absolute error",
    "mean_residual": "mean residual",
    "r2": "R2",
}
READABLE, FEWEST = 0.4, 3  # a cell of calibration has no wider interval in the picture, if so many are left
LOWEST = {"r2": -1.0}  # where bars and whiskers end: there is no lower bound, and nothing to see beyond


def plot_performance(perf: Performance, ax: Axes | None = None) -> Axes:
    """All panels. The place of `ax` is divided among them."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=picture_size(perf), layout="constrained", FigureClass=draw.Picture)
    ax.set_axis_off()
    place, heights = ax.get_subplotspec(), row_heights(perf)
    assert place is not None, "a plot of a performance needs a subplot"
    grid = place.subgridspec(len(heights) + 3, COLUMNS, height_ratios=[0.25, TOP, *heights, WORDS - 0.25])
    figure, half = ax.figure, COLUMNS // 2
    left, right = figure.add_subplot(grid[1, :half]), figure.add_subplot(grid[1, half:])
    if perf.task == "regression":
        _residuals(left, perf)
        _shares(right, perf)
    else:
        _roc(left, perf)
        _calibration(right, perf)
    line = 2
    if perf.task == "classes":
        _confusion(figure.add_subplot(grid[line, :]), perf)
        line += 1
    for by in perf.by:
        each = COLUMNS // PANELS
        _by_group([figure.add_subplot(grid[line, each * i : each * (i + 1)]) for i in range(PANELS)], perf, by)
        line += 1
    if not perf.by and perf.task != "classes":
        _overall(figure.add_subplot(grid[line, :]), perf)
        line += 1
    _write(figure.add_subplot(grid[0, :]), plain(perf.title), size=11)
    shown = f"Bands and whiskers: {LEVEL:.0%} noise intervals of each; dotted in bars: everybody."
    if perf.task != "regression":
        shown += f" Calibration: cells with intervals of at most {100 * READABLE:.0f} points, where there are several."
    words = " ".join(part for part in (shown, perf.doubt, perf.footnote, perf.receipt.guarantee) if part)
    SAID[_write(figure.add_subplot(grid[line, :]), textwrap.fill(plain(words), 190), size=7, colour=NOTE)] = shown
    return ax


# Curves ---------------------------------------------------------------------------------------------------------------


def _lines(perf: Performance) -> list[tuple[str, dict[str, Any], str]]:
    """Whose curves are drawn: name, keywords, colour. Everybody first; for several classes each against the rest."""
    if perf.task == "classes":
        return [(str(c), {"label": c}, _colour(i)) for i, c in enumerate(perf.labels[:LINES])]
    groups = perf.cells_of(perf.by[0])[:LINES] if perf.by else []
    named = [(perf.group_title(group), {"group": group}, _colour(i)) for i, group in enumerate(groups)]
    return [("everybody", {}, INK), *named]


def _short(name: str) -> str:
    """A name for a legend, cut in its middle: what sets groups apart often stands at its end."""
    return name if len(name) <= NAME_LETTERS else f"{name[: NAME_LETTERS // 2]}…{name[-NAME_LETTERS // 2 :]}"


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _roc(ax: Axes, perf: Performance) -> None:
    ax.plot([0, 1], [0, 1], ":", color=NOTE, linewidth=0.8)
    for name, who, colour in _lines(perf):
        area = perf.figure("auc", **who)
        if not area.determined:
            continue
        frame = perf.roc(**who)
        frame = frame[frame["determined"].astype(bool)].sort_values("threshold", ascending=False)
        names = ("false_positive_rate", "true_positive_rate", "low", "high")
        x, y, low, high = (np.concatenate([[0.0], frame[c].to_numpy(dtype=float), [1.0]]) for c in names)
        ax.fill_between(x, low, high, color=BAND if colour == INK else colour, alpha=0.3, linewidth=0)
        words = f"{_short(name)}: AUC {area.value:.3f} ({area.low:.3f} to {area.high:.3f})"
        ax.plot(x, y, color=colour, linewidth=1.6, label=plain(words))
        where = [f"{name}: {at:.0%} false positives" for at in x]
        mark(ax, x, y, in_words(where, y, (low, high), kind="true positive rate"), (low, high))
    if perf.task == "binary":
        _at_threshold(ax, perf)
    ax.set_xlim(-0.01, 1.01)
    ax.set_ylim(-0.01, 1.01)
    _finished(ax, "ROC: how well the score orders the rows", "false positive rate", "true positive rate", "lower right")


def _at_threshold(ax: Axes, perf: Performance) -> None:
    """Where everybody stands at the threshold."""
    x, y = (perf.figure(name) for name in ("false_positive_rate", "true_positive_rate"))
    if x.determined and y.determined:
        label = f"at a score of at least {perf.threshold:g}"
        ax.plot([x.value], [y.value], "o", color=INK, markersize=5, label=label)


def _calibration(ax: Axes, perf: Performance) -> None:
    """The share of positives where the score lies in each cell, for cells that the noise leaves readable."""
    if perf.probability:
        ax.plot([0, 1], [0, 1], ":", color=NOTE, linewidth=0.8, label="as the score says")
    for name, who, colour in _lines(perf):
        _dotted(ax, readable(perf.calibration(**who)), name, colour)
    ax.set_ylim(-0.02, 1.02)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    happened = "share of rows of the class" if perf.task == "classes" else f"share where {perf.target_words}"
    _finished(ax, "Calibration: what happened at each score", "score", happened, "upper left")


def readable(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells of a calibration whose intervals say something: those with hardly any rows would zigzag through the
    picture. Where hardly any cell does, all that are determined stay; the files have every cell.
    """
    narrow = cells[cells["high"] - cells["low"] <= READABLE]
    return narrow if len(narrow) >= FEWEST else cells


def _residuals(ax: Axes, perf: Performance) -> None:
    """The mean residual where predictions lie in each cell."""
    ax.axhline(0, color=NOTE, linewidth=0.8, linestyle=":")
    _dotted(ax, perf.residuals(), "everybody", INK)
    _finished(ax, "Residuals: above zero, predictions are too low", "prediction", "target less prediction", "best")


def _dotted(ax: Axes, frame: pd.DataFrame, name: str, colour: str) -> None:
    """A dot with its interval for each cell that is determined, joined by a line."""
    frame = frame[frame["determined"].astype(bool)]
    x, y, low, high = (frame[c].to_numpy(dtype=float) for c in ("mean_score", "value", "low", "high"))
    if len(x):
        ink, width = (BAND, 4) if colour == INK else (colour, 2)
        ax.vlines(x, low, high, color=ink, linewidth=width, alpha=0.5)
        ax.plot(x, y, "o-", color=colour, linewidth=1.2, markersize=3.5, label=plain(_short(name)))
        mark(ax, x, y, in_words([f"{name}: score {at:.3g}" for at in x], y, (low, high)), (low, high))


def _shares(ax: Axes, perf: Performance) -> None:
    """Where the predictions are."""
    frame = perf.residuals()
    rows, low, high = (frame[c].to_numpy(dtype=float) for c in ("rows", "low_score", "high_score"))
    share = np.maximum(rows, 0) / max(np.maximum(rows, 0).sum(), 1.0)
    ax.bar(np.arange(len(rows)), share, 1.0, align="edge", color=BAND, edgecolor="white", linewidth=0.5)
    ax.set_xticks(np.arange(len(rows) + 1), [f"{edge:.3g}" for edge in (*low, high[-1])])
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    _finished(ax, "Where the predictions are (cells of unequal width)", "prediction", "share of rows", "")


def _finished(ax: Axes, title: str, x: str, y: str, legend: str) -> None:
    draw.finish(ax, title, x=plain(x), y=short_label(y, 60), legend=legend)
    ax.title.set_fontsize(9)
    ax._left_title.set_fontsize(9)  # type: ignore[attr-defined]  # there is no public way to it
    ax.tick_params(labelsize=8)
    ax.xaxis.label.set_fontsize(8)
    ax.yaxis.label.set_fontsize(8)


# Bars -----------------------------------------------------------------------------------------------------------------


def _by_group(panels: Sequence[Axes], perf: Performance, by: Any) -> None:
    """A panel for each figure, a bar for each group; a dotted line is everybody."""
    groups = perf.cells_of(by)[:BARS]
    names = [name_lines(plain(perf.group_title(group))) for group in groups]
    figures = ERRORS if perf.task == "regression" else {"accuracy": "accuracy"} if perf.task == "classes" else RATES
    for number, (ax, (name, words)) in enumerate(zip(panels, figures.items(), strict=False)):
        places = draw.names_down(ax, names if number == 0 else [""] * len(names))
        in_curves = perf.task != "classes" and by == perf.by[0]  # there classes have the colours
        colours = [_colour(i) if in_curves and i < LINES else INK for i in range(len(groups))]
        for line, group, colour in zip(places, groups, colours, strict=True):
            who = f"{perf.group_name(group)}: {words}"
            _bar(ax, line, perf.figure(name, group=group), who, colour, LOWEST.get(name, -np.inf))
        everybody = perf.figure(name)
        if everybody.determined and everybody.value >= LOWEST.get(name, -np.inf):
            ax.axvline(everybody.value, color=NOTE, linewidth=0.9, linestyle=":")
        _bar_axis(ax, words, perf)
    panels[0].set_ylabel(short_label(" x ".join(map(perf.receipt.called, by)), 60), fontsize=8)
    for ax in panels[len(figures) :]:
        ax.set_axis_off()


def _overall(ax: Axes, perf: Performance) -> None:
    """Without groups: the figures of everybody."""
    names = list(ERRORS) if perf.task == "regression" else list(OVERALL)
    for line, name in zip(draw.names_down(ax, [name.replace("_", " ") for name in names]), names, strict=True):
        _bar(ax, line, perf.figure(name), name.replace("_", " "), INK, LOWEST.get(name, -np.inf))
    _bar_axis(ax, "everybody", perf)


def _bar(ax: Axes, line: float, estimate: Any, who: str, colour: str, lowest: float = -np.inf) -> None:
    if not estimate.determined:
        ax.text(0.02, line, "not determined", transform=ax.get_yaxis_transform(), fontsize=6.5, color=NOTE, va="center")
        return
    ax.barh(line, max(estimate.value, lowest), height=0.62, color=colour, alpha=0.75)
    draw.bar_interval(ax, line, max(estimate.low, lowest), estimate.high, sure=True)
    words = in_words([who], [estimate.value], ([estimate.low], [estimate.high]))
    mark(ax, max(estimate.value, lowest), line, words, ([max(estimate.low, lowest)], [estimate.high]), lying=True)


def _bar_axis(ax: Axes, words: str, perf: Performance) -> None:
    ax.set_title(plain(words), fontsize=8, loc="left")
    ax.tick_params(labelsize=7)
    ax.grid(axis="x", alpha=0.25)
    ax.set_axisbelow(True)
    if perf.task != "regression":
        ax.set_xlim(0, 1)
        ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def _confusion(ax: Axes, perf: Performance) -> None:
    """Of the rows of each class, how many are predicted to be of which."""
    frame = perf.confusion_matrix()
    values = list(dict.fromkeys(frame["target"]))
    order = sorted(range(len(perf.labels)), key=lambda i: values.index(perf.labels[i]))  # right ones on the diagonal
    shares = frame["share"].to_numpy(dtype=float).reshape(len(values), -1)[:, order]  # target after target
    names, targets = ([short_label(str(v), 24) for v in each] for each in ([perf.labels[i] for i in order], values))
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    ax.set_xticks(range(len(names)), names, fontsize=7)
    ax.set_yticks(range(len(targets)), targets, fontsize=7)
    for (line, column), share in np.ndenumerate(shares):
        words = "not determined" if np.isnan(share) else f"{share:.0%}"
        dark = share > 0.6
        ax.text(
            column, line, words, ha="center", va="center", fontsize=7, color="white" if dark else "black",
            gid="is-on-dark" if dark else "is-on-light",
        )  # fmt: skip
    ax.set_xlabel("predicted class", fontsize=8)
    ax.set_ylabel(short_label(perf.target_words, 40), fontsize=8)
    ax.set_title("Of the rows of each class, the share predicted to be of which", fontsize=8, loc="left")


def _write(ax: Axes, text: str, *, size: float, colour: str = "black") -> Text:
    """Words in a place of their own."""
    ax.set_axis_off()
    return ax.text(0, 1, text, va="top", fontsize=size, color=colour, transform=ax.transAxes)
