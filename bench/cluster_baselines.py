"""What `bench clusters` compares with and measures by: TabEE, its two private forms in paper 002, quality and MAE.

Quality is TabEE's: l_Int times the mean over clusters of the total variation distance between cluster and table, l_Suf
times the probability that a row with the value of another one lies in its cluster, l_Div times the diversity of
appendix A.3 as METHODS 5 reads it. Like our own score it is a sum over attributes of a number for the set of clusters
that use the attribute, so one table [attribute, set of clusters] holds all of it.

The private baselines draw seeded noise of their own law; nothing in the product uses them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bench.clusterings import Counts

Floats = NDArray[np.float64]
Choice = Sequence[int]  # the attribute of each cluster
Weights = tuple[float, float, float]  # of interestingness, sufficiency, diversity

EQUAL: Weights = (1 / 3, 1 / 3, 1 / 3)
CANDIDATES = 3
PUBLISHED_SENSITIVITY = 0.5  # of the sensitive measures, as propositions 4.1, 4.5 and A.8 give it: at least that much


@dataclass(frozen=True)
class TabEE:
    """TabEE's view of the counts of one clustering, exact or noisy: histograms [cluster, attribute, value]."""

    inside: Floats
    everyone: Floats  # [attribute, value]
    weights: Weights

    @classmethod
    def of(cls, counts: Counts, weights: Weights = EQUAL) -> TabEE:
        width = max(table.shape[1] for table in counts)
        padded = np.stack([np.pad(t, ((0, 0), (0, width - t.shape[1]))) for t in counts], axis=1).astype(np.float64)
        return cls(padded[:-1], padded.sum(axis=0), weights)

    @property
    def clusters(self) -> int:
        return len(self.inside)

    @cached_property
    def shares(self) -> Floats:
        return np.asarray(self.inside / np.maximum(self.inside.sum(axis=2, keepdims=True), 1))

    @cached_property
    def interest(self) -> Floats:
        """[cluster, attribute]: total variation distance from the whole table."""
        whole = self.everyone / np.maximum(self.everyone.sum(axis=1, keepdims=True), 1)
        return np.asarray(np.abs(self.shares - whole).sum(axis=2) / 2)

    @cached_property
    def sufficiency(self) -> Floats:
        """[cluster, attribute]: in rows, as definition 4.6; with noise, a share of a value above 1 counts as 1."""
        return np.asarray((self.inside * np.minimum(self.inside / np.maximum(self.everyone, 1), 1)).sum(axis=2))

    @cached_property
    def apart(self) -> Floats:
        """[attribute, cluster, cluster]: total variation distances between clusters."""
        return np.asarray(
            np.stack([np.abs(self.shares - mine).sum(axis=2) / 2 for mine in self.shares], axis=1).transpose(2, 0, 1)
        )

    @cached_property
    def quality(self) -> Floats:
        """[attribute, set of clusters]: what an attribute adds to the quality when these clusters use it."""
        rows = np.maximum(self.everyone.sum(axis=1), 1)
        interest, sufficiency, diversity = self.weights
        alone = interest * self.interest / self.clusters + sufficiency * self.sufficiency / rows
        return diversities(self.apart) * diversity / self.clusters + sums(alone)

    @cached_property
    def single(self) -> Floats:
        """[cluster, attribute], in [0, 1]: what candidates are chosen by."""
        interest, sufficiency, _ = self.weights
        size = np.maximum(self.inside.sum(axis=2), 1)
        return np.asarray((interest * self.interest + sufficiency * self.sufficiency / size) / (interest + sufficiency))

    def of_choice(self, choice: Choice) -> float:
        return float(of_choices(self.quality, np.array([choice]))[0])

    @cached_property
    def best(self) -> tuple[int, ...]:
        """TabEE's own choice: the best combination of the best three attributes of each cluster."""
        return self.best_of(self.candidates(self.single))

    def candidates(self, scores: Floats, k: int = CANDIDATES) -> list[list[int]]:
        return [np.argsort(-mine, kind="stable")[:k].tolist() for mine in scores]

    def best_of(self, candidates: Sequence[Sequence[int]]) -> tuple[int, ...]:
        listed = np.array(list(itertools.product(*candidates)))
        return tuple(int(a) for a in listed[of_choices(self.quality, listed).argmax()])


