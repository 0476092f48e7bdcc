"""Results as files: a .json with the receipt and a .png for each, and a page. No file of another result is replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from dpexplain.core.canonical import digest
from dpexplain.methods.result import Result
from dpexplain.render.plots import save_png

MARK = "<!-- dpexplain results {} -->"


def write_results(results: Sequence[Result], folder: Path, *, pictures: bool = True) -> list[Path]:
    """Write each result; the paths of the .json files. Names come from the features, made safe for a file system.

    A result goes to its own file if it was written before, and else to a name that is free: age.json, age-2.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for result in results:
        name = re.sub(r"[^\w-]+", "_", result.file_name).strip("_") or result.kind
        if len(name.encode()) > 120:
            name = f"{name[:24]}-{digest(name)[:12]}"
        text = result.to_json()
        path, number = folder / f"{name}.json", 2
        while path in paths or not _free_or_own(path, text):
            path, number = folder / f"{name}-{number}.json", number + 1
        path.write_text(text, encoding="utf-8")
        if pictures:
            save_png(result, path.with_suffix(".png"))
        paths.append(path)
    return paths


def write_page(html: str, results: Sequence[Result], folder: Path, name: str = "index") -> Path:
    """Write a page of results; over an earlier one of the same results, beside one of others."""
    mark = MARK.format(digest([_identity(result.to_json()) for result in results]))
    path, number = folder / f"{name}.html", 2
    while path.exists() and mark not in path.read_text(encoding="utf-8", errors="replace"):
        path, number = folder / f"{name}-{number}.html", number + 1
    path.write_text(f"{html}{mark}\n", encoding="utf-8")
    return path


def _free_or_own(path: Path, text: str) -> bool:
    if not path.exists():
        return not any(path.with_suffix(suffix).exists() for suffix in (".png", ".html"))
    try:
        return _identity(path.read_text(encoding="utf-8")) == _identity(text)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _identity(text: str) -> str:
    """The release that a file of a result is about, and what was made of it: not the version that wrote it."""
    document = json.loads(text)
    return digest([document["kind"], document["receipt"]["entry"], json.dumps(document["view"], sort_keys=True)])
