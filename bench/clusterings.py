"""The tables and clusterings of `bench clusters`: whole-number codes of categories, clustered in five ways.

As in paper 002, a category becomes a whole number and k-means, Gaussian mixtures and agglomerative clustering see these
numbers as they are. DP k-means is the product's own, pure epsilon 1, every column a whole number in its declared range.
Clusterings are fixed here, seeds and all (but for the noise of DP k-means), and count as public: what is measured is
the choice of attributes for given labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.mixture import GaussianMixture

import dpexplain as dpx
from bench.cached import BenchAccount
from dpexplain.core.release import Door
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.data.rows import Rows
from dpexplain.maths.grids import Partition, partition_of
from dpexplain.methods.clusters.spec import statistic, tables_of

Codes = NDArray[np.uint8]
Labels = NDArray[np.int64]
Counts = list[NDArray[np.int64]]  # for each attribute [cluster or other, value]

NEIGHBOURS = Neighbours(Relation.ADD_REMOVE)
DRUGS = ("Down", "No", "Steady", "Up")  # what the hospitals could have noted for any drug, seen or not
CLUSTERS = (3, 5, 7, 9)
KMEANS_EPSILON = 1
SAMPLE = {"agglomerative": 4_000, "GMM": 30_000}  # rows these two are fitted on


@dataclass(frozen=True)
class Survey:
    """A table of categories, each column as the numbers of its declared values."""

    name: str
    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    codes: Codes  # [row, column]

    @property
    def rows(self) -> int:
        return len(self.codes)

    @cached_property
    def domain(self) -> dpx.Domain:
        return dpx.Domain({c: dpx.Categorical(list(v)) for c, v in zip(self.columns, self.values, strict=True)})

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(partition_of(name, self.domain[name], 10) for name in self.columns)

    @cached_property
    def numbers(self) -> NDArray[np.float32]:
        return self.codes.astype(np.float32)

    def counts(self, labels: Labels, clusters: int, some: NDArray[np.intp] | None = None) -> Counts:
        """The product's own counts, of all rows or of some."""
        codes, known = (self.codes, labels) if some is None else (self.codes[some], labels[some])
        columns = {name: codes[:, i].astype(np.int32) for i, name in enumerate(self.columns)}
        found = statistic(Rows(self.domain, columns, len(codes)), lambda _: known, self.partitions, clusters)
        return tables_of(found, self.partitions, clusters)

    def frame(self) -> pd.DataFrame:
        """As a user has it: categorical columns."""
        return pd.DataFrame(
            {
                name: pd.Categorical.from_codes(self.codes[:, i].astype(np.int16), pd.Index(self.values[i]))
                for i, name in enumerate(self.columns)
            }
        )

    def private(self, budget: dpx.Budget, *, whole: bool = False) -> dpx.PrivateTable:
        """Behind a door whose account has no limit; `whole`: codes as whole numbers instead of categories."""
        frame, domain = self.frame(), self.domain
        if whole:
            frame = pd.DataFrame(self.codes, columns=list(self.columns))
            ends = {name: len(values) - 1 for name, values in zip(self.columns, self.values, strict=True)}
            domain = dpx.Domain({name: dpx.Numeric(0, end, integer=True) for name, end in ends.items()})
        return endless(frame, domain, budget)


def endless(frame: pd.DataFrame, domain: dpx.Domain, budget: dpx.Budget) -> dpx.PrivateTable:
    """A private table under add-remove with its number of rows as a hint, and an account without a limit."""
    table = dpx.PrivateTable(
        frame, domain=domain, budget=budget, relation="add-remove", ledger="sqlite:///:memory:", name="bench",
        rows_hint=len(frame),
    )  # fmt: skip
    table.door = Door(BenchAccount(budget, NEIGHBOURS))
    return table


def diabetes(data: Path) -> Survey:
    frame = pd.read_parquet(data / "diabetes130_binned.parquet").drop(columns="readmitted")
    for name in frame:
        if set(frame[name].cat.categories) <= set(DRUGS):
            frame[name] = frame[name].cat.set_categories(DRUGS)
    return _survey("Diabetes", frame)


def census(data: Path) -> Survey:
    return _survey("Census", pd.read_parquet(data / "census_income_kdd_binned.parquet"))


