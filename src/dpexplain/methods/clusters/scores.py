"""How well attributes explain clusters: three measures of the paper in whole numbers, and how far they can move.

h_cv    rows of cluster c with value v of an attribute; n_c = sum_v h_cv; h_v and n the same over all rows
Int     1/2 sum_v |h_cv - n_c h_v / n|             how far the cluster's histogram is from that of all rows
Suf     sum_v h_cv^2 / h_v                         how well the value tells that a row is in the cluster
Pen     sum_v min(h_cv n_d, h_dv n_c) / max(n_c, n_d)     how much two clusters c, d that share an attribute look alike

Each is at most n_c and is kept in steps of 1 / `steps` of a row, rounded down from exact arithmetic. The diversity of a
pair in the paper is min(n_c, n_d) - Pen for a shared attribute and min(n_c, n_d) otherwise. The sum of the minima is
the same for all combinations, and what is added to all of them changes no choice: a combination loses the Pen of the
pairs that share an attribute, and nothing else. With L = uses * clusters explanations in all, its score is

    sum over explanations of (l_Int Int + l_Suf Suf) / L  -  sum over sharing pairs of l_Div Pen / (L (L - 1) / 2),

times a whole number that makes all factors whole.

docs/methods/clusters.md proves how far they move (`combination_range`, `joint_range`, `cluster_range`): of a pair of
tables the spread is bounded, the largest change of a combination less the smallest. Rounding down keeps a change within
whole bounds; where several changes have one bound in sum, Int and Suf of one attribute, each pays a step. The paper's
bound is one of the same spread, so the smaller of the two holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.combinations import UNIT
from dpexplain.core.sensitivity import Neighbours, ScoreRange
from dpexplain.errors import InputError
from dpexplain.methods.clusters.request import Weights

Integers = NDArray[np.int64]

UNIT_BITS = 30  # of a row in the score of a combination
STEP_BITS = (10, 20)  # of a row in a measure: at least, at most
FIT = 2**31  # tables of fewer rows are scored in 64 bits, larger ones with Python's own integers
LARGEST = 2**59  # of a score
CUT = (
    8  # what is not among the candidates is kept apart by larger numbers than scores have: these are cut so much lower
)
FAR = 256  # binary orders of weight between what is among the candidates and what is not


@dataclass(frozen=True)
class Scoring:
    """The public side of the scores: how many clusters, how many attributes each gets, what counts how much."""

    clusters: int
    uses: int
    weights: Weights

    @property
    def factors(self) -> tuple[int, int, int]:
        """What one step of Int, of Suf and of Pen counts in the score of a combination."""
        others = self.uses * self.clusters - 1
        w = self.weights
        common = math.gcd(w.interest * others, w.sufficiency * others, 2 * w.diversity)
        return w.interest * others // common, w.sufficiency * others // common, 2 * w.diversity // common

    @property
    def whole(self) -> int:
        """What a combination scores whose Int, Suf and pair diversities are all one step."""
        explanations = self.uses * self.clusters
        interest, sufficiency, penalty = self.factors
        return explanations * (interest + sufficiency) + explanations * (explanations - 1) // 2 * penalty

    @property
    def steps(self) -> int:
        """Steps of a row in each measure."""
        least, most = STEP_BITS
        return int(2 ** min(most, max(least, UNIT_BITS - self.whole.bit_length())))

    @property
    def unit(self) -> int:
        """What one row is in the score of a combination."""
        return self.whole * self.steps

    @property
    def cluster_unit(self) -> int:
        """What one row is in the score of an attribute for a single cluster."""
        return (self.weights.interest + self.weights.sufficiency) * self.steps

    def combination_range(self, neighbours: Neighbours, bounds: str) -> ScoreRange:
        """In which the score of a combination can change, all combinations together: the smaller of two bounds on the
        largest change less the smallest one.
        """
        times = _times(neighbours)
        published = 2 * times * self.unit  # every score moves by at most one row, either way
        if bounds == "paper":
            return _range(neighbours, published)
        interest, suf, pen = self.factors
        clusters, others, steps = self.clusters, self.clusters - 1, self.steps
        lost = max(suf * clusters + pen, 2 * suf + pen * others) * steps
        moves = lost + pen * others * steps + suf * others
        ours = interest * ((2 + 2 * times) * steps + 2 * clusters) + times * moves
        return _range(neighbours, min(published, self.uses * ours))

    def joint_range(self, neighbours: Neighbours) -> ScoreRange:
        """The sum over clusters of the ranges in which the scores of their attributes can change."""
        times, w = _times(neighbours), self.weights
        interest = w.interest * ((2 + 2 * times) * self.steps + 2 * self.clusters)
        return _range(neighbours, interest + w.sufficiency * times * self.steps * self.clusters)

    def cluster_range(self, neighbours: Neighbours, bounds: str) -> ScoreRange:
        """In which the scores of the attributes of one cluster can change."""
        times, w = _times(neighbours), self.weights
        if bounds == "paper":
            return _range(neighbours, 2 * times * self.cluster_unit)
        return _range(neighbours, (2 * w.interest + times * w.sufficiency) * self.steps)


def _times(neighbours: Neighbours) -> int:
    """1 where a row comes or goes; 2 where one leaves and another comes."""
    return neighbours.changed_rows // neighbours.rows


def _range(neighbours: Neighbours, length: int) -> ScoreRange:
    """Only the length counts. A unit of k rows is k rows that come or go, or are replaced, one after the other."""
    return ScoreRange(neighbours, 0, neighbours.rows * length)


@dataclass(frozen=True)
class Measures:
    """In steps: Int and Suf as [cluster, attribute], Pen as [cluster, cluster, attribute]."""

    interest: Integers
    sufficiency: Integers
    penalty: Integers


def measure(tables: Sequence[Integers], steps: int, most_rows: int) -> Measures:
    """The three measures from the counts [cluster or other, value] of each attribute; none above `most_rows`.

    Cutting at a public number moves nothing further than it moved before, and keeps sums within 64 bits.
    """
    width = max(table.shape[1] for table in tables)
    counts: Any = np.stack([np.pad(table, ((0, 0), (0, width - table.shape[1]))) for table in tables], axis=1)
    n = int(tables[0].sum())
    if n >= FIT:
        counts = counts.astype(object)
    everyone, inside = counts.sum(axis=0), counts[:-1]  # [attribute, value], [cluster, attribute, value]
    sizes = inside[:, 0].sum(axis=1)
    off = abs(n * inside - sizes[:, None, None] * everyone).sum(axis=2)
    own = _steps(inside * inside, np.maximum(everyone, 1), steps).sum(axis=2)
    alike = np.stack([_overlap(inside, sizes, c, steps) for c in range(len(inside))])
    exact = (_steps(off, 2 * max(n, 1), steps), own, alike)
    return Measures(*(np.minimum(values, steps * most_rows).astype(np.int64) for values in exact))


def _overlap(inside: Any, sizes: Any, c: int, steps: int) -> Any:
    """Pen of cluster c with every cluster."""
    shared = np.minimum(inside[c] * sizes[:, None, None], inside * sizes[c]).sum(axis=2)
    return _steps(shared, np.maximum(np.maximum(sizes, sizes[c]), 1)[:, None], steps)


def _steps(over: Any, under: Any, steps: int) -> Any:
    """floor(steps * over / under), without ever multiplying a large number by `steps`."""
    return over // under * steps + over % under * steps // under


def most_rows(scoring: Scoring, rate: float = 0.0, cut: int = 1) -> int:
    """The largest measure, in rows, whose scores fit into 64 bits, `cut` times over, also multiplied with a rate."""
    return max(1, min(LARGEST // cut // scoring.unit, math.floor(LARGEST / cut / (max(rate, 1e-30) * scoring.unit))))


def single_scores(measures: Measures, scoring: Scoring) -> Integers:
    """[cluster, attribute]: what the paper's first stage ranks by."""
    return scoring.weights.interest * measures.interest + scoring.weights.sufficiency * measures.sufficiency


