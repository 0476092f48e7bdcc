"""Random tables and their neighbours, for property tests: what is outside the domain, missing, or breaks the model is
part of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import strategies as st

import dpexplain as dpx
from dpexplain.core.sensitivity import Sensitivity

DOMAIN = dpx.Domain(
    {"a": dpx.Numeric(0, 3, integer=True), "b": dpx.Numeric(-1, 1), "c": dpx.Categorical(["x", "y", "z"])}
)
VALUES = st.tuples(
    st.one_of(st.integers(-5, 8), st.none(), st.just(float("inf"))),
    st.one_of(st.floats(-2, 2), st.just(float("nan"))),
    st.sampled_from(["x", "y", "z", "unseen", None]),
)
ROW = st.tuples(VALUES, st.integers(0, 4))  # values and the id of the unit


def wild(rows: pd.DataFrame) -> np.ndarray:
    """Not additive, leaves the output range, fails on some rows (also of the grid)."""
    a, b = rows["a"].to_numpy(), rows["b"].to_numpy()
    value = 3 * np.sin(5 * a + 2 * b) + (rows["c"] == "y").to_numpy() * b
    return np.where(b > 0.97, np.nan, value)


def frame(rows) -> pd.DataFrame:
    columns = list(zip(*[values for values, _ in rows], strict=True)) if rows else [(), (), ()]
    data = {name: pd.Series(list(column), dtype=object) for name, column in zip("abc", columns, strict=True)}
    return pd.DataFrame({**data, "id": pd.Series([unit for _, unit in rows], dtype="int64")})


def private(rows, protection: dict, domain: dpx.Domain = DOMAIN) -> dpx.PrivateTable:
    return dpx.PrivateTable(
        frame(rows), domain=domain, budget=dpx.Budget(1), ledger="sqlite:///:memory:", name="t", **protection
    )


@st.composite
def neighbours(draw):
    """(protection, rows, neighbouring rows) under each relation, with and without units of at most two rows."""
    relation, unit = draw(st.sampled_from(["replace-one", "add-remove"])), draw(st.booleans())
    rows = [*draw(st.lists(ROW, max_size=7)), ((0, 0.0, "x"), 0), ((3, 0.5, "z"), 1)]
    if not unit:
        place, new = draw(st.integers(0, len(rows) - 1)), draw(ROW)
        keep = rows[place + 1 :] if relation == "replace-one" else rows[place:]
        return {"relation": relation}, rows, [*rows[:place], new, *keep]

    def mixed(new):
        result = list(rows)
        for values in new:
            result.insert(draw(st.integers(0, len(result))), (values, 99))
        return result

    some = st.lists(VALUES, max_size=4)
    before = draw(some) if relation == "replace-one" else []
    return {"relation": relation, "unit": dpx.Unit("id", 2)}, mixed(before), mixed(draw(some))


def norms(change) -> tuple[int, int, int]:
    return int(abs(change).sum()), int((change * change).sum()), int(abs(change).max())


def within(moved: tuple[int, int, int], bound: Sensitivity) -> bool:
    return all(m <= b for m, b in zip(moved, (bound.l1, bound.l2_squared, bound.linf), strict=True))
