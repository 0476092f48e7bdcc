"""The posterior of a table, as weights of synthetic rows: what released means say about the mean of any other function.

`maths/posterior.py` makes the released numbers themselves better. Here they speak about everything else. Let q be the
public functions whose means were released (a = E_P[q] + noise of covariance S), u and C their mean and covariance over
synthetic rows, and r any other function of a row. If the stand-in were l independent rows of the table, E_P[q] and
E_P[r] would lie around their means over synthetic rows with the covariances of a row over l; released means may be off
by t S besides (in ways that synthetic rows do not show). So

    E[r | a]   = E_S[r] + G (a - u)                          G = (Cov_S(r, q) / l + t B S) (C / l + (1 + t) S)^-1
    Var[r | a] = Var_S(r) / l + t B S B^T - G (C / l + (1 + t) S) G^T

for each (l, t), mixed by how well they explain a: the mixture of `maths/posterior.py`. B = Cov_S(r, q) (C + S)^-1 is
how r goes with what was released: where released means are off, r is off alike. In the eigenvectors of S^-1/2 C S^-1/2
all of it is a division.

What a stand-in was made to know (the shares of each column) it knows better than the rest (how columns go together). A
product of columns would pass for a good stand-in because all counts agree with it. So l is the worth in functions of
single columns, and l times a share that is estimated too (TIES) the worth in all else: C is taken after functions are
stretched by the root of 1 / share where they are no sum of functions of columns. And counts of columns, which any
stand-in gets right, do not judge it (`Numbers.judges`): they only sharpen.

The posterior mean is that of weighted synthetic rows, but some of these weights can be negative; what needs a table (a
ratio, another explainer) gets positive ones, `tilted`: w_i ~ exp(theta q_i), with theta such that weighted rows have
the posterior means of q.

Intervals are quantiles of the mixture of normal distributions. Laws of noise that are not normal enter by their
covariance. Without any evidence all (l, t) stay as likely as they were, and the intervals are wide: nothing has said
how good the stand-in is.

Everything here is computed from released numbers, public functions and public draws. No row of a table enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtr, ndtri

from dpexplain.data.public_random import PublicRandom
from dpexplain.maths.posterior import CONTRADICTION, LEAST_WORTH, LOW_WORTH, OFF, OFF_WEIGHTS, WORTHS

Floats = NDArray[np.float64]

FAR = 10.0  # variances of the noise by which numbers are off that contradict a stand-in, which has noise of its own
LEAST_OFF = 1e-4  # share of the noise that stands for one in `OFF` at least, where synthetic rows hardly differ
FLOOR = 1e-6  # of the smallest own variance of a released number: what noise has at least in every direction
SHARPEST = 1e-5  # of the range of a function: its released mean is taken as no sharper than that
FLAT = 1e-12  # of the largest spread: directions with less are none
UNLIKELY = 1e-9  # components with less weight are left out
LEAST_EFFECTIVE, HARDER = 0.05, 10.0  # share of the rows that a tilt leaves; the ridge grows by this factor until then
SMALL_SPREAD = 0.01  # of a row, in variances of the noise: such directions are not tilted, nothing is known about them
TIES = (1.0, 0.1, 0.01)  # of its worth in what it was made to know, that a stand-in is worth in all else
TILT_STEPS, BISECTIONS = 500, 60


@dataclass(frozen=True, eq=False)
class Mixture:
    """Some numbers whose distribution is a mixture of normal ones, each by itself.

    weights  of the components; means, stds  [component, number]
    """

    weights: Floats
    means: Floats
    stds: Floats

    @property
    def mean(self) -> Floats:
        return np.asarray(self.weights @ self.means)

    @property
    def std(self) -> Floats:
        """What the components do not know, and how far they are from each other."""
        return np.sqrt(self.weights @ (self.stds**2 + (self.means - self.mean) ** 2))

    def around(self, values: Floats) -> Mixture:
        """The mixture moved so that it has these means."""
        return Mixture(self.weights, self.means - self.mean + values, self.stds)

    def wider(self, off: Floats) -> Mixture:
        """The mixture for numbers that may be off by so much besides."""
        return Mixture(self.weights, self.means, np.hypot(self.stds, off))

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Equal tails of the mixture."""
        tail = (1 - level) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def quantile(self, share: float) -> Floats:
        """By bisection between the quantiles of the outermost components."""
        each = self.means + float(ndtri(share)) * self.stds
        low, high = each.min(axis=0), each.max(axis=0)
        stds = np.maximum(self.stds, 1e-300)
        for _ in range(BISECTIONS):
            middle = low / 2 + high / 2
            below = self.weights @ ndtr((middle - self.means) / stds) < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(low / 2 + high / 2)


