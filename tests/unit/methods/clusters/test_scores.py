"""The scores against the printed definitions, computed by pandas; whole numbers, weights, ranges."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from clustered import ATTRIBUTES, CLUSTERING, DOMAIN, LABELS, Printed, all_combinations, binned, people
from dpexplain.core.budget import pure
from dpexplain.core.combinations import UNIT
from dpexplain.core.release import Gate
from dpexplain.errors import InputError
from dpexplain.maths.grids import partition_of
from dpexplain.methods.clusters import scores, spec
from dpexplain.methods.clusters.request import Weights
from dpexplain.methods.clusters.scores import Scoring
from dpexplain.requests import Clusters
from stubs import combination_score

PARTITIONS = tuple(partition_of(name, DOMAIN[name], 10) for name in ATTRIBUTES)
THIRDS = (1 / 3, 1 / 3, 1 / 3)


def tables_of(table):
    kernel = partial(spec.statistic, assign=CLUSTERING.assign, partitions=PARTITIONS, clusters=3)
    found = table.sum_rows(
        Gate(table.door, pure(1)), kernel, [*ATTRIBUTES, "group"], size=spec.size_of(PARTITIONS, 3), label=""
    )
    return spec.tables_of(found, PARTITIONS, 3)


@pytest.fixture
def tables(make_table):
    return tables_of(make_table(people(), domain=DOMAIN))


def test_counts_are_those_of_pandas(tables):
    frame = binned(people())
    for attribute, table in zip(ATTRIBUTES, tables, strict=True):
        for line, label in zip(table, [*LABELS, "nobody"], strict=True):
            assert line[line > 0].tolist() == frame[frame["group"] == label].groupby(attribute).size().tolist()
        assert table.sum() == 3000  # nothing is lost


def test_values_outside_the_domain_are_counted_and_rows_of_no_cluster_too(make_table):
    frame = people(50)
    frame["kind"] = "unheard of"
    frame["age"] = 1000
    frame["group"] = "neither"  # not declared: the declared default, which is the first category
    age, _, kind, _ = tables_of(make_table(frame, domain=DOMAIN))
    assert age[0, -1] == age.sum() == 50
    assert kind[0, 0] == kind.sum() == 50


@pytest.mark.parametrize("uses", [1, 2])
@pytest.mark.parametrize("weights", [THIRDS, (0.5, 0.3, 0.2), (0, 0, 1)])
def test_scores_are_the_printed_ones(tables, weights, uses):
    """Up to the constant that all combinations share, and the rounding of every measure to a step."""
    printed_scores = Printed(binned(people()))
    scoring = Scoring(3, uses, Weights.of(weights))
    measures = scores.measure(tables, scoring.steps, scores.most_rows(scoring))
    found = scores.combination_scores(measures, scoring)
    numbers = all_combinations(range(4), 3, uses)
    names = [[[ATTRIBUTES[a] for a in mine] for mine in c] for c in numbers]
    printed = np.array([printed_scores.total(c, weights) for c in names])
    ours = np.array([combination_score(found, c) for c in numbers]) / scoring.unit
    np.testing.assert_allclose(ours - ours[0], printed - printed[0], atol=10 / scoring.steps)


def test_single_scores_are_the_printed_ones(tables):
    printed, scoring = Printed(binned(people())), Scoring(3, 1, Weights.of((0.25, 0.5, 0.25)))
    measures = scores.measure(tables, scoring.steps, scores.most_rows(scoring))
    found = scores.single_scores(measures, scoring) / scoring.cluster_unit
    for c, label in enumerate(LABELS):
        for a, name in enumerate(ATTRIBUTES):
            expected = printed.interest(label, name) / 3 + printed.sufficiency(label, name) * 2 / 3
            assert found[c, a] == pytest.approx(expected, abs=20 / scoring.steps)


def test_listed_scores_are_those_of_the_subsets(tables):
    scoring = Scoring(3, 2, Weights.of(THIRDS))
    measures = scores.measure(tables, scoring.steps, scores.most_rows(scoring))
    by_sets = scores.combination_scores(measures, scoring)
    choices = [[(0, 1), (1, 3)], [(0, 3), (1, 2), (0, 1)], [(2, 3)]]
    listed = scores.listed_scores(measures, scoring, choices)
    combos = [(x, y, z) for x in choices[0] for y in choices[1] for z in choices[2]]
    assert listed.tolist() == [combination_score(by_sets, c) for c in combos]


@pytest.mark.parametrize("rate", [Fraction(1, 1000), Fraction(2**20)])
def test_what_is_no_candidate_is_kept_apart_and_what_is_keeps_its_score(tables, rate):
    scoring = Scoring(3, 2, Weights.of(THIRDS))
    measures = scores.measure(tables, scoring.steps, scores.most_rows(scoring, float(rate), scores.CUT))
    free = scores.combination_scores(measures, scoring)
    candidates = [[3, 0, 1], [0, 1, 2], [2, 3, 1]]
    restricted = scores.among(free, candidates, rate)
    assert float(abs(restricted).max() * rate) < 2**61  # of what the sampler takes
    inside, outside = [], []
    for c in all_combinations(range(4), 3, 2):
        mine = combination_score(restricted, c)
        if all(set(a) <= set(own) for a, own in zip(c, candidates, strict=True)):
            assert mine == combination_score(free, c)
            inside.append(mine)
        else:
            outside.append(mine)
    assert len(inside) == 3**3
    assert (min(inside) - max(outside)) * rate >= scores.FAR * UNIT


def test_a_price_too_small_to_keep_them_apart_is_refused():
    with pytest.raises(InputError, match="by lot"):
        scores.apart(Fraction(1, 10**7))


def test_large_tables_are_scored_by_the_same_arithmetic(tables, monkeypatch):
    scoring = Scoring(3, 1, Weights.of(THIRDS))
    small = scores.measure(tables, scoring.steps, 10**6)
    monkeypatch.setattr(scores, "FIT", 1)
    large = scores.measure(tables, scoring.steps, 10**6)
    for name in ("interest", "sufficiency", "penalty"):
        assert np.array_equal(getattr(small, name), getattr(large, name))


def test_tables_of_many_billions_of_rows_neither_fail_nor_wrap_around():
    scoring = Scoring(2, 1, Weights.of(THIRDS))
    huge = [np.array([[2**40, 0], [0, 2**40], [0, 0]]), np.array([[2**40, 0], [2**40, 0], [0, 0]])]
    most = scores.most_rows(scoring, rate=1e-3)
    measures = scores.measure(huge, scoring.steps, most)
    found = scores.combination_scores(measures, scoring)
    assert found[0, 3] == found[0].max() > found[1, 3]
    assert abs(found).max() * 1e-3 < 2**60


def test_empty_tables_and_empty_clusters_score_nothing():
    scoring = Scoring(2, 1, Weights.of(THIRDS))
    none = [np.zeros((3, 2), dtype=np.int64)] * 2
    assert not scores.combination_scores(scores.measure(none, scoring.steps, 100), scoring).any()
    one = [np.array([[5, 0], [0, 0], [0, 0]]), np.array([[3, 2], [0, 0], [0, 0]])]
    measures = scores.measure(one, scoring.steps, 100)
    assert not measures.interest[1].any()
    assert not measures.sufficiency[1].any()
    assert not measures.penalty[0, 1].any()
    assert measures.sufficiency[0].tolist() == [5 * scoring.steps] * 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [(THIRDS, (1, 1, 1)), ((0.5, 0.25, 0.25), (2, 1, 1)), ((0.33, 0.33, 0.34), (33, 33, 34)), ((1, 0, 0), (1, 0, 0))],
)
def test_weights_are_whole_parts(given, expected):
    weights = Weights.of(given)
    assert weights == expected


@pytest.mark.parametrize(
    "given",
    [
        (0, 0, 0),
        (-0.5, 1, 0.5),
        (0.5, 0.5, 0.5),
        (0.5, 0.5),
        "abc",
        None,
        (float("nan"), 0.5, 0.5),
        (0.1234, 0.5, 0.3766),
    ],
)
def test_weights_that_are_none_are_refused(given):
    with pytest.raises(InputError, match="weights"):
        Clusters(weights=given)


def test_a_row_is_fine_enough_for_any_number_of_clusters():
    for clusters, uses in ((2, 1), (21, 1), (13, 2), (10, 3)):
        for weights in (THIRDS, (0.33, 0.33, 0.34)):
            scoring = Scoring(clusters, uses, Weights.of(weights))
            assert scoring.steps >= 2**10
            assert scores.most_rows(scoring) > 2**25
