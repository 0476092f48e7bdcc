"""From a CSV file with a score, an outcome and a group to the page that says whether the score errs against one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import answer, edit, refusal
from dpexplain.cli.app import run
from dpexplain.maths.tails import combined_halfwidth
from dpexplain.methods.result import from_json
from pictures import sketched, unpainted

COMMAND = ["performance", "--score", "decile", "--target", "again", "--group", "race", "--threshold", "6"]
KINDS = ["Black", "White"]


def draw(n: int = 4_000) -> pd.DataFrame:
    """Among those to whom it did not happen, Black rows have a high score far more often."""
    draws = np.random.default_rng(0)
    black, again = draws.random(n) < 0.5, draws.random(n) < 0.4
    high = draws.random(n) < np.where(again, 0.7, np.where(black, 0.45, 0.23))
    decile = np.where(high, draws.integers(6, 11, n), draws.integers(1, 6, n))
    columns = {"name": [f"person {i}" for i in range(n)], "decile": decile, "race": np.where(black, *KINDS)}
    return pd.DataFrame({**columns, "again": again.astype(int)})


@pytest.fixture
def scored(tmp_path, monkeypatch, capsys):
    """What a user does before the one command: init, and a review of the domain."""
    monkeypatch.chdir(tmp_path)
    draw().to_csv("scores.csv", index=False)
    assert run(["init", "scores.csv", "--wants", "performance"]) == 0
    assert "Only the header line was read" in capsys.readouterr().out
    text = re.sub(r"  name: .*\n", "", Path("domain.yaml").read_text())  # no explanation needs it
    for name, declared in {
        "decile": "{low: 1, high: 10, integer: true}",
        "race": "{values: [Black, White]}",
        "again": "{values: [0, 1]}",
    }.items():
        text = re.sub(rf"  {name}: .*", f"  {name}: {declared}", text)
    Path("domain.yaml").write_text(text.replace("reviewed_by: null", "reviewed_by: Ada"))
    edit(Path("dpexplain.toml"), 'relation = "???"', 'relation = "replace-one"')
    edit(Path("dpexplain.toml"), 'epsilon = "???"', "epsilon = 3.0")  # the model stays ???: the score is in the file
    return tmp_path


def test_one_command_from_the_file_to_the_page(scored, capsys):
    with sketched():
        told = answer(capsys, *COMMAND, "--epsilon", "1")
    assert told["spent_now"] is True
    (result,) = told["results"]
    perf, rows = from_json(Path(result["json"])), draw()
    for kind in KINDS:
        estimate = perf.figure("false_positive_rate", group={"race": kind})
        rate = (rows[(rows["race"] == kind) & (rows["again"] == 0)]["decile"] >= 6).mean()
        assert estimate.low < estimate.value < estimate.high
        # released high scores less the exact rate of all: noise of 5 cells and of 5 others, false alarm 1e-10 for each
        released = perf.table({"race": kind}).counts[:, 0].sum()
        noise = combined_halfwidth([(perf.part("counts")[1], [1 - rate] * 5 + [rate] * 5)], 0.0, 1 - 1e-10)
        assert abs(estimate.value - rate) * released <= noise < 0.1 * released
    page = Path(told["page"]).read_text(encoding="utf-8")
    for words in (*perf.findings, perf.caveat, "How good is decile, and for whom?"):
        assert words in page
    wrong = next(words for words in perf.findings if words.startswith("False positive rate"))
    assert re.search(r"\d % \(.* for Black against .* % \(.* for White: the noise does not explain this diff", wrong)
    assert "they do not say what other people would show" in page
    assert "no proof of its cause" in page
    assert {"fairness", "roc", "calibration", "confusion"} <= set(result)
    assert answer(capsys, "verify", result["json"])
    with unpainted():
        assert run([*COMMAND, "--epsilon", "1"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Already released: answered from the ledger, free." in said
    for words in (*perf.findings, perf.caveat):
        assert words in said


def test_what_is_wrong_is_refused_before_anything_is_spent(scored, capsys):
    threshold = refusal(capsys, 2, *COMMAND[:-1], "11", "--epsilon", "1")
    assert "the threshold must lie inside the range of scores, 1 to 10" in threshold["message"]
    missing = refusal(capsys, 2, "performance", "--target", "again", "--epsilon", "1")  # no score, and no model either
    assert "model" in missing["message"]
    for error in (threshold, missing):
        assert error["spent"] == "Nothing was spent."
