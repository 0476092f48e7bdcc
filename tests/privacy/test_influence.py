"""Audits of influences on worst-case neighbouring tables.

The real path leads from rows to exact integers once; what is repeated is the release of them, at epsilon 2 (or rho 2)
and with confidence 1 - 1e-6, so a sound mechanism is accused with probability at most 1e-6. Scores are likelihood
ratios, the best ones there are. The broken siblings: half the noise; noise calibrated to the size of a group, its exact
one or a noisy one; and the published form with a bound that forgets that a row gives its values to another one. Each is
missed with a probability far below 1e-6.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from captured import Shrunk, calls, drawn

import dpexplain as dpx
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law
from dpexplain.core.release import Gate
from dpexplain.core.samplers import ExactSampler
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.data.donors import by_pairing
from dpexplain.methods.influence import forecast as forecasts
from dpexplain.methods.influence import release as qii
from dpexplain.methods.influence.release import InfluenceRequest, influence
from dpexplain.methods.influence.spec import statistic
from dpexplain.methods.setting import Setting
from dpexplain.models.outcomes import Asker
from stubs import rows_of

pytestmark = pytest.mark.drawn(1e-6)

DOMAIN = dpx.Domain(
    {"a": dpx.Numeric(0, 3, integer=True), "c": dpx.Categorical(["x", "y"]), "k": dpx.Categorical([0, 1, 2])}
)
COSTS = {"pure": pure(2), "zcdp": zcdp(2)}
BUDGETS = {"pure": dpx.Budget(10), "zcdp": dpx.Budget(100, 1e-6)}
CALM = (0, "x", 0)  # nothing changes for it, unless a becomes 3
ONE, OTHER = (3, "y", 1), (3, "y", 2)  # one before and zero after any intervention; and the other way round
GROUP = {"k": [1, 2]}
TRIALS = {"pure": 7_000, "zcdp": 1_600}  # that catch a defect
SWAP = next(s for s in range(9) if dpx.data.PublicRandom(s).generator.permutation(2).tolist() == [1, 0])


def model(rows: pd.DataFrame) -> np.ndarray:
    """Replaced are a and c, mostly by a = 0 and c = x."""
    k, whole = rows["k"].to_numpy(), ((rows["a"] == 3) & (rows["c"] == "y")).to_numpy()
    calm = ((rows["a"] == 3) & (rows["c"] == "x")).to_numpy()
    return np.select([k == 0, k == 1], [calm, whole], ~whole).astype(float)


CASES = {  # what moves furthest: (relation, left rows, right rows, request)
    "average": ("replace-one", [CALM, CALM], [CALM, ONE], {}),
    "average, added": ("add-remove", [CALM], [CALM, ONE], {}),
    "group": ("replace-one", [CALM, OTHER], [CALM, ONE], {"quantity": "group", "group": GROUP}),
    "disparity": ("replace-one", [CALM, OTHER], [CALM, ONE], {"quantity": "disparity", "group": {"k": 1}}),
    "shapley": (
        "add-remove",
        [CALM],
        [CALM, ONE],
        {"quantity": "group", "group": GROUP, "aggregate": "shapley", "features": ["a"]},
    ),
    # with other influences the outcome as it is turns over, too
    "rates": (
        "replace-one",
        [CALM, OTHER],
        [CALM, ONE],
        {"quantity": "disparity", "group": GROUP, "aggregate": "shapley", "features": ["a"]},
    ),
    # with the values of a exchanged, both outcomes change
    "pairing": ("replace-one", [CALM, CALM], [CALM, ONE], {"method": "paper", "features": ["a"], "seed": SWAP}),
}


def table_of(rows, relation, definition="pure"):
    frame = pd.DataFrame(rows, columns=["a", "c", "k"])
    return dpx.PrivateTable(
        frame, domain=DOMAIN, budget=BUDGETS[definition], relation=relation, ledger="sqlite:///:memory:", name="t"
    )


def exact(relation, rows, options, definition):
    """The exact integers of the statistic, and the noise that they get; rows take a = 0 and c = x."""
    table, cost = table_of(rows, relation, definition), COSTS[definition]
    made = dpx.Model(model, output=(0, 1))
    shared = True if "aggregate" in options else None
    request = InfluenceRequest(**{"features": ["a", "c"], "outcome": "class", "samples": 1, "exact": shared, **options})
    spec = forecasts.resolve(request, Setting.of(table, made), cost)
    asker = Asker(made.checked(DOMAIN), spec.outcome)
    gate = Gate(table.door, cost)
    if spec.method == "paper":
        (batch,) = by_pairing(table.gathered(gate, list(DOMAIN)), spec.names, 1, spec.seed)
        found = statistic(batch.rows, asker, spec, batch.values)
    else:
        (batch,) = rows_of(table, gate, list(DOMAIN))
        values = {"a": [np.zeros(batch.size)], "c": [np.zeros(batch.size, dtype=np.int32)]}
        found = statistic(batch, asker, spec, values)
    table.ledger.close()
    bound = qii.sensitivity(spec, table.neighbours)
    return found.tolist(), best(bound, spec.size, cost, spec.mechanism), bound, cost


def likelihood(values, *, left, right, law, scale):
    """The logarithm of the likelihood ratio: how much rather than from `left` this came from `right`."""
    off = [np.asarray(values, dtype=float) - side for side in (left, right)]
    if law is Law.GAUSSIAN:
        return float((off[0] ** 2).sum() - (off[1] ** 2).sum()) / (2 * scale**2)
    size = [np.abs(o).max() if law is Law.CUBE else np.abs(o).sum() for o in off]
    return float(size[0] - size[1]) / scale


def audit(case, definition, sampler, trials):
    relation, left, right, options = CASES[case]
    sides = [exact(relation, rows, options, definition) for rows in (left, right)]
    noise, cost = sides[0][1], COSTS[definition]
    score = partial(likelihood, left=sides[0][0], right=sides[1][0], law=noise.law, scale=float(noise.scale))
    gaussian = noise.law is Law.GAUSSIAN
    return dpx.audit.epsilon_lower_bound(
        partial(drawn, sampler=sampler), *sides, trials=trials, confidence=1 - 1e-6, score=score, claim=cost,
        gaussian=gaussian,
    )  # fmt: skip


PURE, ZCDP = ("average", "group"), ("average, added", "disparity", "shapley", "rates")
DEFINITIONS = [*((case, "pure") for case in PURE), *((case, "zcdp") for case in ZCDP)]


@pytest.mark.long
@pytest.mark.parametrize(("case", "definition"), [*DEFINITIONS, ("shapley", "pure"), ("pairing", "pure")])
def test_no_lower_bound_above_the_claim(case, definition):
    bound = audit(case, definition, ExactSampler(), trials=400)
    assert not bound.violates, bound


@pytest.mark.long
@pytest.mark.parametrize(("case", "definition"), DEFINITIONS)
def test_half_the_noise_is_caught(case, definition):
    bound = audit(case, definition, Shrunk(), trials=TRIALS[definition])
    assert bound.violates, bound


def test_all_parts_together_cost_what_was_asked():
    """Histograms and sums, from the request to the sampler."""
    table = table_of([CALM, ONE, OTHER], "add-remove")
    made = dpx.Model(model, output=(0, 1), name="m", version="1")
    options = {"quantity": "disparity", "group": GROUP, "epsilon": 2, "samples": 1}
    found = calls(table, lambda t: influence(t, made, **options))
    assert [len(values) for values, *_ in found] == [4 + 2 + 3, 2 * 4 + 2]
    assert sum(cost.amount for *_, cost in found) == 2
    assert all(float(noise.scale) >= bound.linf / float(cost.amount) for _, noise, bound, cost in found)
    table.ledger.close()


# Broken siblings ------------------------------------------------------------------------------------------------------

DRAW = np.random.default_rng(0)  # the broken mechanisms need no secret noise


def mean_of_group(members, size_of):
    """The mean influence of a group with Laplace noise of scale 2 / size: Table I with a size that is not public.

    Influences lie between -1 and 1, so one row moves the mean by 2 / size, if its size were public.
    """
    size, price = size_of(members)
    mean = sum(members) / max(len(members), 1)
    return size, mean + DRAW.laplace(0, 2 / (size * price))


def exact_size(members):
    return max(len(members), 1), 2.0


def noisy_size(members):
    """A tenth of the price for the size, the rest for the mean."""
    return max(len(members) + DRAW.laplace(0, 1 / 0.2), 1.0), 1.8


def trapped(released, *, left, right, noisy):
    """Given the size that was used, the likelihood ratio of the mean."""
    size, mean = released
    scales = [size, size] if noisy else [max(len(left), 1), max(len(right), 1)]
    centres = [sum(rows) / max(len(rows), 1) for rows in (left, right)]
    logs = [np.log(s) - abs(mean - c) * s * (1.8 if noisy else 2.0) / 2 for s, c in zip(scales, centres, strict=True)]
    return float(logs[1] - logs[0])


@pytest.mark.long
@pytest.mark.parametrize(
    ("size_of", "left", "right", "trials"),
    [
        (exact_size, [1.0], [1.0, -1.0], 40_000),  # a row enters the group
        (noisy_size, [1.0], [-1.0], 5_000),  # the group has one row, and its size is often taken for more
    ],
)
def test_noise_calibrated_to_the_size_of_a_group_is_caught(size_of, left, right, trials):
    score = partial(trapped, left=left, right=right, noisy=size_of is noisy_size)
    bound = dpx.audit.epsilon_lower_bound(
        partial(mean_of_group, size_of=size_of), left, right, trials=trials, confidence=1 - 1e-6, score=score, claim=2
    )
    assert bound.violates, bound


@pytest.mark.long
def test_forgetting_that_rows_give_their_values_is_caught(monkeypatch):
    """K instead of 2 K: both outcomes change when one row of a pair does. Epsilon 4 instead of 2."""
    true = qii.sensitivity

    def too_small(spec, neighbours):
        bound = true(spec, neighbours)
        return Sensitivity(neighbours, bound.l1 // 2, bound.l2_squared // 4, bound.linf // 2)

    monkeypatch.setattr(qii, "sensitivity", too_small)
    bound = audit("pairing", "pure", ExactSampler(), TRIALS["pure"])
    assert bound.violates, bound


@pytest.mark.long
def test_rates_that_the_bound_leaves_out_are_caught(monkeypatch):
    """The outcomes of both groups, here with weight 4, beside influences whose bound knows nothing of them: a turned
    row moves 20 K^2 in place of 4 K^2.
    """
    true, resolve = qii.sensitivity, forecasts.resolve

    def heavy(*public, **settings):
        return replace(resolve(*public, **settings), outcome_weight=4)

    monkeypatch.setattr(forecasts, "resolve", heavy)
    assert not audit("rates", "zcdp", ExactSampler(), 400).violates
    monkeypatch.setattr(qii, "sensitivity", lambda spec, who: true(replace(spec, outcome_weight=0), who))
    bound = audit("rates", "zcdp", ExactSampler(), TRIALS["zcdp"])
    assert bound.violates, bound
