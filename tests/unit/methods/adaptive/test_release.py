"""A stream of explanations: what is reused, what is charged, and what happens when the budget ends or a query fails."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.core.budget import digits, zcdp
from dpexplain.core.release import Door
from dpexplain.maths.surrogate.fit import UNSETTLED
from dpexplain.methods.adaptive import release as adaptive
from dpexplain.methods.adaptive.release import AdaptiveExplainer
from dpexplain.methods.local_explanation import descent
from dpexplain.methods.result import from_json
from dpexplain.render.text import statement_entries, statement_json
from stubs import ZeroNoise

BUDGET = dpx.Budget(50, 1e-6)
SETTINGS = {"rho": 4, "per_query": 1, "iterations": 6, "reuse_distance": 0.1}


def record(age, income=50.0, sex="Male"):
    return {"age": age, "sex": sex, "income": income}


FAR = [record(20), record(29), record(25, 0.0), record(25, 100.0), record(22, 10.0, "Female")]


def spent(table):
    return table.ledger.statement(table.name).spent


@pytest.fixture
def table(make_table, frame):
    return make_table(frame, budget=BUDGET)


@pytest.fixture
def make(table, model):
    return lambda **options: AdaptiveExplainer(table, model, **{**SETTINGS, **options})


def test_a_computed_record_is_paid_for_and_a_near_one_is_free(make, table):
    explainer = make()
    first = explainer.explain(record(25))
    paid = spent(table)
    assert paid == explainer.spent == explainer.history[0].cost == first.receipt.charged
    assert first.receipt.cost == explainer.per_query  # the price does not depend on answers
    again, near = explainer.explain(record(25)), explainer.explain(record(25, 55.0))
    assert spent(table) == paid
    assert [query.how for query in explainer.history] == ["computed", "reused", "reused"]
    assert [query.source for query in explainer.history] == [None, 1, 1]
    assert explainer.history[2].distance == pytest.approx(0.05)
    np.testing.assert_array_equal(near.fit.coefficients, first.fit.coefficients)
    np.testing.assert_array_equal(again.values, first.values)
    assert near.record["income"] == 55.0
    assert "the explanation of query 1, 0.05 away" in near.fit.notes[0]
    assert first.fit.notes == (UNSETTLED,)


def test_the_price_is_what_was_reserved_wherever_it_is_stated(make, table):
    """What was counted depends on answers, so it stands beside the price and never instead of it."""
    explainer = make()
    explainer.explain(FAR[0])
    answer = explainer.explain(FAR[1])
    receipt, price = answer.receipt, table.budget.describe(explainer.per_query)
    counted = table.budget.describe(receipt.charged)
    assert receipt.charged.amount < receipt.cost.amount
    assert f"private with {price}, for" in receipt.guarantee
    assert price in receipt.short_guarantee
    assert counted not in receipt.guarantee + receipt.short_guarantee
    assert receipt.price == f"{price}; counted against the account: {counted}"
    for words in (str(answer), answer._repr_html_()):
        assert "counted against the account" in " ".join(words.split())
    line = statement_entries(table.ledger.statement(table.name))[1][-1]
    assert f"rho {digits(receipt.cost.amount)}" in line[-2]
    assert f"released, counted: epsilon {digits(Fraction(table.budget.epsilon_of(receipt.charged)))}" in line[-1]
    entry = statement_json(table.ledger.statement(table.name))["entries"][-1]
    assert (entry["cost"], entry["charged"]) == (receipt.cost.to_json(), receipt.charged.to_json())


def test_files_that_state_what_was_counted_are_read(make, table):
    """Earlier versions wrote them. What they said before is not what they say now."""
    explainer = make()
    explainer.explain(FAR[0])
    answer = explainer.explain(FAR[1])
    document = json.loads(answer.to_json())
    document["guarantee"] = answer.receipt._promise(answer.receipt.charged)
    assert document["guarantee"] != answer.receipt.guarantee
    document["receipt"]["entry"]["committed_at"] += "T10:00:00.000000+00:00"  # as only earlier versions wrote it
    assert from_json(json.dumps(document)).receipt.guarantee == answer.receipt.guarantee
    history = json.loads(explainer.non_interactive().explain(FAR[2]).to_json())
    del history["receipt"]["request"]["cost"]  # which answers from a history did not have
    with pytest.raises(dpx.errors.VerificationError, match="guarantee"):
        from_json(json.dumps(history))
    history["guarantee"] = history["guarantee"].replace(
        table.budget.describe(explainer.total), table.budget.describe(explainer.spent)
    )
    assert from_json(json.dumps(history)).receipt.cost == explainer.spent


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (("request", "cost", "amount"), "1/1000000"),
        (("entry", "charged", "amount"), "100/1"),
        (("request", "cost", "definition"), "pure"),
    ],
)
def test_a_receipt_that_counts_more_than_its_price_is_refused(make, part, said):
    document = json.loads(make().explain(FAR[0]).to_json())
    place = document["receipt"]
    for name in part[:-1]:
        place = place[name]
    place[part[-1]] = said
    with pytest.raises(dpx.errors.VerificationError, match="receipt"):
        from_json(json.dumps(document))


def test_only_what_was_computed_is_reused(make):
    """The flag of Algorithm 3: from one borrowed explanation to the next, errors would add up."""
    explainer = make(reuse_distance=0.1)
    for income in (50.0, 58.0, 66.0):
        explainer.explain(record(25, income))
    assert [query.how for query in explainer.history] == ["computed", "reused", "computed"]


def test_charges_are_those_of_the_ledger_and_stay_below_the_total(make, table):
    explainer = make(per_query=Fraction(3, 2))
    for point in FAR:
        explainer.explain(point)
        assert explainer.spent == spent(table)
        assert explainer.spent <= explainer.total
        assert explainer.left == explainer.total - explainer.spent
    frame = explainer.to_frame()
    assert frame["number"].tolist() == [1, 2, 3, 4, 5]
    assert frame["rho"].sum() == pytest.approx(float(explainer.spent.amount))
    assert (frame["iterations"] > 0).tolist() == (frame["how"] == "computed").tolist()
    assert frame["beta"].isna().tolist()[:2] == [True, False]
    assert "queries" in repr(explainer)


def test_a_query_costs_what_it_used(make):
    """T of T + 2 steps without a history; afterwards choice, beta and T' steps of the price that beta allows."""
    explainer = make()
    for point in FAR[:3]:
        explainer.explain(point)
    first, second, third = explainer.history
    assert first.cost == explainer.per_query * (Fraction(1, 20) + Fraction(19, 20) * Fraction(6, 8))
    assert set(second.attribution.released["parts"]) >= {"beta", "gradient-1"}
    assert "choice" not in second.attribution.released["parts"]  # among one
    assert set(third.attribution.released["parts"]) >= {"choice", "beta", "gradient-1"}
    for query, before in ((second, 1), (third, 2)):
        parts = query.attribution.released["parts"]
        steps = sum(Fraction(parts[f"gradient-{i}"]["cost"]["amount"]) for i in range(1, query.iterations + 1))
        assert query.cost.amount == Fraction(1, 20) + Fraction(19, 20) * Fraction(before, 8) + steps
        assert query.cost <= explainer.per_query
    assert third.source in (1, 2)


