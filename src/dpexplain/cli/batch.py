"""`dpexplain batch`: several explanations for one cost, from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpexplain.cli.options import Analyst, Guess, Json, option
from dpexplain.cli.release import left_words, listed
from dpexplain.cli.report import Reporter, text
from dpexplain.project.batch import BatchFile, opened_batch


def batch(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The batch: its epsilon and its requests, in TOML.")],
    plan: Annotated[bool, option("--plan", None, "Only show the plan: nothing is read or spent.")] = False,
    n: Guess = None,
    analyst: Analyst = None,
    out: Annotated[Path | None, option("--out", "DIR", "Folder for results, instead of the file's.")] = None,
    project: Annotated[Path | None, option("--project", "FILE", "The project file, instead of the batch's.")] = None,
    json: Json = False,
) -> None:
    """Release several explanations for one cost: one reservation, shared passes over the rows.

    Shows how the cost is divided, and the error to expect of each explanation; then releases all of them, and writes
    a page, pictures and receipts. The cost is divided between the requests, and histograms or a stand-in that they
    share, such that errors are small beside those of each request alone at the whole cost.

    The same batch again (same file, same versions of table and model) is free. A batch that was interrupted is finished
    by the same command, at no new cost.

        epsilon = 1.0

        [[requests]]
        request = "partial-dependence"
        feature = "age"

        [[requests]]
        request = "permutation-importance"
        target = "income"

    Instead of epsilon, each request may have a max_error; a weight says how much the error of one matters.

        dpexplain batch batch.toml --plan

        dpexplain batch batch.toml
    """
    from dpexplain.render.batches import batch_forecast_view

    reporter = Reporter(as_json=json)
    run = opened_batch(BatchFile.load(file), project=project, out=out, analyst=analyst, rows=n, planned=plan)
    forecast = run.forecast
    reporter.show(batch_forecast_view(forecast))
    if plan:
        reporter.show("Nothing was read and nothing was spent.")
        reporter.finish({"forecast": forecast.to_json()})
        return
    reporter.show(f"Cost: {forecast.price}.", left_words("Left before", run.statement, analyst), "")
    results = run.release()
    after = run.statement
    files = run.publish(results)
    free = "Already released: answered from the ledger, free."
    paid = free if results.receipt.replayed else f"Spent: {forecast.price}."
    written = f"{text(files.page)}, and for each result a .png and a .json with its receipt (`dpexplain verify`)"
    for result in results.results:
        reporter.show(f"{text(result.title)}: {text(result.receipt.price)}")
    reporter.show(paid, left_words("Left", after, analyst), f"Files: {written}.")
    reporter.finish(
        {
            "account": run.table.name,
            "label": results.receipt.label,
            "price": results.receipt.cost.to_json(),
            "spent_now": not results.receipt.replayed,
            "left": after.left.to_json(),
            "forecast": forecast.to_json(),
            "entry": results.receipt.entry.sequence,
            "guarantee": results.receipt.guarantee,
            "results": listed(results.results, files.results),
            "page": str(files.page),
        }
    )
