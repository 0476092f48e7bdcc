"""The mean over parts of the rows of what a plot explainer says about each part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpexplain.results.curve import MeanCurve


@dataclass(frozen=True)
class GenericCurve(MeanCurve):
    """The mean, over a public number of parts, of a black box's curve. Intervals cover that mean for the parts as they
    were dealt, not what the explainer would say about all rows at once.
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
    def _number(self) -> int | None:
        if not 0 < self.parts < 2**31:
            raise ValueError("no number of parts")
        return self.parts
