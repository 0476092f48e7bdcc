"""The picture of `bench posterior --part everything`: a line for each part, a column for each table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

STYLES = {
    "now": ("before", "#c55a11", "-s"),
    "mst": ("MST rows", "#7f6000", "--^"),
    "domain": ("the domain alone", "#bbbbbb", ":"),
    "zero": ("saying zero", "#bbbbbb", ":"),
    "ours": ("ours", "#1f4e79", "-o"),
}
LABELS = {
    "local": "share of the loss lost",
    "clusters": "quality by the best",
    "disparity": "error",
    "importance": "concordance",
}
Cell = dict[str, Any]


def figure_of(cells: Sequence[Cell]) -> Figure:
    """zCDP accounts, means over models; the batch as errors together over alone."""
    tables = list(dict.fromkeys(cell["table"] for cell in cells))
    parts = [name for name in LABELS if any(cell["part"] == name for cell in cells)]
    batches = [cell for cell in cells if cell["part"] == "batch" and "ours" in cell]
    height = len(parts) + bool(batches)
    figure = Figure(figsize=(3 * len(tables) + 0.8, 2.6 * height), layout="constrained")
    axes = figure.subplots(height, len(tables), squeeze=False)
    for column, table in enumerate(tables):
        axes[0][column].set_title(table, fontsize=9)
        for line, part in enumerate(parts):
            mine = [c for c in cells if (c["part"], c["table"], c["account"]) == (part, table, "zcdp")]
            _by_epsilon(axes[line][column], mine, "concordance" if part == "importance" else "error")
            axes[line][0].set_ylabel(LABELS[part], fontsize=8)
            axes[line][column].set(yscale="linear" if part in ("clusters", "importance") else "log")
        if batches:
            _of_batches(axes[-1][column], [c for c in batches if c["table"] == table])
            axes[-1][0].set_ylabel("together / alone", fontsize=8)
    axes[0][0].legend(fontsize=7)
    figure.suptitle("One kind of explanation for the whole price, by epsilon; below: five for the price of one")
    return figure


def _by_epsilon(ax: Any, cells: Sequence[Cell], figure: str) -> None:
    for name, (label, colour, style) in STYLES.items():
        known = [cell for cell in cells if name in cell]
        prices = sorted({cell["epsilon"] for cell in known})
        values = [_mean([c for c in known if c["epsilon"] == price], name, figure) for price in prices]
        if prices:
            ax.plot(prices, values, style, color=colour, markersize=4, label=label)
    ax.set(xscale="log")
    ax.grid(alpha=0.25)


def _mean(cells: Sequence[Cell], name: str, figure: str) -> float:
    return float(np.mean([line[figure] for cell in cells for line in cell[name]]))


def _of_batches(ax: Any, cells: Sequence[Cell]) -> None:
    names = list(dict.fromkeys(name for cell in cells for name in cell["now"][0]))
    root: Callable[[Any], float] = lambda lines: float(np.sqrt(np.mean(np.square(lines))))  # noqa: E731
    for place, name in enumerate(names):
        ratios = [
            root([line[name]["error"] for line in cell["ours"]]) / root([line[name]["error"] for line in cell["now"]])
            for cell in cells
            if name in cell["now"][0]
        ]
        ax.plot([place] * len(ratios), ratios, "o", color="#1f4e79", markersize=4)
    ax.axhline(1.1, color="#c55a11", linewidth=0.8)
    ax.set_xticks(range(len(names)), names, fontsize=7, rotation=30)
    ax.set(yscale="log")
    ax.grid(alpha=0.25, axis="y")
