"""Change one unit: the sums move at most as far as their sensitivity says, and some change moves them that far.

Every example runs the real path from raw rows to integers: cleaning, the first rows of each unit, groups, the model,
quantising, shrinking. The secret numbers of a row are the same in both tables, as the bounds suppose.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.audit.cases import GivenNumbers
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Assignment
from dpexplain.data import assignment, donors
from dpexplain.data.donors import Replaced, by_permutation
from dpexplain.data.encode import identifiers
from dpexplain.methods.permutation_importance import spec as pfi
from dpexplain.methods.permutation_importance.release import resolve
from dpexplain.methods.permutation_importance.request import PermutationImportance
from dpexplain.methods.setting import Setting
from dpexplain.models import Predictor
from neighbouring import DOMAIN, ROW, VALUES, neighbours, norms, private, within
from rings import examples
from stubs import Unshuffled, rows_of

MECHANISMS = ["discrete-laplace", "cube", "discrete-gaussian"]
COLUMNS = ["a", "b", "c"]


def wild(rows: pd.DataFrame) -> np.ndarray:
    """Not additive, leaves the output range, fails on some rows."""
    b = rows["b"].to_numpy()
    value = 1.5 + 3 * np.sin(5 * b) + 2 * (rows["c"] == "y").to_numpy() * b
    return np.where(b > 0.97, np.nan, value)


def prepared(rows, protection, *, mechanism="discrete-laplace", marginals=None, **options):
    """A table with an open gate, the spec of a request for the target `a`, and the model."""
    table = private(rows, protection)
    cost = zcdp(1) if mechanism == "discrete-gaussian" else pure(1)
    request = PermutationImportance(target="a", mechanism=mechanism, **options)
    model = dpx.Model(wild, output=(0, 3), features=["b", "c"])
    spec = resolve(request, Setting.of(table, model, marginals=marginals), cost)
    table.secrets = Unshuffled  # the same secret order for both neighbours
    return table, Gate(table.door, cost), spec


def predictor(model=wild) -> Predictor:
    return Predictor(model, ["b", "c"], DOMAIN, as_array=False)


class Known(Unshuffled):
    """The same secret numbers for both neighbours."""

    def uniform(self, size):
        return np.zeros(size)


def group_sums(rows, protection, tags=None, *, parts=2, model=wild, **options):
    """The exact integers of the statistic over groups."""
    table, gate, spec = prepared(rows, protection, method="groups", **options)
    assert not spec.drawn
    table.secrets = Known if tags is None else partial(GivenNumbers, tags)
    kernel, how = partial(pfi.group_statistic, predictor=predictor(model), spec=spec), {"secret": True, "label": ""}
    found = table.sum_groups(gate, kernel, COLUMNS, parts, size=spec.size, parallel=False, **how)
    table.ledger.close()
    return found, spec, table.neighbours


def lines(found, spec) -> list[pfi.Sums]:
    return [pfi.Sums.read(line) for line in found.reshape(len(spec.limits), -1)]


def assert_within(left, right, spec, relation) -> None:
    for one, two, limit in zip(lines(left, spec), lines(right, spec), spec.limits, strict=True):
        assert within(norms(one.changes - two.changes), pfi.sensitivity(spec, relation, limit))
        assert within(norms(one.squares - two.squares), pfi.squares_sensitivity(spec, relation))
        assert abs(one.lost - two.lost) <= pfi.lost_sensitivity(spec, relation).linf
        assert abs(one.above - two.above) <= pfi.groups_changed(spec, relation)


def place_of_change(left, right) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a is not b), min(len(left), len(right))
    )


@settings(max_examples=examples(80), deadline=None)
@given(neighbours(), st.sampled_from(MECHANISMS), st.integers(1, 3), st.integers(1, 3), st.data())
def test_groups_of_rows(pair, mechanism, parts, repeats, data):
    protection, one, two = pair
    tags = [None, None]
    if protection == {"relation": "add-remove"}:  # a secret number for each row, the same one in both tables
        numbers = data.draw(st.lists(st.integers(0, 50), min_size=len(one), max_size=len(one)))
        place = place_of_change(one, two)
        tags = [numbers, [*numbers[:place], data.draw(st.integers(0, 50)), *numbers[place:]]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assignment, "secret_bytes", lambda size: bytes(size))  # one key for both tables
        options = {"parts": parts, "repeats": repeats, "mechanism": mechanism}
        left, spec, relation = group_sums(one, protection, tags[0], **options)
        right, _, _ = group_sums(two, protection, tags[1], **options)
    assert_within(left, right, spec, relation)


def row_sums(rows, protection, values, *, model=wild, **options):
    """The exact integers where every row takes the same given values instead of its own."""
    settings_ = {"method": "marginals", "repeats": len(values), "marginals": FakeMarginals()}
    table, gate, spec = prepared(rows, protection, **settings_, **options)
    assert spec.drawn
    found = np.zeros(spec.size, dtype=np.int64)
    for batch in rows_of(table, gate, COLUMNS):
        columns = {
            "b": [np.full(batch.size, b) for b, _ in values],
            "c": [np.full(batch.size, c, dtype=np.int32) for _, c in values],
        }
        replaced = Replaced(batch, columns, [np.ones(batch.size, dtype=bool)] * len(values), np.arange(batch.size))
        found += pfi.statistic(replaced, predictor(model), spec)
    table.ledger.close()
    return found, spec, table.neighbours


class FakeMarginals:
    """As much of a release as the spec asks for."""

    features, total = ["b", "c"], 1.0

    class receipt:  # noqa: N801
        class entry:  # noqa: N801
            payload_hash = "hash"

    class histogram:  # noqa: N801
        def __init__(self, feature):
            self.feature = feature

        class partition:  # noqa: N801
            size = 3

    def part(self, _name):
        return None, Noise(Law.LAPLACE, 6, 1)


DRAWN = st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 2)), min_size=1, max_size=3)


@settings(max_examples=examples(60), deadline=None)
@given(neighbours(), st.sampled_from(MECHANISMS), DRAWN)
def test_rows_with_drawn_values(pair, mechanism, values):
    protection, one, two = pair
    left, spec, relation = row_sums(one, protection, values, mechanism=mechanism)
    right, _, _ = row_sums(two, protection, values, mechanism=mechanism)
    assert_within(left, right, spec, relation)


@settings(max_examples=examples(40), deadline=None)
@given(neighbours())
def test_the_base_and_the_number_of_rows(pair):
    protection, one, two = pair

    def base(rows):
        table, gate, spec = prepared(rows, protection)
        found = sum(pfi.base_statistic(batch, predictor(), spec) for batch in rows_of(table, gate, COLUMNS))
        table.ledger.close()
        return found, spec, table.neighbours

    (left, spec, relation), (right, _, _) = base(one), base(two)
    assert within(norms(left - right), pfi.base_sensitivity(spec, relation))


def paper_sums(rows, model=wild, **options):
    table, gate, spec = prepared(rows, {"relation": "replace-one"}, method="paper", **options)
    found = np.zeros(spec.size, dtype=np.int64)
    for batch in by_permutation(table.gathered(gate, COLUMNS), spec.features, spec.seed):
        found += pfi.paper_statistic(batch, predictor(model), spec)
    table.ledger.close()
    return found, spec, table.neighbours


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(ROW, min_size=2, max_size=8), VALUES, st.integers(0, 7), st.integers(0, 100))
def test_the_faithful_form(rows, values, place, seed):
    place %= len(rows)
    other = [*rows[:place], (values, 0), *rows[place + 1 :]]
    left, spec, relation = paper_sums(rows, seed=seed)
    right, _, _ = paper_sums(other, seed=seed)
    assert within(norms(left - right), pfi.paper_sensitivity(spec, relation))
    K = spec.loss.range.levels
    assert abs(left - right)[:-1].max() <= 2 * K
    assert abs(left - right)[-1] <= K


def by_column(rows: pd.DataFrame) -> np.ndarray:
    """What `b` says, from 0 to 3; where `c` is z, always 3."""
    return np.where((rows["c"] == "z").to_numpy(), 3.0, 1.5 + 1.5 * rows["b"].to_numpy())


def test_the_bound_of_the_faithful_form_is_attained():
    """The permutation exchanges the `b` of two rows. The changed row is predicted wrong with the other's `b`, makes the
    other one wrong with its own, and is wrong itself: 2 K for the error, K for the base.
    """
    keep = ((0, -1.0, "x"), 0)
    left, spec, relation = paper_sums([keep, ((0, -1.0, "x"), 1)], by_column, features=["b"], seed=SWAP)
    right, _, _ = paper_sums([keep, ((0, 1.0, "z"), 1)], by_column, features=["b"], seed=SWAP)
    bound, K = pfi.paper_sensitivity(spec, relation), spec.loss.range.levels
    assert (right - left).tolist() == [2 * K, K]
    assert norms(right - left) == (bound.l1, bound.l2_squared, bound.linf)


SWAP = next(s for s in range(9) if dpx.data.PublicRandom(s).generator.permutation(2).tolist() == [1, 0])
AGREE, DISAGREE = (3, 1.0, "x"), (3, -1.0, "x")  # beside (1, 0.0): predictions in the order of the targets, or not


def by_either(rows: pd.DataFrame) -> np.ndarray:
    """3 where `b` is high or `c` is z, else 0."""
    return np.where((rows["c"] == "z").to_numpy() | (rows["b"] > 0).to_numpy(), 3.0, 0.0)


@pytest.mark.parametrize(
    ("protection", "left", "right", "tags"),
    [
        ({"relation": "replace-one"}, [((1, 0.0, "x"), 0), (AGREE, 1)], [((1, 0.0, "x"), 0), (DISAGREE, 1)], None),
        (
            {"relation": "add-remove"},
            [((1, 0.0, "x"), 0), (AGREE, 1)],
            [((1, 0.0, "x"), 0), (AGREE, 1), ((0, 1.0, "x"), 2)],
            ([0, 1], [0, 1, 2]),
        ),
    ],
)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_bound_of_groups_is_attained(protection, left, right, tags, mechanism):
    """A group goes from one end of its ball to the other one; rounding toward zero may take one step at each end."""
    one_tags, two_tags = tags or (None, None)
    options = {"parts": 1, "model": by_column, "features": ["b"], "clip": 0.5, "repeats": 1, "mechanism": mechanism}
    one, spec, relation = group_sums(left, protection, one_tags, **options)
    two, _, _ = group_sums(right, protection, two_tags, **options)
    (limit,) = spec.limits
    assert pfi.sensitivity(spec, relation, limit).linf == 2 * limit
    assert 2 * limit - 2 <= one[0] - two[0] <= 2 * limit


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_bounds_of_squares_and_of_what_was_cut_off_are_attained(mechanism):
    """One group: nothing changes in it, or both rows go from no loss to the largest one with the other's `b`, or `c`.

    So its squares leave one corner of their simplex for another one, and what was cut off goes from nothing to all but
    the limit. Rounding takes a step of a limit of few steps.
    """
    protection = {"relation": "replace-one"}
    options = {"parts": 1, "model": by_either, "repeats": 1, "mechanism": mechanism, "clip": 0.01}
    still = [((0, -1.0, "x"), 0), ((0, -1.0, "x"), 1)]
    by_b = [((0, -1.0, "x"), 0), ((3, 1.0, "x"), 1)]  # right, and wrong with the other's b
    by_c = [((0, -1.0, "x"), 0), ((3, -1.0, "z"), 1)]
    (none, spec, relation), (b, *_), (c, *_) = (group_sums(rows, protection, **options) for rows in (still, by_b, by_c))
    [none], [b], [c] = lines(none, spec), lines(b, spec), lines(c, spec)
    bound = pfi.squares_sensitivity(spec, relation)
    moved = norms(b.squares - c.squares)
    if mechanism == "cube":  # both coordinates can be at their end at once; here one of them is
        assert 0.98 * bound.linf <= moved[2] <= bound.linf
    else:
        assert 0.98 * bound.l1 <= moved[0] <= bound.l1
        assert 0.98 * bound.l2_squared <= moved[1] <= bound.l2_squared
    cap = pfi.lost_sensitivity(spec, relation).linf
    assert none.lost == 0
    assert cap - spec.limits[0] - 2 <= b.lost <= cap


def test_rows_that_come_and_go_attain_the_bounds():
    """Add-remove with drawn values: a row alone is a point of its ball, its square all of the unit."""
    protection, values = {"relation": "add-remove"}, [(-1.0, 0)]
    options = {"model": by_either, "features": ["b"], "clip": 0.5}
    one, spec, relation = row_sums([((0, -1.0, "x"), 0)], protection, values, **options)
    two, _, _ = row_sums([((0, -1.0, "x"), 0), ((3, 1.0, "x"), 1)], protection, values, **options)
    [one], [two] = lines(one, spec), lines(two, spec)
    assert 0.99 * pfi.squares_sensitivity(spec, relation).l1 <= (two.squares - one.squares)[0]
    K, limit = spec.loss.range.levels, spec.limits[0]
    assert 0 <= two.lost - one.lost - (K - limit) <= 1
    assert pfi.lost_sensitivity(spec, relation).linf == K


def test_a_group_that_is_too_large_counts_its_first_rows_only():
    options = {"model": by_either, "features": ["b"], "repeats": 1, "clip": 1e9}
    rows = [((0, -1.0, "x"), 0), *(((3, 1.0, "x"), i) for i in range(1, 40))]
    found, spec, _ = group_sums(rows, {"relation": "add-remove"}, list(range(40)), parts=1, **options)
    assert spec.most == 6
    [sums] = lines(found, spec)
    assert abs(sums.changes).max() <= spec.cap == 6 * spec.loss.range.levels


def test_a_replaced_unit_changes_two_groups(monkeypatch):
    """Under replace-one with units, the one that comes in may fall into another group: then two of them move."""
    monkeypatch.setattr(assignment, "secret_bytes", lambda size: bytes(size))
    protection = {"relation": "replace-one", "unit": dpx.Unit("id", 1)}
    options = {"parts": 2, "model": by_column, "features": ["b"], "clip": 0.5, "repeats": 1}
    part = assignment.Secrets().tags(Assignment.KEYED, None)(20, identifiers(pa.array(range(20)))) % 2
    one, two = np.flatnonzero(part == 0), np.flatnonzero(part == 1)
    keep = [((1, 0.0, "x"), one[0]), (AGREE, one[1]), ((1, 0.0, "x"), two[0]), (DISAGREE, two[1])]

    def reached(ids):
        """The sums that a unit with one of these ids can lead to."""
        units = [(extra, i) for extra in [(0, 1.0, "x"), (0, -1.0, "x"), AGREE] for i in ids[2:]]
        return [group_sums([*keep, unit], protection, **options) for unit in units]

    low, high = min(found[0] for found, _, _ in reached(one)), max(found[0] for found, _, _ in reached(two))
    _, spec, relation = group_sums(keep, protection, **options)
    (limit,) = spec.limits
    assert pfi.sensitivity(spec, relation, limit).linf == 4 * limit
    assert 4 * limit - 4 <= high - low <= 4 * limit


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.lists(st.integers(-(2**40), 2**40), min_size=3, max_size=3), min_size=1, max_size=4),
    st.integers(1, 2**30),
    st.sampled_from(["sum", "euclidean", "largest"]),
)
def test_a_shrunk_group_lies_in_the_ball(groups, limit, norm):
    vectors = np.array(groups)
    small = pfi.shrunk(vectors, pfi.norms_of(vectors, norm), limit, norm)
    for before, after in zip(vectors.tolist(), small.tolist(), strict=True):
        size = {"sum": sum(map(abs, after)), "largest": max(map(abs, after))}.get(norm)
        assert sum(v * v for v in after) <= limit**2 if size is None else size <= limit
        assert all(a * b >= 0 and abs(a) <= abs(b) for a, b in zip(after, before, strict=True))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=12), st.integers(1, 4))
def test_donors_are_other_units_of_the_group(pairs, draws):
    group, mark = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2).T
    first, others, places = donors._company(group, mark, draws, np.random.default_rng(0).random(len(group)))
    for row in range(len(group)):
        members = [i for i in range(len(group)) if group[i] == group[row]]
        strangers = [i for i in members if mark[i] != mark[row]]
        assert first[row] == members[0]
        assert others[row] == len(strangers)
        chosen = [int(place[row]) for k, place in enumerate(places) if k < len(strangers)]
        assert len(set(chosen)) == len(chosen) == min(draws, len(strangers))
        assert set(chosen) <= set(strangers)
