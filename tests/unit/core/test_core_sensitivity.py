"""Constructors of bounds, and what they refuse. The neighbour property tests are in tests/property."""

from __future__ import annotations

from typing import Any

import pytest

from dpexplain.core.sensitivity import Assignment, Neighbours, Relation, ScoreRange, Sensitivity, Unit
from dpexplain.errors import InputError, InternalError
from stubs import ADD_REMOVE, BOTH, REPLACE_ONE

UNITS = {relation: Neighbours(relation, Unit("person", 3)) for relation in Relation}


@pytest.mark.parametrize(
    ("neighbours", "l1", "l2_squared", "linf"),
    [
        (ADD_REMOVE, 10 + 5, 125, 10),  # max(|low|, |high|)
        (REPLACE_ONE, 10 + 8, 164, 10),  # high - low
        (UNITS[Relation.ADD_REMOVE], 45, 9 * 125, 30),
        (UNITS[Relation.REPLACE_ONE], 54, 9 * 164, 30),
    ],
)
def test_boxes(neighbours: Neighbours, l1: int, l2_squared: int, linf: int) -> None:
    bound = Sensitivity.of_boxes([(0, 10), (-5, 3)], neighbours)
    assert bound == Sensitivity(neighbours, l1, l2_squared, linf)


def test_a_box_away_from_zero_under_replace_one_with_units() -> None:
    """The unit that comes in may have no rows at all, so zero belongs to the interval."""
    bound = Sensitivity.of_boxes([(4, 6), (-6, -4)], UNITS[Relation.REPLACE_ONE])
    assert (bound.l1, bound.linf) == (36, 18)
    assert Sensitivity.of_boxes([(4, 6)], REPLACE_ONE).linf == 2
    assert Sensitivity.of_boxes([(4, 6)], ADD_REMOVE).linf == 6


@pytest.mark.parametrize(
    ("neighbours", "partitions", "expected"),
    [
        (ADD_REMOVE, 1, (1, 1, 1)),
        (REPLACE_ONE, 1, (2, 2, 1)),
        (REPLACE_ONE, 3, (6, 6, 1)),
        (UNITS[Relation.ADD_REMOVE], 2, (6, 18, 3)),
        (UNITS[Relation.REPLACE_ONE], 2, (12, 36, 3)),
    ],
)
def test_counts(neighbours: Neighbours, partitions: int, expected: tuple[int, int, int]) -> None:
    bound = Sensitivity.of_counts(neighbours, partitions)
    assert (bound.l1, bound.l2_squared, bound.linf) == expected


@pytest.mark.parametrize("norms", [(0, 0, 0), (1, 1, 2), (3, 3, 2), (2, 5, 1), (-1, 1, -1), (3, 10, 3)])
def test_norms_that_contradict_each_other(norms: tuple[int, int, int]) -> None:
    with pytest.raises(InternalError, match="contradict"):
        Sensitivity(ADD_REMOVE, *norms)


@pytest.mark.parametrize("neighbours", BOTH)
def test_a_statistic_that_cannot_move_has_no_sensitivity(neighbours: Neighbours) -> None:
    with pytest.raises(InternalError):
        Sensitivity.of_boxes([(0, 0)], neighbours)


@pytest.mark.parametrize("rows", [0, -1, 1.0, "3", True, None])
def test_bad_units(rows: Any) -> None:
    with pytest.raises(InputError, match="max_rows"):
        Unit("person", rows)


def test_relations_by_name() -> None:
    assert Relation.parse("add-remove") is Relation.ADD_REMOVE
    assert Relation.parse(Relation.REPLACE_ONE) is Relation.REPLACE_ONE
    with pytest.raises(InputError, match="unknown relation 'swap'"):
        Relation.parse("swap")


def test_words() -> None:
    assert ADD_REMOVE.describe() == "one row added or removed"
    assert REPLACE_ONE.describe() == "one row replaced by other values"
    assert UNITS[Relation.ADD_REMOVE].describe() == "all rows of one person (at most 3) added or removed"


def test_what_is_public() -> None:
    assert REPLACE_ONE.rows_public
    assert not ADD_REMOVE.rows_public
    assert not UNITS[Relation.REPLACE_ONE].rows_public
    assert REPLACE_ONE.public == ("the number of rows",)
    assert ADD_REMOVE.public == ()
    assert UNITS[Relation.REPLACE_ONE].public == ("the number of different person",)
    assert (REPLACE_ONE.rows, UNITS[Relation.ADD_REMOVE].rows) == (1, 3)


@pytest.mark.parametrize("neighbours", [*BOTH, *UNITS.values()])
def test_neighbours_survive_json(neighbours: Neighbours) -> None:
    assert Neighbours.from_json(neighbours.to_json()) == neighbours


def test_parts_that_can_change() -> None:
    assert Assignment.POSITION.changed_parts(REPLACE_ONE) == 1
    assert Assignment.RANDOM.changed_parts(REPLACE_ONE) == 1
    assert Assignment.RANDOM.changed_parts(ADD_REMOVE) == 1
    assert Assignment.KEYED.changed_parts(ADD_REMOVE) == 1
    assert Assignment.KEYED.changed_parts(REPLACE_ONE) == 2
    assert Assignment.KEYED.changed_parts(UNITS[Relation.ADD_REMOVE]) == 1
    assert Assignment.KEYED.changed_parts(UNITS[Relation.REPLACE_ONE]) == 2


@pytest.mark.parametrize(
    ("assignment", "neighbours"),
    [
        (Assignment.POSITION, ADD_REMOVE),
        *((rule, unit) for rule in (Assignment.POSITION, Assignment.RANDOM) for unit in UNITS.values()),
    ],
)
def test_dealing_that_is_not_allowed(assignment: Assignment, neighbours: Neighbours) -> None:
    with pytest.raises(InternalError):
        assignment.changed_parts(neighbours)


def test_score_ranges() -> None:
    assert ScoreRange(ADD_REMOVE, -1, 2).length == 3
    for low, high in ((1, 1), (2, 1)):
        with pytest.raises(InternalError, match="empty"):
            ScoreRange(ADD_REMOVE, low, high)
