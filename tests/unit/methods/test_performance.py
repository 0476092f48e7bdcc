"""Performance: what a request means, what is refused before anything is spent, and what a result answers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import dpexplain as dpx
from dpexplain.core.domain import PublicRange
from dpexplain.methods.performance import release
from dpexplain.methods.performance.spec import cells_for, edges_of, whole_edges

ROWS = 2_000
CATEGORIES = [f"c{number}" for number in range(40)]
DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(18, 80, integer=True),
        "sex": dpx.Categorical(["Female", "Male", "nobody"]),
        "race": dpx.Categorical(["A", "B"]),
        "many": dpx.Categorical(CATEGORIES),
        "happened": dpx.Categorical([0, 1]),
        "word": dpx.Categorical(["no", "yes"]),
        "one": dpx.Categorical(["only"]),
        "decile": dpx.Numeric(1, 10, integer=True),
        "risk": dpx.Numeric(0, 1),
        "maybe": dpx.Numeric(0, 1, missing="nan"),
        "cost": dpx.Numeric(0, 100),
    }
)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    draw = np.random.default_rng(1)
    age = draw.integers(18, 81, ROWS)
    chance = 1 / (1 + np.exp(-(age - 50) / 10))
    happened = (draw.random(ROWS) < chance).astype(int)
    return pd.DataFrame(
        {
            "age": age,
            "sex": draw.choice(["Female", "Male"], ROWS),
            "race": draw.choice(["A", "B"], ROWS),
            "many": draw.choice(CATEGORIES, ROWS),
            "happened": happened,
            "word": np.where(happened, "yes", "no"),
            "one": "only",
            "decile": np.clip(np.ceil(10 * chance), 1, 10).astype(int),
            "risk": chance,
            "maybe": np.where(draw.random(ROWS) < 0.1, np.nan, chance),
            "cost": 100 * chance,
        }
    )


def chance_of(rows):
    return 1 / (1 + np.exp(-(rows["age"].to_numpy(dtype=float) - 50) / 10))


MODEL = dpx.Model(chance_of, output=(0.0, 1.0), features=["age"], name="risk", version="1")


@pytest.fixture
def table(make_table, rows):
    return make_table(rows, domain=DOMAIN, exact=True, budget=dpx.Budget(100))


def spent(table):
    return table.ledger.statement(table.name).spent.amount


REFUSED = {
    "one class": ({"target": "one"}, "has one declared class"),
    "unknown target": ({"target": "income"}, "unknown feature 'income'"),
    "missing values kept": ({"target": "maybe"}, "keeps missing values"),
    "which word is positive": ({"target": "word"}, "say which of its values counts as positive"),
    "positive is not declared": ({"target": "word", "positive": "perhaps"}, "has no category 'perhaps'"),
    "positive of a number with fractions": ({"target": "cost", "positive": 3.7}, "hardly any row is exactly 3.7"),
    "positive between whole numbers": ({"target": "age", "positive": 30.5}, "is a whole number, and never 30.5"),
    "positive outside of the target": ({"target": "age", "positive": 99}, "from 18 to 80, and never 99"),
    "threshold above the range": (
        {"target": "happened", "threshold": 1.5},
        "inside the range of scores, 0 to 1; got 1.5",
    ),
    "threshold at the low end": ({"target": "happened", "threshold": 0.0}, "inside the range of scores"),
    "threshold of a column": ({"model": "decile", "target": "happened", "threshold": 11}, "1 to 10; got 11"),
    "threshold of a regression": ({"target": "cost", "threshold": 0.5}, "a regression has no threshold"),
    "residual of a class": ({"target": "happened", "largest_residual": 1.0}, "about regressions"),
    "target in groups": ({"target": "happened", "groups": ["happened"]}, "'happened' is the target"),
    "score in groups": ({"model": "decile", "target": "happened", "groups": [("sex", "decile")]}, "is the score"),
    "unknown group": ({"target": "happened", "groups": ["height"]}, "unknown feature 'height'"),
    "a group twice": ({"target": "happened", "groups": ["sex", ("sex",)]}, "named twice in groups"),
    "a group that is no list": ({"target": "happened", "groups": "sex"}, "groups must be a list of names"),
    "80 groups": ({"target": "happened", "groups": [("many", "race")]}, "many x race has 80 groups: with this epsilon"),
    "240 groups": ({"target": "happened", "groups": [("many", "sex", "race")]}, "has 240 groups; at most 100"),
    "score that is a category": ({"model": "race", "target": "happened"}, "is categorical, and scores are numbers"),
    "score that keeps missing values": ({"model": "maybe", "target": "happened"}, "a missing score is neither"),
    "score twice": ({"model": "decile", "target": "happened", "score": "risk"}, "a score is named twice"),
    "no score at all": ({"model": None, "target": "happened"}, "a model or about a column"),
    "score and target the same": ({"model": "risk", "target": "risk"}, "are the same column"),
    "all classes of a function": ({"target": "word", "all_classes": True}, "needs a classifier"),
    "all classes of numbers": ({"target": "cost", "all_classes": True}, "is numeric, and all_classes"),
    "all classes of a column": ({"model": "decile", "target": "word", "all_classes": True}, "neither score= nor"),
}


@pytest.mark.parametrize(("asked", "words"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_with_a_hint_and_nothing_is_spent(table, asked, words):
    asked = {"model": MODEL, **asked}
    with pytest.raises(dpx.DpexplainError, match=words) as refused:
        dpx.performance(table, asked.pop("model"), asked.pop("target"), **asked, epsilon=1)
    assert spent(table) == 0
    assert refused.value.hint or "must be" in str(refused.value)


def test_a_regression_target_has_bounds_or_no_domain():
    with pytest.raises(dpx.errors.DomainError, match="lower bound of a numeric column must be a finite number"):
        dpx.Numeric(None, 100)


def test_neither_a_model_nor_a_name(table):
    with pytest.raises(dpx.InputError, match=r"model must be a dpx\.Model"):
        dpx.performance(table, chance_of, "happened", epsilon=1)


def test_what_is_measured(table):
    found = dpx.performance(table, MODEL, "happened", epsilon=1)
    assert (found.task, found.target_words, found.score_words, found.threshold) == (
        *("binary", "happened is 1", "model risk"),
        0.5,
    )
    assert found.probability
    assert {"brier_score", "log_loss", "auc"} <= set(found.names)
    assert "count" not in found.names
    word = dpx.performance(table, "risk", "word", positive="yes", epsilon=1)
    assert (word.target_words, word.score_words) == ("word is yes", "risk")
    number = dpx.performance(table, "cost", "age", ["sex"], epsilon=1)
    assert (number.task, number.target_words, number.threshold) == ("regression", "age", None)


def same_entry(results):
    return len({found.receipt.entry.sequence for found in results}) == 1


def test_one_question_has_one_price_in_all_spellings(table):
    asked = [None, 1, 1.0, True, np.int64(1)]
    found = [dpx.performance(table, "risk", "happened", positive=value, epsilon=1) for value in asked]
    assert same_entry(found)
    assert {one.target_words for one in found} == {"happened is 1"}
    assert same_entry(dpx.performance(table, "risk", "age", positive=value, epsilon=1) for value in (30, 30.0))
    groups = (["sex", ("sex", "race")], [("race", "sex"), "sex"], [["race", "sex"], ("sex",)])
    assert same_entry(dpx.performance(table, "risk", "happened", each, epsilon=1) for each in groups)
    assert spent(table) == 3


def test_last_digits_of_a_model_change_no_question(table):
    """Scores are multiples of 1/16, as those of a tree; cells do not depend on them."""

    def steps(shift):
        return lambda rows: np.clip(np.floor((rows["age"].to_numpy(dtype=float) - 18) / 63 * 16) / 16 + shift, 0, 1)

    def asked(shift):
        model = dpx.Model(steps(shift), output=(0.0, 1.0), features=["age"], name="tree", version="1")
        return dpx.performance(table, model, "happened", epsilon=1)

    assert same_entry(asked(shift) for shift in (0.0, 1e-13, -1e-13, 1e-10))


def test_a_score_that_is_no_probability(table):
    found = dpx.performance(table, "decile", "happened", epsilon=1)
    assert not found.probability
    assert found.threshold == 6  # the middle is 5.5, and scores are whole
    assert found.spec.exact
    assert not {"brier_score", "log_loss", "calibration_error"} & set(found.names)
    with pytest.raises(dpx.InputError, match="brier_score is about probabilities, and this score goes from 1 to 10"):
        found.figure("brier_score")
    assert found.calibration()["mean_score"].tolist() == list(range(1, 11))
    assert "no probability" in found.caveat


def test_a_target_may_be_an_input_of_the_model(table):
    own = dpx.Model(lambda rows: rows["risk"].to_numpy(), output=(0.0, 1.0), features=["risk"], name="own", version="1")
    found = dpx.performance(table, own, "risk", epsilon=1)
    assert found.figure("mean_absolute_error").value == pytest.approx(0, abs=1e-4)


def test_a_group_without_rows_is_not_determined(make_table, rows):
    table = make_table(rows, domain=DOMAIN, exact=True, budget=dpx.Budget(100))
    found = dpx.performance(table, "decile", "happened", ["sex"], epsilon=2)
    for name in ("true_positive_rate", "selection_rate", "auc"):
        empty = found.figure(name, group={"sex": "nobody"})
        assert not empty.determined
        assert math.isnan(empty.value)
        assert (empty.low, empty.high) == (0, 1)
    frame = found.by_group("sex")
    assert not frame[frame["group"] == "nobody"]["determined"].any()
    assert frame[frame["group"] == "Male"]["determined"].all()
    assert found.equalized_odds_difference("sex").determined  # of the others
    assert "not determined" in " ".join(found.findings)
    assert "not determined" in found.doubt
    again = dpx.from_json(found.to_json())
    assert (again.values == found.values).all()
    assert np.isfinite(again.values).all()


def test_groups_are_found_by_their_values(table, rows):
    found = dpx.performance(table, "risk", "happened", ["sex", ("race", "age")], epsilon=50)
    assert found.by == (("sex",), ("age", "race"))  # in one order, however they are named
    assert found.cells_of("sex") == [{"sex": name} for name in ("Female", "Male", "nobody")]
    cells = found.cells_of(("race", "age"))  # in any order
    assert cells[0] == {"race": "A", "age": (18, 33)}
    assert found.group_name(cells[0]) == "age 18 to 33, A"
    young = found.figure("base_rate", group={"race": "A", "age": 20})
    assert young == found.figure("base_rate", group=cells[0])
    inside = rows[(rows["race"] == "A") & rows["age"].between(18, 33)]
    assert young.value == pytest.approx(inside["happened"].mean())
    everybody = found.figure("base_rate", group={"race": "A"}).value  # summed over ages
    assert everybody == pytest.approx(rows[rows["race"] == "A"]["happened"].mean())
    for group, words in (({"sex": "other"}, "there is no group"), ({"height": 1}, "not grouped by height")):
        with pytest.raises(dpx.InputError, match=words):
            found.figure("accuracy", group=group)
    with pytest.raises(dpx.InputError, match="say which groups are meant"):
        found.demographic_parity_ratio()
    with pytest.raises(dpx.InputError, match="not grouped by age"):
        found.equalized_odds_difference("age")


def test_figures_that_there_are_not(table):
    found = dpx.performance(table, MODEL, "happened", epsilon=1)
    for asked, words in (
        ({"name": "f1"}, "there is no figure 'f1'"),
        ({"name": "count"}, "the number of rows is public: 2000"),
        ({"name": "accuracy", "threshold": 2}, "0 to 1; got 2"),
        ({"name": "auc", "threshold": 0.5}, "auc has no threshold"),
        ({"name": "auc", "label": "yes"}, "label picks one of several classes"),
        ({"name": "auc", "group": {"sex": "Male"}}, "not grouped"),
    ):
        with pytest.raises(dpx.InputError, match=words):
            found.figure(asked.pop("name"), **asked)
    with pytest.raises(dpx.InputError, match="residuals are those of a regression"):
        found.residuals()


def test_where_the_number_of_rows_is_private_it_is_a_figure(make_table, rows):
    table = make_table(rows, domain=DOMAIN, exact=True, relation="add-remove", rows_hint=ROWS)
    found = dpx.performance(table, MODEL, "happened", ["sex"], epsilon=5)
    assert found.figure("count").value == pytest.approx(ROWS)
    assert "count" in found.names


def test_the_same_request_again_is_free_and_files_come_back(make_table, rows, tmp_path):
    table = make_table(rows, domain=DOMAIN)
    first = dpx.performance(table, MODEL, "happened", ["sex"], epsilon=1)
    second = dpx.performance(table, MODEL, "happened", ["sex"], epsilon=1)
    assert second.receipt.replayed
    assert first.released == second.released
    assert spent(table) == 1
    first.to_json(tmp_path / "performance.json")
    again = dpx.from_json(tmp_path / "performance.json")
    assert type(again) is dpx.results.Performance
    dpx.verify(again, table.ledger)
    assert len(again.values) == len(again.to_frame()) == len(again.interval()[0]) == len(again.determined())
    wider = again.interval(0.99)
    assert (wider[0] <= again.interval()[0]).all()
    assert (wider[1] >= again.interval()[1]).all()


@pytest.mark.parametrize(
    "damage",
    [
        lambda spec: spec.update(edges=[0.0, 0.7, 0.5, 1.0]),
        lambda spec: spec.update(edges=[0.0, 0.25, 1.0]),
        lambda spec: spec.update(task="guess"),
        lambda spec: spec.update(groups=[]),
        lambda spec: spec.update(edges=[*spec["edges"], 2.0]),
    ],
)
def test_a_damaged_file_is_refused(table, damage):
    import json

    document = json.loads(dpx.performance(table, MODEL, "happened", cells=4, epsilon=1).to_json())
    damage(document["receipt"]["request"]["spec"])
    with pytest.raises(dpx.InputError, match="damaged"):
        dpx.from_json(json.dumps(document))


# All classes ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def words(rows):
    fitted = LogisticRegression().fit(rows[["age"]], rows["word"])
    return dpx.Model(fitted, output=(0.0, 1.0), label="yes", name="words", version="1")


def test_all_classes_need_a_label_or_are_asked_for(table, words):
    found = dpx.performance(table, words, "word", ["sex"], all_classes=True, epsilon=20)
    assert found.labels == ("no", "yes")
    assert found.receipt.request["model"]["label"] is None
    with pytest.raises(dpx.InputError, match="say which class is measured"):
        found.figure("auc")
    with pytest.raises(dpx.InputError, match="there is no class 'perhaps'"):
        found.figure("auc", label="perhaps")
    yes, no = (found.figure("auc", label=label).value for label in ("yes", "no"))
    assert yes == pytest.approx(no, abs=0.03)
    assert found.by_group("sex")["figure"].unique().tolist() == ["accuracy"]
    with pytest.raises(dpx.errors.ModelError, match="say which class's probability"):
        dpx.Model(words.original, output=(0.0, 1.0))  # as everywhere


def test_all_classes_are_probabilities_whatever_the_range_of_the_label(table, words):
    """The output range is about the label's own probability, and would clip those of the others."""
    narrow = dpx.Model(words.original, output=(0.0, 0.6), label="yes", name="narrow", version="1")
    wide, clipped = (
        dpx.performance(table, model, "word", all_classes=True, cells=20, epsilon=1) for model in (words, narrow)
    )
    assert clipped.edges == wide.edges
    assert (clipped.figure("accuracy"), clipped.probability) == (wide.figure("accuracy"), True)
    assert clipped.figure("mean_prediction", label="no") == wide.figure("mean_prediction", label="no")


