"""Figures of noisy tables: right without noise, and all of the range where nothing is known.

How often intervals cover is tested in `tests/privacy/test_score_intervals.py`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpexplain.core.noise import Law, Noise
from dpexplain.errors import InputError
from dpexplain.maths.estimates import Estimate, difference, fraction, ratio, smallest_ratio, spread, with_bias
from dpexplain.maths.residuals import FIGURES, ResidualSums
from dpexplain.maths.scores import RATES, SCORES, Decisions, ScoreTable, averaged, share, summed

STILL = Noise(Law.LAPLACE, 64, Fraction(1, 1000))  # no coordinate ever moves
LOUD = Noise(Law.LAPLACE, 64, Fraction(2))
EDGES = np.array([0.0, 0.1, 0.3, 0.5, 0.8, 1.0])
ROWS = 4_000


@pytest.fixture(scope="module")
def rows():
    draw = np.random.default_rng(1)
    score = draw.beta(1.0, 2.0, ROWS)
    return score, (draw.random(ROWS) < 0.8 * score + 0.05).astype(int)


def table_of(score, target, edges=EDGES, noise=STILL, **more):
    cell = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, len(edges) - 2)
    counts = np.zeros((len(edges) - 1, 2))
    np.add.at(counts, (cell, target), 1)
    return ScoreTable(edges, counts, noise, **more)


def exact(score, target, threshold=0.5, edges=EDGES):
    one, chosen = target == 1, score >= threshold
    cell = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, len(edges) - 2)
    gaps = np.bincount(cell, target - score)
    clipped = np.clip(score, 1e-3, 1 - 1e-3)
    above = score[one][:, None] - score[~one]
    return {
        "accuracy": (one == chosen).mean(),
        "selection_rate": chosen.mean(),
        "true_positive_rate": chosen[one].mean(),
        "false_positive_rate": chosen[~one].mean(),
        "true_negative_rate": 1 - chosen[~one].mean(),
        "false_negative_rate": 1 - chosen[one].mean(),
        "precision": one[chosen].mean(),
        "base_rate": one.mean(),
        "auc": (above > 0).mean() + (above == 0).mean() / 2,
        "brier_score": ((score - target) ** 2).mean(),
        "log_loss": -np.log(np.where(one, clipped, 1 - clipped)).mean(),
        "calibration_error": np.abs(gaps).sum() / len(score),
        "mean_prediction": score.mean(),
        "count": float(len(score)),
    }


def inside(estimate, truth, slack=1e-9):
    return estimate.low - slack <= truth <= estimate.high + slack and estimate.low <= estimate.value <= estimate.high


# Without noise --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RATES)
def test_a_rate_at_an_edge_is_exact_without_noise(rows, name):
    got, truth = table_of(*rows).figure(name, 0.5), exact(*rows)[name]
    assert got == Estimate(pytest.approx(truth), pytest.approx(truth), pytest.approx(truth))


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("threshold", [0.05, 0.42, 0.75])
def test_within_a_cell_a_rate_has_all_that_its_rows_may_do(rows, name, threshold):
    got, truth = table_of(*rows).figure(name, threshold), exact(*rows, threshold)[name]
    assert inside(got, truth)
    assert got.bounded == (name != "base_rate")
    if name not in ("base_rate", "precision", "accuracy"):  # the others go one way with the threshold
        k = int(np.searchsorted(EDGES, threshold))
        around = [table_of(*rows).figure(name, float(edge)).value for edge in EDGES[k - 1 : k + 1]]
        assert [got.low, got.high] == pytest.approx(sorted(around), abs=1e-9)


def test_a_precision_of_perhaps_no_rows_is_not_determined(rows):
    assert not table_of(*rows).figure("precision", 0.95).determined


@pytest.mark.parametrize("name", SCORES)
def test_the_cells_are_inside_the_interval(rows, name):
    got, truth = table_of(*rows).figure(name), exact(*rows)[name]
    assert inside(got, truth)
    assert abs(got.value - truth) < 0.25 * (got.high - got.low) + 1e-9, "the value is a good guess besides"


@pytest.mark.parametrize(("sign", "end"), [(1, "high"), (-1, "low")])
def test_the_cells_alone_may_put_auc_at_either_end_of_its_interval(sign, end):
    """Pairs within two cells all ordered rightly, or all wrongly."""
    target = np.repeat([0, 1, 0, 1], [100, 40, 60, 90])
    score = np.repeat([0.2, 0.6], [140, 150]) + np.where(target == 1, sign * 0.05, -sign * 0.05)
    got = table_of(score, target).figure("auc")
    assert 0 < got.low < got.high < 1
    assert getattr(got, end) == pytest.approx(exact(score, target)["auc"])


def test_one_score_for_each_cell_loses_nothing():
    draw = np.random.default_rng(2)
    score = draw.integers(1, 11, 500) / 10
    target = (draw.random(500) < score).astype(int)
    edges = np.arange(0.5, 11) / 10
    table = table_of(score, target, edges, exact=True)
    truth = exact(score, target, 0.45, edges)
    for name in (*RATES, *SCORES):
        got = table.figure(name, 0.45)
        assert (got.low, got.high) == (pytest.approx(truth[name]), pytest.approx(truth[name])), name


def test_a_threshold_at_an_end(rows):
    table = table_of(*rows)
    assert table.figure("selection_rate", 0.0) == Estimate(1.0, 1.0, 1.0)
    end = table.figure("selection_rate", 1.0)  # the last cell may hold scores of exactly 1
    assert end.low == 0
    assert end.high == pytest.approx((rows[0] >= 0.8).mean())


def test_confusion_roc_calibration_are_the_counts_and_rates(rows):
    table, (score, target) = table_of(*rows), rows
    confusion = table.confusion(0.5)
    for true, predicted in product((0, 1), repeat=2):
        number = ((target == true) & ((score >= 0.5) == predicted)).sum()
        assert confusion[true][predicted] == Estimate(number, number, number)
    thresholds, false, true = table.roc()
    assert thresholds.tolist() == EDGES[1:-1].tolist()
    assert [e.value for e in true] == pytest.approx([(score[target == 1] >= t).mean() for t in thresholds])
    assert [e.value for e in false] == pytest.approx([(score[target == 0] >= t).mean() for t in thresholds])
    cell = np.searchsorted(EDGES, score, side="right") - 1
    assert [e.value for e in table.calibration()] == pytest.approx([target[cell == k].mean() for k in range(5)])
    assert [e.value for e in table.rows()] == [(cell == k).sum() for k in range(5)]


# With noise -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", list(Law))
def test_of_no_rows_nothing_is_determined(law):
    table = ScoreTable(EDGES[1:4], np.zeros((2, 2)), Noise(law, 4, Fraction(2)))
    for name in ("accuracy", "true_positive_rate", "precision", "auc", "brier_score"):
        got = table.figure(name, 0.3)
        assert not got.determined, name
        assert got.high - got.low > 0.7, "a Brier score of scores up to 0.5 is at most 0.81"


def test_counts_below_zero_keep_an_interval():
    """However far noise went: the interval begins at what is possible and is never empty."""
    counts = np.array([[900.0, 0.0]] * 3 + [[50.0, -40.0]] * 2)
    for name in RATES:
        got = ScoreTable(EDGES, counts, LOUD).figure(name, 0.5)
        assert 0 <= got.low <= got.high <= 1, name
    assert ScoreTable(EDGES, counts, LOUD).figure("base_rate").low == 0


def test_a_public_number_of_rows_makes_rates_of_everybody_surer(rows):
    """2 of 5 cells above the threshold: n known, their noise is that of 4 of 10 counts, less 4 / 10 of it."""
    private, public = (table_of(*rows, noise=LOUD, total=total) for total in (None, ROWS))
    for name in ("accuracy", "base_rate", "brier_score", "mean_prediction"):
        a, b = (table.figure(name, 0.5) for table in (private, public))
        assert b.high - b.low < a.high - a.low, name
    assert public.figure("count") == Estimate(ROWS, ROWS, ROWS)
    moved = table_of(*rows, noise=LOUD, total=ROWS)
    moved.counts[:] += 7  # noise that the public number shows
    assert moved.figure("accuracy", 0.5).value == pytest.approx(public.figure("accuracy", 0.5).value)


def test_groups_together_have_the_noise_of_all_of_them(rows):
    table = table_of(*rows, noise=LOUD)
    both = summed([table, table])
    assert both.factors == (1.0, 1.0)
    assert (both.counts == 2 * table.counts).all()
    again = averaged([table, both])  # variances 1 and 2
    assert again.factors == pytest.approx((2 / 3, 1 / 3, 1 / 3))
    assert again.counts == pytest.approx(4 / 3 * table.counts)
    widths = [t.figure("count").high - t.figure("count").low for t in (table, both, averaged([table, table]))]
    assert widths[0] / widths[1] == pytest.approx(1 / math.sqrt(2), rel=0.05)
    assert widths[2] / widths[0] == pytest.approx(1 / math.sqrt(2), rel=0.05)


def test_a_share_of_counts():
    assert share([30.0, 20.0], [50.0, 100.0], STILL) == Estimate(0.25, 0.25, 0.25)
    alone, known = share([30.0], [70.0] * 3, LOUD), share([30.0], [70.0] * 3, LOUD, total=240)
    assert known.high - known.low < alone.high - alone.low


@pytest.mark.parametrize("wrong", [{"name": "f1"}, {"name": "accuracy"}, {"name": "accuracy", "threshold": 1.5}])
def test_what_there_is_not_is_refused(rows, wrong):
    with pytest.raises(InputError):
        table_of(*rows).figure(**wrong)


def test_a_score_beyond_0_to_1_has_rates_alone(rows):
    score, target = rows
    table = table_of(10 * score, target, 10 * EDGES)
    assert table.figure("auc") == table_of(score, target).figure("auc")
    with pytest.raises(InputError, match="no probability"):
        table.figure("brier_score")


# Estimates ------------------------------------------------------------------------------------------------------------


def fixed(value, half=0.0, **more):
    """A figure with normal noise, whose interval has this half-width at 95 %."""
    from scipy.special import ndtri

    def at(level):
        wide = half * ndtri((1 + level) / 2) / ndtri(0.975)
        return Estimate(value, max(value - wide, 0.0), min(value + wide, 1.0), **more)

    return at


def test_fieller_is_the_root_of_its_equation():
    """|a - theta (a + b)| = h sqrt((1 - theta)^2 + theta^2), for two noisy numbers of half-width h."""
    got = fraction(30.0, 70.0, lambda theta: 9.0 * math.hypot(1 - theta, theta))
    for end in (got.low, got.high):
        assert abs(30 - 100 * end) == pytest.approx(9.0 * math.hypot(1 - end, end), rel=0.03)
    assert got.value == 0.3
    assert fraction(2.0, 3.0, lambda theta: 9.0 * math.hypot(1 - theta, theta)).determined is False


def test_a_bias_is_less_than_added():
    def half(level):
        from scipy.special import ndtri

        return 2.0 * float(ndtri((1 + level) / 2))

    assert with_bias(half, 0.0, 0.95) == half(0.95)
    assert with_bias(half, 0.01, 0.95) == pytest.approx(half(0.95) + 0.01)
    for bias in (0.5, 2.0, 5.0, 20.0, 500.0):
        assert bias + half(0.9) - 1e-6 <= with_bias(half, bias, 0.95) < bias + half(0.95), bias
    assert with_bias(lambda _: 0.0, 3.0, 0.95) == 3.0


def test_differences_and_ratios_of_independent_figures():
    got = difference(fixed(0.5, 0.03), fixed(0.4, 0.04))
    assert (got.value, got.low, got.high) == pytest.approx((0.1, 0.05, 0.15))
    plain = difference(fixed(0.5, 0.03, bounded=True), fixed(0.4, 0.04))
    assert (plain.low, plain.high) == pytest.approx((0.03, 0.17)), "bounds do not add as squares"
    got = ratio(fixed(0.5, 0.001), fixed(0.4, 0.001))
    wide = 1.25 * math.hypot(0.001 / 0.5, 0.001 / 0.4)
    assert (got.low, got.high) == pytest.approx((1.25 - wide, 1.25 + wide), abs=1e-5)
    assert ratio(fixed(0.5, 0.1), fixed(0.05, 0.1)).high == math.inf
    unknown = difference(lambda _: Estimate(math.nan, 0.0, 1.0), fixed(0.4, 0.1))
    assert not unknown.determined
    assert (unknown.low, unknown.high) == pytest.approx((-0.5, 0.7))


def test_an_end_that_was_cut_off_at_0_or_1_adds_no_squares():
    """Where nearly all rows are at or above a threshold the rate ends at 1, and the noise does not."""

    def whole(_):
        return fraction(60.0, 1.0, lambda theta: 9.0 * math.hypot(1 - theta, theta))

    assert (whole(0.95).cut_low, whole(0.95).cut_high, whole(0.95).high) == (False, True, 1.0)
    assert whole(0.95).scaled(-2.0).cut_low
    low, some = whole(0.95).low, fixed(0.4, 0.04)
    up, down = difference(whole, some), difference(some, whole)
    assert (up.high, down.low) == pytest.approx((0.64, -0.64)), "the ends as they are"
    assert up.low == pytest.approx(-down.high)
    assert up.low > low - 0.44 + 0.01, "on the other side squares are added"
    assert ratio(whole, some).high == pytest.approx(1 / 0.36)
    assert ratio(some, whole).low == pytest.approx(0.36)


def test_a_calibration_error_is_at_most_1_on_both_ends():
    counts = np.zeros((6, 2))  # all rows are predicted wrongly, and noise has made them fewer in all than there are
    counts[0, 1] = counts[-1, 0] = 30.0
    counts[2, 0] = -20.0
    noise = Noise(Law.LAPLACE, 12, Fraction(1, 8))
    got = ScoreTable(np.linspace(0, 1, 7), counts, noise).figure("calibration_error")
    assert got.low <= got.value <= got.high <= 1


def test_the_spread_of_several_figures():
    two = spread([fixed(0.5, 0.03), fixed(0.4, 0.04)])
    assert (two.value, two.low, two.high) == pytest.approx((0.1, 0.05, 0.15))
    assert spread([fixed(0.4, 0.04), fixed(0.5, 0.03)]) == two
    three = spread([fixed(0.5, 0.03), fixed(0.4, 0.04), fixed(0.45, 0.03)])
    assert three.high == pytest.approx(0.15), "the upper end needs no correction"
    assert three.low < two.low, "the lower one holds for all pairs at once"
    assert spread([fixed(0.4, 0.1), fixed(0.4, 0.1)]).low == 0
    odds = spread([fixed(0.5), fixed(0.4)], [fixed(0.9), fixed(0.6)])
    assert (odds.low, odds.value, odds.high) == pytest.approx((0.3, 0.3, 0.3))


def test_a_group_that_is_not_determined_may_be_the_largest_or_the_smallest():
    """It has no part in the value; left out of the interval too, the spread of all groups would not be covered."""

    def unknown(_):
        return Estimate(math.nan, 0.0, 1.0)

    got = spread([fixed(0.5, 0.03), fixed(0.3, 0.04), unknown])
    assert got.value == pytest.approx(0.2)
    assert 0.1 < got.low < 0.2, "what the others show is still there"
    assert got.high >= 0.7
    least = smallest_ratio([fixed(0.5, 0.03), fixed(0.3, 0.04), unknown])
    assert (least.low, least.value) == (0.0, pytest.approx(0.6))
    assert least.high < 1
    assert not spread([fixed(0.5, 0.03), unknown]).determined
    assert not smallest_ratio([unknown, unknown]).determined


def test_the_smallest_ratio_of_several_figures():
    got = smallest_ratio([fixed(0.5), fixed(0.4), fixed(0.2)])
    assert (got.low, got.value, got.high) == pytest.approx((0.4, 0.4, 0.4))
    assert smallest_ratio([fixed(0.5, 0.05), fixed(0.49, 0.05)]).high == 1
    assert smallest_ratio([fixed(0.5), fixed(0.4)], [fixed(0.9), fixed(0.6)]).value == pytest.approx(2 / 3)


# A second table by one threshold --------------------------------------------------------------------------------------


def decided(table, noise, cut=3):
    """The same with a table of decisions, both as they are."""
    sides = np.add.reduceat(table.counts, [0, cut], axis=0)
    return replace(table, decisions=Decisions(cut, sides, noise))


@pytest.mark.parametrize("total", [None, ROWS])
def test_decisions_change_nothing_that_is_known_exactly(rows, total):
    alone = table_of(*rows, total=total)
    for noise in (STILL, LOUD):
        both = decided(alone, noise)
        assert both.estimates == pytest.approx(alone.counts)
        for name in (*RATES, *SCORES):
            got, known = both.figure(name, 0.5), alone.figure(name, 0.5)
            assert (got.value, got.low, got.high) == pytest.approx((known.value, known.low, known.high)), name


def moved_table(rows, total, factors):
    """Two tables of the same rows that do not agree, with other laws."""
    draw, sides = np.random.default_rng(7), Noise(Law.GAUSSIAN, 8, Fraction(3))
    table = decided(table_of(*rows, noise=LOUD, total=total, factors=factors), sides, cut=2)
    other = replace(table.decisions, counts=table.decisions.counts + draw.normal(0, 9, (2, 2)))
    return replace(table, counts=table.counts + draw.normal(0, 4, table.counts.shape), decisions=other)


@pytest.mark.parametrize("total", [None, ROWS])
@pytest.mark.parametrize("factors", [(1.0,), (1.0, 1.0, 1.0), (0.4, 0.4, 0.6)])
def test_both_tables_are_combined_by_least_squares(rows, total, factors):
    """The estimates are those of weighted least squares (with the known total as an equation), and the noise of a sum
    has the variance that these have.
    """
    table = moved_table(rows, total, factors)
    k, size = len(table.counts), math.hypot(*factors)
    sums = np.zeros((4, 2 * k))
    for (i, t), (side, u) in product(np.ndindex(k, 2), np.ndindex(2, 2)):
        sums[2 * side + u, 2 * i + t] = (i >= 2) == side and t == u
    design, seen = np.vstack([np.eye(2 * k), sums]), np.append(table.counts, table.decisions.counts)
    precision = 1 / (size * np.repeat([table.noise.std, table.decisions.noise.std], [2 * k, 4])) ** 2
    covariance = np.linalg.inv(design.T @ (precision[:, None] * design))
    best = covariance @ design.T @ (precision * seen)
    assert table.estimates.ravel() == pytest.approx(best)
    assert table._covariance == pytest.approx(covariance[::2, ::2])
    if total is not None:
        toward = covariance.sum(axis=1)
        best = best - toward * (best.sum() - total) / toward.sum()
        covariance = covariance - np.outer(toward, toward) / toward.sum()
    assert table._known.ravel() == pytest.approx(best)
    weights = np.random.default_rng(8).normal(size=(k, 2))
    asked = weights - (0 if total is None else (weights * table._shares).sum())
    terms = table.terms(asked)
    assert [noise for noise, _ in terms] == [table.noise, table.decisions.noise]
    variance = sum(noise.std**2 * float(np.square(each).sum()) for noise, each in terms)
    assert variance == pytest.approx(weights.ravel() @ covariance @ weights.ravel())


def test_tables_with_decisions_are_summed_and_averaged_with_them(rows):
    one, two = (
        moved_table(rows, None, (1.0,)),
        decided(table_of(*rows, noise=LOUD), Noise(Law.GAUSSIAN, 8, Fraction(3)), 2),
    )
    together = summed([one, two])
    assert together.estimates == pytest.approx(one.estimates + two.estimates)
    mean = averaged([together, one])
    assert mean.estimates == pytest.approx((together.estimates + 2 * one.estimates) / 3)
    weights = np.ones((5, 2))
    lengths = [[float(np.linalg.norm(each)) for _, each in table.terms(weights)] for table in (one, together)]
    assert np.array(lengths[1]) == pytest.approx(math.sqrt(2) * np.array(lengths[0]))


def test_decisions_make_rates_at_their_threshold_narrow(rows):
    """Forty cells on either side and a second table with the same noise: about four numbers' noise remains."""
    edges = np.linspace(0, 1, 81)
    alone = table_of(*rows, edges=edges, noise=LOUD)
    both = decided(alone, LOUD, cut=40)
    for name in ("true_positive_rate", "selection_rate", "precision"):
        wide, narrow = (one.figure(name, 0.5) for one in (alone, both))
        assert 4 * (narrow.high - narrow.low) < wide.high - wide.low, name
    elsewhere = [one.figure("selection_rate", 0.25) for one in (alone, both)]
    assert elsewhere[1].high - elsewhere[1].low < elsewhere[0].high - elsewhere[0].low


