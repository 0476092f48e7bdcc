"""What a person's own inputs did to the model's answer for that person, from released marginals.

An influence is a line over the shares of the cells of features: `fixed` + slopes . shares. The slopes are what the
model answered for the person with other values, which is public and stands in the view; the shares are released. So
the influence, and what noise does to it, follow from the released integers and the view, without the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpexplain.columns import labels
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Noise
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import Partition
from dpexplain.maths.tails import combined_halfwidth
from dpexplain.methods.influence.request import PERSON
from dpexplain.methods.influence.result import AGGREGATES, Influence, checked_top
from dpexplain.methods.influence.spec import Question
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.result import Floats, Result
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd

ABOUT = (
    "Explains one person; that person's record is not protected by the guarantee, and is told to whoever reads this."
)
SPREAD = "Its intervals leave out where values lie inside the cells of the histograms: they count as spread evenly."
COARSE = (
    "Some intervals are wide mostly because a histogram does not tell where in a cell people are: more cells, or a "
    "larger epsilon, make them narrower."
)
ROUNDING = 1e-11  # of the range of outcomes
POINT = 0.1  # of a hundred: nothing is told more exactly


@dataclass(frozen=True, eq=False)
class Amounts:
    """Noisy amounts in the cells of several features. Each feature's add up to the same total: that of all rows.

    Where the total is not public, the mean of the features' noisy totals is taken for it. Every feature's cells are
    shifted, all alike, so that they add up to it; a sum over many cells is then as good as one over the few others.
    Nothing is made non-negative here: that would be kinder to single cells, but sums of them would be too large.
    """

    values: Floats
    noise: Noise
    slices: Mapping[str, slice]
    public_total: float | None

    @classmethod
    def of(cls, result: Result, part: str, partitions: Sequence[Partition], public_total: float | None) -> Amounts:
        values, noise = result.part(part)
        ends = np.cumsum([partition.size for partition in partitions])
        if len(values) != ends[-1]:
            raise ValueError("the cells do not fit the released values")
        slices = {p.feature: slice(int(end) - p.size, int(end)) for p, end in zip(partitions, ends, strict=True)}
        return cls(values.astype(np.float64), noise, slices, public_total)

    @property
    def total(self) -> float:
        return float(self.values.sum()) / len(self.slices) if self.public_total is None else self.public_total

    def line(self, weights: Mapping[str, Floats]) -> tuple[float, Floats]:
        """The sum of weight x amount over the cells of features, and its coefficients: how noise moves it."""
        coefficients, fixed = np.zeros(len(self.values)), 0.0
        for feature, weight in weights.items():
            middle = float(weight.mean())
            coefficients[self.slices[feature]] += weight - middle
            if self.public_total is None:
                coefficients += middle / len(self.slices)
            else:
                fixed += middle * self.public_total
        return fixed + float(coefficients @ self.values), coefficients

    def mean(self, weights: Mapping[str, Floats]) -> tuple[float, Floats]:
        """The same for shares: amounts divided by the total, which moves too where it is noisy."""
        total = max(self.total, 1.0)
        value, coefficients = self.line(weights)
        if self.public_total is None:
            coefficients = coefficients - value / total / len(self.slices)
        return value / total, coefficients / total

    def halfwidth(self, coefficients: Floats, level: float, drawn: float = 0.0) -> float:
        """h with P(|coefficients . noise + chance| <= h) = level; chance is normal, with the deviation `drawn`."""
        return combined_halfwidth([(self.noise, coefficients)], drawn, level)


def runs_of(numbers: Floats) -> list[list[float]]:
    """[how often, number] for each run of equal numbers: short for a file."""
    starts = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
    lengths = np.diff([*starts.tolist(), len(numbers)])
    return [[int(length), float(numbers[start])] for length, start in zip(lengths, starts, strict=True)]


def _from_runs(runs: Any, size: int) -> Floats:
    lengths = [int(length) for length, _ in runs]
    if min(lengths) < 1 or sum(lengths) != size:
        raise ValueError("the slopes do not fit the cells")
    return np.repeat(np.array([number for _, number in runs], dtype=np.float64), lengths)


@dataclass(frozen=True)
class Words:
    """How an outcome and its changes are spoken of to people who never heard of any of this."""

    output: PublicRange  # of outcomes
    threshold: float | None  # of a class
    label: Any  # of the class

    @property
    def goal(self) -> str:
        """What an influence raises or lowers."""
        if self.threshold is None:
            return "the score"
        return "the chance of a positive decision" if self.label is None else f"the chance of “{self.label}”"

    @property
    def _hundred(self) -> bool:
        return self.output.low == 0 and self.output.high == 1

    @property
    def _unit(self) -> float:
        return POINT / 100 * self.output.width

    def change(self, low: float, high: float) -> str:
        """The size of a change, as exact as its interval allows."""
        if self._hundred:
            return f"{span(100 * low, 100 * high, POINT, signed=True)} points of 100"
        return span(low, high, self._unit, signed=True)

    def at_most(self, most: float) -> str:
        """The same for a change that may be none, rounded up."""
        most = math.ceil(most / self._unit - 1e-9) * self._unit
        return f"{100 * most:.3g} points of 100" if self._hundred else f"{most:.3g}"

    def people(self, rate: tuple[float, float]) -> str:
        """How often the outcome is positive, or how high it is, among some people; `rate` is an interval in [0, 1]."""
        if self.threshold is None:
            ends = [self.output.low + self.output.width * end for end in rate]
            return f"the mean score is {span(ends[0], ends[1], self._unit)}"
        got = "are decided for" if self.label is None else f"get “{self.label}”"
        return f"{span(100 * rate[0], 100 * rate[1], POINT)} of 100 people {got}"

    def headline(self, outcome: float, score: float) -> str:
        if self.threshold is None:
            ends = f"{self.output.low:g} to {self.output.high:g}"
            return f"The model gives this person a score of {score:.3g}, on a scale from {ends}."
        goal = "a positive decision" if self.label is None else f"“{self.label}”"
        side = "for" if outcome > self.output.middle else "against"
        return f"The model decides {side} {goal}: its score is {score:.3g}, and it takes {self.threshold:.3g} or more."


def span(
    low: float,
    high: float,
    least: float = 1e-12,
    possible: tuple[float, float] = (-math.inf, math.inf),
    *,
    signed: bool = False,
) -> str:
    """An interval in words ("20 to 30"), rounded outwards to a step that fits its width, not beyond the possible; where
    it is `signed`, no end is rounded to 0 that is not: the step is finer there.
    """
    width = high - low
    power = 10.0 ** math.floor(math.log10(max(width, least)))
    step = max(power if width < 5 * power else 5 * power, least)
    while signed and step >= 5 * least and (math.floor(low / step) <= 0 < low or high < 0 <= math.ceil(high / step)):
        step /= 5
    first, last = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    if last - first <= 1.5 * least:
        return f"about {(low + high) / 2:.3g}"
    ends = [
        f"{end:,.{digits}f}" if possible[0] <= end <= possible[1] else f"{inside:,.6g}"
        for end, inside in ((first, max(first, possible[0])), (last, min(last, possible[1])))
    ]
    return " to ".join(ends)


@dataclass(frozen=True, kw_only=True)
class Line(Coded):
    """One influence: `fixed` + slopes . shares, slopes as runs of equal numbers for each feature."""

    fixed: float
    slopes: dict[str, list[list[float]]]
    error: float  # by chance: a standard deviation
    # by how much slopes may be too high, and too low, because a histogram does not tell where in a cell its rows are;
    # None in files of earlier versions, whose intervals leave it out
    below: dict[str, list[list[float]]] | None = None
    above: dict[str, list[list[float]]] | None = None

    def to_json(self) -> JsonObject:
        return {name: value for name, value in super().to_json().items() if value is not None}

    @classmethod
    def from_json(cls, value: JsonObject) -> Line:
        if None in (value.get("below", ()), value.get("above", ())):
            raise ValueError("left out, or slopes")
        return super().from_json(value)


@dataclass(frozen=True, kw_only=True)
class Answer(Coded):
    """What the model answered about one person: public, and enough to make the result again."""

    question: Question
    model: JsonObject  # its identity, and its features
    record: JsonObject  # the person, as the caller described it
    missing: tuple[str, ...] = ()  # columns whose declared default stands in for a missing value
    score: float  # the model's own answer for the person
    outcome: float  # of a class: one if the model decides for it, zero if not; of a score: the score
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class PersonInfluence(Influence):
    """The influences of a person's inputs, in units of the outcome; of a class, as parts of one (0.2: 20 of 100).

    Intervals cover what the exact columns of the (cleaned) table give, each column by itself: the noise of the released
    histograms, Monte Carlo error, and wherever rows lie inside the cells.
    """

    answer: Answer

    kind: ClassVar[str] = "person-influence"

    @cached_property
    def marginals(self) -> Marginals:
        """The released histograms behind it, for reuse."""
        return Marginals(self.receipt, self.released)

    # What was asked ---------------------------------------------------------------------------------------------------

    @property
    def asked(self) -> Question:
        return self.answer.question

    @property
    def record(self) -> JsonObject:
        """The person, as the caller described it."""
        return self.answer.record

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The person's values as people write them, and which of them are declared defaults of missing ones."""
        taken = {name: "missing, taken as " if name in self.answer.missing else "" for name in self.record}
        return [(name, taken[name] + self._shown(name)) for name in self.record]

    @property
    def outcome(self) -> float:
        """Of a class: one if the model decides for it, zero if not; of a score: the score."""
        return self.answer.outcome

    @property
    def score(self) -> float:
        """The model's own answer for the person."""
        return self.answer.score

    @property
    def title(self) -> str:
        verb = "changes" if self.quantity == "actual" else "moves"
        return f"What {verb} the outcome of one person{AGGREGATES[self.aggregate]}"

    @property
    def caveat(self) -> str:
        if self.within is None:
            return f"{ABOUT} {SPREAD}"
        small = np.maximum(self.noise_halfwidth(), POINT / 10 * self.output.width)
        return f"{ABOUT} {COARSE}" if (self.within.max(axis=1) > small).any() else ABOUT

    # Words ------------------------------------------------------------------------------------------------------------

    @cached_property
    def words(self) -> Words:
        return Words(self.output, self.asked.outcome.threshold, self.answer.model["label"])

    @property
    def headline(self) -> str:
        """The outcome in one sentence."""
        return self.words.headline(self.outcome, self.score)

    @property
    def names(self) -> list[str]:
        """With the person's values: `age = 39`."""
        called, value = self.receipt.called, self.receipt.called_value
        values = {name: f"{called(name)} = {value(name, self._shown(name))}" for name in self.record}
        return [" + ".join(values[name] for name in item) for item in self.asked.items]

    @property
    def unit_words(self) -> str:
        what = "the outcome" if self.quantity == "actual" else self.words.goal
        return f"change of {what}, compared with an average person"

    def sentences(self, top: int = 5) -> list[str]:
        """What counted, the strongest first, and how much the rest does."""
        low, high = self.interval()
        told = [i for i in self.order if self.sure[i]][: checked_top(top)]
        rest = [i for i in self.order if i not in told]
        said = [f"{self._said(self.names[i], float(low[i]), float(high[i]))}." for i in told]
        if not rest:
            return said
        most = max(max(-float(low[i]), float(high[i])) for i in rest)
        little = f"at most {self.words.at_most(most)}" if most > 0 else "no difference at all"
        little += " each" if len(rest) > 1 and most > 0 else ""
        if not told:
            return [f"No feature makes a clear difference: {little}."]
        others = self.names[rest[0]] if len(rest) == 1 else f"The other {len(rest)} features"
        return [*said, f"{others}: {little}."]

    def _said(self, name: str, low: float, high: float) -> str:
        size = self.words.change(min(abs(low), abs(high)), max(abs(low), abs(high)))
        if self.quantity == "actual":
            return f"{name}: other values in its place change the outcome by {size}, up or down"
        return f"{name} {'raises' if low > 0 else 'lowers'} {self.words.goal} by {size}"

    # Estimates --------------------------------------------------------------------------------------------------------

    @cached_property
    def _counts(self) -> Amounts:
        rows = self.receipt.rows
        return Amounts.of(self.marginals, "counts", self.marginals.partitions, None if rows is None else float(rows))

    @cached_property
    def within(self) -> Floats | None:
        """How far below and above each value the influence may lie because a histogram does not tell where in a cell
        its rows are: one line for each item. None in files of earlier versions, whose intervals leave it out.
        """
        if any(line.below is None or line.above is None for line in self.answer.lines):
            return None
        low, middle, high = (np.array([value for value, _ in self._lines_at(sign)]) for sign in (-1, 0, 1))
        within: Floats = np.maximum(np.stack([middle - low, high - middle], axis=1), 0.0)
        return within

    def _lines_at(self, sign: int) -> list[tuple[float, Floats]]:
        """(value, coefficients) of each influence: with rows spread evenly over their cells (0), or where in them it is
        smallest (-1) or largest (1).
        """
        found = []
        for line in self.answer.lines:
            slopes = self._by_cell(line.slopes)
            if sign:
                gaps = self._by_cell((line.below if sign < 0 else line.above) or {})
                if any((gap < 0).any() for gap in gaps.values()) or set(gaps) != set(slopes):
                    raise ValueError("no influence of ours")
                slopes = {name: slope + sign * gaps[name] for name, slope in slopes.items()}
            value, coefficients = self._counts.mean(slopes)
            found.append((line.fixed + value, coefficients))
        return found

    def _by_cell(self, written: Mapping[str, Any]) -> dict[str, Floats]:
        sizes = {partition.feature: partition.size for partition in self.marginals.partitions}
        return {name: _from_runs(runs, sizes[name]) for name, runs in written.items()}

    @cached_property
    def values(self) -> Floats:
        return self._inside(np.array([value for value, _ in self._lines_at(0)]))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high): the exact influence lies between that with all rows where in their cells it is smallest, and
        that where it is largest. Each of these two is known but for noise.
        """
        ends = []
        for sign in (-1, 1):
            lines = self._lines_at(0 if self.within is None else sign)
            chance = [line.error for line in self.answer.lines]
            half = [self._counts.halfwidth(c, level, drawn) for (_, c), drawn in zip(lines, chance, strict=True)]
            ends.append(self._inside(np.array([value for value, _ in lines]) + sign * np.array(half)))
        return ends[0], ends[1]

    def noise_halfwidth(self, level: float = 0.95) -> Floats:
        """The part of the interval that is due to the noise of the marginals."""
        return np.array([self._counts.halfwidth(coefficients, level) for _, coefficients in self._lines_at(0)])

    def _inside(self, numbers: Floats) -> Floats:
        """Only what is possible; what sums of floats leave in the place of zero is zero."""
        return np.clip(np.where(np.abs(numbers) < ROUNDING * self.output.width, 0.0, numbers), *self.possible)

    # Tables and pictures ----------------------------------------------------------------------------------------------

    def _shown(self, name: str) -> str:
        """The person's value as people write it."""
        return shown_value(*labels(self.receipt.domain, name, [self.record[name]]))

    def to_frame(self) -> pd.DataFrame:
        """One line for each item, in their public order."""
        shown = [" + ".join(map(self._shown, item)) for item in self.asked.items]
        frame = super().to_frame().drop(columns="determined")
        frame.insert(1, "value", shown)
        return frame

    # Files ------------------------------------------------------------------------------------------------------------

    def view(self) -> JsonObject:
        return self.answer.to_json()

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> PersonInfluence:
        found = cls(receipt, released, Answer.from_json(view))
        found.check()
        return found

    def check(self) -> None:
        """What can be read can be shown: an error here, and not later, for a file that was tampered with."""
        within = np.zeros(1) if self.within is None else self.within
        errors = [line.error for line in self.answer.lines]
        numbers = [*np.concatenate(self.interval()), self.outcome, self.score, *within.ravel(), *errors]
        if not 0 < len(self.items) == len(errors) or not all(self.asked.items):
            raise ValueError("the influences do not fit the features")
        if self.quantity not in PERSON or not np.isfinite(numbers).all() or min(*within.ravel(), *errors) < 0:
            raise ValueError("no influence of ours")
        if self.aggregate not in AGGREGATES or not self.title or len(self.to_frame()) != len(self.items):
            raise ValueError("no influence of ours")


def shown_value(value: Any) -> str:
    """A value of a record as people write it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,.0f}" if abs(value) >= 1e4 and float(value).is_integer() else f"{value:.6g}"
    return "missing" if value is None else str(value)
