from __future__ import annotations

import shutil
import sys
from contextlib import nullcontext
from functools import cache

import numpy as np
import pandas as pd
import pytest
import typer

from commands import DOMAIN, MODEL, PROJECT, edit
from dpexplain.cli.app import run
from pictures import unpainted

ZCDP = "epsilon = 8.0\ndelta = 1e-6"


@pytest.fixture(autouse=True, scope="module")
def quick_pictures(request):
    """What a command writes is asked here, not how it looks; the demo and commands in processes draw as users do."""
    with nullcontext() if request.module.__name__.endswith("test_demo") else unpainted():
        yield


@pytest.fixture(autouse=True, scope="session")
def one_parser():
    """The parser of a command line is made once for each list of methods, not for every command as in a process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a small project; the working directory is that folder."""
    return fill(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def spent(tmp_path_factory):
    """A small project with one release, to be copied: most of what a test needs, made once."""
    return after(tmp_path_factory, "pdp", "--feature", "sex", "--epsilon", "0.5")


def after(tmp_path_factory, *command, budget="epsilon = 2.0"):
    """A folder with a small project in which this command has run."""
    with pytest.MonkeyPatch.context() as patch, unpainted():
        folder = fill(tmp_path_factory.mktemp("spent"), patch)
        edit(folder / "dpexplain.toml", "epsilon = 2.0", budget)
        assert run(list(command)) == 0
        sys.modules.pop("cli_test_model", None)
    return folder


@pytest.fixture(scope="session")
def spent_on_a_sketch(tmp_path_factory):
    return after(tmp_path_factory, "sketch", "--epsilon", "4", budget=ZCDP)


@pytest.fixture
def released(project, spent):
    """`project` after one release."""
    return shutil.copytree(spent, project, dirs_exist_ok=True)


def fill(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.integers(20, 30, 3000), "sex": rng.choice(["Female", "Male"], 3000)})
    rows.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "domain.yaml").write_text(DOMAIN)
    (tmp_path / "dpexplain.toml").write_text(PROJECT)
    (tmp_path / "cli_test_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPEXPLAIN_LEDGER", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "cli_test_model", raising=False)
    return tmp_path
