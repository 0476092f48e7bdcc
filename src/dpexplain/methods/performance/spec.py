"""The spec of a performance release: public cells of scores and groups, its statistic and its sensitivity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.domain import PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.release import split
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import Partition
from dpexplain.methods.targets import Target
from dpexplain.models import Predictor

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

TASKS = ("binary", "classes", "regression")
LEVELS = 2**20  # of what a row adds to the sums of a regression
SUMS = ("count", "above", "below", "squares", "target", "target_squares")  # of one group
CELL_SUMS = ("count", "above", "below")  # of one cell of predictions
MOST_SIZE = 2**20  # released numbers


@dataclass(frozen=True)
class Crossing(Coded):
    """Public groups of rows: the cells of one column, or of several columns crossed; without columns, everybody."""

    partitions: tuple[Partition, ...] = ()
    whole: tuple[bool, ...] = ()  # whether each column is declared to hold whole numbers

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(partition.feature for partition in self.partitions)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(partition.size for partition in self.partitions)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def place(self, rows: Rows) -> Integers:
        """The group of each row: it is in exactly one."""
        found = np.zeros(rows.size, dtype=np.int64)
        for partition in self.partitions:
            found = found * partition.size + partition.place(rows[partition.feature])
        return found

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """What the columns are in each group."""
        names = [cell_names(*each) for each in zip(self.partitions, self.whole, strict=True)]
        places = np.stack(np.unravel_index(np.arange(self.size), self.shape or (1,)), axis=1)
        return [{column: names[j][place[j]] for j, column in enumerate(self.columns)} for place in places.tolist()]


def cell_names(partition: Partition, whole: bool) -> list[Any]:
    """The value of a cell: a category, a whole number, (low, high) for a cell of several numbers, None for missing."""
    if partition.edges is None:
        return list(partition.labels)
    names: list[Any] = []
    for low, high in zip(partition.edges, partition.edges[1:], strict=False):
        first, last = (math.ceil(low), math.floor(high)) if whole else (low, high)
        names.append(first if first == last else (first, last))
    return [*names, *([None] if partition.missing else [])]


@dataclass(frozen=True, kw_only=True)
class Spec(Coded):
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    task: str
    target: str
    truth: Target | None  # how the target becomes 0 or 1, or a number; None for several classes
    positive: Any  # the value that counts as one, where it was named
    score: str | None  # the column that holds the score; None: the model's answer
    range: PublicRange  # of scores
    threshold: float | None  # an edge of the cells; None for a regression
    edges: tuple[float, ...]  # of the cells of scores
    exact: bool  # whether each cell holds one possible score
    classes: tuple[Any, ...]  # of the model, where all of them are asked for
    values: tuple[Any, ...]  # of the target then
    groups: tuple[Crossing, ...]  # one for each histogram; one of everybody where no groups are asked for
    residual: float  # the largest that counts; 0 but for a regression
    bounds: tuple[float, float] | None  # of the target of a regression
    counted: bool  # regression: whether groups have a count; not where everybody is one group of public size
    mechanism: str | None
    # of the price, for the rows on either side of the threshold; 0: not counted
    decisions_share: Fraction = Fraction(0)

    def check(self) -> None:
        """ValueError for what no request leads to: a file may say anything."""
        rising = len(self.edges) >= 3 and all(a < b for a, b in zip(self.edges, self.edges[1:], strict=False))
        fits = self.task in TASKS and rising and bool(self.groups) and self.size <= MOST_SIZE
        fits = fits and (self.truth is None) == (self.task == "classes") == bool(self.classes) == bool(self.values)
        fits = fits and (self.bounds is not None) == (self.residual > 0) == (self.task == "regression")
        fits = fits and (self.threshold is None) == (self.task == "regression")
        fits = fits and all(len(crossing.whole) == len(crossing.partitions) for crossing in self.groups)
        fits = fits and 0 <= self.decisions_share < 1 and (self.task == "binary" or not self.decisions_share)
        if not fits or (self.threshold is not None and self.threshold_cell not in range(1, self.cells)):
            raise ValueError("no performance of ours")

    @property
    def cells(self) -> int:
        """K, the number of cells of scores."""
        return len(self.edges) - 1

    @property
    def threshold_cell(self) -> int | None:
        """The first cell whose scores reach the threshold."""
        assert self.threshold is not None
        inner = [i for i, edge in enumerate(self.edges) if edge == self.edge(self.threshold)]
        return inner[0] if inner else None

    def edge(self, threshold: float) -> float:
        return math.ceil(threshold) - 0.5 if self.whole_scores else threshold

    @property
    def whole_scores(self) -> bool:
        """Whether scores are whole numbers, so that edges lie between them."""
        return self.edges[0] % 1 == 0.5 and self.edges[0] < self.range.low

    @property
    def tables(self) -> int:
        """Histograms for each entry of groups."""
        return len(self.classes) + 1 if self.task == "classes" else 1

    @property
    def partitions(self) -> int:
        """Into how many public partitions the rows are counted."""
        return self.tables * len(self.groups)

    @property
    def group_size(self) -> int:
        """How many numbers one group has."""
        if self.task == "regression":
            return len(SUMS)
        return self.tables_size + len(self.classes) * len(self.values)

    @property
    def tables_size(self) -> int:
        return 2 * self.cells * max(1, len(self.classes))

    @property
    def size(self) -> int:
        """How many numbers are released."""
        cells = len(CELL_SUMS) * self.cells if self.task == "regression" else 0
        return self.group_size * sum(crossing.size for crossing in self.groups) + cells

    @property
    def decisions_size(self) -> int:
        """How many numbers the decisions have: two sides of the threshold x target, for each group."""
        return 4 * sum(crossing.size for crossing in self.groups) if self.decisions_share else 0

    def prices(self, cost: Cost) -> dict[str, Cost]:
        """What each part costs: they add up to the cost."""
        if not self.decisions_share:
            return {"sums" if self.task == "regression" else "counts": cost}
        decisions, counts = split(cost, self.decisions_share)
        return {"counts": counts, "decisions": decisions}

    def place(self, scores: Floats) -> Integers:
        """The cell of each score; that of the middle of the range where the model failed."""
        inside = np.clip(np.where(np.isnan(scores), self.range.middle, scores), self.range.low, self.range.high)
        return np.searchsorted(np.asarray(self.edges[1:-1]), inside, side="right").astype(np.int64)

    def columns(self, predictor: Predictor | None) -> list[str]:
        """The columns that are read."""
        inputs = [] if predictor is None else predictor.features
        scores = [] if self.score is None else [self.score]
        named = [name for crossing in self.groups for name in crossing.columns]
        return list(dict.fromkeys([*inputs, *scores, self.target, *named]))


def statistic(rows: Rows, spec: Spec, predictor: Predictor | None) -> Integers:
    """Exact counts, or sums of a regression, of one batch: no noise, no budget, no randomness. One prediction a row.

    For each entry of groups, group by group: the counts of (score cell, target 0 or 1); of several classes those of
    each class, and then of (predicted class, target). Of a regression the sums of each group, and at the end those of
    each cell of predictions.
    """
    if predictor is None:
        assert spec.score is not None
        scores: Floats = rows[spec.score].astype(np.float64, copy=False)
    else:
        scores = predictor.predict_at(predictor.inputs(rows), {})
    if spec.task == "regression":
        return _sums(rows, spec, scores)
    of_row = _binary_places(rows, spec, scores) if spec.task == "binary" else _class_places(rows, spec, scores)
    blocks = []
    for crossing in spec.groups:
        start = crossing.place(rows) * spec.group_size
        counts = np.zeros(crossing.size * spec.group_size, dtype=np.int64)
        for places in of_row:
            counts += np.bincount(start + places, minlength=len(counts))
        blocks.append(counts)
    return np.concatenate(blocks)


def decisions(counts: Integers, spec: Spec) -> Integers:
    """Exact counts of (group, below the threshold or not, target), from those of cells."""
    assert spec.threshold_cell is not None
    cells = counts.reshape(-1, spec.cells, 2)
    return np.add.reduceat(cells, [0, spec.threshold_cell], axis=1).ravel()


def _binary_places(rows: Rows, spec: Spec, scores: Floats) -> list[Integers]:
    assert spec.truth is not None
    return [2 * spec.place(scores) + spec.truth(rows[spec.target]).astype(np.int64)]


def _class_places(rows: Rows, spec: Spec, scores: Floats) -> list[Integers]:
    """For each class the place of a row in its histogram, and that in the confusion matrix."""
    true, many = rows[spec.target].astype(np.int64), 2 * spec.cells
    places = [
        c * many + 2 * spec.place(scores[:, c]) + (true == spec.values.index(name))
        for c, name in enumerate(spec.classes)
    ]
    # where the model failed all scores are the middle of the range, and the first class stands for it
    known = np.where(np.isnan(scores), -np.inf, scores)
    return [*places, spec.tables_size + known.argmax(axis=1) * len(spec.values) + true]


def _sums(rows: Rows, spec: Spec, scores: Floats) -> Integers:
    assert spec.truth is not None
    assert spec.bounds is not None
    low, high = spec.bounds
    y = spec.truth(rows[spec.target])
    predicted = np.clip(np.where(np.isnan(scores), spec.range.middle, scores), spec.range.low, spec.range.high)
    residual = np.clip((y - predicted) / spec.residual, -1.0, 1.0)
    unit = np.clip((y - low) / (high - low), 0.0, 1.0)
    steps, ones = np.rint(residual * LEVELS).astype(np.int64), np.full(rows.size, LEVELS, dtype=np.int64)
    above, below = np.maximum(steps, 0), np.maximum(-steps, 0)
    squares, target, target_squares = (
        np.rint(v * LEVELS).astype(np.int64) for v in (residual * residual, unit, unit * unit)
    )
    count = ones if spec.counted else np.zeros_like(ones)
    added = np.stack([count, above, below, squares, target, target_squares], axis=1)
    blocks = []
    for crossing in spec.groups:
        sums = np.zeros((crossing.size, len(SUMS)), dtype=np.int64)
        np.add.at(sums, crossing.place(rows), added)
        blocks.append(sums.ravel())
    cells = np.zeros((spec.cells, len(CELL_SUMS)), dtype=np.int64)
    np.add.at(cells, spec.place(predicted), np.stack([ones, above, below], axis=1))
    return np.concatenate([*blocks, cells.ravel()])


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """How far one unit moves what is released: from the public request alone.

    Counts. For each entry of groups a row is in one group, one score cell and one value of the target: in one cell of
    one public partition. With C classes it is in one cell of the histogram of each class and in one of the confusion
    matrix: C + 1 partitions. `Sensitivity.of_counts` has the proof for so many partitions. It is the bound of the
    decisions too, for one target of two values: for each entry of groups a row is in one group, on one side of the
    threshold, and has one value of the target. They are another part with a cost of its own.

    Regression. What a row adds to one group lies in {0..L}^6, and of `above` and `below` one is zero: at most five
    numbers are not zero (four without a count). To its cell of predictions it adds a count, and one of above and below:
    two. So a row adds a vector a >= 0 of at most m = 5 H + 2 numbers of at most L each, for H entries of groups (4 + 2
    without a count): |a|_1 <= m L, |a|_2^2 <= m L^2, |a|_inf <= L. A unit of k rows adds at most k times that. Added or
    removed, that is the bound. Replaced, a leaves and b comes: |b - a|_1 <= 2 k m L; |b - a|_2^2 <= |a|^2 + |b|^2 <=
    2 k^2 m L^2, because ab >= 0; |b - a|_inf <= k L, because both lie in [0, k L].

    Where everybody is one group of public size (no count, k = 1, replaced), both rows add to the same numbers of that
    group. Those lie in [0, L], so each moves by at most L: 5 L in L1 and 5 L^2 in squared L2 for the group, where the
    general bound has 8; the cells as before: 4 L and 4 L^2.
    """
    if spec.task != "regression":
        return Sensitivity.of_counts(neighbours, spec.partitions)
    k, changed = neighbours.rows, neighbours.changed_rows
    if not spec.counted:
        return Sensitivity(neighbours, 9 * LEVELS, 9 * LEVELS**2, LEVELS)
    m = 5 * len(spec.groups) + 2
    return Sensitivity(neighbours, changed * m * LEVELS, changed * k * m * LEVELS**2, k * LEVELS)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this cost. Costs nothing, touches no data."""
    bound = sensitivity(spec, neighbours)
    return {
        part: best(bound, spec.decisions_size if part == "decisions" else spec.size, price, spec.mechanism)
        for part, price in spec.prices(cost).items()
    }


