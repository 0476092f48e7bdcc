"""Accuracy of the private PDP, as `reference/README.md` in shared describes it: pure account, replace-one.

Ours, our faithful form (`method="paper"`) and the published figures side by side, over all features of three tables and
five epsilons, ten repetitions; then the resolution experiment. The whole path of the product is used (request, spec,
sensitivity, door, noise, smoothing); only the exact sums of a grid point are computed once and kept, because a
repetition differs from another one in its noise alone.
"""

from __future__ import annotations

import csv
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

import dpexplain as dpx
from bench import report
from bench.tables import CASES, Case
from dpexplain.core.account import Ask, Entry
from dpexplain.core.budget import Cost
from dpexplain.core.release import Door, Gate, split
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.data.encode import encode
from dpexplain.data.rows import Rows
from dpexplain.data.sources import open_source
from dpexplain.engine import map_sum
from dpexplain.explainers.partial_dependence import Spec, forecast, resolve, sensitivity, statistic
from dpexplain.grids import Axis
from dpexplain.requests import PartialDependence
from dpexplain.results import MeanCurve
from dpexplain.results.base import receipt_for

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0)
RESOLUTIONS = (10, 20, 50, 100)
RESOLUTION_FEATURES = [("adult", "age"), ("adult", "capital-gain"), ("bike", "hr"), ("heart", "age")]
NEIGHBOURS = Neighbours(Relation.REPLACE_ONE)
REPETITIONS = 10


class BenchAccount:
    """An account without limit: the accuracy of a release does not depend on where its price is written down."""

    name = "bench"
    budget = dpx.Budget(10**6)
    neighbours = NEIGHBOURS

    def find(self, request_id: str) -> None:  # noqa: ARG002 - the protocol of core.account
        return None

    def reserve(self, ask: Ask) -> str:  # noqa: ARG002
        return "bench"

    def commit(self, reservation: str, payload: dict[str, Any], charged: Cost) -> Entry:  # noqa: ARG002
        return Entry("bench", reservation, 0, "", "", "", charged)


