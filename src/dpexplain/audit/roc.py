"""ROC curves: false and true positives over all thresholds of a score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Floats = NDArray[np.float64]
Roc = tuple[tuple[float, float], ...]  # (false, true) positives, increasing
_ROC_POINTS = 200


def area(negatives: Floats, positives: Floats) -> float:
    """The area under the ROC curve: how often a positive has the higher score, ties half."""
    ranks = rankdata(np.concatenate([negatives, positives]))[len(negatives) :]
    wins = ranks.sum() - len(positives) * (len(positives) + 1) / 2
    return float(wins / (len(positives) * len(negatives)))


def roc_points(negatives: Floats, positives: Floats) -> Roc:
    """False and true positives over all thresholds, thinned out."""
    values = np.unique(np.concatenate([negatives, positives]))[::-1]
    wrong, right = (1 - np.searchsorted(np.sort(side), values) / len(side) for side in (negatives, positives))
    if len(values) > _ROC_POINTS:  # denser where few are wrong
        picks = np.concatenate([np.geomspace(1, len(values), _ROC_POINTS), np.linspace(1, len(values), _ROC_POINTS)])
        keep = np.unique(picks.astype(np.int64)) - 1
        wrong, right = wrong[keep], right[keep]
    return ((0.0, 0.0), *zip(wrong.tolist(), right.tolist(), strict=True))