def combination_scores(measures: Measures, scoring: Scoring) -> Integers:
    """[attribute, set of clusters]: what an attribute adds to a combination in which these clusters use it."""
    interest, sufficiency, penalty = scoring.factors
    alone = interest * measures.interest + sufficiency * measures.sufficiency
    attributes = alone.shape[1]
    scores = np.zeros((attributes, 1), dtype=np.int64)
    for c in range(scoring.clusters):  # sets that contain c and none after it, from those that end before it
        lost = np.zeros((attributes, 1), dtype=np.int64)
        for d in range(c):
            lost = np.concatenate([lost, lost + penalty * measures.penalty[c, d][:, None]], axis=1)
        scores = np.concatenate([scores, scores + alone[c][:, None] - lost], axis=1)
    return scores


def among(scores: Integers, candidates: Sequence[Sequence[int]], rate: Fraction) -> Integers:
    """The scores [attribute, set of clusters] of a choice in which each cluster has candidates of its own.

    A set with a cluster whose candidate the attribute is not loses a public number of steps, `apart`. Candidates were
    released before, so the same is taken from the scores of all tables, and no range grows. With measures cut at an
    eighth of `most_rows`, two combinations differ by apart / 2 at most; so one with such a set has at most 2^-FAR of
    the weight of one without. That it is drawn is as good as impossible, and nothing private would depend on it.
    """
    foreign = np.zeros(scores.shape, dtype=bool)
    for c, mine in enumerate(candidates):
        used = np.arange(scores.shape[1]) >> c & 1
        foreign |= np.outer(~np.isin(np.arange(len(scores)), mine), used).astype(bool)
    lower: Integers = scores - apart(rate) * foreign
    return lower


def apart(rate: Fraction) -> int:
    """How far what is among the candidates and what is not are kept apart; refused where that would not be enough."""
    steps = math.floor(LARGEST / (2 * max(rate, Fraction(1))))
    if steps * rate < 2 * FAR * UNIT:
        raise InputError("with this epsilon the choice would be a draw by lot.", hint="use a larger epsilon", spent="")
    return steps


def listed_scores(measures: Measures, scoring: Scoring, choices: Sequence[Sequence[Sequence[int]]]) -> Integers:
    """The scores of all combinations of one choice for each cluster, a choice being `uses` attributes.

    In the order of itertools.product: the choice of the last cluster changes fastest.
    """
    interest, sufficiency, penalty = scoring.factors
    alone = interest * measures.interest + sufficiency * measures.sufficiency
    scores = np.zeros(1, dtype=np.int64)
    earlier: list[Integers] = []  # for each cluster so far, the number of its choice in every combination
    for c, options in enumerate(choices):
        own = np.array([sum(int(alone[c, a]) for a in option) for option in options])
        new = scores[:, None] + own[None, :]
        for d, taken in enumerate(earlier):
            shared = [
                [sum(int(measures.penalty[c, d, a]) for a in set(x) & set(y)) for y in options] for x in choices[d]
            ]
            new = new - penalty * np.array(shared)[taken]
        earlier = [np.repeat(taken, len(options)) for taken in earlier]
        earlier.append(np.tile(np.arange(len(options)), len(scores)))
        scores = new.reshape(-1)
    return scores
