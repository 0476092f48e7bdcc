"""The posterior against plain computations: exact curves where noise is nearly none, scikit-learn on synthetic rows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import partial_dependence as plain_dependence
from sklearn.tree import DecisionTreeRegressor

import dpexplain as dpx
from examples import DOMAIN, score

ROWS, NEARLY_ALL = 3_000, 10_000.0  # an epsilon that leaves next to no noise


@cache
def people() -> pd.DataFrame:
    """Columns that go together."""
    draw = np.random.default_rng(7)
    sex = draw.choice(["Female", "Male"], ROWS, p=[0.6, 0.4])
    income = np.clip(draw.normal(35 + 30 * (sex == "Male"), 15), 0, 100)
    age = np.clip(np.rint(20 + income / 15 + draw.normal(size=ROWS)), 20, 29)
    return pd.DataFrame({"age": age.astype(int), "sex": sex, "income": income})


def table_of(relation: str = "replace-one") -> dpx.PrivateTable:
    return dpx.PrivateTable(
        people(), domain=DOMAIN, budget=dpx.Budget(epsilon=1e6), relation=relation,
        ledger=dpx.open_ledger("sqlite:///:memory:"), name="people", version="1",
    )  # fmt: skip


def model_of() -> dpx.Model:
    return dpx.Model(score, output=(0.0, 1.0), name="score", version="1")


def exact_dependence(feature: str, points) -> np.ndarray:
    return np.array([score(people().assign(**{feature: point})).mean() for point in points])


@pytest.mark.filterwarnings("ignore::dpexplain.errors.BudgetWarning")
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_with_next_to_no_noise_curves_are_exact(relation):
    """Released ones, and one that was not released: counts by score and effects speak about it."""
    table, model = table_of(relation), model_of()
    stand_in = dpx.stand_in(table, epsilon=0.5, grade="marginals")
    curves = dpx.partial_dependence(table, model, ["age", "sex"], epsilon=NEARLY_ALL)
    known = dpx.posterior(stand_in, model, [curves])
    for reading in known.partial_dependence(["age", "sex"]):
        exact = exact_dependence(reading.feature, reading.axes[0].points)
        np.testing.assert_allclose(reading.values, exact, atol=2e-4)
        low, high = reading.interval()
        assert (high - low).max() < 2e-3
    # its PD at one income is a sum of what the curves of sex have: both are about income x share of men
    income = known.partial_dependence("income", grid={"income": [0, 50, 100]})[0]
    low, high = income.interval()
    exact = exact_dependence("income", income.axes[0].points)
    assert ((low - 1e-3 <= exact) & (exact <= high + 1e-3)).all()


def test_without_evidence_partial_dependence_is_that_of_scikit_learn_on_the_rows():
    table, draw = table_of(), np.random.default_rng(0)
    some = pd.DataFrame({"age": draw.uniform(20, 29, 500), "income": draw.uniform(0, 100, 500)})
    tree = DecisionTreeRegressor(max_depth=4, random_state=0).fit(some, draw.random(500))
    model = dpx.Model(tree, output=(0.0, 1.0), name="tree", version="1")
    known = dpx.posterior(dpx.stand_in(table, epsilon=5), model)
    reading = known.partial_dependence("age")[0]
    rows, points = known.rows()[["age", "income"]].astype(float), reading.axes[0].points
    plain = plain_dependence(tree, rows, ["age"], custom_values={"age": points}, method="brute", kind="average")
    np.testing.assert_allclose(reading.values, plain["average"][0], atol=1e-12)
    assert (known.weights == 1 / len(known)).all()


def test_without_evidence_effects_are_those_of_plain_differences_on_the_rows():
    known = dpx.posterior(dpx.stand_in(table_of(), epsilon=5), model_of())
    rows = known.rows()
    age, sex = known.accumulated_effects(["age", "sex"])
    points = np.array(age.axes[0].points)
    place = np.maximum(np.searchsorted(points, rows["age"]) - 1, 0)
    changes = score(rows.assign(age=points[place + 1])) - score(rows.assign(age=points[place]))
    effects = pd.Series(changes).groupby(place).mean().reindex(range(len(points) - 1), fill_value=0.0)
    curve = np.concatenate([[0.0], np.cumsum(effects)])
    curve -= np.interp(rows["age"], points, curve).mean()
    np.testing.assert_allclose(age.values, curve, atol=1e-9)
    moved = (score(rows.assign(sex="Male")) - score(rows.assign(sex="Female"))).mean()
    assert sex.values[1] - sex.values[0] == pytest.approx(moved)
    assert sex.values[1] == pytest.approx(moved * (rows["sex"] == "Female").mean())


def test_every_release_counts_once_and_what_the_stand_in_was_made_of_never():
    table, model = table_of(), model_of()
    stand_in = dpx.stand_in(table, epsilon=1, grade="tree")
    curves = dpx.partial_dependence(table, model, ["age", "sex"], epsilon=1)
    once = dpx.posterior(stand_in, model, [curves])
    often = dpx.posterior(stand_in, model, [curves[0], curves, curves[1], list(curves), stand_in, stand_in.marginals])
    np.testing.assert_array_equal(once.weights, often.weights)
    np.testing.assert_array_equal(once.partial_dependence("income").values, often.partial_dependence("income").values)
    assert list(often.evidence["left out because"]) == ["", "the stand-in itself"]
    nothing = dpx.posterior(stand_in, model, [stand_in.marginals])
    assert (nothing.weights == 1 / len(nothing)).all()


def test_marginals_that_a_stand_in_was_made_of_are_left_out():
    table, model = table_of(), model_of()
    counts = dpx.marginals(table, epsilon=1)
    stand_in = dpx.stand_in(table, epsilon=1, grade="tree", marginals=counts)
    effects = dpx.accumulated_effects(table, model, ["age"], epsilon=1, marginals=counts)
    known = dpx.posterior(stand_in, model, [effects, counts])
    assert list(known.evidence["left out because"]) == ["the stand-in was made of it", ""]
    assert known.evidence["numbers used"].iloc[1] == effects[0].bins.size


def test_evidence_is_about_the_functions_that_were_summed():
    """For each kind of release: the exact means over the table of the functions that evidence takes, and what was
    released with next to no noise."""
    from dpexplain.data.rows import Rows
    from dpexplain.methods.evidence import Asked, pieces_of

    table, model, frame = table_of(), model_of(), people()
    stand_in = dpx.stand_in(table, model, epsilon=NEARLY_ALL, grade="tree")
    results = [
        dpx.partial_dependence(table, model, ["age", ("sex", "income")], epsilon=NEARLY_ALL),
        dpx.accumulated_effects(table, model, ["age", "sex", "income"], epsilon=NEARLY_ALL),
        dpx.marginals(table, epsilon=NEARLY_ALL),
    ]
    coded = {
        "age": frame["age"].to_numpy(float),
        "sex": (frame["sex"] == "Male").to_numpy(np.int32),
        "income": frame["income"].to_numpy(),
    }
    asked = Asked(model, model.checked(DOMAIN, rows=ROWS), Rows(DOMAIN, coded, ROWS))
    pieces = pieces_of(stand_in, model, results)
    assert len(pieces) == 4
    for piece in pieces:
        numbers = piece.ask(asked)
        assert piece.size == numbers.size > 20
        stds = np.sqrt(np.diag(numbers.covariance))
        assert (np.abs(numbers.answers.mean(axis=0) - numbers.released) <= 15 * stds).all(), piece.title
        assert np.abs(numbers.answers.mean(axis=0) - numbers.released).max() < 2e-3
