"""Audits of the explanation of clusters, from rows to payload, on worst-case neighbouring tables.

The choice has few outcomes, so its law is computed exactly from the scores and the rate (or scale) that two real
releases hand to the sampler: the largest loss of any outcome must not exceed the price, and comes near it. That is
sharper than any number of draws; the draws themselves are held against the same law (chi-square, false alarm 1e-6).
The histograms are audited by draws at epsilon 2 (or rho 2), confidence 1 - 1e-6: 600 releases on each side of the sound
form, 4,000 (1,500) of the broken ones, whose lower bounds lie at least 7 standard deviations above the claim.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from captured import Shrunk, calls, drawn
from fit import FALSE_ALARM, p_value

import dpexplain as dpx
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.combinations import UNIT
from dpexplain.core.release import Door
from dpexplain.core.samplers import ExactSampler
from dpexplain.core.sensitivity import ScoreRange
from dpexplain.methods.clusters import release as explain
from dpexplain.methods.clusters import spec
from dpexplain.methods.clusters.request import Clusters
from dpexplain.methods.clusters.scores import Scoring
from dpexplain.models.clustering import Clustering
from stubs import FreeAccount, ZeroNoise, combination_score, combinations_of

pytestmark = pytest.mark.drawn(1e-6)

DOMAIN = dpx.Domain(
    {name: dpx.Categorical([0, 1, 2, 3]) for name in ("p", "q")} | {"label": dpx.Categorical([0, 1, 2])}
)
CLUSTERING = Clustering.of(
    lambda rows: rows["label"], labels=[0, 1], domain=DOMAIN, features=["label"], name="label", version="1"
)
COST = pure(2)
SUFFICIENCY, THIRDS = (0, 1, 0), (1 / 3, 1 / 3, 1 / 3)


def rows(*blocks):
    """(label, p, q, how often) for each block."""
    return [(label, p, q) for label, p, q, times in blocks for _ in range(times)]


# add-remove: a row joins cluster 0. In p only cluster 0 has its value (+1), in q only cluster 1 has it (-1), and what
# is likely without the row is q for both: cluster 0 has a value of its own there.
JOIN = rows((0, 1, 2, 20), (0, 0, 2, 40), (1, 0, 1, 20), (1, 0, 0, 20), (2, 0, 0, 200))
# replace-one: a row of cluster 0 with value 1 becomes one of cluster 1 with value 3. In p both values are cluster 0's
# (it loses twice), in q both are cluster 1's (it gains twice), and likely is p for both: cluster 1 has its own value.
MOVE = rows((0, 1, 0, 30), (0, 3, 0, 30), (1, 2, 1, 30), (1, 2, 3, 30), (1, 2, 0, 200), (2, 0, 0, 300))
PAIRS = {
    "add-remove": (JOIN, [*JOIN, (0, 1, 1)]),
    "replace-one": ([*MOVE, (0, 1, 1)], [*MOVE, (1, 3, 3)]),
}


class Watcher(ZeroNoise):
    """Remembers the scores of every choice, in units of the exponent."""

    def __init__(self) -> None:
        self.exponents = []

    def combine(self, scores, rate, uses):
        combos = list(combinations_of(len(scores), 2, uses))
        factor = float(rate) * math.log(2) / UNIT
        self.exponents.append((combos, factor * np.array([combination_score(scores, c) for c in combos], dtype=float)))
        self.scores, self.rate = scores, rate
        return super().combine(scores, rate, uses)

    def choose(self, scores, selection, change, cost):
        plain = np.array([int(s) for s in scores], dtype=float) / float(selection.scale)
        orders = list(itertools.permutations(range(len(plain)), selection.k))
        logs = [sum(plain[a] - _log_sum(np.delete(plain, order[:i])) for i, a in enumerate(order)) for order in orders]
        self.exponents.append((orders, np.array(logs)))
        return super().choose(scores, selection, change, cost)


def _log_sum(logs):
    return float(np.logaddexp.reduce(logs))


def table_of(records, relation, budget=None):
    frame = pd.DataFrame(records, columns=["label", "p", "q"])
    return dpx.PrivateTable(
        frame, domain=DOMAIN, budget=budget or dpx.Budget(10), relation=relation, ledger="sqlite:///:memory:", name="t"
    )


def watched(records, relation, request, cost=COST, budget=None):
    table, watcher = table_of(records, relation, budget), Watcher()
    table.door = Door(FreeAccount(table.budget, table.neighbours), sampler=watcher)
    explain.explain(table, CLUSTERING, request, cost=cost)
    return watcher


def request(weights=SUFFICIENCY, **options):
    return Clusters(attributes=["p", "q"], weights=weights, selection_share=Fraction(1, 2), **options)


def largest_losses(relation, asked, cost=COST, budget=None):
    """Of each choice of a release, in order: the largest log ratio of the probabilities of one outcome."""
    left, right = (watched(records, relation, asked, cost, budget).exponents for records in PAIRS[relation])
    losses = []
    for (_, one), (_, two) in zip(left, right, strict=True):
        losses.append(float(abs(one - _log_sum(one) - two + _log_sum(two)).max()))
    return losses


@pytest.mark.parametrize("relation", PAIRS)
def test_no_outcome_of_the_choice_tells_more_than_its_price(relation):
    """Half of epsilon 2 is for the choice."""
    (loss,) = largest_losses(relation, request())
    assert 0.85 < loss <= 1
    for weights in (THIRDS, (1, 0, 0), (0, 0, 1)):
        (loss,) = largest_losses(relation, request(weights))
        assert loss <= 1


@pytest.mark.parametrize("relation", PAIRS)
def test_no_outcome_of_two_stages_tells_more_than_its_price(relation):
    """A quarter of epsilon 2 for the candidates of both clusters together, a quarter for their combination."""
    for bounds, least in (("tight", 0.85), ("paper", 0.4)):
        *first, second = largest_losses(relation, request(method="two-stage", candidates=1, bounds=bounds))
        assert least / 2 < sum(first) <= 0.5
        assert second <= 0.5


def test_in_a_zcdp_account_the_loss_is_that_of_its_rho():
    """rho pays for a loss of sqrt(8 rho) of one choice."""
    budget, cost = dpx.Budget(50, 1e-6), zcdp(2)
    (loss,) = largest_losses("add-remove", request(), cost, budget)
    assert 0.85 * math.sqrt(8) < loss <= math.sqrt(8)


def half(method):
    def shorter(scoring, neighbours, *rest):
        found = method(scoring, neighbours, *rest)
        return ScoreRange(found.neighbours, 0, found.length // 2)

    return shorter


@pytest.mark.parametrize("relation", PAIRS)
def test_half_the_range_is_caught(relation, monkeypatch):
    for name in ("combination_range", "joint_range"):
        monkeypatch.setattr(Scoring, name, half(getattr(Scoring, name)))
    (loss,) = largest_losses(relation, request())
    assert loss > 1.5
    *first, _ = largest_losses(relation, request(method="two-stage", candidates=1))
    assert sum(first) > 0.75


def test_draws_follow_the_law_of_enumeration():
    """The scores of a table with six combinations of two attributes of three for each cluster: nine in all."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.integers(0, 3, (60, 3)), columns=["p", "q", "label"]).assign(r=draw.integers(0, 4, 60))
    domain = dpx.Domain({**DOMAIN, "r": dpx.Categorical([0, 1, 2, 3])})
    table = dpx.PrivateTable(
        frame, domain=domain, budget=dpx.Budget(10), relation="add-remove", ledger="sqlite:///:memory:", name="t"
    )
    watcher = Watcher()
    table.door = Door(FreeAccount(table.budget, table.neighbours), sampler=watcher)
    asked = Clusters(attributes=["p", "q", "r"], per_cluster=2, selection_share=Fraction(1, 2))
    explain.explain(table, CLUSTERING, asked, cost=COST)
    ((combos, exponents),) = watcher.exponents
    law = dict(zip(combos, np.exp(exponents - _log_sum(exponents)), strict=True))
    assert len(law) == 9

    def sample(scores):
        return [tuple(map(tuple, ExactSampler().combine(scores, watcher.rate, 2))) for _ in range(4000)]

    assert p_value(sample(watcher.scores), law) > FALSE_ALARM
    alone = watcher.scores.copy()
    alone[:, 3] = alone[:, 1] + alone[:, 2]  # the broken sibling: what two clusters share costs nothing
    assert p_value(sample(alone), law) < 1e-20


