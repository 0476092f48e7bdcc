"""What is refused before anything is paid, what the identity holds, how the method is chosen, what a file keeps."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.domain import PublicRange
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.maths.surrogate.descent import Descent
from dpexplain.maths.surrogate.moments import Moments
from dpexplain.methods.local_explanation import release as local
from dpexplain.methods.local_explanation.release import local_explanation
from dpexplain.methods.local_explanation.request import LocalExplanation
from dpexplain.methods.local_explanation.spec import forecast, path_loss
from dpexplain.methods.setting import Setting
from examples import DOMAIN, score

RECORD = {"age": 25, "sex": "Male", "income": 40.0}
ZCDP = dpx.Budget(10, 1e-6)


def spent(table):
    return table.ledger.statement(table.name).spent.amount


@pytest.mark.parametrize(
    ("record", "options", "message"),
    [
        ([25, "Male"], {}, "has 2 values; 3 are needed"),
        ([19, "Male", 40], {}, "age=19 lies outside the declared range"),
        ([25, "Male", math.inf], {}, "income=inf is not a finite number"),
        ([25, "male", 40], {}, "sex='male' is not a declared category"),
        ({"age": 25}, {}, "no value for 'sex', 'income'"),
        (None, {}, "a record is a mapping"),
        (RECORD, {"weight": lambda u: u * 9}, "between 0 and 1"),
        (RECORD, {"anchor": 1.5}, "anchor=1.5 lies outside the output range 0 to 1"),
        (RECORD, {"anchor": math.nan}, "anchor=nan lies outside the output range"),
        ([25], {"features": ["age"], "anchor": "prediction"}, "needs more columns of the record"),
        (RECORD, {"iterations": 10}, 'belong to method="gradient"'),
        (RECORD, {"accounting": "paper"}, 'belong to method="gradient"'),
        (RECORD, {"rho": 1e-30}, "the noise would drown"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_paid(make_table, frame, model, record, options, message):
    table = make_table(frame, budget=ZCDP)
    price = {} if "rho" in options else {"epsilon": 1}
    with pytest.raises(dpx.InputError, match=message):
        local_explanation(table, model, record, **{**price, **options})
    assert spent(table) == 0


@pytest.mark.parametrize("method", ["auto", "moments", "gradient"])
def test_a_pure_account_is_refused_with_a_hint(make_table, frame, model, method):
    table = make_table(frame, budget=dpx.Budget(10))
    with pytest.raises(dpx.InputError, match="needs an account with a delta") as refusal:
        local_explanation(table, model, RECORD, epsilon=1, method=method)
    assert "dpx.Budget(epsilon=2.0, delta=1e-6)" in str(refusal.value)
    assert spent(table) == 0


def test_fewer_rows_than_coordinates_are_refused_only_where_their_number_is_public(make_table, frame, model):
    few = make_table(frame[:3], budget=ZCDP)
    with pytest.raises(dpx.InputError, match="3 rows cannot tell the effects of 4 coordinates apart"):
        local_explanation(few, model, RECORD, epsilon=1)
    assert spent(few) == 0
    for options in ({}, {"rows_hint": 3}):
        hidden = make_table(frame[:3], budget=ZCDP, relation="add-remove", **options)
        assert np.isfinite(local_explanation(hidden, model, RECORD, epsilon=1, method="moments").values).all()


def test_a_model_that_fails_on_synthetic_rows_or_on_the_record_costs_nothing(make_table, frame):
    table = make_table(frame, budget=ZCDP)
    with pytest.raises(dpx.errors.ModelError):
        local_explanation(table, dpx.Model(lambda rows: rows["none"], output=(0, 1)), RECORD, epsilon=1)

    def holes(rows):
        return np.where(rows["income"].to_numpy() == 40, np.nan, 0.5)

    with pytest.raises(dpx.errors.ModelError, match="no number for the record"):
        local_explanation(table, dpx.Model(holes, output=(0, 1)), RECORD, epsilon=1, anchor="prediction")
    assert spent(table) == 0
    assert (
        local_explanation(table, dpx.Model(holes, output=(0, 1)), RECORD, epsilon=1, anchor="middle").fit.value == 0.5
    )


def test_a_model_that_fails_on_rows_is_told_to_nobody(make_table, frame):
    def fragile(rows):
        if (rows["income"].to_numpy() > 100 - 1e-9).any():
            raise ValueError("a row of the table")
        return 0.5 + 0.01 * (rows["age"].to_numpy() - 25)

    table = make_table(frame.assign(income=[100.0] * 50 + [50.0] * 350), budget=ZCDP, exact=True)
    found = local_explanation(table, dpx.Model(fragile, output=(0, 1)), RECORD, epsilon=1, method="moments")
    assert np.isfinite(found.values).all()


@pytest.mark.parametrize("record", [RECORD, list(RECORD.values()), pd.Series(RECORD)])
def test_a_request_is_paid_once_however_the_record_is_written(make_table, frame, model, record):
    table = make_table(frame, budget=ZCDP)
    first = local_explanation(table, model, RECORD, epsilon=1)
    again = local_explanation(table, model, record, epsilon=1)
    assert again.receipt.replayed
    np.testing.assert_array_equal(again.values, first.values)
    assert spent(table) == ZCDP.cost(epsilon=1).amount


@pytest.mark.parametrize("method", ["moments", "gradient"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_an_attribution_survives_its_file_and_the_ledger(make_table, frame, model, method, relation):
    table = make_table(frame, budget=ZCDP, relation=relation)
    found = local_explanation(table, model, RECORD, epsilon=1, method=method, weight=lambda u: 1 / (1 + u))
    again = dpx.from_json(found.to_json())
    np.testing.assert_allclose(again.values, found.values)
    np.testing.assert_allclose(again.interval(0.9)[1], found.interval(0.9)[1])
    assert again.record == {"age": 25.0, "sex": "Male", "income": 40.0}
    dpx.verify(again, table.ledger)


def test_what_the_request_says_is_public(make_table, frame, model):
    table = make_table(frame, budget=ZCDP)
    found = local_explanation(table, model, RECORD, epsilon=1, width=0.5, anchor="prediction")
    request = found.receipt.request
    assert request["explainer"] == "local-explanation"
    assert request["spec"]["method"] == "moments"
    assert request["spec"]["record"] == {"age": 25.0, "sex": "Male", "income": 40.0}
    assert request["spec"]["weight"]["width"] == 0.5
    assert request["spec"]["anchor"] == pytest.approx(float(score(pd.DataFrame([RECORD]))[0]))
    assert found.receipt.public == [
        "the explained record",
        "the model",
        "the weights",
        "the declared domain",
        "the number of rows",
    ]
    assert set(found.released["parts"]) == local.diagram().noised


def test_another_record_weight_or_anchor_is_another_request(make_table, frame, model):
    table = make_table(frame, budget=ZCDP)
    for options in ({}, {"weight": "gaussian"}, {"anchor": "middle"}, {"width": 2.0}, {"features": ["age", "sex"]}):
        assert not local_explanation(table, model, RECORD, epsilon=0.5, **options).receipt.replayed
    assert not local_explanation(table, model, {**RECORD, "age": 26}, epsilon=0.5).receipt.replayed


class TestAuto:
    def resolved(self, n, width, rows, epsilon, relation=Relation.ADD_REMOVE, **options):
        domain = dpx.Domain({f"x{i}": dpx.Numeric(0, 1) for i in range(n)})
        request = LocalExplanation(record=[0.4] * n, width=width, anchor="middle", **options)
        setting = Setting(domain, PublicRange(-1, 1), Neighbours(relation), 1000, rows)
        return local.resolve(request, setting, ZCDP.cost(epsilon=epsilon))

    def test_takes_the_smaller_forecast_loss(self):
        """Moments nearly always; for a few narrow cases at a small price the forecast prefers a path."""
        found = [self.resolved(13, 1.0, 32_561, e) for e in (0.01, 0.1, 1, 10)]
        assert all(isinstance(spec, Moments) for spec in found)
        spec = self.resolved(2, 0.1, 1000, 0.1)
        assert isinstance(spec, Descent)
        both = Neighbours(Relation.ADD_REMOVE)
        cost = ZCDP.cost(epsilon=0.1)
        moments = self.resolved(2, 0.1, 1000, 0.1, method="moments")
        std = forecast(moments, both, cost)["moments"].std
        ours = moments.forecast_loss(local._even_moments(moments.local), std, 1000)
        assert path_loss(spec, both, cost, 1000) < ours

    def test_without_a_number_of_rows_it_is_the_moments(self):
        assert isinstance(self.resolved(2, 0.1, None, 0.1), Moments)

    def test_a_method_by_name(self):
        assert isinstance(self.resolved(13, 1.0, 1000, 1, method="gradient"), Descent)
        assert isinstance(self.resolved(2, 0.1, 1000, 0.1, method="moments"), Moments)


@pytest.mark.parametrize("method", ["moments", "gradient"])
def test_an_outlook_falls_with_rows_and_price(method):
    request = LocalExplanation(record=RECORD, method=method)

    def error(rows, rho):
        setting = Setting(DOMAIN, PublicRange(0, 1), Neighbours(Relation.ADD_REMOVE), rows, rows)
        return local.outlook(request, setting, zcdp(rho))

    base = error(1000, 0.1)
    assert base.points == 3
    assert 0 < base.std < base.error < base.band
    assert error(100_000, 0.1).error < base.error
    assert error(1000, 10).error < base.error
    setting = Setting(DOMAIN, PublicRange(0, 1), Neighbours(Relation.ADD_REMOVE), 1000, 1000)
    with pytest.raises(dpx.InputError, match="needs an account with a delta"):
        local.outlook(request, setting, pure(1))


def test_the_outlook_tells_an_error_and_a_wider_interval_and_the_same_ones_again():
    """No noise is drawn: public random numbers of a seed stand in its place."""
    request = LocalExplanation(record=RECORD, method="moments")

    def told():
        setting = Setting(DOMAIN, PublicRange(0, 1), Neighbours(Relation.ADD_REMOVE), 5_000, 5_000)
        return local.outlook(request, setting, ZCDP.cost(epsilon=1))

    assert told() == told()
    assert 0 < told().error < told().interval < told().band


def test_the_outlook_has_the_bound_of_the_paper_on_the_loss():
    """Theorem 3.2 with its constants, which says something only of many steps over many rows."""
    setting = Setting(DOMAIN, PublicRange(0, 1), Neighbours(Relation.ADD_REMOVE), 10**8, 10**8)
    for steps, vacuous in ((50, True), (10_000, False)):
        request = LocalExplanation(record=RECORD, method="gradient", anchor="middle", iterations=steps)
        spec, cost = local.resolve(request, setting, zcdp(10)), zcdp(10)
        sigma = forecast(spec, setting.neighbours, cost)["gradient"].std / (spec.unit * setting.rows)
        most = spec.loss_bound(sigma)
        assert most == pytest.approx(5 * (2 + math.log(steps)) / math.sqrt(steps), rel=0.2)  # G and r are about 1
        note = local.outlook(request, setting, cost).note
        assert f"at most {most:.3g} above its smallest" in note
        assert ("says nothing" in note) == vacuous == (most >= spec.largest_loss)


def test_the_diagram_is_a_privacy_enabling_set():
    flow = local.diagram()
    assert flow.noised in flow.privacy_enabling_sets()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda d: d["released"]["parts"]["moments"]["values"].pop(), dpx.InputError),
        (lambda d: d["released"]["parts"].clear(), dpx.InputError),
        (lambda d: d["receipt"]["request"]["spec"].update(scale="0/1"), dpx.InputError),
        (lambda d: d["receipt"]["request"]["spec"].update(method="magic"), dpx.InputError),
        (lambda d: d["released"]["parts"]["moments"]["values"].__setitem__(0, 10**12), dpx.errors.VerificationError),
    ],
)
def test_a_damaged_or_altered_file_is_refused(make_table, frame, model, change, error):
    table = make_table(frame, budget=ZCDP)
    document = json.loads(local_explanation(table, model, RECORD, epsilon=1, method="moments").to_json())
    change(document)
    with pytest.raises(error):
        dpx.from_json(json.dumps(document))
