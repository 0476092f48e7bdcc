"""Plain accumulated local effects of each part (Apley and Zhu 2020), made for parts of few rows.

Numeric feature: intervals between quantiles of the part's own values, from the declared lower bound to the declared
upper one. A row in the interval (a, b] contributes f(b) - f(a), its other features as they are; the means of the
intervals add up to a curve, which is shifted to have mean zero over the part's rows. A small part has few and long
intervals, within which a straight line would be far from the model: so the rows of an interval are followed through all
public grid points in it, and the curve between a and b is the mean of f(g) - f(a).
Categorical feature: steps between the declared categories in their public order, as in `methods/accumulated_effects`.
A row of category k tells about the step to it, f(k) - f(k - 1), and about the step from it, f(k + 1) - f(k); a step
that no row of the part is near to is told by all of them. In the published form a row is in one interval, as for
numbers: it tells about the step to its category, a row of the first category about the first step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpexplain.core.domain import Numeric
from dpexplain.data.dealing import Dealt
from dpexplain.maths.grids import Axis
from dpexplain.methods.plain.grouped import Floats, Integers, Levels

INTERVALS = 20
PREDICTIONS_AT_ONCE = 2**15


def accumulated_effects(dealt: Dealt, levels: Levels, axis: Axis, *, one_interval: bool = False) -> Floats:
    """[part, point] in units of the output; NaN for a part without rows.

    For each row two predictions, and as many more as there are grid points in its interval, or categories that its part
    does not have.
    """
    values, column = dealt.rows[axis.feature], dealt.rows.domain[axis.feature]
    points = np.asarray(axis.points if axis.ordered else range(len(axis.points)), dtype=np.float64)

    def path_of(own: Floats) -> Path:
        if isinstance(column, Numeric):
            return _numeric(own, column, points)
        return _categorical(own, len(points), one_interval)

    paths = [path_of(own) for own in np.split(values, dealt.starts[1:])]
    row = np.concatenate([start + path.row for start, path in zip(dealt.starts, paths, strict=True)])
    answers = _predictions(dealt, levels, axis.feature, row, np.concatenate([path.at for path in paths]))
    ends = np.cumsum([len(path.row) for path in paths])[:-1]
    curves = [path.curve(mine, points) for path, mine in zip(paths, np.split(answers, ends), strict=True)]
    return np.array(curves) * levels.output.width / levels.output.levels


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
    knots: Floats  # where the curve has a height; between them it is straight
    values: Floats  # those of the part's rows, over which the curve is centred

    def curve(self, answers: Integers, points: Floats) -> Floats:
        """The centred curve at some points, in levels; NaN if the part has no rows. Sums of whole numbers are exact."""
        counts = np.bincount(self.slot, minlength=self.slots)
        with np.errstate(invalid="ignore"):  # 0 / 0 in a part without rows
            means = np.bincount(self.slot, weights=answers, minlength=self.slots) / counts
        heights = np.concatenate([[0.0], np.cumsum(np.delete(np.diff(means), self.handovers))])
        own = np.interp(self.values, self.knots, heights)
        return np.asarray(np.interp(points, self.knots, heights) - (own.mean() if len(own) else np.nan))


def _numeric(values: Floats, column: Numeric, points: Floats) -> Path:
    present = np.flatnonzero(~np.isnan(values))  # a row whose value is missing has no neighbours
    values = values[present]
    edges = _edges(values, column)
    knots = np.unique(np.concatenate([edges, points]))
    first = np.searchsorted(knots, edges)  # the knot at which each interval begins; the last one ends there
    intervals = len(edges) - 1
    interval = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, intervals - 1)
    counts = first[interval + 1] - first[interval] + 1
    row = np.repeat(np.arange(len(values)), counts)
    knot = first[interval][row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    handovers = first[1:-1] + np.arange(intervals - 1)
    slots = len(knots) + intervals - 1
    return Path(present[row], knots[knot], knot + interval[row], slots, handovers, knots, values)


def _edges(values: Floats, column: Numeric) -> Floats:
    """The declared bounds, and between them quantiles that are values of the part, its largest one left out: then
    every interval has a row, the first and the last one too.
    """
    count = min(INTERVALS, len(values))
    ordered = np.sort(values)
    inner = ordered[(np.arange(1, count) * len(ordered)) // max(count, 1)]
    return np.unique(np.concatenate([[column.low], inner[inner < ordered[-1:]], [column.high]]))


def _categorical(values: Floats, categories: int, one_interval: bool) -> Path:
    steps = np.arange(categories - 1)
    if one_interval:
        tells = (np.maximum(values, 1) - 1)[:, None] == steps
    else:
        tells = ((values - 1)[:, None] == steps) | (values[:, None] == steps)
    row, step = np.nonzero(tells | ~tells.any(axis=0))
    both = np.concatenate([step, step + 1])  # a step has a slot before it and one behind it
    slot = both + np.concatenate([step, step])
    slots, knots = max(1, 2 * len(steps)), np.arange(float(categories))
    return Path(np.concatenate([row, row]), both.astype(np.float64), slot, slots, 2 * steps[:-1] + 1, knots, values)
