"""Tables and models of `bench performance`: four real tables, four kinds of models, and the exact figures.

Categories are numbered in their sorted order, so a row is a line of numbers for every model. Bounds of numeric columns
are written down here. Models are fitted to other rows than those they are judged on where there are enough (Adult: the
test split; Diabetes: 20,000 rows); of German credit and Framingham half of the judged rows were seen in fitting.
The row is the unit: Diabetes has several stays of some patients.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dpexplain as dpx

Floats = NDArray[np.float64]
By = tuple[str, ...]

TARGET, SEX, RACE = "target", "sex", "race"
MODELS = ("logistic", "forest", "boosting", "network")
DIGITS = 9  # of remembered predictions: BLAS changes later ones with a row's place in a block
CLIPPED = 1e-3  # the least probability in a log loss, as in the product


@dataclass(frozen=True, eq=False)
class Judged:
    """Rows, their declared domain (with the target), and rows that models are fitted to."""

    name: str
    frame: pd.DataFrame
    domain: dpx.Domain
    fitting: pd.DataFrame
    groups: tuple[By, ...]  # the first is the one that the targets are about
    threshold: float
    _fitted: dict[str, Any] = field(default_factory=dict)

    @property
    def features(self) -> list[str]:
        return [name for name in self.domain if name != TARGET and not name.startswith("(")]

    @cached_property
    def outcome(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.frame[TARGET].to_numpy() == 1
        return found

    def estimator(self, kind: str) -> Any:
        if kind not in self._fitted:
            self._fitted[kind] = self._fit(kind)
        return self._fitted[kind]

    def _fit(self, kind: str) -> Any:
        numeric = [name for name in self.features if isinstance(self.domain[name], dpx.Numeric)]
        rest = [name for name in self.features if name not in numeric]
        known = [list(self.domain[name].categories) for name in rest]
        spread = make_column_transformer((OneHotEncoder(categories=known), rest), (StandardScaler(), numeric))
        few = len(self.fitting) < 5_000
        made = {
            "logistic": lambda: make_pipeline(spread, LogisticRegression(C=0.3, max_iter=2_000)),
            "forest": lambda: RandomForestClassifier(50, min_samples_leaf=5, random_state=0),
            "boosting": lambda: HistGradientBoostingClassifier(
                max_iter=40 if few else 120, learning_rate=0.05 if few else 0.1, random_state=0
            ),
            "network": lambda: make_pipeline(
                spread,
                MLPClassifier((16,), alpha=3.0 if few else 0.1, learning_rate_init=0.005, max_iter=30, random_state=0),
            ),
        }
        return made[kind]().fit(self.fitting[self.features], self.fitting[TARGET])


class Memory:
    """A model that remembers what it said about a block. Releases of one table differ in noise alone, and blocks are
    the same each time; rows that were never seen, such as synthetic ones, are predicted.
    """

    def __init__(self, table: Judged, kind: str) -> None:
        self._estimator, self._columns = table.estimator(kind), table.features
        self._known: dict[bytes, Floats] = {}
        self.asked = 0  # rows

    def __call__(self, values: Any) -> Floats:
        matrix = np.ascontiguousarray(values, dtype=np.float64)
        self.asked += len(matrix)
        key = hashlib.blake2b(matrix.tobytes()).digest()
        if key not in self._known:
            self._known[key] = self.answers(matrix)
        return self._known[key]

    def answers(self, matrix: Any) -> Floats:
        frame = pd.DataFrame(np.asarray(matrix, dtype=np.float64), columns=self._columns)
        return np.round(self._estimator.predict_proba(frame)[:, 1], DIGITS)


def model_of(table: Judged, memory: Memory, kind: str) -> dpx.Model:
    return dpx.Model(
        memory, output=(0.0, 1.0), features=table.features, as_array=True, name=f"{table.name} {kind}", version="bench",
        thread_safe=False,
    )  # fmt: skip


# Exact figures --------------------------------------------------------------------------------------------------------

RATES = (
    "accuracy", "selection_rate", "true_positive_rate", "false_positive_rate", "precision", "base_rate",
)  # fmt: skip
SCORES = ("auc", "brier_score", "log_loss", "calibration_error")
FIGURES = (*RATES, *SCORES)
FAIRNESS = {  # (figures, whether the smallest ratio instead of the largest difference)
    "demographic_parity_difference": (("selection_rate",), False),
    "demographic_parity_ratio": (("selection_rate",), True),
    "equalized_odds_difference": (("true_positive_rate", "false_positive_rate"), False),
    "equalized_odds_ratio": (("true_positive_rate", "false_positive_rate"), True),
    "equal_opportunity_difference": (("true_positive_rate",), False),
    "false_positive_rate_difference": (("false_positive_rate",), False),
}


def exact(scores: Floats, outcome: NDArray[np.bool_], threshold: float, edges: Sequence[float]) -> dict[str, float]:
    """Every figure from the rows themselves, NaN where nothing is divided by; `edges` are the cells of the calibration
    error, in which predicted and observed rates are compared.
    """
    chosen = scores >= threshold
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "accuracy": float(np.mean(chosen == outcome)) if len(scores) else np.nan,
            "selection_rate": float(np.mean(chosen)) if len(scores) else np.nan,
            "true_positive_rate": float(np.float64((chosen & outcome).sum()) / outcome.sum()),
            "false_positive_rate": float(np.float64((chosen & ~outcome).sum()) / (~outcome).sum()),
            "precision": float(np.float64((chosen & outcome).sum()) / chosen.sum()),
            "base_rate": float(np.mean(outcome)) if len(scores) else np.nan,
            "auc": _auc(scores, outcome),
            "brier_score": float(np.mean((scores - outcome) ** 2)) if len(scores) else np.nan,
            "log_loss": _log_loss(scores, outcome),
            "calibration_error": _calibration_error(scores, outcome, edges),
        }


def _auc(scores: Floats, outcome: NDArray[np.bool_]) -> float:
    positive, negative = int(outcome.sum()), int((~outcome).sum())
    if not positive or not negative:
        return float("nan")
    return float((rankdata(scores)[outcome].sum() - positive * (positive + 1) / 2) / (positive * negative))


def _log_loss(scores: Floats, outcome: NDArray[np.bool_]) -> float:
    if not len(scores):
        return float("nan")
    return float(-np.mean(np.log(np.maximum(np.where(outcome, scores, 1 - scores), CLIPPED))))


def _calibration_error(scores: Floats, outcome: NDArray[np.bool_], edges: Sequence[float]) -> float:
    if not len(scores):
        return float("nan")
    cell = np.searchsorted(np.asarray(edges)[1:-1], scores, side="right")
    gap = np.bincount(cell, scores - outcome, minlength=len(edges) - 1)
    return float(np.abs(gap).sum() / len(scores))


def members(frame: pd.DataFrame, group: Mapping[str, Any]) -> NDArray[np.bool_]:
    inside = np.ones(len(frame), dtype=bool)
    for column, value in group.items():
        inside &= frame[column].to_numpy() == value
    return inside


def fairness(by_group: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The largest difference, or the smallest ratio, between groups; of two figures the worse one, as in fairlearn."""
    found = {}
    for name, (figures, ratio) in FAIRNESS.items():
        rates = [[group[figure] for group in by_group] for figure in figures]
        if ratio:
            found[name] = min(float(np.min(r) / np.max(r)) if np.max(r) > 0 else float("nan") for r in rates)
        else:
            found[name] = max(float(np.max(r) - np.min(r)) for r in rates)
    return found


