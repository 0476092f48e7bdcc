"""Audits of every explainer's release, end to end from rows to payload, on worst-case neighbouring tables.

Quick form: 6,000 releases on each side at epsilon 2 (or rho 2), confidence 1 - 1e-6, so a sound mechanism is accused
with probability at most 1e-6. The broken sibling has half the noise and is missed with a probability below 1e-6.
Smaller defects are looked for on the mechanisms themselves, in test_audit.py.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from captured import Shrunk

import dpexplain as dpx
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.release import Door
from dpexplain.core.samplers import ExactSampler
from dpexplain.methods.marginals import release as marginals
from dpexplain.methods.partial_dependence import release as partial_dependence
from dpexplain.requests import Marginals, PartialDependence
from stubs import FreeAccount, ZeroNoise

pytestmark = pytest.mark.drawn(1e-6)

DOMAIN = dpx.Domain({"g": dpx.Categorical(["a", "b"]), "flag": dpx.Categorical([0, 1])})
HIGH, LOW = ("a", 1), ("b", 0)
TABLES = {  # worst case: the flag decides every grid point, and the row changes its cell of the rug
    "replace-one": ([HIGH, HIGH], [HIGH, LOW]),
    "add-remove": ([HIGH], [HIGH, HIGH]),
}
TRIALS = 6_000


def flag(rows: pd.DataFrame) -> np.ndarray:
    return rows["flag"].to_numpy(dtype=float)


def mechanism(rows, *, relation, budget, cost, part, sampler, run):
    """One release of the product for these rows. The ledger and the check of the model are left out, and the exact
    sums, which are the same every time, are computed by the first release only."""
    table = run[relation, budget.definition, rows[-1], len(rows)]
    table.door = Door(FreeAccount(budget, table.neighbours, keep=False), sampler=sampler)
    if part == "counts":
        result = marginals.explain(table, None, Marginals(features=["g"]), cost=cost)
    else:
        result = partial_dependence.explain(table, MODEL, PartialDependence(feature="g", rug=part == "rug"), cost=cost)[
            0
        ]
    return result.part(part)[0]


class Unchecked(dpx.Model):
    """Checked once for all: the audit repeats the release, not the check on synthetic rows."""

    def checked(self, domain, **_rows):
        return dpx.models.Predictor(flag, ["flag"], domain, as_array=False, block=16)


MODEL = Unchecked(flag, output=(0, 1), features=["flag"], name="flag", version="1")


@pytest.fixture(scope="module")
def run():
    tables = {}
    for relation, pair in TABLES.items():
        for budget in (dpx.Budget(10), dpx.Budget(50, 1e-6)):
            for rows in pair:
                frame = pd.DataFrame(rows, columns=["g", "flag"])
                table = dpx.PrivateTable(
                    frame, domain=DOMAIN, budget=budget, relation=relation, ledger="sqlite:///:memory:", name="t"
                )
                table.sum_rows = remembered(table.sum_rows)
                tables[relation, budget.definition, rows[-1], len(rows)] = table
    return tables


def remembered(sum_rows):
    known = {}

    def once(gate, kernel, columns, *, size, **options):
        if (tuple(columns), size) not in known:
            known[tuple(columns), size] = sum_rows(gate, kernel, columns, size=size, **options)
        return known[tuple(columns), size]

    return once


def score(values, *, part, relation):
    """Grows with the likelihood ratio, which does not grow beyond the scores of the exact values."""
    values = np.asarray(values, dtype=float)
    if part == "curve":  # cube noise, or Gaussian; the two points (and the count) all move together
        return values.max() + values.min()
    if relation == "add-remove":
        return values[0]
    return np.clip(values[0], 1, 2) - np.clip(values[1], 0, 1)  # (2, 0) against (1, 1)


def audit(relation, part, definition, sampler, run):
    budget, cost = (dpx.Budget(10), pure(2)) if definition == "pure" else (dpx.Budget(50, 1e-6), zcdp(2))
    left, right = TABLES[relation]
    release = partial(mechanism, relation=relation, budget=budget, cost=cost, part=part, run=run)
    ends = sorted(score(release(rows, sampler=ZeroNoise()), part=part, relation=relation) for rows in (left, right))
    return dpx.audit.epsilon_lower_bound(
        partial(release, sampler=sampler),
        left,
        right,
        trials=TRIALS,
        confidence=1 - 1e-6,
        score=lambda values: float(np.clip(score(values, part=part, relation=relation), *ends)),
        claim=cost,
        gaussian=definition == "zcdp",
    )


CASES = [
    ("replace-one", "curve", "pure"),
    ("add-remove", "curve", "pure"),
    ("replace-one", "counts", "pure"),
    ("add-remove", "counts", "pure"),
    ("replace-one", "curve", "zcdp"),
]


@pytest.mark.long
@pytest.mark.parametrize(("relation", "part", "definition"), CASES)
def test_no_lower_bound_above_the_claim(relation, part, definition, run):
    bound = audit(relation, part, definition, ExactSampler(), run)
    assert not bound.violates, bound


@pytest.mark.long
@pytest.mark.parametrize(("relation", "part", "definition"), CASES)
def test_half_the_noise_is_caught(relation, part, definition, run):
    bound = audit(relation, part, definition, Shrunk(), run)
    assert bound.violates, bound
