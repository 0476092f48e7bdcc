"""AI assistants: whatever a client of the protocol does, the service decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

import dpexplain as dpx
from services import PDP, Running, free_port, running, write_project

pytest.importorskip("mcp")
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from dpexplain.service.tools import server
from dpexplain.service.wire import Wire


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with running(
        write_project(tmp_path_factory.mktemp("agents"), service="slot = 0.05\nrate = 100000\napprove_above = 0.2")
    ) as found:
        found.member("bot", agent=True, limit=0.35)
        found.member("ana", limit=1.0)
        yield found


def in_thread(function, *given):
    """Run it in a thread of its own: a browser of another test may have a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(anyio.run, function, *given).result()


def called(here: Running, *calls, token=None):
    """The texts that these tools answer, and whether each is an error."""

    async def run():
        async with Client(server(lambda _: Wire.to(here.url, token or here.tokens["bot"]))) as client:
            found = []
            for name, arguments in calls:
                told = await client.call_tool(name, arguments)
                found.append((told.content[0].text, bool(told.is_error)))
            return found

    return in_thread(run)


def planned(here: Running, request=PDP, epsilon=0.1) -> str:
    ((text, wrong),) = called(here, ("plan", {"table": "people", "request": request, "epsilon": epsilon}))
    assert not wrong, text
    return text.partition("Plan: ")[2].split()[0]


def test_an_assistant_plans_asks_and_reads_the_promise(here):
    plan = planned(here)
    asked = {"table": "people", "request": PDP, "epsilon": 0.1, "plan": plan}
    tables, methods, schema, told, again, budget = called(
        here, ("list_tables", {}), ("list_methods", {}), ("describe_method", {"request": "partial-dependence"}),
        ("explain", asked), ("explain", asked), ("budget", {"table": "people"}),
    )  # fmt: skip
    assert not any(wrong for _, wrong in (tables, methods, schema, told, again, budget))
    assert "It is done" in told[0]
    assert "one row replaced by other values" in " ".join(told[0].split())
    assert again[0] == told[0]
    mine = here.good("GET", "/tables/people/budget", token=here.tokens["bot"])
    assert len(mine["entries"]) == 1, "asked twice, paid once"


def test_a_client_that_ignores_every_hint_cannot_overdraw(here):
    bot = here.tokens["bot"]
    loose = {"request": {**PDP, "feature": "age"}, "epsilon": 0.1}
    status, error = here.ask("POST", "/tables/people/explanations", loose, token=bot)
    assert (status, "plan" in error["error"]["message"]) == (422, True)
    made_up = called(here, ("explain", {**loose, "table": "people", "plan": "made-up"}))
    assert made_up[0][1]
    plan = planned(here)
    dearer = called(here, ("explain", {"table": "people", "request": PDP, "epsilon": 0.15, "plan": plan}))
    assert dearer[0][1], "a plan is for its own price"
    for feature in ("age", "sex"):  # loops: every request planned, none approved by anybody
        for epsilon in (0.17, 0.18, 0.19, 0.2):
            request = {**PDP, "feature": feature}
            plan = planned(here, request, epsilon)
            called(here, ("explain", {"table": "people", "request": request, "epsilon": epsilon, "plan": plan}))
    line = next(one for one in here.service.tables["people"].statement.analysts if one.analyst == "bot")
    assert line.spent <= line.limit
    jobs = here.good("GET", "/jobs", token=bot)["jobs"]
    assert {"done", "refused"} <= {one["state"] for one in jobs}, "or the limit was never reached"


TOOLS = {
    "list_tables", "list_methods", "describe_method", "budget", "plan", "plan_batch", "explain", "batch", "job",
    "list_releases", "read_release", "explain_record", "read_posterior", "verify",
}  # fmt: skip


def test_the_tools_are_the_analysts_verbs_and_say_which_of_them_spend(here):
    async def listed():
        async with Client(server(lambda _: Wire.to(here.url, here.tokens["bot"]))) as client:
            return (await client.list_tools()).tools

    tools = {one.name: one for one in in_thread(listed)}
    assert set(tools) == TOOLS
    assert {name for name, one in tools.items() if not one.annotations.read_only_hint} == {"explain", "batch"}
    about = {"model", "models", "clustering", "uses"}
    for name in ("plan", "explain"):
        assert about <= set(tools[name].input_schema["properties"])
        assert "context" not in tools[name].input_schema["properties"]


def said(here: Running, tool: str, **arguments) -> str:
    """What a tool answers, without an error."""
    ((text, wrong),) = called(here, (tool, arguments), token=here.tokens["bea"])
    assert not wrong, text
    return str(text)


