"""Which rows of a unit are used: a function of its own rows, whatever the order, the pass or the other units."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpexplain as dpx
from chosen import chosen
from dpexplain.core.release import Gate
from dpexplain.data import units
from dpexplain.data.sources import ArrowSource
from stubs import rows_of

DOMAIN = dpx.Domain({"x": dpx.Numeric(-5, 5), "n": dpx.Numeric(0, 9, integer=True), "c": dpx.Categorical(["a", "b"])})


def opened(rows, most=2):
    return dpx.PrivateTable(
        rows, domain=DOMAIN, budget=dpx.Budget(1), relation="add-remove", unit=dpx.Unit("id", most),
        ledger=dpx.open_ledger("sqlite:///:memory:"), name="t",
    )  # fmt: skip


def used(table, columns=("x", "n", "c")):
    gate = Gate(table.door, table.cost(epsilon=1))
    batches = list(rows_of(table, gate, list(columns), 64))
    return np.column_stack([np.concatenate([rows[name] for rows in batches]) for name in columns])


@pytest.fixture
def rows():
    draw = np.random.default_rng(0)
    size = 700
    return pd.DataFrame(
        {
            "x": draw.normal(size=size).round(1) + 0.0, "n": draw.integers(0, 10, size),
            "c": draw.choice(["a", "b"], size),
            "id": draw.choice([*(f"p{i}" for i in range(200)), None], size),
        }
    )  # fmt: skip


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("held", [2**20, 10])
def test_the_rows_are_those_of_a_plain_computation(rows, most, held, monkeypatch):
    monkeypatch.setattr(units, "HELD", held)
    known = rows[rows["id"].notna()].reset_index(drop=True)
    clean = [(float(x), float(n), "ab".index(c)) for x, n, c in known[["x", "n", "c"]].to_numpy()]
    wanted = [clean[i] for i in chosen(clean, known["id"].tolist(), most)]
    assert Counter(map(tuple, used(opened(rows, most)).tolist())) == Counter(wanted)


def test_neither_order_nor_columns_nor_batches_matter(rows):
    mixed = rows.sample(frac=1, random_state=1)
    first, second = used(opened(rows)), used(opened(mixed))
    assert Counter(map(tuple, first.tolist())) == Counter(map(tuple, second.tolist()))
    assert used(opened(rows), ["n"])[:, 0].tolist() == first[:, 1].tolist()


def test_the_rows_of_one_unit_change_no_others(rows):
    own = rows["id"] == "p7"
    other = rows.assign(x=rows["x"].where(~own, 3.3))
    kept = [Counter(map(tuple, used(opened(table)).tolist())) for table in (rows, other)]
    assert sum(((kept[0] - kept[1]) + (kept[1] - kept[0])).values()) <= 4


def test_no_kind_of_row_is_used_before_another():
    """Every unit has the same four rows: each of them is used about as often."""
    kinds = pd.DataFrame({"x": [0.0, 1.0, 0.0, 1.0], "n": 1, "c": ["a", "a", "b", "b"]})
    rows = pd.concat([kinds.assign(id=f"p{i}") for i in range(400)])
    found = Counter(map(tuple, used(opened(rows, 1)).tolist()))
    assert sum(found.values()) == 400
    assert len(found) == 4
    assert max(abs(many - 100) for many in found.values()) < 50  # a standard deviation is 8.7


def test_rows_that_are_alike_are_used_up_to_the_limit():
    rows = pd.DataFrame({"x": 1.0, "n": 1, "c": "a", "id": ["p"] * 9 + ["q"]})
    assert len(used(opened(rows, 3))) == 4
    some = rows.assign(x=[1.0] * 5 + [2.0] * 4 + [0.0])
    assert len(used(opened(some, 3))) == 4
    assert len(used(opened(some.sample(frac=1, random_state=0), 7))) == 8


class Changing(ArrowSource):
    """Other rows in every pass, as of a query on a table that somebody writes into."""

    def __init__(self, tables):
        super().__init__(tables[0])
        self.tables = list(tables)

    def batches(self, columns, rows):
        self._table = self.tables.pop(0)
        return super().batches(columns, rows)


def test_a_source_that_changes_between_passes_never_shows_more_rows_of_a_unit(rows):
    many = pd.DataFrame({"x": np.linspace(-5, 5, 400), "n": 1, "c": "a", "id": [f"p{i % 4}" for i in range(400)]})
    table = opened(rows)
    table._source = Changing([pa.Table.from_pandas(many.iloc[:40]), pa.Table.from_pandas(many)])
    assert 0 < len(used(table)) <= 2 * 4


def test_categories_of_ids_that_no_row_has_are_nobody():
    ids = pa.DictionaryArray.from_arrays(pa.array([2, None, 2]), pa.array(["p", "q", "r"]))
    rows = pa.table({"x": [1.0, 2.0, 3.0], "n": [1, 1, 1], "c": ["a", "a", "a"], "id": ids})
    assert len(used(opened(rows, 1))) == 1
    nobody = pa.DictionaryArray.from_arrays(pa.array([None, None, None], pa.int8()), pa.array(["p"]))
    table = opened(rows.set_column(3, "id", nobody), 1)
    assert list(rows_of(table, Gate(table.door, table.cost(epsilon=1)), ["x"])) == []
