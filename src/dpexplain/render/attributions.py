"""Pictures of attributions: waterfall, force line, heat map of pixels, coloured words.

What raises the prediction is orange, what lowers it blue, and never by colour alone: a direction, a sign or a mark says
it too. A contribution whose noise interval contains zero is drawn faint.
"""

from __future__ import annotations

import io
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgb
from matplotlib.patches import Polygon
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from dpexplain.render import picture as draw
from dpexplain.render.marks import in_words, mark
from dpexplain.render.picture import FAINT, LEVEL, LOWERS, NOTE, RAISES, name_lines, plain, short_label

if TYPE_CHECKING:
    from dpexplain.methods.attributions import Attribution, Push

DIVERGING = LinearSegmentedColormap.from_list("lowers-raises", ["#123a5e", "#4f8fc4", "#f7f7f7", "#e08a4a", "#8f3a05"])
LEFT_OUT: dict[str, Any] = {"facecolor": "white", "edgecolor": NOTE, "hatch": "////", "linewidth": 0.8}
FORCE_LABELS = 8
ROUNDING = 1e-12  # of the largest number in a picture


def plot_waterfall(attribution: Attribution, ax: Axes | None = None) -> Axes:
    """From the base, at the top, to the value at the record, a bar for each of the largest contributions."""
    ax = draw.new_axes(ax)
    pushes, left_out = _all_pushes(attribution), attribution.left_out
    ends = attribution.base + np.cumsum([0.0, *(push.value for push in pushes)])
    least = ROUNDING * max([abs(attribution.base), *(abs(push.value) for push in pushes)])
    for i, (push, start, end) in enumerate(zip(pushes, ends[:-1], ends[1:], strict=True)):
        line = len(pushes) - i
        look = LEFT_OUT if push is left_out else {"color": _colour(push), "alpha": 1 if push.sure else FAINT}
        ax.barh(line, push.value, left=start, height=0.62, **look)
        draw.bar_interval(ax, line, start + push.low, start + push.high, sure=push.sure)
        ax.plot([end, end], [line + 0.31, line - 1.31 if i + 1 < len(pushes) else 0], color="#9a9a9a", linewidth=0.7)
        _number(ax, push, start, line, least)
        words = in_words([push.name], [push.value], ([push.low], [push.high]), kind="adds", name=_interval(attribution))
        mark(ax, end, line, words, ([start + push.low], [start + push.high]), lying=True)
    ax.plot([ends[0]] * 2, [len(pushes) + 1, len(pushes) + 0.31], color="#9a9a9a", linewidth=0.7)
    ax.plot([ends[0], attribution.prediction], [len(pushes) + 1, 0], "D", color="black", markersize=4.5)
    for place, value in ((len(pushes) + 1, ends[0]), (0, attribution.prediction)):
        ax.annotate(f"{value:.3g}", (value, place), (6, 0), textcoords="offset points", va="center", fontsize=7.5)
    names = [attribution.base_name, *(name_lines(plain(push.name)) for push in pushes), attribution.end_name]
    draw.names_down(ax, names)
    lowest = -0.7 if draw.NARROW.get() else -1.6  # room for the legend below the bars and their numbers
    ax.set_ylim(lowest, len(names) - 0.3)
    ax.use_sticky_edges = False  # room for the numbers beside bars that end at the edge
    ax.margins(x=0.19)
    ax.set_xlabel("prediction")
    ax.grid(axis="x", alpha=0.25)
    ax.set_axisbelow(True)
    entries = draw.bar_key("raises", "lowers", _faint(attribution, pushes), _interval(attribution))
    draw.add_key(ax, entries, frameon=False, loc="lower center", ncols=len(entries), columnspacing=1.2)
    _headline(ax, attribution, width=84)
    return ax


def _all_pushes(attribution: Attribution, *most: int) -> list[Push]:
    """The largest contributions, all others together, and what a line leaves out."""
    left_out = attribution.left_out
    return [*attribution.pushes(*most), *([left_out] if left_out else [])]


def _faint(attribution: Attribution, pushes: list[Push]) -> str:
    """What faint bars are, in words, where there are some."""
    return "" if all(push.sure for push in pushes) else f"faint: {attribution.unsure_words}"


def _number(ax: Axes, push: Push, start: float, line: float, least: float) -> None:
    """The signed contribution beyond the bar and its interval; below `least` it is an error of rounding, so zero."""
    up = push.value >= 0
    end = start + (max(push.value, push.high) if up else min(push.value, push.low))
    text = f"{push.value:+.3g}" if abs(push.value) > least else "0"
    ax.annotate(
        text, (end, line), (4 if up else -4, 0), textcoords="offset points", va="center",
        ha="left" if up else "right", fontsize=7.5, color="black" if push.sure else NOTE,
    )  # fmt: skip


