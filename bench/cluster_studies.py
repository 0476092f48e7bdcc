"""The studies of section 6.2 of paper 002: candidates, cluster sizes, correlated attributes, weights.

All at the paper's epsilon of the choice, 0.2 (half for each stage where there are two), 10 runs, product's own path.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

from bench import cluster_figures as figures
from bench import report
from bench.cluster_baselines import EQUAL, TabEE, Weights, dp_tabee, naive
from bench.clusterings import METHODS, SURVEYS, Counts, Survey, k_means, labels_of
from bench.clusters import DP_TABEE, FORMS, NAIVE, NOISE, ONE, PAPER, RUNS, Selector

EPSILON, CLUSTERS = 0.2, 5
SIZES = (1, 2, 3, 4, 5)
RATES = tuple(float(r) for r in np.logspace(-3, 0, 7))
WEIGHTS: Mapping[str, Weights] = {
    "equal": EQUAL,
    "l_Int = 0": (0.0, 0.5, 0.5),
    "l_Suf = 0": (0.5, 0.0, 0.5),
    "l_Div = 0": (0.5, 0.5, 0.0),
}
CRAMERS_V = 0.85


def mean_quality(selector: Selector, counts: Counts, form: str, runs: int, **options: Any) -> float:
    """Of the product's choices at epsilon 0.2."""
    exact = TabEE.of(counts, selector.weights)
    return _short(np.mean([exact.of_choice(selector.choose(counts, form, EPSILON, **options)) for _ in range(runs)]))


def candidate_sizes(survey: Survey, methods: list[str], runs: int) -> dict[str, Any]:
    """Figure 7: two stages with 1 to 5 candidates for each cluster; one stage has no such number."""
    found = {}
    selector = Selector(survey, CLUSTERS)
    for method in methods:
        counts = survey.counts(labels_of(survey, method, CLUSTERS), CLUSTERS)
        by_size = [mean_quality(selector, counts, PAPER, runs, candidates=k) for k in SIZES]
        exact = TabEE.of(counts)
        found[method] = {
            PAPER: by_size,
            ONE: mean_quality(selector, counts, ONE, runs),
            "TabEE": _short(exact.of_choice(exact.best)),
        }
    return {"candidates": SIZES, "clusters": CLUSTERS, "quality": found}


