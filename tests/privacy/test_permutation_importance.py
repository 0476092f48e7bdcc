"""Audits of permutation importance on worst-case neighbouring tables.

The real path leads from rows to exact integers once; what is repeated is the release of them, at epsilon 2 and with
confidence 1 - 1e-6, so a sound mechanism is accused with probability at most 1e-6. The broken siblings are missed with
a probability of about 1e-6: half the noise (8,000 releases on each side), the published form with a sensitivity of
K instead of 2 K, as if a row did not give its value to another one (20,000), and what was cut off with a bound of K
instead of 2 K, or squares with half of theirs, as if one row of a group changed (8,000).
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from captured import Shrunk

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.release import Door, Gate
from dpexplain.core.samplers import ExactSampler
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.data.dealing import Dealt
from dpexplain.data.donors import by_permutation
from dpexplain.methods.permutation_importance import release as pfi
from dpexplain.methods.permutation_importance.request import PermutationImportance
from dpexplain.methods.setting import Setting
from stubs import FreeAccount, Unshuffled, ZeroNoise, rows_of

pytestmark = pytest.mark.drawn(1e-6)

DOMAIN = dpx.Domain({"y": dpx.Numeric(0, 3, integer=True), "b": dpx.Numeric(-1, 1), "c": dpx.Categorical(["x", "z"])})
SWAP = next(s for s in range(9) if dpx.data.PublicRandom(s).generator.permutation(2).tolist() == [1, 0])
BUDGET, COST = dpx.Budget(10), pure(2)

FIRST, AGREE, DISAGREE = (1, 0.0, "x"), (3, 1.0, "x"), (3, -1.0, "x")
TABLES = {  # one group of rows goes from one end of its ball to the other one; or two losses and the base go up by K
    "replace-one": ([FIRST, AGREE], [FIRST, DISAGREE]),
    "add-remove": ([FIRST, AGREE], [FIRST, AGREE, (0, 1.0, "x")]),
    "paper": ([(0, -1.0, "x"), (0, -1.0, "x")], [(0, -1.0, "x"), (0, 1.0, "z")]),
}
# nothing changes in a group; then both rows are as wrong as can be with the other's value, and nearly all is cut off
CUT = ([(0, -1.0, "x"), (0, -1.0, "x")], [(0, -1.0, "x"), (3, 1.0, "x")])


def by_column(rows: pd.DataFrame) -> np.ndarray:
    """What `b` says, from 0 to 3; where `c` is z, always 3."""
    return np.where((rows["c"] == "z").to_numpy(), 3.0, 1.5 + 1.5 * rows["b"].to_numpy())


def exact(case, rows, clip=0.5):
    """The spec of a request and the exact integers of the statistic for one table; all rows are one group."""
    relation = "replace-one" if case == "paper" else case
    frame = pd.DataFrame(rows, columns=["y", "b", "c"])
    table = dpx.PrivateTable(
        frame, domain=DOMAIN, budget=BUDGET, relation=relation, ledger="sqlite:///:memory:", name="t"
    )
    options = {"method": "paper", "seed": SWAP} if case == "paper" else {"method": "groups", "clip": clip, "repeats": 1}
    request = PermutationImportance(target="y", features=["b"], **options)
    model = dpx.Model(by_column, output=(0, 3), features=["b", "c"])
    spec = pfi.resolve(request, Setting.of(table, model), COST)
    table.secrets = Unshuffled  # the same secret order for both neighbours
    (rows,) = rows_of(table, Gate(table.door, COST), list(DOMAIN))
    if spec.paper:
        (batch,) = by_permutation(rows, spec.features, spec.seed)
        found = pfi.paper_statistic(batch, model.checked(DOMAIN), spec)
    else:
        dealt = Dealt.of(
            rows, np.arange(rows.size), 1, np.zeros(rows.size)
        )  # secret numbers would order rows at random
        found = pfi.group_statistic(dealt, model.checked(DOMAIN), spec)
    table.ledger.close()
    return spec, found, table.neighbours


def mechanism(side, *, sides, sampler, part="changes", cost=COST):
    """One release of the product's noise for one of two tables."""
    spec, found, neighbours = sides[side]
    gate = Gate(Door(FreeAccount(BUDGET, neighbours, keep=False), sampler=sampler), cost)
    if spec.paper:
        bound = pfi.paper_sensitivity(spec, neighbours)
        return gate.noisy_sum("errors", found, bound, spec.shares(COST)["errors"], mechanism=spec.mechanism)
    pfi.send_changes(gate, spec, cost, found, 1)
    return gate.close()["parts"][part]["values"]


def score(values):
    """The changes of a group move down, from C to -C; in the published form the error moves by 2 K, the base by K."""
    if len(values) == 1:
        return -float(values[0])
    K = 2**18
    return float(np.clip(values[0], 0, 2 * K) + np.clip(values[1], 0, K))


def audit(case, sampler, trials=1_500):
    return audited(partial(mechanism, sides=[exact(case, rows) for rows in TABLES[case]]), sampler, trials, COST)


def audit_part(part, trials):
    """One of the parts that intervals are made of, at epsilon 2 of its own."""
    sides = [exact("replace-one", rows, clip=0.05) for rows in CUT]
    cost = COST * (COST.amount / sides[0][0].shares(COST)[part].amount)
    run = partial(mechanism, sides=sides, part=part, cost=cost)
    return audited(run, ExactSampler(), trials, COST)


def audited(run, sampler, trials, claim):
    ends = sorted(score(run(side, sampler=ZeroNoise())) for side in (0, 1))  # the likelihood ratio grows between them
    return dpx.audit.epsilon_lower_bound(
        partial(run, sampler=sampler),
        0,
        1,
        trials=trials,
        confidence=1 - 1e-6,
        score=lambda values: float(np.clip(score(values), *ends)),
        claim=claim,
        gaussian=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("case", list(TABLES))
def test_no_lower_bound_above_the_claim(case):
    bound = audit(case, ExactSampler())
    assert not bound.violates, bound


@pytest.mark.long
@pytest.mark.parametrize("case", ["replace-one", "add-remove"])
def test_half_the_noise_is_caught(case):
    bound = audit(case, Shrunk(), trials=8_000)
    assert bound.violates, bound


@pytest.mark.long
@pytest.mark.parametrize("part", ["squares", "lost"])
def test_what_intervals_are_made_of(part):
    bound = audit_part(part, 1_500)
    assert not bound.violates, bound
    assert bound.epsilon > 0.5  # the pair is a telling one


@pytest.mark.long
@pytest.mark.parametrize("part", ["squares", "lost"])
def test_a_bound_as_if_one_row_of_a_group_changed_is_caught(part, monkeypatch):
    whole = getattr(pfi, f"{part}_sensitivity")

    def half(spec, neighbours):
        bound = whole(spec, neighbours)
        return Sensitivity(neighbours, bound.l1 // 2, bound.l2_squared // 4, bound.linf // 2)

    monkeypatch.setattr(pfi, f"{part}_sensitivity", half)
    bound = audit_part(part, 8_000)
    assert bound.violates, bound


@pytest.mark.long
def test_forgetting_that_rows_give_their_values_is_caught(monkeypatch):
    """K instead of 2 K for the error: 3 K of movement against a claim of 2 K, epsilon 3 instead of 2."""

    def too_small(spec, neighbours):
        K = spec.loss.range.levels
        return Sensitivity(neighbours, 2 * K, 2 * K * K, K)

    monkeypatch.setattr(pfi, "paper_sensitivity", too_small)
    bound = audit("paper", ExactSampler(), trials=20_000)
    assert bound.violates, bound
