"""Five explanations for the price of one: `python -m bench posterior --part everything [--only local,batch] [--quick]`.

    local, clusters, disparity, importance     one kind of explanation for a whole price (bench/everything_parts.py)
    batch                                      five of them for one price (bench/everything_batch.py)
    forecasts, coverage                        read off what `batch` and the others measured

Tables of `bench posterior`; a forest and a network; zCDP accounts with delta 1e-6 and pure ones; one row replaced;
epsilon 0.1 and 1 (clusters: seven from 0.003 to 3, without a model; a batch: 1); REPETITIONS of each cell. Baselines
(`now`: the product as it was at the commit BEFORE; `mst`: plain explanations of MST rows for the whole price, numpy
seeds 0, 1, ...; the domain alone; saying zero) are kept in bench/cache, which git ignores, so a run measures ours only.
Where the folder is not there, those of the committed results are taken. They come from `--baselines`, run with the
source of that commit:

    git worktree add FOLDER 9df20a7; PYTHONPATH=FOLDER/src python -m bench posterior --part everything --baselines

Ours are kept too, for the same source of the product. `--kept` measures nothing and writes down the cells that earlier
runs (`--tables`, `--only`, `--repetitions`) have measured with this source; of all other cells it keeps what the
committed results say. Each cell names its number of repetitions and the commit it was measured at; cells that nobody
has measured are listed.

    ratio     over the better of `now` and `mst`; geometric means over cells
    reached   whether the aim of the table in the issue is met
"""

from __future__ import annotations

import itertools
import json
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bench import everything_batch, report
from bench.everything_figures import figure_of
from bench.everything_parts import PARTS, Part, private
from bench.everything_tables import MODELS, Whole
from bench.posterior import source_of_product
from bench.posterior_baselines import CACHE, DELTAS
from bench.posterior_tables import TABLES

Cell = dict[str, Any]
Lines = list[dict[str, Any]]  # figures of each repetition

ALL = (*PARTS, "batch", "forecasts", "coverage")
BEFORE = "9df20a7"  # the last commit without the parts that are measured here, or one beside it (see `about`)
REPETITIONS = 10
VERSION = 1  # to be raised when a baseline measures something else
LIMITS = {"local": (0.9, 1.3), "disparity": (0.8, 1.0), "importance": (1.0, 1.0), "clusters": (0.2, 1.0)}
ENOUGH = 0.98  # of the best quality of clusters
WITHIN, OFTEN = 1.5, 0.8  # forecasts
LOWEST, HIGHEST = 0.93, 0.99


BASELINES_OF = f"606ce60 (not kept; {BEFORE} is the commit beside it) for Bike, Framingham and German credit"
BASELINES = ("now", "mst", "zero", "domain")
ONLY_KEPT: list[bool] = []  # not empty where only what was measured before is written down (--kept)


class NotMeasured(Exception):
    """A cell that no earlier run has measured."""


@dataclass(frozen=True)
class Named:
    """A table of which nothing is measured now: no model is fitted."""

    key: str
    size: int

    @classmethod
    def of(cls, key: str, data: Path) -> Named:
        return cls(key, len(TABLES[key](data).frame))

    def forget(self) -> None:
        """There is nothing to forget."""


# Measuring ------------------------------------------------------------------------------------------------------------


def kept(name: str, times: int, measure: Callable[[], Any]) -> Any:
    """What was measured before, with as many repetitions or more (--kept: with any number), or is now."""
    file = CACHE / f"everything-{name}-{times}.json"
    known = max(CACHE.glob(f"everything-{name}-*.json"), key=repetitions_of, default=file)
    if known.exists() and (ONLY_KEPT or repetitions_of(known) >= times):
        return json.loads(known.read_text())
    if ONLY_KEPT:
        raise NotMeasured(name)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = measure()
    CACHE.mkdir(exist_ok=True)
    file.write_text(json.dumps(measured))
    print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    return measured


def place_of(cell: Cell) -> tuple[Any, ...]:
    return tuple(cell[name] for name in ("part", "table", "model", "account", "epsilon"))


@cache
def committed() -> dict[tuple[Any, ...], Cell]:
    """The cells of the committed results, each with the commit it was measured at."""
    file = report.RESULTS / "posterior-everything.json"
    if not file.exists():
        return {}
    known = json.loads(file.read_text())
    return {place_of(cell): {"commit": known["about"]["commit"], **cell} for cell in known["cells"]}


def repetitions_of(file: Path) -> int:
    return int(file.stem.rpartition("-")[2])


