"""Spread and intervals of the three laws, against exact enumeration. No sampling here: see tests/privacy for that."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import pytest

from dpexplain.core.noise import Law, Noise, checked_level
from dpexplain.errors import InputError
from dpexplain.maths.laws import below

LEVELS = [0.5, 0.9, 0.95, 0.99, 0.999999]


@cache
def radius_law(size: int, scale: float) -> list[float]:
    """P(|z|_inf = r) of the cube."""
    reach = math.ceil(scale * (size + 37 + 9 * math.sqrt(size)))
    logs = [(math.log((2 * r + 1) ** size - (2 * r - 1) ** size) if r else 0.0) - r / scale for r in range(reach)]
    top = max(logs)
    weights = [math.exp(x - top) for x in logs]
    total = math.fsum(weights)
    return [w / total for w in weights]


@cache
def coordinate_law(noise: Noise) -> dict[int, float]:
    """P(|z_1| = x), exactly up to 1e-15, for each law."""
    b = float(noise.scale)
    if noise.law is Law.CUBE:
        # T has P(t) ~ (2t+1)^m q^t; given t a coordinate is uniform in {-t..t}
        m, reach = noise.size, math.ceil(b * (noise.size + 38 + 9 * math.sqrt(noise.size)))
        logs = [m * math.log(2 * t + 1) - t / b for t in range(reach)]
        top = max(logs)
        weights = [math.exp(x - top) / (2 * t + 1) for t, x in enumerate(logs)]
        total = math.fsum(w * (2 * t + 1) for t, w in enumerate(weights))
        tail, result = 0.0, {}
        for x in range(reach - 1, -1, -1):
            tail += weights[x]
            result[x] = tail * (2 if x else 1) / total
        return result
    reach = math.ceil(38 * b) + 2 if noise.law is Law.LAPLACE else math.ceil(9 * b) + 2
    power = (lambda x: x / b) if noise.law is Law.LAPLACE else (lambda x: x * x / (2 * b * b))
    raw = {x: (2 if x else 1) * math.exp(-power(x)) for x in range(reach)}
    total = math.fsum(raw.values())
    return {x: w / total for x, w in raw.items()}


NOISES = [
    *(Noise(Law.LAPLACE, m, Fraction(b)) for m in (1, 3, 50) for b in ("1/10", "1/2", "1", "7/2", "40")),
    *(Noise(Law.GAUSSIAN, m, Fraction(b)) for m in (1, 3, 50) for b in ("1/10", "1/2", "1", "7/2", "40")),
    # the door uses the cube only with a scale of at least the number of coordinates
    *(Noise(Law.CUBE, m, Fraction(b) * m) for m in (1, 2, 5, 20) for b in ("1", "3/2", "10")),
]


def ids(noise: Noise) -> str:
    return f"{noise.law}-{noise.size}-{noise.scale}"


def covered(noise: Noise, half: float) -> float:
    return math.fsum(p for x, p in coordinate_law(noise).items() if x <= half)


def covered_by_band(noise: Noise, half: float) -> float:
    if noise.law is Law.CUBE:
        return math.fsum(radius_law(noise.size, float(noise.scale))[: math.floor(half) + 1])
    return covered(noise, half) ** noise.size


@pytest.mark.parametrize("noise", NOISES, ids=ids)
def test_std(noise: Noise) -> None:
    """Exact for Laplace; for the others a bound that is tight once the scale is not tiny."""
    exact = math.sqrt(math.fsum(x * x * p for x, p in coordinate_law(noise).items()))
    if noise.law is Law.LAPLACE:
        assert noise.std == pytest.approx(exact, rel=1e-9)
    else:
        assert noise.std >= exact * (1 - 1e-9)
        if noise.scale >= 1:
            assert noise.std == pytest.approx(exact, rel=0.07 if noise.law is Law.CUBE else 1e-6)


@pytest.mark.parametrize("noise", NOISES, ids=ids)
@pytest.mark.parametrize("level", LEVELS)
def test_interval_covers(noise: Noise, level: float) -> None:
    """At least the level, and no more than two steps wider than needed."""
    half = noise.halfwidth(level)
    assert covered(noise, half) >= level - 1e-12
    assert half <= 2 or covered(noise, half - 3) < level


@pytest.mark.parametrize("noise", NOISES, ids=ids)
@pytest.mark.parametrize("level", LEVELS)
def test_band_covers_all_coordinates_at_once(noise: Noise, level: float) -> None:
    half = noise.band(level)
    assert covered_by_band(noise, half) >= level - 1e-12
    assert half <= 2 or covered_by_band(noise, half - 3) < level


@pytest.mark.parametrize("gap", [-3.0, -0.4, 0.0, 0.4, 1.0, 3.0])
@pytest.mark.parametrize("law", [Law.LAPLACE, Law.GAUSSIAN])
def test_two_coordinates_stand_in_the_right_order_this_often(law: Law, gap: float) -> None:
    """Against the sum over both coordinates, for a scale at which whole numbers are nearly a continuum."""
    noise = Noise(law, 4, Fraction(40))
    signed: dict[int, float] = {}
    for x, p in coordinate_law(noise).items():
        signed[x] = signed[-x] = p / (2 if x else 1)
    under, total = {}, 0.0
    for x in sorted(signed):
        total += signed[x]
        under[x] = total
    step = gap * 40
    exact = math.fsum(p * under.get(min(x + math.floor(step), max(under)), 0.0) for x, p in signed.items())
    assert below(noise, step) == pytest.approx(exact, abs=0.01)
    assert below(noise, step) + below(noise, -step) == pytest.approx(1)


@pytest.mark.parametrize("size", [2, 5, pytest.param(20, marks=pytest.mark.long)])
def test_two_coordinates_of_a_cube_share_their_radius(size: int) -> None:
    noise = Noise(Law.CUBE, size, Fraction(10 * size))
    reach = math.ceil(10 * size * (size + 38 + 9 * math.sqrt(size)))
    logs = [size * math.log(2 * t + 1) - t / (10 * size) for t in range(reach)]
    weights = [math.exp(x - max(logs)) for x in logs]
    for gap in (0, 30 * size, -50 * size, 200 * size):
        # given t the difference of two uniform numbers in {-t..t} is triangular
        inside = [max(0.0, 1 - abs(gap) / (2 * t + 1)) ** 2 / 2 for t in range(reach)]
        tail = math.fsum(w * p for w, p in zip(weights, inside, strict=True)) / math.fsum(weights)
        assert below(noise, gap) == pytest.approx(1 - tail if gap >= 0 else tail, abs=0.01)


def test_a_single_coordinate_has_nobody_to_stand_above() -> None:
    assert below(Noise(Law.CUBE, 1, Fraction(5)), 3) == 0.5


def test_the_enumeration_itself() -> None:
    """The two descriptions of the cube agree with a plain sum over the plane."""
    scale, reach = 2.0, range(-90, 91)
    plane = {(x, y): math.exp(-max(abs(x), abs(y)) / scale) for x, y in product(reach, reach)}
    total = math.fsum(plane.values())
    noise = Noise(Law.CUBE, 2, Fraction(2))
    for r in (0, 1, 5):
        at_radius = math.fsum(p for z, p in plane.items() if max(map(abs, z)) == r) / total
        at_coordinate = math.fsum(p for z, p in plane.items() if abs(z[0]) == r) / total
        assert at_radius == pytest.approx(radius_law(2, scale)[r])
        assert at_coordinate == pytest.approx(coordinate_law(noise)[r])


def test_a_cube_with_one_side_is_laplace() -> None:
    cube, laplace = Noise(Law.CUBE, 1, Fraction(50)), Noise(Law.LAPLACE, 1, Fraction(50))
    assert cube.std == pytest.approx(laplace.std, rel=1e-3)
    assert abs(cube.halfwidth(0.95) - laplace.halfwidth(0.95)) <= 1


def test_the_cube_beats_laplace_as_stated() -> None:
    """Variance lower by 6 m^2 / ((m+1)(m+2)) at the same pure epsilon: 1, 2, 3.6, 5.2, 5.8."""
    for m, gain in ((1, 1.0), (2, 2.0), (5, 3.57), (20, 5.19), (100, 5.82)):
        laplace, cube = Noise(Law.LAPLACE, m, Fraction(1000 * m)), Noise(Law.CUBE, m, Fraction(1000))
        assert (laplace.std / cube.std) ** 2 == pytest.approx(gain, rel=0.01)


def test_almost_no_noise_has_almost_no_spread() -> None:
    noise = Noise(Law.LAPLACE, 2, Fraction(1, 10**6))
    assert noise.std == 0.0
    assert noise.halfwidth(0.99) == 0


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, math.nan, math.inf, "0.9", None, True])
def test_bad_levels(level: Any) -> None:
    noise = Noise(Law.LAPLACE, 2, Fraction(1))
    for ask in (noise.halfwidth, noise.band, checked_level):
        with pytest.raises(InputError, match="confidence level"):
            ask(level)


@pytest.mark.parametrize("noise", NOISES[:3])
def test_noise_survives_json(noise: Noise) -> None:
    assert Noise.from_json(noise.to_json()) == noise
