"""Bad input gets a clear error, loses nothing, spends nothing. Trouble in rows is not bad input: nobody hears of it."""

from __future__ import annotations

import logging
import sqlite3

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from examples import score


def events(table: dpx.PrivateTable) -> int:
    return int(table.ledger.anchor().split(":")[0])


def test_more_than_is_left(make_table, frame, model):
    table = make_table(frame, budget=dpx.Budget(1.0))
    dpx.partial_dependence(table, model, "age", epsilon=0.9)
    with pytest.raises(dpx.BudgetError, match="only 0.1 of 1 is left") as error:
        dpx.partial_dependence(table, model, "sex", epsilon=0.2)
    assert "use at most epsilon=0.1" in str(error.value)
    dpx.partial_dependence(table, model, "sex", epsilon=0.1)  # the last tenth fits exactly
    assert table.ledger.statement(table.name).left.amount == 0
    again = dpx.partial_dependence(table, model, "age", epsilon=0.9)  # asked before: still free
    assert again.receipt.replayed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature": []}, "at least one feature"),
        ({"feature": ("age", "age")}, "two different names"),
        ({"feature": ("age", "sex", "income")}, "two different names"),
        ({"feature": "income", "grid": 1}, "at least 2 points"),
        ({"feature": "income", "grid": 2.5}, "grid must be"),
        ({"feature": "income", "grid": 1, "method": "paper"}, "at least 2 points"),
        ({"feature": "income", "grid": 30_000}, "too long"),
        ({"feature": ("income", "age"), "grid": 300}, "too long"),
        ({"feature": ["age", "age"]}, "named twice"),
        ({"feature": None}, "feature must be a name"),
        ({"feature": "income", "grid": {"height": 3}}, "grid .* 'height'"),
    ],
)
def test_requests(make_table, frame, model, options, message):
    table = make_table(frame)
    before = events(table)
    options = dict(options)
    with pytest.raises(dpx.InputError, match=message):
        dpx.partial_dependence(table, model, options.pop("feature"), epsilon=1, **options)
    assert events(table) == before


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: dpx.Numeric(5, 1), "reversed"),
        (lambda: dpx.Numeric(1, 1), "reversed or equal"),
        (lambda: dpx.Numeric(0, float("inf")), "finite"),
        (lambda: dpx.Numeric(float("nan"), 1), "finite"),
        (lambda: dpx.Numeric("0", 1), "finite"),
        (lambda: dpx.Numeric(0.5, 3, integer=True), "whole numbers"),
        (lambda: dpx.Numeric(0, 1e18, integer=True), "at most 2"),
        (lambda: dpx.Numeric(0, 1, missing=3), "outside the bounds"),
        (lambda: dpx.Categorical([]), "at least one"),
        (lambda: dpx.Categorical("abc"), "at least one"),
        (lambda: dpx.Categorical(["a", "a"]), "twice"),
        (lambda: dpx.Categorical([1, True]), "twice"),
        (lambda: dpx.Categorical(["a"], missing="b"), "not one of the declared"),
        (lambda: dpx.Categorical([None]), "text or a finite number"),
        (lambda: dpx.Domain({}), "at least one column"),
        (lambda: dpx.Domain({"age": (0, 1)}), "Numeric or Categorical"),
    ],
)
def test_domains(declare, message):
    with pytest.raises(dpx.errors.DomainError, match=message):
        declare()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"relation": "neither"}, "unknown relation"),
        ({"domain": {"age": dpx.Numeric(0, 1)}}, "must be a dpx.Domain"),
        ({"budget": 1.0}, "must be a dpx.Budget"),
        ({"name": ""}, "name must be a text"),
        ({"version": 3}, "version must be a text"),
        ({"domain": dpx.Domain({"height": dpx.Numeric(0, 3)})}, "no column 'height'"),
        ({"unit": dpx.Unit("patient", 3)}, "no column 'patient'"),
        ({"row_id": "row"}, "no column 'row'"),
        ({"domain": dpx.Domain({"age": dpx.Numeric(0, 1)}, reviewed_by=None)}, "no person has reviewed"),
        ({"analyst": " "}, "analyst"),
        ({"rows_hint": 0}, "rows_hint"),
        ({"rows_hint": "many"}, "rows_hint"),
    ],
)
def test_tables(make_table, frame, options, message):
    with pytest.raises(dpx.InputError, match=message):
        make_table(frame, **options)


