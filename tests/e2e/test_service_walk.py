"""What docs/service.md begins with, by real processes: a server from the command line, a client, an assistant."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

import dpexplain as dpx
from dpexplain.errors import LedgerUnavailable
from services import PDP, free_port, write_project

pytest.importorskip("mcp")
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

pytestmark = pytest.mark.long
CLIENT = """\
import json, sys
import dpexplain

url, token = sys.argv[1:]
dpx = dpexplain.Client(url, token)
table, model = dpx.table("people"), dpx.model()
before = dpx.budget(table)["left_for_you_epsilon"]
forecast = dpx.plan(dpx.requests.PartialDependence(feature="age"), table=table, model=model, epsilon=0.2)
curve = dpx.partial_dependence(table, model, "age", epsilon=0.2)
after = dpx.budget(table)["left_for_you_epsilon"]
print(json.dumps([before, after, forecast.best.error, len(curve.values), dpx.verify(curve)]))
"""


@pytest.fixture
def served(tmp_path):
    """`dpexplain serve` in a process of its own: its address, and the curator's token that it printed."""
    port = free_port()
    project = write_project(tmp_path, service="slot = 0.25\nrate = 100000\napprove_above = 0.2", rows=300)
    command = [sys.executable, "-m", "dpexplain.cli", "serve", "--project", str(project), "--port", str(port)]
    with (tmp_path / "errors.log").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        told = ""
        while "Serving" not in told:
            line = process.stdout.readline()
            assert line, (tmp_path / "errors.log").read_text()
            told += line
        yield f"http://127.0.0.1:{port}", re.search(r"dpx_\w+", told)[0]
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


def patiently(function):
    """What a function returns as soon as the server answers."""
    for _ in range(150):
        try:
            return function()
        except LedgerUnavailable:
            time.sleep(0.2)
    raise AssertionError("the server did not answer")


def test_a_client_and_an_assistant_ask_and_the_budget_goes_down(served):
    url, token = served
    curator = dpx.Client(url, token)
    patiently(lambda: curator.me)
    tokens = {"ana": curator.new_token("ana"), "bot": curator.new_token("bot", agent=True)}
    for name in tokens:
        curator.set_limit("people", name, epsilon=0.5)
    whole = curator.budget("people")["left_epsilon"]

    asked = subprocess.run(
        [sys.executable, "-c", CLIENT, url, tokens["ana"]], capture_output=True, text=True, timeout=120, check=False
    )
    assert asked.returncode == 0, asked.stderr
    before, after, error, points, notes = json.loads(asked.stdout)
    assert before == pytest.approx(0.5, rel=1e-6)
    assert after < before - 0.01, "the budget goes down"
    assert (error > 0, points > 1) == (True, True)
    assert all("unchecked" in note for note in notes), "genuine, as far as it can be seen without the model"

    async def assistant():
        spoken = StdioServerParameters(
            command=sys.executable, args=["-m", "dpexplain.cli", "mcp", "--url", url],
            env={**os.environ, "DPEXPLAIN_TOKEN": tokens["bot"]},
        )  # fmt: skip
        async with Client(stdio_client(spoken)) as client:

            async def call(tool, **arguments):
                told = await client.call_tool(tool, arguments)
                assert not told.is_error, told.content[0].text
                return told.content[0].text

            request = {"table": "people", "request": PDP, "epsilon": 0.15}
            plan = (await call("plan", **request)).partition("Plan: ")[2].split()[0]
            told = [await call("budget", table="people"), await call("explain", **request, plan=plan)]
            return [*told, await call("budget", table="people")]

    with ThreadPoolExecutor(1) as pool:  # a browser of another test may have a loop running in this thread
        before, answer, after = pool.submit(anyio.run, assistant).result()
    assert "It is done" in answer
    assert "one row replaced by other values" in " ".join(answer.split())
    left = [json.loads(one)["left_for_you_epsilon"] for one in (before, after)]
    assert left[1] < left[0] - 0.01
    assert curator.budget("people")["left_epsilon"] < whole - 0.001