def plot_force(attribution: Attribution, ax: Axes | None = None) -> Axes:
    """One line: what raises the prediction pushes from the left, what lowers it from the right; they meet at it."""
    ax = draw.new_axes(ax)
    pushes, left_out = _all_pushes(attribution, FORCE_LABELS), attribution.left_out
    value, base = attribution.prediction, attribution.base
    span = max(sum(abs(push.value) for push in pushes), 1e-12)
    places: list[tuple[Push, float]] = []
    for sign in (1, -1):
        end = value
        for push in (p for p in pushes if np.sign(p.value) == sign):
            start = end - push.value
            _arrow(ax, push, start, end, tip=min(0.012 * span, abs(push.value) / 2), outlined=push is left_out)
            places.append((push, (start + end) / 2))
            end = start
    _force_labels(ax, places)
    ax.plot([value, value], [-0.62, 0.7], color="black", linewidth=1.4)
    ax.plot([base, base], [-0.5, 1.35], color=NOTE, linewidth=1, linestyle=":")
    ends = ((attribution.end_name, value, 0.7, "black"), (attribution.base_name, base, 1.35, NOTE))
    for name, at, top, colour in ends:
        words = f"{name}: {at:.3g}"
        ax.annotate(words, (at, top), (0, 3), textcoords="offset points", ha="center", fontsize=8, color=colour)
    ax.set_ylim(-4.2, 2.2)
    ax.set_yticks([])
    ax.margins(x=0.06)
    ax.set_xlabel("prediction")
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)
    entries = draw.bar_key("raises", "lowers", _faint(attribution, pushes), "")
    draw.add_key(ax, entries, frameon=False, loc="lower right")
    _headline(ax, attribution, f"Behind ±: half of the {_interval(attribution)}.")
    return ax


def _arrow(ax: Axes, push: Push, start: float, end: float, tip: float, outlined: bool) -> None:
    """A bar from `start` to `end` with a point at its end and a notch at its start."""
    tip = np.copysign(tip, push.value)
    corners = [(start, 0.5), (end - tip, 0.5), (end, 0), (end - tip, -0.5), (start, -0.5), (start + tip, 0)]
    filled = {"facecolor": _colour(push), "edgecolor": "white", "linewidth": 0.8, "alpha": 1 if push.sure else FAINT}
    ax.add_patch(Polygon(corners, **(LEFT_OUT if outlined else filled)))
    ax.update_datalim(corners)
    ax.autoscale_view()


def _force_labels(ax: Axes, places: list[tuple[Push, float]]) -> None:
    """Names under the bars, in the same order from left to right, far enough from each other to be read."""
    places = sorted(places, key=lambda place: place[1])
    left, right = ax.dataLim.x0, ax.dataLim.x1
    wanted = np.array([x for _, x in places])
    gap = (right - left) / max(FORCE_LABELS + 1, 1)
    spots = _apart(wanted, gap)
    for (push, x), spot in zip(places, spots, strict=True):
        ax.plot([x, x, spot], [-0.5, -0.75, -1.15], color="#9a9a9a", linewidth=0.7)
        words = f"{short_label(push.name, 26)}\n{push.value:+.2g} ± {(push.high - push.low) / 2:.2g}"
        ax.text(
            spot, -1.2, words, rotation=35, ha="right", va="top", rotation_mode="anchor", fontsize=7.5,
            color="black" if push.sure else NOTE,
        )  # fmt: skip


