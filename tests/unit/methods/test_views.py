"""Many synthetic rows at once: bands, shapes with their probability, swarms, counterfactuals. All free."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import dpexplain as dpx
from dpexplain.errors import InputError
from dpexplain.maths.weights import RowPosterior
from dpexplain.methods.individuals import Statement, _of_categories, alike_as, moving, point_words, share_words, turns

DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(20, 80, integer=True),
        "sex": dpx.Categorical(["f", "m"]),
        "pay": dpx.Numeric(0, 100),
        "shoe": dpx.Numeric(30, 50),
    },
    names={"age": {"title": "Age", "unit": "years"}, "sex": {"titles": ["women", "men"]}},
)


def said(rows: pd.DataFrame) -> np.ndarray:
    """Rises to 50 years and is level from there; men a little more; pay counts for men alone; shoes do not."""
    male = (rows["sex"] == "m").to_numpy()
    return (
        0.1
        + 0.4 * np.clip(rows["age"].to_numpy() - 20, 0, 30) / 30
        + 0.1 * male
        + 0.003 * male * rows["pay"].to_numpy()
    )


MODEL = dpx.Model(said, output=(0, 1), name="m", version="1")


@pytest.fixture(scope="module")
def known():
    i = np.arange(4000)
    rows = pd.DataFrame(
        {"age": 20 + i % 61, "sex": np.where(i % 3, "m", "f"), "pay": i * 37 % 101 / 1.0, "shoe": 30.0 + i % 21}
    )
    about = {"budget": dpx.Budget(40.0, 1e-6), "relation": "replace-one", "ledger": "sqlite:///:memory:"}
    table = dpx.PrivateTable(rows, domain=DOMAIN, name="people", **about)
    stand_in = dpx.stand_in(table, epsilon=4.0)
    curves = dpx.partial_dependence(table, MODEL, ["age", "sex", "pay", "shoe"], epsilon=8.0)
    return dpx.posterior(stand_in, MODEL, list(curves))


# Shape ----------------------------------------------------------------------------------------------------------------


def test_statements_say_where_a_curve_rises_and_where_it_is_level(known):
    words = {one.words: one.probability for one in known.shape("age")}
    rises = next(text for text in words if text.startswith("The mean prediction rises as Age goes from"))
    level = next(text for text in words if "hardly changes where Age is" in text and text.endswith("or more"))
    assert words[rises] > 0.99
    assert words[level] > 0.9
    assert 45 <= float(rises.split(" to ")[-1]) <= 55


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([0.0, 1 / 19, 10 / 19, 1.0], ["0", "0.053", "0.526", "1"]),
        ([20.0, 23.157894, 80.0], ["20", "23.2", "80"]),
        ([-4.0e-5, 0.0, 20_000.0, 12_345.678], ["0", "0", "20,000", "12,346"]),
        ([2e-6, 7.4e-6], ["0.000002", "0.0000074"]),
        (["2020-01", "2021-01"], ["2020-01", "2021-01"]),
        ([1, 30], ["1", "30"]),
        ([7.0], ["7"]),
    ],
)
def test_points_are_said_to_a_thousandth_of_their_range(points, words):
    assert point_words(points) == words


def test_statements_about_categories_name_them_for_people(known):
    highest = next(one for one in known.shape("sex") if "highest" in one.words)
    assert highest.words == "The mean prediction is highest where sex is men"
    assert highest.probability > 0.99
    assert str(highest).endswith("(probability more than 99 %)")


def test_nothing_is_said_of_a_column_that_changes_no_prediction(known):
    assert np.ptp(known.predictions_along("shoe")[1], axis=1).max() == 0.0
    assert known.shape("shoe") == []


def test_categories_that_the_model_treats_alike_are_named_together():
    """Rounding decides which of them is the highest in a draw, and it would always be the same one."""
    answers = np.random.default_rng(0).random((50, 1)) + np.array([0.0, 0.4, 0.4 + 1e-15, 0.0, 0.4])
    alike = alike_as(answers, 1e-9)
    assert alike == [0, 1, 1, 0, 1]
    draws = np.array([[0.1, 0.5, 0.5, 0.1, 0.5], [0.2, 0.1, 0.1, 0.2, 0.1], [0.3, 0.6, 0.6, 0.3, 0.6]])
    highest, lowest = _of_categories("town", ["a", "b", "c", "d", "e"], draws, alike)
    assert highest == Statement("The mean prediction is highest where town is b or c or e", 2 / 3)
    assert lowest == Statement("The mean prediction is lowest where town is a or d", 2 / 3)
    assert _of_categories("sex", ["f", "m"], np.ones((5, 2)), alike_as(np.ones((9, 2)), 1e-9)) == []
    many, draw = list(map(str, range(9))), np.array([[0.0] * 8 + [1.0]])
    assert _of_categories("x", many, draw, [0] * 8 + [8])[1].words.endswith("x is 0 or 1 or 2 or 3 or one of 4 more")


def test_a_level_curve_is_given_no_sure_direction():
    """Of a curve that noise alone moves, a direction is about as likely as the other: seen on an even posterior."""
    draws = RowPosterior(500, 40.0).joint_draws(np.random.default_rng(0).random((500, 12)), 2000, 3)
    rises = (draws[:, -1] > draws[:, 0]).mean()
    assert 0.1 < rises < 0.9


def test_joint_draws_are_of_the_distribution_that_intervals_come_from(known):
    """Means and standard deviations of 4,000 draws: off by 6 standard errors at most, 1e-8 for each number."""
    _, answers = known.predictions_along("pay")
    draws, spread = known.drawn_means(answers, 4000, 1), known._rows.mixture(answers)
    assert np.abs(draws.mean(axis=0) - spread.mean).max() < 6 * spread.std.max() / np.sqrt(4000)
    assert np.abs(draws.std(axis=0) / spread.std - 1).max() < 0.12
    neighbours = np.corrcoef(draws[:, 3], draws[:, 4])[0, 1]
    assert neighbours > 0.5  # points of one curve move together


def test_turns_and_moving_parts():
    assert turns(np.array([0.0, 1, 2, 3, 3, 3])) == [0, 5]
    assert turns(np.array([0.0, 2, 4, 2, 0])) == [0, 2, 4]
    assert turns(np.array([0.0, 2, 4, 3.9, 4.1])) == [0, 4]
    assert turns(np.zeros(4)) == []
    assert moving(np.array([0.0, 0, 1, 2, 2, 2]), 0, 5, 0.2) == (1, 3, 2)
    assert share_words(0.42) == "42 %"
    assert share_words(0.001) == "less than 1 %"
    assert str(Statement("It rises", 0.999)) == "It rises (probability 99 %)"


# Bands ----------------------------------------------------------------------------------------------------------------


def test_bands_hold_their_shares_of_the_rows(known):
    curves = known.individual_curves("age", probs=(0.25, 0.5, 0.75))
    _, answers = known.predictions_along("age")
    for share, band in zip(curves.probs, curves.bands, strict=True):
        below = known.weights @ (answers <= band + 1e-12)
        assert np.all(below >= share - 1e-9)
        assert np.all(known.weights @ (answers < band - 1e-12) <= share + 1e-9)
    assert np.allclose(curves.mean, known.weights @ answers)
    assert curves.to_frame().shape == (3 * answers.shape[1], 3)
    assert "Age" in curves.title
    halves = curves.sampling_error(100) / curves.sampling_error(400)
    assert np.allclose(halves[curves.std > 0], 2.0)
    for feature in ("age", "sex"):
        assert (
            known.individual_curves(feature)
            .plot()
            .get_title(loc="left")
            .startswith("Predictions of single synthetic rows")
        )
    plt.close("all")


@pytest.mark.parametrize("probs", [(), (0.5, 0.25), (0.0, 0.5), (0.5, 0.5), (1, 2)])
def test_shares_that_are_none_are_refused(known, probs):
    with pytest.raises(InputError, match="probs are shares"):
        known.individual_curves("age", probs=probs)


def test_an_unknown_column_is_refused(known):
    for ask in (known.individual_curves, known.shape):
        with pytest.raises(InputError, match="unknown feature"):
            ask("height")


# Swarms ---------------------------------------------------------------------------------------------------------------


def test_a_summary_orders_columns_by_what_they_move(known):
    found = known.summary(rows=80)
    frame = found.to_frame().set_index("feature")
    assert found.classes == ("m",)
    assert found.contributions.shape == (1, 80, 4)
    assert frame["mean size"].idxmin() == "shoe"
    assert frame.loc["age", "direction"] > 0.8
    figure = found.plot()
    assert figure.axes[0].get_title(loc="left").startswith("What moves predictions: each dot is a synthetic row")
    assert "Age" in [label.get_text() for label in figure.axes[0].get_yticklabels()]


def test_all_classes_of_a_classifier_have_a_panel_each(known):
    rows = known.stand_in.rows(400)
    plain = pd.DataFrame({"age": rows["age"].astype(float), "pay": rows["pay"].astype(float)})
    label = np.where(plain["age"] > 60, "old", np.where(plain["age"] > 40, "middle", "young"))
    fitted = LogisticRegression(max_iter=500).fit(plain, label)
    model = dpx.Model(fitted, output=(0, 1), label="old", name="ages", version="1")
    found = dpx.posterior(known.stand_in, model).summary(rows=50, classes=True)
    assert found.classes == ("middle", "old", "young")
    assert np.allclose(found.contributions.sum(axis=0), 0, atol=0.25)  # probabilities of all classes add up to one
    assert len([ax for ax in found.plot().axes if ax.get_title(loc="left")]) == 3
    assert found.to_frame().set_index(["class", "feature"]).loc[("old", "age"), "direction"] > 0
    assert model.label == "old"
    with pytest.raises(dpx.errors.ModelError, match="classifier"):
        known.summary(rows=50, classes=True)


# Counterfactuals ------------------------------------------------------------------------------------------------------

RECORD = {"age": 30, "sex": "f", "pay": 50.0, "shoe": 40.0}


def test_ways_lead_to_the_wanted_prediction_with_few_changes(known):
    found = known.counterfactuals(RECORD, (0.45, None))
    assert len(found) >= 1
    for way in found:
        changed = {**RECORD, **{name: after for name, (_, after) in way.changes.items()}}
        assert float(said(pd.DataFrame([changed]))[0]) >= 0.45 - 1e-6
        assert way.prediction >= 0.45
        assert 0 <= way.plausibility <= 1
        assert "shoe" not in way.changes  # it changes nothing
    only_age = next(way for way in found if list(way.changes) == ["age"])
    assert 46 <= only_age.changes["age"][1] <= 49  # 0.1 + 0.4 (age - 20) / 30 >= 0.45 from 46.25 on
    assert any(text.startswith("If Age were") for text in found.sentences)
    assert set(found.to_frame()["column"]) <= {"age", "sex", "pay"}


def test_kept_columns_stay_and_what_is_impossible_is_said(known):
    kept = known.counterfactuals(RECORD, (0.45, None), keep=["age"])
    assert all("age" not in way.changes for way in kept)
    none = known.counterfactuals(RECORD, (0.99, None))
    assert len(none) == 0
    assert none.sentences[0].startswith("No synthetic row was found")
    there = known.counterfactuals(RECORD, (0.0, 0.5))
    assert len(there) == 0


def test_columns_are_kept_before_candidates_are_chosen(known):
    """The nearest rows with a high prediction owe it to their age; with the age of the record only pay is left."""

    def old_or_rich(rows: pd.DataFrame) -> np.ndarray:
        return np.where((rows["age"] > 50) | (rows["pay"] > 95), 0.9, 0.1)

    model = dpx.Model(old_or_rich, output=(0, 1), name="old or rich", version="1")
    ways = dpx.posterior(known.stand_in, model).counterfactuals({**RECORD, "pay": 3.0}, (0.5, None), keep=["age"])
    assert [list(way.changes) for way in ways] == [["pay"]]
    assert 95 < ways[0].changes["pay"][1] <= 96


def test_a_category_can_be_kept(known):
    """For a woman pay counts for nothing, so there is no way by pay and sex."""
    ways = known.counterfactuals({**RECORD, "age": 50}, (0.55, None), keep=["age", "sex"])
    assert len(ways) == 0
    ways = known.counterfactuals({**RECORD, "age": 50, "sex": "m", "pay": 10.0}, (0.75, None), keep=["age", "sex"])
    assert [list(way.changes) for way in ways] == [["pay"]]


def test_a_record_unlike_any_row_is_not_plausible(known):
    """A made-up place far from all rows: its distance is larger than that of any of them."""
    from dpexplain.methods.counterfactuals import _Search

    search = _Search.of(known, RECORD, [])
    assert search.plausibility(dict(RECORD)) > 0.05
    search._kept_reference = np.full(10, 1e-6)
    assert search.plausibility(dict(RECORD)) == 0.0


@pytest.mark.parametrize("wanted", [0.5, (0.5,), (0.9, 0.1), (2.0, None), ("a", None), (True, None)])
def test_ranges_that_are_none_are_refused(known, wanted):
    with pytest.raises(InputError, match="wanted is a range"):
        known.counterfactuals(RECORD, wanted)


def test_names_that_are_unknown_are_refused(known):
    with pytest.raises(InputError, match="keep names"):
        known.counterfactuals(RECORD, (0.5, None), keep=["height"])


def test_evidence_of_the_same_batch_counts(known):
    """All parts of a batch have one entry; they are evidence beside its stand-in all the same."""
    i = np.arange(2000)
    rows = pd.DataFrame(
        {"age": 20 + i % 61, "sex": np.where(i % 3, "m", "f"), "pay": i % 101 / 1.0, "shoe": 30.0 + i % 21}
    )
    about = {"budget": dpx.Budget(40.0, 1e-6), "relation": "replace-one", "ledger": "sqlite:///:memory:"}
    table = dpx.PrivateTable(rows, domain=DOMAIN, name="others", **about)
    asked = [dpx.requests.StandIn(), dpx.requests.PartialDependence(feature=["age", "sex"])]
    batch = dpx.batch(table, MODEL, asked, epsilon=4.0)
    assert "weighted by" in batch.posterior.local.basis


def test_changed_numbers_are_short_and_do_what_is_said(known):
    record = {**RECORD, "sex": "m", "age": 40, "pay": 3.0}
    low = float(said(pd.DataFrame([record]))[0]) + 0.05123
    ways = [way for way in known.counterfactuals(record, (low, None)) if list(way.changes) == ["pay"]]
    assert len(ways) == 1
    after = ways[0].changes["pay"][1]
    assert after == round(after, 1)  # a thousandth of its range
    assert low <= ways[0].prediction == pytest.approx(float(said(pd.DataFrame([{**record, "pay": after}]))[0]))
