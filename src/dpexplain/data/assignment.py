"""Dealing rows to groups by secret numbers (see `core.sensitivity.Assignment`).

Where the number of rows is public, rows are shuffled secretly and dealt by their new places, so that all groups have
the same size. Otherwise a declared id is hashed under a fresh secret key, or, without an id, each row draws its own
secret number. Row *content* is never hashed, and the order of the source plays no part: it may be sorted by a private
column.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.rng import secret_bytes
from dpexplain.core.sensitivity import Assignment, Neighbours
from dpexplain.data.encode import NO_ID

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Places = NDArray[np.unsignedinteger[Any]]
Ids = tuple[Integers, Sequence[str]]  # codes into distinct ids
Tags = Callable[[int, Ids | None], Integers]  # for so many rows

PIECE = 2**20  # places that are looked at together
TAGS = 2**62  # so many secret numbers that two units hardly ever draw the same one


def assignment_for(neighbours: Neighbours, row_id: str | None) -> Assignment:
    """The rule that moves the fewest parts between neighbours, given what was declared."""
    if neighbours.unit is not None:
        return Assignment.KEYED
    if neighbours.rows_public:
        return Assignment.POSITION
    return Assignment.RANDOM if row_id is None else Assignment.KEYED


def secret_order(size: int) -> Integers:
    """A uniform permutation of `size` places from secret numbers, drawn again should two of them be equal."""
    while True:
        numbers = np.frombuffer(secret_bytes(8 * size), dtype=np.uint64)
        order = np.argsort(numbers)
        parts = (numbers[order[start : start + PIECE + 1]] for start in range(0, size, PIECE))
        if all((part[1:] != part[:-1]).all() for part in parts):
            return order


def places_of(order: Integers) -> Places:
    """The place of each row in an order, in as few bytes as hold it: they are kept for all rows of a table."""
    size = len(order)
    places: Places = np.empty(size, dtype=np.uint32 if size <= 2**32 else np.uint64)
    for start in range(0, size, PIECE):
        part = order[start : start + PIECE]
        places[part] = np.arange(start, start + len(part))
    return places


def tag_of(key: bytes, kind: bytes, *what: bytes) -> int:
    """A secret number below TAGS, another one for everything that it is of; the same on every engine."""
    text = hashlib.blake2b(kind + b"".join(struct.pack("<Q", len(one)) + one for one in what), key=key, digest_size=8)
    return int.from_bytes(text.digest(), "little") % TAGS


def id_bytes(text: str) -> bytes:
    """The bytes of an id."""
    return text.encode("utf-8", "surrogatepass")


class Dealer:
    """Deals batch after batch of one pass over a table. Its key is secret and used for this pass only.

    places   of all rows, for dealing by position; default: as they stand
    key      for dealing by ids; default: a fresh one
    """

    def __init__(self, rule: Assignment, parts: int, places: Places | None = None, key: bytes | None = None) -> None:
        self.rule, self.parts, self._places = rule, parts, places
        self._key = secret_bytes(32) if key is None else key
        self._position = 0

    def deal(self, size: int, ids: Ids | None) -> Integers:
        """The part of each of `size` rows; `ids` are codes into distinct ids, for the keyed rule."""
        if self.rule is Assignment.POSITION:
            start, self._position = self._position, self._position + size
            if self._places is not None:
                return self._places[start : start + size].astype(np.int64) % self.parts
            return np.arange(start, start + size, dtype=np.int64) % self.parts
        if self.rule is Assignment.RANDOM:
            return self._draws(size)
        assert ids is not None
        codes, distinct = ids
        dealt = np.array([self._hash(value) for value in distinct], dtype=np.int64)[codes]
        alone = np.array([value == NO_ID for value in distinct])[codes]
        return np.where(alone, self._draws(size), dealt)  # rows without an id have nothing in common

    def _draws(self, size: int) -> Integers:
        draws = np.frombuffer(secret_bytes(8 * size), dtype=np.uint64)
        return (draws % np.uint64(self.parts)).astype(np.int64)

    def _hash(self, value: str) -> int:
        return tag_of(self._key, b"id", id_bytes(value)) % self.parts


class Secrets:
    """The secret numbers of one pass over the rows. Audits and tests put known ones in their place."""

    def key(self) -> bytes:
        """A secret key, of which machines that run a task twice make the same numbers twice."""
        return secret_bytes(32)

    def order(self, size: int) -> Integers:
        """A secret order of so many rows."""
        return secret_order(size)

    def uniform(self, size: int) -> Floats:
        """Secret numbers in [0, 1), a fresh one for every row."""
        bits = np.frombuffer(secret_bytes(8 * size), dtype=np.uint64) >> np.uint64(11)
        return bits.astype(np.float64) * 2.0**-53

    def tags(self, rule: Assignment, rows: int | None) -> Tags:
        """What gives batch after batch of rows their tags. Dealing by position has to know the number of `rows`."""
        if rule is not Assignment.POSITION:
            return Dealer(rule, TAGS, key=self.key()).deal
        assert rows is not None
        return Dealer(rule, TAGS, places_of(self.order(rows))).deal
