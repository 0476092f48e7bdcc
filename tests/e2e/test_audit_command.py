"""`dpexplain audit`, as a data holder meets it: it spends nothing, and what it writes says that it is not private."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from commands import answer, edit, refusal
from dpexplain.audit import NOT_PRIVATE, explained, subject
from dpexplain.audit import project as audits
from dpexplain.cli.app import run
from dpexplain.ledger import open_ledger
from dpexplain.methods import registry
from dpexplain.methods.registry import methods, register
from stubs import rows_of

pytestmark = pytest.mark.drawn(1e-5)

RUNS = ["--epsilon", "1", "--trials", "200", "--workers", "1"]
QUICK = ["--explainer", "marginals", *RUNS]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Fewer rows and runs; and no false alarm: a sound claim is refuted with probability at most 1e-6."""
    monkeypatch.setattr(audits, "CONFIDENCE", 1 - 1e-6)
    monkeypatch.setattr(audits, "BOUND_TRIALS", 500)
    monkeypatch.setattr(subject, "ATTACKED_ROWS", 200)
    monkeypatch.setattr(subject, "COMPANY", 40)
    monkeypatch.setattr(explained, "RECORDS", 100)


@pytest.fixture
def zcdp(project):
    edit(project / "dpexplain.toml", "epsilon = 2.0", "epsilon = 8.0\ndelta = 1e-6")
    return project


@pytest.mark.long
def test_the_page_and_every_file_say_that_they_are_not_private(zcdp, capsys):
    told = answer(capsys, "audit", "--explainer", "pdp", *RUNS)
    assert told["note"] == NOT_PRIVATE
    assert "nothing was spent" in told["spent"]
    assert told["refuted"] == []
    assert [Path(path).name for path in told["files"][:2]] == ["index.html", "audit.json"]
    assert len(told["files"]) == 8
    page = Path("audit/index.html").read_text()
    assert page.count(NOT_PRIVATE) >= 3
    assert "Do not publish this page" in page
    assert page.count("<script") == 1, "the one of all pages with charts"
    assert json.loads(Path("audit/audit.json").read_text())["note"] == NOT_PRIVATE
    (member,), (hidden,) = told["membership"], told["table"]
    for outcome in (member, hidden):
        assert outcome["guess"]["low"] <= outcome["guess"]["success"] <= outcome["guess"]["high"]
        assert 0 <= outcome["exact_loss"] <= 1
    assert {line["method"] for line in told["reconstruction"]} == {"exact", "sketch", "moments"}
    assert {line["release"] for line in told["bounds"]} == {"partial_dependence"}


