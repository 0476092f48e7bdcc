"""200 processes killed with SIGKILL at random points, on SQLite and on PostgreSQL.

After every kill the ledger must open, verify against the anchor of the time before, hold every commit that was
reported, and count every reservation that was reported. `make audit` runs the same driver for 20.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace

from matplotlib.figure import Figure
from tests.e2e.fault_driver import run_kills
from tests.ledger_servers import postgresql_server

from bench import report


def run(options: Namespace) -> None:
    kills = 5 if options.quick else 200
    with tempfile.TemporaryDirectory() as folder, postgresql_server() as server:
        results = {
            "sqlite": run_kills(f"sqlite:///{folder}/budget.db", kills, seed=1),
            "postgresql": run_kills(server.new_database(), kills, seed=2),
        }
    # run_kills raises at the first breach; these are the same promises on the totals
    for counts in results.values():
        assert counts["commits"] >= counts["reported commits"] > 0
        assert counts["reservations"] >= counts["reported reservations"] > 0
        assert counts["reservations"] == counts["commits"] + counts["spent without a release"]
    report.write("faults", options, {"summary": results}, None if options.quick else _figure(results))


def _figure(results: dict[str, dict[str, int]]) -> Figure:
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    ax = figure.add_subplot()
    for place, counts in enumerate(results.values()):
        ax.barh(place, counts["commits"], color="#1f4e79", label="released" if place == 0 else None)
        lost = counts["spent without a release"]
        ax.barh(
            place,
            lost,
            left=counts["commits"],
            color="#c55a11",
            label="spent, nothing released" if place == 0 else None,
        )
        ax.text(
            counts["reservations"],
            place,
            f"  {counts['reservations']} reservations, {counts['kills']} kills",
            va="center",
        )
    ax.set_yticks(range(len(results)), list(results))
    ax.set_xlim(0, 1.5 * max(c["reservations"] for c in results.values()))
    ax.set_xlabel("entries after all kills")
    ax.legend(fontsize=8, loc="lower right")
    return figure
