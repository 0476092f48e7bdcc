"""Local explanations at equal (epsilon, delta): Algorithm 1 of paper 001, our moments, and our sketch.

Measured is the paper's approximation loss E(phi) = L(phi) - min L, with the paper's loss (`anchor="middle"`) and stable
weight, against an exact solution that is computed here on its own. Moments and sketch take the whole path of the
product (request, spec, statistic, sensitivity, door, noise, solve); only the exact sums of a record are computed once
and used for every repetition. Algorithm 1 runs here in numpy for all repetitions at once, with the update rule of the
product's `method="gradient"`, which runs beside it on some records.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

import dpexplain as dpx
from bench import report, scenes
from bench.cached import BenchAccount
from bench.scenes import Problem, Scene
from dpexplain.core.budget import Cost
from dpexplain.core.release import Door
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.maths.surrogate import StepWeight
from dpexplain.methods.local_explanation import release as local_explanation
from dpexplain.methods.local_explanation.request import LocalExplanation
from dpexplain.methods.local_sketch import release as local_sketch
from dpexplain.methods.local_sketch.request import LocalSketchRequest

DELTA = 1e-6
ENDLESS = dpx.Budget(10**6, DELTA)
EPSILONS = (0.01, 0.1, 1.0, 10.0)
STEPS = (20, 200)
RELATIONS = ("add-remove", "replace-one")


def cost_of(epsilon: float) -> Cost:
    """The zCDP that is (epsilon, DELTA)-DP."""
    return dpx.Budget(epsilon, DELTA).total


class Product:
    """The product on one scene; exact sums are remembered while the statistic stays the same."""

    def __init__(self, scene: Scene, relation: str) -> None:
        self.scene, self.table = scene, scene.table(relation, ENDLESS)
        self.table.door = Door(BenchAccount(ENDLESS, Neighbours(Relation(relation))))
        self._sums, self._known = self.table.sum_rows, None
        self._key: Any = None
        self.table.sum_rows = self._remember  # type: ignore[method-assign]

    def _remember(self, gate: Any, kernel: Any, columns: Any, *, size: int, **options: Any) -> Any:
        if self._known is None or len(self._known) != size:
            self._known = self._sums(gate, kernel, columns, size=size, **options)
        return self._known

    def explanations(self, z: np.ndarray, epsilons: Sequence[float], repetitions: int, **options: Any) -> np.ndarray:
        """phi for each epsilon and repetition."""
        self._known = None
        record = dict(zip(self.scene.columns, map(float, z), strict=True))
        request = LocalExplanation(record=record, features=self.scene.columns, anchor="middle", **options)
        return np.array(
            [
                [
                    local_explanation.explain(self.table, self.scene.model, request, cost=cost_of(e)).fit.coefficients
                    for _ in range(repetitions)
                ]
                for e in epsilons
            ]
        )

    def sketch(self, epsilon: float, **options: Any) -> Any:
        self._known = None
        request = LocalSketchRequest(method="moments", features=self.scene.columns, **options)
        return local_sketch.explain(self.table, self.scene.model, request, cost=cost_of(epsilon))


def paper_sigma(rows: int, steps: int, epsilon: float, delta: float = DELTA) -> float:
    """Algorithm 1, line 1."""
    e, d = epsilon, delta
    return float(np.sqrt(16 * steps * np.log(np.e + np.sqrt(steps) * e / d) * np.log(steps / d)) / (rows * e))


def zcdp_sigma(scene: Scene, relation: str, steps: int, epsilon: float) -> float:
    """The same algorithm with zCDP accounting and the bound for this relation."""
    bound = StepWeight.of("stable", np.sqrt(len(scene.columns))).gradient_bound(Relation(relation))
    return float(bound / scene.rows * np.sqrt(steps / (2 * float(cost_of(epsilon).amount))))


def algorithm_1(
    problem: Problem, sigma: float, steps: int, repetitions: int, random: np.random.Generator
) -> np.ndarray:
    """Projected noisy gradient descent, all repetitions at once."""
    n = len(problem.b)
    phi = np.zeros((repetitions, n))
    largest = np.sqrt(1 + n * sigma**2)
    for t in range(1, steps):
        gradient = 2 * (phi @ problem.A - problem.b) + random.normal(0, sigma, phi.shape)
        phi = phi - gradient / (largest * np.sqrt(t))
        phi /= np.maximum(np.linalg.norm(phi, axis=1, keepdims=True), 1)
    return phi


def single(
    scene: Scene, relation: str, points: np.ndarray, repetitions: int, epsilons: Sequence[float]
) -> dict[str, Any]:
    """One query at a time, each with its own epsilon: mean loss of every method."""
    random, product = np.random.default_rng(0), Product(scene, relation)
    losses: dict[str, dict[float, list[np.ndarray]]] = {}
    overlap: dict[str, dict[float, list[float]]] = {}
    zero = []

    def add(name: str, epsilon: float, problem: Problem, phi: np.ndarray) -> None:
        losses.setdefault(name, {}).setdefault(epsilon, []).append(problem.excess(phi))
        overlap.setdefault(name, {}).setdefault(epsilon, []).append(top_overlap(phi, problem.best))

    for i in track(points, description=f"{scene.name}, {relation}"):
        z = scene.X[i]
        problem = scene.problem(z)
        zero.append(problem.excess(np.zeros(len(z))))
        found = product.explanations(z, epsilons, repetitions, method="moments")
        for epsilon, phi in zip(epsilons, found, strict=True):
            add("moments", epsilon, problem, phi)
            for steps in STEPS:
                for name, sigma in (
                    (f"Algorithm 1, paper sigma, T={steps}", paper_sigma(scene.rows, steps, epsilon)),
                    (f"Algorithm 1, zCDP, T={steps}", zcdp_sigma(scene, relation, steps, epsilon)),
                ):
                    add(name, epsilon, problem, algorithm_1(problem, sigma, steps, repetitions, random))
    return {
        "relation": relation,
        "points": len(points),
        "repetitions": repetitions,
        "loss of phi = 0": float(np.mean(zero)),
        "mean loss": {name: {f"{e:g}": float(np.mean(v)) for e, v in by.items()} for name, by in losses.items()},
        "top 10 overlap": {name: {f"{e:g}": float(np.mean(v)) for e, v in by.items()} for name, by in overlap.items()},
    }


def top_overlap(phi: np.ndarray, best: np.ndarray, k: int = 10) -> float:
    """How many of the k largest coefficients are those of the optimum, on average over lines."""
    k = min(k, len(best))
    wanted = set(np.argsort(-abs(best))[:k])
    return float(np.mean([len(wanted & set(np.argsort(-abs(line))[:k])) for line in np.atleast_2d(phi)]))


def sketched(
    scene: Scene, relation: str, points: np.ndarray, repetitions: int, epsilons: Sequence[float], **options: Any
) -> dict[str, Any]:
    """Unlimited queries from one payment: the loss over many points, for several sketches."""
    product = Product(scene, relation)
    problems = [scene.problem(scene.X[i]) for i in track(points, description=f"{scene.name}: exact answers")]
    found: dict[str, Any] = {}
    for epsilon in epsilons:
        losses, words, cells = [], [], []
        for repetition in range(repetitions):
            sketch = product.sketch(epsilon, seed=repetition, **options)
            cells.append(len(sketch.to_frame()))
            records = [dict(zip(scene.columns, map(float, scene.X[i]), strict=True)) for i in points]
            phis = [sketch.explain(record, anchor="middle").fit.coefficients for record in records]
            losses.append(np.mean([p.excess(phi) for p, phi in zip(problems, phis, strict=True)]))
            words.append(np.mean([top_overlap(phi, p.best) for p, phi in zip(problems, phis, strict=True)]))
        found[f"{epsilon:g}"] = {
            "mean loss": float(np.mean(losses)),
            "of each sketch": [float(v) for v in losses],
            "top 10 overlap": float(np.mean(words)),
            "cells": cells,
        }
    return {"relation": relation, "queries": len(points), "sketches": repetitions, "total epsilon": found}


def checked_against_the_product(scene: Scene, points: np.ndarray, repetitions: int) -> dict[str, Any]:
    """The product's own Algorithm 1 beside the numpy one, at epsilon 1."""
    product, random = Product(scene, "add-remove"), np.random.default_rng(1)
    ours, theirs = [], []
    for i in track(points, description="method=gradient beside numpy"):
        problem = scene.problem(scene.X[i])
        phi = product.explanations(scene.X[i], [1.0], repetitions, method="gradient", iterations=20)[0]
        ours.append(problem.excess(phi).mean())
        sigma = zcdp_sigma(scene, "add-remove", 20, 1.0)
        theirs.append(problem.excess(algorithm_1(problem, sigma, 20, repetitions, random)).mean())
    return {"product": float(np.mean(ours)), "numpy": float(np.mean(theirs)), "points": len(points), "steps": 20}


