"""The stand-in and the posterior: errors and coverage of curves, beside our releases before them and MST rows.

    python -m bench posterior [--quick] [--part pd | single | ale | clock | everything]

    pd       partial dependence of all features of a table for one price, on grids of 12 points (categories: all)
    single   partial dependence of one feature alone, three features of each table
    ale      accumulated effects of all features for one price
    clock    processor time of one release with the posterior, without it, and of the predictions for synthetic rows
    everything   the other explanations, and five for the price of one (bench/everything.py)

Five tables, four models (bench/posterior_tables.py), total epsilon 0.1 to 3, one row replaced, zCDP accounts with delta
1e-6 and pure ones, ten repetitions of each cell (a table, a model, an account, an epsilon). Baselines, and what an
error is, are described in bench/posterior_baselines.py; they are kept in bench/cache, so that a second run measures
ours only. Ours are kept too, for the same source of the product: `--tables adult,bike` measures some tables and writes
no results, so that two of these can run side by side before the run that writes.

Ours, for the same total price: a share of it buys a stand-in (`dpx.stand_in`), the rest the release, and what is shown
is the posterior. Share 0 is what the product does by itself, with the best stand-in that is free; share 1 reads the
curve off the stand-in alone. In a zCDP account shares are of rho. The study measures several shares everywhere; the
product may not choose by its results, only by forecast (`chosen_share`).

    ratio      root mean squared error over that of the better baseline (`now` alone for single features)
    above      beyond noise: the one-sided 99 % bootstrap bound over repetitions, Bonferroni over the cells, is above
    coverage   share of points inside 95 % intervals: `posterior` those of the values shown, `proven` of the release

Accumulated effects far from the rows mean nothing. So errors are taken at public points (every whole number or
category; the middles of a hundred cells; the low end of a number by itself), weighted by the exact share of the rows
there. The exact curve has a step for each public cell that holds rows. Between 100 quantiles of the rows, as in `bench
effects`, it is nearly the same, but for Adult's capital columns, where it then depends on a few quantiles. Coverage is
about the exact curve for the bins of the release, point by point: that is what its interval promises.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
import warnings
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpexplain as dpx
from bench import report
from bench.posterior_baselines import (
    CACHE,
    DELTAS,
    add_coverage,
    baselines,
    proven_interval,
    squared_error_of_effects,
    truths_of,
)
from bench.posterior_figures import figure_of
from bench.posterior_tables import GRID, MODELS, SINGLE, TABLES, Case, Truth
from dpexplain.maths.grids import axis_of
from dpexplain.methods.sharpening import stand_in_share

Floats = NDArray[np.float64]
Cell = dict[str, Any]

PARTS = ("pd", "single", "ale")
EPSILONS = (0.1, 0.3, 1.0, 3.0)
SHARES = {"pd": (0.0, 0.25), "single": (0.0,), "ale": (1.0,)}  # the study
REPETITIONS = 10
LIMITS = {"pd": (0.65, 1.15), "single": (0.9, 1.05), "ale": (0.9, 1.2)}  # geometric mean, any cell
LOWEST, HIGHEST = 0.93, 0.99  # coverage of posterior intervals in any cell
COMPARED = {"pd": ("now", "mst"), "single": ("now",), "ale": ("now", "mst")}
TAIL, DRAWS = 0.01, 200_000
LONG_GRID, ROUNDS = 40, 5  # for the clock


# Ours: what is behind these functions is the product ------------------------------------------------------------------


def available() -> bool:
    """Whether this version has a posterior."""
    return hasattr(dpx, "stand_in") and hasattr(dpx, "posterior")


def price(table: dpx.PrivateTable, epsilon: float, share: float) -> dict[str, Fraction]:
    """A share of the total, as the account counts it."""
    amount = table.cost(epsilon=epsilon).amount * Fraction(share)
    return {"epsilon": amount} if table.budget.delta is None else {"rho": amount}


def bought(table: dpx.PrivateTable, epsilon: float, share: float) -> Any:
    """The stand-in for a share of the price; none for nothing. Without a model: all models share it."""
    return dpx.stand_in(table, **price(table, epsilon, share)) if share else None


def our_dependence(
    table: dpx.PrivateTable, model: dpx.Model, features: list[str], epsilon: float, share: float, stand_in: Any
) -> list[Any]:
    """Curves with `.values` and `.interval()` of the posterior and, where there is a release, `.proven_interval()`."""
    if share == 1:
        return list(dpx.posterior(stand_in, model, []).partial_dependence(features, grid=GRID))
    rest = price(table, epsilon, 1 - share)
    return list(dpx.partial_dependence(table, model, features, grid=GRID, stand_in=stand_in, **rest))


def our_effects(
    table: dpx.PrivateTable, model: dpx.Model, features: list[str], epsilon: float, share: float, stand_in: Any
) -> list[Any]:
    if share == 1:
        return list(dpx.posterior(stand_in, model, []).accumulated_effects(features))
    rest = price(table, epsilon, 1 - share)
    return list(dpx.accumulated_effects(table, model, features, stand_in=stand_in, **rest))


def chosen_share(part: str, case: Case) -> float:
    """The share that the product advises, from public things."""
    method = "accumulated-effects" if part == "ale" else "partial-dependence"
    return float(stand_in_share(method, 1 if part == "single" else len(case.features)))


# One cell -------------------------------------------------------------------------------------------------------------


def measure(
    part: str,
    case: Case,
    truths: Mapping[str, Truth],
    account: str,
    epsilon: float,
    shares: Sequence[float],
    times: int,
) -> dict[tuple[str, str, float], dict[str, list[float]]]:
    """(model, feature, share) -> figures, one for each repetition. Each has an account of its own, and one stand-in for
    all models.
    """
    figures: dict[Any, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    views = [[name] for name in SINGLE[case.key]] if part == "single" else [case.features]
    for _, share in itertools.product(range(times), shares):
        table = case.private(DELTAS[account])
        stand_in = bought(table, epsilon, share)
        for (kind, truth), names in itertools.product(truths.items(), views):
            mine = figures[kind, names[0] if part == "single" else "", share]
            ask = our_effects if part == "ale" else our_dependence
            curves = ask(table, case.model(kind), names, epsilon, share, stand_in)
            (_judge_effects if part == "ale" else _judge_dependence)(mine, case, curves, truth, released=share < 1)
    return {place: dict(mine) for place, mine in figures.items()}


def _judge_dependence(
    mine: dict[str, list[float]], case: Case, curves: Sequence[Any], truth: Truth, *, released: bool
) -> None:
    exact, low = np.concatenate([truth.dependence_of(curve.feature) for curve in curves]), case.output[0]
    values = np.concatenate([np.asarray(curve.values) for curve in curves])
    mine["error"].append(float(np.mean(((values - low) / case.width - exact) ** 2)))
    add_coverage(mine, "posterior", [(curve, curve.interval(), low) for curve in curves], exact, case.width)
    if released:
        add_coverage(mine, "proven", [(curve, proven_interval(curve), low) for curve in curves], exact, case.width)


def _judge_effects(
    mine: dict[str, list[float]], case: Case, curves: Sequence[Any], truth: Truth, *, released: bool
) -> None:
    values = [np.asarray(curve.values) for curve in curves]
    mine["error"].append(squared_error_of_effects(case, curves, values, truth))
    exact = np.concatenate([truth.effects_on(curve.feature, curve.axes[0].points) for curve in curves])
    add_coverage(mine, "posterior", [(curve, curve.interval(), 0.0) for curve in curves], exact, case.width)
    if released:
        add_coverage(mine, "proven", [(curve, proven_interval(curve), 0.0) for curve in curves], exact, case.width)


def cells_of(
    part: str, case: Case, account: str, epsilon: float, kept: Mapping[str, Any], ours: Mapping[Any, Any]
) -> list[Cell]:
    """Baselines and ours side by side."""
    cells = []
    for kind, parts in kept.items():
        views = parts["single"] if part == "single" else {"": parts[part]}
        for feature, before in views.items():
            where = {"part": part, "table": case.key, "rows": case.size, "model": kind, "account": account}
            where |= {"epsilon": epsilon} | ({"feature": feature} if feature else {})
            mine = {f"{share:g}": figures for (k, f, share), figures in ours.items() if (k, f) == (kind, feature)}
            cells.append({**where, **before, "ours": mine})
    return cells


# Figures --------------------------------------------------------------------------------------------------------------


def root(squares: Sequence[float]) -> float:
    """The root mean squared error of some repetitions."""
    return float(np.sqrt(np.mean(squares)))


def geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")


def ratio_of(ours: Sequence[float], others: Sequence[Sequence[float]]) -> float:
    """The error over that of the best of the others."""
    return root(ours) / min(root(other) for other in others)


def ratio_lower_bound(
    ours: Sequence[float], others: Sequence[Sequence[float]], tail: float, draws: int = DRAWS
) -> float:
    """One-sided bootstrap bound of `ratio_of` over repetitions; which of the others is the best is drawn again too."""
    draw = np.random.default_rng(0)
    best = np.min([_means(other, draw, draws) for other in others], axis=0)
    return float(np.sqrt(np.quantile(_means(ours, draw, draws) / best, tail)))


def _means(values: Sequence[float], draw: np.random.Generator, draws: int) -> Floats:
    known = np.asarray(values, dtype=np.float64)
    return np.asarray(known[draw.integers(len(known), size=(draws, len(known)))].mean(axis=1))


def coverage_bounds(covered: Sequence[float], tail: float, draws: int = 20_000) -> tuple[float, float]:
    """One-sided bootstrap bounds of a mean coverage, below and above."""
    means = _means(covered, np.random.default_rng(0), draws)
    return float(np.quantile(means, tail)), float(np.quantile(means, 1 - tail))


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def name_of(cell: Cell) -> str:
    feature = f", {cell['feature']}" if "feature" in cell else ""
    return f"{cell['table']}{feature}, {cell['model']}, {cell['account']}, epsilon {cell['epsilon']:g}"


def before_summary(cells: Sequence[Cell]) -> dict[str, Any]:
    """Errors of the baselines, geometric means over models: by account, table and epsilon."""
    lines: dict[str, Any] = {}
    places = dict.fromkeys((cell["account"], cell["table"], cell["epsilon"]) for cell in cells)
    for place in places:
        mine = [c for c in cells if (c["account"], c["table"], c["epsilon"]) == place]
        methods = [name for name in ("now", "direct", "mst") if name in mine[0]]
        errors = {name: geometric([root(c[name]) for c in mine]) for name in methods}
        line = {name: _short(value) for name, value in errors.items()}
        if "mst" in errors:
            line["mst / now"] = _short(errors["mst"] / errors["now"])
        account, table, epsilon = place
        lines[f"{account}, {table}, epsilon {epsilon:g}"] = line
    return lines


def our_summary(part: str, cells: Sequence[Cell], share: str | Callable[[Cell], str]) -> dict[str, Any]:
    """One share in all cells, or one for each of them."""
    pick = share if callable(share) else lambda _: share
    judged = [(cell, cell["ours"][pick(cell)], [cell[name] for name in COMPARED[part]]) for cell in cells]
    ratios = [ratio_of(mine["error"], others) for _, mine, others in judged]
    aim, limit = LIMITS[part]
    tail = TAIL / len(cells)
    above = [
        {"cell": name_of(cell), "ratio": _short(ratio), "lower bound": _short(bound)}
        for (cell, mine, others), ratio in zip(judged, ratios, strict=True)
        if ratio > limit and (bound := ratio_lower_bound(mine["error"], others, tail)) > limit
    ]
    worst = sorted(zip(ratios, judged, strict=True), key=lambda pair: -pair[0])[:10]

    def by(*keys: str) -> dict[str, float]:
        places = dict.fromkeys(tuple(cell[key] for key in keys) for cell in cells)
        return {
            ", ".join(map(str, place)): _short(
                geometric([r for r, c in zip(ratios, cells, strict=True) if tuple(c[key] for key in keys) == place])
            )
            for place in places
        }

    return {
        "geometric mean of ratios": _short(geometric(ratios)),
        "aim": aim,
        "reached": bool(geometric(ratios) <= aim),
        "by table": by("table"),
        "by model": by("model"),
        "by account and epsilon": by("account", "epsilon"),
        f"cells above {limit}": sum(ratio > limit for ratio in ratios),
        f"cells above {limit} beyond noise": above,
        "worst cells": [{"cell": name_of(cell), "ratio": _short(ratio)} for ratio, (cell, _, _) in worst],
        "posterior intervals": _coverage([(cell, mine["posterior"]) for cell, mine, _ in judged]),
        "proven intervals": _coverage([(cell, mine["proven"]) for cell, mine, _ in judged if "proven" in mine]),
        "width, posterior over proven": _short(
            geometric(
                [
                    np.mean(mine["posterior_width"]) / np.mean(mine["proven_width"])
                    for _, mine, _ in judged
                    if "proven" in mine
                ]
            )
        ),
    }


def _coverage(cells: Sequence[tuple[Cell, Sequence[float]]]) -> dict[str, Any]:
    if not cells:
        return {}
    means, tail = [float(np.mean(covered)) for _, covered in cells], TAIL / len(cells)
    bounds = [coverage_bounds(covered, tail) for _, covered in cells]
    return {
        "mean": _short(float(np.mean(means))),
        "lowest cell": _short(min(means)),
        "highest cell": _short(max(means)),
        f"cells below {LOWEST}": sum(mean < LOWEST for mean in means),
        f"cells above {HIGHEST}": sum(mean > HIGHEST for mean in means),
        f"below {LOWEST} beyond noise": [
            f"{name_of(cell)}: {mean:.3f}"
            for (cell, _), mean, (_, high) in zip(cells, means, bounds, strict=True)
            if high < LOWEST
        ],
        f"above {HIGHEST} beyond noise": sum(low > HIGHEST for low, _ in bounds),
    }


def summarize(part: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """Baselines, every share of the study, the best share of each cell (which nobody can know), and the product's."""
    summary: dict[str, Any] = {"cells": len(cells), "root mean squared errors of the baselines": before_summary(cells)}
    summary["proven intervals before"] = _coverage([(cell, cell["proven"]) for cell in cells])
    shares = list(cells[0]["ours"])
    for share in shares:
        summary[f"ours, share {share}"] = our_summary(part, cells, share)
    if len(shares) > 1:
        summary["ours, the best share of each cell"] = our_summary(part, cells, best_share)
    if all(cell.get("share") is not None for cell in cells):
        summary["ours"] = our_summary(part, cells, lambda cell: cell["share"])
    return summary


