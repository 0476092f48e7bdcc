"""What is refused before anything is paid, how the price is split, and what the receipt says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from clustered import ATTRIBUTES, CLUSTERING, DOMAIN, people, setting
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.errors import InputError, ModelError
from dpexplain.methods.clusters import release as explain
from dpexplain.methods.clusters.release import explain_clusters
from dpexplain.methods.clusters.spec import own_weight, sensitivity
from dpexplain.methods.registry import request_from_json
from dpexplain.models.clustering import Clustering
from dpexplain.requests import Clusters
from stubs import ADD_REMOVE, BOTH, REPLACE_ONE


@pytest.fixture
def table(make_table):
    return make_table(people(300), domain=DOMAIN, relation="add-remove", rows_hint=300)


def spent(table):
    return table.ledger.statement(table.name).spent.amount


BAD = [
    ({"weights": (1, 1, 1)}, "weights"),
    ({"weights": (-1, 1, 1)}, "weights"),
    ({"weights": (0, 0, 0)}, "weights"),
    ({"weights": (0, 0, 1), "method": "two-stage"}, "one of them needs a weight"),
    ({"per_cluster": 5}, "5 attributes for each cluster"),
    ({"candidates": 5, "method": "two-stage"}, "candidates=5"),
    ({"candidates": 1, "per_cluster": 2, "method": "two-stage"}, "candidates=1"),
    ({"epsilon": 1e-12, "method": "one-stage"}, "draw by lot|drown"),
    ({"epsilon": 1e-9, "method": "two-stage"}, "draw by lot|drown"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_input_is_refused_before_anything_is_paid(table, options, message):
    with pytest.raises(InputError, match=message) as error:
        explain_clusters(table, CLUSTERING, **{"attributes": ATTRIBUTES, "epsilon": 1, **options})
    assert "Nothing was spent" in str(error.value) or error.value.spent == ""
    assert spent(table) == 0


def fails(rows):
    raise RuntimeError("no such thing")


@pytest.mark.parametrize(
    ("clustering", "labels", "message"),
    [
        (fails, ["a", "b"], "fails on synthetic rows"),
        (np.zeros(300, dtype=int), None, "labels of rows"),
        (pd.Series([0] * 300), None, "labels of rows"),
        (lambda rows: np.zeros(3), ["a", "b"], "one label for each row"),
        (CLUSTERING, ["a", "b", "c"], "not those of the clustering"),
        (lambda rows: rows["sex"], ["F"], "at least two"),
    ],
)
def test_a_clustering_that_cannot_be_used_is_refused(table, clustering, labels, message):
    with pytest.raises((InputError, ModelError), match=message):
        explain_clusters(table, clustering, labels, epsilon=1)
    assert spent(table) == 0


def test_a_clustering_of_another_domain_is_refused(table):
    other = dpx.Domain({"group": dpx.Categorical(["odd", "young"])})
    made = Clustering.of(lambda rows: rows["group"], labels=["odd", "young"], domain=other, name="g", version="1")
    with pytest.raises(InputError, match="another declaration"):
        explain_clusters(table, made, epsilon=1)


def test_an_attribute_with_one_value_is_refused_by_name_and_left_out_otherwise(make_table):
    domain = dpx.Domain({**DOMAIN, "flat": dpx.Categorical(["x"])})
    table = make_table(people(300).assign(flat="x"), domain=domain, relation="add-remove", exact=True)
    with pytest.raises(InputError, match="one declared value"):
        explain_clusters(table, CLUSTERING, attributes=["age", "flat"], epsilon=1)
    result = explain_clusters(table, CLUSTERING, epsilon=1)
    assert [p.feature for p in result.partitions] == [*ATTRIBUTES, "group"]
    nothing = dpx.Domain({"flat": dpx.Categorical(["x"])})
    with pytest.raises(InputError, match="more than one value"):
        explain.resolve(Clusters(labels=["a", "b"]), setting(nothing, ADD_REMOVE), pure(1))


def test_too_many_clusters_are_refused_with_a_way_out_and_never_approximated():
    def resolved(**options):
        return explain.resolve(Clusters(labels=list(range(22)), **options), setting(DOMAIN, ADD_REMOVE), pure(1))

    with pytest.raises(InputError, match="two-stage"):
        resolved()
    with pytest.raises(InputError, match="fewer candidates"):
        resolved(method="two-stage")
    assert resolved(method="two-stage", candidates=1).candidates == 1


def test_without_numba_one_stage_is_refused_before_anything_is_paid(table, monkeypatch):
    monkeypatch.setattr(explain, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="numba"):
        explain_clusters(table, CLUSTERING, attributes=ATTRIBUTES, epsilon=1, method="one-stage")
    assert spent(table) == 0
    explain_clusters(table, CLUSTERING, attributes=ATTRIBUTES, epsilon=1, method="two-stage")


def test_everything_is_paid_by_one_price_and_asked_again_for_free(table):
    first = explain_clusters(table, CLUSTERING, attributes=ATTRIBUTES, epsilon=0.5)
    again = explain_clusters(table, CLUSTERING, attributes=ATTRIBUTES, epsilon=0.5)
    assert spent(table) == Fraction(1, 2)
    assert again.receipt.replayed
    assert again.values.tolist() == first.values.tolist()


@pytest.mark.parametrize("share", [0.25, Fraction(1, 3), None])
def test_a_request_there_and_back(share):
    request = Clusters(labels=[0, 1], attributes=["age"], weights=(0.5, 0.25, 0.25), selection_share=share)
    again = request_from_json(json.loads(json.dumps(request.to_json())))
    assert again.share == request.share == (None if share is None else Fraction(share))
    assert again.to_json() == request.to_json()


# Prices -------------------------------------------------------------------------------------------------------------


def spec_of(rows=None, cost=pure(1), neighbours=ADD_REMOVE, **options):  # noqa: B008 - a constant
    request = Clusters(labels=["a", "b", "c", "d"], **{"method": "one-stage", **options})
    return explain.resolve(request, setting(DOMAIN, neighbours, rows), cost)


@pytest.mark.parametrize("cost", [pure(1), zcdp(Fraction(1, 20))], ids=str)
def test_the_method_follows_from_the_forecast(cost):
    """One stage where half of the price loses at most a tenth of the largest score by forecast; else the posterior."""
    methods = [spec_of(rows, cost, method="auto").method for rows in (100, 300, 1_000, 10_000, 10_000_000)]
    assert methods[0] == "posterior"
    assert methods[-1] == "one-stage"
    assert methods == sorted(methods, reverse=True)  # it changes once
    assert spec_of(None, cost, method="auto").method == "one-stage"  # nobody knows the number of rows
    assert spec_of(100, cost, method="auto", bounds="paper").method == "one-stage"  # options of a choice with a price
    rows = next(n for n in range(100, 10**5, 100) if spec_of(n, cost, method="auto").method == "one-stage")
    lost = explain.shortfalls(spec_of(selection_share=Fraction(1, 2)), ADD_REMOVE, cost, 0.95)["combination"]
    assert rows - 100 <= lost * 4 / 0.1 <= rows


def test_the_choice_gets_what_it_needs():
    assert spec_of().selection_share == explain.UNKNOWN_ROWS_SHARE
    shares = [spec_of(rows).selection_share for rows in (100, 10_000, 30_000, 10_000_000)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == Fraction(1, 2)
    assert shares[-1] == Fraction(1, 10)
    for rows in (10_000, 30_000):  # the smallest that serves
        share = spec_of(rows).selection_share
        lost = explain.shortfalls(spec_of(selection_share=share), ADD_REMOVE, pure(1), 0.95)
        assert lost["combination"] <= 0.01 * rows / 4
    assert spec_of(selection_share=0.25).selection_share == Fraction(1, 4)
    assert spec_of(100, pure(Fraction(1, 10**6))).selection_share == Fraction(1, 2)


@pytest.mark.parametrize("method", ["one-stage", "two-stage"])
@pytest.mark.parametrize("cost", [pure(1), zcdp(1)], ids=str)
def test_the_parts_of_the_price_add_up(method, cost):
    spec = spec_of(method=method)
    choice, histograms = spec.costs(cost)
    total = histograms
    for part in choice:
        total = total + part
    assert total == cost


def test_the_scales_of_two_stages_are_the_published_ones():
    """2 k |C| / epsilon for the candidates, 2 / epsilon for the combination, in rows; half of the price for each."""
    spec = spec_of(method="two-stage", bounds="paper", selection_share=Fraction(1, 2))
    laws = explain.selection_laws(spec, ADD_REMOVE, pure(4))
    first, second = float(Fraction(laws["candidates-1"]["scale"])), float(Fraction(laws["combination"]["scale"]))
    assert first / spec.scoring.cluster_unit == pytest.approx(2 * 3 * 4 / 1)
    assert second / spec.scoring.unit == pytest.approx(2 / 1)


@pytest.mark.parametrize("neighbours", BOTH, ids=str)
@pytest.mark.parametrize("cost", [pure(1), zcdp(1)], ids=str)
def test_our_bounds_take_less_noise_than_the_published_ones(neighbours, cost):
    def lost(bounds):
        spec = spec_of(method="two-stage", bounds=bounds, selection_share=0.5)
        return explain.shortfalls(spec, neighbours, cost, 0.95)

    assert lost("tight")["candidates"] < lost("paper")["candidates"]
    assert lost("tight")["combination"] < lost("paper")["combination"]


def test_rho_is_split_between_clusters_where_that_is_better():
    spec = spec_of(method="two-stage")
    assert explain.together(spec, ADD_REMOVE, pure(1))
    assert not explain.together(spec, ADD_REMOVE, zcdp(1))


@pytest.mark.parametrize("clusters", [3, 5, 9])
@pytest.mark.parametrize("cost", [pure(1), zcdp(1)], ids=str)
def test_the_histograms_have_less_error_than_the_published_split(clusters, cost):
    """The paper: half of the price for the histograms of the clusters, half for one of all rows for each of the d
    attributes, and the rest by subtraction. Squared errors of shares, a cluster being a C-th of the rows.
    """
    gaussian = cost.definition == "zcdp"
    law = (Law.GAUSSIAN if gaussian else Law.LAPLACE).value

    def errors(inside, outside):
        return inside * clusters**2 + outside * (clusters / (clusters - 1)) ** 2

    for distinct in range(1, clusters + 1):
        own = own_weight(clusters, 1, distinct, gaussian)
        noise = best(sensitivity(ADD_REMOVE, own, 1, distinct), 10, cost, law).std ** 2
        sharing = clusters / distinct - 1  # other clusters with the same attribute
        ours = errors(noise / own**2, noise + sharing * noise / own**2)
        half = cost * Fraction(1, 2)
        cluster = best(Sensitivity.of_counts(ADD_REMOVE), 10, half, law).std ** 2
        everyone = best(Sensitivity.of_counts(ADD_REMOVE, distinct), 10, half, law).std ** 2
        assert ours < errors(cluster, everyone + cluster)


@pytest.mark.parametrize(
    ("distinct", "inside", "outside"),
    [(1, (1.4, 2.8), (3.0, 4.0)), (3, (2.4, 2.8), (7.3, 8.9)), (5, (2.8, 2.8), (11.3, 14.4))],
)
def test_the_deviations_that_the_page_on_clusters_names(distinct, inside, outside):
    """Epsilon 1, add-remove, 5 clusters: ours and the published split, as in the test above."""
    own, half = own_weight(5, 1, distinct, False), pure(Fraction(1, 2))
    noise = best(sensitivity(ADD_REMOVE, own, 1, distinct), 10, pure(1), Law.LAPLACE.value).std
    cluster = best(Sensitivity.of_counts(ADD_REMOVE), 10, half, Law.LAPLACE.value).std
    everyone = best(Sensitivity.of_counts(ADD_REMOVE, distinct), 10, half, Law.LAPLACE.value).std
    rest = math.hypot(noise, math.sqrt(5 / distinct - 1) * noise / own)
    assert (noise / own, cluster) == pytest.approx(inside, abs=0.05)
    assert (rest, math.hypot(everyone, cluster)) == pytest.approx(outside, abs=0.05)


def test_the_outlook_tells_the_noise_of_a_count():
    public = setting(DOMAIN, REPLACE_ONE, 1000)
    with pytest.raises(InputError, match="which clusters"):
        explain.outlook(Clusters(), public, pure(1))
    asked = Clusters(labels=["a", "b", "c"], attributes=ATTRIBUTES, selection_share=0.5)
    found = explain.outlook(asked, public, pure(1))
    # three different attributes: a row is in one own cell of weight 2 and in two rest cells, and is replaced
    assert found.std == pytest.approx(math.sqrt(2) * 2 * (2 + 2) / 0.5 / 2, rel=0.01)
    assert found.std < found.error < found.band
    assert explain.outlook(asked, public, pure(2)).error < found.error


def test_the_noised_stages_are_a_privacy_enabling_set():
    found = explain.diagram()
    assert found.noised in found.privacy_enabling_sets()


# Receipts -----------------------------------------------------------------------------------------------------------


def test_the_guarantee_names_the_price_of_the_clustering(make_table):
    """The sum of both prices is told where this account has released the clustering itself, and only there."""
    table = make_table(people(300), domain=DOMAIN, relation="add-remove", budget=dpx.Budget(5))
    other = make_table(people(300), domain=DOMAIN, relation="add-remove", budget=dpx.Budget(5))
    unit = make_table(
        people(300), domain=DOMAIN, relation="add-remove", budget=dpx.Budget(5), unit=dpx.Unit("person", 2)
    )
    assert "Public: the clustering, the names" in _explained(table, CLUSTERING).receipt.guarantee
    paid = dpx.dp_kmeans(table, 2, ["age", "income"], epsilon=0.5)
    found = _explained(table, paid).receipt.guarantee
    assert (
        "itself released with epsilon = 0.5 (pure) (clustering and explanation together: epsilon = 1 (pure))" in found
    )
    assert explain.OUTSIDE not in found
    stand_in = dpx.stand_in(table, features=["age", "income"], epsilon=0.25)
    paid = dpx.dp_kmeans(table, 2, ["age", "income"], epsilon=0.5, stand_in=stand_in)
    found = _explained(table, paid).receipt.guarantee
    assert "itself released with epsilon = 0.75 (pure), what it was computed from included, (clustering and" in found
    assert "explanation together: epsilon = 1.25 (pure))" in found
    for elsewhere in (other, unit):
        found = _explained(elsewhere, paid).receipt.guarantee
        assert "not checked here" in found
        assert "together" not in found
        assert explain.OUTSIDE in found


def test_a_forged_price_of_a_clustering_is_not_believed(make_table):
    table = make_table(people(300), domain=DOMAIN, relation="add-remove", budget=dpx.Budget(5))
    result = dpx.dp_kmeans(table, 2, ["age", "income"], epsilon=0.5).result
    cheap = replace(result.receipt, entry=replace(result.receipt.entry, charged=pure(Fraction(1, 1000))))
    forged = dpx.Clustering.of(replace(result, receipt=cheap), domain=DOMAIN)
    assert "not checked here" in _explained(table, forged).receipt.guarantee


def _explained(table, clustering):
    return explain.explain(table, clustering, Clusters(attributes=ATTRIBUTES), cost=pure(Fraction(1, 2)))
