"""The command line as a user meets it: in process through `run`, and some of it as a real process."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from commands import DOMAIN, answer, edit, refusal
from dpexplain.cli import app
from dpexplain.cli.app import run
from dpexplain.ledger import open_ledger
from dpexplain.methods.registry import commands


class TestWholeWay:
    def test_missing_values_that_the_model_sees(self, project, capsys):
        rows = pd.read_parquet(project / "people.parquet").astype({"age": float})
        rows.loc[::4, "age"] = np.nan
        rows.to_parquet(project / "people.parquet")
        edit(project / "domain.yaml", "integer: true}", "integer: true, missing: nan}")
        request = ["pdp", "--feature", "age", "--epsilon", "1", "--out", "results"]
        error = refusal(capsys, 2, *request)
        assert "NaN" in error["message"]  # as long as the model does not take them
        edit(project / "cli_test_model.py", '(rows["age"] - 20)', '(rows["age"].fillna(38) - 20)')
        sys.modules.pop("cli_test_model")
        table = answer(capsys, *request)["results"][0]["table"]
        assert table[-1]["age"] is None
        assert table[-1]["value"] == pytest.approx(0.95, abs=0.04)
        assert run(request) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "missing 0.9" in text
        said = "a missing one stays missing, as the model sees it. sex: a missing or undeclared value becomes Female."
        assert text.count(said) == 1
        assert said in (project / "results" / "index.html").read_text()
        assert run(["verify", "results/age.json"]) == 0

    def test_release_repeat_budget_verify(self, project, capsys):
        request = [
            "pdp",
            "--feature",
            "age",
            "--feature",
            "sex",
            "--pair",
            "age,sex",
            "--epsilon",
            "0.5",
            "--out",
            "results",
        ]
        assert run(request) == 0
        text = capsys.readouterr().out
        assert "Forecast" in text
        assert text.index("Left before: epsilon = 2") < text.index("Spent: epsilon = 0.5 (pure)")
        assert "Left: epsilon = 1.5" in text
        for name in ("age", "sex", "age-x-sex"):
            assert (project / "results" / f"{name}.json").exists()
            assert (project / "results" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (project / "results" / "index.html").read_text()

        again = answer(capsys, *request)
        assert again["spent_now"] is False
        assert again["left"] == {"definition": "pure", "amount": "3/2"}
        assert [r["feature"] for r in again["results"]] == ["age", "sex", "age x sex"]
        assert again["results"][1]["table"][0]["sex"] == "Female"
        assert again["forecasts"][0]["rows"] == 3000
        assert [option["definition"] for option in again["forecasts"][0]["options"]] == ["pure"]
        run(request)
        assert "Already released: answered from the ledger, free." in capsys.readouterr().out

        statement = answer(capsys, "budget")["accounts"][0]
        assert statement["spent_epsilon"] == 0.5
        assert [entry["status"] for entry in statement["entries"]] == ["released"]
        assert run(["budget"]) == 0
        assert "partial dependence of age, sex, age x sex" in capsys.readouterr().out

        verified = answer(capsys, "verify", "results/age.json")
        assert verified["genuine"] is True
        assert verified["entry"]["account"] == "people"
        assert run(["verify", "results/sex.json", "--ledger", "sqlite:///budget.db"]) == 0
        assert "sex.json is genuine" in capsys.readouterr().out

    def test_no_file_of_another_release_is_replaced(self, project, capsys):
        out = project / "explanations"
        out.mkdir()
        (out / "sex.png").write_text("a picture of somebody else")
        first = answer(capsys, "pdp", "--feature", "age", "--epsilon", "0.5")
        kept = {path: path.read_bytes() for path in out.iterdir()}
        second = answer(capsys, "pdp", "--feature", "age", "--feature", "sex", "--epsilon", "0.25")
        assert {path: path.read_bytes() for path in kept} == kept
        assert [Path(r["json"]).name for r in second["results"]] == ["age-2.json", "sex-2.json"]
        assert (Path(first["page"]).name, Path(second["page"]).name) == ("index.html", "index-2.html")
        assert (
            answer(capsys, "verify", second["results"][0]["json"])["entry"]
            != answer(capsys, "verify", first["results"][0]["json"])["entry"]
        )
        files = sorted(out.iterdir())
        for asked, told in ((["--feature", "age", "--epsilon", "0.5"], first),):
            (out / "age.png").unlink()
            again = answer(capsys, "pdp", *asked)  # the same release goes to its own files
            assert [r["json"] for r in again["results"]] == [r["json"] for r in told["results"]]
            assert again["page"] == told["page"]
        assert sorted(out.iterdir()) == files

    def test_all_leaves_the_target_out(self, project, capsys):
        edit(project / "dpexplain.toml", 'name = "score"', 'name = "score"\ntarget = "sex"')
        for command in ("pdp", "ale"):
            asked = answer(capsys, command, "--all", "--epsilon", "0.5")
            assert [result["feature"] for result in asked["results"]] == ["age"]
        assert refusal(capsys, 2, "pdp", "--all", "--feature", "age", "--epsilon", "0.5")["message"]

    def test_accumulated_effects(self, project, capsys):
        request = ["ale", "--all", "--epsilon", "0.5", "--out", "results"]
        assert run(request) == 0
        text = capsys.readouterr().out
        assert "effect on the prediction" in text
        assert "Spent: epsilon = 0.5 (pure)" in text
        again = answer(capsys, *request)
        assert again["spent_now"] is False
        assert [r["feature"] for r in again["results"]] == ["age", "sex"]
        assert again["results"][0]["kind"] == "accumulated-effects"
        assert (project / "results" / "accumulated-effects-age.png").read_bytes().startswith(b"\x89PNG")
        assert answer(capsys, "verify", "results/accumulated-effects-sex.json")["genuine"] is True
        assert "Accumulated effect of age" in (project / "results" / "index.html").read_text()
        published = answer(capsys, "ale", "--feature", "age", "--method", "paper", "--bins", "5", "--epsilon", "0.5")
        assert published["left"] == {"definition": "pure", "amount": "1/1"}

    def test_importance_of_a_declared_target(self, project, capsys):
        rows = pd.read_parquet(project / "people.parquet")
        rows["outcome"] = (rows["age"] - 20) / 20
        rows.to_parquet(project / "people.parquet")
        edit(project / "domain.yaml", "  sex:", "  outcome: {type: numeric, low: 0, high: 1}\n  sex:")
        features = 'name = "score"\nfeatures = ["age", "sex"]'
        edit(project / "dpexplain.toml", 'name = "score"', features)
        assert refusal(capsys, 2, "importance", "--epsilon", "1")["hint"].startswith("--target NAME")
        found = answer(capsys, "importance", "--target", "outcome", "--epsilon", "1", "--out", "results")
        (result,) = found["results"]
        assert result["kind"] == "permutation-importance"
        assert {line["item"] for line in result["table"]} == {"age", "sex"}
        assert result["table"][-1]["above_next"] is None
        edit(project / "dpexplain.toml", 'name = "score"', 'name = "score"\ntarget = "outcome"')
        assert run(["importance", "--epsilon", "1", "--out", "results"]) == 0
        text = capsys.readouterr().out
        assert "Already released" in text
        assert "above the next" in text
        assert answer(capsys, "verify", "results/permutation-importance.json")["genuine"] is True
        assert refusal(capsys, 2, "importance", "--loss", "odd", "--epsilon", "0.1")["spent"] == "Nothing was spent."
        planned = answer(capsys, "plan", "--explainer", "importance", "--epsilon", "0.5", "--n", "3000")
        assert not any("give the model" in option["note"] for option in planned["forecasts"][0]["options"])
        assert planned["forecasts"][0]["options"][0]["points"] == 2

    def test_marginals_are_paid_once_and_used_again(self, project, capsys):
        rows = pd.read_parquet(project / "people.parquet")
        rows["outcome"] = (rows["age"] - 20) / 20
        rows.to_parquet(project / "people.parquet")
        edit(project / "domain.yaml", "  sex:", "  outcome: {type: numeric, low: 0, high: 1}\n  sex:")
        edit(project / "dpexplain.toml", 'name = "score"', 'name = "score"\nfeatures = ["age", "sex"]')
        released = answer(
            capsys, "marginals", "--feature", "age", "--feature", "sex", "--epsilon", "0.5", "--out", "out"
        )
        assert released["left"] == {"definition": "pure", "amount": "3/2"}
        assert {line["feature"] for line in released["results"][0]["table"]} == {"age", "sex"}
        assert (project / "out" / "marginals.png").read_bytes().startswith(b"\x89PNG")
        again = ["importance", "--target", "outcome", "--epsilon", "0.5", "--marginals", "out/marginals.json"]
        found = answer(capsys, *again, "--out", "out")
        assert found["left"] == {"definition": "pure", "amount": "1/1"}
        told = json.loads((project / "out" / "permutation-importance.json").read_text())
        assert told["receipt"]["request"]["builds_on"][0]["entry"] == released["entry"]
        person = ["influence", "--quantity", "individual", "--row", "age=25", "--row", "sex=Female"]
        assert answer(capsys, *person, "--marginals", "out/marginals.json", "--out", "free")["spent_now"] is False
        wrong = refusal(capsys, 2, *again[:-1], "out/permutation-importance.json")
        assert "no marginals" in wrong["message"]
        assert wrong["spent"] == "Nothing was spent."
        assert refusal(capsys, 2, *again, "--method", "paper")["spent"] == "Nothing was spent."
        page = (project / "out" / "index-2.html").read_text()  # index.html is that of the marginals
        assert "Replacements came from histograms that were released before." in page
        grouped = answer(capsys, *again[:5], "--limit", "interval", "--out", "grouped")
        assert grouped["left"] == {"definition": "pure", "amount": "1/2"}
        page = (project / "grouped" / "index.html").read_text()
        assert "Replacements came from other rows, in small groups. Large changes are limited" in page

    def test_interactions(self, project, capsys):
        request = ["interactions", "--kind", "total", "--parts", "20", "--epsilon", "0.5", "--out", "results"]
        found = answer(capsys, *request)
        assert {line["item"] for line in found["results"][0]["table"]} == {"age", "sex"}
        assert (project / "results" / "rank-aggregation.png").exists()
        error = refusal(capsys, 2, "interactions", "--epsilon", "0.5")  # two columns make one pair: nothing to rank
        assert "at least two" in error["message"]
        assert "unknown kind" in refusal(capsys, 2, "interactions", "--kind", "odd", "--epsilon", "1")["message"]

    @pytest.mark.parametrize("explainer", ["ale", "interactions"])
    def test_plans_of_other_explainers(self, project, capsys, explainer):
        edit(project / "domain.yaml", "  sex:", "  third: {type: numeric, low: 0, high: 1}\n  sex:")
        feature = ["--feature", "age"] if explainer == "ale" else []
        planned = answer(capsys, "plan", "--explainer", explainer, *feature, "--epsilon", "0.5", "--n", "3000")
        assert [option["definition"] for option in planned["forecasts"][0]["options"]] == ["pure", "zcdp"]
        assert "unknown explainer" in refusal(capsys, 2, "plan", "--explainer", "odd", "--epsilon", "1")["message"]
        refused = refusal(capsys, 2, "plan", "--explainer", explainer, "--tables", "2", "--epsilon", "1")
        assert "such option: --tables" in refused["message"]
        assert f"`dpexplain {explainer} --help`" in refused["hint"]

    def test_a_zcdp_account_takes_rho(self, project, capsys):
        edit(project / "dpexplain.toml", "epsilon = 2.0", "epsilon = 2.0\ndelta = 1e-6")
        found = answer(capsys, "pdp", "--all", "--rho", "0.01", "--no-rug", "--no-smooth", "--grid", "5")
        assert found["price"] == {"definition": "zcdp", "amount": "1/100"}
        assert len(found["results"][0]["table"]) == 5
        assert [option["definition"] for option in found["forecasts"][0]["options"]] == ["zcdp"]

    def test_a_private_number_of_rows_is_never_printed(self, project, capsys):
        edit(project / "dpexplain.toml", "replace-one", "add-remove")
        assert run(["pdp", "--feature", "sex", "--epsilon", "1"]) == 0
        text = capsys.readouterr().out
        assert "The number of rows is private" in text
        assert "3,000" not in text
        assert "3000" not in text
        found = answer(capsys, "pdp", "--feature", "sex", "--epsilon", "1", "--n", "2500")
        assert [forecast["rows"] for forecast in found["forecasts"]] == [2500]
        assert run(["budget"]) == 0
        assert "3000" not in capsys.readouterr().out

    def test_the_published_method_and_a_named_mechanism(self, project, capsys):
        found = answer(capsys, "pdp", "--feature", "sex", "--epsilon", "0.5", "--method", "paper")
        assert found["forecasts"][0]["options"][0]["law"] == "discrete-laplace"
        found = answer(capsys, "pdp", "--feature", "sex", "--epsilon", "0.5", "--mechanism", "cube")
        assert found["forecasts"][0]["options"][0]["law"] == "cube"

    def test_a_classifier_in_a_file(self, project, capsys):
        import joblib
        from sklearn.linear_model import LogisticRegression

        skops = pytest.importorskip("skops.io")
        rows = pd.read_parquet(project / "people.parquet")
        fitted = LogisticRegression().fit(rows[["age"]], np.where(rows["age"] > 24, ">24", "<=24"))
        joblib.dump(fitted, project / "model.joblib")
        edit(project / "dpexplain.toml", 'import = "cli_test_model:score"', 'path = "model.joblib"\nlabel = ">24"')
        error = refusal(capsys, 2, "pdp", "--feature", "age", "--epsilon", "2")
        assert "is a pickle" in error["message"]
        assert "skops" in error["hint"]
        skops.dump(fitted, project / "model.skops")
        edit(project / "dpexplain.toml", "model.joblib", "model.skops")
        values = [
            line["value"] for line in answer(capsys, "pdp", "--feature", "age", "--epsilon", "1")["results"][0]["table"]
        ]
        assert values[0] < 0.3 < 0.7 < values[-1]
        skops.dump(fitted.fit(rows[["age"]], np.where(rows["age"] > 25, ">24", "<=24")), project / "model.skops")
        error = refusal(capsys, 2, "pdp", "--feature", "sex", "--epsilon", "0.1")
        assert "was read from another file" in error["message"]

    def test_several_csv_files(self, project, capsys):
        rows = pd.read_parquet(project / "people.parquet")
        rows[:1000].to_csv(project / "a.csv", index=False)
        rows[1000:].to_csv(project / "b.csv", index=False)
        edit(project / "dpexplain.toml", '"people.parquet"', '["a.csv", "b.csv"]')
        assert answer(capsys, "pdp", "--feature", "sex", "--epsilon", "1")["forecasts"][0]["rows"] == 3000

    def test_names_that_are_no_file_names(self, project, capsys):
        rows = pd.read_parquet(project / "people.parquet").rename(columns={"age": "../a [b]"})
        rows["../a (b)"] = 1
        rows.to_parquet(project / "people.parquet")
        edit(project / "domain.yaml", "  age:", '  "../a (b)": {type: numeric, low: 0, high: 1}\n  "../a [b]":')
        (project / "cli_test_model.py").write_text("def score(rows):\n    return rows['../a [b]'] / 30\n")
        assert run(["pdp", "--all", "--epsilon", "1", "--out", "results"]) == 0
        assert "../a [b]" in capsys.readouterr().out
        assert {p.name for p in (project / "results").iterdir() if p.suffix == ".json"} == {
            "a_b.json",
            "a_b-2.json",
            "sex.json",
        }


class TestInit:
    def test_drafts_that_wait_for_a_person(self, project, capsys):
        for name in ("domain.yaml", "dpexplain.toml"):
            (project / name).unlink()
        found = answer(capsys, "init", "people.parquet")
        assert found == {
            "domain": "domain.yaml",
            "project": "dpexplain.toml",
            "project_drafted": True,
            "peeked": False,
            "project_names_domain": True,
            "account": None,
        }
        error = refusal(capsys, 2, "plan", "--feature", "age", "--epsilon", "1")
        assert "'age' still has ???" in error["message"]
        (project / "domain.yaml").write_text(DOMAIN)
        error = refusal(capsys, 2, "plan", "--feature", "age", "--epsilon", "1")
        assert "is still ???" in error["message"]

    def test_an_unsigned_domain_runs_nothing(self, project, capsys):
        edit(project / "domain.yaml", "Ada", "null")
        for command in (["plan"], ["pdp"]):
            error = refusal(capsys, 2, *command, "--feature", "age", "--epsilon", "1")
            assert "no person has reviewed" in error["message"]
        assert not (project / "budget.db").exists()

    def test_peek(self, project, capsys):
        assert run(["init", "people.parquet", "--peek", "--out", "peeked.yaml"]) == 0
        assert "reveal the data" in capsys.readouterr().out
        assert "values: [Female, Male]" in (project / "peeked.yaml").read_text()

    def test_the_project_file_names_the_domain_file_or_init_says_that_it_does_not(self, project, capsys):
        assert run(["init", "people.parquet", "--peek", "--out", "peeked.yaml"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert 'names domain.yaml: write domain = "peeked.yaml" in its [table]' in said
        (project / "dpexplain.toml").unlink()
        told = answer(capsys, "init", "people.parquet", "--peek", "--out", "other.yaml")
        assert told["project_names_domain"] is True
        assert 'domain = "other.yaml"' in (project / "dpexplain.toml").read_text()
        told = answer(capsys, "init", "people.parquet", "--out", "other.yaml", "--force")
        assert (told["project_drafted"], told["project_names_domain"]) == (False, True)

    def test_a_csv_file(self, project, capsys):
        pd.read_parquet("people.parquet").to_csv("people.csv", index=False)
        assert run(["init", "people.csv", "--out", "csv.yaml"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "Only the header line was read; a CSV file has no types." in said
        edit(project / "csv.yaml", "age: {type: ???}", "age: {low: 20, high: 29, integer: true}")
        edit(project / "csv.yaml", "sex: {type: ???}", "sex: {values: [Female, Male]}")
        edit(project / "csv.yaml", "reviewed_by: null", "reviewed_by: Ada")
        edit(project / "dpexplain.toml", "domain.yaml", "csv.yaml")
        assert answer(capsys, "plan", "--feature", "age", "--epsilon", "1")["forecasts"]

    @pytest.mark.parametrize(
        ("wants", "delta"), [("pdp", None), ("importance,local", "1e-6"), ("clusters", "1e-6"), (" pdp , ale ", None)]
    )
    def test_the_account_that_suits_what_is_wanted(self, project, capsys, wants, delta):
        (project / "dpexplain.toml").unlink()
        told = answer(capsys, "init", "people.parquet", "--out", "new.yaml", "--wants", wants)["account"]
        assert told["delta"] == delta
        written = tomllib.loads((project / "dpexplain.toml").read_text())["budget"]
        assert written["wants"] == told["wants"] == [name.strip() for name in wants.split(",")]
        assert written.get("delta") == (None if delta is None else float(delta))
        assert run(["init", "people.parquet", "--out", "new.yaml", "--force", "--wants", wants]) == 0
        said = capsys.readouterr().out
        assert "a pure account" in said if delta is None else "a zCDP account (delta = 1e-6)" in said
        assert "see to its [budget] yourself" in said

    def test_a_terminal_is_asked(self, project, capsys, monkeypatch):
        (project / "dpexplain.toml").unlink()
        for stream in (sys.stdin, sys.stdout):
            monkeypatch.setattr(stream, "isatty", lambda: True)
        wish = "pdp, performance, sketch"
        monkeypatch.setattr("typer.prompt", lambda question, **_: "sketch" if wish in question else "")
        assert run(["init", "people.parquet", "--out", "new.yaml"]) == 0
        assert "delta = 1e-6" in (project / "dpexplain.toml").read_text()

    def test_an_unknown_wish(self, project, capsys):
        error = refusal(capsys, 2, "init", "people.parquet", "--out", "new.yaml", "--wants", "pdp,magic")
        assert "'magic'" in error["message"]
        assert "pdp, performance, sketch" in error["hint"]
        assert not (project / "new.yaml").exists()

    def test_an_account_that_cannot_pay_for_what_is_wanted_is_not_opened(self, project, capsys):
        edit(project / "dpexplain.toml", "epsilon = 2.0", 'epsilon = 2.0\nwants = ["pdp", "local"]')
        error = refusal(capsys, 2, "pdp", "--feature", "age", "--epsilon", "0.5")
        assert "[budget] wants local, which a pure account cannot pay for" in error["message"]
        assert "delta = 1e-6 in [budget]" in error["hint"]
        assert not (project / "budget.db").exists()
        edit(project / "dpexplain.toml", "epsilon = 2.0", "epsilon = 2.0\ndelta = 1e-6")
        assert answer(capsys, "pdp", "--feature", "age", "--epsilon", "0.5")["spent_now"]

    def test_a_new_pure_account_is_announced_and_a_sketch_is_told_what_it_needs(self, project, capsys):
        assert run(["pdp", "--feature", "age", "--epsilon", "0.5"]) == 0
        assert "This opens a pure account, for ever" in capsys.readouterr().out
        assert run(["pdp", "--feature", "sex", "--epsilon", "0.5"]) == 0
        assert "This opens" not in capsys.readouterr().out
        hint = refusal(capsys, 2, "sketch", "--epsilon", "0.5", "--method", "moments")["hint"]
        assert "by another name in [table], with delta = 1e-6 in [budget]" in hint
        assert "`dpexplain plan` compares both kinds" in hint
        assert run(["plan", "--explainer", "sketch", "--epsilon", "0.5", "--method", "moments"]) == 0
        assert "A pure account cannot pay for this" in capsys.readouterr().out

    def test_nothing_is_overwritten_unasked(self, project, capsys):
        before = (project / "dpexplain.toml").read_text()
        error = refusal(capsys, 2, "init", "people.parquet")
        assert "exists already" in error["message"]
        assert (project / "domain.yaml").read_text() == DOMAIN
        assert answer(capsys, "init", "people.parquet", "--force")["project_drafted"] is False
        assert (project / "domain.yaml").read_text() != DOMAIN
        assert (project / "dpexplain.toml").read_text() == before

    @pytest.mark.parametrize("table", ["none.parquet", "domain.yaml"])
    def test_not_a_table(self, project, capsys, table):
        assert refusal(capsys, 2, "init", table, "--out", "new.yaml")["kind"] == "TableError"
        assert not (project / "new.yaml").exists()

    def test_a_folder_that_is_not_there(self, project, capsys):
        assert "cannot be written" in refusal(capsys, 2, "init", "people.parquet", "--out", "no/domain.yaml")["message"]


class TestPlan:
    def test_both_accounts_for_three_sizes_and_nothing_is_touched(self, project, capsys):
        (project / "people.parquet").unlink()
        found = answer(capsys, "plan", "--feature", "age", "--epsilon", "0.5")["forecasts"]
        assert [forecast["rows"] for forecast in found] == [1000, 10_000, 100_000]
        assert [option["definition"] for option in found[0]["options"]] == ["pure", "zcdp"]
        assert not (project / "budget.db").exists()

    @pytest.mark.parametrize("explainer", commands())
    def test_every_command_can_be_planned_as_it_is_typed(self, project, capsys, explainer):
        edit(project / "domain.yaml", "  sex:", "  third: {type: numeric, low: 0, high: 1}\n  sex:")
        edit(project / "dpexplain.toml", 'name = "score"', 'name = "score"\nfeatures = ["age", "sex"]')
        typed = {
            "pdp": ["--all", "--no-rug"],
            "compare": ["--feature", "age", "--limit", "0.5"],
            "ale": ["--feature", "age", "--bins", "4"],
            "importance": ["--target", "third", "--repeats", "2"],
            "interactions": ["--kind", "total", "--top", "1"],
            "influence": ["--quantity", "group", "--group", "sex=Female"],
            "local": ["--row", "age=25", "--row", "sex=Male"],
            "clusters": ["--kmeans", "2", "--kmeans-epsilon", "1"],
            "performance": ["--target", "third", "--group", "sex"],
        }
        found = answer(
            capsys, "plan", "--explainer", explainer, *typed.get(explainer, []), "--epsilon", "1", "--n", "900"
        )
        (forecast,) = found["forecasts"]
        assert [option["definition"] for option in forecast["options"]][-1] == "zcdp"
        assert forecast["needs_delta"] is (explainer == "local")
        assert not (project / "budget.db").exists()

    def test_the_price_of_an_error(self, project, capsys):
        found = answer(capsys, "plan", "--feature", "age", "--max-error", "0.01", "--n", "20000", "--delta", "1e-8")
        for option in found["forecasts"][0]["options"]:
            assert option["error"] <= 0.01
        assert found["forecasts"][0]["options"][1]["delta"] == 1e-8
        assert run(["plan", "--pair", "age,sex", "--epsilon", "1"]) == 0
        assert "Nothing was read and nothing was spent." in capsys.readouterr().out

    def test_without_a_project(self, project, capsys):
        (project / "dpexplain.toml").unlink()
        free = ["--domain", "domain.yaml", "--output", "0,1", "--relation", "add-remove", "--n", "1000"]
        found = answer(capsys, "plan", "--feature", "sex", "--epsilon", "1", *free)
        assert found["forecasts"][0]["neighbours"]["relation"] == "add-remove"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--feature", "age"], "exactly one of --epsilon and --max-error"),
            (["--feature", "age", "--epsilon", "1", "--max-error", "1"], "exactly one"),
            (["--epsilon", "1"], "name what to explain"),
            (["--feature", "agee", "--epsilon", "1"], "unknown feature 'agee'"),
            (["--feature", "age", "--epsilon", "1", "--n", "0"], "n must be"),
            (["--feature", "age", "--epsilon", "x"], "--epsilon must be a number"),
            (["--feature", "age", "--max-error", "0"], "--max-error must be"),
            (["--feature", "age", "--epsilon", "1", "--delta", "2"], "delta must be below 1"),
            (["--feature", "age", "--epsilon", "1", "--output", "0"], "--output takes two numbers"),
            (["--feature", "age", "--epsilon", "1", "--output", "1,0"], "reversed"),
            (["--feature", "age", "--epsilon", "1", "--relation", "swap"], "unknown relation"),
            (["--feature", "age", "--epsilon", "1", "--domain", "none.yaml"], "cannot be read"),
            (["--feature", "age", "--max-error", "1e-12", "--n", "10"], "needs an epsilon above"),
        ],
    )
    def test_bad_input(self, project, capsys, arguments, message):
        assert message in refusal(capsys, 2, "plan", *arguments)["message"]


class TestBadInputSpendsNothing:
    @pytest.fixture
    def anchor(self, project, released):
        """A release, and then the head of the ledger: it must stay what it is."""
        ledger = open_ledger(f"sqlite:///{project}/budget.db")
        before = ledger.anchor()
        yield before
        assert ledger.anchor() == before

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--feature", "age", "--epsilon", "0"], "epsilon must be a positive"),
            (["--feature", "age", "--epsilon", "-1"], "epsilon must be a positive"),
            (["--feature", "age", "--epsilon", "nan"], "epsilon must be a positive"),
            (["--feature", "age", "--epsilon", "inf"], "epsilon must be a positive"),
            (["--feature", "age", "--epsilon", "1e999999999"], "epsilon must be a positive"),
            (["--feature", "age", "--epsilon", "much"], "--epsilon must be a number"),
            (["--feature", "age"], "exactly one of --epsilon and --rho"),
            (["--feature", "age", "--epsilon", "1", "--rho", "1"], "exactly one of --epsilon and --rho"),
            (["--feature", "age", "--rho", "0.1"], "counts pure epsilon"),
            (["--epsilon", "0.1"], "name what to explain"),
            (["--feature", "agee", "--epsilon", "0.1"], "unknown feature 'agee'"),
            (["--pair", "age,agee", "--epsilon", "0.1"], "unknown feature 'agee'"),
            (["--pair", "age", "--epsilon", "0.1"], "--pair takes two names"),
            (["--pair", "age,age", "--epsilon", "0.1"], "two different names"),
            (["--all", "--feature", "age", "--epsilon", "0.1"], "not both"),
            (["--feature", "age", "--epsilon", "0.1", "--grid", "1"], "at least 2 points"),
            (["--feature", "age", "--epsilon", "0.1", "--grid", "x"], "--grid"),
            (["--feature", "age", "--epsilon", "0.1", "--out", "domain.yaml"], "cannot be written to"),
            (["--feature", "age", "--epsilon", "0.1", "--project", "none.toml"], "no project file"),
            (["--feature", "age", "--epsilon", "0.1", "--analyst", ""], "analyst"),
            (["--feature", "age", "--epsilon", "0.1", "--nonsense"], "--nonsense"),
        ],
    )
    def test_a_bad_request(self, anchor, capsys, arguments, message):
        assert message in refusal(capsys, 2, "pdp", *arguments)["message"]

    @pytest.mark.parametrize("command", commands())
    def test_every_command_wants_a_price_and_knows_its_options(self, anchor, capsys, command):
        for typed, message in (
            ([], "exactly one of --epsilon and --rho|either --sketch"),
            (["--epsilon", "0"], "epsilon must be a positive"),
            (["--epsilon", "much"], "--epsilon must be a number"),
            (["--epsilon", "0.1", "--rho", "0.1"], "exactly one of --epsilon and --rho"),
            (["--epsilon", "0.1", "--nonsense"], "such option: --nonsense"),
        ):
            assert re.search(message, refusal(capsys, 2, command, *typed)["message"])

    @pytest.mark.parametrize(
        ("file", "old", "new", "kind"),
        [
            ("domain.yaml", "low: 20, high: 29", "low: 29, high: 20", "DomainError"),
            ("domain.yaml", "high: 29", "high: .inf", "DomainError"),
            ("domain.yaml", "[Female, Male]", "[]", "DomainError"),
            ("domain.yaml", "Ada", "null", "DomainError"),
            ("domain.yaml", "  sex", "  extra: {type: numeric, low: 0, high: 1}\n  sex", "TableError"),
            ("domain.yaml", "high: 29", "high: 30", "InputError"),  # the same version with another domain
            ("dpexplain.toml", "epsilon = 2.0", "epsilon = 3.0", "InputError"),
            ("dpexplain.toml", "epsilon = 2.0", "epsilon = 2.0\ndelta = 1e-6", "InputError"),
            ("dpexplain.toml", "replace-one", "add-remove", "InputError"),
            ("dpexplain.toml", "people.parquet", "none.parquet", "TableError"),
            ("dpexplain.toml", ":score", ":fails", "ModelError"),
            ("dpexplain.toml", ":score", ":wrong_shape", "ModelError"),
            ("dpexplain.toml", "[0.0, 1.0]", "[1.0, 0.0]", "InputError"),
            ("dpexplain.toml", "[0.0, 1.0]", "[5.0, 6.0]", "ModelError"),
            ("dpexplain.toml", '"score"', '"score"\nlabel = "x"', "ModelError"),
            ("dpexplain.toml", "sqlite:///budget.db", "mysql://budget", "InputError"),
            ("dpexplain.toml", "relation", 'unit = {column = "id", max_rows = 2}\nrelation', "TableError"),
        ],
    )  # fmt: skip
    def test_a_bad_project(self, project, anchor, capsys, file, old, new, kind):
        edit(project / file, old, new)
        error = refusal(capsys, 2, "pdp", "--feature", "age", "--epsilon", "0.1")
        assert error["kind"] == kind
        assert error["spent"] == "Nothing was spent."

    @pytest.mark.parametrize("rows", [0, 1])
    def test_too_few_rows(self, project, anchor, capsys, rows):
        pd.read_parquet(project / "people.parquet")[:rows].to_parquet(project / "people.parquet")
        assert refusal(capsys, 2, "pdp", "--feature", "age", "--epsilon", "0.1")["kind"] == "TableError"

    def test_more_than_is_left(self, project, capsys):
        answer(capsys, "pdp", "--feature", "sex", "--epsilon", "0.5")
        ledger = open_ledger(f"sqlite:///{project}/budget.db")
        before = ledger.anchor()
        error = refusal(capsys, 3, "pdp", "--feature", "age", "--epsilon", "1.6")
        assert ledger.anchor() == before
        assert error["kind"] == "BudgetError"
        assert "1.5" in error["message"]
        assert error["spent"] == "Nothing was spent."

    def test_a_bad_first_request_opens_no_account(self, project, capsys):
        refusal(capsys, 2, "pdp", "--feature", "agee", "--epsilon", "0.1")
        refusal(capsys, 2, "pdp", "--feature", "age", "--epsilon", "0.1", "--mechanism", "magic")
        edit(project / "dpexplain.toml", ":score", ":fails")
        refusal(capsys, 2, "pdp", "--feature", "age", "--epsilon", "0.1")
        assert not (project / "budget.db").exists()


class TestBudgetCommand:
    def test_an_analysts_own_limit(self, project, capsys):
        answer(capsys, "pdp", "--feature", "sex", "--epsilon", "0.5", "--analyst", "bob")
        limited = answer(capsys, "budget", "--limit", "bob=0.6")["accounts"][0]
        assert limited["analysts"] == [
            {
                "analyst": "bob",
                "spent": {"definition": "pure", "amount": "1/2"},
                "limit": {"definition": "pure", "amount": "3/5"},
            }
        ]
        error = refusal(capsys, 3, "pdp", "--feature", "age", "--epsilon", "0.2", "--analyst", "bob")
        assert "bob" in error["message"]
        assert run(["pdp", "--feature", "age", "--epsilon", "0.1", "--analyst", "bob"]) == 0
        assert "Left before: epsilon = 0.1" in capsys.readouterr().out
        assert run(["budget"]) == 0
        assert "analyst bob" in capsys.readouterr().out

    def test_an_anchor_notices_a_restored_backup(self, project, released, capsys):
        old = (project / "budget.db").read_bytes()
        answer(capsys, "pdp", "--feature", "age", "--epsilon", "0.5", "--out", "two")
        assert run(["budget", "--anchor"]) == 0
        anchor = capsys.readouterr().out.splitlines()[-1].strip()
        assert anchor == answer(capsys, "budget", "--check-anchor", anchor)["anchor"]
        for rest in project.glob("budget.db*"):
            rest.unlink()
        (project / "budget.db").write_bytes(old)
        assert run(["budget"]) == 0
        capsys.readouterr()
        assert refusal(capsys, 2, "budget", "--check-anchor", anchor)["kind"] == "LedgerCorrupt"
        assert refusal(capsys, 4, "verify", "two/age.json")["kind"] == "VerificationError"
        assert answer(capsys, "verify", "explanations/sex.json")["genuine"]

    def test_all_accounts_of_a_ledger(self, project, released, capsys, monkeypatch):
        edit(project / "dpexplain.toml", '"people"', '"others"\nseparate_from = ["people"]')
        answer(capsys, "pdp", "--feature", "sex", "--epsilon", "0.5")
        found = answer(capsys, "budget", "--ledger", "sqlite:///budget.db")
        assert [statement["account"] for statement in found["accounts"]] == ["others", "people"]
        assert [s["account"] for s in answer(capsys, "budget", "--account", "people")["accounts"]] == ["people"]
        assert (
            "whose limit"
            in refusal(capsys, 2, "budget", "--ledger", "sqlite:///budget.db", "--limit", "bob=1")["message"]
        )
        (project / "dpexplain.toml").unlink()
        monkeypatch.setenv("DPEXPLAIN_LEDGER", "sqlite:///budget.db")
        assert len(answer(capsys, "budget")["accounts"]) == 2

    def test_the_variable_moves_the_ledger(self, project, capsys, monkeypatch):
        monkeypatch.setenv("DPEXPLAIN_LEDGER", f"sqlite:///{project}/elsewhere.db")
        answer(capsys, "pdp", "--feature", "sex", "--epsilon", "0.5")
        assert (project / "elsewhere.db").exists()
        assert not (project / "budget.db").exists()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--ledger", "sqlite:///none.db"], "does not exist"),
            (["--ledger", "nonsense://x"], "SQLite or in PostgreSQL"),
            (["--account", "nobody"], "no account"),
            (["--check-anchor", "1:abc"], "not an anchor"),
            (["--limit", "bob"], "--limit takes"),
            (["--limit", "=1"], "--limit takes"),
            (["--limit", "bob=-1"], "positive"),
        ],
    )
    def test_bad_input(self, project, released, capsys, arguments, message):
        ledger = open_ledger(f"sqlite:///{project}/budget.db")
        before = ledger.anchor()
        assert message in refusal(capsys, 2, "budget", *arguments)["message"]
        assert ledger.anchor() == before

    def test_no_ledger_at_all(self, project, capsys):
        (project / "dpexplain.toml").unlink()
        assert "--ledger" in refusal(capsys, 2, "budget")["hint"]
        assert not (project / "budget.db").exists()

    def test_before_the_first_release(self, project, capsys):
        assert "does not exist" in refusal(capsys, 2, "budget")["message"]
        assert not (project / "budget.db").exists()

    def test_a_ledger_that_is_no_database(self, project, capsys):
        (project / "budget.db").write_text("not a database, but long enough to be taken for one" * 100)
        assert refusal(capsys, 2, "budget")["kind"] == "LedgerCorrupt"
        assert refusal(capsys, 2, "pdp", "--feature", "sex", "--epsilon", "0.5")["kind"] == "LedgerCorrupt"

    def test_a_changed_event(self, project, released, capsys):
        with sqlite3.connect(project / "budget.db") as connection:
            connection.execute("DROP TRIGGER events_no_update")
            connection.execute("UPDATE events SET body = replace(body, '1/2', '1/9') WHERE kind = 'reserved'")
        connection.close()
        assert refusal(capsys, 2, "budget")["kind"] == "LedgerCorrupt"


class TestVerifyCommand:
    @pytest.fixture
    def receipt(self, released) -> Path:
        return released / "explanations" / "sex.json"

    @pytest.mark.parametrize(
        "change",
        [
            lambda d: d["values"].__setitem__(0, d["values"][0] + 0.1),
            lambda d: d["released"]["parts"]["curve"]["values"].__setitem__(0, 7),
            lambda d: d["receipt"]["entry"].__setitem__("charged", {"definition": "pure", "amount": "1/100"}),
            lambda d: d["receipt"]["entry"].__setitem__("account", "others"),
            lambda d: d["receipt"]["budget"].__setitem__("epsilon", "1/10"),
            lambda d: d["receipt"]["budget"].__setitem__("delta", "1/1000000"),
            lambda d: d["receipt"]["neighbours"].__setitem__("unit", {"column": "person", "max_rows": 4}),
            lambda d: d["receipt"].__setitem__("label", "partial dependence of income"),
            lambda d: d["receipt"]["request"].__setitem__("public", []),
            lambda d: d["receipt"]["request"]["spec"]["output"].__setitem__("high", 2.0),
            lambda d: d["receipt"]["request"]["model"].__setitem__("version", "2"),
            lambda d: d.__setitem__("guarantee", "perfectly safe"),
        ],
    )
    def test_every_alteration_is_noticed(self, receipt, capsys, change):
        document = json.loads(receipt.read_text())
        change(document)
        # what a careful forger would do: let everything that follows from the rest agree again
        from dpexplain.methods.result import Result
        from dpexplain.receipts import Receipt

        try:
            forged = Result.kinds["curve"].rebuild(
                Receipt.from_json(document["receipt"]), document["released"], document["view"]
            )
            careful = json.loads(forged.to_json())
        except dpx.DpexplainError:
            careful = document
        for number, content in enumerate((document, careful)):
            if number == 1 and careful == json.loads(receipt.read_text()):
                continue  # nothing is left of the alteration
            altered = receipt.with_name(f"altered-{number}.json")
            altered.write_text(json.dumps(content))
            assert run(["verify", str(altered), "--json"]) == 4
            assert json.loads(capsys.readouterr().out)["error"]["kind"] == "VerificationError"

    @pytest.mark.parametrize("content", ["", "{}", "[]", "not json", '{"dpexplain": 99}'])
    def test_not_a_result(self, receipt, capsys, content):
        receipt.write_text(content)
        assert refusal(capsys, 2, "verify", str(receipt))["kind"] == "InputError"

    def test_no_file_or_another_ledger(self, project, receipt, capsys):
        assert refusal(capsys, 2, "verify", "none.json")["kind"] == "InputError"
        open_ledger(project / "other.db")
        error = refusal(capsys, 4, "verify", str(receipt), "--ledger", "sqlite:///other.db")
        assert "not in this ledger" in error["message"]


class TestErrorsInGeneral:
    def test_an_unexpected_error_shows_its_type_and_nothing_else(self, project, capsys, monkeypatch):
        def broken(*_args, **_options):
            raise ZeroDivisionError("age=23 of a person")

        monkeypatch.setattr("dpexplain.methods.planning.plan", broken)
        error = refusal(capsys, 70, "plan", "--feature", "age", "--epsilon", "1")
        assert error["message"] == "internal error (ZeroDivisionError)."
        assert "report" in error["hint"]
        assert "dpexplain budget" in error["spent"]
        assert "person" not in json.dumps(error)

    def test_interrupted(self, project, capsys, monkeypatch):
        def interrupted(*_args, **_options):
            raise KeyboardInterrupt

        monkeypatch.setattr("dpexplain.cli.methods.release", interrupted)
        assert run(["pdp", "--feature", "age", "--epsilon", "1"]) == 130
        assert "stays spent" in capsys.readouterr().err

    def test_a_full_disk_after_the_release(self, project, capsys, monkeypatch):
        def full(*_args):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as disk:  # undone by itself: the project's own patches stay
            disk.setattr("dpexplain.render.files.write_results", full)
            assert run(["pdp", "--feature", "sex", "--epsilon", "0.5", "--json"]) == 2
        error = json.loads(capsys.readouterr().out)["error"]
        assert "is spent, and released" in error["spent"]
        assert answer(capsys, "pdp", "--feature", "sex", "--epsilon", "0.5")["spent_now"] is False

    def test_an_unknown_command_and_no_command(self, capsys):
        assert "no such command" in refusal(capsys, 2, "explode")["message"].lower()
        assert run([]) == 0
        assert "dpexplain demo" in capsys.readouterr().out

    def test_help_of_every_command(self, capsys):
        for command in ("demo", "init", "plan", "pdp", "budget", "verify"):
            assert run([command, "--help"]) == 0
            text = capsys.readouterr().out
            assert "--json" in text
        run(["pdp", "--help"])
        assert "which runs your own code" in " ".join(capsys.readouterr().out.split())

    def test_no_row_and_no_path_of_a_traceback(self):
        assert app.application().pretty_exceptions_enable is False


class TestAsAProcess:
    def command(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        call = [sys.executable, "-W", "error", "-m", "dpexplain.cli", *arguments]
        return subprocess.run(
            call, capture_output=True, text=True, env={**os.environ, **variables}, check=False, timeout=900
        )

    def test_version_help_and_exit_codes(self, project):
        done = self.command("--version")
        assert (done.returncode, done.stdout.startswith("dpexplain ")) == (0, True)
        done = self.command("pdp", "--feature", "age", "--epsilon", "9")
        assert done.returncode == 3
        assert done.stderr.startswith("Error: ")
        assert done.stderr.rstrip().endswith("Nothing was spent.")

    def test_a_release_from_another_folder(self, project, tmp_path_factory):
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        os.chdir(elsewhere)
        done = self.command("pdp", "--project", str(project / "dpexplain.toml"), "--feature", "sex", "--epsilon", "0.5")
        assert (done.returncode, done.stderr) == (0, "")
        assert (elsewhere / "explanations" / "sex.json").exists()
        assert (project / "budget.db").exists()


class TestSecondBudgets:
    """A project that opens a second account for people who have one."""

    COMMAND = ("marginals", "--epsilon", "0.1")

    def test_the_same_file_is_refused_unless_the_project_says_why(self, project, capsys):
        answer(capsys, *self.COMMAND)
        edit(project / "dpexplain.toml", 'name = "people"', 'name = "people 2"')
        error = refusal(capsys, 2, *self.COMMAND)
        assert 'the files of account "people"' in error["message"]
        assert 'separate_from = ["people"] in [table]' in error["hint"]
        edit(project / "dpexplain.toml", 'name = "people 2"', 'name = "people 2"\nseparate_from = ["people"]')
        answer(capsys, *self.COMMAND)
        assert [a["account"] for a in answer(capsys, "budget", "--ledger", "budget.db")["accounts"]] == [
            "people",
            "people 2",
        ]

    def test_the_same_columns_are_warned_about_in_one_line(self, project, capsys):
        answer(capsys, *self.COMMAND)
        edit(project / "dpexplain.toml", 'name = "people"', 'name = "others"')
        (project / "people.parquet").rename(project / "others.parquet")
        edit(project / "dpexplain.toml", '"people.parquet"', '"others.parquet"')
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            assert run([*self.COMMAND, "--json"]) == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out)["spent_now"]
        assert shown.err.startswith('Warning: the new account "others" has the same columns as "people"')
        assert 'separate_from = ["people"] in [table].' in shown.err
        assert len(shown.err.splitlines()) == 1

    def test_other_warnings_are_shown_as_ever(self, monkeypatch):
        monkeypatch.setattr(app, "_run", lambda *_: warnings.warn("something else", UserWarning, stacklevel=1))
        with pytest.warns(UserWarning, match="something else"):
            run(["budget"])
