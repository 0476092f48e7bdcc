"""Explanations read off a stand-in's synthetic rows, weighted by everything that was released. Free.

Nothing here sees rows of the table, and there is no table among the arguments: everything follows from released
numbers, the public model, the stand-in and public draws. So it is no method that is registered: it releases nothing.
docs/methods/posterior.md explains it; `maths/weights.py` has the mathematics.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.data.rows import LARGEST_BLOCK, Rows, even_size
from dpexplain.errors import InputError, ModelError
from dpexplain.maths.binning import Bins, Steps, steps_of
from dpexplain.maths.grids import Axis, axis_of, with_missing
from dpexplain.maths.posterior import EVEN, rows_for
from dpexplain.maths.weights import Numbers, RowPosterior
from dpexplain.methods.accumulated_effects.request import AccumulatedEffects
from dpexplain.methods.curves import MOST_POINTS
from dpexplain.methods.partial_dependence.request import Feature, PartialDependence
from dpexplain.methods.readings import Floats, Reading, Readings
from dpexplain.methods.sharpening import SEED
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.models import Model, Predictor
from dpexplain.models.predictor import frame_of

if TYPE_CHECKING:
    import pandas as pd

READ_ROWS = 10_000  # synthetic rows where there is no evidence: then all there is to lose is chance in drawing
FEWEST, MOST = 100, 1_000_000  # synthetic rows that may be asked for
BINS, RESOLUTION, PAIR_RESOLUTION = 20, 25, 12  # of a curve that is read off, where nothing else is said
FEW_ROWS = 10  # synthetic rows of a bin, below which all synthetic rows, moved there, make up for the rest
KEPT_NUMBERS = 2**25  # predictions that are remembered


class Asked:
    """A model and the synthetic rows that it is asked about."""

    def __init__(self, model: Model, predictor: Predictor, rows: Rows) -> None:
        self.output, self.rows = model.output, rows
        self.predictor = predictor.resized(even_size(rows.size, LARGEST_BLOCK))
        self._inputs, self._kept = self.predictor.inputs(rows), dict[tuple[tuple[str, Any], ...], Floats]()
        if np.isnan(self.raw({})).all():
            raise ModelError(
                "the model fails on every synthetic row.",
                hint="it has to answer rows of the declared domain: try it on stand_in.rows()",
            )

    def raw(self, fixed: Mapping[str, Any]) -> Floats:
        """Predictions for all rows with some columns at one value, or at one for each row; NaN where it fails."""
        if any(np.ndim(value) for value in fixed.values()):
            return self.predictor.predict_at(self._inputs, fixed)
        key = tuple(sorted((name, float(value)) for name, value in fixed.items()))
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


class Posterior:
    """What is likely about the table, given a stand-in and released numbers: weights of synthetic rows.

    `partial_dependence`, `accumulated_effects` and `expect` read explanations off it, each with an interval. These
    assume that the table resembles the synthetic rows in some measure, which is estimated from the evidence. They are
    quantiles of a mixture of normal distributions; laws of noise that are not normal enter by their covariance. Without
    evidence nothing says how good the stand-in is, and they are wide. Proven intervals stand in the results themselves.
    """

    def __init__(self, stand_in: StandIn, model: Model, asked: Asked, numbers: Sequence[Numbers]) -> None:
        self.stand_in, self.model, self._asked = stand_in, model, asked
        self._numbers = list(numbers)

    @cached_property
    def _rows(self) -> RowPosterior:
        return RowPosterior(self._asked.rows.size, self.stand_in.worth, self._numbers)

    def __len__(self) -> int:
        """How many synthetic rows there are."""
        return self._asked.rows.size

    @property
    def weights(self) -> Floats:
        """One positive weight for each synthetic row; they add up to one. All are equal without evidence."""
        return self._rows.tilted

    @property
    def worth(self) -> float:
        """How many independent rows of the table the stand-in turned out to be worth, by the evidence."""
        return self._rows.worth

    @property
    def basis(self) -> str:
        """What everything here rests on, in words."""
        where = f"Read off {len(self):,} synthetic rows of entry {self.stand_in.entry}"
        how = f"weighted by {self._rows.size:,} released numbers" if self._rows.size else "without any other evidence"
        return f"{where}, {how}; nothing here is proven."

    def rows(self) -> pd.DataFrame:
        """The synthetic rows as models get rows, and their weights, in the column `rows.attrs["weight"]`: "weight",
        unless the table has a column of that name.
        """
        frame = self._frame
        name = next(name for name in ("weight", "row weight", "synthetic weight") if name not in frame)
        frame[name] = self.weights
        frame.attrs |= {"synthetic": self.stand_in.origin(SEED), "weight": name, "basis": self.basis}
        return frame

    @property
    def _frame(self) -> pd.DataFrame:
        """A new one each time."""
        rows = self._asked.rows
        return frame_of(rows.domain, list(rows.columns), rows)

    # Readings ---------------------------------------------------------------------------------------------------------

    def partial_dependence(
        self,
        features: Feature | list[Feature],
        grid: int | Mapping[str, int | Sequence[float]] | None = None,
    ) -> Readings:
        """The mean prediction at every point of a public grid: one reading for each name, or pair of names."""
        request = PartialDependence(feature=features, grid=grid)
        self._known(request.features)
        return Readings([self._dependence(view, request.grid) for view in request.views])

    def _dependence(self, view: tuple[str, ...], grid: Any) -> Reading:
        axes = tuple(self._axis(name, grid, PAIR_RESOLUTION if len(view) == 2 else RESOLUTION) for name in view)
        points = list(itertools.product(*(axis.settings for axis in axes)))
        if len(points) > MOST_POINTS:
            raise InputError(
                f"a grid of {len(points)} points is too long; {MOST_POINTS} is the most.", hint="use a coarser grid"
            )
        answers = np.column_stack([self._asked.at(dict(zip(view, point, strict=True))) for point in points])
        spread, output = self._rows.mixture(answers), self._asked.output
        values = np.clip(spread.mean, output.low, output.high)
        return Reading("Partial dependence", axes, values, spread, (output.low, output.high), self.basis)

    def _axis(self, feature: str, grid: Any, resolution: int) -> Axis:
        mine = grid.get(feature) if isinstance(grid, Mapping) else grid
        domain = self.stand_in.domain
        return with_missing(axis_of(domain, feature, mine, resolution), domain[feature])

    def accumulated_effects(self, features: str | Sequence[str], bins: int | None = None) -> Readings:
        """How the prediction changes along a column, for the rows that have about that value; centred.

        bins  the most bins of a column of numbers; they have near-equal mass by the stand-in
        """
        request = AccumulatedEffects(feature=features, bins=bins)
        self._known(request.features)
        return Readings([self._effects(name, request.bins or BINS) for name in request.features])

    def _effects(self, feature: str, number: int) -> Reading:
        steps = steps_of(feature, self.stand_in.domain[feature])
        bins = self._bins(steps, number)
        moved = differences(self._asked, steps, bins)
        curve, influence = accumulated(moved, self.weights, self._rows_beyond(steps, bins, moved))
        span = self._asked.output.width
        spread = self._rows.mixture(influence).around(curve)
        axes, values = (Axis(feature, bins.points, steps.ordered),), np.clip(curve, -span, span)
        about = "effect on the prediction"
        return Reading("Accumulated effect", axes, values, spread, (-span, span), self.basis, about)

    def _bins(self, steps: Steps, number: int) -> Bins:
        values = self._drawn[steps.feature]
        counts = steps.cells.counts(values[steps.present(values)]).astype(np.float64)
        total = max(float(counts.sum()), 1.0)
        return Bins.of_counts(steps, counts, total, number=number, count_std=0.0, sum_std=0.0)

    @cached_property
    def _drawn(self) -> dict[str, NDArray[Any]]:
        """Rows of the stand-in as it is, by which bins are cut: the model is not asked about them."""
        return self.stand_in.draw(READ_ROWS, SEED)

    def _rows_beyond(self, steps: Steps, bins: Bins, moved: Moved) -> Floats:
        """The effect in bins that have few synthetic rows, or none: that of all rows, moved there. Else zero."""
        beyond = np.zeros(bins.size)
        settings = bins.points if steps.ordered else range(len(bins.points))
        for place in np.flatnonzero(moved.inside.sum(axis=0) < FEW_ROWS):
            if len(bins.points) > 1:
                low, high = (self._asked.at({steps.feature: settings[place + side]}) for side in (0, 1))
                beyond[place] = float(self.weights @ (high - low))
        return beyond

    def expect(self, function: Callable[[pd.DataFrame], Any]) -> Reading:
        """The mean over the table of any function of a row.

        function  takes the synthetic rows as a DataFrame; returns one number for each of them, or a line of numbers
        """
        if not callable(function):
            raise InputError("expect takes a function of a DataFrame.", hint='expect(lambda rows: rows["age"] > 40)')
        said = np.asarray(function(self._frame), dtype=np.float64)
        lines = said.reshape(len(said), -1) if said.ndim in (1, 2) else np.empty((0, 0))
        if lines.shape[0] != len(self) or not lines.shape[1]:
            raise InputError(
                f"the function has to return one number (or a line of numbers) for each of {len(self):,} rows; it "
                f"returned an array of shape {said.shape}.",
            )
        if not np.isfinite(lines).all():
            raise InputError(
                "the function returns values that are not finite numbers.",
                hint="say what a missing value counts as: rows.fillna(...)",
            )
        spread, name = self._rows.mixture(lines), getattr(function, "__name__", "function").replace("<lambda>", "a function")
        possible = float(lines.min()), float(lines.max())
        return Reading(f"Mean of {name}", (), spread.mean, spread, possible, self.basis, "mean", cut=False)

    def _known(self, features: Sequence[str]) -> None:
        for name in features:
            self.stand_in.domain.column(name)
            if name not in self.stand_in.features:
                raise InputError(
                    f"the stand-in does not have {name!r}.", hint="it has: " + ", ".join(self.stand_in.features)
                )


# Accumulated effects of weighted rows ---------------------------------------------------------------------------------


class Moved:
    """What synthetic rows say about the effects of one feature.

    inside   [row, bin]: 1 where a row counts; a row with a category counts in the steps to both of its neighbours
    changes  [row, bin]: the change of its prediction there, 0 elsewhere
    at       [row, point]: what each point of the curve counts for the row, for centring; zeros for missing values
    """

    def __init__(self, inside: Floats, changes: Floats, at: Floats) -> None:
        self.inside, self.changes, self.at = inside, changes, at


def differences(asked: Asked, steps: Steps, bins: Bins) -> Moved:
    """The change of each row's prediction between the edges of its bin."""
    values, size, span = asked.rows[steps.feature], asked.rows.size, asked.output.width
    inside, changes = np.zeros((size, bins.size)), np.zeros((size, bins.size))
    at_cells = np.array([bins.at_cells(alone) for alone in np.eye(len(bins.points))]).T
    present, every = steps.present(values), np.arange(size)
    filled = np.where(present, values, bins.points[0]) if steps.ordered else values.astype(np.int64)
    at = at_cells[steps.cells.place(filled)] * present[:, None]
    if steps.ordered:
        points, place = np.asarray(bins.points), bins.place(filled)
        low, high = (asked.raw({steps.feature: points[place + side]}) for side in (0, 1))
        inside[every, place] = present
        changes[every, place] = np.where(present, _change(asked, high, low), 0.0)
        return Moved(inside, np.clip(changes, -span, span), at)
    last, own = len(bins.points) - 1, asked.raw({})
    for step, away in ((0, 1), (-1, -1)):  # to the next category, to the one before
        there = filled + away
        known = (there >= 0) & (there <= last)
        other = asked.raw({steps.feature: np.clip(there, 0, last)})
        rows, place = every[known], (filled + step)[known]
        inside[rows, place] = 1.0
        changes[rows, place] = _change(asked, other, own)[known] * away
    if last == 0:
        inside[:] = 1.0
    return Moved(inside, changes, at)


