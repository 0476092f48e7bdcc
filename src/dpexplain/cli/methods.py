"""A command for every registered method, made from its request: name, type, default and description of each option.

What a person types in another way than Python declares it, the registration says (`Method.typed`): a function whose
keywords are options of the command, and which gives options of the request. Those of our own methods stand here.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, cleandoc, signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic_core import PydanticUndefined

from dpexplain.cli.marginals import marginals_of
from dpexplain.cli.options import (
    All,
    Call,
    Features,
    Guess,
    MarginalsFile,
    Pairs,
    Price,
    once,
    option,
    spread,
)
from dpexplain.cli.release import release
from dpexplain.errors import InputError, InternalError
from dpexplain.methods.registry import Method
from dpexplain.methods.request import Flag, Request
from dpexplain.project.file import Project
from dpexplain.project.run import Task

if TYPE_CHECKING:
    from dpexplain.core.domain import Domain
    from dpexplain.models import Model

MIXED = "a number or a word"
METAVARS: dict[Any, str | None] = {
    bool: None,
    int: "N",
    float: "X",
    str: "NAME",
    MIXED: "X",
    list: "NAME",
    tuple: "NAME,NAME",
}
ABOUT = """\
Shows the price, the expected error and what is left; then releases, and writes a page, pictures and receipts. The price
is taken from the budget for ever. The same request again (same versions of table and model) is free.

The model is loaded from the project's [model] path, a pickle or joblib file, or imported. Loading either runs the code
inside: use only a model you trust."""


@dataclass(frozen=True)
class Place:
    """What a request is typed for."""

    domain: Domain
    target: str | None  # the column that the model predicts, where the project says so
    model: Model | None = None  # not there in a plan, which loads none


@dataclass(frozen=True)
class Option:
    """One field of a request as an option of a command."""

    name: str
    kind: Any  # bool, int, float, str; MIXED for a number or a word; list for words, tuple for pairs, repeated
    default: Any
    flag: str
    metavar: str | None
    text: str

    @property
    def negative(self) -> bool:
        """Whether it is a switch that turns something off."""
        return self.kind is bool and self.default is True

    @property
    def parameter(self) -> Parameter:
        """As typer reads it."""
        default = None if self.default is PydanticUndefined or self.kind in (list, tuple) else self.default
        default = False if self.negative else default
        kind = list[str] if self.kind in (list, tuple) else str if self.kind == MIXED else self.kind
        typed: Any = Annotated[kind | None if default is None else kind, option(self.flag, self.metavar, self.text)]
        return Parameter(self.name, Parameter.KEYWORD_ONLY, default=default, annotation=typed)

    def read(self, typed: Any) -> Any:
        """The value for the request; None for what was not typed."""
        if self.kind is bool:
            return not typed if self.negative else typed
        if self.kind == MIXED and typed is not None:
            return _number_or_word(typed)
        if self.kind is tuple and typed is not None:
            return [pair_of(names, self.flag) for names in typed] or None
        return (once(typed) or None) if self.kind is list else typed


def options_of(request: type[Request]) -> list[Option]:
    """The options that follow from the fields of a request; a field that cannot be typed has none."""
    found = []
    for name, field in request.model_fields.items():
        own = next((fact for fact in field.metadata if isinstance(fact, Flag)), Flag())
        kind = _kind(field.annotation)
        if kind is None:
            continue
        several = kind in (list, tuple)
        bare = (name.removesuffix("s") if several else name).replace("_", "-")
        positive = f"--{bare}/--no-{bare}" if field.default is None else f"--{bare}"
        usual = f"--no-{bare}" if field.default is True else positive if kind is bool else f"--{bare}"
        text = own.text or (field.description or "") + (" May be repeated." if several else "")
        found.append(Option(name, kind, field.default, own.name or usual, own.metavar or METAVARS[kind], text))
    return found


def _kind(annotation: Any) -> Any:
    """How a value of this type is typed: as a switch, a number, a word or a repeated word; None for anything else."""
    parts = list(_members(annotation))
    inside = [item for part in parts if get_origin(part) in (list, Sequence) for item in _members(get_args(part)[0])]
    if str in inside:
        return list
    if any(get_origin(item) is tuple and get_args(item) == (str, str) for item in inside):
        return tuple
    simple = {type(get_args(part)[0]) if get_origin(part) is Literal else part for part in parts}
    if str in simple and simple & {int, float}:
        return MIXED
    return next((kind for kind in (str, float, int, bool) if kind in simple), None)


def _members(annotation: Any) -> Iterator[Any]:
    """The types that a union allows, nothing left out but None."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _members(part)
    elif annotation is not type(None):
        yield annotation


def _number_or_word(typed: str) -> Any:
    for kind in (int, float):
        try:
            return kind(typed)
        except ValueError:
            continue
    return typed


