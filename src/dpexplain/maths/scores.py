"""How good a score is, from noisy counts of score cell x target: every figure an estimate with an honest interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.noise import Noise
from dpexplain.maths.estimates import Estimate

Floats = NDArray[np.float64]

# figure(name, threshold=...):
RATES = (
    "accuracy",
    "selection_rate",
    "true_positive_rate",
    "false_positive_rate",
    "true_negative_rate",
    "false_negative_rate",
    "precision",
    "base_rate",
)
# figure(name), no threshold; all but auc and count only where the score is a probability:
SCORES = ("auc", "brier_score", "log_loss", "calibration_error", "mean_prediction", "count")


@dataclass(frozen=True)
class ScoreTable:
    """Noisy counts of one group, or of everybody: K score cells x target 0, 1.

    The count of each cell is the true one plus a weighted sum of independent coordinates of `noise`, other ones for
    each cell, with the weights `factors`: (1,) for a group of one histogram, (1,) * G for the sum over G group cells,
    and what `summed` and `averaged` make of them.
    """

    edges: Floats  # K + 1, rising; a cell holds its low edge and not its high one, the last one both
    counts: Floats  # (K, 2): as released, also below 0
    noise: Noise  # of the whole release
    factors: tuple[float, ...] = (1.0,)
    total: int | None = None  # rows in the table where that is public
    exact: bool = False  # one score in each cell, its middle: nothing is lost by cells

    def figure(self, name: str, threshold: float | None = None, level: float = 0.95) -> Estimate:
        """Any of RATES (at a threshold within the edges: a score of at least that is positive) or SCORES."""
        raise NotImplementedError

    def confusion(self, threshold: float, level: float = 0.95) -> list[list[Estimate]]:
        """Counts: [target 0, target 1][predicted 0, predicted 1]."""
        raise NotImplementedError

    def roc(self, level: float = 0.95) -> tuple[Floats, list[Estimate], list[Estimate]]:
        """(thresholds, false positive rates, true positive rates) at all edges but the outer ones."""
        raise NotImplementedError

    def calibration(self, level: float = 0.95) -> list[Estimate]:
        """The rate of target 1 in each score cell."""
        raise NotImplementedError

    def rows(self, level: float = 0.95) -> list[Estimate]:
        """The number of rows in each score cell."""
        raise NotImplementedError


def summed(tables: Sequence[ScoreTable], total: int | None = None) -> ScoreTable:
    """Disjoint groups of one histogram together."""
    raise NotImplementedError


def averaged(tables: Sequence[ScoreTable]) -> ScoreTable:
    """The same rows counted in several histograms of one release: weighted by inverse variance."""
    raise NotImplementedError


def share(
    inside: Sequence[float],
    outside: Sequence[float],
    noise: Noise,
    factors: tuple[float, ...] = (1.0,),
    level: float = 0.95,
) -> Estimate:
    """A / (A + B) of the true sums of two lists of disjoint noisy counts, such as the diagonal of a table of predicted
    class x target, and the rest of it.
    """
    raise NotImplementedError
