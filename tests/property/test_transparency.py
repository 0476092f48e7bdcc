"""Change one unit: counts and outcomes move at most as far as their sensitivity says, and some change moves them that
far. And the arithmetic behind intervals: bounds over boxes hold for everything inside.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Relation
from dpexplain.methods import histogram as histograms
from dpexplain.methods.influence.person import Amounts, runs_of, span
from dpexplain.methods.setting import Setting
from dpexplain.methods.transparency import release as transparency
from dpexplain.methods.transparency import result as results
from dpexplain.methods.transparency.release import TransparencyRequest
from dpexplain.methods.transparency.result import Estimate, information
from dpexplain.models import Predictor
from dpexplain.models.outcomes import Asker
from neighbouring import DOMAIN, neighbours, norms, private, within
from rings import examples
from stubs import rows_of

COLUMNS = ["a", "b", "c"]


def wild(rows: pd.DataFrame) -> np.ndarray:
    """Not additive, leaves the output range, fails on some rows."""
    a, b = rows["a"].to_numpy(), rows["b"].to_numpy()
    value = 0.5 + np.sin(5 * a + 2 * b) + (rows["c"] == "y").to_numpy() * b
    return np.where(b > 0.97, np.nan, value)


def sums(rows, protection, *, model=wild, **options):
    """The exact integers of the statistic, and what they are bounded by."""
    table = private(rows, protection)
    output = dpx.Model(model, output=(0, 1)).output
    request = TransparencyRequest(cells=5, **options)
    spec = transparency.resolve(request, Setting(DOMAIN, output, table.neighbours, 1_000, None), pure(1))
    asker = Asker(Predictor(model, COLUMNS, DOMAIN, as_array=False), spec.outcome)
    found = np.zeros(2 * histograms.size_of(spec.partitions), dtype=np.int64)
    for batch in rows_of(table, Gate(table.door, pure(1)), COLUMNS):
        found += transparency.statistic(batch, asker, spec)
    table.ledger.close()
    return found, spec, table.neighbours


def bounds(spec, relation):
    return histograms.sensitivity(spec.partitions, relation), transparency.sensitivity(spec, relation)


@settings(max_examples=examples(60), deadline=None)
@given(neighbours(), st.sampled_from(["class", "score"]))
def test_no_unit_moves_them_further_than_their_sensitivity(pair, outcome):
    protection, one, two = pair
    left, spec, relation = sums(one, protection, outcome=outcome)
    right, _, _ = sums(two, protection, outcome=outcome)
    change, (counts, outcomes) = right - left, bounds(spec, relation)
    assert within(norms(change[: histograms.size_of(spec.partitions)]), counts)
    assert within(norms(change[histograms.size_of(spec.partitions) :]), outcomes)


KEEP = [((0, -1.0, "x"), 0), ((1, -0.5, "y"), 1)]
UNIT = {"unit": dpx.Unit("id", 2)}
ZERO, ONE = (2, -1.0, "x"), (2, 0.9, "x")  # in other cells of b; as `by_b` has it, with the outcomes zero and one


def by_b(rows: pd.DataFrame) -> np.ndarray:
    return (rows["b"].to_numpy() > 0).astype(float)


@pytest.mark.parametrize(
    ("protection", "left", "right"),
    [
        ({"relation": "add-remove"}, KEEP, [*KEEP, (ONE, 5)]),
        ({"relation": "add-remove", **UNIT}, KEEP, [*KEEP, (ONE, 5), (ONE, 5)]),
        ({"relation": "replace-one"}, [*KEEP, (ZERO, 5)], [*KEEP, (ONE, 5)]),
        ({"relation": "replace-one", **UNIT}, [*KEEP, (ZERO, 5), (ZERO, 5)], [*KEEP, (ONE, 5), (ONE, 5)]),
    ],
    ids=str,
)
@pytest.mark.parametrize("features", [["a", "c"], ["a"]])
def test_the_bounds_of_the_outcomes_are_attained(protection, left, right, features):
    """The same cells of a and c, the other outcome: under replace-one every cell moves by the whole range."""
    before, spec, relation = sums(left, protection, model=by_b, features=features)
    after, _, _ = sums(right, protection, model=by_b, features=features)
    outcomes = bounds(spec, relation)[1]
    moved = (after - before)[histograms.size_of(spec.partitions) :]
    assert norms(moved) == (outcomes.l1, outcomes.l2_squared, outcomes.linf)
    K, k, p = spec.outcome.range.levels, relation.rows, len(features)
    assert outcomes.linf == (k * K if relation.relation is Relation.REPLACE_ONE else k * K // 2)
    assert outcomes.l1 == p * outcomes.linf


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_the_bounds_of_the_counts_are_attained(relation):
    other = ((3, 0.9, "z"), 5)
    left = [*KEEP, ((2, -1.0, "x"), 5)] if relation == "replace-one" else KEEP
    before, spec, neighbour = sums(left, {"relation": relation}, model=by_b)
    after, _, _ = sums([*KEEP, other], {"relation": relation}, model=by_b)
    counts = bounds(spec, neighbour)[0]
    assert norms((after - before)[: histograms.size_of(spec.partitions)]) == (counts.l1, counts.l2_squared, counts.linf)


def test_rows_that_the_model_fails_on_count_as_half():
    found, spec, _ = sums([((0, 0.98, "x"), 0), ((0, 0.99, "z"), 1)], {"relation": "replace-one"}, outcome="class")
    assert not found[histograms.size_of(spec.partitions) :].any()


# Arithmetic behind intervals ------------------------------------------------------------------------------------------

NUMBERS = st.lists(st.integers(-50, 200), min_size=5, max_size=5)
WEIGHTS = st.lists(st.floats(-2, 2), min_size=3, max_size=3)
SLICES = {"a": slice(0, 3), "b": slice(3, 5)}


@given(NUMBERS, WEIGHTS, st.one_of(st.none(), st.floats(1, 500)))
def test_sums_over_cells_are_linear_and_complements_add_up(numbers, weights, total):
    values, weight = np.array(numbers, dtype=float), np.array(weights)
    amounts = Amounts(values, Noise(Law.LAPLACE, 5, 3), SLICES, total)
    value, coefficients = amounts.line({"a": weight})
    other, _ = amounts.line({"a": 1 - weight})
    assert value + other == pytest.approx(amounts.total, abs=1e-6)
    moved = Amounts(values + np.arange(5.0), amounts.noise, SLICES, total)
    assert moved.line({"a": weight})[0] - value == pytest.approx(coefficients @ np.arange(5.0), abs=1e-6)


@given(NUMBERS, WEIGHTS, st.booleans())
def test_means_move_as_their_coefficients_say(numbers, weights, known):
    values = np.array(numbers, dtype=float) + 300
    amounts = Amounts(values, Noise(Law.LAPLACE, 5, 3), SLICES, 800.0 if known else None)
    value, coefficients = amounts.mean({"a": np.array(weights)})
    step = 1e-4 * np.array([1.0, -2.0, 0.5, 1.5, 3.0])
    moved = Amounts(values + step, amounts.noise, SLICES, amounts.public_total).mean({"a": np.array(weights)})[0]
    assert moved - value == pytest.approx(coefficients @ step, abs=1e-9)


@given(st.lists(st.sampled_from([0.0, 0.25, -1.5]), min_size=1, max_size=12))
def test_runs_are_read_back(numbers):
    runs = runs_of(np.array(numbers))
    assert [number for length, number in runs for _ in range(int(length))] == numbers


@given(st.floats(-100, 100), st.floats(0, 60))
def test_spans_are_rounded_outwards(low, width):
    said = span(low, low + width, 0.1)
    if said.startswith("about"):
        assert float(said.removeprefix("about ")) == pytest.approx(low + width / 2, rel=0.01, abs=0.06)
        assert width <= 0.2
    else:
        first, last = (float(end) for end in said.split(" to "))
        assert first <= low + 1e-6
        assert low + width <= last + 1e-6
        assert last - first <= 3.5 * width + 0.3


UNIT_INTERVAL = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)).map(sorted)


def estimate(ends) -> Estimate:
    return Estimate(ends[1], ends[0], ends[2])


@settings(max_examples=examples(300))
@given(UNIT_INTERVAL, UNIT_INTERVAL, UNIT_INTERVAL)
def test_measures_lie_between_the_ends_of_their_intervals(inside, outside, share):
    """Any point of the box may be the true one: the middle one stands for it."""
    for measure in (results._jaccard, results._correlation, results._ratio):
        found = results._over_box(measure, estimate(inside), estimate(outside), estimate(share))
        assert found.low - 1e-4 <= found.value <= found.high + 1e-4


@settings(max_examples=examples(300))
@given(st.lists(UNIT_INTERVAL, min_size=2, max_size=4), st.lists(st.floats(0.01, 1), min_size=4, max_size=4), st.data())
def test_information_lies_between_the_ends_of_its_interval(rates, weights, data):
    """For the shares and rates of any table whose numbers lie in the intervals, not only for the estimates."""
    q = np.array(weights[: len(rates)]) / sum(weights[: len(rates)])
    seen = np.clip(q * [1 + data.draw(st.floats(-0.2, 0.2)) for _ in rates], 0, 1)
    shares = [Estimate(float(s), min(float(s), 0.9 * t), max(float(s), 1.1 * t)) for s, t in zip(seen, q, strict=True)]
    p = np.array([data.draw(st.floats(low, high)) for low, _, high in rates])
    middle = float(q @ p)
    truth = float(q @ results._kl(p, middle))
    found = information([estimate(ends) for ends in rates], shares)
    assert found.low <= truth + 1e-7
    assert truth <= found.high + 1e-9
    assert 0 <= found.low <= found.value <= found.high <= max(math.log(2), found.value)
