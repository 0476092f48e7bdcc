"""Batches: what is refused, what is charged, how rows are read, and that results are those of single releases."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.core.budget import Cost, Definition, pure
from dpexplain.core.release import Gate
from dpexplain.core.sensitivity import Relation, Sensitivity
from dpexplain.errors import BudgetError, InputError, InternalError, ReleaseLost, VerificationError
from dpexplain.methods.batches import division as dividing
from dpexplain.methods.batches.division import Question, Shared, divide
from dpexplain.methods.batches.gates import PartGate
from dpexplain.methods.batches.part import Part
from dpexplain.methods.batches.release import Parts, costs_of, plan_batch, question_of, release_batch
from dpexplain.models.predictor import remembering
from dpexplain.receipts import filled, part_of, placeholder
from stubs import PURE, REPLACE_ONE, exact_door

R = dpx.requests
ZCDP = dpx.Budget(10, 1e-6)
CURVES = [R.PartialDependence(feature="age"), R.PartialDependence(feature=["sex", "income"])]
IMPORTANCE = R.PermutationImportance(target="income", loss="absolute")


def risk(rows):
    return (rows["age"].to_numpy() - 20) / 20 + 0.25 * (rows["sex"] == "Male").to_numpy()


@pytest.fixture
def three():
    return dpx.Model(risk, output=(0.0, 1.0), name="risk", version="1", features=["age", "sex"])


def spent(table) -> Fraction:
    return table.ledger.statement(table.name).spent.amount


# Results ----------------------------------------------------------------------------------------------------------


def alone(table, part: Part, known):
    """What the same method releases by itself for the part's price."""
    answer = part.method.load(part.method.explain)(table, part.subject, part.request, cost=part.cost, **known)
    return answer[0] if getattr(part.request, "single", False) else answer


EVERY = [
    *CURVES, R.AccumulatedEffects(feature="age"), IMPORTANCE, R.Influence(quantity="average"),
    R.Quantiles(feature="income", probs=[0.5]), R.Performance(target="sex", positive="Male"),
]  # fmt: skip


FEW = [CURVES[0], R.AccumulatedEffects(feature="age"), R.Quantiles(feature="income", probs=[0.5])]
LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("relation", "requests"),
    [
        ("replace-one", FEW),
        pytest.param("replace-one", EVERY, marks=LONG),
        # where the number of rows is private, importance has secret draws of its own
        pytest.param("add-remove", [one for one in EVERY if one is not IMPORTANCE], marks=LONG),
    ],
    ids=["few", "every", "add-remove"],
)
def test_a_batch_releases_what_its_parts_would_release_alone(make_table, frame, three, relation, requests):
    options = {"relation": relation, "budget": dpx.Budget(100), "rows_hint": 400}
    table, other = (make_table(frame, exact=True, **options) for _ in range(2))
    found = dpx.batch(table, three, requests, epsilon=8)
    question, forecast = plan_batch(requests, other, three, epsilon=8)
    parts, results = Parts.of(question, forecast.division), []
    for part, _ in parts.every:
        known = dividing.known_of(part, results)
        results.append(alone(other, part, known))
    assert found.forecast == forecast
    for mine, theirs in zip([*found.shared, *found], results, strict=True):
        assert _released(mine) == _released(theirs)
        assert _released(mine)["parts"]
        if isinstance(mine, dpx.results.Curve):
            np.testing.assert_allclose(mine.values, theirs.values)
    assert spent(table) == 8


def _released(answer):
    return answer.released if hasattr(answer, "released") else answer[0].released


