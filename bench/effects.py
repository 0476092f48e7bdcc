"""Accuracy of private effect curves, as `reference/README.md` in shared describes it: pure account, replace-one.

    --explainer pdp | ale           ours, our faithful form (method="paper") and the published specific design
    --explainer generic             generic plots of both kinds against the published generic design and its form here

Over all features of three tables and five epsilons, ten repetitions; then, for the specific designs, the resolution
experiment. The real `explain` runs on the whole table each time; only predictions are remembered (bench/cached.py).
"""

from __future__ import annotations

import csv
import itertools
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

import dpexplain as dpx
from bench import report
from bench.cached import CachedModel, cached_table
from bench.tables import CASES, Case
from dpexplain.maths.binning import steps_of
from dpexplain.methods.accumulated_effects import release as accumulated_effects
from dpexplain.methods.accumulated_effects.request import AccumulatedEffects
from dpexplain.methods.generic_plot import release as generic_plot
from dpexplain.methods.generic_plot.request import GenericPlot
from dpexplain.methods.partial_dependence import release as partial_dependence
from dpexplain.methods.setting import Setting

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0)
RESOLUTIONS = (10, 20, 50, 100)
RESOLUTION_FEATURES = [("adult", "age"), ("adult", "capital-gain"), ("bike", "hr"), ("heart", "age")]
REPETITIONS = 10
REFERENCE_BINS = 100
AT_ONCE = 100  # values of a feature for which all rows are predicted together

Curve = tuple[np.ndarray, np.ndarray]


