"""The account that suits what is wanted, and what the advice rests on."""

from __future__ import annotations

import pytest

import dpexplain as dpx
from dpexplain.core.budget import exact
from dpexplain.methods.registry import commands
from dpexplain.project.accounts import FEW, check_account, needing_delta, recommend, wanted
from dpexplain.requests import Clusters, Influence, InteractionRanking, Marginals, Performance

COLUMNS = {f"x{i}": dpx.Numeric(0, 100) for i in range(7)} | {f"c{i}": dpx.Categorical(list("abcde")) for i in range(5)}


LONG = [name for name, method in commands().items() if method.long]
SHORT = [name for name, method in commands().items() if not method.long and not method.needs_delta]


def test_every_command_can_be_wished_for():
    assert wanted(",".join(commands())) == list(commands())
    assert needing_delta(commands()) == ["local"]
    assert (len(LONG), len(SHORT)) == (6, 6)


def test_what_is_wanted_decides():
    assert recommend(["local", "pdp"]).delta == "1e-6"
    assert "local" in recommend(["local", "pdp"]).why
    assert recommend(SHORT[:FEW]).delta is None
    assert recommend(SHORT).delta == "1e-6"
    assert all(recommend([name]).delta == "1e-6" for name in LONG)
    assert wanted(" pdp,ale ,, pdp") == ["pdp", "ale"]
    assert wanted("") == []


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (Influence(), SHORT),
        (Performance(target="c0", positive="a", groups=["c1"]), SHORT),
        (InteractionRanking(), LONG),
        (Marginals(), LONG),
    ],
)
def test_forecasts_say_the_same(request_, kind):
    """One release of the whole account: short answers have less error pure, long ones with a delta."""
    found = dpx.plan(request_, domain=dpx.Domain(COLUMNS), n=20_000, relation="replace-one", epsilon=2)
    error = {option.definition: option.error for option in found.options}
    assert (error["pure"] < error["zcdp"]) is (kind is SHORT)


def test_two_explanations_of_clusters_are_better_with_a_delta():
    """Each with half of the account, at a total of epsilon 2."""
    asked = Clusters(labels=["a", "b", "c"])
    budget = dpx.Budget(2, 1e-6)
    both = [
        dpx.plan(asked, domain=dpx.Domain(COLUMNS), n=20_000, relation="replace-one", epsilon=epsilon).options[i].error
        for i, epsilon in enumerate((1, budget.epsilon_of(budget.total * exact(0.5, "half"))))
    ]
    assert both[0] > both[1]


def test_an_account_that_cannot_pay():
    check_account(["pdp"], None)
    check_account(["sketch"], 1e-6)
    with pytest.raises(dpx.InputError, match="wants local, which a pure account cannot pay for"):
        check_account(["sketch", "local"], None)