def test_requests_share_their_passes(make_table, frame, three, monkeypatch):
    table, read = make_table(frame, exact=True), []
    first = table.engine

    class Counting:
        def sum_rows(self, reading, kernel, *what, **how):
            read.append((reading.columns, how["size"]))
            return first.sum_rows(reading, kernel, *what, **how)

        sum_groups, ships, gathers = first.sum_groups, first.ships, first.gathers

    table.engine = Counting()
    asked = []
    original = dpx.Model(lambda rows: asked.append(len(rows)) or np.full(len(rows), 0.5), output=(0.0, 1.0),
                         name="counting", version="1", features=["age", "sex"])  # fmt: skip
    dpx.batch(table, original, [R.PartialDependence(feature=one, rug=False) for one in ("age", "sex")], epsilon=1)
    several = [size for columns, size in read if set(columns) == {"age", "sex"}]
    assert several == [10 + 2]  # one pass for both curves, all their sums side by side
    assert len(read) <= 2  # and one for what they share, if it is worth it


def test_a_model_is_asked_once_about_the_same_rows(three, frame, domain):
    from dpexplain.data.public_random import PublicRandom

    asked = []

    def counting(rows):
        asked.append(1)
        return np.asarray(rows["age"]) / 100

    predictor = dpx.Model(counting, output=(0.0, 1.0), name="m", version="1").checked(domain)
    rows, other = PublicRandom(1).rows(domain, 20), PublicRandom(2).rows(domain, 20)
    asked.clear()
    with remembering():
        for fixed in ({}, {"sex": 0}, {"sex": 0.0}, {"unknown": 3}):
            answers = predictor.predict_at(predictor.inputs(rows), fixed)
            answers += 1e9  # whoever writes into an answer writes into a copy
        assert len(asked) == 2
        np.testing.assert_array_equal(predictor.predict_at(predictor.inputs(rows), {}), rows["age"] / 100)
        predictor.predict_at(predictor.inputs(rows), {"sex": np.zeros(20)})  # other values for each row: not remembered
        predictor.predict_at(predictor.inputs(other), {})
        assert len(asked) == 4
    predictor.predict_at(predictor.inputs(rows), {})
    assert len(asked) == 5


def test_results_have_receipts_that_verify(make_table, frame, three, tmp_path):
    table = make_table(frame, budget=ZCDP)
    found = dpx.batch(table, three, [R.StandIn(), *CURVES, R.AccumulatedEffects(feature="age")], epsilon=2)
    paths = found.to_json(tmp_path)
    assert len(paths) == 5
    for path in paths:
        result = dpx.from_json(path)
        assert dpx.verify(result, table.ledger, three) == []
        assert result.receipt.place == (table.name, found.receipt.entry.sequence, result.receipt.batch.number)
    curve = found[1]
    part, total = (found.receipt.budget.describe(receipt.cost) for receipt in (curve.receipt, found.receipt))
    assert f"with {part}, beside" in curve.receipt.guarantee
    assert f"All 4 parts of this batch together: {total}." in curve.receipt.guarantee
    (before,) = found[3].receipt.request["builds_on"]
    assert (before["entry"], before["payload"]) == (found.receipt.entry.sequence, found[0].receipt.entry.payload_hash)
    assert found.posterior.stand_in is found.stand_in is found[0]
    assert found.marginals is not None
    assert found["partial dependence of age"] is curve is found[CURVES[0]]
    with pytest.raises(KeyError):
        found["partial dependence of weight"]
    by_hand = dpx.posterior(found.stand_in, three, found.results[1:])
    np.testing.assert_array_equal(by_hand.weights, found.posterior.weights)


