"""Secret randomness. Everything here comes from the operating system's entropy and has no seed.

This is the only module that makes random bits for privacy; `data/public_random.py` makes the seeded, public ones.
The exact Bernoulli(exp(-x)) and geometric samplers follow Canonne, Kamath and Steinke (2020), Algorithms 1 and 2:
integer arithmetic only, so the law is the stated one and not a float's approximation of it.
"""

from __future__ import annotations

import secrets
from fractions import Fraction

below = secrets.randbelow  # an exact uniform integer in {0, ..., n - 1}
secret_bytes = secrets.token_bytes


def bernoulli_exp(numerator: int, denominator: int) -> bool:
    """True with probability exp(-numerator / denominator), for a fraction in [0, 1].

    The first k at which a Bernoulli(x / k) fails is odd with probability 1 - x + x^2/2! - ... = exp(-x).
    """
    k = 1
    while below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def geometric(rate: Fraction) -> int:
    """An integer x >= 0 with probability proportional to exp(-rate x), exactly."""
    s, t = rate.numerator, rate.denominator
    while True:  # the remainder modulo t, by rejection
        remainder = below(t)
        if bernoulli_exp(remainder, t):
            break
    quotient = 0
    while bernoulli_exp(1, 1):
        quotient += 1
    return (remainder + t * quotient) // s
