"""What `bench posterior` compares with: our releases before the posterior, and plain curves of MST rows.

    now      the release as it was, all of the price spent on it (histograms below the curves included): partial
             dependence smoothed by curvature, accumulated effects with shrunk steps, computed here from the released
             sums, so that they stay what they were
    direct   the released values as they are
    mst      plain curves of synthetic rows (bench/synthetic.py), all of the price spent on them; max(5,000, min(n,
             10,000)) rows, spread evenly over the fitted tree, shared by all models. With 20,000 rows errors were the
             same. Effects between the same public points as the exact ones.

An error is a mean squared one in units of the output range: partial dependence over all points of all grids; effects
over the rows of the table, feature after feature, then the mean over features. `proven` is the share of points inside
their 95 % intervals, `proven_width` the mean width of these.

Baselines do not change when the product does, and take most of the time, so they are kept in bench/cache (which git
ignores) by a digest of the settings and of the exact curves. Remove the folder to measure them again.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpexplain as dpx
from bench import synthetic
from bench.posterior_tables import GRID, MODELS, SINGLE, Case, Truth, dependence, effects_of_rows
from dpexplain.maths.smoothing import smooth

Floats = NDArray[np.float64]
Error = Callable[[Case, Truth, Floats], float]  # of plain curves of some rows

CACHE = Path(__file__).parent / "cache"
VERSION = 1  # to be raised when this file, the tables or the baseline of synthetic rows change what they measure
DELTAS = {"zcdp": 1e-6, "pure": None}
FEWEST_ROWS, MOST_ROWS = 5_000, 10_000  # synthetic ones
ROUNDING = 1e-6  # of the output range: predictions are rounded before they are summed


def baselines(
    what: str, case: Case, truths: Mapping[str, Truth], account: str, epsilon: float, times: int
) -> dict[str, Any]:
    """All errors of one table at one price, kept or measured now: model -> part -> (feature ->) method -> a list with
    one for each repetition.

    what   "dependence" for the parts pd and single, or "effects" for the part ale
    """
    file = CACHE / f"posterior-{what}-{case.key}-{account}-{epsilon:g}-{digest_of(what, truths, times)}.json"
    if file.exists():
        kept: dict[str, Any] = json.loads(file.read_text())
        return kept
    start = time.perf_counter()
    released, from_rows, part = MEASURED[what]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = {kind: released(case, kind, truth, account, epsilon, times) for kind, truth in truths.items()}
        middle = time.perf_counter()
        for kind, errors in _of_synthetic_rows(case, truths, account, epsilon, times, from_rows).items():
            measured[kind][part]["mst"] = errors
    seconds = f"{middle - start:.0f} s + {time.perf_counter() - middle:.0f} s"
    print(f"baselines of {what}, {case.key}, {account}, {epsilon:g}: {seconds}", flush=True)
    CACHE.mkdir(exist_ok=True)
    file.write_text(json.dumps(measured))
    return measured


def digest_of(what: str, truths: Mapping[str, Truth], times: int) -> str:
    settings = [VERSION, GRID, FEWEST_ROWS, MOST_ROWS, times, list(truths)]
    if what == "dependence":
        exact: Any = [SINGLE, *(np.round(truth.dependence, 5).tolist() for truth in truths.values())]
    else:
        exact = [[np.round(curve, 4).tolist() for curve in truth.effects.values()] for truth in truths.values()]
    return hashlib.blake2b(json.dumps([settings, exact]).encode(), digest_size=6).hexdigest()


# Our releases as they were --------------------------------------------------------------------------------------------


def dependence_before(curve: Any) -> tuple[Floats, Floats]:
    """(smoothed, released) values of one curve of partial dependence, in units of the output, from its sums alone.

    As in commit 85c3ae3: squared second differences between the points of a number, distances from the mean between
    categories, the strength by the estimated squared error.
    """
    sums, noise = curve.part("curve")
    spec = curve.spec
    output, start = spec.output, sum(spec.sizes[: curve.index])
    mine = sums[start : start + spec.sizes[curve.index]].astype(np.float64)
    unit = output.width / (output.levels * curve.receipt.rows)
    axes = [axis.points if axis.ordered else len(axis.points) for axis in spec.views[curve.index]]
    means = output.low + unit * mine
    smoothed = smooth(means, (noise.std * unit) ** 2, axes)
    return np.clip(smoothed, output.low, output.high), np.clip(means, output.low, output.high)


def effects_before(curve: Any) -> tuple[Floats, Floats]:
    """(shrunk, released) values of one curve of accumulated effects, as in commit 85c3ae3."""
    (counts, count_noise), (sums, noise), spec = curve.part("counts"), curve.part("effects"), curve.spec
    bins = spec.bins_of(counts.tolist(), curve.receipt.rows)
    ends = np.cumsum([one.size for one in bins])[:-1]
    mine = np.split(sums * spec.unit, ends)[curve.index]
    accumulated = spec.curve(curve.index, bins[curve.index], mine, noise, count_noise, rows_public=True)
    return accumulated.smoothed, accumulated.raw


def _released_dependence(
    case: Case, kind: str, truth: Truth, account: str, epsilon: float, times: int
) -> dict[str, Any]:
    """All features together, and some alone; each time from a new account."""
    together: dict[str, list[float]] = defaultdict(list)
    single: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in SINGLE[case.key]}
    for _ in range(times):
        table, model = case.private(DELTAS[account]), case.model(kind)
        curves = dpx.partial_dependence(table, model, case.features, grid=GRID, epsilon=epsilon)
        add_dependence(together, case, list(curves), truth.dependence)
        for name, errors in single.items():
            curve = dpx.partial_dependence(table, model, name, grid=GRID, epsilon=epsilon)
            add_dependence(errors, case, [curve], truth.dependence_of(name))
    return {"pd": together, "single": single}


def _released_effects(case: Case, kind: str, truth: Truth, account: str, epsilon: float, times: int) -> dict[str, Any]:
    errors: dict[str, list[float]] = defaultdict(list)
    for _ in range(times):
        table = case.private(DELTAS[account])
        curves = dpx.accumulated_effects(table, case.model(kind), case.features, epsilon=epsilon)
        add_effects(errors, case, list(curves), truth)
    return {"ale": errors}


def add_dependence(errors: dict[str, list[float]], case: Case, curves: Sequence[Any], exact: Floats) -> None:
    """One more repetition of these curves together."""
    both = [dependence_before(curve) for curve in curves]
    low, width = case.output[0], case.width
    for method, values in zip(("now", "direct"), map(np.concatenate, zip(*both, strict=True)), strict=True):
        errors[method].append(float(np.mean(((values - low) / width - exact) ** 2)))
    add_coverage(errors, "proven", [(curve, proven_interval(curve), low) for curve in curves], exact, width)


def add_effects(errors: dict[str, list[float]], case: Case, curves: Sequence[Any], truth: Truth) -> None:
    both = [effects_before(curve) for curve in curves]
    for method, place in (("now", 0), ("direct", 1)):
        errors[method].append(squared_error_of_effects(case, curves, [values[place] for values in both], truth))
    exact = np.concatenate([truth.effects_on(curve.feature, curve.axes[0].points) for curve in curves])
    add_coverage(errors, "proven", [(curve, proven_interval(curve), 0.0) for curve in curves], exact, case.width)


def squared_error_of_effects(case: Case, curves: Sequence[Any], values: Sequence[Floats], truth: Truth) -> float:
    """Against the exact curves at the places of comparison: the mean over rows, then over features."""
    errors = []
    for curve, mine in zip(curves, values, strict=True):
        places, points = truth.places[curve.feature], curve.axes[0].points
        at = places.at(points, np.asarray(mine) / case.width, ordered=case.is_number(curve.feature))
        errors.append(places.squared_error(at, truth.effects[curve.feature]))
    return float(np.mean(errors))


def proven_interval(curve: Any) -> tuple[Floats, Floats]:
    """The interval of the release; before there was a posterior, it was the only one."""
    interval: tuple[Floats, Floats] = getattr(curve, "proven_interval", curve.interval)()
    return interval


def add_coverage(
    errors: dict[str, list[float]], name: str, curves: Sequence[tuple[Any, Any, float]], exact: Floats, width: float
) -> None:
    """The share of the points inside their intervals, and the mean width of these."""
    low = np.concatenate([(ends[0] - origin) / width for _, ends, origin in curves])
    high = np.concatenate([(ends[1] - origin) / width for _, ends, origin in curves])
    errors[name].append(float(np.mean((low - ROUNDING <= exact) & (exact <= high + ROUNDING))))
    errors[f"{name}_width"].append(float(np.mean(high - low)))


# Synthetic rows -------------------------------------------------------------------------------------------------------


def _of_synthetic_rows(
    case: Case, truths: Mapping[str, Truth], account: str, epsilon: float, times: int, error: Error
) -> dict[str, list[float]]:
    """The error of each model, one for each draw of rows."""
    coding = synthetic.Coding.of(case.domain, synthetic.cells_at(epsilon))
    codes, rows = coding.codes(case.frame), max(FEWEST_ROWS, min(case.size, MOST_ROWS))
    errors: dict[str, list[float]] = {kind: [] for kind in truths}
    for seed in range(times):
        drawn = synthetic.mst_rows(codes, coding.sizes, epsilon, DELTAS[account], seed, rows=rows)
        matrix = coding.frame(drawn, seed)[case.features].to_numpy(dtype=np.float64)
        for kind, truth in truths.items():
            errors[kind].append(error(case, truth, matrix))
    return errors


def _dependence_error(case: Case, truth: Truth, matrix: Floats) -> float:
    return float(np.mean((dependence(case.fast[truth.kind], case, matrix) - truth.dependence) ** 2))


def _effects_error(case: Case, truth: Truth, matrix: Floats) -> float:
    curves = effects_of_rows(case.fast[truth.kind], case, matrix, truth.places)
    return float(
        np.mean([truth.places[name].squared_error(curve, truth.effects[name]) for name, curve in curves.items()])
    )


MEASURED: dict[str, tuple[Callable[..., dict[str, Any]], Error, str]] = {
    "dependence": (_released_dependence, _dependence_error, "pd"),
    "effects": (_released_effects, _effects_error, "ale"),
}


def truths_of(case: Case, kinds: Sequence[str] = MODELS) -> dict[str, Truth]:
    return {kind: Truth(case, kind) for kind in kinds}
