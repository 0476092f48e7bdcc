"""Figures with honest intervals from noisy sums: fractions, and differences, ratios and the spread of several figures.

Fractions    theta = A / (A + B) for sums A, B >= 0 of which noisy ones are known. T = (1 - theta) A - theta B is 0 at
             the exact theta, so its noisy value is noise alone, whose law is known for every theta. The interval
             holds each theta whose T the noise explains (Fieller 1954): it misses as often as its level says, for
             small groups too, and is all of [0, 1] where nothing is determined. Noisy sums below 0 are taken as 0
             first, which only moves T towards 0: where A < 0 < B both terms of T are negative and one goes, and where
             both are below 0, T is 0. So the interval covers no less and is never empty.
Bounded bias where A is known up to a bound b, the noise is centred somewhere within b, and the half-width is the
             quantile of a folded normal number (Armstrong and Kolesar 2018): more than 1.645, less than b + 1.96
             standard deviations, for 95 %.
Differences  MOVER (Zou and Donner 2008): the two half-widths towards the other figure, added as squares; for ratios
             MOVER-R (Donner and Zou 2012). Both need independent noise, and half-widths that are its own. Bounds of
             discretisation do not add as squares, and an end that was cut off at a limit, such as a rate of 1, says
             less than the noise did: there the ends are subtracted or divided as they are.
Spread       The largest difference belongs to one pair of groups. Its upper end is below the largest upper end over the
             pairs, so that one needs no correction; all lower ends hold at once where each has its share of
             the level (Bonferroni), and so does the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import chndtrix, ndtri

from dpexplain.core.noise import checked_level

Floats = NDArray[np.float64]

PLACES = (1 - np.cos(np.linspace(0, np.pi, 13))) / 2  # of theta, where half-widths are computed; straight lines between
SMALL_BIAS = 0.01  # of a half-width: a bias below that is added to it
FAR = 5.0  # standard deviations of a bias from which on a folded normal number has one side only


@dataclass(frozen=True)
class Estimate:
    """A figure of THESE rows with its interval: noise and discretisation, never the chance that drew the rows."""

    value: float  # NaN where nothing is determined
    low: float
    high: float
    bounded: bool = False  # whether the interval has a bound of discretisation in it besides noise
    # whether an end is the smallest or the largest possible value, and noise alone might have led beyond it
    cut_low: bool = field(default=False, compare=False, repr=False)
    cut_high: bool = field(default=False, compare=False, repr=False)

    @property
    def determined(self) -> bool:
        """Whether the interval leaves out any possible value."""
        return not math.isnan(self.value)

    def scaled(self, factor: float, shift: float = 0.0) -> Estimate:
        """The same in other units: shift + factor times it."""
        ends = [(shift + factor * self.low, self.cut_low), (shift + factor * self.high, self.cut_high)]
        (low, cut_low), (high, cut_high) = ends if factor >= 0 else ends[::-1]
        return Estimate(shift + factor * self.value, low, high, self.bounded, cut_low, cut_high)


Figure = Callable[[float], Estimate]  # an estimate at any level: `lambda level: table.figure("auc", level=level)`


def fraction(a: float, b: float, half: Callable[[float], float], value: float | None = None) -> Estimate:
    """A / (A + B), where (1 - theta) a - theta b is off by at most half(theta); `value` is a better guess."""
    a, b = max(a, 0.0), max(b, 0.0)
    whole = a + b
    middle = a / whole if whole > 0 else 0.5
    places = np.unique(np.append(PLACES, middle))
    reach = np.interp(places, PLACES, [half(float(place)) for place in PLACES])
    beyond = np.abs(middle - places) * whole - reach
    if beyond[0] <= 0 and beyond[-1] <= 0:
        return Estimate(math.nan, 0.0, 1.0)
    low, high = _first(places, beyond), _first(places[::-1], beyond[::-1])
    best = min(max(middle if value is None else value, low), high)
    return Estimate(best, low, high, cut_low=bool(beyond[0] <= 0), cut_high=bool(beyond[-1] <= 0))


def _first(places: Floats, beyond: Floats) -> float:
    """Where a function given by straight lines is first at most 0."""
    i = int(np.argmax(beyond <= 0))
    if i == 0:
        return float(places[0])
    return float(places[i - 1] + (places[i] - places[i - 1]) * beyond[i - 1] / (beyond[i - 1] - beyond[i]))


def with_bias(half: Callable[[float], float], bias: float, level: float) -> float:
    """The half-width for noise with the half-widths half(level), and besides a bias of at most `bias`."""
    tail = 1 - checked_level(level)
    both = half(level)
    if bias <= SMALL_BIAS * both:
        return both + max(bias, 0.0)
    one = half(1 - 2 * tail) if tail < 0.5 else 0.0  # where one side alone may miss
    std = max(both / -ndtri(tail / 2), one / -ndtri(tail) if tail < 0.5 else 0.0)
    if std == 0:
        return bias
    t = bias / std
    return float(std * (t - ndtri(tail) if t > FAR else math.sqrt(chndtrix(level, 1, t * t))))


def difference(a: Figure, b: Figure, level: float = 0.95) -> Estimate:
    """a - b of two figures with independent noise, such as one rate in two groups."""
    x, y = a(level), b(level)
    if x.bounded or y.bounded or not (x.determined and y.determined):
        return Estimate(x.value - y.value, x.low - y.high, x.high - y.low, bounded=True)
    value = x.value - y.value
    low, high = x.low - y.high, x.high - y.low
    if not (x.cut_low or y.cut_high):
        low = max(low, value - math.hypot(x.value - x.low, y.high - y.value))
    if not (x.cut_high or y.cut_low):
        high = min(high, value + math.hypot(x.high - x.value, y.value - y.low))
    return Estimate(value, low, high)


def ratio(a: Figure, b: Figure, level: float = 0.95) -> Estimate:
    """a / b of two figures that are not negative, with independent noise; `high` is infinite where b may be 0."""
    x, y = a(level), b(level)
    value = x.value / y.value if y.value > 0 else math.nan
    low, high = x.low / y.high if y.high > 0 else 0.0, x.high / y.low if y.low > 0 else math.inf
    if x.bounded or y.bounded or not (x.determined and y.determined):
        return Estimate(value, low, high, bounded=True)
    product = x.value * y.value  # both ends are roots of a quadratic equation
    if x.low > 0 and not (x.cut_low or y.cut_high):
        near = x.low * (2 * x.value - x.low)
        low = near / (product + math.sqrt(max(product**2 - near * y.high * (2 * y.value - y.high), 0.0)))
    if y.low > 0 and not (x.cut_high or y.cut_low):
        near = y.low * (2 * y.value - y.low)
        high = (product + math.sqrt(max(product**2 - near * x.high * (2 * x.value - x.high), 0.0))) / near
    return Estimate(value, low, high)


def spread(*families: Sequence[Figure], level: float = 0.95) -> Estimate:
    """The largest difference within a family, the largest of the families: one family for a rate by group, two (true
    and false positive rates by group) for the difference of equalised odds. Its value is that of the noisy figures,
    which is too large on average where many groups are nearly alike; its interval is not. Figures that are not
    determined have no part in the value, but all of them in the interval: such a group may be the largest one.
    """
    plain, strict = _pairs(difference, families, level)
    high = max((max(pair.high, -pair.low) for pair in plain), default=0.0)
    low = max((max(pair.low, -pair.high) for pair in strict), default=0.0)
    return _within(max((abs(pair.value) for pair in plain if pair.determined), default=math.nan), max(low, 0.0), high)


def smallest_ratio(*families: Sequence[Figure], level: float = 0.95) -> Estimate:
    """The smallest value over the largest within a family, the smallest of the families."""
    plain, strict = _pairs(ratio, families, level)
    low = min((min(pair.low, _over(pair.high)) for pair in plain), default=1.0)
    high = min((min(pair.high, _over(pair.low)) for pair in strict), default=1.0)
    values = (min(pair.value, _over(pair.value)) for pair in plain if pair.determined)
    return _within(min(values, default=math.nan), low, min(high, 1.0))


def _over(number: float) -> float:
    return 1 / number if number else math.inf


def _pairs(
    compare: Callable[[Figure, Figure, float], Estimate], families: Sequence[Sequence[Figure]], level: float
) -> tuple[list[Estimate], list[Estimate]]:
    """All pairs within families: each at this level, and all of them at it together."""

    def pairs() -> Iterator[tuple[Figure, Figure]]:
        return (pair for family in families for pair in combinations(family, 2))

    together = 1 - (1 - checked_level(level)) / max(len(list(pairs())), 1)
    plain, strict = ([compare(a, b, at) for a, b in pairs()] for at in (level, together))
    return plain, strict


def _within(value: float, low: float, high: float) -> Estimate:
    return Estimate(min(max(value, low), high) if not math.isnan(value) else value, low, high, bounded=True)
