"""`dpexplain demo --quick` from an empty folder to the page, twice."""

from __future__ import annotations

import json
import re
import sys

import pytest

import dpexplain as dpx
from dpexplain import demo
from dpexplain.cli.app import run
from dpexplain.ledger import open_ledger

GROUPS = ["clusters", "dp-kmeans"]
CAUSES = ["influence", "transparency-report"]
RANKINGS = ["permutation-importance", "rank-aggregation"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The demo's folder, what it printed, and what the second run returned."""
    out = tmp_path_factory.mktemp("demo") / "out"
    lines: list[object] = []
    first = demo.run(out, quick=True, show=lines.append)
    anchor = open_ledger(f"sqlite:///{out}/budget.db").anchor()
    again: list[object] = []
    second = demo.run(out, quick=True, show=again.append)
    return out, (first, lines, anchor), (second, again)


@pytest.mark.long
def test_every_feature_has_its_files(folder):
    out, (first, lines, _), _ = folder
    effects = [f"accumulated-effects-{name}{again}" for name in demo.EFFECTS for again in ("", "-2")]
    people = ["attribution", "attribution-2"]
    names = [*demo.COLUMNS, "-x-".join(demo.PAIR), *effects, *RANKINGS, "marginals", "local-sketch", *people, *GROUPS]
    names += [*CAUSES, "performance", "stand-in"]
    for name in names:
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        found = dpx.from_json(out / f"{name}.json")
        assert isinstance(found, dpx.results.Result)
        assert found.receipt.guarantee in " ".join(str(found).split())
    assert len(first["results"]) == len(names)
    assert first["spent_now"] is True
    text = "\n".join(str(line) for line in lines)
    assert "released for rho" in text
    assert "is genuine" in text
    for curve in (dpx.from_json(out / f"{name}.json") for name in demo.COLUMNS):
        assert curve.rug


@pytest.mark.long
def test_the_second_run_is_free(folder):
    out, (first, _, anchor), (second, again) = folder
    assert second["spent_now"] is False
    assert second["statement"] == first["statement"]
    assert open_ledger(f"sqlite:///{out}/budget.db").anchor() == anchor
    assert sum("already released, free" in str(line) for line in again) == len(demo.PRICES)


@pytest.mark.long
def test_the_page_stands_alone_and_says_what_is_not_protected(folder):
    page = (folder[0] / "index.html").read_text(encoding="utf-8")
    outside = [url for url in re.findall(r"https?://[^\s\"'<>)]+", page) if not url.startswith("http://www.w3.org/")]
    assert outside == []
    assert not re.search(r"<(script|link|img|iframe)\b", page)
    assert re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]*\"", page) == []
    assert re.findall(r"<svg (?!role=\"img\" aria-label=\"[^\"]{12,}\")", page) == []  # every picture in words
    assert "What is not" in page
    assert "no person id" in page
    several = [demo.COLUMNS, demo.EFFECTS, RANKINGS, demo.PEOPLE, GROUPS, CAUSES]
    assert page.count("<svg") == sum(map(len, several)) + len(demo.EFFECTS) + 4
    assert "What counted" in (folder[0] / "transparency.html").read_text(encoding="utf-8")
    for name in demo.COLUMNS:
        assert f"Partial dependence of {name}" in page
    for name in demo.EFFECTS:
        assert f"Accumulated effect of {name}" in page


@pytest.mark.long
def test_the_page_says_in_short_what_came_out_of_each_kind_of_question(folder):
    page = (folder[0] / "index.html").read_text(encoding="utf-8")
    short = page[page.index("In short") : page.index("The promise")]
    assert short.count("<li>") == 7
    assert page.index("<h2>How good is the model, and for whom?") < page.index("<h2>In short")
    importance = dpx.from_json(folder[0] / "permutation-importance.json")
    assert f"The model needs {importance.items[0]} most" in short
    clusters = dpx.from_json(folder[0] / "clusters.json")
    assert clusters.explanations[0].attribute in short
    assert f"epsilon = {folder[1][0]['statement']['spent_epsilon']:.2g}" in short
    for section in ("Which columns count", "What the model has learned", "Why this prediction?", "Free care", "Groups"):
        assert f"<h2>{section}" in page


@pytest.mark.long
def test_one_budget_is_spent_both_ways(folder):
    out, page = folder[0], (folder[0] / "index.html").read_text(encoding="utf-8")
    section = page[page.index("One budget, both ways") : page.index("<h2>Why this prediction?")]
    assert "5 synthetic rows, drawn from the stand-in. They are nobody's data" in section
    stand_in = dpx.from_json(out / "stand-in.json")
    assert str(stand_in.rows(5)["coinsurance"].iloc[0]) in section
    alone = dpx.from_json(out / f"accumulated-effects-{demo.EFFECTS[0]}.json")
    sharper = dpx.from_json(out / f"accumulated-effects-{demo.EFFECTS[0]}-2.json")
    assert stand_in.receipt.cost + sharper.receipt.cost <= alone.receipt.cost
    for curve in (sharper, dpx.from_json(out / f"{'-x-'.join(demo.PAIR)}.json")):
        assert curve.sharpening.origin["entry"] == stand_in.entry
    ledger = f"sqlite:///{out}/budget.db"
    assert dpx.verify(sharper, ledger) != []


@pytest.mark.long
def test_the_folder_is_a_project_to_go_on_with(folder, capsys, tmp_path):
    out = folder[0]
    project = ["--project", str(out / "dpexplain.toml")]
    assert run(["verify", str(out / "health.json"), *project]) == 0
    assert run(["budget", *project]) == 0
    capsys.readouterr()
    pair = ["pdp", "--pair", ",".join(demo.PAIR), "--epsilon", str(demo.PRICES["pair"])]
    assert run([*pair, *project, "--out", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["spent_now"] is False  # the same request, so the same release
    people = ["local", "--sketch", str(out / "local-sketch.json"), "--rows", str(out / "people.csv")]
    assert run([*people, "--out", str(tmp_path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["results"]) == len(demo.PEOPLE)


def test_the_full_demo_fits_the_budget_beside_the_quick_one():
    prices = [demo.BUDGET.cost(epsilon=price).amount for price in demo.PRICES.values()]
    assert 2 * sum(prices) < demo.BUDGET.total.amount


@pytest.mark.parametrize("package", ["sklearn", "statsmodels"])
def test_a_missing_package_is_named(tmp_path, monkeypatch, capsys, package):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert run(["demo", "--out", str(tmp_path), "--quick"]) == 2
    error = capsys.readouterr().err
    assert f"'{package}" in error
    assert "pip install dpexplain[demo]" in error


def test_a_folder_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(["demo", "--out", str(tmp_path / "file"), "--quick", "--json"]) == 2
    assert "cannot be written to" in json.loads(capsys.readouterr().out)["error"]["message"]
