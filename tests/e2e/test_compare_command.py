"""`dpexplain compare`, as a user meets it: the project's model and an older one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from commands import DOMAIN, MODEL, PROJECT, answer, refusal
from dpexplain.cli.app import run
from dpexplain.methods.compare.result import DifferenceCurve, ImportanceDifference, RateDifferences
from dpexplain.methods.result import from_json

pytestmark = pytest.mark.usefixtures("sketched_pictures")

OLDER = """

def older(rows):
    return 0.9 * score(rows)
"""
WITH = ("--with", "compare_test_model:older")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    rows = pd.DataFrame({"age": draw.integers(20, 30, 3000), "sex": draw.choice(["Female", "Male"], 3000)})
    rows.assign(paid=draw.integers(0, 2, 3000)).to_parquet(tmp_path / "people.parquet")
    (tmp_path / "domain.yaml").write_text(DOMAIN + "  paid: {type: categorical, values: [0, 1]}\n")
    project = PROJECT.replace("cli_test_model", "compare_test_model").replace("epsilon = 2.0", "epsilon = 9.0")
    (tmp_path / "dpexplain.toml").write_text(project + 'features = ["age", "sex"]\ntarget = "paid"\n')
    (tmp_path / "compare_test_model.py").write_text(MODEL + OLDER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_curves_importances_and_rates(folder, capsys):
    for typed, kind in (
        (["--feature", "age", "--limit", "0.5"], DifferenceCurve),
        (["--what", "importance"], ImportanceDifference),
        (["--what", "rates", "--group", "sex"], RateDifferences),
    ):
        found = answer(capsys, "compare", *WITH, *typed, "--epsilon", "1")
        assert found["label"].startswith("difference of ")
        assert found["spent_now"]
        written = found["results"][0]["json"]
        assert isinstance(from_json(written), kind)
        assert answer(capsys, "verify", written)["genuine"]
        again = answer(capsys, "compare", *WITH, *typed, "--epsilon", "1")
        assert not again["spent_now"]
    assert run(["compare", *WITH, "--feature", "age", "--epsilon", "1"]) == 0
    assert "score 1 less score before" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--feature", "age"], "name the model to compare with"),
        ([*WITH], "name what to explain"),
        ([*WITH, "--what", "shape"], "unknown --what"),
        ([*WITH, "--what", "curves", "--feature", "age", "--group", "sex"], "belong to rates"),
        ([*WITH, "--what", "rates", "--feature", "age"], "columns are named for curves"),
        ([*WITH, "--what", "rates", "--limit", "0.1"], "a limit belongs to the curves"),
        ([*WITH, "--with-version", "1", "--feature", "age"], "these are one model"),
    ],
)
def test_what_is_typed_wrong_costs_nothing(folder, capsys, typed, said):
    error = refusal(capsys, 2, "compare", *typed, "--epsilon", "1")
    assert said in error["message"]
    assert not (folder / "budget.db").exists()