def _apart(wanted: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    """The nearest places, in the least-squares sense, at least `gap` from each other: isotonic regression."""
    steps = np.arange(len(wanted)) * gap
    blocks: list[list[float]] = []  # [mean, size]
    for x in wanted - steps:
        blocks.append([float(x), 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, size = blocks.pop()
            blocks[-1] = [(blocks[-1][0] * blocks[-1][1] + mean * size) / (blocks[-1][1] + size), blocks[-1][1] + size]
    means: NDArray[np.float64] = np.repeat([mean for mean, _ in blocks], [int(size) for _, size in blocks])
    return means + steps


def plot_heatmap(
    attribution: Attribution,
    values: NDArray[np.float64],
    sure: NDArray[np.bool_],
    image: NDArray[np.float64] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Pixels by their contributions, zero in the middle of the colours; over a grey image where there is one."""
    ax = draw.new_axes(ax)
    most = max(float(np.abs(values).max()), 1e-300)
    extent = (0.0, float(values.shape[1]), float(values.shape[0]), 0.0)
    opacity = np.where(sure, 1.0, FAINT)
    if image is not None:
        ax.imshow(image, cmap="gray", extent=extent, interpolation="nearest")
        opacity = opacity * (0.15 + 0.7 * np.abs(values) / most)
    colours = ScalarMappable(Normalize(-most, most), DIVERGING)
    ax.imshow(colours.to_rgba(values), alpha=opacity, extent=extent, interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    bar = ax.figure.colorbar(colours, ax=ax, shrink=0.85)
    bar.set_label("contribution: lowers (blue), raises (orange)", fontsize=8)
    bar.ax.tick_params(labelsize=7.5)
    low, high = attribution.interval(LEVEL)
    half = f"{_interval(attribution)} pixel: at most ±{float((high - low).max()) / 2:.3g}. "
    doubt = f"{int((~sure).sum()):,} of {sure.size:,} pixels are faint: the noise could explain them."
    _headline(ax, attribution, half + doubt, width=84)
    return ax


def _headline(ax: Axes, attribution: Attribution, before: str = "", width: int = 104) -> None:
    """What is drawn above, the guarantee and what it leaves out below."""
    first = [text for text in (attribution.missed, attribution.compared) if text]
    said = [line for text in first for line in textwrap.wrap(plain(text), 96)]
    ax.set_title(plain(attribution.title), fontsize=11, loc="left", pad=8 + 10 * len(said))
    above = ax.annotate(
        "\n".join(said), (0, 1), xycoords="axes fraction", xytext=(0, 5), textcoords="offset points", va="bottom",
        fontsize=7.5, annotation_clip=False,
    )  # fmt: skip
    draw.SAID[above] = ""  # the caveat says it too
    draw.guarantee_note(ax, attribution, before, width)


def _colour(push: Push) -> str:
    return RAISES if push.value >= 0 else LOWERS


# Words --------------------------------------------------------------------------------------------------------------

MARKS = {(True, True): "▲", (False, True): "▼", (True, False): "△", (False, False): "▽"}  # (raises, sure)
LEGEND = "▲ raises the prediction, ▼ lowers it; △ ▽ the noise could explain it."
LINES = "A line above raises the prediction, below lowers it; dotted: the noise could explain it."


@dataclass(frozen=True)
class Highlight:
    """A text in pieces, each with its contribution or none. A notebook shows colours, `print` shows marks."""

    attribution: Attribution
    pieces: tuple[tuple[str, Push | None], ...]
    between: str = ""

    @property
    def html(self) -> str:
        """One paragraph and its guarantee; every text is escaped, nothing is loaded."""
        from dpexplain.render.html import fill

        most = max((abs(push.value) for _, push in self.pieces if push), default=0.0)
        name = self.attribution.interval_name
        words = [(text, *(_look(push, most, name) if push else ("", ""))) for text, push in self.pieces]
        note = f"{LINES} {self.attribution.caveat} {self.attribution.receipt.guarantee}"
        return fill("highlight.html", words=words, between=self.between, note=note, colour=NOTE)

    def _repr_html_(self) -> str:
        return self.html

    def __rich__(self) -> Text:
        text = Text()
        for place, (piece, push) in enumerate(self.pieces):
            if place and self.between:
                text.append(self.between)
            text.append(_marked(piece, push), style=_style(push))
        return text.append(f"\n{LEGEND} {self.attribution.caveat}", style="dim")

    @property
    def ansi(self) -> str:
        """For a terminal, with colours."""
        buffer = io.StringIO()
        terminal = Console(file=buffer, force_terminal=True, color_system="truecolor", highlight=False, width=100)
        terminal.print(self)
        return buffer.getvalue()

    def __str__(self) -> str:
        return f"{self.__rich__().plain}\n{self.attribution.receipt.short_guarantee}"


def _look(push: Push, most: float, name: str) -> tuple[str, str]:
    """A word's style and title: a line above it if it raises, below if it lowers, dotted if the noise could do it."""
    colour, depth = _colour(push), 0.12 + 0.45 * abs(push.value) / max(most, 1e-300)
    red, green, blue = (round(255 * part) for part in to_rgb(colour))
    side, line = "top" if push.value >= 0 else "bottom", "solid" if push.sure else "dotted"
    return (
        f"background:rgba({red},{green},{blue},{depth if push.sure else depth * FAINT:.2f});"
        f"border-{side}:2px {line} {colour};border-radius:2px;padding:0 .1em",
        f"{push.name}: {push.value:+.3g}, {LEVEL:.0%} {name} {push.low:+.3g} to {push.high:+.3g}",
    )


def _marked(text: str, push: Push | None) -> str:
    return text if push is None else MARKS[push.value >= 0, push.sure] + text


def _style(push: Push | None) -> str:
    if push is None:
        return ""
    return ("bold " if push.sure else "dim ") + ("#e08a4a" if push.value >= 0 else "#5fa3dc")


def _interval(attribution: Attribution) -> str:
    return f"{LEVEL:.0%} {attribution.interval_name} of each"