def diversities(apart: Floats) -> Floats:
    """[attribute, set]: of the clusters that share an attribute, the first in an order counts 1, each later one its
    smallest distance to an earlier one; the mean over all orders.

    In closed form: cluster i is first of m with probability 1/m; its r-th nearest is the nearest earlier one with
    probability 1 / (r (r + 1)), namely when the order of i and its r nearest begins with these two.
    """
    attributes, clusters, _ = apart.shape
    found = np.zeros((attributes, 2**clusters))
    for mask in range(1, 2**clusters):
        members = [c for c in range(clusters) if mask >> c & 1]
        if len(members) == 1:
            found[:, mask] = 1
            continue
        near = np.sort(apart[:, members][:, :, members], axis=2)[:, :, 1:]  # without the distance to itself
        r = np.arange(1, len(members))
        found[:, mask] = 1 + (near / (r * (r + 1))).sum(axis=(1, 2))
    return found


def sums(alone: Floats) -> Floats:
    """[attribute, set] from [cluster, attribute]: added up over the clusters of the set."""
    found = np.zeros((alone.shape[1], 1))
    for mine in alone:
        found = np.concatenate([found, found + mine[:, None]], axis=1)
    return found


@njit(cache=True)
def of_choices(table: Any, choices: Any) -> Any:
    """What each choice adds up to in a table [attribute, set of clusters]."""
    found = np.zeros(len(choices))
    clusters = choices.shape[1]
    for i in range(len(choices)):
        seen = 0
        for c in range(clusters):
            if seen >> c & 1:
                continue
            mask = 0
            for d in range(c, clusters):
                if choices[i, d] == choices[i, c]:
                    mask |= 1 << d
            seen |= mask
            found[i] += table[choices[i, c], mask]
    return found


def mae(choice: Choice, reference: Choice) -> float:
    """The share of clusters whose attribute differs."""
    return float(np.mean([a != b for a, b in zip(choice, reference, strict=True)]))


def naive(exact: TabEE, counts: Counts, epsilon: float, random: np.random.Generator) -> tuple[int, ...]:
    """DP-Naive: geometric noise on every histogram, then TabEE. Each attribute has epsilon / |A|, half of it for the
    histogram of the table, half for those of the clusters, which are disjoint.
    """
    ratio = np.exp(-epsilon / (2 * len(counts)))
    used = np.zeros(exact.everyone.shape, dtype=bool)  # cells that exist: attributes have different numbers of values
    for a, table in enumerate(counts):
        used[a, : table.shape[1]] = True

    def noisy(values: Floats) -> Floats:
        noise = random.geometric(1 - ratio, values.shape) - random.geometric(1 - ratio, values.shape)
        return np.maximum(values + noise, 0) * used

    seen = TabEE(noisy(exact.inside), noisy(exact.everyone), exact.weights)
    return seen.best


def dp_tabee(exact: TabEE, epsilon: float, random: np.random.Generator) -> tuple[int, ...]:
    """DP-TabEE: the two stages of the paper, half of epsilon each, on TabEE's own measures with their sensitivity.

    The sensitivity is the published *lower* bound, 1/2: kinder to this baseline than a proof would be.
    """
    scale = 2 * PUBLISHED_SENSITIVITY * CANDIDATES * exact.clusters / (epsilon / 2)
    candidates = exact.candidates(exact.single + random.gumbel(0, scale, exact.single.shape))
    listed = np.array(list(itertools.product(*candidates)))
    scores = of_choices(exact.quality, listed)
    scores = scores + random.gumbel(0, 2 * PUBLISHED_SENSITIVITY / (epsilon / 2), len(listed))
    return tuple(int(a) for a in listed[scores.argmax()])
