"""The domain as a YAML file that a program drafts and a person reviews.

    dpexplain_domain: 1
    reviewed_by: null
    peeked: false
    columns:
      age: {type: numeric, low: 0, high: 120, integer: true, missing: 40}
      sex: {type: categorical, values: [Female, Male], missing: null}

Names for people stand in the same lines: title, unit and description of a column, titles of its values; and `units` at
the top, what the protected units are called. They are words alone, in pictures and pages.

      age: {type: numeric, low: 0, high: 120, integer: true, missing: 40, title: Age at admission, unit: years}

A draft holds column names and types; what has to be declared is written `???`, and a file with a `???` in it does not
load. Only what looks like a number is a number, and only `true` and `false` are truth values: `no`, `012` and
`2026-11-01` are texts, as a reader expects of a list of categories.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from dpexplain.columns import FOR_PEOPLE, Names, column_from_json, names_of
from dpexplain.core import domain as declared
from dpexplain.core.domain import Categorical, Column
from dpexplain.data.encode import RawColumn
from dpexplain.data.sources import open_source
from dpexplain.data.spelling import says_missing
from dpexplain.errors import DomainError

FORMAT = 1
MOST_CATEGORIES = 50  # a text column with more different values than this is probably an identifier
_PEEKED = "suggested by looking at the data: this reveals it; replace by what is publicly known"
_IDENTIFIER = f"more than {MOST_CATEGORIES} different texts: probably an identifier, so it is left out ({_PEEKED})"
_MEANING = {
    "type": "numeric, categorical or date",
    "low": "the smallest value that is possible, from public knowledge",
    "high": "the largest value that is possible, from public knowledge",
    "integer": "true for whole numbers, else false",
    "step": "day, month or year",
    "values": "the list of possible values, e.g. [Female, Male]",
    "missing": "the value that stands for a missing one, null for a default, or nan to hand it to the model as it is",
}
_ENTRIES = "numeric: low, high, integer, missing; categorical: values, missing; date: low, high, step, missing"
_NEEDED = {"numeric": ("low", "high"), "categorical": ("values",), "date": ("low", "high")}
_HEAD = """\
# What is publicly known about the columns of the table. Nothing runs before a person has reviewed this file.
#
# Write down what everybody may know (an age lies between 0 and 120), not what the data happen to show (17 to 93):
# bounds and categories are printed on every explanation. Values outside are moved to the nearest bound; categories
# that are not listed count as missing. `missing` is the value that a missing one becomes; null is the middle of the
# bounds, or the first category. For a numeric column whose missing values the model itself takes, write nan: they stay
# missing. Delete the columns that no explanation needs, replace every ???, and then write your name below.
# For pictures and pages you may add what people call a column: title: Age at admission, unit: years, description: ...,
# and titles: [no, yes] for its values in their order. Nothing else depends on these.
"""
_REVIEW = "write your name here after checking every line; nothing runs before"


class Domain(declared.Domain):
    """The declared columns, in order, and the file that keeps them. Written in code they count as reviewed; in a file,
    a person must say so.

    names  what people call columns: {"age": {"title": "Age", "unit": "years", "description": "...", "titles": [...]}},
           with one of the `titles` for each category; used in pictures and pages alone
    units  what the protected units are called, in the plural: "patients"
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        *,
        reviewed_by: str | None = "the code that declares it",
        peeked: bool = False,
        names: Mapping[str, Mapping[str, Any]] | None = None,
        units: str | None = None,
    ) -> None:
        super().__init__(columns, reviewed_by=reviewed_by, peeked=peeked)
        self.names = Names.checked(names or {}, units, self)

    @classmethod
    def load(cls, path: str | Path) -> Domain:
        """The domain in a file. A file that nobody has reviewed loads too, but no table opens with it."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise DomainError(
                f"the domain file {path.name} cannot be read.", hint="`dpexplain init TABLE` drafts one"
            ) from None
        return parse_domain(text, path.name)

    def save(self, path: str | Path) -> None:
        """Write a file that loads as exactly this domain."""
        Path(path).write_text(domain_text(self), encoding="utf-8")


def parse_domain(text: str, name: str = "the domain file") -> Domain:
    """The domain in YAML text; `name` is what errors call it."""
    return domain_of(_document(text, name), name)


def entries_of(text: str, name: str = "the domain file") -> dict[str, Any]:
    """What stands in a domain file, also in a draft, for somebody who completes it; what is open is spelled ???."""
    return _spelled(_document(text, name))  # type: ignore[no-any-return]  # a mapping stays one


def _spelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _spelled(one) for key, one in value.items()}
    return [_spelled(one) for one in value] if isinstance(value, list) else "???" if value is UNKNOWN else value


def domain_of(document: Mapping[Any, Any], name: str = "the domain file") -> Domain:
    """The domain in what was read from such a file, or typed in its place."""
    document = dict(document)
    units = document.pop("units", None)
    _keys(document, {"dpexplain_domain", "reviewed_by", "peeked", "columns"}, name)
    if document["dpexplain_domain"] != FORMAT or isinstance(document["dpexplain_domain"], bool):
        raise DomainError(
            f"{name} has format {document['dpexplain_domain']!r}; this dpexplain reads format {FORMAT}.",
            hint="write `dpexplain_domain: 1`, or update dpexplain",
        )
    reviewer, peeked, columns = document["reviewed_by"], document["peeked"], document["columns"]
    if not isinstance(reviewer, str | None):
        raise DomainError(f"{name}: reviewed_by must be a name or null.")
    if not isinstance(peeked, bool):
        raise DomainError(f"{name}: peeked must be true or false.")
    if not isinstance(columns, dict) or not columns:
        raise DomainError(f"{name} declares no columns.", hint="columns: {age: {type: numeric, low: 0, high: 120}}")
    split = {column: _split(entry) for column, entry in columns.items()}
    declared = {_name(column, name): _column(column, entry, name) for column, (entry, _) in split.items()}
    names = {column: words for column, (_, words) in split.items() if words}
    try:
        return Domain(declared, reviewed_by=(reviewer or "").strip() or None, peeked=peeked, names=names, units=units)
    except DomainError as error:
        raise DomainError(f"{name}: {error.message}", hint=error.hint) from None


def domain_text(domain: declared.Domain) -> str:
    """The domain as YAML text."""
    names = names_of(domain)
    words = {name: {key: _listed(value) for key, value in own.items()} for name, own in names.columns.items()}
    lines = [f"  {_spell(name)}: {_flow(_plain(column) | words.get(name, {}))}" for name, column in domain.items()]
    return _file(lines, reviewed_by=domain.reviewed_by, peeked=domain.peeked, head="", units=names.units)


def draft_domain(source: Any, *, peek: bool = False) -> str:
    """YAML text for a person to complete, from the column names and types of a table.

    With `peek`, bounds and categories are suggested from the rows. They reveal the data: each is marked, the file says
    `peeked: true`, and a person has to replace them by what is publicly known.
    """
    opened = open_source(source)
    lines = []
    for name, kind in opened.types.items():
        entry, remark = _guess(kind)
        if peek and entry is not None:
            entry, remark = _suggest(_values(opened, name))
        comment = f"  # {remark}" if remark else ""
        if entry is None:
            lines.append(f"  # {_spell(name)}: {{type: ???}}{comment}")
        else:
            lines.append(f"  {_spell(name)}: {_flow(entry)}{comment}")
    return _file(lines, reviewed_by=None, peeked=peek, head=_HEAD)


# Reading ------------------------------------------------------------------------------------------------------------


class _Unknown:
    """What `???` reads as."""

    def __repr__(self) -> str:
        return "???"


UNKNOWN = _Unknown()


class _Loader(yaml.SafeLoader):
    """Safe YAML without the surprises: see the module's docstring. Also takes `???` inside braces, and no key twice."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own shape

    def _at_unknown(self) -> bool:
        text: str = self.prefix(4)
        return text[:3] == "???" and text[3:] in ("", "\0", " ", "\t", "\r", "\n", ",", "}", "]")

    def check_key(self) -> bool:
        return not self._at_unknown() and bool(super().check_key())

    def check_plain(self) -> bool:
        return self._at_unknown() or bool(super().check_plain())

    def fetch_plain(self) -> None:
        if not self._at_unknown():
            super().fetch_plain()
            return
        self.save_possible_simple_key()
        self.allow_simple_key = False
        start = self.get_mark()
        self.forward(3)
        self.tokens.append(yaml.ScalarToken("???", True, start, self.get_mark()))

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML has no types for it
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None) is not None:
            raise yaml.constructor.ConstructorError(None, None, "tags and aliases are not used here", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in seen:
                what = f"{key.value!r} appears twice" if isinstance(key, yaml.ScalarNode) else "a name must be a text"
                raise yaml.constructor.ConstructorError(None, None, what, key.start_mark)
            seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


_FLOAT = r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$"
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:null", r"^(?:null|~|)$", ["n", "~", ""]),
    ("tag:yaml.org,2002:bool", r"^(?:true|false)$", list("tf")),
    ("tag:yaml.org,2002:int", r"^[-+]?(?:0|[1-9][0-9]*)$", list("-+0123456789")),
    ("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789")),
    ("!unknown", r"^\?\?\?$", ["?"]),
):
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), _first)
_Loader.add_constructor("!unknown", lambda _loader, _node: UNKNOWN)


