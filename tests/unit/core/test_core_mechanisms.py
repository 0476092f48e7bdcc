"""The right law at the right scale: never under-scaled (in exact fractions), and the best one unless told otherwise."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpexplain.core.budget import Cost, Definition, pure, zcdp
from dpexplain.core.mechanisms import best, candidates, selection
from dpexplain.core.noise import LARGEST_SCALE, Law, float_at_least, pure_epsilon, root_at_least
from dpexplain.core.samplers import ExactSampler
from dpexplain.core.sensitivity import ScoreRange, Sensitivity
from dpexplain.errors import InputError
from stubs import ADD_REMOVE, BOTH

COSTS = [pure(1), pure(Fraction(1, 3)), pure(7), pure(1e-6), zcdp(0.5), zcdp(Fraction(1, 3)), zcdp(1e-9), zcdp(20)]
sizes = st.integers(1, 200)
bounds = st.builds(
    lambda boxes, n: Sensitivity.of_boxes([(0, b) for b in boxes], n),
    st.lists(st.integers(1, 2**24), min_size=1, max_size=8),
    st.sampled_from(BOTH),
)
costs = st.builds(
    lambda make, a, b: make(Fraction(a, b)), st.sampled_from([pure, zcdp]), st.integers(1, 10**6), st.integers(1, 10**8)
)


def worth(law: Law, scale: Fraction, bound: Sensitivity, cost: Cost) -> bool:
    """Whether noise of that scale is worth at most the cost, in exact fractions."""
    if law is Law.GAUSSIAN:
        return bound.l2_squared <= 2 * cost.amount * scale**2
    norm = bound.linf if law is Law.CUBE else bound.l1
    if cost.definition is Definition.PURE:
        return norm <= cost.amount * scale
    return norm**2 <= 2 * cost.amount * scale**2  # epsilon^2 / 2 <= rho


@given(bounds, sizes, costs)
def test_no_law_is_ever_under_scaled(bound: Sensitivity, size: int, cost: Cost) -> None:
    for noise in candidates(bound, size, cost):
        assert noise.size == size
        assert worth(noise.law, noise.scale, bound, cost)
        assert not worth(noise.law, noise.scale * (1 - Fraction(1, 2**40)), bound, cost)  # nor much over-scaled


@settings(deadline=None)  # OpenDP loads on first use
@given(bounds, costs)
def test_the_sampler_accepts_every_scale_we_choose(bound: Sensitivity, cost: Cost) -> None:
    """OpenDP's own privacy map agrees, to the last bit."""
    for noise in candidates(bound, 2, cost):
        if noise.scale < 2**40:
            assert len(ExactSampler().perturb([0, 0], noise, bound, cost)) == 2


@settings(deadline=None)
@given(st.integers(1, 2**24), st.integers(1, 5), costs)
def test_the_sampler_accepts_every_selection_we_choose(length: int, k: int, cost: Cost) -> None:
    change = ScoreRange(ADD_REMOVE, 0, length)
    if k * length > cost.amount * 2**40:
        return  # huge scales are refused, below
    law = selection(change, 5, cost, k)
    if cost.definition is Definition.PURE:
        assert k * length <= cost.amount * law.scale
    else:
        assert k * length**2 <= 8 * cost.amount * law.scale**2
    assert len(set(ExactSampler().choose([0, 1, 2, 3, 4], law, change, cost))) == k


@given(bounds, sizes, costs)
def test_the_best_law_has_the_smallest_forecast(bound: Sensitivity, size: int, cost: Cost) -> None:
    laws = [noise for noise in candidates(bound, size, cost) if noise.scale <= LARGEST_SCALE]
    if laws:
        assert best(bound, size, cost).std == min(noise.std for noise in laws)


@pytest.mark.parametrize("cost", COSTS)
def test_what_each_definition_allows(cost: Cost) -> None:
    laws = {noise.law for noise in candidates(Sensitivity.of_boxes([(0, 2**20)] * 3, ADD_REMOVE), 3, cost)}
    assert laws >= {Law.LAPLACE, Law.CUBE}
    assert (Law.GAUSSIAN in laws) == (cost.definition is Definition.ZCDP)


def test_the_cube_is_left_out_where_its_sampler_would_hang() -> None:
    counts = Sensitivity.of_counts(ADD_REMOVE)
    assert Law.CUBE not in {noise.law for noise in candidates(counts, 2, pure(1))}
    assert Law.CUBE in {noise.law for noise in candidates(counts, 2, pure(Fraction(1, 2)))}


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("law", list(Law))
def test_override_by_name(cost: Cost, law: Law) -> None:
    bound = Sensitivity.of_boxes([(0, 2**20)] * 3, ADD_REMOVE)
    if law is Law.GAUSSIAN and cost.definition is Definition.PURE:
        with pytest.raises(InputError, match="not available") as caught:
            best(bound, 3, cost, law.value)
        assert "cube, discrete-laplace" in caught.value.hint
    else:
        assert best(bound, 3, cost, law.value).law is law


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InputError, match="'gauss'"):
        best(Sensitivity.of_counts(ADD_REMOVE), 2, zcdp(1), "gauss")


def test_who_wins_where() -> None:
    vector = Sensitivity.of_boxes([(0, 2**20)] * 20, ADD_REMOVE)
    assert best(vector, 20, pure(1)).law is Law.CUBE
    assert best(vector, 20, zcdp(0.5)).law is Law.GAUSSIAN
    assert best(Sensitivity.of_counts(ADD_REMOVE), 20, pure(1)).law is Law.LAPLACE


def test_pure_price_in_a_zcdp_account() -> None:
    assert pure_epsilon(pure(0.3)) == Fraction(3, 10)
    assert pure_epsilon(zcdp(0.5)) == 1
    assert pure_epsilon(zcdp(1)) ** 2 <= 2


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=LARGEST_SCALE))
def test_rounding_is_upwards(value: Fraction) -> None:
    assert value <= float_at_least(value) <= value * (1 + Fraction(1, 2**47))
    root = root_at_least(value)
    assert value <= root**2 <= value * (1 + Fraction(1, 2**46))
    assert Fraction(float(root)) == root


@pytest.mark.parametrize("cost", [pure(1e-16), pure(1e-300), zcdp(1e-40)])
def test_noise_beyond_64_bits_is_refused(cost: Cost) -> None:
    """Even with a name: a scale that large is never handed to a sampler."""
    bound = Sensitivity.of_counts(ADD_REMOVE)
    for mechanism in (None, "cube"):
        with pytest.raises(InputError, match="drown"):
            best(bound, 2, cost, mechanism)
    with pytest.raises(InputError, match="lot"):
        selection(ScoreRange(ADD_REMOVE, 0, 1), 2, cost, 1)
    assert all(noise.scale >= 2**46 for noise in candidates(bound, 2, cost))


@pytest.mark.parametrize("cost", [pure(2), zcdp(0.5)])
def test_shortfall_of_a_selection(cost: Cost) -> None:
    """Exponential mechanism over n candidates: P(score <= best - shortfall) <= 1 - level, exactly for the worst case
    in which all others are equally bad (permute-and-flip is never worse)."""
    law = selection(ScoreRange(ADD_REMOVE, -1, 1), 50, cost, 1)
    for level in (0.5, 0.95):
        gap = law.shortfall(level)
        bad = 49 * math.exp(-gap / float(law.scale))
        assert bad / (1 + bad) <= 1 - level
    assert law.shortfall(0.99) > law.shortfall(0.9)
