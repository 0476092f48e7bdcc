"""The audit of a project: what is read and attacked, broken releases that it must catch, sound ones that it must not.

A sound release is accused with probability at most 1e-6 (CONFIDENCE is set to that). A release whose rows count five
times is refuted without chance by its exact loss. Its attackers are right in 0.91 of the runs where 0.73 are allowed;
over 15 repetitions of 1,000 trials the lower limit of the true positives lay 0.55 above what is allowed (23 standard
deviations), and that of the guessed values 0.14 (24 standard deviations).
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.audit import NOT_PRIVATE, explained, own_releases, subject
from dpexplain.audit import project as audits
from dpexplain.audit.capture import capture, draws
from dpexplain.audit.cases import NoLedger
from dpexplain.core.budget import pure
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.errors import InputError, TableError
from dpexplain.methods import registry
from dpexplain.methods.partial_dependence import release as partial_dependence
from dpexplain.methods.registry import methods, register
from dpexplain.models.clustering import Clustering
from stubs import rows_of

pytestmark = pytest.mark.drawn(1e-5)

DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(20, 79, integer=True),
        "sex": dpx.Categorical(["Female", "Male"]),
        "sick": dpx.Categorical([0, 1]),
    }
)
PURE, ZCDP = dpx.Budget(10), dpx.Budget(10, 1e-6)


@pytest.fixture(autouse=True)
def surely(monkeypatch):
    monkeypatch.setattr(audits, "CONFIDENCE", 1 - 1e-6)
    monkeypatch.setattr(audits, "BOUND_TRIALS", 500)
    monkeypatch.setattr(subject, "ATTACKED_ROWS", 200)
    monkeypatch.setattr(subject, "COMPANY", 40)
    monkeypatch.setattr(explained, "RECORDS", 120)


def risk(rows):
    return rows["age"].to_numpy() / 100 + 0.2 * (rows["sex"] == "Male").to_numpy()


MODEL = dpx.Model(risk, output=(0, 1), features=["age", "sex"], name="risk", version="1")


def people(rows: int = 300) -> pd.DataFrame:
    draw = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": draw.integers(20, 80, rows),
            "sex": draw.choice(["Female", "Male"], rows),
            "sick": draw.integers(0, 2, rows),
            "id": np.arange(rows) // 3,
        }
    )


def opened(frame, budget=PURE, relation="replace-one", **settings):
    return dpx.PrivateTable(
        frame, domain=DOMAIN, budget=budget, relation=relation, ledger=NoLedger(), name="people", **settings
    )


def subject_of(rows=300, budget=PURE, relation="replace-one", clustering=None, **settings):
    return audits.read(opened(people(rows), budget, relation, **settings), MODEL, "sick", clustering)


def plan_of(mine, **options):
    settings = {"clustering": mine.clustering is not None, "trials": 400, "epsilons": [1.0], **options}
    return audits.Plan.of(mine.budget, mine.neighbours, mine.target, **settings)


def release_of(name, mine):
    """A command's release, in the form that `subject` takes."""
    return partial(own_releases.release, own_releases.explainers()[name], mine)


@pytest.fixture
def registered(monkeypatch):
    """Put another release in the place of one that is registered."""
    monkeypatch.setattr(registry, "_methods", dict(registry.methods()))
    return lambda name, explain: register(replace(methods()[name], explain=explain))


def old(rows):
    return (rows["age"] >= 50).map({True: "old", False: "young"})


RULE = Clustering.of(old, domain=DOMAIN, labels=["young", "old"], name="old", version="1")


# Reading --------------------------------------------------------------------------------------------------------------


def test_rows_are_read_as_they_are_and_by_a_public_seed():
    frame = people(50)
    frame.loc[7, "sex"] = None
    mine, again = (audits.read(opened(frame), MODEL, rows=20) for _ in range(2))
    assert len(mine.frame) == 20
    assert mine.size == 50
    assert (mine.places == again.places).all()
    assert mine.frame["age"].tolist() == frame["age"].to_numpy()[mine.places].tolist()
    assert mine.called(int(mine.units[0])) == f"row {mine.places[0] + 1}"


