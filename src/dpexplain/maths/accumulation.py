"""From noisy sums of differences and noisy numbers of rows to an accumulated effect with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.noise import Noise
from dpexplain.maths.binning import SURE_COUNT, Bins
from dpexplain.maths.posterior import Prior, Sharpened, expected, sharpen
from dpexplain.maths.smoothing import shrink
from dpexplain.maths.tails import combined_halfwidth, graded

Floats = NDArray[np.float64]
TWO_SIDED = 1.96  # standard deviations within which 19 of 20 normal numbers lie


@dataclass(frozen=True)
class Accumulation:
    """The curve of one feature: noisy sums of differences over noisy numbers of rows, added up and centred.

    What noise does to it. A bin's released sum is S + z, its released number of rows N' = N + y, and S = e N for the
    exact effect e, so (S + z) / N' - e = (z - e y) / N': no approximation. Likewise the released share of a cell is off
    by (y_j - s_j y_total) / T' for the exact share s_j and the released total T'. With the curve A e, A from released
    shares, and the exact centred curve g at the cells,

        error at a point  =  sum_b A_b z_b / N'_b  -  sum_j y_j (g_j / T' + sum over bins b of cell j of A_b e_b / N'_b)

    so a count that several bins and the centre share has one factor. Given the counts, the first sum has known factors.
    The second has e and g in it, of which estimates are known: e is taken as S' / (N' - 1.96 standard deviations of y),
    larger than it would be if N' came out too large. A bin whose count does not stand SURE_COUNT standard deviations
    above zero says nothing: any effect within the clip is possible there, and what that does to a point adds to its
    interval whatever the level is.
    """

    bins: Bins
    sums: Floats  # in units of the output
    unit: float  # one whole step of `sums`, in units of the output
    effects: Noise
    counts: Noise
    clip: float
    span: float
    sharing: int  # how many features have counts that the total is the mean of; 0 where the number of rows is public
    shared: int | None = None  # how many counts these features have; None: all counts are theirs
    own_total: bool = False  # whether the counts of this feature are its total: those of a feature with missing values
    cut: bool = True  # at the span; curves of earlier versions were not

    @cached_property
    def _lifted(self) -> Floats:
        """From effects to the curve: A with curve = A effects."""
        add = np.tril(np.ones((len(self.bins.points), self.bins.size)), -1)
        return np.asarray(add - self.bins.weights @ add)

    @cached_property
    def _effects(self) -> Floats:
        return np.clip(self.sums / self.bins.rows, -self.clip, self.clip)

    @cached_property
    def _middle(self) -> Floats:
        return np.asarray(self._lifted @ self._effects)

    def _inside(self, curve: Floats) -> Floats:
        return np.clip(curve, -self.span, self.span) if self.cut else curve

    @property
    def raw(self) -> Floats:
        return self._inside(self._middle)

    @cached_property
    def smoothed(self) -> Floats:
        bins, trend = self.bins, self.bins.ordered and self.bins.size > 2
        noise = (self.effects.std * self.unit / bins.rows) ** 2
        shrunk = shrink(self.sums / bins.rows, noise, bins.widths, self.span, trend=trend)
        return self._inside(self._lifted @ np.clip(shrunk, -self.clip, self.clip))

    @cached_property
    def _count_std(self) -> Floats:
        """The noise of each bin's number of rows; none where all rows are in it and their number is public."""
        return np.asarray(self.counts.std * np.sqrt((self._counted(self.bins.members) ** 2).sum(axis=1)))

    def _counted(self, factors: Floats) -> Floats:
        """Factors of all released counts from those of the feature's cells, which were moved evenly so that they add up
        to the total: a public number, or the mean over the features of the sums of their counts. Those of a feature
        with missing values are as they were released.
        """
        if self.own_total:
            return factors
        mean = factors.sum(axis=1, keepdims=True) / max(factors.shape[1], 1)
        if not self.sharing or not factors.shape[1]:
            return np.asarray(factors - mean)
        part = mean / self.sharing
        others = np.repeat(part, self._sharers - factors.shape[1], axis=1)
        return np.asarray(np.hstack([factors - mean + part, others]))

    @property
    def _sharers(self) -> int:
        return self.counts.size if self.shared is None else self.shared

    @cached_property
    def _sure(self) -> bool:
        """Whether there are rows beyond doubt: all shares of rows are shares of their total."""
        off = np.sqrt(self._sharers) / self.sharing if self.sharing else 0.0
        off = np.sqrt(self.bins.members.shape[1]) if self.own_total else off
        return bool(self.bins.total > SURE_COUNT * self.counts.std * off)

    @cached_property
    def _known(self) -> NDArray[np.bool_]:
        """The bins that have rows beyond doubt; none of them where not even the total does."""
        return np.asarray((self.bins.rows >= SURE_COUNT * self._count_std) & self._sure)

    @cached_property
    def _factors(self) -> tuple[Floats, Floats]:
        """What one unit of noise does to each point: [point, bin] for the sums, [point, count] for the counts."""
        bins, known = self.bins, self._known
        summed = self._lifted * np.where(known, self.unit / bins.rows, 0.0)
        few = np.maximum(bins.rows - TWO_SIDED * self._count_std, 1.0)
        slopes = self._lifted * np.where(known, self._effects / few, 0.0)
        return summed, self._counted(slopes @ bins.members + bins.at_cells(self._middle) / bins.total)

    @cached_property
    def std(self) -> Floats:
        """The standard deviation of each point: the noise accumulates along the curve, and centring shares it out.

        What the noise of counts does to bins is taken as independent, and no effect as off by more than a number
        somewhere within the clip is: good enough for a forecast; intervals are more careful.
        """
        bins = self.bins
        off = np.hypot(self.effects.std * self.unit, self._effects * self._count_std) / bins.rows
        off = np.minimum(off, self.clip / np.sqrt(3))
        centring = (self.counts.std / bins.total) ** 2 * float((bins.at_cells(self._middle) ** 2).sum())
        return np.asarray(np.minimum(np.sqrt(self._lifted**2 @ off**2 + centring), self.span))

    def half_width(self, point: int, level: float) -> float:
        """Half of the interval around one point, by the law of the sum whose factors are above; without open bins."""
        summed, counted = self._factors
        return combined_halfwidth([(self.effects, summed[point]), (self.counts, counted[point])], 0.0, level)

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """(low, high) around each point of the exact curve, cut at the range that is possible; that range itself where
        noise may be all there is of the total number of rows.
        """
        if not self._sure:
            return np.full(len(self._middle), -self.span), np.full(len(self._middle), self.span)
        half = np.array([self.half_width(i, level) for i in range(len(self._middle))])
        unknown = self._lifted[:, ~self._known]  # any effect is possible in these bins
        middle, reach = self._middle - unknown @ self._effects[~self._known], self.clip * np.abs(unknown).sum(axis=1)
        low, high = middle - half - reach, middle + half + reach
        return np.clip(low, -self.span, self.span), np.clip(high, -self.span, self.span)


