"""The public functions of the library as requests: what one is called with, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import isclass
from typing import Any, get_args, get_type_hints
from urllib.parse import quote

import dpexplain
from dpexplain.core.canonical import JsonObject
from dpexplain.errors import InputError
from dpexplain.methods.registry import Method, methods
from dpexplain.methods.request import Request
from dpexplain.methods.result import Result, Results
from dpexplain.service.remote import RemoteClustering, RemoteModel, RemoteTable, plain


@dataclass(frozen=True)
class Verb:
    """A public function of the library, and the method whose request it makes."""

    function: Callable[..., Any]
    method: Method

    @classmethod
    def all(cls) -> dict[str, Verb]:
        """Every function that belongs to a registered method, by its public name."""
        found = {}
        for method in methods().values():
            for name, home in vars(dpexplain)["_HOMES"].items():
                if home.startswith(f"{method.home}.") and name.islower():
                    found[name] = cls(getattr(import_module(home), name), method)
        return found

    def body(self, given: Mapping[str, Any]) -> tuple[Request, JsonObject]:
        """The request that the function would have made of these arguments, and what stands around it."""
        known, options, around = self.method.request.model_fields, dict[str, Any](), dict[str, Any]()
        uses: dict[str, str] = {}
        for name, value in given.items():
            if isinstance(value, Result):
                uses[value.kind.replace("-", "_")] = value.receipt.entry.reservation
                if name in known:
                    options[name] = False  # it stands for one that would have been released with it
            elif name == "labels" and self.method.takes_clustering:
                around["labels"] = None if value is None else _names(value)
            elif name in known:
                options[name] = plain(value)
            elif name in ("epsilon", "rho") and value is not None:
                around[name] = float(value)
            elif name == "clustering":
                around |= clustering_body(value)
            elif name == "model":
                around |= model_body(value, options, known)
        request = self.method.request(**options)
        around = {name: value for name, value in around.items() if value is not None}
        return request, {"request": request.to_json(), **around, **({"uses": uses} if uses else {})}

    def answer(self, request: Request, found: Sequence[Result]) -> Any:
        """What the function would have returned for these results."""
        if self.method.takes_clustering or not found:
            return found[0]
        if hasattr(found[0], "as_clustering"):
            return found[0].as_clustering()
        several = _several(self.method)
        if several is None:
            return found[0]
        inner: Any = getattr(request, "request", request)
        single = inner.single if hasattr(inner, "single") else len(found) == 1
        return found[0] if single else several(found)


def _several(method: Method) -> type[Results[Any]] | None:
    """The class of several results of one release, where a method has one."""
    hint = get_type_hints(method.load(method.explain))["return"]
    for kind in (hint, *get_args(hint)):
        if isclass(kind) and issubclass(kind, Results):
            return kind
    return None


# From what Python is called with to JSON ------------------------------------------------------------------------------


def name_of(table: RemoteTable | str) -> str:
    if not isinstance(table, RemoteTable | str):
        raise InputError("table must be one of the service.", hint='client.table("patients")', spent="")
    return table if isinstance(table, str) else table.name


def quoted(name: str) -> str:
    return quote(name, safe="")


def model_body(value: Any, options: dict[str, Any], known: Mapping[str, Any]) -> JsonObject:
    """What is said about the model: a version, or two; a name of a column where a score may stand in the table."""
    if isinstance(value, list | tuple):
        return {"models": [model_body(one, {}, {}).get("model") for one in value]}
    if value is None:
        return {}
    if isinstance(value, str) and "score" in known:
        options["score"] = value
        return {}
    if isinstance(value, str | RemoteModel):
        return {"model": value if isinstance(value, str) else value.version}
    raise InputError("model must be one of the service.", hint="client.model()", spent="")


def clustering_body(value: Any) -> JsonObject:
    if isinstance(value, RemoteClustering):
        return {}
    released = value if isinstance(value, Result) else getattr(value, "result", None)
    if released is None:
        raise InputError(
            "clustering must be released, or that of the service.",
            hint="client.dp_kmeans or client.clustering()",
            spent="",
        )
    return {"clustering": released.receipt.entry.reservation}


def _names(value: Any) -> list[str]:
    return [str(one) for one in (value.values() if isinstance(value, Mapping) else value)]


def in_order(given: Any, requests: Sequence[Request]) -> list[Any] | None:
    """Numbers by request, as a list: they may be given by request or by its label."""
    if given is None or isinstance(given, list | tuple):
        return None if given is None else list(given)
    return [given.get(one, given.get(one.label)) for one in requests]
