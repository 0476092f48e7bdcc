"""Local linear models of weighted public rows, such as synthetic ones: any weight by distance, any number of records.

Loss        around a record z, over rows (x, f) of weight w and f on the scale of -1 to 1:
                L(phi) = sum of w a (phi.(x - z) - (f - g))^2,    a = weight(|x - z|)
            as `local.py` has it for the rows of a table: g is the value at the record, fitted or given. phi lies in the
            ball of radius 1 + |g| where g is given; where it is fitted, the ball (FULL_SWING) is for directions alone
            that hardly any row differs in.
Influence   of a row of weight w on phi.line, to first order: w times
                a (h.(x - c)) (f - value - phi.(x - z)) / sum of w a  -  mu h.phi,     h = (A + mu)^-1 line
            with c the weighted mean of x where g is fitted, and z where it is given; mu, the multiplier of the ball, is
            held. So an error in the weights of the rows moves phi.line by the mean of this function of a row.
Speed       sums of products of coordinates are one matrix product for many records, where the table of products is
            small enough to be kept; else one for each record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import PublicRange
from dpexplain.maths.surrogate.ball import DETERMINED, Quadratic
from dpexplain.maths.surrogate.local import StepWeight
from dpexplain.maths.surrogate.sketch import FULL_SWING
from dpexplain.maths.surrogate.space import Space

Floats = NDArray[np.float64]

FEW_ROWS = 10  # a direction in which fewer rows nearby differ by one coordinate is not determined
KEPT_NUMBERS = 2**23  # of products of coordinates, that are kept for all later records
RECORDS_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Public rows: coordinates, one line for each; predictions in units of the output; weights that add up to one."""

    space: Space
    output: PublicRange
    coordinates: Floats
    predictions: Floats
    weights: Floats

    @cached_property
    def scaled(self) -> Floats:
        """Predictions on the scale of -1 to 1; 0 where the model fails."""
        inside = np.clip(2 * (self.predictions - self.output.low) / self.output.width - 1, -1, 1)
        return np.asarray(np.nan_to_num(inside, nan=0.0))

    @cached_property
    def mean(self) -> Floats:
        """The coordinates of an average row."""
        return np.asarray(self.weights @ self.coordinates)

    @cached_property
    def mean_prediction(self) -> float:
        return self.output.middle + self.output.width / 2 * float(self.weights @ self.scaled)

    def around(self, records: Floats, weight: StepWeight, anchor: float | None) -> Iterator[Near]:
        """The local models at some records, given in coordinates. `anchor` in units of the output; None: fitted."""
        for start in range(0, len(records), RECORDS_AT_ONCE):
            some = records[start : start + RECORDS_AT_ONCE]
            rates = self._rates(some, weight)
            for z, rate, sums in zip(some, rates, self._sums(rates), strict=True):
                yield Near(self, z, rate, sums, self._fixed(anchor))

    def _fixed(self, anchor: float | None) -> float | None:
        if anchor is None:
            return None
        return min(max(2 * (anchor - self.output.low) / self.output.width - 1, -1.0), 1.0)

    def _rates(self, records: Floats, weight: StepWeight) -> Floats:
        """[record, row]: weight times weight by distance; their proportions alone count, so the largest is one."""
        squares = self._squares - 2 * (records @ self.coordinates.T) + (records**2).sum(axis=1)[:, None]
        rates: Floats = weight(np.sqrt(np.maximum(squares, 0.0))) * self.weights
        return np.asarray(rates / np.maximum(rates.max(axis=1, initial=0.0), 1e-300)[:, None])

    @cached_property
    def _squares(self) -> Floats:
        return np.asarray(np.einsum("ij,ij->i", self.coordinates, self.coordinates))

    def _sums(self, rates: Floats) -> Iterator[tuple[Floats, Floats]]:
        """For each record the sums of x x', and of x, f x, f and 1 in one line."""
        plain = rates @ self._plain
        if self._products is None:
            X = self.coordinates
            for rate, line in zip(rates, plain, strict=True):
                yield (X * rate[:, None]).T @ X, line
            return
        across, down = self._triangle
        for triangle, line in zip(rates @ self._products, plain, strict=True):
            square = np.empty((self.space.size, self.space.size))
            square[across, down] = square[down, across] = triangle
            yield square, line

    @cached_property
    def _plain(self) -> Floats:
        X, f = self.coordinates, self.scaled[:, None]
        return np.hstack([X, f * X, f, np.ones_like(f)])

    @cached_property
    def _triangle(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.triu_indices(self.space.size)

    @cached_property
    def _products(self) -> Floats | None:
        across, down = self._triangle
        if len(across) * len(self.weights) > KEPT_NUMBERS:
            return None
        return np.asarray(self.coordinates[:, across] * self.coordinates[:, down])


class Near:
    """The rows as seen from one record z, and the local model there; f on the scale of -1 to 1.

    rates  weights of the rows times weights by distance, up to a factor
    sums   of x x'; and of x, f x, f and 1, with these weights
    """

    def __init__(
        self, rows: WeightedRows, z: Floats, rates: Floats, sums: tuple[Floats, Floats], anchor: float | None
    ) -> None:
        self.rows, self.z, self.anchor, self._rates = rows, z, anchor, rates
        self.basis, n = rows.space.basis, rows.space.size
        square, line = sums
        self.total = float(line[-1])
        total = self.total or 1.0
        x, fx, self.f = line[:n] / total, line[n : 2 * n] / total, float(line[-2]) / total
        centre, g = (x, self.f) if anchor is None else (z, anchor)  # what products are taken around
        crossed = np.outer(x, centre)
        A = square / total - crossed - crossed.T + np.outer(centre, centre)
        b = fx - self.f * centre - g * (x - centre)
        self.centre, self.first = centre, x - z
        reach = FULL_SWING if anchor is None else 1 + abs(anchor)
        Q = self.basis
        self.problem = Quadratic(Q.T @ A @ Q, Q.T @ b, 0.0, reach, self._noise, anchor is None)

    @cached_property
    def effective(self) -> float:
        """How many rows of equal weight these are as good as."""
        return self.total**2 / max(float(self._rates @ self._rates), 1e-300)

    @property
    def _noise(self) -> float:
        """What `Quadratic` takes as the noise of A, so that directions in which FEW_ROWS differ are determined."""
        if not self.total:
            return math.inf
        return FEW_ROWS / self.effective / (DETERMINED * math.sqrt(2 * self.basis.shape[1]))

    @cached_property
    def phi(self) -> Floats:
        return np.asarray(self.basis @ self.problem.solution)

    @property
    def value(self) -> float:
        """What the local model says at the record."""
        if self.anchor is not None:
            return self.anchor
        return min(max(self.f - float(self.phi @ self.first), -1.0), 1.0)

    def influence(self, lines: Floats) -> Floats:
        """[row, line]: how far phi.line moves for a little more weight of a row, in the directions that rows determine.

        Its weighted mean is zero.
        """
        Q, rows = self.basis, self.rows
        h = self.problem.determined(np.atleast_2d(lines) @ Q)[0] @ Q.T
        centre = self.f - float(self.phi @ self.first) if self.anchor is None else self.anchor
        rest = rows.scaled - centre - (rows.coordinates - self.z) @ self.phi
        share = self._rates / np.maximum(rows.weights, 1e-300) / (self.total or 1.0)  # a row at w = 0 has no rate
        moved = (share * rest)[:, None] * ((rows.coordinates - self.centre) @ h.T)
        return np.asarray(moved - rows.weights @ moved)
