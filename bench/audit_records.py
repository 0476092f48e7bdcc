"""Paper 004 again: from an explanation to the record that it explains. Adult here, IMDB in `audit_reviews`.

Explained are records by the exact minimiser, by DPGD-Explain (Algorithm 1 of paper 001, T = 200 and the paper's sigma),
by our moments and our sketch (add-remove, delta 1e-6), and by LIME. The utility loss is the mean squared distance to
the exact minimiser; the paper takes DPGD-Explain without noise instead, which is measured as well. Moments take the
short path of `private_models`, with seeded noise; the sketch is the product's own, one for all records.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track

import dpexplain as dpx
from bench import scenes
from bench.local import Product, algorithm_1, paper_sigma
from bench.private_models import Ours
from bench.scenes import Problem, Scene
from dpexplain.audit import Reconstruction, reconstruction

STEPS, DELTA = 200, 1e-6
EPSILONS = (0.01, 0.1, 1.0, 10.0)
EXACT, DPGD, MOMENTS, SKETCH, LIME = "exact", "DPGD-Explain", "ours: moments", "ours: sketch", "LIME"
Key = tuple[str, str]  # method and epsilon
Seen = Callable[[np.ndarray], np.ndarray]  # what an attacker makes of the explanations before they train a model


@dataclass
class Study:
    """Explained records of one table: for each method and epsilon one line of numbers for each record."""

    name: str
    rows: int
    records: pd.DataFrame
    domain: dpx.Domain
    auxiliary: Sequence[int]
    attacks: Mapping[str, Seen]  # each is named "what, model"
    phis: dict[Key, np.ndarray] = field(default_factory=dict)
    excess: dict[Key, float] = field(default_factory=dict)  # the mean approximation loss
    path: dict[str, list[float]] = field(default_factory=dict)  # loss by step, for one record

    def measured(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Losses and every attack on every method; and the curves: loss by step, ROC."""
        best, converged = self.phis[EXACT, "inf"], self.phis[DPGD, "inf"]
        lines, curves = [], {}
        for (method, epsilon), phi in track(self.phis.items(), description=f"{self.name}: attacks"):
            same = method != LIME  # LIME's numbers mean something else
            line: dict[str, Any] = {"method": method, "epsilon": epsilon}
            line["mse"] = float(((phi - best) ** 2).mean()) if same else None
            line["mse to DPGD-Explain without noise"] = float(((phi - converged) ** 2).mean()) if same else None
            line["approximation loss"] = self.excess.get((method, epsilon))
            line["attacks"] = {}
            for name in self.attacks:
                found = self._attack(name, phi)
                line["attacks"][name] = _attacked(found)
                if found.roc is not None:
                    curves[f"{method}, {epsilon}, {name}"] = _thinned(found.roc)
            lines.append(line)
        content = {"rows": self.rows, "records": len(self.records), "features": len(self.domain)}
        return content | {"explanations": lines}, {"loss by step": self.path, "roc": curves}

    def _attack(self, name: str, phi: np.ndarray) -> Reconstruction:
        model = name.split(", ")[1]
        sizes = self.auxiliary if model == "linear" else self.auxiliary[-1:]
        seen = self.attacks[name](phi)
        return reconstruction(seen, self.records, self.domain, auxiliary=list(sizes), attack=model)


def _attacked(found: Reconstruction) -> dict[str, Any]:
    best = sorted(found.features, key=lambda f: -f.gain.advantage)[:5]
    return {
        "success": found.success,
        "without the explanation": found.guess,
        "advantage": found.advantage,
        "interval": list(found.interval),
        "area": found.area,
        "mse of numbers": found.mse,
        "auxiliary": {g.auxiliary: [g.success, g.guess, g.low, g.high] for g in found.sizes},
        "most of all": {f.feature: round(f.gain.advantage, 4) for f in best},
        "tested": found.tested,
    }


def _thinned(roc: Sequence[tuple[float, float]], most: int = 60) -> dict[str, list[float]]:
    steps = np.unique(np.linspace(0, len(roc) - 1, most).astype(int))
    return {side: [round(roc[i][j], 4) for i in steps] for j, side in enumerate(("false positives", "true positives"))}


