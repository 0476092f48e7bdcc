"""What a model may be, and what is found out about it before anything is paid for."""

from __future__ import annotations

import copy
import os
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

import dpexplain as dpx
from dpexplain.data import PublicRandom
from dpexplain.data.rows import Rows
from examples import DOMAIN, score

NUMBERS = dpx.Domain({"a": dpx.Numeric(0, 1), "b": dpx.Categorical([0, 5])})


def failing(rows: pd.DataFrame):
    raise RuntimeError("no such file")


counter = iter(range(10**9))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (failing, "fails on synthetic rows.*RuntimeError: no such file"),
        (lambda rows: rows["nothing"], "fails on synthetic rows"),
        (lambda rows: np.zeros((len(rows), 2)), "one number for each row"),
        (lambda rows: 0.5, "one number for each row"),
        (lambda rows: np.full(len(rows), np.nan), "NaN or infinite"),
        (lambda rows: score(rows) - score(rows).mean(), "not always the same"),
        (lambda rows: np.full(len(rows), next(counter) % 2), "not always the same"),
        (lambda rows: score(rows) + 100, "outside output"),
    ],
    ids=["raises", "missing column", "matrix", "number", "nan", "batch mean", "random", "range"],
)
def test_unusable_functions_are_refused_before_anything_is_spent(make_table, frame, function, message):
    table = make_table(frame)
    with pytest.raises(dpx.errors.ModelError, match=message):
        dpx.partial_dependence(table, dpx.Model(function, output=(0, 1)), "age", epsilon=1)
    assert table.ledger.statement(table.name).spent.amount == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": 42}, "a fitted estimator with predict"),
        ({"model": score, "output": 1}, "output must be a pair"),
        ({"model": score, "output": (1, 0)}, "reversed"),
        ({"model": score, "output": (0, float("inf"))}, "finite"),
        ({"model": score, "label": "yes"}, "label belongs to classifiers"),
        ({"model": LinearRegression(), "label": "yes"}, "does not predict probabilities"),
    ],
)
def test_unusable_descriptions(arguments, message):
    with pytest.raises(dpx.InputError, match=message):
        dpx.Model(**{"output": (0, 1), **arguments})


def test_a_classifier_needs_a_class_it_knows():
    forest = RandomForestClassifier(3).fit([[0.0], [1.0]], ["no", "yes"])
    with pytest.raises(dpx.errors.ModelError, match="say which class") as error:
        dpx.Model(forest, output=(0, 1))
    assert "'no', 'yes'" in str(error.value)
    with pytest.raises(dpx.errors.ModelError, match="does not know the class"):
        dpx.Model(forest, output=(0, 1), label="maybe")


def test_undeclared_inputs_are_named(domain):
    model = LinearRegression().fit(pd.DataFrame({"age": [1.0, 2.0], "height": [1.0, 3.0]}), [1, 2])
    with pytest.raises(dpx.errors.ModelError, match="'height'"):
        dpx.Model(model, output=(0, 5)).checked(domain)


def test_arrays_hold_declared_numbers_not_codes():
    rows = PublicRandom(0).rows(NUMBERS, 6)
    fitted = LogisticRegression().fit(np.array([[0.0, 0], [1, 5]]), [0, 1])
    predictor = dpx.Model(fitted, output=(0, 1), label=1).checked(NUMBERS)
    inputs = predictor.inputs(rows)
    assert isinstance(inputs.values, np.ndarray)
    assert set(inputs.values[:, 1]) <= {0.0, 5.0}
    at_five = predictor.predict_at(inputs, {"b": 1})
    expected = fitted.predict_proba(np.column_stack([rows["a"], np.full(6, 5.0)]))[:, 1]
    np.testing.assert_allclose(at_five, expected)
    with pytest.raises(dpx.errors.ModelError, match="text categories"):
        dpx.Model(fitted, output=(0, 1), label=1).features(dpx.Domain({"b": dpx.Categorical(["x", "y"])}))


