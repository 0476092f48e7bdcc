"""What the command line says about an error is said in its own words: options, commands and keys of files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import dpexplain
from dpexplain.cli.app import in_words, option_names
from dpexplain.project.file import KEYS

PACKAGE = Path(dpexplain.__file__).parent
# no command leads there
PYTHON_ONLY = {
    *("methods/evidence.py", "methods/posterior.py", "methods/readings.py", "data/queries.py"),
    *("methods/counterfactuals.py", "methods/individuals.py", "methods/swarms.py", "methods/reports/result.py"),
    *("calculators/sampling.py", "calculators/training.py", "design/dataflow.py", "models/arguments.py"),
    *(
        "methods/adaptive/release.py",
        "methods/generic_plot/release.py",
        "methods/quantiles/release.py",
        "methods/local_explanation/descent.py",
    ),
    *("methods/attributions.py", "methods/local_sketch/result.py", "methods/clusters/scores.py"),
    *("methods/performance/result.py", "service/client.py", "service/verbs.py", "service/remote.py"),
    *(f"audit/{path.name}" for path in (PACKAGE / "audit").rglob("*.py") if path.name != "project.py"),
}
# of requests and objects that commands always make right: arguments that no option sets
NO_COMMAND = (
    "dpx.plan(", "dpx.requests.", "dpx.Domain(", "dpx.Numeric(", "be a dpx.", "needs a dpx.Model", "model=dpx.Model(",
    "interval(", ".marginals of another", "marginals_share", "selection_share", "candidates=", "weights=", "labels are",
    "lambda", "pairs=", "items=", "columns=", "anchor", "accounting", "radius", "width", "float(",
    "repeats", "None for an open", "dpx.Query(sql",
)  # fmt: skip
FILE_KEYS = set().union(*KEYS.values()) | {"max_rows", "reviewed_by", "dpexplain_domain", "n_jobs"}
PYTHON = re.compile(r"dpx\.|\b[A-Za-z_]\w*\((?!s\))|(?<![\w.-])[a-z_]+=|\b(None|True|False|to_\w+)\b|lambda")


def text_of(node: ast.expr) -> str:
    """A text as it is written, with a stand-in for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "7" for part in node.values)
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return str(node.value) if isinstance(node, ast.Constant) else ""


def written() -> list[tuple[str, str]]:
    """(file, text) of every message and hint of an error, both arms of a choice."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            said = [keyword.value for keyword in node.keywords if keyword.arg == "hint"]
            if isinstance(node.func, ast.Name) and node.func.id.endswith("Error"):
                said += node.args[:1]
            for one in said:
                arms = [one.body, one.orelse] if isinstance(one, ast.IfExp) else [one]
                found += [(name, text) for arm in arms if (text := text_of(arm))]
    return found


WRITTEN = written()
REACHED = [
    (file, text) for file, text in WRITTEN if file not in PYTHON_ONLY and not any(part in text for part in NO_COMMAND)
]


def pythonisms(text: str) -> list[str]:
    text = re.sub(
        r"`[^`]*`|--(row|group|limit) \S+|NAME=VALUE|ANALYST=EPSILON|\?mode=ro|n_jobs=1|predict\(\)|1.0,? (and )?True",
        "",
        text,
    )
    return [m[0] for m in PYTHON.finditer(text)]


def test_all_of_them_are_found():
    assert len(WRITTEN) > 500
    assert len(REACHED) > 350


def test_no_error_of_a_command_speaks_python():
    wrong = [(file, said, pythonisms(said)) for file, text in REACHED if pythonisms(said := in_words(text, "pdp"))]
    assert wrong == []


def test_the_check_sees_python():
    for text in ("use epsilon=0.5", "dpx.marginals(table)", "write Budget(1, 1e-6)", "features=[1]", "say None"):
        assert pythonisms(text), text


def test_every_option_and_every_command_named_exists():
    names = option_names()
    known = set().union(*names.values()) | {"help"}
    for file, text in REACHED:
        said = in_words(text, "pdp")
        for option in re.findall(r"--([a-z][a-z-]*)", said):
            assert option.replace("-", "_") in known, (file, said)
        for command in re.findall(r"`dpexplain ([a-z-]+)", said):
            assert command in names, (file, said)


def test_words_with_underscores_are_keys_of_files():
    for file, text in REACHED:
        said = re.sub(r"'[^']*'|\"[^\"]*\"", "", in_words(text, "pdp"))
        left = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", said)) - FILE_KEYS
        assert not left, (file, said)


@pytest.mark.parametrize(
    ("python", "command", "said"),
    [
        ("use epsilon=, or epsilon=0.5", "pdp", "use --epsilon, or --epsilon 0.5"),
        ('use method="one-stage"', "clusters", "use --method one-stage"),
        ("open the account with Budget(epsilon=..., delta=1e-6)", "pdp",
         "open the account with delta = 1e-6 in [budget]"),
        ("delta=1e-6", "plan", "--delta 1e-6"),
        ('use relation="add-remove"', "pdp", 'use relation = "add-remove" in [table]'),
        ('use relation="add-remove"', "plan", "use --relation add-remove"),
        ("Model(..., label='yes'); its classes are: 'no', 'yes'", "pdp",
         "label = \"yes\" in [model]; its classes are: 'no', 'yes'"),
        ("dpx.marginals(table, epsilon=...) releases some", "importance", "`dpexplain marginals` releases some"),
        ("most_predictions=600 takes them", "influence", "--most-predictions 600 takes them"),
        ("use k=3 at most", "interactions", "use --top 3 at most"),
        ("--limit alice=0.5", "budget", "--limit alice=0.5"),
        ("--row takes NAME=VALUE; got 'epsilon=1'.", "local", "--row takes NAME=VALUE; got 'epsilon=1'."),
    ],
)  # fmt: skip
def test_translations(python, command, said):
    assert in_words(python, command) == said