def pair_of(names: str, flag: str) -> tuple[str, str]:
    """Two names with a comma between them."""
    two = [name.strip() for name in names.split(",")]
    if len(two) != 2:
        raise InputError(f"{flag} takes two names; got {names!r}.", hint=f"{flag} age,sex")
    return two[0], two[1]


def hook_of(method: Method) -> Callable[..., dict[str, Any]] | None:
    """The function by which some options of a method are typed in another way."""
    return None if method.typed is None else method.load(method.typed)


def parameters_of(method: Method) -> list[Parameter]:
    """All that is typed for the request of a method: the options of its hook, then those of its fields."""
    hook = hook_of(method)
    own = [] if hook is None else list(signature(hook).parameters.values())[1:]
    hints = {} if hook is None else get_type_hints(hook, include_extras=True)
    parameters = [p.replace(annotation=hints[p.name], kind=Parameter.KEYWORD_ONLY) for p in own]
    named = {p.name for p in parameters}
    return parameters + [o.parameter for o in options_of(method.request) if o.name not in named]


def request_of(method: Method, typed: Mapping[str, Any], place: Place) -> Request:
    """The request that a person typed. What was not typed keeps the default that is declared."""
    hook, left = hook_of(method), dict(typed)
    options: dict[str, Any] = {}
    if hook is not None:
        names = list(signature(hook).parameters)[1:]
        options = hook(place, **{name: left.pop(name) for name in names if name in left})
    for one in options_of(method.request):
        if one.name in left and (value := one.read(left.pop(one.name))) is not None:
            options.setdefault(one.name, value)
    if left:
        raise InternalError(f"options of nobody: {', '.join(left)}")
    target = method.request.model_fields.get("target")
    if target is not None and target.is_required() and options.get("target") is None:
        options["target"] = needed_target(place.target)
    return method.request(**options)


def needed_target(target: str | None) -> str:
    """The column that the model predicts: typed, or the project's."""
    if target is None:
        raise InputError(
            "name the column that the model predicts.",
            hint='--target NAME, or target = "NAME" in [model]; it must be declared in the domain',
        )
    return target


def command_of(method: Method) -> Callable[..., None]:
    """The command of a method, as typer reads it."""
    own = parameters_of(method)

    def command(*, marginals: MarginalsFile = None, price: Price, n: Guess = None, call: Call, **typed: Any) -> None:
        known = marginals_of(marginals)
        target = Project.load(call.project).target

        def ask(domain: Domain, model: Model) -> Task:
            return Task.of(request_of(method, typed, Place(domain, target, model)), known)

        release(call, price, ask, n=n)

    command.__name__, command.__doc__ = str(method.command).replace("-", "_"), help_of(method)
    made = spread(command, own, without=() if method.takes_marginals else ("marginals",))
    names = list(signature(made).parameters)
    if len(set(names)) < len(names):
        raise InternalError(f"an option of {method.name} has the name of one that every command has")
    return made


def summary_of(method: Method) -> str:
    return method.summary or f"Release {method.title[:1].lower()}{method.title[1:]}."


def help_of(method: Method) -> str:
    """What is said about a command: what it shows, what its request says of itself, and an example."""
    parts = [f"{summary_of(method).rstrip('.')}: {method.lead}.", cleandoc(method.request.__doc__ or ""), ABOUT]
    return "\n\n".join([*parts, f"    dpexplain {method.command} {method.example}"])


# What is typed in another way than it is declared ---------------------------------------------------------------------


def curves(place: Place, *, feature: Features = None, pair: Pairs = None, everything: All = False) -> dict[str, Any]:
    """Columns by name, all of them, or in pairs: for curves and surfaces."""
    views: list[Any] = _columns(place, feature, everything)
    views += [pair_of(names, "--pair") for names in pair or []]
    if not views:
        raise InputError("name what to explain.", hint="--feature age, or --pair age,sex")
    for view in views:
        for name in view if isinstance(view, tuple) else (view,):
            place.domain.column(name)
    return {"feature": views}


def columns(place: Place, *, feature: Features = None, everything: All = False) -> dict[str, Any]:
    """Columns by name, or all of them."""
    names = _columns(place, feature, everything)
    if not names:
        raise InputError("name what to explain.", hint="--feature age, or --all")
    for name in names:
        place.domain.column(name)
    return {"feature": names}


def _columns(place: Place, feature: Sequence[str] | None, everything: bool) -> list[str]:
    """The columns asked for, each once; with --all, all that the model uses, without what it predicts."""
    if everything and feature:
        raise InputError("give --feature or --all, not both.")
    if not everything or place.model is None:
        return once(feature)
    return [name for name in place.model.features(place.domain) if name != place.target]
