"""Change one unit: the sums move at most as far as their sensitivity says, and some change moves them that far.

Every example runs the real path from raw rows to integers: cleaning, the first rows of each unit, groups, the model,
quantising. The values that a row takes instead of its own are the same in both tables, as the bounds suppose.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.release import Gate
from dpexplain.data.donors import by_pairing
from dpexplain.maths.games import coalitions_plan, exact_plan, norms, orders_plan
from dpexplain.methods.influence import forecast as forecasts
from dpexplain.methods.influence import release as qii
from dpexplain.methods.influence.release import InfluenceRequest
from dpexplain.methods.influence.spec import statistic
from dpexplain.methods.setting import Setting
from dpexplain.models.outcomes import Asker
from neighbouring import DOMAIN, ROW, VALUES, neighbours, private, within
from neighbouring import norms as lengths
from rings import examples
from stubs import Unshuffled, rows_of

COLUMNS = ["a", "b", "c"]
GROUP = {"a": (2, 3)}
SHARED = "0" * 64  # the payload hash of a performance
PEOPLE = [("average", None), ("group", GROUP), ("disparity", GROUP)]
SHAPES = [
    {},
    {"features": ["a", ("b", "c")]},
    {"features": ["a", "c"], "given": ["b"]},
    {"aggregate": "shapley"},
    {"aggregate": "banzhaf"},
    {"aggregate": "shapley", "samples": 5},
    {"aggregate": "banzhaf", "samples": 4},
    {"aggregate": "shapley", "exact": False},
    {"aggregate": "banzhaf", "exact": False},
]


def wild(rows: pd.DataFrame) -> np.ndarray:
    """Not additive, leaves the output range, fails on some rows."""
    a, b = rows["a"].to_numpy(), rows["b"].to_numpy()
    value = 0.5 + np.sin(5 * a + 2 * b) + (rows["c"] == "y").to_numpy() * b
    return np.where(b > 0.97, np.nan, value)


def resolved(protection, cost=None, rates=None, **options):
    relation = dpx.core.sensitivity.Relation(protection["relation"])
    who = dpx.core.sensitivity.Neighbours(relation, protection.get("unit"))
    request = InfluenceRequest(**options)
    output = dpx.Model(wild, output=(0, 1)).output
    setting = Setting(DOMAIN, output, who, 1_000, 1_000)
    if rates is not None:  # all that is read of a performance
        known = SimpleNamespace(receipt=SimpleNamespace(entry=SimpleNamespace(payload_hash=rates)))
        setting = replace(setting, performance=known)
    return forecasts.resolve(request, setting, cost or pure(1)), who


def sums(rows, protection, spec, values, model=wild, weights=None, orders=()):
    """The exact integers of the statistic; every row takes the same given values, in the same given orders."""
    table = private(rows, protection)
    asker = asker_of(model, spec)
    found = np.zeros(spec.size, dtype=np.int64)
    for batch in rows_of(table, Gate(table.door, pure(1)), COLUMNS):
        each = [np.tile(numbers, (batch.size, 1)) for numbers in orders]
        found += statistic(batch, asker, spec, repeated(values, batch.size), weights, each)
    table.ledger.close()
    return found


def asker_of(model, spec) -> Asker:
    predictor = dpx.models.Predictor(model, COLUMNS, DOMAIN, as_array=False)
    return Asker(predictor, spec.outcome)


def repeated(values, size):
    kinds = (np.float64, np.float64, np.int32)
    return {
        name: [np.full(size, draw[j], dtype=kind) for draw in values]
        for j, (name, kind) in enumerate(zip(COLUMNS, kinds, strict=True))
    }


DRAW = st.tuples(st.integers(0, 3), st.floats(-1, 1), st.integers(0, 2))


@settings(max_examples=examples(60), deadline=None)
@given(
    neighbours(),
    st.sampled_from(PEOPLE),
    st.sampled_from(SHAPES),
    st.sampled_from(["class", "score"]),
    st.sampled_from([pure(1), zcdp(1)]),
    st.integers(1, 3),
    st.booleans(),
    st.data(),
)
def test_sums_and_counts_move_within_the_bound(pair, people, shape, outcome, cost, draws, some, data):
    """Where only some rows are used, also those that public counts would have been known of are counted."""
    protection, one, two = pair
    quantity, group = people
    options = {"quantity": quantity, "group": group, "outcome": outcome, **shape}
    own = shape.get("exact") is False
    if "samples" not in shape and not own:
        options.update(samples=draws, exact=True if "aggregate" in shape else None)
    spec, who = resolved(protection, cost, **options)
    spec = replace(spec, draws=draws) if own else spec
    if some:
        spec = replace(spec, one_in=3, counts=spec.blocks, count_weight=spec.count_weight or spec.K)
    many = draws if own else spec.plan.most_draws
    values = data.draw(st.lists(DRAW, min_size=many, max_size=many))
    numbers = st.lists(st.integers(0, 99).map(lambda n: n / 100), min_size=3, max_size=3)
    orders = data.draw(st.lists(numbers, min_size=draws, max_size=draws)) if own else []
    weights = None
    if spec.single:  # draws that count alike, or points of a distribution
        shares = st.lists(st.integers(0, 2**30), min_size=len(values), max_size=len(values)).filter(any)
        weights = {
            name: np.array(each) for name, each in data.draw(st.dictionaries(st.sampled_from(COLUMNS), shares)).items()
        }
    left, right = (sums(rows, protection, spec, values, weights=weights, orders=orders) for rows in (one, two))
    change = left - right
    if change.any():
        assert within(lengths(change), qii.sensitivity(spec, who))


@settings(max_examples=examples(30), deadline=None)
@given(neighbours(), st.sampled_from(SHAPES[:2]), st.sampled_from([pure(1), zcdp(1)]), st.integers(1, 3), st.data())
def test_what_is_left_beside_a_performance_moves_within_the_bound(pair, shape, cost, draws, data):
    """Neither outcomes as they are nor counts are released: the bound is that of the influences alone."""
    protection, one, two = pair
    options = {"quantity": "disparity", "group": GROUP, "outcome": "class", "samples": draws, **shape}
    spec, who = resolved(protection, cost, SHARED, **options)
    assert spec.size == 2 * len(spec.items)
    values = data.draw(st.lists(DRAW, min_size=draws, max_size=draws))
    change = sums(one, protection, spec, values) - sums(two, protection, spec, values)
    if change.any():
        assert within(lengths(change), qii.sensitivity(spec, who))


# The bounds are attained ----------------------------------------------------------------------------------------------

OTHER = (0, -1.0, 0)  # what every row takes instead of its own values
FIRST, SECOND = (3, 1.0, "y"), (2, 0.5, "z")
CODE = {"x": 0, "y": 1, "z": 2}


def changed(row, mask):
    """A row with the inputs of a mask replaced, as the model sees it."""
    own = (row[0], row[1], CODE[row[2]])
    return tuple(float(OTHER[j] if mask >> j & 1 else own[j]) for j in range(3))


def answering(outcomes):
    """A model that is one for some rows with some inputs replaced, and zero otherwise."""
    ones = {changed(row, mask) for row, mask in outcomes}

    def model(rows: pd.DataFrame) -> np.ndarray:
        code = rows["c"].map(CODE).astype(float)
        seen = zip(rows["a"].astype(float), rows["b"].astype(float), code, strict=True)
        return np.array([float(row in ones) for row in seen])

    return model


def moved(before, after, protection, model, **options):
    """How far the sums move when `before` becomes `after`, and the bound."""
    spec, who = resolved(protection, samples=1, **options)
    keep = [((0, 0.0, "x"), 0), ((0, 0.0, "x"), 1)]
    rows = [[*keep, *((row, 99) for row in extra)] for extra in (before, after)]
    left, right = (sums(r, protection, spec, [OTHER], model) for r in rows)
    return lengths(right - left), qii.sensitivity(spec, who), spec


ONE = {"relation": "replace-one"}
ADDED = {"relation": "add-remove"}
UNITS = [{"relation": relation, "unit": dpx.Unit("id", 2)} for relation in ("replace-one", "add-remove")]
EACH = [1, 2, 4]  # one input replaced
FULL = answering([(FIRST, 0), *((SECOND, mask) for mask in EACH)])  # one before, zero after; and the other way round


def exactly(found, bound):
    assert found == (bound.l1, bound.l2_squared, bound.linf)


@pytest.mark.parametrize("cost", [pure(1), zcdp(1)])
def test_a_row_that_stays_in_its_group(cost):
    options = {"quantity": "group", "group": GROUP, "outcome": "class", "cost": cost}
    found, bound, spec = moved([FIRST], [SECOND], ONE, FULL, **options)
    exactly(found, bound)
    x, K = spec.base_weight, spec.K
    assert found == ((3 + x) * K, (3 + x * x) * K * K, x * K)


@pytest.mark.parametrize("protection", [ADDED, UNITS[1]])
@pytest.mark.parametrize("quantity", ["group", "disparity"])
def test_a_row_that_is_added(protection, quantity):
    k = 1 if protection is ADDED else 2
    found, bound, spec = moved([], k * [FIRST], protection, FULL, quantity=quantity, group=GROUP, outcome="class")
    exactly(found, bound)
    assert found[0] == k * ((3 + spec.base_weight) * spec.K // 2 + spec.count_weight)


def test_units_that_stay_in_their_group():
    found, bound, _ = moved(2 * [FIRST], 2 * [SECOND], UNITS[0], FULL, quantity="group", group=GROUP, outcome="class")
    exactly(found, bound)


@pytest.mark.parametrize("protection", [ONE, UNITS[0]])
def test_a_unit_that_goes_from_one_block_to_the_other(protection):
    """Attained in L1; no row can go and stay at the same time, which is what the other norms bound."""
    k = 1 if protection is ONE else 2
    options = {"quantity": "disparity", "group": {"a": 3}, "outcome": "class"}
    found, bound, spec = moved(k * [FIRST], k * [SECOND], protection, FULL, **options)
    assert found[0] == bound.l1 == k * ((3 + spec.base_weight) * spec.K + spec.counts * spec.count_weight)
    assert found[1] <= bound.l2_squared
    stay, stay_bound, _ = moved(k * [FIRST], k * [SECOND], protection, FULL, **{**options, "group": GROUP})
    assert stay[1:] == (stay_bound.l2_squared, stay_bound.linf)


@pytest.mark.parametrize(("protection", "k"), [(ONE, 1), (ADDED, 1), (UNITS[0], 2), (UNITS[1], 2)])
def test_beside_a_performance_the_bounds_are_attained(protection, k):
    options = {"quantity": "disparity", "outcome": "class", "rates": SHARED}
    if protection["relation"] == "add-remove":
        found, bound, spec = moved([], k * [FIRST], protection, FULL, group=GROUP, **options)
        exactly(found, bound)
        assert found == (3 * k * spec.K // 2, 3 * (k * spec.K // 2) ** 2, k * spec.K // 2)
        return
    stay, bound, spec = moved(k * [FIRST], k * [SECOND], protection, FULL, group=GROUP, **options)
    exactly(stay, bound)
    assert stay == (3 * k * spec.K, 3 * (k * spec.K) ** 2, k * spec.K)
    cross, bound, _ = moved(k * [FIRST], k * [SECOND], protection, FULL, group={"a": 3}, **options)
    assert cross[0] == bound.l1


@pytest.mark.parametrize(("protection", "k"), [(ONE, 1), (ADDED, 1), (UNITS[0], 2), (UNITS[1], 2)])
def test_the_average_of_a_row_that_always_changes(protection, k):
    before = [] if protection is not ONE else [(0, 0.0, "x")]  # never changes
    found, bound, spec = moved(before, k * [FIRST], protection, FULL, outcome="class")
    exactly(found, bound)
    assert found[2] == k * max(spec.count_weight, spec.K // (2 if protection["relation"] == "add-remove" else 1))


def patterns(plan):
    """For each norm, the outcomes of all sets of inputs that make a row's influences largest in it."""
    A = np.zeros((plan.size, 2**plan.inputs), dtype=np.int64)
    np.add.at(A.T, plan.masks, plan.weights.T)
    every = np.array(list(itertools.product([0, 1], repeat=2**plan.inputs)))
    found = every @ A.T / plan.denominator
    sizes = [np.abs(found).sum(axis=1), (found**2).sum(axis=1), np.abs(found).max(axis=1)]
    return [every[int(np.argmax(size))] for size in sizes]


