"""`dpexplain demo`: a model of doctor visits, explained privately, from the table to the page.

The table is the RAND Health Insurance Experiment as it comes with statsmodels: 20,190 rows, one for each person and
year. It carries no person id, so what is protected here is one row and not one person; the page says so. Every column
but the target is explained; the three 0/1 columns of self-rated health are put together into the one question they
answer, and logarithms are undone, so that a reader meets percents and dollars.

The folder that the demo writes is an ordinary project: `dpexplain pdp --project DIR/dpexplain.toml ...` goes on, and so
do `ale`, `importance`, `interactions`, `sketch`, `local`, `clusters`, `influence` and `transparency`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.markup import escape as literal

from dpexplain.clusters import dp_kmeans, explain_clusters
from dpexplain.core.budget import Budget
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.data.domain_file import load_domain, save_domain
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError
from dpexplain.explainers import (
    accumulated_effects,
    interaction_ranking,
    local_sketch,
    partial_dependence,
    permutation_importance,
)
from dpexplain.explainers.influence import influence
from dpexplain.explainers.local_explanation import anchor_of
from dpexplain.explainers.marginals import marginals
from dpexplain.explainers.transparency import transparency_report
from dpexplain.ledger import Statement
from dpexplain.models import Model
from dpexplain.planning import Forecast, plan
from dpexplain.render import text as words
from dpexplain.render.files import write_results
from dpexplain.render.html import Section, bar, page, table
from dpexplain.requests import (
    AccumulatedEffects,
    InteractionRanking,
    LocalExplanation,
    LocalSketch,
    PartialDependence,
    PermutationImportance,
)
from dpexplain.results import Receipt, Result, TransparencyReport, from_json
from dpexplain.verification import verify

# Public knowledge: the design of the experiment, the definition of a column, or a round number beyond what can happen.
COLUMNS: dict[str, tuple[Numeric | Categorical, str]] = {
    "coinsurance": (
        Categorical([0, 25, 50, 95, 100]),
        "percent of each bill that the family pays; the plans of the experiment had these five rates (lncoins)",
    ),
    "deductible_plan": (Categorical(["no", "yes"]), "a plan with a deductible for each person (idp)"),
    "incentive": (Numeric(0, 1500), "dollars a year paid for taking part (lpi)"),
    "max_expenditure": (
        Numeric(0, 5000),
        "bills in dollars after which the family pays nothing more; 0 without such a limit (fmde)",
    ),
    "physical_limitation": (
        Numeric(0, 1),
        "1 for a person with a physical limitation, between 0 and 1 if it is not known (physlm)",
    ),
    "chronic_diseases": (Numeric(0, 60), "index of chronic diseases (disea)"),
    "health": (
        Categorical(["excellent", "good", "fair", "poor"]),
        "self-rated; three 0/1 columns put together (hlthg, hlthf, hlthp)",
    ),
}  # fmt: skip
TARGET, MOST_VISITS = "visits", 24
VISITS = Numeric(0, MOST_VISITS, integer=True, missing=0)
OUTPUT = (0, 12)  # predicted visits a year: from none to one a month
PAIR = ("chronic_diseases", "coinsurance")
GROUPED_BY = ("max_expenditure", "incentive", "physical_limitation", "chronic_diseases")  # clusters are found by these
GROUP = {"coinsurance": 0}  # people whose care is free: do they see doctors more often, and why?
EFFECTS = ("chronic_diseases", "max_expenditure", "health")
# epsilon of each release alone, at the account's delta
PRICES = {
    "curves": 0.7, "pair": 0.5, "effects": 0.5, "importance": 0.5, "interactions": 0.5, "marginals": 0.25,
    "sketch": 1.0, "k-means": 0.5, "clusters": 0.5, "disparity": 0.5, "report": 0.4,
}  # fmt: skip

EXPLAINERS: dict[str, Callable[..., Any]] = {
    "curves": partial_dependence.explain,
    "pair": partial_dependence.explain,
    "effects": accumulated_effects.explain,
    "importance": permutation_importance.explain,
    "interactions": interaction_ranking.explain,
    "sketch": local_sketch.explain,
}

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

NAME, MODEL, RELATION, BUDGET = "rand-hie", "doctor-visits", "replace-one", Budget(epsilon=3.0, delta=1e-6)

PROJECT = f"""\
[table]
path = "table.parquet"
domain = "domain.yaml"
name = "{NAME}"
version = %s
relation = "{RELATION}"

[budget]
epsilon = {float(BUDGET.epsilon)}
delta = {float(BUDGET.delta)}
ledger = "sqlite:///budget.db"

