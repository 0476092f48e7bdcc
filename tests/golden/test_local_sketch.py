"""Without noise the released moments are the plain ones, and the local models from them are the plain least squares."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from chosen import chosen
from dpexplain.maths.surrogate.sketch import GRID, Layout
from dpexplain.methods.local_sketch.release import local_sketch
from dpexplain.methods.marginals.release import marginals
from examples import DOMAIN, score

ZCDP, MUCH = dpx.Budget(10**7, 1e-6), 10**6  # noise, if there were any, would drown no cell
PROTECTIONS = [
    {"relation": "replace-one"},
    {"relation": "add-remove", "rows_hint": 400},
    {"relation": "replace-one", "unit": dpx.Unit("person", 50), "rows_hint": 400},
    {"relation": "add-remove", "unit": dpx.Unit("person", 2)},
]
RECORD = {"age": 23, "sex": "Male", "income": 40.0}


def coordinates(frame: pd.DataFrame) -> np.ndarray:
    one = np.sqrt(0.5)
    columns = [(frame["age"] - 20) / 9, one * (frame["sex"] == "Female"), one * (frame["sex"] == "Male")]
    return np.column_stack([*columns, frame["income"] / 100]).astype(float)


def scaled(frame: pd.DataFrame) -> np.ndarray:
    return 2 * score(frame) - 1


def used(frame: pd.DataFrame, protection: dict) -> pd.DataFrame:
    unit = protection.get("unit")
    if unit is None:
        return frame
    clean = [(float(age), ["Female", "Male"].index(sex), income) for age, sex, income in frame[list(DOMAIN)].to_numpy()]
    return frame.iloc[chosen(clean, frame["person"].tolist(), unit.max_rows)]


@pytest.mark.parametrize("protection", PROTECTIONS, ids=str)
@pytest.mark.parametrize("options", [{"cells": 3}, {"cells": 2, "radius": 0.3}, {"centres": "domain", "cells": 4}])
def test_moments_equal_those_computed_by_hand(make_table, frame, model, protection, options):
    sketch = local_sketch(make_table(frame, exact=True, budget=ZCDP, **protection), model, epsilon=MUCH, **options)
    cells, rows = sketch.cells, used(frame, protection)
    x, f, centres, B = coordinates(rows), scaled(rows), cells.layout.centres / GRID, cells.radius
    own = ((x[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    v = x - centres[own]
    s = np.minimum(1, B / np.maximum(np.linalg.norm(v, axis=1), 1e-12)) ** 2
    count, first, second, value, product = cells.numbers
    assert len(centres) == options["cells"]
    assert (s < 0.999).any()  # some rows count less
    for k in range(len(centres)):
        mine, g, a = v[own == k], f[own == k], s[own == k]
        assert count[k] == pytest.approx(a.sum(), abs=0.01)
        assert first[k] == pytest.approx(a @ mine, abs=0.01)
        assert second[k] == pytest.approx((a * mine.T) @ mine, abs=0.01)
        assert value[k] == pytest.approx(a @ g, abs=0.01)
        assert product[k] == pytest.approx((a * g) @ mine, abs=0.01)
    mean = [
        np.average(score(rows)[own == k], weights=s[own == k]) if (own == k).any() else 0.5 for k in range(len(centres))
    ]
    assert sketch.values == pytest.approx(mean, abs=1e-3)


@pytest.fixture
def one_cell(make_table, frame, model):
    """One cell in which all rows count alike."""
    table = make_table(frame, exact=True, budget=ZCDP)
    return local_sketch(table, model, epsilon=MUCH, centres=[{"age": 24, "sex": "Male", "income": 50}], radius=3)


def everything(_distance: float) -> float:
    return 1.0


def test_the_local_model_is_the_plain_least_squares_fit(one_cell, frame):
    """All rows count alike: linear regression with an intercept; the coordinates of `sex` depend on each other, so the
    predictions are compared."""
    answer = one_cell.explain(RECORD, weight=everything)
    z = coordinates(pd.DataFrame([RECORD]))[0]
    x, f = coordinates(frame), score(frame)
    design = np.column_stack([np.ones(len(x)), x])
    plain = design @ np.linalg.lstsq(design, f, rcond=None)[0]
    fit = answer.fit
    assert fit.value + (x - z) @ fit.coefficients == pytest.approx(plain, abs=1e-3)
    assert fit.reference == pytest.approx(x.mean(axis=0), abs=1e-3)
    assert answer.base == pytest.approx(f.mean(), abs=1e-3)  # the regression passes through the means
    assert answer.base + answer.values.sum() == pytest.approx(fit.value, abs=1e-4)
    assert one_cell.explain(RECORD, prediction=0.55, weight=everything).prediction == 0.55


@pytest.mark.parametrize(("asked", "value"), [({"anchor": 0.55}, 0.55), ({"anchor": "middle"}, 0.5)])
def test_an_anchored_model_passes_through_its_anchor(one_cell, frame, asked, value):
    answer = one_cell.explain(RECORD, weight=everything, **asked)
    away = coordinates(frame) - coordinates(pd.DataFrame([RECORD]))[0]
    plain = np.linalg.lstsq(away, score(frame) - value, rcond=None)[0]
    assert np.linalg.norm(plain) < 0.5  # inside the ball
    assert answer.fit.value == value
    assert away @ answer.fit.coefficients == pytest.approx(away @ plain, abs=2e-3)


def test_many_small_cells_follow_the_weights(make_table, frame, model):
    """Every row in a cell of its own kind: the sketch's answer is the weighted fit itself."""
    few = frame.assign(age=20 + 3 * (frame["age"] % 4), income=25 * (frame["income"] // 25))
    kinds = few[["age", "sex", "income"]].drop_duplicates().to_dict("records")
    table = make_table(few, exact=True, budget=ZCDP)
    sketch = local_sketch(table, model, epsilon=MUCH, centres=kinds, radius=0.1)
    z = coordinates(pd.DataFrame([RECORD]))[0]
    away = coordinates(few) - z
    weight = np.exp(-((np.linalg.norm(away, axis=1) / 0.5) ** 2))
    design = np.sqrt(weight)[:, None] * np.column_stack([np.ones(len(few)), away])
    plain = np.linalg.lstsq(design, np.sqrt(weight) * score(few), rcond=None)[0]
    assert np.linalg.norm(plain[1:]) < 1  # inside the ball
    fit = sketch.explain(RECORD, weight="gaussian", width=0.5).fit
    assert fit.value + away @ fit.coefficients == pytest.approx(plain[0] + away @ plain[1:], abs=0.005)


def test_cells_from_marginals_that_are_known_already(make_table, frame, model):
    table = make_table(frame, exact=True, budget=ZCDP)
    known = marginals(table, rho=1)
    spent = table.ledger.statement(table.name).spent
    sketch = local_sketch(table, model, rho=MUCH, cells=3, marginals=known)
    assert set(sketch.released["parts"]) == {"average", "moments"}
    assert table.ledger.statement(table.name).spent == spent + sketch.receipt.cost
    paid = local_sketch(table, model, rho=MUCH, cells=3)
    assert abs(sketch.cells.layout.centres - paid.cells.layout.centres).max() < 0.3 * GRID  # other cells, same rows


def test_cells_are_where_the_rows_are(make_table, frame, model):
    """Ages of two groups: two cells find them, whatever the first centres."""
    ages = np.where(np.arange(len(frame)) % 2, 21, 28)
    table = make_table(frame.assign(age=ages, sex="Male", income=50.0), exact=True, budget=ZCDP)
    layout: Layout = local_sketch(table, model, epsilon=MUCH, cells=2).cells.layout
    assert sorted(layout.centres[:, 0] / GRID) == pytest.approx([1 / 9, 8 / 9], abs=0.02)
    assert layout.centres[:, 3] / GRID == pytest.approx([0.5, 0.5], abs=0.05)
