"""Do intervals that say 95 % cover 95 %, and does `plan` forecast the error that comes?

Every method, both relations, epsilon 0.1, 1 and 3, on three real tables with correlated columns and rare categories
(bench/honesty_tables.py) and a model that is not additive. The real `explain` runs each time with noise of the
operating system; the exact answers are written out here on their own (bench/honesty_truths.py).

    coverage   the share of released values whose 95 % interval holds the exact answer, over values and repetitions
    width      the mean width of the intervals as a share of the public range: near 1, nothing was learned
    ratio      the error that `dpx.plan` says to expect over the 95 % quantile of the errors that came
    interval   the half-width of intervals that it says over the mean half-width that came

A cell is one method, table, relation and epsilon. Its coverage is itself an estimate: `low` is its one-sided 99 %
bootstrap bound over repetitions (values of one release are not independent), and a cell is *below* where even the upper
bound lies under 0.94.
"""

from __future__ import annotations

import itertools
import json
import os
import warnings
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from rich.progress import track

import dpexplain as dpx
from bench import report
from bench.honesty_tables import TABLES
from bench.honesty_truths import QUESTIONS

EPSILONS = (0.1, 1.0, 3.0)
RELATIONS = ("replace-one", "add-remove")
REPETITIONS, QUICK = 20, 3
TARGET, SURELY = 0.94, 0.995
FACTOR = 1.5


def measure(job: tuple[str, str, str, float, int, str]) -> dict[str, Any]:
    """One cell. A question that is refused (by public things, before anything is spent) says so."""
    method, key, relation, epsilon, times, data = job
    question = QUESTIONS[method]
    cell: dict[str, Any] = {"method": method, "table": key, "relation": relation, "epsilon": epsilon}
    if relation not in question.relations:
        return {**cell, "refused": f"not offered under {relation}"}
    scene = _scene(key, data)
    table = scene.table(relation, question.delta)
    covered, widths, errors, tight = [], [], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for _ in range(times):
                answer = question.ask(scene, table, epsilon)
                held = (answer.low <= answer.truth + answer.slack) & (answer.truth - answer.slack <= answer.high)
                covered.append(float(held.mean()))
                errors.extend(np.abs(answer.value - answer.truth).tolist())
                widths.append(float(np.mean(np.minimum(answer.high - answer.low, answer.span) / answer.span)))
                tight.append(float(np.mean(answer.high - answer.low)))
            forecast = question.forecast(scene, table, epsilon)
        except dpx.DpexplainError as refusal:
            return {**cell, "refused": str(refusal).splitlines()[0]}
    reached = float(np.quantile(errors, 0.95))
    return {
        **cell,
        "repetitions": times,
        "values": len(errors),
        "coverage": round(float(np.mean(covered)), 4),
        "bounds": [round(bound, 4) for bound in _bounds(covered)],
        "width": round(float(np.mean(widths)), 4),
        "halfwidth": float(f"{np.mean(tight) / 2:.4g}"),
        "error": float(f"{reached:.4g}"),
        "forecast": None if forecast is None else float(f"{forecast[0]:.4g}"),
        "ratio": None if forecast is None or not reached else round(forecast[0] / reached, 3),
        "interval_ratio": None if forecast is None else round(2 * forecast[1] / float(np.mean(tight)), 3),
        "whole_range": bool(np.mean(widths) > 0.95),
    }


_scenes: dict[str, Any] = {}


def _scene(key: str, data: str) -> Any:
    if key not in _scenes:
        _scenes[key] = TABLES[key](Path(data))
    return _scenes[key]


