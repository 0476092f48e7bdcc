"""Intervals of local explanations from a stand-in, on a made-up table whose columns go together.

They rest on an assumption, so no law says how often they miss. Measured over 8 tables and 12 records each, with counts
by scores: 0.92 to 0.95 at epsilon 2 and 8, where they are narrowest, and 1.0 at 0.5 or without such counts. 25 tables
each, with noise and rows of their own, hold 0.6 on average: were the values of a table held all or none (the worst
case), at 0.92, 10 or more of 25 would miss with probability 1.2e-5. The broken sibling divides intervals by eight, and
has to fail.
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.domain import PublicRange
from dpexplain.data.rows import Rows
from dpexplain.maths.surrogate import StepWeight
from dpexplain.maths.surrogate.rows import WeightedRows
from dpexplain.methods.posterior import local_rows

pytestmark = [pytest.mark.long, pytest.mark.drawn(1.2e-5)]

ROWS, TABLES, RECORDS, HELD, TOO_SURE = 5_000, 25, 4, 0.6, 8
SECTORS = ["private", "public", "self"]
DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(17, 90, integer=True),
        "hours": dpx.Numeric(0, 80),
        "income": dpx.Numeric(0, 100),
        "sector": dpx.Categorical(SECTORS),
    }
)
FEATURES = tuple(DOMAIN)


def score(rows: pd.DataFrame) -> np.ndarray:
    """Not additive: age counts more in one sector."""
    age, hours, income = (rows[name].to_numpy() for name in ("age", "hours", "income"))
    steep = 1 + 0.5 * (rows["sector"].astype(str) == "public").to_numpy()
    return 1 / (1 + np.exp(-(age - 50) / 12 * steep - (hours - 40) / 20 - (income - 50) / 30))


def made(seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    age = draw.integers(17, 91, ROWS)
    hours = np.clip(draw.normal(40, 12, ROWS) + (age - 50) * 0.4, 0, 80)
    income = np.clip(draw.normal(0, 10, ROWS) + hours * 0.6 + age * 0.4, 0, 100)
    rest = np.where(draw.random(ROWS) < 0.3, "self", "private")
    sector = np.where(draw.random(ROWS) < 0.2 + 0.005 * age, "public", rest)
    return pd.DataFrame({"age": age, "hours": hours, "income": income, "sector": sector})


@cache
def answers(grade: str, epsilon: float, scored: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[table, record, feature]: exact contributions, from the exact average person, and the ends of intervals."""
    exact, lows, highs = [], [], []
    for number in range(TABLES):
        model = dpx.Model(score, output=(0.0, 1.0), name="score", version="1")
        frame = made(number)
        table = dpx.PrivateTable(
            frame, domain=DOMAIN, budget=dpx.Budget(epsilon=100), relation="replace-one",
            ledger=dpx.open_ledger("sqlite:///:memory:"), name=f"table-{number}",
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            known = local_rows(dpx.stand_in(table, model if scored else None, epsilon=epsilon, grade=grade), model)
        space, records = known.rows.space, frame.sample(RECORDS, random_state=number).to_dict("records")
        columns = {name: frame[name].to_numpy(np.float64) for name in FEATURES[:3]}
        columns["sector"] = pd.Categorical(frame["sector"], SECTORS).codes.astype(np.int64)
        rows = Rows(DOMAIN, columns, ROWS)
        predictor = model.checked(DOMAIN, rows=ROWS)
        predictions = predictor.predict_at(predictor.inputs(rows), {})
        X = space.coordinates(columns, ROWS)
        true = WeightedRows(space, PublicRange(0, 1), X, predictions, np.full(ROWS, 1 / ROWS))
        places = np.array([space.locate(space.read(record)) for record in records])
        found = known.explained(records, [None] * RECORDS, None, "stable", 1.0)
        for near, answer in zip(true.around(places, StepWeight.of("stable", space.diameter), None), found, strict=True):
            exact.append(space.by_feature((near.z - true.mean) * near.phi / 2))
            low, high = answer.interval()
            lows.append(low)
            highs.append(high)
    shape = (TABLES, RECORDS, len(FEATURES))
    return tuple(np.reshape(each, shape) for each in (exact, lows, highs))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("grade", "epsilon", "scored"), [("tree", 0.5, False), ("tree", 2.0, True), ("marginals", 2.0, True)]
)
def test_intervals_hold_the_exact_contributions(grade, epsilon, scored):
    exact, low, high = answers(grade, epsilon, scored)
    assert np.mean((low <= exact) & (exact <= high)) >= HELD


def test_intervals_that_are_too_narrow_are_found():
    exact, low, high = answers("tree", 2.0, True)
    middle, half = (low + high) / 2, (high - low) / 2 / TOO_SURE
    assert np.mean(np.abs(exact - middle) <= half) < HELD