[model]
path = "model.joblib"
output = [{OUTPUT[0]}, {OUTPUT[1]}]
name = "{MODEL}"
version = %s
target = "{TARGET}"
"""

LEAD = (
    "How many times a year does a person see a doctor, and what drives it? A gradient-boosting model has learned it "
    "from the RAND Health Insurance Experiment. The plots below show what it has learned, and they can be shown to "
    "anybody: noise was added so that little can be learned about any single row, and shaded bands say how much."
)
PROTECTED = (
    "Whoever reads this page, whatever else they know and however they compute, learns little about any single row of "
    "the table: everything here would have come out about equally likely with other values in that row. How much is "
    "“little” and “about” is the number epsilon of the budget below.",
    "This holds for all plots of this account together, and for those still to come: the ledger refuses what would go "
    "beyond the budget.",
)
NOT_PROTECTED = (
    "A person as a whole. The table has several rows for a person (one for each year) and no person id, so the "
    "protected unit is the row. With an id, dpexplain protects all rows of a person together.",
    "The model. It was trained on the same rows in the usual way; whoever holds the model file may learn about them.",
    "What was declared in public: the columns, their bounds and categories, the range of predictions, how many rows.",
    "What is true of people in general, such as that the sick see more doctors.",
)


def run(out: str | Path, quick: bool = False, show: Callable[..., None] | None = None) -> dict[str, Any]:
    """Run the demo into the folder `out` and return what was written. Run again, it spends nothing."""
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
        return _run(Path(out), quick, words.console().print if show is None else show)
    except OSError as error:
        raise InputError(
            f"{out} cannot be written to: {error.strerror}.", hint="--out names another folder", spent=""
        ) from None


def _run(out: Path, quick: bool, show: Callable[..., None]) -> dict[str, Any]:
    data, model = _prepare(out, quick=quick)
    show(f"1. A table of {data.size:,} rows (RAND Health Insurance Experiment), and a model of doctor visits for it.")

    show("\n2. What will it cost, how good will it be? Known before anything is paid; this account counts zCDP:\n")
    requests = {
        "curves": PartialDependence(feature=list(COLUMNS), grid=12 if quick else None),
        "pair": PartialDependence(feature=[PAIR]),
        "effects": AccumulatedEffects(feature=list(EFFECTS)),
        "importance": PermutationImportance(target=TARGET),
        "interactions": InteractionRanking(kind="total", parts=20 if quick else None),
        "sketch": LocalSketch(),
    }
    forecasts = {name: _forecast(request, data, model, PRICES[name]) for name, request in requests.items()}
    for forecast in forecasts.values():
        show(words.forecast_view([forecast]))

    show("\n3. Release, each through the ledger:\n")
    released: dict[str, list[Result]] = {}
    for name, request in requests.items():
        answer = EXPLAINERS[name](data, model, request, cost=data.cost(epsilon=PRICES[name]))
        released[name] = [answer] if isinstance(answer, Result) else list(answer)
        _say(show, released[name][0].receipt)
    released["marginals"] = [marginals(data, list(COLUMNS), epsilon=PRICES["marginals"])]
    _say(show, released["marginals"][0].receipt)
    released["clusters"] = _clusters(data)
    for result in released["clusters"]:
        _say(show, result.receipt)
    released["disparity"] = _disparity(data, model, released["marginals"][0])
    for result in released["disparity"]:
        _say(show, result.receipt)
    released["people"] = _explained(released["sketch"][0], model)
    show(f"Explained from the sketch, free: {'; '.join(PEOPLE)}.")
    pd.DataFrame(list(PEOPLE.values())).to_csv(out / "people.csv", index=False)
    files = write_results([result for results in released.values() for result in results], out)
    report = released["disparity"][-1]
    assert isinstance(report, TransparencyReport)
    report.to_html(out / "transparency.html")

    statement = data.ledger.statement(data.name)
    show("\n4. The budget statement:\n")
    show(words.statement_view(statement))

    show("\n5. Anybody with the ledger can check a published file:\n")
    published = from_json(files[0])
    entry = published.receipt.entry
    verify(published, data.ledger)
    checked = data.ledger.verify()
    show(f"{files[0].name} is genuine: entry {entry.sequence} of {checked.events}; the chain is whole.")

    (out / "index.html").write_text(_page(released, forecasts, statement), encoding="utf-8")
    folder = literal(str(out))
    show(
        f"\nOpen {folder}/index.html. Beside it: a .png and a .json for each plot, and the ledger. Go on with:\n"
        f"  dpexplain pdp --project {folder}/dpexplain.toml --pair health,chronic_diseases --epsilon 0.3\n"
        f"  dpexplain ale --project {folder}/dpexplain.toml --feature incentive --epsilon 0.3\n"
        f"  dpexplain local --sketch {folder}/local-sketch.json --rows {folder}/people.csv --out {folder}/people\n"
        f"  dpexplain influence --project {folder}/dpexplain.toml --epsilon 0.3\n"
        f"  dpexplain budget --project {folder}/dpexplain.toml\n"
        f"  dpexplain verify {folder}/{files[0].name} --project {folder}/dpexplain.toml"
    )
    return {
        "page": str(out / "index.html"),
        "results": [str(path) for path in files],
        "project": str(out / "dpexplain.toml"),
        "spent_now": not all(results[0].receipt.replayed for results in released.values()),
        "forecasts": [forecast.to_json() for forecast in forecasts.values()],
        "statement": words.statement_json(statement),
    }


def _prepare(out: Path, *, quick: bool) -> tuple[PrivateTable, Model]:
    """Write the table, its domain, the model and the project file, and open what was written."""
    try:
        import joblib
        import sklearn
        from sklearn.ensemble import HistGradientBoostingRegressor
        from statsmodels.datasets import randhie
    except ImportError as error:
        raise InputError(
            f"the demo needs the package {error.name!r}.", hint="pip install dpexplain[demo], or: make demo"
        ) from None
    rows = _readable(randhie.load_pandas().data)
    rows = rows.iloc[::5].reset_index(drop=True) if quick else rows
    rows.to_parquet(out / "table.parquet")
    declared = {name: column for name, (column, _) in COLUMNS.items()}
    domain = Domain({**declared, TARGET: VISITS}, reviewed_by="the authors of the demo")
    save_domain(domain, out / "domain.yaml")
    estimator = HistGradientBoostingRegressor(
        max_iter=30 if quick else 120,
        learning_rate=0.06,
        max_leaf_nodes=8,
        min_samples_leaf=60 if quick else 300,
        categorical_features="from_dtype",
        random_state=0,
    )
    estimator.fit(rows[list(COLUMNS)], rows[TARGET].clip(0, MOST_VISITS))
    joblib.dump(estimator, out / "model.joblib")
    version = "quick" if quick else "1"
    model_version = f"{version}, scikit-learn {sklearn.__version__}"
    project = PROJECT % (json.dumps(version), json.dumps(model_version))
    (out / "dpexplain.toml").write_text(project, encoding="utf-8")
    data = PrivateTable(
        out / "table.parquet",
        domain=load_domain(out / "domain.yaml"),
        budget=BUDGET,
        relation=RELATION,
        ledger=f"sqlite:///{(out / 'budget.db').absolute()}",
        name=NAME,
        version=version,
    )
    return data, Model(estimator, output=OUTPUT, name=MODEL, version=model_version)


def _forecast(request: Any, data: PrivateTable, model: Model, epsilon: float) -> Forecast:
    assert data.size is not None
    return plan(
        request,
        domain=data.domain,
        n=data.size,
        relation=data.neighbours.relation,
        output=model.output,
        epsilon=epsilon,
        delta=BUDGET.delta,
        features=model.features(data.domain),
    )


def _readable(raw: pd.DataFrame) -> pd.DataFrame:
    """The same rows in percents, dollars and words. Each value comes from its own row alone."""
    health = np.select([raw["hlthg"] == 1, raw["hlthf"] == 1, raw["hlthp"] == 1], ["good", "fair", "poor"], "excellent")
    columns = {
        "coinsurance": np.rint(np.expm1(raw["lncoins"])).astype(np.int64),
        "deductible_plan": pd.Categorical(np.where(raw["idp"] == 1, "yes", "no"), ["no", "yes"]),
        "incentive": np.where(raw["lpi"] > 0, np.exp(raw["lpi"]), 0.0).round(2),
        "max_expenditure": np.where(raw["fmde"] > 0, np.exp(raw["fmde"]), 0.0).round(2),
        "physical_limitation": raw["physlm"],
        "chronic_diseases": raw["disea"],
        "health": pd.Categorical(health, ["excellent", "good", "fair", "poor"]),
        TARGET: raw["mdvis"],
    }
    return pd.DataFrame(columns)


def _clusters(data: PrivateTable) -> list[Result]:
    """Three clusters of rows, found privately, and what tells them apart."""
    found = dp_kmeans(data, 3, list(GROUPED_BY), epsilon=PRICES["k-means"], labels=["A", "B", "C"])
    assert found.result is not None
    return [explain_clusters(data, found, epsilon=PRICES["clusters"]), found.result]


def _disparity(data: PrivateTable, model: Model, known: Any) -> list[Result]:
    """What makes the visits of a group differ, and a report for one person; values come from the marginals, free."""
    what = influence(data, model, "disparity", group=GROUP, epsilon=PRICES["disparity"], marginals=known)
    who = list(PEOPLE.values())[-1]
    report = transparency_report(data, model, who, epsilon=PRICES["report"], marginals=known)
    assert isinstance(report, TransparencyReport)
    return [what, report]


def _explained(sketch: Any, model: Model) -> list[Result]:
    """The people explained from the sketch, each through the model's own prediction: free, and no row is read."""
    domain, predictor = sketch.space.domain, model.checked(sketch.space.domain)
    found: list[Result] = []
    for person in PEOPLE.values():
        asked = LocalExplanation(record=person, anchor="prediction")
        found.append(sketch.explain(person, prediction=anchor_of(asked, predictor, domain, model.output)))
    return found


