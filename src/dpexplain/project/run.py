"""Open, forecast, release, publish: what a command or a service does with a project. Prints nothing.

Whatever can be wrong with a request is found out before the table is opened: nothing is spent on bad input.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpexplain.errors import BudgetError, DpexplainError, InputError
from dpexplain.methods.registry import Method, method_of
from dpexplain.project.file import Project

if TYPE_CHECKING:
    from dpexplain.core.budget import Budget, Cost
    from dpexplain.core.domain import Domain
    from dpexplain.data.table import PrivateTable
    from dpexplain.ledger import Statement
    from dpexplain.methods.planning import Forecast
    from dpexplain.methods.request import Request
    from dpexplain.methods.result import Result

SOME_SIZES = (1_000, 10_000, 100_000)  # for forecasts where nobody knows the number of rows


@dataclass(frozen=True)
class Task:
    """What is released, and what its page says about it."""

    request: Request
    known: Mapping[str, Any] = field(default_factory=dict)  # released before, by the keywords that `explain` takes

    @property
    def method(self) -> Method:
        return method_of(self.request)

    @property
    def lead(self) -> str:
        return self.request.lead or self.method.lead

    def results(self, table: PrivateTable, subject: Any, cost: Cost | None) -> list[Result]:
        from dpexplain.methods.result import Result

        answer = self.method.load(self.method.explain)(table, subject, self.request, cost=cost, **self.known)
        return [answer] if isinstance(answer, Result) else list(answer)


Find = Callable[[Project, "Domain"], Any]  # what is explained: a model, a clustering, or clusters that are Wanted
Ask = Callable[["Domain", Any], Task]  # the request may need the columns of the domain and of what is explained


@dataclass(frozen=True)
class Wanted:
    """Clusters that private k-means finds first, paid from the same account."""

    k: int
    epsilon: float

    def __post_init__(self) -> None:
        from dpexplain.methods.kmeans.request import KMeans

        KMeans(k=self.k)  # refuses a wrong number

    @property
    def labels(self) -> list[str]:
        return [str(number) for number in range(self.k)]


@dataclass(frozen=True)
class Files:
    """What was written: a page, a .json for each result with a .png beside it, and pages of their own for people."""

    page: Path
    results: list[Path]
    pages: list[Path]


@dataclass(frozen=True)
class Opened:
    """A request that was checked, and the table that it is about: ready to forecast and to release."""

    project: Project
    task: Task
    table: PrivateTable
    subject: Any
    cost: Cost | None  # nothing for what follows from earlier releases
    out: Path

    @property
    def price(self) -> str:
        """The cost in words."""
        describe = self.table.budget.describe
        first = "" if self._first is None else f", and {describe(self._first)} for k-means"
        return "nothing" if self.cost is None else describe(self.cost) + first

    @property
    def _first(self) -> Cost | None:
        """The cost of finding clusters, where they are found here."""
        return self.table.budget.cost(epsilon=self.subject.epsilon) if isinstance(self.subject, Wanted) else None

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
        setting = replace(Setting.of(table, self.subject), model=_whole(self.subject), **self.task.known)
        sizes = [table.size] if table.size is not None else [rows] if rows is not None else list(SOME_SIZES)
        return [forecast(self.task.request, replace(setting, rows=size), table.budget, cost) for size in sizes]

    def release(self) -> list[Result]:
        """Spend the cost, and get the results; the same request again is answered from the ledger, free."""
        first = self._first
        if first is None:
            return self.task.results(self.table, self.subject, self.cost)
        from dpexplain.methods.kmeans.release import dp_kmeans

        self._require_both(first)
        clustering = dp_kmeans(self.table, self.subject.k, epsilon=self.subject.epsilon)
        centres = clustering.result
        assert centres is not None
        try:
            return [*self.task.results(self.table, clustering, self.cost), centres]
        except DpexplainError as error:
            if not centres.receipt.replayed:  # the clusters were found and paid for
                paid = self.table.budget.describe(first)
                error.spent = f"{paid} was spent on k-means, whose clusters are in the ledger."
            raise

    def _require_both(self, first: Cost) -> None:
        """Refuse what cannot be paid for before clusters are paid for."""
        from dpexplain.render import text as words

        assert self.cost is not None
        budget, both, left = self.table.budget, first + self.cost, left_for(self.statement, self.table.analyst)
        if not both <= left:
            raise BudgetError(
                f"k-means and explanation together cost {budget.describe(both)}; "
                f"left is {words.left_text(budget, left)}.",
                hint="use a smaller epsilon",
            )

    def publish(self, results: Sequence[Result]) -> Files:
        """Files for each result, and one page. What goes wrong here goes wrong after the release, and says so."""
        try:
            from dpexplain.receipts import in_brief
            from dpexplain.render.files import write_page, write_results
            from dpexplain.render.html import results_page

            files = write_results(results, self.out)
            words = (
                f"Shown is {self.task.lead}. Noise was added on purpose, so that little can be learned about any "
                "single one of the protected units; the shaded band says how much. "
                f"{results[0].receipt.guarantee} Cleaning of the table: {in_brief(results[0].receipt.cleaning())}"
            )
            page = results_page(f"{self.task.method.title}, {self.table.name}", words, results)
            pages = []
            for result, path in zip(results, files, strict=True):
                if hasattr(result, "to_html"):  # a page of its own, beside its .json
                    pages.append(path.with_suffix(".html"))
                    result.to_html(pages[-1])
            return Files(write_page(page, results, self.out), files, pages)
        except Exception as error:  # of results, which hold released values only
            reason = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise InputError(
                f"the explanation was released, but could not be drawn or written to {self.out}: {reason}.",
                hint="ask again with another --out: the release is kept in the ledger and free from now on",
                spent=f"{self.price} is spent, and released.",
            ) from None


def model_of(project: Project, _domain: Domain) -> Any:
    """The model of a project: what most methods explain."""
    return project.model()


def opened(
    project: Project,
    ask: Ask,
    price: Callable[[Budget], Cost] | None,
    *,
    out: Path,
    analyst: str | None = None,
    find: Find = model_of,
) -> Opened:
    """The table of a project, opened for one request after all that can be wrong with it was found out.

    price   what is paid in an account of this budget; None where the answer follows from earlier releases
    out     the folder for `publish`, which must be writable before anything is paid
    find    what is explained
    """
    from dpexplain.methods.planning import forecast
    from dpexplain.methods.setting import Setting
    from dpexplain.models import Model
    from dpexplain.models.classes import checked_whole

    domain, budget = project.domain(), project.budget()
    cost = None if price is None else price(budget)
    subject = find(project, domain)
    task = ask(domain, subject)
    if cost is not None:
        if isinstance(subject, Model):
            checked_whole(subject, domain)
        setting = Setting.declared(domain, project.neighbours, subject, rows=1000, hint=project.rows_hint)
        setting = replace(setting, model=_whole(subject), row_id=project.row_id, **task.known)
        forecast(task.request, setting, budget, cost)  # refuses what no table could answer
    prepare_folder(out)
    return Opened(project, task, project.table(domain, analyst=analyst), subject, cost, out)


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


def _whole(subject: Any) -> Any:
    """A model whose classes are explained together: what a request is about depends on them. Others are not tried here,
    so that a forecast takes no time.
    """
    return subject if getattr(subject, "every_class", ()) else None
