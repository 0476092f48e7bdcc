"""`Model`: any callable, any scikit-learn estimator or pipeline, made safe to run on private rows.

What may be said about a model is found out on synthetic rows, before anything is paid for: that it answers, in the
right shape, with finite numbers, each row for itself. On private rows it can then only do one of two things for a row:
give a number, which is clipped to the public range, or fail, which counts as the middle of the range and is told to
nobody.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, Domain, Numeric, PublicRange
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.errors import ModelError

Floats = NDArray[np.float64]
Inputs = Any  # a pandas DataFrame or a two-dimensional array


class Model:
    """A model to be explained.

    model      a fitted scikit-learn estimator or pipeline, or a function of a pandas DataFrame of the declared columns
    output     the public range (low, high) that predictions are clipped to
    label      for a classifier: the class whose probability is explained
    features   the model's input columns in order (default: what it was fitted with, or all declared columns)
    name, version   identify the model in the ledger: the same request to the same version is answered again for
               free. Without a version every Model object counts as a new one.
    as_array   hand over a float array instead of a DataFrame (default: only to estimators fitted without names)
    thread_safe  whether several threads may predict at once (default: yes for estimators, no for functions)
    """

    def __init__(
        self,
        model: Any,
        *,
        output: tuple[float, float],
        label: Any = None,
        features: Sequence[str] | None = None,
        name: str = "model",
        version: str | None = None,
        as_array: bool | None = None,
        thread_safe: bool | None = None,
    ) -> None:
        estimator = hasattr(model, "predict")
        if not estimator and not callable(model):
            raise ModelError("a model is a fitted estimator with predict(), or a function.")
        if not isinstance(output, tuple | list) or len(output) != 2:
            raise ModelError("output must be a pair (low, high).", hint="output=(0.0, 1.0) for a probability")
        self.output = PublicRange(*output)
        if not isinstance(name, str) or not name.strip() or not isinstance(version, str | int | None):
            raise ModelError("name and version of a model are texts.", hint='name="credit", version="3"')
        self.name = name
        self.version = f"unversioned-{uuid.uuid4()}" if version is None else str(version)
        self.original, self.label = model, label
        self.thread_safe = estimator if thread_safe is None else thread_safe
        self._call = _predict_function(model, label) if estimator else _plain_function(model, label)
        fitted = getattr(model, "feature_names_in_", None)
        self._features = list(map(str, fitted)) if features is None and fitted is not None else features
        self._as_array = (estimator and fitted is None) if as_array is None else as_array

    @property
    def identity(self) -> JsonObject:
        label = self.label.item() if isinstance(self.label, np.generic) else self.label
        return {
            "name": self.name,
            "version": self.version,
            "output": self.output.to_json(),
            "label": label,
            "features": None if self._features is None else list(self._features),
            "as_array": self._as_array,
        }

    def features(self, domain: Domain) -> list[str]:
        """The model's input columns, all of them declared."""
        names = list(domain) if self._features is None else list(self._features)
        missing = [name for name in names if name not in domain]
        if missing:
            raise ModelError(
                f"the model needs columns that the domain does not declare: {', '.join(map(repr, missing))}.",
                hint="declare them, or say which columns the model uses with Model(features=[...])",
            )
        if self._as_array:
            for name in names:
                _array_values(name, domain)
        return names

    def checked(self, domain: Domain) -> Predictor:
        """The model as a predictor for this domain, after trying it on synthetic rows."""
        predictor = Predictor(self._call, self.features(domain), domain, self._as_array)
        _check(predictor, domain, self.output)
        return predictor


