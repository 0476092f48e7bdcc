"""Outcomes: classes at their threshold, rows that a model fails on, and answers that do not depend on company."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.core.domain import PublicRange
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError
from dpexplain.maths.games import exact_plan, sets_plan
from dpexplain.models import Predictor, frame_of
from dpexplain.models.outcomes import Asker, Outcome
from dpexplain.models.predictor import USUAL_BLOCK as BLOCK

RANGE = PublicRange(-1.0, 3.0)
K = RANGE.levels
DOMAIN = dpx.Domain({"a": dpx.Numeric(0, 1), "b": dpx.Numeric(0, 1), "c": dpx.Categorical(["x", "y"])})


def asker(model, kind, *, threshold=None, output=(0, 1), features=("a", "b")):
    predictor = Predictor(model, list(features), DOMAIN, as_array=False)
    return Asker(predictor, Outcome.of(PublicRange(*output), kind, threshold))


def rows(a, b=None):
    a = np.asarray(a, dtype=float)
    b = np.zeros(len(a)) if b is None else np.asarray(b, dtype=float)
    return Rows(DOMAIN, {"a": a, "b": b, "c": np.zeros(len(a), dtype=np.int32)}, len(a))


def test_a_class_at_its_threshold():
    outcome = Outcome.of(RANGE, "class")
    assert (outcome.is_class, outcome.threshold, outcome.range) == (True, 1.0, PublicRange(0, 1))
    told = outcome.quantized(np.array([np.nextafter(1.0, 0), 1.0, np.nextafter(1.0, 2), -50.0, 50.0, np.nan]))
    assert told.tolist() == [0, K, K, 0, K, K // 2]


def test_a_threshold_at_the_upper_end():
    assert Outcome.of(RANGE, "class", 3).quantized(np.array([2.999, 3.0, 4.0])).tolist() == [0, K, K]
    assert Outcome.of(RANGE, "class", np.float32(0.5)).threshold == 0.5


def test_a_score_is_clipped():
    outcome = Outcome.of(RANGE, "score")
    assert (outcome.is_class, outcome.range) == (False, RANGE)
    assert outcome.quantized(np.array([-9.0, -1.0, 1.0, 3.0, 9.0, np.nan])).tolist() == [0, 0, K // 2, K, K, K // 2]


@pytest.mark.parametrize("outcome", [Outcome.of(RANGE, "score"), Outcome.of(RANGE, "class", 0.25)], ids=str)
def test_json(outcome):
    assert Outcome.from_json(outcome.to_json()) == outcome


@pytest.mark.parametrize(
    ("kind", "threshold", "words"),
    [
        ("score", 0.5, "a score has no threshold"),
        ("class", -1.0, "inside the output range -1 to 3"),  # everybody would be in the class
        ("class", 3.5, "inside the output range"),
        ("class", float("nan"), "inside the output range"),
        ("class", float("inf"), "inside the output range"),
    ],
)
def test_refusals(kind, threshold, words):
    with pytest.raises(InputError, match=words):
        Outcome.of(RANGE, kind, threshold)


def product(frame):
    return (frame["a"] * frame["b"]).to_numpy()


SINGLES = sets_plan(2, [1, 2, 3], 1)


def test_influences_of_a_score():
    found = asker(product, "score").influences(
        rows([1.0, 0.5], [1.0, 1.0]),
        SINGLES,
        ["a", "b"],
        {"a": [np.array([0.25, 1.0])], "b": [np.array([0.5, 0.5])]},
        absolute=False,
    )
    # 1 - 0.25, 1 - 0.5, 1 - 0.125; then 0.5 - 1, 0.5 - 0.25, 0.5 - 0.5
    assert (found / K).tolist() == [[0.75, 0.5, 0.875], [-0.5, 0.25, 0.0]]


def test_absolute_influences_are_taken_draw_by_draw():
    plan = sets_plan(2, [1], 2)
    values = {"a": [np.array([0.25]), np.array([0.75])], "b": [np.array([1.0])] * 2}
    ask = asker(product, "score")
    assert ask.influences(rows([0.5], [1.0]), plan, ["a", "b"], values, absolute=False).tolist() == [[0]]
    assert ask.influences(rows([0.5], [1.0]), plan, ["a", "b"], values, absolute=True).tolist() == [[K // 4]]


def test_the_class_changes_or_does_not():
    """1 - P[c(x with S replaced) = c(x)], from either class."""
    plan, names = sets_plan(2, [1], 4), ["a", "b"]
    values = {"a": [np.array([v, v]) for v in (0.1, 0.2, 0.9, 0.3)], "b": [np.ones(2)] * 4}
    here = rows([0.9, 0.1], [1.0, 1.0])
    ask = asker(product, "class")
    assert (ask.influences(here, plan, names, values, absolute=True) * 4 // K).tolist() == [[3], [1]]
    assert (ask.influences(here, plan, names, values, absolute=False) * 4 // K).tolist() == [[3], [-1]]


@pytest.mark.parametrize("kind", ["class", "score"])
@pytest.mark.parametrize("absolute", [True, False])
def test_what_the_model_does_not_use_has_no_influence(kind, absolute):
    plan = sets_plan(3, [1, 4, 5], 1)  # a; c; a and c
    values = {"a": [np.array([0.0])], "b": [np.array([0.0])], "c": [np.array([1], dtype=np.int32)]}
    found = asker(product, kind).influences(rows([1.0], [1.0]), plan, ["a", "b", "c"], values, absolute=absolute)
    assert found.tolist() == [[K, 0, K]]


@pytest.mark.parametrize("kind", ["class", "score"])
def test_rows_that_fail_count_as_the_middle(kind):
    def fails(frame):
        if (frame["a"] == 1.0).any():
            raise RuntimeError("secret")
        return np.where(frame["b"] == 1.0, np.nan, (frame["a"] > 0.5).astype(float))

    ask = asker(fails, kind)
    plan, names = sets_plan(2, [1, 2], 1), ["a", "b"]
    here = rows([1.0, 0.0, 0.7], [0.0, 0.0, 1.0])
    values = {"a": [np.array([0.0, 1.0, 0.0])], "b": [np.array([0.0, 1.0, 0.0])]}
    half = K // 2
    found = ask.influences(here, plan, names, values, absolute=False)
    assert found.tolist() == [[half, 0], [-half, -half], [0, -half]]
    assert (ask.influences(here, plan, names, values, absolute=True) == abs(found)).all()


def dithered(frame):
    """As fast matrix code may be: the last bits depend on how many rows there are."""
    return 0.5 + (frame["a"].to_numpy() - 0.5) * 1e-3 + 1e-12 * np.sin(1.0 + len(frame))


@pytest.mark.parametrize("size", [1, 2, 100, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 5])
def test_a_class_does_not_depend_on_how_many_rows_are_asked(size):
    """The first row stands at the threshold itself: one bit decides its class, and its influence."""
    here, names, plan = rows([0.5, *np.linspace(0, 1, size - 1)]), ["a", "b"], sets_plan(2, [2, 3], 1)
    values = {"a": [np.full(size, 0.5)], "b": [np.full(size, 0.5)]}
    ask = asker(dithered, "class", threshold=0.5 + 1e-12 * np.sin(1.0 + BLOCK))
    found = ask.influences(here, plan, names, values, absolute=False)
    assert found[0].tolist() == [0, 0]
    assert ask.ask(ask.predictor.inputs(here), {})[0] == K
    # asked as they come, the same row would be in one class or the other
    plain = Outcome.of(PublicRange(0, 1), "class", ask.outcome.threshold)
    alone = [dithered(frame_of(DOMAIN, names, here.take(slice(0, n)))) for n in (1, 2, 3, 4, 5)]
    told = {int(plain.quantized(answers)[0]) for answers in alone}
    assert size < 5 or told == {0, K}


def test_a_row_that_fails_changes_nothing_for_the_others():
    def fails(frame):
        if (frame["b"] == 1.0).any():
            raise RuntimeError("secret")
        return dithered(frame)

    ask = asker(fails, "class", threshold=0.5 + 1e-12 * np.sin(1.0 + BLOCK))
    a, b = np.full(50, 0.5), np.zeros(50)
    b[7] = 1.0
    told = ask.ask(ask.predictor.inputs(rows(a, b)), {})
    assert told[7] == K // 2
    assert set(np.delete(told, 7)) == {K}


@pytest.mark.parametrize("kind", ["class", "score"])
def test_no_rows(kind):
    none = rows([])
    values = {"a": [np.empty(0)], "b": [np.empty(0)]}
    assert asker(product, kind).influences(none, SINGLES, ["a", "b"], values, absolute=True).shape == (0, 3)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("aggregate", ["shapley", "banzhaf"])
def test_orders_of_a_rows_own_are_exact_where_all_are_drawn(aggregate, absolute):
    """All six orders (eight sets) of three inputs, given as numbers: what a plan of all sets says, up to rounding."""
    names, here = ["a", "b", "c"], rows([0.25, 1.0, 0.5], [1.0, 0.5, 0.75])
    other = {"a": np.array([1.0, 0.5, 0.0]), "b": np.array([0.5, 0.25, 1.0]), "c": np.array([0, 1, 0], dtype=np.int32)}
    ask = asker(product, "score")
    plan = exact_plan(3, aggregate, 1)
    expected = ask.influences(here, plan, names, {name: [v] for name, v in other.items()}, absolute=absolute)
    every = itertools.permutations([0.1, 0.5, 0.9]) if aggregate == "shapley" else itertools.product([0, 1], repeat=3)
    orders = [np.tile(numbers, (3, 1)) for numbers in every]
    values = {name: [v] * len(orders) for name, v in other.items()}
    found = ask.own_orders(here, names, values, orders, aggregate, absolute=absolute)
    assert expected.any()
    assert np.abs(found - expected).max() <= 1
