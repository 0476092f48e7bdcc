"""`dpexplain serve --processes 2`: connections are shared, a process that dies is replaced, a signal ends them all."""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter

import pytest

from dpexplain.service.server import own_socket
from services import free_port, write_project

pytestmark = [pytest.mark.long, pytest.mark.posix]
TOGETHER, MOST = 64, 52  # connections at once; by chance one of two processes has more than 52 in 1 of 10 million cases


@pytest.fixture
def serving(tmp_path):
    """A server of two processes on one port; nobody is left when the test ends."""
    port = free_port()
    project = write_project(tmp_path, service="slot = 0.25\nlease = 0.5", rows=200)
    command = [sys.executable, "-m", "dpexplain.cli", "serve", "--project", str(project)]
    with (tmp_path / "errors.log").open("w") as errors:
        parent = subprocess.Popen(
            [*command, "--port", str(port), "--processes", "2"], stdout=subprocess.DEVNULL, stderr=errors
        )
    try:
        yield parent, port
    finally:
        parent.terminate()
        parent.wait(60)


def children(parent: subprocess.Popen) -> set[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent.pid)], capture_output=True, text=True, check=False)
    return set(map(int, found.stdout.split()))


def get(connection: http.client.HTTPConnection, path: str) -> str:
    connection.request("GET", f"/v1/{path}")
    return connection.getresponse().read().decode()


def asked(connection: http.client.HTTPConnection) -> int:
    """How often the process at the other end was asked for its health."""
    counted = re.search(r'route="/v1/health",status="200"} (\d+)', get(connection, "metrics"))
    return 0 if counted is None else int(counted[1])


def shares(port: int) -> Counter[int]:
    """How many connections each process took, of many that were made at once."""
    every = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(TOGETHER)]
    try:
        for one in every:
            one.connect()
        before = [asked(one) for one in every]
        for one in every:
            assert json.loads(get(one, "health"))["alive"]
        return Counter(asked(one) - known for one, known in zip(every, before, strict=True))
    finally:
        for one in every:
            one.close()


def shared(port: int) -> None:
    """Wait until each of two processes takes its part."""
    until = time.monotonic() + 90
    while True:
        try:
            found = shares(port)
        except OSError:  # nobody listens yet
            found = Counter({TOGETHER: TOGETHER})
        if max(found) <= MOST:
            return
        assert time.monotonic() < until, found
        time.sleep(0.2)


def test_two_processes_share_connections_are_replaced_and_stop_together(serving):
    parent, port = serving
    shared(port)
    killed, other = children(parent)
    os.kill(killed, signal.SIGKILL)
    while killed in children(parent) or len(children(parent)) < 2:
        time.sleep(0.1)
    assert other in children(parent)
    shared(port)
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(60) == 0
    with pytest.raises(ConnectionRefusedError):
        shares(port)


def test_the_connections_of_each_process_send_at_once():
    port = free_port()
    here = ("127.0.0.1", port)
    with own_socket(*here) as first, own_socket(*here) as second, socket.create_connection(here):
        ready, _, _ = select.select([first, second], [], [], 10)
        taken, _ = ready[0].accept()
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        taken.close()


def test_a_port_that_somebody_has_is_not_shared_with_them(serving, tmp_path):
    """Or requests would come to a server of other tables."""
    _, port = serving
    shared(port)
    other = write_project(tmp_path / "other", name="other", rows=200)
    command = [sys.executable, "-m", "dpexplain.cli", "serve", "--project", str(other), "--port", str(port)]
    for processes in ("1", "2"):
        more = [*command, "--processes", processes]
        found = subprocess.run(more, capture_output=True, text=True, timeout=120, check=False)
        assert found.returncode == 2
        assert f"cannot listen on 127.0.0.1:{port}" in found.stderr
        assert "dpx_" not in found.stdout, "a token is shown by a server that begins"
    shared(port)
