"""What all pictures share: colours, names, notes, intervals, and a figure in which every text has its place.

Names of features and categories, titles and guarantees are as long as people make them. Where they end is known only
when they are laid out, so the figure is laid out, texts that would cross an edge are moved, wrapped or given a larger
figure, and it is laid out again.
"""

from __future__ import annotations

import itertools
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation, Text

if TYPE_CHECKING:
    from dpexplain.methods.result import Result

INK, BAND, RUG, NOTE = "#1f4e79", "#9dc3e6", "#b7b7b7", "#5f5f5f"
RAISES, LOWERS, FAINT = "#c55a11", INK, 0.3
LEVEL = 0.95
NAME, SHORT_NAME = 30, 20  # letters of a name along the y axis before it gets a second line; in a narrow picture
SMALLEST = 8.5  # points of a letter in a narrow picture
NARROW: ContextVar[bool] = ContextVar("narrow", default=False)
LONGEST = 110  # letters of a name
ACROSS = 60  # letters of all names along the x axis before they are turned
LEAST = (2.6, 1.3)  # inches of a plot, between its names and its note
LARGEST = 14.0  # inches of a figure that grew
PAD = 10.0  # pixels
ROUNDS = 8


class Picture(Figure):
    """A figure that fits its texts before it is saved."""

    def __init__(self, *size: Any, **options: Any) -> None:
        super().__init__(*size, **options)
        self._words: dict[Text, str] = {}  # before they were wrapped

    def savefig(self, *where: Any, **options: Any) -> None:
        if not self._words:
            self.fit()
        super().savefig(*where, **options)

    def fit(self) -> None:
        """Lay out, and lay out again until nothing changes."""
        plots = [ax for ax in self.axes if ax.get_subplotspec() is not None and ax.axison]
        for ax in plots:
            _shorten_names(ax)
            left, right = self._slot(ax)
            self._wrap(_title(ax), right - left - 2 * PAD)  # its middle counts in the layout
        for note in self._notes():
            note.set_in_layout(False)  # a wide one would push the plot aside
        for _ in range(ROUNDS):
            if not self._laid_out():
                continue
            changed = [self._fit_axes(ax) for ax in self.axes if ax.get_subplotspec() is not None]
            for ax in self.axes:  # those of colour bars too
                self._wrap(ax.yaxis.label, 1.1 * ax.get_window_extent().height, upright=True)
            for note in self._notes():
                note.set_in_layout(True)
            if self._laid_out() and not any([*changed, self._grow(plots)]):
                break

    def _laid_out(self) -> bool:
        """Lay out once; a figure without room for its plots gets larger instead."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.draw_without_rendering()
        if not any("collapsed" in str(warning.message) for warning in said):
            return True
        self.set_size_inches(*np.minimum(1.25 * self.get_size_inches(), 2 * LARGEST))
        return False

    def _notes(self) -> list[Annotation]:
        """The texts under plots."""
        texts = [text for ax in self.axes for text in ax.texts if isinstance(text, Annotation)]
        return [text for text in texts if text.xycoords == "axes fraction" and text.xyann[1] < 0]

    def _fit_axes(self, ax: Axes) -> bool:
        slot, plot = self._slot(ax), ax.get_window_extent()
        before, start = [text.get_text() for text in ax.findobj(Text)], _title(ax).get_position()[0]
        title, room = _title(ax), slot[1] - slot[0] - 2 * PAD
        self._wrap(title, room)
        crosses = plot.x0 + title.get_window_extent().width > slot[1] - PAD
        title.set_x((slot[0] + PAD - plot.x0) / max(plot.width, 1.0) if crosses else 0.0)
        middle = (plot.x0 + plot.x1) / 2
        self._wrap(ax.xaxis.label, 2 * min(middle - slot[0], slot[1] - middle) - PAD)
        for note in self._notes():
            if note.axes is ax:
                under = ax.xaxis.get_tightbbox()
                left, down = slot[0] + PAD - plot.x0, plot.y0 - min(plot.y0, under.y0 if under else plot.y0)
                note.xyann = (72 / self.dpi * left, -72 / self.dpi * (down + PAD))
                crowded = slot[0] > 0 or slot[1] < self.bbox.x1  # a colour bar beside it is room that others lose
                barred = crowded and any(image.colorbar for image in ax.images)
                self._wrap(note, max(plot.x1 - slot[0] - PAD, 0.4 * room) if barred else room, fill=True)
        if not ax.axison:  # a place for words
            for text in ax.texts:
                self._wrap(text, slot[1] - text.get_window_extent().x0 - PAD)
        moved = abs(title.get_position()[0] - start) * plot.width > 1
        return moved or before != [text.get_text() for text in ax.findobj(Text)]

    def _wrap(self, text: Text, room: float, *, upright: bool = False, fill: bool = False) -> None:
        """Break a text into lines that are at most `room` pixels long; with `fill`, also join lines that are short."""
        shown = text.get_text()
        words = self._words.get(text, shown)
        if "".join(words.split()) != "".join(shown.split()):  # it was changed since
            words = shown
        self._words[text] = words

        def length() -> float:
            box = text.get_window_extent()
            return float(box.height if upright else box.width)

        before = length()
        if not shown or (before <= room and not (fill and before < 0.85 * room and "\n" in shown)):
            return
        longest = max(map(len, shown.splitlines()))
        for letters in range(max(8, int(longest * room / max(before, 1.0))), 7, -1):
            text.set_text(_filled(words, letters))
            if length() <= room:
                return

    def _slot(self, ax: Axes) -> tuple[float, float]:
        """The left and the right end of the part of the figure that belongs to a plot, in pixels."""
        place = ax.get_subplotspec()
        assert place is not None
        width = self.bbox.x1 / place.get_gridspec().ncols
        return place.colspan.start * width, place.colspan.stop * width

    def _grow(self, plots: list[Axes]) -> bool:
        """A larger figure where names and notes leave too little of the plots."""
        boxes = [ax.get_window_extent() for ax in plots]
        if not boxes:
            return False
        size = self.get_size_inches()
        lacks = [
            max(0.0, least - min(getattr(box, side) for box in boxes) / self.dpi)
            for least, side in zip(LEAST, ("width", "height"), strict=True)
        ]
        lacks[1] = max(lacks[1], *map(_crowded, plots))
        larger = np.minimum(size + np.array(lacks), np.maximum(size, LARGEST))
        if np.allclose(larger, size, atol=0.01):
            return False
        self.set_size_inches(*larger)
        return True


def new_picture(size: tuple[float, float]) -> Picture:
    """A figure of its own, free of pyplot's global state."""
    figure = Picture(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def narrow(is_so: bool = True) -> Iterator[None]:
    """Pictures that are drawn here are narrow, with larger letters: lines have fewer of them."""
    token = NARROW.set(is_so)
    try:
        yield
    finally:
        NARROW.reset(token)


def _crowded(ax: Axes) -> float:
    """How much higher a plot must be, in inches, for the names along its y axis to stand apart."""
    low, high = sorted(ax.get_ylim())
    shown = [t for y, t in zip(ax.get_yticks(), ax.get_yticklabels(), strict=False) if low <= y <= high]
    boxes = sorted((t.get_window_extent() for t in shown if t.get_text()), key=lambda box: box.y0)
    over = max((a.y1 + 2 - b.y0 for a, b in itertools.pairwise(boxes)), default=0.0)
    return max(0.0, over * (len(boxes) + 1) / ax.figure.dpi)


def _title(ax: Axes) -> Text:
    title: Text = ax._left_title  # type: ignore[attr-defined]  # there is no public way to it
    return title


def name_lines(name: str) -> str:
    """A name along the y axis: in several lines where it is long, cut where it is much too long."""
    return _filled(cut(name, LONGEST), _letters())


def _letters() -> int:
    return SHORT_NAME if NARROW.get() else NAME


def cut(name: str, letters: int) -> str:
    """A name of at most so many letters, never cut between a backslash and its dollar sign."""
    return name if len(name) <= letters else name[: letters - 1].rstrip("\\") + "…"


def _shorten_names(ax: Axes) -> None:
    """Long names along the y axis get a second line; those along the x axis are turned, and longer ones cut."""
    names = [label.get_text() for label in ax.get_yticklabels()]
    letters = _letters()
    if any(len(line) > letters for name in names for line in name.splitlines()):
        ax.set_yticks(ax.get_yticks(), [_filled(name, letters) for name in names])
    names = [label.get_text() for label in ax.get_xticklabels()]
    if sum(map(len, names)) > ACROSS and ax.get_xticklabels()[0].get_rotation() == 0:
        short = [cut(" ".join(name.splitlines()), letters) for name in names]
        ax.set_xticks(ax.get_xticks(), short, rotation=20, ha="right", rotation_mode="anchor")


def _filled(words: str, letters: int) -> str:
    """A text in lines: wrapped, and never between a backslash and its dollar sign."""
    return "\n".join(textwrap.wrap(words.replace(r"\$", "\0"), letters)).replace("\0", r"\$")


# What pictures are made of --------------------------------------------------------------------------------------------


def new_axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained", FigureClass=Picture)
    return ax


def plain(text: str) -> str:
    """Text as it is: matplotlib would take what stands between two dollar signs for a formula."""
    return text.replace("$", r"\$")


def short_label(text: str, most: int = LONGEST) -> str:
    """A name of a feature or a category, cut where it would leave no room for the plot; `Picture` gives it lines."""
    return plain(text if len(text) <= most else text[: most - 3] + "...")


def finish(
    ax: Axes, title: str, *, x: str = "", y: str = "", grid: Any = "both", legend: Any = "best", key: Any = ()
) -> None:
    """The title, the names of the axes, the grid (both, x or y) and the place of the legend; "" for none.

    key  the legend's entries as (what is drawn, its name), where they are not those of the drawn things themselves
    """
    ax.set_title(plain(title), fontsize=11, loc="left")
    if x:
        ax.set_xlabel(x)
    if y:
        ax.set_ylabel(y)
    if grid:
        ax.grid(axis=grid, alpha=0.2 if grid == "both" else 0.25)
    if legend:
        handles, labels = zip(*key, strict=True) if key else ax.get_legend_handles_labels()
        add_key(ax, handles, labels, framealpha=0.85, edgecolor="none", loc=legend)


def add_key(ax: Axes, handles: Sequence[Any], labels: Sequence[str] | None = None, **look: Any) -> None:
    """The legend of a plot. It can be put elsewhere later: what it is made of is kept."""
    names = list(labels) if labels is not None else [handle.get_label() for handle in handles]
    KEYS[ax.legend(list(handles), names, fontsize=7, **look)] = list(handles)


KEYS: WeakKeyDictionary[Legend, list[Any]] = WeakKeyDictionary()  # what legends stand for
SAID: WeakKeyDictionary[Text, str] = WeakKeyDictionary()  # notes: what in them no card of the result says


def note(ax: Axes, words: str, width: int = 104, *, colour: str = NOTE, line: int = 0, said: str | None = None) -> None:
    """Words under the plot; `said` is what of them a page has to say that shows the result's own words already."""
    text = ax.annotate(
        textwrap.fill(plain(words), width), (0, 0), xycoords="axes fraction", xytext=(0, -40 - 9 * line),
        textcoords="offset points", va="top", fontsize=6.5, color=colour, annotation_clip=False,
    )  # fmt: skip
    SAID[text] = words if said is None else said


def guarantee_note(ax: Axes, result: Result, before: str = "", width: int = 104) -> None:
    """Under the plot: what is not determined, what its reader has to know, and the guarantee."""
    parts = (result.doubt, before, result.footnote, result.receipt.guarantee)
    note(ax, " ".join(part.strip() for part in parts if part.strip()), width, said=before)


def names_down(ax: Axes, names: Sequence[str]) -> Any:
    """Names along the y axis, the first at the top; the places of their lines."""
    places = np.arange(len(names))[::-1]
    ax.set_yticks(places, list(names), fontsize=8)
    ax.set_ylim(-0.7, len(names) - 0.3)
    return places


def bar_interval(ax: Axes, line: float, low: float, high: float, *, sure: bool) -> None:
    """The interval of a bar that lies: white around black, so that it shows on dark bars too; grey on faint ones."""
    for width, ink in [(2.4, "white"), (1.1, "black")] if sure else [(1.1, NOTE)]:
        ax.plot([low, high], [line, line], "|-", color=ink, linewidth=width, markersize=5, markeredgewidth=width)


def bar_key(up: str, down: str, faint: str, interval: str) -> list[Any]:
    """Entries of a legend of bars: the colours of both directions, faint bars, intervals; "" for what is not there."""
    entries: list[Any] = [Patch(color=c, label=words) for c, words in ((RAISES, up), (LOWERS, down)) if words]
    if faint:
        entries.append(Patch(color=NOTE, alpha=FAINT, label=faint))
    if interval:
        entries.append(Line2D([], [], color=NOTE, marker="|", markersize=5, linewidth=1.1, label=interval))
    return entries
