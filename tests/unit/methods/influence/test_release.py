"""What is refused before anything is paid, what the identity holds, how draws, orders and weights are chosen."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure, zcdp
from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Law
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.data.donors import by_histogram
from dpexplain.data.rows import Rows
from dpexplain.maths.reference import points_in
from dpexplain.methods import histogram as histograms
from dpexplain.methods.influence import forecast as forecasts
from dpexplain.methods.influence import release as qii
from dpexplain.methods.influence import result as influences
from dpexplain.methods.influence.release import InfluenceRequest, influence
from dpexplain.methods.influence.request import PREDICTIONS
from dpexplain.methods.setting import Setting
from dpexplain.models.outcomes import Asker
from examples import DOMAIN, score

UNIT = PublicRange(0.0, 1.0)
ADD_REMOVE, REPLACE_ONE = Neighbours(Relation.ADD_REMOVE), Neighbours(Relation.REPLACE_ONE)
FEMALE = {"sex": "Female"}


def spent(table):
    return table.ledger.statement(table.name).spent.amount


def resolved(neighbours=REPLACE_ONE, rows=10_000, cost=None, domain=DOMAIN, **options):
    setting = Setting(domain, UNIT, neighbours, rows or 1_000, rows)
    return forecasts.resolve(InfluenceRequest(**options), setting, cost or pure(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outcome": "score", "threshold": 0.5}, "a score has no threshold"),
        ({"outcome": "class", "threshold": 2.0}, "must lie inside the output range"),
        ({"outcome": "class", "threshold": math.nan}, "must lie inside the output range"),
        ({"features": [None]}, "features must be a list of names, or of tuples of names"),
        ({"features": [()]}, "a set of features has at least one"),
        ({"features": [("age", "sex"), ("sex", "age")]}, "asked for twice"),
        ({"features": [("age", "age")]}, "has a name twice"),
        ({"features": ["age"], "given": ["age"]}, "'age' is given, so it cannot be asked for"),
        ({"features": ["age"], "given": ["height"]}, "unknown feature 'height'"),
        ({"given": ["age", "sex", "income"]}, "no feature to be asked for beside the given ones"),
        ({"aggregate": "shapley", "given": ["age"]}, "among single features"),
        ({"aggregate": "banzhaf", "features": [("age", "sex")]}, "among single features"),
        ({"exact": True}, "exact belongs to Shapley"),
        ({"quantity": "actual", "row": {"age": 25}, "most_predictions": 99}, "most_predictions is about tables"),
        ({"marginals_share": 0}, "marginals_share must be a number between 0 and 1"),
        ({"marginals_share": math.nan}, "marginals_share must be a number between 0 and 1"),
        ({"marginals_share": math.inf}, "marginals_share must be a number between 0 and 1"),
        ({"quantity": "group"}, "'group' needs a group"),
        ({"quantity": "disparity"}, "'disparity' needs a group"),
        ({"group": FEMALE}, "'average' has no group"),
        ({"quantity": "group", "group": {"height": 3}}, "cannot be defined by 'height'"),
        ({"quantity": "group", "group": {"sex": "female"}}, "female"),
        ({"quantity": "group", "group": {"sex": ["Female", "Male"]}}, "holds everybody"),
        ({"quantity": "group", "group": lambda rows: rows}, "not of a function or of what the model answers"),
        ({"row": {"age": 25}}, "'average' has no row"),
        ({"quantity": "individual"}, "'individual' is about one person"),
        ({"quantity": "actual", "row": {"age": 25}, "method": "paper"}, 'method="paper" is about tables'),
        ({"epsilon": 1e-30}, "noise would drown"),
        ({"marginals": "mine"}, "marginals must be a result of dpx.marginals"),
    ],
)
def test_refused_before_anything_is_paid(make_table, frame, model, options, message):
    table = make_table(frame)
    with pytest.raises(dpx.InputError, match=message) as caught:
        influence(table, model, **{"epsilon": 1, **options})
    assert "Nothing was spent" in str(caught.value)
    assert spent(table) == 0


def test_marginals_that_do_not_fit_are_refused(make_table, frame, model):
    table, other = make_table(frame), make_table(frame)
    foreign = dpx.marginals(other, epsilon=1)
    some = dpx.marginals(table, ["age"], epsilon=1)
    for known, options, message in (
        (foreign, {}, "from another table"),
        (some, {"features": ["sex"]}, "do not have 'sex'"),
        (some, {"features": ["age"], "given": ["income"]}, "do not have 'income'"),
        (some, {"features": ["age"], "method": "paper"}, "has no use for marginals"),
    ):
        with pytest.raises(dpx.InputError, match=message):
            influence(table, model, epsilon=1, marginals=known, **options)
    assert spent(table) == 1


def test_the_published_form_needs_a_public_number_of_rows(make_table, frame, model):
    for protection in ({"relation": "add-remove"}, {"relation": "replace-one", "unit": dpx.Unit("person", 2)}):
        table = make_table(frame, **protection)
        with pytest.raises(dpx.InputError, match="whose number of rows is public"):
            influence(table, model, epsilon=1, method="paper")
        assert spent(table) == 0


def test_many_features(make_table):
    domain = dpx.Domain({f"f{i}": dpx.Categorical([0, 1]) for i in range(63)})
    with pytest.raises(dpx.InputError, match="63 features are too many; 62 is the most"):
        resolved(domain=domain)
    fourteen = [f"f{i}" for i in range(14)]
    with pytest.raises(dpx.InputError, match="14 inputs is too long; 13 inputs are the most"):
        resolved(domain=domain, features=fourteen, aggregate="shapley", exact=True)
    assert resolved(domain=domain, features=fourteen, aggregate="shapley").own
    with pytest.raises(dpx.InputError, match="orders of 62 inputs are too many"):
        resolved(domain=domain, features=[f"f{i}" for i in range(62)], aggregate="shapley", samples=10_000)
    with pytest.raises(dpx.InputError, match="asked about"):
        resolved(domain=domain, features=fourteen[:10], aggregate="shapley", exact=True, samples=1_000)


def test_a_model_that_fails_on_synthetic_rows_is_refused(make_table, frame):
    table = make_table(frame)
    with pytest.raises(dpx.errors.ModelError):
        influence(table, dpx.Model(lambda rows: 1 / 0, output=(0, 1)), epsilon=1)
    assert spent(table) == 0


# What is released -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["influence", "marginals", "interaction_ranking"])
def test_the_same_request_in_other_words_is_the_same_release(make_table, frame, model, call):
    """What was worded as "all features" and is then asked for by name has the ledger's receipt, which verifies."""
    table = make_table(frame, budget=dpx.Budget(10))
    model = () if call == "marginals" else (model,)
    first = getattr(dpx, call)(table, *model, features=None, epsilon=1)
    again = getattr(dpx, call)(table, *model, features=["age", "sex", "income"], epsilon=1)
    assert again.receipt.replayed
    assert again.receipt.label == first.receipt.label
    dpx.verify(again, table.ledger)
    assert spent(table) == 1