def test_a_batch_is_planned_asked_read_off_and_verified(here):
    here.member("bea", agent=True, limit=0.6)
    requests = [{"request": "stand-in"}, PDP]
    asked = {"table": "people", "requests": requests, "epsilon": 0.19}
    told = said(here, "plan_batch", **asked)
    assert "partial dependence" in told.lower()
    plan = told.partition("Plan: ")[2].split()[0]
    ((text, wrong),) = called(here, ("batch", {**asked, "plan": "made-up"}), token=here.tokens["bea"])
    assert wrong
    ((text, wrong),) = called(here, ("batch", {**asked, "epsilon": 0.2, "plan": plan}), token=here.tokens["bea"])
    assert wrong, "a plan is for its own price"
    done = said(here, "batch", **asked, plan=plan)
    assert "It is done" in done
    assert said(here, "batch", **asked, plan=plan) == done, "a loop asks for the same job"
    assert len(here.good("GET", "/tables/people/budget", token=here.tokens["bea"])["entries"]) == 1
    releases = [json.loads(line) for line in said(here, "list_releases", table="people").splitlines()]
    assert len(releases) == 2, releases
    stand_in = next(one for one in releases if one["kind"].startswith("stand"))
    curve = next(one for one in releases if one["feature"] == "sex")
    about = {"table": "people", "stand_in": stand_in["reservation"], "results": [stand_in["reservation"]]}
    read = json.loads(said(here, "read_posterior", **about, request=PDP))
    assert read["readings"][0]["feature"] == "sex"
    record = {"age": 25, "sex": "Male"}
    assert json.loads(said(here, "read_posterior", **about, record=record))["features"] == ["age", "sex"]
    assert said(here, "verify", table="people", release=curve["id"]).startswith("Genuine")
    document = here.good("GET", f"/releases/{curve['id']}", token=here.tokens["bea"])
    assert said(here, "verify", table="people", document=json.dumps(document)).startswith("Genuine")
    forged = json.dumps({**document, "guarantee": "none"})
    ((text, wrong),) = called(here, ("verify", {"table": "people", "document": forged}), token=here.tokens["bea"])
    assert (wrong, "guarantee" in text) == (True, True)
    used = {"request": {**PDP, "feature": "age"}, "epsilon": 0.05, "uses": {"stand_in": stand_in["reservation"]}}
    used |= {"table": "people", "model": "1"}
    plan = said(here, "plan", **used).partition("Plan: ")[2].split()[0]
    assert "It is done" in said(here, "explain", **used, plan=plan)


def test_a_dear_batch_waits_for_the_curator(here):
    here.member("bea", agent=True, limit=0.6)
    asked = {"table": "people", "requests": [PDP, {**PDP, "feature": "age"}], "epsilon": 0.3}
    plan = said(here, "plan_batch", **asked).partition("Plan: ")[2].split()[0]
    before = here.service.tables["people"].statement.spent
    told = said(here, "batch", **asked, plan=plan)
    assert "The curator has to approve it" in told
    assert here.service.tables["people"].statement.spent == before
    dpx.Client(here.url, here.curator).approve(told.split()[1].rstrip(":"), False)


def test_an_error_has_a_price_and_what_is_free_needs_no_plan(here):
    here.member("bea", agent=True, limit=0.6)
    wanted = said(here, "plan", table="people", request=PDP, max_error=0.5)
    assert "plan again with the cost" in wanted
    free = said(here, "explain", table="people", request={"request": "stand-in", "grade": "domain"})
    assert "It is done" in free
    ((text, wrong),) = called(
        here, ("explain", {"table": "people", "request": PDP, "epsilon": 0.01}), token=here.tokens["bea"]
    )
    assert wrong
    assert "plans first" in text


def test_what_is_dear_waits_for_the_curator(here):
    request = {**PDP, "smooth": False}
    before = here.service.tables["people"].statement.spent
    plan = planned(here, request, 0.3)
    ((told, _),) = called(here, ("explain", {"table": "people", "request": request, "epsilon": 0.3, "plan": plan}))
    assert "The curator has to approve it" in told
    job = told.split()[1].rstrip(":")
    assert here.ask("POST", f"/jobs/{job}/approval", {"approved": True}, token=here.tokens["bot"])[0] == 403
    assert here.service.tables["people"].statement.spent == before
    dpx.Client(here.url, here.curator).approve(job, False)
    assert here.good("GET", f"/jobs/{job}")["state"] == "declined"
    assert here.ask("POST", f"/jobs/{job}/approval", {"approved": True})[0] == 409
    assert "approval" in {one["what"] for one in here.good("GET", "/decisions")["decisions"]}


def test_only_an_agents_token_may_be_given_to_an_assistant(here):
    asked = {"table": "people", "request": PDP, "epsilon": 0.1}
    ((text, wrong),) = called(here, ("plan", asked), token=here.tokens["ana"])
    assert wrong
    assert "agent's token" in text
    ((text, wrong),) = called(here, ("list_tables", {}), token="dpx_0_0")
    assert (wrong, "valid token" in text) == (True, True)


@pytest.mark.long
def test_over_stdio_and_over_http(here):
    command = ["-m", "dpexplain.cli", "mcp", "--url", here.url]

    async def over_stdio():
        spoken = StdioServerParameters(
            command=sys.executable, args=command, env={**os.environ, "DPEXPLAIN_TOKEN": here.tokens["bot"]}
        )
        async with Client(stdio_client(spoken)) as client:
            return (await client.call_tool("list_tables", {})).content[0].text

    assert "people" in in_thread(over_stdio)
    port = free_port()
    process = subprocess.Popen([sys.executable, *command, "--http", str(port)], stderr=subprocess.DEVNULL)

    async def over_http(token):
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            way = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
            async with Client(way) as client:
                return (await client.call_tool("list_tables", {})).content[0].text

    async def patiently(token):
        for _ in range(100):
            try:
                return await over_http(token)
            except Exception:
                await anyio.sleep(0.2)
        raise AssertionError("the server of the protocol did not answer")

    try:
        assert "people" in in_thread(patiently, here.tokens["bot"])
        assert "valid token" in in_thread(patiently, "dpx_0_0")
    finally:
        process.terminate()
        process.wait(10)
