"""The analyst's verbs as tools for AI assistants, by the Model Context Protocol: over stdio, or over HTTP.

A tool is a request to a service, with the token of whoever runs the assistant. What matters is decided there, because
an assistant may ignore every hint: an agent's token plans before it asks, waits for the curator above a price,
and spends within the analyst's limit. The key of a request is its plan, so that a loop asks for the same thing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from dpexplain.core.canonical import JsonObject
from dpexplain.errors import DpexplainError, InputError
from dpexplain.methods.result import from_json
from dpexplain.receipts import package_version
from dpexplain.service.verbs import quoted
from dpexplain.service.wire import Wire

LONGEST = 20_000  # characters of one answer
WAIT = 45  # seconds that a tool waits for the end of a job
INSTRUCTIONS = """\
Differentially private explanations of a model on a table that nobody here may see. Each release spends privacy budget
that never comes back. Call plan first: it is free and tells the error to expect. Then call explain with the plan's id.
If it waits for the curator, tell the person, and ask job later. Always report the interval and the guarantee of a
result together with its numbers. What a table's columns and a model's answers mean is told by the data holder alone.
"""
FREE = ToolAnnotations(read_only_hint=True, open_world_hint=False)
SPENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)

Table = Annotated[str, Field(description="The name of a table, from list_tables.")]
Asked = Annotated[JsonObject, Field(description="A request, such as its schema in describe_method says.")]
Epsilon = Annotated[float, Field(gt=0, description="The price.")]
Plan = Annotated[str, Field(min_length=1, description="The id that plan answered, for exactly this request and price.")]


def server(wire_of: Callable[[Any], Wire]) -> MCPServer:
    """The tools; `wire_of` a call's context is the way to the service, with the caller's token."""
    tools = MCPServer("dpexplain", instructions=INSTRUCTIONS, version=package_version(), log_level="WARNING")

    async def ask(context: Any, method: str, path: str, body: JsonObject | None = None, key: str | None = None) -> Any:
        try:
            wire = wire_of(context)
            return await anyio.to_thread.run_sync(lambda: wire.ask(method, path, body, key=key))
        except DpexplainError as error:
            raise ToolError(str(error)) from None

    async def agent(context: Any) -> None:
        if not (await ask(context, "GET", "/me"))["agent"]:
            raise ToolError("an assistant needs an agent's token.\nHint: the curator makes one, with agent = true")

    async def told(context: Any, job: JsonObject) -> str:
        """What has become of a job, in words; its results with their promise."""
        lines = [f"Job {job['id']}: {job['label']}, {job['price']}. It is {job['state']}."]
        if job["state"] == "waiting":
            lines.append("The curator has to approve it. Nothing was spent. Ask for it again later, by job.")
        if job["error"] is not None:
            lines += [job["error"][name] for name in ("message", "hint", "spent") if job["error"][name]]
        if job["replayed"]:
            lines.append("The same request was released before: it was answered again, free.")
        for release in job["results"]:
            lines += ["", f"Release {release}:", await words(context, release)]
        return "\n".join(lines)[:LONGEST]

    async def words(context: Any, release: str) -> str:
        document = await ask(context, "GET", f"/releases/{quoted(release)}")
        return await anyio.to_thread.run_sync(lambda: str(from_json(json.dumps(document))))

    @tools.tool(annotations=FREE)
    async def list_tables(context: Context) -> str:
        """The tables that can be asked about, and what is public about them: columns, who is protected, models."""
        return _shown(await ask(context, "GET", "/tables"))

    @tools.tool(annotations=FREE)
    async def list_methods(context: Context) -> str:
        """What can be asked for, one line each."""
        found = (await ask(context, "GET", "/methods"))["methods"]
        return "\n".join(f"{one['request']}: {one['lead']}" for one in found)

    @tools.tool(annotations=FREE)
    async def describe_method(context: Context, request: str) -> str:
        """The JSON schema of one kind of request."""
        found = (await ask(context, "GET", "/methods"))["methods"]
        known = next((one for one in found if one["request"] == request), None)
        if known is None:
            raise ToolError(
                f"there is no request {request[:100]!r}; there is: {', '.join(o['request'] for o in found)}"
            )
        return _shown(known)

    @tools.tool(annotations=FREE)
    async def budget(context: Context, table: Table) -> str:
        """What may still be spent."""
        found = await ask(context, "GET", f"/tables/{quoted(table)}/budget")
        names = ("account", "budget", "spent_epsilon", "left_epsilon", "left_for_you_epsilon", "analysts", "entries")
        return _shown({name: found.get(name) for name in names})

    @tools.tool(annotations=FREE)
    async def plan(context: Context, table: Table, request: Asked, epsilon: Epsilon) -> str:
        """The error to expect at a price, before anything is spent. Free. Its id is what explain needs."""
        await agent(context)
        body = {"request": request, "epsilon": epsilon}
        found = await ask(context, "POST", f"/tables/{quoted(table)}/plan", body)
        return f"{found['text']}\nPlan: {found['plan']} (for explain, with the same request and epsilon)"

    @tools.tool(annotations=SPENDS)
    async def explain(context: Context, table: Table, request: Asked, epsilon: Epsilon, plan: Plan) -> str:
        """Release an explanation that was planned. It spends budget for ever; the same plan again spends nothing."""
        await agent(context)
        body = {"request": request, "epsilon": epsilon, "plan": plan}
        job = await ask(context, "POST", f"/tables/{quoted(table)}/explanations", body, key=f"plan {plan}"[:200])
        if job["state"] in ("queued", "running"):
            job = await ask(context, "GET", f"/jobs/{quoted(job['id'])}?wait={WAIT}")
        return await told(context, job)

    @tools.tool(annotations=FREE)
    async def job(context: Context, job: str) -> str:
        """What has become of something that was asked for."""
        return await told(context, await ask(context, "GET", f"/jobs/{quoted(job)}?wait={WAIT}"))

    @tools.tool(annotations=FREE)
    async def read_release(context: Context, release: str) -> str:
        """A release in words: its numbers with their intervals, what was paid, and what is promised to whom."""
        return (await words(context, release))[:LONGEST]

    @tools.tool(annotations=FREE)
    async def explain_record(context: Context, release: str, record: JsonObject) -> str:
        """What moves the prediction for one record, from a released local sketch. Free."""
        return _shown(await ask(context, "POST", f"/releases/{quoted(release)}/explain", {"record": record}))

    return tools


def _shown(value: Any) -> str:
    return json.dumps(value, indent=1)[:LONGEST]


def over_stdio(url: str, token: str) -> None:
    """Serve the assistant that started this process."""
    wire = Wire.to(url, token)
    if not wire.ask("GET", "/me")["agent"]:
        hint = "the curator makes one, with 'a program asks with it' ticked in the console"
        raise InputError("an assistant needs an agent's token.", hint=hint, spent="")
    server(lambda _: wire).run("stdio")


def over_http(url: str, host: str, port: int) -> None:
    """Serve assistants over HTTP; each call carries its own token, which goes on to the service and nowhere else."""
    server(lambda context: wire_of_call(context, url)).run(
        "streamable-http", host=host, port=port, stateless_http=True, json_response=True
    )


def wire_of_call(context: Any, url: str) -> Wire:
    """The way to the service with the token of whoever calls."""
    request = context.request_context.request
    shown = "" if request is None else str(request.headers.get("authorization", ""))
    scheme, _, token = shown.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise InputError(
            "this needs a token.", hint="Authorization: Bearer dpx_...; an agent's, of the curator", spent=""
        )
    return Wire.to(url, token)
