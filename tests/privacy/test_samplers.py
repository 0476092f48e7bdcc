"""Is the noise right? Every sampler against its exact law, and beside it a sampler that must be rejected.

Each test draws the stated number of values and rejects a correct sampler with probability about 1e-6 (`FALSE_ALARM`).
The broken siblings have power above 1 - 1e-6 at the same sample size (most p-values there are below 1e-30).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations

import pytest
from fit import (
    FALSE_ALARM,
    coin_p_value,
    cube_marginal_law,
    cube_radius_law,
    gaussian_law,
    geometric_law,
    laplace_law,
    normalised,
    p_value,
)

from dpexplain.core.budget import Cost, pure, zcdp
from dpexplain.core.mechanisms import Selection, best, selection
from dpexplain.core.noise import Law, Noise
from dpexplain.core.rng import below, bernoulli_exp, geometric
from dpexplain.core.samplers import ExactSampler, cube
from dpexplain.core.sensitivity import ScoreRange, Sensitivity
from dpexplain.errors import InternalError
from stubs import ADD_REMOVE

pytestmark = pytest.mark.drawn(1e-6)

N = 20_000


# --- coins and geometrics -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(1), Fraction(4, 5)])
def test_bernoulli_exp(x: Fraction) -> None:
    """20,000 coins, exact binomial test."""
    hits = sum(bernoulli_exp(x.numerator, x.denominator) for _ in range(N))
    assert coin_p_value(hits, N, math.exp(-x)) > FALSE_ALARM
    assert coin_p_value(hits, N, math.exp(-x * Fraction(4, 5))) < FALSE_ALARM  # the test has teeth


def test_bernoulli_exp_of_zero_is_certain() -> None:
    assert all(bernoulli_exp(0, 1) for _ in range(100))


@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(1), Fraction(3, 2), Fraction(3, 10)])
def test_geometric(rate: Fraction) -> None:
    """20,000 draws, chi-square."""
    assert p_value((geometric(rate) for _ in range(N)), geometric_law(float(rate))) > FALSE_ALARM


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("rate 20 % off", lambda rate: geometric(rate * Fraction(4, 5))),
        ("starts at one", lambda rate: geometric(rate) + 1),
        ("forgets the numerator", lambda rate: geometric(Fraction(1, rate.denominator))),
    ],
)
def test_broken_geometric_is_rejected(name: str, broken: Callable[[Fraction], int]) -> None:
    rate = Fraction(3, 2)
    assert p_value((broken(rate) for _ in range(N)), geometric_law(float(rate))) < FALSE_ALARM, name


# --- the cube -----------------------------------------------------------------------------------------------------


def joint_law(scale: float) -> dict[Hashable, float]:
    """Of two coordinates."""
    reach = range(-math.ceil(40 * scale), math.ceil(40 * scale) + 1)
    return normalised({(x, y): math.exp(-max(abs(x), abs(y)) / scale) for x in reach for y in reach})


@pytest.mark.parametrize(("size", "scale"), [(1, Fraction(3, 2)), (3, Fraction(4)), (6, Fraction(20, 3))])
def test_cube_radius(size: int, scale: Fraction) -> None:
    """|z|_inf of 8,000 vectors, chi-square."""
    draws = (max(map(abs, cube(size, scale))) for _ in range(8_000))
    assert p_value(draws, cube_radius_law(size, float(scale))) > FALSE_ALARM


def test_cube_joint_and_marginal() -> None:
    """Both coordinates of 20,000 vectors, then each coordinate alone; chi-square."""
    scale = Fraction(2)
    draws = [tuple(cube(2, scale)) for _ in range(N)]
    assert p_value(draws, joint_law(2.0)) > FALSE_ALARM
    for coordinate in (0, 1):
        assert p_value((z[coordinate] for z in draws), cube_marginal_law(2, 2.0)) > FALSE_ALARM


def scale_too_small(size: int, scale: Fraction) -> list[int]:
    return cube(size, scale * Fraction(4, 5))


def no_acceptance(size: int, scale: Fraction) -> list[int]:
    t = sum(geometric(1 / scale) for _ in range(size + 1))
    return [below(2 * t + 1) - t for _ in range(size)]


def one_geometric_short(size: int, scale: Fraction) -> list[int]:
    while True:
        t = sum(geometric(1 / scale) for _ in range(size))
        if all(below(2 * (t + i)) < 2 * t + 1 for i in range(1, size + 1)):
            return [below(2 * t + 1) - t for _ in range(size)]


def off_by_one_range(size: int, scale: Fraction) -> list[int]:
    while True:
        t = sum(geometric(1 / scale) for _ in range(size + 1))
        if all(below(2 * (t + i)) < 2 * t + 1 for i in range(1, size + 1)):
            return [below(2 * t + 2) - t for _ in range(size)]


@pytest.mark.parametrize(
    "broken",
    [
        scale_too_small,
        *(
            pytest.param(broken, marks=pytest.mark.long)
            for broken in (no_acceptance, one_geometric_short, off_by_one_range)
        ),
    ],
)
def test_broken_cube_is_rejected(broken: Callable[[int, Fraction], list[int]]) -> None:
    """The same 20,000 vectors and law as above."""
    draws = [tuple(broken(2, Fraction(2))) for _ in range(N)]
    assert p_value(draws, joint_law(2.0)) < FALSE_ALARM


def test_cube_through_the_sampler_is_added_to_the_values() -> None:
    """The first coordinate of 8,000 perturbed vectors, chi-square; its sibling forgets the values."""
    bound = Sensitivity(ADD_REMOVE, 4, 8, 2)
    noise = best(bound, 2, pure(1), "cube")
    draws = [ExactSampler().perturb([7, -3], noise, bound, pure(1)) for _ in range(8_000)]
    law = cube_marginal_law(2, float(noise.scale))
    assert p_value((z[0] - 7 for z in draws), law) > FALSE_ALARM
    assert p_value((z[1] + 3 for z in draws), law) > FALSE_ALARM
    assert p_value((z[0] for z in draws), law) < FALSE_ALARM


# --- Laplace and Gaussian, by OpenDP ------------------------------------------------------------------------------

CASES = [
    (Law.LAPLACE, Sensitivity(ADD_REMOVE, 3, 9, 3), pure(1), laplace_law),
    (Law.LAPLACE, Sensitivity(ADD_REMOVE, 1, 1, 1), pure(2), laplace_law),  # scale 1/2: nearly no noise
    (Law.LAPLACE, Sensitivity(ADD_REMOVE, 2, 2, 1), zcdp(0.5), laplace_law),
    (Law.GAUSSIAN, Sensitivity(ADD_REMOVE, 5, 7, 2), zcdp(0.5), gaussian_law),
    (Law.GAUSSIAN, Sensitivity(ADD_REMOVE, 1, 1, 1), zcdp(2), gaussian_law),  # scale 1/2
]


@pytest.mark.parametrize(("law", "bound", "cost", "exact"), CASES)
def test_discrete_laplace_and_gaussian(
    law: Law, bound: Sensitivity, cost: Cost, exact: Callable[[float], dict[Hashable, float]]
) -> None:
    """40,000 coordinates of one vector, chi-square on single ones and on 20,000 pairs (are they independent?)."""
    n = 2 * N
    noise = best(bound, n, cost, law)
    draws = [z - i for i, z in enumerate(ExactSampler().perturb(range(n), noise, bound, cost))]
    single = exact(float(noise.scale))
    assert p_value(draws, single) > FALSE_ALARM
    pairs = {(a, b): p * q for a, p in single.items() for b, q in single.items() if p * q > 1e-9}
    assert p_value(zip(draws[::2], draws[1::2], strict=True), pairs) > FALSE_ALARM
    # siblings that must be rejected: a scale 20 % off, and the same noise in two coordinates
    assert p_value(draws, exact(float(noise.scale) * 1.2)) < FALSE_ALARM
    assert p_value(zip(draws[::2], draws[::2], strict=True), pairs) < FALSE_ALARM


@pytest.mark.parametrize(("law", "bound", "cost", "exact"), CASES)
def test_noise_20_percent_too_small_is_rejected(
    law: Law, bound: Sensitivity, cost: Cost, exact: Callable[[float], dict[Hashable, float]]
) -> None:
    """By the fit (40,000 coordinates), and by the sampler itself when the price is the real one."""
    noise = best(bound, 2 * N, cost, law)
    small = Noise(law, 2 * N, noise.scale * Fraction(4, 5))
    draws = ExactSampler().perturb([0] * (2 * N), small, bound, cost * 2)
    assert p_value(draws, exact(float(noise.scale))) < FALSE_ALARM
    with pytest.raises(InternalError, match="price"):
        ExactSampler().perturb([0] * (2 * N), small, bound, cost)


# --- noisy top-k, by OpenDP ---------------------------------------------------------------------------------------


def permute_and_flip(scores: Sequence[int], scale: float) -> dict[int, float]:
    """Exactly: visit the candidates in random order, take i with probability exp((score_i - best) / scale)."""
    accept = [math.exp((s - max(scores)) / scale) for s in scores]
    chances = [0.0] * len(scores)
    orders = list(permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for i in order:
            chances[i] += reached * accept[i] / len(orders)
            reached *= 1 - accept[i]
    return dict(enumerate(chances))


def exponential_mechanism(scores: Sequence[int], scale: float) -> dict[int, float]:
    """Exactly: Gumbel noise of that scale and the maximum."""
    weights = [math.exp((s - max(scores)) / scale) for s in scores]
    return {i: weight / sum(weights) for i, weight in enumerate(weights)}


def peeled(scores: Sequence[int], scale: float, k: int, once: Callable[..., dict[int, float]]) -> dict[Hashable, float]:
    """Choose, remove, choose again."""

    def choices(left: tuple[int, ...], k: int) -> Iterator[tuple[tuple[int, ...], float]]:
        if k == 0:
            yield (), 1.0
            return
        for position, chance in once([scores[i] for i in left], scale).items():
            rest = left[:position] + left[position + 1 :]
            for tail, more in choices(rest, k - 1):
                yield (left[position], *tail), chance * more

    return dict(choices(tuple(range(len(scores))), k))


SCORES = (4, 1, 0, 3)
CHANGE = ScoreRange(ADD_REMOVE, 0, 2)


@cache
def selections(k: int, cost: Cost) -> tuple[Selection, list[tuple[int, ...]]]:
    """The law, and 6,000 selections."""
    law = selection(CHANGE, len(SCORES), cost, k)
    return law, [tuple(ExactSampler().choose(SCORES, law, CHANGE, cost)) for _ in range(6_000)]


@pytest.mark.parametrize("k", [pytest.param(1, marks=pytest.mark.long), 2])
@pytest.mark.parametrize(
    ("cost", "once"), [(pure(1.5), permute_and_flip), (zcdp(0.3), exponential_mechanism)], ids=["pure", "zcdp"]
)
def test_noisy_top_k(k: int, cost: Cost, once: Callable[..., dict[int, float]]) -> None:
    """Chi-square on the ordered indices; a scale 20 % off must be rejected."""
    law, draws = selections(k, cost)
    exact = peeled(SCORES, float(law.scale), k, once)
    assert sum(exact.values()) == pytest.approx(1)
    assert p_value(draws, exact) > FALSE_ALARM
    assert p_value(draws, peeled(SCORES, float(law.scale) * 1.25, k, once)) < FALSE_ALARM
    assert p_value(draws, peeled(SCORES, float(law.scale) * 0.8, k, once)) < FALSE_ALARM


def test_the_two_selection_laws_are_not_the_same() -> None:
    """The pure law must not be charged as the Gumbel one: the fit tells them apart."""
    law, draws = selections(2, pure(1.5))
    assert p_value(draws, peeled(SCORES, float(law.scale), 2, exponential_mechanism)) < FALSE_ALARM


def test_selection_scale_too_small_is_refused() -> None:
    for cost in (pure(1), zcdp(0.5)):
        law = selection(CHANGE, len(SCORES), cost, 1)
        with pytest.raises(InternalError, match="price"):
            ExactSampler().choose(SCORES, Selection(law.scale * Fraction(99, 100), 1, 4), CHANGE, cost)


# --- the helper itself --------------------------------------------------------------------------------------------


def test_an_impossible_value_is_rejected() -> None:
    assert p_value([0, 1] * 500 + [2], {0: 0.5, 1: 0.5}) == 0.0


def test_a_fair_law_needs_cells() -> None:
    with pytest.raises(AssertionError, match="cells"):
        p_value([0] * 30, {0: 0.5, 1: 0.5})
