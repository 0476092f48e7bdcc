"""What a caller decides about a release: a frozen model, declared once, with a description for each option.

The signature of the Python function, the options of the command line, entries of a project file and JSON all follow
from it. A request knows no table: whatever can be wrong with it is found out before anything is opened or spent.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin

import annotated_types as limits
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticSerializationError

from dpexplain.core.canonical import JsonObject
from dpexplain.errors import InputError, InternalError


class Must(str):
    """What a value must be, in words, for an error: where the type does not say it well."""


LONGEST_SHOWN = 40  # characters of a text that an error repeats


@dataclass(frozen=True)
class Flag:
    """How an option is typed on the command line, where its name, type and description do not say it well.

    name     "--feature"; by default the field's, a list's without its last s, and --no-... for what is true by default.
             An empty name: it cannot be typed
    metavar  stands for the value in the help
    text     the help, instead of the description
    """

    name: str | None = None
    metavar: str | None = None
    text: str | None = None


def _names(value: Sequence[str] | None) -> Sequence[str] | None:
    if value is not None and not value:
        raise ValueError
    if value is not None and len(set(value)) < len(value):
        raise InputError("a feature is named twice.")
    return value


# Options that several requests have
Names = Annotated[Sequence[str] | None, AfterValidator(_names), Must("a list of names")]
Mechanism = Annotated[
    Literal["cube", "discrete-laplace", "discrete-gaussian"] | None,
    Field(description="The noise, instead of the one with the smallest forecast error."),
]
Smooth = Annotated[
    bool,
    Field(
        description="Combine the released values with what the model says about synthetic rows (free). False shows "
        "them as they were released."
    ),
    Flag(text="Show the released values as they are."),
]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Request(BaseModel):
    """Base of all requests. Wrong options raise InputError: which one, what it must be, and that nothing was spent."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True, protected_namespaces=()
    )

    name_in_files: ClassVar[str] = ""  # set by the registration
    free_options: ClassVar[Mapping[str, Any]] = {}  # values of options with which it has no price

    if not TYPE_CHECKING:  # type checkers see the options

        def __init__(self, **options: Any) -> None:
            try:
                super().__init__(**options)
            except ValidationError as found:
                problem = refusal(type(self), found)
            else:
                return
            raise problem

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, options: Any) -> Any:
        return _plain(options)

    @property
    def label(self) -> str:
        """What the ledger calls the release."""
        raise InternalError(f"{type(self).__name__} has no label")

    @property
    def lead(self) -> str:
        """The sentence on its page, where that of the method does not say enough."""
        return ""

    @property
    def free_with_marginals(self) -> bool:
        """Whether released marginals answer it, for no cost."""
        return False

    @property
    def free(self) -> bool:
        """Whether it has no cost: nothing of a table is read."""
        return any(getattr(self, name) == value for name, value in self.free_options.items())

    @property
    def needs_delta(self) -> bool:
        """Whether these options need Gaussian noise, which a pure account cannot pay for."""
        return False

    def but(self, **options: Any) -> Self:
        """The same request with other options."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | options)

    def to_json(self) -> JsonObject:
        """The request as plain JSON, with the options that differ from their defaults."""
        try:
            options = self.model_dump(mode="json", exclude_defaults=True)
        except PydanticSerializationError:
            raise InputError(
                "a request with a function cannot be written down.", hint="use it in Python", spent=""
            ) from None
        return {"request": self.name_in_files, **options}

    @classmethod
    def of_json(cls, options: Mapping[str, Any]) -> Self:
        """The request with these options, as JSON or a project file spells them."""
        return cls(**options)


def _plain(value: Any) -> Any:
    """numpy's numbers and arrays as Python's, also inside lists and mappings."""
    numpy: Any = sys.modules.get("numpy")  # who has not imported it has no arrays; options are read without it
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value


def refusal(kind: type[Request], error: ValidationError) -> InputError:
    """Our words for what pydantic found first."""
    first = error.errors(include_url=False)[0]
    own = first.get("ctx", {}).get("error")
    if isinstance(own, InputError):
        return own
    name, value = str(first["loc"][0]) if first["loc"] else "", first["input"]
    got = _shown(value, inside=any(isinstance(place, int) for place in first["loc"]))
    if first["type"] == "extra_forbidden":
        return unknown_option(name, kind.model_fields)
    if first["type"] == "missing":
        return InputError(f"{name} is missing.", hint=str(kind.model_fields[name].description or ""))
    field = kind.model_fields[name]
    if all(get_origin(part) is Literal for part in members(field.annotation)):
        choices = " or ".join(f'"{text}"' for text in choices_of(field.annotation))
        return InputError(f"unknown {name} {got}."[:200], hint=f"use {choices}")
    return InputError(f"{name} must be {must_be(field.annotation, field.metadata)}; got {got}."[:200])


def _shown(value: Any, *, inside: bool) -> str:
    """What was given, if it is a single value. Of anything else, of what is in a list and of long texts the type: they
    may be rows.
    """
    plain = value is None or isinstance(value, int | float | Fraction)
    plain = plain or (isinstance(value, str) and len(value) <= LONGEST_SHOWN and value.isprintable())
    empty = isinstance(value, list | tuple) and not value
    return repr(value) if not inside and (plain or empty) else f"an object of type {type(value).__name__}"


def unknown_option(name: str, known: Mapping[str, Any] | Sequence[str]) -> InputError:
    """There is no such option; perhaps another one was meant."""
    close = difflib.get_close_matches(name, list(known), 1)
    hint = f"did you mean {close[0]}?" if close else "there is: " + ", ".join(known)
    return InputError(f"there is no option {name!r}.", hint=hint)


def must_be(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """What a value of this type is, in words."""
    for fact in metadata:
        if isinstance(fact, Must):
            return str(fact)
    if get_origin(annotation) is Annotated:
        inner, *facts = get_args(annotation)
        return must_be(inner, [*metadata, *facts])
    if annotation is bool:
        return "true or false"
    if annotation is str:
        return "a text"
    if annotation in (int, float):
        return ("a whole number" if annotation is int else "a number") + _between(metadata)
    if choices := choices_of(annotation):
        return "one of " + ", ".join(json.dumps(choice) for choice in choices)
    parts = [must_be(part, metadata) for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) in (list, Sequence, tuple) or not parts:
        return "a list" if parts else "of another type"
    return ", or ".join(dict.fromkeys(parts))


def choices_of(annotation: Any) -> list[Any]:
    """The values that a type names one by one."""
    return [one for part in members(annotation) if get_origin(part) is Literal for one in get_args(part)]


def members(annotation: Any) -> Iterator[Any]:
    """The types that a union allows, nothing left out but None."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from members(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for part in get_args(annotation):
            yield from members(part)
    elif annotation is not type(None):
        yield annotation


def _between(metadata: Sequence[Any]) -> str:
    """Limits in words: " from 1 to 100", " of at least 2", " above 0"."""
    facts = [fact for item in metadata for fact in (getattr(item, "metadata", None) or [item])]
    low = next((fact.ge for fact in facts if isinstance(fact, limits.Ge)), None)
    high = next((fact.le for fact in facts if isinstance(fact, limits.Le)), None)
    above = next((fact.gt for fact in facts if isinstance(fact, limits.Gt)), None)
    if low is not None and high is not None:
        return f" from {low:,} to {high:,}"
    return "" if low is None and above is None else f" of at least {low:,}" if above is None else f" above {above:,}"