def best_share(cell: Cell) -> str:
    """The share with the smallest error in a cell."""
    return str(min(cell["ours"], key=lambda share: root(cell["ours"][share]["error"])))


# Time -----------------------------------------------------------------------------------------------------------------


def timed(case: Case, kind: str) -> dict[str, Any]:
    """Processor seconds of a posterior of some 200 numbers, without the predictions for the stand-in's rows: a release
    with it, less the same release without it, less these predictions. Medians of some rounds.
    """
    table, model = case.private(None), case.model(kind)
    stand_in, seconds = dpx.stand_in(table, epsilon=1.0), defaultdict(list)
    rows = max(500, case.size // 10)
    matrix = stand_in.rows(rows)[case.features].to_numpy(dtype=np.float64)
    for number in range(ROUNDS + 1):  # the first one warms up
        asked = {"grid": LONG_GRID, "epsilon": 1 + number / 1000}
        jobs: dict[str, Callable[[], Any]] = {
            "with": lambda asked=asked: _read(
                dpx.partial_dependence(table, model, case.features, stand_in=stand_in, **asked)
            ),
            "without": lambda asked=asked: _read(
                dpx.partial_dependence(table, model, case.features, smooth=False, rug=False, **asked)
            ),
            "predictions": lambda: [case.fast[kind](rows) for rows in _moved(case, matrix)],
        }
        for name, job in jobs.items():
            start = time.process_time()
            job()
            seconds[name].append(time.process_time() - start)
    medians = {name: float(np.median(each[1:])) for name, each in seconds.items()}
    rest = medians["with"] - medians["without"] - medians["predictions"]
    queries = sum(1 for _ in _moved(case, matrix[:1]))
    counts = {"stand-in rows": rows, "queries": queries}
    return {**{name: _short(value) for name, value in medians.items()}, "posterior": _short(rest), **counts}


def _moved(case: Case, matrix: Floats) -> Iterator[Floats]:
    """The rows at every point of long grids, one after the other."""
    for place, name in enumerate(case.features):
        for value in axis_of(case.domain, name, LONG_GRID, LONG_GRID).settings:
            moved = matrix.copy()
            moved[:, place] = value
            yield moved


def _read(curves: Any) -> None:
    for curve in curves:
        curve.values, curve.interval()


# Running --------------------------------------------------------------------------------------------------------------


def run(options: Namespace) -> None:
    if options.part == "everything":
        from bench import everything

        everything.run(options)
        return
    if options.part == "clock":
        report.write("posterior-clock", options, {"summary": time_of_all(options)})
        return
    parts = PARTS if options.part == "all" else (options.part,)
    keys, prices, times = (["german"], [1.0], 2) if options.quick else (list(TABLES), list(EPSILONS), REPETITIONS)
    keys = options.tables.split(",") if options.tables else keys
    cells: dict[str, list[Cell]] = {part: [] for part in parts}
    for key in keys:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case = Case.of(key, options.data)
            truths = truths_of(case, MODELS[-2:] if options.quick else MODELS)
            for account, epsilon in itertools.product(DELTAS, prices):
                for part in parts:
                    what = "effects" if part == "ale" else "dependence"
                    kept = baselines(what, case, truths, account, epsilon, times)
                    cells[part] += _cells(part, case, truths, account, epsilon, times, kept)
        case.forget()
    if options.tables:
        return  # what was measured is kept; a run of all tables writes it down
    for part in parts:
        content = {"summary": summarize(part, cells[part]), "cells": [_rounded(c) for c in cells[part]]}
        report.write(f"posterior-{part}", options, content, None if options.quick else figure_of(part, cells[part]))


def _cells(
    part: str,
    case: Case,
    truths: Mapping[str, Truth],
    account: str,
    epsilon: float,
    times: int,
    kept: Mapping[str, Any],
) -> list[Cell]:
    share = chosen_share(part, case)
    shares = tuple(dict.fromkeys((*SHARES[part], share)))
    ours = kept_ours(part, case, truths, account, epsilon, shares, times)
    cells = cells_of(part, case, account, epsilon, kept, ours)
    return [{**cell, "share": f"{share:g}"} for cell in cells]


def kept_ours(
    part: str,
    case: Case,
    truths: Mapping[str, Truth],
    account: str,
    epsilon: float,
    shares: Sequence[float],
    times: int,
) -> Mapping[tuple[str, str, float], dict[str, list[float]]]:
    """Ours, measured now or kept by the same source of the product: a run that was cut off goes on where it was."""
    said = f"{source_of_product()} {sorted(truths)} {shares} {times}".encode()
    name = hashlib.blake2b(said, digest_size=6).hexdigest()
    file = CACHE / f"ours-{part}-{case.key}-{account}-{epsilon:g}-{name}.json"
    if not file.exists():
        start = time.perf_counter()
        ours = measure(part, case, truths, account, epsilon, shares, times)
        took = time.perf_counter() - start
        print(f"{part} of {case.key}, {account}, epsilon {epsilon:g}: {took:.0f} s", flush=True)
        CACHE.mkdir(exist_ok=True)
        file.write_text(json.dumps([[*place, figures] for place, figures in ours.items()]))
    return {(kind, feature, share): figures for kind, feature, share, figures in json.loads(file.read_text())}


def source_of_product() -> str:
    """A digest of the product."""
    files = sorted((Path(dpx.__file__).parent).rglob("*.py"))
    return hashlib.blake2b(b"".join(file.read_bytes() for file in files), digest_size=8).hexdigest()


def time_of_all(options: Namespace) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = {key: Case.of(key, options.data) for key in ("adult", "german")}
        clock = {f"{key}, {kind}": timed(cases[key], kind) for key in cases for kind in MODELS}
    return {"seconds of one release (predictions: those for the stand-in's rows)": clock}


def _rounded(value: Any) -> Any:
    """Four digits are enough."""
    if isinstance(value, float):
        return _short(value)
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value
