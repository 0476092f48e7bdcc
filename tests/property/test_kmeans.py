"""Change one unit: the counts and sums around any centres move at most as far as their bound, and some that far.

From raw rows to integers: cleaning, the first rows of each unit, coordinates, the nearest centre. Values outside the
domain and missing ones are part of it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from clustered import setting
from dpexplain.core.budget import pure
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.maths.lloyd import GRID, HALF, OWN
from dpexplain.methods import histogram
from dpexplain.methods.kmeans import spec as kmeans
from dpexplain.methods.kmeans.release import resolve
from dpexplain.requests import KMeans
from neighbouring import DOMAIN, neighbours, norms, private, within
from rings import examples
from stubs import ADD_REMOVE

FEATURES = (("a", "b", "c"), ("a", "b"), ("b",), ("c",))


def answers(rows, protection, spec, centres):
    """The exact integers of one question, and of the histograms."""
    table = private(rows, protection)
    gate, columns, lloyd = Gate(table.door, pure(1)), spec.lloyd.space.features, spec.lloyd
    kernel = partial(kmeans.statistic, lloyd=lloyd, centres=centres)
    sums = table.sum_rows(gate, kernel, columns, size=lloyd.size(len(centres)), label="", parallel=False)
    kernel = partial(histogram.statistic, partitions=lloyd.partitions)
    counts = table.sum_rows(gate, kernel, columns, size=lloyd.histogram_size, label="", parallel=False)
    table.ledger.close()
    return sums, counts, table.neighbours


def spec_of(features, weight):
    request = KMeans(k=2, features=features, rounds=1)
    spec = resolve(request, setting(DOMAIN, ADD_REMOVE), pure(1))
    return replace(spec, lloyd=replace(spec.lloyd, weight=weight))


@settings(max_examples=examples(100), deadline=None)
@given(neighbours(), st.sampled_from(FEATURES), st.sampled_from([HALF // 2, HALF, 3 * HALF]), st.data())
def test_one_unit_moves_the_answer_at_most_as_far_as_its_bound(pair, features, weight, data):
    protection, rows, other = pair
    spec = spec_of(features, weight)
    place = st.lists(st.integers(0, GRID), min_size=spec.lloyd.space.size, max_size=spec.lloyd.space.size)
    centres = np.array(data.draw(st.lists(place, min_size=1, max_size=4)))
    left, cells, relation = answers(rows, protection, spec, centres)
    right, others, _ = answers(other, protection, spec, centres)
    assert within(norms(left - right), kmeans.sensitivity(spec.lloyd.space, weight, relation))
    assert within(norms(cells - others), Sensitivity.of_counts(relation, len(features)))


HIGH, LOW, KEPT = (3, 1.0, "x"), (0, -1.0, "y"), (1, 0.1, "z")
APART = np.array([[GRID, GRID, OWN, 0, 0], [0, 0, 0, OWN, 0]])
TOGETHER = np.array([[HALF, HALF, 0, 0, 0]] * 2)  # the first of two equal centres takes all
RELATIONS = [
    ("add-remove", None, [], [(HIGH, 1)]),
    ("add-remove", 2, [], [(HIGH, 1)] * 2),
    ("replace-one", None, [(HIGH, 1)], [(LOW, 1)]),
    ("replace-one", 2, [(HIGH, 1)] * 2, [(LOW, 1)] * 2),
]


@pytest.mark.parametrize("weight", [HALF // 2, HALF, 3 * HALF])
@pytest.mark.parametrize(("relation", "unit", "before", "after"), RELATIONS)
def test_the_bound_is_attained_in_every_norm(relation, unit, before, after, weight):
    """By rows that change the centre, or by rows that stay with it."""
    protection = {"relation": relation} | ({} if unit is None else {"unit": dpx.Unit("id", unit)})
    spec, rest, moved = spec_of(("a", "b", "c"), weight), [(KEPT, 7), (KEPT, 8)], []
    for centres in (APART, TOGETHER):
        left, _, neighbours = answers([*rest, *before], protection, spec, centres)
        right, _, _ = answers([*rest, *after], protection, spec, centres)
        moved.append(norms(left - right))
    bound = kmeans.sensitivity(spec.lloyd.space, weight, neighbours)
    assert tuple(max(norm) for norm in zip(*moved, strict=True)) == (bound.l1, bound.l2_squared, bound.linf)


def test_rows_that_stay_with_their_centre_can_move_further_than_rows_that_leave_it():
    """Which is why the bound of replace-one is not simply twice that of add-remove."""
    spec, rest = spec_of(("a", "b"), HALF // 2), [(KEPT, 7), (KEPT, 8)]
    far = [
        norms(
            answers([*rest, (HIGH, 1)], {"relation": "replace-one"}, spec, centres[:, :2])[0]
            - answers([*rest, (LOW, 1)], {"relation": "replace-one"}, spec, centres[:, :2])[0]
        )
        for centres in (APART, TOGETHER)
    ]
    assert far[1][1] > far[0][1]
    assert far[1][2] > far[0][2]
    assert far[0][0] > far[1][0]
