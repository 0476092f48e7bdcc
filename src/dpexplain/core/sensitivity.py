"""Which tables are neighbours, and how far an integer statistic can move between them.

    replace-one   the values of one unit are exchanged for other values; the number of units is public
    add-remove    one unit is added or removed; the number of units is private

A unit is one row, or all rows that share a declared id, at most `rows` of them. Under replace-one with such an id the
number of *rows* is private: the unit that comes in may have more or fewer rows than the one that leaves.

A `Sensitivity` names the relation it was proven for, and the door refuses it under any other one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dpexplain.core.canonical import JsonObject
from dpexplain.errors import InputError, InternalError


class Relation(StrEnum):
    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"

    @classmethod
    def parse(cls, value: str | Relation) -> Relation:
        try:
            return cls(value)
        except ValueError:
            raise InputError(f"unknown relation {value!r}.", hint='use "replace-one" or "add-remove"') from None


@dataclass(frozen=True)
class Unit:
    """All rows with the same value in `column` are one unit, of which at most `max_rows` are used (`data/units.py`)."""

    column: str
    max_rows: int

    def __post_init__(self) -> None:
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int) or self.max_rows < 1:
            raise InputError(f"max_rows must be a whole number of at least 1; got {self.max_rows!r}.")


@dataclass(frozen=True)
class Neighbours:
    """The pairs of tables that a guarantee makes hard to tell apart."""

    relation: Relation
    unit: Unit | None = None

    @property
    def rows(self) -> int:
        """How many rows one unit has at most."""
        return 1 if self.unit is None else self.unit.max_rows

    @property
    def changed_rows(self) -> int:
        """How many rows appear, vanish, leave or come between neighbours at most."""
        return self.rows * (1 if self.relation is Relation.ADD_REMOVE else 2)

    @property
    def rows_public(self) -> bool:
        """Whether the number of rows is public."""
        return self.relation is Relation.REPLACE_ONE and self.unit is None

    @property
    def public(self) -> tuple[str, ...]:
        """What this relation takes as known to everybody."""
        if self.relation is Relation.ADD_REMOVE:
            return ()
        return ("the number of rows",) if self.unit is None else (f"the number of different {self.unit.column}",)

    def describe(self) -> str:
        """The privacy unit and the relation in words."""
        who = "one row" if self.unit is None else f"all rows of one {self.unit.column} (at most {self.unit.max_rows})"
        verb = "replaced by other values" if self.relation is Relation.REPLACE_ONE else "added or removed"
        return f"{who} {verb}"

    def to_json(self) -> JsonObject:
        unit = None if self.unit is None else {"column": self.unit.column, "max_rows": self.unit.max_rows}
        return {"relation": self.relation.value, "unit": unit}

    @classmethod
    def from_json(cls, value: JsonObject) -> Neighbours:
        unit = value["unit"]
        return cls(Relation(value["relation"]), None if unit is None else Unit(unit["column"], unit["max_rows"]))


def whole(value: Any) -> int:
    """A Python integer, which unlike numpy's never wraps around; anything else is a bug of the caller."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InternalError("a bound or a statistic is not made of whole numbers")
    return operator.index(value)


