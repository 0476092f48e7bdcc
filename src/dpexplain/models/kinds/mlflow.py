"""MLflow models of the flavour pyfunc: a folder with a file MLmodel. Loading one runs code that lies in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from dpexplain.errors import ModelError
from dpexplain.models.kinds.base import Adapter, Array, folder_digest, needed, no_date, texts

KINDS = {"double": np.float64, "float": np.float32, "long": np.int64, "integer": np.int32, "boolean": np.bool_}


class MLflow(Adapter):
    """A model with a signature by columns: each column gets the type that is written there."""

    defaults: ClassVar[Mapping[str, Any]] = {"trusted": False}

    def __init__(self, source: Any, classes: Sequence[Any] | None) -> None:
        self.folder = source if isinstance(source, Path) else None
        self.digest = None if self.folder is None else folder_digest(self.folder)
        self.model = None if self.folder else source
        signature = self._live_model.metadata.signature
        inputs = None if signature is None else signature.inputs
        if inputs is None or inputs.is_tensor_spec() or not inputs.has_input_names():
            raise ModelError(
                "the MLflow model has no signature with names of columns.",
                hint="save it with a signature that MLflow infers from a DataFrame",
            )
        self.feature_names_in_ = list(inputs.input_names())
        self.types = {one.name: getattr(one.type, "name", "") for one in inputs.inputs}
        self.named(classes)

    @classmethod
    def made(cls, source: Any, classes: Sequence[Any] | None, options: Mapping[str, Any]) -> Self:
        if isinstance(source, Path) and not options["trusted"]:
            raise ModelError(
                f"loading the MLflow folder {source.name} runs code that lies in it, often a pickle.",
                hint='if you trust whoever wrote it: options={"trusted": True}; or save the model as ONNX or skops',
            )
        return cls(source, classes)

    @cached_property
    def _live_model(self) -> Any:
        """A copy in another process loads the folder by itself: what lies there now must be what was looked at."""
        if self.folder is None:
            return self.model
        if folder_digest(self.folder) != self.digest:
            raise ModelError(f"the MLflow folder {self.folder.name} has changed since it was read first.")
        return needed("mlflow.pyfunc").load_model(str(self.folder))

    def ask(self, inputs: Any) -> Array:
        rows = pd.DataFrame({name: self._column(inputs[name]) for name in inputs.columns}, copy=False)
        said = np.asarray(self._live_model.predict(rows))
        return said[:, 0] if said.ndim == 2 and said.shape[1] == 1 else said

    def _column(self, column: Any) -> Any:
        kind = self.types.get(column.name, "").lower()
        if kind == "string":
            return texts(column)
        if kind == "datetime" and column.dtype.kind == "M":
            return column
        if kind not in KINDS:
            raise ValueError(f"the signature says that column {column.name!r} is {kind}: use transform and a function")
        if isinstance(column.dtype, pd.CategoricalDtype):
            raise ValueError(f"the signature says that column {column.name!r} is {kind}, and it has text categories")
        no_date(column)
        return column.to_numpy().astype(KINDS[kind], copy=False)
