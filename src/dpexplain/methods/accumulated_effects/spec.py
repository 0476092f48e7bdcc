"""The spec of accumulated effects, its statistic and sensitivity, and the bins and curves that follow from answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Noise
from dpexplain.core.sensitivity import Neighbours, Sensitivity
from dpexplain.data.rows import Rows
from dpexplain.maths.accumulation import Accumulation
from dpexplain.maths.binning import Bins, Steps
from dpexplain.maths.coded import Coded
from dpexplain.maths.grids import Partition
from dpexplain.maths.ladder import Ladder
from dpexplain.maths.posterior import FEWEST_ROWS, Prior
from dpexplain.methods.accumulated_effects.request import MOST_BINS
from dpexplain.methods.histogram import size_of
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.sharpening import SEED, Source
from dpexplain.models import Predictor
from dpexplain.models.predictor import Inputs

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
FEW_ROWS = 20  # synthetic rows of a bin, up to which all synthetic rows count more for its effect
LEVEL_PARTS = "quantiles-{}"  # the prefix of the parts that hold the quantiles of one feature


@dataclass(frozen=True)
class Spec(Coded):
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    steps: tuple[Steps, ...]
    ladders: tuple[Ladder | None, ...]  # for features whose bins are quantiles
    output: PublicRange
    clip: float
    bins: int | None
    count_noise: float  # of a cell's count: by this and the next the bins are chosen
    sum_noise: float  # of a bin's sum, in units of the output range
    shares: tuple[Fraction, Fraction, Fraction]  # of the price: counts, quantiles, effects
    mechanism: str | None
    cut: bool = False  # whether the curve ends at the width of the output range; those of earlier versions did not
    marginals: str | None = None  # the hash of the released values that the counts are taken from

    def __post_init__(self) -> None:
        if self.bins is not None and not 1 <= self.bins <= MOST_BINS:
            raise ValueError("no number of bins of ours")

    def to_json(self) -> JsonObject:
        said = super().to_json() | {"span": self.span, "levels": self.levels}
        return {name: value for name, value in said.items() if name != "marginals" or value is not None}

    @property
    def span(self) -> float:
        return self.output.width

    @property
    def differences(self) -> PublicRange:
        """What a row's difference is clipped to."""
        return PublicRange(-self.clip, self.clip, self.levels)

    @property
    def levels(self) -> int:
        """K: the quantised differences are whole numbers from -K/2 to K/2."""
        return self.output.levels

    @property
    def unit(self) -> float:
        """One whole number of a sum, in units of the output."""
        return 2 * self.clip / self.levels

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The cells of the histograms, feature after feature."""
        return tuple(steps.cells for steps in self.steps)

    @property
    def cells(self) -> int:
        return size_of(self.partitions)

    def known_counts(self, marginals: Marginals) -> Integers:
        """The counts of the cells in marginals that were released before: without those of missing values, the last."""
        if marginals.receipt.hash_of(marginals.released) != self.marginals:
            raise ValueError("the marginals are not those that the curve was made with")
        return np.concatenate([marginals.noisy_counts(p.feature)[: p.size] for p in self.partitions])

    @property
    def by_quantile(self) -> dict[int, Ladder]:
        """The features whose bins are quantiles, by their place."""
        return {place: ladder for place, ladder in enumerate(self.ladders) if ladder is not None}

    def costs(self, cost: Cost) -> tuple[Cost, Cost, Cost]:
        """The cost of the counts, of the quantiles of one feature, and of the effects; together at most `cost`."""
        counts, quantiles, effects = self.shares
        return cost * counts, cost * (quantiles / max(1, len(self.by_quantile))), cost * effects

    def bins_of(
        self, counts: Sequence[int], rows: int | None, positions: Mapping[int, Sequence[int]] | None = None
    ) -> list[Bins]:
        """The bins of each feature, from the released counts or, by its place, the positions of its quantiles.

        The number of rows is public, or the mean over the features of the sums of their counts; that of a feature with
        missing values is its own sum.
        """
        if len(counts) != self.cells:
            raise ValueError("the counts do not fit the cells")
        ends = np.cumsum([steps.cells.size for steps in self.steps])[:-1]
        noisy = np.split(np.asarray(counts, dtype=np.float64), ends)
        whole = [float(own.sum()) for steps, own in zip(self.steps, noisy, strict=True) if not steps.missing]
        total = float(rows) if rows is not None else max(1.0, sum(whole) / max(len(whole), 1))
        stds = {"count_std": self.count_noise, "sum_std": self.sum_noise}
        bins = []
        for place, (steps, own, ladder) in enumerate(zip(self.steps, noisy, self.ladders, strict=True)):
            if ladder is None:
                among = max(1.0, float(own.sum())) if steps.missing else total
                bins.append(Bins.of_counts(steps, own, among, number=self.bins, **stds))
                continue
            inner, column = ladder.values((positions or {})[place][1:-1]), ladder.column
            values = np.concatenate([[column.low], inner, [column.high]])
            bins.append(Bins.of_quantiles(values, np.array([float(p) for p in ladder.ends]), total))
        return bins

    def moved(self, levels: Floats) -> Floats:
        """The differences between neighbouring points, from what the model says at each of them."""
        moved = np.diff(levels, axis=0) if len(levels) > 1 else np.zeros_like(levels)
        return np.clip(moved, -self.clip, self.clip)

    def sharing(self, place: int, *, rows_public: bool) -> tuple[int, int, bool]:
        """Who shares the total with one feature: `sharing`, `shared` and `own_total` of its `Accumulation`."""
        whole = [steps.cells.size for steps in self.steps if not steps.missing]
        return 0 if rows_public else len(whole), sum(whole), self.steps[place].missing

    def curve(
        self, place: int, bins: Bins, sums: Floats, effects: Noise, counts: Noise, *, rows_public: bool
    ) -> Accumulation:
        """The curve of one feature from its sums, in units of the output, and the noise of all sums and counts."""
        shares = self.sharing(place, rows_public=rows_public)
        return Accumulation(bins, sums, self.unit, effects, counts, self.clip, self.span, *shares, self.cut)


def statistic(rows: Rows, predictor: Predictor, spec: Spec, bins: Sequence[Bins]) -> Integers:
    """Exact integer sums of differences of one batch: no noise, no budget, no randomness."""
    inputs, output, zero = predictor.inputs(rows), spec.output, spec.levels // 2
    limits, own = spec.differences, None

    def predictions(fixed: dict[str, Any]) -> Floats:
        return np.clip(predictor.predict_at(inputs, fixed), output.low, output.high)

    sums = []
    for steps, chosen in zip(spec.steps, bins, strict=True):
        values, total = rows[steps.feature], np.zeros(chosen.size, dtype=np.int64)
        if steps.ordered:
            points, present = np.asarray(chosen.points), steps.present(values)
            place = chosen.place(np.where(present, values, points[0]))
            low, high = (predictions({steps.feature: points[place + side]}) for side in (0, 1))
            np.add.at(total, place, np.where(present, limits.quantize(high - low) - zero, 0))
        else:
            last = len(steps.points) - 1
            own = predictions({}) if own is None else own
            for step, away in ((0, 1), (-1, -1)):  # to the next category, to the one before
                there = values + away
                inside = (there >= 0) & (there <= last)
                inside &= (values == 0) | (away < 0) | (not steps.one_sided)
                other = predictions({steps.feature: np.clip(there, 0, last)})
                np.add.at(total, (values + step)[inside], (limits.quantize(away * (other - own)) - zero)[inside])
        sums.append(total)
    return np.concatenate(sums)


def prior(predictor: Predictor, source: Source, rows: int, spec: Spec, bins: Sequence[Bins]) -> Prior:
    """What synthetic rows say about the effect in each bin of each feature.

    How effects go together: their covariance over all synthetic rows, each moved through all bins. Their means: the
    same, where columns are independent. Where they are not, those of the synthetic rows that lie in the bin, drawn
    without even values, as far as there are enough of them.
    """
    inputs, pairs = predictor.inputs(source.draw(max(FEWEST_ROWS, rows // 2))), zip(spec.steps, bins, strict=True)
    lines = [spec.moved(levels_at(predictor, inputs, spec, steps, own.points)) for steps, own in pairs]
    found = Prior.of_answers(np.concatenate(lines), source.most, rows)
    if not source.joint.pairs:
        return found
    inside = Rows(source.joint.domain, source.joint.draw(2 * rows, SEED), 2 * rows)
    sums = spec.unit * statistic(inside, predictor, spec, bins)
    there = np.concatenate([_counted(inside, *pair) for pair in zip(spec.steps, bins, strict=True)])
    return found.with_means((sums + FEW_ROWS * found.means) / (there + FEW_ROWS))


def levels_at(predictor: Predictor, inputs: Inputs, spec: Spec, steps: Steps, points: Sequence[Any]) -> Floats:
    """[point, row]: what the model says about some rows with one feature at each of these points."""
    settings = points if steps.ordered else range(len(points))
    answers = [predictor.predict_at(inputs, {steps.feature: point}) for point in settings]
    return np.nan_to_num(np.clip(answers, spec.output.low, spec.output.high), nan=spec.output.middle)


def _counted(rows: Rows, steps: Steps, bins: Bins) -> Integers:
    """How many rows each effect of one feature is the mean of."""
    values = rows[steps.feature]
    if steps.ordered:
        return np.bincount(bins.place(values[steps.present(values)]), minlength=bins.size)
    each = np.bincount(values.astype(np.int64), minlength=len(steps.points))
    return (bins.members @ each).astype(np.int64) if len(each) > 1 else each


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """How far the sums can move, from the public request alone: not from the bins, so these may be chosen later."""
    half, touched = spec.levels // 2, sum(steps.touched for steps in spec.steps)
    return Sensitivity.of_norms(neighbours, l1=touched * half, l2_squared=touched * half**2, linf=half)
