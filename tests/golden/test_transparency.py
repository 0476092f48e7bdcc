"""Influences on a person against plain enumeration, and associations against scikit-learn, on exact counts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import jaccard_score, mutual_info_score

import dpexplain as dpx
from dpexplain.methods.influence.persons import person_influence
from dpexplain.methods.influence.release import InfluenceRequest
from dpexplain.methods.transparency.release import transparency_report

DOMAIN = dpx.Domain(
    {
        "a": dpx.Categorical(["x", "y", "z"]),
        "b": dpx.Numeric(0, 3, integer=True),
        "c": dpx.Categorical(["no", "yes"]),
        "shadow": dpx.Categorical(["no", "yes"]),  # goes along with c, and the model never sees it
    }
)
NAMES = ["a", "b", "c"]
ROW = {"a": "x", "b": 2, "c": "yes", "shadow": "yes"}
MARGINS = [[0.5, 0.3, 0.2], [0.1, 0.2, 0.3, 0.4], [0.7, 0.3]]


def score(rows: pd.DataFrame) -> np.ndarray:
    """Not additive, not symmetric, inside [0, 1]."""
    a, b, c = (rows["a"] == "x").to_numpy(), rows["b"].to_numpy(), (rows["c"] == "yes").to_numpy()
    return 0.1 + 0.2 * a * c + 0.1 * b * (1 - 0.5 * a) + 0.15 * c * (b > 1)


@pytest.fixture
def people() -> pd.DataFrame:
    draw = np.random.default_rng(1)
    columns = [draw.choice(len(p), 3_000, p=p) for p in MARGINS]
    c = columns[2]
    shadow = np.where(draw.random(3_000) < 0.9, c, 1 - c)
    names = np.array(["no", "yes"])
    return pd.DataFrame(
        {"a": np.array(["x", "y", "z"])[columns[0]], "b": columns[1], "c": names[c], "shadow": names[shadow]}
    )


@pytest.fixture
def exact(make_table, people):
    def make(**options):
        return make_table(people, exact=True, domain=DOMAIN, budget=dpx.Budget(10**6), **options)

    return make


@pytest.fixture
def model() -> dpx.Model:
    return dpx.Model(score, output=(0, 1), features=NAMES, name="m", version="1")


def outcome_of(rows: pd.DataFrame, threshold) -> np.ndarray:
    return score(rows) if threshold is None else (score(rows) >= threshold).astype(float)


def game(people, threshold, absolute):
    """E[o() - o(S)] for every set S, over all combinations of other values, by the counted shares."""
    shares = [people[name].value_counts(normalize=True) for name in NAMES]
    own = outcome_of(pd.DataFrame([ROW]), threshold)[0]
    found = {}
    for size in range(4):
        for chosen in itertools.combinations(range(3), size):
            total = 0.0
            for values in itertools.product(*(shares[j].items() for j in chosen)):
                changed = {**ROW, **{NAMES[j]: value for j, (value, _) in zip(chosen, values, strict=True)}}
                change = own - outcome_of(pd.DataFrame([changed]), threshold)[0]
                total += math.prod(p for _, p in values) * (abs(change) if absolute else change)
            found[frozenset(chosen)] = total
    return found


def shapley(v) -> list[float]:
    totals = [0.0] * 3
    for order in itertools.permutations(range(3)):
        for place, j in enumerate(order):
            before = frozenset(order[:place])
            totals[j] += v[before | {j}] - v[before]
    return [total / 6 for total in totals]


def banzhaf(v) -> list[float]:
    def of(j):
        others = [s for s in v if j not in s]
        return sum(v[s | {j}] - v[s] for s in others) / len(others)

    return [of(j) for j in range(3)]


def ask(table, model, **options):
    request = InfluenceRequest(row=ROW, **{"quantity": "individual", **options})
    return person_influence(table, model, request, cost=table.cost(epsilon=100), marginals=None)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("quantity", ["individual", "actual"])
@pytest.mark.parametrize("threshold", [None, 0.4])
def test_shapley_and_banzhaf_values_equal_enumeration(exact, people, model, relation, quantity, threshold):
    v = game(people, threshold, quantity == "actual")
    options = {"quantity": quantity, "outcome": "score" if threshold is None else "class", "threshold": threshold}
    for aggregate, plain in (("shapley", shapley), ("banzhaf", banzhaf)):
        found = ask(exact(relation=relation), model, aggregate=aggregate, **options)
        assert found.items == NAMES
        np.testing.assert_allclose(found.values, plain(v), atol=2e-6)  # outcomes are rounded to 2^-20


def test_sets_and_what_they_add_to_others_equal_enumeration(exact, people, model):
    v = game(people, None, absolute=False)
    found = ask(exact(), model, features=["b", ("a", "c")])
    np.testing.assert_allclose(found.values, [v[frozenset([1])], v[frozenset([0, 2])]], atol=2e-6)
    beside = ask(exact(), model, features=["b"], given=["a"])
    assert beside.values[0] == pytest.approx(v[frozenset([0, 1])] - v[frozenset([0])], abs=2e-6)


def test_shapley_values_add_up_and_an_unused_feature_has_none(exact, people, model):
    report = transparency_report(exact(), model, ROW, epsilon=100, features=list(DOMAIN))
    v = game(people, None, absolute=False)
    assert report.values.sum() == pytest.approx(v[frozenset(range(3))], abs=2e-6)
    assert report.start == pytest.approx(report.influence.outcome - v[frozenset(range(3))], abs=2e-6)
    low, high = report.interval()
    assert report.values[3] == low[3] == high[3] == 0.0
    assert next(a for a in report.associations if a.feature == "shadow").clear


def test_a_report_tells_as_much_as_the_influences_of_the_person(people, model, make_table):
    """From the same marginals, noise included: what is attacked in one is attacked in the other."""
    table = make_table(people, domain=DOMAIN)
    marginals = dpx.marginals(table, NAMES, epsilon=0.5)
    options = {"features": NAMES, "aggregate": "shapley", "outcome": "score", "samples": 20, "marginals": marginals}
    report = transparency_report(table, model, ROW, **options)
    found = dpx.influence(table, model, "individual", row=ROW, **options)
    np.testing.assert_array_equal(report.values, found.values)
    np.testing.assert_array_equal(report.interval(), found.interval())
    assert np.ptp(found.values) > 0


@pytest.mark.parametrize(
    "options",
    [
        {"aggregate": "shapley"},
        {"aggregate": "shapley", "exact": True, "samples": 400},
        {"aggregate": "banzhaf"},
        {"features": ["a", "b", "c"]},
    ],
    ids=str,
)
def test_drawn_values_agree_with_all_values(exact, model, options):
    """Within five standard errors; of three influences, one in half a million such draws is not."""
    whole = ask(exact(), model, **{key: value for key, value in options.items() if key not in ("samples", "exact")})
    drawn = ask(exact(), model, **{"samples": 4_000, "seed": 5, **options})
    errors = [line.error for line in drawn.answer.lines]
    assert 0 < max(errors) < 0.01
    assert (np.abs(drawn.values - whole.values) <= 5 * np.array(errors) + 1e-3).all()


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_associations_equal_those_of_scikit_learn(exact, people, model, relation):
    table = exact(relation=relation)
    report = transparency_report(
        table, model, ROW, epsilon=10**4, features=list(DOMAIN), outcome="class", threshold=0.3
    )
    positive = outcome_of(people, 0.3)
    having = {
        "a is x": people["a"] == "x",
        "b is at most 2": people["b"] <= 2,
        "c is yes": people["c"] == "yes",
        "shadow is yes": people["shadow"] == "yes",
    }
    assert [a.condition for a in report.associations] == list(having)
    for association in report.associations:
        has = having[association.condition].to_numpy()
        expected = {
            "share": has.mean(),
            "with_it": positive[has].mean(),
            "without": positive[~has].mean(),
            "mutual_information": mutual_info_score(people[association.feature], positive),
            "jaccard": jaccard_score(has, positive == 1),
            "correlation": np.corrcoef(has, positive)[0, 1],
            "disparate_impact": positive[has].mean() / positive[~has].mean(),
        }
        for name, value in expected.items():
            found = getattr(association, name)
            assert found.value == pytest.approx(value, rel=2e-3, abs=1e-9), (association.condition, name)
            assert found.low <= value + 1e-9
            assert value <= found.high + 1e-9


def test_a_score_counts_as_the_chance_of_a_decision(exact, people, model):
    report = transparency_report(exact(), model, ROW, epsilon=10**4)
    has, chance = (people["a"] == "x").to_numpy(), score(people)
    found = report.associations[0]
    assert found.with_it.value == pytest.approx(chance[has].mean(), abs=1e-4)
    assert found.without.value == pytest.approx(chance[~has].mean(), abs=1e-4)
    both, either = chance[has].sum(), has.sum() + chance[~has].sum()
    assert found.jaccard.value == pytest.approx(both / either, abs=1e-4)
