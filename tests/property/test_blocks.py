"""Models whose last digits depend on the size of a call, on its parity, on the place of a row: one row less, or another
one, still moves every sum at most as far as its bound. Accumulated effects with a small clip show last digits best."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.audit.calls import Sum
from dpexplain.audit.capture import capture
from dpexplain.audit.cases import NoLedger
from neighbouring import norms, within

DOMAIN = dpx.Domain({"x": dpx.Numeric(0, 1), "z": dpx.Numeric(0, 1)})
BAD = 0.123456789  # a value of z that no synthetic row has: where one fails, the check asks row by row, for seconds
LITTLE = 4e-7  # of the output range: what single precision makes of a sum of some length
W1, W2 = (np.random.default_rng(i).normal(size=shape).astype(np.float32) for i, shape in enumerate(((2, 64), (64, 64))))


def base(rows: pd.DataFrame, digits: np.ndarray | float) -> np.ndarray:
    x = rows["x"].to_numpy()
    return (0.5 + 1e-4 * x + LITTLE * digits * (x > 0.5)).astype(np.float32)


def by_parity(rows: pd.DataFrame) -> np.ndarray:
    return base(rows, 1 if len(rows) % 2 else -1)


def by_number(rows: pd.DataFrame) -> np.ndarray:
    return base(rows, np.sin(len(rows)))


def by_place(rows: pd.DataFrame) -> np.ndarray:
    return base(rows, np.sin(np.arange(len(rows))))


def network(rows: pd.DataFrame) -> np.ndarray:
    hidden = np.maximum(rows[["x", "z"]].to_numpy(dtype=np.float32) @ W1, 0)
    return 1 / (1 + np.exp(-np.maximum(hidden @ W2, 0).sum(axis=1) / 100))


def failing(model):
    """Fails on calls with a row that no synthetic one is like."""

    def picky(rows: pd.DataFrame) -> np.ndarray:
        if (rows["z"] == BAD).any():
            raise ValueError("a row")
        return model(rows)

    return picky


def frame(size: int) -> pd.DataFrame:
    draw = np.random.default_rng(size)
    return pd.DataFrame({"x": draw.random(size), "z": draw.random(size), "id": np.arange(size) // 2})


def pairs(size: int):
    """(protection, table, neighbouring table): the first row goes, or becomes one on which a model may fail."""
    rows = frame(size)
    bad = rows.assign(z=rows["z"].where(rows.index > 0, BAD))
    yield {"relation": "add-remove"}, rows, rows.iloc[1:]
    yield {"relation": "add-remove"}, bad, bad.iloc[1:]
    yield {"relation": "replace-one"}, rows, bad
    yield {"relation": "add-remove", "unit": dpx.Unit("id", 2)}, bad, bad.iloc[2:]
    yield {"relation": "replace-one", "unit": dpx.Unit("id", 2)}, rows, bad.drop(index=1)


def private(rows: pd.DataFrame, protection: dict) -> dpx.PrivateTable:
    settings = {"domain": DOMAIN, "budget": dpx.Budget(1000), "ledger": NoLedger(), "name": "t", **protection}
    return dpx.PrivateTable(rows.reset_index(drop=True), **settings)


def effects(table: dpx.PrivateTable, model: dpx.Model):
    return dpx.accumulated_effects(table, model, "x", epsilon=1, clip=0.001, bins=1)


def curve(table: dpx.PrivateTable, model: dpx.Model):
    return dpx.partial_dependence(table, model, "x", epsilon=1, grid={"x": 3}, rug=False)


def model_of(function) -> dpx.Model:
    return dpx.Model(function, output=(0.0, 1.0), version="1")


def check(model: dpx.Model, explain, size: int) -> None:
    for protection, rows, other in pairs(size):
        left, right = private(rows, protection), private(other, protection)
        for part in capture(left, right, lambda table: explain(table, model)):
            (call,) = part.left
            assert isinstance(call, Sum)
            assert within(norms(part.change), call.bound), (protection, part.name)
        if protection["relation"] == "add-remove":  # what goes is what the rows alone would be, to the last level
            alone = private(rows.drop(index=other.index), protection)
            gone = capture(left, alone, lambda table: explain(table, model))[-1].right[0]
            assert (-part.change).tolist() == list(gone.values), (protection, part.name)


def check_both(model: dpx.Model, size: int) -> None:
    check(model, effects, size)
    check(model, curve, size)


@pytest.mark.parametrize("explain", [effects, curve])
@pytest.mark.parametrize(
    ("fails", "size"), [(False, 40), (False, 3000), (True, 40), pytest.param(True, 3000, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("function", [by_parity, by_number, network])
def test_last_digits_by_the_size_of_a_call_move_no_other_row(function, fails, size, explain):
    check(model_of(failing(function) if fails else function), explain, size)


@pytest.mark.parametrize("fails", [False, pytest.param(True, marks=pytest.mark.long)])
def test_last_digits_by_place_are_asked_one_row_at_a_time(fails):
    model = model_of(failing(by_place) if fails else by_place)
    with pytest.warns(dpx.errors.ModelWarning, match="one row at a time") as shown:
        check_both(model, 40)
    assert len(shown) == 1  # once for a model, not for each release


def test_blocks_that_are_asked_for_must_be_exact():
    with pytest.raises(dpx.errors.ModelError, match=r"blocks of 64 rows the last digits.*") as error:
        dpx.Model(by_place, output=(0, 1), block=64).checked(DOMAIN)
    assert "block=1" in error.value.hint
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dpx.Model(by_place, output=(0, 1), block=1).checked(DOMAIN).block == 1
