"""Rankings by importance, as `reference/README.md` in shared describes it: pure account, replace-one.

Permutation importance: our default, our faithful form (`method="paper"`) and the published figures side by side, over
three tables and seven epsilons. Measured is the concordance: the share of feature pairs that stand in the order of a
reference, which averages 100 permutations of every feature, without noise. The whole path of the product is used
(request, spec, groups, statistic, sensitivity, door, noise); only the exact integers of a seed are computed once and
used for every epsilon, and predictions are remembered (bench/cached.py). Each repetition has a seed of its own, so it
has other groups (or permutations) and other noise.

Values come from other rows of small groups; beside that, the same with a limit for narrow intervals and from marginals
that were released before, for epsilon 1 (the price in a cell is that of the importances). The width of an interval is
told for the median feature.
"""

from __future__ import annotations

import csv
import itertools
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

import dpexplain as dpx
from bench import report
from bench.cached import NEIGHBOURS, ROW, BenchAccount, CachedModel, numbered, numbers
from bench.tables import CASES, Case
from dpexplain.core.budget import Cost
from dpexplain.core.release import Door, Gate
from dpexplain.data.dealing import Dealt
from dpexplain.data.donors import by_group, by_permutation
from dpexplain.data.encode import encode
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.data.sources import open_source
from dpexplain.engines import summed
from dpexplain.maths.reference import Reference
from dpexplain.methods.permutation_importance import spec as pfi
from dpexplain.methods.permutation_importance.release import resolve, send_changes
from dpexplain.methods.permutation_importance.request import PermutationImportance
from dpexplain.methods.permutation_importance.result import Importance
from dpexplain.methods.permutation_importance.spec import Spec
from dpexplain.methods.setting import Setting
from dpexplain.receipts import receipt_for

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
REPETITIONS, PERMUTATIONS = 200, 100
FEWER = 50  # repetitions beside the default where no integers can be kept
TARGET = "target"
FORMS = ("paper", "groups", "interval", "before")
BEFORE = 1.0  # the price of marginals that were released before


