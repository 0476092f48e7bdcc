"""How long an explanation of clusters takes, labels given: `python -m bench clusters --part speed`, on an idle machine.

Labels are a column of the table, and the clustering is the rule that reads it. Everything from `dpx.explain_clusters`
on is timed: request, counts, scores, exact draw, noise, ledger in a file. Best of three runs after one that compiles.
The load of the machine is told, and beside the time on the clock the processor time of all threads, which a busy
machine disturbs less.
Figures 9a to 9d of paper 002: clusters, candidates, attributes, rows. The largest table is synthetic, 2.46 million rows
x 68 attributes as Arrow dictionaries, in a process of its own whose memory the operating system tells.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterable
from itertools import count
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track
from sklearn.cluster import MiniBatchKMeans

import dpexplain as dpx
from bench import report
from bench.clusterings import SURVEYS, Labels, Survey

LABEL = "(cluster)"
CLUSTERS = (3, 5, 7, 9, 11, 12, 13, 15)
LISTED = 12  # clusters up to which two stages list their combinations: the product's limit
LIMITS = {9: 0.3, 12: 0.5, 15: 3.0}  # seconds, Diabetes
PUBLIC = {9: 3.1, 12: 22.3, 15: 480.0}  # the public implementation, as measured for the issue; the last: "over"
ROWS, ATTRIBUTES, VALUES = 2_460_000, 68, 12
LARGE_LIMITS = {"seconds": 1.5, "mib": 1024}


def given(rows: np.ndarray) -> np.ndarray:
    """The clustering that reads its answer from a column, the only one that it asks for."""
    return rows[:, 0]


class Timed:
    """One table with its labels, explained again and again, each time as a new version that no ledger knows."""

    def __init__(self, survey: Survey, folder: str) -> None:
        self.survey, self.folder, self._number = survey, folder, count()
        self._frame = survey.frame()
        self.cpu: dict[int, float] = {}  # of the last explanation of so many clusters

    def seconds(
        self, labels: Labels, clusters: int, runs: int, *, columns: Iterable[str] = (), **options: Any
    ) -> float:
        names = list(columns) or list(self.survey.columns)
        domain = dpx.Domain(
            {**{n: self.survey.domain[n] for n in names}, LABEL: dpx.Numeric(0, clusters - 1, integer=True)}
        )
        frame = self._frame.iloc[: len(labels)][names].assign(**{LABEL: labels})
        times, cpu = [], []
        for _ in range(runs + 1):
            number = next(self._number)
            table = dpx.PrivateTable(
                frame, domain=domain, budget=dpx.Budget(1), relation="add-remove", name=f"{self.survey.name} {number}",
                ledger=f"sqlite:///{self.folder}/speed.db", rows_hint=len(frame),
            )  # fmt: skip
            rule = dpx.Clustering.of(
                given, domain=domain, labels=list(range(clusters)), features=[LABEL], name="given", version="1",
                thread_safe=True, as_array=True,
            )  # fmt: skip
            start, worked = time.perf_counter(), time.process_time()
            dpx.explain_clusters(table, rule, attributes=names, epsilon=1, **options)
            times.append(time.perf_counter() - start)
            cpu.append(time.process_time() - worked)
        self.cpu[clusters] = round(min(cpu[1:]), 4)
        return round(min(times[1:]), 4)


def labels_for(survey: Survey, clusters: int) -> Labels:
    found = MiniBatchKMeans(clusters, n_init=1, random_state=0, batch_size=4096).fit(survey.numbers)
    return np.asarray(found.labels_, dtype=np.int64)


def figure_9(survey: Survey, folder: str, runs: int, quick: bool) -> dict[str, Any]:
    """The four studies of one table, in seconds."""
    timed, random = Timed(survey, folder), np.random.default_rng(0)
    nine = labels_for(survey, 9)
    numbers = CLUSTERS[:4] if quick else CLUSTERS
    labels = {c: nine if c == 9 else labels_for(survey, c) for c in numbers}
    shares = (0.5, 1.0) if quick else (0.1, 0.25, 0.5, 0.75, 1.0)
    some = {s: random.permutation(list(survey.columns))[: max(2, round(s * len(survey.columns)))] for s in shares}
    by_number = {c: timed.seconds(labels[c], c, runs) for c in numbers}
    return {
        "processor seconds, one stage": dict(timed.cpu),
        "clusters": {
            "one stage": by_number,
            "two stages": {c: timed.seconds(labels[c], c, runs, method="two-stage") for c in numbers if c <= LISTED},
        },
        "candidates, two stages, 9 clusters": {
            k: timed.seconds(nine, 9, runs, method="two-stage", candidates=k) for k in ((3,) if quick else (1, 2, 3, 4))
        },
        "share of attributes, 9 clusters": {s: timed.seconds(nine, 9, runs, columns=some[s]) for s in shares},
        "share of rows, 9 clusters": {s: timed.seconds(nine[: round(s * survey.rows)], 9, runs) for s in shares},
    }


CHILD = """
import json, os, resource, sys, tempfile, time
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import dpexplain as dpx

rows, attributes, values, clusters, runs = map(int, sys.argv[1:6])
random = np.random.default_rng(0)
label = random.integers(clusters, size=rows)
words = [f"value {v}" for v in range(values)]
columns = {}
for a in range(attributes):
    shifted = random.integers(values, size=rows)
    moved = random.random(rows) < 0.3
    codes = np.where(moved, (label + a) % values, shifted).astype(np.int8)
    columns[f"a{a}"] = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(words))
