"""Guessing records from explanations: what is guessed, from which scores, and what comes out right.

A `Target` is one feature of the records: its plain guess without an explanation, and the guess from what an attack
model says. `Trained` is the attack after training: all features of all tested records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpexplain.audit.attack_models import AttackModel, predictions
from dpexplain.core.domain import Domain, Numeric
from dpexplain.data.encode import encode
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
FOLDS = 3


@dataclass(frozen=True)
class Target:
    """One feature of the records: codes of categories, or numbers scaled to 0..1."""

    feature: str
    values: NDArray[Any]
    categories: int  # 0 for a number
    threshold: float
    block: slice  # its columns among those of all features

    def constant(self, where: NDArray[np.int64]) -> bool:
        return bool((self.values[where] == self.values[where[0]]).all())

    def columns(self, where: NDArray[np.int64]) -> Floats:
        values = self.values[where]
        if not self.categories:
            return np.asarray(values[:, None], dtype=np.float64)
        return np.asarray(values[:, None] == np.arange(self.categories), dtype=np.float64)

    def best_guess(self, where: NDArray[np.int64]) -> float:
        """The most frequent category, or the number with the most others near it."""
        values = self.values[where]
        if self.categories:
            return float(np.bincount(values, minlength=self.categories).argmax())
        return densest(values, self.threshold)

    def shift(self, predicted: Floats, where: NDArray[np.int64]) -> Floats:
        """What to add to a model's columns so that most guesses come out right."""
        if self.categories:
            return offsets_of(predicted, self.values[where])
        return np.array([densest(self.values[where] - predicted[:, 0], self.threshold)])

    def decide(self, predicted: Floats, shift: Floats) -> Floats:
        if self.categories:
            return np.asarray((predicted + shift).argmax(axis=1), dtype=np.float64)
        return np.asarray(np.clip(predicted[:, 0] + shift[0], 0, 1), dtype=np.float64)

    def judged(self, predicted: Floats, where: NDArray[np.int64]) -> Bools:
        """Which of these records come out right when the shift is taken from the other half of them."""
        first = np.arange(len(where)) < len(where) // 2
        hits = np.empty(len(where), dtype=np.bool_)
        for half in (first, ~first):
            shift = self.shift(predicted[~half], where[~half])
            hits[half] = self.hits(self.decide(predicted[half], shift), where[half])
        return hits

    def hits(self, guesses: Floats | float, where: NDArray[np.int64]) -> Bools:
        distance = abs(self.values[where] - guesses)
        return np.asarray(distance == 0 if self.categories else distance <= self.threshold + 1e-12, dtype=np.bool_)


def densest(values: Floats, reach: float) -> float:
    """The middle of the numbers in the window of width 2 reach that holds the most of them."""
    ranked = np.sort(values)
    ends = np.searchsorted(ranked, ranked + 2 * reach, side="right")
    first = int(np.argmax(ends - np.arange(len(ranked))))
    return float((ranked[first] + ranked[ends[first] - 1]) / 2)


def offsets_of(predicted: Floats, truth: NDArray[Any]) -> Floats:
    """What to add to the scores of each category, one after the other, so that the largest is right most often.

    Least squares rarely gives a rare category more than one half, however sure it could be; this corrects it. A
    category is guessed where its offset exceeds the lead of the best other: what is right is gained, and where the best
    other was right, it is lost.
    """
    offsets = np.zeros(predicted.shape[1])
    for c in range(len(offsets)):
        others = predicted + offsets
        others[:, c] = -np.inf
        lead = others.max(axis=1) - predicted[:, c]
        order = np.argsort(lead)
        change = (truth == c).astype(np.int64) - (truth == others.argmax(axis=1))
        ends = np.concatenate([[lead.min() - 1], lead[order], [lead.max() + 1]])
        gain = np.concatenate([[0], np.cumsum(change[order])])  # with an offset between two neighbouring ends
        gain[ends[1:] <= ends[:-1]] = -len(truth)
        best = int(gain.argmax())
        if gain[best] > gain[np.searchsorted(lead[order], 0.0)]:
            offsets[c] = (ends[best] + ends[best + 1]) / 2
    return offsets


