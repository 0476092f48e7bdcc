"""Local explanations from a stand-in: the loss beside that of our sketch of moments and of MST rows.

    python -m bench local_posterior [--quick] [--tables adult,bike]

Tables, models, accounts and prices of `bench posterior` (bench/posterior_tables.py). Each method has the whole price:

    now      `dpx.local_sketch(method="moments")`; pure accounts cannot pay for it
    mst      local models fitted to MST synthetic rows (bench/synthetic.py), 10,000 of them
    rows     the same for rows of `dpx.stand_in(table)`, and `scores` for rows of `dpx.stand_in(table, model)`, weighted
             by its counts by scores: the two forms of method="stand-in"
    ours     what method="auto" takes, from public things; for models whose scores are not counted here, `rows`

A loss is the paper's approximation loss, E(phi) = L(phi) - min L, with the stable weight, over all rows of the table
and their predictions, on average over RECORDS rows of the table that are explained. Twice: with the value at the record
fitted, as `explain(record)` does by itself, and in the middle of the output range (`anchor="middle"`), as `bench local`
and the paper have it. The exact side (A, b and the minimum) is computed here on its own.

    explained   L(0) - min L: what there is to explain. Losses are shares of it.
    ratio       the mean loss over that of the better of `now` and `mst`

`--tables` measures some tables, keeps what was measured in bench/cache and writes no results; `--repetitions` says how
often. The run without `--tables` writes down everything that is kept; with `--repetitions 0` nothing else is measured.
"""

from __future__ import annotations

import itertools
import json
import time
import warnings
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import dpexplain as dpx
from bench import report, synthetic
from bench.posterior import EPSILONS, geometric
from bench.posterior_baselines import CACHE, DELTAS, FEWEST_ROWS, MOST_ROWS
from bench.posterior_tables import MODELS, TABLES, Case
from bench.scenes import Problem, stable
from dpexplain.core.domain import PublicRange
from dpexplain.data.rows import Rows
from dpexplain.maths.surrogate import Space, StepWeight
from dpexplain.maths.surrogate.rows import WeightedRows
from dpexplain.methods.local_sketch.release import composition
from dpexplain.methods.local_sketch.request import LocalSketchRequest
from dpexplain.methods.posterior import local_rows
from dpexplain.methods.setting import Setting

Floats = NDArray[np.float64]
Losses = dict[str, list[float]]

RECORDS = 20
REPETITIONS, OF_SCORES = 5, 2  # of each cell; the committed results have one to three, as each cell says
SCORED = ("forest", "network")  # the models whose scores are counted, too: of the others they take too long
LIMITS = (0.9, 1.3)
QUESTIONS = ("fitted", "middle")
METHODS = ("now", "mst", "rows", "scores")


class Exact:
    """The exact losses around some rows of a table, for one model. Weights add up to one."""

    def __init__(self, case: Case) -> None:
        self.output = PublicRange(*case.output)
        self.problems: dict[str, list[Problem]] = {question: [] for question in QUESTIONS}

    @classmethod
    def of(cls, case: Case, space: Space, records: Floats) -> dict[str, Exact]:
        """Those of all models; A is the same for them."""
        found = {kind: cls(case) for kind in MODELS}
        X, (low, high) = space.coordinates(case.rows.columns, case.size), case.output
        matrix = case.matrix(case.rows)
        scores = np.stack([np.clip(case.fast[kind](matrix), low, high) for kind in MODELS], axis=1)
        F = 2 * (scores - low) / (high - low) - 1
        for z in records:
            D = X - z
            a = stable(np.sqrt(np.einsum("ij,ij->i", D, D)))
            a /= a.sum()
            W = D * a[:, None]
            A, B, c, d, f = W.T @ D, W.T @ F, a @ F**2, a @ D, a @ F
            for number, kind in enumerate(MODELS):
                problems, b, g = found[kind].problems, B[:, number], float(f[number])
                problems["middle"].append(Problem(A, b, float(c[number])))
                problems["fitted"].append(Problem(A - np.outer(d, d), b - d * g, float(c[number]) - g * g))
        return found

    def best(self, question: str, problem: Problem) -> Floats:
        """Where the value is fitted there is no ball."""
        if question == "middle":
            return problem.best
        return np.asarray(np.linalg.lstsq(problem.A, problem.b, rcond=1e-9)[0])

    def explained(self, question: str) -> float:
        parts = [p.c - p.loss(self.best(question, p)) for p in self.problems[question]]
        return float(np.mean(parts))

    def loss(self, question: str, lines: Sequence[Floats]) -> float:
        """The mean loss of coefficients on the scale of -1 to 1."""
        pairs = zip(self.problems[question], lines, strict=True)
        return float(np.mean([p.loss(phi) - p.loss(self.best(question, p)) for p, phi in pairs]))


