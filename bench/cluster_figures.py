"""Pictures of `bench clusters`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

from bench import report

STYLES = {  # colour, marker, line
    "one stage": ("#1f4e79", "o", "-"),
    "two stages, our bounds": ("#4a90c2", "s", "-"),
    "two stages, paper": ("#c55a11", "^", "-"),
    "DP-Naive": ("#8c8c8c", "x", "--"),
    "DP-TabEE": ("#b79bc9", "+", "--"),
}
TABEE = ("#333333", ":")
MARKS = {"k-means": "o", "DP k-means": "s", "k-modes": "^", "agglomerative": "D", "GMM": "v"}


def save(name: str, figure: Figure) -> None:
    FigureCanvasAgg(figure)
    report.RESULTS.mkdir(exist_ok=True)
    figure.savefig(report.RESULTS / f"{name}.png", dpi=110)
    print(f"written: bench/results/{name}.png")


def targets(cells: Sequence[Mapping[str, Any]], target: float) -> Figure:
    """For every clustering the epsilon for 98 % by one stage, as a share of that of the paper; a panel for a table."""
    tables = list(dict.fromkeys(c["table"] for c in cells))
    figure = Figure(figsize=(12, 4.4), layout="constrained")
    for ax, table in zip(figure.subplots(1, len(tables), sharey=True), tables, strict=True):
        for i, (method, mark) in enumerate(MARKS.items()):
            mine = [c for c in cells if c["table"] == table and c["clustering"] == method]
            known = [c for c in mine if c["one stage / paper"] is not None]
            x = [c["clusters"] + 0.22 * (i - 2) for c in known]
            y = [c["one stage / paper"] for c in known]
            ax.plot(x, y, mark, color=f"C{i}", label=method, markersize=7, alpha=0.85)
        ax.axhline(target, color="#c55a11", linestyle="--", linewidth=1)
        ax.axhline(1, color="0.6", linewidth=0.8)
        ax.set(title=table, xlabel="clusters", xticks=[3, 5, 7, 9], yscale="log", ylim=(0.03, 1.3))
        ax.set_yticks([0.05, 0.1, 0.2, 0.5, 1], ["1/20", "1/10", "1/5", "1/2", "1"])
        ax.minorticks_off()
        ax.grid(alpha=0.25)
    figure.axes[0].set_ylabel("epsilon of one stage / of the paper's two")
    figure.suptitle(
        "Epsilon of the choice for 98 % of the own noise-free quality (dashed: the aim, from 5 clusters on)"
    )
    legend_below(figure, figure.axes[0])
    return figure


def by_epsilon(cells: Sequence[Mapping[str, Any]], epsilons: Sequence[float], measure: str) -> Figure:
    """Tables down, numbers of clusters across; a line is the mean over clusterings (quality: as a share of TabEE's)."""
    tables = list(dict.fromkeys(c["table"] for c in cells))
    numbers = sorted({c["clusters"] for c in cells})
    figure = Figure(figsize=(13, 8.6), layout="constrained")
    panels = figure.subplots(len(tables), len(numbers), sharex=True, sharey=True, squeeze=False)
    for line, table in zip(panels, tables, strict=True):
        for ax, number in zip(line, numbers, strict=True):
            mine = [c for c in cells if c["table"] == table and c["clusters"] == number]
            for form, (colour, mark, dash) in STYLES.items():
                whole = np.array([c["quality"]["TabEE"] if measure == "quality" else 1.0 for c in mine])[:, None]
                y = (np.array([c["curves"][form][measure] for c in mine]) / whole).mean(axis=0)
                ax.plot(epsilons, y, dash, marker=mark, color=colour, label=form, markersize=4.5, linewidth=1.4)
            if measure == "quality":
                ax.axhline(1, color=TABEE[0], linestyle=TABEE[1], linewidth=1.2, label="TabEE (not private)")
            ax.set(xscale="log", title=f"{table}, {number} clusters")
            ax.grid(alpha=0.25)
    for ax in panels[-1]:
        ax.set_xlabel("epsilon of the choice")
    for ax in panels[:, 0]:
        ax.set_ylabel("quality / TabEE's" if measure == "quality" else "MAE against TabEE")
    words = (
        "Quality of the chosen attributes" if measure == "quality" else "Clusters with another attribute than TabEE's"
    )
    figure.suptitle(f"{words}, mean of five clusterings")
    legend_below(figure, panels[0][0])
    return figure


def by_method(cells: Sequence[Mapping[str, Any]], epsilons: Sequence[float], clusters: int) -> Figure:
    """The paper's Figure 5: tables down, clusterings across."""
    tables = list(dict.fromkeys(c["table"] for c in cells))
    methods = list(dict.fromkeys(c["clustering"] for c in cells))
    figure = Figure(figsize=(14, 8), layout="constrained")
    panels = figure.subplots(len(tables), len(methods), sharex=True, squeeze=False)
    for line, table in zip(panels, tables, strict=True):
        for ax, method in zip(line, methods, strict=True):
            key = (table, method, clusters)
            (mine,) = [c for c in cells if (c["table"], c["clustering"], c["clusters"]) == key]
            for form, (colour, mark, dash) in STYLES.items():
                y = mine["curves"][form]["quality"]
                ax.plot(epsilons, y, dash, marker=mark, color=colour, label=form, markersize=4, linewidth=1.3)
            tabee = mine["quality"]["TabEE"]
            ax.axhline(tabee, color=TABEE[0], linestyle=TABEE[1], linewidth=1.2, label="TabEE (not private)")
            ax.set(xscale="log", title=f"{table}, {method}")
            ax.title.set_fontsize(10)
            ax.tick_params(labelsize=8)
            ax.grid(alpha=0.25)
    for ax in panels[-1]:
        ax.set_xlabel("epsilon of the choice")
    for ax in panels[:, 0]:
        ax.set_ylabel("quality")
    figure.suptitle(f"Quality of the chosen attributes, {clusters} clusters, mean of 10 runs")
    legend_below(figure, panels[0][0])
    return figure


def legend_below(figure: Figure | SubFigure, ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
