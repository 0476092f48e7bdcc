"""With a sampler that adds nothing, the choice is the best combination and the histograms are those of pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

import dpexplain as dpx
from chosen import rows_used
from clustered import ATTRIBUTES, CLUSTERING, DOMAIN, LABELS, Printed, all_combinations, binned, people
from dpexplain.methods.clusters import spec
from dpexplain.methods.clusters.release import explain_clusters

THIRDS = (1 / 3, 1 / 3, 1 / 3)
PROTECTIONS = [
    {"relation": "replace-one"},
    {"relation": "add-remove"},
    {"relation": "replace-one", "unit": dpx.Unit("person", 50)},
    {"relation": "add-remove", "unit": dpx.Unit("person", 50)},
]


@pytest.fixture(scope="module")
def frame():
    return people(1500)


@pytest.fixture(scope="module")
def best(frame):
    """The combination with the largest printed score, of one attribute and of two for each cluster."""
    printed = Printed(binned(frame))
    return {uses: max(all_combinations(ATTRIBUTES, 3, uses), key=lambda c: printed.total(c, THIRDS)) for uses in (1, 2)}


def explained(make_table, frame, **options):
    protection = {key: options.pop(key) for key in ("relation", "unit", "budget") if key in options}
    table = make_table(frame, exact=True, domain=DOMAIN, **protection)
    return explain_clusters(table, CLUSTERING, attributes=ATTRIBUTES, epsilon=1, **options)


def assert_histograms(result, frame):
    cut = binned(frame)
    for e in result.explanations:
        inside = cut["group"] == e.cluster
        for counts, rows in ((e.counts, cut[inside]), (e.rest, cut[~inside])):
            expected = rows.groupby(e.attribute).size()
            found = counts[counts > 1e-6]
            np.testing.assert_allclose(found, expected.to_numpy(), atol=1e-6)
        assert e.counts.sum() + e.rest.sum() == pytest.approx(len(frame))  # cluster + rest = all


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_the_best_combination_and_its_histograms_under_every_relation(make_table, frame, best, protection):
    result = explained(make_table, frame, **protection)
    assert list(result.chosen) == list(LABELS)
    assert tuple(map(tuple, result.chosen.values())) == best[1]
    assert_histograms(result, frame)
    np.testing.assert_allclose(result.sizes[:3], [(frame["group"] == label).sum() for label in LABELS], atol=1e-6)
    assert result.sizes.sum() == pytest.approx(len(frame))


def test_several_attributes_for_each_cluster(make_table, frame, best):
    result = explained(make_table, frame, per_cluster=2)
    assert tuple(map(tuple, result.chosen.values())) == best[2]
    assert_histograms(result, frame)


@pytest.mark.parametrize("listed", [2**20, 1], ids=["listed", "weighed without a list"])
@pytest.mark.parametrize("bounds", ["tight", "paper"])
@pytest.mark.parametrize("budget", [dpx.Budget(10), dpx.Budget(10, 1e-6)])
def test_two_stages_choose_among_the_best_candidates(make_table, frame, bounds, budget, listed, monkeypatch):
    monkeypatch.setattr(spec, "MOST_LISTED", listed)
    result = explained(make_table, frame, method="two-stage", candidates=2, bounds=bounds, budget=budget)
    printed = Printed(binned(frame))
    for mine, label in zip(result.candidates, LABELS, strict=True):
        by_score = sorted(ATTRIBUTES, key=lambda a: -printed.interest(label, a) - printed.sufficiency(label, a))
        assert [ATTRIBUTES[a] for a in mine] == by_score[:2]
    allowed = [
        c
        for c in all_combinations(ATTRIBUTES, 3, 1)
        if all(ATTRIBUTES.index(a) in mine for (a,), mine in zip(c, result.candidates, strict=True))
    ]
    expected = max(allowed, key=lambda c: printed.total(c, THIRDS))
    assert tuple(map(tuple, result.chosen.values())) == expected
    assert_histograms(result, frame)


def test_two_stages_with_all_candidates_choose_as_one_stage(make_table, frame, best):
    result = explained(make_table, frame, method="two-stage", candidates=4, per_cluster=2)
    assert tuple(map(tuple, result.chosen.values())) == best[2]


def test_the_published_sizes_run_nine_clusters_with_five_candidates_and_fifteen_with_three(make_table):
    """2 and 14 million combinations: more than are ever listed."""
    draw = np.random.default_rng(0)
    label = draw.integers(0, 15, 600)
    names = [f"a{j}" for j in range(6)]
    rows = pd.DataFrame({name: (label * (j + 1) + draw.integers(0, 2, 600)) % 5 for j, name in enumerate(names)})
    values = {**{name: dpx.Categorical(range(5)) for name in names}, "label": dpx.Categorical(range(15))}
    for clusters, candidates in ((9, 5), (15, 3)):
        table = make_table(rows.assign(label=label), domain=dpx.Domain(values), relation="add-remove")
        result = explain_clusters(
            table, lambda r: r["label"], list(range(clusters)), names, epsilon=1, method="two-stage",
            candidates=candidates,
        )  # fmt: skip
        assert result.spec.combinations == candidates**clusters > spec.MOST_LISTED
        for (a,), mine in zip(result.chosen.values(), result.candidates, strict=True):
            assert names.index(a) in mine
        assert dpx.from_json(result.to_json()).chosen == result.chosen


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_histograms_as_in_the_paper_are_those_of_pandas_too(make_table, frame, best, protection):
    result = explained(make_table, frame, histograms="paper", **protection)
    assert tuple(map(tuple, result.chosen.values())) == best[1]
    assert set(result.released["parts"]) == {"combination", "histograms", "everyone"}
    assert_histograms(result, frame)
    np.testing.assert_allclose(result.sizes[:3], [(frame["group"] == label).sum() for label in LABELS], atol=1e-6)


def test_the_published_form_is_two_stages_its_bounds_and_its_histograms(make_table, frame):
    one = explained(make_table, frame, method="paper")
    same = explained(make_table, frame, method="two-stage", bounds="paper", histograms="paper")
    assert one.spec == same.spec
    assert (one.spec.method, one.spec.bounds, one.spec.histograms) == ("two-stage", "paper", "paper")


def test_only_some_rows_of_a_unit_count(make_table, frame):
    kept = rows_used(frame, DOMAIN, "person", 1)
    assert_histograms(explained(make_table, frame, relation="add-remove", unit=dpx.Unit("person", 1)), kept)


def test_the_sentences_say_what_was_put_into_the_table(make_table, frame):
    words = explained(make_table, frame, relation="add-remove").sentences
    assert words[0].startswith("Cluster young: age is mostly 0 to ")
    assert words[2].startswith("Cluster odd: kind is mostly a or b (100 % ± ")


def test_a_fitted_predictor_is_explained_by_what_it_was_fitted_to(make_table, frame):
    numbers = frame[["age", "income"]].astype(float)
    model = KMeans(2, n_init=1, random_state=0).fit(numbers)
    table = make_table(frame, exact=True, domain=DOMAIN)
    result = explain_clusters(table, model, attributes=["sex", "age", "kind"], epsilon=1)
    assert result.labels == ["0", "1"]
    assert result.chosen["0"] == ["age"]
    inside = model.predict(numbers) == 0
    np.testing.assert_allclose(result.explanations[0].counts.sum(), inside.sum(), atol=1e-6)


def test_an_empty_cluster_is_no_error(make_table, frame):
    result = explained(make_table, frame[frame["group"] != "odd"], relation="add-remove")
    assert result.sizes[2] == pytest.approx(0)
    assert "too few rows" in result.sentences[2]


def test_an_empty_table_is_no_error(make_table, frame):
    result = explained(make_table, frame[:0], relation="add-remove")
    assert result.values.sum() == 0
    assert all("too few rows" in sentence for sentence in result.sentences)
    assert "largest possible" not in result.utility
