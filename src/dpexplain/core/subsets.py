"""The one compiled loop of the core: adding up the weights of all ways to give candidates to slots.

Numbers are kept as mantissa * 2^exponent, so none overflows, and a term is left out of a sum only where a float would
not feel it. Kept in a file of its own because it
needs numba, which is an extra.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

REACH = 1080  # terms so many binary orders below the largest add nothing to a float


@njit(cache=True)
def add_candidate(
    mantissas: Floats, exponents: Integers, weights: Floats, powers: Integers, free: Integers, step: Integers,
    scale: Floats, new_mantissas: Floats, new_exponents: Integers,
) -> None:  # fmt: skip
    """new[s] = sum over subsets T of free[s] of old[s - step[T]] * weight[T], for every state s.

    old and weight are mantissa * 2^exponent; a mantissa of zero is no way at all. scale[i] = 2^(i - REACH).
    """
    one = np.uint64(1)  # places are unsigned: the compiler then asks of none whether it counts from the end
    for number in range(len(free)):
        state, slots = np.uint64(number), np.uint64(free[number])
        total, largest = 0.0, np.int64(-(2**62))
        subset = slots
        while True:
            before = state - np.uint64(step[subset])
            if mantissas[before] > 0.0:
                power = exponents[before] + powers[subset]
                below = power - largest
                if below > 0:  # a new largest term: the sum so far moves down by a power of two, exactly
                    total = (
                        total * (scale[REACH - below] if below < REACH else 0.0) + mantissas[before] * weights[subset]
                    )
                    largest = power
                elif below > -REACH:
                    total += mantissas[before] * weights[subset] * scale[np.uint64(below + REACH)]
            if subset < one:
                break
            subset = (subset - one) & slots
        if total > 0.0:
            mantissa, shift = math.frexp(total)
            new_mantissas[state] = mantissa
            new_exponents[state] = largest + shift
        else:
            new_mantissas[state] = 0.0
            new_exponents[state] = 0