class Bench:
    """One table: private curves of it, exact ones, and the distance between the two."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rows = len(case.frame)
        self.table, self.model = cached_table(case), CachedModel(case)
        self._references: dict[tuple[str, str], Curve] = {}

    def release(self, kind: str, feature: str, epsilon: float, options: dict[str, Any]) -> dpx.results.Curve:
        cost = self.table.cost(epsilon=epsilon)
        request = KINDS[kind].request(self, feature, options)
        return KINDS[kind].explain(self.table, self.model, request, cost=cost)

    def prepare(self, kind: str, feature: str, asked: Sequence[dict[str, Any]]) -> None:
        """Predict once what releases with these options will ask for, at any of the epsilons."""
        column = self.case.domain[feature]
        if not isinstance(column, dpx.Numeric):
            self.model.remembered.announce(feature, range(len(column.categories)))
        elif kind.endswith("ale"):
            self.model.remembered.announce(feature, steps_of(feature, column).points)
        else:
            setting, points = Setting.of(self.table, self.model), set[float]()
            for options, epsilon in itertools.product(asked, EPSILONS):
                request = partial_dependence.PartialDependence(feature=feature, **options)
                spec = partial_dependence.resolve(request, setting, self.table.cost(epsilon=epsilon))
                points.update(spec.views[0][0].settings)
            self.model.remembered.announce(feature, points)

    def reference(self, kind: str, feature: str) -> Curve:
        """The exact curve, predictions not clipped."""
        if (kind, feature) not in self._references:
            self._references[kind, feature] = KINDS[kind].reference(self, feature)
        return self._references[kind, feature]

    def mise(self, kind: str, curve: dpx.results.Curve) -> float:
        """Mean integrated squared error as the published protocol defines it."""
        axis = curve.axes[0]
        x, y = self.reference(kind, axis.feature)
        if not axis.ordered:
            return float(np.mean((curve.values - y) ** 2))
        column = self.case.domain[axis.feature]
        at = np.linspace(column.low, column.high, 1000)
        return float(np.mean((np.interp(at, axis.points, curve.values) - np.interp(at, x, y)) ** 2))

    def predict(self, feature: str, values: Any) -> np.ndarray:
        return self.model.remembered.predict_at(np.arange(self.rows), {feature: values})


def exact_pdp(bench: Bench, feature: str) -> Curve:
    """At every observed value."""
    column = bench.case.domain[feature]
    seen = np.sort(bench.case.frame[feature].unique())
    settings = seen.astype(float) if isinstance(column, dpx.Numeric) else np.arange(len(column.categories), dtype=float)
    parts = np.array_split(settings, len(settings) // AT_ONCE + 1)
    return seen.astype(float), np.concatenate([bench.model.remembered.lines(feature, v).mean(axis=1) for v in parts])


def exact_ale(bench: Bench, feature: str) -> Curve:
    """On 100 quantile intervals, centred by the mean of its values at those quantiles; categories: between neighbours
    in declared order, over the rows of both, centred by the density."""
    column, values = bench.case.domain[feature], bench.model.remembered.rows[feature].astype(float)
    if not isinstance(column, dpx.Numeric):
        last, codes = len(column.categories) - 1, values.astype(int)
        own = bench.predict(feature, codes)
        up = bench.predict(feature, np.minimum(codes + 1, last)) - own
        down = own - bench.predict(feature, np.maximum(codes - 1, 0))
        counts = np.bincount(codes, minlength=last + 1)
        sums = np.bincount(codes, up, last + 1)[:-1] + np.bincount(codes, down, last + 1)[1:]
        curve = np.concatenate([[0], np.cumsum(sums / np.maximum(counts[:-1] + counts[1:], 1))])
        return np.arange(last + 1.0), curve - (counts * curve).sum() / counts.sum()
    quantiles = np.quantile(values, np.linspace(0, 1, REFERENCE_BINS + 1), method="inverted_cdf")
    edges = np.unique(quantiles)
    place = np.clip(np.searchsorted(edges, values, side="left"), 1, len(edges) - 1)
    moved = bench.predict(feature, edges[place]) - bench.predict(feature, edges[place - 1])
    means = np.bincount(place, moved, len(edges))[1:] / np.maximum(np.bincount(place, minlength=len(edges))[1:], 1)
    curve = np.concatenate([[0], np.cumsum(means)])
    return edges, curve - np.interp(quantiles, edges, curve).mean()


@dataclass(frozen=True)
class Kind:
    """One explainer under test: how to ask for it, and what is true."""

    published: tuple[str, str]  # explainer and design in the published tables
    request: Callable[[Bench, str, dict[str, Any]], Any]
    explain: Callable[..., Any]
    reference: Callable[[Bench, str], Curve]
    resolution: str | None = None  # the option that sets the number of points
    forms: tuple[tuple[str, dict[str, Any]], ...] = (("ours", {}), ("paper", {"method": "paper"}))


def _first(explain: Callable[..., dpx.results.Curves], *args: Any, cost: Any) -> dpx.results.Curve:
    return explain(*args, cost=cost)[0]


def _generic(name: str, bench: Bench, feature: str, options: dict[str, Any]) -> GenericPlot:
    low, high = bench.case.output
    box = (low, high) if name == "pdp" else (low - high, high - low)
    return GenericPlot(explainer=name, feature=feature, output=box, **options)


def _remember_parts() -> None:
    """The curves of parts do not change from one repetition to the next: rows are dealt by a public permutation."""
    known: dict[Any, np.ndarray] = {}
    black_box = generic_plot._black_box

    def remembered(table: Any, model: Any, request: Any, spec: Any) -> Any:
        columns, curves, how = black_box(table, model, request, spec)
        key = (model.name, request.explainer, spec.axis, spec.parts)

        def once(dealt: Any) -> np.ndarray:
            if key not in known:
                known[key] = curves(dealt)
            return known[key]

        return columns, once, {**how, "parallel": False, "at_once": 2**22}  # all parts in one piece

    generic_plot._black_box = remembered


GENERIC_FORMS = (
    ("ours", {}),
    ("paper", {"method": "paper"}),
)
KINDS = {
    "pdp": Kind(
        ("pdp", "specific"),
        lambda _, feature, options: partial_dependence.PartialDependence(feature=feature, **options),
        partial(_first, partial_dependence.explain),
        exact_pdp,
        "grid",
    ),
    "ale": Kind(
        ("ale", "specific"),
        lambda _, feature, options: AccumulatedEffects(feature=feature, **options),
        partial(_first, accumulated_effects.explain),
        exact_ale,
        "bins",
    ),
    "generic-pdp": Kind(
        ("pdp", "generic"), partial(_generic, "pdp"), generic_plot.explain, exact_pdp, forms=GENERIC_FORMS
    ),
    "generic-ale": Kind(
        ("ale", "generic"), partial(_generic, "ale"), generic_plot.explain, exact_ale, forms=GENERIC_FORMS
    ),
}


def published(data: Path, explainer: str, design: str) -> dict[tuple[str, str, float], tuple[float, float]]:
    with (data.parent / "reference" / "published_effects_mise.csv").open() as file:
        return {
            (line["dataset"], line["feature"], float(line["epsilon"])): (
                float(line["mise_mean"]),
                float(line["mise_std"]),
            )
            for line in csv.DictReader(file)
            if line["explainer"] == explainer and line["design"] == design
        }


def run(options: Namespace) -> None:
    kinds = ["generic-pdp", "generic-ale"] if options.explainer == "generic" else [options.explainer]
    if options.explainer == "generic":
        _remember_parts()
    keys = ["heart"] if options.quick else list(CASES)
    tables = {key: Bench(CASES[key](options.data)) for key in keys}
    repetitions = 3 if options.quick else REPETITIONS
    cells = [cell for kind in kinds for cell in _cells(kind, tables, options.data, repetitions)]
    summary: dict[str, Any] = {kind: summarize([c for c in cells if c["kind"] == kind], repetitions) for kind in kinds}
    specific = len(kinds) == 1
    resolution = [] if options.quick or not specific else _resolution(kinds[0], tables)
    content = {"summary": summary[kinds[0]] if specific else summary, "cells": cells, "resolution": resolution}
    report.write(
        f"effects-{options.explainer}", options, content, None if options.quick else _figure(cells, resolution)
    )


def _cells(kind: str, tables: dict[str, Bench], data: Path, repetitions: int) -> list[dict[str, Any]]:
    """Every feature at every epsilon."""
    explainer, _ = KINDS[kind].published
    figures = {design: published(data, explainer, design) for design in ("specific", "generic")}
    cells = []
    for key, table in tables.items():
        for feature in track(list(table.case.domain), description=f"{kind} {key}"):
            specific = not kind.startswith("generic")
            table.prepare(kind, feature, [options for _, options in KINDS[kind].forms] if specific else [{}])
            for epsilon in EPSILONS:
                where = (table.case.name, feature, epsilon)
                curves = {
                    form: [table.release(kind, feature, epsilon, options) for _ in range(repetitions)]
                    for form, options in KINDS[kind].forms
                }
                cells.append(
                    {
                        "kind": kind,
                        "dataset": table.case.name,
                        "feature": feature,
                        "numeric": isinstance(table.case.domain[feature], dpx.Numeric),
                        "epsilon": epsilon,
                        "points": round(float(np.mean([len(curve.values) for curve in curves["ours"]])), 1),
                        **{form: [table.mise(kind, curve) for curve in found] for form, found in curves.items()},
                        "published": figures[KINDS[kind].published[1]][where],
                        "published_generic": figures["generic"][where],
                    }
                )
            table.model.remembered.forget(feature)
    return cells


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
    numeric = [c for c in cells if c["numeric"] and c["epsilon"] <= 1]
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
        "numeric_features_at_epsilon_up_to_1": {
            "geometric_mean_ours_over_published": geometric([np.mean(c["ours"]) / c["published"][0] for c in numeric]),
            "ratios_above_1.05 (with their lower bounds)": [
                {
                    "dataset": c["dataset"],
                    "feature": c["feature"],
                    "epsilon": c["epsilon"],
                    "ratio": round(float(np.mean(c["ours"]) / c["published"][0]), 3),
                    "lower_bound": round(ratio_lower_bound(c, "published", 0.01 / len(numeric)), 3),
                }
                for c in numeric
                if np.mean(c["ours"]) > 1.05 * c["published"][0]
            ],
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


def _resolution(kind: str, tables: dict[str, Bench]) -> list[dict[str, Any]]:
    """The paper's Experiment 2: 10, 20, 50 and 100 points (or bins), for both forms."""
    lines = []
    for key, feature in track(RESOLUTION_FEATURES, description="resolution"):
        table, resolution = tables[key], KINDS[kind].resolution
        forms = [options for _, options in KINDS[kind].forms]
        table.prepare(kind, feature, [{**options, resolution: n} for options in forms for n in RESOLUTIONS])
        for points in RESOLUTIONS:
            for epsilon in EPSILONS:
                line = {"dataset": table.case.name, "feature": feature, "points": points, "epsilon": epsilon}
                for form, options in KINDS[kind].forms:
                    asked = {**options, resolution: points}
                    found = [table.mise(kind, table.release(kind, feature, epsilon, asked)) for _ in range(REPETITIONS)]
                    line[form] = float(np.mean(found))
                lines.append(line)
        table.model.remembered.forget(feature)
    return lines


