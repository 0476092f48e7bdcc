"""Where the replaced values of a row come from: other rows of its group, a fixed permutation, a released histogram.

A `Replaced` is a batch of rows, each with values to be put in the place of its own, in blocks that a release treats as
one: a group of rows, or each row by itself.

    by_group        groups are dealt by the places of a secret shuffle, or by secret numbers (`Dealer`)
    by_permutation  the whole column in another, public order of those places
    by_pairing      all features of another row at once, by public permutations of those places
    by_histogram    secret numbers for every row, turned into values of released distributions, for several features
                    together; by_feature for one at a time
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Assignment
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.data.table import BATCH_ROWS, PrivateTable
from dpexplain.errors import InternalError
from dpexplain.maths.reference import Reference

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Uniform = Callable[[int], Floats]

TAGS = 2**62  # so many secret numbers that two units hardly ever draw the same one


@dataclass(frozen=True)
class Replaced:
    """Rows, block after block, with `draws` other values of each feature for every row."""

    rows: Rows
    values: Mapping[str, Iterable[NDArray[np.generic]]]  # feature -> one array for each draw
    valid: Sequence[NDArray[np.bool_]]  # for each draw, the rows that have one
    starts: Integers  # the first row of each block

    @property
    def size(self) -> int:
        return self.rows.size


@dataclass(frozen=True)
class Gathered:
    """All rows of a table in memory. Rows with one tag are one unit; it is a place in a secret shuffle, or a number."""

    rows: Rows
    tags: Integers


def gather(table: PrivateTable, gate: Gate, columns: Sequence[str], rule: Assignment | None = None) -> Gathered:
    """The rows that a release may use, and their tags, by the table's rule or another. The gate must be open."""
    return Gathered(*table.gathered(gate, columns, TAGS, rule))


def by_group(
    gathered: Gathered, parts: int, features: Sequence[str], draws: int, most: int, uniform: Uniform
) -> Iterator[Replaced]:
    """Batches of whole groups. A row's values come from rows of its group that belong to other units, one after the
    other from a secret place on. From the first `most` rows of a group; the others only give values.
    """
    group = gathered.tags % parts
    order = np.lexsort((gathered.tags, group))
    rows, group = gathered.rows.take(order), group[order]
    first, others, donors = _company(group, gathered.tags[order], draws, uniform(len(group)))
    place = np.arange(len(group))
    starts = np.flatnonzero(first == place)
    others = np.where(place - first < most, others, 0)
    for begin, end in _cuts(starts, len(group)):
        values = {name: [rows[name][donor[begin:end]] for donor in donors] for name in features}
        valid = [others[begin:end] > k for k in range(draws)]
        inside = starts[(starts >= begin) & (starts < end)] - begin
        yield Replaced(rows.take(slice(begin, end)), values, valid, inside)


def _company(group: Integers, mark: Integers, draws: int, start: Floats) -> tuple[Integers, Integers, list[Integers]]:
    """For rows sorted by group and mark: the first row of the group, how many rows of other units it has, and the
    place of each donor (of any row, where there are too few). `start` says, from 0 and below 1, with which of them a
    row begins: were it the next one, first rows of units would always meet first rows.
    """
    first, size = _runs(group[1:] != group[:-1], len(group))
    own, width = _runs((group[1:] != group[:-1]) | (mark[1:] != mark[:-1]), len(group))
    others = size - width
    after = own - first + width  # where the rows of other units begin, counted from the start of the group, and around
    begin = np.floor(start * others).astype(np.int64)
    donors = [first + (after + (begin + k) % np.maximum(others, 1)) % np.maximum(size, 1) for k in range(draws)]
    return first, others, donors


def _runs(new: NDArray[np.bool_], size: int) -> tuple[Integers, Integers]:
    """For each place, where its run begins and how long the run is; `new` says where a run ends."""
    begins = np.concatenate([[0], np.flatnonzero(new) + 1]) if size else np.empty(0, dtype=np.int64)
    lengths = np.diff(np.append(begins, size))
    return np.repeat(begins, lengths), np.repeat(lengths, lengths)


