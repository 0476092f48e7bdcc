"""The analyst's verbs as tools for AI assistants, by the Model Context Protocol: over stdio, or over HTTP.

A tool is a request to a service, with the token of whoever runs the assistant. What matters is decided there, because
an assistant may ignore every hint: an agent's token plans before it asks, waits for the curator above a cost,
and spends within the analyst's limit. The key of a request is its plan, so that a loop asks for the same thing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
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
that never comes back. Call plan first: it is free and tells the error to expect. Then call explain with the plan's id;
several requests for one cost are planned by plan_batch and asked by batch. If something waits for the curator, tell
the person, and ask job later. What a released sketch or stand-in says about a record or a curve is free: explain_record
and read_posterior. Always report the interval and the guarantee of a result together with its numbers. What a table's
columns and a model's answers mean is told by the data holder alone.
"""
FREE = ToolAnnotations(read_only_hint=True, open_world_hint=False)
SPENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)

Table = Annotated[str, Field(description="The name of a table, from list_tables.")]
Asked = Annotated[JsonObject, Field(description="A request, such as its schema in describe_method says.")]
Several = Annotated[list[JsonObject], Field(min_length=1, description="Requests, each as describe_method says.")]
Epsilon = Annotated[float | None, Field(gt=0, description="The cost; left out where a request is free.")]
Whole = Annotated[float | None, Field(gt=0, description="The cost of all of them.")]
Plan = Annotated[str | None, Field(description="The id that was planned, for exactly this; needed for what costs.")]
Weights = Annotated[list[float | None] | None, Field(description="How much of the cost each request gets.")]
Model = Annotated[str | None, Field(description="A version of the model, from list_tables; by default the project's.")]
Models = Annotated[list[str] | None, Field(description="For a comparison of two versions: [old, new].")]
Clustering = Annotated[str | None, Field(description="The reservation of released clusters, instead of the project's.")]
Labels = Annotated[list[str] | None, Field(description="Names for these clusters.")]
Uses = Annotated[
    dict[str, str] | None,
    Field(description="Earlier releases that it takes (marginals, stand_in, performance), by their reservation."),
]
Release = Annotated[str, Field(description="The id of a release, from list_releases or from the job that made it.")]


def server(wire_of: Callable[[Any], Wire]) -> MCPServer:
    """The tools; `wire_of` a call's context is the way to the service, with the caller's token."""
    tools = MCPServer("dpexplain", instructions=INSTRUCTIONS, version=package_version(), log_level="WARNING")
    known, asking, reading = Known(wire_of), Asking(wire_of), Reading(wire_of)
    free: list[Callable[..., Any]] = [known.list_tables, known.list_methods, known.describe_method, known.budget]
    free += [asking.plan, asking.plan_batch, asking.job]
    free += [reading.list_releases, reading.read_release, reading.explain_record, reading.read_posterior]
    for tool in [*free, reading.verify]:
        tools.add_tool(tool, annotations=FREE)
    spends: list[Callable[..., Any]] = [asking.explain, asking.batch]
    for tool in spends:
        tools.add_tool(tool, annotations=SPENDS)
    return tools


@dataclass(frozen=True)
class Service:
    """The service behind the tools."""

    wire_of: Callable[[Any], Wire]

    async def ask(
        self, context: Any, method: str, path: str, body: JsonObject | None = None, key: str | None = None
    ) -> Any:
        """The answer to a request; what is left out of its body is not sent."""
        said = None if body is None else {name: value for name, value in body.items() if value is not None}
        try:
            wire = self.wire_of(context)
            return await anyio.to_thread.run_sync(lambda: wire.ask(method, path, said, key=key))
        except DpexplainError as error:
            raise ToolError(str(error)) from None

    async def words(self, context: Any, release: str) -> str:
        """A release in words."""
        document = await self.ask(context, "GET", f"/releases/{quoted(release)}")
        return await anyio.to_thread.run_sync(lambda: str(from_json(json.dumps(document))))


