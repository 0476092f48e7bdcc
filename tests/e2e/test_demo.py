"""`dpexplain demo --quick` from an empty folder to the page, twice; and the demo for a table of one's own."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain import demo
from dpexplain.cli.app import run
from dpexplain.data.sources import open_source
from dpexplain.demo.own_table import _write, declare, run_on
from dpexplain.ledger import open_ledger
from pictures import unpainted


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The demo's folder, what it printed, and what the second run returned."""
    out = tmp_path_factory.mktemp("demo") / "out"
    lines: list[object] = []
    first = demo.run(out, quick=True, show=lines.append)
    anchor = open_ledger(f"sqlite:///{out}/budget.db").anchor()
    again: list[object] = []
    second = demo.run(out, quick=True, show=again.append)
    after = open_ledger(f"sqlite:///{out}/budget.db").anchor()
    return out, (first, lines, anchor), (second, again, after)


@pytest.mark.long
def test_every_result_has_its_file_and_can_be_verified(folder):
    out, (first, lines, _), _ = folder
    ledger = open_ledger(f"sqlite:///{out}/budget.db", create=False)
    for path in first["results"]:
        found = dpx.from_json(path)
        dpx.verify(found, ledger)
    assert first["spent_now"] is True
    text = "\n".join(map(str, lines))
    for step in range(1, 6):
        assert f"{step}/5" in text
    assert "is genuine" in text


@pytest.mark.long
def test_what_was_spent_before_the_report_is_said_when_it_was(folder):
    """The clusters are paid for before the plan, so "nothing is spent yet" would be false there."""
    _, (_, lines, _), (_, again, _) = folder
    said, second = (list(map(str, shown)) for shown in (lines, again))
    (place,) = [i for i, line in enumerate(said) if line.startswith("Spent so far")]
    assert said[place].startswith(f"Spent so far: epsilon = {demo.PRICES['k-means']:.2g}, for the clusters.")
    assert sum("/5" in line for line in said[:place]) == 2  # after the plan, before the release
    assert any("in an earlier run" in line for line in second)
    assert not any("Nothing is spent" in line for line in said)


def test_the_demo_asks_its_model_in_one_thread():
    from threadpoolctl import threadpool_info

    from dpexplain.demo.threads import one_thread

    with one_thread():
        assert {(pool["user_api"], pool["num_threads"]) for pool in threadpool_info()} == {("blas", 1), ("openmp", 1)}


@pytest.mark.long
def test_it_ends_with_where_it_is_what_was_spent_and_three_commands(folder):
    out, (first, lines, _), _ = folder
    last = str(lines[-1])
    assert f"Open {first['page']}" in last
    assert "Spent now: epsilon = 1.248 of the 3 " in last
    commands = re.findall(r"^  dpexplain (.*)$", last, re.MULTILINE)
    assert len(commands) == 3
    project = ["--project", str(out / "dpexplain.toml")]
    ale = commands[0].replace("stand-in.json", str(out / "stand-in.json")).split()
    assert run([*ale, *project, "--out", str(out / "more")]) == 0
    assert run(["report", "--from", str(out), "--title", "My own title", *project, "--out", str(out / "more")]) == 0
    assert run(["budget", *project]) == 0


@pytest.mark.long
def test_the_second_run_is_free(folder):
    _, (first, _, anchor), (second, again, after) = folder
    assert second["spent_now"] is False
    assert second["statement"]["spent_epsilon"] == first["statement"]["spent_epsilon"]
    assert after == anchor
    assert "before; this time nothing" in str(again[-1])
    assert second["in_short"] == first["in_short"]


@pytest.mark.long
def test_the_page_has_every_section_in_the_words_of_the_domain_file(folder):
    page = Path(folder[1][0]["page"]).read_text(encoding="utf-8")
    for name in (
        "short",
        "performance",
        "importance",
        "effects",
        "interactions",
        "groups",
        "clusters",
        "persons",
        "rows",
        "promise",
    ):
        assert f'<section id="{name}"' in page
    assert "Partial dependence of Index of chronic diseases" in page
    assert "any one of the rows (one person in one year)" in page
    assert not re.search(r"<(link|img|iframe)\b", page)


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


# A table of one's own -------------------------------------------------------------------------------------------------

SAID = {
    "age": "18 80", "sex": "f, m", "member": "yes", "note": "", "paid": "0 1", "Which column": "paid",
    "Is the number": "yes", "About how many": "2000", "The most": "4", "Your name": "Ada",
}  # fmt: skip


