"""Bodies of requests. What is asked *about* is a registered request as JSON, read by `methods/registry`; what stands
around it is the cost, and what it is asked of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from inspect import signature
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError
from dpexplain.methods.batches.release import ALONE, MAX_REQUESTS
from dpexplain.methods.registry import Method, methods, request_from_json
from dpexplain.methods.request import Request

Price = Annotated[float | None, Field(gt=0, le=1e6, description="The whole cost.")]
Reservation = Annotated[str, Field(min_length=1, max_length=64, pattern="^[0-9a-f]+$")]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Body(BaseModel):
    """What a request may say, and nothing else."""

    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())


class About(Body):
    """What it is asked of: nothing that is not served, and earlier releases by their reservation."""

    model: Annotated[Name | None, Field(description="A version of the model; by default the project's.")] = None
    models: Annotated[list[Name] | None, Field(max_length=2, description="For a comparison: [old, new].")] = None
    clustering: Annotated[
        Reservation | None, Field(description="Clusters that were released before; by default the project's.")
    ] = None
    labels: Annotated[list[Name] | None, Field(max_length=100, description="Names for these clusters.")] = None
    uses: Annotated[
        dict[Name, Reservation],
        Field(max_length=4, description="Earlier releases that this one takes: marginals, stand_in, performance."),
    ] = {}


class Explain(About):
    """One explanation for a cost."""

    request: dict[str, Any]
    epsilon: Price = None
    rho: Price = None
    plan: Annotated[Name | None, Field(description="The plan that an agent made before.")] = None


class Batch(About):
    """Several explanations for one cost."""

    requests: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_REQUESTS)]
    epsilon: Price = None
    rho: Price = None
    max_error: Annotated[list[Annotated[float, Field(gt=0)]] | None, Field(max_length=MAX_REQUESTS)] = None
    weights: Annotated[list[Annotated[float, Field(gt=0)] | None] | None, Field(max_length=MAX_REQUESTS)] = None
    plan: Name | None = None


class Plan(About):
    """What an epsilon buys, or what an error costs."""

    request: dict[str, Any] | None = None
    requests: Annotated[list[dict[str, Any]] | None, Field(min_length=1, max_length=MAX_REQUESTS)] = None
    epsilon: Price = None
    rho: Price = None
    max_error: Annotated[
        Annotated[float, Field(gt=0)] | list[Annotated[float, Field(gt=0)]] | None,
        Field(description="Instead of a cost: the largest error; for several requests one each."),
    ] = None
    weights: Annotated[list[Annotated[float, Field(gt=0)] | None] | None, Field(max_length=MAX_REQUESTS)] = None
    rows: Annotated[int | None, Field(ge=2, le=10**12, description="A guess, where the number is private.")] = None


class Record(Body):
    """A record to be explained from a released sketch: free."""

    record: Annotated[dict[str, Any], Field(max_length=1000)]
    prediction: float | None = None
    anchor: float | str | None = None
    whole: Annotated[bool, Field(description="Answer with the whole result file instead of the numbers.")] = False


class Reading(Body):
    """Something read off a stand-in and other releases: free."""

    stand_in: Reservation
    results: Annotated[list[Reservation], Field(max_length=100)] = []
    model: Name | None = None
    request: Annotated[
        dict[str, Any] | None, Field(description="A partial-dependence or an accumulated-effects request.")
    ] = None
    record: Annotated[dict[str, Any] | None, Field(max_length=1000)] = None
    prediction: float | None = None


def served() -> dict[str, Method]:
    """The methods that are answered over HTTP: all but those that ask again and again, for costs of their own."""
    return {name: method for name, method in methods().items() if name not in ALONE}


def request_of(written: Mapping[str, Any]) -> Request:
    """The registered request that this JSON spells."""
    named = written.get("request")
    if isinstance(named, str) and named in ALONE:
        raise InputError(f"{named} is not answered over HTTP.", hint="use the library", spent="")
    try:
        if isinstance(named, dict):  # a comparison has what is compared in the place of its name
            return methods()["compare"].request.of_json(written)
        return request_from_json(dict(written))
    except (TypeError, RecursionError, OverflowError):  # JSON of a shape that no request has
        raise InputError("the request cannot be read.", hint="GET /v1/methods has its schema", spent="") from None


def cost_of(table: PrivateTable, asked: Explain | Batch | Plan) -> Cost:
    """The cost in the definition of the account."""
    return table.cost(epsilon=asked.epsilon, rho=asked.rho)


def takes_model(method: Method) -> bool:
    """Whether it explains a model: its `explain` says so. Of those that may do without one, the body says it."""
    second = list(signature(method.load(method.explain)).parameters.values())[1]
    return str(second.annotation) in ("Model", "Any")


def takes_two(method: Method) -> bool:
    """Whether it compares two models."""
    second = list(signature(method.load(method.explain)).parameters.values())[1]
    return str(second.annotation) == "ModelPair"


def body_digest(table: str, asked: Body) -> str:
    """What a key, or a plan, stands for."""
    try:
        said: JsonObject = asked.model_dump(mode="json", exclude={"plan", "rows"}, exclude_defaults=True)
        return digest({"table": table, "asked": said})
    except ValueError:  # what JSON has no spelling for, or what is nested too deep to be spelled
        raise InputError("the request holds what is no number, or is nested too deep.", spent="") from None


def written(asked: Body) -> str:
    return json.dumps({"kind": type(asked).__name__, "asked": asked.model_dump(mode="json", exclude_defaults=True)})


def read(text: str) -> Explain | Batch:
    """The body that was `written`."""
    document = json.loads(text)
    if document["kind"] == "Batch":
        return Batch.model_validate(document["asked"])
    return Explain.model_validate(document["asked"])
