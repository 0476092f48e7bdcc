"""The mean over parts of the rows of what a plot explainer says about each part."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import expi

from dpexplain.core.sensitivity import Assignment
from dpexplain.results.curve import MeanCurve
from dpexplain.results.means import Means

CAUTION = 1.96  # standard deviations by which the released number of parts that answered is taken as too large
MOST_UNITS = 500.0  # in a part, on average: with more of them parts are even


@dataclass(frozen=True)
class GenericCurve(MeanCurve):
    """The mean, over a public number of parts, of a black box's curve; over the parts that answered, where not all of
    them have rows.

    Intervals of partial dependence cover the mean over all rows: chance in how many rows share a part is in them. For
    any other explainer they cover the mean over the parts as they were dealt, not what it would say about all rows.
    """

    kind: ClassVar[str] = "generic-plot"
    quantity: ClassVar[str] = "mean over parts"

    @property
    def name(self) -> str:
        return f"{self.spec['explainer']['title']}, mean over {self.parts} parts,"

    @property
    def parts(self) -> int:
        return int(self.spec["parts"]["number"])

    @property
    def caveat(self) -> str:
        if not self._whole:
            return "The interval is about the mean over the parts as they were dealt, not about all rows at once. "
        if self.receipt.neighbours.unit is not None:
            return "Rows of units with few rows count more; the interval leaves that out. "
        if self.spec["parts"]["assignment"] == Assignment.KEYED.value:
            return "Rows that share an id share a part: the interval holds if every row has an id of its own. "
        return ""

    @property
    def _whole(self) -> bool:
        """Whether intervals cover the mean over all rows; those of earlier versions did not."""
        return bool(self.spec.get("whole", False))

    @cached_property
    def _means(self) -> Means:
        plain = super()._means
        if not self._whole:
            return plain
        if not plain.weight:
            return replace(plain, unevenness=unevenness(self.parts, self.receipt.request["table"]["rows"]))
        return replace(plain, unevenness=unevenness(self.parts, None, fewest_answers(plain, self.parts)))

    @property
    def _number(self) -> int | None:
        if not 0 < self.parts < 2**31:
            raise ValueError("no number of parts")
        return self.parts


def fewest_answers(means: Means, parts: int) -> float:
    """How many parts may be expected to have rows, at least, by the noisy count of those that answered."""
    empty = max(0.0, parts - means.count + CAUTION * means.noise.std / means.weight)
    return parts - (math.sqrt(empty + 1) + CAUTION / 2) ** 2  # so many may be expected, if so few came (Poisson)


def unevenness(parts: int, rows: int | None, answered: float = 0.0) -> float:
    """Variance of the mean over parts around that over all rows, for rows of variance 1, over the ways to deal them.

    A row in a part of k rows weighs 1 / (A k), A parts having rows, instead of 1 / n. In a random order of the rows the
    variance is the sum of the squared differences, (sum over parts of 1 / k) / A^2 - 1 / n. Dealt evenly, k is n / l
    rounded down or up. Dealt independently, k is a Poisson number of mean u with 1 - exp(-u) = A / l, and the sum of
    1 / k is l exp(-u) (Ei(u) - log u - Euler's constant); fewer rows, more of it. Units, where they are dealt, are
    taken as rows.
    """
    if rows is not None:
        least, more = divmod(rows, parts)
        if least < 1:
            raise ValueError("more parts than rows")
        return (more / (least + 1) + (parts - more) / least) / parts**2 - 1 / rows
    share = max(answered, 1.0) / parts
    u = min(-math.log1p(-share), MOST_UNITS) if share < 1 else MOST_UNITS
    inverses = np.exp(-u) * (expi(u) - np.log(u) - np.euler_gamma)
    return max(float(inverses / (1 - np.exp(-u)) ** 2 - 1 / u), 0.0) / parts
