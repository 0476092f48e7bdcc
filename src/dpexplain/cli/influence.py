"""`dpexplain influence`: which columns caused outcomes, for everybody, a group, or a person. `dpexplain transparency`:
a report for a person.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from dpexplain.cli.explain import Price, Task, prepare_folder, publish, records, release
from dpexplain.cli.local import read_records, record_of, typed
from dpexplain.cli.project import Project
from dpexplain.cli.report import Reporter, text
from dpexplain.core.budget import Cost
from dpexplain.core.domain import Domain
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError
from dpexplain.explainers import influence as influences
from dpexplain.explainers import transparency as reports
from dpexplain.explainers.persons import read_persons
from dpexplain.models import Model
from dpexplain.render import text as words
from dpexplain.results import Marginals, Result, from_json
from dpexplain.results.transparency import TransparencyReport, TransparencyReports

LEADS = {
    "average": "how often the outcome of a row changes when a column is replaced by other people's values",
    "group": "how the outcomes of a group change when a column is replaced by other people's values",
    "disparity": "what each column adds to the difference between a group and the others",
    "individual": "what each column adds to the outcome of one person",
    "actual": "how often the outcome of one person changes when a column is replaced by other people's values",
}


def influence(
    reporter: Reporter,
    project: Path,
    *,
    features: Sequence[str],
    sets: Sequence[str],
    given: Sequence[str],
    group: Sequence[str],
    row: Sequence[str],
    marginals: Path | None,
    price: Price,
    out: Path,
    options: dict[str, Any],
) -> None:
    known = None if marginals is None else marginals_of(marginals)
    items = [*dict.fromkeys(features), *(tuple(part.strip() for part in names.split(",")) for names in sets)]

    def task(domain: Domain, model: Model) -> Task:
        person = record_of(domain, row, model.features(domain)) if row else None
        request = influences.InfluenceRequest(
            features=items or None,
            given=tuple(dict.fromkeys(given)),
            group=group_of(domain, group) or None,
            row=person,
            **options,
        )
        lead = LEADS.get(request.quantity, "influences")
        return Task(request, partial(influences.explain, marginals=known), "Influence", lead)

    if options["quantity"] in influences.PERSON and known is not None:
        _free(reporter, project, task, price, out)
    else:
        release(reporter, project, task, price, out)


def transparency(
    reporter: Reporter,
    project: Path,
    *,
    features: Sequence[str],
    row: Sequence[str],
    rows: Path | None,
    marginals: Path | None,
    price: Price,
    out: Path,
    options: dict[str, Any],
) -> None:
    """Reports for one person or several, of one price; later persons are free, by the same command again."""
    if (rows is None) == (not row):
        raise InputError("give one person by --row NAME=VALUE for each column, or several by --rows FILE.")
    known = None if marginals is None else marginals_of(marginals)

    def task(domain: Domain, model: Model) -> Task:
        request = reports.TransparencyRequest(features=list(dict.fromkeys(features)) or None, **options)
        needed = list(dict.fromkeys([*model.features(domain), *(request.features or [])]))
        people = pd.DataFrame(read_records(rows, domain, needed) if rows else [record_of(domain, row, needed)])
        read_persons(people, domain, needed)  # a value that nobody can have is refused before the table is opened

        def explain(table: PrivateTable, model: Model, request: Any, *, cost: Cost | None) -> TransparencyReports:
            return reports.explain(table, model, people, request, cost=cost, marginals=known)

        lead = "what made the model decide as it did about a person, and what did not"
        return Task(request, explain, "Transparency report", lead)

    free = known is not None and price.epsilon is None and price.rho is None
    found = (_free if free else release)(reporter, project, task, price, out)
    TransparencyReports([r for r in found if isinstance(r, TransparencyReport)]).to_html(out / "transparency.html")
    reporter.show(f"To hand over: {text(out)}/transparency.html.")


def _free(
    reporter: Reporter, project: Path, task: Callable[[Domain, Model], Task], price: Price, out: Path
) -> list[Result]:
    """From marginals that were paid for before."""
    if price.epsilon is not None or price.rho is not None:
        raise InputError("with --marginals the influences on a person are free.", hint="leave the price out")
    found = Project.load(project)
    domain, model = found.domain(), found.model()
    job = task(domain, model)
    prepare_folder(out)
    table = found.table(domain, analyst=price.analyst)
    answer = job.explain(table, model, job.request, cost=None)
    results: list[Result] = [answer] if isinstance(answer, Result) else list(answer)
    files = publish(results, out, job, table.name, "nothing")
    for result in results:
        reporter.show(words.result_view(result), "")
    reporter.show("Free: computed from released values alone.", f"Files: {text(out)}/index.html.")
    reporter.finish(
        {
            "account": table.name,
            "guarantee": results[0].receipt.guarantee,
            "entry": results[0].receipt.entry.sequence,
            "spent_now": False,
            "results": [
                {"kind": r.kind, "json": str(path), "png": str(path.with_suffix(".png")), "table": records(r)}
                for r, path in zip(results, files, strict=True)
            ],
            "page": str(out / "index.html"),
        }
    )
    return results


def marginals_of(path: Path) -> Marginals:
    """The marginals in a file that `dpexplain influence` or `dpexplain transparency` wrote, or `to_json`."""
    found = from_json(path)
    known = found if isinstance(found, Marginals) else getattr(found, "marginals", None)
    if not isinstance(known, Marginals):
        raise InputError(f"{path} has no marginals.", hint="give a file that `dpexplain influence` wrote")
    return known


def group_of(domain: Domain, conditions: Sequence[str]) -> dict[str, Any]:
    """The group that a person typed: NAME=VALUE, NAME=VALUE|VALUE, NAME=LOW..HIGH with either end left out."""
    group: dict[str, Any] = {}
    for condition in conditions:
        name, equals, value = (part.strip() for part in condition.partition("="))
        if not equals or not value or name in group:
            raise InputError(
                f"--group takes NAME=VALUE, once for each column; got {condition!r}.",
                hint="--group sex=Female, --group 'race=Black|Other' or --group age=17..30",
            )
        if name not in domain:
            group[name] = value  # refused later, with the names there are
        elif ".." in value:
            ends = value.partition("..")
            group[name] = tuple(typed(domain, name, end.strip()) if end.strip() else None for end in (ends[0], ends[2]))
        else:
            group[name] = [typed(domain, name, part.strip()) for part in value.split("|")]
    return group
