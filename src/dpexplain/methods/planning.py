"""What will it cost, how good will it be? Answered before anything is paid, from public things alone.

A forecast puts a pure account and a zCDP account side by side, because the choice is made once, when the account is
opened: pure epsilon is better for a few small releases, zCDP for many or for long vectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dpexplain.core.budget import Budget, Cost, exact
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain, PublicRange
from dpexplain.core.sensitivity import Neighbours, Relation, Unit
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError
from dpexplain.methods.batches.release import plan_batch
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.registry import Method, method_of
from dpexplain.methods.reports.plan import ReportForecast, plan_report
from dpexplain.methods.reports.request import ReportRequest
from dpexplain.methods.request import Request
from dpexplain.methods.setting import OPEN_WITH_DELTA, Outlook, Setting
from dpexplain.models import Model, ModelPair

if TYPE_CHECKING:
    import pandas as pd

    from dpexplain.methods.batches.forecast import BatchForecast
    from dpexplain.methods.performance.result import Performance
    from dpexplain.methods.stand_in.result import StandIn

USUAL_DELTA = 1e-6


@dataclass(frozen=True, kw_only=True)
class Option(Outlook):
    """One way to pay: the cost in one definition, and what it buys. `interval` is always a number here."""

    definition: str
    epsilon: float
    delta: float | None
    rho: float | None
    interval: float


@dataclass(frozen=True)
class Forecast:
    """The options for one request, the better one first in `best`."""

    label: str
    rows: int
    neighbours: Neighbours
    options: tuple[Option, ...]
    needs_delta: bool = False  # a pure account cannot pay for it

    @property
    def best(self) -> Option:
        return min(self.options, key=lambda option: (option.epsilon, option.error))

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([asdict(option) for option in self.options])

    def to_json(self) -> JsonObject:
        return {
            "label": self.label,
            "rows": self.rows,
            "neighbours": self.neighbours.to_json(),
            "options": [asdict(option) for option in self.options],
            "needs_delta": self.needs_delta,
        }

    def __str__(self) -> str:
        from dpexplain.render.text import forecast_text

        return forecast_text(self)


@overload
def plan(
    request: list[Any] | tuple[Any, ...], *, table: PrivateTable, model: Model | None = None, epsilon: Any = None,
    max_error: Any = None, weights: Any = None, clustering: Any = None, n: int | None = None,
) -> BatchForecast: ...  # fmt: skip
@overload
def plan(  # type: ignore[overload-overlap]  # a report is a request whose forecast says more
    request: ReportRequest, *, table: PrivateTable, model: Model, epsilon: Any = None, weights: Any = None,
    clustering: Any = None, n: int | None = None,
) -> ReportForecast: ...  # fmt: skip
@overload
def plan(
    request: Request, *, table: PrivateTable | None = None, domain: Domain | None = None, n: int | None = None,
    relation: str | Relation | None = None, output: tuple[float, float] | PublicRange | None = None,
    unit: Unit | None = None, rows_hint: int | None = None, epsilon: Any = None, max_error: Any = None,
    delta: Any = None, label: Any = None, features: Sequence[str] | None = None, marginals: Marginals | None = None,
    performance: Performance | None = None, stand_in: StandIn | None = None, model: Model | None = None,
) -> Forecast: ...  # fmt: skip
def plan(
    request: Any,
    *,
    table: PrivateTable | None = None,
    domain: Domain | None = None,
    n: int | None = None,
    relation: str | Relation | None = None,
    output: tuple[float, float] | PublicRange | None = None,
    unit: Unit | None = None,
    rows_hint: int | None = None,
    epsilon: Any = None,
    max_error: Any = None,
    delta: Any = None,
    label: Any = None,
    features: Sequence[str] | None = None,
    marginals: Marginals | None = None,
    performance: Performance | None = None,
    stand_in: StandIn | None = None,
    model: Model | Sequence[Model] | None = None,
    weights: Mapping[Any, float] | Sequence[float] | None = None,
    clustering: Any = None,
) -> Any:
    """The error at a given epsilon, or the epsilon for a wanted error. Reads no row and spends nothing.

    A report is planned as `dpx.report` would release it: a `ReportForecast` says which sections it has, and what each
    is worth. A list of requests is planned as `dpx.batch` would release it: a `BatchForecast` says how the total is
    divided between them, and the error of each. It takes table, model, clustering, epsilon or max_error (an error for
    each request or its label), weights (how much the error of a request matters) and n.

    With a `table` everything else follows from it: its domain, relation, number of rows and kind of account (where the
    number of rows is private, from its `rows_hint`, or from n, your own guess).

    Without one, say `domain`, `relation` (and `unit`) and n, about how many rows there are; a pure account and one with
    a `delta` (1e-6 by default) are compared. Where the number of rows is private, `rows_hint` is the hint that the
    table will have, by which grids, draws and forms are chosen.

    `max_error` is the error to expect of each released value: sharpening makes it smaller, by how much is not known
    beforehand. `marginals` were released before, for methods that draw from them, a `performance` for the influence on
    a disparity, and a `stand_in` for curves. With the `model`, importance and local
    explanations are tried on public rows, drawn evenly from the domain, which makes their expected errors sharper.
    Without it say its `output` range (0 to 1 by default), `label` and `features`. A comparison has two, [old, new].
    """
    if isinstance(request, list | tuple | ReportRequest):
        others = {
            "domain": domain, "relation": relation, "output": output, "unit": unit, "rows_hint": rows_hint,
            "delta": delta, "label": label, "features": features, "marginals": marginals, "performance": performance,
            "stand_in": stand_in,
        }  # fmt: skip
        _require_none(others, "a batch is planned for a table")
        if table is None:
            raise InputError("table is missing.", hint="dpx.plan([request, ...], table=table, model=model, epsilon=1)")
        about: dict[str, Any] = {"max_error": max_error, "weights": weights, "clustering": clustering, "rows": n}
        if isinstance(request, ReportRequest):
            _require_none({"max_error": about.pop("max_error")}, "a report is planned for an epsilon")
            if not isinstance(model, Model):
                raise InputError("model must be a dpx.Model.", hint="dpx.Model(estimator, output=(0, 1))", spent="")
            return plan_report(request, table, model, epsilon=epsilon, **about)
        return plan_batch(request, table, model, epsilon=epsilon, **about)[1]
    _require_none({"weights": weights, "clustering": clustering}, "it is for a list of requests")
    if (epsilon is None) == (max_error is None):
        raise InputError("give exactly one of epsilon and max_error.", spent="")
    method = _method(request)
    needy = method.needs_delta or request.needs_delta
    if marginals is not None and not isinstance(marginals, Marginals):
        raise InputError("marginals must be a result of dpx.marginals, or the .marginals of another result.", spent="")
    for name, earlier in (("performance", performance), ("stand-in", stand_in)):
        if earlier is not None and name not in method.takes:
            raise InputError(f"{method.name} takes no {name}.", hint="leave it out", spent="")
    if n is not None and (isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 2):
        raise InputError(f"n must be a whole number of at least 2; got {n!r}.", spent="")
    compared = ModelPair.of(model) if isinstance(model, list | tuple) and method.name == "compare" else model
    if compared is not None and not isinstance(compared, Model | ModelPair):
        raise InputError("model must be a dpx.Model.", hint="dpx.Model(estimator, output=(0, 1))", spent="")
    rows = None if n is None else int(n)
    if table is not None:
        known = {"domain": domain, "relation": relation, "unit": unit, "rows_hint": rows_hint, "delta": delta}
        known |= {"output": output, "label": label, "features": features} if model is not None else {}
        setting = _setting_of(table, compared, rows, marginals, [name for name, v in known.items() if v is not None])
        setting = _with_public(setting, output, label, features)
        budgets = [table.budget]
        _require_delta(needy, table.budget)
    else:
        if domain is None or relation is None or rows is None:
            missing = "domain" if domain is None else "relation" if relation is None else "n"
            raise InputError(
                f"{missing} is missing.", hint="dpx.plan(request, table=table, model=model, epsilon=0.5)", spent=""
            )
        neighbours = Neighbours(Relation.parse(relation), unit)
        setting = Setting.declared(domain, neighbours, compared, rows=rows, hint=rows_hint)
        setting = replace(setting, marginals=marginals)
        setting = _with_public(setting, output, label, features)
        pure = [] if needy else [Budget(1)]
        budgets = [*pure, Budget(1, USUAL_DELTA if delta is None else delta)]
    setting, options = replace(setting, performance=performance, stand_in=stand_in), []
    for budget in budgets:

        def at(price: Any, budget: Budget = budget) -> Option:
            return _option(method, request, setting, budget, budget.cost(epsilon=price))

        options.append(at(epsilon) if max_error is None else _cheapest(at, float(exact(max_error, "max_error"))))
    return Forecast(request.label, setting.rows, setting.neighbours, tuple(options), needy)


def _require_none(options: Mapping[str, Any], why: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name} has no meaning here: {why}.", hint="leave it out", spent="")


def forecast(request: Any, setting: Setting, budget: Budget, cost: Cost) -> Forecast:
    """What a cost buys in an account of this kind."""
    method = _method(request)
    needy = method.needs_delta or request.needs_delta
    _require_delta(needy, budget)
    option = _option(method, request, setting, budget, cost)
    return Forecast(request.label, setting.rows, setting.neighbours, (option,), needy)


def _method(request: Any) -> Method:
    try:
        return method_of(request)
    except InputError as error:
        error.message = error.message.replace("this is about", "a plan is about")
        error.hint = f"dpx.plan({error.hint}, ...)"
        raise


def _require_delta(needy: bool, budget: Budget) -> None:
    if needy and budget.delta is None:
        raise InputError("a pure account cannot pay for this: it needs Gaussian noise.", hint=OPEN_WITH_DELTA)


def _setting_of(
    table: PrivateTable, model: Any, rows: int | None, marginals: Marginals | None, twice: Sequence[str]
) -> Setting:
    """The setting of a table; what it knows is not asked again."""
    if not isinstance(table, PrivateTable):
        raise InputError("table must be a dpx.PrivateTable.", hint="or give domain, relation and n", spent="")
    if twice:
        raise InputError(f"{twice[0]} is known from the table or the model.", hint="leave it out", spent="")
    if rows is not None and table.size is not None:
        raise InputError("n is known from the table: its number of rows is public.", hint="leave it out", spent="")
    if rows is None and table.rows_hint is None:
        raise InputError("the number of rows is private, and the table has no hint.", hint="give n, a guess", spent="")
    return Setting.of(table, model, rows=rows, marginals=marginals)


def _with_public(setting: Setting, output: Any, label: Any, features: Sequence[str] | None) -> Setting:
    """The setting with what was said about the model instead of what follows from it."""
    span = output if output is None or isinstance(output, PublicRange) else PublicRange(*output)
    said = {"output": span, "label": label, "features": features}
    return replace(setting, **{name: value for name, value in said.items() if value is not None})


def _option(method: Method, request: Any, setting: Setting, budget: Budget, cost: Cost) -> Option:
    """The forecast of one request at one cost."""
    outlook: Outlook = method.load(method.outlook)(request, replace(setting, budget=budget), cost)
    told = asdict(outlook) | {"interval": outlook.error if outlook.interval is None else outlook.interval}
    return Option(
        definition=budget.definition.value,
        epsilon=budget.epsilon_of(cost),
        delta=None if budget.delta is None else float(budget.delta),
        rho=None if budget.delta is None else float(cost.amount),
        **told,
    )


def _cheapest(at: Callable[[Fraction], Option], wanted: float) -> Option:
    """An epsilon of three digits whose error is at most `wanted`, as small as a coarse walk up finds it.

    The grid may grow with epsilon, or a release begin to buy histograms, so the error is not quite monotone: walk up,
    then refine the last step.
    """

    def good(price: Fraction) -> bool:
        try:
            return at(price).error <= wanted
        except InputError:  # at some prices a release is not possible at all
            return False

    digits = (100, 133, 178, 237, 316, 422, 562, 750)
    steps = [Fraction(digit, 100) * Fraction(10) ** power for power in range(-4, 4) for digit in digits]
    first = next((pair for pair in itertools.pairwise(steps) if good(pair[1])), None)
    if first is None:
        raise InputError(
            f"an error of {wanted:g} needs an epsilon above {float(steps[-1]):g}.",
            hint="use more rows or a coarser grid",
            spent="",
        )
    low, high = first
    while high / low > Fraction(1005, 1000):
        middle = _three_digits((low + high) / 2)
        if good(middle):
            high = middle
        else:
            low = middle
    return at(high)


def _three_digits(value: Fraction) -> Fraction:
    exponent = int(np.floor(np.log10(float(value)))) - 3
    step = Fraction(10) ** exponent
    return Fraction(-(-value // step)) * step
