"""Pictures of the influence benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from bench.influence_accuracy import AIM, OURS, PAIRS, PAPER, TARGETS, ratio
from bench.influence_shapley import FEW, KERNEL, PERMUTATION

BLUE, ORANGE, GREY, GREEN, PURPLE = "#1f4e79", "#c55a11", "#7f7f7f", "#3a7d44", "#7b5ea7"
RATIOS = (0.2, 0.3, 0.5, 1, 2, 3)
COLOURS = {"replace-one": BLUE, "add-remove": GREEN}


def accuracy(cells: Sequence[dict[str, Any]]) -> Figure:
    """Errors by epsilon for two readings, and their ratios with the targets."""
    figure = Figure(figsize=(14, 4.4), layout="constrained")
    axes = figure.subplots(1, 3)
    titles = {"noise": "noise alone: against the same statistic", "total": "total: against the exact influences"}
    for ax, (reading, title) in zip(axes, titles.items(), strict=False):
        for relation, colour in COLOURS.items():
            _errors(ax, [c for c in cells if c["relation"] == relation], OURS, reading, colour, f"ours, {relation}")
        mine = [c for c in cells if c["relation"] == "replace-one"]
        _errors(ax, mine, PAPER, reading, ORANGE, "paper's mechanism, replace-one")
        _errors(ax, mine, PAIRS, reading, PURPLE, "paper's pairs of rows, our noise, replace-one")
        ax.set_yscale("log")
        ax.set_title(title, fontsize=10)
    axes[0].set_ylabel("mean absolute error of an average influence")
    axes[0].legend(fontsize=8)
    low = min(ax.get_ylim()[0] for ax in axes[:2])
    high = max(ax.get_ylim()[1] for ax in axes[:2])
    for ax in axes[:2]:
        ax.set_ylim(low, high)
    for relation, colour in COLOURS.items():
        mine = [c for c in cells if c["relation"] == relation]
        x = [c["epsilon"] for c in mine]
        for reading, style in (("noise", "-o"), ("total", "--s")):
            y = np.array([c["ratio"][reading] for c in mine])
            axes[2].plot(x, y[:, 0], style, color=colour, markersize=4, label=f"{reading}, {relation}")
            axes[2].fill_between(x, y[:, 1], y[:, 2], color=colour, alpha=0.13, linewidth=0)
        axes[2].plot(AIM, TARGETS[relation], "*", color=colour, markersize=14, markeredgecolor="white", zorder=5)
    mine = [c for c in cells if PAIRS in c]
    y = [ratio(c, "total", PAIRS)[0] for c in mine]
    axes[2].plot([c["epsilon"] for c in mine], y, "--s", color=PURPLE, markersize=4, label="total, pairs, our noise")
    axes[2].axhline(1, color=GREY, linewidth=0.8)
    axes[2].set_yscale("log")
    axes[2].set_yticks(RATIOS, [f"{r:g}" for r in RATIOS])
    axes[2].minorticks_off()
    axes[2].set_title("ours / paper's mechanism (stars: targets)", fontsize=10)
    axes[2].legend(fontsize=8)
    for ax in axes:
        _by_epsilon(ax)
    return figure


def _errors(ax: Axes, cells: Sequence[dict[str, Any]], side: str, reading: str, colour: str, label: str) -> None:
    x = [c["epsilon"] for c in cells]
    ax.plot(x, [np.mean(c[side][reading]) for c in cells], "-o", color=colour, label=label, markersize=4)
    ends = np.array([np.quantile(c[side][reading], [0.1, 0.9]) for c in cells])
    ax.fill_between(x, ends[:, 0], ends[:, 1], color=colour, alpha=0.13, linewidth=0)


def _by_epsilon(ax: Axes) -> None:
    ax.set_xscale("log")
    ax.set_xlabel("epsilon, marginals included")
    ax.grid(alpha=0.25)


def models(five: dict[str, Any]) -> Figure:
    """Private influences of all features in all classifiers, on the average and on the disparity of women."""
    kinds = list(five)
    weight = {name: np.mean([five[k]["average"][name]["exact"] for k in kinds]) for name in five[kinds[0]]["average"]}
    names = sorted(weight, key=lambda name: -weight[name])
    figure = Figure(figsize=(13.5, 5.6), layout="constrained")
    for ax, quantity in zip(figure.subplots(1, 2), ("average", "disparity"), strict=True):
        private = np.array([[five[k][quantity][name]["private"] for k in kinds] for name in names])
        exact = np.array([[five[k][quantity][name]["exact"] for k in kinds] for name in names])
        most = np.abs(exact).max()
        norm = TwoSlopeNorm(0, -most, most)
        ax.imshow(private, cmap="RdBu_r" if quantity == "disparity" else "PuOr_r", norm=norm, aspect="auto")
        for i, j in np.ndindex(*private.shape):
            dark = abs(private[i, j]) > 0.62 * most
            ink = "white" if dark else "black"
            ax.text(j, i - 0.13, f"{100 * private[i, j]:.1f}", ha="center", va="center", fontsize=9, color=ink)
            ax.text(
                j, i + 0.27, f"{100 * exact[i, j]:.1f}", ha="center", va="center", fontsize=6.5, color=ink, alpha=0.75
            )
        ax.set_xticks(range(len(kinds)), [k.replace(" ", "\n", 1) for k in kinds], fontsize=8)
        ax.set_yticks(range(len(names)), names, fontsize=9)
        ax.tick_params(length=0)
        words = {
            "average": "average influence: outcomes that change, of 100",
            "disparity": "influence on the difference between women and men, in points of 100",
        }
        ax.set_title(words[quantity], fontsize=10, loc="left")
    figure.supxlabel(
        "large: private at epsilon 1 for each column, marginals included; small: without noise", fontsize=8
    )
    return figure


def discrimination(content: dict[str, Any]) -> Figure:
    """Fig. 3a."""
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    ax = figure.subplots()
    lines = content["lines"]
    f = [line["f"] for line in lines]
    shown = {"sex": ORANGE, "marital-status": BLUE, "zip": GREEN, "relationship": GREY}
    for name, colour in shown.items():
        y = np.array([line["private"][name] for line in lines])
        ends = np.array([line["interval"][name] for line in lines])
        ax.errorbar(f, y, np.abs(ends.T - y), fmt="o", color=colour, markersize=4, capsize=2, label=name)
        ax.plot(f, [line["before noise"][name] for line in lines], "-", color=colour, linewidth=1, alpha=0.7)
    ax.set_xlabel("share f of the ZIP codes in which women are always decided against")
    ax.set_ylabel("average influence")
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_title("Artificial discrimination: private at epsilon 1 each (lines: before noise)", fontsize=10, loc="left")
    ax.set_ylim(0, None)
    ax.grid(alpha=0.25)
    ax.legend(fontsize=8, ncols=2)
    return figure


def person(report: Any, content: dict[str, Any]) -> Figure:
    """The product's own picture, with Shapley values by the exact marginals on top."""
    figure = Figure(figsize=(8.4, 5.4), layout="constrained")
    ax = report.plot(figure.add_subplot())
    order = report.influence.order
    exact = [content["influences"][report.features[i]]["by exact marginals"] for i in reversed(order)]
    ax.plot(
        exact, range(len(exact)), "D", color="black", markerfacecolor="white", markersize=4, zorder=6, label="exact"
    )
    handles, labels = ax.get_legend_handles_labels()
    known = ax.get_legend()
    if known is not None:
        handles = [*known.legend_handles, *handles]
        labels = [*(text.get_text() for text in known.get_texts()), "by exact marginals"]
    ax.legend(handles, labels, fontsize=7, frameon=False, loc="best")
    return figure


