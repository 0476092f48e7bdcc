"""Change one unit: the moments move at most as far as their bound says, and some change moves them nearly that far.

Every example runs the real path from raw rows to the integers that get noise: cleaning, the first rows of each unit,
the model (which fails on some rows), weights, quantising, rounding.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Neighbours, Relation, Unit
from dpexplain.maths.surrogate import Space, StepWeight
from dpexplain.maths.surrogate.local import Local
from dpexplain.maths.surrogate.moments import Moments
from dpexplain.methods import averages
from dpexplain.methods.local_explanation import spec as local
from neighbouring import DOMAIN, neighbours, norms, private, wild, within
from rings import examples

RECORDS = [(0, -1.0, "x"), (2, 0.3, "z"), (3, 1.0, "y")]
WEIGHTS = ["stable", "exponential", "gaussian", lambda u: 1.0, lambda u: abs(math.sin(7 * u))]


def spec_of(record, weight, anchor, relation) -> Moments:
    space = Space(DOMAIN, tuple("abc"))
    around = StepWeight.of(weight, space.diameter)
    return Moments.of(Local(space, around, PublicRange(-1, 1), space.read(record), anchor), relation, 1.0)


def sums(rows, protection, spec, model=wild):
    table = private(rows, protection)
    predictor = dpx.models.Predictor(model, list("abc"), DOMAIN, as_array=False, block=16)
    average = averages.average_for(spec.space, spec.output, table.neighbours)
    kernel = partial(averages.statistic, predictor=predictor, average=average, more=spec.local.gram)
    n, first = spec.local.size, average.size
    gram = table.sum_rows(
        Gate(table.door, pure(1)), kernel, list("abc"), size=first + 1 + n * (n + 1), label="", parallel=False
    )
    table.ledger.close()
    person = np.array(gram[:first].tolist(), dtype=object)
    return np.array(spec.pack(gram[first + 1 :]), dtype=object), person, average, table.neighbours


@settings(max_examples=examples(100), deadline=None)
@given(neighbours(), st.sampled_from(RECORDS), st.sampled_from(WEIGHTS), st.sampled_from([-1.0, 0.0, 0.6, None]))
def test_one_unit_moves_the_moments_at_most_as_far_as_the_bound(pair, record, weight, anchor):
    protection, rows, other = pair
    spec = spec_of(record, weight, anchor, Relation(protection["relation"]))
    left, one, average, relation = sums(rows, protection, spec)
    right, two, _, _ = sums(other, protection, spec)
    assert within(norms(left - right), local.sensitivity(spec, relation))
    assert within(norms(one - two), average.sensitivity(relation))


def extreme(rows):
    return np.sign(rows["b"].to_numpy() + 0.271)


# From the record, a corner: the opposite corner; and 0.365 away in b, where the weight begins to fall, on both sides of
# the score's jump.
FAR, ABOVE, BELOW = (3, 1.0, "y"), (0, -0.270, "x"), (0, -0.272, "x")


@pytest.mark.parametrize(
    ("relation", "unit", "left", "right"),
    [
        ("add-remove", None, [(FAR, 0)], [(FAR, 0), (FAR, 1)]),
        ("add-remove", 2, [(FAR, 0)], [(FAR, 0), (FAR, 1), (FAR, 1), (FAR, 1)]),
        ("replace-one", None, [(FAR, 0), (ABOVE, 1)], [(FAR, 0), (BELOW, 1)]),
        ("replace-one", 2, [(FAR, 0), (ABOVE, 1), (ABOVE, 1)], [(FAR, 0), (BELOW, 1), (BELOW, 1)]),
    ],
)
def test_the_real_path_comes_near_the_bound(relation, unit, left, right):
    protection = {"relation": relation} | ({} if unit is None else {"unit": dpx.Unit("id", unit)})
    spec = spec_of((0, -1.0, "x"), "stable", 0.0, Relation(relation))
    one, *_, relation = sums(left, protection, spec, extreme)
    two, *_ = sums(right, protection, spec, extreme)
    moved, bound = norms(one - two)[1], local.sensitivity(spec, relation).l2_squared
    assert 0.99**2 * bound <= moved <= bound


def possible_rows(n: int) -> np.ndarray:
    """Rows seen from a corner: many distances, and directions with several angles between them."""
    found = []
    for u in np.concatenate([np.linspace(0.05, 1, 90), np.linspace(1, math.sqrt(n), 24)]):
        along = np.append(np.ones(math.ceil(u * u)), np.zeros(n))[:n]  # as many coordinates as it takes to be so far
        for share in (0.0, 0.15, 0.3, 0.5, 1.0):
            direction = (1 - share) * along + share * np.roll(along, math.ceil(u * u))
            x = u * direction / np.linalg.norm(direction)
            if x.max() <= 1:
                found.append(x)
    return np.array(found)


@pytest.mark.parametrize("weight", ["stable", "exponential", "gaussian"])
@pytest.mark.parametrize("n", [1, 3, 13])
def test_the_bound_is_nearly_attained(weight, n):
    """By single rows, and by pairs of rows, of one search.

    add-remove: to 1 %, from the width of a step. replace-one: to 2 % in three columns, but 6 % in one and 3.5 % in 13,
    because the proof allows any angle between any two rows: a line has none, and far away a cube has room for few.
    """
    domain = dpx.Domain({f"x{i}": dpx.Numeric(0, 1) for i in range(n)})
    space = Space(domain, tuple(domain))
    place = Local(space, StepWeight.of(weight, space.diameter), PublicRange(-1, 1), space.read([0] * n), 0.0)
    x = possible_rows(n)
    grams = [place.gram(row[None], np.array([score])) for row in x for score in (-1.0, 1.0)]
    for relation, slack in ((Relation.ADD_REMOVE, 0.01), (Relation.REPLACE_ONE, {1: 0.06, 3: 0.02, 13: 0.035}[n])):
        spec = Moments.of(place, relation, 1.0)
        u = np.array([spec.pack(gram) for gram in grams], dtype=float)
        squares = (u**2).sum(axis=1)
        if relation is Relation.REPLACE_ONE:
            squares = squares[:, None] + squares - 2 * u @ u.T
        bound = spec.bound(Neighbours(relation))
        assert (1 - slack) * bound <= math.sqrt(squares.max()) <= bound


def test_a_unit_of_several_rows_moves_the_moments_so_many_times_as_far():
    place = spec_of((0, -1.0, "x"), "stable", 0.0, Relation.REPLACE_ONE)
    one, four = (place.bound(Neighbours(Relation.REPLACE_ONE, unit)) for unit in (None, Unit("id", 4)))
    assert 4 * one - 4 * math.sqrt(place.size) - 4 <= four <= 4 * one
