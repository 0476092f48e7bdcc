"""Lloyd's rounds with noisy answers: where they start, what is asked, and how the next centres follow.

The release asks its questions by `Lloyd.walk`, and whoever reads a result walks the same way through the stored
answers. Centres are whole numbers of 1 / GRID in the coordinates of `Space`, and so is every step between them: every
computer finds the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import Numeric
from dpexplain.core.noise import Noise
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import Partition
from dpexplain.maths.surrogate.sketch import GRID, POINTS, Histogram, grouped, middles, spread_points
from dpexplain.maths.surrogate.space import ONE, Space

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Ask = Callable[[str, Integers], tuple[Integers, Noise]]  # the noisy answer of a part, and the law of its noise

HALF, OWN = GRID // 2, round(ONE * GRID)  # the most that a numeric feature and a category can add to a sum
SURE = 2.0  # standard deviations that a count must have, or the centre stays where it is
SHARE = 2**20  # the weights of cells are whole numbers of 1 / SHARE
STARTS, GROUPING = 8, 20  # tries to group the cells, and rounds of each
START_CELLS = 16  # for each cluster, into which public points are grouped first
MOST_CLUSTERS, MOST_ROUNDS = 100, 50


def nearest(centres: Integers, places: Floats) -> Integers:
    """The nearest centre of each line of whole numbers, the first of several: exact, whatever stands beside a line."""
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
class Lloyd(Coded):
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

    def __post_init__(self) -> None:
        """Refuse what a damaged file might ask for: endless work, or centres of another size."""
        least = self.k if self.start is None else 0
        whole = (1 <= self.k <= MOST_CLUSTERS, least <= self.cells <= 2**12, 1 <= self.rounds <= MOST_ROUNDS)
        if not all(whole) or not 1 <= self.weight <= 2**24 or not 0 <= self.seed < 2**63:
            raise ValueError("no rounds of ours")
        if self.start is not None and [len(centre) for centre in self.start] != [self.space.size] * self.k:
            raise ValueError("no rounds of ours")

    @property
    def answers(self) -> int:
        """How many equal parts of the cost the survey and the rounds are."""
        return self.rounds + (1 if self.start is None else 0)

    def size(self, centres: int) -> int:
        """How many numbers are asked about so many centres."""
        return centres * (1 + self.space.size)

    @property
    def histogram_size(self) -> int:
        """How many cells the histograms have."""
        return sum(partition.size for partition in self.partitions)

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
        counts = np.ones(self.histogram_size, dtype=np.int64)
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


def start_of(points: Integers, k: int) -> Integers:
    """k centres of public points: of groups of them, each as heavy as it has points, the best of several tries."""
    cells = grouped(points, min(START_CELLS * k, len(points)))
    weights = np.bincount(nearest(cells, points.astype(np.float64)), minlength=len(cells)).astype(np.int64)
    far, heavy = distances(cells, cells), np.argsort(-weights, kind="stable")[:STARTS]
    found = [settled(cells, weights, cells[chosen(far, weights, k, int(first))]) for first in heavy]
    best: Integers = min(found, key=lambda centres: spread(cells, weights, centres))
    return best


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
