"""The spec of quantiles, its scores, how far one unit moves them, and the laws at a cost.

Another method can release quantiles in a body of its own: `ladder_of` makes the public ladder, `check` refuses a cost
that is too small before anything is reserved, `histogram.statistic` counts the rows in the cells of
`ladder.partition`, `select_quantiles` releases positions from these counts, `ladder.values` turns them into values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.domain import Domain, Numeric
from dpexplain.core.mechanisms import Selection, best, selection
from dpexplain.core.noise import Noise
from dpexplain.core.release import Gate, split
from dpexplain.core.sensitivity import Neighbours, Relation, ScoreRange, Sensitivity
from dpexplain.errors import InputError
from dpexplain.maths.coded import Coded
from dpexplain.maths.ladder import Ladder, Level, rank_errors
from dpexplain.methods.quantiles.request import CELLS, exact_probs

POSITIONS, FEWEST_PARTS, MOST_PARTS = 2**16, 16, 1024


@dataclass(frozen=True)
class Spec(Coded):
    """The request made concrete, public and hashed into the ledger."""

    ladder: Ladder
    count_share: Fraction  # of the price, for the number of rows; 0 where it is public


def ladder_of(feature: str, domain: Domain, probs: Sequence[float], cells: int = CELLS) -> Ladder:
    """The public ladder of a numeric feature. Few cells get many parts."""
    column = domain.column(feature)
    if not isinstance(column, Numeric):
        raise InputError(
            f"{feature!r} is categorical and has no quantiles.",
            hint="dpx.marginals releases how many rows have each value",
        )
    if column.keeps_missing:
        raise InputError(
            f"{feature!r} keeps missing values, which have no place in an order: it has no quantiles.",
            hint="dpx.marginals releases a histogram, with a cell for missing values",
        )
    found = min(cells, column.values) if column.integer else cells
    parts = 2 ** (min(max(POSITIONS // found, FEWEST_PARTS), MOST_PARTS).bit_length() - 1)
    return Ladder(feature, column, found, parts, exact_probs(probs))


def spread(counts: NDArray[np.int64], ladder: Ladder) -> NDArray[np.int64]:
    """Below each position, in S-ths of a row: every row puts one S-th into each of the S parts of its cell."""
    return np.concatenate([[0], np.cumsum(np.repeat(counts, ladder.parts))]).astype(np.int64)


def scores(below: NDArray[np.int64], level: Level, positions: Mapping[int, int]) -> list[NDArray[np.int64]]:
    """For each node of a level, the score of every position of its range, ends included."""
    result = []
    for node in level.nodes:
        start, end = positions[node.left], positions[node.right]
        inside = below[start : end + 1] - below[start]
        result.append(-np.abs(level.den * inside - node.rank * inside[-1]))
    return result


def sensitivity(ladder: Ladder, level: Level, neighbours: Neighbours) -> ScoreRange:
    """The sum over a level's nodes of the lengths of the ranges in which their scores can change.

    For one row, with m = max(rank, D - rank): the largest 2 m (add-remove); 2 D for one node, the two largest 2 m for
    several (replace-one). Proof: docs/methods/quantiles.md, "Sensitivity".
    """
    lengths = sorted((2 * max(node.rank, level.den - node.rank) for node in level.nodes), reverse=True)
    if neighbours.relation is Relation.ADD_REMOVE:
        length = lengths[0]
    else:
        length = 2 * level.den if len(lengths) == 1 else lengths[0] + lengths[1]
    half = neighbours.rows * ladder.parts * length // 2  # lengths are even
    return ScoreRange(neighbours, -half, half)


def select_quantiles(
    gate: Gate, counts: NDArray[np.int64], ladder: Ladder, cost: Cost, prefix: str = "level"
) -> list[int]:
    """Release the position of every place for `cost`, from the exact counts of the ladder's cells.

    Levels are released as the parts `prefix`-1, `prefix`-2, ... The ranges of a level come from released positions.
    """
    below, share = spread(counts, ladder), cost * Fraction(1, len(ladder.levels))

    def ask(number: int, level: Level, known: Mapping[int, int]) -> list[list[int]]:
        change = sensitivity(ladder, level, gate.neighbours)
        return gate.select_each(f"{prefix}-{number}", scores(below, level, known), change, share)

    return ladder.walk(ask)


def check(ladder: Ladder, neighbours: Neighbours, cost: Cost) -> dict[str, Selection]:
    """The law of each level at this cost, or an InputError."""
    share = cost * Fraction(1, len(ladder.levels))
    return {
        f"level-{number}": selection(sensitivity(ladder, level, neighbours), ladder.size + 1, share, 1)
        for number, level in enumerate(ladder.levels, 1)
    }


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Selection | Noise]:
    """The law of each part at this cost. Costs nothing, touches no data."""
    count_cost, levels_cost = split(cost, spec.count_share)
    parts: dict[str, Selection | Noise] = {**check(spec.ladder, neighbours, levels_cost)}
    if spec.count_share:
        parts["count"] = best(Sensitivity.of_counts(neighbours), 1, count_cost)
    return parts


def expected_error(spec: Spec, neighbours: Neighbours, cost: Cost, rows: int, level: float = 0.95) -> float:
    """The largest `Quantiles.rank_error` to expect for evenly spread rows. Costs nothing, touches no data."""
    ladder, (_, levels_cost) = spec.ladder, split(cost, spec.count_share)
    positions = [round(p * ladder.size) for p in ladder.ends]
    scales = [law.scale for law in check(ladder, neighbours, levels_cost).values()]
    each = (1 + level) / 2 if spec.count_share else level  # the count has to be right too
    return min(1.0, float(rank_errors(ladder, positions, scales, float(rows), each).max()) / rows)
