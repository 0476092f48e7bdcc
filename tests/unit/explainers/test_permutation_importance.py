"""Where permutation importance takes other values from, by forecast; and of what use bought marginals are."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import split
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.explainers import importance_forecast as forecasts
from dpexplain.explainers.importance_request import PermutationImportance
from dpexplain.explainers.outlook import Setting
from dpexplain.explainers.permutation_importance import outlook

DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(0, 99, integer=True),
        "pay": dpx.Numeric(0, 1),
        "sex": dpx.Categorical(["f", "m"]),
        "ill": dpx.Categorical([0, 1]),
    }
)
USES = ["age", "pay", "sex"]
REPLACE, ADD = Neighbours(Relation.REPLACE_ONE, None), Neighbours(Relation.ADD_REMOVE, None)


def resolved(rows, cost, neighbours=REPLACE, **options):
    request = PermutationImportance(target="ill", **options)
    return forecasts.resolve(request, DOMAIN, PublicRange(0, 1), neighbours, rows, cost, uses=USES)


def frame(rows=4_000):
    draw = np.random.default_rng(0)
    found = pd.DataFrame(
        {"age": draw.integers(0, 100, rows), "pay": draw.random(rows), "sex": draw.choice(["f", "m"], rows)}
    )
    return found.assign(ill=(draw.random(rows) < found["age"] / 100).astype(int))


def table(rows=4_000, **options):
    settings = {"budget": dpx.Budget(100), "relation": "replace-one", "ledger": "sqlite:///:memory:", "name": "t"}
    return dpx.PrivateTable(frame(rows), domain=DOMAIN, **{**settings, **options})


def spent(data):
    return data.ledger.statement(data.name).spent.amount


def model():
    return dpx.Model(lambda rows: rows["age"].to_numpy() / 100, output=(0, 1), features=USES, name="m", version="1")


# By forecast ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
@pytest.mark.parametrize("definition", [pure, zcdp])
def test_marginals_are_bought_from_so_many_rows_on_as_the_noise_of_a_count_allows(neighbours, definition):
    seen = set()
    for price in (0.01, 0.1, 1, 10):
        cost = definition(price)
        for rows in (100, 1_000, 10_000, 100_000, 10**6):
            spec = resolved(rows, cost, neighbours)
            noise = forecasts.forecast(resolved(rows, cost, neighbours, method="marginals"), neighbours, cost)["counts"]
            assert bool(spec.partitions) == spec.drawn == (rows >= forecasts.WORTH * noise.std)
            seen.add(spec.drawn)
    assert seen == {False, True}


def test_so_many_categories_that_their_noise_adds_up_are_no_reason_to_buy():
    """Else most of what is drawn would be values that nobody has, and a column that says nothing would come first."""
    domain = dpx.Domain({**DOMAIN, "zip": dpx.Categorical([str(i) for i in range(20_000)])})
    for uses, price, drawn in ((USES, 1, True), ([*USES, "zip"], 1, False), ([*USES, "zip"], 1_000, True)):
        request = PermutationImportance(target="ill")
        spec = forecasts.resolve(request, domain, PublicRange(0, 1), REPLACE, 20_000, pure(price), uses=uses)
        assert spec.drawn == drawn


def test_a_number_of_rows_that_nobody_knows_is_taken_to_be_ten_thousand():
    seen = set()
    for price, method in itertools.product((0.01, 0.1, 0.3, 1, 10), ("default", "groups", "marginals")):
        unknown = resolved(None, pure(price), ADD, method=method)
        assert unknown == resolved(10_000, pure(price), ADD, method=method)
        seen.add((method, unknown.drawn))
    assert seen == {("default", False), ("default", True), ("groups", False), ("marginals", True)}


@pytest.mark.parametrize(
    ("price", "source"), [(9, "histograms that a part of the price bought"), (0.01, "other rows, in small groups")]
)
def test_a_table_whose_number_of_rows_nobody_knows(price, source):
    found = dpx.permutation_importance(table(relation="add-remove"), model(), "ill", epsilon=price)
    assert found.source == source
    setting = Setting(DOMAIN, PublicRange(0, 1), ADD, 1_000, None, features=USES)
    told = outlook(PermutationImportance(target="ill"), setting, pure(price))
    assert (told.rug_error is None) == (found.marginals is None)


def test_a_caller_decides():
    assert not resolved(10**6, pure(10), method="groups").drawn
    assert resolved(100, pure(0.01), method="marginals").drawn
    assert resolved(10**6, pure(10)).partitions == resolved(10**6, pure(10), method="marginals").partitions
    assert not resolved(10**6, pure(10), method="paper").drawn


def test_a_tiny_price_is_no_reason_to_refuse():
    assert not resolved(1_000, pure(1e-6)).drawn


def test_all_parts_together_cost_the_price():
    for method in ("marginals", "groups"):
        for clip in (None, 1.0):
            spec, cost = resolved(10**6, pure(1), method=method, clip=clip), pure(1)
            counts, _ = split(cost, spec.marginals_share)
            assert counts.amount + sum(part.amount for part in spec.shares(cost)) == 1
            assert counts.amount == (Fraction(3, 10) if method == "marginals" else 0)
    assert resolved(10**6, pure(1), marginals_share="0.5").marginals_share == Fraction(1, 2)


def test_no_limit_is_what_a_row_or_a_group_can_reach_at_most():
    spec, K = resolved(10**6, pure(1), method="marginals", clip=float("inf")), 2**18
    assert spec.limits == (3 * K,)
    grouped = resolved(10**6, pure(1), method="groups", clip=float("inf"), repeats=1)
    assert grouped.limits == (2 * 2 * 3 * K,)


def test_more_draws_where_they_are_worth_their_predictions():
    assert resolved(100, pure(0.1), method="marginals").draws < resolved(10**6, pure(1), method="marginals").draws
    assert resolved(10**6, pure(1), repeats=2).draws == 2


def test_the_outlook_tells_the_noise_of_the_histograms():
    setting = Setting(DOMAIN, PublicRange(0, 1), REPLACE, 10**6, 10**6, features=USES)
    told = {m: outlook(PermutationImportance(target="ill", method=m), setting, pure(1)) for m in ("default", "groups")}
    spec = resolved(10**6, pure(1))
    assert told["default"].rug_error == forecasts.forecast(spec, REPLACE, pure(1))["counts"].halfwidth(0.95)
    assert told["groups"].rug_error is None
    with_known = replace(setting, marginals=dpx.marginals(table(), USES, epsilon=1))
    known = outlook(PermutationImportance(target="ill"), with_known, pure(1))
    assert known.rug_error is None
    assert known.error < told["default"].error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "rows"}, "unknown method 'rows'"),
        ({"marginals_share": 0}, "marginals_share lies between 0 and 1"),
        ({"marginals_share": 1}, "marginals_share lies between 0 and 1"),
        ({"marginals_share": True}, "marginals_share lies between 0 and 1"),
        ({"marginals_share": "1/0"}, "marginals_share lies between 0 and 1"),
        ({"marginals_share": "much"}, "marginals_share lies between 0 and 1"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(dpx.InputError, match=message):
        PermutationImportance(target="ill", **options)


@pytest.mark.parametrize("method", ["groups", "paper"])
def test_marginals_are_refused_where_they_have_no_use(method):
    data = table()
    known = dpx.marginals(data, epsilon=1)
    with pytest.raises(dpx.InputError, match=f'method="{method}" has no use for marginals'):
        dpx.permutation_importance(data, model(), "ill", epsilon=1, marginals=known, method=method)
    assert spent(data) == 1


# What was bought ------------------------------------------------------------------------------------------------------


def test_bought_marginals_are_used_again():
    data = table()
    found = dpx.permutation_importance(data, model(), "ill", epsilon=5)
    assert set(found.released["parts"]) == {"counts", "base", "limit", "changes"}
    assert found.items[0] == "age"
    known = found.marginals
    assert known.features == USES
    person = {"age": 40, "pay": 0.5, "sex": "f", "ill": 0}
    dpx.influence(data, model(), "individual", row=person, marginals=known)
    assert spent(data) == 5
    again = dpx.permutation_importance(data, model(), "ill", epsilon=1, marginals=known)
    assert again.marginals is None
    assert again.receipt.request["builds_on"][0]["payload"] == found.receipt.entry.payload_hash
    assert spent(data) == 6


def test_the_same_call_is_the_same_request():
    data = table()
    first, second = (dpx.permutation_importance(data, model(), "ill", epsilon=5) for _ in range(2))
    assert first.released == second.released
    assert spent(data) == 5


def test_a_saved_result_has_its_marginals():
    data = table()
    found = dpx.permutation_importance(data, model(), "ill", epsilon=5)
    read = dpx.from_json(found.to_json())
    assert read == found
    np.testing.assert_array_equal(read.marginals.values, found.marginals.values)
    dpx.permutation_importance(data, model(), "ill", epsilon=1, marginals=read.marginals)
    assert dpx.permutation_importance(data, model(), "ill", epsilon=1, method="groups").marginals is None


def test_a_release_without_marginals_is_not_taken_for_some():
    data = table()
    grouped = dpx.permutation_importance(data, model(), "ill", epsilon=1, method="groups")
    made_up = dpx.Marginals(grouped.receipt, grouped.released)
    with pytest.raises(dpx.InputError, match="this release has no marginals"):
        dpx.permutation_importance(data, model(), "ill", epsilon=1, marginals=made_up)


def test_a_model_that_uses_nothing():
    nothing = dpx.Model(lambda rows: np.full(len(rows), 0.5), output=(0, 1), features=[], name="m", version="1")
    for method in ("default", "groups", "marginals"):
        with pytest.raises(dpx.InputError, match="uses no column"):
            dpx.permutation_importance(table(), nothing, "ill", epsilon=1, method=method)


@pytest.mark.parametrize("high", [1.7e308, 5e-324])
def test_the_widest_and_the_narrowest_column(high):
    domain = dpx.Domain({**DOMAIN, "pay": dpx.Numeric(0, high)})
    data = dpx.PrivateTable(
        frame().assign(pay=0.0), domain=domain, budget=dpx.Budget(100), relation="replace-one",
        ledger="sqlite:///:memory:", name="t",
    )  # fmt: skip
    found = dpx.permutation_importance(data, model(), "ill", epsilon=5, method="marginals")
    assert dpx.from_json(found.to_json()) == found


def test_where_other_values_came_from_and_what_the_intervals_leave_out_is_said():
    data = table()
    bought = dpx.permutation_importance(data, model(), "ill", epsilon=5)
    sources = [
        (bought, "histograms that a part of the price bought"),
        (dpx.permutation_importance(data, model(), "ill", epsilon=0.01), "other rows, in small groups"),
        (dpx.permutation_importance(data, model(), "ill", epsilon=5, method="groups"), "other rows, in small groups"),
        (dpx.permutation_importance(data, model(), "ill", epsilon=5, marginals=bought.marginals),
         "histograms that were released before"),
        (dpx.permutation_importance(data, model(), "ill", epsilon=5, method="paper"), "one permutation of each column"),
    ]  # fmt: skip
    for found, source in sources:
        assert found.source == source
        assert found.caveat.startswith(f"Replacements came from {source}.")
        assert "not the chance" in found.caveat
        assert ("noise of those histograms" in found.caveat) == ("histograms" in source)
        assert f"came from {source}" in " ".join(str(found).split())


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["partitions"].pop(),
        lambda spec: spec["partitions"].reverse(),
        lambda spec: spec.update(marginals="0" * 64),
    ],
)
def test_cells_that_do_not_fit_the_counts_are_refused(change):
    document = json.loads(dpx.permutation_importance(table(), model(), "ill", epsilon=5).to_json())
    change(document["receipt"]["request"]["spec"])
    with pytest.raises(dpx.InputError, match="damaged"):
        dpx.from_json(json.dumps(document))


def test_what_is_public_is_said():
    bought = dpx.permutation_importance(table(), model(), "ill", epsilon=5)
    assert "the cells" in bought.receipt.guarantee
    grouped = dpx.permutation_importance(table(), model(), "ill", epsilon=5, method="groups")
    assert "the cells" not in grouped.receipt.guarantee
