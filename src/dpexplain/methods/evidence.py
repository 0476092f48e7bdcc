"""Released results as evidence about means over rows: which of them can be used, and what their numbers are.

A released number is evidence where it is a sum over rows of a public function of a row, with noise of a known
covariance: partial dependence at a grid point, the change of a prediction within a bin, the rows in a cell, the rows by
cell and score, the outcomes of a group with an input replaced. Each release counts once, however many results show it,
and what the stand-in was made of does not count at all: it is in the stand-in already.

Where the number of rows is private, sums are divided by a released number of rows, whose noise all means of a release
share (`Numbers.counted`). That of counts which another release was divided by is taken as independent of theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.noise import Noise
from dpexplain.data.rows import LARGEST_BLOCK, Rows, even_size
from dpexplain.errors import InputError, InternalError, ModelError
from dpexplain.maths.binning import Bins, Steps
from dpexplain.maths.grids import Axis, Partition
from dpexplain.maths.means import SURE_ROWS
from dpexplain.maths.weights import Numbers
from dpexplain.methods.accumulated_effects.result import AccumulatedCurve
from dpexplain.methods.histogram import references
from dpexplain.methods.influence.result import TableInfluence
from dpexplain.methods.influence.sharp import lines_of, suits
from dpexplain.methods.influence.spec import blocks_of
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.partial_dependence.result import DependenceCurve
from dpexplain.methods.permutation_importance.result import Importance
from dpexplain.methods.result import Result, Results
from dpexplain.methods.sharpening import entries_of
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.models import Model, Predictor

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Change = Callable[[Floats, Floats], Floats]  # of a prediction, from the second to the first

KEPT_NUMBERS = 2**25  # predictions that are remembered
KNOWN_CELLS = 8  # groups of a column's values, whose shares a stand-in knows
MOST_NUMBERS = 6_000  # released numbers that are used at once
TAKES = "results of dpx.partial_dependence, dpx.accumulated_effects, dpx.influence and dpx.marginals"


class Asked:
    """A model and the synthetic rows that it is asked about."""

    def __init__(self, model: Model, predictor: Predictor, rows: Rows) -> None:
        self.output, self.rows = model.output, rows
        self.predictor = predictor.resized(even_size(rows.size, LARGEST_BLOCK))  # of any size: the rows are public
        self._inputs, self._kept = self.predictor.inputs(rows), dict[tuple[tuple[str, Any], ...], Floats]()
        if np.isnan(self.raw({})).all():
            raise ModelError(
                "the model fails on every synthetic row.",
                hint="it has to answer rows of the declared domain: try it on rows of the stand-in",
            )

    def raw(self, fixed: Mapping[str, Any]) -> Floats:
        """Predictions for all rows with some columns at one value, or at one for each row; NaN where it fails."""
        if any(np.ndim(value) for value in fixed.values()):
            return self.predictor.predict_at(self._inputs, fixed)
        key = tuple(sorted((name, repr(float(value))) for name, value in fixed.items()))
        if key not in self._kept:
            answers = self.predictor.predict_at(self._inputs, fixed)
            if len(self._kept) * self.rows.size >= KEPT_NUMBERS:
                return answers
            self._kept[key] = answers
        return self._kept[key]

    def at(self, fixed: Mapping[str, Any]) -> Floats:
        """Predictions in the output range; its middle where the model fails."""
        inside = np.clip(self.raw(fixed), self.output.low, self.output.high)
        return np.nan_to_num(inside, nan=self.output.middle)

    def change(self, high: Floats, low: Floats) -> Floats:
        """The difference of two predictions within the output range; none where the model fails."""
        ends = self.output.low, self.output.high
        return np.nan_to_num(np.clip(high, *ends) - np.clip(low, *ends), nan=0.0)


class Answered(Asked):
    """Synthetic rows whose predictions were kept: all that counts by scores ask for, without the model."""

    def __init__(self, rows: Rows, predictions: Floats) -> None:
        self.rows, self._predictions = rows, predictions

    def raw(self, fixed: Mapping[str, Any]) -> Floats:
        if fixed:
            raise InternalError("predictions are kept for the rows as they are")
        return self._predictions


def changes_within(asked: Asked, steps: Steps, bins: Bins, change: Change) -> tuple[Floats, Floats]:
    """[row, bin]: 1 where a row counts, and the change of its prediction there. A row with a category counts in the
    steps to both of its neighbours; one with a missing value in none.
    """
    values, size = asked.rows[steps.feature], asked.rows.size
    inside, moved, every = np.zeros((size, bins.size)), np.zeros((size, bins.size)), np.arange(size)
    if steps.ordered:
        points, present = np.asarray(bins.points), steps.present(values)
        place = bins.place(np.where(present, values, points[0]))
        low, high = (asked.raw({steps.feature: points[place + side]}) for side in (0, 1))
        inside[every, place] = present
        moved[every, place] = np.where(present, change(high, low), 0.0)
        return inside, moved
    codes, last, own = values.astype(np.int64), len(bins.points) - 1, asked.raw({})
    for step, away in ((0, 1), (-1, -1)):  # to the next category, to the one before
        there = codes + away
        known = (there >= 0) & (there <= last)
        other = asked.raw({steps.feature: np.clip(there, 0, last)})
        rows, place = every[known], (codes + step)[known]
        inside[rows, place] = 1.0
        moved[rows, place] = (change(other, own) if away > 0 else change(own, other))[known]
    return inside, moved


def in_cells(rows: Rows, cells: Partition, present: NDArray[np.bool_] | None = None) -> Floats:
    """[row, cell]: 1 in the cell of a row."""
    values = rows[cells.feature]
    there = np.ones(rows.size, dtype=bool) if present is None else present
    if cells.edges is not None and not cells.missing:
        there = there & ~np.isnan(values)
    inside = np.zeros((rows.size, cells.size))
    every = np.flatnonzero(there)
    inside[every, cells.place(values[every])] = 1.0
    return inside


def known_cells(values: NDArray[Any], cells: Partition) -> Floats:
    """[row, group]: the cells of a column, in at most KNOWN_CELLS groups of about as many rows each."""
    place = cells.place(values)
    rows = np.bincount(place, minlength=cells.size)
    group = np.minimum((np.cumsum(rows) - rows / 2) / len(values) * KNOWN_CELLS, KNOWN_CELLS - 1).astype(np.int64)
    return np.asarray(group[place][:, None] == np.arange(KNOWN_CELLS), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Piece:
    """One release that was handed over, and what is done with it.

    ask       the model and its synthetic rows -> the numbers; None for a release that is left out
    left_out  why it is
    axes      the grids of its partial dependence, by feature
    promised  what a promise says about it, and about what it was computed from
    own       whether these are counts of the stand-in itself
    """

    entry: int
    title: str
    size: int = 0
    ask: Callable[[Asked], Numbers] | None = None
    left_out: str = ""
    axes: Mapping[str, Axis] | None = None
    promised: Sequence[JsonObject] = ()
    own: bool = False


# Which of them can be used --------------------------------------------------------------------------------------------


def pieces_of(stand_in: StandIn, model: Model, results: Any) -> list[Piece]:
    """Every release once, in the order in which they were handed over, and the stand-in's own counts by scores."""
    pieces = own_scores(stand_in, model.identity)
    own = {_place(stand_in): "the stand-in itself"}
    own |= {_place(result): "the stand-in was made of it" for result in stand_in.relies_on}
    payloads = {_place(one): one.receipt.entry.payload_hash for one in (stand_in, *stand_in.relies_on)}
    for result in _flat(results):
        place, entry = _place(result), result.receipt.entry
        _require_same_table(stand_in, result)
        if payloads.setdefault(place, entry.payload_hash) != entry.payload_hash:
            raise InputError(
                f"two results claim entry {entry.sequence} of the same account, with different numbers.",
                hint="one of them is not what the ledger holds: dpx.verify(result, ledger) says which",
            )
        title = result.receipt.label
        if place in own:
            if own[place]:
                pieces.append(Piece(entry.sequence, title, left_out=own[place]))
                own[place] = ""
            continue
        own[place] = ""  # from now on it is known
        pieces.append(replace(_piece(stand_in, model, result), promised=entries_of(result.receipt)))
    size = sum(piece.size for piece in pieces)
    if size > MOST_NUMBERS:
        raise InputError(
            f"these results hold {size:,} released numbers; at most {MOST_NUMBERS:,} can be used at once.",
            hint="hand over fewer of them",
        )
    return pieces


