"""Open, forecast, release, publish: what a command or a service does with a project. Prints nothing.

Whatever can be wrong with a request is found out before the table is opened: nothing is spent on bad input.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpexplain.errors import InputError
from dpexplain.project.file import Project

if TYPE_CHECKING:
    from dpexplain.core.budget import Budget, Cost
    from dpexplain.core.domain import Domain
    from dpexplain.data.table import PrivateTable
    from dpexplain.ledger import Statement
    from dpexplain.methods.marginals.result import Marginals
    from dpexplain.methods.planning import Forecast
    from dpexplain.methods.result import Result
    from dpexplain.models import Model

SOME_SIZES = (1_000, 10_000, 100_000)  # for forecasts where nobody knows the number of rows


@dataclass(frozen=True)
class Task:
    """What is released, and what its page says about it."""

    request: Any
    explain: Callable[..., Any]  # (table, model, request, cost=...) -> a result, or several of one release
    title: str
    lead: str
    marginals: Marginals | None = None  # that were released before, for methods that draw from them

    @classmethod
    def of(cls, request: Any, marginals: Marginals | None = None) -> Task:
        """What the method of this request does."""
        from dpexplain.methods.registry import method_of

        method = method_of(request)
        return cls(request, method.load(method.explain), method.title, method.lead, marginals)

    def results(self, table: PrivateTable, model: Model, cost: Cost | None) -> list[Result]:
        from dpexplain.methods.result import Result

        known = {} if self.marginals is None else {"marginals": self.marginals}
        answer = self.explain(table, model, self.request, cost=cost, **known)
        return [answer] if isinstance(answer, Result) else list(answer)


Ask = Callable[["Domain", "Model"], Task]  # the request may need the columns of the domain and of the model


@dataclass(frozen=True)
class Files:
    """What was written: a page, and a .json for each result with a .png beside it."""

    page: Path
    results: list[Path]


@dataclass(frozen=True)
class Opened:
    """A request that was checked, and the table that it is about: ready to forecast and to release."""

    project: Project
    task: Task
    table: PrivateTable
    model: Model
    cost: Cost | None  # nothing for what follows from earlier releases
    out: Path

    @property
    def price(self) -> str:
        """The price in words."""
        return "nothing" if self.cost is None else self.table.budget.describe(self.cost)

    @property
    def statement(self) -> Statement:
        """The account as it stands now."""
        return self.table.ledger.statement(self.table.name)

    def forecasts(self, rows: int | None = None) -> list[Forecast]:
        """The error to expect: for the number of rows where it is public, for a guess, or for some examples."""
        from dpexplain.methods.planning import forecast
        from dpexplain.methods.setting import Setting

        table, cost = self.table, self.cost
        if cost is None:
            return []
        setting = replace(Setting.of(table, self.model, marginals=self.task.marginals), model=None)
        sizes = [table.size] if table.size is not None else [rows] if rows is not None else list(SOME_SIZES)
        return [forecast(self.task.request, replace(setting, rows=size), table.budget, cost) for size in sizes]

    def release(self) -> list[Result]:
        """Spend the price, and get the results; the same request again is answered from the ledger, free."""
        return self.task.results(self.table, self.model, self.cost)

    def publish(self, results: Sequence[Result]) -> Files:
        """Files for each result, and one page."""
        return publish(results, self.out, self.task.title, self.task.lead, self.table.name, self.price)


def opened(
    project: Project, ask: Ask, price: Callable[[Budget], Cost] | None, *, out: Path, analyst: str | None = None
) -> Opened:
    """The table of a project, opened for one request after all that can be wrong with it was found out.

    price   what is paid in an account of this budget; None where the answer follows from earlier releases
    out     the folder for `publish`, which must be writable before anything is paid
    """
    from dpexplain.methods.planning import forecast
    from dpexplain.methods.setting import Setting

    domain, budget = project.domain(), project.budget()
    cost = None if price is None else price(budget)
    model = project.model()
    task = ask(domain, model)
    if cost is not None:
        model.checked(domain)
        columns, neighbours = model.features(domain), project.neighbours
        hint = 1000 if neighbours.rows_public else project.rows_hint
        setting = Setting(domain, model.output, neighbours, 1000, hint, model.label, columns, task.marginals)
        setting = replace(setting, row_id=project.row_id)
        forecast(task.request, setting, budget, cost)  # refuses what no table could answer
    prepare_folder(out)
    return Opened(project, task, project.table(domain, analyst=analyst), model, cost, out)


def prepare_folder(out: Path) -> None:
    """Find out that results can be written before anything is paid for them."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise InputError(f"{out} cannot be written to: {error.strerror}.", hint="--out names another folder") from None


def publish(results: Sequence[Result], out: Path, title: str, lead: str, account: str, price: str) -> Files:
    """Files for each result and one page. What goes wrong here goes wrong after the release, and says so."""
    try:
        from dpexplain.receipts import in_brief
        from dpexplain.render.files import write_page, write_results
        from dpexplain.render.html import results_page

        files = write_results(results, out)
        words = (
            f"Shown is {lead}. Noise was added on purpose, so that little can be learned about any single one of "
            f"the protected units; the shaded band says how much. {results[0].receipt.guarantee} "
            f"Cleaning of the table: {in_brief(results[0].receipt.cleaning())}"
        )
        return Files(write_page(results_page(f"{title}, {account}", words, results), results, out), files)
    except Exception as error:  # of results, which hold released values only
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise InputError(
            f"the explanation was released, but could not be drawn or written to {out}: {reason}.",
            hint="ask again with another --out: the release is kept in the ledger and free from now on",
            spent=f"{price} is spent, and released.",
        ) from None


def left_for(statement: Statement, analyst: str | None) -> Cost:
    """What is left for this analyst: of the account, and of their own limit."""
    left = statement.left
    for line in statement.analysts:
        if line.analyst == analyst and line.limit is not None:
            own = max(line.limit.amount - line.spent.amount, 0 * left.amount)
            left = replace(left, amount=min(left.amount, own))
    return left