def _change(asked: Asked, high: Floats, low: Floats) -> Floats:
    """The difference of predictions in the output range; none where the model fails."""
    ends = asked.output.low, asked.output.high
    return np.nan_to_num(np.clip(high, *ends) - np.clip(low, *ends), nan=0.0)


def accumulated(moved: Moved, weights: Floats, beyond: Floats) -> tuple[Floats, Floats]:
    """The centred curve of weighted rows, and [row, point] its influence function: how far a little more weight of a
    row moves it (its mean over the weighted rows is zero).

    beyond  the effects that make up for rows in bins with fewer than FEW_ROWS
    """
    rows = moved.inside.sum(axis=0)
    own = np.minimum(rows / FEW_ROWS, 1.0)  # the share of an effect that is that of the bin's own rows
    mass = np.maximum(weights @ moved.inside, 1e-300)
    means = np.where(rows > 0, (weights @ moved.changes) / mass, 0.0)
    effects = own * means + (1 - own) * beyond
    add = np.tril(np.ones((moved.at.shape[1], len(effects))), -1)
    present = moved.at.sum(axis=1)
    there = max(float(weights @ present), 1e-300)
    lifted = add - (weights @ moved.at) / there @ add
    curve = lifted @ effects
    scale = np.where(rows > 0, own / mass, 0.0)
    influence = ((moved.changes - moved.inside * means) * scale) @ lifted.T
    return curve, influence - (moved.at @ curve)[:, None] / there


