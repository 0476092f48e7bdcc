"""What every command that releases prints: the forecast and the cost before, the results and the files after."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpexplain.cli.options import Call
from dpexplain.cli.report import text
from dpexplain.methods.registry import commands
from dpexplain.project.accounts import needing_delta
from dpexplain.project.file import Project
from dpexplain.project.run import Ask, Files, Find, Opened, left_for, opened, prepare_folder

if TYPE_CHECKING:
    import pandas as pd

    from dpexplain.ledger import Statement
    from dpexplain.methods.result import Result

FREE, UNREAD = "Free: computed from released values alone.", "Free: the table was not read."


Also = Callable[[Sequence[Any], Sequence[Path]], list[Path]]  # (results, their files) -> what else was written


def release(call: Call, project: Project, ask: Ask, find: Find, *, free: bool, also: Also | None = None) -> None:
    """Check, forecast, release, publish, and tell; what is free follows from what was paid for before."""
    price = None if free else call.cost
    run = opened(project, ask, price, out=call.out, analyst=call.analyst, find=find)
    forecasts = run.forecasts(call.n)
    if run.cost is not None:
        _before(call, run, forecasts)
    results = run.release()
    after = run.statement
    files = run.publish(results)
    show_results(call, results)
    if run.cost is None:
        call.reporter.show(UNREAD if run.task.request.free else FREE, f"Files: {text(files.page)}.")
    else:
        written = f"{text(files.page)}, and for each result a .png and a .json with its receipt (`dpexplain verify`)"
        call.reporter.show(*_paid(run, results), left_words("Left", after, call.analyst), f"Files: {written}.")
    more = [] if also is None else also(results, files.results)
    if more:
        call.reporter.show("Also written: " + ", ".join(text(str(path)) for path in more) + ".")
    _afterwards(call, files, run.task.method.then)
    receipt = results[0].receipt
    call.reporter.finish(
        {
            "account": run.table.name,
            "label": run.task.request.label,
            **({"labels": list(run.subject.labels)} if hasattr(run.subject, "labels") else {}),
            "price": None if run.cost is None else run.cost.to_json(),
            "spent_now": run.cost is not None and not all(result.receipt.replayed for result in results),
            "left": after.left.to_json(),
            "forecasts": [forecast.to_json() for forecast in forecasts],
            "entry": receipt.entry.sequence,
            "guarantee": receipt.guarantee,
            "results": listed(results, files.results),
            "page": str(files.page),
            **({"also": [str(path) for path in more]} if more else {}),
        }
    )


def show_free(call: Call, answers: Sequence[Result]) -> None:
    """Results from a file, without table, model and ledger."""
    from dpexplain.render.files import write_results

    prepare_folder(call.out)
    files = write_results(answers, call.out)
    show_results(call, answers)
    call.reporter.show(FREE, f"Files: {text(call.out)}, a .png and a .json for each record.")
    receipt = answers[0].receipt
    facts = {"guarantee": receipt.guarantee, "entry": receipt.entry.sequence}
    call.reporter.finish({**facts, "results": listed(answers, files)})


def show_results(call: Call, results: Sequence[Result]) -> None:
    from dpexplain.receipts import in_brief
    from dpexplain.render import text as words

    for result in results:
        call.reporter.show(words.result_view(result), "")
    if cleaning := results[0].receipt.cleaning():
        call.reporter.show(f"Cleaning of the table: {text(in_brief(cleaning))}", "")


def _before(call: Call, run: Opened, forecasts: Sequence[Any]) -> None:
    """The forecast, what is opened here for ever, the cost and what is left."""
    from dpexplain.render import text as words

    table, before = run.table, run.statement
    call.reporter.show(words.forecast_view(forecasts))
    if table.budget.delta is None and not run.project.wants and not before.rows:
        never = " and ".join(f"`{name}`" for name in needing_delta(commands()))
        call.reporter.show(f"This opens a pure account, for ever: {never} cannot be paid from it.")
    if table.size is None and call.n is None:
        call.reporter.show("The number of rows is private, so these are examples; --n gives your own guess.")
    call.reporter.show(f"Cost: {run.price}.", left_words("Left before", before, call.analyst), "")


def _paid(run: Opened, results: Sequence[Result]) -> list[str]:
    """What was spent; on each release, where there were several."""
    receipts = {result.receipt.entry.sequence: result.receipt for result in results}
    if len(receipts) == 1:
        replayed = results[0].receipt.replayed
        return ["Already released: answered from the ledger, free." if replayed else f"Spent: {run.price}."]
    return [
        f"{text(one.label)}: already released, answered from the ledger, free."
        if one.replayed
        else f"{text(one.label)}: spent {one.budget.describe(one.cost)}."
        for one in receipts.values()
    ]


def _afterwards(call: Call, files: Files, then: str) -> None:
    """What can be done with the files."""
    names = [page.name for page in files.pages]
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    if then:
        call.reporter.show(text(then.format(file=files.results[0], pages=some, out=call.out)))
    if len(names) > 1:
        call.reporter.show(f"{text(files.page.name)} shows all of them: it is for whoever may see them all.")


def listed(results: Sequence[Result], files: Sequence[Path]) -> list[dict[str, Any]]:
    """Every result with its files, for --json."""
    return [
        {
            "feature": result.feature,
            "kind": result.kind,
            "json": str(path),
            "png": str(path.with_suffix(".png")),
            "table": _records(result.to_frame()),
            **{name: _records(frame) for name, frame in result.more_tables().items()},
            **result.more_facts(),
        }
        for result, path in zip(results, files, strict=True)
    ]


def _records(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """A table for JSON: what is not there is null, and so is the end of an interval that has none."""
    frame = frame.astype(object)
    return frame.where(frame.notna() & ~frame.isin([math.inf, -math.inf]), None).to_dict("records")


def left_words(when: str, statement: Statement, analyst: str | None) -> str:
    """What is left for this analyst, in words."""
    from dpexplain.render import text as words

    return f"{when}: {text(words.left_text(statement.budget, left_for(statement, analyst)))}."
