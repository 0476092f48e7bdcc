"""What a caller decides about explanations that build on each other."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from dpexplain.methods.local_explanation.request import Anchor, AroundRecord, Iterations
from dpexplain.methods.request import Must


class AdaptiveExplanation(AroundRecord):
    """One record of a stream; `AdaptiveExplainer` keeps what was explained before."""

    iterations: Annotated[
        Iterations, Field(description="T: steps of a query without a history, and the most of any.")
    ] = 300
    enhanced: Annotated[
        bool, Field(description="Fewer steps, without the paper's guarantee of accuracy (its section 4.4).")
    ] = False
    reuse_distance: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | None,
        Field(
            description="A record at most this far from a computed one gets the same explanation, free (default: log T "
            "/ sqrt T; 0: only the same record again)."
        ),
    ] = None
    candidates: Annotated[
        Annotated[int, Field(ge=1, le=100_000)] | None,
        Field(
            description="Among how many of the computed explanations nearest to the record a path may begin; None: "
            "among all of them, as in the paper."
        ),
        Must("a whole number from 1 to 100000, or None for all"),
    ] = 32
    accounting: Annotated[
        Literal["zcdp", "paper"],
        Field(description="How much noise a step adds: as much as zCDP asks for, or as the paper."),
    ] = "zcdp"
    method: Annotated[
        Literal["default", "paper"],
        Field(
            description='"paper" is the published form, corrected where it was not private: all candidates, the noise '
            "and the loss of the paper, its labels after the budget."
        ),
    ] = "default"
    anchor: Annotated[
        Anchor,
        Field(
            description="What the local model says at the record: the model's own prediction, the middle of the output "
            "range (the paper's loss, whose slopes have to make up for it), or a number."
        ),
        Must('a number, "prediction" or "middle"'),
    ] = "prediction"

    @property
    def published(self) -> AdaptiveExplanation:
        """The same request, with what `method` stands for written out."""
        if self.method != "paper":
            return self
        anchor: Anchor = "middle" if self.anchor == "prediction" else self.anchor
        return self.but(method="default", candidates=None, accounting="paper", anchor=anchor)

    @property
    def label(self) -> str:
        return "adaptive explanation of one record"

    @property
    def reach(self) -> float:
        """How far an explanation is reused."""
        if self.reuse_distance is not None:
            return self.reuse_distance
        return math.log(self.iterations) / math.sqrt(self.iterations)
