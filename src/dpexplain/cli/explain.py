"""`dpexplain plan` and the commands that release: `pdp`, `ale`, `importance`, `interactions`.

Everything that can be wrong with a request is found out before the table is opened: nothing is spent on bad input.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from dpexplain.explainers import accumulated_effects, interaction_ranking, partial_dependence, permutation_importance
from dpexplain.explainers.partial_dependence import Feature, PartialDependence
from dpexplain.ledger import Statement
from dpexplain.models import Model
from dpexplain.planning import Forecast
from dpexplain.planning import plan as forecast_of
from dpexplain.render import text as words
from dpexplain.render.files import write_results
from dpexplain.render.html import Section, page
from dpexplain.results import Curve, Result

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
    explainer: str,
    target: str | None,
    options: dict[str, Any],
) -> None:
    if (epsilon is None) == (max_error is None):
        raise InputError("give exactly one of --epsilon and --max-error.", hint="plan --feature age --epsilon 0.5")
    found = None if domain_file and output and relation else Project.load(project)
    domain = _reviewed(domain_file) if domain_file else _known(found).domain()
    span = _pair_of_numbers(output) if output else _known(found).output
    neighbours = Neighbours(Relation.parse(relation)) if relation else _known(found).neighbours
    named, aim = list(dict.fromkeys(features)), target or (None if found is None else found.target)
    request = _plan_request(explainer, domain, named, pairs, aim, options)
    label = None if found is None else found.label
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
            label=label,
            features=[name for name in domain if name != aim],
        )
        for size in ([n] if n is not None else SOME_SIZES)
    ]
    reporter.show(words.forecast_view(forecasts), "Nothing was read and nothing was spent.")
    reporter.finish({"forecasts": [forecast.to_json() for forecast in forecasts]})


@dataclass(frozen=True)
class Task:
    """What one command releases, and what its page says about it."""

    request: Any
    explain: Callable[..., Any]  # (table, model, request, cost=...) -> a result, or several of one release
    title: str
    lead: str


@dataclass(frozen=True)
class Price:
    """What a person typed about the price, and who pays it."""

    epsilon: str | None
    rho: str | None
    n: int | None
    analyst: str | None

    def cost(self, budget: Budget) -> Cost:
        if (self.epsilon is None) == (self.rho is None):
            raise InputError("give exactly one of --epsilon and --rho.", hint="--epsilon 0.5 works in every account")
        return budget.cost(epsilon=_number(self.epsilon, "epsilon"), rho=_number(self.rho, "rho"))


def pdp(
    reporter: Reporter,
    project: Path,
    *,
    features: Sequence[str],
    pairs: Sequence[str],
    everything: bool,
    price: Price,
    out: Path,
    options: dict[str, Any],
) -> None:
    def task(domain: Domain, model: Model) -> Task:
        views: list[Feature] = _named(features, everything, model.features(domain))
        request = _pdp_request(domain, views, pairs, options)
        lead = "how the model's mean prediction changes when one column is set to a value for everybody"
        return Task(request, partial_dependence.explain, "Partial dependence", lead)

    release(reporter, project, task, price, out)


def ale(
    reporter: Reporter,
    project: Path,
    *,
    features: Sequence[str],
    everything: bool,
    price: Price,
    out: Path,
    options: dict[str, Any],
) -> None:
    def task(domain: Domain, model: Model) -> Task:
        names = _named(features, everything, model.features(domain))
        if not names:
            raise InputError("name what to explain.", hint="--feature age, or --all")
        for name in names:
            domain.column(name)
        lead = "how the prediction changes along a column for the rows that have about that value"
        request = accumulated_effects.AccumulatedEffects(feature=names, **options)
        return Task(request, accumulated_effects.explain, "Accumulated effects", lead)

    release(reporter, project, task, price, out)


def importance(
    reporter: Reporter,
    project: Path,
    *,
    target: str | None,
    features: Sequence[str],
    price: Price,
    out: Path,
    options: dict[str, Any],
) -> None:
    named = _needed(target or Project.load(project).target)

    def task(domain: Domain, model: Model) -> Task:  # noqa: ARG001 - every task is made from both
        asked = list(dict.fromkeys(features)) or None
        request = permutation_importance.PermutationImportance(target=named, features=asked, **options)
        lead = "how much worse the model predicts when one column is exchanged between rows"
        return Task(request, permutation_importance.explain, "Importance", lead)

    release(reporter, project, task, price, out)


def interactions(
    reporter: Reporter,
    project: Path,
    *,
    features: Sequence[str],
    price: Price,
    out: Path,
    options: dict[str, Any],
) -> None:
    def task(domain: Domain, model: Model) -> Task:  # noqa: ARG001 - every task is made from both
        asked = list(dict.fromkeys(features)) or None
        request = interaction_ranking.InteractionRanking(features=asked, **options)
        lead = "which columns act together, so that their joint effect is not the sum of their own ones"
        return Task(request, interaction_ranking.explain, "Interactions", lead)

    release(reporter, project, task, price, out)


def release(
    reporter: Reporter, project: Path, task: Callable[[Domain, Model], Task], price: Price, out: Path
) -> list[Result]:
    """Everything that can be wrong is found out before the table is opened; then forecast, release, files, words."""
    found = Project.load(project)
    domain, budget = found.domain(), found.budget()
    cost = price.cost(budget)
    model = found.model()
    job = task(domain, model)
    model.checked(domain)
    _forecast(job, domain, model, found.neighbours, 1000, found.rows_hint, budget, cost)  # refuses the impossible
    prepare_folder(out)

    table = found.table(domain, analyst=price.analyst)
    before = table.ledger.statement(table.name)
    forecasts = _forecasts(job, table, model, cost, price.n)
    reporter.show(words.forecast_view(forecasts))
    if table.size is None and price.n is None:
        reporter.show("The number of rows is private, so these are examples; --n gives your own guess.")
    reporter.show(
        f"Price: {budget.describe(cost)}.",
        f"Left before: {text(words.left_text(budget, left_for(before, price.analyst)))}.",
        "",
    )
    answer = job.explain(table, model, job.request, cost=cost)
    results: list[Result] = [answer] if isinstance(answer, Result) else list(answer)
    after = table.ledger.statement(table.name)
    files = publish(results, out, job, table.name, budget.describe(cost))

    for result in results:
        reporter.show(words.result_view(result), "")
    receipt = results[0].receipt
    free = receipt.replayed
    reporter.show(
        "Already released: answered from the ledger, free." if free else f"Spent: {budget.describe(cost)}.",
        f"Left: {text(words.left_text(budget, left_for(after, price.analyst)))}.",
        f"Files: {text(out)}/index.html, and for each plot a .png and a .json with its receipt (`dpexplain verify`).",
    )
    reporter.finish(
        {
            "account": table.name,
            "label": job.request.label,
            "price": cost.to_json(),
            "spent_now": not free,
            "left": after.left.to_json(),
            "forecasts": [forecast.to_json() for forecast in forecasts],
            "entry": receipt.entry.sequence,
            "guarantee": receipt.guarantee,
            "results": [
                {
                    "feature": result.feature if isinstance(result, Curve) else None,
                    "kind": result.kind,
                    "json": str(path),
                    "png": str(path.with_suffix(".png")),
                    "table": records(result),
                }
                for result, path in zip(results, files, strict=True)
            ],
            "page": str(out / "index.html"),
        }
    )
    return results


def records(result: Result) -> list[dict[Any, Any]]:
    """The result's table for JSON: what is not there is null."""
    frame = result.to_frame().astype(object)
    return frame.where(frame.notna(), None).to_dict("records")


