"""How good a regression is, from noisy sums of errors."""

from __future__ import annotations

from dataclasses import dataclass

from dpexplain.core.noise import Noise
from dpexplain.maths.estimates import Estimate

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
        raise NotImplementedError