def test_units_and_budgets():
    for rows in (0, -1, 1.5, True):
        with pytest.raises(dpx.InputError, match="max_rows"):
            dpx.Unit("person", rows)
    with pytest.raises(dpx.InputError, match="delta must be below 1"):
        dpx.Budget(1, 1)


def test_one_name_and_version_means_one_domain_and_one_budget(make_table, frame, domain):
    make_table(frame, name="people")
    wider = dpx.Domain({**domain, "income": dpx.Numeric(0, 200)})
    with pytest.raises(dpx.InputError, match="different domains"):
        make_table(frame, name="people", domain=wider)
    make_table(frame, name="people", domain=wider, version="2")
    with pytest.raises(dpx.InputError, match="was opened with epsilon=10"):
        make_table(frame, name="people", budget=dpx.Budget(99))
    with pytest.raises(dpx.InputError, match="added or removed"):
        make_table(frame, name="people", relation="add-remove")


def test_a_new_version_of_the_data_goes_on_in_the_same_account(make_table, frame, model):
    first = make_table(frame, name="people", version="1")
    dpx.partial_dependence(first, model, "age", epsilon=4)
    second = make_table(frame, name="people", version="2")
    curve = dpx.partial_dependence(second, model, "age", epsilon=4)
    assert not curve.receipt.replayed
    assert second.ledger.statement("people").left.amount == 2


def test_a_ledger_that_cannot_be_used(frame, make_table, tmp_path):
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(dpx.errors.LedgerCorrupt):
        make_table(frame, ledger=f"sqlite:///{garbage}")
    with pytest.raises(dpx.errors.LedgerUnavailable):
        make_table(frame, ledger=f"sqlite:///{tmp_path}/no/such/folder/budget.db")
    url = f"sqlite:///{tmp_path}/budget.db"
    table = make_table(frame, ledger=url)
    with sqlite3.connect(tmp_path / "budget.db") as connection:
        connection.execute("UPDATE meta SET value = '99'")
    connection.close()
    with pytest.raises(dpx.errors.LedgerTooNew):
        make_table(frame, ledger=url)
    assert table.size == 400


def test_trouble_in_rows_is_silent(make_table, frame, tmp_path, capsys, caplog, recwarn):
    """Unseen categories, out-of-range values, missing ones and a model that fails on some rows: no error, no line."""
    dirty = frame.assign(
        age=frame["age"].astype(object).where(frame.index % 7 > 0, "secret"),
        sex=frame["sex"].where(frame.index % 5 > 0, "Divers"),
        income=frame["income"].where(frame.index % 3 > 0, np.nan) * 1e6,
    )

    def picky(rows: pd.DataFrame) -> np.ndarray:
        if (rows["income"] == 100).any() and len(rows) < 100:
            raise ValueError(f"income of {rows.iloc[0].to_dict()}")
        with np.errstate(all="warn"):
            np.log(abs(rows["income"].to_numpy() - 50))  # warns where income is missing, which becomes 50
        return score(rows)

    with caplog.at_level(logging.DEBUG):
        table = make_table(dirty, ledger=f"sqlite:///{tmp_path}/budget.db")
        curve = dpx.partial_dependence(table, dpx.Model(picky, output=(0, 1), name="p", version="1"), "sex", epsilon=1)
        dpx.marginals(table, epsilon=1)
    assert len(curve.values) == 2
    out = capsys.readouterr()
    assert out.out == out.err == ""
    assert not caplog.records
    assert not recwarn.list


