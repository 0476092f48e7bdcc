"""Moments of rows and predictions in cells: released once, they answer any later question about a local linear model.

Cells       K public centres; a row belongs to the nearest one (the first of several). Coordinates are whole numbers of
            1/GRID, so distances are exact: the same row is in the same cell whatever rows are computed beside it.
Row         v = x - centre and u = v / B, B the `radius`; f is the prediction on the scale of -1 to 1, 0 where the model
            fails. A row beyond the radius counts less: with s = min(1, 1 / |u|) the row (1, u, f) becomes the whole
            numbers S, y, t = levels s (1, u, f), cut toward zero, so |S|, |y| and |t| are at most levels. Its blocks
                S^2,  S y,  y y',  S t,  t y
            are those of a row of weight s^2, and each has at most the length levels^2. Of the symmetric y y' the upper
            triangle is kept, off its diagonal times sqrt(2), so that it has the length of the whole.
Sums        exact whole numbers, by products of whole numbers in floats below 2^53. After the sum each block is
            multiplied by its public weight w, a whole number of 1/2^16, and cut to whole numbers of 1/2^20 of a row.
Bounds      add-remove: sqrt(W), W the sum of all w^2. replace-one: sqrt(2 W) into another cell; in the same one, the
            root of 2 W - 2 min of (w0^2 + w3^2 p) q^2 + (w1^2 + w4^2 p) q t + w2^2 t^2 over t, p in [-1, 1] and q in
            [0, 1]. k rows of a unit: k times as much. Cutting moves each coordinate of a changed cell by less than 1
            more. docs/methods/local-sketch.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, PublicRange
from dpexplain.core.sensitivity import Neighbours, Relation, Sensitivity
from dpexplain.maths.surrogate.ball import Quadratic
from dpexplain.maths.surrogate.fit import Fit
from dpexplain.maths.surrogate.local import StepWeight
from dpexplain.maths.surrogate.space import ONE, Space

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GRID = 2**16  # coordinates are whole numbers of 1 / GRID
LEVELS = 2**16
INEXACT = 2.0**-40  # more than the rounding of floats can add to a length
ROWS_AT_ONCE = 2**14  # products of so many rows stay below 2^53
WEIGHT_ONE, CUT = 2**16, 28  # levels^2 * WEIGHT_ONE / 2^CUT is
ROW = 2**20  # what a row adds to its count at weight 1

POINTS = 2048  # that cells are drawn from
RIDGE = 0.3  # of the largest eigenvalue that noise alone would have
SURE = 3.0  # standard deviations that a cell's count must have to be used
FEW = 50  # rows nearby, below which a reader is told
FULL_SWING = 2.0  # the longest phi where the value at the record is fitted: from one end of the output to the other


@dataclass(frozen=True)
class Layout:
    """Where the cells are: centres, and from where on rows count less, in whole numbers of 1 / GRID. Public."""

    centres: Integers  # one line for each cell
    radius: int

    def cell(self, places: Floats) -> Integers:
        """The nearest centre of each line of whole numbers."""
        centres = self.centres.astype(np.float64)
        distance = (centres * centres).sum(axis=1) - 2 * (places @ centres.T)
        return np.asarray(distance.argmin(axis=1))

    def to_json(self) -> JsonObject:
        return {"centres": self.centres.tolist(), "radius": self.radius}

    @classmethod
    def from_json(cls, value: JsonObject) -> Layout:
        layout = cls(np.array(value["centres"], dtype=np.int64), int(value["radius"]))
        if (
            layout.centres.ndim != 2
            or not 1 <= layout.radius <= 2**40
            or not ((layout.centres >= -GRID) & (layout.centres <= GRID)).all()
        ):
            raise ValueError("no layout of ours")
        return layout


@dataclass(frozen=True)
class Histogram:
    """Where the rows are in one feature: whole numbers for public cells, and the coordinates of a cell's middle."""

    feature: str
    places: Integers  # one line of the feature's coordinates for each cell
    counts: Integers


