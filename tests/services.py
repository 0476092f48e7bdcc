"""A service in tests: a small project, a server on a port of its own, and plain HTTP to it."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import uvicorn

from commands import DOMAIN, PROJECT
from dpexplain.project.file import Project
from dpexplain.service.server import config_of
from dpexplain.service.service import Service

MODEL = """\
import numpy as np


def score(rows):
    return (rows["age"] - 20) / 20 + 0.25 * (rows["sex"] == "Male").to_numpy()
"""
SLOT = 0.05
PDP = {"request": "partial-dependence", "feature": "sex"}


def write_project(
    folder: Path,
    *,
    service: str = f"slot = {SLOT}\nrate = 1000000",
    budget: str = "epsilon = 8.0\ndelta = 1e-6",
    name: str = "people",
    rows: int = 1000,
) -> Path:
    """A folder with a table, a model and a project file."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"age": draw.integers(20, 30, rows), "sex": draw.choice(["Female", "Male"], rows)})
    table.to_parquet(folder / "people.parquet")
    (folder / "domain.yaml").write_text(DOMAIN)
    (folder / f"model_of_{name}.py").write_text(MODEL)
    text = PROJECT.replace("epsilon = 2.0", budget).replace("cli_test_model", f"model_of_{name}")
    text = text.replace('name = "people"', f'name = "{name}"')
    (folder / "dpexplain.toml").write_text(f"{text}\n[service]\n{service}\n")
    return folder / "dpexplain.toml"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Running:
    """A server that answers, and its curator."""

    service: Service
    url: str
    port: int
    curator: str
    tokens: dict[str, str] = field(default_factory=dict)

    def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = "", key: str | None = None
    ) -> tuple[int, Any]:
        """Status and JSON of a request; as the curator, unless another token is given."""
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token or self.curator}"
        if key is not None:
            headers["Idempotency-Key"] = key
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, f"/v1{path}", None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        return answer.status, json.loads(text) if text.startswith(("{", "[")) else text

    def good(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        """The JSON of a request that succeeds."""
        status, found = self.ask(method, path, body, **how)
        assert status < 300, (status, found)
        return found

    def member(self, name: str, role: str = "analyst", *, limit: float | None = 1.0, **more: Any) -> str:
        """A token for somebody, with a limit for every table."""
        made = self.good("POST", "/tokens", {"name": name, "role": role, **more})["token"]
        if role == "analyst" and limit is not None:
            for table in self.service.tables:
                self.good("PUT", f"/tables/{quote(table)}/analysts/{name}", {"epsilon": limit})
        self.tokens[name] = made
        return str(made)

    def done(self, job: str, **how: Any) -> Any:
        """A job when it has ended."""
        until = time.monotonic() + 60
        while True:
            found = self.good("GET", f"/jobs/{job}?wait=5", **how)
            if found["state"] not in ("queued", "running"):
                if self.service is not None:  # it runs in this process
                    self.service.books.turn()  # the page of the account may be a moment later than the job
                return found
            assert time.monotonic() < until, found

    def explained(
        self, token: str, request: Any = PDP, *, key: str | None = None, table: str = "people", **more: Any
    ) -> Any:
        """The job of an explanation, when it has ended."""
        body = {"request": request, **({"epsilon": 0.25} if "rho" not in more else {}), **more}
        job = self.good("POST", f"/tables/{table}/explanations", body, token=token, key=key)
        return self.done(job["id"], token=token)


@contextmanager
def serving(service: Service) -> Iterator[Running]:
    """Serve on a port of its own, in a thread."""
    token, port = service.first_token(again=True), free_port()
    server = uvicorn.Server(config_of(service, "127.0.0.1", port))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    try:
        yield Running(service, f"http://127.0.0.1:{port}", port, str(token))
    finally:
        server.should_exit = True
        thread.join(30)


@contextmanager
def running(*projects: Path) -> Iterator[Running]:
    """Serve these projects."""
    before = list(sys.path)
    try:
        with serving(Service([Project.load(path) for path in projects])) as found:
            yield found
    finally:
        sys.path[:] = before