def test_frames_have_the_types_a_model_was_fitted_with(domain):
    seen = {}

    def model(rows: pd.DataFrame) -> np.ndarray:
        seen.update(rows.dtypes.to_dict())
        return score(rows)

    predictor = dpx.Model(model, output=(0, 1)).checked(domain)
    assert seen["age"] == np.int64
    assert seen["income"] == np.float64
    assert isinstance(seen["sex"], pd.CategoricalDtype)
    inputs = predictor.inputs(PublicRandom(0).rows(domain, 4))
    np.testing.assert_allclose(
        predictor.predict_at(inputs, {"age": 24.5, "sex": 1}), predictor.predict_at(inputs, {"sex": 1, "age": 24.5})
    )
    before = pd.DataFrame(inputs.values)
    predictor.predict_at(inputs, {"age": 20})
    pd.testing.assert_frame_equal(pd.DataFrame(inputs.values), before)  # the batch is not changed


def test_rows_that_fail_become_missing_and_the_others_stay():
    def picky(rows: pd.DataFrame) -> np.ndarray:
        if (rows["a"] == 0.123456789).any():  # no synthetic row has exactly that
            rows.iloc[:] = 0.0  # a model may write into its input, and then fail
            raise ValueError("a row")
        return rows["a"].to_numpy()

    a = np.array([0.1, 0.123456789, 0.2, 0.3, 0.123456789])
    for model, as_array in ((picky, False), (lambda m: picky(pd.DataFrame({"a": m[:, 0]})), True)):
        predictor = dpx.Model(model, output=(0, 1), features=["a"], as_array=as_array).checked(NUMBERS)
        told = predictor.predict_at(predictor.inputs(Rows(NUMBERS, {"a": a}, 5)), {})
        np.testing.assert_array_equal(told, [0.1, np.nan, 0.2, 0.3, np.nan])
        assert predictor.predict_at(predictor.inputs(Rows(NUMBERS, {"a": a[:0]}, 0)), {}).shape == (0,)


def test_without_a_version_every_model_is_a_new_one(make_table, frame):
    table = make_table(frame)
    first = dpx.partial_dependence(table, dpx.Model(score, output=(0, 1)), "sex", epsilon=1)
    model = dpx.Model(score, output=(0, 1))
    second = dpx.partial_dependence(table, model, "sex", epsilon=1)
    again = dpx.partial_dependence(table, model, "sex", epsilon=1)
    assert not first.receipt.replayed
    assert not second.receipt.replayed
    assert again.receipt.replayed
    assert table.ledger.statement(table.name).spent.amount == 2


def test_a_copy_of_a_model_without_a_version_is_another_one(make_table, frame):
    """Its estimator may be fitted by itself, and then the first one's curve would be the answer for it."""
    table, line = make_table(frame), LinearRegression().fit(frame[["age"]], frame["age"] / 30)
    model = dpx.Model(line, output=(0, 1))
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)]
    first = dpx.partial_dependence(table, model, "age", epsilon=0.5)
    for other in copies:
        if other.original is not line:
            other.original.fit(frame[["age"]], 1 - frame["age"] / 30)
        curve = dpx.partial_dependence(table, other, "age", epsilon=0.5)
        assert not curve.receipt.replayed
        slope = curve.raw[-1] - curve.raw[0]
        assert (slope > 0) == (other.original is line), "it explains its own estimator"
    assert dpx.partial_dependence(table, model, "age", epsilon=0.5).receipt.replayed
    named = dpx.Model(line, output=(0, 1), version="1")
    assert pickle.loads(pickle.dumps(named)).identity == named.identity
    assert first.raw[-1] > first.raw[0]


@pytest.mark.posix
def test_another_process_has_another_model_unless_it_has_a_version():
    model, named = dpx.Model(score, output=(0, 1)), dpx.Model(score, output=(0, 1), version="1")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        for one in (model, named):
            one.checked(DOMAIN)
        os.write(writer, f"{model.version} {named.version}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    version, same = os.read(reader, 1000).decode().split()
    for one in (model, named):
        one.checked(DOMAIN)
    assert version != model.version
    assert same == named.version == "1"


def test_an_output_range_that_was_read_from_predictions_is_refused():
    seen = np.array([0.25, 0.75])
    with pytest.raises(dpx.errors.ModelError, match="looks as if it was read from predictions") as refused:
        dpx.Model(score, output=(seen.min(), seen.max()))
    assert "float(...)" in refused.value.hint
