"""Explanations of clusters: the attributes that are chosen, against paper 002 (DPClustX), TabEE and its private forms.

    curves    quality and MAE by epsilon of the choice; the epsilon at which 98 % of the noise-free quality is reached
    posterior the choice from released counts of everything, beside one stage and the domain alone
    studies   candidates, cluster sizes, correlated attributes, weights: Figures 7 and 8b, section 6.2, Table 1
    more      12 and 15 clusters, several attributes for a cluster, the histogram stage of the paper
    case      the case study of section 6.4 on the census table, with the product's own picture
    kmeans    dp_kmeans against scikit-learn
    speed     Figures 9a to 9d, the largest table, memory; for an idle machine

Add-remove, pure account. The curves of our three forms are drawn by the product's own path (spec, scores, gate, exact
sampler); counts are made once for each clustering. Baselines have seeded noise. The epsilons for 98 % come from the
laws of `cluster_laws`: exact for one stage, 400 seeded draws for two.
"""

from __future__ import annotations

import importlib
from argparse import Namespace
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from rich.progress import track
from threadpoolctl import threadpool_limits

import dpexplain as dpx
from bench import cluster_figures as figures
from bench import report
from bench.cached import BenchAccount
from bench.cluster_baselines import CANDIDATES, EQUAL, Weights, dp_tabee, mae, naive
from bench.cluster_laws import REACHED, Case, best_choice, reached_at
from bench.clusterings import CLUSTERS, METHODS, NEIGHBOURS, SURVEYS, Counts, Survey, labels_of
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import Door, Gate
from dpexplain.methods.clusters.release import choose, resolve
from dpexplain.methods.clusters.request import Clusters
from dpexplain.methods.clusters.spec import Spec
from dpexplain.methods.setting import Setting

PARTS = ("curves", "posterior", "studies", "more", "case", "kmeans", "speed")
EPSILONS = tuple(float(f"{e:.3g}") for e in np.logspace(-3, 0, 9))
RUNS, DRAWS = 10, 400
BUDGET = dpx.Budget(10**6)
ONE, TIGHT, PAPER = "one stage", "two stages, our bounds", "two stages, paper"
FORMS = {ONE: ("one-stage", "tight"), TIGHT: ("two-stage", "tight"), PAPER: ("two-stage", "paper")}
NAIVE, DP_TABEE, GUMBEL = "DP-Naive", "DP-TabEE", "two stages, paper, Gumbel noise"
TARGET = 1 / 5
NOISE = {
    "one stage, two stages (curves, studies, case)": "the product's own gate and exact sampler: operating-system "
    "entropy, so a repetition differs",
    "DP-Naive, DP-TabEE": "seeded geometric and Gumbel noise",
    "epsilon for 98 %": "one stage: the exact mean of its law, no noise; two stages: 400 seeded draws at each epsilon "
    "of the product's law (permute-and-flip, best after best), or of the published one (Gumbel)",
}


class Selector:
    """The product's choice of attributes for the counts of one clustering, at a price that is for the choice alone."""

    def __init__(self, survey: Survey, clusters: int, weights: Weights = EQUAL) -> None:
        self.survey, self.clusters, self.weights = survey, clusters, weights
        self._door = Door(BenchAccount(BUDGET, NEIGHBOURS))
        self._spec = cache(self._resolved)

    def _resolved(self, form: str, epsilon: float, candidates: int) -> Spec:
        method, bounds = FORMS[form]
        request = Clusters(
            labels=list(range(self.clusters)), method=method, bounds=bounds, weights=self.weights,
            candidates=candidates, selection_share=0.5,
        )  # fmt: skip
        rows = self.survey.rows
        setting = Setting(self.survey.domain, PublicRange(0.0, 1.0), NEIGHBOURS, rows, rows)
        return replace(resolve(request, setting, BUDGET.cost(epsilon=epsilon)), selection_share=Fraction(1))

    def choose(self, counts: Counts, form: str, epsilon: float, *, candidates: int = CANDIDATES) -> tuple[int, ...]:
        cost = BUDGET.cost(epsilon=epsilon)
        chosen = choose(Gate(self._door, cost), counts, self._spec(form, epsilon, candidates), cost)
        return tuple(attribute for (attribute,) in chosen)


