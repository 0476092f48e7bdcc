"""Pages, and the card of a result in a notebook: values from here, markup from `templates/`, and every text escaped.

No scripts, nothing loaded from outside. Jinja2 is imported when the first page is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from dpexplain.render.picture import LEVEL
from dpexplain.render.plots import svg_of, svg_text
from dpexplain.render.text import missing_words, receipt_facts

if TYPE_CHECKING:
    from jinja2 import Environment

    from dpexplain.methods.result import Result

Lines = list[list[Any]]


def fill(template: str, **values: Any) -> str:
    """A template of ours with these values. What is not `Markup` is text, and a name that is missing is an error."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    found = Environment(
        loader=PackageLoader("dpexplain.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals.update(
        level=f"{LEVEL:.0%}",
        numbers=numbers,
        receipt_facts=receipt_facts,
        # our own vector graphics, the only markup that no template wrote
        drawn=lambda result: Markup(svg_of(result)),
        figure=lambda figure: Markup(svg_text(figure)),
    )
    return found


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
