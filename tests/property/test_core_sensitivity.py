"""Between neighbouring tables a sum moves at most as far as its `Sensitivity` says, and some pair attains it.

A table here is a list of units, each a list of at most k rows, each row a vector of integers inside public boxes (or,
for counts, the cell it falls into in each public partition). Neighbours differ in one unit: replaced, or removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpexplain.core.sensitivity import Assignment, Neighbours, Relation, Sensitivity, Unit
from dpexplain.data.assignment import Dealer, assignment_for

Row = tuple[int, ...]
Table = list[list[Row]]

boxes_of = st.lists(
    st.tuples(st.integers(-20, 20), st.integers(-20, 20)).map(lambda b: (min(b), max(b))), min_size=1, max_size=4
).filter(lambda boxes: any(low < high for low, high in boxes))
relations = st.sampled_from(list(Relation))


def neighbours_of(relation: Relation, k: int) -> Neighbours:
    """Without a unit column when k is 1, as a table without ids has it."""
    return Neighbours(relation, None if k == 1 else Unit("person", k))


def rows_in(boxes: Sequence[tuple[int, int]]) -> st.SearchStrategy[Row]:
    return st.tuples(*(st.integers(low, high) for low, high in boxes))


def units(rows: st.SearchStrategy[Row], k: int, relation: Relation) -> st.SearchStrategy[list[Row]]:
    """Under replace-one without ids a unit is exactly one row; with ids it may have any number up to k."""
    least = 1 if relation is Relation.REPLACE_ONE and k == 1 else 0
    return st.lists(rows, min_size=least, max_size=k)


@st.composite
def neighbouring_tables(draw: Any, rows: st.SearchStrategy[Row], k: int, relation: Relation) -> tuple[Table, Table]:
    others = draw(st.lists(units(rows, k, relation), max_size=5))
    place = draw(st.integers(0, len(others)))
    leaves = draw(units(rows, k, relation))
    comes = draw(units(rows, k, relation)) if relation is Relation.REPLACE_ONE else []
    left, right = [*others[:place], leaves, *others[place:]], [*others[:place], comes, *others[place:]]
    return (left, right) if draw(st.booleans()) else (right, left)


def total(table: Table, size: int) -> np.ndarray[Any, Any]:
    """The statistic: the plain sum over all rows of all units."""
    rows = [row for unit in table for row in unit]
    return np.array(rows, dtype=object).reshape(len(rows), size).sum(axis=0) + np.zeros(size, dtype=int)


def norms(left: Any, right: Any) -> tuple[int, int, int]:
    move = [abs(int(a) - int(b)) for a, b in zip(left, right, strict=True)]
    return sum(move), sum(m * m for m in move), max(move)


def within(moved: tuple[int, int, int], bound: Sensitivity) -> bool:
    return moved[0] <= bound.l1 and moved[1] <= bound.l2_squared and moved[2] <= bound.linf


# --- sums of rows in boxes ----------------------------------------------------------------------------------------


@given(boxes_of, relations, st.integers(1, 3), st.data())
def test_sums_move_at_most_this_far(
    boxes: list[tuple[int, int]], relation: Relation, k: int, data: st.DataObject
) -> None:
    bound = Sensitivity.of_boxes(boxes, neighbours_of(relation, k))
    left, right = data.draw(neighbouring_tables(rows_in(boxes), k, relation))
    assert within(norms(total(left, len(boxes)), total(right, len(boxes))), bound)


@given(boxes_of, relations, st.integers(1, 3))
def test_some_pair_moves_exactly_this_far(boxes: list[tuple[int, int]], relation: Relation, k: int) -> None:
    """All three norms at once, because every coordinate can be at its end of the box."""
    bound = Sensitivity.of_boxes(boxes, neighbours_of(relation, k))
    if relation is Relation.ADD_REMOVE:
        leaves = [tuple(low if abs(low) > abs(high) else high for low, high in boxes)] * k
        comes: list[Row] = []
    elif k == 1:
        leaves, comes = [tuple(low for low, _ in boxes)], [tuple(high for _, high in boxes)]
    else:  # a coordinate whose box lies to one side of zero moves furthest between k rows and none: not all at once
        one_sided = [low > 0 or high < 0 for low, high in boxes]
        if any(one_sided):
            i = max(range(len(boxes)), key=lambda i: max(boxes[i][1], 0) - min(boxes[i][0], 0))
            low, high = boxes[i]
            corner = {low: [tuple(b[0] for b in boxes)] * k, high: [tuple(b[1] for b in boxes)] * k}
            ends = [corner[low] if low < 0 else [], corner[high] if high > 0 else []]
            moved = norms(total([ends[0]], len(boxes)), total([ends[1]], len(boxes)))
            assert moved[2] == bound.linf
            assert within(moved, bound)
            return
        leaves, comes = [tuple(low for low, _ in boxes)] * k, [tuple(high for _, high in boxes)] * k
    moved = norms(total([leaves], len(boxes)), total([comes], len(boxes)))
    assert moved == (bound.l1, bound.l2_squared, bound.linf)


@given(boxes_of, st.integers(1, 3))
def test_an_add_remove_bound_is_not_enough_under_replace_one(boxes: list[tuple[int, int]], k: int) -> None:
    """The sibling that must fail: whenever a box reaches to both sides of zero, replacing moves further."""
    both_sides = [i for i, (low, high) in enumerate(boxes) if low < 0 < high]
    add = Sensitivity.of_boxes(boxes, neighbours_of(Relation.ADD_REMOVE, k))
    replace = Sensitivity.of_boxes(boxes, neighbours_of(Relation.REPLACE_ONE, k))
    if both_sides and all(low <= 0 <= high for low, high in boxes):
        assert replace.l1 > add.l1
    assert replace.l1 <= 2 * add.l1  # remove, then add


# --- counts -------------------------------------------------------------------------------------------------------


def histogram(table: Table, cells: int, partitions: int) -> np.ndarray[Any, Any]:
    counts = np.zeros((partitions, cells), dtype=int)
    for unit in table:
        for row in unit:
            for partition, cell in enumerate(row):
                counts[partition, cell] += 1
    return counts.ravel()


@given(st.integers(2, 5), st.integers(1, 3), relations, st.integers(1, 3), st.data())
def test_counts_move_at_most_this_far(
    cells: int, partitions: int, relation: Relation, k: int, data: st.DataObject
) -> None:
    bound = Sensitivity.of_counts(neighbours_of(relation, k), partitions)
    rows = st.tuples(*(st.integers(0, cells - 1) for _ in range(partitions)))
    left, right = data.draw(neighbouring_tables(rows, k, relation))
    assert within(norms(histogram(left, cells, partitions), histogram(right, cells, partitions)), bound)


@given(st.integers(2, 5), st.integers(1, 3), relations, st.integers(1, 3))
def test_counts_attain_the_bound(cells: int, partitions: int, relation: Relation, k: int) -> None:
    bound = Sensitivity.of_counts(neighbours_of(relation, k), partitions)
    leaves = [(0,) * partitions] * k
    comes = [(cells - 1,) * partitions] * k if relation is Relation.REPLACE_ONE else []
    moved = norms(histogram([leaves], cells, partitions), histogram([comes], cells, partitions))
    assert moved == (bound.l1, bound.l2_squared, bound.linf)


@given(st.integers(1, 4), relations, st.integers(1, 3), st.data())
def test_sums_of_short_vectors_move_at_most_this_far(
    size: int, relation: Relation, k: int, data: st.DataObject
) -> None:
    """Every row adds a vector whose norms are bounded, of either sign."""
    limit = data.draw(st.integers(1, 5))
    vectors = st.lists(st.integers(-limit, limit), min_size=size, max_size=size).map(tuple)
    left, right = data.draw(neighbouring_tables(vectors, k, relation))
    every = [row for table in (left, right) for unit in table for row in unit] or [(1,) * size]
    longest = [max(norm(row) for row in every) for norm in (l1_of, squares_of, linf_of)]
    bound = Sensitivity.of_norms(
        neighbours_of(relation, k), l1=max(longest[0], 1), l2_squared=max(longest[1], 1), linf=max(longest[2], 1)
    )
    sums = [np.array([row for unit in table for row in unit] or [(0,) * size]).sum(axis=0) for table in (left, right)]
    assert within(norms(*sums), bound)


@given(relations, st.integers(1, 3))
def test_sums_of_short_vectors_attain_the_bound(relation: Relation, k: int) -> None:
    bound = Sensitivity.of_norms(neighbours_of(relation, k), l1=6, l2_squared=18, linf=3)
    leaves = np.array([-3, 3]) * k if relation is Relation.REPLACE_ONE else np.zeros(2, dtype=int)
    assert norms(leaves, np.array([3, -3]) * k) == (bound.l1, bound.l2_squared, bound.linf)


def l1_of(row: tuple[int, ...]) -> int:
    return sum(map(abs, row))


def squares_of(row: tuple[int, ...]) -> int:
    return sum(x * x for x in row)


def linf_of(row: tuple[int, ...]) -> int:
    return max(map(abs, row))


# --- rows dealt to parts ------------------------------------------------------------------------------------------

People = list[tuple[str, int]]  # (id, value), one row each; several rows may share an id when ids are units


def parts_of(rule: Assignment, key: bytes, people: People, parts: int, draws: dict[int, int]) -> list[list[Any]]:
    """The content of every part. `draws` couples the secret numbers of rows that are the same in both tables."""
    dealer = Dealer(rule, parts)
    dealer._key = key
    if rule is Assignment.RANDOM:
        dealt = [draws[i] for i, _ in enumerate(people)]
    else:
        names = [name for name, _ in people]
        distinct = list(dict.fromkeys(names))
        codes = np.array([distinct.index(name) for name in names], dtype=np.int64)
        dealt = [int(part) for part in dealer.deal(len(people), (codes, distinct))] if people else []
    content: list[list[Any]] = [[] for _ in range(parts)]
    for part, person in zip(dealt, people, strict=True):
        content[part].append(person)
    return content


def changed(left: list[list[Any]], right: list[list[Any]]) -> int:
    return sum(a != b for a, b in zip(left, right, strict=True))


names = st.text(max_size=3)
people_of = st.lists(st.tuples(names, st.integers(0, 9)), min_size=1, max_size=12)


@given(people_of, names, st.integers(0, 9), st.integers(1, 6), st.binary(min_size=32, max_size=32), st.data())
def test_replacing_a_row_changes_at_most_the_stated_parts(
    people: People, name: str, value: int, parts: int, key: bytes, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(people) - 1))
    other = [*people[:place], (name, value), *people[place + 1 :]]
    neighbours = Neighbours(Relation.REPLACE_ONE)
    draws = {i: data.draw(st.integers(0, parts - 1)) for i in range(len(people))}
    for rule in Assignment:
        left, right = (parts_of(rule, key, table, parts, draws) for table in (people, other))
        assert changed(left, right) <= rule.changed_parts(neighbours)


@given(people_of, st.integers(1, 6), st.binary(min_size=32, max_size=32), st.data())
def test_removing_a_row_changes_at_most_one_part(people: People, parts: int, key: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(people) - 1))
    fewer = [*people[:place], *people[place + 1 :]]
    neighbours = Neighbours(Relation.ADD_REMOVE)
    draws = {i: data.draw(st.integers(0, parts - 1)) for i in range(len(people))}
    coupled = {i if i < place else i - 1: part for i, part in draws.items() if i != place}
    for rule in (Assignment.KEYED, Assignment.RANDOM):
        left = parts_of(rule, key, people, parts, draws)
        right = parts_of(rule, key, fewer, parts, coupled)
        assert changed(left, right) <= rule.changed_parts(neighbours) == 1


@given(people_of, people_of, relations, st.integers(1, 6), st.binary(min_size=32, max_size=32), st.data())
def test_a_unit_moves_together(
    people: People, extra: People, relation: Relation, parts: int, key: bytes, data: st.DataObject
) -> None:
    """All rows of one id leave; under replace-one all rows of a new id come, and their number may differ."""
    name = data.draw(st.sampled_from([name for name, _ in people]))
    rest = [person for person in people if person[0] != name]
    taken = {name for name, _ in rest}
    fresh = data.draw(names.filter(lambda n: n not in taken))
    comes = [(fresh, value) for _, value in extra] if relation is Relation.REPLACE_ONE else []
    left, right = (parts_of(Assignment.KEYED, key, table, parts, {}) for table in (people, [*rest, *comes]))
    assert changed(left, right) <= Assignment.KEYED.changed_parts(Neighbours(relation, Unit("id", 12)))


@pytest.mark.parametrize("parts", [2, 5])
def test_bounds_on_parts_are_attained_and_position_is_unsafe_under_add_remove(parts: int) -> None:
    """A hash may put two ids in two parts; without the first row every later row has another place."""
    key, people = b"k" * 32, [(str(i), i) for i in range(40)]
    alone = [parts_of(Assignment.KEYED, key, [person], parts, {}) for person in people]
    assert max(changed(alone[0], other) for other in alone) == 2
    left, right = (parts_of(Assignment.POSITION, key, table, parts, {}) for table in (people, people[1:]))
    assert changed(left, right) == parts


def test_the_rule_follows_from_what_is_declared() -> None:
    unit = Unit("id", 2)
    assert assignment_for(Neighbours(Relation.REPLACE_ONE), None) is Assignment.POSITION
    assert assignment_for(Neighbours(Relation.REPLACE_ONE), "id") is Assignment.POSITION
    assert assignment_for(Neighbours(Relation.ADD_REMOVE), None) is Assignment.RANDOM
    assert assignment_for(Neighbours(Relation.ADD_REMOVE), "id") is Assignment.KEYED
    for relation in Relation:
        rule = assignment_for(Neighbours(relation, unit), None)
        assert rule is Assignment.KEYED
        assert rule.changed_parts(Neighbours(relation, unit)) in (1, 2)


def test_secret_numbers_stay_inside_the_parts() -> None:
    dealt = Dealer(Assignment.RANDOM, 3).deal(500, None)
    assert set(dealt.tolist()) == {0, 1, 2}  # misses one with probability 1e-87
    position = Dealer(Assignment.POSITION, 3)
    assert [*position.deal(4, None), *position.deal(2, None)] == [0, 1, 2, 0, 1, 2]
