"""The single explanations of `bench posterior --part everything`: local, clusters, disparity, importance.

Each part says how one release of ours is asked for and judged, for a table, a model, an account and an epsilon. `now`
is the release of before there was a posterior of it; `mst` a plain explanation of MST rows for the whole price.

    part         error                                             now                  also
    local        share of the explainable loss that is lost        moments              mst
    clusters     quality of the choice by the best one's           one stage            mst, domain
    disparity    root mean squared over columns                    unsharpened          mst, zero
    importance   concordance with the exact order; and the error   unsharpened          mst

Coverage is the share of exact answers inside 95 % intervals, where a part has them for columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpexplain as dpx
from bench.everything_tables import CLUSTERS, FEW, TARGET, Plain, Whole, share_lost
from bench.importance import concordance
from bench.posterior_baselines import DELTAS

Floats = NDArray[np.float64]
Figures = dict[str, float]  # of one release
DOMAIN_ROWS = 10_000
ROUNDING = 2e-3  # of the range of exact answers: predictions are rounded, and many values are taken as quantiles


@dataclass(frozen=True)
class Part:
    """ours, now: a release judged. plain: what a plain explanation of some rows is worth; free: of nothing at all."""

    name: str
    ours: Callable[[Whole, str, dpx.PrivateTable, float], Figures]
    now: Callable[[Whole, str, dpx.PrivateTable, float], Figures]
    plain: Callable[[Whole, str, Plain], Figures]
    free: Callable[[Whole, str], Mapping[str, Figures]]
    epsilons: tuple[float, ...]
    by_model: bool = True
    needs_delta: bool = False  # for `now`
    high_is_good: bool = False


# Local explanations ---------------------------------------------------------------------------------------------------


def _lost(case: Whole, kind: str, phis: list[Floats]) -> Figures:
    problems = case.remember(("local", kind), lambda: _problems(case, kind))
    return {"error": share_lost(problems, phis)}


def _problems(case: Whole, kind: str) -> list[Any]:
    return [case.exact.around(kind, case.exact.coordinates[row]) for row in case.records]


def sketch_errors(case: Whole, kind: str, sketch: Any) -> Figures:
    """The loss of what a sketch says about the records."""
    names, phis = case.features, []
    for row in case.records:
        record = {name: _value(case, name, x) for name, x in zip(names, case.exact.matrix[row], strict=True)}
        phis.append(np.asarray(sketch.explain(record).fit.coefficients) / (case.width / 2))
    return _lost(case, kind, phis)


def _value(case: Whole, name: str, value: float) -> Any:
    column = case.domain[name]
    return column.categories[int(value)] if isinstance(column, dpx.Categorical) else float(value)


def before_sketch(table: dpx.PrivateTable, model: dpx.Model, epsilon: float) -> Any:
    """A sketch of moments: before there was another one, the method had no name."""
    options: dict[str, Any] = {"method": "moments"} if "method" in signature(dpx.local_sketch).parameters else {}
    return dpx.local_sketch(table, model, epsilon=epsilon, **options)


def _local_before(case: Whole, kind: str, table: dpx.PrivateTable, epsilon: float) -> Figures:
    return sketch_errors(case, kind, before_sketch(table, case.model(kind), epsilon))


def _local(case: Whole, kind: str, table: dpx.PrivateTable, epsilon: float) -> Figures:
    options: dict[str, Any] = {"method": "auto"}
    return sketch_errors(case, kind, dpx.local_sketch(table, case.model(kind), epsilon=epsilon, **options))


def _plain_local(case: Whole, kind: str, rows: Plain) -> Figures:
    return _lost(case, kind, [rows.around(kind, case.exact.coordinates[row]).best for row in case.records])


# Clusters -------------------------------------------------------------------------------------------------------------


def _quality(case: Whole, choice: tuple[int, ...]) -> Figures:
    best = case.remember(("clusters",), lambda: case.exact.tabee.of_choice(case.exact.choice))
    return {"error": case.exact.tabee.of_choice(choice) / best}


def _clusters(method: str) -> Callable[..., Figures]:
    def released(case: Whole, kind: str, table: dpx.PrivateTable, epsilon: float) -> Figures:  # noqa: ARG001
        labels = list(range(CLUSTERS))
        options: dict[str, Any] = {"method": method}
        found = dpx.explain_clusters(table, case.clustering, labels, case.features, epsilon=epsilon, **options)
        chosen = [names[0] for names in found.chosen.values()]
        return _quality(case, tuple(case.features.index(name) for name in chosen))

    return released


# Disparity and importance ---------------------------------------------------------------------------------------------


def values_of(result: Any, names: list[str], *, raw: bool = False) -> tuple[Floats, Floats, Floats]:
    """(values, low, high) in the order of these columns; `raw` as they were released."""
    order = [list(result.items).index(name) for name in names]
    values = result.raw if raw and hasattr(result, "raw") else result.values
    interval = result.proven_interval if raw and hasattr(result, "proven_interval") else result.interval
    low, high = interval()
    return np.asarray(values)[order], np.asarray(low)[order], np.asarray(high)[order]


def disparity_errors(case: Whole, kind: str, result: Any, *, raw: bool = False) -> Figures:
    exact = case.remember(("disparity", kind), lambda: case.exact.disparity(kind))
    values, low, high = values_of(result, case.features, raw=raw)
    return {"error": _rms(values - exact), **_covered(low, high, exact), "far": _far(values - exact)}


def _disparity(*, raw: bool) -> Callable[..., Figures]:
    def released(case: Whole, kind: str, table: dpx.PrivateTable, epsilon: float) -> Figures:
        asked = {"group": case.group, **case.outcome, "epsilon": epsilon}
        found = dpx.influence(table, case.model(kind), "disparity", case.features, **asked)
        return disparity_errors(case, kind, found, raw=raw)

    return released


def _plain_disparity(case: Whole, kind: str, rows: Plain) -> Figures:
    exact = case.remember(("disparity", kind), lambda: case.exact.disparity(kind))
    return {"error": _rms(rows.disparity(kind) - exact)}


def _no_disparity(case: Whole, kind: str) -> Mapping[str, Figures]:
    exact = case.remember(("disparity", kind), lambda: case.exact.disparity(kind))
    return {"zero": {"error": _rms(exact)}}


def importance_errors(case: Whole, kind: str, result: Any, *, raw: bool = False) -> Figures:
    """Importances are in units of the squared output range here."""
    exact = case.remember(("importance", kind), lambda: case.exact.importance(kind))
    unit = case.width**2
    values, low, high = (found / unit for found in values_of(result, case.features, raw=raw))
    figures = {"concordance": concordance(values, exact), "error": _rms(values - exact)}
    return {**figures, **_covered(low, high, exact), "far": _far(values - exact)}


def _importance(*, raw: bool) -> Callable[..., Figures]:
    def released(case: Whole, kind: str, table: dpx.PrivateTable, epsilon: float) -> Figures:
        model, asked = case.model(kind), {"features": case.features, **case.positive}
        found = dpx.permutation_importance(table, model, TARGET, epsilon=epsilon, **asked)
        return importance_errors(case, kind, found, raw=raw)

    return released


def _plain_importance(case: Whole, kind: str, rows: Plain) -> Figures:
    exact = case.remember(("importance", kind), lambda: case.exact.importance(kind))
    found = rows.importance(kind, FEW)
    return {"concordance": concordance(found, exact), "error": _rms(found - exact)}


def _rms(away: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(away))))


def _far(away: Floats) -> float:
    """Within this are 95 % of the values: what a forecast is about."""
    return float(np.quantile(np.abs(away), 0.95))


def _covered(low: Floats, high: Floats, exact: Floats) -> Figures:
    slack = ROUNDING * max(float(np.abs(exact).max()), 1e-12)
    return {"coverage": float(np.mean((low - slack <= exact) & (exact <= high + slack)))}


# All of them ----------------------------------------------------------------------------------------------------------


def _nothing(case: Whole, kind: str) -> Mapping[str, Figures]:  # noqa: ARG001
    return {}


PARTS = {
    part.name: part
    for part in (
        Part("local", _local, _local_before, _plain_local, _nothing, (0.1, 1.0), needs_delta=True),
        Part(
            "clusters", _clusters("posterior"), _clusters("one-stage"),
            lambda case, kind, rows: _quality(case, rows.choice),  # noqa: ARG005
            lambda case, kind: {"domain": _quality(case, Plain.even(case, DOMAIN_ROWS).choice)},  # noqa: ARG005
            (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0), by_model=False, high_is_good=True,
        ),
        Part("disparity", _disparity(raw=False), _disparity(raw=True), _plain_disparity, _no_disparity, (0.1, 1.0)),
        Part("importance", _importance(raw=False), _importance(raw=True), _plain_importance, _nothing, (0.1, 1.0)),
    )
}  # fmt: skip


def private(case: Whole, account: str) -> dpx.PrivateTable:
    return case.private(DELTAS[account])
