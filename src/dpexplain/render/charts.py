"""Pictures for pages: the same drawings as vector graphics, with words for every point.

A page says itself what stands around a plot: title, notes and receipt. They leave the drawing, which is narrower then,
so that its letters can be read on a phone. No style stands in the markup, so a page can forbid styles that are not its
own; colours are attributes, which `style.css` replaces in the dark.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as Xml

import numpy as np
from matplotlib.text import Text
from matplotlib.ticker import AutoLocator, MaxNLocator

from dpexplain.core.canonical import digest
from dpexplain.render import picture as draw
from dpexplain.render.marks import marks_of
from dpexplain.render.picture import KEYS, LEVEL, SAID, SMALLEST, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpexplain.methods.result import Result

WIDE = 9.0  # inches of pictures with several plots side by side, which stay as wide as they are
NARROWER, LOWER = 0.75, 0.6  # the share of the width that a plot alone keeps; inches less without title and note
ENLARGED = 1.25  # pixels for a point of a wide picture, whose letters are smaller
BROAD = 365  # points of a picture that is moved sideways on a phone rather than made smaller
TICKS = 5  # numbers along an axis
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
FONT = "system-ui, 'DejaVu Sans', sans-serif"
NUMBER = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # letters that no XML can have
SHARED = {"stroke-linejoin": "round", "stroke-linecap": "butt"}  # what a style sheet of matplotlib's says of everything


@dataclass(frozen=True)
class Chart:
    """A picture for a page, and what the page has to say around it."""

    title: str
    svg: str
    notes: tuple[str, ...] = ()  # what neither the picture nor the result's own words say
    broad: bool = False  # on a phone it is moved sideways


def chart_of(result: Result) -> Chart:
    """The picture of a result for a page."""
    return chart_from(result.plot, result.picture_size, result.title, described(result))


def chart_from(plot: Callable[[Axes], Any], size: tuple[float, float], title: str, words: str) -> Chart:
    """What `plot` draws into axes, for a page; `words` say it to those who cannot see it."""
    width, height = size
    wide = width > WIDE
    figure = draw.new_picture((width, height) if wide else (NARROWER * width, height - LOWER))
    with draw.narrow(not wide):
        plot(figure.add_subplot())
        title, notes = _taken_off(figure, title)
        for ax in () if wide else figure.axes:
            _readable(ax)
        figure.fit()
    across = 72 * figure.get_figwidth() * (ENLARGED if wide else 1)
    svg = svg_text(figure, words).replace("<svg", f'<svg width="{across:.0f}"', 1)
    return Chart(title, svg, tuple(notes), wide or across > BROAD)


def described(result: Result) -> str:
    """The picture in words, for those who cannot see it."""
    values = result.values[np.isfinite(result.values)]
    ends = f", from {values.min():.3g} to {values.max():.3g}" if len(values) else ""
    kind = "likely" if result.basis else "released"
    return f"{result.title}: a picture of {len(result.values)} {kind} values{ends}, with their {LEVEL:.0%} intervals."


def _taken_off(figure: Figure, title: str) -> tuple[str, list[str]]:
    """Title and notes, which are in the picture no more."""
    notes = [text for text in figure.findobj(Text) if text in SAID]
    said = [words for text in notes if (words := SAID[text])]
    titles = [text for ax in figure.axes if (text := _title(ax)).get_text()]
    if len(titles) > 1:  # of plots side by side; that of the whole picture is a text of its own
        titles = [text for text in figure.findobj(Text) if _same(text.get_text(), title)]
    if len(titles) == 1:
        title = _unescaped(titles[0].get_text())
    for text in (*notes, *titles):
        text.set_text("")
    return " ".join(title.split()), said


def _title(ax: Axes) -> Text:
    title: Text = ax._left_title  # type: ignore[attr-defined]  # there is no public way to it
    return title


def _unescaped(words: str) -> str:
    return words.replace(r"\$", "$")


def _same(one: str, other: str) -> bool:
    return "".join(one.split()) == "".join(plain(other).split()) != ""


def _readable(ax: Axes) -> None:
    """Letters that can be read on a phone; the legend above the plot, where it covers nothing."""
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_tick_params(labelsize=SMALLEST)
        if isinstance(axis.get_major_locator(), AutoLocator):
            axis.set_major_locator(MaxNLocator(TICKS, steps=[1, 2, 2.5, 5, 10]))
    for text in ax.findobj(Text):
        text.set_fontsize(max(text.get_fontsize(), SMALLEST))
    if (key := ax.get_legend()) is not None and key in KEYS:
        names = [text.get_text() for text in key.get_texts()]
        ax.legend(
            KEYS[key], names, fontsize=SMALLEST, frameon=False, loc="lower left", bbox_to_anchor=(0, 1),
            ncols=2 if max(map(len, names)) < 24 else 1, borderpad=0.1, columnspacing=1.2, labelspacing=0.25,
        )  # fmt: skip


# Markup ---------------------------------------------------------------------------------------------------------------


def svg_text(figure: Figure, words: str = "") -> str:
    """A figure as SVG for a page: text stays text, no outside reference, no style. `words` say what it shows; else
    its titles.
    """
    import matplotlib as mpl

    for patch in (figure.patch, *(ax.patch for ax in figure.axes)):
        patch.set_visible(False)  # the page is the ground
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dpexplain"}):
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = _possible(buffer.getvalue())
    said = words or ". ".join(title for ax in figure.axes if (title := ax.get_title(loc="left"))) or "a picture"
    marks = _marks(figure)
    own = f"c{digest([said, text])[:8]}"
    Xml.register_namespace("", SVG)
    Xml.register_namespace("xlink", XLINK)
    root = Xml.fromstring(text[text.index("<svg") :])
    for old in ("width", "height", "version"):
        root.attrib.pop(old, None)
    _cleaned(root, own)
    label = escape(" ".join(_unescaped(said).split()))
    start = f'<svg role="img" aria-label="{label}"'
    if marks:
        start += f' data-marks="{escape(json.dumps(marks, separators=(",", ":"), ensure_ascii=False))}"'
    return Xml.tostring(root, encoding="unicode").replace("<svg", _possible(start), 1)


def _possible(text: str) -> str:
    """Without letters that a declared category can have, and XML cannot."""
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _marks(figure: Figure) -> list[list[Any]]:
    """[x, y, x and y of the low end, x and y of the high end, line, line, ...] for each point, in units of the SVG."""
    high = 72 * figure.get_size_inches()[1]
    return [
        [*(round(float(v), 1) for x, y in place for v in (x, high - y)), *map(_unescaped, words)]
        for marks in marks_of(figure)
        for place, words in zip(marks.places, marks.words, strict=True)
    ]


def _cleaned(root: Xml.Element, own: str) -> None:
    """Styles become attributes, names are this picture's own, numbers have two digits, and what says nothing goes."""
    used = {value for e in root.iter() for value in _references(e)}
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
            elif parent.tag == f"{{{SVG}}}defs" and child.tag == f"{{{SVG}}}path":
                child.attrib.pop("style", None)  # of a marker: each of its places has it too, where rules reach it
    for element in root.iter():
        name = element.attrib.pop("id", "")
        if name in used:
            element.set("id", f"{own}-{name}")
        elif name.startswith("is-"):
            element.set("class", name[3:].partition(" ")[0])
        for key, value in _properties(element.attrib.pop("style", "")):
            element.set(key, value)
        for key, value in element.attrib.items():
            if key in ("clip-path", "fill") and value.startswith("url(#"):
                element.set(key, value.replace("url(#", f"url(#{own}-"))
            elif key == f"{{{XLINK}}}href" and value.startswith("#"):
                element.set(key, f"#{own}-{value[1:]}")
            elif not value.startswith("data:"):
                element.set(key, " ".join(NUMBER.sub(_short, value).split()))
        if not (element.tag == f"{{{SVG}}}text" or (element.text or "").strip()):
            element.text = None
        element.tail = None
    for key, value in SHARED.items():
        root.set(key, value)
    root.set("font-family", FONT)


def _references(element: Xml.Element) -> list[str]:
    """Names of other elements of the picture that this one uses."""
    href = element.get(f"{{{XLINK}}}href", "")
    values = [element.get("clip-path", ""), element.get("fill", ""), element.get("style", "")]
    used = re.findall(r"url\(#([^)]+)\)", " ".join(values))
    return [*used, href[1:]] if href.startswith("#") else used


def _properties(style: str) -> list[tuple[str, str]]:
    """What a style says, as attributes: letters of one family, which the root names."""
    found = []
    for rule in style.split(";"):
        key, _, value = (part.strip() for part in rule.partition(":"))
        if key == "font":  # "italic 700 8.5px 'DejaVu Sans', sans-serif"
            size = re.search(r"([\d.]+)px", value)
            found += [("font-size", size[1])] if size else []
            found += [("font-style", "italic")] if "italic" in value else []
            found += [("font-weight", weight[0])] if (weight := re.match(r"\d{3}\b|bold", value)) else []
        elif key and key != "font-family":
            found.append((key, value.replace("px", "") if key == "font-size" else value))
    return found


def _short(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".") or "0"
