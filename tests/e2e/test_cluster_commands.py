"""`dpexplain clusters`, as a user meets it."""

from __future__ import annotations

import sys

import pytest

from commands import answer, edit, refusal
from dpexplain.cli.app import run

FUNCTION = """
def fails(rows):
    raise ValueError("a secret row")


def halves(rows):
    return (rows["age"] >= 25).map({True: "old", False: "young"})
"""
SECTION = """
[clustering]
import = "cluster_rules:halves"
labels = ["young", "old"]
name = "halves"
version = "1"
"""


@pytest.fixture
def with_clustering(project, monkeypatch):
    """The project with a clustering by public knowledge."""
    monkeypatch.delitem(sys.modules, "cluster_rules", raising=False)
    (project / "cluster_rules.py").write_text(FUNCTION)
    (project / "dpexplain.toml").write_text((project / "dpexplain.toml").read_text() + SECTION)
    return project


def test_a_function_of_the_project_is_explained_and_verified(with_clustering, capsys):
    told = answer(capsys, "clusters", "--epsilon", "1")
    (result,) = told["results"]
    assert told["labels"] == ["young", "old"]
    assert {line["attribute"] for line in result["table"]} == {"age"}  # sex says nothing about age
    assert told["spent_now"] is True
    assert answer(capsys, "verify", result["json"])
    assert answer(capsys, "clusters", "--epsilon", "1")["spent_now"] is False


def test_the_words_name_cluster_attribute_and_values(with_clustering, capsys):
    assert run(["clusters", "--epsilon", "1"]) == 0
    shown = capsys.readouterr().out
    assert "Cluster young: age is mostly" in shown
    assert "With probability 95 %" in shown


def test_private_k_means_is_paid_from_the_same_account(project, capsys):
    told = answer(capsys, "clusters", "--kmeans", "2", "--kmeans-epsilon", "1", "--epsilon", "0.5")
    assert [result["kind"] for result in told["results"]] == ["clusters", "dp-kmeans"]
    assert "clustering and explanation together: epsilon = 1.5" in told["guarantee"]
    assert told["left"]["amount"] == "1/2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epsilon", "1", "--kmeans", "2"], "belong together"),
        (["--epsilon", "1", "--kmeans", "2", "--kmeans-epsilon", "1"], "either --kmeans K, or a [clustering]"),
        (["--epsilon", "1", "--per-cluster", "3"], "3 attributes for each cluster"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_spent(with_clustering, capsys, arguments, message):
    assert message in refusal(capsys, 2, "clusters", *arguments)["message"]
    if (with_clustering / "budget.db").exists():
        assert answer(capsys, "budget")["accounts"][0]["spent"]["amount"] == "0/1"


def test_without_a_clustering_it_says_what_to_do(project, capsys):
    assert "--kmeans 5" in refusal(capsys, 2, "clusters", "--epsilon", "1")["hint"]


def test_a_clustering_that_fails_on_synthetic_rows_costs_nothing(with_clustering, capsys):
    edit(with_clustering / "dpexplain.toml", "cluster_rules:halves", "cluster_rules:fails")
    assert "clustering fails on synthetic rows" in refusal(capsys, 2, "clusters", "--epsilon", "1")["message"]
    assert not (with_clustering / "budget.db").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--kmeans", "25", "--kmeans-epsilon", "1", "--epsilon", "0.5"], 2, "too many to weigh all combinations"),
        (["--kmeans", "2", "--kmeans-epsilon", "1.6", "--epsilon", "0.5"], 3, "together cost epsilon = 2.1"),
    ],
)
def test_clusters_are_not_paid_for_when_they_cannot_be_explained(project, capsys, arguments, code, message):
    assert message in refusal(capsys, code, "clusters", *arguments)["message"]
    if (project / "budget.db").exists():
        assert answer(capsys, "budget")["accounts"][0]["spent"]["amount"] == "0/1"
