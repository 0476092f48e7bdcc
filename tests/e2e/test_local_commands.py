"""`dpexplain sketch` and `dpexplain local`, as a user meets them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from commands import answer, edit, refusal
from dpexplain.cli.app import run
from dpexplain.ledger import open_ledger

ROW = ["--row", "age=27", "--row", "sex=Male"]
SKETCH = "explanations/local-sketch.json"


@pytest.fixture
def zcdp(project):
    """The project with a delta, which local explanations need."""
    edit(project / "dpexplain.toml", "epsilon = 2.0", "epsilon = 8.0\ndelta = 1e-6")
    return project


@pytest.fixture
def sketched(project, spent_on_a_sketch):
    return shutil.copytree(spent_on_a_sketch, project, dirs_exist_ok=True)


def entries(folder: Path) -> int:
    return open_ledger(f"sqlite:///{folder / 'budget.db'}").verify().events


def test_pay_once_explain_often(sketched, capsys):
    before = entries(sketched)
    for extra in ([], ["--prediction", "0.6"], ["--out", "elsewhere"]):
        told = answer(capsys, "local", "--sketch", SKETCH, *ROW, *extra)
        (result,) = told["results"]
        table = {line["feature"]: line for line in result["table"]}
        assert table["age"]["slope"] == pytest.approx(0.05, abs=0.03)  # the model's own
        assert table["sex"]["contribution"] > 0
        assert Path(result["png"]).is_file()
    assert entries(sketched) == before


def test_free_without_table_model_and_ledger(sketched, capsys):
    for name in ("people.parquet", "budget.db", "dpexplain.toml", "cli_test_model.py"):
        (sketched / name).unlink()
    assert len(answer(capsys, "local", "--sketch", SKETCH, *ROW)["results"]) == 1


@pytest.mark.parametrize("name", ["people.csv", "some.parquet"])
def test_several_records_from_a_file(sketched, capsys, name):
    frame = pd.DataFrame({"age": [21, 29], "sex": ["Female", "Male"], "more": [1, 2]})
    frame.to_csv(name, index=False) if name.endswith("csv") else frame.to_parquet(name)
    results = answer(capsys, "local", "--sketch", SKETCH, "--rows", name)["results"]
    assert [{line["feature"]: line["value"] for line in r["table"]} for r in results] == [
        {"age": 21, "sex": "Female"},
        {"age": 29, "sex": "Male"},
    ]


def test_a_pure_account_explains_from_a_sketch_and_from_its_stand_in(project, capsys):
    told = answer(capsys, "sketch", "--epsilon", "1", "--method", "stand-in")
    assert told["spent_now"] is True
    before = entries(project)
    assert len(answer(capsys, "local", "--sketch", SKETCH, *ROW)["results"]) == 1
    (result,) = answer(capsys, "local", "--stand-in", SKETCH, *ROW)["results"]
    assert {line["feature"] for line in result["table"]} == {"age", "sex"}
    assert entries(project) == before
    assert answer(capsys, "verify", result["json"])
    assert "has no stand-in" in refusal(capsys, 2, "local", "--stand-in", result["json"], *ROW)["message"]
    error = refusal(capsys, 2, "local", "--stand-in", SKETCH, "--sketch", SKETCH, *ROW)
    assert "give either --sketch FILE or --stand-in FILE" in error["message"]


def test_an_attribution_can_be_verified(sketched, capsys):
    told = answer(capsys, "local", "--sketch", SKETCH, *ROW)
    assert answer(capsys, "verify", told["results"][0]["json"])


def test_a_release_of_its_own(zcdp, capsys):
    told = answer(capsys, "local", *ROW, "--epsilon", "2", "--method", "moments")
    assert told["spent_now"] is True
    assert "Outside the guarantee" in told["guarantee"]
    assert told["guarantee"].endswith("the record that is explained.")
    assert answer(capsys, "local", *ROW, "--epsilon", "2", "--method", "moments")["spent_now"] is False


def test_the_words_say_what_is_not_protected(sketched, capsys):
    assert run(["local", "--sketch", SKETCH, *ROW]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "the record itself is not protected" in shown
    assert "Compared with an average person of the table" in shown
    assert "Free" in shown


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["local", *ROW], "either --sketch"),
        (["local", "--sketch", SKETCH, *ROW, "--epsilon", "1"], "either --sketch"),
        (["local", "--sketch", SKETCH], "give one record"),
        (["local", "--sketch", SKETCH, "--row", "age=27"], "no value for sex"),
        (["local", "--sketch", SKETCH, "--row", "age=27", "--row", "age=28"], "once for each column"),
        (["local", "--sketch", SKETCH, "--row", "age=old", "--row", "sex=Male"], "not a number"),
        (["local", "--sketch", SKETCH, "--row", "age=99", "--row", "sex=Male"], "outside the declared range"),
        (["local", "--sketch", SKETCH, "--row", "age=27", "--row", "sex=Other"], "not a declared category"),
        (["local", "--sketch", SKETCH, "--rows", "nowhere.csv"], "cannot be read"),
        (["local", "--sketch", "nowhere.json", *ROW], "cannot be read"),
        (
            ["local", "--row", "age=27", "--row", "sex=Male", "--epsilon", "1", "--prediction", "1"],
            "belong to --sketch",
        ),
    ],
)
def test_bad_input_is_refused_and_nothing_is_spent(sketched, capsys, arguments, message):
    before = entries(sketched)
    assert message in refusal(capsys, 2, *arguments)["message"]
    assert entries(sketched) == before


@pytest.mark.parametrize(
    "arguments", [["sketch", "--epsilon", "1", "--method", "moments"], ["local", *ROW, "--epsilon", "1"]]
)
def test_a_pure_account_is_told_to_have_a_delta(project, capsys, arguments):
    error = refusal(capsys, 2, *arguments)
    assert "delta" in error["hint"]
    assert not (project / "budget.db").exists()


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-40], lambda text: text.replace('"values": [', '"values": [7, ')]
)
def test_a_damaged_sketch_is_refused(sketched, capsys, damage):
    path = sketched / SKETCH
    path.write_text(damage(path.read_text()))
    assert run(["local", "--sketch", SKETCH, *ROW]) in (2, 4)
    assert "Traceback" not in capsys.readouterr().err


def test_a_sketch_of_something_else_is_refused(zcdp, capsys):
    assert run(["local", *ROW, "--epsilon", "2", "--out", "single"]) == 0
    capsys.readouterr()
    document = json.loads((zcdp / "single" / "attribution.json").read_text())
    assert document["kind"] == "attribution"
    refusal(capsys, 2, "local", "--sketch", "single/attribution.json", *ROW)