@dataclass(frozen=True, eq=False)
class Numbers:
    """Released means of public functions of a row, with the covariance of their noise.

    answers     [synthetic row, function]
    released    the noisy means
    covariance  of their noise
    judges      which of them say how good the stand-in is: not what any stand-in gets right, the counts of columns
    """

    answers: Floats
    released: Floats
    covariance: Floats
    judges: NDArray[np.bool_]

    def judging(self) -> Numbers:
        """Those that say how good the stand-in is, by themselves."""
        some = np.flatnonzero(self.judges)
        return Numbers(
            self.answers[:, some], self.released[some], self.covariance[np.ix_(some, some)], self.judges[some]
        )

    def all_judging(self) -> Numbers:
        return replace(self, judges=np.ones(self.size, dtype=bool))

    @classmethod
    def counted(
        cls,
        answers: Floats,
        sums: Floats,
        variances: Floats,
        count: float,
        shared: Floats,
        other: float,
        judges: NDArray[np.bool_] | None = None,
    ) -> Numbers:
        """Means from noisy sums over a noisy number of rows, n' = n + c z + other noise for the noise z of the sums.

        (s + z) / n' - s / n  =  (z - m (n' - n)) / n' for the exact means m = s / n, which are taken as the released
        ones, within what is possible for a mean of these answers.

        shared  c
        other   the variance of the other noise of n'
        """
        released, (low, high) = sums / count, (answers.min(axis=0), answers.max(axis=0))
        exact, reach = np.clip(released, low, high), high - low
        reach = np.where(reach > 0, reach, max(float(reach.max(initial=0.0)), SHARPEST))
        variances = np.maximum(variances, (SHARPEST * count * reach) ** 2)
        crossed, of_count = np.outer(exact, shared * variances), other + float(shared**2 @ variances)
        covariance = np.diag(variances) - crossed - crossed.T + of_count * np.outer(exact, exact)
        judges = np.ones(len(sums), dtype=bool) if judges is None else judges
        return cls(answers, released, covariance / count**2, judges)

    @property
    def size(self) -> int:
        return len(self.released)

    @cached_property
    def whitener(self) -> Floats:
        """The inverse root of the covariance: a number that the others determine has a little noise all the same."""
        if not np.any(self.covariance - np.diag(np.diag(self.covariance))):
            return np.diag(1 / np.sqrt(np.diag(self.covariance)))
        sizes, basis = np.linalg.eigh(self.covariance)
        roots = np.sqrt(np.maximum(sizes, FLOOR * float(np.diag(self.covariance).min())))
        return np.asarray((basis / roots) @ basis.T)


class Known:
    """Functions whose means a stand-in was made to know, [row, function], such as the cells of columns."""

    def __init__(self, functions: Floats) -> None:
        self.functions = functions

    @cached_property
    def basis(self) -> Floats:
        """Worked out once, however many posteriors stand on it: with hundreds of columns it takes seconds."""
        return _basis(self.functions)


