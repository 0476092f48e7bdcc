"""Tables for `bench honesty`: correlated columns, rare categories, and a model that is not additive, on real rows.

The model is a small network, written out so that it is quick and the same for a row in any block. Categories are
numbered in their declared order, so a row of the table is a line of numbers, as the exact answers need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.neural_network import MLPClassifier

import dpexplain as dpx
from bench.cached import BenchAccount
from dpexplain.core.release import Door
from dpexplain.core.sensitivity import Neighbours, Relation

TARGET = "target"
ROWS = 5_000  # at most; enough rows for the laws, few enough for many repetitions
HIDDEN = 12


@dataclass(frozen=True)
class Network:
    """A network of one layer over clean columns: numbers scaled to [0, 1], one weight for each category."""

    scales: Mapping[str, tuple[float, float] | None]  # None for a category
    weights: Mapping[str, np.ndarray]
    bias: np.ndarray
    out: np.ndarray
    shift: float

    def __call__(self, columns: Mapping[str, Any]) -> np.ndarray:
        total: Any = self.bias
        for name, scale in self.scales.items():
            values = np.asarray(columns[name])
            if scale is None:
                total = total + self.weights[name][values.astype(np.int64)]
            else:
                total = total + ((values - scale[0]) / scale[1])[:, None] * self.weights[name][0]
        hidden = np.maximum(total, 0.0)
        answer = np.full(len(hidden), self.shift)
        for unit in range(len(self.out)):  # one after the other: a row's answer is the same in any company
            answer = answer + hidden[:, unit] * self.out[unit]
        return 1 / (1 + np.exp(-answer))


@dataclass(frozen=True)
class HonestTable:
    """Real rows, their declared domain, a model of them, and a private table for each relation and account."""

    name: str
    frame: pd.DataFrame
    domain: dpx.Domain  # with the target
    network: Network

    @property
    def rows(self) -> int:
        return len(self.frame)

    @property
    def features(self) -> list[str]:
        return [name for name in self.domain if name != TARGET]

    @property
    def numeric(self) -> list[str]:
        return [name for name in self.features if isinstance(self.domain[name], dpx.Numeric)]

    @property
    def categorical(self) -> list[str]:
        return [name for name in self.features if isinstance(self.domain[name], dpx.Categorical)]

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        return {name: self.frame[name].to_numpy() for name in self.features}

    @cached_property
    def model(self) -> dpx.Model:
        return dpx.Model(self.network, output=(0.0, 1.0), features=self.features, name=self.name, thread_safe=False)

    def predict(self, **fixed: Any) -> np.ndarray:
        """The model for every row, some columns held at other values."""
        other = {name: np.broadcast_to(np.asarray(value), self.rows) for name, value in fixed.items()}
        return self.network({**self.columns, **other})

    @cached_property
    def own(self) -> np.ndarray:
        return self.predict()

    def distinct(self, feature: str) -> tuple[np.ndarray, np.ndarray]:
        """The values that rows have, and their shares."""
        values, counts = np.unique(self.columns[feature], return_counts=True)
        return values, counts / self.rows

    def codes(self, feature: str, points: Any) -> list[Any]:
        """Points of a grid as the model's columns have them: categories by number."""
        column = self.domain[feature]
        if isinstance(column, dpx.Numeric):
            return list(points)
        return [column.categories.index(point) for point in points]

    def mean_at(self, feature: str, points: Any) -> np.ndarray:
        """The mean prediction with one column held at each of these points."""
        return np.array([self.predict(**{feature: value}).mean() for value in self.codes(feature, points)])

    def person(self, row: int) -> dict[str, Any]:
        """One row, as somebody would type it in."""
        return {
            name: str(int(values[row])) if name in self.categorical else float(values[row])
            for name, values in self.columns.items()
        }

    @cached_property
    def coordinates(self) -> tuple[np.ndarray, dict[str, slice]]:
        """Numbers scaled to [0, 1], and one coordinate for each category: sqrt(1/2) for a row's own."""
        blocks, slices, start = [], {}, 0
        for name in self.features:
            column, values = self.domain[name], self.columns[name]
            if isinstance(column, dpx.Numeric):
                blocks.append(((values - column.low) / (column.high - column.low))[:, None])
            else:
                blocks.append(np.eye(len(column.categories))[values] * np.sqrt(0.5))
            slices[name] = slice(start, start + blocks[-1].shape[1])
            start = slices[name].stop
        return np.hstack(blocks), slices

    @cached_property
    def changed(self) -> HonestTable:
        """The same rows under another network: an earlier version of the model."""
        earlier = replace(self.network, out=0.7 * self.network.out[::-1], shift=self.network.shift + 0.3)
        return replace(self, name=f"{self.name}, earlier", network=earlier)

    @cached_property
    def importances(self) -> np.ndarray:
        """How much the squared error grows, each row meeting every other row's value."""
        outcome = self.frame[TARGET].to_numpy()
        base = ((self.own - outcome) ** 2).mean()
        return np.array([self._error_without(name, outcome) - base for name in self.features])

    def _error_without(self, feature: str, outcome: np.ndarray) -> float:
        values, shares = self.distinct(feature)
        errors = [((self.predict(**{feature: value}) - outcome) ** 2).mean() for value in values]
        return float(shares @ np.array(errors))

    def table(self, relation: str, delta: float | None, *, memory: bool = False) -> dpx.PrivateTable:
        """A table whose account has no end, and no memory unless it needs one: every call is a new release."""
        budget = dpx.Budget(10**6) if delta is None else dpx.Budget(10**6, delta)
        options = {"rows_hint": round(self.rows, -3)} if relation == "add-remove" else {}
        table = dpx.PrivateTable(
            self.frame,
            domain=self.domain,
            budget=budget,
            relation=relation,
            ledger="sqlite:///:memory:",
            name=self.name,
            **options,
        )
        if not memory:
            table.door = Door(BenchAccount(budget, Neighbours(Relation.parse(relation))))
        return table