class Exact:
    """One table in memory with its model, the exact integers of each seed, and the reference importances."""

    def __init__(self, case: Case, permutations: int) -> None:
        self.case, self.size, self.features = case, len(case.frame), list(case.domain)
        low, high = case.output
        outcome = dpx.Numeric(low, high) if case.label is None else dpx.Categorical([0, 1])
        self.domain = dpx.Domain({**case.domain, TARGET: outcome, ROW: numbers(case)})
        self.model = CachedModel(case)
        self.predictor = self.model.remembered
        self.frame = numbered(case.frame).assign(**{TARGET: case.target})
        ((size, raw),) = open_source(self.frame).batches(list(self.domain), self.size)
        columns = {name: encode(column, raw[name]) for name, column in self.domain.items()}
        self.rows = Rows(self.domain, columns, size)
        for feature in track(self.features, description=f"{case.name}: predictions"):
            self.predictor.announce(feature, np.unique(self.rows[feature]))
        self.door = Door(BenchAccount())
        self._found: dict[Any, np.ndarray] = {}
        self.reference = self._reference(permutations)

    def _reference(self, permutations: int) -> np.ndarray:
        """The mean squared error with each feature permuted, predictions not clipped; the base does not matter."""
        rows, outcome = self.rows, self.case.target
        inputs, draw = self.predictor.inputs(rows), np.random.default_rng(0)
        errors = np.array(
            [
                [
                    ((self.predictor.predict_at(inputs, {name: draw.permutation(rows[name])}) - outcome) ** 2).mean()
                    for name in self.features
                ]
                for _ in range(permutations)
            ]
        )
        self.between_permutations = float(np.mean([concordance(a, b) for a, b in itertools.pairwise(errors)]))
        return errors.mean(axis=0)

    def spec(self, form: str, seed: int, cost: Cost) -> Spec:
        limit = "interval" if form == "interval" else "order"
        method = "paper" if form == "paper" else "default"
        request = PermutationImportance(target=TARGET, method=method, limit=limit, seed=seed)
        about = {"label": self.model.label, "features": self.features}
        setting = Setting(self.domain, self.model.output, NEIGHBOURS, self.size, self.size, **about)
        return resolve(request, setting, cost)

    def found(self, spec: Spec) -> np.ndarray:
        """The exact integers of the statistic: the same for all prices."""
        key = (spec.method, spec.draws, spec.seed, spec.limits)
        if key not in self._found:
            if spec.paper:
                batches = by_permutation(self.rows, spec.features, spec.seed)
            else:
                parts = spec.groups(self.size)
                shuffled = PublicRandom(spec.seed).generator.permutation(self.size)
                numbers = PublicRandom(spec.seed).generator.random(self.size)
                dealt = Dealt.of(self.rows, shuffled, parts, numbers)
                batches = [by_group(dealt, spec.features, spec.draws, spec.most)]
            kernel = partial(pfi.paper_statistic if spec.paper else pfi.statistic, predictor=self.predictor, spec=spec)
            self._found[key] = summed(kernel, batches, size=spec.size, label=spec.method, total=None, parallel=False)
        return self._found[key]

    def release(self, form: str, seed: int, epsilon: float) -> Importance:
        """One private ranking through the door."""
        cost = dpx.Budget(100).cost(epsilon=epsilon)
        spec = self.spec(form, seed, cost)
        found, prices = self.found(spec), spec.shares(cost)

        def body(gate: Gate) -> None:
            if spec.paper:
                bound = pfi.paper_sensitivity(spec, NEIGHBOURS)
                gate.noisy_sum("errors", found, bound, prices["errors"], mechanism=spec.mechanism)
            else:
                gate.noisy_sum("base", [0], pfi.base_sensitivity(spec, NEIGHBOURS), prices["base"])
                send_changes(gate, spec, cost, found, spec.groups(self.size))

        identity = {"table": {"rows": self.size}, "spec": spec.to_json(), "public": []}
        released = self.door.release("importance", identity, cost, body)
        return Importance(receipt_for(dpx.Budget(100), NEIGHBOURS, released, None), released.payload)

    def ranked(self, form: str, seed: int, epsilon: float) -> tuple[float, float]:
        """The concordance of one private ranking, and the half-width of the median interval."""
        if form == "before":
            table = self._table()
            known = dpx.marginals(table, self.features, epsilon=BEFORE)
            self._announce(known)
            ranking = dpx.permutation_importance(table, self.model, TARGET, epsilon=epsilon, marginals=known)
            table.ledger.close()
        else:
            ranking = self.release(form, seed, epsilon)
        low, high = ranking.interval()
        return concordance(ranking.scores, self.reference), float(np.median(high - low)) / 2

    def _table(self) -> dpx.PrivateTable:
        return dpx.PrivateTable(
            self.frame, domain=self.domain, budget=dpx.Budget(100), relation="replace-one",
            ledger="sqlite:///:memory:", name="bench",
        )  # fmt: skip

    def _announce(self, known: dpx.results.Marginals) -> None:
        """What values will be drawn from which cells, so that their predictions are remembered."""
        for cell in known.partitions:
            even = np.full(cell.size, 1 / cell.size)
            self.predictor.announce(cell.feature, Reference(self.domain[cell.feature], cell, even).points)


def concordance(scores: np.ndarray, reference: np.ndarray) -> float:
    """The share of pairs that stand in the order of the reference."""
    i, j = np.triu_indices(len(reference), 1)
    return float(np.mean((scores[i] - scores[j]) * (reference[i] - reference[j]) > 0))


def published(data: Path) -> dict[tuple[str, float], tuple[float, float]]:
    with (data.parent / "reference" / "published_pfi_concordance.csv").open() as file:
        return {
            (line["dataset"], float(line["epsilon"])): (
                float(line["concordance_mean"]),
                float(line["concordance_std"]),
            )
            for line in csv.DictReader(file)
            if line["design"] == "specific"
        }


def permutation_importance(options: Namespace) -> list[dict[str, Any]]:
    """One cell for each table and epsilon: the concordances of all repetitions, and the published figures."""
    figures, cells = published(options.data), []
    for key in ["bike"] if options.quick else list(CASES):
        table = Exact(CASES[key](options.data), 10 if options.quick else PERMUTATIONS)
        times, fewer = (5, 5) if options.quick else (REPETITIONS, FEWER)
        for epsilon in EPSILONS:
            cell = {"dataset": table.case.name, "epsilon": epsilon, "published": figures[table.case.name, epsilon]}
            cell["two_exact_rankings"] = table.between_permutations
            for form, number in (dict.fromkeys(FORMS, times) | {"before": fewer}).items():
                seeds = track(range(number), description=f"{key} {epsilon:g} {form}")
                measured = [table.ranked(form, seed, epsilon) for seed in seeds]
                cell[form] = [order for order, _ in measured]
                cell[f"half-width, {form}"] = float(np.mean([half for _, half in measured]))
            cells.append(cell | {"ours": cell["groups"]})
    return cells