@pytest.mark.parametrize(
    "protection",
    [{"relation": "add-remove"}, {"relation": "add-remove", "unit": dpx.Unit("person", 2)}, {"rows_hint": 400}],
    ids=str,
)
def test_the_parts_are_those_of_the_diagram(make_table, frame, model, protection):
    table = make_table(frame, budget=BUDGET, **protection)
    explainer = AdaptiveExplainer(table, model, **SETTINGS)
    for point in FAR[:3]:
        explainer.explain(point)
    parts = {name.split("-")[0] for query in explainer.history for name in query.attribution.released["parts"]}
    flow = adaptive.diagram()
    assert parts == flow.noised - (set() if table.rows_hint is None else {"count"})
    assert flow.noised in flow.privacy_enabling_sets()
    assert explainer.spent == spent(table)


def test_the_end_of_the_total_goes_on_from_the_history_and_says_so(make, table):
    explainer = make(rho=Fraction(5, 4))
    answers = [explainer.explain(point) for point in FAR]
    assert [query.how for query in explainer.history][-1] == "from the history"
    assert explainer.exhausted
    assert "exhausted" in repr(explainer)
    assert answers[-1].fit.notes[0] == "the budget of this explainer is exhausted"
    assert "earlier explanations" in answers[-1].fit.notes[1]
    assert explainer.spent == spent(table) <= explainer.total
    # an answer from the history stands on all of it
    assert (answers[-1].receipt.cost, answers[-1].receipt.charged) == (explainer.total, explainer.spent)
    low, high = answers[-1].interval()
    assert (low <= answers[-1].values).all()
    assert (high > low).any()
    assert explainer.explain(FAR[0]) is not None
    assert explainer.history[-1].how == "reused"  # what is known well stays free


