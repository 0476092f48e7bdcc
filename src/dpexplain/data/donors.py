"""Where the replaced values of a row come from: other rows of its group, a fixed permutation, a released histogram.

A `Replaced` is a batch of rows, each with values to be put in the place of its own, in blocks that a release treats as
one: a group of rows, or each row by itself.

    by_group        rows that were dealt to groups (`Dealt`)
    by_permutation  the whole column in another, public order; rows stand in a secret one (`PrivateTable.gathered`)
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

from dpexplain.data.dealing import Dealt
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.reading import BATCH_ROWS
from dpexplain.data.rows import Rows
from dpexplain.errors import InternalError
from dpexplain.maths.reference import Reference

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Uniform = Callable[[int], Floats]


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


def by_group(dealt: Dealt, features: Sequence[str], draws: int, most: int) -> Replaced:
    """Whole groups. A row's values come from rows of its group that belong to other units, one after the other from a
    secret place on. From the first `most` rows of a group; the others only give values.
    """
    rows, group = dealt.rows, dealt.group
    assert dealt.numbers is not None
    first, others, donors = _company(group, dealt.tags, draws, dealt.numbers)
    others = np.where(np.arange(rows.size) - first < most, others, 0)
    values = {name: [rows[name][donor] for donor in donors] for name in features}
    return Replaced(rows, values, [others > k for k in range(draws)], dealt.starts[dealt.sizes > 0])


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


def by_permutation(rows: Rows, features: Sequence[str], seed: int) -> Iterator[Replaced]:
    """Batches of single rows, each feature's column in a public order of its own."""
    public = PublicRandom(seed)
    yield from _in_places_of(rows, {name: [public.generator.permutation(rows.size)] for name in features})


def by_pairing(rows: Rows, names: Sequence[str], draws: int, seed: int) -> Iterator[Replaced]:
    """Batches of single rows, each with another row that gives it values of all inputs, one for each draw: by public
    permutations of the places.
    """
    public = PublicRandom(seed)
    orders = [public.generator.permutation(rows.size) for _ in range(draws)]
    yield from _in_places_of(rows, dict.fromkeys(names, orders))


def _in_places_of(rows: Rows, donors: Mapping[str, Sequence[Integers]]) -> Iterator[Replaced]:
    """Batches of single rows with values of other rows: for each feature and draw, the order of those."""
    for begin in range(0, rows.size, BATCH_ROWS):
        place = slice(begin, min(begin + BATCH_ROWS, rows.size))
        values = {name: [rows[name][donor[place]] for donor in orders] for name, orders in donors.items()}
        yield _single_rows(rows.take(place), values, max(map(len, donors.values())))


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
