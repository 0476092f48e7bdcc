"""Influences made better by synthetic rows: the prior of their sums, and the posterior.

What is released of a group (or of everybody) are sums over its rows of public functions of a row, and how many rows
there are: a = (s + z) / n', and the exact means m are off by (z - m y) / n' for the noise z of the sums and y of the
number of rows. Outcomes before and after an intervention are nearly the same ones, so synthetic rows say how these
means go together, and most of the noise in the *difference* of two of them is known not to be an influence. Influences,
rates and disparities are sums of the means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpexplain.core.domain import Domain
from dpexplain.core.noise import Noise, checked_level
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.maths.combined import Combined
from dpexplain.maths.grids import partition_of
from dpexplain.maths.posterior import DOMAIN_WORTH, FEWEST_ROWS, Prior, Sharpened, expected, sharpen
from dpexplain.maths.reference import Reference
from dpexplain.maths.trees import Joint
from dpexplain.methods.influence.disparity import Disparity
from dpexplain.methods.influence.spec import Spec, added, blocks_of, other_values
from dpexplain.methods.sharpening import DOMAIN, SEED, Source
from dpexplain.models import Predictor
from dpexplain.models.outcomes import Asker

Floats = NDArray[np.float64]

LEAST_MEMBERS = 50  # synthetic rows in each group; with fewer of them nothing is sharpened
DRAWS, QUESTIONS = 4, 256  # other values for each synthetic row, and questions about it where sets are asked for
SURE, LEAN = 1e5, 0.5  # for the values of a disparity: rows that synthetic ones can be worth, and how likely that is
FAR = 1.5  # standard deviations of the noise between a released influence and synthetic rows, where these may be wrong
NODES = 41  # of the normal law, in a forecast
FORECAST_CELLS = 10  # of a number, where a forecast takes other values from the domain
MOST_TIMES = 8  # as many synthetic rows as usual are drawn at most, to find some of a rare group


def suits(spec: Spec) -> bool:
    """Whether the sums of such a release are those of public functions, with noise of their own.

    Not where rows were chosen at random, which is chance that all sums share; not with the rates of a performance,
    whose noise is in them; and not in the published form.
    """
    return spec.method != "paper" and spec.rates is None and spec.one_in == 1


def by_default(spec: Spec) -> bool:
    """Whether values are sharpened without a stand-in, by the histograms of the release: where that was measured
    (`python -m bench posterior_influence`).
    """
    return suits(spec) and spec.plain and spec.quantity == "disparity"


def members(source: Source, rows: int, spec: Spec) -> tuple[list[Rows], list[float]] | None:
    """Synthetic rows of each group, and the share of all synthetic rows that are in the group; None where a group has
    too few. Of a single group at most `rows` of them; for a difference of two, which is small, more are needed.
    """
    size = rows if spec.blocks == 1 else MOST_TIMES * rows
    while True:
        drawn = source.draw(size)
        inside = blocks_of(drawn, spec)[: spec.blocks]
        if inside.sum(axis=1).min() >= rows // 4 or size >= MOST_TIMES * rows:
            break
        size = min(2 * size, MOST_TIMES * rows)
    if inside.sum(axis=1).min() < LEAST_MEMBERS:
        return None
    found = [drawn.take(np.flatnonzero(held)[: rows if spec.blocks == 1 else size]) for held in inside]
    return found, [float(share) for share in inside.mean(axis=1)]


def prior(predictor: Predictor, source: Source, rows: int, spec: Spec, known: Mapping[str, Reference]) -> Prior:
    """What synthetic rows say about the mean of what a row adds to each sum of its group, in parts of the range."""
    found = members(source, rows, spec)
    if found is None:
        raise ValueError("a group with too few synthetic rows")
    answers = [lines_of(predictor, mine, spec, known).T for mine in found[0]]
    return Prior.of_groups(answers, found[1], source.most, rows)


def lines_of(predictor: Predictor, rows: Rows, spec: Spec, known: Mapping[str, Reference]) -> Floats:
    """[row, line]: what each synthetic row adds to the sums of its group, in parts of the range."""
    public, tried = PublicRandom(SEED), _tried(spec, known)
    others = other_values(rows, public.generator.random, tried, known)
    return np.asarray(added(rows, Asker(predictor, spec.outcome), tried, *others) / spec.K)


def _tried(spec: Spec, known: Mapping[str, Reference]) -> Spec:
    """The spec with as many draws as synthetic rows need: there the mean over draws need not be exact."""
    if spec.samples is not None:
        return spec
    if not spec.single:
        return replace(spec, draws=min(spec.draws, max(1, QUESTIONS // max(spec.asked // spec.draws, 1))))
    few = tuple(name for name in spec.listed if len(known[name].points) <= DRAWS)
    return replace(spec, draws=min(spec.draws, DRAWS), listed=few)


def mix_of(spec: Spec) -> Floats:
    """[item, mean]: influences are its line, and the base where there is one; less those of others in a disparity."""
    items, x = len(spec.items), spec.base_weight
    each = np.zeros((items, spec.lines))
    each[np.arange(items), np.arange(items) + bool(x)] = 1.0
    if x:
        each[:, 0] = 1 / x
    return np.hstack([each, -each]) if spec.blocks == 2 else each


def forecast_prior(predictor: Predictor, domain: Domain, spec: Spec) -> Prior | None:
    """What rows drawn evenly from the domain say about the influences, in parts of the range: for a forecast, before
    there are histograms. None where a group has too few of them.
    """
    names = list(dict.fromkeys([*predictor.features, *spec.names, *(spec.group.columns if spec.group else [])]))
    joint = Joint.even(domain, names, [partition_of(name, domain[name], FORECAST_CELLS) for name in names])
    known = {
        cells.feature: Reference(domain[cells.feature], cells, shares)
        for cells, shares in zip(joint.partitions, joint.shares, strict=True)
    }
    source, tried = Source(joint, DOMAIN_WORTH, {"from": DOMAIN}), replace(spec, draws=DRAWS, listed=())
    if members(source, FEWEST_ROWS, tried) is None:
        return None
    means, mix = prior(predictor, source, FEWEST_ROWS, tried, known), mix_of(spec)
    factor = np.hstack([mix @ means.factor, mix * np.sqrt(means.rest)])
    return replace(means, means=mix @ means.means, factor=factor, rest=np.zeros(len(mix)))


def leaned(values: Floats, variances: Floats) -> Floats:
    """Nearer to zero by as much as is unsure: the positive part of James and Stein, for each value by itself."""
    return np.asarray(values * np.maximum(1 - variances / np.maximum(values**2, 1e-300), 0.0))


def leaning_error(prior: Prior, std: float, worth: float, level: float) -> float:
    """What this share of the values of a disparity will be within of the exact ones, where the noise of each influence
    has this standard deviation: of the middles of so many equal parts of the normal law, for the values and for what
    they are off by.
    """
    likely = expected(prior, np.full(prior.size, std**2), worth, width=2.0)
    nodes = ndtri((np.arange(NODES) + 0.5) / NODES)
    values = prior.means[:, None] + likely.moved[:, None] * nodes  # [item, node]
    kept = leaned(values, (likely.stds**2)[:, None])
    away = (kept - values)[:, :, None] + likely.stds[:, None, None] * nodes
    return float(np.quantile(np.abs(away), level))


@dataclass(frozen=True, eq=False)
class SharpInfluences:
    """The posterior of the means of all sums of a release.

    sums, counts  [block, line] in whole steps, and the rows of each block
    chance        [block, line]: the variance of each mean by what was drawn, in whole steps
    sampling      the standard deviation that orders which all rows share add to each influence
    """

    spec: Spec
    prior: Prior
    sums: Floats
    counts: Floats
    noise: Noise
    chance: Floats
    sampling: tuple[float, ...]

    @cached_property
    def _released(self) -> Floats:
        return np.asarray(self.sums / self.counts[:, None] / self.spec.K).ravel()

    @cached_property
    def posterior(self) -> Sharpened:
        """As for curves, means are taken as released for the noise of counts, and then as what comes out."""
        own = np.repeat((self.noise.std / self.counts / self.spec.K) ** 2, self.spec.lines)
        variances, width = own + self.chance.ravel() / self.spec.K**2, float(self._widths.max())
        if not self.spec.counts:
            return sharpen(self.prior, self._released, variances, width=width)
        first = sharpen(self.prior, self._released, variances, self._by_counts(self._released), width=width)
        return sharpen(self.prior, self._released, variances, self._by_counts(first.values), width=width)

    @property
    def _widths(self) -> Floats:
        """Of the range of each line of a block, in parts of the range of outcomes."""
        spec = self.spec
        beside = [weight for weight in (spec.base_weight, spec.outcome_weight) if weight]
        return np.array([*beside, *[1 if spec.plain else 2] * len(spec.items)], dtype=np.float64)

    def _by_counts(self, means: Floats) -> Floats:
        """[mean, count]: what one standard deviation of the noise of each count does to each released mean."""
        return self.noise.std * self._moved(means)[:, len(means) :]

    def _moved(self, means: Floats) -> Floats:
        """[mean, coordinate]: what one unit of noise of each released number does to each released mean."""
        spec, lines = self.spec, self.spec.lines
        own = np.diag(np.repeat(1 / self.counts / spec.K, lines))
        of_counts = np.zeros((len(means), spec.counts))
        for block, n in enumerate(self.counts):
            place = slice(block * lines, (block + 1) * lines)
            if spec.counts:  # with one count of two groups, what one of them has more the other has less
                less = 1 if spec.one_count and block == 1 else -1
                of_counts[place, 0 if spec.one_count else block] = less * means[place] / spec.count_weight / n
        return np.hstack([own, of_counts])

    def _combined(self, combine: Floats, offset: Floats | float, beside: Floats | float = 0.0) -> Combined:
        return Combined(self.posterior, self.noise, self._moved(self.posterior.values), combine, offset, beside)

    @cached_property
    def _mix(self) -> Floats:
        return mix_of(self.spec)

    @cached_property
    def influences(self) -> Combined:
        spec, width = self.spec, self.spec.outcome.range.width
        beside = np.array(self.sampling or np.zeros(len(spec.items))) ** 2
        if spec.blocks == 1:
            return self._combined(width * self._mix, spec.lift * spec.step, beside)
        moved = self._mix @ self._moved(self.posterior.values)
        return Combined(self.differences, self.noise, moved, width * np.eye(len(spec.items)), 0.0, beside)

    @cached_property
    def values(self) -> Floats:
        """Of a disparity nearer to what synthetic rows say than the middle of the interval, where the release says
        little, and nearer to zero by as much as is unsure: so that the error is hardly ever above that of these rows
        alone, or of saying zero.
        """
        if self.spec.blocks == 1:
            return self.influences.values
        likely = self._differences(SURE, LEAN)
        return np.asarray(self.spec.outcome.range.width * leaned(likely.values, likely.variances))

    @cached_property
    def differences(self) -> Sharpened:
        """The posterior of what inputs do to a disparity, by themselves.

        Noise in the histograms that synthetic rows come from moves both groups alike. So it is no reason to trust these
        rows less in how groups differ, and the end of what they can be worth is their number.
        """
        return self._differences(float(self.prior.rows), 0.0)

    def _differences(self, most: float, lean: float) -> Sharpened:
        spec, mix, lines = self.spec, self._mix, self.spec.lines
        items = np.zeros(spec.blocks * lines, dtype=bool)
        first = int(bool(spec.base_weight))
        for block in range(spec.blocks):
            items[block * lines + first : block * lines + first + len(spec.items)] = True
        own = (self.noise.std * self._moved(self.posterior.values)[:, : len(items)].diagonal()) ** 2
        own = own + self.chance.ravel() / spec.K**2
        shared = [mix[:, ~items] * np.sqrt(own[~items]), mix @ self._by_counts(self.posterior.values)]
        prior = self.prior
        factor = np.hstack([mix @ prior.factor, mix[:, ~items] * np.sqrt(prior.rest[~items])])
        rest = mix[:, items] ** 2 @ prior.rest[items]
        # that few synthetic rows were drawn is in their means: what it can explain is taken off
        means, drawn = mix @ prior.means, ((factor**2).sum(axis=1) + rest) / (MOST_TIMES * prior.rows)
        means = means * np.maximum(1 - drawn / np.maximum(means**2, 1e-300), 0.0)
        mine = Prior(means, factor, rest, most, prior.rows)
        released, variances = mix @ self._released, mix[:, items] ** 2 @ own[items]
        return sharpen(mine, released, variances, np.hstack(shared), width=2.0, lean=lean)

    @property
    def contradicts(self) -> bool:
        return self.posterior.contradicts or (self.spec.blocks == 2 and self.differences.contradicts)

    @cached_property
    def far(self) -> NDArray[np.bool_]:
        """The influences of which the release says something else than the synthetic rows. That these rows are right
        about other ones is no reason to trust them here: a large influence through columns that go together, among many
        small ones, would be pulled out of its interval.
        """
        mix = self._mix
        noise = self.noise.std**2 * ((mix @ self._moved(self.posterior.values)) ** 2).sum(axis=1)
        variances = noise + mix**2 @ self.chance.ravel() / self.spec.K**2
        return np.asarray(np.abs(mix @ (self._released - self.prior.means)) > FAR * np.sqrt(variances))

    def interval(self, level: float) -> tuple[Floats, Floats]:
        half = self.influences.halfwidths(checked_level(level)) + self.spec.step
        low, high = self.influences.values - half, self.influences.values + half
        return np.minimum(low, self.values), np.maximum(high, self.values)

    @cached_property
    def rates(self) -> Combined:
        """Of the group and of all others, and their difference."""
        spec, width = self.spec, self.spec.outcome.range.width
        weight = spec.outcome_weight or spec.base_weight
        combine = np.zeros((3, 2 * spec.lines))
        for block in range(2):
            combine[block, (block + 1) * spec.lines - 1 if spec.outcome_weight else block * spec.lines] = width / weight
        combine[2] = combine[0] - combine[1]
        middle = spec.outcome.range.middle
        return self._combined(combine, np.array([middle, middle, 0.0]))


@dataclass(frozen=True, eq=False)
class SharpDisparity(Disparity):
    """The rates by the posterior of a release; `released` are those of the release alone."""

    sharp: SharpInfluences
    released: Disparity

    @property
    def conclusive(self) -> bool:
        return self.released.conclusive

    @cached_property
    def rates(self) -> Floats:
        return np.clip(self.sharp.rates.values[:2], self.output.low, self.output.high)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        half, (low, high) = self._half(level)[:2], (self.output.low, self.output.high)
        ends = [np.clip(self.rates + sign * half, low, high) for sign in (-1, 1)]
        return self._with_released(ends, self.released.interval(level))

    def _half(self, level: float) -> Floats:
        return self.sharp.rates.halfwidths(checked_level(level)) + self.spec.step

    def _with_released(self, likely: list[Floats], proven: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        if not self.sharp.posterior.contradicts:
            return likely[0], likely[1]
        return np.minimum(likely[0], proven[0]), np.maximum(likely[1], proven[1])

    @property
    def difference(self) -> float:
        return float(self.rates[0] - self.rates[1])

    def difference_interval(self, level: float = 0.95) -> tuple[float, float]:
        width, half = self.output.width, self._half(level)[2]
        ends = [np.array([np.clip(self.difference + sign * half, -width, width)]) for sign in (-1, 1)]
        proven = self.released.difference_interval(level)
        low, high = self._with_released(ends, (np.array([proven[0]]), np.array([proven[1]])))
        return float(low[0]), float(high[0])

    @property
    def ratio(self) -> float | None:
        return None if self.ratio_interval() is None else float(self.rates[0] / self.rates[1])

    def ratio_interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """By the intervals of both rates, each missing with half the probability. Joint normal draws of both held 0.90
        of the ratios that `bench posterior_influence` tried.
        """
        low, high = self.interval((1 + checked_level(level)) / 2)
        if self.output.low < 0 or low[1] <= 0:
            return None
        return float(low[0] / high[1]), float(high[0] / low[1])
