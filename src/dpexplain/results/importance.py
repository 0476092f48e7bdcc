"""Features in the order of their permutation importance: how much worse predictions become without them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from scipy.optimize import brentq

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Noise, checked_level
from dpexplain.results.base import Floats, Receipt
from dpexplain.results.marginals import Marginals
from dpexplain.results.means import Means
from dpexplain.results.ranking import Ranking

QUANTITIES = {
    "squared": "increase of the squared error",
    "absolute": "increase of the absolute error",
    "log": "increase of the log loss",
    "accuracy": "loss of accuracy",
}


@dataclass(frozen=True)
class Importance(Ranking):
    """Features by importance. `base` is the mean loss as the rows are, `errors` the one with each feature replaced.

    Where the changes of a row (or of a group of rows) were limited to a total of `limit`, scores and intervals are
    those of the limited changes: the order is little touched, but large changes are understated.
    """

    kind: ClassVar[str] = "permutation-importance"

    @property
    def quantity(self) -> str:  # type: ignore[override]
        return QUANTITIES[self.spec["loss"]["name"]]

    @property
    def possible(self) -> tuple[float, float]:
        return -self.losses.width, self.losses.width

    @property
    def title(self) -> str:
        return f"Permutation importance for {self.spec['target']}"

    @property
    def candidates(self) -> tuple[str, ...]:
        return tuple(str(feature) for feature in self.spec["features"])

    @property
    def _paper(self) -> bool:
        return bool(self.spec["method"] == "paper")

    @property
    def source(self) -> str:
        """Where the values came from that took the place of a row's own."""
        if self._paper:
            return "one permutation of each column"
        if self.marginals is not None:
            return "histograms that a part of the price bought"
        before = self.spec["marginals"] is not None
        return "histograms that were released before" if before else "other rows, in small groups"

    @property
    def caveat(self) -> str:
        said = f"Replacements came from {self.source}. Intervals show noise that was added here, not the chance in them"
        if self.marginals is None and self.spec["marginals"] is None:
            return f"{said}."
        return f"{said}, nor the noise of those histograms, by which columns with many rare values gain."

    @cached_property
    def marginals(self) -> Marginals | None:
        """The histograms that a part of the price bought, to be used again; None if other values came from earlier ones
        or from other rows.
        """
        return Marginals(self.receipt, self.released) if self.spec.get("partitions") else None

    @cached_property
    def losses(self) -> PublicRange:
        """The public range of one row's loss."""
        return PublicRange.from_json(self.spec["loss"]["range"])

    @property
    def limit(self) -> float | None:
        """The most that the losses of a row, or of a group of rows, could change in all; None: nothing was limited."""
        limits = self.spec["limits"]
        if self._paper:
            return None
        chosen = int(self.released["parts"]["limit"]["values"][0]) if len(limits) > 1 else 0
        if not 0 <= chosen < len(limits):
            raise ValueError("no limit of this number")
        return float(limits[chosen]) * self._step

    @property
    def _step(self) -> float:
        """One quantised step of a loss, in the units of the loss."""
        return self.losses.width / self.losses.levels

    @cached_property
    def _base(self) -> Means:
        """The mean loss as the rows are; in the faithful form it stands behind the errors."""
        sums, noise = self.part("errors" if self._paper else "base")
        place = slice(len(sums) - 1, None) if self._paper else slice(0, 1)
        return Means(sums, noise, self.losses, self.spec["count_weight"], self.receipt.request["table"]["rows"], place)

    @property
    def count(self) -> float:
        """The number of rows: public, or the released one; at least one."""
        return max(self._base.count, 1.0)

    @property
    def base(self) -> float:
        """The mean loss with nothing replaced."""
        return float(np.clip(self._base.unclipped, self.losses.low, self.losses.high)[0])

    def base_interval(self, level: float = 0.95) -> tuple[float, float]:
        """(low, high) around the exact mean loss with nothing replaced."""
        low, high = self._base.interval(level)
        return float(low[0]), float(high[0])

    @property
    def errors(self) -> Floats:
        """The mean loss with each candidate replaced, in their public order."""
        return self.base + self.scores

    def errors_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) around them. Base and importance are both noisy: each misses with half the probability."""
        each = (1 + checked_level(level)) / 2
        (base_low, base_high), (low, high) = self.base_interval(each), self.score_interval(each)
        return base_low + low, base_high + high

    @cached_property
    def _sums(self) -> tuple[Floats, Noise]:
        """The integers that importances are made of, and the law of the noise in each of them."""
        sums, noise = self.part("errors" if self._paper else "changes")
        scores = sums[:-1] - sums[-1] if self._paper else sums
        return scores.astype(np.float64), noise

    @property
    def _unit(self) -> float:
        """How much of a score one unit of the sums is."""
        return self._step / (self.count * company(self.spec, self.count))

    @cached_property
    def scores(self) -> Floats:
        return self._sums[0] * self._unit

    @property
    def gap_noise(self) -> tuple[Noise, float]:
        return self._sums[1], self._unit

    def score_interval(self, level: float) -> tuple[Floats, Floats]:
        level = checked_level(level)
        sums, noise = self._sums
        if self._paper:
            half = gap_halfwidth(noise, level)
        elif not self.spec["count_weight"]:
            half = noise.halfwidth(level)
        else:
            return self._ratio_interval((1 + level) / 2)
        return (sums - half) * self._unit, (sums + half) * self._unit

    def _ratio_interval(self, each: float) -> tuple[Floats, Floats]:
        """Both the sums and the number of rows are noisy; each misses with probability 1 - `each`."""
        sums, noise = self._sums
        half, unsure = noise.halfwidth(each), self._base.noise.halfwidth(each) / self.spec["count_weight"]
        few, many = self.count - unsure, self.count + unsure
        if few <= 0:
            whole = np.full(len(sums), self.losses.width)
            return -whole, whole
        ends = []
        for sign in (-1, 1):
            edge = (sums + sign * half) * self._unit * self.count
            ends.append(edge / np.where(sign * edge > 0, few, many))  # extreme at the smaller count, away from zero
        return ends[0], ends[1]

    def view(self) -> JsonObject:
        return {}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Self:
        if view:
            raise ValueError("an importance has no view")
        result = cls(receipt, released)
        if (
            not 0 < len(result.candidates) == len(result.scores)
            or not np.isfinite([result.base, result.limit or 0]).all()
        ):
            raise ValueError("the features do not fit the released values")
        result.check()
        result.base_interval()
        if result.marginals is not None:
            Marginals.rebuild(receipt, released, {})
            if result.marginals.features != list(result.candidates) or result.spec["marginals"] is not None:
                raise ValueError("the histograms do not fit the features")
        return result


def groups_for(count: float, group: int) -> int:
    """How many groups rows are dealt to, when there are about `count` rows and `group` of them shall be together."""
    return max(1, int(count / group))


def company(spec: JsonObject, count: float) -> float:
    """The expected share of the rows that have another one in their group; a row alone has nothing to be replaced by.

    Rows dealt by secret numbers can be alone; by position they never are. Where a unit has several rows, groups are so
    large that it hardly happens, and nothing is corrected.
    """
    if not spec["loners"] or count < 2:
        return 1.0
    return float(1 - (1 - 1 / groups_for(count, spec["group"])) ** (count - 1)) or 1.0


def gap_halfwidth(noise: Noise, level: float) -> float:
    """h with P(|z_i - z_j| <= h) >= level for two coordinates of one noise vector, rounded outwards."""

    def missing(gap: float) -> float:
        return noise.below(gap) - (1 + level) / 2

    wide = 4.0 * noise.halfwidth((1 + level) / 2) + 4  # more than enough: two such halfwidths cover it
    return float(np.ceil(brentq(missing, 0.0, wide))) + 1
