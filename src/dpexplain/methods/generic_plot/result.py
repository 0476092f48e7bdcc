"""The released curve of a generic plot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from dpexplain.core.sensitivity import Assignment
from dpexplain.maths.means import Means, fewest_answers, unevenness
from dpexplain.methods.curves import MeanCurve
from dpexplain.methods.generic_plot.spec import Spec


@dataclass(frozen=True)
class GenericCurve(MeanCurve):
    """The mean, over a public number of parts, of a black box's curve; over the parts that answered, where not all of
    them have rows.

    Intervals of partial dependence cover the mean over all rows: chance in how many rows share a part is in them. For
    any other explainer they cover the mean over the parts as they were dealt, not what it would say about all rows.
    """

    kind: ClassVar[str] = "generic-plot"
    spec_type: ClassVar[type[Spec]] = Spec
    quantity: ClassVar[str] = "mean over parts"

    @property
    def name(self) -> str:
        return f"{self.spec.explainer.title}, mean over {self.parts} parts,"

    @property
    def parts(self) -> int:
        return int(self.spec.parts.number)

    @property
    def caveat(self) -> str:
        if not self.spec.whole:
            return "The interval is about the mean over the parts as they were dealt, not about all rows at once. "
        if self.receipt.neighbours.unit is not None:
            return "Rows of units with few rows count more; the interval leaves that out. "
        if self.spec.parts.assignment is Assignment.KEYED:
            return "Rows that share an id share a part: the interval holds if every row has an id of its own. "
        return ""

    @cached_property
    def _means(self) -> Means:
        plain = super()._means
        if not self.spec.whole:
            return plain
        if not plain.weight:
            return replace(plain, unevenness=unevenness(self.parts, self.receipt.request["table"]["rows"]))
        return replace(plain, unevenness=unevenness(self.parts, None, fewest_answers(plain, self.parts)))

    @property
    def _number(self) -> int | None:
        return self.parts
