"""The error of private average influences against the paper's mechanism, at the same price and with as many draws.

Adult, random forest, 13 features each by itself, pure account. Ours pays for its marginals, and is released under both
relations; the paper's mechanism (Laplace noise of the sensitivity 2/n of Table I, the price split over the features)
is our `method="paper"`, under replace-one. Draws are as many as ours takes by itself. Three readings of the mean
absolute error over features:

    noise   against the same statistic of the same rows, draws and released marginals, without its noise
    drawn   against its expectation over draws: values from the released marginals for ours, other rows for the paper
    total   against the exact influences: all rows, each with the values of all rows

The last one has the product's values, which are never negative; also for the paper's mechanism, whose are not. Beside
them stands `method="paper", mechanism="cube"`: values from other rows, no marginals, but our noise.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.progress import track

import dpexplain as dpx
from bench.influence_memory import Memory, numbered
from dpexplain.core.release import Door
from dpexplain.core.samplers import ExactSampler
from dpexplain.maths.reference import WHOLE, Reference
from dpexplain.methods.influence.result import TableInfluence

EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
AIM, REPETITIONS, MORE = 0.1, 40, 400  # the epsilon of the targets has more repetitions
TARGETS = {"replace-one": 0.35, "add-remove": 0.25}
READINGS = ("noise", "drawn", "total")
OURS, PAPER, PAIRS = "ours", "paper", "pairs with cube noise"


class Watching(ExactSampler):
    """The exact sampler; it remembers the exact values that noise was added to last."""

    exact = np.empty(0)

    def perturb(self, values: Any, noise: Any, sensitivity: Any, cost: Any) -> list[int]:
        self.exact = np.array(values, dtype=np.float64)
        return super().perturb(values, noise, sensitivity, cost)


class Releases:
    """Private average influences of one table under one relation, and their errors."""

    def __init__(self, memory: Memory, relation: str) -> None:
        self.memory, self.features = memory, memory.people.columns
        self.table, self.sampler = numbered(memory.people, relation), Watching()
        self.table.door = Door(self.table.door.account, sampler=self.sampler)
        self.model, self.truth = memory.model(), memory.average()
        self._changes: dict[Any, np.ndarray] = {}

    def errors(self, epsilon: float, **options: Any) -> tuple[dict[str, float], TableInfluence]:
        """The three readings for one release."""
        found = dpx.influence(self.table, self.model, features=self.features, epsilon=epsilon, **options)
        assert isinstance(found, TableInfluence)
        K, M = found.output.levels, len(self.features)
        lift = 0.5 if found.spec.centred else 0.0
        exact = self.sampler.exact[:M] / (K * self.memory.people.size) + lift
        plain = found._middle  # not cut off at zero
        readings = {
            "noise": np.abs(plain - exact).mean(),
            "drawn": np.abs(plain - self._expected(found)).mean(),
            "total": np.abs(found.values - self.truth).mean(),
            "marginals": np.abs(self._expected(found) - self.truth).mean(),
        }
        return {name: float(error) for name, error in readings.items()}, found

    def _expected(self, found: TableInfluence) -> np.ndarray:
        """The mean over draws: by the released marginals, or for the paper's mechanism the exact influences."""
        marginals = found.marginals
        if marginals is None:
            return self.truth
        given = [marginals.reference(name, self.memory.people.domain) for name in self.features]
        return (
            np.array([r.weights @ self._at_points(name, r) for name, r in zip(self.features, given, strict=True)])
            / WHOLE
        )

    def _at_points(self, name: str, reference: Reference) -> np.ndarray:
        """The share of rows that change, for each point of a distribution."""
        key = (name, reference.partition.edges)
        if key not in self._changes:
            self._changes[key] = self.memory.changes(name, reference.points)
        return self._changes[key]


def study(options: Namespace, memory: Memory) -> list[dict[str, Any]]:
    """One cell for each relation and epsilon."""
    cells = []
    paper = Releases(memory, "replace-one")
    for relation in TARGETS:
        ours = Releases(memory, relation)
        for epsilon in (0.1, 1.0) if options.quick else EPSILONS:
            times = 3 if options.quick else MORE if epsilon == AIM else REPETITIONS
            cell: dict[str, Any] = {"relation": relation, "epsilon": epsilon, "repetitions": times}
            lines = []
            for _ in track(range(times), description=f"{relation}, epsilon {epsilon:g}"):
                line, found = ours.errors(epsilon)
                lines.append(line)
            draws = int(found.spec.draws)
            cell |= {"draws": draws, "law": found.part("influences")[1].law.value, OURS: _by_reading(lines)}
            cell[PAPER] = _by_reading(
                [paper.errors(epsilon, method="paper", samples=draws, seed=seed)[0] for seed in range(times)]
            )
            if relation == "replace-one":
                settings = {"method": "paper", "mechanism": "cube", "samples": draws}
                cell[PAIRS] = _by_reading([paper.errors(epsilon, **settings, seed=seed)[0] for seed in range(times)])
            cell["ratio"] = {reading: ratio(cell, reading) for reading in READINGS}
            cells.append(cell)
    return cells


def compact(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For a file: of all repetitions their mean, its standard error, and the tenth and ninetieth percentile."""

    def told(values: Sequence[float]) -> list[float]:
        error = np.std(values) / np.sqrt(len(values))
        return [float(f"{v:.4g}") for v in (np.mean(values), error, *np.quantile(values, [0.1, 0.9]))]

    sides = (OURS, PAPER, PAIRS)
    return [
        {k: {reading: told(v) for reading, v in value.items()} if k in sides else value for k, value in cell.items()}
        for cell in cells
    ]


def _by_reading(lines: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    return {reading: [line[reading] for line in lines] for reading in lines[0]}


def ratio(cell: dict[str, Any], reading: str, side: str = OURS, draws: int = 20_000) -> list[float]:
    """Mean error of ours by that of the paper's mechanism, and its 95 % bootstrap interval."""
    generator = np.random.default_rng(0)
    ours, paper = (np.asarray(cell[key][reading]) for key in (side, PAPER))
    drawn = [v[generator.integers(len(v), size=(draws, len(v)))].mean(axis=1) for v in (ours, paper)]
    low, high = np.quantile(drawn[0] / drawn[1], [0.025, 0.975])
    return [round(float(r), 4) for r in (ours.mean() / paper.mean(), low, high)]


def summary(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One table: relation, epsilon, both errors and their ratio for the readings."""
    table = {
        f"{cell['relation']}, epsilon {cell['epsilon']:g}": {
            "draws": cell["draws"],
            **{
                reading: {
                    OURS: float(f"{np.mean(cell[OURS][reading]):.3g}"),
                    PAPER: float(f"{np.mean(cell[PAPER][reading]):.3g}"),
                    "ratio": cell["ratio"][reading],
                }
                for reading in READINGS
            },
            "of which released marginals": float(f"{np.mean(cell[OURS]['marginals']):.3g}"),
            **({f"{PAIRS}, total, ratio": ratio(cell, "total", PAIRS)} if PAIRS in cell else {}),
        }
        for cell in cells
    }
    aims = {
        f"{cell['relation']}, {reading}": {
            "ratio": cell["ratio"][reading],
            "target": TARGETS[cell["relation"]],
            "reached": cell["ratio"][reading][0] <= TARGETS[cell["relation"]],
        }
        for cell in cells
        if cell["epsilon"] == AIM
        for reading in READINGS
    }
    return {"mean absolute error over features": table, f"target at epsilon {AIM:g}": aims}
