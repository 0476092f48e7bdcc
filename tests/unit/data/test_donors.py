"""Values to be put in the place of a row's own: what draws from a released distribution have to keep."""

from __future__ import annotations

import numpy as np

from dpexplain.core.domain import Domain, Numeric
from dpexplain.data.donors import by_feature, by_histogram, drawn
from dpexplain.data.rows import Rows
from dpexplain.maths.grids import partition_of
from dpexplain.maths.reference import Reference

COLUMN = Numeric(0, 9, integer=True)
SHARES = np.array([1, 2, 3, 4, 5, 5, 4, 3, 2, 1]) / 30
REFERENCE = Reference(COLUMN, partition_of("x", COLUMN, 10), SHARES)
ROWS = 40_000


def uniform(seed):
    return np.random.default_rng(seed).random


def means(draws, seed=0):
    return np.mean(list(drawn(ROWS, REFERENCE, draws, uniform(seed))), axis=0)


def test_every_draw_comes_from_its_part_of_the_distribution():
    lower, upper = drawn(ROWS, REFERENCE, 2, uniform(0))  # the shares of 0 to 4 add up to one half
    assert set(np.unique(lower)) == {0, 1, 2, 3, 4}
    assert set(np.unique(upper)) == {5, 6, 7, 8, 9}


def test_together_the_draws_have_the_released_distribution():
    found = np.concatenate(list(drawn(ROWS, REFERENCE, 3, uniform(1)))).astype(int)
    assert np.abs(np.bincount(found, minlength=10) / len(found) - SHARES).max() < 0.01


def test_the_mean_over_draws_varies_less_than_that_of_independent_ones():
    own = (SHARES * np.arange(10) ** 2).sum() - (SHARES * np.arange(10)).sum() ** 2
    assert means(1).var() > 0.95 * own
    assert means(4).var() < own / 4 / 3  # independent draws would have a quarter


def test_features_that_are_put_in_together_are_independent():
    """Parts of the distribution must not go together: both low, then both high."""
    domain = Domain({"x": COLUMN, "y": COLUMN})
    rows = Rows(domain, {name: np.zeros(ROWS) for name in domain}, ROWS)
    references = {"x": REFERENCE, "y": Reference(COLUMN, partition_of("y", COLUMN, 10), SHARES)}

    def correlation(batch):
        x, y = (np.concatenate(list(batch.values[name])) for name in "xy")
        return np.corrcoef(x, y)[0, 1]

    assert abs(correlation(by_histogram(rows, references, 2, uniform(2)))) < 0.03
    assert correlation(by_feature(rows, references, 2, uniform(2))) > 0.5  # good for one at a time only