def test_units_are_read_whole_and_rows_without_an_id_are_not():
    frame = people(60).astype(object)
    frame.loc[[0, 1, 2], "id"] = None
    mine = audits.read(opened(frame, unit=dpx.Unit("id", 3)), MODEL, rows=12)
    assert sorted(mine.frame.groupby("id").size().tolist()) == [3, 3, 3, 3]
    assert not mine.frame["id"].isna().any()


def test_nothing_is_asked_of_an_account_and_no_file_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subject_of(60)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("rows", "said"), [(1, "only one"), (0, "none")])
def test_one_row_is_refused(rows, said):
    with pytest.raises(TableError, match=said):
        audits.read(opened(people(5).iloc[:rows], relation="add-remove"), MODEL)


def test_a_source_that_breaks_says_no_value():
    table = opened(people(20))

    def broken(*_):
        raise ValueError("a secret row")
        yield

    table._source.batches = broken
    with pytest.raises(TableError) as refused:
        audits.read(table, MODEL)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None


def test_a_model_that_fails_is_refused():
    def fails(rows):
        raise ValueError("no")

    with pytest.raises(InputError, match="synthetic"):
        audits.read(opened(people(20)), dpx.Model(fails, output=(0, 1), name="fails", version="1"))


def test_a_model_is_tried_once():
    calls = []

    def counted(rows):
        calls.append(len(rows))
        return risk(rows)

    mine = audits.read(opened(people(20)), dpx.Model(counted, output=(0, 1), name="c", version="1"))
    tried = len(calls)
    mine.model.checked(DOMAIN)
    assert tried > 5
    assert len(calls) == tried


# Targets --------------------------------------------------------------------------------------------------------------


def test_the_most_exposed_pair_moves_the_release_most():
    """Of all rows those with the lowest and the highest prediction are farthest apart in a curve without a rug."""
    mine = subject_of(100)
    request = dpx.requests.PartialDependence(feature="sex", rug=False)

    def explain(table, cost):
        return partial_dependence.explain(table, mine.model, request, cost=cost)

    one, other = subject.most_exposed(mine, explain, pure(1))
    ages = [float(mine.rows_of(unit)["age"].iloc[0]) for unit in (one, other)]
    assert {min(ages), max(ages)} == {people(100)["age"].min(), people(100)["age"].max()}


def test_the_hidden_value_is_the_one_that_matters_most():
    mine = subject_of(50)
    pair = subject.hidden_pair(mine, int(mine.units[0]))
    assert pair.about == f"age of row {mine.places[0] + 1}"
    assert pair.values == ("20", "79")
    assert (pair.left.iloc[:-1] == pair.right.iloc[:-1]).all().all()
    assert (pair.left.iloc[-1] != pair.right.iloc[-1]).tolist() == [True, False, False]


# in the short ring each relation and each rule by which rows are dealt
@pytest.mark.parametrize(
    ("relation", "settings"),
    [
        ("replace-one", {}),
        pytest.param("replace-one", {"unit": dpx.Unit("id", 3)}, marks=pytest.mark.long),
        pytest.param("replace-one", {"row_id": "id"}, marks=pytest.mark.long),
        pytest.param("add-remove", {}, marks=pytest.mark.long),
        ("add-remove", {"unit": dpx.Unit("id", 3)}),
        ("add-remove", {"row_id": "id"}),
    ],
    ids=str,
)
def test_pairs_are_neighbours_and_no_exact_loss_exceeds_its_price(relation, settings):
    """For releases that add up rows, and for those that deal them to groups or parts."""
    mine = subject_of(120, ZCDP, relation, RULE, **settings)
    for name in own_releases.explainers():
        explain = release_of(name, mine)
        cost = ZCDP.cost(epsilon=1.0)
        pair = subject.membership_pair(mine, *subject.most_exposed(mine, explain, cost))
        assert abs(len(pair.right) - len(pair.left)) == (
            0 if relation == "replace-one" else 3 if "unit" in settings else 1
        )
        parts = capture(mine.opened(pair.left), mine.opened(pair.right), partial(subject.priced, explain, cost))
        assert name == "interactions" or sum(part.loss for part in parts) > 0  # two columns always draw
        assert all(part.attained <= 1 + 1e-9 for part in parts)