def ratios(single: dict[str, Any], sketch: dict[str, Any] | None) -> dict[str, Any]:
    """The headline: the best Algorithm 1 with the paper's sigma against ours, as a ratio."""
    losses = single["mean loss"]
    lines = {}
    for e, ours in losses["moments"].items():
        paper = min(losses[f"Algorithm 1, paper sigma, T={steps}"][e] for steps in STEPS)
        zcdp = min(losses[f"Algorithm 1, zCDP, T={steps}"][e] for steps in STEPS)
        line = {"paper / moments": round(paper / ours, 1), "zCDP gradient / moments": round(zcdp / ours, 1)}
        if sketch is not None and e in sketch["total epsilon"]:
            line["one paper query / whole sketch"] = round(paper / sketch["total epsilon"][e]["mean loss"], 1)
        lines[f"epsilon {e}"] = line
    return lines


def run(options: Namespace) -> None:
    quick = options.quick
    adult = scenes.adult(options.data)
    points = adult.sample(10 if quick else 200)
    repetitions = 3 if quick else 10
    content: dict[str, Any] = {}
    for relation in RELATIONS:
        content[f"Adult, {relation}"] = single(adult, relation, points, repetitions, EPSILONS)
    queries = adult.sample(50 if quick else 4500, seed=1)
    content["Adult, sketch"] = sketched(adult, "add-remove", queries, repetitions, (0.1, 1.0, 10.0))
    content["Adult, the product's own gradient descent"] = checked_against_the_product(adult, points[:5], repetitions)
    if not quick:
        imdb = scenes.imdb(options.data)
        some = imdb.sample(20)
        content["IMDB, add-remove"] = single(imdb, "add-remove", some, 5, (1.0, 10.0))
        content["IMDB, sketch"] = sketched(imdb, "add-remove", some, 5, (1.0, 10.0))
    content["speed"] = {
        "explaining": speed(adult, 100 if quick else 2000),
        "building": building(20_000 if quick else 1_000_000),
        "noise": noise_for(500),
    }
    summary = {
        "Adult, add-remove": ratios(content["Adult, add-remove"], content["Adult, sketch"]),
        "Adult, replace-one": ratios(content["Adult, replace-one"], None),
        **{key: content[key]["top 10 overlap"] for key in content if key == "IMDB, add-remove"},
        "speed": content["speed"],
    }
    report.write("local", options, {"summary": summary, **content}, None if quick else _figure(content))


