"""Features in the order of their permutation importance: how much worse predictions become without them.

What an interval contains. Let T be the sum over groups (or rows) of limited changes of one feature, n I the sum that
importance is about: the expectation, over the secret dealing, of the sum of unlimited changes.

    released - n I  =  noise  +  (T - E T)  -  E(what was cut off)

noise     has a known law.
T - E T   is chance. For groups dealt by independent numbers, or by the places of a shuffle in equal sizes, its variance
          is at most G / (G - 1) times the sum over the G groups of E(change^2); for rows with draws of their own, at
          most that sum. Released is the sum of squares with noise z, never negative. z can hide chance, so a few
          standard deviations of it are added (`allowance`): enough, whatever the true sum of squares is (tested).
cut off   Each group says how far its cut-off changes lie apart (zero included), which bounds what any feature lost, and
          any two features against each other. Released is the sum w of that with noise; its own chance has a variance
          of at most `cap` times itself.

So |released - n I| <= w + h, where h is the half-width of the sum of both noises and both chances. The proofs, and
what histograms and a noisy number of rows add, stand in docs/methods/permutation-importance.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from scipy.special import gammainccinv

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Law, Noise, checked_level
from dpexplain.maths.means import Means
from dpexplain.maths.tails import Term, combined_halfwidth
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.rankings import Ranking
from dpexplain.methods.result import Floats
from dpexplain.receipts import Receipt

QUANTITIES = {
    "squared": "increase of the squared error",
    "absolute": "increase of the absolute error",
    "log": "increase of the log loss",
    "accuracy": "loss of accuracy",
}


SQUARE_LEVELS = 2**20  # steps of the largest possible square
CURVE_POINTS = 16  # at which half-widths are computed where there are more features
TAILS = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.06, 0.04, 0.02, 0.01, 0.002, 1e-4])


@dataclass(frozen=True)
class Importance(Ranking):
    """Features by importance. `base` is the mean loss as the rows are, `errors` the one with each feature replaced.

    Where the changes of a row (or of a group of rows) were limited to a total of `limit`, scores are those of the
    limited changes: the order is little touched, but large changes are understated. Intervals cover the importance
    without a limit.
    """

    kind: ClassVar[str] = "permutation-importance"

    @property
    def quantity(self) -> str:  # type: ignore[override]
        return QUANTITIES[self.spec["loss"]["name"]]

    @property
    def possible(self) -> tuple[float, float]:
        return -self.losses.width, self.losses.width

    @property
    def title(self) -> str:
        return f"Permutation importance for {self.spec['target']}"

    @property
    def candidates(self) -> tuple[str, ...]:
        return tuple(str(feature) for feature in self.spec["features"])

    @property
    def _paper(self) -> bool:
        return bool(self.spec["method"] == "paper")

    @property
    def source(self) -> str:
        """Where the values came from that took the place of a row's own."""
        if self._paper:
            return "one permutation of each column"
        if self.marginals is not None:
            return "histograms that a part of the price bought"
        before = self.spec["marginals"] is not None
        return "histograms that were released before" if before else "other rows, in small groups"

    @property
    def caveat(self) -> str:
        said = f"Replacements came from {self.source}. "
        if self._paper:
            return f"{said}Intervals are about that permutation; they leave out how another one would differ."
        if not self._complete:
            return f"{said}Intervals show noise alone: they leave out what the limit cut off, and chance."
        parts = ["noise", "chance in the values that rows met"]
        if self._limited:
            said += f"Large changes are limited, to {self.limit:.3g} in all for {self._who}. "
            parts.append("the most that this can have cut off")
        if self.spec["histograms"] is not None:
            parts.append("the noise of the histograms")
        *most, last = parts
        contained = f"Intervals cover the importance without a limit: they contain {', '.join(most)} and {last}"
        contained += "; the probabilities to stand above the next are lower bounds"
        if self.spec["histograms"] is not None:
            return f"{said}{contained}. They leave out that values inside a cell are blurred."
        if self.receipt.neighbours.rows > 1:
            said += (
                "Rows of units with few rows count more: where units have very different numbers of rows, importances "
            )
            said += "can be off by up to a quarter. "
        return f"{said}{contained}."

    @property
    def _who(self) -> str:
        return "a row" if self.spec["marginals"] is not None else "a group of rows"

    @property
    def _complete(self) -> bool:
        """Whether what intervals need was released; earlier versions did not."""
        return "squares" in self.released["parts"]

    @property
    def _limited(self) -> bool:
        """Whether the limit can have cut something off."""
        return self._complete and self._limit_steps < self.spec["top"]

    @cached_property
    def marginals(self) -> Marginals | None:
        """The histograms that a part of the price bought, as in earlier versions; else None."""
        return Marginals(self.receipt, self.released) if self.spec.get("partitions") else None

    @cached_property
    def losses(self) -> PublicRange:
        """The public range of one row's loss."""
        return PublicRange.from_json(self.spec["loss"]["range"])

    @property
    def limit(self) -> float | None:
        """The most that the losses of a row, or of a group of rows, could change in all; None: nothing was limited."""
        return None if self._paper else self._limit_steps * self._step

    @property
    def _limit_steps(self) -> int:
        limits = self.spec["limits"]
        chosen = int(self.released["parts"]["limit"]["values"][0]) if len(limits) > 1 else 0
        if not 0 <= chosen < len(limits):
            raise ValueError("no limit of this number")
        return int(limits[chosen])

    @property
    def _step(self) -> float:
        """One quantised step of a loss, in the units of the loss."""
        return self.losses.width / self.losses.levels

    @cached_property
    def _base(self) -> Means:
        """The mean loss as the rows are; in the faithful form it stands behind the errors."""
        sums, noise = self.part("errors" if self._paper else "base")
        place = slice(len(sums) - 1, None) if self._paper else slice(0, 1)
        return Means(sums, noise, self.losses, self.spec["count_weight"], self.receipt.request["table"]["rows"], place)

    @property
    def count(self) -> float:
        """The number of rows: public, or the released one; at least one."""
        return max(self._base.count, 1.0)

    @property
    def base(self) -> float:
        """The mean loss with nothing replaced."""
        return float(np.clip(self._base.unclipped, self.losses.low, self.losses.high)[0])

    def base_interval(self, level: float = 0.95) -> tuple[float, float]:
        """(low, high) around the exact mean loss with nothing replaced."""
        low, high = self._base.interval(level)
        return float(low[0]), float(high[0])

    @property
    def errors(self) -> Floats:
        """The mean loss with each candidate replaced, in their public order."""
        return self.base + self.scores

    def errors_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) around them. Base and importance are both noisy: each misses with half the probability."""
        each = (1 + checked_level(level)) / 2
        (base_low, base_high), (low, high) = self.base_interval(each), self.score_interval(each)
        return base_low + low, base_high + high

    @cached_property
    def _sums(self) -> tuple[Floats, Noise]:
        """The integers that importances are made of, and the law of the noise in each of them."""
        sums, noise = self.part("errors" if self._paper else "changes")
        scores = sums[:-1] - sums[-1] if self._paper else sums
        return scores.astype(np.float64), noise

    @property
    def _unit(self) -> float:
        """How much of a score one unit of the sums is."""
        return self._step / (self.count * company(self.spec, self.count))

    @cached_property
    def scores(self) -> Floats:
        return self._sums[0] * self._unit

    @property
    def gap_noise(self) -> tuple[Noise, float]:
        return self._sums[1], self._unit

    def score_interval(self, level: float) -> tuple[Floats, Floats]:
        level, sums = checked_level(level), self._sums[0]
        if self._complete and self._groups < 2:
            whole = np.full(len(sums), self.losses.width)
            return -whole, whole
        parts = 1 + bool(self.spec["count_weight"]) + (self.spec.get("histograms") is not None)
        each = 1 - (1 - level) / parts  # each part of an interval misses with the same probability
        half = self._half(each)
        few, many = self._counts(each)
        if few <= 0:
            whole = np.full(len(sums), self.losses.width)
            return -whole, whole
        ends = []
        for sign in (-1, 1):
            edge = (sums + sign * half) * self._step
            # extreme at the smaller count where it moves away from zero
            end = edge / np.where(sign * edge > 0, few, many) + sign * self._histogram_error(each)
            ends.append(np.clip(end, -self.losses.width, self.losses.width))
        return ends[0], ends[1]

    def _half(self, level: float) -> Floats:
        """How far the sums may lie from those without limit, noise and chance."""
        sums, noise = self._sums
        if self._paper or not self._complete:
            return np.full(len(sums), gap_halfwidth(noise, level) if self._paper else noise.halfwidth(level))
        return self._cut + self._rounding + halfwidths([(noise, [1.0]), *self._cut_noise], self._chance(level), level)

    @property
    def _rounding(self) -> float:
        """The mean of several changes of a row is rounded toward zero."""
        return self.count if self.spec["draws"] > 1 else 0.0

    @property
    def _cut(self) -> float:
        """What the limit cut off, as it was released; at least nothing."""
        return max(0.0, float(self.part("lost")[0][0])) if self._limited else 0.0

    @property
    def _cut_noise(self) -> list[Term]:
        return [(self.part("lost")[1], [1.0])] if self._limited else []

    @property
    def _groups(self) -> int:
        """How many groups there were, or about how many rows by themselves."""
        return int(self.count) if self.spec["marginals"] is not None else groups_for(self.count, self.spec["group"])

    def _chance(self, level: float) -> Floats:
        """The standard deviation of each sum by chance and that of what was cut off, added up; for intervals of this
        level.
        """
        values, noise = self.part("squares")
        hidden = allowance(level)
        cap = self.spec["most"] * self.losses.levels
        unit = square_unit(self.spec["norm"], len(values), self._limit_steps, cap) / SQUARE_LEVELS
        squares = (np.maximum(values, 0) + hidden * noise.std + self._groups) * unit  # each group's were rounded down
        cut = cap * (self._cut + sum(hidden * law.std for law, _ in self._cut_noise))
        return np.asarray((np.sqrt(squares) + np.sqrt(cut)) * np.sqrt(self._groups / max(self._groups - 1, 1)))

    def _counts(self, level: float) -> tuple[float, float]:
        """The smallest and the largest number of rows whose changes count, where it is noisy or depends on chance."""
        weight = self.spec["count_weight"]
        unsure = self._base.noise.halfwidth(level) / weight if weight else 0.0
        few, many = self.count - unsure, self.count + unsure
        if few <= 0 or not self._complete:
            return few * company(self.spec, self.count), many * company(self.spec, self.count)
        least = fewest_counted(self.spec, self.receipt.neighbours.rows)
        groups = groups_for(self.count, self.spec["group"])
        return few * company(self.spec, few, groups) * least, many * company(self.spec, many, groups)

    def _histogram_error(self, level: float) -> Floats:
        """How far noise in the histograms can move each importance."""
        known = self.spec.get("histograms")
        if known is None:
            return np.zeros(len(self.candidates))
        return histogram_errors(known, bool(self.spec["count_weight"]), level) * self.losses.width

    @cached_property
    def order_probability(self) -> Floats:
        """For each item but the last, a lower bound of the probability that it truly stands above the next one, if
        nothing else is known about the two; at least one half.

        Not more than their gap less what the limit can have cut off counts, against the noise and chance of both.
        """
        if self._paper or not self._complete:
            return super().order_probability
        sums, noise = self._sums
        gaps = -np.diff(sums[self.order]) - self._cut - self._rounding
        gaps -= 2 * self._histogram_error(0.998).max() * self.count / self._step
        terms: list[Term] = [(noise, [1.0, 1.0]), *self._cut_noise]
        missing = np.ones(len(gaps))
        for tail in TAILS:
            chance = self._chance(1 - tail)[self.order]
            reached = halfwidths(terms, chance[1:] + chance[:-1], 1 - tail) <= gaps
            missing[reached] = tail
            if not reached.any():
                break
        return 1 - missing / 2

    def view(self) -> JsonObject:
        return {}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Self:
        if view:
            raise ValueError("an importance has no view")
        result = cls(receipt, released)
        if (
            not 0 < len(result.candidates) == len(result.scores)
            or not np.isfinite([result.base, result.limit or 0]).all()
        ):
            raise ValueError("the features do not fit the released values")
        result.check()
        result.base_interval()
        if result.marginals is not None:
            Marginals.rebuild(receipt, released, {})
            if result.marginals.features != list(result.candidates) or result.spec["marginals"] is not None:
                raise ValueError("the histograms do not fit the features")
        return result


def groups_for(count: float, group: int) -> int:
    """How many groups rows are dealt to, when there are about `count` rows and `group` of them shall be together."""
    return max(1, int(count / group))


def company(spec: JsonObject, count: float, groups: int | None = None) -> float:
    """The expected share of the rows whose changes count: those with another row in their group, to be replaced by, and
    among the first `most` of it.

    Rows dealt by secret numbers can be alone or too many; by position they never are. Where a unit has several rows,
    groups are so large that it hardly happens: nothing is corrected, but intervals allow for it (`fewest_counted`).
    """
    from scipy.stats import binom

    if not spec["loners"] or count < 2:
        return 1.0
    groups = groups_for(count, spec["group"]) if groups is None else groups
    if "most" not in spec:
        return float(1 - (1 - 1 / groups) ** (count - 1)) or 1.0
    return _counted(lambda others: binom.pmf(others, round(count) - 1, 1 / groups), count / groups, spec["most"])


def fewest_counted(spec: JsonObject, rows: int) -> float:
    """The smallest expected share of rows that count, where units have up to so many rows: all of them that many."""
    from scipy.stats import poisson

    if rows == 1 or spec["marginals"] is not None:
        return 1.0
    units = spec["group"] / rows
    return _counted(lambda others: poisson.pmf(others, units), units, spec["most"] / rows)


def _counted(law: Callable[[Floats], Floats], mean: float, most: float) -> float:
    others = np.arange(1, 50 + int(4 * mean), dtype=np.float64)
    return float((law(others) * np.minimum(1, most / (others + 1))).sum()) or 1.0


def allowance(level: float) -> float:
    """How many standard deviations of its noise are added to a released sum of squares, for intervals of this level.

    With v = max(0, squares + noise) + allowance std(noise), an interval that is right for chance of variance v misses
    normal chance, whose variance is the true sum of squares, with a probability of at most 1 - level, whatever that sum
    is (tests/unit/results/test_importance.py integrates it).
    """
    return max(3.0, -math.log(1 - level)) / 4


def square_unit(norm: str, features: int, limit: int, cap: int) -> int:
    """The most that the squares of a shrunk group's changes add up to; for the cube, each of them.

    No change is above `cap`, whatever the limit. With b = min(limit, cap) and M features: sum norm, sum v^2 <=
    b sum |v| <= b min(limit, M b). Euclidean, min(limit^2, M b^2). Largest, b^2.
    """
    b = min(limit, cap)
    if norm == "sum":
        return b * min(limit, features * b)
    return b * b if norm == "largest" else min(limit * limit, features * b * b)


def halfwidths(terms: Sequence[Term], chance: Floats, level: float) -> Floats:
    """`combined_halfwidth` for each standard deviation of chance. Where there are many, on the chords between a few of
    them: it is a convex function, so chords are never below it.
    """
    at = chance if len(chance) <= CURVE_POINTS else np.linspace(chance.min(), chance.max(), CURVE_POINTS)
    return np.interp(chance, *_sorted(at, np.array([combined_halfwidth(terms, float(c), level) for c in at])))


def _sorted(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    order = np.argsort(x)
    return x[order], y[order]


def histogram_errors(known: JsonObject, unsure: bool, level: float) -> Floats:
    """For each feature, how far importance can move because of the noise of histograms, as a share of the largest loss:
    the total variation distance between the drawn and the true distribution. `unsure`: their total is noisy too.
    """
    noise, each, off = Noise.from_json(known["noise"]), (1 + level) / 2, 0.0
    if unsure:  # the total is the mean of those of all histograms
        off = combined_halfwidth([(noise, np.full(noise.size, 1 / known["features"]))], 0.0, each)
    moved = np.array([sum_halfwidth(noise, int(cells), each) for cells in known["cells"]])
    return np.minimum((moved + off) / max(float(known["total"]), 1.0), 1.0)


def sum_halfwidth(noise: Noise, size: int, level: float) -> float:
    """h with P(|z_1| + ... + |z_size| <= h) >= level for so many coordinates of one noise vector, rounded outwards.

    Laplace: a sum of exponential numbers. Gaussian: at most sqrt(size) times the Euclidean norm. Cube: each is at most
    the radius.
    """
    tail, b = 1 - level, float(noise.scale)
    if noise.law is Law.LAPLACE:
        return b * float(gammainccinv(size, tail)) + size
    if noise.law is Law.GAUSSIAN:
        return b * float(np.sqrt(size * 2 * gammainccinv(size / 2, tail))) + size
    return size * noise.band(level)


def gap_halfwidth(noise: Noise, level: float) -> float:
    """h with P(|z_i - z_j| <= h) >= level for two coordinates of one noise vector, rounded outwards."""
    from scipy.optimize import brentq

    def missing(gap: float) -> float:
        return noise.below(gap) - (1 + level) / 2

    wide = 4.0 * noise.halfwidth((1 + level) / 2) + 4  # more than enough: two such halfwidths cover it
    return float(np.ceil(brentq(missing, 0.0, wide))) + 1
