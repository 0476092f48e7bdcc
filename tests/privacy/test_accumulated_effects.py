"""Audits of accumulated effects on worst-case neighbours, and the coverage of their intervals.

6,000 draws on each side at epsilon 2 for the sums of differences, confidence 1 - 1e-6; half the noise is missed with a
probability below 1e-6. Coverage: the points of one release err together, so over 100 releases the mean coverage has a
standard deviation of at most sqrt(0.05 * 0.95 / 100) = 0.022; the tests allow for five of them.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
from captured import Shrunk, calls, drawn

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.release import Door
from dpexplain.core.samplers import ExactSampler
from dpexplain.explainers import accumulated_effects as ale
from stubs import FreeAccount

DOMAIN = dpx.Domain(
    {"g": dpx.Categorical(["a", "b"]), "two": dpx.Numeric(0, 1, integer=True), "up": dpx.Categorical([0, 1])}
)
HIGH, LOW = ("a", 0, 1), {"g": ("b", 0, 0), "two": ("a", 1, 0)}
TRIALS, PRICE = 6_000, pure(2.5)  # of which four fifths are for the sums


def twisted(rows: pd.DataFrame) -> np.ndarray:
    """Rises over the whole range with `g` and with `two`, or falls: as `up` says."""
    up = rows["up"].to_numpy(dtype=float)
    return np.where((rows["g"] == "b") != (rows["two"] == 1), up, 1 - up)


MODEL = dpx.Model(twisted, output=(0, 1), name="twisted", version="1")


def captured(rows, relation, feature):
    frame = pd.DataFrame(rows, columns=list(DOMAIN))
    table = dpx.PrivateTable(
        frame, domain=DOMAIN, budget=dpx.Budget(10), relation=relation, ledger="sqlite:///:memory:", name="t"
    )
    request = ale.AccumulatedEffects(feature=feature, clip=1)
    counts, sums = calls(table, lambda table: ale.explain(table, MODEL, request, cost=PRICE))
    assert counts[3].amount + sums[3].amount == PRICE.amount
    return counts, sums


def audit(relation, feature, sampler):
    pair = ([HIGH, HIGH], [HIGH, LOW[feature]]) if relation == "replace-one" else ([HIGH], [HIGH, HIGH])
    left, right = (captured(rows, relation, feature)[1] for rows in pair)
    assert abs(left[0][0] - right[0][0]) == left[2].linf == left[2].l1  # the worst case there is
    ends = sorted((left[0][0], right[0][0]))  # beyond them the likelihood ratio does not grow
    return dpx.audit.epsilon_lower_bound(
        partial(drawn, sampler=sampler),
        left,
        right,
        trials=TRIALS,
        confidence=1 - 1e-6,
        score=lambda values: float(np.clip(values[0], *ends)),
        claim=left[3],
    )


CASES = [("replace-one", "g"), ("replace-one", "two"), ("add-remove", "g")]


@pytest.mark.parametrize(("relation", "feature"), CASES)
def test_no_lower_bound_above_the_claim(relation, feature):
    bound = audit(relation, feature, ExactSampler())
    assert not bound.violates, bound


@pytest.mark.parametrize(("relation", "feature"), CASES)
def test_half_the_noise_is_caught(relation, feature):
    bound = audit(relation, feature, Shrunk())
    assert bound.violates, bound


def exact_curve(frame, curve, function):
    """The textbook curve for the bins of a release."""
    axis = curve.axes[0]
    values = frame[axis.feature].to_numpy()
    steps = [0.0]
    for k, (a, b) in enumerate(itertools.pairwise(axis.points)):
        rows = frame[(values <= b) & ((values > a) | (k == 0))] if axis.ordered else frame[np.isin(values, [a, b])]
        gap = function(rows.assign(**{axis.feature: b})) - function(rows.assign(**{axis.feature: a}))
        steps.append(steps[-1] + (gap.mean() if len(rows) else 0.0))
    steps = np.array(steps)
    if axis.ordered:
        return steps - np.interp(values, axis.points, steps).mean()
    return steps - pd.Series(steps, index=axis.points)[values].mean()


def test_intervals_cover_where_most_rows_have_one_value():
    """Nine of ten rows in one cell, most cells empty: their noise is most of the noise of the centre."""
    n = 4000
    draw = np.random.default_rng(2)
    x = np.where(draw.random(n) < 0.92, 0.005, (np.floor(draw.random(n) * 15) + 0.5) / 100)  # middles of cells
    frame = pd.DataFrame({"x": x})

    def line(rows):
        return rows["x"].to_numpy()

    table = dpx.PrivateTable(
        frame,
        domain=dpx.Domain({"x": dpx.Numeric(0, 1)}),
        budget=dpx.Budget(100),
        relation="add-remove",
        ledger="sqlite:///:memory:",
        name="t",
        rows_hint=n,
    )
    table.door = Door(FreeAccount(table.budget, table.neighbours, keep=False))
    request, cost = ale.AccumulatedEffects(feature="x", clip=1), table.cost(epsilon=2)
    hits = []
    for _ in range(100):
        (curve,) = ale.explain(table, dpx.Model(line, output=(0, 1), name="m", version="1"), request, cost=cost)
        exact = exact_curve(frame, curve, line)
        low, high = curve.interval(0.95)
        hits.append(np.mean((low <= exact) & (exact <= high)))
    assert np.mean(hits) > 0.95 - 5 * 0.022


@pytest.mark.parametrize(
    ("relation", "budget"), [("replace-one", dpx.Budget(100)), ("add-remove", dpx.Budget(100, 1e-6))]
)
def test_intervals_cover_the_exact_curve(relation, budget):
    draw = np.random.default_rng(1)
    n = 1500
    frame = pd.DataFrame(
        {"hour": np.clip(draw.poisson(4, n), 0, 12), "kind": draw.choice(list("pqr"), n, p=[0.7, 0.2, 0.1])}
    )
    domain = dpx.Domain({"hour": dpx.Numeric(0, 12, integer=True), "kind": dpx.Categorical(list("pqr"))})

    def function(rows):
        lift = rows["kind"].map({"p": 0.0, "q": 0.2, "r": 0.3}).to_numpy(dtype=float)
        return 0.2 + 0.004 * rows["hour"].to_numpy() ** 2 + lift * (rows["hour"].to_numpy() > 4)

    table = dpx.PrivateTable(
        frame, domain=domain, budget=budget, relation=relation, ledger="sqlite:///:memory:", name="t"
    )
    table.door = Door(FreeAccount(table.budget, table.neighbours, keep=False))
    model = dpx.Model(function, output=(0, 1), name="m", version="1")
    hits, half, whole = {"hour": [], "kind": []}, [], []
    for _ in range(100):
        curves = ale.explain(
            table, model, ale.AccumulatedEffects(feature=["hour", "kind"], clip=1), cost=table.cost(epsilon=1)
        )
        together = True
        for curve in curves:
            exact = exact_curve(frame, curve, function)
            low, high = curve.interval(0.95)
            hits[curve.feature].append(np.mean((low <= exact) & (exact <= high)))
            if curve.feature == "hour":
                low, high = curve.interval(0.5)
                half.append(np.mean((low <= exact) & (exact <= high)))
            low, high = curve.interval(0.95, simultaneous=True)
            together &= bool(((low <= exact) & (exact <= high)).all())
        whole.append(together)
    for feature, found in hits.items():
        assert np.mean(found) > 0.95 - 5 * 0.022, feature
    assert np.mean(whole) > 0.95 - 5 * 0.022
    assert np.mean(half) < 0.9  # not so wide that nothing could ever be outside: 0.73, or 0.60, with deviation 0.025
