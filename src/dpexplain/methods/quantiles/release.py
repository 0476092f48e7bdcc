"""Differentially private quantiles of one numeric feature, all of them in one release.

For other explainers: `ladder_of(feature, domain, probs)` makes the public ladder and `check(ladder, neighbours, cost)`
refuses a price that is too small before anything is reserved. Inside a body of their own, `histogram(rows, ladder)`
counts a batch, and `select_quantiles(gate, counts, ladder, cost, prefix)` releases positions from the counts of all of
them; `ladder.values(positions)` turns them into values.

Guarantee    the account's definition and price, for one unit replaced or added or removed. Public: the cells, the
             probabilities, the declared domain, and the number of rows under replace-one without units.
Statistic    the number of rows in each public cell. Every row is then spread evenly over S equal parts of its cell, so
             that many equal values are no obstacle. A position c (parts below it) of a range with probability p
             relative to the range's ends has the score -|D below(c) - D p total|, counted in S-ths of a row.
Sensitivity  one row moves a score by at most S max(D p, D - D p) up or down, and its shares in the disjoint ranges of a
             level add up to one: see `sensitivity`. docs/methods/quantiles.md has the proof.
Release      level by level: the middle probability over the whole range, then the middle ones of both halves within the
             ranges just released. Each level is one `select_each`, for an equal part of the price. Where the number of
             rows is private, a twentieth of the price releases it. Values and intervals are post-processing.
References   Kaplan, Schnapp, Stemmer 2022 ("Differentially private approximate quantiles").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain, Numeric
from dpexplain.core.mechanisms import Selection, best, selection
from dpexplain.core.noise import Noise
from dpexplain.core.release import Gate, split
from dpexplain.core.sensitivity import Neighbours, Relation, ScoreRange, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError
from dpexplain.methods.quantiles.result import FINEST, MOST_PROBS, Ladder, Level, Quantiles, rank_errors
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.models.arguments import of_wrapped
from dpexplain.receipts import receipt_for

CELLS, MOST_CELLS = 1024, 2**14
POSITIONS, FEWEST_PARTS, MOST_PARTS = 2**16, 16, 1024
COUNT_SHARE = Fraction(1, 20)


@dataclass(frozen=True, kw_only=True)
class QuantilesRequest:
    """The request: of which numeric feature, at which probabilities, found among how many cells.

    probs   increasing, between 0 and 1; each is taken as the nearest fraction with a denominator of at most 10,000
    cells   of a continuous feature, or of an integer one that has more values than that; a value inside a cell is
            interpolated
    """

    feature: str
    probs: Sequence[float]
    cells: int = CELLS

    def __post_init__(self) -> None:
        if isinstance(self.cells, bool) or not isinstance(self.cells, int) or not 2 <= self.cells <= MOST_CELLS:
            raise InputError(f"cells must be a whole number from 2 to {MOST_CELLS:,}; got {self.cells!r}.")
        object.__setattr__(self, "probs", tuple(float(p) for p in exact_probs(self.probs)))

    @property
    def label(self) -> str:
        return f"quantiles of {self.feature}"


def exact_probs(probs: Any) -> tuple[Fraction, ...]:
    """Increasing probabilities as fractions with small denominators."""
    hint = "for example probs=[0.25, 0.5, 0.75]"
    if isinstance(probs, str) or not hasattr(probs, "__iter__"):
        raise InputError("probs must be a list of probabilities.", hint=hint)
    given = list(probs)
    for p in given:
        if isinstance(p, bool) or not isinstance(p, int | float | Fraction | np.floating) or not 0 < p < 1:
            raise InputError(f"a probability lies between 0 and 1; got {repr(p)[:60]}.", hint=hint)
    exact = tuple(Fraction(p if isinstance(p, Fraction) else float(p)).limit_denominator(FINEST) for p in given)
    if not 1 <= len(exact) <= MOST_PROBS:
        raise InputError(f"from 1 to {MOST_PROBS} probabilities can be asked for; got {len(exact)}.", hint=hint)
    if any(a >= b for a, b in zip((Fraction(0), *exact), (*exact, Fraction(1)), strict=True)):
        raise InputError(f"probabilities must increase, by at least 1/{FINEST:,}.", hint=hint)
    return exact


@dataclass(frozen=True)
class Spec:
    """The request made concrete, public and hashed into the ledger."""

    ladder: Ladder
    count_share: Fraction  # of the price, for the number of rows; 0 where it is public

    def to_json(self) -> JsonObject:
        return {"ladder": self.ladder.to_json(), "count_share": str(self.count_share)}


def histogram(rows: Rows, ladder: Ladder) -> NDArray[np.int64]:
    """The exact number of rows of one batch in each cell."""
    return ladder.partition.counts(rows[ladder.feature])


def statistic(rows: Rows, spec: Spec) -> NDArray[np.int64]:
    """The exact counts of one batch."""
    return histogram(rows, spec.ladder)


def spread(counts: NDArray[np.int64], ladder: Ladder) -> NDArray[np.int64]:
    """Below each position, in S-ths of a row: every row puts one S-th into each of the S parts of its cell."""
    return np.concatenate([[0], np.cumsum(np.repeat(counts, ladder.parts))]).astype(np.int64)


def scores(below: NDArray[np.int64], level: Level, positions: dict[int, int]) -> list[NDArray[np.int64]]:
    """For each node of a level, the score of every position of its range, ends included."""
    result = []
    for node in level.nodes:
        start, end = positions[node.left], positions[node.right]
        inside = below[start : end + 1] - below[start]
        result.append(-np.abs(level.den * inside - node.rank * inside[-1]))
    return result


def sensitivity(ladder: Ladder, level: Level, neighbours: Neighbours) -> ScoreRange:
    """The sum over a level's nodes of the lengths of the ranges in which their scores can change.

    Proof, in rows times D. A row puts a share w of itself into a node (the shares add up to at most 1), and a share
    between 0 and w below each position. So D below - r total moves by an amount between -w r and w (D - r), and its
    absolute value by at most w m with m = max(r, D - r), up or down: a range of length 2 w m.
    add-remove: the sum of 2 w m is at most the largest 2 m. replace-one: w leaves and v comes, and the length is at
    most 2 max((D - r) v + r w, (D - r) w + r v). This is a convex function of the shares, so the sum over the nodes is
    largest when each of the two rows lies in one node: 2 D if it is the same one; 2 m + 2 m', which is no less, if
    there is another. A unit of k rows makes k such steps, and the ranges of steps add up.
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
    """Release the position of every probability for `cost`, from the exact counts of the ladder's cells.

    Levels are released as the parts `prefix`-1, `prefix`-2, ... The ranges of a level come from released positions.
    """
    below, share = spread(counts, ladder), cost * Fraction(1, len(ladder.levels))
    positions = {0: 0, len(ladder.ends) - 1: ladder.size}
    for number, level in enumerate(ladder.levels, 1):
        change = sensitivity(ladder, level, gate.neighbours)
        chosen = gate.select_each(f"{prefix}-{number}", scores(below, level, positions), change, share)
        for node, (choice,) in zip(level.nodes, chosen, strict=True):
            positions[node.place] = positions[node.left] + choice
    return [positions[place] for place in range(1, len(ladder.ends) - 1)]


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


