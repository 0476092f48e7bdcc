"""What is done to the values of a table before anything is computed from them, in words. It follows from the domain.

A model was built for a table as it is; explanations are about the cleaned one. So every result says what cleaning does.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpexplain.core.domain import Categorical, Column, Domain

MOST_NAMES, MOST_SENTENCES = 6, 6


def sentences(domain: Domain, names: Sequence[str] | None = None) -> list[str]:
    """One for all columns that are cleaned alike, in the order of the domain."""
    alike: dict[str, list[str]] = {}
    for name in domain if names is None else names:
        alike.setdefault(_words(domain[name]), []).append(name)
    return [f"{_listed(columns)}: {words}." for words, columns in alike.items()]


def in_brief(found: Sequence[str]) -> str:
    """The first of them, and how many there are besides."""
    more = len(found) - MOST_SENTENCES
    return " ".join(found[:MOST_SENTENCES]) + (f" And so on: {more} more in the result's file." if more > 0 else "")


def _words(column: Column) -> str:
    if isinstance(column, Categorical):
        return f"a missing or undeclared value becomes {column.missing}"
    whole = " and rounded to whole numbers" if column.integer else ""
    stays = "stays missing, as the model sees it" if column.keeps_missing else f"becomes {_number(column.missing)}"
    return f"values are clipped to {_number(column.low)}..{_number(column.high)}{whole}; a missing one {stays}"


def _number(value: float | str | None) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
