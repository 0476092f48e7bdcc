"""Forms made from the schemas of requests: what a request may say is declared once, in its pydantic model.

A field that is left empty keeps its default. What a request needs stands first; the rest is for experts, a click away.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.errors import InputError
from dpexplain.methods.registry import Method
from dpexplain.service.console.pages import Sent
from dpexplain.service.limits import too_much
from dpexplain.service.schema import schema_of

LONGEST_NUMBER = 60  # characters
COLUMN, COLUMNS = {"feature", "target", "score"}, {"features", "groups", "columns", "attributes"}
RECORD = {"record", "row"}
ASKED_FIRST = {"target", "feature", "features", "groups", "k", "probs", "positive", "record", "row", "group"}
NAMES = {
    "feature": "Column", "features": "Columns", "target": "What the model predicts", "groups": "Groups to compare",
    "k": "How many clusters", "probs": "Shares of rows", "positive": "The value that counts as positive",
    "record": "The person", "row": "The person", "group": "The group", "score": "A column that holds the score",
}  # fmt: skip
ABOUT = {  # where the request's own words are those of Python
    ("accumulated-effects", "feature"): "Each column that you choose has a curve of its own.",
    ("partial-dependence", "feature"): "Each column that you choose has a curve of its own.",
    ("influence", "features"): "With none chosen, all that the model uses. Others have no influence.",
    ("influence", "group"): 'For the influence on a group: {"column": "value"}, or a list of values.',
    ("influence", "row"): "For the influence on one person; else leave it empty.",
    ("local-explanation", "record"): "Whose prediction is explained.",
    ("transparency-report", "row"): "Whom the report is about. The person is no part of what is released.",
    ("performance", "groups"): "Columns whose values are compared.",
    ("quantiles", "probs"): "Increasing numbers between 0 and 1: 0.5 asks for the middle.",
}


@dataclass(frozen=True)
class Field:
    """One field of a form."""

    name: str
    label: str
    about: str
    kind: str  # choice, choices, number, whole, list, text, json, record
    needed: bool = False
    options: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    usual: str = ""  # the default, in words
    parts: tuple[Field, ...] = field(default=())  # of a record: a field for each column


def fields_of(method: Method, domain: Domain, features: Sequence[str] | None) -> list[Field]:
    """The fields of a request's form: what it needs, then what people choose often, then the rest."""
    schema = schema_of(method)
    found = [
        _field(name, {**said, **_about(method, name)}, name in schema["required"], domain, features)
        for name, said in schema["properties"].items()
        if name != "request" and _can_be_typed(said)
    ]
    return sorted(found, key=lambda one: (not one.needed, one.name not in ASKED_FIRST))


def _about(method: Method, name: str) -> JsonObject:
    return {"description": ABOUT[method.name, name]} if (method.name, name) in ABOUT else {}


def first(one: Field) -> bool:
    """Whether a field is for everybody."""
    return one.needed or one.name in ASKED_FIRST


def _can_be_typed(said: JsonObject) -> bool:
    return any(kind != {"not": {}} and kind.get("type") != "null" for kind in said.get("anyOf", [said]))


def _field(name: str, said: JsonObject, needed: bool, domain: Domain, features: Sequence[str] | None) -> Field:
    kinds = [kind for kind in said.get("anyOf", [said]) if kind.get("type") != "null" and kind != {"not": {}}]
    types = {kind.get("type") for kind in kinds}
    usual = said.get("default")
    about: dict[str, Any] = {
        "name": name, "label": NAMES.get(name, name.replace("_", " ")), "needed": needed,
        "about": said.get("description", ""), "usual": "" if usual in (None, [], {}) else _words(usual),
    }  # fmt: skip
    if name in RECORD:
        parts = record_fields(domain, features, needed=needed)
        return Field(kind="record", parts=tuple(parts), **about)
    if name in COLUMNS or (name in COLUMN and "array" in types):
        return Field(kind="choices", options=tuple(domain), **about)
    if name in COLUMN:
        return Field(kind="choice", options=tuple(domain), **about)
    options = [str(option) for kind in kinds for option in kind.get("enum", [])]
    if options:
        return Field(kind="choice", options=tuple(options), **about)
    if types == {"boolean"}:
        return Field(kind="choice", options=("yes", "no"), **about)
    if types <= {"integer", "number"}:
        low = next((kind[key] for kind in kinds for key in ("minimum", "exclusiveMinimum") if key in kind), None)
        high = next((kind[key] for kind in kinds for key in ("maximum", "exclusiveMaximum") if key in kind), None)
        return Field(kind="whole" if types == {"integer"} else "number", low=low, high=high, **about)
    if "array" in types and "object" not in types:
        return Field(kind="list", **about)
    return Field(kind="text" if "string" in types else "json", **about)