class Exact:
    """The exact statistic of one table, grid point by grid point, computed when first needed."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rows = len(case.frame)
        self.model = case.model()
        self.predictor = self.model.checked(case.domain)
        self._sums: dict[tuple[str, Any], int] = {}
        self._reference: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.door = Door(BenchAccount())

    def batches(self) -> Iterator[Rows]:
        domain, columns = self.case.domain, list(self.case.domain)
        for size, raw in open_source(self.case.frame).batches(columns, 2**14):
            yield Rows(domain, {name: encode(domain[name], raw[name]) for name in columns}, size)

    def sums(self, spec: Spec) -> list[int]:
        axis = spec.views[0][0]
        missing = [point for point in axis.points if (axis.feature, point) not in self._sums]
        if missing:
            settings = missing if axis.ordered else list(axis.points)
            part = replace(spec, views=((Axis(axis.feature, tuple(settings), axis.ordered),),), rug=())
            kernel = partial(statistic, predictor=self.predictor, spec=part)
            found = map_sum(kernel, self.batches(), size=part.size, label=axis.feature, total=None, parallel=True)
            self._sums.update({(axis.feature, p): int(s) for p, s in zip(settings, found, strict=True)})
        return [self._sums[axis.feature, point] for point in axis.points]

    def reference(self, feature: str) -> tuple[np.ndarray, np.ndarray]:
        """The exact PDP at every observed value, predictions not clipped."""
        if feature not in self._reference:
            column = self.case.domain[feature]
            seen = np.sort(self.case.frame[feature].unique())
            settings = seen if isinstance(column, dpx.Numeric) else np.arange(len(column.categories))
            total = np.zeros(len(settings))
            for rows in self.batches():
                inputs = self.predictor.inputs(rows)
                total += [self.predictor.predict_at(inputs, {feature: v}).sum() for v in settings]
            self._reference[feature] = seen.astype(float), total / self.rows
        return self._reference[feature]

    def release(self, request: PartialDependence, epsilon: float) -> dpx.Curve:
        """One private curve through the door."""
        cost = dpx.Budget(100).cost(epsilon=epsilon)
        spec = resolve(request, self.case.domain, self.model.output, NEIGHBOURS, self.rows, cost)
        sums = self.sums(spec)

        def body(gate: Gate) -> None:
            rug_cost, curve_cost = split(cost, spec.rug_share)
            gate.noisy_sum("curve", sums, sensitivity(spec, NEIGHBOURS), curve_cost, mechanism=spec.mechanism)
            gate.noisy_counts("rug", [0] * (spec.size - spec.curve_size), rug_cost, partitions=len(spec.rug))

        identity = {"table": {"rows": self.rows}, "spec": spec.to_json(), "public": []}
        released = self.door.release(request.label, identity, cost, body)
        receipt = receipt_for(request.label, dpx.Budget(100), NEIGHBOURS, released)
        return MeanCurve(receipt, released.payload, 0, request.smooth and request.method != "paper")

    def mise(self, curve: dpx.Curve) -> float:
        """Mean integrated squared error as the published protocol defines it."""
        axis = curve.axes[0]
        x, y = self.reference(axis.feature)
        if not axis.ordered:
            return float(np.mean((curve.values - y) ** 2))
        column = self.case.domain[axis.feature]
        at = np.linspace(column.low, column.high, 1000)
        return float(np.mean((np.interp(at, axis.points, curve.values) - np.interp(at, x, y)) ** 2))


def published(data: Path, design: str) -> dict[tuple[str, str, float], tuple[float, float]]:
    with (data.parent / "reference" / "published_effects_mise.csv").open() as file:
        return {
            (line["dataset"], line["feature"], float(line["epsilon"])): (
                float(line["mise_mean"]),
                float(line["mise_std"]),
            )
            for line in csv.DictReader(file)
            if line["explainer"] == "pdp" and line["design"] == design
        }


def run(options: Namespace) -> None:
    keys = ["heart"] if options.quick else list(CASES)
    repetitions = 3 if options.quick else REPETITIONS
    specific, generic = published(options.data, "specific"), published(options.data, "generic")
    exact = {key: Exact(CASES[key](options.data)) for key in keys}
    cells = []
    for key, table in exact.items():
        for feature in track(list(table.case.domain), description=key):
            for epsilon in EPSILONS:
                where = (table.case.name, feature, epsilon)
                ours, paper = (
                    [
                        table.mise(table.release(PartialDependence(feature=feature, method=method), epsilon))
                        for _ in range(repetitions)
                    ]
                    for method in ("default", "paper")
                )
                cells.append(
                    {
                        "dataset": table.case.name,
                        "feature": feature,
                        "epsilon": epsilon,
                        "points": _points(table, feature, epsilon),
                        "ours": ours,
                        "paper": paper,
                        "published": specific[where],
                        "published_generic": generic[where],
                    }
                )
    summary = summarize(cells, repetitions)
    resolution = [] if options.quick else _resolution(exact)
    content = {"summary": summary, "cells": cells, "resolution": resolution}
    report.write("effects-pdp", options, content, None if options.quick else _figure(cells, resolution))


def _points(table: Exact, feature: str, epsilon: float) -> int:
    cost = dpx.Budget(100).cost(epsilon=epsilon)
    spec = resolve(
        PartialDependence(feature=feature), table.case.domain, table.model.output, NEIGHBOURS, table.rows, cost
    )
    return forecast(spec, NEIGHBOURS, cost)["curve"].size


def summarize(cells: Sequence[dict[str, Any]], repetitions: int) -> dict[str, Any]:
    """Geometric means of the ratios, and the cells that are worse than 1.05 beyond noise."""
    names = sorted({cell["dataset"] for cell in cells})
    against_published = [np.mean(cell["ours"]) / cell["published"][0] for cell in cells]
    against_paper = [np.mean(cell["ours"]) / np.mean(cell["paper"]) for cell in cells]
    faithful = [np.mean(cell["paper"]) / cell["published"][0] for cell in cells]
    worse = {
        label: [
            {"dataset": c["dataset"], "feature": c["feature"], "epsilon": c["epsilon"], "lower_bound": bound}
            for c in cells
            if (bound := ratio_lower_bound(c, label, 0.01 / len(cells))) > 1.05
        ]
        for label in ("published", "paper")
    }
    lower = {
        label: int(sum(np.mean(cell[label]) < cell["published_generic"][0] for cell in cells))
        for label in ("ours", "paper")
    }
    return {
        "cells": len(cells),
        "repetitions": repetitions,
        "geometric_mean_ours_over_published": geometric(against_published),
        "geometric_mean_ours_over_our_paper_form": geometric(against_paper),
        "geometric_mean_our_paper_form_over_published": geometric(faithful),
        "by_dataset_ours_over_published": {
            n: geometric([r for r, c in zip(against_published, cells, strict=True) if c["dataset"] == n]) for n in names
        },
        "by_epsilon_ours_over_published": {
            str(e): geometric([r for r, c in zip(against_published, cells, strict=True) if c["epsilon"] == e])
            for e in EPSILONS
        },
        "worse_than_1.05_beyond_noise": worse,
        "cells_below_the_published_generic_design (the paper's Table I)": lower,
    }


def ratio_lower_bound(cell: dict[str, Any], against: str, tail: float, draws: int = 200_000) -> float:
    """One-sided bootstrap lower bound of mean(ours) / mean(baseline).

    Of the published figures only mean and standard deviation over ten repetitions are known; their mean is drawn from
    a gamma law with these moments.
    """
    generator = np.random.default_rng(0)
    ours = np.asarray(cell["ours"])
    means = ours[generator.integers(len(ours), size=(draws, len(ours)))].mean(axis=1)
    if against == "paper":
        base = np.asarray(cell["paper"])
        baseline = base[generator.integers(len(base), size=(draws, len(base)))].mean(axis=1)
    else:
        mean, std = cell["published"]
        shape = (mean / max(std, 1e-12 * mean)) ** 2 * REPETITIONS
        baseline = generator.gamma(shape, mean / shape, size=draws)
    return float(np.quantile(means / baseline, tail))


def geometric(ratios: Sequence[float]) -> float:
    return round(float(np.exp(np.mean(np.log(ratios)))), 4)


def _resolution(exact: dict[str, Exact]) -> list[dict[str, Any]]:
    """The paper's Experiment 2: 10, 20, 50 and 100 points, for both forms."""
    lines = []
    for key, feature in track(RESOLUTION_FEATURES, description="resolution"):
        table = exact[key]
        for points in RESOLUTIONS:
            for epsilon in EPSILONS:
                line = {"dataset": table.case.name, "feature": feature, "points": points, "epsilon": epsilon}
                for name, method in (("ours", "default"), ("paper", "paper")):
                    request = PartialDependence(feature=feature, method=method, grid=points)
                    line[name] = float(
                        np.mean([table.mise(table.release(request, epsilon)) for _ in range(REPETITIONS)])
                    )
                lines.append(line)
    return lines


