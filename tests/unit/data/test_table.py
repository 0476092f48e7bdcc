"""Who may read rows, what a table tells, how rows are dealt to parts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Assignment
from dpexplain.data import PublicRandom


def test_rows_need_an_open_gate_of_the_same_door(make_table, frame):
    mine, other = make_table(frame), make_table(frame)
    gate = Gate(mine.door, pure(1))
    assert sum(rows.size for rows in mine.rows(gate, ["age"])) == len(frame)
    with pytest.raises(dpx.InternalError, match="without an open reservation"):
        next(other.rows(gate, ["age"]))
    with pytest.raises(dpx.InternalError, match="without an open reservation"):
        next(other.dealt_rows(gate, ["age"], 3, other.assignment))
    late = mine.rows(gate, ["age"])
    gate.is_open = False
    with pytest.raises(dpx.InternalError, match="without an open reservation"):
        next(late)


def test_the_number_of_rows_is_told_only_where_it_is_public(make_table, frame):
    assert "400 rows" in repr(make_table(frame))
    for private in (
        make_table(frame, relation="add-remove"),
        make_table(frame, unit=dpx.Unit("person", 3)),
        make_table(frame, relation="add-remove", unit=dpx.Unit("person", 3)),
    ):
        assert private.size is None
        assert private.identity["rows"] is None
        assert "400" not in repr(private)


def test_rows_do_not_print_themselves(make_table, frame):
    table = make_table(frame, relation="add-remove")
    rows = next(iter(table.rows(Gate(table.door, pure(1)), ["age"])))
    assert repr(rows) == "Rows(age)"


@pytest.mark.parametrize("rows", [0, 1])
def test_replace_one_needs_two_units(make_table, frame, rows):
    with pytest.raises(dpx.TableError, match="fewer than two"):
        make_table(frame.head(rows))
    with pytest.raises(dpx.TableError, match="fewer than two"):
        make_table(frame.head(20).assign(person=7).head(20 * rows), unit=dpx.Unit("person", 3))
    assert make_table(frame.head(rows), relation="add-remove").size is None


def test_dealing_by_position_is_even_and_ordered(make_table, frame):
    table = make_table(frame)
    assert table.assignment is Assignment.POSITION
    parts = np.concatenate([p for _, p in table.dealt_rows(Gate(table.door, pure(1)), ["age"], 7, table.assignment)])
    np.testing.assert_array_equal(parts, np.arange(400) % 7)


def test_dealing_by_key_keeps_a_unit_together_and_changes_with_the_key(make_table, frame, monkeypatch):
    monkeypatch.setattr("dpexplain.data.table.BATCH_ROWS", 256)
    table = make_table(frame, relation="add-remove", unit=dpx.Unit("person", 9))
    assert table.assignment is Assignment.KEYED
    kept = frame[frame.groupby("person").cumcount() < 9]

    def deal():
        return np.concatenate([p for _, p in table.dealt_rows(Gate(table.door, pure(1)), ["age"], 5, table.assignment)])

    first, second = deal(), deal()
    assert (pd.Series(first).groupby(kept["person"].to_numpy()).nunique() == 1).all()
    assert set(first.tolist()) == set(range(5))
    assert (first != second).any()  # the key is fresh: equal with probability about 5^-150


def test_dealing_at_random_without_an_id_and_by_key_with_one(make_table, frame):
    table = make_table(frame, relation="add-remove")
    assert table.assignment is Assignment.RANDOM
    parts = np.concatenate([p for _, p in table.dealt_rows(Gate(table.door, pure(1)), ["age"], 4, table.assignment)])
    assert set(parts.tolist()) == {0, 1, 2, 3}
    keyed = make_table(frame, relation="add-remove", row_id="person")
    assert keyed.assignment is Assignment.KEYED
    parts = np.concatenate([p for _, p in keyed.dealt_rows(Gate(keyed.door, pure(1)), ["age"], 4, keyed.assignment)])
    assert (pd.Series(parts).groupby(frame["person"].to_numpy()).nunique() == 1).all()


def test_public_random_is_reproducible_and_stays_in_the_domain(domain):
    one, two = PublicRandom(3).rows(domain, 50), PublicRandom(3).rows(domain, 50)
    for name in domain:
        np.testing.assert_array_equal(one[name], two[name])
    assert set(one["sex"].tolist()) == {0, 1}
    assert ((one["age"] >= 20) & (one["age"] <= 29)).all()
    with pytest.raises(dpx.InputError, match="seed"):
        PublicRandom(-1)


def test_rows_without_an_id_are_dealt_one_by_one():
    from dpexplain.core.sensitivity import Assignment
    from dpexplain.data.assignment import Dealer
    from dpexplain.data.encode import NO_ID

    codes = np.array([0] * 300 + [1] * 300)
    parts = Dealer(Assignment.KEYED, 64).deal(600, (codes, [NO_ID, "7"]))
    assert len(set(parts[:300].tolist())) > 32  # each by itself; all in one part with probability 64^-299
    assert len(set(parts[300:].tolist())) == 1  # rows of one id stay together
    assert parts.min() >= 0
    assert parts.max() < 64
