"""`dpexplain influence` and `dpexplain transparency`, as a user meets them."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from commands import answer, refusal
from dpexplain.cli.app import run
from dpexplain.ledger import open_ledger
from dpexplain.methods.influence import forecast as influence_forecast
from dpexplain.methods.result import from_json

ROW = ["--row", "age=27", "--row", "sex=Male"]
WOMEN = ["--group", "sex=Female"]
INFLUENCE = "explanations/influence.json"


def entries(folder: Path) -> int:
    return open_ledger(f"sqlite:///{folder / 'budget.db'}").verify().events


def lines(told) -> dict:
    (result,) = told["results"]
    return {line["item"]: line for line in result["table"]}


@pytest.fixture
def released(project, capsys):
    assert run(["influence", "--epsilon", "1"]) == 0
    capsys.readouterr()
    return project


def test_the_average_over_everybody(project, capsys):
    told = answer(capsys, "influence", "--epsilon", "1")
    assert told["spent_now"] is True
    found = lines(told)
    assert set(found) == {"age", "sex"}
    assert all(line["low"] <= line["influence"] <= line["high"] for line in found.values())
    assert Path(told["results"][0]["png"]).is_file()
    assert Path(told["page"]).is_file()
    assert answer(capsys, "influence", "--epsilon", "1")["spent_now"] is False


def test_a_group_and_its_disparity(project, capsys):
    for quantity in ("group", "disparity"):
        told = answer(capsys, "influence", "--quantity", quantity, *WOMEN, "--epsilon", "0.5")
        assert "the group's conditions" in told["guarantee"]
    (result,) = told["results"]
    group, others, difference, ratio = result["disparity"]
    assert [group["what"], others["what"]] == ["where sex is Female", "all others"]
    assert difference["value"] == pytest.approx(group["value"] - others["value"])
    assert ratio["low"] <= ratio["value"] <= ratio["high"]
    assert result["positive"].startswith(("Positive: the ", "The score is the "))
    assert run(["influence", "--quantity", "disparity", *WOMEN, "--epsilon", "0.5"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Difference: " in said
    assert result["positive"] in said
    assert result["positive"] in Path(told["page"]).read_text(encoding="utf-8")


@pytest.mark.parametrize("group", ["age=20..24", "age=..24", "age=25..", "sex=Female", "age=20|21"])
def test_groups_as_people_type_them(project, capsys, group):
    assert answer(capsys, "influence", "--quantity", "group", "--group", group, "--epsilon", "0.1")


def test_a_person_is_free_after_the_table(released, capsys):
    before = entries(released)
    told = answer(capsys, "influence", "--quantity", "individual", *ROW, "--marginals", INFLUENCE)
    assert told["spent_now"] is False
    assert set(lines(told)) == {"age", "sex"}
    assert entries(released) == before
    assert answer(capsys, "verify", told["results"][0]["json"])


def test_sets_and_shapley_values(project, capsys):
    told = answer(capsys, "influence", "--set", "age,sex", "--feature", "age", "--epsilon", "0.3")
    assert set(lines(told)) == {"age", "age + sex"}
    assert answer(capsys, "influence", "--aggregate", "shapley", "--exact", "--epsilon", "0.3")


def test_how_many_predictions(project, capsys):
    draws = []
    for most in ("1", "10_000_000"):
        told = answer(capsys, "influence", "--set", "age,sex", "--epsilon", "0.9", "--most-predictions", most)
        draws.append(from_json(Path(told["results"][0]["json"])).spec.draws)
    assert draws[0] == 1 < draws[1]


@pytest.mark.long
@pytest.mark.parametrize("kind", [["--set", "age,sex"], ["--aggregate", "shapley"], ["--given", "sex"]])
def test_a_default_call_answers_and_says_what_chance_adds(project, capsys, monkeypatch, kind):
    monkeypatch.setattr(influence_forecast, "PREDICTIONS", 1)
    assert run(["influence", *kind, "--epsilon", "0.9"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Chance in what was drawn is in these intervals, and is more than the noise: up to ±" in said
    number = re.search(r"; most_predictions=([\d_]+) would bring it below the noise\.", said)[1]
    told = answer(capsys, "influence", *kind, "--epsilon", "0.9", "--most-predictions", number)
    caveat = from_json(Path(told["results"][0]["json"])).caveat
    assert "Chance in what was drawn" not in caveat
    assert "released histograms" in caveat


def test_a_report_for_a_person(project, capsys):
    told = answer(capsys, "transparency", *ROW, "--epsilon", "1")
    assert told["spent_now"] is True
    assert "the record of the person" in told["guarantee"]
    page = Path("explanations/transparency-report.html").read_text()
    assert "<html" in page
    assert answer(capsys, "transparency", *ROW, "--epsilon", "1")["spent_now"] is False
    assert answer(capsys, "verify", told["results"][0]["json"])


def test_later_persons_are_free(project, capsys):
    pd.DataFrame({"age": [21, None], "sex": ["Female", "Male"]}).to_csv("people.csv", index=False)
    assert answer(capsys, "transparency", *ROW, "--epsilon", "1")["spent_now"] is True
    told = answer(capsys, "transparency", "--rows", "people.csv", "--epsilon", "1")
    assert told["spent_now"] is False
    assert len(told["results"]) == 2
    pages = sorted(Path("explanations").glob("transparency-report*.html"))
    assert len(pages) == 3  # one for each person, the first one's still there
    assert sum("missing, taken as" in page.read_text() for page in pages) == 1
    assert sum("<b>Female</b>" in page.read_text() for page in pages) == 1


def test_the_words_say_what_is_not_protected(project, capsys):
    assert run(["transparency", *ROW, "--epsilon", "1"]) == 0
    assert "one page for each person: transparency-report.html" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["influence", "--epsilon", "1", "--quantity", "group"], "needs a group"),
        (["influence", "--epsilon", "1", *WOMEN], "has no group"),
        (["influence", "--epsilon", "1", "--quantity", "group", "--group", "height=2"], "not a declared column"),
        (["influence", "--epsilon", "1", "--quantity", "group", "--group", "outcome=1"], "not a declared column"),
        (["influence", "--epsilon", "1", "--quantity", "group", "--group", "sex=Other"], "nobody is in such a group"),
        (["influence", "--epsilon", "1", "--quantity", "group", "--group", "sex=Female|Male"], "everybody"),
        (["influence", "--epsilon", "1", "--quantity", "group", "--group", "age=90.."], "nobody has"),
        (["influence", "--epsilon", "1", "--quantity", "group", "--group", "sex"], "takes NAME=VALUE"),
        (["influence", "--epsilon", "1", "--quantity", "actual", *ROW, "--most-predictions", "9"], "about tables"),
        (["influence", "--epsilon", "1", "--quantity", "individual"], "one person"),
        (["influence", "--epsilon", "1", *ROW], "has no row"),
        (["influence", "--epsilon", "1", "--quantity", "actual", "--row", "age=99", "--row", "sex=Male"], "outside"),
        (["influence", "--quantity", "individual", *ROW, "--marginals", "nowhere.json"], "cannot be read"),
        (["influence", "--quantity", "individual", *ROW, "--marginals", INFLUENCE, "--epsilon", "1"], "free"),
        (["transparency", "--epsilon", "1"], "give one person"),
        (["transparency", "--epsilon", "1", "--row", "age=27"], "no value for sex"),
        (["transparency", "--epsilon", "1", "--row", "age=27", "--row", "sex=Other"], "not a declared category"),
        (["transparency", "--epsilon", "1", *ROW, "--rows", "people.csv"], "give one person"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_spent(released, capsys, arguments, message):
    before = entries(released)
    assert message in refusal(capsys, 2, *arguments)["message"]
    assert entries(released) == before
