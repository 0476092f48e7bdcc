"""What is handed to an explainer: a wrapped table and a wrapped model. Anything else is told what to wrap."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import wraps
from inspect import signature
from types import NoneType
from typing import Any, ParamSpec, TypeVar

from dpexplain.data import PrivateTable
from dpexplain.errors import InputError
from dpexplain.models.model import Model

P = ParamSpec("P")
R = TypeVar("R")
WRAP = {
    "table": (
        PrivateTable,
        "dpx.PrivateTable(rows, domain=domain, budget=dpx.Budget(epsilon=2.0, delta=1e-6), "
        'relation="replace-one", ledger="sqlite:///budget.db", name="people", version="1")',
    ),
    "model": (
        Model,
        'dpx.Model(estimator, output=(0.0, 1.0), name="credit", version="1"), of a classifier with label=...',
    ),
}


def of_wrapped(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments that are declared as PrivateTable or Model before the function sees them. A model may also be
    declared as a name, or as none.
    """
    parameters = signature(function).parameters
    declared = {name: str(parameter.annotation).split(" | ") for name, parameter in parameters.items()}
    checked = [name for name, (kind, _) in WRAP.items() if kind.__name__ in declared.get(name, ())]
    others = {name: tuple(kind for kind in (str, NoneType) if _written(kind) in declared[name]) for name in checked}
    called_as = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def called(*positional: P.args, **named: P.kwargs) -> R:
        given = dict(zip(parameters, positional, strict=False)) | named
        if unknown := [name for name in named if name not in parameters]:
            close = difflib.get_close_matches(unknown[0], list(parameters), 1)
            hint = f"did you mean {close[0]}?" if close else "it has: " + ", ".join(parameters)
            raise InputError(f"{called_as} has no option {unknown[0]!r}.", hint=hint)
        swapped = "model" in checked and isinstance(given.get("table"), Model)
        for name in checked:
            kind, wrap = WRAP[name]
            if name in given and not isinstance(given[name], (kind, *others[name])):
                raise InputError(
                    f"{name} must be a dpx.{kind.__name__}; got {_kind(given[name])}.",
                    hint=f"{called_as}(table, model, ...): the table comes first" if swapped else f"{name} = {wrap}",
                )
        return function(*positional, **named)

    return called


def _written(kind: type) -> str:
    return "None" if kind is NoneType else kind.__name__


def _kind(value: Any) -> str:
    """The type of what was given, which is public; never the thing itself, which may be rows."""
    return f"the class {value.__name__}" if isinstance(value, type) else f"an object of type {type(value).__name__}"
