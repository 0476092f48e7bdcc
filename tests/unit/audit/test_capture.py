"""What is captured of a release, the exact loss of its law, and draws that follow that law."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

import dpexplain as dpx
from dpexplain.audit.calls import Choice, Combination, Sum
from dpexplain.audit.capture import Part, capture, draws
from dpexplain.audit.lower_bound import from_scores
from dpexplain.core.budget import Cost, Definition, pure, zcdp
from dpexplain.core.combinations import rate_for
from dpexplain.core.mechanisms import best, selection
from dpexplain.core.sensitivity import Neighbours, Relation, ScoreRange, Sensitivity
from dpexplain.errors import InternalError, ReleaseLost
from stubs import rows_of

ADD_REMOVE = Neighbours(Relation.ADD_REMOVE)
DOMAIN = dpx.Domain({"g": dpx.Categorical(["a", "b"])})


def table(values, budget=None):
    frame = pd.DataFrame({"g": pd.Series(list(values), dtype=object)})
    settings = {"budget": budget or dpx.Budget(10), "relation": "add-remove", "ledger": "sqlite:///:memory:"}
    return dpx.PrivateTable(frame, domain=DOMAIN, name="t", **settings)


def release(body, cost=None):
    """An explainer of our own: whatever `body(gate, rows)` sends through the gate."""

    def explain(private):
        price = cost or pure(1)

        def inside(gate):
            rows = sum(batch.size for batch in rows_of(private, gate, ["g"]))
            body(gate, rows)

        private.door.release("test", {}, price, inside)

    return explain


def count(gate, rows):
    gate.noisy_counts("count", [rows], pure(Fraction(1, 2)))


def test_the_same_history_on_both_sides():
    """What is asked second depends on what was released first, and both sides hear the left answer."""

    def twice(gate, rows):
        (first,) = gate.noisy_counts("first", [rows], pure(Fraction(1, 2)))
        gate.noisy_counts("second", [rows] * first, pure(Fraction(1, 2)))

    first, second = capture(table("aa"), table("aab"), release(twice))
    assert (first.name, second.name) == ("first", "second")
    assert first.left[0].values == (2,)
    assert first.right[0].values == (3,)
    assert second.right[0].values == (3, 3)
    assert first.cost == pure(Fraction(1, 2))
    assert first.attained == pytest.approx(1)
    assert second.attained > 1.9  # the same count twice is not one partition: the bound is wrong, and that shows


def test_a_history_can_be_given():
    def follow(gate, rows):
        (first,) = gate.noisy_counts("first", [rows], pure(Fraction(1, 2)))
        gate.noisy_counts("second", [rows * first], pure(Fraction(1, 2)))

    parts = capture(table("aa"), table("aab"), release(follow), {0: [7]})
    assert [call.values for call in (parts[1].left[0], parts[1].right[0])] == [(14,), (21,)]


def test_noise_that_depends_on_rows_is_found():
    """Noise calibrated to the size of a group."""

    def calibrated(gate, rows):
        bound = Sensitivity(gate.neighbours, 12 // rows, (12 // rows) ** 2, 12 // rows)
        gate.noisy_sum("mean", [5], bound, pure(1))

    with pytest.raises(InternalError, match="depends on rows"):
        capture(table("aa"), table("aab"), release(calibrated))


def test_a_size_that_depends_on_rows_is_found():
    """A grid, or labels, from the data."""
    with pytest.raises(InternalError, match="depends on rows"):
        capture(table("aa"), table("aab"), release(lambda gate, rows: gate.noisy_counts("grid", [0] * rows, pure(1))))


def test_a_step_that_depends_on_rows_is_found():
    def sometimes(gate, rows):
        count(gate, rows)
        if rows > 2:
            gate.noisy_counts("more", [rows], pure(Fraction(1, 2)))

    with pytest.raises(InternalError, match="depends on rows"):
        capture(table("aa"), table("aab"), release(sometimes))


def test_a_charge_or_a_request_that_depends_on_rows_is_found():
    def longer(gate, rows):
        loop = gate.query_loop("question", gate.left)
        for _ in range(2):
            loop.ask([rows], Sensitivity.of_counts(gate.neighbours), pure(Fraction(1, 2 + rows)))

    with pytest.raises(InternalError, match="depends on rows"):
        capture(table("aa"), table("aab"), release(longer))

    def telling(private):
        request = {"rows": private._source.count()}
        private.door.release("test", request, pure(1), lambda gate: count(gate, 1))

    with pytest.raises(InternalError, match="depends on rows"):
        capture(table("aa"), table("aab"), telling)


def test_the_door_of_a_table_comes_back():
    left, right = table("aa"), table("aab")
    doors = left.door, right.door
    capture(left, right, release(count))
    assert (left.door, right.door) == doors
    with pytest.raises(ReleaseLost):
        capture(left, right, release(lambda gate, rows: 1 / 0))
    assert (left.door, right.door) == doors


def test_several_releases_and_several_choices_of_one_price():
    def both(private):
        release(count)(private)

        def choices(gate, rows):
            scores = [[rows, 0], [0, rows, 1]]
            gate.select_each("choices", scores, ScoreRange(gate.neighbours, -1, 1), pure(1))

        release(choices)(private)

    one, two = capture(table("aa"), table("aab"), both)
    assert (one.name, two.name) == ("count", "2:choices")
    assert [call.scores for call in two.right] == [(3, 0), (0, 3, 1)]
    assert two.law == "permute-and-flip"


# The exact loss ---------------------------------------------------------------------------------------------------


def sums(left, right, cost, law, *, norms=None):
    change = np.abs(np.subtract(left, right))
    l1, l2, linf = norms or (int(change.sum()), int((change**2).sum()), int(change.max()))
    bound = Sensitivity(ADD_REMOVE, l1, l2, linf)
    noise = best(bound, len(left), cost, law)
    calls = [(Sum(tuple(values), noise, bound, cost),) for values in (left, right)]
    return Part("sum", cost, *calls, ADD_REMOVE)


def choice(left, right, cost, *, k=1, length=2):
    change = ScoreRange(ADD_REMOVE, 0, length)
    law = selection(change, len(left), cost, k)
    calls = [(Choice(tuple(scores), law, change, cost),) for scores in (left, right)]
    return Part("choice", cost, *calls, ADD_REMOVE)


@pytest.mark.parametrize(
    ("law", "cost"),
    [
        ("discrete-laplace", pure(1)),
        ("cube", pure(1)),
        ("discrete-gaussian", zcdp(2)),
        ("discrete-laplace", zcdp(2)),
        ("cube", zcdp(2)),
    ],
)
def test_a_pair_at_the_bound_loses_the_price_and_a_nearer_one_less(law, cost):
    assert sums([0, 0], [100, 50], cost, law).attained == pytest.approx(1, rel=1e-9)
    nearer = sums([0, 0], [50, 25], cost, law, norms=(150, 12_500, 100))
    assert nearer.attained == pytest.approx(0.5 if cost.definition is Definition.PURE else 0.25, rel=1e-9)
    assert sums([5, 5], [5, 5], cost, law, norms=(100, 10_000, 100)).attained == 0


def test_the_claim_for_draws():
    """Fine Gaussian noise: mu = sqrt(2 rho). Coarse: what its grid allows, here for one number by hand."""
    fine = sums([0], [1000], zcdp(2), "discrete-gaussian")
    assert fine.gaussian
    assert fine.mu == pytest.approx(2, rel=1e-9)
    assert fine.claim.amount == pytest.approx(2, rel=1e-6)
    coarse = sums([0], [1], zcdp(2), "discrete-gaussian")  # scale 1/2
    z = np.arange(-20, 21)
    weights = np.exp(-2.0 * z**2)
    q = weights[z >= 1].sum() / weights.sum()
    assert ndtr(-coarse.mu / 2) == pytest.approx(q)  # the event z >= 1: 1 - q against q
    assert coarse.mu > 2.4
    assert sums([0], [1], zcdp(2), "discrete-laplace").claim.definition is Definition.PURE


def test_permute_and_flip_by_hand():
    """Of two candidates the worse one is taken first with probability 1/2 and then with exp(-gap)."""
    part = choice([1, 1], [2, 0], pure(2))
    assert part.loss == pytest.approx(2)
    # before 1/2, after e^-2 / 2; and the better one: log of (1 - e^-2 / 2) / (1/2), which is less
    assert part.attained == pytest.approx(1)
    many = choice([0] * 50, [0] * 25 + [-2] * 25, pure(2))
    assert math.log(2 / (1 + math.exp(-2))) < many.loss < 2


def test_gumbel_by_hand():
    """The exponential mechanism with odds e^(gap / scale), as a coin."""
    part = choice([1, 0], [0, 1], zcdp(Fraction(1, 2)))
    p = 1 / (1 + math.exp(-1 / float(part.left[0].law.scale)))
    orders = 1 + np.logspace(-3, 3, 2000)
    coin = max(math.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1) / a for a in orders[:1500])
    assert part.loss == pytest.approx(coin, rel=0.01)
    assert part.largest_ratio == pytest.approx(math.log(p / (1 - p)))
    assert part.law == "Gumbel noise"


def test_combinations_are_listed():
    scores = np.zeros((2, 4), dtype=np.int64)
    scores[0, 1:] = [4, 0, 4]
    cost, rate = pure(1), rate_for(4, Fraction(1), 2, 2, 1)
    calls = [(Combination(tuple(map(tuple, s.tolist())), rate, 1),) for s in (scores, 0 * scores)]
    part = Part("combination", cost, *calls, ADD_REMOVE)
    # two of four combinations give candidate 0 to slot 0: their weight is e times that of the others
    assert part.loss == pytest.approx(math.log((1 + math.e) / 2), rel=1e-6)
    assert part.law == "exponential mechanism"


def test_equal_laws_have_equal_signatures():
    assert (
        sums([0], [3000], pure(1), "discrete-laplace").signature
        == sums([9000], [0], pure(1), "discrete-laplace").signature
    )
    assert (
        sums([0], [3], pure(1), "discrete-laplace").signature != sums([0], [3], pure(2), "discrete-laplace").signature
    )
    assert choice([1, 1], [2, 0], pure(2)).signature == choice([12, 12], [14, 10], pure(2), length=4).signature
    assert choice([1, 1], [2, 0], pure(2)).signature != choice([1, 1], [2, 1], pure(2)).signature


# Draws ------------------------------------------------------------------------------------------------------------

TRIALS = 1_500


@pytest.mark.parametrize(
    "part",
    [
        sums([0], [100], pure(1), "discrete-laplace"),
        sums([3, 0, 7], [3, 100, 107], pure(1), "cube"),
        sums([0, 5, 0], [60, 5, 80], zcdp(Fraction(1, 2)), "discrete-gaussian"),
        choice([1, 1], [2, 0], pure(1)),
        choice([2, 1, 0], [0, 1, 2], zcdp(Fraction(1, 4)), k=2),
    ],
    ids=lambda part: part.law,
)
def test_scores_are_log_likelihood_ratios(part):
    """E[exp(-score)] over the left draws is 1, whatever the law, and E[exp(score)] over the right ones.

    exp of a score is at most e (Gaussian: mu = 1, and exp(-score) has the variance e - 1; Gumbel noise: up to 4.5, with
    the variance 1.46), so each mean has a standard deviation below 1.4 / sqrt(1500) = 0.036; six of them are allowed
    (false alarm below 1e-8).
    """
    left, right = draws(part, TRIALS)
    assert abs(np.mean(np.exp(-left)) - 1) < 6 * 0.036
    assert abs(np.mean(np.exp(right)) - 1) < 6 * 0.036
    assert left.mean() > 0 > right.mean()


def test_a_planted_defect_is_in_the_draws():
    """Noise of half the scale: the scores, in units of the right noise, spread half as far around their ends."""
    part = sums([0], [1000], zcdp(2), "discrete-gaussian")
    right, wrong = draws(part, TRIALS)[0].std(), draws(part, TRIALS, defect=0.5)[0].std()
    assert wrong / right == pytest.approx(0.5, abs=0.08)  # standard deviation of the ratio: 0.013


@pytest.mark.parametrize(("law", "cost"), [("discrete-laplace", pure(1)), ("discrete-gaussian", zcdp(2))])
def test_a_bound_that_is_too_small_is_refuted_by_draws_too(law, cost):
    """Half the true bound: twice the loss. The claim is then the price, and draws refute it."""
    part = sums([0], [1000], cost, law, norms=(500, 250_000, 500))
    assert part.attained == pytest.approx(2 if cost.definition is Definition.PURE else 4)
    assert part.claim.amount == pytest.approx(float(cost.amount))
    assert from_scores(draws(part, 6_000), claim=part.claim, gaussian=part.gaussian).violates


def test_a_cost_of_its_own_for_every_part():
    def two(gate, rows):
        gate.noisy_counts("a", [rows], zcdp(Fraction(1, 4)))
        gate.noisy_counts("b", [rows], zcdp(Fraction(3, 4)))

    parts = capture(table("a", dpx.Budget(5, 1e-6)), table("aa", dpx.Budget(5, 1e-6)), release(two, zcdp(1)))
    assert [part.cost for part in parts] == [
        Cost(Definition.ZCDP, Fraction(1, 4)),
        Cost(Definition.ZCDP, Fraction(3, 4)),
    ]
    assert [part.attained for part in parts] == pytest.approx([1, 1], rel=1e-6)
