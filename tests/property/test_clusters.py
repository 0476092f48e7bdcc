"""Change one unit: no score of attributes or of combinations moves outside its range, no histogram further than its
bound, and some change moves them that far.

Random tables go the real way from raw rows to whole numbers, and adversarial ones are made of counts, so that every
cluster can look at another attribute and be as large as it takes.
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
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours
from dpexplain.maths.grids import partition_of
from dpexplain.methods.clusters import scores, spec, tables
from dpexplain.methods.clusters.scores import Scoring, Weights
from dpexplain.methods.clusters.spec import Cells
from neighbouring import DOMAIN, neighbours, norms, private, within
from rings import examples
from stubs import ADD_REMOVE, BOTH, REPLACE_ONE

PARTITIONS = tuple(partition_of(name, column, 4) for name, column in DOMAIN.items())
WEIGHTS = st.sampled_from([(1 / 3, 1 / 3, 1 / 3), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.3, 0.2), (0, 0.5, 0.5)])
CLUSTERS = 3


def assign(rows):
    """Three clusters that depend on two columns, and rows that are in none of them."""
    return (rows["a"].astype(np.int64) + rows["c"].astype(np.int64)) % (CLUSTERS + 1)


def options(attributes, clusters, uses):
    return [list(itertools.combinations(range(attributes), uses))] * clusters


def moved(before, after, scoring):
    """How long the ranges are in which scores change: of all combinations, and of the attributes of each cluster."""
    most = scores.most_rows(scoring)
    one, two = (scores.measure(tables, scoring.steps, most) for tables in (before, after))
    choices = options(len(before), scoring.clusters, scoring.uses)
    change = scores.listed_scores(two, scoring, choices) - scores.listed_scores(one, scoring, choices)
    single = scores.single_scores(two, scoring) - scores.single_scores(one, scoring)
    return int(change.max() - change.min()), single.max(axis=1) - single.min(axis=1), int(abs(change).max())


def assert_within(before, after, scoring, relation):
    combination, single, _ = moved(before, after, scoring)
    for bounds in ("tight", "paper"):
        assert combination <= scoring.combination_range(relation, bounds).length
        if scoring.cluster_unit:
            assert single.max() <= scoring.cluster_range(relation, bounds).length
    if scoring.cluster_unit:
        assert single.sum() <= scoring.joint_range(relation).length


def tables_of(rows, protection):
    table = private(rows, protection)
    kernel = partial(spec.statistic, assign=assign, partitions=PARTITIONS, clusters=CLUSTERS)
    size = spec.size_of(PARTITIONS, CLUSTERS)
    found = table.sum_rows(Gate(table.door, pure(1)), kernel, list("abc"), size=size, label="", parallel=False)
    table.ledger.close()
    return spec.tables_of(found, PARTITIONS, CLUSTERS), table.neighbours


@settings(max_examples=examples(100), deadline=None)
@given(neighbours(), WEIGHTS, st.integers(1, 2), st.data())
def test_one_unit_moves_scores_and_histograms_within_their_bounds(pair, weights, uses, data):
    protection, rows, other = pair
    before, relation = tables_of(rows, protection)
    after, _ = tables_of(other, protection)
    assert_within(before, after, Scoring(CLUSTERS, uses, Weights.of(weights)), relation)
    chosen = data.draw(st.tuples(*[st.sampled_from(list(itertools.combinations(range(3), uses)))] * CLUSTERS))
    cells = Cells(tuple(p.size for p in PARTITIONS), chosen, gaussian=data.draw(st.booleans()))
    change = cells.histograms(after) - cells.histograms(before)
    assert within(norms(change), spec.sensitivity(relation, cells.own, uses, len(cells.attributes)))


@settings(max_examples=examples(100), deadline=None)
@given(neighbours())
def test_one_unit_moves_the_counts_of_everything_within_their_bound(pair):
    protection, rows, other = pair
    before, relation = tables_of(rows, protection)
    after, _ = tables_of(other, protection)
    change = np.concatenate([(two - one).ravel() for one, two in zip(before, after, strict=True)])
    assert within(norms(change), tables.sensitivity(PARTITIONS, relation))


@pytest.mark.parametrize("protection", BOTH)
def test_a_row_in_another_cell_of_every_attribute_moves_the_counts_as_far_as_their_bound(protection):
    """One cell of each of three tables, or two where it is replaced: no less than the bound of `of_counts`."""
    bound = tables.sensitivity(PARTITIONS, protection)
    change = np.zeros(2 * len(PARTITIONS), dtype=np.int64)
    change[::2] = 1
    if protection is REPLACE_ONE:
        change[1::2] = -1
    assert (bound.l1, bound.l2_squared, bound.linf) == (abs(change).sum(), (change**2).sum(), abs(change).max())


# Tables of counts ---------------------------------------------------------------------------------------------------


def with_row(tables, cluster, values, times=1):
    """The same tables with one row more (or less): its value of each attribute."""
    changed = [table.copy() for table in tables]
    for table, value in zip(changed, values, strict=True):
        table[cluster, value] += times
    return changed


@st.composite
def counted(draw):
    """Random tables of counts of two to four clusters with the same cluster sizes, some cells nearly empty or huge."""
    clusters, attributes = draw(st.integers(2, 4)), draw(st.integers(2, 4))
    sizes = draw(st.lists(st.sampled_from([0, 1, 2, 7, 50, 1000]), min_size=clusters + 1, max_size=clusters + 1))
    tables = []
    for _ in range(attributes):
        values = draw(st.integers(2, 4))
        table = np.zeros((clusters + 1, values), dtype=np.int64)
        for c, size in enumerate(sizes):
            cuts = sorted(draw(st.integers(0, size)) for _ in range(values - 1))
            table[c] = np.diff([0, *cuts, size])
        tables.append(table)
    row = st.tuples(st.integers(0, clusters), st.tuples(*[st.integers(0, t.shape[1] - 1) for t in tables]))
    return tables, draw(row), draw(row)


@settings(max_examples=examples(300), deadline=None)
@given(counted(), WEIGHTS, st.integers(1, 2))
def test_ranges_hold_for_any_counts(made, weights, uses):
    tables, (cluster, values), (other, new) = made
    scoring = Scoring(len(tables[0]) - 1, uses, Weights.of(weights))
    one = with_row(tables, cluster, values)
    assert_within(tables, one, scoring, ADD_REMOVE)
    assert_within(one, with_row(tables, other, new), scoring, REPLACE_ONE)


def minima(tables, scoring):
    """What the paper's score has besides: the smaller of the two sizes for every pair of explanations, in its units."""
    sizes = tables[0][:-1].sum(axis=1).tolist()
    pairs = itertools.combinations([n for n in sizes for _ in range(scoring.uses)], 2)
    return scoring.factors[2] * scoring.steps * sum(map(min, pairs))


