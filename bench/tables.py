"""The three tables of the published effect experiments, prepared as `reference/README.md` in shared describes.

Column bounds are the observed minima and maxima because the published protocol takes them as public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dpexplain as dpx


@dataclass(frozen=True)
class Case:
    name: str  # as in the published tables
    frame: pd.DataFrame
    domain: dpx.Domain
    estimator: object
    output: tuple[float, float]
    label: int | None
    target: np.ndarray  # what the model was fitted to, in the order of the rows

    def model(self) -> dpx.Model:
        return dpx.Model(self.estimator, output=self.output, label=self.label, name=self.name, version="bench")


def adult(data: Path) -> Case:
    frame = pd.read_parquet(data / "adult.parquet")
    frame = frame[frame["split"] == "train"].dropna(subset=["workclass", "occupation", "native_country"])
    target = (frame["income"].astype(str) == ">50K").astype(int)
    frame = frame.drop(columns=["income", "split", "fnlwgt"])
    frame.columns = frame.columns.str.replace("_", "-")
    numeric = {"age", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
    codes = pd.DataFrame(
        {c: frame[c] if c in numeric else pd.factorize(frame[c].astype(str), sort=True)[0] for c in frame.columns}
    ).astype(np.int64)
    return _forest("Adult Income", codes, target, numeric)


def heart(data: Path) -> Case:
    frame = pd.read_parquet(data / "framingham.parquet").dropna()
    target = frame.pop("TenYearCHD").astype(int)
    names = {
        "male": "sex", "currentSmoker": "smoker", "cigsPerDay": "cigs_per_day", "BPMeds": "bp_meds",
        "prevalentStroke": "prevalent_stroke", "prevalentHyp": "prevelant_hyp", "totChol": "total_chol",
        "sysBP": "sys_bp", "diaBP": "dia_bp", "BMI": "bmi", "heartRate": "heart_rate",
    }  # fmt: skip
    frame = frame.rename(columns=names)
    numeric = {"age", "cigs_per_day", "total_chol", "sys_bp", "dia_bp", "bmi", "heart_rate", "glucose"}
    return _forest("Heart Disease", frame.astype(float), target, numeric)


def bike(data: Path) -> Case:
    frame = pd.read_parquet(data / "bike_sharing_hour.parquet")
    columns = ["yr", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit", "atemp", "hum", "windspeed"]
    numeric = {"mnth", "hr", "weekday", "weathersit", "atemp", "hum", "windspeed"}
    features = frame[columns].astype(float)
    network = MLPRegressor(hidden_layer_sizes=(25,), alpha=0.001, max_iter=400, random_state=1)
    estimator = TransformedTargetRegressor(
        make_pipeline(StandardScaler(), network), func=np.log, inverse_func=np.exp
    ).fit(features, frame["cnt"])
    estimator.feature_names_in_ = np.array(columns)
    domain, counts = _domain(features, numeric), frame["cnt"].to_numpy()
    return Case("Bike Sharing", features, domain, estimator, (1.0, 977.0), None, counts)


CASES: dict[str, Callable[[Path], Case]] = {"adult": adult, "bike": bike, "heart": heart}


def _forest(name: str, features: pd.DataFrame, target: pd.Series, numeric: set[str]) -> Case:
    order = np.random.RandomState(42).permutation(len(features))
    features, target = features.iloc[order].reset_index(drop=True), target.iloc[order]
    estimator = RandomForestClassifier(random_state=42).fit(features, target)
    return Case(name, features, _domain(features, numeric), estimator, (0.0, 1.0), 1, target.to_numpy())


def _domain(frame: pd.DataFrame, numeric: set[str]) -> dpx.Domain:
    columns: dict[str, dpx.Numeric | dpx.Categorical] = {}
    for name in frame.columns:
        values = frame[name]
        if name in numeric:
            whole = bool((values == np.rint(values)).all())
            columns[name] = dpx.Numeric(float(values.min()), float(values.max()), integer=whole)
        else:
            columns[name] = dpx.Categorical(sorted(int(v) for v in values.unique()))
    return dpx.Domain(columns)