@pytest.mark.parametrize("aggregate", ["shapley", "banzhaf"])
@pytest.mark.parametrize(("protection", "both"), [(ONE, True), (ADDED, False), (UNITS[0], True), (UNITS[1], False)])
def test_shared_values(aggregate, protection, both):
    """Two inputs are replaced; by the third one the model tells the rows apart. Attained up to rounding."""
    k = 1 if "unit" not in protection else 2
    options = {"aggregate": aggregate, "exact": True, "quantity": "group", "group": GROUP, "outcome": "class"}
    options["features"] = ["a", "b"]
    spec, _ = resolved(protection, **options)
    for norm, pattern in enumerate(patterns(spec.plan)):
        ones = [(FIRST, mask) for mask in range(4) if pattern[mask]]
        ones += [(SECOND, mask) for mask in range(4) if not pattern[mask]]  # the opposite influences
        before = k * [SECOND] if both else []
        found, bound, spec = moved(before, k * [FIRST], protection, answering(ones), **options)
        limit = (bound.l1, bound.l2_squared, bound.linf)[norm]
        assert (1 - 1e-4) * limit <= found[norm] <= limit


@pytest.mark.parametrize("aggregate", ["shapley", "banzhaf"])
@pytest.mark.parametrize("inputs", [2, 3])
def test_the_slack_of_shared_values(aggregate, inputs):
    """What a row adds attains the sum and the largest; the Euclidean bound, which is found by a search, nearly."""
    plan = exact_plan(inputs, aggregate, 1)
    best = patterns(plan)
    bound = norms(plan, 2**20)
    found = plan.divided(np.array(best)[:, plan.masks] * 2**20 @ plan.weights.T)
    assert np.abs(found[0]).sum() >= bound.l1 - 3
    assert (found[1] ** 2).sum() >= 0.97 * bound.l2_squared
    assert np.abs(found[2]).max() >= bound.linf - 3


