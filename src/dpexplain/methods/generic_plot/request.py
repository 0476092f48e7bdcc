"""What a caller decides about a generic plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from dpexplain.errors import InputError
from dpexplain.methods.black_box import (
    BUILT_IN,
    PAPER_PARTS,
    FunctionName,
    FunctionVersion,
    NumberOfParts,
    identity_of,
)
from dpexplain.methods.request import Mechanism, Must, Names, Request

Explainer = Callable[..., Any] | Literal["pdp", "ale"]
PAPER_POINTS = 20


class GenericPlot(Request):
    """A plot of one feature by any explainer, as the mean over parts of the rows."""

    explainer: Annotated[
        Explainer,
        Field(description='A function (rows, model) -> (x, y), or "pdp" or "ale" for our own plain ones.'),
        Must('a function (rows, model), or "pdp" or "ale"'),
    ]
    feature: Annotated[str, Field(description="The feature that x belongs to.")]
    output: Annotated[
        tuple[float, float],
        BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
        Field(description="The public box (low, high) that y is clipped to."),
        Must("a pair (low, high): the box that the plot is clipped to"),
    ]
    columns: Annotated[
        Names, Field(description="The columns that the function sees; by default all declared ones.")
    ] = None
    parts: NumberOfParts = None
    grid: Annotated[
        int | Sequence[float | str] | None,
        Field(
            description="A number of points, or the points themselves. By default the domain and the forecast decide."
        ),
        Must("a number of points, or the points themselves"),
    ] = None
    rug: Annotated[bool, Field(description="Also release where the rows are.")] = True
    smooth: Annotated[
        bool, Field(description="Smooth the released values (free; intervals stay those of the unsmoothed ones).")
    ] = True
    method: Annotated[
        Literal["default", "paper"],
        Field(
            description='"paper" is the published form: 200 parts, 20 points, Laplace noise, nothing after it. parts= '
            "and grid= may differ."
        ),
    ] = "default"
    name: FunctionName = None
    version: FunctionVersion = None
    mechanism: Mechanism = None

    @model_validator(mode="after")
    def _check(self) -> GenericPlot:
        _ = self.identity
        if self.method == "paper" and self.mechanism is not None:
            raise InputError('method="paper" has Laplace noise.', hint="leave mechanism= out")
        return self

    @property
    def form(self) -> GenericPlot:
        """This request with all that its method says written out."""
        if self.method == "default":
            return self
        options = {"parts": self.parts or PAPER_PARTS, "grid": PAPER_POINTS if self.grid is None else self.grid}
        return self.but(method="default", smooth=False, mechanism="discrete-laplace", **options)

    @property
    def identity(self) -> tuple[str, str]:
        """Name and version of the explainer in the ledger. The published form has the definitions of the paper."""
        name, version = identity_of(self.explainer, self.name, self.version)
        return name, BUILT_IN if self.built_in and self.method == "paper" else version

    @property
    def built_in(self) -> Literal["pdp", "ale"] | None:
        return self.explainer if isinstance(self.explainer, str) else None

    @property
    def label(self) -> str:
        return f"{self.identity[0]} of {self.feature} in parts"
