"""The exact minimiser of a quadratic on a ball: free post-processing of released moments.

minimise  phi.A phi - 2 b.phi   over |phi| <= r,   A symmetric.

With A = V diag(w) V', the solution is V (w + mu)^-1 V' b for the smallest mu >= 0 that makes it fit (the trust-region
problem without its hard case: a noisy A is projected to w >= 0 first, and a ridge makes it positive).

Directions in which A stands above `least` can be left out of the ball: data determine them, and a ball that is too
small for them would hand a part of a steep column's effect to columns that move with it. The others get what is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Quadratic:
    """phi.A phi - 2 b.phi + ridge |phi|^2 on the ball of `radius`, A projected to the positive semidefinite ones."""

    A: Floats
    b: Floats
    ridge: float = 0.0
    radius: float = 1.0
    least: float = math.inf  # where A is above it, coefficients are free

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
        free, target = values - self.ridge > self.least, vectors.T @ self.b
        used = float(np.linalg.norm(target[free] / values[free]))
        left = math.sqrt(max(self.radius**2 - used**2, 0.0))
        return np.asarray(np.where(free, values, values + _multiplier(values[~free], target[~free], left)))

    def determined(self, lines: Floats, least: float) -> tuple[Floats, Floats]:
        """Each line in the directions in which A is above `least`, there times (A + mu)^-1, without the ridge; and what
        is left of the line in all others.
        """
        values, vectors = self._spectrum
        along = lines @ vectors
        known = values - self.ridge > least
        moved: Floats = (along[:, known] / (self._raised[known] - self.ridge)) @ vectors[:, known].T
        left: Floats = along[:, ~known] @ vectors[:, ~known].T
        return moved, left

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