@dataclass(frozen=True)
class Sensitivity:
    """Upper bounds on |s - s'| in three norms, for one statistic and one kind of neighbours."""

    neighbours: Neighbours
    l1: int
    l2_squared: int
    linf: int

    def __post_init__(self) -> None:
        for name in ("l1", "l2_squared", "linf"):
            object.__setattr__(self, name, whole(getattr(self, name)))
        if not 0 < self.linf <= self.l1 or not self.linf**2 <= self.l2_squared <= self.l1**2:
            raise InternalError(f"the norms of a sensitivity contradict each other: {self}")

    @classmethod
    def of_boxes(cls, boxes: Sequence[tuple[int, int]], neighbours: Neighbours) -> Sensitivity:
        """Of a sum over rows in which every row adds an integer in [low_i, high_i] to coordinate i.

        Proof. Let k be the most rows of a unit.
        add-remove: the unit's 0..k rows appear or vanish, so coordinate i moves by at most k max(|low_i|, |high_i|).
        replace-one, unit = row: one row's value in [low_i, high_i] becomes another one: at most high_i - low_i.
        replace-one, unit = id: the unit's 0..k rows add up to a value in [k min(low_i, 0), k max(high_i, 0)], before
        and after, so the move is at most the length of that interval.
        The norms of a vector with |v_i| <= c_i are at most those of c.
        """
        k = neighbours.rows
        boxes = [(whole(low), whole(high)) for low, high in boxes]
        if not boxes or any(low > high for low, high in boxes):
            raise InternalError("a statistic needs boxes, and their lower ends first")
        if neighbours.relation is Relation.ADD_REMOVE:
            bounds = [k * max(abs(low), abs(high)) for low, high in boxes]
        elif neighbours.unit is None:
            bounds = [high - low for low, high in boxes]
        else:
            bounds = [k * (max(high, 0) - min(low, 0)) for low, high in boxes]
        return cls(neighbours, sum(bounds), sum(b * b for b in bounds), max(bounds))

    @classmethod
    def of_counts(cls, neighbours: Neighbours, partitions: int = 1) -> Sensitivity:
        """Of the cell counts of `partitions` public partitions of the rows: each row adds 1 to one cell of each.

        Proof, for one partition. add-remove: up to k counts appear: a vector a >= 0 with |a|_1 <= k, so
        |a|_2^2 <= k^2 and |a|_inf <= k. replace-one: a leaves and b comes, |a|_1, |b|_1 <= k: |b - a|_1 <= 2k,
        |b - a|_2^2 = |a|^2 + |b|^2 - 2ab <= 2 k^2 because ab >= 0, |b - a|_inf <= k. Several partitions add up in
        L1 and in squared L2, and share the maximum.
        """
        k, p = neighbours.rows, whole(partitions)
        return cls(neighbours, p * neighbours.changed_rows, p * neighbours.changed_rows * k, k)

    @classmethod
    def of_norms(cls, neighbours: Neighbours, *, l1: int, l2_squared: int, linf: int) -> Sensitivity:
        """Of a sum over rows in which every row adds a vector with at most these norms, of either sign.

        Proof. Between neighbours at most k vectors appear or vanish (add-remove), or k leave and k come (replace-one):
        s = k or 2k vectors in all. By the triangle inequality the norms of their signed sum are at most s times those
        of one; squared, s^2 times.
        """
        s = neighbours.changed_rows
        return cls(neighbours, s * whole(l1), s * s * whole(l2_squared), s * whole(linf))

    @classmethod
    def of_distance(cls, neighbours: Neighbours, size: int, l2: int) -> Sensitivity:
        """Of a vector of `size` integers that moves by at most `l2` in Euclidean distance between these neighbours.

        Proof. |v|_inf <= |v|_2 and |v|_1 <= sqrt(size) |v|_2, and integers stay below the floor of a bound.
        """
        bound = whole(l2)
        return cls(neighbours, math.isqrt(whole(size) * bound * bound), bound * bound, bound)

    @classmethod
    def of_parts(cls, neighbours: Neighbours, size: int, levels: int, changed: int) -> Sensitivity:
        """Of a sum over a public number of parts, each of which adds a vector in {0..levels}^size that may depend on
        its rows in any way.

        Proof. At most `changed` parts differ between neighbours (`Assignment.changed_parts`), and each of them moves
        every coordinate by at most `levels`. The number of parts is fixed, under both relations.
        """
        bound, m = whole(changed) * whole(levels), whole(size)
        return cls(neighbours, m * bound, m * bound * bound, bound)


class Assignment(StrEnum):
    """How rows are dealt to the parts of a black-box release. The rows of one unit always share a part."""

    POSITION = "position"  # its place in a fresh secret shuffle of all rows, modulo the number of parts
    KEYED = "keyed"  # a hash of a declared id under a fresh secret key
    RANDOM = "random"  # a fresh secret number for every row

    def changed_parts(self, neighbours: Neighbours) -> int:
        """How many parts can differ between neighbouring tables, the secret randomness being the same in both.

        replace-one by position: one. Let D' be D with the row r' in the place of r, each listed in any order. A uniform
        shuffle gives every row a place, all ways equally likely whatever the order. So give the rows that D and D'
        share the same places in both, and r' that of r: both laws are right, and the tables differ in one place. By
        random numbers per row: in the same way, one. Keyed: the row that comes in may carry another id and fall into
        another part: two. add-remove: the unit's part: one; but one table has more places than the other, so position
        is not allowed there, nor with units, whose number of rows may differ. A part is a list: its rows stand in a
        secret order (`data/dealing.py`), uniform and independent of that of other parts, or, where units stay together,
        in that of their secret tags and in a secret order within each. In which order the shared rows come in it has
        the same law in both tables, so it can be the same, and parts without the unit are the same lists.
        """
        if self is not Assignment.KEYED and neighbours.unit is not None:
            raise InternalError("rows of one unit must be dealt together, by a hash of the unit")
        if self is Assignment.POSITION and not neighbours.rows_public:
            raise InternalError("rows can be dealt by position only when their number is public")
        return 2 if self is Assignment.KEYED and neighbours.relation is Relation.REPLACE_ONE else 1


@dataclass(frozen=True)
class ScoreRange:
    """How far the scores of public candidates can move between neighbours: every change lies in [low, high].

    Only the length counts: adding the same amount to all scores changes no selection.
    """

    neighbours: Neighbours
    low: int
    high: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", whole(self.low))
        object.__setattr__(self, "high", whole(self.high))
        if self.high <= self.low:
            raise InternalError(f"the range of score changes is empty: [{self.low}, {self.high}]")

    @property
    def length(self) -> int:
        return self.high - self.low