def _document(text: str, name: str) -> dict[Any, Any]:
    try:
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        twice = getattr(error, "problem", None) if isinstance(error, yaml.constructor.ConstructorError) else None
        raise DomainError(
            f"{name} is not readable{where}" + (f": {twice}." if twice else ": it is not valid YAML."),
            hint="compare with a file that `dpexplain init TABLE` drafts; put quotes around unusual texts",
        ) from None
    except (ValueError, RecursionError):
        raise DomainError(f"{name} is not readable: it has a value that is too large or too deep.") from None
    if not isinstance(document, dict):
        raise DomainError(f"{name} is not a domain file.", hint="`dpexplain init TABLE` drafts one")
    return document


def _keys(found: Mapping[Any, Any], wanted: set[str], where: str) -> None:
    for what, keys in (("an unknown", set(found) - wanted), ("no", wanted - set(found))):
        if keys:
            names = ", ".join(sorted(map(str, keys)))
            raise DomainError(f"{where} has {what} entry: {names}.", hint="it needs: " + ", ".join(sorted(wanted)))


def _name(column: Any, where: str) -> str:
    if not isinstance(column, str) or not column:
        raise DomainError(f"{where}: the column name {column!r} is not a text.", hint=f'put it in quotes: "{column}"')
    return column


def _split(entry: Any) -> tuple[Any, dict[str, Any]]:
    """What is declared about a column, and what people call it."""
    if not isinstance(entry, dict):
        return entry, {}
    words = {key: entry[key] for key in FOR_PEOPLE if key in entry and entry[key] is not None}
    return {key: value for key, value in entry.items() if key not in FOR_PEOPLE}, words


