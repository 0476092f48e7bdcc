"""One of every kind of result, with names that are as long as people make them, for tests of pictures and pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import dpexplain as dpx
from dpexplain.core.release import Door
from dpexplain.results import Result
from stubs import SteadyNoise

AGE = "age of the policyholder at the beginning of the insured year, in completed years"
KIND = "highest_completed_level_of_education_as_reported_by_the_employer"
PLAN = "Insurance plan with $0-$500 deductible (individual), 2019/2020"
TARGET = "doctor visits"
KINDS = [
    "Never attended school or only kindergarten or preschool",
    "Some college or technical school, one to three years, no degree",
    "Graduate_or_professional_degree_beyond_a_bachelor_of_science",
    "No",
]
DOMAIN = dpx.Domain(
    {
        AGE: dpx.Numeric(0, 110, integer=True),
        KIND: dpx.Categorical(KINDS),
        PLAN: dpx.Numeric(0, 1_000_000),
        TARGET: dpx.Numeric(0, 1),
    }
)
FEATURES = [AGE, KIND, PLAN]
RECORD = {AGE: 64, KIND: KINDS[1], PLAN: 250_000.0}


def score(rows: pd.DataFrame) -> Any:
    effect = 0.2 + 0.005 * rows[AGE].to_numpy() + 0.1 * (rows[KIND] == KINDS[1]).to_numpy()
    return np.clip(effect + 0.1 * rows[PLAN].to_numpy() / 1e6, 0, 1)


def every_result() -> dict[str, Result]:
    """By a name of its own; a ledger in memory, a thousand rows, noise from a fixed seed."""
    draw, n = np.random.default_rng(0), 1000
    rows = pd.DataFrame(
        {
            AGE: draw.integers(0, 110, n),
            KIND: draw.choice(KINDS, n, p=[0.1, 0.5, 0.35, 0.05]),
            PLAN: draw.uniform(0, 1e6, n),
            TARGET: draw.uniform(0, 1, n),
        }
    )
    table = dpx.PrivateTable(
        rows,
        domain=DOMAIN,
        budget=dpx.Budget(epsilon=1000, delta=1e-6),
        relation="replace-one",
        ledger="sqlite:///:memory:",
        name="policyholders of the regional health insurance fund",
        version="1",
    )
    table.door = Door(table.door.account, sampler=SteadyNoise())
    model = dpx.Model(score, output=(0.0, 1.0), features=FEATURES, name="expected use of care", version="1")
    price: dict[str, Any] = {"epsilon": 2}
    curves = dpx.partial_dependence(table, model, [*FEATURES[:2], (AGE, KIND), (KIND, PLAN)], **price)
    found: dict[str, Any] = dict(zip(("curve", "dots", "surface", "surface of names"), curves, strict=True))
    found["rough curve"] = dpx.partial_dependence(table, model, PLAN, smooth=False, rug=False, **price)
    found["accumulated"] = dpx.accumulated_effects(table, model, AGE, **price)
    found["accumulated names"] = dpx.accumulated_effects(table, model, KIND, **price)
    found["generic"] = dpx.generic_plot(table, "pdp", AGE, output=(0, 1), model=model, grid=4, parts=10, **price)
    found["marginals"] = known = dpx.marginals(table, **price)
    found["quantiles"] = dpx.quantiles(table, AGE, [0.1, 0.5, 0.9], **price)
    found["importance"] = dpx.permutation_importance(table, model, TARGET, marginals=known, **price)
    found["interactions"] = dpx.interaction_ranking(table, model, parts=20, **price)
    found["sketch"] = sketch = dpx.local_sketch(table, model, **price)
    found["attribution"] = sketch.explain(RECORD)
    found["influence"] = dpx.influence(table, model, outcome="score", marginals=known, **price)
    found["person"] = dpx.influence(table, model, "individual", row=RECORD, outcome="score", marginals=known)
    found["report"] = dpx.transparency_report(table, model, RECORD, outcome="score", **price)
    clustering = dpx.dp_kmeans(table, 2, [AGE, KIND], **price)
    found["centres"] = clustering.result
    found["clusters"] = dpx.explain_clusters(table, clustering, method="two-stage", **price)
    return found