def publish(results: Sequence[Result], out: Path, job: Task, account: str, price: str) -> list[Path]:
    """Files for each result and one page. What goes wrong here goes wrong after the release, and says so."""
    try:
        files = write_results(results, out)
        sections = [Section("What the model has learned", results=results)]
        lead = (
            f"Shown is {job.lead}. Noise was added on purpose, so that little can be learned about any single one of "
            f"the protected units; the shaded band says how much. {results[0].receipt.guarantee}"
        )
        (out / "index.html").write_text(page(f"{job.title}, {account}", lead, sections), encoding="utf-8")
        return files
    except Exception as error:  # of results, which hold released values only
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise InputError(
            f"the explanation was released, but could not be drawn or written to {out}: {reason}.",
            hint="ask again with another --out: the release is kept in the ledger and free from now on",
            spent=f"{price} is spent, and released.",
        ) from None


def prepare_folder(out: Path) -> None:
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


def _plan_request(
    explainer: str, domain: Domain, named: list[str], pairs: Sequence[str], target: str | None, options: dict[str, Any]
) -> Any:
    """The request that is planned: what its command would ask for."""
    if explainer == "pdp":
        return _pdp_request(domain, named, pairs, options)
    common = {key: options[key] for key in ("method", "mechanism")}
    if pairs or options["grid"] is not None or not options["rug"]:
        raise InputError("--pair, --grid and --no-rug belong to partial dependence.", hint="--explainer pdp")
    if explainer == "ale":
        if not named:
            raise InputError("name what to explain.", hint="--feature age")
        return accumulated_effects.AccumulatedEffects(feature=named, **common)
    if explainer == "importance":
        return permutation_importance.PermutationImportance(target=_needed(target), features=named or None, **common)
    if explainer == "interactions":
        return interaction_ranking.InteractionRanking(features=named or None, mechanism=common["mechanism"])
    raise InputError(f"unknown explainer {explainer!r}.", hint="use pdp, ale, importance or interactions")


