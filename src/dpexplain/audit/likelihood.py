"""Attackers who guess which of several inputs a release came from, fitted on shadow runs.

Each family is the maximum-likelihood guess for one law of noise around one centre for each input; for anything else, a
histogram of each coordinate. The attacker fits all of them on half of the shadow runs, keeps the one that tells the
inputs of the other half apart best, and fits it again on all. An attacker who knows every row but one can compute the
exact statistic for each input: `centres` gives it to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.audit.bounds import area
from dpexplain.errors import InputError

Floats = NDArray[np.float64]
Likelihood = Callable[[Floats], Floats]  # from n lines to n x k logarithms of likelihoods, up to what is common to all
Family = Callable[[Sequence[Floats], "Floats | None"], Likelihood]

_WHITENED = 400  # more coordinates than this are taken as uncorrelated
_BINS = 20
_DISTINCT = 64  # a coordinate with no more values than this has one bin for each
_TIE = 1e-6  # many outputs have the same ratio under these two laws; thresholds for low rates must part them somehow


@dataclass(frozen=True)
class Attacker:
    """A fitted guesser: log likelihoods of the inputs, for each line of outputs."""

    family: str
    cleaner: Cleaner
    likelihood: Likelihood

    def __call__(self, vectors: Floats) -> Floats:
        return self.likelihood(self.cleaner(vectors))


@dataclass(frozen=True)
class Cleaner:
    """Finite numbers that vary: NaN becomes the median, and how many there were is one more coordinate."""

    middle: Floats
    low: Floats
    high: Floats
    kept: NDArray[np.bool_]

    @classmethod
    def of(cls, shadows: Sequence[Floats]) -> Cleaner:
        pooled = np.concatenate(list(shadows))
        finite = np.where(np.isfinite(pooled), pooled, np.nan)
        finite = np.where(np.isnan(finite).all(axis=0), 0.0, finite)
        low, high = np.nanmin(finite, axis=0), np.nanmax(finite, axis=0)
        reach = high - low + 1
        cleaner = cls(np.nanmedian(finite, axis=0), low - reach, high + reach, np.ones(len(low) + 1, dtype=np.bool_))
        return cls(cleaner.middle, cleaner.low, cleaner.high, np.ptp(cleaner(pooled), axis=0) > 0)

    def __call__(self, vectors: Floats) -> Floats:
        missing = np.isnan(vectors)
        inside = np.clip(np.where(missing, self.middle, vectors), self.low, self.high)
        return np.column_stack([inside, missing.sum(axis=1)])[:, self.kept]

    def centres(self, given: Floats) -> Floats:
        return np.column_stack([given, np.zeros(len(given))])[:, self.kept]


def fit(shadows: Sequence[Floats], centres: Sequence[Any] | None = None) -> Attacker:
    """The best attacker on these shadow runs, one array of lines for each input."""
    cleaner = Cleaner.of(shadows)
    known = None if centres is None else cleaner.centres(_checked_centres(centres, shadows))
    clean = [cleaner(lines) for lines in shadows]
    if not cleaner.kept.any():
        return Attacker("none: the outputs never change", cleaner, lambda x: np.zeros((len(x), len(shadows))))
    train, test = [lines[0::2] for lines in clean], [lines[1::2] for lines in clean]
    skill = {name: _skill(family(train, known), test) for name, family in FAMILIES.items()}
    best = max(skill, key=lambda name: skill[name])
    return Attacker(best, cleaner, FAMILIES[best](clean, known))


def _skill(likelihood: Likelihood, test: Sequence[Floats]) -> float:
    """The mean area under the ROC curve over pairs of inputs."""
    logs = [likelihood(lines) for lines in test]
    pairs = combinations(range(len(test)), 2)
    return float(np.mean([area(logs[u][:, v] - logs[u][:, u], logs[v][:, v] - logs[v][:, u]) for u, v in pairs]))


def _checked_centres(centres: Sequence[Any], shadows: Sequence[Floats]) -> Floats:
    try:
        given = np.asarray(centres, dtype=np.float64).reshape(len(shadows), -1)
    except (TypeError, ValueError):
        given = np.empty((0, 0))
    if given.shape != (len(shadows), shadows[0].shape[1]) or not np.isfinite(given).all():
        raise InputError("centres are one exact vector for each input, as long as the released ones.", spent="")
    return given


def _spread(shadows: Sequence[Floats], centres: Floats, size: Callable[[Floats], Floats]) -> Floats:
    """How large each coordinate's noise is, never quite zero: what differs without noise then decides everything."""
    noise = np.mean([size(lines - centre) for lines, centre in zip(shadows, centres, strict=True)], axis=0)
    reach = np.ptp(np.concatenate([centres, *shadows]), axis=0)
    return np.asarray(np.where(reach > 0, np.maximum(noise, 1e-9 * reach), 1.0), dtype=np.float64)


def _by_distance(middle: Any, distance: Any, shadows: Sequence[Floats], known: Floats | None) -> Likelihood:
    """Noise whose logarithm falls with a distance from the centre: added up for Laplace, the largest for the cube."""
    centres = np.array([middle(lines, axis=0) for lines in shadows]) if known is None else known
    scale, ties = _spread(shadows, centres, lambda r: abs(r).mean(axis=0)), _gaussian(shadows, known)
    return lambda x: _TIE * ties(x) - np.column_stack([distance(abs(x - c) / scale, axis=1) for c in centres])


def _gaussian(shadows: Sequence[Floats], known: Floats | None) -> Likelihood:
    centres = np.array([lines.mean(axis=0) for lines in shadows]) if known is None else known
    scale = _spread(shadows, centres, lambda r: np.sqrt((r**2).mean(axis=0)))
    size = centres.shape[1]
    matrix = np.eye(size)
    if 1 < size <= _WHITENED:
        noise = np.concatenate([lines - centre for lines, centre in zip(shadows, centres, strict=True)]) / scale
        share = min(1.0, size / len(noise))  # of no correlation, the more the fewer runs
        matrix = (1 - share) * (noise.T @ noise) / len(noise) + share * np.eye(size)
    origin = centres.mean(axis=0)
    white = (centres - origin) / scale
    weights = np.linalg.solve(matrix, white.T)
    shift = 0.5 * (white * weights.T).sum(axis=1)
    return lambda x: ((x - origin) / scale) @ weights - shift


def _histograms(shadows: Sequence[Floats], _known: Floats | None) -> Likelihood:
    pooled = np.concatenate(list(shadows))
    columns = []
    for j in range(pooled.shape[1]):
        values = np.unique(pooled[:, j])
        if len(values) <= _DISTINCT:
            edges = (values[1:] + values[:-1]) / 2
        else:
            edges = np.unique(np.quantile(pooled[:, j], np.linspace(0, 1, _BINS + 1)[1:-1]))
        counts = [np.bincount(np.searchsorted(edges, s[:, j]), minlength=len(edges) + 1) + 0.5 for s in shadows]
        columns.append((edges, np.log(np.array([c / c.sum() for c in counts])).T))
    return lambda x: np.sum(
        [table[np.searchsorted(edges, x[:, j])] for j, (edges, table) in enumerate(columns)], axis=0
    )


FAMILIES: dict[str, Family] = {
    "Gaussian noise": _gaussian,
    "Laplace noise": partial(_by_distance, np.median, np.sum),
    "cube noise": partial(_by_distance, np.mean, np.max),
    "a histogram of each coordinate": _histograms,
}
