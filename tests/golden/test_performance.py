"""Every figure without noise is that of plain formulas (scikit-learn, numpy) on the rows themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    mean_absolute_error,
    precision_score,
    r2_score,
    recall_score,
    roc_auc_score,
    root_mean_squared_error,
)

import dpexplain as dpx

ROWS = 3_000
DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(18, 80, integer=True),
        "sex": dpx.Categorical(["Female", "Male"]),
        "race": dpx.Categorical(["A", "B", "C"]),
        "happened": dpx.Categorical([0, 1]),
        "kind": dpx.Categorical(["low", "middle", "high", "never"]),
        "decile": dpx.Numeric(1, 10, integer=True),
        "cost": dpx.Numeric(0, 100),
    }
)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    age, sex = draw.integers(18, 81, ROWS), draw.choice(["Female", "Male"], ROWS)
    chance = 1 / (1 + np.exp(-(age - 50) / 12 + (sex == "Male")))
    noisy = chance + 0.15 * draw.normal(size=ROWS)
    return pd.DataFrame(
        {
            "age": age,
            "sex": sex,
            "race": draw.choice(["A", "B", "C"], ROWS, p=[0.6, 0.3, 0.1]),
            "happened": (draw.random(ROWS) < chance).astype(int),
            "kind": np.select([noisy < 0.3, noisy < 0.7], ["low", "middle"], "high"),
            "decile": np.clip(np.ceil(10 * noisy), 1, 10).astype(int),
            "cost": np.clip(100 * noisy, 0, 100),
        }
    )


def chance_of(rows):
    return 1 / (1 + np.exp(-(rows["age"].to_numpy(dtype=float) - 50) / 12))


MODEL = dpx.Model(chance_of, output=(0.0, 1.0), features=["age"], name="risk", version="1")


@pytest.fixture
def table(make_table, rows):
    return make_table(rows, domain=DOMAIN, exact=True, budget=dpx.Budget(10_000))


def of(rows, group):
    return rows[np.logical_and.reduce([rows[name] == value for name, value in group.items()] or [np.ones(ROWS, bool)])]


GROUPS = [{}, {"sex": "Male"}, {"sex": "Female", "race": "C"}, {"race": "B"}]  # the last one is summed over a crossing


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_rates_of_a_column_of_scores(table, rows, group):
    found = dpx.performance(table, "decile", "happened", ["sex", ("sex", "race")], threshold=5, epsilon=1000)
    mine = of(rows, group)
    true, said, score = mine["happened"], (mine["decile"] >= 5).astype(int), mine["decile"]
    exact = {
        "accuracy": accuracy_score(true, said),
        "selection_rate": said.mean(),
        "recall": recall_score(true, said),
        "true_positive_rate": recall_score(true, said),
        "false_negative_rate": 1 - recall_score(true, said),
        "true_negative_rate": recall_score(1 - true, 1 - said),
        "false_positive_rate": 1 - recall_score(1 - true, 1 - said),
        "precision": precision_score(true, said),
        "base_rate": true.mean(),
        "auc": roc_auc_score(true, score),
    }
    for name, value in exact.items():
        assert found.figure(name, group=group).value == pytest.approx(value, abs=1e-9), name
    matrix = found.confusion_matrix(group=group)
    assert matrix["rows"].to_numpy() == pytest.approx(confusion_matrix(true, said).ravel())
    other = found.figure("selection_rate", group=group, threshold=8)
    assert other.value == pytest.approx((score >= 8).mean())
    curve = found.calibration(group=group).set_index("mean_score")
    for value, shown in mine.groupby("decile")["happened"].mean().items():
        assert curve.loc[value, "value"] == pytest.approx(shown)


def test_differences_and_ratios_by_group(table, rows):
    found = dpx.performance(table, "decile", "happened", ["sex"], threshold=5, epsilon=1000)
    said = rows["decile"] >= 5
    selected = said.groupby(rows["sex"]).mean()
    true, false = (said[rows["happened"] == y].groupby(rows["sex"]).mean() for y in (1, 0))

    def apart(rates):
        return rates.max() - rates.min()

    exact = {
        "demographic_parity_difference": apart(selected),
        "demographic_parity_ratio": selected.min() / selected.max(),
        "true_positive_rate_difference": apart(true),
        "false_positive_rate_difference": apart(false),
        "equal_opportunity_difference": apart(true),
        "equal_opportunity_ratio": true.min() / true.max(),
        "equalized_odds_difference": max(apart(true), apart(false)),
        "equalized_odds_ratio": min(true.min() / true.max(), false.min() / false.max()),
    }
    for name, value in exact.items():
        assert getattr(found, name)("sex").value == pytest.approx(value, abs=1e-9), name
    assert found.four_fifths().value == pytest.approx(exact["demographic_parity_ratio"], abs=1e-9)
    assert "four fifths" in found.four_fifths("sex").sentence


@pytest.mark.parametrize("budget", [dpx.Budget(10_000), dpx.Budget(10_000, 1e-6)], ids=["pure", "zcdp"])
def test_decisions_are_the_confusion_matrix_at_the_threshold(make_table, rows, budget):
    """They are counted where cells are many, and leave what is known without noise as it is."""
    private = make_table(rows, domain=DOMAIN, exact=True, budget=budget)
    found = dpx.performance(private, MODEL, "happened", ["sex", "race"], threshold=0.4, cells=60, epsilon=1)
    released, noise = found.part("decisions")
    assert 0 < found.spec.decisions_share < 1
    groups = [rows[rows[by] == value] for by in ("race", "sex") for value in sorted(set(rows[by]))]
    exact = [confusion_matrix(mine["happened"], chance_of(mine) >= 0.4).T for mine in groups]
    assert released.tolist() == np.concatenate(exact, axis=None).tolist()
    assert noise.size == len(released)
    for group, mine in (({}, rows), ({"sex": "Male"}, groups[4]), ({"race": "C"}, groups[2])):
        true, p = mine["happened"], chance_of(mine)
        assert found.figure("recall", group=group).value == pytest.approx(recall_score(true, p >= 0.4), abs=1e-9)
        area = found.figure("auc", group=group)
        assert area.low <= roc_auc_score(true, p) <= area.high


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_figures_of_a_model_lie_in_their_intervals(make_table, rows, relation):
    """Cells blur what is no rate at an edge: the interval holds the exact figure. A rate at the threshold is exact."""
    private = make_table(rows, domain=DOMAIN, exact=True, budget=dpx.Budget(10_000), relation=relation, rows_hint=ROWS)
    found = dpx.performance(private, MODEL, "happened", epsilon=1000)
    p, true = chance_of(rows), rows["happened"]
    exact = {
        "auc": roc_auc_score(true, p),
        "brier_score": brier_score_loss(true, p),
        "log_loss": log_loss(true, p),
        "mean_prediction": p.mean(),
    }
    for name, value in exact.items():
        known = found.figure(name)
        assert known.low <= value <= known.high, name
        assert known.high - known.low < 0.12, name
    assert found.figure("accuracy").value == pytest.approx(accuracy_score(true, p >= 0.5))
    between = found.figure("selection_rate", threshold=0.5123)
    assert between.low <= (p >= 0.5123).mean() <= between.high


def test_all_classes(table, rows):
    chosen = rows[["age"]].assign(sex=(rows["sex"] == "Male").astype(int))
    fitted = LogisticRegression().fit(chosen[["age"]], rows["kind"])
    model = dpx.Model(fitted, output=(0.0, 1.0), label="high", name="kinds", version="1")
    found = dpx.performance(table, model, "kind", ["sex"], all_classes=True, cells=64, epsilon=1000)
    said, p = fitted.predict(rows[["age"]]), fitted.predict_proba(rows[["age"]])
    assert found.labels == tuple(fitted.classes_)
    assert found.figure("accuracy").value == pytest.approx(accuracy_score(rows["kind"], said))
    inside = rows["sex"] == "Male"
    right = accuracy_score(rows["kind"][inside], said[inside])
    assert found.figure("accuracy", group={"sex": "Male"}).value == pytest.approx(right)
    for place, label in enumerate(fitted.classes_):
        area = found.figure("auc", label=label)
        assert area.low <= roc_auc_score(rows["kind"] == label, p[:, place]) <= area.high
        rate = found.figure("true_positive_rate", label=label).value
        assert rate == pytest.approx(recall_score(rows["kind"] == label, p[:, place] >= 0.5))
    matrix = found.confusion_matrix().set_index(["target", "predicted"])["rows"]
    exact = confusion_matrix(rows["kind"], said, labels=fitted.classes_)
    for i, j in np.ndindex(exact.shape):
        assert matrix[fitted.classes_[i], fitted.classes_[j]] == exact[i, j]
    assert (matrix["never"] == 0).all()


@pytest.mark.parametrize(("by", "group"), [((), {}), (("sex",), {}), (("sex",), {"sex": "Male"})], ids=str)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_regression(make_table, rows, group, relation, by):
    private = make_table(rows, domain=DOMAIN, exact=True, budget=dpx.Budget(10_000), relation=relation, rows_hint=ROWS)
    guess = dpx.Model(lambda rows: 100 * chance_of(rows), output=(0.0, 100.0), features=["age"], name="g", version="1")
    found = dpx.performance(private, guess, "cost", by, epsilon=1000)
    mine = of(rows, group)
    y, f = mine["cost"], 100 * chance_of(mine)
    exact = {
        "r2": r2_score(y, f),
        "mean_absolute_error": mean_absolute_error(y, f),
        "root_mean_squared_error": root_mean_squared_error(y, f),
        "mean_residual": (y - f).mean(),
    }
    assert found.task == "regression"
    for name, value in exact.items():
        assert found.figure(name, group=group).value == pytest.approx(value, abs=1e-3), name
    if not group:
        shown = found.residuals()
        cell = np.digitize(f, found.edges[1:-1])
        assert shown["rows"].to_numpy() == pytest.approx(np.bincount(cell, minlength=len(shown)), abs=1e-6)
        full = shown["rows"].to_numpy() > 0.5
        means = [(y - f)[cell == k].mean() for k in np.flatnonzero(full)]
        assert shown["value"].to_numpy()[full] == pytest.approx(means, abs=1e-3)


def test_rows_on_which_the_model_fails_count_as_the_middle(make_table, rows):
    broken = dpx.Model(
        lambda rows: np.where(rows["age"].to_numpy() == 40, np.nan, 0.1),
        output=(0.0, 1.0),
        features=["age"],
        name="broken",
        version="1",
    )
    domain = dpx.Domain({**DOMAIN, "age": dpx.Numeric(18, 1e6)})  # synthetic rows are never 40 years old
    found = dpx.performance(
        make_table(rows, domain=domain, exact=True, budget=dpx.Budget(10_000)), broken, "happened", epsilon=1000
    )
    assert found.figure("selection_rate").value == pytest.approx((rows["age"] == 40).mean())