def _cuts(starts: Integers, size: int) -> Iterator[tuple[int, int]]:
    """Batches of about BATCH_ROWS rows that cut no group."""
    begin = 0
    while begin < size:
        later = starts[np.searchsorted(starts, begin + BATCH_ROWS) :]
        end = int(later[0]) if len(later) else size
        yield begin, end
        begin = end


def by_permutation(gathered: Gathered, features: Sequence[str], seed: int) -> Iterator[Replaced]:
    """Batches of single rows, each feature's column in a public order of its own."""
    rows, public = gathered.rows, PublicRandom(seed)
    shuffled = {name: rows[name][public.generator.permutation(rows.size)] for name in features}
    for begin in range(0, rows.size, BATCH_ROWS):
        place = slice(begin, min(begin + BATCH_ROWS, rows.size))
        part = rows.take(place)
        values = {name: [column[place]] for name, column in shuffled.items()}
        yield Replaced(part, values, [np.ones(part.size, dtype=bool)], np.arange(part.size))


def by_pairing(gathered: Gathered, names: Sequence[str], draws: int, seed: int) -> Iterator[Replaced]:
    """Batches of single rows, each with another row that gives it values of all inputs, one for each draw: by public
    permutations of the places.
    """
    rows, public = gathered.rows, PublicRandom(seed)
    donors = [public.generator.permutation(rows.size) for _ in range(draws)]
    for begin in range(0, rows.size, BATCH_ROWS):
        place = slice(begin, min(begin + BATCH_ROWS, rows.size))
        part = rows.take(place)
        values = {name: [rows[name][donor[place]] for donor in donors] for name in names}
        yield Replaced(part, values, [np.ones(part.size, dtype=bool)] * draws, np.arange(part.size))


def by_histogram(rows: Rows, references: Mapping[str, Reference], draws: int, uniform: Uniform) -> Replaced:
    """Single rows with secret draws of their own, which do not depend on the place of a row in the table.

    Values of several features may be put in together: they are independent, and made when they are asked for.
    """
    values = {name: _InTurn(rows.size, reference, draws, uniform) for name, reference in references.items()}
    return _single_rows(rows, values, draws)


class _InTurn(Sequence[NDArray[np.generic]]):
    """Draws of one feature for some rows. Only the last one is kept: a plan asks for one after the other."""

    def __init__(self, size: int, reference: Reference, draws: int, uniform: Uniform) -> None:
        self._size, self._reference, self._draws, self._uniform = size, reference, draws, uniform
        self._place = -1
        self._last: NDArray[np.generic] = np.empty(0)

    def __len__(self) -> int:
        return self._draws

    def __getitem__(self, draw: Any) -> Any:
        if draw >= self._draws:
            raise IndexError("there are no more draws")
        if draw < self._place:
            raise InternalError("a plan asks for draws in their order")
        if draw > self._place:
            self._last = _value(self._reference, self._uniform(self._size), self._uniform(self._size))
            self._place = draw
        return self._last


def by_feature(rows: Rows, references: Mapping[str, Reference], draws: int, uniform: Uniform) -> Replaced:
    """The same for features that are replaced one at a time: that takes fewer draws, made when they are asked for."""
    values = {name: drawn(rows.size, reference, draws, uniform) for name, reference in references.items()}
    return _single_rows(rows, values, draws)


def drawn(size: int, reference: Reference, draws: int, uniform: Uniform) -> Iterator[NDArray[np.generic]]:
    """Draws of one feature by itself for `size` rows, one array after the other.

    The distribution is cut into as many equal parts as there are draws, and each draw comes from the next one: the mean
    over them has the same expectation as that of independent draws, and never more variance.
    """
    for k in range(draws):
        yield _value(reference, np.minimum((k + uniform(size)) / draws, 1 - 2.0**-53), uniform(size))


def _value(reference: Reference, even: Floats, part: Floats) -> NDArray[np.generic]:
    return reference.at(reference.cell_at(even), part)


def _single_rows(rows: Rows, values: Mapping[str, Iterable[NDArray[np.generic]]], draws: int) -> Replaced:
    return Replaced(rows, values, [np.ones(rows.size, dtype=bool)] * draws, np.arange(rows.size))
