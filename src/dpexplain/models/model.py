"""`Model`: any callable, any scikit-learn estimator or pipeline, made safe to run on private rows.

What may be said about a model is found out on synthetic rows, before anything is paid for (`models.check`): that it
answers, in the right shape, with finite numbers, each row for itself to the last bit. On private rows it can then only
do one of two things for a row: give a number, which is clipped to the public range, or fail, which counts as the middle
of the range and is told to nobody.

Why no bound needs a tolerance. Every call of the model is about one public number of rows, B (`models.predictor`). A
model that passed answers a row with the same bits at every place of such a block and among any other rows, so the
answer is a function of the row alone. Adding, removing or replacing a row moves others to other places, beside other
rows, and changes nothing by that. What is left to believe is that the model does on private rows what it did on
synthetic ones. docs/decisions/0015-predictions-in-fixed-blocks.md says more.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Domain, PublicRange
from dpexplain.errors import ModelError
from dpexplain.models.check import Check, warn_slow
from dpexplain.models.kinds import recognised
from dpexplain.models.kinds.base import Adapter
from dpexplain.models.predictor import Call, Predictor, array_column, block_for
from dpexplain.models.threads import safe_by_default

LARGEST_CHOSEN_BLOCK = 2**20


class Model:
    """A model to be explained.

    model      a fitted scikit-learn estimator or pipeline, or a function of a pandas DataFrame of the declared columns;
               a file, folder, object or address of a kind in docs/models.md: ONNX, XGBoost, LightGBM, CatBoost,
               PyTorch, skops, MLflow, or a server that speaks the Open Inference Protocol v2, to which rows are sent
    output     the public range (low, high) that predictions are clipped to
    label      for a classifier: the class whose probability is explained; with three classes or more None explains all
               of them together, where an explainer can (partial dependence, importance, average influence)
    features   the model's input columns in order (default: what it was fitted with, or all declared columns)
    name, version   identify the model in the ledger: the same request to the same version is answered again for
               free. Without a version every Model object counts as a new one.
    as_array   hand over a float array instead of a DataFrame (default: only to estimators fitted without names)
    thread_safe  whether several threads may predict at once (default: only for estimators of scikit-learn and XGBoost
               with nothing of one's own in them); tried on synthetic rows, which cannot prove it
    block      rows in every call of the model (default: by the public number of rows); 1 is exact for any model, and
               slow
    classes    names of the columns of an output that has none of its own: one for each class, in order
    transform  a function of a DataFrame of the declared columns that gives the table the model takes, row by row:
               derived columns, dates, other names of categories. It is checked together with the model
    options    what a kind of models can be told besides; docs/models.md has the list
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
        block: int | None = None,
        classes: Sequence[Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        known = recognised(model, classes, options)
        model, self.file_digest = known.model, known.digest
        estimator = hasattr(model, "predict")
        if not estimator and not callable(model):
            raise ModelError("a model is a fitted estimator with predict(), or a function.")
        if not isinstance(output, tuple | list) or len(output) != 2:
            raise ModelError("output must be a pair (low, high).", hint="output=(0.0, 1.0) for a probability")
        if any(isinstance(bound, np.generic) for bound in output):
            raise ModelError(
                "a bound of the output range is a value of numpy, which looks as if it was read from predictions.",
                hint="the range is public: never the smallest and largest prediction for private rows. If it was not "
                "computed from them, write the numbers themselves, or float(...) around them",
            )
        self.output = PublicRange(*output)
        if not isinstance(name, str) or not name.strip() or not isinstance(version, str | int | None):
            raise ModelError("name and version of a model are texts.", hint='name="credit", version="3"')
        if block is not None and (
            isinstance(block, bool) or not isinstance(block, int) or not 1 <= block <= LARGEST_CHOSEN_BLOCK
        ):
            raise ModelError(f"block must be a whole number from 1 to {LARGEST_CHOSEN_BLOCK}; got {block!r}.")
        self.name, self.versioned, self.block = name, version is not None, block
        self.version = str(version)
        self.original, self.label = model, label
        if transform is not None and (not callable(transform) or as_array):
            raise ModelError("transform is a function of a DataFrame of the declared columns.")
        self._transform = transform
        fitted = None if transform is not None else getattr(model, "feature_names_in_", None)
        self._features = list(map(str, fitted)) if features is None and fitted is not None else features
        if isinstance(model, Adapter):
            by_default, as_floats = model.thread_safe, model.as_array
        else:
            by_default, as_floats = estimator and safe_by_default(model), estimator and fitted is None
        self.thread_safe = (by_default and transform is None) if thread_safe is None else thread_safe
        self.as_array = (as_floats and transform is None) if as_array is None else as_array
        self._warned = False
        self._begin()
        if self.every_class and (self.output.low, self.output.high) != (0.0, 1.0):
            raise ModelError(
                "all classes of this model are explained together, and each is a probability.",
                hint="output=(0.0, 1.0); or say which class's probability is explained: label=...",
            )

    def _begin(self) -> None:
        """Begin without any memory. A copy, or another process, may fit its estimator by itself: without a version of
        the caller's it is another model from now on.
        """
        estimator = hasattr(self.original, "predict")
        self.every_class = every_class(self.original) if self.label is None else ()
        call = (_predict_function if estimator else _plain_function)(self.original, self.label)
        self._call = self.asked_with(call)
        self._passed: dict[tuple[str, int], Predictor] = {}  # by domain and size of blocks
        self._process = os.getpid()
        self.version = self.version if self.versioned else _unversioned()

    def asked_with(self, call: Call) -> Call:
        """A way to ask the model, with the caller's transform before it."""
        return call if self._transform is None else partial(_transformed, self._transform, call)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_call", "_passed")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    @property
    def identity(self) -> JsonObject:
        label = self.label.item() if isinstance(self.label, np.generic) else self.label
        return {
            "name": self.name,
            "version": self.version,
            "output": self.output.to_json(),
            "label": label,
            "features": None if self._features is None else list(self._features),
            "as_array": self.as_array,
            **({"classes": list(self.every_class)} if self.every_class else {}),
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
        if self.as_array:
            for name in names:
                array_column(name, domain)
        return names

    def checked(self, domain: Domain, *, rows: int | None = None, exact: bool = False) -> Predictor:
        """The model as a predictor for this domain, after trying it on synthetic rows.

        `rows` is the public number of rows (`exact`) or a guess, for the size of blocks. What passed is remembered, but
        the first rows are always asked again: an estimator may have been fitted anew. It has been if one answer is
        another one: by a bit in blocks of the same size, by more than last digits in those of another size.
        """
        if self._process != os.getpid():
            self._begin()
        if self.every_class:
            raise ModelError(
                f"this model predicts {len(self.every_class)} classes, and what is asked for is about one of them.",
                hint=f"Model(..., label={self.every_class[-1]!r}); its classes are: "
                + ", ".join(map(repr, self.every_class)),
            )
        features = self.features(domain)
        block = self.block
        if block is None:
            block = block_for(rows, len(features), exact=exact)
        check = Check(domain, self.output, self.block is not None)
        known = self._passed.get((domain.digest, block))
        if known is None or not check.same_as_before(known):
            asked = Predictor(self._call, features, domain, self.as_array, block, thread_safe=self.thread_safe)
            passed = check.passed(asked)
            before = [one for (where, _), one in self._passed.items() if where == domain.digest]
            if known is not None or not all(self._alike(one, passed) for one in before):  # it is another model now
                self._passed.clear()
                self.version = self.version if self.versioned else _unversioned()
            self._passed[domain.digest, block] = known = passed
        if known.block < block and not self._warned:
            self._warned = True
            warn_slow(known.block)
        return known

    def _alike(self, one: Predictor, two: Predictor) -> bool:
        """Whether answers in blocks of two sizes differ in last digits at most."""
        tolerance = max(one.precision, two.precision) * self.output.width
        return np.allclose(one.answers, two.answers, rtol=0, atol=tolerance)


def _unversioned() -> str:
    return f"unversioned-{uuid.uuid4()}"


def _predict_function(model: Any, label: Any) -> Call:
    classes = getattr(model, "classes_", None)
    if classes is None or not hasattr(model, "predict_proba"):
        if label is not None:
            raise ModelError(
                "label was given, but the model does not predict probabilities of classes.",
                hint="leave label out; if its output has a column for each class, name them: classes=[...]",
            )
        return partial(_predicted, model)
    names = [c.item() if isinstance(c, np.generic) else c for c in classes]
    if label is None and every_class(model):
        return _refused
    if label is None or label not in names:
        raise ModelError(
            "this model is a classifier: say which class's probability is explained."
            if label is None
            else f"the model does not know the class {label!r}.",
            hint=f"Model(..., label={names[-1]!r}); its classes are: {', '.join(map(repr, names))}",
        )
    position = names.index(label)
    return partial(_probability, model, position)


def every_class(model: Any) -> tuple[Any, ...]:
    """The classes of a classifier that predicts probabilities of three or more; of two, one says all."""
    classes = getattr(model, "classes_", None)
    if classes is None or not hasattr(model, "predict_proba") or len(classes) < 3:
        return ()
    return tuple(c.item() if isinstance(c, np.generic) else c for c in classes)


def _refused(_inputs: Any) -> Any:
    raise ModelError("no single class of this model is explained.")  # `models.classes` asks about all


def _predicted(model: Any, inputs: Any) -> Any:
    return model.predict(inputs)


def _probability(model: Any, position: int, inputs: Any) -> Any:
    return model.predict_proba(inputs)[:, position]


def _transformed(transform: Callable[[Any], Any], call: Call, inputs: Any) -> Any:
    made = transform(inputs)
    if len(made) != len(inputs):
        raise ValueError("transform gives another number of rows")
    return call(made)


def _plain_function(model: Call, label: Any) -> Call:
    if label is not None:
        raise ModelError("label belongs to classifiers; a function returns the number to be explained itself.")
    return model
