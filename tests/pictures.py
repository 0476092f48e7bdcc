"""One of every kind of result, with names that are as long as people make them, for tests of pictures and pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import dpexplain as dpx
from dpexplain.core.release import Door
from dpexplain.methods.result import Result
from dpexplain.render.picture import Picture
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


def domain(odd: str = "") -> dpx.Domain:
    """The columns; `odd` is added to every name and category."""
    return dpx.Domain(
        {
            AGE + odd: dpx.Numeric(0, 110, integer=True),
            KIND + odd: dpx.Categorical([kind + odd for kind in KINDS]),
            PLAN + odd: dpx.Numeric(0, 1_000_000),
            TARGET + odd: dpx.Numeric(0, 1),
        }
    )


DOMAIN = domain()


@contextmanager
def sketched() -> Iterator[None]:
    """Pictures whose texts are not fitted, of few dots, in a third of the time: for tests of what is on a page or which
    files there are, not of where it stands.
    """

    def save(picture: Picture, *where: Any, **options: Any) -> None:
        Figure.savefig(picture, *where, **{**options, "dpi": 40})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Picture, "fit", lambda picture: picture.set_layout_engine("none"))
        patch.setattr(Picture, "savefig", save)
        yield


@contextmanager
def unpainted() -> Iterator[None]:
    """Pictures that are put together as ever and saved empty: for tests of which files there are."""

    def save(picture: Picture, *where: Any, **options: Any) -> None:
        Figure((1, 1)).savefig(*where, **{**options, "dpi": 10})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Picture, "fit", lambda _picture: None)
        patch.setattr(Picture, "savefig", save)
        yield


def every_result(odd: str = "") -> dict[str, Result]:
    """By a name of its own; a ledger in memory, a thousand rows, noise from a fixed seed.

    `odd` is added to every name that people give.
    """
    declared = domain(odd)
    age, kind, plan, target = declared
    kinds, features = [kind + odd for kind in KINDS], [age, kind, plan]
    record = {age: 64, kind: kinds[1], plan: 250_000.0}

    def score(rows: pd.DataFrame) -> Any:
        effect = 0.2 + 0.005 * rows[age].to_numpy() + 0.1 * (rows[kind] == kinds[1]).to_numpy()
        return np.clip(effect + 0.1 * rows[plan].to_numpy() / 1e6, 0, 1)

    draw, n = np.random.default_rng(0), 1000
    rows = pd.DataFrame(
        {
            age: draw.integers(0, 110, n),
            kind: draw.choice(kinds, n, p=[0.1, 0.5, 0.35, 0.05]),
            plan: draw.uniform(0, 1e6, n),
            target: draw.uniform(0, 1, n),
        }
    )
    table = dpx.PrivateTable(
        rows,
        domain=declared,
        budget=dpx.Budget(epsilon=1000, delta=1e-6),
        relation="replace-one",
        ledger="sqlite:///:memory:",
        name="policyholders of the regional health insurance fund" + odd,
        version="1",
    )
    table.door = Door(table.door.account, sampler=SteadyNoise())
    model = dpx.Model(score, output=(0.0, 1.0), features=features, name="expected use of care" + odd, version="1")
    price: dict[str, Any] = {"epsilon": 2}
    curves = dpx.partial_dependence(table, model, [*features[:2], (age, kind), (kind, plan)], **price)
    found: dict[str, Any] = dict(zip(("curve", "dots", "surface", "surface of names"), curves, strict=True))
    found["rough curve"] = dpx.partial_dependence(table, model, plan, smooth=False, rug=False, **price)
    found["accumulated"] = dpx.accumulated_effects(table, model, age, **price)
    found["accumulated names"] = dpx.accumulated_effects(table, model, kind, **price)
    found["generic"] = dpx.generic_plot(table, "pdp", age, output=(0, 1), model=model, grid=4, parts=10, **price)
    found["marginals"] = known = dpx.marginals(table, **price)
    found["stand-in"] = dpx.stand_in(table, grade="tree", **price)
    found["quantiles"] = dpx.quantiles(table, age, [0.1, 0.5, 0.9], **price)
    found["importance"] = dpx.permutation_importance(table, model, target, marginals=known, **price)
    found["interactions"] = dpx.interaction_ranking(table, model, parts=20, **price)
    found["sketch"] = sketch = dpx.local_sketch(table, model, method="moments", **price)
    found["attribution"] = sketch.explain(record)
    found["sketch of rows"] = of_rows = dpx.local_sketch(table, model, stand_in=found["stand-in"])
    found["attribution of rows"] = of_rows.explain(record)
    found["influence"] = dpx.influence(table, model, outcome="score", marginals=known, **price)
    found["person"] = dpx.influence(table, model, "individual", row=record, outcome="score", marginals=known)
    found["report"] = dpx.transparency_report(table, model, record, outcome="score", **price)
    found["performance"] = dpx.performance(table, plan, kind, [age], positive=kinds[1], **price)
    found["performance of numbers"] = dpx.performance(table, model, target, [kind], **price)
    found |= _comparisons(table, rows, model, target, kind, age, plan)
    clustering = dpx.dp_kmeans(table, 2, [age, kind], **price)
    found["centres"] = clustering.result
    found["clusters"] = dpx.explain_clusters(table, clustering, method="two-stage", **price)
    found["likely clusters"] = dpx.explain_clusters(table, clustering, method="posterior", **price)
    return found


def _comparisons(
    table: dpx.PrivateTable, rows: pd.DataFrame, model: dpx.Model, target: str, kind: str, age: str, plan: str
) -> dict[str, Any]:
    """Two versions of a model, and of the table."""
    features, price = [age, kind, plan], {"epsilon": 2}
    older = dpx.Model(
        lambda some: 0.5 * model.original(some), output=(0.0, 1.0), features=features, name=model.name, version="0"
    )
    later = dpx.PrivateTable(
        rows[200:], domain=table.domain, budget=table.budget, relation="replace-one", ledger=table.ledger,
        name=table.name, version="2",
    )  # fmt: skip
    later.door = Door(later.door.account, sampler=SteadyNoise())
    curve, importance = dpx.requests.PartialDependence(feature=age), dpx.requests.PermutationImportance(target=target)
    rates = dpx.requests.Performance(target=kind, positive=table.domain[kind].categories[1], groups=[age])
    risks = [
        dpx.Model(risk, output=(0.0, 1.0), features=[age], name="risk", version=version)
        for version, risk in (("1", lambda some: some[age] / 200), ("2", lambda some: some[age] / 150))
    ]
    return {
        "difference": dpx.compare(table, [older, model], curve, **price),
        "difference of importances": dpx.compare(table, [older, model], importance, **price),
        "differences of rates": dpx.compare(table, risks, rates, **price),
        "change": dpx.compare([table, later], model, curve, **price),
    }
