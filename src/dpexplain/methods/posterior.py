"""Explanations read off a stand-in's synthetic rows, weighted by everything that was released. Free.

Nothing here sees rows of the table, and there is no table among the arguments: everything follows from released
numbers, the public model, the stand-in and public draws. So it is no method that is registered: it releases nothing.
docs/methods/posterior.md explains it; `maths/weights.py` has the mathematics.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.data.rows import STEP, Rows
from dpexplain.errors import InputError
from dpexplain.maths.binning import Bins, Steps, steps_of
from dpexplain.maths.grids import Axis, axis_of, with_missing
from dpexplain.maths.posterior import DOMAIN_WORTH, EVEN, MOST_ROWS, rows_for
from dpexplain.maths.surrogate import Space, StepWeight, Weight
from dpexplain.maths.surrogate.rows import WeightedRows
from dpexplain.maths.weights import Known, Numbers, RowPosterior
from dpexplain.methods.accumulated_effects.request import AccumulatedEffects
from dpexplain.methods.counterfactuals import Counterfactuals, counterfactuals
from dpexplain.methods.curves import MOST_POINTS
from dpexplain.methods.evidence import Asked, Piece, changes_within, known_cells, pieces_of
from dpexplain.methods.individuals import PROBS, IndividualCurves, Statement, individual_curves, shape
from dpexplain.methods.local_readings import Kept, LocalRows, RowAttribution, said_by
from dpexplain.methods.local_sketch.result import Attributions, lines_of
from dpexplain.methods.partial_dependence.request import Feature, PartialDependence
from dpexplain.methods.readings import Floats, Reading, Readings
from dpexplain.methods.sharpening import SEED
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.methods.swarms import ROWS as SWARM
from dpexplain.methods.swarms import Summary, summary
from dpexplain.models import Model, Predictor
from dpexplain.models.predictor import frame_of

if TYPE_CHECKING:
    import pandas as pd

READ_ROWS = 10_000  # synthetic rows where there is no evidence: then all there is to lose is chance in drawing
ROWS_PER_NUMBER = 4  # synthetic rows for each released number, up to MOST_ROWS: else hardly any weights fit all of them
FEWEST, MOST = 100, 1_000_000  # synthetic rows that may be asked for
BINS, RESOLUTION, PAIR_RESOLUTION = 20, 25, 12  # of a curve that is read off, where nothing else is said
FINE_BINS = 100  # where there is no evidence, and many synthetic rows
BLIND = "Where no release says anything, the table may differ from these rows, and intervals may hold far less often."
AGAINST = "Some releases and the synthetic rows contradict each other: see `contradictions`."
FEW_ROWS = 10  # synthetic rows of a bin, below which all synthetic rows, moved there, make up for the rest


class Posterior:
    """What is likely about the table, given a stand-in and released numbers: weights of synthetic rows.

    `partial_dependence`, `accumulated_effects`, `expect` and `explain` read explanations off it, with intervals. These
    assume that the table resembles the synthetic rows in some measure, which is estimated from the evidence. They are
    quantiles of a mixture of normal distributions; laws of noise that are not normal enter by their covariance. Without
    evidence nothing says how good the stand-in is, and they are wide. Proven intervals stand in the results themselves.
    """

    def __init__(
        self, stand_in: StandIn, model: Model, asked: Asked, pieces: Sequence[Piece], even: float = EVEN
    ) -> None:
        """`even` is the share of values of synthetic rows that were drawn evenly from the domain."""
        self.stand_in, self.model, self._asked, self._pieces = stand_in, model, asked, list(pieces)
        self._even = even
        self._numbers = [(piece, piece.ask(asked)) for piece in pieces if piece.ask is not None]
        self._cells = Known(np.hstack([known_cells(asked.rows[p.feature], p) for p in stand_in.partitions]))
        self._rows = self._given([numbers for _, numbers in self._numbers])

    def _given(self, numbers: Sequence[Numbers]) -> RowPosterior:
        most = DOMAIN_WORTH if self.stand_in.free else self.stand_in.worth
        return RowPosterior(self._asked.rows.size, most, numbers, self._cells)

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
    def effective_rows(self) -> float:
        """How many rows of equal weight the weighted rows are as good as. Far fewer than there are rows: the evidence
        had to look for rows that are rare in the stand-in.
        """
        return self._rows.effective_rows

    @property
    def evidence(self) -> pd.DataFrame:
        """Which releases were used, and which were left out and why."""
        import pandas as pd

        columns = ["entry", "release", "numbers used", "left out because"]
        lines = [(p.entry, p.title, 0 if p.ask is None else p.size, p.left_out) for p in self._pieces]
        return pd.DataFrame(lines, columns=columns)

    @cached_property
    def contradictions(self) -> list[str]:
        """A sentence for each release that does not agree with the stand-in, and one if all of them together do not:
        then the stand-in is worth next to nothing there, or off by as much as the noise.
        """
        which = [piece for piece, mine in self._numbers if self._given([mine.all_judging()]).contradicts]
        said = [
            f"{piece.title} (entry {piece.entry}) and the stand-in do not agree: "
            "trust the proven interval of that release, and what is read off here less."
            for piece in which
        ]
        if self._rows.contradicts and len(self._numbers) > 1:
            said.append("All releases together and the stand-in do not agree: it knows little about this table.")
        return said

    @property
    def basis(self) -> str:
        """What everything here rests on, in words."""
        where = f"Read off {len(self):,} synthetic rows of entry {self.stand_in.entry}"
        how = f"weighted by {self._rows.size:,} released numbers" if self._rows.size else "without any other evidence"
        blind = "" if not self._rows.size else f" {BLIND}"
        against = f" {AGAINST}" if self.contradictions else ""
        return f"{where}, {how}; nothing here is proven.{blind}{against}"

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
        about = (output.low, output.high), self.basis
        return Reading("Partial dependence", axes, values, spread, *about, names=self.stand_in.receipt.names)

    def _axis(self, feature: str, grid: Any, resolution: int) -> Axis:
        mine = grid.get(feature) if isinstance(grid, Mapping) else grid
        domain = self.stand_in.domain
        known = [piece.axes[feature] for piece in self._pieces if piece.axes and feature in piece.axes]
        if mine is None and known and resolution == RESOLUTION:
            return known[0]  # the grid of the evidence
        return with_missing(axis_of(domain, feature, mine, resolution), domain[feature])

    def accumulated_effects(self, features: str | Sequence[str], bins: int | None = None) -> Readings:
        """How the prediction changes along a column, for the rows that have about that value; centred.

        bins  the most bins of a column of numbers; they have near-equal mass by the stand-in
        """
        request = AccumulatedEffects(feature=features, bins=bins)
        self._known(request.features)
        return Readings([self._effects(name, request.bins or self._most_bins) for name in request.features])

    @property
    def _most_bins(self) -> int:
        return BINS if any(piece.ask is not None for piece in self._pieces) else FINE_BINS

    def _steps(self, feature: str) -> Steps:
        """The points between which effects are taken: the ends of the stand-in's cells."""
        cells = self.stand_in.partitions[self.stand_in.features.index(feature)]
        return steps_of(feature, self.stand_in.domain[feature], cells)

    def _effects(self, feature: str, number: int) -> Reading:
        steps = self._steps(feature)
        bins = self._bins(steps, number)
        inside, changes = changes_within(self._asked, steps, bins, self._asked.change)
        at, beyond = at_points(self._asked, steps, bins), self._beyond(steps, bins, inside)
        curve, influence = accumulated(inside, changes, at, self.weights, beyond)
        span = self._asked.output.width
        spread = self._rows.mixture(influence)
        spread = spread.wider(spread.mean).around(curve)  # by what no positive weights could reach
        axes, values = (Axis(feature, bins.points, steps.ordered),), np.clip(curve, -span, span)
        about = "effect on the prediction"
        names = self.stand_in.receipt.names
        return Reading("Accumulated effect", axes, values, spread, (-span, span), self.basis, about, names=names)

    def _bins(self, steps: Steps, number: int) -> Bins:
        values = self._drawn[steps.feature]
        counts = steps.cells.counts(values[steps.present(values)]).astype(np.float64)
        total = max(float(counts.sum()), 1.0)
        return Bins.of_counts(steps, counts, total, number=number, count_std=0.0, sum_std=0.0)

    @cached_property
    def _drawn(self) -> dict[str, NDArray[Any]]:
        """Rows of the stand-in as it is, by which bins are cut: the model is not asked about them."""
        return self.stand_in.draw(READ_ROWS, SEED)

    def _beyond(self, steps: Steps, bins: Bins, inside: Floats) -> Floats:
        """The effect in bins that have few synthetic rows, or none: that of all rows, moved there. Else zero."""
        beyond = np.zeros(bins.size)
        settings = bins.points if steps.ordered else range(len(bins.points))
        for place in np.flatnonzero(inside.sum(axis=0) < FEW_ROWS):
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
        name = getattr(function, "__name__", "function").replace("<lambda>", "a function")
        spread = self._rows.mixture(lines)
        possible = float(lines.min()), float(lines.max())
        return Reading(f"Mean of {name}", (), spread.mean, spread, possible, self.basis, "mean", cut=False)

    # Records ----------------------------------------------------------------------------------------------------------

    def explain(
        self,
        record: Any,
        prediction: float | None = None,
        *,
        anchor: str | float | None = None,
        weight: Weight | StepWeight = "stable",
        width: float = 1.0,
    ) -> RowAttribution:
        """What moves the model's prediction for one record, by a linear model of the synthetic rows near it.

        record      a mapping or pandas Series by name, or a sequence in the order of the model's columns
        prediction  the model's own output for it; without it, the model is asked
        anchor, weight, width  as for `LocalSketch.explain`
        """
        known = None if prediction is None else [prediction]
        (found,) = self._explained([record], known, anchor, weight, width)
        return found

    def explain_many(
        self,
        records: Any,
        predictions: Sequence[float] | None = None,
        *,
        anchor: str | float | None = None,
        weight: Weight | StepWeight = "stable",
        width: float = 1.0,
    ) -> Attributions:
        """`explain` for each line of a DataFrame, or for each record of a list, with the same options."""
        return Attributions(self._explained(lines_of(records), predictions, anchor, weight, width))

    def _explained(
        self, records: list[Any], predictions: Any, anchor: Any, weight: Weight | StepWeight, width: float
    ) -> Iterator[RowAttribution]:
        local, few = self.local, self._asked.predictor.resized(STEP)
        said = said_by(few, local.rows.space, records) if predictions is None else list(predictions)
        return local.explained(records, said, anchor, weight, width)

    @cached_property
    def local(self) -> LocalRows:
        """The weighted rows as local explanations read them."""
        return self.local_in(self.model.features(self.stand_in.domain))

    def local_in(self, features: Sequence[str]) -> LocalRows:
        """Likewise, in terms of some columns."""
        asked, stand_in, known = self._asked, self.stand_in, [piece for piece, _ in self._numbers]
        own = bool(known) and all(piece.own for piece in known)
        if self._even and (own or not known):
            return local_rows(stand_in, self.model, features)
        if own or not known:
            weights, answers = self.weights if own else None, asked.raw({})
            kept = Kept.of(self.model.identity, self.model.output, features, answers, weights)
            return LocalRows.of_kept(stand_in, kept)
        space = Space(stand_in.domain, tuple(features))
        X = space.coordinates(asked.rows.columns, asked.rows.size)
        rows = WeightedRows(space, asked.output, X, asked.raw({}), self.weights)
        also = [one for piece in known for one in piece.promised]
        return LocalRows(stand_in, self.model.identity, rows, lambda: self._rows, self.basis, None, also)

    # Many rows at once ------------------------------------------------------------------------------------------------

    def individual_curves(self, feature: str, probs: Sequence[float] = PROBS) -> IndividualCurves:
        """How predictions for single synthetic rows go along a column: bands that hold shares of them."""
        return individual_curves(self, feature, probs)

    def shape(self, feature: str) -> list[Statement]:
        """Sentences about the mean prediction along a column, each with its probability, the likeliest first."""
        return shape(self, feature)

    def summary(self, rows: int = SWARM, *, classes: bool = False) -> Summary:
        """What each column adds to the predictions for some synthetic rows, to be drawn as a swarm of dots.

        classes  for a classifier: every class, instead of the one that the model explains
        """
        return summary(self, rows, classes=classes)

    def counterfactuals(
        self,
        record: Any,
        wanted: tuple[float | None, float | None],
        *,
        keep: Sequence[str] = (),
        most_changes: int = 3,
        most: int = 5,
    ) -> Counterfactuals:
        """What would have to be different about a record for the prediction to lie in a range.

        wanted        (low, high) of the prediction; None for an end that does not matter
        keep          columns that stay as they are
        most_changes  columns that one way changes at most; `most` ways are told
        """
        about: dict[str, Any] = {"keep": keep, "most_changes": most_changes, "most": most}
        return counterfactuals(self, record, wanted, **about)

    def predictions_along(self, feature: str) -> tuple[Axis, Floats]:
        """The public points of a column, and [synthetic row, point]: predictions with the column at each of them."""
        self._known([feature])
        axis = self._axis(feature, None, RESOLUTION)
        return axis, np.column_stack([self._asked.at({feature: point}) for point in axis.settings])

    def drawn_means(self, answers: Floats, number: int, seed: int) -> Floats:
        """[draw, function]: joint draws of the means of some functions, given for each synthetic row."""
        return self._rows.joint_draws(answers, number, seed)

    @property
    def synthetic(self) -> Rows:
        """The synthetic rows, in codes."""
        return self._asked.rows

    @property
    def predictions(self) -> Floats:
        """What the model says about them, within its range."""
        return self.predictions_at({})

    def predictions_at(self, fixed: Mapping[str, float]) -> Floats:
        """Likewise, with some columns at one value for all of them: a number, or the code of a category."""
        return self._asked.at(fixed)

    def said(self, records: Any) -> Floats:
        """The model's own predictions for some records, within its range."""
        rows = lines_of(records)
        found = said_by(self._asked.predictor.resized(STEP), self.local.rows.space, rows)
        return np.array([self.model.output.middle if one is None else one for one in found])

    @property
    def predictor(self) -> Predictor:
        """The model as it was asked."""
        return self._asked.predictor

    def shap_values(self, records: Any, background: int = 100) -> Any:
        """SHAP values of one record, or of several, as a `shap.Explanation`: by shap's permutations, with rows of the
        stand-in as background. They have no interval.

        background  how many synthetic rows other values are taken from, drawn by their weights
        """
        from dpexplain.methods.shapley_rows import shap_of_rows

        return shap_of_rows(self._asked.predictor, self._asked.rows, self.weights, records, background)

    def _known(self, features: Sequence[str]) -> None:
        for name in features:
            self.stand_in.domain.column(name)
            if name not in self.stand_in.features:
                raise InputError(
                    f"the stand-in does not have {name!r}.", hint="it has: " + ", ".join(self.stand_in.features)
                )


