"""What a batch can tell about one row: every part no more than its price, all together no more than the total."""

from __future__ import annotations

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.audit.capture import capture
from dpexplain.methods.batches.passes import SideBySide
from dpexplain.methods.batches.release import Parts, plan_batch

R = dpx.requests
REQUESTS = [
    R.StandIn(grade="marginals"),
    R.PartialDependence(feature="age", rug=False),
    R.PartialDependence(feature="sex", rug=False),
    R.AccumulatedEffects(feature="age"),
]


def risk(rows):
    return rows["income"].to_numpy() / 100  # so that the row moves every point of every curve as far as it can


@pytest.fixture
def neighbours(make_table, frame):
    """One row replaced: all of its values as far away as they can be."""
    other = frame.copy()
    frame.loc[0, ["age", "sex", "income"]] = [20, "Female", 0.0]
    other.loc[0, ["age", "sex", "income"]] = [29, "Male", 100.0]
    return make_table(frame, name="left"), make_table(other, name="left")


def captured(neighbours):
    """Every part of the batch on both tables, after the same history."""
    model = dpx.Model(risk, output=(0.0, 1.0), name="risk", version="1", features=["age", "sex", "income"])

    def explain(table):
        question, forecast = plan_batch(REQUESTS, table, model, epsilon=1)
        parts = Parts.of(question, forecast.division)
        body = lambda gate: parts.body("batch", gate)  # noqa: E731 - what release_batch hands to the door
        table.release("batch", "batch", {}, forecast.division.total, body, public=[], requests=parts.requests)

    return capture(*neighbours, explain)


def test_the_losses_of_all_parts_add_up_to_no_more_than_the_total(neighbours):
    parts = captured(neighbours)
    assert [part.name for part in parts] == ["0/counts", "1/curve", "2/curve", "3/effects"]
    assert sum(part.cost.amount for part in parts) == 1
    assert all(part.attained <= 1 + 1e-9 for part in parts)
    assert 0.5 < sum(part.loss for part in parts) <= 1 + 1e-9  # and the pair is a telling one
    assert [part.attained for part in parts[:3]] == pytest.approx([1, 1, 1], rel=1e-5)


def test_rows_that_count_twice_in_a_shared_pass_are_noticed(neighbours, monkeypatch):
    once = SideBySide.__call__
    monkeypatch.setattr(SideBySide, "__call__", lambda *what: np.asarray(3 * once(*what)))
    assert any(part.attained > 1 for part in captured(neighbours))
