"""Local models of synthetic rows against weighted least squares, and their files against what was read."""

from __future__ import annotations

import json
import math
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.domain import PublicRange
from dpexplain.maths.surrogate import Space, StepWeight
from dpexplain.maths.surrogate.rows import WeightedRows
from dpexplain.methods import shapley_rows
from dpexplain.methods.local_readings import Kept
from dpexplain.methods.local_sketch.release import composition
from dpexplain.methods.local_sketch.request import LocalSketchRequest
from dpexplain.methods.posterior import local_rows
from dpexplain.methods.result import from_json
from dpexplain.methods.setting import Setting
from examples import DOMAIN

ZCDP = dpx.Budget(1000, 1e-6)
RECORD = {"age": 23, "sex": "Male", "income": 40.0}
EXACT = 1e-9


@pytest.fixture
def sketch(make_table, frame, model):
    return dpx.local_sketch(make_table(frame), model, epsilon=5, method="stand-in")


@pytest.fixture(scope="module")
def rows() -> WeightedRows:
    """Rows whose columns go together, with weights of their own."""
    draw, size = np.random.default_rng(0), 3_000
    age = draw.uniform(20, 29, size)
    columns = {
        "age": np.rint(age),
        "sex": (draw.random(size) < (age - 15) / 20).astype(np.int64),
        "income": np.clip(5 * (age - 15) + draw.normal(0, 25, size), 0, 100),
    }
    space = Space(DOMAIN, ("age", "sex", "income"))
    X, weights = space.coordinates(columns, size), draw.random(size) ** 2
    answers = 1 / (1 + np.exp(-(columns["age"] - 25) / 3 - columns["sex"] * columns["income"] / 60))
    return WeightedRows(space, PublicRange(0, 1), X, answers, weights / weights.sum())


def stable(distance: float) -> float:
    near = (math.sqrt(3) - 1) / 2
    return 1.0 if distance <= near else 1 / (2 * distance * (distance + 1))


@pytest.mark.parametrize("weight", ["stable", "gaussian", lambda u: 1 / (1 + u)])
@pytest.mark.parametrize("many", [True, False])
def test_the_local_model_is_that_of_weighted_least_squares(rows, weight, many, monkeypatch):
    monkeypatch.setattr("dpexplain.maths.surrogate.rows.KEPT_NUMBERS", 2**23 if many else 0)
    rows = WeightedRows(rows.space, rows.output, rows.coordinates, rows.predictions, rows.weights)
    steps = StepWeight.of(weight, rows.space.diameter, width=1.0)
    named = {"stable": stable, "gaussian": lambda u: math.exp(-(u**2))}
    for near in rows.around(rows.coordinates[:3], steps, None):
        D = rows.coordinates - near.z
        # steps of distance are 4096, so a weight is that of the middle of its step
        u = (np.floor(np.linalg.norm(D, axis=1) * 4096 / rows.space.diameter) + 0.5) * rows.space.diameter / 4096
        a = rows.weights * [named.get(weight, weight)(x) for x in u]
        lines = np.column_stack([np.ones(len(D)), D @ rows.space.basis]) * np.sqrt(a)[:, None]
        best = np.linalg.lstsq(lines, (2 * rows.predictions - 1) * np.sqrt(a), rcond=None)[0]
        assert near.value == pytest.approx(best[0], abs=EXACT)
        assert near.phi == pytest.approx(rows.space.basis @ best[1:], abs=EXACT)