def answers(**others: list[str] | str):
    """Somebody who types these, one after the other where there are several."""
    left = {name: list(said) if isinstance(said, list) else [said] for name, said in {**SAID, **others}.items()}

    def ask(question: str, default: str) -> str:
        name = next(name for name in left if question.startswith(name))
        said = left[name].pop(0) if len(left[name]) > 1 else left[name][0]
        return said or default

    return ask


def people() -> pd.DataFrame:
    i = np.arange(2000)
    frame = pd.DataFrame(
        {"age": 18 + i % 63, "sex": np.where(i % 3, "m", "f"), "member": i % 2 == 0, "note": i.astype(str)}
    )
    return frame.assign(paid=np.clip((frame["age"] - 10) / 80, 0, 1))


def test_what_is_declared_is_what_a_person_said():
    shown: list[object] = []
    asked = {"age": ["young", "80 18", "18 80"], "sex": "f, m", "The most": ["0", "4"]}
    found = declare(open_source(people()), answers(**asked), shown.append)
    assert list(found.domain) == ["age", "sex", "member", "paid"]
    assert found.domain["age"] == dpx.Numeric(18, 80, integer=True)
    assert found.domain["sex"] == dpx.Categorical(["f", "m"])
    assert (found.target, found.relation, found.epsilon, found.domain.reviewed_by) == (
        "paid",
        "replace-one",
        4.0,
        "Ada",
    )
    assert any("two numbers, such as 0 120" in str(line) for line in shown)
    private = declare(open_source(people()), answers(**{"Is the number": "no"}), shown.append)
    assert (private.relation, private.hint) == ("add-remove", 2000)


@pytest.mark.parametrize("seen", [["m"], ["m", "f"], []], ids=["one class", "a class of one row", "no rows"])
@pytest.mark.parametrize("target", ["sex", "paid"])
def test_training_fails_on_no_table_and_knows_every_declared_class(tmp_path, seen, target):
    """Whether it fails would tell what the rows are like."""
    import joblib

    frame = people().iloc[np.arange(12_000) % 2000].reset_index(drop=True)
    frame["sex"] = "m"
    frame.loc[: max(len(seen) - 2, -1), "sex"] = "f"
    path = tmp_path / "people.parquet"
    frame[: len(frame) if seen else 0].to_parquet(path)
    source = open_source(path)
    declared = declare(source, answers(**{"Which column": target}), lambda *_: None)
    _write(path, tmp_path, declared, source)
    (model,) = map(joblib.load, tmp_path.glob("*.joblib"))
    assert list(getattr(model, "classes_", ["f", "m"])) == ["f", "m"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"age": "", "sex": "", "member": "no"}, "fewer than two columns"),
        ({"Your name": " "}, "no answer to"),
        ({"Which column": "height"}, "no answer to"),
        ({"age": "1 2 3"}, "no answer to"),
        ({"sex": ", ".join(map(str, range(256)))}, "no answer to"),  # training fails on so many
    ],
)
def test_answers_that_cannot_be_used(asked, said):
    with pytest.raises(dpx.InputError, match=said):
        declare(open_source(people()), answers(**asked), lambda *_: None)


def test_a_table_that_is_too_wide_to_ask_about():
    wide = pd.DataFrame(np.zeros((3, 60)), columns=[f"c{i}" for i in range(60)])
    with pytest.raises(dpx.InputError, match="too many to ask about"):
        declare(open_source(wide), answers(), lambda *_: None)


@pytest.mark.long
@pytest.mark.parametrize("target", ["paid", "sex"])
def test_a_table_of_one_s_own_from_questions_to_the_page(tmp_path, target):
    people().to_parquet(tmp_path / "people.parquet")
    out, shown = tmp_path / "out", list[object]()
    with unpainted():
        told = run_on(tmp_path / "people.parquet", out, answers(**{"Which column": target}), shown.append)
        again = run_on(tmp_path / "people.parquet", out, answers(), shown.append)
    assert told["spent_now"] is True
    assert again["spent_now"] is False
    assert "<h2>In short</h2>" in Path(told["page"]).read_text(encoding="utf-8")
    assert "It is not private" in "\n".join(map(str, shown))
    assert run(["budget", "--project", str(out / "dpexplain.toml")]) == 0
