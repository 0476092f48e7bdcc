"""Attack models: from an explanation to the record it explains, all features at once.

A model is fitted to lines of numbers: a number feature is one column, scaled to 0..1 by its declared bounds; a
categorical feature is one column for each category, so that squared error makes each column a probability. The linear
model is solved here; forest and network come from scikit-learn. `fit(X, Y)` and `predict(X)` is all that is asked of a
model, so any other regressor can attack as well.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpexplain.engines.progress import track
from dpexplain.errors import InputError

Floats = NDArray[np.float64]
_PENALTIES = np.logspace(-4, 4, 17)
_FEW = 10


class AttackModel(Protocol):
    def fit(self, x: Floats, y: Floats, /) -> Any: ...

    def predict(self, x: Floats, /) -> Any: ...


class Ridge:
    """Linear least squares with a penalty, from all columns of X or from the few that go with a column of Y.

    The penalty is chosen by generalised cross-validation, for each column of Y. Long explanations hide what little they
    say about one feature among columns that say nothing, so a second fit uses the ten columns that go with it most;
    the better of both on half of the records, trained on the other half, is fitted to all.
    """

    def fit(self, x: Floats, y: Floats) -> None:
        self._mean, self._base = x.mean(axis=0), y.mean(axis=0)
        x, y = x - self._mean, y - self._base
        self._slopes = _all_columns(x, y)
        if x.shape[1] > 2 * _FEW:
            half = len(x) // 2
            errors = [((y[half:] - x[half:] @ f(x[:half], y[:half])) ** 2).sum(axis=0) for f in _FITS]
            self._slopes = np.where(errors[1] < errors[0], _few_columns(x, y), self._slopes)

    def predict(self, x: Floats) -> Floats:
        return np.asarray(self._base + (x - self._mean) @ self._slopes, dtype=np.float64)


def _all_columns(x: Floats, y: Floats) -> Floats:
    values, vectors = np.linalg.eigh(x.T @ x)
    values = np.maximum(values, 0)[:, None]
    sides, total, n = vectors.T @ (x.T @ y), (y**2).sum(axis=0), len(x)
    errors = []
    for penalty in n * _PENALTIES:
        shrunk = 1 / (values + penalty)
        residual = total - ((2 * shrunk - values * shrunk**2) * sides**2).sum(axis=0)
        errors.append(residual / (1 - (1 + (values * shrunk).sum()) / (n + 1)) ** 2)
    best = n * _PENALTIES[np.argmin(errors, axis=0)]
    return np.asarray(vectors @ (sides / (values + best)), dtype=np.float64)


def _few_columns(x: Floats, y: Floats) -> Floats:
    square, sides = x.T @ x, x.T @ y
    chosen = np.argsort(-abs(sides) / np.sqrt(np.diag(square) + 1e-12)[:, None], axis=0)[:_FEW].T
    small = square[chosen[:, :, None], chosen[:, None, :]] + 1e-3 * len(x) * np.eye(_FEW)
    columns = np.arange(y.shape[1])[:, None]
    slopes = np.zeros_like(sides)
    slopes[chosen, columns] = np.linalg.solve(small, sides[chosen, columns][:, :, None])[:, :, 0]
    return np.asarray(slopes, dtype=np.float64)


_FITS = (_all_columns, _few_columns)


class Forest:
    """A random forest for each feature: trees shared by all features would have to split for all of them."""

    def __init__(self, blocks: Sequence[slice], seed: int) -> None:
        self._blocks, self._seed = blocks, seed

    def fit(self, x: Floats, y: Floats) -> None:
        from sklearn.ensemble import RandomForestRegressor

        self._forests = []
        with track("training forests", len(self._blocks)) as advance:
            for block in self._blocks:
                forest = RandomForestRegressor(
                    n_estimators=100, min_samples_leaf=3, max_features=1 / 3, random_state=self._seed, n_jobs=1
                )
                target = y[:, block]
                self._forests.append(forest.fit(x, target[:, 0] if target.shape[1] == 1 else target))
                advance(1)

    def predict(self, x: Floats) -> Floats:
        return np.column_stack([forest.predict(x) for forest in self._forests])


def factory(attack: str | Callable[[], AttackModel], blocks: Sequence[slice], seed: int) -> Callable[[], AttackModel]:
    """The maker of fresh models of the kind that was asked for."""
    if callable(attack):
        return attack
    if attack == "linear":
        return Ridge
    if attack not in ("forest", "mlp"):
        raise InputError(f"unknown attack {attack!r}.", hint='"linear", "forest" or "mlp"', spent="")
    try:
        from sklearn.neural_network import MLPRegressor
    except ImportError:
        raise InputError(
            f"attack={attack!r} needs the package scikit-learn.",
            hint='pip install "dpexplain[demo]", or attack="linear"',
            spent="",
        ) from None
    if attack == "forest":
        return lambda: Forest(blocks, seed)
    settings = {"hidden_layer_sizes": (64,), "alpha": 1e-2, "batch_size": 50, "learning_rate_init": 3e-3}
    return lambda: MLPRegressor(max_iter=200, random_state=seed, **settings)


def predictions(make: Callable[[], AttackModel], x: Floats, y: Floats, new: Floats, name: str) -> Floats:
    """What a fresh model, trained on x and y, says about new lines."""
    mean, spread = x.mean(axis=0), x.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a network that would like more steps is an attack all the same
            model = make()
            model.fit((x - mean) / spread, y)
            predicted = np.asarray(model.predict((new - mean) / spread), dtype=np.float64).reshape(len(new), -1)
    except Exception:  # its message may quote a record
        predicted = np.empty((0, 0))
    if predicted.shape != (len(new), y.shape[1]) or not np.isfinite(predicted).all():
        raise InputError(
            f"the attack model {name} could not be trained on {len(x)} auxiliary records.",
            hint="use more auxiliary records, or another attack",
            spent="",
        )
    return predicted
