"""The RAND Health Insurance Experiment as a project: table, domain, model.

The table comes with statsmodels: 20,190 rows, one for each person and year. It carries no person id, so what is
protected here is one row and not one person; the page says so. Every column but the target is explained; the three 0/1
columns of self-rated health are put together into the one question they answer, and logarithms are undone, so that a
reader meets percents and dollars.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpexplain.core.budget import Budget
from dpexplain.core.domain import Categorical, Numeric
from dpexplain.data.domain_file import Domain
from dpexplain.data.table import PrivateTable
from dpexplain.errors import InputError
from dpexplain.models import Model

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
# What people call them; words alone
NAMES: dict[str, dict[str, Any]] = {
    "coinsurance": {"title": "Share of bills that the family pays", "unit": "%"},
    "deductible_plan": {"title": "Plan with a deductible"},
    "incentive": {"title": "Payment for taking part", "unit": "dollars a year"},
    "max_expenditure": {"title": "Most that the family pays", "unit": "dollars a year"},
    "physical_limitation": {"title": "Physical limitation", "unit": "0 no, 1 yes"},
    "chronic_diseases": {"title": "Index of chronic diseases"},
    "health": {"title": "Self-rated health"},
    "visits": {"title": "Doctor visits", "unit": "a year", "description": "outpatient visits in a year (mdvis)"},
}
TARGET, MOST_VISITS = "visits", 24
VISITS = Numeric(0, MOST_VISITS, integer=True, missing=0)
OUTPUT = (0, 12)  # predicted visits a year: from none to one a month

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
import = "visits_model:estimator"
output = [{OUTPUT[0]}, {OUTPUT[1]}]
name = "{MODEL}"
version = %s
target = "{TARGET}"
"""
# A pickle runs code when it is loaded, so a project file names none; a module of one's own may load one.
MODULE = """\
from pathlib import Path
from typing import Any

import joblib

estimator = joblib.load(Path(__file__).with_name("visits_model.joblib"))
"""


def prepare(out: Path, *, quick: bool) -> tuple[PrivateTable, Model]:
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
    names = {name: {**NAMES[name], "description": meaning} for name, (_, meaning) in COLUMNS.items()}
    names[TARGET] = NAMES[TARGET]
    about: dict[str, Any] = {"names": names, "units": "rows (one person in one year)"}
    domain = Domain({**declared, TARGET: VISITS}, reviewed_by="the authors of the demo", **about)
    domain.save(out / "domain.yaml")
    estimator = HistGradientBoostingRegressor(
        max_iter=30 if quick else 120,
        learning_rate=0.06,
        max_leaf_nodes=8,
        min_samples_leaf=60 if quick else 300,
        categorical_features="from_dtype",
        random_state=0,
    )
    estimator.fit(rows[list(COLUMNS)], rows[TARGET].clip(0, MOST_VISITS))
    joblib.dump(estimator, out / "visits_model.joblib")
    (out / "visits_model.py").write_text(MODULE, encoding="utf-8")
    version = "quick" if quick else "1"
    model_version = f"{version}, scikit-learn {sklearn.__version__}"
    project = PROJECT % (json.dumps(version), json.dumps(model_version))
    (out / "dpexplain.toml").write_text(project, encoding="utf-8")
    data = PrivateTable(
        out / "table.parquet",
        domain=Domain.load(out / "domain.yaml"),
        budget=BUDGET,
        relation=RELATION,
        ledger=f"sqlite:///{(out / 'budget.db').absolute()}",
        name=NAME,
        version=version,
    )
    return data, Model(estimator, output=OUTPUT, name=MODEL, version=model_version)


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
