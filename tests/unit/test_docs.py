"""Docs are tested: examples run, links lead somewhere, every public name, error and command is mentioned."""

from __future__ import annotations

import re
import warnings
from contextlib import nullcontext
from pathlib import Path

import matplotlib
import pytest
import yaml

import dpexplain as dpx
from inference_server import Behaviour, served

matplotlib.use("Agg")
ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
MODELS = ROOT / "docs" / "models.md"
MISLEADS = ("When it misleads", "Where it misleads", "What it cannot tell", "What it does not say")
WITHOUT = {"README.md", "audit.md", "local-benchmarks.md", "mechanisms.md", "training-guarantee.md"}  # explain nothing
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
    before, server = "", nullcontext("")
    if needs := re.match(r"# needs (.*)", block):  # goes on from the first example of its page, with these packages
        before = re.search(r"```python\n(.*?)```", MODELS.read_text(encoding="utf-8"), re.DOTALL)[1]
        if needs[1] == "a server":
            server = served(Behaviour(lambda columns: columns["age"] / 100, {"age": "INT64"}))
        else:
            for package in needs[1].split(", "):
                pytest.importorskip(package)
    with server as url, warnings.catch_warnings():
        if needs and needs[1] == "mlflow":
            warnings.simplefilter("ignore")  # it advises at length
        text = before + block.replace("http://localhost:8000/v2/models/risk", url)
        exec(compile(text, "example", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out
    plt.close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "methods").glob("*.md")), ids=lambda p: p.name)
def test_what_misleads_comes_before_the_proofs(page):
    titles = re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    misleads = next((i for i, title in enumerate(titles) if title in MISLEADS), None)
    assert misleads is not None or page.name in WITHOUT
    proofs = [
        i for i, title in enumerate(titles) if re.match("Guarantee|Statistic|Sensitivity|Release|How it works", title)
    ]
    assert misleads is None or misleads <= min([*proofs, 2])


def test_every_page_is_on_the_site():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = set(re.findall(r"[\w./-]+\.md", str(settings["nav"])))
    pages = {str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert {page for page in pages - listed if not page.startswith("decisions/0")} == set(), (
        "add it to nav in mkdocs.yml"
    )
    made = ("benchmarks/", "reference/", "notebooks/0", "changelog.md", "contributing.md", "security.md")
    assert {page for page in listed - pages if not page.startswith(made)} == set()


def test_every_public_name_is_in_the_docs():
    text = " ".join(page.read_text(encoding="utf-8") for page in PAGES)
    missing = [name for name in dpx.__all__ if name != "__version__" and not re.search(rf"\b{name}\b", text)]
    assert missing == []


def test_the_command_reference_is_what_the_commands_say():
    from dpexplain.cli.reference import reference

    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == reference(), (
        "run: python -m dpexplain.cli.reference"
    )
