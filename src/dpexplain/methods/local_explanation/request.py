"""What a caller decides about the local explanation of one record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from dpexplain.errors import InputError
from dpexplain.methods.request import Flag, Must, Names, Request

Anchor = float | Literal["prediction", "middle"]
NamedWeight = Literal["stable", "exponential", "gaussian"]
Iterations = Annotated[int, Field(ge=3, le=10_000)]


class AroundRecord(Request):
    """What requests about one record share."""

    record: Annotated[
        Any,
        Field(description="Whose prediction is explained: a mapping, a pandas Series, or values in order of features."),
    ]
    weight: Annotated[
        NamedWeight | Callable[[float], float],
        Field(description="How much a row counts by its distance: a name, or a function."),
        Flag(text="How much a row counts by its distance: stable, exponential or gaussian."),
        Must('"stable", "exponential", "gaussian" or a function of a distance'),
    ] = "stable"
    width: Annotated[
        float,
        Field(ge=1e-6, le=1e6, description="The width of a named weight, in coordinates (a feature is 1 wide)."),
        Must("a positive number, the width of a weight"),
    ] = 1.0
    radius: Annotated[
        float,
        Field(
            ge=0.01,
            le=16.0,
            description="The radius of the ball of coefficients; 1 is the paper's. With a fitted value the ball holds "
            "that value too, and is as much wider: hypot(radius, 2.5).",
        ),
    ] = 1.0

    @field_validator("record", mode="before")
    @classmethod
    def _mapping(cls, value: Any) -> Any:
        """A pandas Series as a mapping."""
        return value.to_dict() if hasattr(value, "to_dict") and getattr(value, "ndim", 1) == 1 else value


class LocalExplanation(AroundRecord):
    """The linear model that fits best around one record."""

    method: Annotated[
        Literal["auto", "moments", "gradient", "paper"],
        Field(
            description='"gradient" is Algorithm 1 of the paper; "auto" takes the smaller forecast loss; "paper" is '
            "the published form: Algorithm 1 with the noise and the loss of the paper."
        ),
    ] = "auto"
    anchor: Annotated[
        Anchor | None,
        Field(
            description="What the local model says at the record: a number, the model's own prediction, or the middle "
            "of the output range (the loss of the paper). Left out, it is fitted with the rest; the gradient method "
            "cannot, and takes the prediction."
        ),
        Must('a number, "prediction" or "middle"'),
    ] = None
    features: Annotated[Names, Field(description="Those that take part. Default: the model's inputs.")] = None
    iterations: Annotated[Iterations | None, Field(description="Steps of the gradient method: by forecast.")] = None
    accounting: Annotated[
        Literal["zcdp", "paper"],
        Field(description="How much noise the gradient method adds: as much as zCDP asks for, or as the paper."),
    ] = "zcdp"

    @model_validator(mode="after")
    def _check(self) -> LocalExplanation:
        paper = self.method == "paper"
        if self.method != "gradient" and (self.accounting != "zcdp" or (self.iterations is not None and not paper)):
            raise InputError('iterations and accounting belong to method="gradient".')
        return self

    @property
    def published(self) -> LocalExplanation:
        """The same request, with what method="paper" stands for written out."""
        if self.method != "paper":
            return self
        anchor: Anchor = "middle" if self.anchor is None else self.anchor
        return self.but(method="gradient", accounting="paper", anchor=anchor)

    @property
    def label(self) -> str:
        return "local explanation of one record"