def test_a_class_that_the_target_does_not_declare(table, rows):
    fitted = LogisticRegression().fit(rows[["age"]], np.where(rows["age"] > 60, "old", rows["word"]))
    model = dpx.Model(fitted, output=(0.0, 1.0), label="yes", name="old", version="1")
    with pytest.raises(dpx.InputError, match="the model has a class 'old'"):
        dpx.performance(table, model, "word", all_classes=True, epsilon=1)
    assert spent(table) == 0


def test_another_model_under_the_same_version_is_refused_by_any_class(table, rows):
    """The two differ in the classes that no label names."""

    class Three:
        classes_ = np.array(["no", "yes"])
        feature_names_in_ = np.array(["age"])

        def __init__(self, other):
            self.other = other

        def predict(self, rows):
            return np.full(len(rows), "no")

        def predict_proba(self, rows):
            return np.stack([np.full(len(rows), self.other), np.full(len(rows), 0.5)], axis=1)

    for other in (0.5, 0.4):
        model = dpx.Model(Three(other), output=(0.0, 1.0), label="yes", name="three", version="1")
        if other == 0.4:
            with pytest.raises(dpx.errors.ModelError, match="gives other answers"):
                dpx.performance(table, model, "word", all_classes=True, cells=3, epsilon=1)
        else:
            dpx.performance(table, model, "word", all_classes=True, epsilon=1)


