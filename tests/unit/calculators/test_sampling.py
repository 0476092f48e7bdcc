"""The formulas of amplification by sampling against small mechanisms, their samples enumerated one by one."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from dpexplain.calculators.sampling import amplified_epsilon
from dpexplain.core.budget import exact, float_above
from dpexplain.core.sensitivity import Relation
from dpexplain.errors import InputError

RATES = [Fraction(1, 100), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)]
E = 3  # e^epsilon, so that everything is an exact fraction
EPSILON = Fraction(math.nextafter(math.log(E), 2))


def poisson(table, rate):
    """(probability, sample) of every sample, each row drawn by itself."""
    for kept in itertools.product([False, True], repeat=len(table)):
        chance = math.prod((rate if keep else 1 - rate for keep in kept), start=Fraction(1))
        yield chance, tuple(row for row, keep in zip(table, kept, strict=True) if keep)


def fixed(table, size):
    """The same, for samples of one size."""
    samples = list(itertools.combinations(table, size))
    for sample in samples:
        yield Fraction(1, len(samples)), sample


def law(mechanism, samples):
    """The probability of each answer when a sample is drawn and `mechanism` sees it."""
    parts = [[chance * p for p in mechanism(sample)] for chance, sample in samples]
    return [sum(column) for column in zip(*parts, strict=True)]


def loss(left, right):
    """The largest ratio of two laws, either way."""
    return max(max(Fraction(a) / b, Fraction(b) / a) for a, b in zip(left, right, strict=True))


def is_there_a_one(sample):
    """Randomised response: epsilon under both relations."""
    yes = Fraction(E if 1 in sample else 1, E + 1)
    return [1 - yes, yes]


def noisy_sum(sample):
    """The sum of +1 and -1 with geometric noise, ends together: epsilon when one row is added or removed."""
    a, total = Fraction(1, E), max(-2, min(2, sum(sample)))
    low, high = a ** (total + 2) / (1 + a), a ** (2 - total) / (1 + a)
    middle = [(1 - a) / (1 + a) * a ** abs(total - value) for value in (-1, 0, 1)]
    return [low, *middle, high]


def ratio(epsilon: float) -> float:
    return math.exp(epsilon) * (1 + 1e-12)


def reached(found: Fraction, epsilon: float) -> bool:
    """Whether a loss is all that a formula allows, up to rounding."""
    return ratio(epsilon) * (1 - 1e-9) <= found <= ratio(epsilon)


@pytest.mark.parametrize("rate", RATES)
def test_each_row_by_itself_and_one_added(rate):
    claim = amplified_epsilon(EPSILON, rate).epsilon
    for table in itertools.product([0, 1], repeat=3):
        for more in ([*table, 0], [*table, 1]):
            found = loss(law(is_there_a_one, poisson(table, rate)), law(is_there_a_one, poisson(more, rate)))
            assert found <= ratio(claim)
    assert reached(
        loss(law(is_there_a_one, poisson([0, 0], rate)), law(is_there_a_one, poisson([0, 0, 1], rate))), claim
    )


@pytest.mark.parametrize("rate", RATES)
def test_each_row_by_itself_and_one_replaced(rate):
    claim = amplified_epsilon(EPSILON, rate, relation="replace-one").epsilon
    found = [
        loss(law(noisy_sum, poisson([*rest, -1], rate)), law(noisy_sum, poisson([*rest, 1], rate)))
        for size in range(3)
        for rest in itertools.product([-1, 1], repeat=size)
    ]
    assert all(f <= ratio(claim) for f in found)
    assert reached(max(found), claim)
    # the formula for one row added would be wrong here
    added = amplified_epsilon(EPSILON, rate).epsilon
    assert max(found) > ratio(added) * 1.005


def test_the_papers_factor_of_two_is_too_little_for_one_row_replaced():
    one, rate = 1.0, 0.01
    a = math.exp(-one)
    top = {total: (1 / (1 + a)) * a ** (1 - total) for total in (-1, 0, 1)}  # the highest answer, sums from -1 to 1
    found = math.log(((1 - rate) * top[0] + rate * top[1]) / ((1 - rate) * top[0] + rate * top[-1]))
    answer = amplified_epsilon(one, rate, relation="replace-one")
    assert answer.theorem_13 == 0.02
    assert found > answer.theorem_13 * 1.15
    assert found == pytest.approx(answer.epsilon, rel=1e-9)
    assert "too little" in str(answer)


@pytest.mark.parametrize(("rows", "size"), [(4, 1), (4, 2), (5, 3), (3, 3)])
def test_a_fixed_number_of_rows_and_one_replaced(rows, size):
    claim = amplified_epsilon(EPSILON, Fraction(size, rows), sampling="fixed", relation="replace-one").epsilon
    for rest in itertools.product([0, 1], repeat=rows - 1):
        found = loss(law(is_there_a_one, fixed([*rest, 0], size)), law(is_there_a_one, fixed([*rest, 1], size)))
        assert found <= ratio(claim)
    zeros = [0] * (rows - 1)
    worst = loss(law(is_there_a_one, fixed([*zeros, 0], size)), law(is_there_a_one, fixed([*zeros, 1], size)))
    assert reached(worst, claim)


def some_mechanism(rng, answers=3, kinds=3, largest=3):
    """Any law over answers: an exponential mechanism whose scores move by at most one when a row comes or goes."""
    scores = {(): rng.uniform(-1, 1, answers)}
    for size in range(1, largest + 1):
        for sample in itertools.combinations_with_replacement(range(kinds), size):
            below = [scores[sample[:i] + sample[i + 1 :]] for i in range(size)]
            low, high = np.max(below, axis=0) - 1, np.min(below, axis=0) + 1
            low, high = np.minimum(low, high), np.maximum(low, high)
            scores[sample] = rng.uniform(low, high)

    def mechanism(sample):
        weights = np.exp(float(EPSILON) / 2 * scores[tuple(sorted(sample))])
        return list(weights / weights.sum())

    return mechanism


def promise(mechanism, kinds=3, largest=3):
    """Its true loss when one row is added: the scores above may move a little further than wanted."""
    worst = 0.0
    for size in range(largest):
        for sample in itertools.combinations_with_replacement(range(kinds), size):
            for row in range(kinds):
                pairs = zip(mechanism(sample), mechanism((*sample, row)), strict=True)
                worst = max([worst, *(abs(math.log(a / b)) for a, b in pairs)])
    return worst


def floats(mechanism, samples):
    return np.sum([float(chance) * np.array(mechanism(sample)) for chance, sample in samples], axis=0)


@pytest.mark.parametrize("seed", range(12))
def test_any_mechanism_stays_below(seed):
    mechanism = some_mechanism(np.random.default_rng(seed))
    epsilon, rate = promise(mechanism), Fraction(1, 3)
    added = amplified_epsilon(epsilon, rate).epsilon
    replaced = amplified_epsilon(epsilon, rate, relation="replace-one").epsilon
    for rest in itertools.combinations_with_replacement(range(3), 2):
        alone = np.log(floats(mechanism, poisson(rest, rate)))
        laws = [np.log(floats(mechanism, poisson([*rest, row], rate))) for row in range(3)]
        assert max(abs(law - alone).max() for law in laws) <= added + 1e-12
        assert max(abs(a - b).max() for a, b in itertools.combinations(laws, 2)) <= replaced + 1e-12


def test_all_rows_are_no_sample():
    for epsilon in (0.1, 0.3, 1, 7.7):
        exactly = float_above(exact(epsilon, "epsilon"))
        assert amplified_epsilon(epsilon, 1).epsilon == exactly
        assert amplified_epsilon(epsilon, 1, sampling="fixed", relation="replace-one").epsilon == exactly
        assert amplified_epsilon(epsilon, 1, relation="replace-one").epsilon == pytest.approx(2 * epsilon, rel=1e-15)


def test_rounding_goes_up_and_hardly():
    for epsilon, rate in [(1, 0.1), (1e-9, 1e-9), (1e-100, 1e-100), (700, 1e-3), (1000, 0.5), (0.2, 0.999999)]:
        told = Fraction(amplified_epsilon(epsilon, rate).epsilon)
        e, q = Decimal(repr(epsilon)), Decimal(repr(rate))
        with localcontext(prec=400):
            true = Fraction((1 + q * (e.exp() - 1)).ln())
        assert true <= told <= true * (1 + Fraction(1, 2**50))


def test_less_is_seen_less_is_told():
    found = [amplified_epsilon(1, rate, relation="replace-one").epsilon for rate in (0.001, 0.01, 0.1, 0.5, 1)]
    assert found == sorted(found)
    assert found[0] < 0.0024


def test_in_words():
    answer = amplified_epsilon(1, 0.1)
    assert (answer.base, answer.rate, answer.sampling, answer.relation) == (1.0, 0.1, "poisson", Relation.ADD_REMOVE)
    assert answer.epsilon == pytest.approx(math.log(1 + 0.1 * (math.e - 1)), rel=1e-14)
    assert str(answer) == (
        "epsilon = 0.1586 when one row of the table is added or removed, by a release that sees every row with "
        "probability 0.1, each by itself, and promises epsilon = 1 when one of the rows it sees is added or removed. "
        "Which rows it sees must stay secret. "
        "The factor of two of the QII paper (Theorem 13) gives 0.2: more than needed."
    )
    fixed_size = amplified_epsilon(2, 0.25, sampling="fixed", relation="replace-one")
    assert "a random sample of 25.0000% of the rows" in str(fixed_size)
    assert "Theorem" not in str(fixed_size)  # it speaks of an epsilon of at most one
    assert (
        amplified_epsilon(1, 1, relation="replace-one")
        .describe()
        .startswith("epsilon = 2 when one row of the table is")
    )


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((0, 0.1), {}, "epsilon must be a positive"),
        ((-1, 0.1), {}, "epsilon must be a positive"),
        ((float("nan"), 0.1), {}, "epsilon must be a positive"),
        (("1", 0.1), {}, "epsilon must be a positive"),
        ((True, 0.1), {}, "epsilon must be a positive"),
        ((1, 0), {}, "rate must be a positive"),
        ((1, None), {}, "rate must be a positive"),
        ((1, 1.5), {}, "rate is a share of the rows"),
        ((2000, 0.5), {}, "epsilon goes from"),
        ((1, 1e-200), {}, "epsilon goes from"),
        ((1, 0.1), {"sampling": "with replacement"}, "unknown sampling"),
        ((1, 0.1), {"relation": "swap"}, "unknown relation"),
        ((1, 0.1), {"sampling": "fixed"}, "number of rows is private"),
        ((1, 0.1), {"definition": "zcdp"}, "not zCDP"),
        ((1, 0.1), {"definition": "renyi"}, "unknown definition"),
    ],
)
def test_refusals(arguments, options, words):
    with pytest.raises(InputError, match=words):
        amplified_epsilon(*arguments, **options)
