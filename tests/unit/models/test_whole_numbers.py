"""One row's value must not change the type of the column that a model gets for all the others."""

from __future__ import annotations

import numpy as np
import pandas as pd

import dpexplain as dpx
from dpexplain.data.public_random import PublicRandom
from dpexplain.models import Predictor

DOMAIN = dpx.Domain({"a": dpx.Numeric(0, 9, integer=True), "b": dpx.Numeric(0, 1)})


def by_spelling(rows: pd.DataFrame) -> np.ndarray:
    """Answers differently for 3 and 3.0."""
    return rows["a"].astype(str).map(lambda text: float(len(text))).to_numpy()


def test_a_fraction_in_one_row_does_not_change_the_others():
    predictor = Predictor(by_spelling, ["a", "b"], DOMAIN, as_array=False)
    inputs = predictor.inputs(PublicRandom(0).rows(DOMAIN, 4))
    whole = predictor.predict_at(inputs, {"a": np.array([1.0, 2.0, 3.0, 4.0])})
    mixed = predictor.predict_at(inputs, {"a": np.array([1.0, 2.0, 3.0, 4.4])})
    np.testing.assert_array_equal(whole, mixed)
    np.testing.assert_array_equal(predictor.predict_at(inputs, {"a": 2.5}), [3.0] * 4)  # a public value for all rows
