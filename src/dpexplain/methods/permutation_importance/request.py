"""What a caller decides about permutation importance."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from dpexplain.errors import InputError
from dpexplain.methods.request import Flag, Mechanism, Must, Names, Request, Seed, Smooth

# inf means no limit; JSON has no such number
Clip = Annotated[
    float | None,
    Field(gt=0),
    BeforeValidator(lambda value: math.inf if value == "inf" else value),
    PlainSerializer(lambda value: "inf" if value == math.inf else value, when_used="json"),
]


class PermutationImportance(Request):
    """How much worse the model predicts when the values of one column are replaced by other ones."""

    target: Annotated[
        str,
        Field(description="The declared column that the model predicts."),
        Flag(text="The declared column that the model predicts. Default: the project's."),
    ]
    features: Annotated[Names, Field(description="Whose importance is asked for. Default: all of the model.")] = None
    loss: Annotated[
        Literal["squared", "absolute", "log", "accuracy"], Field(description="How wrong a prediction is.")
    ] = "squared"
    positive: Annotated[
        str | int | float | bool | None,
        Field(description="The value of the target that counts as one, others as zero. Default: the model's label."),
        Must("a value of the target"),
    ] = None
    clip: Annotated[
        Clip,
        Field(
            description="The most by which the losses of a row, or a group of rows, may change in all; inf: no limit. "
            "By default it is chosen from the data, with noise."
        ),
        Must("a positive number"),
    ] = None
    limit: Annotated[
        Literal["order", "interval"],
        Field(description="What large changes are limited for: a more certain order, or narrower intervals."),
    ] = "order"
    repeats: Annotated[
        int | None,
        Field(ge=1, le=100, description="How many other values each row takes. Default: by forecast."),
    ] = None
    floor: Annotated[
        float,
        Field(ge=1e-9, lt=0.5, description="The least probability that the log loss takes a class to have."),
        Must("a probability of at least 1e-09 and below one half"),
    ] = 0.01
    method: Annotated[
        Literal["default", "marginals", "groups", "paper"],
        Field(
            description="Where other values come from: other rows of small groups, or marginals that are handed over. "
            "By default marginals if there are some. paper: the published design, replace-one only."
        ),
    ] = "default"
    mechanism: Mechanism = None
    seed: Annotated[Seed, Field(description="The seed of the public permutations of the published design.")] = 0
    smooth: Smooth = True

    @model_validator(mode="after")
    def _check(self) -> PermutationImportance:
        if self.method == "paper" and (self.clip is not None or self.repeats is not None or self.limit != "order"):
            raise InputError('method="paper" has neither clip nor repeats, and no limit.', hint="leave them out")
        return self

    @property
    def label(self) -> str:
        names = "" if self.features is None else f": {', '.join(self.features)}"
        return f"permutation importance for {self.target}{names}"
