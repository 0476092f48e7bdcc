from __future__ import annotations

import shutil
import sys

import numpy as np
import pandas as pd
import pytest

from commands import DOMAIN, MODEL, PROJECT
from dpexplain.cli.app import run


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a small project; the working directory is that folder."""
    return fill(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def spent(tmp_path_factory):
    """A small project with one release, to be copied: most of what a test needs, made once."""
    with pytest.MonkeyPatch.context() as patch:
        folder = fill(tmp_path_factory.mktemp("spent"), patch)
        assert run(["pdp", "--feature", "sex", "--epsilon", "0.5"]) == 0
        sys.modules.pop("cli_test_model", None)
    return folder


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
