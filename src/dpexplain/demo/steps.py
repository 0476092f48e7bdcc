"""The demo, step by step: forecast, release, explain, verify, write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.markup import escape as literal

from dpexplain import requests as ask
from dpexplain.data.table import PrivateTable
from dpexplain.demo.experiment import BUDGET, COLUMNS, TARGET, prepare
from dpexplain.demo.page import demo_page
from dpexplain.errors import InputError
from dpexplain.methods.accumulated_effects.release import explain as explain_effects
from dpexplain.methods.clusters.release import explain_clusters
from dpexplain.methods.influence.release import influence
from dpexplain.methods.kmeans.release import dp_kmeans
from dpexplain.methods.local_explanation.release import prediction_of
from dpexplain.methods.marginals.release import marginals
from dpexplain.methods.planning import Forecast, plan
from dpexplain.methods.registry import method_of
from dpexplain.methods.result import Result, from_json
from dpexplain.methods.stand_in.release import stand_in
from dpexplain.methods.transparency.release import transparency_report
from dpexplain.models import Model
from dpexplain.receipts import Receipt
from dpexplain.render import text as words
from dpexplain.render.files import write_page, write_results
from dpexplain.verification import verify

PAIR = ("chronic_diseases", "coinsurance")
GROUPED_BY = ("max_expenditure", "incentive", "physical_limitation", "chronic_diseases")  # clusters are found by these
GROUP = {"coinsurance": 0}  # people whose care is free: do they see doctors more often, and why?
COMPARED = "deductible_plan"  # is the model as good for people with a deductible?
EFFECTS = ("chronic_diseases", "max_expenditure", "health")
# epsilon of each release alone, at the account's delta
PRICES = {
    "performance": 0.5, "curves": 0.7, "pair": 0.5, "effects": 0.35, "importance": 0.5, "interactions": 0.5,
    "marginals": 0.25, "sketch": 0.9, "k-means": 0.5, "clusters": 0.5, "disparity": 0.5, "report": 0.4,
    "stand-in": 0.24, "effects with it": 0.24,  # together no more than "effects" alone
}  # fmt: skip

# Made up, not from the table: whose prediction is explained
PEOPLE: dict[str, dict[str, Any]] = {
    "a healthy person who pays nearly all bills": {
        "coinsurance": 95, "deductible_plan": "no", "incentive": 300.0, "max_expenditure": 1000.0,
        "physical_limitation": 0.0, "chronic_diseases": 5.0, "health": "excellent",
    },
    "a sick person whose care is free": {
        "coinsurance": 0, "deductible_plan": "no", "incentive": 0.0, "max_expenditure": 0.0,
        "physical_limitation": 1.0, "chronic_diseases": 35.0, "health": "fair",
    },
}  # fmt: skip

Show = Callable[..., None]
Released = dict[str, list[Any]]  # results


def run(out: str | Path, quick: bool = False, show: Show | None = None) -> dict[str, Any]:
    """Run the demo into the folder `out` and return what was written. Run again, it spends nothing."""
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
        return _run(Path(out), quick, words.console().print if show is None else show)
    except OSError as error:
        raise InputError(
            f"{out} cannot be written to: {error.strerror}.", hint="--out names another folder", spent=""
        ) from None


def _run(out: Path, quick: bool, show: Show) -> dict[str, Any]:
    data, model = prepare(out, quick=quick)
    show(f"1. A table of {data.size:,} rows (RAND Health Insurance Experiment), and a model of doctor visits for it.")

    show("\n2. What will it cost, how good will it be? Known before anything is paid; this account counts zCDP:\n")
    requests = _requests(quick)
    forecasts = {name: _forecast(request, data, model, PRICES[name]) for name, request in requests.items()}
    for forecast in forecasts.values():
        show(words.forecast_view([forecast]))

    show("\n3. Release, each through the ledger:\n")
    released = _release(data, model, requests, show)
    released["people"] = _explained(released["sketch"][0], model)
    show(f"Explained from the sketch, free: {'; '.join(PEOPLE)}.")
    pd.DataFrame(list(PEOPLE.values())).to_csv(out / "people.csv", index=False)
    every = [result for results in released.values() for result in results]
    files = write_results(every, out)
    file_of = {result.kind: path.name for result, path in zip(every, files, strict=True)}
    released["disparity"][-1].to_html(out / "transparency.html")

    statement = data.ledger.statement(data.name)
    show("\n4. The budget statement:\n")
    show(words.statement_view(statement))

    show("\n5. Anybody with the ledger can check a published file:\n")
    published = from_json(files[0])
    entry = published.receipt.entry
    verify(published, data.ledger)
    checked = data.ledger.verify()
    show(f"{files[0].name} is genuine: entry {entry.sequence} of {checked.events}; the chain is whole.")

    errors = {name: forecast.options[-1].error for name, forecast in forecasts.items()}  # of the zCDP account
    page = write_page(demo_page(released, errors, list(PEOPLE), statement), every, out)
    folder = literal(str(out))
    show(
        f"\nOpen {literal(str(page))}. Beside it: a .png and a .json for each plot, and the ledger. Go on with:\n"
        f"  cd {folder}\n"
        "  dpexplain pdp --pair health,chronic_diseases --epsilon 0.3\n"
        f"  dpexplain ale --feature incentive --epsilon 0.3 --stand-in {file_of['stand-in']}\n"
        "  dpexplain importance --loss absolute --epsilon 0.3\n"
        f"  dpexplain local --sketch {file_of['local-sketch']} --rows people.csv\n"
        "  dpexplain influence --epsilon 0.3\n"
        "  dpexplain budget\n"
        f"  dpexplain verify {files[0].name}"
    )
    return {
        "page": str(page),
        "results": [str(path) for path in files],
        "project": str(out / "dpexplain.toml"),
        "spent_now": not all(results[0].receipt.replayed for results in released.values()),
        "forecasts": [forecast.to_json() for forecast in forecasts.values()],
        "statement": words.statement_json(statement),
    }


def _requests(quick: bool) -> dict[str, Any]:
    return {
        "performance": ask.Performance(target=TARGET, groups=[COMPARED]),
        "curves": ask.PartialDependence(feature=list(COLUMNS), grid=12 if quick else None),
        "pair": ask.PartialDependence(feature=[PAIR]),
        "effects": ask.AccumulatedEffects(feature=list(EFFECTS)),
        "importance": ask.PermutationImportance(target=TARGET),
        "interactions": ask.InteractionRanking(kind="total", parts=20 if quick else None),
        "sketch": ask.LocalSketch(),
    }


def _release(data: PrivateTable, model: Model, requests: Mapping[str, Any], show: Show) -> Released:
    """Every release of the demo, paid from one account."""
    released: Released = {}

    def keep(name: str, results: list[Result]) -> None:
        released[name] = results
        once = {result.receipt.entry.reservation: result.receipt for result in results}  # curves share a release
        for receipt in once.values():
            _say(show, receipt)

    known = marginals(data, list(COLUMNS), epsilon=PRICES["marginals"])  # used again, free, by what comes later
    keep("marginals", [known])
    rows = stand_in(data, features=list(COLUMNS), epsilon=PRICES["stand-in"])  # synthetic rows, for whatever they serve
    keep("stand-in", [rows])
    for name, request in requests.items():
        method = method_of(request)
        options = {"stand_in": rows} if name == "pair" else {}
        answer = method.load(method.explain)(data, model, request, cost=data.cost(epsilon=PRICES[name]), **options)
        keep(name, [answer] if isinstance(answer, Result) else list(answer))
    price = data.cost(epsilon=PRICES["effects with it"])
    keep("effects with it", list(explain_effects(data, model, requests["effects"], cost=price, stand_in=rows)))
    keep("clusters", _clusters(data))
    keep("disparity", _disparity(data, model, known))
    return released


def _forecast(request: Any, data: PrivateTable, model: Model, epsilon: float) -> Forecast:
    assert data.size is not None
    return plan(
        request,
        domain=data.domain,
        n=data.size,
        relation=data.neighbours.relation,
        model=model,
        epsilon=epsilon,
        delta=BUDGET.delta,
    )


def _clusters(data: PrivateTable) -> list[Result]:
    """Three clusters of rows, found privately, and what tells them apart."""
    found = dp_kmeans(data, 3, list(GROUPED_BY), epsilon=PRICES["k-means"], labels=["A", "B", "C"])
    assert found.result is not None
    return [explain_clusters(data, found, epsilon=PRICES["clusters"]), found.result]


def _disparity(data: PrivateTable, model: Model, known: Any) -> list[Any]:
    """What makes the visits of a group differ, and a report for one person; values come from the marginals, free."""
    what = influence(data, model, "disparity", group=GROUP, epsilon=PRICES["disparity"], marginals=known)
    who = list(PEOPLE.values())[-1]
    return [what, transparency_report(data, model, who, epsilon=PRICES["report"], marginals=known)]


def _explained(sketch: Any, model: Model) -> list[Result]:
    """The people explained from the sketch, each through the model's own prediction: free, and no row is read."""
    predictor, names = model.checked(sketch.space.domain), sketch.space.features
    return [sketch.explain(p, prediction=prediction_of(p, names, predictor, model.output)) for p in PEOPLE.values()]


def _say(show: Callable[..., None], receipt: Receipt) -> None:
    paid = "already released, free" if receipt.replayed else f"released for {receipt.budget.describe(receipt.cost)}"
    show(f"{receipt.label}: {paid}")
