"""Importances made better by synthetic rows: the prior of limited changes, and the posterior.

What is released is the mean over groups of rows of a public function of a group: its changes, shrunk to the limit that
was chosen. So synthetic rows, dealt to groups of the same size and shrunk to the same limit, say where such means lie
and how they go together. Their target is drawn from the model: a class by the probability that the model gives, a
number around what it says, as far as the released mean loss says. A stand-in's own target would not do: the weak ties
between target and prediction, which importance is about, are what it loses.

What the limit cuts off is no released number. Synthetic groups say how much it is and how it goes with what is left:
with m the posterior of limited means, r what is cut off, u and C the means and covariances over synthetic groups,

    E[r] = u_r + B (m - u_q),   B = C_rq C_qq^-1        whose own variance is (C_rr - B C_qr) / worth

and importances are m + E[r]. How large a part is cut off is what synthetic groups know least: half of it is allowed
for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Noise
from dpexplain.core.sensitivity import Assignment
from dpexplain.data.assignment import TAGS
from dpexplain.data.dealing import Dealt
from dpexplain.data.donors import by_feature, by_group
from dpexplain.data.public_random import Generator, PublicRandom
from dpexplain.maths.combined import Combined
from dpexplain.maths.posterior import Prior, Sharpened, sharpen
from dpexplain.maths.reference import Reference
from dpexplain.methods.permutation_importance.spec import Integers, Spec, changes, norms_of, shrunk
from dpexplain.methods.sharpening import SEED, Source
from dpexplain.methods.targets import with_likely_target
from dpexplain.models import Predictor

Floats = NDArray[np.float64]

UNSURE = 0.5  # of what the limit is thought to cut off
RIDGE = 1e-3  # of the mean variance of limited changes, in their regression


def prior(
    predictor: Predictor,
    source: Source,
    rows: int,
    spec: Spec,
    limit: int,
    spread: float,
    known: Mapping[str, Reference] | None,
) -> Prior:
    """What synthetic groups say about the mean, for each row, of limited changes and of what was cut off, in whole
    losses.

    spread  of a number around what the model says, as a standard deviation
    known   the histograms that other values were drawn from; None: from other rows
    """
    draw, output = PublicRandom(SEED).generator, spec.loss.output
    assert output is not None
    drawn = with_likely_target(source.draw(rows), spec.target, spec.target_values, predictor, output, draw, spread)
    if known is not None:
        batch, groups = by_feature(drawn, known, spec.draws, draw.random), rows
    else:
        groups = spec.groups(rows)
        tags = dealt_by(spec, rows, draw)
        batch = by_group(Dealt.of(drawn, tags, groups, draw.random(rows)), spec.features, spec.draws, spec.most)
    moved = changes(batch, predictor, spec)[0]
    kept = shrunk(moved, norms_of(moved, spec.norm), limit, spec.norm)
    each = len(moved) / (rows * spec.company(rows, groups) * spec.loss.range.levels)
    answers = np.hstack([kept, moved - kept]).T * each
    return Prior.of_groups([answers], [groups / rows], source.most, rows)


def dealt_by(spec: Spec, rows: int, draw: Generator) -> Integers:
    """Public tags by which rows are dealt as those of the table were: evenly, or each by itself."""
    if spec.assignment is Assignment.POSITION:
        return np.arange(rows, dtype=np.int64)
    return np.asarray(draw.integers(TAGS // 2**8, size=rows))


def spread_of(loss: str, base: float) -> float:
    """The standard deviation of normal residuals with this mean loss; zero where the loss is about what happened."""
    if loss == "squared":
        return float(np.sqrt(max(base, 0.0)))
    return float(max(base, 0.0) * np.sqrt(np.pi / 2)) if loss == "absolute" else 0.0


def with_output(spec: Spec, output: PublicRange) -> Spec:
    """The spec of a file, which does not say in what range predictions lie."""
    return replace(spec, loss=replace(spec.loss, output=output))


@dataclass(frozen=True, eq=False)
class SharpImportances:
    """The posterior of all changes of a release.

    released   the mean limited change for each row, in whole losses
    unit       what one step of noise does to it
    chance     the variance by which values each row met
    of_count   what one standard deviation of the noisy number of rows does to each of them, as a share of it
    width      of the range of a loss
    """

    prior: Prior
    released: Floats
    noise: Noise
    unit: float
    chance: Floats
    of_count: float
    width: float

    @cached_property
    def _limited(self) -> Prior:
        M = len(self.released)
        return replace(self.prior, means=self.prior.means[:M], factor=self.prior.factor[:M], rest=self.prior.rest[:M])

    @cached_property
    def posterior(self) -> Sharpened:
        variances = (self.noise.std * self.unit) ** 2 + self.chance
        shared = self.of_count * self.released if self.of_count else None
        return sharpen(self._limited, self.released, variances, shared, width=1.0)

    @cached_property
    def scores(self) -> Combined:
        """The importances, in the units of the loss."""
        M, C = len(self.released), self.prior.covariance()
        own = C[:M, :M] + RIDGE * float(np.trace(C[:M, :M])) / M * np.eye(M) + 1e-300 * np.eye(M)
        slope = np.linalg.solve(own, C[:M, M:]).T
        left = np.maximum(np.diag(C[M:, M:] - slope @ C[:M, M:]), 0.0) / self.posterior.worth
        start = self.prior.means[M:] - slope @ self.prior.means[:M]
        cut = start + slope @ self.posterior.values
        beside = self.width**2 * (left + (UNSURE * cut) ** 2)
        mix, moved = self.width * (np.eye(M) + slope), self.unit * np.eye(M)
        return Combined(self.posterior, self.noise, moved, mix, self.width * start, beside)

    def above_next(self, order: Sequence[int]) -> Floats:
        """For each item of an order but the last, the probability that it truly stands above the next one."""
        spread = self.scores.mix @ self.posterior.root
        first, second = list(order[:-1]), list(order[1:])
        beside = np.broadcast_to(np.asarray(self.scores.beside), len(order))
        variances = ((spread[first] - spread[second]) ** 2).sum(axis=1) + beside[first] + beside[second]
        gaps = self.scores.values[first] - self.scores.values[second]
        return np.asarray(ndtr(gaps / np.sqrt(np.maximum(variances, 1e-300))))
