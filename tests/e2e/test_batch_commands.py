"""`dpexplain batch`, as a user meets it: from a file of requests to pages that verify."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from commands import answer, edit, refusal
from dpexplain.cli.app import run

pytestmark = pytest.mark.usefixtures("sketched_pictures")

DOMAIN = """\
dpexplain_domain: 1
reviewed_by: Ada
peeked: false
columns:
  age: {type: numeric, low: 18, high: 80, integer: true}
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
epsilon = 3.0
delta = 1e-6
ledger = "sqlite:///budget.db"
[model]
import = "batch_test_model:risk"
output = [0.0, 1.0]
name = "risk"
version = "1"
"""
BATCH = """\
epsilon = 1.0
[[requests]]
request = "partial-dependence"
feature = "age"
rug = false
[[requests]]
request = "quantiles"
feature = "visits"
probs = [0.5]
weight = 2
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    draw, n = np.random.default_rng(0), 2000
    age = draw.integers(18, 81, n)
    pd.DataFrame({"age": age, "visits": np.minimum(draw.poisson(age / 20), 12)}).to_csv(tmp_path / "people.csv")
    (tmp_path / "domain.yaml").write_text(DOMAIN)
    (tmp_path / "dpexplain.toml").write_text(PROJECT)
    (tmp_path / "batch.toml").write_text(BATCH)
    (tmp_path / "batch_test_model.py").write_text(
        "def risk(rows):\n    return (rows['age'].to_numpy() / 160 + rows['visits'].to_numpy() / 24)\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_of_requests_is_planned_released_and_verified(folder, capsys):
    planned = answer(capsys, "batch", "batch.toml", "--plan")
    assert not (folder / "budget.db").exists()
    assert not (folder / "explanations").exists()
    found = answer(capsys, "batch", "batch.toml")
    assert found["forecast"] == planned["forecast"]
    assert found["spent_now"]
    assert [one["kind"] for one in found["results"]][-2:] == ["curve", "quantiles"]
    for one in found["results"]:
        verified = answer(capsys, "verify", one["json"], "--model")
        assert (verified["genuine"], verified["entry"]["sequence"]) == (True, found["entry"])
    assert not answer(capsys, "batch", "batch.toml", "--out", "again")["spent_now"]
    assert run(["batch", "batch.toml", "--out", "once more"]) == 0
    text = capsys.readouterr().out
    assert "answered from the ledger, free" in text
    assert "error: 95 % of the values" in text
    (statement,) = answer(capsys, "budget")["accounts"]
    assert len(statement["entries"]) == 1


WRONG = [
    ("epsilon = 1.0", "", "needs one of epsilon"),
    ("epsilon = 1.0", "epsilon = 1.0\nepsilom = 2", "there is no option 'epsilom'"),
    ("epsilon = 1.0", "epsilon = 1.0\nout = 3", "out is a path"),
    ("epsilon = 1.0", "epsilon = ", "is not valid TOML"),
    ('"partial-dependence"', '"partial"', "request 1: there is no method 'partial'"),
    ('"age"', '"weight"', "unknown feature 'weight'"),
    ("rug = false", "rugs = false", "request 1: there is no option 'rugs'"),
    ("weight = 2", "weight = 'much'", "weights has numbers"),
    ("weight = 2", "max_error = 2", "needs one of epsilon"),
    (
        'request = "quantiles"\nfeature = "visits"\nprobs = [0.5]\nweight = 2',
        'request = "partial-dependence"\nfeature = "age"\nrug = false',
        "twice",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_what_is_wrong_with_a_file_is_refused(folder, capsys, old, new, message):
    edit(folder / "batch.toml", old, new)
    for arguments in (["--plan"], []):
        assert message in json.dumps(refusal(capsys, 2, "batch", "batch.toml", *arguments))


def test_no_file_no_requests_and_too_little_budget(folder, capsys):
    assert "cannot be read" in refusal(capsys, 2, "batch", "nowhere.toml")["message"]
    (folder / "empty.toml").write_text("epsilon = 1.0\n")
    assert "has no requests" in refusal(capsys, 2, "batch", "empty.toml")["message"]
    edit(folder / "batch.toml", "epsilon = 1.0", "epsilon = 4.0")
    assert "costs" in refusal(capsys, 3, "batch", "batch.toml")["message"]
