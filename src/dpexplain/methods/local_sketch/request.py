"""What a caller decides about a local sketch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from dpexplain.errors import InputError
from dpexplain.methods.request import Flag, Must, Names, Request, Seed

MOST_CELLS = 1_024


class LocalSketchRequest(Request):
    """Moments of rows and predictions in cells, or synthetic rows of a stand-in, from which any record can be
    explained.
    """

    method: Annotated[
        Literal["auto", "moments", "stand-in"],
        Field(
            description="stand-in: synthetic rows of a stand-in that the cost is for, in every account; moments: sums "
            "of rows and predictions in cells, in accounts with a delta; auto: by public things, as measured."
        ),
    ] = "auto"

    features: Annotated[
        Names, Field(description="Those in whose terms predictions are explained. Default: all that the model uses.")
    ] = None
    cells: Annotated[
        Annotated[int, Field(ge=1, le=MOST_CELLS)] | None, Field(description="How many cells. Default: by forecast.")
    ] = None
    centres: Annotated[
        Literal["marginals", "domain"] | list[Any] | tuple[Any, ...],
        Field(
            description='"marginals": where the rows are, by histograms that a tenth of the cost is for. "domain": '
            "spread evenly over the declared domain. Or a list of records, public ones, one for each cell."
        ),
        Must('a list of records, "marginals" or "domain"'),
        Flag(
            text="Where the cells are: marginals, where the rows are, by histograms that a tenth of the cost is for; "
            "or domain, spread evenly."
        ),
    ] = "marginals"
    radius: Annotated[
        Annotated[float, Field(ge=2**-16, le=1e4)] | None,
        Field(
            description="The distance from its centre, in coordinates, beyond which a row counts less (default: by the "
            "centres)."
        ),
        Must("a positive length in coordinates"),
    ] = None
    seed: Annotated[Seed, Field(description="The seed: another one gives other centres.")] = 0

    @model_validator(mode="after")
    def _check(self) -> LocalSketchRequest:
        listed = not isinstance(self.centres, str)
        if listed and (not 1 <= len(self.centres) <= MOST_CELLS or self.cells not in (None, len(self.centres))):
            raise InputError(f"there must be 1 to {MOST_CELLS} centres, and as many as cells.", hint="leave out cells")
        if self.method == "stand-in" and self.of_cells:
            raise InputError(
                "cells, centres, radius and seed are options of moments; a stand-in has none of them.",
                hint='leave them out, or use method="moments"',
            )
        return self

    @property
    def of_cells(self) -> bool:
        """Whether an option of moments was given."""
        return (self.cells, self.centres, self.radius, self.seed) != (None, "marginals", None, 0)

    @property
    def needs_delta(self) -> bool:
        return self.method == "moments" or (self.method == "auto" and self.of_cells)

    @property
    def label(self) -> str:
        return "local sketch" + ("" if self.features is None else " of " + ", ".join(self.features))
