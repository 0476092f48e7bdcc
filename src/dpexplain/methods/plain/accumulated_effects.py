"""Plain accumulated local effects of each part (Apley and Zhu 2020), made for parts of few rows.

Numeric feature: intervals between quantiles of the part's own values, from the declared lower bound to the declared
upper one. A row in the interval (a, b] contributes f(b) - f(a), its other features as they are; the means of the
intervals add up to a curve, which is shifted to have mean zero over the part's rows. A small part has few and long
intervals, within which a straight line would be far from the model: so the rows of an interval are followed through all
public grid points in it, and the curve between a and b is the mean of f(g) - f(a).
Categorical feature: steps between the declared categories in their public order. A row of category k tells about the
step to it, f(k) - f(k - 1), a row of the first category about the first step; a step that no row of the part is near to
is told by all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpexplain.core.domain import Numeric
from dpexplain.maths.grids import Axis
from dpexplain.methods.plain.grouped import Dealt, Floats, Integers, Levels

INTERVALS = 20
ROWS_AT_ONCE = 2**11  # each of them predicted at several points
PREDICTIONS_AT_ONCE = 2**15


def accumulated_effects(dealt: Dealt, levels: Levels, axis: Axis) -> Floats:
    """[part, point] in units of the output; NaN for a part without rows.

    For each row two predictions, and as many more as there are grid points in its interval, or categories that its part
    does not have.
    """
    values, path_of = dealt.rows[axis.feature], _numeric(dealt, axis) if axis.ordered else _categorical(axis)
    places = [slice(start, start + size) for start, size in zip(dealt.starts, dealt.sizes, strict=True)]

    def kernel(numbers: slice) -> list[Floats]:
        """The curves of some parts, their predictions made together."""
        paths = [path_of(values[place]) for place in places[numbers]]
        row = np.concatenate([place.start + path.row for place, path in zip(places[numbers], paths, strict=True)])
        answers = _predictions(dealt, levels, axis.feature, row, np.concatenate([path.at for path in paths]))
        ends = np.cumsum([len(path.row) for path in paths])[:-1]
        return [path.curve(mine) for path, mine in zip(paths, np.split(answers, ends), strict=True)]

    found = np.empty((dealt.parts, len(axis.points)))
    parts_at_once = max(1, ROWS_AT_ONCE * dealt.parts // max(1, dealt.rows.size))
    for numbers, curves in levels.in_batches(dealt.parts, kernel, parts_at_once):
        found[numbers] = curves
    return found * levels.output.width / levels.output.levels


def _predictions(dealt: Dealt, levels: Levels, feature: str, row: Integers, at: Floats) -> Integers:
    """The prediction of each named row with the feature at another value, in levels."""
    answers = np.empty(len(row), dtype=np.int64)
    for start in range(0, len(row), PREDICTIONS_AT_ONCE):
        place = slice(start, start + PREDICTIONS_AT_ONCE)
        answers[place] = levels.at(dealt.rows.take(row[place]), [{feature: at[place]}])[0]
    return answers


@dataclass(frozen=True)
class Path:
    """Which rows of a part are predicted where, and how a curve is made of it.

    Slots are places on the curve. Each has the mean of its predictions, and the curve climbs from one slot to the next;
    but where a group of rows hands over to the next one, both have a slot for the same place, and no step counts.
    """

    row: Integers  # within the part, of each prediction
    at: Floats  # the value (or code) of the feature
    slot: Integers
    slots: int
    handovers: Integers  # the last slots of all groups but the last
    finish: Callable[[Floats], Floats]  # from heights to the curve at the public points, before centring
    own: Callable[[Floats], Floats]  # from heights to the curve at the part's own values

    def curve(self, answers: Integers) -> Floats:
        """The centred curve in levels; NaN if the part has no rows. Sums of whole numbers are exact."""
        counts = np.bincount(self.slot, minlength=self.slots)
        with np.errstate(invalid="ignore"):  # 0 / 0 in a part without rows
            means = np.bincount(self.slot, weights=answers, minlength=self.slots) / counts
        heights = np.concatenate([[0.0], np.cumsum(np.delete(np.diff(means), self.handovers))])
        own = self.own(heights)
        return self.finish(heights) - (own.mean() if len(own) else np.nan)


def _numeric(dealt: Dealt, axis: Axis) -> Callable[[Floats], Path]:
    column, points = dealt.rows.domain[axis.feature], np.asarray(axis.points, dtype=np.float64)
    assert isinstance(column, Numeric)

    def path(own: Floats) -> Path:
        present = np.flatnonzero(~np.isnan(own))  # a row whose value is missing has no neighbours
        values = own[present]
        edges = _edges(values, column)
        knots = np.unique(np.concatenate([edges, points]))
        first = np.searchsorted(knots, edges)  # the knot at which each interval begins; the last one ends there
        interval = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)
        counts = first[interval + 1] - first[interval] + 1
        row = np.repeat(np.arange(len(values)), counts)
        knot = first[interval][row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        intervals = len(edges) - 1
        return Path(
            present[row],
            knots[knot],
            knot + interval[row],
            len(knots) + intervals - 1,
            first[1:-1] + np.arange(intervals - 1),
            lambda heights: heights[np.searchsorted(knots, points)],
            lambda heights: np.interp(values, knots, heights),
        )

    return path


def _edges(values: Floats, column: Numeric) -> Floats:
    """The declared bounds, and between them quantiles that are values of the part, its largest one left out: then
    every interval has a row, the first and the last one too.
    """
    count = min(INTERVALS, len(values))
    ordered = np.sort(values)
    inner = ordered[(np.arange(1, count) * len(ordered)) // max(count, 1)]
    return np.unique(np.concatenate([[column.low], inner[inner < ordered[-1:]], [column.high]]))


def _categorical(axis: Axis) -> Callable[[Floats], Path]:
    steps = len(axis.points) - 1

    def path(values: Floats) -> Path:
        codes = values.astype(np.int64)
        tells = (np.maximum(codes, 1) - 1)[:, None] == np.arange(steps)
        row, step = np.nonzero(tells | ~tells.any(axis=0))
        both = np.concatenate([step, step + 1])  # a step has a slot before it and one behind it
        return Path(
            np.concatenate([row, row]),
            both.astype(np.float64),
            both + np.concatenate([step, step]),
            max(1, 2 * steps),
            np.arange(1, 2 * steps - 1, 2),
            lambda heights: heights if len(codes) else np.full(steps + 1, np.nan),
            lambda heights: heights[codes],
        )

    return path
