"""`dpexplain plan` and `dpexplain pdp`.

Everything that can be wrong with a request is found out before the table is opened: nothing is spent on bad input.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpexplain.cli.project import Project
from dpexplain.cli.report import Reporter, text
from dpexplain.core.budget import Budget, Cost
from dpexplain.core.domain import Domain
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.data.domain_file import load_domain
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError
from dpexplain.explainers.partial_dependence import Feature, PartialDependence, explain, forecast, resolve
from dpexplain.ledger import Statement
from dpexplain.planning import Forecast
from dpexplain.planning import plan as forecast_of
from dpexplain.render import text as words
from dpexplain.render.files import write_results
from dpexplain.render.html import Section, page
from dpexplain.results import Curves

SOME_SIZES = (1_000, 10_000, 100_000)
USUAL_DELTA = 1e-6


def plan(
    reporter: Reporter,
    project: Path,
    *,
    features: Sequence[str],
    pairs: Sequence[str],
    epsilon: str | None,
    max_error: str | None,
    n: int | None,
    delta: str,
    domain_file: Path | None,
    output: str | None,
    relation: str | None,
    options: dict[str, Any],
) -> None:
    if (epsilon is None) == (max_error is None):
        raise InputError("give exactly one of --epsilon and --max-error.", hint="plan --feature age --epsilon 0.5")
    found = None if domain_file and output and relation else Project.load(project)
    domain = _reviewed(domain_file) if domain_file else _known(found).domain()
    span = _pair_of_numbers(output) if output else _known(found).output
    neighbours = Neighbours(Relation.parse(relation)) if relation else _known(found).neighbours
    request = _request(domain, features, pairs, everything=False, options=options)
    forecasts = [
        forecast_of(
            request,
            domain=domain,
            n=size,
            relation=neighbours.relation,
            unit=neighbours.unit,
            rows_hint=None if found is None else found.rows_hint,
            output=span,
            epsilon=_number(epsilon, "epsilon"),
            max_error=_number(max_error, "max-error"),
            delta=_number(delta, "delta"),
        )
        for size in ([n] if n is not None else SOME_SIZES)
    ]
    reporter.show(words.forecast_view(forecasts), "Nothing was read and nothing was spent.")
    reporter.finish({"forecasts": [forecast.to_json() for forecast in forecasts]})


def pdp(
    reporter: Reporter,
    project: Path,
    *,
    features: Sequence[str],
    pairs: Sequence[str],
    everything: bool,
    epsilon: str | None,
    rho: str | None,
    n: int | None,
    analyst: str | None,
    out: Path,
    options: dict[str, Any],
) -> None:
    found = Project.load(project)
    domain, budget = found.domain(), found.budget()
    request = _request(domain, features, pairs, everything=everything, options=options)
    if (epsilon is None) == (rho is None):
        raise InputError("give exactly one of --epsilon and --rho.", hint="--epsilon 0.5 works in every account")
    cost = budget.cost(epsilon=_number(epsilon, "epsilon"), rho=_number(rho, "rho"))
    model = found.model()
    model.checked(domain)
    _resolvable(request, domain, model.output, found.neighbours, cost)
    _prepare_folder(out)

    table = found.table(domain, analyst=analyst)
    before = table.ledger.statement(table.name)
    forecasts = _forecasts(request, table, model.output, cost, n)
    reporter.show(words.forecast_view(forecasts))
    if table.size is None and n is None:
        reporter.show("The number of rows is private, so these are examples; --n gives your own guess.")
    reporter.show(
        f"Price: {budget.describe(cost)}.",
        f"Left before: {text(words.left_text(budget, left_for(before, analyst)))}.",
        "",
    )
    curves = explain(table, model, request, cost=cost)
    after = table.ledger.statement(table.name)
    files = _publish(curves, out, table.name, budget.describe(cost))

    for curve in curves:
        reporter.show(words.curve_view(curve), "")
    free = curves.receipt.replayed
    reporter.show(
        "Already released: answered from the ledger, free." if free else f"Spent: {budget.describe(cost)}.",
        f"Left: {text(words.left_text(budget, left_for(after, analyst)))}.",
        f"Files: {text(out)}/index.html, and for each plot a .png and a .json with its receipt (`dpexplain verify`).",
    )
    reporter.finish(
        {
            "account": table.name,
            "label": request.label,
            "price": cost.to_json(),
            "spent_now": not free,
            "left": after.left.to_json(),
            "forecasts": [forecast.to_json() for forecast in forecasts],
            "entry": curves.receipt.entry.sequence,
            "guarantee": curves.receipt.guarantee,
            "results": [
                {
                    "feature": curve.feature,
                    "json": str(path),
                    "png": str(path.with_suffix(".png")),
                    "table": curve.to_frame().to_dict("records"),
                }
                for curve, path in zip(curves, files, strict=True)
            ],
            "page": str(out / "index.html"),
        }
    )


def _publish(curves: Curves, out: Path, account: str, price: str) -> list[Path]:
    """Files for each curve and one page. What goes wrong here goes wrong after the release, and says so."""
    try:
        files = write_results(curves, out)
        sections = [Section("What the model has learned", results=list(curves))]
        html = page(f"Partial dependence, {account}", _lead(curves), sections)
        (out / "index.html").write_text(html, encoding="utf-8")
        return files
    except Exception as error:  # of results, which hold released values only
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise InputError(
            f"the explanation was released, but could not be drawn or written to {out}: {reason}.",
            hint="ask again with another --out: the release is kept in the ledger and free from now on",
            spent=f"{price} is spent, and released.",
        ) from None


def _prepare_folder(out: Path) -> None:
    """Find out that results can be written before anything is paid for them."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise InputError(f"{out} cannot be written to: {error.strerror}.", hint="--out names another folder") from None


