"""`dpexplain performance`, as a user meets it: from a CSV file to a page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from commands import answer, refusal
from dpexplain.cli.app import run
from pictures import unpainted

pytestmark = pytest.mark.usefixtures("sketched_pictures")

DOMAIN = """\
dpexplain_domain: 1
reviewed_by: Ada
peeked: false
columns:
  age: {type: numeric, low: 18, high: 80, integer: true}
  sex: {type: categorical, values: [Female, Male]}
  race: {type: categorical, values: [A, B]}
  decile: {type: numeric, low: 1, high: 10, integer: true}
  reoffended: {type: categorical, values: [0, 1]}
"""
PROJECT = """\
[table]
path = "people.csv"
domain = "domain.yaml"
name = "people"
version = "1"
relation = "replace-one"
[budget]
epsilon = 20.0
ledger = "sqlite:///budget.db"
"""
MODEL = """\
[model]
import = "performance_test_model:risk"
output = [0.0, 1.0]
name = "risk"
version = "1"
features = ["age"]
target = "reoffended"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    draw, n = np.random.default_rng(0), 4000
    age, sex = draw.integers(18, 81, n), draw.choice(["Female", "Male"], n)
    chance = np.clip((age - 10) / 80, 0, 1)
    frame = pd.DataFrame({"age": age, "sex": sex, "race": draw.choice(["A", "B"], n)})
    frame["decile"] = np.clip(np.ceil(10 * chance + 3 * (sex == "Male")), 1, 10).astype(int)
    frame["reoffended"] = (draw.random(n) < chance).astype(int)
    frame.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "domain.yaml").write_text(DOMAIN)
    (tmp_path / "dpexplain.toml").write_text(PROJECT)
    (tmp_path / "performance_test_model.py").write_text("def risk(rows):\n    return (rows['age'] - 10) / 80\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("DPEXPLAIN_LEDGER", raising=False)
    return tmp_path


@pytest.fixture
def empty_pictures():
    with unpainted():
        yield


SCORE = ["--score", "decile", "--target", "reoffended"]


@pytest.mark.long  # pages and pictures
def test_a_score_in_the_file_needs_no_model(folder, capsys):
    """At epsilon 5 the noise of a rate is below 0.01; the difference is 0.3."""
    typed = ["performance", *SCORE, "--group", "sex", "--group", "sex,race", "--threshold", "5", "--epsilon", "5"]
    told = answer(capsys, *typed)
    assert told["spent_now"] is True
    written = told["results"][0]["json"]
    found = dpx.from_json(written)
    assert found.by == (("sex",), ("race", "sex"))
    assert found.threshold == 5
    assert found.false_positive_rate_difference("sex").low > 0.05
    assert Path(told["page"]).is_file()
    assert answer(capsys, "verify", written)["genuine"]
    assert answer(capsys, *typed)["spent_now"] is False
    assert run(typed) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "False positive rate" in said
    assert "the noise does not explain this difference" in said


@pytest.mark.long  # pages and pictures
def test_the_project_s_model_and_target(folder, capsys):
    (folder / "dpexplain.toml").write_text(PROJECT + MODEL)
    told = answer(capsys, "performance", "--group", "sex", "--epsilon", "2")
    assert told["label"] == "performance for reoffended by sex"
    planned = answer(capsys, "plan", "--explainer", "performance", "--group", "sex", "--epsilon", "2", "--n", "4000")
    assert planned["forecasts"][0]["options"][0]["error"] == told["forecasts"][0]["options"][0]["error"]


def test_influence_takes_the_rates_from_a_file(folder, capsys, empty_pictures):
    """The same rates in both, for nothing more; forecast and plan say what is shared."""
    (folder / "dpexplain.toml").write_text(PROJECT + MODEL)
    told = answer(capsys, "performance", "--group", "sex", "--cells", "4", "--epsilon", "4")
    known = dpx.from_json(told["results"][0]["json"])
    disparity = ["--quantity", "disparity", "--group", "sex=Female", "--outcome", "class", "--epsilon", "0.25"]
    shared = ["--performance", told["results"][0]["json"]]
    told = answer(capsys, "influence", *disparity, *shared)
    why = dpx.from_json(told["results"][0]["json"])
    assert why.disparity.rates[0] == known.figure("selection_rate", group={"sex": "Female"}).value
    assert answer(capsys, "verify", told["results"][0]["json"])["genuine"]
    plan = ["plan", "--explainer", "influence", "--n", "4000", *disparity]
    brought = ["--performance", told["results"][0]["json"]]  # an influence brings its performance along
    error, again, alone = (
        answer(capsys, *plan, *more)["forecasts"][0]["options"][0]["error"] for more in (shared, brought, [])
    )
    assert error == again == told["forecasts"][0]["options"][0]["error"] < alone
    error = refusal(capsys, 2, "influence", *disparity, "--marginals", *shared[1:])
    assert re.search(r"performance\S*\.json has no marginals", error["message"])
    assert error["spent"] == "Nothing was spent."


def test_a_plan_without_a_model(folder, capsys):
    planned = answer(capsys, "plan", "--explainer", "performance", *SCORE, "--epsilon", "1", "--n", "4000")
    pure, zcdp = planned["forecasts"][0]["options"]
    assert 0 < pure["error"] == pure["interval"] < zcdp["error"]  # a cell for each decile: nothing is blurred
    assert not (folder / "budget.db").exists()


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["--target", "reoffended"], r"\[model\]"),
        (["--score", "decile", "--target", "reoffended", "--threshold", "12"], "1 to 10; got 12"),
        (["--score", "decile", "--target", "reoffended", "--group", "height"], "unknown feature 'height'"),
        (["--score", "decile", "--target", "reoffended", "--group", "reoffended"], "is the target"),
        (["--score", "decile"], "name the column that the model predicts"),
        (["--score", "race", "--target", "reoffended"], "scores are numbers"),
    ],
)
def test_what_is_refused(folder, capsys, typed, words):
    error = refusal(capsys, 2, "performance", *typed, "--epsilon", "1")
    assert re.search(words, error["message"]), error
    assert not (folder / "budget.db").exists()
