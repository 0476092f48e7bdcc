"""Released numbers made better by what is public about them: a prior from synthetic rows, and the posterior.

A model is a public function, so a released mean of it, a = E_P[q] + noise, is the mean of a public function q of a row.
Synthetic rows (a stand-in for the table) say what such means may be: u = mean of q over them, and how they go together:
C = covariance of q over them. If the stand-in were l independent rows of the table, E_P[q] would lie around u with
covariance C / l; l is *how many rows the stand-in is worth*. Nobody knows it, so it is integrated over, between
LEAST_WORTH and what the stand-in's own noise allows: evenly in log l from 1 on, less likely below. A stand-in may also
be wrong in ways that its rows do not show, in one direction or in all (a model that is flat on synthetic rows, columns
that go together): in each eigenvector of S^-1/2 C S^-1/2, S being the covariance of the noise, a share t of the noise
is added, in most of them none, in some any. With k = (eigenvalue / l) + t, and z what was released less u, both in
units of the noise,

    mean of the posterior  k / (k + 1) z            its variance  k / (k + 1)

along an eigenvector, mixed over t by how well each explains z; and over l, and over how many eigenvectors are off at
all, by how well these explain all of them together.

What the intervals say. The noise has a known law, which need not be normal: its part of the error, gain times noise, is
taken with that law; the rest is taken as normal. They cover the exact value where the table is like a draw from the
prior for some (l, t); unlike the proven interval of a release, which needs nothing, that is an assumption. Coverage is
measured in `python -m bench posterior` and tested on tables whose columns go together.

Everything here is computed from released numbers, public functions and public draws. No row enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.special import logsumexp, softmax

Floats = NDArray[np.float64]

EVEN = 0.1  # of the values of synthetic rows are drawn evenly from the domain: no direction is without variance
FEWEST_ROWS, MOST_ROWS, USUAL_ROWS = 500, 3_000, 1_000  # synthetic rows: a tenth of the table's, within these
LEAST_WORTH, DOMAIN_WORTH, WORTHS = 0.1, 10.0, 24  # rows: ends for a stand-in that knows nothing; steps between them
LOW_WORTH = 2.0  # a worth l below 1 (means farther off than rows differ) is as likely as l to this power
# shares of the noise that a prior may be off by, and how likely each is beforehand, for one axis, and for all of them
# together (`maths/weights.py`): in the end, by anything
OFF = np.array([0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0, 1e2, 1e3, 1e4, 1e6])
OFF_WEIGHTS = np.array([0.65, 0.05, 0.05, 0.05, 0.05, 0.05, 0.03, 0.03, 0.02, 0.01, 0.01])
WRONG = np.array([0.003, 0.03, 0.2, 0.6])  # shares of the axes that are off at all, and how likely each is beforehand:
MANY_WRONG, FEW_WRONG, FEW = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4]), 8  # for many axes, for few
MOST_EXPECTED = 1.0  # share of the noise that a forecast expects a prior to be off by
WILD = 100.0  # an axis that is off by so many variances of the noise contradicts the prior
USUAL_OFF = 0.1  # of the range of the numbers: where noise is larger, shares are of the square of this instead
# of a prior that is written down: columns, share of the variance, digits. What is not kept counts as noise of each
# number by itself, which is not smoothed away; so next to nothing may be left out (docs/methods/posterior.md)
MOST_FACTORS, KEPT, DIGITS = 32, 1 - 1e-9, 6
CONTRADICTION = 0.5  # of the weight at a stand-in that is worth next to nothing


def rows_for(rows: int | None) -> int:
    """How many synthetic rows to ask a model about, beside a table of so many (None: nobody knows)."""
    return USUAL_ROWS if rows is None else max(FEWEST_ROWS, min(rows // 10, MOST_ROWS))


@dataclass(frozen=True, eq=False)
class Prior:
    """What synthetic rows say about some means: where they lie, and how they move together.

    The covariance C is factor factor^T plus a diagonal. It has few digits and columns, because it is written into
    files and into the ledger; what is used is what is written.
    """

    means: Floats
    factor: Floats
    rest: Floats  # never negative
    most: float  # rows that the stand-in can be worth
    rows: int  # synthetic rows that it was made of

    @classmethod
    def of_answers(cls, answers: Floats, most: float, rows: int | None = None, factors: int = MOST_FACTORS) -> Prior:
        """From the answers to each question (a line) for each synthetic row (a column)."""
        rows, means = rows or answers.shape[1], answers.mean(axis=1)
        away = (answers - means[:, None]) / np.sqrt(max(answers.shape[1] - 1, 1))
        factor, sizes, _ = np.linalg.svd(away, full_matrices=False)
        share = np.cumsum(sizes**2) / max(float((sizes**2).sum()), 1e-300)
        kept = min(int(np.searchsorted(share, KEPT)) + 1, factors, len(sizes))
        columns = factor[:, :kept] * sizes[:kept]
        rest = np.maximum((away**2).sum(axis=1) - (columns**2).sum(axis=1), 0.0)
        worth = min(max(float(most), 3 * LEAST_WORTH), float(rows))
        return cls(_rounded(means), _rounded(columns), _rounded(rest), float(_rounded(np.array(worth))), rows)

    @classmethod
    def of_groups(cls, answers: Sequence[Floats], shares: Sequence[float], most: float, rows: int) -> Prior:
        """Of the means over each of some groups of rows, one group after the other.

        answers  of the synthetic rows of each group: a line for each question
        shares   of all synthetic rows that are in the group. If the stand-in is worth l rows of the table, its part in
                 the group is worth share l rows of the group; groups know nothing of each other
        """
        parts = [cls.of_answers(mine, most, rows, MOST_FACTORS // len(answers)) for mine in answers]
        factor = block_diag(*(part.factor / np.sqrt(share) for part, share in zip(parts, shares, strict=True)))
        rest = np.concatenate([part.rest / share for part, share in zip(parts, shares, strict=True)])
        means = np.concatenate([part.means for part in parts])
        return cls(means, _rounded(np.asarray(factor)), _rounded(rest), parts[0].most, rows)

    def with_means(self, means: Floats) -> Prior:
        """The prior around other means."""
        return replace(self, means=_rounded(means))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prior) and self.numbers() == other.numbers()

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    @property
    def size(self) -> int:
        return len(self.means)

    def numbers(self) -> list[float]:
        """All of it in one list, for the ledger."""
        flat = np.concatenate([[self.size, self.rows, self.most], self.means, self.rest, self.factor.ravel()])
        return [float(x) for x in flat]

    @classmethod
    def of_numbers(cls, numbers: list[float]) -> Prior:
        """What `numbers` wrote; ValueError for anything else."""
        flat = np.array(numbers, dtype=np.float64)
        if len(flat) < 3 or not np.isfinite(flat).all():
            raise ValueError("no prior of ours")
        size, rows, most = int(flat[0]), int(flat[1]), float(flat[2])
        if not 1 <= size <= len(flat) or (len(flat) - 3) % size or not (len(flat) - 3) // size >= 2:
            raise ValueError("no prior of ours")
        means, rest, factor = flat[3 : 3 + size], flat[3 + size : 3 + 2 * size], flat[3 + 2 * size :]
        if (rest < 0).any() or not LEAST_WORTH < most <= rows or factor.size > size * MOST_FACTORS:
            raise ValueError("no prior of ours")
        return cls(means, factor.reshape(size, -1), rest, most, rows)

    def covariance(self) -> Floats:
        return np.asarray(self.factor @ self.factor.T + np.diag(self.rest))


def _rounded(values: Floats) -> Floats:
    """A few significant digits: those that a table of a billion rows could need are not in synthetic rows."""
    size = np.where(values == 0, 1.0, np.abs(values))
    steps = 10.0 ** (DIGITS - 1 - np.floor(np.log10(size)))
    return np.asarray(np.round(values * steps) / steps)


@dataclass(frozen=True, eq=False)
class Sharpened:
    """The posterior of the means: `values = prior means + gain (released - prior means)`.

    root   covariance = root root^T
    worth  rows that the stand-in turned out to be worth, by what was released (the middle in log l)
    doubt  weight of a stand-in that is worth next to nothing, or far off in some direction
    """

    values: Floats
    gain: Floats
    root: Floats
    worth: float
    doubt: float

    @cached_property
    def variances(self) -> Floats:
        return np.asarray((self.root**2).sum(axis=1))

    @property
    def contradicts(self) -> bool:
        """Whether what was released and the stand-in do not agree."""
        return self.doubt > CONTRADICTION


def wrong_weights(size: int) -> Floats:
    """How likely each of `WRONG` is beforehand: few numbers cannot tell, so that more has to be feared."""
    share = np.exp(-size / FEW)
    return np.asarray(share * FEW_WRONG + (1 - share) * MANY_WRONG)


def shares_off(width: float, variances: Floats) -> Floats:
    """By how many variances of the noise a prior may be off along an axis: by no more than the range."""
    most = width**2 / float(variances.mean())
    return np.minimum(OFF * min(1.0, USUAL_OFF**2 * most), most)


@dataclass(frozen=True, eq=False)
class Expected:
    """What `sharpen` will do, to be expected beforehand.

    root   of the covariance of the errors that it leaves
    moved  the standard deviation of each value around the prior mean
    """

    root: Floats
    moved: Floats

    @property
    def stds(self) -> Floats:
        """The standard deviation of each error."""
        return np.asarray(np.sqrt((self.root**2).sum(axis=1)))


def expected(prior: Prior, variances: Floats, worth: float, *, width: float) -> Expected:
    """If synthetic rows are worth so many rows, and off along an axis as often as is likely beforehand, by no more than
    the noise (`MOST_EXPECTED`; more is feared in intervals, not expected). Without that, a forecast where the model
    hardly varies would be of no error at all.
    """
    noise = np.sqrt(variances)
    spread, axes = np.linalg.eigh(prior.covariance() / worth / np.outer(noise, noise))
    wrong, small = float(WRONG @ wrong_weights(prior.size)), OFF <= MOST_EXPECTED
    likely = np.append(1 - wrong, wrong * OFF_WEIGHTS[1:] / OFF_WEIGHTS[1:].sum())[small]
    likely /= likely.sum()
    before = np.maximum(spread, 0.0) + shares_off(width, variances)[small, None]
    left, moved = likely @ (before / (before + 1)), likely @ (before**2 / (before + 1))
    lift = noise[:, None] * axes
    return Expected(np.asarray(lift * np.sqrt(left)), np.sqrt(lift**2 @ moved))


def sharpen(
    prior: Prior, released: Floats, variances: Floats, shared: Floats | None = None, *, width: float, lean: float = 0.0
) -> Sharpened:
    """The posterior of some means.

    released   the noisy means, `variances` those of their noise, each by itself
    shared     what one standard deviation of noise that all of them share does to each (a noisy number of rows); a
               column for each such noise, where there are several
    width      of the public range that the means lie in
    lean       a worth of l is likelier beforehand by l to this power: for values that keep to the stand-in where what
               was released says little
    """
    if shared is None:
        half, inverse = np.diag(np.sqrt(variances)), np.diag(1 / np.sqrt(variances))
    else:
        columns = np.reshape(shared, (len(released), -1))
        sizes, basis = np.linalg.eigh(np.diag(variances) + columns @ columns.T)
        roots = np.sqrt(np.maximum(sizes, float(variances.min()) * 1e-6))
        half, inverse = (basis * roots) @ basis.T, (basis / roots) @ basis.T
    scaled = inverse @ prior.covariance() @ inverse
    spread, axes = np.linalg.eigh((scaled + scaled.T) / 2)
    spread = np.maximum(spread, 0.0)
    away = axes.T @ (inverse @ (released - prior.means))
    worths = np.geomspace(LEAST_WORTH, prior.most, WORTHS)
    off = shares_off(width, variances)
    # [worth, off, axis]: the prior variance in units of the noise, and how well it explains what was released
    before = spread / worths[:, None, None] + off[:, None]
    likely, gains = -0.5 * (away**2 / (before + 1) + np.log1p(before)), before / (before + 1)
    parts = []  # for each share of axes that may be off, [worth] or [worth, axis]: how likely, gain, variance, wildness
    for wrong, chance in zip(WRONG, wrong_weights(prior.size), strict=True):
        mixed = likely + np.log(np.append(1 - wrong, wrong * OFF_WEIGHTS[1:] / OFF_WEIGHTS[1:].sum()))[:, None]
        each, axis = softmax(mixed, axis=1), logsumexp(mixed, axis=1)
        mine = (each * gains).sum(axis=1)
        own = (each * (gains + (gains - mine[:, None]) ** 2 * away**2)).sum(axis=1)
        beforehand = np.log(chance) + LOW_WORTH * np.log(np.minimum(worths, 1.0)) + lean * np.log(worths)
        parts.append((beforehand + axis.sum(axis=1), mine, own, each[:, OFF >= WILD].sum(axis=1)))
    weight = softmax(np.concatenate([part[0] for part in parts]))
    each_gain, own, wild = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
    gain, by_worth = weight @ each_gain, weight.reshape(len(WRONG), WORTHS).sum(axis=0)
    apart = (np.sqrt(weight)[:, None] * (each_gain - gain) * away).T  # how far these are from each other
    lift = half @ axes
    return Sharpened(
        values=prior.means + lift @ (gain * away),
        gain=(lift * gain) @ (axes.T @ inverse),
        root=lift @ np.hstack([np.diag(np.sqrt(weight @ own)), apart]),
        worth=float(np.exp(by_worth @ np.log(worths))),
        doubt=max(float(by_worth[worths < 2 * LEAST_WORTH].sum()), float((weight @ wild).max())),
    )