# Histograms ---------------------------------------------------------------------------------------------------------

TRIALS = {"sound": 600, "pure": 4_000, "zcdp": 1_500}
COUNTED = {
    "add-remove": ([(1, 0, 0)], [(1, 0, 0), (0, 1, 1)]),
    "replace-one": ([(1, 0, 0), (0, 1, 1)], [(1, 0, 0), (1, 2, 2)]),
}


def histograms(relation, cost, budget):
    """What both sides hand to the sampler when cluster 0 is explained by p and cluster 1 by q."""
    asked = Clusters(attributes=["p", "q"], selection_share=Fraction(1, 2))
    captured = []
    for records in COUNTED[relation]:
        table = table_of(records, relation, budget)
        ((values, *law),) = calls(table, partial(explain.explain, clustering=CLUSTERING, request=asked, cost=cost * 2))
        captured.append((values, *law))
    return captured


@pytest.fixture
def different(monkeypatch):
    """The choice is made once for all: another attribute for each cluster."""

    def fixed(gate, tables, spec, cost):
        return (0,), (1,)

    monkeypatch.setattr(explain, "choose", fixed)


def audit(relation, definition, sampler, trials=None):
    budget, cost = (dpx.Budget(50), pure(2)) if definition == "pure" else (dpx.Budget(50, 1e-6), zcdp(2))
    left, right = histograms(relation, cost, budget)
    one, two = np.array(left[0], dtype=float), np.array(right[0], dtype=float)
    power = 1 if definition == "pure" else 2

    def likelihood(values):
        return float((abs(values - two) ** power).sum() - (abs(values - one) ** power).sum())

    return dpx.audit.epsilon_lower_bound(
        lambda call: np.array(drawn(call, sampler), dtype=float),
        left,
        right,
        trials=trials or TRIALS[definition],
        confidence=1 - 1e-6,
        score=likelihood,
        claim=cost,
        gaussian=definition == "zcdp",
    )


@pytest.mark.long
@pytest.mark.usefixtures("different")
@pytest.mark.parametrize(
    ("relation", "definition"), [("add-remove", "pure"), ("replace-one", "pure"), ("replace-one", "zcdp")]
)
def test_no_lower_bound_of_the_histograms_above_the_claim(relation, definition):
    bound = audit(relation, definition, ExactSampler(), TRIALS["sound"])
    assert not bound.violates, bound


@pytest.mark.long
@pytest.mark.usefixtures("different")
@pytest.mark.parametrize(("relation", "definition"), [("add-remove", "pure"), ("replace-one", "zcdp")])
def test_half_the_noise_of_the_histograms_is_caught(relation, definition):
    bound = audit(relation, definition, Shrunk())
    assert bound.violates, bound


@pytest.mark.long
@pytest.mark.usefixtures("different")
def test_the_bound_of_one_histogram_where_a_row_is_in_two_is_caught(monkeypatch):
    """The broken sibling forgets that a row is in the cells of every chosen attribute."""
    real = spec.sensitivity
    monkeypatch.setattr(spec, "sensitivity", lambda neighbours, own, uses, distinct: real(neighbours, 1, 1, 1))
    bound = audit("add-remove", "pure", ExactSampler())
    assert bound.violates, bound
