"""The API reference: a page for each group of public names, from their signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel

import dpexplain as dpx

TYPES = re.compile(r"dpexplain(\.\w+)+\.(?=\w)|typing\.|pathlib\.|collections\.abc\.")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    index = [
        "# Reference",
        "",
        "Made from signatures and docstrings when this site is built.",
        "",
        "| page | names |",
        "|---|---|",
    ]
    for name, (title, lead, members) in groups().items():
        content = "\n\n".join([f"# {title}", lead, *(section(spelled, member) for spelled, member in members)])
        files.append(File.generated(config, f"reference/{name}.md", content=content + "\n"))
        names = ", ".join(f"`{spelled}`" for spelled, _ in members)
        index.append(f"| [{title}]({name}.md) | {names} |")
    files.append(File.generated(config, "reference/names.md", content="\n".join(index) + "\n"))
    return files


def groups() -> dict[str, tuple[str, str, list[tuple[str, Any]]]]:
    """For each page its title, what it begins with, and its names."""
    public = [(f"dpx.{name}", getattr(dpx, name)) for name in dpx.__all__ if name != "__version__"]
    functions = [(name, one) for name, one in public if inspect.isfunction(one)]
    classes = [(name, one) for name, one in public if inspect.isclass(one) and not issubclass(one, Exception)]
    tools = [*_of("audit"), *_of("design"), *_of("calculators")]
    return {
        "functions": ("Functions", "What releases, plans, reads and verifies.", functions),
        "declarations": ("Tables, domains, models", "What you declare before anything is released.", classes),
        "requests": ("Requests", "What a caller decides, frozen: for `dpx.plan`, `dpx.batch`, files.", _of("requests")),
        "results": ("Results", "What releases return. `dpx.from_json` reads them from files.", _of("results")),
        "errors": ("Errors", "Each says what is wrong, what to do, and whether budget was spent.", _of("errors")),
        "tools": ("Audit, design, calculators", "Tools that cost no budget.", tools),
    }


def _of(module: str) -> list[tuple[str, Any]]:
    """The public classes and functions of a module of ours."""
    home = getattr(dpx, module)
    found = [(name, getattr(home, name)) for name in getattr(home, "__all__", vars(home)) if not name.startswith("_")]
    ours = [(name, one) for name, one in found if str(getattr(one, "__module__", "")).startswith("dpexplain")]
    return [(f"dpx.{module}.{name}", one) for name, one in ours if inspect.isclass(one) or inspect.isfunction(one)]


# One name ------------------------------------------------------------------------------------------------------------


def section(name: str, member: Any) -> str:
    parts = [f"## `{name}`"]
    if inspect.isfunction(member):
        parts += [signature(name, member), prose(member)]
    elif issubclass(member, BaseModel):
        parts += [prose(member), fields(member)]
    else:
        if not issubclass(member, (Exception, Warning)):
            parts.append(signature(name, member))
        parts += [prose(member), methods(member)]
    return "\n\n".join(part for part in parts if part)


def signature(name: str, member: Any) -> str:
    try:
        found = inspect.signature(member)
    except (TypeError, ValueError):
        return ""
    kept = [p for p in found.parameters.values() if p.name != "self"]
    lines = [f"    {_asked(p)}," for p in kept]
    starred = next((i for i, p in enumerate(kept) if p.kind is p.KEYWORD_ONLY), None)
    if starred is not None:
        lines.insert(starred, "    *,")
    returns = found.return_annotation is not found.empty and not inspect.isclass(member)
    back = f" -> {_plain(found.return_annotation)}" if returns else ""
    inside = "\n" + "\n".join(lines) + "\n" if lines else ""
    return f"```text\n{name}({inside}){back}\n```"


def _asked(parameter: inspect.Parameter) -> str:
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = "" if parameter.annotation is parameter.empty else f": {_plain(parameter.annotation)}"
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{star}{parameter.name}{kind}{default}"


def _plain(annotation: Any) -> str:
    """An annotation without the modules that its names come from."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return TYPES.sub("", text)


def prose(member: Any) -> str:
    """A docstring as Markdown: aligned lists keep their columns."""
    if not member.__doc__:
        return ""
    return "\n\n".join(_paragraphs(inspect.cleandoc(member.__doc__)))


def _paragraphs(text: str) -> Iterable[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.splitlines()
        aligned = sum(bool(re.match(r"\s*\S+( \S+){0,3}\s{2,}\S", line)) for line in lines)
        if all(line.startswith("    ") for line in lines) or aligned >= 2 or (aligned and len(lines) == 1):
            yield "```text\n" + "\n".join(lines) + "\n```"
        else:
            yield paragraph


def fields(request: type[BaseModel]) -> str:
    lines = ["| option | type | default | |", "|---|---|---|---|"]
    for name, field in request.model_fields.items():
        kind = _plain(field.annotation).replace("|", "\\|")
        default = "needed" if field.is_required() else f"`{field.get_default(call_default_factory=True)!r}`"
        lines.append(f"| `{name}` | {kind} | {default} | {(field.description or '').replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


def methods(member: type) -> str:
    """Public methods and properties, those of base classes of ours included, with the first paragraph of each."""
    lines = []
    for name, found in inspect.getmembers(member, lambda one: callable(one) or isinstance(one, property)):
        home = next((base for base in member.__mro__ if name in vars(base)), object)
        said = inspect.getdoc(found)
        if name.startswith("_") or not home.__module__.startswith("dpexplain") or not said or inspect.isclass(found):
            continue
        words = " ".join(said.split("\n\n")[0].split()).replace("|", "\\|")
        shape = (
            ""
            if isinstance(found, property)
            else f"({', '.join(p for p in inspect.signature(found).parameters if p != 'self')})"
        )
        lines.append(f"| `.{name}{shape}` | {words} |")
    return "\n".join(["| | |", "|---|---|", *lines]) if lines else ""