class Predictor:
    """Predicts clean rows with some columns held at public values; NaN where the model fails on a row."""

    def __init__(self, call: Callable[[Inputs], Any], features: list[str], domain: Domain, as_array: bool) -> None:
        self._call, self.features, self._domain, self._as_array = call, features, domain, as_array

    def inputs(self, rows: Rows) -> Inputs:
        """The rows in the form that the model takes."""
        if self._as_array:
            matrix = np.empty((rows.size, len(self.features)))
            for j, name in enumerate(self.features):
                matrix[:, j] = _array_values(name, self._domain, rows[name])
            return matrix
        return pd.DataFrame({name: self._frame_column(name, rows[name]) for name in self.features})

    def predict_at(self, inputs: Inputs, fixed: Mapping[str, Any]) -> Floats:
        """Predictions with the columns in `fixed` set to other values (codes for categorical columns): one value for
        all rows, or an array with one for each row.
        """
        size = len(inputs)
        relevant = {name: self._whole(name, value) for name, value in fixed.items() if name in self.features}
        if self._as_array and relevant:
            inputs = inputs.copy()
            for name, value in relevant.items():
                inputs[:, self.features.index(name)] = _array_values(name, self._domain, np.atleast_1d(value))
        elif relevant:
            columns = {name: self._frame_column(name, np.broadcast_to(value, size)) for name, value in relevant.items()}
            inputs = inputs.assign(**columns)
        return self._answer(inputs, size)

    def _whole(self, name: str, value: Any) -> Any:
        """Values of rows in an integer column are whole numbers, always: if a batch became floats because one of them
        is not, that row would change how a model sees all the others. A single value is public and may be anything.
        """
        column = self._domain[name]
        return np.rint(value) if np.ndim(value) and isinstance(column, Numeric) and column.integer else value

    def _answer(self, inputs: Inputs, size: int) -> Floats:
        """Row-wise answers; where the model fails on a batch, halves of it are tried down to the single row.

        The model gets a copy of its own each time, rows numbered from zero: one that writes into its input and then
        fails, or goes by the index, must not change what it says about the other rows.
        """
        if size == 0:
            return np.empty(0)
        own = inputs.copy() if self._as_array else inputs.reset_index(drop=True).copy(deep=True)
        try:
            return _vector(self._call(own), size)
        except BaseException as error:  # whatever the model raises may quote a row; some raise what is no Exception
            # a real Ctrl-C arrives in the main thread; private rows are predicted in others
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            if size == 1:
                return np.array([np.nan])
        half = size // 2
        parts = (inputs[:half], inputs[half:]) if self._as_array else (inputs.iloc[:half], inputs.iloc[half:])
        return np.concatenate([self._answer(parts[0], half), self._answer(parts[1], size - half)])

    def predict_in_blocks(self, rows: Rows, filler: Rows) -> Floats:
        """Like `predict_at`, for answers that a single bit can change, such as labels.

        Matrix products take other paths, and round otherwise, for other numbers of rows. So the model is only ever
        asked about blocks of as many rows as `filler` has, public ones, which stand where no row of the table is. Where
        it fails, one half of the rows and then the other is put back to filler, every row staying in its place.
        """
        answers, size = np.empty(rows.size), filler.size
        for start in range(0, rows.size, size):
            here = rows.take(slice(start, start + size))
            answers[start : start + here.size] = self._answer_in_place(here, filler, np.arange(here.size))
        return answers

    def _answer_in_place(self, rows: Rows, filler: Rows, asked: NDArray[np.int64]) -> Floats:
        columns = {name: filler[name].copy() for name in self.features}
        for name in self.features:
            columns[name][asked] = rows[name][asked]
        answers = np.full(rows.size, np.nan)
        try:
            found = _vector(self._call(self.inputs(Rows(self._domain, columns, filler.size))), filler.size)
            answers[asked] = found[asked]
            return answers
        except BaseException as error:  # as in `_answer`
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
        if len(asked) > 1:
            for half in np.array_split(asked, 2):
                answers[half] = self._answer_in_place(rows, filler, half)[half]
        return answers

    def _frame_column(self, name: str, values: NDArray[Any]) -> Any:
        column = self._domain[name]
        if isinstance(column, Categorical):
            if any(isinstance(c, str) for c in column.categories):
                return pd.Categorical.from_codes(values.astype(np.int32), categories=pd.Index(column.categories))
            return np.array(column.categories)[values.astype(np.int64)]  # numbers stay numbers
        if column.integer and np.all(values == np.rint(values)):
            return values.astype(np.int64)
        return values.astype(np.float64)

    def raw(self, inputs: Inputs) -> Any:
        """The model's own answer, errors and all. For synthetic rows only."""
        return self._call(inputs)


