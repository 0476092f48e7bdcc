"""What several commands take: options, each written once, and bundles of options that go together.

A command is a plain function. A parameter whose type is a bundle (`Price`, `Call`) stands for all options of the
bundle, in its place; `spread` makes of it the function that typer reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cached_property
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from dpexplain.cli.report import Reporter
from dpexplain.errors import InputError

if TYPE_CHECKING:
    from dpexplain.core.budget import Budget, Cost


def option(flag: str, metavar: str | None, text: str) -> Any:
    """An option as it stands behind a type; without a metavar, a switch."""
    return typer.Option(flag, metavar=metavar, help=text)


# Of every command
Json = Annotated[bool, option("--json", None, "Print one JSON object instead of text; errors too.")]
ProjectFile = Annotated[Path, option("--project", "FILE", "The project file: table, domain, budget, model.")]
DEFAULT_PROJECT = Path("dpexplain.toml")

# Of a release
Epsilon = Annotated[str | None, option("--epsilon", "E", "The whole price, all features and rugs included.")]
Rho = Annotated[str | None, option("--rho", "R", "The price in zCDP, for an account with delta.")]
Guess = Annotated[int | None, option("--n", "ROWS", "For the forecast where the number of rows is private.")]
Analyst = Annotated[str | None, option("--analyst", "NAME", "Who asks; may have a limit of their own.")]
Out = Annotated[Path, option("--out", "DIR", "Folder for the page, the pictures and the receipts.")]
DEFAULT_OUT = Path("explanations")

# What is asked
Features = Annotated[list[str] | None, option("--feature", "NAME", "A column to explain. May be repeated.")]
Pairs = Annotated[list[str] | None, option("--pair", "NAME,NAME", "Two columns for a surface. May be repeated.")]
All = Annotated[bool, option("--all", None, "Every column that the model uses but its target, for one price.")]
Row = Annotated[list[str] | None, option("--row", "NAME=VALUE", "One value of the record; for each column.")]
Rows = Annotated[Path | None, option("--rows", "FILE", "Several records: a CSV or Parquet file.")]
MarginalsFile = Annotated[
    Path | None, option("--marginals", "FILE", "A file with released marginals, to be used again.")
]


@dataclass(frozen=True)
class Price:
    """What a person typed about the price."""

    epsilon: Epsilon = None
    rho: Rho = None

    @property
    def given(self) -> bool:
        return self.epsilon is not None or self.rho is not None

    def require(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise InputError("give exactly one of --epsilon and --rho.", hint="--epsilon 0.5 works in every account")

    def cost(self, budget: Budget) -> Cost:
        self.require()
        return budget.cost(epsilon=number(self.epsilon, "epsilon"), rho=number(self.rho, "rho"))


@dataclass(frozen=True)
class Call:
    """Who asks, in which project, and where the answer goes."""

    analyst: Analyst = None
    out: Out = DEFAULT_OUT
    project: ProjectFile = DEFAULT_PROJECT
    json: Json = False

    @cached_property
    def reporter(self) -> Reporter:
        return Reporter(as_json=self.json)


def spread(
    command: Callable[..., None], own: Sequence[Parameter] = (), *, without: Collection[str] = ()
) -> Callable[..., None]:
    """The same command with the options of its bundles instead of the bundles, and its `own` ones instead of **."""
    hints = get_type_hints(command, include_extras=True)
    bundles: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    options: list[Parameter] = list(own)
    for name, parameter in signature(command).parameters.items():
        if name in without or parameter.kind is Parameter.VAR_KEYWORD:
            continue
        if name in bundles:
            options += _options(bundles[name])
        else:
            options.append(parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY))

    def called(**given: Any) -> None:
        for name, bundle in bundles.items():
            given[name] = bundle(**{field.name: given.pop(field.name) for field in fields(bundle)})
        command(**given)

    called.__name__, called.__doc__ = command.__name__, command.__doc__
    called.__annotations__ = {option.name: option.annotation for option in options}
    vars(called)["__signature__"] = Signature(options)
    return called


def _options(bundle: Any) -> list[Parameter]:
    hints = get_type_hints(bundle, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(bundle)
    ]


def once(names: Iterable[str] | None) -> list[str]:
    """What was typed, each once."""
    return list(dict.fromkeys(names or []))


def number(value: str | None, name: str) -> float | None:
    """A number as a person types it; whether it is allowed is for the budget to say."""
    if value is None:
        return None
    try:
        return float(value)
    except ValueError:
        raise InputError(f"--{name} must be a number; got {value!r}.", hint=f"--{name} 0.5") from None
