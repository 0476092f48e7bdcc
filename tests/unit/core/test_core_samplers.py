"""What the samplers refuse. Their laws are tested in tests/privacy."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpexplain.core.budget import Cost, pure, zcdp
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law, Noise
from dpexplain.core.rng import below, secret_bytes
from dpexplain.core.samplers import ExactSampler, cube
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.errors import InternalError
from stubs import ADD_REMOVE

BOUND = Sensitivity.of_boxes([(0, 10)] * 3, ADD_REMOVE)


@pytest.mark.parametrize("law", list(Law))
def test_noise_of_another_size_is_refused(law: Law) -> None:
    noise = best(BOUND, 3, zcdp(0.5), law)
    with pytest.raises(InternalError, match="another size"):
        ExactSampler().perturb([1, 2], noise, BOUND, zcdp(0.5))


@pytest.mark.parametrize(
    ("law", "cost"), [*((law, zcdp(0.5)) for law in Law), (Law.CUBE, pure(1)), (Law.LAPLACE, pure(1))]
)
def test_noise_below_its_price_is_refused(law: Law, cost: Cost) -> None:
    """By a thousandth of a percent: the check is on exact fractions."""
    scale = best(BOUND, 3, zcdp(0.5), law).scale  # epsilon 1 is rho 1/2 for the pure laws
    small = Noise(law, 3, scale * (1 - Fraction(1, 10**5)))
    with pytest.raises(InternalError, match="price"):
        ExactSampler().perturb([1, 2, 3], small, BOUND, cost)


@pytest.mark.parametrize("law", list(Law))
def test_perturbing_keeps_whole_numbers_and_length(law: Law) -> None:
    noise = best(BOUND, 3, zcdp(0.5), law)
    values = ExactSampler().perturb([10**12, 0, -(10**12)], noise, BOUND, zcdp(0.5))
    assert all(type(v) is int for v in values)
    assert values[0] > 10**11
    assert values[2] < -(10**11)


def test_secret_numbers() -> None:
    assert {below(3) for _ in range(200)} == {0, 1, 2}  # misses one with probability 2e-35
    assert len(secret_bytes(16)) == 16
    assert secret_bytes(16) != secret_bytes(16)
    assert len(cube(4, Fraction(10))) == 4
