"""The mean quality of a choice by its law: exactly for one stage, by many seeded draws for two.

One stage draws a combination with probability proportional to exp(epsilon score / range). Quality and score are both
sums over attributes of a number for the set of clusters that use it, so the mean quality comes out of the very
programme that the product draws with: no sampling error, and no noise at all. Two stages are drawn many times over,
with the product's law for a pure account (permute-and-flip: exponential noise) or the published one (Gumbel noise).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bench.cluster_baselines import CANDIDATES, TabEE, Weights, of_choices
from bench.clusterings import NEIGHBOURS, Counts
from dpexplain.methods.clusters import scores as product

Floats = NDArray[np.float64]

PER_DECADE = 8  # epsilons at which means are computed
HIGHEST, LOWEST = 10.0, 1e-6
REACHED = 0.98


@dataclass(frozen=True)
class Case:
    """One clustering: TabEE's view of it, and the product's scores, in rows."""

    exact: TabEE
    scoring: product.Scoring
    single: Floats  # [cluster, attribute]
    alone: Floats  # [cluster, attribute]
    penalty: Floats  # [cluster, cluster, attribute]
    combined: Floats  # [attribute, set of clusters]

    @classmethod
    def of(cls, counts: Counts, weights: Weights) -> Case:
        scoring = product.Scoring(len(counts[0]) - 1, 1, product.Weights.of(weights))
        measures = product.measure(counts, scoring.steps, product.most_rows(scoring))
        interest, sufficiency, penalty = scoring.factors
        return cls(
            TabEE.of(counts, weights),
            scoring,
            product.single_scores(measures, scoring) / scoring.cluster_unit,
            (interest * measures.interest + sufficiency * measures.sufficiency) / scoring.unit,
            penalty * measures.penalty / scoring.unit,
            product.combination_scores(measures, scoring) / scoring.unit,
        )

    def combination_range(self, bounds: str) -> float:
        return self.scoring.combination_range(NEIGHBOURS, bounds).length / self.scoring.unit

    def candidate_range(self, bounds: str) -> float:
        """All clusters together."""
        if bounds == "paper":
            each = self.scoring.cluster_range(NEIGHBOURS, bounds).length
            return self.scoring.clusters * each / self.scoring.cluster_unit
        return self.scoring.joint_range(NEIGHBOURS).length / self.scoring.cluster_unit

    def one_stage(self, epsilon: float, bounds: str = "tight") -> float:
        """The mean quality."""
        return float(mean_quality(self.combined * (epsilon / self.combination_range(bounds)), self.exact.quality))

    def two_stage(
        self, epsilon: float, bounds: str, runs: int, *, gumbel: bool = False, k: int = CANDIDATES, seed: int = 0
    ) -> float:
        """The mean quality over `runs` draws, half of epsilon for each stage."""
        scales = k * self.candidate_range(bounds) / (epsilon / 2), self.combination_range(bounds) / (epsilon / 2)
        return float(np.mean(of_choices(self.exact.quality, self._drawn(scales, k, runs, gumbel, seed))))

    def noise_free(self, stages: int, k: int = CANDIDATES) -> float:
        """The quality of the choice without noise."""
        if stages == 2:
            return float(of_choices(self.exact.quality, self._drawn((0.0, 0.0), k, 1, False, 0))[0])
        best = best_choice(self.combined)
        return float(of_choices(self.exact.quality, best[None])[0])

    def _drawn(self, scales: tuple[float, float], k: int, runs: int, gumbel: bool, seed: int) -> Any:
        return drawn_in_two_stages(self.single, self.alone, self.penalty, *scales, k, runs, gumbel, seed)


def reached_at(mean: Callable[[float], float], wanted: float) -> float | None:
    """The smallest epsilon from which on the mean quality is at least `wanted`, between points of a grid on a line in
    log epsilon; None if it is below at the highest. Goes down from 1, or from the highest if 1 is not enough.
    """
    start = 1.0 if mean(1.0) >= wanted else HIGHEST
    above: tuple[float, float] | None = None
    for i in range(int(np.ceil(np.log10(start / LOWEST) * PER_DECADE)) + 1):
        epsilon = start * 10 ** (-i / PER_DECADE)
        value = mean(epsilon)
        if value < wanted:
            if above is None:
                return None
            share = (wanted - value) / max(above[1] - value, 1e-12)
            return float(epsilon * (above[0] / epsilon) ** min(share, 1.0))
        above = (epsilon, value)
    return LOWEST


@njit(cache=True)
def mean_quality(weights: Any, quality: Any) -> float:
    """Of a combination drawn with log-probability sum of weights[a, T]: forward over attributes, keeping for each set
    of clusters served so far the logarithm of its total weight and the mean quality within it.
    """
    attributes, sets = weights.shape
    logs, means = np.full(sets, -np.inf), np.zeros(sets)
    logs[0] = 0.0
    for a in range(attributes):
        new_logs, new_means = np.empty(sets), np.empty(sets)
        for s in range(sets):
            top, subset = -np.inf, s
            while True:
                top = max(top, logs[s ^ subset] + weights[a, subset])
                if subset == 0:
                    break
                subset = (subset - 1) & s
            total, mean, subset = 0.0, 0.0, s
            while top > -np.inf:
                log = logs[s ^ subset] + weights[a, subset] - top
                if log > -50.0:
                    share = np.exp(log)
                    total += share
                    mean += share * (means[s ^ subset] + quality[a, subset])
                if subset == 0:
                    break
                subset = (subset - 1) & s
            new_logs[s] = top + np.log(total) if total > 0 else -np.inf
            new_means[s] = mean / total if total > 0 else 0.0
        logs, means = new_logs, new_means
    return float(means[sets - 1])


@njit(cache=True)
def best_choice(table: Any) -> Any:
    """The combination with the largest sum of table[a, T], over the whole space."""
    attributes, sets = table.shape
    best = np.full((attributes + 1, sets), -np.inf)
    taken = np.zeros((attributes, sets), dtype=np.int64)
    best[0, 0] = 0.0
    for a in range(attributes):
        for s in range(sets):
            subset = s
            while True:
                value = best[a, s ^ subset] + table[a, subset]
                if value > best[a + 1, s]:
                    best[a + 1, s], taken[a, s] = value, subset
                if subset == 0:
                    break
                subset = (subset - 1) & s
    clusters = 0
    while 1 << clusters < sets:
        clusters += 1
    choice, state = np.zeros(clusters, dtype=np.int64), sets - 1
    for a in range(attributes - 1, -1, -1):
        for c in range(clusters):
            if taken[a, state] >> c & 1:
                choice[c] = a
        state ^= taken[a, state]
    return choice


@njit(cache=True)
def top_k(scores: Any, scale: float, k: int, gumbel: bool) -> Any:
    """The noisily best k: with one Gumbel noise for all k, or best after best with fresh exponential noise."""
    noisy, found = scores.copy(), np.zeros(k, dtype=np.int64)
    for j in range(k):
        if scale > 0 and not (gumbel and j):
            for a in range(len(scores)):
                noisy[a] = scores[a] + scale * (np.random.gumbel(0.0, 1.0) if gumbel else np.random.exponential(1.0))
        for taken in found[:j]:
            noisy[taken] = -np.inf
        found[j] = noisy.argmax()
    return found


@njit(cache=True)
def drawn_in_two_stages(
    single: Any, alone: Any, penalty: Any, first: float, second: float, k: int, runs: int, gumbel: bool, seed: int
) -> Any:
    """[run, cluster]: noisy top k of each cluster, then the noisily best combination of these."""
    np.random.seed(seed)
    clusters = len(single)
    found = np.zeros((runs, clusters), dtype=np.int64)
    candidates = np.zeros((clusters, k), dtype=np.int64)
    scores = np.zeros(k**clusters)
    for run in range(runs):
        for c in range(clusters):
            candidates[c] = top_k(single[c], first, k, gumbel)
        scores[0], size = 0.0, 1
        for c in range(clusters):  # combination i of the clusters so far becomes i k .. i k + k - 1
            for i in range(size - 1, -1, -1):
                before = scores[i]
                for j in range(k):
                    a, value, rest = candidates[c, j], before, i
                    value += alone[c, a]
                    for d in range(c - 1, -1, -1):
                        if candidates[d, rest % k] == a:
                            value -= penalty[c, d, a]
                        rest //= k
                    scores[i * k + j] = value
            size *= k
        best, top = 0, -np.inf
        for i in range(size):
            value = scores[i]
            if second > 0:
                value += second * (np.random.gumbel(0.0, 1.0) if gumbel else np.random.exponential(1.0))
            if value > top:
                best, top = i, value
        for c in range(clusters - 1, -1, -1):
            found[run, c] = candidates[c, best % k]
            best //= k
    return found
