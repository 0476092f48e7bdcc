"""What every command that releases prints: the forecast and the price before, the results and the files after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpexplain.cli.options import Call, Price
from dpexplain.cli.report import text
from dpexplain.project.file import Project
from dpexplain.project.run import Ask, Files, left_for, opened

if TYPE_CHECKING:
    import pandas as pd

    from dpexplain.ledger import Statement
    from dpexplain.methods.result import Result


@dataclass(frozen=True)
class Released:
    results: list[Result]
    files: Files


def release(call: Call, price: Price, ask: Ask, *, n: int | None = None) -> Released:
    """Check, forecast, release, publish, and tell."""
    from dpexplain.render import text as words

    run = opened(Project.load(call.project), ask, price.cost, out=call.out, analyst=call.analyst)
    table, before = run.table, run.statement
    forecasts = run.forecasts(n)
    call.reporter.show(words.forecast_view(forecasts))
    if table.budget.delta is None and not run.project.wants and not before.rows:
        call.reporter.show("This opens a pure account, for ever: `sketch` and `local` cannot be paid from it.")
    if table.size is None and n is None:
        call.reporter.show("The number of rows is private, so these are examples; --n gives your own guess.")
    call.reporter.show(f"Price: {run.price}.", left("Left before", before, call.analyst), "")
    results = run.release()
    after = run.statement
    files = run.publish(results)

    receipt = results[0].receipt
    show_results(call, results)
    call.reporter.show(
        "Already released: answered from the ledger, free." if receipt.replayed else f"Spent: {run.price}.",
        left("Left", after, call.analyst),
        where(files, "plot"),
    )
    assert run.cost is not None
    call.reporter.finish(
        {
            "account": table.name,
            "label": run.task.request.label,
            "price": run.cost.to_json(),
            "spent_now": not receipt.replayed,
            "left": after.left.to_json(),
            "forecasts": [forecast.to_json() for forecast in forecasts],
            "entry": receipt.entry.sequence,
            "guarantee": receipt.guarantee,
            "results": [
                {"feature": result.feature, **facts}
                for result, facts in zip(results, listed(results, files.results), strict=True)
            ],
            "page": str(files.page),
        }
    )
    return Released(results, files)


def free(call: Call, ask: Ask) -> Released:
    """The same from values that were paid for before: no price, no forecast."""
    run = opened(Project.load(call.project), ask, None, out=call.out, analyst=call.analyst)
    results = run.release()
    files = run.publish(results)
    show_results(call, results)
    call.reporter.show("Free: computed from released values alone.", f"Files: {text(files.page)}.")
    call.reporter.finish(
        {
            "account": run.table.name,
            "guarantee": results[0].receipt.guarantee,
            "entry": results[0].receipt.entry.sequence,
            "spent_now": False,
            "results": listed(results, files.results),
            "page": str(files.page),
        }
    )
    return Released(results, files)


def show_results(call: Call, results: Sequence[Result]) -> None:
    from dpexplain.receipts import in_brief
    from dpexplain.render import text as words

    for result in results:
        call.reporter.show(words.result_view(result), "")
    if cleaning := results[0].receipt.cleaning():
        call.reporter.show(f"Cleaning of the table: {text(in_brief(cleaning))}", "")


def where(files: Files, each: str) -> str:
    """The files that were written, in words."""
    return f"Files: {text(files.page)}, and for each {each} a .png and a .json with its receipt (`dpexplain verify`)."


def listed(results: Sequence[Result], files: Sequence[Path]) -> list[dict[str, Any]]:
    """Every result with its files, for --json."""
    lines = []
    for result, path in zip(results, files, strict=True):
        tables = {"table": result.to_frame(), **result.more_tables()}
        facts = {"kind": result.kind, "json": str(path), "png": str(path.with_suffix(".png"))}
        lines.append({**facts, **{name: records(frame) for name, frame in tables.items()}, **result.more_facts()})
    return lines


def records(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """A table for JSON: what is not there is null."""
    frame = frame.astype(object)
    return frame.where(frame.notna(), None).to_dict("records")


def left(when: str, statement: Statement, analyst: str | None) -> str:
    """What is left for this analyst, in words."""
    from dpexplain.render import text as words

    return f"{when}: {text(words.left_text(statement.budget, left_for(statement, analyst)))}."