def test_with_a_given_value_it_stays_in_the_ball_and_nothing_there_is_better(rows):
    steps, draw = StepWeight.of("stable", rows.space.diameter), np.random.default_rng(1)
    for near in rows.around(rows.coordinates[:3], steps, 0.2):
        D = rows.coordinates - near.z
        a = rows.weights * steps(np.linalg.norm(D, axis=1))
        f = 2 * rows.predictions - 1

        def loss(phi, D=D, a=a, f=f):
            return float(a @ (D @ phi - (f - -0.6)) ** 2)

        assert near.value == pytest.approx(-0.6)
        assert np.linalg.norm(near.phi) <= 1.6 * (1 + EXACT)
        for _ in range(50):
            other = near.phi + rows.space.basis @ draw.normal(0, 0.05, rows.space.basis.shape[1])
            other /= max(1.0, np.linalg.norm(other) / 1.6)
            assert loss(near.phi) <= loss(other) + 1e-12


def test_the_influence_of_rows_is_what_a_little_weight_does(rows):
    steps = StepWeight.of("stable", rows.space.diameter)
    (near,) = rows.around(rows.coordinates[:1], steps, None)
    lines, tiny = rows.space.lines(near.z - rows.mean), 1e-6
    said = near.influence(lines)
    assert rows.weights @ said == pytest.approx(0, abs=1e-12)
    for row in (3, 50, 700):
        weights = rows.weights * (1 - tiny)
        weights[row] += tiny
        moved = WeightedRows(rows.space, rows.output, rows.coordinates, rows.predictions, weights)
        (other,) = moved.around(near.z[None], steps, None)
        assert (lines @ (other.phi - near.phi)) / tiny == pytest.approx(said[row], rel=1e-3, abs=1e-4)


def test_contributions_lead_from_the_average_row_along_the_line(sketch):
    answer = sketch.explain(RECORD, 0.4)
    rows = sketch.local.rows
    assert answer.base == pytest.approx(float(rows.weights @ rows.predictions))
    assert answer.prediction == 0.4
    assert answer.remainder.value == pytest.approx(0.4 - answer.base - answer.values.sum())
    low, high = answer.interval()
    assert ((low < answer.values) & (answer.values < high)).all()
    assert "not proven" in answer.interval_name or "nothing here is proven" in answer.notes
    many = sketch.explain_many([RECORD, {**RECORD, "age": 29}], [0.4, 0.5])
    assert many[0].values == pytest.approx(answer.values, abs=1e-12)
    assert sketch.explain_many([]) == []


def test_a_pure_account_pays_once_and_a_second_time_is_free(make_table, frame, model):
    table = make_table(frame)
    one, two = (dpx.local_sketch(table, model, epsilon=1) for _ in range(2))
    assert isinstance(one, dpx.results.RowSketch)
    assert two.receipt.replayed
    assert one.receipt.cost == table.cost(epsilon=1) == table.ledger.statement(table.name).spent
    assert two.explain(RECORD).values.tolist() == one.explain(RECORD).values.tolist()
    free = dpx.local_sketch(table, model, stand_in=one.stand_in)
    assert free.kept == one.kept
    assert dpx.posterior(one.stand_in, model).explain(RECORD).values == pytest.approx(free.explain(RECORD).values)
    assert table.ledger.statement(table.name).spent == one.receipt.cost


def test_the_picture_names_bands_of_predictions(sketch):
    ax = sketch.plot()
    said = [label.get_text() for label in ax.get_yticklabels()]
    assert len(said) == 10
    assert said[1] == "0.1 to 0.2"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("share of rows", "prediction")


def test_files_of_sketch_and_explanation(sketch, make_table, frame, model, tmp_path):
    sketch.save(tmp_path / "sketch.json")
    loaded = dpx.results.RowSketch.load(tmp_path / "sketch.json", domain=DOMAIN)
    answer = sketch.explain(RECORD, 0.4, weight="gaussian")
    again = from_json(answer.to_json())
    for other in (loaded.explain(RECORD, 0.4, weight="gaussian"), again):
        assert other.values == pytest.approx(answer.values, abs=1e-12)
        assert np.array(other.interval()) == pytest.approx(np.array(answer.interval()), abs=1e-12)
    assert again.settings == answer.settings
    other = dpx.Domain({**DOMAIN, "income": dpx.Numeric(0, 200)})
    with pytest.raises(dpx.InputError, match="another domain"):
        dpx.results.RowSketch.load(tmp_path / "sketch.json", domain=other)
    with pytest.raises(dpx.InputError, match="not a local sketch"):
        dpx.results.LocalSketch.load(tmp_path / "sketch.json")
    wrong = ("answers", []), ("weights", [1]), ("features", ["nobody"]), ("output", [1, 0]), ("output", [0, 2])
    for place, value in wrong:
        document = json.loads(sketch.to_json())
        document["view"]["rows"][place] = value
        with pytest.raises((dpx.InputError, dpx.errors.VerificationError)):
            from_json(json.dumps(document))


