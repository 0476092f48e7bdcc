"""The service over loopback: local explanations under `wrk`, 64 analysts at once, a long time at half load.

local   requests a second and p99 of POST /v1/releases/{sketch}/explain, logistic model, 32 clients
crowd   64 analysts at once on one table, three requests each: what became of them, and what the ledger says
console the pages of the console (`service_console.py`)
soak    half load for `--seconds` of the part (30 minutes; 10 seconds with --quick): errors, and growth of memory
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

from bench import report
from dpexplain import Client
from dpexplain.errors import BudgetError
from dpexplain.ledger import open_ledger

RATE, P99 = 500, 50.0  # to reach: a second, and milliseconds
CLIENTS, ANALYSTS, EACH, SECONDS = 32, 64, 3, 20
SOAK, QUICK_SOAK = 1800, 10
COLUMNS = {
    "age": (18, 90),
    "income": (0, 200),
    "visits": (0, 40),
    "children": (0, 8),
    "distance": (0, 60),
    "bmi": (15, 50),
}
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
    if options.part == "console":
        from bench import service_console

        service_console.run(options)
        return
    parts = ["local", "crowd", "soak"] if options.part == "all" else [options.part]
    content: dict[str, Any] = {}
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            seconds = QUICK_SOAK if options.quick else SOAK
            content[part] = {"local": local, "crowd": crowd, "soak": soak}[part](
                Path(folder), seconds=(3 if options.quick else SECONDS) if part == "local" else seconds
            )
            print(part, json.dumps(content[part]))
    name = "service" if options.part == "all" else f"service-{options.part}"
    report.write(name, options, {"summary": {part: found["summary"] for part, found in content.items()}, **content})


class Server:
    """`dpexplain serve` in processes of its own, and its curator."""

    def __init__(self, folder: Path, processes: int = 2) -> None:
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
        (folder / "dpexplain.toml").write_text(PROJECT)
        (folder / "bench_service_model.py").write_text(MODEL)
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
        token = next(line.strip() for line in self._process.stdout if "dpx_" in line)
        self.curator = Client(self.url, token)
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


def local(folder: Path, *, seconds: int) -> dict[str, Any]:
    """Local explanations under wrk."""
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
    return {**found, "clients": CLIENTS, "seconds": seconds, "summary": {**found, "reached": reached}}


def _milliseconds(text: str, which: str) -> float:
    number, unit = re.search(rf"{which}\s+([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


def crowd(folder: Path, *, seconds: int = 0) -> dict[str, Any]:  # noqa: ARG001 - takes as long as it takes
    """64 analysts at once, whose limits allow two of three requests."""
    with Server(folder) as server:
        people = [server.analyst(f"analyst-{number}", 0.25)[0] for number in range(ANALYSTS)]
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
        ledger = open_ledger(f"sqlite:///{folder}/budget.db", create=False)
        checked, statement = ledger.verify(), ledger.statement("people")
        over = [line.analyst for line in statement.analysts if line.limit is not None and not line.spent <= line.limit]
    states = Counter(row.status for row in statement.rows)
    facts = {"answers": dict(counted), "ledger": dict(states), "overdrawn": len(over), "seconds": round(took, 1)}
    reached = sum(counted.values()) == ANALYSTS * EACH and not over and states["released"] == counted["done"]
    return {**facts, "events": checked.events, "summary": {**facts, "reached": reached}}


def soak(folder: Path, *, seconds: int) -> dict[str, Any]:
    """Half load: 8 clients that explain records, one that releases; memory after a warm-up and at the end."""
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
    more = {"seconds": seconds, "counts": dict(counts), "kinds": dict(Counter(errors)), "memory_mib": measured}
    return {**facts, **more, "summary": facts}
