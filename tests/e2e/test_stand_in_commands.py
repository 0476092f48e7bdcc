"""`dpexplain stand-in`, as a user meets it: from a project to synthetic rows in a file."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from commands import answer, edit, refusal
from dpexplain.cli.app import run
from dpexplain.methods.result import from_json

pytestmark = pytest.mark.usefixtures("sketched_pictures")

DOMAIN = """\
dpexplain_domain: 1
reviewed_by: Ada
peeked: false
columns:
  age: {type: numeric, low: 18, high: 80, integer: true}
  sex: {type: categorical, values: [Female, Male]}
  visits: {type: numeric, low: 0, high: 12, integer: true}
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
delta = 1e-6
ledger = "sqlite:///budget.db"
"""
MODEL = """\
[model]
import = "stand_in_test_model:risk"
output = [0.0, 1.0]
name = "risk"
version = "1"
features = ["age", "visits"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    draw, n = np.random.default_rng(0), 3000
    age = draw.integers(18, 81, n)
    frame = pd.DataFrame({"age": age, "sex": draw.choice(["Female", "Male"], n)})
    frame["visits"] = np.minimum(draw.poisson(age / 20), 12)
    frame.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "domain.yaml").write_text(DOMAIN)
    (tmp_path / "dpexplain.toml").write_text(PROJECT)
    (tmp_path / "stand_in_test_model.py").write_text(
        "def risk(rows):\n    return (rows['age'].to_numpy() / 160 + rows['visits'].to_numpy() / 24)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_rows_for_any_explainer(folder, capsys):
    ask = ["stand-in", "--epsilon", "2", "--rows", "500", "--out", "results"]
    found = answer(capsys, *ask)
    (result,) = found["results"]
    assert result["grade"] == "tree"
    assert found["also"] == ["results/stand-in.parquet"]
    rows = pd.read_parquet(folder / "results" / "stand-in.parquet")
    assert list(rows) == ["age", "sex", "visits"]
    assert len(rows) == 500
    assert {line["feature"] for line in result["table"]} == {"age", "sex", "visits"}
    assert {line["table"] for line in result["consistency"]} >= {"age", "sex", "visits"}
    page = (folder / "results" / "index.html").read_text()
    assert "synthetic" in page
    assert "What is read off them has no interval" in page
    assert answer(capsys, *ask)["spent_now"] is False
    (folder / "results" / "stand-in.parquet").write_text("something of mine")
    assert answer(capsys, *ask)["also"] == ["results/stand-in-2.parquet"]
    assert (folder / "results" / "stand-in.parquet").read_text() == "something of mine"
    assert run(["verify", "results/stand-in.json"]) == 0


def test_marginals_and_scores(folder, capsys):
    with (folder / "dpexplain.toml").open("a") as file:
        file.write(MODEL)
    answer(capsys, "marginals", "--epsilon", "1", "--out", "first")
    again = ["stand-in", "--epsilon", "2", "--marginals", "first/marginals.json", "--scores", "--out", "second"]
    assert "also" not in answer(capsys, *again)
    told = json.loads((folder / "second" / "stand-in.json").read_text())
    assert "counts" not in told["released"]["parts"]
    assert "scores" in told["released"]["parts"]
    assert told["receipt"]["request"]["model"]["name"] == "risk"


def test_mistakes_are_told_before_anything_is_spent(folder, capsys):
    for wrong in (["--grade", "forest"], ["--target", "nobody"], ["--rows", "0"], ["--rows", "many"]):
        error = refusal(capsys, 2, "stand-in", "--epsilon", "1", *wrong)
        assert error["spent"] == "Nothing was spent."
    assert not (folder / "budget.db").exists()
    planned = answer(capsys, "plan", "--explainer", "stand-in", "--epsilon", "1", "--n", "3000")
    with (folder / "dpexplain.toml").open("a") as file:
        file.write(MODEL)
    asked = ["plan", "--explainer", "stand-in", "--epsilon", "1", "--n", "3000"]
    assert answer(capsys, *asked)["forecasts"] == planned["forecasts"]
    error = [answer(capsys, *asked, *more)["forecasts"][0]["options"][1]["error"] for more in ([], ["--scores"])]
    assert error[0] < error[1]


def test_curves_take_it_and_verify_asks_the_model_again(folder, capsys):
    with (folder / "dpexplain.toml").open("a") as file:
        file.write(MODEL)
    entry = answer(capsys, "stand-in", "--epsilon", "2", "--out", "first")["entry"]
    answer(capsys, "marginals", "--epsilon", "1", "--out", "first")
    files = ["--stand-in", "first/stand-in.json"]
    for command, name in (("pdp", "age"), ("ale", "accumulated-effects-age")):
        ask = [command, "--feature", "age", "--epsilon", "1", *files]
        found = answer(capsys, *ask, "--out", "second")
        told = json.loads((folder / "second" / f"{name}.json").read_text())
        assert told["view"]["sharpening"]["origin"]["entry"] == entry
        assert {"low", "high", "proven low", "proven high"} <= set(found["results"][0]["table"][0])
        assert f"the stand-in in entry {entry}" in (folder / "second" / "index.html").read_text()
        assert "prior unchecked" in answer(capsys, "verify", f"second/{name}.json")["notes"][0]
        assert answer(capsys, "verify", f"second/{name}.json", "--model")["notes"] == []
        planned = answer(capsys, "plan", "--explainer", *ask, "--n", "3000")
        assert planned["forecasts"][0]["options"][1]["error"] == found["forecasts"][0]["options"][0]["error"]
    assert run(["verify", "second/age.json"]) == 0
    assert "Note: prior unchecked" in capsys.readouterr().out
    error = refusal(capsys, 2, "pdp", "--feature", "age", "--epsilon", "1", "--stand-in", "first/marginals.json")
    assert "has no stand-in" in error["message"]
    assert "`dpexplain stand-in`" in error["hint"]
    assert run(["pdp", "--help"]) == 0
    assert "A file with a released stand-in" in " ".join(capsys.readouterr().out.split())


def test_a_forged_prior_and_another_model_are_refused(folder, capsys):
    with (folder / "dpexplain.toml").open("a") as file:
        file.write(MODEL)
    answer(capsys, "pdp", "--feature", "age", "--epsilon", "1", "--out", "second")
    curve = from_json(folder / "second" / "age.json")
    prior = replace(curve.sharpening.prior, means=curve.sharpening.prior.means + 0.1)
    replace(curve, sharpening=replace(curve.sharpening, prior=prior)).to_json("forged.json")
    assert "not the one that the ledger keeps" in refusal(capsys, 4, "verify", "forged.json")["message"]
    edit(folder / "dpexplain.toml", 'name = "risk"\nversion = "1"', 'name = "risk"\nversion = "2"')
    assert (
        "not the model that the file explains" in refusal(capsys, 2, "verify", "second/age.json", "--model")["message"]
    )
    assert answer(capsys, "verify", "second/age.json")["genuine"]


def test_marginals_are_the_rug_of_curves(folder, capsys):
    with (folder / "dpexplain.toml").open("a") as file:
        file.write(MODEL)
    answer(capsys, "marginals", "--epsilon", "1", "--out", "first")
    ask = ["pdp", "--feature", "age", "--epsilon", "1", "--out", "second"]
    own = answer(capsys, *ask)
    found = answer(capsys, *ask, "--marginals", "first/marginals.json")
    told = json.loads((folder / found["results"][0]["json"]).read_text())
    assert set(told["released"]["parts"]) == {"curve"}
    assert told["view"]["marginals"]["kind"] == "marginals"
    errors = [one["forecasts"][0]["options"][0]["error"] for one in (own, found)]
    assert errors[1] < errors[0]  # the whole price is for the curve


def test_the_domain_alone_has_no_price(folder, capsys):
    found = answer(capsys, "stand-in", "--grade", "domain", "--rows", "30", "--out", "results")
    (result,) = found["results"]
    assert (result["grade"], found["price"], found["spent_now"]) == ("domain", None, False)
    assert len(pd.read_parquet(folder / "results" / "stand-in.parquet")) == 30
    assert "The table was not read" in (folder / "results" / "index.html").read_text()
    written = from_json(folder / result["json"])
    assert written.receipt.cost.amount == 0
    assert run(["verify", result["json"]]) == 0
    capsys.readouterr()
    error = refusal(capsys, 2, "stand-in", "--grade", "domain", "--epsilon", "1")
    assert "costs nothing" in error["message"]
    assert "leave epsilon and rho out" in error["hint"]
    assert "exactly one of" in refusal(capsys, 2, "stand-in")["message"]
    assert run(["stand-in", "--grade", "domain"]) == 0
    assert "Free: the table was not read." in capsys.readouterr().out
    (folder / "dpexplain.toml").write_text(PROJECT + MODEL)
    curves = answer(capsys, *f"pdp --feature age --epsilon 1 --stand-in {result['json']} --out curves".split())
    assert f"entry {written.entry}" in from_json(folder / curves["results"][0]["json"]).basis
