"""One measurement of `python -m bench scale` in a process of its own: `python -m bench.scale_child '{"what": ...}'`.

It prints one line of JSON: seconds on the clock and of the processor, seconds inside the passes over rows, and the peak
resident size that the operating system tells.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

import dpexplain as dpx
from bench import scale_tables
from bench.scale_tables import NUMBERS

WEIGHTS = np.array([0.1, 0.2, 0.3, 0.2, 0.1, 0.1])
MIDDLE = 0.5


class Linear:
    """A cheap model: six multiplications for a row."""

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows @ WEIGHTS)


def quarters(rows: np.ndarray) -> np.ndarray:
    """A rule for clusters: two columns of an array, cut in the middle."""
    high = rows > MIDDLE
    return np.asarray(high[:, 0] + 2 * high[:, 1])


def linear() -> dpx.Model:
    return dpx.Model(Linear(), output=(0, 1), features=NUMBERS, as_array=True, thread_safe=True, name="linear")


def clusters(table: Any, features: list[str]) -> Any:
    """The explanation of four clusters by a rule that takes arrays and may be asked by several threads."""
    how: dict[str, Any] = {"features": features, "as_array": True, "thread_safe": True}
    rule = dpx.Clustering.of(quarters, domain=table.domain, labels=[0, 1, 2, 3], **how)
    return dpx.explain_clusters(table, rule, epsilon=1)


def forest(trees: int, depth: int, jobs: int = 1) -> Any:
    """A random forest of a synthetic rule."""
    from sklearn.ensemble import RandomForestRegressor

    draw = np.random.default_rng(0)
    rows = draw.random((20_000, len(NUMBERS)))
    target = np.clip(rows @ WEIGHTS + 0.2 * (rows[:, 0] > rows[:, 1]) - 0.1, 0, 1)
    return RandomForestRegressor(trees, max_depth=depth, random_state=0, n_jobs=jobs).fit(rows, target)


def opened(source: Any, domain: dpx.Domain, relation: str = "replace-one", delta: float | None = None) -> Any:
    budget = dpx.Budget(10**6) if delta is None else dpx.Budget(10**6, delta)
    return dpx.PrivateTable(
        source, domain=domain, budget=budget, relation=relation, ledger="sqlite:///:memory:", name="scale"
    )


CALLS: dict[str, Callable[[Any], Any]] = {
    "curve": lambda table: dpx.partial_dependence(table, linear(), "x2", epsilon=1),
    "effects": lambda table: dpx.accumulated_effects(table, linear(), "x2", epsilon=1),
    "clusters": lambda table: clusters(table, ["x0", "x1"]),
    "sketch": lambda table: dpx.local_sketch(table, linear(), epsilon=1, method="moments"),
    "stand-in": lambda table: dpx.stand_in(table, epsilon=1),
    "groups": lambda table: dpx.permutation_importance(table, linear(), "y", epsilon=1, method="groups", repeats=1),
    "marginals": lambda table: dpx.marginals(table, epsilon=1),
    "clusters-wide": lambda table: clusters(table, ["x0", "x1"]),
}


class Clock:
    """Seconds inside the passes over rows, on the clock and of the processor."""

    def __init__(self, engine: Any) -> None:
        self._engine, self.seconds, self.processor = engine, 0.0, 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._engine, name)
        return self._timed(found) if name in ("sum_rows", "sum_groups") else found

    def _timed(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            start, used = time.perf_counter(), time.process_time()
            try:
                return verb(*args, **options)
            finally:
                self.seconds += time.perf_counter() - start
                self.processor += time.process_time() - used

        return call


def released(job: dict[str, Any]) -> dict[str, float]:
    """A release over files, after a first one of its kind on a small table: imports and compilation are not counted."""
    wide = job["what"].endswith("-wide") or job.get("wide", False)
    domain = scale_tables.wide_domain() if wide else scale_tables.narrow_domain()
    call = CALLS[job["what"]]
    delta = 1e-6 if job["what"] == "sketch" else None
    if job.get("warm"):
        call(opened(job["warm"], domain, delta=delta))
    table = opened(job["source"], domain, delta=delta)
    table.engine = clock = Clock(table.engine)
    return {**timed(lambda: call(table)), "passes": clock.seconds, "passes_processor": clock.processor}


def timed(work: Callable[[], Any]) -> dict[str, float]:
    start, used = time.perf_counter(), time.process_time()
    work()
    return {"seconds": time.perf_counter() - start, "processor": time.process_time() - used}


def scanned(job: dict[str, Any]) -> dict[str, float]:
    """Arrow's own scan of the same columns, on all cores: every batch is read and let go."""
    columns = list(scale_tables.wide_domain())

    def scan() -> None:
        rows = sum(batch.num_rows for batch in ds.dataset(job["source"]).to_batches(columns=columns))
        assert rows == job["rows"]

    return timed(scan)


