"""Pictures of influences: bars from zero with their intervals, the largest at the top.

What raises outcomes is orange, what lowers them blue; a change without a direction is blue as well. The side of zero
says the same. An influence whose interval contains zero is drawn faint. Above the influences on a disparity stand the
rates of both groups.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from dpexplain.render import picture as draw
from dpexplain.render.marks import in_words, mark
from dpexplain.render.picture import FAINT, INK, LEVEL, LOWERS, NOTE, RAISES, name_lines, plain

if TYPE_CHECKING:
    from dpexplain.methods.influence.disparity import Disparity
    from dpexplain.methods.influence.result import Influence

DOUBT = "faint: chance could explain it"


def plot_influence(influence: Influence, ax: Axes | None = None) -> Axes:
    """The largest influences as bars, the largest at the top, each with its interval."""
    ax = draw.new_axes(ax)
    shown, (low, high) = influence.order[: influence.bars_shown], influence.interval(LEVEL)
    signed = bool((low < 0).any())
    places = draw.names_down(ax, [name_lines(plain(influence.names[i])) for i in shown])
    for line, i in zip(places, shown, strict=True):
        value, sure = float(influence.values[i]), bool(influence.sure[i])
        colour = RAISES if signed and value >= 0 else LOWERS
        ax.barh(line, value, height=0.62, color=colour, alpha=1 if sure else FAINT)
        draw.bar_interval(ax, line, low[i], high[i], sure=sure)
    values, ends, names = influence.values[shown], (low[shown], high[shown]), [influence.names[i] for i in shown]
    mark(ax, values, places, in_words(names, values, ends, name=f"{LEVEL:.0%} interval"), ends, lying=True)
    ax.axvline(0, color="#9a9a9a", linewidth=0.8)
    _outcome_axis(ax, influence.unit_words, influence.is_class)
    faint = "" if all(influence.sure[i] for i in shown) else DOUBT
    directions = ("raises outcomes", "lowers outcomes") if signed else ("", "")
    entries = draw.bar_key(*directions, faint, f"{LEVEL:.0%} interval")
    apart = draw.NARROW.get() and influence.disparity is not None  # the page has the title; rates stand above the bars
    if apart:
        below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.4, -0.16), "ncols": 2}
        ax.legend(handles=entries, fontsize=draw.SMALLEST, frameon=False, columnspacing=1.2, **below)
    else:
        draw.add_key(ax, entries, frameon=False, loc="best")
    above = ax if influence.disparity is None else _rates(ax, influence.disparity)
    (ax if apart else above).set_title(plain(influence.title), fontsize=10, loc="left")
    left_out = len(influence.items) - len(shown)
    before = f"{left_out} smaller influences are not shown." if left_out else ""
    draw.guarantee_note(ax, influence, before, width=96)
    return ax


def _outcome_axis(ax: Axes, words: str, is_class: bool, size: float = 8) -> None:
    """The axis along which outcomes are counted; in per cent for a class."""
    ax.tick_params(axis="x", labelsize=8)
    ax.margins(x=0.08)
    if is_class:
        ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    ax.grid(axis="x", alpha=0.25)
    ax.set_axisbelow(True)
    ax.set_xlabel(words, fontsize=size)


def _rates(ax: Axes, rates: Disparity) -> Axes:
    """Above the bars: both rates with their intervals, how they differ, and what is counted."""
    edge: Any = ax.transAxes  # an affine one
    inches = ax.figure.dpi_scale_trans + ScaledTranslation(0, 1, edge)  # from the upper edge of the bars
    above = ax.inset_axes((0, 0.78, 1, 0.5), transform=blended_transform_factory(edge, inches))
    low, high = rates.interval(LEVEL)
    for line, (value, a, b) in enumerate(zip(rates.rates, low, high, strict=True)):
        above.plot([a, b], [1 - line] * 2, "|-", color=NOTE, linewidth=1.1, markersize=5)
        above.plot(value, 1 - line, "o" if rates.conclusive else "", color=INK, markersize=5)
    where = f"where {rates.group}"
    said = in_words([where, "all others"], rates.rates, (low, high), kind="rate")
    mark(above, rates.rates, [1, 0], said, (low, high), lying=True)
    above.set_yticks([1, 0], [plain(where) if len(where) <= 36 else "this group", "all others"], fontsize=8)
    above.set_ylim(-0.6, 1.6)
    words = " ".join(rates.sentences[1:]) if rates.conclusive else rates.sentences[0]
    if draw.NARROW.get():  # the page has these words
        _outcome_axis(above, plain(rates.spec.outcome.rate), rates.is_class, size=draw.SMALLEST)
        above.tick_params(labelsize=draw.SMALLEST)
        return above
    _outcome_axis(above, plain(textwrap.fill(f"{rates.spec.outcome.rate}. {words}", 104)), rates.is_class, size=7)
    return above
