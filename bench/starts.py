"""Where a path of `AdaptiveExplainer` begins: at the nearest explanation, the best of 32, the best of all, or at zero.

Adult as it is, one stream of queries, T = 300, add-remove, delta 1e-6, the loss and the weight of the paper (`adaptive`
has the rest). Noise is seeded normal noise rounded to whole numbers. Beside the mean loss of computed answers: that of
the start itself, and where as many and T exact steps lead from there and from zero.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np

from bench import report, scenes
from bench.adaptive import ADAPTIVE, UNNOISED, Bench, epsilon_of, random_parts
from dpexplain.maths.surrogate import descent as paths
from dpexplain.methods.adaptive.release import COMPUTED

STARTS = {"nearest": 1, "best of the 32 nearest": 32, "best of all (the paper)": None}
EPSILONS = (0.1, 1.0)
PAPER = {"zcdp": "zCDP", "paper": "the paper's sigma"}


def stream(bench: Bench, epsilon: float, candidates: int | None, accounting: str) -> dict[str, Any]:
    """One stream with these candidates and this noise."""
    explainer = bench.explainer(epsilon, ADAPTIVE, bench.part.seed)
    explainer.request = explainer.request.but(candidates=candidates, accounting=accounting)
    losses = [bench._loss(i, explainer.explain(bench.part.record(i))) for i in bench.part.queries]
    how = np.array([query.how for query in explainer.history])
    starts = [
        float(bench.problem(i).excess(np.array(query.attribution.settings.start) / paths.FINE))
        for i, query in zip(bench.part.queries, explainer.history, strict=True)
        if query.how == COMPUTED and query.attribution.settings.start is not None
    ]
    exact = np.array(bench._unnoised(explainer.history))
    return {
        "queries": len(how),
        "computed": int((how == COMPUTED).sum()),
        "spent epsilon": epsilon_of(sum(float(query.cost.amount) for query in explainer.history)),
        "mean loss": float(np.mean(losses)),
        "mean loss, computed": float(np.mean(np.array(losses)[how == COMPUTED])),
        "mean loss of the start": float(np.mean(starts)),
        "mean steps": float(np.mean([q.iterations for q in explainer.history if q.how == COMPUTED])),
        "without noise": dict(zip(UNNOISED, exact.mean(axis=0).tolist(), strict=True)),
    }


def run(options: Namespace) -> None:
    part = random_parts(scenes.adult(options.data), 20 if options.quick else 200, 1, whole=True)[0]
    bench, content = Bench(part), dict[str, Any]()
    for epsilon in EPSILONS:
        for name, candidates in STARTS.items():
            content[f"epsilon {epsilon:g}, {name}"] = stream(bench, epsilon, candidates, "zcdp")
            print(epsilon, name, content[f"epsilon {epsilon:g}, {name}"], flush=True)
        content[f"epsilon {epsilon:g}, {PAPER['paper']}"] = stream(bench, epsilon, None, "paper")
    zero = np.zeros(len(part.scene.columns))
    content["loss of phi = 0"] = float(np.mean([bench.problem(i).excess(zero) for i in part.queries]))
    report.write("starts", options, {"summary": content, **content})