def own_scores(stand_in: StandIn, model: JsonObject) -> list[Piece]:
    """The stand-in's own counts by the scores of this model, where it has them."""
    tables = stand_in.score_tables
    return [] if tables is None or not _same(tables.model, model) else [replace(_of_scores(stand_in), own=True)]


def _flat(results: Any) -> Iterator[Result]:
    """Single results, each after those that it relies on."""
    if isinstance(results, Result):
        results = [results]
    if isinstance(results, str | bytes) or not isinstance(results, Sequence):
        raise InputError(f"results are a list of released results; got {_kind(results)}.", hint=f"it takes {TAKES}")
    for result in results:
        if isinstance(result, Results | list | tuple):
            yield from _flat(list(result))
        elif isinstance(result, Result):
            yield from result.relies_on
            yield result
        else:
            raise InputError(f"{_kind(result)} is not a released result.", hint=f"it takes {TAKES}")


def _kind(value: Any) -> str:
    return f"an object of type {type(value).__name__}"


def _place(result: Result) -> tuple[str, int, int]:
    return result.receipt.place


def _same(one: Any, two: Any) -> bool:
    return digest(one) == digest(two)


def _require_same_table(stand_in: StandIn, result: Result) -> None:
    mine, other = stand_in.receipt, result.receipt
    title = f"the result {other.label!r} (entry {other.entry.sequence})"
    if mine.entry.account != other.entry.account:
        raise InputError(f"{title} was released by another account than the stand-in.", hint=HINT)
    for field, said in (("domain", "with another domain"), ("version", "from another version of the table")):
        same_name = mine.request["table"]["name"] == other.request["table"]["name"]
        if same_name and mine.request["table"][field] != other.request["table"][field]:
            raise InputError(f"{title} was released {said} than the stand-in.", hint=HINT)
    if not _same(mine.request["table"], other.request["table"]):
        raise InputError(f"{title} was released from another table than the stand-in.", hint=HINT)