def middles(space: Space, feature: str, labels: Sequence[object]) -> Integers:
    """The coordinates of the categories of a feature, or of the middles of its cells."""
    column, where = space.domain[feature], space.slices[feature]
    if isinstance(column, Categorical):
        return np.rint(np.eye(where.stop - where.start) * (ONE * GRID)).astype(np.int64)
    inside = (np.clip(np.array(labels, dtype=np.float64), column.low, column.high) - column.low) / (
        column.high - column.low
    )
    return np.rint(inside * GRID).astype(np.int64)[:, None]


def spread_points(histograms: Sequence[Histogram], size: int, seed: int) -> Integers:
    """`size` points that fill the product of the histograms evenly: Richtmyer's sequence i sqrt(p) mod 1, a prime p for
    each feature. Whole numbers all the way, so every computer finds the same points.
    """
    index = np.arange(size, dtype=np.uint64) + np.uint64(1 + seed * size % 2**32)
    blocks = []
    for prime, histogram in zip(_primes(len(histograms)), histograms, strict=True):
        fraction = index * np.uint64(math.isqrt(prime << 128) % 2**64) >> np.uint64(32)  # of 2^32
        counts = np.maximum(histogram.counts, 0)
        ends = np.cumsum(counts >> max(0, int(counts.sum()).bit_length() - 32))
        if ends[-1] == 0:
            ends = np.arange(1, len(ends) + 1)
        level = (fraction * np.uint64(ends[-1]) >> np.uint64(32)).astype(np.int64)
        blocks.append(histogram.places[np.searchsorted(ends, level, side="right")])
    return np.concatenate(blocks, axis=1)


def _primes(count: int) -> list[int]:
    primes: list[int] = []
    candidate = 2
    while len(primes) < count:
        if all(candidate % p for p in primes if p * p <= candidate):
            primes.append(candidate)
        candidate += 1
    return primes