@pytest.mark.parametrize("cost", [pure(1), zcdp(1)])
@pytest.mark.parametrize(("protection", "k"), [(ONE, 1), (ADDED, 1), (UNITS[0], 2), (UNITS[1], 2)])
def test_the_outcomes_of_both_groups_beside_what_is_given(protection, k, cost):
    """With `given`, the outcome as it is, the base and what is replaced all move as far as they can. Attained; but for
    the sum under replace-one, which a row attains that goes from one group to the other.
    """
    options = {"quantity": "disparity", "group": GROUP, "given": ["c"], "features": ["a", "b"], "outcome": "class"}
    ones = [(FIRST, 0), (FIRST, 4), (SECOND, 5), (SECOND, 6)]  # as it is, given c; and the other way round after
    before = k * [SECOND] if protection in (ONE, UNITS[0]) else []
    found, bound, spec = moved(before, k * [FIRST], protection, answering(ones), cost=cost, **options)
    assert spec.outcome_weight == 1
    assert found[1:] == (bound.l2_squared, bound.linf)
    assert found[0] == bound.l1 or before
    assert found[1] > qii.sensitivity(replace(spec, outcome_weight=0), bound.neighbours).l2_squared


@pytest.mark.parametrize(("aggregate", "inputs"), [("shapley", 3), ("shapley", 4), ("banzhaf", 3)])
def test_any_order_of_a_rows_own_has_the_same_bound(aggregate, inputs):
    """The bound is that of one pair; every pair of orders (or sets) has it, and some outcomes attain its largest."""
    make = orders_plan if aggregate == "shapley" else coalitions_plan
    plans = [make(inputs, 2, 1, seed) for seed in range(12)]
    bounds = {norms(plan, 2**20) for plan in plans}
    every = np.array(list(itertools.product([0, 2**20], repeat=len(plans[0].masks))))
    if aggregate == "shapley":
        assert len(bounds) == 1
    for plan in plans:
        found = plan.divided(every[:, : len(plan.masks)] @ plan.weights.T)
        assert np.abs(found).max() <= norms(make(inputs, 2, 1, 0), 2**20).linf
        assert (found**2).sum(axis=1).max() <= norms(make(inputs, 2, 1, 0), 2**20).l2_squared
        assert np.abs(found).sum(axis=1).max() <= norms(make(inputs, 2, 1, 0), 2**20).l1


