"""Transparency reports as a page, a card, a letter and a picture. Short sentences first, the fine print behind them."""

from __future__ import annotations

import textwrap
from html import escape

import numpy as np
from matplotlib.axes import Axes

from dpexplain.render.html import STYLE, Section, page, table
from dpexplain.render.influence import BARS, plot_influence
from dpexplain.render.picture import name_lines
from dpexplain.render.plots import LEVEL, plain, svg_of
from dpexplain.results.person import PersonInfluence, span
from dpexplain.results.transparency import MEASURES, Association, Estimate, TransparencyReport

WIDTH = 100
FINDINGS = 4  # of each kind; the table has all associations
NOT_CAUSE, UNLIKE = "Associated, but not a cause", "Not as one would think"
LOOK = """
.answer { font-size: 1.25rem; font-weight: 600; margin: .2rem 0 .8rem; }
.person { display: flex; flex-wrap: wrap; gap: .35rem; margin: 0; padding: 0; list-style: none; }
.person li { background: #eef3f7; border-radius: 999px; padding: .1rem .7rem; font-size: .88rem; }
.person b { font-weight: 600; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(400px, 100%), 1fr)); gap: 1.2rem; }
ul.said { padding-left: 1.1rem; margin: .2rem 0; } ul.said li { margin: .45rem 0; }
.up { color: #a34a0c; font-weight: 600; } .down { color: #1f4e79; font-weight: 600; }
.aside { border-left: 4px solid #c9a227; background: #fffaf0; padding: .5rem 1rem; margin: .5rem 0; max-width: 56rem; }
.rate { position: relative; height: 12px; width: 150px; background: #eef1f4; border-radius: 3px; margin-top: .35rem; }
.rate i { position: absolute; top: 0; height: 12px; background: #9dc3e6; border-radius: 3px; }
.rate b { position: absolute; top: -2px; height: 16px; width: 2px; background: #1f4e79; }
table.fares td, table.fares th { font-size: .88rem; }
"""


# Pages ----------------------------------------------------------------------------------------------------------------


def report_page(report: TransparencyReport) -> str:
    """A page of its own for one person, to hand over."""
    lead = (
        "What the model decided about one person, which of the person's values counted, "
        "and which only go along with such decisions."
    )
    receipt, name = report.receipt, report.settings["model"]["name"]
    foot = f'Model "{name}". {receipt.short_guarantee}. Made with dpexplain {receipt.software}.'
    return page("Transparency report", lead, [*_sections(report), _promise(report)], foot)


def report_card(report: TransparencyReport) -> str:
    """The answer, the sentences and the picture, for a notebook."""
    return (
        f'<style>{STYLE}{LOOK}</style><div style="max-width:760px"><div class="card">'
        f'<p class="answer">{escape(report.headline)}</p>{_said(report)}{svg_of(report)}'
        f"{''.join(_aside(words) for _, said in _findings(report) for words in said)}"
        f"<p><small>{escape(report.influence.caveat)}</small></p>"
        f"<details><summary>receipt</summary><p>{escape(report.receipt.guarantee)}</p></details></div></div>"
    )


def _sections(report: TransparencyReport) -> list[Section]:
    facts = report.influence.facts
    chips = "".join(f"<li>{escape(str(name))} <b>{escape(value)}</b></li>" for name, value in facts)
    answer = f'<style>{LOOK}</style><p class="answer">{escape(report.headline)}</p><ul class="person">{chips}</ul>'
    said, picture = f"{_said(report)}{_scale(report)}", svg_of(report)
    counted = f'<div class="two"><div class="card">{said}</div><div class="card">{picture}</div></div>'
    sections = [Section("The decision", html=answer)]
    sections.append(Section("What counted", html=counted))
    sections += [Section(title, html="".join(map(_aside, words))) for title, words in _findings(report)]
    if report.associations:
        how = "How often the outcome is positive" if report.influence.is_class else "How high the mean score is"
        text = f"{how} among people who share a value with this person, and among all others."
        sections.append(Section("How others fare", text, html=_fares(report)))
    return sections


def _said(report: TransparencyReport) -> str:
    lines = []
    for sentence in report.sentences():
        text = escape(sentence)
        for word, mark in ((" raises ", "up"), (" lowers ", "down")):
            text = text.replace(word, f' <span class="{mark}">{word.strip()}</span> ', 1)
        lines.append(f"<li>{text}</li>")
    return f'<ul class="said">{"".join(lines)}</ul>'


def _scale(report: TransparencyReport) -> str:
    """What the bars start from, and how they were found."""
    return f"<p>{escape(start_words(report))}</p><p><small>{escape(how_words(report.influence))}</small></p>"


def _aside(finding: str) -> str:
    return f'<div class="aside">{escape(finding)}</div>'


def _findings(report: TransparencyReport) -> list[tuple[str, list[str]]]:
    """Where association and influence disagree: titles and the strongest cases."""
    found = [(NOT_CAUSE, report.only_associated[:FINDINGS]), (UNLIKE, report.unlike_others[:FINDINGS])]
    return [(title, said) for title, said in found if said]


def _fares(report: TransparencyReport) -> str:
    """A line for each feature with the two rates as bars; the measures of the paper behind a click."""
    influence = dict(zip(report.features, report.influence.names, strict=True))
    head = "<tr><th>people whose</th><th>with it</th><th></th><th>others</th><th></th></tr>"
    lines = "".join(
        f"<tr><td>{escape(a.condition)}</td><td>{_often(report, a.with_it)}</td><td>{_rate(a.with_it)}</td>"
        f"<td>{_often(report, a.without)}</td><td>{_rate(a.without)}</td></tr>"
        for a in report.associations
    )
    numbers = table(
        ["feature", *MEASURES.values()],
        [[influence[a.feature], *(_measure(getattr(a, name)) for name in MEASURES)] for a in report.associations],
    )
    return (
        f'<div class="wide"><table class="fares"><thead>{head}</thead><tbody>{lines}</tbody></table></div>'
        f"<details><summary>measures of association, with {LEVEL:.0%} intervals</summary>"
        f'<div class="wide">{numbers}</div></details>'
    )


