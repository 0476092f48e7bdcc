"""Means over a private number of rows, and over parts of uneven sizes: their intervals cover as often as they say.

Noise is drawn by numpy from fixed seeds, so every number here is the same in each run.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Law, Noise
from dpexplain.maths.means import Means, unevenness

LEVELS, ROWS = 2**20, 400
OUTPUT = PublicRange(-1.0, 3.0, LEVELS)
EXACT = np.array([-1.0, -0.7, 0.2, 1.0, 1.9, 3.0])  # of the means
ONE_LAW = [law if law is Law.CUBE else pytest.param(law, marks=pytest.mark.long) for law in Law]  # in the short ring
RELEASES = 2_000  # a coverage of 0.95 has a standard deviation of 0.005


def drawn(noise, draw):
    if noise.law is Law.CUBE:
        return draw.uniform(-1, 1, noise.size) * draw.gamma(noise.size + 1, float(noise.scale))
    kind = draw.normal if noise.law is Law.GAUSSIAN else draw.laplace
    return kind(0, float(noise.scale), noise.size)


def released(noise, weight, draw, rows=ROWS):
    sums = (EXACT - OUTPUT.middle) / OUTPUT.width * LEVELS * rows
    exact = np.append(sums, weight * rows)
    return Means(np.rint(exact + drawn(noise, draw)).astype(np.int64), noise, OUTPUT, weight, None, slice(0, 6))


class Uncounted(Means):
    """Broken on purpose: the number of rows is taken as right."""

    def half_width(self, place, level):
        return super().half_width(0.0, level)


def covered(law, weight, kind=Means, level=0.95, simultaneous=False, rows=ROWS):
    noise, draw, inside = Noise(law, 7, Fraction(LEVELS * 4)), np.random.default_rng(3), []
    for _ in range(RELEASES):
        one = released(noise, weight, draw, rows)
        low, high = kind(one.released, noise, OUTPUT, weight, None, one.place).interval(
            level, simultaneous=simultaneous
        )
        inside.append((low <= EXACT) & (high >= EXACT))
    return np.array(inside)


@pytest.mark.parametrize("law", list(Law))
@pytest.mark.parametrize("weight", [LEVELS // 2, pytest.param(LEVELS, marks=pytest.mark.long)])
def test_intervals_of_ratios_cover_as_often_as_they_say(law, weight):
    """Inside the range neither more nor less: five standard deviations. At its ends no interval misses outwards."""
    inside = covered(law, weight).mean(axis=0)
    assert (abs(inside[1:-1] - 0.95) < 0.025).all(), inside
    assert (inside[[0, -1]] > 0.925).all(), inside


@pytest.mark.parametrize("law", ONE_LAW)
def test_all_means_at_once(law):
    assert covered(law, LEVELS // 2, simultaneous=True).all(axis=1).mean() > 0.925


@pytest.mark.parametrize("law", ONE_LAW)
def test_a_number_of_rows_that_is_taken_as_right_is_found_out(law):
    inside = covered(law, LEVELS // 2, Uncounted).mean(axis=0)
    assert inside[1] < 0.925, inside


def test_few_rows_say_nothing_and_cover_all_the_same():
    """So few that their number is not sure: whole ranges, or what the law of the ratio still allows."""
    inside = covered(Law.GAUSSIAN, LEVELS // 2, rows=12)
    assert (inside.mean(axis=0) > 0.925).all()
    noise = Noise(Law.CUBE, 7, Fraction(LEVELS * 4))
    none = Means(np.zeros(7, dtype=np.int64), noise, OUTPUT, LEVELS, None, slice(0, 6))
    assert [end.tolist() for end in none.interval(0.95)] == [[-1.0] * 6, [3.0] * 6]


# Uneven parts ---------------------------------------------------------------------------------------------------------


def means_over_parts(values, parts, rule, draw):
    """The mean over parts with rows, and how many of them there are; once."""
    if rule == "even":
        part = draw.permutation(len(values)) % parts
    else:
        part = draw.integers(0, parts, len(values))
    sizes = np.bincount(part, minlength=parts)
    sums = np.bincount(part, values, parts)
    return (sums[sizes > 0] / sizes[sizes > 0]).mean(), int((sizes > 0).sum())


@pytest.mark.parametrize(
    ("rule", "rows", "parts"), [("even", 100, 30), ("random", 100, 1000), ("random", 100, 60), ("random", 300, 60)]
)
def test_the_variance_of_dealing_is_what_it_says(rule, rows, parts):
    """3,000 dealings: the standard deviation of a variance is 2.6 % of it, and five of these are allowed."""
    draw = np.random.default_rng(5)
    values = (draw.random(rows) < 0.4).astype(float)
    found = [means_over_parts(values, parts, rule, draw) for _ in range(3_000)]
    spread = np.mean([(mean - values.mean()) ** 2 for mean, _ in found])
    answered = float(np.mean([number for _, number in found]))
    told = unevenness(parts, rows if rule == "even" else None, answered) * values.var()
    assert spread == pytest.approx(told, rel=0.13)


def test_dealing_evenly_changes_nothing_and_fewer_parts_with_rows_mean_more_chance():
    assert unevenness(50, 100) == pytest.approx(0.0, abs=1e-15)
    chance = [unevenness(100, None, answered) for answered in (-3.0, 20.0, 60.0, 99.0, 100.0, 140.0)]
    assert chance == sorted(chance, reverse=True)
    assert 0 <= chance[-1] < chance[0] <= 0.25 / 100 + 1e-12
    with pytest.raises(ValueError, match="more parts than rows"):
        unevenness(100, 99)


def test_chance_of_dealing_is_in_the_interval_and_its_absence_is_found_out():
    """Partial dependence at one point, rows at both ends of the range, hardly any noise, 1,000 dealings."""
    draw, rows, parts, noise = np.random.default_rng(8), 300, 150, Noise(Law.CUBE, 2, Fraction(LEVELS, 10**4))
    values = np.where(draw.random(rows) < 0.3, 3.0, -1.0)
    held = {True: 0, False: 0}
    for _ in range(1_000):
        mean, answered = means_over_parts(values, parts, "random", draw)
        sums = [round((mean - OUTPUT.middle) / OUTPUT.width * LEVELS * answered), LEVELS * answered]
        for aware in held:
            uneven = unevenness(parts, None, answered) if aware else 0.0
            one = Means(np.array(sums), noise, OUTPUT, LEVELS, parts, slice(0, 1), uneven)
            low, high = one.interval(0.95)
            held[aware] += bool(low[0] <= values.mean() <= high[0])
    assert held[True] > 915  # five standard deviations
    assert held[False] < 100