def test_parts_and_prices(make_table, frame, model):
    table = make_table(frame, budget=dpx.Budget(10))
    found = influence(table, model, epsilon=1, samples=2)
    prices = [Fraction(part["cost"]["amount"]) for part in found.released["parts"].values()]
    assert list(found.released["parts"]) == ["counts", "influences"]
    assert prices == [Fraction(1, 5), Fraction(4, 5)]
    again = influence(table, model, epsilon=1, samples=2)
    assert again.receipt.replayed
    assert spent(table) == 1
    np.testing.assert_array_equal(again.values, found.values)
    known = found.marginals
    assert isinstance(known, dpx.results.Marginals)
    assert known.features == ["age", "sex", "income"]
    reused = influence(table, model, "disparity", ["age", ("sex", "income")], group=FEMALE, epsilon=1, marginals=known)
    assert list(reused.released["parts"]) == ["influences"]
    assert reused.items == ["age", "sex + income"]
    whole = influence(table, model, epsilon=1, marginals_share=0.5, samples=2)
    assert Fraction(whole.released["parts"]["counts"]["cost"]["amount"]) == Fraction(1, 2)


def test_every_relation_and_definition(make_table, frame, model):
    for relation in ("replace-one", "add-remove"):
        for unit in (None, dpx.Unit("person", 3)):
            for budget in (dpx.Budget(50), dpx.Budget(50, 1e-6)):
                table = make_table(frame, relation=relation, unit=unit, budget=budget)
                for options in (
                    {"quantity": "group", "group": FEMALE, "aggregate": "shapley"},
                    {"quantity": "disparity", "group": {"age": (20, 24)}, "features": ["sex"]},
                ):
                    found = influence(table, model, epsilon=5, samples=1, **options)
                    assert np.isfinite(found.values).all()
                    assert len(found.counts) == (2 if found.quantity == "disparity" else 1)
                assert found.receipt.neighbours == table.neighbours


def test_the_same_rows_under_every_protection_without_noise(make_table, frame, model):
    """A constant score for a group: what is drawn does not matter, and sums, counts and centring have to agree."""
    step = dpx.Model(lambda rows: (rows["age"] >= 20).to_numpy() * 0.75, output=(0, 1), name="step", version="1")
    for relation in ("replace-one", "add-remove"):
        table = make_table(frame, exact=True, relation=relation, budget=dpx.Budget(10**6))
        for quantity, group in (("average", None), ("group", FEMALE), ("disparity", FEMALE)):
            found = influence(table, step, quantity, group=group, epsilon=1_000, samples=1)
            np.testing.assert_array_equal(found.values, [0, 0, 0])