def test_the_end_of_the_account_does_too(make_table, frame, model):
    table = make_table(frame, budget=dpx.Budget(2, 1e-6))
    rest = table.budget.total.amount
    settings = {"rho": rest, "per_query": rest / 2, "iterations": 6, "reuse_distance": 0.1}
    one, two, three = (AdaptiveExplainer(table, model, **settings) for _ in range(3))
    one.explain(FAR[0])  # takes 6 of 8 steps, so 5/8 of the account are left
    two.explain(FAR[1])
    assert not one.exhausted
    one.explain(FAR[2])
    assert one.history[-1].how == "from the history"
    assert one.exhausted  # although its own total would do
    with pytest.raises(dpx.BudgetError, match="its history is empty"):
        three.explain(FAR[3])
    assert three.exhausted
    assert three.spent.amount == 0
    assert spent(table) == one.spent + two.spent


def test_two_explainers_share_the_account_and_each_has_its_total(make, table):
    one, other = make(rho=2), make(rho=2, iterations=7)
    one.explain(FAR[0])
    other.explain(FAR[0])
    assert one.spent + other.spent == spent(table)
    assert other.history[0].how == "computed"


def test_a_crash_inside_a_query_keeps_its_price_spent(make, table, monkeypatch):
    explainer = make()
    explainer.explain(FAR[0])
    before, walk = spent(table), descent.walk

    def crash(*_):
        raise ValueError("a row of a person")

    monkeypatch.setattr(descent, "walk", crash)
    with pytest.raises(dpx.ReleaseLost) as lost:
        explainer.explain(FAR[1])
    assert "person" not in str(lost.value)
    assert explainer.spent == spent(table) == before + explainer.per_query
    assert len(explainer.history) == 1
    monkeypatch.setattr(descent, "walk", walk)
    explainer.explain(FAR[1])
    assert explainer.spent == spent(table)


def test_after_a_restart_the_same_queries_are_replayed_free(make, table):
    one = make()
    first = [one.explain(point) for point in FAR[:3]]
    paid, other = spent(table), make()
    again = [other.explain(point) for point in FAR[:3]]
    assert spent(table) == paid == one.spent == other.spent
    assert all(answer.receipt.replayed for answer in again)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.values, b.values)
    assert one.to_frame().equals(other.to_frame())


class Deaf(ZeroNoise):
    """Every released vector is the same, whatever the rows are."""

    def perturb(self, values, noise, sensitivity, cost):
        return [10**6 * (i + 1) for i in range(len(values))]

    def choose(self, scores, selection, change, cost):
        return [1]


