"""Influences as games against brute force over orders, textbook values of voting games, and the laws they obey."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.core.domain import PublicRange
from dpexplain.data.rows import Rows
from dpexplain.maths.games import coalitions_plan, exact_plan, orders_plan, sets_plan
from dpexplain.models import Predictor
from dpexplain.models.outcomes import Asker, Outcome

TOP = 1_000


def random_game(M, draws=1, seed=0):
    """game[t][S]: whole outcomes, the same for the empty set in every draw."""
    game = np.random.default_rng(seed).integers(0, TOP + 1, size=(draws, 2**M))
    game[:, 0] = game[0, 0]
    return game


def values(plan, game):
    """The influences as exact fractions, not rounded."""
    outcomes = [int(game[t][mask]) for t, mask in zip(plan.draws, plan.masks, strict=True)]
    sums = [sum(int(w) * o for w, o in zip(line, outcomes, strict=True)) for line in plan.weights]
    return [Fraction(total, plan.denominator) for total in sums]


def by_orders(game, M):
    """Shapley values by their first definition: the mean over all orders, and over draws."""
    found = [Fraction(0)] * M
    for order, line in itertools.product(itertools.permutations(range(M)), game):
        before = 0
        for j in order:
            found[j] += int(line[before]) - int(line[before | 1 << j])
            before |= 1 << j
    return [value / (math.factorial(M) * len(game)) for value in found]


def by_sets(game, M):
    """Banzhaf values by their definition."""
    pairs = [[(S, S | 1 << j) for S in range(2**M) if not S >> j & 1] for j in range(M)]
    return [
        Fraction(sum(int(line[S]) - int(line[T]) for line in game for S, T in of), len(of) * len(game)) for of in pairs
    ]


@pytest.mark.parametrize("M", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("draws", [1, 3])
def test_exact_plans_are_the_definitions(M, draws):
    game = random_game(M, draws, seed=M)
    assert values(exact_plan(M, "shapley", draws), game) == by_orders(game, M)
    assert values(exact_plan(M, "banzhaf", draws), game) == by_sets(game, M)


@pytest.mark.parametrize("M", [5, 9, 13])
def test_efficiency(M):
    """Shapley values add up to what replacing everything does; so do those of any drawn orders."""
    game = random_game(M, 2, seed=M)
    full = int(game[0, 0]) - Fraction(int(game[0, -1]) + int(game[1, -1]), 2)
    assert sum(values(exact_plan(M, "shapley", 2), game)) == full
    for samples in (1, 2, 7, 20):
        plan = orders_plan(M, samples, 1, seed=samples)
        assert sum(values(plan, game)) == int(game[0, 0]) - int(game[0, -1])
    assert sum(values(exact_plan(M, "banzhaf", 2), game)) != full


def test_dummy_and_symmetry():
    """Inputs 1 and 3 stand for each other; input 2 does nothing."""
    M, rng = 5, np.random.default_rng(7)
    table = rng.integers(0, TOP, size=(2, 3, 2))
    game = np.array([[table[S & 1, (S >> 1 & 1) + (S >> 3 & 1), S >> 4] for S in range(2**M)]])
    for plan in (exact_plan(M, "shapley", 1), exact_plan(M, "banzhaf", 1)):
        found = values(plan, game)
        assert found[2] == 0
        assert found[1] == found[3] != 0
    for seed in range(10):
        assert values(orders_plan(M, 5, 1, seed), game)[2] == 0


def test_a_dummy_of_drawn_sets_is_zero_on_average_only():
    """Half of the drawn sets hold it and half do not, but not the same ones: the price of sharing them."""
    M = 4
    game = random_game(M, seed=3)
    game = np.array([[game[0][S & 0b1101] for S in range(2**M)]])
    found = [float(values(coalitions_plan(M, 6, 1, seed), game)[1]) for seed in range(300)]
    assert max(map(abs, found)) > 0
    assert abs(np.mean(found)) < 5 * np.std(found) / math.sqrt(len(found))


def test_an_additive_game_needs_no_average():
    M, worth = 6, [5, 0, 40, 7, 100, 3]
    game = np.array([[500 - sum(worth[j] for j in range(M) if S >> j & 1) for S in range(2**M)]])
    singles = [1 << j for j in range(M)]
    plans = [
        sets_plan(M, singles, 1),
        exact_plan(M, "shapley", 1),
        exact_plan(M, "banzhaf", 1),
        orders_plan(M, 1, 1, 0),
        orders_plan(M, 5, 1, 3),
    ]
    for plan in plans:
        assert values(plan, game) == worth
    for j, given in itertools.product(range(M), range(2**M)):
        if not given >> j & 1:
            assert values(sets_plan(M, [1 << j], 1, given), game) == [worth[j]]


def test_shapley_and_banzhaf_are_means_of_marginal_influences():
    M = 4
    game = random_game(M, 2, seed=11)
    for j in range(M):
        others = [S for S in range(2**M) if not S >> j & 1]
        marginal = {S: values(sets_plan(M, [1 << j], 2, S), game)[0] for S in others}
        share = {S: Fraction(1, M * math.comb(M - 1, S.bit_count())) for S in others}
        assert values(exact_plan(M, "shapley", 2), game)[j] == sum(share[S] * marginal[S] for S in others)
        assert values(exact_plan(M, "banzhaf", 2), game)[j] == sum(marginal.values()) / len(others)


def test_a_set_influence_is_a_sum_of_marginal_ones():
    M = 4
    game = random_game(M, 3, seed=5)
    whole = values(sets_plan(M, [0b1011], 3), game)[0]
    first, second, third = (
        values(sets_plan(M, [mask], 3, given), game)[0]
        for mask, given in ((0b0001, 0), (0b0010, 0b0001), (0b1000, 0b0011))
    )
    assert whole == first + second + third


def voting(M, quota, votes):
    """The outcome is one while those whose votes were not taken away reach the quota."""
    return np.array([[sum(votes[j] for j in range(M) if not S >> j & 1) >= quota for S in range(2**M)]])


def test_voting_games():
    majority = voting(3, 2, [1, 1, 1])
    assert values(exact_plan(3, "banzhaf", 1), majority) == [Fraction(1, 2)] * 3
    assert values(exact_plan(3, "shapley", 1), majority) == [Fraction(1, 3)] * 3
    majority = voting(5, 3, [1] * 5)
    assert values(exact_plan(5, "banzhaf", 1), majority) == [Fraction(math.comb(4, 2), 16)] * 5
    assert values(exact_plan(5, "shapley", 1), majority) == [Fraction(1, 5)] * 5
    shares = voting(3, 51, [50, 49, 1])
    assert values(exact_plan(3, "banzhaf", 1), shares) == [Fraction(3, 4), Fraction(1, 4), Fraction(1, 4)]
    assert values(exact_plan(3, "shapley", 1), shares) == [Fraction(2, 3), Fraction(1, 6), Fraction(1, 6)]
    # the council of the European Economic Community of 1958: Luxembourg's vote never counted
    council = voting(6, 12, [4, 4, 4, 2, 2, 1])
    assert values(exact_plan(6, "banzhaf", 1), council) == [Fraction(n, 32) for n in (10, 10, 10, 6, 6, 0)]
    assert values(exact_plan(6, "shapley", 1), council) == [Fraction(n, 60) for n in (14, 14, 14, 9, 9, 0)]


def quadratic_game(M, seed=0):
    """Inputs add up, and pairs of them interact."""
    rng = np.random.default_rng(seed)
    single, pair = rng.integers(0, 50, size=M), rng.integers(0, 50, size=(M, M))
    inside = [[j for j in range(M) if S >> j & 1] for S in range(2**M)]
    return np.array([[sum(single[s]) + sum(pair[i, j] for i, j in itertools.combinations(s, 2)) for s in inside]])


def test_an_order_and_its_reverse_are_exact_where_pairs_interact():
    M = 7
    game = quadratic_game(M)
    exactly = values(exact_plan(M, "shapley", 1), game)
    assert all(values(orders_plan(M, 2, 1, seed), game) == exactly for seed in range(5))
    assert all(values(orders_plan(M, 1, 1, seed), game) != exactly for seed in range(5))


def drawn(make, game, samples, seeds):
    return np.array([[float(v) for v in values(make(samples, seed), game)] for seed in range(seeds)])


def test_reverses_lower_the_variance():
    """Two orders with their reverses against four orders, each drawn by itself. Fixed seeds leave nothing to chance."""
    M, seeds = 5, 400
    game = random_game(M, seed=2) + 40 * quadratic_game(M, seed=2)
    with_reverses = drawn(lambda n, seed: orders_plan(M, n, 1, seed), game, 4, seeds)
    alone = drawn(lambda n, seed: orders_plan(M, n, 1, seed), game, 1, 4 * seeds).reshape(seeds, 4, M).mean(axis=1)
    assert with_reverses.var(axis=0).sum() < 0.5 * alone.var(axis=0).sum()


@pytest.mark.parametrize("samples", [1, 2, 5])
def test_drawn_plans_are_right_on_average(samples):
    """1,500 fixed seeds: within five standard errors of their own value, beyond seven of the other one."""
    M, seeds = 4, 1_500
    game = np.array([[TOP * (S == 0) - 100 * (S & 1) for S in range(2**M)]])  # a joint decision: all must agree
    shapley, banzhaf = np.array(by_orders(game, M), dtype=float), np.array(by_sets(game, M), dtype=float)
    for make, own, other in ((orders_plan, shapley, banzhaf), (coalitions_plan, banzhaf, shapley)):
        found = drawn(lambda n, seed, make=make: make(M, n, 1, seed), game, samples, seeds)
        error = found.std(axis=0) / math.sqrt(seeds)
        assert (abs(found.mean(axis=0) - own) < 5 * error).all()
        assert (abs(found.mean(axis=0) - other) > 7 * error).all()


@pytest.mark.parametrize("make", [orders_plan, coalitions_plan])
def test_many_samples_are_nearly_exact_with_draws_of_their_own(make):
    M, draws = 5, 4
    game = random_game(M, draws, seed=9)
    exactly = values(exact_plan(M, "shapley" if make is orders_plan else "banzhaf", draws), game)
    found = values(make(M, 40_000, draws, 1), game)
    assert max(abs(float(a - b)) for a, b in zip(found, exactly, strict=True)) < 0.01 * TOP


DOMAIN = dpx.Domain({"a": dpx.Numeric(0, 1), "b": dpx.Numeric(0, 1), "c": dpx.Categorical(["x", "y"])})


def some_rows(size, seed):
    rng = np.random.default_rng(seed)
    columns = {"a": rng.random(size), "b": rng.random(size), "c": rng.integers(2, size=size).astype(np.int32)}
    return Rows(DOMAIN, columns, size)


def twisted(frame):
    y = (frame["c"] == "y").to_numpy()
    return (0.2 + 0.5 * frame["a"] * frame["b"] + np.where(y, 0.25 * frame["b"], 0.1 * frame["a"])).to_numpy()


@pytest.mark.parametrize("kind", ["score", "class"])
@pytest.mark.parametrize("absolute", [False, True])
def test_of_rows_and_a_model_by_plain_loops(kind, absolute):
    """The whole way, against a loop over rows, draws and orders that knows nothing of plans."""
    size, draws, names = 6, 3, ["a", "b", "c"]
    here, others = some_rows(size, 0), [some_rows(size, 1 + t) for t in range(draws)]
    predictor = Predictor(twisted, names, DOMAIN, as_array=False)
    outcome = Outcome.of(PublicRange(0, 1), kind, 0.45 if kind == "class" else None)
    asker = Asker(predictor, outcome)
    plan = exact_plan(3, "shapley", draws)
    found = asker.influences(here, plan, names, {n: [o[n] for o in others] for n in names}, absolute=absolute)

    def told(i, S, t):
        value = {n: (others[t] if n in S else here)[n][i] for n in names}
        score = 0.2 + 0.5 * value["a"] * value["b"] + (0.25 * value["b"] if value["c"] == 1 else 0.1 * value["a"])
        return float(score >= 0.45) if kind == "class" else score

    def game(i, S, t):
        return -abs(told(i, S, t) - told(i, (), t)) if absolute else told(i, S, t)

    for i, (j, name) in itertools.product(range(size), enumerate(names)):
        steps = [
            game(i, order[: order.index(name)], t) - game(i, order[: order.index(name) + 1], t)
            for order in itertools.permutations(names)
            for t in range(draws)
        ]
        assert found[i, j] / outcome.range.levels == pytest.approx(np.mean(steps), abs=3e-6)