# What a result is asked -----------------------------------------------------------------------------------------------


def test_groups_of_a_column_with_fractions_are_ranges(make_table, rows):
    """Edges that look like those between whole numbers do not make it whole."""
    domain = dpx.Domain({**DOMAIN, "height": dpx.Numeric(0.5, 4.5), "steps": dpx.Numeric(1, 4, integer=True)})
    steps = np.arange(ROWS) % 4 + 1
    private = make_table(rows.assign(height=steps + 0.2, steps=steps), domain=domain, exact=True)
    found = dpx.performance(private, "risk", "happened", ["height", "steps"], epsilon=1)
    assert [cell["height"] for cell in found.cells_of("height")] == [(0.5, 1.5), (1.5, 2.5), (2.5, 3.5), (3.5, 4.5)]
    assert [cell["steps"] for cell in found.cells_of("steps")] == [1, 2, 3, 4]
    again = dpx.from_json(found.to_json())
    assert again.cells_of("height") == found.cells_of("height")


def test_what_no_result_can_be_asked_is_refused_with_a_hint(table):
    found = dpx.performance(table, "risk", "happened", ["sex"], epsilon=1)
    several = [
        lambda: found.figure("accuracy", group=["sex"]),
        lambda: found.figure("accuracy", group=[]),
        lambda: found.figure("accuracy", group={"sex": ["Male"]}),
        lambda: found.figure("accuracy", threshold=[0.5]),
        lambda: found.figure("accuracy", threshold=np.array(0.5)),
        lambda: found.figure("accuracy", label=["a"]),
        lambda: found.figure("accuracy", level=[0.9]),
        lambda: found.figure(["auc"]),
        lambda: found.spread(["auc"], "sex"),
        lambda: found.by_group(3),
        lambda: found.by_group([3]),
        lambda: found.confusion_matrix(threshold=[0.5]),
        lambda: found.roc(group="Male"),
    ]
    for ask in several:
        with pytest.raises(dpx.InputError) as refused:
            ask()
        assert refused.value.hint


