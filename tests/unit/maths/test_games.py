"""Plans: what they refuse, which outcomes they ask for, exact whole numbers, and bounds at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpexplain.errors import InputError, InternalError
from dpexplain.maths import games as plans
from dpexplain.maths.games import Norms, coalitions_plan, exact_plan, norms, orders_plan, sets_plan

K = 2**20
TOP = 2**32 - 2  # the most levels there can be
SINGLES = [1, 2, 4, 8]


def every_kind():
    yield "one input", exact_plan(1, "shapley", 1)
    yield "one input, banzhaf", exact_plan(1, "banzhaf", 3)
    yield "shapley", exact_plan(4, "shapley", 2)
    yield "banzhaf", exact_plan(4, "banzhaf", 2)
    yield "one order", orders_plan(5, 1, 1, 0)
    yield "odd number of orders", orders_plan(5, 7, 2, 0)
    yield "more draws than orders", orders_plan(3, 2, 9, 0)
    yield "one set", coalitions_plan(5, 1, 1, 0)
    yield "odd number of sets", coalitions_plan(5, 5, 2, 0)
    yield "single inputs", sets_plan(4, SINGLES, 3)
    yield "sets that overlap", sets_plan(4, [3, 6, 15], 2)
    yield "given", sets_plan(4, [2, 4, 8], 3, given=1)
    yield "partly given", sets_plan(4, [3, 5], 2, given=1)
    yield "one set twice", sets_plan(4, [3, 3], 2)


PLANS = dict(every_kind())
all_plans = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())


@all_plans
def test_weights_of_a_line_add_up_to_zero_and_each_influence_reaches_one(plan):
    assert (plan.weights.sum(axis=1) == 0).all()
    assert (np.abs(plan.weights).sum(axis=1) == 2 * plan.denominator).all()
    assert norms(plan, K).linf == K


@all_plans
def test_the_row_as_it_is_does_not_depend_on_the_draw(plan):
    assert all(draw == 0 for draw, mask in zip(plan.draws, plan.masks, strict=True) if mask == 0)
    assert plan.asked == sum(mask != 0 for mask in plan.masks)


def test_how_much_is_asked():
    assert exact_plan(3, "shapley", 4).asked == 7 * 4
    assert exact_plan(3, "shapley", 4).most_draws == 4
    assert sets_plan(4, SINGLES, 3).asked == 12
    assert sets_plan(4, [2, 4], 3, given=1).asked == 9
    assert orders_plan(5, 2, 1, 0).asked == 9  # the order and its reverse share the full set
    assert orders_plan(3, 2, 9, 0).most_draws == 1


def test_pairs_take_turns_with_the_draws():
    assert set(orders_plan(4, 8, 3, 1).draws) == {0, 1, 2}
    assert set(coalitions_plan(6, 8, 3, 1).draws) == {0, 1, 2}


def test_an_order_comes_with_its_reverse_and_a_set_with_its_complement():
    plan = orders_plan(6, 2, 1, 3)
    assert {63 ^ mask for mask in plan.masks.tolist()} == set(plan.masks.tolist())
    plan = coalitions_plan(6, 8, 1, 3)
    assert {63 ^ mask for mask in plan.masks.tolist() if mask} <= {*plan.masks.tolist(), 0}


def test_the_seed_decides():
    one, same, other = (coalitions_plan(9, 20, 2, seed).masks.tolist() for seed in (1, 1, 2))
    assert one == same != other
    one, same, other = (orders_plan(9, 20, 2, seed).masks.tolist() for seed in (1, 1, 2))
    assert one == same != other


def test_the_smallest_denominator():
    assert exact_plan(13, "shapley", 1).denominator == math.lcm(*range(1, 14)) == 360_360
    assert exact_plan(13, "banzhaf", 2).denominator == 2**13


@pytest.mark.parametrize(
    "plan",
    [exact_plan(13, "shapley", 2), orders_plan(13, 1_000, 2, 0), sets_plan(4, SINGLES, 9)],
    ids=["all sets", "orders", "single inputs"],
)
def test_sums_are_exact_at_the_largest_outcomes(plan):
    """64 bits hold them: the same as with Python's integers, at the outcomes where a sum is largest."""
    for line in (0, plan.size - 1):
        for sign in (1, -1):
            outcomes = np.where(sign * plan.weights[line] > 0, TOP, 0)
            weighted = [sum(int(w) * int(o) for w, o in zip(row, outcomes, strict=True)) for row in plan.weights]
            exactly = [int(math.copysign(1, v)) * (abs(v) // plan.denominator) for v in weighted]
            assert plan.divided(outcomes[None, :] @ plan.weights.T).tolist() == [exactly]
            assert exactly[line] == sign * TOP
    assert norms(plan, TOP).linf == TOP


def test_weights_that_64_bits_could_not_hold_are_refused():
    with pytest.raises(InternalError, match="too large"):
        plans._plan(1, [(0, 0), (0, 1)], np.array([[2**30 - 1, 1 - 2**30], [2**31, 0]]), 1)
    largest = plans._plan(1, [(0, 0), (0, 1)], np.array([[2**30 - 1, 1 - 2**30]]), 3)
    assert largest.divided(np.array([[TOP, 0]]) @ largest.weights.T).tolist() == [[(2**30 - 1) * TOP // 3]]


def test_rounding_is_toward_zero():
    plan = exact_plan(3, "shapley", 1)
    assert plan.divided(np.array([-7, -6, -5, 0, 5, 6, 7])).tolist() == [-1, -1, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: exact_plan(14, "shapley", 1), "14 inputs is too long; 13"),
        (lambda: exact_plan(3, "Shapley", 1), "unknown aggregate"),
        (lambda: exact_plan(13, "shapley", 200), "1,638,400 outcomes"),
        (lambda: exact_plan(0, "shapley", 1), "at least one"),
        (lambda: exact_plan(3, "shapley", 0), "at least one"),
        (lambda: orders_plan(3, 0, 1, 0), "at least one"),
        (lambda: orders_plan(3, -5, 1, 0), "at least one"),
        (lambda: orders_plan(63, 10, 1, 0), "63 inputs are too many"),
        (lambda: orders_plan(20, 100_000, 2_000, 0), "2,000,000 outcomes"),
        (lambda: orders_plan(3, 10**7, 1, 0), "10,000,000 outcomes"),
        (lambda: coalitions_plan(3, 0, 1, 0), "at least one"),
        (lambda: coalitions_plan(3, 10**7, 1, 0), "outcomes of every row"),
        (lambda: sets_plan(3, [], 1), "no influence of its own"),
        (lambda: sets_plan(3, [1, 0], 1), "no influence of its own"),
        (lambda: sets_plan(3, [4, 3], 1, given=3), "no influence of its own"),
        (lambda: sets_plan(3, [1], 0), "at least one"),
        (lambda: sets_plan(3, [1], 10**7), "outcomes of every row"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_single_inputs_have_nothing_to_share():
    assert norms(sets_plan(4, SINGLES, 5), K) == Norms(4 * K, 4 * K**2, K)


def test_norms_do_not_depend_on_the_draws_of_an_exact_plan():
    for aggregate in ("shapley", "banzhaf"):
        assert norms(exact_plan(7, aggregate, 1), K) == norms(exact_plan(7, aggregate, 5), K)


def test_columns_along_one_line_are_one():
    weights = np.array([[1, -2, 0, 3, 0], [2, -4, 0, 0, 5]])
    merged = plans._merged(weights)
    assert sorted(map(tuple, np.abs(merged).T.tolist())) == [(0, 5), (3, 0), (3, 6)]


@all_plans
def test_a_bound_by_weights_lies_between_the_truth_and_a_quarter_more(plan, monkeypatch):
    true = norms(plan, K)
    monkeypatch.setattr(plans, "PATTERNS", 0)
    loose = norms(plan, K)
    assert loose.linf == true.linf
    assert true.l2_squared <= loose.l2_squared <= true.l2_squared * math.pi / 2 * (1 + 1e-6)
    assert true.l1 <= loose.l1 <= plan.size * true.l1


def test_many_signs_are_not_tried(monkeypatch):
    monkeypatch.setattr(plans, "WORK", 1)
    plan = exact_plan(6, "shapley", 1)
    found = norms(plan, K)
    assert found.l1 == pytest.approx(math.sqrt(6 * found.l2_squared), rel=0.01)
    assert found.l1 < 3 * K


def test_weights_of_very_different_sizes():
    """The search for weights never divides by nothing, whatever the columns are."""
    rng = np.random.default_rng(0)
    for spread in (0, 3, 9):
        weights = (rng.integers(-9, 10, size=(4, 30)) * 10.0 ** rng.integers(0, spread + 1, size=30)).astype(np.int64)
        bound = float(plans._euclidean_squared(weights))
        signs = np.sign(rng.normal(size=(2_000, 4)) @ weights)
        reached = ((signs @ weights.T.astype(float)) ** 2).sum(axis=1).max()
        assert reached <= bound <= 1.6 * reached


def test_norms_agree_with_each_other():
    for plan in PLANS.values():
        for levels in (2, 4, 6, K, TOP):
            found = norms(plan, levels)
            assert 0 < found.linf <= found.l1
            assert found.linf**2 <= found.l2_squared <= found.l1 * found.linf
