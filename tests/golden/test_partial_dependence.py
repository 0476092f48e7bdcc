"""With a sampler that adds nothing, the released curve is the plain partial dependence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.inspection import partial_dependence
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import dpexplain as dpx
from chosen import rows_used
from examples import DOMAIN, score

STEP = 2.0**-20  # rounding of each row's prediction, in units of the output range


def plain(frame, **fixed):
    return score(frame.assign(**fixed)).mean()


@pytest.mark.parametrize(
    "protection",
    [
        {"relation": "replace-one"},
        {"relation": "add-remove"},
        {"relation": "replace-one", "unit": dpx.Unit("person", 50)},
        {"relation": "add-remove", "unit": dpx.Unit("person", 50)},
    ],
)
def test_equals_the_plain_average_under_every_relation(make_table, frame, model, protection):
    table = make_table(frame, exact=True, **protection)
    curve = dpx.partial_dependence(table, model, "age", epsilon=1, smooth=False)
    assert curve.to_frame()["age"].tolist() == list(range(20, 30))
    expected = [plain(frame, age=a) for a in range(20, 30)]
    np.testing.assert_allclose(curve.values, expected, atol=STEP)


def test_a_categorical_feature_and_its_rug(make_table, frame, model):
    curve = dpx.partial_dependence(make_table(frame, exact=True), model, "sex", epsilon=1)
    np.testing.assert_allclose(curve.raw, [plain(frame, sex=s) for s in ("Female", "Male")], atol=STEP)
    assert curve.rug[0].counts.tolist() == [(frame["sex"] == s).sum() for s in ("Female", "Male")]


def test_likely_values_lie_within_their_own_interval_of_exact_ones(make_table, frame, model):
    """They are pulled from what was released towards what synthetic rows say, by less than the interval allows."""
    curve = dpx.partial_dependence(make_table(frame, exact=True), model, "sex", epsilon=1)
    exact, (low, high) = [plain(frame, sex=s) for s in ("Female", "Male")], curve.interval()
    assert curve.sharpened
    assert ((low < exact) & (exact < high)).all()
    assert (np.abs(curve.values - exact) < 0.5 * (high - low)).all()


def test_several_features_and_a_pair_share_one_release(make_table, frame, model):
    table = make_table(frame, exact=True)
    curves = dpx.partial_dependence(table, model, ["income", "sex", ("sex", "age")], epsilon=1, smooth=False)
    assert len({id(curve.receipt) for curve in curves}) == 1
    assert table.ledger.statement(table.name).spent.amount == 1
    surface = curves[2]
    expected = [plain(frame, sex=s, age=a) for s in ("Female", "Male") for a in range(20, 30)]
    np.testing.assert_allclose(surface.values, expected, atol=STEP)
    assert surface.to_frame().iloc[13].tolist()[:2] == ["Male", 23.0]
    np.testing.assert_allclose(curves["sex"].values, [plain(frame, sex=s) for s in ("Female", "Male")], atol=STEP)


def test_only_some_rows_of_a_unit_are_used(make_table, frame, model):
    kept = rows_used(frame, DOMAIN, "person", 2)
    assert len(kept) < len(frame)
    table = make_table(frame, exact=True, relation="add-remove", unit=dpx.Unit("person", 2))
    curve = dpx.partial_dependence(table, model, "sex", epsilon=1)
    np.testing.assert_allclose(curve.raw, [plain(kept, sex=s) for s in ("Female", "Male")], atol=STEP)
    assert curve.rug[0].counts.sum() == len(kept)


def test_agrees_with_scikit_learn_for_a_regressor_and_a_pipeline_classifier(make_table, frame):
    target = score(frame) + np.random.default_rng(1).normal(0, 0.05, len(frame))
    points = np.linspace(5, 95, 11)
    numbers = frame[["age", "income"]]
    forest = RandomForestRegressor(20, random_state=0).fit(numbers, target)
    table = make_table(frame, exact=True)
    curve = dpx.partial_dependence(
        table, dpx.Model(forest, output=(0, 1)), "income", epsilon=1, grid={"income": points}, smooth=False
    )
    sklearn = partial_dependence(
        forest, numbers, ["income"], custom_values={"income": points}, method="brute", kind="average"
    )
    np.testing.assert_allclose(curve.values, sklearn["average"][0], atol=STEP)

    features = frame[["age", "sex", "income"]]
    encoder = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    labels = np.where(target > np.median(target), "high", "low")
    pipeline = make_pipeline(encoder, RandomForestClassifier(20, random_state=0)).fit(features, labels)
    model = dpx.Model(pipeline, output=(0, 1), label="high")
    curve = dpx.partial_dependence(table, model, "sex", epsilon=1)
    means = [
        pipeline.predict_proba(features.assign(sex=s))[:, list(pipeline.classes_).index("high")].mean()
        for s in ("Female", "Male")
    ]
    np.testing.assert_allclose(curve.raw, means, atol=STEP)


def test_faithful_form_uses_the_published_grid_and_noise(make_table, frame, model):
    curve = dpx.partial_dependence(make_table(frame), model, "age", epsilon=1, method="paper")
    np.testing.assert_allclose(curve.axes[0].points, np.linspace(20, 29, 20))
    noise = curve.part("curve")[1]
    assert noise.law == "discrete-laplace"
    # sigma = m (max - min) / (n epsilon) with 8/9 of epsilon for the curve (Algorithm 8 and its protocol)
    assert float(noise.scale) / (curve.output.levels * len(frame)) == pytest.approx(20 / (len(frame) * 8 / 9))
    np.testing.assert_array_equal(curve.values, curve.raw)


def test_predictions_are_clipped_and_failures_count_as_the_middle(make_table, frame):
    def model(rows: pd.DataFrame) -> np.ndarray:
        income = rows["income"].to_numpy()
        return np.where(income == 100, np.nan, np.where(income > 50, 7.0, 0.25))

    table = make_table(frame.assign(income=[100.0] * 100 + [60.0] * 100 + [10.0] * 200), exact=True)
    predictor = dpx.Model(model, output=(0, 1), name="odd", version="1")
    curve = dpx.partial_dependence(table, predictor, "sex", epsilon=1)
    np.testing.assert_allclose(curve.raw, [(100 * 0.5 + 100 * 1 + 200 * 0.25) / 400] * 2, atol=STEP)


def test_marginals_are_the_counts(make_table, frame):
    table = make_table(frame, exact=True)
    marginals = dpx.marginals(table, epsilon=1)
    lines = marginals.to_frame()
    ages = lines[lines["feature"] == "age"]["count"].tolist()
    assert ages == frame["age"].value_counts().sort_index().tolist()
    sexes = lines[lines["feature"] == "sex"].set_index("cell")["count"]
    assert sexes["Male"] == (frame["sex"] == "Male").sum()
    incomes = lines[lines["feature"] == "income"]["count"].to_numpy()
    np.testing.assert_array_equal(incomes, np.histogram(frame["income"], bins=64, range=(0, 100))[0])
    assert list(DOMAIN) == marginals.features