class Known(Service):
    """What there is."""

    async def list_tables(self, context: Context) -> str:
        """The tables that can be asked about, and what is public about them: columns, who is protected, models."""
        return _shown(await self.ask(context, "GET", "/tables"))

    async def list_methods(self, context: Context) -> str:
        """What can be asked for, one line each."""
        found = (await self.ask(context, "GET", "/methods"))["methods"]
        return "\n".join(f"{one['request']}: {one['lead']}" for one in found)

    async def describe_method(self, context: Context, request: str) -> str:
        """The JSON schema of one kind of request."""
        found = (await self.ask(context, "GET", "/methods"))["methods"]
        known = next((one for one in found if one["request"] == request), None)
        if known is None:
            names = ", ".join(one["request"] for one in found)
            raise ToolError(f"there is no request {request[:100]!r}; there is: {names}")
        return _shown(known)

    async def budget(self, context: Context, table: Table) -> str:
        """What may still be spent."""
        found = await self.ask(context, "GET", f"/tables/{quoted(table)}/budget")
        names = ("account", "budget", "spent_epsilon", "left_epsilon", "left_for_you_epsilon", "analysts", "entries")
        return _shown({name: found.get(name) for name in names})


class Asking(Service):
    """Plan, then ask."""

    async def plan(
        self, context: Context, table: Table, request: Asked, epsilon: Epsilon = None,
        max_error: Annotated[float | None, Field(gt=0, description="Instead of a cost: the error wanted.")] = None,
        model: Model = None, models: Models = None, clustering: Clustering = None, labels: Labels = None,
        uses: Uses = None,
    ) -> str:  # fmt: skip
        """The error to expect at an epsilon, or the epsilon for an error, before anything is spent. Free. The id of a
        plan with a cost is what explain needs.
        """
        about = {"model": model, "models": models, "clustering": clustering, "labels": labels, "uses": uses}
        return await self._planned(context, table, {"request": request, "max_error": max_error, **about}, epsilon)

    async def plan_batch(
        self, context: Context, table: Table, requests: Several, epsilon: Whole = None,
        max_error: Annotated[
            list[float] | None, Field(description="Instead of a cost: the error wanted of each request, in order.")
        ] = None,
        weights: Weights = None, model: Model = None, clustering: Clustering = None,
    ) -> str:  # fmt: skip
        """How one cost would be divided over several requests, and the error of each. Free. The id of a plan with a
        cost is what batch needs.
        """
        about = {"model": model, "clustering": clustering, "weights": weights, "max_error": max_error}
        return await self._planned(context, table, {"requests": requests, **about}, epsilon)

    async def explain(
        self, context: Context, table: Table, request: Asked, epsilon: Epsilon = None, plan: Plan = None,
        model: Model = None, models: Models = None, clustering: Clustering = None, labels: Labels = None,
        uses: Uses = None,
    ) -> str:  # fmt: skip
        """Release an explanation that was planned. It spends budget for ever; the same plan again spends nothing."""
        about = {"model": model, "models": models, "clustering": clustering, "labels": labels, "uses": uses}
        body = {"request": request, "epsilon": epsilon, "plan": plan, **about}
        return await self._asked(context, table, "explanations", body)

    async def batch(
        self, context: Context, table: Table, requests: Several, epsilon: Annotated[float, Field(gt=0)], plan: str,
        weights: Weights = None, model: Model = None, clustering: Clustering = None,
    ) -> str:  # fmt: skip
        """Release several explanations for one cost, as plan_batch planned them. It spends budget for ever; the same
        plan again spends nothing.
        """
        about = {"weights": weights, "model": model, "clustering": clustering}
        body = {"requests": requests, "epsilon": epsilon, "plan": plan, **about}
        return await self._asked(context, table, "batches", body)

    async def job(self, context: Context, job: str) -> str:
        """What has become of something that was asked for."""
        return await self._told(context, await self.ask(context, "GET", f"/jobs/{quoted(job)}?wait={WAIT}"))

    async def _planned(self, context: Any, table: str, body: JsonObject, epsilon: float | None) -> str:
        await self._agent(context)
        found = await self.ask(context, "POST", f"/tables/{quoted(table)}/plan", {**body, "epsilon": epsilon})
        said = f"{found['text']}\n"
        if "plan" not in found:
            return f"{said}This is no plan to ask with: plan again with the cost as epsilon."
        return f"{said}Plan: {found['plan']} (to ask with, for exactly the same request and epsilon)"

    async def _asked(self, context: Any, table: str, what: str, body: JsonObject) -> str:
        """A job, which has its plan as its key, so that a loop asks for the same thing."""
        await self._agent(context)
        key = None if body["plan"] is None else f"plan {body['plan']}"[:200]
        job = await self.ask(context, "POST", f"/tables/{quoted(table)}/{what}", body, key=key)
        if job["state"] in ("queued", "running"):
            job = await self.ask(context, "GET", f"/jobs/{quoted(job['id'])}?wait={WAIT}")
        return await self._told(context, job)

    async def _agent(self, context: Any) -> None:
        if not (await self.ask(context, "GET", "/me"))["agent"]:
            raise ToolError("an assistant needs an agent's token.\nHint: the curator makes one, with agent = true")

    async def _told(self, context: Any, job: JsonObject) -> str:
        """What has become of a job, in words; its results with their promise."""
        lines = [f"Job {job['id']}: {job['label']}, {job['price']}. It is {job['state']}."]
        if job["state"] == "waiting":
            lines.append("The curator has to approve it. Nothing was spent. Ask for it again later, by job.")
        if job["error"] is not None:
            lines += [job["error"][name] for name in ("message", "hint", "spent") if job["error"][name]]
        if job["replayed"]:
            lines.append("The same request was released before: it was answered again, free.")
        if len(job["results"]) > 1:
            lines.append(f"Releases, for read_release: {', '.join(job['results'])}.")
        for release in job["results"]:
            lines += ["", f"Release {release}:", await self.words(context, release)]
        return _cut("\n".join(lines))


