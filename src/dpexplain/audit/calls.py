"""What an explainer can hand to the sampler, and the laws of what comes back from a choice.

The probabilities of all outcomes of a choice are computed, not sampled: permute-and-flip in a pure account, Gumbel
noise (the exponential mechanism) in a zCDP account, k choices one after the other, and combinations of candidates.
References  McSherry, Talwar 2007; McKenna, Sheldon 2020 (permute-and-flip); Ding et al. 2021 (as exponential noise).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpexplain.core.budget import Cost, Definition
from dpexplain.core.combinations import UNIT
from dpexplain.core.mechanisms import Selection
from dpexplain.core.noise import Noise
from dpexplain.core.sensitivity import ScoreRange, Sensitivity
from dpexplain.errors import InternalError

Floats = NDArray[np.float64]
Probabilities = dict[Any, float]  # of the outcomes of a choice, as logarithms

MAX_OUTCOMES = 100_000  # of a choice, listed
_ORDERS = 1 + np.logspace(-3, 3, 193)  # of the Renyi divergence; those of `bounds.rho` are among them


@dataclass(frozen=True)
class Sum:
    """A vector that gets noise."""

    values: tuple[int, ...]
    noise: Noise
    bound: Sensitivity
    cost: Cost

    @property
    def public(self) -> Any:
        """What must not depend on rows."""
        return len(self.values), self.noise, self.bound, self.cost


@dataclass(frozen=True)
class Choice:
    """Candidates, of which the noisily best are chosen."""

    scores: tuple[int, ...]
    law: Selection
    change: ScoreRange
    cost: Cost

    @property
    def public(self) -> Any:
        return len(self.scores), self.law, self.change, self.cost


@dataclass(frozen=True)
class Combination:
    """What each candidate adds for each set of slots; a combination of candidates is drawn."""

    scores: tuple[tuple[int, ...], ...]
    rate: Fraction
    uses: int

    @property
    def public(self) -> Any:
        return len(self.scores), len(self.scores[0]), self.rate, self.uses


Call = Sum | Choice | Combination


def laws(calls: Sequence[Call]) -> list[Probabilities]:
    """For each choice the logarithms of the probabilities of its outcomes."""
    return [
        _combination_law(c) if isinstance(c, Combination) else _choice_law(c) for c in calls if not isinstance(c, Sum)
    ]


@lru_cache(maxsize=64)
def _choice_law(call: Choice) -> Probabilities:
    """k choices one after the other, each among what is left."""
    step = _flip if call.cost.definition is Definition.PURE else _softmax
    scores, k = np.array(call.scores, dtype=np.float64) / float(call.law.scale), call.law.k
    law: Probabilities = {(): 0.0}
    for _ in range(k):
        longer: Probabilities = {}
        for chosen, log in law.items():
            left = [i for i in range(len(scores)) if i not in chosen]
            for i, more in zip(left, step(scores[left]).tolist(), strict=True):
                longer[(*chosen, i)] = log + more
        if len(longer) > MAX_OUTCOMES:
            raise InternalError("a choice has too many outcomes to list them")
        law = longer
    return law


def _softmax(scores: Floats) -> Floats:
    """Gumbel noise is the exponential mechanism."""
    logs: Floats = scores - logsumexp(scores)
    return logs


def _flip(scores: Floats) -> Floats:
    """Permute-and-flip is exponential noise on each score: with a_i = exp(score_i - best), the noisy best is i with
    probability a_i times the integral over u in [0, 1] of prod_{j != i} (1 - a_j u).
    """
    a = np.exp(scores - scores.max())
    distinct, back, many = np.unique(a, return_inverse=True, return_counts=True)
    ends = np.concatenate([[0.0], np.geomspace(1e-3 / len(a), 1.0, 60)])
    nodes, weights = np.polynomial.legendre.leggauss(20)
    u = (ends[:-1, None] + np.diff(ends)[:, None] * (nodes + 1) / 2).ravel()
    w = (np.diff(ends)[:, None] * weights / 2).ravel()
    each = np.log1p(-np.outer(distinct, u))
    all_but_one = many @ each - each
    logs: Floats = (np.log(distinct) + logsumexp(all_but_one, axis=1, b=w))[back]
    return logs


def _combination_law(call: Combination) -> Probabilities:
    slots = len(call.scores[0]).bit_length() - 1
    ways = list(itertools.combinations(range(len(call.scores)), call.uses))
    if len(ways) ** slots > MAX_OUTCOMES:
        raise InternalError("there are too many combinations to list them")
    combinations = list(itertools.product(ways, repeat=slots))
    units = [[math.floor(call.rate * score) for score in line] for line in call.scores]

    def added(a: int, combination: Sequence[tuple[int, ...]]) -> int:
        """What candidate a adds: by the set of slots that use it."""
        return units[a][sum(1 << slot for slot, chosen in enumerate(combination) if a in chosen)]

    logs = [math.log(2) * (sum(added(a, one) for a in range(len(units))) / UNIT) for one in combinations]
    total = float(logsumexp(logs))
    return {combination: log - total for combination, log in zip(combinations, logs, strict=True)}


def renyi(left: list[Probabilities], right: list[Probabilities]) -> float:
    """The largest D_alpha / alpha, in both directions; divergences of independent choices add up."""
    both = 0.0
    for ones, twos in ((left, right), (right, left)):
        total = np.zeros(len(_ORDERS))
        for one, two in zip(ones, twos, strict=True):
            p, q = np.array([one[key] for key in one]), np.array([two[key] for key in one])
            total += logsumexp(np.outer(_ORDERS, p) + np.outer(1 - _ORDERS, q), axis=1) / (_ORDERS - 1)
        both = max(both, float((total / _ORDERS).max()))
    return both
