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

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.methods.partial_dependence import release as pdp
from dpexplain.methods.setting import Setting
from dpexplain.requests import PartialDependence
from neighbouring import DOMAIN, neighbours, norms, private, wild, within
from rings import examples

REQUEST = PartialDependence(feature=["a", "c", ("b", "c")], grid={"b": 3})
SIMPLE = PartialDependence(feature=["a", "c"])


def sums(rows, protection: dict, model=wild, request=REQUEST):
    """The exact integers of the statistic, with the spec and the gate they belong to."""
    table = private(rows, protection)
    cost = pure(1)
    hint = len(rows) if table.neighbours.rows_public else 10
    setting = Setting(DOMAIN, dpx.Model(model, output=(-1, 1)).output, table.neighbours, hint, hint)
    spec = pdp.resolve(request, setting, cost)
    predictor = dpx.models.Predictor(model, list("abc"), DOMAIN, as_array=False, block=16)
    kernel = partial(pdp.statistic, predictor=predictor, spec=spec)
    values = table.sum_rows(Gate(table.door, cost), kernel, list("abc"), size=spec.size, label="", parallel=False)
    table.ledger.close()
    return values, spec, table.neighbours


def distances(left, right, spec):
    change = left - right
    return [norms(part) for part in (change[: spec.curve_size], change[spec.curve_size :])]


def bounds(spec, relation):
    return pdp.sensitivity(spec, relation), Sensitivity.of_counts(relation, len(spec.rug))


@settings(max_examples=examples(200), deadline=None)
@given(neighbours())
def test_one_unit_moves_the_statistic_at_most_as_far_as_its_bound(pair):
    protection, rows, other = pair
    left, spec, relation = sums(rows, protection)
    right, _, _ = sums(other, protection)
    for moved, bound in zip(distances(left, right, spec), bounds(spec, relation), strict=True):
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
    """Writes into its input before it fails, on a row that no synthetic one is like."""
    fails = (rows["b"] == 0.5).any()
    rows["b"] = rows["b"] / 1000
    if fails:
        raise ValueError("row with 0.5")
    return rows["b"].to_numpy() * 1000


def by_index(rows: pd.DataFrame) -> np.ndarray:
    """Aligns a new series with the index of its input, and fails on some rows."""
    if (rows["b"] == 0.5).any():
        raise Panic("row with 0.5")
    return pd.Series(rows["b"].to_numpy()).where(rows["a"] >= 0, 0.2).to_numpy()


@pytest.mark.parametrize("model", [scribbler, by_index])
def test_a_row_on_which_the_model_fails_changes_no_other_row(model):
    rows = [((1, 0.9, "x"), i) for i in range(500)]
    other = [((1, 0.5, "x"), 0), *rows[1:]]
    request = PartialDependence(feature="a")
    left, spec, neighbours = sums(rows, {"relation": "replace-one"}, model, request)
    right, _, _ = sums(other, {"relation": "replace-one"}, model, request)
    for moved, bound in zip(distances(left, right, spec), bounds(spec, neighbours), strict=True):
        assert within(moved, bound)