def _figure(cells: Sequence[dict[str, Any]], resolution: Sequence[dict[str, Any]]) -> Figure:
    """Above: every ratio. Below: the resolution experiment."""
    figure = Figure(figsize=(13, 8.5), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(1, 1))
    axes = top.subplots(1, 3, sharey=True)
    for ax, name in zip(axes, sorted({c["dataset"] for c in cells}), strict=True):
        mine = [c for c in cells if c["dataset"] == name]
        for label, colour, shift in (("ours", "#1f4e79", -0.06), ("paper", "#c55a11", 0.06)):
            x = [EPSILONS.index(c["epsilon"]) + shift for c in mine]
            y = [max(np.mean(c[label]) / c["published"][0], 1e-4) for c in mine]
            ax.plot(
                x,
                y,
                "o",
                color=colour,
                alpha=0.55,
                markersize=4,
                label={"ours": "ours", "paper": "our method='paper'"}[label],
            )
        ax.axhline(1, color="grey", linewidth=0.8)
        ax.set_yscale("log")
        ax.set_xticks(range(len(EPSILONS)), [f"{e:g}" for e in EPSILONS])
        ax.set_xlabel("epsilon")
        ax.set_title(name)
    axes[0].set_ylabel("MISE / published MISE (one dot a feature)")
    axes[0].legend(fontsize=8)
    axes = bottom.subplots(1, 4)
    for ax, (_, feature), name in zip(axes, RESOLUTION_FEATURES, ["Adult", "Adult", "Bike", "Heart"], strict=True):
        for points, colour in zip(RESOLUTIONS, ("#9dc3e6", "#2e75b6", "#1f4e79", "#0b2239"), strict=True):
            mine = [r for r in resolution if r["feature"] == feature and r["points"] == points and name in r["dataset"]]
            ax.plot(
                [r["epsilon"] for r in mine],
                [r["ours"] for r in mine],
                "-o",
                markersize=3,
                color=colour,
                label=f"ours, {points}",
            )
            ax.plot([r["epsilon"] for r in mine], [r["paper"] for r in mine], ":s", markersize=3, color=colour)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"{name}: {feature}")
        ax.set_xlabel("epsilon (dotted: method='paper')")
    axes[0].set_ylabel("MISE by number of points")
    axes[0].legend(fontsize=7)
    return figure
