"""The picture of a stand-in: its columns, as they were released and as synthetic rows have them, and its pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpexplain.methods.histogram import nearest_with_total
from dpexplain.render import picture as draw
from dpexplain.render.picture import INK, LEVEL, NOTE, name_lines, plain
from dpexplain.render.plots import STRIP, values_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpexplain.maths.grids import Partition
    from dpexplain.methods.stand_in.result import StandIn


def plot_stand_in(stand_in: StandIn, ax: Axes | None = None) -> Axes:
    """For each column the share of synthetic rows in each cell as bars, and the released share as a point."""
    ax = draw.new_axes(ax)
    released = np.split(stand_in.values, np.cumsum([p.size for p in stand_in.partitions])[:-1])
    strips = list(zip(stand_in.partitions, stand_in.joint.shares, released, strict=True))
    for line, (partition, shares, counts) in enumerate(reversed(strips)):
        known = nearest_with_total(counts, 1.0) if counts.sum() <= 0 else counts / counts.sum()
        top = max(float(shares.max()), float(known.max()))
        x = (np.arange(partition.size) + 0.5) / partition.size
        ax.bar(x, STRIP * shares / top, 0.9 / len(x), line, color=INK, linewidth=0)
        ax.plot(x, line + STRIP * known / top, ".", color=NOTE, markersize=3)
        ax.plot([0, 1], [line, line], color=NOTE, linewidth=0.6)
        for place, value, side in _below(partition):
            ax.text(place, line - 0.04, plain(value), fontsize=6.5, color=NOTE, va="top", ha=side)
    names = [name_lines(plain(name)) for name in reversed(stand_in.features)]
    ax.set_yticks(np.arange(len(names)) + 0.3, names, fontsize=8)
    ax.set_xticks([])
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.set_xlim(-0.01, 1.05)
    ax.set_ylim(-0.35, len(names) - 0.2)
    draw.finish(ax, "Synthetic rows of the stand-in (bars) and released shares (points)", grid="", legend="")
    half = stand_in.marginals.part("counts")[1].halfwidth(LEVEL)
    draw.guarantee_note(ax, stand_in, f"{LEVEL:.0%} noise interval of each count: ±{half:.3g} rows.")
    return ax


def _below(partition: Partition) -> list[tuple[float, str, str]]:
    """What stands under a strip. Cells may be finer at the low end: then their edges are written where they are."""
    widths = np.diff(partition.edges or ())
    if not len(widths) or np.allclose(widths[:-1], widths[0]):
        return values_below(partition)
    edges, size = np.asarray(partition.edges), partition.size
    places = [0, len(edges) // 4, len(edges) // 2, 3 * len(edges) // 4, len(edges) - 1]
    sides = ["left", "center", "center", "center", "right"]
    return [(i / size, f"{edges[i]:,.4g}", side) for i, side in zip(places, sides, strict=True)]
