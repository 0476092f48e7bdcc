"""Intervals of what is read off a stand-in, on a made-up table whose columns go together.

They rest on an assumption, so no law says how often they miss; the share of values that they hold was measured: 0.92 to
1.0 for curves at these prices, over 20 tables (docs/methods/posterior.md). 25 tables each, with noise and rows of their
own, hold 0.6 on average: were the values of a table held all or none (the worst case), at 0.92, 10 or more of 25 would
miss with probability 1.2e-5. The broken sibling divides intervals by six, and has to fail.
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.data.rows import Rows
from dpexplain.methods.evidence import Asked, changes_within
from dpexplain.methods.posterior import BINS, accumulated, at_points

pytestmark = [pytest.mark.long, pytest.mark.drawn(1.2e-5)]

ROWS, TABLES, HELD, TOO_SURE = 5_000, 25, 0.6, 6
DOMAIN = dpx.Domain(
    {
        "a": dpx.Numeric(0, 10),
        "b": dpx.Numeric(0, 10),
        "c": dpx.Categorical(["x", "y", "z"]),
        "d": dpx.Numeric(0, 20, integer=True),
        "e": dpx.Categorical(["no", "yes"]),
    }
)
FEATURES = list(DOMAIN)


def risk(rows: pd.DataFrame) -> np.ndarray:
    """Not additive, and steep in some places."""
    a, b, d = (rows[name].to_numpy() for name in "abd")
    c, e = rows["c"].astype(str).to_numpy(), (rows["e"].astype(str) == "yes").to_numpy()
    z = 0.3 * (a - 5) + 0.4 * np.sin(b) + 0.8 * (c == "y") - 0.5 * (c == "z") * (a > 6)
    return 1 / (1 + np.exp(-(z + 0.08 * (d - 8) * (1 + e) + 0.3 * e * (b > 5))))


@cache
def made(seed: int) -> pd.DataFrame:
    """Everything depends on one thing that is in no column."""
    draw = np.random.default_rng(seed)
    hidden = draw.normal(size=ROWS)
    return pd.DataFrame(
        {
            "a": np.clip(5 + 1.8 * hidden + 0.8 * draw.normal(size=ROWS), 0, 10),
            "b": np.clip(4 + 1.2 * hidden + 1.5 * draw.normal(size=ROWS), 0, 10),
            "c": np.where(
                draw.random(ROWS) < 1 / (1 + np.exp(-hidden)), "y", np.where(draw.random(ROWS) < 0.4, "z", "x")
            ),
            "d": np.clip(np.rint(8 + 3 * hidden + 2 * draw.normal(size=ROWS)), 0, 20),
            "e": np.where(draw.random(ROWS) < 1 / (1 + np.exp(1 - hidden)), "yes", "no"),
        }
    )


def coded(frame: pd.DataFrame) -> Rows:
    codes = {name: frame[name].to_numpy(np.float64) for name in "abd"}
    codes |= {name: pd.Categorical(frame[name], DOMAIN[name].categories).codes.astype(np.int32) for name in "ce"}
    return Rows(DOMAIN, codes, ROWS)


def shares_held(grade: str, evidence: str, narrower: float) -> tuple[float, float]:
    """Of the points of partial dependence, and of accumulated effects, on average over tables."""
    held = np.zeros((TABLES, 2))
    for number in range(TABLES):
        model = dpx.Model(risk, output=(0.0, 1.0), name="risk", version="1")
        table = dpx.PrivateTable(
            made(number), domain=DOMAIN, budget=dpx.Budget(epsilon=100), relation="replace-one",
            ledger=dpx.open_ledger("sqlite:///:memory:"), name=f"table-{number}",
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stand_in = dpx.stand_in(table, epsilon=0.5, grade=grade)
            release = dpx.partial_dependence if evidence == "curves" else dpx.accumulated_effects
            known = dpx.posterior(stand_in, model, [release(table, model, FEATURES, epsilon=0.5)])
        asked = Asked(model, model.checked(DOMAIN, rows=ROWS), coded(made(number)))
        for kind, readings in enumerate(
            (known.partial_dependence(FEATURES, grid=12), known.accumulated_effects(FEATURES))
        ):
            exact = np.concatenate([(exact_dependence, exact_effects)[kind](asked, known, r) for r in readings])
            low, high = (readings.values + (end - readings.values) / narrower for end in readings.interval())
            held[number, kind] = np.mean((low <= exact) & (exact <= high))
    return tuple(held.mean(axis=0))


def exact_dependence(asked: Asked, known, reading) -> np.ndarray:
    return np.array([asked.at({reading.feature: point}).mean() for point in reading.axes[0].settings])


def exact_effects(asked: Asked, known, reading) -> np.ndarray:
    """Those of the table, for the bins of the reading."""
    steps = known._steps(reading.feature)
    bins = known._bins(steps, BINS)
    inside, changes = changes_within(asked, steps, bins, asked.change)
    even, none = np.full(ROWS, 1 / ROWS), np.zeros(bins.size)
    return accumulated(inside, changes, at_points(asked, steps, bins), even, none)[0]


@pytest.mark.parametrize("evidence", ["curves", "effects"])
@pytest.mark.parametrize("grade", ["tree", "marginals"])
def test_intervals_hold_where_columns_go_together(grade, evidence):
    dependence, effects = shares_held(grade, evidence, 1.0)
    assert dependence >= HELD
    assert effects >= HELD


def test_intervals_that_are_too_narrow_are_rejected():
    dependence, effects = shares_held("tree", "curves", TOO_SURE)
    assert dependence < HELD
    assert effects < HELD
