"""Stand-ins: what is refused before anything is spent, what the result knows, and files."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dpexplain as dpx
from dpexplain.errors import VerificationError
from dpexplain.maths.grids import partition_of
from dpexplain.maths.trees import Joint, denoised, grouped, worth
from dpexplain.methods.stand_in.result import SYNTHETIC_KEY
from examples import DOMAIN

ZCDP = dpx.Budget(10.0, 1e-6)


@pytest.fixture
def linked() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    age = draw.integers(20, 30, 3_000)
    sex = np.where(draw.random(3_000) < (age - 20) / 10, "Male", "Female")
    income = np.clip(10.0 * (age - 20) + draw.normal(0, 8, 3_000), 0, 100)
    return pd.DataFrame({"age": age, "sex": sex, "income": income, "person": np.arange(3_000) // 2})


PROTECTED = [
    {"budget": dpx.Budget(10.0)},
    {"budget": ZCDP},
    {"budget": ZCDP, "relation": "add-remove", "rows_hint": 3_000},
    {"budget": dpx.Budget(10.0), "relation": "add-remove"},
    {"budget": ZCDP, "unit": dpx.Unit("person", 2), "rows_hint": 3_000},
]


@pytest.mark.parametrize("options", PROTECTED, ids=str)
@pytest.mark.parametrize("grade", ["marginals", "tree"])
def test_every_account_relation_and_unit(make_table, linked, model, options, grade):
    table = make_table(linked, **options)
    found = dpx.stand_in(table, model, epsilon=8, grade=grade, target="income")
    assert (found.grade, found.target, found.features) == (grade, "income", ["age", "sex", "income"])
    assert len(found.edges) == (2 if grade == "tree" else 0)
    again = dpx.from_json(found.to_json())
    dpx.verify(again, table.ledger)
    pd.testing.assert_frame_equal(again.rows(50, 3), found.rows(50, 3))
    assert again.worth == found.worth > 1
    low, high = found.interval()
    assert len(low) == len(high) == len(found.values) == len(found.to_frame())
    assert set(found.score_tables.counts) == {"age", "sex", "income"}
    assert "synthetic" in str(found)
    assert "no interval" in found.caveat
    assert dpx.stand_in(table, model, epsilon=8, grade=grade, target="income").receipt.replayed


def test_the_forecast_decides_by_public_things(make_table, linked):
    table = make_table(linked, budget=ZCDP)
    assert dpx.stand_in(table, epsilon=3).grade == dpx.stand_in(table, epsilon=1).grade == "tree"
    little = dpx.stand_in(table, epsilon=0.01)
    assert little.grade == "marginals"
    assert any("noise would hide most pairs" in sentence for sentence in little.lead)
    private = make_table(linked, budget=ZCDP, relation="add-remove")
    assert dpx.stand_in(private, epsilon=0.8).grade == "marginals"  # nobody knows how many rows: as of a thousand
    plans = [dpx.plan(dpx.requests.StandIn(), table=table, epsilon=epsilon).options[0] for epsilon in (0.01, 3)]
    assert "independent" in plans[0].note
    assert "Pairs of values" in plans[1].note


def test_rows_are_in_the_models_columns_and_say_that_they_are_synthetic(make_table, linked, model, tmp_path):
    found = dpx.stand_in(make_table(linked, budget=ZCDP), epsilon=3)
    rows = found.rows(500, seed=4)
    assert list(rows) == ["age", "sex", "income"]
    assert rows["age"].dtype == np.int64
    assert rows["sex"].dtype == "category"
    assert rows["age"].between(20, 29).all()
    assert rows.attrs["synthetic"]["entry"] == found.entry
    assert "synthetic" in rows.attrs["synthetic"]["synthetic"]
    assert not rows.equals(found.rows(500, seed=5))
    path = found.to_parquet(tmp_path / "rows.parquet", 20)
    assert json.loads(pq.read_schema(path).metadata[SYNTHETIC_KEY])["payload"] == found.receipt.entry.payload_hash
    assert len(pd.read_parquet(found.to_parquet(path, 30))) == 30  # its own file may be written again
    linked.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "text.parquet").write_text("mine")
    for name in ("people.parquet", "text.parquet"):
        with pytest.raises(dpx.InputError, match="does not hold synthetic rows"):
            found.to_parquet(tmp_path / name)
    for wrong in ({"n": 0}, {"n": 1.5}, {"n": True}, {"n": 10**9}, {"seed": -1}, {"even": 2.0}):
        with pytest.raises(dpx.InputError):
            found.draw(**wrong)


def test_marginals_that_were_released_before_are_free(make_table, linked):
    table = make_table(linked, budget=ZCDP)
    known = dpx.marginals(table, epsilon=1)
    found = dpx.stand_in(table, epsilon=1, marginals=known)
    assert found.grade == "tree"
    assert "counts" not in found.released["parts"]
    assert found.receipt.request["builds_on"][0]["entry"] == known.receipt.entry.sequence
    assert found.marginals is known
    np.testing.assert_allclose(found.values, known.values)
    again = dpx.from_json(found.to_json())
    dpx.verify(again, table.ledger)
    assert again.rows(20).equals(found.rows(20))
    assert max(found._columns.sizes) <= found.spec.cells + 1
    by_another = json.loads(found.to_json())
    by_another["view"]["marginals"] = json.loads(dpx.marginals(table, epsilon=2).to_json())
    with pytest.raises(dpx.InputError, match="damaged"):
        dpx.from_json(json.dumps(by_another))
    its_own = dpx.stand_in(table, epsilon=1, grade="marginals").marginals
    assert dpx.stand_in(table, epsilon=0.5, marginals=its_own).grade == "tree"


WRONG = [
    ({"grade": "forest"}, "unknown grade"),
    ({"target": "nobody"}, "unknown feature 'nobody'"),
    ({"features": ["age", "nobody"]}, "unknown feature 'nobody'"),
    ({"features": ["age"], "grade": "tree"}, "at least two columns"),
    ({"features": ["age", "age"]}, "named twice"),
    ({"features": []}, "features must be"),
    ({"marginals": "file.json"}, "marginals must be"),
    ({"rho": 0.1}, "exactly one"),
    ({"cells": 3}, "has no option 'cells'"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_bad_input_is_refused_before_anything_is_spent(make_table, frame, options, message):
    table = make_table(frame, budget=ZCDP)
    with pytest.raises(dpx.InputError, match=message):
        dpx.stand_in(table, epsilon=1, **options)
    assert table.ledger.statement(table.name).rows == ()


def test_other_marginals_are_refused(make_table, frame):
    table, other = make_table(frame, budget=ZCDP), make_table(frame, budget=ZCDP)
    age = dpx.marginals(table, ["age"], epsilon=0.5)
    before = len(table.ledger.statement(table.name).rows)
    with pytest.raises(dpx.InputError, match="another table"):
        dpx.stand_in(table, epsilon=1, marginals=dpx.marginals(other, epsilon=1))
    with pytest.raises(dpx.InputError, match="do not have 'sex'"):
        dpx.stand_in(table, epsilon=1, marginals=age)
    with pytest.raises(dpx.InputError, match="at least two columns"):
        dpx.stand_in(table, epsilon=1, marginals=age, features=["age"])
    with pytest.raises(dpx.InputError, match="nothing is left to release"):
        dpx.stand_in(table, epsilon=1, marginals=age, features=["age"], grade="marginals")
    assert len(table.ledger.statement(table.name).rows) == before


def test_a_model_without_a_column_of_the_stand_in_is_refused(make_table, frame):
    model = dpx.Model(lambda rows: rows["age"] / 30, output=(0, 1), features=["age"], name="age", version="1")
    table = make_table(frame, budget=ZCDP)
    with pytest.raises(dpx.InputError, match="no column that the model uses"):
        dpx.stand_in(table, model, epsilon=1, features=["sex", "income"])
    assert table.ledger.statement(table.name).rows == ()


def test_a_model_that_fails_on_some_rows_is_answered(make_table, linked):
    def fails(rows):
        age = rows["age"].to_numpy(dtype=float)
        return np.where((age > 28) & (rows["income"] > 99.9), np.nan, (age - 20) / 10)

    model = dpx.Model(fails, output=(0, 1), features=["age", "income"], name="fails", version="1")
    found = dpx.stand_in(make_table(linked, budget=ZCDP, exact=True), model, epsilon=3)
    assert all(table.sum() == len(linked) for table in found.score_tables.counts.values())


def test_five_hundred_columns(make_table):
    names = [f"c{i}" for i in range(500)]
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.random((50, 500)), columns=names)
    table = make_table(frame, domain=dpx.Domain({name: dpx.Numeric(0, 1) for name in names}), budget=dpx.Budget(1e4))
    with pytest.raises(dpx.InputError, match="500 columns have") as caught:
        dpx.stand_in(table, epsilon=1, grade="tree")
    assert "name fewer features" in caught.value.hint
    assert table.ledger.statement(table.name).rows == ()
    found = dpx.stand_in(table, epsilon=1_000)
    assert found.grade == "marginals"
    assert any("too many to count" in sentence for sentence in found.lead)
    assert found.rows(5).shape == (5, 500)


def test_one_column_is_its_histogram(make_table, frame):
    found = dpx.stand_in(make_table(frame, exact=True), epsilon=1, features=["sex"])
    assert found.grade == "marginals"
    shares = (frame["sex"] == "Female").mean()
    assert found.joint.shares[0][0] == pytest.approx(shares, abs=0.05)


def test_missing_values_are_drawn_where_they_are_kept(make_table, frame):
    domain = dpx.Domain({**DOMAIN, "income": dpx.Numeric(0, 100, missing="nan")})
    frame.loc[::4, "income"] = np.nan
    found = dpx.stand_in(make_table(frame, domain=domain, exact=True, budget=ZCDP), epsilon=9, grade="tree")
    assert found.rows(4_000)["income"].isna().mean() == pytest.approx(0.25, abs=0.02)


HOSTILE = [
    ("grade", "forest"),
    ("grade", "marginals"),
    ("target", "nobody"),
    ("cells", 0),
    ("why", "because"),
    ("shares", ["1/2", "1/2", "1/2"]),
    ("shares", ["1/3", "1/6", "-1/2"]),
    ("partitions", []),
    ("score_columns", ["age"]),
    ("score_share", "5/4"),
    ("marginals", "0" * 64),
]


@pytest.mark.parametrize(("field", "value"), HOSTILE, ids=str)
def test_hostile_specs_in_files_are_refused(make_table, linked, field, value):
    found = dpx.stand_in(make_table(linked, budget=ZCDP), epsilon=3, grade="tree")
    document = json.loads(found.to_json())
    document["receipt"]["request"]["spec"][field] = value
    with pytest.raises((dpx.InputError, VerificationError)):
        dpx.from_json(json.dumps(document))


@pytest.mark.parametrize(
    "alter",
    [
        lambda parts: parts["edge-1"].update(values=[-1]),
        lambda parts: parts["edge-2"].update(values=[7]),
        lambda parts: parts["edge-1"].update(values=[True]),
        lambda parts: parts.pop("edge-2"),
        lambda parts: parts["pairs"].update(values=parts["pairs"]["values"][:-1]),
        lambda parts: parts.pop("counts"),
    ],
)
def test_altered_parts_in_files_are_refused(make_table, linked, alter):
    found = dpx.stand_in(make_table(linked, budget=ZCDP), epsilon=3, grade="tree")
    document = json.loads(found.to_json())
    alter(document["released"]["parts"])
    with pytest.raises((dpx.InputError, VerificationError)):
        dpx.from_json(json.dumps(document))


def test_what_the_stand_in_leaves_out_is_said(make_table):
    """Two columns that are tied in other ways than the fit allows for: counts of columns that contradict each other."""
    frame = pd.DataFrame({"a": ["x", "y"] * 500, "b": ["x", "y"] * 500})
    domain = dpx.Domain({name: dpx.Categorical(["x", "y"]) for name in "ab"})
    found = dpx.stand_in(make_table(frame, domain=domain, exact=True), epsilon=5, grade="tree")
    assert found.consistency["realised"].max() < 0.1
    assert not any("far from" in sentence for sentence in found.lead)
    document = json.loads(found.to_json())
    document["released"]["parts"]["pairs"]["values"] = [0, 500, 500, 0]
    document["released"]["parts"]["counts"]["values"] = [900, 100, 100, 900]
    document["values"] = [900, 100, 100, 900]
    assert any("far from" in sentence for sentence in dpx.from_json(json.dumps(document)).lead)


def test_prices_add_up(make_table, linked, model):
    for subject in (None, model):
        found = dpx.stand_in(make_table(linked, budget=ZCDP), subject, epsilon=3, grade="tree")
        parts = [Fraction(part["cost"]["amount"]) for part in found.released["parts"].values()]
        assert sum(parts) == found.receipt.cost.amount


def test_groups_of_cells():
    """Neighbouring numbers, all rare categories in one, missing values by themselves."""
    numbers = partition_of("x", dpx.Numeric(0, 6, missing="nan"), 6)
    found = grouped(np.array([50, 4, 5, 3, 60, 1, 2]), 1.0, numbers, 10.0, 12)
    assert found.place.tolist() == [0, 1, 1, 1, 2, 2, 3]
    assert found.sums(np.ones(7)).tolist() == [1, 3, 2, 1]
    assert np.bincount(found.place, found.inside) == pytest.approx(1)
    assert grouped(np.array([50, 40, 50, 30, 60, 10, 2]), 1.0, numbers, 10.0, 3).size <= 4
    kinds = partition_of("c", dpx.Categorical(list("abcd")), 1)
    assert grouped(np.array([3, 50, -4, 20]), 1.0, kinds, 10.0, 12).place.tolist() == [2, 0, 2, 1]
    nothing = grouped(np.array([-3, 0, 2, 1]), 5.0, kinds, 15.0, 12)
    assert nothing.size == 1
    assert nothing.inside.tolist() == [0.25] * 4


def test_noise_is_not_drawn_from():
    assert denoised(np.array([-30.0, 25.0, 10.0, -5.0]), 20.0).tolist() == [0.25] * 4
    clear = denoised(np.array([1000.0, 3.0, 500.0, -4.0]), 2.0)
    assert clear[[0, 2]] == pytest.approx([2 / 3, 1 / 3], abs=1e-3)
    assert clear.sum() == pytest.approx(1)
    assert worth([np.array([0.5, 0.5])], [0.0], 10) == float("inf")
    assert worth([np.array([1.0])], [5.0], 10) == 1.0
    with pytest.raises(ValueError, match="do not fit"):
        Joint.product(DOMAIN, [partition_of("sex", DOMAIN["sex"], 1)], [np.array([0.5, 0.4])])


@pytest.mark.parametrize("options", PROTECTED, ids=str)
def test_the_domain_alone_is_free_and_reads_nothing(make_table, linked, model, options, monkeypatch, tmp_path):
    table = make_table(linked, **options)
    with monkeypatch.context() as nothing_is_read:
        nothing_is_read.setattr(table, "_reading", lambda *_, **__: pytest.fail("the table was read"))
        found = dpx.stand_in(table, grade="domain", target="income")
        dpx.posterior(found, model).partial_dependence(["age"])
    assert (found.grade, found.target, found.edges, found.marginals) == ("domain", "income", [], None)
    assert found.receipt.cost.amount == found.receipt.charged.amount == 0
    assert table.ledger.statement(table.name).spent.amount == 0
    assert "epsilon = 0" in found.receipt.guarantee
    assert (found.worth, found.total) == (1.0, table.size or 0)
    assert not found.determined().any()
    assert "nothing was spent" in str(found)
    assert "declared domain" in found.rows(5).attrs["synthetic"]["synthetic"]
    again = dpx.from_json(found.to_json())
    assert dpx.verify(again, table.ledger) == []
    pd.testing.assert_frame_equal(again.rows(50, 3), found.rows(50, 3))
    assert pq.read_table(again.to_parquet(tmp_path / "rows.parquet", 20)).num_rows == 20
    assert dpx.stand_in(table, grade="domain", target="income").receipt.replayed
    assert [row.status for row in table.ledger.statement(table.name).rows] == ["released"]  # and nothing failed
    curve = dpx.partial_dependence(table, model, "age", epsilon=1, stand_in=found)
    assert f"stand-in in entry {found.entry}" in curve.basis
    assert f"for entry {found.entry}" in curve.receipt.guarantee
    assert dpx.verify(dpx.from_json(curve.to_json()), table.ledger, model) == []
    effects = dpx.accumulated_effects(table, model, ["age"], epsilon=1, stand_in=found)
    evidence = dpx.posterior(found, model, [curve, effects, found]).evidence
    assert (evidence["numbers used"] > 0).tolist() == [True, True, False]


def test_rows_of_the_domain_are_even(make_table, linked):
    rows = dpx.stand_in(make_table(linked), grade="domain").rows(10_000)
    ages = rows["age"].value_counts(normalize=True)
    declared = DOMAIN["age"]
    assert len(ages) == declared.values
    assert np.allclose(ages, 1 / declared.values, rtol=0.05)
    assert np.allclose(rows["sex"].value_counts(normalize=True), 1 / len(DOMAIN["sex"].categories), rtol=0.05)
    ends = DOMAIN["income"].low, DOMAIN["income"].high
    assert np.allclose(rows["income"].quantile([0.1, 0.5, 0.9]), np.interp([0.1, 0.5, 0.9], [0, 1], ends), rtol=0.05)


def test_another_stand_in_and_the_domain_as_evidence(make_table, linked, model):
    table = make_table(linked, budget=ZCDP)
    paid, free = dpx.stand_in(table, epsilon=1), dpx.stand_in(table, grade="domain")
    known = dpx.posterior(paid, model, [free]).evidence
    assert known["left out because"].tolist() == ["the declared domain says nothing about the table"]
    assert dpx.posterior(free, model, [paid]).evidence["numbers used"].gt(0).all()


def test_what_has_no_price_takes_none(make_table, linked, model):
    table = make_table(linked)
    marginals = dpx.marginals(table, epsilon=1)
    spent = table.ledger.statement(table.name).spent
    for wrong in ({"epsilon": 1}, {"model": model}, {"marginals": marginals}):
        with pytest.raises(dpx.errors.InputError, match="the declared domain (costs nothing|has no use)") as refused:
            dpx.stand_in(table, grade="domain", **wrong)
        assert "leave" in refused.value.hint
    with pytest.raises(dpx.errors.InputError, match="costs nothing"):
        dpx.plan(dpx.requests.StandIn(grade="domain"), table=table, epsilon=1)
    with pytest.raises(dpx.errors.InputError, match="exactly one of epsilon and rho"):
        dpx.stand_in(table)
    assert table.ledger.statement(table.name).spent == spent


@pytest.mark.parametrize("alter", ["parts", "shares"])
def test_altered_files_of_the_domain_are_refused(make_table, linked, alter):
    document = json.loads(dpx.stand_in(make_table(linked), grade="domain").to_json())
    if alter == "parts":
        document["released"]["parts"] = {"counts": {"values": [1], "noise": {}, "cost": {}}}
    else:
        document["receipt"]["request"]["spec"]["shares"] = ["1", "0", "0"]
    with pytest.raises(dpx.errors.InputError, match="damaged"):
        dpx.from_json(json.dumps(document))
