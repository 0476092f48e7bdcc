"""Influences without noise against brute force: textbook definitions, written down again, row by row.

Where every row takes each combination of other values once, released means are exact up to rounding to whole steps;
with secret draws of its own they are exact up to Monte Carlo error.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.data.donors import Replaced
from dpexplain.methods.influence.release import influence

DOMAIN = dpx.Domain(
    {
        "a": dpx.Numeric(0, 2, integer=True),
        "b": dpx.Categorical(["p", "q"]),
        "c": dpx.Categorical([0, 1]),
        "sex": dpx.Categorical(["F", "M"]),
    }
)
CELLS = {"a": [0, 1, 2], "b": ["p", "q"], "c": [0, 1]}
STEP = 2.0**-18


def score(rows: pd.DataFrame) -> np.ndarray:
    """Not additive, and blind to sex."""
    a, b, c = rows["a"].to_numpy(), (rows["b"] == "q").to_numpy(), rows["c"].to_numpy()
    return 0.1 + 0.15 * a + 0.3 * b * c + 0.2 * (a == 2) * (1 - c)


def people() -> pd.DataFrame:
    """Every value of a feature equally often, but features that go together, and with sex."""
    a, c = np.repeat([0, 1, 2], 8), np.arange(24) % 2
    b = np.repeat(["p", "q"] * 3, [6, 2, 4, 4, 2, 6])
    frame = pd.DataFrame({"a": a, "b": b, "c": c, "sex": np.where(a == 2, "M", "F")})
    assert all((frame[name].value_counts() == 24 // len(cells)).all() for name, cells in CELLS.items())
    return frame


COMBINATIONS = list(itertools.product(*CELLS.values()))


def by_every_combination(rows, histograms, draws, uniform):
    """In the place of secret draws: each combination of values once."""
    assert draws == len(COMBINATIONS)
    columns = list(zip(*COMBINATIONS, strict=True))
    values = {}
    for name, cells in zip(CELLS, columns, strict=True):
        if name in histograms:
            np.testing.assert_allclose(histograms[name].shares, 1 / len(CELLS[name]))
        column = DOMAIN[name]
        codes = [column.categories.index(v) for v in cells] if isinstance(column, dpx.Categorical) else cells
        kind = np.int32 if isinstance(column, dpx.Categorical) else np.float64
        values[name] = [np.full(rows.size, code, dtype=kind) for code in codes]
    values["sex"] = [np.zeros(rows.size, dtype=np.int32)] * draws
    return Replaced(rows, values, [np.ones(rows.size, dtype=bool)] * draws, np.arange(rows.size))


def outcomes(kind: str, threshold: float = 0.5):
    return lambda frame: (score(frame) >= threshold).astype(float) if kind == "class" else score(frame)


def game(frame, kind, quantity):
    """v(S): for each row, the mean over combinations of how far the outcome moves when S is replaced."""
    decide = outcomes(kind)
    before = decide(frame)

    @cache
    def of(S):
        found = np.zeros(len(frame))
        for combination in COMBINATIONS:
            other = dict(zip(CELLS, combination, strict=True))
            change = before - decide(frame.assign(**{name: other[name] for name in S}))
            found += np.abs(change) if quantity == "average" else change
        return found / len(COMBINATIONS)

    return lambda S: of(frozenset(S))


def pooled(frame, each, quantity):
    """From the influences of rows to that of the table."""
    inside = (frame["sex"] == "F").to_numpy()
    if quantity == "average":
        return each.mean()
    return each[inside].mean() - (each[~inside].mean() if quantity == "disparity" else 0.0)


def shapley(value, names, name):
    orders = list(itertools.permutations(names))
    return sum(value({*o[: o.index(name) + 1]}) - value({*o[: o.index(name)]}) for o in orders) / len(orders)


def banzhaf(value, names, name):
    others = [n for n in names if n != name]
    sets = [set(s) for size in range(len(names)) for s in itertools.combinations(others, size)]
    return sum(value(s | {name}) - value(s) for s in sets) / len(sets)


PEOPLE = ["average", "group", "disparity"]
TABLES = [("replace-one", None), ("add-remove", None), ("replace-one", "id"), ("add-remove", "id")]


@pytest.fixture
def model() -> dpx.Model:
    return dpx.Model(score, output=(0, 1), name="score", version="1")


@pytest.fixture
def exact(make_table, monkeypatch):
    """A table without noise, whose rows take every combination of other values."""
    monkeypatch.setattr("dpexplain.methods.influence.spec.by_histogram", by_every_combination)

    def make(relation="replace-one", unit=None):
        frame = people().assign(id=range(24))
        options = {"unit": dpx.Unit("id", 1)} if unit else {}
        return make_table(frame, exact=True, domain=DOMAIN, relation=relation, budget=dpx.Budget(10**6), **options)

    return make


def ask(table, model, quantity, kind, **options):
    group = None if quantity == "average" else {"sex": "F"}
    return influence(table, model, quantity, group=group, outcome=kind, epsilon=1_000, **options)


@pytest.mark.parametrize("kind", ["class", "score"])
@pytest.mark.parametrize("quantity", PEOPLE)
@pytest.mark.parametrize(("relation", "unit"), TABLES)
def test_single_features_and_sets(exact, model, quantity, kind, relation, unit):
    features = ["a", "b", ("a", "c"), "sex"]
    found = ask(exact(relation, unit), model, quantity, kind, features=features, samples=len(COMBINATIONS))
    value, frame = game(people(), kind, quantity), people()
    expected = [pooled(frame, value(S), quantity) for S in ({"a"}, {"b"}, {"a", "c"}, set())]
    np.testing.assert_allclose(found.raw, expected, atol=STEP)
    assert found.raw[3] == 0.0
    assert found.conclusive
    np.testing.assert_allclose(found.counts, {"average": [24], "group": [16], "disparity": [16, 8]}[quantity])


@pytest.mark.parametrize("kind", ["class", "score"])
@pytest.mark.parametrize("quantity", PEOPLE)
@pytest.mark.parametrize(("relation", "unit"), TABLES)
def test_features_by_themselves_without_draws(make_table, model, quantity, kind, relation, unit):
    """All values, each as often as it is in the table, here unevenly: exact, by default."""
    frame = people().iloc[[0, 0, 0, 1, 2, 5, 8, 9, 9, 14, 16, 18, 23, 23]].reset_index(drop=True).assign(id=range(14))
    options = {"unit": dpx.Unit("id", 1)} if unit else {}
    table = make_table(frame, exact=True, domain=DOMAIN, relation=relation, budget=dpx.Budget(10**6), **options)
    found = ask(table, model, quantity, kind)
    assert found.spec.listed == ("a", "b", "c", "sex")
    decide = outcomes(kind)
    for name, value in zip(found.items, found.raw, strict=True):
        changes = [decide(frame) - decide(frame.assign(**{name: other})) for other in frame[name]]
        each = np.mean(np.abs(changes) if quantity == "average" else changes, axis=0)
        assert value == pytest.approx(pooled(frame, each, quantity), abs=STEP)


@pytest.mark.parametrize("quantity", PEOPLE)
def test_beside_a_given_feature(exact, model, quantity):
    found = ask(exact(), model, quantity, "score", features=["a", "c"], given=["b"], samples=len(COMBINATIONS))
    value, frame = game(people(), "score", quantity), people()
    expected = [pooled(frame, value({"b", name}) - value({"b"}), quantity) for name in ("a", "c")]
    np.testing.assert_allclose(found.raw, expected, atol=STEP)


@pytest.mark.parametrize("quantity", PEOPLE)
@pytest.mark.parametrize("aggregate", ["shapley", "banzhaf"])
@pytest.mark.parametrize(("kind", "relation"), [("class", "add-remove"), ("score", "replace-one")])
def test_shared_values(exact, model, aggregate, quantity, kind, relation):
    names = ["a", "b", "c", "sex"]
    options = {"aggregate": aggregate, "exact": True, "samples": len(COMBINATIONS), "features": names}
    found = ask(exact(relation), model, quantity, kind, **options)
    value, frame = game(people(), kind, quantity), people()

    def known(S):
        return value(S - {"sex"})

    share = {"shapley": shapley, "banzhaf": banzhaf}[aggregate]
    expected = [pooled(frame, share(known, names, name), quantity) for name in names]
    np.testing.assert_allclose(found.raw, expected, atol=STEP)
    assert found.raw[3] == 0.0
    if aggregate == "shapley":  # all of them together move the outcome as far as all inputs at once
        assert math.isclose(found.raw.sum(), pooled(frame, value({"a", "b", "c"}), quantity), abs_tol=5 * STEP)


@pytest.mark.parametrize("quantity", PEOPLE)
@pytest.mark.parametrize(
    "options",
    [
        {"samples": 8},
        {"aggregate": "shapley", "samples": 8, "exact": True},
        {"aggregate": "shapley", "samples": 40},
        {"aggregate": "shapley", "exact": False, "most_predictions": 250_000},
    ],
)
def test_secret_draws_come_near(make_table, model, quantity, options):
    """With draws of their own. 4,800 rows, so the Monte Carlo error is at most 1 / sqrt(2,000) for a group or what is
    left of it, for each draw; seven times that is missed with a probability below 1e-10. 40 orders of three features
    are few, but each comes with its reverse: what is left of it is small beside that.
    """
    frame = pd.concat([people()] * 200, ignore_index=True)
    table = make_table(frame, exact=True, domain=DOMAIN, budget=dpx.Budget(10**6))
    found = ask(table, model, quantity, "score", features=["a", "b", "c"], **options)
    value, frame = game(people(), "score", quantity), people()
    expected = [
        pooled(frame, shapley(value, list(CELLS), name) if len(options) > 1 else value({name}), quantity)
        for name in CELLS
    ]
    error = 7 * math.sqrt(2 / (2_000 * found.spec.draws)) + 4 * max([*found.sampling, 0.0])
    np.testing.assert_allclose(found.raw, expected, atol=error)
    assert error < 0.15


@pytest.mark.parametrize("aggregate", ["unary", "shapley", "banzhaf"])
@pytest.mark.parametrize("quantity", PEOPLE)
def test_what_the_model_does_not_use_and_a_constant_model(make_table, quantity, aggregate):
    """Exactly zero before noise, whatever is drawn: draws, orders or sets."""
    table = make_table(people(), exact=True, domain=DOMAIN, relation="add-remove", budget=dpx.Budget(10**6))
    blind = dpx.Model(score, output=(0, 1), features=["a", "b", "c"], name="blind", version="1")
    constant = dpx.Model(lambda rows: np.full(len(rows), 0.7), output=(0, 1), name="constant", version="1")
    found = ask(table, blind, quantity, "class", features=["sex", "a"], aggregate=aggregate, samples=2)
    assert found.raw[0] == 0.0
    nothing = ask(
        table, constant, quantity, "score", aggregate=aggregate, samples=1, exact=aggregate != "unary" or None
    )
    assert not nothing.raw.any()


@pytest.mark.parametrize("quantity", PEOPLE)
@pytest.mark.parametrize("options", [{}, {"aggregate": "shapley", "exact": False}, {"aggregate": "banzhaf"}])
def test_what_the_model_takes_but_ignores(make_table, model, quantity, options):
    """Zero as well, but for Banzhaf values from drawn sets, where it is zero only on average."""
    table = make_table(people(), exact=True, domain=DOMAIN, budget=dpx.Budget(10**6))
    assert "sex" in model.features(DOMAIN)
    exact = {"exact": True} if options.get("aggregate") == "banzhaf" else {}
    found = ask(table, model, quantity, "class", features=["sex", "a"], samples=2, **options, **exact)
    assert found.raw[0] == 0.0


def test_values_of_other_rows_by_a_public_pairing(make_table, model):
    """`method="paper"` against the same pairing, row by row; a set takes all its values from one row."""
    frame = people()
    table = make_table(frame, exact=True, domain=DOMAIN, budget=dpx.Budget(10**6))
    found = ask(table, model, "average", "score", features=["a", ("a", "b")], method="paper", samples=3, seed=5)
    public = dpx.data.PublicRandom(5)
    expected = np.zeros(2)
    for _ in range(3):
        donor = frame.iloc[public.generator.permutation(24)].reset_index(drop=True)
        for item, names in enumerate((["a"], ["a", "b"])):
            changed = frame.assign(**{name: donor[name] for name in names})
            expected[item] += np.abs(score(frame) - score(changed)).mean() / 3
    np.testing.assert_allclose(found.raw, expected, atol=STEP)


def test_histograms_can_be_used_again(make_table, model):
    """Those of an influence are the exact ones here, and what is drawn from them is what was drawn from before."""
    table = make_table(people(), exact=True, domain=DOMAIN, budget=dpx.Budget(10**6))
    first = ask(table, model, "average", "class", features=["a", "b"], samples=1)
    assert first.marginals.features == ["a", "b"]
    np.testing.assert_allclose(first.marginals.shares("a"), 1 / 3)
    again = influence(table, model, features=["b"], marginals=first.marginals, epsilon=1, samples=1)
    assert set(again.released["parts"]) == {"influences"}
    assert again.marginals is first.marginals
    assert again.receipt.request["spec"]["marginals"] == first.receipt.entry.payload_hash
