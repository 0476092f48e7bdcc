"""The best combination of attributes for given counts, which need not be whole: exact, and free.

For counts that were released. Where the scores themselves have to be private, `core/combinations.py` draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpexplain.methods.clusters.scores import Scoring
from dpexplain.methods.clusters.spec import Chosen

Floats = NDArray[np.float64]

PASSES = 4  # over all clusters, of the choice that others are compared with
SLACK = 1e-9  # of the best score, by which sums of floats may differ


@dataclass(frozen=True, eq=False)
class Scores:
    """What counts in the score of a combination, in rows.

    alone   [cluster, attribute]: what an attribute adds
    shared  [cluster, cluster, attribute]: what two clusters lose that share it, never negative
    """

    alone: Floats
    shared: Floats

    @classmethod
    def of(cls, tables: Sequence[Floats], scoring: Scoring) -> Scores:
        """From the counts [cluster or other, value] of each attribute, by the definitions of `scores.py`."""
        width = max(table.shape[1] for table in tables)
        counts = np.stack([np.pad(table, ((0, 0), (0, width - table.shape[1]))) for table in tables], axis=1)
        everyone, inside = counts.sum(axis=0), counts[:-1]
        sizes, rows = inside[:, 0].sum(axis=1), max(float(everyone[0].sum()), 1e-300)
        interest = np.abs(inside - sizes[:, None, None] * everyone / rows).sum(axis=2) / 2
        sufficiency = (inside**2 / np.maximum(everyone, 1e-300)).sum(axis=2)
        shares = inside / np.maximum(sizes, 1e-300)[:, None, None]
        alike = np.stack([np.minimum(shares, mine).sum(axis=2) for mine in shares])
        penalty = alike * np.minimum(sizes, sizes[:, None])[:, :, None]
        by_interest, by_sufficiency, by_penalty = (factor / scoring.whole for factor in scoring.factors)
        return cls(by_interest * interest + by_sufficiency * sufficiency, by_penalty * penalty)

    def total(self, chosen: Chosen) -> float:
        """The score of a combination, without what is the same for all of them."""
        score = sum(float(self.alone[c, a]) for c, mine in enumerate(chosen) for a in mine)
        pairs = ((c, d) for c in range(len(chosen)) for d in range(c))
        return score - sum(float(self.shared[c, d, a]) for c, d in pairs for a in set(chosen[c]) & set(chosen[d]))

    def best(self, uses: int) -> Chosen:
        """The combination with the largest score, of all there are.

        A programme over the attributes: the state says how many attributes each cluster has so far, and an attribute
        goes to a set of clusters. Sets that cannot be part of anything better than a good choice found before are left
        out: no cluster can gain more than by its own `uses` best attributes, which nobody shares.
        """
        ordered = -np.sort(-self.alone, axis=1)
        last, bound = ordered[:, uses - 1], float(ordered[:, :uses].sum())
        good = self.total(self._good(uses))
        slack = bound - good + SLACK * max(abs(good), abs(bound))
        clusters, attributes = self.alone.shape
        steps = (uses + 1) ** np.arange(clusters)
        taken_so_far = np.arange((uses + 1) ** clusters)[:, None] // steps % (uses + 1)
        room = taken_so_far < uses
        value = np.full(len(room), -np.inf)
        value[0] = 0.0
        took = np.zeros((attributes, len(room)), dtype=np.int64)
        for a in range(attributes):
            mine = np.flatnonzero(last - self.alone[:, a] <= slack)
            sets, gains, losses = self._sets(a, mine, last)
            new = value.copy()
            for number in np.flatnonzero(losses[1:] <= slack) + 1:
                some = mine[(sets[number] >> np.arange(len(mine))) & 1 == 1]
                before = np.flatnonzero(room[:, some].all(axis=1) & (value > -np.inf))
                after, scores = before + int(steps[some].sum()), value[before] + gains[number]
                better = scores > new[after]
                new[after[better]] = scores[better]
                took[a, after[better]] = sum(1 << int(c) for c in some)
            value = new
        return self._walked(took, steps)

    def _sets(self, a: int, mine: NDArray[np.intp], last: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Sets of these clusters, what attribute a adds if they use it, and how far that is from their bounds."""
        gains, away = np.zeros(1), np.zeros(1)
        for i, c in enumerate(mine):
            lost = np.zeros(1)
            for d in mine[:i]:
                lost = np.concatenate([lost, lost + self.shared[c, d, a]])
            gains = np.concatenate([gains, gains + self.alone[c, a] - lost])
            away = np.concatenate([away, away + max(float(last[c]), float(self.alone[c, a]))])
        return np.arange(len(gains)), gains, away - gains

    @staticmethod
    def _walked(took: NDArray[np.int64], steps: NDArray[np.int64]) -> Chosen:
        chosen: list[list[int]] = [[] for _ in steps]
        state = int(steps[-1]) * (int(steps[1] // steps[0]) if len(steps) > 1 else 2) - 1
        for a in reversed(range(len(took))):
            for c in range(len(steps)):
                if int(took[a, state]) >> c & 1:
                    chosen[c].insert(0, a)
            state -= sum(int(steps[c]) for c in range(len(steps)) if int(took[a, state]) >> c & 1)
        return tuple(map(tuple, chosen))

    def _good(self, uses: int) -> Chosen:
        """A good combination: each cluster in turn takes what is best for it beside the others."""
        clusters = len(self.alone)
        chosen: list[tuple[int, ...]] = [()] * clusters
        for _ in range(PASSES):
            for c in range(clusters):
                worth = self.alone[c].copy()
                for d in range(clusters):
                    if d != c and chosen[d]:
                        worth[list(chosen[d])] -= self.shared[c, d, list(chosen[d])]
                chosen[c] = tuple(sorted(int(a) for a in np.argsort(-worth, kind="stable")[:uses]))
        return tuple(chosen)
