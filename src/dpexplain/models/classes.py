"""All classes of a classifier at once: one prediction for a row, a probability for each class.

Every column is checked as a model of its own is (`models.check`): the same bits for the same row at every place of a
block and among any other rows. The blocks in which private rows are asked about are of one size that all columns
passed. A row on which the model fails, or says NaN about any class, is NaN in all columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, Domain, PublicRange
from dpexplain.data.rows import Rows
from dpexplain.errors import ModelError
from dpexplain.models.check import Check
from dpexplain.models.model import Model
from dpexplain.models.predictor import Call, Floats, Predictor, block_for

Integers = NDArray[np.int64]


class ClassPredictor(Predictor):
    """Predicts a line for each row: the probability of every class."""

    def __init__(self, *about: Any, columns: int, **options: Any) -> None:
        super().__init__(*about, **options)
        self.shape = (columns,)

    def resized(self, block: int, *, around: Callable[[Call], Call] | None = None) -> ClassPredictor:
        call = self._call if around is None else around(self._call)
        about = (call, self.features, self.domain, self._as_array, block)
        return ClassPredictor(*about, thread_safe=self.thread_safe, columns=self.shape[0])


class OwnClass(Predictor):
    """Predicts for each row the probability of the class that it has, by its target column: one number, a function of
    that row alone. The probability of a declared class that the model does not know is zero.
    """

    def __init__(self, every: ClassPredictor, target: str, classes: Sequence[Any]) -> None:
        column = every.domain[target]
        assert isinstance(column, Categorical)
        known = {name: place for place, name in enumerate(classes)}
        self.every, self.target, self.places = every, target, [known.get(name, -1) for name in column.categories]
        self.features, self.domain, self.block = every.features, every.domain, every.block
        self.thread_safe = every.thread_safe

    def inputs(self, rows: Rows) -> Any:
        return self.every.inputs(rows), np.array(self.places)[rows[self.target]]

    def predict_at(self, inputs: Any, fixed: Mapping[str, Any]) -> Floats:
        asked, place = inputs
        said = self.every.predict_at(asked, fixed)
        own = np.clip(np.take_along_axis(said, np.maximum(place, 0)[:, None], axis=1)[:, 0], 0.0, 1.0)
        return np.asarray(np.where(place < 0, 0.0, own))


def classes_of(model: Model) -> tuple[Any, ...]:
    """The classes of a model's estimator, in its own order."""
    names = getattr(model.original, "classes_", None)
    if names is None or not hasattr(model.original, "predict_proba"):
        raise ModelError(
            "all_classes needs a classifier that predicts probabilities of its classes.",
            hint="leave all_classes out for a model of another kind",
        )
    return tuple(c.item() if isinstance(c, np.generic) else c for c in names)


def levels_of(said: Floats, levels: int) -> Integers:
    """Probabilities [row, class] as whole numbers of at least 0 that add up to at most `levels` in each row, whatever
    the model says: less than nothing is nothing, a sum above one is divided out, and all is rounded down. A row on
    which the model fails counts as evenly spread.
    """
    classes = said.shape[1]
    shares = np.clip(np.where(np.isnan(said).any(axis=1, keepdims=True), 1 / classes, said), 0.0, 1.0)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
    found = np.floor(shares * levels).astype(np.int64)
    above = np.maximum(found.sum(axis=1) - levels, 0)  # by the last digits of floats
    found[np.arange(len(found)), found.argmax(axis=1)] -= above
    return np.asarray(found)


def identity_of(model: Model) -> JsonObject:
    """What identifies all classes of a model in a ledger: no single one of them is explained."""
    return {**model.identity, "label": None, "classes": list(classes_of(model))}


def checked_whole(model: Any, domain: Domain) -> Predictor:
    """A model (or two that are compared) after trying it; of one whose classes are explained together, all of them."""
    if isinstance(model, Model) and model.every_class:
        return checked_classes(model, domain)
    passed: Predictor = model.checked(domain)
    return passed


def checked_classes(model: Model, domain: Domain, *, rows: int | None = None, exact: bool = False) -> ClassPredictor:
    """The probabilities of all classes as a predictor for this domain, after trying each on synthetic rows."""
    names, features = classes_of(model), model.features(domain)
    block = block_for(rows, len(features), exact=exact) if model.block is None else model.block
    about = (features, domain, model.as_array)
    passed = _columns(model, domain, len(names), block, chosen=model.block is not None)
    least = min(one.block for one in passed)
    if any(one.block != least for one in passed):  # what one column passed, the others have to pass as well
        passed = _columns(model, domain, len(names), least, chosen=True)
    every = model.asked_with(partial(_probabilities, model.original))
    found = ClassPredictor(every, *about, least, thread_safe=model.thread_safe, columns=len(names))
    found.answers = np.stack([one.answers for one in passed], axis=1)
    found.precision = max(one.precision for one in passed)
    return found


def _columns(model: Model, domain: Domain, columns: int, block: int, *, chosen: bool) -> list[Predictor]:
    check, features = Check(domain, PublicRange(0.0, 1.0), chosen), model.features(domain)
    return [
        check.passed(
            Predictor(
                model.asked_with(partial(_probability, model.original, position)),
                features,
                domain,
                model.as_array,
                block,
                thread_safe=model.thread_safe,
            )
        )
        for position in range(columns)
    ]


def _probabilities(model: Any, inputs: Any) -> Floats:
    return np.asarray(model.predict_proba(inputs), dtype=np.float64)


def _probability(model: Any, position: int, inputs: Any) -> Any:
    return model.predict_proba(inputs)[:, position]
