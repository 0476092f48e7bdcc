"""A model that takes missing values is explained as it is deployed: what is released equals the plain computation on
rows whose missing values are left as they are.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

import dpexplain as dpx
from dpexplain.methods.result import from_json

STEP = 2.0**-20
AGE = dpx.Numeric(20, 29, integer=True, missing="nan")
DOMAIN = dpx.Domain({"age": AGE, "sex": dpx.Categorical([0, 1]), "income": dpx.Numeric(0, 100, missing="nan")})
DEFAULT = dpx.Domain({**DOMAIN, "age": dpx.Numeric(20, 29, integer=True)})
NAMES = list(DOMAIN)


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draw = np.random.default_rng(3)
    n = 600
    data = pd.DataFrame(
        {
            "age": draw.integers(20, 30, n).astype(float),
            "sex": draw.integers(0, 2, n),
            "income": draw.uniform(0, 100, n),
        }
    )
    gone, poor = draw.random(n) < 0.2, draw.random(n) < 0.1
    data["y"] = 0.03 * (data["age"] - 20) + 0.3 * data["sex"] * data["income"] / 100 + 0.4 * gone
    return data.assign(age=data["age"].mask(gone), income=data["income"].mask(poor))


@pytest.fixture(scope="module")
def boosting(people) -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(max_iter=20, random_state=0).fit(people[NAMES], people["y"])


@pytest.fixture(scope="module")
def model(boosting) -> dpx.Model:
    return dpx.Model(boosting, output=(-1.0, 2.0), name="boosting", version="1")


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_partial_dependence_is_the_plain_average_and_has_a_point_for_missing_values(
    make_table, people, boosting, model, relation
):
    table = make_table(people, domain=DOMAIN, exact=True, relation=relation)
    curve = dpx.partial_dependence(table, model, "age", epsilon=1, smooth=False)
    points = [*range(20, 30), np.nan]
    assert np.array_equal(curve.to_frame()["age"], points, equal_nan=True)
    expected = [boosting.predict(people[NAMES].assign(age=point)).mean() for point in points]
    np.testing.assert_allclose(curve.values, expected, atol=3 * STEP)
    assert curve.rug[0].counts[-1] == people["age"].isna().sum()
    # filled with the middle of the bounds, as without missing="nan", it would be another model that is explained
    filled = boosting.predict(people[NAMES].assign(age=24.0, income=people["income"].fillna(50))).mean()
    assert abs(expected[4] - filled) > 100 * STEP


def test_smoothing_leaves_the_missing_point_alone(make_table, people, model):
    table = make_table(people, domain=DOMAIN)
    curve = replace(dpx.partial_dependence(table, model, "age", epsilon=0.1), sharpening=None)
    assert curve.values[-1] == pytest.approx(curve.raw[-1])
    assert not np.allclose(curve.values[:-1], curve.raw[:-1])


def test_a_pair(make_table, people, boosting, model):
    table = make_table(people, domain=DOMAIN, exact=True)
    surface = dpx.partial_dependence(
        table, model, ("sex", "income"), grid={"income": [10, 90]}, epsilon=1, smooth=False
    )
    expected = [
        boosting.predict(people[NAMES].assign(sex=s, income=i)).mean() for s in (0, 1) for i in (10, 90, np.nan)
    ]
    np.testing.assert_allclose(surface.values, expected, atol=3 * STEP)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_accumulated_effects_are_those_of_the_rows_that_have_a_value(make_table, people, model, relation):
    """The same as of a table without the others, where the model sees the same rows."""
    names, how = ["age", "income"], {"epsilon": 1, "smooth": False, "clip": 1.0, "bins": 5}
    table = make_table(people, domain=DOMAIN, exact=True, relation=relation)
    curves = dpx.accumulated_effects(table, model, names, **how)
    for name in names:
        present = make_table(people.dropna(subset=[name]), domain=DOMAIN, exact=True, relation=relation)
        alone = dpx.accumulated_effects(present, model, name, **how)
        assert curves[name].axes == alone.axes
        np.testing.assert_allclose(curves[name].values, alone.values, atol=1e-9)
        assert curves[name].rug[0].counts.sum() == people[name].notna().sum()
        said = f"Rows whose {name} is missing are left out"
        assert said in curves[name].caveat
        assert said in " ".join(str(curves[name]).split())
        assert from_json(curves[name].to_json()).values.tolist() == curves[name].values.tolist()


def test_marginals_and_what_is_drawn_from_them(make_table, people):
    table = make_table(people, domain=DOMAIN, exact=True)
    found = dpx.marginals(table, epsilon=1)
    lines = found.to_frame().query("feature == 'age'")
    assert lines["cell"].isna().tolist() == [False] * 10 + [True]
    assert lines["count"].iloc[-1] == people["age"].isna().sum()
    assert "missing" in str(found)
    assert "<td>missing</td>" in found._repr_html_()
    reference = found.reference("age", DOMAIN)
    assert np.array_equal(reference.points, [*range(20, 30), np.nan], equal_nan=True)
    share = people["age"].isna().mean()
    even = (np.arange(1000) + 0.5) / 1000
    assert np.isnan(reference.at(reference.cell_at(even), even)).mean() == pytest.approx(share, abs=2e-3)
    assert reference.weights[-1] == pytest.approx(share * 2**30, abs=2)
    many = found.reference("income", DOMAIN)
    assert np.isnan(many.points).sum() == 1
    assert np.isnan(many.points[-1])


@pytest.mark.drawn(1e-5)
def test_importance_puts_in_missing_values(make_table, people, boosting, model):
    """Exact counts of cells, secret draws: 600 rows x 20 draws and a tolerance of five standard errors, so that a false
    alarm has probability below 1e-6. Draws that leave missing values out are further off than that.
    """
    table = make_table(people, domain=dpx.Domain({**DOMAIN, "y": dpx.Numeric(0, 2)}), exact=True)
    found = dpx.permutation_importance(
        table, model, "y", features=["age", "sex"], epsilon=1, marginals=dpx.marginals(table, epsilon=1), repeats=20,
        clip=math.inf,
    )  # fmt: skip
    ages = people["age"].to_numpy()
    each = np.array([boosting.predict(people[NAMES].assign(age=a)) - people["y"] for a in [*range(20, 30), np.nan]])
    shares = np.array([*(np.mean(ages == a) for a in range(20, 30)), np.isnan(ages).mean()])
    exact = float((shares @ each**2).mean() - ((boosting.predict(people[NAMES]) - people["y"]) ** 2).mean())
    value = dict(zip(found.items, found.values, strict=True))["age"]
    spread = 5 * float(np.sqrt((shares @ each**4 - (shares @ each**2) ** 2).mean() / (600 * 20)))
    assert value == pytest.approx(exact, abs=spread + 1e-3)
    left_out = float((shares[:-1] @ each[:-1] ** 2 / shares[:-1].sum()).mean())  # draws without the missing ones
    assert abs(left_out - float((shares @ each**2).mean())) > spread + 1e-3


def test_a_person_without_a_value(make_table, people, boosting, model):
    table = make_table(people, domain=DOMAIN, exact=True)
    histograms = dpx.marginals(table, epsilon=1)
    person = {"age": None, "sex": 1, "income": 50.0}
    found = dpx.influence(table, model, "individual", ["age"], row=person, marginals=histograms, outcome="score")
    own = boosting.predict(pd.DataFrame([person])[NAMES].astype(float))[0]
    ages = people["age"].to_numpy()
    others = [boosting.predict(pd.DataFrame([{**person, "age": a}])[NAMES])[0] for a in ages]
    assert found.values[0] == pytest.approx(own - np.mean(others), abs=2e-3)
    assert "age = missing" in str(found)


# What is refused, and when --------------------------------------------------------------------------------------------


def test_a_model_that_fails_on_missing_values_is_found_out_before_anything_is_reserved(make_table, people):
    complete = people.dropna()
    linear = dpx.Model(LinearRegression().fit(complete[NAMES], complete["y"]), output=(-1, 2), name="l", version="1")
    table = make_table(people, domain=DOMAIN)
    with pytest.raises(dpx.errors.ModelError, match="NaN") as refused:
        dpx.partial_dependence(table, linear, "sex", epsilon=1)
    assert 'missing="nan"): age, income' in refused.value.hint
    assert table.ledger.statement(table.name).rows == ()


def test_a_model_that_fills_in_the_mean_of_a_batch_is_found_out(make_table, people):
    """What many wrappers do: then one row's missing value changes what is said about another row."""

    def filled(rows: pd.DataFrame) -> np.ndarray:
        return rows["age"].fillna(rows["age"].mean()).to_numpy() / 30

    table = make_table(people, domain=DOMAIN)
    with pytest.raises(dpx.errors.ModelError, match="not always the same"):
        dpx.partial_dependence(table, dpx.Model(filled, output=(0, 1), features=["age"]), "age", epsilon=1)
    assert table.ledger.statement(table.name).rows == ()


