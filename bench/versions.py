"""Two versions of dpexplain against each other: CPU time of the same releases, and peak memory, old and new in turns.

    git worktree add ../before COMMIT && python -m bench versions --old ../before

Every round is a process for each version: made-up rows, a boosted model, everything included (ledger, cleaning, noise,
post-processing), after a first call of each on a small table. Times are CPU seconds of the process, so that a busy
machine slows nobody down; a ratio is the median over the rounds of new to old.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

from matplotlib.figure import Figure
from rich.progress import track

from bench import report

ROUNDS, ROWS = 5, 30_000
WORK = """
import json, resource, sys, time, warnings
import numpy as np, pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
import dpexplain as dpx
warnings.simplefilter("ignore")
draw, rows = np.random.default_rng(0), int(sys.argv[1])
names = list("abcdefgh")
frame = pd.DataFrame(draw.random((rows, 8)), columns=names)
frame["y"] = (draw.random(rows) < frame["a"] * frame["b"]).astype(int)
estimator = HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(frame[names][:5000], frame["y"][:5000])
domain = dpx.Domain({**{name: dpx.Numeric(0, 1) for name in names}, "y": dpx.Categorical([0, 1])})
def opened(rows):
    return dpx.PrivateTable(rows, domain=domain, budget=dpx.Budget(1e6, delta=1e-6), relation="replace-one",
                            ledger="sqlite:///:memory:", name="t")
model = dpx.Model(estimator, output=(0, 1), label=1, features=names, name="m", version="1")
cells = lambda rows: (rows["a"] * 9).astype(int).clip(0, 8).to_numpy()
calls = {
    "marginals": lambda: dpx.marginals(table, epsilon=1),
    "partial dependence": lambda: dpx.partial_dependence(table, model, "a", epsilon=1),
    "accumulated effects": lambda: dpx.accumulated_effects(table, model, names, epsilon=1),
    "importance in groups": lambda: dpx.permutation_importance(table, model, "y", epsilon=1),
    "rank aggregation": lambda: dpx.rank_aggregation(table, "importance", model=model, target="y", epsilon=1, parts=99),
    "generic plot": lambda: dpx.generic_plot(table, "ale", "a", model=model, epsilon=1, output=(-1, 1)),
    "clusters": lambda: dpx.explain_clusters(table, cells, labels=list(range(9)), epsilon=1),
    "k-means": lambda: dpx.dp_kmeans(table, 5, names[:3], epsilon=1),
    "influence": lambda: dpx.influence(table, model, epsilon=1),
    "local sketch": lambda: dpx.local_sketch(table, model, features=names[:4], epsilon=1),
}
took, table = {}, opened(frame[:2000])
for call in calls.values():
    call()  # what is imported and compiled is there afterwards
table = opened(frame)
for name, call in calls.items():
    start = time.process_time()
    result = call()
    took[name] = time.process_time() - start
start = time.process_time()
for i in range(300):
    result.explain({name: (i + k) % 10 / 10 for k, name in enumerate(names)})
took["300 explanations of a sketch"] = time.process_time() - start
took["peak memory, MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(took))
"""


def run(options: Namespace) -> None:
    homes = {"old": Path(options.old).resolve(), "new": Path(__file__).resolve().parents[1]}
    rounds = 1 if options.quick else ROUNDS
    found: dict[str, list[dict[str, float]]] = {"old": [], "new": []}
    for number in track(range(rounds), description="old and new in turns"):
        for side in ("old", "new") if number % 2 else ("new", "old"):
            found[side].append(_round(homes[side], ROWS // 10 if options.quick else ROWS))
    cases = list(found["new"][0])
    ratio = {
        case: round(statistics.median(n[case] / o[case] for n, o in zip(found["new"], found["old"], strict=True)), 3)
        for case in cases
    }
    commits = {side: _commit(home) for side, home in homes.items()}
    content = {"summary": {"new / old": ratio}, "commits": commits, "rows": ROWS, "measured": found}
    report.write("versions", options, content, _figure(ratio, commits))


def _round(home: Path, rows: int) -> dict[str, float]:
    place = {**os.environ, "PYTHONPATH": str(home / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WORK, str(rows)]
    done = subprocess.run(command, env=place, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _commit(home: Path) -> str:
    command = ["git", "-C", str(home), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _figure(ratio: dict[str, float], commits: dict[str, str]) -> Figure:
    figure = Figure(figsize=(7, 4), layout="constrained")
    ax = figure.subplots()
    ax.barh(list(ratio), list(ratio.values()), color="#4c78a8")
    ax.axvline(1, color="black", linewidth=1)
    ax.invert_yaxis()
    ax.set_xlabel(f"CPU time (or memory) of {commits['new']} / that of {commits['old']}, median of {ROUNDS} rounds")
    return figure
