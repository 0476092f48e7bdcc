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
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import domain_from_json
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Noise, checked_level
from dpexplain.maths.laws import below
from dpexplain.maths.means import Means
from dpexplain.maths.tails import Term, combined_halfwidth
from dpexplain.methods.histogram import references
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.permutation_importance.sharp import SharpImportances, prior, spread_of, with_output
from dpexplain.methods.permutation_importance.spec import SQUARE_LEVELS, Spec
from dpexplain.methods.rankings import Ranking
from dpexplain.methods.result import Floats
from dpexplain.methods.sharpened import SharpenedResult
from dpexplain.methods.sharpening import Ask, Sharpening
from dpexplain.receipts import Receipt

QUANTITIES = {
    "squared": "increase of the squared error",
    "absolute": "increase of the absolute error",
    "log": "increase of the log loss",
    "accuracy": "loss of accuracy",
}
CURVE_POINTS = 16  # at which half-widths are computed where there are more features
TAILS = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.06, 0.04, 0.02, 0.01, 0.002, 1e-4])


@dataclass(frozen=True)
class Importance(Ranking, SharpenedResult):
    """Features by importance. Where the release has a prior (`sharpening`), `values`, `interval` and the order are what
    is likely given all that was released and what the model says about synthetic rows; `raw` and `proven_interval` are
    those of the release alone, in the same order. `base` is the mean loss as the rows are, `errors` the one with each
    feature replaced.

    Where the changes of a row (or of a group of rows) were limited to a total of `limit`, scores are those of the
    limited changes: the order is little touched, but large changes are understated. Intervals cover the importance
    without a limit.
    """

    sharpening: Sharpening | None = None
    known: Marginals | None = field(default=None, compare=False, repr=False)  # what was handed over, not in files

    kind: ClassVar[str] = "permutation-importance"
    spec_type: ClassVar[type[Spec]] = Spec

    def __post_init__(self) -> None:
        self.promise_with([] if self.sharpening is None else self.sharpening.paid_before)

    @property
    def quantity(self) -> str:  # type: ignore[override]
        return QUANTITIES[self.spec.loss.name]

    @property
    def possible(self) -> tuple[float, float]:
        return -self.losses.width, self.losses.width

    @property
    def title(self) -> str:
        return f"Permutation importance for {self.receipt.called(self.spec.target)}"

    @property
    def candidates(self) -> tuple[str, ...]:
        features: tuple[str, ...] = self.spec.features
        return features

    @property
    def source(self) -> str:
        """Where the values came from that took the place of a row's own."""
        if self.spec.paper:
            return "one permutation of each column"
        if self._bought:
            return "histograms that were released for this"
        return "histograms that were released before" if self.spec.drawn else "other rows, in small groups"

    @property
    def interval_about(self) -> str:
        alone = self.spec.paper or not self._complete
        return "privacy noise" if alone else "privacy noise, and chance in the replacements"

    @property
    def caveat(self) -> str:
        said = f"Replacements came from {self.source}. "
        if self.spec.paper:
            return f"{said}Intervals are about that permutation; they leave out how another one would differ."
        if not self._complete:
            return f"{said}Intervals show noise alone: they leave out what the limit cut off, and chance."
        parts = ["noise", "chance in the replacements"]
        if self._limited:
            who = "a row" if self.spec.drawn else "a group of rows"
            said += f"Large changes are limited to a total of {self.limit:.3g} for {who}. "
            parts.append("the most that this limit can have cut off")
        if self.spec.drawn:
            parts.append("the noise of the histograms")
        *most, last = parts
        contained = (
            f"Intervals are about the importance without a limit and allow for {', '.join(most)} and {last}. "
            "Probabilities that a column stands above the next are lower bounds."
        )
        if self.spec.drawn:
            return f"{said}{contained} They leave out that values inside a cell are blurred."
        if self.receipt.neighbours.rows > 1:
            said += (
                "Rows of units with few rows count more: where units have very different numbers of rows, importances "
                "can be off by up to a quarter. "
            )
        return said + contained

    @property
    def _complete(self) -> bool:
        """Whether what intervals need was released; earlier versions did not."""
        return "squares" in self.released["parts"]

    @property
    def _limited(self) -> bool:
        """Whether the limit can have cut something off."""
        return bool(self._complete and self._limit_steps < self.spec.top)

    @cached_property
    def marginals(self) -> Marginals | None:
        """The histograms that a part of the cost bought, as in earlier versions; or that were handed over, where they
        are at hand.
        """
        return Marginals(self.receipt, self.released) if self._bought else self.known

    @property
    def _bought(self) -> bool:
        return bool(self.receipt.request["spec"].get("partitions"))

    @property
    def losses(self) -> PublicRange:
        """The public range of one row's loss."""
        losses: PublicRange = self.spec.loss.range
        return losses

    @property
    def limit(self) -> float | None:
        """The most that the losses of a row, or of a group of rows, could change in all; None: nothing was limited."""
        return None if self.spec.paper else self._limit_steps * self._step

    @property
    def _limit_steps(self) -> int:
        limits: tuple[int, ...] = self.spec.limits
        chosen = int(self.released["parts"]["limit"]["values"][0]) if len(limits) > 1 else 0
        if not 0 <= chosen < len(limits):
            raise ValueError("no limit of this number")
        return limits[chosen]

    @property
    def _step(self) -> float:
        """One quantised step of a loss, in the units of the loss."""
        return self.losses.width / self.losses.levels

    @cached_property
    def _base(self) -> Means:
        """The mean loss as the rows are; in the published form it stands behind the errors."""
        sums, noise = self.part("errors" if self.spec.paper else "base")
        place = slice(len(sums) - 1, None) if self.spec.paper else slice(0, 1)
        return Means(sums, noise, self.losses, self.spec.count_weight, self.receipt.request["table"]["rows"], place)

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
        sums, noise = self.part("errors" if self.spec.paper else "changes")
        scores = sums[:-1] - sums[-1] if self.spec.paper else sums
        return scores.astype(np.float64), noise

    @cached_property
    def scores(self) -> Floats:
        if self._sharp is None:
            return self.released_scores
        return np.clip(self._sharp.scores.values, *self.possible)

    @cached_property
    def released_scores(self) -> Floats:
        """The released importance of each candidate, in their public order."""
        sums, unit = self._sums[0], self.gap_noise[1]
        return sums * unit

    @property
    def raw(self) -> Floats:
        return self.released_scores[self.order]

    def proven_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) by what was released alone, in the order of `values`."""
        low, high = self.proven_score_interval(level)
        return low[self.order], high[self.order]

    def determined(self, level: float = 0.95) -> NDArray[np.bool_]:
        return self.leaves_out(*self.proven_interval(level))

    def columns_beside(self) -> dict[str, Floats]:
        if self._sharp is None:
            return {}
        low, high = self.proven_interval()
        return {"released": self.raw, "proven low": low, "proven high": high}

    @cached_property
    def gap_noise(self) -> tuple[Noise, float]:
        return self._sums[1], self._step / (self.count * self.spec.company(self.count))

    def score_interval(self, level: float) -> tuple[Floats, Floats]:
        proven = self.proven_score_interval(level)
        if self._sharp is None:
            return proven
        scores = self._sharp.scores
        half = scores.halfwidths(checked_level(level)) + self._rounding * self.gap_noise[1]
        low, high = (np.clip(scores.values + sign * half, *self.possible) for sign in (-1, 1))
        return self.wide_enough((low, high), proven)

    def proven_score_interval(self, level: float) -> tuple[Floats, Floats]:
        """(low, high) around the importance of each candidate by what was released alone, in their public order."""
        level, sums, spec = checked_level(level), self._sums[0], self.spec
        parts = 1 + bool(spec.count_weight) + (spec.histograms is not None)
        each = 1 - (1 - level) / parts  # each part of an interval misses with the same probability
        few, many = self._counts(each)
        if few <= 0 or (self._complete and self._groups < 2):
            whole = np.full(len(sums), self.losses.width)
            return -whole, whole
        half, ends = self._half(each), []
        for sign in (-1, 1):
            edge = (sums + sign * half) * self._step
            # extreme at the smaller count where it moves away from zero
            end = edge / np.where(sign * edge > 0, few, many) + sign * self._histogram_error(each)
            ends.append(np.clip(end, -self.losses.width, self.losses.width))
        return ends[0], ends[1]

    def _half(self, level: float) -> Floats:
        """How far the sums may lie from those without limit, noise and chance."""
        sums, noise = self._sums
        if self.spec.paper or not self._complete:
            return np.full(len(sums), gap_halfwidth(noise, level) if self.spec.paper else noise.halfwidth(level))
        return self._cut + self._rounding + halfwidths([(noise, [1.0]), *self._cut_noise], self._chance(level), level)

    @property
    def _rounding(self) -> float:
        """The mean of several changes of a row is rounded toward zero."""
        return self.count if self.spec.draws > 1 else 0.0

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
        return int(self.spec.groups(self.count))

    def _chance(self, level: float) -> Floats:
        """The standard deviation of each sum by chance and that of what was cut off, added up; for intervals of this
        level.
        """
        values, noise = self.part("squares")
        hidden, groups = allowance(level), self._groups
        unit = self.spec.square_unit(self._limit_steps) / SQUARE_LEVELS
        squares = (np.maximum(values, 0) + hidden * noise.std + groups) * unit  # each group's were rounded down
        cut = self.spec.cap * (self._cut + sum(hidden * law.std for law, _ in self._cut_noise))
        return np.asarray((np.sqrt(squares) + np.sqrt(cut)) * np.sqrt(groups / max(groups - 1, 1)))

    def _counts(self, level: float) -> tuple[float, float]:
        """The smallest and the largest number of rows whose changes count, where it is noisy or depends on chance."""
        spec, count = self.spec, self.count
        unsure = self._base.noise.halfwidth(level) / spec.count_weight if spec.count_weight else 0.0
        few, many = count - unsure, count + unsure
        if few <= 0 or not self._complete:
            return few * spec.company(count), many * spec.company(count)
        least = spec.fewest_counted(self.receipt.neighbours.rows)
        return few * spec.company(few, self._groups) * least, many * spec.company(many, self._groups)

    def _histogram_error(self, level: float) -> Floats:
        """How far noise in the histograms can move each importance."""
        if self.spec.histograms is None:
            return np.zeros(len(self.candidates))
        errors: Floats = self.spec.histograms.errors(level, unsure=bool(self.spec.count_weight))
        return errors * self.losses.width

    @cached_property
    def order_probability(self) -> Floats:
        """For each item but the last, a lower bound of the probability that it truly stands above the next one, if
        nothing else is known about the two; at least one half. Where values are sharpened, the probability itself, by
        what they rest on.

        Not more than their gap less what the limit can have cut off counts, against the noise and chance of both.
        """
        if self.spec.paper or not self._complete:
            return super().order_probability
        if self._sharp is not None and not self.contradicts:
            return self._sharp.above_next(self.order)
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

    # Sharpening -------------------------------------------------------------------------------------------------------

    @cached_property
    def _sharp(self) -> SharpImportances | None:
        known, (sums, noise) = self.sharpening, self._sums
        if known is None:
            return None
        if known.part is not None or known.prior.size != 2 * len(sums) or self.spec.paper or not self._complete:
            raise ValueError("the prior is that of other numbers")
        if not self._base.counted_surely or self._groups < 2:
            return None
        unit = self.gap_noise[1] / self.losses.width
        squares = self.spec.square_unit(self._limit_steps) / SQUARE_LEVELS * np.maximum(self.part("squares")[0], 0)
        return SharpImportances(
            known.prior,
            sums * unit,
            noise,
            unit,
            chance=(squares + self._groups) * unit**2,
            of_count=self._base.noise.std / (self.spec.count_weight * self.count) if self.spec.count_weight else 0.0,
            width=self.losses.width,
        )

    @property
    def rows_counted(self) -> float:
        return self.count

    @property
    def _needed(self) -> list[str]:
        return list(self.candidates)

    @property
    def _ask(self) -> Ask:
        output, known = PublicRange.from_json(self.receipt.request["model"]["output"]), None
        if self.spec.drawn:
            if self.marginals is None or self.receipt.domain is None:
                raise ValueError("the marginals of these importances are missing")
            known = references(self.spec.features, self.marginals, domain_from_json(self.receipt.domain))
        spread = spread_of(self.spec.loss.name, self.base)
        spec, limit = with_output(self.spec, output), self._limit_steps
        return partial(prior, spec=spec, limit=limit, spread=spread, known=known)

    @property
    def earlier_marginals(self) -> str | None:
        marginals: str | None = self.spec.marginals
        return marginals

    # Files ------------------------------------------------------------------------------------------------------------

    def view(self) -> JsonObject:
        return self.prior_view

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Importance:
        if set(view) - {"sharpening"}:
            raise ValueError("no view of an importance")
        found = cls(receipt, released, Sharpening.from_json(view.get("sharpening")))
        found.check()
        return found

    def check(self) -> None:
        sizes = len(self.candidates), len(self.scores)
        if not 0 < sizes[0] == sizes[1] or not np.isfinite([self.base, self.limit or 0]).all():
            raise ValueError("the features do not fit the released values")
        super().check()
        self.base_interval()
        if self._bought and self.marginals is not None:
            Marginals.rebuild(self.receipt, self.released, {})
            if self.marginals.features != list(self.candidates) or self.spec.drawn:
                raise ValueError("the histograms do not fit the features")


def allowance(level: float) -> float:
    """How many standard deviations of its noise are added to a released sum of squares, for intervals of this level.

    With v = max(0, squares + noise) + allowance std(noise), an interval that is right for chance of variance v misses
    normal chance, whose variance is the true sum of squares, with a probability of at most 1 - level, whatever that sum
    is (tests/unit/methods/permutation_importance/test_result.py integrates it).
    """
    return max(3.0, -math.log(1 - level)) / 4


def halfwidths(terms: Sequence[Term], chance: Floats, level: float) -> Floats:
    """`combined_halfwidth` for each standard deviation of chance. Where there are many, on the chords between a few of
    them: it is a convex function, so chords are never below it.
    """
    if not len(chance):  # an order of one item has no neighbours
        return chance
    at = chance if len(chance) <= CURVE_POINTS else np.linspace(chance.min(), chance.max(), CURVE_POINTS)
    return np.interp(chance, *_sorted(at, np.array([combined_halfwidth(terms, float(c), level) for c in at])))


def _sorted(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    order = np.argsort(x)
    return x[order], y[order]


def gap_halfwidth(noise: Noise, level: float) -> float:
    """h with P(|z_i - z_j| <= h) >= level for two coordinates of one noise vector, rounded outwards."""
    from scipy.optimize import brentq

    def missing(gap: float) -> float:
        return below(noise, gap) - (1 + level) / 2

    wide = 4.0 * noise.halfwidth((1 + level) / 2) + 4  # more than enough: two such halfwidths cover it
    return float(np.ceil(brentq(missing, 0.0, wide))) + 1