def _rate(rate: Estimate) -> str:
    return (
        f'<div class="rate"><i style="left:{100 * rate.low:.1f}%;width:{max(100 * (rate.high - rate.low), 0.7):.1f}%">'
        f'</i><b style="left:{100 * rate.value:.1f}%"></b></div>'
    )


def _often(report: TransparencyReport, rate: Estimate) -> str:
    """How often the outcome is positive; of a score, how high it is."""
    if report.influence.is_class:
        return f"{span(100 * rate.low, 100 * rate.high, 0.1)} of 100"
    output = report.influence.output
    ends = [output.low + output.width * end for end in (rate.low, rate.high)]
    return span(ends[0], ends[1], output.width / 1000)


def _measure(estimate: Estimate) -> str:
    high = "more" if estimate.high == np.inf else f"{estimate.high:.3g}"
    return f"{estimate.value:.3g} ({estimate.low:.3g} to {high})"


def _promise(report: TransparencyReport) -> Section:
    """What was public, what was spent, what is protected and what is not."""
    facts = "".join(f"<li><b>{escape(name)}:</b> {escape(words)}</li>" for name, words in promise_words(report))
    return Section("What this report cost, and whom it protects", html=f'<div class="promise"><ul>{facts}</ul></div>')


# Words ----------------------------------------------------------------------------------------------------------------


def how_words(influence: PersonInfluence) -> str:
    """How the numbers were found, for those who ask."""
    how = {
        "shapley": "in every order in which the person's values could be replaced, and on average over the orders",
        "banzhaf": "with every set of the person's other values replaced, and on average over the sets",
        "unary": "for each value by itself, the others staying as they are",
    }
    return (
        "The model was asked again with values of other people in place of the person's own, "
        f"{how[influence.aggregate]}. Intervals hold in {LEVEL:.0%} of such reports."
    )


def start_words(report: TransparencyReport) -> str:
    """What the influences start from, where they add up: the outcome of nobody in particular."""
    start = report.start
    if start is None:
        return ""
    words = report.influence.words
    if words.threshold is None:
        low, high = report.influence.output.low, report.influence.output.high
        mean = f"{min(max(start, low), high):.3g}, the mean score with all values replaced by other people's,"
        return f"Compared with an average person: all influences together lead from {mean} to this score."
    often = f"{100 * min(max(start, 0.0), 1.0):.0f} of 100 cases"
    how = f"with all values replaced by those of other people, the model would decide for it in about {often}"
    return f"Compared with an average person: {how}."


def promise_words(report: TransparencyReport) -> list[tuple[str, str]]:
    """(name, words): the price, the protection and what lies outside of it."""
    receipt = report.receipt
    entry = receipt.entry
    facts = [
        ("Protected", f"everybody in the table, by differential privacy: {receipt.neighbours.describe()}"),
        ("Spent", f'{receipt.price}; account "{entry.account}", entry {entry.sequence}, {entry.committed_at[:16]} UTC'),
    ]
    if receipt.replayed:
        facts.append(("This time", "nothing: the same numbers had been released before"))
    if report.earlier is not None:
        before = report.earlier.receipt
        facts.append(("Spent before", f"{before.budget.describe(before.cost)}, on the histograms"))
    facts.append(("Public", ", ".join(receipt.public)))
    facts.append(("Not protected", "the person whose report this is: it tells that person's own values to its readers"))
    facts.append(("Outside", "what the model itself reveals about the data it was trained on"))
    return facts


def report_text(report: TransparencyReport) -> str:
    """The whole report as plain text."""

    def paragraph(text: str, mark: str = "") -> str:
        return textwrap.fill(text, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))

    person = ", ".join(f"{name} {value}" for name, value in report.influence.facts)
    parts = [report.title.upper(), paragraph(report.headline), paragraph(f"The person: {person}."), ""]
    parts += ["What counted", *(paragraph(sentence, "  - ") for sentence in report.sentences())]
    parts += [paragraph(words, "    ") for words in (start_words(report), how_words(report.influence)) if words]
    parts.append("")
    for title, said in _findings(report):
        parts += [title, *(paragraph(words, "  - ") for words in said), ""]
    if report.associations:
        parts += ["How others fare", *(paragraph(_fares_words(report, a), "  - ") for a in report.associations), ""]
    parts += ["What this report cost, and whom it protects"]
    parts += [paragraph(f"{name}: {words}.", "  - ") for name, words in promise_words(report)]
    return "\n".join(parts)


def _fares_words(report: TransparencyReport, a: Association) -> str:
    what = "positive for " if report.influence.is_class else "a mean score of "
    return f"{a.condition}: {what}{_often(report, a.with_it)}, among all others {_often(report, a.without)}"


# Pictures -------------------------------------------------------------------------------------------------------------


def plot_person(influence: PersonInfluence, ax: Axes | None = None) -> Axes:
    """The bars of influences, with the person's own values beside the names of features."""
    ax = plot_influence(influence, ax)
    names = [name_lines(plain(influence.names[i])) for i in reversed(influence.order[:BARS])]
    ax.set_yticks(ax.get_yticks(), names, fontsize=8)
    ax.set_xlabel(f"{ax.get_xlabel()}, compared with an average person")
    return ax