@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=["pure", "zcdp"])
def test_clusters_are_found_and_explained_for_one_price(budget):
    mine, cost = subject_of(100, budget, clustering=2), budget.cost(epsilon=1.0)
    explain = release_of("clusters", mine)
    pair = subject.membership_pair(mine, *subject.most_exposed(mine, explain, cost))
    parts = capture(mine.opened(pair.left), mine.opened(pair.right), partial(subject.priced, explain, cost))
    assert {"survey", "2:tables"} <= {part.name for part in parts}
    assert sum(part.cost.amount for part in parts) <= cost.amount
    assert 0 < sum(part.loss for part in parts) <= float(cost.amount) * (1 + 1e-9)


@pytest.mark.parametrize(("groups", "most"), [(2, 8), (4, 8), (5, 5), (12, 2), (20, 1)])
def test_combinations_for_clusters_can_be_listed(groups, most):
    columns = {f"c{i}": dpx.Categorical([0, 1]) for i in range(10)}
    domain = dpx.Domain({"one": dpx.Categorical([0]), **columns})
    assert own_releases.attributes(domain, groups) == list(columns)[:most]


def test_a_row_takes_the_same_other_values_on_both_sides():
    """Influences replace values by secret draws: equal tables must give equal sums, or draws would pass for a loss."""
    mine, cost = subject_of(60), PURE.cost(epsilon=1.0)
    run = partial(subject.priced, release_of("influence", mine), cost)
    assert all(part.silent for part in capture(mine.opened(mine.frame), mine.opened(mine.frame), run))
    one, two = (dpx.PrivateTable.secrets().uniform(5) for _ in range(2))
    assert (one != two).all(), "secret in the product"


# Runs -----------------------------------------------------------------------------------------------------------------


def test_one_number_stands_for_a_long_vector_of_fine_gaussian_noise():
    mine = subject_of(100, ZCDP)
    explain, cost = release_of("sketch", mine), ZCDP.cost(epsilon=5.0)
    pair = subject.membership_pair(mine, *subject.most_exposed(mine, explain, cost))
    whole = capture(mine.opened(pair.left), mine.opened(pair.right), partial(subject.priced, explain, cost))[-1]
    one = audits.narrowed(whole)
    assert len(one.left[0].values) == 1 < len(whole.left[0].values)
    assert one.loss == pytest.approx(whole.loss, rel=1e-3)
    mu = np.sqrt(2 * whole.loss)
    for part in (whole, one):  # a log likelihood ratio is normal with mean mu^2 / 2 and deviation mu; 6 sigma
        found = draws(part, 600)[0]
        assert abs(found.mean() - mu**2 / 2) < 6 * mu / np.sqrt(600)
        assert abs(found.std() / mu - 1) < 6 / np.sqrt(1200)


@pytest.mark.usefixtures("sketched_pictures")
@pytest.mark.long
def test_sound_releases_are_not_accused(tmp_path):
    mine = subject_of(200, ZCDP)
    report = audits.run(mine, plan_of(mine, epsilons=[0.5, 3.0], explainers=["pdp", "sketch"]))
    assert report.refuted == []
    assert {o.explainer for o in report.membership} == {"pdp", "sketch"}
    assert [o.epsilon for o in report.table] == [0.5, 3.0] * 2
    assert all(0 < o.attained <= 1 for o in report.membership)
    assert report.explained[0].report.advantage > 0.2, "exact explanations give records away"
    assert {e.method for e in report.explained} == {"exact", "sketch", "moments"}
    assert {line["relation"] for line in report.bounds} == {"replace-one"}
    files = report.write(tmp_path)
    assert len(files) == 8
    for path in files:
        assert path.stat().st_size > 1000
        if path.suffix != ".png":
            assert NOT_PRIVATE in path.read_text()
    assert json.loads(report.to_json())["note"] == NOT_PRIVATE
    assert NOT_PRIVATE in report.describe()
    assert report.to_frame().attrs["note"] == NOT_PRIVATE
    assert report.plot().get_title(loc="left")


