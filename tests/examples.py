"""A small declared domain and a model over it, for tests."""

from __future__ import annotations

import numpy as np
import pandas as pd

import dpexplain as dpx

DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(20, 29, integer=True),
        "sex": dpx.Categorical(["Female", "Male"]),
        "income": dpx.Numeric(0, 100),
    }
)


def score(rows: pd.DataFrame) -> np.ndarray:
    """A model for tests: row-wise, not additive, inside [0, 1]."""
    age, income = rows["age"].to_numpy(), rows["income"].to_numpy()
    return 0.1 + 0.04 * (age - 20) + 0.3 * (rows["sex"] == "Male").to_numpy() * income / 100
