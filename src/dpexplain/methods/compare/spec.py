"""What one has to believe about comparisons: what a row adds to which sums, and how far a unit moves them.

Curves       A row adds q(f_b(x) - f_a(x)) at each grid point, where x has the column set to the point, and q clips to
             [-R, R] and rounds to {0..K}. Both models answer a row by itself, so this is a function of the row alone
             with values in {0..K}: the bound of one partial dependence holds as it stands (`RowSums`). One replaced row
             moves each sum by at most K. Under add-remove sums are centred, to {-K/2..K/2}, where K/2 is no difference:
             a row comes or goes with at most K/2. R is the width of the output range, or the limit.
Importance   The loss of a row is l_b - l_a, in [-L, L] with the largest loss L, quantised to {0..K}. The proofs of
             `permutation_importance/spec.py` need of a loss no more than that it is such a function of the row.
Rates        Rows are counted by (group, what happened, decision of the first model, decision of the second): a public
             partition for each entry of groups, in exactly one cell of which each row lies (`Sensitivity.of_counts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.domain import PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Noise
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.maths.coded import Coded
from dpexplain.maths.losses import Loss
from dpexplain.methods.performance.spec import Crossing
from dpexplain.methods.targets import Target
from dpexplain.models import ModelPair, Predictor

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

pair_of = ModelPair.of  # the two models that were given
CELLS = 8  # of a group: what happened x decision of the first model x decision of the second


def difference_range(output: PublicRange, limit: float | None) -> PublicRange:
    """The range of the difference of two answers in this range; its middle is no difference."""
    most = output.width if limit is None else min(limit, output.width)
    return PublicRange(-most, most, output.levels)


@dataclass(frozen=True)
class LossDifference(Loss):
    """The loss of the second model less that of the first, of a line with both predictions."""

    @classmethod
    def of(cls, name: str, output: PublicRange, *, floor: float = 0.01, binary: bool = False) -> Self:
        one = Loss.of(name, output, floor=floor, binary=binary)
        wide = PublicRange(-one.range.high, one.range.high, one.range.levels)
        return cls(one.name, one.floor, one.binary, wide, one.output)

    def __call__(self, target: Floats, prediction: Floats) -> Floats:
        return super().__call__(target, prediction[:, 1]) - super().__call__(target, prediction[:, 0])


@dataclass(frozen=True, kw_only=True)
class Rates(Coded):
    """Differences of rates made concrete: all that fixes the counts and their noise."""

    target: str
    truth: Target
    threshold: float
    output: PublicRange
    groups: tuple[Crossing, ...]  # one for each histogram; one of everybody where no groups are asked for

    @property
    def size(self) -> int:
        return CELLS * sum(crossing.size for crossing in self.groups)

    def columns(self, predictor: Predictor) -> list[str]:
        """The columns that are read."""
        named = [name for crossing in self.groups for name in crossing.columns]
        return list(dict.fromkeys([*predictor.features, self.target, *named]))


def rates_statistic(rows: Rows, predictor: Predictor, spec: Rates) -> Integers:
    """The exact counts of one batch: no noise, no budget, no randomness."""
    happened = (spec.truth(rows[spec.target]) >= 0.5).astype(np.int64)
    decided = (predictor.predict_at(predictor.inputs(rows), {}) >= spec.threshold).astype(np.int64)
    cell = 4 * happened + 2 * decided[:, 0] + decided[:, 1]
    counts = [np.bincount(CELLS * c.place(rows) + cell, minlength=CELLS * c.size) for c in spec.groups]
    return np.concatenate(counts).astype(np.int64)


def rates_sensitivity(spec: Rates, neighbours: Neighbours) -> Sensitivity:
    """How far one unit moves the counts: a row is in one cell of each partition."""
    return Sensitivity.of_counts(neighbours, len(spec.groups))


def rates_forecast(spec: Rates, neighbours: Neighbours, cost: Cost) -> Noise:
    """The noise of the counts at this cost. Costs nothing, touches no data."""
    return best(rates_sensitivity(spec, neighbours), spec.size, cost)