class RowPosterior:
    """What released numbers say about the means of all functions of a row.

    worth   rows that the stand-in turned out to be worth in what it knows (the middle in log l)
    ties    the share of that which it is worth in the rest
    doubt   weight of a stand-in that is worth next to nothing, or off by as much as the noise
    """

    def __init__(self, rows: int, most: float, numbers: Sequence[Numbers] = (), known: Known | None = None) -> None:
        """From so many synthetic rows, of a stand-in that can be worth `most` rows, and evidence.

        known  functions whose means the stand-in was made to know
        """
        self.rows, self.size = rows, sum(one.size for one in numbers)
        self._known = None if known is None or not self.size else known.basis
        shares = TIES if self._known is not None else TIES[:1]
        most = min(max(float(most), 3 * LEAST_WORTH), float(rows))
        grid = np.geomspace(LEAST_WORTH, most, WORTHS)
        views = judges = [_View.of(numbers, rows, share, self._known) for share in shares]
        if not all(one.judges.all() for one in numbers):
            judging = [one.judging() for one in numbers if one.judges.any()]
            judges = [_View.of(judging, rows, share, self._known) for share in shares]
        beforehand = np.add.outer(LOW_WORTH * np.log(np.minimum(grid, 1.0)), np.log(OFF_WEIGHTS)).ravel()
        worths = np.repeat(grid, len(OFF))
        likely = np.array([beforehand + view.likely(worths, np.tile(view.off, WORTHS)) for view in judges])
        weights = np.exp(likely - likely.max())
        weights /= weights.sum()
        self.ties = float(np.exp(weights.sum(axis=1) @ np.log(shares)))
        by_worth = weights.sum(axis=0).reshape(WORTHS, len(OFF))
        self.worth = float(np.exp(by_worth.sum(axis=1) @ np.log(grid)))
        low = grid < 2 * LEAST_WORTH
        self.doubt = float(by_worth[low].sum() + by_worth[~low][:, OFF >= FAR].sum()) if self.size else 0.0
        # of the components that are likely: the view, and how likely each (l, t) is
        self._parts = list[tuple[_View, Floats, Floats, Floats]]()
        for view, judge, mine in zip(views, judges, weights, strict=True):
            kept = mine > UNLIKELY
            if kept.any():
                self._parts.append((view, mine[kept], worths[kept], np.tile(judge.off, WORTHS)[kept]))

    @property
    def contradicts(self) -> bool:
        """Whether what was released and the stand-in do not agree."""
        return self.doubt > CONTRADICTION

    def mixture(self, functions: Floats) -> Mixture:
        """The posterior of the means of some functions, given for each synthetic row (a line)."""
        means = functions.mean(axis=0)
        away = functions - means
        weights, middles, lefts = [], [], []
        for view, mine, worths, offs in self._parts:
            stretched, gain = _stretched(away, view.share, self._known), view.gain(worths, offs)
            variances = (stretched**2).sum(axis=0) / max(self.rows - 1, 1)
            known = view.scores.T @ stretched / max(self.rows - 1, 1)  # covariances with what was released
            learned = gain**2 * (view.spread / worths[:, None] + offs[:, None] + 1)
            before = variances / worths[:, None] + offs[:, None] * (view.own @ known**2)
            weights.append(mine)
            middles.append(means + (gain * view.away) @ known)
            lefts.append(np.sqrt(np.maximum(before - learned @ known**2, 0.0)))
        every = np.concatenate(weights)
        return Mixture(every / every.sum(), np.vstack(middles), np.vstack(lefts))

    def joint_draws(self, functions: Floats, number: int, seed: int) -> Floats:
        """[draw, function]: draws of the means of some functions together, from the distribution of `mixture`."""
        means = functions.mean(axis=0)
        away, random = functions - means, PublicRandom(seed).generator
        weights, middles, roots = [], [], []
        for view, mine, worths, offs in self._parts:
            stretched, gain = _stretched(away, view.share, self._known), view.gain(worths, offs)
            known = view.scores.T @ stretched / max(self.rows - 1, 1)
            spread = stretched.T @ stretched / max(self.rows - 1, 1)
            learned = gain**2 * (view.spread / worths[:, None] + offs[:, None] + 1)
            for weight, worth, off, took, pull in zip(mine, worths, offs, learned, gain * view.away, strict=True):
                left = spread / worth + known.T @ ((off * view.own - took)[:, None] * known)
                sizes, basis = np.linalg.eigh(left)
                weights.append(weight)
                middles.append(means + pull @ known)
                roots.append(basis * np.sqrt(np.maximum(sizes, 0.0)))
        shares = np.array(weights) / np.sum(weights)
        which = random.choice(len(shares), size=number, p=shares)
        found = np.empty((number, functions.shape[1]))
        for place in np.unique(which):
            mine = which == place
            noise = random.standard_normal((int(mine.sum()), functions.shape[1]))
            found[mine] = middles[place] + noise @ roots[place].T
        return found

    @cached_property
    def linear(self) -> Floats:
        """Weights of the rows whose means are the posterior ones, for all functions; some may be negative."""
        found = np.full(self.rows, 1 / self.rows)
        for view, mine, worths, offs in self._parts:
            pull = mine @ (view.gain(worths, offs) * view.away)
            found += _stretched((view.scores @ pull)[:, None], view.share, self._known)[:, 0] / max(self.rows - 1, 1)
        return found

    @cached_property
    def tilted(self) -> Floats:
        """Positive weights of the rows, which add up to one: an exponential tilt, w_i ~ exp(theta y_i).

        Linear weights are even ones and (y_i - mean) x, with x = gain times (a - u) in the axes y of the likeliest
        share of ties. The tilt minimises the entropy of w relative to even weights and k theta^2 / 2, k = l (1 + t) for
        noise of one, such that  E_w[y] + k theta = (posterior mean of y) + k x:  to first order theta is x. So rows
        have the posterior means where positive weights can give them; where they cannot, no weight runs away.
        """
        view, mine, worths, offs = max(self._parts, key=lambda part: float(part[1].sum()))
        kept = view.spread > SMALL_SPREAD
        if not kept.any():
            return np.full(self.rows, 1 / self.rows)
        size, gain = np.sqrt(view.spread[kept]), (mine @ view.gain(worths, offs) / mine.sum())[kept]
        parts = _stretched(view.scores[:, kept] / size, view.share, self._known)
        ridge, first = 1 / gain / size**2 - 1, size * gain * view.away[kept]
        means = parts.T @ self.linear
        aims, theta = means + ridge * first, np.zeros(len(size))

        def objective(theta: Floats) -> tuple[float, Floats]:
            raised = parts @ theta
            total = float(logsumexp(raised))
            slope = parts.T @ np.exp(raised - total) - aims + ridge * theta
            return total - float(aims @ theta) + float(ridge @ theta**2) / 2, slope

        options = {"maxiter": TILT_STEPS, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-9}
        while True:  # no positive weights have these means where rows are few: then as near as some rows can be
            theta = minimize(objective, theta, jac=True, method="L-BFGS-B", options=options).x
            raised = parts @ theta
            weights = np.asarray(np.exp(raised - logsumexp(raised)))
            if 1 / (weights**2).sum() >= LEAST_EFFECTIVE * self.rows or ridge.min() > 1 / SMALL_SPREAD:
                return weights
            ridge, theta = HARDER * ridge, theta / HARDER
            aims = means + ridge * first / HARDER

    @property
    def effective_rows(self) -> float:
        """How many rows of equal weight would be as many."""
        return float(1 / (self.tilted**2).sum())


