"""How far synthetic rows of a stand-in are from the table: errors of columns and of pairs, beside MST rows.

The error of a column (a pair) is the total variation distance between the table and as many synthetic rows, over about
8 public cells of each column, which are not those of the release; means over all columns (pairs). Both grades, the one
that `grade="auto"` takes, and MST (`bench/synthetic.py`) at the same epsilon, replace-one, with delta 1e-6 and pure.
`worth` is what the result says of itself. Shares of the price, cells and the rule for the grade were chosen by such
runs on these tables: they are not held out. `--part mbi` compares the fit of a tree with that of MST's authors
(bench/stand_in_mbi.py).
"""

from __future__ import annotations

import itertools
import warnings
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.progress import track

import dpexplain as dpx
from bench import performance_tables, report
from bench.performance_tables import Judged
from bench.synthetic import Coding, cells_at, mst_rows
from dpexplain.maths.grids import Partition

TABLES, EPSILONS, DELTAS, RELEASES = ("adult", "framingham", "german"), (0.1, 0.3, 1.0, 3.0), (1e-6, None), 4
CELLS = 8  # by which rows are compared
Codes = Mapping[str, NDArray[np.int64]]


def run(options: Namespace) -> None:
    if options.part == "mbi":
        from bench import stand_in_mbi

        stand_in_mbi.run(options)
        return
    lines: list[dict[str, Any]] = []
    quick = options.quick
    cases = list(itertools.product(TABLES[2:] if quick else TABLES, DELTAS, EPSILONS[2:3] if quick else EPSILONS))
    known: dict[str, Judged] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpx.errors.BudgetWarning)  # a ledger of its own for every case
        for name, delta, epsilon in track(cases, description="stand-in"):
            known.setdefault(name, getattr(performance_tables, name)(options.data))
            lines.append(_measured(known[name], delta, epsilon, 1 if quick else RELEASES))
    ratios = [line["auto"]["pairs"] / line["mst"]["pairs"] for line in lines]
    summary = {
        "error of pairs, auto / MST rows: geometric mean": round(float(np.exp(np.mean(np.log(ratios)))), 3),
        "largest": round(max(ratios), 3),
        "smallest": round(min(ratios), 3),
        "releases": RELEASES,
    }
    report.write("stand_in", options, {"summary": summary, "lines": lines}, None if quick else _figure(lines))


def _measured(judged: Judged, delta: float | None, epsilon: float, releases: int) -> dict[str, Any]:
    coding = Coding.of(judged.domain, CELLS)
    exact = _by_column(coding.partitions, coding.codes(judged.frame))
    table = dpx.PrivateTable(
        judged.frame, domain=judged.domain, budget=dpx.Budget(10_000, delta), relation="replace-one",
        ledger="sqlite:///:memory:", name=judged.name,
    )  # fmt: skip
    fine = Coding.of(judged.domain, cells_at(epsilon))
    codes, found = fine.codes(judged.frame), list[Any]()

    def ours(grade: Any, seed: int) -> Codes:
        released = dpx.stand_in(table, epsilon=epsilon * (1 + seed * 1e-9), grade=grade)  # else it would be replayed
        found.append(released)
        drawn = released.draw(len(judged.frame), seed)
        return {cells.feature: cells.place(drawn[cells.feature]) for cells in coding.partitions}

    def mst(seed: int) -> Codes:
        rows = fine.frame(mst_rows(codes, fine.sizes, epsilon, delta, seed), seed)
        return _by_column(coding.partitions, coding.codes(rows))

    ways: dict[str, Callable[[int], Codes]] = {
        "marginals": lambda seed: ours("marginals", seed),
        "tree": lambda seed: ours("tree", seed),
        "mst": mst,
    }
    line: dict[str, Any] = {"table": judged.name, "delta": delta, "epsilon": epsilon}
    for way, draw in ways.items():
        errors = [_errors(coding.partitions, exact, draw(seed)) for seed in range(releases)]
        columns, pairs = np.mean(errors, axis=0)
        line[way] = {"columns": round(float(columns), 4), "pairs": round(float(pairs), 4)}
        if way != "mst":
            line[way]["worth"] = round(float(np.mean([one.worth for one in found[-releases:]])), 1)
    chosen = dpx.stand_in(table, epsilon=epsilon * (1 + 1e-8)).grade
    table.ledger.close()
    return {**line, "chosen": chosen, "auto": line[chosen]}


def _by_column(partitions: Sequence[Partition], codes: NDArray[np.int64]) -> Codes:
    return {cells.feature: column for cells, column in zip(partitions, codes.T, strict=True)}


def _errors(partitions: Sequence[Partition], one: Codes, two: Codes) -> tuple[float, float]:
    """The mean total variation distance of columns, and of pairs of columns."""

    def shares(rows: Codes, *cells: Partition) -> NDArray[np.float64]:
        place = np.zeros(len(next(iter(rows.values()))), dtype=np.int64)
        for partition in cells:
            place = place * partition.size + rows[partition.feature]
        return np.bincount(place, minlength=int(np.prod([c.size for c in cells]))) / len(place)

    def apart(*cells: Partition) -> float:
        return float(np.abs(shares(one, *cells) - shares(two, *cells)).sum()) / 2

    pairs = [apart(a, b) for a, b in itertools.combinations(partitions, 2)]
    return float(np.mean([apart(cells) for cells in partitions])), float(np.mean(pairs))


def _figure(lines: Sequence[Mapping[str, Any]]) -> Figure:
    names = list(dict.fromkeys(line["table"] for line in lines))
    figure = Figure(figsize=(3.2 * len(names), 3.6), layout="constrained")
    for ax, name in zip(np.atleast_1d(figure.subplots(1, len(names), sharey=True)), names, strict=True):
        for delta, style in ((1e-6, "-"), (None, "--")):
            mine = [line for line in lines if line["table"] == name and line["delta"] == delta]
            for way, colour in (("marginals", "#9dc3e6"), ("tree", "#1f4e79"), ("mst", "#c55a11")):
                label = f"{'MST rows' if way == 'mst' else way}, {'pure' if delta is None else 'delta 1e-6'}"
                x, y = [line["epsilon"] for line in mine], [line[way]["pairs"] for line in mine]
                ax.plot(x, y, "o" + style, color=colour, label=label, markersize=3)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(name)
        ax.set_xlabel("epsilon")
        ax.grid(alpha=0.25)
    figure.axes[0].set_ylabel("error of a pair of columns (total variation)")
    figure.axes[-1].legend(fontsize=6)
    return figure