def speed(scene: Scene, queries: int) -> dict[str, Any]:
    """Explanations a second from a sketch, one by one, against LIME at its defaults on the same model and rows."""
    from lime.lime_tabular import LimeTabularExplainer

    sketch = Product(scene, "add-remove").sketch(1.0, cells=16)
    points = scene.sample(queries, seed=2)
    records = [dict(zip(scene.columns, map(float, scene.X[i]), strict=True)) for i in points]
    ours = _seconds_each(lambda: [sketch.explain(record).values for record in records]) / queries
    few = points[: max(5, queries // 100)]
    explainer = LimeTabularExplainer(scene.X, feature_names=scene.columns, random_state=0)
    theirs = _seconds_each(lambda: [explainer.explain_instance(scene.X[i], scene.forest.predict_proba) for i in few])
    return {
        "sketch, explanations a second": round(1 / ours),
        "lime, explanations a second": round(len(few) / theirs, 2),
        "lime / sketch, seconds": round(theirs / len(few) / ours, 1),
        "cells": 16,
        "columns": len(scene.columns),
    }


def building(rows: int, columns: int = 20) -> dict[str, Any]:
    """The time to build a sketch against the bare predictions and one bare pass over the same Parquet file."""
    import tempfile
    from pathlib import Path

    import pandas as pd
    from sklearn.ensemble import HistGradientBoostingClassifier

    random = np.random.default_rng(0)
    names = [f"x{i}" for i in range(columns)]
    X = random.random((rows, columns))
    target = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * random.normal(size=rows) > 0.8).astype(int)
    estimator = HistGradientBoostingClassifier(max_iter=100, random_state=0).fit(X[:50_000], target[:50_000])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pd.DataFrame(X, columns=names).to_parquet(path)
        model = dpx.Model(estimator, output=(0, 1), label=1, name="boosting", version="1")
        domain = dpx.Domain({name: dpx.Numeric(0, 1) for name in names})

        def build() -> None:
            table = dpx.PrivateTable(
                path, domain=domain, budget=dpx.Budget(10, DELTA), relation="replace-one",
                ledger="sqlite:///:memory:", name="speed",
            )  # fmt: skip
            dpx.local_sketch(table, model, epsilon=1.0, method="moments")

        read = _seconds_each(lambda: pd.read_parquet(path))
        predict = _seconds_each(lambda: estimator.predict_proba(X))
        built = _seconds_each(build)
    return {
        "rows": rows,
        "columns": columns,
        "seconds": {"bare predictions": predict, "one pass over the file": read, "sketch": built},
        "sketch / (predictions + pass)": round(built / (predict + read), 2),
    }


def noise_for(columns: int = 500) -> dict[str, Any]:
    """Exact discrete Gaussian noise for the moments of 500 columns."""
    from fractions import Fraction

    from dpexplain.core.budget import zcdp
    from dpexplain.core.noise import Law, Noise
    from dpexplain.core.samplers import ExactSampler
    from dpexplain.core.sensitivity import Sensitivity

    size = columns * (columns + 1) // 2 + columns
    bound = Sensitivity.of_distance(Neighbours(Relation.ADD_REMOVE), size, 2**31)
    noise = Noise(Law.GAUSSIAN, size, Fraction(2**32))
    seconds = _seconds_each(lambda: ExactSampler().perturb([0] * size, noise, bound, zcdp(1)))
    return {"values": size, "seconds": round(seconds, 2)}


def _seconds_each(work: Callable[[], Any], times: int = 3) -> float:
    """The best of some runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def _figure(content: dict[str, Any]) -> Figure:
    """Loss against epsilon for each method; one panel for each table."""
    panels = [key for key in content if key in ("Adult, add-remove", "Adult, replace-one", "IMDB, add-remove")]
    figure = Figure(figsize=(4.6 * len(panels), 4.2), layout="constrained")
    colours = {"moments": "C0", "sketch": "C2", "T=20": "#c98b4a", "T=200": "#8a4b12"}
    for axes, key in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for name, by in content[key]["mean loss"].items():
            colour = next(c for end, c in colours.items() if name.endswith(end))
            dashed = "--" if "zCDP" in name else "-"
            axes.plot([float(e) for e in by], list(by.values()), dashed, marker="o", color=colour, label=name)
        sketch = content.get(key.replace("add-remove", "sketch"))
        if sketch is not None and "replace-one" not in key:
            by = {float(e): line["mean loss"] for e, line in sketch["total epsilon"].items()}
            label = f"sketch: {sketch['queries']:,} queries in all"
            axes.plot(list(by), list(by.values()), marker="s", color=colours["sketch"], label=label)
        axes.axhline(content[key]["loss of phi = 0"], color="0.6", linewidth=0.8, linestyle=":")
        axes.set(xscale="log", yscale="log", title=key, xlabel="epsilon of one query (sketch: of all)")
    figure.axes[0].set_ylabel("mean approximation loss E(phi)")
    figure.axes[0].legend(fontsize=7)
    return figure
