"""A ledger and result files of an earlier dpexplain: microseconds, charges stated as prices, no declared sources.

They were made by that version from 500 rows: account "pure" (epsilon 4, replace-one) with four releases and a lost
reservation; account "zcdp" (epsilon 8 at delta 1e-6, add-remove, analyst "anna") with two adaptive explanations, the
second charged less than reserved, and a local one. What was spent must count for ever, and what was published must
stay genuine.
"""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from commands import answer
from dpexplain.core.budget import pure, zcdp
from dpexplain.ledger import LOST, RELEASED

BEFORE = Path(__file__).parent / "ledger_before"
FILES = sorted(path.name for path in BEFORE.glob("*.json"))
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00")


@pytest.fixture
def url(tmp_path):
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        connection.executescript((BEFORE / "ledger.sql").read_text(encoding="utf-8"))
    return f"sqlite:///{tmp_path / 'old.db'}"


@pytest.fixture
def table(url):
    draw, n = np.random.default_rng(0), 500
    frame = pd.DataFrame({"a": draw.random(n), "b": draw.random(n), "sex": draw.choice(["f", "m"], n)})
    domain = dpx.Domain({"a": dpx.Numeric(0, 1), "b": dpx.Numeric(0, 1), "sex": dpx.Categorical(["f", "m"])})

    def open_table(name):
        options = {
            "pure": {"budget": dpx.Budget(4), "relation": "replace-one"},
            "zcdp": {"budget": dpx.Budget(8, 1e-6), "relation": "add-remove", "analyst": "anna", "rows_hint": n},
        }[name]
        return dpx.PrivateTable(frame, domain=domain, ledger=url, name=name, **options)

    return open_table


@pytest.fixture
def model():
    def line(rows):
        return np.asarray(rows["a"], float) * 0.5 + np.asarray(rows["b"], float) * 0.25

    return dpx.Model(line, output=(0.0, 1.0), features=["a", "b"], name="line", version="1")


def test_it_opens_verifies_and_counts(url):
    ledger = dpx.open_ledger(url)
    checked = ledger.verify()
    assert (checked.events, checked.releases, checked.accounts) == (19, 7, 2)
    first, second = ledger.statement("pure"), ledger.statement("zcdp")
    assert first.spent == pure(Fraction(15, 8))
    assert first.left == pure(Fraction(17, 8))
    assert [row.status for row in first.rows] == [RELEASED] * 4 + [LOST]
    assert [row.cost for row in first.rows] == [pure(f) for f in (0.5, 0.25, 0.5, 0.5, 0.125)]
    assert second.spent == zcdp(sum((row.charged.amount for row in second.rows), Fraction(0)))
    assert second.analysts[0].spent == second.spent
    assert [row.cost for row in second.rows] == [zcdp(0.1), zcdp(0.1), zcdp(0.05)]
    assert second.rows[1].charged.amount < Fraction(2, 100)
    assert all(MOMENT.fullmatch(row.at) for row in (*first.rows, *second.rows))


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_genuine(url, name, capsys):
    text = (BEFORE / name).read_text(encoding="utf-8")
    result = dpx.from_json(BEFORE / name)
    dpx.verify(result, url)
    assert answer(capsys, "verify", str(BEFORE / name), "--ledger", url)["genuine"]
    receipt = result.receipt
    assert (json.loads(text)["guarantee"] == receipt.guarantee) == (receipt.charged == receipt.cost)
    assert receipt.budget.describe(receipt.cost) in receipt.guarantee
    again = dpx.from_json(result.to_json())
    assert again.receipt.guarantee == receipt.guarantee


def test_the_same_requests_are_answered_again_free(table, model):
    first, second = table("pure"), table("zcdp")
    spent = [t.ledger.statement(t.name).spent for t in (first, second)]
    answers = {
        "curve.json": dpx.partial_dependence(first, model, "a", epsilon=0.5, grid=3),
        "marginals.json": dpx.marginals(first, ["sex"], epsilon=0.25),
    }
    for name, result in answers.items():
        assert result.receipt.replayed, name
        assert result.released == dpx.from_json(BEFORE / name).released
    assert [t.ledger.statement(t.name).spent for t in (first, second)] == spent
    # local explanations release an average person too by now: the same words, another request
    assert not dpx.local_explanation(second, model, {"a": 0.5, "b": 0.5}, rho=0.05).receipt.replayed


LOCAL = sorted((Path(__file__).parent / "local_before").glob("*.json"))