def test_verify_compares_with_the_ledger_and_with_the_model(make_table, frame, model):
    table = make_table(frame)
    sketch = dpx.local_sketch(table, model, epsilon=1)
    answer = sketch.explain(RECORD)
    for result in (sketch, answer):
        assert any("answers unchecked" in note for note in dpx.verify(result, table.ledger))
        assert dpx.verify(result, table.ledger, model) == []
    document = json.loads(sketch.to_json())
    document["view"]["rows"]["answers"][:50] = [7] * 50
    document["values"] = [float(v) for v in dpx.results.RowSketch(
        sketch.receipt, sketch.released, Kept.from_json(document["view"]["rows"])
    ).values]  # fmt: skip
    with pytest.raises(dpx.errors.VerificationError, match="not what the ledger keeps"):
        dpx.verify(from_json(json.dumps(document)), table.ledger)
    stranger = dpx.Model(lambda rows: np.zeros(len(rows)), output=(0, 1), name="other", version="1")
    with pytest.raises(dpx.InputError, match="not the model"):
        dpx.verify(sketch, table.ledger, stranger)


def test_evidence_weights_the_rows_and_has_no_file(make_table, frame, model):
    table = make_table(frame)
    stand_in = dpx.stand_in(table, epsilon=5)
    curve = dpx.partial_dependence(table, model, "age", epsilon=5)
    answer = dpx.posterior(stand_in, model, [curve]).explain(RECORD)
    assert "weighted by" in answer.notes
    earlier = f"beside epsilon = 5 (pure) for entry {curve.receipt.entry.sequence}, which it was computed from"
    assert earlier in answer.receipt.guarantee
    assert "beside" not in dpx.posterior(stand_in, model).explain(RECORD).receipt.guarantee
    assert answer.own == pytest.approx(float(model.checked(DOMAIN).predict_at(_inputs(model), {})[0]))
    with pytest.raises(dpx.InputError, match="several releases"):
        answer.to_json()


def _inputs(model):
    from dpexplain.data.rows import Rows

    columns = {"age": np.array([23.0]), "sex": np.array([1]), "income": np.array([40.0])}
    return model.checked(DOMAIN).inputs(Rows(DOMAIN, columns, 1))


def test_counts_by_scores_weight_the_rows_and_stand_in_the_file(make_table, frame, model):
    table = make_table(frame)
    stand_in = dpx.stand_in(table, model, epsilon=9, grade="marginals")
    known = local_rows(stand_in, model)
    assert known.kept is not None
    assert known.kept.weights
    assert known.rows.weights.std() > 0
    (answer,) = known.explained([RECORD], [None], None, "stable", 1.0)
    again = from_json(answer.to_json())
    assert np.array(again.interval()) == pytest.approx(np.array(answer.interval()), abs=1e-9)


@pytest.mark.parametrize(
    ("record", "options", "message"),
    [
        ([23, "Male"], {}, "2 values; 3 are needed"),
        ({"age": 23}, {}, "no value for"),
        ({**RECORD, "age": 99}, {}, "outside the declared range"),
        ({**RECORD, "sex": "x"}, {}, "not a declared category"),
        (RECORD, {"weight": "square"}, "unknown weight"),
        (RECORD, {"weight": lambda u: -1.0}, "between 0 and 1"),
        (RECORD, {"prediction": float("inf")}, "finite number"),
    ],
)
def test_bad_questions(sketch, record, options, message):
    with pytest.raises(dpx.InputError, match=message):
        sketch.explain(record, **options)


