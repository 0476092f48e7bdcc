"""With a sampler that adds nothing, the released curve is the plain accumulated local effect."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.methods.accumulated_effects.release import accumulated_effects
from examples import score

STEP = 2.0**-18  # rounding of each row's difference, added up along the curve

DOMAIN = dpx.Domain(
    {
        "hour": dpx.Numeric(0, 5, integer=True),
        "load": dpx.Numeric(-2, 2),
        "wide": dpx.Numeric(0, 5000, integer=True),
        "kind": dpx.Categorical(["p", "q", "r", "s"]),
        "only": dpx.Categorical(["one"]),
        "constant": dpx.Numeric(0, 9, integer=True),
    }
)
PROTECTIONS = [
    {"relation": "replace-one"},
    {"relation": "add-remove"},
    {"relation": "replace-one", "unit": dpx.Unit("id", 40)},
    {"relation": "add-remove", "unit": dpx.Unit("id", 40)},
]


@pytest.fixture
def rows() -> pd.DataFrame:
    draw = np.random.default_rng(3)
    n = 3000
    kind = draw.choice(["p", "q", "r", "s"], n, p=[0.5, 0.3, 0.15, 0.05])
    hour = np.clip(draw.poisson(2, n), 0, 5)
    return pd.DataFrame(
        {
            "hour": hour,
            "load": np.clip(draw.normal(0, 0.7, n) + 0.2 * hour, -2, 2),
            "wide": draw.integers(0, 5001, n),
            "kind": kind,
            "only": "one",
            "constant": 4,
            "id": draw.integers(0, 1000, n),
        }
    )


def tangled(frame: pd.DataFrame) -> np.ndarray:
    hour, load = frame["hour"].to_numpy(), frame["load"].to_numpy()
    codes = frame["kind"].map({"p": 0.0, "q": 1.0, "r": 4.0, "s": 2.0}).to_numpy(dtype=float)
    return 0.3 + 0.02 * hour**2 * (load > 0) + 0.05 * codes * (hour > 2) + 0.03 * np.sin(3 * load)


def model(function=tangled) -> dpx.Model:
    return dpx.Model(function, output=(0, 2), name="tangled", version="1")


def plain(frame, feature, points, function=tangled):
    """The textbook: rows in (a, b], the first bin with its lower end; means of f(b) - f(a), added up, centred."""
    values = frame[feature].to_numpy()
    curve = [0.0]
    for k, (a, b) in enumerate(itertools.pairwise(points)):
        inside = frame[(values <= b) & ((values > a) | (k == 0))]
        gap = function(inside.assign(**{feature: b})) - function(inside.assign(**{feature: a}))
        curve.append(curve[-1] + gap.mean())
    return np.array(curve) - np.interp(values, points, curve).mean()


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_equals_the_textbook_under_every_relation(make_table, rows, protection):
    table = make_table(rows, exact=True, domain=DOMAIN, **protection)
    curve = accumulated_effects(table, model(), "hour", epsilon=5, clip=2, smooth=False)
    points = list(curve.to_frame()["hour"])
    assert points[0] == 0
    assert points[-1] == 5
    np.testing.assert_allclose(curve.values, plain(rows, "hour", points), atol=len(points) * STEP)


def test_categories_use_the_rows_of_both_neighbours(make_table, rows):
    table = make_table(rows, exact=True, domain=DOMAIN)
    curve = accumulated_effects(table, model(), "kind", epsilon=1, clip=2, smooth=False)
    names, expected = list("pqrs"), [0.0]
    for a, b in itertools.pairwise(names):
        both = rows[rows["kind"].isin([a, b])]
        expected.append(expected[-1] + (tangled(both.assign(kind=b)) - tangled(both.assign(kind=a))).mean())
    shares = rows["kind"].value_counts(normalize=True)[names].to_numpy()
    np.testing.assert_allclose(curve.values, np.array(expected) - shares @ expected, atol=4 * STEP)
    assert curve.to_frame()["kind"].tolist() == names


def test_in_the_paper_a_row_of_a_category_is_in_one_interval(make_table, rows):
    """Each step by the rows of the category that it leads to; the first one by those that it comes from, too."""
    table = make_table(rows, exact=True, domain=DOMAIN)
    curve = accumulated_effects(table, model(), "kind", epsilon=1, method="paper")
    names, expected = list("pqrs"), [0.0]
    for a, b in itertools.pairwise(names):
        own = rows[rows["kind"].isin([a, b] if a == "p" else [b])]
        expected.append(expected[-1] + (tangled(own.assign(kind=b)) - tangled(own.assign(kind=a))).mean())
    shares = rows["kind"].value_counts(normalize=True)[names].to_numpy()
    np.testing.assert_allclose(curve.values, np.array(expected) - shares @ expected, atol=4 * STEP)
    again = dpx.from_json(curve.to_json())
    np.testing.assert_allclose(again.values, curve.values)
    low, high = curve.interval()
    assert ((low <= curve.values) & (curve.values <= high)).all()


def test_a_generic_plot_of_effects_has_the_same_definition(make_table, rows):
    """Of one part that holds all rows: ours is ours in both designs, and the paper's the paper's."""
    table = make_table(rows, exact=True, domain=DOMAIN)
    options = {"model": model(), "output": (-2, 2), "parts": 1, "epsilon": 1, "smooth": False}
    found = {}
    for method in ("default", "paper"):
        special = accumulated_effects(table, model(), "kind", epsilon=1, clip=2, smooth=False, method=method)
        generic = dpx.generic_plot(table, "ale", "kind", method=method, **options)
        np.testing.assert_allclose(generic.values, special.values, atol=8 * STEP)
        found[method] = generic
    assert np.abs(found["default"].values - found["paper"].values).max() > 100 * STEP
    plain = dpx.generic_plot(table, "ale", "kind", mechanism="discrete-laplace", grid=20, **options)
    assert not plain.receipt.replayed  # another definition is another request for the ledger
    assert plain.values == pytest.approx(found["default"].values, abs=8 * STEP)


@pytest.mark.parametrize("method", ["default", "paper"])
def test_a_linear_model_has_its_coefficient_as_slope(make_table, rows, method):
    def linear(frame):
        return 0.5 + 0.04 * frame["hour"].to_numpy() + 0.1 * frame["load"].to_numpy()

    # faithful bins take their rows as equally many, which a column with ties does not have
    features = ["hour", "load", "wide"] if method == "default" else ["load", "wide"]
    slopes = {"hour": 0.04, "load": 0.1, "wide": 0.0}
    table = make_table(rows, exact=True, domain=DOMAIN)
    for curve in accumulated_effects(table, model(linear), features, epsilon=5, method=method, smooth=False):
        x = np.asarray(curve.axes[0].points)
        tolerance = 1e-3 if method == "default" else 0.02
        np.testing.assert_allclose(np.diff(curve.values), slopes[curve.feature] * np.diff(x), atol=tolerance)


def test_several_features_share_one_release_and_its_two_passes(make_table, rows):
    table = make_table(rows, exact=True, domain=DOMAIN)
    passes = []
    read, table.sum_rows = table.sum_rows, lambda *args, **options: passes.append(1) or read(*args, **options)
    curves = accumulated_effects(table, model(), ["hour", "load", "kind"], epsilon=2, clip=2, smooth=False)
    assert len(passes) == 2
    assert table.ledger.statement(table.name).spent.amount == 2
    assert [curve.feature for curve in curves] == ["hour", "load", "kind"]
    for curve in curves[:2]:
        points = list(curve.axes[0].points)
        np.testing.assert_allclose(curve.values, plain(rows, curve.feature, points), atol=2e-3)


def test_values_on_the_edges_of_cells_are_counted_where_their_differences_are(make_table):
    """A continuous column whose values all lie on edges of cells, as percentages do."""
    draw = np.random.default_rng(0)
    percent = draw.integers(0, 101, 2000) / 100

    def steep(frame):
        return frame["percent"].to_numpy() ** 2

    domain = dpx.Domain({"percent": dpx.Numeric(0, 1)})
    table = make_table(pd.DataFrame({"percent": percent}), exact=True, domain=domain)
    curve = accumulated_effects(table, dpx.Model(steep, output=(0, 1)), "percent", epsilon=10, clip=1, smooth=False)
    x = np.asarray(curve.axes[0].points)
    np.testing.assert_allclose(np.diff(curve.values), np.diff(x**2), atol=1e-4)


def test_an_ignored_feature_a_constant_one_and_one_with_a_single_category(make_table, rows):
    table = make_table(rows, exact=True, domain=DOMAIN)
    curves = accumulated_effects(table, model(), ["wide", "constant", "only"], epsilon=1)
    for curve in curves:
        np.testing.assert_allclose(curve.values, 0, atol=1e-9)
        assert curve.interval()[0].shape == curve.values.shape
    assert curves["only"].to_frame()["only"].tolist() == ["one"]


def test_the_rug_is_the_histogram_of_the_same_release(make_table, rows):
    table = make_table(rows, exact=True, domain=DOMAIN)
    curves = accumulated_effects(table, model(), ["kind", "hour"], epsilon=1)
    assert curves["hour"].rug[0].counts.tolist() == np.bincount(rows["hour"], minlength=6).tolist()
    assert curves["kind"].rug[0].counts.tolist() == [(rows["kind"] == k).sum() for k in "pqrs"]


def test_differences_are_clipped_and_failures_count_as_none(make_table, frame):
    def odd(rows):
        age = rows["age"].to_numpy(dtype=float)
        return np.where(rows["income"] == 100, np.nan, np.where(age >= 25, 0.9, 0.1))

    table = make_table(frame.assign(income=[100.0] * 100 + [10.0] * 300), exact=True)
    curve = accumulated_effects(table, dpx.Model(odd, output=(0, 1)), "age", epsilon=10, clip=0.2, smooth=False)
    edge = list(curve.axes[0].points).index(25.0)
    inside = frame.assign(fails=[True] * 100 + [False] * 300)[frame["age"].between(25, 25)]
    assert np.diff(curve.values)[edge - 1] == pytest.approx(0.2 * (1 - inside["fails"].mean()), abs=1e-5)


def test_faithful_form_uses_quantiles_equal_mass_and_laplace(make_table, rows):
    table = make_table(rows, exact=True, domain=DOMAIN)
    curve = accumulated_effects(table, model(), "load", epsilon=1, method="paper")
    inner = np.quantile(rows["load"], np.arange(1, 20) / 20)
    np.testing.assert_allclose(curve.axes[0].points, [-2, *inner, 2], atol=0.02)
    np.testing.assert_allclose(curve.bins.rows, 3000 / 20)
    noise = curve.part("effects")[1]
    assert noise.law == "discrete-laplace"
    # 2 (max - min) / epsilon_effects for the sum of differences of a bin, with 4/9 of epsilon
    assert float(noise.scale) * 2 * curve.spec.clip / curve.spec.levels == pytest.approx(2 * 2 / (4 / 9))
    np.testing.assert_array_equal(curve.values, curve.raw)


def test_the_example_of_the_docs(make_table, frame):
    table = make_table(frame, exact=True)
    curve = accumulated_effects(table, dpx.Model(score, output=(0, 1)), "age", epsilon=10, clip=1, smooth=False)
    np.testing.assert_allclose(np.diff(curve.values), 0.04 * np.diff(curve.axes[0].points), atol=1e-5)
