"""A version is a promise: another model under the same name and version is refused before anything is answered."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.ledger.events import ModelDeclared

DOMAIN = dpx.Domain(
    {"age": dpx.Numeric(0, 100, integer=True), "sex": dpx.Categorical(["f", "m"]), "y": dpx.Categorical([0, 1])}
)
draw = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {"age": draw.integers(0, 101, 300), "sex": draw.choice(["f", "m"], 300), "y": draw.integers(2, size=300)}
)
USES = ["age", "sex"]


def up(rows: pd.DataFrame) -> np.ndarray:
    return rows["age"].to_numpy() / 100


def down(rows: pd.DataFrame) -> np.ndarray:
    return 1 - up(rows)


def model(function, version: str | None = "1", **options) -> dpx.Model:
    return dpx.Model(function, output=(0, 1), features=USES, version=version, **options)


@pytest.fixture
def table(make_table):
    return make_table(ROWS, domain=DOMAIN, budget=dpx.Budget(100, 1e-6))


def declared(table) -> list[ModelDeclared]:
    from dpexplain.ledger.chain import records

    with table.ledger.database.read() as connection:
        found = [record.event() for record in records(connection)]
    return [event for event in found if isinstance(event, ModelDeclared)]


def spent(table):
    return table.ledger.statement(table.name).spent.amount


RECORD = {"age": 30, "sex": "f"}
EXPLAINERS = {
    "pdp": lambda t, m: dpx.partial_dependence(t, m, "age", epsilon=1),
    "ale": lambda t, m: dpx.accumulated_effects(t, m, "age", epsilon=1),
    "performance": lambda t, m: dpx.performance(t, m, "y", epsilon=1),
    "importance": lambda t, m: dpx.permutation_importance(t, m, target="y", epsilon=1),
    "local": lambda t, m: dpx.local_explanation(t, m, RECORD, epsilon=1),
    "sketch": lambda t, m: dpx.local_sketch(t, m, epsilon=1),
    "adaptive": lambda t, m: dpx.AdaptiveExplainer(t, m, epsilon=1, per_query=0.5, iterations=3).explain(RECORD),
    "influence": lambda t, m: dpx.influence(t, m, epsilon=1),
    "person": lambda t, m: dpx.influence(t, m, "individual", row=RECORD, epsilon=1),
    "transparency": lambda t, m: dpx.transparency_report(t, m, RECORD, epsilon=1),
    "generic": lambda t, m: dpx.generic_plot(t, "pdp", "age", model=m, output=(0, 1), epsilon=1),
    "ranks": lambda t, m: dpx.rank_aggregation(t, "importance", USES, model=m, target="y", epsilon=1),
    "interactions": lambda t, m: dpx.interaction_ranking(t, m, kind="total", epsilon=1),
}


@pytest.mark.parametrize("ask", EXPLAINERS.values(), ids=EXPLAINERS)
def test_every_explainer_refuses_another_model_of_the_same_version(table, ask):
    answer = ask(table, model(up))
    more = [getattr(answer, name, None) for name in ("sharpening", "kept")]
    kept = 1 + sum(one is not None for one in more)  # curves keep a prior too, sketches what the model says of rows
    assert len(declared(table)) == kept
    before = spent(table)
    with pytest.raises(dpx.errors.ModelError, match='the model "model", version "1", gives other answers') as error:
        ask(table, model(down))
    assert "new version" in error.value.hint
    ask(table, model(up))  # the first one is still welcome, in another object too
    assert len(declared(table)) == kept
    assert spent(table) >= before
    ask(table, model(down, "2"))
    assert len(declared(table)) == 2 * kept


def test_a_replay_is_not_made_for_another_model(table):
    first = dpx.partial_dependence(table, model(up), "age", epsilon=1)
    with pytest.raises(dpx.errors.ModelError, match="gives other answers"):
        dpx.partial_dependence(table, model(down), "age", epsilon=1)
    again = dpx.partial_dependence(table, model(up), "age", epsilon=1)
    assert again.receipt.replayed
    np.testing.assert_array_equal(first.values, again.values)
    table.ledger.verify()


@pytest.mark.parametrize(
    ("change", "kind", "refused"),
    [(5e-10, np.float64, False), (5e-9, np.float64, True), (4e-7, np.float32, False), (4e-6, np.float32, True)],
)
def test_last_digits_of_another_machine_are_no_other_model(table, change, kind, refused):
    def at(shift):
        return model(lambda rows: (0.25 + up(rows) / 2 + shift).astype(kind))

    table.predictor(at(0.0))
    if refused:
        with pytest.raises(dpx.errors.ModelError, match="gives other answers"):
            table.predictor(at(change))
    else:
        table.predictor(at(change))


def test_models_without_a_version_need_no_entry(table):
    table.predictor(model(up, None))
    table.predictor(model(down, None))
    assert declared(table) == []


def test_a_model_without_a_version_that_is_fitted_anew_is_a_new_one(table):
    weights = [1.0]
    changing = model(lambda rows: weights[0] * up(rows), None)
    first = dpx.partial_dependence(table, changing, "age", epsilon=1)
    assert dpx.partial_dependence(table, changing, "age", epsilon=1).receipt.replayed
    weights[0] = 0.5
    second = dpx.partial_dependence(table, changing, "age", epsilon=1)
    assert not second.receipt.replayed
    assert second.receipt.request["model"]["version"] != first.receipt.request["model"]["version"]


def test_it_is_a_new_one_in_blocks_of_any_size(make_table):
    """The size of blocks goes by `rows_hint`, and is no part of a request."""

    def opened(rows_hint):
        return make_table(ROWS, domain=DOMAIN, relation="add-remove", name="blocks", rows_hint=rows_hint)

    def curve(rows_hint):
        return dpx.partial_dependence(
            opened(rows_hint), changing, "age", epsilon=0.1, grid=3, rug=False, mechanism="cube"
        )

    weights = [1.0]
    changing = model(lambda rows: weights[0] * up(rows), None)
    assert opened(1_000).predictor(changing).block != opened(9_000).predictor(changing).block
    first = curve(1_000)
    assert curve(9_000).receipt.replayed
    weights[0] = 0.5
    other = curve(30_000)
    assert not other.receipt.replayed
    assert other.receipt.request["model"]["version"] != first.receipt.request["model"]["version"]
    assert curve(1_000).receipt.replayed
    weights[0] = 1.0
    assert not curve(1_000).receipt.replayed


def test_last_digits_in_blocks_of_another_size_are_no_new_model(make_table):
    uneven = model(lambda rows: up(rows) * (1 + 1e-14 * len(rows)), None)
    versions = set()
    for rows_hint in (1_000, 9_000):
        table = make_table(ROWS, domain=DOMAIN, relation="add-remove", name="digits", rows_hint=rows_hint)
        table.predictor(uneven)
        versions.add(uneven.version)
    assert len(versions) == 1


def test_other_accounts_and_other_domains_know_nothing_of_it(make_table, table):
    table.predictor(model(up))
    make_table(ROWS, domain=DOMAIN).predictor(model(down))  # another account in the same ledger
    wider = dpx.Domain({**DOMAIN, "age": dpx.Numeric(0, 120, integer=True)})
    again = make_table(ROWS, domain=wider, name=table.name, version="2", budget=table.budget)
    again.predictor(model(down))


def test_two_who_declare_at_once_agree_or_the_second_is_refused(table, monkeypatch):
    """Both look first, and see nothing; the write decides."""
    account = table.door.account
    looks = []
    plain = type(account)._declared

    def late(self, connection, identity):
        looks.append(identity)
        return None if len(looks) in (1, 3) else plain(self, connection, identity)

    monkeypatch.setattr(type(account), "_declared", late)
    assert account.declare("identity", [1.0, 2.0]) == [1.0, 2.0]
    assert account.declare("identity", [1.0, 2.5]) == [1.0, 2.0]
    assert len(looks) == 4
    assert len(declared(table)) == 1


def test_rules_of_clusterings(table):
    def explain(function, version="1"):
        rule = dpx.Clustering.of(function, domain=DOMAIN, labels=["young", "old"], version=version, name="ages")
        return dpx.explain_clusters(table, rule, epsilon=1, method="one-stage")

    def ages(limit):
        return lambda rows: np.where(rows["age"] < limit, "young", "old")

    explain(ages(50))
    assert explain(ages(50)).receipt.replayed
    with pytest.raises(dpx.errors.ModelError, match='the clustering "ages", version "1", gives other answers'):
        explain(ages(20))
    explain(ages(20), "2")
    explain(ages(70), None)
    assert len(declared(table)) == 2


@pytest.mark.parametrize("version", [None, "1"])
def test_a_rule_that_is_fitted_anew_is_a_new_one(table, version):
    limit = [50]

    def rule(rows):
        return np.where(rows["age"] < limit[0], "young", "old")

    clustering = dpx.Clustering.of(rule, domain=DOMAIN, labels=["young", "old"], version=version)
    first = dpx.explain_clusters(table, clustering, epsilon=1)
    assert dpx.explain_clusters(table, clustering, epsilon=1).receipt.replayed
    limit[0] = 20
    if version is not None:
        with pytest.raises(dpx.errors.ModelError, match="gives other answers"):
            dpx.explain_clusters(table, clustering, epsilon=1)
        return
    second = dpx.explain_clusters(table, clustering, epsilon=1)
    assert not second.receipt.replayed
    assert second.receipt.request["clustering"]["version"] != first.receipt.request["clustering"]["version"]
    assert dpx.explain_clusters(table, clustering, epsilon=1).receipt.replayed


def plot(rows, given):
    return [0, 50, 100], given(pd.DataFrame({"age": [0, 50, 100]}))


def order(rows, given):
    return [float(x) for x in given(pd.DataFrame({"age": [0, 50]}))]


ASK = {
    "plot": lambda t, m: dpx.generic_plot(t, plot, "age", model=m, output=(0, 1), epsilon=1, name="f", version="1"),
    "order": lambda t, m: dpx.rank_aggregation(t, order, ["p", "q"], model=m, epsilon=1, name="f", version="1"),
}


@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
def test_functions_with_models_without_a_version_are_never_answered_again(table, ask):
    for given in (up, model(up, None)):
        assert not ask(table, given).receipt.replayed
        assert not ask(table, given).receipt.replayed  # nothing tells that it is the same
    assert not ask(table, model(up)).receipt.replayed
    assert ask(table, model(up)).receipt.replayed
    with pytest.raises(dpx.errors.ModelError, match="gives other answers"):
        ask(table, model(down))


def test_our_own_explainers_ask_models_without_a_version_again(table):
    """They see nothing but predictions, so the answers for synthetic rows tell whether the model is still the same."""
    weights = [1.0]
    changing = model(lambda rows: weights[0] * up(rows), None)
    for name in ("generic", "ranks"):
        weights[0] = 1.0
        EXPLAINERS[name](table, changing)
        assert EXPLAINERS[name](table, changing).receipt.replayed
        weights[0] = 0.5
        assert not EXPLAINERS[name](table, changing).receipt.replayed
