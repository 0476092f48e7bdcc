"""The public ladder by which quantiles are found, and how far their ranks may be off.

Cells of a feature are cut into `parts` equal parts, over which every row is spread evenly. A quantile is released as a
position: the number of parts below it. The middle probability comes first, over the whole range; then the middle ones
of both halves, each within the range that the released positions leave; and so on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import column_from_json
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Numeric
from dpexplain.core.mechanisms import Selection
from dpexplain.maths.coded import Coded, decoded
from dpexplain.maths.grids import Partition, partition_of

Floats = NDArray[np.float64]

MAX_PROBS = 200
FINEST = 10_000  # the largest denominator of a probability, and of a relative rank
MAX_POSITIONS = 2**18  # a selection looks at each of them, in about a microsecond
ROUNDS = 4  # of sharpening the bound on a cell's rows; more change next to nothing


@dataclass(frozen=True)
class Node:
    """One probability, and the two between whose positions its own is looked for. The probabilities count from 1; place
    0 is the lower end of the range and the place after the last one is its upper end.
    """

    place: int
    left: int
    right: int
    rank: int  # wanted: this many `den`-ths of the rows between the two


@dataclass(frozen=True)
class Level:
    """Nodes whose ranges do not overlap, so that they are released for one cost."""

    den: int
    nodes: tuple[Node, ...]


# the choice of each node of a level, from its number and the positions so far, by place
Ask = Callable[[int, Level, Mapping[int, int]], Sequence[Sequence[int]]]


@dataclass(frozen=True)
class Ladder(Coded):
    """Everything public about a release of quantiles: the cells, their parts, the probabilities and their order."""

    feature: str
    column: Numeric
    cells: int  # at most
    parts: int  # of a cell
    probs: tuple[Fraction, ...]

    @cached_property
    def partition(self) -> Partition:
        return partition_of(self.feature, self.column, self.cells)

    @property
    def size(self) -> int:
        """How many parts there are. Positions run from 0 to this."""
        return self.partition.size * self.parts

    @cached_property
    def ends(self) -> tuple[Fraction, ...]:
        """The probabilities with both ends of the range: by place."""
        return (Fraction(0), *self.probs, Fraction(1))

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The middle probability, then the middles of both halves, and so on: about log2(probabilities) levels."""
        levels, spans = [], [(0, len(self.ends) - 1)]
        while spans:
            places = [(left, (left + right) // 2, right) for left, right in spans]
            wanted = [(self.ends[m] - self.ends[a]) / (self.ends[b] - self.ends[a]) for a, m, b in places]
            den = min(math.lcm(*(target.denominator for target in wanted)), FINEST)
            ranks = [min(max(round(target * den), 1), den - 1) for target in wanted]
            nodes = (Node(m, a, b, rank) for (a, m, b), rank in zip(places, ranks, strict=True))
            levels.append(Level(den, tuple(nodes)))
            spans = [span for a, m, b in places for span in ((a, m), (m, b)) if span[1] - span[0] > 1]
        return tuple(levels)

    def walk(self, ask: Ask) -> list[int]:
        """The position of every place. `ask` chooses level by level, counting from the left end of each range."""
        known = {0: 0, len(self.ends) - 1: self.size}
        for number, level in enumerate(self.levels, 1):
            for node, (choice,) in zip(level.nodes, ask(number, level, known), strict=True):
                known[node.place] = known[node.left] + choice
                if not known[node.left] <= known[node.place] <= known[node.right]:
                    raise ValueError("a position lies outside the range it was chosen from")
        return [known[place] for place in range(len(self.ends))]

    def stored(self, parts: JsonObject, prefix: str) -> list[int]:
        """The position of every place from released parts."""
        return self.walk(lambda number, _level, _known: parts[f"{prefix}-{number}"]["values"])

    def values(self, positions: Sequence[int]) -> Floats:
        """The value at each position: inside its cell in proportion; of an integer column, the whole number there."""
        edges, place = np.asarray(self.partition.edges), np.asarray(positions, dtype=np.int64)
        cell = np.maximum(place - 1, 0) // self.parts  # a boundary of two cells is the upper end of the lower one
        inside = (place - cell * self.parts) / self.parts
        values = edges[cell] + inside * np.diff(edges)[cell]
        if self.column.integer:
            values = np.ceil(values - 0.5)
        clipped: Floats = np.clip(values, self.column.low, self.column.high)
        return clipped

    def reach(self, positions: Sequence[int]) -> tuple[Floats, Floats]:
        """What is known of values around a position: the lower end of the cell that begins at or before it, and the
        upper end of the cell that ends at or after it.
        """
        edges, place = np.asarray(self.partition.edges), np.asarray(positions, dtype=np.int64)
        half = 0.5 if self.column.integer else 0.0  # cells of whole numbers reach half a number further
        low = edges[np.minimum(place // self.parts, self.partition.size - 1)] + half
        high = edges[np.maximum(place - 1, 0) // self.parts + 1] - half
        return low, high

    @classmethod
    def from_json(cls, value: JsonObject) -> Self:
        feature, probs = value["feature"], decoded(tuple[Fraction, ...], value["probs"])
        column, cells, parts = column_from_json(feature, value["column"]), int(value["cells"]), int(value["parts"])
        rising = all(a < b for a, b in itertools.pairwise((Fraction(0), *probs, Fraction(1))))
        short = 0 < len(probs) <= MAX_PROBS and all(p.denominator <= FINEST for p in probs)
        if not isinstance(column, Numeric) or not 0 < cells * parts <= MAX_POSITIONS or not (rising and short):
            raise ValueError("no ladder of ours")
        return cls(feature, column, cells, parts, probs)


def rank_errors(
    ladder: Ladder, positions: Sequence[int], scales: Sequence[Fraction], rows: float, level: float
) -> Floats:
    """By place, how many of at most `rows` rows the rank of a position may be off; all at once with this level.

    docs/methods/quantiles.md has the proof. Every round uses what the last one says about the rows of a cell, and all
    of them hold whenever no selection falls short by more than its bound.
    """
    heaviest = np.full(ladder.partition.size, rows)
    errors = np.zeros(len(positions))
    for _ in range(ROUNDS):
        errors = _climb(ladder, positions, scales, rows, level, heaviest)
        heaviest = np.minimum(heaviest, _most_in_cells(ladder, positions, rows, errors))
    return errors


def _climb(
    ladder: Ladder,
    positions: Sequence[int],
    scales: Sequence[Fraction],
    rows: float,
    level: float,
    heaviest: Floats,
) -> Floats:
    """Level by level: what a place inherits from its two neighbours, and what its own selection adds."""
    errors, each = np.zeros(len(positions)), 1 - (1 - level) / len(ladder.probs)
    ends = [float(p) for p in ladder.ends]
    for rung, scale in zip(ladder.levels, scales, strict=True):
        for node in rung.nodes:
            a, b, share = positions[node.left], positions[node.right], node.rank / rung.den
            inherited = (1 - share) * errors[node.left] + share * errors[node.right]
            rounded = rows * abs((1 - share) * ends[node.left] + share * ends[node.right] - ends[node.place])
            own = 0.0
            if a < b:
                shortfall = Selection(scale, 1, b - a + 1).shortfall(each) / (rung.den * ladder.parts)
                cells = heaviest[a // ladder.parts : (b - 1) // ladder.parts + 1]
                own = shortfall + float(cells.max()) / (2 * ladder.parts)
            errors[node.place] = inherited + rounded + own
    return errors


def _most_in_cells(ladder: Ladder, positions: Sequence[int], rows: float, errors: Floats) -> Floats:
    """At most this many rows are in each cell: those between the nearest positions on both sides of it."""
    starts = np.arange(ladder.partition.size) * ladder.parts
    places: NDArray[np.int64] = np.asarray(positions, dtype=np.int64)
    before = np.searchsorted(places, starts, side="right") - 1
    after = np.searchsorted(places, starts + ladder.parts, side="left")
    ends = np.array([float(p) for p in ladder.ends])
    most: Floats = rows * (ends[after] - ends[before]) + errors[before] + errors[after]
    return most
