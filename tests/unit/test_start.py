"""Quick to start: what is not needed yet is not imported. Looked up in `sys.modules` of a new process, never timed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import dpexplain as dpx
from dpexplain.cli.app import commands

HEAVY = {
    *("numpy", "pandas", "scipy", "sklearn", "pyarrow", "matplotlib", "opendp", "numba", "sqlalchemy", "psycopg"),
    *("joblib", "statsmodels", "shap", "lime", "yaml", "jinja2", "rich", "typer"),
}


def heavy_after(code: str) -> set[str]:
    """The heavy packages that a new process has imported after running this."""
    command = [sys.executable, "-c", f"{code}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in json.loads(done.stdout.splitlines()[-1])} & HEAVY


def test_import_dpexplain_imports_nothing_heavy():
    assert heavy_after("import dpexplain") == set()
    assert {"numpy", "pandas"} <= heavy_after("import dpexplain; dpexplain.PrivateTable"), "or the test is blind"


def test_help_imports_only_what_parses():
    names = list(commands())
    assert "pdp" in names
    asked = [["--help"], *([name, "--help"] for name in names)]
    helps = f"from dpexplain.cli.app import run\nassert [run(asked) for asked in {asked}] == [0] * {len(asked)}"
    assert heavy_after(helps) == {"typer"}


def test_naming_the_requests_imports_no_method():
    code = "import dpexplain.methods.registry as r; from dpexplain import requests; assert r.methods()"
    assert heavy_after(code) == set()


def test_other_names_are_modules_or_missing():
    assert dpx.methods is sys.modules["dpexplain.methods"]
    with pytest.raises(AttributeError, match="module 'dpexplain' has no attribute 'partial_dependance'"):
        _ = dpx.partial_dependance


def test_a_package_that_is_missing_is_not_a_missing_name(monkeypatch):
    monkeypatch.delitem(vars(dpx), "calculators", raising=False)
    for name in ("", ".training", ".sampling"):
        monkeypatch.delitem(sys.modules, f"dpexplain.calculators{name}", raising=False)
    monkeypatch.setitem(sys.modules, "math", None)
    with pytest.raises(ModuleNotFoundError, match="math"):
        _ = dpx.calculators
