"""Which methods there are: each registers once, in its own folder, and everything else asks here.

What a registration names is written as "module:name" and imported when it is asked for, so that naming all methods
costs little, and nothing of the product imports the audit. A name with a dot first belongs to the method's own folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from dpexplain.core.canonical import JsonObject
from dpexplain.errors import InputError, InternalError
from dpexplain.methods.request import Request

Named = str | Callable[..., Any]


@dataclass(frozen=True)
class Method:
    """One method of explaining.

    name      as ledgers, files and requests spell it
    request   what a caller decides
    explain   (table, model, request, cost=...) -> a result, or several of one release
    outlook   (request, setting, cost) -> what the release will be worth
    diagram   () -> where the rows go, and where noise is added
    results   the classes that its results have
    title     of its page, and `lead`, the sentence below it
    command   its name on the command line; none for a method that only Python offers
    summary   one line about the command; `about`, the next paragraph of its help; `example`, its options, a line each
    then      what the command says afterwards: {file} is the first file, {pages} are pages to hand over, in {out}
    typed     (place, *, options) -> options of the request, where some are typed in another way than they are declared
    subject   (project, domain, *, options) -> what is explained, where that is not the project's model
    free      (paid, project, *, options) -> results that need no release, or None where one was asked for;
              project() loads the project file
    also      (results, paths, *, options) -> files that are written besides the results, whose .json have these paths
              The keywords of these four functions, with their types, are options of the command
    takes     names of methods whose earlier results `explain` takes, as keywords (`keyword_of`): the command has
              --<name> FILE
    read_off  (request, setting, cost) -> (table, model, stand-in) -> its result, free: where the stand-in of a batch
              answers the request; None where it needs a release of its own
    long      whether it answers with many numbers, which have less error in an account with a delta
    request_name  of the request in `dpx.requests`; by default that of its class, without "Request" at its end
    takes_clustering  whether a clustering stands in the place of the model
    worst_cases  () -> neighbouring tables for the audit
    attacked  options of the request that `dpexplain audit` attacks on a project's own rows, beside columns, target and
              record, which it gives itself
    attack_by_default  whether it does so unless other methods are named
    needs_delta  whether only Gaussian noise can answer it, which a pure account cannot pay for
    no_missing   whether it needs distances, which columns that keep missing values do not have
    """

    name: str
    request: type[Request]
    explain: Named
    outlook: Named
    diagram: Named
    results: tuple[Named, ...]
    title: str
    lead: str
    home: str  # the package or module of the method: `__name__`
    command: str | None = None
    summary: str = ""
    about: str = ""
    example: str = "--epsilon 0.5"
    then: str = ""
    typed: Named | None = None
    subject: Named | None = None
    free: Named | None = None
    also: Named | None = None
    takes: tuple[str, ...] = ()
    read_off: Named | None = None
    long: bool = False
    request_name: str = ""
    takes_clustering: bool = False
    worst_cases: Named | None = None
    attacked: Mapping[str, Any] = field(default_factory=dict, hash=False)
    attack_by_default: bool = True
    needs_delta: bool = False
    no_missing: bool = False

    def load(self, what: Named | None) -> Any:
        """What the registration names."""
        if what is None:
            raise InternalError(f"the registration of {self.name} leaves out what is asked for")
        if not isinstance(what, str):
            return what
        module, _, name = what.partition(":")
        return getattr(import_module(module, self.home), name)


_methods: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Make a method known. Each name, request and command belongs to one method."""
    taken = [m for m in _methods.values() if m.name == method.name or (m.command and m.command == method.command)]
    if any(m.home != method.home for m in taken):
        raise InternalError(f"there is another method {method.name!r}, or another command {method.command!r}")
    method.request.name_in_files = method.name
    _methods[method.name] = method
    return method


def methods() -> Mapping[str, Method]:
    """All methods by name: those of this package, and whatever else has registered."""
    _import_ours()
    return dict(sorted(_methods.items()))


@cache
def _import_ours() -> None:
    for path in sorted(Path(__file__).parent.glob("*/request.py")):
        import_module(f"dpexplain.methods.{path.parent.name}")


def keyword_of(name: str) -> str:
    """The keyword by which an earlier result of the method with this name is handed over."""
    return name.replace("-", "_")


def commands() -> dict[str, Method]:
    """The methods that have a command, by its name."""
    return dict(sorted((method.command, method) for method in methods().values() if method.command))


def method_of(request: Any) -> Method:
    """The method that answers a request."""
    for method in methods().values():
        if type(request) is method.request:
            return method
    raise InputError(
        f"this is about a request; got an object of type {type(request).__name__}.",
        hint='dpx.requests.PartialDependence(feature="age")',
        spent="",
    )


def requests_by_name() -> dict[str, type]:
    """The classes of requests by their public names; that of a report is made of others, and has no method."""
    from dpexplain.methods.reports.request import ReportRequest

    return {"Report": ReportRequest} | {
        method.request_name or method.request.__name__.removesuffix("Request"): method.request
        for method in methods().values()
    }


def request_from_json(value: JsonObject) -> Request:
    """The request that `Request.to_json` wrote."""
    options = dict(value)
    name = options.pop("request", None)
    if name not in methods():
        raise InputError(f"there is no method {name!r}."[:200], hint="one of " + ", ".join(methods()), spent="")
    return methods()[name].request.of_json(options)
