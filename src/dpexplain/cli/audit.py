"""`dpexplain audit`: attack the releases of a project on its own rows. For the data holder: none of it is private."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from rich.table import Table

from dpexplain.cli.explain import prepare_folder
from dpexplain.cli.project import Project
from dpexplain.cli.report import Reporter, text
from dpexplain.errors import InputError


def audit(
    reporter: Reporter,
    project: Path,
    *,
    attacks: Sequence[str],
    explainers: Sequence[str],
    epsilons: Sequence[str],
    trials: int | None,
    workers: int | None,
    out: Path,
) -> bool:
    """Whether no claim was refuted. What can be wrong is found out before a row is read."""
    from dpexplain.audit import project as audits
    from dpexplain.audit.cases import NoLedger
    from dpexplain.audit.report import NOT_PRIVATE

    found = Project.load(project)
    domain, budget, model = found.domain(), found.budget(), found.model()
    plan = audits.Plan.of(
        budget,
        found.neighbours,
        found.target,
        attacks=attacks,
        explainers=explainers,
        epsilons=[number for one in epsilons for number in _numbers(one)],
        trials=trials,
        workers=min(2, os.cpu_count() or 1) if workers is None else workers,
    )
    model.checked(domain)
    if found.target is not None:
        domain.column(found.target)
    prepare_folder(out)
    reporter.show(
        f"[bold]{NOT_PRIVATE}[/bold]",
        "Exact rows are read without the ledger; nothing is reserved, spent or recorded. Keep what this prints and "
        f"writes, {text(out)}/, to yourself.",
        "",
    )
    table = found.table(domain, ledger=cast(Any, NoLedger()))  # its account is in memory, and free
    subject = audits.read(table, model, found.target)
    report = audits.run(subject, plan, say=lambda line: reporter.show(f"  {text(line)}"))
    try:
        files = report.write(out)
    except OSError as error:
        raise InputError(
            f"the audit could not be written to {out}: {error.strerror}.", hint="--out names another folder"
        ) from None
    reporter.show("", _view(report.lists()), "", *(text(line) for line in report.closing))
    reporter.show("", f"Open {text(files[0])}.", f"[bold]{NOT_PRIVATE}[/bold]")
    reporter.finish({"note": report.note, **report.content(), "files": [str(path) for path in files]})
    return not report.refuted


def _view(lines: Sequence[Mapping[str, Any]]) -> Table:
    """Every attack that measures success, on a line of its own."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("attack", "on", "epsilon", "right", "between", "without", "the most allowed", ""):
        table.add_column(name)
    for line in lines:
        table.add_row(
            line["attack"],
            line["what"],
            "no noise" if line["epsilon"] is None else f"{line['epsilon']:g}",
            f"{line['success']:.3f}",
            f"{line['low']:.3f} and {line['high']:.3f}",
            f"{line['chance']:.3f}",
            f"{line['allowed']:.3f}" if "allowed" in line else "not covered",
            "REFUTED" if line.get("refuted") else "",
        )
    return table


def _numbers(typed: str) -> list[float]:
    """The numbers of one --epsilon: one, or several with commas or blanks between them."""
    try:
        return [float(part) for part in typed.replace(",", " ").split()]
    except ValueError:
        raise InputError(f"--epsilon takes numbers; got {typed!r}.", hint="--epsilon 0.1,1,5") from None
