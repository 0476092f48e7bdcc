"""Models of three classes and more without a label: curves, importances and influences of all classes at once."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import dpexplain as dpx
from dpexplain.errors import ModelError

draw = np.random.default_rng(0)
ROWS = pd.DataFrame({"a": draw.uniform(0, 1, 600).round(2), "b": draw.uniform(0, 1, 600).round(2)})
KINDS = np.array(["low", "middle", "high"])
GRADE = KINDS[np.digitize(ROWS["a"] + 0.3 * ROWS["b"] + draw.normal(0, 0.1, 600), [0.5, 0.9])]
FITTED = LogisticRegression().fit(ROWS, GRADE)
TABLE = ROWS.assign(grade=GRADE)
DOMAIN = dpx.Domain(
    {"a": dpx.Numeric(0, 1), "b": dpx.Numeric(0, 1), "grade": dpx.Categorical(["low", "middle", "high", "none"])}
)


@pytest.fixture
def model():
    return dpx.Model(FITTED, output=(0, 1), name="grades", version="1")


@pytest.fixture(params=["replace-one", "add-remove"])
def exact(request, make_table):
    return make_table(TABLE, exact=True, domain=DOMAIN, relation=request.param, rows_hint=600)


def test_curves_are_those_of_every_class(exact, model):
    curves = dpx.partial_dependence(exact, model, "a", epsilon=1, grid={"a": [0.0, 0.5, 1.0]}, smooth=False)
    assert [curve.label for curve in curves] == list(FITTED.classes_)
    for place, name in enumerate(FITTED.classes_):
        truth = [FITTED.predict_proba(ROWS.assign(a=a))[:, place].mean() for a in (0.0, 0.5, 1.0)]
        np.testing.assert_allclose(curves[f"a: {name}"].values, truth, atol=1e-5)
    assert sum(curve.values for curve in curves) == pytest.approx([1, 1, 1], abs=1e-5)
    assert curves[0].title == "Partial dependence of a, class high"
    assert len({curve.file_name for curve in curves}) == 3
    assert set(curves.to_frame()["feature"]) == {"a: high", "a: low", "a: middle"}
    again = dpx.from_json(curves[1].to_json())
    assert (again.label, again.values.tolist()) == ("low", curves[1].values.tolist())


def test_several_features_have_all_classes_each(exact, model):
    curves = dpx.partial_dependence(exact, model, ["a", ("a", "b")], epsilon=1, grid={"a": 3, "b": 2})
    assert [curve.key for curve in curves] == [f"{x}: {c}" for x in ("a", "a x b") for c in FITTED.classes_]
    assert curves["a x b: low"].shape == (3, 2)


@pytest.mark.drawn(1e-5)  # points of a curve miss together: the mean of 12 tables is 0.97, its standard deviation 0.03
@pytest.mark.long
def test_intervals_hold_the_exact_curves(make_table, model):
    points = np.linspace(0, 1, 7)
    truth = np.array([FITTED.predict_proba(ROWS.assign(a=a)).mean(axis=0) for a in points]).T
    hits = []
    for relation, budget in (("replace-one", dpx.Budget(10)), ("add-remove", dpx.Budget(10, 1e-6))):
        for _ in range(6):
            table = make_table(TABLE, domain=DOMAIN, relation=relation, budget=budget, rows_hint=600)
            curves = dpx.partial_dependence(table, model, "a", epsilon=2, grid={"a": 7})
            for curve, exact_values in zip(curves, truth, strict=True):
                for low, high in (curve.proven_interval(), curve.interval()):
                    hits.append(((low <= exact_values) & (exact_values <= high)).mean())
    assert np.mean(hits) > 0.84


def test_one_more_class_costs_less_than_one_more_release(make_table, model):
    table = make_table(TABLE, domain=DOMAIN, budget=dpx.Budget(10, 1e-6))
    one = dpx.Model(FITTED, output=(0, 1), label="low", name="low", version="1")
    options = {"epsilon": 1, "grid": {"a": 11}, "rug": False}
    every, single = (dpx.partial_dependence(table, m, "a", **options) for m in (model, one))
    assert every[0].std == pytest.approx(np.sqrt(2) * single.std, rel=1e-3)  # not the root of three


def test_importance_is_that_of_the_probability_of_the_own_class(exact, model):
    for loss, truth in (
        ("squared", lambda p: (1 - p) ** 2), ("log", lambda p: -np.log(p.clip(0.01, 0.99))),
        ("accuracy", lambda p: p < 0.5),
    ):  # fmt: skip
        found = dpx.permutation_importance(exact, model, "grade", loss=loss, clip=100, epsilon=1)
        place = pd.Index(FITTED.classes_).get_indexer(GRADE)
        own = FITTED.predict_proba(ROWS)[np.arange(600), place]
        assert found.base == pytest.approx(truth(own).mean(), abs=1e-3)
        assert found.items[0] == "a"
        assert found.scores[0] > 0.05


def test_influence_is_how_far_probabilities_move(exact, model):
    found = dpx.influence(exact, model, features=["a", "b"], epsilon=1, most_predictions=24_000)
    said = FITTED.predict_proba(ROWS)
    for place, name in enumerate(("a", "b")):
        moved = [
            np.abs(FITTED.predict_proba(ROWS.assign(**{name: value})) - said).sum(axis=1).mean() / 2
            for value in ROWS[name].sample(100, random_state=0)
        ]
        assert found.values[place] == pytest.approx(np.mean(moved), abs=0.05)
    likeliest = dpx.influence(exact, model, features=["a", "b"], outcome="class", epsilon=1, most_predictions=24_000)
    assert likeliest.values[0] > found.values[0]
    shared = dpx.influence(exact, model, features=["a", "b"], aggregate="shapley", epsilon=1, most_predictions=24_000)
    assert shared.values[0] > shared.values[1] > 0
    assert dpx.from_json(found.to_json()).values.tolist() == found.values.tolist()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda t, m: dpx.accumulated_effects(t, m, "a", epsilon=1), "what is asked for is about one of them"),
        (lambda t, m: dpx.interaction_ranking(t, m, kind="total", epsilon=1), "about one of them"),
        (lambda t, m: dpx.local_sketch(t, m, epsilon=1), "about one of them"),
        (lambda t, m: dpx.influence(t, m, "group", group={"a": (0, 0.5)}, epsilon=1), "influences on all classes"),
        (lambda t, m: dpx.influence(t, m, features=["a"], given=["b"], epsilon=1), "influences on all classes"),
        (lambda t, m: dpx.influence(t, m, "individual", row={"a": 0.2, "b": 0.1}, epsilon=1), "about one of them"),
        (lambda t, m: dpx.influence(t, m, threshold=0.3, epsilon=1), "a threshold is about one class"),
        (lambda t, m: dpx.permutation_importance(t, m, "grade", positive="low", epsilon=1), "positive= is about one"),
        (lambda t, m: dpx.permutation_importance(t, m, "b", features=["a"], epsilon=1), "the target"),
    ],
)
def test_what_is_about_one_class_asks_for_it(make_table, model, ask, message):
    table = make_table(TABLE, domain=DOMAIN, budget=dpx.Budget(10, 1e-6))
    with pytest.raises(dpx.InputError, match=message):
        ask(table, model)
    assert table.ledger.statement(table.name).left == table.budget.total


def test_a_model_of_two_classes_still_needs_a_label():
    two = LogisticRegression().fit(ROWS, GRADE == "low")
    with pytest.raises(ModelError, match="say which class"):
        dpx.Model(two, output=(0, 1))
    with pytest.raises(ModelError, match="each is a probability"):
        dpx.Model(FITTED, output=(0, 5))


def test_another_model_of_the_same_version_is_refused(make_table, model):
    table = make_table(TABLE, domain=DOMAIN)
    dpx.partial_dependence(table, model, "a", epsilon=1)
    other = dpx.Model(LogisticRegression(C=0.1).fit(ROWS, GRADE), output=(0, 1), name="grades", version="1")
    with pytest.raises(ModelError, match="gives other answers"):
        dpx.partial_dependence(table, other, "b", epsilon=1)


def test_functions_and_plans(make_table, model):
    table = make_table(TABLE, domain=DOMAIN, budget=dpx.Budget(10, 1e-6))
    named = dpx.Model(
        lambda rows: FITTED.predict_proba(rows[["a", "b"]]), output=(0, 1), features=["a", "b"],
        classes=list(FITTED.classes_), name="named", version="1",
    )  # fmt: skip
    curves = dpx.partial_dependence(table, named, "b", epsilon=1)
    assert len(curves) == 3
    requests = [
        dpx.requests.PartialDependence(feature="a"), dpx.requests.PermutationImportance(target="grade"),
        dpx.requests.Influence(features=["a", "b"]),
    ]  # fmt: skip
    for request in requests:
        assert "Forecast" in str(dpx.plan(request, table=table, model=model, epsilon=1))
    performance = dpx.performance(table, model, "grade", all_classes=True, epsilon=1)
    assert "low" in performance.to_frame().to_string()


def test_a_ranking_of_one_feature_can_be_shown(make_table):
    table = make_table(TABLE, domain=DOMAIN)
    one = dpx.Model(
        lambda rows: np.column_stack([rows["a"], 1 - rows["a"], 0 * rows["a"]]), output=(0, 1), features=["a"],
        classes=["high", "low", "middle"], name="one", version="1",
    )  # fmt: skip
    found = dpx.permutation_importance(table, one, "grade", epsilon=1)
    assert found.items == ["a"]
    assert found.order_probability.tolist() == []
    assert "a" in str(found)


@pytest.mark.long
def test_commands_explain_all_classes(tmp_path, monkeypatch, capsys, sketched_pictures):
    from dpexplain.cli.app import run

    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("rows.csv", index=False)
    DOMAIN.save("domain.yaml")
    Path("all_classes_model.py").write_text(
        "import numpy as np\n\n\ndef three(rows):\n    a = rows['a'].to_numpy()\n"
        "    return np.column_stack([1 - a, a / 2, a / 2])\n"
    )
    Path("dpexplain.toml").write_text(
        '[table]\npath = "rows.csv"\ndomain = "domain.yaml"\nname = "rows"\nversion = "1"\nrelation = "replace-one"\n'
        '[budget]\nepsilon = 9.0\nledger = "sqlite:///budget.db"\n'
        '[model]\nimport = "all_classes_model:three"\nclasses = ["low", "middle", "high"]\nfeatures = ["a"]\n'
        'output = [0.0, 1.0]\nname = "three"\nversion = "1"\ntarget = "grade"\n'
    )
    assert run(["pdp", "--feature", "a", "--epsilon", "1"]) == 0
    assert {path.name for path in Path("explanations").glob("*.png")} == {"a-low.png", "a-middle.png", "a-high.png"}
    assert run(["verify", "explanations/a-low.json", "--model"]) == 0
    assert run(["importance", "--epsilon", "1"]) == 0
    assert run(["influence", "--feature", "a", "--epsilon", "1"]) == 0
    capsys.readouterr()
    assert run(["ale", "--feature", "a", "--epsilon", "1"]) == 2
    assert 'label = "high" in [model]' in capsys.readouterr().err
    sys.modules.pop("all_classes_model", None)
