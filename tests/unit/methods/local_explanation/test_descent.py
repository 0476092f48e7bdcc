"""Gradient descent inside one release: what is refused, what is charged, what leaves, and the path replayed from it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.core.budget import pure, zcdp
from dpexplain.maths.surrogate import Local, Space, StepWeight
from dpexplain.maths.surrogate.descent import FINE, PIECE, Descent, Sums, length
from dpexplain.maths.surrogate.fit import UNSETTLED, Asked, Released
from dpexplain.methods import averages
from dpexplain.methods.local_explanation import descent
from dpexplain.methods.local_explanation.spec import forecast, path_loss
from examples import DOMAIN
from gradients import path
from stubs import ADD_REMOVE, REPLACE_ONE

SPACE = Space(DOMAIN, tuple(DOMAIN))
RECORD = {"age": 25.0, "sex": "Male", "income": 40.0}
BUDGET = dpx.Budget(10, 1e-6)


@pytest.fixture
def local(model):
    return Local(SPACE, StepWeight.of("stable", SPACE.diameter), model.output, RECORD, 0.5)


def released(table, model, spec, cost, monkeypatch=None):
    """One release of a path, and where its own body says that it ended."""
    ends, walk = [], descent.walk
    predictor = model.checked(table.domain)
    if monkeypatch is not None:
        monkeypatch.setattr(descent, "walk", lambda *given: ends.append(walk(*given)))
    identity = {"explainer": "test", "spec": spec.to_json(), "public": []}
    found = table.door.release("test", identity, cost, lambda gate: descent.send(table, gate, predictor, spec, cost))
    return found, ends


PROTECTIONS = [
    {"relation": "replace-one"},
    {"relation": "add-remove"},
    {"relation": "add-remove", "rows_hint": 380},
    {"relation": "replace-one", "unit": dpx.Unit("person", 2)},
    {"relation": "add-remove", "unit": dpx.Unit("person", 2)},
]


@pytest.mark.parametrize("protection", PROTECTIONS, ids=str)
def test_what_leaves_is_charged_and_leads_to_where_the_body_went(
    make_table, frame, model, local, protection, monkeypatch
):
    table, cost = make_table(frame, budget=BUDGET, **protection), zcdp(Fraction(1, 2))
    spec = descent.path_of(local, table.neighbours, table.budget, cost, table.rows_hint, iterations=7)
    found, (end,) = released(table, model, spec, cost, monkeypatch)
    parts = found.payload["parts"]
    steps = [f"gradient-{i}" for i in range(1, 8)]
    assert list(parts) == ["average", *(steps if table.rows_hint else ["count", *steps])]
    assert {name.split("-")[0] for name in parts} <= descent.diagram().noised
    assert found.entry.charged == cost
    assert all(parts[name]["noise"]["law"] == "discrete-gaussian" for name in parts)
    point, deviation = spec.replay(Released(found.payload["parts"]))
    assert point.tolist() == end.tolist()
    assert np.linalg.norm(point) <= FINE + math.sqrt(SPACE.size)
    assert deviation > 0


def test_the_noise_of_a_step_is_that_of_its_part_of_the_price(local):
    for neighbours in (ADD_REMOVE, REPLACE_ONE):
        spec = descent.path_of(local, neighbours, BUDGET, zcdp(1), 400, iterations=20)
        noise = forecast(spec, neighbours, zcdp(1))["gradient"]
        assert float(noise.scale) == pytest.approx(spec.bound(neighbours) * math.sqrt(20 / 0.95 / 2))


def test_the_papers_noise_and_what_it_is_charged(make_table, frame, model, local):
    table = make_table(frame, budget=BUDGET)
    cost, T = table.cost(epsilon=1), 50
    spec = descent.path_of(local, table.neighbours, BUDGET, cost, 400, iterations=T, accounting="paper")
    found, _ = released(table, model, spec, cost)
    bound = spec.bound(table.neighbours)
    sigma = bound * math.sqrt(16 * T * math.log(math.e + math.sqrt(T) * 1 / 1e-6) * math.log(T / 1e-6)) / 1
    scale = forecast(spec, table.neighbours, cost)["gradient"].scale
    assert float(scale) == pytest.approx(sigma, rel=1e-4)
    steps = found.entry.charged.amount - cost.amount / 20  # the average person has its own part
    assert float(steps) == pytest.approx(T * bound**2 / (2 * sigma**2), rel=1e-3)
    assert float(steps) < float(cost.amount) / 100
    assert table.ledger.statement(table.name).spent == found.entry.charged


def test_where_the_papers_noise_is_too_small_it_is_refused(local):
    rich = dpx.Budget(10**6, 1e-6)
    with pytest.raises(dpx.InputError, match="costs more than that"):
        descent.path_of(local, ADD_REMOVE, rich, rich.cost(epsilon=10**6), 400, iterations=10, accounting="paper")


def test_a_pure_account_and_a_price_that_is_too_small(local):
    with pytest.raises(dpx.InputError, match="needs an account with a delta") as refused:
        averages.require_delta(pure(1))
    assert "dpx.Budget(epsilon=2.0, delta=1e-6)" in refused.value.hint
    spec = descent.path_of(local, ADD_REMOVE, BUDGET, zcdp(Fraction(1, 10**16)), 400, iterations=10)
    with pytest.raises(dpx.InputError, match="drown"):
        forecast(spec, ADD_REMOVE, zcdp(Fraction(1, 10**16)))


def test_the_number_of_steps_follows_the_forecast(local):
    def steps(rho, rows):
        return descent.path_of(local, ADD_REMOVE, BUDGET, zcdp(rho), rows).iterations

    assert steps(1, 100_000) == descent.ITERATIONS[-1]
    assert steps(Fraction(1, 10**6), 1_000) == descent.ITERATIONS[0]
    assert descent.ITERATIONS[0] < steps(Fraction(1, 10**4), 2_000) < descent.ITERATIONS[-1]
    assert steps(1, None) > 10
    spec = descent.path_of(local, ADD_REMOVE, BUDGET, zcdp(1), 1_000, iterations=50)
    losses = [path_loss(spec, ADD_REMOVE, zcdp(Fraction(1, k)), 1_000) for k in (1, 10, 1_000)]
    assert losses == sorted(losses)
    assert path_loss(spec, REPLACE_ONE, zcdp(Fraction(1, 1_000)), 1_000) > losses[-1]


def test_products_are_exact_however_large_the_sums():
    draw = np.random.default_rng(0)
    n = 6
    A = draw.integers(-(2**62), 2**62, (n, n))
    A = np.triu(A) + np.triu(A, 1).T
    b = draw.integers(-(2**62), 2**62, n)
    points = draw.integers(-16 * FINE, 16 * FINE, (3, n))
    sums = Sums(np.concatenate([A.ravel(), b]), n)
    divisor = 2**35
    for point in points:
        products = [sum(int(a) * int(p) for a, p in zip(line, point, strict=True)) for line in A]
        exact = [2 * (product - FINE * int(t)) for product, t in zip(products, b, strict=True)]
        rounded = sums.gradient(point, divisor)
        assert all(abs(Fraction(e, divisor) - r) <= Fraction(1, 2) for e, r in zip(exact, rounded, strict=True))
        found = length(rounded)
        assert found**2 <= sum(v * v for v in rounded) < (found + 1) ** 2
    assert sums.lengths(points, divisor) == [length(sums.gradient(point, divisor)) for point in points]
    assert 3 * PIECE == 63


def test_a_step_stays_in_the_ball_and_goes_against_the_gradient(local):
    for radius in (0.5, 1.0, 4.0):
        slope = path(local, radius)
        small = slope.follow(slope.start(), [int(slope.unit), 0, 0, 0], 4, 0.0, 100)
        assert small[0] == pytest.approx(-FINE * radius / slope.steepest / 2 / 100, rel=1e-4)  # eta(4) = r / (c 2)
        assert small[1:].tolist() == [0, 0, 0]
        far = slope.follow(small, [10**14, -(10**14), 0, 0], 1, 0.0, 100)
        assert np.linalg.norm(far) == pytest.approx(FINE * radius, rel=1e-5)
        noisy = slope.follow(slope.start(), [int(slope.unit), 0, 0, 0], 4, 100 * slope.unit, 100)
        assert abs(noisy[0]) < abs(small[0])  # the rate knows the noise


def test_noise_widens_the_intervals_and_the_deviation_is_no_less_than_what_happens(make_table, frame, model, local):
    """The spread of 60 paths, coordinate by coordinate, against the bound."""
    cost, ends = zcdp(Fraction(1, 100)), []
    table = make_table(frame, budget=dpx.Budget(100, 1e-6))
    spec = descent.path_of(local, table.neighbours, table.budget, cost, 400, iterations=12)
    predictor = model.checked(table.domain)
    for number in range(60):
        identity = {"spec": spec.to_json(), "number": number, "table": table.identity}
        found = table.door.release("t", identity, cost, lambda gate: descent.send(table, gate, predictor, spec, cost))
        ends.append(spec.replay(Released(found.payload["parts"])))
    seen = np.array([point for point, _ in ends]).std(axis=0).max() / FINE
    assert seen < 1.6 * ends[0][1]  # a factor for 4 standard deviations of 60 draws, and the largest of four
    assert seen > 0.2 * ends[0][1]  # and it is not far off
    record = dict(local.record)
    parts = Released(found.payload["parts"], table.size)
    fit = spec.fit(parts, Asked(record, notes=("a note",), value=0.7))
    assert fit.spread(np.eye(SPACE.size)).tolist() == pytest.approx([ends[0][1] * local.unit] * SPACE.size)
    assert (fit.value, fit.notes) == (0.7, ("a note", UNSETTLED))
    assert not fit.settled
    assert spec.read(parts, Asked(record)).value == 0.5
    moved = {**record, "age": 29.0}
    assert "another record" in spec.fit(parts, Asked(moved)).notes[0]
    for other in (Asked(moved), Asked(record, value=0.7)):
        with pytest.raises(dpx.errors.VerificationError, match="another record"):
            spec.read(parts, other)
    with pytest.raises(ValueError, match="no prediction"):
        spec.fit(parts, Asked(record, value=123.0))


def test_a_release_that_was_altered_is_no_path(make_table, frame, model, local):
    table, cost = make_table(frame, budget=BUDGET), zcdp(1)
    spec = descent.path_of(local, table.neighbours, table.budget, cost, 400, iterations=3)
    found, _ = released(table, model, spec, cost)
    found.payload["parts"]["gradient-2"]["values"].pop()
    with pytest.raises(ValueError, match="another size"):
        spec.replay(Released(found.payload["parts"]))
    assert Descent.from_json(found.request["spec"]) == spec
    with pytest.raises(ValueError, match="no radius"):
        Descent.from_json({**found.request["spec"], "radius": 1e9})
