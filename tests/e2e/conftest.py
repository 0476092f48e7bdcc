from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from commands import DOMAIN, MODEL, PROJECT


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a small project; the working directory is that folder."""
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