# The tables -----------------------------------------------------------------------------------------------------------


def adult(data: Path) -> Judged:
    frame = pd.read_parquet(data / "adult.parquet").dropna()
    outcome = frame["income"].astype(str) == ">50K"
    numeric = {
        "age": (17, 90), "education_num": (1, 16), "capital_gain": (0, 99_999), "capital_loss": (0, 4_500),
        "hours_per_week": (1, 99),
    }  # fmt: skip
    categories = ["workclass", "marital_status", "occupation", "relationship", "race", "sex"]
    rows, domain = _coded(frame, outcome, numeric, categories)
    train = (frame["split"] == "train").to_numpy()
    groups = ((SEX,), (RACE,), (SEX, RACE))
    return Judged("Adult", _whole(rows[train]), domain, _whole(rows[~train]), groups, 0.5)


def german(data: Path) -> Judged:
    frame = pd.read_parquet(data / "german_credit.parquet")
    frame = frame.assign(
        sex=frame["personal_status_sex"].astype(str).str.startswith("female").map({True: "f", False: "m"})
    )
    numeric = {"duration_months": (4, 72), "credit_amount": (250, 20_000), "age": (18, 80)}
    left_out = {*numeric, "credit_risk", "personal_status_sex"}
    categories = [name for name in frame.columns if name not in left_out]
    rows, domain = _coded(frame, frame["credit_risk"].astype(str) == "bad", numeric, categories)
    return Judged("German credit", rows, domain, _half(rows), ((SEX,),), 0.3)


