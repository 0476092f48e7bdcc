"""Audits of one round of dp_kmeans on worst-case neighbouring tables, from rows to the released vector.

At epsilon 2 (or rho 2) and confidence 1 - 1e-6: a sound release is accused with probability at most 1e-6. The broken
siblings lose twice as much as they say and are missed with a probability below 1e-6: in pure accounts the loss spreads
over four numbers and is hard to see, so these audits draw more.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from captured import Shrunk, calls

import dpexplain as dpx
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.samplers import ExactSampler
from dpexplain.core.sensitivity import Neighbours, Relation, Sensitivity
from dpexplain.methods.kmeans import release as kmeans

pytestmark = pytest.mark.drawn(1e-6)

DOMAIN = dpx.Domain({"x": dpx.Numeric(0, 1)})
TABLES = {  # from one centre to the other, and at the far ends of the range
    "replace-one": ([0.0, 0.0, 1.0], [0.0, 1.0, 1.0]),
    "add-remove": ([0.0, 1.0], [0.0, 1.0, 1.0]),
}
REQUEST = kmeans.KMeans(k=2, start=[{"x": 0.0}, {"x": 1.0}], rounds=1)
TRIALS, BLOCK = {"pure": 24_000, "zcdp": 4_000}, 1_000
BUDGETS = {"pure": (dpx.Budget(10), pure(2)), "zcdp": (dpx.Budget(50, 1e-6), zcdp(2))}


def captured(rows, relation, definition):
    """What the only round hands to the sampler."""
    budget, cost = BUDGETS[definition]
    table = dpx.PrivateTable(
        pd.DataFrame({"x": rows}),
        domain=DOMAIN,
        budget=budget,
        relation=relation,
        ledger="sqlite:///:memory:",
        name="t",
        rows_hint=None if relation == "replace-one" else 3,
    )
    (call,) = calls(table, partial(kmeans.explain, _model=None, request=REQUEST, cost=cost))
    return call


def draws(call, sampler, score):
    """Scores of draws of a captured release, many at a time: the coordinates of these laws are independent."""
    values, noise, bound, cost = call
    many = replace(noise, size=BLOCK * noise.size)
    while True:
        yield from score(np.reshape(sampler.perturb(values * BLOCK, many, bound, cost), (BLOCK, -1)))


def audit(relation, definition, sampler):
    left, right = (captured(rows, relation, definition) for rows in TABLES[relation])
    one, two = np.array(left[0]), np.array(right[0])
    assert left[1] == right[1]
    assert left[1].law == ("discrete-laplace" if definition == "pure" else "discrete-gaussian")

    def ratios(values):
        """Of the likelihoods, as logarithms, up to a factor."""
        if definition == "pure":
            return (np.abs(values - two) - np.abs(values - one)).sum(axis=1).astype(float)
        return (values.astype(float) @ (one - two)).astype(float)

    return dpx.audit.epsilon_lower_bound(
        next,
        draws(left, sampler, ratios),
        draws(right, sampler, ratios),
        trials=TRIALS[definition],
        confidence=1 - 1e-6,
        claim=BUDGETS[definition][1],
        gaussian=definition == "zcdp",
    )


CASES = [("replace-one", "pure"), ("add-remove", "pure"), ("replace-one", "zcdp"), ("add-remove", "zcdp")]


@pytest.mark.long
@pytest.mark.parametrize(("relation", "definition"), CASES)
def test_no_lower_bound_above_the_claim(relation, definition):
    bound = audit(relation, definition, ExactSampler())
    assert not bound.violates, bound
    assert bound.failures == 0
    assert max(bound.epsilon, bound.mu) > 0.5  # the audit does tell the two tables apart


@pytest.mark.long
@pytest.mark.parametrize(("relation", "definition"), CASES)
def test_half_the_noise_is_caught(relation, definition):
    bound = audit(relation, definition, Shrunk())
    assert bound.violates, bound


@pytest.mark.long
def test_the_bound_for_add_remove_under_replace_one_is_caught(monkeypatch):
    bound_of = kmeans.sensitivity

    def too_small(space, weight, neighbours):
        right = bound_of(space, weight, Neighbours(Relation.ADD_REMOVE, neighbours.unit))
        return Sensitivity(neighbours, right.l1, right.l2_squared, right.linf)

    monkeypatch.setattr(kmeans, "sensitivity", too_small)
    bound = audit("replace-one", "pure", ExactSampler())
    assert bound.violates, bound


def test_every_part_is_paid_for_and_together_they_cost_the_price():
    """Histograms, survey and rounds: the law of each is worth its part, and the parts add up."""
    table = dpx.PrivateTable(
        pd.DataFrame({"x": [0.1, 0.9, 0.5]}),
        domain=DOMAIN,
        budget=dpx.Budget(10),
        relation="add-remove",
        ledger="sqlite:///:memory:",
        name="t",
    )
    made = calls(table, partial(kmeans.explain, _model=None, request=kmeans.KMeans(k=2, rounds=3), cost=pure(2)))
    assert len(made) == 5
    assert sum(cost.amount for *_, cost in made) == 2
    assert all(bound.l1 / noise.scale <= cost.amount for _, noise, bound, cost in made)
