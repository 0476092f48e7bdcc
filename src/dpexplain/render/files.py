"""Results as files: a .json with the receipt and a .png for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from dpexplain.core.canonical import digest
from dpexplain.render.plots import save_png
from dpexplain.results import Curve, MeanCurve, Result


def write_results(results: Sequence[Result], folder: Path, *, pictures: bool = True) -> list[Path]:
    """Write each result; the paths of the .json files. Names come from the features, made safe for a file system."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for result in results:
        name = result.feature.replace(" x ", "-x-") if isinstance(result, Curve) else result.kind
        if isinstance(result, Curve) and result.kind != MeanCurve.kind:  # partial dependence has the plain names
            name = f"{result.kind}-{name}"
        name = re.sub(r"[^\w-]+", "_", name).strip("_") or result.kind
        if len(name.encode()) > 120:
            name = f"{name[:24]}-{digest(name)[:12]}"
        path, number = folder / f"{name}.json", 2
        while path in paths:
            path, number = folder / f"{name}-{number}.json", number + 1
        result.to_json(path)
        if pictures:
            save_png(result, path.with_suffix(".png"))
        paths.append(path)
    return paths
