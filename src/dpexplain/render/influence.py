"""Pictures of influences: bars from zero with their intervals, the largest at the top.

What raises outcomes is orange, what lowers them blue; a change without a direction is blue as well. The side of zero
says the same. An influence whose interval contains zero is drawn faint. Above the influences on a disparity stand the
rates of both groups.
"""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from dpexplain.methods.influence.disparity import Disparity
from dpexplain.methods.influence.result import Influence, TableInfluence
from dpexplain.render.attributions import FAINT, LOWERS, RAISES
from dpexplain.render.picture import name_lines
from dpexplain.render.plots import INK, LEVEL, NOTE, _label, _note, new_axes, plain

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
    rates = influence.disparity if isinstance(influence, TableInfluence) else None
    above = ax if rates is None else _rates(ax, rates)
    above.set_title(plain(influence.title), fontsize=10, loc="left")
    left_out = len(influence.items) - len(shown)
    before = f"{left_out} smaller influences are not shown. " if left_out else ""
    _note(ax, influence, f"{before}{influence.caveat} " if influence.caveat else before, width=96)
    return ax


def _rates(ax: Axes, rates: Disparity) -> Axes:
    """Above the bars: both rates with their intervals, how they differ, and what is counted."""
    edge: Any = ax.transAxes  # an affine one
    inches = ax.figure.dpi_scale_trans + ScaledTranslation(0, 1, edge)  # from the upper edge of the bars
    above = ax.inset_axes((0, 0.78, 1, 0.5), transform=blended_transform_factory(edge, inches))
    low, high = rates.interval(LEVEL)
    for line, (value, a, b) in enumerate(zip(rates.rates, low, high, strict=True)):
        above.plot([a, b], [1 - line] * 2, "|-", color=NOTE, linewidth=1.1, markersize=5)
        above.plot(value, 1 - line, "o" if rates.conclusive else "", color=INK, markersize=5)
    above.set_yticks([1, 0], [_label(f"where {rates.group}", 36), "all others"], fontsize=8)
    above.set_ylim(-0.6, 1.6)
    above.tick_params(axis="x", labelsize=8)
    above.margins(x=0.08)
    if rates.is_class:
        above.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    above.grid(axis="x", alpha=0.25)
    above.set_axisbelow(True)
    words = " ".join(rates.sentences[1:]) if rates.conclusive else rates.sentences[0]
    above.set_xlabel(plain(textwrap.fill(f"{rates.spec.outcome.rate}. {words}", 104)), fontsize=7)
    return above


def _legend(ax: Axes, signed: bool, sure: bool) -> None:
    entries: list[Patch | Line2D] = []
    if signed:
        entries += [Patch(color=RAISES, label="raises outcomes"), Patch(color=LOWERS, label="lowers outcomes")]
    if not sure:
        entries.append(Patch(color=NOTE, alpha=FAINT, label=DOUBT))
    entries.append(Line2D([], [], color=NOTE, marker="|", markersize=5, linewidth=1.1, label=f"{LEVEL:.0%} interval"))
    ax.legend(handles=entries, fontsize=7, frameon=False, loc="best")
