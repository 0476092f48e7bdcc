"""Pages, and the card of a result in a notebook: values from here, markup from `templates/`, and every text escaped.

A page holds its one style and its one script, and says in its head that a browser shall run nothing else and load
nothing. A service gives both as files of their own (`STATIC`). Jinja2 is imported when the first page is made.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpexplain.render.charts import chart_of, svg_text
from dpexplain.render.picture import LEVEL
from dpexplain.render.text import missing_words, receipt_facts

if TYPE_CHECKING:
    from jinja2 import Environment

    from dpexplain.methods.result import Result

Lines = list[list[Any]]
TEMPLATES = Path(__file__).parent / "templates"
STATIC = ("style.css", "charts.js")  # what a service gives as files


def fill(template: str, **values: Any) -> str:
    """A template of ours with these values. What is not `Markup` is text, and a name that is missing is an error."""
    return environment().get_template(template).render(values)


@cache
def environment(*packages: str) -> Environment:
    """The templates of pages, and those of other packages, with the same macros."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    found = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in ("dpexplain.render", *packages)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals.update(
        level=f"{LEVEL:.0%}",
        numbers=numbers,
        receipt_facts=receipt_facts,
        # our own style, script and vector graphics, the only markup that no template wrote
        style=Markup(static("style.css")),
        script=Markup(static("charts.js")),
        policy=page_policy(),
        chart=lambda result: chart_of(result),  # as the module has it when a page is made
        vector=lambda chart: Markup(chart.svg),
        figure=lambda figure: Markup(svg_text(figure)),
    )
    return found


@cache
def static(name: str) -> str:
    """The text of a file of `STATIC`."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


@cache
def page_policy() -> str:
    """The content security policy of a page in one file: its own style and script, by their digests, and no other."""
    style, script = (
        f"'sha256-{base64.b64encode(hashlib.sha256(static(name).encode()).digest()).decode()}'" for name in STATIC
    )
    own = f"style-src {style}; script-src {script}; img-src data:"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def results_page(title: str, lead: str, results: Sequence[Result]) -> str:
    """A page with a card for each result, and the guarantees of all of them below."""
    guarantees = list(dict.fromkeys(result.receipt.short_guarantee for result in results))
    return fill("results.html", title=title, lead=lead, results=results, guarantees=guarantees)


def result_html(result: Result) -> str:
    """The card of a result for a notebook."""
    return fill("notebook.html", result=result)


def numbers(result: Result) -> list[tuple[list[str], Lines]]:
    """The tables of a result, each with its head."""
    frames = [*result.more_tables().values(), result.to_frame()]
    lines = [[[missing_words(v, result, v) for v in line] for line in frame.to_numpy().tolist()] for frame in frames]
    return [([str(name) for name in frame.columns], cells) for frame, cells in zip(frames, lines, strict=True)]
