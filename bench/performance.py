"""Is the model good, and for whom: error and coverage of `dpx.performance`, beside MST rows for the same price.

Four tables, four models, epsilon 0.1 to 3, pure and zCDP accounts (delta 1e-6), one row replaced. `dpx.performance`
runs with noise of the operating system; exact figures come from the rows themselves, written on their own
(bench/performance_tables.py). Predictions are remembered, so a repetition differs in its noise alone. Each table is
grouped by sex; Adult and Diabetes also, in another release, by sex, race and sex x race together.

    rmse, p95     root mean squared error and 95 % quantile of the absolute error, over repetitions, models and groups
    coverage      share of the exact figures inside their 95 % intervals; `low` and `high` are one-sided 99 % bounds
                  over releases (figures of one release are not independent)
    width         mean half-width of the intervals
    undetermined  share of the figures that say so; they have no error, and are covered where their interval holds
    mst           the errors of the same figures from MST rows (bench/synthetic.py), bought for the same epsilon: the
                  model is asked about synthetic rows, whose target is synthetic too. They have no intervals.

"Within" of a target means rmse; p95 stands beside it. At the end: how often a row is predicted, and time
against bare predictions.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
import warnings
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.progress import track

import dpexplain as dpx
from bench import report, synthetic
from bench.cached import BenchAccount
from bench.performance_tables import (
    FAIRNESS,
    FIGURES,
    MODELS,
    RATES,
    SEX,
    TABLES,
    TARGET,
    Judged,
    Memory,
    exact,
    fairness,
    members,
    model_of,
)
from dpexplain.core.release import Door
from dpexplain.core.sensitivity import Neighbours, Relation

EPSILONS = (0.1, 0.3, 1.0, 3.0)
DELTAS = {"pure": None, "zcdp": 1e-6}
REPETITIONS = 10  # of each model at each price, ours and MST's
SYNTHETIC_ROWS = 30_000  # at most
ROUNDS = 3  # of the clock
BY_GROUP = (*RATES, "auc")
AIMS = {  # at epsilon 1: error of AUC, error of group rates
    "adult": (0.005, 0.01), "diabetes": (0.005, 0.01), "german": (0.02, 0.05), "framingham": (0.02, 0.05),
}  # fmt: skip
LOWEST, HIGHEST = 0.94, 0.99
Said = tuple[int, str, float, float, float, float]  # repetition, model, value, low, high, exact


# Our releases ---------------------------------------------------------------------------------------------------------


def private(table: Judged, budget: dpx.Budget) -> dpx.PrivateTable:
    """A table whose account has no end and no memory: every call is a new release."""
    made = dpx.PrivateTable(
        table.frame, domain=table.domain, budget=budget, relation="replace-one", ledger="sqlite:///:memory:",
        name=table.name,
    )  # fmt: skip
    made.door = Door(BenchAccount(budget, Neighbours(Relation.REPLACE_ONE)))
    return made


class Truth:
    """Exact figures of one model, for rows that are real or synthetic; a group without rows has none."""

    def __init__(self, frame: pd.DataFrame, scores: np.ndarray, threshold: float) -> None:
        self._frame, self._scores, self._threshold = frame, scores, threshold
        self._outcome = frame[TARGET].to_numpy() == 1
        self._known: dict[Any, dict[str, float]] = {}

    def of(self, group: Mapping[str, Any], edges: Sequence[float]) -> dict[str, float]:
        key = (tuple(group.items()), tuple(edges))
        if key not in self._known:
            mine = members(self._frame, group)
            self._known[key] = exact(self._scores[mine], self._outcome[mine], self._threshold, edges)
        return self._known[key]

    def all(self, entries: Mapping[str, Sequence[Mapping[str, Any]]], edges: Sequence[float]) -> dict[Any, float]:
        """(scope, figure, place of the group) -> figure."""
        found = {("everybody", name, 0): self.of({}, edges)[name] for name in FIGURES}
        for scope, cells in entries.items():
            each = [self.of(cell, edges) for cell in cells]
            for place, figures in enumerate(each):
                found |= {(scope, name, place): figures[name] for name in BY_GROUP}
            found |= {(scope, name, 0): value for name, value in fairness(each).items()}
        return found


def entries_of(table: Judged, groups: Sequence[Sequence[str]]) -> dict[str, list[dict[str, Any]]]:
    """The groups of each entry, in words: every combination of declared values."""
    return {
        " x ".join(by): [
            dict(zip(by, values, strict=True))
            for values in itertools.product(*(table.domain[column].categories for column in by))
        ]
        for by in groups
    }


def figures_of(found: dpx.results.Performance, entries: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[Any, Any]:
    """(scope, figure, place of the group) -> Estimate."""
    lines = {("everybody", name, 0): found.figure(name) for name in FIGURES}
    for (scope, cells), by in zip(entries.items(), found.by, strict=True):
        for place, cell in enumerate(cells):
            lines |= {(scope, name, place): found.figure(name, group=cell) for name in BY_GROUP}
        lines |= {(scope, name, 0): getattr(found, name)(by) for name in FAIRNESS}
    return lines


# One cell: a table, an account, an epsilon ----------------------------------------------------------------------------

_cases: dict[str, Case] = {}


class Case:
    """A table with its models, what they say about it, and what they said before."""

    def __init__(self, table: Judged) -> None:
        self.table = table
        self.memories = {kind: Memory(table, kind) for kind in MODELS}
        self.models = {kind: model_of(table, memory, kind) for kind, memory in self.memories.items()}
        rows = table.frame[table.features].to_numpy()
        self.truths = {
            kind: Truth(table.frame, memory.answers(rows), table.threshold) for kind, memory in self.memories.items()
        }


def case_of(key: str, data: str) -> Case:
    if key not in _cases:
        _cases.clear()
        _cases[key] = Case(TABLES[key](Path(data)))
    return _cases[key]


Job = tuple[str, str, float, int, str]  # table, account, epsilon, repetitions, folder of the data


def measure_ours(job: Job, size: int) -> list[dict[str, Any]]:
    """Releases grouped by sex (`size` 1) or by everything there is: a line for each scope and figure."""
    key, account, epsilon, times, data = job
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = case_of(key, data)
        table, said, cells = case.table, defaultdict(list), set()
        groups = table.groups[:size]
        entries, asked = entries_of(table, groups), [by[0] if len(by) == 1 else by for by in groups]
        delta = DELTAS[account]
        exposed = private(table, dpx.Budget(10**6) if delta is None else dpx.Budget(10**6, delta))
        for kind, repetition in itertools.product(MODELS, range(times)):
            found = dpx.performance(
                exposed, case.models[kind], TARGET, asked, threshold=table.threshold, positive=1, epsilon=epsilon
            )
            cells.add(len(found.edges) - 1)
            exactly = case.truths[kind].all(entries, found.edges)
            for place, estimate in figures_of(found, entries).items():
                value = estimate.value if estimate.determined else float("nan")
                said[place[:2]].append((repetition, kind, value, estimate.low, estimate.high, exactly[place]))
    where = {"table": key, "rows": len(table.frame), "account": account, "epsilon": epsilon, "groupings": len(groups)}
    about = {**where, "score_cells": max(cells)}
    return [{**about, "scope": scope, "figure": name, **summary(each)} for (scope, name), each in said.items()]


def measure_mst(job: Job) -> dict[str, dict[str, float] | None]:
    """The errors of the same figures from MST rows, by scope and figure; calibration errors in 20 even cells."""
    key, account, epsilon, times, data = job
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = case_of(key, data)
        table, missed, edges = case.table, defaultdict(list), np.linspace(0, 1, 21).tolist()
        entries = entries_of(table, table.groups)
        for rows in _synthetic(table, epsilon, DELTAS[account], times):
            for kind in MODELS:
                exactly = case.truths[kind].all(entries, edges)
                other = Truth(rows, case.memories[kind].answers(rows[table.features].to_numpy()), table.threshold)
                for place, value in other.all(entries, edges).items():
                    if np.isfinite(exactly[place]):
                        missed[f"{place[0]}: {place[1]}"].append(value - exactly[place])
    return {name: errors(each) for name, each in missed.items()}


def measure(job: Job) -> list[dict[str, Any]]:
    """All of one table at one price."""
    theirs, sizes = measure_mst(job), sorted({1, len(case_of(job[0], job[4]).table.groups)})
    return joined([line for size in sizes for line in measure_ours(job, size)], theirs)


def joined(lines: Sequence[dict[str, Any]], theirs: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{**line, "mst": theirs.get(f"{line['scope']}: {line['figure']}")} for line in lines]


def _synthetic(table: Judged, epsilon: float, delta: float | None, times: int) -> Iterator[pd.DataFrame]:
    coding = synthetic.Coding.of(table.domain, synthetic.cells_at(epsilon))
    codes = coding.codes(table.frame)
    rows = min(len(codes), SYNTHETIC_ROWS)
    for seed in range(times):
        drawn = synthetic.mst_rows(codes, coding.sizes, epsilon, delta, seed, rows=rows)
        yield coding.frame(drawn, seed)


def errors(differences: Sequence[float]) -> dict[str, float] | None:
    """Root mean squared error and 95 % quantile; a figure that is not there has none."""
    known = np.array([value for value in differences if np.isfinite(value)])
    if not len(known):
        return None
    absolute = np.abs(known)
    return {
        "rmse": _short(np.sqrt(np.mean(known**2))),
        "p95": _short(np.quantile(absolute, 0.95)),
        "missing": _short(1 - len(known) / len(differences)),
    }


def summary(said: Sequence[Said]) -> dict[str, Any]:
    """Errors and coverage of one figure. Where the exact figure does not exist (a division by no rows), nothing is
    judged.
    """
    said = [line for line in said if np.isfinite(line[5])]
    if not said:
        return {"values": 0}
    by_release: dict[Any, list[bool]] = defaultdict(list)
    for repetition, kind, _, low, high, truth in said:
        by_release[repetition, kind].append(low - 1e-9 <= truth <= high + 1e-9)
    covered = np.array([np.mean(held) for held in by_release.values()])
    draw = np.random.default_rng(0)
    means = covered[draw.integers(len(covered), size=(4_000, len(covered)))].mean(axis=1)
    low, high = np.quantile(means, [0.01, 0.99])
    widths = [(min(line[4], 10.0) - line[3]) / 2 for line in said]
    return {
        "values": len(said),
        "ours": errors([line[2] - line[5] for line in said]),
        "undetermined": _short(np.mean([np.isnan(line[2]) for line in said])),
        "coverage": _short(np.mean(covered)),
        "low": _short(low),
        "high": _short(high),
        "width": _short(np.mean(widths)),
    }


def _short(value: Any) -> float:
    return float(f"{float(value):.4g}")


# Time -----------------------------------------------------------------------------------------


def timed(data: Path, rounds: int) -> dict[str, Any]:
    """Processor time of a release by sex over that of the bare predictions of the same rows, in turns, one thread: the
    median ratio of the rounds. `checked` is a model that passed its checks on synthetic rows before, as after any other
    explanation of it; `new` has them in it. What does not grow with the table: a block that is asked again, the
    ledger. Figures are computed afterwards: their seconds stand beside it.
    """
    found: dict[str, Any] = {}
    cases = [("diabetes", kind, 1) for kind in MODELS] + [("adult", "forest", 16)]
    for key, kind, copies in cases:
        table = TABLES[key](data)
        frame = pd.concat([table.frame] * copies, ignore_index=True)
        estimator, times = table.estimator(kind), defaultdict(list)
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exposed = dpx.PrivateTable(
                frame, domain=table.domain, budget=dpx.Budget(10**6), relation="replace-one",
                ledger=f"sqlite:///{folder}/budget.db", name="speed",
            )  # fmt: skip
            known: dpx.Model | None = None
            for number in range(rounds + 1):  # the first one warms up
                fresh = dpx.Model(
                    estimator, output=(0.0, 1.0), label=1, features=table.features, name=kind, version=str(number),
                    thread_safe=False,
                )  # fmt: skip
                known = known or fresh
                jobs = {
                    "bare": partial(estimator.predict_proba, frame[table.features]),
                    "new": partial(_released, exposed, fresh, 1 + number / 1000),
                    "checked": partial(_released, exposed, known, 2 + number / 1000),
                }
                for name, job in jobs.items():
                    start = time.process_time()
                    job()
                    times[name].append(time.process_time() - start)
            released = _released(exposed, known, 3.0)
            start = time.process_time()
            released.to_frame()
            figures = {"all figures, s": _short(time.process_time() - start)}
        ratios = {
            name: _short(statistics.median(a / b for a, b in zip(times[name][1:], times["bare"][1:], strict=True)))
            for name in ("checked", "new")
        }
        bare = {"bare, s": _short(statistics.median(times["bare"][1:]))}
        found[f"{key}, {kind}, {len(frame):,} rows"] = {**ratios, **bare, **figures}
    return found


def _released(table: dpx.PrivateTable, model: dpx.Model, epsilon: float) -> dpx.results.Performance:
    return dpx.performance(table, model, TARGET, [SEX], epsilon=epsilon)


def predictions(data: Path) -> dict[str, float]:
    """How many rows a checked model is asked about in one release, for each row of the table."""
    table = TABLES["adult"](data)
    memory = Memory(table, "logistic")
    model, exposed = model_of(table, memory, "logistic"), private(table, dpx.Budget(10**6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dpx.performance(exposed, model, TARGET, [SEX], epsilon=1.0)
        before = memory.asked
        dpx.performance(exposed, model, TARGET, [SEX], epsilon=1.0)
    return {"rows asked about / rows": _short((memory.asked - before) / len(table.frame))}


# Summary --------------------------------------------------------------------------------------------------------------

RATES_OF_GROUPS = ("accuracy", "selection_rate", "true_positive_rate", "false_positive_rate")


def summarize(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The targets of epsilon 1, coverage, and how the errors compare with those of MST rows."""
    cells = [cell for cell in cells if cell["values"]]
    aims = {}
    for key, account in itertools.product(dict.fromkeys(cell["table"] for cell in cells), DELTAS):
        mine = [c for c in cells if (c["table"], c["account"], c["epsilon"], c["groupings"]) == (key, account, 1.0, 1)]
        if not mine:
            continue
        auc = next(c for c in mine if (c["scope"], c["figure"]) == ("everybody", "auc"))
        rates = [c for c in mine if c["scope"] == SEX and c["figure"] in RATES_OF_GROUPS]
        worst = max(rates, key=lambda c: c["ours"]["rmse"])
        limit, limit_of_rates = AIMS[key]
        aims[f"{key}, {mine[0]['rows']:,} rows, {account}"] = {
            "auc": {**_both(auc), "aim": limit, "reached": auc["ours"]["rmse"] <= limit},
            "worst group rate": {
                "figure": worst["figure"], **_both(worst), "aim": limit_of_rates,
                "reached": worst["ours"]["rmse"] <= limit_of_rates,
            },
        }  # fmt: skip
    below = [c for c in cells if c["high"] < LOWEST]
    compared = [c for c in cells if c["ours"] and c["mst"] and c["mst"]["rmse"] > 0 and c["ours"]["rmse"] > 0]
    figures = dict.fromkeys(c["figure"] for c in cells)
    return {
        "at epsilon 1, grouped by sex": aims,
        "coverage by figure": {name: _coverage([c for c in cells if c["figure"] == name]) for name in figures},
        "cells": len(cells),
        "surely below 0.94": [_words(c) for c in below],
        "error, ours over MST rows": {
            f"{account}, epsilon {epsilon:g}": _ratios(
                [c for c in compared if (c["account"], c["epsilon"]) == (account, epsilon)]
            )
            for account, epsilon in itertools.product(DELTAS, EPSILONS)
        },
    }