def test_a_forged_part_is_noticed(make_table, frame, three):
    table = make_table(frame, budget=ZCDP)
    wanted = [R.StandIn(), R.AccumulatedEffects(feature="age", smooth=False), CURVES[1]]
    found = dpx.batch(table, three, wanted, epsilon=2)
    text = found[1].to_json()

    def forged(change):
        document = json.loads(text)
        change(document)
        try:
            result = dpx.from_json(json.dumps(document))
        except (InputError, VerificationError):
            return
        with pytest.raises(VerificationError):
            dpx.verify(result, table.ledger)

    dpx.verify(dpx.from_json(text), table.ledger)

    def another_request(document):
        document["receipt"]["request"]["spec"]["clip"] = 0.5

    def another_number(document):
        document["receipt"]["batch"]["number"] = 2

    def another_batch(document):
        document["receipt"]["batch"]["request"]["spec"]["parts"] = 7

    def another_share(document):
        document["receipt"]["request"]["cost"] = Cost(Definition.ZCDP, Fraction(1, 10**6)).to_json()

    def another_label(document):
        document["receipt"]["label"] = "something else"

    def another_value(document):
        document["released"]["parts"]["effects"]["values"][0] += 1

    def no_batch(document):
        del document["receipt"]["batch"]

    for change in (
        another_request,
        another_number,
        another_batch,
        another_share,
        another_label,
        another_value,
        no_batch,
    ):
        forged(change)
    with pytest.raises(VerificationError):
        dpx.verify(found[1], dpx.open_ledger("sqlite:///:memory:"))


def test_the_same_batch_again_is_free(make_table, frame, three):
    table = make_table(frame, budget=ZCDP)
    one = dpx.batch(table, three, CURVES, epsilon=1)
    two = dpx.batch(table, three, CURVES, epsilon=1)
    assert (one.receipt.replayed, two.receipt.replayed) == (False, True)
    assert all(result.receipt.replayed for result in two.results)
    assert json.loads(one[0].to_json()) == json.loads(two[0].to_json())
    assert not dpx.batch(table, three, CURVES[::-1], epsilon=1).receipt.replayed  # a batch is its own request
    assert [row.status for row in table.ledger.statement(table.name).rows] == ["released"] * 2


def test_placeholders_are_filled_in():
    entry, hashed = placeholder(0)
    request = {
        "builds_on": [{"entry": entry, "payload": hashed, "seed": entry}],
        "spec": {"marginals": hashed, "x": -1},
    }
    assert filled(request, 7, ["a", "b"]) == {
        "builds_on": [{"entry": 7, "payload": "a", "seed": -1}], "spec": {"marginals": "a", "x": -1},
    }  # fmt: skip
    asked = {"record": {"entry": -1, "payload": 0.5}, "cells": {"entry": [-1]}, "entry": {"payload": hashed}}
    assert filled(asked, 7, ["a"]) == {**asked, "entry": {"payload": "a"}}  # a column may be called "entry"
    values = {"parts": {"1/sum": 1, "11/sum": 2, "1/count": 3}}
    assert part_of(values, 1) == {"parts": {"sum": 1, "count": 3}}


def test_a_column_may_be_called_as_a_field_of_the_ledger(make_table, frame):
    domain = dpx.Domain({"entry": dpx.Numeric(-5, 5, integer=True), "income": dpx.Numeric(0, 100)})
    rows = frame.assign(entry=frame["age"] % 11 - 5)[["entry", "income"]]
    table = make_table(rows, domain=domain, budget=ZCDP)
    model = dpx.Model(lambda at: (at["entry"].to_numpy() + 5) / 10, output=(0, 1), name="m", features=["entry"])
    asked = R.LocalExplanation(record={"entry": -1, "income": 50.0})  # -1 stands for the entry in placeholders
    found = dpx.batch(table, model, [asked, R.Quantiles(feature="income", probs=[0.5])], epsilon=8)
    assert dpx.verify(found[0], table.ledger) == []


def test_k_means_never_begins_where_a_stand_in_of_the_same_batch_says(make_table, frame, three):
    """On every even table these three centres are the three values, so that a rehearsal alone does not tell."""
    domain = dpx.Domain({"age": dpx.Numeric(0, 2, integer=True), "sex": dpx.Categorical(["Female", "Male"])})
    table = make_table(frame.assign(age=0)[["age", "sex"]], domain=domain)
    found = dpx.batch(table, three, [R.KMeans(k=3, features=["age"]), R.StandIn(grade="marginals")], epsilon=10)
    assert [row.status for row in table.ledger.statement(table.name).rows] == ["released"]
    assert "builds_on" not in found[0].receipt.request


