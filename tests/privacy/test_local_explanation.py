"""Audit of the moments on worst-case neighbouring tables, and the coverage of their intervals.

The real path leads from rows to exact integers once; the noise is drawn 1,500 times on each side, at rho = 2 and with
confidence 1 - 1e-6, so a sound mechanism is accused with probability at most 1e-6. Half the noise has mu = 4 instead of
the claimed 2, less 1 % for tables that do not quite attain the bound; its lower bound comes out at 3.0 with a standard
deviation of 0.08 (15 repetitions), so it is missed with a probability far below 1e-6.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from captured import Shrunk, calls, drawn

import dpexplain as dpx
from dpexplain.core.release import Door
from dpexplain.core.samplers import ExactSampler
from dpexplain.maths.surrogate.moments import Moments
from dpexplain.methods.local_explanation.release import explain
from dpexplain.methods.local_explanation.request import LocalExplanation
from stubs import FreeAccount

pytestmark = pytest.mark.drawn(1e-6)

DOMAIN = dpx.Domain({"a": dpx.Numeric(0, 1), "b": dpx.Numeric(0, 1)})
BUDGET = dpx.Budget(50, 1e-6)
TRIALS = 1_500
REQUEST = LocalExplanation(record=[0, 0], method="moments", anchor="middle")
FAR, ABOVE, BELOW = (1.0, 1.0), (0.0, 0.3655), (0.0, 0.3645)
TABLES = {  # a row of the largest moments comes; a row keeps its place, nearly, and its score is turned over
    "add-remove": ([FAR, FAR], [FAR, FAR, FAR]),
    "replace-one": ([FAR, FAR, FAR, FAR, FAR, ABOVE], [FAR, FAR, FAR, FAR, FAR, BELOW]),
}
UNITS = {
    "add-remove": ([0, 1], [0, 1, 2]),
    "replace-one": ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]),
}


def jump(rows: pd.DataFrame) -> np.ndarray:
    return np.sign(rows["b"].to_numpy() - 0.365)


MODEL = dpx.Model(jump, output=(-1, 1), name="jump", version="1")


@cache
def captured(relation: str, side: int, unit: bool):
    """What one real release hands to the sampler."""
    rows, ids = TABLES[relation][side], UNITS[relation][side]
    frame = pd.DataFrame(rows, columns=["a", "b"]).assign(id=ids)
    if unit:  # every unit has two equal rows
        frame = pd.concat([frame, frame])
    table = dpx.PrivateTable(
        frame,
        domain=DOMAIN,
        budget=BUDGET,
        relation=relation,
        ledger="sqlite:///:memory:",
        name="t",
        unit=dpx.Unit("id", 2) if unit else None,
    )
    _, call = calls(table, lambda table: explain(table, MODEL, REQUEST, cost=table.cost(rho=Fraction(40, 19))))
    table.ledger.close()
    return call


def audit(relation, unit, sampler):
    left, right = (captured(relation, side, unit) for side in (0, 1))
    direction = np.array(right[0], dtype=float) - np.array(left[0], dtype=float)
    return dpx.audit.epsilon_lower_bound(
        lambda side: drawn(captured(relation, side, unit), sampler),
        0,
        1,
        trials=TRIALS,
        confidence=1 - 1e-6,
        score=lambda values: float(direction @ np.array(values, dtype=float)),
        claim=left[3],
        gaussian=True,
    )


CASES = [("add-remove", False), ("replace-one", False), ("replace-one", True)]


@pytest.mark.long
@pytest.mark.parametrize(("relation", "unit"), CASES)
def test_no_lower_bound_above_the_claim(relation, unit):
    bound = audit(relation, unit, ExactSampler())
    assert not bound.violates, bound


@pytest.mark.long
@pytest.mark.parametrize(("relation", "unit"), CASES[:2])
def test_half_the_noise_is_caught(relation, unit):
    bound = audit(relation, unit, Shrunk())
    assert bound.violates, bound


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_intervals_cover_the_exact_attributions(epsilon):
    """200 releases of three contributions. The share that is covered has a standard deviation of at most 1.6 %, and
    five of them are allowed below the level."""
    draw = np.random.default_rng(2)
    frame = pd.DataFrame(draw.uniform(0, 1, (2000, 3)) ** 2, columns=list("abc"))
    domain = dpx.Domain({name: dpx.Numeric(0, 1) for name in "abc"})

    def bent(rows):
        return 0.5 * rows["a"].to_numpy() ** 2 - 0.3 * np.sin(4 * rows["b"].to_numpy())

    table = dpx.PrivateTable(
        frame, domain=domain, budget=BUDGET, relation="add-remove", ledger="sqlite:///:memory:", name="t"
    )
    model = dpx.Model(bent, output=(-1, 1), name="m", version="1")
    request = LocalExplanation(record=[0.1, 0.8, 0.2], method="moments")
    _, (values, *_) = calls(table, lambda t: explain(t, model, request, cost=t.cost(epsilon=1000)))
    table.door = Door(FreeAccount(table.budget, table.neighbours, keep=False))
    found = explain(table, model, request, cost=table.cost(epsilon=epsilon))
    spec = found.receipt.request["spec"]
    _, call = calls(table, lambda t: explain(t, model, request, cost=t.cost(epsilon=epsilon)))
    moments, steps = Moments.from_json(spec), found._steps
    assert call[0] == values
    exact = steps @ moments.fit(values, 1e-3).coefficients
    hits = []
    for _ in range(200):
        fit = moments.fit(drawn(call, ExactSampler()), call[1].std)
        reach = 1.96 * fit.spread(steps) + fit.pull(steps) + fit.unknown(steps)
        hits.append(abs(steps @ fit.coefficients - exact) <= reach)
    assert np.mean(hits) > 0.95 - 5 * 0.016