def counted(job: dict[str, Any]) -> dict[str, float]:
    """The least that anybody does for marginals: the same scan, and numpy's bincount of each column, no cleaning."""
    domain = scale_tables.wide_domain()

    def one(batch: pa.RecordBatch) -> None:
        for name, column in domain.items():
            values = batch.column(name)
            if isinstance(column, dpx.Categorical):
                values.dictionary.to_pylist()
                np.bincount(values.indices.to_numpy(), minlength=len(column.categories))
            elif column.integer:
                np.bincount(values.to_numpy(), minlength=100)
            else:
                np.bincount((values.to_numpy() * 24).astype(np.int32), minlength=24)

    def work() -> None:
        for batch in ds.dataset(job["source"]).to_batches(columns=list(domain)):
            one(batch)

    return timed(work)


def cores(job: dict[str, Any]) -> dict[str, Any]:
    """A curve of a forest on one core and on all; beside it what the machine gives to the bare predictions, and the
    share of the processor time that is spent in the thread of the caller, which checks the model.
    """
    every, estimator = sorted(os.sched_getaffinity(0)), forest(job["trees"], job["depth"])
    rows, points = job["rows"], job["points"]
    draw = np.random.default_rng(1)
    frame = {name: draw.random(rows) for name in NUMBERS}
    domain = scale_tables.narrow_domain()
    data = pa.table({**frame, "kind": pa.array(["a"] * rows), "y": draw.random(rows)})
    found: dict[str, list[float]] = {"one": [], "all": [], "bare one": [], "bare all": [], "caller": []}
    blocks = np.array_split(np.stack(list(frame.values()), axis=1), 4 * len(every))

    def curve() -> None:
        model = dpx.Model(estimator, output=(0, 1), features=NUMBERS, name=f"forest {time.time_ns()}")
        dpx.partial_dependence(opened(data, domain), model, "x2", epsilon=1, grid={"x2": points}, smooth=False)

    def bare() -> None:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for _ in range(points):
                list(pool.map(estimator.predict, blocks))

    curve()
    for _ in range(job["rounds"]):
        for name, cpus in (("one", every[:1]), ("all", every)):
            os.sched_setaffinity(0, cpus)
            before = time.thread_time()
            ours = timed(curve)
            found[name].append(ours["seconds"])
            if name == "one":
                found["caller"].append((time.thread_time() - before) / ours["processor"])
            found[f"bare {name}"].append(timed(bare)["seconds"])
    return found


def main() -> None:
    job = json.loads(sys.argv[1])
    warnings.simplefilter("ignore", dpx.errors.BudgetWarning)  # tables of one process are the same rows on purpose
    if job["what"] == "scan":
        found: dict[str, Any] = scanned(job)
    elif job["what"] == "bincount":
        found = counted(job)
    elif job["what"] == "cores":
        found = cores(job)
    elif job["what"].startswith("spark"):
        from bench import scale_spark

        found = scale_spark.measured(job)
    elif job["what"] == "imports":
        found = timed(lambda: None)
        assert Path(__file__).exists()
    else:
        found = released(job)
    found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


if __name__ == "__main__":
    main()