# Prices -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [dpx.Budget(10), ZCDP])
def test_prices_of_parts_add_up_to_the_total_exactly(make_table, frame, three, budget):
    table = make_table(frame, budget=budget)
    total = table.cost(epsilon=Fraction(7, 9))
    question = question_of(table, three, FEW)
    for shared in question.candidates():
        found = dividing._divided(question, shared, total, [1.0] * len(FEW))
        assert found is not None
        assert sum(cost.amount for cost in costs_of(found[1])) == total.amount
    batch = dpx.batch(table, three, FEW, epsilon=Fraction(7, 9))
    written = [Cost.from_json(one["request"]["cost"]) for one in batch.receipt.request["requests"]]
    assert sum(cost.amount for cost in written) == total.amount
    assert spent(table) == total.amount


def test_a_part_can_spend_no_more_than_its_price():
    """Nor all of them together more than was reserved: the gate of the batch counts too."""
    bound = Sensitivity.of_boxes([(0, 10)], REPLACE_ONE)
    door, heard = exact_door(PURE, Relation.REPLACE_ONE), []

    def body(gate: Gate) -> None:
        one, two = PartGate(gate, 0, pure(Fraction(1, 4)), print), PartGate(gate, 1, pure(1), print)
        with pytest.raises(InternalError, match="released nothing"):
            one.sent()
        one.noisy_sum("sum", [3], bound, pure(Fraction(1, 8)))
        for spend in (
            lambda: one.noisy_sum("more", [3], bound, pure(Fraction(1, 4))),
            lambda: one.noisy_counts("counts", [3], pure(Fraction(1, 4))),
            lambda: one.query_loop("loop", pure(Fraction(1, 4))),
            lambda: PartGate(gate, 2, pure(1), print).noisy_sum("all", [3], bound, pure(1)),
        ):
            with pytest.raises(InternalError, match="would cost more"):
                spend()
            heard.append(one.left)
        two.noisy_sum("sum", [4], bound, pure(Fraction(7, 8)))
        assert one.sent()["parts"].keys() == two.sent()["parts"].keys() == {"sum"}

    found = door.release("batch", {}, pure(1), body)
    assert found.payload["parts"].keys() == {"0/sum", "1/sum"}
    assert heard == [pure(Fraction(1, 8))] * 4


def test_weights_shift_the_division(make_table, frame, three):
    table = make_table(frame, budget=ZCDP)
    even, first = (dpx.plan(CURVES, table=table, model=three, epsilon=1, weights=w) for w in (None, [8, 1]))
    assert first.lines[-2].share > even.lines[-2].share
    named = dpx.plan(CURVES, table=table, model=three, epsilon=1, weights={"partial dependence of age": 8})
    assert named == first
    by_hand = dpx.plan(CURVES, table=table, model=three, epsilon=1, weights={CURVES[0].label: 8})
    assert by_hand.to_json() == first.to_json()


def test_the_smallest_total_for_wanted_errors(make_table, frame, three):
    table = make_table(frame, budget=ZCDP)
    wanted = [0.05, 0.05]
    found = dpx.plan(CURVES, table=table, model=three, max_error=wanted)
    assert all(line.error <= 0.05 * 1.05 for line in found.lines if line.alone is not None)  # read off between prices
    less = dpx.plan(CURVES, table=table, model=three, epsilon=0.9 * found.epsilon)
    assert any(line.error > 0.05 for line in less.lines if line.alone is not None)
    batch = dpx.batch(table, three, CURVES, max_error={one.label: 0.05 for one in CURVES})
    assert batch.forecast == found
    assert spent(table) == found.division.total.amount


