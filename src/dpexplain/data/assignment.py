"""Dealing rows to parts, for releases that treat a part of the rows as a black box (see `core.sensitivity.Assignment`).

Where the number of rows is public, rows are shuffled secretly and dealt by their new places, so that all parts have the
same size. Otherwise a declared id is hashed under a fresh secret key, or, without an id, each row draws its own secret
number. Row *content* is never hashed, and the order of the source plays no part: it may be sorted by a private column.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.rng import secret_bytes
from dpexplain.core.sensitivity import Assignment, Neighbours
from dpexplain.data.encode import NO_ID


def assignment_for(neighbours: Neighbours, row_id: str | None) -> Assignment:
    """The rule that moves the fewest parts between neighbours, given what was declared."""
    if neighbours.unit is not None:
        return Assignment.KEYED
    if neighbours.rows_public:
        return Assignment.POSITION
    return Assignment.RANDOM if row_id is None else Assignment.KEYED


def secret_order(size: int) -> NDArray[np.int64]:
    """A uniform permutation of `size` places from secret numbers, drawn again should two of them be equal."""
    while True:
        numbers = np.frombuffer(secret_bytes(8 * size), dtype=np.uint64)
        order = np.argsort(numbers)
        if (numbers[order][1:] != numbers[order][:-1]).all():
            return order


class Dealer:
    """Deals batch after batch of one pass over a table. Its key is secret and used for this pass only."""

    def __init__(self, rule: Assignment, parts: int) -> None:
        self.rule, self.parts = rule, parts
        self._key = secret_bytes(32)
        self._position = 0

    def deal(self, size: int, ids: tuple[NDArray[np.int64], Sequence[str]] | None) -> NDArray[np.int64]:
        """The part of each of `size` rows; `ids` are codes into distinct ids, for the keyed rule."""
        if self.rule is Assignment.POSITION:
            start, self._position = self._position, self._position + size
            return np.arange(start, start + size, dtype=np.int64) % self.parts
        if self.rule is Assignment.RANDOM:
            return self._draws(size)
        assert ids is not None
        codes, distinct = ids
        dealt = np.array([self._hash(value) for value in distinct], dtype=np.int64)[codes]
        alone = np.array([value == NO_ID for value in distinct])[codes]
        return np.where(alone, self._draws(size), dealt)  # rows without an id have nothing in common

    def _draws(self, size: int) -> NDArray[np.int64]:
        draws = np.frombuffer(secret_bytes(8 * size), dtype=np.uint64)
        return (draws % np.uint64(self.parts)).astype(np.int64)

    def _hash(self, value: str) -> int:
        text = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), key=self._key, digest_size=8).digest()
        return int.from_bytes(text, "little") % self.parts