def test_a_person_is_handed_on(make_table, frame, model, monkeypatch):
    asked = {}

    def person_influence(table, model, request, *, cost, marginals):
        asked.update(quantity=request.quantity, cost=cost, marginals=marginals)

    monkeypatch.setattr("dpexplain.methods.influence.persons.person_influence", person_influence)
    table = make_table(frame)
    known = dpx.marginals(table, epsilon=1)
    influence(table, model, "individual", row={"age": 25}, epsilon=1)
    assert asked == {"quantity": "individual", "cost": pure(1), "marginals": None}
    influence(table, model, "actual", row={"age": 25}, marginals=known)
    assert asked == {"quantity": "actual", "cost": None, "marginals": known}


def test_the_body_never_fails_because_of_rows(make_table, frame):
    """A model that fails on some rows gives the middle for them; missing and unseen values are cleaned."""

    def fragile(rows: pd.DataFrame) -> np.ndarray:
        if (rows["income"] == 99.99).any():
            raise ValueError("secret")
        return score(rows)

    broken = frame.astype({"sex": object, "income": object})
    broken.loc[0, "income"], broken.loc[1, "sex"], broken.loc[2, "income"] = 99.99, "unseen", None
    model = dpx.Model(fragile, output=(0, 1), name="fragile", version="1")
    table = make_table(broken, relation="add-remove")
    for outcome in ("class", "score"):
        found = influence(table, model, outcome=outcome, epsilon=1, samples=1, features=["age", "sex"])
        assert np.isfinite(found.values).all()


# What is chosen -------------------------------------------------------------------------------------------------------


def test_outcomes_follow_the_model(make_table, frame):
    table = make_table(frame)
    function = dpx.Model(score, output=(0, 1), name="f", version="1")
    assert influence(table, function, epsilon=1, samples=1).spec.outcome.threshold is None
    setting = Setting(DOMAIN, UNIT, REPLACE_ONE, 400, 400, label="yes")
    named = forecasts.resolve(InfluenceRequest(), setting, pure(1))
    assert named.outcome.threshold == 0.5


def test_draws_follow_the_noise():
    pair = {"features": [("age", "sex"), "income"]}
    draws = [resolved(cost=pure(epsilon), **pair).draws for epsilon in (0.01, 0.1, 0.2)]
    assert draws[0] == 1 < draws[1] < draws[2]
    spec = resolved(cost=pure(0.2), **pair)
    noise = forecasts.forecast(spec, REPLACE_ONE, pure(0.2))["influences"].std
    assert 0.45 < spec.K / 2 * math.sqrt(10_000 / spec.draws) / noise <= 0.5  # worst case against the noise
    for limit, given in ((2**27, {"most_predictions": 2**27}), (PREDICTIONS, {})):
        most = resolved(cost=pure(100), rows=10**6, **pair, **given)
        assert most.draws > 1
        assert limit / 2 < most.asked * 10**6 <= limit
    blind = resolved(ADD_REMOVE, None, pure(100), **pair)  # a hundred thousand rows are assumed
    assert 2**24 < blind.asked * 10**5 <= PREDICTIONS == 2**25
    assert resolved(cost=pure(1), samples=7, **pair).draws == 7
    assert resolved(method="paper").draws == 1


KINDS = {
    "features": {},
    "sets": {"features": [("age", "sex"), "income"]},
    "given": {"features": ["age"], "given": ["sex"]},
    "shapley": {"aggregate": "shapley"},
    "banzhaf": {"aggregate": "banzhaf"},
}


