"""What `bench posterior --part everything` judges by: the loss of local models, and the words of its summary."""

from __future__ import annotations

import numpy as np
import pytest
from bench.everything import enough, summary_of_forecasts, summary_of_importance, summary_of_ratios
from bench.everything_tables import MOST_VALUES, Around, _frequencies, share_lost


def test_the_best_local_model_loses_nothing_and_saying_nothing_loses_all():
    draw = np.random.default_rng(0)
    rows = draw.random((500, 3))
    scores = np.clip(rows @ [0.5, -0.2, 0.1] + draw.normal(0, 0.05, 500), -1, 1)
    around = [Around.of(rows, scores, record) for record in rows[:4]]
    assert share_lost(around, [one.best for one in around]) == pytest.approx(0, abs=1e-12)
    assert share_lost(around, [np.zeros(3)] * 4) == pytest.approx(1)
    assert around[0].best == pytest.approx([0.5, -0.2, 0.1], abs=0.03)
    line = Around.of(rows, rows @ [0.5, -0.2, 0.1], rows[0])
    assert line.best == pytest.approx([0.5, -0.2, 0.1])
    assert line.explained == pytest.approx(line.c)


def test_many_values_become_quantiles():
    assert [part.tolist() for part in _frequencies(np.array([1.0, 3.0, 3.0, 3.0]))] == [[1.0, 3.0], [0.25, 0.75]]
    values, shares = _frequencies(np.arange(1_000.0))
    assert len(values) == MOST_VALUES
    assert shares.sum() == pytest.approx(1)
    assert values.mean() == pytest.approx(499.5, abs=10)


def test_the_epsilon_that_is_enough():
    assert enough([(0.1, 0.99), (1.0, 1.0)]) == 0.1
    assert enough([(0.1, 0.5), (1.0, 0.97)]) is None
    assert enough([(0.01, 0.5), (0.1, 0.96), (1.0, 1.0)]) == pytest.approx(10**-0.5, rel=1e-3)
    assert enough([(0.01, 0.99), (0.1, 0.5), (1.0, 1.0)]) > 0.1


WHERE = {"table": "german", "model": "forest", "account": "zcdp", "epsilon": 1.0}


def test_what_is_worse_is_said():
    lines = {
        name: [{"error": error}] * 3 for name, error in {"now": 0.4, "mst": 0.2, "zero": 0.1, "ours": 0.15}.items()
    }
    found = summary_of_ratios("disparity", [{**WHERE, "part": "disparity", **lines}])
    assert (found["geometric mean of ratios"], found["reached"]) == (0.75, True)
    assert list(found["above the error of saying zero"].values()) == [1.5]
    orders = {"now": [0.8, 0.82, 0.84], "mst": [0.5] * 3, "ours": [0.6, 0.61, 0.62]}
    cell = {name: [{"concordance": order} for order in some] for name, some in orders.items()}
    assert not summary_of_importance("importance", [{**WHERE, **cell}])["reached"]
    better = {**cell, "ours": cell["now"], "now": cell["ours"]}
    assert summary_of_importance("importance", [{**WHERE, **better}])["reached"]


def test_forecasts_are_judged_by_what_came():
    line = {"pd": {"forecast": 0.1, "far": 0.09}, "ale": {"forecast": 0.1, "far": 0.01}, "read off": {"far": 1.0}}
    found = summary_of_forecasts([{**WHERE, "part": "batch", "ours": [line, line]}])
    assert (found["share within 1.5"], found["reached"], len(found["forecast / far"])) == (0.5, False, 2)
    assert summary_of_forecasts([{**WHERE, "part": "batch"}]) == {}
