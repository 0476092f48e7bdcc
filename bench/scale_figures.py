"""The pictures of `python -m bench scale`."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

OURS, OTHER, LIGHT = "#1f4e79", "#c55a11", "#9dc3e6"
COLOURS = ("#1f4e79", "#c55a11", "#548235", "#7f6000", "#7030a0", "#9dc3e6")


def rows(content: dict[str, Any]) -> Figure:
    """Processor seconds of the passes, and peak memory, by the number of rows."""
    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    time, memory = figure.subplots(1, 2)
    slopes, what = content["summary"]["slopes_of_processor_time_of_passes"], "passes_processor"
    for (kind, cells), colour in zip(content["cells"].items(), COLOURS, strict=True):
        sizes = [int(size) for size in cells]
        time.plot(sizes, [one[what] for one in cells.values()], "o-", color=colour, label=f"{kind}: {slopes[kind]:.2f}")
        memory.plot(sizes, [one["peak_mib"] for one in cells.values()], "o-", color=colour)
    time.set(xscale="log", yscale="log", xlabel="rows", ylabel="processor seconds of the passes over the rows")
    time.legend(title="slope from 10^5 rows", fontsize=8, title_fontsize=8)
    memory.axhline(content["summary"]["limit_mib"], color="#555555", linestyle="--")
    memory.set(xscale="log", xlabel="rows", ylabel="peak MiB (dashed: 1 GiB)")
    memory.set_ylim(0)
    return figure


def cores(content: dict[str, Any]) -> Figure:
    figure, ax = _axes(2.6)
    for place, (name, seconds) in enumerate(content["seconds"].items()):
        ax.plot(seconds, [place] * len(seconds), "o", color=OTHER if name.startswith("bare") else OURS, alpha=0.7)
    names = {"one": "ours, one core", "all": "ours, all cores", "bare one": "predictions, one core"}
    names["bare all"] = "predictions, all cores"
    ax.set_yticks(range(len(content["seconds"])), [names[name] for name in content["seconds"]])
    return _finished(figure, ax, "seconds, one dot a round")


def spark(content: dict[str, Any]) -> Figure:
    summary = content["summary"]
    bars = {
        "forest, Spark": summary["forest"]["spark"],
        "forest, local engine": summary["forest"]["local_engine"],
        "small kernel, Spark": summary["kernel"]["spark"],
        "the same mapInArrow without us": summary["kernel"]["bare_mapInArrow"],
        "small kernel, local engine": summary["kernel"]["local_engine"],
        "one explanation of 2,000 rows, Spark": summary["explanation_of_2000_rows"]["spark"],
        "one explanation of 2,000 rows, local engine": summary["explanation_of_2000_rows"]["local_engine"],
    }
    return _bars(bars, f"seconds, {summary['rows']:,} rows where nothing else is said")


def wide(content: dict[str, Any]) -> Figure:
    summary = content["summary"]
    names = {"scan": "pyarrow's scan", "bincount": "scan and numpy's bincount", "marginals": "marginals"}
    names["clusters"] = "explained clusters"
    bars = {names[name]: seconds for name, seconds in summary["processor_seconds"].items()}
    return _bars(bars, f"processor seconds, {summary['rows']:,} rows x {summary['columns']} columns", others=2)


def csv(content: dict[str, Any]) -> Figure:
    summary = content["summary"]
    bars = {f"{name}, {what}": summary[what][name] for what in ("seconds", "processor") for name in ("parquet", "csv")}
    return _bars(bars, f"seconds of marginals of {summary['rows']:,} rows")


def _bars(bars: dict[str, float], label: str, others: int = 0) -> Figure:
    figure, ax = _axes(1.1 + 0.32 * len(bars))
    colours = [OTHER if place < others or "without us" in name else OURS for place, name in enumerate(bars)]
    drawn = ax.barh(list(bars), list(bars.values()), color=colours)
    ax.bar_label(drawn, fmt="%.2f", padding=3, fontsize=8)
    ax.margins(x=0.1)
    return _finished(figure, ax, label)


def _axes(height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(7.5, height), layout="constrained")
    return figure, figure.add_subplot()


def _finished(figure: Figure, ax: Any, label: str) -> Figure:
    ax.set_xlim(0)
    ax.invert_yaxis()
    ax.set_xlabel(label)
    return figure
