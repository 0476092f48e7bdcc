"""Docs are tested: examples run, links lead somewhere, every public name, error and command is mentioned."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import pytest

import dpexplain as dpx

matplotlib.use("Agg")
ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
ATTACKS = ("attacks", "audit")  # whose examples run thousands of releases
EXAMPLES = [
    pytest.param(
        block, id=f"{page.relative_to(ROOT)}-{number}", marks=[pytest.mark.long] if page.stem in ATTACKS else []
    )
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
]


def test_there_are_examples():
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("block", EXAMPLES)
def test_examples_run(block, tmp_path, monkeypatch, capsys):
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    exec(compile(block, "example", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out
    plt.close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), target


def test_every_public_name_is_in_the_docs():
    text = " ".join(page.read_text(encoding="utf-8") for page in PAGES)
    missing = [name for name in dpx.__all__ if name != "__version__" and not re.search(rf"\b{name}\b", text)]
    assert missing == []


def test_the_command_reference_is_what_the_commands_say():
    from dpexplain.cli.reference import reference

    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == reference(), (
        "run: python -m dpexplain.cli.reference"
    )
