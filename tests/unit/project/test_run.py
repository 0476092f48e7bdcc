"""Open, forecast, release, publish, as a service calls them: objects come back, nothing is printed."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from commands import DOMAIN, MODEL, PROJECT, edit
from dpexplain.core.budget import pure
from dpexplain.project.file import Project
from dpexplain.project.run import SOME_SIZES, Task, left_for, opened
from dpexplain.requests import LocalSketch, PartialDependence

pytestmark = pytest.mark.usefixtures("sketched_pictures")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    rows = pd.DataFrame({"age": draw.integers(20, 30, 300), "sex": draw.choice(["Female", "Male"], 300)})
    rows.to_parquet(tmp_path / "people.parquet")
    for name, text in (("domain.yaml", DOMAIN), ("dpexplain.toml", PROJECT), ("cli_test_model.py", MODEL)):
        (tmp_path / name).write_text(text)
    monkeypatch.delenv("DPEXPLAIN_LEDGER", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "cli_test_model", raising=False)
    return tmp_path


def half(budget):
    return budget.cost(epsilon=0.5)


def age(_domain, _model):
    return Task(PartialDependence(feature="age"))


def test_the_way_of_a_release(folder, capsys):
    run = opened(Project.load(folder / "dpexplain.toml"), age, half, out=folder / "out")
    assert (run.task.method.title, run.price) == ("Partial dependence", "epsilon = 0.5 (pure)")
    assert run.statement.rows == ()
    (forecast,) = run.forecasts()
    assert (forecast.rows, len(forecast.options)) == (300, 1)
    (curve,) = run.release()
    assert forecast.options[0].std == pytest.approx(curve.std)
    assert run.statement.spent == pure(0.5)
    files = run.publish([curve])
    assert "Partial dependence, people" in files.page.read_text()
    assert dpx.from_json(files.results[0]).to_json() == curve.to_json()
    dpx.verify(curve, run.table.ledger)
    assert run.release()[0].receipt.replayed
    assert capsys.readouterr() == ("", "")


def test_a_guess_where_the_number_of_rows_is_private(folder):
    edit(folder / "dpexplain.toml", '"replace-one"', '"add-remove"')
    run = opened(Project.load(folder / "dpexplain.toml"), age, half, out=folder / "out")
    assert [forecast.rows for forecast in run.forecasts()] == list(SOME_SIZES)
    assert [forecast.rows for forecast in run.forecasts(500)] == [500]


@pytest.mark.parametrize("wrong", ["a pure account", "cannot be written to", "no column"])
def test_what_is_wrong_is_found_before_the_account_is_opened(folder, wrong):
    out = folder / "people.parquet" / "out" if wrong == "cannot be written to" else folder / "out"
    asked = {"a pure account": LocalSketch(method="moments"), "no column": PartialDependence(feature="height")}

    def ask(domain, model):
        return Task(asked[wrong]) if wrong in asked else age(domain, model)

    message = wrong if wrong != "no column" else "height"
    with pytest.raises(dpx.InputError, match=message):
        opened(Project.load(folder / "dpexplain.toml"), ask, half, out=out)
    assert not (folder / "budget.db").exists()


def test_what_is_left_for_an_analyst(folder):
    run = opened(Project.load(folder / "dpexplain.toml"), age, half, out=folder / "out", analyst="ada")
    assert left_for(run.statement, "ada") == pure(2)
    run.table.ledger.set_limit("people", "ada", pure(0.75))
    run.release()
    assert (left_for(run.statement, "ada"), left_for(run.statement, "bob")) == (pure(0.25), pure(1.5))
