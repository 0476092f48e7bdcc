"""`dpexplain audit`: attack the releases of a project on its own rows. For the data holder: none of it is private."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from dpexplain.cli.options import DEFAULT_PROJECT, Json, ProjectFile, option
from dpexplain.cli.report import Reporter, text
from dpexplain.errors import InputError
from dpexplain.methods.registry import methods
from dpexplain.project.file import Project
from dpexplain.project.run import prepare_folder

if TYPE_CHECKING:
    from rich.table import Table

    from dpexplain.core.domain import Domain
    from dpexplain.models.clustering import Clustering


def _usual() -> list[str]:
    """The commands whose releases are attacked unless others are named."""
    return sorted(str(one.command) for one in methods().values() if one.command and one.attack_by_default)


def audit(
    *,
    attack: Annotated[
        list[str] | None,
        option("--attack", "NAME", "membership, table, reconstruction or bounds. May be repeated. Default: all."),
    ] = None,
    explainer: Annotated[
        list[str] | None,
        option(
            "--explainer",
            "NAME",
            f"A command whose releases are attacked. May be repeated. Default: {', '.join(_usual())}, "
            "clusters if there are any.",
        ),
    ] = None,
    kmeans: Annotated[
        int | None,
        option("--kmeans", "K", "Clusters: find K by private k-means, for half of the cost. Default: the project's."),
    ] = None,
    epsilon: Annotated[list[str] | None, option("--epsilon", "E,E", "Epsilons to attack. Default: 0.1,1,5.")] = None,
    trials: Annotated[
        int | None, option("--trials", "N", "Runs that measure each attack. Default: 1000, or as many as needed.")
    ] = None,
    workers: Annotated[int | None, option("--workers", "N", "Processes. Default: 2, if there are two cores.")] = None,
    out: Annotated[Path, option("--out", "DIR", "Folder for the page, the pictures and the JSON.")] = Path("audit"),
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Attack the releases of a project on its own table, and compare with what each epsilon allows.

    For the data holder: exact rows are read WITHOUT the ledger, nothing is reserved or spent, and nothing that is
    printed or written is private. Do not publish it.

    membership asks whether a person is in the table, table which of two values a person has: both must stay below what
    epsilon allows. reconstruction goes from explanations to the records that they explain, which no epsilon covers.
    bounds proves lower bounds for the same releases on made-up worst cases. Exit code 4 if a claim is refuted.

    All of it takes about two minutes with a small model, and longer with one that predicts slowly.

        dpexplain audit

        dpexplain audit --attack membership --explainer pdp --epsilon 0.5,1 --trials 5000
    """
    from dpexplain.audit import project as audits
    from dpexplain.audit.cases import NoLedger
    from dpexplain.audit.report import NOT_PRIVATE

    found = Project.load(project)
    domain, budget, model = found.domain(), found.budget(), found.model()
    clustering = _clustering(found, domain, kmeans, explainer)
    plan = audits.Plan.of(
        budget,
        found.neighbours,
        found.target,
        clustering=clustering is not None,
        attacks=attack or [],
        explainers=explainer or [],
        epsilons=[number for one in epsilon or [] for number in _numbers(one)],
        trials=trials,
        workers=min(2, os.cpu_count() or 1) if workers is None else workers,
        keep_missing=[name for name in model.features(domain) if domain[name].keeps_missing],
    )
    model.checked(domain)
    if found.target is not None:
        domain.column(found.target)
    prepare_folder(out)
    reporter = Reporter(as_json=json)
    reporter.show(
        f"[bold]{NOT_PRIVATE}[/bold]",
        "Exact rows are read without the ledger; nothing is reserved, spent or recorded. Keep what this prints and "
        f"writes, {text(out)}/, to yourself.",
        "",
    )
    table = found.table(domain, ledger=cast(Any, NoLedger()))  # its account is in memory, and free
    subject = audits.read(table, model, found.target, clustering)
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
    if report.refuted:
        raise typer.Exit(4)


def _clustering(
    project: Project, domain: Domain, kmeans: int | None, explainers: Sequence[str] | None
) -> Clustering | int | None:
    """The project's rule, or how many clusters k-means finds; nothing where clusters are not attacked."""
    if kmeans is not None and project.has_clustering:
        raise InputError("give either --kmeans K, or a [clustering] in the project file, not both.")
    if kmeans is not None:
        from dpexplain.methods.kmeans.request import KMeans

        return KMeans(k=kmeans).k
    wanted = project.has_clustering and (not explainers or "clusters" in explainers)
    return project.clustering(domain) if wanted else None


def _view(lines: Sequence[Mapping[str, Any]]) -> Table:
    """Every attack that measures success, on a line of its own."""
    from rich.table import Table

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
