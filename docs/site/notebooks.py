"""A page for each notebook of docs/notebooks: its text, code and outputs as they were committed."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
LINE, PRINTED = 88, 115  # characters: what fits on a page, and what the package prints at most; beyond is a sentence


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        parts = [f"[Download this notebook]({config.repo_url}/raw/main/docs/notebooks/{path.name})"]
        pictures: list[bytes] = []
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                parts.append(source)
            else:
                parts.append(f"```python\n{source}\n```")
                parts += [_shown(one, path.stem, pictures) for one in cell["outputs"]]
        parts[0], parts[1] = parts[1], parts[0]  # the title comes first
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content="\n\n".join(parts) + "\n"))
        for number, picture in enumerate(pictures):
            files.append(File.generated(config, f"notebooks/{path.stem}-{number}.png", content=picture))
    return files


def _shown(output: dict[str, Any], name: str, pictures: list[bytes]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        pictures.append(base64.b64decode("".join(data["image/png"])))
        return f"![What the lines above draw]({name}-{len(pictures) - 1}.png)"
    made = "".join(data.get("text/html", ""))
    if made and not made.startswith("<pre"):  # what is printed in colours is shown as its text
        return made
    text = "".join(output.get("text", data.get("text/plain", "")))
    longest = max(map(len, text.split("\n")))
    kind = "" if longest <= LINE else " wide" if longest <= PRINTED else " prose"
    return f'<pre class="output{kind}">{html.escape(text.rstrip())}</pre>' if text.strip() else ""
