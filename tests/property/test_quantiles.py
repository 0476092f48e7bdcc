"""Change one unit: for any released positions, the ranges of score changes of a level add up to at most its bound, and
some change attains it.

Every example runs the real path from raw rows to counts, with values outside the domain, missing ones, and units that
have more rows than are used.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.maths.ladder import Ladder
from dpexplain.methods import histogram
from dpexplain.methods.quantiles import spec as quantiles
from rings import examples

COLUMN = dpx.Numeric(0, 3, integer=True)
DOMAIN = dpx.Domain({"a": COLUMN})
VALUES = st.one_of(st.integers(-2, 5), st.none(), st.just(float("inf")), st.just(float("nan")))
ROW = st.tuples(VALUES, st.integers(0, 4))  # the value and the id of the unit
ROWS = st.lists(ROW, max_size=12)
HALF = Fraction(1, 2)
PROBS = st.sampled_from(
    [
        (HALF,),
        (Fraction(1, 10),),
        (HALF, Fraction(7, 10)),
        (Fraction(1, 6), HALF, Fraction(2, 3)),
        tuple(Fraction(i, 10) for i in range(1, 10)),
        (Fraction(1, 97), Fraction(5, 89), Fraction(600, 1009), Fraction(601, 1009), Fraction(9_999, 10_000)),
    ]
)


def ladder_for(probs, parts=3) -> Ladder:
    return Ladder("a", COLUMN, 4, parts, probs)


def counts(rows, protection, ladder):
    """The exact counts of the cells, and the neighbours they are compared with."""
    frame = pd.DataFrame(
        {
            "a": pd.Series([value for value, _ in rows], dtype=object),
            "id": pd.Series([unit for _, unit in rows], dtype="int64"),
        }
    )
    table = dpx.PrivateTable(
        frame, domain=DOMAIN, budget=dpx.Budget(1), ledger="sqlite:///:memory:", name="t", **protection
    )
    kernel = partial(histogram.statistic, partitions=[ladder.partition])
    values = table.sum_rows(Gate(table.door, pure(1)), kernel, ["a"], size=4, label="", parallel=False)
    table.ledger.close()
    return values, table.neighbours


def moved(left, right, ladder, level, positions) -> int:
    """The sum over the nodes of a level of the lengths of the ranges in which their scores changed."""
    one, two = (quantiles.scores(quantiles.spread(c, ladder), level, positions) for c in (left, right))
    return sum(int((b - a).max() - (b - a).min()) for a, b in zip(one, two, strict=True))


def check(rows, other, protection, ladder, positions):
    left, neighbours = counts(rows, protection, ladder)
    right, _ = counts(other, protection, ladder)
    for level in ladder.levels:
        bound = quantiles.sensitivity(ladder, level, neighbours)
        assert moved(left, right, ladder, level, positions) <= bound.length


@st.composite
def released(draw):
    """A ladder and any positions that earlier levels may have released."""
    ladder = ladder_for(draw(PROBS), draw(st.sampled_from([1, 3, 4])))
    count = len(ladder.probs)
    inner = sorted(draw(st.lists(st.integers(0, ladder.size), min_size=count, max_size=count)))
    return ladder, dict(enumerate([0, *inner, ladder.size]))


@settings(max_examples=examples(50), deadline=None)
@given(released(), ROWS, ROW, VALUES, st.integers(0, 12))
def test_replace_one_row(public, rows, row, value, place):
    rows = [*rows, (0, 0), row]
    place %= len(rows)
    other = [*rows[:place], (value, rows[place][1]), *rows[place + 1 :]]
    check(rows, other, {"relation": "replace-one"}, *public)


@settings(max_examples=examples(50), deadline=None)
@given(released(), ROWS, ROW, st.integers(0, 12))
def test_add_or_remove_one_row(public, rows, row, place):
    check(rows, [*rows[:place], row, *rows[place:]], {"relation": "add-remove"}, *public)


UNIT_ROWS = st.lists(VALUES, max_size=4)


@settings(max_examples=examples(40), deadline=None)
@given(released(), ROWS, UNIT_ROWS, UNIT_ROWS, st.data())
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_units_of_several_rows(relation, public, rows, before, after, data):
    rows = [*rows, (0, 0), (0, 1)]  # replace-one needs two units
    before = [] if relation == "add-remove" else before

    def mixed(new):
        result = list(rows)
        for value in new:
            result.insert(data.draw(st.integers(0, len(result))), (value, 99))
        return result

    check(mixed(before), mixed(after), {"relation": relation, "unit": dpx.Unit("id", 2)}, *public)


ONE, TWO, SIXTH = (HALF,), (HALF, Fraction(7, 10)), (Fraction(1, 6), HALF, Fraction(2, 3))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(
    ("relation", "probs", "level", "edge", "cells", "leaves", "comes"),
    [
        ("add-remove", ONE, 1, 6, [0, 20, 20, 0], None, 0),
        ("add-remove", (Fraction(1, 10),), 1, 6, [0, 90, 90, 0], None, 0),
        ("add-remove", (Fraction(9, 10),), 1, 6, [0, 90, 90, 0], None, 3),
        ("replace-one", ONE, 1, 6, [0, 20, 20, 9], 3, 0),
        ("replace-one", (Fraction(1, 10),), 1, 6, [9, 90, 90, 9], 3, 0),
        ("replace-one", TWO, 2, 0, [9, 20, 20, 9], 3, 0),  # one node on its level
        ("add-remove", SIXTH, 2, 6, [0, 30, 0, 30], None, 2),  # two of them, [0, 6) and [6, 12)
        ("replace-one", SIXTH, 2, 6, [9, 60, 9, 60], 0, 2),
    ],
)
def test_the_bound_is_attained(relation, probs, level, edge, cells, leaves, comes, k):
    """All earlier positions are `edge`; k rows leave one cell, k rows come into another."""
    ladder = ladder_for(probs)
    rung, last = ladder.levels[level - 1], len(probs) + 1
    positions = {0: 0, **dict.fromkeys(range(1, last), edge), last: ladder.size}
    neighbours = Neighbours(Relation(relation), None if k == 1 else dpx.Unit("id", k))
    left = k * np.array(cells)
    right = left.copy()
    right[comes] += k
    if leaves is not None:
        right[leaves] -= k
    bound = quantiles.sensitivity(ladder, rung, neighbours)
    assert moved(left, right, ladder, rung, positions) == bound.length
