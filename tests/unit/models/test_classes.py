"""All classes of a classifier: every column is checked as a model of its own is, and failures stay with their rows."""

from __future__ import annotations

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.data.public_random import PublicRandom
from dpexplain.errors import ModelError
from dpexplain.models.classes import ClassPredictor, checked_classes, classes_of, identity_of
from examples import DOMAIN


class Three:
    """Three classes of income; `spoilt` does something to the last column, which no label names."""

    classes_ = np.array(["low", "middle", "high"])
    feature_names_in_ = np.array(["age", "income"])

    def __init__(self, spoilt=lambda column, _rows: column):
        self.spoilt = spoilt

    def predict(self, rows):
        return self.classes_[self.predict_proba(rows).argmax(axis=1)]

    def predict_proba(self, rows):
        income = rows["income"].to_numpy() / 100
        return np.stack([1 - income, income / 2, self.spoilt(income / 2, rows)], axis=1)


def model(*spoilt, **options):
    return dpx.Model(Three(*spoilt), output=(0.0, 1.0), label="low", name="three", version="1", **options)


def test_a_line_for_each_row():
    found = checked_classes(model(), DOMAIN, rows=500)
    rows = PublicRandom(3).rows(DOMAIN, 300)
    said = found.predict_at(found.inputs(rows), {})
    income = rows["income"] / 100
    assert said == pytest.approx(np.stack([1 - income, income / 2, income / 2], axis=1))
    assert found.answers.shape == (128, 3)
    assert classes_of(model()) == ("low", "middle", "high")
    assert identity_of(model())["classes"] == ["low", "middle", "high"]


def mean_of_the_batch(column, _rows):
    return column + 1e-3 * column.mean()


def last_bits_by_place(column, _rows):
    return column * (1 + np.arange(len(column)) % 2 * 2e-16)


def test_a_column_that_looks_at_other_rows_is_refused():
    dpx.Model(Three(mean_of_the_batch), output=(0.0, 1.0), label="low").checked(DOMAIN)  # its own column is sound
    with pytest.raises(ModelError, match="not always the same"):
        checked_classes(model(mean_of_the_batch), DOMAIN)


def test_last_bits_of_a_column_that_depend_on_the_place_are_refused():
    with pytest.raises(ModelError, match="in blocks of 256 rows the last digits"):
        checked_classes(model(last_bits_by_place, block=256), DOMAIN)


@pytest.mark.long  # one row at a time
def test_the_last_bits_of_a_column_decide_the_size_of_blocks_for_all():
    found = checked_classes(model(last_bits_by_place), DOMAIN, rows=500)
    assert found.block == 1


def test_a_row_that_fails_in_one_class_fails_in_all_and_alone():
    def failing(column, rows):
        if (rows["age"] == 25).any():
            raise ValueError("never seen by anybody")
        return np.where(rows["age"] == 24, np.inf, column)

    found = ClassPredictor(Three(failing).predict_proba, ["age", "income"], DOMAIN, False, 16, columns=3)
    rows = PublicRandom(0).rows(DOMAIN, 40)
    found._filler["age"][:] = 20  # filler is what the model is known to answer
    said = found.predict_at(found.inputs(rows), {})
    failed = np.isin(rows["age"], (24, 25))
    assert failed.any()
    assert np.isnan(said[failed]).all()
    assert np.isfinite(said[~failed]).all()


def test_what_has_no_classes():
    with pytest.raises(ModelError, match="needs a classifier"):
        classes_of(dpx.Model(lambda rows: np.zeros(len(rows)), output=(0.0, 1.0)))


def test_a_wrong_number_of_columns_is_a_failure():
    found = ClassPredictor(Three().predict_proba, ["age", "income"], DOMAIN, False, 16, columns=2)
    assert np.isnan(found.predict_at(found.inputs(PublicRandom(0).rows(DOMAIN, 5)), {})).all()


def test_a_function_that_names_its_classes():
    def three(rows):
        return Three().predict_proba(rows)

    named = dpx.Model(
        three, output=(0.0, 1.0), classes=["low", "middle", "high"], label="low", features=["age", "income"]
    )
    assert classes_of(named) == ("low", "middle", "high")
    found = checked_classes(named, DOMAIN, rows=500)
    assert (found.answers == checked_classes(model(), DOMAIN, rows=500).answers).all()


def test_a_transform_stands_before_all_classes():
    doubled = model(transform=lambda rows: rows.assign(income=rows["income"] / 2), features=["age", "income"])
    found = checked_classes(doubled, DOMAIN, rows=500)
    assert found.answers[:, 0].min() >= 0.5
