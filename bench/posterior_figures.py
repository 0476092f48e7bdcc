"""The pictures of `bench posterior`: errors by epsilon for each table and account, and coverage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WORDS = {
    "pd": "partial dependence of all features",
    "single": "partial dependence of one feature",
    "ale": "accumulated effects of all features",
}
LINES = {"now": ("before", "#c55a11", "-s"), "mst": ("MST rows", "#7f6000", "--^"), "direct": ("raw", "#bbbbbb", ":")}
BLUES = ("#9dc3e6", "#2e75b6", "#1f4e79", "#12355b", "#0b2239")


def figure_of(part: str, cells: Sequence[dict[str, Any]]) -> Figure:
    """A column for each table; errors in zCDP and pure accounts (geometric means over models), then coverage."""
    tables = list(dict.fromkeys(cell["table"] for cell in cells))
    accounts = list(dict.fromkeys(cell["account"] for cell in cells))
    figure = Figure(figsize=(3.1 * len(tables) + 0.8, 3 * (len(accounts) + 1)), layout="constrained")
    axes = figure.subplots(len(accounts) + 1, len(tables), squeeze=False)
    for column, table in enumerate(tables):
        mine = [cell for cell in cells if cell["table"] == table]
        for line, account in enumerate(accounts):
            _errors(axes[line][column], [cell for cell in mine if cell["account"] == account])
            axes[line][column].set_title(f"{table}, {mine[0]['rows']:,} rows, {account}", fontsize=9)
        _coverage(axes[-1][column], mine)
    for line in range(len(accounts)):
        axes[line][0].set_ylabel("root mean squared error / output range")
    axes[-1][0].set_ylabel("coverage of 95 % intervals, a dot a cell")
    axes[0][0].legend(fontsize=7)
    axes[-1][0].legend(fontsize=7)
    figure.suptitle(f"{WORDS[part]}, by total epsilon")
    return figure


def _errors(ax: Axes, cells: Sequence[dict[str, Any]]) -> None:
    epsilons = sorted({cell["epsilon"] for cell in cells})

    def means(errors: Any) -> list[float]:
        logs = [[np.log(np.mean(errors(c))) / 2 for c in cells if c["epsilon"] == epsilon] for epsilon in epsilons]
        return [float(np.exp(np.mean(each))) for each in logs]

    for method, (label, colour, style) in LINES.items():
        if method in cells[0]:
            mine = means(lambda cell, method=method: cell[method])
            ax.plot(epsilons, mine, style, color=colour, markersize=4, label=label)
    for share, colour in zip(cells[0]["ours"], BLUES, strict=False):
        mine = means(lambda cell, share=share: cell["ours"][share]["error"])
        ax.plot(epsilons, mine, "-o", color=colour, markersize=3, label=f"posterior, share {share}")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.grid(alpha=0.25)


def _coverage(ax: Axes, cells: Sequence[dict[str, Any]]) -> None:
    ax.axhspan(0.93, 0.99, color="grey", alpha=0.2)
    ax.plot(
        [0.94 * cell["epsilon"] for cell in cells], [np.mean(cell["proven"]) for cell in cells], ".", color="#c55a11",
        alpha=0.4, label="proven, before",
    )  # fmt: skip
    for share, colour in zip(cells[0]["ours"], BLUES, strict=False):
        covered = [np.mean(cell["ours"][share]["posterior"]) for cell in cells]
        ax.plot(
            [1.04 * cell["epsilon"] for cell in cells], covered, ".", color=colour, alpha=0.5,
            label=f"posterior, share {share}",
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_ylim(0.7, 1.01)
    ax.set_xlabel("total epsilon")
