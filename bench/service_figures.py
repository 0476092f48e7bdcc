"""The pictures of `bench service`, one for each part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#1f4e79", "#c55a11", "#a6a6a6"


def _axes(height: float = 2.6) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7, height), layout="constrained")
    return figure, figure.add_subplot()


def local(content: dict[str, Any]) -> Figure:
    """Each target beside what was measured, as shares of the target."""
    figure, ax = _axes(2.2)
    facts = content["summary"]
    lines = [
        ("requests a second", facts["rate"], facts["target rate"]),
        ("p99, ms", facts["p99_ms"], facts["target p99_ms"]),
    ]
    for place, (_, value, target) in enumerate(lines):
        ax.barh(place, value / target, color=BLUE)
        ax.text(value / target, place, f"  {value:.4g} (target {target:g})", va="center")
    ax.axvline(1, color=ORANGE, label="target")
    ax.set_yticks(range(len(lines)), [name for name, *_ in lines])
    ax.set_xlim(0, 1.6 * max(1.0, *(value / target for _, value, target in lines)))
    ax.set_xlabel(f"share of the target, {facts['clients']} clients")
    ax.legend(fontsize=8)
    return figure


def crowd(content: dict[str, Any]) -> Figure:
    """What became of the requests."""
    figure, ax = _axes(2.2)
    for place, facts in enumerate(content["summary"].values()):
        start = 0
        for name, color in (("done", BLUE), ("refused", GREY)):
            ax.barh(place, facts["answers"][name], left=start, color=color, label=name if place == 0 else None)
            start += facts["answers"][name]
        told = f"  {facts['ledger']['released']} in the ledger, {facts['overdrawn']} overdrawn"
        ax.text(start, place, told, va="center")
    ax.set_yticks(range(len(content["summary"])), list(content["summary"]))
    ax.set_xlim(0, 1.7 * start)
    ax.set_xlabel("requests of 64 analysts at once")
    ax.legend(fontsize=8, loc="lower right")
    return figure


def kills(content: dict[str, Any]) -> Figure:
    """Where the kills fell, and what was charged."""
    figure, ax = _axes()
    names = [name for name in content["summary"] if name != "reached"]
    for place, name in enumerate(reversed(names)):
        value = content["summary"][name]
        ax.barh(place, value, color=ORANGE if name.startswith("kill") else BLUE)
        ax.text(value, place, f"  {value}", va="center")
    ax.set_yticks(range(len(names)), list(reversed(names)))
    ax.set_xlim(0, 1.2 * content["summary"]["kills"])
    return figure


def soak(content: dict[str, Any]) -> Figure:
    """Memory over time."""
    figure, ax = _axes(3)
    memory, facts = content["memory_mib"], content["summary"]
    step = content["seconds"] / len(memory) / 60
    ax.plot([step * (place + 1) for place in range(len(memory))], memory, marker="o", color=BLUE)
    ax.set_ylim(0, 1.3 * max(memory))
    ax.set_xlabel("minutes at half load")
    ax.set_ylabel("memory of all processes, MiB")
    ax.set_title(f"{facts['requests']:,} requests, {facts['errors']} errors", fontsize=10)
    return figure


def console(content: dict[str, Any]) -> Figure:
    """Each page: the median of many requests, and the first one."""
    lines = list(reversed(content["lines"]))
    figure, ax = _axes(0.8 + 0.3 * len(lines))
    for place, line in enumerate(lines):
        ax.plot([line["median"], line["first"]], [place, place], color=GREY, zorder=1)
    ax.scatter([line["median"] for line in lines], range(len(lines)), color=BLUE, label="median", zorder=2)
    ax.scatter([line["first"] for line in lines], range(len(lines)), color=ORANGE, label="first request", zorder=2)
    ax.axvline(content["summary"]["target_ms"], color="black", linestyle=":", label="target")
    ax.set_yticks(range(len(lines)), [line["page"] for line in lines])
    ax.set_xlim(left=0)
    ax.set_xlabel(f"milliseconds of server time, {content['summary']['releases']:,} releases in the account")
    ax.legend(fontsize=8)
    return figure


FIGURES: dict[str, Callable[[dict[str, Any]], Figure]] = {"local": local, "crowd": crowd, "kills": kills, "soak": soak}
