"""Attributions: they add up, in original units, with intervals that keep their word; files and back; exports."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import dpexplain as dpx
from dpexplain.methods.attributions import SPECS, Attribution
from made_attributions import Made, adult, made
from stubs import ZCDP, free_door

COLUMNS = {
    "age": dpx.Numeric(20, 30, integer=True),
    "town": dpx.Categorical(["A", "B", "C"]),
    "income": dpx.Numeric(-100, 300),
}
COEFFICIENTS = [0.4, 0.1, -0.2, 0.4, -0.3]  # of age, of three towns, of income


def explained(age=29, town="C", income=100.0, **options):
    return made(COLUMNS, {"age": age, "town": town, "income": income}, COEFFICIENTS, **options)


# Tables -------------------------------------------------------------------------------------------------------------


def test_contributions_and_base_add_up_to_the_prediction():
    found = explained()
    one = np.sqrt(0.5)
    np.testing.assert_allclose(found.values, [0.4 * (0.9 - 0.5), one * (0.4 - 0.1), -0.3 * (0.5 - 0.5)], atol=1e-12)
    assert found.prediction == 0.5
    assert found.base + found.values.sum() == pytest.approx(0.5)
    assert found.record == {"age": 29.0, "town": "C", "income": 100.0}


def test_the_frame_speaks_in_original_units():
    found = explained()
    frame = found.to_frame()
    assert list(frame.columns) == ["feature", "value", "contribution", "low", "high", "slope"]
    assert frame["feature"].tolist() == ["age", "town", "income"]
    assert frame["value"].tolist() == [29, "C", 100.0]
    assert isinstance(frame["value"][0], int)  # a whole-number column
    assert frame["slope"].isna().tolist() == [False, True, False]
    older = explained(age=30)
    assert frame["slope"][0] == pytest.approx(older.values[0] - found.values[0])  # one more year
    assert found.coefficients["age"] == pytest.approx(frame["slope"][0])
    richer = explained(income=101.0)
    assert frame["slope"][2] == pytest.approx(richer.values[2] - found.values[2])
    np.testing.assert_array_equal(frame["contribution"], found.values)


def test_effects_of_categories_are_what_each_would_contribute():
    found = explained()
    effects = found.effects()
    assert effects["category"].tolist() == ["A", "B", "C"]
    assert effects["own"].tolist() == [False, False, True]
    for line in effects.itertuples():
        other = explained(town=line.category)
        assert line.contribution == pytest.approx(other.values[1])
        assert (line.low, line.high) == pytest.approx([ends[1] for ends in other.interval()])
        assert found.coefficients[f"town={line.category}"] == pytest.approx(line.contribution)
    assert effects["contribution"].sum() == pytest.approx(0, abs=1e-12)
    numbers = made({"a": dpx.Numeric(0, 1)}, {"a": 0.2}, [0.5])
    assert numbers.effects().empty


def test_top_goes_by_size_up_or_down():
    found = explained(age=20, town="B", income=300.0)
    assert found.top(2)["feature"].tolist() == ["town", "age"]
    assert found.top(99)["contribution"].abs().is_monotonic_decreasing
    for k in (0, -1, True, 1.5, "x"):
        with pytest.raises(dpx.InputError, match="k is a whole number"):
            found.top(k)


def test_small_contributions_stand_together():
    found = adult()
    pushes = found.pushes(4)
    assert [p.name for p in pushes[:2]] == ["education_years = 13", "age = 39"]
    assert pushes[-1].name == "other 11 features"
    assert sum(p.value for p in pushes) == pytest.approx(found.values.sum())
    low, high = found.interval()
    rest = found._order[4:]
    half = np.sqrt((((high - low)[rest] / 2) ** 2).sum())  # their noise is independent, so it does not simply add up
    assert (pushes[-1].high - pushes[-1].low) / 2 == pytest.approx(half)
    assert "other" not in found.pushes(14)[-1].name  # one alone is named
    assert {p.name.split(" = ")[0] for p in found.pushes(99)} == set(found.space.features)
    doubtful = [f for f, sure in zip(found.space.features, found.sure, strict=True) if not sure]
    assert doubtful == ["weight_in_survey", "children"]


RUNS = 400


def test_intervals_cover_the_contributions_without_noise():
    """400 releases at level 0.8: the binomial allows less, or more, with a probability of 1e-10 each."""
    exact, covered, together = explained().values, 0, 0
    door = free_door(ZCDP, keep=False)
    for _ in range(RUNS):
        found = explained(std=0.05, door=door)
        low, high = found.interval(0.8)
        covered += low[1] <= exact[1] <= high[1]
        push = found.pushes(1)[-1]  # two features together
        half = (push.high - push.low) / 2 * 1.2815515655446004 / 1.959963984540054
        rest = found._order[1:]
        together += abs(push.value - exact[rest].sum()) <= half
    assert binom.ppf(1e-10, RUNS, 0.8) <= covered <= binom.ppf(1 - 1e-10, RUNS, 0.8)
    assert binom.ppf(1e-10, RUNS, 0.8) <= together <= binom.ppf(1 - 1e-10, RUNS, 0.8)


def test_levels_out_of_range():
    for level in (0, 1, -1, float("nan"), "x"):
        with pytest.raises(dpx.InputError, match="confidence level"):
            explained().interval(level)


# Files --------------------------------------------------------------------------------------------------------------


def test_round_trip_through_text_and_file(tmp_path):
    found = adult(notes=("few rows are near this record.",))
    path = tmp_path / "one.json"
    again = dpx.from_json(found.to_json(path))
    assert again == found
    assert isinstance(dpx.from_json(path), Attribution)
    np.testing.assert_array_equal(again.values, found.values)
    np.testing.assert_array_equal(again.interval(0.9), found.interval(0.9))
    assert again.base == found.base
    assert again.caveat == found.caveat
    assert again.notes.startswith("Few rows are near this record. Explains one record")
    assert again.caveat == f"{again.compared} {again.notes}"


def test_what_was_computed_already_is_not_read_again(monkeypatch):
    found = explained()
    ready = replace(found, ready=found.fit)
    monkeypatch.setattr(Made, "read", None)
    np.testing.assert_array_equal(ready.values, found.values)
    assert ready == found
    monkeypatch.delitem(SPECS, "made")
    with pytest.raises(dpx.InputError, match="damaged"):
        dpx.from_json(found.to_json())  # nobody knows how to read it


def test_altered_values_and_guarantees_are_noticed():
    document = json.loads(explained().to_json())
    document["values"][0] += 0.01
    with pytest.raises(dpx.errors.VerificationError, match="not those that follow"):
        dpx.from_json(json.dumps(document))
    document = json.loads(explained().to_json())
    document["guarantee"] = "perfectly safe"
    with pytest.raises(dpx.errors.VerificationError, match="guarantee written in this file"):
        dpx.from_json(json.dumps(document))


def at(*path, value):
    def change(document):
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        at("view", value=None),
        at("view", value=[]),
        at("view", value={}),
        at("view", "record", value=None),
        at("view", "record", "age", value=31),
        at("view", "record", "age", value="x"),
        at("view", "record", "town", value="Z"),
        at("view", "value", value="x"),
        at("view", "value", value=1e308),
        at("view", "notes", value=7),
        at("view", "notes", value=[7]),
        at("receipt", "request", "explainer", value="partial-dependence"),
        at("receipt", "request", "explainer", value=["made"]),
        at("receipt", "request", "model", value=7),
        at("receipt", "request", "spec", value=None),
        at("receipt", "request", "spec", "space", value={}),
        at("receipt", "request", "spec", "space", "features", value=["age", "age"]),
        at("receipt", "request", "spec", "space", "features", value=["age"]),
        at("receipt", "request", "spec", "space", "features", value=[{}]),
        at("receipt", "request", "spec", "space", "columns", "age", value={"type": "numeric", "low": 0, "high": 1e999}),
        at("receipt", "request", "spec", "space", "columns", "age", "high", value=20),
        at("released", "parts", value={}),
        at("released", "parts", "coefficients", "values", value=[1, 2]),
        at("released", "parts", "coefficients", "values", value=[1e308] * 5),
        at("released", "parts", "coefficients", "values", value="12345"),
        at("released", "parts", "coefficients", "values", value=[[1]] * 5),
        at("released", "parts", "coefficients", "noise", "scale", value="1e99999999"),
        at("values", value=[0.0]),
        at("values", value={}),
    ],
)
def test_hostile_files_are_refused_in_words(change):
    document = json.loads(explained().to_json())
    change(document)
    with pytest.raises((dpx.InputError, dpx.errors.VerificationError)):
        dpx.from_json(json.dumps(document))


def test_a_reader_that_says_nonsense_is_not_believed(monkeypatch):
    text, fit = explained().to_json(), explained().fit
    for wrong in (
        replace(fit, value=float("nan")),
        replace(fit, coefficients=fit.coefficients[:3]),
        replace(fit, reference=np.zeros(7)),
        replace(fit, coefficients=np.full(5, np.inf)),
        replace(fit, spread=lambda lines: np.full(len(lines), np.nan)),
    ):
        monkeypatch.setattr(Made, "read", lambda *_, wrong=wrong: wrong)
        with pytest.raises(dpx.InputError, match="damaged"):
            dpx.from_json(text)


def test_a_record_of_500_columns_stays_a_sane_file(tmp_path):
    names = [f"w_{i}" for i in range(500)]
    columns, draw = {name: dpx.Numeric(0, 1) for name in names}, np.random.default_rng(5)
    found = made(columns, dict(zip(names, draw.integers(0, 2, 500), strict=True)), draw.normal(0, 0.02, 500))
    start = time.process_time()  # not that of the clock: the machine may be busy with other things
    assert dpx.from_json(found.to_json(tmp_path / "many.json")) == found
    assert time.process_time() - start < 10
    assert (tmp_path / "many.json").stat().st_size < 200_000
    assert len(found.pushes()) == 13


# Exports ------------------------------------------------------------------------------------------------------------


def test_to_shap_is_the_same_explanation():
    found = explained()
    exported = found.to_shap()
    np.testing.assert_array_equal(exported.values, found.values)
    assert exported.base_values == pytest.approx(found.base)
    assert exported.feature_names == ["age", "town", "income"]
    assert list(exported.data) == [29, "C", 100.0]
    assert exported.values.sum() + exported.base_values == pytest.approx(found.prediction)


@pytest.mark.filterwarnings("ignore")  # shap's own plots warn about matplotlib and numpy
def test_plots_of_shap_take_it():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    exported = adult().to_shap()
    shap = sys.modules["shap"]
    shap.plots.waterfall(exported, show=False)
    labels = [label.get_text() for label in plt.gcf().axes[0].get_yticklabels()]
    assert any("education_years" in label for label in labels)
    plt.close("all")


def test_without_shap_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(dpx.InputError, match="not installed") as caught:
        explained().to_shap()
    assert "pip install dpexplain[shap]" in caught.value.hint


# Words and pixels ---------------------------------------------------------------------------------------------------

WORDS = {"w_bad": -0.4, "w_good": 0.3, "w_the": 0.001, "w_dull": -0.2}
TEXT = "The plot is BAD, bad <b>&amp; dull</b>, but the cast's good!"


def review(**have):
    columns = {
        "w_bad": dpx.Numeric(0, 1),
        "w_good": dpx.Categorical([False, True]),
        "w_the": dpx.Numeric(0, 9),
        "w_dull": dpx.Numeric(0, 1),
    }
    record = {"w_bad": 1, "w_good": True, "w_the": 2, "w_dull": 0, **have}
    return made(columns, record, [-0.4, -0.2, 0.3, 0.001, -0.2])


def test_words_belong_to_their_features():
    shown = review().highlight(TEXT, "w_")
    assert "".join(piece for piece, _ in shown.pieces) == TEXT
    known = [(piece, push.value) for piece, push in shown.pieces if push]
    assert [piece for piece, _ in known] == ["The", "BAD", "bad", "the", "good"]  # `dull` is not in the record
    assert dict(known)["bad"] == pytest.approx(review().values[0])
    named = review().highlight("Awful, really!", features={"awful": "w_bad"})
    assert [(piece, push.name) for piece, push in named.pieces if push] == [("Awful", "awful")]
    assert [piece for piece, push in review(w_bad=0, w_dull=1).highlight(TEXT, "w_").pieces if push] == [
        *("The", "dull", "the", "good")
    ]


def test_without_a_text_the_words_of_the_record_are_shown():
    shown = review().highlight(prefix="w_")
    assert [piece for piece, _ in shown.pieces] == ["bad", "good", "the"]
    assert str(shown).startswith("▼bad ▲good ▽the")


def test_words_that_cannot_be_matched_are_refused():
    for options in ({"prefix": "x_"}, {"features": {"bad": "bad"}}, {"features": {}}):
        with pytest.raises(dpx.InputError, match="feature") as caught:
            review().highlight(TEXT, **options)
        assert "prefix=" in caught.value.hint
    with pytest.raises(dpx.InputError, match="a text is needed"):
        review().highlight(7, "w_")
    assert all(push is None for _, push in review().highlight("", "w_").pieces)


def pixels(lines=3, columns=4, **options):
    names = [f"p{i}" for i in range(lines * columns)]
    coefficients = np.linspace(-1, 1, len(names))
    return made({n: dpx.Numeric(0, 255) for n in names}, dict.fromkeys(names, 255), coefficients, **options)


def test_pixels_that_do_not_fit_are_refused():
    found = pixels()
    for shape in ((3, 3), (12,), 12, (3.0, 4), (0, 12), (True, 12), None):
        with pytest.raises(dpx.InputError, match="picture"):
            found.heatmap(shape)
    with pytest.raises(dpx.InputError, match="unknown feature 'q'"):
        found.heatmap((1, 2), order=["p0", "q"])
    for image in ("x", [1, 2], np.zeros((2, 2, 3)), [[float("nan")]], np.zeros((0, 3)), [[1], [2, 3]]):
        with pytest.raises(dpx.InputError, match="grey values"):
            found.heatmap((3, 4), image=image)
