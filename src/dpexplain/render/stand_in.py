"""The picture of a stand-in: its columns, as they were released and as synthetic rows have them, and its pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpexplain.columns import labels as labels_of
from dpexplain.methods.histogram import nearest_with_total
from dpexplain.render import picture as draw
from dpexplain.render.marks import mark
from dpexplain.render.picture import INK, LEVEL, NOTE, name_lines, plain
from dpexplain.render.plots import STRIP, _dots, values_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpexplain.maths.grids import Partition
    from dpexplain.methods.local_sketch.rows import RowSketch
    from dpexplain.methods.stand_in.result import StandIn


def plot_stand_in(stand_in: StandIn, ax: Axes | None = None) -> Axes:
    """For each column the share of synthetic rows in each cell as bars, and the released share as a point."""
    ax, marginals = draw.new_axes(ax), stand_in.marginals
    released = np.split(stand_in.values, np.cumsum([p.size for p in stand_in.partitions])[:-1])
    strips = list(zip(stand_in.partitions, stand_in.joint.shares, released, strict=True))
    for line, (partition, shares, counts) in enumerate(reversed(strips)):
        known = nearest_with_total(counts, 1.0) if counts.sum() <= 0 else counts / counts.sum()
        top = max(float(shares.max()), float(known.max()))
        x = (np.arange(partition.size) + 0.5) / partition.size
        ax.bar(x, STRIP * shares / top, 0.9 / len(x), line, color=INK, linewidth=0)
        names = labels_of(stand_in.receipt.domain, partition.feature, partition.labels)
        where = [f"{partition.feature} {name}" for name in names]
        words = [[name, f"{share:.3g} of synthetic rows", f"released {own:.3g}"]
                 for name, share, own in zip(where, shares, known, strict=True)]  # fmt: skip
        mark(ax, x, line + STRIP * shares / top, words if marginals is not None else [said[:2] for said in words])
        if marginals is not None:
            ax.plot(x, line + STRIP * known / top, ".", color=NOTE, markersize=3)
        ax.plot([0, 1], [line, line], color=NOTE, linewidth=0.6)
        for place, value, side in _below(partition):
            ax.text(place, line - 0.04, plain(value), fontsize=6.5, color=NOTE, va="top", ha=side)
    names = [name_lines(plain(stand_in.receipt.called(name))) for name in reversed(stand_in.features)]
    ax.set_yticks(np.arange(len(names)) + 0.3, names, fontsize=8)
    ax.set_xticks([])
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.set_xlim(-0.01, 1.05)
    ax.set_ylim(-0.35, len(names) - 0.2)
    shown, note = "Synthetic rows of the declared domain (bars)", "Nothing of the table was read."
    if marginals is not None:
        half = marginals.part("counts")[1].halfwidth(LEVEL)
        shown = "Synthetic rows of the stand-in (bars) and released shares (points)"
        note = f"{LEVEL:.0%} noise interval of each count: ±{half:.3g} rows."
    draw.finish(ax, shown, grid="", legend="")
    draw.guarantee_note(ax, stand_in, note)
    return ax


def plot_row_sketch(sketch: RowSketch, ax: Axes | None = None) -> Axes:
    """The share of rows in each tenth of the model's output range, with its likely interval."""
    ax, frame = draw.new_axes(ax), sketch.to_frame()
    ends = zip(frame["prediction_from"], frame["prediction_to"], strict=True)
    _dots(ax, sketch, [f"{low:.4g} to {high:.4g}" for low, high in ends], f"{LEVEL:.0%} interval of each", "likely")
    draw.finish(ax, sketch.title, x="share of rows", y="prediction", grid="x")
    draw.guarantee_note(ax, sketch)
    return ax


def _below(partition: Partition) -> list[tuple[float, str, str]]:
    """What stands under a strip. Cells may be finer at the low end: then their edges are written where they are."""
    widths = np.diff(partition.edges or ())
    if not len(widths) or np.allclose(widths[:-1], widths[0]):
        return values_below(partition)
    edges, size = np.asarray(partition.edges), partition.size
    places = [0, len(edges) // 4, len(edges) // 2, 3 * len(edges) // 4, len(edges) - 1]
    places = places[::2] if draw.NARROW.get() else places
    sides = ["left", *["center"] * (len(places) - 2), "right"]
    return [(i / size, f"{edges[i]:,.4g}", side) for i, side in zip(places, sides, strict=True)]
