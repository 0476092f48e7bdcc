"""What every command that releases does: open, forecast, release, write, tell.

Everything that can be wrong with a request is found out before the table is opened: nothing is spent on bad input.
What this file and the commands need is imported where it is used, so that `--help` is quick.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpexplain.cli.options import Call, Price
from dpexplain.cli.project import Project
from dpexplain.cli.report import text
from dpexplain.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from dpexplain.core.budget import Budget, Cost
    from dpexplain.core.domain import Domain
    from dpexplain.core.sensitivity import Neighbours
    from dpexplain.data.table import PrivateTable
    from dpexplain.ledger import Statement
    from dpexplain.models import Model
    from dpexplain.planning import Forecast
    from dpexplain.results import Marginals, Result

SOME_SIZES = (1_000, 10_000, 100_000)
USUAL_DELTA = 1e-6


@dataclass(frozen=True)
class Task:
    """What one command releases, and what its page says about it."""

    request: Any
    explain: Callable[..., Any]  # (table, model, request, cost=...) -> a result, or several of one release
    title: str
    lead: str
    marginals: Marginals | None = None  # that were released before, for explainers that draw from them

    def results(self, table: PrivateTable, model: Model, cost: Cost | None) -> list[Result]:
        from dpexplain.results import Result

        known = {} if self.marginals is None else {"marginals": self.marginals}
        answer = self.explain(table, model, self.request, cost=cost, **known)
        return [answer] if isinstance(answer, Result) else list(answer)


Ask = Callable[["Domain", "Model"], Task]


@dataclass(frozen=True)
class Files:
    """What was written: a page, and a .json for each result with a .png beside it."""

    page: Path
    results: list[Path]


@dataclass(frozen=True)
class Released:
    results: list[Result]
    files: Files


def release(call: Call, price: Price, ask: Ask, *, n: int | None = None) -> Released:
    """Check, forecast, release; then files and words."""
    from dpexplain.render import text as words
    from dpexplain.results import Curve

    found = Project.load(call.project)
    domain, budget = found.domain(), found.budget()
    cost = price.cost(budget)
    model = found.model()
    task = ask(domain, model)
    model.checked(domain)
    _forecast(task, domain, model, found.neighbours, 1000, found.rows_hint, budget, cost)  # refuses the impossible
    prepare_folder(call.out)

    table = found.table(domain, analyst=call.analyst)
    before = table.ledger.statement(table.name)
    forecasts = _forecasts(task, table, model, cost, n)
    call.reporter.show(words.forecast_view(forecasts))
    if budget.delta is None and not found.wants and not before.rows:
        call.reporter.show("This opens a pure account, for ever: `sketch` and `local` cannot be paid from it.")
    if table.size is None and n is None:
        call.reporter.show("The number of rows is private, so these are examples; --n gives your own guess.")
    call.reporter.show(f"Price: {budget.describe(cost)}.", left("Left before", before, call.analyst), "")
    results = task.results(table, model, cost)
    after = table.ledger.statement(table.name)
    files = publish(results, call.out, task, table.name, budget.describe(cost))

    receipt = results[0].receipt
    show_results(call, results)
    call.reporter.show(
        "Already released: answered from the ledger, free." if receipt.replayed else f"Spent: {budget.describe(cost)}.",
        left("Left", after, call.analyst),
        where(files, "plot"),
    )
    call.reporter.finish(
        {
            "account": table.name,
            "label": task.request.label,
            "price": cost.to_json(),
            "spent_now": not receipt.replayed,
            "left": after.left.to_json(),
            "forecasts": [forecast.to_json() for forecast in forecasts],
            "entry": receipt.entry.sequence,
            "guarantee": receipt.guarantee,
            "results": [
                {"feature": result.feature if isinstance(result, Curve) else None, **facts}
                for result, facts in zip(results, listed(results, files.results), strict=True)
            ],
            "page": str(files.page),
        }
    )
    return Released(results, files)


def free(call: Call, ask: Ask) -> Released:
    """The same from values that were paid for before: no price, no forecast."""
    found = Project.load(call.project)
    domain, model = found.domain(), found.model()
    task = ask(domain, model)
    prepare_folder(call.out)
    table = found.table(domain, analyst=call.analyst)
    results = task.results(table, model, None)
    files = publish(results, call.out, task, table.name, "nothing")
    show_results(call, results)
    call.reporter.show("Free: computed from released values alone.", f"Files: {text(files.page)}.")
    call.reporter.finish(
        {
            "account": table.name,
            "guarantee": results[0].receipt.guarantee,
            "entry": results[0].receipt.entry.sequence,
            "spent_now": False,
            "results": listed(results, files.results),
            "page": str(files.page),
        }
    )
    return Released(results, files)


# Files and words ------------------------------------------------------------------------------------------------------


def prepare_folder(out: Path) -> None:
    """Find out that results can be written before anything is paid for them."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise InputError(f"{out} cannot be written to: {error.strerror}.", hint="--out names another folder") from None


