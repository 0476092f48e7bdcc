"""Local explanations read off a stand-in's weighted rows: any record, any weight by distance, free.

    contribution of a feature = coefficients . (record - average row), summed over the feature's coordinates

as everywhere (`attributions.py`); the average person and the coefficients are those of the weighted synthetic rows
(`maths/surrogate/rows.py`). Intervals are about what the same local model says of the rows of the table, counted from
their exact average person: to first order in how far the weights of the synthetic rows are from the table, a
contribution is off by the mean over the table of a function of a row, its influence, and `RowPosterior.mixture` says
what such means may be. They leave out higher orders, and how well a straight line describes the model.

What is written to a file are the released numbers of the stand-in and what the model said about its rows, in whole
numbers (`Kept`); everything shown follows from these. Nothing here sees rows of a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import checked_level
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError, InternalError
from dpexplain.maths.surrogate import Fit, Space, StepWeight, Weight
from dpexplain.maths.surrogate.fit import Asked, Average, AveragePerson, Released
from dpexplain.maths.surrogate.rows import Near, WeightedRows
from dpexplain.maths.weights import Known, Mixture, RowPosterior
from dpexplain.methods.attributions import REMAINDER, Attribution, LocalModelSpec, Push
from dpexplain.methods.evidence import Answered, known_cells, own_scores
from dpexplain.methods.local_sketch.result import asked_number
from dpexplain.methods.result import Floats, Result
from dpexplain.methods.sharpening import SEED, entries_of
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.models import Predictor
from dpexplain.receipts import Receipt

Integers = NDArray[np.int64]

LEVELS = 10**5  # a prediction is kept as so many steps of the output range
FINEST = 10**9  # a weight as so many steps of one
MOST_KEPT = 10**6  # rows in a file
LEFT_OUT = "intervals are likely ones, to first order, and leave out how well a straight line describes the model"


@dataclass(frozen=True)
class Kept:
    """What a model said about the rows of a stand-in: whole steps of the output range; -1 where it failed. Public.

    weights  of the rows, where the stand-in's counts by the scores of this model have weighted them
    """

    model: JsonObject  # its identity
    output: PublicRange
    features: tuple[str, ...]  # in whose terms predictions are explained
    answers: tuple[int, ...]
    weights: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        model: JsonObject,
        output: PublicRange,
        features: Sequence[str],
        predictions: Floats,
        weights: Floats | None = None,
    ) -> Kept:
        steps = np.rint((np.clip(predictions, output.low, output.high) - output.low) * (LEVELS / output.width))
        answers = np.where(np.isnan(predictions), -1, np.nan_to_num(steps)).astype(np.int64)
        fine = () if weights is None else np.rint(weights * FINEST).astype(np.int64).tolist()
        return cls(model, output, tuple(features), tuple(answers.tolist()), tuple(fine))

    @property
    def numbers(self) -> list[float]:
        """For the ledger."""
        return [float(number) for number in (*self.answers, *self.weights)]

    def with_numbers(self, numbers: Sequence[float]) -> Kept:
        """What the ledger has kept."""
        whole, size = [int(number) for number in numbers], len(self.answers)
        return replace(self, answers=tuple(whole[:size]), weights=tuple(whole[size:]))

    @cached_property
    def shares(self) -> Floats:
        """The weight of each row; they add up to one."""
        mine = np.array(self.weights or [1] * len(self.answers), dtype=np.float64)
        return np.asarray(mine / mine.sum())

    @cached_property
    def predictions(self) -> Floats:
        """In units of the output; the middle where the model failed."""
        answers = np.array(self.answers, dtype=np.float64)
        shown = self.output.low + answers * (self.output.width / LEVELS)
        return np.asarray(np.where(answers < 0, self.output.middle, shown))

    def to_json(self) -> JsonObject:
        asked = {"model": self.model, "output": [self.output.low, self.output.high], "features": list(self.features)}
        return {**asked, "answers": list(self.answers), "weights": list(self.weights)}

    @classmethod
    def from_json(cls, value: JsonObject) -> Kept:
        answers, weights, (low, high) = value["answers"], value["weights"], value["output"]
        whole = isinstance(answers, list) and all(type(a) is int and -1 <= a <= LEVELS for a in answers)
        whole = whole and isinstance(weights, list) and all(type(w) is int and 0 <= w <= FINEST for w in weights)
        fits = whole and 1 <= len(answers) <= MOST_KEPT and len(weights) in (0, len(answers))
        if not fits or not isinstance(value["model"]["name"], str) or (weights and not any(weights)):
            raise ValueError("no answers of a model")
        if (low, high) != (value["model"]["output"]["low"], value["model"]["output"]["high"]):
            raise ValueError("answers in another range than that of the model")
        return cls(value["model"], PublicRange(low, high), tuple(value["features"]), tuple(answers), tuple(weights))

    def known_as(self, stand_in: StandIn) -> str:
        """What the ledger knows these answers by: all that decides them."""
        asked = {"model": self.model, "table": stand_in.receipt.request["table"]["domain"]}
        return digest({"answers of": asked, "stand-in": entries_of(stand_in.receipt), **self.drawn})

    @property
    def drawn(self) -> JsonObject:
        return {"rows": len(self.answers), "seed": SEED}


@dataclass(frozen=True)
class RowSpec:
    """What an attribution has to know about its features and predictions."""

    space: Space
    output: PublicRange

    def read(self, released: Released, asked: Asked) -> Fit:  # noqa: ARG002
        raise InternalError("synthetic rows are read by LocalRows")


@dataclass(frozen=True, eq=False)
class LocalRows:
    """Weighted synthetic rows of a stand-in, as local explanations read them.

    knows  what released numbers say about means over the table, which takes its time and only intervals need
    basis  what all of this rests on, in words
    kept   what a file holds; None where other releases have weighted the rows
    also   these releases, as a promise names them
    """

    stand_in: StandIn
    model: JsonObject
    rows: WeightedRows
    knows: Callable[[], RowPosterior]
    basis: str
    kept: Kept | None
    also: Sequence[JsonObject] = ()

    @classmethod
    def of_kept(cls, stand_in: StandIn, kept: Kept) -> LocalRows:
        """The stand-in's rows as they are, with these predictions and weights."""
        size = len(kept.answers)
        space, drawn = Space(stand_in.domain, kept.features), Rows(stand_in.domain, stand_in.draw(size, SEED), size)
        X = space.coordinates(drawn.columns, size)
        rows = WeightedRows(space, kept.output, X, kept.predictions, kept.shares)
        how = "weighted by its counts by scores" if kept.weights else "without any other evidence"
        basis = f"Read off {size:,} synthetic rows of entry {stand_in.entry}, {how}; nothing here is proven."
        return cls(stand_in, kept.model, rows, partial(known_of, stand_in, kept, drawn), basis, kept)

    @cached_property
    def known(self) -> RowPosterior:
        return self.knows()

    @cached_property
    def spec(self) -> RowSpec:
        return RowSpec(self.rows.space, self.rows.output)

    @cached_property
    def average(self) -> AveragePerson:
        """The average row, who stands for the average person of the table. How far it is off is a part of `spread`."""
        rows = self.rows
        of = Average(rows.space, rows.output, counted=False)
        return AveragePerson(np.clip(rows.mean, 0.0, 1.0), rows.mean_prediction, math.inf, of)

    def explained(
        self,
        records: Sequence[Any],
        predictions: Sequence[Any],
        anchor: str | float | None,
        weight: Weight | StepWeight,
        width: float,
    ) -> Iterator[RowAttribution]:
        """An attribution for each record."""
        space, output = self.rows.space, self.rows.output
        points = [space.read(record) for record in records]
        if len(points) != len(predictions):
            raise InputError(f"there are {len(points)} records and {len(predictions)} predictions.", spent="")
        fixed = asked_number(anchor, output)
        steps = weight if isinstance(weight, StepWeight) else StepWeight.of(weight, space.diameter, width=width)
        own = [asked_number(prediction, output) for prediction in predictions]
        places = space.coordinates(columns_of(space, points), len(points))
        for point, said, near in zip(points, own, self.rows.around(places, steps, fixed), strict=True):
            mine = None if said is None else min(max(said, output.low), output.high)
            settings = Asked(point, mine, anchor=fixed, weight=steps)
            yield self.attribution(settings, near, point)

    def attribution(self, settings: Asked, near: Near, point: dict[str, Any]) -> RowAttribution:
        receipt, released = self.stand_in.receipt, self.stand_in.released
        found = RowAttribution(receipt, released, settings, self.fit(near), source=self, near=near)
        found.promise_with(self.also)
        vars(found).update(spec=self.spec, record=point)
        return found

    def fit(self, near: Near) -> Fit:
        """The local model at a record."""
        half = self.rows.output.width / 2
        return Fit(
            coefficients=near.phi * half,
            value=self.rows.output.middle + half * near.value,
            spread=lambda lines: self.spread(near, lines).std,
            reference=self.average.point,
            notes=(self.basis, LEFT_OUT),
            unknown=lambda lines: half * near.problem.unknown(np.atleast_2d(lines) @ near.basis),
            average=self.average,
        )

    def spread(self, near: Near, lines: Floats, moves: NDArray[np.bool_] | None = None) -> Mixture:
        """How far coefficients . line is off for the table's rows. With `moves`, lines begin at the average row in the
        features that it marks, and the table's average person is elsewhere.
        """
        spread = self.known.mixture(self.functions(near, lines, moves))
        return spread.wider(spread.mean)  # where no positive weights have the posterior means

    def functions(self, near: Near, lines: Floats, moves: NDArray[np.bool_] | None) -> Floats:
        """[row, line]: functions of a row whose means over the table are, to first order, how far a line is off."""
        half, space = self.rows.output.width / 2, self.rows.space
        functions = half * near.influence(lines)
        if moves is None:
            return functions
        own = np.repeat(moves, [where.stop - where.start for where in space.slices.values()], axis=1)
        return np.asarray(functions - (self.rows.coordinates - self.rows.mean) @ (own * (half * near.phi)).T)

    def for_file(self) -> JsonObject:
        """What a file holds besides the release of the stand-in."""
        if self.kept is None:
            raise InputError(
                "this explanation rests on several releases, which no single file holds.",
                hint="show its table or picture, or explain from the stand-in alone",
                spent="",
            )
        return {"rows": self.kept.to_json(), "stand_in": self.stand_in.view()}

    @classmethod
    def from_file(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> LocalRows:
        stand_in = StandIn.rebuild(receipt, released, view["stand_in"])
        kept = Kept.from_json(view["rows"])
        if not set(kept.features) <= set(stand_in.features):
            raise ValueError("features that the stand-in does not have")
        return cls.of_kept(stand_in, kept)


def known_of(stand_in: StandIn, kept: Kept, rows: Rows) -> RowPosterior:
    """What a stand-in says about means over the table: by its counts by scores, where these have weighted the rows."""
    pieces = own_scores(stand_in, kept.model) if kept.weights else []
    numbers = [piece.ask(Answered(rows, kept.predictions)) for piece in pieces if piece.ask is not None]
    cells = Known(np.hstack([known_cells(rows[p.feature], p) for p in stand_in.partitions]))
    return RowPosterior(rows.size, stand_in.worth, numbers, cells)


def columns_of(space: Space, points: Sequence[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """Records that `Space.read` has checked as clean columns."""
    columns: dict[str, NDArray[Any]] = {}
    for name, count in space.counts.items():
        values = [point[name] for point in points]
        if count:
            codes = {category: code for code, category in enumerate(space.domain[name].categories)}  # type: ignore[union-attr]
            columns[name] = np.array([codes[value] for value in values], dtype=np.int64)
        else:
            columns[name] = np.array(values, dtype=np.float64)
    return columns


def said_by(predictor: Predictor, space: Space, records: Sequence[Any]) -> list[float | None]:
    """The model's own predictions for some records; none where they do not have all of its columns."""
    if not records or not set(predictor.features) <= set(space.features):
        return [None] * len(records)
    points = [space.read(record) for record in records]
    rows = Rows(space.domain, columns_of(space, points), len(points))
    answers = predictor.predict_at(predictor.inputs(rows), {})
    return [None if np.isnan(answer) else float(answer) for answer in answers]


@dataclass(frozen=True)
class RowAttribution(Attribution):
    """An attribution that was read off synthetic rows of a stand-in. Its interval is likely, not proven."""

    source: LocalRows | None = field(default=None, compare=False, repr=False)
    near: Near | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "attribution-of-rows"
    interval_name: ClassVar[str] = "likely interval"

    @cached_property
    def spec(self) -> LocalModelSpec:
        return self._source.spec

    @property
    def _source(self) -> LocalRows:
        if self.source is None:
            raise ValueError("an attribution without rows")
        return self.source

    @property
    def title(self) -> str:
        return f"Local explanation of one record, model {self._source.model['name']}"

    @property
    def unsure_words(self) -> str:
        return "zero is likely too"

    @property
    def compared(self) -> str:
        end = f"{self.end_name}: {self.prediction:.3g}."
        return f"Compared with an average person of the table, by its stand-in (mean {self.base:.3g}); {end}"

    @property
    def relies_on(self) -> list[Result]:
        return self._source.stand_in.relies_on

    def _around(self, lines: Floats, moves: NDArray[np.bool_], level: float = 0.95) -> tuple[Floats, Floats]:
        """Quantiles of what is likely, and what the rows do not determine."""
        source, near = self._source, self.near
        assert near is not None
        spread, lines = source.spread(near, lines, moves), np.atleast_2d(lines)
        unknown = self.fit.unknown(lines) if self.fit.unknown is not None else 0.0
        low, high = spread.around(lines @ self.fit.coefficients).interval(checked_level(level))
        return low - unknown, high + unknown

    @cached_property
    def remainder(self) -> Push:
        """What is left between the base with all contributions and the prediction."""
        source, near, every = self._source, self.near, np.ones((1, len(self.space.features)), dtype=bool)
        assert near is not None
        value = self.prediction - self.base - float(self.values.sum())
        scaled = source.rows.scaled - source.rows.weights @ source.rows.scaled
        lines = source.functions(near, self._way[None], every)
        spread = source.known.mixture(-lines - source.rows.output.width / 2 * scaled[:, None])
        low, high = spread.wider(spread.mean).around(np.array([value])).interval(0.95)
        unknown = 0.0 if self.fit.unknown is None else float(self.fit.unknown(self._way[None])[0])
        return Push(REMAINDER, value, float(low[0]) - unknown, float(high[0]) + unknown, self.fit.settled)

    @property
    def for_file(self) -> tuple[StandIn, Kept]:
        """What its file rests on."""
        self._source.for_file()
        assert self._source.kept is not None
        return self._source.stand_in, self._source.kept

    def view(self) -> JsonObject:
        return {"asked": self.settings.to_json(), **self._source.for_file()}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> RowAttribution:
        settings, source = Asked.from_json(view["asked"]), LocalRows.from_file(receipt, released, view)
        if settings.weight is None:
            raise ValueError("no attribution of ours")
        space, output = source.rows.space, source.rows.output
        (again,) = source.explained([settings.record], [settings.prediction], settings.anchor, settings.weight, 1.0)
        outside = settings.prediction is not None and not output.low <= settings.prediction <= output.high
        if settings != replace(again.settings, weight=settings.weight) or outside or not again.title:
            raise ValueError("no attribution of ours")
        _ = again.interval(), space
        return again
