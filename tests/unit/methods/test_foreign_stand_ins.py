"""A stand-in of another table, account, domain or version, with too few columns, or of very many: for every method
that takes one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.errors import InputError, ModelError
from examples import DOMAIN

BUDGET = dpx.Budget(1_000)
WIDE = dpx.Domain({**DOMAIN, "income": dpx.Numeric(0, 200)})
Ask = Callable[[dpx.PrivateTable, dpx.Model, Any], object]


def label(rows: pd.DataFrame) -> np.ndarray:
    return (rows["age"] > 24).to_numpy().astype(int)


YOUNG = dpx.Model(lambda rows: rows["age"] / 30, output=(0, 1), features=["age", "sex"], name="young", version="1")
TAKES: dict[str, Ask] = {
    "partial_dependence": lambda t, m, s: dpx.partial_dependence(t, m, "sex", epsilon=1, stand_in=s),
    "accumulated_effects": lambda t, m, s: dpx.accumulated_effects(t, m, "sex", epsilon=1, stand_in=s),
    "influence": lambda t, m, s: dpx.influence(t, m, features=["sex"], epsilon=1, stand_in=s),
    "permutation_importance": lambda t, _, s: dpx.permutation_importance(
        t, YOUNG, "income", features=["age", "sex"], loss="absolute", epsilon=1, stand_in=s
    ),
    "local_sketch": lambda t, m, s: dpx.local_sketch(t, m, stand_in=s),
    "explain_clusters": lambda t, _, s: dpx.explain_clusters(
        t, label, [0, 1], method="posterior", epsilon=1, stand_in=s
    ),
    "dp_kmeans": lambda t, _, s: dpx.dp_kmeans(t, 2, ["age", "income"], epsilon=1, stand_in=s),
}


@pytest.fixture
def people(frame) -> pd.DataFrame:
    return frame[list(DOMAIN)]


@pytest.mark.parametrize("method", TAKES)
def test_a_stand_in_of_something_else_is_refused_before_anything_is_spent(make_table, people, model, method):
    mine = make_table(people, name="people", version="1", budget=BUDGET)
    others = {
        "another table, or from another version": (
            make_table(people, name="others", version="1", budget=BUDGET),
            make_table(people, name="people", version="2", budget=BUDGET),
            make_table(people, name="people", version="3", budget=BUDGET, domain=WIDE),
        ),
        "has not released this stand-in": (
            make_table(people, name="people", version="1", budget=BUDGET, ledger="sqlite:///:memory:"),
        ),
    }
    for said, tables in others.items():
        for other in tables:
            foreign = dpx.stand_in(other, epsilon=1)
            before = mine.ledger.statement("people")
            with pytest.raises(InputError, match=said):
                TAKES[method](mine, model, foreign)
            assert mine.ledger.statement("people") == before


@pytest.mark.parametrize("method", TAKES)
def test_a_stand_in_without_a_column_that_is_needed_is_refused(make_table, people, model, method):
    mine = make_table(people, budget=BUDGET)
    few = dpx.stand_in(mine, features=["sex"], epsilon=1)
    before = mine.ledger.statement(mine.name)
    with pytest.raises(InputError, match="lacks .*'age'"):
        TAKES[method](mine, model, few)
    assert mine.ledger.statement(mine.name) == before


def test_a_target_that_the_stand_in_lacks(make_table, people):
    """Likely targets are drawn by the model's predictions, so the rows need none; a stand-in made for one has it."""
    mine = make_table(people, budget=BUDGET)
    few = dpx.stand_in(mine, features=["age", "sex"], epsilon=1)
    asked = {"features": ["age", "sex"], "epsilon": 1, "loss": "absolute"}
    assert dpx.permutation_importance(mine, YOUNG, "income", stand_in=few, **asked).sharpened
    assert "income" in dpx.stand_in(mine, features=["age", "sex"], target="income", epsilon=1).features


@pytest.mark.long
def test_five_hundred_columns(make_table):
    """Curves are sharpened by rows of all columns, and a batch that has too many numbers is refused in words."""
    names = [f"c{i}" for i in range(500)]
    rows = pd.DataFrame(np.random.default_rng(0).random((60, 500)), columns=names)
    table = make_table(rows, domain=dpx.Domain({name: dpx.Numeric(0, 1) for name in names}), budget=dpx.Budget(1e6))
    model = dpx.Model(lambda rows: rows.to_numpy().mean(axis=1), output=(0, 1), name="mean", version="1")
    stand_in = dpx.stand_in(table, epsilon=1_000, grade="marginals")
    curve = dpx.partial_dependence(table, model, "c7", epsilon=100, stand_in=stand_in)
    known = dpx.posterior(stand_in, model, [curve], rows=100)
    assert known.partial_dependence("c7")[0].values == pytest.approx(np.asarray(curve.values), abs=0.1)
    requests = [dpx.requests.PartialDependence(feature=name, grid=3) for name in names]
    before = table.ledger.statement(table.name)
    with pytest.raises(InputError, match="at most 40"):
        dpx.batch(table, model, requests, epsilon=10)
    assert table.ledger.statement(table.name) == before


def test_a_model_that_fails_on_the_rows_of_a_batch_is_refused_before_anything_is_spent(make_table, people):
    def fails(rows: pd.DataFrame) -> np.ndarray:
        raise RuntimeError("no")

    table = make_table(people)
    model = dpx.Model(fails, output=(0, 1), name="fails", version="1")
    for ask in (dpx.batch, lambda t, m, r, epsilon: dpx.plan(r, table=t, model=m, epsilon=epsilon)):
        with pytest.raises(ModelError):
            ask(table, model, [dpx.requests.PartialDependence(feature="age"), dpx.requests.LocalSketch()], epsilon=1)
    assert table.ledger.statement(table.name).rows == ()
