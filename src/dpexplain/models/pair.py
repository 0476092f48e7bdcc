"""Two models that are compared on the same rows: the second minus the first.

A row's part in a comparison is a public function of that row, f_b(x) - f_a(x), because each model answers a row by
itself (`models.predictor`). So whatever is proven of a model whose answers lie in a public range holds for the
difference, with the range of the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain, PublicRange
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError
from dpexplain.models.classes import ClassPredictor, checked_classes, identity_of
from dpexplain.models.model import Model
from dpexplain.models.predictor import Call, Predictor

if TYPE_CHECKING:
    from dpexplain.data.table import PrivateTable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ModelPair:
    """Two models of the same thing. Where one of them fails on a row, it counts as the middle of its own range.

    separately  whether both answers are asked for, side by side; else the second less the first
    """

    first: Model
    second: Model
    separately: bool = False

    @classmethod
    def of(cls, models: Any) -> ModelPair:
        """The two models that were given."""
        if isinstance(models, ModelPair):
            return models
        several = list(models) if isinstance(models, list | tuple) else [models]
        if len(several) != 2 or not all(isinstance(model, Model) for model in several):
            raise InputError("give two models, the older one first.", hint="[old, new] in the place of the model")
        first, second = several
        if first is second or (first.versioned and first.identity == second.identity):
            raise InputError(
                "these are one model, not two.", hint="give the models different names or versions, and compare those"
            )
        if first.label != second.label:
            raise InputError(
                f"one model gives the probability of {first.label!r}, the other that of {second.label!r}.",
                hint="compare models with the same label=",
            )
        return cls(first, second)

    @property
    def both(self) -> tuple[Model, Model]:
        return self.first, self.second

    @property
    def output(self) -> PublicRange:
        """The range that holds the answers of each of them."""
        one, two = (model.output for model in self.both)
        return PublicRange(min(one.low, two.low), max(one.high, two.high), max(one.levels, two.levels))

    @property
    def label(self) -> Any:
        return self.first.label

    @property
    def thread_safe(self) -> bool:
        return self.first.thread_safe and self.second.thread_safe

    @property
    def identity(self) -> JsonObject:
        return {"first": self.first.identity, "second": self.second.identity}

    def features(self, domain: Domain) -> list[str]:
        """The columns that either of them needs."""
        return list(dict.fromkeys([*self.first.features(domain), *self.second.features(domain)]))

    def joined(self, predictors: Sequence[Predictor]) -> Predictor:
        """One predictor made of those of the two."""
        return PairPredictor(predictors, [model.output for model in self.both], separately=self.separately)

    def checked(self, domain: Domain) -> Predictor:
        """Both, after trying each on synthetic rows."""
        return self.joined([model.checked(domain) for model in self.both])


class PairPredictor(Predictor):
    """Asks two models about the same rows, each in its own blocks; answers the second less the first, or both."""

    def __init__(self, predictors: Sequence[Predictor], outputs: Sequence[PublicRange], *, separately: bool) -> None:
        self.each, self.outputs, self.separately = tuple(predictors), tuple(outputs), separately
        self.features = list(dict.fromkeys(name for one in predictors for name in one.features))
        self.domain = predictors[0].domain
        self.block = max(one.block for one in predictors)
        self.thread_safe = all(one.thread_safe for one in predictors)
        self.shape = (2,) if separately else ()

    def resized(self, block: int, *, around: Callable[[Call], Call] | None = None) -> Predictor:
        sized = [one.resized(block, around=around) for one in self.each]
        return PairPredictor(sized, self.outputs, separately=self.separately)

    def inputs(self, rows: Rows) -> Any:
        return tuple(one.inputs(rows) for one in self.each)

    def predict_at(self, inputs: Any, fixed: Mapping[str, Any]) -> Floats:
        answers = [
            np.nan_to_num(np.clip(one.predict_at(mine, fixed), output.low, output.high), nan=output.middle)
            for one, mine, output in zip(self.each, inputs, self.outputs, strict=True)
        ]
        return np.stack(answers, axis=1) if self.separately else answers[1] - answers[0]


def predictor_of(table: PrivateTable, model: Model | ModelPair) -> Predictor:
    """The one way from a model, or from two that are compared, to predictions about the rows of a table."""
    if isinstance(model, ModelPair):
        return model.joined([table.predictor(one) for one in model.both])
    return class_predictor(table, model) if model.every_class else table.predictor(model)


def class_predictor(table: PrivateTable, model: Model) -> ClassPredictor:
    """The probabilities of all classes of a model, tried and kept in the ledger as `PrivateTable.predictor` does."""
    predictor = checked_classes(model, table.domain, rows=table.rows_hint, exact=table.size is not None)
    table.know(model, identity_of(model), predictor, predictor.answers.ravel(), predictor.precision)
    return predictor
