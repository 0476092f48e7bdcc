"""XGBoost boosters: objects, and the files that `save_model` writes (JSON or UBJ)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np

from dpexplain.errors import ModelError
from dpexplain.models.kinds.base import Adapter, Array, matrix, needed


class XGBoost(Adapter):
    """A booster as it was when it was handed over. Categories get the numbers that they had in training, which XGBoost
    writes into its files since 3.1.
    """

    def __init__(self, content: bytes, classes: Sequence[Any] | None) -> None:
        self.content, booster = content, _booster(content)
        learner = json.loads(booster.save_config())["learner"]
        objective = learner["objective"]["name"]
        if objective == "multi:softmax":
            raise ModelError(
                "a booster of multi:softmax says the number of a class, not how probable it is.",
                hint='give it the objective "multi:softprob", and save it again',
            )
        self.trees = learner["gradient_booster"]["name"] != "gblinear"
        self.thread_safe = self.trees  # since 1.4 its documents promise it for trees
        names, kinds = booster.feature_names, booster.feature_types or []
        if names:
            self.feature_names_in_ = list(names)
        self.codes: dict[str, dict[Any, float]] = {
            name: {} for name, kind in zip(names or [], kinds, strict=False) if kind == "c"
        }
        for name, known in _categories(booster):
            if name in self.codes and known is not None:
                self.codes[name] = {value: float(place) for place, value in enumerate(known)}
        self.codes = {name: codes for name, codes in self.codes.items() if codes}
        self.as_array = not self.codes
        many = int(learner["learner_model_param"]["num_class"])
        self.named(classes if classes is not None or many < 2 else range(many))

    @classmethod
    def made(cls, source: Any, classes: Sequence[Any] | None, _options: Mapping[str, Any]) -> Self:
        return cls(source if isinstance(source, bytes) else bytes(source.save_raw("ubj")), classes)

    @cached_property
    def _live_booster(self) -> Any:
        return _booster(self.content)

    def ask(self, inputs: Any) -> Array:
        values = matrix(inputs, np.float32, self.codes)
        if self.trees:
            return np.asarray(self._live_booster.inplace_predict(values, validate_features=False))
        return np.asarray(self._live_booster.predict(needed("xgboost").DMatrix(values), validate_features=False))


def _booster(content: bytes) -> Any:
    booster = needed("xgboost").Booster()
    booster.load_model(bytearray(content))
    return booster


def _categories(booster: Any) -> list[tuple[str, list[Any] | None]]:
    """The categories of each column in the order of their numbers, where the file has them."""
    if not hasattr(booster, "get_categories"):
        return []
    try:
        known = booster.get_categories(export_to_arrow=True).to_arrow()
    except ValueError:  # a booster without any
        return []
    return [(name, None if values is None else values.to_pylist()) for name, values in known]