def test_bad_requests_cost_nothing(make_table, frame, model):
    table, other = make_table(frame), make_table(frame.head(200), name="other")
    foreign = dpx.stand_in(other, epsilon=1)
    narrow = dpx.stand_in(table, epsilon=1, features=["age"])
    spent = table.ledger.statement(table.name).spent
    for options, message in (
        ({"method": "stand-in", "epsilon": 1, "cells": 3}, "options of moments"),
        ({"method": "moments", "epsilon": 1}, "account with a delta"),
        ({"stand_in": foreign}, "another table"),
        ({"stand_in": narrow}, "lacks 'sex', 'income'"),
        ({"stand_in": "that"}, "result of dpx.stand_in"),
        ({"stand_in": foreign, "epsilon": 1}, "free"),
    ):
        with pytest.raises(dpx.InputError, match=message):
            dpx.local_sketch(table, model, **options)
    assert table.ledger.statement(table.name).spent == spent


def test_a_row_on_which_the_model_fails_has_the_middle(sketch):
    kept = Kept.of({"name": "m"}, PublicRange(-1, 3), ["age"], np.array([np.nan, -9.0, 9.0, 1.0]))
    assert kept.answers == (-1, 0, 10**5, 50_000)
    assert kept.predictions.tolist() == [1.0, -1.0, 3.0, 1.0]
    assert kept.with_numbers(kept.numbers) == kept


def test_what_is_released_follows_from_public_things(make_table, frame, model):
    large = dpx.Domain({f"c{i}": dpx.Numeric(0, 1) for i in range(300)})
    wide = Setting.declared(large, make_table(frame).neighbours, rows=10**6, hint=10**6)
    assert composition(LocalSketchRequest(), wide, ZCDP.cost(epsilon=1)) == "moments"
    assert composition(LocalSketchRequest(), wide, dpx.Budget(9).cost(epsilon=1)) == "stand-in"
    for rows, form in ((1_000, "stand-in"), (10**6, "scored stand-in")):
        setting = Setting.declared(DOMAIN, make_table(frame).neighbours, model, rows=rows, hint=rows)
        assert composition(LocalSketchRequest(), setting, ZCDP.cost(epsilon=1)) == form
        assert composition(LocalSketchRequest(cells=2), setting, ZCDP.cost(epsilon=1)) == "moments"


@pytest.mark.long
def test_shap_values_add_up_to_the_prediction(make_table, frame, model):
    pytest.importorskip("shap")
    known = dpx.posterior(dpx.stand_in(make_table(frame), epsilon=5), model)
    one, two = (
        known.shap_values(RECORD, background=20),
        known.shap_values(pd.DataFrame([RECORD, RECORD]), background=20),
    )
    own = known.explain(RECORD).own
    assert float(one.base_values) + one.values.sum() == pytest.approx(own)
    assert two.values[1] == pytest.approx(one.values)
    assert known.shap_values([23, "Male", 40.0], background=20).values == pytest.approx(one.values)
    with pytest.raises(dpx.InputError, match="background"):
        known.shap_values(RECORD, background=1)


def test_shap_that_is_not_installed_is_named(make_table, frame, model, monkeypatch):
    def missing(name):
        if name == "shap":
            raise ImportError
        return import_module(name)

    monkeypatch.setattr(shapley_rows, "import_module", missing)
    known = dpx.posterior(dpx.stand_in(make_table(frame), epsilon=5), model)
    with pytest.raises(dpx.InputError, match=r"shap is not installed(.|\n)*dpexplain\[shap\]"):
        known.shap_values(RECORD)
