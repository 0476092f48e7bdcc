"""What a person's own inputs did to the model's answer for that person: arithmetic on released marginals.

Guarantee    that of the marginals, which are paid for here or were released before. Nothing else is spent: no row is
             read. The person's record is the caller's own, and whoever sees the result sees it.
Statistic    o(S) is the model's outcome for the person with the inputs in S replaced by values u_S, each drawn from its
             released marginal, independently. The game is E[o() - o(S)] ("individual") or E|o() - o(S)| ("actual");
             influences are those of its sets, or its Shapley or Banzhaf values (`maths/games.py`).
Sensitivity  that of the marginals: `Sensitivity.of_counts`.
Release      as in `methods/marginals/release.py`. Afterwards, free: where the model can be asked about all
             combinations of cells, expectations are exact; otherwise values are drawn with a public seed, evenly over
             each marginal, a fresh draw for each order and its reverse. Slopes by the shares of cells carry the noise
             of the marginals into the intervals, and take back what making shares non-negative did to the estimate.
References   Datta, Sen, Zick, "Algorithmic Transparency via Quantitative Input Influence" 2016; Owen 2014.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from dpexplain.columns import Date
from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError, ModelError
from dpexplain.maths.games import DRAWN, Plan, exact_plan, sets_plan
from dpexplain.maths.grids import CELLS, cells_of
from dpexplain.maths.reference import Reference
from dpexplain.maths.surrogate import Space
from dpexplain.maths.surrogate.space import is_missing
from dpexplain.maths.tails import combined_halfwidth
from dpexplain.methods import histogram as histograms
from dpexplain.methods.influence.forecast import MOST_FEATURES, TYPICAL, items_of, known_rows
from dpexplain.methods.influence.person import Answer, Line, PersonInfluence, runs_of
from dpexplain.methods.influence.request import MOST_SAMPLES, InfluenceRequest, records_of
from dpexplain.methods.influence.spec import MOST_OUTCOMES, Question
from dpexplain.methods.marginals.release import release_cells
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.marginals.spec import Spec as CountsSpec
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.models import Model, Predictor
from dpexplain.models.outcomes import Outcome

if TYPE_CHECKING:
    from dpexplain.methods.transparency.request import TransparencyRequest

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

GRID = 4_096  # combinations of points that a model is asked about one by one
EVALUATIONS = 2**19  # changed records that a model is asked about for all persons together, where values are drawn
FEWEST, MOST = 2**12, 2**15  # for one of them
EXACT_DRAWS = 32  # draws of other values where all sets of inputs are asked about
AT_ONCE = 2**16  # rows in one call of the model
BATCHES, MISSED = 16, 1.5  # of draws, for the Monte Carlo error
GROUPS = (8, 64)  # at least and at most: cells are joined for the slopes of drawn games
DRAWS, LEAST = 32, 6  # about, and at least, so many to a group
TOGETHER = 1.1  # what cells leave open is told for one input at a time; several may move each other's part
FEW_DRAWS = 256  # that are asked about at the ends of their cells, however many inputs there are
DIGITS = 12  # of slopes, in parts of the range of outcomes
STREAM = 2**40  # keeps the draws of values apart from those of orders


@dataclass(frozen=True, eq=False)
class Persons:
    """The people who are explained: all inside the domain."""

    rows: Rows
    records: list[JsonObject]  # their values as people write them
    missing: list[tuple[str, ...]]  # for each, the columns whose declared default stands in for a missing value


def read_persons(row: Any, domain: Domain, needed: Sequence[str]) -> Persons:
    """One person or several, from a mapping, a pandas Series or the lines of a DataFrame.

    A missing value takes the declared default, as in the table. A record is the caller's own, so unlike everywhere else
    errors may speak of its values.
    """
    space, given = Space(domain, tuple(dict.fromkeys(needed))), records_of(row)
    records = [_checked(record, domain, space) for record in given]
    columns: dict[str, NDArray[Any]] = {}
    for name in space.features:
        column, values = domain[name], [record[name] for record in records]
        if isinstance(column, Categorical):
            columns[name] = np.array([column.categories.index(value) for value in values], dtype=np.int32)
        else:
            columns[name] = np.array(values, dtype=np.float64)
    default = [name for name in space.features if not domain[name].keeps_missing]
    missing = [tuple(name for name in default if is_missing(record[name])) for record in given]
    return Persons(Rows(domain, columns, len(records)), records, missing)


def _checked(record: Mapping[Any, Any], domain: Domain, space: Space) -> JsonObject:
    if unknown := [name for name in record if name not in domain]:
        raise InputError(
            f"the person's row has {unknown[0]!r}, which is not a declared column."[:200],
            hint="declared columns: " + ", ".join(domain),
        )
    values = space.read(record)
    for name, value in values.items():
        column = domain[name]
        if isinstance(column, Numeric) and column.integer and not isinstance(column, Date) and value is not None:
            if not float(value).is_integer():
                raise InputError(f"{name}={value:g} is not a whole number, as it is declared to be.")
            values[name] = int(value)
    return values


# Other values ---------------------------------------------------------------------------------------------------------


def drawn(reference: Reference, public: PublicRandom, batches: Sequence[int]) -> tuple[NDArray[Any], Integers]:
    """Values and their cells, in each batch spread evenly over the marginal: of ten, one in each tenth of it."""
    draw = public.generator
    even = np.concatenate([(draw.permutation(size) + draw.random(size)) / size for size in batches])
    cell = reference.cell_at(even)
    return reference.at(cell, draw.random(len(even))), cell


# The game -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Found:
    """One influence of each person: its estimate, the Monte Carlo error, and how it moves with the shares of cells."""

    value: Floats
    error: Floats
    slopes: dict[str, Floats]  # feature -> one line for each person, one number for each cell
    gaps: dict[str, Floats]  # feature -> persons x 2 x cells: how far a slope may be too high, and too low, if values
    #                          lie elsewhere in their cells


@dataclass(frozen=True, eq=False)
class Player:
    """Plays a question for several persons at once."""

    question: Question
    persons: Rows
    references: Mapping[str, Reference]  # of the replaced features that the model uses
    predictor: Predictor

    def play(self) -> list[Found]:
        """One `Found` for each item. A feature that the model does not use has no influence."""
        if self.question.aggregate == "unary":
            return [self._unary(item) for item in self.question.items]
        names = [name for name in self.question.names if name in self.references]
        lines = dict(zip(names, self._shared(names), strict=True)) if names else {}
        return [lines.get(name, self._nothing) for (name,) in self.question.items]

    @property
    def _nothing(self) -> Found:
        none = np.zeros(self.persons.size)
        return Found(none, none, {}, {})

    @property
    def _affordable(self) -> int:
        """How many changed records of each person; fewer persons get more of them."""
        return min(max(EVALUATIONS // self.persons.size, FEWEST), MOST)

    def _unary(self, item: tuple[str, ...]) -> Found:
        own = [name for name in dict.fromkeys(item) if name in self.references and name not in self.question.given]
        given = [name for name in self.question.given if name in self.references]
        names, question = [*own, *given], self.question
        if not own:
            return self._nothing
        mask, known = 2 ** len(own) - 1, 2 ** len(names) - 2 ** len(own)
        if self._enumerable(names):
            return self._enumerated(names, sets_plan(len(names), [mask], 1, known))[0]
        draws = question.samples or self._affordable // 2
        return self._sampled(names, sets_plan(len(names), [mask], draws, known), [mask])[0]

    def _shared(self, names: list[str]) -> list[Found]:
        question, M = self.question, len(names)
        if self._enumerable(names):
            return self._enumerated(names, exact_plan(M, question.aggregate, 1))
        if question.exact:
            plan = exact_plan(M, question.aggregate, question.samples or EXACT_DRAWS)
        else:  # every order takes M questions, every set one
            drawn = question.samples or self._affordable // (M if question.aggregate == "shapley" else 1)
            plan = DRAWN[question.aggregate](M, drawn, -(-drawn // 2), question.seed)
        return self._sampled(names, plan, [1 << j for j in range(M)])

    def _enumerable(self, names: Sequence[str]) -> bool:
        combinations = math.prod(1 + len(self.references[name].cells) for name in names)
        return self.question.exact is not False and self.question.samples is None and combinations <= GRID

    def _enumerated(self, names: list[str], plan: Plan) -> list[Found]:
        """Exact expectations: the model is asked about all combinations of the own values and all points.

        By the value of one input, the mean over the others is a function; where in a cell it is smallest and largest
        is asked for at the points and at both ends.
        """
        references = [self.references[name] for name in names]
        weights = np.zeros((plan.size, 2 ** len(names)))
        np.add.at(weights.T, plan.masks, -plan.weights.T / plan.denominator)
        means = [reference.kept_or_replaced for reference in references]
        every = [np.arange(1 + len(reference.cells)) for reference in references]
        game = self._over(names, every)
        values = _by_mask(_contracted(game, means)) @ weights.T
        found = [replace(self._nothing, value=value, slopes={}, gaps={}) for value in values.T]
        for j, (name, reference) in enumerate(zip(names, references, strict=True)):
            cells, size, points = np.flatnonzero(reference.wide), reference.partition.size, len(reference.cells)
            ends = [*every[:j], 1 + points + np.concatenate([cells, size + cells]), *every[j + 1 :]]
            at_points = _by_value(game, means, j, weights)[:, 1:]
            at_ends = _by_value(self._over(names, ends), means, j, weights) if len(cells) else at_points[:, :0]
            place = np.concatenate([reference.cells, cells, cells])
            for i, influence in enumerate(found):
                by_value = np.concatenate([at_points[:, :, i], at_ends[:, :, i]], axis=1)
                slope = influence.slopes[name] = at_points[:, :, i] @ reference.by_cell.T
                low, high = np.full((2, *slope.shape), slope)
                np.minimum.at(low.T, place, by_value.T)
                np.maximum.at(high.T, place, by_value.T)
                influence.gaps[name] = np.stack([slope - low, high - slope], axis=1)
        return found

    def _over(self, names: list[str], asked: Sequence[Integers]) -> Floats:
        """The game at all combinations of some values of each input: the own one (0), points, lower and upper ends."""
        place = [at.reshape(-1) for at in np.meshgrid(*asked, indexing="ij")]
        changed = {}
        for name, at in zip(names, place, strict=True):
            others = np.concatenate([self.references[name].points, *self.references[name].ends])
            changed[name] = (at > 0, others[at - 1])
        return self._game(changed).reshape(self.persons.size, *map(len, asked))

    def _sampled(self, names: list[str], plan: Plan, own: Sequence[int]) -> list[Found]:
        """Means over public draws of other values. Batches of draws are independent, so they tell the error.

        own   for each influence, the inputs that it is of, as a mask
        """
        public, batches = PublicRandom(STREAM + self.question.seed), _batches(plan.most_draws)
        others = [drawn(self.references[name], public, batches) for name in names]
        game = self._replaced(names, plan.masks, [values[plan.draws] for values, _ in others])
        weights = -plan.weights / plan.denominator
        T, batch = plan.most_draws, np.repeat(np.arange(len(batches)), batches)[plan.draws]
        found = []
        for line in weights:
            error = _error(game * line, batch, batches, self.question.outcome.range.width)
            found.append(replace(self._nothing, value=game @ line, error=error, slopes={}, gaps={}))
        wide = sum(bool(self.references[name].wide.any()) for name in names)
        some = max(min(T, FEW_DRAWS), T // max(1, wide))  # as many more questions as were asked until here
        for j, name in enumerate(names):
            reference, cell, inside = self.references[name], others[j][1], plan.masks >> j & 1 == 1
            slopes = _group_slopes(reference, cell, plan.draws, game, _moved(weights, inside, own, j), T)
            at = np.flatnonzero(inside & (plan.draws < some))
            draws, moved = plan.draws[at], []
            for end in reference.ends if reference.wide.any() else ():
                values = [values[draws] for values, _ in others]
                values[j] = end[cell[draws]]
                change = self._replaced(names, plan.masks[at], values) - game[:, at]
                moved.append(_group_slopes(reference, cell[:some], draws, change, weights[:, at], T))
            for i, influence in enumerate(found):
                influence.slopes[name] = slopes[i]
                changes = np.array([np.zeros_like(slopes[i]), *(lines[i] for lines in moved)])
                influence.gaps[name] = np.stack([-changes.min(axis=0), changes.max(axis=0)], axis=1)
        return found

    def _replaced(self, names: list[str], masks: Integers, values: Sequence[NDArray[Any]]) -> Floats:
        """The game with the inputs in each mask at these values, one of each input for each mask."""
        return self._game({name: (masks >> j & 1 == 1, values[j]) for j, name in enumerate(names)})

    def _game(self, changed: Mapping[str, tuple[NDArray[np.bool_], NDArray[Any]]]) -> Floats:
        """o() - o(S), or its absolute value, for changed records of each person: for each input, which of the records
        have another value, and what it is.
        """
        size, before = len(next(iter(changed.values()))[0]), self._ask(self.persons)
        games, step = np.empty((self.persons.size, size)), max(1, AT_ONCE // size)
        for start in range(0, self.persons.size, step):
            some = self.persons.take(slice(start, start + step))
            columns = {name: np.repeat(some[name], size) for name in self.predictor.features}
            for name, (there, values) in changed.items():
                columns[name] = np.where(there, values, some[name][:, None]).reshape(-1)
            after = self._ask(Rows(some.domain, columns, some.size * size)).reshape(some.size, size)
            games[start : start + step] = before[start : start + step, None] - after
        output = self.question.outcome.range
        games *= output.width / output.levels
        return np.abs(games) if self.question.absolute else games

    def _ask(self, rows: Rows) -> Integers:
        """Outcomes in whole steps. The records are public: the model may be asked about any number of them at once."""
        return self.question.outcome.quantized(self.predictor.predict_at(self.predictor.inputs(rows), {}))


def _contracted(game: Floats, lines: Sequence[Floats]) -> Floats:
    """A matrix applied along each axis behind the first, which is that of the persons."""
    for axis, matrix in enumerate(lines, 1):
        game = np.moveaxis(np.tensordot(matrix, game, (1, axis)), 0, axis)
    return game


def _by_value(game: Floats, means: Sequence[Floats], j: int, weights: Floats) -> Floats:
    """By the values of input j, the influences without what does not depend on it; the other inputs are averaged."""
    game = np.moveaxis(game, 1 + j, 1)
    persons, values = game.shape[:2]
    cells = _contracted(game.reshape(-1, *game.shape[2:]), [*means[:j], *means[j + 1 :]])
    others = np.arange(2 ** (len(means) - 1))
    masks = (others >> j << (j + 1)) | 1 << j | others & ((1 << j) - 1)
    return (_by_mask(cells) @ weights[:, masks].T).reshape(persons, values, -1)


def _by_mask(game: Floats) -> Floats:
    """From an axis of two for each input to one axis of masks: the first input is the lowest bit."""
    return np.transpose(game, (0, *range(game.ndim - 1, 0, -1))).reshape(len(game), -1)


def _batches(draws: int) -> list[int]:
    """Sizes of batches: several draws in each, and enough of them to see how much they differ."""
    number = max(min(BATCHES, draws // 4), min(2, draws))
    return [len(part) for part in np.array_split(np.arange(draws), number)]


def _error(terms: Floats, batch: Integers, sizes: Sequence[int], width: float) -> Floats:
    """The standard error of a sum of terms, one line for each person, from the differences between batches.

    A little larger for few batches, so that 1.96 of it is the quantile of their t distribution; and never so small that
    it would rule out a change that happens in one of T draws, which all of them may have missed (rule of three).
    """
    B, T = len(sizes), sum(sizes)
    if B == 1:
        return np.full(len(terms), width)
    order = np.argsort(batch, kind="stable")
    sums = np.add.reduceat(terms[:, order], np.searchsorted(batch[order], np.arange(B)), axis=1)
    spread = (sums * (T / np.array(sizes))).std(axis=1, ddof=1)
    error = spread * float(stdtrit(B - 1, 0.975) / ndtri(0.975)) / math.sqrt(B)
    return np.asarray(np.maximum(error, MISSED * width / T))


def _moved(weights: Floats, inside: NDArray[np.bool_], own: Sequence[int], j: int) -> Floats:
    """The weights of the outcomes that input j moves: of those with j replaced. An influence of j itself is a
    difference of outcomes with and without; both are taken, so that what they have in common drops out.
    """
    whole = np.array([mask >> j & 1 == 1 for mask in own])
    return np.where(inside[None, :] | whole[:, None], weights, 0.0)


def _group_slopes(
    reference: Reference, cell: Integers, draws: Integers, game: Floats, weights: Floats, T: int
) -> list[Floats]:
    """For each influence, its mean over the draws from each group of cells: how it moves with the group's share.

    draws   of each outcome; some of T, whose cells are known
    """
    group = _groups(reference.shares, cell)
    size, number = int(group[-1]) + 1, np.bincount(group[cell])
    parts = np.zeros((len(draws), len(weights), size))
    parts[np.arange(len(draws)), :, group[cell][draws]] = weights.T
    found = (game @ parts.reshape(len(parts), -1)).reshape(-1, len(weights), size) * T / number
    return [found[:, i, group] for i in range(len(weights))]


def _groups(shares: Floats, cell: Integers) -> Integers:
    """The group of each cell: neighbours with about equal shares, and each group with some of the drawn cells."""
    middle, wanted = np.cumsum(shares) - shares / 2, min(max(len(cell) // DRAWS, GROUPS[0]), GROUPS[1])
    group = np.unique(np.minimum((wanted * middle).astype(np.int64), wanted - 1), return_inverse=True)[1]
    while group[-1] > 0:
        number = np.bincount(group[cell], minlength=int(group[-1]) + 1)
        few = int(np.argmin(number))
        if number[few] >= LEAST:
            break
        first = few - 1 if few > 0 and (few == group[-1] or number[few - 1] <= number[few + 1]) else few
        group = np.where(group > first, group - 1, group)  # `first` and the next one become one
    return group


# The answer -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Inquiry:
    """A question about some persons that can be answered: what cannot is refused here, before anything is paid."""

    question: Question
    model: Model
    predictor: Predictor
    persons: Persons
    scores: Floats  # the model's own answers

    @classmethod
    def of(cls, request: InfluenceRequest | TransparencyRequest, table: PrivateTable, model: Model) -> Inquiry:
        question, predictor = question_of(request, Setting.of(table, model)), table.predictor(model)
        _check(question, predictor)
        persons = read_persons(request.row, table.domain, [*predictor.features, *question.names])
        scores = predictor.predict_at(predictor.inputs(persons.rows), {})
        if np.isnan(scores).any():
            raise ModelError("the model gives no number for this person.", hint="check the values of the row")
        return cls(question, model, predictor, persons, scores)

    def answers(self, marginals: Marginals) -> list[Answer]:
        """For each person, all that a `PersonInfluence` has to know besides the marginals: public."""
        question, rows, output = self.question, self.persons.rows, self.question.outcome.range
        names = [name for name in question.names if name in self.predictor.features]
        references = {name: marginals.reference(name, rows.domain) for name in names}
        played = Player(question, rows, references, self.predictor).play()
        outcomes = output.low + question.outcome.quantized(self.scores) * (output.width / output.levels)
        return [
            Answer(
                question=question,
                model={**self.model.identity, "features": list(self.predictor.features)},
                record=self.persons.records[i],
                missing=self.persons.missing[i],
                score=float(np.clip(self.scores[i], self.model.output.low, self.model.output.high)),
                outcome=float(outcomes[i]),
                lines=tuple(_line(found, i, marginals, output.width) for found in played),
            )
            for i in range(rows.size)
        ]


def _check(question: Question, predictor: Predictor) -> None:
    used = {name for name in question.names if name in predictor.features}
    samples, most = question.samples or 1, MOST_OUTCOMES // max(1, len(used))
    if samples > min(MOST_SAMPLES, most):
        raise InputError(
            f"{samples:,} samples are too many for {len(used)} features.",
            hint=f"{min(MOST_SAMPLES, most):,} is the most",
        )
    unary = question.aggregate == "unary"
    together = max(len(used & {*item, *question.given}) for item in question.items) if unary else len(used)
    if together > MOST_FEATURES:
        raise InputError(
            f"{together} features are too many to be replaced together; {MOST_FEATURES} is the most.",
            hint="name some of them" if unary else 'name some of them, or use aggregate="unary"',
        )
    if question.exact and not unary:
        exact_plan(max(1, len(used)), question.aggregate, question.samples or EXACT_DRAWS)


def _line(found: Found, place: int, marginals: Marginals, width: float) -> Line:
    """An influence as a line over the shares of cells: `fixed` + slopes . shares, its value at the released ones."""
    slopes = {name: np.round(lines[place] / width, DIGITS) * width for name, lines in found.slopes.items()}
    more = TOGETHER if len(slopes) > 1 else 1
    return Line(
        fixed=float(found.value[place]) - sum(float(slope @ marginals.shares(name)) for name, slope in slopes.items()),
        slopes={name: runs_of(slope) for name, slope in slopes.items()},
        error=float(found.error[place]),
        below={name: runs_of(_up(gaps[place, 0] * more, width)) for name, gaps in found.gaps.items()},
        above={name: runs_of(_up(gaps[place, 1] * more, width)) for name, gaps in found.gaps.items()},
    )


def _up(gaps: Floats, width: float) -> Floats:
    """Rounded up, to as many digits as slopes have."""
    scaled: Floats = np.ceil(np.maximum(gaps, 0) / width * 10**DIGITS - 1e-6) / 10**DIGITS * width
    return scaled


def question_of(request: InfluenceRequest | TransparencyRequest, setting: Setting) -> Question:
    """The part of a request that needs no table."""
    return Question(
        quantity=request.quantity,
        items=items_of(request, setting),
        outcome=Outcome.of(setting.output, request.outcome, request.threshold, setting.label),
        aggregate=request.aggregate,
        given=tuple(request.given),
        samples=request.samples,
        exact=request.exact,
        seed=request.seed,
    )


# The release ----------------------------------------------------------------------------------------------------------


def resolve(request: InfluenceRequest, setting: Setting, cost: Cost) -> CountsSpec:
    """The histograms that are paid for; their cells by forecast unless the request says how many."""
    names = question_of(request, setting).names
    spec = CountsSpec(cells_of(names, setting.domain, request.cells or CELLS), request.mechanism)
    if request.cells is not None:
        return spec
    noise = histograms.forecast(spec.partitions, setting.neighbours, cost, spec.mechanism)
    return replace(spec, partitions=histograms.fine_cells(names, setting.domain, noise, known_rows(setting.hint)))


def outlook(request: InfluenceRequest, setting: Setting, cost: Cost) -> Outlook:
    """How far the noise of the marginals will move an influence whose outcome rises evenly by a quarter of its range
    over the feature with most cells. Monte Carlo error, and what cells leave open, come on top.
    """
    question, spec = question_of(request, setting), resolve(request, setting, cost)
    noise = histograms.forecast(spec.partitions, setting.neighbours, cost, spec.mechanism)
    cells = max(partition.size for partition in spec.partitions)
    rise = TYPICAL * question.outcome.range.width
    coefficients, items = rise / setting.rows * np.linspace(-0.5, 0.5, cells), len(question.items)
    error, band = (combined_halfwidth([(noise, coefficients)], 0.0, 1 - (1 - LEVEL) / n) for n in (1, items))
    return Outlook(noise.law.value, items, noise.std * float(np.linalg.norm(coefficients)), error, band)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "counts": "rows in each public cell of each feature",
        "answers": "the model's answers for the person with other values",
        "influences": "expectations over the released shares, intervals",
    }
    edges = [("table", "counts"), ("counts", "answers"), ("counts", "influences"), ("answers", "influences")]
    return DataFlow(stages, edges, name="Influence on one person", noised=["counts"])


def person_influence(
    table: PrivateTable, model: Model, request: InfluenceRequest, *, cost: Cost | None, marginals: Marginals | None
) -> PersonInfluence:
    """The influences of `request` on one person: free with `marginals`, else for `cost`, which releases them."""
    if (cost is None) == (marginals is None):
        raise InputError(
            "the influence on one person is free with marginals= that were released before; else it costs budget.",
            hint="give marginals=, or epsilon=, and not both",
        )
    inquiry = Inquiry.of(request, table, model)
    names = inquiry.question.names
    if inquiry.persons.rows.size != 1:
        raise InputError("one person at a time.", hint="dpx.transparency_report takes several, for one cost")
    if marginals is not None:
        known = histograms.known_marginals(table, marginals, names)
    else:
        assert cost is not None
        spec = resolve(request, Setting.of(table, model), cost)
        known = release_cells(table, spec, f"marginals of {', '.join(names)}", cost)
    (answer,) = inquiry.answers(known)
    return PersonInfluence(known.receipt, known.released, answer)
