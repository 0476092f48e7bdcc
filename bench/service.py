"""The service over loopback: local explanations under `wrk`, 64 analysts at once, kills, a long time at half load.

local   requests a second and p99 of POST /v1/releases/{sketch}/explain, logistic model, 32 clients
crowd   64 analysts at once on one table, three requests each: what became of them, and what the ledger says; on
        SQLite, and with two servers on one PostgreSQL ledger
kills   SIGKILL at 200 random moments, and clients that ask again with the same key
soak    half load for 30 minutes (10 seconds with --quick): errors, and growth of memory
console the pages of the console (`service_console.py`)

Each part writes a file of its own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from argparse import Namespace
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.ledger_servers import postgresql_server

from bench import report, service_figures
from dpexplain import Client
from dpexplain.errors import BudgetError
from dpexplain.ledger import open_ledger

RATE, P99 = 500, 50.0  # to reach: a second, and milliseconds
CLIENTS, ANALYSTS, EACH, SECONDS, QUICK_SECONDS = 32, 64, 3, 20, 3
SOAK, QUICK_SOAK, GROWTH = 1800, 10, 40  # seconds, and MiB
KILLS, QUICK_KILLS = 200, 3
PARTS = ("local", "crowd", "kills", "soak", "console")
COLUMNS = {
    "age": (18, 90),
    "income": (0, 200),
    "visits": (0, 40),
    "children": (0, 8),
    "distance": (0, 60),
    "bmi": (15, 50),
}
LEDGER = "sqlite:///budget.db"
RECORD = {name: low + (high - low) // 3 for name, (low, high) in COLUMNS.items()} | {"sex": "Female", "smoker": "no"}
PROJECT = """
[table]
path = "people.parquet"
domain = "domain.yaml"
name = "people"
version = "1"
relation = "replace-one"
[budget]
epsilon = 20.0
delta = 1e-6
ledger = "sqlite:///budget.db"
[model]
import = "bench_service_model:model"
output = [0.0, 1.0]
label = true
name = "model"
version = "1"
[service]
slot = 0.2
rate = 100000000
"""
MODEL = """
import numpy as np
import pandas as pd
from pathlib import Path
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

rows = pd.read_parquet(Path(__file__).parent / "people.parquet")
numeric = [name for name in rows if name not in ("sex", "smoker")]
coder = make_column_transformer((StandardScaler(), numeric), (OneHotEncoder(), ["sex", "smoker"]))
score = (rows["age"] / 30 + rows["bmi"] / 20 + (rows["smoker"] == "yes") - 4).to_numpy()
draw = np.random.default_rng(1).random(len(rows))
model = make_pipeline(coder, LogisticRegression()).fit(rows, draw < 1 / (1 + np.exp(-score)))
"""


def run(options: Namespace) -> None:
    """The parts that were asked for."""
    for part in PARTS if options.part == "all" else [options.part]:
        asked = Namespace(**{**vars(options), "part": part})
        if part == "console":
            from bench import service_console

            service_console.run(asked)
            continue
        with tempfile.TemporaryDirectory() as folder:
            content = {"local": local, "crowd": crowd, "kills": kills, "soak": soak}[part](Path(folder), options.quick)
        figure = None if options.quick else service_figures.FIGURES[part](content)
        report.write(f"service-{part}", asked, content, figure)


class Server:
    """`dpexplain serve` in processes of its own, and its curator. `beside` is another server of the same project."""

    def __init__(self, folder: Path, processes: int = 2, ledger: str = LEDGER, beside: Server | None = None) -> None:
        if beside is None:
            _write_project(folder, ledger)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url, self.folder = f"http://127.0.0.1:{self.port}", folder
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(folder)]))
        command = [sys.executable, "-m", "dpexplain.cli", "serve", "--project", str(folder / "dpexplain.toml")]
        self._process = subprocess.Popen(
            [*command, "--port", str(self.port), "--processes", str(processes)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert self._process.stdout is not None
        if beside is None:
            self._token = next(line.strip() for line in self._process.stdout if "dpx_" in line)
        else:
            self._token = beside._token
        self.curator = Client(self.url, self._token)
        until = time.monotonic() + 60
        while not _answers(f"{self.url}/v1/ready"):
            if time.monotonic() > until:
                raise RuntimeError("the service did not start")
            time.sleep(0.1)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=60)

    def analyst(self, name: str, limit: float) -> tuple[Client, str]:
        """Somebody who may spend so much."""
        token = self.curator.new_token(name)
        self.curator.set_limit("people", name, epsilon=limit)
        return Client(self.url, token), token

    def memory(self) -> float:
        """MiB that its processes hold, in all."""
        found = subprocess.run(["ps", "-o", "rss=", "--ppid", str(self._process.pid)], capture_output=True, text=True)
        return sum(map(int, found.stdout.split())) / 1024


def _write_project(folder: Path, ledger: str) -> None:
    draw, n = np.random.default_rng(0), 20_000
    rows = pd.DataFrame({name: draw.integers(low, high + 1, n) for name, (low, high) in COLUMNS.items()})
    rows["sex"], rows["smoker"] = draw.choice(["Female", "Male"], n), draw.choice(["no", "yes"], n)
    rows.to_parquet(folder / "people.parquet")
    lines = [f"  {name}: {{type: numeric, low: {a}, high: {b}, integer: true}}" for name, (a, b) in COLUMNS.items()]
    lines += [
        "  sex: {type: categorical, values: [Female, Male]}",
        '  smoker: {type: categorical, values: ["no", "yes"]}',
    ]
    top = ["dpexplain_domain: 1", "peeked: false", "reviewed_by: bench", "columns:"]
    (folder / "domain.yaml").write_text("\n".join([*top, *lines]) + "\n")
    (folder / "dpexplain.toml").write_text(PROJECT.replace(LEDGER, ledger))
    (folder / "bench_service_model.py").write_text(MODEL)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (OSError, urllib.error.URLError):
        return False


def sketched(server: Server) -> tuple[str, str]:
    """The path of a released sketch's explanations, and the token to ask with."""
    ana, token = server.analyst("ana", 5.0)
    ana.local_sketch(ana.table("people"), ana.model(), epsilon=1.0, method="moments")
    return f"/v1/releases/{ana.releases()[0]['id']}/explain", token