@settings(max_examples=examples(200), deadline=None)
@given(counted(), WEIGHTS, st.integers(1, 2), st.sampled_from([1, 3, 900, 10**6]))
def test_with_the_minima_no_score_moves_by_more_than_one_row(made, weights, uses, most):
    """The paper's bound, rounded down and cut: what `combination_range` takes if smaller."""
    tables, (cluster, values), _ = made
    scoring = Scoring(len(tables[0]) - 1, uses, Weights.of(weights))
    after = with_row(tables, cluster, values)
    choices = options(len(tables), scoring.clusters, uses)
    one, two = (scores.listed_scores(scores.measure(t, scoring.steps, most), scoring, choices) for t in (tables, after))
    change = two - one + minima(after, scoring) - minima(tables, scoring)
    assert abs(change).max() <= scoring.unit


@settings(max_examples=examples(300), deadline=None)
@given(counted(), WEIGHTS, st.integers(1, 2), st.integers(1, 3), st.data())
def test_ranges_hold_for_units_of_rows(made, weights, uses, k, data):
    """Up to k rows come (add-remove), or up to k leave and up to k others come (replace-one)."""
    tables, *_ = made
    scoring = Scoring(len(tables[0]) - 1, uses, Weights.of(weights))
    row = st.tuples(st.integers(0, scoring.clusters), st.tuples(*[st.integers(0, t.shape[1] - 1) for t in tables]))
    leaving, coming = (data.draw(st.lists(row, max_size=k)) for _ in range(2))
    before = after = tables
    for cluster, values in leaving:
        before = with_row(before, cluster, values)
    for cluster, values in coming:
        after = with_row(after, cluster, values)
    unit = dpx.Unit("id", k)
    assert_within(before, after, scoring, Neighbours(REPLACE_ONE.relation, unit))
    assert_within(tables, after, scoring, Neighbours(ADD_REMOVE.relation, unit))


