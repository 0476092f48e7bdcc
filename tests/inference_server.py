"""A small model server for tests: the Open Inference Protocol v2 over HTTP, on the loopback alone.

It answers with `score` of the columns, and misbehaves as it is told: fails on some rows, waits, says nonsense.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

SECRET = "what a server says about a row is never quoted"


class Behaviour:
    """What the server does; tests change it while it runs.

    score    of a dictionary of columns, for each row one number or a line of them
    before   called with the columns of each request, before it is answered
    """

    def __init__(self, score: Callable[[dict[str, Any]], Any], columns: dict[str, str], matrix: bool = False) -> None:
        self.score, self.columns, self.matrix = score, columns, matrix
        self.before: Callable[[dict[str, Any]], None] = lambda columns: None
        self.statuses: list[int] = []  # of the next answers, before there is a right one
        self.datatype = "FP64"
        self.rewrite: Callable[[dict[str, Any]], Any] = lambda answer: answer
        self.behind = b""  # sent a moment after an answer, to a request that nobody made
        self.metadata: dict[str, Any] = {}
        self.requests: list[int] = []  # rows in each of them
        self.together = self.most_together = 0
        self.tokens: set[str | None] = set()
        self.lock = threading.Lock()

    @property
    def described(self) -> dict[str, Any]:
        if self.matrix:
            inputs = [{"name": "rows", "datatype": "FP64", "shape": [-1, len(self.columns)]}]
        else:
            inputs = [{"name": n, "datatype": kind, "shape": [-1, 1]} for n, kind in self.columns.items()]
        outputs = [{"name": "score", "datatype": self.datatype, "shape": [-1]}]
        return {
            "name": "risk",
            "versions": ["1"],
            "platform": "test",
            "inputs": inputs,
            "outputs": outputs,
            **self.metadata,
        }

    def columns_of(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.matrix:
            one = request["inputs"][0]
            values = np.array(one["data"], dtype=float).reshape(one["shape"])
            return {name: values[:, j] for j, name in enumerate(self.columns)}
        return {one["name"]: np.array(one["data"]) for one in request["inputs"]}

    def answered(self, request: dict[str, Any]) -> Any:
        columns = self.columns_of(request)
        with self.lock:
            self.requests.append(len(next(iter(columns.values()))))
            self.together += 1
            self.most_together = max(self.most_together, self.together)
        try:
            self.before(columns)
            said = np.asarray(self.score(columns), dtype="float32" if self.datatype == "FP32" else "float64")
        finally:
            with self.lock:
                self.together -= 1
        output = {"name": "score", "datatype": self.datatype, "shape": list(said.shape), "data": said.ravel().tolist()}
        return self.rewrite({"model_name": "risk", "outputs": [output]})


class Broken(Exception):
    """Told to a server to break off the connection."""


@contextmanager
def served(behaviour: Behaviour, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """The address of a model that behaves like this."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 2**16  # head and body in one packet

        def do_GET(self) -> None:
            self._say(200, behaviour.described)

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with behaviour.lock:
                behaviour.tokens.add(self.headers.get("Authorization"))
                status = behaviour.statuses.pop(0) if behaviour.statuses else 200
            if status != 200:
                return self._say(status, {"error": SECRET})
            try:
                answer = behaviour.answered(request)
            except Broken:
                self.close_connection = True
                return None
            except Exception:
                return self._say(500, {"error": SECRET})
            self._say(200, answer)
            if behaviour.behind:
                time.sleep(0.05)
                self.wfile.write(behaviour.behind)
                self.wfile.flush()
            return None

        def _say(self, status: int, answer: Any) -> None:
            text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            try:
                self.send_response(status, SECRET)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)
                self.wfile.flush()
            except OSError:
                self.close_connection = True  # whoever asked does not wait any longer

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_: Any) -> None:
            """Write nothing."""

    server = Server(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_address[1]}/v2/models/risk"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def slow(seconds: float) -> Callable[[dict[str, Any]], None]:
    return lambda columns: time.sleep(seconds)
