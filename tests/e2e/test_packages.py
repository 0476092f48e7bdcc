"""Wheel and source distribution, built and installed as users get them, in every Python that the machine has.

`make audit` runs this. It needs a package index; where none answers, the tests are left out and say so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from pathlib import Path

import pytest

from commands import DOMAIN, MODEL, PROJECT

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
NO_INDEX = ("No matching distribution", "Could not fetch URL", "Temporary failure in name resolution")
pytestmark = pytest.mark.long

# what an installed package has to do: release, draw, write a page, verify; all without this repository
SMOKE = """
import json, sys
from pathlib import Path

import dpexplain as dpx
import pandas as pd

home = Path(dpx.__file__).parent
assert "site-packages" in home.parts, home
assert (home / "py.typed").exists() and (home / "__init__.pyi").exists()
pd.DataFrame({"age": [20 + i % 10 for i in range(3000)], "sex": ["Female", "Male"] * 1500}).to_parquet("people.parquet")

from dpexplain.cli.app import run

assert run(["plan", "--feature", "age", "--epsilon", "0.5"]) == 0
assert run(["pdp", "--feature", "age", "--epsilon", "0.5", "--out", "results"]) == 0
assert run(["verify", "results/age.json"]) == 0
assert run(["budget"]) == 0
assert "Differentially private" in Path("results/index.html").read_text(encoding="utf-8")
assert Path("results/age.png").read_bytes().startswith(b"\\x89PNG")
missing = [name for name in dpx.__all__ if not hasattr(dpx, name)]
assert not missing, missing
print("works in", sys.version.split()[0], dpx.__version__)
"""


def call(*command: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command that knows nothing of this repository: with it on the path, pip finds the package there."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHONPATH", "DPEXPLAIN"))}
    words = [str(part) for part in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder, env=clean)


def pip(*command: object) -> None:
    done = call(*command)
    if any(words in done.stderr for words in NO_INDEX):
        pytest.skip("no package index answers: packages were not installed")
    assert done.returncode == 0, done.stderr[-2000:]


@cache
def pythons() -> dict[str, Path]:
    """Interpreters by version: on the path, and those of pyenv."""
    found = {}
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in PYTHONS:
        for place in (f"python{version}", *sorted(home.glob(f"{version}.*/bin/python"))):
            try:
                said = call(place, "-c", "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])").stdout.strip()
            except OSError:
                continue
            if said == version:
                found[version] = Path(place)
                break
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with both files; the wheel is made from the source distribution."""
    pytest.importorskip("build")
    out = tmp_path_factory.mktemp("dist")
    pip(sys.executable, "-m", "build", "--outdir", out, ROOT)
    return out


def test_what_is_in_them(built):
    (wheel,), (packed,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        described = opened.read(next(name for name in names if name.endswith("METADATA"))).decode()
    source = ROOT / "src"
    files = [path for path in (source / "dpexplain").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {path.relative_to(source).as_posix() for path in files} <= names  # templates, styles and types too
    assert {"dpexplain/py.typed", "dpexplain/__init__.pyi"} <= names
    assert not [name for name in names if name.startswith(("tests", "bench", "docs"))]
    assert "Requires-Python: >=3.11" in described
    assert "# dpexplain" in described  # the README
    with tarfile.open(packed) as opened:
        assert any(name.endswith("/LICENSE") for name in opened.getnames())


def test_a_python_was_found():
    assert "{}.{}".format(*sys.version_info) in pythons()


@pytest.mark.parametrize("version", PYTHONS)
def test_it_works_where_it_is_installed(built, tmp_path, version):
    if version not in pythons():
        pytest.skip(f"this machine has no Python {version}; .github/workflows/test.yml tries it")
    venv = tmp_path / "venv"
    assert call(pythons()[version], "-m", "venv", venv).returncode == 0
    folder = venv / ("Scripts" if os.name == "nt" else "bin")
    (wheel,) = built.glob("*.whl")
    pip(folder / "python", "-m", "pip", "install", "--quiet", wheel)
    (tmp_path / "domain.yaml").write_text(DOMAIN)
    (tmp_path / "dpexplain.toml").write_text(PROJECT)
    (tmp_path / "cli_test_model.py").write_text(MODEL)
    (tmp_path / "smoke.py").write_text(SMOKE)
    strict = ("-W", "error::DeprecationWarning:dpexplain")
    done = call(folder / "python", *strict, "smoke.py", folder=tmp_path)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    assert f"works in {version}" in done.stdout
    helped = call(folder / "dpexplain", "--help", folder=tmp_path)
    assert helped.returncode == 0
    assert " pdp " in helped.stdout