def _column(column: str, entry: Any, where: str) -> Column:
    place = f"{where}: column {column!r}"
    if entry is UNKNOWN or not isinstance(entry, dict):
        raise DomainError(f"{place} is not declared.", hint="write behind it {type: numeric, low: ..., high: ...}")
    if entry.get("type", UNKNOWN) is UNKNOWN:  # it follows from what else is declared
        known = {"values": "categorical", "low": "numeric", "high": "numeric"}
        entry = {**entry, "type": next((known[key] for key in entry if key in known), entry.get("type"))}
    for key, value in entry.items():
        if value is UNKNOWN or (isinstance(value, list) and any(v is UNKNOWN for v in value)):
            others = [str(k) for k, v in entry.items() if v is UNKNOWN]
            raise DomainError(
                f"{place} still has ??? for {', '.join(others) or key}.",
                hint=f"fill in {key}: {_MEANING.get(key, 'a value')}",
            )
    needed = _NEEDED.get(str(entry.get("type")), ("type",))
    for key in needed:
        if entry.get(key) is None:
            raise DomainError(f"{place} has no {key}.", hint=f"fill in {key}: {_MEANING[key]}")
    if not isinstance(entry.get("integer", False), bool):
        raise DomainError(f"{place}: integer must be true or false.")
    if not isinstance(entry.get("values", []), list):
        raise DomainError(f"{place}: values must be a list.", hint="values: [Female, Male]")
    try:
        return column_from_json(column, entry)
    except DomainError as error:
        raise DomainError(f"{where}: {error.message}", hint=error.hint) from None
    except (OverflowError, TypeError):
        raise DomainError(f"{place} has a value that is too large or not a number or text.") from None


# Writing ------------------------------------------------------------------------------------------------------------


def _file(lines: Sequence[str], *, reviewed_by: str | None, peeked: bool, head: str, units: str = "") -> str:
    remark = f"        # {_REVIEW}" if reviewed_by is None else ""
    top = [f"dpexplain_domain: {FORMAT}", f"reviewed_by: {_spell(reviewed_by)}{remark}", f"peeked: {_spell(peeked)}"]
    top += [f"units: {_spell(units)}"] if units else []
    return head + "\n".join([*top, "columns:", *lines]) + "\n"


def _plain(column: Column) -> dict[str, Any]:
    entry = column.to_json()
    if isinstance(column, Categorical):
        return entry
    return {key: _short(value) if isinstance(value, float) else value for key, value in entry.items()}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _short(value: float) -> float | int:
    """A whole bound without its `.0`, as long as it reads back as the same float."""
    return int(value) if value.is_integer() and abs(value) < 1e15 and str(value) != "-0.0" else value


def _flow(entry: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_spell(value)}" for key, value in entry.items()) + "}"


def _spell(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_spell, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if not isinstance(value, str):
        return repr(value)
    other_readers = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value) and value.lower() not in other_readers:
        return value
    return yaml.safe_dump(value, default_style='"', allow_unicode=True, width=math.inf).strip()


# Drafting -----------------------------------------------------------------------------------------------------------

