"""Smoothing released values with noise of known variance: post-processing, free of charge.

Released y = f + z, where z has uncorrelated coordinates of variance v. For a penalty matrix P the smoother is
H = (I + lambda P)^-1, and lambda minimises an estimate of the squared error that is unbiased for every fixed lambda
(Mallows' C_p, Stein's SURE; it needs no more of the noise than its covariance):

    |y - H y|^2 + 2 v tr(H) - m v.

Ordered axes are penalised by squared second differences (divided differences on an uneven grid), unordered ones by the
distance from the mean; a pair of axes by both. A smoothed curve is a better guess, not a guarantee: intervals are
always those of the unsmoothed values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def smooth(values: Floats, variance: float, axes: Sequence[int | Sequence[float | None]]) -> Floats:
    """The smoothed values, which run over the last axis fastest.

    An axis is a sequence of positions if it is ordered, and a number of categories if it is not. A last position may be
    None: it has no neighbours (missing values).
    """
    sizes = [axis if isinstance(axis, int) else len(axis) for axis in axes]
    penalty = np.zeros((len(values), len(values)))
    for position, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        block = _centring(size) if isinstance(axis, int) else np.zeros((size, size))
        if not isinstance(axis, int):
            places = np.array([x for x in axis if x is not None], dtype=np.float64)
            block[: len(places), : len(places)] = _curvature(places)
        before, after = int(np.prod(sizes[:position])), int(np.prod(sizes[position + 1 :]))
        penalty += np.kron(np.kron(np.eye(before), block), np.eye(after))
    weights, basis = np.linalg.eigh(penalty)
    weights = np.where(weights < 1e-9 * max(weights.max(), 1e-300), 0.0, weights)
    if not weights.any() or variance <= 0:
        return values
    coefficients = basis.T @ values
    strengths = np.concatenate([[0.0], np.geomspace(1e-6, 1e10, 97) / weights.max()])
    shrink = 1 / (1 + np.outer(strengths, weights))
    risk = ((1 - shrink) ** 2) @ coefficients**2 + 2 * variance * shrink.sum(axis=1)
    smoothed: Floats = basis @ (shrink[int(np.argmin(risk))] * coefficients)
    return smoothed


def _curvature(x: Floats) -> Floats:
    """D'D for second divided differences on the grid x, scaled to unit mean spacing."""
    m = len(x)
    if m < 3:
        return np.zeros((m, m))
    gaps = np.diff(x) / ((x[-1] - x[0]) / (m - 1))
    D = np.zeros((m - 2, m))
    for i in range(m - 2):
        left, right = gaps[i], gaps[i + 1]
        D[i, i : i + 3] = 2 / (left * (left + right)), -2 / (left * right), 2 / (right * (left + right))
    product: Floats = D.T @ D
    return product


def _centring(m: int) -> Floats:
    return np.eye(m) - np.full((m, m), 1 / m) if m >= 4 else np.zeros((m, m))


def shrink(effects: Floats, variances: Floats, widths: Floats, scale: float, *, trend: bool) -> Floats:
    """Noisy steps of a curve, each pulled towards the common slope (or, without a trend, towards zero) as far as its
    noise asks for.

    The steps are taken as those of a curve that wanders around a straight line: independent, with variance t * width.
    The strength t is the most likely one given all steps, with a wide prior around a twentieth of `scale`^2; then a
    step's distance from the line is multiplied by t * width / (t * width + variance).
    """
    usual = scale**2 / 20
    strengths = usual * np.geomspace(1e-4, 1e2, 61)
    spread = np.outer(strengths, widths) + variances
    slopes = (effects * widths / spread).sum(axis=1) / (widths**2 / spread).sum(axis=1) if trend else 0 * strengths
    away = effects - np.outer(slopes, widths)
    prior = (np.log(strengths / usual) / 3) ** 2
    best = int(np.argmin(np.log(spread).sum(axis=1) + (away**2 / spread).sum(axis=1) + prior))
    kept = strengths[best] * widths / spread[best]
    pulled: Floats = slopes[best] * widths + kept * away[best]
    return pulled