# Regression -----------------------------------------------------------------------------------------------------------

LEVELS = 2**20


def sums_of(target, predicted, noise, total=None, terms=1):
    low, high, width = 10.0, 60.0, 50.0
    unit, error = (target - low) / (high - low), (target - predicted) / width
    parts = (np.maximum(error, 0), np.maximum(-error, 0), error**2, unit, unit**2)
    sums = [float(np.rint(part * LEVELS).sum()) for part in parts]
    return ResidualSums(float(len(target) * LEVELS), *sums, noise, terms, LEVELS, width, low, high, total)


@pytest.mark.parametrize("total", [None, 2_000])
def test_figures_of_a_regression_without_noise(total):
    draw = np.random.default_rng(4)
    target = np.clip(draw.normal(35, 8, 2_000), 10, 60)
    predicted = np.clip(0.8 * target + 8 + draw.normal(0, 3, 2_000), 10, 60)
    error = target - predicted
    truth = {
        "mean_residual": error.mean(),
        "mean_absolute_error": abs(error).mean(),
        "root_mean_squared_error": math.sqrt((error**2).mean()),
        "r2": 1 - (error**2).sum() / ((target - target.mean()) ** 2).sum(),
        "count": 2_000.0,
    }
    still = Noise(Law.LAPLACE, 6, Fraction(1, 1000))
    for name in FIGURES:
        got = sums_of(target, predicted, still, total).figure(name)
        assert inside(got, truth[name]), name
        assert got.high - got.low < 1e-3, "rounding alone"
        assert got.value == pytest.approx(truth[name], abs=1e-3), name


def test_of_few_rows_a_regression_determines_nothing():
    target = np.full(3, 30.0)
    sums = sums_of(target, target, Noise(Law.GAUSSIAN, 6, Fraction(20 * LEVELS)))
    for name in ("mean_residual", "mean_absolute_error", "root_mean_squared_error", "r2"):
        assert not sums.figure(name).determined, name
    assert sums.figure("r2").low == -math.inf
    none = ResidualSums(-1.0, *[0.0] * 5, sums.noise, 1, LEVELS, 50.0, 10.0, 60.0)
    assert (none.figure("mean_residual").low, none.figure("mean_residual").high) == (-50.0, 50.0)
    assert none.figure("r2").high == 1.0
    with pytest.raises(InputError):
        sums.figure("auc")
