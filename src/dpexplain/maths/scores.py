"""How good a score is, from noisy counts of score cell x target: every figure an estimate with an honest interval.

Counts are used as they were released, also those below 0: sums of unbiased counts are unbiased, and those of counts
that were cut off at 0 are not. Intervals are about these rows (`maths/estimates.py`), and have in them

  noise           its own law for the sum that the figure is made of, for all laws of `core/noise.py`
  discretisation  what rows may do within their cells, at worst. A rate at a threshold that is an edge has none. AUC
                  has: pairs within one cell may stand either way, so it is within sum_k P_k N_k / (2 P N) of the value
                  that counts them half. Brier score, log loss, mean prediction, calibration error have: a score may
                  be at either edge of its cell. Where that is most of the width, intervals cover more than they say.

AUC is (strictly ordered pairs + half of the ties) over P N, a quotient of bilinear forms of the counts p of target 1
and q of target 0: p' W q is 0 at the exact theta, for W = M - theta, M = 1 below the diagonal and 1/2 on it. With noise
x, y it becomes x' W q + p' W y + x' W y. The law of the first two is that of a weighted sum whose weights W q and W' p
are known up to noise: with the noisy ones their variance is too large by twice that of the third on average, which
makes room for it.

Two tables are combined. A release may have a second table with the rows on either side of one threshold (`Decisions`).
For each target and side, k cells of variance v each add up to a sum that the second table has with variance w. Least
squares add a (c - sum of the cells) to each cell, a = v / (k v + w), c the count of the second table. A sum of cells
with weights u then has noise u_i - a U in the coordinates of the cells and a U in that of c, U the sum of u over the
side: two independent vectors of noise, whose law is known. At that threshold a rate has the noise of few numbers.

The calibration error is the sum over cells of |observed - predicted target rate| by share of rows, in the cells of this
table. Noise makes a sum of absolute values larger. Its true value is that of one linear form, by the signs that
it has, and the law of the noise of such a form does not depend on signs: that gives the upper end. The lower end
leaves room for the sum of the absolute values of all noise, and for that of the number of rows. The value takes the
noise's variance off each cell. It takes the cells alone, whose noise is independent: combined with a second table the
law would depend on signs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpexplain.core.noise import Law, Noise, checked_level
from dpexplain.errors import InputError
from dpexplain.maths.estimates import Estimate, fraction, with_bias
from dpexplain.maths.tails import Term, combined_halfwidth

Floats = NDArray[np.float64]

RATES = (  # at a threshold
    "accuracy",
    "selection_rate",
    "true_positive_rate",
    "false_positive_rate",
    "true_negative_rate",
    "false_negative_rate",
    "precision",
    "base_rate",
)
PROBABILITY_FIGURES = ("brier_score", "log_loss", "calibration_error", "mean_prediction")  # of a score in [0, 1]
SCORES = ("auc", *PROBABILITY_FIGURES, "count")  # without a threshold
LEAST_PROBABILITY = 1e-3  # a log loss takes no probability as smaller, because one row would count without limit
ROUNDING = 1e-9  # by which an edge may be off
SURE = 4.0  # standard deviations of noise from which on a count says something about its cell
ABSOLUTE, ABSOLUTE_SPREAD, ABSOLUTE_SKEW = 0.85, 0.7, 0.7  # of |v| for noise v of variance 1: at least so for all laws


@dataclass(frozen=True)
class Decisions:
    """Noisy counts of the same rows on either side of one threshold: below, at or above x target 0, 1."""

    cut: int  # the first score cell at or above the threshold: both sides have cells
    counts: Floats  # (2, 2): as released
    noise: Noise  # independent of that of the cells


@dataclass(frozen=True)
class ScoreTable:
    """Noisy counts of one group, or of everybody: K score cells x target 0, 1.

    The count of each cell is the true one plus a weighted sum of independent coordinates of `noise`, other ones for
    each cell, with the weights `factors`: (1,) for a group of one histogram, (1,) * G for the sum over G group cells,
    and what `summed` and `averaged` make of them. Those of `decisions` are summed and averaged with them, so that they
    have the same factors.
    """

    edges: Floats  # K + 1, rising; a cell holds its low edge and not its high one, the last one both
    counts: Floats  # (K, 2): as released, also below 0
    noise: Noise  # of the whole release
    factors: tuple[float, ...] = (1.0,)
    total: int | None = None  # rows in the table where that is public
    exact: bool = False  # one score in each cell, its middle: nothing is lost by cells
    decisions: Decisions | None = None  # the same rows by one threshold

    def figure(self, name: str, threshold: float | None = None, level: float = 0.95) -> Estimate:
        """Any of RATES (at a threshold within the edges: a score of at least that is positive) or SCORES."""
        checked_level(level)
        if name in RATES:
            return self._rate(name, threshold, level)
        figures: dict[str, Callable[[float], Estimate]] = {
            "auc": self._auc,
            "brier_score": self._brier,
            "log_loss": self._log_loss,
            "calibration_error": self._calibration_error,
            "mean_prediction": self._mean_prediction,
            "count": self._count,
        }
        if name not in figures:
            raise InputError(f"no figure is called {name!r}.", hint=f"one of {', '.join(RATES + SCORES)}")
        return figures[name](level)

    def confusion(self, threshold: float, level: float = 0.95) -> list[list[Estimate]]:
        """Counts: [target 0, target 1][predicted 0, predicted 1]."""
        middle, corners = self._positive(threshold)
        target = np.array([[1.0, 0.0], [0.0, 1.0]])
        return [
            [
                self._sum(*(by * (part if sign else 1 - part) for part in (middle, *corners)), level=level)
                for sign in (0, 1)
            ]
            for by in target
        ]

    def roc(self, level: float = 0.95) -> tuple[Floats, list[Estimate], list[Estimate]]:
        """(thresholds, false positive rates, true positive rates) at all edges but the outer ones."""
        inner = self.edges[1:-1]
        false, true = (
            [self.figure(f"{sign}_positive_rate", float(t), level) for t in inner] for sign in ("false", "true")
        )
        return inner, false, true

    def calibration(self, level: float = 0.95) -> list[Estimate]:
        """The rate of target 1 in each score cell."""
        cells = np.eye(len(self.counts))[:, :, None]
        return [self._share(cell * _TARGET, cell * np.ones(2), level) for cell in cells]

    def rows(self, level: float = 0.95) -> list[Estimate]:
        """The number of rows in each score cell."""
        return [self._sum(cell * np.ones(2), level=level) for cell in np.eye(len(self.counts))[:, :, None]]

    # Sums and fractions ---------------------------------------------------------------------------------------------

    @cached_property
    def _pull(self) -> Floats:
        """For each side of the threshold of `decisions`, how much of its distance to the sum each cell is moved by."""
        assert self.decisions is not None
        cells, sides = self.noise.std**2, self.decisions.noise.std**2
        sizes = np.array([self.decisions.cut, len(self.counts) - self.decisions.cut])
        return cells / np.maximum(sizes * cells + sides, 1e-300)

    def _by_side(self, weights: Floats) -> Floats:
        """The sums of cells on either side: (2, 2)."""
        assert self.decisions is not None
        return np.add.reduceat(weights, [0, self.decisions.cut], axis=0)

    def _spread(self, sides: Floats) -> Floats:
        """Each cell has what its side has."""
        assert self.decisions is not None
        cut = self.decisions.cut
        return np.repeat(sides, [cut, len(self.counts) - cut], axis=0)

    @cached_property
    def estimates(self) -> Floats:
        """The counts of cells, combined with those of decisions where there are any."""
        if self.decisions is None:
            return self.counts
        apart = self.decisions.counts - self._by_side(self.counts)
        return self.counts + self._spread(self._pull[:, None] * apart)

    def terms(self, weights: Floats) -> list[Term]:
        """The noise of the sum of `estimates` with these weights: independent vectors with factors."""
        return [(noise, np.outer(w, self.factors).ravel()) for noise, w in self._coordinates(weights)]

    def _coordinates(self, weights: Floats) -> list[tuple[Noise, Floats]]:
        """What each coordinate of the noise of cells, and of decisions, counts in that sum."""
        if self.decisions is None:
            return [(self.noise, weights)]
        sides = self._pull[:, None] * self._by_side(weights)
        each = [(self.noise, weights - self._spread(sides)), (self.decisions.noise, sides)]
        return [(noise, np.where(np.abs(w) < 1e-12, 0.0, w)) for noise, w in each]

    @cached_property
    def _covariance(self) -> Floats:
        """Of the estimates of all cells of one target: (K, K)."""
        found = np.eye(len(self.counts))
        if self.decisions is not None:
            side = np.arange(len(self.counts)) >= self.decisions.cut
            found -= np.where(side[:, None] == side, self._pull[side.astype(int)], 0.0)
        return found * self._unit**2

    @property
    def _unit(self) -> float:
        """The standard deviation of the count of a cell."""
        return self.noise.std * math.hypot(*self.factors)

    @cached_property
    def _shares(self) -> Floats:
        """By how much each estimate is moved where the sum of all is known: like its covariance with the sum."""
        if self.decisions is None:
            return np.full(self.counts.shape, 1 / self.counts.size)
        sizes = np.array([self.decisions.cut, len(self.counts) - self.decisions.cut])
        left = np.maximum(1 - sizes * self._pull, 1e-12)
        moved: Floats = self._spread(np.repeat(left[:, None], 2, axis=1))
        return moved / float(moved.sum())

    @cached_property
    def _known(self) -> Floats:
        """The estimates, moved so that they add up to the total where that is public."""
        if self.total is None:
            return self.estimates
        return self.estimates - float(self.estimates.sum() - self.total) * self._shares

    def _half(self, weights: Floats, level: float) -> float:
        """How far the sum of known counts with these weights is off, at most."""
        if self.total is not None:
            weights = weights - (weights * self._shares).sum()
            weights = np.where(np.abs(weights) < 1e-12, 0.0, weights)
        asked = tuple((noise, w.tobytes()) for noise, w in self._coordinates(weights))
        return _halfwidth(asked, self.factors, level)

    def _sum(self, weights: Floats, *corners: Floats, level: float) -> Estimate:
        """The number of rows with these weights; `corners` are other weights that may be the right ones."""
        value = float((weights * self._known).sum())
        ends = [((w * self._known).sum(), self._half(w, level)) for w in corners or (weights,)]
        low, high = max(min(s - h for s, h in ends), 0.0), max(max(s + h for s, h in ends), 0.0)
        return Estimate(min(max(value, low), high), float(low), float(high), bounded=len(corners) > 1)

    def _share(self, inside: Floats, all_of: Floats, level: float) -> Estimate:
        """Sum of `inside` over that of `all_of`, 0 <= inside <= all_of."""
        a, d = (float((weights * self._known).sum()) for weights in (inside, all_of))
        return fraction(a, d - a, lambda theta: self._half(inside - theta * all_of, level))

    # Rates ----------------------------------------------------------------------------------------------------------

    @cached_property
    def _lowest(self) -> Floats:
        return (self.edges[1:] + self.edges[:-1]) / 2 if self.exact else self.edges[:-1]

    @cached_property
    def _highest(self) -> Floats:
        return self._lowest if self.exact else self.edges[1:]

    def _positive(self, threshold: float | None) -> tuple[Floats, list[Floats]]:
        """The share of each cell x target that is at or above the threshold: a guess, and the extremes."""
        if threshold is None or not self.edges[0] <= threshold <= self.edges[-1]:
            raise InputError(
                f"a threshold lies between {self.edges[0]:g} and {self.edges[-1]:g}; got {threshold!r}.",
                hint="scores lie in that range, so another threshold separates nothing",
            )
        width = np.where(self._highest > self._lowest, self._highest - self._lowest, 1.0)
        above = np.clip((self._highest - threshold) / width, 0, 1)
        above = np.where(self._lowest >= threshold, 1.0, np.where(self._highest < threshold, 0.0, above))
        guess = np.repeat(above[:, None], 2, axis=1)
        # A cell with its high edge at the threshold has no row there, but the last one may.
        cut = np.flatnonzero((self._lowest < threshold) & (threshold < self._highest))
        if not self.exact and threshold == self.edges[-1]:
            cut = np.array([len(self.counts) - 1])
        if not len(cut):
            return guess, [guess]
        corners = []
        for ends in product((0.0, 1.0), repeat=2):
            corner = guess.copy()
            corner[cut[0]] = ends
            corners.append(corner)
        return guess, corners

    def _rate(self, name: str, threshold: float | None, level: float) -> Estimate:
        middle, corners = (np.zeros((len(self.counts), 2)), None) if name == "base_rate" else self._positive(threshold)
        if corners is None or len(corners) == 1:
            return self._share(*_parts(name, middle), level)
        estimates = [self._share(*_parts(name, corner), level) for corner in corners]
        low, high = min(e.low for e in estimates), max(e.high for e in estimates)
        inside, all_of = ((weights * self._known).sum() for weights in _parts(name, middle))
        value = min(max(float(inside / all_of), low), high) if all_of > 0 and (low, high) != (0.0, 1.0) else math.nan
        return Estimate(value, low, high, bounded=True)

    # Figures without a threshold ------------------------------------------------------------------------------------

    def _count(self, level: float) -> Estimate:
        if self.total is not None:
            return Estimate(float(self.total), float(self.total), float(self.total))
        return self._sum(np.ones_like(self.counts), level=level)

    def _auc(self, level: float) -> Estimate:
        (q, p), cells = self.estimates.T, len(self.counts)
        positive, negative = p.sum(), q.sum()
        if positive <= 0 or negative <= 0:
            return Estimate(math.nan, 0.0, 1.0)
        order = np.tril(np.ones((cells, cells)), -1) + np.eye(cells) / 2
        ordered, pairs = float(p @ order @ q), float(positive * negative)
        unit, spread = self._unit, self._covariance
        ties = 0.0 if self.exact else max(p @ q + unit * math.sqrt(p @ p + q @ q), 0.0) / 2

        def half(theta: float) -> float:
            below = order - theta
            positives, negatives = below @ q, p @ below
            size = math.sqrt(positives @ spread @ positives + negatives @ spread @ negatives)
            least = math.sqrt(((below @ spread) * (spread @ below)).sum()) / max(size, 1e-300)
            terms = self.terms(np.stack([negatives, positives], axis=1) * max(least, 1.0))
            return with_bias(lambda at: combined_halfwidth(terms, 0.0, at), ties, level)

        value = (ordered + self._within_cells()) / pairs
        return replace(fraction(ordered, pairs - ordered, half, value), bounded=bool(ties > 0))

    def _within_cells(self) -> float:
        """How many pairs within cells are ordered rightly beyond half of them, where the rate of target 1 goes on
        rising within a cell as it does around it: n^2 rise / 12. The value alone is better for it; no interval relies
        on it.
        """
        counts = self.estimates
        rows = counts.sum(axis=1)
        sure = rows > SURE * self._unit
        if self.exact or len(rows) < 3:
            return 0.0
        rate = counts[:, 1] / np.where(sure, rows, 1.0)
        centre = np.cumsum(rows) - rows / 2
        inside = sure[2:] & sure[1:-1] & sure[:-2]
        rise = np.where(inside, rate[2:] - rate[:-2], 0.0) / np.where(inside, centre[2:] - centre[:-2], 1.0)
        ends = [(0, 1, sure[0] and sure[1]), (-1, -2, sure[-1] and sure[-2])]
        first, last = ((rate[a] - rate[b]) / (centre[a] - centre[b]) if both else 0.0 for a, b, both in ends)
        more = np.maximum(rows, 0) ** 3 * np.concatenate([[first], rise, [last]]) / 12
        most = np.maximum(counts, 0).prod(axis=1) / 3
        return float(np.clip(more, -most, most).sum())

    def _bounded_loss(self, least: Floats, most: Floats, middle: Floats, level: float) -> Estimate:
        """The mean of a number that lies between `least` and `most`, by cell and target: from the low end of the mean
        of the least to the high end of that of the most, each with its own noise.
        """
        top, whole = float(most.max()), np.ones_like(least)
        lowest, highest = (self._share(weights / top, whole, level) for weights in (least, most))
        low, high, n = lowest.low, highest.high, float(self._known.sum())
        value = float((middle * self._known).sum()) / (top * n) if n > 0 and (low, high) != (0.0, 1.0) else math.nan
        bounded = bool((most > least).any())
        return Estimate(min(max(value, low), high), low, high, bounded, lowest.cut_low, highest.cut_high).scaled(top)

    def _brier(self, level: float) -> Estimate:
        low, high = self._probabilities()
        squares = np.stack([low**2, (1 - high) ** 2], axis=1), np.stack([high**2, (1 - low) ** 2], axis=1)
        middle, wide = (low + high) / 2, (high - low) ** 2 / 12
        return self._bounded_loss(*squares, np.stack([middle**2 + wide, (1 - middle) ** 2 + wide], axis=1), level)

    def _log_loss(self, level: float) -> Estimate:
        low, high = (np.clip(p, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY) for p in self._probabilities())
        least, most = -np.log(np.stack([1 - low, high], axis=1)), -np.log(np.stack([1 - high, low], axis=1))
        middle = (low + high) / 2
        return self._bounded_loss(least, most, -np.log(np.stack([1 - middle, middle], axis=1)), level)

    def _mean_prediction(self, level: float) -> Estimate:
        low, high = (np.repeat(p[:, None], 2, axis=1) for p in self._probabilities())
        return self._bounded_loss(low, high, (low + high) / 2, level)

    def _probabilities(self) -> tuple[Floats, Floats]:
        """The smallest and the largest score of each cell."""
        if self._lowest[0] < -ROUNDING or self._highest[-1] > 1 + ROUNDING:
            raise InputError(
                "the score is no probability: it may be outside 0 to 1.", hint=f"not {', '.join(PROBABILITY_FIGURES)}"
            )
        return np.clip(self._lowest, 0, 1), np.clip(self._highest, 0, 1)

    def _calibration_error(self, level: float) -> Estimate:
        low, high = self._probabilities()
        rows, observed = self.counts.sum(axis=1), self.counts[:, 1]
        n = self.total if self.total is not None else float(rows.sum())
        unit = self._unit
        if n <= 0:
            return Estimate(math.nan, 0.0, 1.0)
        middle = (low + high) / 2
        sizes = unit * np.hypot(1 - middle, middle)  # standard deviations of observed - middle * rows
        value = float(np.sqrt(np.maximum((observed - middle * rows) ** 2 - sizes**2, 0)).sum()) / n
        farthest = np.maximum(np.abs(observed - low * rows), np.abs(observed - high * rows)).sum()
        edge = np.where(np.abs(low - 0.5) > np.abs(high - 0.5), low, high)  # where the noise is largest
        upper = value
        for _ in range(3):  # theta n is to be reached, and n is noisy too
            theta = 0.0 if self.total is not None else upper
            sign = np.where(edge < 0.5, -1, 1)
            weights = np.concatenate([sign * (1 - edge) - theta, -sign * edge - theta])
            half = combined_halfwidth([(self.noise, np.outer(weights, self.factors).ravel())], 0.0, level)
            upper = min(float(farthest + half) / n, 1.0)
        nearest = np.maximum(np.maximum(observed - high * rows, low * rows - observed), 0).sum()
        sizes = unit * np.hypot(1 - edge, edge)
        z, common = -ndtri((1 - level) / 2), 1 / (self.noise.size + 1) if self.noise.law is Law.CUBE else 0.0
        mean = ABSOLUTE * sizes.sum()
        of_n = 0.0 if self.total is not None else min(nearest / n, 1.0) * unit * math.sqrt(self.counts.size)
        deviation = math.sqrt(ABSOLUTE_SPREAD**2 * float(sizes @ sizes) + common * mean**2 + of_n**2)
        lower = min(max(float(nearest - mean - z * deviation - ABSOLUTE_SKEW * sizes.max()) / n, 0.0), upper)
        return Estimate(min(max(value, lower), upper), lower, upper, bounded=True)


@lru_cache(maxsize=2**14)
def _halfwidth(asked: tuple[tuple[Noise, bytes], ...], factors: tuple[float, ...], level: float) -> float:
    """Groups of one release ask for the same sums again and again."""
    terms = [(noise, np.outer(np.frombuffer(weights), factors).ravel()) for noise, weights in asked]
    return combined_halfwidth(terms, 0.0, level)


_TARGET = np.array([0.0, 1.0])


def _parts(name: str, positive: Floats) -> tuple[Floats, Floats]:
    """(numerator, denominator) of a rate, as weights of cell x target, from the share of each that is predicted 1."""
    one, zero, whole = np.broadcast_to(_TARGET, positive.shape), np.array([1.0, 0.0]), np.ones_like(positive)
    parts: dict[str, tuple[Floats, Floats]] = {
        "accuracy": (positive * one + (1 - positive) * zero, whole),
        "selection_rate": (positive, whole),
        "true_positive_rate": (positive * one, one),
        "false_negative_rate": ((1 - positive) * one, one),
        "false_positive_rate": (positive * zero, whole * zero),
        "true_negative_rate": ((1 - positive) * zero, whole * zero),
        "precision": (positive * one, positive),
        "base_rate": (whole * one, whole),
    }
    return parts[name]


def summed(tables: Sequence[ScoreTable], total: int | None = None) -> ScoreTable:
    """Disjoint groups of one histogram together."""
    counts = np.sum([table.counts for table in tables], axis=0)
    factors = tuple(factor for table in tables for factor in table.factors)
    decisions = _decisions(tables, [1.0] * len(tables))
    return replace(tables[0], counts=counts, factors=factors, total=total, decisions=decisions)


def averaged(tables: Sequence[ScoreTable]) -> ScoreTable:
    """The same rows counted in several histograms of one release: weighted by inverse variance."""
    precisions = np.array([1 / sum(factor**2 for factor in table.factors) for table in tables])
    weights = precisions / precisions.sum()
    counts = np.sum([weight * table.counts for weight, table in zip(weights, tables, strict=True)], axis=0)
    factors = tuple(float(w) * f for w, table in zip(weights, tables, strict=True) for f in table.factors)
    return replace(tables[0], counts=counts, factors=factors, decisions=_decisions(tables, weights.tolist()))


def _decisions(tables: Sequence[ScoreTable], weights: Sequence[float]) -> Decisions | None:
    """Those of all tables, with these weights: all of them have decisions, or none."""
    known = [table.decisions for table in tables if table.decisions is not None]
    if not known:
        return None
    counts = np.sum([weight * each.counts for weight, each in zip(weights, known, strict=True)], axis=0)
    return replace(known[0], counts=counts)


def share(
    inside: Sequence[float],
    outside: Sequence[float],
    noise: Noise,
    factors: tuple[float, ...] = (1.0,),
    level: float = 0.95,
    total: int | None = None,
) -> Estimate:
    """A / (A + B) of the true sums of two lists of disjoint noisy counts, such as the diagonal of a table of predicted
    class x target, and the rest of it; `total` where A + B is public.
    """
    both = np.array([*inside, *outside], dtype=np.float64)
    table = ScoreTable(np.empty(0), both[:, None], noise, factors, total)
    mine = (np.arange(len(both)) < len(inside)).astype(np.float64)[:, None]
    return table._share(mine, np.ones_like(mine), level)
