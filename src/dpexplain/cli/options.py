"""What several commands take: options, each written once. `Call` has those of every command that releases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from dpexplain.cli.report import Reporter
from dpexplain.errors import InputError
from dpexplain.methods.registry import keyword_of

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
Epsilon = Annotated[str | None, option("--epsilon", "E", "Total epsilon, including the histograms under the curves.")]
Rho = Annotated[str | None, option("--rho", "R", "The cost as rho (zCDP), for an account with delta.")]
Guess = Annotated[int | None, option("--n", "ROWS", "For the forecast where the number of rows is private.")]
Analyst = Annotated[str | None, option("--analyst", "NAME", "Who asks; may have a limit of their own.")]
Out = Annotated[Path, option("--out", "DIR", "Folder for the page, the pictures and the receipts.")]
DEFAULT_OUT = Path("explanations")

# What is asked
Features = Annotated[list[str] | None, option("--feature", "NAME", "A column to explain. May be repeated.")]
Pairs = Annotated[list[str] | None, option("--pair", "NAME,NAME", "Two columns for a surface. May be repeated.")]
All = Annotated[bool, option("--all", None, "Every column that the model uses but its target, for one epsilon.")]
Row = Annotated[list[str] | None, option("--row", "NAME=VALUE", "One value of the record; for each column.")]
Rows = Annotated[Path | None, option("--rows", "FILE", "Several records: a CSV or Parquet file.")]


def earlier(name: str) -> Parameter:
    """The option for a file with an earlier result of this method."""
    text = f"A file with {'' if name.endswith('s') else 'a '}released {name}, to be used again."
    return keyword(keyword_of(name), Annotated[Path | None, option(f"--{name}", "FILE", text)])


@dataclass(frozen=True)
class Call:
    """What every command that releases needs: the cost, who asks, in which project, and where the answer goes."""

    epsilon: Epsilon = None
    rho: Rho = None
    n: Guess = None
    analyst: Analyst = None
    out: Out = DEFAULT_OUT
    project: ProjectFile = DEFAULT_PROJECT
    json: Json = False

    @classmethod
    def parameters(cls) -> list[Parameter]:
        """The options, as typer reads them."""
        hints = get_type_hints(cls, include_extras=True)
        return [keyword(field.name, hints[field.name], field.default) for field in fields(cls)]

    @property
    def paid(self) -> bool:
        return self.epsilon is not None or self.rho is not None

    def require_price(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise InputError("give exactly one of --epsilon and --rho.", hint="--epsilon 0.5 works in every account")

    def cost(self, budget: Budget) -> Cost:
        self.require_price()
        return budget.cost(epsilon=number(self.epsilon, "epsilon"), rho=number(self.rho, "rho"))

    @cached_property
    def reporter(self) -> Reporter:
        return Reporter(as_json=self.json)


def keyword(name: str, annotation: Any, default: Any = None) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_options(command: Callable[..., None], options: Sequence[Parameter]) -> Callable[..., None]:
    """A function of any keywords as typer reads it: one of these options."""
    command.__annotations__ = {option.name: option.annotation for option in options}
    vars(command)["__signature__"] = Signature(options)
    return command


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
