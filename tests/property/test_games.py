"""Whatever outcomes a row has, its influences stay within the norms of the plan, and some outcomes reach them.

Whole numbers throughout, after rounding: at corners of {0..levels}^columns, where linear maps are largest, and inside.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.data.groups import Group
from dpexplain.maths.games import coalitions_plan, exact_plan, norms, orders_plan, sets_plan
from dpexplain.models import Predictor
from dpexplain.models.outcomes import Asker, Outcome
from neighbouring import DOMAIN, neighbours, private, wild, within
from neighbouring import norms as norms_of
from rings import examples
from stubs import rows_of

LEVELS = [2, 4, 6, 14, 2**20, 2**32 - 2]


@st.composite
def any_plan(draw):
    """A small plan of each kind."""
    M, draws, samples = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 7))
    kind, seed = draw(st.sampled_from(["shapley", "banzhaf", "orders", "coalitions", "sets"])), draw(st.integers(0, 99))
    if kind in ("shapley", "banzhaf"):
        return exact_plan(min(M, 4), kind, draws)
    if kind == "orders":
        return orders_plan(M, samples, draws, seed)
    if kind == "coalitions":
        return coalitions_plan(M, samples, draws, seed)
    fixed = draw(st.integers(0, 2**M - 2))
    masks = draw(st.lists(st.integers(1, 2**M - 1).filter(lambda mask: mask | fixed != fixed), min_size=1, max_size=5))
    return sets_plan(M, masks, draws, fixed)


def uphill(plan, starts, rounds=12):
    """Corners with long influence vectors: s = sign(A' u) makes u = A s longer, again and again."""
    A, u = plan.weights / plan.denominator, np.atleast_2d(starts)
    for _ in range(rounds):
        signs = np.where(u @ A >= 0, 1.0, -1.0)
        u = signs @ A.T
    return signs


def tried(plan, levels, rng):
    """Outcomes that make influences large, all corners where they are few, and some that are anything."""
    columns = len(plan.masks)
    starts = np.concatenate([rng.normal(size=(60, plan.size)), rng.choice([-1.0, 1.0], size=(60, plan.size))])
    corners = [(uphill(plan, starts) > 0).astype(np.int64), np.where(plan.weights > 0, 1, 0)]
    # the signs of sums of influences, where the sum of absolute values is largest
    corners.append((rng.choice([-1, 1], size=(200, plan.size)) @ plan.weights > 0).astype(np.int64))
    if columns <= 12:
        corners.append(np.array(list(itertools.product([0, 1], repeat=columns)), dtype=np.int64))
    inside = rng.integers(0, levels + 1, size=(200, columns))
    return np.concatenate([levels * np.concatenate(corners), inside])


def largest(plan, outcomes):
    found = plan.divided(outcomes @ plan.weights.T).astype(object)  # squares of Python integers never wrap around
    return int(abs(found).sum(axis=1).max()), int((found * found).sum(axis=1).max()), int(abs(found).max())


def assert_within(plan, levels, rng):
    l1, l2_squared, linf = largest(plan, tried(plan, levels, rng))
    bound = norms(plan, levels)
    assert l1 <= bound.l1
    assert l2_squared <= bound.l2_squared
    assert linf == bound.linf


@settings(max_examples=examples(150), deadline=None)
@given(any_plan(), st.sampled_from(LEVELS), st.integers(0, 2**32))
def test_no_outcomes_go_beyond(plan, levels, seed):
    assert_within(plan, levels, np.random.default_rng(seed))


BIGGER = [
    exact_plan(7, "shapley", 2),
    exact_plan(9, "banzhaf", 1),
    orders_plan(9, 31, 4, 0),
    orders_plan(13, 60, 1, 1),
    orders_plan(20, 10, 2, 2),
    coalitions_plan(13, 101, 3, 3),
    sets_plan(20, [1 << j for j in range(20)], 2),
    sets_plan(8, [3 << j for j in range(7)], 3, given=1 << 7),
]


@pytest.mark.parametrize("plan", BIGGER, ids=lambda p: f"{p.inputs}-{len(p.masks)}")
@pytest.mark.parametrize("levels", [2, 2**20])
def test_no_outcomes_of_bigger_plans_go_beyond(plan, levels):
    assert_within(plan, levels, np.random.default_rng(1))


SMALL = {
    "shapley 1": exact_plan(1, "shapley", 1),
    "shapley 2": exact_plan(2, "shapley", 1),
    "shapley 3": exact_plan(3, "shapley", 1),
    "banzhaf 3": exact_plan(3, "banzhaf", 1),
    "orders": orders_plan(4, 2, 1, 0),
    "odd orders": orders_plan(3, 5, 2, 0),
    "sets": coalitions_plan(4, 6, 1, 1),
    "single": sets_plan(3, [1, 2, 4], 2),
    "given": sets_plan(3, [2, 4], 2, given=1),
}


@pytest.mark.parametrize("plan", SMALL.values(), ids=SMALL.keys())
def test_all_three_norms_are_reached(plan):
    """Where the levels leave nothing to round, and all corners can be tried."""
    levels = 2 * plan.denominator
    corners = levels * np.array(list(itertools.product([0, 1], repeat=len(plan.masks))), dtype=np.int64)
    bound = norms(plan, levels)
    assert largest(plan, corners) == (bound.l1, bound.l2_squared, bound.linf)


def test_an_influence_vector_can_be_longer_than_one_influence():
    """A bound of one for the Euclidean norm of Shapley values would be wrong from five inputs on."""
    plan, levels = exact_plan(5, "shapley", 1), 60 * 2**10
    found = largest(plan, tried(plan, levels, np.random.default_rng(0)))[1]
    assert found == norms(plan, levels).l2_squared > (1.01 * levels) ** 2


def by_the_formula(M):
    """The bound by weights for exact Shapley values, by hand: docs/methods/influence.md."""
    spread = math.sqrt(M / (M - 1)) * sum(1 / math.sqrt(s * (M - s)) for s in range(1, M))
    return math.sqrt(1 / M + spread**2 / 4)


@pytest.mark.parametrize(("M", "found"), [(8, 1.0400), (12, 1.0645), (13, 1.0695)])
def test_the_slack_of_exact_shapley_values(M, found):
    """Proven 1.18, 1.23, 1.24; the longest vectors that a search finds are 1.04, 1.065, 1.07."""
    plan, K = exact_plan(M, "shapley", 1), 2**20
    proven = math.sqrt(norms(plan, K).l2_squared) / K
    assert proven == pytest.approx(by_the_formula(M), rel=1e-6)
    # from directions with two values, which are the best that are known
    directions = [[1.0] * k + [c] * (M - k) for k in range(1, M) for c in (-1.0, -0.3, 0.1, 0.3)]
    longest = np.linalg.norm(uphill(plan, np.array(directions)) @ (plan.weights / plan.denominator).T, axis=1).max() / 2
    assert found < longest < proven < longest * math.sqrt(math.pi / 2)


@pytest.mark.parametrize("M", [6, 10, 13])
def test_banzhaf_values_are_no_longer_than_one(M):
    K = 2**20
    assert math.sqrt(norms(exact_plan(M, "banzhaf", 1), K).l2_squared) == pytest.approx(K, rel=1e-8)


@pytest.mark.parametrize(("samples", "proven", "found"), [(100, 2.376, 2.07), (1_000, 1.879, 1.62)])
def test_the_slack_of_drawn_orders(samples, proven, found):
    """A search that goes on longer finds 2.09 and 1.64."""
    plan, K = orders_plan(13, samples, 1, 1), 2**20
    assert math.sqrt(norms(plan, K).l2_squared) / K < proven
    starts = np.random.default_rng(0).normal(size=(100, 13))
    assert np.linalg.norm(uphill(plan, starts) @ (plan.weights / plan.denominator).T, axis=1).max() / 2 > found


NAMES = ["a", "b", "c"]
TABLE_PLANS = {
    "single": sets_plan(3, [1, 2, 4], 2),
    "given": sets_plan(3, [2, 4], 2, given=1),
    "shapley": exact_plan(3, "shapley", 2),
    "orders": orders_plan(3, 3, 2, 0),
    "coalitions": coalitions_plan(3, 3, 2, 0),
}
DRAWN = st.tuples(st.integers(0, 3), st.floats(-1, 1), st.integers(0, 2))


def sums(rows, protection, plan, values, kind, absolute, model=wild):
    """The influences of all rows, those of a group and those of the others in blocks of their own."""
    table = private(rows, protection)
    output = PublicRange(-2, 2)
    asker = Asker(Predictor(model, NAMES, DOMAIN, as_array=False), Outcome.of(output, kind))
    group, found = Group.of({"c": "y"}, DOMAIN), np.zeros((2, plan.size), dtype=np.int64)
    for batch in rows_of(table, Gate(table.door, pure(1)), NAMES):
        drawn = {
            "a": [np.full(batch.size, float(a)) for a, _, _ in values],
            "b": [np.full(batch.size, b) for _, b, _ in values],
            "c": [np.full(batch.size, c, dtype=np.int32) for _, _, c in values],
        }
        each = asker.influences(batch, plan, NAMES, drawn, absolute=absolute)
        member = group.member(batch)
        found += [each[member].sum(axis=0), each[~member].sum(axis=0)]
    table.ledger.close()
    return found, table.neighbours, asker.outcome.range.levels


@settings(max_examples=examples(50), deadline=None)
@given(
    neighbours(),
    st.sampled_from(list(TABLE_PLANS)),
    st.tuples(DRAWN, DRAWN),
    st.sampled_from(["class", "score"]),
    st.booleans(),
)
def test_neighbouring_tables(pair, name, values, kind, absolute):
    """A row adds to one block only, of its group or of the others; it may enter and leave."""
    protection, one, two = pair
    plan = TABLE_PLANS[name]
    left, relation, levels = sums(one, protection, plan, values, kind, absolute)
    right, _, _ = sums(two, protection, plan, values, kind, absolute)
    bound = norms(plan, levels)
    sensitivity = Sensitivity.of_norms(relation, l1=bound.l1, l2_squared=bound.l2_squared, linf=bound.linf)
    assert within(norms_of((left - right).ravel()), sensitivity)
    assert within(norms_of((left - right).sum(axis=0)), sensitivity)


def either(rows):
    """In the class for c = y or for b above zero, not for both: putting y in takes some in and others out."""
    return np.where((rows["c"] == "y") != (rows["b"] > 0), 2.0, -2.0)


@pytest.mark.parametrize(
    ("relation", "unit", "times"),
    [("add-remove", None, 1), ("replace-one", None, 2), ("add-remove", 2, 2), ("replace-one", 2, 4)],
)
def test_the_sensitivity_of_the_sums_is_reached(relation, unit, times):
    """From rows that leave the class to rows that enter it."""
    protection = {"relation": relation} if unit is None else {"relation": relation, "unit": dpx.Unit("id", unit)}
    leaves, enters = [((0, 0.5, "x"), 7)] * (unit or 1), [((0, -0.5, "x"), 7)] * (unit or 1)
    plan, values, rest = sets_plan(3, [4], 1), [(0, 0.0, 1)], [((0, 0.0, "x"), 1)]
    before = [] if relation == "add-remove" else enters
    one, neighbourhood, K = sums([*rest, *before], protection, plan, values, "class", False, either)
    two, _, _ = sums([*rest, *leaves], protection, plan, values, "class", False, either)
    bound = Sensitivity.of_norms(neighbourhood, l1=K, l2_squared=K**2, linf=K)
    assert (
        norms_of((two - one).ravel())
        == (bound.l1, bound.l2_squared, bound.linf)
        == (times * K, (times * K) ** 2, times * K)
    )