Draft = tuple[dict[str, Any] | None, str]  # the entry (None: leave the column out), and a remark


def _guess(kind: pa.DataType | None) -> Draft:
    """From the type alone."""
    if kind is not None and pa.types.is_dictionary(kind):
        kind = kind.value_type
    if kind is None or pa.types.is_null(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return {"type": UNKNOWN}, _ENTRIES
    if pa.types.is_boolean(kind):
        return {"type": "categorical", "values": [False, True], "missing": UNKNOWN}, ""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return {"type": "categorical", "values": UNKNOWN, "missing": UNKNOWN}, ""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return {"type": "date", "low": UNKNOWN, "high": UNKNOWN, "step": "day", "missing": UNKNOWN}, ""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _numeric(UNKNOWN, UNKNOWN, pa.types.is_integer(kind), UNKNOWN), ""
    return None, f"stored as {kind}; turn it into a number or a text to use it"


_CODE = re.compile(r"\s*0\d+\s*")  # a number of a place or a thing, whose leading zeros count


def _numeric(low: Any, high: Any, integer: bool, missing: Any) -> dict[str, Any]:
    return {"type": "numeric", "low": low, "high": high, "integer": integer, "missing": missing}


class _Seen:
    """What one pass over a column shows: the range of its numbers, and its different values while they are few."""

    def __init__(self) -> None:
        self.low, self.high = math.inf, -math.inf
        self.whole, self.numbers, self.truths = True, True, True
        self.distinct: set[Any] = set()
        self.words: set[str] = set()  # that say that a value is missing
        self.other = False

    def add_numbers(self, values: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        values = values[np.isfinite(values)]
        if len(values):
            self.truths = False
            self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
            self.whole = self.whole and bool((values == np.rint(values)).all())

    def add_values(self, values: Sequence[Any]) -> None:
        for value in values:
            value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            value = value.item() if isinstance(value, np.generic) else value
            if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
                continue
            if not isinstance(value, str | int | float):
                self.other = True
                continue
            if isinstance(value, str) and says_missing(value):
                self.words.add(value)
                continue
            self.truths = self.truths and isinstance(value, bool)
            if not isinstance(value, bool) and self.numbers:
                number = None if isinstance(value, str) and _CODE.fullmatch(value) else _float(value)
                self.numbers = number is not None
                self.add_numbers(np.array([] if number is None else [number]))
            self.numbers = self.numbers and not isinstance(value, bool)
            if len(self.distinct) <= MOST_CATEGORIES:
                self.distinct.add(value)


def _values(source: Any, name: str) -> _Seen:
    seen = _Seen()
    for _, columns in source.batches([name], 2**16):
        raw: RawColumn = columns[name]
        if isinstance(raw, pd.Series):
            seen.add_values(list(raw))
        elif pa.types.is_integer(raw.type) or pa.types.is_floating(raw.type) or pa.types.is_decimal(raw.type):
            seen.add_numbers(raw.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        else:
            seen.add_values(list(_distinct(raw)))
    return seen


def _distinct(raw: Any) -> Iterator[Any]:
    values = raw.dictionary if pa.types.is_dictionary(raw.type) else pc.unique(raw)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        values = values.cast(pa.large_binary())  # a text that is not valid UTF-8 must not raise
    yield from values.to_pylist()


def _suggest(seen: _Seen) -> Draft:
    if seen.other:
        return None, f"holds values that are neither numbers nor texts ({_PEEKED})"
    if seen.numbers and math.isfinite(seen.low):
        low, high = _outwards(seen.low, seen.high)
        return _numeric(_short(low), _short(high), seen.whole, None), _PEEKED
    if not seen.distinct:
        return {"type": UNKNOWN}, f"no values were found ({_PEEKED}). {_ENTRIES}"
    if seen.truths:
        return {"type": "categorical", "values": [False, True], "missing": None}, ""
    if len(seen.distinct) > MOST_CATEGORIES:
        return None, _IDENTIFIER
    word = min(seen.words, default=None)
    values = sorted(seen.distinct, key=lambda value: (isinstance(value, str), str(value)))
    return {"type": "categorical", "values": values + ([] if word is None else [word]), "missing": word}, _PEEKED


def _outwards(low: float, high: float) -> tuple[float, float]:
    """The range widened to round numbers, which tell less about the two rows at its ends."""
    if low == high:
        return low, low + 1
    digits = -math.floor(math.log10(high - low))
    step = 10.0**-digits
    bottom, top = round(math.floor(low / step) * step, digits), round(math.ceil(high / step) * step, digits)
    return (bottom, top) if math.isfinite(top - bottom) and bottom <= low and high <= top else (low, high)


def _float(value: Any) -> float | None:
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
