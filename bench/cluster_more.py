"""What of paper 002 had no figure yet: 12 and 15 clusters, several attributes for a cluster, its histogram stage.

    many        quality by epsilon of the choice with 12 and 15 clusters, against the best of all combinations
    several     per_cluster = 1, 2, 3 with 5 clusters: the share of the best score, and of the best attributes
    histograms  counts inside and outside (ours) beside epsilon/2 inside, epsilon/2 everywhere and subtraction (the
                paper's), at one price for the histograms: mean total variation distance to the exact ones

Clusters of k-means; add-remove, pure account, 4 runs each, the product's own gate and sampler.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

import dpexplain as dpx
from bench import report
from bench.cached import BenchAccount
from bench.cluster_baselines import TabEE
from bench.cluster_case import rule_of
from bench.cluster_laws import best_choice
from bench.clusterings import NEIGHBOURS, SURVEYS, Counts, Survey, k_means
from bench.clusters import BUDGET, FORMS, ONE, PAPER, Selector, _short
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import Door, Gate
from dpexplain.methods.clusters.release import choose, combination_scores, measure, most_rows, resolve
from dpexplain.methods.clusters.request import Clusters
from dpexplain.methods.clusters.scores import Scoring, Weights
from dpexplain.methods.setting import Setting

TABLES = ("Diabetes",)
MANY, EPSILONS, RUNS = (12, 15), (0.1, 1.0), 4
SEVERAL, CLUSTERS = (1, 2, 3), 5
PRICES, SHARE = (0.02, 0.2), Fraction(1, 2)
WITHOUT_NOISE = 10_000.0  # an epsilon at which the choice is the best one


def many(survey: Survey, clusters: int, runs: int) -> dict[str, Any]:
    """Mean quality of the choices; two stages have 3 candidates each, as in the paper for 15 clusters."""
    counts, selector = survey.counts(k_means(survey, clusters), clusters), Selector(survey, clusters)
    exact = TabEE.of(counts)
    best = exact.of_choice(best_choice(exact.quality).tolist())
    found: dict[str, Any] = {"best of all combinations": _short(best)}
    for form in (ONE, PAPER):
        lines = [[exact.of_choice(selector.choose(counts, form, e)) for _ in range(runs)] for e in EPSILONS]
        found[form] = [_short(np.mean(line)) for line in lines]
    return found


def several(survey: Survey, counts: Counts, uses: int, runs: int) -> dict[str, Any]:
    """The share of the best score, and of the attributes of the best choice that were found."""
    scoring = Scoring(CLUSTERS, uses, Weights.of((1 / 3, 1 / 3, 1 / 3)))
    scores = combination_scores(measure(counts, scoring.steps, most_rows(scoring)), scoring)
    door = Door(BenchAccount(BUDGET, NEIGHBOURS))
    setting = Setting(survey.domain, PublicRange(0.0, 1.0), NEIGHBOURS, survey.rows, survey.rows)

    def chosen(form: str, epsilon: float) -> list[set[int]]:
        method, bounds = FORMS[form]
        request = Clusters(
            labels=list(range(CLUSTERS)), method=method, bounds=bounds, per_cluster=uses, candidates=max(3, uses + 1),
            selection_share=0.5,
        )  # fmt: skip
        cost = BUDGET.cost(epsilon=epsilon)
        spec = replace(resolve(request, setting, cost), selection_share=Fraction(1))
        return [set(mine) for mine in choose(Gate(door, cost), counts, spec, cost)]

    def score(choice: list[set[int]]) -> float:
        masks = {a: sum(1 << c for c, mine in enumerate(choice) if a in mine) for a in set().union(*choice)}
        return float(sum(scores[a, mask] for a, mask in masks.items()))

    best = chosen(ONE, WITHOUT_NOISE)
    found: dict[str, Any] = {}
    for form in (ONE, PAPER):
        line = []
        for epsilon in EPSILONS:
            choices = [chosen(form, epsilon) for _ in range(runs)]
            kept = [np.mean([len(a & b) / uses for a, b in zip(one, best, strict=True)]) for one in choices]
            line.append(
                {
                    "share of the best score": _short(np.mean([score(one) for one in choices]) / score(best)),
                    "share of the best attributes": _short(np.mean(kept)),
                }
            )
        found[form] = line
    return found


def histograms(survey: Survey, runs: int) -> list[dict[str, Any]]:
    """By `dpx.explain_clusters`, half of the price for the choice; distances for what was chosen."""
    rule = rule_of(survey, CLUSTERS)
    labels, table = rule(survey.frame()).astype(np.int64), survey.private(dpx.Budget(10**6))
    clustering = dpx.Clustering.of(
        rule, domain=survey.domain, labels={c: str(c) for c in range(CLUSTERS)}, name="k-means", version="bench"
    )
    counts, lines = survey.counts(labels, CLUSTERS), []
    for price in PRICES:
        line: dict[str, Any] = {"epsilon for histograms": price}
        for form in ("disjoint", "paper"):
            inside, outside = [], []
            for _ in track(range(runs), description=f"{survey.name}, histograms {form}, {price:g}"):
                found = dpx.explain_clusters(
                    table, clustering, epsilon=2 * price, method="two-stage", histograms=form, selection_share=SHARE
                )
                for one in found.explanations:
                    exact = counts[survey.columns.index(one.attribute)]
                    mine = exact[int(one.cluster)]
                    inside.append(_apart(one.shares, mine))
                    outside.append(_apart(one.rest_shares, exact.sum(axis=0) - mine))
            line[form] = {"inside": _short(np.mean(inside)), "outside": _short(np.mean(outside))}
        lines.append(line)
    return lines


def _apart(shares: Any, counts: Any) -> float:
    """Total variation distance."""
    return float(np.abs(np.asarray(shares) - counts / counts.sum()).sum() / 2)


def run(options: Namespace) -> None:
    quick = options.quick
    runs = 2 if quick else RUNS
    surveys = {name: SURVEYS[name](options.data) for name in (TABLES[:1] if quick else TABLES)}
    sizes = {
        f"{name}, {clusters} clusters": many(survey, clusters, runs)
        for name, survey in surveys.items()
        for clusters in ((12,) if quick else MANY)
    }
    uses = {}
    for name, survey in surveys.items():
        counts = survey.counts(k_means(survey, CLUSTERS), CLUSTERS)
        uses |= {f"{name}, {n} for each": several(survey, counts, n, runs) for n in SEVERAL}
    stage = {name: histograms(survey, runs) for name, survey in surveys.items()}
    content = {
        "epsilons of the choice": EPSILONS,
        "many clusters, quality": sizes,
        f"several attributes, {CLUSTERS} clusters": uses,
        "histograms, total variation distance": stage,
    }
    report.write("clusters-more", options, {"summary": content, "runs": runs}, None if quick else _figure(sizes, stage))


def _figure(sizes: dict[str, Any], stage: dict[str, Any]) -> Figure:
    """Quality with many clusters above, the two ways to histograms below."""
    figure = Figure(figsize=(11, 7), layout="constrained")
    axes = figure.subplots(2, max(len(sizes), len(stage)), squeeze=False)
    for ax, (title, found) in zip(axes[0], sizes.items(), strict=False):
        for i, form in enumerate((ONE, PAPER)):
            ax.plot(EPSILONS, found[form], "-o", color=f"C{i}", label=form, markersize=4)
        ax.axhline(found["best of all combinations"], linestyle=":", color="#333333", label="best of all")
        ax.set(title=title, xscale="log", xlabel="epsilon of the choice")
    for ax, (name, lines) in zip(axes[1], stage.items(), strict=False):
        for i, form in enumerate(("disjoint", "paper")):
            for side, dash in (("inside", "-o"), ("outside", "--s")):
                y = [line[form][side] for line in lines]
                label = f"{form}, {side} the cluster"
                ax.plot(PRICES, y, dash, color=f"C{i}", label=label, markersize=4)
        ax.set(title=f"{name}: histograms", xscale="log", yscale="log", xlabel="epsilon of the histograms")
    for ax in axes[1][len(stage) :]:
        ax.set_axis_off()
    axes[0][0].set_ylabel("quality")
    axes[1][0].set_ylabel("total variation distance")
    axes[0][0].legend(fontsize=7)
    axes[1][0].legend(fontsize=7)
    return figure
