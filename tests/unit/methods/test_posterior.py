"""The public posterior: what it reads off, what it says about itself, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.release import Door
from dpexplain.errors import ModelError
from dpexplain.maths.weights import RowPosterior
from dpexplain.methods import posterior as ours
from dpexplain.methods.evidence import MOST_NUMBERS, UNSURE, Asked
from dpexplain.methods.readings import Reading
from examples import DOMAIN, score
from stubs import ZeroNoise

BUDGET = dpx.Budget(epsilon=1_000)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    age = draw.integers(20, 30, 2_000)
    sex = np.where(draw.random(2_000) < (age - 20) / 10, "Male", "Female")
    income = np.clip(10.0 * (age - 20) + draw.normal(0, 8, 2_000), 0, 100)
    return pd.DataFrame({"age": age, "sex": sex, "income": income})


def table_of(rows, ledger=None, **options) -> dpx.PrivateTable:
    about = {"domain": DOMAIN, "budget": BUDGET, "relation": "replace-one", "name": "people", "version": "1"} | options
    return dpx.PrivateTable(rows, ledger=ledger or dpx.open_ledger("sqlite:///:memory:"), **about)


def model_of(function=score, **options) -> dpx.Model:
    return dpx.Model(function, **{"output": (0.0, 1.0), "name": "score", "version": "1"} | options)


@pytest.fixture(scope="module")
def table(rows) -> dpx.PrivateTable:
    return table_of(rows)


@pytest.fixture(scope="module")
def stand_in(table):
    return dpx.stand_in(table, epsilon=1)


@pytest.fixture(scope="module")
def curves(table):
    return dpx.partial_dependence(table, model_of(), ["age", "sex"], epsilon=1)


@pytest.fixture(scope="module")
def known(stand_in, curves):
    return dpx.posterior(stand_in, model_of(), [curves])


# What it says ---------------------------------------------------------------------------------------------------------


def test_readings_look_like_curves_and_are_no_results(known, curves):
    readings = known.partial_dependence(["age", ("sex", "income")])
    assert [reading.feature for reading in readings] == ["age", "sex x income"]
    assert readings["age"].axes == curves["age"].axes  # the grid of the evidence
    assert readings["sex x income"].shape == (2, 12)
    assert not any(isinstance(reading, dpx.results.Result) for reading in readings)
    for reading in [*readings, *known.accumulated_effects(["age", "sex", "income"])]:
        low, high = reading.interval()
        assert (low <= reading.values + 1e-9).all()
        assert (reading.values <= high + 1e-9).all()
        wide = reading.interval(0.99)
        assert ((wide[0] <= low + 1e-9) & (high <= wide[1] + 1e-9)).all()
        assert len(reading.to_frame()) == len(reading.values)
        assert "nothing here is proven. Where no release says anything" in reading.basis
        assert str(len(known)) in reading.basis.replace(",", "")
        assert f"entry {known.stand_in.entry}" in str(reading)
        reading.plot()
    assert len(readings.to_frame()) == len(readings.values) == len(readings.interval()[0])
    assert repr(readings[:1]) == "Readings(age)"
    readings.plot()


def test_means_of_any_function(known, rows):
    def men(rows: pd.DataFrame) -> np.ndarray:
        return (rows["sex"] == "Male").to_numpy()

    share = known.expect(men)
    assert isinstance(share, Reading)
    assert share.title == "Mean of men"
    low, high = share.interval()
    assert low[0] < share.values[0] < high[0]
    assert share.values[0] == pytest.approx((rows["sex"] == "Male").mean(), abs=0.2)
    two = known.expect(lambda rows: np.column_stack([rows["age"], rows["income"]]))
    assert two.values.shape == (2,)
    assert len(two.to_frame()) == 2
    two.plot()


def test_weighted_rows_are_synthetic_and_say_so(known, stand_in):
    rows = known.rows()
    assert list(rows) == ["age", "sex", "income", "weight"]
    assert (rows["weight"] > 0).all()
    assert rows["weight"].sum() == pytest.approx(1.0)
    assert "synthetic" in rows.attrs["synthetic"]["synthetic"]
    assert rows.attrs["weight"] == "weight"
    assert 1 < known.effective_rows <= len(known) == 500
    assert 0.1 < known.worth <= stand_in.worth
    dependence = np.average(score(rows.assign(sex="Male")), weights=rows["weight"])
    assert dependence == pytest.approx(known.partial_dependence("sex")[0].values[1], abs=0.01)


def test_a_column_that_is_called_weight_stays(rows):
    domain = dpx.Domain({"weight": dpx.Numeric(0, 100)})
    table = table_of(rows.rename(columns={"income": "weight"}), domain=domain)
    known = dpx.posterior(dpx.stand_in(table, epsilon=1), model_of(lambda rows: rows["weight"] / 100), rows=200)
    assert list(known.rows()) == ["weight", "row weight"]
    assert known.rows().attrs["weight"] == "row weight"


def test_without_evidence_much_is_not_determined(stand_in):
    assert "no release was about" not in dpx.posterior(stand_in, model_of()).basis  # intervals are wide
    known = dpx.posterior(stand_in, model_of(), rows=300)
    assert known.evidence.empty
    assert known.contradictions == []
    assert "without any other evidence" in known.basis
    wide = known.partial_dependence("age")[0]
    everything = replace(wide, spread=replace(wide.spread, stds=wide.spread.stds + 10))
    assert "Nothing of this is determined" in everything.doubt
    assert "determined" not in wide.doubt or "values are not determined" in wide.doubt
    low, high = wide.interval()
    assert (high - low).min() > 0.05


def test_counts_by_scores_are_evidence_by_themselves(table):
    model = model_of()
    known = dpx.posterior(dpx.stand_in(table, model, epsilon=1), model)
    assert list(known.evidence["release"]) == ["the stand-in's counts by scores"]
    assert known.evidence["numbers used"].iloc[0] > 20
    other = dpx.posterior(known.stand_in, model_of(version="2"), rows=200)
    assert other.evidence.empty, "they are about another model"


def test_marginals_sharpen_and_do_not_judge(table, stand_in):
    known = dpx.posterior(stand_in, model_of(), [dpx.marginals(table, epsilon=5)])
    even = RowPosterior(len(known), stand_in.worth)
    assert known.worth == pytest.approx(even.worth)
    assert known.weights.std() > 0


def test_counts_that_another_stand_in_was_made_of_count_once(table, stand_in):
    """A stand-in without counts of columns of its own adds none, in whatever order releases are handed over."""
    marginals = dpx.marginals(table, epsilon=1)
    made = dpx.stand_in(table, epsilon=1, grade="tree", marginals=marginals)
    alone = dpx.posterior(stand_in, model_of(), [marginals])
    for several in ([marginals, made], [made, marginals], [made]):
        known = dpx.posterior(stand_in, model_of(), several)
        used = known.evidence
        assert (used["numbers used"] > 0).tolist() == [True, False]
        assert used["left out because"].tolist() == ["", f"its counts of columns are those of entry {used['entry'][0]}"]
        np.testing.assert_array_equal(known.weights, alone.weights)
    other = dpx.stand_in(table, epsilon=1, features=["age", "sex"], grade="tree", marginals=marginals)
    assert (dpx.posterior(made, model_of(), [other]).evidence["numbers used"] == 0).all()


def test_results_of_other_kinds_are_left_out_and_named(table, stand_in, curves):
    values = dpx.quantiles(table, "income", [0.5], epsilon=1)
    known = dpx.posterior(stand_in, model_of(), [values, curves])
    assert list(known.evidence["numbers used"]) == [0, curves[0].spec.size]
    assert "not means over rows" in known.evidence["left out because"].iloc[0]


def test_contradictions_name_the_release(table, stand_in, curves):
    """Evidence is replaced by numbers that no table like the stand-in's rows could have."""
    known = dpx.posterior(stand_in, model_of(), [curves, dpx.marginals(table, epsilon=1)])
    assert known.contradictions == []
    (piece, numbers), other = known._numbers
    off = np.where(np.arange(numbers.size) % 2, 1.0, -1.0)
    far = replace(numbers, released=numbers.released + 40 * off, covariance=1e-4 * np.eye(numbers.size))
    broken = dpx.posterior(stand_in, model_of(), [curves])
    broken._numbers, broken._rows = [(piece, far), other], broken._given([far])
    assert any(str(piece.entry) in sentence and "do not agree" in sentence for sentence in broken.contradictions)
    assert not any(str(other[0].entry) in sentence for sentence in broken.contradictions)
    assert "contradict each other" in broken.basis


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_missing_values_units_and_private_numbers_of_rows(rows, relation):
    domain = dpx.Domain({**dict(DOMAIN), "income": dpx.Numeric(0, 100, missing="nan")})
    gaps = rows.assign(income=rows["income"].where(rows.index % 7 > 0), person=rows.index // 2)

    def forgiving(rows: pd.DataFrame) -> np.ndarray:
        return np.nan_to_num(rows["income"].to_numpy(), nan=30.0) / 100

    table = table_of(gaps, domain=domain, relation=relation, unit=dpx.Unit("person", 2))
    model = model_of(forgiving, features=["income"])
    stand_in = dpx.stand_in(table, model, epsilon=20)
    effects = [dpx.accumulated_effects(table, model, names, epsilon=20) for names in (["income"], ["age", "income"])]
    results = [*effects, dpx.partial_dependence(table, model, "income", epsilon=20), dpx.marginals(table, epsilon=20)]
    known = dpx.posterior(stand_in, model, results)
    assert (known.evidence["left out because"] == "").all()
    reading = known.partial_dependence("income")[0]
    assert reading.axes[0].points[-1] is None
    np.testing.assert_allclose(reading.values[-1], 0.3, atol=0.02)
    reading.plot()
    assert np.isfinite(known.accumulated_effects("income").values).all()
    mean = known.expect(lambda rows: rows["income"].isna())
    assert mean.values[0] == pytest.approx(1 / 7, abs=0.05)


def test_a_number_of_rows_that_may_be_noise_is_no_evidence(rows):
    table = table_of(rows.head(30), relation="add-remove")
    stand_in, model = dpx.stand_in(table, epsilon=5), model_of()
    results = [dpx.marginals(table, epsilon=0.05), dpx.partial_dependence(table, model, "age", epsilon=0.05)]
    known = dpx.posterior(stand_in, model, results, rows=200)
    assert list(known.evidence["left out because"]) == [UNSURE] * 2


class Fewer(ZeroNoise):
    """Noise by which fewer rows than none are counted, the last number of each release."""

    def perturb(self, values, noise, sensitivity, cost):
        *sums, count = super().perturb(values, noise, sensitivity, cost)
        return [*(value + 10**6 for value in sums), count - 10**7]


def test_influences_whose_rows_were_all_noise_are_no_evidence(make_table, rows):
    """Of a table without rows: what chance adds to the means of fewer rows than none has no size."""
    table = make_table(rows.iloc[:0], relation="add-remove", budget=dpx.Budget(20))
    marginals, free = dpx.marginals(table, epsilon=1), dpx.stand_in(table, grade="domain")
    table.door = Door(table.door.account, sampler=Fewer())
    unclear = dpx.influence(table, model_of(), features=[("age", "income"), "sex"], marginals=marginals, epsilon=1)
    assert unclear.counts < 0
    known = dpx.posterior(free, model_of(), [unclear])
    assert list(known.evidence["left out because"]) == [UNSURE]


# What is refused ------------------------------------------------------------------------------------------------------


def test_what_is_no_stand_in_model_or_result(stand_in, curves):
    with pytest.raises(dpx.InputError, match=r"a result of dpx\.stand_in"):
        dpx.posterior(curves[0], model_of(), [])
    with pytest.raises(dpx.InputError, match=r"must be a dpx\.Model"):
        dpx.posterior(stand_in, score, [])
    for wrong in (7, "curve", {"curve": curves}):
        with pytest.raises(dpx.InputError, match="list of released results"):
            dpx.posterior(stand_in, model_of(), wrong)
    with pytest.raises(dpx.InputError, match="type DataFrame is not a released result"):
        dpx.posterior(stand_in, model_of(), [curves, pd.DataFrame()])


@pytest.mark.parametrize("number", [0, 99, 2.5, True, "many", 10**9])
def test_no_rows_or_too_many(stand_in, number):
    with pytest.raises(dpx.InputError, match="rows are a whole number from 100"):
        dpx.posterior(stand_in, model_of(), rows=number)


def test_results_of_another_table_account_domain_or_version(rows, stand_in, table):
    model, wide = model_of(), dpx.Domain({**dict(DOMAIN), "income": dpx.Numeric(0, 200)})
    cases = {
        "another account": table_of(rows, name="others"),
        "another domain": table_of(rows, domain=wide, ledger=table.ledger, version="wide"),
        "another version": table_of(rows, ledger=table.ledger, version="2"),
    }
    for said, other in cases.items():
        curve = dpx.partial_dependence(other, model, "sex", epsilon=1)
        with pytest.raises(dpx.InputError, match=said) as error:
            dpx.posterior(stand_in, model, [curve])
        assert "same rows" in error.value.hint


def test_results_of_another_model(stand_in, curves):
    with pytest.raises(dpx.InputError, match="another model, or another version") as error:
        dpx.posterior(stand_in, model_of(version="2"), [curves])
    assert "version=" in error.value.hint


def test_two_results_that_claim_one_entry(stand_in, curves):
    entry = replace(curves[0].receipt.entry, payload_hash="0" * 64)
    forged = replace(curves[0], receipt=replace(curves[0].receipt, entry=entry))
    with pytest.raises(dpx.InputError, match="claim entry") as error:
        dpx.posterior(stand_in, model_of(), [curves, forged])
    assert "verify" in error.value.hint


def test_a_model_with_columns_that_the_stand_in_lacks(table):
    few = dpx.stand_in(table, epsilon=1, features=["age", "sex"])
    with pytest.raises(dpx.InputError, match="it lacks 'income'"):
        dpx.posterior(few, model_of())
    young = model_of(lambda rows: rows["age"] / 30, features=["age"], name="young")
    assert dpx.posterior(few, young, rows=200).partial_dependence("age")[0].values[0] == pytest.approx(20 / 30)


def test_a_model_that_fails_on_synthetic_rows(table, stand_in):
    """Where it fails counts as the middle of the output range; a model that always fails is refused."""
    calls = {"fails": False}

    def moody(rows: pd.DataFrame) -> np.ndarray:
        if calls["fails"]:
            raise RuntimeError("no")
        return score(rows)

    model = model_of(moody, name="moody")
    model.checked(DOMAIN, rows=200)
    calls["fails"] = True
    with pytest.raises(ModelError):
        dpx.posterior(stand_in, model, rows=200)

    def picky(rows: pd.DataFrame) -> np.ndarray:
        answers = score(rows)
        return np.where((rows["sex"] == "Male") & (rows["income"] > 99.99), np.nan, answers)

    known = dpx.posterior(stand_in, model_of(picky, name="picky"), rows=200)
    point = known.partial_dependence(["sex", ("sex", "income")], grid={"income": [0, 100]})[1]
    assert point.values[-1] == pytest.approx(0.5)


def test_a_model_that_fails_on_all_rows_that_are_drawn(stand_in, monkeypatch):
    model = model_of()
    monkeypatch.setattr(Asked, "raw", lambda self, fixed: np.full(self.rows.size, np.nan))
    with pytest.raises(ModelError, match="fails on every synthetic row"):
        dpx.posterior(stand_in, model, rows=200)


def test_features_grids_and_bins(known, table):
    for call in (known.partial_dependence, known.accumulated_effects):
        with pytest.raises(dpx.InputError, match="'height'"):
            call("height")
        with pytest.raises(dpx.InputError, match="at least one"):
            call([])
        with pytest.raises(dpx.InputError, match="twice"):
            call(["age", "age"])
    with pytest.raises(dpx.InputError, match="at least 2 points"):
        known.partial_dependence("age", grid=1)
    with pytest.raises(dpx.InputError, match="too long"):
        known.partial_dependence(("age", "income"), grid=300)
    with pytest.raises(dpx.InputError):
        known.accumulated_effects("age", bins=0)
    assert len(known.accumulated_effects("income", bins=4)[0].values) <= 5
    young = model_of(lambda rows: rows["age"] / 30, features=["age"], name="young")
    few = dpx.posterior(dpx.stand_in(table, epsilon=1, features=["age"]), young, rows=200)
    with pytest.raises(dpx.InputError, match="does not have 'sex'"):
        few.partial_dependence("sex")


def test_functions_that_give_no_means(known):
    with pytest.raises(dpx.InputError, match="takes a function"):
        known.expect("age")
    with pytest.raises(dpx.InputError, match="one number"):
        known.expect(lambda rows: rows["age"].mean())
    with pytest.raises(dpx.InputError, match="one number"):
        known.expect(lambda rows: rows["age"].head())
    with pytest.raises(dpx.InputError, match="not finite"):
        known.expect(lambda rows: rows["age"].where(rows["age"] > 22))


def test_too_many_numbers(stand_in, curves, monkeypatch):
    monkeypatch.setattr("dpexplain.methods.evidence.MOST_NUMBERS", 10)
    with pytest.raises(dpx.InputError, match="at most 10"):
        dpx.posterior(stand_in, model_of(), [curves])
    assert MOST_NUMBERS > 1_000


def test_it_is_free_and_no_table_is_among_its_arguments(table, stand_in, curves):
    before = table.ledger.statement(table.name)
    dpx.posterior(stand_in, model_of(), [curves]).partial_dependence(["age", "income"])
    assert table.ledger.statement(table.name) == before
    assert list(signature(ours.posterior).parameters) == ["stand_in", "model", "results", "rows"]
