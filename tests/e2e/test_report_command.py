"""`dpexplain report`, as a user meets it: the plan, the page, and the page of files that were paid for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import answer, refusal
from dpexplain.cli.app import run
from pictures import unpainted

DOMAIN = """\
dpexplain_domain: 1
reviewed_by: Ada
peeked: false
units: employees
columns:
  age: {type: numeric, low: 18, high: 80, integer: true, title: Age at hiring, unit: years}
  sex: {type: categorical, values: [Female, Male], titles: [women, men]}
  paid: {type: numeric, low: 0, high: 1}
"""
PROJECT = """\
[table]
path = "people.parquet"
domain = "domain.yaml"
name = "people"
version = "1"
relation = "replace-one"
[budget]
epsilon = 20.0
delta = 1e-6
ledger = "sqlite:///budget.db"
[model]
import = "report_test_model:pay"
output = [0.0, 1.0]
name = "pay"
version = "1"
features = ["age", "sex"]
target = "paid"
"""
MODEL = "def pay(rows):\n    return (rows['age'] - 10) / 80 + 0.1 * (rows['sex'] == 'Male').to_numpy()\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    i = np.arange(3000)
    frame = pd.DataFrame({"age": 18 + i % 63, "sex": np.where(i % 3, "Male", "Female")})
    frame.assign(paid=np.clip((frame["age"] - 10) / 80, 0, 1)).to_parquet(tmp_path / "people.parquet")
    for name, text in (("domain.yaml", DOMAIN), ("dpexplain.toml", PROJECT), ("report_test_model.py", MODEL)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("DPEXPLAIN_LEDGER", raising=False)
    with unpainted():
        yield tmp_path


ASK = ["--section", "performance", "--section", "effects", "--group", "sex", "--epsilon", "3"]


def test_the_plan_spends_nothing(folder, capsys):
    told = answer(capsys, "report", *ASK, "--plan")
    assert told["forecast"]["sections"] == ["performance", "effects"]
    assert told["forecast"]["doubts"] == []
    assert not (folder / "budget.db").exists()
    assert run(["report", *ASK, "--plan"]) == 0
    assert "Nothing was read and nothing was spent." in capsys.readouterr().out


def test_the_page_and_the_page_of_its_files(folder, capsys):
    told = answer(capsys, "report", *ASK, "--title", "Who is paid?")
    page = Path(told["page"]).read_text(encoding="utf-8")
    assert told["spent_now"] is True
    assert told["price"].endswith("epsilon = 3 at delta = 1e-06")  # of all of it
    assert "<h1>Who is paid?</h1>" in page
    assert "any one of the employees" in page
    assert "Age at hiring" in page
    assert "sex: women" in page
    assert "account</th>" in page
    assert all(answer(capsys, "verify", one["json"])["genuine"] for one in told["results"])
    assert answer(capsys, "report", *ASK, "--title", "Who is paid?")["spent_now"] is False
    again = answer(capsys, "report", "--from", "explanations", "--out", "again")
    assert again["spent_now"] is False
    assert again["in_short"] == told["in_short"]
    (folder / "dpexplain.toml").unlink()  # without the project there is no model
    alone = answer(capsys, "report", "--from", told["results"][0]["json"], "--out", "alone")
    assert any("not at hand" in words for words in alone["left_out"])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ([*ASK[:-2]], "exactly one of --epsilon and --rho"),
        ([*ASK, "--section", "charts"], "no section 'charts'"),
        ([*ASK, "--compared", "sex"], "NAME=VALUE"),
        ([*ASK, "--clusters"], "clustering"),
        (["--from", ".", "--epsilon", "1"], "--from costs no budget"),
        (["--from", "nowhere.json"], "cannot be read"),
        (["--from", "."], "no file of a result"),
        (["--section", "effects", "--epsilon", "1e-5"], "would show noise"),
    ],
)
def test_bad_input_is_refused(folder, capsys, typed, said):
    problem = refusal(capsys, 2, "report", *typed)
    assert said in problem["message"]
    assert not (folder / "budget.db").exists() or problem["spent"] == "Nothing was spent."