# The public function --------------------------------------------------------------------------------------------------


def posterior(stand_in: StandIn, model: Model, results: Sequence[Any] = (), *, rows: int | None = None) -> Posterior:
    """What a stand-in, a model and released results say together: free, because it sees nothing else.

    stand_in  a result of `dpx.stand_in`
    model     the model to be explained
    results   curves and marginals that were released from the same table: each of their numbers is evidence. Those that
              the stand-in was made of are not counted again.
    rows      how many synthetic rows to ask the model about
    """
    if not isinstance(stand_in, StandIn):
        raise InputError("stand_in must be a result of dpx.stand_in.", hint="dpx.stand_in(table, epsilon=...)")
    if not isinstance(model, Model):
        raise InputError("model must be a dpx.Model.", hint='dpx.Model(estimator, output=(0.0, 1.0), name="credit")')
    wanted = [name for name in model.features(stand_in.domain) if name not in stand_in.features]
    if wanted:
        raise InputError(
            f"the stand-in does not have all columns of the model; it lacks {', '.join(map(repr, wanted))}.",
            hint="release one that has: dpx.stand_in(table, epsilon=...) takes all declared columns",
        )
    size = _size(rows, READ_ROWS if not results else rows_for(stand_in.receipt.rows or int(stand_in.total)))
    drawn = stand_in.draw(size, SEED, even=EVEN if results else 0.0)
    predictor = model.checked(stand_in.domain, rows=size)
    asked = Asked(model, predictor, Rows(stand_in.domain, drawn, size))
    return Posterior(stand_in, model, asked, [])


def _size(rows: int | None, usual: int) -> int:
    if rows is None:
        return usual
    if isinstance(rows, bool) or not isinstance(rows, int) or not FEWEST <= rows <= MOST:
        raise InputError(f"rows are a whole number from {FEWEST} to {MOST:,}; got {rows!r}."[:200])
    return rows
