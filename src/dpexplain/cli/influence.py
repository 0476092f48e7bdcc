"""`dpexplain influence`: which columns caused outcomes, for everybody, a group, or a person. `dpexplain transparency`:
a report for a person.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dpexplain.cli.marginals import marginals_of
from dpexplain.cli.options import (
    Call,
    Features,
    Guess,
    MarginalsFile,
    Mechanism,
    Method,
    Outcome,
    Price,
    Row,
    Threshold,
    once,
    option,
)
from dpexplain.cli.release import free, release
from dpexplain.cli.report import text
from dpexplain.cli.typed import group_of, read_records, record_of
from dpexplain.errors import InputError
from dpexplain.project.run import Task

if TYPE_CHECKING:
    from dpexplain.core.budget import Cost
    from dpexplain.core.domain import Domain
    from dpexplain.data.table import PrivateTable
    from dpexplain.methods.transparency.result import TransparencyReports
    from dpexplain.models import Model

LEADS = {
    "average": "how often the outcome of a row changes when a column is replaced by other people's values",
    "group": "how the outcomes of a group change when a column is replaced by other people's values",
    "disparity": "what each column adds to the difference between a group and the others",
    "individual": "what each column adds to the outcome of one person",
    "actual": "how often the outcome of one person changes when a column is replaced by other people's values",
}


def influence(
    *,
    quantity: Annotated[
        str, option("--quantity", "NAME", "average, group, disparity, individual or actual.")
    ] = "average",
    feature: Features = None,
    set_: Annotated[
        list[str] | None, option("--set", "NAME,NAME", "Columns that are replaced together. May be repeated.")
    ] = None,
    given: Annotated[
        list[str] | None, option("--given", "NAME", "A column that is replaced in any case. May be repeated.")
    ] = None,
    aggregate: Annotated[str, option("--aggregate", "NAME", "unary, shapley or banzhaf.")] = "unary",
    group: Annotated[
        list[str] | None,
        option("--group", "NAME=VALUE", "Who: NAME=VALUE, NAME=A|B or NAME=LOW..HIGH. May be repeated."),
    ] = None,
    row: Row = None,
    marginals: MarginalsFile = None,
    outcome: Outcome = None,
    threshold: Threshold = None,
    samples: Annotated[
        int | None, option("--samples", "N", "Draws for each row, or drawn orders. Default: by forecast.")
    ] = None,
    most_predictions: Annotated[
        int | None,
        option("--most-predictions", "N", "For a table, at most. Default: 33 million, minutes for most models."),
    ] = None,
    exact: Annotated[
        bool | None, option("--exact/--no-exact", None, "Shapley, Banzhaf: ask about all sets of columns.")
    ] = None,
    method: Method = "default",
    mechanism: Mechanism = None,
    price: Price,
    n: Guess = None,
    call: Call,
) -> None:
    """Tell which columns caused outcomes, by replacing their values with other people's: quantitative input influence.

    For everybody, for a group, for what sets a group apart, or for one person, whose influences are free with
    --marginals, a file that `dpexplain marginals`, or an earlier importance or influence, wrote.

        dpexplain influence --quantity disparity --group sex=Female --epsilon 0.5

        dpexplain influence --quantity individual --row age=40 --row sex=Female --marginals explanations/influence.json
    """
    from dpexplain.methods.influence import release as influences

    known = marginals_of(marginals)
    items = [*once(feature), *(tuple(part.strip() for part in names.split(",")) for names in set_ or [])]

    def ask(domain: Domain, model: Model) -> Task:
        options: dict[str, Any] = {
            "quantity": quantity,
            "aggregate": aggregate,
            "features": items or None,
            "given": tuple(once(given)),
            "group": group_of(domain, group or []) or None,
            "row": record_of(domain, row, model.features(domain)) if row else None,
            "outcome": outcome,
            "threshold": threshold,
            "samples": samples,
            "most_predictions": most_predictions,
            "exact": exact,
            "method": method,
            "mechanism": mechanism,
        }
        request = influences.InfluenceRequest(**options)
        lead = LEADS.get(request.quantity, "influences")
        return Task(request, influences.explain, "Influence", lead, known)

    if quantity not in influences.PERSON or known is None:
        release(call, price, ask, n=n)
    elif price.given:
        raise InputError("with --marginals the influences on a person are free.", hint="leave the price out")
    else:
        free(call, ask)


def transparency(
    *,
    row: Row = None,
    rows: Annotated[Path | None, option("--rows", "FILE", "Several persons: CSV or Parquet, for one price.")] = None,
    feature: Features = None,
    marginals: MarginalsFile = None,
    quantity: Annotated[str, option("--quantity", "NAME", "individual, or actual.")] = "individual",
    aggregate: Annotated[str, option("--aggregate", "NAME", "shapley, banzhaf or unary.")] = "shapley",
    outcome: Outcome = None,
    threshold: Threshold = None,
    mechanism: Mechanism = None,
    price: Price,
    n: Guess = None,
    call: Call,
) -> None:
    """Write a transparency report for a person, or for many for one price; persons that come later are free.

    It says what made the model decide as it did about the person, and what only goes along with such decisions. The
    guarantee is about the rows of the table; the person's own record is in the report, and it is not protected.

        dpexplain transparency --row age=40 --row sex=Female --epsilon 0.5

        dpexplain transparency --rows people.csv --epsilon 0.5
    """
    import pandas as pd

    from dpexplain.methods.influence.persons import read_persons
    from dpexplain.methods.transparency import release as reports
    from dpexplain.methods.transparency.result import TransparencyReport

    if (rows is None) == (not row):
        raise InputError("give one person by --row NAME=VALUE for each column, or several by --rows FILE.")
    known = marginals_of(marginals)

    def ask(domain: Domain, model: Model) -> Task:
        options: dict[str, Any] = {
            "features": once(feature) or None,
            "quantity": quantity,
            "aggregate": aggregate,
            "outcome": outcome,
            "threshold": threshold,
            "mechanism": mechanism,
        }
        request = reports.TransparencyRequest(**options)
        needed = once([*model.features(domain), *(request.features or [])])
        people = pd.DataFrame(read_records(rows, domain, needed) if rows else [record_of(domain, row or [], needed)])
        read_persons(people, domain, needed)  # a value that nobody can have is refused before the table is opened

        def explain(table: PrivateTable, model: Model, request: Any, *, cost: Cost | None) -> TransparencyReports:
            return reports.explain(table, model, request.but(row=people), cost=cost, marginals=known)

        lead = "what made the model decide as it did about a person, and what did not"
        return Task(request, explain, "Transparency report", lead)

    found = free(call, ask) if known is not None and not price.given else release(call, price, ask, n=n)
    pages = [path.with_suffix(".html") for path in found.files.results]  # each beside its .json, which is its own
    for report, page in zip(found.results, pages, strict=True):
        assert isinstance(report, TransparencyReport)
        report.to_html(page)
    names = ", ".join(page.name for page in pages[:3]) + (f" and {len(pages) - 3} more" if len(pages) > 3 else "")
    call.reporter.show(f"To hand over, one page for each person: {text(names)} in {text(call.out)}.")
    if len(pages) > 1:
        shown = text(found.files.page.name)
        call.reporter.show(f"{shown} shows all of them: it is for whoever may see them all.")
