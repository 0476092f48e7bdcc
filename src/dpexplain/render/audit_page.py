"""The page of an audit, and its pictures. Everything here says that it is not private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dpexplain.render.audits import ATTACK, LIMIT, foot, plot_reconstruction
from dpexplain.render.html import fill
from dpexplain.render.picture import BAND, INK, NOTE, finish, names_down, new_axes, short_label

if TYPE_CHECKING:
    from dpexplain.audit.project_report import Explained, Outcome, ProjectAudit

Outcomes = Sequence[tuple[str, "Outcome"]]
TITLES = {"membership": "Is the person in the table?", "table": "Which of two values does the person have?"}
METHODS = {
    "exact": "exact explanations, without noise",
    "sketch": "from one sketch of this cost",
    "moments": "each explanation paid by itself",
}


# Pictures -------------------------------------------------------------------------------------------------------------


def plot_guesses(outcomes: Outcomes, title: str, ax: Axes | None = None) -> Axes:
    """How often the best attacker guesses right, beside the most that each claim allows; costs from left to right."""
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
        ax.text(float(x.mean()), top, short_label(name, 24), ha="center", va="bottom", fontsize=8)
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
    finish(ax, title, x="epsilon", y="guesses that are right", grid="y", legend="upper left")
    ax.set_title(title, fontsize=11, loc="left", pad=18)  # above the names of explainers
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
    title = "From an explanation to the explained record"
    finish(ax, title, x="epsilon", y="features that are guessed rightly")
    return ax


def plot_bounds(lines: Sequence[Mapping[str, Any]], ax: Axes | None = None) -> Axes:
    """What draws prove about each part, as a share of its loss; and the same with noise that is 20 % too small."""
    ax = new_axes(ax)
    drawn = [line for line in lines if "bound" in line]
    names = [f"{line['release'].replace('_', ' ')}, {line['form']}: {line['part']}" for line in drawn]
    places = names_down(ax, [short_label(name, 52) for name in names])
    for key, marker, colour, label in (
        ("bound", "o", INK, "lower bound"),
        ("bound with defect", "^", ATTACK, "lower bound with noise 20 % too small, planted"),
    ):
        shares = [max(float(line.get(key, 0.0)), 0.0) / float(line["claim"]) for line in drawn]
        ax.plot(shares, places, marker, color=colour, markersize=5, linestyle="", label=label)
    ax.axvline(1, color=LIMIT, linewidth=1.4, label="the claim")
    ax.axvspan(1, 1.45, color=BAND, alpha=0.3, linewidth=0)
    ax.set_xlim(0.5, 1.45)
    x = "proven loss as a share of the claimed one"
    finish(ax, "Lower bounds on made-up worst cases", x=x, grid="x", legend="lower left")
    return ax


def pictures(report: ProjectAudit) -> dict[str, Figure]:
    """Every picture of the page by its name."""
    found: dict[str, Figure] = {}
    holds = f"All intervals hold together with confidence {report.confidence:g}. {report.trials} fresh runs for each."
    for kind, outcomes in (("membership", report.membership), ("table", report.table)):
        if outcomes:
            figure, ax = _new(width=max(6.4, 0.45 * len(outcomes) + 2.2))
            plot_guesses([(kind, o) for o in outcomes], TITLES[kind], ax)
            foot(ax, holds, report.note)
            found[kind] = figure
    if report.membership:
        figure, ax = _new()
        max(report.membership, key=lambda o: o.report.advantage).report.plot(ax)
        found["membership-roc"] = figure
    if report.explained:
        figure, ax = _new()
        plot_explained(report.explained, ax)
        foot(ax, report.explained[0].report.uncovered, report.note)
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
        foot(ax, "Of made-up tables: these bounds are about the releases, not about your rows.", report.note)
        found["bounds"] = figure
    return found


def _new(width: float = 6.4, height: float = 4.6) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


# The page -------------------------------------------------------------------------------------------------------------


def audit_page(report: ProjectAudit, figures: Mapping[str, Figure]) -> str:
    """What was attacked, what came out, and what it means; with the figures that `pictures` drew."""
    delta = "" if report.budget.delta is None else f", each at delta = {float(report.budget.delta):g}"
    return fill(
        "audit.html",
        report=report,
        figures=figures,
        titles=TITLES,
        about=[
            ("table", f"{report.name}: {report.read} of {report.rows} rows were read"),
            ("model", report.model),
            ("protected", report.neighbours.describe()),
            ("costs", "epsilon = " + ", ".join(f"{e:g}" for e in report.epsilons) + delta),
            ("confidence", f"{report.confidence:g}, for all statements of this page together"),
            *(("left out", what) for what in report.left_out),
        ],
        outcome_lines=_outcomes,
        explained=_explained(report.explained),
        bounds=[_bound(line) for line in report.bounds],
        guarantees=[],
    )


def _outcomes(outcomes: Sequence[Outcome]) -> list[list[str]]:
    return [
        [
            *(o.explainer, f"{o.epsilon:g}", o.about),
            *(f"{o.guess.success:.3f}", f"{o.guess.low:.3f} and {o.guess.high:.3f}", f"{o.guess.allowed:.3f}"),
            *(f"{o.attained:.2g}", "REFUTED" if o.violates else ""),
        ]
        for o in outcomes
    ]


def _explained(explained: Sequence[Explained]) -> list[list[str]]:
    return [
        [
            *(METHODS[e.method], "" if e.epsilon is None else f"{e.epsilon:g}"),
            *(f"{e.report.success:.3f}", f"{e.report.guess:.3f}", f"{e.report.advantage:+.3f}"),
            "{:+.3f} and {:+.3f}".format(*e.report.interval),
        ]
        for e in explained
    ]


def _bound(line: Mapping[str, Any]) -> list[str]:
    drawn = claim = defect = power = ""
    if "claim" in line:
        claim = f"{line['measure']} {line['claim']:.3g}"
    if "bound" in line:
        drawn = f"{max(line['bound'], 0.0):.3g}" + (" REFUTED" if line["refuted"] else "")
    if "bound with defect" in line:
        defect = f"{line['bound with defect']:.3g}, {'caught' if line['defect caught'] else 'not caught'}"
    if "power" in line:
        power = f"{line['power']:.2f}"
    what = [f"{line['release']} ({line['form']})", line["part"], line["law"]]
    return [*what, f"{line['price']:g}", f"{line['attained']:.3g}", claim, drawn, defect, power]
