"""Means of bounded quantities, from released integer sums: the arithmetic that curves and importances share.

Each row adds a quantised value in {0..K} to every coordinate, and the number of rows is public. Or the number of rows
is private; then each row adds a value centred to {-K/2..K/2}, and one more coordinate, the last, adds up `weight` for
every row. The mean is then a ratio of two noisy numbers: S + z over N' = N + y / weight, and S = m N for the exact mean
m (counted from the middle of the range), so

    (S + z) / N' - m  =  (z - m y / weight) / N'

exactly. For every m the law of z - m y / weight is known, so the interval holds each m whose own half-width reaches the
released mean (Fieller 1954): it misses the exact mean as often as its level says, with no bound for two events. The
larger |m|, the larger its half-width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expi

from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Noise, checked_level
from dpexplain.maths.posterior import Prior, Sharpened, sharpen
from dpexplain.maths.tails import combined_halfwidth, halfwidths

Floats = NDArray[np.float64]
# Places from the middle of the range (0) to its edge (1), at which half-widths are computed, and joined by straight
# lines. Noise is convex in the place, so these lie above it; chance is a quarter of a circle, and needs more places.
PLACES, ROUND_PLACES = np.linspace(0, 1, 9), np.sin(np.linspace(0, np.pi / 2, 33))
STEEPEST = 0.9  # fall of a half-width towards the edge: beyond that it is taken as wider
SURE_ROWS = 5.0  # standard deviations of its noise that a number of rows has to be above zero
MOST_UNITS = 500.0  # in a part, on average: with more of them parts are even


@dataclass(frozen=True)
class Means:
    """`released` holds all sums of the release, the count last if there is a `weight`; `place` says which are ours."""

    released: NDArray[np.int64]
    noise: Noise
    output: PublicRange
    weight: int  # what each row adds to the count coordinate; 0 where the number of rows is public
    rows: int | None
    place: slice
    unevenness: float = 0.0  # variance of the mean by chance (rows do not weigh the same), for a row's variance of 1
    counted_from: float | None = None  # the value that counts as nothing in a sum; None: the middle, with a weight

    @cached_property
    def sums(self) -> Floats:
        return self.released[self.place].astype(np.float64)

    @cached_property
    def count(self) -> float:
        """The number of rows: public, or the released one."""
        return float(self.released[-1]) / self.weight if self.weight else float(self.rows or 0)

    @property
    def origin(self) -> float:
        """The value that sums count from: for it, a noisy number of rows adds no error."""
        if not self.weight:
            return self.output.low
        return self.output.middle if self.counted_from is None else self.counted_from

    @property
    def edge(self) -> float:
        """How far a mean can lie from there."""
        return max(self.output.high - self.origin, self.origin - self.output.low)

    @cached_property
    def unclipped(self) -> Floats:
        """The released means in output units; noise may have carried them out of the output range."""
        output = self.output
        return self.origin + output.width * self.sums / (output.levels * max(self.count, 1.0))

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one mean (of the sums alone where the row count is noisy too)."""
        return self.noise.std * self.output.width / (self.output.levels * max(self.count, 1.0))

    @property
    def counted_surely(self) -> bool:
        """Whether there are rows beyond doubt: their number is public, or stands well above its noise."""
        return not self.weight or self.count > SURE_ROWS * self.noise.std / self.weight

    def half_width(self, place: float, level: float) -> float:
        """Of the interval of a mean that lies at this place between the origin of sums (0; the middle of the range, as
        a rule) and the far edge of the range (1).

        Values within a range of width w whose mean lies there have a variance of at most w^2 / 4 (1 - place^2).
        """
        output = self.output
        unit, chance = output.width / (output.levels * max(self.count, 1.0)), self.unevenness * (1 - place**2)
        away = place * (self.edge if self.weight else 0.0) * output.levels / output.width  # in levels
        factors = [1.0, away / self.weight] if self.weight else [1.0]  # in units of `unit`
        return unit * combined_halfwidth([(self.noise, factors)], output.width / (2 * unit) * math.sqrt(chance), level)

    def interval(self, level: float, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """(low, high) around the exact means: for each by itself, or for all coordinates of the release at once."""
        checked_level(level)
        noise, output, weight = self.noise, self.output, self.weight
        if not weight and not self.unevenness:
            half = noise.band(level) if simultaneous else noise.halfwidth(level)
            unit = output.width / (output.levels * self.count)
            ends = [output.low + unit * (self.sums + sign * half) for sign in (-1, 1)]
            return np.clip(ends[0], output.low, output.high), np.clip(ends[1], output.low, output.high)
        if simultaneous:
            level = 1 - (1 - level) / (len(self.released) - bool(weight))
        edge, origin = self.edge if weight else output.width / 2, self.origin if weight else output.middle
        places = ROUND_PLACES if self.unevenness else PLACES
        halves, steps = np.array([self.half_width(float(place), level) for place in places]), np.diff(places) * edge
        for i, step in enumerate(steps):
            halves[i + 1] = max(halves[i + 1], halves[i] - STEEPEST * step)
        if self.count < 1 or (np.diff(halves) >= steps).any():  # the number of rows is not sure
            whole = np.ones(len(self.sums))
            return output.low * whole, output.high * whole
        # From there on m - h(|m|) and m + h(|m|) rise with m, so each end is one crossing.
        means = edge * np.concatenate([-places[::-1], places[1:]])
        around = np.concatenate([halves[::-1], halves[1:]])
        middle = self.unclipped - origin
        low, high = (origin + np.interp(middle, means + sign * around, means) for sign in (1, -1))
        return np.clip(low, output.low, output.high), np.clip(high, output.low, output.high)


@dataclass(frozen=True, eq=False)
class SharpMeans:
    """The posterior of some released means (`maths/posterior.py`), and the place of those that are looked at."""

    means: Means
    prior: Prior
    place: slice

    @cached_property
    def posterior(self) -> Sharpened:
        """Given the exact means m, released ones are off by (z - (m - middle) y / weight) / N': noise of their own, and
        that of the number of rows, which they share. For that m is taken as what comes out, in a second round.
        """
        means, variances = self.means, np.full(len(self.means.sums), self.means.std**2)
        if not means.weight:
            return sharpen(self.prior, means.unclipped, variances, width=means.output.width)
        know = partial(sharpen, self.prior, means.unclipped, variances, width=means.output.width)
        return know(self._shared(know(self._shared(means.unclipped)).values))

    def _shared(self, exact: Floats) -> Floats:
        """What one standard deviation of the noisy number of rows does to each mean."""
        means = self.means
        return np.asarray((exact - means.origin) * means.noise.std / (means.weight * max(means.count, 1.0)))

    @property
    def values(self) -> Floats:
        output = self.means.output
        return np.clip(self.posterior.values[self.place], output.low, output.high)

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """(low, high) around each mean: the noise by its law, the rest as normal."""
        means, posterior, output = self.means, self.posterior, self.means.output
        unit = output.width / (output.levels * max(means.count, 1.0))
        factors = unit * posterior.gain[self.place]
        if means.weight:  # the last coordinate of the same noise
            counted = posterior.gain[self.place] @ self._shared(posterior.values) / means.noise.std
            factors = np.column_stack([factors, counted])
        noise = means.noise.std**2 * (factors**2).sum(axis=1)
        rest = np.sqrt(np.maximum(posterior.variances[self.place] - noise, 0.0))
        half = halfwidths(means.noise, factors, rest, level)
        middle = posterior.values[self.place]
        ends = np.clip([middle - half, middle + half], output.low, output.high)
        return ends[0], ends[1]


CAUTION = 1.96  # standard deviations by which the released number of parts that answered is taken as too large


def fewest_answers(means: Means, parts: int) -> float:
    """How many parts may be expected to have rows, at least, by the noisy count of those that answered."""
    empty = max(0.0, parts - means.count + CAUTION * means.noise.std / means.weight)
    return parts - (math.sqrt(empty + 1) + CAUTION / 2) ** 2  # so many may be expected, if so few came (Poisson)


def unevenness(parts: int, rows: int | None, answered: float = 0.0) -> float:
    """Variance of the mean over parts around that over all rows, for rows of variance 1, over the ways to deal them.

    A row in a part of k rows weighs 1 / (A k), A parts having rows, instead of 1 / n. In a random order of the rows the
    variance is the sum of the squared differences, (sum over parts of 1 / k) / A^2 - 1 / n. Dealt evenly, k is n / l
    rounded down or up. Dealt independently, k is a Poisson number of mean u with 1 - exp(-u) = A / l, and the sum of
    1 / k is l exp(-u) (Ei(u) - log u - Euler's constant); fewer rows, more of it. Units, where they are dealt, are
    taken as rows.
    """
    if rows is not None:
        least, more = divmod(rows, parts)
        if least < 1:
            raise ValueError("more parts than rows")
        return (more / (least + 1) + (parts - more) / least) / parts**2 - 1 / rows
    share = max(answered, 1.0) / parts
    u = min(-math.log1p(-share), MOST_UNITS) if share < 1 else MOST_UNITS
    inverses = np.exp(-u) * (expi(u) - np.log(u) - np.euler_gamma)
    return max(float(inverses / (1 - np.exp(-u)) ** 2 - 1 / u), 0.0) / parts