# Cells ----------------------------------------------------------------------------------------------------------------


def test_edges_are_public_rise_and_hold_the_threshold():
    unit = PublicRange(0.0, 1.0)
    for cells in (2, 7, 40, 128):
        for threshold in (0.5, 0.123456, 0.9999, 1.0):
            edges = edges_of(unit, cells, threshold)
            assert threshold in edges[1:-1]
            assert all(a < b for a, b in itertools.pairwise(edges))
            assert len(edges) - 1 == cells


def test_cells_of_probabilities_are_finer_towards_0_and_1():
    fine = edges_of(PublicRange(0.0, 1.0), 40, 0.5)
    assert sum(edge < 0.02 for edge in fine) > 3  # scores of rare events
    assert np.diff(fine).max() < math.pi / 2 / 40 + 0.001
    assert np.diff(edges_of(PublicRange(0.0, 0.1), 4, 0.05))[0] < 0.01  # one end is that of a probability
    assert edges_of(PublicRange(-3.0, 3.0), 6, 0.0) == pytest.approx((-3, -2, -1, 0, 1, 2, 3))
    assert edges_of(PublicRange(0.0, 1.0), 4, None) == (0, 0.25, 0.5, 0.75, 1)  # predictions of a regression


def test_whole_scores_have_cells_of_their_own():
    assert whole_edges(1, 10, 3, 5) == tuple(np.arange(0.5, 11))
    coarse = whole_edges(0, 1000, 10, 500)
    assert 499.5 in coarse
    assert len(coarse) <= 13


