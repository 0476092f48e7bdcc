"""Copies of fitted scikit-learn models that are asked about millions of rows.

    fast = copied(estimator, features)               refused unless it says what the estimator says (`agrees`)
    fast(matrix)                                     one prediction for each row
    fast.lines(matrix, column, values)               [value, row]: predictions with one column at each of some values

`lines` is what partial dependence needs. A tree walks each row once and splits the values where it splits the column,
instead of walking once for each value; a linear model or a network changes one term of its sums. Every row is computed
by itself, in one order, so no answer depends on other rows. Compiled by numba.

Forests and boosting of trees on numbers (categories as numbers), linear models, and networks with one hidden layer
behind the encoding of `performance_tables`: one-hot categories first, then standardised numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
DEEPEST = 512  # branches that wait while a tree is walked
BLOCK = 1024  # rows that pass one tree before the next: it stays in the cache

# A link, from the sum of a model to its prediction: compiled code knows it by number.
IDENTITY, LOGISTIC, EXPONENTIAL = 0, 1, 2


def copied(estimator: Any, features: Sequence[str]) -> Trees | Layers:
    """A fast copy of a fitted model of one of the kinds above."""
    if isinstance(estimator, RandomForestClassifier | RandomForestRegressor):
        return _forest(estimator)
    if isinstance(estimator, HistGradientBoostingClassifier | HistGradientBoostingRegressor):
        return _boosting(estimator)
    steps = getattr(estimator, "regressor_", estimator)  # that of a logarithm
    return _layers(steps[0], steps[-1], features)


def agrees(fast: Trees | Layers, estimator: Any, frame: Any) -> float:
    """The largest difference between a copy and its original on some rows."""
    said = estimator.predict_proba(frame)[:, 1] if hasattr(estimator, "predict_proba") else estimator.predict(frame)
    return float(np.abs(fast(frame.to_numpy(dtype=np.float64)) - said).max())


# Trees ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trees:
    """All nodes of all trees in one list; a leaf has feature -1. The prediction is link(start + sum of leaves)."""

    roots: Integers
    feature: NDArray[np.int32]
    threshold: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Floats
    uses: NDArray[np.bool_]  # [tree, column]
    start: float
    link: int
    single: bool  # whether inputs are rounded to single precision, as forests do

    def __call__(self, matrix: Any) -> Floats:
        rows = self._rounded(matrix)
        nodes = (self.roots, self.feature, self.threshold, self.left, self.right, self.value)
        return np.asarray(_sums_of_trees(rows, *nodes, self.start, self.link))

    def lines(self, matrix: Any, column: int, values: Any) -> Floats:
        order = np.argsort(values, kind="stable")
        ordered = self._rounded(np.asarray(values)[order])
        ends = np.searchsorted(ordered, self.threshold, side="right")  # values up to a threshold go left
        nodes = (self.roots, self.feature, self.threshold, self.left, self.right, self.value, self.uses[:, column])
        answers = _lines_of_trees(self._rounded(matrix), column, len(order), ends, *nodes, self.start, self.link)
        lines = np.empty_like(answers.T)
        lines[order] = answers.T
        return lines

    def _rounded(self, values: Any) -> Floats:
        exact = np.ascontiguousarray(values, dtype=np.float64)
        return exact.astype(np.float32).astype(np.float64) if self.single else exact


@njit(cache=True)
def _linked(total: float, link: int) -> float:
    if link == 1:
        return 1.0 / (1.0 + np.exp(-total))
    return np.exp(total) if link == 2 else total


@njit(cache=True)
def _sums_of_trees(rows, roots, feature, threshold, left, right, value, start, link):  # type: ignore[no-untyped-def]
    answers = np.full(len(rows), start)
    for first in range(0, len(rows), BLOCK):
        last = min(first + BLOCK, len(rows))
        for root in roots:
            for i in range(first, last):
                node = root
                while feature[node] >= 0:
                    node = left[node] if rows[i, feature[node]] <= threshold[node] else right[node]
                answers[i] += value[node]
    for i in range(len(rows)):
        answers[i] = _linked(answers[i], link)
    return answers


@njit(cache=True)
def _lines_of_trees(  # type: ignore[no-untyped-def]
    rows, column, size, ends, roots, feature, threshold, left, right, value, uses, start, link
):
    answers = np.zeros((len(rows), size))
    common = np.full(len(rows), start)
    nodes, lows, highs = np.empty(DEEPEST, np.int64), np.empty(DEEPEST, np.int64), np.empty(DEEPEST, np.int64)
    for first in range(0, len(rows), BLOCK):
        last = min(first + BLOCK, len(rows))
        for t in range(len(roots)):
            if not uses[t]:
                for i in range(first, last):
                    node = roots[t]
                    while feature[node] >= 0:
                        node = left[node] if rows[i, feature[node]] <= threshold[node] else right[node]
                    common[i] += value[node]
                continue
            for i in range(first, last):
                nodes[0], lows[0], highs[0], waiting = roots[t], 0, size, 1
                while waiting:
                    waiting -= 1
                    node, low, high = nodes[waiting], lows[waiting], highs[waiting]
                    while feature[node] >= 0:
                        if feature[node] != column:
                            node = left[node] if rows[i, feature[node]] <= threshold[node] else right[node]
                            continue
                        end = min(max(ends[node], low), high)
                        if end == low:
                            node = right[node]
                        elif end == high:
                            node = left[node]
                        else:
                            nodes[waiting], lows[waiting], highs[waiting] = right[node], end, high
                            waiting += 1
                            node, high = left[node], end
                    for g in range(low, high):
                        answers[i, g] += value[node]
    for i in range(len(rows)):
        for g in range(size):
            answers[i, g] = _linked(common[i] + answers[i, g], link)
    return answers


def _forest(estimator: Any) -> Trees:
    trees = [one.tree_ for one in estimator.estimators_]
    classes = isinstance(estimator, RandomForestClassifier)
    nodes = []
    for tree in trees:
        means = tree.value[:, 0, :]
        value = means[:, 1] / means.sum(axis=1) if classes else means[:, 0]
        leaf = tree.children_left < 0
        nodes.append((np.where(leaf, -1, tree.feature), tree.threshold, tree.children_left, tree.children_right, value))
    return _joined(nodes, estimator.n_features_in_, 0.0, IDENTITY, share=1 / len(trees), single=True)


def _boosting(estimator: Any) -> Trees:
    nodes = []
    for (predictor,) in estimator._predictors:
        one = predictor.nodes
        leaf = one["is_leaf"].astype(bool)
        children = (one["left"].astype(np.int64), one["right"].astype(np.int64))
        nodes.append((np.where(leaf, -1, one["feature_idx"]), one["num_threshold"], *children, one["value"]))
    link = LOGISTIC if isinstance(estimator, HistGradientBoostingClassifier) else IDENTITY
    start = float(np.ravel(estimator._baseline_prediction)[0])
    return _joined(nodes, estimator.n_features_in_, start, link, share=1.0, single=False)


def _joined(nodes: list[Any], width: int, start: float, link: int, *, share: float, single: bool) -> Trees:
    sizes = [len(one[0]) for one in nodes]
    roots = np.cumsum([0, *sizes[:-1]]).astype(np.int64)
    feature, threshold, left, right, value = (np.concatenate(parts) for parts in zip(*nodes, strict=True))
    shift = np.repeat(roots, sizes)
    uses = np.zeros((len(nodes), width), dtype=bool)
    for t, one in enumerate(nodes):
        uses[t, one[0][one[0] >= 0]] = True
    return Trees(
        roots, feature.astype(np.int32), threshold.astype(np.float64), (left + shift).astype(np.int32),
        (right + shift).astype(np.int32), share * value.astype(np.float64), uses, start, link, single,
    )  # fmt: skip


# Linear models and networks -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Layers:
    """Sums of one term for each column, in `width` units; then, for a network, what lies above zero, weighted.

    A column's term is offset + slope x for a number, and a line of `table` for a category.
    """

    category: NDArray[np.bool_]  # by column
    begin: Integers  # where a column's lines begin in `table`
    slope: Floats  # [column, unit]
    table: Floats  # [category, unit]
    bias: Floats  # [unit], with the offsets of all numbers
    weights: Floats  # [unit]
    last: float
    hidden: bool
    link: int

    def __call__(self, matrix: Any) -> Floats:
        rows = np.ascontiguousarray(matrix, dtype=np.float64)
        return np.asarray(_lines_of_layers(rows, -1, np.zeros(1), *self._parts)[:, 0])

    def lines(self, matrix: Any, column: int, values: Any) -> Floats:
        rows, points = np.ascontiguousarray(matrix, dtype=np.float64), np.asarray(values, dtype=np.float64)
        return np.ascontiguousarray(_lines_of_layers(rows, column, points, *self._parts).T)

    @property
    def _parts(self) -> tuple[Any, ...]:
        sums = (self.category, self.begin, self.slope, self.table, self.bias)
        return (*sums, self.weights, self.last, self.hidden, self.link)


@njit(cache=True)
def _add_term(sums, column, x, category, begin, slope, table):  # type: ignore[no-untyped-def]
    if category[column]:
        line = begin[column] + int(x)
        for k in range(len(sums)):
            sums[k] += table[line, k]
    else:
        for k in range(len(sums)):
            sums[k] += slope[column, k] * x


@njit(cache=True)
def _lines_of_layers(  # type: ignore[no-untyped-def]
    rows, column, points, category, begin, slope, table, bias, weights, last, hidden, link
):
    answers = np.empty((len(rows), len(points)))
    others, sums = np.empty(len(bias)), np.empty(len(bias))
    for i in range(len(rows)):
        others[:] = bias
        for j in range(rows.shape[1]):
            if j != column:
                _add_term(others, j, rows[i, j], category, begin, slope, table)
        for g in range(len(points)):
            sums[:] = others
            if column >= 0:
                _add_term(sums, column, points[g], category, begin, slope, table)
            total = last
            for k in range(len(sums)):
                total += weights[k] * (max(sums[k], 0.0) if hidden else sums[k])
            answers[i, g] = _linked(total, link)
    return answers


def _layers(encoding: Any, last: Any, features: Sequence[str]) -> Layers:
    (_, one_hot, rest), (_, scaler, numeric) = encoding.transformers_[:2]
    hidden = hasattr(last, "coefs_")
    classes = isinstance(last, LogisticRegression | MLPClassifier)
    first = last.coefs_[0] if hidden else np.ravel(last.coef_)[:, None]
    bias = np.array(last.intercepts_[0] if hidden else np.ravel(last.intercept_)[:1], dtype=np.float64)
    width = first.shape[1]
    category, begin = np.zeros(len(features), dtype=bool), np.zeros(len(features), dtype=np.int64)
    slope, place = np.zeros((len(features), width)), 0
    for name, known in zip(rest, one_hot.categories_, strict=True):
        if list(known) != list(range(len(known))):
            raise ValueError("categories are numbered from zero")
        category[list(features).index(name)], begin[list(features).index(name)] = True, place
        place += len(known)
    for k, name in enumerate(numeric):
        line = first[place + k] / scaler.scale_[k]
        slope[list(features).index(name)] = line
        bias = bias - line * scaler.mean_[k]
    weights = np.ravel(last.coefs_[1]) if hidden else np.ones(width)
    link = LOGISTIC if classes else EXPONENTIAL
    table = np.ascontiguousarray(first[:place]) if place else np.zeros((1, width))
    end = float(np.ravel(last.intercepts_[1])[0]) if hidden else 0.0
    return Layers(category, begin, slope, table, bias, weights, end, hidden, link)
