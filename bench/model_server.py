"""A server of the Open Inference Protocol v2 for `python -m bench models`: a LightGBM file, in a process of its own.

`python -m bench.model_server FILE [CORES]` writes its port and serves until its input ends; for each line of it, it
writes the processor seconds that it took so far. It runs on these cores alone, where any are named.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import lightgbm
import numpy as np


def main(path: str, *cores: str) -> None:
    if cores:
        os.sched_setaffinity(0, map(int, cores))
    booster = lightgbm.Booster(model_file=path)
    names = booster.feature_name()
    inputs = [{"name": "rows", "datatype": "FP64", "shape": [-1, len(names)]}]
    outputs = [{"name": "score", "datatype": "FP64", "shape": [-1]}]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 2**16

        def do_GET(self) -> None:
            self._say({"name": "risk", "versions": ["1"], "platform": "lightgbm", "inputs": inputs, "outputs": outputs})

        def do_POST(self) -> None:
            one = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["inputs"][0]
            said = booster.predict(np.array(one["data"]).reshape(one["shape"]), num_threads=1)
            output = {**outputs[0], "shape": [len(said)], "data": said.tolist()}
            self._say({"model_name": "risk", "outputs": [output]})

        def _say(self, answer: Any) -> None:
            text = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            self.wfile.flush()

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    for _ in sys.stdin:  # each line asks for the processor seconds so far
        print(time.process_time(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
