"""What is refused before anything is paid, what is kept, and the arithmetic after the door."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dpexplain as dpx
from dpexplain.maths.binning import Steps, equal_mass, merge, steps_of
from dpexplain.maths.smoothing import shrink
from examples import DOMAIN as DOMAIN_OF_EXAMPLES

DOMAIN = dpx.Domain({"few": dpx.Numeric(0, 4, integer=True), "many": dpx.Numeric(-3, 9_999, integer=True)})


def spent(table):
    return table.ledger.statement(table.name).spent.amount


@pytest.mark.parametrize(
    ("feature", "options", "message"),
    [
        ([], {}, "name at least one feature"),
        ([("age", "sex")], {}, "not of pairs"),
        (["age", "age"], {}, "named twice"),
        ("age", {"clip": float("inf")}, "clip must be a number above 0"),
        ("age", {"clip": 10**400}, "clip must be a number above 0"),
        ("age", {"clip": 1e-4}, "too small a part of the output range"),
        (None, {}, "feature must be a name, or a list of names"),
        ("age", {"epsilon": 1e-30}, "the noise would drown"),
        ("age", {"epsilon": 1e-30, "method": "paper"}, "a draw by lot"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_paid(make_table, frame, model, feature, options, message):
    table = make_table(frame)
    with pytest.raises(dpx.InputError, match=message):
        dpx.accumulated_effects(table, model, feature, **{"epsilon": 1, **options})
    assert spent(table) == 0


def test_a_model_that_fails_on_synthetic_rows_costs_nothing(make_table, frame):
    table = make_table(frame)
    with pytest.raises(dpx.errors.ModelError):
        dpx.accumulated_effects(table, dpx.Model(lambda rows: rows["none"], output=(0, 1)), "age", epsilon=1)
    assert spent(table) == 0


class TestMarginalsReleasedBefore:
    """Their counts take the place of a first pass; the whole price is for the effects."""

    FEATURES = ("age", "sex", "income")

    @pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
    def test_they_give_the_counts(self, make_table, frame, model, relation):
        table = make_table(frame, relation=relation)
        known = dpx.marginals(table, epsilon=1)
        curves = dpx.accumulated_effects(table, model, [*self.FEATURES], epsilon=0.5, marginals=known)
        assert set(curves[0].released["parts"]) == {"effects"}
        assert curves.receipt.request["builds_on"][0]["payload"] == known.receipt.entry.payload_hash
        assert float(spent(table)) == 1.5
        for curve in curves:
            again = dpx.from_json(curve.to_json())
            np.testing.assert_array_equal(again.interval(0.9)[1], curve.interval(0.9)[1])
            dpx.verify(again, table.ledger)
            cells = known.histogram(curve.feature).partition
            assert curve.rug[0].partition.labels == cells.labels[: cells.size - cells.missing]
            curve.plot()
        assert dpx.accumulated_effects(table, model, [*self.FEATURES], epsilon=0.5, marginals=known).receipt.replayed

    def test_without_noise_the_curve_is_that_of_these_cells(self, make_table, frame, model):
        """The exact statistic: with the cells of the default, the same curve as without marginals."""
        table = make_table(frame, exact=True)
        for feature in ("sex", "age"):
            known = dpx.marginals(table, [feature], epsilon=1, cells=100)
            own, given = (
                dpx.accumulated_effects(table, model, feature, epsilon=1, bins=8, marginals=some)
                for some in (None, known)
            )
            np.testing.assert_allclose(given.raw, own.raw, atol=1e-9)

    def test_those_of_another_release_are_refused(self, make_table, frame, model):
        table = make_table(frame)
        known, other = (dpx.marginals(table, ["age"], epsilon=e) for e in (1, 0.5))
        curve = dpx.accumulated_effects(table, model, "age", epsilon=0.5, marginals=known)
        text = json.loads(curve.to_json())
        for marginals in (json.loads(other.to_json()), None):
            text["view"]["marginals"] = marginals
            with pytest.raises((dpx.InputError, dpx.errors.VerificationError)):
                dpx.from_json(json.dumps(text))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"feature": "sex"}, "do not have 'sex'"),
            ({"method": "paper"}, "no use for marginals"),
            ({"feature": "income"}, "more than 101 cells of 'income'"),
        ],
    )
    def test_what_does_not_fit_is_refused_before_anything_is_paid(self, make_table, frame, model, options, message):
        table = make_table(frame)
        known = dpx.marginals(table, ["age", "income"], epsilon=1, cells=300)
        before = spent(table)
        with pytest.raises(dpx.InputError, match=message):
            dpx.accumulated_effects(table, model, **{"feature": "age", "epsilon": 1, "marginals": known, **options})
        with pytest.raises(dpx.InputError, match="another table"):
            dpx.accumulated_effects(make_table(frame, name="other"), model, "age", epsilon=1, marginals=known)
        assert spent(table) == before


@pytest.mark.parametrize("method", ["default", "paper"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_curve_survives_its_file_and_the_ledger(make_table, frame, model, tmp_path, method, relation):
    table = make_table(frame, relation=relation)
    curves = dpx.accumulated_effects(table, model, ["age", "sex", "income"], epsilon=1, method=method)
    for curve in curves:
        again = dpx.from_json(curve.to_json())
        np.testing.assert_array_equal(again.values, curve.values)
        np.testing.assert_array_equal(again.interval(0.9)[1], curve.interval(0.9)[1])
        assert again.axes == curve.axes
        dpx.verify(again, table.ledger)
        curve.plot()
    replayed = dpx.accumulated_effects(table, model, ["age", "sex", "income"], epsilon=1, method=method)
    assert replayed.receipt.replayed
    assert spent(table) == 1
    np.testing.assert_array_equal(replayed.values, curves.values)
    assert curves[0].title == "Accumulated effect of age"


def test_the_model_is_clipped_to_its_output_range_before_differences_are_taken(make_table, frame):
    wide = dpx.Model(lambda rows: (rows["age"].to_numpy() - 20.0) / 2, output=(0, 1))
    curve = dpx.accumulated_effects(make_table(frame, exact=True), wide, "age", epsilon=10, clip=1, smooth=False)
    assert curve.values[-1] - curve.values[0] == pytest.approx(1, abs=1e-4)


def test_a_forecast_knows_that_counts_are_noisy_too(make_table, frame, model):
    request = dpx.requests.AccumulatedEffects(feature="age", bins=5)
    options = {"domain": DOMAIN_OF_EXAMPLES, "relation": "replace-one", "n": 400}
    small, large = (dpx.plan(request, epsilon=e, **options).options[0].error for e in (0.5, 50))
    assert small > 5 * large
    found = dpx.plan(request, max_error=0.2, **options).options[0]
    curve = dpx.accumulated_effects(make_table(frame, exact=True), model, "age", epsilon=found.epsilon)
    low, high = curve.interval()
    assert (high - low).max() / 2 < 3 * 0.2


@pytest.mark.parametrize("method", ["default", "paper"])
def test_a_file_that_was_tampered_with_is_refused_and_nothing_else_happens(make_table, frame, model, method):
    curve = dpx.accumulated_effects(make_table(frame), model, ["age", "sex"], epsilon=1, method=method)[0]
    document = json.loads(curve.to_json())

    def broken(*path_and_value):
        *path, last, value = path_and_value
        copy = json.loads(json.dumps(document))
        place = copy
        for step in path:
            place = place[step]
        place[last] = value
        return json.dumps(copy)

    spec = ("receipt", "request", "spec")
    for text in (
        broken("receipt", "request", "public", 0),
        broken(*spec, "bins", 10**12),
        broken(*spec, "steps", 0, "points", list(range(5000))),
        broken(*spec, "steps", 0, "points", [3, 2, 1]),
        broken(*spec, "steps", 0, "ordered", 0),
        broken(*spec, "steps", 0, "cells", "feature", 7),
        broken(*spec, "steps", 0, "cells", "edges", [0, 1]),
        broken(*spec, "clip", "wide"),
        broken("released", "parts", "effects", "values", [1, 2]),
        broken("released", "parts", "effects", "noise", "scale", "0/1"),
        broken("released", "parts", "counts", "noise", "size", 0),
        curve.to_json().replace('"span": 1.0', '"span": 1e400'),
    ):
        with pytest.raises((dpx.InputError, dpx.errors.VerificationError)):
            dpx.from_json(text)
    assert ("equally full" in curve.caveat) == (method == "paper")
    assert ("cut off" in curve.caveat) == (curve.spec.clip < curve.span)


def test_an_empty_table_is_a_table_like_any_other(make_table, frame, model):
    table = make_table(frame.iloc[:0], relation="add-remove")
    for method in ("default", "paper"):
        for curve in dpx.accumulated_effects(table, model, ["age", "sex"], epsilon=1, method=method):
            assert np.isfinite(curve.values).all()
            assert np.isfinite(curve.interval()[0]).all()


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_nothing_is_cut_off_at_any_price_unless_asked_for(make_table, frame, model, relation):
    table = make_table(frame, budget=dpx.Budget(10**7), relation=relation)
    for epsilon in (0.01, 1, 10**6):
        curve = dpx.accumulated_effects(table, model, "age", epsilon=epsilon)
        assert curve.spec.clip == curve.span == 1.0
        assert "cut off" not in curve.caveat
    assert dpx.accumulated_effects(table, model, "age", epsilon=1, clip=0.25).spec.clip == 0.25
    assert dpx.accumulated_effects(table, model, "age", epsilon=1, clip=7).spec.clip == 1.0


def test_steps_end_on_whole_numbers_and_the_first_cell_joins_the_first_step():
    few, many = steps_of("few", DOMAIN["few"]), steps_of("many", DOMAIN["many"])
    assert few.points == (0, 1, 2, 3, 4)
    assert few.step_of_cell.tolist() == [0, 0, 1, 2, 3]
    assert many.points[0] == -3
    assert many.points[-1] == 9_999
    assert all(x.is_integer() for x in many.points)
    assert many.size == many.cells.size == 100
    assert Steps.from_json(many.to_json()) == many


def test_bins_have_near_equal_mass_when_asked_for():
    edges = equal_mass(np.array([10.0, 10, 10, 10, 100, 10, 10]), 4)
    assert edges.tolist() == [0, 4, 5, 7]
    assert equal_mass(np.zeros(5), 3).tolist()[0] == 0
    assert equal_mass(np.array([1.0]), 10).tolist() == [0, 1]


def test_more_noise_makes_fewer_bins_and_empty_stretches_are_merged():
    steps = steps_of("many", DOMAIN["many"])
    counts = np.zeros(steps.cells.size)
    counts[:30] = 100.0
    fine = merge(steps, counts, count_std=0.1, sum_std=0.1)
    coarse = merge(steps, counts, count_std=20.0, sum_std=50.0)
    assert len(fine) > len(coarse) >= 2
    assert fine[0] == coarse[0] == 0
    assert fine[-1] == coarse[-1] == steps.size
    assert not set(range(32, steps.size)) & set(fine.tolist())  # nothing to learn there
    hopeless = merge(steps, -counts, count_std=5.0, sum_std=5.0)
    assert hopeless.tolist() == [0, steps.size]


def test_shrinking_keeps_clear_steps_and_pulls_noisy_ones_to_the_line():
    widths = np.full(10, 0.1)
    clear = np.linspace(-1, 1, 10)
    np.testing.assert_allclose(shrink(clear, np.full(10, 1e-9), widths, 1.0, trend=True), clear, atol=1e-4)
    line = np.full(10, 0.05)
    noisy = line + np.array([0, 0, 0, 3.0, 0, 0, 0, 0, 0, 0])
    variances = np.where(noisy > 1, 9.0, 1e-6)
    np.testing.assert_allclose(shrink(noisy, variances, widths, 1.0, trend=True), line, atol=0.02)
    assert abs(shrink(np.array([2.0]), np.array([4.0]), np.array([1.0]), 1.0, trend=False)[0]) < 0.6


def test_a_file_from_before_curves_were_cut_opens_as_it_was(make_table, frame, model):
    curve = dpx.accumulated_effects(make_table(frame, relation="add-remove"), model, ["sex", "age"], epsilon=0.02)[0]
    document = json.loads(curve.to_json())
    del document["receipt"]["request"]["spec"]["cut"]
    free = curve._curve._lifted @ np.clip(curve._curve.sums / curve.bins.rows, -curve.spec.clip, curve.spec.clip)
    document["view"]["smoothed"], document["values"] = False, free.tolist()
    again = dpx.from_json(json.dumps(document))
    np.testing.assert_allclose(again.values, free)
    np.testing.assert_allclose(np.clip(free, -1, 1), curve.raw)
    assert np.abs(again.interval()).max() <= 1


@pytest.mark.parametrize(("output", "clip"), [((0, 8e99), None), ((0, 1e-99), 2e-102)])
def test_a_range_that_cannot_be_computed_with_is_refused_before_it_is_paid(make_table, frame, output, clip):
    table, model = make_table(frame), dpx.Model(lambda rows: np.zeros(len(rows)), output=output, version="1")
    with pytest.raises(dpx.InputError):
        dpx.accumulated_effects(table, model, "age", clip=clip, epsilon=1)
    assert table.ledger.statement(table.name).spent.amount == 0