def cluster_sizes(survey: Survey, runs: int) -> dict[str, Any]:
    """Figure 8b: a share of the rows of each k-means cluster; quality is that of the sample."""
    labels = labels_of(survey, "k-means", CLUSTERS)
    selector, random = Selector(survey, CLUSTERS), np.random.default_rng(0)
    quality: dict[str, list[float]] = {form: [] for form in (*FORMS, NAIVE, DP_TABEE, "TabEE")}
    sizes = []
    for rate in RATES:
        lines: dict[str, list[float]] = {form: [] for form in quality}
        for _ in range(runs):
            some = np.concatenate([_share_of(np.flatnonzero(labels == c), rate, random) for c in range(CLUSTERS)])
            counts = survey.counts(labels, CLUSTERS, some)
            exact = TabEE.of(counts)
            chosen = {form: selector.choose(counts, form, EPSILON) for form in FORMS}
            chosen[NAIVE] = naive(exact, counts, EPSILON, random)
            chosen[DP_TABEE] = dp_tabee(exact, EPSILON, random)
            chosen["TabEE"] = exact.best
            for form, choice in chosen.items():
                lines[form].append(exact.of_choice(choice))
        sizes.append(len(some) // CLUSTERS)
        for form, values in lines.items():
            quality[form].append(_short(np.mean(values)))
    return {"rate": [float(f"{r:.3g}") for r in RATES], "mean cluster size": sizes, "quality": quality}


def _share_of(rows: np.ndarray, rate: float, random: np.random.Generator) -> np.ndarray:
    return random.choice(rows, max(1, round(rate * len(rows))), replace=False)


def correlated(survey: Survey, runs: int) -> dict[str, Any]:
    """Every attribute gets a copy with Cramer's V 0.85; clusters are those of the doubled table.

    A copy whose values are dealt anew, among themselves, in a share p of the rows has V = 1 - p.
    """
    random = np.random.default_rng(0)
    copies = survey.codes.copy()
    for column in copies.T:
        moved = np.flatnonzero(random.random(survey.rows) < 1 - CRAMERS_V)
        column[moved] = random.permutation(column[moved])
    doubled = Survey(
        survey.name,
        (*survey.columns, *(f"{name}, copy" for name in survey.columns)),
        (*survey.values, *survey.values),
        np.concatenate([survey.codes, copies], axis=1),
    )
    labels = k_means(doubled, CLUSTERS)
    found: dict[str, Any] = {"Cramer's V": _short(np.median([cramers_v(*pair) for pair in _pairs(survey, copies)]))}
    for name, table in (("original attributes", survey), ("with copies", doubled)):
        counts, selector = table.counts(labels, CLUSTERS), Selector(table, CLUSTERS)
        exact, plain = TabEE.of(counts), TabEE.of(counts, WEIGHTS["l_Div = 0"])
        lines = {}
        for form in (ONE, PAPER):
            choices = [selector.choose(counts, form, EPSILON) for _ in range(runs)]
            lines[form] = {
                "quality": _short(np.mean([exact.of_choice(choice) for choice in choices])),
                "interestingness and sufficiency": _short(np.mean([plain.of_choice(choice) for choice in choices])),
            }
        found[name] = {**lines, "TabEE": {"quality": _short(exact.of_choice(exact.best))}}
    for form in (ONE, PAPER):
        before, after = found["original attributes"][form], found["with copies"][form]
        found[f"{form}, relative change"] = {key: _short(after[key] / before[key] - 1) for key in before}
    return found


def _pairs(survey: Survey, copies: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    varied = [a for a in range(len(survey.columns)) if len(np.unique(survey.codes[:, a])) > 1]
    return [(survey.codes[:, a], copies[:, a]) for a in varied]


def cramers_v(x: np.ndarray, y: np.ndarray) -> float:
    """Of two columns with the same values."""
    size = int(max(x.max(), y.max())) + 1
    table = np.bincount(x.astype(np.int64) * size + y, minlength=size * size).reshape(size, size)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / len(x)
    chi2 = ((table - expected) ** 2 / expected).sum()
    return float(np.sqrt(chi2 / len(x) / (min(table.shape) - 1)))


def weights(survey: Survey, methods: list[str], numbers: tuple[int, ...], runs: int) -> list[dict[str, Any]]:
    """Table 1: quality with one weight at zero."""
    lines = []
    for clusters in numbers:
        for method in track(methods, description=f"{survey.name}, weights, {clusters} clusters"):
            counts = survey.counts(labels_of(survey, method, clusters), clusters)
            line: dict[str, Any] = {"table": survey.name, "clusters": clusters, "clustering": method}
            for name, given in WEIGHTS.items():
                exact, selector = TabEE.of(counts, given), Selector(survey, clusters, given)
                line[name] = {
                    "TabEE": _short(exact.of_choice(exact.best)),
                    **{form: mean_quality(selector, counts, form, runs) for form in (ONE, PAPER)},
                }
            lines.append(line)
    return lines


def _weights_summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """How far the mean quality is below TabEE's."""
    found: dict[str, Any] = {}
    for table in dict.fromkeys(line["table"] for line in lines):
        for clusters in dict.fromkeys(line["clusters"] for line in lines):
            mine = [one for one in lines if (one["table"], one["clusters"]) == (table, clusters)]
            found[f"{table}, {clusters} clusters"] = {
                form: {
                    name: _short(np.mean([1 - line[name][form] / line[name]["TabEE"] for line in mine]))
                    for name in WEIGHTS
                }
                for form in (ONE, PAPER)
            }
    return found


def _short(value: Any) -> float:
    return round(float(value), 5)


def run(options: Namespace) -> None:
    quick = options.quick
    runs, methods = (2, ["k-means"]) if quick else (RUNS, list(METHODS))
    surveys = {name: load(options.data) for name, load in SURVEYS.items() if not quick or name == "Diabetes"}
    two = {name: survey for name, survey in surveys.items() if name != "Stack Overflow"}
    candidates = {name: candidate_sizes(one, methods, runs) for name, one in two.items()}
    sizes = {name: cluster_sizes(one, runs) for name, one in two.items()}
    copies = {
        name: correlated(survey, runs) for name, survey in track(surveys.items(), description="correlated attributes")
    }
    lines = [
        line
        for one in two.values()
        for line in weights(one, methods, (3,) if quick else (3, 5, 7), runs)
    ]  # fmt: skip
    content = {
        "summary": {
            "correlated attributes, relative change of quality": {
                name: {form: found[f"{form}, relative change"] for form in (ONE, PAPER)}
                for name, found in copies.items()
            },
            "Table 1, mean share below TabEE": _weights_summary(lines),
        },
        "noise": NOISE,
        "epsilon of the choice": EPSILON,
        "runs": runs,
        "candidate-set size (Figure 7)": candidates,
        "cluster size (Figure 8b)": sizes,
        "correlated attributes": copies,
        "weights (Table 1)": lines,
    }
    report.write("clusters-studies", options, content, None if quick else _figure(candidates, sizes))


def _figure(candidates: Mapping[str, Any], sizes: Mapping[str, Any]) -> Figure:
    """Figures 7 and 8b of the paper: candidates above, cluster sizes below, a column for each table."""
    figure = Figure(figsize=(11, 8.6), layout="constrained")
    halves: Any = figure.subfigures(2, 1)
    above, below = halves
    panels = above.subplots(1, len(candidates), squeeze=False)[0]
    for ax, (table, found) in zip(panels, candidates.items(), strict=True):
        for i, (method, lines) in enumerate(found["quality"].items()):
            ax.plot(SIZES, lines[PAPER], marker=figures.MARKS[method], color=f"C{i}", label=method, linewidth=1.4)
            ax.plot([5.35], [lines[ONE]], marker=figures.MARKS[method], color=f"C{i}", markerfacecolor="white")
        ax.axvline(5.15, color="0.8", linewidth=0.8)
        ax.set(title=f"{table}: candidates for each cluster", xlabel="candidates (two stages, paper)", ylabel="quality")
        ax.set_xticks([*SIZES, 5.35], [*map(str, SIZES), "one\nstage"])
        ax.grid(alpha=0.25)
    figures.legend_below(above, panels[0])
    panels = below.subplots(1, len(sizes), squeeze=False)[0]
    for ax, (table, found) in zip(panels, sizes.items(), strict=True):
        for form, (colour, mark, dash) in figures.STYLES.items():
            y = found["quality"][form]
            ax.plot(found["mean cluster size"], y, dash, marker=mark, color=colour, label=form, markersize=5)
        ax.plot(found["mean cluster size"], found["quality"]["TabEE"], ":", color="#333333", label="TabEE")
        ax.set(title=f"{table}: sampled k-means clusters", xscale="log", xlabel="mean rows of a cluster")
        ax.set_ylabel("quality")
        ax.grid(alpha=0.25)
    figures.legend_below(below, panels[0])
    above.suptitle(f"Epsilon of the choice {EPSILON}, {CLUSTERS} clusters, mean of {RUNS} runs")
    return figure
