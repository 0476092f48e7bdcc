"""Links of the docs as they work on GitHub, made to work on the site too.

Pages of the site are found by mkdocs. Everything else in the repository (source files, results, tests) becomes a link
to the repository; a link to a file that does not exist is left alone, and `mkdocs build --strict` fails on it. A few
files at the root are pages of the site: ROOT_PAGES.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
ROOT_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
RESULTS = "bench/results"
LINK = re.compile(r"(?P<before>!?\[[^\]]*\]\()(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?P<after>[^)]*\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, place in ROOT_PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8")))
    for picture in sorted((ROOT / RESULTS).glob("*.png")):
        files.append(File.generated(config, f"benchmarks/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return rewritten(markdown, page.file.src_uri, {file.src_uri for file in files}, str(config.repo_url))


def rewritten(markdown: str, place: str, pages: set[str], repository: str) -> str:
    """Markdown of the page at `place` (in docs/) with links as the site needs them; blocks of code stay as they are."""
    at_root = {there: source for source, there in ROOT_PAGES.items()}
    folder = posixpath.dirname(at_root.get(place, f"docs/{place}"))

    def link(match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        if re.match(r"[a-z]+:", target):
            return match[0]
        file = posixpath.normpath(posixpath.join(folder, target))
        there = _on_site(file, pages)
        if there is not None:
            target = posixpath.relpath(there, posixpath.dirname(place) or ".")
        elif (ROOT / file).exists():
            kind = "tree" if (ROOT / file).is_dir() else "blob"
            target = f"{repository.rstrip('/')}/{kind}/main/{file}"
        return f"{match['before']}{target}{anchor}{match['after']}"

    parts = re.split(r"(^```.*?^```)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def _on_site(file: str, pages: set[str]) -> str | None:
    """The page or picture that a file of the repository is on the site."""
    name = posixpath.basename(file)
    if file.endswith(".ipynb"):  # a notebook is a page; the file itself is not on the site
        file = file.removesuffix(".ipynb") + ".md"
    candidates: list[Any] = [ROOT_PAGES.get(file), file.removeprefix("docs/") if file.startswith("docs/") else None]
    if file == "README.md":
        candidates.append("index.md")
    if posixpath.dirname(file) == RESULTS:
        candidates.append(
            f"benchmarks/{name.removesuffix('.json')}.md" if name.endswith(".json") else f"benchmarks/{name}"
        )
    return next((one for one in candidates if one in pages), None)