def adult(data: Path) -> HonestTable:
    """Education twice (as a number and as a category), marriage and relationship, a rare class of work."""
    frame = pd.read_parquet(data / "adult.parquet")
    frame = frame.dropna(subset=["workclass"])
    target = (frame["income"].astype(str) == ">50K").to_numpy()
    numeric = {"age": (17, 90), "education_num": (1, 16), "hours_per_week": (1, 99)}
    return made("Adult", frame, target, numeric, ["education", "marital_status", "workclass", "sex"])


def heart(data: Path) -> HonestTable:
    """Two blood pressures and a diagnosis made of them; strokes are rare."""
    frame = pd.read_parquet(data / "framingham.parquet").dropna()
    target = frame["TenYearCHD"].to_numpy() == 1
    numeric = {"age": (32, 70), "sysBP": (80, 300), "diaBP": (40, 150), "totChol": (100, 700)}
    return made("Heart", frame, target, numeric, ["prevalentHyp", "prevalentStroke", "male"])


def bike(data: Path) -> HonestTable:
    """Temperature felt and measured (correlation 0.99), months and seasons; the worst weather is rare."""
    frame = pd.read_parquet(data / "bike_sharing_hour.parquet")
    target = (frame["cnt"] > frame["cnt"].median()).to_numpy()
    numeric = {"hr": (0, 23), "temp": (0.0, 1.0), "atemp": (0.0, 1.0)}
    return made("Bike", frame, target, numeric, ["season", "mnth", "weathersit", "workingday"])


TABLES = {"adult": adult, "heart": heart, "bike": bike}


def made(
    name: str, frame: pd.DataFrame, target: np.ndarray, numeric: dict[str, tuple[float, float]], categories: list[str]
) -> HonestTable:
    chosen = np.random.default_rng(0).permutation(len(frame))[:ROWS]
    columns: dict[str, dpx.Numeric | dpx.Categorical] = {}
    rows: dict[str, np.ndarray] = {}
    for feature, (low, high) in numeric.items():
        values = np.clip(frame[feature].to_numpy(dtype=np.float64), low, high)[chosen]
        columns[feature] = dpx.Numeric(low, high, integer=bool((values == np.rint(values)).all()))
        rows[feature] = values
    for feature in categories:
        codes, known = pd.factorize(frame[feature].astype(str), sort=True)
        columns[feature] = dpx.Categorical([str(i) for i in range(len(known))])
        rows[feature] = codes[chosen]
    columns[TARGET] = dpx.Categorical(["0", "1"])
    rows[TARGET] = target[chosen].astype(np.int64)
    table = pd.DataFrame(rows)
    return HonestTable(name, table, dpx.Domain(columns), _fitted(table, columns))


def _fitted(table: pd.DataFrame, columns: Mapping[str, Any]) -> Network:
    """A network fitted to the rows; ReLU units make it far from additive."""
    blocks, scales = [], {}
    for name, column in columns.items():
        if name == TARGET:
            continue
        values = table[name].to_numpy()
        if isinstance(column, dpx.Numeric):
            scales[name] = (column.low, column.high - column.low)
            blocks.append(((values - column.low) / (column.high - column.low))[:, None])
        else:
            scales[name] = None
            blocks.append(np.eye(len(column.categories))[values])
    net = MLPClassifier((HIDDEN,), alpha=1e-3, learning_rate_init=0.01, max_iter=150, random_state=1)
    net.fit(np.hstack(blocks), table[TARGET].to_numpy())
    ends = np.cumsum([0, *(block.shape[1] for block in blocks)])
    first, second = net.coefs_
    weights = {name: first[a:b] for name, a, b in zip(scales, ends[:-1], ends[1:], strict=True)}
    return Network(scales, weights, net.intercepts_[0], second[:, 0], float(net.intercepts_[1][0]))