def _figure(cells: Sequence[dict[str, Any]], resolution: Sequence[dict[str, Any]]) -> Figure:
    """Every ratio; below it, where there is one, the resolution experiment."""
    kinds = list(dict.fromkeys(c["kind"] for c in cells))
    figure = Figure(figsize=(13, 8.5), layout="constrained")
    panels = figure.subfigures(2, 1)
    for panel, kind in zip(panels, kinds, strict=False):
        _ratios(panel, kind, [c for c in cells if c["kind"] == kind])
    if resolution:
        _resolutions(panels[1], resolution)
    return figure


def _ratios(panel: Any, kind: str, cells: Sequence[dict[str, Any]]) -> None:
    axes = panel.subplots(1, 3, sharey=True)
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
                label={"ours": "ours", "paper": "the published design, run here"}[label],
            )
        ax.axhline(1, color="grey", linewidth=0.8)
        ax.set_yscale("log")
        ax.set_xticks(range(len(EPSILONS)), [f"{e:g}" for e in EPSILONS])
        ax.set_xlabel("epsilon")
        ax.set_title(name)
    axes[0].set_ylabel(f"{kind}: MISE / published MISE (one dot a feature)")
    axes[0].legend(fontsize=8)


def _resolutions(panel: Any, resolution: Sequence[dict[str, Any]]) -> None:
    axes = panel.subplots(1, 4)
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
