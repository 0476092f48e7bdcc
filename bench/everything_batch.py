"""A batch of five explanations for one price, beside each of them alone for that whole price, as it was before.

    pd, ale     partial dependence and accumulated effects of all columns: root mean squared errors, as in `bench
                posterior` (bench/posterior_baselines.py)
    importance, disparity, local     as in bench/everything_parts.py; a pure account cannot pay for `local`

`batch` is `dpx.batch(table, model, requests, epsilon=1)`; the forecast of each request is what `dpx.plan` of the same
requests says: 95 % of its values are expected within `error` of the exact ones. `far` is the realised figure, pooled
over repetitions. Coverage is about all intervals of the results, and about those of `batch.posterior`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpexplain as dpx
from bench.everything_parts import before_sketch, disparity_errors, importance_errors, private, sketch_errors
from bench.everything_tables import TARGET, Whole
from bench.posterior_baselines import add_coverage, squared_error_of_effects
from bench.posterior_tables import GRID, Truth

Floats = NDArray[np.float64]
Figures = dict[str, float]

EPSILON = 1.0
ALONE = ("pd", "ale", "importance", "disparity", "local")


def requests_of(case: Whole, account: str) -> dict[str, Any]:
    R = dpx.requests
    asked = {
        "pd": R.PartialDependence(feature=case.features, grid=GRID),
        "ale": R.AccumulatedEffects(feature=case.features),
        "importance": R.PermutationImportance(target=TARGET, features=case.features, **case.positive),
        "disparity": R.Influence(quantity="disparity", features=case.features, group=case.group, **case.outcome),
    }
    return asked if account == "pure" else {**asked, "local": R.LocalSketch()}


def judged(case: Whole, kind: str, name: str, result: Any, *, raw: bool = False) -> Figures:
    """One result of a request, alone or of a batch. `raw`: as it was before it was sharpened."""
    truth: Truth = case.remember(("truth", kind), lambda: Truth(case, kind))
    if name in ("pd", "ale"):
        return _curves(case, truth, name, list(result))
    if name == "local":
        return sketch_errors(case, kind, result)
    return {"importance": importance_errors, "disparity": disparity_errors}[name](case, kind, result, raw=raw)


def _curves(case: Whole, truth: Truth, name: str, curves: Sequence[Any]) -> Figures:
    low = case.output[0] if name == "pd" else 0.0
    values = [np.asarray(curve.values) for curve in curves]
    if name == "pd":
        exact = np.concatenate([truth.dependence_of(curve.feature) for curve in curves])
    else:
        exact = np.concatenate([truth.effects_on(curve.feature, curve.axes[0].points) for curve in curves])
    away = (np.concatenate(values) - low) / case.width - exact
    squared = float(np.mean(away**2)) if name == "pd" else squared_error_of_effects(case, curves, values, truth)
    inside: dict[str, list[float]] = defaultdict(list)
    add_coverage(inside, "coverage", [(curve, curve.interval(), low) for curve in curves], exact, case.width)
    far = float(np.quantile(np.abs(away), 0.95))
    return {"error": squared**0.5, "coverage": inside["coverage"][0], "far": far}


def alone(case: Whole, kind: str, account: str) -> dict[str, Figures]:
    """Each request by itself, for the whole price, from an account of its own."""
    found = {}
    for name in requests_of(case, account):
        table, model = private(case, account), case.model(kind)
        found[name] = judged(case, kind, name, _asked(case, table, model, name), raw=True)
    return found


def _asked(case: Whole, table: dpx.PrivateTable, model: dpx.Model, name: str) -> Any:
    names: list[Any] = list(case.features)
    if name == "pd":
        return dpx.partial_dependence(table, model, names, grid=GRID, epsilon=EPSILON)
    if name == "ale":
        return dpx.accumulated_effects(table, model, names, epsilon=EPSILON)
    if name == "importance":
        return dpx.permutation_importance(table, model, TARGET, features=names, epsilon=EPSILON, **case.positive)
    if name == "disparity":
        asked = {"group": case.group, **case.outcome}
        return dpx.influence(table, model, "disparity", names, epsilon=EPSILON, **asked)
    return before_sketch(table, model, EPSILON)


@contextmanager
def planned_once(case: Whole, kind: str, account: str) -> Iterator[None]:
    """The division of the price and its forecast follow from public things: the same in all repetitions, found once."""
    from dpexplain.methods.batches import division, release

    before = {(division, "divide"): division.divide, (release, "forecast_of"): release.forecast_of}
    for (module, name), find in before.items():

        def known(question: Any, given: Any, name: str = name, find: Any = find) -> Any:
            return case.remember((name, kind, account), lambda: find(question, given))

        setattr(module, name, known)
    try:
        yield
    finally:
        for (module, name), find in before.items():
            setattr(module, name, find)


def batch(case: Whole, kind: str, account: str) -> dict[str, Figures]:
    """All requests for one price; the forecast of each, and what is read off their posterior."""
    asked, table, model = requests_of(case, account), private(case, account), case.model(kind)
    with planned_once(case, kind, account):
        planned = dpx.plan(list(asked.values()), table=table, model=model, epsilon=EPSILON)
        released = dpx.batch(table, model, list(asked.values()), epsilon=EPSILON)  # type: ignore[attr-defined,unused-ignore]
    found, lines = {}, [line for line in planned.lines if line.alone is not None]  # others are what requests share
    for name, result, line in zip(asked, released, lines, strict=True):  # type: ignore[attr-defined,unused-ignore]
        unit = {"pd": case.width, "ale": case.width, "importance": case.width**2}.get(name, 1.0)
        found[name] = {**judged(case, kind, name, result), "forecast": float(line.error) / unit}
    if released.stand_in is not None:
        read = released.posterior.partial_dependence(case.features, grid=GRID)
        truth: Truth = case.remember(("truth", kind), lambda: Truth(case, kind))
        found["read off"] = _curves(case, truth, "pd", list(read))
    return found
