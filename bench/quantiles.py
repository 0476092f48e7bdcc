"""Accuracy of private quantiles: how far the share of rows below a released value is from the probability asked for.

19 quantiles of a log-normal column, epsilon 1, pure account, both relations, three numbers of rows; beside the errors
that occur, the bound that a reader computes from the release (`rank_error`).
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.progress import track

import dpexplain as dpx
from bench import report

PROBS = [i / 20 for i in range(1, 20)]
ROWS, RELEASES = (2_000, 20_000, 200_000), 8


def run(options: Namespace) -> None:
    lines: list[dict[str, Any]] = []
    for rows in track(ROWS[:1] if options.quick else ROWS, description="quantiles"):
        values = np.clip(np.random.default_rng(rows).lognormal(0, 0.75, rows), 0, 20)
        for relation in ("replace-one", "add-remove"):
            table = dpx.PrivateTable(
                pd.DataFrame({"x": values}),
                domain=dpx.Domain({"x": dpx.Numeric(0, 20)}),
                budget=dpx.Budget(100),
                relation=relation,
                ledger="sqlite:///:memory:",
                name="bench",
            )
            errors, bounds = [], []
            for release in range(2 if options.quick else RELEASES):  # another price each time, or it would be replayed
                found = dpx.quantiles(table, "x", PROBS, epsilon=1 + release * 1e-9)
                errors.append([abs((values <= v).mean() - p) for p, v in zip(PROBS, found.values, strict=True)])
                bounds.append(float(found.rank_error(0.95).max()))
            lines.append(
                {
                    "rows": rows,
                    "relation": relation,
                    "mean_error": float(np.mean(errors)),
                    "mean_of_the_largest": float(np.mean(np.max(errors, axis=1))),
                    "rank_error_0.95": float(np.mean(bounds)),
                }
            )
    summary = {"releases": RELEASES, "epsilon": 1, "quantiles": len(PROBS), "lines": lines}
    report.write("quantiles", options, {"summary": summary}, None if options.quick else _figure(lines))


def _figure(lines: list[dict[str, Any]]) -> Figure:
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    ax = figure.add_subplot()
    for relation, style in (("replace-one", "-"), ("add-remove", "--")):
        mine = [line for line in lines if line["relation"] == relation]
        for key, colour in (
            ("mean_error", "#1f4e79"),
            ("mean_of_the_largest", "#2e75b6"),
            ("rank_error_0.95", "#c55a11"),
        ):
            y = [line[key] for line in mine]
            ax.plot([line["rows"] for line in mine], y, "o" + style, color=colour, label=f"{key}, {relation}")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("rows")
    ax.set_ylabel("error of a rank, as a share of the rows")
    ax.legend(fontsize=7)
    ax.grid(alpha=0.25)
    return figure