# Accumulated effects of weighted rows ---------------------------------------------------------------------------------


def at_points(asked: Asked, steps: Steps, bins: Bins) -> Floats:
    """[row, point]: what each point of the curve counts for a row, taken at the middle of its cell; zeros for missing
    values.
    """
    values = asked.rows[steps.feature]
    present = steps.present(values)
    cells = np.array([bins.at_cells(alone) for alone in np.eye(len(bins.points))]).T
    filled = np.where(present, values, bins.points[0]) if steps.ordered else values
    return np.asarray(cells[steps.cells.place(filled)] * present[:, None])


def accumulated(inside: Floats, changes: Floats, at: Floats, weights: Floats, beyond: Floats) -> tuple[Floats, Floats]:
    """The centred curve of weighted rows, and [row, point] its influence function: how far a little more weight of a
    row moves it (its mean over the weighted rows is zero).

    inside, changes  as `changes_within` returns them; `at` as `at_points` does
    beyond           the effects that make up for rows in bins with fewer than FEW_ROWS
    """
    rows = inside.sum(axis=0)
    own = np.minimum(rows / FEW_ROWS, 1.0)  # the share of an effect that is that of the bin's own rows
    mass = np.maximum(weights @ inside, 1e-300)
    means = np.where(rows > 0, (weights @ changes) / mass, 0.0)
    effects = own * means + (1 - own) * beyond
    add = np.tril(np.ones((at.shape[1], len(effects))), -1)
    there = max(float(weights @ at.sum(axis=1)), 1e-300)
    lifted = add - (weights @ at) / there @ add
    curve = lifted @ effects
    scale = np.where(rows > 0, own / mass, 0.0)
    influence = ((changes - inside * means) * scale) @ lifted.T
    return curve, influence - (at @ curve)[:, None] / there