# One table at one price -----------------------------------------------------------------------------------------------


def measured(case: Case, account: str, epsilon: float, times: int, of_scores: int) -> dict[str, Any]:
    """model -> question -> method -> losses; what was kept before, and as many more as are asked for."""
    file = file_of(case, account, epsilon)
    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    wanted = {"now": 0 if account == "pure" else times, "mst": times, "rows": times, "scores": of_scores}
    space, start = Space(case.domain, tuple(case.features)), time.perf_counter()
    X = space.coordinates(case.rows.columns, case.size)
    records = X[np.random.default_rng(0).choice(len(X), RECORDS, replace=False)]
    weight = StepWeight.of("stable", space.diameter)
    for kind in MODELS:
        kept.setdefault(kind, {question: {name: [] for name in METHODS} for question in QUESTIONS})
    have = {name: min(len(kept[kind]["middle"][name]) for kind in MODELS) for name in ("now", "mst", "rows")}
    have["scores"] = min(len(kept[kind]["middle"]["scores"]) for kind in SCORED)
    if any(have[name] < wanted[name] for name in wanted):
        exact = Exact.of(case, space, records)
        for kind, question in itertools.product(MODELS, QUESTIONS):
            kept[kind][question]["explained"] = exact[kind].explained(question)
        for name in METHODS:
            for number in range(have[name], wanted[name]):
                for kind, models in models_of(name, case, account, epsilon, number):
                    for question in QUESTIONS:
                        anchor = None if question == "fitted" else exact[kind].output.middle
                        lines = lines_of(models, records, weight, anchor, exact[kind].output)
                        kept[kind][question][name].append(exact[kind].loss(question, lines))
        CACHE.mkdir(exist_ok=True)
        file.write_text(json.dumps(kept))
        print(f"{case.key}, {account}, {epsilon:g}: {time.perf_counter() - start:.0f} s", flush=True)
    return kept


def file_of(case: Case, account: str, epsilon: float) -> Path:
    return CACHE / f"local-{case.key}-{account}-{epsilon:g}-{RECORDS}.json"


def lines_of(
    models: Any, records: Floats, weight: StepWeight, anchor: float | None, output: PublicRange
) -> list[Floats]:
    """Coefficients at each record, on the scale of -1 to 1."""
    if isinstance(models, WeightedRows):
        return [near.phi for near in models.around(records, weight, anchor)]
    return [models.cells.answer(z, weight, anchor).coefficients / (output.width / 2) for z in records]


def models_of(name: str, case: Case, account: str, epsilon: float, number: int) -> Iterator[tuple[str, Any]]:
    """For each model what local models are read from: a sketch, or rows."""
    table = case.private(DELTAS[account])
    if name == "now":
        for kind in MODELS:
            yield kind, dpx.local_sketch(table, case.model(kind), epsilon=epsilon, method="moments")
    elif name == "mst":
        rows = mst_rows(case, account, epsilon, number)
        for kind in MODELS:
            yield kind, weighted(case, kind, rows)
    elif name == "rows":
        stand_in = dpx.stand_in(table, epsilon=epsilon)
        for kind in MODELS:
            yield kind, local_rows(stand_in, case.model(kind)).rows
    else:
        for kind in SCORED:
            yield kind, local_rows(dpx.stand_in(table, case.model(kind), epsilon=epsilon), case.model(kind)).rows