def baselines(part: Part, case: Any, kind: str, account: str, epsilon: float, times: int) -> dict[str, Lines]:
    def measure() -> dict[str, Lines]:
        earlier = committed().get((part.name, case.key, kind, account, epsilon))
        if earlier is not None and earlier["repetitions"] >= times:
            return {name: earlier[name] for name in BASELINES if name in earlier}
        lines: dict[str, Lines] = {name: [dict(one)] for name, one in part.free(case, kind).items()}
        lines["mst"] = [part.plain(case, kind, case.synthetic(account, epsilon, seed)) for seed in range(times)]
        if account != "pure" or not part.needs_delta:
            lines["now"] = [part.now(case, kind, private(case, account), epsilon) for _ in range(times)]
        return lines

    return dict(kept(f"{_place(part.name, case, kind, account, epsilon)}-now-{VERSION}", times, measure))


def ours(part: Part, case: Any, kind: str, account: str, epsilon: float, times: int) -> Lines:
    def measure() -> Lines:
        return [part.ours(case, kind, private(case, account), epsilon) for _ in range(times)]

    return list(kept(f"{_place(part.name, case, kind, account, epsilon)}-{source_of_product()}", times, measure))


def _place(name: str, case: Any, kind: str, account: str, epsilon: float) -> str:
    return f"{name}-{case.key}-{kind}-{account}-{epsilon:g}"


def cells_of(part: Part, case: Any, times: int, *, only_baselines: bool) -> list[Cell]:
    """All cells of a part, also those that were not measured: they have no figures."""
    cells = []
    for epsilon, account, kind in itertools.product(part.epsilons, DELTAS, MODELS if part.by_model else ("rule",)):
        cell: Cell = {"part": part.name, "table": case.key, "rows": case.size, "model": kind, "account": account}
        cell["epsilon"] = epsilon
        cells.append(cell)
        with suppress(NotMeasured):
            before = baselines(part, case, kind, account, epsilon, times)
            if only_baselines:
                cell |= before
                continue
            mine = ours(part, case, kind, account, epsilon, times)
            cell |= {**before, "ours": mine, "repetitions": len(mine)}
    return cells


def batch_before(case: Any, kind: str, account: str, times: int) -> Lines:
    earlier = committed().get(("batch", case.key, kind, account, everything_batch.EPSILON))
    if earlier is not None and earlier["repetitions"] >= times:
        return list(earlier["now"])
    return [everything_batch.alone(case, kind, account) for _ in range(times)]


def batches_of(case: Any, times: int, *, only_baselines: bool) -> list[Cell]:
    cells, epsilon = [], everything_batch.EPSILON
    for account, kind in itertools.product(DELTAS, MODELS):
        place = _place("batch", case, kind, account, epsilon)
        cell: Cell = {"part": "batch", "table": case.key, "rows": case.size, "model": kind, "account": account}
        cell["epsilon"] = epsilon
        cells.append(cell)
        with suppress(NotMeasured):
            before = kept(
                f"{place}-now-{VERSION}",
                times,
                lambda kind=kind, account=account: batch_before(case, kind, account, times),
            )
            if only_baselines:
                cell["now"] = before
                continue
            mine = kept(
                f"{place}-{source_of_product()}",
                times,
                lambda kind=kind, account=account: [everything_batch.batch(case, kind, account) for _ in range(times)],
            )
            cell |= {"now": before, "ours": mine, "repetitions": len(mine)}
    return cells


# Figures --------------------------------------------------------------------------------------------------------------


def root(lines: Lines, figure: str = "error") -> float:
    return float(np.sqrt(np.mean([line[figure] ** 2 for line in lines])))


def mean(lines: Lines, figure: str = "error") -> float:
    return float(np.mean([line[figure] for line in lines]))


def geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")


def short(value: float) -> float:
    return float(f"{value:.4g}")


def name_of(cell: Cell) -> str:
    return f"{cell['table']}, {cell['model']}, {cell['account']}, epsilon {cell['epsilon']:g}"


def error_of(part: str, lines: Lines) -> float:
    """Of a cell: losses by their mean, other errors by their root mean square."""
    return mean(lines) if part == "local" else root(lines)


