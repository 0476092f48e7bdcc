"""OpenAPI from the registry: each registered request is a schema, made from its pydantic model, and nothing else is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from dpexplain.methods.registry import Method
from dpexplain.service.asked import served

PREFIX = "#/components/schemas/"
ASKED = "Request"  # the name of the schema that is any one of them


class Plain(GenerateJsonSchema):
    """JSON schemas of requests: what cannot be spelled in JSON, such as a function, cannot be asked for over HTTP."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own shape

    def handle_invalid_for_json_schema(self, schema: core_schema.CoreSchema, error_info: str) -> JsonSchemaValue:  # noqa: ARG002
        return {"not": {}}

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> JsonSchemaValue:
        return {"type": "string"} if schema["cls"].__name__ == "Fraction" else {"not": {}}

    def callable_schema(self, schema: core_schema.CallableSchema) -> JsonSchemaValue:  # noqa: ARG002
        return {"not": {}}


def schema_of(method: Method) -> dict[str, Any]:
    """The JSON schema of one registered request."""
    found = method.request.model_json_schema(ref_template=PREFIX + "{model}", schema_generator=Plain, mode="validation")
    found.pop("$defs", None)
    named = {"request": {"const": method.name, "type": "string"}}  # of a comparison: what is compared, see asked.py
    found["properties"] = {**named, **found.get("properties", {})}
    found["required"] = ["request", *found.get("required", [])]
    found["title"], found["description"] = method.title, method.lead
    return found


def schemas() -> dict[str, dict[str, Any]]:
    """Those of all requests that are answered, by the name of the method."""
    return {name: schema_of(method) for name, method in served().items()}


def with_requests(app: FastAPI) -> None:
    """Let the OpenAPI document of an application say what a request is."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            known = document["components"]["schemas"]
            names = {name: f"{name}-request" for name in served()}
            known |= {names[name]: schema for name, schema in schemas().items()}
            chosen = {"propertyName": "request", "mapping": {name: PREFIX + title for name, title in names.items()}}
            known[ASKED] = {"oneOf": [{"$ref": PREFIX + title} for title in names.values()], "discriminator": chosen}
            for body in ("Explain", "Batch", "Plan", "Reading"):
                _point(known[body]["properties"])
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation says


def _point(properties: Mapping[str, dict[str, Any]]) -> None:
    """Let `request` and `requests` of a body be what the registry knows."""
    one: dict[str, Any] = {"$ref": PREFIX + ASKED}
    several: dict[str, Any] = {"type": "array", "items": one, "minItems": 1}
    for name, wanted in (("request", one), ("requests", several)):
        if name not in properties:
            continue
        said, optional = properties[name], "anyOf" in properties[name]
        told: dict[str, Any] = {key: said[key] for key in ("title", "description", "default") if key in said}
        said.clear()
        said |= told | ({"anyOf": [wanted, {"type": "null"}]} if optional else wanted)
