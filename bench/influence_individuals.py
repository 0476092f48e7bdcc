"""Individual influences of many persons for one price: released marginals against noise of 1/n for each value.

Paper 003 adds Laplace noise of sensitivity 1/n to each influence of each person (2/n by its Theorem 12 where a row is
replaced; 1/n here, which favours it), so the price is divided by persons and inputs. Ours pays for the histograms of
all inputs once, and every person after that is free. Adult, random forest, the class as outcome, each input by itself,
pure account, replace-one. Exact: the values of all rows. The error is the mean absolute one over persons and inputs.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
from rich.progress import track

import dpexplain as dpx
from bench.influence_models import RICH, Classifier, People

EPSILONS, PERSONS, REPETITIONS = (0.01, 0.1, 1.0), (1, 10, 100), 2


def study(options: Namespace, people: People, forest: Classifier) -> dict[str, Any]:
    """The error of both, by price and by how many persons are explained for it."""
    some = 6 if options.quick else 10  # persons whose errors are measured
    times = 1 if options.quick else REPETITIONS
    chosen = people.frame.sample(some, random_state=0)
    exact = np.array([individual(people, forest, chosen.iloc[[i]]) for i in track(range(some), description="exact")])
    model = dpx.Model(forest, output=(0.0, 1.0), label=RICH, features=people.columns, name="forest", version="bench")
    draw, found = np.random.default_rng(0), dict[str, Any]()
    for epsilon in EPSILONS:
        table, errors = people.table(), []
        for _ in track(range(times), description=f"epsilon {epsilon:g}"):
            marginals = dpx.marginals(table, people.columns, epsilon=epsilon)
            for row, truth in zip(chosen.to_dict("records"), exact, strict=True):
                mine = dpx.influence(table, model, "individual", row=row, features=people.columns, marginals=marginals)
                errors.append(np.abs(mine.values - truth).mean())
        line: dict[str, Any] = {"ours, any number of persons": _told(errors)}
        for persons in PERSONS:
            scale = persons * len(people.columns) / (people.size * epsilon)
            line[f"1/n noise, {persons} persons"] = _told(np.abs(draw.laplace(0, scale, 10_000)))
        table.ledger.close()
        found[f"epsilon {epsilon:g}"] = line
    return {
        "rows": people.size,
        "inputs": len(people.columns),
        "mean absolute influence": float(f"{np.abs(exact).mean():.3g}"),
        "mean absolute error and its standard error": found,
    }


def individual(people: People, forest: Classifier, person: Any) -> np.ndarray:
    """The exact influence of each input by itself: the outcome less its mean over the values of all rows."""
    own = float(forest.score(forest.encode(person))[0] >= 0.5)
    found = []
    for name in people.columns:
        values, counts = np.unique(people.frame[name], return_counts=True)
        rows = person.loc[person.index.repeat(len(values))].assign(**{name: values})
        decided = forest.score(forest.encode(rows)) >= 0.5
        found.append(own - float(counts @ decided / counts.sum()))
    return np.array(found)


def _told(errors: Any) -> list[float]:
    return [float(f"{np.mean(errors):.3g}"), float(f"{np.std(errors) / np.sqrt(len(errors)):.2g}")]