@dataclass(frozen=True)
class Trained:
    """The tested records after the attack: lines are records, columns features."""

    hits: Bools
    guessed: Bools  # without the explanation
    used: tuple[bool, ...]
    predicted: Floats | None  # what the model said
    means: Floats  # of the auxiliary records, for each column

    @classmethod
    def on(
        cls,
        x: Floats,
        targets: Sequence[Target],
        known: NDArray[np.int64],
        test: NDArray[np.int64],
        make: Callable[[], AttackModel] | None,
        name: str,
    ) -> Trained:
        """Train on `known`, test on `test`. Without a model to make, the explanations say nothing."""
        y = np.column_stack([target.columns(known) for target in targets])
        plain = [target.best_guess(known) for target in targets]
        guessed = np.column_stack([t.hits(g, test) for t, g in zip(targets, plain, strict=True)])
        if make is None:
            return cls(guessed, guessed, (False,) * len(targets), None, y.mean(axis=0))
        inner = np.empty_like(y)
        for fold in range(FOLDS):
            inside = np.arange(len(known)) % FOLDS != fold
            inner[~inside] = predictions(make, x[known[inside]], y[inside], x[known[~inside]], name)
        predicted = predictions(make, x[known], y, x[test], name)
        hits, used = [], []
        for target, guess in zip(targets, plain, strict=True):
            said = inner[:, target.block]
            difference = target.judged(said, known).astype(np.float64) - target.hits(guess, known)
            used.append(bool(difference.mean() > difference.std() / np.sqrt(len(known))))
            decided = target.decide(predicted[:, target.block], target.shift(said, known)) if used[-1] else guess
            hits.append(target.hits(decided, test))
        return cls(np.column_stack(hits), guessed, tuple(used), predicted, y.mean(axis=0))

    def sides(self, target: Target, test: NDArray[np.int64]) -> tuple[Floats, Floats] | None:
        """The model's scores of the second category, for records of the first and of the second."""
        if target.categories != 2 or self.predicted is None:
            return None
        second, scores = target.values[test] == 1, self.predicted[:, target.block][:, 1]
        return (scores[~second], scores[second]) if 0 < second.sum() < len(test) else None

    def pooled(self, targets: Sequence[Target], test: NDArray[np.int64]) -> tuple[Floats, Floats] | None:
        """All features with two categories together; their scores are less the share of the auxiliary records, so that
        knowing which feature is frequent is no success."""
        sides = [(self.sides(target, test), self.means[target.block][-1]) for target in targets]
        kept = [(pair[0] - mean, pair[1] - mean) for pair, mean in sides if pair is not None]
        if not kept:
            return None
        return np.concatenate([pair[0] for pair in kept]), np.concatenate([pair[1] for pair in kept])


def targets_of(records: Any, domain: Domain, threshold: float) -> list[Target]:
    if not isinstance(domain, Domain):
        raise InputError("domain must be a dpx.Domain.", hint='dpx.Domain({"age": dpx.Numeric(0, 120), ...})', spent="")
    targets, place = list[Target](), 0
    for name, values in _columns(records, domain).items():
        column = domain[name]
        if column.keeps_missing:
            raise InputError(
                f"{name!r} keeps missing values: how far a guess of it is off cannot be said.",
                hint="leave the column out of the domain of the attack",
                spent="",
            )
        categories = 0 if isinstance(column, Numeric) else len(column.categories)
        if isinstance(column, Numeric):
            values = (values - column.low) / (column.high - column.low)
        targets.append(Target(name, values, categories, threshold, slice(place, place + (categories or 1))))
        place = targets[-1].block.stop
    return targets


def _columns(records: Any, domain: Domain) -> dict[str, NDArray[Any]]:
    """The clean values of each declared column."""
    if isinstance(records, Rows):
        return {name: records[name] for name in domain}
    frame = records
    if not isinstance(records, pd.DataFrame):
        try:
            frame = pd.DataFrame(np.asarray(records), columns=list(domain))
        except (TypeError, ValueError):
            raise InputError(
                "records must be a frame with the columns of the domain, or lines in its order.", spent=""
            ) from None
    if missing := [name for name in domain if name not in frame.columns]:
        raise InputError(f"the records have no column {', '.join(map(repr, missing))}.", spent="")
    return {name: encode(column, frame[name].astype(object)) for name, column in domain.items()}
