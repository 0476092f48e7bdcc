"""One self-contained HTML page, and the card of a result in a notebook. No scripts, nothing loaded from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from dpexplain.render.plots import svg_of
from dpexplain.results import Curve, Influence, Marginals, Ranking, Result, TransparencyReport
from dpexplain.results.attribution import Attribution
from dpexplain.results.cleaning import in_brief
from dpexplain.results.influence import TableInfluence

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, "Segoe UI", Roboto, sans-serif; color: #22303c; background: #f6f8fa; margin: 0; }
main { max-width: 1180px; margin: 0 auto; padding: 2.2rem 1.4rem 4rem; }
h1 { font-size: 1.9rem; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; }
p.lead { font-size: 1.08rem; color: #42525f; max-width: 46rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(430px, 100%), 1fr)); gap: 1rem; }
.card { background: #fff; border: 1px solid #dde4ea; border-radius: 8px; padding: .8rem 1rem; }
.card svg { width: 100%; height: auto; }
.card details { font-size: .85rem; color: #42525f; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; background: #fff; margin-bottom: 1rem; }
th, td { text-align: left; padding: .3rem .8rem; border-bottom: 1px solid #e4eaef; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.bar { background: #e4eaef; border-radius: 6px; height: 14px; max-width: 36rem; overflow: hidden; margin-bottom: 1rem; }
.bar i { display: block; height: 100%; background: #1f4e79; }
.promise { border-left: 4px solid #1f4e79; background: #fff; padding: .7rem 1.1rem; max-width: 56rem; }
.promise li { margin: .15rem 0; }
code { font-size: .85em; } footer { margin-top: 3rem; font-size: .85rem; color: #5f6f7b; }
"""


@dataclass(frozen=True)
class Section:
    """A heading, a paragraph, and then results, ready HTML, or both."""

    title: str
    text: str = ""
    results: Sequence[Result] = ()
    html: str = ""


def page(title: str, lead: str, sections: Sequence[Section], footer: str = "") -> str:
    """A whole page. `lead`, titles and texts are plain text."""
    body = "\n".join(_section(section) for section in sections)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f'<body><main><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>\n{body}\n'
        f"<footer>{escape(footer)}</footer></main></body></html>\n"
    )


def _section(section: Section) -> str:
    cards = "\n".join(card(result) for result in section.results)
    text = f"<p>{escape(section.text)}</p>" if section.text else ""
    grid = f'<div class="cards">{cards}</div>' if cards else ""
    return f"<section><h2>{escape(section.title)}</h2>{text}{section.html}{grid}</section>"


def card(result: Result) -> str:
    """The picture, and behind a click the numbers, the guarantee and the receipt."""
    rows = result.to_frame()
    receipt = result.receipt
    facts = table(
        ["", ""],
        [
            ["request", receipt.label],
            ["price", receipt.price],
            [
                "ledger",
                f"account {receipt.entry.account}, entry {receipt.entry.sequence}, {receipt.entry.committed_at}",
            ],
            ["released values", f"SHA-256 {receipt.entry.payload_hash[:16]}…"],
            *([["cleaning", in_brief(cleaning)]] if (cleaning := receipt.cleaning()) else []),
        ],
    )
    rates = result.disparity if isinstance(result, TableInfluence) else None
    numbers = "".join(_numbers(one, result) for one in ([rows] if rates is None else [rates.to_frame(), rows]))
    return (
        f'<div class="card">{svg_of(result)}{_besides(result)}'
        f"<details><summary>receipt</summary><p>{escape(receipt.guarantee)}</p>{facts}</details>"
        f'<details><summary>numbers</summary><div class="wide">{numbers}</div></details></div>'
    )


def _numbers(frame: pd.DataFrame, result: Result) -> str:
    lines = [[_cell(value, result) for value in line] for line in frame.to_numpy().tolist()]
    return table([str(c) for c in frame.columns], lines)


def _besides(result: Result) -> str:
    """What must be read even by those who do not look at the receipt."""
    about = result.influence if isinstance(result, TransparencyReport) else result
    caveat = about.caveat if isinstance(about, Attribution | Curve | Influence | Ranking) else ""
    rates = about.disparity if isinstance(about, TableInfluence) else None
    first = f"<p>{escape(' '.join(rates.sentences))}</p>" if rates is not None else ""
    said = " ".join(words.strip() for words in (about.doubt, caveat) if words)
    return first + (f"<p><small>{escape(said)}</small></p>" if said else "")


def result_html(result: Result) -> str:
    """The same card for a notebook."""
    return f"<style>{STYLE}</style><div style='max-width:640px'>{card(result)}</div>"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(h)}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(v))}</td>" for v in line) + "</tr>" for line in lines)
    return f"<table>{f'<thead><tr>{top}</tr></thead>' if any(head) else ''}<tbody>{body}</tbody></table>"


def bar(share: float) -> str:
    """A horizontal bar filled to `share`."""
    return f'<div class="bar"><i style="width:{100 * min(max(share, 0.0), 1.0):.1f}%"></i></div>'


def _cell(value: Any, result: Result) -> str:
    if value is None or value is pd.NA or value != value:
        own = isinstance(result, Curve | Marginals)  # a point or a cell of its own there
        return "missing" if own else "not determined" if isinstance(value, float) else ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
