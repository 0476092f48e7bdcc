"""Change one unit: the statistic moves at most as far as its sensitivity says, and some change moves it that far.

Every example runs the real path from raw rows to integer sums: cleaning, the first rows of each unit, the model,
quantising, the rug. Values outside the domain, missing ones and a failing model are part of it.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.explainers import partial_dependence as pdp
from dpexplain.requests import PartialDependence

DOMAIN = dpx.Domain(
    {"a": dpx.Numeric(0, 3, integer=True), "b": dpx.Numeric(-1, 1), "c": dpx.Categorical(["x", "y", "z"])}
)
REQUEST = PartialDependence(feature=["a", "c", ("b", "c")], grid={"b": 3})
SIMPLE = PartialDependence(feature=["a", "c"])
VALUES = st.tuples(
    st.one_of(st.integers(-5, 8), st.none(), st.just(float("inf"))),
    st.one_of(st.floats(-2, 2), st.just(float("nan"))),
    st.sampled_from(["x", "y", "z", "unseen", None]),
)
ROW = st.tuples(VALUES, st.integers(0, 4))  # values and the id of the unit


def wild(rows: pd.DataFrame) -> np.ndarray:
    """Not additive, leaves the output range, fails on some rows (also of the grid)."""
    a, b = rows["a"].to_numpy(), rows["b"].to_numpy()
    value = 3 * np.sin(5 * a + 2 * b) + (rows["c"] == "y").to_numpy() * b
    return np.where(b > 0.97, np.nan, value)


def frame(rows):
    columns = list(zip(*[values for values, _ in rows], strict=True)) if rows else [(), (), ()]
    data = {name: pd.Series(list(column), dtype=object) for name, column in zip("abc", columns, strict=True)}
    return pd.DataFrame({**data, "id": pd.Series([unit for _, unit in rows], dtype="int64")})


def sums(rows, neighbours: dict, model=wild, request=REQUEST):
    """The exact integers of the statistic, with the spec and the gate they belong to."""
    table = dpx.PrivateTable(
        frame(rows), domain=DOMAIN, budget=dpx.Budget(1), ledger="sqlite:///:memory:", name="t", **neighbours
    )
    cost = pure(1)
    rows_public = table.neighbours.rows_public
    output = dpx.Model(model, output=(-1, 1)).output
    spec = pdp.resolve(request, DOMAIN, output, table.neighbours, len(rows) if rows_public else 10, cost)
    predictor = dpx.models.Predictor(model, list("abc"), DOMAIN, as_array=False)
    kernel = partial(pdp.statistic, predictor=predictor, spec=spec)
    values = table.map_sum(Gate(table.door, cost), kernel, list("abc"), size=spec.size, label="", parallel=False)
    table.ledger.close()
    return values, spec, table.neighbours


def distances(left, right, spec):
    change = left - right
    parts = change[: spec.curve_size], change[spec.curve_size :]
    return [(int(abs(p).sum()), int((p * p).sum()), int(abs(p).max())) for p in parts]


def within(moved, bound: Sensitivity) -> bool:
    return all(m <= b for m, b in zip(moved, (bound.l1, bound.l2_squared, bound.linf), strict=True))


def bounds(spec, neighbours):
    return pdp.sensitivity(spec, neighbours), Sensitivity.of_counts(neighbours, len(spec.rug))


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=2, max_size=8), VALUES, st.integers(0, 7))
def test_replace_one_row(rows, values, place):
    place %= len(rows)
    other = [*rows[:place], (values, rows[place][1]), *rows[place + 1 :]]
    left, spec, neighbours = sums(rows, {"relation": "replace-one"})
    right, _, _ = sums(other, {"relation": "replace-one"})
    for moved, bound in zip(distances(left, right, spec), bounds(spec, neighbours), strict=True):
        assert within(moved, bound)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, max_size=8), ROW, st.integers(0, 8))
def test_add_or_remove_one_row(rows, row, place):
    other = [*rows[:place], row, *rows[place:]]
    left, spec, neighbours = sums(rows, {"relation": "add-remove"})
    right, _, _ = sums(other, {"relation": "add-remove"})
    for moved, bound in zip(distances(left, right, spec), bounds(spec, neighbours), strict=True):
        assert within(moved, bound)


UNIT_ROWS = st.lists(VALUES, max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=2, max_size=8), UNIT_ROWS, UNIT_ROWS, st.data())
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_units_of_several_rows(relation, rows, before, after, data):
    """A unit comes, goes or is exchanged, its rows anywhere between the others; more rows than are used included."""
    rows = [*rows, ((0, 0.0, "x"), 0), ((0, 0.0, "x"), 1)]  # replace-one needs two units
    before = [] if relation == "add-remove" else before

    def mixed(new):
        result = list(rows)
        for values in new:
            result.insert(data.draw(st.integers(0, len(result))), (values, 99))
        return result

    settings_ = {"relation": relation, "unit": dpx.Unit("id", 2)}
    left, spec, neighbours = sums(mixed(before), settings_)
    right, _, _ = sums(mixed(after), settings_)
    for moved, bound in zip(distances(left, right, spec), bounds(spec, neighbours), strict=True):
        assert within(moved, bound)


def extreme(rows: pd.DataFrame) -> np.ndarray:
    """The whole range for every grid point at once: decided by `b`, which no view of the test below sets."""
    return np.sign(rows["b"].to_numpy())


HIGH, LOW = (0, 1.0, "x"), (3, -1.0, "y")


@pytest.mark.parametrize(
    ("relation", "unit", "left", "right"),
    [
        ("replace-one", None, [(HIGH, 0), (HIGH, 1)], [(HIGH, 0), (LOW, 1)]),
        ("add-remove", None, [(HIGH, 0)], [(HIGH, 0), (HIGH, 1)]),
        ("replace-one", 2, [(HIGH, 0), (HIGH, 1), (HIGH, 1)], [(HIGH, 0), (LOW, 1), (LOW, 1)]),
        ("add-remove", 2, [(HIGH, 0)], [(HIGH, 0), (LOW, 1), (LOW, 1)]),
    ],
)
def test_the_bound_is_attained(relation, unit, left, right):
    protection = {"relation": relation} | ({} if unit is None else {"unit": dpx.Unit("id", unit)})
    one, spec, neighbours = sums(left, protection, extreme, SIMPLE)
    two, _, _ = sums(right, protection, extreme, SIMPLE)
    (curve, rug) = distances(one, two, spec)
    bound, counts = bounds(spec, neighbours)
    assert curve[2] == bound.linf
    points = spec.curve_size - (1 if spec.count_weight else 0)
    assert int(abs(one - two)[:points].sum()) == points * bound.linf  # every point of the curve moves that far
    assert rug[2] == counts.linf
    assert rug[1] == counts.l2_squared


class Panic(BaseException):
    """What Rust-backed libraries raise: no Exception."""


def scribbler(rows: pd.DataFrame) -> np.ndarray:
    """Writes into its input before it fails."""
    rows["b"] = rows["b"] / 1000
    if (rows["c"] == "z").any():
        raise ValueError("row with z")
    return rows["b"].to_numpy() * 1000


def by_index(rows: pd.DataFrame) -> np.ndarray:
    """Aligns a new series with the index of its input, and fails on some rows."""
    if (rows["c"] == "z").any():
        raise Panic("row with z")
    return pd.Series(rows["b"].to_numpy()).where(rows["a"] >= 0, 0.2).to_numpy()


@pytest.mark.parametrize("model", [scribbler, by_index])
def test_a_row_on_which_the_model_fails_changes_no_other_row(model):
    rows = [((1, 0.9, "x"), i) for i in range(500)]
    other = [((1, 0.9, "z"), 0), *rows[1:]]
    request = PartialDependence(feature="a")
    left, spec, neighbours = sums(rows, {"relation": "replace-one"}, model, request)
    right, _, _ = sums(other, {"relation": "replace-one"}, model, request)
    for moved, bound in zip(distances(left, right, spec), bounds(spec, neighbours), strict=True):
        assert within(moved, bound)