def test_steps_prices_and_starts_depend_on_released_values_alone(make_table, frame, model):
    """Two very different tables whose released values are the same cannot be told apart by anything else."""
    records = []
    for rows in (frame, frame.iloc[:40].assign(income=0.0, age=20)):
        table = make_table(rows, budget=BUDGET, relation="add-remove")
        table.door = Door(table.door.account, sampler=Deaf())
        explainer = AdaptiveExplainer(table, model, **SETTINGS)
        for point in FAR[:4]:
            explainer.explain(point)
        records.append(explainer.to_frame())
    assert records[0].equals(records[1])
    assert records[0]["iterations"].iloc[1] < 6  # and it did matter


@pytest.mark.parametrize("enhanced", [False, True])
@pytest.mark.parametrize("part", [0.001, 0.02, 0.2, 0.3, 0.7, 1.0])
def test_steps_and_noise_are_those_of_algorithm_2(make, enhanced, part):
    T, rows = 300, 1000
    explainer = make(iterations=T, enhanced=enhanced)
    local, _ = explainer.look(FAR[0], explainer._predictor)
    spec = adaptive.spec_of(explainer.request, local, rows)
    slope, n = spec.path, spec.path.size
    longest = slope.steepest * slope.unit * rows
    sigma_min = 0.01 * longest / math.sqrt(n)
    steps, share = adaptive.economy(spec, int(part * longest), sigma_min, rows)
    sigma = max(part / math.sqrt(n), 0.01 / math.sqrt(n))  # line 8, gradients of length 1
    small = part if enhanced else math.sqrt(n) * sigma
    a = math.log(1 / small) / math.log(math.log(T)) if small < 1 else 0.0
    expected = small ** (1 - 1 / (2 * a)) * T if a > 1 / 2 else T
    assert steps == pytest.approx(max(2, math.ceil(expected)), abs=1)
    assert float(share) == pytest.approx((0.01 / math.sqrt(n) / sigma) ** 2, rel=1e-5)
    assert share <= 1


def test_a_beta_beyond_all_bounds_is_brought_back(make):
    explainer = make(iterations=9)
    local, _ = explainer.look(FAR[0], explainer._predictor)
    spec = adaptive.spec_of(explainer.request, local, 100)
    assert adaptive.economy(spec, 10**30, 1e3, 100)[0] == 9
    assert adaptive.economy(spec, -(10**30), 1e3, 100) == (2, Fraction(1))


@pytest.mark.parametrize("anchor", ["middle", "prediction", 0.3])
def test_anchors(make, anchor):
    explainer = make(anchor=anchor, rho=2)
    first = explainer.explain(record(24, 20.0))
    near = explainer.explain(record(24, 25.0))
    told = {"middle": (0.5, 0.5), "prediction": (0.26 + 0.06, 0.26 + 0.075), 0.3: (0.3, 0.3)}[anchor]
    assert (first.fit.value, near.fit.value) == pytest.approx(told)
    last = explainer.non_interactive().explain(record(28, 90.0))
    assert last.fit.value == pytest.approx({"middle": 0.5, "prediction": 0.42 + 0.27, 0.3: 0.3}[anchor])


def test_every_kind_of_answer_can_be_written_and_read(make):
    explainer = make(rho=Fraction(5, 4))
    for point in [*FAR[:2], record(20, 51.0), *FAR[2:]]:
        explainer.explain(point)
    assert {query.how for query in explainer.history} == {"computed", "reused", "from the history"}
    for query in explainer.history:
        again = from_json(query.attribution.to_json())
        np.testing.assert_allclose(again.values, query.attribution.values)
        np.testing.assert_allclose(again.interval()[1], query.attribution.interval()[1])
        assert again.fit.notes == query.attribution.fit.notes
        assert query.attribution.receipt.guarantee == again.receipt.guarantee
    assert "the records that are explained" in explainer.history[0].attribution.receipt.guarantee


