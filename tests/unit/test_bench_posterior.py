"""What `bench posterior` compares with is right: fast copies of models, exact curves, ratios and their bounds."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench.fast_models import agrees, copied
from bench.posterior import best_share, coverage_bounds, geometric, ratio_lower_bound, ratio_of, root
from bench.posterior_tables import Places, key_of, plain_effects
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dpexplain as dpx

FEATURES = ["number", "kind", "other"]
DOMAIN = dpx.Domain(
    {"number": dpx.Numeric(0, 1), "kind": dpx.Categorical([0, 1, 2]), "other": dpx.Numeric(0, 9, integer=True)}
)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    columns = {"number": draw.random(300), "kind": draw.integers(0, 3, 300), "other": draw.integers(0, 10, 300)}
    return pd.DataFrame(columns).astype(float)


def _encoded(last: Any) -> Any:
    one_hot = OneHotEncoder(categories=[[0.0, 1.0, 2.0]])
    return make_pipeline(make_column_transformer((one_hot, ["kind"]), (StandardScaler(), ["number", "other"])), last)


ESTIMATORS = {
    "forest": RandomForestClassifier(5, random_state=0),
    "forest of numbers": RandomForestRegressor(5, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5),
    "boosting of numbers": HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5),
    "logistic": _encoded(LogisticRegression()),
    "log-linear": _encoded(PoissonRegressor()),
    "network": _encoded(MLPClassifier((4,), max_iter=5, random_state=0)),
    "network of logarithms": TransformedTargetRegressor(
        _encoded(MLPRegressor(hidden_layer_sizes=(4,), max_iter=5, random_state=0)), func=np.log, inverse_func=np.exp
    ),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_fast_copy_says_what_the_model_says(name: str, frame: pd.DataFrame) -> None:
    score = 2 * frame["number"] + (frame["kind"] == 1) + frame["other"] / 9
    classes = name in ("forest", "boosting", "logistic", "network")
    estimator = ESTIMATORS[name].fit(frame, (score > 1.7).astype(int) if classes else np.exp(score))
    fast = copied(estimator, FEATURES)
    assert agrees(fast, estimator, frame) < 1e-9
    for column, values in enumerate(([0.9, 0.1, 0.5], [2.0, 0.0, 1.0], [0.0, 4.0, 9.0])):  # in no order
        lines = fast.lines(frame.to_numpy(), column, values)
        for line, value in zip(lines, values, strict=True):
            there = frame.assign(**{FEATURES[column]: value})
            assert line == pytest.approx(fast(there.to_numpy()), abs=1e-12)


class Straight:
    """Rises by 0.5 along the number, and by 0.1 from one kind to the next."""

    def __call__(self, matrix: Any) -> Any:
        return 0.2 + 0.5 * matrix[:, 0] + 0.1 * matrix[:, 1]


class Case:
    domain, features, output = DOMAIN, FEATURES, (0.0, 2.0)


def test_plain_effects_of_a_straight_model_are_straight(frame: pd.DataFrame) -> None:
    matrix = frame.to_numpy()
    points, curve = plain_effects(Straight(), Case, matrix, "number")  # type: ignore[arg-type]
    assert 80 < len(points) < 101  # of a hundred cells some are empty
    assert curve == pytest.approx(0.25 * points)  # in units of the output range, whose width is 2
    points, curve = plain_effects(Straight(), Case, matrix, "kind")  # type: ignore[arg-type]
    assert curve == pytest.approx(0.05 * points)


def test_nothing_is_lost_over_a_gap() -> None:
    matrix = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 7.0]])
    points, curve = plain_effects(Jumping(), Case, matrix, "other")  # type: ignore[arg-type]
    assert points.tolist() == [0.0, 1.0, 7.0]  # a row at the low end belongs to the first step
    assert curve == pytest.approx([0.0, 0.0, 0.3])


class Jumping:
    """Jumps where no row is."""

    def __call__(self, matrix: Any) -> Any:
        return 0.6 * (matrix[:, 2] > 4)


def test_effects_are_compared_where_the_rows_are() -> None:
    places = Places.of(dpx.Numeric(0, 1000, integer=True), np.array([0.0] * 6 + [7.0, 7.0, 995.0, 1000.0]))
    assert places.points[0] == 0  # rows at the low end stand there, not in the middle of their cell
    assert places.shares == pytest.approx([0.6, 0.2, 0.2])
    values = places.at([0, 1000], np.array([0.0, 1.0]), ordered=True)
    assert values == pytest.approx(places.points / 1000)
    assert places.shares @ places.centred(values) == pytest.approx(0)
    assert places.squared_error(np.array([1.0, 0, 0]), np.zeros(3)) == pytest.approx(0.6)


def test_categories_are_compared_one_by_one() -> None:
    places = Places.of(dpx.Categorical([0, 1, 2]), np.array([0.0, 0, 2, 2]))
    assert places.shares.tolist() == [0.5, 0.0, 0.5]
    assert places.at([0, 1, 2], np.array([3.0, 4.0, 5.0]), ordered=False).tolist() == [3, 4, 5]


def test_roots_and_geometric_means() -> None:
    assert root([0.01, 0.03]) == pytest.approx(np.sqrt(0.02))
    assert geometric([0.5, 2.0]) == pytest.approx(1)
    assert np.isnan(geometric([]))


def test_a_ratio_is_against_the_better_of_the_others() -> None:
    assert ratio_of([4.0], [[1.0], [16.0]]) == pytest.approx(2)
    assert ratio_of([4.0], [[16.0]]) == pytest.approx(0.5)


def test_the_bound_of_a_ratio_is_below_it_and_without_noise_equal() -> None:
    assert ratio_lower_bound([4.0, 4.0], [[1.0, 1.0], [9.0, 9.0]], 0.01, draws=100) == pytest.approx(2)
    draw = np.random.default_rng(1)
    ours, other = draw.gamma(5, 0.2, 10), draw.gamma(5, 0.2, 10)
    bounds = [ratio_lower_bound(ours, [other], tail, draws=20_000) for tail in (0.01 / 160, 0.01, 0.5)]
    assert bounds[0] < bounds[1] < bounds[2]
    assert bounds[2] == pytest.approx(ratio_of(ours, [other]), rel=0.05)


def test_bounds_of_coverage_hold_the_mean() -> None:
    low, high = coverage_bounds([0.9, 1.0, 0.95, 0.85, 1.0], 0.01)
    assert 0.85 <= low < 0.94 < high <= 1.0
    assert coverage_bounds([0.95] * 10, 1e-4) == pytest.approx((0.95, 0.95))


def test_the_best_share_has_the_smallest_error() -> None:
    assert best_share({"ours": {"0": {"error": [0.2, 0.2]}, "0.5": {"error": [0.1, 0.2]}}}) == "0.5"


def test_sums_are_known_by_the_kernel_and_its_arguments() -> None:
    kernel = partial(_kernel, size=3)
    assert key_of(kernel) == key_of(partial(_kernel, size=3)) != key_of(partial(_kernel, size=4))
    assert key_of(_kernel) is None  # what is not known is summed again
    assert key_of(partial(_kernel, size=lambda: 3)) is None


def _kernel(rows: Any, size: int) -> Any:
    return np.full(size, rows.size)
