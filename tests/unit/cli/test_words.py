"""What people read in a terminal: statements in every state, forecasts, long and odd curves."""

from __future__ import annotations

import re

import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.render import text as words


@pytest.fixture
def table(tmp_path):
    rows = pd.DataFrame({"age": list(range(20, 60)) * 50, "sex": ["F", "M"] * 1000})
    return dpx.PrivateTable(
        rows,
        domain=dpx.Domain({"age": dpx.Numeric(20, 59, integer=True), "sex": dpx.Categorical(["F", "M", "[bold]x"])}),
        budget=dpx.Budget(2.0, 1e-6),
        relation="replace-one",
        ledger=f"sqlite:///{tmp_path}/budget.db",
        name="people [1]",
        analyst="[red]bob",
    )


MODEL = dpx.Model(lambda rows: rows["age"] / 60, output=(0, 1), name="m", version="1")


def test_a_statement_from_untouched_to_closed(table):
    text = words.plain(words.statement_view(table.ledger.statement(table.name)))
    assert "people [1]" in text
    assert "spent     nothing" in text
    assert "enough for one release of epsilon = 2" in text
    dpx.marginals(table, ["sex"], epsilon=0.5)
    statement = table.ledger.statement(table.name)
    text = words.plain(words.statement_view(statement))
    assert "marginals of sex" in text
    assert "[red]bob" in text
    assert "no limit of their own" in text
    assert words.statement_json(statement)["entries"][0]["label"] == "marginals of sex"
    table.ledger.record_non_private(table.name, "the raw table was mailed")
    closed = table.ledger.statement(table.name)
    text = words.plain(words.statement_view(closed))
    assert "infinitely much" in text
    assert re.search(r"left\s+nothing", text)
    assert "the raw table was mailed" in text
    assert words.spent_share(closed) == 1
    assert words.statement_json(closed)["spent_epsilon"] is None


def test_a_pure_statement_counts_epsilon():
    assert words.left_text(dpx.Budget(1), dpx.Budget(1).total) == "epsilon = 1"


def test_a_forecast(table):
    request = dpx.requests.PartialDependence(feature="age")
    forecast = dpx.plan(request, domain=table.domain, n=2000, relation="replace-one", epsilon=1)
    text = words.forecast_text(forecast)
    assert text == str(forecast)
    assert "pure" in text
    assert "zCDP, delta 1e-06" in text
    assert "± row counts" in text
    plain = dpx.plan(
        dpx.requests.Marginals(features=["sex"]), domain=table.domain, n=2000, relation="replace-one", epsilon=1
    )
    assert "± row counts" not in str(plain)


def test_curves_short_long_and_two_dimensional(table):
    curves = dpx.partial_dependence(table, MODEL, ["age", "sex", ("age", "sex")], epsilon=1)
    long, few, surface = (words.plain(words.curve_view(curve)) for curve in curves)
    assert f"age: {words.LINES} of" in long
    basis = " ".join(long.splitlines()[words.LINES + 2 :])
    assert basis == curves[0].basis
    rough = dpx.partial_dependence(table, MODEL, "age", epsilon=1, smooth=False)
    assert len(words.plain(words.curve_view(rough)).splitlines()) == words.LINES + 2
    assert "[bold]x" in few
    assert "the lowest and the highest of" in surface
    receipt = words.plain(words.receipt_view(curves.receipt))
    assert 'account "people [1]", entry' in receipt
    assert "Outside the guarantee" in receipt