def test_what_is_printed_begins_and_ends_with_the_warning(project, capsys):
    assert run(["audit", *QUICK, "--attack", "membership"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert NOT_PRIVATE in lines[0]
    assert NOT_PRIVATE in lines[-1]
    assert any("without the ledger" in line for line in lines)


def test_no_ledger_is_made(project, capsys):
    answer(capsys, "audit", *QUICK, "--attack", "membership", "--attack", "table")
    assert not list(project.glob("budget.db*"))


def test_an_account_that_is_there_is_left_alone(project, capsys):
    assert run(["pdp", "--feature", "age", "--epsilon", "0.5"]) == 0
    url = f"sqlite:///{project / 'budget.db'}"
    before = open_ledger(url).verify()
    capsys.readouterr()
    answer(capsys, "audit", *QUICK, "--attack", "membership")
    assert open_ledger(url).verify() == before


def test_a_ledger_that_cannot_be_opened_does_not_matter(project, capsys):
    edit(project / "dpexplain.toml", "sqlite:///budget.db", "postgresql://nobody@nowhere.invalid/none")
    assert answer(capsys, "audit", *QUICK, "--attack", "membership")["refuted"] == []


@pytest.mark.long
@pytest.mark.parametrize("epsilons", [["--epsilon", "0.5,2"], ["--epsilon", "2", "--epsilon", "0.5"]])
def test_prices_as_people_type_them(project, capsys, epsilons):
    chosen = ["--attack", "membership", "--explainer", "marginals", "--workers", "1", "--trials", "200"]
    assert answer(capsys, "audit", *chosen, *epsilons)["epsilons"] == [0.5, 2.0]


def test_what_the_project_cannot_release_is_said(project, capsys):
    told = answer(capsys, "audit", "--attack", "bounds", "--workers", "1")
    releases = {"partial_dependence", "accumulated_effects", "influence", "persons"}
    assert {line["release"] for line in told["bounds"]} == releases
    assert [what.split()[0] for what in told["left_out"]] == ["importance", "performance", "sketch"]


CLUSTERING = """
[clustering]
import = "audit_rules:halves"
labels = ["young", "old"]
name = "halves"
version = "1"
"""
HALVES = """
def halves(rows):
    return (rows["age"] >= 25).map({True: "old", False: "young"})
"""


@pytest.mark.long
@pytest.mark.parametrize("source", ["project", "k-means"])
def test_influence_and_clusters_on_the_rows_of_the_project(zcdp, capsys, monkeypatch, source):
    monkeypatch.delitem(sys.modules, "audit_rules", raising=False)
    (zcdp / "audit_rules.py").write_text(HALVES)
    if source == "project":
        (zcdp / "dpexplain.toml").write_text((zcdp / "dpexplain.toml").read_text() + CLUSTERING)
    options = [] if source == "project" else ["--kmeans", "2"]
    chosen = ["--attack", "membership", "--attack", "table", "--explainer", "influence", "--explainer", "clusters"]
    told = answer(capsys, "audit", *chosen, *RUNS, *options)
    for attack in ("membership", "table"):
        assert [line["explainer"] for line in told[attack]] == ["influence", "clusters"]
        assert all(0 <= line["exact_loss"] <= 1 + 1e-9 for line in told[attack])
    assert (told["refuted"], told["left_out"]) == ([], [])
    if source == "project":
        assert "not both" in refusal(capsys, 2, "audit", "--kmeans", "2")["message"]


def test_a_refuted_claim_has_an_exit_code(project, capsys, monkeypatch):
    def heavy_count(table, _model, _request, *, cost):
        """A row counts four times in two numbers; the bound is for once."""

        def body(gate):
            ages = [int((rows["age"] > 24).sum()) for rows in rows_of(table, gate, ["age"])]
            gate.noisy_counts("old", [4 * sum(ages), -4 * sum(ages)], cost)

        return table.door.release("count", {}, cost, body)

    monkeypatch.setattr(registry, "_methods", dict(methods()))
    register(replace(methods()["marginals"], explain=heavy_count))
    assert run(["audit", *QUICK, "--attack", "membership", "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert told["refuted"] == ["marginals at epsilon 1 (membership)"]
    assert "REFUTED" in Path("audit/index.html").read_text()


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        (["--attack", "guess"], "unknown attack 'guess'", "membership"),
        (["--explainer", "shap"], "unknown explainer 'shap'", "pdp"),
        (["--explainer", "sketch"], "needs an account with a delta", "delta"),
        (["--explainer", "importance"], "the column that the model predicts", "target"),
        (["--explainer", "clusters"], "clusters needs a clustering", "--kmeans"),
        (["--kmeans", "1"], "k must be a whole number", ""),
        (["--attack", "reconstruction"], "local explanations", "delta"),
        (["--epsilon", "much"], "--epsilon takes numbers", "0.1,1,5"),
        (["--epsilon", "-1"], "epsilon must be a positive", "0.5"),
        (["--trials", "5"], "5 trials are too few", "at least"),
        (["--trials", "some"], "Invalid value for '--trials'", "--help"),
        (["--workers", "0"], "workers must be", ""),
        (["--project", "nowhere.toml"], "there is no project file", "init"),
        (["--out", "people.parquet"], "cannot be written to", "--out"),
    ],
)
def test_bad_input_is_refused_before_a_row_is_read(project, capsys, monkeypatch, options, said, hint):
    monkeypatch.setattr(audits, "read", lambda *_: pytest.fail("rows were read"))
    error = refusal(capsys, 2, "audit", *options)
    assert said in error["message"]
    assert hint in error["hint"]


def test_a_model_that_fails_is_refused(project, capsys):
    edit(project / "dpexplain.toml", "cli_test_model:score", "cli_test_model:fails")
    assert refusal(capsys, 2, "audit", *QUICK)["kind"] == "ModelError"


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_table_with_one_row_is_refused(project, capsys, relation):
    edit(project / "dpexplain.toml", '"replace-one"', f'"{relation}"')
    pd.read_parquet("people.parquet").iloc[:1].to_parquet("people.parquet")
    assert refusal(capsys, 2, "audit", *QUICK)["kind"] == "TableError"


def test_a_missing_table_is_refused(project, capsys):
    shutil.move("people.parquet", "elsewhere.parquet")
    assert refusal(capsys, 2, "audit", *QUICK)["kind"] == "TableError"
