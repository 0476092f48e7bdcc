"""What a caller decides about transparency reports."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dpexplain.methods.influence.request import Exact, Outcomes, Row, Threshold
from dpexplain.methods.request import Mechanism, Names, Request, Seed


class TransparencyRequest(Request):
    """Reports on persons, any number of them for one cost."""

    features: Annotated[
        Names,
        Field(
            description="The columns that are reported on; by default those the model uses. One that the model does "
            "not use has no influence, but may well be associated with the outcome."
        ),
    ] = None
    quantity: Annotated[
        Literal["individual", "actual"],
        Field(
            description='"individual": what each value moved the outcome by; "actual": how often another one would '
            "change it."
        ),
    ] = "individual"
    aggregate: Annotated[
        Literal["shapley", "banzhaf", "unary"],
        Field(description='"shapley" as in the paper, "banzhaf", or "unary": each feature replaced by itself.'),
    ] = "shapley"
    outcome: Outcomes = None
    threshold: Threshold = None
    cells: Annotated[
        int | None,
        Field(
            ge=1,
            description="About how many cells a column with many values has, narrow ones at its low end, where "
            "tables often have a spike. By default the forecast decides, from 24 on.",
        ),
    ] = None
    samples: Annotated[
        int | None,
        Field(
            ge=1,
            description="Orders of features that Shapley values are drawn from. By default their number decides.",
        ),
    ] = None
    exact: Exact = None
    seed: Annotated[Seed, Field(description="The seed of the public draws.")] = 0
    mechanism: Mechanism = None
    row: Annotated[
        Row, Field(description="The persons: a mapping, or a list of them. They are no part of what is released.")
    ] = None

    given: ClassVar[tuple[str, ...]] = ()  # nothing is replaced in any case, as it may be for influences

    @property
    def label(self) -> str:
        return "transparency report"  # what the ledger calls a release must follow from what was released

    @property
    def free_with_marginals(self) -> bool:
        return True