def summarize(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means side by side, and the cells in which ours is above or below the others beyond noise (99 %, one-sided
    bootstrap, Bonferroni over the cells).
    """
    tail = 0.01 / len(cells)
    lines = {
        f"{cell['dataset']}, epsilon {cell['epsilon']:g}": {
            "ours": round(float(np.mean(cell["ours"])), 4),
            "our paper form": round(float(np.mean(cell["paper"])), 4),
            "published": round(cell["published"][0], 4),
            "for intervals": round(float(np.mean(cell["interval"])), 4),
            "marginals released before": round(float(np.mean(cell["before"])), 4),
            "half-widths": {form: float(f"{cell[f'half-width, {form}']:.3g}") for form in FORMS},
        }
        for cell in cells
    }
    counts = {}
    for against in ("paper", "published", "interval", "before"):
        bounds = [difference_bounds(cell, against, tail) for cell in cells]
        counts[f"against {against}"] = {
            "above beyond noise": sum(low > 0 for low, _ in bounds),
            "below beyond noise": sum(high < 0 for _, high in bounds),
            "mean below": [
                f"{c['dataset']}, epsilon {c['epsilon']:g}" for c in cells if np.mean(c["ours"]) < _mean(c, against)
            ],
        }
    exact = {cell["dataset"]: round(cell["two_exact_rankings"], 3) for cell in cells}
    return {
        "cells": len(cells),
        "repetitions": {"ours, our paper form": len(cells[0]["ours"]), "others": len(cells[0]["before"])},
        "two_exact_rankings_with_different_permutations": exact,
        "concordance": lines,
        **counts,
    }


def _mean(cell: dict[str, Any], against: str) -> float:
    return float(cell["published"][0] if against == "published" else np.mean(cell[against]))


def difference_bounds(cell: dict[str, Any], against: str, tail: float, draws: int = 200_000) -> tuple[float, float]:
    """One-sided bootstrap bounds, lower and upper, of mean(ours) - mean(baseline).

    Of the published figures only mean and standard deviation over ten repetitions are known; their mean is drawn from
    a normal law.
    """
    generator = np.random.default_rng(0)

    def means(values: Sequence[float]) -> np.ndarray:
        found = np.asarray(values)
        return found[generator.integers(len(found), size=(draws, len(found)))].mean(axis=1)

    if against != "published":
        baseline = means(cell[against])
    else:
        mean, std = cell["published"]
        baseline = generator.normal(mean, std / np.sqrt(10), draws)
    differences = means(cell["ours"]) - baseline
    low, high = np.quantile(differences, [tail, 1 - tail])
    return float(low), float(high)


def run(options: Namespace) -> None:
    cells = permutation_importance(options)
    content = {"summary": {"permutation importance": summarize(cells)}, "permutation_importance": cells}
    report.write("importance", options, content, None if options.quick else _figure(cells))


def _figure(cells: Sequence[dict[str, Any]]) -> Figure:
    """Concordance by epsilon, one panel for each table."""
    names = list(dict.fromkeys(cell["dataset"] for cell in cells))
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    styles = {
        "ours": ("#1f4e79", "-o", "ours"),
        "paper": ("#c55a11", "--s", "our method='paper'"),
        "published": ("#7f7f7f", ":^", "published"),
        "interval": ("#b8860b", "-.x", "limit='interval'"),
        "before": ("#2f8f4e", "-.d", f"marginals released before, epsilon {BEFORE:g}"),
    }
    for ax, name in zip(figure.subplots(1, len(names), sharey=True), names, strict=True):
        mine = [cell for cell in cells if cell["dataset"] == name]
        for key, (colour, style, label) in styles.items():
            y = [_mean(cell, key) for cell in mine]
            spread = [cell["published"][1] if key == "published" else np.std(cell[key]) for cell in mine]
            ax.errorbar([c["epsilon"] for c in mine], y, spread, fmt=style, color=colour, label=label, capsize=2)
        ax.set_xscale("log")
        ax.set_ylim(0.45, 1.01)
        ax.set_title(name)
        ax.set_xlabel("epsilon")
        ax.grid(alpha=0.25)
    figure.axes[0].set_ylabel("concordance with the exact ranking")
    figure.axes[1].legend(fontsize=8)
    return figure
