"""With a sampler that adds nothing, what is released over parts equals an independent computation part by part."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.inspection import partial_dependence

import dpexplain as dpx
from dpexplain.audit.cases import GivenNumbers
from dpexplain.core.domain import PublicRange
from dpexplain.data.assignment import Secrets
from dpexplain.data.dealing import Dealt
from dpexplain.data.rows import Rows
from dpexplain.methods.generic_plot import release as generic_plot
from dpexplain.methods.interaction_ranking import release as interaction_ranking
from dpexplain.methods.plain import (
    Levels,
    accumulated_effects,
    importance,
    pairwise_interaction,
    total_interaction,
)
from dpexplain.methods.rank_aggregation import release as rank_aggregation
from dpexplain.models import Predictor
from examples import DOMAIN, score

STEP = 2.0**-20  # rounding, in units of the range
plot, rank = generic_plot.generic_plot, rank_aggregation.rank_aggregation
interactions = interaction_ranking.interaction_ranking


def part_numbers(size, number):
    """The parts of rows that are dealt by position and keep their places."""
    return np.arange(size) % number


def parts_of(frame, number):
    return [frame[part_numbers(len(frame), number) == i] for i in range(number)]


def dealt(frame, number, domain=DOMAIN):
    rows = {
        name: frame[name].to_numpy(dtype=float)
        if isinstance(column, dpx.Numeric)
        else np.array([column.categories.index(v) for v in frame[name]], dtype=np.int32)
        for name, column in domain.items()
    }
    return Dealt.of(Rows(domain, rows, len(frame)), np.arange(len(frame)) % number, number)


def levels(model=score, domain=DOMAIN, output=(0.0, 1.0)):
    return Levels(Predictor(model, list(domain), domain, as_array=False), PublicRange(*output))


# --- plots --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 8, 80, 400])
def test_partial_dependence_in_equal_parts_is_the_partial_dependence_of_the_table(make_table, frame, model, number):
    table = make_table(frame, exact=True)
    curve = plot(table, "pdp", "age", model=model, output=(0, 1), epsilon=1, parts=number, smooth=False)
    expected = [score(frame.assign(age=a)).mean() for a in range(20, 30)]
    np.testing.assert_allclose(curve.values, expected, atol=2 * STEP)
    assert curve.rug[0].counts.sum() == len(frame)
    assert curve.parts == number


def test_partial_dependence_agrees_with_scikit_learn(make_table, frame):
    numbers, points = frame[["age", "income"]], np.linspace(5, 95, 11)
    forest = RandomForestRegressor(10, random_state=0).fit(numbers, score(frame))
    table = make_table(frame, exact=True)
    model = dpx.Model(forest, output=(0, 1))
    curve = plot(table, "pdp", "income", model=model, output=(0, 1), epsilon=1, parts=10, grid=points, smooth=False)
    sklearn = partial_dependence(forest, numbers, ["income"], custom_values={"income": points}, method="brute")
    np.testing.assert_allclose(curve.values, sklearn["average"][0], atol=2 * STEP)


def test_a_users_function_is_interpolated_clipped_and_averaged(make_table, frame):
    def median(rows, slope):
        return [29, 20], [slope * rows["income"].median(), 0.0]  # a line, its points in falling order

    table = make_table(frame, exact=True)
    curve = plot(table, median, "age", model=0.02, output=(0, 1), epsilon=1, parts=8, smooth=False)
    lines = [np.linspace(0, 0.02 * part["income"].median(), 10) for part in parts_of(frame, 8)]
    np.testing.assert_allclose(curve.values, np.clip(lines, 0, 1).mean(axis=0), atol=STEP)
    assert curve.values[-1] < np.mean(lines, axis=0)[-1]  # something was clipped, and only after interpolating
    assert curve.values[5] == pytest.approx(np.mean(lines, axis=0)[5], abs=STEP)


def test_a_table_in_the_order_of_time_is_dealt_evenly(make_table, frame):
    """Every tenth row has the same age; ten parts by remainder would have one age each."""

    def ages(rows, model):
        return [20, 29], [rows["age"].nunique()] * 2

    table = make_table(frame.assign(age=np.arange(400) % 10 + 20), exact=True)
    table.secrets = Secrets
    curve = plot(table, ages, "age", output=(0, 10), epsilon=1, parts=10, smooth=False)
    assert curve.values.min() > 9


def test_a_function_sees_the_part_as_a_model_would_and_may_write_into_it(make_table, frame, model):
    seen = []

    def look(rows, given):
        seen.append((len(rows), list(rows.columns), str(rows["sex"].dtype), str(rows["age"].dtype), given))
        rows["age"] = 0
        return ["Female", "Male"], [0.25, 0.5]

    table = make_table(frame, exact=True)
    curve = plot(table, look, "sex", model=model, output=(0, 1), epsilon=1, parts=4, columns=["age"])
    assert seen[-4:] == [(100, ["age", "sex"], "category", "int64", score)] * 4
    np.testing.assert_allclose(curve.values, [0.25, 0.5], atol=STEP)


class Panic(BaseException):
    """What Rust-backed libraries raise: no Exception."""


SECRET = 12.34567


def failing(how):
    """A function that fails on the part with one income that no synthetic row has."""

    def function(rows, model):
        if not (rows["income"] == SECRET).any():
            return ["Female", "Male"], [0.2, 0.2]
        answers = {
            "nothing": lambda: None,
            "NaN": lambda: (["Female", "Male"], [0.3, float("nan")]),
            "lengths": lambda: (["Female", "Male"], [0.3]),
            "no pair": lambda: 7,
            "text": lambda: (["Female", "Male"], ["a", "b"]),
            "empty": lambda: ([], []),
        }
        if how in answers:
            return answers[how]()
        raise {"error": ValueError, "panic": Panic, "interrupt": KeyboardInterrupt, "exit": SystemExit}[how]("a row")

    return function


@pytest.mark.parametrize(
    "how", ["nothing", "NaN", "lengths", "no pair", "text", "empty", "error", "panic", "interrupt", "exit"]
)
def test_a_part_that_fails_counts_as_the_middle_and_nobody_hears_of_it(make_table, frame, how):
    table = make_table(frame.assign(income=[SECRET] + [50.0] * 399), exact=True)
    curve = plot(table, failing(how), "sex", output=(0, 1), epsilon=1, parts=4)
    np.testing.assert_allclose(curve.values, [(3 * 0.2 + 0.5) / 4] * 2, atol=STEP)


def test_a_category_that_a_part_does_not_have_counts_as_the_middle(make_table, frame):
    def means(rows, model):
        found = rows.groupby("sex", observed=True)["age"].mean()
        return found.index.to_numpy(), found.to_numpy()

    sexes = np.where(part_numbers(400, 4) == 1, "Female", "Male")  # one of four parts has Female and nothing else
    table = make_table(frame.assign(sex=sexes, age=20), exact=True)
    curve = plot(table, means, "sex", output=(20, 40), epsilon=1, parts=4)
    np.testing.assert_allclose(curve.values, [(20 + 3 * 30) / 4, (3 * 20 + 30) / 4], atol=20 * STEP)


def test_parts_without_rows_do_not_count_where_they_are_counted(make_table, frame):
    """Three rows in 50 parts: the mean is that of the parts that answered, each by its own rows."""
    table = make_table(frame.iloc[:3].assign(income=[50.0, 50.0, SECRET]), exact=True, relation="add-remove")
    curve = plot(table, lambda rows, model: ([20, 29], [0.9, 0.9]), "age", output=(0, 1), epsilon=1, parts=50)
    np.testing.assert_allclose(curve.values, 0.9, atol=STEP)
    table.secrets = partial(GivenNumbers, [7, 7, 8])  # the one that fails is alone in its part
    some = plot(table, failing("error"), "sex", output=(0, 1), epsilon=1, parts=50, smooth=False)
    np.testing.assert_allclose(some.values, 0.2, atol=STEP)  # the part that fails says nothing


def test_empty_parts_count_as_the_middle(make_table, frame, model):
    for explainer in ("pdp", "ale"):
        table = make_table(frame.iloc[:0], exact=True, relation="add-remove")
        curve = plot(table, explainer, "age", model=model, output=(-1, 2), epsilon=1)
        np.testing.assert_allclose(curve.values, 0.5)
    assert rank(table, lambda rows, model: list("ab"), list("ab"), epsilon=1).values.tolist() == [0.5, 0.5]
    assert set(interactions(table, model, epsilon=1).values) == {1.0}


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("unit", [None, dpx.Unit("person", 3)])
def test_every_relation_and_unit(make_table, frame, model, relation, unit):
    table = make_table(frame, exact=True, relation=relation, unit=unit, rows_hint=400)
    curve = plot(table, "pdp", "age", model=model, output=(0, 1), epsilon=1, smooth=False, parts=20)
    expected = [score(frame.assign(age=a)).mean() for a in range(20, 30)]
    np.testing.assert_allclose(curve.values, expected, atol=0.05)
    again = dpx.from_json(curve.to_json())
    np.testing.assert_array_equal(again.values, curve.values)
    votes = rank(table, lambda rows, model: {"b": 2, "a": 1, "c": 0}, list("abc"), epsilon=1, parts=10)
    assert votes.items == ["b", "a", "c"]
    assert votes.values.tolist() == [2.0, 1.0, 0.0]
    assert interactions(table, model, epsilon=1, parts=5).items[0] == "sex x income"


def test_the_published_form(make_table, frame, model):
    options = {"parts": 200, "mechanism": "discrete-laplace", "smooth": False, "grid": 20, "rug": False}
    curve = plot(make_table(frame), "ale", "income", model=model, output=(-1, 1), epsilon=2, **options)
    noise = curve.part("curve")[1]
    assert (noise.law, noise.size) == ("discrete-laplace", 20)
    assert curve.std == pytest.approx(np.sqrt(2) * 20 * 2 / (200 * 2), rel=1e-6)  # sigma = m (max - min) / (l epsilon)


def wavy(rows):
    """Far from a straight line between the edges of an interval, and different for each age."""
    return 0.5 + 0.4 * np.sin(rows["income"].to_numpy() / 9 + rows["age"].to_numpy())


def plain_ale(rows, points, low, high, intervals=20):
    """Accumulated effects of income for some rows, interval by interval."""
    values = np.sort(rows["income"].to_numpy())
    count = min(intervals, len(values))
    inner = {values[k * len(values) // count] for k in range(1, count)} - {values[-1]}
    edges = sorted({low, high, *inner})
    curve = {low: 0.0}
    for a, b in itertools.pairwise(edges):
        mine = rows[(rows["income"] > a) & (rows["income"] <= b)]
        assert len(mine)
        for g in [*(p for p in points if a < p < b), b]:
            curve[g] = curve[a] + (wavy(mine.assign(income=g)) - wavy(mine.assign(income=a))).mean()
    x = sorted(curve)
    y = [curve[g] for g in x]
    return np.array([curve[g] for g in points]) - np.interp(rows["income"], x, y).mean()


@pytest.mark.parametrize("number", [1, 7, 100])
def test_accumulated_effects_equal_a_loop_over_intervals(make_table, frame, number):
    points = np.linspace(0, 100, 21)
    table, model = make_table(frame, exact=True), dpx.Model(wavy, output=(0, 1))
    options = {"parts": number, "grid": points, "smooth": False}
    curve = plot(table, "ale", "income", model=model, output=(-1, 1), epsilon=1, **options)
    expected = [np.clip(plain_ale(part, points, 0.0, 100.0), -1, 1) for part in parts_of(frame, number)]
    np.testing.assert_allclose(curve.values, np.mean(expected, axis=0), atol=40 * STEP)


def test_accumulated_effects_of_a_linear_model_are_its_line_in_parts_of_any_size(make_table, frame):
    model = dpx.Model(lambda rows: rows["income"].to_numpy() / 100, output=(0, 1))
    table = make_table(frame, exact=True)
    for number in (1, 20, 400):
        curve = plot(table, "ale", "income", model=model, output=(-1, 1), epsilon=1, parts=number, smooth=False)
        line = (np.asarray(curve.axes[0].points) - frame["income"].mean()) / 100
        np.testing.assert_allclose(curve.values, line, atol=20 * STEP)


def test_accumulated_effects_of_a_category(frame):
    colours = dpx.Domain({"c": dpx.Categorical(["r", "g", "b"]), "x": dpx.Numeric(0, 1), "only": dpx.Categorical([7])})

    def model(rows):
        return rows["c"].map({"r": 0.1, "g": 0.3, "b": 0.8}).astype(float).to_numpy() * rows["x"].to_numpy()

    rows = pd.DataFrame({"c": list("rrgb"), "x": [0.5, 1.0, 0.25, 0.75], "only": 7})
    axis = dpx.maths.grids.axis_of(colours, "c", None, 5)
    got = accumulated_effects(dealt(rows, 1, colours), levels(model, colours), axis)
    first = 0.2 * np.mean([0.5, 1.0, 0.25])  # rows of r and of g tell about the step from r to g
    heights = np.array([0, first, first + 0.5 * np.mean([0.25, 0.75])])  # rows of g and of b about the one after it
    np.testing.assert_allclose(got, [heights - heights[[0, 0, 1, 2]].mean()], atol=4 * STEP)
    two = accumulated_effects(dealt(rows.iloc[[0, 2, 1, 0]], 2, colours), levels(model, colours), axis)
    first, second = 0.2 * np.mean([0.5, 1.0]), 0.5 * np.mean([0.5, 1.0])  # no row of g or b: both tell about that step
    np.testing.assert_allclose(two[0], np.array([0, first, first + second]), atol=4 * STEP)
    one = dpx.maths.grids.axis_of(colours, "only", None, 5)
    assert accumulated_effects(dealt(rows, 2, colours), levels(model, colours), one).tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("explainer", ["pdp", "ale"])
def test_constant_features_and_one_category(make_table, explainer):
    domain = dpx.Domain({"x": dpx.Numeric(0, 10), "only": dpx.Categorical(["a"]), "y": dpx.Numeric(0, 1)})
    rows = pd.DataFrame({"x": 3.0, "only": "a", "y": np.linspace(0, 1, 60)})
    table = make_table(rows, exact=True, domain=domain)
    model = dpx.Model(lambda r: r["x"].to_numpy() / 10 + 0 * r["y"].to_numpy(), output=(0, 1))
    curve = plot(table, explainer, "x", model=model, output=(-1, 1), epsilon=1, smooth=False, parts=6)
    shift = 0.3 if explainer == "ale" else 0
    np.testing.assert_allclose(curve.values, np.asarray(curve.axes[0].points) / 10 - shift, atol=8 * STEP)
    only = plot(table, explainer, "only", model=model, output=(-1, 1), epsilon=1, parts=6)
    np.testing.assert_allclose(only.values, [0.3 - shift], atol=8 * STEP)


def test_shap_dependence_of_trees_and_by_sampling(make_table, frame):
    shap = pytest.importorskip("shap")
    numbers = frame[["age", "income"]]
    forest = RandomForestRegressor(5, max_depth=4, random_state=0).fit(numbers, score(frame))

    def trees(rows, model):
        return rows["income"], shap.TreeExplainer(model).shap_values(rows)[:, 1]

    def sampling(rows, model):
        few = rows.iloc[:8]
        np.random.seed(0)  # this explainer draws from the global generator
        return few["income"], shap.SamplingExplainer(model.predict, few).shap_values(few, nsamples=20, silent=True)[
            :, 1
        ]

    table = make_table(frame, exact=True)
    for function, name in ((trees, "TreeExplainer"), (sampling, "sampling")):
        options = {"columns": ["age", "income"], "name": name, "version": "1", "smooth": False}
        curve = plot(
            table, function, "income", model=forest, output=(-0.5, 0.5), epsilon=1, parts=5, grid=11, **options
        )
        parts = [generic_plot.on_grid(function(part[["age", "income"]], forest), curve.axes[0]) for part in
                 parts_of(frame, 5)]  # fmt: skip
        np.testing.assert_allclose(curve.values, np.mean(parts, axis=0), atol=4 * STEP)
        assert curve.values[-1] > curve.values[0] + 0.05  # more income, higher score
        assert curve.title.startswith(name)


# --- rankings -----------------------------------------------------------------------------------------------------


def borda(ballots, items):
    points = dict.fromkeys(items, 0.0)
    for ballot in ballots:
        for place, item in enumerate(ballot):
            points[item] += len(items) - 1 - place
    return {item: total / len(ballots) for item, total in points.items()}


@pytest.mark.parametrize("form", ["order", "numbers", "mapping"])
def test_votes_are_borda_points(make_table, frame, form):
    items = ["mean", "low", "high", "spread"]

    def measures(rows):
        x = rows["income"]
        return {"mean": x.mean(), "low": 100 * x.min() + 20, "high": x.max() - 40, "spread": x.std() + 22}

    def ranker(rows, model):
        found = measures(rows)
        if form == "order":
            return sorted(items, key=lambda item: -found[item])
        return [found[item] for item in items] if form == "numbers" else found

    votes = rank(make_table(frame, exact=True), ranker, items, epsilon=1, parts=40)
    ballots = [sorted(items, key=lambda item: -measures(part)[item]) for part in parts_of(frame, 40)]
    assert len(set(map(tuple, ballots))) > 3
    expected = borda(ballots, items)
    assert dict(zip(votes.items, votes.values, strict=True)) == pytest.approx(expected)
    assert votes.items == sorted(items, key=lambda item: -expected[item])
    low, high = votes.interval()
    assert ((low <= votes.values) & (votes.values <= high)).all()


def test_equal_items_share_their_points_and_failed_ballots_give_the_mean(make_table, frame):
    def ranker(rows, model):
        return [1.0, float("nan"), 1.0] if (rows["income"] == SECRET).any() else [1.0, 1.0, 2.0]

    table = make_table(frame.assign(income=[SECRET] + [50.0] * 399), exact=True)
    votes = rank(table, ranker, ["a", "b", "c"], epsilon=1, parts=4)
    assert votes.items == ["c", "a", "b"]  # of equal sums the first in public order
    np.testing.assert_allclose(votes.values, [(3 * 2 + 1) / 4, (3 * 0.5 + 1) / 4, (3 * 0.5 + 1) / 4])


def test_the_best_k(make_table, frame):
    table = make_table(frame, exact=True)
    votes = rank(table, lambda rows, model: ["c", "e", "a", "d", "b"], list("abcde"), epsilon=1, parts=10, k=2)
    assert votes.items == ["c", "e"]
    assert votes.values.tolist() == [4.0, 3.0]
    assert set(votes.released["parts"]) == {"top", "votes"}
    again = dpx.from_json(votes.to_json())
    assert again.items == votes.items
    assert "the best 2 of 5" in again.title
    whole = rank(table, lambda rows, model: ["c", "e", "a", "d", "b"], list("abcde"), epsilon=1, parts=10, k=5)
    assert whole.items == ["c", "e", "a", "d", "b"]  # all of them: nothing to choose


def test_importance_equals_a_loop_over_parts(frame):
    features, number = ["age", "sex", "income"], 7
    grouped = dealt(frame, number)
    target = np.clip(score(frame) + np.random.default_rng(2).normal(0, 0.1, len(frame)), 0, 1)
    order = np.argsort(np.arange(len(frame)) % number, kind="stable")
    got = importance(grouped, levels(), features, "age", lambda _: target[order])
    shuffled = np.split(grouped.shuffled(), grouped.starts[1:])
    for part in range(number):
        index = order[shuffled[part]]
        rows, truth = frame.iloc[index], target[index]
        assert sorted(index) == list(range(part, len(frame), number))
        base = ((score(rows) - truth) ** 2).sum()
        for j, name in enumerate(features):
            exchanged = rows.assign(**{name: np.roll(rows[name].to_numpy(), -1)})
            growth = ((score(exchanged) - truth) ** 2).sum() - base
            assert got[part, j] / 2**32 == pytest.approx(growth, abs=2e-3)


def test_the_published_ranking_has_the_published_noise(make_table):
    """Laplace of scale (ceil(M^2 / 2) + M) / epsilon for points, and our own bound beside it."""
    table = make_table(pd.DataFrame({"x": range(20)}), domain=dpx.Domain({"x": dpx.Numeric(0, 19, integer=True)}))
    ask = {"ranker": lambda rows, model: list("cab"), "items": list("abc"), "epsilon": 1, "parts": 10}
    paper, ours = rank(table, method="paper", **ask), rank(table, mechanism="discrete-laplace", **ask)
    for votes, bound in ((paper, 5 + 3), (ours, 4)):
        _, noise = votes.part("votes")
        assert noise.law.value == "discrete-laplace"
        assert float(noise.scale / votes.spec.unit) == pytest.approx(bound)
    assert dpx.from_json(paper.to_json()).spec.published
    assert not ours.spec.published
    with pytest.raises(dpx.errors.InputError, match="leave k"):
        rank(table, method="paper", k=1, **ask)


def test_importance_ranks_by_class_or_number(make_table, frame, model):
    labels = np.where(score(frame) > 0.3, "high", "low")
    domain = dpx.Domain({**DOMAIN, "label": dpx.Categorical(["low", "high"])})
    table = make_table(frame.assign(label=labels), exact=True, domain=domain)
    forest = RandomForestRegressor(5, random_state=0).fit(frame[["age", "income"]], labels == "high")
    forest.classes_ = np.array(["low", "high"])  # a classifier by hand
    forest.predict_proba = lambda rows: np.column_stack([1 - forest.predict(rows), forest.predict(rows)])
    votes = rank(
        table, "importance", model=dpx.Model(forest, output=(0, 1), label="high"), target="label", epsilon=1, parts=10
    )
    assert votes.items == ["age", "income"]
    assert votes.title.startswith("Permutation importance")


# --- interaction --------------------------------------------------------------------------------------------------

XYZ = dpx.Domain({"x": dpx.Numeric(0, 1), "y": dpx.Numeric(0, 1), "z": dpx.Numeric(0, 1)})


def additive(rows):
    return 0.3 * rows["x"].to_numpy() ** 2 + 0.2 * np.sin(rows["y"].to_numpy()) + 0.1 * rows["z"].to_numpy()


def product(rows):
    return 0.5 * rows["x"].to_numpy() * rows["y"].to_numpy() + 0.1 * rows["z"].to_numpy()


@pytest.fixture
def xyz():
    return pd.DataFrame(np.random.default_rng(3).uniform(size=(120, 3)), columns=list("xyz"))


PAIRS = [("x", "y"), ("x", "z"), ("y", "z")]


def test_an_additive_model_has_no_interaction(xyz):
    grouped, predict = dealt(xyz, 4, XYZ), levels(additive, XYZ)
    assert not pairwise_interaction(grouped, predict, PAIRS, 20).any()
    assert not total_interaction(grouped, predict, list("xyz"), 20).any()


def plain_h(rows, names):
    """H^2 of a pair, or of one feature with the rest, by its definition."""

    def centred(fixed):
        means = []
        for i in range(len(rows)):
            means.append(product(rows.assign(**{name: rows[name].iloc[i] for name in fixed})).mean())
        return np.array(means) - np.mean(means)

    if len(names) == 2:
        joint, one, other = centred(names), centred(names[:1]), centred(names[1:])
    else:
        joint = product(rows) - product(rows).mean()
        one, other = centred(names), centred([n for n in "xyz" if n not in names])
    return ((joint - one - other) ** 2).sum() / (joint**2).sum()


def test_interaction_equals_its_definition(xyz):
    grouped, predict = dealt(xyz, 4, XYZ), levels(product, XYZ)
    pairwise = pairwise_interaction(grouped, predict, PAIRS, 12)
    total = total_interaction(grouped, predict, list("xyz"), 12)
    order = np.argsort(np.arange(len(xyz)) % 4, kind="stable")
    for part, index in enumerate(np.split(grouped.shuffled(), grouped.starts[1:])):
        rows = xyz.iloc[order[index[:12]]]
        np.testing.assert_allclose(pairwise[part], [plain_h(rows, list(pair)) for pair in PAIRS], atol=1e-5)
        np.testing.assert_allclose(total[part], [plain_h(rows, [name]) for name in "xyz"], atol=1e-5)
    assert (pairwise[:, 0] > 0.01).all()
    assert not pairwise[:, 1:].any()


def test_interaction_ranking(make_table, xyz):
    table, model = make_table(xyz, exact=True, domain=XYZ), dpx.Model(product, output=(0, 1))
    votes = interactions(table, model, epsilon=1, parts=4, points=10)
    assert votes.items[0] == "x x y"
    assert votes.values.tolist() == [2.0, 0.5, 0.5]  # the other two pairs do not interact at all
    assert interactions(table, model, epsilon=1, parts=4, points=10, kind="total").items[2] == "z"
    chosen = interactions(table, model, epsilon=1, parts=4, pairs=[("y", "z"), ("y", "x")], k=1)
    assert chosen.items == ["y x x"]


# --- designs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [generic_plot, rank_aggregation, interaction_ranking])
def test_the_noised_stages_are_a_privacy_enabling_set(module):
    diagram = module.diagram()
    assert diagram.noised in diagram.privacy_enabling_sets()
