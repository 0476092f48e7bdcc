"""Errors in the language of the command line.

Errors are raised far below it and speak Python: `epsilon=0.5`, `dpx.Budget(...)`. Here, and nowhere else, they are
translated: an argument becomes an option, or a key of the project file or of the domain file.
"""

from __future__ import annotations

import re
from collections.abc import Collection

VALUE = r"""("[^"]*"|'[^']*'|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|-?\w[\w.+-]*\w|\w|\.\.\.)?"""
ARGUMENT = re.compile(rf"""(?<![\w'"=-])([a-z_]+)={VALUE}""")
SNAKE = re.compile(r"""(?<![\w'"=-])([a-z]+(?:_[a-z]+)+)(?![\w=])""")
PROJECT_KEYS = {
    **dict.fromkeys(("relation", "row_id", "rows_hint", "separate_from", "unit", "processes"), "table"),
    **dict.fromkeys(("delta", "ledger"), "budget"),
    **dict.fromkeys(("output", "label", "name", "version", "thread_safe", "block", "classes", "options"), "model"),
    "labels": "clustering",
}
# arguments whose option has another name or takes something else
OTHER_OPTIONS = {
    "features": "--feature NAME",
    "row": "--row NAME=VALUE",
    "group": "--group NAME=VALUE",
    "groups": "--group NAME",
    "marginals": "--marginals FILE",
    "performance": "--performance FILE",
    "stand_in": "--stand-in FILE",
    "sections": "--section NAME",
    "k": "--top {}",
}
PHRASES: tuple[tuple[str, str], ...] = (
    (r"((budget=)?dpx\.)?Budget\([^)]*\)", "delta = 1e-6 in [budget]"),
    (r", or positive=\.\.\. for permutation importance", ""),
    (r"(dpx\.)?Model\((\.\.\., )?features=(\[[^]]*\])\)", r"features = \3 in [model]"),
    (r"(dpx\.)?Model\((\.\.\., )?([^)]*)\)", r"\3"),
    (r"dpx\.marginals(\([^)]*\))?", "`dpexplain marginals`"),
    (r"dpx\.performance(\([^)]*\))?( or dpx\.performance\([^)]*\))?", "`dpexplain performance`"),
    (r"dpx\.stand_in(\([^)]*\))?", "`dpexplain stand-in`"),
    (r"dpx\.plan\b(?!\()", "`dpexplain plan`"),
    (r"by another name, ", "by another name in [table], with "),
    (r"dpx\.transparency_report", "`dpexplain transparency --rows FILE`"),
    (r"dpx\.Categorical", "categorical"),
    (r" \(in a project file under \[table\]\)", ""),
    (r"missing=(\.\.\.|\S+?)(?=[.,;]?(\s|$))", r"missing: \1 in the domain file"),
    (
        r"; or load a file that you made yourself.*",
        '; or load a file that you made yourself in a module of yours: import = "package.module:object" in [model]',
    ),
    (r", for example pandas\.read_csv\([^)]*\)", ""),
    (r": frame\[.*", " in the file"),
    (r"a file written by to_json", "a .json file that a command wrote"),
    (r"LocalSketch\.save", "`dpexplain sketch`"),
    (r'say what the local model passes through: anchor="middle"', "give a record that the model can answer"),
)


def spoken(text: str, known: Collection[str], own: Collection[str] = ()) -> str:
    """A text of an error as a person at the command line would put it.

    known   the names of all options, as Python spells them; `own` are those of the command that failed
    """

    def option(name: str, value: str = "") -> str:
        return f"--{name.replace('_', '-')} {value.strip(chr(34) + chr(39))}".rstrip()

    def argument(match: re.Match[str]) -> str:
        name, value = match[1], match[2] or ""
        if name in OTHER_OPTIONS:
            return OTHER_OPTIONS[name].format(value)
        if name in own or (name in known and name not in PROJECT_KEYS):
            return option(name, value)
        if name not in PROJECT_KEYS:
            return match[0]
        written = {"True": "true", "False": "false"}.get(value, value).replace("'", '"')
        if name == "options":  # an inline table
            written = re.sub(r'"(\w+)": ', r"\1 = ", written).replace("True", "true")
        return f"{name} = {written.replace('(', '[').replace(')', ']') or '...'} in [{PROJECT_KEYS[name]}]"

    for pattern, instead in PHRASES:
        text = re.sub(pattern, instead, text)
    text = ARGUMENT.sub(argument, text)
    return SNAKE.sub(lambda match: option(match[1]) if match[1] in known else match[0], text)