def _both(cell: Mapping[str, Any]) -> dict[str, Any]:
    mst = cell["mst"] or {}
    return {
        "rmse": cell["ours"]["rmse"],
        "p95": cell["ours"]["p95"],
        "mst rmse": mst.get("rmse"),
        "mst p95": mst.get("p95"),
    }


def _coverage(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    values = np.array([c["coverage"] for c in cells])
    weights = np.array([c["values"] for c in cells])
    return {
        "mean": _short((values * weights).sum() / weights.sum()),
        "lowest cell": _short(values.min()),
        "cells": len(cells),
        "above 0.99": int((values > HIGHEST).sum()),
        "undetermined": _short((np.array([c["undetermined"] for c in cells]) * weights).sum() / weights.sum()),
    }


def _ratios(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    ratios = np.array([c["ours"]["rmse"] / c["mst"]["rmse"] for c in cells])
    if not len(ratios):
        return {}
    return {
        "geometric mean": _short(np.exp(np.log(ratios).mean())),
        "largest": _short(ratios.max()),
        "above 1": int((ratios > 1).sum()),
        "cells": len(ratios),
    }


def _words(cell: Mapping[str, Any]) -> str:
    where = f"{cell['table']}, {cell['account']}, epsilon {cell['epsilon']:g}, {cell['groupings']} groupings"
    return f"{where}: {cell['figure']} of {cell['scope']}, {cell['coverage']:.3f} of {cell['values']}"


def run(options: Namespace) -> None:
    data, times = str(options.data), 2 if options.quick else REPETITIONS
    keys, prices = (["german"], [1.0]) if options.quick else (list(TABLES), list(EPSILONS))
    jobs = [(key, account, epsilon, times, data) for key in keys for account in DELTAS for epsilon in prices]
    if options.quick:
        parts = [measure(job) for job in jobs]
    else:
        with ProcessPoolExecutor(2) as pool:
            parts = list(track(pool.map(measure, jobs), total=len(jobs), description="performance"))
    cells = [cell for part in parts for cell in part]
    extra = {} if options.quick else {"time": timed(options.data, ROUNDS)}
    finish(options, cells, {**extra, "predictions": predictions(options.data)})


def finish(options: Namespace, cells: Sequence[dict[str, Any]], extra: Mapping[str, Any]) -> None:
    content = {"summary": {**summarize(cells), **extra}, "figures": cells}
    report.write("performance", options, content, None if options.quick else _figure(cells))


def _figure(cells: Sequence[dict[str, Any]]) -> Figure:
    """Errors of AUC and of group rates by epsilon, ours and MST's; coverage of all figures."""
    keys = list(dict.fromkeys(cell["table"] for cell in cells))
    figure = Figure(figsize=(14, 9), layout="constrained")
    axes = figure.subplots(3, len(keys), squeeze=False)
    wanted = {"AUC": ("everybody", ("auc",)), "rates by sex": (SEX, RATES_OF_GROUPS)}
    for column, key in enumerate(keys):
        mine = [c for c in cells if c["table"] == key and c["values"] and c["groupings"] == 1]
        for line, (title, (scope, names)) in enumerate(wanted.items()):
            ax, part = axes[line][column], [c for c in mine if c["scope"] == scope and c["figure"] in names]
            for account, colour in (("pure", "#1f4e79"), ("zcdp", "#2f8f4e")):
                for whose, style in (("ours", "-o"), ("mst", "--s")):
                    own = [c for c in part if c["account"] == account and c[whose]]
                    squares = [[c[whose]["rmse"] ** 2 for c in own if c["epsilon"] == e] for e in EPSILONS]
                    means = [np.sqrt(np.mean(square)) if square else np.nan for square in squares]
                    ax.plot(EPSILONS, means, style, color=colour, markersize=4, label=f"{whose}, {account}")
            ax.axhline(AIMS[key][line], color="grey", linewidth=0.8, linestyle=":")
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_title(f"{key}, {mine[0]['rows']:,} rows: {title}", fontsize=9)
            ax.grid(alpha=0.25)
        ax = axes[2][column]
        for account, colour in (("pure", "#1f4e79"), ("zcdp", "#2f8f4e")):
            part = [c for c in cells if c["table"] == key and c["values"] and c["account"] == account]
            shift = 0.97 if account == "pure" else 1.03
            ax.plot([c["epsilon"] * shift for c in part], [c["coverage"] for c in part], ".", color=colour, alpha=0.4)
        ax.axhspan(LOWEST, HIGHEST, color="grey", alpha=0.2)
        ax.set_xscale("log")
        ax.set_ylim(0.8, 1.005)
        ax.set_xlabel("epsilon")
    for line, label in enumerate(
        ("rmse (dotted: the aim at epsilon 1)", "rmse", "coverage of 95 % intervals, a dot a figure")
    ):
        axes[line][0].set_ylabel(label)
    axes[0][0].legend(fontsize=7)
    return figure
