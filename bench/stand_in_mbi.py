"""How far our fit of a tree of pairs is from that of `mbi`, the library of MST's authors: `bench stand_in --part mbi`.

One set of noisy counts and chosen pairs for each case (`bench/synthetic.py`), fitted by the belief propagation of the
product (`dpexplain.maths.trees`) and by `mbi.estimation.MirrorDescent`. Both minimise the same squared distance to the
noisy counts, in units of their noise: smaller is better. `mbi` brings JAX, so it is in no extra:

    pip install -r bench/requirements-mbi.txt
"""

from __future__ import annotations

import itertools
import time
from argparse import Namespace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bench import report, synthetic
from bench.posterior_baselines import DELTAS
from bench.posterior_tables import TABLES

KEYS, EPSILONS = ("german", "framingham", "bike", "adult"), (0.1, 1.0)


def run(options: Namespace) -> None:
    cases = itertools.product(KEYS[:1] if options.quick else KEYS, EPSILONS)
    lines = [line for key, epsilon in cases for line in measured(options.data, key, epsilon)]
    summary = {
        "cases": len(lines),
        "largest total variation between the pairs of both": max(line["pairs apart"] for line in lines),
        "distance minimised, ours / mbi, largest": max(line["ours / mbi"] for line in lines),
    }
    report.write("stand_in-mbi", options, {"mbi": version("mbi"), "summary": summary, "lines": lines})


def measured(data: Path, key: str, epsilon: float) -> list[dict[str, Any]]:
    table, lines = TABLES[key](data), list[dict[str, Any]]()
    coding = synthetic.Coding.of(table.domain, synthetic.cells_at(epsilon))
    codes = coding.codes(table.frame)
    for account, delta in DELTAS.items():
        noisy = synthetic.measure(codes, coding.sizes, epsilon, delta, np.random.default_rng(0))
        start = time.perf_counter()
        ours = synthetic.fit(noisy)
        middle = time.perf_counter()
        theirs = synthetic.fit_by_mbi(noisy)
        end = time.perf_counter()
        apart = max(float(np.abs(ours.pairs[edge] - theirs.pairs[edge]).sum()) / 2 for edge in noisy.edges)
        distances = [synthetic.loss_of(noisy, fitted) for fitted in (ours, theirs)]
        lines.append({
            "table": key, "account": account, "epsilon": epsilon,
            "pairs apart": short(apart / noisy.total),
            "distance minimised": [short(one) for one in distances],
            "ours / mbi": short(distances[0] / distances[1]),
            "seconds": [short(middle - start), short(end - middle)],
        })  # fmt: skip
        print(lines[-1], flush=True)
    return lines


def short(value: float) -> float:
    return float(f"{value:.4g}")
