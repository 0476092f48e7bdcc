"""How far a contribution may be off: the noise of the average person counts even where the record is the average."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import dpexplain as dpx
from dpexplain.core.domain import PublicRange
from dpexplain.maths.surrogate.fit import Average, AveragePerson, Fit, halfwidths
from dpexplain.maths.surrogate.space import Space

SPACE = Space(dpx.Domain({"a": dpx.Numeric(0, 1), "b": dpx.Numeric(0, 1)}), ("a", "b"))
SURE = 1.959964
EACH = np.eye(2, dtype=bool)


def fit(unknown):
    average = AveragePerson(np.full(2, 0.5), 0.5, 0.1, Average(SPACE, PublicRange(0.0, 1.0), counted=False))
    return Fit(
        coefficients=np.zeros(2),
        value=0.5,
        spread=lambda lines: np.zeros(len(lines)),
        reference=average.point,
        unknown=lambda lines: np.abs(lines) @ np.array([unknown, 0.0]),
        average=average,
    )


def test_an_unknown_effect_of_a_short_way_is_not_taken_as_none():
    """The released average lies on the record in both features, so both lines have no length. The effect of the first
    is unknown up to 2, and the average is off by 0.1 (one standard deviation): its contribution by 2 x 0.1 x 1.96.
    """
    lines = np.zeros((2, 2))
    np.testing.assert_allclose(halfwidths(fit(2.0), SPACE, lines, EACH, 0.95), [SURE * 0.2, 0], rtol=1e-4)
    np.testing.assert_array_equal(halfwidths(replace(fit(2.0), average=None), SPACE, lines, EACH, 0.95), [0, 0])
    np.testing.assert_array_equal(halfwidths(fit(0.0), SPACE, lines, EACH, 0.95), [0, 0])


def test_simulated_averages_are_covered():
    """The effect is not seen at all (coefficients of zero), and as large as it may be. 4,000 noisy averages of a fixed
    seed, so that nothing hangs on chance. Without the new term nothing would be held near the average.
    """
    effect, exact, draw = 2.0, 0.5, np.random.default_rng(0)
    released = exact + 0.1 * draw.normal(size=4_000)
    for record in (0.5, 0.52, 0.6, 0.9):
        lines = np.stack([record - released, np.zeros(len(released))], axis=1)
        half = halfwidths(fit(effect), SPACE, lines, np.tile(EACH[:1], (len(lines), 1)), 0.95)
        assert np.mean(abs(effect * (record - exact)) <= half) > 0.94, record
