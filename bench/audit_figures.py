"""The pictures of `python -m bench audit`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.audit_records import DPGD, EXACT, LIME, MOMENTS, SKETCH
from bench.audit_reviews import Words
from dpexplain.audit import NOT_PRIVATE, Membership

COLOURS = {EXACT: "black", DPGD: "#8a4b12", MOMENTS: "#1f5fa8", SKETCH: "#2f8f4e", LIME: "#9b59b6"}
MARKS = {EXACT: "*", DPGD: "^", MOMENTS: "o", SKETCH: "s", LIME: "D"}
MAIN = {"Adult": "explanations, forest", "IMDB": "thinking, linear"}  # the strongest attack on each table
SOUND, PLANTED = "#1f5fa8", "#c55a11"
STYLES = {"10": "--", "1": ":"}  # of an epsilon, beside lines without noise
WIDTH = 0.0054  # of a letter, as a share of the picture


def _foot(figure: Figure, text: str) -> None:
    figure.supxlabel(text, fontsize=7.5, color="#555555")


def _main(name: str, line: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = line["attacks"].get(MAIN[name]) or next(iter(line["attacks"].values()))
    return found


def _by(content: Mapping[str, Any], method: str) -> list[dict[str, Any]]:
    return [line for line in content["explanations"] if line["method"] == method]


# Explained records ----------------------------------------------------------------------------------------------------


def records(content: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Utility loss against epsilon, advantage against epsilon, and advantage against loss; a row for each table."""
    figure = Figure(figsize=(13.5, 4.4 * len(content)), layout="constrained")
    for axes, (name, found) in zip(figure.subplots(len(content), 3, squeeze=False), content.items(), strict=True):
        _losses(axes[0], name, found)
        _advantages(axes[1], name, found)
        _trade(axes[2], name, found)
    figure.axes[0].legend(fontsize=8, frameon=False)
    figure.axes[2].legend(fontsize=8, frameon=False)
    _foot(
        figure,
        "The explained record is outside the guarantee of the table at any epsilon. Epsilon: of one query; sketch: of "
        f"all queries together. Bars: 99 % intervals. {NOT_PRIVATE}",
    )
    return figure


def _losses(ax: Axes, name: str, content: Mapping[str, Any]) -> None:
    for method in (DPGD, MOMENTS, SKETCH):
        lines = [line for line in _by(content, method) if line["epsilon"] != "inf"]
        ax.plot(
            [float(line["epsilon"]) for line in lines],
            [line["mse"] for line in lines],
            marker=MARKS[method],
            color=COLOURS[method],
            label=method,
        )
        for line in _by(content, method):
            if line["epsilon"] == "inf":
                ax.axhline(line["mse"], color=COLOURS[method], linestyle=":", label=f"{method}, no noise")
    ax.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="utility loss: MSE to the exact explanation")
    ax.set_title(f"{name}: utility loss", fontsize=11, loc="left")
    ax.grid(alpha=0.2)


def _advantages(ax: Axes, name: str, content: Mapping[str, Any]) -> None:
    for number, method in enumerate((DPGD, MOMENTS, SKETCH)):
        lines = [line for line in _by(content, method) if line["epsilon"] != "inf"]
        shift = 1.06 ** (number - 1)  # so that bars do not hide each other
        _bars(ax, name, method, [float(line["epsilon"]) * shift for line in lines], lines)
    levels = []
    for method, style in ((EXACT, "-"), (DPGD, ":"), (LIME, "--")):
        for line in (line for line in _by(content, method) if line["epsilon"] == "inf"):
            label, height = f"{method}, no noise" if method == DPGD else method, _main(name, line)["advantage"]
            levels.append(ax.axhline(height, color=COLOURS[method], linestyle=style, linewidth=1.1, label=label))
    ax.legend(handles=levels, fontsize=8, frameon=False)
    guess = _main(name, content["explanations"][0])["without the explanation"]
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.set(xscale="log", xlabel="epsilon", ylabel=f"attack success beyond the plain guess ({guess:.3f})")
    ax.set_title(f"{name}: advantage of the attacker\n({MAIN[name]})", fontsize=10, loc="left")
    ax.grid(alpha=0.2)


def _bars(ax: Axes, name: str, method: str, x: Sequence[float], lines: Sequence[Mapping[str, Any]]) -> None:
    found = [_main(name, line) for line in lines]
    y = np.array([a["advantage"] for a in found])
    ends = np.array([a["interval"] for a in found]).T
    ax.errorbar(
        x, y, abs(ends - y), marker=MARKS[method], color=COLOURS[method], label=method, capsize=2, linewidth=1.2
    )