def test_more_rows_or_less_noise_mean_more_cells():
    assert cells_for(9, 2, 1_000) < cells_for(9, 2, 20_000) < cells_for(1, 2, 40_000) == 128
    assert cells_for(1000, 2, 100) == 6
    assert cells_for(3, 2, None) == 20


# Decisions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [dpx.Budget(100), dpx.Budget(100, 1e-6)], ids=["pure", "zcdp"])
def test_a_share_of_the_price_goes_to_decisions_where_cells_are_many(make_table, rows, budget):
    table = make_table(rows, domain=DOMAIN, budget=budget)
    found = dpx.performance(table, MODEL, "happened", ["race"], cells=100, epsilon=1)
    share, parts = found.spec.decisions_share, found.released["parts"]
    assert 0 < share < 1
    cost = table.cost(epsilon=1)
    assert [parts[name]["cost"] for name in ("decisions", "counts")] == [
        (cost * share).to_json(),
        (cost * (1 - share)).to_json(),
    ]
    few = dpx.performance(table, MODEL, "happened", ["race"], cells=2, epsilon=1)
    assert (few.spec.decisions_share, list(few.released["parts"])) == (0, ["counts"])
    for target, options in (("word", {"all_classes": True}), ("cost", {})):
        model = few_classes(rows) if options else MODEL
        other = dpx.performance(table, model, target, ["race"], cells=100, epsilon=1, **options)
        assert other.spec.decisions_share == 0


