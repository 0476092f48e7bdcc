"""A command for every registered method, made from its request: name, type, default and description of each option.

What a person types in another way than Python declares it, the registration says: functions whose keywords are options
of the command. Those of our own methods stand in `typed.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from inspect import Parameter, cleandoc, signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from pydantic_core import PydanticUndefined

from dpexplain.cli.options import Call, earlier, keyword, once, option, with_options
from dpexplain.cli.release import release, show_free
from dpexplain.cli.typed import Place, earlier_results, pair_of
from dpexplain.errors import InputError
from dpexplain.methods.registry import Method, Named
from dpexplain.methods.request import Flag, Request, choices_of, members
from dpexplain.project.file import Project
from dpexplain.project.run import Task, model_of

if TYPE_CHECKING:
    from dpexplain.core.domain import Domain

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
Shows the cost, the expected error and what is left; then releases, and writes a page, pictures and receipts. The cost
is taken from the budget for ever. The same request again (same versions of table and model) is free.

What is explained is loaded from the project's path (a pickle is refused), asked for at its url, or imported, which runs
your own code."""


# Options from fields --------------------------------------------------------------------------------------------------


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
        default = False if self.negative else float(default) if isinstance(default, Fraction) else default
        kind = list[str] if self.kind in (list, tuple) else str if self.kind == MIXED else self.kind
        typed: Any = Annotated[kind | None if default is None else kind, option(self.flag, self.metavar, self.text)]
        return keyword(self.name, typed, default)

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
    options = []
    for name, field in request.model_fields.items():
        own = next((fact for fact in field.metadata if isinstance(fact, Flag)), Flag())
        kind = _kind(field.annotation)
        if kind is None or own.name == "":
            continue
        several = kind in (list, tuple)
        bare = (name.removesuffix("s") if several else name).replace("_", "-")
        positive = f"--{bare}/--no-{bare}" if field.default is None else f"--{bare}"
        usual = f"--no-{bare}" if field.default is True else positive if kind is bool else f"--{bare}"
        text = own.text or _described(field.description or "", field.annotation) + " May be repeated." * several
        options.append(Option(name, kind, field.default, own.name or usual, own.metavar or METAVARS[kind], text))
    return options


def _kind(annotation: Any) -> Any:
    """How a value of this type is typed: as a switch, a number, a word or a repeated word; None for anything else."""
    parts = list(members(annotation))
    inside = [item for part in parts if get_origin(part) in (list, Sequence) for item in members(get_args(part)[0])]
    if str in inside:
        return list
    if any(get_origin(item) is tuple and get_args(item) == (str, str) for item in inside):
        return tuple
    simple = {type(get_args(part)[0]) if get_origin(part) is Literal else part for part in parts}
    if str in simple and simple & {int, float}:
        return MIXED
    return next((kind for kind in (str, float, int, bool) if kind in simple), None)


def _described(text: str, annotation: Any) -> str:
    """The description, with the words that may be typed, where they can be listed and it does not explain each."""
    words = choices_of(annotation)
    explained = all(f'"{word}"' in text or f"{word}:" in text for word in words)
    listed = "A number, or one of" if _kind(annotation) == MIXED else "One of"
    return text if explained else f"{text} {listed}: {', '.join(map(str, words))}."


def _number_or_word(typed: str) -> Any:
    for kind in (int, float):
        try:
            return kind(typed)
        except ValueError:
            continue
    return typed


# Options from functions -----------------------------------------------------------------------------------------------


def keywords_of(method: Method, named: Named | None) -> dict[str, Parameter]:
    """The options that a function of the registration takes: its keywords, with their types."""
    if named is None:
        return {}
    function = method.load(named)
    hints = get_type_hints(function, include_extras=True)
    given = signature(function).parameters.values()
    return {p.name: p.replace(annotation=hints[p.name]) for p in given if p.kind is Parameter.KEYWORD_ONLY}


def called(method: Method, named: Named, typed: Mapping[str, Any]) -> Callable[..., Any]:
    """A function of the registration with the options that were typed for it."""
    names = keywords_of(method, named)
    return partial(method.load(named), **{name: typed[name] for name in names if name in typed})


def parameters_of(method: Method, *, planned: bool = False) -> list[Parameter]:
    """All that is typed for a method: the options of its functions, then those of its fields."""
    functions = [method.subject, method.typed, *([] if planned else [method.free, method.also])]
    options = {name: one for named in functions for name, one in keywords_of(method, named).items()}
    of_fields = [one.parameter for one in options_of(method.request) if one.name not in options]
    return [*options.values(), *of_fields, *map(earlier, method.takes)]


def request_of(method: Method, typed: Mapping[str, Any], place: Place) -> Request:
    """The request that a person typed. What was not typed keeps the default that is declared."""
    options: dict[str, Any] = {} if method.typed is None else called(method, method.typed, typed)(place)
    for one in options_of(method.request):
        if one.name not in options and (value := one.read(typed.get(one.name))) is not None:
            options[one.name] = value
    target = method.request.model_fields.get("target")
    if target is not None and target.is_required() and options.setdefault("target", place.target) is None:
        raise InputError(
            "name the column that the model predicts.",
            hint='--target NAME, or target = "NAME" in [model]; it must be declared in the domain',
        )
    return method.request(**options)


def parsed(method: Method, arguments: Sequence[str]) -> dict[str, Any]:
    """What these arguments say for a plan of a method; an option that its command does not have is refused."""
    typed: dict[str, Any] = {}
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(with_options(lambda **given: typed.update(given), parameters_of(method, planned=True)))
    typer.main.get_command(app)(args=list(arguments), prog_name=str(method.command), standalone_mode=False)
    return typed


# Commands -------------------------------------------------------------------------------------------------------------


def command_of(method: Method) -> Callable[..., None]:
    """The command of a method, as typer reads it."""
    shared = Call.parameters()

    def command(**typed: Any) -> None:
        call = Call(**{one.name: typed.pop(one.name) for one in shared})
        if method.free is not None:
            answers = called(method, method.free, typed)(call.paid, lambda: Project.load(call.project))
            if answers is not None:
                show_free(call, answers)
                return
        known, project = earlier_results(method, typed), Project.load(call.project)
        named_free = any(typed.get(name) == value for name, value in method.request.free_options.items())
        free = not call.paid and ("marginals" in known or named_free)

        def ask(domain: Domain, subject: Any) -> Task:
            request = request_of(method, typed, Place(domain, project.target, subject))
            if free and not (request.free or request.free_with_marginals):
                call.require_price()
            return Task(request, known)

        find = model_of if method.subject is None else called(method, method.subject, typed)
        also = None if method.also is None else called(method, method.also, typed)
        release(call, project, ask, find, free=free, also=also)

    command.__doc__ = help_of(method)
    return with_options(command, [*parameters_of(method), *shared])


def summary_of(method: Method) -> str:
    return method.summary or f"Release {method.title[:1].lower()}{method.title[1:]}: {method.lead}."


def help_of(method: Method) -> str:
    """What is said about a command: what it shows, what there is to know, and examples."""
    examples = [f"    dpexplain {method.command} {line}" for line in method.example.splitlines()]
    return "\n\n".join([summary_of(method), method.about or cleandoc(method.request.__doc__ or ""), ABOUT, *examples])
