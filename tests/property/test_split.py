"""Whatever the rows are, a unit lies in one part: neighbouring tables differ in one part of a split, or in two."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.release import Gate
from dpexplain.data import split
from neighbouring import neighbours, private
from stubs import rows_of

SPLITS = (
    "c",
    "a",
    {"x": {"c": "x"}, "small": {"a": (0, 1)}, "rest": {"c": ["y", "z"]}},
    {"low": {"b": (-1, 0)}, "high": {"b": (0, 1), "c": "x"}},
)
COLUMNS = ["a", "b", "c"]


def used(table: dpx.PrivateTable) -> Counter:
    gate = Gate(table.door, table.cost(epsilon=0.01))
    return Counter(
        line
        for rows in rows_of(table, gate, COLUMNS)
        for line in zip(*(rows[n].tolist() for n in COLUMNS), strict=True)
    )


def moved(case, parts) -> list[int]:
    """How many rows come and go in each part between two neighbouring tables."""
    protection, *tables = case
    sides = []
    for rows in tables:
        table = private(rows, protection)
        division = split.Division.of(parts, table.domain)
        each = []
        for number in range(len(division.labels)):
            table.part, table.size = split.Part(division, number), None
            each.append(used(table))
        table.ledger.close()
        sides.append(each)
    return [((a - b) + (b - a)).total() for a, b in zip(*sides, strict=True)]


@pytest.mark.random_inputs
@given(neighbours(), st.sampled_from(SPLITS))
def test_neighbours_differ_in_the_parts_of_one_unit(case, parts):
    protection, *_ = case
    found = moved(case, parts)
    replaced = protection["relation"] == "replace-one"
    most = (2 if "unit" in protection else 1) * (2 if replaced else 1)
    assert sum(change > 0 for change in found) <= (2 if replaced else 1)
    assert sum(found) <= most


def test_both_bounds_are_attained():
    rows = [((0, 0.5, "x"), 0), ((1, 0.5, "y"), 1), ((2, 0.5, "y"), 2)]
    other = [((0, 0.5, "x"), 0), ((1, 0.5, "x"), 1), ((2, 0.5, "y"), 2)]
    assert moved(({"relation": "replace-one"}, rows, other), "c") == [1, 1, 0]
    changed = [((0, 0.5, "x"), 0), ((3, 0.5, "y"), 1), ((2, 0.5, "y"), 2)]
    assert moved(({"relation": "replace-one"}, rows, changed), "c") == [0, 2, 0]
    unit = {"relation": "add-remove", "unit": dpx.Unit("id", 2)}
    several = [*rows, ((0, 0.1, "y"), 9), ((1, 0.1, "y"), 9), ((2, 0.1, "z"), 9)]
    assert moved((unit, rows, several), "c") == [0, 2, 0]


def test_without_homes_a_unit_lies_in_several_parts(monkeypatch):
    """The broken sibling: every row goes to its own part, whosever it is."""
    monkeypatch.setattr(split.Part, "holds", lambda self, rows, *_: self.division.numbers(rows) == self.number)
    unit = {"relation": "add-remove", "unit": dpx.Unit("id", 2)}
    rows = [((0, 0.5, "x"), 0), ((1, 0.5, "y"), 1)]
    several = [*rows, ((0, 0.1, "y"), 9), ((1, 0.1, "x"), 9)]
    assert moved((unit, rows, several), "c") == [1, 1, 0]
