"""SHAP values of a model with synthetic rows as background, by the package shap where it is installed. Free.

The value of a coalition of columns is the mean prediction over the background rows with the record's values in these
columns. The background is drawn from a posterior's rows by their weights, so the base is the mean prediction of an
average person of the table, as far as the stand-in knows it.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.data.rows import Rows
from dpexplain.errors import InputError
from dpexplain.maths.surrogate import Space
from dpexplain.methods.local_readings import columns_of
from dpexplain.methods.local_sketch.result import lines_of
from dpexplain.models import Predictor

Floats = NDArray[np.float64]

MOST_BACKGROUND = 10_000
ROUNDS = 10  # permutations of the columns, each forth and back


def shap_of_rows(predictor: Predictor, rows: Rows, weights: Floats, records: Any, background: int) -> Any:
    """A `shap.Explanation` of one record, or of several."""
    if isinstance(background, bool) or not isinstance(background, int) or not 2 <= background <= MOST_BACKGROUND:
        raise InputError(f"background is a whole number from 2 to {MOST_BACKGROUND:,}.", spent="")
    shap = shap_package()
    domain, names = rows.domain, list(predictor.features)
    space = Space(domain, tuple(names))
    single = hasattr(records, "keys") or getattr(records, "ndim", 0) == 1 or _is_record(records, names)
    points = [space.read(record) for record in ([records] if single and not _is_frame(records) else lines_of(records))]
    single = single and not _is_frame(records)

    def predict(matrix: Floats) -> Floats:
        columns = {
            name: matrix[:, j] if space.counts[name] == 0 else matrix[:, j].astype(np.int64)
            for j, name in enumerate(names)
        }
        answers = predictor.predict_at(predictor.inputs(Rows(domain, columns, len(matrix))), {})
        return np.asarray(answers)

    asked = columns_of(space, points)
    matrix = np.stack([np.asarray(asked[name], dtype=np.float64) for name in names], axis=1)
    chosen = evenly(weights, background)
    behind = np.stack([np.asarray(rows[name][chosen], dtype=np.float64) for name in names], axis=1)
    with warnings.catch_warnings():  # shap warns about its own dependencies
        warnings.simplefilter("ignore")
        masker = shap.maskers.Independent(behind, max_samples=background)
        explainer = shap.explainers.Permutation(predict, masker, feature_names=names, seed=0)
        found = explainer(matrix, max_evals=ROUNDS * (2 * len(names) + 1), silent=True)
    shown = np.array([[point[name] for name in names] for point in points], dtype=object)
    values, base = np.asarray(found.values), np.asarray(found.base_values)
    pick: Any = 0 if single else slice(None)
    return shap.Explanation(values=values[pick], base_values=base[pick], data=shown[pick], feature_names=names)


def evenly(weights: Floats, number: int) -> NDArray[np.int64]:
    """So many rows, each as often as its weight says, as evenly as possible: always the same ones."""
    ends = np.cumsum(weights) / float(weights.sum())
    places = np.searchsorted(ends, (np.arange(number) + 0.5) / number, side="left")
    return np.minimum(places, len(weights) - 1).astype(np.int64)


def shap_package() -> Any:
    """The package, or an error that names the extra."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module("shap")
    except ImportError:
        raise InputError("the package shap is not installed.", hint="pip install dpexplain[shap]", spent="") from None


def _is_frame(records: Any) -> bool:
    return getattr(records, "ndim", 0) == 2 or hasattr(records, "to_dicts")


def _is_record(records: Any, names: list[str]) -> bool:
    """Whether a list is one record, by order, and no list of records."""
    plain = isinstance(records, list | tuple) and len(records) == len(names)
    return plain and not any(isinstance(value, list | tuple | dict) or hasattr(value, "keys") for value in records)
