"""The demo, step by step: plan, release, read off, verify, write one page."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.markup import escape as literal

from dpexplain.data.table import PrivateTable
from dpexplain.demo.experiment import TARGET, prepare
from dpexplain.demo.threads import one_thread
from dpexplain.errors import InputError
from dpexplain.methods.kmeans.release import dp_kmeans
from dpexplain.methods.kmeans.result import ClusterCentres
from dpexplain.methods.reports.plan import plan_report
from dpexplain.methods.reports.release import release_report
from dpexplain.methods.reports.request import ReportRequest
from dpexplain.methods.result import from_json
from dpexplain.project.report import published
from dpexplain.render import text as words
from dpexplain.render.reports import report_forecast_view
from dpexplain.verification import verify

GROUPED_BY = ("max_expenditure", "incentive", "physical_limitation", "chronic_diseases")  # clusters are found by these
LABELS = ("A", "B", "C")
# epsilon of each release alone, at the account's delta
PRICES = {"k-means": 0.3, "report": 1.2}
ASKED = ReportRequest(
    target=TARGET,
    groups=["deductible_plan"],
    compared={"coinsurance": 0},  # people whose care is free: do they see doctors more often, and why?
    title="What drives doctor visits?",
)
STEPS = 5

Show = Callable[..., None]


class Progress:
    """What is being done, and for how long; nothing of it depends on a row."""

    def __init__(self, show: Show, steps: int = STEPS) -> None:
        self._show, self._start, self._step, self._steps = show, time.monotonic(), 0, steps

    def begin(self, what: str) -> None:
        self._step += 1
        bar = "#" * self._step + "." * (self._steps - self._step)
        self._show(f"\n\\[{bar}] {self._step}/{self._steps}, {self.seconds} s: {what}")

    @property
    def seconds(self) -> int:
        return round(time.monotonic() - self._start)


def run(out: str | Path, quick: bool = False, show: Show | None = None) -> dict[str, Any]:
    """Run the demo into the folder `out` and return what was written. Run again, it spends nothing."""
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
        with one_thread():
            return _run(Path(out), quick, words.console().print if show is None else show)
    except OSError as error:
        raise InputError(
            f"{out} cannot be written to: {error.strerror}.", hint="--out names another folder", spent=""
        ) from None


def _run(out: Path, quick: bool, show: Show) -> dict[str, Any]:
    progress = Progress(show)
    progress.begin("a table (RAND Health Insurance Experiment) and a model of doctor visits")
    data, model = prepare(out, quick=quick)
    show(f"{data.size:,} rows, 7 columns that are explained. Protected is {data.neighbours.describe()}.")

    progress.begin("private clusters of the rows, and a plan: what will the report cost, how good will it be?")
    clustering = dp_kmeans(data, 3, list(GROUPED_BY), epsilon=PRICES["k-means"], labels=list(LABELS))
    centres = clustering.result
    assert centres is not None
    forecast = plan_report(ASKED, data, model, epsilon=PRICES["report"], clustering=clustering)
    show(report_forecast_view(forecast))
    show(f"Spent so far: epsilon = {_spent(data)}, {_since(centres)}. The plan itself costs nothing.")

    progress.begin("release: one reservation in the ledger, shared passes over the rows")
    found = release_report(forecast)
    found = replace(found, results=(*found.results, centres))
    statement = data.ledger.statement(data.name)
    found = replace(found, statement={"facts": words.statement_facts(statement)})

    progress.begin("one page: charts, synthetic persons, what is promised")
    files = published(found, out)

    progress.begin("anybody with the ledger can check a published file")
    verify(from_json(files.results[0]), data.ledger)
    checked = data.ledger.verify()
    show(f"{files.results[0].name} is genuine; the chain of {checked.events} events is whole.")

    for sentence in found.in_short:
        show(f"- {literal(sentence)}")
    spent_now = not (found.replayed and centres.receipt.replayed)
    how = "now" if spent_now else "before; this time nothing"
    show(
        f"\nDone in {progress.seconds} s. Open {literal(str(files.page))}\n"
        f"Spent {how}: epsilon = {_spent(data)} of the {float(data.budget.epsilon):g} that may ever be spent here.\n"
        "Try next:\n"
        f"  cd {literal(str(out))}\n"
        "  dpexplain ale --feature incentive --epsilon 0.3 --stand-in stand-in.json\n"
        "  dpexplain report --from . --title 'My own title'\n"
        "  dpexplain budget"
    )
    return {
        "page": str(files.page),
        "results": [str(path) for path in files.results],
        "project": str(out / "dpexplain.toml"),
        "spent_now": spent_now,
        "forecast": forecast.to_json(),
        "seconds": progress.seconds,
        "in_short": found.in_short,
        "statement": words.statement_json(statement),
    }


def _spent(data: PrivateTable) -> str:
    """What was spent from the account until now."""
    epsilon = data.ledger.statement(data.name).spent_epsilon
    return "unknown" if epsilon is None else f"{math.ceil(1000 * epsilon) / 1000:g}"


def _since(centres: ClusterCentres) -> str:
    return "in an earlier run" if centres.receipt.replayed else "for the clusters"
