"""`dpexplain budget`, `renew` and `verify`: what was spent, who comes next, and whether a published explanation is what
it says.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpexplain.cli.options import DEFAULT_PROJECT, Json, ProjectFile, option
from dpexplain.cli.report import Reporter, text
from dpexplain.errors import InputError
from dpexplain.project.file import LEDGER_VARIABLE, Project, ledger_url

if TYPE_CHECKING:
    from dpexplain.ledger import Ledger, Statement

LedgerUrl = Annotated[
    str | None,
    option("--ledger", "URL", "sqlite:///FILE or postgresql://... Default: $DPEXPLAIN_LEDGER, then the project's."),
]


def budget(
    *,
    account: Annotated[str | None, option("--account", "NAME", "One account. Default: the project's, or all.")] = None,
    ledger: LedgerUrl = None,
    anchor: Annotated[
        bool, option("--anchor", None, "Print the head of the chain, to be kept outside the ledger.")
    ] = False,
    check_anchor: Annotated[
        str | None, option("--check-anchor", "SEQ:HASH", "Compare with an anchor that was kept.")
    ] = None,
    limit: Annotated[str | None, option("--limit", "ANALYST=E", "The most this analyst may spend from now on.")] = None,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Show what was spent, what is left and every entry, and verify the whole ledger.

    Every entry carries the hash of the one before. An anchor kept elsewhere also shows whether the end was cut off or
    an old backup was restored.
    """
    from dpexplain.render import text as words

    reporter = Reporter(as_json=json)
    opened = _open(project, ledger)
    checked = opened.verify(check_anchor)
    chosen = _account(opened, project, account, use_project=ledger is None)
    names = opened.accounts() if chosen is None else [chosen]
    statements = [opened.statement(name) for name in names]
    lines = {line[0].name: line for line in map(opened.line, names) if len(line) > 1}
    if limit is not None:
        statements = [_limit(opened, statements, limit)]
        checked = opened.verify(check_anchor)
    for statement in statements:
        reporter.show(words.statement_view(statement), "")
    for line in lines.values():
        reporter.show(words.line_view(line), "")
    if not names:
        reporter.show("The ledger holds no account yet.")
    against = " and agrees with the anchor" if check_anchor else ""
    reporter.show(f"Verified: {checked.events} events, {checked.releases} releases; the chain is whole{against}.")
    for note in checked.notes:
        reporter.show(f"Note: {text(note)}")
    if anchor:
        reporter.show("Anchor, to be kept outside the ledger:", text(checked.anchor))
    reporter.finish(
        {
            "accounts": [words.statement_json(statement) for statement in statements],
            "lines": [words.line_json(line) for line in lines.values()],
            "verified": {"events": checked.events, "releases": checked.releases, "notes": list(checked.notes)},
            "anchor": checked.anchor,
        }
    )