def _bounds(covered: Sequence[float]) -> tuple[float, float]:
    """One-sided 99 % bootstrap bounds, lower and upper, of the coverage."""
    values, generator = np.asarray(covered), np.random.default_rng(0)
    means = values[generator.integers(len(values), size=(10_000, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [0.01, 0.99])
    return float(low), float(high)


def summarize(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """By method: the lowest coverage, cells under the target, cells in which nothing was learned, forecasts."""
    answered = [cell for cell in cells if "refused" not in cell]
    methods = {}
    for method in dict.fromkeys(cell["method"] for cell in cells):
        mine = [cell for cell in answered if cell["method"] == method]
        told = [cell for cell in mine if cell["ratio"] is not None]
        methods[method] = {
            "cells": len(mine),
            "refused": sum("refused" in cell for cell in cells if cell["method"] == method),
            "coverage": round(float(np.mean([cell["coverage"] for cell in mine])), 4) if mine else None,
            "lowest": min((cell["coverage"] for cell in mine), default=None),
            "surely below 0.94": [_words(cell) for cell in mine if cell["bounds"][1] < TARGET],
            "above 0.995": sum(cell["coverage"] > SURELY for cell in mine),
            "nothing learned": [_words(cell) for cell in mine if cell["whole_range"]],
            "forecasts within 1.5": f"{sum(_near(cell) for cell in told)} of {len(told)}",
            "intervals within 1.5": f"{sum(_near(cell, 'interval_ratio') for cell in told)} of {len(told)}",
        }
    told = [cell for cell in answered if cell["ratio"] is not None]
    return {
        "cells": len(answered),
        "surely below 0.94": sum(cell["bounds"][1] < TARGET for cell in answered),
        "mean below 0.94": sum(cell["coverage"] < TARGET for cell in answered),
        "forecasts within a factor of 1.5": round(sum(map(_near, told)) / max(1, len(told)), 3),
        "intervals within a factor of 1.5": round(
            sum(_near(cell, "interval_ratio") for cell in told) / max(1, len(told)), 3
        ),
        "methods": methods,
    }


def _near(cell: dict[str, Any], ratio: str = "ratio") -> bool:
    return bool(1 / FACTOR <= cell[ratio] <= FACTOR)


def _words(cell: dict[str, Any]) -> str:
    return f"{cell['table']}, {cell['relation']}, epsilon {cell['epsilon']:g}: {cell['coverage']:.3f}"


def run(options: Namespace) -> None:
    if options.part not in ("all", *QUESTIONS):
        raise SystemExit(f"--part is one of {', '.join(QUESTIONS)}")
    times = QUICK if options.quick else REPETITIONS
    only = [options.part] if options.part in QUESTIONS else list(QUESTIONS)
    tables = ["heart"] if options.quick else list(TABLES)
    jobs = [
        (method, key, relation, epsilon, times, str(options.data))
        for key in tables
        for method in only
        for relation in RELATIONS
        for epsilon in EPSILONS
    ]
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2))) as pool:
        cells = list(track(pool.map(measure, jobs), total=len(jobs), description="honesty"))
    for cell in cells:
        print({key: value for key, value in cell.items() if key not in ("values", "repetitions")})
    cells, again = _together(cells, only, options)
    content = {"summary": summarize(cells), **again, "cells": cells}
    report.write("honesty", options, content, None if options.quick else _figure(cells))


def _together(
    cells: list[dict[str, Any]], methods: Sequence[str], options: Namespace
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """With `--part METHOD` its cells take the place of the old ones in the file, which says when each was measured."""
    file = report.RESULTS / "honesty.json"
    if options.quick or len(methods) == len(QUESTIONS) or not file.exists():
        return cells, {}
    before = json.loads(file.read_text(encoding="utf-8"))
    kept = [cell for cell in before["cells"] if cell["method"] not in methods]
    order = {(method, key): i for i, (key, method) in enumerate(itertools.product(TABLES, QUESTIONS))}
    every = sorted([*kept, *cells], key=lambda cell: order[cell["method"], cell["table"]])
    return every, {"the others": before.get("the others", before["about"])}


def _figure(cells: Sequence[dict[str, Any]]) -> Figure:
    """Coverage and forecasts, a line for each method, a mark for each cell."""
    answered = [cell for cell in cells if "refused" not in cell]
    methods = list(dict.fromkeys(cell["method"] for cell in answered))[::-1]
    figure = Figure(figsize=(13, 1.6 + 0.34 * len(methods)), layout="constrained")
    left, middle, right = figure.subplots(1, 3, sharey=True)
    colours = dict(zip(EPSILONS, ("#c55a11", "#1f4e79", "#2f8f4e"), strict=True))
    marks = dict(zip(RELATIONS, ("o", "D"), strict=True))
    for cell in answered:
        y = methods.index(cell["method"]) + 0.22 * (EPSILONS.index(cell["epsilon"]) - 1)
        style = {"marker": marks[cell["relation"]], "color": colours[cell["epsilon"]], "s": 16, "alpha": 0.75}
        left.scatter(cell["coverage"], y, **style)
        middle.scatter(max(cell["width"], 1e-5), y, **style)
        if cell["ratio"] is not None:
            right.scatter(np.clip(cell["ratio"], 0.05, 20), y, **style)
    left.axvline(TARGET, color="#7f7f7f", linestyle="--")
    left.set_title("coverage of 95 % intervals (target 0.94)")
    middle.set_xscale("log")
    middle.set_title("mean width / public range")
    right.set_xscale("log")
    right.set_xticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
    right.xaxis.set_minor_formatter(NullFormatter())
    right.axvspan(1 / FACTOR, FACTOR, color="#7f7f7f", alpha=0.15)
    right.set_title("forecast / realised error (95 %)")
    left.set_yticks(range(len(methods)), methods)
    for epsilon, colour in colours.items():
        right.scatter([], [], color=colour, label=f"epsilon {epsilon:g}")
    for relation, mark in marks.items():
        right.scatter([], [], color="#555555", marker=mark, label=relation)
    right.legend(fontsize=8, loc="upper right")
    for ax in (left, middle, right):
        ax.grid(alpha=0.25)
    return figure
