"""How quickly a program that uses dpexplain starts: CPU seconds, against `import numpy, pandas` in the same run.

Every case is a process of its own, timed by the operating system (user and system time of the child). Cases take turns;
a ratio is the median over the rounds of the ratio within a round, so that a busy machine slows both sides down. The
commands run on a project of 1,000 rows whose account is open; `pdp` asks for something new every time, and draws it.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.progress import track

from bench import report

ROUNDS = 5
TARGET = 0.5  # CPU seconds, of what is named in AIMS
REFERENCE = "import numpy, pandas"
AIMS = ("import dpexplain", "dpexplain --help", "dpexplain pdp --help")
USE = "dpexplain.PrivateTable, dpexplain.Model, dpexplain.partial_dependence"
FILES = {
    "dpexplain.toml": """
[table]
path = "people.parquet"
domain = "domain.yaml"
name = "people"
version = "1"
relation = "replace-one"
[budget]
epsilon = 1000.0
ledger = "sqlite:///budget.db"
[model]
import = "bench_start_model:predict"
output = [0.0, 1.0]
name = "model"
version = "1"
""",
    "domain.yaml": """
dpexplain_domain: 1
peeked: false
reviewed_by: bench
columns:
  age: {type: numeric, low: 20, high: 60, integer: true}
  hours: {type: numeric, low: 0, high: 80, integer: true}
""",
    "bench_start_model.py": "def predict(rows):\n    return (rows['age'] - 20).clip(0, 40).to_numpy() / 40\n",
}


def cases(number: int) -> dict[str, list[str]]:
    """What is run, and how; `number` of the round, in which everything is asked for once."""
    python, command = [sys.executable, "-c"], [sys.executable, "-m", "dpexplain.cli"]
    price = ["--feature", "age", "--epsilon"]
    return {
        "python": [*python, "pass"],
        REFERENCE: [*python, REFERENCE],
        "import dpexplain": [*python, "import dpexplain"],
        "import dpexplain and use it": [*python, f"import dpexplain; {USE}"],
        "dpexplain --help": [*command, "--help"],
        "dpexplain pdp --help": [*command, "pdp", "--help"],
        "dpexplain plan": [*command, "plan", *price, "0.5", "--n", "1000"],
        "dpexplain pdp": [*command, "pdp", *price, f"0.5{number + 1:03d}"],
        "dpexplain budget": [*command, "budget"],
    }


def cpu_seconds(command: list[str], folder: Path) -> float:
    """User and system time of a process, which has to succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(options: Namespace) -> None:
    rounds = 1 if options.quick else ROUNDS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        random = np.random.default_rng(0)
        people = {"age": random.integers(20, 61, 1000), "hours": random.integers(0, 81, 1000)}
        pd.DataFrame(people).to_parquet(folder / "people.parquet")
        for file, content in FILES.items():
            (folder / file).write_text(content, encoding="utf-8")
        for command in cases(-1).values():  # opens the account, compiles files
            cpu_seconds(command, folder)
        seconds: dict[str, list[float]] = {case: [] for case in cases(0)}
        for number in track(range(rounds), description="start"):
            for case, command in cases(number).items():
                seconds[case].append(cpu_seconds(command, folder))
    cells: list[dict[str, Any]] = []
    for case, times in seconds.items():
        ratios = [mine / other for mine, other in zip(times, seconds[REFERENCE], strict=True)]
        cell = {"case": case, "ratio": round(statistics.median(ratios), 2)}
        cells.append(cell | {"seconds": round(statistics.median(times), 3), "fastest": round(min(times), 3)})
    aims = {cell["case"]: {key: cell[key] for key in ("seconds", "ratio")} for cell in cells if cell["case"] in AIMS}
    met = all(aim["seconds"] <= TARGET for aim in aims.values())
    summary = {"aims": aims, "target_seconds": TARGET, "met": met, "reference": REFERENCE, "rounds": rounds}
    content = {"summary": summary, "cells": cells, "seconds": seconds}
    report.write("start", options, content, None if options.quick else _figure(seconds))


def _figure(seconds: dict[str, list[float]]) -> Figure:
    figure = Figure(figsize=(7.5, 4), layout="constrained")
    ax = figure.add_subplot()
    for place, (case, times) in enumerate(seconds.items()):
        ax.plot(times, [place] * len(times), "o", color="#1f4e79" if "dpexplain" in case else "#c55a11", alpha=0.6)
    ax.axvline(TARGET, color="grey", linestyle="--", linewidth=1, label="target of import and --help")
    ax.set_yticks(range(len(seconds)), list(seconds))
    ax.set_xlim(0)
    ax.invert_yaxis()
    ax.set_xlabel("CPU seconds of a new process, one dot a round")
    ax.legend(loc="lower right")
    return figure
