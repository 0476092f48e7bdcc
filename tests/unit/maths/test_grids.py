"""Public geometry: grids and cells follow the declared domain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.maths.grids import axis_of, is_complete, partition_of

DOMAIN = dpx.Domain(
    {
        "hour": dpx.Numeric(0, 23, integer=True),
        "age": dpx.Numeric(17, 90, integer=True),
        "gain": dpx.Numeric(0, 99999, integer=True),
        "hum": dpx.Numeric(0, 1),
        "sex": dpx.Categorical(["F", "M"]),
    }
)


def test_grids_follow_the_declared_domain():
    assert axis_of(DOMAIN, "hour", None, 5).points == tuple(range(24))  # a small integer feature: every value
    assert len(axis_of(DOMAIN, "age", None, 20).points) == 20
    assert axis_of(DOMAIN, "age", None, 101).points == tuple(range(17, 91))
    gain = axis_of(DOMAIN, "gain", None, 50).points
    assert len(gain) == 50
    assert all(x == round(x) for x in gain)
    assert axis_of(DOMAIN, "hum", 3, 50).points == (0, 0.5, 1)
    assert axis_of(DOMAIN, "hum", [0.1, 0.2], 50).points == (0.1, 0.2)
    assert axis_of(DOMAIN, "sex", None, 50).settings == [0, 1]
    assert is_complete(axis_of(DOMAIN, "hour", None, 5), DOMAIN["hour"])
    assert is_complete(axis_of(DOMAIN, "sex", None, 5), DOMAIN["sex"])
    assert not is_complete(axis_of(DOMAIN, "age", None, 20), DOMAIN["age"])
    assert not is_complete(axis_of(DOMAIN, "hum", None, 20), DOMAIN["hum"])


@pytest.mark.parametrize(
    ("feature", "grid", "message"),
    [
        ("height", None, "unknown feature 'height'"),
        ("hum", 1, "at least 2 points"),
        ("hum", True, "at least 2 points"),
        ("hum", [0.5], "increasing order"),
        ("hum", [0.5, 0.2], "increasing order"),
        ("hum", [0.5, 2.0], "declared bounds"),
        ("sex", [0.5, 2.0], "is categorical"),
    ],
)
def test_bad_grids(feature, grid, message):
    with pytest.raises(dpx.InputError, match=message):
        axis_of(DOMAIN, feature, grid, 20)


@pytest.mark.parametrize("feature", list(DOMAIN))
@pytest.mark.parametrize("cells", [1, 7, 30, 101])
def test_cells_hold_every_value_once(feature, cells):
    column = DOMAIN[feature]
    partition = partition_of(feature, column, cells)
    if isinstance(column, dpx.Categorical):
        assert partition.counts(np.array([0, 1, 1])).tolist() == [1, 2]
        return
    values = np.linspace(column.low, column.high, 4321)
    values = np.rint(values) if column.integer else values
    counts = partition.counts(values)
    assert len(counts) == partition.size == len(partition.edges) - 1 <= cells
    assert counts.sum() == len(values)
    edges = np.array(partition.edges)
    inside = [((values >= a) & (values < b)).sum() for a, b in itertools.pairwise(edges)]
    inside[-1] += (values == edges[-1]).sum()
    np.testing.assert_array_equal(counts, inside)
