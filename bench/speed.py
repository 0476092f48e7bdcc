"""Time of private explanations against the bare predictions they need, and against scikit-learn, in one process.

A random forest on Adult, everything included: ledger, cleaning, quantising, noise, post-processing.
PDP: 20 grid points of `age`. ALE: `age`, two predictions for each row. Rank aggregation: 200 parts, each ranks the 13
features by permutation importance, against one importance pass over the same rows (14 predictions for each row).
All are timed in turns; a ratio is the median over the rounds of the ratio within a round. Ours uses all cores for the
forest that predicts on one; the single-threaded ratio stands beside it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from itertools import count

import numpy as np
from matplotlib.figure import Figure
from sklearn.inspection import partial_dependence

import dpexplain as dpx
from bench import report
from bench.tables import adult

POINTS = 20
OTHERS = ("bare_predictions", "sklearn_brute", "bare_ale_predictions", "one_importance_pass")


def run(options: Namespace) -> None:
    rounds = 1 if options.quick else 5
    case = adult(options.data)
    frame = case.frame.astype(float)  # scikit-learn's partial dependence takes no integer columns
    column = case.domain["age"]
    points = np.linspace(column.low, column.high, POINTS)
    fresh = count()
    with tempfile.TemporaryDirectory() as folder:
        table = dpx.PrivateTable(
            frame.assign(target=case.target),
            domain=dpx.Domain({**case.domain, "target": dpx.Categorical([0, 1])}),
            budget=dpx.Budget(10**6),
            relation="replace-one",
            ledger=f"sqlite:///{folder}/budget.db",
            name="speed",
        )

        def private(threads: bool) -> None:
            dpx.partial_dependence(table, fresh_model(threads), "age", epsilon=1, grid={"age": points})

        def fresh_model(threads: bool) -> dpx.Model:
            return dpx.Model(
                case.estimator, output=(0, 1), label=1, version=str(next(fresh)), name="forest", thread_safe=threads
            )

        def ale(threads: bool) -> None:
            dpx.accumulated_effects(table, fresh_model(threads), "age", epsilon=1)

        def bare_ale() -> None:
            for shift in (0, 1):
                case.estimator.predict_proba(frame.assign(age=np.clip(frame["age"] + shift, column.low, column.high)))

        def votes(threads: bool) -> None:
            items = list(case.frame.columns)
            dpx.rank_aggregation(
                table, "importance", items, model=fresh_model(threads), target="target", parts=200, epsilon=1
            )

        def pfi_pass() -> None:
            case.estimator.predict_proba(frame)
            for name in case.frame.columns:
                case.estimator.predict_proba(frame.assign(**{name: frame[name].to_numpy()[::-1]}))

        def bare() -> None:
            for point in points:
                case.estimator.predict_proba(frame.assign(age=point))

        def sklearn() -> None:
            partial_dependence(
                case.estimator, frame, ["age"], custom_values={"age": points}, method="brute", kind="average"
            )

        jobs: dict[str, Callable[[], None]] = {
            "private": lambda: private(True),
            "private_one_thread": lambda: private(False),
            "bare_predictions": bare,
            "sklearn_brute": sklearn,
            "ale": lambda: ale(True),
            "ale_one_thread": lambda: ale(False),
            "bare_ale_predictions": bare_ale,
            "rank_aggregation": lambda: votes(True),
            "rank_aggregation_one_thread": lambda: votes(False),
            "one_importance_pass": pfi_pass,
        }
        times: dict[str, list[float]] = {name: [] for name in jobs}
        for _ in range(rounds):
            for name, job in jobs.items():
                start = time.perf_counter()
                job()
                times[name].append(time.perf_counter() - start)
    compared = [
        *((ours, base) for ours in ("private", "private_one_thread") for base in ("bare_predictions", "sklearn_brute")),
        *((ours, "bare_ale_predictions") for ours in ("ale", "ale_one_thread")),
        *((ours, "one_importance_pass") for ours in ("rank_aggregation", "rank_aggregation_one_thread")),
    ]
    ratios = {
        f"{ours}/{base}": round(statistics.median(a / b for a, b in zip(times[ours], times[base], strict=True)), 3)
        for ours, base in compared
    }
    summary = {"rows": len(case.frame), "points": POINTS, "rounds": rounds, "ratios": ratios}
    report.write("speed", options, {"summary": summary, "seconds": times}, None if options.quick else _figure(times))


def _figure(times: dict[str, list[float]]) -> Figure:
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    ax = figure.add_subplot()
    for place, (name, seconds) in enumerate(times.items()):
        ax.plot(seconds, [place] * len(seconds), "o", color="#c55a11" if name in OTHERS else "#1f4e79", alpha=0.7)
    ax.set_yticks(range(len(times)), [name.replace("_", " ") for name in times])
    ax.set_xlim(0)
    ax.invert_yaxis()
    ax.set_xlabel("seconds, one dot a round")
    ax.set_title("Random forest, Adult: ours, and what it is compared with", fontsize=10)
    return figure