def stackoverflow(data: Path) -> Survey:
    return _survey("Stack Overflow", pd.read_parquet(data / "stackoverflow2019_categorical.parquet"))


SURVEYS: Mapping[str, Callable[[Path], Survey]] = {
    "Diabetes": diabetes,
    "Census": census,
    "Stack Overflow": stackoverflow,
}


def _survey(name: str, frame: pd.DataFrame) -> Survey:
    values = tuple(tuple(map(str, frame[c].cat.categories)) for c in frame)
    codes = np.column_stack([frame[c].cat.codes.to_numpy().astype(np.uint8) for c in frame])
    return Survey(name, tuple(map(str, frame.columns)), values, codes)


def k_means(survey: Survey, clusters: int) -> Labels:
    found = KMeans(clusters, n_init=2, random_state=0).fit(survey.numbers)
    return np.asarray(found.labels_, dtype=np.int64)


def dp_k_means(survey: Survey, clusters: int) -> Labels:
    table = survey.private(dpx.Budget(10**6), whole=True)
    rule = dpx.dp_kmeans(table, clusters, epsilon=KMEANS_EPSILON)
    columns = {name: survey.codes[:, i].astype(np.float64) for i, name in enumerate(survey.columns)}
    return rule.assign(Rows(table.domain, columns, survey.rows))


def k_modes(survey: Survey, clusters: int, rounds: int = 20) -> Labels:
    """Huang's k-modes: a row belongs to the mode from which it differs in the fewest columns."""
    codes, random = survey.codes, np.random.default_rng(0)
    columns = np.ascontiguousarray(codes.T)
    modes = [codes[random.integers(len(codes))]]
    while len(modes) < clusters:  # the next start: a row far from those so far, drawn by distance
        far = _differ(columns, np.array(modes)).min(axis=1).astype(np.float64)
        modes.append(codes[random.choice(len(codes), p=far / far.sum())])
    centres, labels = np.array(modes), np.full(len(codes), -1)
    for _ in range(rounds):
        new = _differ(columns, centres).argmin(axis=1)
        if (new == labels).all():
            break
        labels = new
        for c in np.unique(labels):
            centres[c] = [np.bincount(column[labels == c]).argmax() for column in columns]
    return labels.astype(np.int64)


def _differ(columns: Codes, modes: Codes) -> NDArray[np.int16]:
    """[row, mode]: in how many columns they differ."""
    found = np.zeros((columns.shape[1], len(modes)), dtype=np.int16)
    for column, values in zip(columns, modes.T, strict=True):
        for c, value in enumerate(values):
            found[:, c] += column != value
    return found


def agglomerative(survey: Survey, clusters: int) -> Labels:
    """Ward's tree of a sample; every row belongs to the nearest of its centres."""
    some = _sample(survey, "agglomerative")
    labels = AgglomerativeClustering(clusters).fit_predict(some)
    centres = np.array([some[labels == c].mean(axis=0) for c in range(clusters)], dtype=np.float32)
    apart = (centres * centres).sum(axis=1) - 2 * survey.numbers @ centres.T
    return np.asarray(apart.argmin(axis=1), dtype=np.int64)


def mixture(survey: Survey, clusters: int) -> Labels:
    fitted = GaussianMixture(clusters, covariance_type="diag", reg_covar=1e-2, random_state=0, max_iter=60, tol=1e-2)
    return np.asarray(fitted.fit(_sample(survey, "GMM")).predict(survey.numbers), dtype=np.int64)


def _sample(survey: Survey, method: str) -> NDArray[np.float32]:
    some = np.random.default_rng(0).choice(survey.rows, min(survey.rows, SAMPLE[method]), replace=False)
    return survey.numbers[some]


METHODS: Mapping[str, Callable[[Survey, int], Labels]] = {
    "k-means": k_means,
    "DP k-means": dp_k_means,
    "k-modes": k_modes,
    "agglomerative": agglomerative,
    "GMM": mixture,
}


_KNOWN: dict[tuple[str, str, int], Labels] = {}


def labels_of(survey: Survey, method: str, clusters: int) -> Labels:
    """Made when asked for, once in a process: the parts of a run share them."""
    key = (survey.name, method, clusters)
    if key not in _KNOWN:
        _KNOWN[key] = METHODS[method](survey, clusters)
    return _KNOWN[key]
