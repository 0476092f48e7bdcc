"""The docs site builds with warnings as errors, and a link that leads nowhere is one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the docs site is built where the extra `docs` is installed (make audit does)")
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.long


def build(folder: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "repository"
    ignored = shutil.ignore_patterns(".venv", ".git", "site", "cache", "__pycache__", ".*_cache", ".hypothesis")
    ignored_here = lambda at, names: set() if Path(at).name == "docs" else ignored(at, names)  # noqa: E731  docs/site stays
    return Path(shutil.copytree(ROOT, folder, ignore=ignored_here))


def test_it_builds_without_a_warning(copy, tmp_path):
    done = build(copy, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    promise = (tmp_path / "privacy-promise" / "index.html").read_text(encoding="utf-8")
    assert "/blob/main/src/dpexplain/core/sensitivity.py" in promise
    assert 'href="../decisions/0032-renewal/"' in promise
    functions = (tmp_path / "reference" / "functions" / "index.html").read_text(encoding="utf-8")
    assert "partial_dependence" in functions
    assert "is the whole cost" in functions  # its docstring
    measured = (tmp_path / "benchmarks" / "posterior-pd" / "index.html").read_text(encoding="utf-8")
    assert "python -m bench posterior --part pd" in measured
    assert (tmp_path / "benchmarks" / "posterior-pd.png").exists()
    assert (tmp_path / "changelog" / "index.html").exists()


@pytest.mark.parametrize("link", ["[gone](../src/dpexplain/gone.py)", "[gone](gone.md)", "[gone](guide.md#gone)"])
def test_a_link_that_leads_nowhere_fails(copy, tmp_path, link):
    page = copy / "docs" / "dates.md"
    before = page.read_text(encoding="utf-8")
    page.write_text(f"{before}\n{link}\n", encoding="utf-8")
    done = build(copy, tmp_path)
    page.write_text(before, encoding="utf-8")
    assert done.returncode != 0
    assert "gone" in done.stdout + done.stderr