def local(folder: Path, quick: bool) -> dict[str, Any]:
    """Local explanations under wrk."""
    seconds = QUICK_SECONDS if quick else SECONDS
    with Server(folder) as server:
        path, token = sketched(server)
        script = folder / "post.lua"
        script.write_text(
            'wrk.method = "POST"\n'
            f"wrk.body = [==[{json.dumps({'record': RECORD})}]==]\n"
            f'wrk.headers["Authorization"] = "Bearer {token}"\nwrk.headers["Content-Type"] = "application/json"\n'
        )
        command = ["wrk", "-t2", f"-c{CLIENTS}", "--latency", "-s", str(script)]
        subprocess.run([*command, "-d2s", server.url + path], capture_output=True, check=True)  # sketches are read once
        told = subprocess.run(
            [*command, f"-d{seconds}s", server.url + path], capture_output=True, text=True, check=True
        )
    found = {
        "rate": float(re.search(r"Requests/sec:\s+([\d.]+)", told.stdout)[1]),  # type: ignore[index]
        "p50_ms": _milliseconds(told.stdout, "50%"),
        "p99_ms": _milliseconds(told.stdout, "99%"),
        "errors": "Non-2xx" in told.stdout or "Socket errors" in told.stdout,
    }
    reached = found["rate"] >= RATE and found["p99_ms"] < P99 and not found["errors"]
    asked = {"clients": CLIENTS, "seconds": seconds, "target rate": RATE, "target p99_ms": P99}
    return {"summary": {**found, **asked, "reached": reached}}


