"""Audits of the releases over parts, on worst-case neighbouring tables, from dealt rows to payload.

Quick form: releases at epsilon 1, 600 on each side, confidence 1 - 1e-6, so a sound mechanism is accused with
probability at most 1e-6. Each broken sibling loses twice what it claims; with 7,000 releases its lower bound is about
1.45 with a standard deviation below 0.09, so it is missed with a probability of about 1e-6.
The exact answers of the parts, which are the same every time, are computed once, for the dealing that is worst.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from captured import Shrunk

import dpexplain as dpx
from dpexplain.audit.cases import GivenNumbers
from dpexplain.core.budget import pure
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import Door
from dpexplain.core.samplers import ExactSampler
from dpexplain.core.sensitivity import Assignment
from dpexplain.methods import parts
from dpexplain.methods.generic_plot import release as generic_plot
from dpexplain.methods.generic_plot.request import GenericPlot
from dpexplain.methods.rank_aggregation import release as rank_aggregation
from dpexplain.methods.rank_aggregation import spec as voting
from dpexplain.methods.rank_aggregation.request import RankAggregation
from stubs import FreeAccount, ZeroNoise

pytestmark = pytest.mark.drawn(1e-6)

DOMAIN = dpx.Domain({"g": dpx.Categorical(["a", "b"]), "flag": dpx.Categorical([0, 1])})
TRIALS = {"sound": 600, "broken": 7_000}
COST = pure(1)
ITEMS = ["p", "q", "r"]


def flag_plot(rows, model):
    """Both points of the plot at the top, far beyond the box, if the part has a flag; otherwise at the bottom."""
    return ["a", "b"], [1e6 * (2 * int(rows["flag"].max()) - 1)] * 2


def flag_order(rows, model):
    return ITEMS if rows["flag"].max() else ITEMS[::-1]


# (table settings, rows on the left, rows on the right, the parts on both sides as the worst secret deals them)
ONE, TWO = ("a", 1, 1), ("b", 0, 2)  # g, flag, id
CASES = {
    "replace-one": ({"relation": "replace-one"}, [ONE, ONE], [ONE, TWO], [0, 1], [0, 1]),
    "add-remove": ({"relation": "add-remove", "rows_hint": 4}, [TWO], [TWO, ONE], [0], [0, 0]),
    # a unit with a flag leaves the part of one without; one comes that spoils the other part
    "unit replaced": (
        {"relation": "replace-one", "unit": dpx.Unit("id", 1)},
        [("b", 0, 0), ("a", 1, 1), ("a", 1, 2)],
        [("b", 0, 0), ("a", 1, 1), ("b", 0, 3)],
        [0, 1, 0],
        [0, 1, 1],
    ),
}


def spoiled_plot(rows, model):
    """Like `flag_plot`, but a row of "b" next to a flag takes it away."""
    top = bool(rows["flag"].max()) and not ((rows["g"] == "b").any() and len(rows) > 1 and rows["flag"].iloc[0] == 1)
    return ["a", "b"], [1e6 if top else -1e6] * 2


def spoiled_order(rows, model):
    return ITEMS if spoiled_plot(rows, model)[1][0] > 0 else ITEMS[::-1]


@pytest.fixture
def tables(monkeypatch):
    """Two tables for each case whose rows are read and explained once; functions are tried out once."""
    made = {}
    for case, (settings, left, right, *dealt) in CASES.items():
        for side, rows, numbers in zip(("left", "right"), (left, right), dealt, strict=True):
            made[case, side] = opened(rows, numbers, settings)
    monkeypatch.setattr(parts, "try_out", lambda *_, **__: None)
    return made


def opened(rows, numbers, settings):
    """A table whose rows are dealt by these numbers and stay in their order, the worst one; sums are made once."""
    table = dpx.PrivateTable(
        pd.DataFrame(rows, columns=["g", "flag", "id"]),
        domain=DOMAIN, budget=dpx.Budget(10), ledger="sqlite:///:memory:", name="t", **settings,
    )  # fmt: skip
    table.secrets = partial(GivenNumbers, numbers)
    sums, known = table.sum_groups, {}

    def once(*given, label, **options):
        if label not in known:
            known[label] = sums(*given, label=label, **options)
        return known[label]

    table.sum_groups = once
    return table


def requests(case):
    plot, order = (spoiled_plot, spoiled_order) if case == "unit replaced" else (flag_plot, flag_order)
    return {
        "curve": GenericPlot(explainer=plot, feature="g", output=(0, 1), parts=2, rug=False, version="1"),
        "votes": RankAggregation(ranker=order, items=ITEMS, parts=2, version="1"),
        "top": RankAggregation(ranker=order, items=ITEMS, parts=2, version="1", k=1),
    }


def release(side, case, part, request, sampler, tables):
    table = tables[case, side]
    table.door = Door(FreeAccount(table.budget, table.neighbours, keep=False), sampler=sampler)
    module = generic_plot if part == "curve" else rank_aggregation
    cost = COST * 2 if part == "top" else COST  # half of it is for the choice
    result = module.explain(table, None, request, cost=cost)
    return result.released["parts"][part]["values"]


def score(values, part, left, right):
    """The log likelihood ratio of cube noise around the exact values of both sides, up to a factor."""
    if part == "top":
        return values[0]
    values = np.asarray(values, dtype=float)
    return float(abs(values - right).max() - abs(values - left).max())


def audit(case, part, tables, sampler, trials=TRIALS["broken"]):
    ask = partial(release, case=case, part=part, request=requests(case)[part], tables=tables)
    exact = {side: np.array(ask(side, sampler=ZeroNoise())) for side in ("left", "right")}
    return dpx.audit.epsilon_lower_bound(
        partial(ask, sampler=sampler),
        "left",
        "right",
        trials=trials,
        confidence=1 - 1e-6,
        score=partial(score, part=part, **exact),
        claim=COST,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "part"), [*((case, part) for case in CASES for part in ("curve", "votes")), ("unit replaced", "top")]
)
def test_no_lower_bound_above_the_claim(case, part, tables):
    bound = audit(case, part, tables, ExactSampler(), TRIALS["sound"])
    assert not bound.violates, bound


@pytest.mark.long
def test_half_the_noise_is_caught(tables):
    bound = audit("replace-one", "curve", tables, Shrunk())
    assert bound.violates, bound


@pytest.mark.long
def test_one_changed_part_where_a_replaced_id_changes_two_is_caught(tables, monkeypatch):
    monkeypatch.setattr(Assignment, "changed_parts", lambda rule, neighbours: 1)
    bound = audit("unit replaced", "curve", tables, ExactSampler())
    assert bound.violates, bound


@pytest.mark.long
def test_a_box_that_is_not_enforced_is_caught(tables, monkeypatch):
    def loose(box, values):
        return np.rint((np.clip(values, -0.5, 1.5) - box.low) / box.width * box.levels).astype(np.int64)

    monkeypatch.setattr(PublicRange, "quantize", loose)
    bound = audit("replace-one", "curve", tables, ExactSampler())
    assert bound.violates, bound


@pytest.mark.long
def test_half_the_bound_of_a_ballot_is_caught(tables, monkeypatch):
    """M^2 / 4 is how far a ballot is from the failed one, not from its reverse."""
    monkeypatch.setattr(voting, "ballot_bounds", lambda items, released: (2, 2, 1))  # of (4, 8, 2)
    bound = audit("replace-one", "votes", tables, ExactSampler())
    assert bound.violates, bound


# --- a part that begins to answer ---------------------------------------------------------------------------------


@pytest.mark.long
def test_a_count_that_weighs_more_than_the_bound_allows_is_caught(tables, monkeypatch):
    """One row more, the first one of its part: the count of parts that answered moves farther than anything else.

    Four times the weight loses four times the claim, so it is missed with a probability far below 1e-9. That the sound
    one loses what it claims and no more is computed exactly in test_every_release.py ("a part begins").
    """
    for side, numbers in (("left", [0]), ("right", [0, 1])):
        tables["begins", side] = opened([TWO, ONE][: len(numbers)], numbers, CASES["add-remove"][0])
    monkeypatch.setattr(generic_plot, "count_weight", lambda axis, output, assignment: 4 * output.levels)
    bound = audit("begins", "curve", tables, ExactSampler(), 1_500)
    assert bound.violates, bound
