"""`dpexplain demo`: see it work. `dpexplain init`: draft the domain file and the project file."""

from __future__ import annotations

import os
import sys
import tomllib
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from dpexplain.cli.options import Json, option
from dpexplain.cli.report import Reporter, text
from dpexplain.errors import InputError
from dpexplain.methods.registry import commands
from dpexplain.project.accounts import Advice, recommend, wanted

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
# processes = 2                  # for a model that holds Python's interpreter lock: ask it in processes, not threads

[budget]
epsilon = "???"             # the most that may ever be spent on these people, e.g. 2.0; compare with `dpexplain plan`
{account}
ledger = "sqlite:///budget.db"   # keep it and back it up; or postgresql://user@host/database
# renewal = {{every = "year", people = "new-only"}}   # when new people get an account of their own: `dpexplain renew`

[model]
path = "model.onnx"         # ONNX, XGBoost, LightGBM, CatBoost, torch, skops, MLflow; or url = "http://.../v2/models/NAME"
#                           # (a server, which is sent the rows), or import = "module:object", your own code (a pickle
#                           # is loaded there)
output = "???"              # the public range of its predictions, e.g. [0.0, 1.0]
# label = ">50K"            # for a classifier: the class whose probability is explained
# target = "income"         # the column that it predicts: for importance
# features = ["age", "sex"] # the columns that it takes, where it does not say so itself
name = "model"
version = "1"               # change it whenever the model changes
"""

# what the project file says about delta: when nothing was said, and when something was
UNDECIDED = """\
# delta = 1e-6              # with it the account counts zCDP, without it pure epsilon; the choice is made once.
#                           # `local` needs it; many releases have less error with it
# wants = ["pdp", "local"]  # what the account has to pay for: one that cannot is refused before it is opened"""
PURE = """\
# no delta: pure epsilon.   # {why}
wants = {wants}"""
ZCDP = """\
delta = {delta}                # zCDP, far below 1 / number of rows. {why}
wants = {wants}"""
QUESTION = "Which explanations do you want? {names} (commas between them; Enter if you do not know yet)"


def demo(
    *,
    out: Annotated[Path, option("--out", "DIR", "Folder for the page, the pictures and the ledger.")] = Path(
        "demo-output"
    ),
    quick: Annotated[bool, option("--quick", None, "Fewer rows and a smaller model: a few seconds.")] = False,
    table: Annotated[
        Path | None, option("--table", "FILE", "Your own table: asks for what must be declared, and trains a model.")
    ] = None,
    json: Json = False,
) -> None:
    """Train a model on a public table, explain it privately, and write one page about it.

    The table is the RAND Health Insurance Experiment (20,190 rows, shipped with statsmodels; nothing is downloaded).
    Run again, the same explanations come from the ledger, free. The folder is a project of its own to try the other
    commands on.

    With --table it does the same for a table of yours. It asks for what has to be declared about each column, from
    public knowledge; the model that it trains is not private.
    """
    reporter = Reporter(as_json=json)
    if table is not None:
        from dpexplain.demo.own_table import run_on

        def ask(question: str, default: str) -> str:
            return str(typer.prompt(question, default=default, show_default=bool(default), err=json))

        reporter.finish(run_on(table, out, ask, reporter.show))
        return
    from dpexplain.demo import run  # draws, and matplotlib is slow to come

    reporter.finish(run(out, quick=quick, show=reporter.show))


def init(
    *,
    table: Annotated[Path, typer.Argument(help="A Parquet or CSV file, or a folder of Parquet files.")],
    peek: Annotated[
        bool, option("--peek", None, "Also suggest bounds and categories from the rows. This reveals them.")
    ] = False,
    out: Annotated[Path, option("--out", "FILE", "The domain file to write.")] = Path("domain.yaml"),
    wants: Annotated[
        str | None, option("--wants", "NAME,NAME", "Explanations that you want, for the choice of the account.")
    ] = None,
    force: Annotated[bool, option("--force", None, "Replace a domain file that is there.")] = False,
    json: Json = False,
) -> None:
    """Draft domain.yaml (and dpexplain.toml beside it) for a table.

    Reads column names and types only; of a CSV file, which has no types, the header line. What has to be declared from
    public knowledge is written ???, and nothing runs before a person has replaced it and signed the file. With --peek,
    types, bounds and categories are suggested from the data and marked; they reveal the data until a person replaces
    them.

    An account is either pure or has a delta, for ever, and a pure one cannot pay for `local`. --wants
    names the explanations that you want (on a terminal, init asks), and the account that suits them is written into the
    project file.

        dpexplain init patients.parquet --wants importance,local
    """
    from dpexplain.data.domain_file import draft_domain

    reporter = Reporter(as_json=json)
    if out.exists() and not force:
        raise InputError(f"{out} exists already.", hint="--force replaces it, and with it what was reviewed")
    draft = draft_domain(table, peek=peek)
    project = out.parent / "dpexplain.toml"
    if wants is None and not json and sys.stdin.isatty() and sys.stdout.isatty():
        wants = typer.prompt(QUESTION.format(names=", ".join(commands())), default="", show_default=False)
    names = wanted(wants or "")
    advice = recommend(names) if names else None
    _write(out, draft)
    drafted = not project.exists()
    if drafted:
        paths = {"table": os.path.relpath(table, project.parent), "domain": out.name, "name": table.stem or "table"}
        spelled = {key: dumps(value, ensure_ascii=False) for key, value in paths.items()}
        _write(project, PROJECT.format(**spelled, account=_account(names, advice)))
    reporter.show(f"Drafted {text(out)}" + (f" and {text(project)}." if drafted else "."))
    other = None if drafted else _other_domain(project, out)
    if other is not None:
        reporter.show(
            f"{text(project)} was there before and names {text(other)}: write domain = {text(dumps(out.name))} in its "
            "\\[table] to use the new draft."
        )
    if advice is not None:
        reporter.show(f"For {', '.join(names)}: {advice.account}, because {advice.why}.")
        if not drafted:
            reporter.show(f"{text(project)} was there before: see to its \\[budget] yourself.")
    if peek:
        reporter.show(
            "The suggestions in it reveal the data: do not show the file around before you have replaced them "
            "by what is publicly known."
        )
    elif table.suffix.lower() == ".csv":
        reporter.show(
            "Only the header line was read; a CSV file has no types. Write low and high for numbers, values for "
            "categories; the type follows from them. Or --peek suggests all of it from the rows."
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
    facts = {"domain": str(out), "project": str(project), "project_drafted": drafted, "peeked": peek}
    account = None if advice is None else {"wants": names, "delta": advice.delta, "why": advice.why}
    reporter.finish({**facts, "project_names_domain": other is None, "account": account})


def _account(names: list[str], advice: Advice | None) -> str:
    """The lines of the project file about the kind of account."""
    if advice is None:
        return UNDECIDED
    return (PURE if advice.delta is None else ZCDP).format(delta=advice.delta, why=advice.why, wants=dumps(names))


def _other_domain(project: Path, out: Path) -> str | None:
    """The domain file that a project names, if it is not this one; "no domain file" if it cannot be read."""
    try:
        named = tomllib.loads(project.read_text(encoding="utf-8"))["table"]["domain"]
        return None if (project.parent / named).absolute() == out.absolute() else str(named)
    except (OSError, ValueError, LookupError, TypeError):
        return "no domain file"


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None