columns["cluster"] = pa.array(label.astype(np.int8))
table = pa.table(columns)
del columns, codes, shifted, moved, label
names = [f"a{a}" for a in range(attributes)]
kinds = {**{name: dpx.Categorical(words) for name in names}, "cluster": dpx.Numeric(0, clusters - 1, integer=True)}
domain = dpx.Domain(kinds)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

def explain(source, number, folder):
    private = dpx.PrivateTable(source, domain=domain, budget=dpx.Budget(1), relation="add-remove",
        name=f"large {number}", ledger=f"sqlite:///{folder}/large.db", rows_hint=rows)
    rule = dpx.Clustering.of(lambda part: part[:, 0], domain=domain, labels=list(range(clusters)),
        features=["cluster"], name="given", version="1", thread_safe=True, as_array=True)
    start, cpu = time.perf_counter(), time.process_time()
    dpx.explain_clusters(private, rule, attributes=names, epsilon=1)
    return time.perf_counter() - start, time.process_time() - cpu

def read():
    start = time.perf_counter()
    total = 0
    for name in names:
        for chunk in table[name].chunks:
            total += int(np.asarray(chunk.indices).sum(dtype=np.int64))
    return time.perf_counter() - start

with tempfile.TemporaryDirectory() as folder:
    explain(table.slice(0, 50_000), -1, folder)  # compiles and loads
    before = resident()
    low = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts again from here
    times = [explain(table, number, folder) for number in range(runs)]
    with open("/proc/self/status") as file:
        peak = next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))
    passes = [read() for _ in range(runs)]
print(json.dumps({
    "seconds": [t[0] for t in times], "cpu_seconds": [t[1] for t in times], "reading_seconds": passes,
    "table_mib": table.nbytes / 2**20, "peak_mib_beyond_the_table": peak - before,
}))
"""


def large(rows: int, runs: int) -> dict[str, Any]:
    """The synthetic table, 9 clusters, in a process of its own."""
    command = [sys.executable, "-c", CHILD, *map(str, (rows, ATTRIBUTES, VALUES, 9, runs))]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    seconds, reading = min(found["seconds"]), min(found["reading_seconds"])
    return {
        "rows": rows,
        "attributes": ATTRIBUTES,
        "clusters": 9,
        "table_mib": round(found["table_mib"]),
        "seconds": round(seconds, 3),
        "of each run": [round(s, 3) for s in found["seconds"]],
        "cpu seconds": round(min(found["cpu_seconds"]), 3),
        "reading the same bytes, seconds": round(reading, 4),
        "against reading": round(seconds / reading, 1),
        "peak_mib_beyond_the_table": round(found["peak_mib_beyond_the_table"]),
        "limits": LARGE_LIMITS,
    }


def run(options: Namespace) -> None:
    quick = options.quick
    runs = 1 if quick else 3
    names = ["Diabetes"] if quick else list(SURVEYS)
    found: dict[str, Any] = {}
    load = [round(os.getloadavg()[0], 1)]
    with tempfile.TemporaryDirectory() as folder:
        for name in track(names, description="speed"):
            found[name] = figure_9(SURVEYS[name](options.data), folder, runs, quick)
    biggest = large(200_000 if quick else ROWS, runs)
    aims = {
        f"Diabetes, {c} clusters": {
            "seconds": found["Diabetes"]["clusters"]["one stage"].get(c),
            "processor seconds": found["Diabetes"]["processor seconds, one stage"].get(c),
            "limit": limit,
            "public implementation": f"{'over ' if c == 15 else ''}{PUBLIC[c]:g} s",
        }
        for c, limit in LIMITS.items()
    }
    load.append(round(os.getloadavg()[0], 1))
    summary = {"aims": aims, "largest table": biggest, "load of the machine, before and after": load}
    content = {"summary": summary, "runs": runs, "seconds": found}
    report.write("clusters-speed", options, content, None if quick else _figure(found))


def _figure(found: dict[str, Any]) -> Figure:
    """The paper's Figure 9."""
    figure = Figure(figsize=(11, 7.4), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    for i, name in enumerate(found):
        colour = ("#1f4e79", "#c55a11", "#6a9f58")[i]
        one, two = found[name]["clusters"]["one stage"], found[name]["clusters"]["two stages"]
        panels[0].plot(list(one), list(one.values()), "-o", color=colour, label=f"{name}, one stage")
        panels[0].plot(list(two), list(two.values()), "--s", color=colour, label="two stages", markersize=4, alpha=0.7)
        rest = ("candidates, two stages, 9 clusters", "share of attributes, 9 clusters", "share of rows, 9 clusters")
        for ax, key in zip(panels[1:], rest, strict=True):
            values = found[name][key]
            ax.plot(list(values), list(values.values()), "-o", color=colour, label=name)
            ax.set_title(key, fontsize=10)
    panels[0].set_title("clusters", fontsize=10)
    panels[0].plot(list(LIMITS), list(LIMITS.values()), "k_", markersize=14, label="limit for Diabetes, one stage")
    for ax in panels[:2]:
        ax.set_yscale("log")
    panels[1].set_xticks([1, 2, 3, 4])
    for ax in panels:
        ax.set_ylabel("seconds")
        ax.grid(alpha=0.25)
    for ax in panels[2:]:
        ax.set_ylim(0)
        ax.set_xlim(0)
    panels[0].legend(fontsize=7)
    panels[1].legend(fontsize=8)
    return figure
