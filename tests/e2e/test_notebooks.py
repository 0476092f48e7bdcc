"""Every notebook runs from its first cell to its last, in an empty folder, and was committed with its outputs."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import matplotlib
import pytest

from dpexplain import accidents

matplotlib.use("Agg")
ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
CREDIT = ROOT.parent / "shared" / "data" / "german_credit.parquet"


def code_of(path: Path) -> list[dict]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_there_are_five():
    assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_was_committed_as_it_ran(path):
    cells = code_of(path)
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs
    assert [one for one in outputs if one["output_type"] == "error"] == []
    numbers = [cell["execution_count"] for cell in cells]
    assert numbers == list(range(1, len(cells) + 1))


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "real"),
    [(path, real) for path in NOTEBOOKS for real in ((False, True) if "group" in path.stem else (False,))],
)
def test_it_runs(path, real, tmp_path, monkeypatch, capsys):
    import matplotlib.pyplot as plt

    if real:
        if not CREDIT.exists():
            pytest.skip("the table of German credit is not here; the notebook ran on a generated one")
        shutil.copy(CREDIT, tmp_path)
    monkeypatch.chdir(tmp_path)
    for memory in ("_in_memory", "_relative"):  # each notebook is a program of its own
        monkeypatch.setattr(accidents, memory, {})
    names = {"__name__": "notebook"}
    for number, cell in enumerate(code_of(path)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile("".join(cell["source"]), f"{path.stem}, cell {number}", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.strip()
    if "group" in path.stem:
        assert ("German credit" in printed) == real
    plt.close("all")