@pytest.mark.parametrize("outcome", ["class", "score"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbours", [REPLACE_ONE, ADD_REMOVE])
def test_predictions_end_where_the_caller_says(neighbours, kind, outcome):
    """Lifted, the limit leaves no Monte Carlo error above half of the noise in a million rows; lowered, fewer draws."""
    cost, rows = pure(0.05), 10**6
    limits = (1, 2**21, 2**25, 2**40)
    specs = [resolved(neighbours, rows, cost, outcome=outcome, most_predictions=most, **KINDS[kind]) for most in limits]
    asked = [sum(min(n, spec.draws) for n in points_of(spec).values()) if spec.single else spec.asked for spec in specs]
    least = rows // forecasts.LEAST_ROWS
    for spec, questions, most in zip(specs, asked, limits, strict=True):
        assert questions * rows / spec.one_in <= most or spec.one_in == least
        assert spec.one_in == 1 or (spec.draws == 1 and questions * rows / (spec.one_in - 1) > min(most, 10**7))
    assert (specs[0].one_in, specs[0].draws, specs[-1].one_in) == (least, 1, 1)
    spread = specs[-1].K / (2 if kind in ("features", "sets") else 1)
    noise = math.sqrt(forecasts.variance(specs[-1], neighbours, cost))
    everything = set(specs[-1].listed) == set(specs[-1].names)
    assert everything or spread * math.sqrt(rows / specs[-1].draws) <= noise / 2
    assert specs[-1].ended is None
    assert "ended" not in specs[-1].to_json()  # the same release as with any limit that is high enough
    assert "one_in" not in specs[-1].to_json()
    assert resolved(neighbours, rows, cost, outcome=outcome, most_predictions=2**45, **KINDS[kind]) == specs[-1]
    for spec, questions in zip(specs[:-1], asked[:-1], strict=True):
        if spec.one_in > 1 or spec.draws < specs[-1].draws:
            assert (spec.ended.asked, spec.ended.each) == (questions, rows)


def test_the_most_questions_about_a_row_end_the_draws_too():
    pair = {"features": [("age", "sex"), "income"], "rows": 10**6, "most_predictions": 2**50}
    spec = resolved(cost=pure(100), **pair)
    assert spec.draws == 2**17
    assert (spec.ended.asked, spec.ended.most, spec.ended.whole) == (2**18, 2**18, False)
    asked = {"cost": pure(100), "aggregate": "shapley", "rows": 1_000, "most_predictions": 2**50}
    assert resolved(exact=True, **asked).draws == 2**18 // 7
    assert resolved(exact=False, **asked).draws == 2**18 // 5  # an order, its reverse, and one end that both share
    assert resolved(cost=pure(10**10), most_predictions=2**50).ended is None  # every point was asked about


def points_of(spec, domain=DOMAIN):
    return {p.feature: int(points_in(domain[p.feature], p).sum()) for p in spec.partitions}


def test_features_with_few_points_are_gone_through():
    """So the Monte Carlo error of a feature by itself is at most half of the noise at any price."""
    listed = [resolved(cost=pure(epsilon)).listed for epsilon in (0.01, 0.1, 0.3, 1, 100)]
    assert listed[0] == ()
    assert listed[-1] == ("age", "sex", "income")
    assert all(set(few) <= set(more) for few, more in itertools.pairwise(listed))
    for epsilon, rows in itertools.product((0.01, 0.1, 0.3, 1, 100), (100, 10**4, 10**5)):
        spec = resolved(cost=pure(epsilon), rows=rows)
        noise, points = forecasts.forecast(spec, REPLACE_ONE, pure(epsilon))["influences"].std, points_of(spec)
        assert all(points[name] <= spec.draws for name in spec.listed)
        assert all(name in spec.listed or points[name] > spec.draws for name in points)
        assert set(spec.listed) == set(points) or spec.K / 2 * math.sqrt(rows / spec.draws) <= noise / 2
    many = resolved(cost=pure(1), rows=10**6, most_predictions=2**25)
    assert many.listed == ("age", "sex")  # the others would take too many predictions
    assert sum(min(n, many.draws) for n in points_of(many).values()) * 10**6 <= 2**25
    assert resolved(cost=pure(1), rows=10**6, most_predictions=2**27).listed == ("age", "sex", "income")
    assert resolved(cost=pure(10**10)).listed == ("age", "sex", "income")
    assert resolved(samples=7).listed == ("sex",)
    assert resolved(method="paper", samples=7).listed == resolved(aggregate="shapley", samples=7).listed == ()


@pytest.mark.parametrize("neighbours", [REPLACE_ONE, ADD_REMOVE])
def test_cells_follow_the_noise_of_a_count(neighbours):
    sizes = {
        (epsilon, rows): [p.size for p in resolved(neighbours, rows, pure(epsilon)).partitions]
        for epsilon, rows in itertools.product((0.001, 0.01, 100), (1_000, 10**6))
    }
    assert all(size[1] == 2 for size in sizes.values())  # categories stay what they are
    assert all(size[0] == 10 for size in sizes.values())  # and so do few whole numbers
    assert sizes[0.001, 1_000][2] <= histograms.FEWEST_CELLS < sizes[0.01, 10**6][2] < sizes[100, 10**6][2] <= 101
    for rows in (1_000, 10**6):
        assert [p.size for p in resolved(neighbours, rows, pure(0.01), cells=24).partitions] == [10, 2, 23]
    ages = dpx.Domain({"age": dpx.Numeric(0, 99, integer=True)})
    few, many = (resolved(neighbours, cost=pure(epsilon), domain=ages).partitions[0] for epsilon in (0.1, 100))
    assert few.size < many.size == 100
    assert len(set(np.diff(few.edges)[:-1])) == 1  # of equal width, in whole numbers


@pytest.mark.parametrize(
    ("samples", "listed"), [(2, [False, True, False]), (10, [True, True, False]), (100, [True] * 3)]
)
def test_what_is_gone_through_has_no_monte_carlo_error(make_table, frame, model, samples, listed):
    found = influence(make_table(frame), model, epsilon=0.5, samples=samples)
    assert found.spec.listed == tuple(name for name, every in zip(found.items, listed, strict=True) if every)
    assert [found._drawn(item, 0) == 0 for item in range(3)] == listed


@pytest.mark.parametrize(("samples", "epsilon"), [(1, 50), (1, 0.05), (400, 1)])
def test_more_samples_are_asked_for_where_they_would_help(make_table, frame, model, samples, epsilon):
    found = influence(
        make_table(frame, budget=dpx.Budget(50)), model, features=[("age", "sex")], epsilon=epsilon, samples=samples
    )
    _, noise = found.part("influences")
    mostly_drawn = found._chance > 1
    assert mostly_drawn == (found._drawn(0, 0) / math.sqrt(400) > noise.std / 400) == (epsilon == 50)
    assert any("samples would help" in sentence for sentence in found.sentences()) == mostly_drawn


@pytest.mark.parametrize(
    ("kind", "relation", "quantity"),
    [
        pytest.param(kind, *people, marks=[pytest.mark.long] if (place + number) % 2 else [])
        for place, kind in enumerate([*KINDS, "orders", "drawn sets"])
        for number, people in enumerate([("replace-one", "disparity"), ("add-remove", "average")])
    ],
)
def test_as_many_predictions_as_are_advised_are_enough(make_table, frame, model, relation, kind, quantity):
    """End to end: the number in the words, given back, makes the words go away."""
    drawn = {"orders": ("shapley", {"exact": False}), "drawn sets": ("banzhaf", {"exact": False})}
    options = {"aggregate": drawn[kind][0], **drawn[kind][1]} if kind in drawn else KINDS[kind]
    people = {} if quantity == "average" else {"group": FEMALE}
    table = make_table(frame, exact=True, relation=relation, budget=dpx.Budget(100), rows_hint=400)

    def ask(most):
        return influence(table, model, quantity, epsilon=2, most_predictions=most, outcome="score", **people, **options)

    first = ask(1)
    assert "more than the noise" in first.caveat
    advised = re.search(r"; most_predictions=([\d_]+) would bring it (below|nearer to) the noise\.$", first.caveat)
    number = int(advised[1])
    assert advised[2] == "below"
    assert len(str(number).rstrip("0")) <= 2
    assert dpx.from_json(first.to_json()).caveat == first.caveat
    again = ask(number)
    assert again._chance < min(1, first._chance / 1.5)
    assert again.caveat == influences.SOURCE
    assert again.spec.draws > first.spec.draws


def test_what_no_number_of_predictions_would_help(make_table, frame, model, monkeypatch):
    monkeypatch.setattr(forecasts, "MOST_OUTCOMES", 120)
    monkeypatch.setattr(influences, "SMALL", 0)
    table = make_table(frame, budget=dpx.Budget(100))
    for options in ({"features": [("age", "sex"), "income"]}, {"aggregate": "shapley", "exact": False}):
        found = influence(table, model, epsilon=20, outcome="score", most_predictions=2**50, **options)
        most = found.spec.ended.most
        assert most == 120
        assert found.caveat.endswith(f"more cannot be drawn: a row is asked about at most {most} times.")


def test_what_more_predictions_cannot_finish_is_not_called_the_end(make_table, frame, model):
    """Ten questions of 262,144 were asked: more of them would help, even if chance stays above the noise."""
    settings = {"features": [("age", "sex")], "outcome": "score", "most_predictions": 4_000}
    found = influence(make_table(frame, budget=dpx.Budget(10_000)), model, epsilon=5_000, **settings)
    assert (found.spec.ended.asked, found.spec.ended.most) == (10, 2**18)
    assert found.caveat.endswith("; most_predictions=110_000_000 would bring it nearer to the noise.")


def test_a_hint_of_too_few_rows_promises_nothing(make_table, frame, model, monkeypatch):
    """What the forecast held for enough is not, once the number of rows is known. Without its last line the caveat is
    that of a chance that is small beside the range, for which nothing is advised.
    """
    table = make_table(
        pd.concat([frame] * 50), relation="add-remove", budget=dpx.Budget(100), rows_hint=2_000, exact=True
    )
    found = influence(table, model, features=["income"], epsilon=0.3, most_predictions=2_000, outcome="score")
    assert not found.spec.ended.whole
    said = found.caveat.removeprefix(f"{influences.SOURCE} ")
    assert re.fullmatch(r"Chance in what was drawn is in these intervals, .* noise: up to ±0\.00\d+\.", said)
    monkeypatch.setattr(influences, "SMALL", 0)
    assert found.caveat.endswith("would bring it nearer to the noise.")


def test_any_hint_makes_a_file_that_can_be_read(make_table, frame, model):
    table = make_table(frame, relation="add-remove", budget=dpx.Budget(100), rows_hint=2**45)
    found = influence(table, model, features=[("age", "sex")], epsilon=1, outcome="score", most_predictions=2**25)
    assert found.spec.ended.each == 2**40
    assert dpx.from_json(found.to_json()).caveat == found.caveat


@pytest.mark.parametrize("epsilon", [10**9, 2 * 10**9, 3 * 10**9, 10**11])
@pytest.mark.parametrize("names", [["age", "sex"], ["sex", "age"]])
def test_next_to_no_noise_can_be_compared_with_chance(make_table, frame, model, epsilon, names):
    table = make_table(frame, budget=dpx.Budget(10**12))
    known = dpx.marginals(table, epsilon=10)
    found = influence(table, model, features=names, epsilon=epsilon, samples=2, marginals=known, outcome="score")
    assert found.spec.listed == ("sex",)
    assert "more than the noise" in found.caveat


def test_sets_make_no_plan_that_fills_the_memory(monkeypatch):
    domain = dpx.Domain({f"f{i}": dpx.Categorical([0, 1]) for i in range(62)})
    pairs = list(itertools.combinations(domain, 2))
    spec = resolved(rows=100, cost=pure(10**5), domain=domain, features=pairs)
    assert spec.plan.weights.size <= 2**26
    some = {"rows": 100, "domain": domain, "features": pairs[:20], "most_predictions": 2**50}
    assert resolved(cost=pure(10**5), **some).plan.asked > 2**17
    with pytest.raises(dpx.InputError, match="the most"):
        resolved(rows=100, domain=domain, features=pairs, samples=100)
    with pytest.raises(dpx.InputError, match="sets are too many"):
        resolved(domain=domain, features=list(itertools.islice(itertools.combinations(domain, 3), 5_000)))
    monkeypatch.setattr(forecasts, "MOST_WEIGHTS", 1)
    assert resolved(rows=100, cost=pure(10**5), domain=domain, features=pairs).draws == 1


def test_draws_are_made_one_after_the_other(make_table, frame, model):
    """So that any number of them fits into memory."""
    table = make_table(frame)
    known = {"age": dpx.marginals(table, ["age"], epsilon=5).reference("age", DOMAIN)}
    rows = Rows(DOMAIN, {"age": np.full(400, 20.0)}, 400)
    draws = by_histogram(rows, known, 3, table.secrets().uniform).values["age"]
    assert len(draws) == 3
    first = draws[0]
    assert draws[0] is first
    assert (draws[2] != first).any()
    with pytest.raises(dpx.errors.InternalError, match="in their order"):
        draws[0]
    with pytest.raises(IndexError, match="no more draws"):
        draws[3]


# A default call answers -----------------------------------------------------------------------------------------------

ALL_KINDS = {
    **KINDS,
    "orders": {"aggregate": "shapley", "exact": False},
    "drawn sets": {"aggregate": "banzhaf", "exact": False},
}


def people_of(quantity):
    return {} if quantity == "average" else {"group": FEMALE}


WIDE = dpx.Domain({f"f{i}": dpx.Numeric(0, 1) for i in range(13)} | {"sex": dpx.Categorical(["Female", "Male"])})


@pytest.mark.parametrize("quantity", ["average", "group", "disparity"])
@pytest.mark.parametrize("aggregate", ["unary", "shapley", "banzhaf"])
@pytest.mark.parametrize("neighbours", [REPLACE_ONE, ADD_REMOVE])
def test_a_default_call_on_many_rows_is_answered(neighbours, aggregate, quantity):
    """Chance is at most 0.6 % of the range at any number of rows, within the default number of predictions."""
    for rows, features in itertools.product((10**5, 10**6, 10**9), (None, [f"f{i}" for i in range(7)])):
        options = {"quantity": quantity, "aggregate": aggregate, "features": features, **people_of(quantity)}
        spec = resolved(neighbours, rows, pure(1), domain=WIDE, **options)
        questions = 7 if features else 14
        asked = (
            {"shapley": 2 * questions - 1, "banzhaf": 2}[aggregate] * spec.draws
            if spec.own
            else 2**questions - 1
            if aggregate != "unary"
            else sum(min(n, spec.draws) for n in points_of(spec, WIDE).values())
        )
        assert asked * rows / spec.one_in <= PREDICTIONS
        assert 1.96 * forecasts.chance(spec, rows) / spec.K < 0.006


def test_one_row_in_some_is_used_where_predictions_are_too_many(make_table, monkeypatch):
    """End to end, with a small number of predictions: the rows that are used are about as many as they should be, and
    what is left of the sums is unbiased. Six standard deviations of the stated chance, so missed once in 1e8.
    """
    monkeypatch.setattr(forecasts, "PREDICTIONS", 40_000)
    draw, n = np.random.default_rng(3), 60_000
    frame = pd.DataFrame({"a": draw.integers(0, 2, n), "b": draw.integers(0, 2, n), "s": draw.integers(0, 2, n)})
    domain = dpx.Domain({name: dpx.Categorical([0, 1]) for name in frame})
    model = dpx.Model(lambda r: 0.8 * (r["a"] * r["b"]).to_numpy(), output=(0, 1), name="both", version="1")
    table = make_table(frame, domain=domain, exact=True, budget=dpx.Budget(10**6))
    for options, one_in in (({}, 5), ({"quantity": "disparity", "group": {"s": 1}}, 5), ({"aggregate": "shapley"}, 8)):
        found = influence(table, model, epsilon=100, outcome="score", **options)
        assert found.spec.one_in == one_in
        assert abs(found.counts.sum() - n / one_in) < 6 * math.sqrt(n / one_in)
        assert f"One row in {one_in} was used, chosen at random. Chance" in found.caveat
        ab = (frame["a"] * frame["b"]).mean()
        truth = {
            "average": [0.8 * frame["b"].mean() / 2] * 2 + [0],
            "disparity": [0, 0, 0],
        }[found.quantity]
        if options.get("aggregate") == "shapley":  # |o() - o(S)| of both together is shared out evenly
            both = 0.8 * (ab * 0.75 + (1 - ab) * 0.25)
            truth = [both / 2, both / 2, 0]
        half = np.diff(found.interval(), axis=0)[0] / 2
        assert (np.abs(found.values - truth) <= 3 * half + 0.01).all()
        assert dpx.from_json(found.to_json()) == found


def test_samples_and_paired_rows_take_all_rows(make_table, frame, model, monkeypatch):
    monkeypatch.setattr(forecasts, "PREDICTIONS", 1)
    monkeypatch.setattr(forecasts, "LEAST_ROWS", 1)
    table = make_table(frame, budget=dpx.Budget(1_000))
    pair = {"features": [("age", "sex")], "epsilon": 50, "outcome": "score"}
    few = influence(table, model, samples=1, **pair)
    assert "samples would help" in few.caveat
    assert few.spec.one_in == influence(table, model, method="paper", **pair).spec.one_in == 1
    paired = influence(table, model, aggregate="shapley", exact=False, method="paper", epsilon=50)
    assert (paired.spec.samples, paired.spec.one_in) == (forecasts.ORDERS, 1)


def test_a_disparity_counts_both_groups_where_rows_are_drawn():
    options = {"quantity": "disparity", "group": FEMALE, "rows": 10**6}
    assert resolved(**options).counts == 1
    assert resolved(most_predictions=10**6, **options).counts == 2
    assert resolved(most_predictions=10**6, rows=10**6).counts == 1


# Orders, weights, cells ----------------------------------------------------------------------------------------------


def test_all_sets_or_orders_of_a_rows_own():
    """Up to eight inputs by forecast: all sets where noise is large and their bound smaller, else orders, which leave
    less to chance for as many predictions.
    """
    domain = dpx.Domain({f"f{i}": dpx.Categorical([0, 1]) for i in range(9)})
    names = list(domain)
    eight = {"domain": domain, "aggregate": "shapley", "features": names[:8]}
    assert not resolved(cost=zcdp(0.001), **eight).own
    assert resolved(cost=zcdp(1), rows=10**6, **eight).own
    assert resolved(domain=domain, aggregate="shapley").own
    assert resolved(domain=domain, aggregate="shapley", features=names[:3], exact=False).own
    for spec in (resolved(exact=True, **eight), resolved(method="paper", **eight)):
        assert (spec.own, spec.samples) == (False, None)
    fixed = resolved(domain=domain, aggregate="shapley", features=names[:3], samples=5)
    assert (fixed.own, fixed.samples) == (False, 5)
    assert "own" not in fixed.to_json()


@pytest.mark.parametrize("neighbours", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("cost", [pure(0.5), zcdp(0.1)])
@pytest.mark.parametrize(
    "options", [{}, {"quantity": "group", "group": FEMALE}, {"quantity": "disparity", "group": FEMALE}]
)
def test_weights_are_the_best_of_their_kind(neighbours, cost, options):
    spec = resolved(neighbours, cost=cost, **options)
    least = forecasts.variance(spec, neighbours, cost)
    for x in forecasts.BASE_WEIGHTS if spec.base_weight else (0,):
        for part in forecasts.COUNT_WEIGHTS if spec.counts else (0,):
            other = forecasts.replace(spec, base_weight=x, count_weight=math.ceil(spec.K * part))
            assert least <= forecasts.variance(other, neighbours, cost)
    assert (spec.base_weight > 0) == bool(options)
    counts = {"average": (0, 1), "group": (1, 1), "disparity": (1, 2)}[spec.quantity]
    assert spec.counts == counts[neighbours is ADD_REMOVE]


def test_cells_are_narrow_at_the_low_end():
    domain = dpx.Domain(
        {
            "gain": dpx.Numeric(0, 99_999, integer=True),
            "age": dpx.Numeric(17, 90, integer=True),
            "share": dpx.Numeric(-1, 1),
            "sex": dpx.Categorical(["F", "M"]),
        }
    )
    gain, age, share, sex = forecasts.cells_of(list(domain), domain, 24)
    assert gain.edges[:2] == (-0.5, 0.5)
    assert gain.edges[-1] == 99_999.5
    assert 16 <= gain.size <= 24
    assert (age.size, sex.size) == (74, 2)
    assert share.edges[0] == -1
    assert share.edges[-1] == 1
    assert share.edges[1] == pytest.approx(-0.9998)
    for partition in (gain, age, share, sex):
        assert partition == type(partition).from_json(partition.to_json())
    for cells in (1, 2, 3, 101):
        for partition in forecasts.cells_of(list(domain), domain, cells):
            assert partition.edges is None or (np.diff(partition.edges) > 0).all()


def test_the_published_form_is_laplace_and_twice_as_wide():
    paper, ours = resolved(method="paper", samples=1), resolved(samples=1, mechanism="discrete-laplace")
    assert forecasts.forecast(paper, REPLACE_ONE, pure(1))["influences"].law is Law.LAPLACE
    assert qii.sensitivity(paper, REPLACE_ONE).l1 == 2 * qii.sensitivity(ours, REPLACE_ONE).l1 == 2 * 3 * paper.K
    assert paper.partitions == ()


# Forecasts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("cost", [pure(0.2), zcdp(0.002)])
def test_the_outlook_is_what_results_say(make_table, frame, model, neighbours, cost):
    budget = dpx.Budget(5) if cost.definition is pure(1).definition else dpx.Budget(100, 1e-6)
    many = pd.concat([frame] * 10, ignore_index=True)
    table = make_table(many, exact=True, relation=neighbours.relation, budget=budget, rows_hint=4_000)
    request = InfluenceRequest(samples=20, smooth=False)
    setting = Setting(DOMAIN, UNIT, neighbours, 4_000, 4_000, None, list(DOMAIN))
    told = qii.outlook(request, setting, cost)
    found = qii.explain(table, model, request, cost=cost)
    half = (found.interval()[1] - found.values)[2]  # of income, which is drawn, and far from the ends of the range
    assert told.error == pytest.approx(half, rel=0.15)
    assert told.law == found.part("influences")[1].law
    assert told.points == 3
    assert told.band > told.error > told.std
    assert told.rug_error > 0


def test_the_outlook_of_groups_and_persons():
    setting = Setting(DOMAIN, UNIT, ADD_REMOVE, 4_000, None, None, list(DOMAIN))
    errors = [
        qii.outlook(InfluenceRequest(**options), setting, pure(1)).error
        for options in (
            {},
            {"quantity": "group", "group": FEMALE},
            {"quantity": "disparity", "group": FEMALE},
            {"quantity": "individual", "row": {"age": 25}},
        )
    ]
    assert 0 < errors[0] < errors[1] < errors[2]
    assert errors[3] > 0


def test_the_chance_to_expect_is_that_of_one_step_and_never_above_the_most():
    """An outcome with one step by the value of one input, at a random place: a mean over d draws, one from each d-th
    part, varies by at most 1 / 2d between rows. 4,000 rows, a fixed seed; independent draws vary by three times that.
    """
    draw, d, rows = np.random.default_rng(0), 16, 4_000
    step = draw.random(rows)
    even = (np.arange(d) + draw.random((rows, d))) / d
    alone = draw.random((rows, d))
    spread = [np.sqrt(np.mean(((u < step[:, None]).mean(axis=1) - step) ** 2)) for u in (even, alone)]
    spec = resolved(rows=rows, samples=d, features=["income"], outcome="class")
    assert spec.draws == d
    assert not spec.listed
    told = forecasts.expected_chance(spec, rows) * math.sqrt(rows) / spec.K
    assert 0.7 * told < spread[0] <= told
    assert spread[1] > 3 * told
    for options in ({"samples": 1}, {"features": [("age", "sex")]}, {"aggregate": "shapley"}, {"most_predictions": 1}):
        for quantity in ({}, {"quantity": "disparity", "group": FEMALE}):
            other = resolved(rows=10**6, **{**options, **quantity})
            assert 0 < forecasts.expected_chance(other, 10**6) <= forecasts.chance(other, 10**6)


def test_a_forecast_says_where_intervals_are_wider_than_the_error():
    setting = Setting(DOMAIN, UNIT, ADD_REMOVE, 4_000, 4_000, None, list(DOMAIN))
    request = InfluenceRequest(aggregate="shapley", quantity="group", group=FEMALE, most_predictions=2**15)
    dear, cheap = (qii.outlook(request, setting, pure(epsilon)) for epsilon in (10, 0.01))
    assert "Intervals will reach up to ±" in dear.note
    assert float(dear.note.split("±")[1].split(":")[0]) > 1.25 * dear.error
    assert not cheap.note


def test_what_drawn_orders_add_is_an_estimate_and_the_result_says_so(make_table, frame, model):
    """From eight pairs on synthetic rows: with Student's factor for so few. It is no bound, so words go with it."""
    table = make_table(frame, exact=True)
    found = influence(table, model, aggregate="shapley", samples=4, epsilon=1, outcome="score")
    spec = resolved(rows=400, aggregate="shapley", samples=4, outcome="score")
    asker = Asker(table.predictor(model), spec.outcome)
    known = histograms.references(spec.names, found.marginals, DOMAIN)
    spread = np.array(forecasts._spread(spec, asker, known))
    np.testing.assert_allclose(found.sampling, 2.3646 / 1.96 * spread / math.sqrt(2), rtol=1e-3)
    assert spread.any()
    assert influences.ESTIMATED in found.caveat
    assert influences.ESTIMATED not in influence(table, model, epsilon=1, outcome="score").caveat


def test_labels_and_diagram():
    assert InfluenceRequest().label == "influence of all features"
    named = InfluenceRequest(features=["age", ("sex", "race")], quantity="group", group=FEMALE)
    assert named.label == "influence of age, sex + race in a group"
    assert frozenset({"counts", "influences"}) in qii.diagram().privacy_enabling_sets()
