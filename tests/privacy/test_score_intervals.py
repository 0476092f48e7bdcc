"""Intervals of figures of a score cover, for all laws of noise: rare targets, tiny groups, empty cells, comparisons.

Noise is drawn by numpy from fixed seeds, so every number here is the same in each run. Where rows may stand anywhere
within their cells (AUC, Brier score, log loss, calibration error, mean prediction), and for the spread of many groups,
intervals hold for the worst case and cover more than they say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from dpexplain.core.noise import Law, Noise
from dpexplain.maths.estimates import Estimate, difference, ratio, smallest_ratio, spread
from dpexplain.maths.residuals import FIGURES, ResidualSums
from dpexplain.maths.scores import Decisions, ScoreTable

pytestmark = pytest.mark.long

RATES = ("accuracy", "selection_rate", "true_positive_rate", "false_positive_rate", "precision", "base_rate")
AT_WORST = ("auc", "brier_score", "log_loss", "calibration_error", "mean_prediction")
RELEASES = 600  # a coverage of 0.95 has a standard deviation of 0.009
FEWER = 150  # of figures that take more time
LEAST, MOST = 0.93, 0.995


@dataclass(frozen=True)
class Scene:
    rows: int
    rate: float
    cells: int
    law: Law
    scale: Fraction
    groups: int = 1  # that make up the table
    public: bool = False
    decided: Fraction | None = None  # the scale of the noise of a second table, by the threshold

    @property
    def noise(self):
        return Noise(self.law, 2 * self.cells * self.groups, self.scale)


SCENES = {
    "many rows": Scene(20_000, 0.25, 16, Law.LAPLACE, Fraction(4)),
    "a rare target": Scene(300, 0.05, 8, Law.LAPLACE, Fraction(2)),
    "empty cells": Scene(300, 0.05, 40, Law.LAPLACE, Fraction(1)),
    "a group of 20": Scene(20, 0.3, 8, Law.LAPLACE, Fraction(1)),
    "everybody, of public size": Scene(1_000, 0.3, 8, Law.LAPLACE, Fraction(3), groups=3, public=True),
    "gaussian": Scene(1_000, 0.3, 12, Law.GAUSSIAN, Fraction(3)),
    "gaussian, a rare target": Scene(300, 0.05, 8, Law.GAUSSIAN, Fraction(2), groups=2, public=True),
    "decisions": Scene(2_000, 0.25, 30, Law.LAPLACE, Fraction(3), decided=Fraction(4)),
    "decisions, a group of 20": Scene(20, 0.3, 16, Law.LAPLACE, Fraction(1), decided=Fraction(2)),
    "decisions, gaussian, of public size": Scene(
        1_000, 0.3, 24, Law.GAUSSIAN, Fraction(4), groups=2, public=True, decided=Fraction(6)
    ),
    "decisions, gaussian, rare": Scene(300, 0.05, 12, Law.GAUSSIAN, Fraction(2), decided=Fraction(2)),
    "cube": Scene(400, 0.2, 3, Law.CUBE, Fraction(2)),
}


def noise_of(noise, draw, *shape):
    """Lines of noise, one for each release: whole numbers by the law."""
    scale = float(noise.scale)
    if noise.law is Law.LAPLACE:
        p = -math.expm1(-1 / scale)
        return (draw.geometric(p, shape) - draw.geometric(p, shape)).astype(float)
    if noise.law is Law.GAUSSIAN:
        return np.rint(draw.normal(0, scale, shape))
    radii = np.arange(int(scale * (noise.size + 1 + 20 * math.sqrt(noise.size + 1))))
    logs = noise.size * np.log(2 * radii + 1) - radii / scale
    radius = draw.choice(radii, shape[0], p=np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum())
    return draw.integers(-radius[:, None], radius[:, None] + 1, (shape[0], math.prod(shape[1:]))).reshape(shape) * 1.0


def rows_of(rows, rate, draw, shift=0.0):
    """Scores and targets; scores are not calibrated."""
    target = np.zeros(rows, dtype=int)
    target[: round(rows * rate)] = 1
    logit = math.log(rate / (1 - rate)) + 1.8 * (target - rate) + 1.2 * draw.normal(size=rows) + shift
    return 1 / (1 + np.exp(-logit)), target


def counted(score, target, cells):
    """Edges, half of them even and half where scores pile up, and the counts."""
    edges = np.unique(np.append(np.linspace(0, 1, cells + 1) ** 2, 0.5))
    cell = np.searchsorted(edges, score, side="right") - 1
    counts = np.zeros((len(edges) - 1, 2))
    np.add.at(counts, (cell, target), 1)
    return edges, counts, cell


def truths(score, target, cell):
    one, chosen = target == 1, score >= 0.5
    clipped, above = np.clip(score, 1e-3, 1 - 1e-3), np.sort(score[~one])
    return {
        "accuracy": (one == chosen).mean(),
        "selection_rate": chosen.mean(),
        "true_positive_rate": chosen[one].mean(),
        "false_positive_rate": chosen[~one].mean(),
        "precision": one[chosen].mean(),
        "base_rate": one.mean(),
        "auc": np.searchsorted(above, score[one]).mean() / len(above),
        "brier_score": ((score - target) ** 2).mean(),
        "log_loss": -np.log(np.where(one, clipped, 1 - clipped)).mean(),
        "calibration_error": np.abs(np.bincount(cell, target - score)).sum() / len(score),
        "mean_prediction": score.mean(),
    }


def naive_rate(table, name, level):
    """Broken on purpose: counts below 0 are cut off first, and the denominator is taken as exact."""
    counts, above = np.maximum(table.counts, 0), table.edges[:-1] >= 0.5
    parts = {"selection_rate": (counts[above], counts), "base_rate": (counts[:, 1], counts)}
    inside, whole = parts[name]
    value, n = inside.sum() / whole.sum(), whole.sum()
    half = 1.96 * table.noise.std * math.sqrt(inside.size) / n
    return Estimate(value, value - half, value + half)


def figure(table, name, level):
    return table.figure(name, 0.5, level)


def coverage(scene, names, releases, ask=figure):
    """The share of releases whose interval holds the truth, by name."""
    draw = np.random.default_rng(11)
    score, target = rows_of(scene.rows, scene.rate, draw)
    edges, counts, cell = counted(score, target, scene.cells)
    truth, noise = truths(score, target, cell), Noise(scene.law, counts.size * scene.groups, scene.scale)
    held = dict.fromkeys(names, 0)
    total, factors = scene.rows if scene.public else None, (1.0,) * scene.groups
    beside = replace(noise, size=4 * scene.groups, scale=scene.decided) if scene.decided else None
    cut = int(np.searchsorted(edges, 0.5))
    sides = np.add.reduceat(counts, [0, cut], axis=0)
    for z in noise_of(noise, draw, releases, *counts.shape, scene.groups).sum(axis=-1):
        table = ScoreTable(edges, counts + z, noise, factors, total)
        if beside is not None:
            more = noise_of(beside, draw, 1, 2, 2, scene.groups)[0].sum(axis=-1)
            table = replace(table, decisions=Decisions(cut, sides + more, beside))
        for name in names:
            got = ask(table, name, 0.95)
            held[name] += got.low - 1e-9 <= truth[name] <= got.high + 1e-9
    return {name: number / releases for name, number in held.items()}


@pytest.mark.parametrize("name", SCENES)
def test_rates_cover_and_are_no_wider_than_they_need(name):
    """Of groups of 20 rows the limits 0 and 1 cut intervals off, so that those cover more."""
    covered = coverage(SCENES[name], RATES, RELEASES)
    assert min(covered.values()) > LEAST, covered
    if SCENES[name].rows >= 1_000:
        assert np.mean(list(covered.values())) < MOST, covered


@pytest.mark.parametrize("name", [name for name in SCENES if name != "empty cells"])
def test_figures_with_the_worst_case_of_cells_cover(name):
    covered = coverage(SCENES[name], AT_WORST, FEWER if name != "cube" else 20)
    assert min(covered.values()) > LEAST, covered


def test_one_score_for_each_cell_makes_no_auc_wider_than_needed():
    """Scores are whole numbers, as deciles: nothing is lost by cells, so that noise alone is in the interval."""
    draw = np.random.default_rng(5)
    score, target = rows_of(1_500, 0.3, draw)
    score = np.floor(score * 10)
    counts = np.zeros((10, 2))
    np.add.at(counts, (score.astype(int), target), 1)
    above = score[target == 1][:, None] - score[target == 0]
    truth, noise = (above > 0).mean() + (above == 0).mean() / 2, Noise(Law.LAPLACE, 20, Fraction(4))
    held = 0
    for z in noise_of(noise, draw, 400, 10, 2):
        got = ScoreTable(np.arange(11) - 0.5, counts + z, noise, exact=True).figure("auc")
        held += got.low <= truth <= got.high
    assert LEAST < held / 400 < MOST, held / 400


def test_plain_intervals_of_counts_cut_off_at_zero_do_not_cover():
    """The test of rates above would reject them."""
    covered = coverage(SCENES["empty cells"], ("selection_rate", "base_rate"), RELEASES, naive_rate)
    assert max(covered.values()) < LEAST, covered


def without_the_second_noise(table, name, level):
    """Broken on purpose: the second table is believed as if it had no noise."""
    believed = replace(table.decisions, noise=Noise(Law.LAPLACE, 4, Fraction(1, 1000)))
    return replace(table, decisions=believed).figure(name, 0.5, level)


def test_intervals_that_forget_the_noise_of_decisions_do_not_cover():
    covered = coverage(SCENES["decisions"], ("selection_rate", "base_rate"), RELEASES, without_the_second_noise)
    assert max(covered.values()) < LEAST, covered


GROUPS = {
    "two": ((600, 0.3, 0.5), (400, 0.3, -0.3)),
    "two small ones": ((150, 0.1, 1.0), (150, 0.1, 0.0)),
    "two alike": ((500, 0.3, 0.0),) * 2,
    "four, one of 20 rows": ((500, 0.3, 0.5), (300, 0.2, 0.0), (60, 0.3, -1.0), (20, 0.3, 1.0)),
}


def plain_spread(figures, level=0.95):
    """Broken on purpose: the difference of those two groups that have the largest and the smallest noisy rate."""
    each = sorted(figures, key=lambda one: one(level).value)
    return difference(each[-1], each[0], level)


def compared(groups, law, ways, releases=300, alike=False):
    """The share of releases whose interval holds the truth, by way of comparing groups, of false positive rates."""
    draw, noise = np.random.default_rng(13), Noise(law, 200, Fraction(2))
    rows = [rows_of(n, rate, np.random.default_rng(3) if alike else draw, shift) for n, rate, shift in groups]
    tables = [counted(*pair, 8) for pair in rows]
    rates = [truths(*pair, cell)["false_positive_rate"] for pair, (_, _, cell) in zip(rows, tables, strict=True)]
    truth = {
        "difference": rates[0] - rates[1],
        "ratio": rates[0] / rates[1],
        "spread": max(rates) - min(rates),
        "smallest_ratio": min(rates) / max(rates),
        "plain_spread": max(rates) - min(rates),
    }
    held = dict.fromkeys(ways, 0)
    for zs in noise_of(noise, draw, releases, len(tables), *tables[0][1].shape):
        noisy = [ScoreTable(edges, counts + z, noise) for (edges, counts, _), z in zip(tables, zs, strict=True)]
        figures = [partial(figure, table, "false_positive_rate") for table in noisy]
        answers = {
            "difference": lambda: difference(figures[0], figures[1]),  # noqa: B023 - called at once
            "ratio": lambda: ratio(figures[0], figures[1]),  # noqa: B023
            "spread": lambda: spread(figures),  # noqa: B023
            "smallest_ratio": lambda: smallest_ratio(figures),  # noqa: B023
            "plain_spread": lambda: plain_spread(figures),  # noqa: B023
        }
        for way in ways:
            got = answers[way]()
            held[way] += got.low - 1e-9 <= truth[way] <= got.high + 1e-9
    return {way: number / releases for way, number in held.items()}


@pytest.mark.parametrize("law", [Law.LAPLACE, Law.GAUSSIAN])
@pytest.mark.parametrize("name", GROUPS)
def test_comparisons_of_groups_cover(name, law):
    covered = compared(GROUPS[name], law, ("difference", "ratio", "spread", "smallest_ratio"))
    assert min(covered.values()) > LEAST, covered


def test_the_spread_of_many_like_groups_needs_all_pairs():
    """Six groups with the same rows: the largest noisy difference is none."""
    groups = ((1_000, 0.3, 0.0),) * 6
    covered = compared(groups, Law.LAPLACE, ("spread", "plain_spread"), releases=200, alike=True)
    assert covered["spread"] > LEAST
    assert covered["plain_spread"] < LEAST, "the test above would reject it"


@pytest.mark.parametrize(
    ("law", "rows", "public", "terms"),
    [(Law.LAPLACE, 2_000, False, 1), (Law.LAPLACE, 2_000, True, 3), (Law.GAUSSIAN, 300, False, 1)],
)
def test_figures_of_a_regression_cover(law, rows, public, terms):
    draw, levels, fine = np.random.default_rng(17), 2**20, 1_000
    target = 100 * draw.beta(2, 4, rows)
    predicted = np.clip(0.9 * target + 8 * draw.normal(size=rows), 0, 100)
    error, unit = (target - predicted) / 100, target / 100
    truth = {
        "mean_residual": 100 * error.mean(),
        "mean_absolute_error": 100 * abs(error).mean(),
        "root_mean_squared_error": 100 * math.sqrt((error**2).mean()),
        "r2": 1 - (error**2).sum() / ((unit - unit.mean()) ** 2).sum(),
    }
    parts = (np.ones(rows), np.maximum(error, 0), np.maximum(-error, 0), error**2, unit, unit**2)
    sums = np.array([np.rint(part * levels).sum() for part in parts])
    noise, drawn = (Noise(law, 6 * terms, Fraction(4 * steps)) for steps in (levels, fine))
    held, releases = dict.fromkeys(truth, 0), 250
    for z in noise_of(drawn, draw, releases, 6, terms).sum(axis=-1):
        noisy = sums + z * levels / fine
        one = ResidualSums(*noisy, noise, terms, levels, 100.0, 0.0, 100.0, rows if public else None)
        for name in truth:
            got = one.figure(name)
            held[name] += got.low <= truth[name] <= got.high
    assert set(truth) < set(FIGURES)
    assert min(held.values()) / releases > LEAST - 0.01, held  # a standard deviation of 0.014


CORNERS = {  # (none or all rows of the first group at or above the threshold; rows) against a mixed group
    "60 rows, all, against 300": ([[0, 0], [30, 30]], [[150, 70], [40, 40]]),
    "60 rows, none, against 300": ([[30, 30], [0, 0]], [[40, 40], [150, 70]]),
    "2,000 rows, none, against 60": ([[1000, 1000], [0, 0]], [[20, 10], [15, 15]]),
    "60 rows, all, against 200, none": ([[0, 0], [30, 30]], [[100, 100], [0, 0]]),
}


def at_the_corners(groups, law, scale, compare, releases=1_000):
    """The share of releases whose interval holds the truth, of selection rates of which one is 0 or 1."""
    draw, noise = np.random.default_rng(1), Noise(law, 8, Fraction(scale))
    one, two = (np.array(counts, dtype=float) for counts in groups)
    rates = [counts[1].sum() / counts.sum() for counts in (one, two)]
    truth = {
        difference: rates[0] - rates[1],
        without_cut_ends: rates[0] - rates[1],
        ratio: rates[0] / rates[1] if rates[1] else math.inf,
        spread_of_two: abs(rates[0] - rates[1]),
    }[compare]
    held = 0
    for z in noise_of(noise, draw, releases, 2, 2, 2):
        tables = [
            ScoreTable(np.array([0.0, 0.5, 1.0]), counts + w, noise) for counts, w in zip((one, two), z, strict=True)
        ]
        got = compare(*(partial(figure, table, "selection_rate") for table in tables))
        held += got.low - 1e-9 <= truth <= got.high + 1e-9
    return held / releases


def spread_of_two(a, b, level=0.95):
    return spread([a, b], level=level)


def without_cut_ends(a, b, level=0.95):
    """Broken on purpose: an end that was cut off at 0 or 1 is taken as one of noise."""

    def uncut(ask):
        return lambda at: replace(ask(at), cut_low=False, cut_high=False)

    return difference(uncut(a), uncut(b), level)


@pytest.mark.parametrize(("law", "scale"), [(Law.LAPLACE, 4), (Law.GAUSSIAN, 5)])
@pytest.mark.parametrize("name", CORNERS)
def test_comparisons_with_a_rate_of_0_or_1_cover(name, law, scale):
    covered = {
        compare.__name__: at_the_corners(CORNERS[name], law, scale, compare)
        for compare in (difference, ratio, spread_of_two)
    }
    assert min(covered.values()) > LEAST, covered


def test_cut_ends_taken_as_noise_do_not_cover():
    """The test above would reject them."""
    groups = CORNERS["60 rows, all, against 300"]
    assert at_the_corners(groups, Law.GAUSSIAN, 5, without_cut_ends) < LEAST


CROWDED = {  # cells, rows, one positive row in so many (0: none), law, scale
    "two cells": (2, 400, 0, Law.LAPLACE, 3),
    "six cells": (6, 400, 50, Law.LAPLACE, 3),
    "six cells, gaussian": (6, 400, 50, Law.GAUSSIAN, 6),
    "fourteen cells": (14, 1_000, 50, Law.LAPLACE, 3),
}


@pytest.mark.parametrize("name", CROWDED)
def test_rows_at_the_worst_place_of_few_cells_are_covered(name):
    """Noise is then not only in the figure, but in the bound of what cells hide."""
    cells, rows, one_in, law, scale = CROWDED[name]
    edges, target = np.linspace(0, 1, cells + 1), np.zeros(rows, dtype=int)
    if one_in:
        target[::one_in] = 1
    score = np.where(target == 1, 0.0, edges[1] - 1e-9)
    counts = np.zeros((cells, 2))
    np.add.at(counts[0], target, 1)
    clipped = np.clip(score, 1e-3, 1 - 1e-3)
    truth = {
        "brier_score": ((score - target) ** 2).mean(),
        "log_loss": -np.log(np.where(target == 1, clipped, 1 - clipped)).mean(),
        "mean_prediction": score.mean(),
    }
    draw, noise, held = np.random.default_rng(1), Noise(law, 2 * cells, Fraction(scale)), dict.fromkeys(truth, 0)
    for z in noise_of(noise, draw, RELEASES, cells, 2):
        table = ScoreTable(edges, counts + z, noise)
        for figure_name, true in truth.items():
            got = table.figure(figure_name)
            held[figure_name] += got.low - 1e-9 <= true <= got.high + 1e-9
    assert min(held.values()) / RELEASES > LEAST, held


@pytest.mark.parametrize(("rows", "scale"), [(20, 1), (40, 2), (40, 4), (200, 8)])
def test_a_calibration_error_of_1_is_covered(rows, scale):
    """Every score is the opposite of its target."""
    edges, noise = np.linspace(0, 1, 7), Noise(Law.LAPLACE, 12, Fraction(scale))
    counts = np.zeros((6, 2))
    counts[0, 1] = counts[-1, 0] = rows / 2
    got = [
        ScoreTable(edges, counts + z, noise).figure("calibration_error")
        for z in noise_of(noise, np.random.default_rng(1), RELEASES, 6, 2)
    ]
    assert all(one.low <= one.high for one in got)
    assert np.mean([one.high >= 1 - 1e-9 for one in got]) > LEAST
