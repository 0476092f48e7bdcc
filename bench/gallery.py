"""The pictures of docs/gallery.md: private curves beside exact ones, on tables that are public anyway.

One figure a feature: partial dependence above, accumulated effects below, at three epsilons, pure account, replace-one.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import dpexplain as dpx
from bench.effects import Bench
from bench.tables import CASES
from dpexplain.methods.accumulated_effects.result import AccumulatedCurve

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
EPSILONS = (0.5, 2.0, 10.0)
FEATURES = [
    ("adult", "age"),
    ("adult", "capital-gain"),
    ("adult", "native-country"),
    ("bike", "hr"),
]
KINDS = {"pdp": "partial dependence", "ale": "accumulated effect"}
PRIVATE, BAND, EXACT = "#1f4e79", "#9dc3e6", "#c55a11"


def run(options: Namespace) -> None:
    tables: dict[str, Bench] = {}
    for key, feature in FEATURES[-1:] if options.quick else FEATURES:
        bench = tables.setdefault(key, Bench(CASES[key](options.data)))
        figure = Figure(figsize=(13, 6.6), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(
            f"{bench.case.name}: {feature}. One row replaced, pure epsilon, {bench.rows:,} rows (public); "
            "band: 95 % noise interval of each point",
            fontsize=10,
        )
        axes = figure.subplots(len(KINDS), len(EPSILONS), sharey="row", sharex=True)
        for line, kind in zip(axes, KINDS, strict=True):
            bench.prepare(kind, feature)
            for ax, epsilon in zip(line, EPSILONS, strict=True):
                curve = bench.release(kind, feature, epsilon, {})
                _draw(ax, curve, bench.reference(kind, feature))
                if isinstance(curve, AccumulatedCurve) and curve.axes[0].ordered:
                    ax.plot(curve.axes[0].points, _same_bins(bench, curve), ":", color=EXACT, label="exact, same bins")
                ax.set_title(f"{KINDS[kind]}, epsilon {epsilon:g}", fontsize=9, loc="left")
            _frame(line, bench.reference(kind, feature)[1])
            bench.model.remembered.forget(feature)
        for ax in axes[:, 0]:
            ax.legend(fontsize=7, frameon=False)
        name = f"gallery-{key}-{feature}.png"
        if not options.quick:
            figure.savefig(PICTURES / name, dpi=75)
        print(f"{'drawn' if options.quick else 'written'}: docs/pictures/{name}")


def _same_bins(bench: Bench, curve: AccumulatedCurve) -> np.ndarray:
    """The exact curve on the bins of a release."""
    feature, points = curve.feature, np.asarray(curve.axes[0].points)
    values = bench.model.remembered.rows[feature]
    place = curve.bins.place(values)
    moved = bench.predict(feature, points[place + 1]) - bench.predict(feature, points[place])
    size = len(points) - 1
    means = np.bincount(place, moved, size) / np.maximum(np.bincount(place, minlength=size), 1)
    found = np.concatenate([[0], np.cumsum(means)])
    return found - np.interp(values, points, found).mean()


def _draw(ax: Axes, curve: dpx.results.Curve, exact: tuple[np.ndarray, np.ndarray]) -> None:
    low, high = curve.interval(0.95)
    if curve.axes[0].ordered:
        x = np.asarray(curve.axes[0].points, dtype=float)
        ax.fill_between(x, low, high, color=BAND, alpha=0.5, linewidth=0)
        ax.plot(x, curve.values, "-o", color=PRIVATE, markersize=2.5, linewidth=1.4, label="private")
        ax.plot(*exact, color=EXACT, linewidth=1.0, label="exact")
    else:
        places = np.arange(len(curve.values))
        ax.vlines(places, low, high, color=BAND, linewidth=3)
        ax.plot(places, curve.values, "o", color=PRIVATE, markersize=3.5, label="private")
        ax.plot(places, exact[1], "_", color=EXACT, markersize=7, markeredgewidth=1.6, label="exact")
    ax.grid(alpha=0.2)


def _frame(line: np.ndarray, exact: np.ndarray) -> None:
    """The exact curve in the middle of the picture; a band that is wider than five times its height is cut."""
    height = max(float(np.ptp(exact)), 1e-9)
    low = max(min(ax.get_ylim()[0] for ax in line), float(exact.min()) - 2 * height)
    high = min(max(ax.get_ylim()[1] for ax in line), float(exact.max()) + 2 * height)
    line[0].set_ylim(low, high)