@dataclass(frozen=True, eq=False)
class SharpEffects:
    """The posterior of the effects in all bins of a release (`maths/posterior.py`), and the curves that they add up to.

    An effect is known as S' / N', off by (z - e y) / N' (see `Accumulation`). In a bin that may be all noise nothing is
    known but that the effect lies within the clip. What noise of other features' counts does is taken as normal.

    Curves are centred by `weights`, which come from shares of rows without most of their noise (`trees.likely_shares`);
    their error is taken as that of the noisy ones, which is larger.
    """

    curves: Sequence[Accumulation]
    prior: Prior
    weights: Sequence[Floats]  # of each curve, by which its points are centred

    @cached_property
    def posterior(self) -> Sharpened:
        known = np.concatenate([curve._effects for curve in self.curves])
        first = sharpen(self.prior, known, self._variances(known), width=self._width)
        return sharpen(self.prior, known, self._variances(first.values), width=self._width)

    @property
    def _width(self) -> float:
        """Of the range in which effects lie."""
        return 2 * self.curves[0].span

    def _variances(self, effects: Floats) -> Floats:
        variances = []
        for curve, mine in zip(self.curves, np.split(effects, self._ends), strict=True):
            own = (curve.effects.std * curve.unit) ** 2 + (np.abs(mine) * curve._count_std) ** 2
            own = own / curve.bins.rows**2
            variances.append(np.where(curve._known, own, np.maximum(own, curve.clip**2)))
        return np.concatenate(variances)

    def expected_stds(self, worth: float) -> Floats:
        """The standard deviations of all sharpened points, if synthetic rows are worth so many rows."""
        known = np.concatenate([curve._effects for curve in self.curves])
        root = expected(self.prior, self._variances(known), worth, width=self._width).root
        each = [((self._lifted(i) @ root[self._place(i)]) ** 2).sum(axis=1) for i in range(len(self.curves))]
        return np.asarray(np.sqrt(np.concatenate(each)))

    @property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum([curve.bins.size for curve in self.curves])[:-1]

    @property
    def sure(self) -> bool:
        """Whether there are rows beyond doubt."""
        return all(curve._sure for curve in self.curves)

    def _lifted(self, index: int) -> Floats:
        """From the effects of one feature to its curve."""
        add = np.tril(np.ones((len(self.curves[index].bins.points), self.curves[index].bins.size)), -1)
        return np.asarray(add - self.weights[index] @ add)

    def _place(self, index: int) -> slice:
        start = sum(curve.bins.size for curve in self.curves[:index])
        return slice(start, start + self.curves[index].bins.size)

    def effects(self, index: int) -> Floats:
        curve = self.curves[index]
        return np.clip(self.posterior.values[self._place(index)], -curve.clip, curve.clip)

    def values(self, index: int) -> Floats:
        """The points of one curve."""
        curve = self.curves[index]
        return np.clip(self._lifted(index) @ self.effects(index), -curve.span, curve.span)

    def interval(self, index: int, level: float) -> tuple[Floats, Floats]:
        """(low, high) around each point of one exact curve: noise of sums and own counts by their laws, the rest as
        normal.
        """
        curve, place, posterior = self.curves[index], self._place(index), self.posterior
        bins, effects, lifted = curve.bins, self.effects(index), self._lifted(index)
        rows = np.concatenate([one.bins.rows for one in self.curves])
        known = np.concatenate([one._known for one in self.curves])
        moved = lifted @ posterior.gain[place]  # what an error of a released effect does to each point
        summed = moved * np.where(known, curve.unit / rows, 0.0)
        few = np.maximum(bins.rows - TWO_SIDED * curve._count_std, 1.0)
        slopes = moved[:, place] * np.where(curve._known, effects / few, 0.0)
        middle = lifted @ effects
        counted = curve._counted(slopes @ bins.members + bins.at_cells(middle) / bins.total)
        taken = curve.effects.std**2 * (summed**2).sum(axis=1) + ((slopes * curve._count_std) ** 2).sum(axis=1)
        rest = np.sqrt(np.maximum(((lifted @ posterior.root[place]) ** 2).sum(axis=1) - taken, 0.0))
        half = [
            combined_halfwidth([(curve.effects, graded(s)), (curve.counts, graded(c))], r, level)
            for s, c, r in zip(summed, counted, rest, strict=True)
        ]
        ends = np.clip([middle - half, middle + half], -curve.span, curve.span)
        return ends[0], ends[1]