HINT = "evidence and stand-in must be about the same rows"


def _piece(stand_in: StandIn, model: Model, result: Result) -> Piece:
    entry, title = result.receipt.entry.sequence, result.receipt.label
    if isinstance(result, DependenceCurve) and result.spec.classes:
        return Piece(entry, title, left_out="it is about all classes together")
    if isinstance(result, DependenceCurve | AccumulatedCurve):
        if not _same(result.receipt.request["model"], model.identity):
            raise _another_model(result)
        return _of_dependence(result) if isinstance(result, DependenceCurve) else _of_effects(stand_in, result)
    if isinstance(result, TableInfluence):
        if not _same(result.receipt.request["model"], model.identity):
            raise _another_model(result)
        return _of_influences(stand_in, result)
    if isinstance(result, Importance):
        return Piece(entry, title, left_out="limited changes of losses are no means over rows")
    if isinstance(result, StandIn):
        if result.marginals is None:
            return Piece(entry, title, left_out="the declared domain says nothing about the table")
        if result.earlier is not None:  # these come by themselves, and count once
            made_of = result.earlier.receipt.entry.sequence
            return Piece(entry, title, left_out=f"its counts of columns are those of entry {made_of}")
        return _of_marginals(stand_in, result.marginals)
    if isinstance(result, Marginals):
        return _of_marginals(stand_in, result)
    return Piece(entry, title, left_out="its numbers are not means over rows, or it is not known how to use them")


def _another_model(result: Result) -> InputError:
    return InputError(
        f"the result {result.receipt.label!r} (entry {result.receipt.entry.sequence}) is about another model, or "
        "another version of it.",
        hint="a model without a version is a new one each time: dpx.Model(..., version=...)",
    )


# Their numbers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Count:
    """A number of rows that sums are divided by: public, or noisy.

    std     of its noise
    shared  what one unit of the noise of each sum adds to it
    other   the variance of the rest of its noise
    """

    rows: float
    std: float
    shared: Floats
    other: float

    @property
    def sure(self) -> bool:
        """Whether there are rows beyond doubt."""
        return self.rows > SURE_ROWS * self.std

    @classmethod
    def public(cls, rows: float, size: int) -> Count:
        return cls(rows, 0.0, np.zeros(size), 0.0)

    @classmethod
    def apart(cls, rows: float, std: float, size: int) -> Count:
        """One whose noise is not that of the sums."""
        return cls(rows, std, np.zeros(size), std**2)

    def means(self, answers: Floats, sums: Floats, variances: Floats, judging: int) -> Numbers:
        """The first so many of them say how good the stand-in is."""
        judges = np.arange(len(sums)) < judging
        return Numbers.counted(answers, sums, variances, self.rows, self.shared, self.other, judges)