def _predict_function(model: Any, label: Any) -> Callable[[Inputs], Any]:
    classes = getattr(model, "classes_", None)
    if classes is None or not hasattr(model, "predict_proba"):
        if label is not None:
            raise ModelError("label was given, but the model does not predict probabilities of classes.")
        return lambda inputs: model.predict(inputs)
    names = [c.item() if isinstance(c, np.generic) else c for c in classes]
    if label is None or label not in names:
        raise ModelError(
            "this model is a classifier: say which class's probability is explained."
            if label is None
            else f"the model does not know the class {label!r}.",
            hint=f"Model(..., label={names[-1]!r}); its classes are: {', '.join(map(repr, names))}",
        )
    position = names.index(label)
    return lambda inputs: model.predict_proba(inputs)[:, position]


def _plain_function(model: Callable[[Inputs], Any], label: Any) -> Callable[[Inputs], Any]:
    if label is not None:
        raise ModelError("label belongs to classifiers; a function returns the number to be explained itself.")
    return model


def _array_values(name: str, domain: Domain, values: NDArray[Any] | None = None) -> Floats:
    """A column as floats; categories must then be numbers, because a code would mean something else to the model."""
    column = domain[name]
    if not isinstance(column, Categorical):
        return np.empty(0) if values is None else values.astype(np.float64)
    if any(isinstance(c, str) for c in column.categories):
        raise ModelError(
            f"column {name!r} has text categories, which an array of numbers cannot hold.",
            hint="fit the model on a DataFrame (or a pipeline that encodes it), or declare the codes as categories",
        )
    table = np.array(column.categories, dtype=np.float64)
    return table if values is None else table[values.astype(np.int64)]


def _vector(answer: Any, size: int) -> Floats:
    """One float for each row, infinities as missing; or an error."""
    values = np.asarray(answer, dtype=np.float64)
    if values.shape != (size,) and values.shape != (size, 1):
        raise ValueError("wrong shape")
    values = values.reshape(size)
    return np.where(np.isfinite(values), values, np.nan)


def _check(predictor: Predictor, domain: Domain, output: PublicRange, size: int = 128) -> None:
    """Try the model on synthetic rows: shape, finite answers, the same answer for a row in any company."""
    rows = PublicRandom(0).rows(domain, size)
    try:
        told = np.asarray(predictor.raw(predictor.inputs(rows)))
        answer = told.astype(np.float64)
    except Exception as error:
        raise ModelError(
            f"the model fails on synthetic rows drawn from the declared domain: {type(error).__name__}: {error}",
            hint="check the declared columns, their order and their types against what the model was fitted with",
        ) from None
    if answer.shape != (size,) and answer.shape != (size, 1):
        raise ModelError(
            f"the model must return one number for each row; for {size} rows it returned shape {answer.shape}."
        )
    answer = answer.reshape(size)
    if not np.isfinite(answer).all():
        raise ModelError(
            "the model returns NaN or infinite values for rows inside the declared domain.",
            hint="narrow the domain, or let the model handle such rows",
        )
    single = told.dtype in (np.float32, np.float16)
    inputs, order, half = predictor.inputs(rows), np.arange(size)[::-1], size // 2
    company = {
        "again": predictor.predict_at(inputs, {}),
        "once more, from the same inputs": predictor.predict_at(inputs, {}),
        "in another order": predictor.predict_at(predictor.inputs(rows.take(order)), {})[order],
        "in halves": np.concatenate(
            [predictor.predict_at(predictor.inputs(rows.take(slice(a, a + half))), {}) for a in (0, half)]
        ),
        "alone": np.concatenate(
            [predictor.predict_at(predictor.inputs(rows.take(slice(i, i + 1))), {}) for i in range(8)]
        ),
    }
    for how, other in company.items():
        if not np.allclose(other, answer[: len(other)], rtol=0, atol=(1e-6 if single else 1e-9) * output.width):
            raise ModelError(
                f"the model's answer for a row is not always the same: asked {how}, it is another one.",
                hint="a prediction must be a fixed function of its row; check for batch statistics and random draws "
                "(a model that computes in single precision should return float32)",
            )
    if ((answer < output.low) | (answer > output.high)).all():
        raise ModelError(
            f"every prediction on synthetic rows lies outside output=({output.low:g}, {output.high:g}).",
            hint="declare the range that the model's predictions really have",
        )
