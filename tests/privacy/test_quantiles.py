"""Quantiles on worst-case neighbouring tables: exact privacy losses of the ideal law, and audits of real releases.

The laws are those of permute-and-flip, enumerated. An audit scores a release by its log likelihood ratio under them and
has confidence 1 - 1e-6: a sound release is accused with probability at most 1e-6. A broken sibling is missed with a
probability below 1e-6: its best event proves the defect even when both frequencies are off by five standard deviations.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.release import Door
from dpexplain.core.samplers import ExactSampler
from dpexplain.core.sensitivity import Neighbours, Relation, ScoreRange
from dpexplain.maths.ladder import Ladder
from dpexplain.methods.quantiles import spec as quantiles
from dpexplain.methods.quantiles.release import explain
from dpexplain.methods.quantiles.request import QuantilesRequest
from stubs import FreeAccount, free_door

pytestmark = pytest.mark.drawn(1e-6)

QUARTERS = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Case:
    """Two neighbouring tables, as counts of their cells, and a price that the broken sibling sells too cheaply."""

    relation: str
    probs: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    epsilon: int
    defect: int = 1  # how many times too small the broken sibling's noise is

    @property
    def ladder(self) -> Ladder:
        column = dpx.Numeric(0, len(self.left) - 1, integer=True)
        return Ladder("a", column, len(self.left), 1, quantiles.exact_probs(self.probs))

    def __str__(self) -> str:
        return f"{self.relation}, {len(self.probs)} quantiles"


CASES = [
    Case("add-remove", (0.5,), (8, 3, 8), (9, 3, 8), 1, defect=4),
    Case("replace-one", QUARTERS, (9, 16, 8, 23), (8, 16, 8, 24), 2, defect=8),
]
MEDIAN = Case("replace-one", (0.5,), (8, 2, 6), (7, 2, 7), 1, defect=2)
TRIALS = 1_500


def flip(scores, scale):
    """The law of permute-and-flip: in random order, each is accepted with probability exp((score - best) / scale)."""
    accepted = [math.exp((score - max(scores)) / scale) for score in scores]
    law = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        left = 1.0
        for i in order:
            law[i] += left * accepted[i]
            left *= 1 - accepted[i]
    return law / math.factorial(len(scores))


def law(counts, case):
    """The probability of every outcome, positions in the order of the probabilities."""
    ladder, neighbours = case.ladder, Neighbours(Relation(case.relation))
    below, last = quantiles.spread(np.array(counts), ladder), len(case.probs) + 1
    outcomes = [({0: 0, last: ladder.size}, 1.0)]
    for level in ladder.levels:
        scale = quantiles.sensitivity(ladder, level, neighbours).length * len(ladder.levels) / case.epsilon
        longer = []
        for positions, probability in outcomes:
            laws = [flip(scores.tolist(), scale) for scores in quantiles.scores(below, level, positions)]
            for choice in itertools.product(*(range(len(node)) for node in laws)):
                new = {n.place: positions[n.left] + c for n, c in zip(level.nodes, choice, strict=True)}
                chance = math.prod(node[c] for node, c in zip(laws, choice, strict=True))
                longer.append(({**positions, **new}, probability * chance))
        outcomes = longer
    return {tuple(positions[place] for place in range(1, last)): chance for positions, chance in outcomes}


class Loud(ExactSampler):
    """The defect: noise that is `defect` times too small, by scores that are as many times too large."""

    def __init__(self, defect: int) -> None:
        self.defect = defect

    def choose(self, scores, selection, change, cost):
        return super().choose([self.defect * score for score in scores], selection, change, cost)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("probs", [(0.5,), (0.2,), (0.5, 0.7), QUARTERS], ids=str)
def test_no_outcome_tells_more_than_the_price(relation, probs):
    """Exactly, for every table of up to three rows in each of three cells and all its neighbours."""
    tables = list(itertools.product(range(4), repeat=3))
    case = Case(relation, probs, (0, 0, 0), (0, 0, 0), epsilon=2)
    laws = {counts: law(counts, case) for counts in tables}
    losses = [0.0]
    for one, two in itertools.combinations(tables, 2):
        step = sorted(np.subtract(one, two).tolist())
        if step in ([[-1, 0, 1]] if relation == "replace-one" else [[0, 0, 1], [-1, 0, 0]]):
            losses.append(max(abs(math.log(laws[one][k] / laws[two][k])) for k in laws[one]))
    assert max(losses) <= 2 * (1 + 1e-9)
    assert max(losses) > 1  # and some tell a good deal of it


def audit(case, sampler, trials=TRIALS, mechanism=None):
    cost, ladder = pure(case.epsilon), case.ladder
    door = free_door(relation=case.relation, sampler=sampler, keep=False)
    one, two = law(case.left, case), law(case.right, case)
    ratios = {outcome: math.log(one[outcome] / two[outcome]) for outcome in one}

    def select(counts):
        chosen = []
        run = partial(quantiles.select_quantiles, counts=np.array(counts), ladder=ladder, cost=cost)
        door.release("audit", {"of": "quantiles"}, cost, lambda gate: chosen.extend(run(gate)))
        return tuple(chosen[1:-1])  # without both ends

    return dpx.audit.epsilon_lower_bound(
        mechanism or select,
        case.left,
        case.right,
        trials=trials,
        confidence=1 - 1e-6,
        score=ratios.__getitem__,
        claim=cost,
    )


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_lower_bound_above_the_claim(case):
    bound = audit(case, ExactSampler())
    assert not bound.violates, bound


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_too_little_noise_is_caught(case):
    bound = audit(case, Loud(case.defect))
    assert bound.violates, bound


@pytest.mark.long
def test_the_bound_for_add_remove_under_replace_one_is_caught(monkeypatch):
    bound_of = quantiles.sensitivity

    def too_short(ladder, level, neighbours):
        right = bound_of(ladder, level, Neighbours(Relation.ADD_REMOVE, neighbours.unit))
        return ScoreRange(neighbours, right.low, right.high)

    monkeypatch.setattr(quantiles, "sensitivity", too_short)
    bound = audit(MEDIAN, ExactSampler(), trials=8_000)
    assert bound.violates, bound


@pytest.mark.long
def test_the_product_from_rows_to_payload(monkeypatch):
    """Rows, request, door, payload, positions; the exact counts are computed by the first release only."""
    monkeypatch.setattr(quantiles, "MOST_PARTS", 1)
    tables = {}
    for counts in (MEDIAN.left, MEDIAN.right):
        table = dpx.PrivateTable(
            pd.DataFrame({"a": np.repeat([0, 1, 2], counts)}),
            domain=dpx.Domain({"a": MEDIAN.ladder.column}),
            budget=dpx.Budget(1),
            relation=MEDIAN.relation,
            ledger="sqlite:///:memory:",
            name="t",
        )
        table.door = Door(FreeAccount(table.budget, table.neighbours, keep=False))
        table.sum_rows = partial(remembered, table.sum_rows, [])
        tables[counts] = table

    def explained(counts):
        request = QuantilesRequest(feature="a", probs=MEDIAN.probs)
        return tuple(explain(tables[counts], None, request, cost=pure(1)).positions[1:-1])

    bound = audit(MEDIAN, None, trials=2_000, mechanism=explained)
    assert bound.failures == 0
    assert not bound.violates, bound
    assert bound.epsilon > 0  # the audit does tell the two tables apart


def remembered(map_sum, known, *arguments, **options):
    if not known:
        known.append(map_sum(*arguments, **options))
    return known[0]