def publish(results: Sequence[Result], out: Path, task: Task, account: str, price: str) -> Files:
    """Files for each result and one page. What goes wrong here goes wrong after the release, and says so."""
    try:
        from dpexplain.render.files import write_page, write_results
        from dpexplain.render.html import results_page
        from dpexplain.results.cleaning import in_brief

        files = write_results(results, out)
        lead = (
            f"Shown is {task.lead}. Noise was added on purpose, so that little can be learned about any single one of "
            f"the protected units; the shaded band says how much. {results[0].receipt.guarantee} "
            f"Cleaning of the table: {in_brief(results[0].receipt.cleaning())}"
        )
        return Files(write_page(results_page(f"{task.title}, {account}", lead, results), results, out), files)
    except Exception as error:  # of results, which hold released values only
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise InputError(
            f"the explanation was released, but could not be drawn or written to {out}: {reason}.",
            hint="ask again with another --out: the release is kept in the ledger and free from now on",
            spent=f"{price} is spent, and released.",
        ) from None


def show_results(call: Call, results: Sequence[Result]) -> None:
    from dpexplain.render import text as words
    from dpexplain.results.cleaning import in_brief

    for result in results:
        call.reporter.show(words.result_view(result), "")
    if cleaning := results[0].receipt.cleaning():
        call.reporter.show(f"Cleaning of the table: {text(in_brief(cleaning))}", "")


def where(files: Files, each: str) -> str:
    """The files that were written, in words."""
    return f"Files: {text(files.page)}, and for each {each} a .png and a .json with its receipt (`dpexplain verify`)."


def listed(results: Sequence[Result], files: Sequence[Path]) -> list[dict[str, Any]]:
    """Every result with its files, for --json."""
    from dpexplain.results.influence import TableInfluence

    found = []
    for result, path in zip(results, files, strict=True):
        facts = {"kind": result.kind, "json": str(path), "png": str(path.with_suffix(".png"))}
        found.append({**facts, "table": records(result.to_frame())})
        if isinstance(result, TableInfluence) and (rates := result.disparity) is not None:
            found[-1] |= {"disparity": records(rates.to_frame()), "positive": rates.meaning}
    return found


def records(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """A table for JSON: what is not there is null."""
    frame = frame.astype(object)
    return frame.where(frame.notna(), None).to_dict("records")


# The account ----------------------------------------------------------------------------------------------------------


def left_for(statement: Statement, analyst: str | None) -> Cost:
    """What is left for this analyst: of the account, and of their own limit."""
    found = statement.left
    for line in statement.analysts:
        if line.analyst == analyst and line.limit is not None:
            own = max(line.limit.amount - line.spent.amount, 0 * found.amount)
            found = replace(found, amount=min(found.amount, own))
    return found


def left(when: str, statement: Statement, analyst: str | None) -> str:
    """The same in words."""
    from dpexplain.render import text as words

    return f"{when}: {text(words.left_text(statement.budget, left_for(statement, analyst)))}."


def _forecast(
    task: Task,
    domain: Domain,
    model: Model,
    neighbours: Neighbours,
    rows: int,
    hint: int | None,
    budget: Budget,
    cost: Cost,
) -> Forecast:
    """The forecast in this account's own definition."""
    from dpexplain.explainers.outlook import OPEN_WITH_DELTA
    from dpexplain.planning import plan

    both = plan(
        task.request,
        domain=domain,
        n=rows,
        relation=neighbours.relation,
        unit=neighbours.unit,
        rows_hint=hint,
        model=model,
        epsilon=budget.epsilon_of(cost),
        delta=USUAL_DELTA if budget.delta is None else budget.delta,
        marginals=task.marginals,
    )
    own = tuple(option for option in both.options if option.definition == budget.definition.value)
    if not own:
        raise InputError(
            "a pure account cannot pay for this: it needs Gaussian noise.",
            hint=OPEN_WITH_DELTA,
        )
    return replace(both, options=own)


def _forecasts(task: Task, table: PrivateTable, model: Model, cost: Cost, n: int | None) -> list[Forecast]:
    """For the number of rows where it is public, or for a guess, or for some examples."""
    sizes = [table.size] if table.size is not None else [n] if n is not None else list(SOME_SIZES)
    return [
        _forecast(task, table.domain, model, table.neighbours, size, table.rows_hint, table.budget, cost)
        for size in sizes
    ]