def framingham(data: Path) -> Judged:
    frame = pd.read_parquet(data / "framingham.parquet").dropna().rename(columns={"male": SEX})
    numeric = {
        "age": (30, 75), "cigsPerDay": (0, 70), "totChol": (100, 700), "sysBP": (80, 300), "diaBP": (40, 150),
        "BMI": (15, 60), "heartRate": (40, 150), "glucose": (40, 400),
    }  # fmt: skip
    categories = [name for name in frame.columns if name not in {*numeric, "TenYearCHD"}]
    rows, domain = _coded(frame, frame["TenYearCHD"] == 1, numeric, categories)
    return Judged("Framingham", rows, domain, _half(rows), ((SEX,),), 0.15)


def diabetes(data: Path) -> Judged:
    frame = pd.read_parquet(data / "diabetes130_binned.parquet")
    raw = pd.read_parquet(data / "diabetes130.parquet")
    numeric = {
        "time_in_hospital": (1, 14), "num_lab_procedures": (1, 132), "num_procedures": (0, 6),
        "num_medications": (1, 81), "number_outpatient": (0, 42), "number_emergency": (0, 76),
        "number_inpatient": (0, 21), "number_diagnoses": (1, 16),
    }  # fmt: skip
    frame = frame.assign(**{name: raw[name].to_numpy() for name in numeric}).rename(columns={"gender": SEX})
    frame = frame[frame[SEX].astype(str) != "Unknown/Invalid"]  # three rows
    categories = [
        "race", SEX, "age", "admission_type_id", "discharge_disposition_id", "admission_source_id", "diag_1",
        "A1Cresult", "insulin", "change", "diabetesMed",
    ]  # fmt: skip
    rows, domain = _coded(frame, frame["readmitted"].astype(str) == "<30", numeric, categories)
    order = np.random.default_rng(0).permutation(len(rows))
    fitting, judged = np.sort(order[:20_000]), np.sort(order[20_000:])
    groups = ((SEX,), (RACE,), (SEX, RACE))
    return Judged("Diabetes", _whole(rows.iloc[judged]), domain, _whole(rows.iloc[fitting]), groups, 0.11)


TABLES = {"adult": adult, "german": german, "framingham": framingham, "diabetes": diabetes}


def _coded(
    frame: pd.DataFrame, outcome: pd.Series, numeric: Mapping[str, tuple[float, float]], categories: Sequence[str]
) -> tuple[pd.DataFrame, dpx.Domain]:
    columns: dict[str, dpx.Numeric | dpx.Categorical] = {}
    rows: dict[str, Any] = {}
    for name, (low, high) in numeric.items():
        values = np.clip(frame[name].to_numpy(dtype=np.float64), low, high)
        columns[name], rows[name] = dpx.Numeric(low, high, integer=bool((values == np.rint(values)).all())), values
    for name in categories:
        codes, known = pd.factorize(frame[name].astype(str), sort=True)
        columns[name], rows[name] = dpx.Categorical(list(range(len(known)))), codes.astype(np.float64)
    columns[TARGET], rows[TARGET] = dpx.Categorical([0, 1]), outcome.to_numpy().astype(np.float64)
    return pd.DataFrame(rows), dpx.Domain(columns)


def _whole(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.reset_index(drop=True)


def _half(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.iloc[np.sort(np.random.default_rng(0).permutation(len(rows))[: len(rows) // 2])]
