"""The exponential mechanism over all ways to give candidates to slots, without listing them.

A combination gives each of C slots `uses` different ones of A candidates. Its score is the sum over candidates of
score[a, T], where T is the set of slots that use a. There are about A^(C uses) combinations; their weights are added up
candidate by candidate over the states "how often may each slot still choose", in A (2 uses + 1)^C steps, and a
combination is drawn by walking back.

Law         P(combination) ~ 2^(units / UNIT), units = sum over candidates of floor(rate * score[a, T]).
            A change of scores within a range of length r changes units within rate * r + 2 per candidate in use, so the
            loss is at most (rate * r + 2 C uses) ln 2 / UNIT, and so is the length of the range of losses.
Exactness   2^(k + f) is kept as an exact exponent k and the float 2^f, so only mantissas are rounded, by at most 2^-51
            a weight and a product. Walking back, a set T is drawn exactly in proportion to old[s - T] * weight[T]
            (whole numbers and fair bits), and the floats `old` of one step are the sums of the step before: they
            cancel along the walk, up to the rounding of each sum, at most 2^C + 8 units of 2^-52. So log P is off by at
            most ERROR = A (2^C + 8) 2^-52 for every combination, the loss by twice that, and the range of losses, which
            zCDP counts, by four times. `rate_for` pays for that.
References  McSherry, Talwar 2007; base two: Ilvento 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.rng import below
from dpexplain.errors import InputError, InternalError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

BITS = 30
UNIT = 2**BITS  # of the logarithm to the base two
LN2 = Fraction(math.log(2)) * (1 + Fraction(1, 2**50))  # a little above
NEAR = 1024  # binary orders below the largest weight that are looked at first
MOST_STATES, MOST_STEPS, MOST_WAYS = 2**21, 2**34, 2**26  # the last: 16 bytes each


def steps(candidates: int, slots: int, uses: int) -> int:
    """How much work a draw is; refused when it is too much, never approximated."""
    work, states = int(candidates * (2 * uses + 1) ** slots), (uses + 1) ** slots
    if states > MOST_STATES or work > MOST_STEPS or candidates * states > MOST_WAYS:
        raise InputError(
            f"{slots} groups with {uses} of {candidates} candidates each are too many to weigh all combinations.",
            hint='method="two-stage" chooses among a few candidates for each group',
            spent="",
        )
    return work


def rate_for(length: int, epsilon: Fraction, candidates: int, slots: int, uses: int) -> Fraction:
    """The largest rate whose loss is at most epsilon when scores change within a range of this length."""
    error = 4 * Fraction(candidates * (2**slots + 8), 2**52)
    units = Fraction((epsilon - error) / LN2 * UNIT - 2 * slots * uses)
    if units <= 0:
        raise InputError("with this epsilon the choice would be a draw by lot.", hint="use a larger epsilon", spent="")
    rate = min(units / length, Fraction(2**29))  # more would only be a surer choice than can be told from sure
    digits = 30 - (rate.numerator.bit_length() - rate.denominator.bit_length())  # 30 binary digits, rounded down
    power = Fraction(2) ** digits
    return Fraction(math.floor(rate * power)) / power


def draw(scores: Integers, rate: Fraction, *, uses: int = 1) -> list[list[int]]:
    """For each slot the `uses` candidates that the drawn combination gives it, in order of their number."""
    candidates, sets = scores.shape
    slots = sets.bit_length() - 1
    if sets != 2**slots or not 1 <= uses <= candidates:
        raise InternalError("the scores of a combination have another shape")
    steps(candidates, slots, uses)
    mantissas, exponents = _powers_of_two(_units(scores, rate))
    free, step = _states(slots, uses)
    ways = _ways(mantissas, exponents, free, step)
    chosen: list[list[int]] = [[] for _ in range(slots)]
    state = len(free) - 1
    for a in reversed(range(candidates)):
        old_mantissas, old_exponents = ways[a]
        subsets = _subsets(int(free[state]))
        before = state - step[subsets]
        weights = old_mantissas[before] * mantissas[a, subsets]
        taken = int(subsets[pick(weights, old_exponents[before] + exponents[a, subsets])])
        for slot in range(slots):
            if taken >> slot & 1:
                chosen[slot].insert(0, a)
        state -= int(step[taken])
    return chosen


def pick(mantissas: Floats, exponents: Integers) -> int:
    """An index, with probability exactly proportional to mantissa * 2^exponent.

    Weights more than NEAR orders below the largest stand for a share of less than 2^(17 - NEAR): a bound on that share
    is enough until a draw falls into it, which never happens, but would be served exactly.
    """
    whole = (np.ldexp(mantissas, 54)).astype(np.int64)  # exact: mantissas are zero or lie in [1/4, 1)
    some = whole > 0
    top = int(exponents[some].max())
    near, far = (np.flatnonzero(some & ((exponents > top - NEAR) == is_near)) for is_near in (True, False))
    near = near[np.argsort(-exponents[near], kind="stable")]  # by orders, the largest first
    groups = np.split(near, np.flatnonzero(np.diff(exponents[near])) + 1)
    shifts = [int(exponents[group[0]]) - top + NEAR for group in groups]
    totals = [_exact_sum(whole[group]) << shift for group, shift in zip(groups, shifts, strict=True)]
    bound = (len(far) << 56) if len(far) else 0  # each far weight is below 2^54 at the lowest near order
    while True:
        left = below(sum(totals) + bound)
        for group, shift, total in zip(groups, shifts, totals, strict=True):
            if left < total:
                return _walk(group, [int(w) for w in whole[group]], left >> shift)
            left -= total
        exact = [Fraction(int(whole[i])) * Fraction(2) ** int(exponents[i] - top + NEAR) for i in far]
        common = math.lcm(*(f.denominator for f in exact))
        left = left * common + below(common)
        if left < sum(exact) * common:
            return _walk(far, [int(f * common) for f in exact], left)


def _walk(indices: NDArray[np.intp], weights: Sequence[int], left: int) -> int:
    for index, weight in zip(indices, weights, strict=True):
        if left < weight:
            return int(index)
        left -= weight
    raise InternalError("a draw went past its last weight")


def _exact_sum(values: Integers) -> int:
    """Of whole numbers below 2^54, at most 2^30 of them."""
    return (int((values >> 27).sum()) << 27) + int((values & (2**27 - 1)).sum())


def _units(scores: Integers, rate: Fraction) -> Integers:
    """floor(rate * score), exactly: rate is a whole number of at most 30 binary digits times a power of two."""
    digits = max(rate.numerator.bit_length(), 1)
    if digits > 31 or rate.denominator & (rate.denominator - 1):
        raise InternalError("a rate has more digits than its products can hold")
    shift = rate.denominator.bit_length() - 1
    largest = int(np.abs(scores).max(initial=0))
    if largest * rate.numerator >> shift >= 2**61 or largest >= 2**60:
        raise InternalError("the scores of a combination are too large")
    high, low = scores >> 30, scores & (2**30 - 1)
    if shift >= 30:
        return (high * rate.numerator + (low * rate.numerator >> 30)) >> (shift - 30)
    return ((high * rate.numerator) << (30 - shift)) + (low * rate.numerator >> shift)


def _powers_of_two(units: Integers) -> tuple[Floats, Integers]:
    """2^(units / UNIT) as a float in [1/2, 1) times a power of two."""
    return np.exp2((units & (UNIT - 1)) / UNIT) / 2, (units >> BITS) + 1


def _states(slots: int, uses: int) -> tuple[Integers, Integers]:
    """For each state the set of slots that may still choose; for each set of slots the difference of states."""
    base, states = uses + 1, (uses + 1) ** slots
    number = np.arange(states)
    free = np.zeros(states, dtype=np.int64)
    step = np.zeros(2**slots, dtype=np.int64)
    for slot in range(slots):
        free |= ((number // base**slot % base > 0) << slot).astype(np.int64)
        step += ((np.arange(2**slots) >> slot & 1) * base**slot).astype(np.int64)
    return free, step


def _subsets(mask: int) -> Integers:
    found = np.zeros(1, dtype=np.int64)
    for slot in range(mask.bit_length()):
        if mask >> slot & 1:
            found = np.concatenate([found, found | 1 << slot])
    return found


def _ways(mantissas: Floats, exponents: Integers, free: Integers, step: Integers) -> list[tuple[Floats, Integers]]:
    """ways[a][s]: the weight of all ways to reach state s with the candidates before a."""
    from dpexplain.core.subsets import REACH, add_candidate

    scale = np.exp2(np.arange(REACH + 1) - REACH)
    old = np.zeros(len(free)), np.zeros(len(free), dtype=np.int64)
    old[0][0] = 0.5
    old[1][0] = 1
    ways = [old]
    for weights, powers in zip(mantissas[:-1], exponents[:-1], strict=True):
        new = np.empty(len(free)), np.empty(len(free), dtype=np.int64)
        add_candidate(*ways[-1], weights, powers, free, step, scale, *new)
        ways.append(new)
    return ways