UNSURE = "its number of rows is hardly above its noise"


def _made(result: Result, size: int, count: Count, ask: Callable[[Asked], Numbers], **more: Any) -> Piece:
    entry, title = result.receipt.entry.sequence, result.receipt.label
    return Piece(entry, title, size, ask, **more) if count.sure else Piece(entry, title, left_out=UNSURE)


def _of_dependence(curve: DependenceCurve) -> Piece:
    """Means of predictions at grid points, counted from the middle of the output range, and the histograms below."""
    spec, (sums, noise) = curve.spec, curve.part("curve")
    output, weight, points = spec.output, spec.count_weight, spec.points
    unit = output.width / output.levels
    totals, variances = unit * sums[:points].astype(np.float64), np.full(points, (unit * noise.std) ** 2)
    if not weight:
        totals = totals - (output.middle - output.low) * (curve.receipt.rows or 0)
    if spec.rug:
        cells, below = curve.part("rug")
        totals, variances = np.append(totals, cells), np.append(variances, np.full(len(cells), below.std**2))
    count = Count.public(float(curve.receipt.rows or 0), len(totals))
    if weight:
        count = Count.apart(float(sums[-1]) / weight, noise.std / weight, len(totals))

    def ask(asked: Asked) -> Numbers:
        lines = []
        for view in spec.views:
            for point in itertools.product(*(axis.settings for axis in view)):
                fixed = dict(zip((axis.feature for axis in view), point, strict=True))
                lines.append(output.low + unit * output.quantize(asked.raw(fixed)) - output.middle)
        answers = np.hstack([np.column_stack(lines), *(in_cells(asked.rows, p) for p in spec.rug)])
        return count.means(answers, totals, variances, points)

    axes = {view[0].feature: view[0] for view in spec.views if len(view) == 1}
    return _made(curve, len(totals), count, ask, axes=axes)


def _of_effects(stand_in: StandIn, curve: AccumulatedCurve) -> Piece:
    """Sums of changes within bins, and the counts of cells where they are of the same release."""
    spec, bins, (sums, noise) = curve.spec, curve.all_bins, curve.part("effects")
    counts, counted = curve._counts
    own, tables = spec.marginals is None, sum(not steps.missing for steps in spec.steps)
    totals, variances = spec.unit * sums.astype(np.float64), np.full(len(sums), (spec.unit * noise.std) ** 2)
    if own:
        totals, variances = np.append(totals, counts), np.append(variances, np.full(len(counts), counted.std**2))
    size, rows = len(totals), curve.receipt.rows
    if rows is not None:
        count = Count.public(float(rows), size)
    elif not tables:
        count = _count_of(stand_in, size)
    else:
        part = np.concatenate([np.full(s.cells.size, (not s.missing) / tables) for s in spec.steps])
        count = Count.apart(float(part @ counts), counted.std * float(np.sqrt(part @ part)), size)
        if own:
            count = replace(count, shared=np.append(np.zeros(len(sums)), part), other=0.0)
    limits, zero = spec.differences, spec.levels // 2

    def ask(asked: Asked) -> Numbers:
        def change(high: Floats, low: Floats) -> Floats:
            """As it was added up."""
            ends = spec.output.low, spec.output.high
            away = limits.quantize(np.clip(high, *ends) - np.clip(low, *ends)) - zero
            return np.asarray(spec.unit * away, dtype=np.float64)

        parts = [changes_within(asked, s, b, change)[1] for s, b in zip(spec.steps, bins, strict=True)]
        if own:
            parts += [in_cells(asked.rows, s.cells, s.present(asked.rows[s.feature])) for s in spec.steps]
        return count.means(np.hstack(parts), totals, variances, len(sums))

    return _made(curve, len(totals), count, ask)