def renew(
    *,
    successor: Annotated[str, typer.Argument(help="The name of the new account.")],
    people: Annotated[str, option("--people", "TEXT", 'Whom it is for: "admissions of 2027".')],
    signed_by: Annotated[str, option("--signed-by", "NAME", "Who answers for this.")],
    reason: Annotated[str, option("--reason", "TEXT", "Why the old account is closed.")],
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Close the project's account for ever, and open one for new people with a budget of its own.

    The policy of the project says when and for whom: renewal = {every = "year", people = "new-only"} under [budget].
    With new-only you sign that nobody is in two accounts of the line. With overlapping somebody may be: a person in N
    accounts is counted N times, and every result says so. The new account gets the epsilon of [budget]; relation, unit
    and delta stay, analysts' limits do not. What the old account released is still genuine, and answered again free of
    charge, but not for the new people. Then edit [table]: the new name, the path and version of the new data.

        dpexplain renew admissions-2027 --people "admissions of 2027" --signed-by "A. Person" --reason "a new year"
    """
    from dpexplain.render import text as words

    reporter, loaded = Reporter(as_json=json), Project.load(project)
    policy, name, total, opened = loaded.renewal(), loaded.name, loaded.budget(), _open(project, None)
    policy.check(name, opened.statement(name).dates[0])
    opened.renew(
        name,
        successor,
        people=people,
        overlapping=policy.overlapping,
        signed_by=signed_by,
        reason=reason,
        budget=total,
    )
    line = opened.line(successor)
    reporter.show(
        f'Account "{text(name)}" is closed for ever. Account "{text(successor)}" is open for {text(people)}.',
        "",
        words.line_view(line),
        "",
        text(f'Now write under [table] of {project.name}: name = "{successor}", and path and version of the new data.'),
    )
    reporter.finish({"closed": name, "opened": successor, "line": words.line_json(line)})


def verify(
    *,
    receipt: Annotated[Path, typer.Argument(help="A result file that `pdp` or to_json wrote.")],
    ledger: LedgerUrl = None,
    model: Annotated[
        bool, option("--model", None, "Also ask the project's model again about the synthetic rows of a curve.")
    ] = False,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Check a published explanation against the ledger.

    The values must follow from the released integers in the file, and the ledger must have released exactly these, for
    this request, at this cost and under this guarantee. Exit code 4 if not.

    Curves also rest on a prior: what the model says on average about synthetic rows. The file must hold the one that
    the ledger keeps. With --model it is learned again and compared; loading a model runs the code inside, so use only
    one you trust.
    """
    from dpexplain.methods.result import from_json
    from dpexplain.render import text as words
    from dpexplain.verification import BY_MODEL
    from dpexplain.verification import verify as check_result

    result = from_json(receipt)
    opened = _open(project, ledger)
    notes = check_result(result, opened, Project.load(project).model() if model else None)
    checked = opened.verify()
    paid_by = opened.statement(result.receipt.entry.account)
    reporter = Reporter(as_json=json)
    reporter.show(
        f"[bold]{text(receipt.name)} is genuine.[/bold]",
        words.receipt_view(result.receipt),
        text(f'Paid by account "{paid_by.name}": {words.closing(paid_by)}.'),
        "Checked: the values follow from the released integers; the ledger released exactly these integers for exactly "
        f"this request, at this cost; the ledger's chain of {checked.events} events is whole.",
        *(text(f"Note: {note}") for note in notes),
        *(["`dpexplain verify FILE --model` checks it."] if BY_MODEL & set(notes) else []),
        "Not checked: what a person says about the explanation, and whether the ledger was replaced as a whole "
        "(`dpexplain budget --check-anchor`).",
    )
    reporter.finish(
        {
            "genuine": True,
            "label": result.receipt.label,
            "guarantee": result.receipt.guarantee,
            "cost": result.receipt.cost.to_json(),
            "entry": {**result.receipt.entry.__dict__, "charged": result.receipt.charged.to_json()},
            "events": checked.events,
            "notes": notes,
            "account": {"name": paid_by.name, **words.renewal_json(paid_by)},
        }
    )


def _open(project: Path, ledger: str | None) -> Ledger:
    from dpexplain.ledger import open_ledger

    if ledger is None and not project.exists():
        ledger = os.environ.get(LEDGER_VARIABLE)
        if not ledger:
            raise InputError(
                "which ledger?",
                hint=f"--ledger sqlite:///budget.db, --project FILE, or the variable {LEDGER_VARIABLE}",
                spent="",
            )
    url = Project.load(project).ledger() if ledger is None else ledger_url(ledger, Path.cwd())
    return open_ledger(url, create=False)


def _account(ledger: Ledger, project: Path, account: str | None, *, use_project: bool) -> str | None:
    """The account asked for; else the project's, if it was opened already; else None for all."""
    if account is None and use_project and project.exists():
        name = Project.load(project).name
        return name if name in ledger.accounts() else None
    return account


def _limit(ledger: Ledger, statements: list[Statement], limit: str) -> Statement:
    analyst, _, amount = limit.rpartition("=")
    try:
        epsilon = float(amount)
    except ValueError:
        analyst = ""
    if not analyst:
        raise InputError(f"--limit takes ANALYST=EPSILON; got {limit!r}.", hint="--limit alice=0.5", spent="")
    if len(statements) != 1:
        raise InputError("whose limit in which account?", hint="--account NAME", spent="")
    name = statements[0].name
    ledger.set_limit(name, analyst, statements[0].budget.cost(epsilon=epsilon))
    return ledger.statement(name)
