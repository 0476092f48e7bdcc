"""Pictures of data-flow diagrams."""

from __future__ import annotations

import textwrap

from matplotlib.axes import Axes

from dpexplain.design import DataFlow
from dpexplain.render.picture import BAND, INK, NOTE, new_axes, plain


def plot_dataflow(flow: DataFlow, ax: Axes | None = None) -> Axes:
    """Stages in layers from left to right; those that get noise are filled."""
    ax = new_axes(ax)
    layers: dict[int, list[str]] = {}
    for stage in flow.stages:
        layers.setdefault(flow.layer(stage), []).append(stage)
    places = {
        stage: (column, (len(stages) - 1) / 2 - line)
        for column, stages in layers.items()
        for line, stage in enumerate(stages)
    }
    boxes = {}
    for stage, (x, y) in places.items():
        text = plain(textwrap.fill(f"{stage}: {flow.stages[stage]}", 22))
        box = {"boxstyle": "round,pad=0.5", "facecolor": BAND if stage in flow.noised else "white", "edgecolor": INK}
        boxes[stage] = ax.text(x, y, text, ha="center", va="center", fontsize=8, bbox=box).get_bbox_patch()
    for start, end in flow.edges:
        (x0, y0), (x1, y1) = places[start], places[end]
        around = 0.0 if x1 - x0 <= 1 else 0.3 if y0 + y1 < 0 else -0.3  # past the stages between, above or below them
        ends = {"patchA": boxes[start], "patchB": boxes[end]}
        arrow = {"arrowstyle": "->", "color": NOTE, "connectionstyle": f"arc3,rad={around}", **ends}
        ax.annotate("", (x1, y1), (x0, y0), zorder=0, arrowprops=arrow)
    rows = max(len(stages) for stages in layers.values())
    ax.set_xlim(-0.6, max(layers) + 0.6)
    ax.set_ylim(-rows / 2 - 0.2, rows / 2 + 0.2)
    ax.set_axis_off()
    ax.set_title(plain(flow.name) + (" (filled: noise is added here)" if flow.noised else ""), fontsize=10, loc="left")
    return ax