@pytest.mark.parametrize(
    ("ask", "said", "hint"),
    [
        (lambda t, _: dpx.quantiles(t, "age", [0.5], epsilon=1), "no quantiles", "marginals"),
        (lambda t, m: dpx.accumulated_effects(t, m, "age", epsilon=1, method="paper"), "no quantiles", "marginals"),
        (lambda t, m: dpx.local_sketch(t, m, epsilon=1), "no distance", "missing=..."),
        (lambda t, m: dpx.local_explanation(t, m, [24, 1, 5.0], epsilon=1), "no distance", "missing=..."),
        (
            lambda t, m: dpx.AdaptiveExplainer(t, m, epsilon=1, per_query=0.5).explain([24, 1, 5.0]),
            "no distance",
            "missing=...",
        ),
        (lambda t, _: dpx.dp_kmeans(t, 2, epsilon=1), "no distance", "features="),
        (
            lambda t, _: dpx.permutation_importance(
                t,
                dpx.Model(lambda rows: rows["sex"] / 2, output=(0, 1), features=["sex"]),
                "age",
                epsilon=1,
            ),
            "no prediction can be measured",
            "missing=0",
        ),
    ],
    ids=["quantiles", "paper", "sketch", "local", "adaptive", "k-means", "target"],
)
def test_what_needs_a_number_is_refused_before_anything_is_reserved(make_table, people, model, ask, said, hint):
    table = make_table(people, domain=DOMAIN, budget=dpx.Budget(10, 1e-6))
    with pytest.raises(dpx.InputError, match=said) as refused:
        ask(table, model)
    assert hint in refused.value.hint
    assert "Nothing was spent" in str(refused.value)
    assert table.ledger.statement(table.name).rows == ()


