"""Pictures of attacks. Each says that it is not private, and shows what the claim allows or what a plain guess does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from dpexplain.render.picture import BAND, INK, NOTE, finish, names_down, new_axes, note, short_label

if TYPE_CHECKING:
    from dpexplain.audit.membership import Membership
    from dpexplain.audit.reconstruction import Reconstruction
    from dpexplain.audit.table_reconstruction import TableReconstruction

ATTACK, LIMIT = "#c55a11", "black"
VERDICT = {True: "the claim is refuted", False: "the claim is not refuted"}
MARKS = ("-", "--")
MOST_FEATURES = 30


def plot_membership(report: Membership, ax: Axes | None = None) -> Axes:
    """ROC curves with logarithmic axes, the measured points with their intervals, and the most the claim allows."""
    ax = new_axes(ax)
    least = 0.5 / report.trials
    rates = np.geomspace(least, 1, 200)
    ax.fill_between(rates, report.most(rates), 1, color=BAND, alpha=0.25, linewidth=0, label="not allowed")
    ax.plot(rates, report.most(rates), color=LIMIT, linewidth=1.4, label=f"the most that {report.stated} allows")
    ax.plot(rates, rates, ":", color=NOTE, linewidth=1, label="guessing")
    for attack, line, colour in zip(report.attacks, MARKS, (ATTACK, INK), strict=False):
        wrong, right = np.maximum(np.array(attack.roc).T, least)
        ax.plot(wrong, right, line, color=colour, linewidth=1.6, label=f"{attack.name} attack")
        for point in (p for p in attack.points if p.says == "right"):
            x, y = max(point.false_positives, least), max(point.true_positives, least)
            across = [[x - max(point.false_low, least)], [point.false_high - x]]
            upright = [[y - max(point.true_low, least)], [point.true_high - y]]
            ax.errorbar([x], [y], np.maximum(upright, 0), np.maximum(across, 0), fmt="o", color=colour, markersize=3,
                        linewidth=0.8)  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(least, 1)
    ax.set_ylim(least, 1.05)
    title = f"Membership attack: {VERDICT[report.violates]}"
    finish(ax, title, x="false positives", y="true positives", legend="lower right")
    low, high = report.best.interval
    foot(ax, f"Advantage {report.advantage:.3g} (between {low:.3g} and {high:.3g}); the claim allows "
              f"{report.allowed:.3g}. {report.trials} fresh runs on each table; intervals hold together with "
              f"confidence {report.confidence:g}.", report.note)  # fmt: skip
    return ax


def plot_table_reconstruction(report: TableReconstruction, ax: Axes | None = None) -> Axes:
    """How often each hidden value was guessed, with chance and the most that the claim allows on average."""
    ax = new_axes(ax)
    places = np.arange(len(report.values))[::-1]
    shares = [line[i] / report.trials for i, line in enumerate(report.guesses)]
    ax.barh(places, shares, height=0.6, color=BAND, label="guessed rightly, for each value")
    ax.axvspan(report.low, report.high, color=ATTACK, alpha=0.25, linewidth=0)
    ax.axvline(report.success, color=ATTACK, linewidth=1.6, label="all values, with interval")
    ax.axvline(report.chance, color=NOTE, linestyle=":", label="chance")
    ax.axvline(report.allowed, color=LIMIT, linewidth=1.4, label="the most that the claim allows for all values")
    ax.set_yticks(places, [short_label(value, 24) for value in report.values], fontsize=8)
    ax.set_xlim(0, 1)
    finish(ax, f"Reconstruction of a table row: {VERDICT[report.violates]}", x="success", grid="")
    foot(ax, f"Claim: {report.stated}. {report.trials} fresh runs for each value, confidence "
              f"{report.confidence:g}.", report.note)  # fmt: skip
    return ax


def plot_reconstruction(report: Reconstruction, ax: Axes | None = None) -> Axes:
    """For each feature the success without the explanation and with it; the features that are given away most first."""
    ax = new_axes(ax)
    features = sorted(report.features, key=lambda f: -f.gain.advantage)[:MOST_FEATURES]
    places = names_down(ax, [short_label(f.feature, 32) for f in features])
    plain = [f.gain.guess for f in features]
    told = [f.gain.success for f in features]
    ax.hlines(places, plain, told, color=BAND, linewidth=5)
    ax.plot(plain, places, "|", color=LIMIT, markersize=9, markeredgewidth=1.6, label="best guess without explanation")
    ax.plot(told, places, "o", color=ATTACK, markersize=5, label=f"attack {report.attack}")
    ax.set_xlim(-0.02, 1.02)
    finish(ax, "From an explanation to the explained record", x="success", grid="x")
    low, high = report.interval
    shown = "" if len(features) == len(report.features) else f"{len(features)} of {len(report.features)} features. "
    found = f"{shown}All features: success {report.success:.3g}, without the explanation {report.guess:.3g}, advantage "
    found += f"{report.advantage:.3g} (between {low:.3g} and {high:.3g}). {report.uncovered}"
    foot(ax, found, report.note)
    return ax


def plot_sizes(report: Reconstruction, ax: Axes | None = None) -> Axes:
    """Success against the number of auxiliary records, with and without the explanation (paper 004, figure 10)."""
    ax = new_axes(ax)
    sizes = [gain.auxiliary for gain in report.sizes]
    guess = np.array([gain.guess for gain in report.sizes])
    low, high = (guess + [getattr(gain, side) for gain in report.sizes] for side in ("low", "high"))
    ax.fill_between(sizes, low, high, color=BAND, alpha=0.45, linewidth=0, label=f"{report.confidence:.0%} interval")
    ax.plot(sizes, [gain.success for gain in report.sizes], "o-", color=ATTACK, label=f"attack {report.attack}")
    ax.plot(sizes, guess, ".:", color=LIMIT, label="best guess without explanation")
    finish(ax, "What more auxiliary records give the attacker", x="auxiliary records", y="success")
    foot(ax, report.uncovered, report.note)
    return ax


def foot(ax: Axes, measured: str, warning: str) -> None:
    """What was measured, under the plot; that it is not private, in the attack's colour."""
    note(ax, warning, colour=ATTACK)
    note(ax, measured, line=1)
