"""The command line in tests: a small project, the answer of a command, its refusal."""

from __future__ import annotations

import json
from pathlib import Path

from dpexplain.cli.app import run

DOMAIN = """\
dpexplain_domain: 1
reviewed_by: Ada
peeked: false
columns:
  age: {type: numeric, low: 20, high: 29, integer: true}
  sex: {type: categorical, values: [Female, Male]}
"""
PROJECT = """\
[table]
path = "people.parquet"
domain = "domain.yaml"
name = "people"
version = "1"
relation = "replace-one"
[budget]
epsilon = 2.0
ledger = "sqlite:///budget.db"
[model]
import = "cli_test_model:score"
output = [0.0, 1.0]
name = "score"
version = "1"
"""
MODEL = """\
def score(rows):
    return (rows["age"] - 20) / 20 + 0.25 * (rows["sex"] == "Male").to_numpy()


def fails(rows):
    raise ValueError("a secret row")


def wrong_shape(rows):
    return [1.0]
"""


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def answer(capsys, *arguments: str) -> dict:
    """The JSON object of a command that succeeds."""
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys, code: int, *arguments: str) -> dict:
    """The error of a command that fails, which must be the same as text and as JSON."""
    assert run([*arguments, "--json"]) == code
    out, err = capsys.readouterr()
    assert err == ""
    error = json.loads(out)["error"]
    assert set(error) == {"kind", "message", "hint", "spent"}
    assert run(list(arguments)) == code
    printed = capsys.readouterr()
    assert f"Error: {error['message']}" in printed.err
    assert error["hint"] in printed.err
    assert "Traceback" not in printed.err
    return error