# The public function --------------------------------------------------------------------------------------------------


def posterior(stand_in: StandIn, model: Model, results: Sequence[Any] = (), *, rows: int | None = None) -> Posterior:
    """What a stand-in, a model and released results say together: free, because it sees nothing else.

    stand_in  a result of `dpx.stand_in`
    model     the model to be explained
    results   curves and marginals that were released from the same table: each of their numbers is evidence. Those that
              the stand-in was made of are not counted again.
    rows      how many synthetic rows to ask the model about
    """
    return _posterior(stand_in, model, results, rows, None)


def local_rows(stand_in: StandIn, model: Model, features: Sequence[str] | None = None) -> LocalRows:
    """A stand-in's rows as local explanations read them, weighted by its counts by scores where it has them."""
    known = _posterior(stand_in, model, (), None, 0.0)  # no value is drawn evenly: too little evidence corrects it
    return known.local if features is None else known.local_in(features)


def _posterior(
    stand_in: StandIn, model: Model, results: Sequence[Any], rows: int | None, even: float | None
) -> Posterior:
    if not isinstance(stand_in, StandIn):
        raise InputError("stand_in must be a result of dpx.stand_in.", hint="dpx.stand_in(table, epsilon=...)")
    if not isinstance(model, Model):
        raise InputError("model must be a dpx.Model.", hint='dpx.Model(estimator, output=(0.0, 1.0), name="credit")')
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or not FEWEST <= rows <= MOST):
        raise InputError(f"rows are a whole number from {FEWEST} to {MOST:,}; got {rows!r}."[:200])
    wanted = [name for name in model.features(stand_in.domain) if name not in stand_in.features]
    if wanted:
        raise InputError(
            f"the stand-in does not have all columns of the model; it lacks {', '.join(map(repr, wanted))}.",
            hint="release one that has: dpx.stand_in(table, epsilon=...) takes all declared columns",
        )
    predictor = model.checked(stand_in.domain, rows=rows)
    pieces = pieces_of(stand_in, model, results)
    known = any(piece.ask is not None for piece in pieces)
    numbers = sum(piece.size for piece in pieces if piece.ask is not None)
    usual = rows_for(stand_in.receipt.rows or int(stand_in.total) or None)
    enough = max(usual, min(ROWS_PER_NUMBER * numbers, MOST_ROWS))
    size = rows or (enough if known else READ_ROWS)
    if even is None:
        even = EVEN if known else 0.0  # where nothing corrects them, even values would mislead
    drawn = stand_in.draw(size, SEED, even=even)
    return Posterior(stand_in, model, Asked(model, predictor, Rows(stand_in.domain, drawn, size)), pieces, even)
