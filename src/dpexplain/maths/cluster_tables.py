"""Noisy counts of clusters by value made better: a prior from labelled synthetic rows, and the posterior of all tables.

There is a table for each attribute: h[c, v], the rows of cluster c (the last line: of none) with value v, released with
independent noise. The clustering is public, so it says of synthetic rows, too, to which cluster they belong: the share
of each cluster among those with value v is near that of the table, if columns go together there as they do here. Each
table has three parts that are perpendicular to each other, so that noise in one says nothing of the others:

  sizes         sums over values: the same in every table, so all tables together know them well
  margins       sums over clusters: how often each value is. Synthetic rows are drawn from them where no stand-in is
                handed over, and they are used for nothing else
  interactions  the rest: which cluster has more of which value. Here synthetic rows are the prior: what they say, moved
                to the sizes and margins (u), with the covariance of so many rows, C / l. What l is nobody knows; it is
                averaged over, as in `maths/posterior.py`, but it is one number for all tables, which thousands of
                released counts speak about.

`Sharp.means` are the tables that combinations are scored by, `Sharp.draw` draws tables from the posterior. A single
table that is shown with intervals is sharpened by itself (`alone`), with the caution of `maths/posterior.py`: there the
prior of an attribute is what the clustering says about rows in which *its* values are drawn evenly, so that no count of
its own table is used twice.

Everything here is computed from released numbers, public functions and public draws. No row enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dpexplain.data.public_random import Generator
from dpexplain.maths.posterior import LEAST_WORTH, LOW_WORTH, Prior, Sharpened, sharpen
from dpexplain.maths.simplex import nearest_with_total
from dpexplain.maths.trees import denoised

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

WORTHS = 32  # steps of l
USUAL_WORTH = 100.0  # a worth below is as likely as (l / this) to the power of LOW_WORTH: found by `bench clusters`
MOST_EXACT = 600  # cells of a table whose covariance is turned to its axes; of larger ones, its diagonal is taken
ROUNDS = 40  # of moving a table to given sums
LEAST_SHARE = 1e-9  # of a cell before its table is moved


@dataclass(frozen=True, eq=False)
class Labelled:
    """Synthetic rows as the tables see them.

    labels  the cluster of each row, the last number for none
    codes   [row, attribute]: its cell of each attribute
    given   whether they come from a stand-in that was not made of these tables
    most    rows that they can be worth where a table is sharpened by itself
    """

    labels: Integers
    codes: Integers
    given: bool
    most: float

    def table(self, attribute: int, lines: int, cells: int) -> Floats:
        """Shares of the rows by cluster and value."""
        place = self.labels * cells + self.codes[:, attribute]
        return np.bincount(place, minlength=lines * cells).reshape(lines, cells) / len(self.labels)


@dataclass(frozen=True, eq=False)
class Tables:
    """Released tables of one table of rows: counts [cluster or none, value], and the noise of each count."""

    noisy: Sequence[Floats]
    std: float
    rows: float | None  # where their number is public

    @property
    def lines(self) -> int:
        return len(self.noisy[0])

    @cached_property
    def _precisions(self) -> Floats:
        each = np.array([1 / table.shape[1] for table in self.noisy])
        return np.asarray(each / each.sum())

    @cached_property
    def line_sums(self) -> tuple[Floats, float]:
        """The noisy size of each line by all tables together, and its standard deviation."""
        sums = np.array([table.sum(axis=1) for table in self.noisy])
        return self._precisions @ sums, self.std / np.sqrt(sum(1 / table.shape[1] for table in self.noisy))

    @cached_property
    def total(self) -> tuple[float, float]:
        """The number of rows, public or noisy, and its standard deviation."""
        if self.rows is not None:
            return max(float(self.rows), 1.0), 0.0
        sizes, std = self.line_sums
        return max(float(sizes.sum()), 1.0), std * float(np.sqrt(self.lines))

    def shares_of(self, attribute: int) -> Floats:
        """The distribution of an attribute by its table alone, see `trees.denoised`."""
        return denoised(self.noisy[attribute].sum(axis=0), self.std * float(np.sqrt(self.lines)))


@dataclass(frozen=True, eq=False)
class _Axes:
    """Interactions of a table along the eigenvectors of their prior covariance, in units of the noise."""

    before: Floats  # the table that the prior is around
    axes: Floats
    spread: Floats
    away: Floats


class Sharp:
    """The posterior of all tables, in rows."""

    def __init__(self, tables: Tables, labelled: Labelled) -> None:
        self.tables, self._labelled = tables, labelled
        self._scale = tables.std / tables.total[0]  # of the noise, as a share
        lines, std = tables.line_sums
        said = (labelled.labels == np.arange(tables.lines)[:, None]).astype(np.float64)
        self._sizes = _posterior(said.mean(axis=1), lines / tables.total[0], std / tables.total[0], labelled.most)
        self.sizes = nearest_with_total(self._sizes.values, 1.0) * tables.total[0]
        self._margins = [self._margin(a) for a in range(len(tables.noisy))]
        self._parts = [self._part(a) for a in range(len(tables.noisy))]
        spread, away = (np.concatenate([getattr(p, name) for p in self._parts]) for name in ("spread", "away"))
        worths = np.geomspace(LEAST_WORTH, len(labelled.labels), WORTHS)
        before = spread / worths[:, None]
        likely = -0.5 * (away**2 / (before + 1) + np.log1p(before)).sum(axis=1)
        weight = softmax(likely + LOW_WORTH * np.log(np.minimum(worths / USUAL_WORTH, 1.0)))
        self.worth = float(np.exp(weight @ np.log(worths)))
        self.gains = np.split(weight @ (before / (before + 1)), np.cumsum([len(p.spread) for p in self._parts])[:-1])

    def _margin(self, attribute: int) -> Floats:
        """The distribution of an attribute."""
        table = self.tables.noisy[attribute]
        if not self._labelled.given:
            return self.tables.shares_of(attribute)
        said = self._labelled.table(attribute, *table.shape).sum(axis=0)
        noise = self._scale * float(np.sqrt(self.tables.lines))
        return nearest_with_total(
            _posterior(said, table.sum(axis=0) / self.tables.total[0], noise, self._labelled.most).values, 1.0
        )

    def _part(self, attribute: int) -> _Axes:
        table = self.tables.noisy[attribute]
        lines, cells = table.shape
        said, sizes = self._labelled.table(attribute, lines, cells), self.sizes / self.sizes.sum()
        mine = moved_to(said, sizes, self._margins[attribute])
        flat, axes = mine.ravel(), np.kron(_contrasts(lines), _contrasts(cells))
        if len(flat) > MOST_EXACT:
            spread = np.maximum(flat @ axes**2 - (flat @ axes) ** 2, 0.0) / self._scale**2
        else:
            covariance = (axes.T * flat) @ axes - np.outer(flat @ axes, flat @ axes)
            spread, turned = np.linalg.eigh(covariance / self._scale**2)
            spread, axes = np.maximum(spread, 0.0), axes @ turned
        away = axes.T @ ((table.ravel() / self.tables.total[0] - flat) / self._scale)
        return _Axes(mine, np.asarray(axes, dtype=np.float64), spread, away)

    def _inside(self, part: _Axes, along: Floats) -> Floats:
        """A table that is so far away along the axes, not negative, with the sizes."""
        raw = part.before + self._scale * (part.axes @ along).reshape(part.before.shape)
        return with_sizes(raw * self.tables.total[0], self.sizes)

    @cached_property
    def means(self) -> list[Floats]:
        """The likely tables: not negative, all with the same sizes."""
        return [self._inside(part, gain * part.away) for part, gain in zip(self._parts, self.gains, strict=True)]

    def draw(self, draw: Generator) -> list[Floats]:
        """Tables that are as likely: interactions and sizes by the posterior, margins by their noise."""
        sizes = self._sizes.values + self._sizes.root @ draw.standard_normal(self._sizes.root.shape[1])
        sizes = nearest_with_total(sizes, 1.0) * self.tables.total[0]
        drawn = []
        for part, gain, share in zip(self._parts, self.gains, self._margins, strict=True):
            along = gain * part.away + np.sqrt(gain) * draw.standard_normal(len(gain))
            raw = part.before + self._scale * (part.axes @ along).reshape(part.before.shape)
            noise = self._scale * np.sqrt(self.tables.lines) * draw.standard_normal(len(share))
            noise = np.clip(noise, -share, share)  # where noise hides a share, it is as likely anything up to twice it
            raw = raw * (1 + (noise - noise.mean()) / np.maximum(share, LEAST_SHARE))
            drawn.append(with_sizes(raw * self.tables.total[0], sizes))
        return drawn

    def alone(self, attribute: int) -> Sharpened:
        """The posterior of one table by itself, in shares of the rows, line after line."""
        table = self.tables.noisy[attribute]
        mine = np.maximum(self._labelled.table(attribute, *table.shape), LEAST_SHARE)
        if not self._labelled.given:  # as if its own values were drawn evenly: none of its counts is used twice
            mine = mine / mine.sum(axis=0) / table.shape[1]
        return _posterior(mine.ravel(), table.ravel() / self.tables.total[0], self._scale, self._labelled.most)


def _posterior(shares: Floats, released: Floats, std: float, most: float) -> Sharpened:
    """The posterior of some shares that are those of disjoint cells among synthetic rows."""
    covariance = np.diag(shares) - np.outer(shares, shares)
    sizes, basis = np.linalg.eigh(covariance)
    prior = Prior(shares, basis * np.sqrt(np.maximum(sizes, 0.0)), np.zeros(len(shares)), most, max(int(most), 1))
    return sharpen(prior, released, np.full(len(shares), std**2), width=1.0)


def _contrasts(size: int) -> Floats:
    """[number, contrast]: an orthonormal basis of all vectors whose sum is zero (Helmert)."""
    basis = np.triu(np.ones((size, size)), 1) - np.diag(np.arange(size))
    return np.asarray(basis[:, 1:] / np.sqrt((basis[:, 1:] ** 2).sum(axis=0)))


def moved_to(table: Floats, lines: Floats, columns: Floats) -> Floats:
    """The table with these sums whose ratios of ratios are those of the given one (iterative proportional fitting)."""
    table = np.maximum(table, LEAST_SHARE)
    for _ in range(ROUNDS):
        table = table * (lines / np.maximum(table.sum(axis=1), 1e-300))[:, None]
        table = table * (columns / np.maximum(table.sum(axis=0), 1e-300))
    return np.asarray(table)


def with_sizes(table: Floats, sizes: Floats) -> Floats:
    """The nearest table that is not negative and has these sums of lines."""
    return np.array([nearest_with_total(line, float(size)) for line, size in zip(table, sizes, strict=True)])
