"""All classes of a model together: a probability vector moves less than the sum of its parts, and as far as is claimed.

Searched over the corners of what a row can add, where norms are largest because they are convex; and over random rows
and their neighbours, by the real path from raw rows to sums.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours, Relation, Unit
from dpexplain.data.rows import Rows
from dpexplain.methods.partial_dependence import release as pdp
from dpexplain.methods.setting import Setting
from dpexplain.methods.sums import RowSums
from dpexplain.models.classes import ClassPredictor, OwnClass, checked_classes, levels_of
from dpexplain.models.outcomes import Outcome, apart
from dpexplain.requests import PartialDependence
from neighbouring import DOMAIN, neighbours, norms, private, within
from rings import examples

K = 60
OUTPUT = PublicRange(0.0, 1.0, K)
RELATIONS = (
    Neighbours(Relation.REPLACE_ONE), Neighbours(Relation.ADD_REMOVE),
    Neighbours(Relation.ADD_REMOVE, Unit("id", 2)), Neighbours(Relation.REPLACE_ONE, Unit("id", 2)),
)  # fmt: skip
NUMBER = st.one_of(st.floats(-2, 2), st.sampled_from([np.nan, np.inf, -np.inf, 0.0, 1.0, 1 / 3]))


@given(st.integers(2, 6).flatmap(lambda c: st.lists(st.lists(NUMBER, min_size=c, max_size=c), min_size=1, max_size=5)))
def test_whatever_a_model_says_becomes_whole_numbers_with_a_bounded_sum(said):
    values = np.array(said)
    found = levels_of(values, K)
    assert found.dtype == np.int64
    assert (found >= 0).all()
    assert (found.sum(axis=1) <= K).all()
    for row, line in zip(values, found, strict=True):
        assert (levels_of(row[None], K)[0] == line).all()  # each row by itself


def test_sums_stay_bounded_where_last_digits_would_not():
    thirds = np.full((1, 3), np.nextafter(1 / 3, 1))
    assert levels_of(thirds, 3).sum() <= 3
    assert levels_of(np.array([[0.25, 0.75, 0.0], [0.2, 0.2, 0.2]]), 4).tolist() == [[1, 3, 0], [0, 0, 0]]
    draw = np.random.default_rng(0)
    many = draw.dirichlet(np.ones(7), 20_000)
    for levels in (3, 7, 2**20):
        assert levels_of(many, levels).sum(axis=1).max() <= levels


def corners(classes: int) -> list[np.ndarray]:
    """What a row can add at one place, at the corners of {u >= 0, |u|_1 <= K}."""
    return [np.zeros(classes, dtype=np.int64), *(K * np.eye(classes, dtype=np.int64))]


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
@pytest.mark.parametrize("classes", [2, 3, 4, 7])
@pytest.mark.parametrize("places", [1, 3])
def test_the_bound_holds_at_all_corners_and_is_attained(relation, classes, places):
    sums = RowSums.of(OUTPUT, relation, classes)
    bound = sums.sensitivity(classes * places, relation)
    rows = [np.append(np.tile(u - sums.shift, places), [sums.weight] if sums.weight else []) for u in corners(classes)]
    k = relation.rows
    if relation.relation is Relation.ADD_REMOVE:
        moves = [k * row for row in rows]
    elif relation.unit is None:
        moves = [a - b for a, b in itertools.permutations(rows, 2)]
    else:  # a unit of k rows leaves, one of up to k rows comes
        moves = [i * a - k * b for a in rows for b in rows for i in range(k + 1)]
    found = [norms(move.astype(np.int64)) for move in moves]
    assert all(within(one, bound) for one in found)
    if relation.unit is None:
        assert max(one[1] for one in found) == bound.l2_squared
        assert max(one[0] for one in found) == bound.l1
    else:
        assert max(one[1] for one in found) > bound.l2_squared / 4


@pytest.mark.parametrize("relation", RELATIONS[:2], ids=str)
@pytest.mark.parametrize("classes", [3, 4, 10])
def test_it_is_smaller_than_the_sum_of_its_parts(relation, classes):
    joint = RowSums.of(OUTPUT, relation, classes).sensitivity(10 * classes, relation)
    apart_ = RowSums.of(OUTPUT, relation).sensitivity(10 * classes, relation)
    assert joint.l2_squared < apart_.l2_squared
    assert joint.l1 < apart_.l1
    if relation.relation is Relation.REPLACE_ONE:
        assert joint.l2_squared * classes == 2 * apart_.l2_squared


class Wild:
    """Four classes: leaves [0, 1], does not add up to one, fails on some rows."""

    classes_ = np.array(["p", "q", "r", "s"])
    feature_names_in_ = np.array(["a", "b", "c"])

    def predict(self, rows):
        return self.predict_proba(rows).argmax(axis=1)

    def predict_proba(self, rows):
        a, b = rows["a"].to_numpy(dtype=float), rows["b"].to_numpy(dtype=float)
        y = (rows["c"] == "y").to_numpy(dtype=float)
        said = np.stack([2 * np.sin(5 * a + b), y, np.where(a == 3, 1.0, 0.0), 0.3 + 0 * b], axis=1)
        return np.where((b > 0.97)[:, None], np.nan, said)


MODEL = dpx.Model(Wild(), output=(0, 1), name="wild", version="1")
REQUEST = PartialDependence(feature=["a", "c"], rug=False)


def sums(rows, protection):
    table = private(rows, protection)
    hint = len(rows) if table.neighbours.rows_public else 10
    setting = Setting(DOMAIN, MODEL.output, table.neighbours, hint, hint, model=MODEL)
    spec = pdp.resolve(REQUEST, setting, pure(1))
    wild = ClassPredictor(Wild().predict_proba, list("abc"), DOMAIN, False, 16, columns=4)
    kernel = partial(pdp.statistic, predictor=wild, spec=spec)
    gate = Gate(table.door, pure(1))
    values = table.sum_rows(gate, kernel, list("abc"), size=spec.size, label="", parallel=False)
    table.ledger.close()
    return values, pdp.sensitivity(spec, table.neighbours)


class Sound(Wild):
    def predict_proba(self, rows):
        return np.nan_to_num(super().predict_proba(rows), nan=0.25)


@settings(max_examples=examples(25), deadline=None)
@given(neighbours())
def test_one_unit_moves_all_curves_at_most_as_far_as_the_bound(case):
    protection, rows, other = case
    (left, bound), (right, _) = sums(rows, protection), sums(other, protection)
    assert within(norms(left - right), bound)


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=2, max_size=2))
def test_two_outcomes_are_no_further_apart_than_one_range(pair):
    for kind in ("score", "class"):
        outcome = Outcome.of_classes(OUTPUT, kind, None, 3)
        one, other = (outcome.quantized(np.array([line])) for line in pair)
        assert 0 <= apart(one, other)[0] <= K
    sure = np.eye(3)
    outcome = Outcome.of_classes(OUTPUT, None, None, 3)
    assert apart(outcome.quantized(sure[:1]), outcome.quantized(sure[1:2])).tolist() == [K]


def test_the_probability_of_the_own_class_belongs_to_the_row_alone():
    domain = dpx.Domain({**DOMAIN, "t": dpx.Categorical(["q", "unknown", "p"])})
    every = checked_classes(dpx.Model(Sound(), output=(0, 1), features=list("abc"), as_array=False), domain)
    own = OwnClass(every, "t", ["p", "q", "r", "s"])
    columns = {"a": np.array([0.0, 3, 1]), "b": np.zeros(3), "c": np.array([0, 1, 1]), "t": np.array([0, 1, 2])}
    rows = Rows(domain, columns, 3)
    said = np.clip(every.predict_at(every.inputs(rows), {}), 0, 1)
    assert own.predict_at(own.inputs(rows), {}).tolist() == [said[0, 1], 0.0, said[2, 0]]
