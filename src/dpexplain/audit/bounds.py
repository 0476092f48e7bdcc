"""Arithmetic of audits: Clopper-Pearson bounds, what they say about the privacy loss, power, and ROC curves."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betainccinv, betaincinv, ndtri
from scipy.stats import rankdata

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Metric = Callable[[Floats, Floats], Floats]  # from p (a lower bound) and q (an upper bound) to a bound on the loss
Roc = tuple[tuple[float, float], ...]  # (false, true) positives, increasing
_ROC_POINTS = 200
_ORDERS = 1 + np.logspace(-3, 3, 49)  # of the Renyi divergence; each one gives a true bound


def epsilon(p: Floats, q: Floats, delta: float) -> Floats:
    """P <= e^epsilon Q + delta for every event."""
    result: Floats = np.log(np.maximum(p - delta, 1e-300) / q)
    return result


def mu(p: Floats, q: Floats) -> Floats:
    """No test of mu-Gaussian-DP has a larger Phi^-1(power) - Phi^-1(false alarms) than mu."""
    result: Floats = ndtri(np.maximum(p, 1e-300)) - np.where(q < 1, ndtri(np.minimum(q, 1 - 1e-16)), np.inf)
    return result


def rho(p: Floats, q: Floats) -> Floats:
    """The Renyi divergences of the event's indicator are at most those of the outputs: alpha rho."""
    a = _ORDERS[:, None]
    b, c = np.clip(p, 1e-300, 1 - 1e-16), np.clip(q, 1e-300, 1 - 1e-16)
    yes = a * np.log(b) + (1 - a) * np.log(c)
    no = a * np.log1p(-b) + (1 - a) * np.log1p(-c)
    divergence = np.logaddexp(yes, no) / (a - 1)
    result: Floats = np.where(p > q, (divergence / a).max(axis=0), 0.0)
    return result


def lower(hits: Ints, n: int, error: float) -> Floats:
    """Clopper-Pearson: below the true probability except with probability `error`."""
    result: Floats = np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - np.maximum(hits, 1) + 1, error), 0.0)
    return result


def upper(hits: Ints, n: int, error: float) -> Floats:
    """Above the true probability except with probability `error`."""
    fewer = np.minimum(hits, n - 1)
    result: Floats = np.where(hits < n, betainccinv(fewer + 1, n - fewer, error), 1.0)
    return result


def power(p: float, q: float, n: int, error: float, refutes: Callable[[Floats, Floats], NDArray[np.bool_]]) -> float:
    """P(refuted) when the event has probabilities p and q: for each count of one kind, the largest that refutes."""
    spread = 8 * math.sqrt(n * p * (1 - p)) + 8
    counts = np.arange(max(0, int(n * p - spread)), min(n, int(n * p + spread)) + 1)
    weights = np.diff(_binomial(counts, n, p), prepend=_binomial(counts[:1] - 1, n, p))
    likely = lower(counts, n, error)
    most, least = np.full(len(counts), -1), np.full(len(counts), n)  # `most` refutes (or is -1), `least` does not
    while (least - most > 1).any():
        middle = (most + least) // 2
        good = (middle < 0) | refutes(likely, upper(np.maximum(middle, 0), n, error))
        most, least = np.where(good, middle, most), np.where(good, least, middle)
    return float(np.clip(weights @ _binomial(most, n, q), 0.0, 1.0))


def _binomial(counts: Ints, n: int, p: float) -> Floats:
    """P(Binomial(n, p) <= count)."""
    inside = np.clip(counts, 0, n - 1)
    result: Floats = np.where(counts < 0, 0.0, np.where(counts >= n, 1.0, betainc(n - inside, inside + 1, 1 - p)))
    return result


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