def test_what_a_path_began_with_cannot_be_exchanged(make):
    explainer = make()
    explainer.explain(FAR[0])
    answer = explainer.explain(FAR[1])
    start = answer.settings.start
    altered = answer.to_json().replace(f'"start": [\n   {start[0]}', f'"start": [\n   {start[0] + 1}')
    assert altered != answer.to_json()
    with pytest.raises(dpx.InputError, match="damaged"):
        from_json(altered)


def test_computed_answers_are_verified_and_answers_from_the_history_are_not(make, table):
    explainer = make()
    computed = [explainer.explain(point) for point in FAR[:2]]
    for answer in computed:
        dpx.verify(answer, table.ledger)
    with pytest.raises(dpx.errors.VerificationError):
        dpx.verify(explainer.non_interactive().explain(FAR[3]), table.ledger)


def test_answers_from_the_history_touch_neither_table_nor_ledger(make, table, monkeypatch):
    explainer = make()
    for point in FAR[:3]:
        explainer.explain(point)
    paid = spent(table)
    free = explainer.non_interactive()
    monkeypatch.setattr(table, "door", None)
    answers = [free.explain(record(age, 30.0)) for age in range(20, 30)]
    assert len({tuple(answer.values) for answer in answers}) == 10
    assert spent(table) == paid
    assert len(explainer.history) == 3


@pytest.mark.parametrize("version", [None, "1"])
def test_a_history_does_not_answer_for_a_model_that_was_fitted_anew(table, version):
    weights = [1.0]
    model = dpx.Model(lambda rows: weights[0] * rows["income"].to_numpy() / 100, output=(0, 1), version=version)
    explainer = AdaptiveExplainer(table, model, **SETTINGS)
    explainer.explain(FAR[0])
    free, paid = explainer.non_interactive(), spent(table)
    weights[0] = 0.5
    with pytest.raises(dpx.errors.ModelError, match="fitted anew") as error:
        free.explain(FAR[0])
    assert "new AdaptiveExplainer" in error.value.hint
    for point in FAR[:2]:  # one that would be reused, one that would be computed
        with pytest.raises(dpx.errors.ModelError, match="fitted anew" if version is None else "gives other answers"):
            explainer.explain(point)
    assert spent(table) == paid
    assert len(explainer.history) == 1
    if version is None:
        assert not AdaptiveExplainer(table, model, **SETTINGS).explain(FAR[0]).receipt.replayed


def test_refused_before_anything_is_paid(make_table, make, frame, model, table):
    pure = make_table(frame)
    with pytest.raises(dpx.InputError, match="needs an account with a delta"):
        AdaptiveExplainer(pure, model, epsilon=1, per_query=0.1)
    for options, message in [
        ({"per_query": 5}, "more than the total"),
        ({"per_query": -1}, "rho must be"),
        ({"iterations": 1}, "iterations must be"),
        ({"rho": None, "epsilon": None}, "exactly one of"),
    ]:
        with pytest.raises(dpx.InputError, match=message):
            make(**options)
    explainer = make()
    for bad, message in [
        ({"age": 25, "sex": "Male"}, "no value for 'income'"),
        (record(99), "outside the declared range"),
        (record(float("inf")), "not a finite number"),
        (record(25, sex="Robot"), "not a declared category"),
        ([25, "Male"], "2 values; 3 are needed"),
    ]:
        with pytest.raises(dpx.InputError, match=message):
            explainer.explain(bad)
    with pytest.raises(dpx.InputError, match="no history"):
        explainer.non_interactive()
    tiny = make(rho=Fraction(1, 10**18), per_query=Fraction(1, 10**18))
    with pytest.raises(dpx.InputError, match="drown"):
        tiny.explain(FAR[0])
    assert (tiny.spent.amount, spent(table).amount) == (0, 0)
    explainer.explain(FAR[0])
    with pytest.raises(dpx.InputError, match="unknown labels"):
        explainer.non_interactive(labels="guess")