def heavy(table, _model, _request, *, cost):
    """Counts in which every row counts five times, at the price of one."""

    def body(gate):
        ages = np.concatenate([rows["age"] for rows in rows_of(table, gate, ["age"])])
        bound = Sensitivity.of_counts(gate.neighbours, 1)
        gate.noisy_sum("old", [5 * int((ages > 50).sum()), 5 * int((ages <= 50).sum())], bound, cost)

    return table.door.release("heavy", {}, cost, body)


def test_a_release_that_costs_more_than_it_says_is_refuted(registered):
    registered("partial-dependence", heavy)
    mine = subject_of(100)
    report = audits.run(mine, plan_of(mine, explainers=["pdp"], attacks=["membership", "table"], trials=1000))
    (member,), (hidden,) = report.membership, report.table
    for outcome in (member, hidden):
        assert outcome.attained == pytest.approx(5)
        assert outcome.report.violates
        assert outcome.guess.success > outcome.guess.allowed
    assert len(report.refuted) == 2
    assert "REFUTED" in report.verdict
    assert "REFUTED" in report.describe()
    exact = replace(member, report=replace(member.report, attacks=()))
    assert exact.violates, "the exact loss alone refutes"


@pytest.mark.usefixtures("workers")
def test_work_is_shared_out_to_processes():
    mine = subject_of(60)
    report = audits.run(mine, plan_of(mine, explainers=["marginals"], attacks=["membership"], workers=2))
    assert report.refuted == []
    assert report.membership[0].guess.success > 0.5


def test_what_is_refused_at_a_price_is_left_out(registered):
    def dear(table, _model, _request, *, cost):
        if cost.amount < 2:
            raise InputError("the price is too small.")
        return dpx.marginals(table, epsilon=cost.amount)

    def never(*_, cost):
        raise InputError("there is no such price.")

    registered("partial-dependence", dear)
    registered("accumulated-effects", never)
    mine = subject_of(60)
    wanted = {"explainers": ["pdp", "ale"], "attacks": ["membership", "table"], "epsilons": [0.5, 1.0, 3.0]}
    report = audits.run(mine, plan_of(mine, **wanted))
    assert [o.epsilon for o in report.membership] == [o.epsilon for o in report.table] == [3.0]
    assert report.left_out == (
        "pdp at epsilon 0.5: the price is too small.",
        "pdp at epsilon 1: the price is too small.",
        "ale: there is no such price.",
    )


def test_parts_that_hardly_tell_anything_are_not_drawn():
    mine = subject_of(100, ZCDP, clustering=RULE)
    works, refused = audits.captured(mine, plan_of(mine, explainers=["clusters"], attacks=["table"]), lambda _: None)
    (work,) = works
    assert refused == []
    left = [part for part in work.parts if part not in work.telling]
    assert all(part.loss < 0.01 * work.loss for part in left)
    assert sum(part.loss for part in work.telling) >= 0.9 * work.loss


# Plans ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        ({"attacks": ["guess"]}, "unknown attack 'guess'", "membership, table"),
        ({"explainers": ["shap"]}, "unknown explainer 'shap'", "ale, clusters, importance"),
        ({"explainers": ["sketch"]}, "sketch needs an account with a delta", "delta = 1e-6"),
        ({"attacks": ["reconstruction"]}, "local explanations", "delta = 1e-6"),
        ({"epsilons": [0.0]}, "epsilon must be a positive", "epsilon=0.5"),
        ({"epsilons": [float("nan")]}, "epsilon must be a positive", ""),
        ({"workers": 0}, "workers must be", ""),
        ({"trials": 0}, "trials must be", ""),
        ({"trials": 10}, "10 trials are too few", "at least"),
    ],
)
def test_bad_plans(options, said, hint):
    with pytest.raises(InputError, match=said) as refused:
        plan_of(subject_of(20), **options)
    assert hint in refused.value.hint


