"""Records and groups as people type them or keep them in files: --row, --rows, --group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpexplain.errors import InputError

if TYPE_CHECKING:
    from dpexplain.core.domain import Domain


def record_of(domain: Domain, pairs: Sequence[str], features: Sequence[str]) -> dict[str, Any]:
    """The record that a person typed: NAME=VALUE for every feature."""
    record: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name.strip() in record:
            raise InputError(
                f"--row takes NAME=VALUE, once for each column; got {pair!r}.", hint="--row age=40", spent=""
            )
        record[name.strip()] = typed(domain, name.strip(), value.strip())
    missing = [name for name in features if name not in record]
    if missing:
        raise InputError(
            f"the record has no value for {', '.join(missing)}.",
            hint="--row NAME=VALUE, once for each column",
            spent="",
        )
    return {name: record[name] for name in features}


def typed(domain: Domain, name: str, value: str) -> Any:
    """A value as a person types it, in the type that is declared."""
    from dpexplain.core.domain import Categorical

    column = domain.column(name)
    if isinstance(column, Categorical):
        spelled = {str(category): category for category in column.categories}
        return spelled.get(value, value)
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{name}={value!r} is not a number.", spent="") from None


def read_records(path: Path, domain: Domain, features: Sequence[str]) -> list[dict[str, Any]]:
    """The records of a CSV or Parquet file of the caller's own."""
    import pandas as pd

    try:
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, dtype=str)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read: {type(error).__name__}.", hint="a CSV or Parquet file", spent=""
        ) from None
    missing = [name for name in features if name not in frame.columns]
    if missing:
        raise InputError(f"{path.name} has no column {', '.join(missing)}.", spent="")
    lines = frame[list(features)].to_dict("records")
    return [
        {
            str(name): typed(domain, str(name), str(value)) if isinstance(value, str) else value
            for name, value in line.items()
        }
        for line in lines
    ]


def group_of(domain: Domain, conditions: Sequence[str]) -> dict[str, Any]:
    """The group that a person typed: NAME=VALUE, NAME=VALUE|VALUE, NAME=LOW..HIGH with either end left out."""
    group: dict[str, Any] = {}
    for condition in conditions:
        name, equals, value = (part.strip() for part in condition.partition("="))
        if not equals or not value or name in group:
            raise InputError(
                f"--group takes NAME=VALUE, once for each column; got {condition!r}.",
                hint="--group sex=Female, --group 'race=Black|Other' or --group age=17..30",
            )
        if name not in domain:
            group[name] = value  # refused later, with the names there are
        elif ".." in value:
            ends = value.partition("..")
            group[name] = tuple(typed(domain, name, end.strip()) if end.strip() else None for end in (ends[0], ends[2]))
        else:
            group[name] = [typed(domain, name, part.strip()) for part in value.split("|")]
    return group
