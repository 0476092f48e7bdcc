"""The spec of a stand-in: public cells, shares of the cost, the statistics and their sensitivities.

What is counted second depends on what was released first: cells of rare values are taken together by released counts.
`Columns` is what the first release says; the body of the release and the result compute it alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.mechanisms import Selection, best, selection
from dpexplain.core.noise import Law, Noise
from dpexplain.core.sensitivity import Neighbours, ScoreRange, Sensitivity
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import Partition
from dpexplain.maths.trees import Edge, Floats, Grouping, denoised, grouped
from dpexplain.methods import histogram

if TYPE_CHECKING:
    from dpexplain.data.rows import Rows
    from dpexplain.models import Predictor

Integers = NDArray[np.int64]

DOMAIN, GRADES = "domain", ("domain", "marginals", "tree")  # the first one alone is free
WHY = {
    "": "",
    "clear": "enough pairs of values would stand above the noise",
    "noise": "noise would hide most pairs of values with this epsilon",
    "wide": "all pairs of its columns are too many to count",
}
RARE = 3.0  # standard deviations of a count below which cells are taken together before pairs are counted
MAX_TREE_COLUMNS, MAX_PAIR_CELLS = 200, 2**23  # of a tree: all pairs of columns are counted in one pass


@dataclass(frozen=True)
class Spec(Coded):
    """The request made concrete: all that fixes statistics and noise, public and hashed into the ledger."""

    grade: str
    partitions: tuple[Partition, ...]
    target: str | None
    cells: int  # of a column of numbers, at most, where pairs are counted
    shares: tuple[Fraction, Fraction, Fraction]  # of the price: counts of columns, choices of pairs, counts of pairs
    marginals: str | None = None  # the payload of the earlier release whose counts are used
    why: str = ""  # why it is this grade, where the forecast decided: one of WHY
    score_edges: tuple[float, ...] = ()  # of the cells of a model's scores, where rows are counted by them
    score_columns: tuple[str, ...] = ()  # the columns whose cells are crossed with those of scores
    score_share: Fraction = Fraction(0)  # of the price for these counts; `shares` are of what is left

    def check(self) -> None:
        """ValueError for what no request leads to: a file may say anything."""
        names, tree = self.features, self.grade == "tree"
        fits = (
            self.grade in GRADES
            and self.why in WHY
            and bool(names)
            and len(set(names)) == len(names)
            and self.cells >= 1
        )
        fits = fits and (self.target is None or self.target in names) and (not tree or len(names) > 1)
        if self.grade == DOMAIN:  # nothing is bought
            bought = (*self.shares, self.marginals, self.why, *self.score_edges, *self.score_columns, self.score_share)
            if not fits or any(bought):
                raise ValueError("no stand-in of ours")
            return
        fits = fits and sum(self.shares) == (self.score_share < 1) and min(self.shares) >= 0
        fits = fits and (self.shares[0] == 0) == (self.marginals is not None) and (self.shares[2] > 0) == tree
        fits = fits and 0 <= self.score_share <= 1 and (self.score_share > 0) == bool(self.score_columns)
        fits = fits and bool(self.score_columns) == bool(self.score_edges) and set(self.score_columns) <= set(names)
        fits = fits and len(set(self.score_columns)) == len(self.score_columns) and len(self.score_edges) != 1
        fits = fits and all(a < b for a, b in itertools.pairwise(self.score_edges))
        fits = fits and (self.shares[1] > 0) == tree and not (tree and too_wide(self))
        if not fits:
            raise ValueError("no stand-in of ours")

    @property
    def features(self) -> list[str]:
        return [partition.feature for partition in self.partitions]

    @property
    def pairs(self) -> list[Edge]:
        """All pairs of columns, in the order in which they are counted and scored."""
        return list(itertools.combinations(range(len(self.partitions)), 2))

    def open_pairs(self, chosen: Sequence[Edge]) -> list[Edge]:
        """The pairs that join two parts of the forest with these edges."""
        part = list(range(len(self.partitions)))
        for a, b in chosen:
            part = [part[a] if mine == part[b] else mine for mine in part]
        return [(a, b) for a, b in self.pairs if part[a] != part[b]]

    def prices(self, cost: Cost) -> dict[str, Cost]:
        """What each kind of part costs; every choice of an edge costs an equal part of "edges". They add up."""
        rest = [share * (1 - self.score_share) for share in self.shares]
        parts = zip(("counts", "edges", "pairs", "scores"), [*rest, self.score_share], strict=True)
        return {name: cost * share for name, share in parts if share > 0}

    @property
    def score_cells(self) -> int:
        return len(self.score_edges) - 1

    def place_scores(self, scores: Floats) -> Integers:
        """The cell of each score; that of the middle of the range where the model failed."""
        low, high = self.score_edges[0], self.score_edges[-1]
        inside = np.clip(np.where(np.isnan(scores), low / 2 + high / 2, scores), low, high)
        return np.searchsorted(np.asarray(self.score_edges[1:-1]), inside, side="right").astype(np.int64)

    def columns(self, counts: Integers, std: float, pair_std: float, rows: int | None) -> Columns:
        """What released counts of columns say; `rows` is their number where it is public."""
        return Columns(self, counts, std, pair_std, rows)


def too_wide(spec: Spec) -> bool:
    """Whether all pairs are too many to count: by public things."""
    return len(spec.partitions) > MAX_TREE_COLUMNS or pair_cells(spec) > MAX_PAIR_CELLS


def pair_cells(spec: Spec) -> int:
    """How many cells all pairs have, at most: by public things."""
    sizes = [p.size if p.edges is None else min(p.size, spec.cells + 1) for p in spec.partitions]
    return (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2


@dataclass(frozen=True, eq=False)
class Columns:
    """Released counts of columns, and what follows from them: groups of cells, shares, expected pairs."""

    spec: Spec
    counts: Integers
    std: float  # of their noise
    pair_std: float  # of the noise that counts of pairs, or by scores, will have
    rows: int | None

    @cached_property
    def total(self) -> float:
        """The number of rows: public, or the mean of the noisy totals; at least 1."""
        return max(1.0, histogram.total_of(self.counts, self.spec.partitions, self.rows))

    @cached_property
    def by_column(self) -> list[Integers]:
        ends = np.cumsum([partition.size for partition in self.spec.partitions])
        if len(self.counts) != ends[-1]:
            raise ValueError("the cells do not fit the released values")
        return np.split(self.counts, ends[:-1])

    @cached_property
    def shares(self) -> list[Floats]:
        """The distribution of each column by itself."""
        return [denoised(counts.astype(np.float64), self.std) for counts in self.by_column]

    @cached_property
    def groupings(self) -> list[Grouping]:
        """Which cells are taken together where pairs are counted."""
        least, most = RARE * max(self.std, self.pair_std), self.spec.cells
        parts = zip(self.by_column, self.spec.partitions, strict=True)
        return [grouped(counts, self.std, partition, least, most) for counts, partition in parts]

    @property
    def sizes(self) -> list[int]:
        return [grouping.size for grouping in self.groupings]

    @cached_property
    def noisy(self) -> list[Floats]:
        """Noisy counts of the groups."""
        return [grouping.sums(counts) for grouping, counts in zip(self.groupings, self.by_column, strict=True)]

    @cached_property
    def noise(self) -> list[Floats]:
        """Standard deviations of `noisy`."""
        return [self.std * np.sqrt(np.bincount(g.place, minlength=g.size)) for g in self.groupings]

    def expected(self, a: int, b: int) -> Integers:
        """Whole numbers of rows in each pair of groups, if the two columns had nothing to do with each other."""
        one, two = (histogram.nearest_with_total(self.noisy[j], self.total) for j in (a, b))
        return np.rint(np.outer(one, two) / self.total).astype(np.int64)

    def tables(self, exact: Integers) -> list[Integers]:
        """One vector of counts of all pairs as a table for each."""
        sizes = self.sizes
        shapes = [(sizes[a], sizes[b]) for a, b in self.spec.pairs]
        parts = np.split(exact, np.cumsum([a * b for a, b in shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    @property
    def size(self) -> int:
        """How many cells all pairs have."""
        return sum(self.sizes[a] * self.sizes[b] for a, b in self.spec.pairs)


def pair_statistic(rows: Rows, partitions: Sequence[Partition], places: Sequence[Integers]) -> Integers:
    """The exact counts of one batch, pair after pair: a row is in one cell of each. No noise, no randomness."""
    codes = [place[p.place(rows[p.feature])] for p, place in zip(partitions, places, strict=True)]
    sizes = [int(place.max()) + 1 for place in places]
    counts = [
        np.bincount(codes[a] * sizes[b] + codes[b], minlength=sizes[a] * sizes[b])
        for a, b in itertools.combinations(range(len(codes)), 2)
    ]
    return np.concatenate(counts).astype(np.int64)


def score_statistic(rows: Rows, spec: Spec, places: Sequence[Integers], predictor: Predictor) -> Integers:
    """The exact counts of one batch by score cell and cell of a column, one table for each column: a row is in one cell
    of each. A row on which the model fails has the score of the middle of the range.
    """
    score, counts = spec.place_scores(predictor.predict_at(predictor.inputs(rows), {})), []
    for partition, place in zip(spec.partitions, places, strict=True):
        if partition.feature in spec.score_columns:
            size = int(place.max()) + 1
            cell = score * size + place[partition.place(rows[partition.feature])]
            counts.append(np.bincount(cell, minlength=spec.score_cells * size))
    return np.concatenate(counts).astype(np.int64)


def edge_scores(tables: Sequence[Integers], columns: Columns) -> Integers:
    """How far each pair is from the product of *released* counts: |n_ab - e_ab|_1, a whole number."""
    pairs = zip(tables, columns.spec.pairs, strict=True)
    return np.array([int(np.abs(table - columns.expected(a, b)).sum()) for table, (a, b) in pairs], dtype=np.int64)


def edge_range(neighbours: Neighbours) -> ScoreRange:
    """How far one unit moves the scores of edges.

    Proof. The released counts are public when pairs are scored, so e_ab is a fixed table of whole numbers, and so are
    the groups of cells. A row is in one cell of n_ab: adding or removing it moves one entry of n_ab by one, and by the
    triangle inequality the score moves by at most one, up or down. Between neighbours at most c rows come or leave
    (`Neighbours.changed_rows`: k of add-remove, 2k of replace-one, for units of k rows), so every score moves within
    [-c, c]. Both ends are attained, for two candidates at once: where all cells a row touches hold more rows than
    expected, its coming adds one, and where they hold fewer, it takes one away (tests/property/test_stand_in.py).
    The table's own n_a n_b / n in the place of e_ab would move too: scores then reach 4 (add-remove) and 5.7.
    """
    return ScoreRange(neighbours, -neighbours.changed_rows, neighbours.changed_rows)


def pairs_sensitivity(neighbours: Neighbours, tables: int) -> Sensitivity:
    """How far one unit moves so many tables of counts, of pairs or by scores: a row is in one cell of each."""
    return Sensitivity.of_counts(neighbours, tables)


def pairs_law(cost: Cost) -> str:
    """The noise of counts of pairs: it is the same however many cells they turn out to have."""
    return (Law.GAUSSIAN if cost.definition is Definition.ZCDP else Law.LAPLACE).value


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of counts at this cost. Costs nothing, touches no data."""
    prices, found = spec.prices(cost), dict[str, Noise]()
    if "counts" in prices:
        found["counts"] = histogram.forecast(spec.partitions, neighbours, prices["counts"])
    if "pairs" in prices:
        edges = len(spec.partitions) - 1
        found["pairs"] = best(pairs_sensitivity(neighbours, edges), edges, prices["pairs"], pairs_law(cost))
    if "scores" in prices:
        tables = len(spec.score_columns)
        found["scores"] = best(pairs_sensitivity(neighbours, tables), tables, prices["scores"], pairs_law(cost))
    return found


def choice(spec: Spec, neighbours: Neighbours, cost: Cost) -> tuple[Selection, Cost]:
    """The law and the cost of choosing one edge."""
    edges = len(spec.partitions) - 1
    price = spec.prices(cost)["edges"] * Fraction(1, edges)
    return selection(edge_range(neighbours), len(spec.pairs), price, 1), price
