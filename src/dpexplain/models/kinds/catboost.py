"""CatBoost models: objects, and the files (.cbm) that `save_model` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from dpexplain.errors import ModelError
from dpexplain.models.kinds.base import Adapter, Array, matrix, needed, texts

EXPONENT = ("Poisson", "Tweedie")  # losses whose model says the logarithm


class Cat(Adapter):
    """A CatBoost model. Columns that it was trained on as categories or texts get words and whole numbers, others get
    numbers; NaN is missing to it.
    """

    def __init__(self, model: Any, classes: Sequence[Any] | None) -> None:
        self.model = model
        names = list(model.feature_names_)
        if not names:
            raise ModelError("this CatBoost model is not fitted.")
        if names != [str(j) for j in range(len(names))]:
            self.feature_names_in_ = names
        words = [*model.get_cat_feature_indices(), *model.get_text_feature_indices()]
        self.words = [names[j] for j in words]
        if not hasattr(self, "feature_names_in_") and words:
            raise ModelError(
                "the model has columns of categories, and no names of columns.", hint="fit it on a DataFrame"
            )
        if list(model.get_embedding_feature_indices()):
            raise ModelError("a column that is an embedding cannot be declared.", hint="use a function of a DataFrame")
        self.as_array = not words  # numbers alone need no DataFrame, which takes as long as some models
        known = [value.item() if isinstance(value, np.generic) else value for value in model.classes_]
        loss = str((model.get_all_params() or {}).get("loss_function", "")).partition(":")[0]
        self.said = "Probability" if known else "Exponent" if loss in EXPONENT else "RawFormulaVal"
        self.named(classes, known or None)

    @classmethod
    def made(cls, source: Any, classes: Sequence[Any] | None, _options: Mapping[str, Any]) -> Self:
        if not isinstance(source, bytes):
            return cls(source, classes)
        return cls(needed("catboost").CatBoost().load_model(blob=source), classes)

    def ask(self, inputs: Any) -> Array:
        rows: Any = None
        if isinstance(inputs, np.ndarray) or not self.words:
            rows = matrix(inputs, np.float32)
        else:
            rows = pd.DataFrame({name: self._column(inputs[name]) for name in inputs.columns}, copy=False)
        return np.asarray(self.model.predict(rows, prediction_type=self.said))

    def _column(self, column: Any) -> Any:
        if column.name in self.words:
            return texts(column)
        return matrix(column.to_frame(), np.float32)[:, 0]