def _needed(target: str | None) -> str:
    if target is None:
        raise InputError(
            "name the column that the model predicts.",
            hint='--target NAME, or target = "NAME" in [model]; it must be declared in the domain',
        )
    return target


def _named(features: Sequence[str], everything: bool, all_features: Sequence[str]) -> list[Any]:
    """The features asked for, each once; all that the model uses with --all."""
    if everything and features:
        raise InputError("give --feature or --all, not both.")
    return list(all_features) if everything else list(dict.fromkeys(features))


def _pdp_request(
    domain: Domain, named: Sequence[Feature], pairs: Sequence[str], options: dict[str, Any]
) -> PartialDependence:
    """The request, its names checked against the domain."""
    views = list(named)
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


def _forecast(
    job: Task,
    domain: Domain,
    model: Model,
    neighbours: Neighbours,
    rows: int,
    hint: int | None,
    budget: Budget,
    cost: Cost,
) -> Forecast:
    """The forecast in this account's own definition."""
    both = forecast_of(
        job.request,
        domain=domain,
        n=rows,
        relation=neighbours.relation,
        unit=neighbours.unit,
        rows_hint=hint,
        output=model.output,
        epsilon=budget.epsilon_of(cost),
        delta=USUAL_DELTA if budget.delta is None else budget.delta,
        label=model.label,
        features=model.features(domain),
    )
    own = tuple(option for option in both.options if option.definition == budget.definition.value)
    if not own:
        raise InputError(
            "a pure account cannot pay for this: it needs Gaussian noise.",
            hint="open an account with a delta: [budget] delta = 1e-6",
        )
    return replace(both, options=own)


def _forecasts(job: Task, table: PrivateTable, model: Model, cost: Cost, n: int | None) -> list[Forecast]:
    """For the number of rows where it is public, or for a guess, or for some examples."""
    sizes = [table.size] if table.size is not None else [n] if n is not None else list(SOME_SIZES)
    return [
        _forecast(job, table.domain, model, table.neighbours, size, table.rows_hint, table.budget, cost)
        for size in sizes
    ]


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