def test_a_plan_says_what_it_assumes(make_table, frame, three):
    table = make_table(frame, budget=ZCDP)
    found = dpx.plan([*CURVES, IMPORTANCE], table=table, model=three, epsilon=1)
    assert spent(table) == 0
    assert "if synthetic rows of" in str(found)
    assert f"{found.worth:.3g} rows" in str(found)
    assert found.to_json()["parts"][-1]["label"] == IMPORTANCE.label
    assert list(found.to_frame()["label"]) == [line.label for line in found.lines]
    assert sum(line.share for line in found.lines) == pytest.approx(1)
    curve = next(line for line in found.lines if line.label == CURVES[0].label)
    assert curve.error < curve.interval  # sharpened, and as it was released
    question = question_of(table, three, CURVES)
    without, total = Shared(), table.cost(epsilon=1)
    assert question.worth(without, total) == pytest.approx(10**0.5)
    assert divide(question, total) == divide(question_of(table, three, CURVES), total)  # the same in every run


def test_a_local_sketch_is_read_off_the_stand_in_of_the_batch(make_table, frame, three):
    table, sketch = make_table(frame), R.LocalSketch()
    found = dpx.batch(table, three, [CURVES[0], sketch], epsilon=2)
    line = next(line for line in found.forecast.lines if line.label == sketch.label)
    assert (line.share, line.uses) == (0.0, ("stand_in",))
    assert sum(line.share for line in found.forecast.lines) == pytest.approx(1)
    assert spent(table) == 2
    record = {"age": 25, "sex": "Male"}
    assert found[sketch].explain(record).fit.coefficients.tolist() == (
        dpx.local_sketch(table, three, stand_in=found.stand_in).explain(record).fit.coefficients.tolist()
    )
    assert found[sketch].receipt.entry == found.stand_in.receipt.entry
    assert dpx.verify(found[sketch], table.ledger, three) == []
    assert dpx.batch(table, three, [CURVES[0], sketch], epsilon=2)[sketch].receipt.replayed
    assert spent(table) == 2


@pytest.mark.parametrize(
    "requests",
    [
        [R.LocalSketch()],  # nothing else would use a stand-in
        [CURVES[0], R.LocalSketch(method="moments")],
        [CURVES[0], R.LocalSketch(), R.StandIn(features=["age", "income"])],  # the model uses sex
        [CURVES[0], R.LocalSketch(), R.Marginals()],  # who names what is shared has named no stand-in
    ],
    ids=["alone", "moments", "columns", "marginals"],
)
def test_a_local_sketch_that_no_shared_stand_in_answers_has_a_price(make_table, frame, three, requests):
    table = make_table(frame, budget=ZCDP)
    found = dpx.plan(requests, table=table, model=three, epsilon=2)
    (line,) = [line for line in found.lines if line.label == "local sketch"]
    assert line.share > 0


def test_a_sketch_that_is_read_off_counts_in_the_division(make_table, frame, three):
    table = make_table(frame, budget=ZCDP)
    both = [CURVES[0], R.LocalSketch()]
    error = dpx.plan(both, table=table, model=three, epsilon=1).lines[-1].error
    found, closer = (dpx.plan(both, table=table, model=three, max_error=[0.05, e]) for e in (error, error / 2))
    assert found.lines[-1].error <= error
    assert closer.lines[-1].error <= error / 2
    assert closer.lines[0].epsilon > found.lines[0].epsilon  # the stand-in's, which the sketch is read off
    with pytest.raises(InputError, match="says nothing about local sketch"):
        dpx.plan(both, table=table, model=three, max_error={CURVES[0].label: 0.05})


def test_what_will_be_sharpened_is_forecast_as_sharpened(make_table, frame, three):
    table = make_table(frame, budget=ZCDP)
    disparity = R.Influence(quantity="disparity", group={"sex": "Male"})
    requests = [
        R.AccumulatedEffects(feature="age"),
        disparity,
        R.PermutationImportance(target="income", method="groups"),
    ]
    found = dpx.plan([R.StandIn(), *requests], table=table, model=three, epsilon=0.5)
    by_label = {line.label: line for line in found.lines}
    for request in requests[:2]:
        assert "stand_in" in by_label[request.label].uses
        assert by_label[request.label].error < by_label[request.label].interval
    assert "stand_in" not in by_label[requests[2].label].uses  # its error would be larger


