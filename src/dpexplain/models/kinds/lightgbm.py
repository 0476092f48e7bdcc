"""LightGBM boosters: objects, and the text files that `save_model` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from dpexplain.errors import ModelError
from dpexplain.models.kinds.base import Adapter, Array, coded, needed


class LightGBM(Adapter):
    """A booster as it was when it was handed over. Categories get the numbers that they had in training; one that was
    not there in training is missing, as for LightGBM itself.
    """

    def __init__(self, text: str, classes: Sequence[Any] | None) -> None:
        self.text = text
        booster = self._live_booster
        names = booster.feature_name()
        if names != [f"Column_{j}" for j in range(len(names))]:
            self.feature_names_in_ = names
        self.many, objective = len(names), _line(text, "objective").split(" ")[0]
        infos = _line(text, "feature_infos").split(" ")
        trained = [name for name, info in zip(names, infos, strict=True) if not info.startswith("[") and info != "none"]
        written = re.search(r"^pandas_categorical:(.*)$", text, re.MULTILINE)
        known = (json.loads(written[1]) if written else None) or []
        if known and len(known) != len(trained):
            raise ModelError(
                "the file does not tell which of its columns the categories belong to (one of them was never used).",
                hint="train it without that column, or on numbers for categories",
            )
        self.codes = {name: {v: float(i) for i, v in enumerate(k)} for name, k in zip(trained, known, strict=False)}
        self.as_array = not self.codes
        many = int(_line(text, "num_class"))
        if objective == "multiclassova":
            raise ModelError(
                "scores of multiclassova are no probabilities.", hint='train it with the objective "multiclass"'
            )
        self.named(classes if classes is not None or many < 2 else range(many))

    @classmethod
    def made(cls, source: Any, classes: Sequence[Any] | None, _options: Mapping[str, Any]) -> Self:
        return cls(source.decode("utf-8") if isinstance(source, bytes) else source.model_to_string(), classes)

    @cached_property
    def _live_booster(self) -> Any:
        return needed("lightgbm").Booster(model_str=self.text)

    def ask(self, inputs: Any) -> Array:
        if inputs.shape[1] != self.many:
            raise ValueError(f"the model takes {self.many} columns, and {inputs.shape[1]} are declared")
        values = inputs
        if not isinstance(inputs, np.ndarray):
            values = np.empty(inputs.shape)
            for j, name in enumerate(inputs.columns):
                values[:, j] = self._column(inputs[name])
        return np.asarray(self._live_booster.predict(values))

    def _column(self, column: Any) -> Any:
        codes = self.codes.get(column.name)
        if codes is not None and isinstance(column.dtype, pd.CategoricalDtype):
            codes = dict.fromkeys(column.cat.categories, np.nan) | codes
        return coded(column, codes)


def _line(text: str, name: str) -> str:
    found = re.search(rf"^{name}=(.*)$", text, re.MULTILINE)
    if found is None:
        raise ValueError("no model of LightGBM")
    return found[1]
