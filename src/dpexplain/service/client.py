"""`dpx.Client`: the verbs of the library against a server.

    dpx = dpexplain.Client("https://explain.example.org", token)
    table, model = dpx.table("patients"), dpx.model()
    curve = dpx.partial_dependence(table, model, "age", epsilon=0.5)

A verb has the signature of the library's function. What it is called with becomes a registered request, which the
service answers; what comes back are the library's own results, with their receipts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from inspect import signature
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from dpexplain.core.canonical import JsonObject
from dpexplain.core.rng import secret_bytes
from dpexplain.core.sensitivity import Neighbours
from dpexplain.errors import InputError
from dpexplain.methods.registry import method_of
from dpexplain.methods.request import Request
from dpexplain.methods.result import Result, Results, from_json
from dpexplain.service.remote import (
    RemoteClustering,
    RemoteForecast,
    RemoteModel,
    RemotePosterior,
    RemoteTable,
    ServedBatch,
    plain,
)
from dpexplain.service.verbs import Verb, clustering_body, in_order, model_body, name_of, quoted
from dpexplain.service.wire import Wire, error_from

if TYPE_CHECKING:
    from dpexplain.methods.planning import Forecast

WAIT = 30  # seconds that one question about a job may take
LOCAL = ("requests", "results", "errors", "from_json")  # of the library: they need no server
ENDED_BADLY = {
    "cancelled": "was cancelled before it began",
    "declined": "was declined by the curator",
}


class Client:
    """A service, with the verbs of the library: `client.partial_dependence(table, model, "age", epsilon=0.5)`.

    url, token  of the service; https, unless it runs on this machine
    key         of the next thing that is asked, if you choose it yourself: the same key is charged once
    """

    def __init__(self, url: str, token: str) -> None:
        self._wire = Wire.to(url, token)
        self.key: str | None = None

    def __repr__(self) -> str:
        return f"Client({self._wire.url!r})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in LOCAL:
            import dpexplain

            return getattr(dpexplain, name)
        if name not in self._verbs:
            raise AttributeError(f"a service has no {name!r}; it has: {', '.join(sorted(self._verbs))}")
        return partial(self._call, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._verbs, *LOCAL})

    @cached_property
    def _verbs(self) -> dict[str, Verb]:
        return Verb.all()

    @cached_property
    def me(self) -> JsonObject:
        """Who you are there."""
        found: JsonObject = self._wire.ask("GET", "/me")
        return found

    # What there is ----------------------------------------------------------------------------------------------------

    def tables(self) -> list[RemoteTable]:
        """The tables that you may ask about."""
        found = self._wire.ask("GET", "/tables")["tables"]
        return [RemoteTable(one["name"], one) for one in found if one["open"]]

    def table(self, name: str) -> RemoteTable:
        """A table by its name."""
        found = self._wire.ask("GET", f"/tables/{quoted(name)}")
        if not found["open"]:
            raise InputError(f'table "{name}" is not open: {found["why"]}', spent="")
        return RemoteTable(name, found)

    def model(self, version: str | None = None) -> RemoteModel:
        """The model of the project, or another version that the curator registered."""
        return RemoteModel(version)

    def clustering(self) -> RemoteClustering:
        """The clustering of the project."""
        return RemoteClustering()

    def budget(self, table: RemoteTable | str) -> JsonObject:
        """The account as the service last announced it: total, spent, left, and your own part."""
        found: JsonObject = self._wire.ask("GET", f"/tables/{quoted(name_of(table))}/budget")
        return found

    def releases(self, table: RemoteTable | str | None = None) -> list[JsonObject]:
        """What was released, as far as you may read it."""
        asked = "" if table is None else "?" + urlencode({"table": name_of(table)})
        return list(self._wire.ask("GET", f"/releases{asked}")["releases"])

    def release(self, release: str) -> Result:
        """One of these, as the library's own result."""
        return from_json(self._wire.text("GET", f"/releases/{quoted(release)}"))

    def report(self) -> Result:
        """The one report that a person's token is for."""
        return from_json(self._wire.text("GET", "/report"))

    def verify(self, result: Result) -> list[str]:
        """Raise VerificationError unless the service's ledger released this result; what could not be checked."""
        table = result.receipt.request["table"]["name"]
        body = {"document": result.to_json()}
        return list(self._wire.ask("POST", f"/tables/{quoted(table)}/verify", body)["notes"])

    # Asking -----------------------------------------------------------------------------------------------------------

    def plan(
        self, request: Any, *, table: RemoteTable, model: Any = None, epsilon: Any = None, max_error: Any = None,
        n: int | None = None, weights: Any = None, clustering: Any = None, **known: Result | None,
    ) -> Forecast | RemoteForecast:  # fmt: skip
        """As `dpx.plan` with a table: the error to expect at an epsilon, or the epsilon for an error. Free."""
        body: JsonObject = {"epsilon": epsilon, "max_error": plain(max_error), "rows": n, **model_body(model, {}, {})}
        body |= {} if clustering is None else clustering_body(clustering)
        uses = {name: one.receipt.entry.reservation for name, one in known.items() if one is not None}
        body |= {"uses": uses} if uses else {}
        if isinstance(request, list | tuple):
            body |= {"requests": [one.to_json() for one in request], "weights": in_order(weights, request)}
            body["max_error"] = in_order(max_error, request)
            told = self._plan(table, body)
            return RemoteForecast(told["text"], told["price"], told["forecast"])
        found = self._plan(table, body | {"request": request.to_json()})["forecast"]
        return _forecast(found)

    def _plan(self, table: RemoteTable | str, body: JsonObject) -> JsonObject:
        asked = {name: value for name, value in body.items() if value is not None}
        found: JsonObject = self._wire.ask("POST", f"/tables/{quoted(name_of(table))}/plan", asked)
        return found

    def batch(
        self, table: RemoteTable, model: Any, requests: Sequence[Request], *, epsilon: Any = None, rho: Any = None,
        max_error: Any = None, weights: Any = None, clustering: Any = None,
    ) -> ServedBatch:  # fmt: skip
        """As `dpx.batch`: several explanations for one cost."""
        body = {
            "requests": [one.to_json() for one in requests],
            "epsilon": epsilon,
            "rho": rho,
            **model_body(model, {}, {}),
        }
        body |= {"max_error": in_order(max_error, requests), "weights": in_order(weights, requests)}
        body |= {} if clustering is None else clustering_body(clustering)
        job, found = self._asked(table, "batches", {name: one for name, one in body.items() if one is not None})
        verbs = {verb.method.name: verb for verb in self._verbs.values()}
        given = [
            verbs[method_of(one).name].answer(one, [found[place] for place in places])
            for one, places in zip(requests, job["parts"], strict=True)
        ]
        return ServedBatch(requests, given, found, self.posterior, model)

    def posterior(self, stand_in: Result, model: Any, results: Sequence[Any] = ()) -> RemotePosterior:
        """As `dpx.posterior`: what a stand-in and released results say together. Free."""
        used = [one for each in results for one in (each if isinstance(each, Results) else [each])]
        around: JsonObject = {
            "stand_in": stand_in.receipt.entry.reservation,
            "results": list(dict.fromkeys(one.receipt.entry.reservation for one in used)),
            **model_body(model, {}, {}),
        }
        path = f"/tables/{quoted(stand_in.receipt.request['table']['name'])}/readings"

        def ask(asked: JsonObject) -> Any:
            said = {name: value for name, value in {**around, **asked}.items() if value is not None}
            return self._wire.ask("POST", path, said)

        return RemotePosterior(ask)

    def _call(self, verb: str, /, *positional: Any, **named: Any) -> Any:
        known = self._verbs[verb]
        try:
            given = signature(known.function).bind(*positional, **named).arguments
        except TypeError as error:
            raise InputError(f"{verb}: {error}.", hint=f"it is called like dpx.{verb}", spent="") from None
        request, body = known.body(given)
        return known.answer(request, self._asked(given["table"], "explanations", body)[1])

    def _asked(self, table: RemoteTable | str, what: str, body: JsonObject) -> tuple[JsonObject, list[Result]]:
        """A job, when it has ended, and its results."""
        key, self.key = self.key or secret_bytes(16).hex(), None
        priced = any(body.get(name) is not None for name in ("epsilon", "rho", "max_error"))
        if self.me["agent"] and priced:
            body = {**body, "plan": self._plan(table, body)["plan"]}
        job = self._wire.ask("POST", f"/tables/{quoted(name_of(table))}/{what}", body, key=key)
        while job["state"] in ("queued", "running"):
            job = self._wire.ask("GET", f"/jobs/{job['id']}?wait={WAIT}")
        if job["error"] is not None:
            said = job["error"]
            raise error_from(said["kind"], message=said["message"], hint=said["hint"], spent=said["spent"])
        if job["state"] == "waiting":
            raise InputError(
                f"job {job['id']} waits for the curator, because an agent asked for it.", hint=f"key {key}"
            )
        if job["state"] in ENDED_BADLY:
            raise InputError(f"job {job['id']} {ENDED_BADLY[job['state']]}.")
        found = [self.release(one) for one in job["results"]]
        for result in found if job["replayed"] else ():
            object.__setattr__(result.receipt, "replayed", True)
        return job, found

    # For curators -----------------------------------------------------------------------------------------------------

    def new_token(self, name: str, role: str = "analyst", **more: Any) -> str:
        """A token for somebody, shown once. `tables=`, `release=` (of a person), `agent=`, `days=`."""
        return str(self._wire.ask("POST", "/tokens", {"name": name, "role": role, **more})["token"])

    def set_limit(self, table: RemoteTable | str, analyst: str, *, epsilon: float) -> None:
        """The most that an analyst may spend of a table, earlier spending included."""
        self._wire.ask("PUT", f"/tables/{quoted(name_of(table))}/analysts/{quoted(analyst)}", {"epsilon": epsilon})

    def approve(self, job: str, approved: bool = True) -> None:
        """Let a job that an agent asked for go on, or not."""
        self._wire.ask("POST", f"/jobs/{quoted(job)}/approval", {"approved": approved})


def _forecast(value: JsonObject) -> Forecast:
    """A forecast, from what the service said of it."""
    from dpexplain.methods.planning import Forecast, Option

    options = tuple(Option(**option) for option in value["options"])
    neighbours = Neighbours.from_json(value["neighbours"])
    return Forecast(value["label"], value["rows"], neighbours, options, value["needs_delta"])
