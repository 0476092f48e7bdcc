"""Audits of one gradient step and of the length beta, on worst-case neighbouring tables.

The exact values come from one real run over the rows; the audit draws their noise many times. 2,000 draws on each side,
rho 2 (mu 2) for each release, confidence 1 - 1e-6, so a sound release is accused with probability at most 1e-6. The
broken sibling has half the noise: mu is 4 (add-remove) or at least 3.3 (replace-one, where the pair is not quite the
worst that the bound allows for), and the proven bound lies 8 of its standard deviations above the claim.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from captured import Shrunk, calls, drawn

import dpexplain as dpx
from dpexplain.core.budget import zcdp
from dpexplain.core.samplers import ExactSampler
from dpexplain.maths.surrogate import Local, Space, StepWeight
from dpexplain.maths.surrogate.descent import FINE
from dpexplain.methods.adaptive import release as adaptive
from dpexplain.methods.adaptive.request import AdaptiveExplanation
from dpexplain.methods.local_explanation import descent

pytestmark = pytest.mark.drawn(1e-6)

DOMAIN = dpx.Domain({"x": dpx.Numeric(0, 1), "y": dpx.Numeric(0, 1), "f": dpx.Categorical([-1, 1])})
SPACE = Space(DOMAIN, ("x", "y"))
MODEL = dpx.Model(lambda rows: rows["f"].to_numpy(dtype=float), output=(-1, 1), features=["f"], name="f", version="1")
LOCAL = Local(SPACE, StepWeight.of("stable", SPACE.diameter), MODEL.output, {"x": 0.5, "y": 0.5}, 0.0)
TRIALS, RHO, STEPS = 2_000, 2, 3
FAR, TO_FAR = (0.8, 0.8, 1), (-0.70710678, -0.70710678)  # a row, and the coefficients that are most wrong about it
OTHER, BESIDE = (0.7588, 0.7588, -1), (0.5048, 0.8660, -1)  # rows that pull the other way
PAIR, BETWEEN = (0.71351345, 0.79729884), (-0.94985428, 0.31269289)  # the worst pair that a search found
TABLES = {  # what is released, relation -> the point of the ball, and two neighbouring tables
    ("gradient", "add-remove"): (TO_FAR, [FAR], [FAR, FAR]),
    ("gradient", "replace-one"): (BETWEEN, [FAR, (*PAIR, 1)], [FAR, BESIDE]),
    ("beta", "add-remove"): (TO_FAR, [FAR], [FAR, FAR]),
    ("beta", "replace-one"): (TO_FAR, [FAR, FAR], [FAR, OTHER]),
}


def captured(part, relation, rows, point):
    """The first gradient, or beta, as it is handed to the sampler."""
    table = dpx.PrivateTable(
        pd.DataFrame(rows, columns=["x", "y", "f"]),
        domain=DOMAIN,
        budget=dpx.Budget(100, 1e-6),
        relation=relation,
        ledger="sqlite:///:memory:",
        name="t",
        rows_hint=2,
    )
    start, predictor = np.rint(np.array(point) * FINE).astype(np.int64), MODEL.checked(DOMAIN)

    def gradient(table):
        cost = zcdp(RHO * STEPS) * Fraction(20, 19)
        spec = descent.path_of(LOCAL, table.neighbours, table.budget, cost, 2, iterations=STEPS)
        table.door.release(
            "audit", {}, cost, lambda gate: descent.send(table, gate, predictor, spec, cost, start=start)
        )

    def beta(table):
        cost = zcdp(RHO * (STEPS + adaptive.OVERHEAD)) * Fraction(20, 19)
        spec = adaptive.spec_of(AdaptiveExplanation(record=None, iterations=STEPS), LOCAL, 2, [start])
        table.door.release("audit", {}, cost, lambda gate: adaptive.send(table, gate, predictor, spec, [start], cost))

    call = calls(table, gradient if part == "gradient" else beta)[1]  # after the average person
    assert len(call[0]) == (2 if part == "gradient" else 1)
    assert call[3] == zcdp(RHO)
    return call


def audit(part, relation, sampler):
    point, left, right = TABLES[part, relation]
    pair = {side: captured(part, relation, rows, point) for side, rows in (("left", left), ("right", right))}
    change = np.subtract(pair["left"][0], pair["right"][0]).astype(float)
    assert np.linalg.norm(change) > (0.999 if relation == "add-remove" else 0.8) * pair["left"][2].linf
    return dpx.audit.epsilon_lower_bound(
        lambda side: drawn(pair[side], sampler),
        "left",
        "right",
        trials=TRIALS,
        confidence=1 - 1e-6,
        score=lambda values: float(np.dot(change, np.asarray(values, dtype=float))),
        claim=zcdp(RHO),
        gaussian=True,
    )


@pytest.mark.long
@pytest.mark.parametrize(("part", "relation"), TABLES)
def test_no_lower_bound_above_the_claim(part, relation):
    bound = audit(part, relation, ExactSampler())
    assert not bound.violates, bound
    assert bound.mu > 0.5  # and the audit does tell the tables apart


@pytest.mark.long
@pytest.mark.parametrize(("part", "relation"), TABLES)
def test_half_the_noise_is_caught(part, relation):
    bound = audit(part, relation, Shrunk())
    assert bound.violates, bound