def _say(show: Callable[..., None], receipt: Receipt) -> None:
    paid = "already released, free" if receipt.replayed else f"released for {receipt.budget.describe(receipt.cost)}"
    show(f"{receipt.label}: {paid}")


def _page(released: dict[str, list[Result]], forecasts: dict[str, Forecast], statement: Statement) -> str:
    errors = {name: forecast.options[-1].error for name, forecast in forecasts.items()}  # of the zCDP account
    facts = table(["", ""], words.statement_facts(statement))
    entries = table(*words.statement_entries(statement))
    meanings = [[name, _declared(column), meaning] for name, (column, meaning) in COLUMNS.items()]
    lists = "".join(
        f"<h3>{title}</h3><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
        for title, lines in (("What is protected", PROTECTED), ("What is not", NOT_PROTECTED))
    )
    sections = [
        Section("The promise", html=f'<div class="promise">{lists}</div>'),
        Section(
            "What the model has learned",
            "Each plot answers: if this one column had this value in every row and nothing else changed, what would "
            "the model predict on average? The line is the released curve, smoothed; the band covers the exact curve "
            "of the table at each point with probability 95 %; grey bars show where the rows are, with noise of their "
            "own. "
            f"Forecast before the release: ±{errors['curves']:.2g} visits at each point.",
            results=released["curves"],
        ),
        Section(
            "Which columns matter",
            "On the left: how much worse the model predicts when a column is exchanged between rows. On the right: "
            "which columns act together with others, by a vote of parts of the rows (Friedman's H). Behind a name "
            "stands the probability that it truly is above the next one.",
            results=[*released["importance"], *released["interactions"]],
        ),
        Section(
            "Effects where the rows are",
            "Accumulated effects follow a column in small steps and ask only rows that are near; their mean is zero. "
            f"Noise adds up along the curve: forecast before the release ±{errors['effects']:.2g} visits at the worst "
            "point.",
            results=released["effects"],
        ),
        Section(
            "Why this prediction?",
            f"Two people who are made up, not from the table: {' and '.join(PEOPLE)}. Each picture starts at what the "
            "local model says for an average row and ends at the prediction for the person. Both come from one "
            "release, a sketch, from which anybody can be explained from now on, free. The guarantee protects the rows "
            "of the table, not the person who is explained.",
            results=released["people"],
        ),
        Section(
            "Free care: what makes the difference, and one person's report",
            "How do the predictions for people who pay nothing differ from those for all others? On the left: what "
            "each column adds to the difference, by replacing its values with those of other people and leaving all "
            "else. What merely goes along with free care, without moving the prediction, adds nothing. "
            + " ".join(getattr(released["disparity"][0], "sentences", list)())
            + " On the right, the same question for one person; transparency.html beside this page is the report as "
            "that person would get it.",
            results=released["disparity"],
        ),
        Section(
            "Groups of people, and what tells them apart",
            "Three clusters were found by private k-means over plan and health; for each of them one column that sets "
            "it apart was chosen, by a noisy choice among all of them. Blue is inside the cluster, hatched outside. "
            + " ".join(getattr(released["clusters"][0], "sentences", [])),
            results=released["clusters"],
        ),
        Section(
            "Two columns at once, and where the rows are",
            "Does paying more oneself keep the sick from the doctor, too? Forecast before the release: "
            f"±{errors['pair']:.2g} visits in each cell. On the right, one noisy histogram for each column.",
            results=[*released["pair"], *released["marginals"]],
        ),
        Section("The columns", "Declared from the published description of the experiment, not read from the rows.",
                html=table(["column", "declared", "meaning"], meanings)),
        Section(
            "The budget",
            "Every release is paid for from one account, which cannot be overdrawn. Asking for the same again is free.",
            html=bar(words.spent_share(statement)) + f'<div class="wide">{facts}{entries}</div>',
        ),
    ]  # fmt: skip
    footer = (
        "Made by dpexplain demo. Data: RAND Health Insurance Experiment, from statsmodels. Each .json file beside this "
        "page holds released values and their receipt; `dpexplain verify` checks it against the ledger."
    )
    return page("What drives doctor visits?", LEAD, sections, footer)


def _declared(column: Numeric | Categorical) -> str:
    if isinstance(column, Categorical):
        return ", ".join(map(str, column.categories))
    return f"{column.low:g} to {column.high:g}"