def left_for(statement: Statement, analyst: str | None) -> Cost:
    """What is left for this analyst: of the account, and of their own limit."""
    left = statement.left
    for line in statement.analysts:
        if line.analyst == analyst and line.limit is not None:
            own = max(line.limit.amount - line.spent.amount, 0 * left.amount)
            left = replace(left, amount=min(left.amount, own))
    return left


def _request(
    domain: Domain, features: Sequence[str], pairs: Sequence[str], *, everything: bool, options: dict[str, Any]
) -> PartialDependence:
    """The request, its names checked against the domain."""
    if everything and features:
        raise InputError("give --feature or --all, not both.")
    views: list[Feature] = list(domain) if everything else list(dict.fromkeys(features))
    for pair in pairs:
        names = [name.strip() for name in pair.split(",")]
        if len(names) != 2:
            raise InputError(f"--pair takes two names; got {pair!r}.", hint="--pair age,sex")
        views.append((names[0], names[1]))
    if not views:
        raise InputError("name what to explain.", hint="--feature age, or --pair age,sex")
    request = PartialDependence(feature=views, **options)
    for name in request.features:
        domain.column(name)
    return request


def _resolvable(request: PartialDependence, domain: Domain, output: Any, neighbours: Neighbours, cost: Cost) -> None:
    """Refuse an impossible grid or mechanism here, before an account is opened."""
    spec = resolve(request, domain, output, neighbours, 1000 if neighbours.rows_public else None, cost)
    forecast(spec, neighbours, cost)


def _forecasts(
    request: PartialDependence, table: PrivateTable, output: Any, cost: Cost, n: int | None
) -> list[Forecast]:
    """The forecast in this account's own definition; the number of rows only where it is public."""
    budget: Budget = table.budget
    sizes = [table.size] if table.size is not None else [n] if n is not None else list(SOME_SIZES)
    found = []
    for size in sizes:
        both = forecast_of(
            request,
            domain=table.domain,
            n=size,
            relation=table.neighbours.relation,
            unit=table.neighbours.unit,
            rows_hint=table.rows_hint,
            output=output,
            epsilon=budget.epsilon_of(cost),
            delta=USUAL_DELTA if budget.delta is None else budget.delta,
        )
        mine = tuple(option for option in both.options if option.definition == budget.definition.value)
        found.append(replace(both, options=mine))
    return found


def _lead(curves: Curves) -> str:
    receipt = curves.receipt
    return (
        "Each plot shows how the model's mean prediction changes when one column is set to a value for everybody. "
        "Noise was added on purpose, so that little can be learned about any single one of the protected units; "
        "the shaded band says how much. "
        f"{receipt.guarantee}"
    )


def _known(project: Project | None) -> Project:
    assert project is not None
    return project


def _reviewed(path: Path) -> Domain:
    domain = load_domain(path)
    domain.require_review()
    return domain


def _pair_of_numbers(value: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in value.split(","))
    except ValueError:
        raise InputError(f"--output takes two numbers; got {value!r}.", hint="--output 0,1") from None
    return low, high


def _number(value: str | None, name: str) -> float | None:
    """A number as a person types it; whether it is allowed is for the budget to say."""
    if value is None:
        return None
    try:
        return float(value)
    except ValueError:
        raise InputError(f"--{name} must be a number; got {value!r}.", hint=f"--{name} 0.5") from None
