"""Servers in processes of their own, which can be killed. One process imports everything; each server is a fork of it.

driver = Driver(project); pid = driver.start(port); os.kill(pid, SIGKILL)
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

CODE = """
import os, signal, sys
from pathlib import Path
from dpexplain.project.file import Project
from dpexplain.service import api, curate, server
from dpexplain.service.console import warm
import dpexplain.methods.partial_dependence.release, dpexplain.methods.batches.release
for line in sys.stdin:
    port = int(line)
    pid = os.fork()
    if pid == 0:
        try:
            server.serve([Project.load(Path(sys.argv[1]))], host="127.0.0.1", port=port, new_token=False)
        finally:
            os._exit(0)
    print("pid", pid, flush=True)
    os.waitpid(-1, os.WNOHANG)
"""


class Driver:
    """Starts servers of one project."""

    def __init__(self, project: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", CODE, str(project)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, cwd=project.parent,
        )  # fmt: skip
        self.token = ""
        self.running: set[int] = set()

    def start(self, port: int) -> int:
        """The process id of a server that answers."""
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: PT018 - one thing
        self._process.stdin.write(f"{port}\n")
        self._process.stdin.flush()
        pid = None
        while pid is None:
            line = self._process.stdout.readline()
            assert line, "the driver ended by itself"
            if line.startswith("pid "):
                pid = int(line.split()[1])
            if "dpx_" in line:
                self.token = line.strip()
        self.running.add(pid)
        until = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/ready", timeout=2).read()
                break
            except (OSError, urllib.error.URLError):
                assert time.monotonic() < until, "the server did not start"
                time.sleep(0.02)
        if not self.token:  # printed by the child, perhaps after its id
            for line in self._process.stdout:
                if "dpx_" in line:
                    self.token = line.strip()
                    break
        return pid

    def kill(self, pid: int, signal: int) -> None:
        os.kill(pid, signal)
        self.running.discard(pid)

    def close(self) -> None:
        for pid in self.running:
            os.kill(pid, 9)
        self._process.kill()
        self._process.communicate(timeout=10)