def mst_rows(case: Case, account: str, epsilon: float, seed: int) -> Rows:
    coding, size = synthetic.Coding.of(case.domain, synthetic.cells_at(epsilon)), max(FEWEST_ROWS, MOST_ROWS)
    drawn = synthetic.mst_rows(coding.codes(case.frame), coding.sizes, epsilon, DELTAS[account], seed, rows=size)
    frame = coding.frame(drawn, seed)
    return Rows(case.domain, {name: frame[name].to_numpy(dtype=np.float64) for name in case.features}, size)


def weighted(case: Case, kind: str, rows: Rows) -> WeightedRows:
    space, even = Space(case.domain, tuple(case.features)), np.full(rows.size, 1.0 / rows.size)
    X, answers = space.coordinates(rows.columns, rows.size), case.fast[kind](case.matrix(rows))
    return WeightedRows(space, PublicRange(*case.output), X, answers, even)


# Figures --------------------------------------------------------------------------------------------------------------


def chosen(case: Case, account: str, epsilon: float, kind: str) -> str:
    """What the product takes by itself, in the words of this benchmark."""
    table = case.private(DELTAS[account])
    form = composition(LocalSketchRequest(), Setting.of(table, case.model(kind)), table.cost(epsilon=epsilon))
    return {"moments": "now", "stand-in": "rows", "scored stand-in": "scores"}[form]


def cells_of(case: Case, account: str, epsilon: float, kept: Mapping[str, Any]) -> list[dict[str, Any]]:
    cells = []
    for kind, question in itertools.product(MODELS, QUESTIONS):
        losses = dict(kept[kind][question])
        whole = losses.pop("explained")
        shares = {name: [loss / whole for loss in losses[name]] for name in METHODS if losses[name]}
        where = {"table": case.key, "rows": case.size, "model": kind, "account": account, "epsilon": epsilon}
        auto = chosen(case, account, epsilon, kind)
        if auto == "scores" and "scores" not in shares:
            auto = "rows"  # not measured with the scores of this model: what it would have without them
        cells.append({**where, "question": question, "explained": whole, "auto": auto, "losses": shares})
    return cells


def ratio(cell: Mapping[str, Any], name: str) -> float:
    """Over the better of the baselines."""
    means = {method: float(np.mean(losses)) for method, losses in cell["losses"].items()}
    return means[name] / min(means[other] for other in ("now", "mst") if other in means)