def test_a_release_that_fails_keeps_its_price_and_its_secrets(make_table, frame, model, monkeypatch):
    table = make_table(frame, budget=dpx.Budget(1.0))
    broken = lambda *_: (_ for _ in ()).throw(ValueError("row 17: income 1234"))  # noqa: E731
    monkeypatch.setattr("dpexplain.methods.partial_dependence.release.statistic", broken)
    with pytest.raises(dpx.ReleaseLost) as error:
        dpx.partial_dependence(table, model, "age", epsilon=0.4)
    text = str(error.value)
    assert "1234" not in text
    assert "stays spent" in text
    assert error.value.__context__ is None
    assert error.value.__cause__ is None
    statement = table.ledger.statement(table.name)
    assert float(statement.spent.amount) == 0.4
    assert [row.status for row in statement.rows] == ["spent, nothing released"]


class Panic(BaseException):
    pass


@pytest.mark.parametrize("kind", [Panic, SystemExit, KeyboardInterrupt, ValueError])
def test_whatever_a_model_raises_on_a_row_stays_inside(make_table, frame, kind):
    def model(rows: pd.DataFrame) -> np.ndarray:
        if (rows["income"] == 12.5).any():  # no synthetic row has exactly that
            raise kind("income of row 17")
        return score(rows)

    table = make_table(frame.assign(income=frame["income"].where(frame.index != 17, 12.5)))
    curve = dpx.partial_dependence(table, dpx.Model(model, output=(0, 1)), "sex", epsilon=1)
    assert len(curve.values) == 2


def test_an_interrupt_leaves_without_its_text_and_stays_spent(make_table, frame, model, monkeypatch):
    table = make_table(frame)

    def interrupted(*_, **__):
        raise KeyboardInterrupt("row 17")

    monkeypatch.setattr("dpexplain.methods.partial_dependence.release.statistic", interrupted)
    with pytest.raises(KeyboardInterrupt) as error:
        dpx.partial_dependence(table, model, "age", epsilon=0.4)
    assert error.value.args == ()
    assert error.value.__context__ is None
    assert float(table.ledger.statement(table.name).spent.amount) == 0.4


def test_numpy_numbers_are_numbers(make_table, frame, model):
    table = make_table(frame, budget=dpx.Budget(np.int64(1)))
    dpx.partial_dependence(table, model, "sex", epsilon=np.float64(0.25))
    dpx.marginals(table, ["sex"], epsilon=2.5e-6)
    with pytest.raises(dpx.BudgetError):
        dpx.marginals(table, epsilon=np.int64(30))
    assert type(table.budget.epsilon.numerator) is int


@pytest.mark.parametrize("epsilon", [1e-15, 1e-25, 1e-320])
@pytest.mark.parametrize("budget", [dpx.Budget(1), dpx.Budget(1, 1e-6)])
def test_a_price_too_small_for_any_number(make_table, frame, model, epsilon, budget):
    table = make_table(frame, budget=budget)
    with pytest.raises(dpx.InputError, match="larger epsilon"):
        dpx.partial_dependence(table, model, "age", epsilon=epsilon)
    with pytest.raises(dpx.InputError, match="larger epsilon"):
        dpx.marginals(table, epsilon=epsilon)
    assert table.ledger.statement(table.name).spent.amount == 0


def test_models_with_other_inputs_are_other_models(make_table, frame):
    def first(rows: pd.DataFrame) -> np.ndarray:
        return rows.iloc[:, 0].to_numpy() / 100

    table = make_table(frame)
    one = dpx.Model(first, output=(0, 1), features=["age", "income"], name="m", version="1")
    two = dpx.Model(first, output=(0, 1), features=["income", "age"], name="m", version="1")
    dpx.partial_dependence(table, one, "sex", epsilon=1)
    assert not dpx.partial_dependence(table, two, "sex", epsilon=1).receipt.replayed
