"""Transparency reports as a page, a card and a letter. Short sentences first, the fine print behind them."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import numpy as np
from rich.markup import escape

from dpexplain.methods.influence.person import PersonInfluence, span
from dpexplain.methods.transparency.result import MEASURES, Association, Estimate, TransparencyReport
from dpexplain.render.html import fill
from dpexplain.render.picture import LEVEL

WIDTH = 100
FINDINGS = 4  # of each kind; the table has all associations
NOT_CAUSE, UNLIKE = "Associated, but not a cause", "Not as one would think"


# Pages ----------------------------------------------------------------------------------------------------------------


def report_page(report: TransparencyReport) -> str:
    """A page of its own for one person, to hand over."""
    fares = [(a, _often(report, a.with_it), _often(report, a.without)) for a in report.associations]
    names = dict(zip(report.features, report.names, strict=True))
    measures = [[names[a.feature], *(_measure(getattr(a, name)) for name in MEASURES)] for a in report.associations]
    return fill(
        "transparency.html",
        **_values(report),
        start=start_words(report),
        how=how_words(report),
        fares=fares,
        measures=(["feature", *MEASURES.values()], measures),
        promise=promise_words(report),
        guarantees=[f"{report.receipt.short_guarantee}."],
    )


def report_card(report: TransparencyReport) -> str:
    """The answer, the sentences and the picture, for a notebook."""
    return fill("notebook.html", **_values(report))


def _values(report: TransparencyReport) -> dict[str, Any]:
    sentences = [re.split("(?<= )(raises|lowers)(?= )", sentence) for sentence in report.sentences()]
    return {"report": report, "sentences": sentences, "findings": _findings(report)}


def _findings(report: TransparencyReport) -> list[tuple[str, list[str]]]:
    """Where association and influence disagree: titles and the strongest cases."""
    found = [(NOT_CAUSE, report.only_associated[:FINDINGS]), (UNLIKE, report.unlike_others[:FINDINGS])]
    return [(title, said) for title, said in found if said]


def _often(report: TransparencyReport, rate: Estimate) -> str:
    """How often the outcome is positive; of a score, how high it is."""
    if report.is_class:
        return f"{span(100 * rate.low, 100 * rate.high, 0.1, (0, 100))} of 100"
    output = report.output
    ends = [output.low + output.width * end for end in (rate.low, rate.high)]
    return span(ends[0], ends[1], output.width / 1000, (output.low, output.high))


def _measure(estimate: Estimate) -> str:
    high = "more" if estimate.high == np.inf else f"{estimate.high:.3g}"
    return f"{estimate.value:.3g} ({estimate.low:.3g} to {high})"


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
    words = report.words
    if words.threshold is None:
        low, high = report.output.low, report.output.high
        mean = f"{min(max(start, low), high):.3g}, the mean score with all values replaced by other people's,"
        return f"Compared with an average person: all influences together lead from {mean} to this score."
    often = f"{100 * min(max(start, 0.0), 1.0):.0f} of 100 cases"
    how = f"with all values replaced by those of other people, the model would decide for it in about {often}"
    return f"Compared with an average person: {how}."


def promise_words(report: TransparencyReport) -> list[tuple[str, str]]:
    """(name, words): the cost, the protection and what lies outside of it."""
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


def report_view(report: TransparencyReport) -> str:
    """The report for a terminal."""
    return escape(report_text(report))


def report_text(report: TransparencyReport) -> str:
    """The whole report as plain text."""

    def paragraph(text: str, mark: str = "") -> str:
        return textwrap.fill(text, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))

    person = ", ".join(f"{name} {value}" for name, value in report.facts)
    parts = [report.title.upper(), paragraph(report.headline), paragraph(f"The person: {person}."), ""]
    parts += ["What counted", *(paragraph(sentence, "  - ") for sentence in report.sentences())]
    parts += [paragraph(words, "    ") for words in (start_words(report), how_words(report)) if words]
    parts.append("")
    for title, said in _findings(report):
        parts += [title, *(paragraph(words, "  - ") for words in said), ""]
    if report.associations:
        parts += ["How others fare", *(paragraph(_fares_words(report, a), "  - ") for a in report.associations), ""]
    parts += ["What this report cost, and whom it protects"]
    parts += [paragraph(f"{name}: {words}.", "  - ") for name, words in promise_words(report)]
    return "\n".join(parts)


def _fares_words(report: TransparencyReport, a: Association) -> str:
    what = "positive for " if report.is_class else "a mean score of "
    return f"{a.condition}: {what}{_often(report, a.with_it)}, among all others {_often(report, a.without)}"
