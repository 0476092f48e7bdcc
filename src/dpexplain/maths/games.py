"""Which interventions a row is asked about, and how the answers become its influences.

A coalition S is a set of inputs, a mask of bits; o(S) is the outcome of a row whose inputs in S were replaced. An
influence is a sum of such outcomes with weights that add up to zero:

    set        o() - o(S)                                                            for each set asked for
    marginal   o(G) - o(G + j)                                                       for each input j, G given
    Shapley    the mean of o(S) - o(S + j) over all orders, S being the inputs before j
    Banzhaf    the mean of o(S) - o(S + j) over all sets S without j

A plan says which outcomes are asked for, its columns, and holds the weights as whole numbers over one denominator, so
that a row's influences are exact. Shapley and Banzhaf values are exact up to `EXACT` inputs; beyond, or when asked for,
orders (or sets) are drawn with a public seed, each with its reverse (or its complement), and the same for all inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpexplain.data.public_random import PublicRandom
from dpexplain.errors import InputError, InternalError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

EXACT = 13  # inputs whose 2^13 sets can all be asked
MOST_INPUTS = 62  # a mask is a whole number of 64 bits
MOST_COLUMNS = 2**20
MOST_WEIGHT = 2**31  # of a line, all signs alike: times outcomes below 2^32, its sums stay inside 64 bits
PATTERNS = 2**16  # of signs that are tried for an exact bound
WORK = 2**31  # multiplications that an exact bound may take
ROUNDS = 60  # of the search for the weights that prove the Euclidean bound


@dataclass(frozen=True, eq=False)
class Plan:
    """Column c is the outcome o(masks[c]) with the values of draw draws[c]. Influences: weights @ o / denominator."""

    inputs: int
    masks: Integers
    draws: Integers
    weights: Integers  # one line for each influence
    denominator: int

    @property
    def size(self) -> int:
        return len(self.weights)

    @property
    def asked(self) -> int:
        """How many outcomes of a changed row are asked for."""
        return int((self.masks != 0).sum())

    @property
    def most_draws(self) -> int:
        """How many other values of each input a row needs."""
        return int(self.draws.max(initial=0)) + 1

    def divided(self, sums: Integers) -> Integers:
        """Weighted sums of whole outcomes, divided and rounded toward zero: norms never grow by rounding."""
        exact: Integers = np.sign(sums) * (np.abs(sums) // self.denominator)
        return exact


@dataclass(frozen=True)
class Norms:
    """How large the influences of one row can be, in whole steps, whatever outcomes in {0..levels} its model gives."""

    l1: int
    l2_squared: int
    linf: int


def sets_plan(inputs: int, masks: Sequence[int], draws: int, given: int = 0) -> Plan:
    """o(given) - o(given + S) for each S, a mean over draws."""
    _check(inputs, draws, draws * (len(masks) + 1))
    if not masks or any(mask | given == given for mask in masks):
        raise InputError(
            "a set of inputs that are all given, and so replaced already, has no influence of its own.",
            hint="each set needs a feature that is not in given",
        )
    plan = outcomes_plan(inputs, masks, draws, given, 1)
    return replace(plan, weights=plan.weights[1:] + plan.weights[:1])


def outcomes_plan(inputs: int, masks: Sequence[int], draws: int, given: int, base_weight: int) -> Plan:
    """-o(given + S) for each set S, a mean over draws; and, before them, the weighted o(given) if it has a weight."""
    columns = [(t, mask) for t in range(draws) for mask in dict.fromkeys([given, *(given | m for m in masks)])]
    if not given:  # the outcome of a row as it is does not depend on the draw
        columns = [(0, 0), *(column for column in columns if column[1])]
    place = {column: c for c, column in enumerate(columns)}
    weights = np.zeros((len(masks) + 1, len(columns)), dtype=np.int64)
    for t in range(draws):
        weights[0, place[(t, given) if given else (0, 0)]] += base_weight
        for line, mask in enumerate(masks, 1):
            weights[line, place[t, given | mask]] -= 1
    drawn, asked = np.array(columns, dtype=np.int64).T
    return Plan(inputs, asked, drawn, weights if base_weight else weights[1:], draws)


def exact_plan(inputs: int, aggregate: str, draws: int) -> Plan:
    """Shapley or Banzhaf values over all 2^inputs sets, a mean over draws."""
    if inputs > EXACT:
        raise InputError(
            f"exact enumeration of the sets of {inputs} inputs is too long; {EXACT} inputs are the most.",
            hint="leave samples out or give their number, or name fewer features",
        )
    if aggregate not in ("shapley", "banzhaf"):
        raise InputError(f"unknown aggregate {aggregate!r}.", hint='use "shapley" or "banzhaf"')
    _check(inputs, draws, draws * 2**inputs)
    M, masks = inputs, range(2**inputs)
    if aggregate == "shapley":  # how often a set of this size stands before an input, of `factor` times
        factor, share = math.factorial(M), [math.factorial(b) * math.factorial(M - 1 - b) for b in range(M)]
    else:
        factor, share = 2 ** (M - 1), [1] * M
    each = np.zeros((M, 2**M), dtype=np.int64)
    for mask in masks:
        for j in range(M):
            each[j, mask] = -share[mask.bit_count() - 1] if mask >> j & 1 else share[mask.bit_count()]
    # the outcome of a row as it is does not depend on the draw
    columns = [(0, 0)] + [(t, mask) for t in range(draws) for mask in masks if mask]
    weights = np.concatenate([draws * each[:, :1], *([each[:, 1:]] * draws)], axis=1)
    return _plan(M, columns, weights, factor * draws)


def orders_plan(inputs: int, samples: int, draws: int, seed: int) -> Plan:
    """Shapley values from `samples` drawn orders, every second one the reverse of the one before it.

    Pairs take turns with the draws of other values. The fewer draws, the more outcomes are shared, and the smaller
    the bound.
    """
    _check(inputs, draws, min(samples * inputs, draws * 2**inputs), samples)
    M, public = inputs, PublicRandom(seed)
    orders: list[list[int]] = []
    while len(orders) < samples:
        order = public.generator.permutation(M).tolist()
        orders += [order, order[::-1]]
    place, entries = {(0, 0): 0}, list[tuple[int, int, int]]()  # columns in the order of their first use
    for number, order in enumerate(orders[:samples]):
        before, mask = 0, 0
        for j in order:
            mask |= 1 << j
            after = place.setdefault((number // 2 % draws, mask), len(place))
            entries += [(j, before, 1), (j, after, -1)]
            before = after
    weights = np.zeros((M, len(place)), dtype=np.int64)
    for line, column, sign in entries:
        weights[line, column] += sign
    return _plan(M, list(place), weights, samples)


def coalitions_plan(inputs: int, samples: int, draws: int, seed: int) -> Plan:
    """Banzhaf values from `samples` drawn sets (one more, if odd), every second one the complement of the one before.

    Half of them contain j, so the value of j is the mean over the others less the mean over these.
    """
    _check(inputs, draws, samples, samples)
    M, public = inputs, PublicRandom(seed)
    full, pairs = 2**M - 1, -(-samples // 2)
    drawn = [sum(1 << j for j in range(M) if bit[j]) for bit in public.generator.integers(2, size=(pairs, M))]
    place, weights = {(0, 0): 0}, np.zeros((M, 1 + 2 * pairs), dtype=np.int64)
    for number, mask in enumerate(drawn):
        for here in (mask, full ^ mask):
            column = place.setdefault((number % draws if here else 0, here), len(place))
            weights[:, column] += [-1 if here >> j & 1 else 1 for j in range(M)]
    return _plan(M, list(place), weights[:, : len(place)], pairs)


DRAWN: dict[str, Callable[[int, int, int, int], Plan]] = {"shapley": orders_plan, "banzhaf": coalitions_plan}


def _check(inputs: int, draws: int, columns: int, samples: int = 1) -> None:
    if min(inputs, draws, samples) < 1:
        raise InputError("a plan needs inputs, draws and samples, at least one of each.")
    if inputs > MOST_INPUTS:
        raise InputError(f"{inputs} inputs are too many; {MOST_INPUTS} is the most.", hint="name fewer features")
    if max(columns, samples) > MOST_COLUMNS:
        raise InputError(
            f"this plan asks for {max(columns, samples):,} outcomes of every row; {MOST_COLUMNS:,} is the most.",
            hint="use fewer samples, or fewer features",
        )


def _plan(inputs: int, columns: Sequence[tuple[int, int]], weights: Integers, denominator: int) -> Plan:
    divisor = math.gcd(denominator, int(np.gcd.reduce(weights.ravel())))
    weights, denominator = weights // divisor, denominator // divisor
    if int(np.abs(weights).sum(axis=1).max()) >= MOST_WEIGHT:
        raise InternalError("the weights of a plan are too large for exact sums")
    draws, masks = np.array(columns, dtype=np.int64).T
    return Plan(inputs, masks, draws, weights, denominator)


def norms(plan: Plan, levels: int) -> Norms:
    """Bounds on the influences of one row, whatever its outcomes in {0..levels} are: every column may be any of them.

    With A = weights / denominator, whose lines add up to zero, they are A s times levels / 2 for some |s_c| <= 1. Each
    of them is at most the sum of absolute weights of its line; their sum and their Euclidean norm are found by trying
    all signs where these are few. Else |A s|^2 <= lmax(A W^-1 A') sum_c w_c for any w > 0, and a short search finds a
    small one. Proofs: docs/methods/influence.md, "What one row adds".
    """
    W, unit = _merged(plan.weights), 2 * plan.denominator
    lines = [int(line) for line in np.abs(W).sum(axis=1)]
    squared = min(_euclidean_squared(W), Fraction(sum(line**2 for line in lines)))
    total = min(_sum_of_absolutes(W), math.isqrt(math.floor(plan.size * squared)))
    l1, linf = levels * total // unit, levels * max(lines) // unit
    # |v|_2^2 <= |v|_1 |v|_inf
    return Norms(l1, min(math.floor(levels**2 * squared / unit**2), l1 * linf), linf)


def _merged(weights: Integers) -> Integers:
    """One column for all that point along the same line, as long as they are together."""
    W = weights[:, weights.any(axis=0)]
    first = W[(W != 0).argmax(axis=0), np.arange(W.shape[1])]
    length = np.gcd.reduce(W, axis=0) * np.sign(first)
    directions, place = np.unique(W // length, axis=1, return_inverse=True)
    together = np.zeros(directions.shape[1], dtype=np.int64)
    np.add.at(together, place.ravel(), np.abs(length))
    merged: Integers = directions * together
    return merged


def _sum_of_absolutes(W: Integers) -> int:
    """max over signs t of |W' t|_1, all of them tried; the sum of the lines' bounds where they are too many."""
    size, columns = W.shape
    if 2 ** (size - 1) > PATTERNS or 2 ** (size - 1) * W.size > WORK:
        return int(np.abs(W).sum())
    # whole numbers in floats, exact below 2^53 and much faster
    A, found = W.astype(np.float64), 0.0
    for signs in _signs(size, columns):
        found = max(found, float(np.abs(signs @ A).sum(axis=1).max()))
    return int(found)


def _euclidean_squared(W: Integers) -> Fraction:
    """An upper bound of max |W s|_2^2 over |s_c| <= 1: the largest one itself where columns are few."""
    size, columns = W.shape
    if 2 ** (columns - 1) <= PATTERNS:
        A, found = W.T.astype(np.float64), 0.0
        for signs in _signs(columns, size):
            found = max(found, float(((signs @ A) ** 2).sum(axis=1).max()))
        return Fraction(found) if found < 2**53 else Fraction(found * (1 + 1e-12))
    # the sums of a product of matrices are off by less than columns x size x 2^-53 of its largest eigenvalue
    slack = 1e-9 + columns * size * 2.0**-50
    return Fraction(_by_weights(W.astype(np.float64)) * (1 + slack))


def _by_weights(A: Floats) -> float:
    """A bound on |A s|^2 over |s_c| <= 1, by weights w (see `norms`).

    The best w are w_c = sqrt(a_c' X a_c), X >= 0 of trace one among the top directions of A W^-1 A'. X is turned
    towards them again and again.
    """
    X, best = np.eye(len(A)) / len(A), math.inf
    for _ in range(ROUNDS):
        w = np.sqrt(np.maximum((A * (X @ A)).sum(axis=0), 0.0))
        w = np.maximum(w / w.sum(), 1e-12)
        G = (A / w) @ A.T
        best = min(best, float(np.linalg.eigvalsh(G)[-1]) * float(w.sum()))
        X = G @ X @ G
        X /= np.trace(X)
    return best


def _signs(size: int, width: int) -> Iterator[Floats]:
    """All patterns of signs, the first sign being +1, in blocks that stay small beside `width` numbers for each."""
    patterns = 2 ** (size - 1)
    block = max(1, 2**20 // max(size, width))
    for start in range(0, patterns, block):
        codes = np.arange(start, min(start + block, patterns))
        rest = 1.0 - 2.0 * (codes[:, None] >> np.arange(size - 1) & 1)
        yield np.concatenate([np.ones((len(codes), 1)), rest], axis=1)