def test_a_stand_in_that_can_be_used_is_used_whatever_its_noise_is_forecast_to_be(
    make_table, frame, three, monkeypatch
):
    """Finer bins come with it, which forecasts of noise hold against it; the error that is told is the smaller one."""
    table, effects = make_table(frame, budget=ZCDP), R.AccumulatedEffects(feature="age")
    before, told = Question._outlook, dict[bool, set[float]]()

    def worse(question, number, handed, *what):
        found = before(question, number, handed, *what)
        with_it = "stand_in" in handed
        found = replace(found, error=10 * found.error) if with_it else found
        told.setdefault(with_it, set()).add(found.error)
        return found

    monkeypatch.setattr(Question, "_outlook", worse)
    _, line = dpx.plan([R.StandIn(), effects], table=table, model=three, epsilon=0.5).lines
    assert "stand_in" in line.uses
    assert line.error in told[False]
    assert line.error < min(told[True])


def test_effects_of_a_model_without_interactions_have_a_forecast_above_nothing(make_table, frame):
    """All differences are the same in every row, so that synthetic rows say what they are: but they may be wrong."""

    def score(rows):
        return (rows["age"] - 20) / 20 + 0.3 * (rows["sex"] == "Male")

    model = dpx.Model(score, output=(0, 1), features=["age", "sex"], name="sum", version="1")
    table, effects = make_table(frame, budget=ZCDP), R.AccumulatedEffects(feature="age")
    _, line = dpx.plan([R.StandIn(), effects], table=table, model=model, epsilon=1).lines
    assert line.uses
    assert 0.02 * line.alone < line.error < line.alone
    closer = dpx.plan([R.StandIn(), effects], table=table, model=model, max_error={effects.label: line.error / 3})
    assert sum(one.epsilon for one in closer.lines) > 1


# Bad input --------------------------------------------------------------------------------------------------------


