"""Intervals of permutation importance cover the importance without limit, noise and chance.

Correlated columns, a rare category and models that are not additive: one of a class, one of a number with heavy tails.
The truth is computed over all pairs of rows. The real path is used, with new groups and new noise in each of 24
releases. An interval that covers with probability 0.95 misses in 10 of 24 or more with a probability below 1.1e-7; five
features in 12 settings: a false alarm has a probability below 1e-5. The siblings whose intervals have noise alone must
be rejected: they miss one of the features nearly always.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.methods.permutation_importance.result import Importance

pytestmark = [pytest.mark.long, pytest.mark.drawn(1e-6)]

N, RELEASES, MISSES = 400, 24, 9  # more than so many misses of one feature: rejected
FEATURES = ["a", "b", "c", "d", "e"]
DOMAIN = dpx.Domain(
    {
        **{name: dpx.Numeric(-3, 3) for name in ("a", "b", "d")},
        "c": dpx.Categorical(["x", "y", "rare"]),
        "e": dpx.Categorical(["u", "v"]),
        "class": dpx.Categorical([0, 1]),
        "number": dpx.Numeric(0, 100),
        "person": dpx.Numeric(0, N, integer=True),
    }
)


def rate(rows: pd.DataFrame) -> np.ndarray:
    a, b = rows["a"].to_numpy(), rows["b"].to_numpy()
    return 1 / (1 + np.exp(-(2 * a * b - 1 + 4 * (rows["c"] == "rare").to_numpy())))


def amount(rows: pd.DataFrame) -> np.ndarray:
    """Skewed: a few rows have nearly all of it."""
    return np.clip(
        np.exp(1.5 * rows["a"].to_numpy() + 0.5 * rows["d"].to_numpy() * (rows["e"] == "v").to_numpy()), 0, 100
    )


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    z = draw.normal(size=N)
    frame = pd.DataFrame({name: np.clip(z + 0.3 * draw.normal(size=N), -3, 3) for name in ("a", "b", "d")})
    frame["c"] = np.where(draw.random(N) < 0.02, "rare", np.where(z > 0, "x", "y"))
    frame["e"] = np.where(z + draw.normal(size=N) > 0, "u", "v")
    frame["class"] = (draw.random(N) < rate(frame)).astype(int)
    frame["number"] = np.clip(amount(frame) * np.exp(0.5 * draw.normal(size=N)), 0, 100)
    return frame.assign(person=np.arange(N) // 2)


MODELS = {
    "class": dpx.Model(rate, output=(0, 1), features=FEATURES, name="rate", version="1"),
    "number": dpx.Model(amount, output=(0, 100), features=FEATURES, name="amount", version="1"),
}


@pytest.fixture(scope="module")
def truth(people):
    """For each target the mean over all ordered pairs of rows of how much worse a row is predicted with the other's."""

    def importance(target: str, name: str) -> float:
        predict = {"class": rate, "number": amount}[target]
        y = people[target].to_numpy(dtype=float)
        before = (y - predict(people)) ** 2
        values = people[name].to_numpy()
        total = 0.0
        for shift in range(1, N):
            total += ((y - predict(people.assign(**{name: np.roll(values, shift)}))) ** 2 - before).mean()
        return total / (N - 1)

    return {target: np.array([importance(target, name) for name in FEATURES]) for target in MODELS}


SETTINGS = {
    "order": {"epsilon": 3},
    "interval": {"epsilon": 3, "limit": "interval"},
    "many repeats": {"epsilon": 3, "repeats": 20},
    "a tight limit": {"epsilon": 10, "clip": 0.02},
    "no limit": {"epsilon": 50, "clip": float("inf")},
}
ACCOUNTS = {
    "pure, replace-one": {"budget": dpx.Budget(10**6), "relation": "replace-one"},
    "zcdp, add-remove": {"budget": dpx.Budget(10**6, 1e-6), "relation": "add-remove", "rows_hint": N},
    "pure, units": {"budget": dpx.Budget(10**6), "relation": "add-remove", "unit": dpx.Unit("person", 2)},
}


def misses(people, truth, target, account, options, noise_only=False, marginals=0.0) -> int:
    """How often the interval of the worst feature misses, over releases that differ in price by next to nothing."""
    table = dpx.PrivateTable(
        people, domain=DOMAIN, ledger=dpx.open_ledger("sqlite:///:memory:"), name="t", **ACCOUNTS[account]
    )
    options = dict(options)
    epsilon, missed = options.pop("epsilon"), np.zeros(len(FEATURES), dtype=int)
    if marginals:
        options["marginals"] = dpx.marginals(table, FEATURES, epsilon=marginals)
    for number in range(RELEASES):
        found = dpx.permutation_importance(table, MODELS[target], target, epsilon=epsilon + number * 1e-6, **options)
        assert isinstance(found, Importance)
        if noise_only:
            half = found.part("changes")[1].halfwidth(0.95) * found.gap_noise[1]
            low, high = found.scores - half, found.scores + half
        else:
            low, high = found.score_interval(0.95)
        rounding = 2.0**-16 * found.losses.width
        missed += (truth[target] < low - rounding) | (high + rounding < truth[target])
    table.ledger.close()
    return int(missed.max())


@pytest.mark.parametrize(
    ("target", "setting"), [*(("class", setting) for setting in SETTINGS), ("number", "order"), ("number", "interval")]
)
def test_intervals_cover_the_importance_without_limit(people, truth, target, setting):
    assert misses(people, truth, target, "pure, replace-one", SETTINGS[setting]) <= MISSES


@pytest.mark.parametrize("account", list(ACCOUNTS)[1:])
def test_other_accounts(people, truth, account):
    assert misses(people, truth, "class", account, SETTINGS["interval"]) <= MISSES


def test_histograms(people, truth):
    """The columns that importance is asked for have many values in a cell: blur is left out, and small here."""
    assert misses(people, truth, "class", "pure, replace-one", SETTINGS["order"], marginals=3.0) <= MISSES


@pytest.mark.parametrize(("target", "setting"), [("class", "order"), ("number", "order"), ("class", "many repeats")])
def test_noise_alone_does_not_cover(people, truth, target, setting):
    assert misses(people, truth, target, "pure, replace-one", SETTINGS[setting], noise_only=True) > MISSES
