"""`python -m bench service --part console`: how long the server takes for each page of the console.

The account has 1,000 releases. Three are real ones; the ledger's entries of the others were written as the door writes
them, and their results are copies of a real one, so that the history is long and quickly made. Then the service is
started again as `dpexplain serve` starts it, every page made once. A page is asked for over a connection that stays
open, from the same machine.
"""

from __future__ import annotations

import http.client
import os
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import sqlalchemy as sa
import uvicorn
from rich.progress import track

from bench import report, service_figures
from bench.ledger import PAYLOAD
from dpexplain.core.account import Ask
from dpexplain.core.canonical import digest
from dpexplain.project.file import Project
from dpexplain.service import curate
from dpexplain.service.asked import Explain
from dpexplain.service.server import config_of, warm_up
from dpexplain.service.service import Service
from dpexplain.service.store import new_id, now, results

RELEASES, REPETITIONS = 1_000, 40
TARGET = 150.0  # milliseconds
PORT = 8_765
DOMAIN = """\
dpexplain_domain: 1
reviewed_by: bench
peeked: false
columns:
  age: {type: numeric, low: 18, high: 90, integer: true}
  visits: {type: numeric, low: 0, high: 20, integer: true}
  plan: {type: categorical, values: [free, half, full]}
"""
MODEL = """\
def score(rows):
    return (0.1 + 0.004 * rows["age"] + 0.01 * rows["visits"]).clip(0, 1)
"""
PROJECT = """\
[table]
path = "people.parquet"
domain = "domain.yaml"
name = "people"
version = "1"
relation = "replace-one"
[budget]
epsilon = 100.0
delta = 1e-6
ledger = "sqlite:///budget.db"
[model]
import = "bench_console_model:score"
output = [0.0, 1.0]
name = "score"
version = "1"
[service]
slot = 0.5
rate = 1000000
"""
ASKED: list[dict[str, Any]] = [
    {"request": "partial-dependence", "feature": "age"},
    {"request": "partial-dependence", "feature": "plan"},
    {"request": "local-sketch"},
]


def run(options: Namespace) -> None:
    """Measure each page."""
    number = 30 if options.quick else RELEASES
    with tempfile.TemporaryDirectory() as name:
        project = _project(Path(name))
        sys.path.insert(0, name)
        with _serving(Service([project])) as service:
            shown = _released(service, number)
        service = Service([project])  # started again, as an operator does
        start = time.perf_counter()
        warm_up(service)
        start = time.perf_counter() - start
        with _serving(service):
            content = _measured(service, number, 5 if options.quick else REPETITIONS, shown)
        content["summary"]["start_s"] = start
    report.write("service-console", options, content, None if options.quick else service_figures.console(content))


@contextmanager
def _serving(service: Service) -> Iterator[Service]:
    server = uvicorn.Server(config_of(service, "127.0.0.1", PORT))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield service
    finally:
        server.should_exit = True
        thread.join(30)


def _project(folder: Path) -> Project:
    draw, n = np.random.default_rng(0), 5_000
    columns = {"age": draw.integers(18, 91, n), "visits": draw.integers(0, 21, n)}
    pd.DataFrame({**columns, "plan": draw.choice(["free", "half", "full"], n)}).to_parquet(folder / "people.parquet")
    for name, text in (("domain.yaml", DOMAIN), ("bench_console_model.py", MODEL), ("dpexplain.toml", PROJECT)):
        (folder / name).write_text(text, encoding="utf-8")
    return Project.load(folder / "dpexplain.toml")


def _released(service: Service, number: int) -> tuple[str, str]:
    """The tokens of an analyst and of the curator, when so many releases are in the account."""
    token = service.first_token(again=True)
    assert token is not None
    who = service.principal(token)
    made = curate.make_token(service, who, curate.NewToken(name="ana", role="analyst"))["token"]
    curate.limit(service, who, "people", "ana", curate.Limit(epsilon=90.0))
    ana = service.principal(made)
    for asked in ASKED:
        service.submit(service.tables["people"], Explain(request=asked, epsilon=0.5), ana, new_id())
    while len(service.releases(ana)) < len(ASKED):
        time.sleep(0.1)
    _history(service, number - len(ASKED))
    return made, token


def _measured(service: Service, number: int, repetitions: int, tokens: tuple[str, str]) -> dict[str, Any]:
    made, token = tokens
    real = sorted(service.releases(service.principal(made)), key=lambda row: row["entry"])[: len(ASKED)]
    rows = {row["id"]: row for row in real}.values()
    sketch = next(row["id"] for row in rows if row["kind"] != "curve")
    curve, other = [row["id"] for row in rows if row["kind"] == "curve"]
    table = "/tables/people"
    paths = {
        "tables": "/", "table": table, "last page of the table": f"{table}?page={-(-number // 12)}",
        "choose": f"{table}/ask", "form": f"{table}/ask/partial-dependence", "set": f"{table}/set", "jobs": "/jobs",
        "release": f"/releases/{curve}", "card": f"/releases/{other}/card",
        "side by side": f"/compare?release={curve}&release={other}", "person": f"/releases/{sketch}/person",
        "verify": f"{table}/verify", "burn-down": f"{table}/burn-down",
    }  # fmt: skip
    curators = {"curator": "/curator", "domain": f"{table}/domain", "table of the curator": table}
    lines = []
    for shown, pages in ((made, paths), (token, curators)):
        browser = _Browser(shown)
        for name, path in pages.items():
            work = time.process_time()  # of server and browser: both are in this process
            first = browser.time(path)
            work = 1000 * (time.process_time() - work)
            times = [browser.time(path) for _ in range(repetitions)]
            line = {"page": name, "first": first, "first_cpu": work, "median": float(np.median(times))}
            lines.append({**line, "most": max(times)})
    slow = [line["page"] for line in lines if line["median"] > TARGET]
    summary: dict[str, Any] = {
        "load": os.getloadavg()[0],  # programs that wanted a core in the last minute, this one included
        "slower_at_first": [line["page"] for line in lines if line["first"] > TARGET],
        "releases": number,
        "target_ms": TARGET,
        "slower": slow,
        "pages": {p["page"]: p["median"] for p in lines},
    }
    return {"summary": summary, "lines": lines}


def _history(service: Service, number: int) -> None:
    """Entries in the ledger and copies of a result in the store."""
    served = service.tables["people"]
    account = served.opened.for_analyst("ana").account
    cost = served.opened.budget.cost(epsilon=0.05)
    with service.store.read() as connection:
        row = connection.execute(sa.select(results).order_by(results.c.entry)).first()
    assert row is not None
    for place in track(range(number), description="history"):
        request = {"explainer": "bench", "spec": {"number": place}}
        account.commit(account.reserve(Ask("bench", request, digest(request), cost)), PAYLOAD, cost)
    with service.store.write() as connection:
        for place in range(number):
            copy = {**row._asdict(), "id": new_id(), "entry": 100 + 2 * place, "announced": now() - 1}
            connection.execute(results.insert().values(copy))
    service.books.turn()


class _Browser:
    """Somebody who is signed in, over one connection."""

    def __init__(self, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        self._connection.request("POST", "/console/sign-in", urlencode({"token": token}), form)
        answer = self._connection.getresponse()
        answer.read()
        self._cookie = str(answer.getheader("set-cookie")).partition(";")[0]

    def time(self, path: str) -> float:
        """Milliseconds until the whole page is there."""
        start = time.perf_counter()
        self._connection.request("GET", f"/console{path}", headers={"Cookie": self._cookie})
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status == 200, (path, answer.status)
        return 1000 * (time.perf_counter() - start)
