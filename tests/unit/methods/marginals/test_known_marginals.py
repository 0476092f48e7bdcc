"""Marginals that are handed over: believed only if the table's own account has released them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx

DOMAIN = dpx.Domain({"dx": dpx.Categorical(["flu", "cold", "hiv"]), "age": dpx.Numeric(0, 99, integer=True)})
ROW = {"dx": "flu", "age": 40}


def table(rows=200, **options):
    frame = pd.DataFrame({"dx": ["flu"] * rows, "age": np.arange(rows) % 100})
    settings = {"budget": dpx.Budget(100), "relation": "add-remove", "ledger": "sqlite:///:memory:", "name": "t"}
    return dpx.PrivateTable(frame, domain=DOMAIN, **{**settings, **options})


def model(column="age", **options):
    def score(rows):
        return rows["age"] / 100 if column == "age" else (rows["dx"].astype(str) == "hiv").astype(float)

    return dpx.Model(score, output=(0, 1), name="m", version=column, **options)


def forged(found, change):
    """The same file with something else in it, read by the product's own reader."""
    document = json.loads(found.to_json())
    change(document)
    text = json.dumps(document)
    try:
        return dpx.from_json(text)
    except dpx.errors.VerificationError:  # values or guarantee written beside it
        document["values"], document["guarantee"] = _derived(document)
        return dpx.from_json(json.dumps(document))


def _derived(document):
    from dpexplain.receipts import Receipt

    result = dpx.results.Marginals.rebuild(Receipt.from_json(document["receipt"]), document["released"], {})
    return [float(v) for v in result.values], result.receipt.guarantee


def fewer_cells(document):
    document["receipt"]["request"]["spec"]["partitions"][0]["labels"] = ["flu", "cold"]
    counts = document["released"]["parts"]["counts"]
    del counts["values"][2]
    counts["noise"]["size"] -= 1


def cheaper(document):
    document["receipt"]["entry"]["charged"]["amount"] = "1/1000000"


def other_counts(document):
    document["released"]["parts"]["counts"]["values"][0] += 1


USES = {
    "average": lambda t, m, known: dpx.influence(t, m, epsilon=1, marginals=known),
    "person": lambda t, m, known: dpx.influence(t, m, "individual", row=ROW, marginals=known),
    "report": lambda t, m, known: dpx.transparency_report(t, m, ROW, epsilon=1, marginals=known),
    "free report": lambda t, m, known: dpx.transparency_report(t, m, ROW, marginals=known),
    "rug": lambda t, m, known: dpx.partial_dependence(t, m, "age", epsilon=1, rug=known),
}


@pytest.mark.parametrize("change", [fewer_cells, cheaper, other_counts])
@pytest.mark.parametrize("use", list(USES))
def test_a_forged_file_is_refused_before_anything_is_read_or_paid(use, change):
    data = table()
    known = dpx.marginals(data, epsilon=1)
    spent = data.ledger.statement("t").spent
    with pytest.raises(dpx.InputError, match="has not released these marginals"):
        USES[use](data, model(), forged(known, change))
    assert data.ledger.statement("t").spent == spent


@pytest.mark.parametrize("use", list(USES))
def test_the_true_file_is_taken(use):
    data = table()
    assert USES[use](data, model(), dpx.from_json(dpx.marginals(data, epsilon=1).to_json()))


def test_those_of_another_ledger_are_refused():
    with pytest.raises(dpx.InputError, match="has not released these marginals"):
        dpx.influence(table(), model(), epsilon=1, marginals=dpx.marginals(table(), epsilon=1))


def test_what_they_cost_is_named_in_the_guarantee():
    data = table()
    known = dpx.marginals(data, epsilon=5)
    found = dpx.influence(data, model(), epsilon=0.5, marginals=known)
    assert "epsilon = 0.5 (pure), beside epsilon = 5 (pure) for entry" in found.receipt.guarantee
    assert dpx.from_json(found.to_json()).receipt.guarantee == found.receipt.guarantee


def test_a_sketch_names_the_price_of_its_marginals_and_refuses_forged_ones():
    data = table(budget=dpx.Budget(100, 1e-6))
    known = dpx.marginals(data, epsilon=5)
    found = dpx.local_sketch(data, model(), epsilon=1, marginals=known)
    assert "for entry" in found.receipt.guarantee
    with pytest.raises(dpx.InputError, match="has not released these marginals"):
        dpx.local_sketch(data, model(), epsilon=1, marginals=forged(known, other_counts))
    elsewhere = dpx.marginals(table(name="other"), epsilon=5)
    assert (
        "marginals of another table"
        in dpx.local_sketch(data, model(), epsilon=1, marginals=elsewhere).receipt.guarantee
    )


def test_a_free_report_never_shows_the_associations_of_another_model():
    data = table()
    paid = dpx.transparency_report(data, model("age"), ROW, epsilon=5)
    assert paid.associations
    for other in (model("dx"), model("age", as_array=False)):
        assert not dpx.transparency_report(data, other, ROW, marginals=paid.marginals, outcome="class").associations


@pytest.mark.parametrize("options", [{"samples": 10**7}, {"samples": 10**7, "aggregate": "unary"}])
def test_what_cannot_be_drawn_is_refused_before_it_is_paid(options):
    data = table()
    with pytest.raises(dpx.InputError):
        dpx.transparency_report(data, model(), ROW, epsilon=1, **options)
    assert data.ledger.statement("t").spent.amount == 0
