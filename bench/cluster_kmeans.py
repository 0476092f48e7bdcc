"""`dpx.dp_kmeans` against scikit-learn: the mean squared distance of rows from their centres, as a ratio.

Add-remove with the number of rows as a hint, real noise, releases with different seeds. scikit-learn sees the rows
exactly, in the same coordinates (ranges of length 1, categories 1/sqrt(2)). DPLloyd is `start=` k far points of the
domain: the published algorithm in whole numbers.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.progress import track
from sklearn.cluster import KMeans

import dpexplain as dpx
from bench import report
from bench.clusterings import census, diabetes, endless, stackoverflow
from dpexplain.core.domain import Numeric
from dpexplain.data.encode import encode
from dpexplain.data.sources import open_source
from dpexplain.maths.surrogate import Space

PURE, ZCDP = dpx.Budget(10**6), dpx.Budget(10**6, 1e-6)
RELEASES = 5
NUMBERS = (
    "time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient",
    "number_emergency", "number_inpatient", "number_diagnoses",
)  # fmt: skip
RANGES = (14, 132, 6, 81, 42, 76, 21, 16)  # the largest values; the smallest declared one is 0


@dataclass(frozen=True)
class Problem:
    name: str
    frame: pd.DataFrame
    domain: dpx.Domain
    k: int

    def coordinates(self) -> np.ndarray:
        names = tuple(self.domain)
        ((size, raw),) = open_source(self.frame).batches(list(names), 2**30)
        columns = {name: encode(self.domain[name], raw[name]) for name in names}
        return Space(self.domain, names).coordinates(columns, size)

    def far_points(self) -> list[dict[str, Any]]:
        """k records of numbers, each as far as can be from those before it: public, the same for all data."""
        drawn = np.random.default_rng(0).uniform(0.1, 0.9, (4_000, len(self.domain)))
        found = [drawn[0]]
        while len(found) < self.k:
            least = np.min([((drawn - one) ** 2).sum(axis=1) for one in found], axis=0)
            found.append(drawn[least.argmax()])
        records = []
        for place in found:
            record = {}
            for share, (name, column) in zip(place, self.domain.items(), strict=True):
                assert isinstance(column, Numeric)
                value = column.low + (column.high - column.low) * float(share)
                record[name] = round(value) if column.integer else value
            records.append(record)
        return records


def problems(data: Path, quick: bool) -> list[Problem]:
    raw = pd.read_parquet(data / "diabetes130.parquet", columns=list(NUMBERS))
    ranges = {name: dpx.Numeric(0, high, integer=True) for name, high in zip(NUMBERS, RANGES, strict=True)}
    found = [Problem(f"Diabetes, 8 numeric columns, k = {k}", raw, dpx.Domain(ranges), k) for k in (5, 9)]
    if quick:
        return found[:1]
    for dimensions in (2, 10):
        found.append(_blobs(dimensions))
    survey = diabetes(data)
    found.append(Problem("Diabetes, 47 categorical columns, k = 5", survey.frame(), survey.domain, 5))
    for survey in (diabetes(data), census(data), stackoverflow(data)):
        ends = {name: len(values) - 1 for name, values in zip(survey.columns, survey.values, strict=True)}
        domain = dpx.Domain({name: dpx.Numeric(0, end, integer=True) for name, end in ends.items()})
        frame = pd.DataFrame(survey.codes, columns=list(survey.columns))
        found.append(Problem(f"{survey.name}, codes of {len(ends)} columns, k = 5", frame, domain, 5))
    return found


def _blobs(dimensions: int, rows: int = 100_000) -> Problem:
    random = np.random.default_rng(dimensions)
    centres = random.uniform(0.15, 0.85, (5, dimensions))
    points = np.clip(centres[random.integers(5, size=rows)] + random.normal(0, 0.05, (rows, dimensions)), 0, 1)
    names = [f"x{i}" for i in range(dimensions)]
    domain = dpx.Domain({name: dpx.Numeric(0, 1) for name in names})
    return Problem(f"5 blobs in {dimensions} dimensions, k = 5", pd.DataFrame(points, columns=names), domain, 5)


def inertia(points: np.ndarray, centres: np.ndarray) -> float:
    """The mean squared distance of points from the nearest centre."""
    total = 0.0
    for start in range(0, len(points), 2**15):
        part = points[start : start + 2**15]
        apart = (part**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2 * part @ centres.T
        total += float(np.maximum(apart.min(axis=1), 0).sum())
    return total / len(points)


def line(problem: Problem, releases: int) -> dict[str, Any]:
    points = problem.coordinates()
    fitted = KMeans(problem.k, n_init=5, random_state=0).fit(points)
    least, alone = inertia(points, fitted.cluster_centers_), inertia(points, points.mean(axis=0)[None])
    tables = {name: endless(problem.frame, problem.domain, budget) for name, budget in _ACCOUNTS.items()}
    found: dict[str, Any] = {"table": problem.name, "rows": len(points), "one cluster alone": _short(alone / least)}
    forms: list[tuple[str, str, float, dict[str, Any]]] = [
        (f"{account}, epsilon {epsilon:g}", account, epsilon, {}) for epsilon in (1.0, 0.1) for account in _ACCOUNTS
    ]
    if "columns" not in problem.name or "numeric" in problem.name:
        start: dict[str, Any] = {"start": problem.far_points()}
        forms += [(f"DPLloyd, pure, epsilon {e:g}", "pure", e, {**start, "rounds": r}) for e, r in ((1.0, 5), (0.1, 2))]
    for name, account, epsilon, options in forms:
        ratios = []
        for seed in range(releases):
            rule = dpx.dp_kmeans(
                tables[account], problem.k, list(problem.domain), epsilon=epsilon, **{"seed": seed, **options}
            )
            assert rule.result is not None
            ratios.append(inertia(points, rule.result.centres / 2**16) / least)
        found[name] = {"mean": _short(np.mean(ratios)), "largest": _short(max(ratios))}
    return found


_ACCOUNTS: Mapping[str, dpx.Budget] = {"pure": PURE, "zCDP": ZCDP}


def _short(value: Any) -> float:
    return round(float(value), 4)


def run(options: Namespace) -> None:
    wanted = problems(options.data, options.quick)
    lines = [line(one, 2 if options.quick else RELEASES) for one in track(wanted, description="dp_kmeans")]
    content = {"summary": {one["table"]: one for one in lines}, "releases": RELEASES, "delta": 1e-6}
    report.write("clusters-kmeans", options, content, None if options.quick else _figure(lines))


def _figure(lines: list[dict[str, Any]]) -> Figure:
    """The ratio above 1, a row for each table."""
    styles = {
        "pure, epsilon 1": ("#1f4e79", "o"),
        "zCDP, epsilon 1": ("#4a90c2", "s"),
        "pure, epsilon 0.1": ("#1f4e79", "v"),
        "zCDP, epsilon 0.1": ("#4a90c2", "D"),
        "DPLloyd, pure, epsilon 1": ("#c55a11", "^"),
    }
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    ax = figure.add_subplot()
    for i, one in enumerate(lines):
        for name, (colour, mark) in styles.items():
            if name in one:
                hollow = "white" if name.endswith("0.1") else colour
                label = name if i == 0 else None
                excess = max(one[name]["mean"] - 1, 1e-4)
                ax.plot(excess, i, mark, color=colour, markerfacecolor=hollow, markersize=7, label=label)
    ax.set_xscale("log")
    ax.set_yticks(range(len(lines)), [one["table"] for one in lines], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel("mean squared distance above scikit-learn's, as a share of it")
    ax.grid(alpha=0.25)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return figure