class Reading(Service):
    """What was released: free."""

    async def list_releases(
        self, context: Context, table: Annotated[str | None, Field(description="Of this table alone.")] = None
    ) -> str:
        """What was released to you: ids, and the reservations by which other requests use them."""
        asked = "" if table is None else f"?table={quoted(table)}"
        names = ("id", "table", "kind", "title", "feature", "reservation")
        found = (await self.ask(context, "GET", f"/releases{asked}"))["releases"]
        return _cut("\n".join(json.dumps({name: one[name] for name in names}) for one in found) or "nothing yet")

    async def read_release(self, context: Context, release: Release) -> str:
        """A release in words: its numbers with their intervals, what was paid, and what is promised to whom."""
        return _cut(await self.words(context, release))

    async def explain_record(
        self, context: Context, release: Release, record: JsonObject, prediction: float | None = None,
        anchor: float | str | None = None,
    ) -> str:  # fmt: skip
        """What moves the prediction for one record, from a released local sketch. Free."""
        body: JsonObject = {"record": record, "prediction": prediction, "anchor": anchor}
        return _shown(await self.ask(context, "POST", f"/releases/{quoted(release)}/explain", body))

    async def read_posterior(
        self, context: Context, table: Table,
        stand_in: Annotated[str, Field(description="The reservation of a released stand-in.")],
        results: Annotated[list[str] | None, Field(description="Reservations of releases to read with it.")] = None,
        request: Annotated[
            JsonObject | None, Field(description="A partial-dependence or an accumulated-effects request.")
        ] = None,
        record: Annotated[JsonObject | None, Field(description="Instead of a request: a record to explain.")] = None,
        prediction: float | None = None, model: Model = None,
    ) -> str:  # fmt: skip
        """Curves, or the reasons for a record's prediction, read off a stand-in together with other releases. Free.
        Its intervals are not proven.
        """
        body: JsonObject = {"stand_in": stand_in, "results": results, "request": request, "record": record}
        body |= {"prediction": prediction, "model": model}
        return _shown(await self.ask(context, "POST", f"/tables/{quoted(table)}/readings", body))

    async def verify(
        self, context: Context, table: Table,
        release: Annotated[str | None, Field(description="The id of a release that you may read.")] = None,
        document: Annotated[JsonObject | str | None, Field(description="Instead of an id: a result file.")] = None,
    ) -> str:  # fmt: skip
        """Whether the ledger of a table released exactly this. Free."""
        if (release is None) == (document is None):
            raise ToolError("give either the id of a release or a result file.")
        if release is not None:
            document = await self.ask(context, "GET", f"/releases/{quoted(release)}")
        text = document if isinstance(document, str) else json.dumps(document)
        found = await self.ask(context, "POST", f"/tables/{quoted(table)}/verify", {"document": text})
        return "\n".join([f"Genuine: {found['label']}.", found["guarantee"], *found["notes"]])


def _shown(value: Any) -> str:
    return _cut(json.dumps(value, indent=1))


def _cut(text: str) -> str:
    """A text that an assistant can take in; that it was cut is said."""
    end = "\n... (cut off here: it is longer than one answer may be)"
    return text if len(text) <= LONGEST else text[: LONGEST - len(end)] + end


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