def shapley(content: dict[str, Any]) -> Figure:
    """Error against evaluations."""
    figure = Figure(figsize=(12, 4.4), layout="constrained")
    styles = {
        OURS: (BLUE, "-o"),
        PERMUTATION: (ORANGE, "--s"),
        f"{PERMUTATION}{FEW}": ("#e3a777", "--s"),
        KERNEL: ("#5f5f5f", ":^"),
        f"{KERNEL}{FEW}": ("#b0b0b0", ":^"),
    }
    for ax, outcome in zip(figure.subplots(1, 2), ("class", "score"), strict=True):
        for method, (colour, style) in styles.items():
            curve = content[outcome]["curves"][method]
            x, y = ([line[key] for line in curve] for key in ("evaluations", "error"))
            ax.plot(x, y, style, color=colour, markersize=4, label=method)
        ax.axvline(content["exact, evaluations"], color="black", linewidth=0.8)
        ax.annotate("all sets", (content["exact, evaluations"], 0.97), xycoords=("data", "axes fraction"), ha="right",
                    va="top", rotation=90, fontsize=7)  # fmt: skip
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set_title(f"Shapley values of one person, 13 features: {outcome}", fontsize=10)
        ax.set_xlabel("evaluations of the model")
        ax.grid(alpha=0.25)
    figure.axes[0].set_ylabel("mean absolute error against all sets")
    figure.axes[0].legend(fontsize=8)
    return figure