def summary_of_ratios(part: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """Local explanations and disparities: the error over that of the better baseline."""
    aim, limit = LIMITS[part]
    summary: dict[str, Any] = {"cells": len(cells)}
    for name in ("now", "mst", "zero"):
        some = [error_of(part, cell[name]) for cell in cells if name in cell]
        summary |= {f"error, {name}, geometric mean": short(geometric(some))} if some else {}
    judged = [cell for cell in cells if "ours" in cell]
    if not judged:
        return summary
    ratios = {name_of(c): _ratio(part, c) for c in judged}
    summary |= {"geometric mean of ratios": short(geometric(list(ratios.values()))), "aim": aim}
    summary["reached"] = bool(geometric(list(ratios.values())) <= aim)
    if part == "disparity":
        worse = {name_of(c): short(root(c["ours"]) / root(c["zero"])) for c in judged}
        summary["above the error of saying zero"] = {n: r for n, r in worse.items() if r > limit}
    else:
        summary[f"cells above {limit}"] = {n: short(r) for n, r in ratios.items() if r > limit}
    summary["worst cells"] = {n: short(r) for n, r in sorted(ratios.items(), key=lambda pair: -pair[1])[:8]}
    return summary


def _ratio(part: str, cell: Cell) -> float:
    return error_of(part, cell["ours"]) / min(error_of(part, cell[name]) for name in ("now", "mst") if name in cell)


def summary_of_importance(_: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """Concordance, beside two standard errors of the difference."""
    summary: dict[str, Any] = {"cells": len(cells)}
    for name in ("now", "mst", "ours"):
        some = [mean(cell[name], "concordance") for cell in cells if name in cell]
        summary |= {f"concordance, {name}": short(float(np.mean(some)))} if some else {}
    judged = [cell for cell in cells if "ours" in cell]
    if judged:
        below = {name_of(c): short(d) for c in judged if (d := _lead(c)[0]) < 0}
        beyond = {name_of(c): short(_lead(c)[0]) for c in judged if sum(_lead(c)) < 0}
        summary |= {"below now": below, "below now beyond two standard errors": beyond, "reached": not beyond}
    return summary


def _lead(cell: Cell) -> tuple[float, float]:
    """How much more concordance, and two standard errors of that."""
    one, two = ([line["concordance"] for line in cell[name]] for name in ("ours", "now"))
    spread = np.sqrt(np.var(one, ddof=1) / len(one) + np.var(two, ddof=1) / len(two)) if len(one) > 1 else 0.0
    return float(np.mean(one) - np.mean(two)), 2 * float(spread)


def summary_of_clusters(_: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """The smallest epsilon from which on the mean quality is enough, between those measured by straight lines."""
    lines: dict[str, Any] = {}
    for account, table in dict.fromkeys((c["account"], c["table"]) for c in cells):
        mine = sorted((c for c in cells if (c["account"], c["table"]) == (account, table)), key=lambda c: c["epsilon"])
        line: dict[str, Any] = {"domain alone": short(mean(mine[0]["domain"]))}
        for name in ("now", "mst", "ours"):
            known = [(c["epsilon"], mean(c[name])) for c in mine if name in c]
            if known:
                line[name] = {f"{epsilon:g}": short(quality) for epsilon, quality in known}
                line[f"epsilon for {ENOUGH}, {name}"] = enough(known)
        if "ours" in line:
            needs = [line[f"epsilon for {ENOUGH}, {name}"] for name in ("ours", "now")]
            line["ratio"] = None if None in needs else short(needs[0] / needs[1])
            line["below the domain alone"] = [e for e, q in line["ours"].items() if q < line["domain alone"]]
        lines[f"{account}, {table}"] = line
    ratios = [line["ratio"] for line in lines.values() if line.get("ratio")]
    aim = LIMITS["clusters"][0]
    reached = {"ratio, geometric mean": short(geometric(ratios)), "aim": aim, "reached": geometric(ratios) <= aim}
    return lines | (reached if ratios else {})


def enough(known: Sequence[tuple[float, float]]) -> float | None:
    """Where the quality passes what is enough for good; None where it never does."""
    low = [place for place, (_, quality) in enumerate(known) if quality < ENOUGH]
    if not low:
        return known[0][0]
    if low[-1] == len(known) - 1:
        return None
    (a, below), (b, above) = known[low[-1]], known[low[-1] + 1]
    part = (ENOUGH - below) / max(above - below, 1e-12)
    return short(float(np.exp(np.log(a) + part * (np.log(b) - np.log(a)))))


def summary_of_batch(_: str, cells: Sequence[Cell]) -> dict[str, Any]:
    judged = [cell for cell in cells if "ours" in cell]
    names = list(dict.fromkeys(name for cell in cells for name in cell["now"][0]))
    summary: dict[str, Any] = {
        f"error alone, {name}": short(geometric([_of(c, "now", name) for c in cells if name in c["now"][0]]))
        for name in names
    }
    if judged:
        ratios = {
            f"{name_of(c)}, {name}": _of(c, "ours", name) / _of(c, "now", name) for c in judged for name in c["now"][0]
        }
        by = {n: short(geometric([r for k, r in ratios.items() if k.endswith(f", {n}")])) for n in names}
        summary |= {"together / alone, geometric mean": short(geometric(list(ratios.values()))), "aim": 0.8, "by": by}
        summary["above 1.1"] = {name: short(ratio) for name, ratio in ratios.items() if ratio > 1.1}
    return summary


def _of(cell: Cell, side: str, name: str) -> float:
    return error_of("local" if name == "local" else "batch", [line[name] for line in cell[side]])


def summary_of_forecasts(cells: Sequence[Cell]) -> dict[str, Any]:
    ratios = {}
    for cell in (c for c in cells if "ours" in c):
        for name in (n for n, figures in cell["ours"][0].items() if {"forecast", "far"} <= set(figures)):
            lines = [line[name] for line in cell["ours"]]
            ratios[f"{name_of(cell)}, {name}"] = mean(lines, "forecast") / max(mean(lines, "far"), 1e-12)
    if not ratios:
        return {}
    inside = float(np.mean([1 / WITHIN <= ratio <= WITHIN for ratio in ratios.values()]))
    told = {name: short(ratio) for name, ratio in ratios.items()}
    return {f"share within {WITHIN}": short(inside), "aim": OFTEN, "reached": inside >= OFTEN, "forecast / far": told}


def summary_of_coverage(cells: Sequence[Cell]) -> dict[str, Any]:
    """Every interval: of ours, and of the releases before."""
    summary: dict[str, Any] = {}
    for side in ("now", "ours"):
        found: dict[str, float] = {}
        for cell in (c for c in cells if side in c):
            lines = [line if cell["part"] == "batch" else {cell["part"]: line} for line in cell[side]]
            for name in lines[0]:
                some = [line[name]["coverage"] for line in lines if "coverage" in line.get(name, {})]
                if some:
                    found[f"{cell['part']}, {name_of(cell)}, {name}"] = float(np.mean(some))
        if found:
            out = {name: short(held) for name, held in found.items() if not LOWEST <= held <= HIGHEST}
            below = {name: held for name, held in out.items() if held < LOWEST}
            summary[side] = {"cells": len(found), "mean": short(float(np.mean(list(found.values()))))}
            summary[side] |= {f"cells below {LOWEST}": below, f"cells above {HIGHEST}": len(out) - len(below)}
    return summary


SUMMARIES: Mapping[str, Callable[[str, Sequence[Cell]], dict[str, Any]]] = {
    "local": summary_of_ratios,
    "disparity": summary_of_ratios,
    "importance": summary_of_importance,
    "clusters": summary_of_clusters,
    "batch": summary_of_batch,
}


# Running --------------------------------------------------------------------------------------------------------------


def run(options: Namespace) -> None:
    names = options.only.split(",") if options.only else list(ALL)
    unknown = [name for name in names if name not in ALL]
    if unknown:
        raise SystemExit(f"--only knows {', '.join(ALL)}; not {', '.join(unknown)}")
    keys, times = (["german"], 2) if options.quick else (list(TABLES), options.repetitions or REPETITIONS)
    keys = options.tables.split(",") if options.tables else keys
    wanted = [name for name in (*PARTS, "batch") if name in names or "coverage" in names]
    wanted += ["batch"] if "forecasts" in names and "batch" not in wanted else []
    ONLY_KEPT[:] = [True] if options.kept else []
    every: list[Cell] = []
    for key in keys:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case: Any = Named.of(key, options.data) if options.kept else Whole.load(key, options.data)
            for name in wanted:
                how = {"only_baselines": options.baselines}
                every += cells_of(PARTS[name], case, times, **how) if name in PARTS else batches_of(case, times, **how)
        case.forget()
    if options.kept:
        every = [c | {"commit": report.commit()} if "ours" in c else committed().get(place_of(c), c) for c in every]
    cells, missing = [c for c in every if measured(c)], [f"{c['part']}, {name_of(c)}" for c in every if not measured(c)]
    summary = {name: SUMMARIES[name](name, [c for c in cells if c["part"] == name]) for name in wanted}
    summary["forecasts"] = summary_of_forecasts([c for c in cells if c["part"] == "batch"])
    summary["coverage"] = summary_of_coverage(cells)
    if (options.tables or options.baselines or set(names) != set(ALL)) and not options.kept:
        print(json.dumps(summary, indent=1))
        return  # what was measured is kept; a run of everything writes it down
    figure: Figure | None = None if options.quick else figure_of(cells)
    about = {"baselines of the commit": BASELINES_OF, "cells": len(cells), "cells that were not measured": missing}
    report.write("posterior-everything", options, {"measured": about, "summary": summary, "cells": cells}, figure)


def measured(cell: Cell) -> bool:
    return "ours" in cell or "now" in cell or "mst" in cell
