"""The table of who may import what, and the few rules that keep randomness and machines out of the files."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "dpexplain"

# what a person or a program uses the product by
PRODUCT = {
    *("errors", "core", "columns", "ledger", "engines", "data", "models", "maths", "receipts", "methods"),
    *("requests", "results", "verification", "render"),
}

# room -> rooms it may import from. Imports point one way; what stands inside a function counts too.
MAY_IMPORT = {
    "errors": set(),
    "core": {"errors"},
    "accidents": {"errors"},
    "ledger": {"core", "accidents", "errors"},
    "engines": {"core", "data"},  # what runs elsewhere, see LAZY
    "columns": {"core", "errors"},
    "receipts": {"core", "columns", "errors"},
    "calculators": {"core", "errors"},
    "maths": {"core", "columns", "data", "errors"},  # data: public randomness alone, see below
    "data": {"core", "columns", "ledger", "engines", "receipts", "maths", "errors"},
    "models": {"core", "columns", "data", "maths", "receipts", "errors"},
    "design": {"core", "errors", "render"},
    "methods": {"core", "columns", "data", "engines", "models", "maths", "receipts", "design", "errors", "render"},
    "requests": {"methods"},
    "results": {"methods"},
    "verification": {"core", "columns", "ledger", "methods", "models", "receipts", "errors"},
    "render": {"core", "columns", "methods", "maths", "receipts", "ledger", "design"},
    "project": PRODUCT,
    "demo": PRODUCT | {"project"},
    "audit": PRODUCT,
    "service": PRODUCT | {"project"},
    "cli": PRODUCT | {"project", "service", "demo", "audit"},
}
# allowed only inside a function: plotting is for whoever plots, attacks are for whoever attacks
LAZY = {
    ("engines", "core"),
    ("engines", "data"),
    ("methods", "render"),
    ("design", "render"),
    ("project", "render"),
    ("cli", "audit"),
    ("cli", "service"),  # and the packages of a server with it
}


@cache
def modules() -> list[tuple[Path, str, ast.AST]]:
    return list(_modules())


def _modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        room = parts[0] if parts[0] != "__init__" else "(package)"
        yield path, room, ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(tree: ast.AST) -> list[tuple[str, bool]]:
    return list(_imports(tree))


def _imports(tree: ast.AST):
    """(imported module or name in one, whether it stands inside a function), typing-only imports left out."""
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    typing_only = {
        id(n)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for n in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in inside
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written out in full"
            yield node.module, id(node) in inside
            for alias in node.names:
                yield f"{node.module}.{alias.name}", id(node) in inside


def test_imports_point_one_way():
    wrong = []
    for path, room, tree in modules():
        if room == "(package)":
            continue
        for name, lazy in imports(tree):
            if not name.startswith("dpexplain.") or name.split(".")[1] == room:
                continue
            other = name.split(".")[1]
            if other not in MAY_IMPORT[room] or ((room, other) in LAZY and not lazy):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def executed(name: str, names: set[str]) -> list[str]:
    """The modules that run when `name`, a module or something in one, is imported: its packages, then itself."""
    parts = name.split(".")
    return [above for end in range(1, len(parts) + 1) if (above := ".".join(parts[:end])) in names]


def circle(trees: dict[str, ast.AST]) -> list[str]:
    """Modules that need each other while they are imported, or nothing. A package may need its own modules."""
    names, needs = set(trees), {}
    for name, tree in trees.items():
        own = executed(name, names)
        ran = [executed(wanted, names) for wanted, lazy in imports(tree) if not lazy and wanted not in own]
        needs[name] = {module for chain in ran for module in chain if module not in own or module == chain[-1]}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_modules_do_not_import_in_circles():
    """Names are imported when somebody asks for them, so every module may be the first."""
    trees = {}
    for path, _, tree in modules():
        name = ".".join(("dpexplain", *path.relative_to(PACKAGE).with_suffix("").parts))
        trees[name.removesuffix(".__init__")] = tree
    assert circle(trees) == []
    planted = {"dpexplain.core.budget": ast.parse("from dpexplain.core.account import Ask")}
    assert set(circle(trees | planted)) == {"dpexplain.core.budget", "dpexplain.core.account"}
    through_package = {"dpexplain.core.budget": ast.parse("from dpexplain.ledger import Ledger")}
    assert {"dpexplain.ledger", "dpexplain.core.budget"} <= set(circle(trees | through_package))


def test_what_shows_results_never_imports_the_data_layer():
    """Pages and results see released values and specs; mathematics sees numbers, and public draws."""
    for path, room, tree in modules():
        names = {name for name, _ in imports(tree) if name.startswith("dpexplain.data")}
        if room == "render" or path.name == "result.py":
            assert not names, path
        if room == "maths":
            assert all(name.startswith("dpexplain.data.public_random") for name in names), path


def test_nothing_in_the_product_imports_the_audit():
    assert [room for room, rooms in MAY_IMPORT.items() if "audit" in rooms] == ["cli"]
    code = (
        "import sys, dpexplain as dpx; [getattr(dpx, name) for name in dpx.__all__ if name != 'audit']; "
        "print([m for m in sys.modules if 'dpexplain.audit' in m])"
    )
    known = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert known.stdout.strip() == "[]", "dpx.audit is imported by whoever asks for it"


def test_randomness_is_made_in_two_places_only():
    allowed = {"core/rng.py", "data/public_random.py"}
    wrong = []
    for path, _, tree in modules():
        if path.relative_to(PACKAGE).as_posix() in allowed:
            continue
        text = path.read_text(encoding="utf-8")
        names = {name for name, _ in imports(tree)}
        if names & {"random", "secrets", "numpy.random"}:
            wrong.append(path.name)
        if path.name != "samplers.py" and any(name.split(".")[0] == "opendp" for name in names):
            wrong.append(path.name)
        if re.search(r"np\.random|numpy\.random|os\.urandom|default_rng", text):
            wrong.append(path.name)
    assert wrong == []


def test_only_the_door_calls_a_sampler():
    callers = [
        path.relative_to(PACKAGE).as_posix()
        for path, _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("perturb", "choose", "combine")
    ]
    assert set(callers) == {"core/release.py"}


def test_the_core_knows_no_pandas_no_plots_no_models():
    for path, room, tree in modules():
        if room == "core":
            heavy = {name.split(".")[0] for name, _ in imports(tree)} & {
                "pandas",
                "pyarrow",
                "matplotlib",
                "sklearn",
                "sqlalchemy",
            }
            assert not heavy, path


def code_lines(path: Path) -> int:
    """Lines with code on them: no blank lines, imports, comments or docstrings, which hold the proofs."""
    text = path.read_text(encoding="utf-8")
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {n for t in tokens if t.type not in silent for n in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
        if isinstance(node, ast.Import | ast.ImportFrom):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def test_the_trusted_part_stays_small():
    lines = sum(code_lines(path) for room in ("core", "ledger") for path in (PACKAGE / room).glob("*.py"))
    assert lines < 2000, "core/ and ledger/ should be readable in an afternoon"


def test_nothing_is_left_to_do_in_the_product():
    for path, _, _ in modules():
        assert not re.search(r"\b(TODO|FIXME|XXX)\b|NotImplementedError", path.read_text(encoding="utf-8")), path


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a git checkout knows which files are tracked")
def test_no_path_of_a_machine_and_no_data_file_is_tracked():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    places = [str(ROOT.parent) + "/", str(Path.home()) + "/"]
    for name in files:
        assert not name.endswith((".parquet", ".pkl", ".joblib", ".db")), name
        path = ROOT / name
        if path.suffix in (".png",) or not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        assert not any(place in text for place in places if len(place) > 2), name
