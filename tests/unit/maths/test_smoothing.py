"""Smoothing, which is free: it helps a smooth curve and leaves a sharp one."""

from __future__ import annotations

import numpy as np

from dpexplain.maths.smoothing import smooth


def test_smoothing_helps_a_smooth_curve_and_leaves_a_sharp_one():
    draw = np.random.default_rng(0)
    x = np.linspace(0, 1, 60)
    wave = np.sin(5 * x)
    noisy = wave + draw.normal(0, 0.3, 60)
    assert ((smooth(noisy, 0.09, [x]) - wave) ** 2).mean() < 0.3 * ((noisy - wave) ** 2).mean()
    step = (x > 0.5) * 1.0
    noisy = step + draw.normal(0, 0.01, 60)
    assert ((smooth(noisy, 1e-4, [x]) - step) ** 2).mean() < 2 * 1e-4
    line = 3 * x + 1
    np.testing.assert_allclose(smooth(line, 0.1, [x]), line, atol=1e-8)  # a straight line is not bent
    uneven = np.sort(draw.uniform(0, 1, 30))
    np.testing.assert_allclose(smooth(3 * uneven + 1, 0.1, [uneven]), 3 * uneven + 1, atol=1e-6)


def test_smoothing_categories_pairs_and_short_axes():
    draw = np.random.default_rng(1)
    means = np.full(30, 0.4)
    noisy = means + draw.normal(0, 0.1, 30)
    assert ((smooth(noisy, 0.01, [30]) - means) ** 2).mean() < 0.3 * ((noisy - means) ** 2).mean()
    np.testing.assert_array_equal(smooth(np.array([0.1, 0.9]), 0.01, [2]), [0.1, 0.9])  # too few to borrow from
    np.testing.assert_array_equal(smooth(np.array([0.1, 0.9]), 0.01, [[0, 1]]), [0.1, 0.9])
    np.testing.assert_array_equal(smooth(noisy, 0.0, [30]), noisy)
    x = np.linspace(0, 1, 12)
    plane = (x[:, None] + 2 * x[None, :]).ravel()
    noisy = plane + draw.normal(0, 0.2, 144)
    assert ((smooth(noisy, 0.04, [x, x]) - plane) ** 2).mean() < 0.3 * 0.04
    shifted = np.repeat([0.0, 5.0], 12) + np.tile(np.sin(x), 2)  # unordered x ordered: the jump between lines stays
    assert abs(smooth(shifted + draw.normal(0, 0.1, 24), 0.01, [2, x]) - shifted).max() < 0.4
