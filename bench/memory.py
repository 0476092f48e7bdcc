"""Peak memory of a private PDP, and of importance in groups, over a Parquet table of ten million rows, made here, with
a cheap linear model. Importance deals rows to groups, which go through temporary files.

Each release runs in a process of its own, whose peak resident size the operating system tells; a process that only
imports what it needs stands beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from bench import report

COLUMNS = 8
CHILD = """
import json, resource, sys, time
import numpy as np
import dpexplain as dpx

needed = dpx.PrivateTable, dpx.Model, dpx.partial_dependence, dpx.permutation_importance  # which imports them
path, ledger, columns, what = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
start = time.perf_counter()
points = 0
if what != "imports":
    names = [f"x{i}" for i in range(columns)]
    domain = dpx.Domain({name: dpx.Numeric(0, 1) for name in names})
    account = dict(budget=dpx.Budget(1), relation="replace-one", ledger=ledger, name="big")
    table = dpx.PrivateTable(path, domain=domain, **account)
    weights = np.arange(1, columns + 1) / (columns * (columns + 1) / 2)
    weights[-1] = 0 if what == "groups" else weights[-1]  # the last column is the target
    features = names[:-1] if what == "groups" else names
    weights = weights[: len(features)]
    model = dpx.Model(lambda x: x @ weights, output=(0, 1), features=features, as_array=True, thread_safe=True)
if what == "curve":
    curve = dpx.partial_dependence(table, model, "x3", epsilon=1)
    points = len(curve.values)
    slope = np.polyfit(curve.axes[0].points, curve.values, 1)[0]
    assert abs(slope - weights[3]) < 1e-3, slope
if what == "groups":
    importance = dpx.permutation_importance(table, model, names[-1], epsilon=1, method="groups", repeats=1)
    points = len(importance.values)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"peak_mib": peak / 1024, "seconds": time.perf_counter() - start, "points": points}))
"""


def run(options: Namespace) -> None:
    rows = 300_000 if options.quick else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.parquet"
        make(path, rows)
        size = path.stat().st_size / 2**20
        measured = {what: child(path, folder, what) for what in ("imports", "curve", "groups")}
    peaks = {what: round(found["peak_mib"]) for what, found in measured.items()}
    summary = {
        "rows": rows,
        "columns": COLUMNS,
        "file_mib": round(size),
        "table_in_memory_mib": round(rows * COLUMNS * 8 / 2**20),
        "peak_mib": peaks["curve"],
        "peak_mib_of_groups": peaks["groups"],
        "peak_mib_of_importing_alone": peaks["imports"],
        "limit_mib": 1024,
        "below_limit": max(peaks.values()) < 1024,
        "points": measured["curve"]["points"],
        "seconds": round(measured["curve"]["seconds"], 1),
        "seconds_of_groups": round(measured["groups"]["seconds"], 1),
    }
    report.write("memory", options, {"summary": summary}, None if options.quick else _figure(summary))


def make(path: Path, rows: int) -> None:
    """Chunk by chunk; row groups of a million rows, as other tools write them."""
    generator = np.random.default_rng(7)
    schema = pa.schema([(f"x{i}", pa.float64()) for i in range(COLUMNS)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 1_000_000):
            n = min(1_000_000, rows - start)
            writer.write_table(pa.table([generator.random(n) for _ in range(COLUMNS)], schema=schema), row_group_size=n)


def child(path: Path, folder: str, what: str) -> dict[str, float]:
    command = [sys.executable, "-c", CHILD, str(path), f"sqlite:///{folder}/budget-{what}.db", str(COLUMNS), what]
    result: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return result


def _figure(summary: dict[str, float]) -> Figure:
    figure = Figure(figsize=(6.5, 2.4), layout="constrained")
    ax = figure.add_subplot()
    names = ["importing alone", "private PDP", "importance in groups", "the table itself"]
    shown = ["peak_mib_of_importing_alone", "peak_mib", "peak_mib_of_groups", "table_in_memory_mib"]
    values = [summary[name] for name in shown]
    ax.barh(names, values, color=["#9dc3e6", "#1f4e79", "#1f4e79", "#b7b7b7"])
    ax.axvline(1024, color="#c55a11", linestyle="--")
    ax.invert_yaxis()
    ax.set_xlabel(f"peak MiB, {summary['rows']:,} rows (dashed: 1 GiB)")
    return figure
