"""What `bench performance` compares with is right: exact figures, fairness, coverage."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from bench.performance import errors, summary
from bench.performance_tables import exact, fairness, members
from sklearn.metrics import accuracy_score, brier_score_loss, precision_score, recall_score, roc_auc_score

EDGES = (0.0, 0.25, 0.5, 1.0)


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    scores = np.round(draw.random(400), 2)  # with ties, and some at the threshold
    return scores, draw.random(400) < scores


def test_exact_figures_are_those_of_scikit_learn(rows: tuple[np.ndarray, np.ndarray]) -> None:
    scores, outcome = rows
    found, chosen = exact(scores, outcome, 0.5, EDGES), scores >= 0.5
    assert found["auc"] == pytest.approx(roc_auc_score(outcome, scores))
    assert found["accuracy"] == pytest.approx(accuracy_score(outcome, chosen))
    assert found["precision"] == pytest.approx(precision_score(outcome, chosen))
    assert found["true_positive_rate"] == pytest.approx(recall_score(outcome, chosen))
    assert found["false_positive_rate"] == pytest.approx(1 - recall_score(~outcome, ~chosen))
    assert found["brier_score"] == pytest.approx(brier_score_loss(outcome, scores))


def test_the_calibration_error_is_that_of_the_cells(rows: tuple[np.ndarray, np.ndarray]) -> None:
    scores, outcome = rows
    cells = [scores < 0.25, (scores >= 0.25) & (scores < 0.5), scores >= 0.5]
    by_hand = sum(abs(scores[cell].mean() - outcome[cell].mean()) * cell.mean() for cell in cells)
    assert exact(scores, outcome, 0.5, EDGES)["calibration_error"] == pytest.approx(by_hand)


def test_a_group_without_rows_has_no_figures() -> None:
    nothing = exact(np.empty(0), np.empty(0, dtype=bool), 0.5, EDGES)
    assert all(np.isnan(value) for value in nothing.values())


def test_fairness_takes_the_worse_of_two_rates() -> None:
    groups = [
        {"selection_rate": 0.2, "true_positive_rate": 0.6, "false_positive_rate": 0.1},
        {"selection_rate": 0.3, "true_positive_rate": 0.8, "false_positive_rate": 0.4},
    ]
    found = fairness(groups)
    assert found["demographic_parity_difference"] == pytest.approx(0.1)
    assert found["demographic_parity_ratio"] == pytest.approx(2 / 3)
    assert found["equalized_odds_difference"] == pytest.approx(0.3)
    assert found["equalized_odds_ratio"] == pytest.approx(0.25)
    assert found["equal_opportunity_difference"] == pytest.approx(0.2)


def test_crossed_groups_have_the_rows_that_agree_in_all_columns() -> None:
    frame = pd.DataFrame({"sex": [0, 0, 1, 1], "race": [0, 1, 0, 1]})
    assert members(frame, {"sex": 1, "race": 0}).tolist() == [False, False, True, False]
    assert members(frame, {}).all()


def test_coverage_counts_intervals_that_hold_the_exact_figure() -> None:
    nan = float("nan")
    said = [
        (0, "forest", 0.5, 0.4, 0.6, 0.55),
        (1, "forest", 0.5, 0.4, 0.6, 0.70),  # missed
        (2, "forest", nan, 0.0, 1.0, 0.70),  # not determined, and held
        (3, "forest", 0.5, 0.4, 0.6, nan),  # there is nothing to be compared with
    ]
    found = summary(said)
    assert found["values"] == 3
    assert found["coverage"] == pytest.approx(2 / 3, abs=1e-3)
    assert found["undetermined"] == pytest.approx(1 / 3, abs=1e-3)
    assert found["ours"]["rmse"] == pytest.approx(np.sqrt((0.05**2 + 0.2**2) / 2), abs=1e-3)


def test_missing_figures_have_no_error_and_are_counted() -> None:
    assert errors([0.1, float("nan")]) == {"rmse": 0.1, "p95": 0.1, "missing": 0.5}
    assert errors([float("nan")]) is None