def test_importance_needs_a_target():
    mine = replace(subject_of(20), target=None)
    with pytest.raises(InputError, match="the column that the model predicts"):
        plan_of(mine, explainers=["importance"])
    assert plan_of(mine).left_out[0].startswith("importance needs")


def test_clusters_need_a_clustering():
    with pytest.raises(InputError, match="clusters needs a clustering") as refused:
        plan_of(subject_of(20), explainers=["clusters"])
    assert "--kmeans" in refused.value.hint
    assert plan_of(subject_of(20, clustering=2)).explainers[1] == "clusters"
    assert "clusters" not in plan_of(subject_of(20)).explainers


def test_what_a_pure_account_cannot_do_is_left_out():
    plan = plan_of(subject_of(20))
    assert plan.explainers == ("ale", "importance", "influence", "pdp", "performance")
    assert plan.attacks == ("membership", "table", "bounds")
    assert len(plan.left_out) == 2


def test_enough_trials_are_chosen_and_the_number_that_is_said_suffices():
    mine = subject_of(20)
    with pytest.raises(InputError) as refused:
        plan_of(mine, epsilons=[5.0], trials=50)
    needed = int(refused.value.hint.split()[2])
    assert plan_of(mine, epsilons=[5.0], trials=needed).trials == needed
    assert plan_of(mine, epsilons=[5.0], trials=None).trials == max(1000, needed)
    with pytest.raises(InputError):
        plan_of(mine, epsilons=[5.0], trials=needed - 1)


def test_too_few_rows_for_explained_records():
    mine = subject_of(30, ZCDP)
    with pytest.raises(InputError, match="at least 50 rows"):
        audits.run(mine, plan_of(mine, attacks=["reconstruction"]))
    report = audits.run(mine, replace(plan_of(mine, explainers=["marginals"]), cases=(), usual=True))
    assert report.explained == ()
    assert any("at least 50 rows" in what for what in report.left_out)


def test_nothing_attacked_says_so():
    mine = subject_of(60, ZCDP)
    report = audits.run(mine, plan_of(mine, attacks=["reconstruction"]))
    assert report.verdict == "No claim was attacked."


# Missing values that are kept -----------------------------------------------------------------------------------------


def test_a_project_whose_model_takes_missing_values_is_attacked_by_what_it_can_release():
    """No local explanations there, and a missing value is one of those that an attacker tries to tell apart."""
    domain = dpx.Domain({**DOMAIN, "age": dpx.Numeric(0, 100, integer=True, missing="nan")})
    frame = people(120).astype({"age": float})
    frame.loc[::5, "age"] = np.nan
    model = dpx.Model(lambda rows: np.where(rows["age"].isna(), 0.9, 0.1), output=(0, 1), features=["age", "sex"])
    budget = dpx.Budget(2, 1e-6)
    table = dpx.PrivateTable(
        frame, domain=domain, budget=budget, relation="replace-one", ledger=NoLedger(), name="people"
    )
    mine = audits.read(table, model, "sick")
    assert subject.candidates(mine)
    pair = subject.hidden_pair(mine, subject.candidates(mine)[0])
    assert "missing" in pair.values
    plan = plan_of(mine, keep_missing=["age"], trials=None)
    assert "sketch" not in plan.explainers
    assert "reconstruction" not in plan.attacks
    assert any("age may be missing" in words for words in plan.left_out)
    with pytest.raises(dpx.InputError, match="needs numbers, and age may be missing"):
        plan_of(mine, keep_missing=["age"], explainers=["local"])
