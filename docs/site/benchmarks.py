"""A page for each measured file of bench/results: what it is, its command, machine, summary and picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.__main__ import NAMES
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
MOST_LINES = 150  # of a summary; the file has the rest


def on_files(files: Files, config: MkDocsConfig) -> Files:
    lines = ["# Benchmarks", "", "A page for each file in `bench/results/`, made when this site is built."]
    lines += ["What they add up to: [the evidence](../evidence.md).", "", "| measured | by | on |", "|---|---|---|"]
    for path in sorted(RESULTS.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if "about" not in document:
            continue
        content = page(path.stem, document, str(config.repo_url))
        files.append(File.generated(config, f"benchmarks/{path.stem}.md", content=content))
        about = document["about"]
        lines.append(f"| [{path.stem}]({path.stem}.md) | `{about['command']}` | {about['at'][:10]} |")
    files.append(File.generated(config, "benchmarks/files.md", content="\n".join(lines) + "\n"))
    return files


def page(name: str, document: dict[str, Any], repository: str) -> str:
    about = document["about"]
    what = NAMES.get(about["command"].split()[3], "")
    versions = ", ".join(f"{package} {number}" for package, number in about["versions"].items() if number)
    machine = ", ".join(str(value) for value in about["machine"].values())
    parts = [
        f"# {name}",
        f"{what[:1].upper()}{what[1:]}.",
        f"    {about['command']}",
        f"Measured on {about['at'][:10]} at commit `{about['commit']}`; Python {about['python']}, {versions}; "
        f"{machine} cores. Seeds: {about['seeds']}. "
        f"All figures: [the file]({repository}/blob/main/bench/results/{name}.json).",
    ]
    if (RESULTS / f"{name}.png").exists():
        parts.append(f"![Figures of {name}]({name}.png)")
    lines = table_of(document.get("summary", {}))
    if lines:
        parts.append("\n".join(["| summary | |", "|---|---|", *lines[:MOST_LINES]]))
    if len(lines) > MOST_LINES:
        parts.append(f"{len(lines) - MOST_LINES} more lines stand in the file.")
    return "\n\n".join(parts) + "\n"


def table_of(value: Any, way: tuple[str, ...] = ()) -> list[str]:
    """A line for each number of a summary, with the way to it."""
    if isinstance(value, dict):
        return [line for key, inner in value.items() for line in table_of(inner, (*way, str(key)))]
    if isinstance(value, list):
        text = ", ".join(map(str, value))
    else:
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return [f"| {_cell(' · '.join(way))} | {_cell(text[:300]) or '-'} |"]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
