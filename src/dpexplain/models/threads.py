"""Which models may be asked by several threads at once: those of a few known libraries, with no code of others inside.

A model that keeps its input on itself answers one thread with the rows of another: a row is then counted twice, and no
bound holds. A declared or assumed safety is also tried on synthetic rows (`models.check`), which can find such a
model but never clear it. So the default is yes only for what is in the table below.
"""

from __future__ import annotations

from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import scipy.special

# The libraries, and why. Not in it: LightGBM and CatBoost, whose documents promise nothing about threads; torch and
# Keras, whose modules may keep state, or build themselves at the first call; onnxruntime, whose sessions may be shared
# but come wrapped in somebody's own class.
THREAD_SAFE = {
    "sklearn": "a fitted estimator reads what it learned and writes nothing that it reads again",
    "xgboost": "since 1.4 its documents promise it for trees, not for the linear booster",
}
HARMLESS = {"builtins", "numpy", "scipy", "pandas"}  # what fitted estimators hold: arrays, dtypes, ufuncs, splines
PLAIN = (type(None), bool, int, float, complex, str, bytes, slice, range, np.generic, np.dtype)


def safe_by_default(model: Any) -> bool:
    """Whether a model and all that it holds come from libraries in the table.

    A subclass of one's own, a step of one's own in a pipeline, or a function of one's own in a FunctionTransformer, a
    kernel or a metric does not, nor does one inside np.vectorize, np.frompyfunc or functools.partial.
    """
    if _library(type(model)) not in THREAD_SAFE:
        return False
    waiting, seen = [model], dict[int, Any]()  # the values too: an id is that of another object when one is gone
    while waiting:
        value = waiting.pop()
        if isinstance(value, PLAIN) or id(value) in seen:
            continue
        seen[id(value)] = value
        kind = type(value)
        if kind in (list, tuple, set, frozenset):
            waiting += value
        elif kind is dict:
            waiting += value.values()
        elif kind is np.ndarray:
            waiting += value.ravel().tolist() if value.dtype.hasobject else []
        elif kind is partial:
            waiting += [value.func, value.args, value.keywords]
        elif kind is MethodType:
            waiting += [value.__func__, value.__self__]
        elif kind is np.ufunc:
            if not any(getattr(library, value.__name__, None) is value for library in (np, scipy.special)):
                return False
        elif isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):  # a class or a function
            if _library(value) not in {*THREAD_SAFE, *HARMLESS}:
                return False
            waiting += [value.__wrapped__] if hasattr(value, "__wrapped__") else []
        elif _library(kind) == "sklearn":
            waiting += [*getattr(value, "__dict__", {}).values(), *(value.values() if isinstance(value, dict) else ())]
        elif _library(kind) == "xgboost":
            if getattr(value, "booster", None) == "gblinear":
                return False
        elif kind is np.vectorize or _library(kind) not in HARMLESS:
            return False
        elif _library(kind) in {"numpy", "scipy"}:
            waiting += getattr(value, "__dict__", {}).values()
    return True


def _library(thing: Any) -> str:
    """The package that something comes from. What a function says of itself may be copied (functools.wraps)."""
    name = thing.__globals__.get("__name__") if isinstance(thing, FunctionType) else getattr(thing, "__module__", None)
    return str(name).partition(".")[0]
