"""Group influence, disparity by race, and table-level Shapley and Banzhaf values: error beside the paper's mechanism.

Table I of paper 003 names them; its figures, and `influence_accuracy`, are about averages. Adult, five features,
boosted trees, pure account, replace-one, as many draws in both; each feature by itself on the class, as in the paper's
figures, Shapley and Banzhaf values on the score. The paper's mechanism is our `method="paper"`. A group of it has noise
by a *released* size, because noise by the exact one is no privacy. The error is the mean absolute one over features:
for each by itself against the exact influence, all rows with the values of all rows; for the others against our values
without any noise and with more draws.

Those take the values of a set of features independently of each other; in the paper's form one other row gives all of
them. For single features that is the same; of its error for Shapley and Banzhaf values a part is this difference.

The influences themselves, as in Figure 2c (a disparity by sex) and 2d (by race, of the arrests, which cannot be had):
each input's on the disparity, exact, by the paper's mechanism and by ours; how many 95 % intervals hold it.
"""

from __future__ import annotations

import math
from argparse import Namespace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.ensemble import HistGradientBoostingClassifier

import dpexplain as dpx
from bench.audit_influence import Unnoised
from bench.audit_records import _column
from dpexplain.core.release import Door

FEATURES = ["age", "education_num", "marital_status", "hours_per_week", "sex"]
PREDICTIONS, REPETITIONS = 500_000, 4  # of one release; four times as many for the exact values
GROUP, EPSILONS = {"race": "Black"}, (0.1, 1.0)
ASKED: dict[str, dict[str, Any]] = {
    "group, unary": {"quantity": "group", "group": GROUP, "outcome": "class"},
    "disparity by race, unary": {"quantity": "disparity", "group": GROUP, "outcome": "class"},
    "disparity by sex, unary": {"quantity": "disparity", "group": {"sex": "Female"}, "outcome": "class"},
    "average, Shapley": {"quantity": "average", "aggregate": "shapley", "outcome": "score"},
    "average, Banzhaf": {"quantity": "average", "aggregate": "banzhaf", "outcome": "score"},
    "group, Shapley": {"quantity": "group", "group": GROUP, "aggregate": "shapley", "outcome": "score"},
}


def study(options: Namespace) -> dict[str, Any]:
    """For each quantity, epsilon and form, the mean absolute error over features and releases."""
    rows, domain, model, changes = _people(options)
    content: dict[str, Any] = {"rows": len(rows), "features": FEATURES, "predictions": PREDICTIONS}
    times = 2 if options.quick else REPETITIONS
    for name, asked in ASKED.items():
        asked = dict(asked)
        settings: dict[str, Any] = {"features": FEATURES, "most_predictions": PREDICTIONS, **asked}
        if "aggregate" not in asked:
            truth = _of_group(changes, rows, asked)
        else:
            table = _table(rows, domain, exact=True)
            more = {**settings, "most_predictions": 4 * PREDICTIONS}
            truth = dpx.influence(table, model, epsilon=10.0, seed=7, **more).values
            table.ledger.close()
        for epsilon in EPSILONS:
            line: dict[str, Any] = {"mean absolute value": float(np.abs(truth).mean())}
            shown: dict[str, Any] = {"exact": _lines(FEATURES, truth, truth, truth)}
            for method in ("default", "paper"):
                off = []
                held: list[float] = []
                for seed in range(times):
                    table = _table(rows, domain)
                    try:
                        found = dpx.influence(table, model, epsilon=epsilon, method=method, seed=seed, **settings)
                        off.append(float(np.abs(found.values - truth).mean()))
                        low, high = found.interval()
                        held.append(float(((low <= truth) & (truth <= high)).mean()))
                        shown.setdefault(method, _by_feature(found))  # of the first release
                    except dpx.InputError as refused:
                        line[method] = str(refused).splitlines()[0]
                        break
                    finally:
                        table.ledger.close()
                else:
                    line[method] = [float(np.mean(off)), float(np.std(off) / np.sqrt(times))]
                    line[f"{method}, 95 % intervals that hold it"] = float(np.mean(held))
            if name.startswith("disparity"):
                line["influences"] = shown
            content[f"{name}, epsilon {epsilon:g}"] = line
            print(name, epsilon, line, flush=True)
    return content