REFUSED = {
    "twice": ([CURVES[0], CURVES[0]], {}, "in the batch twice"),
    "two stand-ins": ([R.StandIn(), R.StandIn(grade="tree"), *CURVES], {}, "exclude each other"),
    "marginals twice": ([R.Marginals(), R.Marginals(cells=5), *CURVES], {}, "exclude each other"),
    "the same histograms": ([R.StandIn(grade="marginals"), R.Marginals(), *CURVES], {}, "exclude each other"),
    "none": ([], {}, "a batch is a list of requests"),
    "no list": (CURVES[0], {}, "a batch is a list of requests"),
    "no request": ([*CURVES, "age"], {}, "this is about a request"),
    "too many": ([R.PartialDependence(feature="age", grid=n) for n in range(2, 50)], {}, "at most 40"),
    "needs delta": ([CURVES[0], R.LocalSketch(method="moments")], {}, "a pure account cannot pay for this"),
    "needs delta, always": ([R.LocalExplanation(record={"age": 20, "sex": "Male"})], {}, "a pure account cannot pay"),
    "needs clusters": ([R.Clusters(labels=["a", "b"])], {}, "is about a clustering"),
    "no feature": ([R.PartialDependence(feature="weight")], {}, "unknown feature"),
    "no target": ([R.PermutationImportance(target="weight")], {}, "unknown feature"),
    "no price": (CURVES, {"epsilon": None}, "exactly one of epsilon"),
    "two prices": (CURVES, {"max_error": [1, 1]}, "exactly one of epsilon"),
    "no such error": (CURVES, {"epsilon": None, "max_error": {"x": 1}}, "not in the batch"),
    "an error is missing": (CURVES, {"epsilon": None, "max_error": {CURVES[0].label: 1}}, "says nothing about"),
    "no number": (CURVES, {"epsilon": None, "max_error": ["a", 1]}, "has numbers"),
    "no mapping": (CURVES, {"epsilon": None, "max_error": 1}, "a mapping of requests"),
    "a negative error": (CURVES, {"epsilon": None, "max_error": [-1, 1]}, "above 0"),
    "an impossible error": (CURVES, {"epsilon": None, "max_error": [1e-12, 1]}, "need an epsilon above"),
    "a negative weight": (CURVES, {"weights": [-1, 1]}, "weights are numbers above 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_refused_before_anything_is_spent(make_table, frame, three, name):
    requests, options, message = REFUSED[name]
    table = make_table(frame)
    with pytest.raises(InputError, match=message):
        dpx.batch(table, three, requests, **{"epsilon": 1, **options})
    assert table.ledger.statement(table.name).rows == ()


def test_a_total_that_is_too_small_says_what_it_is_enough_for(make_table, frame, three):
    table = make_table(frame)
    median = R.Quantiles(feature="income", probs=[0.5])
    curves = [R.PartialDependence(feature=one, rug=False) for one in ("age", "sex")]
    least = next(  # for a curve of ten points
        Fraction(tenths, 10**9)
        for tenths in range(1, 100)
        if _possible(table, three, curves[0], Fraction(tenths, 10**9))
    )
    with pytest.raises(InputError, match="too small for all of this batch") as heard:
        dpx.batch(table, three, [*curves, median], epsilon=least)
    assert curves[0].label in heard.value.message
    assert heard.value.hint.startswith("it is enough for: quantiles")
    with pytest.raises(InputError, match="would drown every number"):
        dpx.batch(table, three, [*curves, median], epsilon=least / 2)
    with pytest.raises(BudgetError):
        dpx.batch(table, three, CURVES, epsilon=11)
    assert table.ledger.statement(table.name).rows == ()


def _possible(table, model, request, epsilon) -> bool:
    try:
        dpx.plan(request, table=table, model=model, epsilon=epsilon)
    except InputError:
        return False
    return True


def test_options_of_single_plans_have_no_meaning_for_batches(make_table, frame, three):
    table = make_table(frame)
    with pytest.raises(InputError, match="delta has no meaning"):
        dpx.plan(CURVES, table=table, model=three, epsilon=1, delta=1e-6)
    with pytest.raises(InputError, match="table is missing"):
        dpx.plan(CURVES, model=three, epsilon=1)
    with pytest.raises(InputError, match="weights has no meaning"):
        dpx.plan(CURVES[0], table=table, model=three, epsilon=1, weights=[1])


def test_without_a_stand_in_the_domain_stands_in_for_nothing_more(make_table, frame, three):
    table = make_table(frame)
    found = dpx.batch(table, three, [R.Quantiles(feature="income", probs=[0.5])], epsilon=1)
    assert found.stand_in is None
    spent = table.ledger.statement(table.name).spent
    assert found.posterior.stand_in.grade == "domain"
    assert found.posterior.expect(lambda rows: rows["age"] > 50).values.shape == (1,)
    assert table.ledger.statement(table.name).spent == spent


def test_a_part_that_asks_for_something_else_in_the_end_releases_nothing(make_table, frame, three, monkeypatch):
    """What was written down before rows were read is what is released, or nothing is."""
    table = make_table(frame)
    question, forecast = plan_batch(CURVES, table, three, epsilon=1)
    before = Part.wanted

    def otherwise(part, *what):
        found = before(part, *what)
        if table.ledger.statement(table.name).rows:  # the price is reserved: this is the body
            found.request["spec"]["mechanism"] = "cube"
        return found

    monkeypatch.setattr(Part, "wanted", otherwise)
    with pytest.raises(ReleaseLost):
        release_batch(question, forecast, CURVES)
