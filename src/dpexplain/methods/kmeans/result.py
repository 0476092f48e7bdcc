"""Centres of clusters that were found with noise, and the way from released numbers to them.

`Lloyd` is the public part of a differentially private k-means: where it starts, what a row adds, how the next centres
follow from noisy counts and sums. The release asks its questions by `walk`, and whoever reads a result walks the same
way through the stored answers. Centres are whole numbers of 1 / GRID in the coordinates of `Space`, and so is every
step between them: every computer finds the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Numeric
from dpexplain.core.noise import Noise, checked_level
from dpexplain.maths.grids import Partition
from dpexplain.maths.surrogate.sketch import GRID, POINTS, Histogram, grouped, middles, spread_points
from dpexplain.maths.surrogate.space import ONE, Space
from dpexplain.methods.result import Floats, Result
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Integers = NDArray[np.int64]
Ask = Callable[[str, Integers], tuple[Integers, Noise]]  # the noisy answer of a part, and the law of its noise

HALF, OWN = GRID // 2, round(ONE * GRID)  # the most that a numeric feature and a category can add to a sum
SURE = 2.0  # standard deviations that a count must have, or the centre stays where it is
SHARE = 2**20  # the weights of cells are whole numbers of 1 / SHARE
STARTS, GROUPING = 8, 20  # tries to group the cells, and rounds of each
MOST_CLUSTERS, MOST_ROUNDS = 100, 50
MOST_LINES, MARKS = 30, "os^Dv*PX<>"  # of a plot


def nearest(centres: Integers, places: Floats) -> Integers:
    """The nearest centre of each line of whole numbers, the first of several: exact, in whatever company a line is."""
    exact = centres.astype(np.float64)
    found: Integers = ((exact * exact).sum(axis=1) - 2 * (places @ exact.T)).argmin(axis=1)
    return found


def places_of(space: Space, columns: Any, size: int) -> Floats:
    """Clean columns as whole numbers of 1 / GRID, one line for each row."""
    return np.rint(space.coordinates(columns, size) * GRID)


@dataclass(frozen=True)
class Walk:
    """Where the rounds led: the centres, and the last question and answer."""

    centres: Integers
    before: Integers
    answer: Integers
    noise: Noise


@dataclass(frozen=True)
class Lloyd:
    """All that is public about the rounds.

    start       k centres that were given; None: cells are drawn, surveyed, and grouped into k
    cells       how many of them, drawn from `partitions`: by released histograms (`marginals`), or evenly
    weight      what a row adds to its count; to the sums it adds at most HALF or OWN for each feature
    """

    space: Space
    k: int
    start: tuple[tuple[int, ...], ...] | None
    cells: int
    partitions: tuple[Partition, ...]
    marginals: bool
    weight: int
    rounds: int
    seed: int

    @property
    def answers(self) -> int:
        """How many equal parts of the price the survey and the rounds are."""
        return self.rounds + (1 if self.start is None else 0)

    def size(self, centres: int) -> int:
        """How many numbers are asked about so many centres."""
        return centres * (1 + self.space.size)

    @cached_property
    def middle(self) -> Integers:
        """What is subtracted from coordinates before they are summed: the middle of a range, nothing for categories."""
        point = np.zeros(self.space.size, dtype=np.int64)
        for name, where in self.space.slices.items():
            point[where] = HALF if isinstance(self.space.domain[name], Numeric) else 0
        return point

    def walk(self, ask: Ask) -> Walk:
        """Ask for counts and sums around centres, again and again, each time around those that the answer led to."""
        if self.start is not None:
            centres = np.array(self.start, dtype=np.int64)
        else:
            cells = self._drawn(ask)
            centres = self.group(cells, *ask("survey", cells))
        for number in range(1, self.rounds + 1):
            before = centres
            answer, noise = ask(f"round-{number}", before)
            centres = self.step(before, answer, noise)
        return Walk(centres, before, answer, noise)

    def _drawn(self, ask: Ask) -> Integers:
        """Cells where the rows are, by what is known of each feature alone."""
        total = sum(partition.size for partition in self.partitions)
        counts = np.ones(total, dtype=np.int64)
        if self.marginals:
            noisy, noise = ask("marginals", np.empty(0, dtype=np.int64))
            counts = np.maximum(noisy - int(noise.std), 0)  # so that empty ones stay empty
        parts = np.split(counts, np.cumsum([p.size for p in self.partitions])[:-1])
        histograms = [
            Histogram(p.feature, middles(self.space, p.feature, p.labels), part)
            for p, part in zip(self.partitions, parts, strict=True)
        ]
        return grouped(spread_points(histograms, POINTS, self.seed), self.cells)

    def least(self, noise: Noise) -> int:
        """The least released count that moves a centre."""
        return max(self.weight, math.ceil(SURE * noise.std))

    def step(self, centres: Integers, answer: Integers, noise: Noise) -> Integers:
        """The mean of each cluster, inside the domain; a cluster whose count is lost in noise keeps its centre."""
        lines, least = answer.reshape(len(centres), 1 + self.space.size).tolist(), self.least(noise)
        moved = [
            self._mean(line[0], line[1:]) if line[0] >= least else old
            for old, line in zip(centres.tolist(), lines, strict=True)
        ]
        return np.array(moved, dtype=np.int64)

    def _mean(self, count: int, sums: list[int]) -> list[int]:
        """In whole numbers of Python, which have no largest one."""
        found: list[int] = []
        for name, where in self.space.slices.items():
            if isinstance(self.space.domain[name], Numeric):
                place = HALF + (2 * sums[where.start] * self.weight + count) // (2 * count)
                found.append(min(max(place, 0), GRID))
            else:  # shares of the categories: their own total is the better divisor
                own = [max(s, 0) for s in sums[where]]
                total = sum(own)
                found += [OWN * s // total for s in own] if total else [OWN // len(own)] * len(own)
        return found

    def group(self, cells: Integers, answer: Integers, noise: Noise) -> Integers:
        """k centres of the surveyed cells, each as heavy as its count: the best of several tries, all of them free."""
        counts = answer.reshape(len(cells), 1 + self.space.size)[:, 0].tolist()
        sure = [count if count >= self.least(noise) else 0 for count in counts]
        weights = np.array([max(SHARE * count // max(sum(sure), 1), 1) for count in sure], dtype=np.int64)
        points = self.step(cells, answer, noise)
        far = distances(points, points)
        tries = [chosen(far, weights, self.k, first) for first in np.argsort(-weights, kind="stable")[:STARTS]]
        found = [settled(points, weights, points[some]) for some in tries]
        best: Integers = min(found, key=lambda centres: spread(points, weights, centres))
        return best

    def to_json(self) -> JsonObject:
        return {
            "space": self.space.to_json(),
            "k": self.k,
            "start": None if self.start is None else [list(centre) for centre in self.start],
            "cells": self.cells,
            "partitions": [p.to_json() for p in self.partitions],
            "marginals": self.marginals,
            "weight": self.weight,
            "rounds": self.rounds,
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, value: JsonObject) -> Lloyd:
        start = value["start"]
        found = cls(
            Space.from_json(value["space"]),
            value["k"],
            None if start is None else tuple(tuple(map(int, centre)) for centre in start),
            value["cells"],
            tuple(Partition.from_json(p) for p in value["partitions"]),
            bool(value["marginals"]),
            value["weight"],
            value["rounds"],
            value["seed"],
        )
        numbers = (found.k, found.cells, found.weight, found.rounds, found.seed)
        ends = (MOST_CLUSTERS, 2**12, 2**24, MOST_ROUNDS, 2**62)
        if any(type(n) is not int or not 0 <= n <= end for n, end in zip(numbers, ends, strict=True)):
            raise ValueError("no rounds of ours")
        if not found.k or not found.weight or not found.rounds or (start is None and found.cells < found.k):
            raise ValueError("no rounds of ours")
        if found.start is not None and {len(found.start), *map(len, found.start)} != {found.k, found.space.size}:
            raise ValueError("no rounds of ours")
        return found


def distances(points: Integers, centres: Integers) -> Integers:
    """Squared, in units of 2^12 / GRID^2: a weight times a distance, added up over all points, fits into 64 bits."""
    p, c = points.astype(np.float64), centres.astype(np.float64)
    exact = (p * p).sum(axis=1)[:, None] + (c * c).sum(axis=1) - 2 * (p @ c.T)
    cut: Integers = exact.astype(np.int64) >> 12
    return cut


def chosen(far: Integers, weights: Integers, k: int, first: int) -> list[int]:
    """k points: the first one given, each next one where it brings all points nearest to their centres."""
    found, least = [int(first)], far[:, first]
    while len(found) < k:
        costs = (weights[:, None] * np.minimum(least[:, None], far)).sum(axis=0)
        costs[found] = np.iinfo(np.int64).max
        found.append(int(costs.argmin()))
        least = np.minimum(least, far[:, found[-1]])
    return found


def settled(points: Integers, weights: Integers, centres: Integers) -> Integers:
    """Lloyd's rounds over weighted points."""
    for _ in range(GROUPING):
        member = nearest(centres, points.astype(np.float64)) == np.arange(len(centres))[:, None]
        total = (member * weights).sum(axis=1)[:, None]
        sums = ((member * weights).astype(np.float64) @ points).astype(np.int64)  # below 2^53: exact
        centres = np.where(total > 0, sums // np.maximum(total, 1), centres)
    return centres


def spread(points: Integers, weights: Integers, centres: Integers) -> int:
    """The weighted sum of squared distances from points to their centres."""
    return int((weights * distances(points, centres).min(axis=1)).sum())


@dataclass(frozen=True)
class ClusterCentres(Result):
    """The centres of a differentially private k-means. `values` are in the units of the table; shares for categories.

    An interval is about the mean of the rows of a cluster as they were in the last round, when they were nearest to the
    centre of the round before; so are the numbers of rows.
    """

    labels: tuple[str, ...]

    kind: ClassVar[str] = "dp-kmeans"

    @cached_property
    def lloyd(self) -> Lloyd:
        return Lloyd.from_json(self.receipt.request["spec"]["lloyd"])

    @property
    def space(self) -> Space:
        return self.lloyd.space

    @cached_property
    def walk(self) -> Walk:
        return self.lloyd.walk(self._stored)

    def _stored(self, part: str, centres: Integers) -> tuple[Integers, Noise]:
        values, noise = self.part(part)
        histograms = sum(p.size for p in self.lloyd.partitions)
        if len(values) != (histograms if part == "marginals" else self.lloyd.size(len(centres))):
            raise ValueError("the numbers are not those of the rounds")
        return values, noise

    @property
    def centres(self) -> Integers:
        """A line of coordinates for each cluster, in whole numbers of 1 / GRID."""
        return self.walk.centres

    @cached_property
    def rows(self) -> Floats:
        """About how many rows each cluster had in the last round."""
        counts = self.walk.answer.reshape(self.lloyd.k, -1)[:, 0]
        return np.maximum(counts / self.lloyd.weight, 0.0)

    @cached_property
    def _units(self) -> tuple[Floats, Floats]:
        """Lowest value and width of each coordinate, as people see it: in units of the column, or a share."""
        low, width = np.zeros(self.space.size), np.full(self.space.size, GRID / OWN)
        for name, where in self.space.slices.items():
            column = self.space.domain[name]
            if isinstance(column, Numeric):
                low[where], width[where] = column.low, column.high - column.low
        return low, width

    @cached_property
    def _top(self) -> Integers:
        """The largest place of each coordinate."""
        return np.where(self.lloyd.middle > 0, GRID, OWN)

    def _shown(self, places: Floats) -> Floats:
        low, width = self._units
        shown: Floats = (low + width * (places / GRID)).reshape(-1)
        return shown

    @cached_property
    def values(self) -> Floats:
        return self._shown(self.centres.astype(np.float64))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) around each exact mean; sum and count are both noisy, so each may miss half as often."""
        walk, lloyd = self.walk, self.lloyd
        half = walk.noise.halfwidth((1 + checked_level(level)) / 2)
        lines = walk.answer.reshape(lloyd.k, -1).astype(np.float64)
        count, sums, middle = lines[:, :1], lines[:, 1:], lloyd.middle
        ends = [
            (sums + up) * lloyd.weight / np.maximum(count + more, lloyd.weight)
            for up in (-half, half)
            for more in (-half, half)
        ]
        top, known = self._top, count >= lloyd.least(walk.noise)
        low = np.where(known, np.minimum(np.clip(middle + np.min(ends, axis=0), 0, top), self.centres), 0)
        high = np.where(known, np.maximum(np.clip(middle + np.max(ends, axis=0), 0, top), self.centres), top)
        return self._shown(low), self._shown(high)

    def to_frame(self) -> pd.DataFrame:
        """A line for each cluster and coordinate; `rows` is the noisy number of rows of the cluster."""
        import pandas as pd

        low, high = self.interval()
        names, k = self.space.names, self.lloyd.k
        return pd.DataFrame(
            {
                "cluster": np.repeat(np.array(self.labels, dtype=object), len(names)),
                "rows": np.repeat(np.rint(self.rows), len(names)),
                "coordinate": names * k,
                "centre": self.values,
                "low": low,
                "high": high,
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """A line for each coordinate, a mark for each cluster: where its centre is between the declared bounds.

        Of many coordinates those in which the centres differ most.
        """
        from dpexplain.render.picture import name_lines
        from dpexplain.render.plots import LEVEL, _label, _note, new_axes, plain

        ax, (base, width), k = new_axes(ax), self._units, self.lloyd.k
        whole = width * self._top / GRID
        scaled = [(shown.reshape(k, -1) - base) / whole for shown in (self.values, *self.interval(LEVEL))]
        apart = np.ptp(scaled[0], axis=0)
        shown = np.sort(np.argsort(-apart, kind="stable")[:MOST_LINES])
        for cluster, (label, rows) in enumerate(zip(self.labels, self.rows, strict=True)):
            centre, low, high = (line[cluster, shown] for line in scaled)
            at = np.arange(len(shown))[::-1] + 0.6 * (0.5 - (cluster + 0.5) / k)
            name, mark = _label(f"{label}: about {rows:,.0f} rows", 30), MARKS[cluster % len(MARKS)]
            ax.hlines(at, low, high, color=f"C{cluster % 10}", linewidth=4, alpha=0.3)
            ax.plot(centre, at, mark, color=f"C{cluster % 10}", markersize=5, label=name)
        names = [name_lines(plain(self.space.names[i])) for i in shown]
        ax.set_yticks(np.arange(len(shown))[::-1], names, fontsize=8)
        ax.set_ylim(-0.7, len(shown) - 0.3)
        ax.set_xlim(-0.02, 1.02)
        ax.set_xticks([0, 1], ["lowest value\n(or no row)", "highest value\n(or all rows)"], fontsize=8)
        ax.grid(axis="y", alpha=0.2)
        ax.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        ax.set_title(f"Centres of {k} clusters", fontsize=11, loc="left")
        _note(ax, self, f"Bars: {LEVEL:.0%} noise interval of each. ", width=84)
        return ax

    def view(self) -> JsonObject:
        return {"labels": list(self.labels)}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> ClusterCentres:
        labels = view["labels"]
        found = cls(receipt, released, tuple(labels))
        texts = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
        if not texts or len(set(labels)) != found.lloyd.k or len(labels) != found.lloyd.k:
            raise ValueError("the labels are not those of the clusters")
        if not np.isfinite(found.values).all():
            raise ValueError("no centres of ours")
        return found
