"""The project file: strict about keys, relative to itself, and asked only for what a command needs."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.data import PublicRandom
from dpexplain.project.file import LEDGER_VARIABLE, Project, ledger_url
from inference_server import Behaviour, served

FULL = """
[table]
path = "people.parquet"
domain = "domain.yaml"
name = "people"
version = "2026-11"
relation = "replace-one"

[budget]
epsilon = 2.0
delta = 1e-6
ledger = "sqlite:///budget.db"

[model]
path = "model.pkl"
output = [0.0, 1.0]
name = "score"
version = "1"
"""
AGES = dpx.Domain({"age": dpx.Numeric(20, 29, integer=True)})


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv(LEDGER_VARIABLE, raising=False)


def project(folder: Path, text: str = FULL) -> Project:
    path = folder / "dpexplain.toml"
    path.write_text(text, encoding="utf-8")
    return Project.load(path)


def test_everything_is_read(tmp_path):
    found = project(tmp_path)
    assert found.name == "people"
    assert found.output == (0.0, 1.0)
    assert found.budget() == dpx.Budget(2.0, 1e-6)
    assert found.ledger() == f"sqlite:///{tmp_path}/budget.db"
    assert found.neighbours.describe() == "one row replaced by other values"


def test_a_unit(tmp_path):
    text = FULL.replace('relation = "replace-one"', 'relation = "add-remove"\nunit = {column = "id", max_rows = 4}')
    assert project(tmp_path, text).neighbours.unit == dpx.Unit("id", 4)


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("[table]", "[tabel]", "unknown section 'tabel'", "did you mean table"),
        ("epsilon", "epsilom", "unknown key 'epsilom'", "did you mean epsilon"),
        ("version = \"1\"", "zzz = 1\nversion = \"1\"", "unknown key 'zzz'", "it may have"),
        ("[table]", "table = 1\n[tabl]", "unknown section|must be a section", ""),
        ("epsilon = 2.0", "epsilon = ", "not valid TOML.*line", "quotes"),
    ],
)  # fmt: skip
def test_a_typo_is_never_silent(tmp_path, old, new, message, hint):
    with pytest.raises(dpx.InputError, match=message) as caught:
        project(tmp_path, FULL.replace(old, new))
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("old", "new", "ask", "message"),
    [
        ('name = "people"', "", lambda p: p.name, "has no name"),
        ('name = "people"', "name = 3", lambda p: p.name, "wrong value"),
        ('name = "people"', 'name = ""', lambda p: p.name, "wrong value"),
        ("epsilon = 2.0", 'epsilon = "???"', lambda p: p.budget(), r"epsilon is still \?\?\?"),
        ("epsilon = 2.0", 'epsilon = "2"', lambda p: p.budget(), "wrong value"),
        ("epsilon = 2.0", "epsilon = true", lambda p: p.budget(), "wrong value"),
        ("epsilon = 2.0", "epsilon = nan", lambda p: p.budget(), "positive, finite"),
        ("epsilon = 2.0", "epsilon = -1", lambda p: p.budget(), "positive, finite"),
        ("delta = 1e-6", "delta = 2", lambda p: p.budget(), "below 1"),
        ("replace-one", "replace", lambda p: p.neighbours, "unknown relation"),
        ('relation = "replace-one"', 'relation = "add-remove"\nunit = {colum = 1}', lambda p: p.neighbours, "unit"),
        ('relation = "replace-one"', 'relation = "add-remove"\nunit = {column = "a", max_rows = 0}',
         lambda p: p.neighbours, "max_rows"),
        ('version = "2026-11"', 'version = "1"\nseparate_from = [7]', lambda p: p.table(None), "separate_from has"),
        ('version = "2026-11"', 'version = "1"\nseparate_from = "a"', lambda p: p.table(None), "separate_from has"),
        ("[0.0, 1.0]", "[0.0]", lambda p: p.output, "is a pair"),
        ("[0.0, 1.0]", '"???"', lambda p: p.output, r"still \?\?\?"),
        ("sqlite:///budget.db", "sqlite:///:memory:", lambda p: p.ledger(), "must not be forgotten"),
        ("sqlite:///budget.db", "sqlite:///", lambda p: p.ledger(), "must not be forgotten"),
        ('path = "model.pkl"', "", lambda p: p.model(), "either path, url or import"),
        ('path = "model.pkl"', 'path = "model.pkl"\nimport = "a:b"', lambda p: p.model(), "either path, url or import"),
        ('path = "model.pkl"', 'import = "a"', lambda p: p.model(), "names no object"),
        ('path = "model.pkl"', 'import = "no_such_module_here:b"', lambda p: p.model(), "cannot be imported"),
        ("", "", lambda p: p.model(), "no model file"),
        ('name = "score"\nversion = "1"', 'name = "score"', lambda p: p.model(), "has no version"),
    ],
)  # fmt: skip
def test_a_value_is_checked_when_it_is_needed(tmp_path, old, new, ask, message):
    found = project(tmp_path, FULL.replace(old, new) if old else FULL)
    with pytest.raises(dpx.InputError, match=message):
        ask(found)


def test_no_file(tmp_path):
    with pytest.raises(dpx.InputError, match="no project file") as caught:
        Project.load(tmp_path / "dpexplain.toml")
    assert "dpexplain init" in caught.value.hint
    with pytest.raises(dpx.InputError, match="cannot be read"):
        Project.load(tmp_path)


class TestLedger:
    def test_the_variable_goes_first_and_is_relative_to_where_we_are(self, tmp_path, monkeypatch):
        monkeypatch.setenv(LEDGER_VARIABLE, "sqlite:///other.db")
        monkeypatch.chdir(tmp_path)
        (tmp_path / "deeper").mkdir()
        assert project(tmp_path / "deeper").ledger() == f"sqlite:///{tmp_path}/other.db"

    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("sqlite:///a/b.db", "sqlite:////base/a/b.db"),
            ("sqlite:////absolute/b.db", "sqlite:////absolute/b.db"),
            ("sqlite:///b.db?mode=ro", "sqlite:////base/b.db?mode=ro"),
            ("b.db", "sqlite:////base/b.db"),
            ("postgresql://me@host/db", "postgresql://me@host/db"),
        ],
    )
    def test_relative_paths(self, url, expected):
        assert ledger_url(url, Path("/base")) == expected


class TestModel:
    @pytest.mark.parametrize("content", [pickle.dumps(len), b"", b"no pickle"])
    def test_a_pickle_is_refused_with_the_safe_ways(self, tmp_path, content):
        (tmp_path / "model.pkl").write_bytes(content)
        with pytest.raises(dpx.errors.ModelError, match="pickle") as error:
            project(tmp_path).model()
        assert "skops" in error.value.hint
        assert "import =" in error.value.hint

    def test_a_file_with_options(self, tmp_path):
        from sklearn.linear_model import LinearRegression

        skops = pytest.importorskip("skops.io")
        skops.dump(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]), tmp_path / "model.skops")
        text = FULL.replace("model.pkl", "model.skops") + "options = {trusted = []}\nfeatures = ['a']\n"
        found = project(tmp_path, text).model()
        assert (found.name, found.version, found.as_array) == ("score", "1", True)
        assert len(found.file_digest) == 64
        assert project(tmp_path, text).model_at_hand() is not None
        with pytest.raises(dpx.errors.ModelError, match="has no option 'trustd'") as error:
            project(tmp_path, text.replace("trusted", "trustd")).model()
        assert "did you mean trusted" in error.value.hint

    def test_an_onnx_file_with_classes(self, tmp_path):
        from sklearn.linear_model import LogisticRegression

        pytest.importorskip("onnxruntime")
        skl2onnx = pytest.importorskip("skl2onnx")
        ages = np.arange(20.0, 30.0, dtype=np.float32)[:, None]
        fitted = LogisticRegression().fit(ages, np.where(ages[:, 0] > 24, "sick", "well") == "sick")
        made = skl2onnx.to_onnx(fitted, ages[:1], options={"zipmap": False})
        (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
        text = FULL.replace("model.pkl", "model.onnx") + 'classes = ["well", "sick"]\nfeatures = ["age"]\n'
        for label, column in (("sick", 1), ("well", 0)):
            found = project(tmp_path, f'{text}label = "{label}"\n').model()
            predictor = found.checked(AGES)
            rows = PublicRandom(1).rows(AGES, 100)
            ages = rows["age"].astype(np.float32)[:, None]
            answers = predictor.predict_at(predictor.inputs(rows), {})
            np.testing.assert_allclose(answers, fitted.predict_proba(ages)[:, column], atol=1e-5)
        with pytest.raises(dpx.errors.ModelError, match="'ill'"):
            project(tmp_path, f'{text}label = "ill"\n').model().checked(AGES)

    def test_a_model_server(self, tmp_path):
        behaviour = Behaviour(lambda columns: columns["age"] / 100, {"age": "INT64"})
        with served(behaviour) as url:
            text = FULL.replace('path = "model.pkl"', f'url = "{url}"\nfeatures = ["age"]')
            found = project(tmp_path, text + "options = {timeout = 5.0, connections = 2}\n")
            assert found.model_at_hand() is not None
            predictor = found.model().checked(AGES)
            rows = PublicRandom(1).rows(AGES, 100)
            assert predictor.predict_at(predictor.inputs(rows), {}).tolist() == (rows["age"] / 100).tolist()
        assert sum(behaviour.requests) >= 100
        with pytest.raises(dpx.InputError, match="either path, url or import"):
            project(tmp_path, text.replace("url =", 'path = "model.onnx"\nurl =')).model()
        with pytest.raises(dpx.errors.ModelError, match="no address of a model"):
            project(tmp_path, text.replace(url, "http://127.0.0.1/risk")).model()

    def test_a_transform_is_imported(self, tmp_path, monkeypatch):
        monkeypatch.setattr("sys.path", list(sys.path))
        (tmp_path / "with_transform.py").write_text(
            "def half(rows):\n    return rows / 2\n\n\ndef score(rows):\n    return rows['a'].to_numpy()\n"
        )
        text = FULL.replace('path = "model.pkl"', 'import = "with_transform:score"\ntransform = "with_transform:half"')
        domain = dpx.Domain({"a": dpx.Numeric(0, 2)})
        predictor = project(tmp_path, text).model().checked(domain)
        rows = dpx.Model(lambda rows: rows["a"].to_numpy(), output=(0, 1)).checked(domain)
        assert (predictor.answers * 2 == rows.answers).all()

    def test_an_import_beside_the_project_file(self, tmp_path, monkeypatch):
        monkeypatch.setattr("sys.path", ["/nowhere", *sys.path])
        (tmp_path / "beside_project.py").write_text("class Models:\n    def score(rows):\n        return rows\n")
        text = FULL.replace('path = "model.pkl"', 'import = "beside_project:Models.score"')
        assert project(tmp_path, text).model().name == "score"

    def test_an_import_that_fails_is_told_without_its_message(self, tmp_path, monkeypatch):
        monkeypatch.setattr("sys.path", list(sys.path))
        (tmp_path / "fails_on_import.py").write_text("raise ValueError('secret row')\n")
        text = FULL.replace('path = "model.pkl"', 'import = "fails_on_import:score"')
        with pytest.raises(dpx.errors.ModelError, match="ValueError") as caught:
            project(tmp_path, text).model()
        assert "secret" not in str(caught.value)
        assert caught.value.__suppress_context__
