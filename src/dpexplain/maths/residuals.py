"""How good a regression is, from noisy sums of errors: every figure an estimate with an honest interval.

Means of errors are fractions of two noisy sums (`maths/estimates.py`). 1 - R2 is the sum of squared errors over that of
squares around the mean, E / Y with Y = v - u^2 / c for sums v of squares, u of targets and c of rows: E / (E + Y) is a
fraction too, and the noise of Y is that of v - 2 m u + m^2 c for the mean m = u / c, up to a second order that is taken
as normal: its mean is taken off, its variance is added. Rounding to whole numbers is in the intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpexplain.core.noise import Noise, checked_level
from dpexplain.errors import InputError
from dpexplain.maths.estimates import Estimate, fraction, with_bias
from dpexplain.maths.tails import combined_halfwidth

FIGURES = ("mean_residual", "mean_absolute_error", "root_mean_squared_error", "r2", "count")


@dataclass(frozen=True)
class ResidualSums:
    """Noisy sums over rows of whole numbers in {0..levels}, each with independent noise `terms` times over:

    over = max(y - f, 0) / width, under = max(f - y, 0) / width, squared = ((y - f) / width)^2 with |y - f| <= width;
    target = (y - low) / (high - low), target_squared = that squared; count adds `levels` for each row.
    """

    count: float
    over: float
    under: float
    squared: float
    target: float
    target_squared: float
    noise: Noise
    terms: int
    levels: int
    width: float
    low: float
    high: float
    total: int | None = None  # rows where that is public

    def figure(self, name: str, level: float = 0.95) -> Estimate:
        """Any of FIGURES, in units of the target; NaN where nothing is determined."""
        checked_level(level)
        if name == "count":
            return self._rows(level)
        if name not in FIGURES:
            raise InputError(f"no figure is called {name!r}.", hint=f"one of {', '.join(FIGURES)}")
        if self._count <= 0:
            return self._undetermined(name)
        if name == "mean_residual":
            sides = self._mean((self.over - self.under + self._count) / 2, [0.5, -0.5], 0.5, level)
            return sides.scaled(2 * self.width, -self.width)
        if name == "mean_absolute_error":
            return self._mean(self.over + self.under, [1.0, 1.0], 0.0, level).scaled(self.width)
        if name == "root_mean_squared_error":
            mean = self._mean(self.squared, [1.0], 0.0, level)
            value, low, high = (self.width * math.sqrt(number) for number in (mean.value, mean.low, mean.high))
            return replace(mean, value=value, low=low, high=high)
        return self._r2(level)

    def _undetermined(self, name: str) -> Estimate:
        if name == "r2":
            return Estimate(math.nan, -math.inf, 1.0)
        return Estimate(math.nan, -self.width if name == "mean_residual" else 0.0, self.width)

    @property
    def _count(self) -> float:
        """`levels` for each row."""
        return self.count if self.total is None else float(self.total) * self.levels

    def _half(self, weights: list[float], of_count: float, second: float, level: float) -> float:
        """How far a sum with these weights of noisy sums and of the count is off."""
        if self.total is None:
            weights = [*weights, of_count]
        factors = np.repeat(np.array(weights), self.terms)
        rounding = sum(map(abs, weights)) * max(self._count, 0.0) / self.levels / 2  # half a step for each row
        return with_bias(lambda at: combined_halfwidth([(self.noise, factors)], second, at), rounding, level)

    def _rows(self, level: float) -> Estimate:
        if self.total is not None:
            return Estimate(float(self.total), float(self.total), float(self.total))
        half = combined_halfwidth([(self.noise, np.ones(self.terms))], 0.0, level) / self.levels
        value = self.count / self.levels
        return Estimate(max(value, 0.0), max(value - half, 0.0), max(value + half, 0.0))

    def _mean(self, inside: float, weights: list[float], of_count: float, level: float) -> Estimate:
        """The mean of a number in [0, 1], whose sum has these weights in noisy sums and `of_count` in the count."""
        count = self._count
        return fraction(inside, count - inside, lambda theta: self._half(weights, of_count - theta, 0.0, level))

    def _r2(self, level: float) -> Estimate:
        count, errors, range_ = self._count, self.width**2, (self.high - self.low) ** 2
        mean = min(max(self.target / count, 0.0), 1.0)
        square = self.terms * self.noise.std**2 / count * (1 + (mean**2 if self.total is None else 0.0))
        around = self.target_squared - self.target**2 / count + square
        top = max(errors, range_)  # any unit

        def half(theta: float) -> float:
            y = theta * range_ / top
            weights = [(1 - theta) * errors / top, -y, 2 * mean * y]
            return self._half(weights, -(mean**2) * y, math.sqrt(2) * y * square, level)

        share = fraction(self.squared * errors / top, around * range_ / top, half)
        if not share.determined:
            return self._undetermined("r2")
        low, high, value = (
            1 - part / (1 - part) if part < 1 else -math.inf for part in (share.high, share.low, share.value)
        )
        return replace(share, value=value, low=low, high=high, cut_low=share.cut_high, cut_high=share.cut_low)
