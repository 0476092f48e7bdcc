"""Writing results down: what was measured, on what, with which versions, by which command."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from argparse import Namespace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"
REAL = "models and data: fixed in bench/; noise: operating-system entropy, so a repetition differs"
SEEDED = "all fixed in bench/; seeded normal noise, rounded to whole numbers, stands for the exact sampler"
SIMULATED = ("showcase", "private_models", "adaptive", "starts")  # the benchmarks with such noise
MIXED = SEEDED + "; but for sketches: operating-system entropy"
RECORDS = ("audit", "audit-paper", "audit-words")


def write(name: str, options: Namespace, content: dict[str, Any], figure: Figure | None = None) -> None:
    """Print the headline and, unless quick, write NAME.json and NAME.png."""
    print(json.dumps(content.get("summary", content), indent=1))
    if options.quick:
        print("(quick form: nothing written)")
        return
    RESULTS.mkdir(exist_ok=True)
    document = {"about": about(options, name), **content}
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if figure is not None:
        FigureCanvasAgg(figure)
        figure.savefig(RESULTS / f"{name}.png", dpi=110)
    print(f"written: bench/results/{name}.json")


def about(options: Namespace, name: str) -> dict[str, Any]:
    """What was run. `name` is that of the file, of which a benchmark may write several."""
    flags = f" --explainer {options.explainer}" if options.name == "effects" else ""
    flags += f" --part {options.part}" if options.part != "all" else ""
    seeds = MIXED if name in RECORDS else SEEDED if options.name in SIMULATED else REAL
    packages = ("dpexplain", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "opendp", "sqlalchemy")
    return {
        "command": f"python -m bench {options.name}{flags}",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "python": sys.version.split()[0],
        "versions": {name: _version(name) for name in packages},
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
        "seeds": seeds,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def commit() -> str:
    try:
        return subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
