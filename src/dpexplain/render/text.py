"""Statements, forecasts and results as text for a terminal. It sees no data."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table

from dpexplain.core.budget import Budget, Cost, digits
from dpexplain.core.canonical import JsonObject
from dpexplain.core.noise import Law
from dpexplain.receipts import Receipt, in_brief

if TYPE_CHECKING:
    from dpexplain.ledger import Statement
    from dpexplain.methods.attributions import Attribution
    from dpexplain.methods.curves import Curve
    from dpexplain.methods.performance.result import Performance
    from dpexplain.methods.planning import Forecast, Option
    from dpexplain.methods.rankings import Ranking
    from dpexplain.methods.result import Floats, Result

LINES = 12  # of a long curve; the files have all of them
WIDTH = 110
UNDETERMINED = "not determined with this epsilon"
NOISE = {
    Law.CUBE.value: "cube",
    Law.LAPLACE.value: "Laplace",
    Law.GAUSSIAN.value: "Gaussian",
}


def console(*, stderr: bool = False) -> Console:
    """Where people read: as wide as their terminal, and wide enough where there is none."""
    found = Console(stderr=stderr, highlight=False, soft_wrap=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=max(found.width, WIDTH))


def plain(*parts: RenderableType) -> str:
    """The same words without colour, as one text."""
    buffer = io.StringIO()
    Console(file=buffer, width=WIDTH, highlight=False, color_system=None).print(*parts, sep="\n")
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


# Forecasts ----------------------------------------------------------------------------------------------------------


def forecast_text(forecast: Forecast) -> str:
    return plain(forecast_view([forecast]))


def forecast_view(forecasts: Sequence[Forecast]) -> RenderableType:
    """Pure and zCDP side by side, for one or several numbers of rows."""
    first = forecasts[0]
    rug = any(option.rug_error is not None for forecast in forecasts for option in forecast.options)
    wider = any(option.interval != option.error for forecast in forecasts for option in forecast.options)
    head = ["rows", "account", "epsilon", "rho", "noise", "points", *(["error", "± interval"] if wider else ["± each"])]
    lines = [
        [
            f"{forecast.rows:,}",
            "pure" if option.delta is None else f"zCDP, delta {option.delta:g}",
            _number(option.epsilon),
            "" if option.rho is None else _number(option.rho),
            NOISE.get(option.law, option.law),
            str(option.points),
            _number(option.error),
            *([_number(option.interval)] if wider else []),
            _number(option.band),
            *([] if not rug else [""] if option.rug_error is None else [f"{option.rug_error:,.0f} rows"]),
        ]
        for forecast in forecasts
        for option in forecast.options
    ]
    return Group(
        f"Forecast: {escape(first.label)}; protects {escape(first.neighbours.describe())}.",
        _table([*head, "± all at once", *(["± row counts"] if rug else [])], lines),
        *_forecast_words(first.options[-1], wider),
        *dict.fromkeys(escape(option.note) for f in forecasts for option in f.options if option.note),
        *(["A pure account cannot pay for this: its noise is Gaussian, which needs a delta."] * first.needs_delta),
    )


def _forecast_words(option: Option, wider: bool) -> list[str]:
    """What the columns of errors mean; both in one sentence where the interval is not the error."""
    if not wider:
        return ["± is half the width of the 95 % noise interval of released values, in the units of the result."]
    because = f", because {option.wider}" if option.wider else ""
    return [
        f"Expected error {_number(option.error)}: 95 % of released values lie within this of the exact ones. "
        f"The 95 % interval will be about ±{_number(option.interval)}{because}."
    ]


def _price(epsilon: float, rho: float | None) -> str:
    return f"epsilon {digits(Fraction(epsilon))}" + ("" if rho is None else f" (rho {digits(Fraction(rho))})")


# Budgets ------------------------------------------------------------------------------------------------------------


def left_text(budget: Budget, left: Cost) -> str:
    """What is left, and what one release may cost at most."""
    if left.amount == 0:
        return "nothing"
    if budget.delta is None:
        return f"epsilon = {digits(left.amount, up=False)}"
    epsilon = digits(Fraction(budget.epsilon_of(left)), up=False)
    return f"rho = {digits(left.amount, up=False)}, enough for one release of epsilon = {epsilon}"


def statement_view(statement: Statement) -> RenderableType:
    """Spent, left and every entry of an account."""
    facts = _facts([*statement_facts(statement), ("", _bar(spent_share(statement)))])
    head, lines = statement_entries(statement)
    return Group(facts, "", *([_table(head, lines)] if lines else []))


def statement_facts(statement: Statement) -> list[tuple[str, str]]:
    """(name, words) pairs; also used by HTML pages."""
    budget, total = statement.budget, statement.total
    facts = [("account", statement.name), ("protects", statement.neighbours.describe())]
    if statement.opening.predecessors:
        facts.append(("people", _people(statement)))
    if statement.closing is not None:
        facts.append(("status", closing(statement)))
    facts.append(("budget", _total(budget, total)))
    if statement.spent is None:
        facts.append(("spent", "unknown" if statement.spent_epsilon is None else "infinitely much"))
    elif statement.spent.amount == 0:
        facts.append(("spent", "nothing"))
    else:
        facts.append(("spent", f"{budget.describe(statement.spent)}, {spent_share(statement):.0%} of the budget"))
    facts.append(("left", left_text(budget, statement.left)))
    for line in statement.analysts:
        limit = "no limit of their own" if line.limit is None else f"limit {budget.describe(line.limit)}"
        spent = "nothing" if line.spent.amount == 0 else budget.describe(line.spent)
        facts.append((f"analyst {line.analyst}", f"spent {spent}; {limit}"))
    return facts + [("note", note) for note in statement.notes]


def _people(statement: Statement) -> str:
    before = ", ".join(f'"{name}"' for name in statement.opening.predecessors)
    how = "may also be in" if statement.opening.overlapping else "declared to be in none of"
    return f"{statement.opening.people}; {how} {before}"


def closing(statement: Statement) -> str:
    """Whether an account is closed, by whom and why, and which one goes on."""
    closed = statement.closing
    if closed is None:
        return "it is open"
    when = f"closed on {statement.dates[-1]}, signed by {closed.signed_by}"
    return f'{when} ({closed.reason}); its successor is "{closed.successor}"'


def line_view(line: Sequence[Statement]) -> RenderableType:
    """The accounts that followed each other, and what they add up to for somebody who is in all of them."""
    budget, (total, spent) = line[-1].budget, _in_all(line)
    lines = []
    for one in line:
        dates = one.dates[0], "no" if one.closing is None else one.dates[-1]
        lines.append([one.name, one.opening.people, *dates, _amount(budget, one.total), _spent(budget, one.spent)])
    lines.append(["a person who is in all", "", "", "", _amount(budget, total), _spent(budget, spent)])
    return _table(["line of accounts", "opened for", "opened", "closed", "budget", "spent"], lines)


def line_json(line: Sequence[Statement]) -> JsonObject:
    """The same for programs."""
    budget, (total, spent) = line[-1].budget, _in_all(line)
    return {
        "accounts": [{"account": one.name, **renewal_json(one)} for one in line],
        "total": total.to_json(),
        "total_epsilon": budget.epsilon_of(total),
        "spent": None if spent is None else spent.to_json(),
        "spent_epsilon": None if spent is None else budget.epsilon_of(spent),
    }


def _in_all(line: Sequence[Statement]) -> tuple[Cost, Cost | None]:
    """The budgets of a line, and what was spent of them. It has one definition and one delta, so costs add up."""
    total, spent = line[0].total * 0, [one.spent for one in line if one.spent is not None]
    known = sum(spent, total) if len(spent) == len(line) else None
    return sum((one.total for one in line), total), known


def _spent(budget: Budget, cost: Cost | None) -> str:
    return "not known, or without limit" if cost is None else _amount(budget, cost) if cost.amount else "nothing"


def renewal_json(statement: Statement) -> JsonObject:
    """When an account was opened and closed, for whom, by whom, and its neighbours in its line."""
    closed = statement.closing
    return {
        "opened_at": statement.dates[0],
        "line": statement.opening.line,
        "closed_at": None if closed is None else statement.dates[-1],
        "closed": None if closed is None else dict(closed.__dict__),
    }


def statement_entries(statement: Statement) -> tuple[list[str], list[list[str]]]:
    """The header and the lines of the table of entries; also used by HTML pages."""
    head = ["entry", "when (UTC)", "what", "version", "analyst", "cost", "status"]
    lines = [
        [
            str(row.sequence),
            row.at[:16].replace("T", " "),
            row.label,
            row.table_version,
            row.analyst or "",
            _amount(statement.budget, row.cost),
            row.status + ("" if row.charged == row.cost else f", counted: {_amount(statement.budget, row.charged)}"),
        ]
        for row in statement.rows
    ]
    if not any(line[4] for line in lines):
        head, lines = [*head[:4], *head[5:]], [[*line[:4], *line[5:]] for line in lines]
    return head, lines


def statement_json(statement: Statement) -> JsonObject:
    """A statement for programs. Amounts are exact fractions in text; epsilons are rounded up."""
    spent = statement.spent_epsilon
    return {
        "account": statement.name,
        "budget": statement.budget.to_json(),
        "neighbours": statement.neighbours.to_json(),
        "total": statement.total.to_json(),
        "spent": None if statement.spent is None else statement.spent.to_json(),
        "spent_epsilon": None if spent is None or spent == float("inf") else spent,
        "left": statement.left.to_json(),
        "analysts": [
            {
                "analyst": line.analyst,
                "spent": line.spent.to_json(),
                "limit": None if line.limit is None else line.limit.to_json(),
            }
            for line in statement.analysts
        ],
        "entries": [
            {**row.__dict__, "cost": row.cost.to_json(), "charged": row.charged.to_json()} for row in statement.rows
        ],
        "notes": list(statement.notes),
        **renewal_json(statement),
    }


def _amount(budget: Budget, cost: Cost) -> str:
    return _price(budget.epsilon_of(cost), float(cost.amount) if budget.delta else None)


def spent_share(statement: Statement) -> float:
    """How much of the budget is gone, between 0 and 1."""
    if statement.spent is None:
        return 1.0
    return float(statement.spent.amount / statement.total.amount)


def _total(budget: Budget, total: Cost) -> str:
    if budget.delta is None:
        return f"epsilon = {float(budget.epsilon):.4g} (pure)"
    epsilon, delta, rho = float(budget.epsilon), float(budget.delta), float(total.amount)
    return f"epsilon = {epsilon:.4g} at delta = {delta:g} (zCDP, rho = {rho:.4g})"


def _bar(share: float, width: int = 40) -> str:
    full = min(width, max(round(share * width), 0))
    return "█" * full + "░" * (width - full)


# Results ------------------------------------------------------------------------------------------------------------


def result_view(result: Result) -> RenderableType:
    """A result in a few lines, by the view that it names."""
    view: RenderableType = resolve_name(result.text_view)(result)
    return view


def general_view(result: Result) -> RenderableType:
    """What was found in sentences, what its reader has to know, and the first lines of its table."""
    frame, most = result.to_frame(), result.lines_shown
    lines = [[cell(value, result) for value in line] for line in frame.head(most).to_numpy().tolist()]
    said = dict.fromkeys([*result.findings, *_besides(result)])  # sentences may say the caveat themselves
    more = [f"and {len(frame) - most} more lines"] if 0 < most < len(frame) else []
    return _view(result.title, said, [str(name) for name in frame.columns], lines, more)


def curve_view(curve: Curve) -> RenderableType:
    """Some lines of a curve, from end to end; of a surface, its lowest and highest cells."""
    frame = curve.to_frame()
    if len(curve.axes) == 2:
        order = np.argsort(curve.values)
        chosen = [int(order[0]), int(order[-1])]
        title = f"{curve.feature}: the lowest and the highest of {len(frame)} cells"
    else:
        whole = not curve.axes[0].ordered or len(frame) <= LINES
        chosen = list(range(len(frame))) if whole else sorted({round(i) for i in np.linspace(0, len(frame) - 1, LINES)})
        title = curve.feature if whole else f"{curve.feature}: {len(chosen)} of {len(frame)} points"
    proven, names = _written(curve.proven_interval(), curve.determined()), ["95 % noise interval"]
    intervals = [proven]
    if curve.sharpened:
        names, intervals = ["95 %, likely", "95 %, proven"], [_written(curve.interval()), proven]
    head = [*(axis.feature for axis in curve.axes), curve.quantity, *names]
    where = [frame.iloc[:, place] for place in range(len(curve.axes))]
    lines = [
        [*(_point(points.iloc[i]) for points in where), _number(curve.values[i]), *(one[i] for one in intervals)]
        for i in chosen[: 4 * LINES]
    ]
    return _view(title, [], head, lines, _besides(curve))


def ranking_view(ranking: Ranking) -> RenderableType:
    """The items, the best first, and how sure each place is."""
    top = "the best" if ranking.top == 1 else f"among the best {ranking.top}"
    head = ["", "", ranking.quantity, "95 % interval", "above the next", top]
    places, values = map(str, range(1, len(ranking.items) + 1)), map(_number, ranking.values)
    sure, best = [*map(percent, ranking.order_probability), ""], map(percent, ranking.top_probability())
    lines = zip(places, ranking.items, values, _intervals(ranking), sure, best, strict=True)
    return _view(ranking.title, [], head, list(lines)[: 4 * LINES], _besides(ranking))


def performance_view(performance: Performance) -> RenderableType:
    """What was found in sentences, and a line for everybody and each group, with a figure in each column."""
    from dpexplain.methods.performance.words import summary

    head, lines = summary(performance)
    return _view(performance.title, performance.findings, head, lines[: 4 * LINES], _besides(performance))


def attribution_view(attribution: Attribution) -> RenderableType:
    """The largest contributions, from the average person to the record, and which of them noise could explain."""
    left_out = attribution.left_out
    lines = [
        [attribution.base_name, _number(attribution.base), "", ""],
        *(
            [
                push.name,
                f"{push.value:+.4g}",
                f"{push.low:+.4g} to {push.high:+.4g}",
                "" if push.sure else attribution.unsure_words,
            ]
            for push in [*attribution.pushes(LINES), *([left_out] if left_out else [])]
        ),
        [attribution.end_name, _number(attribution.prediction), "", ""],
    ]
    said = [words for words in (attribution.missed, attribution.compared) if words]
    head = ["", attribution.quantity, f"95 % {attribution.interval_name}", ""]
    return _view(attribution.title, said, head, lines, [attribution.notes])


def receipt_view(receipt: Receipt) -> RenderableType:
    """What was paid for and where it stands."""
    return _facts(receipt_facts(receipt))


def receipt_facts(receipt: Receipt) -> list[tuple[str, str]]:
    """(name, words) pairs; also used by HTML pages."""
    entry, cleaning = receipt.entry, receipt.cleaning()
    when = entry.committed_at[:16].replace("T", " ")
    return [
        ("request", receipt.label),
        ("cost", receipt.price),
        ("ledger", f'account "{entry.account}", entry {entry.sequence}, {when} UTC'),
        ("guarantee", receipt.guarantee),
        *([("cleaning", in_brief(cleaning))] if cleaning else []),
    ]


# Words and tables ---------------------------------------------------------------------------------------------------


def percent(probability: float) -> str:
    """A probability in whole per cent; never 0 or 100, because none is certain."""
    return "over 99 %" if probability > 0.995 else "below 1 %" if probability < 0.005 else f"{100 * probability:.0f} %"


def cell(value: Any, result: Result) -> str:
    """A value of a result's table."""
    return str(missing_words(value, result, _number(value) if isinstance(value, float) else str(value)))


