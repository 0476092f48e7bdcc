"""Who may read rows, what a table tells, how rows are dealt to parts."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Assignment
from dpexplain.data import PublicRandom
from dpexplain.methods.batches.gates import PartGate, Rehearsal
from stubs import rows_of


def sizes(rows):
    return np.array([rows.size])


def test_rows_need_an_open_gate_of_the_same_door(make_table, frame):
    mine, other = make_table(frame), make_table(frame)
    gate = Gate(mine.door, pure(1))
    assert mine.sum_rows(gate, sizes, ["age"], size=1, label="").tolist() == [len(frame)]

    def refused(table):
        for ask in (
            partial(table.sum_rows, gate, sizes, ["age"], size=1, label=""),
            partial(table.sum_groups, gate, sizes, ["age"], 3, size=1, label=""),
            partial(table.gathered, gate, ["age"]),
        ):
            with pytest.raises(dpx.errors.InternalError, match="without an open reservation"):
                ask()

    refused(other)
    gate.is_open = False
    refused(mine)
    shut = gate
    for gate in (Gate(mine.door, pure(1) * 0), PartGate(shut, 0, pure(1), print), Rehearsal(mine, pure(1), 0)):  # noqa: B007 - `refused` asks by it
        refused(mine)


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
    rows = next(iter(rows_of(table, Gate(table.door, pure(1)), ["age"])))
    assert repr(rows) == "Rows(age)"


@pytest.mark.parametrize("rows", [0, 1])
def test_replace_one_needs_two_units(make_table, frame, rows):
    with pytest.raises(dpx.errors.TableError, match="fewer than two"):
        make_table(frame.head(rows))
    with pytest.raises(dpx.errors.TableError, match="fewer than two"):
        make_table(frame.head(20).assign(person=7).head(20 * rows), unit=dpx.Unit("person", 3))
    assert make_table(frame.head(rows), relation="add-remove").size is None


def deal(table, groups):
    """The ages in each group, and the tags of their rows."""
    found = []

    def kernel(dealt):
        found.append((next(iter(dealt))["age"].tolist(), dealt.tags.tolist()))
        return np.array([dealt.size, dealt.rows.size])

    gate = Gate(table.door, pure(1))
    told = table.sum_groups(gate, kernel, ["age"], groups, size=2, label="", at_once=0, parallel=False)
    assert told.tolist() == [groups, sum(len(ages) for ages, _ in found)]
    assert all(tag % groups == group for group, (_, tags) in enumerate(found) for tag in tags)
    return found


def test_dealing_by_position_is_even_and_ordered(make_table, frame):
    table = make_table(frame, exact=True)
    assert table.assignment is Assignment.POSITION
    found = deal(table, 7)
    assert [tags for _, tags in found] == [list(range(group, 400, 7)) for group in range(7)]
    assert [ages for ages, _ in found] == [frame["age"].tolist()[group::7] for group in range(7)]
    shuffled = deal(make_table(frame), 7)
    assert [tags for _, tags in shuffled] == [tags for _, tags in found]
    assert sorted(age for ages, _ in shuffled for age in ages) == sorted(frame["age"])
    assert shuffled != found  # equal with probability about 10^-300


def test_dealing_by_key_keeps_a_unit_together_and_changes_with_the_key(make_table, frame, monkeypatch):
    monkeypatch.setattr("dpexplain.data.table.BATCH_ROWS", 256)
    table = make_table(frame.assign(age=frame["person"] % 10 + 20), relation="add-remove", unit=dpx.Unit("person", 9))
    assert table.assignment is Assignment.KEYED
    kept = frame[frame.groupby("person").cumcount() < 9]
    first, second = deal(table, 5), deal(table, 5)
    tags = [tag for _, group in first for tag in group]
    assert len(tags) == len(kept)
    assert sorted(Counter(tags).values()) == sorted(kept["person"].value_counts())  # two hash alike in 1 of 1e14 tries
    assert first != second  # the key is fresh: equal with probability about 5^-150


def test_dealing_at_random_without_an_id_and_by_key_with_one(make_table, frame):
    table = make_table(frame, relation="add-remove")
    assert table.assignment is Assignment.RANDOM
    found = deal(table, 4)
    assert all(len(ages) > 0 for ages, _ in found)
    assert len({tag for _, tags in found for tag in tags}) == len(frame)
    keyed = make_table(frame, relation="add-remove", row_id="person")
    assert keyed.assignment is Assignment.KEYED
    assert len({tag for _, tags in deal(keyed, 4) for tag in tags}) == frame["person"].nunique()


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


def test_an_order_is_a_permutation_and_places_are_its_inverse(monkeypatch):
    from dpexplain.data.assignment import places_of, secret_order

    monkeypatch.setattr("dpexplain.data.assignment.PIECE", 7)  # looked at in many parts
    order = secret_order(100)
    assert sorted(order) == list(range(100))
    assert places_of(order)[order].tolist() == list(range(100))
    drawn = iter([bytes(8) + bytes(8 * 7) + bytes(range(8 * 12)), bytes(range(160))])  # equal numbers are drawn again
    monkeypatch.setattr("dpexplain.data.assignment.secret_bytes", lambda size: next(drawn)[:size])
    assert secret_order(20).tolist() == np.argsort(np.frombuffer(bytes(range(160)), dtype=np.uint64)).tolist()
    assert next(drawn, None) is None