def summarize(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """For each question the ratios of every form, and of what the product takes."""
    summary: dict[str, Any] = {}
    for question in QUESTIONS:
        mine = [cell for cell in cells if cell["question"] == question]
        lines: dict[str, Any] = {}
        for name in ("rows", "scores", "ours"):
            judged = [(c, c["auto"] if name == "ours" else name) for c in mine]
            judged = [(c, method) for c, method in judged if method in c["losses"]]
            if judged:
                lines[name] = _ratios([(c, ratio(c, method)) for c, method in judged])
        lines["ours over now, geometric mean"] = _short(
            geometric([_mean(c, c["auto"]) / _mean(c, "now") for c in mine if {"now", c["auto"]} <= set(c["losses"])])
        )
        shares = defaultdict(list)
        for cell in mine:
            for name in cell["losses"]:
                shares[f"epsilon {cell['epsilon']:g}, {name}"].append(_mean(cell, name))
        lines["mean share lost"] = {name: _short(geometric(values)) for name, values in sorted(shares.items())}
        summary[question] = lines
    return summary


def _mean(cell: Mapping[str, Any], name: str) -> float:
    return float(np.mean(cell["losses"][name]))


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def _ratios(judged: Sequence[tuple[Mapping[str, Any], float]]) -> dict[str, Any]:
    aim, limit = LIMITS
    values = [value for _, value in judged]
    worst = sorted(judged, key=lambda pair: -pair[1])[:8]

    def by(*keys: str) -> dict[str, float]:
        groups = defaultdict(list)
        for cell, value in judged:
            groups[", ".join(str(cell[key]) for key in keys)].append(value)
        return {name: _short(geometric(some)) for name, some in groups.items()}

    return {
        "cells": len(values),
        "geometric mean of ratios": _short(geometric(values)),
        "aim": aim,
        "reached": bool(geometric(values) <= aim),
        f"cells above {limit}": sum(value > limit for value in values),
        "by table": by("table"),
        "by account and epsilon": by("account", "epsilon"),
        "worst cells": {
            f"{c['table']}, {c['model']}, {c['account']}, epsilon {c['epsilon']:g}": _short(value) for c, value in worst
        },
    }


def figure_of(cells: Sequence[Mapping[str, Any]]) -> Figure:
    """Shares lost by epsilon: a column for each table, a line for each account; the value at the record fitted."""
    tables, accounts = list(dict.fromkeys(c["table"] for c in cells)), list(DELTAS)
    figure = Figure(figsize=(3.1 * len(tables) + 0.8, 6.4), layout="constrained")
    axes = figure.subplots(len(accounts), len(tables), squeeze=False)
    styles = {"now": ("moments", "#c55a11", "-s"), "mst": ("MST rows", "#7f6000", "--^")}
    styles |= {"rows": ("stand-in", "#2e75b6", "-o"), "scores": ("stand-in, scores (forest, network)", "#1f4e79", ":o")}
    for (line, account), (column, table) in itertools.product(enumerate(accounts), enumerate(tables)):
        ax = axes[line][column]
        mine = [c for c in cells if (c["table"], c["account"], c["question"]) == (table, account, "fitted")]
        for name, (label, colour, style) in styles.items():
            known = [c for c in mine if name in c["losses"]]
            lines = [(e, [_mean(c, name) for c in known if c["epsilon"] == e]) for e in EPSILONS]
            points = [(e, geometric(values)) for e, values in lines if values]
            if points:
                ax.plot(*zip(*points, strict=True), style, color=colour, markersize=4, label=label)
        ax.set(xscale="log", yscale="log", title=f"{table}, {mine[0]['rows']:,} rows, {account}")
        ax.title.set_fontsize(9)
        ax.grid(alpha=0.25)
    for line in range(len(accounts)):
        axes[line][0].set_ylabel("share of the explainable loss that is lost")
    axes[0][0].legend(fontsize=7)
    figure.suptitle("Local explanations for one price, by total epsilon")
    return figure


def run(options: Namespace) -> None:
    keys, prices = list(TABLES), list(EPSILONS)
    times = REPETITIONS if options.repetitions is None else options.repetitions
    scored = min(times, OF_SCORES)
    if options.quick:
        keys, prices, times, scored = ["german"], [1.0], 1, 1
    keys = options.tables.split(",") if options.tables else keys
    cells: list[dict[str, Any]] = []
    for key in keys:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case = Case.of(key, options.data)
            for epsilon, account in itertools.product(prices, DELTAS):
                if times or file_of(case, account, epsilon).exists():
                    cells += cells_of(case, account, epsilon, measured(case, account, epsilon, times, scored))
        case.forget()
    if options.tables:
        return
    content = {"summary": summarize(cells), "cells": [_rounded(cell) for cell in cells]}
    report.write("local_posterior", options, content, None if options.quick else figure_of(cells))


def _rounded(cell: Mapping[str, Any]) -> dict[str, Any]:
    losses = {name: [_short(loss) for loss in some] for name, some in cell["losses"].items()}
    return {**cell, "explained": _short(cell["explained"]), "losses": losses}
