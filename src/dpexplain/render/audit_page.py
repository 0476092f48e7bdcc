"""The page of an audit, and its pictures. Everything here says that it is not private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dpexplain.render.audits import ATTACK, LIMIT, _foot, plot_reconstruction
from dpexplain.render.html import Section, page, table
from dpexplain.render.plots import BAND, INK, NOTE, _label, new_axes, svg_text

if TYPE_CHECKING:
    from dpexplain.audit.project_report import Explained, Outcome, ProjectAudit

Outcomes = Sequence[tuple[str, "Outcome"]]
WARNING = (
    '<div style="border:2px solid #c55a11;background:#fff4ec;border-radius:8px;padding:.7rem 1.1rem;max-width:56rem;'
    'font-weight:600;color:#8a3a06">{}</div>'
)
MOST_IN_A_CARD = 9  # outcomes; with more the picture gets the whole width
WIDE = '<div style="grid-column:1/-1">{}</div>'
CARD = '<div class="card">{}</div>'
CARDS = '<div class="cards" style="margin-bottom:1rem">{}</div>'
TITLES = {"membership": "Is the person in the table?", "table": "Which of two values does the person have?"}
METHODS = {
    "exact": "exact explanations, without noise",
    "sketch": "from one sketch of this price",
    "moments": "each explanation paid by itself",
}


# Pictures -------------------------------------------------------------------------------------------------------------


def plot_guesses(outcomes: Outcomes, title: str, ax: Axes | None = None) -> Axes:
    """How often the best attacker guesses right, beside the most that each claim allows; prices from left to right."""
    ax = new_axes(ax)
    groups: dict[str, list[Outcome]] = {}
    for kind, outcome in outcomes:
        name = outcome.explainer if len({k for k, _ in outcomes}) == 1 else f"{outcome.explainer}, {kind}"
        groups.setdefault(name, []).append(outcome)
    top = max((max(o.guess.high, o.guess.allowed) for _, o in outcomes), default=0.9) + 0.12
    place, ticks, labels = 0.0, list[float](), list[str]()
    for name, group in groups.items():
        x = place + np.arange(len(group))
        found = [outcome.guess for outcome in group]
        middle, allowed = (np.array([getattr(g, key) for g in found]) for key in ("success", "allowed"))
        ends = np.abs([[g.success - g.low for g in found], [g.high - g.success for g in found]])
        ax.bar(x, top - allowed, 0.8, allowed, color=BAND, alpha=0.3, linewidth=0)
        ax.hlines(allowed, x - 0.4, x + 0.4, color=LIMIT, linewidth=1.8)
        ax.errorbar(x, middle, ends, fmt="o", color=ATTACK, markersize=4.5, linewidth=1)
        ax.text(float(x.mean()), top, _label(name, 24), ha="center", va="bottom", fontsize=8)
        ticks += x.tolist()
        labels += [f"{outcome.epsilon:g}" for outcome in group]
        place = float(x[-1]) + 2
    ax.axhline(0.5, color=NOTE, linestyle=":", linewidth=1)
    ax.plot([], [], "o", color=ATTACK, markersize=4.5, label="best attacker, with interval")
    ax.plot([], [], color=LIMIT, linewidth=1.8, label="the most that the claim allows")
    ax.plot([], [], ":", color=NOTE, label="guessing without the release")
    ax.set_xticks(ticks, labels, fontsize=8)
    ax.set_yticks(np.arange(4, 11) / 10)
    ax.set_ylim(0.4, top)
    ax.set_xlabel("epsilon")
    ax.set_ylabel("guesses that are right")
    ax.legend(fontsize=7, loc="upper left", framealpha=0.9, edgecolor="none")
    ax.grid(axis="y", alpha=0.25)
    ax.set_title(title, fontsize=11, loc="left", pad=18)
    return ax


def plot_explained(explained: Sequence[Explained], ax: Axes | None = None) -> Axes:
    """Success against epsilon, beside exact explanations and beside no explanation at all."""
    ax = new_axes(ax)
    for method, colour, marker in (("sketch", INK, "o"), ("moments", ATTACK, "s")):
        found = [e for e in explained if e.method == method and e.epsilon is not None]
        if found:
            y = [e.report.success for e in found]
            ends = np.array([np.abs(np.array(e.report.interval) - e.report.advantage) for e in found]).T
            x = [float(e.epsilon or 0) for e in found]
            ax.errorbar(x, y, ends, fmt=f"{marker}-", color=colour, markersize=5, linewidth=1.4, label=METHODS[method])
    plain = next(e.report for e in explained if e.method == "exact")
    ax.axhline(plain.success, color=LIMIT, linewidth=1.4, label=METHODS["exact"])
    ax.axhline(plain.guess, color=NOTE, linestyle=":", label="best guess without the explanation")
    ax.set_xscale("log")
    ax.set_ylim(min(plain.guess, 0.5) - 0.05, 1.02)
    ax.set_xlabel("epsilon")
    ax.set_ylabel("features that are guessed rightly")
    ax.grid(alpha=0.2)
    ax.legend(fontsize=7, frameon=False, loc="best")
    ax.set_title("From an explanation to the explained record", fontsize=11, loc="left")
    return ax


def plot_bounds(lines: Sequence[Mapping[str, Any]], ax: Axes | None = None) -> Axes:
    """What draws prove about each part, as a share of its loss; and the same with noise that is 20 % too small."""
    ax = new_axes(ax)
    drawn = [line for line in lines if "bound" in line]
    places = np.arange(len(drawn))[::-1]
    for key, marker, colour, label in (
        ("bound", "o", INK, "lower bound"),
        ("bound with defect", "^", ATTACK, "lower bound with noise 20 % too small, planted"),
    ):
        shares = [max(float(line.get(key, 0.0)), 0.0) / float(line["claim"]) for line in drawn]
        ax.plot(shares, places, marker, color=colour, markersize=5, linestyle="", label=label)
    ax.axvline(1, color=LIMIT, linewidth=1.4, label="the claim")
    ax.axvspan(1, 1.45, color=BAND, alpha=0.3, linewidth=0)
    names = [f"{line['release'].replace('_', ' ')}, {line['form']}: {line['part']}" for line in drawn]
    ax.set_yticks(places, [_label(name, 52) for name in names], fontsize=7.5)
    ax.set_ylim(-0.7, len(drawn) - 0.3)
    ax.set_xlim(0.5, 1.45)
    ax.set_xlabel("proven loss as a share of the claimed one")
    ax.grid(axis="x", alpha=0.25)
    ax.legend(fontsize=7, frameon=False, loc="lower left")
    ax.set_title("Lower bounds on made-up worst cases", fontsize=11, loc="left")
    return ax


def pictures(report: ProjectAudit) -> dict[str, Figure]:
    """Every picture of the page by its name."""
    found: dict[str, Figure] = {}
    holds = f"All intervals hold together with confidence {report.confidence:g}. {report.trials} fresh runs for each."
    for kind, outcomes in (("membership", report.membership), ("table", report.table)):
        if outcomes:
            figure, ax = _new(width=max(6.4, 0.45 * len(outcomes) + 2.2))
            plot_guesses([(kind, o) for o in outcomes], TITLES[kind], ax)
            _foot(ax, holds, report.note)
            found[kind] = figure
    if report.membership:
        figure, ax = _new()
        max(report.membership, key=lambda o: o.report.advantage).report.plot(ax)
        found["membership-roc"] = figure
    if report.explained:
        figure, ax = _new()
        plot_explained(report.explained, ax)
        _foot(ax, report.explained[0].report.uncovered, report.note)
        found["explained"] = figure
        exact = report.explained[0].report
        figure, ax = _new(height=2.2 + 0.26 * min(30, len(exact.features)))
        plot_reconstruction(exact, ax)
        ax.set_title("Exact explanations: what they give away", fontsize=11, loc="left")
        found["explained-features"] = figure
    if any("bound" in line for line in report.bounds):
        drawn = sum("bound" in line for line in report.bounds)
        figure, ax = _new(width=8.4, height=1.8 + 0.24 * drawn)
        plot_bounds(report.bounds, ax)
        _foot(ax, "Of made-up tables: these bounds are about the releases, not about your rows.", report.note)
        found["bounds"] = figure
    return found


def _new(width: float = 6.4, height: float = 4.6) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


# The page -------------------------------------------------------------------------------------------------------------


def audit_page(report: ProjectAudit, figures: Mapping[str, Figure]) -> str:
    """What was attacked, what came out, and what it means; with the figures that `pictures` drew."""
    drawn = {name: CARD.format(svg_text(figure)) for name, figure in figures.items()}
    sections = [Section("Read this first", html=_first(report))]
    for kind, outcomes in (("membership", report.membership), ("table", report.table)):
        if outcomes:
            wide = WIDE if len(outcomes) > MOST_IN_A_CARD else "{}"
            cards = CARDS.format(wide.format(drawn[kind]) + drawn.get(f"{kind}-roc", ""))
            sections.append(Section(TITLES[kind], _about(kind, report), html=cards + _outcomes(outcomes)))
    if report.explained:
        cards = CARDS.format(drawn["explained"] + drawn["explained-features"])
        sections.append(Section("The explained record", EXPLAINED, html=cards + _explained(report.explained)))
    if report.bounds:
        picture = f'<div style="max-width:820px;margin-bottom:1rem">{drawn.get("bounds", "")}</div>'
        sections.append(Section("Lower bounds against claims", BOUNDS, html=picture + _bounds(report.bounds)))
    title = f"Audit of {report.name}: not private"
    return page(title, f"{report.note} {report.verdict}", sections, f"{report.note} Made by dpexplain audit.")


def _first(report: ProjectAudit) -> str:
    facts = [
        ["table", f"{report.name}: {report.read} of {report.rows} rows were read"],
        ["model", report.model],
        ["protected", report.neighbours.describe()],
        ["prices", "epsilon = " + ", ".join(f"{e:g}" for e in report.epsilons) + _at_delta(report)],
        ["confidence", f"{report.confidence:g}, for all statements of this page together"],
        *(["left out", what] for what in report.left_out),
    ]
    loud = f"{report.note} {report.spent} Do not publish this page, nor any file beside it."
    return WARNING.format(escape(loud)) + f"<p><b>{escape(report.verdict)}</b></p>" + table(["", ""], facts)


def _at_delta(report: ProjectAudit) -> str:
    return "" if report.budget.delta is None else f", each at delta = {float(report.budget.delta):g}"


def _about(kind: str, report: ProjectAudit) -> str:
    who = "The attacker knows all other rows, the model, the request and the law of the noise, and sees one release. "
    if kind == "membership":
        what = "They want to know whether the most exposed of some candidates is in the table. "
    else:
        what = "They know everything about this person but one value, and which two values it can have. "
    return (
        f"{who}{what}{report.attacked} rows of the table stood beside the target: the attacker knows these, so more of "
        "them would hardly change anything. The exact loss says how near this pair of tables comes to the worst case "
        "that the price is for. An interval that lies above its black line as a whole refutes the claim."
    )


EXPLAINED = (
    "An explanation is about a record, and whoever receives it may learn that record: no epsilon covers this. Shown is "
    "how many features of a record an attacker guesses from its contributions, after training on other records with "
    "their explanations, beside the best guess without any explanation. A better explanation helps this attacker more; "
    "so does a sketch of a single cell, whose coefficients are the same for everybody: contributions are then the "
    "record itself, in other units. Give an explanation only to those who may see the record."
)
BOUNDS = (
    "Each part of these releases was drawn many times on two made-up tables that are as hard to hide as any; the bound "
    "is what the draws prove about its loss. A bound above the claim refutes it. To see that the audit can win, the "
    "same was done with noise that is 20 % too small."
)


def _outcomes(outcomes: Sequence[Outcome]) -> str:
    head = ["explainer", "epsilon", "the attacker asks", "right", "between", "allowed", "exact loss / claim", ""]
    lines = [
        [
            o.explainer,
            f"{o.epsilon:g}",
            o.about,
            f"{o.guess.success:.3f}",
            f"{o.guess.low:.3f} and {o.guess.high:.3f}",
            f"{o.guess.allowed:.3f}",
            f"{o.attained:.2g}",
            "REFUTED" if o.violates else "",
        ]
        for o in outcomes
    ]
    return f'<div class="wide">{table(head, lines)}</div>'


def _explained(explained: Sequence[Explained]) -> str:
    head = ["explanations", "epsilon", "features guessed", "without the explanation", "advantage", "between"]
    lines = [
        [
            METHODS[e.method],
            "" if e.epsilon is None else f"{e.epsilon:g}",
            f"{e.report.success:.3f}",
            f"{e.report.guess:.3f}",
            f"{e.report.advantage:+.3f}",
            f"{e.report.interval[0]:+.3f} and {e.report.interval[1]:+.3f}",
        ]
        for e in explained
    ]
    return f'<div class="wide">{table(head, lines)}</div>'


def _bounds(lines: Sequence[Mapping[str, Any]]) -> str:
    head = ["release", "part", "law", "price", "exact loss / price", "claim", "lower bound", "with defect", "power"]
    cells = [
        [
            f"{line['release']} ({line['form']})",
            line["part"],
            line["law"],
            f"{line['price']:g}",
            f"{line['attained']:.3g}",
            f"{line['measure']} {line['claim']:.3g}" if "claim" in line else "",
            f"{max(line['bound'], 0.0):.3g}" + (" REFUTED" if line["refuted"] else "") if "bound" in line else "",
            f"{line['bound with defect']:.3g}, {'caught' if line['defect caught'] else 'not caught'}"
            if "bound with defect" in line
            else "",
            f"{line['power']:.2f}" if "power" in line else "",
        ]
        for line in lines
    ]
    return f'<details><summary>every part</summary><div class="wide">{table(head, cells)}</div></details>'
