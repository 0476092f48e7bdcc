"""Time of the private PDP against the bare predictions it needs, and against scikit-learn, in one process.

A random forest on Adult, 20 grid points of `age`, everything included: ledger, cleaning, quantising, noise, smoothing.
The three are timed in turns; a ratio is the median over the rounds of the ratio within a round. Ours uses all cores for
the forest that predicts on one; the single-threaded ratio stands beside it.
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


def run(options: Namespace) -> None:
    rounds = 1 if options.quick else 7
    case = adult(options.data)
    frame = case.frame.astype(float)  # scikit-learn's partial dependence takes no integer columns
    column = case.domain["age"]
    points = np.linspace(column.low, column.high, POINTS)
    fresh = count()
    with tempfile.TemporaryDirectory() as folder:
        table = dpx.PrivateTable(
            frame,
            domain=case.domain,
            budget=dpx.Budget(10**6),
            relation="replace-one",
            ledger=f"sqlite:///{folder}/budget.db",
            name="speed",
        )

        def private(threads: bool) -> None:
            model = dpx.Model(
                case.estimator, output=(0, 1), label=1, version=str(next(fresh)), name="forest", thread_safe=threads
            )
            dpx.partial_dependence(table, model, "age", epsilon=1, grid={"age": points})

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
        }
        times: dict[str, list[float]] = {name: [] for name in jobs}
        for _ in range(rounds):
            for name, job in jobs.items():
                start = time.perf_counter()
                job()
                times[name].append(time.perf_counter() - start)
    ratios = {
        f"{ours}/{base}": round(statistics.median(a / b for a, b in zip(times[ours], times[base], strict=True)), 3)
        for ours in ("private", "private_one_thread")
        for base in ("bare_predictions", "sklearn_brute")
    }
    summary = {"rows": len(case.frame), "points": POINTS, "rounds": rounds, "ratios": ratios}
    report.write("speed", options, {"summary": summary, "seconds": times}, None if options.quick else _figure(times))


def _figure(times: dict[str, list[float]]) -> Figure:
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    ax = figure.add_subplot()
    for place, (name, seconds) in enumerate(times.items()):
        ax.plot(seconds, [place] * len(seconds), "o", color="#1f4e79" if "private" in name else "#c55a11", alpha=0.7)
    ax.set_yticks(range(len(times)), [name.replace("_", " ") for name in times])
    ax.set_xlim(0)
    ax.invert_yaxis()
    ax.set_xlabel("seconds, one dot a round")
    ax.set_title("PDP of age, random forest, Adult: 20 points", fontsize=10)
    return figure