# Public cells ---------------------------------------------------------------------------------------------------------

FEW_CELLS, MANY_CELLS, USUAL_CELLS = 6, 128, 20
STEPS = 10_000  # edges between probabilities lie on so many even steps: the last digits of a sine do not move them
WHOLE_SCORES = 32  # a score with at most so many whole values has a cell for each of them
BASE_RATE = 1 / 4  # for forecasts: what share of the rows is positive
BLUR = 1 / 4  # of a cell: what its width counts beside noise; chosen on Adult and German credit


def side_noise(std: float, cells: float, decisions: float = math.inf) -> float:
    """The standard deviation of the number of rows of one target on one side of the threshold, with half of the cells:
    their sum, combined with the count of decisions where that has noise of standard deviation `decisions`.
    """
    return 1 / math.hypot(1 / (std * math.sqrt(cells / 2)), 1 / decisions)


def auc_noise(
    std: float, cells: float, groups: float, rows: float, base: float = BASE_RATE, decisions: float = math.inf
) -> float:
    """The standard deviation that noise gives an area under the ROC curve.

    A positive row's part is how many negative ones it beats, spread evenly over [-1/2, 1/2] around the mean, and so
    for negative ones: sum over cells of std^2 (1/12) (1/P^2 + 1/N^2), for each of the groups that are added up. Where
    the threshold has a fifth of the rows on one side, about half of 1/12 is between the sides, whose counts decisions
    know better.
    """
    positive, negative = max(base * rows, 1.0), max((1 - base) * rows, 1.0)
    inside, between = std * math.sqrt(cells / 24), side_noise(std, cells, decisions) / math.sqrt(12)
    return math.hypot(inside, between) * math.sqrt(groups) * math.hypot(1 / positive, 1 / negative)


