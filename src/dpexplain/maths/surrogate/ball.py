"""The exact minimiser of a quadratic on a ball: free post-processing of released moments.

minimise  phi.A phi - 2 b.phi   over |phi| <= r,   A symmetric.

With A = V diag(w) V', the solution is V (w + mu)^-1 V' b for the smallest mu >= 0 that makes it fit (the trust-region
problem without its hard case: a noisy A is projected to w >= 0 first, and a ridge makes it positive).

Directions in which A stands well above its noise can be left out of the ball: data determine them, and a ball that is
too small for them would hand a part of a steep column's effect to columns that move with it. The others get what is
left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DETERMINED = 2.5  # times noise sqrt(2 n): an eigenvalue of A that stands well above what noise alone makes
STEEP = 1.5  # balls: how steep a line may be in directions that the rows do not determine, where it is not held in one


@dataclass(frozen=True)
class Quadratic:
    """phi.A phi - 2 b.phi + ridge |phi|^2 on the ball of `radius`, A projected to the positive semidefinite ones."""

    A: Floats
    b: Floats
    ridge: float = 0.0
    radius: float = 1.0
    noise: float = 0.0  # the standard deviation of an entry of A
    free: bool = False  # whether coefficients are free where A stands above the noise

    @property
    def least(self) -> float:
        """Where A is above it, data determine the solution."""
        return DETERMINED * self.noise * math.sqrt(2 * len(self.b))

    @cached_property
    def _spectrum(self) -> tuple[Floats, Floats]:
        values, vectors = np.linalg.eigh((self.A + self.A.T) / 2)
        floor = max(float(np.abs(values).max(initial=0.0)), 1e-300) * 1e-13  # directions that nothing is known about
        return np.maximum(values, 0.0) + max(self.ridge, floor), vectors

    @cached_property
    def solution(self) -> Floats:
        vectors = self._spectrum[1]
        return np.asarray(vectors @ ((vectors.T @ self.b) / self._raised))

    @cached_property
    def _raised(self) -> Floats:
        """w + ridge + mu, with mu = 0 where coefficients are free."""
        values, vectors = self._spectrum
        target, free = vectors.T @ self.b, (values - self.ridge > self.least) & self.free
        used = float(np.linalg.norm(target[free] / values[free]))
        left = math.sqrt(max(self.radius**2 - used**2, 0.0))
        return np.asarray(np.where(free, values, values + _multiplier(values[~free], target[~free], left)))

    def determined(self, lines: Floats) -> tuple[Floats, Floats]:
        """Each line in the directions that data determine, there times (A + mu)^-1, without the ridge; and what is left
        of the line in all others.
        """
        values, vectors = self._spectrum
        along = lines @ vectors
        known = values - self.ridge > self.least
        moved: Floats = (along[:, known] / (self._raised[known] - self.ridge)) @ vectors[:, known].T
        left: Floats = along[:, ~known] @ vectors[:, ~known].T
        return moved, left

    def pull(self, lines: Floats) -> Floats:
        """How far solution.line may be off because of the ridge (`moments.py` has the proof)."""
        return np.asarray(np.abs(self.ridge * self.determined(lines)[0] @ self.solution))

    def unknown(self, lines: Floats) -> Floats:
        """How far besides, where A does not stand above its noise: all that the ball allows."""
        left, reach = self.determined(lines)[1], self.radius * (STEEP if self.free else 1)
        return np.asarray(reach * np.linalg.norm(left, axis=1) + np.abs(left @ self.solution))

    def solve(self, right: Floats) -> Floats:
        """(A + ridge + mu)^-1 `right`: how the solution moves when b moves, the multiplier held."""
        vectors = self._spectrum[1]
        return np.asarray(vectors @ ((vectors.T @ right) / self._raised.reshape(-1, *[1] * (right.ndim - 1))))


def _multiplier(values: Floats, target: Floats, radius: float) -> float:
    """The smallest mu >= 0 with |p| <= radius, p = target / (values + mu).

    Newton's method on 1 / |p|, which grows with mu and is concave (More and Sorensen 1983): from mu = 0 it rises to the
    root and never passes it.
    """
    if radius <= 0:
        return math.inf
    mu = 0.0
    for _ in range(60):
        p = target / (values + mu)
        length = float(np.linalg.norm(p))
        if length <= radius * (1 + 1e-12):
            break
        mu += (length / radius - 1) * length**2 / float(p @ (p / (values + mu)))
    return mu
