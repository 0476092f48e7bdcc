"""Means of bounded quantities, from released integer sums: the arithmetic that curves and importances share.

Each row adds a quantised value in {0..K} to every coordinate, and the number of rows is public. Or the number of rows
is private; then each row adds a value centred to {-K/2..K/2}, and one more coordinate, the last, adds up `weight` for
every row. The mean is then a ratio of two noisy numbers, and its interval allows for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Noise, checked_level

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Means:
    """`released` holds all sums of the release, the count last if there is a `weight`; `place` says which are ours."""

    released: NDArray[np.int64]
    noise: Noise
    output: PublicRange
    weight: int  # what each row adds to the count coordinate; 0 where the number of rows is public
    rows: int | None
    place: slice

    @cached_property
    def sums(self) -> Floats:
        return self.released[self.place].astype(np.float64)

    @cached_property
    def count(self) -> float:
        """The number of rows: public, or the released one."""
        return float(self.released[-1]) / self.weight if self.weight else float(self.rows or 0)

    @cached_property
    def unclipped(self) -> Floats:
        """The released means in output units; noise may have carried them out of the output range."""
        output = self.output
        origin = output.middle if self.weight else output.low
        return origin + output.width * self.sums / (output.levels * max(self.count, 1.0))

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one mean (of the sums alone where the row count is noisy too)."""
        return self.noise.std * self.output.width / (self.output.levels * max(self.count, 1.0))

    def interval(self, level: float, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """(low, high) around the exact means: for each by itself, or for all coordinates of the release at once."""
        checked_level(level)
        noise, output, weight = self.noise, self.output, self.weight
        if not weight:
            half = noise.band(level) if simultaneous else noise.halfwidth(level)
            unit = output.width / (output.levels * self.count)
            ends = [output.low + unit * (self.sums + sign * half) for sign in (-1, 1)]
        else:
            # Both the sum and the count are noisy: each misses with half the probability, unless a band covers all.
            half = noise.band(level) if simultaneous else noise.halfwidth((1 + level) / 2)
            few, many = self.count - half / weight, self.count + half / weight
            if few <= 0:
                whole = np.ones(len(self.sums))
                return output.low * whole, output.high * whole
            ends = []
            for sign in (-1, 1):
                edge = (self.sums + sign * half) * output.width / output.levels
                # the ratio is extreme at the smaller count where it moves away from the middle
                ends.append(output.middle + edge / np.where(sign * edge > 0, few, many))
        return np.clip(ends[0], output.low, output.high), np.clip(ends[1], output.low, output.high)
