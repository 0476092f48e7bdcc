"""Made-up rows: inside the domain, the same again from the same seed, and more like a table than even ones."""

from __future__ import annotations

import numpy as np

import dpexplain as dpx
from dpexplain.data.public_random import PublicRandom

DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(0, 100, integer=True),
        "income": dpx.Numeric(0, 1),
        "lab": dpx.Numeric(-1, 1, missing="nan"),
        "town": dpx.Categorical(["a", "b", "c", "d", "e"]),
    }
)
SIZE = 2000


def likely(seed, near=None):
    return PublicRandom(seed).likely_rows(DOMAIN, SIZE, near)


def test_likely_rows_lie_in_the_domain_and_follow_from_the_seed():
    rows, again, other = likely(1), likely(1), likely(2)
    for name in DOMAIN:
        np.testing.assert_array_equal(rows[name], again[name])
        assert not np.array_equal(rows[name], other[name], equal_nan=True)
    assert ((rows["age"] >= 0) & (rows["age"] <= 100) & (rows["age"] == np.round(rows["age"]))).all()
    assert ((rows["income"] >= 0) & (rows["income"] <= 1)).all()
    assert np.isnan(rows["lab"]).any()
    assert set(np.unique(rows["town"])) <= set(range(5))


def test_columns_of_likely_rows_go_together_and_few_categories_are_common():
    """Seeds are fixed, so nothing here is left to chance; even rows are the sibling that fails both."""

    def together(rows):
        return abs(np.corrcoef(rows["age"], rows["income"])[0, 1])

    def commonest(rows):
        return np.bincount(rows["town"], minlength=5).max() / SIZE

    tables, even = [likely(seed) for seed in range(5)], PublicRandom(0).rows(DOMAIN, SIZE)
    assert np.median([together(rows) for rows in tables]) > 0.2 > together(even)
    assert min(commonest(rows) for rows in tables) > 0.3 > commonest(even)


def test_a_public_record_is_likely_in_likely_rows():
    record = {"age": 90.0, "income": 0.9, "lab": float("nan"), "town": "e"}
    near = np.mean([(likely(seed, record)["town"] == 4).mean() for seed in range(9)])
    assert near > np.mean([(likely(seed)["town"] == 4).mean() for seed in range(9)])
    assert np.mean([likely(seed, record)["income"].mean() for seed in range(9)]) > 0.6