def test_the_default_distance_and_prices_in_epsilon(table, model):
    explainer = AdaptiveExplainer(table, model, epsilon=2, per_query=0.5)
    assert explainer.reuse_distance == pytest.approx(math.log(300) / math.sqrt(300))
    assert table.budget.epsilon_of(explainer.total) == pytest.approx(2, rel=1e-6)
    assert table.budget.epsilon_of(explainer.per_query) == pytest.approx(0.5, rel=1e-6)
    assert explainer.per_query.definition == zcdp(1).definition


def test_threads_do_not_overrun_the_total(make):
    """Six at once, and money for one: one is computed, the others are answered without the table."""
    from concurrent.futures import ThreadPoolExecutor

    explainer = make(rho=0.01, per_query=0.01, reuse_distance=1e-9)
    records = [{"age": 20.0 + i, "sex": "Male", "income": 40.0} for i in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(explainer.explain, records))
    assert explainer.spent <= explainer.total
    assert [query.how for query in explainer.history].count("computed") <= 1


# As published --------------------------------------------------------------------------------------------------------


def test_all_history_may_be_the_start(make):
    """A path begins at the best of all computed explanations, not only at one that is near."""
    for candidates, offered in ((1, 1), (3, 3), (None, 4)):
        explainer = make(candidates=candidates, rho=12)
        for one in FAR:
            explainer.explain(one)
        assert len(explainer.history[-1].attribution.spec.candidates) == offered
    with pytest.raises(dpx.InputError, match="candidates must be"):
        make(candidates=0)


def test_the_noise_of_the_paper_is_larger_and_the_price_the_same(make, table):
    ours, paper = make(), make(accounting="paper")
    for explainer in (ours, paper):
        explainer.explain(record(25))
    one, two = (explainer.history[0] for explainer in (ours, paper))
    scales = [query.attribution.released["parts"]["gradient-1"]["noise"]["scale"] for query in (one, two)]
    assert float(Fraction(scales[1])) > 2 * float(Fraction(scales[0]))
    assert two.attribution.receipt.cost == one.attribution.receipt.cost
    assert two.cost.amount < one.cost.amount  # what the larger noise does not need is given back
    bound = two.attribution.spec.path.bound(table.neighbours)
    epsilon, delta, T = BUDGET.epsilon_of(paper.per_query), 1e-6, 6
    prescribed = bound * math.sqrt(16 * T * math.log(math.e + math.sqrt(T) * epsilon / delta) * math.log(T / delta))
    assert float(Fraction(scales[1])) == pytest.approx(prescribed / epsilon, rel=1e-3)


def test_the_published_form_by_one_word(make):
    explainer = make(method="paper", rho=12)
    assert explainer.request == adaptive.AdaptiveExplanation(
        record=None, iterations=6, reuse_distance=0.1, candidates=None, accounting="paper", anchor="middle"
    )
    first = explainer.explain(FAR[0])
    explainer.explain(FAR[1])
    assert first.spec.path.accounting == "paper"
    assert from_json(first.to_json()).values == pytest.approx(first.values)
    labels = explainer.non_interactive().explain(record(27)).receipt.request["spec"]["labels"]
    assert labels == "paper"


def test_the_loss_of_a_query_is_bounded(make):
    """Theorem 3.2 with its constants; of so few steps it says nothing, and that is what it says."""
    explainer = make()
    explainer.explain(record(25))
    query = explainer.history[0]
    path = query.attribution.spec.path
    assert query.loss_bound == pytest.approx(
        5 * path.radius**2 / path.rate(0) * (2 + math.log(query.iterations)) / math.sqrt(query.iterations), rel=0.2
    )
    assert query.loss_bound > path.largest_loss
    explainer.explain(record(25))
    assert explainer.history[1].loss_bound is None