def cells_for(std: float, groups: float, rows: int | None, base: float = BASE_RATE) -> int:
    """How many score cells: noise grows with their number and blur falls, `1.96 noise + BLUR / K` is least."""
    if rows is None:
        return USUAL_CELLS
    one = 1.96 * auc_noise(std, 1, groups, rows, base)
    return round(min(max(math.pow(2 * BLUR / one, 2 / 3), FEW_CELLS), MANY_CELLS))


def together(groups: Sequence[Crossing]) -> float:
    """How many groups' noise everybody's counts have: those of several entries are averaged by their variances."""
    return 1 / sum(1 / crossing.size for crossing in groups)


def edges_of(output: PublicRange, cells: int, threshold: float | None) -> tuple[float, ...]:
    """So many cells, by the range of scores and the threshold alone, which is an edge.

    Cells of probabilities are even steps of arcsin(sqrt(p)) on either side of the threshold, so finer towards 0 and 1:
    scores of rare events crowd there, and in the middle cells are about pi / 2 times as wide as even ones. Of other
    numbers nothing is known: even steps.
    """
    low, high = output.low, output.high
    if threshold is None:
        return tuple(np.linspace(low, high, cells + 1).tolist())
    graded = low >= 0 and high <= 1
    first, at, last = (math.asin(math.sqrt(p)) if graded else p for p in (low, threshold, high))
    share = round(cells * (at - first) / (last - first), 6)  # half a cell is half a cell, whatever its last digits
    below = min(max(math.floor(share + 0.5), 1), cells - 1)
    inside = np.append(np.linspace(first, at, below + 1)[1:-1], np.linspace(at, last, cells - below + 1)[1:-1])
    if graded:
        inside = low + output.width * np.rint((np.sin(inside) ** 2 - low) / output.width * STEPS) / STEPS
    end = high if threshold < high else math.nextafter(high, math.inf)  # else the range's end alone is positive
    return (low, *sorted({threshold, *(edge for edge in inside.tolist() if low < edge < high)}), end)


