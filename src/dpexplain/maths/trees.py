"""Distributions over the declared domain: even, a product of columns, or a tree of pairs; and rows drawn from them.

    Noisy    noisy counts of columns and of some pairs of them          fit(noisy) -> Tree
    Tree     the distribution that is nearest to them, over these cells
    Joint    a distribution over the cells of the columns of a domain   joint.draw(rows, seed) -> coded columns
    Grouping rare cells that are taken together before pairs are counted

`fit` minimises the squared distance to all noisy counts, in units of their noise, over all distributions with the
dependencies of a forest. For those, non-negative pairs that agree in their columns are all there is to fit, so belief
propagation does it exactly (mirror descent: McKenna, Sheldon, Miklau 2019, Algorithm 1; the problem is convex).

Everything here is computed from released counts, from the declared domain and from public draws. No row enters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import Categorical, Domain
from dpexplain.data.public_random import MISSING_SHARE, Generator, PublicRandom
from dpexplain.errors import InputError
from dpexplain.maths.grids import Partition, partition_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Edge = tuple[int, int]

STEPS, CLOSE = 1_000, 1e-6  # of the fit: at most so many steps; ends where 20 of them gain less than this share
LEAST_COUNT = 0.5  # what a cell has at least where the fit begins
SURE = 3.0  # standard deviations of noise that a group of cells stands above zero
TINY = 1e-12
MAX_DRAWN = 10_000_000  # rows at once


# The fit --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Noisy:
    """Noisy counts of columns and of pairs of them, and the standard deviations of their noise."""

    total: float
    columns: Sequence[Floats]
    column_noise: Sequence[Floats]  # cell by cell
    pairs: Mapping[Edge, Floats] = field(default_factory=dict)
    pair_noise: float = 1.0


@dataclass(frozen=True, eq=False)
class Tree:
    """A distribution with the dependencies of a forest: expected counts of columns, and of pairs along its edges."""

    total: float
    columns: list[Floats]
    pairs: dict[Edge, Floats]

    def rows(self, rows: int, draw: Generator) -> Integers:
        """Codes of rows, one column for each of the tree."""
        return _codes(self.columns, self.pairs, rows, draw)


def walk(width: int, edges: Sequence[Edge]) -> list[Edge]:
    """(parent, child) of a forest, parents first; the first column of each of its trees comes as (-1, column)."""
    near: list[list[int]] = [[] for _ in range(width)]
    for a, b in edges:
        near[a].append(b)
        near[b].append(a)
    way, seen = list[Edge](), set[int]()
    for root in range(width):
        if root in seen:
            continue
        seen.add(root)
        tree = [(-1, root)]
        for _, node in tree:  # it grows while it is walked
            for child in near[node]:
                if child not in seen:
                    seen.add(child)
                    tree.append((node, child))
        way += tree
    return way


class Problem:
    """The squared distance of a forest's expected counts to noisy ones, and the way from log potentials to the former.

    Columns come first, then pairs as (parent, child) in the order of the walk.
    """

    def __init__(self, noisy: Noisy) -> None:
        self.total, self.width = noisy.total, len(noisy.columns)
        self.way = walk(self.width, list(noisy.pairs))
        self.edges = [edge for edge in self.way if edge[0] >= 0]
        self.keys = [edge if edge in noisy.pairs else edge[::-1] for edge in self.edges]  # as they were counted
        pairs = self.turned([noisy.pairs[key] for key in self.keys])
        self.aims = [*noisy.columns, *pairs]
        weight = noisy.pair_noise**-2
        self.weights = [*(noise**-2.0 for noise in noisy.column_noise), *(np.full(p.shape, weight) for p in pairs)]

    def turned(self, pairs: Sequence[Floats]) -> list[Floats]:
        """Pairs as they were counted as (parent, child), and the other way round."""
        return [p if key == edge else p.T for key, edge, p in zip(self.keys, self.edges, pairs, strict=True)]

    def expected(self, potentials: Sequence[Floats]) -> list[Floats]:
        """Expected counts of all columns and pairs, by one pass up the trees and one down."""
        beliefs = list(potentials[: self.width])
        given: list[Floats] = [np.empty(0)] * len(self.edges)
        for k in range(len(self.edges) - 1, -1, -1):
            parent, child = self.edges[k]
            joint = potentials[self.width + k] + beliefs[child]
            top = joint.max(axis=1, keepdims=True)
            raised = np.exp(joint - top)
            sums = raised.sum(axis=1, keepdims=True)
            given[k] = raised / sums
            beliefs[parent] = beliefs[parent] + (np.log(sums) + top)[:, 0]
        columns: list[Floats] = [np.empty(0)] * self.width
        for parent, root in self.way:
            if parent < 0:
                shares = np.exp(beliefs[root] - beliefs[root].max())
                columns[root] = self.total * shares / shares.sum()
        pairs = []
        for k, (parent, child) in enumerate(self.edges):
            pairs.append(columns[parent][:, None] * given[k])
            columns[child] = pairs[k].sum(axis=0)
        return [*columns, *pairs]

    def loss(self, expected: Sequence[Floats]) -> float:
        """Half of the squared distance, in units of the noise."""
        parts = zip(expected, self.aims, self.weights, strict=True)
        return sum(float((w * (mine - aim) ** 2).sum()) for mine, aim, w in parts) / 2

    def begin(self) -> list[Floats]:
        """The potentials of a forest made of the noisy pairs as they are, which is near the end already."""
        columns = [np.log(np.maximum(aim, LEAST_COUNT)) for aim in self.aims[: self.width]]
        pairs = []
        for (parent, child), aim in zip(self.edges, self.aims[self.width :], strict=True):
            pairs.append(np.log(np.maximum(aim, LEAST_COUNT)) - columns[parent][:, None] - columns[child][None, :])
        return [*columns, *pairs]


def fit(noisy: Noisy) -> Tree:
    """The forest that is nearest to the noisy counts: mirror descent with a step that grows while it helps."""
    problem = Problem(noisy)
    potentials = problem.begin()
    expected = problem.expected(potentials)
    loss, step = problem.loss(expected), 1 / (noisy.total * max(float(w.max()) for w in problem.weights))
    before = loss
    for number in range(1, STEPS + 1):
        slopes = [w * (e - a) for e, a, w in zip(expected, problem.aims, problem.weights, strict=True)]
        moved = [theta - step * slope for theta, slope in zip(potentials, slopes, strict=True)]
        other = problem.expected(moved)
        gain = sum(float((s * (e - o)).sum()) for s, e, o in zip(slopes, expected, other, strict=True))
        new = problem.loss(other)
        if loss - new >= 0.5 * gain:
            potentials, expected, loss, step = moved, other, new, 1.2 * step
        else:
            step /= 2
        if number % 20 == 0:
            if before - loss <= CLOSE * loss:
                break
            before = loss
    pairs = problem.turned(expected[problem.width :])  # turning twice is turning back
    return Tree(noisy.total, expected[: problem.width], dict(zip(problem.keys, pairs, strict=True)))


def loss_of(noisy: Noisy, tree: Tree) -> float:
    """What `fit` minimises."""
    problem = Problem(noisy)
    return problem.loss([*tree.columns, *problem.turned([tree.pairs[key] for key in problem.keys])])


# Rare cells -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Grouping:
    """Cells of one column that are taken together, because too few rows are in them to be told from noise."""

    place: Integers  # the group of each cell
    inside: Floats  # the share of each cell in its group

    @property
    def size(self) -> int:
        return int(self.place.max()) + 1

    def sums(self, counts: NDArray[Any]) -> Floats:
        """Counts of the groups."""
        return np.bincount(self.place, counts, self.size).astype(np.float64)

    def spread(self, groups: Floats) -> Floats:
        """Numbers of groups as numbers of their cells."""
        spread: Floats = groups[self.place] * self.inside
        return spread


def grouped(counts: NDArray[Any], std: float, partition: Partition, least: float, most: int) -> Grouping:
    """Groups that have `least` rows each, by noisy counts: neighbouring cells of numbers, all rare categories in one.

    Numbers have at most `most` groups. Missing values stay a group of their own.
    """
    known = np.asarray(counts, dtype=np.float64)
    if partition.edges is None:
        kept = known >= least
        place = np.where(kept, np.cumsum(kept) - 1, kept.sum()).astype(np.int64)
    else:
        numbers = partition.size - partition.missing
        place = _neighbours(known[:numbers], least)
        while place[-1] >= most:
            least = max(1.25 * least, float(np.maximum(known, 0).sum()) / (4 * most), 1.0)
            place = _neighbours(known[:numbers], least)
        if partition.missing:
            place = np.append(place, place[-1] + 1)
    inside = np.empty(len(known))
    for group in range(int(place.max()) + 1):
        inside[place == group] = denoised(known[place == group], std)
    return Grouping(place, inside)


def _neighbours(counts: Floats, least: float) -> Integers:
    """Groups of cells from the left, each closed when it has `least`; what is left at the end joins the last one."""
    place, group, held = np.zeros(len(counts), dtype=np.int64), 0, 0.0
    for cell, count in enumerate(counts.tolist()):
        place[cell], held = group, held + count
        if held >= least:
            group, held = group + 1, 0.0
    return np.minimum(place, max(group - 1, 0))


def denoised(counts: Floats, std: float) -> Floats:
    """Shares of cells from noisy counts: rows drawn from noise would be where nobody is.

    Counts below two standard deviations are taken as none. What is left is mixed with even shares, as far as noise
    alone would make counts that differ so much (James and Stein 1961): all of it where noise explains everything.
    """
    even = np.full(len(counts), 1 / len(counts))
    firm = np.where(counts >= max(2 * std, TINY), counts, 0.0)
    differ = float(np.square(counts - counts.mean()).sum())
    noise = (len(counts) - 1) * std**2
    if not firm.any() or differ <= noise:
        return even
    weight = 1 - noise / differ
    shares: Floats = weight * firm / firm.sum() + (1 - weight) * even
    return shares


def likely_shares(counts: NDArray[Any], std: float, partition: Partition) -> Floats:
    """Shares of all cells of a column from noisy counts: by groups that stand above the noise, see `grouped`."""
    groups = grouped(counts, std, partition, SURE * std, partition.size)
    return groups.spread(denoised(groups.sums(counts), std * float(np.sqrt(len(counts) / groups.size))))


# Joint distributions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Joint:
    """A distribution over the declared domain.

    shares  of the cells of each column: they add up to one
    pairs   the shares of (cell of a, cell of b) along the edges of a forest; none: columns are independent
    """

    domain: Domain
    partitions: tuple[Partition, ...]
    shares: tuple[Floats, ...]
    pairs: Mapping[Edge, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sizes = [partition.size for partition in self.partitions]
        fits = sizes == [len(mine) for mine in self.shares] and all(
            pair.shape == (sizes[a], sizes[b]) for (a, b), pair in self.pairs.items()
        )
        if not fits or not all(abs(float(mine.sum()) - 1) < 1e-6 for mine in self.shares):
            raise ValueError("the shares do not fit the cells")

    @classmethod
    def even(cls, domain: Domain, features: Sequence[str], partitions: Sequence[Partition] = ()) -> Joint:
        """Every column by itself, drawn evenly from its declared domain. Where missing values are kept, one in eight is
        missing. Free: nothing of a table is in it.

        partitions  the cells, where numbers are to have more than one
        """
        cells = tuple(partitions) or tuple(partition_of(name, domain.column(name), 1) for name in features)
        return cls(domain, cells, tuple(_even_shares(mine) for mine in cells))

    @classmethod
    def product(cls, domain: Domain, partitions: Sequence[Partition], shares: Sequence[Floats]) -> Joint:
        """Independent columns."""
        return cls(domain, tuple(partitions), tuple(np.asarray(mine, dtype=np.float64) for mine in shares))

    @classmethod
    def of_tree(
        cls, domain: Domain, partitions: Sequence[Partition], groupings: Sequence[Grouping], tree: Tree
    ) -> Joint:
        """A fitted tree over groups of cells; inside its group, a cell depends on nothing."""
        columns = [g.spread(mine / mine.sum()) for g, mine in zip(groupings, tree.columns, strict=True)]
        pairs = {}
        for (a, b), pair in tree.pairs.items():
            one, two = groupings[a], groupings[b]
            spread = pair[np.ix_(one.place, two.place)] * np.outer(one.inside, two.inside)
            pairs[a, b] = spread / spread.sum()
        return cls(domain, tuple(partitions), tuple(columns), pairs)

    @property
    def features(self) -> list[str]:
        return [partition.feature for partition in self.partitions]

    def draw(self, rows: int, seed: int, *, even: float = 0.0) -> dict[str, NDArray[Any]]:
        """Synthetic rows by public draws, as clean rows are coded: floats for numbers, NaN for missing ones, codes of
        categories. Drawing adds little to the error, because values are spread evenly over the distribution.

        even  the share of values, each by itself, that are drawn evenly from the declared domain instead
        """
        if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or not 1 <= rows <= MAX_DRAWN:
            raise InputError(f"rows are a whole number from 1 to {MAX_DRAWN:,}; got {rows!r}."[:200], spent="")
        if isinstance(even, bool) or not isinstance(even, int | float) or not 0 <= even <= 1:
            raise InputError(f"even is a share from 0 to 1; got {even!r}."[:200], spent="")
        random, rows = PublicRandom(seed), int(rows)
        codes = _codes(self.shares, self.pairs, rows, random.generator)
        columns: dict[str, NDArray[Any]] = {
            cells.feature: self._values(cells, mine, random.generator)
            for cells, mine in zip(self.partitions, codes.T, strict=True)
        }
        if even:
            others = random.rows(Domain({name: self.domain[name] for name in columns}), rows)
            for name, values in columns.items():
                columns[name] = np.where(_ranks(rows, random.generator) < even, others[name], values)
        return columns

    def _values(self, cells: Partition, codes: Integers, draw: Generator) -> NDArray[Any]:
        """A value for each code, evenly over its cell."""
        column = self.domain[cells.feature]
        if isinstance(column, Categorical) or cells.edges is None:
            return codes.astype(np.int32)
        edges = np.append(cells.edges, np.nan)  # for the cell of missing values
        low, width = edges[codes], edges[codes + 1] - edges[codes]
        part = _ranks(len(codes), draw, codes)
        if column.integer:
            values = np.ceil(low) + np.floor(part * width)
        else:
            values = low + part * width
        return column.clean(values)


def _even_shares(cells: Partition) -> Floats:
    """The share of each cell where every declared value is as likely as any other."""
    if cells.edges is None:
        return np.full(cells.size, 1 / cells.size)
    widths = np.diff(cells.edges)  # of whole numbers: how many there are in a cell
    shares = widths / widths.sum()
    return np.append((1 - MISSING_SHARE) * shares, MISSING_SHARE) if cells.missing else np.asarray(shares)


def _codes(columns: Sequence[Floats], pairs: Mapping[Edge, Floats], rows: int, draw: Generator) -> Integers:
    """Codes of rows from the roots to the leaves, each column spread evenly over its shares given the one before (the
    rounding of `mbi`), so that little is added by drawing.
    """
    codes = np.empty((rows, len(columns)), dtype=np.int64)
    for parent, child in walk(len(columns), list(pairs)):
        if parent < 0:
            codes[:, child] = _spread(np.zeros(rows, np.int64), columns[child][None, :], draw)
            continue
        pair = pairs[parent, child] if (parent, child) in pairs else pairs[child, parent].T
        codes[:, child] = _spread(codes[:, parent], pair, draw)
    return codes


def _spread(given: Integers, counts: Floats, draw: Generator) -> Integers:
    """One value for each row, from the line of `counts` that it is given."""
    ends = np.cumsum(np.maximum(counts, TINY * max(float(counts.max()), TINY)), axis=1)
    ends = ends / ends[:, -1:] + np.arange(len(counts))[:, None]
    place = given + np.minimum(_ranks(len(given), draw, given), 1 - 1e-9)
    values = np.searchsorted(ends.ravel(), place, side="right") - given * counts.shape[1]
    inside: Integers = np.clip(values, 0, counts.shape[1] - 1)
    return inside


def _ranks(rows: int, draw: Generator, given: Integers | None = None) -> Floats:
    """Numbers from 0 to 1 for the rows, in random order: among rows that are given the same, one in each equal part."""
    given = np.zeros(rows, np.int64) if given is None else given
    order = draw.permutation(rows)
    order = order[np.argsort(given[order], kind="stable")]
    mine, sizes = given[order], np.bincount(given)
    rank = np.arange(rows) - (np.cumsum(sizes) - sizes)[mine]
    parts = np.empty(rows)
    parts[order] = (rank + draw.random(rows)) / sizes[mine]
    return parts


# What it is worth -----------------------------------------------------------------------------------------------------


def worth(shares: Sequence[Floats], stds: Sequence[float], rows: float) -> float:
    """How many independent rows would know these histograms as well as their noisy counts do; at least 1.

    The shares p of a histogram of l independent rows have variances p (1 - p) / l, and noisy counts of n rows have
    (s / n)^2: the sums over all cells are equal at l = sum p (1 - p) / sum (s / n)^2.
    """
    spread = sum(float((p * (1 - p)).sum()) for p in shares)
    noise = sum(p.size * (std / max(rows, 1.0)) ** 2 for p, std in zip(shares, stds, strict=True))
    return max(1.0, spread / noise) if noise > 0 else float("inf")
