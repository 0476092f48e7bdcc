"""What is explained: the class that a model decides for, or its score; and the outcomes of rows under interventions.

A class is one bit, and a bit can turn on the last digits of a prediction: `models.Predictor` keeps them the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError
from dpexplain.maths.coded import Coded
from dpexplain.maths.games import Plan
from dpexplain.models import Inputs, Predictor
from dpexplain.models.classes import levels_of

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Outcome(Coded):
    """The clipped score; or, with a threshold, one for a score of at least the threshold and zero for a lower one.

    With several classes: a line of whole numbers for each row, one for each class, that add up to at most `levels`: the
    probabilities, or all for the likeliest class. How far two lines are apart (`apart`) is one number again.
    """

    range: PublicRange  # of the outcome: zero to one for a class
    threshold: float | None
    classes: int = 0  # of a model whose classes are explained together

    @classmethod
    def of(
        cls, output: PublicRange, kind: str | None = None, threshold: float | None = None, label: Any = None
    ) -> Outcome:
        """`kind` "score" or "class", by default a class for a model with a label; the threshold of a class is the
        middle of the output range by default.
        """
        if (kind or ("score" if label is None else "class")) == "score":
            if threshold is not None:
                raise InputError("a score has no threshold.", hint='leave it out, or use outcome="class"')
            return cls(output, None)
        if threshold is not None and not output.low < threshold <= output.high:
            raise InputError(
                f"the threshold must lie inside the output range {output.low:g} to {output.high:g}; got {threshold!r}."
            )
        return cls(PublicRange(0.0, 1.0), output.middle if threshold is None else float(threshold))

    def to_json(self) -> JsonObject:
        """Without classes where there are none, as earlier versions wrote it."""
        return {name: value for name, value in super().to_json().items() if name != "classes" or value}

    @classmethod
    def of_classes(cls, output: PublicRange, kind: str | None, threshold: float | None, classes: int) -> Outcome:
        """All classes together: their probabilities ("score", the default), or which is the likeliest ("class")."""
        if threshold is not None:
            raise InputError("a threshold is about one class.", hint="Model(..., label=...), or leave it out")
        return cls(output, 0.5 if kind == "class" else None, classes)

    @property
    def is_class(self) -> bool:
        return self.threshold is not None

    @property
    def rate(self) -> str:
        """What the mean of outcomes is, in words."""
        return "rate of positive outcomes" if self.is_class else "mean score"

    def written(self, value: float) -> str:
        """A value as people write it: in per cent for a class."""
        return f"{100 * value:.3g} %" if self.is_class else f"{value:.3g}"

    def interval(self, low: float, high: float) -> str:
        return f"95 % interval: {self.written(low)} to {self.written(high)}"

    def quantized(self, predictions: NDArray[np.float64]) -> Integers:
        """Whole numbers in {0..levels}; the middle where the model failed."""
        if self.classes:
            levels = levels_of(predictions, self.range.levels)
            if not self.is_class:
                return levels
            likeliest = levels.argmax(axis=1)[:, None] == np.arange(self.classes)
            return np.asarray(likeliest * np.int64(self.range.levels))
        if self.threshold is None:
            return self.range.quantize(predictions)
        decided = np.where(np.isnan(predictions), np.nan, (predictions >= self.threshold).astype(np.float64))
        return self.range.quantize(decided)


def apart(one: Integers, other: Integers) -> Integers:
    """How far outcomes are apart, in {0..K}: for several classes half of the sum over these, the total variation
    distance. Two lines u, v >= 0 with sums of at most K have |u - v|_1 <= 2 K, so half of it is no more than K.
    """
    between = np.abs(other - one)
    return between if between.ndim == 1 else np.asarray(between.sum(axis=1) // 2)


@dataclass(frozen=True)
class Asker:
    """Asks a model for the outcomes of rows with some inputs replaced."""

    predictor: Predictor
    outcome: Outcome

    def ask(self, inputs: Inputs, fixed: Mapping[str, NDArray[np.generic]]) -> Integers:
        """The outcomes of rows with the columns in `fixed` replaced. `inputs` are the rows as the model takes them."""
        return self.outcome.quantized(self.predictor.predict_at(inputs, fixed))

    def influences(
        self,
        rows: Rows,
        plan: Plan,
        names: Sequence[str],
        values: Mapping[str, Sequence[NDArray[np.generic]]],
        *,
        absolute: bool,
    ) -> Integers:
        """One line for each row: its influences by `plan`, in whole steps of the outcome.

        names     the inputs that the bits of the plan's masks stand for
        values    other values of each of them for every row, one array for each draw
        absolute  of |o() - o(S)| in the place of o() - o(S): how much the outcome changes, in either direction
        """
        inputs = self.predictor.inputs(rows)
        before = self.ask(inputs, {})
        sums = np.zeros((rows.size, plan.size), dtype=np.int64)
        for mask, draw, weights in zip(plan.masks.tolist(), plan.draws.tolist(), plan.weights.T, strict=True):
            used = [name for j, name in enumerate(names) if mask >> j & 1 and name in self.predictor.features]
            found = self.ask(inputs, {name: values[name][draw] for name in used}) if used else before
            sums += (-apart(before, found) if absolute else found)[:, None] * weights[None, :]
        return plan.divided(sums)

    def own_orders(
        self,
        rows: Rows,
        names: Sequence[str],
        values: Mapping[str, Sequence[NDArray[np.generic]]],
        orders: Iterable[NDArray[np.float64]],
        aggregate: str,
        *,
        absolute: bool,
    ) -> Integers:
        """The same, shared out by orders (or sets) of each row's own, in the place of a plan that all rows share.

        orders   for each draw, one line of uniform numbers for each row: the inputs in their order (Shapley), or those
                 below a half (Banzhaf); each with its reverse (its complement)
        """
        inputs = self.predictor.inputs(rows)
        before = self.ask(inputs, {})
        sums, many = np.zeros((rows.size, len(names)), dtype=np.int64), 0
        for draw, numbers in enumerate(orders):
            place = numbers.argsort(axis=1).argsort(axis=1)
            other = {name: values[name][draw] for name in names if name in self.predictor.features}

            def game(
                inside: NDArray[np.bool_], other: Mapping[str, NDArray[np.generic]] = other
            ) -> Integers:  # o(S), or less |o() - o(S)|
                fixed = {n: np.where(inside[:, j], other[n], rows[n]) for j, n in enumerate(names) if n in other}
                found = self.ask(inputs, fixed)
                return -apart(before, found) if absolute else found

            if aggregate == "banzhaf":
                inside, many = numbers < 0.5, many + 1
                sums += np.where(inside, 1, -1) * (game(~inside) - game(inside))[:, None]
                continue
            last, many = game(np.ones_like(place, dtype=bool)), many + 2
            for turned in (place, len(names) - 1 - place):
                earlier = np.zeros(rows.size, dtype=np.int64) if absolute else before
                for step in range(len(names)):
                    later = last if step + 1 == len(names) else game(turned <= step)
                    sums += (turned == step) * (earlier - later)[:, None]
                    earlier = later
        whole: Integers = np.sign(sums) * (np.abs(sums) // many)  # toward zero: norms never grow by rounding
        return whole

    def means(
        self,
        rows: Rows,
        names: Sequence[str],
        values: Mapping[str, Iterable[NDArray[np.generic]]],
        weights: Mapping[str, Integers],
        *,
        absolute: bool,
    ) -> tuple[Integers, Integers]:
        """The outcomes of rows as they are; and one line for each row: its mean outcome (or with `absolute` the mean of
        how far it moves) when one input after the other is replaced, each by itself.

        Other values count by their weights, or alike where there are none. A mean of numbers in {0..K}, rounded down,
        lies in {0..K}, whatever the weights are.
        """
        inputs = self.predictor.inputs(rows)
        before = self.ask(inputs, {})
        found = np.zeros((rows.size, len(names)), dtype=np.int64)
        for name, line in zip(names, found.T, strict=True):
            if name not in self.predictor.features:
                line += 0 if absolute else before
                continue
            total = 0
            each = weights[name].tolist() if name in weights else itertools.repeat(1)
            for value, weight in zip(values[name], each, strict=False):
                total += weight
                if weight:
                    after = self.ask(inputs, {name: value})
                    line += weight * (apart(before, after) if absolute else after)
            line //= total
        return before, found