def _changes(own: np.ndarray, trees: HistGradientBoostingClassifier) -> np.ndarray:
    """For each feature and row the class less its mean with the values of all rows: nothing is left to chance."""
    decided, found = trees.predict_proba(own)[:, 1] >= 0.5, []
    for place in range(len(FEATURES)):
        values, counts = np.unique(own[:, place], return_counts=True)
        others, changed = np.zeros(len(own)), own.copy()
        for value, count in zip(values, counts, strict=True):
            changed[:, place] = value
            others += count * (trees.predict_proba(changed)[:, 1] >= 0.5)
        found.append(decided - others / len(own))
    return np.array(found)


def _of_group(changes: np.ndarray, rows: pd.DataFrame, asked: dict[str, Any]) -> np.ndarray:
    """The exact influence of each feature on the group, or on its difference from all others."""
    ((column, value),) = asked["group"].items()
    inside = (rows[column] == value).to_numpy()
    mean: np.ndarray = changes[:, inside].mean(axis=1)
    return mean if asked["quantity"] == "group" else mean - changes[:, ~inside].mean(axis=1)


def _by_feature(found: Any) -> dict[str, list[float]]:
    """The influence of each input, and its 95 % interval."""
    return _lines(found.items, found.values, *found.interval())


def _lines(items: Any, *numbers: Any) -> dict[str, list[float]]:
    lines = zip(items, *numbers, strict=True)
    return {item: [round(float(x), 5) for x in mine] for item, *mine in lines}


def picture(content: dict[str, Any]) -> Figure:
    """Influences on disparities, exact and released, at each epsilon."""
    lines = {name: line for name, line in content.items() if isinstance(line, dict)}
    studies = {name: line["influences"] for name, line in lines.items() if "influences" in line}
    figure = Figure(figsize=(10, 2.6 * len(studies) / 2 + 1), layout="constrained")
    axes = figure.subplots(math.ceil(len(studies) / 2), 2, squeeze=False, sharex="row").ravel()
    looks = {"exact": ("black", "o", 0.0), "default": ("C0", "s", 0.25), "paper": ("C1", "^", 0.5)}
    for ax, (name, shown) in zip(axes, studies.items(), strict=False):
        items = sorted(shown["exact"], key=lambda item: abs(shown["exact"][item][0]))
        for who, (color, marker, shift) in looks.items():
            if who not in shown:
                continue
            values, low, high = np.array([shown[who][item] for item in items]).T
            ends = None if who == "exact" else [values - low, high - values]
            label = {"default": "ours"}.get(who, who)
            places = np.arange(len(items)) - shift
            ax.errorbar(values, places, xerr=ends, fmt=marker, color=color, markersize=4, linewidth=1, label=label)
        ax.axvline(0, color="0.8", linewidth=1)
        ax.set_yticks(range(len(items)), items, fontsize=8)
        ax.set_title(name, fontsize=9)
        ax.tick_params(axis="x", labelsize=8)
    axes[0].legend(fontsize=8, loc="lower left")
    figure.supxlabel("part of the difference in the rate of positive decisions", fontsize=9)
    return figure


def _people(options: Namespace) -> tuple[pd.DataFrame, dpx.Domain, dpx.Model, np.ndarray]:
    """Rows, domain and model, and how each feature changes each row's class."""
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

    trees = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=8, learning_rate=0.3, random_state=0)
    trees.fit(matrix(rows), (frame["income"].astype(str) == ">50K").astype(int))
    model = dpx.Model(
        lambda some: trees.predict_proba(matrix(some))[:, 1],
        output=(0.0, 1.0), features=FEATURES, name="income", version="1", thread_safe=False,
    )  # fmt: skip
    return rows, domain, model, _changes(matrix(rows), trees)


def _table(rows: pd.DataFrame, domain: dpx.Domain, *, exact: bool = False) -> dpx.PrivateTable:
    table = dpx.PrivateTable(
        rows, domain=domain, budget=dpx.Budget(100.0), relation="replace-one", ledger="sqlite:///:memory:", name="adult"
    )
    if exact:
        table.door = Door(table.door.account, sampler=Unnoised())
    return table
