"""The table of intervals says what a search among edges says, for every number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.maths.grids import cells_of, partition_of
from dpexplain.maths.lookup import lookup, places

numbers = st.floats(-1e6, 1e6, allow_nan=False)


def searched(edges, values):
    return np.searchsorted(np.array(edges), values, side="right").tolist()


@given(edges=st.lists(numbers, min_size=0, max_size=30, unique=True), values=st.lists(numbers, max_size=20))
def test_places_are_those_of_a_search(edges, values):
    edges = tuple(sorted(edges))
    around = [near for edge in edges for near in (edge, np.nextafter(edge, -np.inf), np.nextafter(edge, np.inf))]
    values = np.array([*values, *around, -np.inf, 1e300])
    assert places(edges, values).tolist() == searched(edges, values)
    assert places(edges, values[np.isfinite(values)]).tolist() == searched(edges, values[np.isfinite(values)])


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e9, 1e300])
@pytest.mark.parametrize("steps", [3, 24, 101])
def test_next_to_every_edge(scale, steps):
    edges = tuple((np.linspace(-1, 2, steps) * scale).tolist())
    values = np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)])
    assert places(edges, values).tolist() == searched(edges, values)


@pytest.mark.parametrize("edges", [(), (1.0,), (0.0, 5e-324), (-1.7e308, 1.7e308), (0.0, 1e-9, 1.0)])
def test_edges_that_have_no_table_are_searched(edges):
    values = np.array([-1.0, 0.0, 1e-10, 0.5, 2.0])
    assert lookup(edges) is None
    assert places(edges, values).tolist() == searched(edges, values)


def test_the_cells_of_usual_columns_have_a_table():
    domain = dpx.Domain({"x": dpx.Numeric(0, 1), "n": dpx.Numeric(17, 90, integer=True)})
    for partition in (*cells_of(list(domain), domain, 24), partition_of("x", domain["x"], 30)):
        assert lookup(partition.edges[1:-1]) is not None


def test_a_missing_value_is_after_all_edges():
    assert places((1.0, 2.0, 3.0), np.array([np.nan, 2.5])).tolist() == [3, 2]