def _milliseconds(text: str, which: str) -> float:
    number, unit = re.search(rf"{which}\s+([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


def crowd(folder: Path, quick: bool) -> dict[str, Any]:
    """64 analysts at once, whose limits allow two of three requests: on each kind of ledger."""
    with Server(folder) as server:
        content = {"SQLite, one server": _crowd([server], f"sqlite:///{folder}/budget.db")}
    if not quick:
        with postgresql_server() as databases, tempfile.TemporaryDirectory() as other:
            ledger = databases.new_database()
            with Server(Path(other), 1, ledger) as first, Server(Path(other), 1, beside=first) as second:
                content["PostgreSQL, two servers"] = _crowd([first, second], ledger)
    return {"summary": content}


def _crowd(servers: list[Server], ledger: str) -> dict[str, Any]:
    people = list[Client]()
    for number in range(ANALYSTS):
        _, token = servers[0].analyst(f"analyst-{number}", 0.25)
        people.append(Client(servers[number % len(servers)].url, token))
    start, began = threading.Barrier(ANALYSTS), time.perf_counter()

    def asks(number: int) -> list[str]:
        me, states = people[number], list[str]()
        table, model = me.table("people"), me.model()
        start.wait(120)
        for turn in range(EACH):
            epsilon = 0.16 + number / 1e4 + turn / 1e6
            try:
                me.partial_dependence(table, model, ("age", "bmi", "visits")[turn], epsilon=epsilon, smooth=False)
                states.append("done")
            except BudgetError:
                states.append("refused")
        return states

    with ThreadPoolExecutor(ANALYSTS) as pool:
        counted = Counter(state for states in pool.map(asks, range(ANALYSTS)) for state in states)
    took = time.perf_counter() - began
    opened = open_ledger(ledger, create=False)
    checked, statement = opened.verify(), opened.statement("people")
    over = [line.analyst for line in statement.analysts if line.limit is not None and not line.spent <= line.limit]
    states = Counter(row.status for row in statement.rows)
    facts = {"answers": dict(counted), "ledger": dict(states), "overdrawn": len(over), "seconds": round(took, 1)}
    reached = sum(counted.values()) == ANALYSTS * EACH and not over and states["released"] == counted["done"]
    return {**facts, "events": checked.events, "reached": reached}


def kills(folder: Path, quick: bool) -> dict[str, Any]:
    """A server that is killed at random moments; what its ledger was charged for."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from tests.e2e.service_driver import Driver
    from tests.e2e.service_kills import run_kills

    from services import SLOT, write_project

    driver = Driver(write_project(folder, service=f"slot = {SLOT}\nrate = 10000000\nlease = 0.4", rows=3000))
    try:
        counts = run_kills(driver, f"sqlite:///{folder}/budget.db", QUICK_KILLS if quick else KILLS, seed=1)
    finally:
        driver.close()
    return {"summary": {**counts, "reached": counts["charged"] == counts["released"] == counts["kills"]}}


def soak(folder: Path, quick: bool = False, *, seconds: int | None = None) -> dict[str, Any]:
    """Half load: 8 clients that explain records, one that releases; memory after a warm-up and at the end."""
    seconds = seconds or (QUICK_SOAK if quick else SOAK)
    with Server(folder) as server:
        path, token = sketched(server)
        stop, counts, errors = threading.Event(), Counter[str](), list[str]()
        body = json.dumps({"record": RECORD}).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

        def explains() -> None:
            while not stop.wait(0.03):
                try:
                    asked = urllib.request.Request(server.url + path, body, headers)
                    with urllib.request.urlopen(asked, timeout=30) as answer:
                        answer.read()
                    counts["explained"] += 1
                except OSError as error:
                    errors.append(type(error).__name__)

        def releases() -> None:
            me, _ = server.analyst("ben", 10.0)
            table, model, turn = me.table("people"), me.model(), 0
            while not stop.wait(1.0):
                turn += 1
                try:
                    me.partial_dependence(table, model, "age", epsilon=0.02 + turn / 1e6, smooth=False)
                    counts["released"] += 1
                except BudgetError:
                    counts["refused"] += 1
                except Exception as error:
                    errors.append(type(error).__name__)

        threads = [threading.Thread(target=explains) for _ in range(8)] + [threading.Thread(target=releases)]
        for thread in threads:
            thread.start()
        measured = list[float]()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(seconds / 20)
            measured.append(server.memory())
        stop.set()
        for thread in threads:
            thread.join()
    early, late = statistics.median(measured[4:8]), statistics.median(measured[-4:])
    facts = {"requests": sum(counts.values()), "errors": len(errors), "growth_mib": round(late - early, 1)}
    facts["reached"] = not errors and facts["growth_mib"] < GROWTH
    more = {"seconds": seconds, "counts": dict(counts), "kinds": dict(Counter(errors)), "memory_mib": measured}
    return {**facts, **more, "summary": facts}
