"""With a sampler that adds nothing, a comparison is the plain difference of two plain averages."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain import requests
from dpexplain.methods.compare.versions import VersionDifference
from examples import DOMAIN, score

STEP = 2.0**-18  # rounding of each row's difference, in units of its range
SEEN = dpx.Domain({**DOMAIN, "y": dpx.Categorical([0, 1])})
COLUMNS = list(DOMAIN)
RARE = 33.25  # an income of no synthetic row


def other(rows):
    return 0.9 - 0.5 * score(rows) + 0.3 * (rows["sex"] == "Male").to_numpy()


def failing(rows):
    return np.where(rows["income"] == RARE, np.nan, score(rows))


OLD = dpx.Model(score, output=(0, 1), features=COLUMNS, name="m", version="1")
BLIND = dpx.Model(lambda r: r["income"].to_numpy() / 100, output=(0, 1), features=["income"], name="b", version="1")
NEW = dpx.Model(other, output=(-0.5, 1), features=COLUMNS, name="m", version="2")
PROTECTIONS = [
    {"relation": "replace-one"},
    {"relation": "add-remove"},
    {"relation": "replace-one", "unit": dpx.Unit("person", 50)},
    {"relation": "add-remove", "unit": dpx.Unit("person", 50)},
]


@pytest.fixture
def seen(frame):
    return frame.assign(y=(np.random.default_rng(1).random(len(frame)) < score(frame)).astype(int))


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_a_curve_is_the_difference_of_two(make_table, frame, protection):
    table = make_table(frame, exact=True, **protection)
    asked = requests.PartialDependence(feature="age", smooth=False)
    curve = dpx.compare(table, [OLD, NEW], asked, epsilon=1)
    each = [[np.clip(f(frame.assign(age=a)), 0, 1).mean() for a in range(20, 30)] for f in (score, other)]
    np.testing.assert_allclose(curve.values, np.subtract(each[1], each[0]), atol=2 * STEP)
    assert curve.possible == (-1.5, 1.5)


def test_where_a_model_fails_it_says_the_middle_of_its_range(make_table, frame):
    broken = dpx.Model(failing, output=(0, 1), features=COLUMNS, name="m", version="3")
    asked, rare = requests.PartialDependence(feature="sex", smooth=False), frame.assign(income=frame["income"])
    rare.loc[::3, "income"] = RARE
    found = dpx.compare(make_table(rare, exact=True), [OLD, broken], asked, epsilon=1)
    rows = [rare.assign(sex=sex) for sex in ("Female", "Male")]
    expected = [(np.where(r["income"] == RARE, 0.5, score(r)) - score(r)).mean() for r in rows]
    np.testing.assert_allclose(found.values, expected, atol=2 * STEP)


def test_a_limit_cuts_each_row(make_table, frame):
    asked = requests.PartialDependence(feature="sex", smooth=False, rug=False)
    found = dpx.compare(make_table(frame, exact=True), [OLD, NEW], asked, limit=0.2, epsilon=1)
    rows = [frame.assign(sex=sex) for sex in ("Female", "Male")]
    expected = [np.clip(other(r) - score(r), -0.2, 0.2).mean() for r in rows]
    np.testing.assert_allclose(found.values, expected, atol=STEP)
    assert "count as this much" in found.caveat
    assert found.possible == (-0.2, 0.2)


@pytest.mark.parametrize("loss", ["squared", "absolute", "accuracy", "log"])
def test_importances_are_those_of_each_model(make_table, seen, loss):
    """The same groups of the same rows: each model alone, without a limit, and the difference."""
    two = dpx.Model(other, output=(0, 1), features=COLUMNS, name="m", version="2")
    asked = requests.PermutationImportance(target="y", positive=1, loss=loss, clip=float("inf"), repeats=1)
    table = make_table(seen, exact=True, domain=SEEN)
    found = dpx.compare(table, [OLD, two], asked, epsilon=1)
    options = {"positive": 1, "loss": loss, "clip": float("inf"), "repeats": 1, "epsilon": 1}
    alone = [dpx.permutation_importance(table, one, "y", **options) for one in (OLD, two)]
    assert found.candidates == alone[0].candidates
    unit = found.losses.width
    np.testing.assert_allclose(found.scores, alone[1].scores - alone[0].scores, atol=4 * STEP * unit)
    np.testing.assert_allclose(found.base, alone[1].base - alone[0].base, atol=4 * STEP * unit)
    assert np.abs(found.scores).max() > 0.01


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_rates_are_shares_of_rows(make_table, seen, protection):
    asked = requests.Performance(target="y", positive=1, groups=["sex", ("sex", "age")], threshold=0.45)
    table = make_table(seen, exact=True, domain=SEEN, **protection)
    found = dpx.compare(table, [OLD, NEW], asked, epsilon=1)
    values = dict(zip(found.to_frame()["rate"], found.values, strict=True))
    yes = [f(seen) >= 0.45 for f in (score, other)]
    for who, mask in (("everybody", seen["age"] > 0), ("sex = Male", seen["sex"] == "Male")):
        mask = mask.to_numpy()
        for rate, among, right in (
            ("positive rate", mask, np.ones(len(seen), dtype=bool)),
            ("true positive rate", mask & (seen["y"] == 1).to_numpy(), np.ones(len(seen), dtype=bool)),
            ("false positive rate", mask & (seen["y"] == 0).to_numpy(), np.ones(len(seen), dtype=bool)),
            ("accuracy", mask, (seen["y"] == 1).to_numpy()),
        ):
            each = [(y == right)[among].mean() for y in yes]
            assert values[f"{rate}, {who}"] == pytest.approx(each[1] - each[0], abs=1e-12)
    low, high = found.interval()
    assert ((low <= found.values) & (found.values <= high)).all()


def test_two_versions_of_a_table(make_table, frame):
    later = frame.iloc[:300]
    before = make_table(frame, exact=True, name="people", version="1")
    after = make_table(later, exact=True, name="people", version="2", separate_from=[])
    found = dpx.compare([before, after], OLD, requests.PartialDependence(feature="income", grid=5), epsilon=1)
    grid = np.linspace(0, 100, 5)
    expected = [score(later.assign(income=x)).mean() - score(frame.assign(income=x)).mean() for x in grid]
    np.testing.assert_allclose(found.values, expected, atol=4 * STEP)
    assert before.ledger.statement("people").spent.amount == 1  # half each, of people who may be in both
    dpx.verify(found, before.ledger)
    assert np.allclose(dpx.from_json(found.to_json()).values, found.values)


def versions_with_rates(make_table, seen, **options):
    """An earlier and a later table, of which the later one has fewer rows, and no young men."""
    later = seen[~((seen["sex"] == "Male") & (seen["age"] < 23))].iloc[20:]
    each = [("1", seen), ("2", later)]
    options = {"domain": SEEN, "name": "people", "separate_from": [], **options}
    asked = requests.Performance(target="y", positive=1, groups=["sex", ("sex", "age")], threshold=0.45)
    return [make_table(rows, version=version, **options) for version, rows in each], [seen, later], asked


def share_of(part, of):
    return np.mean(part[of]) if of.any() else np.nan


def plain_rates(rows, mask):
    """What a performance shows of a group, from the rows themselves."""
    rows = rows[mask]
    happened, yes, every = (rows["y"] == 1).to_numpy(), score(rows) >= 0.45, np.ones(len(rows), dtype=bool)
    return {
        "selection rate": share_of(yes, every),
        "true positive rate": share_of(yes, happened),
        "false positive rate": share_of(yes, ~happened),
        "precision": share_of(happened, yes),
        "base rate": share_of(happened, every),
        "accuracy": share_of(happened == yes, every),
    }


@pytest.mark.filterwarnings("ignore::dpexplain.errors.BudgetWarning")
@pytest.mark.parametrize("protection", PROTECTIONS)
def test_rates_of_two_versions_are_shares_of_the_rows_of_each(make_table, seen, protection):
    price = 2_000 if "unit" in protection else 40  # that every rate is determined
    tables, rows, asked = versions_with_rates(make_table, seen, exact=True, budget=dpx.Budget(price), **protection)
    found = dpx.compare(tables, OLD, asked, epsilon=price)
    values = dict(zip(found.to_frame()["where"], found.values, strict=True))
    for who in ("everybody", "sex = Female", "sex = Male"):
        each = [plain_rates(r, r["sex"] == who[6:] if who != "everybody" else r["age"] > 0) for r in rows]
        for rate in each[0]:
            assert values[f"{rate}, {who}"] == pytest.approx(each[1][rate] - each[0][rate], abs=1e-9)
        areas = [one.figure("auc", group=None if who == "everybody" else {"sex": who[6:]}) for one in parts_of(found)]
        assert values[f"AUC, {who}"] == pytest.approx(areas[1].value - areas[0].value)
    low, high = found.interval()
    assert ((low <= found.values) & (found.values <= high) & (low >= -1) & (high <= 1)).all()
    assert tables[0].ledger.statement("people").spent.amount == price  # half each, of people who may be in both
    assert dpx.verify(found, tables[0].ledger) == []
    again = dpx.from_json(found.to_json())
    assert np.array_equal(again.interval(0.9), found.interval(0.9))
    assert again.to_frame().equals(found.to_frame())
    with pytest.raises(dpx.InputError):
        dpx.from_json(found.to_json().replace('"task": "binary"', '"task": "classes"'))


def parts_of(found):
    return found.before, found.after


def test_a_group_that_is_not_determined_in_one_version_has_no_change(make_table, seen):
    """The later version has no young men, so any share of them may be anything that is possible."""
    tables, _, asked = versions_with_rates(make_table, seen, exact=True)
    found = dpx.compare(tables, OLD, asked, epsilon=8)
    lines = found.to_frame().set_index("where")
    young = [line for line in lines.index if "selection rate, " in line and "Male" in line and "= 20 to" in line]
    assert len(young) == 1
    group = next(cell for cell in found.after.cells_of(["sex", "age"]) if cell["sex"] == "Male")
    before, after = (one.figure("selection_rate", group=group) for one in parts_of(found))
    assert before.determined
    assert not after.determined
    known = lines["determined"]
    assert not known[young[0]]
    assert known["selection rate, everybody"]
    assert (lines["difference"].isna() == ~known).all()
    assert (lines["low"][young[0]], lines["high"][young[0]]) == (-before.high, 1 - before.low)
    assert found.doubt.startswith(f"{(~known).sum()} of {len(known)} changes are not determined")
    assert "Change of performance for y by sex" in str(found)
    assert "version 2 less version 1" in found._repr_html_()
    found.plot()


def test_rates_of_two_versions_promise_what_both_cost_and_are_paid_for_once(make_table, seen):
    """What was released of one version alone is a part of the comparison, and free."""
    tables, _, asked = versions_with_rates(make_table, seen, budget=dpx.Budget(1))
    options = {"groups": asked.groups, "positive": 1, "threshold": 0.45}
    first = dpx.performance(tables[0], OLD, "y", **options, epsilon=0.5)
    found = dpx.compare(tables, OLD, asked, epsilon=1)
    assert found.before.released == first.released
    assert dpx.compare(tables, OLD, asked, epsilon=1).values.tolist() == found.values.tolist()
    statement = tables[0].ledger.statement("people")
    assert statement.spent.amount == 1
    assert len(statement.rows) == 2
    assert f"beside epsilon = 0.5 (pure) for entry {first.receipt.entry.sequence}" in found.receipt.guarantee


@pytest.mark.parametrize("changed", [{"threshold": 0.5}, {"positive": 0}, {"groups": ["age"]}])
def test_only_rates_of_one_question_are_taken_from_each_other(make_table, seen, changed):
    tables, _, _ = versions_with_rates(make_table, seen)
    options = {"groups": ["sex"], "positive": 1, "threshold": 0.45, "epsilon": 0.5}
    first = dpx.performance(tables[0], OLD, "y", **options)
    second = dpx.performance(tables[1], OLD, "y", **{**options, **changed})
    with pytest.raises(dpx.errors.VerificationError, match="or of something else"):
        dpx.verify(VersionDifference(second.receipt, second.released, first, second), tables[0].ledger)


def versions_of(make_table, frame, **options):
    tables = [make_table(frame, name="people", version=one, separate_from=[], **options) for one in ("1", "2")]
    return tables, requests.PartialDependence(feature="income", grid=5, smooth=False)


def test_a_change_between_versions_promises_what_both_cost(make_table, frame):
    """A person may be in both, so that the price of one of them would be half of the truth."""
    tables, asked = versions_of(make_table, frame)
    found = dpx.compare(tables, OLD, asked, epsilon=1)
    for one in (found, dpx.from_json(found.to_json())):
        assert f"epsilon = 0.5 (pure), beside epsilon = 0.5 (pure) for entry {found.before.receipt.entry.sequence}" in (
            one.receipt.guarantee
        )
    half = json.loads(found.to_json())
    half["guarantee"] = found.after.receipt.guarantee
    with pytest.raises(dpx.errors.VerificationError, match="guarantee written in this file"):
        dpx.from_json(json.dumps(half))


def test_only_answers_to_one_question_are_taken_from_each_other(make_table, frame):
    (before, after), asked = versions_of(make_table, frame)
    other = requests.PartialDependence(feature="income", grid={"income": [0.0, 30.0, 60.0, 80.0, 100.0]}, smooth=False)
    first = dpx.partial_dependence(before, OLD, **asked.model_dump(), epsilon=1)
    wrong = dpx.partial_dependence(after, NEW, **asked.model_dump(), epsilon=1)
    moved = dpx.partial_dependence(after, OLD, **other.model_dump(), epsilon=1)
    for second in (wrong, moved):
        with pytest.raises(dpx.errors.VerificationError, match="or of something else"):
            dpx.verify(VersionDifference(second.receipt, second.released, first, second), before.ledger)


def test_a_change_that_was_released_is_free_also_when_nothing_is_left(make_table, frame):
    tables, asked = versions_of(make_table, frame, budget=dpx.Budget(1))
    found = dpx.compare(tables, OLD, asked, epsilon=1)
    assert dpx.compare(tables, OLD, asked, epsilon=1).values.tolist() == found.values.tolist()
    assert tables[0].ledger.statement("people").spent.amount == 1


def test_half_of_a_price_is_not_spent_where_an_analyst_cannot_pay_the_other_half(make_table, frame):
    tables, asked = versions_of(make_table, frame, analyst="ann")
    tables[0].ledger.set_limit("people", "ann", tables[0].cost(epsilon=0.5))
    with pytest.raises(dpx.BudgetError, match='both versions together cost .* for analyst "ann" is epsilon = 0.5'):
        dpx.compare(tables, OLD, asked, epsilon=0.8)
    assert tables[0].ledger.statement("people").spent.amount == 0


def test_the_plan_knows_both_models(make_table, frame):
    """The forecast of a curve is the interval that is printed: with both models at hand, and with their range alone."""
    table = make_table(frame, exact=True)
    asked = requests.PartialDependence(feature="age", smooth=False, rug=False)
    curve = dpx.compare(table, [OLD, NEW], asked, epsilon=1)
    told = dpx.plan(requests.Compare(request=asked), table=table, model=[OLD, NEW], epsilon=1)
    said = dpx.plan(requests.Compare(request=asked), table=table, output=(-0.5, 1), features=COLUMNS, epsilon=1)
    low, high = curve.proven_interval()
    for found in (told, said):
        assert found.options[0].error == pytest.approx((high - low).max() / 2, rel=1e-6)
    with pytest.raises(dpx.InputError, match="these are one model"):
        dpx.plan(requests.Compare(request=asked), table=table, model=[OLD, OLD], epsilon=1)
    with pytest.raises(dpx.InputError, match="model must be"):
        dpx.plan(asked, table=table, model=[OLD, NEW], epsilon=1)


@pytest.mark.parametrize(
    ("tables", "models", "request_", "said"),
    [
        (1, [OLD], requests.PartialDependence(feature="age"), "give two models"),
        (1, OLD, requests.PartialDependence(feature="age"), "give two models"),
        (1, [OLD, NEW], requests.Quantiles(feature="age", probs=[0.5]), "request must be"),
        (1, [OLD, NEW], requests.PartialDependence(feature="age", method="paper"), "no published form"),
        (1, [OLD, NEW], requests.Performance(target="y", cells=9), "cells has no meaning"),
        (2, [OLD, NEW], requests.PartialDependence(feature="age"), "compared by one model"),
        (2, OLD, requests.PartialDependence(feature=["age", "sex"]), "one curve at a time"),
        (2, BLIND, requests.Performance(target="age"), "something that happens or does not"),
        (2, BLIND, requests.Performance(target="paid"), "unknown feature 'paid'"),
        (2, BLIND, requests.Performance(target="sex", positive="Other"), "no category 'Other'"),
        (2, BLIND, requests.Performance(target="sex", positive="Male", groups=["race"]), "unknown feature 'race'"),
        (2, BLIND, requests.Performance(target="sex", positive="Male", threshold=1.5), "inside the range of scores"),
        (2, OLD, requests.Performance(target="sex", positive="Male"), "which is the target it is measured by"),
        (2, BLIND, requests.Performance(target="sex", positive="Male", score="income"), "score has no meaning"),
        (3, OLD, requests.PartialDependence(feature="age"), "two versions of a table"),
    ],
)
def test_what_is_wrong_costs_nothing(make_table, frame, tables, models, request_, said):
    table = make_table(frame, exact=True, name="people", version="1")
    other = make_table(frame, exact=True, name="people", version="2", separate_from=[])
    with pytest.raises(dpx.InputError, match=said):
        dpx.compare([table, other, table][:tables] if tables > 1 else table, models, request_, epsilon=1)
    assert table.ledger.statement("people").spent.amount == 0


def test_versions_are_of_one_account_and_are_paid_for_together(make_table, frame):
    table = make_table(frame, exact=True, name="people", version="1", budget=dpx.Budget(1))
    same = make_table(frame, exact=True, name="people", version="1", budget=dpx.Budget(1), separate_from=[])
    later = make_table(frame, exact=True, name="people", version="2", budget=dpx.Budget(1), separate_from=[])
    others = make_table(frame, exact=True, budget=dpx.Budget(1))
    fewer = dpx.Domain({"age": DOMAIN["age"], "sex": dpx.Categorical(["Female"]), "income": DOMAIN["income"]})
    options = {"name": "people", "budget": dpx.Budget(1), "separate_from": []}
    lacking = make_table(frame, exact=True, version="3", domain=fewer, **options)
    rates = requests.Performance(target="sex", positive="Female", groups=["age"])
    for asked in (requests.PartialDependence(feature="income"), rates):
        for pair, said in (
            ([table, same], "the same version"),
            ([table, others], "not two versions of one table"),
            ([table, lacking], "not two versions of one table|one declared class"),
        ):
            with pytest.raises(dpx.InputError, match=said):
                dpx.compare(pair, BLIND, asked, epsilon=1)
        with pytest.raises(dpx.BudgetError, match="both versions together cost"):
            dpx.compare([table, later], BLIND, asked, epsilon=1.5)
    assert table.ledger.statement("people").spent.amount == 0