def resolve(request: QuantilesRequest, domain: Domain, neighbours: Neighbours) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    ladder = ladder_of(request.feature, domain, request.probs, request.cells)
    return Spec(ladder, Fraction(0) if neighbours.rows_public else COUNT_SHARE)


def check(ladder: Ladder, neighbours: Neighbours, cost: Cost) -> dict[str, Selection]:
    """The law of each level at this price, or an InputError."""
    share = cost * Fraction(1, len(ladder.levels))
    return {
        f"level-{number}": selection(sensitivity(ladder, level, neighbours), ladder.size + 1, share, 1)
        for number, level in enumerate(ladder.levels, 1)
    }


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Selection | Noise]:
    """The law of each part at this price. Costs nothing, touches no data."""
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


def outlook(request: QuantilesRequest, setting: Setting, cost: Cost) -> Outlook:
    """How far ranks will be off, all at once, as a share of the rows; for evenly spread rows."""
    spec = resolve(request, setting.domain, setting.neighbours)
    error = expected_error(spec, setting.neighbours, cost, setting.rows, LEVEL)
    return Outlook("selection", len(spec.ladder.probs), error / 2, error, error)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "cells": "rows in each public cell",
        "levels": "the position nearest to each wanted rank, level by level",
        "count": "the number of rows, where it is private",
        "quantiles": "values and intervals",
    }
    edges = [
        ("table", "cells"),
        ("cells", "levels"),
        ("cells", "count"),
        ("levels", "quantiles"),
        ("count", "quantiles"),
    ]
    return DataFlow(stages, edges, name="Quantiles", noised=["levels", "count"])


def explain(table: PrivateTable, request: QuantilesRequest, *, cost: Cost) -> Quantiles:
    """Release the quantiles of `request` for `cost`."""
    spec = resolve(request, table.domain, table.neighbours)
    forecast(spec, table.neighbours, cost)  # a price that is too small is refused here, before anything is reserved
    ladder = spec.ladder

    def body(gate: Gate) -> None:
        kernel = partial(statistic, spec=spec)
        counts = table.map_sum(gate, kernel, [ladder.feature], size=ladder.partition.size, label=request.label)
        count_cost, levels_cost = split(cost, spec.count_share)
        select_quantiles(gate, counts, ladder, levels_cost)
        if spec.count_share:
            gate.noisy_counts("count", [int(counts.sum())], count_cost)

    public = ["the cells", "the probabilities", table.domain.describe(), *table.neighbours.public]
    identity = {"explainer": "quantiles", "table": table.identity, "spec": spec.to_json(), "public": public}
    released = table.door.release(request.label, identity, cost, body)
    return Quantiles(receipt_for(table.budget, table.neighbours, released, table.domain), released.payload)


@of_wrapped
def quantiles(
    table: PrivateTable,
    feature: str,
    probs: Sequence[float],
    *,
    epsilon: Any = None,
    rho: Any = None,
    **options: Any,
) -> Quantiles:
    """Differentially private quantiles of a numeric feature at increasing probabilities, for one price.

    Options: see `requests.Quantiles`.
    """
    request = QuantilesRequest(feature=feature, probs=probs, **options)
    return explain(table, request, cost=table.cost(epsilon=epsilon, rho=rho))