def grouped(points: Integers, cells: int, rounds: int = 12) -> Integers:
    """Centres of `cells` groups of points that lie together (Lloyd's rounds, in whole numbers)."""
    centres = points[:cells]
    for _ in range(rounds):
        cell = Layout(centres, 1).cell(points.astype(np.float64))
        member = (cell == np.arange(cells)[:, None]).astype(np.float64)
        count, sums = member.sum(axis=1).astype(np.int64)[:, None], (member @ points).astype(np.int64)
        centres = np.where(count > 0, sums // np.maximum(count, 1), centres)
    return centres


def reach(points: Integers, centres: Integers, share: Fraction) -> int:
    """The length within which `share` of the points lie from their centres."""
    away = (points - centres[Layout(centres, 1).cell(points.astype(np.float64))]).astype(np.float64)
    squares = np.sort((away * away).sum(axis=1))
    return max(math.isqrt(int(squares[int(share * (len(squares) - 1))])), GRID // 64)


def drawn(
    histograms: Sequence[Histogram],
    cells: int,
    share: Fraction,
    radius: int | None,
    seed: int,
    centres: Integers | None = None,
) -> Layout:
    """Cells where the rows are, by what is known of each feature: the same ones for the same whole numbers. With given
    centres, only the radius follows from it.
    """
    points = spread_points(histograms, POINTS, seed)
    centres = grouped(points, cells) if centres is None else centres
    return Layout(centres, reach(points, centres, share) if radius is None else radius)


@dataclass(frozen=True)
class Blocks:
    """The public weights of the five blocks, in whole numbers of 1 / WEIGHT_ONE, and what they make of the sums."""

    weights: tuple[int, int, int, int, int]

    @classmethod
    def of(cls, weights: Sequence[int]) -> Blocks:
        count, first, second, value, product = weights
        if not all(type(w) is int and 0 < w <= 16 * WEIGHT_ONE for w in weights):
            raise ValueError("no weights of ours")
        return cls((count, first, second, value, product))

    def bound(self, neighbours: Neighbours, coordinates: int, cells: int) -> Sensitivity:
        """How far one unit can move the cut sums of all cells. Proof: docs/methods/local-sketch.md."""
        squares = [w * w for w in self.weights]
        moved = _root_above(squares, neighbours.relation)
        changed = min(cells, neighbours.changed_rows)
        unit = LEVELS**2 // 2**CUT
        l2 = neighbours.rows * unit * moved + _isqrt_above(changed * cell_size(coordinates))
        return Sensitivity.of_distance(neighbours, cells * cell_size(coordinates), l2)

    def factors(self, coordinates: int) -> list[int]:
        """What each number of a cell is multiplied by, from units of levels^2."""
        count, first, second, value, product = self.weights
        off = math.isqrt(2 * second * second)
        triangle = [second if i == j else off for i in range(coordinates) for j in range(i, coordinates)]
        return [count, *[first] * coordinates, *triangle, value, *[product] * coordinates]

    def cut(self, sums: Integers, coordinates: int) -> list[int]:
        """Exact sums of all cells as they are released."""
        factors = self.factors(coordinates)
        return [int(s) * factors[i % len(factors)] >> CUT for i, s in enumerate(sums)]


def _root_above(squares: Sequence[int], relation: Relation) -> int:
    """The length of one row's blocks, or of the difference of two, in units of 1 / WEIGHT_ONE; rounded up."""
    total = sum(squares)
    if relation is Relation.ADD_REMOVE:
        return _isqrt_above(total)
    count, first, second, value, product = squares
    least = min(_least(count + p * value, first + p * product, second) for p in (-1, 1))
    return _isqrt_above(max(2 * total, math.ceil(2 * total - 2 * least)))


def _least(a: int, b: int, c: int) -> Fraction:
    """A number not above a q^2 + b q t + c t^2 for t in [-1, 1] and q in [0, 1]."""
    ends = [Fraction(0), Fraction(a + b + c), Fraction(a - b + c)]
    if abs(b) < 2 * c:
        ends.append(a - Fraction(b * b, 4 * c))
    if a > 0 and abs(b) < 2 * a:
        ends.append(c - Fraction(b * b, 4 * a))
    return min(ends)


def _isqrt_above(value: int) -> int:
    return math.isqrt(value - 1) + 1 if value > 0 else 0


def cell_size(coordinates: int) -> int:
    """How many numbers a cell has: 1 + n + n (n + 1) / 2 + 1 + n."""
    return 2 + 2 * coordinates + coordinates * (coordinates + 1) // 2


def raw_sums(layout: Layout, output: PublicRange, coordinates: Floats, predictions: Floats) -> Integers:
    """The exact sums of one batch of rows in units of levels^2, cell after cell."""
    cells, n = layout.centres.shape
    exact = np.zeros((cells, n + 2, n + 2), dtype=np.int64)
    for start in range(0, len(predictions), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        cell, lines = _quantised(layout, coordinates[some], predictions[some], output)
        order = np.argsort(cell, kind="stable")
        lines, ends = lines[order], np.cumsum(np.bincount(cell, minlength=cells))
        for k in np.flatnonzero(np.diff(ends, prepend=0)):
            own = lines[ends[k - 1] if k else 0 : ends[k]]
            exact[k] += (own.T @ own).astype(np.int64)
    across, down = np.triu_indices(n)
    square = exact[:, 1:-1, 1:-1][:, across, down]
    parts = [exact[:, :1, 0], exact[:, 0, 1:-1], square, exact[:, :1, -1], exact[:, -1, 1:-1]]
    return np.concatenate(parts, axis=1).ravel()


def _quantised(
    layout: Layout, coordinates: Floats, predictions: Floats, output: PublicRange
) -> tuple[Integers, Floats]:
    """The cell of each row, and S, y, t for each row."""
    places = np.rint(coordinates * GRID)
    cell = layout.cell(places)
    away = places - layout.centres[cell]
    length = np.sqrt((away * away).sum(axis=1))  # of whole numbers below 2^53: exact in any order
    counts = LEVELS / np.maximum(length / layout.radius, 1.0)
    scaled = np.clip(2 * (predictions - output.low) / output.width - 1, -1, 1)
    lines = np.empty((len(cell), coordinates.shape[1] + 2))
    lines[:, 0] = counts
    lines[:, 1:-1] = away * (counts / layout.radius * (1 - INEXACT))[:, None]
    lines[:, -1] = np.nan_to_num(scaled, nan=0.0) * counts
    return cell, np.trunc(lines)


@dataclass(frozen=True)
class Cells:
    """What was released, read back: counts and moments of every cell that is surely not empty."""

    space: Space
    layout: Layout
    blocks: Blocks
    output: PublicRange
    released: Integers  # all cells, one after the other
    std: float  # of the noise of each of these numbers
    before: bool = False  # released before there was an average person: read as it was, all coordinates in the ball

    @cached_property
    def radius(self) -> float:
        return self.layout.radius / GRID

    @cached_property
    def noise(self) -> Floats:
        """Standard deviations of the five blocks: in rows, and in coordinates where they are moments."""
        B = self.radius
        weights = np.array(self.blocks.weights) / WEIGHT_ONE
        return np.asarray(self.std / ROW / weights * np.array([1.0, B, B * B, 1.0, B]))

    @cached_property
    def numbers(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Count, sum of v, sum of v v', sum of f and sum of f v of each cell."""
        n, B = self.space.size, self.radius
        lines = self.released.reshape(len(self.layout.centres), cell_size(n)).astype(np.float64)
        lines = lines * (WEIGHT_ONE / ROW) / np.array(self.blocks.factors(n), dtype=np.float64)
        count, first, triangle, value, product = np.split(lines, np.cumsum([1, n, n * (n + 1) // 2, 1]), axis=1)
        across, down = np.triu_indices(n)
        second = np.zeros((len(lines), n, n))
        second[:, across, down] = second[:, down, across] = triangle * (B * B)
        return count[:, 0], first * B, second, value[:, 0], product * B

    @cached_property
    def kept(self) -> NDArray[np.bool_]:
        """The cells whose count stands out of the noise."""
        return np.asarray(self.numbers[0] > max(SURE * float(self.noise[0]), 1.0))

    @cached_property
    def _moments(self) -> Floats:
        """For each cell in one line: sum of x x', of x, of f x, of f, and the count; x from the origin."""
        count, first, second, value, product = (block[self.kept] for block in self.numbers)
        c = self._centres
        crossed = c[:, :, None] * first[:, None, :]
        square = second + crossed + crossed.transpose(0, 2, 1) + count[:, None, None] * c[:, :, None] * c[:, None, :]
        lines = [
            square.reshape(len(c), c.shape[1] ** 2),
            first + count[:, None] * c,
            product + value[:, None] * c,
            value[:, None],
            count[:, None],
        ]
        return np.concatenate(lines, axis=1)

    @cached_property
    def _centres(self) -> Floats:
        return self.layout.centres[self.kept] / GRID

    @cached_property
    def _middles(self) -> tuple[Floats, Floats]:
        """The mean of each cell and the mean squared distance of its rows from it, both as far as they are possible."""
        count, first, second, _, _ = (block[self.kept] for block in self.numbers)
        mean = first / count[:, None]
        mean *= np.minimum(1, self.radius / np.maximum(np.linalg.norm(mean, axis=1), 1e-12))[:, None]
        away = np.einsum("kii->k", second) / count - (mean * mean).sum(axis=1)
        return self._centres + mean, np.clip(away, 0, self.radius**2)

    @cached_property
    def mean(self) -> Floats:
        """The mean coordinates of all rows, as far as the cells know them."""
        if not self.kept.any():
            return self.space.middle
        n, total = self.space.size, self._moments.sum(axis=0)
        return np.asarray(np.clip(total[n * n : n * n + n] / total[-1], 0, 1))

    def answer(self, z: Floats, weight: StepWeight, anchor: float | None) -> Fit:
        """The local linear model at z. `anchor` is its value there, in units of the output; None: fitted too."""
        half, middle = self.output.width / 2, self.output.middle
        fixed = None if anchor is None else min(max((anchor - middle) / half, -1.0), 1.0)
        local = Around(self, z, weight, fixed)
        return Fit(
            coefficients=local.phi * half,
            value=middle + half * local.value,
            spread=lambda lines: half * local.spread(lines),
            reference=self.mean,
            notes=local.notes,
            pull=lambda lines: half * local.problem.pull(np.atleast_2d(lines) @ local.basis),
            unknown=lambda lines: half * local.problem.unknown(np.atleast_2d(lines) @ local.basis),
        )


class Around:
    """The cells as seen from one record z, and the local model there; f on the scale of -1 to 1."""

    def __init__(self, cells: Cells, z: Floats, weight: StepWeight, anchor: float | None) -> None:
        self.cells, self.z, self.anchor = cells, z, anchor
        self.basis = Q = np.eye(len(z)) if cells.before else cells.space.basis
        n = len(z)
        means, around = cells._middles
        away = means - z
        weights = weight(np.sqrt((away * away).sum(axis=1) + around))
        self.near = float(weights @ cells.numbers[0][cells.kept])  # rows, by their weights
        self.largest = float(weights.max(initial=0.0))
        self.weights = weights / (self.largest or 1.0)  # only their proportions count
        sums = self.weights @ cells._moments
        square, x, fx = sums[: n * n].reshape(n, n), sums[n * n : n * n + n], sums[n * n + n : n * n + 2 * n]
        f, self.rows = float(sums[-2]), float(sums[-1])
        rows = self.rows or 1.0
        self.f, self.first = f / rows, (x - self.rows * z) / rows
        crossed = np.outer(x / rows, z)
        A = square / rows - crossed - crossed.T + np.outer(z, z) * (self.rows / rows)
        b = (fx - f * z) / rows
        if anchor is None:
            A, b, reach = A - np.outer(self.first, self.first), b - self.f * self.first, FULL_SWING
        else:
            b, reach = b - anchor * self.first, 1 + abs(anchor)
        self.noisy = float(np.sqrt(self.weights @ self.weights))
        noise = float(cells.noise[2]) * self.noisy / rows
        ridge, free = RIDGE * math.sqrt(Q.shape[1]) * noise, anchor is None and not cells.before
        noise = noise if self.largest else math.inf  # without cells, nothing is determined
        self.problem = Quadratic(Q.T @ A @ Q, Q.T @ b, ridge, reach, noise, free)

    @cached_property
    def phi(self) -> Floats:
        return np.asarray(self.basis @ self.problem.solution)

    @property
    def value(self) -> float:
        if self.anchor is not None:
            return self.anchor
        return min(max(self.f - float(self.phi @ self.first), -1.0), 1.0)

    def spread(self, lines: Floats) -> Floats:
        """Standard deviations of phi.line, to first order in the noise, the weights of the cells held.

        phi = H^-1 r with H and r linear in the noise e of a cell, so in directions that the cells determine it moves
        by h.(dr - dH phi) with h = H^-1 line (on the edge of the ball its multiplier is held). With U = centre - z,
        p = U.h + h0 and g = value + U.phi (h0 belongs to the fitted value) this is
            h.e_fv + p e_f - (g h + p phi).e_v - p g e_c - h.e_M phi,
        and h.e_M phi has the variance (|h|^2 |phi|^2 + (h.phi)^2) / 2, half of it off the diagonal.
        """
        cells, phi = self.cells, self.phi
        h = self.problem.determined(np.atleast_2d(lines) @ self.basis)[0] @ self.basis.T / (self.rows or 1.0)
        U = cells._centres - self.z
        h0 = -(h @ self.first) if self.anchor is None else np.zeros(len(h))
        p, g = h @ U.T + h0[:, None], self.value + U @ phi  # a line for each direction, a column for each cell
        hh, hp, pp = (h * h).sum(axis=1)[:, None], (h @ phi)[:, None], float(phi @ phi)
        s = np.square(cells.noise)
        variance = (
            s[4] * hh
            + s[3] * p**2
            + s[1] * (g**2 * hh + 2 * g * p * hp + p**2 * pp)
            + s[0] * (p * g) ** 2
            + s[2] * (hh * pp + hp**2) / 2
        )
        return np.asarray(np.sqrt(variance @ np.square(self.weights)))

    @property
    def notes(self) -> tuple[str, ...]:
        sure = SURE * float(self.cells.noise[0]) * self.noisy * self.largest
        number = len(self.weights)
        cells = f"from a sketch with {number} cell{'s' * (number != 1)}: intervals leave out how coarse that is"
        if self.near > max(FEW, sure):
            return (cells,)
        return (f"few rows are near this record (their weights add up to about {max(self.near, 0):.0f})", cells)
