"""The mathematics of local models: coordinates, weights and their constants, exact sums, the ball, the moments."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import dpexplain as dpx
from dpexplain.core.domain import PublicRange
from dpexplain.core.sensitivity import Neighbours, Relation, Unit
from dpexplain.maths.surrogate import Local, Quadratic, Space, StepWeight
from dpexplain.maths.surrogate import moments as moments_module
from dpexplain.maths.surrogate.local import stable
from dpexplain.maths.surrogate.moments import SCALES, Moments
from gradients import gradient_bound

DOMAIN = dpx.Domain(
    {"age": dpx.Numeric(20, 60), "sex": dpx.Categorical(["f", "m"]), "code": dpx.Categorical([1, 2, 3])}
)
SPACE = Space(DOMAIN, ("age", "sex", "code"))
RECORD = {"age": 30.0, "sex": "m", "code": 2}


def columns(n: int) -> Space:
    domain = dpx.Domain({f"x{i}": dpx.Numeric(0, 1) for i in range(n)})
    return Space(domain, tuple(domain))


def around(space: Space, record, *, weight="stable", anchor=0.0, width=1.0, output=(-1, 1)) -> Local:
    steps = StepWeight.of(weight, space.diameter, width=width)
    return Local(space, steps, PublicRange(*output), space.read(record), anchor)


class TestSpace:
    def test_coordinates_of_numbers_and_categories(self):
        clean = {"age": np.array([20.0, 50.0]), "sex": np.array([0, 1]), "code": np.array([2, 0])}
        half = math.sqrt(0.5)
        np.testing.assert_allclose(SPACE.coordinates(clean, 2), [[0, half, 0, 0, 0, half], [0.75, 0, half, half, 0, 0]])
        assert SPACE.names == ["age", "sex=f", "sex=m", "code=1", "code=2", "code=3"]
        np.testing.assert_allclose(SPACE.locate(SPACE.read(RECORD)), [0.25, 0, half, 0, half, 0])
        np.testing.assert_allclose(SPACE.by_feature(np.arange(6.0)), [0, 3, 12])

    def test_every_feature_counts_at_most_one_in_squared_distance(self):
        far = SPACE.locate(SPACE.read([60, "f", 1])) - SPACE.locate(SPACE.read([20, "m", 3]))
        np.testing.assert_allclose(SPACE.by_feature(far**2), [1, 1, 1])
        assert SPACE.diameter == pytest.approx(np.linalg.norm(far))

    @pytest.mark.parametrize("record", [RECORD, list(RECORD.values()), pd.Series(RECORD), {**RECORD, "other": 1}])
    def test_a_record_comes_by_name_or_in_order(self, record):
        assert SPACE.read(record) == RECORD

    @pytest.mark.parametrize(
        ("record", "message"),
        [
            ([30, "m"], "has 2 values; 3 are needed"),
            ({"age": 30}, "no value for 'sex', 'code'"),
            ([61, "m", 1], "age=61 lies outside the declared range 20 to 60"),
            ([math.inf, "m", 1], "age=inf is not a finite number"),
            (["30", "m", 1], "not a finite number"),
            ([True, "m", 1], "not a finite number"),
            ([30, "x", 1], "sex='x' is not a declared category"),
            ([30, "m", "1"], "code='1' is not a declared category"),
            ("30m1", "a record is a mapping"),
            (None, "a record is a mapping"),
            (np.zeros((3, 3)), "has 3 values; 3 are needed"),
        ],
    )
    def test_a_record_that_is_none_of_ours(self, record, message):
        with pytest.raises(dpx.InputError, match=message):
            SPACE.read(record)

    @pytest.mark.parametrize("features", [(), ("age", "age"), ("height",)])
    def test_features_are_declared_and_named_once(self, features):
        with pytest.raises(dpx.InputError):
            Space(DOMAIN, features)

    def test_survives_json(self):
        again = Space.from_json(SPACE.to_json())
        assert (again.features, again.names) == (SPACE.features, SPACE.names)


class TestWeights:
    @pytest.mark.parametrize(
        ("name", "constant"),
        [("stable", 1.0), ("exponential", 1.68), ("gaussian", 1.53)],  # the paper says 1 for all three
    )
    def test_constants_of_the_gradient(self, name, constant):
        weight = StepWeight.of(name, math.sqrt(13))
        assert gradient_bound(weight, Relation.ADD_REMOVE) == pytest.approx(constant, rel=0.006)
        u = np.linspace(0, math.sqrt(13), 100_000)
        exact = {"stable": stable(u), "exponential": np.exp(-u), "gaussian": np.exp(-(u**2))}[name]
        assert float((2 * u * (u + 1) * exact).max()) == pytest.approx(constant, rel=0.006)

    def test_a_step_function_near_the_function(self):
        weight = StepWeight.of(lambda u: math.exp(-u), 2.0)
        u = np.linspace(0, 2, 1001)
        np.testing.assert_allclose(weight(u), np.exp(-u), atol=3e-4)
        assert (weight.edges[np.minimum((u * 2048).astype(int), 4095)] >= u).all()

    @pytest.mark.parametrize(
        ("weight", "message"),
        [
            ("nearest", "unknown weight 'nearest'"),
            (3, "a name or a function"),
            (lambda u: 1 / (u - u), "fails on a distance: ZeroDivisionError"),
            (lambda u: 2.0, "between 0 and 1"),
            (lambda u: math.nan, "between 0 and 1"),
            (lambda u: 0.0, "somewhere above 0"),
        ],
    )
    def test_what_is_no_weight(self, weight, message):
        with pytest.raises(dpx.InputError, match=message):
            StepWeight.of(weight, 1.0)

    @pytest.mark.parametrize("width", [0, -1, math.nan, "wide", True])
    def test_what_is_no_width(self, width):
        with pytest.raises(dpx.InputError, match="width of a weight"):
            StepWeight.of("stable", 1.0, width=width)

    def test_survives_json(self):
        for weight in (StepWeight.of("gaussian", 2.0, width=0.5), StepWeight.of(lambda u: 1 / (1 + u), 2.0)):
            np.testing.assert_array_equal(StepWeight.from_json(weight.to_json()).values, weight.values)
        bad = {**weight.to_json(), "values": [2.0] * 4096}
        with pytest.raises(ValueError, match="no weights"):
            StepWeight.from_json(bad)


class TestBall:
    @pytest.mark.parametrize("seed", range(12))
    def test_equals_a_general_purpose_optimiser(self, seed):
        draw = np.random.default_rng(seed)
        n = int(draw.integers(1, 8))
        root = draw.normal(size=(n, n + 1))
        A, b = root @ root.T / n, draw.normal(size=n) * draw.choice([0.05, 0.5, 5])
        ridge, radius = float(draw.choice([0.0, 0.3])), float(draw.choice([0.5, 1.0, 3.0]))
        problem = Quadratic(A, b, ridge, radius)

        def loss(phi):
            return phi @ A @ phi - 2 * b @ phi + ridge * phi @ phi

        found = minimize(
            loss,
            np.zeros(n),
            jac=lambda phi: 2 * (A @ phi - b + ridge * phi),
            method="SLSQP",
            constraints={"type": "ineq", "fun": lambda phi: radius**2 - phi @ phi, "jac": lambda phi: -2 * phi},
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        assert np.linalg.norm(problem.solution) <= radius * (1 + 1e-12)
        assert loss(problem.solution) <= found.fun + 1e-9 * (1 + abs(found.fun))
        np.testing.assert_allclose(problem.solution, found.x, atol=2e-4)

    def test_negative_and_missing_directions_are_harmless(self):
        problem = Quadratic(np.diag([1.0, 0.0, -2.0]), np.array([0.5, 0.0, 0.0]), 0.0, 1.0)
        np.testing.assert_allclose(problem.solution, [0.5, 0, 0], atol=1e-12)
        assert np.isfinite(Quadratic(np.zeros((2, 2)), np.zeros(2)).solution).all()
        np.testing.assert_allclose(Quadratic(np.eye(2) * 1e-6, np.array([3.0, 4.0])).solution, [0.6, 0.8])

    def test_solve_is_the_inverse_with_the_multiplier_of_the_solution(self):
        problem = Quadratic(np.diag([1.0, 2.0]), np.array([5.0, 1.0]), 0.5, 1.0)
        np.testing.assert_allclose(problem.solve(problem.b), problem.solution)
        np.testing.assert_allclose(problem.solve(np.stack([problem.b, -problem.b], axis=1))[:, 1], -problem.solution)


class TestLocal:
    @pytest.mark.parametrize("anchor", [-1.0, 0.0, 0.4])
    def test_sums_are_exact_and_near_the_moments_of_the_loss(self, anchor):
        draw, space = np.random.default_rng(0), columns(3)
        local = around(space, [0.2, 0.5, 0.9], anchor=anchor)
        x, f = draw.uniform(0, 1, (500, 3)), draw.uniform(-1.5, 1.5, 500)
        f[:3] = [np.nan, np.inf, -np.inf]
        gram = local.gram(x, f)
        y, t = local._quantised(x, f)
        exact = [
            sum(int(a) * int(b) for a, b in zip(y[:, i], y[:, j], strict=True)) for i in range(3) for j in range(3)
        ]
        exact += [sum(int(a) * int(b) for a, b in zip(t, y[:, i], strict=True)) for i in range(3)]
        assert gram.tolist() == exact
        clipped = np.where(np.isnan(f), 0.0, np.clip(f, -1, 1))
        d, g = x - [0.2, 0.5, 0.9], (clipped - anchor) / (1 + abs(anchor))
        a = stable(np.linalg.norm(d, axis=1))
        expected = np.concatenate([((d * a[:, None]).T @ d).ravel(), (a * g) @ d]) * local.levels**2
        np.testing.assert_allclose(gram, expected, rtol=2e-3, atol=1e-3 * abs(expected).max())

    @pytest.mark.parametrize("weight", ["stable", "gaussian", lambda u: 1.0])
    def test_no_row_is_longer_than_its_step_allows(self, weight):
        draw, space = np.random.default_rng(1), columns(4)
        local = around(space, [0, 0, 0, 0], weight=weight, anchor=-1.0)
        x = draw.uniform(0, 1, (4000, 4)) * draw.uniform(0, 1, (4000, 1)) ** 2
        x[:2] = [[1, 1, 1, 1], [0, 0, 0, 0]]
        y, t = local._quantised(x, draw.choice([-1.0, 1.0], 4000))
        step = np.minimum((np.linalg.norm(x, axis=1) * (4096 / 2.0)).astype(int), 4095)
        longest = local.longest
        lengths = np.linalg.norm(y, axis=1)
        assert (lengths <= longest[0][step]).all()
        assert (abs(t) <= longest[1][step]).all()
        assert lengths.max() > 0.99 * longest[0][step].max()

    def test_units_and_reach(self):
        local = around(SPACE, RECORD, anchor=7.5, output=(0, 10))
        assert local.reach == pytest.approx(1.5)
        assert local.unit == pytest.approx(7.5)
        again = Local.from_json(local.to_json())
        np.testing.assert_array_equal(again.centre, local.centre)
        assert (again.levels, again.unit) == (local.levels, local.unit)

    def test_products_stay_exact_for_wide_spaces(self):
        local = around(columns(400), [0.0] * 400, weight=lambda u: 1.0)
        assert local.longest[0].max() * np.sqrt(2**14) < 2**53 / local.longest[0].max()


class TestMoments:
    def test_constants_for_thirteen_columns(self):
        local = around(columns(13), [0.5] * 13)
        one = Moments(local, Fraction(1), 1.0)
        unit = local.levels**2
        assert one.distance(Relation.ADD_REMOVE) / unit == pytest.approx(0.406, abs=0.001)
        assert one.distance(Relation.REPLACE_ONE) / unit == pytest.approx(0.732, abs=0.001)
        for relation, scale, bound in (
            (Relation.ADD_REMOVE, Fraction(9, 8), 0.434),
            (Relation.REPLACE_ONE, Fraction(3, 4), 0.566),
        ):
            chosen = Moments.of(local, relation, 1.0)
            assert chosen.scale == scale
            assert chosen.distance(relation) / unit == pytest.approx(bound, abs=0.001)
        wide = Moments(local, Fraction(8, 5), 1.0)
        assert wide.distance(Relation.ADD_REMOVE) / unit == pytest.approx(0.601, abs=0.001)

    @pytest.mark.parametrize(
        "weight", ["stable", "exponential", "gaussian", lambda u: 1.0, lambda u: abs(math.sin(9 * u))]
    )
    @pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(3)])
    def test_blocks_of_steps_find_the_farthest_pair(self, weight, scale, monkeypatch):
        moments = Moments(around(columns(3), [0.1, 0.2, 0.3], weight=weight), scale, 1.0)
        Y, T = (largest[3::16] for largest in moments.local.longest)  # every pair of some of the steps
        some = math.sqrt(moments._pairs(Y, T).max())
        found = moments.distance(Relation.REPLACE_ONE)
        assert some <= found <= 1.03 * some
        monkeypatch.setattr(moments_module, "MOST_STEPS", 0)
        assert found <= moments.distance(Relation.REPLACE_ONE) <= 1.05 * found  # coarser, never below

    @pytest.mark.parametrize("relation", list(Relation))
    def test_the_scale_is_the_one_of_the_smallest_forecast_loss(self, relation):
        local = around(columns(13), [0.5] * 13)
        chosen = Moments.of(local, relation, 1.0)
        losses = {s: Moments(local, s, 1.0).distance(relation) ** 2 * (0.5 + 1 / float(s) ** 2) for s in SCALES}
        assert losses[chosen.scale] == min(losses.values())
        assert chosen.scale not in (SCALES[0], SCALES[-1])

    def test_the_bound_counts_rows_of_a_unit_and_rounding_once(self):
        moments = Moments.of(around(columns(3), [0, 0, 0]), Relation.ADD_REMOVE, 1.0)
        one, three = (moments.bound(Neighbours(Relation.ADD_REMOVE, u)) for u in (None, Unit("id", 3)))
        distance = moments.distance(Relation.ADD_REMOVE)
        assert one == math.floor(distance + 3) + 1  # nine numbers
        assert three == math.floor(3 * distance + 3) + 1

    def test_packed_sums_come_back(self):
        local = around(columns(3), [0.1, 0.2, 0.3])
        moments = Moments.of(local, Relation.REPLACE_ONE, 1.0)
        draw = np.random.default_rng(3)
        gram = local.gram(draw.uniform(0, 1, (50, 3)), draw.uniform(-1, 1, 50))
        A, b = moments.unpack(np.array(moments.pack(gram)))
        np.testing.assert_allclose(A.ravel(), gram[:9], rtol=1e-6, atol=2)
        np.testing.assert_allclose(b, gram[9:], rtol=1e-6, atol=2)

    def test_sums_of_billions_of_rows_do_not_wrap_around(self):
        moments = Moments.of(around(columns(2), [0, 0]), Relation.ADD_REMOVE, 1.0)
        packed = moments.pack(np.array([2**62, 2**61, 2**61, 2**62, -(2**62), 2**62]))
        assert packed[0] == 2**62
        assert packed[1] == (math.isqrt(2 << 40) * 2**61) >> 20
        assert packed[3] == math.floor(-(2**62) * moments.scale)

    def test_the_spread_is_that_of_the_noise(self):
        """Against draws of Gaussian noise: 4,000 of them tell a standard deviation to 1.1 %, and 6 sigma are allowed.
        The spread also counts the pull of the ridge, so it may be up to a half too large here."""
        local, draw = around(columns(3), [0.1, 0.2, 0.3]), np.random.default_rng(4)
        moments = Moments.of(local, Relation.ADD_REMOVE, 1.0)
        x = draw.uniform(0, 1, (3000, 3))
        exact = np.array(moments.pack(local.gram(x, 0.5 * (x[:, 0] - 0.1) - 0.3 * (x[:, 1] - 0.2))))
        std, lines = 0.5e9, np.array([[1.0, 0, 0], [0, 1, 0], [0.3, 0.3, -1]])
        noisy = draw.normal(0, std, (4000, moments.size))
        found = np.array([moments.fit(np.rint(exact + z).astype(np.int64), std).coefficients @ lines.T for z in noisy])
        told = moments.fit(exact, std).spread(lines)
        assert (found.std(axis=0) < 1.07 * told).all()
        assert (told < 1.6 * found.std(axis=0)).all()

    def test_a_note_when_noise_drowns_the_rows(self):
        local = around(columns(3), [0.1, 0.2, 0.3])
        moments = Moments.of(local, Relation.ADD_REMOVE, 1.0)
        values = np.zeros(moments.size, dtype=np.int64)
        assert "noise is as large" in moments.fit(values, 1e9).notes[0]
        assert np.isfinite(moments.fit(values, 1e9).spread(np.eye(3))).all()

    def test_a_forecast_falls_with_more_rows_and_is_bounded_by_the_ball(self):
        moments = Moments.of(around(columns(3), [0.1, 0.2, 0.3]), Relation.ADD_REMOVE, 1.0)
        A, std = np.eye(3) / 50, 1e10
        losses = [moments.forecast_loss(A, std, rows) for rows in (1, 10**3, 10**5, 10**7)]
        assert losses == sorted(losses, reverse=True)
        assert losses[0] <= 2 * 1 / 50
        assert losses[2] / losses[3] == pytest.approx(10**4, rel=0.05)

    @pytest.mark.parametrize("change", [{"scale": "7/5"}, {"radius": 0}, {"radius": math.inf}])
    def test_survives_json_and_nothing_else_does(self, change):
        moments = Moments.of(around(SPACE, RECORD), Relation.ADD_REMOVE, 1.0)
        assert Moments.from_json(moments.to_json()).bound(Neighbours(Relation.REPLACE_ONE)) == moments.bound(
            Neighbours(Relation.REPLACE_ONE)
        )
        with pytest.raises(ValueError, match="no moments"):
            Moments.from_json({**moments.to_json(), **change})


def test_a_function_is_never_taken_for_a_named_weight():
    def gaussian(u):
        return math.exp(-((u / 0.15) ** 2))

    own, named = StepWeight.of(gaussian, 2.0), StepWeight.of("gaussian", 2.0)
    assert own.to_json() != named.to_json()
    np.testing.assert_array_equal(StepWeight.from_json(own.to_json()).values, own.values)
