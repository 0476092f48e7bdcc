"""A released distribution as something to take values from."""

from __future__ import annotations

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.maths.grids import partition_of
from dpexplain.maths.reference import POINTS, WHOLE, Reference, points_in

COLUMNS = {
    "share": dpx.Numeric(0, 1),
    "year": dpx.Numeric(1900, 2020, integer=True),
    "age": dpx.Numeric(0, 9, integer=True),
    "sex": dpx.Categorical(["F", "M"]),
    "code": dpx.Categorical(list(range(3_000))),
}


def reference(name, cells, shares=None):
    partition = partition_of(name, COLUMNS[name], cells)
    even = np.full(partition.size, 1 / partition.size)
    return Reference(COLUMNS[name], partition, even if shares is None else np.asarray(shares))


@pytest.mark.parametrize("name", list(COLUMNS))
@pytest.mark.parametrize("cells", [1, 7, 60, 101])
def test_weights_are_whole_and_add_up(name, cells):
    size = reference(name, cells).partition.size
    draw = np.random.default_rng(cells)
    for shares in (np.eye(size)[0], draw.dirichlet(np.ones(size)), draw.dirichlet(np.full(size, 0.01))):
        found = reference(name, cells, shares)
        assert found.weights.sum() == WHOLE
        assert found.weights.min() >= 0
        by_cell = np.bincount(found.cells, found.weights, size) / WHOLE
        np.testing.assert_allclose(by_cell, shares, atol=len(found.points) / WHOLE)


def test_few_points_stand_for_a_column():
    for name, cells in (("share", 1), ("share", 24), ("share", 60), ("share", 101), ("year", 10), ("age", 5)):
        partition = partition_of(name, COLUMNS[name], cells)
        inside = points_in(COLUMNS[name], partition)
        assert inside.min() >= 1
        assert inside.sum() <= max(POINTS, partition.size)
    assert points_in(COLUMNS["age"], partition_of("age", COLUMNS["age"], 5)).tolist() == [2] * 5


def test_the_ends_of_cells():
    share = reference("share", 4)
    assert share.ends[0].tolist() == [0, 0.25, 0.5, 0.75]
    assert share.ends[1] == pytest.approx([0.25, 0.5, 0.75, 1])
    for name, cells in (("share", 4), ("year", 10), ("age", 5), ("age", 10), ("sex", 2)):
        found = reference(name, cells)
        each = np.arange(found.partition.size)
        for end in found.ends:
            assert (found.partition.place(end) == each).all()  # inside, to the last digit
        first, last = (end[found.cells] for end in found.ends)
        assert ((first <= found.points) & (found.points <= last)).all()
    assert reference("age", 5).ends.tolist() == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    assert not reference("age", 10).wide.any()
    assert not reference("sex", 2).wide.any()
    assert reference("age", 5).wide.all()
    kept = dpx.Numeric(0, 1, missing="nan")
    partition = partition_of("kept", kept, 2)
    missing = Reference(kept, partition, np.full(3, 1 / 3))
    assert np.isnan(missing.ends[:, 2]).all()
    assert missing.wide.tolist() == [True, True, False]


def test_what_is_drawn_are_the_points():
    """So the expectation is the same, whether points are gone through or drawn."""
    found = reference("share", 3, [0.5, 0.5, 0.0])
    assert found.points[:4] == pytest.approx([1 / 24, 3 / 24, 5 / 24, 7 / 24])
    even = (np.arange(8_000) + 0.5) / 8_000
    cell = found.cell_at(even)
    assert np.bincount(cell).tolist() == [4_000, 4_000]
    values, counts = np.unique(found.at(cell, np.tile([0.0, 0.3, 0.6, 0.999], 2_000)), return_counts=True)
    np.testing.assert_array_equal(values, found.points[:8])
    assert counts.tolist() == [1_000] * 8