def record_fields(domain: Domain, features: Sequence[str] | None = None, *, needed: bool = True) -> list[Field]:
    """A field for each column of a person who is typed in."""
    found = []
    for name in domain if features is None else features:
        column = domain[name]
        about: dict[str, Any] = {"name": name, "label": name, "needed": needed, "about": ""}
        if isinstance(column, Categorical):
            found.append(Field(kind="choice", options=tuple(map(str, column.categories)), **about))
        elif type(column) is Numeric:
            kind = "whole" if column.integer else "number"
            found.append(Field(kind=kind, low=float(column.low), high=float(column.high), **about))
        else:
            found.append(Field(kind="text", **about))
    return found


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value)


# Values back ----------------------------------------------------------------------------------------------------------


def request_from(method: Method, fields: Sequence[Field], sent: Sent, domain: Domain) -> JsonObject:
    """The request that a form spells; what was left empty is left out."""
    found: JsonObject = {"request": method.name}
    for one in fields:
        value = _value(one, sent, domain)
        if value is not None:
            found[one.name] = value
        elif one.needed:
            raise InputError(f"{one.label} is needed.", spent="")
    return found


def _value(one: Field, sent: Sent, domain: Domain) -> Any:
    text = sent.one(one.name)
    if one.kind == "record":
        record = record_from(one.parts, sent, domain, one.name)
        if record and (missing := [part.label for part in one.parts if part.name not in record]):
            raise InputError(f"{missing[0]} is needed.", spent="")
        return record or None
    if one.kind == "choices":
        chosen = [name for name in sent.all(one.name) if name in one.options]
        return None if not chosen else chosen[0] if one.name in COLUMN and len(chosen) == 1 else chosen
    if not text:
        return None
    if one.kind == "choice":
        if text not in one.options:
            raise InputError(f"{one.label} must be one of what is offered.", spent="")
        return text == "yes" if one.options == ("yes", "no") else text
    if one.kind in ("whole", "number"):
        return _number(one, text)
    if one.kind == "list":
        return [_maybe_number(part.strip()) for part in text.split(",") if part.strip()]
    if one.kind == "json":
        if why := too_much(text.encode("utf-8", "replace")):
            raise InputError(f"{one.label} cannot be read: {why}.", spent="")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise InputError(f"{one.label} cannot be read.", hint="it is written as JSON", spent="") from None
    return _maybe_number(text) if one.name == "positive" and _is_numeric(sent.one("target"), domain) else text


def _number(one: Field, text: str) -> float | int:
    try:
        if len(text) > LONGEST_NUMBER:
            raise ValueError
        return int(text) if one.kind == "whole" else float(text)
    except ValueError:
        kind = "a whole number" if one.kind == "whole" else "a number"
        raise InputError(f"{one.label} must be {kind}.", spent="") from None


def _maybe_number(text: str) -> Any:
    for kind in (int, float) if len(text) <= LONGEST_NUMBER else ():
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_numeric(name: str, domain: Domain) -> bool:
    return name in domain and isinstance(domain[name], Numeric)


def record_from(parts: Sequence[Field], sent: Sent, domain: Domain, prefix: str = "record") -> JsonObject:
    """A typed-in person, with the values as the domain declares them."""
    found: JsonObject = {}
    for one in parts:
        text = sent.one(f"{prefix}.{one.name}")
        if not text:
            continue
        column: Any = domain[one.name]
        if isinstance(column, Categorical):
            named: Mapping[str, Any] = {str(category): category for category in column.categories}
            if text not in named:
                raise InputError(f"{one.label} must be one of what is offered.", spent="")
            found[one.name] = named[text]
        else:
            found[one.name] = _number(one, text) if one.kind in ("whole", "number") else text
    return found
