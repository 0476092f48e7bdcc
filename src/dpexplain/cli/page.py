"""`dpexplain report`: one page for people about a model and a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpexplain.cli.options import (
    DEFAULT_OUT,
    DEFAULT_PROJECT,
    Analyst,
    Call,
    Epsilon,
    Features,
    Guess,
    Json,
    Out,
    ProjectFile,
    Rho,
    number,
    once,
    option,
)
from dpexplain.cli.release import left_words, listed
from dpexplain.cli.report import Reporter, text
from dpexplain.cli.typed import Groups, Place, group_of, performances, value_of
from dpexplain.errors import InputError
from dpexplain.project.file import Project
from dpexplain.project.run import prepare_folder

Compared = Annotated[
    list[str] | None,
    option("--compared", "NAME=VALUE", "The group whose difference to all others is explained. May be repeated."),
]


def report(
    *,
    target: Annotated[
        str | None, option("--target", "NAME", "The column that the model predicts. Default: the project's.")
    ] = None,
    positive: Annotated[
        str | None,
        option("--positive", "VALUE", "The value of the target that counts as positive. Default: the model's label."),
    ] = None,
    group: Groups = None,
    compared: Compared = None,
    feature: Features = None,
    most_features: Annotated[
        int, option("--most-features", "N", "How many columns are chosen, where none are named.")
    ] = 8,
    section: Annotated[list[str] | None, option("--section", "NAME", "Only these sections. May be repeated.")] = None,
    persons: Annotated[int, option("--persons", "N", "How many synthetic persons are explained.")] = 3,
    clusters: Annotated[bool, option("--clusters", None, "Also explain the project's clustering.")] = False,
    title: Annotated[str | None, option("--title", "TEXT", "Of the page.")] = None,
    plan: Annotated[bool, option("--plan", None, "Only show the plan: nothing is read or spent.")] = False,
    files: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="PATH", help="Make it of results that were paid for: files, or a folder."),
    ] = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    n: Guess = None,
    analyst: Analyst = None,
    out: Out = DEFAULT_OUT,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Write one page for people: how good the model is and for whom, what it needs, what its columns do, what drives
    differences between groups, and what is promised.

    One epsilon covers the whole report, divided between the sections by forecasts. --plan shows the division and the
    errors before anything is spent. The page is one file and loads nothing. The same report again is free.

    With --from a report is made of files that were paid for before, free and without the table. With a project file
    beside it, its model explains synthetic persons too.

        dpexplain report --group sex --epsilon 1 --plan

        dpexplain report --group sex --epsilon 1

        dpexplain report --from explanations/
    """
    from dpexplain.methods.reports.request import ReportRequest
    from dpexplain.render.reports import report_forecast_view

    reporter = Reporter(as_json=json)
    if files:
        if epsilon is not None or rho is not None or plan:
            raise InputError(
                "--from costs no budget: it has no epsilon and no plan.", hint="leave --epsilon, --rho and --plan out"
            )
        _of_files(reporter, files, project, title, persons, out)
        return
    known = Project.load(project)
    named = known.target if target is None else target
    place = Place(known.domain(), named)
    about: dict[str, Any] = {"most_features": most_features, "sections": section, "persons": persons, "title": title}
    about |= {"positive": _value(place, positive), "compared": group_of(place.domain, compared or []) or None}
    about |= {"features": once(feature) or None, **performances(place, group=group)}
    ask = ReportRequest(target=named, **about)
    Call(epsilon=epsilon, rho=rho).require_price()
    price = {"epsilon": number(epsilon, "epsilon"), "rho": number(rho, "rho")}
    from dpexplain.project.report import opened_report

    run = opened_report(known, ask, price, out=out, clusters=clusters, analyst=analyst, rows=n, planned=plan)
    reporter.show(report_forecast_view(run.forecast))
    if plan:
        reporter.show("Nothing was read and nothing was spent.")
        reporter.finish({"forecast": run.forecast.to_json()})
        return
    reporter.show(f"Cost: {run.forecast.price}.", left_words("Left before", run.statement, analyst), "")
    found = run.release()
    after = run.statement
    written = run.publish(found)
    paid = "Already released: answered from the ledger, free." if found.replayed else f"Spent: {run.forecast.price}."
    reporter.show(*(f"- {text(words)}" for words in found.in_short), "")
    reporter.show(paid, left_words("Left", after, analyst), f"Open {text(written.page)}.")
    reporter.finish(
        {
            "account": run.table.name,
            "price": found.price,
            "spent_now": not found.replayed,
            "left": after.left.to_json(),
            "forecast": run.forecast.to_json(),
            "in_short": found.in_short,
            "left_out": list(found.left_out),
            "results": listed(found.results, written.results),
            "page": str(written.page),
        }
    )


def _value(place: Place, positive: str | None) -> Any:
    """The value of the target that counts as positive, as the domain spells it."""
    if positive is None or place.target is None:
        return positive
    return value_of(place.domain, place.target, positive)


def _of_files(reporter: Reporter, files: list[Path], project: Path, title: str | None, persons: int, out: Path) -> None:
    from dpexplain.project.report import report_of_files
    from dpexplain.render.files import write_page

    model = Project.load(project).model_at_hand() if project.exists() else None
    found = report_of_files(files, model=model, title=title, persons=persons)
    prepare_folder(out)
    page = write_page(found.to_html(), found.results, out, "report")
    reporter.show(*(f"- {text(words)}" for words in found.in_short), "")
    reporter.show(f"Free: nothing was read and nothing was spent. Open {text(page)}.")
    reporter.finish(
        {"in_short": found.in_short, "left_out": list(found.left_out), "page": str(page), "spent_now": False}
    )