def explain(
    study: Study,
    scene: Scene,
    queries: np.ndarray,
    problem_at: Callable[[np.ndarray], Problem],
    *,
    ours: Sequence[float] = EPSILONS,
) -> None:
    """Everything but LIME, record by record. The table has the scene's rows, as often as its number of rows says."""
    random, moments = np.random.default_rng(0), Ours(len(scene.columns))
    sigmas = np.array([*(paper_sigma(study.rows, STEPS, e, DELTA) for e in EPSILONS), 0.0])[:, None]
    names = [*(f"{e:g}" for e in EPSILONS), "inf"]
    copies = study.rows // scene.rows
    table = Scene(scene.name, scene.columns, np.tile(scene.X, (copies, 1)), np.tile(scene.f, copies))
    sketches = {f"{e:g}": Product(table, "add-remove").sketch(e) for e in ours}
    lines: dict[Key, list[np.ndarray]] = {}
    losses: dict[Key, list[float]] = {}
    for z in track(queries, description=f"{study.name}: explanations"):
        problem = problem_at(z)
        found = {(EXACT, "inf"): problem.best}
        descended = algorithm_1(problem, sigmas, STEPS, len(sigmas), random)  # type: ignore[arg-type]  # a sigma each
        found |= {(DPGD, name): phi for name, phi in zip(names, descended, strict=True)}
        found |= {(MOMENTS, f"{e:g}"): moments.explain(problem, study.rows, e, DELTA, random) for e in ours}
        record = dict(zip(scene.columns, map(float, z), strict=True))
        found |= {(SKETCH, e): s.explain(record, anchor="middle").fit.coefficients for e, s in sketches.items()}
        for key, phi in found.items():
            lines.setdefault(key, []).append(phi)
            losses.setdefault(key, []).append(float(problem.excess(phi)))
    for key, values in lines.items():
        study.phis[key], study.excess[key] = np.array(values), float(np.mean(losses[key]))
    study.path = descent(problem_at(queries[0]), study.rows)


def descent(problem: Problem, rows: int) -> dict[str, list[float]]:
    """Figures 6 and 7: the approximation loss by step, with and without noise. Fewer steps draw the same noise."""
    found = {}
    for epsilon in (1.0, 10.0, np.inf):
        sigma = 0.0 if np.isinf(epsilon) else paper_sigma(rows, STEPS, epsilon, DELTA)
        steps = [algorithm_1(problem, sigma, t, 1, np.random.default_rng(1))[0] for t in range(1, STEPS + 1, 3)]
        found[f"{epsilon:g}"] = [float(problem.excess(phi)) for phi in steps]
    return found


def adult(options: Namespace) -> Study:
    """People of the table with their 13 features; a forest of 50 trees is explained."""
    frame = pd.read_parquet(options.data / "adult.parquet")
    frame = frame[frame["split"] == "train"].drop(columns=["split", "fnlwgt", "income"])
    scene = scenes.adult(options.data)
    points = scene.sample(120 if options.quick else 1000)
    domain = dpx.Domain({name: _column(frame[name]) for name in frame.columns})
    attacks = {"explanations, linear": np.asarray, "explanations, forest": np.asarray, "explanations, mlp": np.asarray}
    if options.quick:
        attacks.pop("explanations, forest")
    records = frame.iloc[points].astype(object).where(frame.iloc[points].notna(), "missing")
    auxiliary = (30, 60) if options.quick else (50, 100, 200, 500)
    study = Study("Adult", scene.rows, records, domain, auxiliary, attacks)
    explain(study, scene, scene.X[points], scene.problem)
    study.phis[LIME, "inf"] = _lime(scene, points, 500 if options.quick else 5000)
    return study


def _column(values: pd.Series) -> dpx.Numeric | dpx.Categorical:
    if pd.api.types.is_numeric_dtype(values):
        return dpx.Numeric(float(values.min()), float(values.max()), integer=True)
    return dpx.Categorical(sorted({*values.dropna().astype(str), *(["missing"] if values.isna().any() else [])}))


def _lime(scene: Scene, points: Sequence[int], samples: int) -> np.ndarray:
    """LIME at its defaults, but with all features named."""
    from lime.lime_tabular import LimeTabularExplainer  # pip install lime: for this benchmark only

    assert scene.forest is not None
    explainer = LimeTabularExplainer(scene.X, feature_names=scene.columns, random_state=0)
    lines = np.zeros((len(points), len(scene.columns)))
    for line, z in zip(lines, track(scene.X[points], description="LIME"), strict=True):
        found = explainer.explain_instance(
            z, scene.forest.predict_proba, num_features=len(scene.columns), num_samples=samples
        )
        for feature, weight in found.as_map()[1]:
            line[feature] = weight
    return lines


def summary(content: Mapping[str, Any]) -> dict[str, str]:
    """Each explanation: loss, and the advantage of every attack."""
    lines = {}
    for line in content["explanations"]:
        told = [
            f"{name} {a['advantage']:+.4f} ({a['interval'][0]:+.4f} to {a['interval'][1]:+.4f})"
            + ("" if a["area"] is None else f" area {a['area']:.3f}")
            for name, a in line["attacks"].items()
        ]
        loss = "" if line["mse"] is None else f"mse {line['mse']:.3g}; "
        lines[f"{line['method']}, epsilon {line['epsilon']}"] = loss + "; ".join(told)
    guess = next(iter(content["explanations"][0]["attacks"].values()))["without the explanation"]
    return {"guess without the explanation": f"{guess:.4f}", **lines}
