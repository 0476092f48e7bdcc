"""The posterior of a table, as weights of synthetic rows: what released means say about the mean of any other function.

`maths/posterior.py` makes the released numbers themselves better. Here they speak about everything else. Let q be the
public functions whose means were released (a = E_P[q] + noise of covariance S), u and C their mean and covariance over
synthetic rows, and r any other function of a row. If the stand-in were l independent rows of the table, E_P[q] and
E_P[r] would lie around their means over synthetic rows with the covariances of a row over l; released means may be off
by t S besides (in ways that synthetic rows do not show). So

    E[r | a]   = E_S[r] + Cov_S(r, q) / l  (C / l + (1 + t) S)^-1  (a - u)
    Var[r | a] = Var_S(r) / l  -  Cov_S(r, q) / l  (C / l + (1 + t) S)^-1  Cov_S(q, r) / l

for each (l, t), mixed by how well they explain a: the mixture of `maths/posterior.py`. In the eigenvectors of
S^-1/2 C S^-1/2 all of it is a division. The mean is that of weighted synthetic rows, but some of these weights can be
negative; what needs a table (a ratio, another explainer) gets positive ones, `tilted`: w_i ~ exp(theta q_i), with
theta such that weighted rows have the posterior means of q.

Intervals are quantiles of the mixture of normal distributions. Laws of noise that are not normal enter by their
covariance. Without any evidence all (l, t) stay as likely as they were, and the intervals are wide: nothing has said
how good the stand-in is.

Everything here is computed from released numbers, public functions and public draws. No row of a table enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtr, ndtri

from dpexplain.maths.posterior import CONTRADICTION, LEAST_WORTH, OFF, OFF_WEIGHTS, WORTHS

Floats = NDArray[np.float64]

LOW_WORTH = 2.0  # a worth l below 1 (means farther off than rows differ) is as likely as l to this power
FLOOR = 1e-6  # of the smallest own variance of a released number: what noise has at least in every direction
SHARPEST = 1e-5  # of the range of a function: its released mean is taken as no sharper than that
FLAT = 1e-12  # of the largest spread: directions with less are none
UNLIKELY = 1e-9  # components with less weight are left out
LEAST_EFFECTIVE, HARDER = 0.05, 10.0  # share of the rows that a tilt leaves; the ridge grows by this factor until then
SMALL_SPREAD = 0.01  # of a row, in variances of the noise: such directions are not tilted, nothing is known about them
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


class RowPosterior:
    """What released numbers say about the means of all functions of a row.

    worths, offs  of the components, and `weights`, how likely each is
    """

    def __init__(self, rows: int, most: float, numbers: Sequence[Numbers] = ()) -> None:
        """From so many synthetic rows, of a stand-in that can be worth `most` rows, and evidence."""
        self.rows, self.size = rows, sum(one.size for one in numbers)
        most = min(max(float(most), 3 * LEAST_WORTH), float(rows))
        grid = np.geomspace(LEAST_WORTH, most, WORTHS)
        self.scores, self.spread, self._away, _ = _axes(rows, numbers)
        all_judge = all(one.judges.all() for one in numbers)
        judging = numbers if all_judge else [one.judging() for one in numbers if one.judges.any()]
        _, spread, away, rest = _axes(rows, judging) if not all_judge else (None, self.spread, self._away, _)
        size = sum(one.size for one in judging)
        # of the noise, or of what rows differ by where noise is larger
        off = OFF * (min(1.0, float(spread.sum()) / size) if size else 0.0)
        worths, offs = np.repeat(grid, len(off)), np.tile(off, WORTHS)
        beforehand = np.add.outer(LOW_WORTH * np.log(np.minimum(grid, 1.0)), np.log(OFF_WEIGHTS)).ravel()
        before = spread / worths[:, None] + offs[:, None]
        likely = beforehand - 0.5 * (away**2 / (before + 1) + np.log1p(before)).sum(axis=1)
        likely -= 0.5 * (rest / (1 + offs) + (size - len(spread)) * np.log1p(offs))
        weights = np.exp(likely - likely.max())
        weights /= weights.sum()
        by_worth = weights.reshape(WORTHS, len(OFF))
        self.worth = float(np.exp(by_worth.sum(axis=1) @ np.log(grid)))
        low = grid < 2 * LEAST_WORTH
        self.doubt = float(by_worth[low].sum() + by_worth[~low, -1].sum()) if self.size else 0.0
        kept = weights > UNLIKELY
        self.weights, self.worths, self.offs = weights[kept] / weights[kept].sum(), worths[kept], offs[kept]

    @property
    def contradicts(self) -> bool:
        """Whether what was released and the stand-in do not agree."""
        return self.doubt > CONTRADICTION

    @cached_property
    def _gain(self) -> Floats:
        """[component, axis]: (C / l + (1 + t) S)^-1 / l, where S is one."""
        return np.asarray(1 / (self.spread + self.worths[:, None] * (1 + self.offs[:, None])))

    def mixture(self, functions: Floats) -> Mixture:
        """The posterior of the means of some functions, given for each synthetic row (a line)."""
        means = functions.mean(axis=0)
        away = functions - means
        variances = (away**2).sum(axis=0) / max(self.rows - 1, 1)
        known = self.scores.T @ away / max(self.rows - 1, 1)  # [axis, function]: covariances with what was released
        learned = (self._gain / self.worths[:, None]) @ known**2
        left = np.maximum(variances / self.worths[:, None] - learned, 0.0)
        return Mixture(self.weights, means + (self._gain * self._away) @ known, np.sqrt(left))

    @cached_property
    def linear(self) -> Floats:
        """Weights of the rows whose means are the posterior ones, for all functions; some may be negative."""
        pull = self.weights @ (self._gain * self._away)
        return np.asarray(1 / self.rows + self.scores @ pull / max(self.rows - 1, 1))

    @cached_property
    def tilted(self) -> Floats:
        """Positive weights of the rows, which add up to one: an exponential tilt, w_i ~ exp(theta q_i).

        Where S is one, the posterior mean of an axis is s x for a spread s and x = (a - u) / (s + k), k = l (1 + t). The
        theta with  E_w[q] - u + k theta = a - u  is x to first order, and minimises  k times the entropy of w, relative
        to even weights, plus half of the squared distance to a: the same posterior, for weights that are positive.
        """
        kept = self.spread > SMALL_SPREAD
        if not kept.any():
            return np.full(self.rows, 1 / self.rows)
        size = np.sqrt(self.spread[kept])
        parts = self.scores[:, kept] / size  # of variance one each
        aims = self._away[kept] / size
        ridge, theta = 1 / (self.weights @ self._gain)[kept] / size**2 - 1, np.zeros(len(size))

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

    @property
    def effective_rows(self) -> float:
        """How many rows of equal weight would be as many."""
        return float(1 / (self.tilted**2).sum())


def _axes(rows: int, numbers: Sequence[Numbers]) -> tuple[Floats, Floats, Floats, float]:
    """In the eigenvectors of S^-1/2 C S^-1/2: the place of each row, the variance of rows, how far what was released is
    from the rows' mean; and the squared length of what is in no such direction.
    """
    if not numbers:
        return np.zeros((rows, 0)), np.zeros(0), np.zeros(0), 0.0
    means = [one.answers.mean(axis=0) for one in numbers]
    away = np.concatenate([one.whitener @ (one.released - u) for one, u in zip(numbers, means, strict=True)])
    whole = np.hstack([(one.answers - u) @ one.whitener for one, u in zip(numbers, means, strict=True)])
    by_number = whole.shape[1] <= rows
    gram = (whole.T @ whole if by_number else whole @ whole.T) / max(rows - 1, 1)
    spread, basis = np.linalg.eigh(gram)
    kept = spread > max(FLAT * float(spread.max()), 1e-300)
    spread, basis = spread[kept], basis[:, kept]
    length = np.sqrt(spread * max(rows - 1, 1))
    scores = whole @ basis if by_number else basis * length
    along = basis.T @ away if by_number else (basis.T @ (whole @ away)) / length
    return scores, spread, along, max(float(away @ away - along @ along), 0.0)
