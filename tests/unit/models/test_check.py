"""What is found out about a model: the same bits for a row again, in other company, at other places."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import LabelEncoder, MinMaxScaler, OrdinalEncoder

import dpexplain as dpx
from dpexplain.data import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.models.predictor import block_for

DOMAIN = dpx.Domain({"a": dpx.Numeric(0, 9, integer=True), "b": dpx.Numeric(0, 1)})
X = PublicRandom(9).rows(DOMAIN, 300)
X = np.column_stack([X["a"], X["b"]])
counter = iter(range(10**9))


@pytest.mark.parametrize(
    ("rows", "columns", "block"),
    [
        (None, 5, 4096), (None, 1000, 2048), (2, 5, 256), (1023, 5, 256), (2047, 5, 256), (2048, 5, 512),
        (20_190, 5, 4096), (65_535, 5, 8192), (10**9, 5, 16_384), (10**9, 600, 2048), (10**9, 10**6, 256),
    ],
)  # fmt: skip
def test_the_size_of_blocks_follows_from_public_numbers(rows, columns, block):
    assert block_for(rows, columns) == block


@pytest.mark.parametrize(
    ("rows", "block"),
    [(2, 256), (300, 512), (1000, 1024), (10_000, 10_240), (20_190, 10_240), (60_000, 15_104), (10**6, 16_384)],
)
def test_blocks_for_a_number_that_is_known_leave_little_to_fill_up(rows, block):
    assert block_for(rows, 5, exact=True) == block
    assert block_for(rows, 700, exact=True) <= 2**21 // 700
    assert block_for(rows, 10**6, exact=True) == 256


@pytest.mark.parametrize("block", [0, -1, 1.5, True, "1", 2**21])
def test_unusable_blocks(block):
    with pytest.raises(dpx.errors.ModelError, match="block must be a whole number"):
        dpx.Model(lambda rows: rows["b"], output=(0, 1), block=block)


@pytest.mark.parametrize("block", [1, 50, 128, 300])
def test_every_call_has_one_size(block):
    sizes = set()

    def model(rows: pd.DataFrame) -> np.ndarray:
        sizes.add(len(rows))
        return rows["b"].to_numpy()

    predictor = dpx.Model(model, output=(0, 1), block=block).checked(DOMAIN)
    sizes.clear()  # of the check, which also looks for statistics of small blocks
    for size in (0, 1, 49, 301):
        rows = PublicRandom(5).rows(DOMAIN, size)
        told = predictor.predict_at(predictor.inputs(rows), {"a": 2.5})
        np.testing.assert_array_equal(told, rows["b"])
    assert sizes == {block}


def test_a_model_that_passed_has_its_answers():
    predictor = dpx.Model(lambda rows: rows["b"] ** 2, output=(0, 1)).checked(DOMAIN)
    np.testing.assert_array_equal(predictor.answers, PublicRandom(0).rows(DOMAIN, 128)["b"] ** 2)
    assert predictor.precision == 1e-9
    single = dpx.Model(lambda rows: rows["b"].astype(np.float32), output=(0, 1)).checked(DOMAIN)
    assert single.precision == 1e-6


def test_last_digits_that_change_by_chance_are_refused():
    with pytest.raises(dpx.errors.ModelError, match="last digits.*asked again") as error:
        dpx.Model(lambda rows: rows["b"] + 1e-12 * (next(counter) % 3), output=(0, 1)).checked(DOMAIN)
    assert "n_jobs=1" in error.value.hint


@pytest.mark.parametrize(("largest", "block", "words"), [(100, 64, "64 rows at a time"), (20, 16, "block=16 this")])
def test_smaller_blocks_are_tried_before_single_rows(largest, block, words):
    def model(rows: pd.DataFrame) -> np.ndarray:
        return rows["b"] + 1e-13 * (np.arange(len(rows)) % 2) * (len(rows) > largest)

    with pytest.warns(dpx.errors.ModelWarning, match=words) as shown:
        assert dpx.Model(model, output=(0, 1)).checked(DOMAIN).block == block
    assert [warning.filename for warning in shown] == [__file__]
    with pytest.raises(dpx.errors.ModelError, match="in blocks of 128 rows the last digits") as error:
        dpx.Model(model, output=(0, 1), block=128).checked(DOMAIN)
    assert "leave block out" in error.value.hint
    assert dpx.Model(model, output=(0, 1), block=block).checked(DOMAIN).block == block


@pytest.mark.parametrize("size", [0.5, 1e-5])
def test_batch_statistics_are_no_matter_of_last_digits(size):
    with pytest.raises(dpx.errors.ModelError, match="not always the same"):
        dpx.Model(lambda rows: rows["b"] + size * rows["b"].mean(), output=(0, 1)).checked(DOMAIN)


def test_trees_in_several_workers_add_up_in_one_order():
    forest = RandomForestRegressor(50, n_jobs=4, random_state=0).fit(X, np.sin(9 * X[:, 1]))
    predictor = dpx.Model(forest, output=(-1, 1)).checked(DOMAIN, rows=4096)
    assert predictor.block == 1024


def test_what_passed_is_remembered_until_the_model_changes():
    calls = []
    fitted = LinearRegression().fit(X, X[:, 1])

    def model(rows: pd.DataFrame) -> np.ndarray:
        calls.append(len(rows))
        return fitted.predict(rows.to_numpy())

    checked = dpx.Model(model, output=(0, 1))
    first = checked.checked(DOMAIN)
    needed = len(calls)
    calls.clear()
    assert checked.checked(DOMAIN) is first
    assert len(calls) == 1
    checked.checked(DOMAIN, rows=10**6)
    assert len(calls) > needed  # other blocks, another check
    calls.clear()
    fitted.fit(X, 1 - X[:, 1])
    again = checked.checked(DOMAIN)
    assert len(calls) > needed
    assert not np.allclose(again.answers, first.answers)


def test_a_form_that_filler_cannot_have_fails_for_all_rows_alike():
    """A public value that is not whole makes floats of a column. If the model then fails on synthetic rows alone, rows
    in full blocks would be answered and rows in short ones not: other rows would decide which."""

    def model(rows: pd.DataFrame) -> np.ndarray:
        if rows["a"].dtype == np.float64 and (rows["b"] != 0.5).any():
            raise TypeError("floats")
        return rows["b"].to_numpy()

    predictor = dpx.Model(model, output=(0, 1), block=64).checked(DOMAIN)
    for size in (63, 64, 65):
        inputs = predictor.inputs(Rows(DOMAIN, {"a": np.zeros(size), "b": np.full(size, 0.5)}, size))
        assert np.isnan(predictor.predict_at(inputs, {"a": 2.5})).all()
        assert (predictor.predict_at(inputs, {"a": 3.0}) == 0.5).all()


BATCH = dpx.Domain(
    {
        "x": dpx.Numeric(0, 1),
        "grade": dpx.Numeric(0, 9, integer=True),
        "state": dpx.Categorical(["AL", "NY", "TX"]),
        "flag": dpx.Categorical([0, 1]),
    }
)


def one_column(rows: pd.DataFrame, name: str) -> np.ndarray:
    return rows[[name]].astype(str if name == "state" else float).to_numpy()


@pytest.mark.parametrize("block", [None, 16, 300])
@pytest.mark.parametrize(
    "model",
    [
        lambda rows: LabelEncoder().fit_transform(rows["state"]) / 2,
        lambda rows: LabelEncoder().fit_transform(rows["flag"]),
        lambda rows: OrdinalEncoder().fit_transform(one_column(rows, "state"))[:, 0] / 2 * rows["x"].to_numpy(),
        lambda rows: MinMaxScaler().fit_transform(one_column(rows, "grade"))[:, 0],
        lambda rows: rows["grade"] / max(rows["grade"].max(), 1),
        lambda rows: rows["grade"] / rows["grade"].max(),
        lambda rows: pd.get_dummies(rows["state"].astype(str)).to_numpy()[:, -1] * 1.0,
        lambda rows: rows["x"] * (rows["state"] == "TX").any(),
        lambda rows: rows["x"] * len(set(rows["state"])) / 3,
        lambda rows: rows["x"] - rows["flag"].min(),
        lambda rows: rows["x"].replace(0.0, np.nan).fillna(rows["x"].mean()),
        lambda rows: rows["x"].where(rows["x"] < 1, rows["x"].median()),
    ],
)
def test_what_is_computed_from_a_whole_batch_is_found(model, block):
    """Every evenly drawn batch has the same categories and ends of whole numbers: only a poorer one shows it."""
    with pytest.raises(dpx.errors.ModelError, match="not always the same") as error:
        dpx.Model(model, output=(0, 1), block=block).checked(BATCH)
    assert "batch statistics" in error.value.hint


@pytest.mark.parametrize("columns", [1, 3, 4, 20])
def test_one_category_that_is_absent_is_found_in_every_column(columns):
    domain = dpx.Domain({f"c{i}": dpx.Categorical([0, 1]) for i in range(columns)} | {"x": dpx.Numeric(0, 1)})
    for i in range(columns):
        with pytest.raises(dpx.errors.ModelError, match="not always the same"):
            dpx.Model(lambda rows, i=i: rows["x"] * rows[f"c{i}"].max(), output=(0, 1), block=64).checked(domain)


def test_rows_on_which_a_model_fails_are_not_copied():
    calls = []

    def model(rows: pd.DataFrame) -> np.ndarray:
        calls.append(len(rows))
        if (rows["x"] == 0.9).any():
            raise ValueError("a row")
        return rows["x"].to_numpy()

    assert dpx.Model(model, output=(0, 1)).checked(BATCH).block == 4096
    assert len(calls) < 1000  # copies of such a row would take two calls for each row of a block


@pytest.mark.filterwarnings("ignore:the last digits of the model")
def test_a_statistic_of_the_batch_that_shows_in_last_digits_only_leads_to_single_rows():
    """Inputs rounded to a scale that is taken from the batch, in single precision: accepted one row at a time."""
    domain = dpx.Domain({"hours": dpx.Numeric(0, 10, integer=True), "smoker": dpx.Categorical(["no", "yes"])})

    def rounded(rows: pd.DataFrame) -> np.ndarray:
        inputs = np.column_stack([rows["hours"] / 10, 3 * (rows["smoker"] == "yes")]).astype(np.float32)
        scale = np.float32(np.abs(inputs).max() / 2047 + 1e-9)
        return (np.rint(inputs / scale) * scale) @ np.array([0.2, 0.25], dtype=np.float32)

    assert dpx.Model(rounded, output=(0, 1), version="1").checked(domain).block == 1
    with pytest.raises(dpx.errors.ModelError, match="last digits|not always the same"):
        dpx.Model(rounded, output=(0, 1), version="1", block=256).checked(domain)
