"""Time and memory by the number of rows: beyond memory, both cores, Spark (`--part rows, cores, spark, wide, csv`).

    rows   six explainers, 10^4 to 10^7 rows of eight columns: seconds of the call and of its passes over the rows, and
           the slope of the logarithms from 10^5 rows on; peak memory
    cores  partial dependence of a random forest on one core and on all; beside it what the same cores give to the bare
           predictions in threads, and how much of the work one thread does (checks of the model, whatever the rows)
    spark  local[2] after its start, against the local engine (a forest) and against the same mapInArrow without us (a
           kernel that does next to nothing); what one explanation of a small table takes
    wide   marginals and explained clusters over 100 million rows of twenty columns, against pyarrow's scan of them
    csv    marginals of a million rows from CSV, against Parquet

Every measurement is a process of its own and is kept in bench/cache, which git ignores: `--only NAME,NAME` measures
some of a part and writes no results, `--kept` takes what earlier runs have measured, so a run that was cut off goes on.
Each says how busy the machine was before (`load_before`: processes that wanted a core); where others worked beside it,
only processor seconds mean something.
`--folder` says where the tables are written and stay (default: a temporary folder; the wide one takes 2.5 GB).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import report, scale_figures, scale_tables

CACHE = Path(__file__).parent / "cache" / "scale"
KINDS = ("curve", "effects", "clusters", "sketch", "stand-in", "groups")
PARTS = ("rows", "cores", "spark", "wide", "csv")
SMALL = 2_000
LIMIT_MIB = 1024
SLOPE_FROM = 10**5
ROUNDS, CORE_ROUNDS = 3, 5


@dataclass(frozen=True)
class Run:
    """Where the tables of a run are, and which measurements it makes."""

    folder: Path
    quick: bool
    kept: bool
    only: tuple[str, ...]

    def cell(self, name: str, job: dict[str, Any], rounds: int = 1) -> dict[str, Any] | None:
        """What a process of its own measures: of several rounds the middle one by processor time. None where it is not
        asked for and was not kept.
        """
        place = CACHE / f"{name}.json"
        if self.kept and place.exists():
            return dict(json.loads(place.read_text()))
        if self.only and name not in self.only:
            return None
        busy = os.getloadavg()[0]
        found = sorted((self._measured(name, job) for _ in range(rounds)), key=lambda one: one.get("processor", 0.0))
        cell = found[rounds // 2] | {"commit": report.commit(), "load_before": round(busy, 1)}
        print(name, {key: round(value, 3) for key, value in cell.items() if isinstance(value, float)}, flush=True)
        if not self.quick:
            CACHE.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(cell))
        return cell

    @staticmethod
    def _measured(name: str, job: dict[str, Any]) -> dict[str, Any]:
        command = [sys.executable, "-m", "bench.scale_child", json.dumps(job)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stderr[-2000:]}")
        return dict(json.loads(done.stdout.splitlines()[-1]))

    def narrow(self, rows: int) -> str:
        return str(scale_tables.narrow(self.folder, rows))

    @property
    def small(self) -> str:
        return self.narrow(SMALL)


def run(options: Namespace) -> None:
    parts = PARTS if options.part == "all" else [options.part]
    with _folder(options) as folder:
        started = Run(folder, options.quick, options.kept, tuple(filter(None, options.only.split(","))))
        for part in parts:
            content = globals()[f"_{part.replace('-', '_')}"](started)
            if content is None:
                print(f"{part}: what was measured is kept; a run without --only writes it down")
                continue
            figure = None if options.quick else getattr(scale_figures, part)(content)
            options.part = part
            report.write(f"scale-{part}", options, content, figure)


@contextmanager
def _folder(options: Namespace) -> Iterator[Path]:
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        yield options.folder
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


# The parts ------------------------------------------------------------------------------------------------------------


def _rows(run: Run) -> dict[str, Any] | None:
    sizes = (10**4, 10**5) if run.quick else (10**4, 10**5, 10**6, 10**7)
    cells: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
    missing = False
    imports = run.cell("rows-imports", {"what": "imports"})
    for rows in sizes:
        for kind in KINDS:
            name = f"rows-{kind}-{rows}"
            job = {"what": kind, "source": run.narrow(rows), "warm": run.small}
            rounds = ROUNDS if rows < 10**6 and not run.quick else 1  # short ones
            missing |= (found := run.cell(name, job, rounds)) is None
            cells[kind][str(rows)] = found
    if missing or imports is None:
        return None
    peaks = {kind: {rows: round(one["peak_mib"]) for rows, one in cells[kind].items()} for kind in KINDS}
    summary = {
        "columns": len(scale_tables.narrow_domain()),
        "slopes_of_passes": {kind: _slope(cells[kind], "passes") for kind in KINDS},
        "slopes_of_processor_time_of_passes": {kind: _slope(cells[kind], "passes_processor") for kind in KINDS},
        "slopes_of_calls": {kind: _slope(cells[kind], "seconds") for kind in KINDS},
        "slope_from": SLOPE_FROM,
        "seconds_at_most_rows": {kind: round(cells[kind][str(sizes[-1])]["seconds"], 2) for kind in KINDS},
        "peak_mib": peaks,
        "peak_mib_of_importing_alone": round(imports["peak_mib"]),
        "largest_peak_mib": max(max(one.values()) for one in peaks.values()),
        "limit_mib": LIMIT_MIB,
    }
    return {"summary": summary, "cells": cells}


def _slope(cells: dict[str, dict[str, float]], what: str) -> float | None:
    """Of the logarithm of time by that of rows, by least squares."""
    points = [(int(rows), one[what]) for rows, one in cells.items() if int(rows) >= SLOPE_FROM]
    if len(points) < 2:
        return None
    return round(float(np.polyfit(*np.log10(np.array(points)).T, 1)[0]), 3)


def _cores(run: Run) -> dict[str, Any] | None:
    job = {"what": "cores", "rows": 5_000 if run.quick else 200_000, "points": 10, "trees": 25, "depth": 12}
    found = run.cell("cores", {**job, "rounds": 1 if run.quick else CORE_ROUNDS})
    if found is None:
        return None
    ratios = [a / b for a, b in zip(found["one"], found["all"], strict=True)]
    bare = [a / b for a, b in zip(found["bare one"], found["bare all"], strict=True)]
    summary = {
        **{key: job[key] for key in ("rows", "points", "trees", "depth")},
        "speedup": round(statistics.median(ratios), 2),
        "speedup_of_bare_predictions_in_threads": round(statistics.median(bare), 2),
        "share_of_the_callers_thread": round(statistics.median(found["caller"]), 3),
        "asked": 1.7,
    }
    return {"summary": summary, "seconds": {key: found[key] for key in ("one", "all", "bare one", "bare all")}}


def _spark(run: Run) -> dict[str, Any] | None:
    rows = 10**5 if run.quick else 10**7
    forest = {"source": run.narrow(rows), "warm": run.small, "trees": 5, "depth": 6, "points": 4}
    cells = {
        name: run.cell(f"spark-{name}", {"what": f"spark-{name}", **forest})
        for name in ("forest", "forest-local", "kernel", "kernel-local", "one", "one-local")
    }
    if not all(cells.values()):
        return None
    found: dict[str, Any] = cells
    summary = {
        "rows": rows,
        **{key: forest[key] for key in ("trees", "depth", "points")},
        "start_of_the_session": round(found["forest"]["start"], 1),
        "forest": _against(found["forest"]["seconds"], found["forest-local"]["seconds"], "local_engine"),
        "kernel": {
            **_against(found["kernel"]["ours"]["seconds"], found["kernel"]["bare"]["seconds"], "bare_mapInArrow"),
            "local_engine": round(found["kernel-local"]["ours"]["seconds"], 2),
        },
        "explanation_of_2000_rows": _against(found["one"]["seconds"], found["one-local"]["seconds"], "local_engine"),
        "asked": 2,
    }
    return {"summary": summary, "cells": cells}


def _against(ours: float, other: float, name: str) -> dict[str, float]:
    return {"spark": round(ours, 2), name: round(other, 2), "ratio": round(ours / other, 2)}


def _wide(run: Run) -> dict[str, Any] | None:
    rows = 2 * 10**5 if run.quick else 10**8
    source = scale_tables.wide(run.folder, rows)
    warm = str(scale_tables.wide(run.folder, SMALL))
    size = sum(file.stat().st_size for file in source.iterdir())
    jobs = {
        "scan": {"what": "scan", "rows": rows},
        "bincount": {"what": "bincount"},
        "marginals": {"what": "marginals", "wide": True, "warm": warm},
        "clusters": {"what": "clusters-wide", "warm": warm},
    }
    cells = {name: run.cell(f"wide-{name}", {**job, "source": str(source)}) for name, job in jobs.items()}
    if not all(cells.values()):
        return None
    found: dict[str, Any] = cells
    summary = {
        "rows": rows,
        "columns": len(scale_tables.wide_domain()),
        "file_mib": round(size / 2**20),
        "seconds": {name: round(one["seconds"], 1) for name, one in found.items()},
        "processor_seconds": {name: round(one["processor"], 1) for name, one in found.items()},
        "against_the_scan": {name: _ratio(found, name, "seconds") for name in ("marginals", "clusters")},
        "processor_against_the_scan": {name: _ratio(found, name, "processor") for name in ("marginals", "clusters")},
        "peak_mib": {name: round(one["peak_mib"]) for name, one in found.items()},
        "asked": 2,
    }
    return {"summary": summary, "cells": cells}


def _ratio(found: dict[str, Any], name: str, what: str) -> float:
    return round(found[name][what] / found["scan"][what], 2)


def _csv(run: Run) -> dict[str, Any] | None:
    rows = 10**5 if run.quick else 10**6
    sources = {"parquet": run.narrow(rows), "csv": str(scale_tables.narrow_csv(run.folder, rows))}
    found: dict[str, list[Any]] = {name: [] for name in sources}
    for turn in range(1 if run.quick else ROUNDS):
        for name, source in sources.items():
            found[name].append(
                run.cell(f"csv-{name}-{turn}", {"what": "marginals", "source": source, "warm": run.small})
            )
    if any(one is None for cells in found.values() for one in cells):
        return None
    summary: dict[str, Any] = {"rows": rows, "columns": len(scale_tables.narrow_domain()), "asked": 3}
    for what in ("seconds", "processor"):
        middle = {name: statistics.median(one[what] for one in cells) for name, cells in found.items()}
        summary[what] = {name: round(value, 2) for name, value in middle.items()}
        summary[f"ratio_of_{what}"] = round(middle["csv"] / middle["parquet"], 2)
    return {"summary": summary, "cells": found}
