"""What permutation importance chooses by forecast, and what its results say."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.domain import PublicRange
from dpexplain.core.release import Door
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.data.reading import Reading
from dpexplain.methods.permutation_importance.outlook import outlook
from dpexplain.methods.permutation_importance.release import resolve
from dpexplain.methods.permutation_importance.request import PermutationImportance
from dpexplain.methods.permutation_importance.spec import Spec
from dpexplain.methods.registry import request_from_json
from dpexplain.methods.setting import Setting
from stubs import ZeroNoise

DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(0, 99, integer=True),
        "pay": dpx.Numeric(0, 1),
        "sex": dpx.Categorical(["f", "m"]),
        "ill": dpx.Categorical([0, 1]),
    }
)
USES = ["age", "pay", "sex"]
BEFORE = Path(__file__).parents[3] / "golden" / "ledger_before" / "importance.json"
REPLACE, ADD = Neighbours(Relation.REPLACE_ONE, None), Neighbours(Relation.ADD_REMOVE, None)


def resolved(rows, cost, neighbours=REPLACE, **options):
    setting = Setting(DOMAIN, PublicRange(0, 1), neighbours, rows or 1_000, rows, features=USES)
    return resolve(PermutationImportance(target="ill", **options), setting, cost)


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


def test_other_values_come_from_other_rows_unless_marginals_are_handed_over():
    for rows, price, method in itertools.product((100, 10**6), (0.01, 10), ("default", "groups", "paper")):
        assert not resolved(rows, pure(price), method=method).drawn
    with pytest.raises(dpx.InputError, match="marginals that were released before"):
        resolved(10**6, pure(10), method="marginals")
    data = table()
    known = dpx.marginals(data, USES, epsilon=1)
    first, second = (
        dpx.permutation_importance(data, model(), "ill", epsilon=1, marginals=known, method=method)
        for method in ("default", "marginals")
    )
    assert first.released == second.released  # the same request
    assert spent(data) == 2


def test_a_number_of_rows_that_nobody_knows_is_taken_to_be_ten_thousand():
    for price in (0.01, 0.1, 0.3, 1, 10):
        assert resolved(None, pure(price), ADD) == resolved(10_000, pure(price), ADD)


def test_a_tiny_price_is_no_reason_to_refuse():
    assert not resolved(1_000, pure(1e-6)).drawn


def test_all_parts_together_cost_the_price():
    for clip, limit in itertools.product((None, 1.0, float("inf")), ("order", "interval")):
        shares = resolved(10**6, pure(1), clip=clip, limit=limit).shares(pure(1))
        assert sum(part.amount for part in shares.values()) == 1
        assert ("limit" in shares, "lost" in shares) == (clip is None, clip != float("inf"))
        assert {"base", "changes", "squares"} <= set(shares)


def test_no_limit_is_what_a_row_or_a_group_can_reach_at_most():
    K = 2**18
    grouped = resolved(10**6, pure(1), clip=float("inf"), repeats=1)
    assert (grouped.most, grouped.limits, grouped.top) == (2, (2 * 3 * K,), 2 * 3 * K)
    odd = resolved(10**6 + 1, pure(1), clip=float("inf"), repeats=1)
    assert odd.most == 3
    dealt = resolved(10**6, pure(1), ADD, clip=float("inf"), repeats=1)
    assert (dealt.group, dealt.most) == (3, 6)


def test_more_draws_where_they_are_worth_their_predictions():
    assert resolved(100, pure(0.1)).draws < resolved(10**6, pure(1)).draws
    assert resolved(10**6, pure(1), repeats=2).draws == 2


def test_narrow_intervals_have_a_larger_limit_and_a_larger_share_for_what_it_cuts_off():
    order, interval = (resolved(20_000, zcdp(0.5), limit=limit) for limit in ("order", "interval"))
    assert interval.shrunk < order.shrunk
    assert interval.shares(pure(1))["lost"].amount > order.shares(pure(1))["lost"].amount
    assert order.to_json() != interval.to_json()  # another request


def test_the_outlook_says_where_public_rows_show_nothing():
    """A model that moves in a corner of the domain alone may move in all rows of the table."""
    corner = dpx.Model(
        lambda rows: (rows["pay"] > 0.999).to_numpy() * 1.0, output=(0, 1), features=USES, name="corner", version="1"
    )
    told = [
        dpx.plan(PermutationImportance(target="ill"), table=table(), model=one, epsilon=5) for one in (corner, model())
    ]
    outlooks = [
        outlook(PermutationImportance(target="ill"), Setting.of(table(), one), pure(5)).note
        for one in (corner, model())
    ]
    assert "may be many times this" in outlooks[0]
    assert outlooks[1] == ""
    assert "may be many times this" in str(told[0]).replace("\n", " ")
    assert "may be many times this" not in str(told[1])


def test_the_outlook_allows_for_the_noise_of_histograms():
    setting = Setting(DOMAIN, PublicRange(0, 1), REPLACE, 4_000, 4_000, features=USES)
    grouped = outlook(PermutationImportance(target="ill"), setting, pure(1))
    before = replace(setting, marginals=dpx.marginals(table(), USES, epsilon=1))
    known = outlook(PermutationImportance(target="ill"), before, pure(1))
    assert 0 < grouped.error < grouped.interval < known.interval <= 1
    assert grouped.rug_error is known.rug_error is None


@pytest.mark.parametrize("method", ["groups", "paper"])
def test_marginals_are_refused_where_they_have_no_use(method):
    data = table()
    known = dpx.marginals(data, epsilon=1)
    with pytest.raises(dpx.InputError, match=f'method="{method}" has no use for marginals'):
        dpx.permutation_importance(data, model(), "ill", epsilon=1, marginals=known, method=method)
    assert spent(data) == 1


def test_requests_and_specs_come_back_from_json():
    for options in ({}, {"clip": float("inf"), "features": ["age", "sex"]}, {"positive": 1, "loss": "log", "seed": 3}):
        request = PermutationImportance(target="ill", **options)
        written = json.loads(json.dumps(request.to_json(), allow_nan=False))
        assert request_from_json(written) == request
    for options in ({}, {"clip": 0.5}, {"method": "paper"}, {"loss": "log"}, {"limit": "interval"}):
        spec = resolved(1_000, pure(1), **options)
        written = json.loads(json.dumps(spec.to_json()))
        assert Spec.from_json(written).to_json() == written
    data = table()
    found = dpx.permutation_importance(data, model(), "ill", epsilon=1, marginals=dpx.marginals(data, USES, epsilon=1))
    assert found.spec.to_json() == found.receipt.request["spec"]


# What is said ---------------------------------------------------------------------------------------------------------


def test_the_same_call_is_the_same_request():
    data = table()
    first, second = (dpx.permutation_importance(data, model(), "ill", epsilon=5) for _ in range(2))
    assert first.released == second.released
    assert spent(data) == 5


@pytest.mark.parametrize(("relation", "handed_over", "passes"), [
    ("replace-one", False, 1), ("add-remove", False, 2), ("replace-one", True, 1), ("add-remove", True, 1),
])  # fmt: skip
def test_base_and_changes_share_a_pass_unless_groups_wait_for_a_noisy_number_of_rows(
    relation, handed_over, passes, monkeypatch
):
    data, readings = table(relation=relation), []
    known = dpx.marginals(data, USES, epsilon=1) if handed_over else None
    read = Reading.identified
    monkeypatch.setattr(Reading, "identified", lambda self, *ahead: readings.append(self) or read(self, *ahead))
    dpx.permutation_importance(data, model(), "ill", epsilon=5, marginals=known)
    assert len(readings) == passes


def test_a_release_without_marginals_is_not_taken_for_some():
    data = table()
    grouped = dpx.permutation_importance(data, model(), "ill", epsilon=1, method="groups")
    made_up = dpx.results.Marginals(grouped.receipt, grouped.released)
    with pytest.raises(dpx.InputError, match="this release has no marginals"):
        dpx.permutation_importance(data, model(), "ill", epsilon=1, marginals=made_up)


def test_a_model_that_uses_nothing():
    nothing = dpx.Model(lambda rows: np.full(len(rows), 0.5), output=(0, 1), features=[], name="m", version="1")
    with pytest.raises(dpx.InputError, match="uses no column"):
        dpx.permutation_importance(table(), nothing, "ill", epsilon=1)


@pytest.mark.parametrize("high", [1.7e308, 5e-324])
def test_the_widest_and_the_narrowest_column(high):
    domain = dpx.Domain({**DOMAIN, "pay": dpx.Numeric(0, high)})
    data = dpx.PrivateTable(
        frame().assign(pay=0.0), domain=domain, budget=dpx.Budget(100), relation="replace-one",
        ledger="sqlite:///:memory:", name="t",
    )  # fmt: skip
    found = dpx.permutation_importance(data, model(), "ill", epsilon=5)
    assert dpx.from_json(found.to_json()) == found


def test_where_other_values_came_from_and_what_the_intervals_contain_is_said():
    data = table()
    known = dpx.marginals(data, USES, epsilon=1)

    def asked(**options):
        return dpx.permutation_importance(data, model(), "ill", epsilon=5, **options)

    sources = [
        (asked(), "other rows, in small groups"),
        (asked(clip=float("inf")), "other rows, in small groups"),
        (asked(marginals=known), "histograms that were released before"),
        (asked(method="paper"), "one permutation of each column"),
    ]
    for found, source in sources:
        assert found.source == source
        assert found.caveat.startswith(f"Replacements came from {source}.")
        assert f"came from {source}" in " ".join(str(found).split())
        limited = found.limit is not None and found.spec.top * found._step > found.limit
        assert ("Large changes are limited" in found.caveat) == limited
        assert ("can have cut off" in found.caveat) == limited
        assert ("leave out that values inside a cell are blurred" in found.caveat) == ("histograms" in source)
        assert ("about that permutation" in found.caveat) == ("permutation" in source)
    assert "without a limit and allow for noise and chance in the replacements" in sources[1][0].caveat


def test_a_result_of_an_earlier_version_says_what_its_intervals_leave_out():
    old = dpx.from_json(BEFORE)
    assert "leave out what the limit cut off, and chance" in old.caveat
    assert "above the next" in " ".join(str(old).split())


@pytest.mark.parametrize(
    "change",
    [
        lambda parts: parts.pop("lost"),
        lambda parts: parts.pop("changes"),
        lambda parts: parts["squares"]["values"].pop(),
        lambda parts: parts["lost"]["values"].append(1),
    ],
)
def test_parts_that_do_not_fit_are_refused(change):
    data = table()
    data.door = Door(data.door.account, sampler=ZeroNoise())  # which always chooses a limit
    document = json.loads(dpx.permutation_importance(data, model(), "ill", epsilon=5).to_json())
    change(document["released"]["parts"])
    with pytest.raises(dpx.InputError, match="damaged"):
        dpx.from_json(json.dumps(document))