def _trade(ax: Axes, name: str, content: Mapping[str, Any]) -> None:
    """All methods in one plot; what is exact has no loss and is a line."""
    for method in (DPGD, MOMENTS, SKETCH):
        lines = _by(content, method)
        _bars(ax, name, method, [line["mse"] for line in lines], lines)
        for line in lines:
            place = (line["mse"], _main(name, line)["advantage"])
            text = "no noise" if line["epsilon"] == "inf" else line["epsilon"]
            ax.annotate(text, place, xytext=(4, 4), textcoords="offset points", fontsize=7, color=COLOURS[method])
    for method, style in ((EXACT, "-"), (LIME, "--")):
        height = _main(name, _by(content, method)[0])["advantage"]
        ax.axhline(height, color=COLOURS[method], linestyle=style, linewidth=1.1, label=method)
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.set(
        xscale="log", xlabel="utility loss (MSE); better explanations to the left", ylabel="advantage of the attacker"
    )
    ax.set_title(f"{name}: advantage against loss (marked: epsilon)", fontsize=11, loc="left")
    ax.grid(alpha=0.2)


def paper(content: Mapping[str, Mapping[str, Any]], curves: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Figures 6 to 10 of paper 004: convergence, ROC curves, the size of the auxiliary set."""
    figure = Figure(figsize=(13.5, 4.2 * len(content)), layout="constrained")
    for axes, (name, found) in zip(figure.subplots(len(content), 3, squeeze=False), content.items(), strict=True):
        _descent(axes[0], name, curves[name]["loss by step"])
        _roc(axes[1], name, found, curves[name]["roc"])
        _sizes(axes[2], name, found)
    _foot(figure, f"ROC curves: features with two categories, tested records. {NOT_PRIVATE}")
    return figure


def _descent(ax: Axes, name: str, path: Mapping[str, Sequence[float]]) -> None:
    for (epsilon, losses), shade in zip(path.items(), ("#d8a36a", "#8a4b12", "black"), strict=True):
        steps = np.arange(1, 1 + 3 * len(losses), 3)
        ax.plot(
            steps, np.maximum(losses, 1e-12), color=shade, label=f"epsilon {epsilon}".replace("epsilon inf", "no noise")
        )
    ax.set(yscale="log", xlabel="step of DPGD-Explain", ylabel="approximation loss")
    ax.set_title(f"{name}: convergence for one record (Figs. 6, 7)", fontsize=11, loc="left")
    ax.legend(fontsize=8, frameon=False)
    ax.grid(alpha=0.2)


SHOWN = ((EXACT, "inf"), (DPGD, "inf"), (DPGD, "10"), (MOMENTS, "10"), (MOMENTS, "1"), (LIME, "inf"))


def _roc(ax: Axes, name: str, content: Mapping[str, Any], curves: Mapping[str, Any]) -> None:
    plain = "explanations, linear"
    for line in content["explanations"]:
        if (line["method"], line["epsilon"]) not in SHOWN:
            continue
        dashed = STYLES.get(line["epsilon"], "-")
        label = line["method"] + ("" if line["epsilon"] == "inf" else f", epsilon {line['epsilon']}")
        for attack in dict.fromkeys((MAIN[name], plain)):
            curve = curves.get(f"{line['method']}, {line['epsilon']}, {attack}")
            if curve is None:
                continue
            main = attack == MAIN[name]
            text = f"{label}: area {line['attacks'][attack]['area']:.2f}" if main else None
            width = {"linewidth": 1.5, "alpha": 1.0} if main else {"linewidth": 0.8, "alpha": 0.45}
            ax.plot(*curve.values(), dashed, color=COLOURS[line["method"]], label=text, **width)
    ax.plot([0, 1], [0, 1], ":", color="0.6")
    ax.set(xlabel="false positives", ylabel="true positives")
    ax.set_title(f"{name}: ROC, {MAIN[name]}\n(faint: {plain})", fontsize=10, loc="left")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=7, frameon=False, loc="lower right")
    ax.grid(alpha=0.2)


def _sizes(ax: Axes, name: str, content: Mapping[str, Any]) -> None:
    attack = MAIN[name] if MAIN[name].endswith("linear") else "explanations, linear"
    for line in content["explanations"]:
        if (line["method"], line["epsilon"]) not in SHOWN:
            continue
        found = line["attacks"][attack]["auxiliary"]
        sizes, label = [int(size) for size in found], line["method"]
        gains = [success - guess for success, guess, _, _ in found.values()]
        ends = [
            abs(np.array([low, high]) - gain) for gain, (_, _, low, high) in zip(gains, found.values(), strict=True)
        ]
        label += "" if line["epsilon"] == "inf" else f", epsilon {line['epsilon']}"
        ax.errorbar(sizes, gains, np.array(ends).T, linestyle=STYLES.get(line["epsilon"], "-"), capsize=2,
                    color=COLOURS[line["method"]], marker=MARKS[line["method"]], markersize=4, label=label)  # fmt: skip
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.set(xlabel="auxiliary records", ylabel="advantage of the attacker")
    ax.set_title(f"{name}: size of the auxiliary set (Fig. 10)\n{attack}", fontsize=10, loc="left")
    ax.legend(fontsize=7.5, frameon=False)
    ax.grid(alpha=0.2)


# Words ----------------------------------------------------------------------------------------------------------------


def words(found: Words) -> Figure:
    """Figure 11: a review, the words of each method; Figure 12: their numbers against those of LIME."""
    methods = [name for name in found.values if name != LIME]
    text = textwrap.shorten(found.text, 420, placeholder=" ...")
    height = 0.2 * len(found.values) * (2.5 + len(text) * WIDTH)
    figure = Figure(figsize=(13, height + 3), layout="constrained")
    rows = figure.subfigures(2, 1, height_ratios=[height, 3])
    top = rows[0].subplots()
    top.axis("off")
    y = 0.0
    for name, by in found.values.items():
        top.text(0, y, name, fontsize=9, weight="bold", va="top")
        y = _highlighted(top, text, by, y + 1) + 1.6
    top.set(xlim=(0, 1), ylim=(y, 0))
    top.set_title(
        "A review by each method (Fig. 11): orange speaks for a good review, blue against", fontsize=11, loc="left"
    )
    for ax, name in zip(rows[1].subplots(1, len(methods)), methods, strict=True):
        x, values = (np.array(list(found.values[key].values())) for key in (LIME, name))
        ax.scatter(x, values, s=14, color=COLOURS.get(name, "#8a4b12" if name.startswith("DPGD") else "#1f5fa8"))
        ax.axhline(0, color="0.8", linewidth=0.7)
        ax.axvline(0, color="0.8", linewidth=0.7)
        mean = np.mean(found.agreement[name])
        ax.set_title(f"{name}\ncorrelation here {np.corrcoef(x, values)[0, 1]:.2f}, mean {mean:.2f}", fontsize=8.5)
        ax.set_xlabel("LIME", fontsize=8)
        ax.tick_params(labelsize=7)
    rows[1].suptitle("The numbers of its words against LIME's (Fig. 12)", fontsize=11, x=0.01, ha="left")
    return figure


def _highlighted(ax: Axes, text: str, values: Mapping[str, float], y: float) -> float:
    """Words on coloured ground, wrapped by hand; returns the last line."""
    most, x = max(abs(v) for v in values.values()), 0.0
    for token in text.split():
        value = values.get(re.sub(r"[^a-z']", "", token.lower()).strip("'"), 0.0) / most
        if x + WIDTH * len(token) > 0.98:
            x, y = 0.0, y + 1
        ground = "#f39c3d" if value > 0 else "#5b9bd5"
        box = {"facecolor": ground, "alpha": min(1.0, abs(value)) ** 0.7, "edgecolor": "none", "pad": 0.8}
        ax.text(x, y + 0.6, token, fontsize=8, va="baseline", family="monospace", bbox=box if value else None)
        x += WIDTH * (len(token) + 1)
    return y


# Table rows -----------------------------------------------------------------------------------------------------------


def table(lines: Sequence[Mapping[str, Any]], reports: Mapping[tuple[str, Fraction], Membership]) -> Figure:
    """Measured against allowed: membership and hidden values, at each epsilon; and three ROC curves."""
    epsilons = sorted({line["epsilon"] for line in lines})
    figure = Figure(figsize=(4.6 * max(len(epsilons), 2), 11), layout="constrained")
    grid = figure.subplots(3, len(epsilons), squeeze=False)
    for column, epsilon in enumerate(epsilons):
        some = [line for line in lines if line["epsilon"] == epsilon]
        for row, what in enumerate(("membership", "hidden value")):
            _against(grid[row][column], some, what)
        grid[0][column].set_title(f"epsilon {epsilon:g}: membership", fontsize=11, loc="left")
        grid[1][column].set_title(f"epsilon {epsilon:g}: one of two hidden values", fontsize=11, loc="left")
        _curves(grid[2][column], [(t, r) for (t, e), r in reports.items() if float(e) == epsilon])
    grid[0][0].legend(fontsize=7.5, frameon=False)
    trials = lines[0]["trials"]
    _foot(
        figure,
        f"Worst-case neighbours; {trials:,} fresh runs on each table; intervals hold with 99.9 %. "
        "Local explanation and sketch: (epsilon, 1e-6) by Gaussian noise, compared with its own curve.",
    )
    return figure


def _against(ax: Axes, lines: Sequence[Mapping[str, Any]], what: str) -> None:
    places = np.arange(len(lines))[::-1]
    key, chance = ("advantage", 0.0) if what == "membership" else ("success", 0.5)
    for place, line in zip(places, lines, strict=True):
        found = line[what]
        low, high = found["interval"]
        first = place == places[0]
        ax.plot(
            [chance, found["allowed"]], [place, place], color="#dddddd", linewidth=9, solid_capstyle="butt", zorder=0
        )
        ax.plot(
            [found["allowed"]] * 2,
            [place - 0.32, place + 0.32],
            color="black",
            label="the most the claim allows" if first else None,
        )
        ends, colour = [[found[key] - low], [high - found[key]]], PLANTED if found["refuted"] else SOUND
        label = "the best attack" if first else None
        ax.errorbar([found[key]], [place], xerr=ends, fmt="o", capsize=3, color=colour, markersize=5, label=label)
    ax.axvline(chance, color="0.6", linestyle=":")
    ax.set_yticks(places, [line["release"] for line in lines], fontsize=8.5)
    ax.set_xlabel("advantage" if what == "membership" else "success (chance 0.5)")


def _curves(ax: Axes, reports: Sequence[tuple[str, Membership]]) -> None:
    rates = np.geomspace(1e-4, 1, 200)
    claims = {report.stated: report for _, report in reports}
    for report in claims.values():
        ax.plot(rates, report.most(rates), color="black", linestyle="--" if report.gaussian else "-", linewidth=1.4)
    for number, (target, report) in enumerate(reports):
        wrong, right = np.maximum(np.array(report.best.roc).T, 1e-4)
        ax.plot(wrong, right, color=f"C{number}", linewidth=1, label=target)
    ax.plot(rates, rates, ":", color="0.6")
    ax.set(
        xscale="log", yscale="log", xlim=(1e-3, 1), ylim=(1e-3, 1.1), xlabel="false positives", ylabel="true positives"
    )
    ax.set_title("ROC; black: the most that is allowed\n(dashed: with delta)", fontsize=9, loc="left")
    ax.legend(fontsize=6.5, frameon=False, loc="lower right")
    ax.grid(alpha=0.2)


# Releases -------------------------------------------------------------------------------------------------------------


def releases(frame: pd.DataFrame, prices: Sequence[Mapping[str, Any]]) -> Figure:
    """Lower bounds as a share of the claim, sound and with the planted defect; and three laws by price."""
    figure = Figure(figsize=(13, 7), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2.2, 1])
    drawn = frame[frame["bound"].notna()]
    names = list(dict.fromkeys(frame["release"]))
    random = np.random.default_rng(0)
    for what, colour, label in (
        ("bound", SOUND, "as it is"),
        ("bound with defect", PLANTED, "noise at 80 % of its scale"),
    ):
        places = [len(names) - 1 - names.index(name) for name in drawn["release"]]
        places = np.array(places) + random.uniform(-0.25, 0.25, len(drawn))
        left.scatter(drawn[what] / drawn["claim"], places, s=16, color=colour, alpha=0.65, label=label, linewidths=0)
    left.axvline(1, color="black", linewidth=1.2)
    left.annotate(
        "claim", (1, 1), xycoords=("data", "axes fraction"), xytext=(3, -10), textcoords="offset points", fontsize=8
    )
    left.set_yticks(range(len(names)), [name.replace("_", " ") for name in names[::-1]], fontsize=9)
    left.set_xlabel("lower bound / claim (confidence 99.9 % each)")
    left.set_title(
        f"{len(frame)} cases of {len(names)} releases, {len(drawn)} of them audited by draws", fontsize=11, loc="left"
    )
    left.legend(fontsize=8.5, frameon=False, loc="lower left")
    left.grid(axis="x", alpha=0.25)
    for number, law in enumerate(dict.fromkeys(line["law"] for line in prices)):
        lines = [line for line in prices if line["law"] == law]
        x = [line["price"] * 1.05 ** (number - 1) for line in lines]
        for what, colour in (("bound", SOUND), ("bound with defect", PLANTED)):
            right.plot(
                x,
                [line[what] / line["claim"] for line in lines],
                "osD"[number],
                color=colour,
                label=law if colour == SOUND else None,
            )
        for place, line in zip(x, lines, strict=True):
            right.annotate(f"{line['trials'] // 1000:,}k", (place, line["bound"] / line["claim"]), xytext=(0, -13),
                           textcoords="offset points", fontsize=7, ha="center", color="#555555")  # fmt: skip
    right.axhline(1, color="black", linewidth=1.2)
    right.set(xscale="log", xlabel="pure epsilon that the part costs", ylabel="lower bound / claim")
    right.set_xticks([0.5, 1, 2], ["0.5", "1", "2"])
    right.minorticks_off()
    right.set_title("three laws by price (marked: trials)", fontsize=11, loc="left")
    right.legend(fontsize=8, frameon=False)
    right.grid(alpha=0.25)
    return figure
