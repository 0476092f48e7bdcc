"""What our releases are compared with: differentially private synthetic rows by MST (McKenna, Miklau, Sheldon 2021).

    coding = Coding.of(domain, cells=cells_at(epsilon))       public cells of every column
    codes = mst_rows(coding.codes(frame), coding.sizes, epsilon, delta, seed)
    rows = coding.frame(codes, seed)                          a DataFrame in the columns of the domain

As in the paper: a third of the price for the histogram of every column (cells below three standard deviations are then
taken together), a third for the edges of a tree, one exponential mechanism after the other, scored by how far a pair is
from independence, and a third for the histograms of those pairs. A row may be replaced by another, as in our accounts:
a histogram then moves by 2 in L1 and sqrt(2) in L2, a score within [-2, 2]. With a delta the price is that of zCDP
(normal noise, a selection costs its loss range squared over 8); without one it is pure (Laplace noise, ranges add up).

The model of the rows minimises the squared distance to all measured histograms, in units of their noise, over all
distributions with this tree: for those, non-negative pairs that agree in their columns are all there is to fit, so
belief propagation in numpy does it exactly (`dpexplain.maths.trees`). `mbi` 2.x, the library of the paper's authors,
minimises the same and takes half a minute, because JAX compiles a program for every tree that is selected (a second
here). `fit_by_mbi` asks it, and `python -m bench stand_in --part mbi` writes how far both are from each other, where
`mbi` is installed:

    pip install -r bench/requirements-mbi.txt                 (with JAX; nothing of dpexplain needs it)

Noise comes from numpy's floats and a seed: a baseline to measure with, not a mechanism to publish with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dpexplain as dpx
from dpexplain.maths import trees
from dpexplain.maths.grids import Partition, cells_of
from dpexplain.maths.trees import Tree
from dpexplain.maths.trees import walk as walk

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Edge = tuple[int, int]

RARE = 3.0  # standard deviations below which a cell is taken together with others
HISTOGRAM_L1, HISTOGRAM_L2, SCORE_RANGE = 2.0, np.sqrt(2.0), 4.0  # when one row is replaced


def mst_rows(
    codes: pd.DataFrame | Integers,
    sizes: Sequence[int],
    epsilon: float,
    delta: float | None,
    seed: int,
    *,
    rows: int | None = None,
) -> Integers:
    """Synthetic rows as codes, one column for each of the table; as many as the table has unless `rows` says so."""
    matrix = np.asarray(codes, dtype=np.int64)
    draw = np.random.default_rng(seed)
    measured = measure(matrix, sizes, epsilon, delta, draw)
    return measured.rows(fit(measured), len(matrix) if rows is None else rows, draw)


def cells_at(epsilon: float) -> int:
    """Cells of a numeric column."""
    return 12 if epsilon < 0.2 else 32


@dataclass(frozen=True)
class Coding:
    """Public cells of every column, and back: a number is drawn evenly inside its cell.

    The first cell of a wide column holds its low end alone (most people have no capital gain), as in `dpx.marginals`.
    """

    domain: dpx.Domain
    partitions: tuple[Partition, ...]

    @classmethod
    def of(cls, domain: dpx.Domain, cells: int) -> Coding:
        return cls(domain, cells_of(list(domain), domain, cells, most_whole=cells))

    @property
    def sizes(self) -> list[int]:
        return [cells.size for cells in self.partitions]

    def codes(self, frame: pd.DataFrame) -> Integers:
        columns = []
        for cells in self.partitions:
            column, values = self.domain[cells.feature], frame[cells.feature].to_numpy()
            if isinstance(column, dpx.Categorical):
                place = {category: code for code, category in enumerate(column.categories)}
                columns.append(np.array([place[value] for value in values.tolist()]))
            else:
                columns.append(cells.place(column.clean(values.astype(np.float64))))
        return np.stack(columns, axis=1).astype(np.int64)

    def frame(self, codes: Integers, seed: int) -> pd.DataFrame:
        draw, columns = np.random.default_rng(seed), {}
        for cells, mine in zip(self.partitions, codes.T, strict=True):
            column = self.domain[cells.feature]
            if isinstance(column, dpx.Categorical):
                columns[cells.feature] = np.array(column.categories)[mine]
                continue
            edges = np.array(cells.edges)
            values = edges[mine] + draw.random(len(mine)) * (edges[mine + 1] - edges[mine])
            columns[cells.feature] = column.clean(np.rint(values) if column.integer else values)
        return pd.DataFrame(columns)


@dataclass(frozen=True)
class Measured:
    """What was paid for. Cells are those after rare ones were taken together: `places` says where each came to."""

    total: int
    sizes: tuple[int, ...]
    places: tuple[Integers, ...]
    columns: tuple[Floats, ...]  # noisy histograms
    column_noise: tuple[Floats, ...]  # their standard deviations, cell by cell
    edges: tuple[Edge, ...]
    pairs: tuple[Floats, ...]
    pair_noise: float

    @property
    def noisy(self) -> trees.Noisy:
        pairs = dict(zip(self.edges, self.pairs, strict=True))
        return trees.Noisy(self.total, self.columns, self.column_noise, pairs, self.pair_noise)

    def rows(self, tree: Tree, rows: int, draw: np.random.Generator) -> Integers:
        """Rows drawn from the tree, in the cells of the caller: evenly among those that were taken together."""
        drawn = tree.rows(rows, draw)
        columns = []
        for place, mine in zip(self.places, drawn.T, strict=True):
            order = np.argsort(place, kind="stable")
            starts = np.searchsorted(place[order], np.arange(place.max() + 2))
            width = starts[mine + 1] - starts[mine]
            columns.append(order[starts[mine] + (draw.random(rows) * width).astype(np.int64)])
        return np.stack(columns, axis=1)


def measure(
    codes: Integers, sizes: Sequence[int], epsilon: float, delta: float | None, draw: np.random.Generator
) -> Measured:
    """The three steps that cost something."""
    total, width = codes.shape
    price = _Price.of(epsilon, delta)
    std, noise = price.histograms(width, draw)
    exact = [np.bincount(codes[:, j], minlength=sizes[j]).astype(np.float64) for j in range(width)]
    noisy = [counts + noise(counts.shape) for counts in exact]
    places = [_together(counts, RARE * std) for counts in noisy]
    merged = np.stack([place[codes[:, j]] for j, place in enumerate(places)], axis=1)
    fewer = tuple(int(place.max()) + 1 for place in places)
    columns = tuple(np.bincount(p, y, size) for p, y, size in zip(places, noisy, fewer, strict=True))
    spread = tuple(std * np.sqrt(np.bincount(p, minlength=size)) for p, size in zip(places, fewer, strict=True))
    edges = _select(merged, [_shares(counts) * total for counts in columns], price.selection(width - 1), draw)
    std, noise = price.histograms(width - 1, draw)
    pairs = tuple(_pair(merged, edge, fewer) + noise((fewer[edge[0]], fewer[edge[1]])) for edge in edges)
    return Measured(total, fewer, tuple(places), columns, spread, edges, pairs, std)


@dataclass(frozen=True)
class _Price:
    """A third of the whole price, by the definition of the account: rho, or a pure epsilon."""

    third: float
    zcdp: bool

    @classmethod
    def of(cls, epsilon: float, delta: float | None) -> _Price:
        if delta is None:
            return cls(epsilon / 3, False)
        cost = dpx.Budget(epsilon, delta).cost(epsilon=epsilon)  # the conversion of our own accounts
        return cls(float(cost.amount) / 3, True)

    def histograms(self, number: int, draw: np.random.Generator) -> tuple[float, Callable[[Any], Floats]]:
        """The noise of so many histograms: its standard deviation, and a draw of it."""
        if self.zcdp:
            std = HISTOGRAM_L2 * np.sqrt(number / (2 * self.third))
            return float(std), lambda shape: draw.normal(0, std, shape)
        scale = HISTOGRAM_L1 * number / self.third
        return float(np.sqrt(2) * scale), lambda shape: draw.laplace(0, scale, shape)

    def selection(self, number: int) -> float:
        """What a score is multiplied by in the exponent, for each of so many selections."""
        loss = np.sqrt(8 * self.third / number) if self.zcdp else self.third / number
        return float(loss / SCORE_RANGE)


def _together(counts: Floats, least: float) -> Integers:
    """Where each cell goes: those below `least` into one, the last."""
    kept = counts >= least
    place = np.cumsum(kept) - 1
    return np.where(kept, place, kept.sum()).astype(np.int64)


def _shares(counts: Floats) -> Floats:
    positive = np.maximum(counts, 0)
    return positive / positive.sum() if positive.any() else np.full(len(counts), 1 / len(counts))


def _pair(codes: Integers, edge: Edge, sizes: Sequence[int]) -> Floats:
    a, b = edge
    flat = np.bincount(codes[:, a] * sizes[b] + codes[:, b], minlength=sizes[a] * sizes[b])
    return flat.reshape(sizes[a], sizes[b]).astype(np.float64)


def scores(codes: Integers, columns: list[Floats]) -> dict[Edge, float]:
    """How far each pair is from the product of *released* histograms: a replaced row moves two cells of it by one."""
    sizes, total = [len(counts) for counts in columns], len(codes)
    return {
        (a, b): float(np.abs(_pair(codes, (a, b), sizes) - np.outer(columns[a], columns[b]) / total).sum())
        for a, b in combinations(range(len(columns)), 2)
    }


def _select(codes: Integers, columns: list[Floats], factor: float, draw: np.random.Generator) -> tuple[Edge, ...]:
    """A tree, edge by edge: among the pairs that join two parts, by Gumbel noise on their scores."""
    distances = scores(codes, columns)
    part, edges = list(range(len(columns))), []
    for _ in range(len(columns) - 1):
        open_pairs = [edge for edge in distances if part[edge[0]] != part[edge[1]]]
        noisy = np.array([factor * distances[edge] for edge in open_pairs]) + draw.gumbel(size=len(open_pairs))
        a, b = open_pairs[int(np.argmax(noisy))]
        edges.append((a, b))
        part = [part[a] if mine == part[b] else mine for mine in part]
    return tuple(edges)


def fit(measured: Measured) -> Tree:
    """The fit of `dpexplain.maths.trees`."""
    return trees.fit(measured.noisy)


def loss_of(measured: Measured, tree: Tree) -> float:
    """What both fits minimise."""
    return trees.loss_of(measured.noisy, tree)


def fit_by_mbi(measured: Measured, steps: int = 5_000) -> Tree:
    """The fit of the library of MST's authors. ImportError where `mbi` is not installed."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    import mbi

    names = [str(j) for j in range(len(measured.sizes))]
    domain = mbi.Domain(names, measured.sizes)
    asked = []
    for name, counts, noise in zip(names, measured.columns, measured.column_noise, strict=True):
        scaled = mbi.WeightedQuery(1 / noise)
        asked.append(mbi.LinearMeasurement(counts / noise, (name,), 1.0, query=scaled))
    for (a, b), pair in zip(measured.edges, measured.pairs, strict=True):
        asked.append(mbi.LinearMeasurement(pair.ravel(), (names[a], names[b]), measured.pair_noise))
    model = mbi.estimation.MirrorDescent().estimate(domain, asked, known_total=float(measured.total), iters=steps)

    def counts(*columns: int) -> Floats:
        return np.asarray(model.project(tuple(names[j] for j in columns)).datavector(flatten=False), dtype=np.float64)

    pairs = {edge: counts(*edge) for edge in measured.edges}
    return Tree(measured.total, [counts(j) for j in range(len(names))], pairs)
