"""What a caller decides about an explanation of clusters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, model_validator

from dpexplain.errors import InputError
from dpexplain.methods.request import Flag, Must, Names, Request

CHOICE_ONLY = ("bounds", "histograms", "candidates", "selection_share")
MOST_PARTS = 100  # weights are multiples of one such part, or of a larger one


class Weights(NamedTuple):
    """Weights of interestingness, sufficiency and diversity: whole numbers, parts of their sum."""

    interest: int
    sufficiency: int
    diversity: int

    @classmethod
    def of(cls, given: Sequence[float]) -> Weights:
        """From three numbers that add up to one."""
        weights = list(map(float, given))
        if len(weights) != 3 or not all(0 <= weight <= 1 for weight in weights) or abs(sum(weights) - 1) > 1e-6:
            raise InputError(
                f"weights are three numbers of at least 0 that add up to 1; got {given!r}."[:200],
                hint="weights=(interestingness, sufficiency, diversity), for example (0.5, 0.25, 0.25)",
            )
        for parts in range(1, MOST_PARTS + 1):
            near = [round(weight * parts) for weight in weights]
            if sum(near) == parts and all(abs(n - w * parts) < 1e-6 for n, w in zip(near, weights, strict=True)):
                return cls(*near)
        raise InputError(
            f"weights are whole parts of {MOST_PARTS} or fewer; got {given!r}."[:200],
            hint="round them to two digits, for example (0.33, 0.33, 0.34)",
        )


def _exact(value: Any) -> Any:
    """In JSON a fraction is a text."""
    written = isinstance(value, str) and re.fullmatch(r"\d{1,40}/[1-9]\d{0,39}", value, re.ASCII)
    return Fraction(value) if written else value


class Clusters(Request):
    """Everything about an explanation of clusters, but the clustering."""

    labels: Annotated[
        Sequence[str | int | float] | None,
        Field(description="The names of the clusters. By default those of the clustering."),
        Flag(""),
        Must("a list of names"),
    ] = None
    attributes: Annotated[
        Names,
        Field(description="The columns that may explain a cluster. By default all that have more than one value."),
    ] = None
    method: Annotated[
        Literal["auto", "posterior", "one-stage", "two-stage", "paper"],
        Field(
            description='"auto": "posterior" where the forecast of "one-stage" is not good, or with a stand-in, else '
            '"one-stage". "posterior" releases the counts of all clusters and attributes and chooses by them, for '
            'nothing more; "one-stage" weighs all combinations of attributes and releases the chosen histograms alone; '
            '"two-stage" weighs those of the best candidates of each cluster; "paper" is the published form: two '
            "stages with its bounds and its histograms."
        ),
    ] = "auto"
    bounds: Annotated[
        Literal["tight", "paper"],
        Field(description='"tight" for our ranges of score changes, "paper" for the published ones.'),
    ] = "tight"
    histograms: Annotated[
        Literal["disjoint", "paper"],
        Field(
            description='"disjoint": counts inside the clusters and in the rest, which add up; "paper": half of the '
            "cost for counts inside, half for those of all rows, and the rest by subtraction."
        ),
    ] = "disjoint"
    candidates: Annotated[int, Field(ge=1, description="Candidates of each cluster, where there are two stages.")] = 3
    per_cluster: Annotated[int, Field(ge=1, description="How many attributes explain each cluster.")] = 1
    weights: Annotated[
        Sequence[float],
        Field(description="Weights of interestingness, sufficiency and diversity; they add up to one."),
        Must("three numbers of at least 0 that add up to 1"),
    ] = (1 / 3, 1 / 3, 1 / 3)
    cells: Annotated[int, Field(ge=2, description="How many cells a continuous attribute is cut into.")] = 10
    selection_share: Annotated[
        Annotated[float | Fraction, Field(gt=0, lt=1)] | None,
        BeforeValidator(_exact),
        Field(description="The part of the cost for the choice, the rest for histograms. By default by a forecast."),
        Must("a number between 0 and 1, for example 0.3"),
    ] = None

    @model_validator(mode="after")
    def _check(self) -> Clusters:
        if self.labels is not None and len(set(map(str, self.labels))) < len(self.labels):
            raise InputError("every cluster needs a name of its own.")
        weights = Weights.of(self.weights)
        if self.method in ("two-stage", "paper") and weights.interest + weights.sufficiency == 0:
            raise InputError(
                "two stages choose the candidates by interestingness and sufficiency: one of them needs a weight.",
                hint='method="one-stage" can do with diversity alone',
            )
        return self

    @model_validator(mode="after")
    def _check_posterior(self) -> Clusters:
        """What a choice with a cost of its own takes has no meaning where the choice is free."""
        if self.method == "posterior" and (unused := self.of_choice):
            raise InputError(
                f'{unused[0]} has no meaning with method="posterior": its choice has no cost of its own.',
                hint=f'leave {unused[0]} out, or use method="one-stage" or "two-stage"',
            )
        return self

    @property
    def of_choice(self) -> list[str]:
        """The options that were given and are about a choice with a cost of its own."""
        return [name for name in CHOICE_ONLY if getattr(self, name) != type(self).model_fields[name].default]

    @property
    def form(self) -> tuple[str, str, str]:
        """Stages, bounds and histograms: in the published form all three are the paper's."""
        return (
            (self.method, self.bounds, self.histograms) if self.method != "paper" else ("two-stage", "paper", "paper")
        )

    @property
    def share(self) -> Fraction | None:
        """The part of the cost for the choice, exactly as it was written."""
        given = self.selection_share
        return Fraction(repr(given)) if isinstance(given, float) else given

    @property
    def label(self) -> str:
        return "explanation of clusters" if self.labels is None else f"explanation of {len(self.labels)} clusters"