def test_a_group_of_all_numbers_is_not_everybody(make_table, people, model):
    """Those without a value are the others."""
    table = make_table(people, domain=DOMAIN)
    dpx.influence(table, model, "disparity", ["sex"], group={"age": (20, 29)}, epsilon=1, outcome="score")
    with pytest.raises(dpx.InputError, match="everybody"):
        dpx.influence(
            make_table(people, domain=DEFAULT), model, "disparity", ["sex"], group={"age": (20, 29)}, epsilon=1
        )


# What cleaning does, in words -----------------------------------------------------------------------------------------


def test_results_say_what_cleaning_does(make_table, people, model):
    curve = dpx.partial_dependence(make_table(people, domain=DOMAIN), model, "age", epsilon=1)
    said = [
        "age: values are clipped to 20..29 and rounded to whole numbers; a missing one stays missing, "
        "as the model sees it.",
        "sex: a missing or undeclared value becomes 0.",
        "income: values are clipped to 0..100; a missing one stays missing, as the model sees it.",
    ]
    assert json.loads(curve.to_json())["cleaning"] == said
    assert from_json(curve.to_json()).receipt.cleaning() == said
    for text in (" ".join(str(curve).split()), curve._repr_html_()):
        assert text.count("stays missing, as the model sees it. sex:") == 1
    assert "<td>missing</td>" in curve._repr_html_()
    other = dpx.partial_dependence(make_table(people, domain=DEFAULT), model, "age", epsilon=1)
    assert "a missing one becomes 24." in " ".join(str(other).split())


def test_columns_that_are_cleaned_alike_share_a_sentence(make_table):
    columns = {f"word_{i}": dpx.Numeric(0, 1) for i in range(500)}
    frame = pd.DataFrame({name: [0.0, 1.0] for name in columns})
    found = dpx.marginals(make_table(frame, domain=dpx.Domain(columns)), ["word_1"], epsilon=1)
    assert found.receipt.cleaning() == [
        "word_0, word_1, word_2, word_3, word_4, word_5 and 494 more: values are clipped to 0..1; "
        "a missing one becomes 0.5."
    ]


def test_what_a_file_says_about_cleaning_must_follow_from_the_domain(make_table, people, model):
    document = json.loads(dpx.marginals(make_table(people, domain=DOMAIN), epsilon=1).to_json())
    lie = {**document, "cleaning": document["cleaning"][1:]}
    with pytest.raises(dpx.errors.VerificationError, match="about cleaning"):
        from_json(json.dumps(lie))
    document["receipt"]["domain"]["age"]["missing"] = 24.0
    with pytest.raises(dpx.errors.VerificationError, match="domain of this receipt"):
        from_json(json.dumps(document))
    del document["receipt"]["domain"], document["cleaning"]  # as earlier versions wrote it
    assert from_json(json.dumps(document)).receipt.cleaning() == []


def test_the_picture_has_the_missing_point_beside_the_line(make_table, people, model):
    curve = dpx.partial_dependence(make_table(people, domain=DOMAIN), model, "age", epsilon=5)
    axes = curve.plot()
    assert "missing" in [label.get_text() for label in axes.get_xticklabels()]
    line = next(line for line in axes.lines if str(line.get_label()).startswith("likely"))
    assert len(line.get_xdata()) == 10
    assert any(text.get_text().endswith("%\nof rows") for text in axes.texts)
    axes.figure.canvas.draw()
    surface = dpx.partial_dependence(make_table(people, domain=DOMAIN), model, ("age", "income"), epsilon=5).plot()
    assert [label.get_text() for label in surface.get_xticklabels()][-1] == "missing"


def test_a_cluster_of_rows_without_a_value(make_table, people):
    table = make_table(people, domain=DOMAIN, exact=True)
    found = dpx.explain_clusters(
        table, lambda rows: np.where(rows["age"].isna(), "gone", "here"), labels=["here", "gone"], epsilon=5
    )
    assert any("age is mostly missing" in sentence for sentence in found.sentences)
    assert any("age is mostly 20 to 29" in sentence for sentence in found.sentences)
