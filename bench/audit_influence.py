"""Feature inference from Shapley values (paper 004, section 2.2): from our reports for persons to the persons' records.

Persons of Adult are explained by what the product hands to them: Shapley values of each input for the own outcome
(`dpx.influence(quantity="individual", aggregate="shapley")`, and the same values in transparency reports), computed
from released marginals. The attacker of Luo, Jiang and Xiao 2022 has auxiliary records with their values and trains a
model from values to records. Outside the guarantee, which is about the rows of the table: so no epsilon makes it
harder, and the values from exact marginals stand beside those from noisy ones.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track
from sklearn.ensemble import HistGradientBoostingClassifier

import dpexplain as dpx
from bench.audit_records import _attacked, _column
from dpexplain.audit import reconstruction
from dpexplain.core.release import Door
from dpexplain.core.samplers import ExactSampler

FEATURES = ["age", "education_num", "marital_status", "occupation", "sex", "hours_per_week"]
ASKED = ((0.1, "score"), (1.0, "score"), (np.inf, "score"), (1.0, "class"))  # epsilon of the marginals, outcome


class Unnoised(ExactSampler):
    """Adds nothing. For the attacks alone."""

    def perturb(self, values: Any, _noise: Any, _sensitivity: Any, _cost: Any) -> list[int]:
        return [int(value) for value in values]


def persons(options: Namespace) -> dict[str, Any]:
    """Every attack on the values of some persons, by the price of the marginals and what the outcome is."""
    frame = pd.read_parquet(options.data / "adult.parquet")
    frame = frame[frame["split"] == "train"].dropna(subset=FEATURES).reset_index(drop=True)
    rows = frame[FEATURES].copy()
    domain = dpx.Domain({name: _column(rows[name]) for name in FEATURES})
    codes: dict[str, dict[Any, int]] = {}
    for name, column in domain.items():
        if isinstance(column, dpx.Categorical):
            rows[name] = rows[name].astype(str)
            codes[name] = {category: code for code, category in enumerate(column.categories)}

    def matrix(some: pd.DataFrame) -> np.ndarray:
        columns = [some[name].map(codes[name]) if name in codes else some[name] for name in FEATURES]
        return np.column_stack([np.asarray(column, dtype=float) for column in columns])

    trees = HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=15, random_state=0)
    trees.fit(matrix(rows), (frame["income"].astype(str) == ">50K").astype(int))
    model = dpx.Model(
        lambda some: trees.predict_proba(matrix(some))[:, 1],
        output=(0.0, 1.0), features=FEATURES, name="income", version="1", thread_safe=False,
    )  # fmt: skip
    asked = rows.sample(100 if options.quick else 400, random_state=0)
    sizes = (30, 60) if options.quick else (100, 280)
    lines = []
    for epsilon, outcome in ASKED:
        values = _values(rows, domain, model, asked, epsilon, outcome)
        line: dict[str, Any] = {"epsilon": str(epsilon), "outcome": outcome, "attacks": {}}
        for attack in ("linear", "forest", "mlp"):
            found = reconstruction(values, asked, domain, auxiliary=list(sizes), attack=attack)
            line["attacks"][attack] = _attacked(found)
        lines.append(line)
    about = {"table": "Adult", "rows": len(rows), "persons": len(asked), "features": FEATURES}
    return {**about, "explanations": lines}


def _values(
    rows: pd.DataFrame, domain: dpx.Domain, model: dpx.Model, asked: pd.DataFrame, epsilon: float, outcome: str
) -> np.ndarray:
    """Shapley values of every person: all free, from marginals that were released once."""
    table = dpx.PrivateTable(
        rows, domain=domain, budget=dpx.Budget(100.0), relation="replace-one", ledger="sqlite:///:memory:",
        name=f"adult {epsilon} {outcome}",
    )  # fmt: skip
    if np.isinf(epsilon):
        table.door = Door(table.door.account, sampler=Unnoised())
    marginals = dpx.marginals(table, FEATURES, epsilon=1.0 if np.isinf(epsilon) else epsilon)
    options: dict[str, Any] = {"aggregate": "shapley", "outcome": outcome, "samples": 20, "marginals": marginals}
    found = []
    for person in track(asked.to_dict("records"), description=f"persons, epsilon {epsilon}, {outcome}"):
        influence = dpx.influence(table, model, "individual", row=person, **options)
        found.append(influence.values)
    table.ledger.close()
    return np.array(found)


def summary(content: dict[str, Any]) -> dict[str, str]:
    """Success, the guess without the values, and the advantage of each attack."""
    lines = {}
    for line in content["explanations"]:
        told = [
            f"{name}: {a['success']:.3f}, without {a['without the explanation']:.3f}, advantage {a['advantage']:+.3f} "
            f"({a['interval'][0]:+.3f} to {a['interval'][1]:+.3f})"
            for name, a in line["attacks"].items()
        ]
        lines[f"Shapley values of the {line['outcome']}, marginals at epsilon {line['epsilon']}"] = "; ".join(told)
    return lines