def cell(survey: Survey, clustering: str, clusters: int, *, runs: int, draws: int) -> dict[str, Any]:
    """All about one clustering: what is best without noise, curves by epsilon, and where 98 % are reached."""
    labels = labels_of(survey, clustering, clusters)
    counts = survey.counts(labels, clusters)
    case, selector = Case.of(counts, EQUAL), Selector(survey, clusters)
    exact, random = case.exact, np.random.default_rng(0)
    tabee = exact.of_choice(exact.best)
    free = {ONE: case.noise_free(1), TIGHT: case.noise_free(2), PAPER: case.noise_free(2)}
    curves: dict[str, dict[str, list[float]]] = {}
    for form in (*FORMS, NAIVE, DP_TABEE):
        lines: dict[str, list[float]] = {"quality": [], "deviation": [], "mae": []}
        for epsilon in EPSILONS:
            if form in FORMS:
                choices = [selector.choose(counts, form, epsilon) for _ in range(runs)]
            elif form == NAIVE:
                choices = [naive(exact, counts, epsilon, random) for _ in range(runs)]
            else:
                choices = [dp_tabee(exact, epsilon, random) for _ in range(runs)]
            found = [exact.of_choice(choice) for choice in choices]
            lines["quality"].append(_short(np.mean(found)))
            lines["deviation"].append(_short(np.std(found)))
            lines["mae"].append(_short(np.mean([mae(choice, exact.best) for choice in choices])))
        curves[form] = lines
    reached = {
        ONE: reached_at(case.one_stage, REACHED * free[ONE]),
        TIGHT: reached_at(lambda e: case.two_stage(e, "tight", draws), REACHED * free[TIGHT]),
        PAPER: reached_at(lambda e: case.two_stage(e, "paper", draws), REACHED * free[PAPER]),
        GUMBEL: reached_at(lambda e: case.two_stage(e, "paper", draws, gumbel=True), REACHED * free[PAPER]),
    }
    level = reached_at(case.one_stage, REACHED * free[PAPER])
    return {
        "table": survey.name,
        "clustering": clustering,
        "clusters": clusters,
        "sizes": np.bincount(labels, minlength=clusters).tolist(),
        "quality": {
            "TabEE": _short(tabee),
            "best of all combinations": _short(exact.of_choice(best_choice(exact.quality).tolist())),
            "one stage without noise": _short(free[ONE]),
            "two stages without noise": _short(free[PAPER]),
        },
        "curves": curves,
        "epsilon for 98 %": {form: None if e is None else float(f"{e:.3g}") for form, e in reached.items()},
        "one stage / paper": _ratio(reached[ONE], reached[PAPER]),
        "one stage / paper, Gumbel noise": _ratio(reached[ONE], reached[GUMBEL]),
        "one stage / paper, both to 98 % of the paper's quality": _ratio(level, reached[PAPER]),
        "product against law": _against_law(case, curves, draws),
    }


def _against_law(case: Case, curves: dict[str, dict[str, list[float]]], draws: int) -> dict[str, float]:
    """Mean over epsilons of the product's mean quality less that of the law: about zero."""
    laws = {
        ONE: [case.one_stage(e) for e in EPSILONS],
        PAPER: [case.two_stage(e, "paper", draws) for e in EPSILONS],
    }
    return {form: _short(np.mean(np.subtract(curves[form]["quality"], law))) for form, law in laws.items()}


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else float(f"{ours / theirs:.3g}")


def _short(value: Any) -> float:
    return round(float(value), 5)


def curves(options: Namespace) -> None:
    quick = options.quick
    surveys = [load(options.data) for name, load in SURVEYS.items() if not quick or name == "Diabetes"]
    wanted = [
        (survey, clustering, clusters)
        for survey in surveys
        for clusters in ((3, 5) if quick else CLUSTERS)
        for clustering in (["k-means", "k-modes"] if quick else METHODS)
    ]
    cells = [
        cell(*one, runs=3 if quick else RUNS, draws=40 if quick else DRAWS)
        for one in track(wanted, description="clusterings")
    ]
    content = {"summary": summary(cells), "noise": NOISE, "epsilons": EPSILONS, "runs": RUNS, "cells": cells}
    report.write("clusters", options, content, None if quick else figures.targets(cells, TARGET))
    if not quick:
        figures.save("clusters-quality", figures.by_epsilon(cells, EPSILONS, "quality"))
        figures.save("clusters-mae", figures.by_epsilon(cells, EPSILONS, "mae"))
        figures.save("clusters-methods", figures.by_method(cells, EPSILONS, clusters=5))


def summary(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """The target table, and the two gaps."""
    aimed = [c for c in cells if c["clusters"] >= 5]
    table: dict[str, dict[str, Any]] = {}
    for c in cells:
        line = table.setdefault(f"{c['table']}, {c['clusters']} clusters", {})
        e = c["epsilon for 98 %"]
        line[c["clustering"]] = {ONE: e[ONE], PAPER: e[PAPER], "ratio": c["one stage / paper"]}
    ratios = {
        key: {f"{c['table']}, {c['clustering']}, {c['clusters']} clusters": c[key] for c in aimed}
        for key in aimed[0]
        if key.startswith("one stage / ")
    }
    gaps = {
        name: [1 - c["quality"][name] / c["quality"]["TabEE"] for c in cells]
        for name in ("one stage without noise", "two stages without noise")
    }
    return {
        "epsilon for 98 % of the own noise-free quality": table,
        "5 and more clusters": {key: _met(values) for key, values in ratios.items()},
        "mean ratio (geometric) over clusterings": {
            name: round(float(np.exp(np.mean(np.log([one["ratio"] for one in line.values()])))), 3)
            for name, line in table.items()
        },
        "noise-free quality below TabEE": {
            name: {"mean": _short(np.mean(gap)), "largest": _short(max(gap))} for name, gap in gaps.items()
        },
        "product less law, mean quality": {
            form: _short(np.mean([c["product against law"][form] for c in cells])) for form in (ONE, PAPER)
        },
    }


def _met(ratios: dict[str, float | None]) -> dict[str, Any]:
    """How many are small enough, and those that are not."""
    known = [ratio for ratio in ratios.values() if ratio is not None]
    missed = {name: ratio for name, ratio in ratios.items() if ratio is None or ratio > TARGET}
    return {
        "target": f"at most {TARGET}",
        "cases": len(ratios),
        "met": len(ratios) - len(missed),
        "median": _short(np.median(known)),
        "largest": max(known),
        "missed": missed,
    }


def run(options: Namespace) -> None:
    """One part, or all of them in order. Only speed may use several threads for products: elsewhere they are small, and
    threads would mostly wait for each other.
    """
    for part in PARTS if options.part == "all" else [options.part]:
        work = curves if part == "curves" else importlib.import_module(f"bench.cluster_{part}").run
        with nullcontext() if part == "speed" else threadpool_limits(1):
            work(options)
