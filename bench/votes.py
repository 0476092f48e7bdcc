"""Rank aggregation by importance against the published generic design: pure account, replace-one, equal parts.

Each of 200 parts ranks the features by plain permutation importance; the noisy Borda points give the ranking. Measured
is the concordance with a reference that averages 20 permutations of the whole table, without noise. `forecast` lets the
forecast choose the number of parts. The ballots of a number of parts are computed once: a repetition differs from
another one in its noise alone. Everything else is the product's own path.
"""

from __future__ import annotations

import csv
from argparse import Namespace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

import dpexplain as dpx
from bench import report
from bench.cached import BenchAccount, DealtOnce
from bench.importance import EPSILONS, TARGET, Exact, concordance
from bench.tables import CASES
from dpexplain.core.release import Door
from dpexplain.methods.rank_aggregation import release as voting
from dpexplain.methods.rank_aggregation.request import RankAggregation
from dpexplain.methods.rank_aggregation.result import Votes

REPETITIONS, PERMUTATIONS, PARTS = 20, 20, 200


class Ballots:
    """The ballots of one table, for each number of parts that is asked for."""

    def __init__(self, exact: Exact) -> None:
        self.exact = exact
        frame = exact.case.frame.assign(**{TARGET: exact.case.target})
        self.table = dpx.PrivateTable(
            frame,
            domain=exact.domain,
            budget=BenchAccount.budget,
            relation="replace-one",
            ledger="sqlite:///:memory:",
            name="bench",
        )
        self.table.door = Door(BenchAccount())
        self.table.sum_groups = DealtOnce(self.table)  # type: ignore[method-assign]

    def release(self, parts: int | None, epsilon: float) -> Votes:
        """One private ranking through the door."""
        request = RankAggregation(ranker="importance", items=self.exact.features, target=TARGET, parts=parts)
        return voting.explain(self.table, self.exact.model, request, cost=self.table.cost(epsilon=epsilon))


def run(options: Namespace) -> None:
    with (options.data.parent / "reference" / "published_pfi_concordance.csv").open() as file:
        figures = {
            (line["dataset"], float(line["epsilon"])): float(line["concordance_mean"])
            for line in csv.DictReader(file)
            if line["design"] == "generic"
        }
    cells: list[dict[str, Any]] = []
    for key in ["heart"] if options.quick else list(CASES):
        exact = Exact(CASES[key](options.data), 3 if options.quick else PERMUTATIONS)
        ballots = Ballots(exact)
        for epsilon in track(EPSILONS, description=key):
            forms = {"ours": PARTS, "forecast": None}
            found = {n: [ballots.release(parts, epsilon) for _ in range(REPETITIONS)] for n, parts in forms.items()}
            cells.append(
                {
                    "dataset": exact.case.name,
                    "epsilon": epsilon,
                    **{n: [concordance(v.scores, exact.reference) for v in votes] for n, votes in found.items()},
                    "forecast_parts": found["forecast"][0].parts,
                    "published": figures[exact.case.name, epsilon],
                }
            )
    means = {
        f"{c['dataset']}, epsilon {c['epsilon']:g}": {
            "ours, 200 parts": round(float(np.mean(c["ours"])), 4),
            f"ours, {c['forecast_parts']} parts by forecast": round(float(np.mean(c["forecast"])), 4),
            "published, 200 parts": round(c["published"], 4),
        }
        for c in cells
    }
    small = [c for c in cells if c["epsilon"] <= 1]
    summary = {
        "repetitions": REPETITIONS,
        "concordance": means,
        "up_to_epsilon_1": {
            "cells": len(small),
            "ours_above_published": sum(bool(np.mean(c["ours"]) > c["published"]) for c in small),
            "forecast_above_published": sum(bool(np.mean(c["forecast"]) > c["published"]) for c in small),
        },
    }
    report.write("votes", options, {"summary": summary, "cells": cells}, None if options.quick else _figure(cells))


def _figure(cells: list[dict[str, Any]]) -> Figure:
    """Concordance by epsilon, one panel for each table."""
    names = list(dict.fromkeys(cell["dataset"] for cell in cells))
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    for ax, name in zip(figure.subplots(1, len(names), sharey=True), names, strict=True):
        mine = [cell for cell in cells if cell["dataset"] == name]
        x = [cell["epsilon"] for cell in mine]
        styles = {
            "forecast": ("#1f4e79", "-o", "ours, parts by forecast"),
            "ours": ("#2e75b6", "--s", "ours, 200 parts"),
        }
        for form, (colour, style, label) in styles.items():
            y, spread = [np.mean(c[form]) for c in mine], [np.std(c[form]) for c in mine]
            ax.errorbar(x, y, spread, fmt=style, color=colour, label=label, capsize=2)
        ax.plot(x, [c["published"] for c in mine], ":^", color="#7f7f7f", label="published, 200 parts")
        ax.set_xscale("log")
        ax.set_ylim(0.45, 1.01)
        ax.set_title(name)
        ax.set_xlabel("epsilon")
        ax.grid(alpha=0.25)
    figure.axes[0].set_ylabel("concordance with the exact ranking")
    figure.axes[0].legend(fontsize=8)
    return figure