def few_classes(rows):
    fitted = LogisticRegression().fit(rows[["age"]], rows["word"])
    return dpx.Model(fitted, output=(0.0, 1.0), label="yes", name="few", version="1")


def test_decisions_make_rates_of_groups_better_and_not_the_area_much_worse(make_table, rows, monkeypatch):
    table = make_table(rows, domain=DOMAIN, budget=dpx.Budget(100, 1e-6))
    both = dpx.performance(table, MODEL, "happened", ["race"], cells=100, epsilon=1)
    monkeypatch.setattr(release, "SHARES", release.SHARES[:1])
    alone = dpx.performance(table, MODEL, "happened", ["race"], cells=100, epsilon=1)
    halves = {}
    for name in ("true_positive_rate", "auc"):
        for which, found in (("both", both), ("alone", alone)):
            known = found.figure(name, group={"race": "A"})
            halves[name, which] = (known.high - known.low) / 2
    assert halves["true_positive_rate", "both"] < 0.6 * halves["true_positive_rate", "alone"]
    assert halves["auc", "both"] < 1.7 * halves["auc", "alone"]  # at most 5/8 of the price: noise grows by sqrt(8/3)


def test_a_file_with_other_decisions_is_refused(make_table, rows):
    import json

    table = make_table(rows, domain=DOMAIN)
    document = json.loads(dpx.performance(table, MODEL, "happened", ["race"], cells=60, epsilon=1).to_json())
    dpx.from_json(json.dumps(document))
    for share in ("0", "1", "-1/4"):
        document["receipt"]["request"]["spec"]["decisions_share"] = share
        with pytest.raises((dpx.InputError, dpx.errors.VerificationError)):
            dpx.from_json(json.dumps(document))


# Forecast -------------------------------------------------------------------------------------------------------------


def test_the_plan_tells_the_error_of_the_area_and_of_rates(table):
    asked = dpx.requests.Performance(target="happened", groups=["sex"])
    told = dpx.plan(asked, table=table, model=MODEL, epsilon=1)
    (option,) = told.options
    assert 0 < option.error < option.interval < 0.2
    assert "AUC" in option.note
    assert "Rates of a group with an even share" in option.note
    better = dpx.plan(asked, table=table, model=MODEL, epsilon=10).options[0]
    assert better.error < option.error
    compared = dpx.plan(asked, domain=DOMAIN, n=30_000, relation="add-remove", epsilon=1)
    assert [one.definition for one in compared.options] == ["pure", "zcdp"]
    number = dpx.plan(dpx.requests.Performance(target="cost"), table=table, output=(0, 100), epsilon=1).options[0]
    assert "mean absolute error" in number.note
    many = dpx.plan(dpx.requests.Performance(target="happened", groups=["many"]), table=table, epsilon=0.1).options[0]
    assert "That tells nothing" in many.note
