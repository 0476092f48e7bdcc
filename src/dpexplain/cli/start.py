"""`dpexplain demo`: see it work. `dpexplain init`: draft the domain file and the project file."""

from __future__ import annotations

import os
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from dpexplain.cli.options import Json, option
from dpexplain.cli.report import Reporter, text
from dpexplain.data.domain_file import draft_domain
from dpexplain.errors import InputError

PROJECT = """\
# A dpexplain project: a table, what is declared about it, its privacy budget, and a model. Replace every ???.
# Paths are relative to this file.

[table]
path = {table}
domain = {domain}
name = {name}               # of the account: one for each protected population
version = "1"               # of the data; the same request on the same version is answered again, free
relation = "???"            # "replace-one": the number of rows is public; "add-remove": it is not
# unit = {{column = "person_id", max_rows = 4}}   # when a person may have several rows
# row_id = "id"
# rows_hint = 20000              # a public guess where the number of rows is private; forecasts go by it

[budget]
epsilon = "???"             # the most that may ever be spent on these people, e.g. 2.0; compare with `dpexplain plan`
# delta = 1e-6              # with it the account counts zCDP, better for many releases; without it pure epsilon
ledger = "sqlite:///budget.db"   # keep it and back it up; or postgresql://user@host/database

[model]
path = "model.joblib"       # loading it runs the code inside: use only a file you trust; or import = "module:object"
output = "???"              # the public range of its predictions, e.g. [0.0, 1.0]
# label = ">50K"            # for a classifier: the class whose probability is explained
# target = "income"         # the column that it predicts: for importance
# features = ["age", "sex"] # the columns that it takes, where it does not say so itself
name = "model"
version = "1"               # change it whenever the model changes
"""


def demo(
    *,
    out: Annotated[Path, option("--out", "DIR", "Folder for the page, the pictures and the ledger.")] = Path(
        "demo-output"
    ),
    quick: Annotated[bool, option("--quick", None, "Fewer rows and a smaller model: a few seconds.")] = False,
    json: Json = False,
) -> None:
    """Train a model on a public table, explain it privately, and write a page about it.

    The table is the RAND Health Insurance Experiment (20,190 rows, shipped with statsmodels; nothing is downloaded).
    Run again, the same explanations come from the ledger, free. The folder is a project of its own to try the other
    commands on.
    """
    from dpexplain.demo import run  # draws, and matplotlib is slow to come

    reporter = Reporter(as_json=json)
    reporter.finish(run(out, quick=quick, show=reporter.show))


def init(
    *,
    table: Annotated[Path, typer.Argument(help="A Parquet or CSV file, or a folder of Parquet files.")],
    peek: Annotated[
        bool, option("--peek", None, "Also suggest bounds and categories from the rows. This reveals them.")
    ] = False,
    out: Annotated[Path, option("--out", "FILE", "The domain file to write.")] = Path("domain.yaml"),
    force: Annotated[bool, option("--force", None, "Replace a domain file that is there.")] = False,
    json: Json = False,
) -> None:
    """Draft domain.yaml (and dpexplain.toml beside it) for a table.

    Reads column names and types only. What has to be declared from public knowledge is written ???, and nothing runs
    before a person has replaced it and signed the file. With --peek, suggestions from the data are filled in and
    marked; they reveal the data until a person replaces them.
    """
    reporter = Reporter(as_json=json)
    if out.exists() and not force:
        raise InputError(f"{out} exists already.", hint="--force replaces it, and with it what was reviewed")
    draft = draft_domain(table, peek=peek)
    project = out.parent / "dpexplain.toml"
    _write(out, draft)
    drafted = not project.exists()
    if drafted:
        paths = {"table": os.path.relpath(table, project.parent), "domain": out.name, "name": table.stem or "table"}
        _write(project, PROJECT.format(**{key: dumps(value, ensure_ascii=False) for key, value in paths.items()}))
    reporter.show(f"Drafted {text(out)}" + (f" and {text(project)}." if drafted else "."))
    if peek:
        reporter.show(
            "The suggestions in it reveal the data: do not show the file around before you have replaced them "
            "by what is publicly known."
        )
    else:
        reporter.show("Only column names and types were read; no row was looked at.")
    reporter.show(
        "Next:",
        f"  1. In {text(out)}: replace every ???, delete what is not needed, and write your name behind reviewed_by.",
        f"  2. In {text(project)}: say who is protected (relation), the budget, and the model.",
        "  3. `dpexplain plan --feature NAME --epsilon 0.5` tells the error before anything is spent.",
        "  4. `dpexplain pdp --feature NAME --epsilon 0.5` releases the first explanation.",
    )
    reporter.finish({"domain": str(out), "project": str(project), "project_drafted": drafted, "peeked": peek})


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None