def whole_edges(low: int, high: int, cells: int, threshold: float | None) -> tuple[float, ...]:
    """Edges between whole scores: a cell for each where they are few."""
    values = high - low + 1
    width = 1 if values <= max(cells, WHOLE_SCORES) else -(-values // cells)
    inner = set((np.arange(low + width, high + 1, width) - 0.5).tolist())
    inner |= set() if threshold is None else {math.ceil(threshold) - 0.5}
    return (low - 0.5, *sorted(inner), high + 0.5)


def group_of(crossing: Crossing, wanted: Mapping[str, Any]) -> list[int]:
    """The cells of a crossing in which the columns have the wanted values; none where a value is not declared."""
    places = []
    for place, cell in enumerate(crossing.cells):
        if all(_is(cell[column], value) for column, value in wanted.items()):
            places.append(place)
    return places


def _is(cell: Any, value: Any) -> bool:
    """Whether a value names a cell: it is the cell, or a number inside."""
    if isinstance(cell, tuple):
        if isinstance(value, list | tuple):
            return tuple(value) == cell
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and (
            cell[0] <= value <= cell[1] if all(isinstance(e, int) for e in cell) else cell[0] <= value < cell[1]
        )
    return type(value) in (type(cell), int, float, bool) and value == cell if cell is not None else value is None