def _of_influences(stand_in: StandIn, result: TableInfluence) -> Piece:
    """Sums over groups of outcomes before and after an intervention, and the rows of the groups."""
    spec, (values, noise), entry = result.spec, result.part("influences"), result.receipt.entry.sequence
    marginals, title = result.marginals, result.receipt.label
    if not suits(spec):
        return Piece(
            entry, title, left_out="its sums have more in them than functions of the rows and noise of their own"
        )
    if marginals is None:
        return Piece(entry, title, left_out="the marginals that other values came from are not at hand")
    if not result.conclusive:
        return Piece(entry, title, left_out=UNSURE)
    if lacks := _lacks(stand_in, result.columns_for(spec.names)):
        return Piece(entry, title, left_out=lacks)
    sums, weight = spec.blocks * spec.lines, spec.count_weight
    totals, variances = values[:sums] / spec.K, np.full(sums, (noise.std / spec.K) ** 2) + result.chance_of_sums
    rows, counted = result.receipt.rows, float(noise.std / max(weight, 1))
    if rows is not None:
        count = Count.public(float(rows), sums)
    elif spec.counts == spec.blocks and spec.quantity != "group":
        count = Count.apart(float(result.counts.sum()), counted * spec.blocks**0.5, sums)
    else:
        count = _count_of(stand_in, sums)
    known = references(spec.names, marginals, stand_in.domain)

    def ask(asked: Asked) -> Numbers:
        lines, inside = lines_of(asked.predictor, asked.rows, spec, known), blocks_of(asked.rows, spec)
        answers = np.hstack([lines * held[:, None] for held in inside[: spec.blocks]])
        return count.means(answers, totals, variances, sums)

    return _made(result, sums, count, ask)


def _count_of(stand_in: StandIn, size: int) -> Count:
    """The stand-in's own number of rows, for sums that come with none."""
    if stand_in.marginals is None:
        return Count.apart(0.0, 1.0, size)
    std, cells = stand_in.marginals.part("counts")[1].std, sum(p.size for p in stand_in.partitions)
    return Count.apart(stand_in.total, std * cells**0.5 / len(stand_in.partitions), size)


def _lacks(stand_in: StandIn, columns: Sequence[str]) -> str:
    """Why evidence about these columns cannot be used: synthetic rows lack some of them. Else empty."""
    missing = [name for name in columns if name not in stand_in.features]
    return f"the stand-in does not have {', '.join(map(repr, missing))}" if missing else ""


def _of_marginals(stand_in: StandIn, marginals: Marginals) -> Piece:
    counts, noise = marginals.part("counts")
    partitions = marginals.partitions
    if lacks := _lacks(stand_in, [cells.feature for cells in partitions]):
        return Piece(marginals.receipt.entry.sequence, marginals.receipt.label, left_out=lacks)

    def inside(asked: Asked) -> Floats:
        return np.hstack([in_cells(asked.rows, cells) for cells in partitions])

    return _of_counts(marginals, marginals.receipt.label, counts, noise, len(partitions), inside, 0)


def _of_scores(stand_in: StandIn) -> Piece:
    """The stand-in's counts by scores: no synthetic row was drawn from them."""
    tables = stand_in.score_tables
    assert tables is not None
    counts = np.concatenate([table.ravel() for table in tables.counts.values()])
    cells = {partition.feature: partition for partition in stand_in.partitions}

    def inside(asked: Asked) -> Floats:
        scores, parts = stand_in.spec.place_scores(asked.raw({})), []
        for name, table in tables.counts.items():
            group = tables.places[name][cells[name].place(asked.rows[name])]
            part = np.zeros((asked.rows.size, table.size))
            part[np.arange(asked.rows.size), scores * table.shape[1] + group] = 1.0
            parts.append(part)
        return np.hstack(parts)

    title, many = "the stand-in's counts by scores", len(tables.counts)
    return _of_counts(stand_in, title, counts, tables.noise, many, inside, len(counts))


def _of_counts(
    result: Result,
    title: str,
    counts: Integers,
    noise: Noise,
    tables: int,
    inside: Callable[[Asked], Floats],
    judging: int,
) -> Piece:
    """Counts of whole tables: every row is in one cell of each."""
    totals, variances = counts.astype(np.float64), np.full(len(counts), noise.std**2)
    if result.receipt.rows is not None:
        count = Count.public(float(result.receipt.rows), len(counts))
    else:
        std = noise.std * len(counts) ** 0.5 / tables
        count = Count(float(counts.sum()) / tables, std, np.full(len(counts), 1 / tables), 0.0)

    def ask(asked: Asked) -> Numbers:
        return count.means(inside(asked), totals, variances, judging)

    entry = result.receipt.entry.sequence
    return Piece(entry, title, len(counts), ask) if count.sure else Piece(entry, title, left_out=UNSURE)
