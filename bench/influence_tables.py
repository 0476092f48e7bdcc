"""Group influence, disparity by race, and table-level Shapley and Banzhaf values: error beside the paper's mechanism.

Table I of paper 003 names them; its figures, and `influence_accuracy`, are about averages. Adult, six features, boosted
trees, the class as outcome, pure account, replace-one, as many draws in both. The paper's mechanism is our
`method="paper"`. A group of it has noise by a *released* size, because noise by the exact one is no privacy. The error
is the mean absolute one over features, against our values without any noise and with more draws.

Those take the values of a set of features independently of each other; in the paper's form one other row gives all of
them. For single features that is the same; of its error for Shapley and Banzhaf values a part is this difference.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import dpexplain as dpx
from bench.audit_influence import Unnoised
from bench.audit_records import _column
from dpexplain.core.release import Door

FEATURES = ["age", "education_num", "marital_status", "hours_per_week", "sex"]
PREDICTIONS, REPETITIONS = 500_000, 4  # of one release; four times as many for the exact values
GROUP, EPSILONS = {"race": "Black"}, (0.1, 1.0)
ASKED: dict[str, dict[str, Any]] = {
    "group, unary": {"quantity": "group", "group": GROUP},
    "disparity by race, unary": {"quantity": "disparity", "group": GROUP},
    "average, Shapley": {"quantity": "average", "aggregate": "shapley", "outcome": "score"},
    "average, Banzhaf": {"quantity": "average", "aggregate": "banzhaf", "outcome": "score"},
    "group, Shapley": {"quantity": "group", "group": GROUP, "aggregate": "shapley", "outcome": "score"},
}


def study(options: Namespace) -> dict[str, Any]:
    """For each quantity, epsilon and form, the mean absolute error over features and releases."""
    rows, domain, model = _people(options)
    content: dict[str, Any] = {"rows": len(rows), "features": FEATURES, "predictions": PREDICTIONS}
    times = 2 if options.quick else REPETITIONS
    for name, asked in ASKED.items():
        asked = dict(asked)
        settings: dict[str, Any] = {"features": FEATURES, "most_predictions": PREDICTIONS, **asked}
        truth = _table(rows, domain, exact=True)
        exact = dpx.influence(truth, model, epsilon=10.0, seed=7, **{**settings, "most_predictions": 4 * PREDICTIONS})
        truth.ledger.close()
        for epsilon in EPSILONS:
            line: dict[str, Any] = {"mean absolute value": float(np.abs(exact.values).mean())}
            for method in ("default", "paper"):
                off = []
                for seed in range(times):
                    table = _table(rows, domain)
                    try:
                        found = dpx.influence(table, model, epsilon=epsilon, method=method, seed=seed, **settings)
                        off.append(float(np.abs(found.values - exact.values).mean()))
                    except dpx.InputError as refused:
                        line[method] = str(refused).splitlines()[0]
                        break
                    finally:
                        table.ledger.close()
                else:
                    line[method] = [float(np.mean(off)), float(np.std(off) / np.sqrt(times))]
            content[f"{name}, epsilon {epsilon:g}"] = line
            print(name, epsilon, line, flush=True)
    return content


def _people(options: Namespace) -> tuple[pd.DataFrame, dpx.Domain, dpx.Model]:
    frame = pd.read_parquet(options.data / "adult.parquet")
    frame = frame[frame["split"] == "train"].reset_index(drop=True)
    rows = frame[[*FEATURES, "race"]].copy()
    domain = dpx.Domain({name: _column(rows[name]) for name in rows})
    codes: dict[str, dict[Any, int]] = {}
    for name, column in domain.items():
        if isinstance(column, dpx.Categorical):
            rows[name] = rows[name].astype(str)
            codes[name] = {category: code for code, category in enumerate(column.categories)}

    def matrix(some: pd.DataFrame) -> np.ndarray:
        columns = [some[name].map(codes[name]) if name in codes else some[name] for name in FEATURES]
        return np.column_stack([np.asarray(column, dtype=float) for column in columns])

    trees = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=8, random_state=0)
    trees.fit(matrix(rows), (frame["income"].astype(str) == ">50K").astype(int))
    model = dpx.Model(
        lambda some: trees.predict_proba(matrix(some))[:, 1],
        output=(0.0, 1.0), features=FEATURES, name="income", version="1", thread_safe=False,
    )  # fmt: skip
    return rows, domain, model


def _table(rows: pd.DataFrame, domain: dpx.Domain, *, exact: bool = False) -> dpx.PrivateTable:
    table = dpx.PrivateTable(
        rows, domain=domain, budget=dpx.Budget(100.0), relation="replace-one", ledger="sqlite:///:memory:", name="adult"
    )
    if exact:
        table.door = Door(table.door.account, sampler=Unnoised())
    return table
