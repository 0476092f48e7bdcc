"""The README is short, and its commands and numbers are true."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from bench import __main__ as benchmarks
from bench import evidence

from commands import DOMAIN, PROJECT
from dpexplain.audit.releases import every_case
from dpexplain.cli.app import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line for line in README.splitlines() if line.startswith("dpexplain ")]


def test_it_is_short():
    assert len(README.splitlines()) <= 120


def test_its_commands_run_in_order(project, capsys):
    (project / "domain.yaml").unlink()
    (project / "dpexplain.toml").unlink()
    assert [line.split()[1] for line in COMMANDS][:1] == ["init"]
    for line in COMMANDS:
        assert run(shlex.split(line, comments=True)[1:]) == 0, line
        assert capsys.readouterr().out
        if line.startswith("dpexplain init"):  # a person reviews the drafts
            assert "???" in (project / "domain.yaml").read_text()
            (project / "domain.yaml").write_text(DOMAIN)
            (project / "dpexplain.toml").write_text(PROJECT)


def test_what_it_makes_is_in_the_makefile():
    asked = set(re.findall(r"`?\bmake ([a-z]+)\b", README))
    assert asked >= {"demo", "test", "evidence", "docs"}
    assert asked - {"sure"} <= set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_every_extra_that_it_names_is_there():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = README.partition("## Any model")[2].partition("\n## ")[0]
    last = [line.rsplit("|", 2)[1] for line in table.splitlines() if line.startswith("|")]
    named = {name for cell in last for name in re.findall(r"`(\w+)`", cell)}
    assert named >= {"onnx", "xgboost", "torch"}
    assert named <= set(extras)
    for suffix in re.findall(r"`\"risk(\.\w+)\"`", table):
        assert suffix in (ROOT / "docs" / "models.md").read_text(), suffix


def audited(now: Sequence[str], measured: Sequence[str]) -> tuple[str, str]:
    """What a claim about worst cases has to say of their number, and of those that were not measured, by the releases
    of all cases that there are and of those in the file.
    """
    had = f"{len(measured)} cases of {len(set(measured))} releases measured"
    if Counter(now) == Counter(measured):
        return f"{had}:", ""
    new = sorted(set(now) - set(measured))
    more = len([release for release in now if release not in new]) - len(measured)
    exist = f"({len(now)} cases of {len(set(now))} releases exist now)"
    return f"{had} {exist}:", f"not measured yet: {', '.join(new)}, and {more} newer cases of the others"


class TestEvidence:
    def test_every_claim_is_what_was_measured(self):
        every = evidence.claims()
        assert len(every) > 20
        assert 4 <= sum(claim.readme and claim.topic != "Privacy" for claim in every) <= 6
        for claim in every:
            assert evidence.committed(claim, README) == [], claim.what

    def test_every_number_of_the_readme_is_a_claim(self):
        rows = README.partition("## Measured")[2].partition("\n## ")[0].splitlines()
        measured = [row.rsplit("|", 2)[1].strip() for row in rows if row.startswith("| ")][1:]
        assert sorted(measured) == sorted(c.says for c in evidence.claims() if c.readme and c.topic != "Privacy")

    def test_the_claim_about_audits_says_which_worst_cases_were_not_measured(self):
        """Worst cases are added with methods; the file with their draws is older, and the claim has to say so."""
        (claim,) = [claim for claim in evidence.claims() if claim.file == "audit-releases.json"]
        said, left_out = audited(
            [case.release for case in every_case()], [case["release"] for case in claim.document["cases"]]
        )
        assert said in claim.says
        assert left_out in claim.what

    def test_what_was_not_audited_is_computed(self):
        now = ["curve", "curve", "votes", "rows"]
        whole, none = audited(now, now)
        assert (whole, none) == ("4 cases of 3 releases measured:", "")
        said, left_out = audited(now, ["curve", "votes"])
        assert said == "2 cases of 2 releases measured (4 cases of 3 releases exist now):"
        assert left_out == "not measured yet: rows, and 1 newer cases of the others"

    def test_a_claim_that_does_not_hold_is_found(self):
        claim = evidence.claims()[0]
        (check, *_) = claim.numbers
        assert evidence.faults_of(claim.document, [{**check, "shown": "0.58"}], claim.says)
        assert evidence.faults_of(claim.document, [{**check, "at_most": 0.5}])
        assert evidence.faults_of(claim.document, [{**check, "at_least": 0.7}])
        assert evidence.faults_of(claim.document, [{**check, "at": ["summary", "gone"]}])
        assert evidence.committed(claim, README.replace(claim.says, "much better"))

    def test_a_short_form_that_contradicts_its_claim_is_found(self, monkeypatch, tmp_path):
        quick = evidence.Quick(run="start", checks=[{"at": ["ratio"], "at_most": 1}], tables=["people.parquet"])
        assert evidence.repeated(quick, tmp_path) is None
        (tmp_path / "people.parquet").touch()
        for ratio, wrong in ((0.5, 0), (2, 1)):
            printed = f"progress\n{json.dumps({'ratio': ratio}, indent=1)}\n(quick form: nothing written)\n"
            done = evidence.subprocess.CompletedProcess([], 0, printed, "")
            monkeypatch.setattr(evidence.subprocess, "run", lambda *a, done=done, **k: done)
            assert len(evidence.repeated(quick, tmp_path)) == wrong
        failed = evidence.subprocess.CompletedProcess([], 1, "", "no such table")
        monkeypatch.setattr(evidence.subprocess, "run", lambda *a, **k: failed)
        assert "no such table" in evidence.repeated(quick, tmp_path)[0]

    @pytest.mark.parametrize(
        ("value", "text", "same"),
        [(0.5927, "0.59", True), (0.5951, "0.59", False), (10100.0, "10,100", True), (0.875, "0.87", True)],
    )
    def test_numbers_are_compared_as_they_are_written(self, value, text, same):
        assert evidence.shown(value, text) is same

    def test_every_short_form_names_a_benchmark(self):
        for claim in evidence.claims():
            assert claim.command.startswith("python -m bench ")
            assert claim.command.split()[3] in benchmarks.NAMES
            if claim.quick:
                assert shlex.split(claim.quick.run)[0] in benchmarks.NAMES
                assert claim.quick.checks

    def test_the_page_is_made_from_the_claims(self):
        assert evidence.PAGE.read_text(encoding="utf-8") == evidence.page(evidence.claims()), (
            "run: python -m bench.evidence --write"
        )