@dataclass(frozen=True, eq=False)
class _View:
    """All numbers in the eigenvectors of S^-1/2 C S^-1/2, with C for one share of ties.

    scores  the place of each row; spread  the variance of rows; away  how far what was released is from the rows' mean
    rest    the squared length of what is in no such direction; size  how many numbers there are
    """

    share: float
    scores: Floats
    spread: Floats
    away: Floats
    rest: float
    size: int

    @classmethod
    def of(cls, numbers: Sequence[Numbers], rows: int, share: float, known: Floats | None) -> _View:
        return cls(share, *_axes(rows, numbers, share, known), sum(one.size for one in numbers))

    @property
    def off(self) -> Floats:
        """Shares of the noise, or of what rows differ by where noise is larger; never nothing: a model may be flat."""
        share = min(1.0, max(float(self.spread.sum()) / self.size, LEAST_OFF)) if self.size else 0.0
        return np.asarray(OFF * share)

    def likely(self, worths: Floats, offs: Floats) -> Floats:
        """The log of how well each (l, t) explains what was released."""
        before = self.spread / worths[:, None] + offs[:, None]
        inside = (self.away**2 / (before + 1) + np.log1p(before)).sum(axis=1)
        return np.asarray(-0.5 * (inside + self.rest / (1 + offs) + (self.size - len(self.spread)) * np.log1p(offs)))

    @property
    def own(self) -> Floats:
        """For each axis, the squared slope of a function in it, for a covariance of one."""
        return np.asarray((self.spread + 1) ** -2.0)

    def gain(self, worths: Floats, offs: Floats) -> Floats:
        """[component, axis]: (1 / l + t B) (C / l + (1 + t) S)^-1, where S is one and B = (C + S)^-1."""
        share, off = 1 / worths[:, None], offs[:, None]
        return np.asarray((share + off / (self.spread + 1)) / (self.spread * share + off + 1))


def _basis(known: Floats) -> Floats:
    """An orthonormal basis of some functions of a row, without their means."""
    away = known - known.mean(axis=0)
    by_function = away.shape[1] <= len(away)
    sizes, basis = np.linalg.eigh(away.T @ away if by_function else away @ away.T)
    kept = sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1e-300)
    return np.asarray(away @ (basis[:, kept] / np.sqrt(sizes[kept])) if by_function else basis[:, kept])


def _stretched(away: Floats, share: float, known: Floats | None) -> Floats:
    """Functions without their means: what lies outside of the known ones is stretched by the root of 1 / share."""
    if known is None or share == 1.0:
        return away
    inside = known @ (known.T @ away)
    return np.asarray(inside + (away - inside) / np.sqrt(share))


def _axes(
    rows: int, numbers: Sequence[Numbers], share: float, known: Floats | None
) -> tuple[Floats, Floats, Floats, float]:
    """In the eigenvectors of S^-1/2 C S^-1/2: the place of each row, the variance of rows, how far what was released is
    from the rows' mean; and the squared length of what is in no such direction.
    """
    if not numbers:
        return np.zeros((rows, 0)), np.zeros(0), np.zeros(0), 0.0
    means = [one.answers.mean(axis=0) for one in numbers]
    away = np.concatenate([one.whitener @ (one.released - u) for one, u in zip(numbers, means, strict=True)])
    whole = np.hstack([(one.answers - u) @ one.whitener for one, u in zip(numbers, means, strict=True)])
    whole = _stretched(whole, share, known)
    by_number = whole.shape[1] <= rows
    gram = (whole.T @ whole if by_number else whole @ whole.T) / max(rows - 1, 1)
    spread, basis = np.linalg.eigh(gram)
    kept = spread > max(FLAT * float(spread.max()), 1e-300)
    spread, basis = spread[kept], basis[:, kept]
    length = np.sqrt(spread * max(rows - 1, 1))
    scores = whole @ basis if by_number else basis * length
    along = basis.T @ away if by_number else (basis.T @ (whole @ away)) / length
    return scores, spread, along, max(float(away @ away - along @ along), 0.0)