@pytest.mark.parametrize("path", LOCAL, ids=lambda path: path.stem)
def test_local_explanations_of_before_there_was_an_average_person_are_read_as_they_were(path):
    """Written by that version for a record with a rare category; a file whose values do not follow is refused."""
    document, result = json.loads(path.read_text(encoding="utf-8")), dpx.from_json(path)
    np.testing.assert_allclose(result.values, document["values"], rtol=1e-6, atol=1e-9)
    if isinstance(result, dpx.results.LocalSketch):
        written = dpx.from_json(path.with_name(path.name.replace("sketch", "fitted")))
        np.testing.assert_allclose(result.explain(written.record).values, written.values, atol=1e-9)
    else:
        cells = path.stem.endswith(("fitted", "sketched"))
        assert f"Compared with the {'mean of the cells' if cells else 'middle of the domain'} (" in result.caveat


def test_spending_goes_on_where_it_stopped(table, url, capsys):
    first = table("pure")
    with pytest.raises(dpx.BudgetError, match="only 2.125 of 4 is left"):
        dpx.marginals(first, ["b"], epsilon=2.25)
    result = dpx.marginals(first, ["b"], epsilon=2.125)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", result.receipt.entry.committed_at)
    dpx.verify(result, url)
    assert first.ledger.statement("pure").left.amount == 0
    assert first.ledger.verify().releases == 8
    assert answer(capsys, "budget", "--ledger", url)["accounts"][0]["left"]["amount"] == "0/1"


def test_its_accounts_can_be_renewed(table, url):
    """Then nothing more is reserved in the old account, its files are genuine all the same, and it answers again."""
    ledger = dpx.open_ledger(url)
    before = ledger.statement("pure")
    ledger.renew("pure", "pure-2", people="others", overlapping=False, signed_by="Ada", reason="a new version")
    checked, after = ledger.verify(), ledger.statement("pure")
    assert (checked.events, checked.releases, checked.accounts) == (21, 7, 3)
    assert (after.spent, after.rows, after.dates[0]) == (before.spent, before.rows, "2026-11-16")
    for name in FILES:
        dpx.verify(dpx.from_json(BEFORE / name), url)
    assert dpx.marginals(table("pure"), ["sex"], epsilon=0.25).receipt.replayed
    with pytest.raises(dpx.BudgetError, match='account "pure" is closed'):
        dpx.marginals(table("pure"), ["b"], epsilon=0.25)
    assert ledger.statement("pure-2").left == pure(4)


@pytest.mark.parametrize("how", ["?mode=ro", "a file that cannot be written"])
def test_whoever_may_only_read_is_answered_what_is_stored(url, model, how):
    """Neither the source nor the model can be written down then, and nothing new can be reserved."""
    draw, n = np.random.default_rng(0), 500
    frame = pd.DataFrame({"a": draw.random(n), "b": draw.random(n), "sex": draw.choice(["f", "m"], n)})
    reader = dpx.open_ledger(url + "?mode=ro")
    if how != "?mode=ro":
        refused = dpx.errors.LedgerUnavailable("is read-only")
        refused.read_only = True
        reader = dpx.open_ledger(url)
        reader.database._writer = _Refusing(refused)
    domain = dpx.Domain({"a": dpx.Numeric(0, 1), "b": dpx.Numeric(0, 1), "sex": dpx.Categorical(["f", "m"])})
    opened = dpx.PrivateTable(
        frame, domain=domain, ledger=reader, name="pure", budget=dpx.Budget(4), relation="replace-one"
    )
    again = dpx.partial_dependence(opened, model, "a", epsilon=0.5, grid=3)
    assert again.receipt.replayed
    with pytest.raises(dpx.errors.LedgerUnavailable, match="read-only"):
        dpx.partial_dependence(opened, model, "b", epsilon=0.5, grid=3)


class _Refusing:
    """An engine of somebody without the right to write."""

    def __init__(self, error):
        self._error = error

    def connect(self):
        raise self._error


def test_a_file_of_today_cannot_state_the_charge_as_its_price(table, model, tmp_path):
    """As files of the earlier version did: there the ledger's time of day shows which version wrote it."""
    explainer = dpx.AdaptiveExplainer(table("zcdp"), model, rho=0.3, per_query=0.1, iterations=5, reuse_distance=0.0)
    explainer.explain({"a": 0.1, "b": 0.9})
    result = explainer.explain({"a": 0.9, "b": 0.1})
    assert result.receipt.charged.amount < result.receipt.cost.amount
    document = json.loads(result.to_json())
    document["guarantee"] = result.receipt._promise(result.receipt.charged)
    assert document["guarantee"] != result.receipt.guarantee
    with pytest.raises(dpx.errors.VerificationError, match="guarantee written in this file"):
        dpx.from_json(json.dumps(document))


def test_sums_of_long_prices_can_be_shown(table, capsys, url):
    opened = table("pure")
    for k in range(12):
        dpx.marginals(opened, ["sex"], epsilon=Fraction(10**397, 10**399 + 2 * k + 1))
    shown = answer(capsys, "budget", "--ledger", url)
    assert len(str(shown)) > 4_300