def own_values(clusters, seen, size=200_000, small=()):
    """Attributes over values (common, left, right): attribute i has `left` only in cluster seen[i][0], `right` only in
    cluster seen[i][1] (nowhere for None), so many times each that one more is a small part, and few among all rows.
    The clusters in `small` have a hundredth of the rows of the others.
    """
    sizes = [size // 100 if c in small else size for c in range(clusters)]
    tables = []
    for left, right in seen:
        table = np.array([[n, 0, 0] for n in [*sizes, 0]], dtype=np.int64)
        for value, where in ((1, left), (2, right)):
            if where is not None:
                table[where, [0, value]] += [-size // 250, size // 250]
        tables.append(table)
    return tables


# Every cluster looks at another attribute: the new row has the value that only cluster i has in attribute i.
JOINS = own_values(4, [(c, None) for c in range(4)], small=[0])
# (left, right): a row of cluster 0 with `left` everywhere becomes one of cluster 1 with `right` everywhere.
MOVES = own_values(3, [(2, 1), (0, 2)], small=[0, 1])
PAIRS = own_values(3, list(itertools.product([0, 1, 2, None], repeat=2)))


def levels(*left):
    """A table over two values with clusters of one size and so many rows of the second value in each."""
    return np.array([[10_000 - n, n] for n in left] + [[0, 0]], dtype=np.int64)


SHARED = [levels(0, 5000, 5000, 5000), levels(0, 0, 0, 0)] * 2  # twice: two attributes for each cluster can be shared
CROSSED = [levels(20, 60, 40, 40), levels(60, 20, 40, 40)] * 2
ONLY = {"interest": (1, 0, 0), "sufficiency": (0, 1, 0), "diversity": (0, 0, 1)}


def joined(tables):
    return tables, with_row(tables, 0, [1] * len(tables)), ADD_REMOVE


def replaced(tables, right):
    return with_row(tables, 0, [1] * len(tables)), with_row(tables, 1, [right] * len(tables)), REPLACE_ONE


@pytest.mark.parametrize(
    ("what", "uses", "pair"),
    [
        ("interest", 1, joined(JOINS)),
        ("sufficiency", 1, joined(JOINS)),
        ("diversity", 1, joined(SHARED)),
        ("diversity", 2, joined(SHARED)),
        ("interest", 1, replaced(MOVES, 2)),
        ("sufficiency", 1, replaced(PAIRS, 2)),
        ("diversity", 1, replaced(CROSSED, 1)),
        ("diversity", 2, replaced(CROSSED, 1)),
    ],
)
def test_the_range_of_every_measure_is_nearly_attained(what, uses, pair):
    before, after, relation = pair
    scoring = Scoring(len(before[0]) - 1, uses, Weights.of(ONLY[what]))
    bound = scoring.combination_range(relation, "tight").length
    combination, single, _ = moved(before, after, scoring)
    assert_within(before, after, scoring, relation)
    assert 0.97 * bound < combination <= bound
    if what != "diversity":
        assert single.sum() > 0.97 * scoring.joint_range(relation).length
        assert single.max() > 0.97 * scoring.cluster_range(relation, "tight").length


@pytest.mark.parametrize("relation", BOTH, ids=str)
def test_ranges_in_rows_are_those_of_the_proof(relation):
    """4 Int / C + Suf + 2 Div / (C - 1) for one row more where Suf counts for more than Div; 4 Int / C + 4 Div / C
    without Suf; 6 for 4 and the rest twice for one replaced; k times for k rows.
    """
    first, twice = (4, 1) if relation is ADD_REMOVE else (6, 2)
    for clusters, uses, k in ((2, 1, 1), (5, 1, 3), (9, 2, 1)):
        unit = None if k == 1 else dpx.Unit("id", k)
        pairs = uses * clusters - 1  # of one explanation
        both = Scoring(clusters, uses, Weights.of((0.5, 0.3, 0.2)))
        alone = Scoring(clusters, uses, Weights.of((0.5, 0, 0.5)))
        for scoring, rest in ((both, 0.3 + 2 * 0.2 / pairs), (alone, 4 * 0.5 * (clusters - 1) / clusters / pairs)):
            expected = k * (first * 0.5 / clusters + twice * rest)
            lengths = [
                scoring.combination_range(Neighbours(relation.relation, unit), bounds).length / scoring.unit
                for bounds in ("tight", "paper")
            ]
            assert expected * (1 - 1e-12) <= lengths[0] <= expected * 1.0001
            assert lengths[0] <= lengths[1] == k * (2 if relation is ADD_REMOVE else 4)


def few_of_own(clusters, size=20_000_000, few=2000):
    """Attribute c has a value that only cluster c has, which few of its rows have; all clusters but the last are small.

    A row with that value of every attribute joins cluster 0. The most is gained when all clusters use attribute 0 and
    the most is lost when each uses its own and cluster 0 that of the last one.
    """
    sizes = [*[size // 100] * (clusters - 1), size, 0]
    tables = []
    for c in range(clusters):
        table = np.array([[n, 0] for n in sizes], dtype=np.int64)
        table[c] += [-few, few]
        tables.append(table)
    return tables


@pytest.mark.parametrize("clusters", [2, 3, 5])
@pytest.mark.parametrize("weights", [(1 / 3, 1 / 3, 1 / 3), (0.5, 0.25, 0.25), (0, 0.5, 0.5)])
def test_the_range_of_all_measures_together_is_nearly_attained(clusters, weights):
    before, after, relation = joined(few_of_own(clusters))
    scoring = Scoring(clusters, 1, Weights.of(weights))
    assert_within(before, after, scoring, relation)
    assert moved(before, after, scoring)[0] > 0.99 * scoring.combination_range(relation, "tight").length


@pytest.mark.parametrize(("what", "tables"), [("interest", JOINS), ("diversity", SHARED)])
def test_the_smaller_of_two_bounds_is_nearly_attained_with_two_clusters(what, tables):
    """Only there rounding lifts our range above the paper's, which is attained."""
    pair = [table[[0, 1, -1]] for table in tables]
    before, after, relation = joined(pair)
    scoring = Scoring(2, 1, Weights.of(ONLY[what]))
    bound = scoring.combination_range(relation, "tight").length
    assert bound == scoring.combination_range(relation, "paper").length == 2 * scoring.unit
    assert 0.97 * bound < moved(before, after, scoring)[0] <= bound


def climb(draw, scoring, relation, tables, steps):
    """The largest spread that changing counts at random, never for less, arrives at; the row has the last values."""
    best, length = 0, scoring.combination_range(relation, "tight").length
    for _ in range(steps):
        tried = [table.copy() for table in tables]
        c = int(draw.integers(scoring.clusters))
        size = int(draw.choice([2, 20, 200, 2_000, 20_000])) if draw.random() < 0.3 else int(tables[0][c].sum())
        for table in tried:
            if draw.random() < 0.6 or table[c].sum() != size:
                part = int(draw.choice([0, 1, 5, 50, 500])) if draw.random() < 0.6 else size // 2
                table[c] = [size - min(part, size), min(part, size)]
        one, two, _ = joined(tried) if relation is ADD_REMOVE else replaced(tried, 1)
        spread = moved(one, two, scoring)[0]
        assert spread <= length
        if spread >= best:
            best, tables = spread, tried
    return best / length


@pytest.mark.parametrize("weights", [(1 / 3, 1 / 3, 1 / 3), (0.1, 0.1, 0.8), (0.5, 0, 0.5), (0, 0.2, 0.8)])
@pytest.mark.parametrize("relation", BOTH, ids=str)
@pytest.mark.parametrize("clusters", [2, 3])
def test_a_search_comes_near_the_range_and_never_beyond(clusters, relation, weights):
    """Fixed seeds, all combinations of three attributes at every step."""
    draw, scoring = np.random.default_rng(1), Scoring(clusters, 1, Weights.of(weights))
    start = [np.array([[100, 100]] * clusters + [[0, 0]], dtype=np.int64) for _ in range(3)]
    assert climb(draw, scoring, relation, start, 400) > 0.6


def test_a_unit_of_rows_moves_scores_as_far_as_its_rows_together():
    """Three rows come at once: three times the range is nearly attained too."""
    scoring = Scoring(4, 1, Weights.of(ONLY["sufficiency"]))
    three = Neighbours(ADD_REMOVE.relation, dpx.Unit("id", 3))
    after = with_row(JOINS, 0, [1] * 4, times=3)
    assert_within(JOINS, after, scoring, three)
    assert moved(JOINS, after, scoring)[0] > 0.97 * scoring.combination_range(three, "tight").length


@pytest.mark.parametrize("relation", BOTH, ids=str)
@pytest.mark.parametrize("gaussian", [False, True])
def test_the_bound_of_the_histograms_is_attained(relation, gaussian):
    tables = own_values(4, [(0, 1)] * 3, size=1000)
    cells = Cells((3, 3, 3), ((0,), (1,), (2,), (0,)), gaussian)
    left, right = with_row(tables, 0, [1, 1, 1]), with_row(tables, 1, [2, 2, 2])
    before = tables if relation is ADD_REMOVE else right
    change = cells.histograms(left) - cells.histograms(before)
    bound = spec.sensitivity(relation, cells.own, 1, 3)
    assert norms(change) == (bound.l1, bound.l2_squared, bound.linf)
    assert cells.own > 1


def test_cutting_scores_at_a_public_number_keeps_the_range():
    scoring = Scoring(4, 1, Weights.of((0.4, 0.3, 0.3)))
    for most in (1, 3, 900, 2100):
        one, two = (scores.measure(t, scoring.steps, most) for t in (JOINS, with_row(JOINS, 0, [1] * 4)))
        found = [scores.listed_scores(m, scoring, options(4, 4, 1)) for m in (one, two)]
        assert np.ptp(found[1] - found[0]) <= scoring.combination_range(ADD_REMOVE, "tight").length
        assert max(abs(f).max() for f in found) <= most * scoring.unit
