"""Adult with text categories, and the classifiers of paper 003 on it: logistic regression, SVM with a radial basis
function, decision tree, random forest and gradient boosting.

Categories become indicator columns; for the first two, numbers are divided by their deviation. All are fitted on the
training rows (the SVM on a sample of them) and explained on the same rows; those with missing values are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import dpexplain as dpx

BUDGET = dpx.Budget(10**6)
RICH, POOR = ">50K", "<=50K"
SVM_ROWS = 2_000
TREES, LEAF = 30, 5
PART = 2_048  # rows that the SVM meets at a time, so that its kernel stays small


@dataclass(frozen=True)
class People:
    """Rows of Adult, whether each one is rich, and the public domain."""

    frame: pd.DataFrame
    rich: np.ndarray
    domain: dpx.Domain

    @property
    def columns(self) -> list[str]:
        return list(self.domain)

    @property
    def size(self) -> int:
        return len(self.frame)

    def table(self, relation: str = "replace-one") -> dpx.PrivateTable:
        """A private table with a pure account."""
        return dpx.PrivateTable(
            self.frame,
            domain=self.domain,
            budget=BUDGET,
            relation=relation,
            ledger="sqlite:///:memory:",
            name="adult",
            rows_hint=self.size,
        )


def people(data: Path, split: str = "train") -> People:
    frame = pd.read_parquet(data / "adult.parquet").dropna()
    frame.columns = frame.columns.str.replace("_", "-")
    columns = [name for name in frame if name not in ("income", "split", "fnlwgt")]
    domain = dpx.Domain(
        {
            name: dpx.Categorical(sorted(frame[name].astype(str).unique()))
            if isinstance(frame[name].dtype, pd.CategoricalDtype)
            else dpx.Numeric(float(frame[name].min()), float(frame[name].max()), integer=True)
            for name in columns
        }
    )
    frame = frame[frame["split"] == split].reset_index(drop=True)
    rich = (frame["income"].astype(str) == RICH).to_numpy()
    texts = {name: frame[name].astype(str) for name in columns if isinstance(domain[name], dpx.Categorical)}
    return People(frame[columns].assign(**texts), rich, domain)


class Classifier:
    """Any estimator or scoring function on indicator columns, in the form of a scikit-learn classifier of frames."""

    classes_ = np.array([POOR, RICH])

    def __init__(self, people: People, kind: str, names: Sequence[str]) -> None:
        self.domain, self.feature_names_in_ = people.domain, np.array(names)
        numbers = [name for name in names if not isinstance(self.domain[name], dpx.Categorical)]
        self._scale = {name: float(people.frame[name].std()) if kind in SCALED else 1.0 for name in numbers}
        self.fitted = FITS[kind](self.encode(people.frame), people.rich)

    def encode(self, frame: pd.DataFrame) -> np.ndarray:
        return np.concatenate([self.encode_column(name, frame[name]) for name in self.feature_names_in_], axis=1)

    def encode_column(self, name: str, values: pd.Series) -> np.ndarray:
        column = self.domain[name]
        if isinstance(column, dpx.Categorical):
            declared = isinstance(values.dtype, pd.CategoricalDtype)  # what the product hands over: codes are known
            codes = values.cat.codes if declared else pd.Categorical(values, column.categories).codes
            return np.eye(len(column.categories), dtype=np.float32)[np.asarray(codes)]
        return (values.to_numpy(dtype=np.float32) / self._scale[name])[:, None]

    def places(self, name: str) -> slice:
        """The encoded columns of a feature."""
        widths = [
            len(c.categories) if isinstance(c := self.domain[n], dpx.Categorical) else 1 for n in self.feature_names_in_
        ]
        j = list(self.feature_names_in_).index(name)
        return slice(sum(widths[:j]), sum(widths[: j + 1]))

    def score(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.fitted.predict_proba(X)[:, 1])

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        score = self.score(self.encode(frame))
        return np.column_stack([1 - score, score])

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        return self.classes_[(self.predict_proba(frame)[:, 1] >= 0.5).astype(int)]


class Radial:
    """A fitted SVM; its decision by matrix products, which is many times faster than libsvm's, as a logistic score."""

    def __init__(self, X: np.ndarray, rich: np.ndarray) -> None:
        X, rich = X[:SVM_ROWS], rich[:SVM_ROWS]
        fitted = SVC(kernel="rbf", C=1.0, gamma="scale").fit(X, rich)
        self.gamma = float(fitted._gamma)
        self.support, self.weights = fitted.support_vectors_, fitted.dual_coef_[0]
        self.middle = float(fitted.intercept_[0])
        self._lengths = (self.support**2).sum(axis=1)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        found = np.concatenate([self._decision(X[start : start + PART]) for start in range(0, len(X), PART)])
        score = 1 / (1 + np.exp(-found))
        return np.column_stack([1 - score, score])

    def _decision(self, X: np.ndarray) -> np.ndarray:
        X = X.astype(np.float64)  # in single precision a row's score would depend on its company
        squared = (X**2).sum(axis=1)[:, None] + self._lengths - 2 * (X @ self.support.T)
        return np.asarray(np.exp(-self.gamma * np.maximum(squared, 0)) @ self.weights + self.middle)


def _logistic(X: np.ndarray, rich: np.ndarray) -> Any:
    return LogisticRegression(max_iter=2_000).fit(X, rich)


def _tree(X: np.ndarray, rich: np.ndarray) -> Any:
    return DecisionTreeClassifier(min_samples_leaf=20, random_state=0).fit(X, rich)


def _forest(X: np.ndarray, rich: np.ndarray) -> Any:
    return RandomForestClassifier(TREES, min_samples_leaf=LEAF, random_state=0).fit(X, rich)


def _boosting(X: np.ndarray, rich: np.ndarray) -> Any:
    return HistGradientBoostingClassifier(random_state=0).fit(X, rich)


FITS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "logistic regression": _logistic,
    "RBF SVM": Radial,
    "decision tree": _tree,
    "random forest": _forest,
    "gradient boosting": _boosting,
}
SCALED = ("logistic regression", "RBF SVM")


def fitted(people: People, kind: str, *, without: Sequence[str] = ()) -> Classifier:
    """One of the five, with all columns or without some."""
    names = [name for name in people.columns if name not in without]
    return Classifier(people, kind, names)


def model_of(classifier: Any, name: str) -> dpx.Model:
    return dpx.Model(classifier, output=(0.0, 1.0), label=RICH, name=name, version="bench")
