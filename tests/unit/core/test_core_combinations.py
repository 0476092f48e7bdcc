"""The exponential mechanism over combinations: its law against full enumeration, its exactness, its limits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dpexplain.core import combinations
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.combinations import UNIT, draw, pick, rate_for, steps
from dpexplain.core.sensitivity import ScoreRange
from dpexplain.errors import InputError, InternalError
from stubs import PURE, ZCDP, combination_score, combinations_of, free_door, release

pytestmark = pytest.mark.drawn(1e-5)

CASES = [(3, 3, 1), (4, 2, 2), (2, 4, 1), (3, 3, 2), (5, 1, 2)]  # candidates, groups, uses
SHORT = [(2, 4, 1), (3, 3, 2)]  # one use and several
RATE = Fraction(UNIT, 2**20)


def some_scores(candidates, groups, *, seed=0, spread=3):
    scores = np.random.default_rng(seed).integers(-spread * 2**20, spread * 2**20, size=(candidates, 2**groups))
    scores[:, 0] = 0
    return scores


def law(scores, rate, uses):
    """The ideal probabilities, by enumeration."""
    units = combinations._units(scores, rate)
    groups = len(scores[0]).bit_length() - 1
    weights = {c: 2.0 ** (combination_score(units, c) / UNIT) for c in combinations_of(len(scores), groups, uses)}
    total = sum(weights.values())
    return {c: w / total for c, w in weights.items()}


def misfit(expected, drawn):
    n = len(drawn)
    counts = dict.fromkeys(expected, 0)
    for c in drawn:
        counts[c] += 1
    return sum((counts[c] - n * p) ** 2 / (n * p) for c, p in expected.items())


def drawn(scores, rate, uses, times):
    return [tuple(tuple(chosen) for chosen in draw(scores, rate, uses=uses)) for _ in range(times)]


@pytest.mark.parametrize(
    ("candidates", "groups", "uses"),
    [case if case in SHORT else pytest.param(*case, marks=pytest.mark.long) for case in CASES],
)
def test_draws_follow_the_law(candidates, groups, uses):
    scores = some_scores(candidates, groups, spread=1)
    expected = law(scores, RATE, uses)
    assert misfit(expected, drawn(scores, RATE, uses, 4000)) < chi2.isf(1e-6, len(expected) - 1)


def test_a_sampler_that_forgets_shared_candidates_is_rejected():
    """The broken sibling: every group chooses for itself, by the score it would have alone."""
    scores = some_scores(3, 3, spread=2)
    alone = scores.copy()
    for subset in range(8):
        alone[:, subset] = sum(scores[:, 1 << g] for g in range(3) if subset >> g & 1)
    expected = law(scores, RATE, 1)
    assert misfit(expected, drawn(alone, RATE, 1, 4000)) > 10 * chi2.isf(1e-6, len(expected) - 1)


@pytest.mark.parametrize(("candidates", "groups", "uses"), CASES)
@pytest.mark.parametrize("spread", [1, 3000])
def test_probabilities_are_exact_up_to_the_stated_error(candidates, groups, uses, spread):
    """The probability of every combination along its walk, from the numbers that the sampler uses."""
    scores = some_scores(candidates, groups, seed=1, spread=spread)
    units = combinations._units(scores, RATE)
    mantissas, exponents = combinations._powers_of_two(units)
    free, step = combinations._states(groups, uses)
    ways = combinations._ways(mantissas, exponents, free, step)
    logs = []
    for combination in combinations_of(candidates, groups, uses):
        state, log = len(free) - 1, 0.0
        for a in reversed(range(candidates)):
            subsets = combinations._subsets(int(free[state]))
            before = state - step[subsets]
            found = ways[a][0][before] * mantissas[a, subsets]
            power = ways[a][1][before] + exponents[a, subsets]
            top = power[found > 0].max()
            taken = sum(1 << g for g, chosen in enumerate(combination) if a in chosen)
            i = int(np.flatnonzero(subsets == taken)[0])
            log += math.log2(found[i]) + float(power[i] - top)
            log -= math.log2(math.fsum(np.ldexp(found, np.maximum(power - top, -1200))))
            state -= int(step[taken])
        logs.append(log - combination_score(units, combination) / UNIT)
    allowed = candidates * (2**groups + 8) * 2.0**-52 / math.log(2)
    assert max(logs) - min(logs) <= 2 * allowed + 1e-12 * spread  # the second: of this test's own sums of logarithms


def test_units_are_the_exact_floor():
    scores = np.array([[0, 1, -1, 2**50 + 12345, -(2**50) - 1]])
    for rate in (Fraction(3, 2**40), Fraction(2**30 - 1, 2**31), Fraction(5), Fraction(2**30 - 1, 2**22)):
        exact = [[math.floor(int(s) * rate) for s in line] for line in scores]
        assert combinations._units(scores, rate).tolist() == exact


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(20)])
def test_the_rate_pays_for_rounding(epsilon):
    rate = rate_for(2**21, epsilon, 47, 9, 1)
    loss = (float(rate) * 2**21 + 18) * math.log(2) / UNIT + 4 * 47 * (2**9 + 8) * 2.0**-52
    assert loss <= float(epsilon)
    assert loss > float(epsilon) * (1 - 1e-6)


def test_no_outcome_tells_more_than_the_price():
    """Two tables whose scores differ by the whole range, all losses by enumeration."""
    length, epsilon = 2**21, Fraction(1)
    rate = rate_for(length, epsilon, 3, 2, 1)
    one = some_scores(3, 2)
    two = one.copy()
    two[0, 1:] += length  # only what candidate 0 is used for moves; nobody can use it twice
    losses = [abs(math.log(law(one, rate, 1)[c] / p)) for c, p in law(two, rate, 1).items()]
    assert 0.5 < max(losses) <= 1


def test_pick_follows_its_weights():
    mantissas, exponents = np.array([0.5, 0.75, 0.0, 0.5]), np.array([0, 1, 90, -2])
    weights = np.ldexp(mantissas, exponents)
    counts = np.bincount([pick(mantissas, exponents) for _ in range(4000)], minlength=4)
    expected = 4000 * weights / weights.sum()
    assert counts[2] == 0
    some = weights > 0
    assert ((counts - expected)[some] ** 2 / expected[some]).sum() < chi2.isf(1e-6, 2)


def test_pick_serves_the_far_weights_exactly(monkeypatch):
    """With a tiny window all but the largest order are far, and the law stays the same."""
    monkeypatch.setattr(combinations, "NEAR", 1)
    mantissas, exponents = np.array([0.5, 0.75, 0.5]), np.array([0, -1, -2])
    weights = np.ldexp(mantissas, exponents)
    counts = np.bincount([pick(mantissas, exponents) for _ in range(3000)], minlength=3)
    expected = 3000 * weights / weights.sum()
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 2)


@pytest.mark.parametrize("epsilon", [1, 5, 1000])
@pytest.mark.parametrize("length", [1, 2, 1000])
def test_small_ranges_and_large_prices_are_served(epsilon, length):
    rate = rate_for(length, Fraction(epsilon), 3, 2, 1)
    scores = np.array([[0, 5, 1, 2], [0, 1, 5, 2], [0, 0, 0, 0]]) * length
    assert len(draw(scores, rate)) == 2


def test_too_much_work_is_refused():
    assert steps(47, 15, 1) == 47 * 3**15
    for too_much in ((47, 25, 1), (1000, 3, 127)):
        with pytest.raises(InputError, match="two-stage"):
            steps(*too_much)


def test_too_small_a_price_is_refused():
    with pytest.raises(InputError, match="draw by lot"):
        rate_for(2**21, Fraction(1, 10**9), 47, 9, 1)


@pytest.mark.parametrize(("budget", "cost"), [(PURE, pure(1)), (ZCDP, zcdp(Fraction(1, 8)))])
def test_through_the_door(budget, cost):
    """One eighth of rho pays for a loss of one, as pure epsilon one does."""
    door, scores = free_door(budget), some_scores(3, 2)
    change = ScoreRange(door.account.neighbours, -(2**20), 2**20)
    released = release(door, cost, lambda gate: gate.select_combination("best", scores, change, cost))
    part = released.payload["parts"]["best"]
    assert len(part["values"]) == 2
    assert abs(float(Fraction(part["rate"])) * 2**21 / UNIT * math.log(2) - 1) < 1e-6


@pytest.mark.parametrize("scores", [np.zeros((2, 3), np.int64), np.ones((2, 4), np.int64), np.zeros((2, 4))])
def test_scores_of_another_form_are_a_bug(scores):
    door = free_door()
    gate_cost, change = pure(1), ScoreRange(door.account.neighbours, -1, 1)
    from dpexplain.core.release import Gate

    with pytest.raises(InternalError):
        Gate(door, gate_cost).select_combination("best", scores, change, gate_cost)