def test_bounds_of_drawn_orders_hold_for_all_outcomes():
    """Every pattern of zeros and ones of the asked outcomes, for plans with several draws."""
    for plan in (orders_plan(3, 4, 2, 0), coalitions_plan(4, 6, 3, 1)):
        found = plan.divided(np.array(list(itertools.product([0, 64], repeat=len(plan.masks)))) @ plan.weights.T)
        bound = norms(plan, 64)
        assert np.abs(found).sum(axis=1).max() <= bound.l1
        assert (found**2).sum(axis=1).max() <= bound.l2_squared
        assert np.abs(found).max() <= bound.linf


# The published form ---------------------------------------------------------------------------------------------------


def paired(rows, spec, model=wild):
    table = private(rows, ONE)
    table.secrets = Unshuffled  # the same secret order for both neighbours
    asker = asker_of(model, spec)
    gathered = table.gathered(Gate(table.door, pure(1)), COLUMNS)
    found = np.zeros(spec.size, dtype=np.int64)
    for batch in by_pairing(gathered, spec.names, spec.plan.most_draws, spec.seed):
        found += statistic(batch.rows, asker, spec, batch.values)
    table.ledger.close()
    return found


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(ROW, min_size=2, max_size=8),
    VALUES,
    st.integers(0, 7),
    st.integers(0, 100),
    st.sampled_from(PEOPLE),
    st.sampled_from([{}, {"samples": 3}, {"given": ["b"], "features": ["a", "c"]}, {"aggregate": "shapley"}]),
)
def test_the_published_form(rows, values, place, seed, people, shape):
    quantity, group = people
    place %= len(rows)
    other = [*rows[:place], (values, 0), *rows[place + 1 :]]
    options = {"quantity": quantity, "group": group, "method": "paper", "seed": seed, "outcome": "class", **shape}
    spec, who = resolved(ONE, **options)
    change = paired(rows, spec) - paired(other, spec)
    if change.any():
        assert within(lengths(change), qii.sensitivity(spec, who))


SWAP = next(s for s in range(9) if dpx.data.PublicRandom(s).generator.permutation(2).tolist() == [1, 0])


def test_the_bound_of_the_published_form_is_attained():
    """Two rows exchange all values of `a`. Before, no outcome changes; after, both do: as a row and as a donor."""

    def equal(rows: pd.DataFrame) -> np.ndarray:
        return ((rows["a"] == 3).to_numpy() == (rows["c"] == "y").to_numpy()).astype(float)

    spec, who = resolved(ONE, method="paper", features=["a"], outcome="class", seed=SWAP)
    same = [((0, 0.0, "x"), 0), ((0, 0.0, "x"), 1)]
    left, right = paired(same, spec, equal), paired([same[0], ((3, 0.0, "y"), 1)], spec, equal)
    bound = qii.sensitivity(spec, who)
    assert (right - left).tolist() == [2 * spec.K]
    exactly(lengths(right - left), bound)