def missing_words(value: Any, result: Result, otherwise: Any) -> Any:
    """What stands in a table where there is no value: a missing one has a line of its own, or none was determined."""
    if value is None or value is pd.NA or value != value:
        return "missing" if result.has_missing else "not determined" if isinstance(value, float) else ""
    return otherwise


def _intervals(result: Result) -> list[str]:
    """The 95 % interval of each value, or that nothing was learned."""
    return _written(result.interval(), result.determined())


def _written(interval: tuple[Floats, Floats], determined: Iterable[Any] | None = None) -> list[str]:
    """Intervals in words; where a value is not determined, that."""
    known = [True] * len(interval[0]) if determined is None else determined
    ends = zip(*interval, known, strict=True)
    return [f"{_number(a)} to {_number(b)}" if sure else UNDETERMINED for a, b, sure in ends]


def _besides(result: Result) -> list[str]:
    """What a reader of the intervals has to know."""
    return [words.strip() for words in (result.doubt, result.caveat, result.basis) if words]


def _view(
    title: str, said: Iterable[str], head: Sequence[str], lines: Sequence[Sequence[str]], after: Iterable[str]
) -> RenderableType:
    """A title, sentences, a table if it has lines, and sentences."""
    table = [_table(head, lines)] if lines else []
    return Group(f"[bold]{escape(title)}[/bold]", *map(escape, said), *table, *map(escape, after))


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in head:
        table.add_column(escape(name), overflow="fold")
    for line in lines:
        table.add_row(*map(escape, line))
    return table


def _facts(pairs: Iterable[tuple[str, str]]) -> Table:
    facts = Table.grid(padding=(0, 2))
    for name, words in pairs:
        facts.add_row(escape(name), escape(words))
    return facts


def _point(value: Any) -> str:
    if value is None or value != value:
        return "missing"
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def _number(value: Any) -> str:
    return f"{float(value):.4g}"
