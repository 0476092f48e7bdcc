"""Pictures of influences: bars from zero with their intervals, the largest at the top.

What raises outcomes is orange, what lowers them blue; a change without a direction is blue as well. The side of zero
says the same. An influence whose interval contains zero is drawn faint.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from dpexplain.render.attributions import FAINT, LOWERS, RAISES
from dpexplain.render.picture import name_lines
from dpexplain.render.plots import LEVEL, NOTE, _note, new_axes, plain
from dpexplain.results.influence import Influence

BARS = 25  # of a picture; the files have all of them
DOUBT = "faint: chance could explain it"


def plot_influence(influence: Influence, ax: Axes | None = None) -> Axes:
    """The largest influences as bars, the largest at the top, each with its interval."""
    ax = new_axes(ax)
    shown, (low, high) = influence.order[:BARS], influence.interval(LEVEL)
    signed = bool((low < 0).any())
    for line, i in enumerate(reversed(shown)):
        value, sure = float(influence.values[i]), bool(influence.sure[i])
        colour = RAISES if signed and value >= 0 else LOWERS
        ax.barh(line, value, height=0.62, color=colour, alpha=1 if sure else FAINT)
        for width, ink in [(2.4, "white"), (1.1, "black")] if sure else [(1.1, NOTE)]:  # also on dark bars
            ax.plot(
                [low[i], high[i]], [line, line], "|-", color=ink, linewidth=width, markersize=5, markeredgewidth=width
            )
    ax.axvline(0, color="#9a9a9a", linewidth=0.8)
    names = [name_lines(plain(influence.items[i])) for i in reversed(shown)]
    ax.set_yticks(np.arange(len(names)), names, fontsize=8)
    ax.tick_params(axis="x", labelsize=8)
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.margins(x=0.08)
    ax.set_xlabel(influence.unit_words, fontsize=8)
    if influence.is_class:
        ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    ax.grid(axis="x", alpha=0.25)
    ax.set_axisbelow(True)
    _legend(ax, signed, all(influence.sure[i] for i in shown))
    ax.set_title(plain(influence.title), fontsize=10, loc="left")
    left_out = len(influence.items) - len(shown)
    before = f"{left_out} smaller influences are not shown. " if left_out else ""
    _note(ax, influence, f"{before}{influence.caveat} " if influence.caveat else before, width=96)
    return ax


def _legend(ax: Axes, signed: bool, sure: bool) -> None:
    entries: list[Patch | Line2D] = []
    if signed:
        entries += [Patch(color=RAISES, label="raises outcomes"), Patch(color=LOWERS, label="lowers outcomes")]
    if not sure:
        entries.append(Patch(color=NOTE, alpha=FAINT, label=DOUBT))
    entries.append(Line2D([], [], color=NOTE, marker="|", markersize=5, linewidth=1.1, label=f"{LEVEL:.0%} interval"))
    ax.legend(handles=entries, fontsize=7, frameon=False, loc="best")
